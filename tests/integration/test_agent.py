#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-agent from outside.

Usage: test_agent.py DIRECTORY_OF_PROGRAMS FAKE_LIBMXSML [unittest arguments]
"""

import http.client
import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import prometheus_text
import stopped_thread
from daemon_driver import PATIENCE, free_port, wait_for
from kubelet_double import AdmissionError, KubeletDouble, pb
from silent import PROBE_S, SilentSockets, look

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 2 else ""
LIBRARY = os.path.abspath(sys.argv.pop(1)) if PROGRAMS else ""
AGENT = os.path.join(PROGRAMS, "gputopo-agent")
MAKE_MACHINE = os.path.join(HERE, "../machines/make-machine")
SPEC = os.path.join(HERE, "../machines/specs/c500-8.json")
RECORDED = os.path.join(HERE, "../machines/c500-8.json")

SLOW = 40  # seconds: what a busy machine may add to an end that is bound to come; a hang would be for ever

# Reads requests and never answers one; ends with its connection, like the real one.
SILENT_PROBE = """#!/usr/bin/python3
import socket
s = socket.socket(fileno=3)
while s.recv(4096):
    pass
"""


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
             *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(env or {})})
        self.lines = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self.changed:
                try:
                    self.lines.append(json.loads(line))
                except ValueError:
                    self.lines.append({"event": line.rstrip("\n"), "level": "raw"})
                self.changed.notify_all()

    def events(self, name):
        with self.changed:
            return [line for line in self.lines if line["event"] == name]

    def wait_event(self, name, count=1, seconds=PATIENCE):
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.events(name)) >= count, seconds):
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


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                text = file.read()
        except (OSError, ValueError):
            continue
        if name.isdigit():
            state, parent = text[text.rindex(")") + 2:].split()[:2]
            if int(parent) == pid:
                found.append((int(name), state))
    return found


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


class OnARecording(Case):
    def test_health_that_nobody_knows(self):
        """Served, and not called healthy: by the kubelet's word alone, since it has no third one."""
        kubelet = self.kubelet()
        agent = self.start("--from", RECORDED.replace("c500-8", "c500-8-nolib"))
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        found = agent.wait_event("node discovered")
        self.assertEqual((found["gpus"], found["healthy"], found["unhealthy"]), (8, 0, 0))
        self.assertEqual([agent.metric("gputopo_gpus", health=health) for health in ("healthy", "unhealthy", "unknown")], [0, 0, 8])
        self.assertEqual(len(kubelet.admit("two", 2)[0]), 2)

    def test_containers_know_the_nics_near_their_gpus(self):
        kubelet = self.kubelet()
        agent = self.start("--from", RECORDED)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        with open(RECORDED, encoding="utf-8") as file:
            first = [gpu["uuid"] for gpu in json.load(file)["node"]["gpus"][:4]]
        kubelet.admit("all", 8)
        envs = dict(kubelet.responses["all"][0].envs)
        self.assertEqual(envs["METAX_GPU_NICS"].split(";"),
                         ["mlx5_0,mlx5_1" if i in first else "mlx5_2,mlx5_3" for i in envs["METAX_GPU_UUIDS"].split(",")])

    def test_the_life_of_a_node(self):
        kubelet, agent = self.start_recorded()
        self.assertEqual(agent.get("/healthz"), (200, "ok\n"))
        self.assertEqual(agent.get("/nothing")[0], 404)
        started = agent.wait_event("gputopo-agent started")
        self.assertEqual(started["node"], "n1")
        self.assertRegex(started["version"], r"^\d+\.\d+")
        found = agent.wait_event("node discovered")
        self.assertEqual((found["gpus"], found["healthy"], found["direct_links"]), (8, 8, 12))
        self.assertEqual(agent.wait_event("registered")["gpus"], 8)

        four, = kubelet.admit("four", 4)
        two, = kubelet.admit("two", 2)
        self.assertEqual(len({kubelet.order.index(i) // 4 for i in four}), 1, "a mesh of four stays together")
        self.assertEqual(len({kubelet.order.index(i) // 4 for i in four + two}), 2)
        said = agent.wait_event("allocated")
        self.assertEqual(sorted(said["ids"].split(",")), sorted(four))
        self.assertEqual(said["gpus"], 4)
        self.assertEqual(agent.wait_event("preferred")["exact"], True)
        response = kubelet.responses["two"][0]
        numbers = sorted(int(i[-2:], 16) for i in two)
        self.assertEqual(
            {device.container_path for device in response.devices},
            {"/dev/mxcd", *(f"/dev/dri/card{i}" for i in numbers), *(f"/dev/dri/renderD{128 + i}" for i in numbers)})
        self.assertEqual(sorted(dict(response.envs)["METAX_GPU_UUIDS"].split(",")), sorted(two))
        with self.assertRaises(AdmissionError):
            kubelet.admit("three", 3)

        values = agent.metrics()
        expected = {
            ("gputopo_gpus", "health", "healthy"): 8, ("gputopo_gpus", "health", "unhealthy"): 0,
            ("gputopo_scans_total", "result", "done"): 1, ("gputopo_scans_total", "result", "failed"): 0}
        for (name, key, value), number in expected.items():
            self.assertEqual(values[name, frozenset({(key, value)})], number, name)
        plain = {name: value for (name, labels), value in values.items() if not labels}
        self.assertEqual(values["gputopo_links", frozenset({("kind", "MX"), ("state", "up")})], 12)
        self.assertEqual(plain["gputopo_plugin_registered"], 1)
        self.assertEqual(plain["gputopo_registrations_total"], 1)
        self.assertEqual(plain["gputopo_allocations_total"], 2)
        self.assertEqual(plain["gputopo_allocate_duration_seconds_count"], 2)
        self.assertEqual(plain["gputopo_preferred_allocation_duration_seconds_count"], 2)
        self.assertLess(abs(plain["gputopo_last_scan_timestamp_seconds"] - time.time()), 60)
        self.assertLess(abs(plain["process_start_time_seconds"] - time.time()), 60)

        code, _ = agent.stop()
        self.assertEqual(code, 0)
        self.assertEqual(agent.events("shutting down")[0]["signal"], "SIGTERM")
        sockets = [name for name in os.listdir(kubelet.directory)
                   if stat.S_ISSOCK(os.lstat(os.path.join(kubelet.directory, name)).st_mode)]
        self.assertEqual(sockets, ["kubelet.sock"])

    def test_a_gpu_becomes_unhealthy_and_recovers(self):
        kubelet, agent = self.start_recorded()
        self.record(sick=[2])
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(7), "one SIGHUP shows it")
        self.assertNotIn(uuid(2), kubelet.healthy())
        self.assertEqual(len(kubelet.order), 8, "it stays in the list")
        said = agent.wait_event("GPU unhealthy")
        self.assertEqual((said["id"], said["why"]), (uuid(2), "uncorrected memory errors"))
        self.assertEqual(agent.metric("gputopo_gpus", health="unhealthy"), 1)
        self.assertEqual(agent.get("/readyz")[0], 200)
        self.record()
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(8), "and one shows that it is well again")
        self.assertEqual(agent.wait_event("GPU recovered")["id"], uuid(2))
        self.assertEqual(agent.metric("gputopo_gpus", health="unhealthy"), 0)

    def test_a_gpu_vanishes_and_comes_back(self):
        kubelet, agent = self.start_recorded()
        self.record(gone=[5])
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(7))
        self.assertIn(uuid(5), kubelet.order)
        self.assertEqual(agent.wait_event("GPU lost")["id"], uuid(5))
        self.assertEqual(agent.metric("gputopo_gpus", health="lost"), 1)
        self.assertEqual(agent.metric("gputopo_gpus", health="healthy"), 7)
        self.record()
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(8))
        self.assertEqual(agent.wait_event("GPU back")["id"], uuid(5))
        self.assertEqual(agent.metric("gputopo_gpus", health="lost"), 0)

    def test_a_link_goes_down(self):
        kubelet, agent = self.start_recorded()
        lists = len(kubelet.lists)
        self.record(down=[(0, 1), (0, 2), (0, 3)])
        agent.signal(signal.SIGHUP)
        agent.wait_event("link down", count=3)
        self.assertEqual(agent.metric("gputopo_links", kind="MX", state="down"), 3)
        self.assertEqual(len(kubelet.healthy()), 8, "that is nobody's health")
        self.assertEqual(len(kubelet.lists), lists, "the kubelet is not told what does not concern it")
        four, = kubelet.admit("four", 4)
        self.assertEqual(sorted(four), [uuid(i) for i in range(4, 8)], "the whole mesh is better now")
        self.record()
        agent.signal(signal.SIGHUP)
        agent.wait_event("link up", count=3)

    def test_a_bad_recording_changes_nothing(self):
        kubelet, agent = self.start_recorded()
        for i, text in enumerate(['{"gpus": [', "", '{"gpus": 3}', "\0" * 100]):
            with open(self.recording, "w", encoding="utf-8") as file:
                file.write(text)
            agent.signal(signal.SIGHUP)
            said = agent.wait_event("scan failed, the state before is kept", count=i + 1)
            self.assertIn("node.json", said["why"])
            self.assertEqual(said["level"], "warning")
        os.unlink(self.recording)
        agent.signal(signal.SIGHUP)
        agent.wait_event("scan failed, the state before is kept", count=5)
        self.assertEqual(agent.metric("gputopo_scans_total", result="failed"), 5)
        self.assertEqual(len(kubelet.healthy()), 8)
        self.assertEqual(agent.get("/readyz")[0], 200)
        self.record(sick=[0])
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(7), "and a good one is taken again")

    def test_the_kubelet_restarts(self):
        kubelet, agent = self.start_recorded()
        mine, = kubelet.admit("mine", 4)
        for i in range(3):
            kubelet.restart()
            self.assertTrue(kubelet.wait_healthy(8), f"restart {i}: {agent.lines}")
            # One registration a restart is counted below: let each come to rest before the next.
            self.assertTrue(wait_for(lambda: agent.get("/readyz")[0] == 200))
        self.assertEqual(kubelet.pods["mine"], [mine])
        other, = kubelet.admit("other", 4)
        self.assertFalse(set(mine) & set(other))
        agent.wait_event("registered", count=4)
        self.assertTrue(wait_for(lambda: agent.get("/readyz")[0] == 200))
        self.assertEqual(agent.metric("gputopo_registrations_total"), 4)
        kubelet.stop(leave_socket=False)
        self.assertTrue(wait_for(lambda: agent.get("/readyz")[0] == 503))
        self.assertIn("kubelet.sock", agent.get("/readyz")[1])

    def test_the_agent_restarts(self):
        kubelet, agent = self.start_recorded()
        mine, = kubelet.admit("mine", 4)
        self.assertEqual(agent.stop()[0], 0)
        self.assertTrue(kubelet.wait(lambda: not kubelet.healthy()))
        again = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait_healthy(8), again.lines)
        other, = kubelet.admit("other", 4)
        self.assertFalse(set(mine) & set(other))

    def test_descriptors_do_not_grow(self):
        kubelet, agent = self.start_recorded()
        for i in range(3):
            kubelet.restart()
            self.assertTrue(kubelet.wait_healthy(8))
        wait_for(lambda: agent.get("/readyz")[0] == 200)
        before = agent.metric("process_open_fds")
        for i in range(15):
            self.record(sick=[i % 8])
            agent.signal(signal.SIGHUP)
            self.assertTrue(kubelet.wait(lambda i=i: uuid(i % 8) not in kubelet.healthy()), i)
            kubelet.restart()
            self.assertTrue(kubelet.wait_healthy(7), i)
        wait_for(lambda: agent.get("/readyz")[0] == 200)
        # A channel to the kubelet that has just gone may linger for a moment.
        self.assertTrue(wait_for(lambda: agent.metric("process_open_fds") <= before + 1),
                        (before, agent.metric("process_open_fds")))

    def test_no_kubelet_yet(self):
        self.record()
        agent = self.start("--from", self.recording)
        agent.wait_event("node discovered")
        status, why = agent.get("/readyz")
        self.assertEqual(status, 503)
        self.assertIn("kubelet.sock does not exist", why)
        self.assertEqual(agent.metric("gputopo_plugin_registered"), 0)
        kubelet = self.kubelet()
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertTrue(wait_for(lambda: agent.get("/readyz")[0] == 200))

    def test_registration_refused(self):
        self.record()
        kubelet = self.kubelet(start=False)
        kubelet.refuse = 2
        kubelet.start()
        agent = self.start("--from", self.recording)
        said = agent.wait_event("registration failed")
        self.assertIn("refused by the test", said["why"])
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual(len(agent.events("registration failed")), 1, "the same reason is said once")
        self.assertEqual(agent.metric("gputopo_registration_failures_total"), 2)

    def test_without_the_device_plugin(self):
        self.record()
        kubelet = self.kubelet()
        agent = self.start("--from", self.recording, "--no-device-plugin")
        agent.wait_event("node discovered")
        self.assertEqual(agent.get("/readyz"), (200, "ok, without the device plugin\n"))
        self.assertIsNone(agent.metric("gputopo_registrations_total"))
        self.assertEqual(kubelet.registrations, [])
        self.assertEqual(agent.stop()[0], 0)

    def test_nodes_with_nothing_to_advertise(self):
        self.record(gpus=0)
        kubelet = self.kubelet()
        agent = self.start("--from", self.recording)
        agent.wait_event("this node has no GPU, nothing to advertise")
        status, why = agent.get("/readyz")
        self.assertEqual((status, "no GPU" in why), (200, True))
        self.record(mode="sgpu")
        agent.signal(signal.SIGHUP)
        said = agent.wait_event("node is not advertised")
        status, why = agent.get("/readyz")
        self.assertEqual((status, why.strip()), (200, "ok: " + said["why"]))
        self.assertEqual(kubelet.registrations, [])
        self.record()
        agent.signal(signal.SIGHUP)
        agent.wait_event("node is advertised again")
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual(len(agent.events("this node has no GPU, nothing to advertise")), 1)

    def test_virtual_functions_stay_what_they_are_while_the_library_is_silent(self):
        def write(answers):
            with open(RECORDED, encoding="utf-8") as file:
                recorded = json.load(file)
            for call in recorded["raw"]["vendor"]["calls"]:
                if call["call"] == "mxSmlGetDeviceInfo":
                    call["value"]["mode"] = 2
            if not answers:
                del recorded["raw"]["vendor"]
            with open(self.recording + ".new", "w", encoding="utf-8") as file:
                json.dump(recorded, file)
            os.rename(self.recording + ".new", self.recording)
        write(True)
        kubelet = self.kubelet()
        agent = self.start("--from", self.recording)
        agent.wait_event("node is not advertised")
        write(False)
        agent.signal(signal.SIGHUP)
        agent.wait_event("cannot read")
        self.assertEqual(agent.events("node is advertised again"), [])
        write(True)
        agent.signal(signal.SIGHUP)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_scans_total", result="done") == 3))
        self.assertEqual(kubelet.registrations, [])
        self.assertEqual(len(agent.events("node is not advertised")), 1)

    def test_a_socket_path_that_is_too_long(self):
        """For our socket, while the kubelet's own just fits."""
        self.record()
        room = 107 - len(f"{self.directory}//device-plugins/kubelet.sock")
        kubelet = KubeletDouble(os.path.join(self.directory, "k" * room))
        kubelet.start()
        self.addCleanup(kubelet.stop, leave_socket=False)
        agent = self.start("--from", self.recording, "--kubelet-dir", kubelet.root)
        agent.wait_event("registration failed")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_registration_failures_total") >= 5), agent.lines)
        said = agent.events("registration failed")
        self.assertEqual(len(said), 1, "the same reason is said once")
        self.assertIn("at most 107 bytes", said[0]["why"])

    def test_a_missing_device_node_refuses_the_pod(self):
        kubelet, agent = self.start_recorded()
        os.unlink(os.path.join(self.dev, "mxcd"))
        with self.assertRaises(AdmissionError):
            kubelet.admit("one", 1)
        self.assertIn("mxcd", agent.wait_event("allocation refused")["why"])
        self.assertEqual(agent.metric("gputopo_allocation_errors_total"), 1)


