#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A double of the kubelet's device manager, for tests and for the demo.

It serves Registration on DIR/device-plugins/kubelet.sock, dials plugins back, follows their ListAndWatch and
admits pods as the kubelet does: GetPreferredAllocation, then Allocate, one container after the other. What a
pod got is kept in a checkpoint file and survives a restart; the pod-resources API, v1, tells it.

As a program:  kubelet_double.py DIR [--json]      and on standard input, one command a line:
    admit NAME K [K...]   a pod with one container for each K
    release NAME
    list                  devices and pods
    wait N [SECONDS]      until N devices are healthy
    restart               stop, delete the sockets, start again
    quit
"""

import argparse
import concurrent.futures
import contextlib
import importlib
import json
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time

import grpc

HERE = os.path.dirname(os.path.abspath(__file__))
RESOURCE = "metax-tech.com/gpu"
DIAL_SECONDS = 10
QUIET = 0.3  # seconds without a call after which the agent may ask what is used


def load_api():
    """Generates the messages and stubs of kubelet_api.proto and imports them."""
    made = tempfile.mkdtemp(prefix="kubelet-api-")
    try:
        subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", "-I", HERE, "--python_out", made,
             "--grpc_python_out", made, os.path.join(HERE, "kubelet_api.proto")], check=True)
        sys.path.insert(0, made)
        try:
            return importlib.import_module("kubelet_api_pb2"), importlib.import_module("kubelet_api_pb2_grpc")
        finally:
            sys.path.remove(made)
    finally:
        shutil.rmtree(made)


pb, stubs = load_api()


class AdmissionError(Exception):
    """The pod does not get its devices (UnexpectedAdmissionError)."""


class Plugin:
    """The kubelet's end of one registered plugin."""

    def __init__(self, path, endpoint):
        self.endpoint = endpoint
        self.channel = grpc.insecure_channel("unix:" + path, options=[
            ("grpc.default_authority", "localhost"),
            ("grpc.use_local_subchannel_pool", 1)])  # two of them to one socket are two connections
        self.stub = stubs.DevicePluginStub(self.channel)
        self.options = None
        self.stream = None
        self.messages = 0

    def close(self):
        if self.stream:
            self.stream.cancel()
        self.channel.close()


class Second:
    """What the kubelet knows of one further resource: its plugin and devices, and who has which of them."""

    def __init__(self):
        self.plugin = None
        self.devices = {}  # ID -> healthy
        self.registrations = 0
        self.lists = []  # every ListAndWatch message, as {ID: healthy}
        self.streams_ended = 0

    def take_list(self, message):
        self.devices = {device.ID: device.health == "Healthy" for device in message.devices}
        self.lists.append(self.devices)

    def forget(self):
        self.plugin, self.devices = None, {}


