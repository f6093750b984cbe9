# SPDX-License-Identifier: Apache-2.0
"""What a kubelet, 1.34.1 or 1.36.3, does with device plugins that fail, end, or serve the same resource, with the
agent beside them."""
import concurrent.futures
import contextlib
import os
import socket
import time

import grpc

from harness.pods import RESOURCE, manifest
from harness.report import quick
from harness.waiting import Failed, same, until

STALE = "devices that the kubelet keeps though nobody serves them hold the agent back no longer, beside sockets of others"
ONCE = ["/show-devices", "once"]
OTHER_PLUGIN = "another plugin that does serve the resource holds the agent back until it goes"


def field(number, value):
    """Of a protobuf message, shorter than 128 bytes."""
    value = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(value)]) + value


class OtherPlugin:
    """A device plugin that lists these IDs."""

    def __init__(self, path, *ids):
        self.path = path
        message = b"".join(field(1, field(1, one) + field(2, "Healthy")) for one in ids)
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))

        def watch(_request, context):
            yield message
            while context.is_active():
                time.sleep(0.1)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(lambda _request, _context: b""),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(watch)}),))
        self.server.add_insecure_port(f"unix:{path}")
        self.server.start()

    def stop(self):
        self.server.stop(None).wait()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class PluginCases:
    """On a node whose agent runs."""

    def __init__(self, report, cluster, node, before):
        """`before` stands in front of each case's name."""
        self.report, self.cluster, self.node, self.before = report, cluster, node, before
        self.times = 3 if report.is_quick else 20  # of restarts
        self.directory = cluster.kubelet_dir(node.number) / "device-plugins"

    def register(self, endpoint):
        with grpc.insecure_channel(f"unix:{self.directory / 'kubelet.sock'}",
                                   [("grpc.default_authority", "localhost")]) as channel:
            channel.unary_unary("/v1beta1.Registration/Register")(
                field(1, "v1beta1") + field(2, endpoint) + field(3, RESOURCE), timeout=30)

    @contextlib.contextmanager
    def others(self):
        """A socket that says nothing, and a plugin of another resource."""
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(self.directory / "silent.sock"))
            silent.listen()
            nics = OtherPlugin(self.directory / "nics.sock", "nic-0")
            try:
                yield
            finally:
                nics.stop()
                os.unlink(self.directory / "silent.sock")

    def stale(self):
        with self.others():
            try:
                self.register("nobody.sock")
                raise Failed("the kubelet has registered a plugin that is not there")
            except grpc.RpcError:
                pass
            self.node.agent.stop()
            time.sleep(1)
            kept = len(self.node.usage.allocatable())
            start = time.monotonic()
            self.node.agent.start()
            until("the agent to register", lambda: self.node.agent.metric("gputopo_plugin_registered") == 1)
            took = time.monotonic() - start
            self.node.registered()
            same(self.node.agent.metric("gputopo_registration_failures_total"), 0, "failed registrations")
        return f"the kubelet kept {kept} devices that nobody served; registered after {took:.1f} s"

    def other_plugin(self):
        self.node.agent.stop()
        other = OtherPlugin(self.directory / "other.sock", "x-0", "x-1")
        try:
            self.register("other.sock")
            until("the other plugin's devices", lambda: self.node.usage.allocatable() == {"x-0", "x-1"})
            before = self.node.agent.log.stat().st_size
            self.node.agent.begin()

            def said():
                return [line for line in self.node.agent.log.read_text()[before:].splitlines()
                        if "another device plugin serves 2 devices" in line and "other.sock" in line]
            until("the agent to hold back", said, 60)
            same(self.node.usage.allocatable(), {"x-0", "x-1"}, "devices while the agent holds back")
        finally:
            other.stop()
        self.node.registered()

    def descriptors(self):
        return self.node.agent.metric("process_open_fds")

    def memory(self):
        with open(f"/proc/{self.node.agent.pid()}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:"))

    @quick
    def restarts(self):
        """Killed and stopped in turn: each time the same assignments, and one more registration at least."""
        used, took = self.node.used(), []
        descriptors, memory = self.descriptors(), self.memory()
        for number in range(self.times):
            before, start = self.node.agent.metric("gputopo_registrations_total"), time.monotonic()
            self.cluster.kill_kubelet(self.node.number, "KILL" if number % 2 else "TERM")
            until("another registration", lambda before=before:
                  (self.node.agent.metric("gputopo_registrations_total") or 0) > before)
            self.node.registered()
            until("the assignments from before", lambda: self.node.used() == used or (False, self.node.used()))
            took.append(time.monotonic() - start)
        until("the plugin to be registered", lambda: self.node.agent.metric("gputopo_plugin_registered") == 1)
        until("no more descriptors than before",
              lambda: self.descriptors() <= descriptors + 1 or (False, self.descriptors()), 60)
        grown = self.memory() - memory
        if grown > 100 * self.times:
            raise Failed(f"{grown} kB more memory after {self.times} restarts")
        return (f"{len(used)} container(s) kept their GPUs, {min(took):.1f} to {max(took):.1f} s each, descriptors "
                f"{descriptors:.0f} -> {self.descriptors():.0f}, anonymous memory {memory} -> {memory + grown} kB")

    def run(self):
        self.report.case(self.before + STALE, self.stale)
        self.report.case(self.before + OTHER_PLUGIN, self.other_plugin)


