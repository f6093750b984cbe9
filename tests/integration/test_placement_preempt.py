#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""With --preempt, a waiting job gets room from pods of lower priority, in the double of the API server."""

import os
import random
import sys
import threading
import time
import unittest

from api_double import ApiError
from daemon_driver import wait_for
from placement_case import JOBS, TOPOLOGIES, PlacementCase
from placement_driver import RESOURCE, gates, indexed_pod, node_status, planned_node, pod_spec, replica, topology

TEAMS = ("red", "blue")


class Preempt(PlacementCase):
    """Two supernodes of four nodes. Two units of two nodes run in one of them, with priority 0; single pods of 8 GPUs
    run on the nodes of the other, with priority 5."""

    def begin(self, priority=10, arm=None, **options):
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
        self.api.meddle = arm or self.api.meddle
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
        nodes = {self.pod(name)["spec"]["nodeName"] for name in self.api.evicted}
        self.add_gang("one", 1, 8, priority=1)
        self.end(first)
        time.sleep(1)
        self.assertFalse(self.is_lifted("one-0"), self.host.job("ns/Job/one"))
        self.assertFalse(self.is_lifted("hi-0"))
        self.leave()
        self.assertEqual({planned_node(self.pod(f"hi-{i}")) for i in range(2)}, nodes)  # then others may leave for the other job

    def nominated(self):
        return [(self.pod(f"hi-{i}") or {}).get("status", {}).get("nominatedNodeName") for i in range(2)]

    def test_its_pods_are_nominated_first(self):
        """Before anybody leaves, and until they are scheduled: kube-scheduler lets nobody else onto these nodes."""
        seen = []
        self.api.meddle = lambda request: seen.append(self.nominated()) if request.path.endswith("/eviction") else None
        self.begin()
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2), self.host.job("ns/Job/hi"))
        nodes = sorted(self.pod(name)["spec"]["nodeName"] for name in self.api.evicted)
        self.assertEqual([sorted(each) for each in seen], 4 * [nodes])  # two dry runs first
        self.leave()
        self.assertEqual(self.nominated(), [planned_node(self.pod(f"hi-{i}")) for i in range(2)])

    def test_a_nomination_ends_with_the_preemption(self):
        """There is room elsewhere in the end, and then none any more."""
        answers = threading.Event()

        def arm(request):
            if request.path.endswith("/eviction"):  # a refusal ends the preemption at once
                answers.wait(60)
        self.addCleanup(answers.set)
        self.api.budget = lambda name: "no disruptions"
        self.begin(arm=arm)
        self.assertTrue(wait_for(lambda: all(self.nominated())), self.host.job("ns/Job/hi"))
        answers.set()
        self.assertTrue(wait_for(lambda: self.nominated() == [None, None]), self.host.job("ns/Job/hi"))

    def test_a_nomination_ends_under_a_new_leader(self):
        """That leader preempts nothing. What the pods' condition says stays, or becomes what it finds."""
        self.begin(eviction=60000)
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2 and all(self.nominated())), self.host.job("ns/Job/hi"))
        self.host.close()
        emptied = []
        self.api.meddle = lambda request: emptied.append(request.body) if b'"reason":""' in (request.body or b"") else None
        self.start(retry=200)
        self.assertTrue(wait_for(lambda: self.nominated() == [None, None]), self.host.job("ns/Job/hi"))
        self.assertEqual(emptied, [])

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

    def test_one_that_never_preempts_speaks_for_itself(self):
        """A job of lower priority that is like it preempts."""
        self.world(1)
        for node in range(4):
            self.single(f"x-{node}", f"s0-n{node}", 0)
        self.start(retry=200, preemptafter=300, eviction=1500, preempt=1)
        self.add_gang("never", 2, 16, priority=10, preemptionPolicy="Never")
        self.add_gang("hi", 2, 16, priority=9)
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2, 10), self.host.job("ns/Job/hi"))

    def test_budgets_keep_all(self):
        """One pod of each unit, and all single pods: nobody leaves in vain."""
        self.api.budget = lambda name: "no disruptions" if name in ("lo-0", "lo-2") or name.startswith("mid") else None
        self.begin()
        self.assertTrue(wait_for(lambda: len([e for e in self.events() if e["reason"] == "PreemptionRefused"]) > 2))
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
        unit = self.unit_of[int(kept[0][-1])]
        self.assertEqual({self.unit_of[int(name[-1])] for name in self.api.evicted if name.startswith("lo-")}, {1 - unit})
        self.assertEqual(len(self.api.evicted), 2)

    def single(self, name, node, priority):
        """A pod of 8 GPUs on a node, in no unit."""
        made = replica(name, uid=name, gated=False)
        made["spec"]["priority"] = priority
        self.add_pod(name, made)
        self.run_on(name, node, range(8))

    def test_a_budget_keeps_the_rest_of_a_unit(self):
        """One eviction is refused while that of another pod of the unit has not gone through: both stay."""
        self.world(1)
        self.add_job("lo", 2, 16)
        for rank in range(2):
            self.add_pod(f"lo-{rank}", indexed_pod("lo", rank, group=16, priority=0))
        asked, later = [], []

        def budget(name):
            if name == "lo-0":
                return "Cannot evict pod as it would violate the pod's disruption budget."
            if name == "lo-1" and not later:
                asked.append(name)
                raise ApiError(409, "the pod has just changed")
            return None
        self.api.budget = budget
        self.start(retry=200, preemptafter=300, eviction=1500, preempt=1)
        self.wait_lifted("lo-0", "lo-1")
        for rank in range(2):
            self.bind(f"lo-{rank}")
        free = [node for node in self.nodes if node not in {self.pod(f"lo-{rank}")["spec"]["nodeName"] for rank in range(2)}]
        self.single("mid", free[0], 5)
        self.single("high", free[1], 20)
        self.hi(10)
        self.assertTrue(wait_for(lambda: any(e["reason"] == "PreemptionRefused" for e in self.events())))
        self.assertTrue(asked)
        later.append(True)
        time.sleep(2)
        self.assertEqual(self.api.evicted, [])

    def unit_of_two(self, *priorities):
        """A unit of two nodes, of four; returns the other two."""
        self.world(1)
        self.add_job("lo", 2, 16)
        for rank, priority in enumerate(priorities):
            self.add_pod(f"lo-{rank}", indexed_pod("lo", rank, group=16, priority=priority))
        self.start(retry=200, preemptafter=300, eviction=1500, preempt=1)
        self.wait_lifted("lo-0", "lo-1")
        for rank in range(2):
            self.bind(f"lo-{rank}")
        used = {self.pod(f"lo-{rank}")["spec"]["nodeName"] for rank in range(2)}
        return [node for node in self.nodes if node not in used]

    def test_a_lone_pod_rather_than_a_unit(self):
        """A unit costs the GPUs of all its pods."""
        free = self.unit_of_two(0, 0)
        self.single("lone", free[0], 0)
        self.single("high", free[1], 20)
        self.add_gang("hi", 1, 8, priority=10)
        self.assertTrue(wait_for(lambda: self.api.evicted), self.host.job("ns/Job/hi"))
        time.sleep(1)
        self.assertEqual(self.api.evicted, ["lone"])

    def test_a_unit_with_a_pod_that_may_not_leave(self):
        """One of its pods has a higher priority than the job: the other one stays, too."""
        for node in self.unit_of_two(20, 0):
            self.single(f"high-{node}", node, 20)
        self.add_gang("hi", 1, 8, priority=10)
        self.check_nobody_leaves()

    def test_successors_come_after_the_job(self):
        """Their job runs in part, and one of its pods ends slowly: no successor takes the other one's place."""
        self.world(1)
        self.add_job("lo", 4, 8)
        for rank in range(4):
            self.add_pod(f"lo-{rank}", indexed_pod("lo", rank, group=8, priority=0))
        self.start(retry=200, preemptafter=300, eviction=1000, preempt=1)
        self.wait_lifted(*(f"lo-{rank}" for rank in range(4)))
        for rank in range(4):
            self.bind(f"lo-{rank}")
        self.hi(10)
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2), self.host.job("ns/Job/hi"))
        for name in self.api.evicted:
            self.add_pod(f"{name}-again", indexed_pod("lo", int(name[-1]), group=8, priority=0))
        self.end(self.api.evicted[0])
        time.sleep(4)
        self.assertTrue(self.host.job("ns/Job/hi")["holds"], self.host.job("ns/Job/lo"))
        self.assertFalse(self.is_lifted(f"{self.api.evicted[0]}-again"), self.host.job("ns/Job/lo"))
        self.leave()
        self.assertEqual(len(self.api.evicted), 2)

    def test_a_job_that_runs_in_part_keeps_off(self):
        """It comes first in the queue, but its priority is lower: the room is not for it."""
        self.world(1)
        self.add_job("part", 2, 8)
        for rank in range(2):
            self.add_pod(f"part-{rank}", indexed_pod("part", rank, group=8, priority=5, preemptionPolicy="Never"))
        self.start(**{"retry": 200, "preemptafter": 300, "eviction": 1000, "return": 100, "preempt": 1})
        self.wait_lifted("part-0", "part-1")
        for rank in range(2):
            self.bind(f"part-{rank}")
        taken = self.pod("part-1")["spec"]["nodeName"]
        free = [node for node in self.nodes if node not in (taken, self.pod("part-0")["spec"]["nodeName"])]
        for number, node in enumerate(free):
            self.single(f"x-{number}", node, 0)
        self.end("part-1")
        self.single("high", taken, 20)
        time.sleep(0.5)
        self.add_pod("part-1-again", indexed_pod("part", 1, group=8, priority=5, preemptionPolicy="Never"))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/part").get("state") == "waits"), self.host.job("ns/Job/part"))
        self.hi(10)
        self.assertTrue(wait_for(lambda: {"x-0", "x-1"} <= set(self.api.evicted)), self.host.job("ns/Job/hi"))
        self.end("x-0")
        time.sleep(1)
        self.assertFalse(self.is_lifted("part-1-again"))
        self.leave()

    def test_moves_after_a_preemption_in_vain(self):
        """What became free cannot be used. A pod moves instead, and the nodes that this frees are held, no others."""
        self.world(2)
        self.add_job("u", 1, 8)
        made = indexed_pod("u", 0, group=8, priority=20)
        made["metadata"]["annotations"]["metax-tech.com/movable"] = "true"
        self.add_pod("u-0", made)
        self.start(**{"retry": 200, "preemptafter": 300, "eviction": 1000, "patience": 300, "preempt": 1, "rebalance": 2})
        self.wait_lifted("u-0")
        self.bind("u-0")
        home = self.pod("u-0")["spec"]["nodeName"]
        other = {"s0": "s1", "s1": "s0"}[home[:2]]
        near = [node for node in self.nodes if node.startswith(home[:2]) and node != home]
        far = [f"{other}-n{number}" for number in range(4)]
        self.single("low", far[0], 0)
        for number, node in enumerate([*near[1:], *far[2:]]):
            self.single(f"high-{number}", node, 20)
        self.hi(10)
        self.assertTrue(wait_for(lambda: self.api.evicted == ["low"]), self.host.job("ns/Job/hi"))
        self.api.add("/api/v1/nodes", far[0], spec={"unschedulable": True}, status=node_status())
        self.end("low")
        self.assertTrue(wait_for(lambda: any(e["reason"] == "MovesBegun" for e in self.events())), self.host.job("ns/Job/hi"))
        self.assertTrue(wait_for(lambda: "u-0" in self.api.evicted), self.host.job("ns/Job/hi"))
        for name in ("one", "two"):
            self.add_gang(name, 1, 8, priority=1)
        time.sleep(1)
        self.end("u-0")
        self.wait_lifted("hi-0", "hi-1", seconds=10)
        self.assertEqual({planned_node(self.pod(f"hi-{i}")) for i in range(2)}, {home, near[0]})

    def test_nodes_after_a_preemption_in_vain(self):
        """Somebody else takes what became free, and there is nothing else: the job waits as others do, and holds no nodes."""
        for killed in (False, True):
            with self.subTest(killed=killed):
                self.begin_again()
                self.world(1)
                options = {"retry": 200, "preemptafter": 300, "eviction": 1000, "patience": 60000, "preempt": 1}
                self.start(**options)
                for number, priority in enumerate((0, 20, 20)):
                    self.single(f"x-{number}", f"s0-n{number}", priority)
                self.hi(10)
                self.assertTrue(wait_for(lambda: self.api.evicted == ["x-0"]), self.host.job("ns/Job/hi"))
                self.assertTrue(wait_for(lambda: self.status("job-hi").get("reservedUntil")), self.status("job-hi"))
                if killed:  # the next leader finds that nodes are held for the job
                    self.host.kill()
                self.end("x-0")
                self.single("x-3", "s0-n0", 20)
                if killed:
                    self.start(**options)
                self.add_gang("one", 1, 8, priority=1)
                self.wait_lifted("one-0", seconds=10)
                self.assertEqual(planned_node(self.pod("one-0")), "s0-n3")
                self.assertEqual(self.host.counters()["reservedNodes"], 0)

    def test_nodes_after_a_refusal(self):
        """Likewise where a budget keeps the only pods that could leave."""
        self.world(1)
        self.api.budget = lambda name: "Cannot evict pod as it would violate the pod's disruption budget."
        self.start(retry=200, preemptafter=300, eviction=1000, patience=60000, preempt=1)
        for number, priority in enumerate((0, 20, 20)):
            self.single(f"x-{number}", f"s0-n{number}", priority)
        self.hi(10)
        self.assertTrue(wait_for(lambda: any(e["reason"] == "PreemptionRefused" for e in self.events())), self.host.job("ns/Job/hi"))
        self.add_gang("one", 1, 8, priority=1)
        self.wait_lifted("one-0", seconds=10)
        self.assertEqual(self.host.counters()["reservedNodes"], 0)

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

    def test_nobody_leaves_where_other_pods_have_the_cpus(self):
        """Pods without GPUs stay, so that the job would lack CPUs."""
        self.world(1)
        for number, node in enumerate(self.nodes):
            status = node_status()
            status["allocatable"].update(cpu="64", memory="256Gi", pods="110")
            self.api.add("/api/v1/nodes", node, metadata={"labels": {"kubernetes.io/hostname": node}}, spec={}, status=status)
            self.add_pod(f"daemon-{number}", {"metadata": {}, "status": {"phase": "Running"}, "spec": {"nodeName": node, "containers": [
                {"name": "main", "resources": {"requests": {"cpu": "60"}}}]}})
            self.single(f"x-{number}", node, 0)
        self.start(retry=200, preemptafter=300, preempt=1)
        self.add_job("hi", 2, 16, backoffLimit=6)
        for rank in range(2):
            pod = indexed_pod("hi", rank, group=16, priority=10)
            pod["spec"]["containers"][0]["resources"]["requests"] = {RESOURCE: "8", "cpu": "16"}
            self.add_pod(f"hi-{rank}", pod)
        self.check_nobody_leaves()

    def test_nobody_leaves_where_the_job_keeps_away(self):
        """Only one node has no pod that its pods keep away from."""
        self.world(1)
        for number, node in enumerate(self.nodes):
            self.single(f"x-{number}", node, 0)
            if number:
                self.add_pod(f"z-{number}", {"metadata": {"labels": {"app": "z"}}, "spec": {
                    "nodeName": node, "containers": [{"name": "main"}]}, "status": {"phase": "Running"}})
        self.start(retry=200, preemptafter=300, preempt=1)
        self.hi(10, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "z"}}}]}})
        self.check_nobody_leaves()

    def fail_nodes(self):
        """Two more nodes are there, and not Ready: of ten nodes one may be."""
        status = node_status()
        status["conditions"][0].update(status="Unknown")
        for node in ("s2-n0", "s2-n1"):
            self.api.add("/api/v1/nodes", node, spec={}, status=status)
            self.api.add(TOPOLOGIES, node, status=topology(node, 8))

    def test_the_brake_is_on(self):
        self.fail_nodes()
        self.begin(brake=10)
        self.check_nobody_leaves()

    def test_the_brake_comes_on(self):
        """After the pods were chosen, before the API server lets them go."""
        asked, later = [], []

        def budget(name):
            asked.append(name)
            if not later:
                raise ApiError(409, "the pod has just changed")
        self.api.budget = budget
        self.begin(brake=10)
        self.assertTrue(wait_for(lambda: asked))
        self.fail_nodes()
        time.sleep(1)
        later.append(True)
        time.sleep(1.5)
        self.assertEqual(self.api.evicted, [])

    def test_evicted_pods_count_for_the_brake(self):
        """Two of eight nodes have lost their pods, and one may: both leave, and the next job waits until the brake lets go."""
        self.begin(brake=10, brakespan=20000)
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2), self.host.job("ns/Job/hi"))
        self.leave()
        for rank in range(2):
            self.bind(f"hi-{rank}")
        self.add_gang("two", 2, 16, priority=10)
        self.assertTrue(wait_for(lambda: "no pod of lower priority leaves for it: 2 of the 8 nodes of the cluster are not Ready, "
                                 in self.host.job("ns/Job/two").get("text", "")), self.host.job("ns/Job/two"))
        self.assertEqual(len(self.api.evicted), 2)
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 4, 60), self.host.job("ns/Job/two"))

    def test_refused_evictions_do_not_count_for_the_brake(self):
        """Budgets keep both units of priority 0: no node has lost its pods, and those of priority 5 leave."""
        self.api.budget = lambda name: "Cannot evict pod as it would violate the pod's disruption budget." if name.startswith("lo-") else None
        self.begin(brake=10)
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2, 10), self.host.job("ns/Job/hi"))
        self.assertEqual({name[:4] for name in self.api.evicted}, {"mid-"})

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
        """The leader dies before each of its writes: as many pods leave as without that, and what becomes free is for nobody else."""
        killed = 0
        for at in range(40):
            with self.subTest(at=at):
                self.begin_again()
                left = [at]

                def meddle(request):
                    if request.method != "GET" and "/events" not in request.path:
                        left[0] -= 1
                        if left[0] == -1:
                            self.host.process.kill()
                self.begin(arm=meddle)
                self.add_gang("low", 1, 8, priority=0)
                self.assertTrue(wait_for(lambda: left[0] < 0 or self.end_one() or self.is_lifted("hi-0", "hi-1")))
                self.api.meddle = None
                if left[0] < 0:
                    killed += 1
                    self.host.kill()
                    self.host = None
                    self.start(retry=200, preemptafter=300, eviction=1500, preempt=1)
                self.assertTrue(wait_for(lambda: self.end_one() or self.is_lifted("hi-0", "hi-1")), self.host.job("ns/Job/hi"))
                self.assertIn(sorted(self.api.evicted), (["lo-0", "lo-1"], ["lo-2", "lo-3"]))
                self.assertFalse(self.is_lifted("low-0"))
                if left[0] >= 0:
                    break
        print(f"killed before each of {killed} writes", file=sys.stderr)
        self.assertGreater(killed, 5)

    def end_one(self):
        """A pod ends that was evicted, the others later."""
        time.sleep(0.2)
        for name in self.api.evicted:
            if self.pod(name):
                self.end(name)
                return

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

    # ---- two teams that outbid each other ----

    def submit(self, team, priority):
        """A job of four nodes in two units."""
        self.bids += 1
        job = {"name": f"{team}{self.bids}", "team": team, "priority": priority, "since": time.monotonic(), "ran": None}
        self.add_job(job["name"], 4, 16)
        job["pods"] = [f"{job['name']}-{rank}" for rank in range(4)]
        self.jobs.append(job)
        for rank, pod in enumerate(job["pods"]):
            self.add_pod(pod, indexed_pod(job["name"], rank, uid=f"uid-{job['name']}", group=16, priority=priority))
        return job

    def withdraw(self, job):
        self.jobs.remove(job)
        self.api.remove(JOBS, job["name"])
        for pod in job["pods"]:
            if self.pod(pod):
                self.end(pod)

    def play(self):
        """The Jobs' controller, the scheduler and the kubelets; every pod that is evicted must be below a job that waits."""
        now = time.monotonic()
        for job in list(self.jobs):
            for rank, name in enumerate(list(job["pods"])):
                pod = self.pod(name)
                if not pod:
                    continue
                if "deletionTimestamp" in pod["metadata"]:
                    self.above[name] = self.above.get(name) or max(j["priority"] for j in self.jobs) > job["priority"]
                    if now >= self.gone_at.setdefault(name, now + self.dice.uniform(0.1, 1)):
                        self.made += 1
                        job["pods"][rank] = f"{job['name']}-{rank}-{self.made}"
                        self.end(name)
                        self.add_pod(job["pods"][rank], indexed_pod(job["name"], rank, uid=f"uid-{job['name']}", group=16,
                                                                    priority=job["priority"]))
                elif not gates(pod) and not pod["spec"].get("nodeName") and planned_node(pod):
                    self.bind(name)
            if not job["ran"] and self.runs(job):
                job["ran"] = now - job["since"]

    def runs(self, job):
        return all((self.pod(name) or {"spec": {}})["spec"].get("nodeName") for name in job["pods"])

    def bid(self):
        """The team with fewer jobs that run takes its lowest one back, and asks again with more priority than the other one has."""
        run = {team: sum(self.runs(job) for job in self.jobs if job["team"] == team) for team in TEAMS}
        team = min(TEAMS, key=lambda name: (run[name], self.dice.random()))
        waiting = [job for job in self.jobs if job["team"] == team and not self.runs(job)]
        if waiting:
            self.withdraw(min(waiting, key=lambda job: job["priority"]))
        self.submit(team, max(job["priority"] for job in self.jobs if job["team"] != team) + 1)

    def test_two_teams_that_outbid_each_other_for_long(self):
        """Each of two teams has work for more than half of the cluster. It asks again and again with a higher priority, and all
        that is evicted comes back. OUTBID_MINUTES says for how long (half a minute)."""
        seconds = 60 * float(os.environ.get("OUTBID_MINUTES", "0.5"))
        self.dice = random.Random(seconds)
        self.jobs, self.above, self.gone_at, self.bids, self.made, busy, looks = [], {}, {}, 0, 0, 0, 0
        self.world(2)
        self.start(retry=200, preemptafter=300, eviction=1500, preempt=1)
        for team in TEAMS:
            for _ in range(2):
                self.submit(team, 1)
        began = time.monotonic()
        next_bid = began + 2
        while time.monotonic() < began + seconds:
            self.play()
            busy += sum(self.runs(job) for job in self.jobs)
            looks += 1
            if time.monotonic() >= next_bid:
                self.bid()
                next_bid = time.monotonic() + self.dice.uniform(2, 6)
            time.sleep(0.05)
        evicted, bids = len(set(self.api.evicted)), self.bids - 4  # it may ask again before the watch shows that a pod goes
        ran = [job["ran"] for job in self.jobs if job["ran"]]
        print(f"{bids} bids and {evicted} evictions in {seconds:.0f} s, {evicted * 3600 / seconds:.0f} evictions an hour; "
              f"{50 * busy / looks:.0f} % of the GPUs in use; the jobs of the end ran within {max(ran, default=0):.1f} s", file=sys.stderr)
        self.assertGreater(bids, 3)
        self.assertLessEqual(evicted, 4 * bids)  # each bid takes four nodes at most
        self.assertEqual([name for name, above in self.above.items() if not above], [])
        # Nobody bids any more: the two highest jobs run, and nobody leaves.
        highest = sorted(job["priority"] for job in self.jobs)[-2:]
        began = time.monotonic()
        self.assertTrue(wait_for(lambda: self.play() or sorted(job["priority"] for job in self.jobs if self.runs(job)) == highest, 60),
                        [(job["priority"], self.runs(job), self.host.job(f"ns/Job/{job['name']}")) for job in self.jobs])
        print(f"{time.monotonic() - began:.1f} s after the last bid the two highest jobs run", file=sys.stderr)
        evicted, until = len(set(self.api.evicted)), time.monotonic() + 5
        while time.monotonic() < until:
            self.play()
            time.sleep(0.05)
        self.assertEqual(len(set(self.api.evicted)), evicted)


if __name__ == "__main__":
    unittest.main()
