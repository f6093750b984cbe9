# SPDX-License-Identifier: Apache-2.0
"""Placement of jobs with model-parallel units, by the stock kube-scheduler: gates, plans, and the resulting pods."""
import json
import pathlib
import re

import yaml

from harness.account import Account, apply
from harness.contention import five_gangs
from harness.placed import (GATE, GROUP_SIZE, IMAGE, PLAN, annotation, job, pod_template, rack_of, rank, statefulset)
from harness.report import quick
from harness.waiting import Failed, same, until

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "how-to" / "launch-a-training-job.md"


class PlacementCases:
    def __init__(self, placed, report):
        self.placed, self.cluster, self.report = placed, placed.cluster, report

    # steps

    def as_planned(self, pods, container="main"):
        """Of pods on kubelets: the kubelet's usage table, what the container sees and the node's object name the planned GPUs."""
        told = []
        for pod in pods:
            name, number = pod["metadata"]["name"], int(pod["spec"]["nodeName"].removeprefix("node"))
            node = self.placed.nodes[number]
            planned = node.machine.indices(json.loads(annotation(pod, "gpus"))[container])
            same(node.check_container(name, container), planned, f"GPUs of {name} on node{number}, as planned")

            def published():
                held = sorted(one["gpu"] for one in self.cluster.get("ngt", f"node{number}")["status"]["owners"]
                              if one["pod"] == name)
                return held == planned or (False, held)
            until(f"node{number} to tell that {name} has them", published)
            told.append(f"{name}: node{number} {','.join(map(str, planned))}")
        return "; ".join(told)

    # cases

    @quick
    def indexed_job(self):
        """64 GPUs, two units of 32: the manual's shape as a Job of Kubernetes itself."""
        [manifest] = self.placed.example("indexed-job.yaml")
        self.placed.create(manifest)
        pods = self.placed.bound("job-name=indexed-demo", 8)
        racks = self.placed.check_placed(pods, 32)
        for pod in pods:
            index = int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])
            same(rank(pod), index, f"rank of {pod['metadata']['name']}")
            ids = json.loads(annotation(pod, "gpus"))["main"]
            held = self.placed.hollow.owners(pod["spec"]["nodeName"]).get(("default", pod["metadata"]["name"]))
            same(sorted(ids), sorted(f"GPU-{pod['spec']['nodeName']}-{gpu}" for gpu in held), "planned GPUs and the node's word")
        return f"units in racks {', '.join(racks)}"

    @quick
    def on_kubelets(self):
        """Two pods of four on each of the two nodes with kubelets: the containers get exactly the GPUs that were planned."""
        def once():
            self.placed.create(job("real", 4, pod_template(4, "kubelet", group=16)))
            pods = self.placed.bound("job-name=real", 4)
            same(self.placed.check_placed(pods, 16), ["1"], "the rack")
            return self.as_planned(pods)
        return self.in_time(once)

    @quick
    def launch_page(self):
        """The Job of docs/how-to/launch-a-training-job.md, as two pods on the nodes with kubelets: each variable that the page
        names is in the containers, and says what the page says."""
        text = PAGE.read_text()
        service, made = yaml.safe_load_all(text.split("```yaml\n")[1].split("```")[0])
        made["spec"].update(completions=2, parallelism=2)
        made["spec"]["template"]["metadata"]["annotations"] = {GROUP_SIZE: "16"}
        spec = made["spec"]["template"]["spec"]
        spec.update(nodeSelector={"pool": "kubelet"}, terminationGracePeriodSeconds=0, enableServiceLinks=False)
        [container] = spec["containers"]
        container.pop("command")
        [script] = container.pop("args")
        container.update(image=IMAGE, imagePullPolicy="Never")
        rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
        notes = [name for row in rows for name in re.findall(r"`([a-z-]+)`", row[1])]
        container["env"] += [{"name": f"NOTE_{at}", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{PLAN}{name}']"}}}
                             for at, name in enumerate(notes)]
        named = {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row[1])}
        named |= set(re.findall(r"\$([A-Z_]+)", script)) - set(re.findall(r"export ([A-Z_]+)=", script))
        same((len(notes), len(named)), (5, 5), "annotations and variables of the page")
        for one in (service, made):
            self.placed.create(one)
        try:
            pods = self.placed.bound("job-name=train", 2)
            self.placed.check_placed(pods, 16)
            for at, pod in enumerate(pods):
                node = self.placed.nodes[int(pod["spec"]["nodeName"].removeprefix("node"))]
                name = pod["metadata"]["name"]
                same(len(node.check_container(name, "main")), 8, f"GPUs of {name}")  # and their UUIDs and NICs
                env = node.seen(name, "main").env
                same({name for name in named if not env.get(name)}, set(), f"what {name} lacks of the page's variables")
                same(env["NODE_RANK"], str(at), f"NODE_RANK of {name}")
                same({note: env.get(f"NOTE_{number}") for number, note in enumerate(notes)},
                     {"rank": str(at), "unit": "0", "unit-rank": str(at), "supernode": "rack-1", "tier": "1"}, f"what {name} is told")
            return ", ".join([*sorted(named), *notes])
        finally:
            self.cluster.kubectl("delete", "service", service["metadata"]["name"])

    def not_what_the_agent_would_choose(self):
        """Two jobs at once, whose GPUs on a node only the plan can tell apart."""
        def once():
            for name in ("left", "right"):
                self.placed.create(job(name, 2, pod_template(2, "kubelet", group=4)))
            pods = [pod for name in ("left", "right") for pod in self.placed.bound(f"job-name={name}", 2)]
            told = self.as_planned(pods)
            self.placed.no_gpu_twice()
            return told
        return self.in_time(once)

    def in_time(self, once):
        """The kubelet may be told of a pod before the agent is, and asks it then in vain ("the annotation comes after the
        pod", docs/reference/agent.md). The agent counts that, and the case is tried again; any other reason is a failure."""
        for tries in range(1, 5):
            before = self.asked_in_vain()
            try:
                return once() + (f"; at the {tries}. try" if tries > 1 else "")
            except Failed:
                if tries == 4 or self.asked_in_vain() == before:
                    raise
            self.placed.clean()
        return None

    def asked_in_vain(self):
        return sum(self.placed.agent_metric(number, 'gputopo_plan_preferences_total{result="%s"}' % result)
                   for number in self.placed.nodes for result in ("none", "late"))

    @quick
    def stateful_set(self):
        """Pods come one after the other; the place of the last is kept from the first on, also against others."""
        template = pod_template(8, group=32)
        self.placed.create(statefulset("rows", 4, template))
        pods = self.placed.bound("app=rows", 4)
        same([pod["metadata"]["name"] for pod in pods], [f"rows-{at}" for at in range(4)], "pods in the order of ranks")
        racks = self.placed.check_placed(pods, 32)
        replaced = pods[2]
        self.cluster.kubectl("delete", "pod", "rows-2", "--wait")
        until("rows-2 to come back", lambda: self.placed.pods("app=rows").get("rows-2", {}).get("metadata", {}).get("uid")
              not in (None, replaced["metadata"]["uid"]))
        back = self.placed.bound("app=rows", 4)
        same(rack_of(back[2]["spec"]["nodeName"]), racks[0], "the rack of the pod that came back")
        return f"rack {racks[0]}"

    def inference(self):
        """Pods that come at a time, in units of two nodes; with the Service that gives them names."""
        for manifest in self.placed.example("inference-statefulset.yaml"):
            self.placed.create(manifest)
        pods = self.placed.bound("app=inference-demo", 4)
        same([pod["metadata"]["name"] for pod in pods], [f"inference-demo-{at}" for at in range(4)], "pods in the order of ranks")
        racks = self.placed.check_placed(pods, 16)
        self.cluster.kubectl("delete", "service", "inference-demo")
        return f"units in racks {', '.join(racks)}"

    def bare_gates(self):
        """Without the webhook's help: the gate written by the user, in a namespace that the webhook is not asked about."""
        namespace = "gputopo-system"
        made = job("gated", 4, pod_template(8, group=32, schedulingGates=[{"name": GATE}]))
        made["metadata"]["namespace"] = namespace
        self.placed.create(made)
        pods = self.placed.bound("job-name=gated", 4, namespace)
        self.placed.check_placed(pods, 32)
        self.cluster.kubectl("delete", "job", "gated", "-n", namespace, "--wait")
        self.placed.gone("job-name=gated", namespace)

    def untouched_jobs(self):
        """A job without the annotation: no gate, no plan, no affinity, whoever schedules it."""
        self.placed.create(job("plain", 2, pod_template(8)))
        for pod in self.placed.bound("job-name=plain", 2):
            same([key for key in pod["metadata"].get("annotations", {}) if key.startswith(PLAN)], [], "its plans")
            same(pod["spec"].get("affinity"), None, "its affinity")

    @quick
    def refused(self):
        """The sentence of the core at the command line."""
        for name, template, words in (
                ("odd", pod_template(8, group=24), ("gpu-group-size", "24")),
                ("huge", pod_template(8, group="1e30"), ("gpu-group-size",)),
                ("float", pod_template(8, group="32.5"), ("gpu-group-size", "32.5")),
                ("atoms", pod_template(8, group=32, atomic=24), ("atomic-gpu-group-size", "24"))):
            try:
                self.placed.create(job(name, 8, template))
            except Failed as refusal:
                if not all(word in str(refusal) for word in words):
                    raise Failed(f"{name}: refused without {words}: {refusal}") from refusal
            else:
                raise Failed(f"a job with a group size of {name} was admitted")
        return None

    @quick
    def too_big(self):
        """Nothing of a job that cannot be placed is placed, and it says why; with atomic units it falls back."""
        self.placed.create(job("wide", 12, pod_template(8, group=96)))
        why = self.placed.waits("job-name=wide", "NeverFits", "96")

        def made():
            pods = self.placed.pods("job-name=wide")
            return (len(pods) == 12 and pods) or (False, self.placed.summary(pods))
        self.placed.untouched(until("all pods of wide to be made", made))
        note = self.placed.event("NeverFits", "96")
        self.placed.clean()
        self.placed.create(job("wide", 12, pod_template(8, group=96, atomic=16)))
        pods = self.placed.bound("job-name=wide", 12)
        racks = self.placed.check_placed(pods, 96, atomic=16)
        halls = {1 if rack in "123" else 2 for rack in racks}
        same(len(halls), 1, "halls of the unit, best effort")
        if note not in (why, why + "."):
            return f"{why} / {note}; with atoms of 16 in racks {','.join(racks)}"
        return f"{why}; with atoms of 16 in racks {','.join(racks)}"

    def comes_in_later(self):
        """A job waits for others to go, and comes in by itself."""
        self.placed.create(job("before", 40, pod_template(8)))
        self.placed.bound("job-name=before", 40)
        self.placed.create(job("after", 4, pod_template(8, group=32)))
        why = self.placed.waits("job-name=after", "TooFewGPUs")
        self.placed.untouched(self.placed.pods("job-name=after"))
        self.cluster.kubectl("delete", "job", "before", "--wait=false")
        pods = self.placed.bound("job-name=after", 4)
        self.placed.check_placed(pods, 32)
        for pod in pods:
            same([(one["status"], one["reason"]) for one in pod["status"]["conditions"] if one["type"] == "GPUPlacement"],
                 [("True", "Planned")], f"the condition of {pod['metadata']['name']}, which said that it waits")
        return why

    @quick
    def full_nodes(self):
        """CPUs of all nodes but four are taken by pods without GPUs: units go onto the four, the next waits and says why."""
        nodes = self.placed.hollow.names
        left = [node for node in nodes if rack_of(node) == rack_of(nodes[-1])][-4:]
        full = [node for node in nodes if node not in left]
        self.cluster.kubectl(*apply("test"), data={"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"full-{node}", "namespace": "default", "labels": {"full": rack_of(node)}},
             "spec": {"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [
                 {"name": "main", "image": "none", "resources": {"requests": {"cpu": "60"}}}]}} for node in full]})
        template = pod_template(8, group=32)
        template["spec"]["containers"][0]["resources"].setdefault("requests", {})["cpu"] = "8"
        self.placed.create(job("fits", 4, template))
        same(sorted(pod["spec"]["nodeName"] for pod in self.placed.bound("job-name=fits", 4)), sorted(left), "nodes with CPUs")
        self.placed.create(job("after", 4, template))
        why = self.placed.waits("job-name=after", "TooFewResources", "lack CPU (a pod needs 8, at most 4 is free)")
        self.cluster.kubectl("delete", "pods", "-l", f"full={rack_of(full[0])}", "--force", "--grace-period=0")
        self.placed.check_placed(self.placed.bound("job-name=after", 4), 32)
        return why

    @quick
    def turns(self):
        """A namespace that has every GPU, and a dozen jobs that wait for more, delays nobody else's first."""
        many = [f"many-{number}" for number in range(12)]
        for namespace in ("team-a", "team-b"):
            self.placed.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

        def create(namespace, name, template):
            made = job(name, 4, template)
            made["metadata"]["namespace"] = namespace
            self.placed.create(made)

        def held(names):
            """Those of them that have nodes."""
            on = {pod["metadata"]["labels"]["job-name"] for pod in self.placed.pods(namespace="team-a").values()
                  if pod["spec"].get("nodeName")}
            return sorted(on & set(names))
        try:
            for number in range(10):  # each fills half a rack
                template = pod_template(8)
                template["spec"]["nodeSelector"] = {"pool": "hollow", "rack": str(number // 2 + 1)}
                create("team-a", f"fill-{number}", template)
            self.placed.bound(None, 40, "team-a")
            for name in many:
                create("team-a", name, pod_template(8, group=32))
            for name in many:
                self.placed.waits(f"job-name={name}", "TooFewGPUs", namespace="team-a")
            create("team-b", "one", pod_template(8, group=32))
            self.placed.waits("job-name=one", "TooFewGPUs", namespace="team-b")
            self.cluster.kubectl("delete", "job", "fill-0", "-n", "team-a", "--wait=false")
            self.placed.check_placed(self.placed.bound("job-name=one", 4, "team-b"), 32)
            same(held(many), [], "older jobs of the namespace that has the rest")
            self.cluster.kubectl("delete", "job", "fill-1", "-n", "team-a", "--wait=false")
            self.placed.check_placed(self.placed.bound("job-name=many-0", 4, "team-a"), 32)
            same(held(many), ["many-0"], "then its oldest")
            self.placed.no_gpu_twice()
        finally:
            self.cluster.kubectl("delete", "namespace", "team-a", "team-b", "--wait")

    def big_one_first(self):
        """No starvation: while small jobs come and go, a big one that has waited gets nodes of its own."""
        for number in range(10):
            self.placed.create(job(f"small-{number}", 4, pod_template(8)))
        for number in range(10):
            self.placed.bound(f"job-name=small-{number}", 4)
        self.placed.create(job("big", 8, pod_template(8, group=64)))
        self.placed.waits("job-name=big", "TooFewGPUs")
        until("nodes to be reserved for it", lambda: self.placed.metric("gputopo_placement_reserved_nodes") == 8)
        for number in range(10, 14):  # they would fill every gap, were it not for what is kept
            self.placed.create(job(f"small-{number}", 4, pod_template(8, group=32)))
        for number in range(10):
            self.cluster.kubectl("delete", "job", f"small-{number}", "--wait=false")
            until(f"the pods of small-{number} to go", lambda: not self.placed.pods(f"job-name=small-{number}"))
        self.placed.check_placed(self.placed.bound("job-name=big", 8), 64)
        for number in range(10, 14):
            self.placed.check_placed(self.placed.bound(f"job-name=small-{number}", 4), 32)
        self.placed.no_gpu_twice()

    @quick
    def contention(self):
        """By kube-scheduler; those that wait say why."""
        def waits(name):
            self.placed.waits(f"job-name={name}", "TooFewGPUs")
            self.placed.untouched(self.placed.pods(f"job-name={name}"))
        five_gangs(self.placed, "job", "job-name", job,
                   lambda selector: self.placed.check_placed(self.placed.bound(selector, 8), 64), waits)

    @quick
    def plans_are_ours(self):
        """Nobody but the companion's account writes a plan, the cluster's administrator neither; and it plans gated pods only."""
        account = Account(self.cluster, "companion-of-placement", self.cluster.kubectl(
            "create", "token", "gputopo-scheduler", "-n", "gputopo-system"))
        other = {"name": "example.com/first"}  # while it is there, the companion itself does nothing to the pod
        planned = {}
        for name, group, gates in (("planless", 8, [{"name": GATE}, other]), ("gateless", None, [other])):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
            template = pod_template(8, group=group, schedulingGates=gates)
            self.placed.create({**template, **pod, "metadata": {**template["metadata"], **pod["metadata"]}})
            planned[name] = {**pod, "metadata": {**pod["metadata"], "annotations": {PLAN + "node": "hollow-1-0"}}}
        account.may(*apply("test", "--dry-run=server"), data=planned["planless"])
        account.may_not("only while it has the gate", *apply("test", "--dry-run=server"), data=planned["gateless"])
        try:
            self.cluster.kubectl(*apply("test", "--dry-run=server"), data=planned["planless"])
        except Failed as refusal:
            if "only gputopo-scheduler writes" not in str(refusal):
                raise
        else:
            raise Failed("the administrator may write a plan")
        for verb, what in (("delete", "pods"), ("get", "secrets"), ("create", "pods/exec"), ("patch", "nodes")):
            code, out, _ = account.run("auth", "can-i", verb, what, "-n", "default")
            same((code != 0, out.strip()), (True, "no"), f"may {verb} {what}")

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        case("a Job of two units of 32 GPUs: each unit in one rack, ranks contiguous, pods bound as planned", self.indexed_job)
        case("a Job on kubelets: containers get the very GPUs that were planned", self.on_kubelets)
        case("the page on launching a training job: its variables are in the containers", self.launch_page)
        case("two jobs at once on the same kubelets: the plan tells their GPUs apart", self.not_what_the_agent_would_choose)
        case("a StatefulSet that serves a model", self.inference)
        case("a StatefulSet: pods one by one into one rack, a lost pod returns to it", self.stateful_set)
        case("gates written by the user, without the webhook", self.bare_gates)
        case("a job without the annotation is left alone", self.untouched_jobs)
        case("what breaks a rule is refused with its sentence", self.refused)
        case("a unit that no rack holds waits, says why, and nothing is placed; atoms fall back", self.too_big)
        case("a job that waits comes in when there is room", self.comes_in_later)
        case("nodes whose CPUs are taken are left out, and a job that needs them says so", self.full_nodes)
        case("a namespace that has every GPU, and older jobs that wait, delays no other's first job", self.turns)
        case("five gangs where two fit: two run, none half, the others follow", self.contention)
        case("a big job does not starve", self.big_one_first)
        case("plans are written by the companion alone", self.plans_are_ours)
