#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is reserved for pods that do not exist and for jobs that wait: for how long, and how much.

Usage: test_placement_reserve.py PLACEMENT_HOST [unittest arguments]
"""

import calendar
import json
import time

import side_by_side
from daemon_driver import wait_for
from placement_case import JOBS, PLACEMENTS, PODS, PYTORCH, SETS, TOPOLOGIES, PlacementCase
from placement_driver import apply_patch, gates, indexed_pod, planned_node, pytorch_pod, statefulset_pod, template, topology

EVENTS = "/api/v1/namespaces/ns/events"
VOLCANO = "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs"


def stamp(seconds=0.0):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def seconds_of(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


class Reserve(PlacementCase):
    def status(self, name="job-a"):
        with self.api.lock:
            collection, _, _ = self.api.place(PLACEMENTS + "/x")
            return json.loads(json.dumps(self.api.objects.get((collection, name), {}).get("status", {})))

    def expect(self, told, name="job-a"):
        """Its object comes to say so; None: nothing of the kind."""
        def said():
            status = self.status(name)
            return {key: status.get(key) for key in told}
        wait_for(lambda: said() == told)
        self.assertEqual(said(), told)

    def expect_reserved(self, gpus):
        wait_for(lambda: self.host.counters()["reservedGPUs"] == gpus)
        self.assertEqual(self.host.counters()["reservedGPUs"], gpus)

    def add_part(self, made=1, pods=4, group=32, name="a"):
        """A job of which some pods exist."""
        self.add_job(name, pods, group)
        for i in range(made):
            self.add_pod(f"{name}-{i}", indexed_pod(name, i, group=group))
        return [f"{name}-{i}" for i in range(made)]

    def owner_of(self, path, name):
        with self.api.lock:
            return self.api.objects[self.api.place(path)[0], name]

    def change(self, path, name, **members):
        """Of an owner, spec and status are changed."""
        old = self.owner_of(path, name)
        self.api.add(path, name, spec={**old["spec"], **members.get("spec", {})}, status=members.get("status", {}),
                     metadata={"uid": old["metadata"]["uid"], **members.get("metadata", {})})

    def cannot_create(self, path=JOBS, name="a", kind="Job", api="batch/v1", reason="FailedCreate", when=0.0, uid=None):
        uid = uid or self.owner_of(path, name)["metadata"]["uid"]
        self.api.add(EVENTS, f"{name}.{reason}", type="Warning", reason=reason, lastTimestamp=stamp(when),
                     message="Error creating: pods is forbidden: exceeded quota",
                     involvedObject={"apiVersion": api, "kind": kind, "namespace": "ns", "name": name, "uid": uid})

    # pods that do not come

    def test_places_of_pods_that_do_not_come(self):
        """One pod of 128 with one GPU each holds 128 GPUs for so long, and its own afterwards."""
        self.world(4)
        self.start(missing=12000)
        began = time.time()
        self.add_job("a", 128, 8, gpus=1)
        self.add_pod("a-0", indexed_pod("a", 0, gpus=1, group=8))
        self.wait_lifted("a-0")
        other = self.add_gang("b", 4, 32)
        self.assertEqual(self.host.counters()["reservedGPUs"], 127)
        until = seconds_of(self.status()["promisedUntil"])
        self.assertTrue(began + 11 <= until <= time.time() + 13, (began, until))
        self.wait_lifted(*other)
        self.assertGreater(time.time(), began + 11.5)
        self.expect_reserved(0)
        self.expect({"phase": "Placed", "reason": "PodsMissing", "message":
                     "1 of its 128 pods are there; no places are reserved for 127 others: none has come for 12 seconds"})
        self.assertNotIn("promisedUntil", self.status())

    def test_who_makes_progress_keeps_places(self):
        self.world(2)
        self.start(missing=10000)
        names = self.add_part(1, 6, 16)
        self.wait_lifted(*names)
        began = time.monotonic()
        for i in range(1, 5):
            while time.monotonic() < began + 3 * i:
                time.sleep(0.05)
            self.assertEqual(self.host.counters()["reservedGPUs"], 48 - 8 * i)
            pod = indexed_pod("a", i, group=16, gated=False)
            self.add_pod(f"a-{i}", apply_patch(pod, self.review("mutate", pod)[1]))
        self.assertFalse(gates(self.pod("a-4")))
        self.expect_reserved(8)
        self.expect_reserved(0)

    def test_pods_that_come_after_the_end(self):
        """The rest of their unit must fit, and then is placed there."""
        self.world(2)
        self.start(missing=1000)
        names = self.add_part(2)
        self.wait_lifted(*names)
        super_ = planned_node(self.pod("a-0"))[:2]
        self.expect_reserved(0)
        free = [n for n in self.nodes if n.startswith(super_) and n not in [planned_node(self.pod(p)) for p in names]]
        self.api.add(TOPOLOGIES, free[0], status=topology(free[0], used=[(0, "ns", "stranger")]))
        for i in (2, 3):
            pod = indexed_pod("a", i, group=32, gated=False)
            self.add_pod(f"a-{i}", apply_patch(pod, self.review("mutate", pod)[1]))
        self.expect({"phase": "Waiting", "reason": "UnitStuck"})
        self.api.add(TOPOLOGIES, free[0], status=topology(free[0]))
        self.wait_lifted("a-2", "a-3")
        self.expect({"phase": "Placed"})
        self.assertNotIn("reason", self.status())

    def test_the_end_outlives_leaders(self):
        self.world(1)
        self.start(missing=25000)
        self.wait_lifted(*self.add_part())
        until = self.status()["promisedUntil"]
        for _ in range(3):
            time.sleep(1)
            self.host.kill()
            self.start(missing=25000)
            self.expect_reserved(24)
            self.assertEqual(self.status()["promisedUntil"], until)
        self.expect_reserved(0)
        self.assertGreater(time.time(), seconds_of(until) - 2)
        self.host.kill()
        self.start(missing=25000)
        self.expect({"reason": "PodsMissing"})
        self.expect_reserved(0)

    def test_object_is_waited_for_from_the_start_of_a_term(self):
        """However old the pod is, also when its GPUPlacement has come back from the API server."""
        self.world(1)
        self.add_pod("a-0", indexed_pod("a", 0, group=8))
        began = time.monotonic()
        self.start(owner=12000)
        self.expect({"phase": "Pending", "reason": "OwnerUnknown"})
        self.wait_lifted("a-0")
        self.assertGreater(time.monotonic(), began + 12)

    # who makes no pods

    def test_suspended(self):
        self.world(1)
        self.start()
        names = self.add_part()
        self.wait_lifted(*names)
        self.expect_reserved(24)
        self.change(JOBS, "a", spec={"suspend": True})
        self.expect_reserved(0)
        self.expect({"phase": "Placed", "reason": "OwnerStopped"})
        self.wait_lifted(*self.add_gang("b", 1, 8))
        self.api.remove(PODS, "b-0")
        for name in names:  # as the Job controller does
            self.api.remove(PODS, name)
        self.change(JOBS, "a", spec={"suspend": False})
        self.wait_lifted(*self.add_part())
        self.expect_reserved(24)
        self.expect({"phase": "Placed"})
        self.assertNotIn("reason", self.status())

    def test_suspended_from_the_start(self):
        self.world(1)
        self.start()
        self.add_job("a", 4, 32)
        self.change(JOBS, "a", spec={"suspend": True})
        self.add_pod("a-0", indexed_pod("a", 0, group=32))
        self.expect({"phase": "Pending", "reason": "OwnerStopped", "message":
                     "1 of its 4 pods are there: its Job is suspended, has ended or is being deleted"})
        self.expect_reserved(0)
        self.change(JOBS, "a", spec={"suspend": False})
        self.wait_lifted("a-0")
        self.expect_reserved(24)

    def test_other_kinds_stop(self):
        self.world(2)
        self.start()
        self.api.add(PYTORCH, "p", spec={"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template(8, 32)},
                                                                 "Worker": {"replicas": 3, "template": template(8, 32)}}})
        self.add_pod("p-master-0", pytorch_pod("p", "master", 0))
        self.wait_lifted("p-master-0")
        self.expect_reserved(24)
        self.change(PYTORCH, "p", spec={"runPolicy": {"suspend": True}})
        self.expect_reserved(0)
        self.change(PYTORCH, "p", spec={"runPolicy": {"suspend": False}})
        self.expect({"phase": "Placed", "reason": None}, "pytorchjob-p")
        self.wait_lifted(*self.add_part())
        self.expect_reserved(24)
        self.change(JOBS, "a", status={"conditions": [{"type": "Failed", "status": "True"}]})
        self.expect_reserved(0)

    # owners that cannot make pods

    def test_owner_that_fails(self):
        self.world(1)
        self.start(gang=600000)
        names = self.add_part()
        self.expect_reserved(24)
        self.cannot_create()
        self.expect_reserved(0)
        self.expect({"phase": "Pending", "reason": "FailedCreate", "message":
                     "1 of its 4 pods are there: its Job cannot create more, as its Events say"})
        self.assertFalse(self.is_lifted(*names))
        self.assertFalse(planned_node(self.pod("a-0")))
        self.wait_lifted(*self.add_gang("b", 1, 8))
        self.api.remove(PODS, "b-0")
        self.add_pod("a-1", {**(pod := indexed_pod("a", 1, group=32)),
                             "metadata": {**pod["metadata"], "creationTimestamp": stamp(1)}})
        self.expect_reserved(16)  # it can again
        for i in (2, 3):
            self.add_pod(f"a-{i}", indexed_pod("a", i, group=32))
        self.wait_lifted(*[f"a-{i}" for i in range(4)])
        self.expect({"phase": "Placed", "reason": None})

    def test_owner_that_fails_all_the_time(self):
        """Its pods go on alone after a while."""
        self.world(1)
        self.start(missing=2000)
        names = self.add_part()
        self.expect_reserved(24)
        self.cannot_create()
        self.wait_lifted(*names)
        self.expect_reserved(0)
        self.expect({"phase": "Placed", "reason": "FailedCreate"})
        self.host.kill()
        self.start(missing=600000)
        self.expect({"phase": "Placed", "reason": "FailedCreate"})
        self.expect_reserved(0)

    def test_owner_that_failed_before(self):
        """An Event of before its last pod, and one of a namesake of before."""
        self.world(1)
        self.add_job("a", 4, 32)
        self.cannot_create(when=-100)
        self.start()
        pod = indexed_pod("a", 0, group=32)
        pod["metadata"]["creationTimestamp"] = stamp(-50)
        self.add_pod("a-0", pod)
        self.wait_lifted("a-0")
        self.expect_reserved(24)
        self.cannot_create(when=0, uid="uid-other")
        self.cannot_create(reason="FailedScheduling")
        self.add_pod("b-0", indexed_pod("b", 0, group=8))  # something that comes after them
        self.expect({"phase": "Waiting"}, "job-b")
        self.assertEqual(self.host.counters()["reservedGPUs"], 24)
        self.cannot_create(when=-40)
        self.expect_reserved(0)

    def test_other_kinds_fail(self):
        self.world(2)
        self.start()
        self.api.add(PYTORCH, "p", spec={"pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": template(8, 32)}}})
        self.api.add(SETS, "s", spec={"replicas": 4, "template": template(8, 32)})
        self.add_pod("p-worker-0", pytorch_pod("p", "worker", 0))
        self.wait_lifted("p-worker-0")
        self.add_pod("s-0", statefulset_pod("s", 0))
        self.wait_lifted("s-0")
        self.expect_reserved(48)
        self.cannot_create(PYTORCH, "p", "PyTorchJob", "kubeflow.org/v1", "FailedCreatePod")
        self.expect_reserved(24)
        self.cannot_create(SETS, "s", "StatefulSet", "apps/v1")
        self.expect_reserved(0)

    # nodes for a job that waits

    def fill(self, *nodes):
        """Strangers run on all GPUs of these nodes."""
        for node in nodes or self.nodes:
            self.api.add(TOPOLOGIES, node, status=topology(node, used=[(i, "ns", f"stranger-{node}") for i in range(8)]))

    def expect_holder(self, name, other=None):
        wait_for(lambda: self.host.job(f"ns/Job/{name}").get("holds"))
        self.assertTrue(self.host.job(f"ns/Job/{name}").get("holds"))
        if other:
            self.assertFalse(self.host.job(f"ns/Job/{other}")["holds"])

    def reserved_until(self, name="job-a"):
        """Seen a moment after the nodes are reserved."""
        wait_for(lambda: "reservedUntil" in self.status(name))
        return self.status(name)["reservedUntil"]

    def test_reservation_ends_and_the_next_has_it(self):
        self.world(4)
        self.fill()
        self.start(patience=300, turn=12000, retry=200)
        began = time.time()
        self.add_gang("a", 8, 32)
        self.expect_holder("a")
        self.assertEqual(self.host.counters()["reservedNodes"], 8)
        first = self.reserved_until()
        self.assertTrue(began + 11 <= seconds_of(first) <= time.time() + 13, (began, first))
        self.add_gang("b", 4, 32)
        self.expect({"phase": "Waiting", "behind": "ns/Job/a"}, "job-b")
        self.expect_holder("b", "a")
        self.assertGreaterEqual(time.time(), seconds_of(first) - 1)
        self.assertEqual(self.host.counters()["reservedNodes"], 4)
        self.assertEqual(self.reserved_until(), first)
        second = self.reserved_until("job-b")
        self.expect_holder("a", "b")
        self.assertGreaterEqual(time.time(), seconds_of(second) - 1)

    def test_alone_it_pauses(self):
        """What came meanwhile has its chance before nodes are reserved for the same job again."""
        self.world(4)
        self.fill(*self.nodes[:8])
        used = self.nodes[:8]
        self.start(patience=1000, turn=10000, retry=200, percent=100)
        self.add_gang("a", 16, 128)  # which no supernode holds: it never fits
        self.add_gang("big", 12, 32)
        self.expect_holder("big")
        small = self.add_gang("small", 4, 32)
        self.expect({"phase": "Waiting", "reason": "Reserved"}, "job-small")
        self.wait_lifted(*small)
        self.assertFalse(set(used) & {planned_node(self.pod(n)) for n in small})
        self.expect_holder("big")

    def test_reservation_is_no_larger_than_its_share(self):
        """Of 16 nodes 8 at most: a job of 12 gets none, and says so; another one does."""
        self.world(4)
        self.fill()
        self.start(patience=300, retry=200)
        self.add_gang("a", 12, 32)
        self.expect({"phase": "Waiting"})
        wait_for(lambda: "no nodes are reserved" in self.host.job("ns/Job/a")["text"])
        self.assertIn("; no nodes are reserved for it: they have 96 GPUs, more than 50% of the cluster",
                      self.host.job("ns/Job/a")["text"])
        self.assertEqual(self.host.counters()["reservedNodes"], 0)
        self.add_gang("b", 8, 32)
        self.expect_holder("b", "a")
        self.assertEqual(self.host.counters()["reservedNodes"], 8)

    def test_what_is_reserved_is_said(self):
        self.world(2)
        self.fill("s0-n0", "s0-n1", "s1-n0")
        self.start(patience=300, retry=200)
        self.add_gang("a", 4, 32)
        self.expect_holder("a")
        until = self.reserved_until()
        self.add_gang("b", 3, 24)
        self.expect({"phase": "Waiting", "reason": "Reserved", "message": "it would fit on nodes that are reserved for "
                     f"another job; 24 free GPUs on 4 nodes are reserved for job ns/Job/a until {until}"}, "job-b")
        self.add_gang("c", 8, 32)
        wait_for(lambda: "reserved for job" in self.status("job-c").get("message", ""))
        self.assertIn("64 GPUs are needed in all, the cluster has 40 for pods of 8; "
                      f"24 free GPUs on 4 nodes are reserved for job ns/Job/a until {until}", self.status("job-c")["message"])

    def test_turns_outlive_leaders(self):
        """The end of a turn, who had one, and since when all have waited."""
        self.world(4)
        self.fill()
        options = {"turn": 15000, "retry": 200}
        self.start(patience=300, **options)
        self.add_gang("a", 4, 32)
        self.expect_holder("a")
        self.add_gang("b", 4, 32)
        self.expect({"phase": "Waiting"}, "job-b")
        first = self.reserved_until()
        self.host.kill()
        self.start(patience=1000, **options)
        self.expect_holder("a", "b")
        self.assertAlmostEqual(seconds_of(self.reserved_until()), seconds_of(first), delta=1)
        self.expect_holder("b", "a")
        self.assertGreater(time.time(), seconds_of(first) - 2)
        wait_for(lambda: self.status("job-b").get("reservedUntil"))
        second = self.reserved_until("job-b")
        self.host.kill()
        self.start(patience=1000, **options)  # a goes before b, and has had its turn
        self.expect_holder("b", "a")
        self.assertAlmostEqual(seconds_of(self.reserved_until("job-b")), seconds_of(second), delta=1)
        for node in self.nodes[:4]:
            self.api.add(TOPOLOGIES, node, status=topology(node))
        self.wait_lifted(*[f"a-{i}" for i in range(4)])
        self.expect({"phase": "Placed", "reservedUntil": None})


if __name__ == "__main__":
    side_by_side.main()