class Flooded(Case):
    def test_silent_sockets_keep_nobody_out(self):
        """2,000 on each port in turn: both answer in time for a probe."""
        health = free_port()
        _, agent = self.start_recorded("--health", f"127.0.0.1:{health}")
        for flooded in (health, agent.port):
            with SilentSockets(flooded) as silent:
                end = time.monotonic() + 2
                while time.monotonic() < end or silent.closed < 500:
                    for port in (health, agent.port):
                        status, seconds = look(port, "/healthz")
                        self.assertEqual(status, 200, (flooded, port))
                        self.assertLess(seconds, PROBE_S, (flooded, port))
                    time.sleep(0.05)
        self.assertEqual(look(health, "/readyz")[0], 200)
        self.assertEqual(look(health, "/metrics")[0], 404)


@unittest.skipUnless(stopped_thread.possible(), "needs ptrace of a child")
class AHandlerHangs(Case):
    """The kubelet's Allocate waits for a file of the host for ever, as it does for a disk or a driver that hangs."""

    def setUp(self):
        super().setUp()
        self.kubelet_double, self.agent = self.start_recorded()
        plugin = self.kubelet_double.plugin
        self.stopped = stopped_thread.StoppedThread(self.agent.process.pid, "gputopo-rpc")
        self.addCleanup(self.stopped.release)
        self.call = plugin.stub.Allocate.future(pb.AllocateRequest(
            container_requests=[pb.ContainerAllocateRequest(devices_ids=[uuid(0)])]))
        self.stopped.at_a_file()

    def ends(self, expected=0):
        self.stopped.bury()
        code, seconds = self.agent.stop()
        self.assertEqual(code, expected)
        self.assertLess(seconds, 2 + SLOW)
        self.assertEqual(self.agent.events("something hangs, leaving without it")[0]["level"], "warning")

    def test_healthz_says_so_and_sigterm_ends_it(self):
        self.assertEqual(self.agent.get("/healthz"), (200, "ok\n"), "a call may take a moment")
        self.assertTrue(wait_for(lambda: self.agent.get("/healthz")[0] == 503))
        self.assertRegex(self.agent.get("/healthz")[1], r"^a call of the kubelet has been worked on for [1-9][0-9]+ s$")
        self.ends()

    def test_it_comes_back(self):
        self.assertTrue(wait_for(lambda: self.agent.get("/healthz")[0] == 503))
        self.stopped.release()
        self.assertEqual(len(self.call.result(PATIENCE).container_responses), 1)
        self.assertTrue(wait_for(lambda: self.agent.get("/healthz") == (200, "ok\n")), "the thread is done a moment after its answer")
        self.assertEqual(self.agent.stop()[0], 0)
        self.assertEqual(self.agent.events("something hangs, leaving without it"), [])

    def test_the_kubelet_restarts_meanwhile(self):
        kubelet = self.kubelet_double
        before = len(kubelet.registrations)
        kubelet.replace_socket().stop(None)
        self.stopped.release()
        self.assertTrue(kubelet.wait(lambda: len(kubelet.registrations) > before))
        self.assertTrue(kubelet.wait_healthy(8))
        self.assertEqual(len(kubelet.admit("all", 8)[0]), 8)

    def test_sigterm_ends_it_where_the_loop_hangs_too(self):
        """The kubelet restarts meanwhile: the loop waits for the end of the old server, and that for the handler."""
        self.kubelet_double.replace_socket().stop(None)
        self.assertTrue(wait_for(self.hangs), "the loop no longer answers")
        self.ends(1)

    def hangs(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.agent.port, timeout=1)
        try:
            connection.request("GET", "/healthz")
            connection.getresponse()
            return False
        except TimeoutError:
            return True
        finally:
            connection.close()


