#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs in a cluster of many Node objects: a real API server and etcd, the real kube-scheduler and Volcano's scheduler, no
kubelet. How long gates stay, and how many pods are placed in a second with and without gputopo-scheduler.

    companion_jobs.py BUILD/bin [NODES [PODS [WHAT]]]      (1,000, 2,000, everything; or gates, kube, flow, volcano, plugins, pairs, floors)

The programs are looked for in $GPUTOPO_KUBE_BIN, on PATH and where `./dev e2e` builds them; what is not there is skipped."""
import base64
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import yaml

import companion_floors
from companion_api import GPUS, JOBS, PER_SUPERNODE, PODGROUPS, PODS, Api, RealServer, Watch
from companion_yardstick import yardstick
from daemon_driver import Daemon, free_port, wait_for
from kube_driver import kubeconfig, make_certificate
from placement_driver import indexed_pod, template
from real_api import SEARCH

POD_GPUS, GANG = 2, 8  # throughput: jobs of 8 pods, 16 GPUs in one supernode
PAIRS = 4
WORK_GOAL = "<1.3"  # of placement, to what there is without it
AHEAD = 16  # as they are made: so many jobs have their first pod before the other pods of the first of them come
DAEMONSET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../daemonset")
WEBHOOK, POLICIES = f"{DAEMONSET}/components/placement/webhook.yaml", f"{DAEMONSET}/base/policy.yaml"
ACCOUNT = "system:serviceaccount:gputopo-system:gputopo-scheduler"  # by which the policies know the companion
BOUND_S = 90
VOLCANO_CONF = """actions: "allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
TOPOLOGY_CONF = VOLCANO_CONF + "  - name: network-topology-aware\n"
PLUGINS_CONF = VOLCANO_CONF.replace("  - name: gang\n", "  - name: gang\n  - name: gpu-podaffinity\n") + "  - name: gpu-aware\n"


def measure(name, value, unit, goal="-"):
    print(f"{name}\t{value:.{0 if abs(value) >= 1000 else 2}f}\t{unit}\t{goal}", flush=True)


