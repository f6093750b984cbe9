#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-scheduler with everything on, in a cluster of 10,000 nodes and 100,000 pods that a double of the API server
tells of: its memory, and what its extenders answer in a second.

    companion_extenders.py BUILD/bin [memory]"""
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

from companion_cluster import Cluster, LargeDouble  # noqa: E402
from daemon_driver import Daemon, free_port, wait_for
from kube_driver import kubeconfig, make_certificate

NODES, PODS, ASKING, MANY = 10000, 100000, 20000, 300000
ROUNDS, SECONDS = 5, 2
LIMIT, MANY_LIMIT = 143.05, 190.73  # 150 and 200 MB in MiB
KUBE, VOLCANO = ("/kube-scheduler/filter", "/kube-scheduler/prioritize"), "/volcano/"


def measure(name, value, unit, goal="-"):
    print(f"{name}\t{value:.{0 if abs(value) >= 1000 else 2}f}\t{unit}\t{goal}", flush=True)


def fields(pid, file="status"):
    with open(f"/proc/{pid}/{file}", encoding="ascii") as status:
        return {key: value.split()[0] for key, _, value in (line.partition(":") for line in status) if value.split()}


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        ticks = stat.read().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def cores():
    """The server's, and the clients', where there are two."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[:2] if len(allowed) > 1 else (None, None)


