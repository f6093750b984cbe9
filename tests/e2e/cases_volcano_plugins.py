# SPDX-License-Identifier: Apache-2.0
"""gpu-aware and gpu-podaffinity inside Volcano's scheduler: the manual's ConfigMaps, its jobs, and Volcano's other
behaviour beside them. The companion makes supernodes and places nothing."""
import contextlib
import json
import os
import pathlib
import random
import re
import subprocess
import time

import yaml

from harness.cluster import built
from harness.placed import PLAN, annotation, gpus_of, pod_template, rack_of
from harness.report import quick
from harness.schedulers import Program
from harness.waiting import Failed, same, until

from cases_gpu_aware import EXACT, GpuAwareCases
from cases_operators import OperatorCases
from cases_volcano import VolcanoCases, task, vcjob

AWARE, AFFINITY = "manual-gpu-aware.yaml", "manual-gpu-podaffinity.yaml"
DOCUMENTED = (  # of Volcano's own documentation: file, job, pods
    ("example/job.yaml", "test-job", 6), ("example/job-plugin.yaml", "test-job-plugin", 3),
    ("example/integrations/mpi/mpi-example.yaml", "lm-mpi-job", 3),
    ("how_to_use_pytorch_plugin.md", "pytorch-job", 3),
    ("example/integrations/tensorflow/dist-mnist/tf-dist-mnist-example.yaml", "tensorflow-dist-mnist", 3),
    ("example/integrations/mxnet/train/train-mnist-cpu.yaml", "mxnet-job", 5),
    ("example/MindSpore-example/mindspore_cpu/mindspore-cpu.yaml", "mindspore-cpu", 8),
    ("example/task-start-dependency/mpi.yaml", "lm-mpi-job", 11))


