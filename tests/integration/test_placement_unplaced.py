#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs whose pods run without the plan that they ask for, in the double of the API server: with on-unplaced: recreate all
pods are evicted, and the job is placed as a whole when they come back."""

import threading
import time
import unittest

from daemon_driver import wait_for
from placement_case import JOBS, PlacementCase
from placement_driver import PLAN, gates, indexed_pod, planned_node, template

ASKS = {"metax-tech.com/gpu-group-size": "32", "metax-tech.com/on-unplaced": "recreate"}
QUIET = 1.5  # nothing has happened for so long


class Unplaced(PlacementCase):
    """The job `a` of 4 pods of 8 GPUs, which the scheduler put on nodes of two racks while nobody gated them."""

    def ask(self, annotations):
        self.api.add(JOBS, "a", metadata={"uid": "uid-job", "generation": 1, "annotations": annotations},
                     spec={"completionMode": "Indexed", "completions": 4, "parallelism": 4, "template": template()})

    def begin(self, annotations=None, nodes=("s0-n0", "s0-n1", "s1-n0", "s1-n1"), **pod):
        self.ask(ASKS if annotations is None else annotations)
        self.names = [f"a-{rank}" for rank in range(4)]
        for rank, (name, node) in enumerate(zip(self.names, nodes)):
            self.add_pod(name, {**indexed_pod("a", rank, gated=False), **pod})
            self.run_on(name, node, range(8))

    def play(self, gated=True):
        """The Job's controller, the webhook where it gates, a scheduler and kubelets."""
        stop = threading.Event()
        self.addCleanup(stop.set)

        def run():
            while not stop.wait(0.05):
                for rank, name in enumerate(list(self.names)):
                    pod = self.pod(name)
                    if pod and "deletionTimestamp" in pod["metadata"]:
                        self.replace(rank, name, pod, gated)
                    elif pod and not gates(pod) and not pod["spec"].get("nodeName") and planned_node(pod):
                        self.bind(name)
        threading.Thread(target=run, daemon=True).start()

    def replace(self, rank, name, pod, gated):
        node, successor = pod["spec"]["nodeName"], f"a-{rank}-{int(time.monotonic() * 1000)}"
        made = indexed_pod("a", rank, gated=gated)
        made["metadata"]["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.add_pod(successor, made)
        self.names[rank] = successor
        self.end(name)
        if not gated:
            self.run_on(successor, node, range(8))

    def places(self):
        pods = [self.pod(name) for name in self.names]
        return [pod and pod["spec"].get("nodeName") for pod in pods]

    def wait_placed(self):
        def placed():
            pods = [self.pod(name) for name in self.names]
            return all(pod and pod["spec"].get("nodeName") and PLAN + "rank" in pod["metadata"].get("annotations", {}) for pod in pods)
        if not wait_for(placed):
            self.fail(f"{self.places()}, evicted {self.api.evicted}, {self.job()}, {self.host.notes[-5:]}")
        self.assertEqual(len({place[:2] for place in self.places()}), 1)

    def job(self):
        return self.host.job("ns/Job/a")

    def assert_stays(self, why):
        if not wait_for(lambda: self.job()["reason"] == "Unplaced" and why in self.job()["text"]):
            self.fail(f"{self.job()}, {self.host.notes[-5:]}")
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        self.assertNotEqual(self.status().get("phase"), "Placed")

    def test_all_pods_come_back_together(self):
        """Though no rack is free but by its own pods. Nobody is evicted twice."""
        self.world(2)
        self.begin()
        for at, node in enumerate(("s0-n2", "s1-n2", "s1-n3")):
            self.add_pod(f"other-{at}", indexed_pod(f"other-{at}", 0, gated=False))
            self.run_on(f"other-{at}", node, range(8))
        self.add_pod("small", indexed_pod("small", 0, gated=False, gpus=1))
        self.run_on("small", "s1-n1", [])
        self.play()
        self.start()
        self.wait_stuck_or_placed()

    def wait_stuck_or_placed(self):
        """s0 has three nodes for it, which is one too few; s1 two."""
        self.assert_stays("there is no room for the job as a whole")
        self.end("other-0")
        self.wait_placed()
        self.assertEqual({place[:2] for place in self.places()}, {"s0"})
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1", "a-2", "a-3"])

    def test_on_its_own_gpus(self):
        """Nothing is free but what it has itself."""
        self.world(1)
        self.begin(nodes=("s0-n0", "s0-n1", "s0-n2", "s0-n3"))
        self.play()
        self.start()
        self.wait_placed()
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1", "a-2", "a-3"])

    def test_a_budget(self):
        """Pods that must not go yet are waited for, and nothing is planned around them."""
        self.world(3)
        self.begin()
        self.play()
        self.api.budget = lambda name: "the budget of a" if name == "a-3" else None
        self.start()
        self.assertTrue(wait_for(lambda: "1 of its pods have still to leave" in self.job()["text"] and "the budget of a" in self.job()["text"]),
                        self.job())
        time.sleep(QUIET)
        self.assertEqual([bool(place) for place in self.places()], [False, False, False, True])
        self.api.budget = None
        self.wait_placed()

    def test_the_brake(self):
        """While many nodes are not Ready nobody is evicted; afterwards the nodes that were left count."""
        self.world(3)
        self.add_silent("x-n0", "x-n1")
        self.begin()
        self.play()
        self.start(brake=10, brakespan=60000)
        self.assert_stays("2 of the 14 nodes of the cluster are not Ready, tainted, or have lost their pods of late, and --brake lets 1 go at once")
        self.api.remove("/api/v1/nodes", "x-n0")
        self.wait_placed()
        self.api.add(JOBS, "b", metadata={"uid": "uid-b", "generation": 1, "annotations": {**ASKS, "metax-tech.com/gpu-group-size": "8"}},
                     spec={"completionMode": "Indexed", "completions": 1, "parallelism": 1, "template": template()})
        self.add_pod("b-0", indexed_pod("b", 0, gated=False))
        self.run_on("b-0", "s2-n3", range(8))
        self.assertTrue(wait_for(lambda: "have lost their pods of late, and --brake lets 1" in self.host.job("ns/Job/b").get("text", "")),
                        self.host.job("ns/Job/b"))
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1", "a-2", "a-3"])

    def test_it_is_asked_for_later(self):
        """Without the annotation nothing is done; it may be given to a running job."""
        self.world(3)
        self.begin({"metax-tech.com/gpu-group-size": "32"})
        self.play()
        self.start()
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        self.ask(ASKS)
        self.wait_placed()

    def test_without_the_webhook(self):
        """Pods that come back without a gate are not evicted again."""
        self.world(3)
        self.begin()
        self.play(gated=False)
        self.start()
        if not wait_for(lambda: "the webhook did not see them again" in self.job()["text"]):
            self.fail(f"{self.job()}, {self.api.evicted}")
        time.sleep(QUIET)
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1", "a-2", "a-3"])

    def test_a_new_leader(self):
        """It goes on where pods have still to leave."""
        self.world(3)
        self.begin()
        self.play()
        self.api.budget = lambda name: "the budget of a" if name in ("a-2", "a-3") else None
        self.start()
        self.assertTrue(wait_for(lambda: len(self.api.evicted) == 2))
        self.host.kill()
        self.api.budget = None
        self.start()
        self.wait_placed()
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1", "a-2", "a-3"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
