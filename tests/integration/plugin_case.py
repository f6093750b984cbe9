# SPDX-License-Identifier: Apache-2.0
"""The device plugin without the agent around it, and the kubelet's double, for the tests of the plugin."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc
from daemon_driver import PATIENCE
from kubelet_double import KubeletDouble, Plugin, pb

PLUGIN_HOST = sys.argv.pop(1)
GPUS = 8
SOON = 15  # seconds: long for a busy machine, and short for what would wait for the 30 s of a timer


def uuid(i):
    return f"GPU-{i:08x}-0000-1111-2222-333333333333"


def node(count=GPUS, unhealthy=(), without=()):
    """Two fully linked groups of four, one a NUMA node."""
    ids = [i for i in range(count) if i not in without]
    gpus = [{"index": at, "uuid": uuid(i), "bdf": f"0000:{0x0e + i:02x}:00.0", "numaNode": i // 4,
             "healthy": i not in unhealthy, "drm": {"card": i, "render": 128 + i}}
            for at, i in enumerate(ids)]
    links = [{"a": a, "b": b, "kind": "MX" if ids[a] // 4 == ids[b] // 4 else "SYS"}
             for b in range(len(ids)) for a in range(b)]
    return {"name": "node", "gpus": gpus, "nics": [], "links": links}


class Host:
    """A running plugin-host."""

    def __init__(self, directory, descriptors=0, register_ms=0, stream_ms=0, check_ms=0, within=()):
        self.directory = directory
        self.path = os.path.join(directory, "node.json")
        self.events = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(
            [*within, PLUGIN_HOST, self.path, os.path.join(directory, "kubelet"), os.path.join(directory, "dev"),
             str(descriptors), str(register_ms), str(stream_ms), str(check_ms)],
            stdout=subprocess.PIPE, text=True,
            # what is measured shall not depend on the number of cores, or on what a sanitizer keeps
            env={"ASAN_OPTIONS": "quarantine_size_mb=1", "MALLOC_ARENA_MAX": "1", **os.environ})
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.events.append(json.loads(line))
                self.changed.notify_all()

    def count(self, event):
        with self.changed:
            return sum(e["event"] == event for e in self.events)

    def wait(self, event, count=1, seconds=PATIENCE):
        with self.changed:
            return self.changed.wait_for(
                lambda: sum(e["event"] == event for e in self.events) >= count, seconds)

    def last(self, event):
        with self.changed:
            return [e for e in self.events if e["event"] == event][-1]

    def signal(self, number):
        self.process.send_signal(number)

    def publish(self, what):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(what, file)
        os.rename(self.path + ".new", self.path)
        before = self.count("published")
        self.signal(signal.SIGHUP)
        return self.wait("published", before + 1)

    def stats(self):
        before = self.count("stats")
        self.signal(signal.SIGUSR1)
        assert self.wait("stats", before + 1)
        return self.last("stats")

    def watches(self):
        """What it has inotify tell it of."""
        found = 0
        for name in os.listdir(f"/proc/{self.process.pid}/fdinfo"):
            try:
                with open(f"/proc/{self.process.pid}/fdinfo/{name}", encoding="ascii") as file:
                    found += file.read().count("inotify wd:")
            except FileNotFoundError:
                pass
        return found

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self, field="RssAnon"):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(field + ":"))

    def sanitized(self):
        return self.memory("VmSize") > 10**10  # the sanitizers' shadow

    def end(self):
        """SIGTERM; the exit status and how long it took."""
        start = time.monotonic()
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.reader.join(PATIENCE)
        self.process.stdout.close()
        return status, time.monotonic() - start


def remove(directory):
    """Also while somebody else takes away what is his."""
    end = time.monotonic() + PATIENCE
    while os.path.lexists(directory) and time.monotonic() < end:
        shutil.rmtree(directory, ignore_errors=True)


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="gputopo-")
        self.addCleanup(remove, self.directory)
        self.kubelet_dir = os.path.join(self.directory, "kubelet")
        dev = os.path.join(self.directory, "dev")
        os.makedirs(os.path.join(dev, "dri"))
        for name in ["mxcd", "mxgd"] + [n for i in range(GPUS) for n in (f"dri/card{i}", f"dri/renderD{128 + i}")]:
            with open(os.path.join(dev, name), "wb"):
                pass
        self.write(node())

    def write(self, what):
        with open(os.path.join(self.directory, "node.json"), "w", encoding="utf-8") as file:
            json.dump(what, file)

    def host(self, **options):
        host = Host(self.directory, **options)
        self.addCleanup(self.end, host)
        return host

    def end(self, host):
        """Every plugin must end cleanly: under the sanitizers a leak or a race gives another status."""
        if not getattr(host, "ended", False):
            host.ended = True
            status, seconds = host.end()
            self.assertEqual(status, 0)
            self.assertLess(seconds, SOON)

    def kubelet(self, start=True, **options):
        kubelet = KubeletDouble(self.kubelet_dir, **options)
        self.addCleanup(kubelet.stop)
        if start:
            kubelet.start()
        return kubelet

    def pair(self, **options):
        kubelet = self.kubelet()
        host = self.host(**options)
        self.assertTrue(kubelet.wait_healthy(GPUS))
        return kubelet, host

    def settles(self, kubelet):
        """Whether all GPUs are there at last, and stay so without another registration."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and kubelet.wait_healthy(GPUS):
            seen = len(kubelet.registrations)
            if not kubelet.wait(lambda n=seen: len(kubelet.registrations) > n or len(kubelet.healthy()) != GPUS, 0.5):
                return True
        return False

    @staticmethod
    def answers(kubelet):
        """Whether the plugin takes a connection more."""
        other = Plugin(kubelet.plugin_socket(), "")
        try:
            return other.stub.GetDevicePluginOptions(pb.Empty(), timeout=PATIENCE)
        except grpc.RpcError:
            return None
        finally:
            other.close()

    def sockets(self):
        return [n for n in os.listdir(os.path.join(self.kubelet_dir, "device-plugins"))
                if n.startswith("gputopo-")]
