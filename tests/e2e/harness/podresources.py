# SPDX-License-Identifier: Apache-2.0
"""The kubelet's usage table (which container has which device): a client of its pod-resources API, v1."""
import grpc


def fields(data):
    """The length-delimited fields of a protobuf message, the only ones that are of interest here."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 2:
            size = varint()
            yield key >> 3, data[at:at + size]
            at += size
        elif key & 7 == 0:
            varint()
        else:
            at += {1: 8, 5: 4}[key & 7]


def text(data, number):
    return next((value.decode() for key, value in fields(data) if key == number), "")


def devices(data, number, resource):
    """The device IDs of a resource in a list of ContainerDevices."""
    return {value.decode() for key, entry in fields(data) if key == number and text(entry, 1) == resource
            for inner, value in fields(entry) if inner == 2}


class PodResources:
    def __init__(self, kubelet_dir, resource="metax-tech.com/gpu"):
        self.socket, self.resource = kubelet_dir / "pod-resources" / "kubelet.sock", resource

    def call(self, method):
        # a channel for each call: the kubelet restarts between them
        with grpc.insecure_channel(f"unix:{self.socket}", [("grpc.default_authority", "localhost")]) as channel:
            return channel.unary_unary("/v1.PodResourcesLister/" + method)(b"", timeout=10)

    def allocatable(self):
        try:
            return devices(self.call("GetAllocatableResources"), 1, self.resource)
        except grpc.RpcError:
            return set()

    def used(self):
        """{(pod, container): IDs}, for containers that have any."""
        pods = [pod for key, pod in fields(self.call("List")) if key == 1]
        held = {(text(pod, 1), text(container, 1)): devices(container, 2, self.resource)
                for pod in pods for key, container in fields(pod) if key == 3}
        return {who: ids for who, ids in held.items() if ids}
