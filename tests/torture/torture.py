#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs agent and companion again and again on a small scenario, each time with another allocation that fails.

Usage: torture.py BUILD_DIR [--all] [--runs N] [--seed N] [--at N[-M]] [--only agent|companion]

What must come of it: no crash and no hang; exit code 0, or 1 with one line that says why; and nothing is left in memory
that a whole run does not leave. Which allocations count: failing_malloc.c. BUILD_DIR has the preset "debug": gRPC is
linked as a shared library there, so that the program's own allocations can be told from its."""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
sys.dont_write_bytecode = True

import placement_driver
from api_double import StrictDouble
from companion_driver import NODES, SUPERNODE_LABEL, TOPOLOGIES, report
from daemon_driver import free_port
from kube_driver import kubeconfig
from kubelet_double import AdmissionError, KubeletDouble

STEP, END = 1.5, 60  # seconds that a step may take, which a failure may well make impossible; that the end may take
WORKERS = 2
KEPT = {"gt_curl_load"}  # dlerror() keeps its last sentence
JOBS, PODS = "/apis/batch/v1/namespaces/team/jobs", "/api/v1/namespaces/team/pods"


def wait(condition, process, seconds=STEP):
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError, KeyError):
            if condition():
                return True
        time.sleep(0.01)
    return False


class Scenario:
    """One worker's surroundings of a program."""

    def __init__(self, build, directory):
        self.build, self.directory = build, pathlib.Path(directory)
        self.out, self.errors = self.directory / "torture.out", self.directory / "stderr"

    def run(self, at, every):
        """Runs the program once; (exit code or what is wrong, what the preloaded library told, standard error)."""
        environment = {**os.environ, "LD_PRELOAD": str(self.build / "tests/libfailing_malloc.so"), "TORTURE_AT": str(at),
                       "TORTURE_OUT": str(self.out)}
        if every:
            environment["TORTURE_ALL"] = "1"
        self.out.unlink(missing_ok=True)
        with open(self.errors, "w", encoding="utf-8") as errors:
            process = subprocess.Popen(list(map(str, self.command())), stdin=subprocess.DEVNULL, stderr=errors, env=environment)
        try:
            self.steps(process)
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            code = process.wait(END)
        except subprocess.TimeoutExpired:
            code = "it does not end"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            self.clean()
        told = self.out.read_text() if self.out.exists() else ""
        return code, told.splitlines(), self.errors.read_text(errors="replace")


class AgentScenario(Scenario):
    """A recorded node, a kubelet: registered, a pod gets two GPUs, the node is scanned again."""
    program = "gputopo-agent"

    def __init__(self, build, directory):
        super().__init__(build, directory)
        (self.directory / "dev/dri").mkdir(parents=True)
        for name in ("mxcd", *(f"dri/card{i}" for i in range(4)), *(f"dri/renderD{128 + i}" for i in range(4))):
            (self.directory / "dev" / name).touch()
        (self.directory / "node.json").write_text(json.dumps({
            "name": "n1", "nics": [], "missing": [], "supernode": {"uuid": "", "remote": []},
            "gpus": [{"index": i, "uuid": f"GPU-{i}", "bdf": f"0000:{0x10 + i:02x}:00.0", "product": "C500", "numaNode": 0,
                      "mode": "native", "healthy": True, "drm": {"card": i, "render": 128 + i}} for i in range(4)],
            "links": [{"a": a, "b": b, "kind": "MX", "pathKind": "PIX", "state": "up", "weight": 9} for b in range(4) for a in range(b)]}))
        self.kubelet = KubeletDouble(str(self.directory))
        self.kubelet.book.empty_for = 0
        self.kubelet.start()

    def command(self):
        return [self.build / "bin" / self.program, "--from", self.directory / "node.json", "--dev-root", self.directory / "dev",
                "--kubelet-dir", self.directory, "--node-name", "n1", "--http", f"127.0.0.1:{free_port()}",
                "--device-strategy", "both", "--cdi-dir", self.directory / "cdi"]

    def steps(self, process):
        if not wait(lambda: self.kubelet.plugin and len(self.kubelet.healthy()) == 4, process):
            return
        with contextlib.suppress(AdmissionError):
            self.kubelet.admit("pod", 2)
        process.send_signal(signal.SIGHUP)
        wait(lambda: "scanning again" in self.errors.read_text(), process)
        wait(lambda: self.kubelet.book.calls, process, 0.1)

    def clean(self):
        with contextlib.suppress(AdmissionError):
            self.kubelet.release("pod")
        self.kubelet.wait(lambda: not self.kubelet.plugin, 5)

    def close(self):
        self.kubelet.stop(leave_socket=False)