class WhoUsesWhat(Case):
    """The agent reads the kubelet's pod-resources API. Its answers settle for ten seconds after a start."""

    def owners(self, agent):
        return {int(labels["gpu"]): (labels["namespace"], labels["pod"], labels["container"])
                for (name, key), value in agent.metrics().items() if name == "gputopo_gpu_used" and value == 1
                for labels in [dict(key)]}

    def usage(self, agent):
        status, text = agent.get("/usage")
        self.assertEqual(status, 200)
        return json.loads(text)

    def start_known(self, *arguments, **what):
        kubelet, agent = self.start_recorded(*arguments, **what)
        self.wait_known(agent)
        return kubelet, agent

    def wait_known(self, agent):
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_usage_known") == 1), agent.lines)

    def wait_used(self, agent, count, seconds=PATIENCE):
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_gpus_in_use") == count, seconds),
                        (self.usage(agent), agent.lines))

    def test_scores_beside_the_best(self):
        """A mesh of four is the best; two that the kubelet took for their NUMA nodes are not; one has no score."""
        kubelet, agent = self.start_known()

        def scores():
            return [agent.metric(f"gputopo_allocation_{name}_total") for name in ("score", "best_score")]

        self.assertEqual(scores(), [0, 0])
        kubelet.admit("four", 4)
        self.assertTrue(wait_for(lambda: scores()[0] > 0))
        mesh, best = scores()
        self.assertEqual(mesh, best)
        self.wait_used(agent, 4)
        kubelet.release("four")
        self.wait_used(agent, 0)
        kubelet.admit("far", 2, aligned=[uuid(0), uuid(4)])  # and we are not asked
        pair = mesh / 6  # of the four's six pairs
        self.assertTrue(wait_for(lambda: scores()[1] > best))
        given, best = scores()
        self.assertEqual(best, mesh + pair)
        self.assertLess(given, mesh + pair)
        far = given - mesh
        kubelet.admit("one", 1)
        kubelet.admit("two", 2)  # at once: what has just been given away is not free, though no list says so yet
        self.assertTrue(wait_for(lambda: scores()[0] > given))
        self.assertEqual(scores(), [mesh + far + pair, best + pair])

    def test_owners_come_and_go(self):
        born = time.monotonic()
        kubelet, agent = self.start_recorded()
        known, used = self.usage(agent)["known"], agent.metric("gputopo_gpus_in_use")
        if time.monotonic() - born < 9:  # else it is believed by now
            self.assertEqual((known, used), (False, None), "an empty answer of a new kubelet is not believed")
        kubelet.admit("four", 4)
        self.wait_known(agent)
        self.wait_used(agent, 4)
        lists = len(kubelet.book.lists())
        self.assertTrue(wait_for(lambda: len(kubelet.book.lists()) > lists))
        lists = len(kubelet.book.lists())
        kubelet.admit("pair", 1, 2)
        self.wait_used(agent, 7)
        self.assertLess(kubelet.book.lists()[lists][0] - kubelet.book.lists()[lists - 1][0], 4.9,
                        "an allocation is listed at once, not after the five seconds between two lists")
        held = {i: ("default", pod, f"c{number}") for pod, containers in kubelet.pods.items()
                for number, ids in enumerate(containers) for i in map(kubelet.order.index, ids)}
        self.assertEqual(self.owners(agent), held)
        usage = self.usage(agent)
        self.assertEqual((usage["node"], usage["known"], usage["stale"]), ("n1", True, False))
        self.assertEqual(usage["free"], sorted(set(range(8)) - set(held)))
        self.assertEqual({one["gpu"]: (one["namespace"], one["pod"], one["container"]) for one in usage["used"]}, held)
        self.assertEqual({one["id"] for one in usage["used"]}, kubelet.used())
        self.assertEqual((usage["twice"], usage["strangers"]), ([], []))
        self.assertLess(abs(usage["asked"] - time.time()), 60)
        kubelet.release("four")
        self.wait_used(agent, 3)
        self.assertEqual(agent.wait_event("GPUs freed")["pod"], "four")
        self.assertGreater(self.usage(agent)["generation"], usage["generation"])
        before, begin = len(kubelet.book.lists()), time.monotonic()
        time.sleep(10.5)
        self.assertLessEqual(len(kubelet.book.lists()) - before, (time.monotonic() - begin) // 5 + 1,
                             "every five seconds is enough")
        self.record(sick=[i for i in range(8) if i not in held][:1])
        agent.signal(signal.SIGHUP)
        self.assertTrue(wait_for(lambda: len(self.usage(agent)["free"]) == 4), "an unhealthy GPU is not free")
        self.assertEqual(agent.stop()[0], 0)

    def test_never_while_an_allocation_runs(self):
        kubelet, agent = self.start_known()
        for i in range(60):
            kubelet.admit(f"pod{i}", 1 + i % 3)
            kubelet.release(f"pod{i}")
            time.sleep(0.05)
        self.assertEqual(kubelet.book.untimely, 0)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_gpus_in_use") == 0))
        self.assertEqual(agent.metric("gputopo_podresources_lists_total", result="limited"), 0)

    def test_a_kubelet_restart_frees_nothing(self):
        kubelet, agent = self.start_recorded()
        kubelet.admit("mine", 4)
        self.wait_known(agent)
        self.wait_used(agent, 4)
        kubelet.book.empty_for = 3.0
        kubelet.restart()
        end = time.monotonic() + 6
        while time.monotonic() < end:
            self.assertEqual(agent.metric("gputopo_gpus_in_use"), 4)
            time.sleep(0.1)
        self.assertTrue(kubelet.wait_healthy(8))
        kubelet.admit("more", 2)
        self.wait_used(agent, 6)
        kubelet.release("mine")
        self.wait_used(agent, 2)
        self.assertEqual(agent.events("two containers hold one GPU"), [])

    def test_ids_in_use_survive_a_restart_of_the_agent(self):
        kubelet, agent = self.start_recorded()
        kubelet.admit("mine", 3)
        held = kubelet.used()
        self.assertEqual(agent.stop()[0], 0)
        # The vendor library does not answer yet: nobody knows which GPU is which.
        nameless = machine()
        for gpu in nameless["gpus"]:
            gpu["uuid"] = ""
        with open(self.recording, "w", encoding="utf-8") as file:
            json.dump(nameless, file)
        kubelet.book.empty_for = 0.0
        agent = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait(lambda: len(kubelet.order) == 8 + 3), agent.lines)
        self.assertLessEqual(held, set(kubelet.order))
        self.assertEqual(kubelet.healthy(), [], "any of them may be in use")
        self.record()
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertLessEqual(held, set(kubelet.healthy()), "and have their IDs again")
        self.assertEqual(len([name for name in kubelet.healthy() if name.startswith("PCI-")]), 5)
        kubelet.admit("others", 5)
        self.assertEqual(len(kubelet.used()), 8)
        self.wait_known(agent)
        self.wait_used(agent, 8)
        self.assertEqual(self.usage(agent)["twice"], [])

    def test_a_place_id_in_use_stays(self):
        nameless = machine()
        nameless["gpus"][2]["uuid"] = ""
        with open(self.recording, "w", encoding="utf-8") as file:
            json.dump(nameless, file)
        kubelet = self.kubelet()
        agent = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        place, = [name for name in kubelet.order if name.startswith("PCI-")]
        kubelet.admit("all", 8)
        self.assertEqual(agent.stop()[0], 0)
        self.record()
        kubelet.book.empty_for = 0.0
        agent = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertIn(place, kubelet.order)
        self.assertNotIn(uuid(2), kubelet.order)
        self.wait_known(agent)
        self.wait_used(agent, 8)
        self.assertEqual(self.owners(agent)[2], ("default", "all", "c0"))

    def test_an_id_in_use_that_is_learnt_late(self):
        """Kubelet and agent start together: the kubelet's list is empty for a while."""
        nameless = machine()
        nameless["gpus"][2]["uuid"] = ""
        with open(self.recording, "w", encoding="utf-8") as file:
            json.dump(nameless, file)
        kubelet = self.kubelet()
        kubelet.pods["old"] = [["PCI-0000:0e:00.0"], [uuid(2)]]
        kubelet.book.started = time.monotonic()
        kubelet.book.empty_for = 2.0
        agent = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait(lambda: "PCI-0000:0e:00.0" in kubelet.order and uuid(2) in kubelet.order),
                        agent.lines)
        self.assertNotIn("PCI-0000:10:00.0", kubelet.healthy(), "it may be the one in use")
        self.assertEqual(agent.metric("gputopo_scans_total", result="done"), 1, "that needs no scan")
        self.assertTrue(kubelet.wait(lambda: "PCI-0000:0e:00.0" in kubelet.healthy()), agent.lines)
        self.assertFalse(kubelet.devices[uuid(0)][0], "the same GPU is not offered by another ID")

    def test_told_to_scan_before_the_kubelet_has_answered(self):
        """Kubelets answer slowly when a node starts, and drivers are loaded then."""
        nameless = machine()
        nameless["gpus"][2]["uuid"] = ""
        with open(self.recording, "w", encoding="utf-8") as file:
            json.dump(nameless, file)
        kubelet = self.kubelet()
        kubelet.pods["old"] = [[uuid(2)]]
        kubelet.book.empty_for = 0.0
        kubelet.book.hang = 1.5
        agent = self.start("--from", self.recording)
        self.assertTrue(wait_for(lambda: kubelet.book.calls), agent.lines)
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        self.assertIn(uuid(2), kubelet.lists[0], "the container has it by that ID")
        self.assertNotIn(True, [sent.get("PCI-0000:10:00.0") for sent in kubelet.lists], "it is not offered by another")
        agent.wait_event("scanning again as asked")

    def test_no_socket_and_then_one(self):
        self.record()
        kubelet = self.kubelet(start=False)
        kubelet.book.serves = False
        kubelet.start()
        agent = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait_healthy(8), "the GPUs are served all the same")
        why = agent.wait_event("cannot ask the kubelet who uses the GPUs")["why"]
        self.assertIn("pod-resources/kubelet.sock", why)
        self.assertEqual(self.usage(agent)["known"], False)
        kubelet.book.serves = True
        kubelet.book.start()
        agent.wait_event("the kubelet says again who uses the GPUs")
        self.wait_known(agent)
        self.assertEqual(len(agent.events("cannot ask the kubelet who uses the GPUs")), 1)

    def test_without_the_device_plugin(self):
        self.record()
        kubelet = self.kubelet()
        kubelet.book.extra = [("ns", "pod", "c", "metax-tech.com/gpu", [uuid(3)]),
                              ("ns", "pod", "c", "other.example/gpu", [uuid(4)])]
        agent = self.start("--from", self.recording, "--no-device-plugin")
        agent.wait_event("node discovered")
        self.wait_known(agent)
        self.assertEqual(self.owners(agent), {3: ("ns", "pod", "c")})
        self.assertEqual(agent.stop()[0], 0)

    def test_strange_and_double_owners(self):
        kubelet, agent = self.start_known()
        kubelet.admit("mine", 1)
        mine, = kubelet.used()
        kubelet.book.extra = [("other", "thief", "c", "metax-tech.com/gpu", [mine]),
                              ("other", "guest", "c", "metax-tech.com/gpu", ["no-such-gpu", "bad id", ""])]
        said = agent.wait_event("two containers hold one GPU")
        self.assertEqual(said["level"], "warning")
        self.assertEqual(said["id"], mine)
        self.assertEqual(agent.metric("gputopo_gpus_owned_twice"), 1)
        self.assertEqual(agent.metric("gputopo_gpus_in_use"), 1)
        self.assertEqual(agent.metric("gputopo_unknown_devices_in_use"), 3)
        self.assertEqual({one["id"] for one in self.usage(agent)["strangers"]}, {"no-such-gpu", "bad id", ""})
        self.assertTrue(kubelet.wait(lambda: "no-such-gpu" in kubelet.order), "it does not leave the list")
        self.assertEqual(len(kubelet.healthy()), 8)
        kubelet.book.extra = []
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_gpus_owned_twice") == 0))
        self.assertEqual(agent.metric("gputopo_unknown_devices_in_use"), 0)
        self.assertEqual(len(agent.events("two containers hold one GPU")), 1)

    def test_errors_change_nothing(self):
        kubelet, agent = self.start_known()
        kubelet.admit("mine", 2)
        self.wait_used(agent, 2)
        kubelet.book.unavailable = True
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_podresources_lists_total", result="failed") >= 2))
        self.assertEqual(agent.metric("gputopo_gpus_in_use"), 2)
        kubelet.book.unavailable = False
        agent.wait_event("the kubelet says again who uses the GPUs")
        # somebody else takes the whole rate
        kubelet.book.limit = kubelet.book.tokens = 0.0
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_podresources_lists_total", result="limited") >= 1))
        kubelet.admit("more", 2)
        calls = len(kubelet.book.lists())
        self.assertTrue(wait_for(lambda: len(kubelet.book.lists()) > calls))
        self.assertGreater(kubelet.book.lists()[calls][0] - kubelet.book.lists()[calls - 1][0], 3.7,
                           "whoever was told to wait waits, five seconds less a quarter at most")
        kubelet.book.limit = 100.0
        self.wait_used(agent, 4)

    def test_large_answers(self):
        kubelet, agent = self.start_known()
        kubelet.book.padding = 10 << 20
        kubelet.admit("mine", 2)
        self.wait_used(agent, 2)
        kubelet.book.padding = 20 << 20
        kubelet.admit("more", 2)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_podresources_lists_total", result="limited") >= 1))
        self.assertEqual(agent.metric("gputopo_gpus_in_use"), 2)
        self.assertEqual(agent.get("/healthz")[0], 200)
        kubelet.book.padding = 0
        self.wait_used(agent, 4)

    def test_a_kubelet_that_hangs(self):
        self.record()
        kubelet = self.kubelet()
        kubelet.book.hang = 1000.0
        agent = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        registered = agent.wait_event("registered")
        failed = agent.wait_event("cannot ask the kubelet who uses the GPUs")
        self.assertIn("DEADLINE_EXCEEDED", failed["why"])
        self.assertLess(agent.lines.index(registered), agent.lines.index(failed), "the GPUs do not wait for it")
        calls = len(kubelet.book.calls)
        self.assertTrue(wait_for(lambda: len(kubelet.book.calls) > calls))
        code, seconds = agent.stop()
        self.assertEqual(code, 0, agent.lines)
        self.assertLess(seconds, 9, "nor does the end, for the ten seconds that it is waited for")


