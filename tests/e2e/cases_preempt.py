# SPDX-License-Identifier: Apache-2.0
"""A cluster full of pods of one GPU: jobs and pods of higher priority get room, the job by the companion with --preempt, the pod by
kube-scheduler, which asks the companion where."""
import json
import time

from harness import install
from harness.placed import job, pod_template
from harness.schedulers import ExtendedKubeScheduler
from harness.waiting import same, until

CLASSES = {"test-middle": 1000, "test-high": 2000}
EVICTED = "gputopo_placement_pods_preempted_total"
WATCHED = 60  # seconds


class PreemptCases:
    def __init__(self, placed, report):
        self.placed, self.cluster, self.report = placed, placed.cluster, report
        self.scheduler = ExtendedKubeScheduler(placed)

    def companion(self):
        for name, value in CLASSES.items():
            self.placed.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value})
        self.cluster.kubectl("patch", "deployment", "gputopo-scheduler", "-n", install.NAMESPACE, "--type=json", "-p", json.dumps(
            [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--preempt=true"}]))
        self.cluster.kubectl("rollout", "status", "deployment/gputopo-scheduler", "-n", install.NAMESPACE, "--timeout=290s")
        self.placed.companion()

    def fill(self):
        """A pod of one GPU on each of the cluster; no job can make room by itself."""
        count = sum(int(node["status"]["allocatable"].get("metax-tech.com/gpu", 0)) for node in self.cluster.get("nodes")["items"])
        self.placed.create(job("low", count, pod_template(1, nodeSelector={}), backoffLimit=10000))
        self.placed.bound("job-name=low", count, seconds=240)
        return count

    def job_of(self, name, priority):
        return self.placed.create(job(name, 4, pod_template(8, group=16, nodeSelector={}, priorityClassName=priority)))

    def job(self):
        """Two units of two nodes: the pods of four nodes leave, no other one, and none leaves twice."""
        count = self.fill()
        before = self.placed.metric(EVICTED)
        self.job_of("middle", "test-middle")
        racks = self.placed.check_placed(self.placed.bound("job-name=middle", 4, seconds=180), 16)
        same(self.placed.metric(EVICTED) - before, 32, "evicted pods")
        said = self.placed.event("Preempted", "default/Job/middle, with priority 1000")
        self.placed.no_gpu_twice()
        return f"of {count} pods 32 left, for the racks {racks}: {said}"

    def outbid(self):
        """Three jobs of rising and falling priority want the same room, and their pods come back: nobody leaves for an equal."""
        self.fill()
        before, start = self.placed.metric(EVICTED), time.monotonic()
        self.job_of("middle", "test-middle")
        self.placed.bound("job-name=middle", 4, seconds=180)
        self.job_of("high", "test-high")
        self.placed.bound("job-name=high", 4, seconds=180)
        self.job_of("again", "test-middle")
        self.placed.bound("job-name=again", 4, seconds=180)
        evicted = self.placed.metric(EVICTED)
        time.sleep(WATCHED)
        same(self.placed.metric(EVICTED), evicted, f"evicted pods {WATCHED} s later")
        return f"{evicted - before:.0f} pods left in {time.monotonic() - start:.0f} s, none in the last {WATCHED} s"

    def pod(self):
        """kube-scheduler preempts for a pod of 8 GPUs, where the companion says."""
        self.fill()
        self.scheduler.start()
        try:
            template = pod_template(8, nodeSelector={}, priorityClassName="test-high", schedulerName=self.scheduler.NAME)
            self.placed.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "big", "namespace": "default"}, **{
                "spec": template["spec"]}})
            pod = until("the pod to run", lambda: next((pod for name, pod in self.placed.pods().items() if name == "big" and
                                                        pod["status"].get("phase") == "Running"), None) or (False, self.placed.summary(
                                                            {"big": self.cluster.get("pod", "big")})), 180)
            asked = [line for line in self.placed.ask("/metrics").splitlines()
                     if line.startswith('gputopo_extender_requests_total{path="/kube-scheduler/preempt",result="answered"}')]
            same(float(asked[0].split()[-1]) >= 1, True, f"asked where to preempt: {asked}")
            self.placed.no_gpu_twice()
            return pod["spec"]["nodeName"]
        finally:
            self.scheduler.stop()

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        if self.report.case("the companion with --preempt", self.companion):
            case("a job of priority gets the four nodes that cost the fewest pods", self.job)
            case("jobs that outbid each other: nobody leaves for nothing", self.outbid)
            case("a pod of 8 GPUs gets victims by kube-scheduler, which asks where", self.pod)
        self.placed.clean()
