# SPDX-License-Identifier: Apache-2.0
"""gputopo-agent as a driver of Dynamic Resource Allocation, with a double of the API server and this program as the kubelet.

The first argument of the test is the agent."""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from api_double import ApiDouble
from dra_kubelet import DraKubelet
from kube_driver import kubeconfig
from kubelet_double import KubeletDouble
from daemon_driver import wait_for
from publish_driver import MACHINES, Agent

AGENT = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
DRIVER = "gpu.metax-tech.com"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = ("/apis/resource.k8s.io/v1", None, "resourceslices")
COUNTERS = f"n1-{DRIVER}-counters"


class DraCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.certificates = tempfile.mkdtemp(prefix="gputopo-dra-")
        cls.addClassCleanup(shutil.rmtree, cls.certificates, ignore_errors=True)
        cls.directory = tempfile.mkdtemp(prefix="gputopo-dra-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.kubelet = KubeletDouble(cls.directory)  # one for all: what a new one lists is not believed for ten seconds
        cls.kubelet.book.empty_for = 0
        cls.kubelet.start()
        cls.addClassCleanup(cls.kubelet.stop, leave_socket=False)
        cls.dev = f"{cls.directory}/dev"
        os.makedirs(f"{cls.dev}/dri")
        for name in ["mxcd", *(f"dri/card{i}" for i in range(16)), *(f"dri/renderD{128 + i}" for i in range(16))]:
            with open(f"{cls.dev}/{name}", "w", encoding="ascii"):
                pass

    def setUp(self):
        self.api = ApiDouble(self.certificates)
        self.addCleanup(self.api.stop)
        self.api.add("/api/v1/nodes", "n1")
        for name in ("plugins", "plugins_registry", "cdi"):
            shutil.rmtree(f"{self.directory}/{name}", ignore_errors=True)
        os.makedirs(f"{self.directory}/plugins")
        os.makedirs(f"{self.directory}/plugins_registry")
        self.machine = f"{self.directory}/node.json"
        shutil.copy(f"{MACHINES}/c500-8.json", self.machine)
        node = json.loads(subprocess.run([AGENT, "--oneshot", "--from", self.machine], stdout=subprocess.PIPE, check=True).stdout)
        self.names = ["gpu-" + gpu["bdf"].replace(":", "-").replace(".", "-") for gpu in node["gpus"]]
        self.agents = []
        self.addCleanup(self.end)

    def end(self):
        for agent in self.agents:
            code = agent.stop()
            if code:
                raise AssertionError(f"{code}: {agent.lines}")

    def sockets(self):
        return set(glob.glob(f"{self.directory}/plugins_registry/{DRIVER}-*-reg.sock"))

    def start(self, *arguments, advertise="dra", register=True, env=None):
        before = self.sockets()
        config = kubeconfig(f"{self.directory}/config", self.api.url,
                            f"certificate-authority: {self.certificates}/ca.crt", "token: token-1")
        agent = Agent(AGENT, self.directory, "--from", self.machine, "--dev-root", self.dev, "--kubeconfig", config,
                      f"--advertise={advertise}", "--cdi-dir", f"{self.directory}/cdi", *arguments, env=env)
        self.agents.append(agent)
        if advertise == "plugin":
            return None
        self.assertTrue(wait_for(lambda: self.sockets() - before), agent.lines)
        driver = DraKubelet((self.sockets() - before).pop())
        if register:
            driver.register()
            self.assertTrue(wait_for(self.slice), agent.lines)
        return driver

    def stop(self):
        agent = self.agents.pop()
        self.assertEqual(agent.stop(), 0, agent.lines)

    def slice(self):
        found = [obj for where, obj in list(self.api.objects.items()) if where[0] == SLICES and "sharedCounters" not in obj["spec"]]
        return found[0] if found else None

    def counters(self):
        found = [obj for where, obj in list(self.api.objects.items()) if where[0] == SLICES and where[1] == COUNTERS]
        return found[0] if found else None

    def composites(self):
        return [device["name"] for device in self.slice()["spec"]["devices"] if not device["name"].startswith("gpu-")]

    def place(self, index):
        return self.names[index].removeprefix("gpu-")

    def claim(self, name, *devices, pool="n1", driver=DRIVER, uid=None, pods=("p",), admin=False):
        """`devices`: GPUs by index, composites by name."""
        results = [{"request": "gpus", "driver": driver, "pool": pool,
                    "device": self.names[device] if isinstance(device, int) else device, "adminAccess": admin} for device in devices]
        self.api.add(CLAIMS, name, metadata={"uid": uid or f"uid-of-{name}"}, status={
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": "x"} for pod in pods]})

    def state(self):
        with open(f"{self.directory}/plugins/{DRIVER}/claims.json", encoding="utf-8") as file:
            return {one["name"]: sorted(device["device"] for device in one["devices"]) for one in json.load(file)["claims"]}

    def specs(self):
        return sorted(os.path.basename(path) for path in glob.glob(f"{self.directory}/cdi/*claim*"))
