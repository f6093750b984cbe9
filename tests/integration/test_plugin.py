#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The device plugin (plugin-host) against a double of the kubelet, faults included.

    test_plugin.py PLUGIN_HOST [unittest arguments]
"""

import concurrent.futures
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc

from daemon_driver import PATIENCE, wait_for
from kubelet_double import RESOURCE, AdmissionError, KubeletDouble, Plugin, pb, stubs

PLUGIN_HOST = sys.argv.pop(1)
GPUS = 8
MOST_DEVICES = 128  # GT_DEVICES_MAX
SOON = 15  # seconds: long for a busy machine, and short for what would wait for the 30 s of a timer


def uuid(i):
    return f"GPU-{i:08x}-0000-1111-2222-333333333333"


def varint(number):
    """As protobuf writes it."""
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


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


class Registering(Case):
    def test_dials_back_and_lists_everything_at_once(self):
        kubelet, host = self.pair()
        self.assertTrue(host.wait("registered"))
        self.assertEqual(kubelet.lists, [{uuid(i): True for i in range(GPUS)}])
        self.assertEqual([numa for _, numa in kubelet.devices.values()], [i // 4 for i in range(GPUS)])
        self.assertTrue(kubelet.plugin.options.get_preferred_allocation_available)
        self.assertFalse(kubelet.plugin.options.pre_start_required)
        self.assertEqual(len(kubelet.registrations), 1)
        self.assertEqual(os.stat(kubelet.plugin_socket()).st_mode & 0o777, 0o600)

    def test_directory_comes_later(self):
        host = self.host()
        self.assertTrue(host.wait("published"))
        time.sleep(0.3)
        os.mkdir(self.kubelet_dir)
        time.sleep(0.2)
        kubelet = self.kubelet(start=False)
        os.mkdir(kubelet.directory)
        time.sleep(0.2)
        self.assertEqual(self.sockets(), [])
        self.assertTrue(wait_for(host.watches))
        start = time.monotonic()
        kubelet.start()
        self.assertTrue(kubelet.wait_healthy(GPUS))
        self.assertLess(time.monotonic() - start, SOON)  # inotify, not the timer
        self.assertEqual(host.count("failed"), 0)

    def test_directory_is_replaced(self):
        kubelet, _ = self.pair()
        kubelet.stop(leave_socket=False)
        remove(kubelet.directory)  # the plugin takes its socket away at the same time
        time.sleep(0.3)
        kubelet.start()
        self.assertTrue(kubelet.wait_healthy(GPUS))

    def test_directory_is_of_no_use(self):
        os.makedirs(os.path.join(self.kubelet_dir, "device-plugins", "kubelet.sock"))
        host = self.host()
        self.assertTrue(host.wait("published"))
        os.rmdir(os.path.join(self.kubelet_dir, "device-plugins", "kubelet.sock"))
        kubelet = self.kubelet()
        self.assertTrue(kubelet.wait_healthy(GPUS))

    @unittest.skipUnless(os.geteuid() == 0, "mounts")
    def test_directory_is_read_only(self):
        kubelet = self.kubelet()
        script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        host = self.host(within=("unshare", "--mount", "sh", "-c", script, kubelet.directory))
        self.assertTrue(host.wait("failed", 3))
        self.assertRegex(host.last("failed")["why"], "create the socket: Read-only file system")
        self.assertEqual(kubelet.registrations, [])
        subprocess.run(["nsenter", "--mount", "--target", str(host.process.pid), "mount", "-o", "remount,rw,bind",
                        kubelet.directory], check=True)
        self.assertTrue(kubelet.wait_healthy(GPUS))

    def test_path_too_long(self):
        self.kubelet_dir = os.path.join(self.directory, "kubelet")
        deep = os.path.join(self.directory, "k" * 90)
        os.makedirs(os.path.join(deep, "device-plugins"))
        os.symlink(deep, self.kubelet_dir)
        # the kubelet's own path is short enough here through the link, ours is too
        kubelet = self.kubelet()
        self.host()
        self.assertTrue(kubelet.wait_healthy(GPUS))

    def test_kubelet_restart(self):
        kubelet, host = self.pair()
        first = kubelet.admit("train", 4)
        endpoints = [kubelet.plugin.endpoint]
        for count in range(1, 4):
            self.assertTrue(host.wait("registered", count))
            kubelet.restart()
            self.assertTrue(kubelet.wait_healthy(GPUS))
            endpoints.append(kubelet.plugin.endpoint)
        self.assertEqual(len(set(endpoints)), 4)
        self.assertTrue(host.wait("registered", 4))
        self.assertTrue(wait_for(lambda: self.sockets() == endpoints[-1:]), self.sockets())
        self.assertEqual(kubelet.admit("train", 4), first)
        kubelet.admit("other", 4)
        self.assertEqual(len(kubelet.used()), GPUS)

    def test_kubelet_is_away_for_a_while(self):
        kubelet, host = self.pair()
        kubelet.stop()
        self.assertTrue(host.wait("failed", 8))
        self.assertIn("kubelet.sock", host.last("failed")["why"])
        start = time.monotonic()
        kubelet.start()
        self.assertTrue(kubelet.wait_healthy(GPUS))
        self.assertLess(time.monotonic() - start, 9)  # at once, not at the end of the pause of 9.6 to 12.8 seconds

    def test_socket_comes_twice_within_100_ms(self):
        for pause in (0, 0.005, 0.05, 0.09):
            with self.subTest(pause=pause):
                kubelet = self.kubelet()
                host = self.host()
                self.assertTrue(kubelet.wait_healthy(GPUS))
                old = [kubelet.replace_socket()]
                time.sleep(pause)
                old.append(kubelet.replace_socket())
                self.assertTrue(self.settles(kubelet))
                self.end(host)
                kubelet.stop()
                for server in old:
                    server.stop(None)
                remove(self.kubelet_dir)

    def test_socket_is_another_one_while_the_stream_lives(self):
        kubelet, host = self.pair()
        first = kubelet.plugin.endpoint
        self.assertTrue(host.wait("registered"))
        os.chmod(kubelet.socket, 0o600)  # the same one still
        time.sleep(0.3)
        self.assertEqual(len(kubelet.registrations), 1)
        old = kubelet.replace_socket(end_stream=False)
        self.assertTrue(kubelet.wait(lambda: kubelet.plugin and kubelet.plugin.endpoint != first, SOON))
        self.assertTrue(self.settles(kubelet))
        self.assertEqual(len(kubelet.registrations), 2)
        self.assertTrue(wait_for(lambda: self.sockets() == [kubelet.plugin.endpoint]), self.sockets())
        old.stop(None)

    def test_socket_is_there_before_the_kubelet_listens(self):
        kubelet = self.kubelet(start=False)
        os.makedirs(kubelet.directory)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(kubelet.socket)
            host = self.host()
            self.assertTrue(host.wait("failed"))
        kubelet.start()
        self.assertTrue(kubelet.wait_healthy(GPUS))

    def test_stream_ends(self):
        kubelet, host = self.pair()
        for count in range(1, 4):
            kubelet.drop_stream()
            self.assertTrue(host.wait("stream ended", count))
            self.assertTrue(kubelet.wait(lambda: len(kubelet.registrations) == count + 1))
            self.assertTrue(kubelet.wait_healthy(GPUS))

    def test_stream_ends_at_once_each_time(self):
        kubelet = self.kubelet()
        kubelet.drop_at_once = 4
        host = self.host()
        self.assertTrue(kubelet.wait(lambda: len(kubelet.registrations) == 5))
        self.assertTrue(kubelet.wait_healthy(GPUS))
        self.assertLess(host.stats()["registrations"], 7)
        times = [at for at, _, _ in kubelet.registrations]
        self.assertGreater(times[4] - times[3], 0.5)  # 100, 200, 400, 800 ms less jitter

    def test_stream_never_comes(self):
        kubelet = self.kubelet()
        kubelet.skip_stream = 1
        host = self.host(stream_ms=3000)
        self.assertTrue(host.wait("failed"))
        self.assertIn("ListAndWatch", host.last("failed")["why"])
        self.assertTrue(kubelet.wait_healthy(GPUS))

    def test_refused(self):
        kubelet = self.kubelet()
        kubelet.refuse = 4
        host = self.host()
        self.assertTrue(kubelet.wait_healthy(GPUS))
        self.assertIn("UNAVAILABLE: refused by the test", host.last("failed")["why"])
        times = [at for at, _, _ in kubelet.registrations]
        pauses = [b - a for a, b in zip(times, times[1:])]
        self.assertEqual(len(pauses), 4)
        for pause, least in zip(pauses, (0.07, 0.15, 0.3, 0.6)):
            self.assertGreater(pause, least)
        self.assertTrue(host.wait("registered"))
        self.assertTrue(wait_for(lambda: len(self.sockets()) == 1), self.sockets())
        stats = host.stats()
        self.assertEqual((stats["failures"], stats["registrations"], stats["streaming"]), (4, 1, 1))

    def test_register_hangs(self):
        kubelet = self.kubelet()
        kubelet.hang = 1000
        host = self.host(register_ms=2000)
        self.assertTrue(host.wait("failed", 2))
        self.assertIn("DEADLINE_EXCEEDED", host.last("failed")["why"])
        kubelet.hang = 0
        self.assertTrue(kubelet.wait_healthy(GPUS))

    def test_own_socket_is_removed(self):
        kubelet, _ = self.pair()
        first = kubelet.plugin.endpoint
        os.unlink(kubelet.plugin_socket())
        self.assertTrue(kubelet.wait(lambda: kubelet.plugin and kubelet.plugin.endpoint != first))
        self.assertTrue(kubelet.wait_healthy(GPUS))

    def test_overlap_of_two_instances(self):
        kubelet, old = self.pair()
        new = self.host()
        self.assertTrue(new.wait("registered"))
        self.assertTrue(kubelet.wait_healthy(GPUS))
        for _ in range(2):  # the order in which they go on taking turns is open
            time.sleep(0.3)
        self.end(old)
        self.assertTrue(kubelet.wait(
            lambda: kubelet.plugin and f"-{new.process.pid}-" in kubelet.plugin.endpoint))
        self.assertTrue(self.settles(kubelet))
        self.assertTrue(wait_for(lambda: len(self.sockets()) == 1), self.sockets())

    def test_cleans_up_behind_a_killed_one(self):
        kubelet, host = self.pair()
        host.process.kill()
        host.process.wait()
        host.ended = True
        host.reader.join(PATIENCE)
        host.process.stdout.close()
        self.assertEqual(len(self.sockets()), 1)
        foreign = os.path.join(kubelet.directory, "other-plugin.sock")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(foreign)
        new = self.host()
        self.assertTrue(new.wait("registered"))
        self.assertTrue(kubelet.wait_healthy(GPUS))
        self.assertTrue(wait_for(lambda: len(self.sockets()) == 1), self.sockets())
        self.assertTrue(os.path.exists(foreign))


class OtherPlugins(Case):
    """Another device plugin of the same resource is there first."""

    def silent(self, kubelet, name="other-plugin.sock"):
        """Listens, and says nothing."""
        other = socket.socket(socket.AF_UNIX)
        self.addCleanup(other.close)
        other.bind(os.path.join(kubelet.directory, name))
        other.listen()
        return other

    def other_plugin(self, kubelet, *ids, name="other-plugin.sock"):
        """Serves these devices, and counts who asked for them."""
        class Other(stubs.DevicePluginServicer):
            asked = 0

            def ListAndWatch(self, _request, context):  # noqa: N802, gRPC's name
                self.asked += 1
                yield pb.ListAndWatchResponse(devices=[pb.Device(ID=one, health="Healthy") for one in ids])
                ended = threading.Event()
                context.add_callback(ended.set)
                ended.wait()

        other = Other()
        other.server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
        stubs.add_DevicePluginServicer_to_server(other, other.server)
        other.path = os.path.join(kubelet.directory, name)
        other.server.add_insecure_port("unix:" + other.path)
        other.server.start()
        self.addCleanup(lambda: other.server.stop(None).wait())
        return other

    def test_holds_back_until_it_goes(self):
        kubelet = self.kubelet()
        kubelet.book.others = ["GPU-x", "GPU-y"]
        other = self.other_plugin(kubelet, "GPU-y", "GPU-x", "GPU-unhealthy")
        self.other_plugin(kubelet, "nic-0", name="nics.sock")
        self.silent(kubelet, "silent.sock")
        host = self.host()
        self.assertTrue(host.wait("failed", 8))
        self.assertIn("another device plugin serves 2 devices of metax-tech.com/gpu, that of other-plugin.sock",
                      host.last("failed")["why"])
        self.assertEqual((kubelet.registrations, self.sockets()), ([], []))
        self.assertEqual(other.asked, 1, "it may keep a stream for ever: once is enough")
        kubelet.book.others = []
        other.server.stop(None).wait()
        if os.path.exists(other.path):
            os.unlink(other.path)
        gone = time.monotonic()
        self.assertTrue(kubelet.wait_healthy(GPUS, 9), "its socket has gone: the pause of 9.6 to 12.8 s is not waited for")
        self.assertGreater(time.monotonic() - gone, 0.4, "a kubelet that is still busy with its end would take ours for it")

    def test_devices_that_nobody_serves(self):
        """What kubelets up to 1.36 keep after a Register that failed, beside sockets that have nothing to do with it."""
        kubelet, first = self.pair()
        self.assertTrue(first.wait("registered"))
        with grpc.insecure_channel("unix:" + kubelet.socket, options=[("grpc.default_authority", "localhost")]) as channel:
            with self.assertRaises(grpc.RpcError):
                stubs.RegistrationStub(channel).Register(pb.RegisterRequest(
                    version="v1beta1", endpoint="nobody.sock", resource_name=RESOURCE), timeout=PATIENCE)
        self.end(first)
        self.assertEqual(len(kubelet.healthy()), GPUS, "the stream has ended, the devices stay")
        self.silent(kubelet)
        self.other_plugin(kubelet, "nic-0", name="nics.sock")
        hung_up = self.silent(kubelet, "closed.sock")
        hung_up.close()
        before = len(kubelet.registrations)
        second = self.host()
        self.assertTrue(second.wait("registered", 1, SOON))
        self.assertEqual((len(kubelet.registrations), second.count("failed")), (before + 1, 0))

    def test_plugins_of_other_resources(self):
        kubelet = self.kubelet()
        other = self.other_plugin(kubelet, "nic-0")
        host = self.host()
        self.assertTrue(kubelet.wait_healthy(GPUS))
        self.assertEqual((host.count("failed"), other.asked), (0, 0), "the kubelet has nothing of ours: nobody is asked")

    def test_another_that_says_what_is_no_list(self):
        kubelet = self.kubelet()
        kubelet.book.others = ["GPU-x"]
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", {
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(lambda _request, _context: iter([b"\xff" * 100]))}),))
        server.add_insecure_port("unix:" + os.path.join(kubelet.directory, "other-plugin.sock"))
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        self.host()
        self.assertTrue(kubelet.wait_healthy(GPUS))

    def test_devices_of_a_plugin_that_is_gone(self):
        kubelet = self.kubelet()
        kubelet.book.others = ["GPU-x"]
        self.silent(kubelet).close()
        self.host()
        self.assertTrue(kubelet.wait_healthy(GPUS))

    def test_the_kubelet_does_not_say(self):
        kubelet = self.kubelet(start=False)
        kubelet.book.serves = False
        kubelet.start()
        self.other_plugin(kubelet, "GPU-x")
        kubelet.book.others = ["GPU-x"]
        self.host()
        self.assertTrue(kubelet.wait_healthy(GPUS))
        kubelet.stop()
        kubelet.book.serves, kubelet.book.hang = True, 30
        kubelet.start()
        self.other_plugin(kubelet, "GPU-x", name="again.sock")
        self.assertTrue(kubelet.wait_healthy(GPUS))

    def wait_checks(self, kubelet, count):
        """So many checks more of what the kubelet offers have begun, and all but the last are worked out."""
        def done():
            return len([method for _, method, _ in list(kubelet.book.calls) if method == "GetAllocatableResources"])
        before = done()
        self.assertTrue(wait_for(lambda: done() >= before + count))

    def test_one_that_came_later_has_gone_and_taken_our_devices_along(self):
        kubelet, host = self.pair(check_ms=200)
        self.wait_checks(kubelet, 3)
        self.assertEqual(host.count("failed"), 0, "nothing is lost")
        kubelet.book.lost = first = kubelet.plugin
        self.assertTrue(kubelet.wait(lambda: kubelet.plugin not in (None, first)))
        self.assertTrue(host.wait("failed"))
        self.assertIn("lost our devices", host.last("failed")["why"])
        self.assertTrue(kubelet.wait_healthy(GPUS))

    def test_one_that_came_later_stays(self):
        kubelet, host = self.pair(check_ms=200)
        kubelet.book.lost, kubelet.book.others = kubelet.plugin, ["GPU-x", "GPU-y"]
        self.assertTrue(host.wait("failed"))
        self.assertEqual(host.last("failed")["why"], "another device plugin has taken over metax-tech.com/gpu: "
                                                     "the kubelet has 2 devices of it")
        self.wait_checks(kubelet, 3)
        self.assertEqual((host.count("failed"), len(kubelet.registrations)), (1, 1), "said once, and no fight")
        before = host.count("registered")
        kubelet.book.lost, kubelet.book.others = None, []
        self.assertTrue(host.wait("registered", before + 1))


class Listing(Case):
    def test_health(self):
        kubelet, host = self.pair()
        host.publish(node(unhealthy=[3]))
        self.assertTrue(kubelet.wait_healthy(GPUS - 1))
        self.assertEqual(len(kubelet.devices), GPUS)
        host.publish(node())
        self.assertTrue(kubelet.wait_healthy(GPUS))
        self.assertEqual(len(kubelet.registrations), 1)
        self.assertEqual(len(kubelet.lists), 3)

    def test_same_list_is_not_sent(self):
        kubelet, host = self.pair()
        for _ in range(5):
            host.publish(node())
        time.sleep(0.3)
        self.assertEqual(len(kubelet.lists), 1)

    def test_vanished_gpus_stay(self):
        kubelet, host = self.pair()
        host.publish(node(without=[0, 5]))
        self.assertTrue(kubelet.wait_healthy(GPUS - 2))
        self.assertEqual(set(kubelet.order), {uuid(i) for i in range(GPUS)})
        host.publish(node(without=range(GPUS)))
        self.assertTrue(kubelet.wait_healthy(0))
        self.assertEqual(set(kubelet.order), {uuid(i) for i in range(GPUS)})
        host.publish(node())
        self.assertTrue(kubelet.wait_healthy(GPUS))
        self.assertEqual(kubelet.order, [uuid(i) for i in range(GPUS)])

    def test_nothing_to_serve_yet(self):
        self.write(node(count=0))
        kubelet = self.kubelet()
        host = self.host()
        self.assertTrue(host.wait("published"))
        time.sleep(0.3)
        self.assertEqual(kubelet.registrations, [])
        host.publish(node())
        self.assertTrue(kubelet.wait_healthy(GPUS))

    def test_many_changes_coalesce(self):
        kubelet, host = self.pair()
        for i in range(60):
            with open(host.path + ".new", "w", encoding="utf-8") as file:
                json.dump(node(unhealthy=[i % GPUS]), file)
            os.rename(host.path + ".new", host.path)
            host.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait(lambda: kubelet.lists[-1].get(uuid(59 % GPUS)) is False))
        self.assertTrue(kubelet.wait_healthy(GPUS - 1))
        for sent in kubelet.lists:
            self.assertEqual(len(sent), GPUS)


class Allocating(Case):
    def test_best_connected(self):
        kubelet, host = self.pair()
        self.assertEqual(set(kubelet.admit("four", 4)[0]), {uuid(i) for i in range(4)})
        self.assertEqual(set(kubelet.admit("two", 2)[0]), {uuid(4), uuid(5)})
        self.assertEqual(kubelet.admit("ones", 1, 1), [[uuid(6)], [uuid(7)]])
        with self.assertRaisesRegex(AdmissionError, "available 0"):
            kubelet.admit("more", 1)
        kubelet.release("four")
        kubelet.release("two")
        self.assertEqual(set(kubelet.admit("again", 3)[0]), {uuid(i) for i in range(3)})
        self.assertTrue(host.wait("allocated", 5))
        self.assertEqual(host.last("preferred")["score"], 3 * 64)
        stats = host.stats()
        self.assertEqual((stats["allocations"], stats["preferred"], stats["allocationErrors"]), (5, 5, 0))

    def test_contents(self):
        kubelet, _ = self.pair()
        kubelet.admit("pod", 2)
        response = kubelet.responses["pod"][0]
        dev = os.path.join(self.directory, "dev")
        names = ["mxcd", "mxgd", "dri/card0", "dri/renderD128", "dri/card1", "dri/renderD129"]
        self.assertEqual([(d.container_path, d.host_path, d.permissions) for d in response.devices],
                         [("/dev/" + n, f"{dev}/{n}", "rw") for n in names])
        self.assertEqual(dict(response.envs), {"METAX_GPU_UUIDS": f"{uuid(0)},{uuid(1)}"})

    def test_what_was_taken_before_is_included(self):
        kubelet, host = self.pair()
        taken = [uuid(6), uuid(1)]
        ids = kubelet.admit("pod", 4, aligned=taken)[0]
        self.assertEqual(set(taken) - set(ids), set())
        self.assertEqual(len(ids), 4)
        self.assertTrue(host.wait("preferred"))
        self.assertEqual(len(host.last("preferred")["ids"]), 4)
        self.assertEqual(host.last("preferred")["mask"] & (1 << 6 | 1 << 1), 1 << 6 | 1 << 1)
        aligned = [uuid(i) for i in range(3, 8)]
        self.assertEqual(set(kubelet.admit("narrow", 2, aligned=aligned)[0]) - set(aligned), set())

    def test_gpa_is_never_an_error(self):
        kubelet, host = self.pair()
        stub = kubelet.plugin.stub

        def ask(available, must, size):
            answer = stub.GetPreferredAllocation(pb.PreferredAllocationRequest(container_requests=[
                pb.ContainerPreferredAllocationRequest(
                    available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size)]))
            return list(answer.container_responses[0].deviceIDs)

        self.assertEqual(ask([], [], 3), [])
        self.assertEqual(ask(["a", "b"], [], 1), ["a"])
        self.assertEqual(ask([uuid(0)], ["x"], 2), ["x", uuid(0)])
        self.assertEqual(ask([uuid(0), uuid(1)], [], -5), [])
        self.assertEqual(len(ask([uuid(i) for i in range(GPUS)] * 50, [], 2**31 - 1)), GPUS)
        host.publish(node(unhealthy=[1, 2]))
        self.assertTrue(kubelet.wait_healthy(GPUS - 2))
        self.assertEqual(set(ask([uuid(1), uuid(2), uuid(3), uuid(0)], [], 2)), {uuid(0), uuid(3)})
        self.assertEqual(len(ask([uuid(1), uuid(2), uuid(3)], [], 2)), 2)

    def test_huge_requests(self):
        """Far more IDs than a node has devices: an answer comes at once, and the plugin goes on."""
        kubelet, host = self.pair()
        names = [f"x{i}" for i in range(400000)]
        for size, least in ((400000, GPUS), (4, 4)):
            answer = kubelet.plugin.stub.GetPreferredAllocation(pb.PreferredAllocationRequest(container_requests=[
                pb.ContainerPreferredAllocationRequest(
                    available_deviceIDs=names + [uuid(i) for i in range(GPUS)], allocation_size=size)]), timeout=SOON)
            got = list(answer.container_responses[0].deviceIDs)
            self.assertEqual(set(got[:least]), {uuid(i) for i in range(least)}, "ours come first")
            self.assertEqual(len(set(got)), len(got))
            self.assertLessEqual(len(got), min(size, MOST_DEVICES))
        for request, code in ((pb.PreferredAllocationRequest(container_requests=[
                pb.ContainerPreferredAllocationRequest()] * 1000), grpc.StatusCode.INVALID_ARGUMENT),
                              (pb.AllocateRequest(container_requests=[
                                  pb.ContainerAllocateRequest(devices_ids=[uuid(0)])] * 1000),
                               grpc.StatusCode.INVALID_ARGUMENT),
                              (pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=names)]),
                               grpc.StatusCode.NOT_FOUND)):
            with self.assertRaises(grpc.RpcError) as caught:
                (kubelet.plugin.stub.Allocate if isinstance(request, pb.AllocateRequest)
                 else kubelet.plugin.stub.GetPreferredAllocation)(request, timeout=SOON)
            self.assertEqual(caught.exception.code(), code)
        empty = pb.ContainerAllocateRequest(devices_ids=[""] * (2 << 20)).SerializeToString()
        with self.assertRaises(grpc.RpcError) as caught:  # two bytes on the wire, fifty in memory
            kubelet.plugin.channel.unary_unary("/v1beta1.DevicePlugin/Allocate")(
                b"\x0a" + varint(len(empty) - 100) + empty[:-100], timeout=SOON)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        kubelet.admit("pod", 1)
        self.assertTrue(host.wait("allocated"))

    def test_wrong_ids(self):
        kubelet, host = self.pair()
        for names in ([["GPU-of-another"]], [[uuid(0)], ["?"]]):
            with self.assertRaises(grpc.RpcError) as caught:
                kubelet.plugin.stub.Allocate(pb.AllocateRequest(
                    container_requests=[pb.ContainerAllocateRequest(devices_ids=n) for n in names]))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
            self.assertIn(names[-1][0], caught.exception.details())
        self.assertTrue(host.wait("allocated", 2))
        self.assertEqual(host.stats()["allocationErrors"], 2)

    def test_one_response_for_each_request(self):
        kubelet, _ = self.pair()
        for count in (0, 1, 3):
            answer = kubelet.plugin.stub.Allocate(pb.AllocateRequest(container_requests=[
                pb.ContainerAllocateRequest(devices_ids=[uuid(i)]) for i in range(count)]))
            self.assertEqual(len(answer.container_responses), count)

    def test_gpu_is_lost_meanwhile(self):
        kubelet, host = self.pair()
        host.publish(node(without=[2]))
        with self.assertRaises(grpc.RpcError) as caught:
            kubelet.plugin.stub.Allocate(pb.AllocateRequest(
                container_requests=[pb.ContainerAllocateRequest(devices_ids=[uuid(2)])]))
        self.assertIn("lost", caught.exception.details())
        self.assertIn(uuid(2), kubelet.order)

    def test_device_node_is_missing(self):
        kubelet, _ = self.pair()
        path = os.path.join(self.directory, "dev", "dri", "renderD130")
        os.unlink(path)
        kubelet.admit("good", 2)
        with self.assertRaisesRegex(AdmissionError, path):
            kubelet.admit("bad", 2)
        self.assertNotIn("bad", kubelet.pods)


class Abusing(Case):
    def test_unknown_method(self):
        kubelet, host = self.pair()
        with self.assertRaises(grpc.RpcError) as caught:
            kubelet.plugin.stub.NoSuchMethod(pb.Empty(), timeout=PATIENCE)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        self.assertEqual(host.stats()["unknownMethods"], 1)
        kubelet.admit("pod", 1)

    def test_bytes_that_are_no_message(self):
        kubelet, _ = self.pair()
        for path in ("Allocate", "GetPreferredAllocation"):
            call = kubelet.plugin.channel.unary_unary(f"/v1beta1.DevicePlugin/{path}")
            with self.assertRaises(grpc.RpcError) as caught:
                call(b"\x0a\xff\xff\xff\xff\x0fA", timeout=PATIENCE)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            with self.assertRaises(grpc.RpcError) as caught:
                call(b"\0" * (5 << 20), timeout=PATIENCE)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        kubelet.admit("pod", 1)

    def test_second_stream_comes_and_goes(self):
        kubelet, _ = self.pair()
        for _ in range(3):
            other = Plugin(kubelet.plugin_socket(), "")
            stream = other.stub.ListAndWatch(pb.Empty())
            self.assertEqual(len(next(stream).devices), GPUS)
            other.close()
            stream.cancel()
        time.sleep(0.3)
        self.assertEqual(len(kubelet.registrations), 1)
        self.assertEqual(len(kubelet.healthy()), GPUS)

    def stream_of_another(self, path):
        other = Plugin(path, "")
        self.addCleanup(other.close)
        other.stream = other.stub.ListAndWatch(pb.Empty())
        self.assertEqual(len(next(other.stream).devices), GPUS)
        return other

    def test_the_kubelets_stream_ends_while_anothers_lives(self):
        kubelet, host = self.pair()
        first = kubelet.plugin
        self.stream_of_another(kubelet.plugin_socket())
        kubelet.drop_stream()
        self.assertTrue(host.wait("stream ended", 1, SOON))
        self.assertTrue(kubelet.wait(lambda: kubelet.plugin not in (None, first), SOON))
        self.assertTrue(self.settles(kubelet))
        self.assertEqual(len(kubelet.registrations), 2)

    def test_anothers_stream_is_there_before_the_kubelets(self):
        kubelet = self.kubelet()
        kubelet.hang = 1000
        host = self.host()
        self.assertTrue(kubelet.wait(lambda: kubelet.hanging))
        first = self.stream_of_another(os.path.join(kubelet.directory, self.sockets()[0]))
        kubelet.hang = 0
        self.assertTrue(kubelet.wait_healthy(GPUS))
        self.assertTrue(host.wait("registered"))
        first.close()  # nobody's loss
        self.stream_of_another(kubelet.plugin_socket())
        time.sleep(0.3)
        self.assertEqual((len(kubelet.registrations), host.count("stream ended")), (1, 0))
        kubelet.drop_stream()
        self.assertTrue(kubelet.wait(lambda: len(kubelet.registrations) == 2, SOON))
        self.assertTrue(self.settles(kubelet))

    def test_silent_connections(self):
        kubelet, host = self.pair()
        before = host.descriptors()
        connections = []
        for _ in range(60):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(kubelet.plugin_socket())
            connections.append(connection)
        self.assertTrue(wait_for(lambda: host.stats()["refused"] >= 40))
        self.assertTrue(wait_for(lambda: host.descriptors() <= before + 16), host.descriptors())
        kubelet.admit("pod", 1)  # who is in stays in
        for connection in connections:
            connection.close()
        self.assertTrue(wait_for(lambda: self.answers(kubelet)))

    def test_flood_of_short_connections(self):
        kubelet, host = self.pair()
        for _ in range(200):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(kubelet.plugin_socket())
        self.assertTrue(wait_for(lambda: self.answers(kubelet)))  # those before have been taken
        time.sleep(0.5)
        descriptors, memory = host.descriptors(), host.memory()
        for i in range(3000):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(kubelet.plugin_socket())
                if i % 3 == 0:
                    connection.send(b"GET / HTTP/1.1\r\n\r\n")
        most = 20000 if host.sanitized() else 2000
        self.assertTrue(wait_for(lambda: host.descriptors() <= descriptors + 2 and host.memory() - memory < most),
                        (host.descriptors(), descriptors, host.memory(), memory))
        kubelet.admit("pod", 1)

    def test_no_descriptors_left(self):
        # What is needed depends on the machine's cores: find it, then leave three.
        probe_kubelet, probe = self.pair()
        needed = max(int(fd) for fd in os.listdir(f"/proc/{probe.process.pid}/fd")) + 1
        self.end(probe)
        probe_kubelet.stop()
        kubelet = self.kubelet()
        host = self.host(descriptors=needed + 3)
        self.assertTrue(kubelet.wait_healthy(GPUS))
        connections = []
        for _ in range(10):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(kubelet.plugin_socket())
            connections.append(connection)
        time.sleep(1)
        with open(f"/proc/{host.process.pid}/stat", encoding="ascii") as file:
            before = sum(int(n) for n in file.read().rsplit(")", 1)[1].split()[11:13])
        time.sleep(2)
        with open(f"/proc/{host.process.pid}/stat", encoding="ascii") as file:
            after = sum(int(n) for n in file.read().rsplit(")", 1)[1].split()[11:13])
        self.assertLess((after - before) / os.sysconf("SC_CLK_TCK"), 0.5)  # it does not spin
        kubelet.admit("pod", 1)
        for connection in connections:
            connection.close()
        self.assertTrue(wait_for(lambda: self.answers(kubelet)))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_other_users(self):
        kubelet, host = self.pair()
        path = kubelet.plugin_socket()
        os.chmod(path, 0o777)
        os.chmod(self.directory, 0o755)
        script = ("import os, socket, sys; os.setgid(65534); os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
                  "s.connect(sys.argv[1]); s.settimeout(60); sys.exit(len(s.recv(1)))")
        subprocess.run([sys.executable, "-c", script, path], check=True, timeout=2 * PATIENCE)
        self.assertEqual(host.stats()["refused"], 1)

    def test_many_registrations(self):
        """Each with a kubelet that has just started: a new socket, an empty directory, a stream that ends."""
        kubelet, host = self.pair()
        times = 1000

        def restart(count):
            for _ in range(count):
                before = len(kubelet.registrations)
                old = kubelet.replace_socket()
                self.assertTrue(kubelet.wait(lambda n=before: len(kubelet.registrations) > n))
                self.assertTrue(kubelet.wait_healthy(GPUS))
                old.stop(None)

        restart(100)
        time.sleep(0.5)
        descriptors, memory = host.descriptors(), host.memory()
        restart(times)
        self.assertTrue(wait_for(lambda: host.descriptors() <= descriptors + 1), (host.descriptors(), descriptors))
        growth = host.memory() - memory
        print(f"{times} registrations: descriptors {descriptors} -> {host.descriptors()}, "
              f"anonymous memory {memory} -> {memory + growth} kB", file=sys.stderr)
        # The sanitizers keep records of their own for every freed block and thread: a coarse bound there.
        self.assertLess(growth, 200 * times if host.sanitized() else times)
        self.assertTrue(wait_for(lambda: len(self.sockets()) == 1), self.sockets())


class Ending(Case):
    def test_with_an_open_stream(self):
        kubelet, host = self.pair()
        status, seconds = host.end()
        host.ended = True
        self.assertEqual(status, 0)
        self.assertLess(seconds, SOON)
        self.assertEqual(host.count("ended"), 1)
        self.assertTrue(kubelet.wait(lambda: not kubelet.healthy()))
        self.assertEqual(self.sockets(), [])

    def test_with_clients_that_do_not_move(self):
        kubelet, host = self.pair()
        connections = []
        for _ in range(5):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(kubelet.plugin_socket())
            connections.append(connection)
        time.sleep(0.2)
        status, seconds = host.end()
        host.ended = True
        self.assertEqual(status, 0)
        self.assertLess(seconds, SOON)
        for connection in connections:
            connection.close()

    def test_while_register_hangs(self):
        kubelet = self.kubelet()
        kubelet.hang = 1000
        host = self.host()
        self.assertTrue(kubelet.wait(lambda: kubelet.hanging))
        status, seconds = host.end()
        host.ended = True
        self.assertEqual(status, 0)
        self.assertLess(seconds, SOON)

    def test_without_a_kubelet(self):
        host = self.host()
        self.assertTrue(host.wait("published"))
        status, seconds = host.end()
        host.ended = True
        self.assertEqual(status, 0)
        self.assertLess(seconds, SOON)

    def test_leaves_a_newer_instances_socket(self):
        kubelet, host = self.pair()
        path = kubelet.plugin_socket()
        host.signal(signal.SIGSTOP)  # so that it does not notice
        os.unlink(path)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(path)
            inode = os.stat(path).st_ino
            host.signal(signal.SIGTERM)
            host.signal(signal.SIGCONT)
            host.process.wait(PATIENCE)
            self.assertEqual(os.stat(path).st_ino, inode)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    unittest.main(verbosity=2)
