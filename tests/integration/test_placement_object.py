#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""GPUPlacements: a plan is valid when it is in one, also after faults of leaders, writes and objects.

Usage: test_placement_object.py PLACEMENT_HOST [unittest arguments]
"""

import json
import threading
import unittest

from api_double import ApiError
from daemon_driver import PATIENCE, wait_for
from placement_case import PLACEMENTS, PODS, TOPOLOGIES, PlacementCase
from placement_driver import GATE, PLAN, apply_patch, gates, indexed_pod, planned_node, template, topology

EPOCH = PLAN + "epoch"


class PlacementObjectTest(PlacementCase):
    MADE = 1  # objects that the plan of eight pods takes: test_placement_parts.py

    def test_what_an_object_says(self):
        self.world(2)
        self.start()
        names = self.add_gang("a", 8, 32)
        self.wait_lifted(*names)
        made = self.object()
        self.assertEqual(made["metadata"]["ownerReferences"],
                         [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "uid-job"}])
        self.assertEqual(made["spec"]["job"], "ns/Job/a")
        self.assertEqual(made["spec"]["templates"], [{"pods": 8, "gpus": 8, "groupSize": 32}])
        status = made["status"]
        self.assertEqual((status["phase"], status["epoch"], len(status["pods"]), len(status["nodes"])),
                         ("Placed", 1, 8, 8))
        self.assertEqual(sorted(status["units"]), ["s0", "s1"])
        self.assertEqual(status["pods"][0].split(":")[3], "0-7")
        self.check_plan(names)
        self.assertEqual(self.host.counters()["writes"], 9)  # one more than there are pods
        for name in names:
            self.api.remove(PODS, name)
        self.assertTrue(wait_for(lambda: not self.objects()), self.objects())

    def test_gates_wait_for_the_object(self):
        self.world(2)
        event, waiting = self.hold("POST", "/gpuplacements$")
        self.start()
        names = self.add_gang("a", 8, 32)
        self.assertTrue(wait_for(lambda: waiting))
        self.assertTrue(wait_for(lambda: self.host.counters()["writesWaiting"] == len(waiting)))
        before = len(waiting)
        self.add_gang("other", 1, 8)  # something that takes its whole way meanwhile
        self.assertTrue(wait_for(lambda: len(waiting) == before + 1))
        self.assertFalse(any(planned_node(self.pod(n)) for n in names))
        event.set()
        self.wait_lifted(*names)
        self.check_plan(names)

    def test_waiting_job_says_why(self):
        self.world(1)
        self.start()
        self.wait_lifted(*self.add_gang("a", 4, 32))
        names = self.add_gang("b", 4, 32)
        self.assertTrue(wait_for(lambda: self.status("job-b").get("reason") == "TooFewGPUs"), self.objects())
        self.assertEqual(self.status("job-b")["phase"], "Waiting")
        self.assertIn("32 GPUs", self.status("job-b")["message"])
        self.add_gang("c", 4, 32)
        self.assertTrue(wait_for(lambda: self.status("job-c").get("behind") == "ns/Job/b"), self.objects())
        self.assertNotIn("behind", self.status("job-b"))
        self.host.order("stop")  # a replica that does not act knows it from the object
        job = self.host.job("ns/Job/b")
        self.assertEqual((job["state"], job["reason"]), ("waits", "TooFewGPUs"))
        self.host.order("start")
        for i in range(4):
            self.api.remove(PODS, f"a-{i}")
        self.wait_lifted(*names)
        self.assertTrue(wait_for(lambda: self.status("job-b")["phase"] == "Placed"))
        self.assertNotIn("reason", self.status("job-b"))
        self.check_plan(names, "job-b")

    def late_writes(self, pods):
        """A leader stops while writes to these pods are on their way."""
        event, waiting = self.hold("PATCH", f"/a-[{pods}]$")
        self.world(2)
        self.start()
        names = self.add_gang("a", 4, 32)
        self.assertTrue(wait_for(lambda: len(waiting) == len(pods)))
        self.host.kill()
        self.api.meddle = None
        return names, event

    def finish_late_writes(self, event, writes=1):
        before = len(self.api.finished)
        event.set()
        self.assertTrue(wait_for(lambda: len(self.api.finished) >= before + writes))

    def test_late_writes_of_an_old_leader_say_the_same(self):
        names, event = self.late_writes("23")
        places = self.named()
        self.start()
        self.wait_lifted(*names)
        self.finish_late_writes(event, 2)
        self.assertEqual(self.named(), places)
        self.check_plan(names)
        self.assertEqual(self.status()["epoch"], 2)  # it was adopted

    def hold_plans(self):
        released, waiting = threading.Event(), []
        self.addCleanup(released.set)

        def hold(request):
            if request.method == "PATCH" and b"schedulingGates" in request.body:
                waiting.append(request.path)
                released.wait(PATIENCE)
        self.api.meddle = hold
        return released, waiting

    def test_late_writes_of_an_old_leader_do_not_tear_a_unit(self):
        """No gate had gone, and a place is lost: all must go elsewhere. The old writes come before the new ones."""
        names, event = self.late_writes("0123")
        places = self.named()
        lost = places[1][0]
        self.api.add(TOPOLOGIES, lost, status=topology(lost, used=[(i, "ns", "stranger") for i in range(8)]))
        released, waiting = self.hold_plans()
        self.start()
        self.assertTrue(wait_for(lambda: len(waiting) == 4), waiting)
        self.finish_late_writes(event, 4)
        self.assertFalse(any(self.is_lifted(n) for n in names))
        released.set()
        self.wait_lifted(*names)
        self.assertNotEqual(self.named(), places)
        self.check_plan(names)
        self.assertNotIn(lost, [planned_node(self.pod(n)) for n in names])

    def test_late_write_that_comes_before_the_fence(self):
        """One old write gets through: that is a fact, and the others follow it."""
        names, event = self.late_writes("0123")
        self.add_job("a", len(names), 32, backoffLimit=0)  # so that it is not planned again as a whole
        places = self.named()
        lost = places[1][0]
        self.api.add(TOPOLOGIES, lost, status=topology(lost, used=[(0, "ns", "stranger")]))
        through, fences = [], threading.Lock()

        def release(request):  # the new leader's fences, which are sent together, all come too late
            if request.method == "PATCH" and EPOCH.encode() in request.body:
                with fences:
                    if not through:
                        through.append(request)
                        self.finish_late_writes(event, 4)
        self.api.meddle = release
        self.start()
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("state") in ("plan-lost", "placed")))
        self.assertTrue(through)
        self.assertEqual({planned_node(self.pod(n)) for n in names}, {place[0] for place in places.values()})
        self.assertEqual(self.named(), places)

    def test_late_object_of_an_old_leader(self):
        self.world(2)
        event, waiting = self.hold("POST", "/gpuplacements$")
        self.start()
        names = self.add_gang("a", 4, 32)
        self.assertTrue(wait_for(lambda: waiting))
        self.host.kill()
        self.api.meddle = None
        self.start()
        self.wait_lifted(*names)
        places = self.named()
        self.finish_late_writes(event)
        self.assertEqual(self.named(), places)
        self.check_plan(names)

    def test_two_leaders(self):
        self.world(2)
        self.start()
        first = self.host
        self.start()
        names = self.add_gang("a", 8, 32)
        self.wait_lifted(*names)
        self.check_plan(names)
        self.assertEqual(first.close(), (0, ""))

    def test_killed_after_each_write(self):
        """Everywhere on the way of a job: the object, each pod."""
        self.world(2)
        for writes in range(self.MADE + 9):
            with self.subTest(writes=writes):
                done = []

                def cut(request, writes=writes, done=done):
                    if request.method in ("POST", "PATCH") and ("/pods/" in request.path or "gpupl" in request.path):
                        done.append(request)
                        if len(done) > writes:
                            self.host.process.kill()
                            raise ApiError(503, "cut")
                self.api.meddle = cut
                self.start()
                names = self.add_gang("a", 8, 32)
                wait_for(lambda: len(done) > writes or self.is_lifted(*names))
                self.host.kill()
                self.api.meddle = None
                named = self.named()
                self.start()
                self.wait_lifted(*names)
                if named:
                    self.assertEqual(self.named(), named)
                self.check_plan(names)
                for name in names:
                    self.api.remove(PODS, name)
                self.assertTrue(wait_for(lambda: not self.objects()))
                self.assertEqual(self.host.close(), (0, ""))
                self.host = None

    def test_answer_is_lost(self):
        """The object was written, and nobody told so."""
        self.world(2)
        lost = []

        def lose(request):
            if request.method == "POST" and request.path.endswith("/gpuplacements") and not lost:
                lost.append(request)
                raise ApiError(504, "lost")
        self.api.hold_back = lose
        self.start()
        names = self.add_gang("a", 8, 32)
        self.wait_lifted(*names)
        self.assertTrue(lost)
        self.check_plan(names)

    def test_deleted_and_edited_by_hand(self):
        self.world(2)
        self.start()
        names = self.add_gang("a", 8, 32)
        self.wait_lifted(*names)
        places, epoch = self.named(), self.status()["epoch"]
        self.api.remove(PLACEMENTS, "job-a")
        self.assertTrue(wait_for(lambda: self.named() == places and self.status()["epoch"] > epoch), self.objects())
        made = self.object()
        made["status"]["nodes"].reverse()
        self.api.add(PLACEMENTS, "job-a", **{k: v for k, v in made.items() if k not in ("apiVersion", "kind")})
        self.assertNotEqual(self.named(), places)
        self.assertTrue(wait_for(lambda: self.named() == places), self.objects())
        self.check_plan(names)

    def test_job_that_comes_again_while_its_object_is_deleted(self):
        """The watch tells of the deletion before its answer comes."""
        self.world(1)
        self.start()
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        served, event = threading.Event(), threading.Event()
        self.addCleanup(event.set)

        def hold_back(request):
            if request.method == "DELETE" and "/gpuplacements/" in request.path:
                served.set()
                event.wait(PATIENCE)
        self.api.hold_back = hold_back
        for name in names:
            self.api.remove(PODS, name)
        self.assertTrue(served.wait(PATIENCE))
        self.add_gang("a", 4, 32)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("state") == "writes"))
        event.set()
        self.wait_lifted(*names)
        self.check_plan(names)

    def test_orphan_is_collected(self):
        self.world(1)
        self.start()
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        self.host.kill()
        for name in names:
            self.api.remove(PODS, name)
        self.assertTrue(self.objects())
        self.start()
        self.assertTrue(wait_for(lambda: not self.objects()))

    def test_places_of_pods_that_are_not_made_outlive_a_leader(self):
        self.world(1)
        self.start(gang=600000)
        self.add_job("a", 4, 32)
        pod = indexed_pod("a", 0, group=32)
        self.add_pod("a-0", pod)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") == "PodsMissing"))
        places = self.named()
        self.assertEqual(len(places), 4)
        self.host.kill()
        other = self.add_gang("b", 1, 8)
        self.start()
        self.assertTrue(wait_for(lambda: self.status("job-b").get("phase") == "Waiting"), self.objects())
        for i in range(1, 4):
            pod = indexed_pod("a", i, group=32, gated=False)
            patch = self.review("mutate", pod)[1]
            self.add_pod(f"a-{i}", apply_patch(pod, patch))
        self.wait_lifted(*[f"a-{i}" for i in range(4)])
        self.assertEqual(self.named(), places)
        self.check_plan([f"a-{i}" for i in range(4)])
        self.assertFalse(self.is_lifted(*other))

    def test_replicas_keep_their_ranks_in_the_object(self):
        from placement_driver import replica  # pylint: disable=import-outside-toplevel
        self.world(2)
        event, waiting = self.hold("PATCH", "/rs-[wxyz]$")
        self.start()
        self.api.add("/apis/apps/v1/namespaces/ns/replicasets", "rs", spec={"replicas": 4, "template": template(8, 32)})
        for name in "zxyw":
            self.add_pod(f"rs-{name}", replica("rs"))
        self.assertTrue(wait_for(lambda: len(waiting) == 4))
        self.host.kill()
        self.api.meddle = None
        named = {row[4]: row[0] for row in self.rows("replicaset-rs")}
        self.assertEqual(set(named), {"rs-w", "rs-x", "rs-y", "rs-z"})
        self.start()
        names = [f"rs-{n}" for n in "wxyz"]
        self.wait_lifted(*names)
        event.set()
        for name in names:
            self.assertEqual(self.pod(name)["metadata"]["annotations"][PLAN + "rank"], named[name])

    def test_release_without_objects_is_taken_over(self):
        """Pods were planned by annotations alone, and the burst was cut."""
        self.world(2)
        self.add_job("a", 4, 32)
        for i in range(4):
            pod = indexed_pod("a", i, group=32, gated=i > 1)
            if i < 2:
                node = f"s1-n{i}"
                pod["metadata"]["annotations"].update({
                    PLAN + "node": node, PLAN + "unit": "0", PLAN + "rank": str(i),
                    PLAN + "gpus": json.dumps({"main": [f"GPU-{node}-{g}" for g in range(8)]})})
            self.add_pod(f"a-{i}", pod)
        self.start()
        names = [f"a-{i}" for i in range(4)]
        self.wait_lifted(*names)
        self.check_plan(names)
        self.assertEqual({planned_node(self.pod(n))[:2] for n in names}, {"s1"})

    def test_fenced_by_a_leader_that_never_wrote_its_plan(self):
        self.world(1)
        self.add_job("a", 4, 32)
        for i in range(4):
            pod = indexed_pod("a", i, group=32)
            pod["metadata"]["annotations"][EPOCH] = "7"
            self.add_pod(f"a-{i}", pod)
        self.start()
        names = [f"a-{i}" for i in range(4)]
        self.wait_lifted(*names)
        self.assertGreaterEqual(self.status()["epoch"], 7)
        self.assertFalse(any(GATE in gates(self.pod(n)) for n in names))


if __name__ == "__main__":
    unittest.main(verbosity=2)
