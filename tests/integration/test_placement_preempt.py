#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""With --preempt, a waiting job gets room from pods of lower priority, in the double of the API server."""

import sys
import time
import unittest

from daemon_driver import wait_for
from placement_case import PlacementCase
from placement_driver import indexed_pod, planned_node, pod_spec, replica


class Preempt(PlacementCase):
    """Two supernodes of four nodes. Two units of two nodes run in one of them, with priority 0; single pods of 8 GPUs
    run on the nodes of the other, with priority 5."""

    def begin(self, priority=10, **options):
        self.world(2)
        self.add_job("lo", 4, 16)
        for rank in range(4):
            self.add_pod(f"lo-{rank}", indexed_pod("lo", rank, group=16, priority=0))
        self.start(**{"retry": 200, "preemptafter": 300, "eviction": 1500, "preempt": 1, **options})
        self.wait_lifted(*(f"lo-{rank}" for rank in range(4)))
        for rank in range(4):
            self.bind(f"lo-{rank}")
        self.home = planned_node(self.pod("lo-0"))[:2]
        self.other = {"s0": "s1", "s1": "s0"}[self.home]
        for number in range(4):
            made = replica(f"mid-{number}", uid=f"mid{number}", gated=False)
            made["spec"]["priority"] = 5
            self.add_pod(f"mid-{number}", made)
            self.run_on(f"mid-{number}", f"{self.other}-n{number}", range(8))
        self.unit_of = {0: 0, 1: 0, 2: 1, 3: 1}
        self.hi(priority)

    def hi(self, priority, **more):
        self.add_gang("hi", 2, 16, priority=priority, **more)

    def leave(self, seconds=10):
        """The kubelets end what is evicted, until the job's gates are lifted."""
        def gone():
            for name in list(self.api.evicted):
                if self.pod(name):
                    self.end(name)
            return self.is_lifted("hi-0", "hi-1")
        self.assertTrue(wait_for(gone, seconds), self.host.job("ns/Job/hi"))

    def check_nobody_leaves(self):
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/hi").get("state") == "waits"), self.host.job("ns/Job/hi"))
        time.sleep(1.5)
        self.assertEqual(self.api.evicted, [])

    def test_a_whole_unit_of_the_lowest_priority_leaves(self):
        self.begin()
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2), self.host.job("ns/Job/hi"))
        self.assertTrue(wait_for(lambda: "2 pods of lower priority leave for it" in self.host.job("ns/Job/hi")["text"]))
        self.assertIn(sorted(self.api.evicted), (["lo-0", "lo-1"], ["lo-2", "lo-3"]))
        nodes = {self.pod(name)["spec"]["nodeName"] for name in self.api.evicted}
        self.leave()
        self.assertEqual({planned_node(self.pod(f"hi-{i}")) for i in range(2)}, nodes)
        time.sleep(1)
        self.assertEqual(len(self.api.evicted), 2)
        self.assertEqual(self.host.counters()["preempted"], 2)
        said = " ".join(e["note"] for e in self.events() if e["reason"] == "Preempted")
        self.assertIn(f"pod {self.api.evicted[0]} is evicted, with priority 0: its GPUs are for ns/Job/hi, with priority 10", said)

    def test_nobody_else_gets_what_becomes_free(self):
        """The successors of the evicted pods, and a job of priority 1, wait until the job is placed."""
        self.begin()
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2))
        first = self.api.evicted[0]
        self.add_gang("one", 1, 8, priority=1)
        self.end(first)
        time.sleep(1)
        self.assertFalse(self.is_lifted("one-0"), self.host.job("ns/Job/one"))
        self.assertFalse(self.is_lifted("hi-0"))
        self.leave()
        self.assertFalse(self.is_lifted("one-0"))

    def test_one_of_equal_priority_stays(self):
        self.begin(priority=0)
        self.check_nobody_leaves()

    def test_off_by_default(self):
        self.begin(preempt=0)
        self.check_nobody_leaves()

    def test_a_job_that_never_preempts(self):
        self.world(1)
        self.add_pod("lo", {"metadata": {}, "spec": pod_spec(8, False, priority=0)})
        for node in range(3):
            made = replica(f"x-{node}", uid=f"x{node}", gated=False)
            self.add_pod(f"x-{node}", made)
            self.run_on(f"x-{node}", f"s0-n{node}", range(8))
        self.run_on("lo", "s0-n3", range(8))
        self.start(retry=200, preemptafter=300, preempt=1)
        self.hi(10, preemptionPolicy="Never")
        self.check_nobody_leaves()

    def test_a_budget_keeps_a_unit(self):
        """The eviction of one pod is refused: its unit stays, and the other one leaves."""
        kept = []

        def budget(name):
            if not kept and name.startswith("lo-"):
                kept.append(name)
            return "Cannot evict pod as it would violate the pod's disruption budget." if name in kept else None
        self.api.budget = budget
        self.begin()
        self.assertTrue(wait_for(lambda: any(e["reason"] == "PreemptionRefused" for e in self.events())))
        self.leave(20)
        self.assertNotIn(kept[0], self.api.evicted)
        self.assertTrue(self.pod(kept[0]))

    def test_nobody_leaves_in_vain(self):
        """Even without all pods of lower priority there is no room for the unit."""
        self.world(1)
        for node in range(4):
            made = replica(f"x-{node}", uid=f"x{node}", gated=False)
            made["spec"]["priority"] = 20 if node else 0
            self.add_pod(f"x-{node}", made)
            self.run_on(f"x-{node}", f"s0-n{node}", range(8))
        self.start(retry=200, preemptafter=300, preempt=1)
        self.hi(10)
        self.check_nobody_leaves()

    def test_a_pod_that_never_goes_is_not_waited_for(self):
        self.world(1)
        for node in range(4):
            self.add_pod(f"x-{node}", replica(f"x-{node}", uid=f"x{node}", gated=False))
            self.run_on(f"x-{node}", f"s0-n{node}", range(8))
        self.change_pod("x-0", {"deletionTimestamp": "2026-01-01T01:00:00Z"})
        self.start(retry=200, preemptafter=300, eviction=1500, preempt=1)
        self.hi(10)
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2), self.host.job("ns/Job/hi"))
        self.leave()
        self.assertNotIn("x-0", self.api.evicted)

    def test_a_new_leader_goes_on(self):
        """The leader dies before each of its evictions: as many pods leave as without that."""
        for at in range(2):
            with self.subTest(at=at):
                if self.host:
                    self.host.close()
                    self.api.stop()
                    self.setUp()
                left = [at]

                def meddle(request):
                    if request.path.endswith("/eviction"):
                        left[0] -= 1
                        if left[0] == -1:
                            self.host.process.kill()
                self.api.meddle = meddle
                self.begin()
                self.assertTrue(wait_for(lambda: left[0] < 0))
                self.api.meddle = None
                self.host.kill()
                self.host = None
                self.start(retry=200, preemptafter=300, eviction=1500, preempt=1)
                self.leave(20)
                self.assertIn(sorted(self.api.evicted), (["lo-0", "lo-1"], ["lo-2", "lo-3"]))

    def test_two_teams_that_outbid_each_other(self):
        """Each job's pods are made again when they were evicted: the one with the higher priority runs, and no pod leaves
        twice for it."""
        self.begin()
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2))
        self.leave()
        for i in range(2):
            self.bind(f"hi-{i}")
        for name in list(self.api.evicted):
            self.add_pod(f"{name}-again", indexed_pod("lo", int(name[-1]), group=16, priority=0))
        time.sleep(3)
        self.assertEqual(len(self.api.evicted), 2)


if __name__ == "__main__":
    unittest.main()
