# SPDX-License-Identifier: Apache-2.0
"""The kubelet's end of a driver of Dynamic Resource Allocation, for tests and benchmarks."""
import importlib
import os
import shutil
import subprocess
import sys
import tempfile

import grpc

HERE = os.path.dirname(os.path.abspath(__file__))
V1, V1BETA1 = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin"


def load_api():
    made = tempfile.mkdtemp(prefix="dra-api-")
    try:
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", HERE, "--python_out", made,
                        os.path.join(HERE, "dra_api.proto")], check=True)
        sys.path.insert(0, made)
        try:
            return importlib.import_module("dra_api_pb2")
        finally:
            sys.path.remove(made)
    finally:
        shutil.rmtree(made)


pb = load_api()


class DraKubelet:
    """The kubelet's end of one driver. `uids`: of claims by name, else made up."""

    def __init__(self, socket, uids=None):
        self.socket, self.uids = socket, {} if uids is None else uids
        self.channel = grpc.insecure_channel("unix:" + socket, options=[
            ("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)])

    def call(self, path, request, response, timeout=45):
        return self.channel.unary_unary(path, request_serializer=lambda message: message.SerializeToString(),
                                        response_deserializer=response.FromString)(request, timeout=timeout)

    def register(self, error=""):
        info = self.call("/pluginregistration.Registration/GetInfo", pb.Empty(), pb.PluginInfo, 10)
        self.call("/pluginregistration.Registration/NotifyRegistrationStatus",
                  pb.RegistrationStatus(plugin_registered=not error, error=error), pb.Empty, 10)
        return info

    def uid(self, name):
        return self.uids.get(name, f"uid-of-{name}")

    def claims(self, *names):
        return pb.NodePrepareResourcesRequest(claims=[pb.Claim(namespace="default", name=name, uid=self.uid(name)) for name in names])

    def prepare(self, *names, service=V1):
        """{claim: (devices, error)}"""
        answer = self.call(service + "/NodePrepareResources", self.claims(*names), pb.NodePrepareResourcesResponse)
        return {name: (sorted(device.device_name for device in answer.claims[self.uid(name)].devices),
                       answer.claims[self.uid(name)].error) for name in names}

    def unprepare(self, *names, service=V1):
        answer = self.call(service + "/NodeUnprepareResources", self.claims(*names), pb.NodeUnprepareResourcesResponse)
        if set(answer.claims) != {self.uid(name) for name in names}:
            raise AssertionError(answer)
        return [answer.claims[self.uid(name)].error for name in names]

    def health(self, service="/v1.DRAResourceHealth"):
        return self.channel.unary_stream(service + "/NodeWatchResources", request_serializer=lambda message: message.SerializeToString(),
                                         response_deserializer=pb.NodeWatchResourcesResponse.FromString)(pb.Empty())
