#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The device plugin (plugin-host) against a double of the kubelet, faults included.

Usage: test_plugin.py PLUGIN_HOST [unittest arguments]
"""

import concurrent.futures
import os
import resource
import signal
import socket
import subprocess
import threading
import time
import unittest

import grpc
import side_by_side
from daemon_driver import PATIENCE, wait_for
from kubelet_double import RESOURCE, pb, stubs
from plugin_case import GPUS, SOON, Case, remove, uuid


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

    def test_directory_becomes_a_link(self):
        kubelet, _ = self.pair()
        kubelet.stop(leave_socket=False)
        os.rename(kubelet.directory, f"{kubelet.directory}.old")
        os.mkdir(f"{self.directory}/elsewhere")
        os.symlink(f"{self.directory}/elsewhere", kubelet.directory)
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
        self.assertTrue(host.wait("failed", 9, 2 * PATIENCE))
        self.assertIn("kubelet.sock", host.last("failed")["why"])
        start = time.monotonic()
        kubelet.start()
        self.assertTrue(kubelet.wait_healthy(GPUS))
        self.assertLess(time.monotonic() - start, SOON)  # at once, not at the end of the pause of 19.2 to 25.6 seconds

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
        self.assertTrue(host.wait("failed", 9, 2 * PATIENCE))
        self.assertIn("another device plugin serves 2 devices of metax-tech.com/gpu, that of other-plugin.sock",
                      host.last("failed")["why"])
        self.assertEqual((kubelet.registrations, self.sockets()), ([], []))
        self.assertEqual(other.asked, 1, "it may keep a stream for ever: once is enough")
        kubelet.book.others, gone = [], time.monotonic()
        other.server.stop(None).wait()
        if os.path.exists(other.path):
            os.unlink(other.path)
        self.assertTrue(kubelet.wait_healthy(GPUS, SOON), "its socket has gone: the pause of 19.2 to 25.6 s is not waited for")
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
            other.listen()  # else it is taken for one of an instance that has ended, if this one looks before it ends
            inode = os.stat(path).st_ino
            host.signal(signal.SIGTERM)
            host.signal(signal.SIGCONT)
            host.process.wait(PATIENCE)
            self.assertEqual(os.stat(path).st_ino, inode)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    side_by_side.main()
