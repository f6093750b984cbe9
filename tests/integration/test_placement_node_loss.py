#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Units that lose nodes, in the double of the API server: which pods are evicted, when, and where the next pods are
placed."""

import random
import re
import threading
import time

import side_by_side
from daemon_driver import wait_for
from placement_case import PODS, SUPERNODES, TOPOLOGIES, PlacementCase
from placement_driver import PLAN, gates, indexed_pod, node_status, planned_node, topology
from seed import given_seed

QUIET = 1.5  # nothing has happened for so long


class NodeLoss(PlacementCase):
    """The job `a`; its pods are a-RANK, and those after them a-RANK-TURN, which come as soon as one has begun to go."""

    def begin(self, pods=4, loss="unit", group=32, atomic=None, **options):
        self.add_job("a", pods, group, atomic=atomic, loss=loss)
        self.names = [f"a-{rank}" for rank in range(pods)]
        self.group = group
        for rank, name in enumerate(self.names):
            self.add_pod(name, indexed_pod("a", rank, group=group))
        self.start(nodeloss=400, **options)
        self.wait_lifted(*self.names)
        for name in self.names:
            self.bind(name)
        self.first = {name: planned_node(self.pod(name)) for name in self.names}
        self.dead, self.hung = set(), set()

    def play(self, remake=True):
        """The Job's controller and kubelets: pods that are being deleted go, but on nodes that are dead, and others come."""
        stop = threading.Event()
        self.addCleanup(stop.set)

        def run():
            while not stop.wait(0.05):
                for rank, name in enumerate(list(self.names)):
                    pod = self.pod(name)
                    if pod and "deletionTimestamp" in pod["metadata"]:
                        self.turn(rank, name, pod, remake)
                    elif pod and not gates(pod) and not pod["spec"].get("nodeName") and planned_node(pod):
                        self.bind(name)
        threading.Thread(target=run, daemon=True).start()
        return stop

    def turn(self, rank, name, pod, remake):
        if remake:
            successor = f"a-{rank}-{int(time.monotonic() * 1000)}"
            made = indexed_pod("a", rank, group=self.group)
            made["metadata"]["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self.add_pod(successor, made)
            self.names[rank] = successor
        if pod["spec"].get("nodeName") not in self.dead:
            self.end(name)
        else:
            self.hung.add(name)

    def break_node(self, node):
        status = node_status()
        status["conditions"][0]["status"] = "Unknown"
        status["conditions"][0]["lastTransitionTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.dead.add(node)
        self.api.add("/api/v1/nodes", node, spec={}, status=status)

    def places(self):
        pods = [self.pod(name) for name in self.names]
        return [pod and pod["spec"].get("nodeName") for pod in pods]

    def wait_settled(self, check=lambda places: True):
        """All ranks run, and where the check wants them."""
        def settled():
            pods = [self.pod(name) for name in self.names]  # one may go while this looks
            places = [pod and pod["spec"].get("nodeName") for pod in pods]
            return all(places) and not any("deletionTimestamp" in pod["metadata"] for pod in pods) and check(places)
        if not wait_for(settled):
            self.fail(f"{self.places()}, evicted {self.api.evicted}, {self.host.job('ns/Job/a')}, {self.status()}, {self.host.notes[-5:]}")
        for rank, name in enumerate(self.names):
            self.assertEqual(self.pod(name)["metadata"]["annotations"][PLAN + "rank"], str(rank))
            self.assertEqual(self.pod(name)["metadata"]["annotations"][PLAN + "unit"], str(rank // 4))

    def supers(self):
        return {place[:2] for place in self.places()}

    def reason(self):
        return self.host.job("ns/Job/a")["reason"]

    def test_one_replacement_stays(self):
        """Where the supernode has room only the pod on the lost node goes."""
        self.world(2, nodes_each=5)
        self.begin()
        self.play()
        lost = self.first["a-1"]
        self.break_node(lost)
        self.wait_settled(lambda places: lost not in places)
        self.assertEqual(self.api.evicted, ["a-1"])
        self.assertEqual(len(self.supers()), 1)
        self.assertEqual([n for n in self.names if n in self.first], ["a-0", "a-2", "a-3"])

    def test_a_unit_moves(self):
        """Else the unit goes as a whole; the other one stays where it is."""
        self.world(3)
        self.begin(pods=8)
        home = {rank // 4: self.first[f"a-{rank}"][:2] for rank in range(8)}
        self.assertNotEqual(home[0], home[1])
        self.play()
        self.break_node(self.first["a-2"])
        self.wait_settled(lambda places: {p[:2] for p in places[:4]} == {"s0", "s1", "s2"} - set(home.values()))
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1", "a-2", "a-3"])
        self.assertEqual(self.names[4:], ["a-4", "a-5", "a-6", "a-7"])
        self.assertTrue(wait_for(lambda: "moving" not in self.status()), self.status())

    def grade(self, node, grade):
        status = topology(node, 8)
        if grade:
            status["gpus"][3].update(grade=grade, gradeReason="memory bandwidth 70 %")
        self.api.add(TOPOLOGIES, node, status=status)

    def test_a_replacement_never_takes_slow_gpus(self):
        """One template of the job says `never`: the replacement waits, although a node with a slow GPU is free."""
        self.world(1, nodes_each=5)
        self.grade("s0-n4", "slow")
        self.add_job("a", 4, 32, loss="unit")
        self.names = [f"a-{rank}" for rank in range(4)]
        self.group = 32
        for rank, name in enumerate(self.names):
            made = indexed_pod("a", rank, group=32)
            made["metadata"]["annotations"].update({"metax-tech.com/slow-gpus": "never"} if rank == 0 else {})
            self.add_pod(name, made)
        self.start(nodeloss=400)
        self.wait_lifted(*self.names)
        for name in self.names:
            self.bind(name)
        self.first = {name: planned_node(self.pod(name)) for name in self.names}
        self.dead, self.hung = set(), set()
        self.assertNotIn("s0-n4", self.first.values())
        self.play()
        self.break_node(self.first["a-1"])
        self.assertTrue(wait_for(lambda: self.reason() == "NodeLost"), self.host.job("ns/Job/a"))
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        self.grade("s0-n4", None)
        self.wait_settled(lambda places: "s0-n4" in places)

    def test_it_waits_for_another_place(self):
        """Nothing is evicted while no supernode has room for the unit."""
        self.world(2)
        other = self.add_gang("b", 4, 32)
        self.begin()
        self.wait_lifted(*other)
        for name in other:
            self.bind(name)
        self.play()
        self.break_node(self.first["a-0"])
        self.assertTrue(wait_for(lambda: self.reason() == "NodeLost"), self.host.job("ns/Job/a"))
        self.assertIn("unit 0, pod a-0 on node", self.host.job("ns/Job/a")["text"])
        self.assertTrue(wait_for(lambda: self.status().get("reason") == "NodeLost"), self.status())
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        home = self.first["a-0"][:2]
        for name in other:
            self.end(name)
        self.wait_settled(lambda places: home not in {p[:2] for p in places})

    def mend_node(self, node, **spec):
        self.dead.discard(node)
        self.api.add("/api/v1/nodes", node, spec=spec, status=node_status())

    def test_half_the_cluster_is_silent(self):
        """That is the network: nobody is evicted, one sentence says why, and afterwards all run where they ran."""
        self.world(4)
        self.begin(pods=8, brake=10)
        self.play()
        silent = sorted(set(self.first.values()))
        self.assertEqual(len(silent), 8)
        for node in silent:
            self.break_node(node)
        self.assertTrue(wait_for(lambda: self.reason() == "NodeLost"), self.host.job("ns/Job/a"))
        self.assertIn("no pod is evicted: with it 8 of the 16 nodes of the cluster would be not Ready, tainted, or have lost their pods of "
                      "late, and --brake lets 1 go at once", self.host.job("ns/Job/a")["text"])
        time.sleep(3 * QUIET)
        self.assertEqual(self.api.evicted, [])
        for node in silent:
            self.mend_node(node)
        time.sleep(QUIET)
        self.assertEqual((self.api.evicted, self.names), ([], [f"a-{rank}" for rank in range(8)]))

    def test_a_racks_switch_is_off(self):
        """All nodes of one supernode are silent, a quarter of the cluster: nobody is evicted, and one sentence says why."""
        self.world(4)
        self.begin(pods=4, brake=10)
        self.play()
        silent = sorted(set(self.first.values()))
        self.assertEqual({node[:2] for node in silent}, {silent[0][:2]})
        for node in silent:
            self.break_node(node)
        self.assertTrue(wait_for(lambda: "no pod is evicted: with it 4 of the 16 nodes of the cluster" in self.host.job("ns/Job/a")["text"]),
                        self.host.job("ns/Job/a"))
        time.sleep(2 * QUIET)
        self.assertEqual(self.api.evicted, [])
        for node in silent:
            self.mend_node(node)
        time.sleep(QUIET)
        self.assertEqual((self.api.evicted, self.names), ([], [f"a-{rank}" for rank in range(4)]))

    def test_one_after_the_other(self):
        """One node may always go; the next one when that has been a while, or a person has taken the dead one out."""
        self.world(4, nodes_each=6)
        self.begin(pods=8, brake=5, brakespan=6000)
        self.play()
        self.break_node(self.first["a-0"])
        self.wait_settled(lambda places: self.first["a-0"] not in places)
        self.assertEqual(self.api.evicted, ["a-0"])
        self.break_node(self.first["a-5"])
        self.assertTrue(wait_for(lambda: self.reason() == "NodeLost"), self.host.job("ns/Job/a"))
        self.assertIn("2 of the 24 nodes of the cluster", self.host.job("ns/Job/a")["text"])
        self.api.add("/api/v1/nodes", self.first["a-0"], spec={"unschedulable": True},
                     status={**node_status(), "conditions": [{"type": "Ready", "status": "Unknown"}]})
        self.wait_settled(lambda places: self.first["a-5"] not in places)
        self.assertEqual(self.api.evicted, ["a-0", "a-5"])

    def test_no_more_of_a_supernode(self):
        """Although that would be few of the cluster."""
        self.world(5, nodes_each=8)
        self.begin(pods=4, brake=12, brakespan=60000)
        self.play()
        for name in ("a-0", "a-1"):
            self.break_node(self.first[name])
        home = self.first["a-0"][:2]
        self.assertTrue(wait_for(lambda: f"2 of the 8 nodes of supernode {home} would" in self.host.job("ns/Job/a")["text"]),
                        self.host.job("ns/Job/a"))
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        self.mend_node(self.first["a-1"])
        self.wait_settled(lambda places: self.first["a-0"] not in places)
        self.assertEqual(self.api.evicted, ["a-0"])

    def test_a_replacement_without_room(self):
        """Nor does the rest of its unit leave for it while many nodes are silent."""
        self.world(3)
        self.begin(brake=10, **{"return": 300})
        self.play()
        home = self.first["a-1"][:2]
        silent = [f"{next(s for s in ('s1', 's2', 's0') if s != home)}-n{n}" for n in range(2)]
        for node in silent:
            self.break_node(node)
        self.api.add("/api/v1/nodes", self.first["a-1"], spec={"unschedulable": True}, status=node_status())
        pod = self.pod("a-1")
        self.api.add(PODS, "a-1", **{k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {
            "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T01:00:00Z"}})
        self.assertTrue(wait_for(lambda: "more nodes than --brake lets go at once" in self.host.job("ns/Job/a")["text"]), self.host.job("ns/Job/a"))
        self.assertEqual(self.reason(), "UnitStuck")
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        for node in silent:
            self.mend_node(node)
        self.wait_settled(lambda places: home not in {p[:2] for p in places})
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-2", "a-3"])

    def test_policies(self):
        """`wait` leaves all to people, and an unknown word breaks a rule."""
        self.world(2)
        self.begin(loss="wait")
        self.break_node(self.first["a-0"])
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        self.add_job("b", 4, 32, loss="always")
        self.add_pod("b-0", indexed_pod("b", 0, group=32))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/b").get("reason") == "RuleBroken"), self.host.job("ns/Job/b"))
        self.assertEqual(self.host.job("ns/Job/b")["text"],
                         'on-node-loss of the template: "always" is none of wait, unit, job')

    def test_a_budget_holds(self):
        """A pod that its budget keeps stays until the budget lets it go; none of the next pods goes on before."""
        self.world(2)
        held = "Cannot evict pod as it would violate the pod's disruption budget."
        self.api.budget = lambda name: held if name == "a-3" else None
        self.begin()
        self.play()
        home = self.first["a-0"][:2]
        self.break_node(self.first["a-0"])
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 3))
        self.assertTrue(wait_for(lambda: "disruption budget" in self.host.job("ns/Job/a")["text"]), self.host.job("ns/Job/a"))
        self.assertEqual(self.reason(), "UnitMoves")
        time.sleep(QUIET)
        self.assertEqual([place and place[:2] for place in self.places()], [None, None, None, home])
        self.api.budget = None
        self.wait_settled(lambda places: home not in {p[:2] for p in places})
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1", "a-2", "a-3"])

    def test_recreate_does_not_step_around_a_budget(self):
        """It deletes pods that are on no node; one that its budget keeps stays on the lost node until it may go."""
        self.world(2)
        self.api.budget = lambda name: "Cannot evict pod as it would violate the pod's disruption budget."
        self.begin(recreate=1)
        self.play()
        home = self.first["a-0"][:2]
        self.break_node(self.first["a-0"])
        self.assertTrue(wait_for(lambda: "disruption budget" in self.host.job("ns/Job/a")["text"]), self.host.job("ns/Job/a"))
        time.sleep(QUIET)
        self.assertEqual(self.names, ["a-0", "a-1", "a-2", "a-3"])
        self.assertFalse([name for name in self.names if "deletionTimestamp" in self.pod(name)["metadata"]])
        self.api.budget = None
        self.wait_settled(lambda places: home not in {p[:2] for p in places})
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1", "a-2", "a-3"])

    def test_a_new_leader_goes_on(self):
        """What the last one began stands in the object: nobody is evicted twice, and no other unit."""
        self.world(3)
        self.api.budget = lambda name: "not now" if name in ("a-2", "a-3") else None
        self.begin(pods=8)
        stop = self.play()
        self.break_node(self.first["a-0"])
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2))
        self.assertTrue(wait_for(lambda: len(self.names[0]) > 3 and len(self.names[1]) > 3))
        self.assertEqual(self.host.kill()[0], -9)
        planned = self.named()
        self.api.budget = None
        self.start(nodeloss=3600000)  # it would not begin that of itself
        self.wait_settled(lambda places: len({p[:2] for p in places[:4]}) == 1 and places[0][:2] != self.first["a-0"][:2])
        stop.set()
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1", "a-2", "a-3"])
        self.assertEqual({rank: place[0] for rank, place in planned.items()}, dict(enumerate(self.places())))

    def test_a_leader_dies_before_the_first_eviction(self):
        self.world(2)
        self.api.budget = lambda name: "not now"
        self.begin()
        self.break_node(self.first["a-0"])
        self.assertTrue(wait_for(lambda: self.status().get("moving") == "Unit"), self.status())
        self.host.kill()
        self.api.budget = None
        self.play()
        self.start(nodeloss=3600000)
        self.wait_settled(lambda places: places[0][:2] != self.first["a-0"][:2] and len({p[:2] for p in places}) == 1)

    def test_a_new_leader_keeps_the_place_of_a_pod_that_hangs(self):
        """Its owner makes no other before it is gone, which people may take their time for."""
        self.world(2, nodes_each=5)
        self.begin(missing=8000)
        self.play(remake=False)
        self.break_node(self.first["a-1"])
        self.assertTrue(wait_for(lambda: self.hung == {"a-1"}))
        self.assertTrue(wait_for(lambda: self.reason() == "NodeLost"), self.host.job("ns/Job/a"))
        self.host.kill()
        self.start(nodeloss=400, missing=8000)
        for _ in range(2):
            self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["reservedGPUs"] == 8), self.host.job("ns/Job/a"))
            time.sleep(5)
        self.assertEqual(self.host.job("ns/Job/a")["reservedGPUs"], 8)

    def test_unhealthy_gpus(self):
        self.world(2)
        self.begin()
        self.play()
        node = self.first["a-3"]
        used = [(gpu, "ns", "a-3") for gpu in range(8)]
        self.api.add(TOPOLOGIES, node, status=topology(node, 8, used, unhealthy=[5]))
        self.wait_settled(lambda places: node[:2] not in {p[:2] for p in places})
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1", "a-2", "a-3"])

    def isolate(self, node, pod, why):
        status = topology(node, 8, [(gpu, "ns", pod) for gpu in range(8)], unhealthy=[5])
        status["gpus"][5]["unhealthyReason"] = why
        self.api.add(TOPOLOGIES, node, status=status)

    def test_an_isolated_gpu(self):
        """Its unit goes where people say that its pods are to leave; a job without the policy stays then, too."""
        self.world(3)
        other = self.add_gang("b", 4, 32)
        self.begin()
        self.wait_lifted(*other)
        for name in other:
            self.bind(name)
        self.play()
        node = self.first["a-3"]
        self.isolate(node, "a-3", "isolated: ticket 17")
        self.isolate(planned_node(self.pod("b-1")), "b-1", "isolated, pods leave: burns")
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        self.isolate(node, "a-3", "isolated, pods leave: ticket 17")
        self.wait_settled(lambda places: node[:2] not in {p[:2] for p in places})
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1", "a-2", "a-3"])

    def test_a_taint_and_a_deleted_node(self):
        self.world(3)
        self.begin()
        self.play()
        node = self.first["a-3"]
        self.api.add("/api/v1/nodes", node, spec={"taints": [{"key": "gone", "effect": "NoExecute"}], "unschedulable": True},
                     status=node_status())
        self.wait_settled(lambda places: node[:2] not in {p[:2] for p in places})
        evicted = len(self.api.evicted)
        self.assertEqual(evicted, 4)
        node = self.places()[1]
        self.dead.add(node)
        self.api.remove("/api/v1/nodes", node)
        self.wait_settled(lambda places: node not in places)
        self.assertEqual(len(self.supers()), 1)

    def test_a_drained_node(self):
        """A replacement that finds no room in its supernode for --node-loss-after takes its unit along."""
        self.world(2)
        self.begin(**{"return": 300})
        self.play()
        node = self.first["a-1"]
        self.api.add("/api/v1/nodes", node, spec={"unschedulable": True}, status=node_status())
        pod = self.pod("a-1")
        self.api.add(PODS, "a-1", **{k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {
            "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T01:00:00Z"}})
        self.wait_settled(lambda places: node[:2] not in {p[:2] for p in places})
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-2", "a-3"])

    def test_the_job_begins_again(self):
        """`job`: the other units are evicted, too, and all are placed again."""
        self.world(3)
        self.begin(pods=8, loss="job")
        self.play()
        self.break_node(self.first["a-2"])
        self.wait_settled(lambda places: all(len(n) > 3 for n in self.names) and
                          all(len({p[:2] for p in places[u:u + 4]}) == 1 for u in (0, 4)) and self.first["a-2"] not in places)
        self.assertEqual(sorted(self.api.evicted), sorted(self.first))

    def test_the_last_pod_goes_when_another_has_come(self):
        """Without a pod the job would be gone, and with it the place that is reserved."""
        self.world(2)
        self.begin(missing=3000)
        used = [(gpu, "ns", "a-0") for gpu in range(8)]
        self.api.add(TOPOLOGIES, self.first["a-0"], status=topology(self.first["a-0"], 8, used, unhealthy=[0]))
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 3))
        for name in list(self.api.evicted):
            self.end(name)
        time.sleep(QUIET)
        self.assertEqual(len(self.api.evicted), 3)
        self.play()
        first = min(set(self.names) - set(self.api.evicted))
        self.assertTrue(wait_for(lambda: first in self.api.evicted))

    def test_spares(self):
        """A new job leaves the spare node alone; a replacement takes it. A number above the nodes is told, and counts as none."""
        self.world(2, nodes_each=5)
        for name, spares in (("s0", "1"), ("s1", "6")):
            with self.api.lock:
                collection, _, _ = self.api.place(SUPERNODES + "/x")
                status = self.api.objects[collection, name]["status"]
            self.api.add(SUPERNODES, name, metadata={"annotations": {"metax-tech.com/spare-nodes": spares}}, status=status)
        self.api.add(TOPOLOGIES, "s1-n0", status=topology("s1-n0", 8, unhealthy=range(8)))
        self.api.add(TOPOLOGIES, "s1-n1", status=topology("s1-n1", 8, unhealthy=range(8)))
        self.begin()
        self.assertEqual(set(self.first.values()), {f"s0-n{n}" for n in range(4)})
        self.assertTrue(wait_for(lambda: any("6 spare nodes are more than its 5 nodes" in n["note"] for n in self.host.notes)), self.host.notes)
        self.add_job("b", 1, 8)
        self.add_pod("b-0", indexed_pod("b", 0, group=8))
        self.wait_lifted("b-0")
        self.assertEqual(planned_node(self.pod("b-0"))[:2], "s1")
        self.add_job("c", 3, 24)
        for rank in range(3):
            self.add_pod(f"c-{rank}", indexed_pod("c", rank, group=24))
        self.assertTrue(wait_for(lambda: "1 node is spare, left free" in self.host.job("ns/Job/c").get("text", "")), self.host.job("ns/Job/c"))
        self.play()
        self.break_node(self.first["a-1"])
        self.wait_settled(lambda places: places[1] == "s0-n4")
        self.assertEqual(self.api.evicted, ["a-1"])

    def leave_kept(self, kept, other):
        """Racks of five nodes, with the job `a` in s0; `kept` and `other` have two free nodes each, and s3 has all: `big`, which
        needs four nodes of two racks, has some of s3 and of `kept`, the less used one, reserved for it."""
        def use(rack, count):
            for n in range(5 - count, 5):
                self.api.add(TOPOLOGIES, f"{rack}-n{n}", status=topology(f"{rack}-n{n}", 8, [(gpu, "x", "x") for gpu in range(8)]))
        self.world(4, nodes_each=5)
        use("s0", 3)
        self.begin(pods=2, group=16, patience=300, turn=60000, percent=100)
        self.assertEqual({place[:2] for place in self.first.values()}, {"s0"})
        use(other, 3)
        use(kept, 2)
        self.api.add(TOPOLOGIES, f"{kept}-n0", status=topology(f"{kept}-n0", 8, unhealthy=range(8)))
        self.add_job("big", 8, 32)
        for rank in range(8):
            self.add_pod(f"big-{rank}", indexed_pod("big", rank))
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedNodes"] == 8), self.host.counters())
        self.play()
        self.break_node(self.first["a-0"])
        self.wait_settled(lambda places: {place[:2] for place in places} == {other})
        self.break_node(self.places()[1])  # now no other rack has room
        self.wait_settled(lambda places: {place[:2] for place in places} in ({kept}, {"s3"}))

    def test_a_move_leaves_kept_nodes_where_others_serve(self):
        self.leave_kept("s1", "s2")

    def test_a_move_leaves_kept_nodes_whatever_their_names(self):
        self.leave_kept("s2", "s1")

    def heal_node(self, node):
        """Its kubelet is back, and ends what it did not know to have ended."""
        self.dead.discard(node)
        self.api.add("/api/v1/nodes", node, spec={}, status=node_status())
        for name in list(self.hung):
            pod = self.pod(name)
            if not pod or pod["spec"].get("nodeName") == node:
                self.hung.discard(name)
                if pod:
                    self.end(name)

    def check_whole(self):
        """At any moment: of the pods that stay and have a place, those of a unit are in one supernode, and no two on one node."""
        with self.api.lock:
            pods = [pod for (where, _), pod in self.api.objects.items() if where[2] == "pods"
                    and "deletionTimestamp" not in pod["metadata"] and planned_node(pod) and not gates(pod)]
        units, nodes = {}, {}
        for pod in pods:
            units.setdefault(pod["metadata"]["annotations"][PLAN + "unit"], set()).add(planned_node(pod)[:2])
            nodes.setdefault(planned_node(pod), []).append(pod["metadata"]["name"])
        self.assertEqual({unit: supers for unit, supers in units.items() if len(supers) > 1}, {}, "units in two supernodes")
        self.assertEqual({node: names for node, names in nodes.items() if len(names) > 1}, {}, "GPUs of two pods")

    def test_a_node_that_is_back_before_its_pods_go(self):
        """No pod has gone yet: all stay, and the second place is given back."""
        self.world(2)
        self.api.budget = lambda name: "not now"
        self.begin()
        self.break_node(self.first["a-0"])
        self.assertTrue(wait_for(lambda: self.reason() == "UnitMoves"), self.host.job("ns/Job/a"))
        self.assertEqual(self.host.job("ns/Job/a")["reservedGPUs"], 32)
        self.heal_node(self.first["a-0"])
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["reservedGPUs"] == 0), self.host.job("ns/Job/a"))
        self.api.budget = None
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        self.assertTrue(wait_for(lambda: "moving" not in self.status()), self.status())
        self.assertEqual({n: self.pod(n)["spec"]["nodeName"] for n in self.names}, self.first)

    def test_a_node_that_is_back_when_some_have_gone(self):
        """The unit moves on: it is never in two pieces."""
        self.world(2)
        self.api.budget = lambda name: "not now" if name in ("a-2", "a-3") else None
        self.begin()
        self.play()
        self.break_node(self.first["a-0"])
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2))
        self.heal_node(self.first["a-0"])
        time.sleep(QUIET)
        self.check_whole()
        self.api.budget = None
        self.wait_settled(lambda places: len({p[:2] for p in places}) == 1)
        self.check_whole()
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["reservedGPUs"] == 0), self.host.job("ns/Job/a"))

    def test_a_node_that_is_back_when_one_unit_has_moved(self):
        """The whole job restarts: the other unit must not go on with pods from before."""
        self.world(3)
        self.begin(pods=8, loss="job")
        others = [self.names[rank] for rank in range(4, 8)]
        self.api.budget = lambda name: "not now" if name in others else None
        self.play()
        self.break_node(self.first["a-0"])
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 4))
        self.assertTrue(wait_for(lambda: all(self.places()) and not set(self.places()[:4]) & set(self.first.values())), self.places())
        self.heal_node(self.first["a-0"])
        time.sleep(QUIET)
        self.assertEqual(self.reason(), "UnitMoves")
        self.api.budget = None
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 8), self.host.job("ns/Job/a"))
        self.wait_settled()

    def test_a_node_that_is_back_when_an_eviction_is_on_its_way(self):
        """Its pod goes: so the move goes on, and nobody says that all stay."""
        self.world(2)
        arrived, served = threading.Event(), threading.Event()
        self.addCleanup(served.set)

        def meddle(request):
            if request.path.endswith("/eviction"):
                arrived.set()
                served.wait(5)
        self.api.meddle = meddle
        self.begin()
        self.play()
        self.break_node(self.first["a-0"])
        self.assertTrue(arrived.wait(10))
        self.heal_node(self.first["a-0"])
        time.sleep(QUIET)
        served.set()
        self.wait_settled(lambda places: self.first["a-0"][:2] not in {p[:2] for p in places})
        self.assertEqual(len(self.api.evicted), 4)

    def test_a_pod_on_a_node_that_is_back(self):
        """One replacement has its place in the same supernode; the node is back before its pod goes."""
        self.world(1, nodes_each=5)
        self.api.budget = lambda name: "not now"
        self.begin()
        self.break_node(self.first["a-1"])
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["reservedGPUs"] == 8), self.host.job("ns/Job/a"))
        self.heal_node(self.first["a-1"])
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["reservedGPUs"] == 0), self.host.job("ns/Job/a"))

    def test_a_flapping_node_does_not_move_a_job_again_and_again(self):
        """Each further move of the whole job waits twice as long as the last one, and says until when."""
        self.world(2)
        self.begin(loss="job")
        self.play()
        moves, pauses, end = 0, 0, time.monotonic() + 12

        def pauses_now():
            return re.search("its job has moved [2-5] times of late, and moves again at ", self.host.job("ns/Job/a")["text"])
        while time.monotonic() < end or not pauses:
            self.wait_settled()
            at = self.places()[0]
            self.break_node(at)
            moved = lambda at=at: at not in self.places() and all(self.places())
            self.assertTrue(wait_for(lambda: moved() or moves >= 2 and pauses_now() and self.reason() == "NodeLost"), self.host.job("ns/Job/a"))
            if moved():
                moves += 1
            else:
                pauses += 1
            self.heal_node(at)
        self.assertIn(moves, range(2, 6))

    def test_random_losses_keep_units_whole(self):
        seed = given_seed()
        chance = random.Random(seed)
        racks = chance.randint(3, 5)
        self.world(racks, nodes_each=5)
        self.begin(pods=8, loss=chance.choice(("unit", "unit", "job")), missing=3000, **{"return": 300})
        self.play()
        budget = random.Random(seed)  # moves take a while, and are met by the next loss
        self.api.budget = lambda name: "not now" if budget.random() < 0.6 else None
        every = [f"s{rack}-n{number}" for rack in range(racks) for number in range(5)]
        for _ in range(10):
            used = [place for place in self.places() if place and place not in self.dead]
            if self.dead and (len(self.dead) > 4 or chance.random() < 0.4):
                self.heal_node(chance.choice(sorted(self.dead)))
            else:
                self.break_node(chance.choice(used if used and chance.random() < 0.8 else every))
            end = time.monotonic() + chance.uniform(0.3, 2.5)
            while time.monotonic() < end:
                self.check_whole()
                time.sleep(0.02)
        self.api.budget = None
        for node in sorted(self.dead):
            self.heal_node(node)
        self.wait_settled()
        self.check_whole()

    def test_atoms(self):
        """Of a soft unit the atom moves."""
        self.world(4, nodes_each=2)
        self.begin(atomic=16)
        self.play()
        home = self.first["a-0"][:2]
        self.break_node(self.first["a-0"])
        self.wait_settled(lambda places: home not in {p[:2] for p in places})
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1"])


if __name__ == "__main__":
    side_by_side.main()
