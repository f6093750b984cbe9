#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The placement controller against the double of the API server.

Usage: test_placement.py PLACEMENT_HOST [unittest arguments]
"""

import json
import threading
import time
import unittest

from api_double import Silence, Status
from daemon_driver import PATIENCE, wait_for
from placement_case import JOBS, PODS, TOPOLOGIES, PlacementCase
from placement_driver import (ATOMIC, GATE, GROUP, PLAN, gates, indexed_pod, planned_node, pod_spec, pytorch_pod,
                              replica, required_nodes, statefulset_pod, template, topology)

REPLICASETS = "/apis/apps/v1/namespaces/ns/replicasets"
SETS = "/apis/apps/v1/namespaces/ns/statefulsets"
PYTORCH = "/apis/kubeflow.org/v1/namespaces/ns/pytorchjobs"


class PlacementTest(PlacementCase):
    # the way of a gang

    def test_gang_is_planned_written_and_lifted(self):
        self.world(2)
        self.start()
        names = self.add_gang("a", 8, 32)
        self.wait_lifted(*names)
        supernodes = []
        for index, name in enumerate(names):
            pod = self.pod(name)
            annotations = pod["metadata"]["annotations"]
            node = annotations[PLAN + "node"]
            self.assertEqual(required_nodes(pod), [[node]])
            self.assertEqual(pod["status"], {"phase": "Pending"})
            self.assertEqual(annotations[PLAN + "rank"], str(index))
            self.assertEqual(annotations[PLAN + "unit"], str(index // 4))
            self.assertEqual([annotations[PLAN + key] for key in ("unit-rank", "supernode", "tier")],
                             [str(index % 4), node.split("-")[0], "1"])
            self.assertEqual(json.loads(annotations[PLAN + "gpus"]),
                             {"main": [f"GPU-{node}-{i}" for i in range(8)]})
            supernodes.append(node.split("-")[0])
        self.assertEqual(len({planned_node(self.pod(name)) for name in names}), 8)
        self.assertEqual(len(set(supernodes[:4])), 1)
        self.assertEqual(len(set(supernodes[4:])), 1)
        def counted():
            counters = self.host.counters()
            return counters["podsPlanned"], counters["podsLifted"], counters["writes"]
        self.assertTrue(wait_for(lambda: counted() == (8, 8, 9)), counted())  # one for the object; the last answer may be on its way
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["state"] == "placed"))
        self.assertIn("unit 0", self.host.job("ns/Job/a")["plan"])

    def test_one_request_a_pod(self):
        self.world(2)
        self.start()
        names = self.add_gang("a", 8, 32)
        self.wait_lifted(*names)
        patches = [r for r in self.api.asked(method="PATCH") if "/pods/" in r.path]
        self.assertEqual(sorted(r.path.partition("?")[0].rpartition("/")[2] for r in patches), names)
        for request in patches:
            body = json.loads(request.body)
            self.assertTrue(body["metadata"]["uid"] and body["metadata"]["resourceVersion"])
            self.assertEqual(sorted(body), ["metadata", "spec"])

    def test_other_schedulers_get_a_hint_before_the_gates_go(self):
        """Volcano looks at the nominated node alone."""
        self.world(2)
        self.start()
        names = self.add_gang("a", 8, 32, schedulerName="volcano")
        self.wait_lifted(*names)
        writes = [r for r in self.api.asked(method="PATCH") if "/pods/" in r.path]
        lifts = [i for i, r in enumerate(writes) if "/status" not in r.path]
        self.assertEqual(len(lifts), 8)
        hints = [r.path for r in writes[:lifts[0]] if b"nominatedNodeName" in r.body]
        for name in names:
            # A pod that came slowly was told why it waits before that: what counts is the write of the hint.
            self.assertTrue(any(f"/pods/{name}/status" in path for path in hints), hints)
            self.assertEqual(self.pod(name)["status"]["nominatedNodeName"], planned_node(self.pod(name)))
            self.assertEqual(self.condition(name)["reason"], "Planned")

    def test_hint_follows_a_new_plan(self):
        self.world(2)
        self.api.fail(Status(403, "not now"), times=10000, method="PATCH", path="/a-[0-9]$")
        self.start()
        names = self.add_gang("a", 4, 32, schedulerName="volcano")
        self.assertTrue(wait_for(lambda: self.host.counters()["writeFailures"] >= 4))
        unhealthy = self.pod("a-0")["status"]["nominatedNodeName"]
        self.api.add(TOPOLOGIES, unhealthy, status=topology(unhealthy, unhealthy=range(8)))
        self.api.faults.clear()
        self.wait_lifted(*names)
        for name in names:
            self.assertNotEqual(planned_node(self.pod(name)), unhealthy)
            self.assertEqual(self.pod(name)["status"]["nominatedNodeName"], planned_node(self.pod(name)))

    def test_plans_do_not_wait_behind_reasons(self):
        """While nobody answers the requests that tell why jobs wait, others are placed."""
        self.world(1)
        self.start()
        for i in range(40):
            self.add_gang(f"big{i}", 1, 64, gpus=64)
        silence = Silence()
        self.api.fail(silence, times=10000, method="PATCH", path="/status$")
        self.assertTrue(wait_for(lambda: self.host.counters()["jobs"]["waits"] == 40))
        self.wait_lifted(*self.add_gang("small", 4, 32))
        self.assertGreater(self.host.counters()["writesWaiting"], 20)

    def test_manual_pytorch_job_annotated_on_its_master_only(self):
        self.world(2)
        self.start()
        self.api.add(PYTORCH, "demo", spec={"pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": template(8, 32)}, "Worker": {"replicas": 7, "template": template()}}})
        for i in range(7):  # the master comes last
            self.add_pod(f"demo-worker-{i}", pytorch_pod("demo", "worker", i))
        time.sleep(0.1)
        self.add_pod("demo-master-0", pytorch_pod("demo", "master", 0))
        names = ["demo-master-0", *(f"demo-worker-{i}" for i in range(7))]
        self.wait_lifted(*names)
        for rank, name in enumerate(names):
            self.assertEqual(self.pod(name)["metadata"]["annotations"][PLAN + "rank"], str(rank))
        for unit in (names[:4], names[4:]):
            self.assertEqual(len({planned_node(self.pod(n)).split("-")[0] for n in unit}), 1)

    def test_pods_that_come_late_find_their_places(self):
        self.world(2)
        self.start(gang=400)
        self.add_job("late", 8, 32)
        early = [f"late-{i}" for i in range(3)]
        for i in range(3):
            self.add_pod(early[i], indexed_pod("late", i, group=32))
        self.wait_lifted(*early)  # after the time that a gang is waited for
        self.assertEqual(self.host.counters()["reservedGPUs"], 40)
        other = self.add_gang("other", 1, 8)  # no room is left
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/other").get("state") == "waits"))
        for i in range(3, 8):
            self.add_pod(f"late-{i}", indexed_pod("late", i, group=32))
        names = [f"late-{i}" for i in range(8)]
        self.wait_lifted(*names)
        self.assertEqual(len({planned_node(self.pod(n)) for n in names}), 8)
        self.assertEqual(len({planned_node(self.pod(n)).split("-")[0] for n in names[:4]}), 1)
        self.assertIn("unit 1", self.host.job("ns/Job/late")["plan"])
        self.assertFalse(self.is_lifted(*other))

    def test_statefulset_pods_one_after_the_other(self):
        self.world(2)
        self.start()
        self.api.add(SETS, "set", spec={"replicas": 4, "template": template(8, 32)})
        for i in range(4):
            self.add_pod(f"set-{i}", statefulset_pod("set", i))
            self.wait_lifted(f"set-{i}")
            self.bind(f"set-{i}")
            if i == 0:  # who comes now must not get what is kept for the rest
                self.assertEqual(self.host.counters()["reservedGPUs"], 24)
                self.wait_lifted(*self.add_gang("other", 4, 32))
        places = [planned_node(self.pod(f"set-{i}")) for i in range(4)]
        self.assertEqual(len(set(places)), 4)
        self.assertEqual(len({p.split("-")[0] for p in places}), 1)
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 0))

    def test_statefulset_that_does_not_start_at_zero(self):
        self.world(1)
        self.start()
        self.api.add(SETS, "set", spec={"replicas": 4, "ordinals": {"start": 5}, "podManagementPolicy": "Parallel",
                                        "template": template(8, 32)})
        names = [f"set-{i}" for i in range(5, 9)]
        for i, name in enumerate(names):
            self.add_pod(name, statefulset_pod("set", i + 5))
        self.wait_lifted(*names)
        self.assertEqual([self.pod(n)["metadata"]["annotations"][PLAN + "rank"] for n in names], ["0", "1", "2", "3"])

    def test_statefulset_places_end_when_nobody_comes(self):
        self.world(1)
        self.start(reserve=8000)
        self.api.add(SETS, "set", spec={"replicas": 4, "template": template(8, 32)})
        self.add_pod("set-0", statefulset_pod("set", 0))
        self.wait_lifted("set-0")
        self.bind("set-0")
        self.assertEqual(self.host.counters()["reservedGPUs"], 24)
        other = self.add_gang("other", 2, 16)
        time.sleep(1)
        self.assertFalse(self.is_lifted("other-0"))
        self.wait_lifted(*other)
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)
        for name in other:
            self.bind(name)
        time.sleep(1.5)  # nor are they kept again by and by
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)
        self.add_pod("set-1", statefulset_pod("set", 1))  # who comes waits until the rest of its unit fits, too
        self.assertTrue(wait_for(lambda: self.condition("set-1")))
        self.assertEqual(self.condition("set-1")["reason"], "UnitStuck")
        for name in other:
            self.end(name)
        self.wait_lifted("set-1")
        self.assertEqual(self.host.counters()["reservedGPUs"], 16)

    def test_statefulset_keeps_no_more_than_it_may(self):
        self.world(4)
        self.start(reservegpus=32)
        self.api.add(SETS, "set", spec={"replicas": 16, "template": template(8, 32)})
        for i in range(5):
            self.add_pod(f"set-{i}", statefulset_pod("set", i))
            self.wait_lifted(f"set-{i}")
            self.bind(f"set-{i}")
            # the rest of the unit that has begun, and one unit ahead
            self.assertTrue(wait_for(lambda n=i: self.host.counters()["reservedGPUs"] == 24 - n % 4 * 8 + 32),
                            (i, self.host.counters()))
        self.assertEqual(len({planned_node(self.pod(f"set-{i}")).split("-")[0] for i in range(4)}), 1)

    def test_a_namespace_reserves_no_more_than_it_may(self):
        """A wide job of which one pod is there holds nothing; it is planned when enough of them are."""
        self.world(5)
        self.start(namespacegpus=64)
        self.add_job("wide", 128, 8, gpus=1)
        def add(pods):
            for i in pods:
                self.add_pod(f"wide-{i}", indexed_pod("wide", i, gpus=1, group=8))
        add(range(1))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/wide").get("reason") == "ReserveLimit"))
        self.assertEqual(self.host.job("ns/Job/wide")["text"],
                         "1 of its 128 pods are there, and 127 GPUs would be reserved for the others; its namespace may "
                         "have 64 GPUs reserved for pods that do not exist, and has 0")
        self.assertTrue(wait_for(lambda: self.condition("wide-0")))
        self.assertEqual(self.condition("wide-0")["reason"], "ReserveLimit")
        other = self.add_gang("other", 4, 32)
        self.wait_lifted(*other)
        for name in other:
            self.bind(name)
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)
        add(range(1, 63))
        self.assertFalse(self.is_lifted("wide-0"))
        for name in other:
            self.end(name)
        add(range(63, 64))
        self.wait_lifted(*(f"wide-{i}" for i in range(64)))
        self.assertEqual(self.host.counters()["reservedGPUs"], 64)
        self.add_job("next", 2, 8)  # all is taken
        self.add_pod("next-0", indexed_pod("next", 0, group=8))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/next").get("reason") == "ReserveLimit"))
        add(range(64, 128))
        self.wait_lifted("next-0", *(f"wide-{i}" for i in range(128)))

    def test_statefulset_has_one_unit_whatever_the_limit(self):
        self.world(2)
        self.start(namespacegpus=8)
        for name in ("one", "two"):
            self.api.add(SETS, name, spec={"replicas": 8, "template": template(8, 16)})
        for i in range(4):
            self.add_pod(f"one-{i}", statefulset_pod("one", i))
            self.wait_lifted(f"one-{i}")
            self.bind(f"one-{i}")
            if i < 3:  # then `two` has what `one` needs no more
                self.assertTrue(wait_for(lambda n=i: self.host.counters()["reservedGPUs"] == 8 - n % 2 * 8), self.host.counters())
            if i == 2:
                self.add_pod("two-0", statefulset_pod("two", 0))
                self.assertTrue(wait_for(lambda: self.host.job("ns/StatefulSet/two").get("reason") == "ReserveLimit"))
        self.wait_lifted("two-0")

    def test_statefulset_place_outlives_a_restart(self):
        self.world(1)
        self.start()
        self.api.add(SETS, "set", spec={"replicas": 4, "template": template(8, 32)})
        self.add_pod("set-0", statefulset_pod("set", 0))
        self.wait_lifted("set-0")
        self.bind("set-0")
        self.host.kill()
        self.start()
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 24))
        self.add_gang("other", 1, 8)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/other").get("state") == "waits"))
        self.add_pod("set-1", statefulset_pod("set", 1))
        self.wait_lifted("set-1")

    # waiting

    def test_waiting_job_says_why_and_comes_in_when_there_is_room(self):
        self.world(2)
        self.start()
        first = self.add_gang("first", 4, 32)
        self.wait_lifted(*first)
        for name in first:
            self.bind(name)
        second = self.add_gang("second", 8, 32)
        self.assertTrue(wait_for(lambda: self.condition("second-0")))
        condition = self.condition("second-0")
        self.assertEqual((condition["status"], condition["reason"]), ("False", "TooFewGPUs"))
        self.assertIn("GPUs", condition["message"])
        self.assertEqual(self.host.job("ns/Job/second")["state"], "waits")
        self.assertFalse(any(planned_node(self.pod(n)) for n in second))
        events = "/apis/events.k8s.io/v1/namespaces/ns/events"
        self.assertTrue(wait_for(lambda: [r for r in self.api.asked(method="POST", path=events)
                                          if json.loads(r.body)["reason"] == "TooFewGPUs"]))
        for name in first:
            self.end(name)
        self.wait_lifted(*second)
        self.assertEqual(self.condition("second-0")["status"], "True")

    def test_reason_is_told_though_the_pod_has_changed_meanwhile(self):
        """And soon: texts that are told already are renewed once a minute."""
        self.world(1)
        self.api.fail(Status(409, "it has changed"), times=1, method="PATCH", path="/a-0/status$")
        self.start()
        self.add_gang("a", 1, 64, gpus=64)
        self.assertTrue(wait_for(lambda: self.condition("a-0"), 30))
        self.assertEqual(self.host.counters()["conflicts"], 1)

    def test_five_gangs_where_two_fit(self):
        self.world(2)
        self.start()
        gangs = {name: self.add_gang(name, 4, 32) for name in "abcde"}
        self.assertTrue(wait_for(lambda: sum(self.is_lifted(*pods) for pods in gangs.values()) == 2))
        time.sleep(0.5)
        lifted = [name for name, pods in gangs.items() if self.is_lifted(*pods)]
        waiting = [name for name in gangs if name not in lifted]
        self.assertEqual(len(lifted), 2)
        for name in waiting:  # none is half placed
            self.assertFalse(any(planned_node(self.pod(pod)) for pod in gangs[name]))
            self.assertTrue(wait_for(lambda n=name: self.condition(f"{n}-0")), name)
        for name in lifted:
            for pod in gangs[name]:
                self.bind(pod)
        for name in lifted:
            for pod in gangs[name]:
                self.end(pod)
        self.assertTrue(wait_for(lambda: sum(self.is_lifted(*gangs[n]) for n in waiting) == 2))

    def test_priority_goes_before_age(self):
        self.world(1)
        self.start()
        held = self.add_gang("held", 4, 32)
        self.wait_lifted(*held)
        for name in held:
            self.bind(name)
        old = self.add_gang("old", 4, 32)
        high = self.add_gang("high", 4, 32, priority=100)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/high").get("place") == 0))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/old").get("place") == 1))
        for name in held:
            self.end(name)
        self.wait_lifted(*high)
        time.sleep(0.3)
        self.assertFalse(self.is_lifted(*old))

    def test_namespaces_take_turns(self):
        """A namespace's fifty waiting jobs do not delay the first one of another, which came last."""
        self.world(1)
        self.start(**{"return": 300})
        held = self.add_gang("held", 4, 32)
        self.wait_lifted(*held)
        for name in held:
            self.bind(name)
        for i in range(50):
            self.add_gang(f"many{i}", 1, 8)
        self.assertTrue(wait_for(lambda: self.host.counters()["jobs"]["waits"] == 50))
        jobs, pods = (path.replace("/ns/", "/other/") for path in (JOBS, PODS))
        self.api.add(jobs, "first", spec={"completionMode": "Indexed", "completions": 1, "parallelism": 1,
                                          "template": template(8, 8)})
        pod = indexed_pod("first", 0, gpus=8, group=8)
        pod["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
        self.api.add(pods, "first-0", **{"status": {"phase": "Pending"}, **pod})
        self.assertTrue(wait_for(lambda: self.host.job("other/Job/first").get("place") == 0),
                        self.host.job("other/Job/first"))
        self.end(held[0])
        self.assertTrue(wait_for(lambda: self.host.job("other/Job/first")["state"] == "placed"))
        self.assertEqual(self.host.counters()["jobs"]["waits"], 50)
        # one of this namespace's is next, though it holds more: nobody else waits
        self.end(held[1])
        self.assertTrue(wait_for(lambda: self.host.counters()["jobs"]["waits"] == 49))

    def test_big_job_does_not_starve(self):
        """Small jobs follow one another on every node; a job that needs both supernodes waits."""
        self.world(2, nodes_each=2)
        self.start(patience=500, percent=100)
        small = {}
        for i in range(4):
            small[f"small{i}"] = self.add_gang(f"small{i}", 1, 8)[0]
        self.wait_lifted(*small.values())
        for name in small.values():
            self.bind(name)
        big = self.add_gang("big", 4, 16)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/big").get("holds")))
        self.assertEqual(self.host.counters()["reservedNodes"], 4)
        for i in range(4, 8):  # as each ends, the next stands ready
            self.add_gang(f"small{i}", 1, 8)
            self.end(small[f"small{i - 4}"])
        self.wait_lifted(*big)
        self.assertFalse(any(self.is_lifted(f"small{i}-0") for i in range(4, 8)))
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedNodes"] == 0))
        for name in big:
            self.bind(name)
        for name in big:
            self.end(name)
        self.wait_lifted(*(f"small{i}-0" for i in range(4, 8)))

    # rules

    def test_broken_rule_is_said_and_others_go_on(self):
        self.world(2)
        self.start()
        self.add_job("bad", 4, 20)
        for i in range(4):
            self.add_pod(f"bad-{i}", indexed_pod("bad", i, group=20))
        self.assertTrue(wait_for(lambda: self.condition("bad-0")))
        self.assertEqual((self.condition("bad-0")["reason"], self.condition("bad-0")["message"]),
                         ("RuleBroken", "gpu-group-size 20 is not a multiple of the pod's 8 GPUs"))
        self.wait_lifted(*self.add_gang("good", 4, 32))
        self.assertEqual(self.host.job("ns/Job/bad")["state"], "refused")
        self.assertFalse(self.is_lifted("bad-0"))

    def test_thousand_pods_that_contradict_each_other(self):
        self.world(2)
        self.start()
        for i in range(1000):
            self.add_pod(f"bad-{i}", indexed_pod("bad", i, group=8 if i % 2 else 16))
        self.wait_lifted(*self.add_gang("good", 4, 32))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/bad").get("state") == "refused"))
        self.assertIn("differs within the job", self.host.job("ns/Job/bad")["text"])

    def test_few_pods_of_a_huge_job(self):
        """A look costs by the pods that the job will have, and each pod that comes asks for one: the fewer it gets."""
        self.world(1)
        self.start(namespacegpus=10000000)
        self.add_job("huge", 131072, 8)
        self.add_pod("huge-0", indexed_pod("huge", 0, group=8))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/huge").get("state") == "waits"))
        before = self.host.counters()["reconciles"]
        for i in range(1, 101):
            self.add_pod(f"huge-{i}", indexed_pod("huge", i, group=8))
            self.host.counters()
            time.sleep(0.01)
        self.assertLess(self.host.counters()["reconciles"] - before, 50)

    # who is not concerned

    def test_pods_without_the_annotation_are_never_touched(self):
        self.world(2)
        self.start()
        self.add_job("plain", 2)
        for i in range(2):
            self.add_pod(f"plain-{i}", indexed_pod("plain", i, gated=False))
        self.add_pod("alone", {"metadata": {"annotations": {ATOMIC: "8"}}, "spec": pod_spec(gated=False)})
        self.wait_lifted(*self.add_gang("good", 4, 32))
        asked = [r.path for r in self.api.asked(method="PATCH") if "plain" in r.path or "alone" in r.path]
        self.assertEqual(asked, [])

    def test_gate_without_a_group_goes_without_a_plan(self):
        self.world(1)
        self.start()
        self.add_job("plain", 2)
        names = ["plain-0", "plain-1"]
        for i in range(2):
            self.add_pod(names[i], indexed_pod("plain", i))
        self.wait_lifted(*names)
        self.assertIsNone(planned_node(self.pod("plain-0")))
        self.assertNotIn("affinity", self.pod("plain-0")["spec"])

    def test_gate_written_by_hand_on_single_pods(self):
        self.world(1)
        self.start()
        self.add_pod("alone", {"metadata": {"annotations": {GROUP: "8"}}, "spec": pod_spec()})
        self.wait_lifted("alone")
        self.assertEqual(required_nodes(self.pod("alone")), [[planned_node(self.pod("alone"))]])

    def test_other_gates_go_first(self):
        self.world(1)
        self.start()
        self.add_job("a", 2, 16)
        for i in range(2):
            self.add_pod(f"a-{i}", indexed_pod("a", i, group=16, schedulingGates=[{"name": "example.com/quota"}]))
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") == "OtherGates"))
        self.assertIsNone(planned_node(self.pod("a-0")))
        for i in range(2):
            self.add_pod(f"a-{i}", indexed_pod("a", i, group=16))
        self.wait_lifted("a-0", "a-1")

    def test_affinity_of_the_user_is_kept_and_obeyed(self):
        self.world(2)
        self.start()
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In",
                                        "values": [f"s1-n{i}" for i in range(4)]}]}]
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
                                     "preferredDuringSchedulingIgnoredDuringExecution": []},
                    "podAntiAffinity": {"x": 1}}
        names = self.add_gang("a", 4, 32, affinity=affinity)
        self.wait_lifted(*names)
        for name in names:
            pod = self.pod(name)
            self.assertTrue(planned_node(pod).startswith("s1-"))
            had = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            self.assertEqual(had["nodeSelectorTerms"][0]["matchExpressions"], terms[0]["matchExpressions"])
            self.assertEqual(required_nodes(pod), [[planned_node(pod)]])
            self.assertEqual(pod["spec"]["affinity"]["podAntiAffinity"], {"x": 1})
        more = self.add_gang("b", 4, 32, affinity=affinity)  # s0 is free, but may not be used
        self.assertTrue(wait_for(lambda: self.condition("b-0")))
        self.assertIn("exclude 4 nodes", self.condition("b-0")["message"])
        self.assertFalse(self.is_lifted(*more))

    # faults

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
        self.assertIn("ElasticJob", [note["job"] for note in self.host.notes])
        self.wait_lifted(*self.add_gang("a", 4, 32))

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
        self.end("x-a")  # succeeded: out of the informer's selection
        self.end("x-b")  # failed
        self.add_pod("x-e", made())
        self.wait_lifted("x-e")
        rank = self.pod("x-e")["metadata"]["annotations"][PLAN + "rank"]
        self.assertIn(rank, ("0", "1"))  # those that run keep theirs
        self.assertEqual(self.pod("x-e")["metadata"]["annotations"][PLAN + "unit"], "0")
        self.assertTrue(wait_for(lambda: self.host.job("ns/Owned/Job/x")["state"] == "placed"))

    def finish(self, job, done, group=16, pods=4, mode="Indexed", **status):
        """Some pods succeed: they leave the informer's selection, and the Job's status tells of them."""
        for name in done:
            self.end(name)
        self.api.add(JOBS, job, spec={"completionMode": mode, "completions": pods, "parallelism": pods,
                                      "template": template(8, group)}, status={"succeeded": len(done), **status})

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
        names = self.add_gang("a", 2, 16)
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

    def test_refusal_is_told_as_long_as_it_stands(self):
        self.world(1)
        self.start(unschedulable=500)
        names = self.add_gang("a", 4, 32)
        self.wait_lifted(*names)
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
        self.assertTrue(wait_for(lambda: self.host.counters()["writesWaiting"] == 1))
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

    def refuse(self, name):
        pod = self.pod(name)
        self.add_pod(name, {k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {"status": {
            **pod["status"], "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "too few CPUs"}]}})

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
        self.assertIn("its scheduler has refused 4 nodes", self.condition("a-0")["message"])
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
        self.assertIn("its scheduler has refused 1 node", self.condition("a-0")["message"])
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
    unittest.main(verbosity=2)
