#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The placement controller against the double of the API server: how jobs are planned, and what they wait for.

Usage: test_placement.py PLACEMENT_HOST [unittest arguments]
"""

import json
import time

import side_by_side
from api_double import Silence, Status
from daemon_driver import wait_for
from placement_case import JOBS, PODS, PYTORCH, SETS, TOPOLOGIES, PlacementCase
from placement_driver import (ATOMIC, GROUP, PLAN, indexed_pod, planned_node, pod_spec, pytorch_pod, required_nodes,
                              statefulset_pod, template, topology)


class PlacementTest(PlacementCase):
    # the way of a gang

    def test_a_job_that_has_to_lie_in_one_supernode(self):
        """It waits while no supernode holds all of it, though each of its units fits; and lies there when one does."""
        self.world(2)
        for i in range(2):
            self.add_pod(f"other-{i}", indexed_pod("other", i))
            self.run_on(f"other-{i}", f"s{i}-n0", range(8))
        self.start()
        self.api.add(JOBS, "a", metadata={"annotations": {"metax-tech.com/job-topology": "required=supernode"}}, spec={
            "completionMode": "Indexed", "completions": 4, "parallelism": 4, "template": template(8, 8)})
        names = [f"a-{i}" for i in range(4)]
        for i, name in enumerate(names):
            self.add_pod(name, indexed_pod("a", i, gpus=8, group=8))
        self.assertTrue(wait_for(lambda: (self.condition("a-0") or {}).get("reason") == "NoDomain"), self.condition("a-0"))
        self.assertRegex(self.condition("a-0")["message"], "the job must lie in one supernode .*s[01] lacks room for 1, s[01] lacks room for 1")
        self.end("other-1")
        self.wait_lifted(*names)
        self.assertEqual({planned_node(self.pod(name)).split("-")[0] for name in names}, {"s1"})

    def test_slow_gpus_are_left_and_said(self):
        """Node 0 has a slow GPU: the first job keeps off it, the second one cannot, and is told; the third one waits rather."""
        self.world(1)
        status = topology("s0-n0", 8)
        status["gpus"][3].update(grade="slow", gradeReason="memory bandwidth 70 %")
        self.api.add(TOPOLOGIES, "s0-n0", status=status)
        self.start()
        first = self.add_gang("a", 3, 24)
        self.wait_lifted(*first)
        pod = indexed_pod("never", 0, gpus=8, group=8)
        pod["metadata"]["annotations"]["metax-tech.com/slow-gpus"] = "never"
        self.add_job("never", 1, 8)
        self.add_pod("never-0", pod)
        self.assertTrue(wait_for(lambda: "slow or suspect, which it never takes" in (self.condition("never-0") or {}).get("message", "")),
                        self.condition("never-0"))
        second = self.add_gang("b", 1, 8)
        self.wait_lifted(*second)
        self.assertEqual({planned_node(self.pod(name)) for name in first}, {"s0-n1", "s0-n2", "s0-n3"})
        def said():
            return [event["note"] for event in self.events() if event["reason"] == "SlowGPUs"]
        self.assertTrue(wait_for(lambda: len(said()) == 2), self.events())  # of the pod and of the job
        self.assertEqual(set(said()), {"it runs at the pace of slow or suspect GPUs: GPU 3 of node s0-n0 (pod b-0). To be free of it, "
                                  "pods like b-0 need 8 GPUs that are not slow on a node of their supernode"})

    def test_who_takes_any_is_told_of_none(self):
        """The annotation of one template counts for the whole job."""
        self.world(1)
        for node in self.nodes:
            status = topology(node, 8)
            status["gpus"][3].update(grade="slow", gradeReason="memory bandwidth 70 %")
            self.api.add(TOPOLOGIES, node, status=status)
        self.start()
        self.add_job("any", 2, 16)
        for rank in range(2):
            pod = indexed_pod("any", rank, gpus=8, group=16)
            pod["metadata"]["annotations"].update({"metax-tech.com/slow-gpus": "any"} if rank else {})
            self.add_pod(f"any-{rank}", pod)
        self.wait_lifted("any-0", "any-1")
        self.wait_lifted(*self.add_gang("b", 1, 8))
        def told():
            return {event["regarding"]["name"] for event in self.events() if event["reason"] == "SlowGPUs"}
        self.assertTrue(wait_for(lambda: "b-0" in told()), self.events())
        self.assertFalse(any("any" in name for name in told()), told())

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

    def test_pod_that_was_there_before_the_leader(self):
        """Where an earlier leader may have offered places of a plan that nobody knows, the new one waits and says until
        when. It does not where there was no leader, or the last one ended in order long ago."""
        for number, quiet in enumerate((None, 4294967295, 3600)):
            with self.subTest(quiet=quiet):
                name = f"set{number}"
                if number:
                    self.host.kill()
                else:
                    self.world(2)
                self.api.add(SETS, name, spec={"replicas": 2, "template": template(8, 16)})
                self.add_pod(f"{name}-0", statefulset_pod(name, 0))
                self.start(request=600000, **({} if quiet is None else {"quiet": quiet}))
                if quiet is None:
                    self.assertTrue(wait_for(lambda: (self.condition(f"{name}-0") or {}).get("reason") == "OffersPending"))
                    self.assertIn("an earlier leader has offered", self.condition(f"{name}-0")["message"])
                    self.host.kill()
                    begun = time.monotonic()
                    self.start(request=4000)
                self.wait_lifted(f"{name}-0")
                if quiet is None:
                    self.assertGreater(time.monotonic() - begun, 3.9)

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
        self.start(reserve=15000)
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

    def test_statefulset_with_a_unit_beyond_the_limit(self):
        """The next pod comes only when the first one runs, so the set waits for a higher limit."""
        self.world(2)
        self.start(namespacegpus=16)
        for name, unit in (("large", 32), ("small", 24)):
            self.api.add(SETS, name, spec={"replicas": unit // 8, "template": template(8, unit)})
            self.add_pod(f"{name}-0", statefulset_pod(name, 0))
        self.assertTrue(wait_for(lambda: self.host.job("ns/StatefulSet/large").get("reason") == "ReserveLimit"))
        self.wait_lifted("small-0")
        self.bind("small-0")
        for i in (1, 2):
            self.add_pod(f"small-{i}", statefulset_pod("small", i))
        self.wait_lifted("large-0")  # what runs of the other set counts

    def test_statefulset_of_several_units_at_the_limit(self):
        """What is reserved for the next pod is not counted twice when it comes."""
        self.world(2)
        self.start(namespacegpus=8)
        self.api.add(SETS, "set", spec={"replicas": 8, "template": template(8, 16)})
        for i in range(8):
            self.add_pod(f"set-{i}", statefulset_pod("set", i))
            self.wait_lifted(f"set-{i}")
            self.bind(f"set-{i}")

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
        self.assertTrue(wait_for(lambda: self.condition("a-0")))
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

    def test_reserved_nodes_stay_so_with_other_links(self):
        """A node whose links change is another one to the ledger; its GPUs stay left to the job that waits."""
        self.world(2, nodes_each=2)
        self.start(patience=500, percent=100)
        small = [self.add_gang(f"small{i}", 1, 8)[0] for i in range(4)]
        self.wait_lifted(*small)
        for name in small:
            self.bind(name)
        self.add_gang("big", 4, 16)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/big").get("holds")))
        kept = lambda: [self.host.order(f"kept {node}")["kept"] for node in self.nodes]
        self.assertEqual(kept(), [True] * 4)
        status = topology(self.nodes[0], used=[(gpu, "ns", small[0]) for gpu in range(8)])
        status["links"][0]["state"] = "down"
        self.api.add(TOPOLOGIES, self.nodes[0], status=status)
        time.sleep(1)
        self.assertTrue(wait_for(lambda: kept() == [True] * 4), kept())

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


if __name__ == "__main__":
    side_by_side.main()