def cpu_seconds(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            ticks = stat.read().rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0


def machine_busy():
    """Seconds of all cores together that were not idle."""
    with open("/proc/stat", encoding="ascii") as stat:
        fields = list(map(int, stat.readline().split()[1:]))
    return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


class Bench:
    FLAGS = ""  # more of the API server's

    def __init__(self, speed, binaries, folder, nodes, pods):
        self.speed, self.binaries, self.folder, self.nodes = speed, os.path.abspath(binaries), folder, nodes
        self.count = max(GANG, pods - pods % GANG)  # whole jobs
        self.api = Api(folder, self.FLAGS)
        self.serial, self.rates, self.costs, self.works, self.allocated, self.volcano_there = 0, {}, {}, {}, {}, False
        self.api_works = {}  # of the API server alone

    # programs

    def make_account(self):
        make_certificate(self.folder, "companion", f"/O=system:masters/CN={ACCOUNT}")

    @contextlib.contextmanager
    def policies(self):
        self.api.kubectl("create", "-f", POLICIES)
        try:
            yield
        finally:
            self.api.kubectl("delete", "-f", POLICIES)

    @contextlib.contextmanager
    def asks(self, port):
        """The API server asks the webhooks of the installation at this port."""
        with open(f"{self.folder}/ca.crt", "rb") as file:
            bundle = base64.b64encode(file.read()).decode()
        with open(WEBHOOK, encoding="utf-8") as file:
            configurations = list(yaml.safe_load_all(file))
        for configuration in configurations:
            for webhook in configuration["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
        paths = [f"/apis/{c['apiVersion']}/{c['kind'].lower()}s" for c in configurations]
        try:
            for path, configuration in zip(paths, configurations):
                self.api.ask("POST", path, configuration)
            time.sleep(3)  # it reads them now and then
            yield
        finally:
            for path, configuration in zip(paths, configurations):
                self.api.ask("DELETE", f"{path}/{configuration['metadata']['name']}")

    @contextlib.contextmanager
    def companion(self, part, *more):
        """The companion in the name of its account, and the policies of the installation."""
        self.make_account()
        config = kubeconfig(f"{self.folder}/companion.kubeconfig", self.api.url, "certificate-authority: ca.crt",
                            "client-certificate: companion.crt, client-key: companion.key")
        companion = None

        def ready():
            with contextlib.suppress(OSError):
                return companion.get("/readyz")[0] == 200
        with self.policies():
            companion = Daemon(os.path.join(self.binaries, "gputopo-scheduler"), f"--only={part}", "--leader-elect=false",
                               "--kubeconfig", config, "--namespace=default", *more)
            try:
                if not wait_for(ready, 60):
                    raise SystemExit(f"companion_jobs.py: gputopo-scheduler is not ready: {companion.lines[-3:]}")
                yield companion
            finally:
                companion.stop()

    @contextlib.contextmanager
    def webhook(self):
        """The companion with its webhooks."""
        port = free_port()
        make_certificate(self.folder, "webhook", "/CN=webhook", "subjectAltName=IP:127.0.0.1")
        with self.companion("placement", f"--https=127.0.0.1:{port}", f"--tls-certificate={self.folder}/webhook.crt",
                            f"--tls-key={self.folder}/webhook.key") as companion, self.asks(port):
            yield companion

    @contextlib.contextmanager
    def scheduler(self, name, *arguments):
        directory = tempfile.mkdtemp(dir=self.folder)
        log = open(f"{directory}/log", "wb")  # noqa: SIM115, closed below
        process = subprocess.Popen([shutil.which(name, path=SEARCH), *arguments], stdout=log, stderr=log, cwd=directory)
        try:
            yield process
            if process.poll() is not None:
                with open(f"{directory}/log", encoding="utf-8", errors="replace") as file:
                    raise SystemExit(f"companion_jobs.py: {name} ended: {file.read()[-1500:]}")
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            log.close()

    def config(self, name, text):
        directory = tempfile.mkdtemp(dir=self.folder)  # of its own: Volcano watches it
        with open(f"{directory}/{name}", "w", encoding="ascii") as file:
            file.write(text)
        return f"{directory}/{name}"

    def kube_scheduler(self, extender=None, *arguments):
        extenders = "" if not extender else f"""
extenders:
- urlPrefix: http://127.0.0.1:{extender.port}/kube-scheduler
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 10
  nodeCacheCapable: true"""
        config = self.config("kube-scheduler.yaml", f"""apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {self.api.kubeconfig}, qps: 5000, burst: 5000}}{extenders}
""")
        return self.scheduler("kube-scheduler", "--config", config, "--secure-port=0", *arguments)

    def volcano(self, conf=VOLCANO_CONF, program="vc-scheduler"):
        return self.scheduler(program, "--kubeconfig", self.api.kubeconfig, "--leader-elect=false",
                              "--scheduler-conf", self.config("volcano.yaml", conf), "--kube-api-qps=5000",
                              "--kube-api-burst=5000", "--enable-healthz=false", "--enable-metrics=false",
                              f"--listen-address=127.0.0.1:{free_port()}", "-v=0")

    # jobs

    def job(self, pods, gpus, group, gated, volcano=False, hard=False):
        """[requests of the job's own objects], [requests of its pods]"""
        self.serial += 1
        name = f"job-{self.serial}"
        job = template(gpus, group)
        own = [(JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {
            "completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": job}})]
        if volcano:
            topology = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}} if hard else {}
            own.append((PODGROUPS, {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
                                    "metadata": {"name": name}, "spec": {"minMember": pods, "queue": "default", **topology}}))
        made = []
        for i in range(pods):
            pod = indexed_pod(name, i, f"uid-{name}", gpus, group, gated)
            pod["metadata"]["name"] = f"{name}-{i}"
            if volcano:
                pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = name
                pod["spec"]["schedulerName"] = "volcano"
            made.append((PODS, {"apiVersion": "v1", "kind": "Pod", **pod}))
        return own, made

    @contextlib.contextmanager
    def watch(self):
        watch = Watch(self.api)
        try:
            yield watch
        finally:
            watch.close()
            self.api.clear()

    def adopt(self, own, pods):
        """The pods name the uid that the API server has given to their job."""
        for path, body in own:
            made = self.api.ask("POST", path, body)
            if made["kind"] == "Job":
                for _, pod in pods:
                    pod["metadata"]["ownerReferences"][0]["uid"] = made["metadata"]["uid"]

    # how long gates stay

    def gates(self):
        print(f"# From a job's creation to its last gate lifted; {self.nodes} nodes, pods of 8 GPUs, the best of 3")
        with self.companion("placement") as companion:
            before, writes = companion.metrics(), cpu_seconds(companion.process.pid)
            for pods, group in ((1, 8), (16, 32), (128, 32)):
                best = None
                for _ in range(3):
                    with self.watch() as watch:
                        own, made = self.job(pods, GPUS, group, True)
                        begin = time.monotonic()
                        self.adopt(own, made)
                        self.api.create_all(made)
                        if not watch.wait(watch.lifted, pods, 60):
                            raise SystemExit(f"companion_jobs.py: {len(watch.lifted)} of {pods} gates are lifted")
                        end = max(watch.lifted.values())
                        best = min(best or (1e9, 0), (end - begin, end - max(watch.came.values())))
                measure(f"{pods} pods: from the job", 1000 * best[0], "ms")
                measure(f"{pods} pods: from its last pod", 1000 * best[1], "ms")
            after = companion.metrics()
            lifted = after["gputopo_placement_pods_lifted_total"] - before["gputopo_placement_pods_lifted_total"]
            measure("our CPU, a pod", 1e6 * (cpu_seconds(companion.process.pid) - writes) / lifted, "us")
            name = "gputopo_placement_decision_seconds"
            decisions = after[f"{name}_count"] - before.get(f"{name}_count", 0)
            measure("deciding, a job", 1e6 * (after[f"{name}_sum"] - before.get(f"{name}_sum", 0)) / max(1, decisions), "us")

    # pods in a second

    def place(self, name, scheduler, part=None, gated=False, count=None, **how):
        """All pods are there before the first is placed. Without placement the time runs from the first binding; with it from
        when gputopo-scheduler says that it knows the cluster, so that all planning is within."""
        count = count or self.count
        with contextlib.ExitStack() as stack:
            watch = stack.enter_context(self.watch())
            jobs = [self.job(GANG, POD_GPUS, GANG * POD_GPUS if gated else None, gated, **how) for _ in range(count // GANG)]
            for own, pods in jobs:
                self.adopt(own, pods)
            self.api.create_all([pod for _, pods in jobs for pod in pods])
            companion = stack.enter_context(self.companion("extender")) if part == "extender" else None
            process = stack.enter_context(scheduler(companion) if companion else scheduler())
            processes = {"API server": self.api.apiserver.pid, "etcd": self.api.etcd.pid, "scheduler": process.pid,
                         "this client": os.getpid()}
            if part == "placement":
                time.sleep(8)  # the scheduler reads the cluster
                companion = stack.enter_context(self.companion("placement"))
                processes["gputopo-scheduler"] = companion.process.pid
                processes = {k: (v, cpu_seconds(v)) for k, v in processes.items()}
                marks, begin = self.marks(), time.monotonic()
            else:
                if companion:
                    processes["gputopo-scheduler"] = companion.process.pid
                processes = {k: (v, cpu_seconds(v)) for k, v in processes.items()}
                marks, begin = self.marks(), None
                watch.wait(watch.bound, 1, 60)
            whole = watch.wait(watch.bound, count, BOUND_S)
            if part == "placement" and watch.lifted:
                measure(f"{name}: gates lifted", len(watch.lifted) / (max(watch.lifted.values()) - begin), "1/s")
            end = max(watch.bound.values(), default=time.monotonic())
            begin = begin or min(watch.bound.values(), default=end - 1)
            rate = len(watch.bound) / (end - begin)
            self.rates[name] = rate
            measure(f"{name}: pods placed", rate, "1/s")
            if not whole:
                measure(f"{name}: only so many of {count} after {BOUND_S} s", len(watch.bound), "")
            self.tell(name, processes, marks, watch, companion if part == "placement" else None, gated)

    def flow(self, name, scheduler, part=None, units=False, prepare=None, beside=None, **how):
        """The scheduler runs while the pods are made, as by controllers: of each job one, and the others soon afterwards. The
        time runs from the first request that makes one. With placement the API server asks the webhooks, and no pod is gated
        that comes after the plan of its job. `units`: the jobs have a group size, as with placement. `prepare` is given the pods of
        each job, `beside` something in place of placement."""
        units = units or part == "placement"
        with contextlib.ExitStack() as stack:
            watch = stack.enter_context(self.watch())
            jobs = [self.job(GANG, POD_GPUS, GANG * POD_GPUS if units else None, False, **how)
                    for _ in range(self.count // GANG)]
            for own, pods in jobs:
                self.adopt(own, pods)
                if prepare:
                    prepare(pods)
            waiting = [pods[:1] for _, pods in jobs]
            for at, (_, pods) in enumerate(jobs):
                waiting.insert(min(len(waiting), AHEAD + 2 * at), pods[1:])
            companion = stack.enter_context(self.companion("extender")) if part == "extender" else None
            process = stack.enter_context(scheduler(companion) if companion else scheduler())
            if part == "placement":
                companion = stack.enter_context(self.webhook())
            if beside:
                stack.enter_context(beside())
            time.sleep(8)  # the scheduler reads the cluster
            processes = {"API server": self.api.apiserver.pid, "etcd": self.api.etcd.pid, "scheduler": process.pid,
                         "this client": os.getpid()}
            if companion:
                processes["gputopo-scheduler"] = companion.process.pid
            processes = {k: (v, cpu_seconds(v)) for k, v in processes.items()}
            before, marks, begin = self.allocated_bytes(), self.marks(), time.monotonic()
            self.api.create_all([pod for pods in waiting for pod in pods])
            whole = watch.wait(watch.bound, self.count, BOUND_S)
            self.rates[name] = len(watch.bound) / (max(watch.bound.values(), default=time.monotonic()) - begin)
            measure(f"{name}: pods made and placed", self.rates[name], "1/s")
            self.allocated[name] = (self.allocated_bytes() - before) / max(1, len(watch.bound))
            measure("  the API server allocates, a pod", self.allocated[name] / 1000, "kB")
            if not whole:
                measure(f"{name}: only so many of {self.count} after {BOUND_S} s", len(watch.bound), "")
            if part == "placement":
                admitted = companion.metrics()["gputopo_placement_pods_admitted_total"]
                measure("  made with their plan", 100 * admitted / self.count, "%")
            self.tell(name, processes, marks, watch, companion if part == "placement" else None, units)

    def allocated_bytes(self):
        """By the API server since it began: the same on a busy machine as on a quiet one."""
        found = re.search(r"^go_memstats_alloc_bytes_total (\S+)", self.api.kubectl("get", "--raw", "/metrics"), re.M)
        return float(found[1])

    def marks(self):
        return machine_busy(), self.speed.mark()

    def tell(self, name, processes, marks, watch, companion, whole_jobs):
        """What it cost, a pod, and what became of the jobs."""
        busy, mark = marks
        used = {k: cpu_seconds(pid) - before for k, (pid, before) in processes.items()}
        total, bound = machine_busy() - busy, max(1, len(watch.bound))
        self.costs[name] = sum(used.values()) / bound
        speed = self.speed.since(mark)
        self.works[name], self.api_works[name] = self.costs[name] / speed, used["API server"] / bound / speed
        measure("  CPU of all of these, ms a pod", 1000 * self.costs[name], "ms")
        measure("  work of all of these, a pod: their CPU by that of the yardstick", self.works[name], "")
        for key, seconds in used.items():
            measure(f"  CPU of {key}, ms a pod", 1000 * seconds / bound, "ms")
        measure("  CPU of others on this machine", 100 * (total - sum(used.values())) / max(total, 1e-9), "%")
        if "gputopo-scheduler" in used:
            measure("  our share of all CPU time of these", 100 * used["gputopo-scheduler"] / sum(used.values()), "%")
        if companion:
            metrics = companion.metrics()
            seconds = metrics["gputopo_placement_decision_seconds_sum"]
            measure("  decided, pods a second of deciding", metrics["gputopo_placement_pods_planned_total"] / max(seconds, 1e-9),
                    "1/s", ">2000")
        split = {}
        for pod, node in dict(watch.nodes).items():  # more may be bound meanwhile
            split.setdefault(pod.rsplit("-", 1)[0], set()).add(self.supernode(node))
        measure("  jobs in more than one supernode", sum(len(found) > 1 for found in split.values()), "",
                "<1" if whole_jobs else "-")

    @staticmethod
    def supernode(node):
        return int(node.rsplit("-", 1)[1]) // PER_SUPERNODE

    def ratio(self, what, a, b, goal="-", work_goal="-"):
        if self.rates.get(a) and self.rates.get(b):
            measure(what, self.rates[a] / self.rates[b], "", goal)
            measure("  work of all, a pod", self.works[a] / max(self.works[b], 1e-9), "", work_goal)
            measure("  work of the API server, a pod", self.api_works[a] / max(self.api_works[b], 1e-9), "", work_goal)

    def run(self, what):
        print(f"# A real API server with {self.nodes} Node objects of 8 GPUs on {os.cpu_count()} cores")
        measure("objects created", (2 * self.nodes + self.nodes / PER_SUPERNODE) / self.api.fill(self.nodes), "1/s")
        if what in ("", "gates"):
            self.gates()
        if what in ("", "kube"):
            self.run_kube()
        if what in ("", "flow"):
            self.run_flow()
        if what in ("", "volcano"):
            self.run_volcano()
        if what in ("", "plugins"):
            self.run_plugins()
        if what == "pairs":
            self.run_pairs()
        if what == "floors":
            self.run_floors()

    def run_kube(self):
        print(f"# kube-scheduler: {self.count} pods of {POD_GPUS} GPUs in jobs of {GANG}")
        if shutil.which("kube-scheduler", path=SEARCH):
            self.place("kube-scheduler alone", self.kube_scheduler)
            self.place("kube-scheduler, extender", self.kube_scheduler, "extender")
            self.place("kube-scheduler, placement", self.kube_scheduler, "placement", True)
            self.ratio("extender to alone", "kube-scheduler, extender", "kube-scheduler alone")
            self.ratio("placement to alone", "kube-scheduler, placement", "kube-scheduler alone")
        else:
            print("skipped\tkube-scheduler is not there")

    def run_flow(self):
        print(f"# As pods are made: {self.count} of {POD_GPUS} GPUs in jobs of {GANG}")
        if shutil.which("kube-scheduler", path=SEARCH):
            self.flow("kube-scheduler alone, made", self.kube_scheduler)
            self.flow("kube-scheduler, extender, made", self.kube_scheduler, "extender")
            self.flow("kube-scheduler, placement, made", self.kube_scheduler, "placement")
            self.ratio("extender to alone", "kube-scheduler, extender, made", "kube-scheduler alone, made")
            self.ratio("placement to alone", "kube-scheduler, placement, made", "kube-scheduler alone, made",
                       work_goal=WORK_GOAL)
        else:
            print("skipped\tkube-scheduler is not there")
        if self.has_volcano():
            self.flow("Volcano alone, made", self.volcano, volcano=True)
            self.flow("Volcano, placement, made", self.volcano, "placement", volcano=True)
            self.flow("Volcano, HyperNodes, made", lambda: self.volcano(TOPOLOGY_CONF), volcano=True, hard=True)
            self.ratio("placement to alone", "Volcano, placement, made", "Volcano alone, made", ">1", WORK_GOAL)
            self.ratio("placement to HyperNodes", "Volcano, placement, made", "Volcano, HyperNodes, made", ">10")
            self.ratio("kube-scheduler with placement to HyperNodes", "kube-scheduler, placement, made", "Volcano, HyperNodes, made",
                       ">10")

    def run_pairs(self):
        """In turn, so that what else the machine does falls on both."""
        print(f"# As pods are made, alone and with placement in turn: {self.count} of {POD_GPUS} GPUs in jobs of {GANG}")
        programs = [("kube-scheduler", self.kube_scheduler, {}, "-")] if shutil.which("kube-scheduler", path=SEARCH) else []
        if self.has_volcano():
            programs.append(("Volcano", self.volcano, {"volcano": True}, ">1.5"))
        for name, scheduler, how, goal in programs:
            sums = {None: [0, 0, 0, 0, 0], "placement": [0, 0, 0, 0, 0]}
            for pair in range(PAIRS):
                for part in (None, "placement") if pair % 2 == 0 else ("placement", None):
                    run = f"{name} {'with ' + part if part else 'alone'}, pair {pair + 1}"
                    self.flow(run, scheduler, part, **how)
                    for i, value in enumerate((self.count / self.rates[run], self.costs[run], self.works[run], self.allocated[run],
                                               self.api_works[run])):
                        sums[part][i] += value
            time_alone, cost_alone, work_alone, bytes_alone, api_alone = sums[None]
            time_placed, cost_placed, work_placed, bytes_placed, api_placed = sums["placement"]
            measure(f"{name}: CPU, all, alone, ms a pod", 1000 * cost_alone / PAIRS, "ms")
            measure(f"{name}: CPU, all, with placement, ms a pod", 1000 * cost_placed / PAIRS, "ms")
            measure(f"{name}: allocated by the API server, alone, a pod", bytes_alone / PAIRS / 1000, "kB")
            measure(f"{name}: allocated by the API server, with placement, a pod", bytes_placed / PAIRS / 1000, "kB")
            measure(f"{name}: pods in a second, with placement to alone", time_alone / time_placed, "", goal)
            measure(f"{name}: work, all, a pod, with placement to alone", work_placed / work_alone, "", WORK_GOAL)
            measure(f"{name}: work of the API server, a pod, with placement to alone", api_placed / api_alone, "", WORK_GOAL)

    def run_floors(self):
        print(f"# As pods are made, what placement costs at least: {self.count} of {POD_GPUS} GPUs in jobs of {GANG}")
        if shutil.which("kube-scheduler", path=SEARCH):
            companion_floors.run(self, "kube-scheduler", self.kube_scheduler, measure, GANG, False)
        if self.has_volcano():
            companion_floors.run(self, "Volcano", self.volcano, measure, GANG, True, volcano=True)

    def has_volcano(self):
        if not self.volcano_there:
            self.volcano_there = bool(shutil.which("vc-scheduler", path=SEARCH)) and self.api.install_volcano(self.nodes)
        if not self.volcano_there:
            print("skipped\tVolcano's scheduler or its definitions are not there")
        return self.volcano_there

    def run_volcano(self):
        print(f"# Volcano: {self.count} pods of {POD_GPUS} GPUs in jobs of {GANG}; with HyperNodes 256 at most")
        if self.has_volcano():
            self.place("Volcano alone", self.volcano, volcano=True)
            self.place("Volcano, placement", self.volcano, "placement", True, volcano=True)
            self.place("Volcano, HyperNodes", lambda: self.volcano(TOPOLOGY_CONF), count=min(self.count, 256), volcano=True,
                       hard=True)
            self.ratio("placement to alone", "Volcano, placement", "Volcano alone", ">1")
            self.ratio("placement to HyperNodes", "Volcano, placement", "Volcano, HyperNodes", ">10")
            self.ratio("kube-scheduler with placement to HyperNodes", "kube-scheduler, placement", "Volcano, HyperNodes", ">10")

    def run_plugins(self):
        """Volcano's scheduler with our plugins in it: no companion, no gates, no webhook."""
        print(f"# The plugins in Volcano, as pods are made: {self.count} of {POD_GPUS} GPUs in jobs of {GANG}")
        ours = os.path.join(self.binaries, "vc-scheduler")
        if not os.path.exists(ours):
            print("skipped\tour vc-scheduler is not there (./dev volcano)")
        elif self.has_volcano():
            self.flow("Volcano, stock, made", self.volcano, volcano=True)
            self.flow("Volcano, plugins, made", lambda: self.volcano(PLUGINS_CONF, ours), units=True, volcano=True)
            self.flow("Volcano, network-topology-aware, made", lambda: self.volcano(TOPOLOGY_CONF), volcano=True, hard=True)
            self.ratio("plugins to stock", "Volcano, plugins, made", "Volcano, stock, made", ">2")
            self.ratio("plugins to HyperNodes", "Volcano, plugins, made", "Volcano, network-topology-aware, made")


@contextlib.contextmanager
def started(kind, programs, *sizes):
    """A bench in a folder of its own; its servers and the folder are gone afterwards."""
    with yardstick() as speed, tempfile.TemporaryDirectory(prefix="gputopo-bench-", ignore_cleanup_errors=True) as folder:
        bench = kind(speed, programs, folder, *sizes)
        try:
            yield bench
        finally:
            bench.api.close()


def main():
    numbers, what = [int(n) for n in sys.argv[2:4]], "".join(sys.argv[4:])
    if not 1 < len(sys.argv) < 6 or what not in ("", "gates", "kube", "flow", "volcano", "plugins", "pairs", "floors") or not os.path.exists(os.path.join(sys.argv[1], "gputopo-scheduler")):
        sys.stderr.write("usage: companion_jobs.py DIRECTORY-OF-THE-PROGRAMS [NODES [PODS [gates|kube|flow|volcano|plugins|pairs|floors]]] (a release build)\n")
        sys.exit(2)
    if not RealServer.is_there():
        print("skipped\tjobs against a real API server: kube-apiserver, kubectl or etcd is not there (./dev e2e builds the "
              "first two)")
        return
    with started(Bench, sys.argv[1], *(numbers + [1000, 2000][len(numbers):])) as bench:
        bench.run(what)


if __name__ == "__main__":
    main()
