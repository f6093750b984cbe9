#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Moves by --rebalance=evict and by people, in the double of the API server: when they begin, wait and stop, and what is said."""

import threading
import time
import unittest

from api_double import ApiError
from daemon_driver import wait_for
from placement_case import JOBS, PODS, SUPERNODES, TOPOLOGIES
from placement_driver import indexed_pod, node_status, planned_node, pod_spec, supernode_status, template, topology
from rebalance_case import RebalanceCase


class Moves(RebalanceCase):
    def test_it_moves_them_by_itself(self):
        seen = []
        self.api.meddle = lambda request: seen.append(self.moves()) if request.path.endswith("/eviction") else None
        self.begin(rebalance=2)
        self.play()
        self.check_evicted("u-0", "u-1")
        self.assertIn("MovesBegun", self.reasons())
        self.assertRegex(seen[0], rf"^room={self.home}-n\d,.* ns/u-\d/\S+={self.other}-n\d,ns/u-\d/\S+={self.other}-n\d$")
        self.assertTrue(wait_for(lambda: not self.moves()))
        self.assertNotIn("MovesStopped", self.reasons())

    def test_it_moves_them_for_a_unit_in_one_supernode(self):
        """Its atoms would fit, but not in one supernode."""
        self.begin(waiting=False, rebalance=2)
        self.play()
        self.add_job("w", 4, 32, atomic=8)
        for rank in range(4):
            made = indexed_pod("w", rank, group=32)
            made["metadata"]["annotations"].update({"metax-tech.com/atomic-gpu-group-size": "8",
                                                    "metax-tech.com/gpu-group-topology": "required=supernode"})
            self.add_pod(f"w-{rank}", made)
        self.assertTrue(wait_for(lambda: (self.condition("w-0") or {}).get("reason") == "NoDomain" or self.is_lifted("w-0")))
        self.check_evicted("u-0", "u-1")

    def test_one_unit_after_the_other(self):
        """Both units of a node each have to go, one at a time; the second waits until the first has its node."""
        self.begin(unit=8, rebalance=2, atonce=1)
        self.assertTrue(wait_for(lambda: self.api.evicted))
        time.sleep(1.5)
        self.assertEqual(len(self.api.evicted), 1)
        self.play()
        self.check_evicted("u-0", "u-1")

    def run_units(self):
        self.add_job("u", len(self.names), 8)
        for rank, name in enumerate(self.names):
            self.add_pod(name, self.unit_pod(rank))
        self.start(patience=300, retry=200)
        self.wait_lifted(*self.names)
        for name in self.names:
            self.bind(name)

    def test_a_job_that_lies_less_close(self):
        """One of its two units goes to the other supernode."""
        self.world(2)
        self.names, self.movable, self.unit, self.more = [f"u-{rank}" for rank in range(3)], "true", 8, {}
        self.run_units()
        home = planned_node(self.pod("u-0"))[:2]
        self.other = {"s0": "s1", "s1": "s0"}[home]
        for number in range(3):
            self.add_pod(f"v-{number}", {"metadata": {}, "spec": pod_spec(8, False)})
            self.run_on(f"v-{number}", f"{self.other}-n{number}", range(8))
        self.add_gang("w", 2, 16)
        self.assertTrue(wait_for(lambda: self.suggestion()), self.condition("w-0"))
        self.assertEqual(len(self.suggestion()), 1)
        self.assertIn("; ns/Job/u then lies in 2 supernodes, not in 1", self.condition("w-0")["message"])

    def add_leaves(self, **leaves):
        """Each has supernodes of two nodes."""
        for name, supernodes in leaves.items():
            for supernode in supernodes:
                members = [f"{supernode}-n{n}" for n in range(2)]
                for node in members:
                    self.api.add("/api/v1/nodes", node, metadata={"labels": {"kubernetes.io/hostname": node}}, spec={}, status=node_status(8))
                    self.api.add(TOPOLOGIES, node, status=topology(node, 8))
                self.api.add(SUPERNODES, supernode, status={**supernode_status(members), "parent": name})
                self.nodes += members
            self.api.add(SUPERNODES, name, status=supernode_status([], tier=2))

    def test_a_job_that_lies_in_more_leaves(self):
        """Two supernodes before and afterwards, but two leaves."""
        self.add_leaves(a=("s0", "s1"), b=("s2",))
        self.names, self.movable, self.unit, self.more = ["u-0", "u-1"], "true", 8, {}
        for node in ("s0-n0", "s1-n0", "s2-n0", "s2-n1"):
            self.occupy(f"v-{node}", node)
        self.run_units()
        for node in ("s2-n0", "s0-n0"):
            self.end(f"v-{node}")
        time.sleep(0.5)
        self.add_gang("w", 2, 16)
        self.assertTrue(wait_for(lambda: self.suggestion()), self.condition("w-0"))
        self.assertIn("; ns/Job/u then lies in 2 leaves, not in 1", self.condition("w-0")["message"])

    def test_a_job_that_people_move_lies_less_close(self):
        """The Event of the move says it."""
        self.begin(unit=8, waiting=False)
        self.play()
        self.ask([("u-0", f"{self.other}-n1")])
        said = f"another place is reserved in supernode {self.other}; ns/Job/u then lies in 2 supernodes, not in 1"
        self.assertTrue(wait_for(lambda: any(e["reason"] == "UnitMoves" and e["note"].endswith(said) for e in self.events())), self.events())
        self.assertTrue(wait_for(lambda: self.all_run() and self.names[0] != "u-0" and
                                 self.pod(self.names[0])["spec"]["nodeName"] == f"{self.other}-n1"))
        self.ask([(self.names[1], f"{self.other}-n2")])
        said = f"another place is reserved in supernode {self.other}"
        self.assertTrue(wait_for(lambda: any(e["reason"] == "UnitMoves" and "pod u-1 " in e["note"] and e["note"].endswith(said)
                                             for e in self.events())), self.events())

    def test_so_many_a_day(self):
        """Two units would have to move, and one may: none does, and it is said."""
        self.begin(unit=8, rebalance=2, aday=1)
        self.assertTrue(wait_for(lambda: "--moves-a-day is 1" in (self.condition("w-0") or {}).get("message", "")), self.condition("w-0"))
        self.assertEqual(len(self.suggestion()), 2)
        self.assertEqual(self.api.evicted, [])

    def test_a_budget_that_lets_nobody_go(self):
        """It has changed since the dry runs."""
        def meddle(request):
            if request.path.endswith("/eviction") and "dryRun" not in request.query:
                raise ApiError(429, "no disruptions")
        self.api.meddle = meddle
        self.begin(rebalance=2, turn=3000)
        self.play()
        self.assertTrue(wait_for(lambda: self.moves()))
        self.check_stopped("longer than nodes are reserved for a job: pod ns/u-")
        self.assertTrue(any("has not left, " in note and "no disruptions" in note for note in self.stopped()), self.stopped())

    def test_a_budget_keeps_one_pod_of_a_unit(self):
        """The others of the unit stay, too, and it is said who keeps them."""
        self.api.budget = lambda name: "no disruptions" if name == "u-1" else None
        self.begin(rebalance=2)
        self.play()
        self.check_stopped("pod ns/u-1 may not leave, so its unit stays: ")
        self.assertTrue(any("no disruptions" in note for note in self.stopped()), self.stopped())

    def test_a_budget_that_lets_one_go_at_a_time(self):
        """Both units have begun: the second one waits until the first is back."""
        def budget(name):
            others = [self.pod(other) for other in self.names if other != name]
            return None if all(pod and pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"] for pod in others) else "no disruptions"
        self.api.budget = budget
        self.pause = 1
        self.begin(unit=8, rebalance=2, atonce=2)
        self.play()
        self.check_evicted("u-0", "u-1")
        self.assertEqual(self.stopped(), [])

    def test_others_move_where_a_budget_keeps_a_unit(self):
        """The cheaper moves are refused by dry runs. The next ones are made at once, and only they count for the day."""
        self.api.budget = lambda name: "no disruptions" if name == "u-1" else None
        self.begin(waiting=False, rebalance=2, aday=1)
        self.end("v")
        rest = sorted({n for n in self.nodes if n.startswith(self.home)} - {self.pod(u)["spec"]["nodeName"] for u in self.names})
        for node in rest:
            self.occupy(f"x-{node}", node)
        self.add_job("v", 1, 8)
        made = indexed_pod("v", 0, group=8)
        made["metadata"]["annotations"].update({"metax-tech.com/movable": "true", "metax-tech.com/restart-cost": "9"})
        self.add_pod("v-0", made)
        self.wait_lifted("v-0")
        self.bind("v-0")
        for node in rest:
            self.end(f"x-{node}")
        self.add_gang("w", 4, 32)
        self.assertTrue(wait_for(lambda: self.api.evicted), self.events())
        self.assertEqual(self.api.evicted, ["v-0"])
        self.assertTrue(any(note.startswith("pod ns/u-1 may not leave") for note in self.stopped()), self.stopped())

    def test_a_budget_keeps_one_pod_of_a_unit_that_people_move(self):
        """Nobody of the unit leaves before all may, at the same time."""
        self.begin(waiting=False)
        self.play()
        allowed = threading.Event()

        def budget(name):  # as soon as u-0 may leave, u-1 may not: what it was allowed before does not count
            if name == "u-0":
                return None if allowed.is_set() else "no disruptions"
            return "not now" if allowed.is_set() else None
        self.api.budget = budget
        moves = [(name, f"{self.other}-n{number}") for number, name in enumerate(self.names, 1)]
        self.ask(moves)
        self.assertTrue(wait_for(lambda: "no disruptions" in self.host.job("ns/Job/u")["text"]), self.host.job("ns/Job/u"))
        allowed.set()
        self.assertTrue(wait_for(lambda: "not now" in self.host.job("ns/Job/u")["text"]), self.host.job("ns/Job/u"))
        self.assertEqual(self.api.evicted, [])
        self.api.budget = None
        self.assertTrue(wait_for(lambda: self.all_run() and {self.pod(n)["spec"]["nodeName"] for n in self.names} == {node for _, node in moves}))
        self.assertEqual(sorted(self.api.evicted), ["u-0", "u-1"])

    def test_nobody_waits_any_more(self):
        """The waiting job goes before anybody has left: the others stay."""
        answers = threading.Event()

        def meddle(request):
            if request.path.endswith("/eviction"):  # the dry run; a refusal would end the moves
                answers.wait(60)
        self.addCleanup(answers.set)
        self.api.meddle = meddle
        self.begin(rebalance=2)
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 16))
        for rank in range(4):
            self.api.remove(PODS, f"w-{rank}")
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 0))
        answers.set()
        time.sleep(1.5)
        self.assertEqual(self.api.evicted, [])

    def stopped(self):
        return [event["note"] for event in self.events() if event["reason"] == "MovesStopped" and event["regarding"]["name"].startswith("w")]

    def test_nobody_waits_any_more_and_one_has_left(self):
        """It is said, what has not left stays, and who has left gets its new place."""
        self.begin(unit=8, rebalance=2, atonce=1)
        self.assertTrue(wait_for(lambda: self.api.evicted))
        for rank in range(4):
            self.api.remove(PODS, f"w-{rank}")
        self.assertTrue(wait_for(self.stopped), self.events())
        self.assertEqual(set(self.stopped()), {"the waiting job is gone: 1 of 2 units had begun to move, the others stay"})
        self.play()
        self.assertTrue(wait_for(lambda: self.all_run() and self.host.counters()["reservedGPUs"] == 0), self.host.counters())
        self.assertEqual(len(self.api.evicted), 1)
        self.assertEqual(sorted(self.pod(n)["spec"]["nodeName"][:2] for n in self.names), ["s0", "s1"])

    def test_a_pod_that_does_not_come_back(self):
        """Its Job makes no other: it is named, and the others stay."""
        self.begin(unit=8, rebalance=2, atonce=1, turn=6000)
        self.assertTrue(wait_for(lambda: self.api.evicted))
        first = self.api.evicted[0]
        self.end(first)
        self.assertTrue(wait_for(self.stopped), self.events())
        self.assertEqual(set(self.stopped()), {f"they took longer than nodes are reserved for a job: pod ns/{first} has left, and none has come in its place"})
        self.assertEqual(self.api.evicted, [first])

    def test_its_new_place_is_lost(self):
        """Somebody else takes it before the unit begins."""
        def meddle(request):
            if b"room=" in request.body:
                self.api.meddle = None
                for number in range(1, 4):
                    self.add_pod(f"x-{number}", {"metadata": {}, "spec": pod_spec(8, False)})
                    self.run_on(f"x-{number}", f"{self.other}-n{number}", range(8))
        self.api.meddle = meddle
        self.begin(rebalance=2)
        self.play()
        self.check_stopped("no room any more where it was to go")

    def test_the_brake_is_on(self):
        """Two of ten nodes are not Ready, and one may be: nothing moves, and it is said."""
        self.add_silent("s2-n0", "s2-n1")
        self.begin(rebalance=2, brake=10)
        self.assertTrue(wait_for(lambda: "left to people now, since" in (self.condition("w-0") or {}).get("message", "")), self.condition("w-0"))
        self.assertIn("lets 1 go at once", self.condition("w-0")["message"])
        self.assertEqual(self.api.evicted, [])

    def test_the_brake_holds_people(self):
        """Three of eleven nodes are not Ready: who is asked to move waits until they are back."""
        self.begin(brake=10)
        self.assertTrue(wait_for(lambda: self.suggestion()))
        moves, silent = self.suggestion(), ("s2-n0", "s2-n1", "s2-n2")
        self.add_silent(*silent)
        self.play()
        time.sleep(0.5)
        self.ask(moves)
        self.assertTrue(wait_for(lambda: "no pod is evicted: 3 of the 11 nodes of the cluster are" in self.host.job("ns/Job/u")["text"]),
                        self.host.job("ns/Job/u"))
        time.sleep(1)
        self.assertEqual(self.api.evicted, [])
        for node in silent:
            self.api.remove("/api/v1/nodes", node)
            self.api.remove(TOPOLOGIES, node)
        self.check_moved(moves)

    def test_the_brake_comes_on_before_anybody_has_left(self):
        """A place is reserved, and a budget keeps the unit. When it lets all go, three of eleven nodes are not Ready."""
        self.begin(waiting=False, brake=10)
        self.play()
        self.api.budget = lambda name: "no disruptions"
        moves, silent = [(name, f"{self.other}-n{number}") for number, name in enumerate(self.names, 1)], ("s2-n0", "s2-n1", "s2-n2")
        self.ask(moves)
        self.assertTrue(wait_for(lambda: "no disruptions" in self.host.job("ns/Job/u")["text"]), self.host.job("ns/Job/u"))
        self.add_silent(*silent)
        time.sleep(0.5)
        self.api.budget = None
        self.assertTrue(wait_for(lambda: self.api.evicted or "3 of the 11 nodes of the cluster are" in self.host.job("ns/Job/u")["text"]),
                        self.host.job("ns/Job/u"))
        time.sleep(1)
        self.assertEqual(self.api.evicted, [])
        for node in silent:
            self.api.remove("/api/v1/nodes", node)
            self.api.remove(TOPOLOGIES, node)
        self.assertTrue(wait_for(lambda: self.all_run() and {self.pod(n)["spec"]["nodeName"] for n in self.names} == {node for _, node in moves}))

    def test_moves_by_itself_count_for_the_brake(self):
        """Two nodes have lost their pods, and one may: a pod without a plan that is to be placed again waits."""
        self.begin(unit=8, rebalance=2, brake=10, brakespan=60000)
        self.play()
        self.check_evicted("u-0", "u-1")
        for rank in range(4):
            self.bind(f"w-{rank}")
        [free] = {f"{self.other}-n{n}" for n in range(4)} - {"v", *(self.pod(n)["spec"]["nodeName"] for n in self.names), f"{self.other}-n0"}
        self.api.add(JOBS, "b", metadata={"uid": "uid-b", "generation": 1, "annotations": {
            "metax-tech.com/gpu-group-size": "8", "metax-tech.com/on-unplaced": "recreate"}},
            spec={"completionMode": "Indexed", "completions": 1, "parallelism": 1, "template": template()})
        self.add_pod("b-0", indexed_pod("b", 0, gated=False))
        self.run_on("b-0", free, range(8))
        self.assertTrue(wait_for(lambda: "have lost their pods of late, and --brake lets 1" in self.host.job("ns/Job/b").get("text", "")),
                        self.host.job("ns/Job/b"))
        self.assertEqual(sorted(self.api.evicted), ["u-0", "u-1"])

    def test_moves_by_people_count_for_the_brake(self):
        """Two of eight nodes have lost their pods, and one may: what moves by itself waits."""
        self.begin(waiting=False, unit=8, rebalance=2, brake=10, brakespan=60000)
        self.play()
        self.ask([(name, f"{self.other}-n{number}") for number, name in enumerate(self.names, 1)])
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2), self.host.job("ns/Job/u"))
        self.assertTrue(wait_for(lambda: self.all_run() and {self.pod(n)["spec"]["nodeName"][:2] for n in self.names} == {self.other}))
        for number in range(1, 4):
            self.occupy(f"z-{number}", f"{self.home}-n{number}")
        self.end("v")
        self.add_gang("w", 3, 24)
        self.assertTrue(wait_for(lambda: "lets 1 go at once" in (self.condition("w-0") or {}).get("message", "")), self.condition("w-0"))

    def test_after_a_checkpoint(self):
        """Both pods are asked for one, and go when the job has told that it has it."""
        self.begin(movable="after-checkpoint", rebalance=2)
        self.play()
        self.assertTrue(wait_for(lambda: all(self.asked(name) for name in self.names)))
        asked = self.asked("u-0")
        self.tell_done("u-1", "2026-01-01T00:00:00Z")  # of another time
        time.sleep(1.5)
        self.assertEqual(self.api.evicted, [])
        self.assertEqual(self.asked("u-0"), asked)
        for name in ("u-0", "u-1"):
            self.tell_done(name, self.asked(name))
        self.check_evicted("u-0", "u-1")

    def test_no_checkpoint_in_time(self):
        self.begin(movable="after-checkpoint", rebalance=2, turn=3000)
        self.play()
        self.assertTrue(wait_for(lambda: self.asked("u-0")))
        self.check_stopped("has not told in time that its checkpoint is written")

    def test_not_at_this_time(self):
        """Only after six hours, or in hours that are over."""
        hour = time.gmtime().tm_hour
        for movable in ("6h", f"{(hour + 2) % 24:02}:00-{(hour + 3) % 24:02}:00", "yes"):
            with self.subTest(movable):
                self.begin_again()
                self.begin(movable=movable, rebalance=2)
                self.check_silent()
                self.assertEqual(self.api.evicted, [])

    def test_moves_to_where_the_others_of_the_job_run(self):
        """Two pods of a job are lost, others have their nodes, and an empty supernode is not for them."""
        self.world(2)
        self.start(**{"patience": 300, "retry": 200, "return": 100})
        self.add_job("w", 4, 8)
        for rank in range(4):
            self.add_pod(f"w-{rank}", self.required_pod(rank))
        self.wait_lifted(*(f"w-{rank}" for rank in range(4)))
        for rank in range(4):
            self.bind(f"w-{rank}")
        lost = [self.pod(f"w-{rank}")["spec"]["nodeName"] for rank in (2, 3)]
        for number, node in enumerate(lost):
            self.end(f"w-{number + 2}")
            self.lone_pod(number, node=node)
        time.sleep(0.5)
        for rank in (2, 3):
            self.add_pod(f"w-{rank}", self.required_pod(rank))
        self.assertTrue(wait_for(lambda: "kubectl delete pod -n ns x-" in (self.condition("w-2") or {}).get("message", "")), self.condition("w-2"))
        self.assertIn("it fits when 2 pods of 2 jobs with 16 GPUs move", self.condition("w-2")["message"])

    def test_people_move_what_has_no_plan(self):
        self.world(2)
        for number in range(2):
            self.lone_pod(number)
        self.start(patience=300, retry=200, rebalance=2)
        self.add_gang("w", 4, 32)
        self.assertTrue(wait_for(lambda: "kubectl delete pod -n ns x-" in (self.condition("w-0") or {}).get("message", "")), self.condition("w-0"))
        self.assertEqual(self.api.evicted, [])


if __name__ == "__main__":
    unittest.main()
