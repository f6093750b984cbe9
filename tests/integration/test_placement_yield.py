#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Places of pods that do not come are given to jobs of other namespaces.

Usage: test_placement_yield.py PLACEMENT_HOST [unittest arguments]
"""

import time

import side_by_side
from daemon_driver import PATIENCE, wait_for
from placement_case import SETS, PlacementCase
from placement_driver import apply_patch, gates, indexed_pod, statefulset_pod, template

LONG = 600000  # ms: what comes sooner comes of an event
WIDE = 128     # pods of one GPU: all GPUs of four supernodes


class PlacementYieldTest(PlacementCase):
    def add_wide(self, name="wide", made=1):
        self.add_job(name, WIDE, 8, gpus=1)
        for i in range(made):
            self.add_pod(f"{name}-{i}", indexed_pod(name, i, gpus=1, group=8))

    def add_other(self, name, pods=4, group=32, made=None):
        """A job of another namespace."""
        self.api.add("/apis/batch/v1/namespaces/other/jobs", name, spec={
            "completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": template(8, group)})
        for i in range(pods if made is None else made):
            pod = indexed_pod(name, i, group=group)
            self.api.add("/api/v1/namespaces/other/pods", f"{name}-{i}", status={"phase": "Pending"}, spec=pod["spec"],
                         metadata={**pod["metadata"], "creationTimestamp": "2026-01-02T00:00:00Z"})

    def is_started(self, name, pods=4):
        with self.api.lock:
            collection, _, _ = self.api.place("/api/v1/namespaces/other/pods/x")
            return not any(gates(self.api.objects[collection, f"{name}-{i}"]) for i in range(pods))

    def wait_started(self, name, pods=4):
        self.assertTrue(wait_for(lambda: self.is_started(name, pods)), (self.host.job(f"other/Job/{name}"), self.host.counters()))

    def wait_job(self, key, reason, text=""):
        def is_so():
            job = self.host.job(key)
            return job.get("reason") == reason and text in job.get("text", "")
        self.assertTrue(wait_for(is_so), self.host.job(key))

    def end_other(self, name, pods=4):
        for i in range(pods):
            self.api.remove("/api/v1/namespaces/other/pods", f"{name}-{i}")
        self.api.remove("/apis/batch/v1/namespaces/other/jobs", name)

    def test_silent_owner_gives_way(self):
        """What its pods have stays; what it gives up is said, and only as much as is needed goes."""
        self.world(4)
        self.start(missing=LONG, retry=LONG, **{"yield": 1000})
        began = time.monotonic()
        self.add_wide()
        self.wait_lifted("wide-0")
        self.assertEqual(self.host.counters()["reservedGPUs"], 127)
        self.add_other("b")
        self.wait_started("b")
        self.assertGreater(time.monotonic() - began, 0.9)
        self.wait_job("ns/Job/wide", "PodsMissing", "they were given to a job of another namespace")
        self.assertTrue(any("can start there" in note["note"] for note in self.host.notes if note["job"] == "ns/Job/wide"))

    def test_not_to_the_same_namespace_and_not_for_part_of_a_job(self):
        self.world(4)
        self.start(missing=LONG, retry=500, **{"yield": 500})
        self.add_wide()
        self.wait_lifted("wide-0")
        self.add_gang("own", 4, 32)
        self.add_other("part", 4, 32, made=3)
        self.add_other("large", 20, 160)
        self.assertTrue(wait_for(lambda: self.host.job("other/Job/large").get("tries", 0) >= 6))  # in several times the credit
        self.assertEqual(self.host.counters()["reservedGPUs"], 127)
        self.assertFalse(self.is_started("part", 3))

    def test_owner_that_makes_pods_keeps_places(self):
        self.world(1)
        self.start(missing=LONG, retry=200, **{"yield": 12000})
        self.add_job("a", 32, 32, gpus=1)
        self.add_pod("a-0", indexed_pod("a", 0, gpus=1, group=32))
        self.wait_lifted("a-0")
        self.add_other("b")
        for i in range(1, 32):  # in more time than the credit
            time.sleep(0.45)
            self.add_pod(f"a-{i}", indexed_pod("a", i, gpus=1, group=32))
        self.wait_lifted(*(f"a-{i}" for i in range(32)))
        self.assertFalse(self.is_started("b"))

    def test_tenant_that_tries_again_and_again(self):
        """It has a new wide job whenever one gave way, and makes a pod now and then: others wait for its credit, and go on."""
        self.world(4)
        self.start(missing=LONG, retry=LONG, **{"yield": 2000})
        for j in range(20):
            self.add_wide(f"w{j}")
        self.wait_lifted("w0-0")
        made = 0
        for turn in range(10):
            began = time.monotonic()
            self.add_other(f"b{turn}")
            while not self.is_started(f"b{turn}"):
                self.assertLess(time.monotonic() - began, 2 + PATIENCE / 2, (self.host.job(f"other/Job/b{turn}"), self.host.counters()))
                time.sleep(0.5)
                made += 1
                self.add_pod(f"w0-{made}", indexed_pod("w0", made, gpus=1, group=8))
            self.end_other(f"b{turn}")

    def test_namespace_that_gave_way_has_to_pause(self):
        self.world(4)
        self.start(missing=LONG, retry=LONG, **{"yield": 2000})
        self.add_wide("first")
        self.wait_lifted("first-0")
        self.add_wide("second")
        self.add_other("b")
        self.wait_started("b")
        self.wait_job("ns/Job/second", "ReserveLimit", "those of its namespace were reserved for too long")
        self.end_other("b")
        self.end("first-0")
        self.wait_lifted("second-0")  # after the pause

    def test_offered_place_waits_for_its_pod(self):
        """A pod may be created with it for as long as a request takes."""
        self.world(1)
        self.start(missing=LONG, retry=500, request=15000, quiet=60, **{"yield": 500})
        self.add_job("a", 4, 32)
        self.add_pod("a-0", indexed_pod("a", 0, group=32))
        self.wait_lifted("a-0")
        pod = indexed_pod("a", 1, group=32, gated=False)
        offered = time.monotonic()
        self.assertFalse(gates(apply_patch(pod, self.review("mutate", pod)[1])))
        self.add_other("small", 2, 16)
        self.wait_started("small", 2)  # beside the offered place
        self.assertEqual(self.host.counters()["reservedGPUs"], 8)
        self.add_other("last", 1, 8)
        self.wait_started("last", 1)
        self.assertGreater(time.monotonic() - offered, 14.5)

    def test_set_that_makes_pods_one_by_one(self):
        """Its next pod comes when the last one is ready: it has --reserve-missing."""
        self.world(1)
        self.start(reserve=LONG, missing=4000, retry=500, **{"yield": 500})
        self.api.add(SETS, "s", spec={"replicas": 4, "podManagementPolicy": "OrderedReady", "template": template(8, 32)})
        began = time.monotonic()
        self.add_pod("s-0", statefulset_pod("s", 0))
        self.wait_lifted("s-0")
        self.add_other("b", 2, 16)
        self.wait_started("b", 2)
        self.assertGreater(time.monotonic() - began, 3.5)

    def test_what_runs_is_a_credit(self):
        self.world(2)
        self.start(namespacegpus=8, retry=LONG)
        self.add_job("a", 5, 40)
        self.add_pod("a-0", indexed_pod("a", 0, group=40))
        self.add_job("b", 3, 24)
        self.add_pod("b-0", indexed_pod("b", 0, group=24))
        self.wait_job("ns/Job/b", "ReserveLimit", "may have 8 GPUs reserved")
        for name in self.add_gang("c", 1, 8):
            self.wait_lifted(name)
            self.bind(name)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/b").get("reservedGPUs") == 16), self.host.job("ns/Job/b"))


side_by_side.main()
