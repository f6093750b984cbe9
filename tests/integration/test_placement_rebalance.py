#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Moves that make room for a waiting job, in the double of the API server: what is suggested, and what the suggested
commands do."""

import re
import sys
import threading
import time
import unittest

from daemon_driver import wait_for
from placement_case import TOPOLOGIES, PlacementCase
from placement_driver import gates, indexed_pod, node_status, planned_node, pod_spec, replica, topology

COMMAND = re.compile(r"kubectl annotate pod -n ns (\S+) metax-tech\.com/move-to=([^\s;]+)")


class Rebalance(PlacementCase):
    """The unit u of two nodes runs in one supernode, the pod v on one node of the other; w wants a whole one."""

    def begin(self, movable="true", u=2, unit=0, more=(), **options):
        self.world(2)
        self.more, self.unit = dict(more), unit or 8 * u
        self.names = [f"u-{rank}" for rank in range(u)]
        self.add_job("u", u, self.unit)
        self.movable = movable
        for rank, name in enumerate(self.names):
            self.add_pod(name, self.unit_pod(rank))
        self.start(patience=300, retry=200, **options)
        self.wait_lifted(*self.names)
        for name in self.names:
            self.bind(name)
        self.home = planned_node(self.pod("u-0"))[:2]
        self.other = {"s0": "s1", "s1": "s0"}[self.home]
        self.add_pod("v", {"metadata": {}, "spec": pod_spec(8, False)})
        self.run_on("v", f"{self.other}-n0", range(8))
        self.add_gang("w", 4, 32)

    def unit_pod(self, rank):
        made = indexed_pod("u", rank, group=self.unit)
        made["metadata"]["annotations"].update({"metax-tech.com/movable": self.movable, **self.more})
        if rank == self.never:
            made["metadata"]["annotations"]["metax-tech.com/slow-gpus"] = "never"
        return made

    never = None  # the rank whose template takes no slow GPUs

    def suggestion(self):
        return COMMAND.findall((self.condition("w-0") or {}).get("message", ""))

    def play(self):
        """The Job's controller and the kubelets: a pod that is deleted goes, and another one comes."""
        self.stop_playing()
        stop = threading.Event()

        def run():
            while not stop.wait(0.05):
                for rank, name in enumerate(list(self.names)):
                    pod = self.pod(name)
                    if pod and "deletionTimestamp" in pod["metadata"]:
                        self.names[rank] = f"u-{rank}-{int(time.monotonic() * 1000)}"
                        made = self.unit_pod(rank)
                        made["metadata"]["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                        self.add_pod(self.names[rank], made)
                        self.end(name)
                    elif pod and not gates(pod) and not pod["spec"].get("nodeName") and planned_node(pod):
                        self.bind(name)
        self.player = threading.Thread(target=run, daemon=True), stop
        self.addCleanup(self.stop_playing)
        self.player[0].start()

    player = None

    def stop_playing(self):
        if self.player:
            thread, stop = self.player
            stop.set()
            thread.join()
            self.player = None

    def ask(self, moves):
        for name, node in moves:
            self.change_pod(name, {"annotations": {**self.pod(name)["metadata"]["annotations"],
                                                   "metax-tech.com/move-to": node}})

    def check_moved(self, moves):
        """w has the supernode of u, u the nodes that were suggested, and each pod left once."""
        self.wait_lifted("w-0", "w-1", "w-2", "w-3")
        self.assertEqual({planned_node(self.pod(f"w-{i}"))[:2] for i in range(4)}, {self.home})
        self.assertTrue(wait_for(lambda: all((self.pod(n) or {"spec": {}})["spec"].get("nodeName") for n in self.names)))
        self.assertEqual(sorted(self.pod(n)["spec"]["nodeName"] for n in self.names), sorted(node for _, node in moves))
        self.assertEqual(sorted(self.api.evicted), sorted(name for name, _ in moves))

    def check_silent(self):
        """An Event would say it at once, the condition only later."""
        self.assertTrue(wait_for(lambda: (self.condition("w-0") or {}).get("reason") == "NoSupernode"))
        time.sleep(1.5)
        self.assertNotIn("MovesSuggested", [event["reason"] for event in self.events()])

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

    def movable(self, number):
        """A pod that may move, on a node of that supernode."""
        made = replica(f"x-{number}", uid=f"x{number}", gpus=8, gated=False)
        made["metadata"]["annotations"] = {"metax-tech.com/movable": "true"}
        self.add_pod(f"x-{number}", made)
        self.run_on(f"x-{number}", f"s{number}-n0", range(8))

    def test_rules_between_pods_count(self):
        """On a node of each supernode is a pod that the waiting ones keep away from: moves do not help."""
        self.world(2)
        for number in range(2):
            self.movable(number)
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
            self.movable(number)
        self.start(patience=300, retry=200)
        self.add_gang("w", 4, 32)
        self.assertTrue(wait_for(lambda: "it fits when" in (self.condition("w-0") or {}).get("message", "")), self.condition("w-0"))
        self.assertRegex(self.condition("w-0")["message"], r"with 8 GPUs moves: kubectl delete pod -n ns x-[01]$")

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
        """The leader dies before each of its writes: no pod leaves twice, and both jobs run in the end."""
        killed = 0
        for at in range(40):
            with self.subTest(at=at):
                if self.host:
                    self.stop_playing()
                    self.host.close()
                    self.api.stop()
                    self.setUp()
                self.begin()
                self.assertTrue(wait_for(lambda: self.suggestion()))
                moves = self.suggestion()
                left = [at]

                def meddle(request):
                    if request.method != "GET" and "/events" not in request.path:
                        left[0] -= 1
                        if left[0] == -1:
                            self.host.process.kill()
                self.play()
                self.api.meddle = meddle
                self.ask(moves)
                done = wait_for(lambda: left[0] < 0 or self.is_lifted("w-0", "w-1", "w-2", "w-3"))
                self.assertTrue(done)
                self.api.meddle = None
                if left[0] < 0:
                    killed += 1
                    self.host.kill()
                    self.host = None
                    self.start(patience=300, retry=200)
                self.check_moved(moves)
                if left[0] >= 0:
                    break
        print(f"killed before each of {killed} writes", file=sys.stderr)
        self.assertGreater(killed, 5)


if __name__ == "__main__":
    unittest.main()
