#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A thousand agents, and an API server that stops and starts again.   agents.py BIN_DIR [AGENTS]; measures as in
loss.sh

Real agents, each a node of its own, publish to the double of the API server; one double of the kubelet distinguishes all of them who
uses the GPUs. Fewer where there is not memory enough, and the report says how many."""
import collections
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(TESTS, "integration"))
import api_double  # noqa: E402
from daemon_driver import wait_for  # noqa: E402
from kube_driver import kubeconfig  # noqa: E402
from kubelet_double import RESOURCE, KubeletDouble  # noqa: E402

AGENTS = 1000
AGENT_MIB, CONNECTIONS = 5, 4  # of one: with its part of the doubles' memory; to the doubles, and one to spare
AWAY_S, WATCHED_S = 60, 120
HEARTBEAT_S = 900  # none is due while we look: what is seen is the return alone
MACHINE = os.path.join(TESTS, "machines", "c500-8.json")
NODES, TOPOLOGIES = "/api/v1/nodes", "/apis/topology.metax-tech.com/v1alpha1/nodegputopologies"
LOSSES = "metax-tech.com/gpu.topology.losses"


def measure(name, value, unit, goal="-"):
    print(f"{name}\t{value:.{0 if abs(value) >= 1000 else 2}f}\t{unit}\t{goal}", flush=True)


def hold(handler, request):
    """A watch of something that never changes. The double's own looks at every change of anything: with so many watches
    nothing else would be measured."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    if handler.double.stopping.wait(float(request.query.get("timeoutSeconds") or 300)):
        handler.close_connection = True
    else:
        handler.chunk(b"")


def proportional(pid):
    """Memory in MiB, what is shared being counted once among those who share it; and what is this one's alone."""
    found = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        for line in rollup:
            key, _, value = line.partition(":")
            if key in ("Pss", "Private_Dirty"):
                found[key] = int(value.split()[0]) / 1024
    return found["Pss"], found["Private_Dirty"]