SHARES = "metax-tech.com/sgpu"


class BesideSharedGpus(Case):
    """The vendor's plugin serves the GPUs as shares: the kubelet says so. (The Node's annotation: test_publish.py)"""

    def test_whole_gpus_are_withdrawn_and_come_back(self):
        kubelet, agent = self.start_recorded()
        mine, = kubelet.admit("mine", 2)
        kubelet.book.elsewhere = {SHARES: [f"{uuid(0)}-{i}" for i in range(4)]}
        self.assertTrue(kubelet.wait(lambda: not kubelet.healthy()), agent.lines)
        self.assertEqual(len(kubelet.order), 8, "what was served stays in the list")
        said = agent.wait_event("the GPUs are left to the vendor's plugin, which shares them")
        self.assertEqual((said["level"], said["why"]), ("warning", "the kubelet offers 4 metax-tech.com/sgpu"))
        self.assertIn("sGPU", agent.wait_event("node is not advertised")["why"])
        with self.assertRaises(AdmissionError):
            kubelet.admit("late", 1)
        # The vendor's plugin starts again: nothing is offered meanwhile, but a container holds a share.
        kubelet.book.extra = [("ns", "sharer", "c", SHARES, [f"{uuid(0)}-1"])]
        kubelet.book.elsewhere = {}
        calls = len(kubelet.book.calls)
        self.assertTrue(wait_for(lambda: len(kubelet.book.calls) >= calls + 4), agent.lines)
        self.assertEqual(kubelet.healthy(), [])
        kubelet.book.extra = []
        gone = time.monotonic()
        self.assertTrue(kubelet.wait_healthy(8, 2 * PATIENCE), agent.lines)
        self.assertGreater(time.monotonic() - gone, 45, "it is believed after a while only")
        agent.wait_event("node is advertised again")
        self.assertEqual(kubelet.pods["mine"], [mine])
        self.assertEqual(len(agent.events("node is not advertised")), 1)

    def test_never_offered_where_shares_are(self):
        self.record()
        kubelet = self.kubelet()
        kubelet.book.elsewhere = {SHARES: ["a-share"]}
        agent = self.start("--from", self.recording)
        agent.wait_event("node is not advertised")
        self.assertTrue(wait_for(lambda: "sGPU" in agent.get("/readyz")[1]))
        self.assertEqual(agent.get("/readyz")[0], 200)
        self.assertEqual(kubelet.registrations, [])


