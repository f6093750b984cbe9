# SPDX-License-Identifier: Apache-2.0
"""What an operator applies, on a real API server: custom resources, permissions and policies."""
import json
import pathlib

from harness.account import Account, apply, patch
from harness.install import DAEMONSET
from harness.machine import ask
from harness.report import quick
from harness.waiting import Failed, same, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
GROUP = "topology.metax-tech.com"
TOPOLOGIES = f"/apis/{GROUP}/v1alpha1/nodegputopologies"
AGENT = "system:serviceaccount:gputopo-system:gputopo-agent"
PLAN = f"plan.{GROUP}/gpus"
LOSSES = "metax-tech.com/gpu.topology.losses"


def resource(kind, name, status=None, **metadata):
    made = {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": {"name": name, **metadata}}
    return made if status is None else {**made, "status": status}


def topology(name, status=None, **metadata):
    return resource("NodeGPUTopology", name, status, **metadata)


def count_health(node, health):
    return sum(gpu["health"] == health for gpu in node["gpus"])


def wiring(node, *conditions):
    """What the agent publishes of a node beside its use."""
    return {**node, "gpuCount": len(node["gpus"]), "healthyCount": count_health(node, "healthy"),
            "unknownCount": count_health(node, "unknown"),
            "conditions": [condition(kind) for kind in conditions], "observedAt": "2026-01-02T03:04:05Z"}


def use(free, owners=()):
    return {"free": free, "freeCount": len(free), "owners": list(owners), "scoreByCount": [0] * len(free),
            "lossByCount": [0] * len(free)}


def condition(kind, status="True"):
    return {"type": kind, "status": status, "reason": "Test", "message": "a test says so",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}


def sixty_four():
    """The largest node: every pair joined directly."""
    gpus = [{"bdf": f"0000:{index + 1:02x}:00.0", "uuid": f"GPU-{index:032x}", "product": "MXC600",
             "numaNode": index // 16} for index in range(64)]
    links = [{"a": a, "b": b, "kind": "MX", "state": "up", "ports": 4, "width": 16, "speedGTs": 32}
             for b in range(64) for a in range(b)]
    return {"gpus": gpus, "links": links}


class ApiCases:
    def __init__(self, report, cluster, build):
        self.report, self.cluster, self.build = report, cluster, build
        self.agents = {}  # node: an agent's account
        self.companion = self.admin = None

    # steps

    def show(self, recording, name):
        return {**ask(self.build / "bin" / "gputopo", "show", "--from", recording, "-o", "json"), "name": name}

    def account(self, name, service_account, *bound):
        token = self.cluster.kubectl("create", "token", service_account, "-n", "gputopo-system", *bound)
        return Account(self.cluster, name, token)

    def stored(self, name):
        text = self.cluster.kubectl("get", "--raw", f"{TOPOLOGIES}/{name}")
        return json.loads(text), len(text)

    def publish(self, account, node):
        """All that an agent writes into its object; returns what the server keeps and its size."""
        name = node["name"]
        account.may(*apply("gputopo-agent"), data=topology(name))
        account.may(*apply("gputopo-agent", "--subresource=status"), data=topology(name, wiring(node, "Discovered", "LinksHealthy")))
        account.may(*apply("gputopo-agent-usage", "--subresource=status"),
                    data=topology(name, use([gpu["index"] for gpu in node["gpus"] if gpu["healthy"]])))
        return self.stored(name)

    # cases, in order

    @quick
    def manifests(self):
        self.cluster.kubectl("apply", "--server-side", "-k", DAEMONSET / "crds")
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", f"nodegputopologies.{GROUP}",
                             f"supernodes.{GROUP}", f"gpuplacements.{GROUP}", "--timeout=290s")
        for file in ("namespace", "rbac", "policy"):
            self.cluster.kubectl("apply", "--server-side", "-f", DAEMONSET / "base" / f"{file}.yaml")
        self.admin = Account(self.cluster, "nobody", "")
        self.admin.file = self.cluster.state / "admin.kubeconfig"
        for node in ("node1", "node2"):
            self.agents[node] = self.account(f"agent-{node}", "gputopo-agent", "--bound-object-kind=Node",
                                             f"--bound-object-name={node}")
        self.companion = self.account("companion", "gputopo-scheduler")

        made = (DAEMONSET / "base" / "policy.yaml").read_text().count("\nkind: ValidatingAdmissionPolicy\n")

        def checked():
            """The controller has compiled every expression; what it says of types would be in the way of nobody."""
            policies = [item for item in self.cluster.get("validatingadmissionpolicies")["items"]
                        if item["metadata"]["name"].startswith("gputopo-")]
            warnings = [warning for item in policies
                        for warning in item.get("status", {}).get("typeChecking", {}).get("expressionWarnings", [])]
            if warnings:
                raise Failed(f"a policy's expression: {warnings[0]}")
            return len(policies) == made and all("typeChecking" in item.get("status", {}) for item in policies)
        until("the policies to be checked", checked)
        # the admission plugin reads policies from a watch of its own
        until("the policies to be in force", lambda: self.agents["node1"].run(
            *apply("gputopo-agent", "--dry-run=server"), data=topology("node2"))[0] != 0, 60)

    @quick
    def machines(self):
        """Every recorded machine is kept as it was sent, null where a value is not known."""
        made = self.cluster.state / "sixty-four.json"
        made.write_text(json.dumps(sixty_four()))
        recordings = sorted((ROOT / "tests" / "machines").glob("*.json")) + [made]
        if len(recordings) < 6:
            raise Failed(f"only {len(recordings)} recorded machines")
        sizes = []
        for recording in recordings:
            node = self.show(recording, recording.stem)
            kept, size = self.publish(self.admin, node)
            same({key: kept["status"].get(key) for key in node}, node, f"the node of {recording.name} in its object")
            sizes.append(f"{len(node['gpus'])} GPUs {size / 1000:.1f} kB")
        return ", ".join(sizes)

    def columns(self):
        table = self.cluster.kubectl("get", "gputopo")
        row = next(line for line in table.splitlines() if "/c500-8 " in line).split()
        same(row[1:6], ["8", "8", "0", "8", "MXC500"], "columns of c500-8 in kubectl get gputopo")
        wide = self.cluster.kubectl("get", "ngt", "c500-4", "-o", "wide")
        if "[0,1,2,3]" not in wide:
            raise Failed(f"no list of free GPUs in: {wide}")
        told = self.cluster.kubectl("explain", "nodegputopology.status.links.weight")
        if "pair weight" not in told:
            raise Failed(f"kubectl explain: {told}")

    @quick
    def two_managers(self):
        """The wiring and the use are sent apart and do not disturb each other."""
        node = self.show(ROOT / "tests" / "machines" / "c500-8.json", "c500-8")
        owners = [{"gpu": gpu, "namespace": "default", "pod": "worker-0", "container": "main"} for gpu in range(6)]
        small = topology("c500-8", use([6, 7], owners))
        self.admin.may(*apply("gputopo-agent-usage", "--subresource=status"), data=small)
        kept, _ = self.stored("c500-8")
        same((kept["status"]["free"], kept["status"]["links"]), ([6, 7], node["links"]), "free and links after a change of use")
        self.admin.may(*apply("gputopo-agent", "--subresource=status"),
                       data=topology("c500-8", {**wiring(node, "Discovered", "LinksHealthy"), "driverVersion": "9.9"}))
        kept, _ = self.stored("c500-8")
        same((kept["status"]["driverVersion"], len(kept["status"]["owners"]), len(kept["status"]["conditions"])),
             ("9.9", 6, 2), "version, owners and conditions after a change of wiring")
        managed = len(json.dumps(kept["metadata"]["managedFields"]))
        if managed > 2000:
            raise Failed(f"managedFields have {managed} bytes")
        return f"a change of use is {len(json.dumps(small))} bytes with 6 owners, managedFields {managed}"

    def by_hand(self):
        """Somebody edits an object; the agent's next apply has it as it was."""
        self.cluster.kubectl(*patch("ngt", "c500-8", {"status": {"free": [0, 1, 2, 3], "freeCount": 4, "owners": []}},
                                    "--subresource=status"))
        self.admin.may(*apply("gputopo-agent-usage", "--subresource=status"), data=topology("c500-8", use([6, 7])))
        kept, _ = self.stored("c500-8")
        same((kept["status"]["free"], kept["status"]["freeCount"]), ([6, 7], 2), "free GPUs after an edit and an apply")

    @quick
    def nonsense(self):
        """Nothing of this gets in, and the reason names the culprit."""
        def node(**changes):
            return {**wiring(self.show(ROOT / "tests" / "machines" / "c500-4.json", "nonsense")), **changes}
        good = node()
        first, *others = good["gpus"]
        cases = {
            "a is below b": node(links=[{"a": 1, "b": 0, "kind": "MX", "weight": 1}]),
            "a link names a GPU that is not in gpus": node(links=[{"a": 0, "b": 9, "kind": "MX", "weight": 1}]),
            "two GPUs have the same index": node(gpus=[first, {**others[0], "index": 0}, *others[1:]]),
            "two GPUs have the same PCI address": node(gpus=[first, {**others[0], "bdf": first["bdf"]}, *others[1:]]),
            "a GPU's index is its position in gpus": node(gpus=[first, *others[:-1], {**others[-1], "index": 60}]),
            "index in body should be less than or equal to 63": node(gpus=[{**first, "index": 64}]),
            "bdf in body should match": node(gpus=[{**first, "bdf": "8:0.0"}]),
            "status.gpus[0].mode: Unsupported value": node(gpus=[{**first, "mode": "shared"}]),
            "healthy in body must be of type boolean": node(gpus=[{**first, "healthy": "yes"}]),
            "status.gpus[0].uuid: Required value": node(gpus=[{k: v for k, v in first.items() if k != "uuid"}]),
            "weight in body should be greater than or equal to 0":
                node(links=[{"a": 0, "b": 1, "kind": "MX", "weight": -1}]),
            "gpuCount is the number of gpus": node(gpuCount=3),
            "healthyCount is the number of gpus that are healthy": node(healthyCount=3),
            "unknownCount is the number of gpus whose health is unknown": node(unknownCount=3),
            "status.gpus[0].health: Unsupported value": node(gpus=[{**first, "health": "ok"}]),
            "freeCount is the number of indices in free": {"free": [0, 1], "freeCount": 3},
            "must have at most 64 items": {"free": list(range(64)) + [0], "freeCount": 65},
            "scoreByCount and lossByCount": {"scoreByCount": [1, 2], "lossByCount": [1]},
            "status.name is the name of the node": node(name="another"),
            "status.owners[0].pod: Required value": {"owners": [{"gpu": 0, "namespace": "x", "container": "c"}]},
            "Duplicate value": {"conditions": [condition("Registered"), condition("Registered")]},
            "status.conditions[0].status: Unsupported value": {"conditions": [condition("Registered", "Maybe")]},
        }
        self.admin.may(*apply("test"), data=topology("nonsense"))
        for why, status in cases.items():
            self.admin.may_not(why, "replace", "--validate=false", "--subresource=status", "-f", "-",
                               data=topology("nonsense", status))
        self.admin.may("replace", "--validate=false", "--subresource=status", "-f", "-", data=topology("nonsense", good))
        return f"{len(cases)} refused"

    def supernodes(self):
        tier1 = {"tier": 1, "source": "report", "parent": "hall", "nodes": 2, "capacity": 16, "free": 9, "linksHealthy": True,
                 "members": [{"node": "node1", "gpus": 8, "free": 8}, {"node": "node2", "gpus": 8, "free": 1}],
                 "conditions": [condition("Conflict", "False")]}
        hall = {"tier": 2, "source": "config", "nodes": 2, "capacity": 16, "free": 9, "linksHealthy": True}
        for name, status in (("rack-1", tier1), ("hall", hall)):
            self.companion.may(*apply("gputopo-scheduler"), data=resource("Supernode", name))
            self.companion.may(*apply("gputopo-scheduler", "--subresource=status"), data=resource("Supernode", name, status))
        same(self.cluster.kubectl("get", "supernode", "rack-1", "--no-headers").split()[:6],
             ["rack-1", "1", "2", "16", "9", "true"], "columns of a supernode")
        refused = {
            "only a supernode of tier 1 has nodes": {**tier1, "tier": 2},
            "a supernode is not its own parent": {**tier1, "parent": "rack-1"},
            "more GPUs are free than there are": {**tier1, "members": [{"node": "n", "gpus": 1, "free": 2}]},
            "tier in body should be less than or equal to 8": {**hall, "tier": 9},
            "status.source: Unsupported value": {**hall, "source": "rumour"},
        }
        for why, status in refused.items():
            self.companion.may_not(why, *apply("gputopo-scheduler", "--subresource=status"),
                                   data=resource("Supernode", "rack-1", status))
        self.companion.may_not("a supernode's name is a DNS label", *apply("gputopo-scheduler"),
                               data=resource("Supernode", "rack.1"))
        self.companion.may("delete", "supernode", "hall", "rack-1")

    @quick
    def own_node(self):
        """What the agent of node1 may write."""
        agent = self.agents["node1"]
        node = self.show(ROOT / "tests" / "machines" / "c500-8.json", "node1")
        uid = self.cluster.get("node", "node1")["metadata"]["uid"]
        self.publish(agent, node)
        agent.may(*apply("gputopo-agent"), data=topology("node1", ownerReferences=[
            {"apiVersion": "v1", "kind": "Node", "name": "node1", "uid": uid}]))
        agent.may(*apply("gputopo-agent"), data={"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": "node1", "annotations": {LOSSES: '{"1":0}', LOSSES.replace("losses", "scores"): '{"1":0}'},
            "labels": {"metax-tech.com/gpu.product": "MXC500"}}})
        kept = self.cluster.get("node", "node1")["metadata"]
        same((kept["annotations"][LOSSES], kept["labels"]["metax-tech.com/gpu.product"]), ('{"1":0}', "MXC500"),
             "annotation and label of the Node")
        agent.may(*apply("gputopo-agent-condition", "--subresource=status"), data={
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"},
            "status": {"conditions": [condition("MetaXGPUHealthy")]}})
        agent.may("create", "--validate=false", "-f", "-", data=self.event("node1"))

    @staticmethod
    def event(node, kind="Node"):
        return {"apiVersion": "events.k8s.io/v1", "kind": "Event", "type": "Normal", "reason": "Test", "action": "Test",
                "metadata": {"name": f"test-{node}-{kind}".lower(), "namespace": "default"}, "note": "a test",
                "eventTime": "2026-01-02T03:04:05.000000Z", "reportingController": "metax-tech.com/gputopo-agent",
                "reportingInstance": node, "regarding": {"apiVersion": "v1", "kind": kind, "name": node}}

    @quick
    def foreign(self):
        """What it may not, by policy. The same with a token that is bound to no node."""
        agent = self.agents["node1"]
        self.publish(self.agents["node2"], self.show(ROOT / "tests" / "machines" / "c550-8.json", "node2"))
        before = self.stored("node2")[0]
        foreign = "the agent of node node1 may not write the NodeGPUTopology node2"
        agent.may_not(foreign, *apply("gputopo-agent"), data=topology("node2", labels={"x": "y"}))
        agent.may_not(foreign, *apply("gputopo-agent", "--subresource=status"), data=topology("node2", use([])))
        agent.may_not("may not write the NodeGPUTopology unknown", "create", "-f", "-", data=topology("unknown"))
        same(self.stored("node2")[0], before, "the object of node2")
        agent.may_not("may not write the Node node2", *patch("node", "node2", {"metadata": {"annotations": {LOSSES: "{}"}}}))
        agent.may_not("creates events about its own", "create", "--validate=false", "-f", "-", data=self.event("node2"))
        agent.may_not("creates events about its own", "create", "--validate=false", "-f", "-", data=self.event("node1", "Pod"))
        loose = self.account("agent-loose", "gputopo-agent")
        unbound = "the token is bound to no node"
        loose.may_not(unbound, *apply("gputopo-agent"), data=topology("node1"))
        loose.may_not(unbound, *apply("gputopo-agent", "--subresource=status"), data=topology("node1", use([])))
        loose.may_not(unbound, *patch("node", "node1", {"metadata": {"annotations": {LOSSES: "{}"}}}))

    @quick
    def rest_of_own_node(self):
        """On its own Node, nothing but the documented annotations and labels."""
        agent = self.agents["node1"]

        def may_not(why, **body):
            agent.may_not(why, *patch("node", "node1", body))
        self.cluster.kubectl("annotate", "node", "node1", "example.com/theirs=1")
        self.cluster.kubectl("label", "node", "node1", "example.com/theirs=1")
        labels = "an agent changes only the labels metax-tech.com/gpu.family, .memory and .product of its Node"
        may_not(labels, metadata={"labels": {"example.com/mine": "1"}})
        may_not(labels, metadata={"labels": {"example.com/theirs": "2"}})
        may_not(labels, metadata={"labels": {"example.com/theirs": None}})
        may_not(labels, metadata={"labels": {"metax-tech.com/gpu.installed": "true"}})
        may_not(labels, metadata={"labels": {"node-role.kubernetes.io/control-plane": ""}})
        annotations = "an agent changes only the annotations"
        may_not(annotations, metadata={"annotations": {"example.com/mine": "1"}})
        may_not(annotations, metadata={"annotations": {"example.com/theirs": "2"}})
        may_not(annotations, metadata={"annotations": {"example.com/theirs": None}})
        may_not("not its spec", spec={"unschedulable": True})
        may_not("not its spec", spec={"taints": [{"key": "x", "effect": "NoSchedule"}]})
        for status in ({"conditions": [condition("Ready", "Unknown")]}, {"capacity": {"cpu": "400"}}, {"allocatable": {"cpu": "400"}}):
            agent.may_not("only the condition MetaXGPUHealthy", *apply("gputopo-agent-condition", "--subresource=status"), data={
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"}, "status": status})
        may_not("not its finalizers and owners", metadata={"finalizers": ["example.com/stays"]})
        agent.may_not("the only owner of a NodeGPUTopology is its Node", *apply("gputopo-agent"), data=topology(
            "node1", ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}]))

    @quick
    def roles(self):
        """What RBAC alone forbids."""
        def forbidden(account, *arguments, data=None):
            account.may_not("orbidden", *arguments, data=data)
        agent = self.agents["node1"]
        forbidden(agent, "delete", "ngt", "node1")
        forbidden(agent, "delete", "pod", "any")
        forbidden(agent, "get", "secrets", "-A")
        forbidden(agent, "get", "nodes")
        forbidden(agent, "get", "ngt", "node1")
        forbidden(agent, "delete", "node", "node1")
        forbidden(agent, *patch("node", "node1", {"status": {"capacity": {"x.com/y": "1"}}}, "--subresource=status"))
        forbidden(agent, "create", "-f", "-", data=resource("Supernode", "mine"))
        forbidden(agent, "create", "token", "gputopo-agent", "-n", "gputopo-system")
        forbidden(self.companion, *patch("ngt", "node1", {"status": {"free": [], "freeCount": 0}}, "--subresource=status"))
        forbidden(self.companion, *patch("node", "node1", {"metadata": {"labels": {"x": "y"}}}))
        forbidden(self.companion, "get", "configmaps", "-n", "gputopo-system")
        forbidden(self.companion, "get", "configmap", "kube-root-ca.crt", "-n", "gputopo-system")
        self.cluster.kubectl("create", "configmap", "gputopo-supernodes", "-n", "gputopo-system")
        self.companion.may("get", "configmap", "gputopo-supernodes", "-n", "gputopo-system")
        self.companion.may("get", "configmaps", "-n", "gputopo-system", "--field-selector=metadata.name=gputopo-supernodes")
        self.companion.may("get", "ngt")
        self.companion.may("get", "nodes")

    @quick
    def plans(self):
        """Annotations with a plan: the companion's alone, on every way to a pod."""
        kubectl = self.admin  # even of a cluster's administrator
        why = "only gputopo-scheduler writes annotations that begin with plan."
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "planned", "annotations": {}},
               "spec": {"containers": [{"name": "c", "image": "local.test/pause:1"}],
                        "schedulingGates": [{"name": "metax-tech.com/gpu-placement"}]}}
        planned = {**pod, "metadata": {"name": "planned", "annotations": {PLAN: "0,1"}}}
        kubectl.may_not(why, "create", "-f", "-", data=planned)
        kubectl.may("create", "-f", "-", data=pod)
        kubectl.may("annotate", "pod", "planned", "example.com/theirs=1")
        kubectl.may_not(why, "annotate", "pod", "planned", f"{PLAN}=0,1")
        kubectl.may_not(why, *patch("pod", "planned", {"metadata": {"annotations": {PLAN: "0,1"}}}, "--subresource=status"))
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "planned", "annotations": {PLAN: "0,1"}},
                   "target": {"apiVersion": "v1", "kind": "Node", "name": "node1"}}
        file = self.cluster.state / "binding.json"
        file.write_text(json.dumps(binding))
        for path in ("pods/planned/binding", "bindings"):
            kubectl.may_not(why, "create", "--raw", f"/api/v1/namespaces/default/{path}", "-f", str(file))
        binding["metadata"]["annotations"]["plan.topology.metax-tech.com/node"] = "node2"  # and the target is node1
        file.write_text(json.dumps(binding))
        kubectl.may_not(why, "create", "--raw", "/api/v1/namespaces/default/pods/planned/binding", "-f", str(file))
        self.cluster.kubectl("create", "role", "pods", "--verb=get,patch", "--resource=pods")
        self.cluster.kubectl("create", "rolebinding", "pods", "--role=pods", "--serviceaccount=gputopo-system:gputopo-scheduler")
        self.companion.may("annotate", "pod", "planned", f"{PLAN}=0,1")
        kubectl.may_not(why, "annotate", "pod", "planned", f"{PLAN}=2,3", "--overwrite")
        kubectl.may_not(why, "annotate", "pod", "planned", f"{PLAN}-")
        kubectl.may("annotate", "pod", "planned", "example.com/theirs-")
        kubectl.may("delete", "pod", "planned", "--wait=false")
        self.cluster.kubectl("delete", "role,rolebinding", "pods")

    @quick
    def placements(self):
        """A GPUPlacement is written by the companion, read by users, and deleted by whoever may."""
        rbac = DAEMONSET / "components" / "placement" / "rbac.yaml"
        self.cluster.kubectl("apply", "--server-side", "-f", rbac)
        placed = resource("GPUPlacement", "job-j", {"phase": "Placed", "where": "sn-1", "epoch": 1, "nodes": ["node1"], "units": ["sn-1"],
                                                    "pods": ["0:0:0:0-3,7"]}, namespace="default")
        placed["spec"] = {"job": "default/Job/j", "pods": 1, "gpus": 5, "templates": [{"pods": 1, "gpus": 5}], "onLostPlan": "Report"}
        why = "only gputopo-scheduler writes GPUPlacements"
        until("the policy to be in force", lambda: why in self.admin.run("create", "--dry-run=server", "-f", "-", data=placed)[2], 60)
        self.companion.may("create", "-f", "-", data=placed)
        change = {"status": {"epoch": 2, "where": "node1"}}
        self.admin.may_not(why, *patch("gpl", "job-j", change))
        self.companion.may(*patch("gpl", "job-j", change))
        same(self.cluster.kubectl("get", "gpl", "job-j", "--no-headers").split()[:4], ["job-j", "Placed", "5", "node1"], "columns of a placement")
        refused = {
            "status.phase: Unsupported value": {"phase": "Done"},
            "status.pods[0] in body should match": {"pods": ["0:0:node1:0"]},
            "status.epoch in body should be greater than or equal to 0": {"epoch": -1},
        }
        for reason, status in refused.items():
            self.companion.may_not(reason, *patch("gpl", "job-j", {"status": status}))
        self.cluster.kubectl("create", "serviceaccount", "reader")
        self.cluster.kubectl("create", "rolebinding", "reader", "--clusterrole=edit", "--serviceaccount=default:reader")
        token = self.cluster.kubectl("create", "token", "reader")
        reader = Account(self.cluster, "reader", token)
        until("the role to be aggregated", lambda: reader.run("get", "gpl", "job-j")[0] == 0, 60)
        reader.may_not("orbidden", *patch("gpl", "job-j", change))
        reader.may_not("orbidden", "delete", "gpl", "job-j")
        self.admin.may(*patch("gpl", "job-j", {"metadata": {"labels": {"a": "b"}}}))  # as the garbage collector changes owners
        self.admin.may("delete", "gpl", "job-j")
        self.cluster.kubectl("delete", "serviceaccount,rolebinding", "reader")
        self.cluster.kubectl("delete", "-f", rbac)

    @quick
    def isolations(self):
        """Who has the role isolates, under his own name; nobody else does, and no agent lifts it."""
        self.cluster.kubectl("create", "serviceaccount", "alice", "-n", "gputopo-system")
        self.cluster.kubectl("create", "clusterrolebinding", "alice", "--clusterrole=gputopo-isolate",
                             "--serviceaccount=gputopo-system:alice")
        alice, name = self.account("alice", "alice"), "system:serviceaccount:gputopo-system:alice"

        def client(*arguments):
            return self.cluster.ask("control", self.build / "bin" / "gputopo", *arguments, "--kubeconfig", alice.file)

        def isolated():
            return self.stored("node1")[0].get("spec", {}).get("isolated")
        agent = self.agents["node1"]
        self.publish(agent, self.show(ROOT / "tests" / "machines" / "c500-8.json", "node1"))
        said = client("isolate", "node1/3", "--reason", "bandwidth test fails", "--for", "3d")
        same((len(isolated()), isolated()[0]["by"], name in said), (1, name, True), f"what alice isolated: {said}")
        kept = isolated()
        alice.may_not("a new entry says by:", *patch("ngt", "node1", {"spec": {"isolated": [
            *kept, {"gpu": "1", "reason": "x", "by": "system:serviceaccount:gputopo-system:bob"}]}}))
        alice.may_not("a new entry says by:", *patch("ngt", "node1", {"spec": {"isolated": [*kept, {"gpu": "1", "reason": "x"}]}}))
        for wrong, why in (({"gpu": "1", "all": True}, "one of gpu, link and all"), ({}, "one of gpu, link and all"),
                           ({"link": ["1"]}, "at least 2 items"), ({"all": True, "reason": ""}, "at least 1 chars"),
                           ({"all": True, "until": "soon"}, "date-time"),
                           ({"all": True, "until": "2026-12-01T09:00:00+08:00"}, "should match"),
                           ({"all": True, "reason": "two\nlines"}, "should match")):
            alice.may_not(why, *patch("ngt", "node1", {"spec": {"isolated": [{"reason": "x", "by": name, **wrong}]}}))
        value = {"link": ["0", "1"], "bandwidthGBps": 5, "at": "2026-11-29T09:00:00Z", "by": name}
        for wrong, why in (({"by": "bob"}, "a new entry says by:"), ({"gpu": "1"}, "one of gpu and link"), ({"bandwidthGBps": 0}, "bandwidthGBps is more than 0"),
                           ({"bandwidthGBps": 1e9}, "less than or equal"), ({"at": "today"}, "date-time")):
            alice.may_not(why, *patch("ngt", "node1", {"spec": {"measured": [{**value, **wrong}]}}))
        alice.may(*patch("ngt", "node1", {"spec": {"measured": [value]}}))
        alice.may(*patch("ngt", "node1", {"spec": {"measured": None}}))
        lifted = "an agent changes nothing that people have isolated"
        agent.may_not(lifted, *apply("gputopo-agent"), data={**topology("node1"), "spec": {"isolated": []}})
        same(isolated(), kept, "what is isolated after all that")
        self.publish(agent, self.show(ROOT / "tests" / "machines" / "c500-8.json", "node1"))
        same(isolated(), kept, "what is isolated after the agent has published again")
        alice.may_not("orbidden", *patch("ngt", "node1", {"status": {"free": []}}, "--subresource=status"))
        client("release", "node1")
        same((isolated(), client("isolated")), ([], "nothing is isolated\n"), "after the release")

    @quick
    def clean(self):
        self.cluster.kubectl("delete", "ngt", "--all")
        self.cluster.kubectl("delete", "configmap", "gputopo-supernodes", "-n", "gputopo-system", "--ignore-not-found")

    def run(self):
        case = self.report.case
        if not case("custom resources, roles and policies are accepted", self.manifests):
            return False
        case("every recorded machine is kept as it was sent", self.machines)
        case("kubectl get and explain show what a person wants", self.columns)
        case("wiring and use are applied apart", self.two_managers)
        case("an edit by hand does not last", self.by_hand)
        case("nonsense is refused, and why", self.nonsense)
        case("supernodes: written by the companion, nonsense refused", self.supernodes)
        case("an agent writes the objects of its own node", self.own_node)
        case("an agent writes those of no other node", self.foreign)
        case("an agent writes nothing else on its Node", self.rest_of_own_node)
        case("roles give agent and companion nothing more", self.roles)
        case("plans on pods are the companion's alone", self.plans)
        case("GPUPlacements are the companion's alone", self.placements)
        case("GPUs are isolated by hand, in one's own name", self.isolations)
        return case("everything can be deleted again", self.clean)
