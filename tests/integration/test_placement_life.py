#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What happens to jobs over their lives, in the double of the API server: they are made smaller, nodes are cordoned, pods take
long to go, supernodes are made again."""

import time
import unittest

from daemon_driver import wait_for
from placement_case import JOBS, PODS, SUPERNODES, TOPOLOGIES, PlacementCase
from placement_driver import PLAN, gates, indexed_pod, node_status, planned_node, supernode_status, topology

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
