# SPDX-License-Identifier: Apache-2.0
"""A cluster full of pods of one GPU: jobs and pods of higher priority get room, the job by the companion with --preempt, the pod by
kube-scheduler, which asks the companion where."""
import json
import os
import random
import time

from harness import install
from harness.placed import annotation, job, pod_template, rack_of
from harness.schedulers import ExtendedKubeScheduler
from harness.waiting import Failed, same, until

CLASSES = {"test-middle": 1000, "test-high": 2000}
EVICTED = "gputopo_placement_pods_preempted_total"
WATCHED = 60  # seconds
MINUTES = float(os.environ.get("OUTBID_MINUTES", "3"))  # for which two teams outbid each other
PYTORCH = "training.kubeflow.org/job-name="


class Teams:
    """Two teams with two jobs of four nodes each, in a cluster for three of the four."""
    NAMES, ROOM = ("red", "blue"), 3

    def __init__(self, placed):
        self.placed, self.cluster, self.jobs, self.bids = placed, placed.cluster, {}, 0
        self.dice = random.Random(39)

    def submit(self, team, priority):
        name, self.bids = f"{team}{self.bids}", self.bids + 1
        self.placed.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"test-{priority}"},
                           "value": priority})
        template = pod_template(8, group=16, labels={"bid": name}, nodeSelector={}, priorityClassName=f"test-{priority}")
        self.placed.create(job(name, 4, template, backoffLimit=10000))
        self.jobs[name] = team, priority

    def running(self):
        """The jobs all of whose pods are on nodes."""
        bound = {}
        for pod in self.placed.pods("bid").values():
            if pod["spec"].get("nodeName"):
                bound[pod["metadata"]["labels"]["bid"]] = bound.get(pod["metadata"]["labels"]["bid"], 0) + 1
        return {name for name in self.jobs if bound.get(name) == 4}

    def bid(self):
        """The team with fewer jobs that run takes its lowest one back, and asks again with more priority than the other one has."""
        running = self.running()
        team = min(self.NAMES, key=lambda one: (sum(self.jobs[name][0] == one for name in running), self.dice.random()))
        waiting = [name for name, (whose, _) in self.jobs.items() if whose == team and name not in running]
        if waiting:
            lowest = min(waiting, key=lambda name: self.jobs[name][1])
            self.cluster.kubectl("delete", "job", lowest, "--cascade=foreground", "--wait")
            del self.jobs[lowest]
            self.submit(team, 1 + max(priority for whose, priority in self.jobs.values() if whose != team))
        return len(running)

    def highest_run(self):
        now = sorted(self.jobs[name][1] for name in self.running())
        return now == sorted(priority for _, priority in self.jobs.values())[-self.ROOM:] or (False, (now, self.jobs))