class Bench:
    def __init__(self, binaries, folder):
        self.binaries, self.folder = os.path.abspath(binaries), folder
        self.server_core, self.client_core = cores()
        if self.client_core is not None:
            os.sched_setaffinity(0, {self.client_core})  # this process is the API server, and starts the clients
        self.https = free_port()

    def program(self, name):
        return os.path.join(self.binaries, name)

    @contextlib.contextmanager
    def companion(self, pods, asking):
        api = LargeDouble(self.folder, Cluster(NODES, pods, asking))
        config = kubeconfig(f"{self.folder}/config", api.url, f"certificate-authority: {self.folder}/ca.crt", "token: token-1")
        for name in ("server", "scheduler"):
            make_certificate(self.folder, name, f"/CN={name}", "subjectAltName=IP:127.0.0.1")
        begin = time.monotonic()
        companion = Daemon(self.program("gputopo-scheduler"), "--kubeconfig", config, "--namespace=default",
                           "--https", f"127.0.0.1:{self.https}", "--tls-certificate", f"{self.folder}/server.crt",
                           "--tls-key", f"{self.folder}/server.key")
        try:
            if self.server_core is not None:
                os.sched_setaffinity(companion.process.pid, {self.server_core})
            if not wait_for(lambda: self.is_ready(companion) or companion.process.poll() is not None, 180) or \
                    companion.process.poll() is not None:
                raise SystemExit(f"companion_extenders.py: it is not ready: {companion.lines[-5:]}")
            self.ready_s = time.monotonic() - begin
            self.listed = api.bytes_out
            yield companion, api
        finally:
            companion.stop()
            api.stop()

    @staticmethod
    def is_ready(companion):
        time.sleep(0.2)
        try:
            return companion.get("/readyz")[0] == 200
        except OSError:
            return False

    # memory

    def memory(self, companion, pods, asking, limit=LIMIT):
        print(f"# {NODES} nodes of 8 GPUs, {pods} pods of which {asking} ask for GPUs; every part on")
        pid = companion.process.pid
        supernodes = -(-NODES // 16)
        settled = wait_for(lambda: self.is_settled(companion, supernodes), 120)  # it writes 50 a second
        time.sleep(3)
        measure("ready after", self.ready_s, "s")
        measure("  lists", self.listed / 1e6, "MB")
        measure("  CPU until it has settled", cpu_seconds(pid), "s")
        measure("  of it working out supernodes (wall clock)", self.metric(companion, "gputopo_joins_seconds_total"), "s")
        measure("  how often", self.metric(companion, "gputopo_joins_total"), "times")
        if not settled:
            print("skipped\tnot all supernodes are written: memory is not told")
            return
        status, rollup = fields(pid), fields(pid, "smaps_rollup")
        measure(f"resident, {asking} of {pods} pods ask", int(status["VmRSS"]) / 1024, "MiB", f"<{limit}")
        measure("  anonymous", int(status["RssAnon"]) / 1024, "MiB")
        measure("  of files (programs and libraries)", int(status["RssFile"]) / 1024, "MiB")
        measure("  its share where pages are shared (PSS)", int(rollup["Pss"]) / 1024, "MiB")
        measure("  at its highest", int(status["VmHWM"]) / 1024, "MiB")

    @staticmethod
    def metric(companion, name):
        return companion.metrics().get(name, 0)

    @staticmethod
    def is_settled(companion, supernodes):
        time.sleep(1)
        metrics = companion.metrics()
        return (metrics.get('gputopo_supernodes{tier="1"}') == supernodes and
                metrics.get('gputopo_objects_waiting{kind="Supernode"}') == 0 and
                metrics.get('gputopo_informer_objects{resource="supernodes"}') == supernodes)

    # extenders

    def body(self, *arguments):
        path = f"{self.folder}/{'-'.join(map(str, arguments))}"
        if not os.path.exists(path):
            with open(path, "wb") as file:
                subprocess.run([self.program("bench_companion"), *map(str, arguments)], stdout=file, check=True)
        return path

    def load(self, companion, name, paths, body, tls=False, goals=(), **options):
        """The best of some rounds by p99: other work on the machine delays the others."""
        port, scheme = (self.https, "https") if tls else (companion.port, "http")
        command = [self.program("http_load"), "--measures", name, "--server", str(companion.process.pid),
                   "--duration", str(SECONDS * 1000), "--body", body]
        for key, value in options.items():
            command += [f"--{key}", str(value)]
        rounds = []
        for _ in range(ROUNDS):
            done = subprocess.run([*command, *(f"{scheme}://127.0.0.1:{port}{path}" for path in paths)],
                                  capture_output=True, text=True, check=False)
            found = {m[1]: float(m[2]) for m in re.finditer(r": ([^\t:]+)\t([^\t]*)\t", done.stdout)}
            if done.returncode:
                print(f"# {name}: {done.stderr.strip() or 'there were errors'}")
            rounds.append(found)
        best = min(rounds, key=lambda found: found.get("p99", 1e9))
        goals = dict(goals)
        shown = {"requests": "1/s", "p50": "us", "p99": "us", "late p99": "us", "body": "MB/s", "server CPU each": "us"}
        for what, unit in shown.items():
            if what in best and (what != "body" or "body" in goals):
                measure(f"{name}: {what}", best[what], unit, goals.get(what, "-"))
        if best.get("errors", 1):
            measure(f"{name}: errors", best.get("errors", 1), "", "<1")

    def check(self, companion):
        """That it is worth measuring: scores that differ, one best node, and every name answered."""
        with open(self.body("names", 500), "rb") as file:
            body = file.read()
        request = urllib.request.Request(f"http://127.0.0.1:{companion.port}{KUBE[1]}", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            scores = [item["Score"] for item in json.load(answer)]
        if len(scores) != 500 or scores.count(10) != 1 or len(set(scores)) < 3:
            raise SystemExit(f"companion_extenders.py: 500 names got the scores {sorted(scores)}")

    def extenders(self, companion):
        self.check(companion)
        print("# filter and prioritize in turn, of a pod with 8 GPUs; 8 connections; a core for each side")
        for count in (100, 500, 5000):
            for tls in (False, True):
                goal = (("requests", ">5000"),) if count == 500 and not tls else ()
                self.load(companion, f"{count} names{', TLS' if tls else ''}", KUBE, self.body("names", count), tls, goal,
                          connections=8)
        print("# the same 2,500 times a second, whatever the answers take; late: the client itself behind its time")
        for tls in (False, True):
            self.load(companion, f"500 names, 2,500/s{', TLS' if tls else ''}", KUBE, self.body("names", 500), tls,
                      (("p99", "<1000"),), connections=16, rate=2500)
        print("# Volcano")
        body = self.body("volcano", 500, 12)
        self.load(companion, f"prioritize, {os.path.getsize(body) / 1e6:.0f} MB", [VOLCANO + "prioritize"], body, False,
                  (("body", ">200"),), connections=1)
        self.load(companion, "predicate, 12 pods on the node", [VOLCANO + "predicate"], self.body("predicate", 12),
                  connections=16)
        measure("resident after all that", int(fields(companion.process.pid)["VmRSS"]) / 1024, "MiB", f"<{LIMIT}")


def main():
    memory_alone = sys.argv[2:] == ["memory"]
    if not (len(sys.argv) == 2 or memory_alone) or not os.path.exists(os.path.join(sys.argv[1], "gputopo-scheduler")):
        sys.stderr.write("usage: companion_extenders.py DIRECTORY-OF-THE-PROGRAMS [memory] (a release build)\n")
        sys.exit(2)
    folder = tempfile.mkdtemp(prefix="gputopo-bench-")
    try:
        bench = Bench(sys.argv[1], folder)
        with bench.companion(PODS, ASKING) as (companion, _):
            bench.memory(companion, PODS, ASKING)
            if not memory_alone:
                bench.extenders(companion)
        for pods, asking, limit in ((PODS, PODS, LIMIT), (MANY, ASKING, MANY_LIMIT)):
            with bench.companion(pods, asking) as (companion, _):
                bench.memory(companion, pods, asking, limit)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
