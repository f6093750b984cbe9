# SPDX-License-Identifier: Apache-2.0
"""One node under test: its kubelet, its machine and its agent, and the checks that every suite needs."""
from . import pods
from .agent import Agent
from .machine import Machine
from .podresources import PodResources
from .waiting import Failed, same, until


class Node:
    def __init__(self, cluster, build, recording, number=1):
        self.cluster, self.number = cluster, number
        self.machine = Machine(build / "bin" / "gputopo", recording, cluster.state / f"machine{number}", number)
        self.agent = Agent(cluster, build / "bin" / "gputopo-agent", self.machine, number)
        self.usage = PodResources(cluster.kubelet_dir(number))
        self.all = set(range(len(self.machine.gpus)))
        self.plain = None  # what a container without GPUs finds below /dev

    def used(self):
        """{(pod, container): indices} by the kubelet's usage table."""
        return {who: self.machine.indices(ids) for who, ids in self.usage.used().items()}

    def free(self):
        taken = [index for indices in self.used().values() for index in indices]
        if len(taken) != len(set(taken)):
            raise Failed(f"a GPU is in two containers: {self.used()}")
        return self.all - set(taken) - self.machine.sick - self.machine.lost

    def seen(self, pod, container="c0"):
        return until(f"the output of {pod}/{container}",
                     lambda: pods.read_log(self.cluster, self.number, pod, container), 60)

    def check_container(self, pod, container="c0"):
        """The container sees exactly the device nodes of the GPUs that the kubelet's usage table gives it, nothing else
        that a container without GPUs does not see, and their IDs and NICs in its environment. Returns the indices."""
        seen, who = self.seen(pod, container), (pod, container)
        got = self.used().get(who, [])
        same(seen.made_up(), self.machine.expected_nodes(got), f"device nodes in {pod}/{container}")
        if self.plain is not None:
            names = set(self.machine.expected_nodes(got)) | ({"dri"} if got else set())
            same(set(seen.dev), set(self.plain.dev) | names, f"names below /dev in {pod}/{container}")
        if got:
            ids = {pods_id for pods_id in self.usage.used()[who]}
            told = [name for name, value in seen.env.items() if set(value.split(",")) == ids]
            if not told:
                raise Failed(f"no variable of {pod}/{container} lists {sorted(ids)}: {seen.env}")
            order = [index for one in seen.env[told[0]].split(",") for index in self.machine.indices([one])]
            same(seen.env.get("METAX_GPU_NICS"), self.machine.nearest_nics(order), f"NICs told to {pod}/{container}")
        return got

    def registered(self, healthy=None):
        """Waits until the kubelet has this many healthy devices from the running plugin."""
        want = len(self.all) if healthy is None else healthy
        until(f"{want} devices in GetAllocatableResources",
              lambda: len(self.usage.allocatable()) == want or (False, len(self.usage.allocatable())))