class PreemptCases:
    def __init__(self, placed, training, report):
        """`training`: Kubeflow's training operator; None where it could not be built."""
        self.placed, self.cluster, self.training, self.report = placed, placed.cluster, training, report
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

    def outbid_for_long(self):
        """Two teams outbid each other again and again, and all that is evicted comes back. OUTBID_MINUTES says for how long."""
        teams, before = Teams(self.placed), self.placed.metric(EVICTED)
        for name in Teams.NAMES * 2:
            teams.submit(name, 1)
        began, ran, looks = time.monotonic(), 0, 0
        while time.monotonic() < began + 60 * MINUTES:
            time.sleep(teams.dice.uniform(3, 9))
            ran, looks = ran + teams.bid(), looks + 1
        hours = (time.monotonic() - began) / 3600
        bids = teams.bids - 4
        until("the highest jobs to run when nobody bids any more", teams.highest_run, 120)
        evicted = self.placed.metric(EVICTED)
        count = evicted - before
        said = (f"{bids} bids and {count:.0f} evictions in {60 * hours:.1f} minutes, {count / hours:.0f} evictions an hour; "
                f"{ran / looks:.1f} of {Teams.ROOM} jobs ran at a look")
        if bids < MINUTES or count > 4 * bids:  # each bid takes four nodes at most
            raise Failed(said)
        time.sleep(WATCHED)
        same(self.placed.metric(EVICTED), evicted, f"evicted pods {WATCHED} s later")
        self.placed.no_gpu_twice()
        return said

    def pytorch_job(self, name, pods):
        """Units of two nodes, of high priority."""
        template = pod_template(8, group=16, nodeSelector={}, priorityClassName="test-high")
        template["spec"]["containers"][0]["name"] = "pytorch"
        self.placed.create({
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name, "namespace": "default"},
            "spec": {"pytorchReplicaSpecs": {role: {"replicas": count, "restartPolicy": "Never", "template": template}
                                             for role, count in (("Master", 1), ("Worker", pods - 1))}}})
        return self.placed.bound(PYTORCH + name, pods, seconds=240)

    def pytorch(self):
        """Two units of a PyTorchJob of high priority, in a cluster full of pods of one GPU."""
        count, before = self.fill(), self.placed.metric(EVICTED)
        racks = self.placed.check_placed(self.pytorch_job("torch", 4), 16)
        same(self.placed.metric(EVICTED) - before, 32, "evicted pods")
        self.placed.no_gpu_twice()
        return f"of {count} pods 32 left, for the racks {racks}"

    def mixed(self):
        """Rack 1 is full of pods of one GPU with the middle priority, rack 4 of two units with the lowest, rack 5 of pods whose priority
        is the job's own. Both units leave first; then, for one more unit, pods of rack 1; those of rack 5 stay."""
        def in_rack(rack):
            names = [node["metadata"]["name"] for node in self.cluster.get("nodes")["items"] if rack_of(node["metadata"]["name"]) == rack]
            return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": names}]}]}}}
        made = {}
        for rack, name, pods, gpus, more in (("1", "ones", 40, 1, {"priorityClassName": "test-middle"}), ("4", "units", 4, 8, {}),
                                             ("5", "equals", 4, 8, {"priorityClassName": "test-high"})):
            template = pod_template(gpus, group=16 if name == "units" else None, nodeSelector={}, affinity=in_rack(rack), **more)
            self.placed.create(job(name, pods, template, backoffLimit=10000))
            made[name] = {pod["metadata"]["uid"] for pod in self.placed.bound(f"job-name={name}", pods, seconds=240)}

        def left(name):
            return len(made[name] - {pod["metadata"]["uid"] for pod in self.placed.pods(f"job-name={name}").values()})
        first = self.pytorch_job("torch", 4)
        same((self.placed.check_placed(first, 16), [left(name) for name in made]), (["4", "4"], [0, 4, 0]), "racks, and who left")
        second = self.pytorch_job("more", 2)
        same((self.placed.check_placed(second, 16), [left(name) for name in made]), (["1"], [16, 4, 0]), "racks, and who left")
        back = self.placed.pods("job-name=units").values()
        same([pod["metadata"]["name"] for pod in back if annotation(pod, "node")], [], "pods of the units with a place in a full cluster")
        self.placed.no_gpu_twice()
        return "first two units of the lowest priority leave, then 16 pods of the middle one"

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
            if not self.training:
                self.report.skip("PyTorchJobs of high priority", "the training operator could not be built; the reason stands above")
            elif case("Kubeflow's training operator runs", self.training.start):
                case("a PyTorchJob of two units, in a cluster full of pods of one GPU", self.pytorch)
                case("a PyTorchJob in a mixed cluster: the lowest units leave first, then the middle pods, never its equals", self.mixed)
            case(f"two teams outbid each other for {MINUTES:g} minutes", self.outbid_for_long)
            case("a job of priority gets the four nodes that cost the fewest pods", self.job)
            case("jobs that outbid each other: nobody leaves for nothing", self.outbid)
            case("a pod of 8 GPUs gets victims by kube-scheduler, which asks where", self.pod)
        self.placed.clean()
