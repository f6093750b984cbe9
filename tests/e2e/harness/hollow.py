# SPDX-License-Identifier: Apache-2.0
"""Nodes that exist only in the API, beside those with a kubelet; ../hollow acts as their kubelets and starts their
agents."""
import json

from .cluster import HERE
from .machine import ask
from .recordings import MACHINES
from .waiting import Failed, until

RESOURCE = "metax-tech.com/gpu"
PREFIX = "hollow-"
APPLY = ("apply", "--server-side", "--force-conflicts", "--validate=false")


def name(rack, number):
    return f"{PREFIX}{rack}-{number}"


class HollowNodes:
    def __init__(self, cluster, build, racks, renew=None):
        """`racks`: {number of a rack: how many nodes}; the machines are C500s, two meshes of four GPUs. `renew`: they renew
        their leases after so many seconds, else never."""
        self.cluster, self.build, self.renew = cluster, build, renew
        self.names = [name(rack, number) for rack, count in racks.items() for number in range(count)]
        self.directory = cluster.state / "hollow"
        self.program = None

    def start(self):
        """After the DaemonSet, with whose account the agents publish."""
        recorded = ask(self.build / "bin" / "gputopo", "show", "--from", MACHINES / "c500-8.json", "-o", "json")
        self.directory.mkdir()
        for node in self.names:
            self.write(node, self.machine(recorded, node))
        self.apply([{"apiVersion": "v1", "kind": "Node",
                     "metadata": {"name": node, "labels": {"kubernetes.io/hostname": node, "pool": "hollow",
                                                           "rack": node.split("-")[1]}}} for node in self.names])
        self.apply([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": self.status()}
                    for node in self.names], "--subresource=status")
        log = open(self.cluster.state / "log" / "hollow", "a")
        self.program = self.cluster.enter("control", HERE / "hollow", self.cluster.state, PREFIX,
                                          *([self.renew] if self.renew else []), stdout=log, stderr=log)
        until("the hollow nodes and their agents", self.ready)
        until("the controller to have seen that they are ready", lambda: not [
            item for item in self.cluster.get("nodes")["items"] if item["spec"].get("taints")])

    def ready(self):
        if self.program.poll() is not None:
            raise Failed("the hollow nodes ended: " + (self.cluster.state / "log" / "hollow").read_text()[-500:])
        return (self.cluster.state / "hollow.ready").exists()

    def apply(self, items, *more):
        self.cluster.kubectl(*APPLY, "--field-manager=hollow", *more, "-f", "-",
                             data={"apiVersion": "v1", "kind": "List", "items": items})

    @staticmethod
    def status(gpus=8):
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", RESOURCE: str(gpus)}
        return {"capacity": amounts, "allocatable": amounts, "conditions": [
            {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": "Hollow", "message": "a node of the test"}
            for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")]}

    @staticmethod
    def machine(recorded, node):
        """The recorded one; no two GPUs and no two servers of a cluster have the same UUID."""
        gpus = [{**gpu, "uuid": f"GPU-{node}-{gpu['index']}"} for gpu in recorded["gpus"]]
        return {**recorded, "gpus": gpus, "supernode": None}

    def write(self, node, machine):
        part = self.directory / f"{node}.part"
        part.write_text(json.dumps(machine))
        part.rename(self.directory / f"{node}.json")

    # use

    def offer(self, node, gpus):
        """As where the device plugin has registered so many; the agent goes on to tell of all."""
        self.apply([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": self.status(gpus)}], "--subresource=status")

    def set_health(self, node, index, healthy):
        """Until the node's agent has published it."""
        machine = json.loads((self.directory / f"{node}.json").read_text())
        machine["gpus"][index]["healthy"] = healthy
        self.write(node, machine)
        self.cluster.ask("control", "kill", "-HUP", (self.directory / f"{node}.pid").read_text().strip())
        until(f"the agent of {node} to tell of GPU {index}",
              lambda: self.cluster.get("ngt", node)["status"]["gpus"][index]["healthy"] == healthy)

    def owners(self, node):
        """{(namespace, pod): the GPUs} as the node tells."""
        held = {}
        for one in self.cluster.get("ngt", node)["status"].get("owners", []):
            held.setdefault((one["namespace"], one["pod"]), []).append(one["gpu"])
        return held
