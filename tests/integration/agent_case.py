# SPDX-License-Identifier: Apache-2.0
"""An agent on a recorded or made node, for its tests, which are called with the directory of the programs and the fake
vendor library."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import prometheus_text
from daemon_driver import PATIENCE, Log, free_port, wait_for
from kubelet_double import KubeletDouble

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 2 else ""
LIBRARY = os.path.abspath(sys.argv.pop(1)) if PROGRAMS else ""
AGENT = os.path.join(PROGRAMS, "gputopo-agent")
MAKE_MACHINE = os.path.join(HERE, "../machines/make-machine")
SPEC = os.path.join(HERE, "../machines/specs/c500-8.json")
RECORDED = os.path.join(HERE, "../machines/c500-8.json")


def uuid(i):
    return f"GPU-00000000-0000-4000-8000-{i:012x}"


def machine(gpus=8, sick=(), gone=(), down=(), mode="native"):
    """Two meshes of four, joined by nothing but the processors' link; `index` counts those that are left."""
    there = [i for i in range(gpus) if i not in gone]
    links = []
    for b, second in enumerate(there):
        for a, first in enumerate(there[:b]):
            if first // 4 == second // 4:
                state = "down" if (first, second) in down else "up"
                links.append({"a": a, "b": b, "kind": "MX", "pathKind": "PXB", "state": state, "ports": 1,
                              "width": 16, "speedGTs": 32})
            else:
                links.append({"a": a, "b": b, "kind": "SYS", "pathKind": "SYS"})
    return {
        "name": "recorded",
        "gpus": [{"index": i, "vendorIndex": i, "uuid": uuid(gpu), "bdf": f"0000:{0x0e + gpu:02x}:00.0",
                  "product": "C500", "numaNode": gpu // 4, "mode": mode, "healthy": gpu not in sick,
                  "unhealthyReason": "uncorrected memory errors" if gpu in sick else "",
                  "drm": {"card": gpu, "render": 128 + gpu}} for i, gpu in enumerate(there)],
        "nics": [], "links": links, "supernode": {"uuid": "", "remote": []}, "missing": []}


class Agent:
    """A running agent and what it said."""

    def __init__(self, *arguments, env=None, wrapper=()):
        self.port = free_port()
        self.process = subprocess.Popen(
            [*wrapper, AGENT, "--http", f"127.0.0.1:{self.port}", "--node-name", "n1", "--log-format", "json",
             *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
        self.log = Log(self.process.stderr)
        self.lines, self.events, self.reader = self.log.lines, self.log.events, self.log.reader

    def wait_event(self, name, count=1, seconds=PATIENCE):
        with self.log.changed:
            if not self.log.changed.wait_for(lambda: len(self.events(name)) >= count, seconds):
                raise AssertionError(f"no {name!r} within {seconds} s, but {self.lines}")
            return self.events(name)[count - 1]

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def metrics(self):
        status, text = self.get("/metrics")
        assert status == 200, status
        return prometheus_text.parse(text)

    def metric(self, name, **labels):
        return self.metrics().get((name, frozenset(labels.items())))

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self, seconds=PATIENCE):
        """SIGTERM; returns the exit code and the seconds it took."""
        begin = time.monotonic()
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.reader.join(PATIENCE)
            self.process.stderr.close()
        return code, time.monotonic() - begin


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="gputopo-agent-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.recording = os.path.join(self.directory, "node.json")
        self.dev = os.path.join(self.directory, "dev")
        os.makedirs(os.path.join(self.dev, "dri"))
        for name in ["mxcd", *(f"dri/card{i}" for i in range(16)), *(f"dri/renderD{128 + i}" for i in range(16))]:
            with open(os.path.join(self.dev, name), "w", encoding="ascii"):
                pass

    def record(self, **what):
        with open(self.recording + ".new", "w", encoding="utf-8") as file:
            json.dump(machine(**what), file)
        os.rename(self.recording + ".new", self.recording)

    def script(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def start(self, *arguments, env=None):
        agent = Agent("--dev-root", self.dev, "--kubelet-dir", self.directory, *arguments, env=env)
        self.addCleanup(lambda: agent.process.poll() is None and agent.stop())
        return agent

    def kubelet(self, start=True):
        kubelet = KubeletDouble(self.directory)
        if start:
            kubelet.start()
        self.addCleanup(kubelet.stop, leave_socket=False)
        return kubelet

    def start_recorded(self, *arguments, **what):
        self.record(**what)
        kubelet = self.kubelet()
        agent = self.start("--from", self.recording, *arguments)
        self.assertTrue(kubelet.wait_healthy(8 - len(what.get("sick", ()))), agent.lines)
        self.assertTrue(wait_for(lambda: agent.get("/readyz")[0] == 200), agent.lines)
        return kubelet, agent


class MadeMachine(Case):
    """A made sysfs tree of eight GPUs, the real gputopo-probe, and the fake library below the root's opt/."""

    def setUp(self):
        super().setUp()
        machine_directory = os.path.join(self.directory, "machine")
        subprocess.run([sys.executable, MAKE_MACHINE, SPEC, machine_directory], check=True)
        self.root = os.path.join(machine_directory, "root")
        self.scenario = os.path.join(machine_directory, "scenario.json")
        os.makedirs(os.path.join(self.root, "opt/mxdriver/lib"))
        shutil.copy(LIBRARY, os.path.join(self.root, "opt/mxdriver/lib/libmxsml.so"))
        with open(self.scenario, encoding="utf-8") as file:
            self.vendor = json.load(file)
        self.ids = [device["uuid"] for device in self.vendor["devices"]]

    def write_scenario(self, **what):
        with open(self.scenario + ".new", "w", encoding="utf-8") as file:
            json.dump({**self.vendor, **what}, file)
        os.rename(self.scenario + ".new", self.scenario)

    def start_node(self, *arguments):
        kubelet = self.kubelet()
        agent = self.start("--root", self.root, *arguments, env={"GPUTOPO_FAKE_MXSML": self.scenario})
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        return kubelet, agent
