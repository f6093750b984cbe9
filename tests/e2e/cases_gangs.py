# SPDX-License-Identifier: Apache-2.0
"""Jobs that start small and grow, and jobs that are suspended and resumed."""
from harness.placed import job, pod_template
from harness.report import quick
from harness.waiting import same, until

from cases_volcano import task, vcjob

RACK = {"rack": "4"}  # eight nodes of 8 GPUs: two units of 32


class GangCases:
    def __init__(self, placed, volcano, report):
        self.placed, self.volcano, self.cluster, self.report = placed, volcano, placed.cluster, report

    # steps

    def on_nodes(self, selector):
        return {name: pod["spec"]["nodeName"] for name, pod in self.placed.pods(selector).items() if pod["spec"].get("nodeName")}

    # cases

    @quick
    def small(self):
        """Volcano's minAvailable 4 of 8: one unit runs beside another job; the other one comes when that has gone."""
        self.placed.create(job("holder", 4, pod_template(8, group=32, nodeSelector=RACK)))
        self.placed.check_placed(self.placed.bound("job-name=holder", 4), 32)
        self.placed.create(vcjob("small", task("worker", 8, pod_template(8, group=32, nodeSelector=RACK)), minAvailable=4))
        first = until("four pods to run", lambda: (lambda on: on if len(on) == 4 else (False, on))(self.on_nodes("volcano.sh/job-name=small")))
        self.volcano.rounds(3)
        same(self.on_nodes("volcano.sh/job-name=small"), first, "the pods that run")
        same(sorted(first), [f"small-worker-{i}" for i in range(4)], "they have the lowest ranks")
        until("it to say so", lambda: self.placed.placement("volcanojob-small").get("message", "").startswith("1 of its 2 units are placed; ") or
              (False, self.placed.placement("volcanojob-small")))
        same(self.placed.placement("volcanojob-small")["phase"], "Placed", "its phase")
        said = self.placed.waits("volcano.sh/job-name=small", "TooFewGPUs")
        self.cluster.kubectl("delete", "job", "holder", "--wait=false")
        self.placed.check_placed(self.placed.bound("volcano.sh/job-name=small", 8), 32)
        same({name: node for name, node in self.on_nodes("volcano.sh/job-name=small").items() if name in first}, first, "the first ones stayed")
        self.placed.no_gpu_twice()
        return said

    @quick
    def suspended(self):
        """Its GPUs are others' while it is suspended; resumed, it waits for them, and is planned from the start."""
        for name in ("one", "two"):
            self.placed.create(job(name, 8, pod_template(8, group=32, nodeSelector=RACK), suspend=name == "two"))
        self.placed.check_placed(self.placed.bound("job-name=one", 8), 32)
        for stops, runs in (("one", "two"), ("two", "one")):
            for name, suspend in ((runs, "false"), (stops, "true")):
                self.cluster.kubectl("patch", "job", name, "--type=merge", "-p", f'{{"spec": {{"suspend": {suspend}}}}}')
                if name == runs:
                    self.placed.waits(f"job-name={runs}", "TooFewGPUs")
            self.placed.check_placed(self.placed.bound(f"job-name={runs}", 8), 32)
            self.placed.gone(f"job-name={stops}")

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        case("minAvailable 4 of 8: a unit runs, and the other one when there is room", self.small)
        case("Jobs are suspended and resumed in turns", self.suspended)
