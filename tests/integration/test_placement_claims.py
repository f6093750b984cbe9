#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pods with claims: the planned devices are written into them before the gates are removed, against the double of the
API server.

Usage: test_placement_claims.py PLACEMENT_HOST [unittest arguments]
"""

import json
import time

import side_by_side
from api_double import Raw, Status
from claim_case import CLAIMS, ClaimCase
from daemon_driver import wait_for
from placement_case import SLICES, TOPOLOGIES
from placement_driver import GROUP, apply_patch, gates, indexed_pod, owner, planned_node, pod_spec, resource_slice, template, topology

VOLCANO_JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs"


class PlacementClaimsTest(ClaimCase):
    def begin(self, pods=4, before=lambda: None):
        self.world(2)
        before()
        self.add_job("a", pods, 32)
        self.start()
        self.assertTrue(wait_for(lambda: self.review("mutate", indexed_pod("a", 0, gated=False))[1]))
        return [f"a-{i}" for i in range(pods)]

    def test_planned_devices_are_in_the_claims_before_the_gates_go(self):
        names = self.begin()
        early = []

        def look(request):
            if request.method == "PATCH" and "/pods/" in request.path and "schedulingGates" in request.body.decode():
                early.extend(name for name in names if not self.claim(name)["status"].get("allocation"))
        self.api.meddle = look
        for i, name in enumerate(names):
            self.create(name, i)
        self.wait_checked(*names)
        self.assertEqual(early, [])
        self.assertEqual([one.get("claimTemplate") for one in self.object()["spec"]["templates"]], ["gputopo-gpus-8"])

    def test_gate_waits_for_the_claim(self):
        names = self.begin()
        for i, name in enumerate(names):
            self.create(name, i, claim=name != "a-2")
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") == "ClaimMissing"))
        self.assertFalse(any(self.is_lifted(name) for name in names))
        self.add_claim("a-2", "gputopo-gpus-8")
        self.wait_checked(*names)

    def test_a_part_waits_for_a_claim(self):
        """Of a job whose other unit waits for room: its state goes on saying why that does."""
        self.world(1)
        self.api.add(VOLCANO_JOBS, "a", spec={"minAvailable": 4, "tasks": [
            {"name": "worker", "replicas": 8, "template": template(8, 32)}]})
        self.start()
        for i in range(8):
            pod = {"metadata": {"annotations": {GROUP: "32"}, "ownerReferences": [owner("batch.volcano.sh/v1alpha1", "Job", "a", "uid-vc")],
                                "labels": {"volcano.sh/job-name": "a", "volcano.sh/task-spec": "worker", "volcano.sh/task-index": str(i)}},
                   "spec": pod_spec(8, gated=False)}
            self.assertTrue(wait_for(lambda: self.review("mutate", pod)[1]))
            self.add_pod(f"a-{i}", apply_patch(pod, self.review("mutate", pod)[1]))
            if i != 2:
                self.add_claim(f"a-{i}", "gputopo-gpus-8")
        self.assertTrue(wait_for(lambda: self.results("a-3")), self.host.job("ns/VolcanoJob/a"))
        self.assertTrue(wait_for(lambda: self.host.job("ns/VolcanoJob/a")["reason"] == "TooFewGPUs"), self.host.job("ns/VolcanoJob/a"))
        for i in range(20):
            self.change_pod("a-0", metadata={"labels": {**self.pod("a-0")["metadata"]["labels"], "round": str(i)}})
            self.assertEqual(self.host.job("ns/VolcanoJob/a")["reason"], "TooFewGPUs")
            time.sleep(0.05)
        self.assertFalse(any(self.is_lifted(f"a-{i}") for i in range(8)))
        self.add_claim("a-2", "gputopo-gpus-8")
        self.wait_checked(*(f"a-{i}" for i in range(4)))

    def test_claim_that_asks_for_something_else(self):
        names = self.begin()
        for i, name in enumerate(names):
            self.create(name, i, claim=name != "a-1")
        self.add_claim("a-1", "gputopo-gpus-7")
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") == "ClaimUnfit"))
        self.assertIsNone(self.claim("a-1")["status"].get("allocation"))

    def test_writes_that_fail(self):
        """Conflicts, refusals and lost answers, of each kind of write."""
        names = self.begin()
        for path in (r"/resourceclaims/[^/]+$", r"/resourceclaims/[^/]+/status$"):
            self.api.fail(Status(409), times=2, method="PATCH", path=path)
            self.api.fail(Status(503), times=2, method="PATCH", path=path)
            self.api.fail(Raw(), times=1, method="PATCH", path=path)
        for i, name in enumerate(names):
            self.create(name, i)
        self.wait_checked(*names)

    def test_killed_after_each_write(self):
        """Another leader goes on from whatever stands in the claims."""
        names = self.begin()
        writes = []
        for stop_after in range(1, 13):
            self.api.hold_back = lambda request: writes.append(request.path)
            count = len(writes)
            if stop_after == 1:
                for i, name in enumerate(names):
                    self.create(name, i)
            wait_for(lambda least=count: len(writes) > least or self.is_lifted(*names))
            self.host.kill()
            self.start()
        self.wait_checked(*names)

    def test_foreign_allocation_of_a_gated_claim_is_cleared(self):
        names = self.begin()
        for i, name in enumerate(names):
            self.create(name, i, claim=False)
        self.add_claim("a-0", "gputopo-gpus-8")
        self.allocate("a-0", "s1-n3", 0, 1, 2, 3, 4, 5, 6, 7)
        for name in names[1:]:
            self.add_claim(name, "gputopo-gpus-8")
        self.wait_checked(*names)

    def test_claim_of_the_pod_before(self):
        """It outlives its pod for a while: the next pod of that name has a claim of its own, and waits until the GPUs are given back."""
        names = self.begin()
        for i, name in enumerate(names):
            self.create(name, i)
        self.wait_checked(*names)
        for name in names:
            self.bind(name)
        old = self.claim("a-1")
        self.api.add(CLAIMS, "a-1-old", **{k: v for k, v in old.items() if k not in ("apiVersion", "kind")} | {
            "metadata": {k: v for k, v in old["metadata"].items() if k not in ("name", "uid")}})
        self.api.remove(CLAIMS, self.claim_name("a-1"))
        self.end("a-1")
        self.create("a-1", 1, claim=False)
        self.assertTrue(wait_for(lambda: self.is_lifted("a-1") or self.host.job("ns/Job/a").get("reason") == "UnitStuck"))
        self.assertFalse(self.is_lifted("a-1"))
        self.add_claim("a-1", "gputopo-gpus-8")
        self.api.remove(CLAIMS, "a-1-old")
        self.wait_checked(*names)

    def test_allocations_of_others_are_planned_around(self):
        """A claim of a pod that the companion does not place has GPUs before any NodeGPUTopology shows it."""
        self.world(1, nodes_each=5)
        self.add_job("a", 4, 32)
        self.add_pod("other", {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "none"}]}})
        self.add_claim("other", "gputopo-gpus-1")
        self.allocate("other", "s0-n2", 3)
        self.start()
        names = [f"a-{i}" for i in range(4)]
        self.assertTrue(wait_for(lambda: self.review("mutate", indexed_pod("a", 0, gated=False))[1]))
        for i, name in enumerate(names):
            self.create(name, i)
        self.wait_checked(*names)
        self.assertNotIn("s0-n2", {planned_node(self.pod(name)) for name in names})

    def test_composites_of_others_are_planned_around(self):
        """A pair, a zone or the whole node in a claim is all its GPUs."""
        self.world(1, nodes_each=5)
        for name, node, composite in (("pair", "s0-n0", "pair-0000-02-00-0-0000-05-00-0"), ("zone", "s0-n1", "zone-0000-01-00-0-8"),
                                      ("whole", "s0-n2", "node-8")):
            self.add_pod(name, {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "none"}]}})
            self.add_claim(name, "gputopo-gpus-1")
            self.allocate(name, node, composite)
        self.add_job("a", 2, 16)
        self.start()
        self.assertTrue(wait_for(lambda: self.review("mutate", indexed_pod("a", 0, group=16, gated=False))[1]))
        for i in range(2):
            self.create(f"a-{i}", i, group=16)
        self.wait_checked("a-0", "a-1")
        self.assertEqual({planned_node(self.pod(f"a-{i}")) for i in range(2)}, {"s0-n3", "s0-n4"})

    def test_allocation_seen_in_flight(self):
        """kube-scheduler gives a planned GPU away while the plan is being written: the job is planned again."""
        self.world(2)
        self.add_job("a", 4, 32)
        self.start()
        names = [f"a-{i}" for i in range(4)]
        self.add_pod("other", {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "none"}]}})
        self.add_claim("other", "gputopo-gpus-1")
        self.assertTrue(wait_for(lambda: self.review("mutate", indexed_pod("a", 0, gated=False))[1]))
        taken = []

        def take(request):
            if request.method == "PATCH" and request.path.endswith("/status") and "/resourceclaims/" in request.path and not taken:
                body = json.loads(request.body)
                result = (body["status"].get("allocation") or {}).get("devices", {}).get("results", [None])[0]
                if result:
                    taken.append((result["pool"], result["device"]))
                    self.allocate("other", result["pool"], int(result["device"].split("-")[2], 16) - 1)
        self.api.meddle = take
        for i, name in enumerate(names):
            self.create(name, i)
        self.wait_checked(*names)
        self.assertNotIn(taken[0], [(one["pool"], one["device"]) for name in names
                                    for one in self.claim(name)["status"]["allocation"]["devices"]["results"]])

    def test_allocation_that_comes_late(self):
        """kube-scheduler chose a planned GPU before it heard of the plan's claims, and writes that when all of these are there."""
        self.world(2)
        self.add_job("a", 4, 32)
        self.start(claims_settle=2000)
        names = [f"a-{i}" for i in range(4)]
        self.add_pod("other", {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "none"}]}})
        self.add_claim("other", "gputopo-gpus-1")
        self.assertTrue(wait_for(lambda: self.review("mutate", indexed_pod("a", 0, gated=False))[1]))
        for i, name in enumerate(names):
            self.create(name, i)
        self.assertTrue(wait_for(lambda: all(self.results(name) for name in names)))
        node = self.take_from("a-2")
        self.assertFalse(self.is_lifted("a-2"))
        self.wait_checked(*names)
        self.assertNotIn(node, {one["pool"] for name in names for one in self.results(name)})

    def lift_all(self, **options):
        """A job of four pods whose gates have gone, a fifth node, and the pod `other` with a claim."""
        self.world(1, nodes_each=5)
        self.add_job("a", 4, 32)
        self.start(**options)
        names = [f"a-{i}" for i in range(4)]
        self.add_pod("other", {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "none"}]}})
        self.add_claim("other", "gputopo-gpus-1")
        self.assertTrue(wait_for(lambda: self.review("mutate", indexed_pod("a", 0, gated=False))[1]))
        for i, name in enumerate(names):
            self.create(name, i)
        self.wait_checked(*names)
        return names

    def take_from(self, pod):
        taken = self.results(pod)[3]
        self.allocate("other", taken["pool"], int(taken["device"].split("-")[2], 16) - 1)
        return taken["pool"]

    def test_allocation_that_comes_after_the_gates(self):
        """The claim is cleared while no scheduler has taken it, which may choose other GPUs of the node then."""
        self.lift_all()
        self.take_from("a-2")
        self.assertTrue(wait_for(lambda: not self.results("a-2")))
        self.assertTrue(wait_for(lambda: (self.condition("a-2") or {}).get("reason") == "PlanLost"))

    def test_pod_whose_claim_was_lost_is_made_again(self):
        names = self.lift_all(recreate=1)
        node = self.take_from("a-2")
        self.assertTrue(wait_for(lambda: not self.pod("a-2")))
        self.api.remove(CLAIMS, self.claim_name("a-2"))
        self.create("a-2", 2)
        self.wait_checked(*names)
        self.assertNotEqual(planned_node(self.pod("a-2")), node)

    def refused(self, names):
        """Another pod has a GPU of a pod that is on its node: the agent has prepared its claim first."""
        for name in names:
            if name != "a-2":
                self.bind(name)
        pod = self.pod("a-2")
        node = planned_node(pod)
        claim = self.claim("a-2")
        self.api.add(CLAIMS, self.claim_name("a-2"), **{k: v for k, v in claim.items() if k not in ("apiVersion", "kind")} | {"status": {
            **claim["status"], "reservedFor": [{"resource": "pods", "name": "a-2", "uid": pod["metadata"]["uid"]}]}})  # before it is bound
        self.add_pod("a-2", {**pod, "spec": {**pod["spec"], "nodeName": node}})
        self.allocate("other", node, 3)
        self.run_on("other", node, [3])
        return node

    def test_refused_claim(self):
        """A pod that its node's agent refuses is evicted, and planned elsewhere."""
        names = self.lift_all(recreate=1, unschedulable=500)
        node = self.refused(names)
        self.assertTrue(wait_for(lambda: self.api.evicted == ["a-2"]))
        self.assertTrue(any("other-gputopo-gpus-x, too" in note["note"] for note in self.host.notes), self.host.notes)
        self.api.remove(CLAIMS, self.claim_name("a-2"))
        self.end("a-2")
        self.create("a-2", 2)
        self.wait_checked(*names)
        self.assertNotEqual(planned_node(self.pod("a-2")), node)

    def test_the_brake_holds_a_refused_claim(self):
        """While many nodes are not Ready the pod stays, and it is said."""
        self.add_silent("x-n0", "x-n1")
        names = self.lift_all(recreate=1, unschedulable=500, brake=10)
        self.refused(names)
        self.assertTrue(wait_for(lambda: "it is not evicted: " in self.host.job("ns/Job/a").get("text", "")), self.host.job("ns/Job/a"))
        time.sleep(1)
        self.assertEqual(self.api.evicted, [])
        for node in ("x-n0", "x-n1"):
            self.api.remove("/api/v1/nodes", node)
        self.assertTrue(wait_for(lambda: self.api.evicted == ["a-2"]), self.host.job("ns/Job/a"))

    def test_refused_claim_is_told(self):
        names = self.lift_all(unschedulable=500)
        self.refused(names)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") == "ClaimRefused"))
        self.assertEqual(self.api.evicted, [])
        self.api.remove(CLAIMS, self.claim_name("other"))
        self.end("other")
        self.bind("a-2")
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("state") == "placed"), self.host.job("ns/Job/a"))

    def test_nodes_of_the_plugin_are_left_alone(self):
        names = self.begin()
        for node in self.nodes[:4]:
            self.api.add(TOPOLOGIES, node, status=topology(node))
        for i, name in enumerate(names):
            self.create(name, i)
        self.wait_checked(*names)
        self.assertEqual({planned_node(self.pod(name)) for name in names}, set(self.nodes[4:]))

    def check_unplanned(self, gpus=range(8), newer=None, **more):
        """All NodeGPUTopologies show 8 free GPUs, and no node's slices hold 8; it is planned once some do. `gpus` None: no slices."""
        def change_slices():
            for node in self.nodes:
                if gpus is None:
                    self.api.remove(SLICES, f"{node}-gpu.metax-tech.com")
                else:
                    self.offer_slice(node, gpus, **more)
                if newer:
                    self.api.add(SLICES, f"{node}-newer", spec=resource_slice(node, newer, generation=2))
        names = self.begin(before=change_slices)
        for i, name in enumerate(names):
            self.create(name, i)
        self.assertTrue(wait_for(lambda: "the cluster has 0 for pods of 8" in (self.condition(names[0]) or {}).get("message", "")),
                        self.pod(names[0]))
        for node in self.nodes[4:]:
            self.offer_slice(node, range(8), generation=3)
        self.wait_checked(*names)
        self.assertEqual({planned_node(self.pod(name)) for name in names}, set(self.nodes[4:]))

    def test_no_slices(self):
        self.check_unplanned(None)

    def test_slices_without_devices(self):
        self.check_unplanned(range(0))

    def test_slices_of_half_of_the_gpus(self):
        self.check_unplanned(range(4))

    def test_slices_with_a_tainted_device(self):
        self.check_unplanned(tainted=[7])

    def test_slices_of_an_older_generation(self):
        self.check_unplanned(newer=range(7))

    def test_pool_that_is_not_complete(self):
        self.check_unplanned(slices=2)

    def test_pods_without_groups_keep_their_limits(self):
        self.begin()
        pod = {"metadata": {}, "spec": indexed_pod("x", 0, gated=False)["spec"]}
        self.assertIsNone(self.review("mutate", pod)[1])
        self.assertEqual(gates(pod), [])


if __name__ == "__main__":
    side_by_side.main()
