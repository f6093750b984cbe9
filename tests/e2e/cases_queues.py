# SPDX-License-Identifier: Apache-2.0
"""Queues of Volcano: weight, capability and reclaim work as before with gputopo installed, and apply to placed
jobs."""
import time

from harness.placed import PLAN, job, pod_template
from harness.report import quick
from harness.waiting import same, until

from cases_volcano import task, vcjob

ALL_ACTIONS = "enqueue, allocate, reclaim, backfill"
NODES = 42  # of 8 GPUs


def queue(name, **spec):
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


class QueueCases:
    def __init__(self, placed, volcano, report):
        self.placed, self.volcano, self.cluster, self.report = placed, volcano, placed.cluster, report
        self.mark = ""  # of the names: Volcano's controller may forget a job that takes the name of one just deleted

    # steps

    def phase(self, job):
        return self.cluster.get("jobs.batch.volcano.sh", job).get("status", {}).get("state", {}).get("phase")

    def submit(self, name, pods, least=1, **nodes):
        """A job of its own queue, of pods of 8 GPUs."""
        template = pod_template(8, labels={"case": "queues"}, nodeSelector=nodes)
        self.placed.create(vcjob(name + self.mark, task("t", pods, template), minAvailable=least, queue=name + self.mark))

    def running(self, **wanted):
        """Waits until so many pods of each queue run; then the scheduler gets the chance to change its mind."""
        def counted():
            counts = {name: 0 for name in wanted}
            for pod in self.placed.pods("case=queues").values():
                counts[pod["metadata"]["labels"]["volcano.sh/job-name"].removesuffix(self.mark)] += pod["status"].get("phase") == "Running"
            return counts == wanted or (False, counts)
        until(f"{wanted} pods to run", counted)
        self.volcano.rounds(1)
        same(counted(), True, f"{wanted} pods run")

    # cases

    def shares(self, configuration):
        """Jobs without the annotation."""
        queues = [queue(name + self.mark, **spec) for name, spec in (
            ("light", {"weight": 1}), ("heavy", {"weight": 2}), ("capped", {"capability": {"metax-tech.com/gpu": "16"}}),
            ("keeps", {"weight": 1, "reclaimable": False}), ("due", {"weight": 9}))]
        for one in queues:
            self.placed.create(one)
        try:
            self.volcano.reload(configuration("enqueue"))
            self.submit("light", NODES // 3 + 4)
            self.submit("heavy", 2 * NODES // 3 + 4)
            until("the pods of both", lambda: len(self.placed.pods("case=queues")) == NODES + 8)
            self.volcano.reload(configuration(ALL_ACTIONS))  # not before: who comes first alone may have all
            self.running(light=NODES // 3, heavy=2 * NODES // 3)
            for pod in self.placed.pods("case=queues").values():
                same([key for key in pod["metadata"].get("annotations", {}) if key.startswith(PLAN)], [], "its plans")
            self.placed.clean()
            self.submit("capped", 3, rack="4")
            self.submit("keeps", 8, rack="5")
            self.running(capped=2, keeps=8)
            self.submit("due", 2, least=2, rack="5")
            until("the job to be let in", lambda: len(self.placed.pods(f"volcano.sh/job-name=due{self.mark}")) == 2)
            self.running(capped=2, keeps=8, due=0)
            self.cluster.kubectl("patch", "queue", f"keeps{self.mark}", "--type=merge", "-p", '{"spec": {"reclaimable": true}}')
            self.running(capped=2, keeps=6, due=2)
        finally:
            self.placed.clean()
            self.cluster.kubectl("delete", "queue", *(one["metadata"]["name"] for one in queues), "--wait=false")

    def unchanged(self):
        try:
            for configuration, self.mark in ((self.volcano.without_us, "-bare"), (self.volcano.with_us, "-ours")):
                self.shares(configuration)
        finally:
            self.volcano.reload(self.volcano.with_us())

    @quick
    def capability(self):
        """A queue's upper limit holds for placed jobs as for others: what is beyond it waits."""
        self.placed.create(queue("small", weight=1, capability={"metax-tech.com/gpu": "32"}))
        try:
            for name in ("first", "second"):
                self.placed.create(vcjob(name, task("t", 4, pod_template(8, group=32)), minAvailable=4, queue="small"))
            until("one of the two to run", lambda: sorted((self.phase("first"), self.phase("second"))) == ["Pending", "Running"] or (
                False, (self.phase("first"), self.phase("second"))))
            runs = next(name for name in ("first", "second") if self.phase(name) == "Running")
            waits = "second" if runs == "first" else "first"
            self.placed.check_placed(self.placed.bound(f"volcano.sh/job-name={runs}", 4), 32)
            self.cluster.kubectl("delete", "jobs.batch.volcano.sh", runs, "--wait=false")
            self.placed.check_placed(self.placed.bound(f"volcano.sh/job-name={waits}", 4), 32)
        finally:
            self.placed.clean()
            self.cluster.kubectl("delete", "queue", "small", "--wait=false")

    def queued_job(self, name, queue_name):
        """A Job of Kubernetes in a queue of Volcano, whose controller makes the PodGroup: four pods, one unit."""
        made = job(name, 4, pod_template(8, group=32, schedulerName="volcano"))
        made["metadata"]["annotations"] = {"scheduling.volcano.sh/group-min-member": "4"}
        made["spec"]["template"]["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = queue_name
        return made

    def bare_gang(self, name, queue_name):
        """Four pods without an owner, one unit, and a PodGroup made by hand."""
        self.placed.create({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
                            "spec": {"minMember": 4, "queue": queue_name, "minResources": {"metax-tech.com/gpu": "32"}}})
        for at in range(4):
            template = pod_template(8, group=32, labels={"job-name": name}, schedulerName="volcano")
            template["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = name
            template["metadata"]["name"] = f"{name}-{at}"
            self.placed.create({"apiVersion": "v1", "kind": "Pod", **template})

    def operator_job(self, name, queue_name):
        """A PyTorchJob, for which the training operator makes the PodGroup."""
        template = pod_template(8, group=32, labels={"job-name": name}, schedulerName="volcano")
        template["spec"]["containers"][0]["name"] = "pytorch"
        kinds = {kind: {"replicas": count, "restartPolicy": "Never", "template": template} for kind, count in (("Master", 1), ("Worker", 3))}
        self.placed.create({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name, "namespace": "default"},
                            "spec": {"pytorchReplicaSpecs": kinds, "runPolicy": {"schedulingPolicy": {"queue": queue_name}}}})

    KINDS = {"indexed": "job", "volcano": "jobs.batch.volcano.sh", "operator": "pytorchjobs.kubeflow.org", "bare": "pods"}

    def submit_kinds(self, queue_name):
        """One of each kind: four pods of 8 GPUs, a unit."""
        self.placed.create(self.queued_job("indexed", queue_name))
        template = pod_template(8, group=32, labels={"job-name": "volcano"})
        self.placed.create(vcjob("volcano", task("t", 4, template), minAvailable=4, queue=queue_name))
        self.operator_job("operator", queue_name)
        self.bare_gang("bare", queue_name)

    def of(self, name):
        return self.placed.pods(f"job-name={name}")

    def runs(self, name):
        pods = self.of(name).values()
        return len(pods) == 4 and all(pod["status"].get("phase") == "Running" for pod in pods)

    def end(self, name):
        self.cluster.kubectl("delete", self.KINDS[name], *(["-l", "job-name=bare"] if name == "bare" else [name]), "--wait=false")

    def check(self, name):
        pods = self.placed.bound(f"job-name={name}", 4)
        self.placed.check_placed(pods, 32)
        return pods

    def stay(self, check):
        """For a while all stays as it is: in the quick form longer than --unschedulable, else five minutes."""
        end = time.monotonic() + (0 if self.report.is_quick else 300)
        while True:
            self.volcano.rounds(15)  # of a second each
            check()
            if time.monotonic() > end:
                return

    def tenant_runs(self, name):
        """Another tenant's job, which then is done; its nodes."""
        self.placed.create(self.queued_job(name, "default"))
        pods = self.placed.bound(f"job-name={name}", 4)
        self.placed.check_placed(pods, 32)
        self.cluster.kubectl("delete", "job", name, "--wait=false")
        return {pod["spec"]["nodeName"] for pod in pods}

    def full_queue(self):
        """Jobs of four kinds wait in a full queue without a plan; another tenant's job runs meanwhile; then each of them runs."""
        self.volcano.reload(self.volcano.with_us(ALL_ACTIONS))
        self.placed.create(queue("full", weight=1, capability={"metax-tech.com/gpu": "32"}))
        waiting, order = list(self.KINDS), []

        def untouched():
            for name in waiting:
                self.placed.untouched(self.of(name))
        try:
            self.placed.create(self.queued_job("holder", "full"))
            self.placed.check_placed(self.placed.bound("job-name=holder", 4), 32)
            self.submit_kinds("full")
            for name in ("indexed", "bare"):  # those of the others are made when the queue lets them in
                self.placed.waits(f"job-name={name}", "NotAdmitted", "queue full has not let its PodGroup")
            self.tenant_runs("tenant")
            self.stay(untouched)
            self.cluster.kubectl("delete", "job", "holder", "--wait=false")
            while waiting:
                name = until("one of them to run", lambda: next(filter(self.runs, waiting), None) or (
                    False, {name: self.placed.summary(self.of(name)) for name in waiting}))
                waiting.remove(name)
                if not order:
                    self.volcano.rounds(15)  # it has let all of them in
                untouched()
                self.check(name)
                order.append(name)
                self.end(name)
            return f"in the order {', '.join(order)}"
        finally:
            self.placed.clean()
            self.cluster.kubectl("delete", "podgroups.scheduling.volcano.sh", "--all", "--wait=false")
            self.cluster.kubectl("delete", "queue", "full", "--wait=false")
            self.volcano.reload(self.volcano.with_us())

    def over_its_share(self):
        """Jobs of four kinds are let in, planned, and then held back: their queue has what it is due. Another tenant's job leaves
        their nodes alone; when the queue is due more, they run there."""
        self.volcano.reload(self.volcano.with_us(ALL_ACTIONS))
        self.placed.create(queue("light", weight=1))
        self.placed.create(queue("heavy", weight=6))
        try:
            self.placed.create(self.queued_job("holder", "light"))
            self.placed.check_placed(self.placed.bound("job-name=holder", 4), 32)
            # Three quarters of the cluster are due to pods that no node serves, 42 GPUs to each of the other two queues.
            self.placed.create(vcjob("wishes", task("t", NODES, pod_template(8, nodeSelector={"rack": "none"})), minAvailable=1, queue="heavy"))
            until("its pods", lambda: len(self.placed.pods("volcano.sh/job-name=wishes")) == NODES)
            self.volcano.rounds(3)
            self.submit_kinds("light")
            for name in self.KINDS:
                self.placed.waits(f"job-name={name}", "HeldByQueue", "its queue has more than its share")
            homes = self.homes()
            away = self.tenant_runs("tenant")
            same({name for name in self.KINDS if away & set(homes[name].values())}, set(), "those whose nodes it took")
            self.stay(lambda: same(self.homes(), homes, "their nodes"))
            for name in self.KINDS:
                same([pod["spec"].get("nodeName") for pod in self.of(name).values()], [None] * 4, f"where {name} is")
            self.cluster.kubectl("delete", "jobs.batch.volcano.sh", "wishes", "--wait=false")
            for name in self.KINDS:
                same({pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in self.check(name)}, homes[name], f"the nodes of {name}")
        finally:
            self.placed.clean()
            self.cluster.kubectl("delete", "podgroups.scheduling.volcano.sh", "--all", "--wait=false")
            for name in ("light", "heavy"):
                self.cluster.kubectl("delete", "queue", name, "--wait=false")
            self.volcano.reload(self.volcano.with_us())

    def homes(self):
        return {name: {pod: one["metadata"]["annotations"].get(PLAN + "node") for pod, one in self.of(name).items()} for name in self.KINDS}

    def reclaimed(self):
        """A placed group loses its GPUs to the queue that they are due to; what is left of it is planned again, or waits."""
        self.placed.create(queue("lender", weight=1, reclaimable=True))
        self.placed.create(queue("owner", weight=9, reclaimable=True))
        try:
            self.volcano.reload(self.volcano.with_us(ALL_ACTIONS))
            self.placed.create(vcjob("lent", task("t", 8, pod_template(8, nodeSelector={"rack": "4"}, group=64)), minAvailable=1,
                                     queue="lender"))
            lent = self.placed.bound("volcano.sh/job-name=lent", 8)
            self.placed.check_placed(lent, 64)
            first = {pod["metadata"]["uid"] for pod in lent}
            self.placed.create(vcjob("due", task("t", 2, pod_template(8, nodeSelector={"rack": "4"})), minAvailable=2, queue="owner"))
            self.placed.bound("volcano.sh/job-name=due", 2)
            self.placed.no_gpu_twice()

            def pods_again():
                pods = self.placed.pods("volcano.sh/job-name=lent")
                new = [pod for pod in pods.values() if pod["metadata"]["uid"] not in first]
                return new and all(pod["spec"].get("schedulingGates") for pod in new) or (False, self.placed.summary(pods))
            until("the evicted pods to be gated again", pods_again)
            self.cluster.kubectl("delete", "jobs.batch.volcano.sh", "due", "--wait=false")
            again = self.placed.bound("volcano.sh/job-name=lent", 8)
            self.placed.check_placed(again, 64)
            taken = 8 - len(first & {pod["metadata"]["uid"] for pod in again})
            return f"{taken} of 8 pods were evicted, and came back into the rack"
        finally:
            self.placed.clean()
            self.volcano.reload(self.volcano.with_us())
            for name in ("lender", "owner"):
                self.cluster.kubectl("delete", "queue", name, "--wait=false")

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        case("queues of Volcano with weight, capability, reclaimable false and true: the same with us and without", self.unchanged)
        case("a queue's capability holds for placed jobs", self.capability)
        case("reclaim: evicted pods of a placed job are planned again", self.reclaimed)

    def run_full(self):
        """With the training operator."""
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        case("a full queue: jobs of four kinds wait in it without a plan, and then each runs", self.full_queue)
        case("a queue over its share: what is held back keeps its way home", self.over_its_share)
