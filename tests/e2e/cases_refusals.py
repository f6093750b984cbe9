# SPDX-License-Identifier: Apache-2.0
"""What the stock kube-scheduler refuses: planned pods, by rules that a plan does not know, and nodes that offer fewer GPUs than they have."""
from harness.placed import annotation, job, pod_template, statefulset
from harness.report import quick
from harness.waiting import same, until

DISK, ZONE = "test.gputopo/disk", "topology.kubernetes.io/zone"
PORTS = [{"containerPort": 7000, "hostPort": 7000}]
NO_DISK = "had no available volume zone"


def on(*nodes):
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]}]}}}


def with_port(template):
    template["spec"]["containers"][0]["ports"] = PORTS
    return template


class RefusalCases:
    def __init__(self, placed, report):
        self.placed, self.cluster, self.report = placed, placed.cluster, report

    def phase(self, name, phase, words=""):
        """Waits until the Job's plan has it, with such a message; returns its status."""
        def told():
            status = self.placed.placement(f"job-{name}")
            return status.get("phase") == phase and words in status.get("message", "") and status or (False, status)
        return until(f"{name} to be {phase}", told)

    def says(self, what, text, *words):
        same([word for word in words if word not in text], [], f"not in {what}: {text!r}")

    def volume(self, name, claim=None, labels=None, **spec):
        """A volume, bound to a claim; `claim`: somebody else makes it. The spec's members that use it."""
        wanted = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeMode": "Filesystem"}
        self.placed.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": labels or {}}, "spec": {
            **wanted, "capacity": {"storage": "1Mi"}, "hostPath": {"path": "/tmp"}, **spec,
            **({"claimRef": {"namespace": "default", "name": claim}} if claim else {})}})
        if claim:
            return {}
        self.placed.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}, "spec": {
            **wanted, "volumeName": name, "resources": {"requests": {"storage": "1Mi"}}}})
        until("the claim to be bound", lambda: self.cluster.get("pvc", name).get("status", {}).get("phase") == "Bound")
        return {"volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": name}}]}

    def zonal(self, here, there):
        """A volume that pods can have on the nodes `here`, not `there`, by its own label, which plans do not read."""
        name = f"disk-{here[0]}"
        for nodes, zone in ((here, name), (there, "elsewhere")):
            self.cluster.kubectl("label", "node", *nodes, f"{ZONE}={zone}", "--overwrite")
        return self.volume(name, labels={ZONE: name})

    def local(self, name, *nodes, claim=None):
        """One that its node affinity has on these nodes alone."""
        self.cluster.kubectl("label", "node", *nodes, f"{DISK}={name}", "--overwrite")
        selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": DISK, "operator": "In", "values": [name]}]}]}
        return self.volume(name, claim, nodeAffinity={"required": selector})

    @quick
    def disks(self):
        """A disk that two nodes have, for all pods of a job; one of its own for each pod of a StatefulSet."""
        shared = ("hollow-2-6", "hollow-3-5")  # in two racks: too far apart for one unit
        volume = self.local("far", *shared)
        self.placed.create(job("far", 2, pod_template(8, group=16, **volume)))
        said = self.placed.waits("job-name=far", "PodRules", "the volumes or devices of its pods can be used on some nodes only")
        self.placed.untouched(self.placed.pods("job-name=far"))
        self.cluster.kubectl("delete", "job", "far", "--wait", "--cascade=foreground")
        self.placed.create(job("near", 2, pod_template(8, group=16, **self.local("near", "hollow-3-2", "hollow-3-6"))))
        same({pod["spec"]["nodeName"] for pod in self.placed.bound("job-name=near", 2)}, {"hollow-3-2", "hollow-3-6"}, "nodes of near")
        own = ("hollow-2-7", "hollow-2-3", "hollow-2-6")
        for i, node in enumerate(own):
            self.local(f"own-{i}", node, claim=f"disk-own-{i}")
        claim = {"metadata": {"name": "disk"}, "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "",
                                                        "resources": {"requests": {"storage": "1Mi"}}}}
        self.placed.create(statefulset("own", 3, pod_template(8, group=24), podManagementPolicy="Parallel", volumeClaimTemplates=[claim]))
        self.placed.bound("app=own", 3)
        pods = self.placed.pods("app=own")
        same([pods[f"own-{i}"]["spec"]["nodeName"] for i in range(3)], list(own), "nodes of own")
        return said

    @quick
    def apart(self):
        """Two pods of four GPUs would fit on each node; a host port, and a rule of anti-affinity, let each node take one."""
        rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": "kubernetes.io/hostname"}]}}
        self.placed.create(job("port", 4, with_port(pod_template(4, group=16))))
        self.placed.create(job("apart", 4, pod_template(4, group=16, labels={"app": "apart"}, affinity=rule)))
        for name in ("port", "apart"):
            pods = self.placed.bound(f"job-name={name}", 4)
            self.placed.check_placed(pods, 16)
            same(len({pod["spec"]["nodeName"] for pod in pods}), 4, f"nodes of {name}")
        self.cluster.kubectl("delete", "job", "port", "apart", "--wait", "--cascade=foreground")

    @quick
    def stalled(self):
        """Two pods are planned for each of two nodes, and one node has the volume: half of the job runs, and it says so everywhere."""
        nodes = ("hollow-2-4", "hollow-2-5")
        self.placed.create(job("half", 4, pod_template(4, group=16, affinity=on(*nodes), **self.zonal(nodes[:1], nodes[1:]))))
        status = self.phase("half", "Stalled", "2 of its 4 pods cannot start as planned")
        same(status["reason"], "PlanRefused", "the reason")
        self.says("its message", status["message"], NO_DISK, "pods of it have run")
        self.placed.waits("job-name=half", "PlanRefused", NO_DISK)
        self.placed.event("PlanRefused", "pod half-", NO_DISK)
        self.says("gputopo explain", self.placed.explain("Job/half"), "PlanRefused", NO_DISK)
        running = [pod for pod in self.placed.pods("job-name=half").values() if pod["status"].get("phase") == "Running"]
        same(len(running), 2, "pods that run")
        return status["message"]

    @quick
    def planned_again(self):
        """Neither planned node has the volume, so that no pod has run: the job gets the other two nodes, and its Job counts no failed pod."""
        taken, free = ("hollow-2-0", "hollow-2-1"), ("hollow-2-2", "hollow-2-3")
        disk = self.zonal(free, taken)
        for node in free:
            template = pod_template(1)
            template["spec"]["nodeName"] = node
            template["metadata"].update(name=f"on-{node}", namespace="default")
            self.placed.create({"apiVersion": "v1", "kind": "Pod", **template})
        def told():
            free_now = {node: self.cluster.get("ngt", node)["status"]["freeCount"] for node in (*taken, *free)}
            return list(free_now.values()) == [8, 8, 7, 7] or (False, free_now)
        until("the nodes to tell so", told)
        ignored = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
        self.placed.create(job("again", 2, pod_template(8, group=16, affinity=on(*taken, *free), **disk), backoffLimit=0, podFailurePolicy=ignored))
        first = until("its plan", lambda: (lambda pods: len(pods) == 2 and all(annotation(pod, "node") for pod in pods.values()) and pods)(
            self.placed.pods("job-name=again")))
        same({annotation(pod, "node") for pod in first.values()}, set(taken), "the planned nodes")
        self.cluster.kubectl("delete", "pod", *(f"on-{node}" for node in free))
        said = self.placed.event("PlannedAgain", "none of its pods has run", "for the 1. time")
        pods = self.placed.bound("job-name=again", 2)
        same({pod["metadata"]["name"] for pod in pods} & set(first), set(), "pods that were not made again")
        self.placed.check_placed(pods, 16)
        same({pod["spec"]["nodeName"] for pod in pods}, set(free), "their nodes")
        self.phase("again", "Placed")
        same(self.cluster.get("job", "again")["status"].get("failed", 0), 0, "pods that its Job counts as failed")
        return said

    @quick
    def offers(self):
        """What the Node offers counts, not what its NodeGPUTopology shows; both on a node with 8 GPUs that nobody uses."""
        node = "hollow-3-0"
        try:
            for gpus in (0, 4):
                self.placed.hollow.offer(node, gpus)
                if not gpus:
                    self.placed.create(job("whole", 1, pod_template(8, group=8, affinity=on(node))))
                said = self.placed.waits("job-name=whole", "TooFewResources", f"of {node}'s 8 GPUs {gpus} are allocatable, {gpus} of them free")
                self.placed.untouched(self.placed.pods("job-name=whole"))
                same(self.cluster.get("ngt", node)["status"]["freeCount"], 8, f"free GPUs that {node} tells of")
        finally:
            self.placed.hollow.offer(node, 8)
        self.placed.check_placed(self.placed.bound("job-name=whole", 1), 8)
        return said

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        case("a host port, or anti-affinity: one pod of the job a node, and all of it runs", self.apart)
        case("disks of nodes: each pod goes where its volume is, or the job waits and says so", self.disks)
        case("half of a job cannot start, since its volume is elsewhere: it is stalled, and says why", self.stalled)
        case("none of a job can start: it is planned again as a whole, on other nodes", self.planned_again)
        case("a node that offers fewer GPUs than it has gets no more pods than it offers", self.offers)
