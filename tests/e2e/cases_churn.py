# SPDX-License-Identifier: Apache-2.0
"""Everything at once for a quarter of an hour (45 seconds with --quick): jobs of all kinds come and go, nodes die and come back, queues
change, and the companion is replaced every minute. What has to hold then is checked over all objects."""
import json
import os
import random
import re
import subprocess
import time

from harness import audit
from harness.placed import annotation, gpus_of, job, pod_template, rack_of, statefulset
from harness.report import quick
from harness.waiting import Failed, until

from cases_queues import ALL_ACTIONS, queue
from cases_volcano import task, vcjob

MINUTES = float(os.environ.get("GPUTOPO_CHURN_MINUTES", 15))
EVERY = {"job": 4.5, "companion": 60, "node": 40, "queue": 25}  # seconds; 200 jobs in 15 minutes
FOLLOWS = 3  # seconds after the companion was replaced
QUICK_MINUTES, QUICKER = 0.75, 2  # of the quick form: 20 jobs, and all of it faster
GPUS = "metax-tech.com/gpu"
QUEUES = ("default", "small", "light")
DEAD = {"key": "test.local/dead", "effect": "NoExecute"}
NO_ROOM = ("TooFewGPUs", "NoSupernode")
SHAPES = ((1, 8, 8), (2, 8, 16), (4, 8, 32), (8, 8, 32), (8, 8, 64), (4, 2, 8), (4, 4, 16), (12, 8, 48), (2, 4, 8))  # pods, GPUs, a unit