class Book:
    """The kubelet's pod-resources API on DIR/pod-resources/kubelet.sock: what it answers, and its faults."""

    NAMESPACE = "default"

    def __init__(self, kubelet):
        self.kubelet = kubelet
        self.directory = os.path.join(kubelet.root, "pod-resources")
        self.socket = os.path.join(self.directory, "kubelet.sock")
        self.server = None
        self.started = 0.0
        self.calls = []  # (time, method, status)
        self.left = []  # of each call that ended while it hung: seconds to its deadline
        self.during_rpc = 0  # Lists that came while a call to the plugin was under way
        self.untimely = 0  # those of them for which the calls before left no pause of QUIET
        self.serves = True  # False: there is no socket
        self.empty_for = 1.0  # this long after a start the checkpoint is not read yet
        self.unavailable = False
        self.exhausted = 0  # this many calls are refused as if they came too often
        self.limit = 100.0  # calls a second, with a burst of 10
        self.tokens, self.refilled = 10.0, 0.0
        self.hang = 0.0  # this long an answer takes
        self.padding = 0  # bytes of pods without devices in front
        self.extra = []  # (namespace, pod, container, resource, IDs), listed besides
        self.others = []  # devices of the resource that another plugin serves
        self.elsewhere = {}  # resource -> healthy devices of another plugin
        self.lost = None  # the plugin whose devices it has lost, though their stream goes on
        self.shows_waiting = True  # a pod that is being admitted is listed with what it has so far

    def start(self):
        """As KubeletDouble._serve(): listens elsewhere, so that the socket's place is ours alone."""
        if not self.serves:
            return
        os.makedirs(self.directory, exist_ok=True)
        path = os.path.join(self.kubelet.root, f".book-{self.kubelet.servers}.sock")
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4),
                                  options=[("grpc.max_send_message_length", -1)])
        methods = {name: grpc.unary_unary_rpc_method_handler(
            self._counted(name, answer), request_deserializer=request.FromString,
            response_serializer=lambda message: message.SerializeToString())
            for name, answer, request in [("List", self._list, pb.ListPodResourcesRequest),
                                          ("Get", self._get, pb.GetPodResourcesRequest),
                                          ("GetAllocatableResources", self._allocatable,
                                           pb.AllocatableResourcesRequest)]}
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1.PodResourcesLister", methods),))
        self.server.add_insecure_port("unix:" + path)
        self.server.start()
        if os.path.lexists(self.socket):
            os.unlink(self.socket)
        os.link(path, self.socket)
        self.started = time.monotonic()

    def lists(self):
        return [call for call in self.calls if call[1] == "List"]

    def stop(self, leave_socket=True):
        if self.server:
            self.server.stop(None).wait()
            self.server = None
        if not leave_socket and os.path.lexists(self.socket):
            os.unlink(self.socket)

    def _limited(self):
        if self.exhausted:
            self.exhausted -= 1
            return True
        now = time.monotonic()
        self.tokens = min(10.0, self.tokens + (now - self.refilled) * self.limit)
        self.refilled = now
        if self.tokens < 1:
            return True
        self.tokens -= 1
        return False

    def _counted(self, name, answer):
        def call(request, context):
            began = time.monotonic()
            with self.kubelet.changed_now:
                self.during_rpc += name == "List" and self.kubelet.calling > 0
                code = (grpc.StatusCode.RESOURCE_EXHAUSTED if self._limited()
                        else grpc.StatusCode.UNAVAILABLE if self.unavailable else grpc.StatusCode.OK)
                self.calls.append((began, name, code))
                self.kubelet.changed_now.notify_all()
            end = began + self.hang
            while time.monotonic() < end and context.is_active():
                time.sleep(0.02)
            if not context.is_active():
                with self.kubelet.changed_now:
                    self.left.append(context.time_remaining())
                    self.kubelet.changed_now.notify_all()
            if code != grpc.StatusCode.OK:
                context.abort(code, "rejected by rate limit" if code == grpc.StatusCode.RESOURCE_EXHAUSTED
                              else "refused by the test")
            return answer(request, context)
        return call

    def _pods(self):
        """{(namespace, pod): [(container, resource, IDs)...]}"""
        if time.monotonic() - self.started < self.empty_for:
            return {}
        pods = {(self.NAMESPACE, pod): [(f"c{i}", RESOURCE, ids) for i, ids in enumerate(containers)]
                for pod, containers in list(self.kubelet.pods.items())}
        if self.shows_waiting and self.kubelet.admitting:
            pod, count = self.kubelet.admitting
            has = pods.get((self.NAMESPACE, pod), [])
            pods[self.NAMESPACE, pod] = has + [(f"c{i}", RESOURCE, []) for i in range(len(has), count)]
        for namespace, pod, container, resource, ids in self.extra:
            pods.setdefault((namespace, pod), []).append((container, resource, ids))
        return pods

    @staticmethod
    def _message(who, containers):
        return pb.PodResources(namespace=who[0], name=who[1], containers=[
            pb.ContainerResources(name=name, cpu_ids=[0, 1], devices=[
                pb.ContainerDevices(resource_name=resource, device_ids=[one],
                                    topology=pb.TopologyInfo(nodes=[pb.NUMANode(ID=0)])) for one in ids])
            for name, resource, ids in containers])

    def _list(self, _request, _context):
        pods = [pb.PodResources(namespace=self.NAMESPACE, name=f"padding-{i}-" + "x" * 1000)
                for i in range(self.padding // 1024)]
        return pb.ListPodResourcesResponse(
            pod_resources=pods + [self._message(*entry) for entry in self._pods().items()])

    def _get(self, request, context):
        who = (request.pod_namespace, request.pod_name)
        if who not in self._pods():
            context.abort(grpc.StatusCode.UNKNOWN, f"pod {who[1]} in namespace {who[0]} not found")
        return pb.GetPodResourcesResponse(pod_resources=self._message(who, self._pods()[who]))

    def _allocatable(self, _request, _context):
        return pb.AllocatableResourcesResponse(
            devices=[pb.ContainerDevices(resource_name=RESOURCE, device_ids=[name])
                     for name in [*self._ours(), *self.others]]
            + [pb.ContainerDevices(resource_name=resource, device_ids=[name])
               for resource, second in list(self.kubelet.seconds.items()) for name in second.devices]
            + [pb.ContainerDevices(resource_name=resource, device_ids=[name])
               for resource, names in self.elsewhere.items() for name in names])

    def _ours(self):
        return [] if self.lost and self.kubelet.plugin is self.lost else self.kubelet.healthy()


class KubeletDouble(stubs.RegistrationServicer):
    def __init__(self, directory, remembers_old_streams=True):
        self.root = directory
        self.directory = os.path.join(directory, "device-plugins")
        self.socket = os.path.join(self.directory, "kubelet.sock")
        self.checkpoint = os.path.join(self.directory, "kubelet_double_checkpoint")
        # Kubelets up to 1.36: when an older plugin's stream ends, the newer one is cut off too.
        self.remembers_old_streams = remembers_old_streams
        self.changed = threading.Condition(threading.RLock())
        self.server = None
        self.servers = 0
        self.plugin = None
        self.seconds = {}  # resource -> Second, of resources that are not the GPUs'
        self.devices = {}  # ID -> (healthy, NUMA node or None)
        self.order = []  # IDs in the plugin's order
        self.pods = {}  # name -> [[ID...] for each container]
        self.responses = {}  # name -> [ContainerAllocateResponse...]
        self.registrations = []  # (time, endpoint, accepted)
        self.lists = []  # every ListAndWatch message, as {ID: healthy}
        self.streams_ended = 0
        self.refuse = 0  # this many Register calls are refused
        self.hang = 0.0  # this long Register waits before it does anything, or until this is 0 again
        self.hanging = 0  # calls of Register that did
        self.skip_stream = 0  # this many accepted plugins get no ListAndWatch
        self.drop_at_once = 0  # this many get it ended after the first message
        self.changed_now = threading.Condition()  # what may not wait for a pod's admission
        self.calling = 0  # calls to the plugin that are under way
        self.called = 0.0  # when the last one began
        self.admitting = None  # (pod, number of its containers); init containers are never listed
        self.book = Book(self)
        self._read_checkpoint()

    # ---- the kubelet's life ----

    def start(self, make_directory=True):
        if make_directory:
            os.makedirs(self.directory, exist_ok=True)
        for name in os.listdir(self.directory):  # as the kubelet does, before it listens
            path = os.path.join(self.directory, name)
            try:
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    os.unlink(path)
            except FileNotFoundError:
                pass  # its owner was quicker
        self._serve()
        self.book.start()

    def _serve(self):
        """Listens elsewhere and links the socket to its place: gRPC removes a server's path when it ends,
        whoever owns it by then, while a kubelet leaves its dead socket behind."""
        self.servers += 1
        path = os.path.join(self.root, f".kubelet-{self.servers}.sock")
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=8))
        stubs.add_RegistrationServicer_to_server(self, server)
        server.add_insecure_port("unix:" + path)
        server.start()
        self.server = server
        os.link(path, self.socket)

    def _plugins(self):
        return [self.plugin, *(second.plugin for second in self.seconds.values())]

    def _forget(self, plugins):
        with self.changed:
            if self.plugin in plugins:
                self.plugin = None
                self.devices = {}
            for second in self.seconds.values():
                if second.plugin in plugins:
                    second.forget()
        for plugin in plugins:
            if plugin:
                plugin.close()

    def stop(self, leave_socket=True):
        # The server first: a kubelet that has ended takes no registration of the plugin whose stream it ended.
        server, self.server = self.server, None
        if server:
            server.stop(None).wait()
        self._forget(self._plugins())
        self.book.stop(leave_socket)
        if not leave_socket and os.path.exists(self.socket):
            os.unlink(self.socket)

    def restart(self):
        self.stop()
        self.start()

    def replace_socket(self, end_stream=True):
        """A new server and socket under the same name at once; the old one says no farewell, but its stream
        to the plugin may end. Returns the old server, to be stopped."""
        old, plugins = self.server, self._plugins()
        os.unlink(self.socket)
        self._serve()
        if end_stream:
            self._forget(plugins)  # the new server may have it again by now
        return old

    # ---- registration ----

    def Register(self, request, context):  # noqa: N802, gRPC's name
        if request.resource_name != RESOURCE:
            return self._register_second(request, context)
        server, end = self.server, time.monotonic() + self.hang
        with self.changed:
            self.hanging += self.hang > 0
            self.changed.notify_all()
        while self.hang and self.server and time.monotonic() < end:
            time.sleep(0.02)
        with self.changed:
            refused = self.refuse > 0
            self.refuse -= refused
            self.registrations.append((time.monotonic(), request.endpoint, not refused))
            self.changed.notify_all()
        if refused:
            context.abort(grpc.StatusCode.UNAVAILABLE, "refused by the test")
        if request.version != "v1beta1":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"version {request.version!r}")
        if "/" in request.endpoint or not request.endpoint:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"endpoint {request.endpoint!r}")
        plugin = Plugin(os.path.join(self.directory, request.endpoint), request.endpoint)
        try:  # the dial and this call are within Register
            plugin.options = plugin.stub.GetDevicePluginOptions(
                pb.Empty(), timeout=DIAL_SECONDS, wait_for_ready=True)
        except grpc.RpcError as error:
            plugin.close()
            with self.changed:
                # As kubelets up to 1.36: the entry of the resource goes, so that nobody notices when the stream
                # of the plugin before ends, and its devices stay as they are.
                self.plugin = None
            context.abort(grpc.StatusCode.UNAVAILABLE, f"dial {request.endpoint}: {error.code()}")
        with self.changed:
            gone = self.server is not server  # stopped or replaced meanwhile
            skip = not gone and self.skip_stream > 0
            self.skip_stream -= skip
            if not gone:
                self.plugin = plugin
            self.changed.notify_all()
        if gone:
            plugin.close()
            context.abort(grpc.StatusCode.UNAVAILABLE, "this kubelet has ended")
        if not skip:
            threading.Thread(target=self._follow, args=(plugin,), daemon=True).start()
        return pb.Empty()

    def _register_second(self, request, context):
        plugin = Plugin(os.path.join(self.directory, request.endpoint), request.endpoint)
        try:
            plugin.options = plugin.stub.GetDevicePluginOptions(
                pb.Empty(), timeout=DIAL_SECONDS, wait_for_ready=True)
        except grpc.RpcError as error:
            plugin.close()
            context.abort(grpc.StatusCode.UNAVAILABLE, f"dial {request.endpoint}: {error.code()}")
        with self.changed:
            second = self.seconds.setdefault(request.resource_name, Second())
            second.plugin = plugin
            second.registrations += 1
            self.changed.notify_all()
        threading.Thread(target=self._follow_second, args=(second, plugin), daemon=True).start()
        return pb.Empty()

    def _follow_second(self, second, plugin):
        try:
            plugin.stream = plugin.stub.ListAndWatch(pb.Empty())
            for message in plugin.stream:
                with self.changed:
                    if plugin is second.plugin:
                        second.take_list(message)
                    self.changed.notify_all()
        except (grpc.RpcError, ValueError):
            pass
        with self.changed:
            second.streams_ended += 1
            if plugin is second.plugin:
                second.forget()
            self.changed.notify_all()
        plugin.channel.close()

    def admit_second(self, resource):
        """A pod that asks for the one device of a further resource: the response to its container. The plugin is
        not asked under the lock, so that a test sees what it does meanwhile."""
        with self.changed:
            second = self.seconds.get(resource)
            if not second or not second.plugin or not any(second.devices.values()):
                raise AdmissionError(f"no healthy devices present for {resource}")
            plugin, name = second.plugin, next(iter(second.devices))
        try:
            answer = plugin.stub.Allocate(pb.AllocateRequest(
                container_requests=[pb.ContainerAllocateRequest(devices_ids=[name])]))
        except grpc.RpcError as error:
            raise AdmissionError(f"{error.code().name}: {error.details()}") from error
        return answer.container_responses[0]

    def _follow(self, plugin):
        try:
            plugin.stream = plugin.stub.ListAndWatch(pb.Empty())
            for message in plugin.stream:
                with self.changed:
                    plugin.messages += 1
                    if plugin is self.plugin:
                        self._take_list(message)
                    drop = self.drop_at_once > 0
                    self.drop_at_once -= drop
                if drop:
                    plugin.stream.cancel()
        except (grpc.RpcError, ValueError):
            pass
        with self.changed:
            self.streams_ended += 1
            if plugin is self.plugin or (self.plugin and self.remembers_old_streams):
                other = self.plugin
                self.plugin = None
                self.devices = {name: (False, numa) for name, (_, numa) in self.devices.items()}
                if other is not plugin:
                    other.close()
            self.changed.notify_all()
        plugin.channel.close()

    def _take_list(self, message):
        self.order = [device.ID for device in message.devices]
        self.devices = {
            device.ID: (device.health == "Healthy",
                        device.topology.nodes[0].ID if device.HasField("topology") else None)
            for device in message.devices}
        self.lists.append({name: healthy for name, (healthy, _) in self.devices.items()})
        self.changed.notify_all()

    # ---- faults ----

    def drop_stream(self):
        with self.changed:
            plugin = self.plugin
        plugin.stream.cancel()

    def plugin_socket(self):
        with self.changed:
            return os.path.join(self.directory, self.plugin.endpoint)

    # ---- what tests ask ----

    def wait(self, condition, seconds=60.0):
        """Until condition() holds, looked at after every change; whether it does."""
        with self.changed:
            return self.changed.wait_for(condition, seconds)

    def healthy(self):
        with self.changed:
            return [name for name in self.order if self.devices.get(name, (False,))[0]]

    def wait_healthy(self, count, seconds=60.0):
        return self.wait(lambda: len(self.healthy()) == count and self.plugin, seconds)

    def used(self):
        return {name for pod in self.pods.values() for container in pod for name in container}

    def free(self):
        used = self.used()
        return [name for name in self.healthy() if name not in used]

    # ---- pods ----

    @contextlib.contextmanager
    def _under_way(self):
        with self.changed_now:
            self.calling += 1
            last, self.called = self.called, time.monotonic()
            lists = self.book.during_rpc
        try:
            yield
        finally:
            with self.changed_now:
                self.calling -= 1
                if time.monotonic() - last < QUIET:  # both calls, as the plugin had them, are within that
                    self.book.untimely += self.book.during_rpc - lists

    def _prefer(self, plugin, available, must, size):
        response = plugin.stub.GetPreferredAllocation(
            pb.PreferredAllocationRequest(container_requests=[pb.ContainerPreferredAllocationRequest(
                available_deviceIDs=random.sample(available, len(available)),  # Go's maps have no order
                must_include_deviceIDs=must, allocation_size=size)]))
        return list(response.container_responses[0].deviceIDs) if response.container_responses else []

    def _choose(self, plugin, size, aligned, reusable=()):
        """The kubelet's devicesToAllocate for one container; what init containers had comes first."""
        available = self.free()
        if len(reusable) >= size:
            return random.sample(list(reusable), size)
        if len(available) < size:
            raise AdmissionError(
                f"requested number of devices unavailable for {RESOURCE}: "
                f"requested {size}, available {len(available)}")
        taken = []

        def take(names):
            for name in names:
                if name in available and name not in taken and len(taken) < size:
                    taken.append(name)

        take(reusable)

        aligned = [name for name in aligned or [] if name in available]
        preferred = plugin.options.get_preferred_allocation_available
        if len(aligned) > size and not taken:
            if preferred:
                answer = self._prefer(plugin, aligned, [], size)
                take(random.sample([name for name in answer if name in aligned],
                                   len([name for name in answer if name in aligned])))
            take(random.sample(aligned, len(aligned)))
            return taken
        take(aligned)
        if len(taken) < size and preferred:
            answer = self._prefer(plugin, available, list(taken), size)
            take(random.sample(answer, len(answer)) if len(answer) > size else answer)
        take(random.sample(available, len(available)))
        return taken

    def _give(self, plugin, size, aligned, reusable):
        """GetPreferredAllocation and Allocate for one container: its devices and the response."""
        names = self._choose(plugin, size, aligned, reusable)
        answer = plugin.stub.Allocate(pb.AllocateRequest(
            container_requests=[pb.ContainerAllocateRequest(devices_ids=names)]))
        if len(answer.container_responses) != 1:
            raise AdmissionError(f"{len(answer.container_responses)} container responses")
        return names, answer.container_responses[0]

    def admit(self, pod, *sizes, aligned=None, init=()):
        """Returns the IDs of each container. A pod that is known keeps what it has. `init` are the sizes of
        ordinary init containers, whose devices the others take over."""
        with self.changed, self._under_way():
            if pod in self.pods:
                return self.pods[pod]
            self.admitting = (pod, len(sizes))
            try:
                return self._admit(pod, sizes, aligned, init)
            finally:
                self.admitting = None

    def _admit(self, pod, sizes, aligned, init):
        plugin = self.plugin
        if not plugin or not self.order:
            raise AdmissionError(f"no healthy devices present for {RESOURCE}")
        chosen, responses, reusable = [], [], []
        try:
            for size in init:
                names, _ = self._give(plugin, size, aligned, reusable)
                reusable += [name for name in names if name not in reusable]
            for size in sizes:
                names, response = self._give(plugin, size, aligned, reusable)
                reusable = [name for name in reusable if name not in names]
                chosen.append(names)
                responses.append(response)
                self.pods[pod] = chosen
        except grpc.RpcError as error:
            self.pods.pop(pod, None)
            raise AdmissionError(f"{error.code().name}: {error.details()}") from error
        except AdmissionError:
            self.pods.pop(pod, None)
            raise
        self.responses[pod] = responses
        self._write_checkpoint()
        return chosen

    def release(self, pod):
        with self.changed:
            if self.pods.pop(pod, None) is None:
                raise AdmissionError(f"no pod {pod}")
            self.responses.pop(pod, None)
            self._write_checkpoint()

    def _write_checkpoint(self):
        with open(self.checkpoint + ".new", "w", encoding="utf-8") as file:
            json.dump(self.pods, file)
        os.rename(self.checkpoint + ".new", self.checkpoint)

    def _read_checkpoint(self):
        try:
            with open(self.checkpoint, encoding="utf-8") as file:
                self.pods = json.load(file)
        except FileNotFoundError:
            self.pods = {}


