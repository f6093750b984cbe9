#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-agent with a probe: one that fails, and the real one with the fake vendor library.

Usage: test_agent_probe.py DIRECTORY_OF_PROGRAMS FAKE_LIBMXSML [unittest arguments]
"""

import json
import os
import signal
import subprocess
import sys
import time

import side_by_side
from agent_case import AGENT, Case, MadeMachine, PROGRAMS
from daemon_driver import wait_for
from kubelet_double import AdmissionError

# Reads requests and never answers one; ends with its connection, like the real one.
SILENT_PROBE = """#!/usr/bin/python3
import socket
s = socket.socket(fileno=3)
while s.recv(4096):
    pass
"""


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
        if not agent.events("node discovered"):  # after two seconds it goes on with what it sees itself
            self.assertEqual((status, "first scan" in why), (503, True))
        self.assertEqual(agent.stop()[0], 0)  # the probe would be silent for ever
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
        self.assertEqual(agent.stop()[0], 0)  # the library would hang for ten minutes
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

    def test_a_probe_that_is_stopped_is_replaced(self):
        """By SIGSTOP: what only the library knows is seen soon, too."""
        kubelet, agent = self.start_node("--health-interval", "1")
        probe, = [pid for pid, _ in children(agent.process.pid)]
        os.kill(probe, signal.SIGSTOP)
        self.set_sick(3)
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        said, = agent.events("gputopo-probe does not answer in time")
        self.assertEqual((said["level"], said["replaced"]), ("warning", True))
        self.assertEqual(agent.metric("gputopo_probe_overdue_total"), 1)
        self.assertGreater(agent.metric("gputopo_probe_restarts_total"), 0)
        self.assertFalse(os.path.exists(f"/proc/{probe}"))
        self.set_sick()
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertEqual(len(agent.events("gputopo-probe does not answer in time")), 1)
        self.assertTrue(agent.events("gputopo-probe answers again"))

    def test_calls_that_take_long_are_waited_for(self):
        """A probe that is at work is not stopped: its answer counts when it comes."""
        kubelet, agent = self.start_node("--health-interval", "1")
        probe, = [pid for pid, _ in children(agent.process.pid)]
        self.write_scenario(faults=[{"call": "mxSmlGetDeviceState", "do": "slow", "ms": 2500, "times": 2}],
                            devices=[{**device, **({"state": 0} if i == 3 else {})}
                                     for i, device in enumerate(self.vendor["devices"])])
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        self.assertEqual(agent.metric("gputopo_probe_overdue_total"), 1)
        self.assertEqual(agent.metric("gputopo_probe_failures_total"), 0)
        self.assertEqual([pid for pid, _ in children(agent.process.pid)], [probe])


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
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertTrue(kubelet.wait(lambda: kubelet.order == self.ids), kubelet.order)  # a slow answer is not waited for
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
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
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

    def test_a_probe_that_is_stopped_hides_nothing(self):
        """The agent cannot replace another container's probe: it goes on with what it sees itself, and says so."""
        probe = self.start_probe()
        kubelet = self.kubelet()
        agent = self.start_with_resource(kubelet, "--health-interval", "1")
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        probe.send_signal(signal.SIGSTOP)
        self.addCleanup(probe.send_signal, signal.SIGCONT)
        os.unlink(os.path.join(self.dev, "dri/renderD131"))
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        agent.wait_event("GPU unhealthy")
        told = [line["event"] for line in agent.lines]
        self.assertNotIn("cannot read", told[:told.index("GPU unhealthy")], "before the probe is given up")
        said, = agent.events("gputopo-probe does not answer in time")
        self.assertEqual((said["level"], said["replaced"]), ("warning", False))
        self.assertEqual(agent.metric("gputopo_gpus", health="unknown"), 7)
        # It is given up after a while. Faults are seen also then, and the node says why it knows less.
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_probe_failures_total") >= 2), agent.lines)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_missing") > 0), agent.lines)
        os.unlink(os.path.join(self.dev, "dri/renderD132"))
        self.assertTrue(kubelet.wait_healthy(6), agent.lines)
        probe.send_signal(signal.SIGCONT)
        agent.wait_event("gputopo-probe answers again")
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_gpus", health="healthy") == 6), agent.lines)

    def test_the_kubelet_restarts(self):
        self.start_probe()
        kubelet = self.kubelet()
        agent = self.start_with_resource(kubelet)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
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


if __name__ == "__main__":
    if not PROGRAMS:
        sys.exit(__doc__)
    side_by_side.main()
