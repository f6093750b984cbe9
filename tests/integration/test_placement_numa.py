#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Plans that the kubelet's topology manager would refuse are not made.

Usage: test_placement_numa.py PLACEMENT_HOST [unittest arguments]
"""

import json
import unittest

from daemon_driver import wait_for
from placement_case import SUPERNODES, TOPOLOGIES, PlacementCase
from placement_driver import PLAN, RESOURCE, indexed_pod, node_status, planned_node, supernode_status, topology

SPREAD = [0, 1, 4, 5]  # in use, so that two GPUs are free on each of the two NUMA nodes


class PlacementNumaTest(PlacementCase):
    def node(self, name, policy="single-numa-node", scope="container", used=(), **kubelet):
        status = topology(name, used=[(gpu, "other", "pod") for gpu in used])
        for gpu in status["gpus"]:
            gpu["numaNode"] = gpu["index"] // 4
        status["kubelet"] = {"topologyManagerPolicy": policy, "topologyManagerScope": scope, **kubelet}
        self.api.add("/api/v1/nodes", name, metadata={"labels": {"kubernetes.io/hostname": name}}, spec={}, status=node_status())
        self.api.add(TOPOLOGIES, name, status=status)

    def nodes_of(self, *nodes):
        """Node s0-n0 is first in every order."""
        for number, node in enumerate(nodes):
            self.node(f"s0-n{number}", **node)
        self.api.add(SUPERNODES, "s0", status=supernode_status([f"s0-n{number}" for number in range(len(nodes))]))
        self.start(retry=600000)

    def waits(self, name, reason, text):
        def is_so():
            job = self.host.job(f"ns/Job/{name}")
            return job.get("reason") == reason and text in job.get("text", "")
        self.assertTrue(wait_for(is_so), self.host.job(f"ns/Job/{name}"))

    def test_a_pod_of_4_is_not_planned_where_2_and_2_are_free(self):
        self.nodes_of({"used": SPREAD}, {})
        first, = self.add_gang("first", 1, 4, gpus=4)
        self.wait_lifted(first)
        self.assertEqual(planned_node(self.pod(first)), "s0-n1")

    def test_it_waits_and_says_why(self):
        self.nodes_of({"used": SPREAD})
        self.add_gang("first", 1, 4, gpus=4)
        self.waits("first", "TooFewGPUs", "1 node has enough free GPUs, but not on the NUMA nodes that the kubelet's "
                                          "topology manager asks for")
        self.wait_lifted(*self.add_gang("second", 2, 4, gpus=2))

    def test_a_policy_that_refuses_nothing_changes_nothing(self):
        for number, policy in enumerate(("none", "best-effort", "")):
            self.node(f"s0-n{number}", policy, used=SPREAD)
        self.api.add(SUPERNODES, "s0", status=supernode_status([f"s0-n{number}" for number in range(3)]))
        self.start()
        self.wait_lifted(*self.add_gang("first", 3, 12, gpus=4))

    def test_a_pod_of_a_whole_node_never_fits(self):
        self.nodes_of({})
        self.add_gang("whole", 1, 8, gpus=8)
        self.waits("whole", "NeverFits", "no kubelet gives a pod more than 4 GPUs, by the policies of their topology managers, a pod "
                                         "asks for 8: pods of up to 4 would do")

    def test_restricted_takes_a_whole_node(self):
        self.nodes_of({"policy": "restricted"})
        self.wait_lifted(*self.add_gang("whole", 1, 8, gpus=8))

    def add_one(self, name, gpus, *others, inits=()):
        """A job of one pod: GPUs of its first container, then of the others, and of init containers."""
        total = max(gpus + sum(others), *inits, 0)
        pod = indexed_pod(name, 0, gpus=gpus, group=total)
        def container(name, gpus):
            return {"name": name, "image": "none", "resources": {"limits": {RESOURCE: str(gpus)}}}
        pod["spec"]["containers"] += [container(f"other-{i}", more) for i, more in enumerate(others)]
        pod["spec"]["initContainers"] = [container(f"init-{i}", more) for i, more in enumerate(inits)]
        self.add_job(name, 1, total)
        self.add_pod(f"{name}-0", pod)
        return f"{name}-0"

    def gpus_of(self, pod):
        """{container: the NUMA nodes of its planned GPUs}, with one entry for each GPU."""
        plan = json.loads(self.pod(pod)["metadata"]["annotations"][PLAN + "gpus"])
        return {container: [int(gpu.rpartition("-")[2]) // 4 for gpu in gpus] for container, gpus in plan.items()}

    def test_each_container_has_a_numa_node(self):
        self.nodes_of({}, {"used": SPREAD})
        whole = self.add_one("two", 4, 4)
        self.wait_lifted(whole)
        self.assertEqual(planned_node(self.pod(whole)), "s0-n0")
        self.assertEqual([set(nodes) for nodes in self.gpus_of(whole).values()], [{0}, {1}])
        half = self.add_one("half", 2, 2)
        self.wait_lifted(half)
        self.assertEqual(planned_node(self.pod(half)), "s0-n1")
        self.assertEqual([set(nodes) for nodes in self.gpus_of(half).values()], [{0}, {1}])

    def test_a_container_that_gets_two_numa_nodes_waits(self):
        self.nodes_of({"used": SPREAD})
        self.add_one("large", 3, 1)
        self.waits("large", "TooFewGPUs", "1 node has enough free GPUs, but not on the NUMA nodes that the kubelet's topology manager")
        self.add_one("never", 6, 1)
        self.waits("never", "NeverFits", "no kubelet admits a pod of 7 GPUs that are divided among its containers in this way, by the "
                                         "policies of their topology managers: other sizes of containers are needed")
        self.add_one("small", 3, 3, 2)  # each container is smaller than a NUMA node
        self.waits("small", "NeverFits", "no kubelet admits a pod of 8 GPUs that are divided among its containers in this way")

    def test_an_init_container_takes_its_numa_node_along(self):
        """Of 2 and 4 free GPUs it would get the 2, and the container after it is refused."""
        self.nodes_of({"used": [0, 1]})
        self.add_one("first", 4, inits=(2,))
        self.waits("first", "TooFewGPUs", "but not on the NUMA nodes")
        second = self.add_one("second", 4, inits=(4,))
        self.wait_lifted(second)
        self.assertEqual({frozenset(nodes) for nodes in self.gpus_of(second).values()}, {frozenset({1})})

    def test_an_init_container_that_needs_more(self):
        """The container after it gets some of its GPUs."""
        self.nodes_of({"used": [0, 1]})
        pod = self.add_one("deep", 2, inits=(4,))
        self.wait_lifted(pod)
        plan = json.loads(self.pod(pod)["metadata"]["annotations"][PLAN + "gpus"])
        self.assertEqual(self.gpus_of(pod), {"main": [1, 1], "init-0": [1, 1, 1, 1]})
        self.assertLess(set(plan["main"]), set(plan["init-0"]))

    def test_the_scope_of_a_pod_judges_its_containers_together(self):
        self.nodes_of({"scope": "pod"})
        self.add_one("two", 4, 4)
        self.waits("two", "NeverFits", "no kubelet gives a pod more than 4 GPUs")


if __name__ == "__main__":
    unittest.main(verbosity=2)