class LifeCases:
    """What Kubernetes' own tests show of pods with devices (test/e2e_node/device_plugin_test.go), by our plugin."""

    def __init__(self, report, cases):
        self.report, self.of, self.cluster, self.node = report, cases, cases.cluster, cases.node

    def create(self, name, spec):
        pod = manifest(name, 1)
        pod["spec"].update(spec)
        self.cluster.kubectl("create", "-f", "-", data=pod)

    def phase(self, name):
        return self.of.pod(name)["status"]["phase"]

    def again(self):
        """After a restart of the kubelet."""
        self.node.registered()
        self.of.wait_counts(8, 8, time.time())

    def succeeded(self):
        ended = {**manifest("done", 1)["spec"]["containers"][0], "command": ONCE}
        self.create("done", {"containers": [ended], "restartPolicy": "Never"})
        until("the pod to be done", lambda: self.phase("done") == "Succeeded")
        self.node.agent.stop()
        self.cluster.kill_kubelet(1, "KILL")
        self.of.wait_counts(0, 0, time.time())
        same(self.phase("done"), "Succeeded", "phase after the restart, without the plugin")
        self.node.agent.start()
        self.again()
        same(self.node.used(), {}, "GPUs in use")
        self.of.delete("done")

    def deleted_meanwhile(self):
        self.create("gone", {})
        self.of.wait_running("gone")
        self.cluster.ask("control", "kill", "-STOP", self.cluster.kubelet_pid(1))
        self.cluster.kubectl("delete", "pod", "gone", "--force", "--grace-period=0")
        self.cluster.kill_kubelet(1, "KILL")
        self.again()
        until("its GPU to be free", lambda: self.node.used() == {} or (False, self.node.used()))
        self.of.create("first", 0)  # before it has the API server's pods the kubelet takes no device back
        self.of.wait_running("first")
        same(self.of.admit("all", 8), list(range(8)), "GPUs of the next pod")
        self.of.delete("first", "all")

    def init_containers(self):
        one = manifest("init", 1)["spec"]["containers"][0]
        self.create("init", {"initContainers": [{**one, "name": "first", "command": ONCE},
                                                {**one, "name": "beside", "restartPolicy": "Always"}]})
        self.of.wait_running("init")
        first, beside, main = (self.node.seen("init", name).made_up() for name in ("first", "beside", "c0"))
        same(beside, first, "device nodes of the restartable init container, which comes after the ordinary one")
        if set(main) == set(first):
            raise Failed("the container has the GPU of the restartable init container")
        same(set(self.node.used()), {("init", "beside"), ("init", "c0")}, "holders of GPUs")
        self.of.delete("init")

    def run(self):
        for name, run in (("a pod that has succeeded stays so when kubelet and plugin go", self.succeeded),
                          ("a pod deleted while the kubelet is away leaves its GPU", self.deleted_meanwhile),
                          ("a restartable init container takes the GPU of an ordinary one, the container another",
                           self.init_containers)):
            if not self.report.case(name, run):
                self.of.reset()
