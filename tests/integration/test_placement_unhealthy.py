#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pods with limits whose GPUs are unhealthy, in the double of the API server: with --on-unhealthy-gpu=evict they are evicted,
as their budgets allow, node after node."""

import threading
import time
import unittest

from api_double import Status
from claim_case import ClaimCase
from daemon_driver import wait_for
from placement_case import TOPOLOGIES, PlacementCase
from placement_driver import indexed_pod, node_status, planned_node, pod_spec, replica, topology

QUIET = 1.2  # nothing has happened for so long
LOSS = "metax-tech.com/on-node-loss"


class Cluster(PlacementCase):
    def begin(self, **options):
        self.start(nodeloss=300, retry=300, **options)

    def run_pod(self, name, node, gpus, pod=None, **metadata):
        made = pod or replica("web", gpus=len(gpus), gated=False)
        self.add_pod(name, {**made, "metadata": {**made["metadata"], **metadata}})
        self.run_on(name, node, gpus)

    def hurt(self, node, *gpus, why=None):
        with self.api.lock:
            collection, _, _ = self.api.place(TOPOLOGIES + "/x")
            owners = self.api.objects[collection, node]["status"]["owners"]
        used = [(o["gpu"], o["namespace"], o["pod"]) for o in owners]
        status = topology(node, 8, used, unhealthy=gpus, by_claims=self.by_claims)
        for gpu in status["gpus"]:
            if gpu["index"] in gpus and why:
                gpu["unhealthyReason"] = why
        self.api.add(TOPOLOGIES, node, status=status)

    def said(self, pod):
        with self.api.lock:
            return [obj["note"] for (where, _), obj in self.api.objects.items() if where[2] == "events" and
                    obj["reason"] == "GPUUnhealthy" and obj["regarding"]["name"] == pod]

    def wait_said(self, pod, words):
        self.assertTrue(wait_for(lambda: any(words in note for note in self.said(pod))),
                        (self.said(pod), self.api.evicted, self.host.notes[-5:]))

    def wait_evicted(self, *names):
        self.assertTrue(wait_for(lambda: sorted(self.api.evicted) == sorted(names)), (self.api.evicted, self.host.notes[-5:]))


class Tainted(Cluster):
    """--taint-unhealthy: only its own taint, above a share of bad GPUs, within the brake."""

    KEY = "metax-tech.com/unhealthy-gpus"

    def taints(self, node):
        with self.api.lock:
            found = [obj for (where, name), obj in self.api.objects.items() if where[2] == "nodes" and name == node]
        return found[0].get("spec", {}).get("taints", [])

    def wait_taints(self, node, *taints):
        self.assertTrue(wait_for(lambda: self.taints(node) == list(taints)), (self.taints(node), self.host.notes[-5:]))

    def test_a_node_gets_its_taint_and_loses_it(self):
        self.world(1)
        other = {"key": "of-others", "effect": "PreferNoSchedule"}
        with self.api.lock:
            collection, = {where for where, name in self.api.objects if where[2] == "nodes"}
            old = self.api.objects[collection, "s0-n0"]
            self.api.store(collection, "s0-n0", {**old, "spec": {**old.get("spec", {}), "taints": [other]}}, "MODIFIED")
        self.begin(taints=1, brake=10)
        self.hurt("s0-n0", 0, 1, 2)
        time.sleep(QUIET)
        self.wait_taints("s0-n0", other)  # 3 of 8 are below the share
        self.hurt("s0-n0", 0, 1, 2, 3)
        self.wait_taints("s0-n0", other, {"key": self.KEY, "effect": "NoSchedule"})
        self.hurt("s0-n1", *range(8))
        self.assertTrue(wait_for(lambda: any("gets no taint" in str(note) for note in self.host.notes)), self.host.notes)
        self.assertEqual(self.taints("s0-n1"), [])  # of four nodes one may, and it is tainted
        time.sleep(QUIET)
        self.assertEqual(sum("gets no taint" in str(note) for note in self.host.notes), 1, self.host.notes)
        self.hurt("s0-n0")
        self.wait_taints("s0-n0", other)
        self.wait_taints("s0-n1", {"key": self.KEY, "effect": "NoSchedule"})

    def test_a_taint_that_only_advises(self):
        self.world(1)
        self.begin(taints=2, brake=100)
        self.hurt("s0-n0", *range(8))
        self.wait_taints("s0-n0", {"key": self.KEY, "effect": "PreferNoSchedule"})
        self.hurt("s0-n0")
        self.wait_taints("s0-n0")

    def test_a_node_that_cannot_be_read_keeps_up_no_other(self):
        self.world(1)
        self.api.fail(Status(403, "nodes is forbidden"), times=1 << 30, method="GET", path="nodes/s0-n[01]$")
        self.begin(taints=1, brake=100)
        self.hurt("s0-n0", *range(8))
        self.hurt("s0-n1", *range(8))
        self.hurt("s0-n2", *range(8))
        self.wait_taints("s0-n2", {"key": self.KEY, "effect": "NoSchedule"})
        host, self.host = self.host, None
        self.assertIn('node=s0-n1 why="403 Forbidden', host.close()[1])


    def test_a_node_that_cannot_be_written_holds_up_no_other(self):
        self.world(1)
        self.begin(taints=1, brake=100)
        self.api.fail(Status(403), times=1000, method="PATCH", name="s0-n0")
        self.hurt("s0-n0", *range(8))
        self.hurt("s0-n1", *range(8))
        self.wait_taints("s0-n1", {"key": self.KEY, "effect": "NoSchedule"})
        self.assertEqual(self.taints("s0-n0"), [])

    def test_a_node_that_is_long_tainted_keeps_no_pod_on_a_dead_one(self):
        """It counts for the next taint as long as it has one, for evictions a short while alone."""
        self.world(1)
        self.add_job("a", 1, 8, loss="unit")
        self.add_pod("a-0", indexed_pod("a", 0, gpus=8, group=8))
        self.begin(taints=1, brake=10, brakespan=8000)
        self.wait_lifted("a-0")
        self.bind("a-0")
        home = planned_node(self.pod("a-0"))
        bad, other = [node for node in self.nodes if node != home][:2]
        self.hurt(bad, *range(8))
        self.wait_taints(bad, {"key": self.KEY, "effect": "NoSchedule"})
        status = node_status()
        status["conditions"][0].update(status="Unknown", lastTransitionTime=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        self.api.add("/api/v1/nodes", home, spec={}, status=status)
        self.assertTrue(wait_for(lambda: "of the 4 nodes of the cluster" in self.host.job("ns/Job/a")["text"]), self.host.job("ns/Job/a"))
        self.assertEqual(self.api.evicted, [])
        self.assertTrue(wait_for(lambda: self.api.evicted == ["a-0"]), self.host.job("ns/Job/a"))
        self.hurt(other, *range(8))
        time.sleep(QUIET)
        self.assertEqual(self.taints(other), [])


class Unhealthy(Cluster):
    def setUp(self):
        super().setUp()
        self.world(1)

    def test_pods_stay_unless_asked(self):
        self.run_pod("web-0", "s0-n0", [0, 1])
        self.begin()
        self.hurt("s0-n0", 1)
        time.sleep(QUIET)
        self.assertEqual((self.api.evicted, self.said("web-0")), ([], []))

    def test_the_pod_on_the_gpu_goes(self):
        """The other one of the node stays, and so do all where a GPU heals in time."""
        self.run_pod("web-0", "s0-n0", [0, 1])
        self.run_pod("web-1", "s0-n0", [2, 3])
        self.run_pod("web-2", "s0-n1", [2, 3])
        self.start(nodeloss=1500, retry=300, unhealthy=1)
        self.hurt("s0-n1", 2)
        self.hurt("s0-n1")
        self.hurt("s0-n0", 1, 5)
        self.wait_evicted("web-0")
        self.wait_said("web-0", "a GPU of it on node s0-n0 is unhealthy or gone: it is evicted")
        time.sleep(QUIET)
        self.wait_evicted("web-0")

    def test_isolated_pods_stay(self):
        """Until the GPU is really broken, or somebody says that they are to leave."""
        self.run_pod("web-0", "s0-n0", [0])
        self.run_pod("web-1", "s0-n1", [0])
        self.begin(unhealthy=1)
        for node in self.nodes[:2]:
            self.hurt(node, 0, why="isolated: ticket 17")
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        self.hurt("s0-n0", 0)
        self.wait_evicted("web-0")
        self.hurt("s0-n1", 0, why="isolated, pods leave: ticket 17")
        self.wait_evicted("web-0", "web-1")

    def test_the_brake(self):
        """Of many nodes that report bad GPUs, one loses its pods at once; the next when that has been a while."""
        for n in range(3):
            self.run_pod(f"web-{n}", f"s0-n{n}", [0])
        self.begin(unhealthy=1, brake=10, brakespan=15000, turn_of_node=1)
        for n in range(3):
            self.hurt(f"s0-n{n}", 0)
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 1), self.host.notes[-5:])
        held = {"web-0", "web-1", "web-2"} - set(self.api.evicted)
        words = "it stays, since more nodes than --brake lets go at once are not Ready, or have lost their pods of late"
        self.assertTrue(wait_for(lambda: any(words in note for name in held for note in self.said(name))), self.host.notes[-5:])
        self.assertEqual(len(self.api.evicted), 1)
        self.assertTrue(wait_for(lambda: len(self.api.evicted) >= 2), self.host.notes[-5:])
        self.assertEqual(max(sum(words in note for note in self.said(name)) for name in held), 1)  # once each

    def test_a_gang_that_does_not_move_by_itself(self):
        """The one pod goes; its successor is placed beside the others."""
        names = self.add_gang("a", 3, 24)
        self.begin(unhealthy=1)
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        node = planned_node(self.pod("a-1"))
        self.hurt(node, 7)
        self.wait_evicted("a-1")
        self.end("a-1")
        self.hurt(node, 7)
        self.add_pod("a-1-again", indexed_pod("a", 1, group=24))
        self.wait_lifted("a-1-again")
        self.assertNotIn(planned_node(self.pod("a-1-again")), {node, *(planned_node(self.pod(n)) for n in ("a-0", "a-2"))})

    def test_a_budget_refuses(self):
        """That is told, and the pod goes when the budget allows it."""
        self.run_pod("web-0", "s0-n0", [0])
        refusal = ["Cannot evict pod as it would violate the pod's disruption budget."]
        self.api.budget = lambda name: refusal and refusal[0]
        self.begin(unhealthy=1)
        self.hurt("s0-n0", 0)
        self.wait_said("web-0", "its eviction is refused: ")
        self.wait_said("web-0", "disruption budget")
        self.assertEqual(self.api.evicted, [])
        refusal.clear()
        self.wait_evicted("web-0")
        self.assertEqual(len(self.said("web-0")), 2)

    def test_a_job_that_breaks_a_rule(self):
        """What waits behind the evictions on their way is not sent: nobody can say what its pods are to do."""
        go, sent = threading.Event(), []
        self.addCleanup(go.set)
        self.api.meddle = lambda request: request.path.endswith("/eviction") and (sent.append(request.path), go.wait(60))
        for i in range(10):
            self.run_pod(f"a-{i}", self.nodes[i // 8], [i % 8], indexed_pod("a", i, group=10, gpus=1, gated=False))
        self.add_job("a", 10, 10, 1)
        self.begin(unhealthy=1, turn_of_node=1)
        self.hurt(self.nodes[0], *range(8))
        self.hurt(self.nodes[1], 0, 1)
        self.assertTrue(wait_for(lambda: len(sent) == 8), (sent, self.said("a-1"), self.host.notes[-5:]))
        time.sleep(QUIET)
        left = next(f"a-{i}" for i in range(10) if not any(f"/a-{i}/" in path for path in sent))
        annotations = self.pod(left)["metadata"]["annotations"]
        self.change_pod(left, {"annotations": {**annotations, "metax-tech.com/gpu-group-size": "7"}})
        time.sleep(QUIET)
        go.set()
        time.sleep(QUIET)
        self.assertEqual(len(sent), 8)
        self.change_pod(left, {"annotations": annotations})
        self.assertTrue(wait_for(lambda: len(sent) == 10))

    def test_who_stays(self):
        """A pod that nobody would make again, and one that asks for it; each is told once."""
        self.run_pod("bare", "s0-n0", [0], {"metadata": {}, "spec": pod_spec(1, gated=False)})
        self.run_pod("web-0", "s0-n0", [1], annotations={LOSS: "wait"})
        self.run_pod("web-1", "s0-n0", [2])
        self.begin(unhealthy=1)
        self.hurt("s0-n0", 0, 1, 2)
        self.wait_evicted("web-1")
        self.wait_said("bare", "it stays, since it has no owner that would make it again")
        self.wait_said("web-0", "it stays, since its annotation on-node-loss is wait")
        self.hurt("s0-n0", 0, 1, 2, 3)
        time.sleep(QUIET)
        self.wait_evicted("web-1")
        self.assertEqual((len(self.said("bare")), len(self.said("web-0"))), (1, 1))

    def test_most_of_the_cluster(self):
        """Where most GPUs are unhealthy at once, nothing is evicted until some are healthy again."""
        nodes = self.nodes[:3]
        for node in nodes:
            self.run_pod(f"web-{node}", node, range(8))
        self.begin(unhealthy=1, turn_of_node=100)
        for node in nodes:
            self.hurt(node, *range(8))
        self.assertTrue(wait_for(lambda: any("more than half of the cluster's GPUs are unhealthy" in note
                                             for node in nodes for note in self.said(f"web-{node}"))), self.host.notes)
        self.assertEqual(self.api.evicted, [])
        self.hurt(nodes[0])
        self.wait_evicted(*(f"web-{node}" for node in nodes[1:]))

    def test_node_after_node(self):
        """The pods of one node go together, those of the next after a pause."""
        for node in self.nodes[:2]:
            self.run_pod(f"x-{node}", node, [0], indexed_pod("x", self.nodes.index(node), gpus=1, gated=False))
            self.run_pod(f"y-{node}", node, [1], replica(f"y-{node}", uid=node, gpus=1, gated=False))
        self.begin(unhealthy=1, turn_of_node=600000)
        for node in self.nodes[:2]:
            self.hurt(node, 0, 1)
        self.assertTrue(wait_for(lambda: len(self.api.evicted) >= 2), self.host.notes)
        time.sleep(QUIET)
        first = self.api.evicted[0].split("-", 1)[1]
        self.assertEqual(sorted(self.api.evicted), [f"x-{first}", f"y-{first}"])


class UnhealthyOfClaims(ClaimCase, Cluster):
    def test_claims_are_left_to_kubernetes(self):
        """It evicts their pods by the taint NoExecute, and those with limits not, which may be on the same nodes."""
        self.world(2)
        self.add_job("a", 4, 32)
        self.begin(unhealthy=1, turn_of_node=100)
        self.assertTrue(wait_for(lambda: self.review("mutate", indexed_pod("a", 0, gated=False))[1]))
        names = [f"a-{rank}" for rank in range(4)]
        for rank, name in enumerate(names):
            self.create(name, rank)
        self.wait_lifted(*names)
        for name in names:
            node = planned_node(self.pod(name))
            self.run_on(name, node, range(8))
            self.hurt(node, 3)
        other = next(node for node in self.nodes if node not in {planned_node(self.pod(name)) for name in names})
        self.run_pod("web-0", other, [0])
        self.hurt(other, 0)
        self.wait_evicted("web-0")
        time.sleep(QUIET)
        self.wait_evicted("web-0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