class ChurnCases:
    def __init__(self, placed, volcano, operator, report):
        self.placed, self.volcano, self.operator, self.cluster, self.report = placed, volcano, operator, placed.cluster, report
        self.seed = int(os.environ.get("GPUTOPO_SEED", 0)) or random.randrange(1, 1 << 31)
        self.chance = random.Random(self.seed)
        self.minutes, self.faster = (QUICK_MINUTES, QUICKER) if report.is_quick else (MINUTES, 1)
        self.alive, self.dead, self.made = {}, {}, 0  # {name: (kind, shape, when it is deleted)}, {node: when it is back}
        self.moved = None  # when the companion was replaced, until Volcano asks the next one

    # what is submitted

    def kubernetes_job(self, name, pods, gpus, unit, _queue):
        self.placed.create(job(name, pods, pod_template(gpus, group=unit, labels={"churn": name})))

    def volcano_kubernetes_job(self, name, pods, gpus, unit, of):
        made = job(name, pods, pod_template(gpus, group=unit, labels={"churn": name}, schedulerName="volcano"))
        made["metadata"]["annotations"] = {"scheduling.volcano.sh/group-min-member": str(pods)}
        made["spec"]["template"]["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = of
        self.placed.create(made)

    def volcano_job(self, name, pods, gpus, unit, of):
        template = pod_template(gpus, group=unit, labels={"churn": name})
        self.placed.create(vcjob(name, task("t", pods, template), minAvailable=pods, queue=of))

    def stateful_set(self, name, pods, gpus, unit, _queue):
        made = statefulset(name, pods, pod_template(gpus, group=unit), podManagementPolicy="Parallel")
        made["spec"]["template"]["metadata"]["labels"]["churn"] = name
        self.placed.create(made)

    def pytorch_job(self, name, pods, gpus, unit, of):
        def replicas(count):
            template = pod_template(gpus, group=unit, labels={"churn": name}, schedulerName="volcano")
            template["spec"]["containers"][0]["name"] = "pytorch"
            return {"replicas": count, "restartPolicy": "Never", "template": template}
        kinds = {"Master": replicas(1), **({"Worker": replicas(pods - 1)} if pods > 1 else {})}
        self.placed.create({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name, "namespace": "default"},
                            "spec": {"pytorchReplicaSpecs": kinds,
                                     "runPolicy": {"schedulingPolicy": {"queue": of, "minAvailable": pods}}}})

    KINDS = {"job": kubernetes_job, "jobs.batch": volcano_kubernetes_job, "jobs.batch.volcano.sh": volcano_job, "statefulset": stateful_set,
             "pytorchjobs.kubeflow.org": pytorch_job}

    # what happens

    def submit(self):
        kind = self.chance.choice(list(self.KINDS))
        shape = self.chance.choice(SHAPES)
        name, self.made = f"churn-{self.made}", self.made + 1
        self.KINDS[kind](self, name, *shape, self.chance.choice(QUEUES))
        self.alive[name] = kind, shape, time.monotonic() + self.chance.uniform(20, 100) / self.faster

    def delete(self, now):
        for name, (kind, _, end) in list(self.alive.items()):
            if end <= now:
                self.cluster.kubectl("delete", kind, name, "--wait=false")
                del self.alive[name]

    def change_queue(self):
        limit = self.chance.choice(("32", "64", "96"))
        self.cluster.kubectl("patch", "queue", "small", "--type=merge", "-p", json.dumps({"spec": {"capability": {GPUS: limit}}}))

    def set_node(self, node, dead):
        """As an operator takes it out of use, or a node that is lost is marked: its pods are deleted."""
        spec = {"unschedulable": dead or None, "taints": [DEAD] if dead else None}
        self.cluster.kubectl("patch", "node", node, "--type=merge", "-p", json.dumps({"spec": spec}))

    def kill_node(self, now):
        node = self.chance.choice([name for name in self.placed.hollow.names if name not in self.dead])
        self.set_node(node, True)
        self.dead[node] = now + self.chance.uniform(20, 60) / self.faster

    def revive(self, now):
        for node, end in list(self.dead.items()):
            if end <= now:
                self.set_node(node, False)
                del self.dead[node]

    def replace_companion(self):
        pod = self.placed.companion()["metadata"]["name"]
        self.cluster.kubectl("delete", "pod", pod, "-n", "gputopo-system", "--grace-period=1", "--wait=false")
        self.moved = time.monotonic()

    def follow_companion(self, now):
        """Volcano asks the next pod of the companion, as it would by its Service: there is no kube-proxy here."""
        if self.moved and self.moved + FOLLOWS <= now:
            self.volcano.configure(self.volcano.with_us(ALL_ACTIONS))
            self.moved = None

    @quick
    def churn(self):
        """All of it, by a clock of its own each."""
        self.volcano.reload(self.volcano.with_us(ALL_ACTIONS))
        self.placed.create(queue("small", weight=1, capability={GPUS: "64"}))
        self.placed.create(queue("light", weight=1))
        start = time.monotonic()
        runs = {"job": self.submit, "companion": self.replace_companion, "node": lambda: self.kill_node(now), "queue": self.change_queue}
        clocks = {run: EVERY[what] / self.faster for what, run in runs.items()}
        due = {run: start + (0 if run == self.submit else every) for run, every in clocks.items()}
        while (now := time.monotonic()) < start + self.minutes * 60:
            self.delete(now)
            self.revive(now)
            self.follow_companion(now)
            for run, when in due.items():
                if when <= now:
                    run()
                    due[run] = max(when + clocks[run], now)
            time.sleep(0.2)
        return f"{self.made} jobs, {len(self.alive)} of them are there; seed {self.seed}"

    # what has to hold

    @quick
    def calm(self):
        """Nothing changes any more; then who waits, waits for a reason."""
        self.revive(float("inf"))
        self.follow_companion(float("inf"))

        def standing():
            return {pod["metadata"]["uid"]: (pod["spec"].get("nodeName"), len(pod["spec"].get("schedulingGates", [])))
                    for pod in self.pods()}
        last, since, end = None, 0, time.monotonic() + 600
        while time.monotonic() < end:
            if (now := standing()) != last:
                last, since = now, time.monotonic()
            if time.monotonic() - since > 35:
                audit.forget(self.cluster, kind="Unplaced")  # of pods that came while there was no companion
                return f"{sum(bool(node) for node, _ in last.values())} of {len(last)} pods on nodes"
            time.sleep(1)
        raise Failed("pods come, go and move all the time")

    def pods(self):
        return [pod for pod in self.cluster.get("pods", "-n", "default", "-l", "churn")["items"]
                if not pod["metadata"].get("deletionTimestamp") and pod["status"].get("phase") not in ("Succeeded", "Failed")]

    def jobs(self):
        found = {}
        for pod in self.pods():
            found.setdefault(pod["metadata"]["labels"]["churn"], []).append(pod)
        return found

    @quick
    def units_whole(self):
        """No unit in two supernodes, no GPU twice."""
        self.placed.no_gpu_twice()
        units, taken = {}, {}
        for name, pods in self.jobs().items():
            for pod in pods:
                node, plan = pod["spec"].get("nodeName"), annotation(pod, "gpus")
                if not node or not plan:
                    continue
                units.setdefault((name, annotation(pod, "unit")), set()).add(rack_of(node))
                for one in [gpu for ids in json.loads(plan).values() for gpu in ids]:
                    taken.setdefault(one, []).append(pod["metadata"]["name"])
        torn = {unit: racks for unit, racks in units.items() if len(racks) > 1}
        twice = {gpu: names for gpu, names in taken.items() if len(names) > 1}
        if torn or twice:
            raise Failed(f"units in several racks: {torn}; GPUs planned twice: {twice}")
        return f"{len(units)} units, {len(taken)} GPUs"

    def reason(self, pods):
        told = {(one["reason"], one["message"]) for pod in pods
                for one in pod["status"].get("conditions", []) if one["type"] == "GPUPlacement" and one["status"] == "False"}
        return sorted(told)[0] if told else ("", "")

    @quick
    def nobody_waits(self):
        """For whom there is room by `gputopo plan` on the cluster as it is."""
        told, wrong, counts = self.dump(), [], {}
        all_waiting = {name: [pod for pod in pods if not pod["spec"].get("nodeName")] for name, pods in self.jobs().items()}
        for name, waiting in all_waiting.items():
            if not waiting:
                continue
            reason, text = self.reason(waiting)
            counts[reason] = counts.get(reason, 0) + 1
            shape = self.alive[name][1]
            if reason in NO_ROOM and len(waiting) == shape[0] and self.fits(told, *shape):
                wrong.append(f"{name} {shape} waits for {reason}: {text}")
            elif reason == "Reserved" and not all(map(all_waiting.get, re.findall(r"reserved for job default/\w+/([^ ,]+)", text) or [""])):
                wrong.append(f"{name} {shape} waits for {reason}, by a job that does not wait: {text}")
            elif reason == "NotAdmitted" and not self.queue_waits(waiting):
                wrong.append(f"{name} {shape} waits for its queue, which has let it in: {text}")
            elif not reason and not self.queue_is_full(waiting):  # it was made smaller when a part of the job ran
                wrong.append(f"{name} {shape} waits for no reason: {self.placed.summary({pod['metadata']['name']: pod for pod in waiting})}")
        if wrong:
            raise Failed("; ".join(wrong))
        return ", ".join(f"{count} for {reason}" for reason, count in sorted(counts.items())) or "nobody"

    def dump(self):
        file = self.cluster.state / "churn.json"
        told = json.loads(self.cluster.ask("control", "gputopo", "cluster", "-o", "json"))
        for node in told["nodes"]:
            if not node["name"].startswith("hollow-"):
                node["free"] = []  # the pods choose the others
        file.write_text(json.dumps(told))
        return file

    def fits(self, dump, pods, gpus, unit):
        done = subprocess.run([self.placed.build / "bin" / "gputopo", "plan", "--cluster", dump, "--pods", str(pods), "--gpus", str(gpus),
                               "--group-size", str(unit), "-o", "json"], stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)["placed"]

    def podgroup(self, pods):
        name = pods[0]["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name")
        return self.cluster.get("podgroups.scheduling.volcano.sh", name, "-n", "default") if name else {}

    def queue_waits(self, pods):
        """The queue has not let the pods' PodGroup in, or is full."""
        return self.podgroup(pods).get("status", {}).get("phase", "Pending") == "Pending" or self.queue_is_full(pods)

    def queue_is_full(self, pods):
        """False for pods without a queue."""
        name = self.podgroup(pods).get("spec", {}).get("queue")
        queue_ = self.cluster.get("queue", name) if name else {}
        limit = queue_.get("spec", {}).get("capability", {}).get(GPUS)
        used = queue_.get("status", {}).get("allocated", {}).get(GPUS, "0")
        return bool(limit) and int(used) + sum(gpus_of(pod) for pod in pods) > int(limit)

    @quick
    def nothing_held(self):
        """By jobs that are not there: neither objects nor GPUs."""
        for name, (kind, _, _) in self.alive.items():
            self.cluster.kubectl("delete", kind, name, "--wait=false")
        self.alive = {}
        self.placed.clean()
        until("every GPUPlacement to be gone", lambda: not (left := self.cluster.get("gpuplacements", "-A")["items"]) or (
            False, [item["metadata"]["name"] for item in left]))
        for metric in ("gputopo_placement_reserved_gpus", "gputopo_placement_reserved_nodes"):
            until(f"{metric} to be 0", lambda: self.placed.metric(metric) == 0 or (False, self.placed.metric(metric)))

    def run(self):
        case = self.report.case
        self.operator.start()
        seconds = self.minutes * 60
        jobs, companion = round(seconds / (EVERY["job"] / self.faster)), EVERY["companion"] / self.faster
        if not case(f"{jobs} jobs of five kinds in {seconds:.0f} s, nodes that die, queues that change, a new companion every {companion:.0f} s",
                    self.churn):
            return
        case("afterwards all comes to rest", self.calm)
        case("no unit is in two supernodes, and no GPU is planned twice", self.units_whole)
        case("nobody waits for whom there is room", self.nobody_waits)
        case("jobs that are gone hold nothing", self.nothing_held)
