#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that no room would help: what is said of them, and that they hold nobody up. And what stands in the way of jobs that wait.

Usage: test_placement_never.py PLACEMENT_HOST [unittest arguments]
"""

import unittest

from daemon_driver import wait_for
from placement_case import SUPERNODES, TOPOLOGIES, PlacementCase
from placement_driver import RESOURCE, indexed_pod, node_status, supernode_status, topology

LONG = 600000  # ms: what comes sooner comes of an event
RACK = 4       # nodes of 8 GPUs


class PlacementNeverTest(PlacementCase):
    def wait_says(self, key, reason, text):
        def is_so():
            job = self.host.job(key)
            return job.get("reason") == reason and text in job.get("text", "")
        self.assertTrue(wait_for(is_so), self.host.job(key))

    def never(self, name, text):
        self.wait_says(f"ns/Job/{name}", "NeverFits", text)

    def add_rack(self, number, nodes=RACK):
        members = [f"s{number}-n{n}" for n in range(nodes)]
        for node in members:
            self.api.add("/api/v1/nodes", node, metadata={"labels": {"kubernetes.io/hostname": node}}, spec={}, status=node_status())
            self.api.add(TOPOLOGIES, node, status=topology(node))
        self.api.add(SUPERNODES, f"s{number}", status=supernode_status(members))

    def test_each_fact_that_forbids_a_job(self):
        self.world(2)
        self.start(retry=LONG)
        self.add_gang("unit", 8, 64)
        self.add_gang("pods", 2, 32, gpus=16)
        self.add_gang("selector", 2, 16, nodeSelector={"no": "node"})
        self.add_gang("large", 12, 32)
        self.never("unit", "no supernode has more than 32 GPUs for pods of 8, a unit of 64 must lie in one: "
                           "a size up to 32, or an atomic size, would do")
        self.never("pods", "no node has more than 8 GPUs, a pod asks for 16: pods of up to 8 would do")
        self.never("selector", "its node selector, affinity or tolerations exclude all 8 nodes with 8 GPUs or more")
        self.never("large", "it needs 96 GPUs in pods of 8, the empty cluster has 64 for them: a job of up to 64 would do")
        self.assertTrue(wait_for(lambda: (self.condition("unit-0") or {}).get("reason") == "NeverFits"), self.condition("unit-0"))
        self.assertTrue(wait_for(lambda: self.status("job-unit").get("reason") == "NeverFits"), self.status("job-unit"))

    def test_cpus_above_those_of_any_node(self):
        self.world(2)
        for node in self.nodes:
            status = node_status()
            status["allocatable"].update({"cpu": "64", "memory": "256Gi", "pods": "110"})
            self.api.add("/api/v1/nodes", node, metadata={"labels": {"kubernetes.io/hostname": node}}, spec={}, status=status)
        self.start(retry=LONG)
        self.add_job("cpus", 2, 16)
        for i in range(2):
            pod = indexed_pod("cpus", i, group=16)
            pod["spec"]["containers"][0]["resources"]["requests"] = {RESOURCE: "8", "cpu": "96"}
            self.add_pod(f"cpus-{i}", pod)
        self.never("cpus", "no node has more CPU than 64, a pod asks for 96: pods of up to 64 would do")

    def test_what_is_in_use_or_out_of_order_is_no_reason(self):
        """The cluster is full, its nodes are cordoned: it is another thing than too few of them."""
        self.world(1)
        self.start(retry=LONG)
        first = self.add_gang("first", 4, 32)
        self.wait_lifted(*first)
        self.add_gang("second", 4, 32)
        self.wait_says("ns/Job/second", "TooFewGPUs", "")
        for node in self.nodes:
            self.api.add("/api/v1/nodes", node, metadata={"labels": {"kubernetes.io/hostname": node}}, spec={"unschedulable": True},
                         status=node_status())
        self.wait_says("ns/Job/second", "TooFewGPUs", "the cluster has 0")

    def test_it_holds_nobody_up_and_stays_in_line(self):
        """No nodes are reserved for it, whatever its priority and age, and it starts when a larger supernode comes."""
        self.world(2)
        self.start(patience=0, retry=LONG)
        unit = self.add_gang("unit", 6, 48, priority=100)
        self.never("unit", "no supernode has more than 32 GPUs")
        first = self.add_gang("first", 8, 32)
        self.wait_lifted(*first)
        self.assertEqual(self.host.counters()["reservedNodes"], 0)
        self.add_gang("second", 4, 32)
        self.wait_says("ns/Job/second", "TooFewGPUs", "the cluster has 0")
        self.assertEqual([self.host.job(f"ns/Job/{name}")["place"] for name in ("second", "unit")], [0, 1])
        self.assertNotIn("behind", self.status("job-second"))
        self.add_rack(2)
        self.wait_lifted(*[f"second-{i}" for i in range(4)])
        self.never("unit", "no supernode has more than 32 GPUs")
        self.add_rack(3, nodes=6)
        self.wait_lifted(*unit)

    # what stands in its way

    def test_reservations_of_others_are_named(self):
        """Half of a job is there, and its other places are reserved: whose they are, and until when."""
        self.world(1)
        self.start(retry=LONG, missing=60000)
        self.add_job("first", 4, 32)
        self.add_pod("first-0", indexed_pod("first", 0, group=32))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/first").get("reservedGPUs") == 24), self.host.job("ns/Job/first"))
        self.add_gang("second", 2, 16)
        self.wait_says("ns/Job/second", "TooFewGPUs", "24 GPUs are reserved for ns/Job/first until 2")
        self.assertNotIn("ns/Job/second", self.host.job("ns/Job/second")["text"])

    def test_a_scheduler_that_is_not_there(self):
        """Its plan is written, and nobody binds its pods: it is not said to be placed."""
        self.world(2)
        self.start(retry=500, unschedulable=1000)
        names = self.add_gang("a", 4, 32, schedulerName="volcan")
        says = "its pods wait for the scheduler volcan (schedulerName), by which no pod of this cluster was bound"
        self.wait_lifted(*names)
        self.wait_says("ns/Job/a", "SchedulerUnknown", says)
        self.assertTrue(wait_for(lambda: self.status("job-a").get("reason") == "SchedulerUnknown"), self.status("job-a"))
        self.assertEqual(self.status("job-a")["phase"], "Stalled")
        self.assertTrue(wait_for(lambda: any(says in note for note in map(str, self.host.notes))), self.host.notes)
        self.add_pod("other", {"metadata": {}, "spec": {"nodeName": "s0-n0", "schedulerName": "volcan", "containers": [{"name": "main"}]},
                               "status": {"phase": "Running"}})
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") == ""), self.host.job("ns/Job/a"))


unittest.main(verbosity=2)