class CompanionScenario(Scenario):
    """An API server with two nodes and one job: the job's pod is gated, and planned. What one node isolates is in the other."""
    program = "gputopo-scheduler"

    def __init__(self, build, directory):
        super().__init__(build, directory)
        self.api = StrictDouble(str(self.directory), tokens=("token-1",))
        for node in ("n1", "n2"):
            self.api.add(NODES, node, metadata={"labels": {SUPERNODE_LABEL: "rack"}}, status=placement_driver.node_status())
        self.report()
        self.config = kubeconfig(f"{self.directory}/config", self.api.url, f"certificate-authority: {self.directory}/ca.crt",
                                 "token: token-1")

    def command(self):
        return [self.build / "bin" / self.program, "--kubeconfig", self.config, "--namespace", "gputopo-system", "--http",
                f"127.0.0.1:{free_port()}", "--leader-elect=false", "--only", "supernodes,placement"]

    def steps(self, process):
        template = placement_driver.template(4, group=4)
        with self.api.lock:
            self.api.add(JOBS, "job", spec={"completions": 1, "parallelism": 1, "completionMode": "Indexed", "template": template})
            uid = self.api.objects[self.api.place(JOBS)[0], "job"]["metadata"]["uid"]
            self.api.add(PODS, "job-0", spec=placement_driver.pod_spec(4), status={"phase": "Pending"}, metadata={
                "annotations": template["metadata"]["annotations"], "labels": {"batch.kubernetes.io/job-completion-index": "0"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": uid, "controller": True}]})
        wait(lambda: self.planned() and self.followed(), process)

    def report(self):
        for node, spec in (("n1", {"isolated": [{"gpu": "GPU-n2-0", "reason": "x", "by": "alice"}]}), ("n2", {})):
            self.api.add(TOPOLOGIES, node, spec=spec, status={**report(f"uuid-{node}"), **placement_driver.topology(node)})

    def followed(self):
        with self.api.lock:
            return self.api.objects[self.api.place(TOPOLOGIES)[0], "n2"]["spec"].get("isolated")

    def planned(self):
        with self.api.lock:
            return not self.api.objects[self.api.place(PODS)[0], "job-0"]["spec"].get("schedulingGates")

    def clean(self):
        with self.api.lock:
            self.api.remove(PODS, "job-0")
            self.api.remove(JOBS, "job")
            self.report()

    def close(self):
        self.api.stop()


def counted(told):
    return next((int(line.split()[1]) for line in told if line.startswith("count ")), None)


class Torture:
    def __init__(self, scenario, build):
        self.scenario, self.build = scenario, build
        self.local = threading.local()
        self.made, self.lock = [], threading.Lock()
        self.whole, self.problems, self.functions = collections.Counter(), {}, {}

    def mine(self):
        if not hasattr(self.local, "scenario"):
            with self.lock:
                directory = tempfile.TemporaryDirectory(prefix="gputopo-torture-")
                self.local.scenario = self.scenario(self.build, directory.name)
                self.made.append((self.local.scenario, directory))
        return self.local.scenario

    def where(self, told, what="failed"):
        """The functions above the allocation that failed, or above a crash."""
        frames = next((line.split()[1:] for line in told if line.startswith(what)), [])
        offsets = [frame.split("+")[1] for frame in frames if frame.startswith("program+")][:6]
        if not offsets:
            return "?"
        done = subprocess.run(["addr2line", "-sfe", self.build / "bin" / self.scenario.program,
                               *(hex(int(one, 16) - 1) for one in offsets)], stdout=subprocess.PIPE, text=True, check=False)
        lines = done.stdout.splitlines()
        return " < ".join(f"{name} {place}" for name, place in zip(lines[::2], lines[1::2]))

    def by_function(self, told):
        """What is left: {function of the program that asked for it, or library: how often}."""
        keys = [line.removeprefix("live ") for line in told if line.startswith("live ")]
        new = sorted({key for key in keys if key.startswith("program+")} - self.functions.keys())
        if new:
            done = subprocess.run(["addr2line", "-fe", self.build / "bin" / self.scenario.program,
                                   *(hex(int(key.split("+")[1], 16) - 1) for key in new)], stdout=subprocess.PIPE, text=True, check=True)
            self.functions.update(zip(new, done.stdout.splitlines()[::2]))
        return collections.Counter(self.functions.get(key) or key.split("+")[0] for key in keys)

    def one(self, at, every):
        code, told, errors = self.mine().run(at, every)
        lines = [line for line in errors.splitlines() if line.startswith(f"{self.scenario.program}: ")]
        wrong = None
        if code not in (0, 1):
            wrong = code if isinstance(code, str) else f"ended by {signal.Signals(-code).name} in {self.where(told, 'crashed')}" if code < 0 else f"exit code {code}"
        elif code == 1 and len(lines) != 1:
            wrong = f"exit code 1 with {len(lines)} lines that say why"
        else:
            with self.lock:
                leaked = self.by_function(told) - self.whole
            leaked = {name: n for name, n in leaked.items() if name not in KEPT}
            wrong = leaked and "never freed: " + ", ".join(f"{n} of {name}" for name, n in leaked.items())
        if wrong:
            with self.lock:
                self.problems.setdefault((wrong, self.where(told)), []).append((at, every, errors[-400:]))
        return code

    def run(self, runs, seed, only):
        code, told, errors = self.mine().run(0, False)
        total = counted(told)
        if code != 0 or not total:
            sys.exit(f"torture: {self.scenario.program} does not even end well with memory: {code}\n{errors}")
        for _ in range(2):  # what is left is not the same each time
            self.whole |= self.by_function(self.mine().run(0, False)[1])
        numbers = range(1, total + 1)
        if only:
            plan = [(at, every) for every in (False, True) for at in range(only[0], only[-1] + 1)]
        elif runs and runs < 2 * total:
            picked = random.Random(seed)
            plan = [(at, every) for every in (False, True) for at in sorted(picked.sample(numbers, max(1, runs // 2)))]
        else:
            plan = [(at, every) for every in (False, True) for at in numbers]
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            codes = collections.Counter(pool.map(lambda what: self.one(*what), plan))
        print(f"{self.scenario.program}: {total} allocations; {len(plan)} runs in {time.monotonic() - start:.0f} s, "
              f"exit codes {dict(sorted(codes.items(), key=str))}", flush=True)
        for (wrong, where), cases in sorted(self.problems.items(), key=lambda item: item[1][0][0]):
            at, every, errors = cases[0]
            print(f"  allocation {at}{' and all after it' if every else ''} ({len(cases)} times): {wrong}\n    at {where}\n"
                  f"    {errors.splitlines()[-1] if errors else ''}")
        return not self.problems

    def close(self):
        for scenario, directory in self.made:
            scenario.close()
            directory.cleanup()


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n", maxsplit=1)[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--all", action="store_true", help="every allocation, instead of a sample")
    parser.add_argument("--runs", type=int, default=200, help="of each program (200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at", type=lambda text: [int(part) for part in text.split("-")], help="these alone, N or N-M")
    parser.add_argument("--only", choices=("agent", "companion"))
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through the `finally` below
    print(f"seed {arguments.seed}", flush=True)
    good = True
    for name, scenario in (("agent", AgentScenario), ("companion", CompanionScenario)):
        if arguments.only in (None, name):
            torture = Torture(scenario, arguments.build.resolve())
            try:
                good = torture.run(0 if arguments.all else arguments.runs, arguments.seed, arguments.at) and good
            finally:
                torture.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
