#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that run: pods end, come back, grow in number, are evicted or refused, or lose their plan.

Usage: test_placement_running.py PLACEMENT_HOST [unittest arguments]
"""

import time

import side_by_side
from api_double import Silence
from daemon_driver import wait_for
from placement_case import JOBS, PODS, PYTORCH, TOPOLOGIES, PlacementCase
from placement_driver import (GROUP, PLAN, apply_patch, gates, indexed_pod, planned_node, pod_spec, pytorch_pod, replica, template,
                              topology)

POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups"
REPLICASETS = "/apis/apps/v1/namespaces/ns/replicasets"


class PlacementRunningTest(PlacementCase):
    # pods that come again

    def test_retry_of_a_job_of_which_some_pods_have_succeeded(self):
        self.world(2)
        self.start(**{"return": 300})
        self.api.add(JOBS, "x", spec={"completionMode": "NonIndexed", "completions": 4, "parallelism": 4,
                                      "template": template(8, 16)})
        def made():
            return {"metadata": {"labels": {"job-name": "x"}, "annotations": {GROUP: "16"}, "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "u", "controller": True}]},
                "spec": pod_spec(8)}
        names = [f"x-{c}" for c in "abcd"]
        for name in names:
            self.add_pod(name, made())
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        self.end("x-a", "Succeeded")
        self.end("x-b", "Failed")
        self.add_pod("x-e", made())
        self.wait_lifted("x-e")
        rank = self.pod("x-e")["metadata"]["annotations"][PLAN + "rank"]
        self.assertIn(rank, ("0", "1"))  # those that run keep theirs
        self.assertEqual(self.pod("x-e")["metadata"]["annotations"][PLAN + "unit"], "0")
        self.assertTrue(wait_for(lambda: self.host.job("ns/Owned/Job/x")["state"] == "placed"))

    def finish(self, job, done, group=16, pods=4, mode="Indexed", **status):
        """Some pods succeed, and the Job's status tells of them."""
        for name in done:
            self.end(name, "Succeeded")
        self.api.add(JOBS, job, spec={"completionMode": mode, "completions": pods, "parallelism": pods,
                                      "template": template(8, group)}, status={"succeeded": len(done), **status})

    def test_gpus_of_a_pod_that_is_deleted_before_it_is_bound(self):
        """It is never bound any more, and the API server may keep it for long."""
        self.world(1, nodes_each=1)
        self.start()
        for job in ("a", "b"):
            self.add_gang(job, 1, 8)
            if job == "a":
                self.wait_lifted("a-0")
        self.assertTrue(wait_for(lambda: self.condition("b-0")), self.host.notes)
        self.change_pod("a-0", {"deletionTimestamp": "2026-01-01T01:00:00Z"})
        self.wait_lifted("b-0")
        self.assertTrue(self.pod("a-0"))

    def test_last_pod_of_a_plain_job_comes_back(self):
        """No pod is left that tells that the job runs."""
        self.world(1)
        self.start(**{"return": 300})
        def made():
            return {"metadata": {"labels": {"job-name": "x"}, "annotations": {GROUP: "16"}, "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "u", "controller": True}]},
                "spec": pod_spec(8)}
        names = [f"x-{c}" for c in "abcd"]
        self.finish("x", [], mode="NonIndexed")
        for name in names:
            self.add_pod(name, made())
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        self.end("x-d")
        self.finish("x", names[:3], mode="NonIndexed")
        self.add_pod("x-e", made())
        self.wait_lifted("x-e")
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)

    def test_last_pods_of_an_indexed_job_come_back(self):
        """Others have taken the room of those that have succeeded: it is not asked for again."""
        self.world(1)
        self.start(**{"return": 300})
        names = self.add_gang("a", 4, 16)
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        self.finish("a", names[:2], completedIndexes="0,1")
        other = self.add_gang("b", 2, 16)
        self.wait_lifted(*other)
        for name in other:
            self.bind(name)
        self.end("a-2")
        self.end("a-3")
        self.add_pod("a-3", indexed_pod("a", 3, group=16))
        self.wait_lifted("a-3")  # with the place of a-2 kept
        self.assertEqual(self.host.counters()["reservedGPUs"], 8)
        self.add_pod("a-2", indexed_pod("a", 2, group=16))
        self.wait_lifted("a-2")
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)

    def test_last_pods_of_a_pytorch_job_come_back(self):
        """Its status says how many have succeeded, and not which. Their places are reserved for a moment, not as long as those
        of pods that were never made."""
        self.world(1)
        self.start(missing=600000, **{"return": 300})
        specs = {"Master": {"replicas": 1, "template": template(8, 16)},
                 "Worker": {"replicas": 3, "template": template()}}
        self.api.add(PYTORCH, "p", spec={"pytorchReplicaSpecs": specs})
        names = ["p-master-0", *(f"p-worker-{i}" for i in range(3))]
        for i, name in enumerate(names):
            self.add_pod(name, pytorch_pod("p", "worker" if i else "master", max(i - 1, 0)))
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        for name in names[:2]:
            self.end(name)
        other = self.add_gang("b", 2, 16)
        self.wait_lifted(*other)
        for name in names[2:]:
            self.end(name)
        self.api.add(PYTORCH, "p", spec={"pytorchReplicaSpecs": specs}, status={"replicaStatuses": {
            "Master": {"succeeded": 1}, "Worker": {"active": 2, "succeeded": 1}}})
        for i in (1, 2):
            self.add_pod(f"p-worker-{i}", pytorch_pod("p", "worker", i))
        self.wait_lifted(*names[2:])
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)

    def test_unit_that_a_job_grows_by_is_planned_whole(self):
        self.world(3)
        self.start()
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("state") == "placed"))
        self.add_job("a", 8, 32)
        self.add_pod("a-4", indexed_pod("a", 4, group=32))
        self.wait_lifted("a-4")
        self.assertEqual(self.host.counters()["reservedGPUs"], 24)
        self.wait_lifted(*self.add_gang("b", 4, 32))  # whoever comes meanwhile gets another supernode
        for i in (5, 6, 7):
            self.add_pod(f"a-{i}", indexed_pod("a", i, group=32))
        self.wait_lifted(*(f"a-{i}" for i in (5, 6, 7)))
        self.assertEqual(len({planned_node(self.pod(f"a-{i}")).split("-")[0] for i in range(4, 8)}), 1)
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)

    def test_replaced_pod_comes_home(self):
        self.world(3)
        self.start()
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        home = planned_node(self.pod("a-1"))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("state") == "placed"))
        self.end("a-1")
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 8))
        self.add_gang("small", 1, 8)
        self.add_pod("a-1", indexed_pod("a", 1, group=32))
        self.wait_lifted("a-1", "small-0")
        self.assertEqual(planned_node(self.pod("a-1")), home)
        self.assertNotEqual(planned_node(self.pod("small-0")), home)

    def test_replaced_pod_waits_for_its_supernode(self):
        self.world(2)
        self.start(**{"return": 1})
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        home = planned_node(self.pod("a-1"))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("state") == "placed"))
        self.end("a-1")
        self.api.add(TOPOLOGIES, home, status=topology(home, used=[(0, "ns", "stranger")]))
        self.add_pod("a-1", indexed_pod("a", 1, group=32))
        self.assertTrue(wait_for(lambda: self.condition("a-1")))
        self.assertEqual(self.condition("a-1")["reason"], "UnitStuck")
        self.api.add(TOPOLOGIES, home, status=topology(home))
        self.wait_lifted("a-1")
        self.assertEqual(planned_node(self.pod("a-1")), home)

    def test_restarted_group_is_planned_again(self):
        self.world(2)
        self.start()
        names = self.add_gang("a", 8, 32)
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        for name in names:
            self.end(name)
        for i in range(8):
            self.add_pod(names[i], indexed_pod("a", i, group=32))
        self.wait_lifted(*names)
        self.assertEqual(self.host.job("ns/Job/a")["reservedGPUs"], 0)

    def evict(self, name):
        """As a scheduler does that wants the room for others: it says so, and deletes the pod."""
        pod = self.pod(name)
        pod["status"].setdefault("conditions", []).append(
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for another"})
        self.api.add(PODS, name, namespace="ns", **{key: pod[key] for key in ("metadata", "spec", "status")})
        self.end(name)

    def test_evicted_pods_let_others_go_first(self):
        """Without that, the pod that is made again would get the place back before the other one has it."""
        self.world(1)
        self.start(eviction=6000)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("state") == "placed"))
        self.evict("a-1")
        self.add_pod("a-1", indexed_pod("a", 1, group=32))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") == "Evicted"))
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)
        self.assertTrue(gates(self.pod("a-1")))
        self.wait_lifted("a-1")

    def test_evicted_group_lets_others_go_first(self):
        """Also when all of its pods go, and nothing but its name is left."""
        self.world(1)
        self.start(eviction=6000)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        for name in names:
            self.evict(name)
        for i, name in enumerate(names):
            self.add_pod(name, indexed_pod("a", i, group=32))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") == "Evicted"))
        self.assertTrue(all(gates(self.pod(name)) for name in names))
        self.wait_lifted(*names)

    def test_replicas_keep_their_ranks_over_a_restart(self):
        self.world(2)
        self.start()
        self.api.add(REPLICASETS, "rs", spec={"replicas": 8, "template": template(8, 32)})
        names = [f"rs-{x}" for x in "bdfhjlnp"]
        for name in names[:7]:
            self.add_pod(name, replica("rs"))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Owned/ReplicaSet/rs").get("reason") == "PodsMissing"))
        self.add_pod(names[7], replica("rs"))
        self.wait_lifted(*names)
        for rank, name in enumerate(names):
            self.assertEqual(self.pod(name)["metadata"]["annotations"][PLAN + "rank"], str(rank))
            self.bind(name)
        self.host.kill()
        self.start()
        home = planned_node(self.pod("rs-n"))  # rank 6, in the second unit
        self.end("rs-n")
        self.add_pod("rs-a", replica("rs"))  # by its name it would be the first
        self.wait_lifted("rs-a")
        self.assertEqual(self.pod("rs-a")["metadata"]["annotations"][PLAN + "rank"], "6")
        self.assertEqual(planned_node(self.pod("rs-a")), home)

    # lost plans

    def lose(self, **options):
        """A lifted gang of which one pod's place is taken before it is bound."""
        self.world(2)
        self.start(**options)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        for name in ("a-0", "a-1", "a-3"):
            self.bind(name)
        taken = planned_node(self.pod("a-2"))
        self.api.add(TOPOLOGIES, taken, status=topology(taken, used=[(i, "ns", "stranger") for i in range(8)]))
        return names, taken

    def test_lost_plan_is_reported(self):
        names, _ = self.lose()
        self.assertTrue(wait_for(lambda: (self.condition("a-2") or {}).get("reason") == "PlanLost"))
        self.assertEqual(self.condition("a-2")["status"], "False")
        self.assertTrue(self.is_lifted(*names))
        self.assertEqual(self.host.counters()["recreated"], 0)
        self.assertEqual(self.host.job("ns/Job/a")["state"], "plan-lost")

    def test_pod_that_lost_its_place_holds_its_unit(self):
        """It is bound to that node: elsewhere the others would tear the unit as soon as the place is free again."""
        self.world(2, 2)
        self.start()
        names = self.add_gang("a", 2, 16, backoffLimit=0)  # so that it is not planned again as a whole
        self.wait_lifted(*names)
        places = {planned_node(self.pod(name)) for name in names}
        for node in places:
            self.api.add(TOPOLOGIES, node, status=topology(node, used=[(i, "ns", "stranger") for i in range(8)]))
        self.assertTrue(wait_for(lambda: (self.condition("a-0") or {}).get("reason") == "PlanLost"))
        self.end("a-1")
        self.add_pod("a-1", indexed_pod("a", 1, group=16))
        self.assertTrue(wait_for(lambda: (self.condition("a-1") or {}).get("reason") == "UnitStuck"))
        for node in places:
            self.api.add(TOPOLOGIES, node, status=topology(node))
        self.wait_lifted("a-1")
        self.assertEqual({planned_node(self.pod(name)) for name in names}, places)

    def test_lost_plan_is_repaired(self):
        _, taken = self.lose(recreate=1)
        self.assertTrue(wait_for(lambda: self.pod("a-2") is None))
        self.assertIsNotNone(self.pod("a-1"))
        self.add_pod("a-2", indexed_pod("a", 2, group=32))  # its owner makes it again
        self.assertTrue(wait_for(lambda: self.condition("a-2")))
        self.assertEqual(self.condition("a-2")["reason"], "UnitStuck")
        self.api.add(TOPOLOGIES, taken, status=topology(taken))
        self.wait_lifted("a-2")
        self.assertEqual(self.host.counters()["recreated"], 1)

    def test_the_brake_holds_what_lost_its_plan(self):
        """While many nodes are not Ready it is not deleted, and it is said."""
        self.add_silent("x-n0", "x-n1")
        self.lose(recreate=1, brake=10)
        self.assertTrue(wait_for(lambda: "no pod is deleted: 2 of the" in self.host.job("ns/Job/a")["text"]), self.host.job("ns/Job/a"))
        time.sleep(1)
        self.assertIsNotNone(self.pod("a-2"))
        self.api.remove("/api/v1/nodes", "x-n0")
        self.assertTrue(wait_for(lambda: self.pod("a-2") is None))

    def test_the_brake_holds_a_job_that_is_planned_again(self):
        self.world(1)
        self.add_silent("x-n0", "x-n1")
        self.start(unschedulable=500, brake=10)
        names = self.add_gang("a", 2, 16)
        self.wait_lifted(*names)
        for name in names:
            self.refuse(name)
        self.assertTrue(wait_for(lambda: "no pod is evicted: 2 of the 6 nodes" in self.host.job("ns/Job/a")["text"]), self.host.job("ns/Job/a"))
        time.sleep(1)
        self.assertEqual(self.api.evicted, [])
        self.api.remove("/api/v1/nodes", "x-n0")
        self.assertTrue(wait_for(lambda: sorted(self.api.evicted) == names), self.host.job("ns/Job/a"))

    def test_refusal_is_told_as_long_as_it_stands(self):
        self.world(1)
        self.start(unschedulable=500)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        self.bind("a-0")
        pod = self.pod("a-3")
        def say(reason):
            self.add_pod("a-3", {k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {"status": {
                **pod["status"], "conditions": [{
                    "type": "PodScheduled", "status": "False", "reason": reason, "message": "x"}]}})
        say("Unschedulable")
        self.assertTrue(wait_for(lambda: (self.condition("a-3") or {}).get("reason") == "PlanRefused"))
        for _ in range(10):
            self.assertEqual(self.host.job("ns/Job/a")["state"], "plan-lost")
            time.sleep(0.15)
        counters = self.host.counters()
        self.assertEqual((counters["lost"], counters["jobs"]["plan-lost"]), (1, 1))
        say("Other")
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["state"] == "placed"))

    def test_stalled_job_says_so(self):
        """Some pods run, others are refused: the phase is not Placed, and the scheduler's own words are there."""
        self.world(1)
        self.start(unschedulable=200)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        for name in names[:2]:
            self.bind(name)
        self.refuse("a-3", "0/4 nodes are available: 4 node(s) didn't have free ports")
        self.assertTrue(wait_for(lambda: self.status().get("phase") == "Stalled"), self.status())
        status = self.status()
        self.assertEqual(status["reason"], "PlanRefused")
        for words in ("1 of its 4 pods", "a-3", "didn't have free ports", "pods of it have run"):
            self.assertIn(words, status["message"])
        self.assertIn("didn't have free ports", self.condition("a-3")["message"])
        self.assertEqual(self.api.evicted, [])
        self.refuse("a-3", None)
        self.assertTrue(wait_for(lambda: self.status().get("phase") == "Placed"), self.status())

    def test_job_that_has_not_run_is_planned_again(self):
        """As a whole, away from the refused node, after a pause that grows; its owner creates the pods again."""
        self.world(2)
        self.start(unschedulable=200, eviction=400)
        names = self.add_gang("a", 4, 32)
        for times in (1, 2):
            self.wait_lifted(*names)
            refused = planned_node(self.pod("a-3"))
            self.refuse("a-3")
            self.assertTrue(wait_for(lambda: sorted(self.api.evicted) == names), self.api.evicted)
            self.api.evicted.clear()
            for name in names:
                self.end(name)
                self.add_pod(name, indexed_pod("a", int(name[-1]), group=32))
            self.assertTrue(wait_for(lambda: (self.condition("a-0") or {}).get("reason") == "PlannedAgain"))
            self.assertIn(f"for the {times}. time", self.condition("a-0")["message"])
            if times == 1:
                self.wait_lifted(*names)
                self.assertNotIn(refused, {planned_node(self.pod(name)) for name in names})
                self.assertEqual(self.status()["phase"], "Placed")
        self.assertTrue(wait_for(lambda: self.condition("a-0")["reason"] != "PlannedAgain"))
        self.assertIn("its scheduler or kubelets have refused 2 nodes", self.condition("a-0")["message"])

    def test_planned_again_while_a_pod_has_a_gate(self):
        """Its state says what the gate waits for; once the others leave, that they do."""
        self.world(1)
        self.start(unschedulable=200)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        self.end("a-0")
        pod = indexed_pod("a", 0, group=32)
        pod["spec"]["schedulingGates"].append({"name": "example.com/other"})
        self.add_pod("a-0", pod)
        self.assertTrue(wait_for(lambda: (self.condition("a-0") or {}).get("reason") == "OtherGates"), self.pod("a-0"))
        self.api.budget = lambda name: "not now"
        self.refuse("a-3")
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["reason"] == "PlannedAgain"), self.host.job("ns/Job/a"))
        self.assertEqual(self.host.job("ns/Job/a")["state"], "plan-lost")
        self.api.budget = None
        self.assertTrue(wait_for(lambda: sorted(self.api.evicted) == names[1:]), self.api.evicted)

    def test_planned_again_once_all_refusing_nodes_are_known(self):
        """The scheduler refuses all pods, one after the other: the new plan has none of their nodes, and there is one."""
        self.world(1, nodes_each=8)
        self.start(unschedulable=2000, eviction=100)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        old = {planned_node(self.pod(name)) for name in names}
        for name in names:
            self.refuse(name, "0/8 nodes are available: 1 node(s) had a rule that nobody reads")
            time.sleep(0.1)
        self.assertTrue(wait_for(lambda: sorted(self.api.evicted) == names), self.api.evicted)
        for name in names:
            self.end(name)
            self.add_pod(name, indexed_pod("a", int(name[-1]), group=32))
        self.wait_lifted(*names)
        self.assertFalse(old & {planned_node(self.pod(name)) for name in names})

    def test_planned_again_although_some_get_no_verdict(self):
        """The scheduler says nothing of the other pods: they are waited for twice as long as the first one was refused, no longer."""
        self.world(1, nodes_each=8)
        self.start(unschedulable=600, eviction=100)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        began = time.monotonic()
        self.refuse(names[0], "0/8 nodes are available: 1 node(s) had a rule that nobody reads")
        self.assertTrue(wait_for(lambda: sorted(self.api.evicted) == names), self.api.evicted)
        self.assertGreater(time.monotonic() - began, 1.1)

    def test_a_rule_is_not_met_node_by_node(self):
        """After the third refusal for the same reason, whatever the numbers in it, the pause is long."""
        self.world(3)
        self.start(unschedulable=200, eviction=100)
        names = self.add_gang("a", 4, 32)
        for times in (1, 2, 3):
            self.wait_lifted(*names)
            self.refuse("a-3", f"0/12 nodes are available: {times} node(s) had volume node affinity conflict, "
                               f"{12 - times} node(s) didn't match Pod's node affinity/selector. preemption: 0/12 nodes are available.")
            self.assertTrue(wait_for(lambda: sorted(self.api.evicted) == names), self.api.evicted)
            self.api.evicted.clear()
            for name in names:
                self.end(name)
                self.add_pod(name, indexed_pod("a", int(name[-1]), group=32))
        self.assertTrue(wait_for(lambda: "always the same" in (self.condition("a-0") or {}).get("message", "")), self.condition("a-0"))
        self.assertTrue(self.condition("a-0")["message"].endswith("not tried now: node(s) had volume node affinity conflict"),
                        self.condition("a-0"))
        time.sleep(2)
        self.assertFalse(self.is_lifted("a-0"))

    def reject(self, name, reason="TopologyAffinityError", ago_s=0):
        """As the kubelet of its planned node does."""
        node = planned_node(self.pod(name))
        self.change_pod(name, spec={**self.pod(name)["spec"], "nodeName": node}, status={
            "phase": "Failed", "reason": reason, "message": "Pod was rejected",
            "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago_s))})
        return node

    def refuse_by_kubelet(self, name, reason="TopologyAffinityError"):
        node = self.reject(name, reason)
        self.assertTrue(wait_for(lambda: any(e.get("reason") == "RefusedByKubelet" and f"the kubelet of node {node} refuses pod {name} ({reason})"
                                             in e.get("note", "") for e in self.events())), self.events())
        return node

    def test_nodes_whose_kubelets_refuse_pods_are_left_out(self):
        """Each time for the next pod; after the third one the job waits, and says why."""
        self.world(2)
        self.start(unschedulable=200)
        reasons = ("TopologyAffinityError", "UnexpectedAdmissionError", "OutOfmetax-tech.com/gpu")
        seen = set()
        self.add_gang("a", 1, 8)
        for reason in reasons:
            self.wait_lifted("a-0")
            node = planned_node(self.pod("a-0"))
            self.assertNotIn(node, seen)
            seen.add(node)
            self.refuse_by_kubelet("a-0", reason)
            self.api.remove(PODS, "a-0")
            self.add_pod("a-0", indexed_pod("a", 0, group=8))
        self.assertTrue(wait_for(lambda: (self.condition("a-0") or {}).get("reason") == "RefusedByKubelet"), self.condition("a-0"))
        self.assertIn("kubelets have refused 3 of its pods within 10 minutes", self.condition("a-0")["message"])
        self.assertFalse(self.is_lifted("a-0"))

    def test_refusals_are_known_after_a_restart(self):
        """From the objects of those pods, also of one that was refused meanwhile; but not for ever."""
        self.world(2)
        self.start(unschedulable=200)
        refused, old = [], "old-0"
        self.add_gang("old", 1, 8)
        for number in range(3):
            name = f"a-{number}"
            self.add_pod(name, indexed_pod("a", 0, group=8))
            self.wait_lifted(name)
            refused.append(planned_node(self.pod(name)))
            if number < 2:
                self.refuse_by_kubelet(name)
            self.wait_lifted(old)
            self.host.kill()
            if number == 2:
                self.reject(name)
            self.reject(old, ago_s=601)
            self.start(unschedulable=200)
            old = f"old-{number + 1}"
            self.add_pod(old, indexed_pod("old", 0, group=8))
        self.wait_lifted(old)
        self.assertEqual(len(set(refused)), 3, refused)
        self.add_pod("a-3", indexed_pod("a", 0, group=8))
        self.assertTrue(wait_for(lambda: (self.condition("a-3") or {}).get("reason") == "RefusedByKubelet"), self.condition("a-3"))
        self.assertIn("kubelets have refused 3 of its pods within 10 minutes", self.condition("a-3")["message"])
        self.assertFalse(self.is_lifted("a-3"))

    def test_refusals_are_counted_once(self):
        """However often their objects are listed; and also those of pods that came and were refused between two lists."""
        self.world(2)
        self.start(unschedulable=200)
        self.wait_lifted(*self.add_gang("a", 2, 8))
        self.bind("a-1")
        plan = self.pod("a-0")["metadata"]["annotations"]
        self.refuse_by_kubelet("a-0")
        said = lambda: {e["note"] for e in self.events() if e.get("reason") == "RefusedByKubelet"}
        for count in range(3):
            self.api.stop()
            self.change_pod("a-0", metadata={"labels": {**self.pod("a-0")["metadata"]["labels"], "seen": str(count)}})
            if count == 2:
                self.add_pod("a-2", indexed_pod("a", 0, group=8, gated=False))
                self.change_pod("a-2", metadata={"annotations": plan})
                self.reject("a-2")
            self.api.compact()
            self.api.start()
            self.add_pod(f"other-{count}", indexed_pod(f"other-{count}", 0, group=8))
            self.add_job(f"other-{count}", 1, 8)
            self.wait_lifted(f"other-{count}")  # it has listed them
        self.add_pod("a-3", indexed_pod("a", 0, group=8))
        self.wait_lifted("a-3")
        self.refuse_by_kubelet("a-3")
        self.assertEqual(len(said()), 3, said())
        self.add_pod("a-4", indexed_pod("a", 0, group=8))
        self.assertTrue(wait_for(lambda: (self.condition("a-4") or {}).get("reason") == "RefusedByKubelet"), self.condition("a-4"))

    def test_after_a_refusal_few_pods_begin_at_once(self):
        """Four successors after one refusal: two begin, and the other two when kubelets have taken those."""
        self.world(3)
        self.start(unschedulable=60000)
        names = self.add_gang("a", 6, 8)
        self.wait_lifted(*names)  # the first time all begin together
        for name in names[1:]:
            self.bind(name)
        refused = self.refuse_by_kubelet(names[0])
        for name in names[1:4]:
            self.end(name)
        self.api.remove(PODS, names[0])
        for i in range(4):
            self.add_pod(names[i], indexed_pod("a", i, group=8))
        lifted = lambda: [name for name in names[:4] if self.is_lifted(name)]
        self.assertTrue(wait_for(lambda: len(lifted()) == 2), lifted())
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") == "RefusedByKubelet"), self.host.job("ns/Job/a"))
        time.sleep(1.5)  # longer than a retry
        begun = lifted()
        self.assertEqual(len(begun), 2, begun)
        for name in begun:
            self.assertNotEqual(planned_node(self.pod(name)), refused)
            self.bind(name)
        self.wait_lifted(*names)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["state"] == "placed"), self.host.job("ns/Job/a"))

    def test_after_a_refusal_no_pod_is_made_with_its_plan(self):
        """It would begin at once, however many others do."""
        self.world(2)
        self.start(unschedulable=60000, missing=60000, **{"return": 60000})
        names = self.add_gang("a", 4, 8)
        self.wait_lifted(*names)
        for name in names[:3]:
            self.bind(name)
        for name in names[1:3]:
            self.end(name)

        def made(index):
            pod = indexed_pod("a", index, group=8, gated=False)
            return apply_patch(pod, self.review("mutate", pod)[1])
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 16), self.host.counters())
        self.assertFalse(gates(made(1)))
        self.refuse_by_kubelet(names[3])
        self.assertTrue(gates(made(2)))

    def test_a_scheduler_that_waits_for_more_gets_them_after_a_refusal(self):
        """It starts together what no PodGroup says here: pods that it does not take are on the way to no kubelet."""
        self.world(3)
        self.start(unschedulable=60000)
        names = self.add_gang("a", 6, 8)
        self.wait_lifted(*names)
        for name in names[4:]:
            self.bind(name)
        self.refuse_by_kubelet(names[0])
        for name in names[1:4]:
            self.end(name)
        self.api.remove(PODS, names[0])
        for i in range(4):
            self.add_pod(names[i], indexed_pod("a", i, group=8))
        told = set()
        while len(told) < 4:
            self.assertTrue(wait_for(lambda: any(self.is_lifted(name) for name in names[:4] if name not in told)), told)
            for name in names[:4]:
                if name not in told and self.is_lifted(name):
                    self.refuse(name, "3 of 4 pods are not there")
                    told.add(name)

    def test_pods_that_begin_together_do_so_after_a_refusal(self):
        """The scheduler takes none of a PodGroup of Kubernetes while another one has a gate."""
        self.world(3)
        self.start(unschedulable=60000)
        names = self.add_gang("a", 5, 8)
        self.wait_lifted(*names)
        self.refuse_by_kubelet(names[0])
        self.refuse_by_kubelet(names[1])
        for name in names[2:]:
            self.end(name)
        for name in names[:2]:
            self.api.remove(PODS, name)
        for i in range(5):
            pod = indexed_pod("a", i, group=8)
            pod["spec"]["schedulingGroup"] = {"podGroupName": "a"}
            self.add_pod(names[i], pod)
        self.wait_lifted(*names)

    def test_pods_that_a_pod_group_lacks_begin_after_a_refusal(self):
        """Its scheduler starts four together, and one runs: of nine successors three begin."""
        self.world(4)
        self.api.add(POD_GROUPS, "pg", spec={"minMember": 4, "queue": "q"}, status={"phase": "Inqueue"})
        self.start(unschedulable=60000)
        self.add_job("a", 10, 8)
        names = [f"a-{i}" for i in range(10)]

        def make(index):
            pod = indexed_pod("a", index, group=8)
            pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "pg"
            self.add_pod(names[index], pod)
        for index in range(10):
            make(index)
        self.wait_lifted(*names)
        for name in names[1:]:
            self.bind(name)
        self.refuse_by_kubelet(names[0])
        for name in names[2:]:
            self.end(name)
        self.api.remove(PODS, names[0])
        for index in (0, *range(2, 10)):
            make(index)
        lifted = lambda: [name for name in names if name != "a-1" and self.is_lifted(name)]
        self.assertTrue(wait_for(lambda: len(lifted()) >= 3), lifted())
        time.sleep(1.5)  # longer than a retry
        begun = lifted()
        self.assertEqual(len(begun), 3, begun)  # minMember 4, and one runs
        for name in begun:  # the scheduler has them all the same
            self.refuse(name)
        self.assertTrue(wait_for(lambda: len(lifted()) > 3), lifted())
        time.sleep(1.5)
        self.assertEqual(len(lifted()), 5, lifted())  # and two more may be on their way

    def test_planning_again_does_not_use_up_a_job(self):
        """Its controller would count four more failed pods."""
        self.world(2)
        self.start(unschedulable=200)
        names = self.add_gang("a", 4, 32, backoffLimit=3)
        self.wait_lifted(*names)
        self.refuse("a-3")
        self.assertTrue(wait_for(lambda: self.status().get("phase") == "Stalled"), self.status())
        self.assertIn("backoffLimit", self.status()["message"])
        self.add_job("a", 4, 32, backoffLimit=3, podFailurePolicy={"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]})
        self.assertTrue(wait_for(lambda: sorted(self.api.evicted) == names), self.api.evicted)

    def test_nothing_is_held_for_a_refused_pod(self):
        self.world(1)
        self.start(unschedulable=500)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        for name in names[:3]:
            self.bind(name)
        other = self.add_gang("other", 1, 8)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/other").get("state") == "waits"))
        pod = self.pod("a-3")
        self.add_pod("a-3", {k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {"status": {
            "phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                                "message": "too few CPUs"}]}})
        self.wait_lifted(*other)
        self.assertEqual(planned_node(self.pod("other-0")), planned_node(pod))
        self.assertEqual(self.host.job("ns/Job/a")["state"], "plan-lost")
        self.host.kill()  # nor does the next leader hold it, or tell it again
        self.start(unschedulable=500)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("state") == "plan-lost"))
        self.assertEqual((self.host.counters()["lost"], self.condition("a-3")["reason"]), (0, "PlanRefused"))
        self.assertEqual(self.host.job("ns/Job/other")["state"], "placed")

    def test_bound_before_the_answer_to_the_write(self):
        """The watch may tell of a lifted pod that is bound already before the answer is read: it counts, once."""
        self.world(1)
        self.start()
        self.api.fail(Silence(), times=1, method="PATCH", path="/a-0$")
        self.add_gang("a", 1, 8)
        self.assertTrue(wait_for(lambda: self.api.asked(method="PATCH", path=f"{PODS}/a-0")))  # not that of the object
        pod = indexed_pod("a", 0, group=8, gated=False)
        self.add_pod("a-0", {**pod, "spec": {**pod["spec"], "nodeName": "s0-n0"}})
        self.assertTrue(wait_for(lambda: self.host.counters()["writesWaiting"] == 0))
        counters = self.host.counters()
        self.assertEqual((counters["podsPlanned"], counters["podsLifted"]), (1, 1))

    def test_scheduler_refuses_a_planned_pod(self):
        self.world(1)
        self.start(recreate=1, unschedulable=500)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        pod = self.pod("a-3")
        self.add_pod("a-3", {k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {"status": {
            **pod["status"], "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "too few CPUs"}]}})
        self.assertIsNotNone(self.pod("a-3"))
        self.assertTrue(wait_for(lambda: self.pod("a-3") is None))
        self.assertTrue(wait_for(lambda: self.host.counters()["recreated"] == 1))

    def refuse(self, name, message="too few CPUs"):
        """`message` None: no longer."""
        pod = self.pod(name)
        self.add_pod(name, {k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {"status": {
            **pod["status"], "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                             "message": message}] if message else []}})

    def test_refused_node_is_not_chosen_again(self):
        """Also where all of the job's pods go: nothing but its name is left."""
        self.world(1)
        self.start(recreate=1, unschedulable=100)
        seen = []
        for _ in self.nodes:
            self.add_gang("a", 1, 8)
            self.wait_lifted("a-0")
            seen.append(planned_node(self.pod("a-0")))
            self.refuse("a-0")
            self.assertTrue(wait_for(lambda: self.pod("a-0") is None))
        self.assertEqual(sorted(seen), self.nodes)
        self.add_gang("a", 1, 8)
        self.assertTrue(wait_for(lambda: self.condition("a-0")))
        self.assertIn("its scheduler or kubelets have refused 4 nodes", self.condition("a-0")["message"])
        self.wait_lifted(*self.add_gang("other", 1, 8))  # who may have other wants

    def test_refused_node_is_tried_again_when_a_pod_leaves_it(self):
        """What the node lacked may be what that pod had."""
        self.world(1, 1)
        self.start(recreate=1, unschedulable=100)
        self.add_pod("guest", {"metadata": {}, "spec": pod_spec(4, gated=False)})
        self.run_on("guest", "s0-n0", [0, 1, 2, 3])
        self.wait_lifted(*self.add_gang("a", 1, 4, gpus=4))
        self.refuse("a-0")
        self.assertTrue(wait_for(lambda: self.pod("a-0") is None))
        self.add_gang("a", 1, 4, gpus=4)
        self.assertTrue(wait_for(lambda: self.condition("a-0")))
        self.assertIn("its scheduler or kubelets have refused 1 node", self.condition("a-0")["message"])
        self.end("guest")
        self.wait_lifted("a-0")

    def test_refused_node_is_not_come_home_to(self):
        self.world(1, nodes_each=5)
        self.start(recreate=1, unschedulable=100)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
        for name in names[:3]:
            self.bind(name)
        first = planned_node(self.pod("a-3"))
        self.refuse("a-3")
        self.assertTrue(wait_for(lambda: self.pod("a-3") is None))
        self.add_pod("a-3", indexed_pod("a", 3, group=32))
        self.wait_lifted("a-3")
        self.assertNotEqual(planned_node(self.pod("a-3")), first)


if __name__ == "__main__":
    side_by_side.main()
