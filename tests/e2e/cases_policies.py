# SPDX-License-Identifier: Apache-2.0
"""The rules of the admission policies, one by one: by the policies themselves, or by the webhook where the API server has none."""
import json

from harness.account import Account, patch
from harness.install import NAMESPACE
from harness.placed import GATE, annotation, job, pod_template
from harness.report import quick
from harness.waiting import Failed, until

GROUP = "topology.metax-tech.com"
PLAN = f"plan.{GROUP}/"
ALICE, AGENT, COMPANION = "alice", *(f"system:serviceaccount:{NAMESPACE}:gputopo-{name}" for name in ("agent", "scheduler"))
DRY = "--dry-run=server"


class User(Account):
    """Somebody with every right, whom RBAC does not refuse. An agent's token names its node from Kubernetes 1.30 on."""

    def __init__(self, cluster, name, user, node=None):
        super().__init__(cluster, name, "none")
        config = json.loads(cluster.kubectl("config", "view", "--raw", "-o", "json"))
        config["users"][0]["user"].update({"as": user, "as-groups": ["system:masters"]}, **(
            {"as-user-extra": {"authentication.kubernetes.io/node-name": [node]}} if node else {}))
        self.file.write_text(json.dumps(config))


def pod(name, namespace="default", plan=None, node=None, resource=None):
    spec = {"containers": [{"name": "main", "image": "local.test/none:1", "resources": {"limits": {resource: "1"}} if resource else {}}]}
    if node:
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": {"name": name, "namespace": namespace, "annotations": {f"{PLAN}node": plan} if plan else {}}}


