#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Faults of the API server under the placement controller: it is restored from a backup, or its watches stop.

Usage: test_placement_faults.py PLACEMENT_HOST [unittest arguments]
"""

import threading
import time

import side_by_side
from daemon_driver import PATIENCE, wait_for
from placement_case import PODS, TOPOLOGIES, PlacementCase
from placement_driver import PLAN, indexed_pod, planned_node, topology


EPOCH = PLAN + "epoch"


def is_pod(obj):
    return "containers" in obj.get("spec", {})


def is_placement(obj):
    return obj["kind"] == "GPUPlacement"


class Faults(PlacementCase):
    def check_all(self, **jobs):
        """Every job's pods and object agree, and no GPU is planned for two of them."""
        for name, pods in jobs.items():
            self.check_plan(pods, f"job-{name}")
        places = [place for name in jobs for place in self.named(f"job-{name}").values()]
        self.assertEqual(len(set(places)), len(places), places)

    def is_settled(self, **jobs):
        """All gates are gone, and each object names its pods' plans."""
        return all(self.is_lifted(*pods) and self.status(f"job-{name}").get("phase") == "Placed" for name, pods in jobs.items())

    def wait_settled(self, **jobs):
        self.assertTrue(wait_for(lambda: self.is_settled(**jobs)), ({n: self.host.job(f"ns/Job/{n}") for n in jobs}, self.objects(),
                        self.host.counters()))
        self.check_all(**jobs)

    def test_no_memory_for_a_job(self):
        """It is said, and it is planned later."""
        self.world(1)
        self.start()
        self.host.order("lack")
        names = self.add_gang("a", 4, 32)
        self.wait_settled(a=names)
        self.assertEqual(self.host.counters()["failed"], 1)

    # a backup

    def backup_after(self, writes):
        """A snapshot is made when so many writes of a job's way have been served."""
        served, made = [], []

        def look(request):
            with self.api.lock:
                if "/pods/" in request.path or "gpuplacements" in request.path:
                    served.append(request.path)
                    if len(served) == writes:
                        made.append(self.api.snapshot())
        self.api.hold_back = look
        return made

    def test_restored_from_a_backup(self):
        """One of each step of a job's way. What came after it has never been: pods are gated again, objects are older or gone,
        another job's are not there. Nodes tell first of what still runs on them, until their kubelets have ended it."""
        self.world(3)
        for writes in range(1, 6):
            with self.subTest(writes=writes):
                self.start()
                a = self.add_gang("a", 4, 32)
                self.wait_settled(a=a)
                for name in a:
                    self.bind(name)
                made = self.backup_after(writes)
                b = self.add_gang("b", 4, 32)
                self.wait_settled(a=a, b=b)
                self.api.hold_back = None
                self.assertTrue(made)
                for name in b:
                    self.bind(name)
                c = self.add_gang("c", 4, 32)
                self.wait_settled(a=a, b=b, c=c)
                self.api.restore(made[0])
                began = time.monotonic()
                self.wait_settled(a=a, b=b)
                self.assertTrue(wait_for(lambda: "job-c" not in self.objects() and self.host.counters()["reservedGPUs"] == 0))
                self.assertLess(time.monotonic() - began, 60)
                c = self.add_gang("c", 4, 32)  # and there is room for it
                self.wait_settled(a=a, b=b, c=c)
                for name in a + b + c:
                    self.end(name)
                self.assertTrue(wait_for(lambda: not self.objects()))
                self.assertEqual(self.host.close(), (0, ""))
                self.host = None

    def test_a_waiting_job_is_restored(self):
        """From before it said that it waits: its pods, all gated still, are of an older version."""
        self.world(1)
        self.start()
        a = self.add_gang("a", 4, 32)
        self.wait_settled(a=a)
        self.host.order("stop")
        b = self.add_gang("b", 4, 32)
        backup = self.api.snapshot()
        self.host.order("start")
        self.assertTrue(wait_for(lambda: all(self.condition(name) for name in b)))
        self.api.restore(backup)
        self.assertTrue(wait_for(lambda: all(self.condition(name) for name in b)), [self.pod(name) for name in b])
        for name in a:
            self.end(name)
        self.wait_settled(b=b)

    # a plan that changes

    def test_what_a_changed_plan_leaves_is_nobody_elses_while_old_writes_may_come(self):
        """A leader stops while writes of a plan are on their way; the next one has to plan again, and another job fits where the
        old plan was. The old writes come before the fences."""
        self.world(2)
        event, waiting = self.hold("PATCH", "/a-[0-3]$")
        self.start()
        a = self.add_gang("a", 4, 32, backoffLimit=0)  # so that it is not planned again as a whole
        self.assertTrue(wait_for(lambda: len(waiting) == 4))
        self.host.kill()
        lost = self.named()[1][0]
        self.api.add(TOPOLOGIES, lost, status=topology(lost, used=[(0, "ns", "stranger")]))
        other = self.add_gang("other", 3, 24)
        through = []

        def release(request):  # the first fence comes too late
            if not through and request.method == "PATCH" and EPOCH.encode() in request.body and "/pods/a-" in request.path:
                through.append(request)
                wait_for(lambda: self.is_lifted(*other), 3)  # as it would be, were the old places free
                before = len(self.api.finished)
                event.set()
                wait_for(lambda: len(self.api.finished) >= before + 4)
        self.api.meddle = release
        self.start()
        self.wait_lifted(*a, *other)
        self.assertTrue(through)
        nodes = [planned_node(self.pod(name)) for name in a + other]
        self.assertEqual(len(set(nodes)), 7, nodes)

    # watches that stand still

    def freeze(self, *kinds):
        """Events about such objects are not told before the end of it."""
        event, held = threading.Event(), []
        self.addCleanup(event.set)

        def before(obj):
            if not event.is_set() and any(kind(obj) for kind in kinds):
                held.append(obj)
                event.wait(2 * PATIENCE)
        self.api.before_event = before
        return event, held

    def stand_still(self, seconds, *kinds):
        """While pods get their plans: one is replaced, one is changed by somebody, a job goes and one comes."""
        self.world(3)
        self.start()
        gone = self.add_gang("gone", 4, 32)
        self.wait_settled(gone=gone)
        for name in gone:
            self.bind(name)
        patched = []
        self.api.meddle = lambda request: patched.append(request) if request.method == "PATCH" and "/pods/" in request.path else None
        event, held = self.freeze(*kinds)
        if is_pod in kinds:  # they are known before
            self.api.before_event = None
            hold, waiting = self.hold("PATCH", "/a-[0-3]$")
            a = self.add_gang("a", 4, 32)
            self.assertTrue(wait_for(lambda: len(waiting) == 4))
            event, held = self.freeze(*kinds)
            hold.set()
        else:
            a = self.add_gang("a", 4, 32)
        self.assertTrue(wait_for(lambda: self.is_lifted(*a)))
        self.api.remove(PODS, "a-1")
        self.add_pod("a-1", indexed_pod("a", 1, group=32))
        pod = self.pod("a-2")
        self.api.add(PODS, "a-2", **{k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {
            "metadata": {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "x": "y"}}})
        for name in gone:
            self.end(name)
        b = self.add_gang("b", 4, 32)
        time.sleep(seconds)  # so long nothing is told
        self.assertTrue(held)
        event.set()
        began = time.monotonic()
        self.wait_settled(a=a, b=b)
        self.assertTrue(wait_for(lambda: "job-gone" not in self.objects()))
        self.assertLess(time.monotonic() - began, 60)

    def test_the_watch_of_pods_stands_still(self):
        self.stand_still(3, is_pod)

    def test_the_watch_of_placements_stands_still(self):
        self.stand_still(3, is_placement)

    def test_both_stand_still_for_longer_than_answers_are_believed(self):
        self.stand_still(33, is_pod, is_placement)  # AHEAD_MS of objects.c


if __name__ == "__main__":
    side_by_side.main()