def affordable():
    """How many agents there is memory for, and how many the doubles have file descriptors for."""
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        available = next(int(line.split()[1]) for line in meminfo if line.startswith("MemAvailable:"))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return min(available // 1024 // AGENT_MIB, most // CONNECTIONS)


class Bench:
    def __init__(self, binaries, folder, count):
        self.binaries, self.folder = binaries, folder
        self.names = [f"node-{i}" for i in range(count)]
        with open(MACHINE, encoding="utf-8") as file:
            self.gpus = [gpu["uuid"] for gpu in json.load(file)["node"]["gpus"]]
        self.dev = os.path.join(folder, "dev")
        os.makedirs(os.path.join(self.dev, "dri"))
        for name in ["mxcd", *(f"dri/card{i}" for i in range(16)), *(f"dri/renderD{128 + i}" for i in range(16))]:
            with open(os.path.join(self.dev, name), "w", encoding="ascii"):
                pass
        api_double.Handler.watch = hold
        self.api = api_double.StrictDouble(folder)
        for name in self.names:
            self.api.add(NODES, name)
        self.kubelet = KubeletDouble(os.path.join(folder, "kubelet"))
        self.kubelet.book.limit = float("inf")
        self.kubelet.start()
        self.config = kubeconfig(os.path.join(folder, "kubeconfig"), self.api.url, "certificate-authority: ca.crt",
                                 "token: token-1")
        self.agents = []

    def start(self, name):
        """With a directory of its own for the plugin's socket; no kubelet takes the GPUs in there."""
        directory = os.path.join(self.folder, name)
        os.makedirs(os.path.join(directory, "device-plugins"))
        os.symlink(self.kubelet.book.directory, os.path.join(directory, "pod-resources"))
        with open(os.path.join(directory, "log"), "wb") as log:
            self.agents.append(subprocess.Popen(
                [os.path.join(self.binaries, "gputopo-agent"), "--node-name", name, "--kubelet-dir", directory, "--from", MACHINE,
                 "--dev-root", self.dev, "--http", "none", "--heartbeat", str(HEARTBEAT_S), "--kubeconfig", self.config,
                 "--log-level", "warning"], stdin=subprocess.DEVNULL, stderr=log))

    def use(self, count):
        """A container has so many of the GPUs of each node."""
        self.kubelet.book.extra = [("default", "train-worker-0", "c0", RESOURCE, self.gpus[:count])] if count else []

    def right(self, free):
        """How many nodes are published with so many free GPUs, in the object and in what HAMi reads."""
        objects, nodes = self.api.place(TOPOLOGIES)[0], self.api.place(NODES)[0]
        count = 0
        with self.api.lock:
            for name in self.names:
                status = self.api.objects.get((objects, name), {}).get("status", {})
                losses = self.api.objects[nodes, name]["metadata"].get("annotations", {}).get(LOSSES, "{}")
                offered = sum(loss < 1999 for loss in json.loads(losses).values())
                count += status.get("freeCount") == free and offered == free
        return count

    def wait_right(self, free, seconds):
        began = time.monotonic()
        if not wait_for(lambda: time.sleep(0.5) or self.right(free) == len(self.names), seconds):
            raise SystemExit(f"agents.py: {self.right(free)} of {len(self.names)} nodes are published as they are")
        return time.monotonic() - began

    def per_second(self, requests):
        """The most requests, and the most new connections, that began in one second."""
        asked = collections.Counter(int(r.at) for r in requests)
        first = {}
        for request in requests:
            first.setdefault(request.connection, int(request.at))
        return max(asked.values(), default=0), max(collections.Counter(first.values()).values(), default=0)

    def run(self):
        count = len(self.names)
        print(f"# {count} agents publish to the double of the API server, each a node of 8 GPUs")
        began = time.monotonic()
        for name in self.names:
            self.start(name)
        measure("all are started", time.monotonic() - began, "s")
        self.wait_right(8, 600)
        measure("all have published", time.monotonic() - began, "s")
        measure("requests in the busiest second", self.per_second(self.api.requests)[0], "")
        pss, private = proportional(self.agents[count // 2].pid)
        measure("memory of one, the shared part divided", pss, "MiB")
        measure("  its own alone", private, "MiB")

        print(f"# The API server is away for {AWAY_S} s, while 2, then 6 GPUs of every node are given away; it comes back")
        self.api.stop()
        self.use(2)
        time.sleep(AWAY_S / 2)
        self.use(6)
        time.sleep(AWAY_S / 2)
        before = len(self.api.requests)
        back = time.monotonic()
        self.api.start()
        settled = self.wait_right(2, 300)
        time.sleep(max(0.0, WATCHED_S - (time.monotonic() - back)))
        with self.api.lock:
            requests = [r for r in self.api.requests[before:] if r.at >= back]
        writes, old = collections.Counter(), 0
        for request in (r for r in requests if r.method == "PATCH"):
            writes[self.api.place(request.path)[1]] += 1
            old += json.loads(request.body).get("status", {}).get("freeCount", 2) != 2
        if any(agent.poll() is not None for agent in self.agents):
            raise SystemExit("agents.py: an agent has ended")
        busiest, connections = self.per_second(requests)
        measure("until the last node is published as it is", settled, "s", "<60")
        measure("requests in the busiest second", busiest, "", f"<{0.3 * count + 10:.0f}")
        measure("  new connections in the busiest second", connections, "", f"<{0.2 * count + 10:.0f}")
        for begin, end in ((0, 10), (10, 20), (20, 30), (30, WATCHED_S)):
            measure(f"  requests a second from {begin} to {end} s",
                    sum(begin <= r.at - back < end for r in requests) / (end - begin), "/s")
        measure("writes of what is no longer so", old, "", "<1")
        measure("writes, mean of all agents (two are needed)", sum(writes.values()) / count, "", "<2.5")
        measure("  most of one agent", max(writes.values()), "")

    def close(self):
        for agent in self.agents:
            agent.terminate()
        for agent in self.agents:
            with contextlib.suppress(subprocess.TimeoutExpired):
                agent.wait(20)
            if agent.poll() is None:
                agent.kill()
                agent.wait()
        self.kubelet.stop(leave_socket=False)
        self.api.stop()


def main():
    if len(sys.argv) not in (2, 3) or not os.path.exists(os.path.join(sys.argv[1], "gputopo-agent")):
        sys.stderr.write("usage: agents.py DIRECTORY-OF-THE-PROGRAMS [AGENTS] (a release build)\n")
        sys.exit(2)
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else AGENTS
    folder = tempfile.mkdtemp(prefix="gputopo-bench-")
    bench = None
    try:
        bench = Bench(os.path.abspath(sys.argv[1]), folder, min(wanted, affordable()))
        bench.run()
    finally:
        if bench:
            bench.close()
        shutil.rmtree(folder, ignore_errors=True)


main()
