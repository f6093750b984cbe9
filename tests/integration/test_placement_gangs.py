#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that start with less than all of their pods, in the double of the API server."""


import side_by_side
from daemon_driver import wait_for
from placement_case import JOBS, PlacementCase
from placement_driver import GROUP, PLAN, RESOURCE, gates, indexed_pod, owner, planned_node, pod_spec, pytorch_pod, template

VOLCANO_JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs"
PYTORCH_JOBS = "/apis/kubeflow.org/v1/namespaces/ns/pytorchjobs"
ELASTIC_JOBS = "/apis/elastic.iml.github.io/v1alpha1/namespaces/ns/elasticjobs"
POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
UNIT = 2  # pods


class Gangs(PlacementCase):
    def racks(self, count, free=None):
        """Each holds one unit; all but the first `free` ones are full."""
        self.world(count, nodes_each=UNIT)
        for rack in range(count if free is None else free, count):
            self.fill(rack)

    def fill(self, rack):
        name = f"other-{rack}"
        self.add_pod(name, {"metadata": {}, "spec": pod_spec(8, gated=False)})
        self.run_on(name, f"s{rack}-n0", range(8))

    def add_volcano_job(self, name="a", pods=8, spec=None, task=None):
        self.api.add(VOLCANO_JOBS, name, spec={"tasks": [
            {"name": "worker", "replicas": pods, "template": template(8, 16), **(task or {})}], **(spec or {})})

    def add_volcano_pod(self, index, name="a", role="worker", pod_group=None):
        labels = {"volcano.sh/job-name": name, "volcano.sh/task-spec": role, "volcano.sh/task-index": str(index)}
        self.add_pod(f"{name}-{role}-{index}", {
            "metadata": {"labels": labels, "annotations": {GROUP: "16", **({"scheduling.k8s.io/group-name": pod_group} if pod_group else {})},
                         "ownerReferences": [owner("batch.volcano.sh/v1alpha1", "Job", name, "uid-vc")]},
            "spec": pod_spec(8, schedulerName="volcano" if pod_group else "default-scheduler")})
        return f"{name}-{role}-{index}"

    def add_volcano_gang(self, name="a", pods=8, pod_group=None, **spec):
        self.add_volcano_job(name, pods, spec)
        return [self.add_volcano_pod(i, name, pod_group=pod_group) for i in range(pods)]

    def bind_all(self, names):
        for name in names:
            self.bind(name)

    def check_units(self, names):
        """Whole units, each in one rack. How many pods have no gate any more."""
        racks = {i: planned_node(pod).split("-")[0] for i, pod in enumerate([self.pod(name) for name in names])
                 if pod and not gates(pod)}
        for first in range(0, len(names), UNIT):
            self.assertIn(len([i for i in racks if first <= i < first + UNIT]), (0, UNIT), racks)
            self.assertLess(len({racks[i] for i in racks if first <= i < first + UNIT}), 2, racks)
        return len(racks)

    def test_volcano_job_starts_small_and_grows(self):
        self.racks(4, free=2)
        a = self.add_volcano_gang(minAvailable=4)
        self.start()
        self.wait_lifted(*a[:4])
        self.assertEqual(self.check_units(a), 4)
        self.bind_all(a[:4])
        self.assertTrue(wait_for(lambda: self.status("volcanojob-a").get("message", "").startswith(
            "2 of its 4 units are placed; ") and self.status("volcanojob-a")["reason"] == "NoSupernode"), self.status("volcanojob-a"))
        self.assertEqual(self.status("volcanojob-a")["phase"], "Placed")
        self.assertEqual(sorted(self.named("volcanojob-a")), [0, 1, 2, 3])
        self.assertEqual(self.condition(a[4])["reason"], "NoSupernode")
        self.assertTrue(wait_for(lambda: self.condition(a[4])["message"] == self.status("volcanojob-a")["message"] ==
                                 self.host.job("ns/VolcanoJob/a")["text"]), (self.condition(a[4]), self.status("volcanojob-a")))
        self.end("other-3")
        self.wait_lifted(*a[4:6])
        self.assertEqual(self.check_units(a), 6)
        self.bind_all(a[4:6])
        self.end("other-2")
        self.wait_lifted(*a)
        self.assertEqual(self.check_units(a), 8)
        self.bind_all(a[6:])
        self.assertTrue(wait_for(lambda: self.status("volcanojob-a").get("reason", "") == ""), self.status("volcanojob-a"))
        self.assertEqual(sorted(self.named("volcanojob-a")), list(range(8)))

    def test_less_than_the_minimum_is_nothing(self):
        self.racks(4, free=1)
        a = self.add_volcano_gang(minAvailable=4)
        self.start()
        self.assertTrue(wait_for(lambda: self.status("volcanojob-a").get("reason") == "NoSupernode"))
        self.assertIn("4 of its 8 pods are enough to begin", self.status("volcanojob-a")["message"])
        self.assertEqual((self.status("volcanojob-a")["phase"], self.check_units(a)), ("Waiting", 0))
        self.end("other-1")
        self.wait_lifted(*a[:4])

    def test_another_leader_goes_on_growing(self):
        self.racks(4, free=2)
        a = self.add_volcano_gang(minAvailable=4)
        self.start()
        self.wait_lifted(*a[:4])
        self.bind_all(a[:4])
        self.host.kill()
        self.end("other-2")
        self.start()
        self.wait_lifted(*a[4:6])
        self.assertEqual(self.check_units(a), 6)

    def test_the_leader_dies_in_the_middle_of_growth(self):
        """The next one keeps to what the object says, at each point of the way."""
        for method, pattern in (("PATCH", "gpuplacements/volcanojob-a"), ("PATCH", "pods/a-worker-5")):
            with self.subTest(pattern):
                self.setUp()
                self.racks(4, free=2)
                a = self.add_volcano_gang(minAvailable=4)
                self.start()
                self.wait_lifted(*a[:4])
                self.bind_all(a[:4])
                self.assertTrue(wait_for(lambda: self.status("volcanojob-a").get("reason") == "NoSupernode"))
                event, waiting = self.hold(method, pattern)
                self.end("other-2")
                self.assertTrue(wait_for(lambda: waiting))
                self.host.kill()
                self.api.meddle = None
                self.start()
                event.set()
                self.wait_lifted(*a[4:6])
                self.assertEqual(self.check_units(a), 6)
                places = [planned_node(self.pod(name)) for name in a[:6]]
                self.assertEqual(len(set(places)), 6)
                self.assertEqual([self.named("volcanojob-a")[i][0] for i in range(6)], places)
                self.tearDown()
                self.host = None

    def test_task_minima(self):
        """Both tasks' minima: the unit of the second one goes before the first one's rest."""
        self.racks(4, free=2)
        self.api.add(VOLCANO_JOBS, "a", spec={"minAvailable": 4, "tasks": [
            {"name": role, "replicas": 4, "minAvailable": 2, "template": template(8, 16)} for role in ("left", "right")]})
        a = [self.add_volcano_pod(i, role=role) for role in ("left", "right") for i in range(4)]
        self.start()
        self.wait_lifted(*a[:2], *a[4:6])
        self.assertEqual(self.check_units(a), 4)

    def test_contradictory_minima(self):
        self.racks(2)
        self.add_volcano_gang(minAvailable=9)
        b = self.add_volcano_gang("b", pods=4, minAvailable=4)
        self.start()
        self.wait_lifted(*b)
        self.assertTrue(wait_for(lambda: (self.condition("a-worker-0") or {}).get("reason") == "RuleBroken"))
        self.assertEqual(self.condition("a-worker-0")["message"], "minAvailable: 9 is more than the number of its pods, 8")

    def test_queue_has_room_for_a_part(self):
        self.racks(4)
        self.api.add(QUEUES, "q", spec={"capability": {RESOURCE: "40"}}, status={})
        self.api.add(POD_GROUPS, "pg", spec={"minMember": 2, "queue": "q"}, status={"phase": "Inqueue"})
        a = self.add_volcano_gang(pod_group="pg", minAvailable=2)
        self.start()
        self.wait_lifted(*a[:4])
        self.bind_all(a[:4])
        self.api.add(QUEUES, "q", spec={"capability": {RESOURCE: "40"}}, status={"allocated": {RESOURCE: "32"}})
        self.assertTrue(wait_for(lambda: self.status("volcanojob-a").get("reason") == "NotAdmitted"), self.status("volcanojob-a"))
        self.assertEqual((self.status("volcanojob-a")["phase"], self.check_units(a)), ("Placed", 4))
        self.api.add(QUEUES, "q", spec={"capability": {RESOURCE: "64"}}, status={"allocated": {RESOURCE: "32"}})
        self.wait_lifted(*a)
        self.assertEqual(self.check_units(a), 8)

    def test_pytorch_job(self):
        for spec in ({"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}}, {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 7}}):
            with self.subTest(str(spec)):
                self.setUp()
                self.racks(4, free=2)
                self.api.add(PYTORCH_JOBS, "a", spec={**spec, "pytorchReplicaSpecs": {
                    "Master": {"replicas": 1, "template": template(8, 16)}, "Worker": {"replicas": 7, "template": template(8)}}})
                a = []
                for i in range(8):
                    a.append(f"a-{i}")
                    self.add_pod(a[-1], pytorch_pod("a", "worker" if i else "master", max(i - 1, 0)))
                self.start()
                self.wait_lifted(*a[:4])
                self.assertEqual(self.check_units(a), 4)
                self.bind_all(a[:4])
                self.end("other-2")
                self.wait_lifted(*a[4:6])
                self.assertEqual(self.check_units(a), 6)
                self.tearDown()
                self.host = None

    def test_elastic_job(self):
        """Its object has no field for the minimum: its launcher is told."""
        self.racks(4, free=2)
        worker = template(8, 16)
        worker["spec"]["containers"][0]["command"] = ["sh", "-c", "dlrover-run --nnodes=3:8 --nproc_per_node=8 train.py"]
        self.api.add(ELASTIC_JOBS, "a", spec={"replicaSpecs": {"worker": {"replicas": 8, "template": worker}}})
        a = [f"a-{i}" for i in range(8)]
        for i, name in enumerate(a):
            self.add_pod(name, {"metadata": {"labels": {"elasticjob.dlrover/name": "a", "elasticjob.dlrover/replica-type": "worker",
                                                        "elasticjob.dlrover/rank-index": str(i)},
                                             "ownerReferences": [owner("elastic.iml.github.io/v1alpha1", "ElasticJob", "a", "u", False)]},
                                "spec": pod_spec(8)})
        self.start()
        self.wait_lifted(*a[:4])
        self.assertEqual(self.check_units(a), 4)

    # Jobs that run in turns

    def add_turns(self, pods=8, parallelism=4, group=16, done="", **spec):
        ended = sum(int(last or first) - int(first) + 1 for first, _, last in (part.partition("-") for part in done.split(",") if part))
        self.api.add(JOBS, "t", spec={"completionMode": "Indexed", "completions": pods, "parallelism": parallelism,
                                      "template": template(8, group), **spec},
                     status={"succeeded": ended, **({"completedIndexes": done} if done else {})})

    def add_indexed(self, *indexes):
        for i in indexes:
            self.add_pod(f"t-{i}", indexed_pod("t", i, group=16))
        return [f"t-{i}" for i in indexes]

    def test_job_in_turns(self):
        """Four pods at a time, in units of two: the next unit is planned when both of its pods are there."""
        self.racks(2)
        self.add_turns()
        first = self.add_indexed(0, 1, 2, 3)
        self.start(**{"return": 300})
        self.wait_lifted(*first)
        self.assertEqual(self.check_units(first), 4)
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)
        self.bind_all(first)
        self.end("t-0")
        self.add_turns(done="0")
        self.add_indexed(4)
        self.assertTrue(wait_for(lambda: (self.condition("t-4") or {}).get("reason") == "PodsMissing"), self.condition("t-4"))
        self.assertEqual((gates(self.pod("t-4")) != [], self.host.counters()["reservedGPUs"]), (True, 0))
        self.end("t-1")
        self.add_turns(done="0-1")
        self.add_indexed(5)
        self.wait_lifted("t-4", "t-5")
        self.bind_all(["t-4", "t-5"])
        self.assertEqual(planned_node(self.pod("t-4")).split("-")[0], planned_node(self.pod("t-5")).split("-")[0])
        self.end("t-3")
        self.add_turns(done="0-1,3")
        self.add_indexed(6)
        self.end("t-4")
        self.add_turns(done="0-1,3-4")
        self.add_indexed(7)
        self.assertTrue(wait_for(lambda: (self.condition("t-7") or {}).get("reason") == "NoSupernode"), self.condition("t-7"))
        self.assertNotEqual(gates(self.pod("t-7")), [])
        self.end("t-2")
        self.add_turns(done="0-4")
        self.wait_lifted("t-6", "t-7")
        self.bind_all(["t-6", "t-7"])
        self.assertEqual(planned_node(self.pod("t-6")).split("-")[0], planned_node(self.pod("t-7")).split("-")[0])

    def test_the_reason_changes_while_the_last_one_is_written(self):
        """The pod says the new one soon, and not when it is told again in a minute."""
        self.racks(2, free=0)
        self.add_pod("more", {"metadata": {}, "spec": pod_spec(8, gated=False)})
        self.run_on("more", "s1-n1", range(8))
        a = self.add_volcano_gang(pods=2)
        event, waiting = self.hold("PATCH", f"pods/{a[0]}/status")
        self.start()
        self.assertTrue(wait_for(lambda: waiting))
        self.assertEqual(self.host.job("ns/VolcanoJob/a")["reason"], "TooFewGPUs")
        self.end("more")
        self.assertTrue(wait_for(lambda: self.host.job("ns/VolcanoJob/a")["reason"] == "NoSupernode"))
        self.api.meddle = None
        event.set()
        self.assertTrue(wait_for(lambda: (self.condition(a[0]) or {}).get("reason") == "NoSupernode"), self.condition(a[0]))

    def test_turns_begin_together_or_not_at_all(self):
        self.racks(2, free=1)
        self.add_turns()
        self.add_indexed(0, 1, 2, 3)
        self.start()
        self.assertTrue(wait_for(lambda: (self.condition("t-0") or {}).get("reason")))
        self.assertEqual([gates(self.pod(f"t-{i}")) == [] for i in range(4)], [False] * 4)

    def test_turns_that_would_tear_units(self):
        self.racks(2)
        self.start()
        for parallelism, more, says in ((3, {}, "parallelism 3 is not a multiple of the 2 pods of a unit"),
                                        (4, {"completionMode": "NonIndexed"}, "parallelism 4 is less than completions 8: with "
                                         "gpu-group-size that needs completionMode Indexed")):
            self.add_turns(parallelism=parallelism, **more)
            self.add_indexed(0)
            self.assertTrue(wait_for(lambda: (self.condition("t-0") or {}).get("message") == says), self.condition("t-0"))
        self.add_turns(parallelism=5)  # the pod stays, and says the other rule at once
        says = "parallelism 5 is not a multiple of the 2 pods of a unit"
        self.assertTrue(wait_for(lambda: (self.condition("t-0") or {}).get("message") == says), self.condition("t-0"))

    # jobs that change their size

    def test_shrinks_and_grows_by_units(self):
        self.racks(4)
        a = self.add_volcano_gang(pods=8)
        self.start(**{"return": 300})
        self.wait_lifted(*a)
        self.bind_all(a)
        places = [planned_node(self.pod(name)) for name in a[:4]]
        self.add_volcano_job(pods=4)
        for name in reversed(a[4:]):
            self.end(name)
            self.assertNotEqual(self.host.job("ns/VolcanoJob/a")["state"], "refused")
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 0))
        b = self.add_volcano_gang("b", pods=4)
        self.wait_lifted(*b)
        self.bind_all(b)
        self.add_volcano_job(pods=8)
        for i in range(4, 8):
            self.add_volcano_pod(i)
        self.assertTrue(wait_for(lambda: (self.condition(a[4]) or {}).get("reason")))
        for name in b:
            self.end(name)
        self.wait_lifted(*a)
        self.assertEqual(self.check_units(a), 8)
        self.assertEqual([planned_node(self.pod(name)) for name in a[:4]], places)

    def test_the_object_forgets_ranks_that_are_gone(self):
        self.racks(4)
        a = self.add_volcano_gang(pods=8)
        self.start(**{"return": 300})
        self.wait_lifted(*a)
        self.bind_all(a)
        self.assertEqual(sorted(self.named("volcanojob-a")), list(range(8)))
        self.add_volcano_job(pods=4)
        for name in reversed(a[4:]):
            self.end(name)
        self.assertTrue(wait_for(lambda: sorted(self.named("volcanojob-a")) == list(range(4))), self.named("volcanojob-a"))

    def two_tasks(self, left, right):
        self.api.add(VOLCANO_JOBS, "a", spec={"minAvailable": 1, "tasks": [
            {"name": role, "replicas": replicas, "template": template(8, 16)} for role, replicas in (("left", left), ("right", right))]})

    def test_a_task_before_the_last_grows(self):
        """Who runs keeps rank and unit; the new pods get the ranks that are free, and a pod that is made again its old one."""
        self.racks(5)
        self.two_tasks(2, 4)
        a = [self.add_volcano_pod(i, role=role) for role, pods in (("left", 2), ("right", 4)) for i in range(pods)]
        self.start(**{"return": 600})
        self.wait_lifted(*a)
        self.bind_all(a)
        ranks = {name: self.pod(name)["metadata"]["annotations"][PLAN + "rank"] for name in a}
        places = self.named("volcanojob-a")
        self.two_tasks(4, 4)
        lost = self.pod("a-right-1")
        self.end("a-right-1")
        new = [self.add_volcano_pod(i, role="left") for i in (2, 3)]
        self.wait_lifted(*new)
        self.add_volcano_pod(1, role="right")
        self.wait_lifted("a-right-1")
        told = {name: self.pod(name)["metadata"]["annotations"][PLAN + "rank"] for name in (*a, *new)}
        self.assertEqual(told, {**ranks, new[0]: "6", new[1]: "7"})
        self.assertEqual([self.pod(name)["metadata"]["annotations"][PLAN + "unit"] for name in (*new, "a-right-1")], ["3", "3", "1"])
        self.assertEqual(planned_node(self.pod("a-right-1")).split("-")[0], planned_node(lost).split("-")[0])
        self.check_units([name for name, _ in sorted(told.items(), key=lambda item: int(item[1]))])
        now = self.named("volcanojob-a")
        self.assertEqual({rank: now[rank] for rank in places if rank != 3}, {rank: places[rank] for rank in places if rank != 3})

    # pods without an owner

    def add_bare(self, *numbers, group=16):
        for number in numbers:
            self.add_pod(f"b-{number}", {"metadata": {"annotations": {GROUP: str(group), "scheduling.k8s.io/group-name": "pg"}},
                                         "spec": pod_spec(8, schedulerName="volcano")})
        return [f"b-{number}" for number in numbers]

    def test_bare_pods_of_a_pod_group(self):
        """They are one job, in the order of their names, of which minMember begin together."""
        self.racks(4, free=1)
        self.api.add(QUEUES, "q", spec={}, status={})
        self.api.add(POD_GROUPS, "pg", spec={"minMember": 4, "queue": "q"}, status={"phase": "Inqueue"})
        b = self.add_bare(1, 2, 9)
        self.start(**{"return": 300})
        self.assertTrue(wait_for(lambda: (self.condition("b-9") or {}).get("reason") == "PodsMissing"), self.condition("b-9"))
        self.assertEqual(self.condition("b-9")["message"], "3 of its pods are there, its PodGroup needs 4")
        b += self.add_bare(10, 11, 12)
        self.assertTrue(wait_for(lambda: (self.condition("b-9") or {}).get("reason") == "NoSupernode"), self.condition("b-9"))
        # Its object tells a moment later
        self.assertTrue(wait_for(lambda: "4 of its 6 pods are enough to begin" in self.status("podgroup-pg")["message"]),
                        self.status("podgroup-pg"))
        self.assertEqual(self.check_units(b), 0)
        self.end("other-1")
        self.wait_lifted(*b[:4])
        self.assertEqual(self.check_units(b), 4)
        self.bind_all(b[:4])
        self.end("other-2")
        self.wait_lifted(*b[4:])
        self.assertEqual([self.pod(name)["metadata"]["annotations"][PLAN + "rank"] for name in b], list("012345"))
        self.assertEqual(self.check_units(b), 6)

    def test_pod_groups_of_other_apis(self):
        """Of Kubernetes and of the scheduler plugin Coscheduling: the pods wait for as many as the PodGroup needs. So many begin together;
        of Kubernetes' own all that are there, since kube-scheduler takes none of them while one has a gate."""
        def gang(count):
            return {"schedulingPolicy": {"gang": {"minCount": count}}}

        of_kubernetes = {"schedulingGroup": {"podGroupName": "pg"}}
        for api, labels, named, spec in (
                ("scheduling.x-k8s.io/v1alpha1", {"scheduling.x-k8s.io/pod-group": "pg"}, {}, lambda count: {"minMember": count}),
                ("scheduling.k8s.io/v1alpha2", {}, of_kubernetes, gang),
                ("scheduling.k8s.io/v1beta1", {}, of_kubernetes, gang)):
            with self.subTest(api):
                self.setUp()
                self.racks(4, free=2)
                groups = f"/apis/{api}/namespaces/ns/podgroups"
                self.api.add(groups, "pg", spec=spec(6))
                names = [f"b-{number}" for number in range(7)]
                for name in names[:5]:
                    self.add_pod(name, {"metadata": {"annotations": {GROUP: "16"}, "labels": labels}, "spec": {**pod_spec(8), **named}})
                self.start(**{"return": 300})
                self.assertTrue(wait_for(lambda: (self.condition("b-0") or {}).get("message") ==
                                         "5 of its pods are there, its PodGroup needs 6"), self.condition("b-0"))
                self.api.add(groups, "pg", spec=spec(4))
                self.assertTrue(wait_for(lambda: (self.condition("b-0") or {}).get("reason") == "RuleBroken"), self.condition("b-0"))
                self.add_pod("b-5", {"metadata": {"annotations": {GROUP: "16"}, "labels": labels}, "spec": {**pod_spec(8), **named}})
                begin = 0 if named else 4
                self.wait_lifted(*names[:begin])
                self.assertTrue(wait_for(lambda: (self.condition("b-5") or {}).get("reason") in ("NoSupernode", "TooFewGPUs")), self.condition("b-5"))
                self.assertEqual(self.check_units(names[:6]), begin)
                self.bind_all(names[:begin])
                self.end("other-2")
                self.wait_lifted(*names[begin:6])
                self.assertEqual(self.check_units(names[:6]), 6)

    def test_shrinks_by_half_a_unit(self):
        self.racks(2)
        a = self.add_volcano_gang(pods=4)
        self.start(**{"return": 300})
        self.wait_lifted(*a)
        self.bind_all(a)
        self.add_volcano_job(pods=3)
        self.end(a[3])
        self.assertTrue(wait_for(lambda: any("the job's 24 GPUs are not a multiple of gpu-group-size 16" in event["note"]
                                             for event in self.events())), self.events())

    def test_suspended_and_resumed(self):
        """Nothing is kept while it is suspended; it begins again."""
        for kind, name, suspended, pods in (
                (JOBS, "job-t", {"suspend": True}, lambda: self.add_indexed(0, 1, 2, 3)),
                (PYTORCH_JOBS, "pytorchjob-p", {"runPolicy": {"suspend": True}}, self.add_pytorch_pods)):
            with self.subTest(name):
                self.setUp()
                self.racks(2)
                spec = {"completionMode": "Indexed", "completions": 4, "parallelism": 4, "template": template(8, 16),
                        "pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": template(8, 16)}}}
                self.api.add(kind, name.split("-")[1], spec=spec)
                a = pods()
                self.start()
                self.wait_lifted(*a)
                self.bind_all(a[:2])
                self.api.add(kind, name.split("-")[1], spec={**spec, **suspended})
                for pod in a:
                    self.end(pod)
                b = self.add_volcano_gang("b", pods=4)
                self.wait_lifted(*b)
                self.bind_all(b)
                self.assertTrue(wait_for(lambda: not self.object(name)))
                self.api.add(kind, name.split("-")[1], spec=spec)
                a = pods()
                self.assertTrue(wait_for(lambda: self.status(name).get("phase") == "Waiting"), self.status(name))
                for pod in b:
                    self.end(pod)
                self.wait_lifted(*a)
                self.assertEqual(self.check_units(a), 4)
                self.tearDown()
                self.host = None

    def add_pytorch_pods(self):
        for i in range(4):
            self.add_pod(f"p-{i}", pytorch_pod("p", "worker", i))
        return [f"p-{i}" for i in range(4)]

    def test_suspended_with_reservations(self):
        """Gated pods of a suspended job are about to go: what was kept for the others is given back at once."""
        self.racks(2)
        self.api.add(JOBS, "t", spec={"completionMode": "Indexed", "completions": 4, "parallelism": 4, "template": template(8, 16)})
        self.add_indexed(0)
        self.start(gang=600000)
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 24))
        self.api.add(JOBS, "t", spec={"completionMode": "Indexed", "completions": 4, "parallelism": 4, "suspend": True,
                                      "template": template(8, 16)})
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 0))


if __name__ == "__main__":
    side_by_side.main()
