# SPDX-License-Identifier: Apache-2.0
"""Two releases of the companion side by side, as while a Deployment is rolled: who leads is halted in the middle of a burst of plans, the
other one goes on with them, and the first comes back."""
import json

from cases_companion_faults import NOBODY
from harness import install, previous
from harness.hollow import name as node_name
from harness.placed import GATE, annotation, job, pod_template, statefulset
from harness.report import quick
from harness.waiting import same, until

NOTE = "topology.metax-tech.com/note"  # of the Lease
PROMISED, LABEL = "promised", "burst=yes"
JOBS, PODS, GPUS = 36, 4, 2  # beside the StatefulSet's 32 GPUs all of the hollow nodes


class TakeoverCases:
    def __init__(self, faults, commit):
        """`faults`: the CompanionFaultCases; `commit`: of the earlier release."""
        self.faults, self.placed, self.cluster, self.report, self.commit = faults, faults.placed, faults.cluster, faults.report, commit
        self.before = self.now = None  # the pods' names

    # steps

    def pod(self, name):
        return self.cluster.get("pod", name, "-n", install.NAMESPACE)

    def leads(self, name):
        until(f"{name} to lead", lambda: self.faults.leader() == name or (False, self.faults.leader()))

    def promise(self):
        """The first pod of a StatefulSet is planned and on no node yet: the places of the others are promised. Returns all their nodes."""
        self.placed.create(statefulset(PROMISED, 4, pod_template(8, group=32, schedulerName=NOBODY, schedulingGates=[{"name": GATE}])))
        first = self.planned(f"{PROMISED}-0")

        def noted():
            note = self.cluster.get("lease", "gputopo-scheduler", "-n", install.NAMESPACE)["metadata"].get("annotations", {}).get(NOTE, "")
            nodes = [word.split("=")[0] for word in note.split() if word.startswith("hollow-")]
            return [nodes] if len(nodes) == 3 else (False, note)
        return [first, *until("three places in the Lease's note", noted)[0]]

    def planned(self, name):
        """The planned node of this pod."""
        return until(f"the plan of {name}", lambda: annotation(self.placed.pods().get(name, {"metadata": {}}), "node"))

    def both_know(self, nodes):
        """Who leads and who stands by: the places are reserved."""
        def told():
            said = {(name, node): self.cluster.ask("control", "gputopo", "explain", "--companion",
                                                   f"{self.pod(name)['status']['podIP']}:9401", node)
                    for name in (self.before, self.now) for node in nodes}
            lost = {key: text for key, text in said.items() if "reserved" not in text}
            return not lost or (False, lost)
        until("both to know what is promised", told)

    def at_once(self, verb, nodes):
        """One kubectl asks for three nodes a second at most."""
        self.cluster.ask("control", "xargs", "-n", "5", "-P", "8", "kubectl", verb, data="\n".join(sorted(nodes)))

    def burst(self, process, promised):
        """Many jobs wait for nodes, which all come at once; the process is halted when it has made some of their plans. Returns who halts
        it, and those plans. Nodes that are promised stay open: a job that has not run is planned again where its node is cordoned."""
        nodes = {node_name(rack, number) for rack, count in self.placed.racks.items() for number in range(count)} - set(promised)
        self.at_once("cordon", nodes)
        template = pod_template(GPUS, group=GPUS * PODS, labels=dict([LABEL.split("=")]), schedulingGates=[{"name": GATE}])
        self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": [
            job(f"burst-{at}", PODS, template) for at in range(JOBS)]})
        until("the pods of the burst", lambda: len(self.placed.pods(LABEL)) == JOBS * PODS)
        self.placed.untouched(self.placed.pods(LABEL))
        with self.faults.signal_at_plan(LABEL, "STOP", process, JOBS * PODS // 8) as waits:
            self.at_once("uncordon", nodes)
        return waits, {pod["metadata"]["uid"]: annotation(pod, "node")
                       for pod in self.placed.pods(LABEL).values() if annotation(pod, "node")}

    def all_run(self, planned):
        """Each job as planned, in one rack, with GPUs of its own; what was planned before stayed."""
        pods = self.placed.bound(LABEL, JOBS * PODS)
        for at in range(JOBS):
            self.placed.check_placed([pod for pod in pods if pod["metadata"]["labels"]["job-name"] == f"burst-{at}"], GPUS * PODS)
        nodes = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods}
        lost = {uid: (node, nodes.get(uid)) for uid, node in planned.items() if nodes.get(uid) != node}
        same(lost, {}, "plans of the one that was halted which did not stay")

    def come_one_by_one(self, nodes):
        """The StatefulSet's pods get the places that were promised, before one took over from the other."""
        for at in range(4):
            name = f"{PROMISED}-{at}"
            node = self.planned(name)
            self.cluster.kubectl("create", "--raw", f"/api/v1/namespaces/default/pods/{name}/binding", "-f", "-", data={
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
        pods = self.placed.bound(f"app={PROMISED}", 4)
        self.placed.check_placed(pods, 32)
        same({pod["spec"]["nodeName"] for pod in pods}, set(nodes), "nodes that were promised")

    def no_gpu_twice(self):
        self.placed.no_gpu_twice()
        users = {}
        for pod in self.placed.pods().values():
            for gpu in json.loads(annotation(pod, "gpus"))["main"]:
                users.setdefault(gpu, []).append(pod["metadata"]["name"])
        same({gpu: names for gpu, names in users.items() if len(names) > 1}, {}, "GPUs in several plans")

    # cases

    @quick
    def beside(self):
        """Of two replicas the one that leads has the earlier image, with the arguments and rights of ours, as in the middle of an upgrade."""
        archive = previous.archive(self.commit)
        for number in (1, 2):
            self.cluster.ask(number, "ctr", "images", "import", archive)
        pod = self.placed.companion()
        self.before, image = pod["metadata"]["name"], f"localhost/gputopo:{previous.version(self.commit)}"
        self.cluster.kubectl("set", "image", f"pod/{self.before}", "-n", install.NAMESPACE, f"scheduler={image}")
        self.faults.back(pod, pod["status"]["containerStatuses"][0]["restartCount"])
        same(self.pod(self.before)["status"]["containerStatuses"][0]["image"], image, "its image")
        self.leads(self.before)
        self.now, = {pod["metadata"]["name"] for pod in self.faults.scale(2)} - {self.before}

    @quick
    def to_now(self):
        return self.taken_over(self.before, self.now)

    def to_before(self):
        return self.taken_over(self.now, self.before)

    def taken_over(self, first, then):
        """Every job runs as planned, no GPU is given twice, no unit is torn, and no plan and no promise is lost."""
        self.leads(first)
        _, process = self.faults.process(self.pod(first))
        promised = self.promise()
        self.both_know(promised[1:])
        waits, planned = self.burst(process, promised)
        try:
            self.leads(then)
        finally:
            self.faults.signal("CONT", process)
        left = JOBS * PODS - sum(bool(annotation(pod, "node")) for pod in self.placed.pods(LABEL).values())
        self.all_run(planned)
        self.both_know(promised[1:])
        self.come_one_by_one(promised)
        self.no_gpu_twice()
        same(self.faults.leader(), then, "who leads in the end")
        waits.wait(60)
        return f"{len(planned)} of {JOBS * PODS} pods were planned when it was halted, {left} were not when it came back"

    @quick
    def alone(self):
        self.faults.scale(1)

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        if case(f"a companion of commit {self.commit} beside ours", self.beside):
            case("ours takes over in the middle of a burst of plans, and back comes the earlier one", self.to_now)
            case("the earlier one takes over from ours likewise", self.to_before)
        case("ours goes on alone", self.alone)
        self.placed.clean()
