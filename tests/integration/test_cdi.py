#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-agent with --device-strategy: the CDI spec that it writes, and what containers get with it.

Usage: test_cdi.py DIRECTORY_OF_PROGRAMS [unittest arguments]
"""
import contextlib
import json
import os
import random
import shutil
import signal
import string
import sys
import tempfile
import unittest

import cdi_checker
from daemon_driver import Daemon, wait_for
from kubelet_double import AdmissionError, KubeletDouble
from seed import given_seed

PROGRAMS = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
KIND = "metax-tech.com/gpu"
FILE = "metax-tech.com-gpu.json"


def machine(gpus):
    """A node of these GPUs: (UUID or "", PCI bus, DRM card, render node)."""
    return {
        "name": "recorded",
        "gpus": [{"index": i, "vendorIndex": i, "uuid": uuid, "bdf": f"0000:{bus:02x}:00.0", "product": "C500",
                  "numaNode": 0, "mode": "native", "healthy": True, "unhealthyReason": "",
                  "drm": {"card": card, "render": render}} for i, (uuid, bus, card, render) in enumerate(gpus)],
        "nics": [{"name": "mlx5_0", "bdf": "0000:ff:00.0", "numaNode": 0, "locality": ["PIX"] * len(gpus)}], "links": [{"a": a, "b": b, "kind": "SYS", "pathKind": "SYS"}
                              for b in range(len(gpus)) for a in range(b)],
        "supernode": {"uuid": "", "remote": []}, "missing": []}


def name_of(identity):
    """The name in the spec of the device that the kubelet knows by this ID."""
    code = identity.encode()
    return "".join(chr(one) if bytes([one]).isalnum() or one in b"-.:" and at + 1 < len(code) else f"_{one:02x}"
                   for at, one in enumerate(code))


PLAIN = [(f"GPU-{i}", 0x10 + i, i, 128 + i) for i in range(4)]


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="gputopo-cdi-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.dev, self.cdi = os.path.join(self.directory, "dev"), os.path.join(self.directory, "cdi")
        self.spec = os.path.join(self.cdi, FILE)
        self.recording = os.path.join(self.directory, "node.json")
        os.makedirs(os.path.join(self.dev, "dri"))
        self.host(PLAIN)

    def host(self, gpus, further=("mxcd",)):
        """Recording and device nodes of this machine, and no others."""
        shutil.rmtree(self.dev)
        os.makedirs(os.path.join(self.dev, "dri"))
        names = [*further, *(f"dri/card{card}" for _, _, card, _ in gpus), *(f"dri/renderD{node}" for *_, node in gpus)]
        for name in names:
            with open(os.path.join(self.dev, name), "w", encoding="ascii"):
                pass
        with open(self.recording + ".new", "w", encoding="utf-8") as file:
            json.dump(machine(gpus), file)
        os.rename(self.recording + ".new", self.recording)

    def start(self, strategy, *arguments):
        kubelet = KubeletDouble(self.directory)
        kubelet.start()
        self.addCleanup(kubelet.stop, leave_socket=False)
        agent = self.start_agent(strategy, *arguments)
        return kubelet, agent

    def start_agent(self, strategy, *arguments):
        agent = Daemon(os.path.join(PROGRAMS, "gputopo-agent"), "--from", self.recording, "--dev-root", self.dev,
                       "--kubelet-dir", self.directory, "--node-name", "n1", "--device-strategy", strategy,
                       "--cdi-dir", self.cdi, *arguments)
        self.addCleanup(lambda: agent.process.poll() is None and agent.stop())
        return agent

    def text(self):
        with open(self.spec, encoding="utf-8") as file:
            return file.read()

    def event(self, agent, name, count=1):
        self.assertTrue(wait_for(lambda: len(agent.events(name)) >= count), f"no {name!r}: {agent.lines}")
        return agent.events(name)[count - 1]

    def response(self, kubelet, pod, count):
        kubelet.admit(pod, count)
        return kubelet.responses[pod][0]

    def expected(self, gpus):
        """What a container with these shall see: {path in it: path on the host}."""
        names = ["mxcd"]
        for _, _, card, render in gpus:
            names += [f"dri/card{card}", f"dri/renderD{render}"]
        return {"/dev/" + name: os.path.join(self.dev, name) for name in names}

    @staticmethod
    def nodes(response):
        return {device.container_path: device.host_path for device in response.devices}

    def injected(self, response):
        return cdi_checker.inject(self.text(), *(device.name for device in response.cdi_devices))

    @contextlib.contextmanager
    def unwritable(self):
        """A file where the directory of specs was: root may write anywhere else."""
        shutil.rmtree(self.cdi, ignore_errors=True)
        with open(self.cdi, "w", encoding="ascii"):
            pass
        yield
        os.unlink(self.cdi)


class Spec(Case):
    def test_random_nodes(self):
        """One agent sees a series of machines; of each one the spec is right, and says what the host has."""
        make = random.Random(given_seed())
        kubelet, agent = self.start("cdi")
        self.assertTrue(kubelet.wait_healthy(4), agent.lines)
        letters = string.ascii_letters + string.digits + "-_.:/ =\u00e4"
        for number in range(25):
            count = make.choice((1, 2, 8, make.randint(1, 64)))
            cards, renders = make.sample(range(128), count), make.sample(range(128, 256), count)
            buses = sorted(make.sample(range(1, 256), count))
            uuids = {f"GPU-{number}-{i}" + "".join(make.choices(letters, k=make.randint(0, 40))) for i in range(count)}
            uuids = [uuid if make.random() < 0.8 else "" for uuid in sorted(uuids)]
            gpus = list(zip(uuids, buses, cards, renders))
            further = ["mxcd", *(f"mx{letter}d" for letter in make.sample("0123456789abdefghijklmnopqrstuvwxyz", 5))]
            self.host(gpus, further)
            scans = len(agent.events("scanning again as asked"))
            agent.hangup()
            self.assertTrue(wait_for(lambda scans=scans: len(agent.events("scanning again as asked")) > scans))
            want = [{"/dev/dri/" + name: os.path.join(self.dev, "dri", name)
                     for name in (f"card{card}", f"renderD{render}")} for _, _, card, render in gpus]

            def told(want=want):
                with contextlib.suppress(OSError):
                    return sorted(map(sorted, cdi_checker.read(self.text())[2].values())) == sorted(map(sorted, want))
            self.assertTrue(wait_for(told), f"machine {number}: {agent.lines[-3:]}")
            kind, common, devices = cdi_checker.read(self.text())
            self.assertEqual(kind, KIND)
            self.assertEqual(common, {"/dev/" + name: os.path.join(self.dev, name) for name in further})
            for nodes in want:
                self.assertIn(nodes, list(devices.values()))
            self.assertTrue(kubelet.wait(lambda devices=devices: set(map(name_of, kubelet.healthy())) == set(devices)),
                            f"machine {number}: the kubelet has other GPUs")
            size = make.randint(1, count)
            response = self.response(kubelet, f"pod-{number}", size)
            self.assertEqual(len(response.cdi_devices), size)
            self.assertEqual(len(self.injected(response)), len(further) + 2 * size)
            self.assertEqual(list(response.devices), [])
            kubelet.release(f"pod-{number}")
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(os.listdir(self.cdi), [FILE], "it stays for containers that are restarted, and nothing else does")

    def test_it_is_not_touched_without_need(self):
        kubelet, agent = self.start("cdi")
        self.assertTrue(kubelet.wait_healthy(4))
        before = os.stat(self.spec)
        agent.hangup()
        self.event(agent, "scanning again as asked")
        self.response(kubelet, "one", 1)
        self.assertEqual(agent.stop(), 0)
        agent = self.start_agent("cdi")
        self.assertTrue(kubelet.wait_healthy(4))
        after = os.stat(self.spec)
        self.assertEqual((before.st_ino, before.st_mtime_ns), (after.st_ino, after.st_mtime_ns))
        self.assertEqual(agent.metrics()["gputopo_cdi_writes_total"], 0)

    def test_it_leaves_with_the_last_gpu(self):
        kubelet, agent = self.start("cdi")
        self.assertTrue(kubelet.wait_healthy(4))
        self.host(PLAIN[:2])
        agent.hangup()
        self.assertTrue(wait_for(lambda: sorted(cdi_checker.read(self.text())[2]) == ["GPU-0", "GPU-1"]))
        self.host([])
        agent.hangup()
        self.assertTrue(wait_for(lambda: not os.path.exists(self.spec)))


class Strategies(Case):
    def test_devices(self):
        kubelet, agent = self.start("devices")
        self.assertTrue(kubelet.wait_healthy(4))
        response = self.response(kubelet, "all", 4)
        self.assertEqual(self.nodes(response), self.expected(PLAIN))
        self.assertEqual(list(response.cdi_devices), [])
        self.assertFalse(os.path.exists(self.cdi))
        self.assertNotIn("gputopo_cdi_spec_current", agent.metrics())

    def test_cdi(self):
        kubelet, agent = self.start("cdi")
        self.assertTrue(kubelet.wait_healthy(4))
        response = self.response(kubelet, "all", 4)
        self.assertEqual(list(response.devices), [])
        self.assertEqual({device.name for device in response.cdi_devices}, {f"{KIND}=GPU-{i}" for i in range(4)})
        self.assertEqual(self.injected(response), self.expected(PLAIN))
        envs = dict(response.envs)
        self.assertEqual(sorted(envs["METAX_GPU_UUIDS"].split(",")), [f"GPU-{i}" for i in range(4)])
        self.assertEqual((envs["METAX_GPU_HCAS"], envs["METAX_GPU_NUMA_NODES"]), ("mlx5_0", "0"))
        self.assertEqual(agent.metrics()["gputopo_cdi_spec_current"], 1)

    def test_both(self):
        kubelet, _ = self.start("both")
        self.assertTrue(kubelet.wait_healthy(4))
        response = self.response(kubelet, "all", 4)
        self.assertEqual(self.nodes(response), self.expected(PLAIN))
        self.assertEqual(self.injected(response), self.expected(PLAIN))

    def test_renumbered_in_between(self):
        """The kernel numbers the DRM nodes again, and no scan has seen it: Allocate does not name what is not there."""
        kubelet, agent = self.start("cdi")
        self.assertTrue(kubelet.wait_healthy(4))
        os.unlink(os.path.join(self.dev, "dri/card2"))
        with self.assertRaises(AdmissionError):
            self.response(kubelet, "all", 4)
        moved = [(uuid, bus, 9 if card == 2 else card, render) for uuid, bus, card, render in PLAIN]
        self.host(moved)
        agent.hangup()
        self.assertTrue(wait_for(lambda: "/dev/dri/card9" in str(cdi_checker.read(self.text()))))
        agent.metrics()  # answered when the scan is done, and the plugin has it
        self.assertEqual(self.injected(self.response(kubelet, "again", 4)), self.expected(moved))


class Faults(Case):
    def test_removed_by_somebody(self):
        """Allocate puts it back before it names anything, and so does the agent by itself."""
        kubelet, agent = self.start("cdi")
        self.assertTrue(kubelet.wait_healthy(4))
        os.unlink(self.spec)
        self.assertEqual(self.injected(self.response(kubelet, "all", 4)), self.expected(PLAIN))
        with open(self.spec, "w", encoding="ascii") as file:
            file.write("{}")
        self.assertTrue(wait_for(lambda: self.text() != "{}"))
        cdi_checker.read(self.text())
        self.assertTrue(wait_for(lambda: len(agent.events("CDI spec written")) >= 2))

    def test_cdi_and_it_cannot_be_written(self):
        kubelet, agent = self.start("cdi")
        self.assertTrue(kubelet.wait_healthy(4))
        with self.unwritable():
            with self.assertRaisesRegex(AdmissionError, "CDI spec cannot be written.*" + self.cdi):
                self.response(kubelet, "none", 1)
            self.assertTrue(kubelet.wait_healthy(0), "no GPU is offered")
            self.assertEqual(len(kubelet.order), 4)
            self.assertIn("no CDI spec: " + self.cdi, self.event(agent, "GPU unhealthy")["why"])
            self.assertEqual(agent.metrics()["gputopo_cdi_spec_current"], 0)
            self.assertEqual(len(agent.events("CDI spec not written")), 1, "said once")
        self.assertTrue(kubelet.wait_healthy(4), "and it recovers by itself")
        self.assertEqual(self.injected(self.response(kubelet, "all", 4)), self.expected(PLAIN))
        self.assertEqual(agent.metrics()["gputopo_cdi_spec_current"], 1)

    def test_both_and_it_cannot_be_written(self):
        with self.unwritable():
            kubelet, agent = self.start("both")
            self.assertTrue(kubelet.wait_healthy(4), "device nodes are enough")
            self.event(agent, "CDI spec not written")
            response = self.response(kubelet, "one", 2)
            self.assertEqual(list(response.cdi_devices), [], "no name that nothing resolves")
            self.assertEqual(len(response.devices), 5)
            self.assertEqual(agent.metrics()["gputopo_cdi_spec_current"], 0)
            kubelet.release("one")
        self.event(agent, "CDI spec written")
        self.assertEqual(self.injected(self.response(kubelet, "all", 4)), self.expected(PLAIN))

    def test_left_over(self):
        """With `devices` again the spec stays while a container has GPUs, since that may be restarted, and then goes."""
        kubelet, agent = self.start("cdi")
        self.assertTrue(kubelet.wait_healthy(4))
        self.response(kubelet, "old", 2)
        self.assertEqual(agent.stop(), 0)
        agent = self.start_agent("devices")
        self.assertTrue(kubelet.wait_healthy(4))
        self.assertEqual(list(self.response(kubelet, "new", 1).cdi_devices), [])
        self.assertTrue(wait_for(lambda: agent.metrics().get("gputopo_gpus_in_use") == 3))
        agent.process.send_signal(signal.SIGHUP)
        self.assertTrue(os.path.exists(self.spec))
        kubelet.release("new")
        kubelet.release("old")
        self.event(agent, "CDI spec of before removed")
        self.assertFalse(os.path.exists(self.spec))


if __name__ == "__main__":
    if not PROGRAMS:
        sys.exit(__doc__)
    unittest.main(verbosity=2)
