#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The placement controller where writes fail, cross or come late, and leaders go and come.

Usage: test_placement_writes.py PLACEMENT_HOST [unittest arguments]
"""

import json
import threading
import time

import side_by_side
from api_double import Status
from daemon_driver import PATIENCE, wait_for
from placement_case import JOBS, PODS, PYTORCH, SETS, TOPOLOGIES, PlacementCase
from placement_driver import (GATE, PLAN, gates, indexed_pod, planned_node, pod_spec, pytorch_pod, statefulset_pod,
                              template, topology)


class PlacementWritesTest(PlacementCase):
    def test_refused_writes_are_told_once(self):
        self.world(2)
        self.api.fail(Status(403, "a policy forbids it"), times=10000, method="PATCH", path="/a-[0-9]$")
        self.start(retry=200)
        begun = time.monotonic()
        names = self.add_gang("a", 8, 32)
        self.assertTrue(wait_for(lambda: self.host.counters()["writeFailures"] >= 24))
        self.assertFalse(any(self.is_lifted(n) for n in names))
        time.sleep(2)
        told = [note for note in self.host.notes if "a policy forbids it" in note["note"]]
        self.assertEqual([note["job"] for note in told], ["ns/Job/a"])
        events = [json.loads(r.body) for r in self.api.asked(method="POST") if "/events" in r.path]
        self.assertEqual({e["regarding"]["kind"] for e in events if e["reason"] == "WriteRefused"}, {"Pod", "Job"})
        failures = self.host.counters()["writeFailures"]  # of 8 pods, after 0, 0.2, 0.6, 1.4, 3... seconds
        self.assertLess(failures, 8 * (2 + int((time.monotonic() - begun) / 0.2 + 1).bit_length()))
        self.host.kill()
        self.api.faults.clear()
        self.start()
        self.wait_lifted(*names)

    def test_plan_that_cannot_be_written_holds_nothing(self):
        """The namespace of a job may not have GPUPlacements: the job waits and says so, others get the GPUs."""
        self.world(1)
        self.api.fail(Status(403, "exceeded quota: objects"), times=10000, method="POST", path="/ns/gpuplacements$")
        self.start(retry=500)
        names = self.add_gang("a", 4, 32)
        self.assertTrue(wait_for(lambda: (self.condition("a-0") or {}).get("reason") == "WriteRefused"))
        self.assertIn("exceeded quota: objects", self.condition("a-0")["message"])
        other = {**indexed_pod("b", 0, group=8), "metadata": {**indexed_pod("b", 0, group=8)["metadata"], "namespace": "elsewhere"}}
        self.api.add(JOBS.replace("/ns/", "/elsewhere/"), "b", spec={
            "completionMode": "Indexed", "completions": 1, "parallelism": 1, "template": template(8, 8)})
        self.api.add(PODS.replace("/ns/", "/elsewhere/"), "b-0", status={"phase": "Pending"}, **{
            **other, "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", **other["metadata"]}})
        self.assertTrue(wait_for(lambda: self.host.job("elsewhere/Job/b").get("state") == "placed"))
        writes = [r for r in self.api.asked(method="POST") if r.path.endswith("/ns/gpuplacements")]
        self.assertLessEqual(len(writes), 10)  # after 0, 0.5, 1.5, 3.5... seconds
        self.api.faults.clear()
        self.api.remove(PODS.replace("/ns/", "/elsewhere/"), "b-0")
        self.wait_lifted(*names)

    def test_killed_in_the_middle_of_the_burst(self):
        """What is left of a gang returns to its units, before all others."""
        self.world(3)
        self.api.fail(Status(403, "not now"), times=10000, method="PATCH", path="/a-[12567]$")
        self.start()
        names = self.add_gang("a", 8, 32)
        first = ["a-0", "a-3", "a-4"]
        self.assertTrue(wait_for(lambda: self.is_lifted(*first) and self.host.counters()["writeFailures"] >= 5))
        self.host.kill()
        self.assertFalse(any(planned_node(self.pod(n)) or self.is_lifted(n) for n in names if n not in first))
        places = {n: planned_node(self.pod(n)) for n in first}
        other = self.add_gang("other", 5, 8, priority=100)  # it would fit if the rest had no claim
        self.api.faults.clear()
        self.start()
        self.wait_lifted(*names)
        for unit in (names[:4], names[4:]):
            self.assertEqual(len({planned_node(self.pod(n)).split("-")[0] for n in unit}), 1)
        self.assertEqual(len({planned_node(self.pod(n)) for n in names}), 8)
        self.assertEqual({n: planned_node(self.pod(n)) for n in first}, places)
        self.assertFalse(any(self.is_lifted(n) for n in other))

    def test_room_is_taken_while_it_was_down(self):
        self.world(2)
        self.api.fail(Status(403, "not now"), times=10000, method="PATCH", path="/a-[23]$")
        self.start()
        names = self.add_gang("a", 4, 32)
        self.assertTrue(wait_for(lambda: self.is_lifted("a-0", "a-1") and self.host.counters()["writeFailures"]))
        self.host.kill()
        used = {planned_node(self.pod(n)) for n in names[:2]}
        home = used.copy().pop().split("-")[0]
        taken = next(n for n in self.nodes if n.startswith(home) and n not in used)
        self.api.add(TOPOLOGIES, taken, status=topology(taken, used=[(i, "ns", "stranger") for i in range(8)]))
        self.api.faults.clear()
        self.start()
        self.assertTrue(wait_for(lambda: self.condition("a-2")))
        self.assertEqual(self.condition("a-2")["reason"], "UnitStuck")
        self.assertFalse(any(planned_node(self.pod(n)) for n in names[2:]))
        self.api.add(TOPOLOGIES, taken, status=topology(taken))
        self.wait_lifted(*names)
        self.assertEqual({planned_node(self.pod(n)).split("-")[0] for n in names}, {home})
        self.assertEqual(self.condition("a-2")["reason"], "Planned")

    def test_somebody_else_writes_between(self):
        self.world(2)
        self.start(retry=600000)
        self.api.fail(Status(409, "the object has been modified"), times=3, method="PATCH", path="/a-1$")
        names = self.add_gang("a", 4, 32)
        self.assertTrue(wait_for(lambda: self.host.counters()["conflicts"]))
        self.assertFalse(self.is_lifted(*names))
        for value in range(100):  # each change is told, and tried
            pod = self.pod("a-1")
            self.add_pod("a-1", {k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {
                "metadata": {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "x": str(value)}}})
            if wait_for(lambda: self.is_lifted(*names), 1):
                break
        self.wait_lifted(*names)

    def test_change_that_is_heard_of_before_the_conflict(self):
        """As Volcano's controllers do, who annotate a new pod: that is no reason to wait until the time is over."""
        self.world(2)
        self.start(retry=600000)
        meddled = []

        def meddle(request):
            if request.path.endswith("/a-1") and not meddled:
                meddled.append(request)
                pod = self.pod("a-1")
                self.add_pod("a-1", {k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {
                    "metadata": {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "x": "1"}}})
                time.sleep(0.5)  # the watch tells it meanwhile
        self.api.meddle = meddle
        self.wait_lifted(*self.add_gang("a", 4, 32))
        self.assertEqual(self.host.counters()["conflicts"], 1)

    def test_change_that_is_heard_of_before_the_answer(self):
        """As Volcano's controllers do between the hint and the plan: the answer tells of a version that is no more."""
        self.world(2)
        self.start()
        served, heard = threading.Event(), threading.Event()

        def hold_back(request):
            if request.path.endswith("/a-1/status"):
                served.set()
                heard.wait(PATIENCE)
        self.api.hold_back = hold_back
        names = self.add_gang("a", 4, 32, schedulerName="volcano")
        self.assertTrue(served.wait(PATIENCE))
        pod = self.pod("a-1")
        self.add_pod("a-1", {k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {
            "metadata": {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "x": "1"}}})
        self.add_pod("behind", {"metadata": {}, "spec": pod_spec(gated=False)})
        self.assertTrue(wait_for(lambda: self.host.job("ns/Pod/behind")))
        heard.set()
        self.wait_lifted(*names)
        self.assertEqual(self.host.counters()["conflicts"], 0)

    def test_unit_stays_together_before_the_watch_tells(self):
        """The answer to a write may come long before the watch tells of it: the pod can go nowhere else from then on."""
        self.world(2, 2)
        told = threading.Event()
        self.addCleanup(told.set)

        def hold(obj):
            if obj["metadata"]["name"] == "a-0" and not gates(obj):
                told.wait(PATIENCE)
        self.api.before_event = hold
        self.api.fail(Status(409, "it has changed"), times=1, method="PATCH", path="/a-1$")
        self.start(retry=6000)
        names = self.add_gang("a", 2, 16)

        def written():
            counters = self.host.counters()
            return counters["podsLifted"], counters["conflicts"]
        self.assertTrue(wait_for(lambda: written() == (1, 1)), written())
        home = planned_node(self.pod("a-0"))
        beside = next(node for node in self.nodes if node[:2] == home[:2] and node != home)
        self.api.add(TOPOLOGIES, beside, status=topology(beside, used=[(i, "ns", "stranger") for i in range(8)]))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["reason"] == "UnitStuck"), self.host.job("ns/Job/a"))
        told.set()
        self.api.add(TOPOLOGIES, beside, status=topology(beside))
        self.wait_lifted(*names)
        self.assertEqual({planned_node(self.pod(name)) for name in names}, {home, beside})

    def test_server_errors_are_survived(self):
        self.world(2)
        self.api.fail(Status(500), times=6, method="PATCH")
        self.api.fail(Status(429, headers={"Retry-After": "1"}), times=2, method="PATCH")
        self.start()
        self.wait_lifted(*self.add_gang("a", 8, 32))

    def test_job_is_deleted_while_it_is_planned(self):
        self.world(2)
        self.api.fail(Status(403, "not now"), times=10000, method="PATCH", path=r"/pods/[^/]*$")
        self.start()
        names = self.add_gang("a", 8, 32)
        self.assertTrue(wait_for(lambda: self.host.counters()["writeFailures"] >= 8))
        self.api.remove(JOBS, "a")
        for name in names:
            self.api.remove(PODS, name)
        self.api.faults.clear()
        self.assertTrue(wait_for(lambda: self.host.counters()["assumptions"] == 0))
        self.wait_lifted(*self.add_gang("b", 8, 32))

    def test_leader_goes_and_comes(self):
        self.world(2)
        self.start()
        self.wait_lifted(*self.add_gang("a", 4, 32))
        self.host.order("stop")
        names = self.add_gang("b", 4, 32)
        time.sleep(0.5)
        self.assertFalse(any(planned_node(self.pod(n)) for n in names))
        self.host.order("start")
        self.wait_lifted(*names)
        self.assertEqual(len({planned_node(self.pod(n)) for n in names + [f"a-{i}" for i in range(4)]}), 8)

    def three_of_four(self, **options):
        """A gang of four of which three pods are there and planned; none is lifted."""
        self.world(1)
        self.start(gang=600000, **options)
        self.add_job("a", 4, 32)
        names = [f"a-{i}" for i in range(3)]
        for i in range(3):
            self.add_pod(names[i], indexed_pod("a", i, group=32))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") == "PodsMissing"))
        self.assertEqual(self.host.counters()["assumptions"], 4)
        self.assertFalse(any(planned_node(self.pod(n)) for n in names))
        return names

    def test_half_gang_is_not_lifted_by_the_next_leader(self):
        names = self.three_of_four()
        self.host.kill()
        self.start(gang=600000)
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 8))
        self.assertFalse(any(self.is_lifted(n) for n in names))
        self.add_gang("other", 1, 8)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/other").get("state") == "waits"))
        self.add_pod("a-3", indexed_pod("a", 3, group=32))
        self.wait_lifted(*names, "a-3")
        self.assertFalse(self.is_lifted("other-0"))

    def test_half_gang_is_not_lifted_when_a_place_becomes_unhealthy(self):
        names = self.three_of_four()
        for unhealthy in self.nodes:  # one of them is reserved for the pod that is missing
            self.api.add(TOPOLOGIES, unhealthy, status=topology(unhealthy, unhealthy=range(8)))
            self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["state"] == "waits"))
            pod = self.pod("a-1")
            self.add_pod("a-1", {k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {
                "metadata": {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "x": unhealthy}}})
            time.sleep(0.5)
            self.assertFalse(any(self.is_lifted(n) for n in names))
            self.api.add(TOPOLOGIES, unhealthy, status=topology(unhealthy))
            self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") == "PodsMissing"))
        self.add_pod("a-3", indexed_pod("a", 3, group=32))
        self.wait_lifted(*names, "a-3")

    def test_who_loses_the_lead_keeps_no_lost_plan(self):
        """It would assume the GPUs again when they are well, though no pod has that plan."""
        self.three_of_four()
        for unhealthy in self.nodes[:2]:
            self.api.add(TOPOLOGIES, unhealthy, status=topology(unhealthy, unhealthy=range(8)))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["state"] == "waits"))
        self.host.order("stop")
        last = self.nodes[3]
        self.add_pod("z", {"metadata": {"annotations": {PLAN + "node": last, PLAN + "gpus": json.dumps(
            {"main": [f"GPU-{last}-{i}" for i in range(8)]})}}, "spec": pod_spec(gated=False)})
        self.assertTrue(wait_for(lambda: self.host.counters()["assumptions"] == 1))
        self.api.add(TOPOLOGIES, last, status=topology(last, unhealthy=range(8)))
        self.assertTrue(wait_for(lambda: self.host.counters()["assumptions"] == 0))
        for well in (*self.nodes[:2], last):
            self.api.add(TOPOLOGIES, well, status=topology(well))
        self.assertTrue(wait_for(lambda: self.host.counters()["assumptions"]))
        self.assertEqual(self.host.counters()["assumptions"], 1)

    def test_reserved_place_that_becomes_unhealthy_is_noticed(self):
        self.world(1, nodes_each=5)
        self.start(retry=600000)
        self.api.add(SETS, "set", spec={"replicas": 4, "template": template(8, 32)})
        self.add_pod("set-0", statefulset_pod("set", 0))
        self.wait_lifted("set-0")
        self.bind("set-0")
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 24))
        time.sleep(0.5)
        for node in [n for n in self.nodes if n != planned_node(self.pod("set-0"))][:2]:
            self.api.add(TOPOLOGIES, node, status=topology(node, unhealthy=range(8)))
        self.assertTrue(wait_for(lambda: self.host.job("ns/StatefulSet/set")["reason"] == "UnitStuck"))

    def test_one_kind_of_owners_is_forbidden(self):
        self.world(1)
        self.api.fail(Status(403, "forbidden"), times=100000, method="GET", path="elasticjobs")
        began = time.monotonic()
        self.start(without=1500)
        self.assertGreater(time.monotonic() - began, 1)
        self.wait_lifted(*self.add_gang("a", 4, 32))
        self.assertEqual(self.host.close(), (0, ""))
        self.assertEqual(["kind=ElasticJob" in line for line in self.host.warned], [True])
        self.host = None

    def test_gate_on_a_pod_without_gpus(self):
        self.world(1)
        self.start()
        self.api.fail(Status(500), times=1, method="PATCH", path="/launcher$")
        made = pytorch_pod("p", "launcher", 0)["metadata"]
        self.add_pod("launcher", {"metadata": made, "spec": {
            "containers": [{"name": "m"}], "schedulingGates": [{"name": "example.com/quota"}, {"name": GATE}]}})
        self.assertTrue(wait_for(lambda: gates(self.pod("launcher")) == ["example.com/quota"]))
        self.assertNotIn("affinity", self.pod("launcher")["spec"])
        events = "/apis/events.k8s.io/v1/namespaces/ns/events"
        def told():
            return [r for r in self.api.asked(method="POST", path=events) if json.loads(r.body)["reason"] == "NoGPUs"]
        self.assertTrue(wait_for(told))
        time.sleep(1.5)
        self.assertEqual(len(told()), 1)

    def test_pod_that_cannot_be_read_is_told(self):
        """The cache has a limit that the API server has not. Nobody else would say why the pod waits."""
        self.world(1)
        self.start()
        values = [f"node-{i}-" + "x" * 50 for i in range(1300)]
        huge = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": values}]}]}}}
        pod = indexed_pod("huge", 0, group=8)
        self.add_pod("huge-0", {**pod, "spec": {**pod["spec"], "affinity": huge}})
        self.assertTrue(wait_for(lambda: self.condition("huge-0")))
        self.assertEqual(self.condition("huge-0")["reason"], "Unreadable")
        self.assertIn("more than 64 KiB", self.condition("huge-0")["message"])
        self.assertEqual(self.pod("huge-0")["spec"]["affinity"], huge)
        time.sleep(1.5)  # once
        self.assertEqual(self.host.counters()["writes"], 1)
        self.add_pod("huge-0", pod)
        self.wait_lifted("huge-0")

    def test_owner_that_comes_late_is_waited_for(self):
        self.world(1)
        self.start(owner=600000)
        self.add_pod("p-master-0", pytorch_pod("p", "master", 0))
        time.sleep(1.5)
        self.assertEqual(gates(self.pod("p-master-0")), [GATE])
        self.api.add(PYTORCH, "p", spec={"pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": template(8)}, "Worker": {"replicas": 3, "template": template(8, 32)}}})
        names = ["p-master-0", *(f"p-worker-{i}" for i in range(3))]
        for i in range(3):
            self.add_pod(names[i + 1], pytorch_pod("p", "worker", i))
        self.wait_lifted(*names)
        self.assertTrue(all(planned_node(self.pod(n)) for n in names))
        # Labels alone name no object: nothing is on its way.
        made = indexed_pod("plain", 0, group=8)
        del made["metadata"]["ownerReferences"]
        self.end("p-master-0")
        self.add_pod("plain-0", made)
        self.wait_lifted("plain-0")


if __name__ == "__main__":
    side_by_side.main()