# ---- as a program ----


class Console:
    def __init__(self, kubelet, as_json):
        self.kubelet = kubelet
        self.as_json = as_json

    def say(self, text, **facts):
        print(json.dumps(facts) if self.as_json else text, flush=True)

    def show_pod(self, pod):
        containers = self.kubelet.pods[pod]
        count = sum(len(names) for names in containers)
        text = " | ".join(", ".join(names) for names in containers)
        self.say(f"{pod:<16} {count} GPU{'s' if count != 1 else ' '}  {text}", pod=pod, containers=containers)

    def admit(self, pod, *sizes):
        sizes = [int(size) for size in sizes]
        try:
            self.kubelet.admit(pod, *sizes)
            self.show_pod(pod)
        except AdmissionError as error:
            self.say(f"{pod:<16} refused: {error}", pod=pod, error=str(error))

    def release(self, pod):
        self.kubelet.release(pod)
        self.say(f"{pod:<16} released", pod=pod, released=True)

    def list(self):
        with self.kubelet.changed:
            healthy, free = self.kubelet.healthy(), self.kubelet.free()
            order, pods = list(self.kubelet.order), dict(self.kubelet.pods)
        self.say(f"{RESOURCE}: {len(order)} in all, {len(healthy)} healthy, {len(free)} free",
                 devices=order, healthy=healthy, free=free, pods=pods)
        for name in order:
            if name not in healthy and not self.as_json:
                print(f"  unhealthy: {name}", flush=True)
        for pod in pods:
            if not self.as_json:
                self.show_pod(pod)

    def wait(self, count, seconds="15"):
        done = bool(self.kubelet.wait_healthy(int(count), float(seconds)))
        number = len(self.kubelet.healthy())
        self.say(f"{number} healthy" if done else f"still {number} healthy, not {count}", healthy=number,
                 reached=done)

    def restart(self):
        self.kubelet.restart()
        self.say("kubelet restarted", restarted=True)

    def run(self, lines):
        commands = {"admit": self.admit, "release": self.release, "list": self.list, "wait": self.wait,
                    "restart": self.restart}
        for line in lines:
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "quit":
                return
            try:
                commands[words[0]](*words[1:])
            except (KeyError, TypeError, ValueError, AdmissionError) as error:
                self.say(f"cannot do \"{line.strip()}\": {error}", command=line.strip(), error=str(error))


def main():
    parser = argparse.ArgumentParser(description="A double of the kubelet's device manager.")
    parser.add_argument("directory", help="the kubelet's directory (--kubelet-dir of the agent)")
    parser.add_argument("--json", action="store_true", help="answer in JSON, one object a line")
    arguments = parser.parse_args()
    kubelet = KubeletDouble(arguments.directory)
    kubelet.start()
    console = Console(kubelet, arguments.json)
    console.say(f"kubelet double on {kubelet.socket}", socket=kubelet.socket)
    try:
        console.run(sys.stdin)
    except KeyboardInterrupt:
        pass
    kubelet.stop(leave_socket=False)


if __name__ == "__main__":
    main()
