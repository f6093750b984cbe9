#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The device plugin: the list of its devices, preferred and allocated ones, and callers that misuse it.

Usage: test_plugin_allocate.py PLUGIN_HOST [unittest arguments]
"""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import unittest

import grpc
from daemon_driver import PATIENCE, wait_for
from kubelet_double import AdmissionError, Plugin, pb
from plugin_case import GPUS, SOON, Case, node, uuid

MOST_DEVICES = 128  # GT_DEVICES_MAX


def varint(number):
    """As protobuf writes it."""
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def is_refused(connection):
    """Whether the plugin has closed it, and has said nothing."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


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
        self.assertEqual((stats["allocations"], host.count("preferred"), stats["allocationErrors"]), (5, 5, 0))

    def test_contents(self):
        kubelet, _ = self.pair()
        kubelet.admit("pod", 2)
        response = kubelet.responses["pod"][0]
        dev = os.path.join(self.directory, "dev")
        names = ["mxcd", "mxgd", "dri/card0", "dri/renderD128", "dri/card1", "dri/renderD129"]
        self.assertEqual([(d.container_path, d.host_path, d.permissions) for d in response.devices],
                         [("/dev/" + n, f"{dev}/{n}", "rw") for n in names])
        self.assertEqual(dict(response.envs)["METAX_GPU_UUIDS"], f"{uuid(0)},{uuid(1)}")

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
        kubelet, _ = self.pair()
        with self.assertRaises(grpc.RpcError) as caught:
            kubelet.plugin.stub.NoSuchMethod(pb.Empty(), timeout=PATIENCE)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
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
        self.assertTrue(wait_for(lambda: sum(map(is_refused, connections)) >= 40))
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
        kubelet, _ = self.pair()
        path = kubelet.plugin_socket()
        os.chmod(path, 0o777)
        os.chmod(self.directory, 0o755)
        script = ("import os, socket, sys; os.setgid(65534); os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
                  "s.connect(sys.argv[1]); s.settimeout(60); sys.exit(len(s.recv(1)))")
        subprocess.run([sys.executable, "-c", script, path], check=True, timeout=2 * PATIENCE)

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


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    unittest.main(verbosity=2)
