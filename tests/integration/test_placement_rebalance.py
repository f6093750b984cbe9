#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Moves that make room for a waiting job, in the double of the API server: what is suggested, and what the suggested
commands do."""

import sys
import time
import unittest

from daemon_driver import wait_for
from placement_case import JOBS, SUPERNODES, TOPOLOGIES
from placement_driver import (GROUP, indexed_pod, node_status, planned_node, pod_spec, pytorch_pod, replica, supernode_status,
                              template, topology)
from rebalance_case import RebalanceCase

PYTORCH_JOBS = "/apis/kubeflow.org/v1/namespaces/ns/pytorchjobs"


class Rebalance(RebalanceCase):
    def test_suggested_moves_make_room(self):
        self.begin()
        self.assertTrue(wait_for(lambda: self.suggestion()), self.condition("w-0"))
        moves = self.suggestion()
        self.assertEqual(sorted(name for name, _ in moves), ["u-0", "u-1"])
        self.assertEqual({node[:2] for _, node in moves}, {self.other})
        self.assertIn("it fits when 2 pods of 1 job with 16 GPUs move", self.condition("w-0")["message"])
        self.assertTrue(wait_for(lambda: any(e["reason"] == "MovesSuggested" for e in self.events())))
        self.assertEqual(self.api.evicted, [])  # nothing is moved
        self.play()
        self.ask(moves)
        self.check_moved(moves)

    def test_moves_for_a_job_that_must_lie_in_one_supernode(self):
        self.require_one_supernode()
        self.assertTrue(wait_for(lambda: self.suggestion()), self.condition("w-0"))
        moves = self.suggestion()
        self.assertEqual(self.condition("w-0")["reason"], "NoDomain")
        self.assertEqual(sorted(name for name, _ in moves), ["u-0", "u-1"])
        self.play()
        self.ask(moves)
        self.check_moved(moves)

    def test_moves_by_itself_for_a_job_that_must_lie_in_one_supernode(self):
        self.require_one_supernode(rebalance=2)
        self.play()
        self.wait_lifted("w-0", "w-1", "w-2", "w-3", seconds=20)
        self.assertEqual({planned_node(self.pod(f"w-{i}"))[:2] for i in range(4)}, {self.home})
        self.assertEqual(sorted(self.api.evicted), ["u-0", "u-1"])

    def test_a_job_behind_one_that_must_lie_in_one_supernode_waits(self):
        """Moves are for the first job alone, for whatever reason it waits, and also where the other one has waited for longer."""
        self.begin(waiting=False, patience=3000)
        self.add_gang("b", 4, 32)
        self.assertTrue(wait_for(lambda: (self.condition("b-0") or {}).get("reason") == "NoSupernode"), self.condition("b-0"))
        time.sleep(1.5)
        self.add_job("w", 4, 8)
        for rank in range(4):
            self.add_pod(f"w-{rank}", self.required_pod(rank, priority=10))
        self.assertTrue(wait_for(lambda: self.suggestion(), 15), self.condition("w-0"))
        self.assertEqual({event["regarding"]["name"][0] for event in self.events() if event["reason"] == "MovesSuggested"}, {"w"})

    def test_a_unit_never_goes_in_part(self):
        """With one pod of the unit asked, the others would be torn from it: all stay, and it is said why."""
        self.begin()
        self.assertTrue(wait_for(lambda: self.suggestion()))
        moves = self.suggestion()
        self.play()
        self.ask(moves[:1])
        self.assertTrue(wait_for(lambda: "people ask for it" in self.host.job("ns/Job/u")["text"]), self.host.job("ns/Job/u"))
        time.sleep(1)
        self.assertEqual(self.api.evicted, [])
        self.ask(moves[1:])
        self.check_moved(moves)

    def test_what_is_lost_goes_first(self):
        """The pod on a lost node takes any room; the one that people want on a full node stays, and it is said why."""
        self.world(2)
        self.names, self.movable, self.unit, self.more = ["u-0", "u-1"], "true", 16, {}
        self.add_job("u", 2, 16, loss="unit")
        for rank, name in enumerate(self.names):
            self.add_pod(name, self.unit_pod(rank))
        self.start(patience=300, retry=200, nodeloss=400)
        self.wait_lifted(*self.names)
        for name in self.names:
            self.bind(name)
        lost = planned_node(self.pod("u-1"))
        full = f"{'s1' if lost.startswith('s0') else 's0'}-n0"
        self.add_pod("v", {"metadata": {}, "spec": pod_spec(8, False)})
        self.run_on("v", full, range(8))
        self.ask([("u-0", full)])
        self.assertTrue(wait_for(lambda: "people ask for it" in self.host.job("ns/Job/u")["text"]), self.host.job("ns/Job/u"))
        self.play()
        status = node_status()
        status["conditions"][0].update(status="Unknown", lastTransitionTime=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        self.api.add("/api/v1/nodes", lost, spec={}, status=status)
        self.assertTrue(wait_for(lambda: (self.pod(self.names[1]) or {"spec": {}})["spec"].get("nodeName") not in (None, lost)),
                        self.host.job("ns/Job/u"))
        self.assertEqual(self.api.evicted, ["u-1"])

    def test_a_job_that_has_no_pods_for_a_while(self):
        """Its only pod goes, and its owner makes the next one later: the place is not given to another that is to move there."""
        self.world(2, nodes_each=2)
        self.start(patience=300, retry=200)
        for name in ("x", "y", "v"):
            self.add_gang(name, 1, 8)
            self.wait_lifted(f"{name}-0")
            self.bind(f"{name}-0")
        [free] = set(self.nodes) - {planned_node(self.pod(f"{name}-0")) for name in "xyv"}
        self.ask([("x-0", free)])
        self.assertTrue(wait_for(lambda: self.api.evicted == ["x-0"]))
        self.end("x-0")
        self.ask([("y-0", free)])
        self.assertTrue(wait_for(lambda: "people ask for it" in self.host.job("ns/Job/y")["text"]), self.host.job("ns/Job/y"))
        time.sleep(1.5)
        self.assertEqual(self.api.evicted, ["x-0"])
        self.assertEqual(self.host.counters()["reservedGPUs"], 8)
        self.add_pod("x-0-next", indexed_pod("x", 0, group=8))
        self.wait_lifted("x-0-next")
        self.assertEqual(planned_node(self.pod("x-0-next")), free)

    def test_a_job_that_comes_back_to_nothing(self):
        """Its owner is gone with its only pod: the place is free at once."""
        self.leave_alone()
        self.end("x-0")
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 8), self.host.counters())
        self.api.remove(JOBS, "x")
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 0, 20), self.host.counters())
        self.assertTrue(wait_for(lambda: not self.status("job-x")))

    def leave_alone(self, **options):
        """The only pod of the job x is evicted for a move to the returned node, and is still there."""
        self.world(2, nodes_each=1)
        self.start(patience=300, retry=200, **options)
        self.add_gang("x", 1, 8)
        self.wait_lifted("x-0")
        self.bind("x-0")
        free = {"s0-n0": "s1-n0", "s1-n0": "s0-n0"}[planned_node(self.pod("x-0"))]
        self.ask([("x-0", free)])
        self.assertTrue(wait_for(lambda: self.api.evicted == ["x-0"]))
        return free

    def test_a_job_whose_only_pod_goes_slowly(self):
        """Its place is kept for longer than it would be for a pod that is missing."""
        free = self.leave_alone(missing=500)
        time.sleep(2.5)
        self.assertEqual(self.host.counters()["reservedGPUs"], 8)
        self.end("x-0")
        self.add_pod("x-0-next", indexed_pod("x", 0, group=8))
        self.wait_lifted("x-0-next")
        self.assertEqual(planned_node(self.pod("x-0-next")), free)

    def test_a_job_that_is_suspended_before_its_pod_has_gone(self):
        """No successor comes: the place is free as soon as that is known."""
        self.leave_alone()
        self.add_job("x", 1, 8, suspend=True)
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 0), self.host.counters())
        self.end("x-0")
        self.assertTrue(wait_for(lambda: not self.status("job-x")))
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)

    def test_a_job_that_is_deleted_before_its_pod_has_gone(self):
        """As kubectl delete does: the pods go after their owner."""
        self.leave_alone()
        self.api.remove(JOBS, "x")
        time.sleep(0.5)
        self.end("x-0")
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 0), self.host.counters())
        self.assertTrue(wait_for(lambda: not self.status("job-x")))

    def test_places_of_a_job_without_pods_are_named(self):
        """Whoever waits is told whom the GPUs are kept for."""
        self.leave_alone()
        home = planned_node(self.pod("x-0"))
        self.end("x-0")
        self.add_pod("v", {"metadata": {}, "spec": pod_spec(8, False)})
        self.run_on("v", home, range(8))
        self.add_gang("y", 1, 8)
        self.assertTrue(wait_for(lambda: "8 GPUs are reserved for ns/Job/x until" in self.host.job("ns/Job/y").get("text", "")),
                        self.host.job("ns/Job/y"))

    def test_the_next_leader_keeps_the_place_of_a_job_without_pods(self):
        """The leader dies after the eviction: before or after the pod has gone. Nobody else gets the place meanwhile."""
        for gone in (False, True):
            with self.subTest(gone=gone):
                self.begin_again()
                free = self.leave_alone()
                home = planned_node(self.pod("x-0"))
                if gone:
                    self.end("x-0")
                    self.assertTrue(wait_for(lambda: self.host.counters()["jobs"]["placed"] == 0), self.host.counters())
                self.host.kill()
                self.start(patience=300, retry=200, missing=5000)
                if not gone:
                    self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 8), self.host.counters())
                    self.end("x-0")
                self.add_pod("v", {"metadata": {}, "spec": pod_spec(8, False)})
                self.run_on("v", home, range(8))
                self.add_gang("y", 1, 8)
                self.assertTrue(wait_for(lambda: "8 GPUs are reserved for ns/Job/x until" in self.host.job("ns/Job/y").get("text", "")),
                                self.host.job("ns/Job/y"))
                self.add_pod("x-0-next", indexed_pod("x", 0, group=8))
                self.wait_lifted("x-0-next")
                self.assertEqual(planned_node(self.pod("x-0-next")), free)
                self.assertEqual(self.api.evicted, ["x-0"])

    def test_the_next_leader_keeps_places_by_rank(self):
        """The plan's ranks do not begin with 0: another pod has ended, or the job has one without GPUs."""
        for ended in (True, False):
            with self.subTest(ended=ended):
                self.begin_again()
                self.world(3, nodes_each=1)
                self.start(patience=300, retry=200, missing=3000)
                home, made = self.ended_sibling() if ended else self.lone_worker()
                key = f"ns/{'Job' if ended else 'PyTorchJob'}/x"
                [free] = [node for node in self.nodes if not self.users(node)]
                self.ask([("x-1", free)])
                self.assertTrue(wait_for(lambda: self.api.evicted == ["x-1"]), self.host.job(key))
                self.end("x-1")
                self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 8), self.host.counters())
                self.host.kill()
                self.start(patience=300, retry=200, missing=5000)
                self.occupy("v", home)
                self.add_gang("y", 1, 8)
                self.assertTrue(wait_for(lambda: f"8 GPUs are reserved for {key} until" in self.host.job("ns/Job/y").get("text", "")),
                                self.host.job("ns/Job/y"))
                self.add_pod("x-1-next", made)
                self.wait_lifted("x-1-next")
                self.assertEqual(planned_node(self.pod("x-1-next")), free)

    def users(self, node):
        with self.api.lock:
            collection, _, _ = self.api.place(TOPOLOGIES + "/x")
            return self.api.objects[collection, node]["status"]["owners"]

    def ended_sibling(self):
        """Of two units of one pod, the first has ended, and somebody else has its node."""
        names = self.add_gang("x", 2, 8)
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        self.end("x-0", "Succeeded")
        self.api.add(JOBS, "x", spec={"completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": template(8, 8)},
                     status={"succeeded": 1, "completedIndexes": "0"})
        self.occupy("other", planned_node(self.pod("x-0")))
        return planned_node(self.pod("x-1")), indexed_pod("x", 1, group=8)

    def lone_worker(self):
        """The job's master has no GPUs; somebody else has another node."""
        self.api.add(PYTORCH_JOBS, "x", spec={"pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": {"metadata": {}, "spec": {"containers": [{"name": "main"}]}}},
            "Worker": {"replicas": 1, "template": template(8, 8)}}})
        made = pytorch_pod("x", "worker", 0)
        made["metadata"]["annotations"] = {GROUP: "8"}
        self.add_pod("x-1", made)
        self.wait_lifted("x-1")
        self.bind("x-1")
        home = planned_node(self.pod("x-1"))
        self.occupy("other", next(node for node in self.nodes if node != home))
        return home, made

    def test_the_next_leader_keeps_the_places_of_a_unit(self):
        """Its pods come one after the other, and somebody else waits for a place."""
        self.world(2, nodes_each=2)
        self.start(patience=300, retry=200, missing=3000)
        names = self.add_gang("x", 2, 16)
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        home = planned_node(self.pod("x-0"))[:2]
        free = sorted(node for node in self.nodes if not node.startswith(home))
        self.ask(list(zip(names, free)))
        self.assertTrue(wait_for(lambda: sorted(self.api.evicted) == names), self.host.job("ns/Job/x"))
        for name in names:
            self.end(name)
        self.assertTrue(wait_for(lambda: self.host.counters()["jobs"]["placed"] == 0), self.host.counters())
        self.host.kill()
        self.start(patience=300, retry=200, missing=5000)
        for node in self.nodes:
            if node.startswith(home):
                self.occupy(f"v-{node}", node)
        self.add_gang("y", 1, 8)
        self.assertTrue(wait_for(lambda: "16 GPUs are reserved for ns/Job/x until" in self.host.job("ns/Job/y").get("text", "")),
                        self.host.job("ns/Job/y"))
        self.add_pod("x-0-next", indexed_pod("x", 0, group=16))
        time.sleep(1.5)
        self.assertFalse(self.is_lifted("y-0"))
        self.add_pod("x-1-next", indexed_pod("x", 1, group=16))
        self.wait_lifted("x-0-next", "x-1-next")
        self.assertEqual(sorted(planned_node(self.pod(f"x-{i}-next")) for i in range(2)), free)

    def test_a_job_that_ends_while_nobody_leads(self):
        """It is suspended or deleted, and its last pod is still there: the next leader keeps no place for it."""
        for deleted in (False, True):
            with self.subTest(deleted=deleted):
                self.begin_again()
                self.leave_alone()
                self.host.kill()
                if deleted:
                    self.api.remove(JOBS, "x")
                else:
                    self.add_job("x", 1, 8, suspend=True)
                self.start(patience=300, retry=200)
                self.add_gang("y", 1, 8)
                self.wait_lifted("y-0")
                time.sleep(1)
                self.assertEqual(self.host.counters()["reservedGPUs"], 0)
                self.end("x-0")
                self.assertTrue(wait_for(lambda: not self.status("job-x")))
                self.assertEqual(self.host.counters()["reservedGPUs"], 0)

    def test_a_place_that_the_next_leader_keeps_ends(self):
        """No successor comes."""
        self.leave_alone()
        self.end("x-0")
        self.assertTrue(wait_for(lambda: self.host.counters()["jobs"]["placed"] == 0), self.host.counters())
        self.host.kill()
        self.start(patience=300, retry=200, missing=500)
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 8), self.host.counters())
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 0), self.host.counters())
        self.assertTrue(wait_for(lambda: not self.status("job-x")))

    def test_two_jobs_without_pods_when_another_leads(self):
        """Their places end with the term of this process, and are taken up in its next one."""
        self.world(2, nodes_each=2)
        self.start(patience=300, retry=200)
        for name in "xy":
            self.add_gang(name, 1, 8)
            self.wait_lifted(f"{name}-0")
            self.bind(f"{name}-0")
        free = set(self.nodes) - {planned_node(self.pod(f"{name}-0")) for name in "xy"}
        self.ask([(f"{name}-0", node) for name, node in zip("xy", sorted(free))])
        self.assertTrue(wait_for(lambda: sorted(self.api.evicted) == ["x-0", "y-0"]), self.api.evicted)
        for name in "xy":
            self.end(f"{name}-0")
        self.assertTrue(wait_for(lambda: self.host.counters()["jobs"]["placed"] == 0), self.host.counters())
        self.assertEqual(self.host.counters()["reservedGPUs"], 16)
        self.host.order("stop")
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)
        self.host.order("start")
        self.assertEqual(self.host.counters()["reservedGPUs"], 16)

    def test_a_node_that_nobody_knows(self):
        self.begin()
        self.ask([("u-0", "no-such-node")])
        self.assertTrue(wait_for(lambda: "people ask for it" in self.host.job("ns/Job/u")["text"]), self.host.job("ns/Job/u"))
        self.assertEqual(self.api.evicted, [])

    def test_nothing_moves_to_slow_gpus_that_never_takes_them(self):
        self.world(2)
        made = replica("x-0", uid="x0", gpus=8, gated=False)
        made["metadata"]["annotations"] = {"metax-tech.com/movable": "true", "metax-tech.com/slow-gpus": "never"}
        self.add_pod("x-0", made)
        self.run_on("x-0", "s0-n0", range(8))
        for node in self.nodes:
            if node.startswith("s1") and node != "s1-n0":
                status = topology(node, 8)
                status["gpus"][3].update(grade="slow", gradeReason="memory bandwidth 70 %")
                self.api.add(TOPOLOGIES, node, status=status)
        made = replica("y-0", uid="y0", gpus=8, gated=False)
        self.add_pod("y-0", made)
        self.run_on("y-0", "s1-n0", range(8))
        self.start(patience=300, retry=200)
        self.add_gang("w", 4, 32)
        self.check_silent()

    def test_a_unit_of_which_one_template_says_never(self):
        """It would move as a whole, and no pod of it goes to a slow GPU."""
        self.never = 1
        self.begin()
        for number in (2, 3):  # one node is left whose GPUs are good
            node = f"{self.other}-n{number}"
            status = topology(node, 8)
            status["gpus"][3].update(grade="slow", gradeReason="memory bandwidth 70 %")
            self.api.add(TOPOLOGIES, node, status=status)
        time.sleep(8)  # so long it takes at most until the condition names moves
        self.assertEqual(self.suggestion(), [])

    def test_rules_between_pods_count(self):
        """On a node of each supernode is a pod that the waiting ones keep away from: moves do not help."""
        self.world(2)
        for number in range(2):
            self.lone_pod(number)
            self.add_pod(f"z-{number}", {"metadata": {"labels": {"app": "z"}}, "spec": {
                "nodeName": f"s{number}-n1", "containers": [{"name": "main"}]}, "status": {"phase": "Running"}})
        self.start(patience=300, retry=200)
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "z"}}}]}}
        self.add_job("w", 4, 32)
        for rank in range(4):
            pod = indexed_pod("w", rank, gpus=8, group=32)
            pod["spec"]["affinity"] = apart
            self.add_pod(f"w-{rank}", pod)
        self.check_silent()

    def test_commands_are_for_a_shell(self):
        """A pod without a unit is deleted; the sentence can be pasted."""
        self.world(2)
        for number in range(2):
            self.lone_pod(number)
        self.start(patience=300, retry=200)
        self.add_gang("w", 4, 32)
        self.assertTrue(wait_for(lambda: "it fits when" in (self.condition("w-0") or {}).get("message", "")), self.condition("w-0"))
        self.assertRegex(self.condition("w-0")["message"], r"with 8 GPUs moves: kubectl delete pod -n ns x-[01]$")

    def test_what_a_restart_costs(self):
        """Of two equal pods the one is named that says that its restart costs less."""
        for dear in (0, 1):
            with self.subTest(dear=dear):
                self.begin_again()
                self.world(2)
                for number in range(2):
                    self.lone_pod(number)
                self.change_pod(f"x-{dear}", {"annotations": {"metax-tech.com/movable": "true", "metax-tech.com/restart-cost": "5"}})
                self.start(patience=300, retry=200)
                self.add_gang("w", 4, 32)
                self.assertTrue(wait_for(lambda: "it fits when" in (self.condition("w-0") or {}).get("message", "")), self.condition("w-0"))
                self.assertTrue(self.condition("w-0")["message"].endswith(f"kubectl delete pod -n ns x-{1 - dear}"), self.condition("w-0"))

    def test_free_nodes_where_the_pods_may_not_run(self):
        """Nodes of another pool are free, too few for the waiting unit: the pods go to their own pool."""
        super().world(3)
        self.pool = {"pool": "train"}
        for node in self.nodes:
            labels = {"kubernetes.io/hostname": node, "pool": "train" if node < "s2" else "system"}
            self.api.add("/api/v1/nodes", node, metadata={"labels": labels}, spec={}, status=node_status())
        self.add_pod("y", {"metadata": {}, "spec": pod_spec(8, False)})
        self.run_on("y", "s2-n0", range(8))
        self.world = lambda supernodes: None
        self.begin(unit=8)
        self.assertTrue(wait_for(lambda: self.suggestion()), self.condition("w-0"))
        self.assertEqual({node[:2] for _, node in self.suggestion()}, {self.other})

    def test_nobody_is_named_who_did_not_say_so(self):
        self.begin(movable="false")
        self.check_silent()

    def test_what_must_lie_in_one_supernode_of_a_tier(self):
        """Its units would move one by one, and none may leave the others."""
        self.begin(unit=8, more={"metax-tech.com/job-topology": "required=supernode"})
        self.check_silent()

    def test_off(self):
        self.begin(rebalance=0)
        self.check_silent()

    def test_a_new_leader_goes_on(self):
        self.check_each_leader_goes_on(rebalance=1)

    def test_a_new_leader_goes_on_by_itself(self):
        self.check_each_leader_goes_on(rebalance=2)

    def test_a_new_leader_goes_on_with_a_job_without_pods(self):
        """The Job makes the next pod long after the last one has gone, and another one wants its new place."""
        self.pause = 1.5
        self.check_each_leader_goes_on(rebalance=2, u=1)

    def test_a_new_leader_asks_for_checkpoints(self):
        """Also with the writes that ask for a checkpoint, and with what it was told before."""
        self.check_each_leader_goes_on(rebalance=2, movable="after-checkpoint")

    def crowd(self):
        """One node is left where the unit may go, and somebody else comes who would take it."""
        for number in (1, 2):
            self.add_pod(f"v-{number}", {"metadata": {}, "spec": pod_spec(8, False)})
            self.run_on(f"v-{number}", f"{self.other}-n{number}", range(8))

        def meddle(request, meddle=self.api.meddle):
            if request.path.endswith("/eviction") and not self.pod("y-0"):
                self.add_gang("y", 1, 8)
            meddle(request)
        self.api.meddle = meddle

    def check_each_leader_goes_on(self, rebalance, u=2, movable="true"):
        """The leader dies before each of its writes: no pod leaves twice, and both jobs run in the end."""
        killed = 0
        for at in range(40):
            with self.subTest(at=at):
                if self.host:
                    self.stop_playing()
                self.begin_again()
                left = [at]

                def meddle(request):
                    if request.method != "GET" and "/events" not in request.path:
                        left[0] -= 1
                        if left[0] == -1:
                            self.host.process.kill()
                if rebalance == 2:
                    self.arm = meddle  # from when w comes
                self.begin(movable, rebalance=rebalance, u=u, waiting=u > 1)
                self.answers = movable == "after-checkpoint"
                if u == 1:
                    self.crowd()
                    self.add_gang("w", 4, 32)
                if rebalance == 1:
                    self.assertTrue(wait_for(lambda: self.suggestion()))
                    moves = self.suggestion()
                self.play()
                if rebalance == 1:
                    self.api.meddle = meddle
                    self.ask(moves)
                self.assertTrue(wait_for(lambda: left[0] < 0 or (self.is_lifted("w-0", "w-1", "w-2", "w-3") and self.all_run())))
                left[0] = left[0] if left[0] < 0 else 1000  # nobody is killed later
                if u > 1:
                    self.api.meddle = None
                if left[0] < 0:
                    killed += 1
                    self.host.kill()
                    self.host = None
                    self.start(patience=300, retry=200, rebalance=rebalance)
                if rebalance == 1:
                    self.check_moved(moves)
                else:
                    self.check_evicted(*[f"u-{rank}" for rank in range(u)])
                if u == 1:
                    self.assertFalse(self.is_lifted("y-0"))
                if left[0] >= 0:
                    break
        print(f"killed before each of {killed} writes", file=sys.stderr)
        self.assertGreater(killed, 5)

    # ---- what people reserve ----

    def reserve(self, text, supernode="s0"):
        self.api.add(SUPERNODES, supernode, metadata={"annotations": {"metax-tech.com/reserved-until": text}},
                     status=supernode_status([node for node in self.nodes if node.startswith(supernode)]))

    @staticmethod
    def at(seconds):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))

    def test_people_reserve_a_supernode(self):
        """Others keep off; those that it is for use it; it ends by itself."""
        self.world(1)
        until = time.time() + 8
        self.reserve(f"{self.at(8)} for=ns/Job/a")
        self.start(patience=300, retry=200)
        self.add_gang("w", 2, 16)
        self.assertTrue(wait_for(lambda: "; 4 nodes are reserved by people" in (self.condition("w-0") or {}).get("message", "")), self.condition("w-0"))
        self.add_gang("a", 2, 16)
        self.wait_lifted("a-0", "a-1")
        self.assertLess(time.time(), until)
        self.wait_lifted("w-0", "w-1")
        self.assertGreater(time.time(), until - 1)

    def test_people_reserve_a_node(self):
        """From later on; then pods go elsewhere, and nothing moves there."""
        self.begin(waiting=False)
        free = [n for n in self.nodes if n.startswith(self.other)][1]
        with self.api.lock:
            node = self.api.objects[self.api.place(f"/api/v1/nodes/{free}")[0], free]
        self.api.add("/api/v1/nodes", free, metadata={**node["metadata"], "annotations": {
            "metax-tech.com/reserved-until": f"{self.at(3600)} from={self.at(1)}"}}, spec={}, status=node_status())
        time.sleep(2)
        self.add_gang("w", 4, 32)
        self.assertTrue(wait_for(lambda: self.suggestion()), self.condition("w-0"))
        self.assertNotIn(free, [node for _, node in self.suggestion()])
        self.assertEqual(len(self.suggestion()), 2)

    def test_a_reservation_that_is_none(self):
        self.world(1)
        self.reserve("tomorrow")
        self.start(patience=300, retry=200)
        self.add_gang("w", 2, 16)
        self.wait_lifted("w-0", "w-1")
        self.assertTrue(wait_for(lambda: any("reserved-until is not read: expected a time" in e["note"] and e["regarding"]["name"] == "s0"
                                             for e in self.events() if e["reason"] == "BadReservation")), self.events())


if __name__ == "__main__":
    unittest.main()