def volcanos_own(file):
    """A file of Volcano's module, or what a page of its user guide prints as YAML."""
    cache = subprocess.run(["go", "env", "GOMODCACHE"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    module = pathlib.Path(cache) / "volcano.sh" / "volcano@v1.14.1"
    if not file.endswith(".md"):
        return (module / file).read_text()
    text = (module / "docs" / "user-guide" / file).read_text()
    return "\n---\n".join(re.findall(r"(?ms)^```yaml\n(.*?)^```$", text))


def yaml_blocks(page):
    return [block for block in yaml.safe_load_all(volcanos_own(page)) if block]


class VolcanoPluginCases:
    def __init__(self, placed, volcano, operator, report):
        self.placed, self.volcano, self.operator = placed, volcano, operator
        self.cluster, self.report = placed.cluster, report
        self.aware, self.jobs = GpuAwareCases(placed, report), VolcanoCases(placed, volcano, report, races=True)
        self.operators = OperatorCases(placed, operator, report)

    # steps

    def unschedulable(self, job, *words):
        """What the PodGroup's condition says, as the manual's users look for it, and the Event about it."""
        def told():
            said = [one.get("message", "") for one in self.jobs.podgroup(job).get("status", {}).get("conditions", [])
                    if one["type"] == "Unschedulable" and one["status"] == "True"]
            return next((text for text in said if all(word in text for word in words)), None) or (False, said)
        text = until(f"the PodGroup of {job} to say why", told)
        self.placed.event("Unschedulable", *words)
        return text.split("Origin reason is: ")[-1]

    def nothing_placed(self, selector):
        self.volcano.rounds(2)
        self.placed.untouched(self.placed.pods(selector))

    def check_units(self, selector, count, per_unit):
        """Running pods by name; each unit of so many in one rack."""
        pods = sorted(self.placed.bound(selector, count), key=lambda pod: int(annotation(pod, "rank") or 0))
        for first in range(0, count, per_unit):
            racks = {rack_of(pod["spec"]["nodeName"]) for pod in pods[first:first + per_unit]}
            if len(racks) != 1:
                raise Failed(f"unit {first // per_unit} of {selector} is in racks {sorted(racks)}")
        return pods

    # gpu-aware

    @quick
    def aware_exact(self):
        """The manual's ConfigMap as it stands, but for binpack, which would often choose the fullest node as well."""
        text = self.volcano.manual(AWARE)
        self.volcano.start(text.replace("  - name: binpack\n", ""))
        self.aware.occupy()
        for gpus, node in EXACT.items():
            same(self.aware.place(f"vplugin-{gpus}", gpus, "volcano"), node, f"the node of a pod of {gpus}")
        self.aware.remove(*(f"vplugin-{gpus}" for gpus in EXACT))
        self.aware.told_free("hollow-2-3", 7)
        self.volcano.reload(text)
        return f"{len(EXACT)} of {len(EXACT)} exact"

    def aware_job(self):
        """The example of that chapter: a job of 2 pods with 2 GPUs, without annotations, beside nodes in use."""
        self.aware.occupy()
        template = pod_template(2, nodeSelector={"rack": "2"})
        self.placed.create(vcjob("twins", task("t", 2, template), minAvailable=1))
        on = sorted(pod["spec"]["nodeName"] for pod in self.placed.bound("volcano.sh/job-name=twins", 2))
        if {"hollow-2-0", "hollow-2-5"} & set(on):
            raise Failed(f"a whole node was broken for two GPUs: {on}")
        return " ".join(on)

    def wrong_argument(self):
        """A ConfigMap with a word where a number is wanted, and the right one again, while it runs."""
        right = self.volcano.manual(AWARE)
        self.volcano.reload(right.replace("loss.weight: 0.5", "loss.weight: much"))
        until("the scheduler to name the argument", lambda: self.volcano.programs[0].said(
            "argument loss.weight: expected a number of 0 or more, got \"much\""))
        self.volcano.reload(right.replace("weight: 1\n", "weight: -1\n"))
        until("the scheduler to name the argument", lambda: self.volcano.programs[0].said("argument weight: expected a number of 0 or more, got -1"))
        self.placed.create(self.aware.pod("meanwhile", 1, "volcano"))
        self.aware.node_of("meanwhile")
        self.volcano.reload(right)

    # gpu-podaffinity

    @quick
    def manual_job(self):
        self.volcano.reload(self.volcano.manual(AFFINITY))
        said = self.jobs.volcano_job("manual")
        for pod in self.placed.pods("volcano.sh/job-name=manual").values():
            gpus = json.loads(annotation(pod, "gpus"))
            same(sum(len(ids) for ids in gpus.values()), gpus_of(pod), "the GPUs that its Binding names")
        return said

    @quick
    def containers(self):
        """On a kubelet: four pods of two GPUs come to one node at once, and each container has the GPUs that its Binding named."""
        self.placed.create(vcjob("real", task("t", 4, pod_template(2, pool="kubelet", group=8)), minAvailable=4))
        pods = self.placed.bound("volcano.sh/job-name=real", 4)
        same(len({pod["spec"]["nodeName"] for pod in pods}), 1, "nodes of a unit of 8")
        used = self.placed.nodes[int(pods[0]["spec"]["nodeName"].removeprefix("node"))].used()
        for pod in pods:
            planned = [int(gpu.rsplit("-", 1)[1]) for gpu in json.loads(annotation(pod, "gpus"))["main"]]
            same(sorted(used[pod["metadata"]["name"], "main"]), sorted(planned), f"the GPUs of {pod['metadata']['name']}")

    def too_big(self):
        """No rack has room for a unit of 32: it fails as the manual says, and holds nothing; with atoms of 16 it falls back."""
        self.jobs.short_racks()
        selector = self.jobs.example("manual-32")
        why = self.unschedulable("manual-32", "units of 32 GPUs needed")
        self.nothing_placed(selector)
        self.placed.create(vcjob("beside", task("t", 3, pod_template(8)), minAvailable=3))
        self.placed.bound("volcano.sh/job-name=beside", 3)
        self.cluster.kubectl("delete", "jobs.batch.volcano.sh", "manual-32", "beside", "--wait")
        self.placed.gone(selector)
        self.placed.gone("volcano.sh/job-name=beside")
        return f"32 alone: {why}; with 16: {self.jobs.volcano_job('manual-16', 16)}"

    @quick
    def rule(self):
        self.placed.create(vcjob("odd", task("t", 4, pod_template(8, group=24)), minAvailable=4))
        why = self.unschedulable("odd", "the job's 32 GPUs are not a multiple of gpu-group-size 24")
        self.nothing_placed("volcano.sh/job-name=odd")
        return why

    def contention(self):
        """Those that wait say why in their PodGroups."""
        self.jobs.five_gangs(lambda selector: self.check_units(selector, 8, 8),
                             lambda name: self.unschedulable(name, "1 unit of 64 GPUs needed"))

    def part(self):
        """minAvailable 4 of 8: one unit runs beside another job, the other one comes when that has gone."""
        rack = {"rack": "4"}
        self.placed.create(vcjob("holder", task("t", 4, pod_template(8, group=32, nodeSelector=rack)), minAvailable=4))
        self.check_units("volcano.sh/job-name=holder", 4, 4)
        self.placed.create(vcjob("part", task("t", 8, pod_template(8, group=32, nodeSelector=rack)), minAvailable=4))
        on = lambda: sorted(name for name, pod in self.placed.pods("volcano.sh/job-name=part").items() if pod["spec"].get("nodeName"))
        until("one unit to run", lambda: on() == [f"part-t-{i}" for i in range(4)] or (False, on()))
        self.volcano.rounds(3)
        same(on(), [f"part-t-{i}" for i in range(4)], "the pods that run")
        self.cluster.kubectl("delete", "jobs.batch.volcano.sh", "holder", "--wait=false")
        self.check_units("volcano.sh/job-name=part", 8, 4)

    @quick
    def killed(self):
        """The scheduler dies while gangs come in; another one goes on, and no unit is torn."""
        names = [f"kill-{number}" for number in range(4)]
        self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": [
            vcjob(name, task("t", 40, pod_template(2, group=16, labels={"case": "kill"})), minAvailable=40) for name in names]})
        until("the first pod to be bound", lambda: any(pod["spec"].get("nodeName") for pod in self.placed.pods("case=kill").values()))
        self.volcano.programs[0].stop()
        before = sum(bool(pod["spec"].get("nodeName")) for pod in self.placed.pods("case=kill").values())
        self.volcano.programs[0].start()
        for name in names:
            self.check_units(f"volcano.sh/job-name={name}", 40, 8)
        self.placed.no_gpu_twice()
        return f"{before} of 160 pods were bound when it died"

    def replaced(self):
        """A pod of a running unit is deleted, and the rest of its rack is taken: its successor comes home."""
        self.placed.create(vcjob("stay", task("t", 4, pod_template(8, group=32)), minAvailable=4,
                                 policies=[{"event": "PodEvicted", "action": "RestartPod"}]))
        pods = self.check_units("volcano.sh/job-name=stay", 4, 4)
        rack = rack_of(pods[0]["spec"]["nodeName"])
        self.cluster.kubectl("delete", "pod", pods[2]["metadata"]["name"], "--wait")
        after = self.check_units("volcano.sh/job-name=stay", 4, 4)
        same({rack_of(pod["spec"]["nodeName"]) for pod in after}, {rack}, "its rack")

    def unit_moves(self):
        """A GPU of a unit is unhealthy for five minutes, and the rest of its rack is taken: the unit moves as a whole, as its job allows, and who
        is beside it stays."""
        holder, lossy = "volcano.sh/job-name=holder", "volcano.sh/job-name=lossy"
        self.placed.create(vcjob("holder", task("t", 4, pod_template(8, group=32, nodeSelector={"rack": "4"})), minAvailable=4))
        stay = {pod["metadata"]["uid"] for pod in self.check_units(holder, 4, 4)}
        template = pod_template(8, group=32)
        template["metadata"]["annotations"]["metax-tech.com/on-node-loss"] = "unit"
        self.placed.create(vcjob("lossy", task("t", 4, template), minAvailable=4, maxRetry=20,  # each pod that leaves may count as a retry
                                 policies=[{"event": "PodEvicted", "action": "RestartPod"}]))
        pods = self.check_units(lossy, 4, 4)
        same({rack_of(pod["spec"]["nodeName"]) for pod in pods}, {"4"}, "the rack of the unit")
        before, node = {pod["metadata"]["uid"] for pod in pods}, pods[1]["spec"]["nodeName"]

        def others():
            now = self.placed.pods(lossy)
            new = [pod for pod in now.values() if pod["metadata"]["uid"] not in before and pod["status"].get("phase") == "Running"]
            return len(new) == len(now) == 4 or (False, self.placed.summary(now))
        self.placed.hollow.set_health(node, 0, False)
        try:
            until("the next pods of the unit to run", others, 480)
            said = self.placed.event("UnitMoves", node)
            racks = {rack_of(pod["spec"]["nodeName"]) for pod in self.check_units(lossy, 4, 4)}
            same("4" in racks, False, f"the unit is in rack 4 still: {racks}")
            same({pod["metadata"]["uid"] for pod in self.placed.pods(holder).values()}, stay, "the pods beside it")
        finally:
            self.placed.hollow.set_health(node, 0, True)
        return said

    def as_files(self):
        """The two plugins as files, in a scheduler that Volcano's own make has built: both are in it once, and see the same."""
        files, host = built("volcano-plugins")
        scheduler = Program(self.cluster, "vc-scheduler-files", f"{host}/vc-scheduler", *self.volcano.programs[0].command[1:],
                            f"--plugins-dir={files}", "-v=4")
        with self.instead(scheduler, self.volcano.with_plugins()):
            for name in ("gpu-aware", "gpu-podaffinity"):
                same(scheduler.said(f"Custom plugin {name} loaded"), True, f"{name} is loaded")
            self.jobs.volcano_job("by-files")
            self.cluster.kubectl("delete", "jobs.batch.volcano.sh", "by-files", "--wait", "--cascade=foreground")
            self.containers()
            self.aware.occupy()
            same(self.aware.place("by-files-4", 4, "volcano"), EXACT[4], "the node of a pod of 4")
            maps = pathlib.Path(f"/proc/{scheduler.pid()}/maps").read_text()
            same({line.split()[-1] for line in maps.splitlines() if "gputopo-volcano" in line}, {f"{files}/libgputopo-volcano.so.1"}, "C libraries")
            same(sum('reflector="supernodes"' in line and "Starting reflector" in line for line in scheduler.log().splitlines()), 1,
                 "who follows the supernodes")

    # preempt and reclaim

    STAYS = "volcano.sh/preemptable"

    def full_racks(self, action, stay):
        """Each rack is full of a job of eight pods. The first of each goes slowly, and `stay` from the fourth on may not be evicted.
        (Volcano lets nobody into a queue that is full of gangs.)"""
        self.volcano.reload(self.volcano.manual(AFFINITY).replace("allocate, ", f"allocate, {action}, "))
        self.placed.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "rank-high"}, "value": 1000})
        self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": [
            vcjob(f"low-{rack}", task("t", 8, pod_template(8, labels={"case": "low"}, nodeSelector={"rack": str(rack)})), minAvailable=1)
            for rack in range(1, 6)]})
        self.placed.bound("case=low", 40)
        for rack in range(1, 6):
            self.patch(f"low-{rack}-t-0", finalizers=["gputopo.test/slow"])
            for number in range(3, 3 + stay):
                self.patch(f"low-{rack}-t-{number}", annotations={self.STAYS: "false"})
            until("all GPUs of the rack to be in use", lambda rack=rack: all(
                self.cluster.get("ngt", f"hollow-{rack}-{number}")["status"].get("freeCount") == 0 for number in range(8)))
        return self.running()

    def patch(self, pod, **metadata):
        self.cluster.kubectl("patch", "pod", pod, "--type=merge", "-p", json.dumps({"metadata": metadata}))

    def let_go(self):
        for pod in self.cluster.get("pods", "-n", "default", "-l", "case=low")["items"]:
            if pod["metadata"].get("finalizers"):
                self.patch(pod["metadata"]["name"], finalizers=None)

    def running(self):
        """By UID: the pods of the full racks that are on nodes and stay there."""
        return {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in self.placed.pods("case=low").values() if pod["spec"].get("nodeName")}

    def rack_for(self, action, pods, **high):
        """Nobody goes while one pod too many of each rack may not; then just the pods of one rack, whose places are reserved until the last of them
        has gone."""
        before = self.full_racks(action, 9 - pods)
        self.placed.create(vcjob("high", task("t", pods, pod_template(8, group=8 * pods, **high)), minAvailable=pods, **high,
                                 **({"queue": "poor"} if action == "reclaim" else {})))
        self.unschedulable("high", f"1 unit of {8 * pods} GPUs needed")
        self.volcano.rounds(7)
        same(self.running(), before, "pods that run while there are not enough that may go")
        self.patch("low-4-t-3", annotations={self.STAYS: None})
        gone = lambda: {uid: node for uid, node in before.items() if uid not in self.running()}
        until(f"{pods} pods to be evicted", lambda: len(gone()) >= pods or (False, gone()))
        first = gone()
        same(len(first), pods, "pods that were evicted")
        same({rack_of(node) for node in first.values()}, {"4"}, "their racks")
        self.placed.create(vcjob("rival", task("t", 1, pod_template(1, nodeSelector={"rack": "4"})), minAvailable=1))
        self.volcano.rounds(5)
        self.placed.untouched(self.placed.pods("volcano.sh/job-name=rival"))
        same([pod["spec"].get("nodeName") for pod in self.placed.pods("volcano.sh/job-name=high").values()], [None] * pods,
             "nodes of the job while a pod is still going")
        same(gone(), first, "pods that were evicted, later")
        self.let_go()
        after = self.check_units("volcano.sh/job-name=high", pods, pods)
        same(sorted(pod["spec"]["nodeName"] for pod in after), sorted(first.values()), "its nodes")
        same(gone(), first, "pods that were evicted, at the end")
        self.placed.no_gpu_twice()
        return f"{pods} pods of rack 4 went"

    @contextlib.contextmanager
    def in_the_end(self):
        """Whatever became of the case, no pod stays for its finalizer, and the next case has the manual's actions."""
        try:
            yield
        finally:
            self.let_go()
            self.volcano.reload(self.volcano.manual(AFFINITY))

    @quick
    def preempted(self):
        with self.in_the_end():
            return self.rack_for("preempt", 8, priorityClassName="rank-high")

    def reclaimed(self):
        self.placed.apply({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "poor"}, "spec": {"weight": 1}})
        with self.in_the_end():
            return self.rack_for("reclaim", 4)

    # Volcano's own

    def documented(self):
        """Examples of Volcano's own documentation, as they are printed. Hollow nodes run any image; those with kubelets are left out."""
        self.cluster.kubectl("cordon", "node1", "node2")
        self.volcano.reload(self.volcano.with_plugins())
        for file, job, pods in DOCUMENTED:
            manifest = self.cluster.state / "documented.yaml"
            manifest.write_text(volcanos_own(file))
            self.cluster.kubectl("create", "-f", manifest)
            self.placed.bound(f"volcano.sh/job-name={job}", pods)
            until(f"{job} to run", lambda job=job: self.jobs.phase(job) == "Running" or (False, self.jobs.phase(job)))
            # an example has the name of another one, and none may take the name of one just deleted
            self.cluster.kubectl("delete", "-f", manifest, "--wait", "--cascade=foreground")
            self.placed.gone(f"volcano.sh/job-name={job}")
        self.cluster.kubectl("uncordon", "node1", "node2")
        return f"{len(DOCUMENTED)} jobs"

    def capacity(self):
        """The walk through Volcano's page on capacity queues: two nodes of 4 CPUs, two queues that deserve 2 and 6, and reclaim. With our
        two plugins in its ConfigMap the pods are as many of each queue as with Volcano's own scheduler. The page has 2 and 6; Volcano
        1.14.1 ends with 7 and 1, since it reclaims for a gang until it has its minimum, which is one pod for a Deployment."""
        page = yaml_blocks("how_to_use_capacity_plugin.md")
        text = next(block for block in page if block.get("kind") == "ConfigMap")["data"]["volcano-scheduler.conf"]
        names = ("hollow-4-0", "hollow-4-1")
        self.cluster.kubectl("cordon", "-l", "kubernetes.io/hostname notin (" + ",".join(names) + ")")
        before = {name: self.cluster.get("node", name)["status"]["allocatable"] for name in names}
        for queue in (block for block in page if block.get("kind") == "Queue"):
            self.cluster.kubectl("create", "-f", "-", data=queue)
        try:
            for name in names:
                self.allocatable(name, cpu="4", memory="16Gi")
            stock = Program(self.cluster, "vc-scheduler-stock", self.volcano.directory / "vc-scheduler", *self.volcano.programs[0].command[1:])
            with self.instead(stock, text):
                alone = self.walk(page)
            self.volcano.reload(text.replace("  - name: conformance\n", "  - name: conformance\n  - name: gpu-podaffinity\n")
                                + "  - name: gpu-aware\n")
            same(self.walk(page), alone, "pods of each queue that run")
        finally:
            self.cluster.kubectl("delete", "deployment", "--all", "--wait", "--cascade=foreground")
            for name in names:
                self.allocatable(name, **{key: before[name][key] for key in ("cpu", "memory")})
            self.cluster.kubectl("uncordon", "--selector=kubernetes.io/hostname")
            self.volcano.reload(self.volcano.with_plugins())
        return f"{alone[0]} and {alone[1]} pods"

    def walk(self, page):
        """How many pods of the page's two Deployments run in the end."""
        demos = [block for block in page if block.get("kind") == "Deployment"]
        self.cluster.kubectl("create", "-f", "-", data=demos[0])
        self.placed.bound("app=demo-1", 8)
        self.cluster.kubectl("create", "-f", "-", data=demos[1])
        running = lambda at: sum(pod["status"].get("phase") == "Running" for pod in self.placed.pods(f"app=demo-{at}").values())
        until("something to be reclaimed", lambda: running(2) > 0, 60)
        counts, last = None, None
        while counts is None or counts != last:
            last = counts
            self.volcano.rounds(4)
            counts = running(1), running(2)
        self.cluster.kubectl("delete", "deployment", "demo-1", "demo-2", "--wait", "--cascade=foreground")
        for at in (1, 2):
            self.placed.gone(f"app=demo-{at}")
        return counts

    @contextlib.contextmanager
    def instead(self, scheduler, configuration):
        """Another scheduler for a while, with a configuration of its own."""
        ours = self.volcano.programs[0]
        ours.stop()
        self.volcano.programs[0] = scheduler
        self.volcano.configure(configuration)
        scheduler.start()
        try:
            until("the other scheduler to run", lambda: scheduler.alive() and scheduler.said("Close Session "), 60)
            yield
        finally:
            scheduler.stop()
            self.volcano.programs[0] = ours
            ours.start()
            self.volcano.rounds(1)

    def allocatable(self, name, **amounts):
        self.cluster.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps(
            {"status": {"capacity": amounts, "allocatable": amounts}}))

    def many_small(self):
        """As a distributed compiler has them: two hundred pods of one GPU or none, beside each other."""
        self.placed.create(vcjob("small", task("gpu", 100, pod_template(1)), task("cpu", 100, pod_template(0)), minAvailable=1))
        started = time.monotonic()
        self.placed.bound("volcano.sh/job-name=small", 200, seconds=180)
        self.placed.no_gpu_twice()
        return f"{time.monotonic() - started:.0f} s"

    def mixed(self):
        """Jobs of many kinds and sizes come and go through two queues; then what has to hold."""
        seed = int(os.environ.get("GPUTOPO_SEED", random.randrange(1 << 30)))
        dice, alive, made = random.Random(seed), [], 0
        for name, gpus in (("left", 160), ("right", 160)):
            self.placed.apply({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name},
                               "spec": {"weight": 1, "capability": {"metax-tech.com/gpu": str(gpus)}}})
        while made < 100:
            batch = []
            for _ in range(10):
                pods, gpus, group = dice.choice([(1, 1, None), (2, 2, None), (4, 8, 32), (8, 8, 32), (2, 8, 16), (4, 4, 16), (8, 8, 64), (3, 8, None)])
                name, made = f"mix-{made}", made + 1
                batch.append(vcjob(name, task("t", pods, pod_template(gpus, group=group, labels={"case": "mixed"})), minAvailable=pods,
                                   queue=dice.choice(["left", "right", "default"])))
                alive.append(name)
            self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": batch})
            self.volcano.rounds(2)
            self.invariants()
            gone = dice.sample(alive, min(len(alive), 8))
            alive = [name for name in alive if name not in gone]
            self.cluster.kubectl("delete", "jobs.batch.volcano.sh", *gone, "--wait=false", "--ignore-not-found")
        self.volcano.rounds(3)
        self.invariants()
        return f"seed {seed}, {len(alive)} jobs at the end"

    def invariants(self):
        """No unit in two racks, no GPU twice, no gang in part."""
        jobs = {}
        for pod in self.placed.pods("case=mixed").values():
            jobs.setdefault(pod["metadata"]["labels"]["volcano.sh/job-name"], []).append(pod)
        for name, pods in jobs.items():
            units = {}
            for pod in pods:
                if annotation(pod, "unit") and pod["spec"].get("nodeName"):
                    units.setdefault(annotation(pod, "unit"), set()).add(rack_of(pod["spec"]["nodeName"]))
            torn = {unit: racks for unit, racks in units.items() if len(racks) > 1}
            if torn:
                raise Failed(f"{name} is torn: {torn}")
        held = {}
        for pod in (pod for pods in jobs.values() for pod in pods if pod["spec"].get("nodeName") and annotation(pod, "gpus")):
            for ids in json.loads(annotation(pod, "gpus")).values():
                for gpu in ids:
                    other = held.setdefault((pod["spec"]["nodeName"], gpu), pod["metadata"]["name"])
                    same(other, pod["metadata"]["name"], f"who has GPU {gpu}")
        self.placed.no_gpu_twice()

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        if not self.report.case("the manual's ConfigMap for gpu-aware: the node whose free GPUs match exactly wins", self.aware_exact):
            return
        case("a job of two pods with two GPUs leaves whole nodes whole", self.aware_job)
        case("a wrong argument is named, and the ConfigMap mended while it runs", self.wrong_argument)
        case("the manual's ConfigMap for gpu-podaffinity, and its Volcano Job in units of 32", self.manual_job)
        case("containers have the GPUs that their Bindings named", self.containers)
        case("no room for 32: the PodGroup says why and nothing is held; atoms of 16 fall back", self.too_big)
        case("a job that breaks a rule says so in its PodGroup", self.rule)
        case("five gangs where two fit", self.contention)
        case("minAvailable of one unit: it starts, and grows", self.part)
        case("the scheduler is killed in the middle of gangs", self.killed)
        case("the successor of a pod of a unit comes home", self.replaced)
        case("a GPU is unhealthy for five minutes, and its rack is full: the unit moves, as its job allows", self.unit_moves)
        case("preempt: nobody goes for nothing, then one rack's pods, and their places are reserved", self.preempted)
        case("reclaim: likewise for a queue below its share", self.reclaimed)
        case("Kubeflow's training operator runs", self.operators.prepare)
        case("the manual's PyTorchJob", self.operators.pytorch)
        case("the same with atoms of 16", lambda: self.operators.pytorch(16))
        case("the manual's ElasticJob, its pods as dlrover makes them, and one that is made again", self.operators.elastic)
        case("the same by dlrover's own master", self.operators.elastic_by_dlrover)
        case("the plugins as files in Volcano's own scheduler", self.as_files)
        case("Volcano's own examples, unchanged", self.documented)
        case("Volcano's own: the walk through its page on capacity queues ends as with its own scheduler", self.capacity)
        case("Volcano's own: many small pods", self.many_small)
        case("Volcano's own: a gang without the annotation",
             lambda: self.jobs.plain_gang([PLAN + "gpus", PLAN + "node"]))  # by its Binding
        case("Volcano's own: a vcjob with svc, env, ssh and policies", self.jobs.plugins_and_policies)
        case("100 mixed jobs come and go", self.mixed)
        self.placed.clean()
