# SPDX-License-Identifier: Apache-2.0
"""Queues of Volcano: weight, capability and reclaim as ever with us installed, and what they mean for placed jobs."""
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
        """Four pods without an owner, and a PodGroup made by hand."""
        self.placed.create({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
                            "spec": {"minMember": 4, "queue": queue_name, "minResources": {"metax-tech.com/gpu": "32"}}})
        for at in range(4):
            template = pod_template(8, group=8, labels={"job-name": name}, schedulerName="volcano")
            template["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = name
            template["metadata"]["name"] = f"{name}-{at}"
            self.placed.create({"apiVersion": "v1", "kind": "Pod", **template})

    @quick
    def full_queue(self):
        """Jobs wait in a full queue without a plan, longer than --unschedulable; another tenant's job runs meanwhile; then each
        of them runs."""
        self.volcano.reload(self.volcano.with_us(ALL_ACTIONS))
        self.placed.create(queue("full", weight=1, capability={"metax-tech.com/gpu": "32"}))
        waiting = ["waits", "also", "bare"]
        try:
            self.placed.create(self.queued_job("holder", "full"))
            self.placed.check_placed(self.placed.bound("job-name=holder", 4), 32)
            for name in waiting[:2]:
                self.placed.create(self.queued_job(name, "full"))
            self.bare_gang("bare", "full")
            for name in waiting:
                self.placed.waits(f"job-name={name}", "NotAdmitted", "queue full has not let its PodGroup")
            self.placed.create(self.queued_job("tenant", "default"))
            self.placed.check_placed(self.placed.bound("job-name=tenant", 4), 32)
            self.volcano.rounds(15)  # of a second each, longer than --unschedulable
            for name in waiting:
                self.placed.untouched(self.placed.pods(f"job-name={name}"))
            self.cluster.kubectl("delete", "job", "holder", "--wait=false")
            order = []
            until("one of them to run", lambda: sum(pod["status"].get("phase") == "Running" for name in waiting
                                                    for pod in self.placed.pods(f"job-name={name}").values()) == 4)
            self.volcano.rounds(15)  # it has let all of them in
            for name in waiting:
                pods = self.placed.pods(f"job-name={name}")
                if not any(pod["spec"].get("nodeName") for pod in pods.values()):
                    self.placed.untouched(pods)
            while waiting:
                name = until("one of them to run", lambda: next(
                    (name for name in waiting if all(pod["status"].get("phase") == "Running"
                                                     for pod in self.placed.pods(f"job-name={name}").values())), None))
                if name != "bare":
                    self.placed.check_placed(self.placed.bound(f"job-name={name}", 4), 32)
                order.append(name)
                waiting.remove(name)
                self.cluster.kubectl("delete", "job" if name != "bare" else "pods", *(
                    [name] if name != "bare" else ["-l", "job-name=bare"]), "--wait=false")
            return f"in the order {', '.join(order)}"
        finally:
            self.placed.clean()
            self.cluster.kubectl("delete", "podgroups.scheduling.volcano.sh", "--all", "--wait=false")
            self.cluster.kubectl("delete", "queue", "full", "--wait=false")
            self.volcano.reload(self.volcano.with_us())

    def over_its_share(self):
        """A job that is let in, planned, and then held back: its queue has what it is due. Another tenant's job leaves its nodes
        alone; when the queue is due more, it runs there."""
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
            self.placed.create(self.queued_job("held", "light"))
            self.placed.waits("job-name=held", "HeldByQueue", "its queue has more than its share")
            home = {pod["metadata"]["annotations"][PLAN + "node"] for pod in self.placed.pods("job-name=held").values()}
            self.placed.create(self.queued_job("tenant", "default"))
            away = self.placed.bound("job-name=tenant", 4)
            self.placed.check_placed(away, 32)
            same(home & {pod["spec"]["nodeName"] for pod in away}, set(), "nodes of both")
            self.cluster.kubectl("delete", "jobs.batch.volcano.sh", "wishes", "--wait=false")
            held = self.placed.bound("job-name=held", 4)
            self.placed.check_placed(held, 32)
            same({pod["spec"]["nodeName"] for pod in held}, home, "its nodes")
        finally:
            self.placed.clean()
            for name in ("light", "heavy"):
                self.cluster.kubectl("delete", "queue", name, "--wait=false")
            self.volcano.reload(self.volcano.with_us())

    def reclaimed(self):
        """A placed group loses its GPUs to the queue that they are due to; what is left of it is planned anew, or waits."""
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
        case("a full queue: jobs wait in it without a plan, and then each runs", self.full_queue)
        case("a queue over its share: what is held back keeps its way home", self.over_its_share)
        case("reclaim: evicted pods of a placed job are planned again", self.reclaimed)
