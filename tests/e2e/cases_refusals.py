# SPDX-License-Identifier: Apache-2.0
"""What the stock kube-scheduler refuses: planned pods, by rules that a plan does not know, and nodes that offer fewer GPUs than they have."""
from harness.placed import annotation, job, pod_template
from harness.report import quick
from harness.waiting import same, until

PORTS = [{"containerPort": 7000, "hostPort": 7000}]
NO_PORT = "didn't have free ports for the requested pod ports"
NOT_APART = "didn't match pod anti-affinity rules"


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

    @quick
    def stalled(self):
        """Two pods of four GPUs are planned for each node, and each node takes one: half of the job runs, and it says so everywhere."""
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": "kubernetes.io/hostname"}]}}
        self.placed.create(job("port", 4, with_port(pod_template(4, group=16))))
        self.placed.create(job("apart", 4, pod_template(4, group=16, labels={"app": "apart"}, affinity=apart)))
        for name, words in (("port", NO_PORT), ("apart", NOT_APART)):
            status = self.phase(name, "Stalled", "2 of its 4 pods cannot start as planned")
            same(status["reason"], "PlanRefused", "the reason")
            self.says("its message", status["message"], words, "pods of it have run")
            self.placed.waits(f"job-name={name}", "PlanRefused", words)
            self.placed.event("PlanRefused", f"pod {name}-", words)
            self.says("gputopo explain", self.placed.explain(f"Job/{name}"), "PlanRefused", words)
            running = [pod for pod in self.placed.pods(f"job-name={name}").values() if pod["status"].get("phase") == "Running"]
            same(len(running), 2, f"pods of {name} that run")
        return status["message"]

    @quick
    def planned_again(self):
        """Others have the port on both planned nodes, so that no pod has run: the job gets the other two nodes, and its Job counts
        no failed pod."""
        taken, free = ("hollow-2-0", "hollow-2-1"), ("hollow-2-2", "hollow-2-3")
        for node in (*taken, *free):
            template = with_port(pod_template(0)) if node in taken else pod_template(1)
            template["spec"]["nodeName"] = node
            template["metadata"].update(name=f"on-{node}", namespace="default")
            self.placed.create({"apiVersion": "v1", "kind": "Pod", **template})
        def told():
            free_now = {node: self.cluster.get("ngt", node)["status"]["freeCount"] for node in (*taken, *free)}
            return list(free_now.values()) == [8, 8, 7, 7] or (False, free_now)
        until("the nodes to tell so", told)
        ignored = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
        self.placed.create(job("again", 2, with_port(pod_template(8, group=16, affinity=on(*taken, *free))), backoffLimit=0, podFailurePolicy=ignored))
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
        case("half of a job cannot start, by a host port or by anti-affinity: it is stalled, and says why", self.stalled)
        case("none of a job can start: it is planned again as a whole, on other nodes", self.planned_again)
        case("a node that offers fewer GPUs than it has gets no more pods than it offers", self.offers)
