#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What happens to jobs over their lives, in the double of the API server: they are made smaller, nodes are cordoned, pods take
long to go, supernodes are made again."""

import threading
import time
import unittest

from daemon_driver import PATIENCE, wait_for
from placement_case import SUPERNODES, PlacementCase
from placement_driver import apply_patch, indexed_pod, node_status, owner, planned_node, pod_spec, supernode_status

QUIET = 1.5  # nothing has happened for so long


class Life(PlacementCase):
    def run_gang(self, name, pods, group, **more):
        names = self.add_gang(name, pods, group, **more)
        self.wait_lifted(*names)
        for pod in names:
            self.bind(pod)
        self.wait_state(name, "placed")
        return names

    def wait_state(self, name, state, reason=None):
        def reached():
            job = self.host.job(f"ns/Job/{name}")
            return job.get("state") == state and reason in (None, job.get("reason"))
        if not wait_for(reached):
            self.fail(f"{self.host.job(f'ns/Job/{name}')}, {self.status(f'job-{name}')}")

    def text(self, name):
        return self.host.job(f"ns/Job/{name}").get("text", "")


class Smaller(Life):
    """A running job is made smaller by a part of a unit."""

    def shrink(self):
        self.world(3)
        self.start()
        names = self.run_gang("a", 8, 32)
        self.add_job("a", 6, 32)
        for name in names[6:]:
            self.end(name)
        self.wait_state("a", "placed", "RuleBroken")
        self.assertIn("the job's 48 GPUs are not a multiple of gpu-group-size 32; its whole units go on (1)", self.text("a"))

    def test_whole_units_go_on(self):
        self.shrink()
        home = planned_node(self.pod("a-1"))
        self.end("a-1")
        self.add_gang("small", 1, 8)
        response, _ = self.review("mutate", {"apiVersion": "v1", "kind": "Pod", **indexed_pod("a", 1, group=32, gated=False)})
        self.assertTrue(response["allowed"], response)
        self.add_pod("a-1", indexed_pod("a", 1, group=32))
        self.wait_lifted("a-1", "small-0")
        self.assertEqual(planned_node(self.pod("a-1")), home)
        self.bind("a-1")
        self.assertTrue(wait_for(lambda: len(self.status()["units"]) == 1), self.status())

    def test_the_rest_breaks_the_rule(self):
        self.shrink()
        self.end("a-4")
        self.add_pod("a-4", indexed_pod("a", 4, group=32))
        self.assertTrue(wait_for(lambda: (self.condition("a-4") or {}).get("reason") == "RuleBroken"), self.pod("a-4"))
        self.assertTrue(wait_for(lambda: self.status().get("reason") == "RuleBroken"), self.status())
        self.assertTrue(wait_for(lambda: any(event["reason"] == "RuleBroken" for event in self.events())), self.events())
        self.assertFalse(self.is_lifted("a-4"))
        self.add_job("a", 8, 32)  # and is planned when it is whole again
        for rank in (6, 7):
            self.add_pod(f"a-{rank}", indexed_pod("a", rank, group=32))
        self.wait_lifted("a-4", "a-6", "a-7")
        self.assertEqual(len({planned_node(self.pod(f"a-{rank}"))[:2] for rank in range(4, 8)}), 1)

    def test_one_that_never_ran_is_refused(self):
        self.world(3)
        self.start()
        self.add_gang("a", 6, 32)
        self.wait_state("a", "refused", "RuleBroken")


class Terminating(Life):
    """A pod has been deleted, and holds its GPUs until its containers have ended."""

    def terminate(self, name, seconds):
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        self.change_pod(name, metadata={"deletionTimestamp": when, "deletionGracePeriodSeconds": max(seconds, 0)})

    def wait_text(self, name, words):
        if not wait_for(lambda: words in self.text(name)):
            self.fail(f"{words!r} is not in {self.host.job(f'ns/Job/{name}')}")

    def test_the_place_of_a_lost_pod_is_taken_by_one_that_terminates(self):
        self.world(1)
        self.start(**{"return": 100})
        names = self.run_gang("a", 3, 24)
        self.add_gang("v", 1, 8)
        self.wait_lifted("v-0")
        self.bind("v-0")
        used = planned_node(self.pod("v-0"))
        self.end(names[1])
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 0))
        self.run_gang("w", 1, 8)  # has the place by now
        home = planned_node(self.pod("w-0"))
        self.terminate("w-0", 85)
        self.add_pod("a-1", indexed_pod("a", 1, group=24))
        self.wait_state("a", "waits", "UnitStuck")
        self.wait_text("a", f"; it waits for pod w-0, which terminates on {home}, at most 90 s more")
        self.assertIn(f"which terminates on {home}", self.condition("a-1")["message"])
        self.end("w-0")
        self.wait_lifted("a-1")
        self.assertNotEqual(planned_node(self.pod("a-1")), used)

    def test_one_that_never_ends_is_named(self):
        self.world(2, nodes_each=1)
        self.start()
        self.run_gang("v", 2, 8)
        self.terminate("v-1", -100)
        self.terminate("v-0", -200)
        self.add_gang("a", 2, 8)
        self.wait_state("a", "waits")
        self.wait_text("a", "; it waits for 2 pods that terminate, the last is pod v-1, which terminates on "
                       f"{planned_node(self.pod('v-1'))}, and should be gone since ")
        said = self.text("a")
        time.sleep(QUIET)
        self.assertEqual(self.text("a"), said)  # which does not change all the time

    def test_a_successor_waits_for_the_pod_before_it(self):
        """With the same index: it gets the same place, and whoever has waited for longer does not."""
        self.world(1)
        self.start(**{"return": 100})
        self.run_gang("a", 4, 32)
        self.add_gang("b", 1, 8)
        self.wait_state("b", "waits")
        home = planned_node(self.pod("a-2"))
        self.terminate("a-2", 120)
        self.add_pod("a-2-next", indexed_pod("a", 2, group=32))
        self.wait_text("a", f"it waits for pod a-2, which terminates on {home}, at most 120 s more")
        time.sleep(QUIET)
        self.assertFalse(self.is_lifted("a-2-next"))
        self.end("a-2")
        self.wait_lifted("a-2-next")
        self.assertEqual(planned_node(self.pod("a-2-next")), home)
        self.assertFalse(self.is_lifted("b-0"))

    def test_the_place_of_a_lost_pod_while_its_job_is_written(self):
        """A job is not reconciled before its writes are answered: until then nobody else gets the place."""
        answer = threading.Event()
        self.addCleanup(answer.set)

        def meddle(request):
            if request.method == "PATCH" and request.path.split("?")[0].endswith("/pods/a-3"):
                answer.wait(PATIENCE)
        self.world(1)
        self.start(**{"retry": PATIENCE * 1000, "return": 100})
        self.api.meddle = meddle
        self.add_gang("a", 4, 32)
        self.wait_lifted("a-0", "a-1", "a-2")
        self.bind("a-0")
        self.bind("a-1")
        self.add_gang("b", 1, 8)
        self.wait_state("b", "waits")
        home = planned_node(self.pod("a-0"))
        self.end("a-0")
        self.add_gang("c", 1, 8)  # is tried now
        time.sleep(QUIET)
        self.assertFalse(self.is_lifted("b-0") or self.is_lifted("c-0"))
        answer.set()
        self.wait_lifted("a-3")
        self.add_pod("a-0-next", indexed_pod("a", 0, group=32))
        self.wait_lifted("a-0-next")
        self.assertEqual(planned_node(self.pod("a-0-next")), home)


class Closed(Life):
    """Nodes are closed for new pods: cordoned, or tainted."""

    def close_node(self, node, taint):
        self.api.add("/api/v1/nodes", node, metadata={"labels": {"kubernetes.io/hostname": node}}, status=node_status(),
                     spec={"taints": [{"key": "upkeep", "effect": "NoSchedule"}]} if taint else {"unschedulable": True})

    def open_node(self, node):
        self.api.add("/api/v1/nodes", node, metadata={"labels": {"kubernetes.io/hostname": node}}, spec={}, status=node_status())

    def replace(self, taint, nodes_each):
        """The place of a pod of a running job is closed, then the pod goes. Returns the place."""
        self.world(2, nodes_each=nodes_each)
        self.start(**{"return": 300})
        self.run_gang("a", 4, 32)
        home = planned_node(self.pod("a-2"))
        self.close_node(home, taint)
        self.end("a-2")
        self.add_pod("a-2", indexed_pod("a", 2, group=32))
        return home

    def goes_elsewhere(self, taint):
        home = self.replace(taint, 5)
        self.wait_lifted("a-2")
        self.assertNotEqual(planned_node(self.pod("a-2")), home)
        self.assertEqual(planned_node(self.pod("a-2"))[:2], home[:2])

    def test_a_replacement_goes_elsewhere(self):
        self.goes_elsewhere(taint=False)

    def test_a_replacement_goes_elsewhere_for_a_taint(self):
        self.goes_elsewhere(taint=True)

    def waits(self, taint):
        home = self.replace(taint, 4)
        self.wait_state("a", "waits", "UnitStuck")
        time.sleep(QUIET)
        self.assertFalse(self.is_lifted("a-2"))
        self.assertEqual(self.api.evicted, [])
        self.open_node(home)
        self.wait_lifted("a-2")
        self.assertEqual(planned_node(self.pod("a-2")), home)

    def test_a_replacement_waits(self):
        self.waits(taint=False)

    def test_a_replacement_waits_for_a_taint(self):
        self.waits(taint=True)

    def between(self, taint):
        """Between plan and gate: three of four pods are there."""
        self.world(2, nodes_each=5)
        self.start(gang=30000)
        self.add_job("a", 4, 32)
        for rank in range(3):
            self.add_pod(f"a-{rank}", indexed_pod("a", rank, group=32))
        self.assertTrue(wait_for(lambda: self.named().get(2)), self.status())
        node = self.named()[2][0]
        self.close_node(node, taint)
        time.sleep(QUIET)
        self.add_pod("a-3", indexed_pod("a", 3, group=32))
        self.wait_lifted(*(f"a-{rank}" for rank in range(4)))
        places = [planned_node(self.pod(f"a-{rank}")) for rank in range(4)]
        self.assertNotIn(node, places)
        self.assertEqual(len({place[:2] for place in places}), 1)

    def test_between_plan_and_gate(self):
        self.between(taint=False)

    def test_between_plan_and_gate_for_a_taint(self):
        self.between(taint=True)


    def test_no_pod_is_made_with_a_closed_place(self):
        self.world(1)
        self.start()
        self.run_gang("a", 4, 32)
        home = planned_node(self.pod("a-2"))
        self.end("a-2")
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 8))

        def made():
            new = {"apiVersion": "v1", "kind": "Pod", **indexed_pod("a", 2, group=32, gated=False)}
            _, patch = self.review("mutate", new, dry_run=True)
            return planned_node(apply_patch(new, patch))
        self.close_node(home, taint=True)
        self.assertTrue(wait_for(lambda: made() is None), made())
        self.open_node(home)
        self.assertTrue(wait_for(lambda: made() == home), made())


class Static(Life):
    """A static pod with GPUs is there before anybody was asked: its node has them no more."""

    def put_static(self, node):
        self.add_pod(f"static-{node}", {
            "metadata": {"annotations": {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"},
                         "ownerReferences": [owner("v1", "Node", node, f"uid-{node}")]},
            "spec": {**pod_spec(gpus=4, gated=False), "nodeName": node}})

    def test_on_a_node_of_a_plan(self):
        self.world(2)
        self.start(gang=30000)
        self.add_job("a", 4, 32)
        for rank in range(3):
            self.add_pod(f"a-{rank}", indexed_pod("a", rank, group=32))
        self.assertTrue(wait_for(lambda: self.named().get(2)), self.status())
        node = self.named()[2][0]
        self.put_static(node)
        time.sleep(QUIET)
        self.add_pod("a-3", indexed_pod("a", 3, group=32))
        self.wait_lifted(*(f"a-{rank}" for rank in range(4)))
        places = {planned_node(self.pod(f"a-{rank}"))[:2] for rank in range(4)}
        self.assertEqual(places, {"s0", "s1"} - {node[:2]})

    def test_after_the_gates_have_gone(self):
        """None has run: all are evicted, and planned elsewhere."""
        self.world(2)
        self.start(eviction=300)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        node = planned_node(self.pod("a-2"))
        self.put_static(node)
        self.assertTrue(wait_for(lambda: sorted(self.api.evicted) == names), self.host.job("ns/Job/a"))
        for rank, name in enumerate(names):
            self.end(name)
            self.add_pod(f"{name}-next", indexed_pod("a", rank, group=32))
        self.wait_lifted(*(f"{name}-next" for name in names))
        self.assertEqual({planned_node(self.pod(f"{name}-next"))[:2] for name in names}, {"s0", "s1"} - {node[:2]})

    def test_on_a_node_where_the_rest_runs(self):
        """Where pods have run, the one without its place is told of, and nothing is evicted."""
        self.world(1, nodes_each=5)
        self.start()
        self.run_gang("a", 4, 32)
        home = planned_node(self.pod("a-2"))
        self.end("a-2")
        self.put_static(home)
        self.add_pod("a-2", indexed_pod("a", 2, group=32))
        self.wait_lifted("a-2")
        self.assertNotEqual(planned_node(self.pod("a-2")), home)
        self.assertEqual(self.api.evicted, [])


class Remade(Life):
    """Supernodes, or what they are made from, are deleted and made again under jobs."""

    def remake(self, names, members):
        for name in names:
            self.api.remove(SUPERNODES, name)
        time.sleep(QUIET)
        for name, nodes in members.items():
            self.api.add(SUPERNODES, name, status=supernode_status(nodes))

    def run_over(self, members):
        """A job of two units runs, and is whole in the new supernodes; a pod of it is lost, and comes home."""
        self.world(3)
        self.start(**{"return": 3000})
        names = self.run_gang("a", 8, 32)
        self.add_gang("b", 8, 32)
        self.wait_state("b", "waits")
        home = {name: planned_node(self.pod(name)) for name in names}
        self.remake(["s0", "s1", "s2"], members)
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        self.assertFalse(self.is_lifted("b-0"))
        self.end("a-1")
        self.add_pod("a-1", indexed_pod("a", 1, group=32))
        self.wait_lifted("a-1")
        self.assertEqual(planned_node(self.pod("a-1")), home["a-1"])
        for name in names:
            if name != "a-1":
                self.end(name)
        self.wait_lifted(*(f"b-{rank}" for rank in range(4)))

    def test_deleted_and_made_again(self):
        self.run_over({f"s{s}": [f"s{s}-n{n}" for n in range(4)] for s in range(3)})

    def test_renamed(self):
        self.run_over({f"rack-{s}": [f"s{s}-n{n}" for n in range(4)] for s in range(3)})

    def test_a_leader_begins_without_them(self):
        """No pod is evicted for it, whatever the job allows, and all is as before when they are there."""
        self.world(2, nodes_each=5)
        self.start(nodeloss=400)
        names = self.run_gang("a", 4, 32)
        self.add_job("a", 4, 32, loss="unit")
        home = {name: planned_node(self.pod(name)) for name in names}
        self.host.kill()
        for name in ("s0", "s1"):
            self.api.remove(SUPERNODES, name)
        self.start(nodeloss=400)
        self.end("a-1")
        self.add_pod("a-1", indexed_pod("a", 1, group=32))
        self.wait_state("a", "waits")
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        self.assertFalse(self.is_lifted("a-1"))
        for name in sorted(("s0", "s1"), key=lambda name: name == home["a-1"][:2]):  # its own is there last
            self.api.add(SUPERNODES, name, status=supernode_status([n for n in self.nodes if n[:2] == name]))
            time.sleep(QUIET)
            self.assertEqual(self.api.evicted, [])
        self.wait_lifted("a-1")
        self.assertEqual(planned_node(self.pod("a-1"))[:2], home["a-1"][:2])
        self.assertEqual(self.api.evicted, [])

    def test_a_node_is_swapped(self):
        self.world(2, nodes_each=5)
        self.start()
        names = self.run_gang("a", 4, 32)
        home = planned_node(self.pod("a-1"))
        here, there = home[:2], "s1" if home[:2] == "s0" else "s0"
        other = f"{there}-n4"
        self.api.add(SUPERNODES, here, status=supernode_status([n for n in self.nodes if n[:2] == here and n != home] + [other]))
        self.api.add(SUPERNODES, there, status=supernode_status([n for n in self.nodes if n[:2] == there and n != other] + [home]))
        self.add_gang("b", 5, 40)  # needs the node that a-1 has
        self.wait_state("b", "waits")
        self.assertEqual(self.api.evicted, [])
        self.end("a-1")
        self.wait_lifted(*(f"b-{rank}" for rank in range(5)))
        self.add_pod("a-1", indexed_pod("a", 1, group=32))
        self.wait_lifted("a-1")
        self.assertIn(planned_node(self.pod("a-1")), [other] + [n for n in self.nodes if n[:2] == here and n != home])
        self.assertNotIn(planned_node(self.pod("a-1")), [planned_node(self.pod(n)) for n in names if n != "a-1"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