class PolicyCases:
    def __init__(self, chart, by_webhook=False):
        self.chart, self.cluster, self.by_webhook = chart, chart.cluster, by_webhook

    def marks(self, policy):
        """What the API server says where a rule of this policy is broken."""
        return f'"gputopo-{policy}.rules.{GROUP}" denied the request' if self.by_webhook else f"ValidatingAdmissionPolicy 'gputopo-{policy}'"

    def gated(self):
        """A pod with our gate, which stays since somebody else's gate holds its job."""
        template = pod_template(8, group=16)
        del template["spec"]["nodeSelector"]
        template["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
        self.cluster.kubectl("create", "-f", "-", data=job("gated", 2, template))
        items = until("gated pods", lambda: [item for item in self.cluster.get("pods", "-l", "job-name=gated")["items"]
                                             if {"name": GATE} in item["spec"]["schedulingGates"]])
        return items[0]["metadata"]["name"]

    def rows(self, run, placement, other, gated):
        """(user, arguments of kubectl, data, the policy that refuses it or None). `run`: a pod of a planned job, `other`: its node's fellow."""
        node, name = run["spec"]["nodeName"], run["metadata"]["name"]
        taint, status = {"taints": [{"key": "a", "effect": "NoSchedule"}]}, ("--subresource=status", DRY)
        event = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "rules.1", "namespace": "default"}, "action": "a",
                 "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "R", "reportingController": "c", "reportingInstance": "i"}

        def about(kind, of):
            return {**event, "regarding": {"kind": kind, "name": of, "namespace": "default" if kind == "Pod" else ""}}

        def isolated(by):
            return {"spec": {"isolated": [{"gpu": "0", "by": by, "reason": "r"}]}}

        def condition(kind):
            return {"status": {"conditions": [{"type": kind, "status": "True", "reason": "r", "message": "m"}]}}
        owner = {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": other, "uid": "u"}]}}
        made = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "GPUPlacement", "metadata": {"name": "forged", "namespace": "default"},
                "spec": {"job": "default/Job/j", "pods": 1, "gpus": 1, "templates": [{"pods": 1, "gpus": 1}], "onLostPlan": "Report"}}
        supernode = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Supernode", "metadata": {"name": "forged"}}
        bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": gated, "annotations": {f"{PLAN}node": node}}}
        path = f"/api/v1/namespaces/default/pods/{gated}/binding?dryRun=All"
        own, foreign = ({"metadata": {"labels": {f"metax-tech.com/{key}": "x"}}} for key in ("gpu.family", "other"))
        annotations = [{"metadata": {"annotations": {key: "x"}}} for key in ("metax-tech.com/gpu.topology.scores", "other", f"{PLAN}gpus")]
        agent = [
            (("create", DRY, "-f", "-"), supernode, "agent-topology"),
            (patch("ngt", node, owner, DRY), None, "agent-topology"),
            (patch("ngt", node, isolated(AGENT), DRY), None, "agent-topology"),
            (patch("ngt", node, own, DRY), None, None),
            (patch("node", node, own, DRY), None, None),
            (patch("node", node, foreign, DRY), None, "agent-node"),
            (patch("node", node, annotations[0], DRY), None, None),
            (patch("node", node, annotations[1], DRY), None, "agent-node"),
            (patch("node", node, {"spec": taint}, DRY), None, "agent-node"),
            (patch("node", node, {"metadata": {"finalizers": ["example.com/stays"]}}, DRY), None, "agent-node"),
            (patch("node", node, {"status": {"capacity": {"metax-tech.com/gpu": "64"}}}, *status), None, "agent-node"),
            (patch("node", node, {"status": {"phase": "Pending"}}, *status), None, "agent-node"),
            (("patch", "node", node, "--type=strategic", "-p", json.dumps(condition("Ready")), *status), None, "agent-node"),
            (("patch", "node", node, "--type=strategic", "-p", json.dumps(condition("MetaXGPUHealthy")), *status), None, None),
            (("delete", "node", node, DRY), None, "agent-node"),
            (("create", DRY, "-f", "-"), about("Pod", name), "agent-event"),
            (("create", DRY, "-f", "-"), about("Node", node), None),
        ]
        foreign_node = [(patch("node", other, own, DRY), None, "agent-node"), (patch("ngt", other, own, DRY), None, "agent-topology"),
                        (("create", DRY, "-f", "-"), about("Node", other), "agent-event")]
        if self.by_webhook:  # what it cannot know there
            foreign_node = [(arguments, data, None) for arguments, data, _ in foreign_node]
        people = [
            (patch("ngt", node, isolated("bob"), DRY), None, "isolation"),
            (patch("ngt", node, isolated(ALICE), DRY), None, None),
            (("create", DRY, "-f", "-"), made, "placement"),
            (patch("gpl", placement, {"status": {"epoch": 99}}, DRY), None, "placement"),
            (patch("gpl", placement, {"metadata": {"labels": {"a": "b"}}}, DRY), None, None),
            (("create", "--raw", path, "-f", "-"), {**bind, "target": {"kind": "Node", "name": other}}, "binding-plan"),
            (("create", "--raw", path, "-f", "-"), {**bind, "target": {"kind": "Node", "name": node}}, None),
            (patch("pod", name, annotations[2], DRY), None, "pods"),
            (("annotate", "pod", name, f"{PLAN}gpus-", DRY), None, "pods"),
            (patch("pod", name, annotations[1], DRY), None, None),
            (("create", DRY, "-f", "-"), pod("p", plan=node), "pods"),
            (("create", DRY, "-f", "-"), pod("p", plan=node, node=other), "pods"),
            (("create", DRY, "-f", "-"), pod("p", plan=node, node=node), None),
            (("create", DRY, "-f", "-"), pod("p", resource="metax-tech.com/gpu-probe"), "pods"),
            (("create", DRY, "-f", "-"), pod("p", NAMESPACE, resource="metax-tech.com/gpu-probe"), None),
            (("create", DRY, "-f", "-"), pod("p"), None),
        ]
        image = {"spec": {"containers": [{"name": run["spec"]["containers"][0]["name"], "image": "other"}]}}
        moved = {"gpu": "GPU-of-another-node", "by": ALICE, "reason": "r"}
        companion = [
            (patch("ngt", node, {"spec": {"isolated": [moved]}}, DRY), None, None),
            (patch("ngt", node, {"spec": {"isolated": [{"all": True, "by": ALICE, "reason": "r"}]}}, DRY), None, "moved-gpus"),
            (patch("ngt", node, {"spec": {"measured": [{"gpu": "0", "bandwidthGBps": 1, "at": "2026-01-01T00:00:00Z", "by": COMPANION}]}}, DRY), None, "moved-gpus"),
            (patch("ngt", node, own, DRY), None, "moved-gpus"),
            (("delete", "ngt", node, DRY), None, "moved-gpus"),
            (("delete", "pod", name, DRY), None, "pods"),
            (("delete", "pod", gated, DRY), None, "pods"),
            (("patch", "pod", name, "--type=strategic", "-p", json.dumps(image), DRY), None, "pods"),
            (patch("pod", name, {"spec": {"activeDeadlineSeconds": 9}}, DRY), None, "pods"),
            (patch("pod", gated, {"spec": {"nodeSelector": {"a": "b"}}}, DRY), None, "pods"),
            (patch("pod", gated, {"spec": {"schedulingGates": None}}, DRY), None, "pods"),
            (patch("pod", gated, {"spec": {"schedulingGates": [{"name": "example.com/quota"}]}}, DRY), None, None),
            (patch("pod", gated, annotations[2], DRY), None, None),
            (patch("pod", name, annotations[2], DRY), None, "pods"),
            (patch("pod", gated, annotations[1], DRY), None, "pods"),
            (patch("pod", gated, {"metadata": {"labels": {"a": "b"}}}, DRY), None, "pods"),
            (patch("pod", gated, {"status": {"phase": "Failed"}}, *status), None, "pods"),
            (("patch", "pod", name, "--type=strategic", "-p", json.dumps(condition("Ready")), *status), None, "pods"),
            (("patch", "pod", gated, "--type=strategic", "-p", json.dumps(condition("GPUPlacement")), *status), None, None),
        ]
        users = User(self.cluster, "as-agent", AGENT, node), User(self.cluster, "as-alice", ALICE), User(self.cluster, "as-companion", COMPANION)
        for user, rows in zip(users, (agent + foreign_node, people, companion)):
            yield from ((user, *row) for row in rows)

    def check(self, user, arguments, data, policy):
        code, _, err = user.run(*arguments, data=data)
        err, marks = " ".join(err.split()), self.marks(policy)
        if policy and (code == 0 or marks not in err):
            raise Failed(f"{user.name} {' '.join(arguments)} {data or ''}: expected gputopo-{policy}, got {err[-400:] or 'no refusal'}")
        if not policy and ("denied" in err or "orbidden" in err or "failed calling" in err):
            raise Failed(f"{user.name} {' '.join(arguments)} {data or ''}: expected no refusal, got {err[-400:]}")

    @quick
    def enforced(self):
        """What each rule refuses, and beside it what it lets pass."""
        run = self.cluster.get("pods", "-l", "job-name=train")["items"][0]
        placement = next(item["metadata"]["name"] for item in self.cluster.get("gpl")["items"] if "train" in item["metadata"]["name"])
        other, = {"node1", "node2"} - {annotation(run, "node")}
        try:
            rows = list(self.rows(run, placement, other, self.gated()))
            until("the first rule to be in force", lambda: self.marks(rows[0][3]) in " ".join(rows[0][0].run(*rows[0][1], data=rows[0][2])[2].split()), 60)
            for row in rows:
                self.check(*row)
        finally:
            self.cluster.kubectl("delete", "job", "gated", "--ignore-not-found")
        return f"{sum(bool(row[3]) for row in rows)} requests refused, {sum(not row[3] for row in rows)} not"