class Starting(Case):
    def run_agent(self, *arguments):
        done = subprocess.run([AGENT, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    def assert_fails(self, code, part, *arguments):
        got, out, err = self.run_agent(*arguments)
        self.assertEqual((got, out), (code, ""), err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertTrue(err.startswith("gputopo-agent: "), err)
        self.assertIn(part, err)

    def test_wrong_usage(self):
        self.assert_fails(2, "--nonsense", "--nonsense")
        self.assert_fails(2, "--vendor", "--vendor", "xyz")
        self.assert_fails(2, "word", "word")
        self.assert_fails(2, "--from", "--from")
        self.assert_fails(2, "--log-level", "--log-level=loud")

    def test_failures_at_start(self):
        quiet = ["--http", "none", "--kubelet-dir", self.directory]
        self.assert_fails(1, "absent.json", "--from", self.directory + "/absent.json", *quiet)
        with open(self.recording, "w", encoding="utf-8") as file:
            file.write('{"gpus": [}')
        self.assert_fails(1, "node.json", "--from", self.recording, *quiet)
        self.assert_fails(1, "node.json", "--from", self.recording, "--oneshot")
        self.assert_fails(1, "/absent", "--root", self.directory + "/absent", "--probe", "none", *quiet)
        self.assert_fails(1, "/absent", "--probe", self.directory + "/absent", *quiet)
        self.assert_fails(2, "--http", "--http", "nowhere", "--from", self.recording)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            self.assert_fails(1, address, "--http", address, "--from", self.recording)

    def test_oneshot(self):
        self.record(sick=[1])
        code, out, err = self.run_agent("--from", self.recording, "--oneshot", "--node-name", "n1")
        self.assertEqual((code, err), (0, ""))
        node = json.loads(out)
        self.assertEqual(node["name"], "n1")
        self.assertEqual([gpu["healthy"] for gpu in node["gpus"]], [i != 1 for i in range(8)])

    def test_recording_of_another_maker(self):
        """Without --vendor the recording knows whose GPUs it was made for."""
        pci = {"vendor": "10de", "read": True, "missing": [],
               "devices": [{"bdf": "0000:01:00.0", "vendor": "10de", "device": "1db8", "class": "0302"}]}
        with open(self.recording, "w", encoding="utf-8") as file:
            json.dump({"gputopoRecording": 1, "node": {"gpus": []}, "raw": {"pci": pci}}, file)
        for options, gpus in ((), 1), (("--vendor", "10de"), 1), (("--vendor", "9999"), 0):
            code, out, err = self.run_agent("--from", self.recording, "--oneshot", *options)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(len(json.loads(out)["gpus"]), gpus, options)

    def test_oneshot_to_a_full_disk(self):
        self.record()
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([AGENT, "--from", self.recording, "--oneshot"], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_help_and_version(self):
        code, out, err = self.run_agent("--help")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("--kubelet-dir DIR", out)
        code, out, err = self.run_agent("--version")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^gputopo-agent \d+\.\d+\.\d+ \(.+\)\n$")

    def test_node_name_from_the_environment(self):
        self.record()
        done = subprocess.run([AGENT, "--from", self.recording, "--oneshot"], capture_output=True, text=True,
                              timeout=60, check=True, env={**os.environ, "NODE_NAME": "from-env"})
        self.assertEqual(json.loads(done.stdout)["name"], "from-env")


class FewDescriptors(Case):
    """Limits of open files, as a container runtime or a unit may set them, for each of the daemons."""

    @staticmethod
    def limited(soft, hard):
        return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_too_few_is_said_in_one_line(self):
        self.record()
        self.kubelet()
        commands = {"gputopo-agent": ["--from", self.recording, "--kubelet-dir", self.directory, "--http", "none"],
                    "gputopo-probe": ["--socket", os.path.join(self.directory, "probe.sock")],
                    "gputopo-scheduler": ["--kubeconfig", os.path.join(self.directory, "config")]}
        for program, options in commands.items():
            for limit in (16, 20, 24, 28, 32, 40):
                with self.subTest(program=program, limit=limit):
                    done = subprocess.run([os.path.join(PROGRAMS, program), *options], stdin=subprocess.DEVNULL,
                                          capture_output=True, text=True, timeout=PATIENCE, check=False,
                                          preexec_fn=self.limited(limit, limit))
                    self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                    self.assertRegex(done.stderr, f"^{program}: the limit of open files .* is {limit}, "
                                                  r"at least \d+ are needed\n$")

    def test_a_soft_limit_is_raised(self):
        self.record()
        kubelet = self.kubelet()
        agent = Agent("--from", self.recording, "--dev-root", self.dev, "--kubelet-dir", self.directory,
                      wrapper=["sh", "-c", 'ulimit -S -n 16; ulimit -H -n 128; exec "$@"', "sh"])
        self.addCleanup(agent.stop)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        kubelet.admit("four", 4)
        self.assertTrue(wait_for(lambda: agent.get("/readyz")[0] == 200), "128 are enough")


class WithAProbe(Case):
    def silent_probe(self):
        return self.script("silent-probe", SILENT_PROBE)

    def empty_root(self):
        root = os.path.join(self.directory, "root")
        os.makedirs(os.path.join(root, "sys/bus/pci/devices"))
        return root

    def test_sigterm_while_a_scan_hangs(self):
        agent = self.start("--root", self.empty_root(), "--probe", self.silent_probe())
        self.assertTrue(wait_for(lambda: children(agent.process.pid)), agent.lines)
        probe = children(agent.process.pid)[0][0]
        self.assertEqual(agent.get("/healthz")[0], 200)
        status, why = agent.get("/readyz")
        self.assertEqual((status, "first scan" in why), (503, True))
        code, seconds = agent.stop()
        self.assertEqual(code, 0)
        self.assertLess(seconds, 15)
        self.assertTrue(wait_for(lambda: not os.path.exists(f"/proc/{probe}")), "the probe ends with the agent")

    def test_a_probe_that_ends_at_once(self):
        agent = self.start("--root", self.empty_root(), "--probe", "/bin/false")
        agent.wait_event("node discovered")
        agent.wait_event("cannot read")
        for _ in range(2):
            done = agent.metric("gputopo_scans_total", result="done")
            agent.signal(signal.SIGHUP)
            self.assertTrue(wait_for(lambda done=done: agent.metric("gputopo_scans_total", result="done") > done))
        self.assertGreaterEqual(agent.metric("gputopo_probe_failures_total"), 3)
        self.assertEqual([state for _, state in children(agent.process.pid) if state == "Z"], [])
        self.assertEqual(agent.stop()[0], 0)

    def test_a_socket_that_is_not_there_yet(self):
        started = time.monotonic()
        agent = self.start("--root", self.empty_root(), "--probe", os.path.join(self.directory, "later.sock"))
        self.assertTrue(wait_for(
            lambda: [line for line in agent.events("cannot read") if "later.sock" in line["why"]]), agent.lines)
        self.assertGreater(time.monotonic() - started, 4, "it gives the probe's container time to start")
        self.assertEqual(agent.stop()[0], 0)

    def test_health_checks_go_on(self):
        agent = self.start("--root", self.empty_root(), "--probe", "/bin/false", "--health-interval", "1")
        agent.wait_event("node discovered")
        self.assertTrue(wait_for(lambda: (agent.metric("gputopo_health_checks_total") or 0) >= 2), agent.lines)
        self.assertEqual(agent.stop()[0], 0)


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


class WithTheVendorLibrary(MadeMachine):
    def set_sick(self, *numbers):
        devices = json.loads(json.dumps(self.vendor["devices"]))
        for i in numbers:
            devices[i]["state"] = 0
            devices[i]["unavailableReason"] = {"code": 3, "text": "fell off the bus"}
        self.write_scenario(devices=devices)

    def test_health_is_found_and_debounced(self):
        kubelet, agent = self.start_node("--health-interval", "1")
        self.assertEqual(kubelet.order, self.ids)
        self.assertEqual(agent.metric("gputopo_links", kind="MX", state="up"), agent.wait_event(
            "node discovered")["direct_links"])
        # Nothing changes: the library is asked, but no scan follows.
        done = agent.metric("gputopo_scans_total", result="done")
        checks = agent.metric("gputopo_health_checks_total")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_health_checks_total") >= checks + 3))
        self.assertEqual(agent.metric("gputopo_scans_total", result="done"), done)
        self.set_sick(3)
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        self.assertIn("fell off the bus", agent.wait_event("GPU unhealthy")["why"])
        begin = time.monotonic()
        self.set_sick()
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertGreater(time.monotonic() - begin, 0.9, "three looks have to agree")
        self.assertEqual(agent.metric("gputopo_probe_failures_total"), 0)

    def test_temperature_is_no_news(self):
        _, agent = self.start_node("--health-interval", "1")
        done = agent.metric("gputopo_scans_total", result="done")
        for i in range(3):
            devices = json.loads(json.dumps(self.vendor["devices"]))
            devices[0]["temperature"] = 4000 + i
            self.write_scenario(devices=devices)
            checks = agent.metric("gputopo_health_checks_total")
            self.assertTrue(wait_for(lambda checks=checks: agent.metric("gputopo_health_checks_total") > checks + 1))
        self.assertEqual(agent.metric("gputopo_scans_total", result="done"), done)

    def test_a_library_that_crashes_is_no_recovery(self):
        kubelet, agent = self.start_node("--health-interval", "1")
        self.set_sick(0)
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        self.write_scenario(faults=[{"call": "mxSmlGetDeviceInfo", "do": "crash"}])
        agent.wait_event("cannot read")
        checks = agent.metric("gputopo_health_checks_total")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_health_checks_total") >= checks + 2))
        self.assertEqual(len(kubelet.healthy()), 7, agent.lines)
        self.assertEqual(kubelet.order, self.ids, "and every GPU keeps its ID")
        self.assertGreater(agent.metric("gputopo_probe_restarts_total"), 0)
        self.write_scenario()
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual([state for _, state in children(agent.process.pid) if state == "Z"], [])

    def test_an_event_scans_at_once(self):
        self.write_scenario(events=[{"afterMs": 3000, "dev": 0, "type": 1, "data": "x"}])
        _, agent = self.start_node("--health-interval", "0", "--rescan-interval", "0")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_vendor_events_total") >= 1), agent.lines)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_scans_total", result="done") >= 2))

    def test_sigterm_while_the_library_hangs(self):
        self.write_scenario(faults=[{"call": "mxSmlInit", "do": "hang"}])
        patient = self.script("patient-probe", f"#!/bin/sh\nexec '{PROGRAMS}/gputopo-probe' --call-timeout 600000 "
                                               "--scan-timeout 600000 \"$@\"\n")
        agent = self.start("--root", self.root, "--probe", patient, env={"GPUTOPO_FAKE_MXSML": self.scenario})
        self.assertTrue(wait_for(lambda: children(agent.process.pid)), agent.lines)
        probes = [pid for pid, _ in children(agent.process.pid)]
        workers = lambda: [pid for probe in probes for pid, _ in children(probe)]  # noqa: E731
        self.assertTrue(wait_for(workers))
        everyone = probes + workers()
        code, seconds = agent.stop()
        self.assertEqual(code, 0)
        self.assertLess(seconds, 15)
        self.assertTrue(wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in everyone)))

    def test_gpus_do_not_wait_for_a_slow_library(self):
        kubelet = self.kubelet()
        self.write_scenario(faults=[{"call": "mxSmlGetDeviceCount", "do": "slow", "ms": 10000, "times": 1}])
        patient = self.script("patient-probe", f"#!/bin/sh\nexec '{PROGRAMS}/gputopo-probe' --call-timeout 600000 "
                                               "--scan-timeout 600000 \"$@\"\n")
        agent = self.start("--root", self.root, "--probe", patient, env={"GPUTOPO_FAKE_MXSML": self.scenario})
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual(agent.metric("gputopo_links", kind="MX", state="up"), 0, "as PCI shows it")
        self.assertTrue(wait_for(lambda: agent.get("/readyz")[0] == 200), agent.lines)
        early, = kubelet.admit("early", 2)
        freed, = kubelet.admit("freed", 1)
        kubelet.release("freed")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_links", kind="MX", state="up") == 12), agent.lines)
        self.assertEqual(agent.metric("gputopo_probe_failures_total"), 0, "the scan that was begun is waited for")
        self.assertEqual(len(kubelet.healthy()), 8)
        # An ID that was given stays; the other GPUs get their UUID when the kubelet's word is believed.
        self.assertTrue(kubelet.wait(lambda: len(set(self.ids) & set(kubelet.healthy())) == 5), agent.lines)
        self.assertEqual(len(kubelet.healthy()), 8)
        self.assertLessEqual(set(early + freed), set(kubelet.healthy()))
        agent.wait_event("GPU gets its UUID as ID", count=5)
        kubelet.admit("later", 6)
        self.assertEqual(len(kubelet.used()), 8)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_gpus_in_use") == 8), agent.lines)
        self.assertEqual(agent.metric("gputopo_gpus", health="lost"), 0)
        self.assertEqual((agent.events("GPU lost"), agent.events("two containers hold one GPU")), ([], []))

    def test_links_stay_while_the_library_is_away(self):
        kubelet, agent = self.start_node("--health-interval", "1", "--stale-links", "15")
        library = os.path.join(self.root, "opt/mxdriver/lib/libmxsml.so")
        up = {"kind": "MX", "state": "up"}
        self.assertEqual((agent.metric("gputopo_links", **up), agent.metric("gputopo_links_stale")), (12, 0))
        away = time.monotonic()
        os.rename(library, library + ".away")  # the driver is upgraded
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_links_stale") == 12), agent.lines)
        self.assertEqual(agent.metric("gputopo_links", **up), 12, "what was known stays")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_links_stale_seconds") > 1))
        four, = kubelet.admit("four", 4)
        self.assertEqual(len({kubelet.order.index(i) // 4 for i in four}), 1, "and is what GPUs are chosen by")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_links", **up) == 0), "for a time, not for ever")
        self.assertGreater(time.monotonic() - away, 12)
        self.assertEqual((agent.metric("gputopo_links_stale"), agent.metric("gputopo_links_stale_seconds")), (0, 0))
        os.rename(library + ".away", library)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_links", **up) == 12), agent.lines)
        os.rename(library, library + ".away")  # the driver is upgraded
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_links_stale") == 12), agent.lines)
        os.rename(library + ".away", library)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_links_stale") == 0), agent.lines)
        self.assertEqual(agent.metric("gputopo_links", **up), 12)

    def test_gpus_do_not_wait_for_a_silent_probe(self):
        kubelet = self.kubelet()
        agent = self.start("--root", self.root, "--probe", self.script("silent-probe", SILENT_PROBE))
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual(agent.metric("gputopo_probe_failures_total"), 0, "it has not been given up")


RESOURCE = "example.com/gpu-probe"


class TheProbesResource(MadeMachine):
    """--probe-resource: one device that brings the device nodes of all GPUs, for a probe in a pod of its own."""

    def setUp(self):
        super().setUp()
        self.socket = os.path.join(self.directory, "probe.sock")

    def start_with_resource(self, kubelet, *arguments):
        agent = self.start("--root", self.root, "--probe", self.socket, "--probe-resource", RESOURCE, *arguments)
        self.assertTrue(kubelet.wait(lambda: RESOURCE in kubelet.seconds and kubelet.seconds[RESOURCE].devices),
                        agent.lines)
        return agent

    def start_probe(self):
        probe = subprocess.Popen([os.path.join(PROGRAMS, "gputopo-probe"), "--socket", self.socket, "--root", self.root],
                                 stdin=subprocess.DEVNULL, env={**os.environ, "GPUTOPO_FAKE_MXSML": self.scenario})
        self.addCleanup(probe.wait)
        self.addCleanup(probe.terminate)
        return probe

    def nodes_of(self, kubelet):
        response = kubelet.admit_second(RESOURCE)
        self.assertEqual((len(response.envs), len(response.mounts)), (0, 0))
        for device in response.devices:
            self.assertEqual((device.host_path, device.permissions),
                             (self.dev + device.container_path.removeprefix("/dev"), "rw"))
        return {device.container_path for device in response.devices}

    def all_nodes(self):
        agent = subprocess.run([AGENT, "--root", self.root, "--probe", "none", "--oneshot"], capture_output=True,
                               text=True, check=True)
        gpus = json.loads(agent.stdout)["gpus"]
        return {"/dev/mxcd", *(f"/dev/dri/card{gpu['drm']['card']}" for gpu in gpus),
                *(f"/dev/dri/renderD{gpu['drm']['render']}" for gpu in gpus)}

    def test_the_probe_comes_by_its_resource(self):
        """As in a cluster: the agent waits for a probe that cannot start before it has the agent's device."""
        kubelet = self.kubelet()
        agent = self.start_with_resource(kubelet, "--probe-patience", "60")
        self.assertEqual(kubelet.order, [], "no GPU is served before the probe has said which it is")
        nodes = self.all_nodes()
        self.assertEqual(len(nodes), 17)
        self.assertEqual(self.nodes_of(kubelet), nodes)
        self.start_probe()
        self.assertTrue(kubelet.wait_healthy(8, 30), agent.lines)
        self.assertEqual(kubelet.order, self.ids)
        self.assertEqual(agent.metric("gputopo_probe_resource_registered"), 1)
        given = agent.wait_event("device nodes given")
        self.assertEqual((given["nodes"], given["resource"]), (17, RESOURCE))
        os.unlink(os.path.join(self.dev, "dri", os.path.basename(max(nodes - {"/dev/mxcd"}))))
        self.assertEqual(self.nodes_of(kubelet), nodes - {max(nodes - {"/dev/mxcd"})}, "a broken GPU hides no other")
        second = kubelet.seconds[RESOURCE]
        self.assertEqual((second.lists, second.registrations), ([{"all": True}], 1))
        self.assertFalse(second.plugin.options.get_preferred_allocation_available)
        self.assertEqual(agent.stop()[0], 0)
        self.assertEqual(os.listdir(kubelet.directory), ["kubelet.sock"])

    def test_neither_disturbs_the_other(self):
        self.start_probe()
        kubelet = self.kubelet()
        agent = self.start_with_resource(kubelet)
        self.assertTrue(kubelet.wait_healthy(8, 30), agent.lines)
        second, ended = kubelet.seconds[RESOURCE], kubelet.streams_ended
        second.plugin.stream.cancel()
        self.assertTrue(kubelet.wait(lambda: second.registrations == 2 and second.devices), agent.lines)
        self.assertEqual((kubelet.streams_ended, len(kubelet.registrations), len(kubelet.healthy())), (ended, 1, 8))
        kubelet.refuse = 2
        kubelet.drop_stream()
        self.assertTrue(kubelet.wait(lambda: len(kubelet.registrations) == 4 and kubelet.plugin), agent.lines)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual((second.registrations, second.streams_ended, second.devices), (2, 1, {"all": True}))
        self.assertEqual(len(kubelet.admit("pod", 2)[0]), 2)
        self.assertEqual(len(self.nodes_of(kubelet)), 17)
        self.assertEqual(agent.wait_event("GPUs in use")["gpus"], 2)
        self.assertEqual(agent.events("a container holds a device that is no GPU of this node"), [])

    def test_the_kubelet_restarts(self):
        self.start_probe()
        kubelet = self.kubelet()
        agent = self.start_with_resource(kubelet)
        self.assertTrue(kubelet.wait_healthy(8, 30), agent.lines)
        kubelet.restart()
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        second = kubelet.seconds[RESOURCE]
        self.assertTrue(kubelet.wait(lambda: second.registrations == 2 and second.devices == {"all": True}), agent.lines)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_probe_resource_registered") == 1))

    def test_without_gpus_and_without_the_plugin(self):
        """The probe's pod waits for nothing where there is nothing: a rollout shall end on every node."""
        kubelet = self.kubelet()
        os.makedirs(os.path.join(self.directory, "bare/sys/bus/pci/devices"))
        os.unlink(os.path.join(self.dev, "mxcd"))
        agent = self.start("--root", os.path.join(self.directory, "bare"), "--probe", "none", "--probe-resource", RESOURCE,
                           "--no-device-plugin")
        self.assertTrue(kubelet.wait(lambda: RESOURCE in kubelet.seconds and kubelet.seconds[RESOURCE].devices),
                        agent.lines)
        self.assertEqual(self.nodes_of(kubelet), set())
        self.assertEqual(kubelet.registrations, [])

    def test_not_before_the_driver(self):
        """A container keeps the device nodes that it began with: where GPUs lack their driver it has to wait."""
        kubelet = self.kubelet()
        control = os.path.join(self.dev, "mxcd")
        os.unlink(control)
        agent = self.start_with_resource(kubelet, "--probe-patience", "0")
        self.assertEqual(kubelet.seconds[RESOURCE].lists, [{"all": False}])
        self.assertRaises(AdmissionError, kubelet.admit_second, RESOURCE)
        with open(control, "w", encoding="ascii"):
            pass
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait(lambda: kubelet.seconds[RESOURCE].devices == {"all": True}), agent.lines)
        self.assertEqual(self.nodes_of(kubelet), self.all_nodes())
        self.assertEqual(kubelet.seconds[RESOURCE].registrations, 1)

    def test_only_where_asked_for(self):
        kubelet, agent = self.start_node()
        agent.wait_event("registered")
        self.assertEqual(kubelet.seconds, {})
        self.assertIsNone(agent.metric("gputopo_probe_resource_registered"))
        self.assertEqual(len([name for name in os.listdir(kubelet.directory) if name.startswith("gputopo-")]), 1)
        self.assertEqual(agent.stop()[0], 0)
        agent = self.start("--from", self.recorded(), "--probe-resource", RESOURCE)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual(kubelet.seconds, {}, "a recording has no devices that a probe could open")

    def recorded(self):
        self.record()
        return self.recording


class OnThisMachine(Case):
    def test_live_without_a_probe(self):
        agent = self.start("--probe", "none", "--vendor", "fffe", "--rescan-interval", "1")
        agent.wait_event("node discovered")
        agent.wait_event("this node has no GPU, nothing to advertise")
        self.assertTrue(wait_for(lambda: (agent.metric("gputopo_scans_total", result="done") or 0) >= 3))
        self.assertEqual(len(agent.events("node discovered")), 1)
        self.assertTrue(any("--probe none" in line["why"] for line in agent.events("cannot read")), agent.lines)
        self.assertEqual(agent.stop()[0], 0)


if __name__ == "__main__":
    if not PROGRAMS:
        sys.exit(__doc__)
    unittest.main(verbosity=2)
