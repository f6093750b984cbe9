# SPDX-License-Identifier: Apache-2.0
"""What happens to running jobs: nodes are closed or come back, pods take long to end, budgets allow nothing."""
import time

from cases_node_loss import DEAD, NodeLossCases
from harness.placed import job, pod_template
from harness.report import quick
from harness.waiting import same, until

ENDS_S, QUICK_ENDS_S = 120, 25  # what the old pod takes to end
INDEX = "batch.kubernetes.io/job-completion-index"


class LifeCases(NodeLossCases):
    def __init__(self, placed, report):
        super().__init__(placed, report)
        self.ends = QUICK_ENDS_S if report.is_quick else ENDS_S

    # steps

    def uids(self, name):
        return {pod["metadata"]["uid"] for pod in self.placed.pods(f"job-name={name}").values()}

    def of_index(self, name, index):
        [pod] = [pod for pod in self.placed.pods(f"job-name={name}").values() if pod["metadata"]["annotations"][INDEX] == str(index)]
        return pod

    # cases

    @quick
    def closed_node(self):
        """A taint NoSchedule comes, and a pod goes: the next one is not pinned to that node, and nothing kills it again and again."""
        self.placed.create(job("closed", 4, pod_template(8, group=32, nodeSelector={"rack": "4"})))
        pods = self.placed.bound("job-name=closed", 4)
        home = pods[1]["spec"]["nodeName"]
        self.cluster.kubectl("taint", "node", home, "upkeep=1:NoSchedule")
        try:
            self.cluster.kubectl("delete", "pod", pods[1]["metadata"]["name"])
            self.placed.waits("job-name=closed", "UnitStuck")
            before = self.uids("closed")
            time.sleep(10)
            same(self.uids("closed"), before, "pods of the job")
            same(self.of_index("closed", 1)["spec"].get("nodeName"), None, "the node of the one that waits")
        finally:
            self.cluster.kubectl("taint", "node", home, "upkeep-")
        now = self.placed.bound("job-name=closed", 4)
        same(({pod["metadata"]["uid"] for pod in now}, now[1]["spec"]["nodeName"]), (before, home), "pods, and the node when it is open again")

    @quick
    def slow_end(self):
        """The pod before it has the same index and still runs: it waits for it by name, and then has its place."""
        self.set_spares(None)
        template = pod_template(8, "kubelet", group=16, terminationGracePeriodSeconds=2 * self.ends)
        template["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": self.ends}}}
        self.placed.create(job("slow", 2, template))
        pods = self.placed.bound("job-name=slow", 2)
        old, home = pods[0]["metadata"]["name"], pods[0]["spec"]["nodeName"]
        self.cluster.kubectl("delete", "pod", old, "--wait=false")
        said = self.placed.waits("job-name=slow", "UnitStuck", f"it waits for pod {old}, which terminates on {home}, at most ")
        now = self.placed.bound("job-name=slow", 2, seconds=120 + self.ends)
        same(now[0]["spec"]["nodeName"], home, "the place of the old pod")
        self.cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        return said[said.index("it waits"):]

    @quick
    def back_again(self):
        """A budget allows nothing, so no pod has gone when the node is back: all stay, and the other place is given back. The right to
        delete pods is not used to step around it."""
        with self.placed.repairing():
            self.kept_by_budget()

    def kept_by_budget(self):
        self.set_spares(1)
        self.fill("holder", 4, rack="5")
        pods, _ = self.begin()
        self.placed.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all", "namespace": "default"},
                           "spec": {"minAvailable": 8, "selector": {"matchLabels": {"job-name": "train"}}}})
        try:
            with self.cluster.without_kubelet(DEAD):
                self.not_ready()
                until("the move to begin", lambda: self.placed.placement("job-train").get("moving") or (False, self.placed.placement("job-train")))
                until("the budget to refuse it", lambda: "budget" in self.placed.placement("job-train").get("message", "")
                      or (False, self.placed.placement("job-train")), 60)
                same(self.uids("train"), {pod["metadata"]["uid"] for pod in pods}, "pods while the budget allows nothing")
            until("the move to be called off", lambda: "moving" not in self.placed.placement("job-train")
                  or (False, self.placed.placement("job-train")), 120)
            same(self.uids("train"), {pod["metadata"]["uid"] for pod in pods}, "pods when the node is back")
        finally:
            self.cluster.kubectl("delete", "pdb", "all")
        time.sleep(10)
        now = self.placed.bound("job-name=train", 8)
        same([pod["metadata"]["uid"] for pod in now], [pod["metadata"]["uid"] for pod in pods], "pods by rank")
        self.home()

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        case("a taint NoSchedule under a running unit: the next pod waits, and is not killed again and again", self.closed_node)
        case(f"a pod takes {self.ends} s to end: its successor of the same index waits for it by name", self.slow_end)
        case("a lost node is back before the budget lets its pods go: nothing moves, the spare is free", self.back_again)
        self.placed.clean()
