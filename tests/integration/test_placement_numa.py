#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Plans that the kubelet's topology manager would refuse are not made.

Usage: test_placement_numa.py PLACEMENT_HOST [unittest arguments]
"""

import unittest

from daemon_driver import wait_for
from placement_case import SUPERNODES, TOPOLOGIES, PlacementCase
from placement_driver import RESOURCE, indexed_pod, node_status, planned_node, supernode_status, topology

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

    def test_several_containers_are_left_to_the_kubelet(self):
        """Each of them fits on one NUMA node; the kubelet judges the whole pod only if its scope says so."""
        self.nodes_of({})
        pod = indexed_pod("two", 0, gpus=4, group=8)
        pod["spec"]["containers"].append({"name": "second", "image": "none", "resources": {"limits": {RESOURCE: "4"}}})
        self.add_job("two", 1, 8)
        self.add_pod("two-0", pod)
        self.wait_lifted("two-0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
