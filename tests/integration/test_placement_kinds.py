#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of several controllers as their pods come, in the double of the API server: JobSet, LeaderWorkerSet, MPIJob, RayCluster,
and pods whose owner is in another cluster."""

import side_by_side
from daemon_driver import wait_for
from placement_case import PYTORCH, PlacementCase
from placement_driver import GROUP, PLAN, owner, planned_node, pod_spec, pytorch_pod, template

JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets"
TRAININGS = "/apis/example.com/v1/namespaces/ns/trainings"
RAY_CLUSTERS = "/apis/ray.io/v1/namespaces/ns/rayclusters"
MPI_JOBS = "/apis/kubeflow.org/v2beta1/namespaces/ns/mpijobs"
LEADER_WORKER_SETS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/ns/leaderworkersets"
JOB_SET, LWS, KUBEFLOW = "jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/", "training.kubeflow.org/"


def job_set_pod(name, role, job, index, group=None, attempt=0, gated=True):
    labels = {JOB_SET + "jobset-name": name, JOB_SET + "replicatedjob-name": role, JOB_SET + "job-index": str(job),
              "batch.kubernetes.io/job-name": f"{name}-{role}-{job}", "batch.kubernetes.io/job-completion-index": str(index),
              JOB_SET + "restart-attempt": str(attempt)}
    return {"metadata": {"labels": labels, "annotations": {**labels, **({GROUP: str(group)} if group else {})},
                         "ownerReferences": [owner("batch/v1", "Job", f"{name}-{role}-{job}", f"uid-{name}-{role}-{job}-{attempt}")]},
            "spec": pod_spec(8, gated=gated)}


def group_pod(name, group, worker, gpus=8, size="group"):
    """Worker 0 is the leader, which the set's own StatefulSet makes."""
    made_by = owner("apps/v1", "StatefulSet", f"{name}-{group}" if worker else name, f"uid-{group}-{worker > 0}")
    labels = {LWS + "name": name, LWS + "group-index": str(group), LWS + "worker-index": str(worker),
              "apps.kubernetes.io/pod-index": str(worker or group)}
    return {"metadata": {"labels": labels, "annotations": {GROUP: size} if size else {}, "ownerReferences": [made_by]},
            "spec": pod_spec(gpus)}


class Kinds(PlacementCase):
    def replicated(self, name, jobs, pods, group=None, **more):
        return {"name": name, "replicas": jobs, "template": {"spec": {
            "parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template(8, group)}}, **more}

    def add_set(self, name, *jobs, metadata=None, **spec):
        self.api.add(JOB_SETS, name, metadata=metadata or {}, spec={"replicatedJobs": list(jobs), **spec})

    def add_set_pods(self, name, role, jobs, pods, group=None, attempt=0):
        names = []
        for job in jobs:
            for i in range(pods):
                names.append(f"{name}-{role}-{job}-{i}-{attempt}")
                self.add_pod(names[-1], job_set_pod(name, role, job, i, group, attempt))
        return names

    def check_units(self, names, size=4):
        """In rank order; each unit lies in one rack."""
        places = [planned_node(self.pod(name)) for name in names]
        self.assertEqual([int(self.pod(name)["metadata"]["annotations"][PLAN + "rank"]) for name in names], list(range(len(names))))
        self.assertEqual(len(set(places)), len(places), places)
        for first in range(0, len(places), size):
            self.assertEqual(len({place.split("-")[0] for place in places[first:first + size]}), 1, places)
        return places

    def add_workers(self, name, groups, size=4, leader=True, annotation="group", **more):
        self.api.add(LEADER_WORKER_SETS, name, spec={"replicas": groups, "leaderWorkerTemplate": {
            "size": size, "workerTemplate": template(8, annotation), **({"leaderTemplate": template(8, annotation)} if leader else {})}, **more})

    def add_group(self, name, group, size=4, first=0, annotation="group"):
        names = []
        for worker in range(first, size):
            names.append(f"{name}-{group}-{worker}" if worker else f"{name}-{group}")
            self.add_pod(names[-1], group_pod(name, group, worker, size=annotation))
        return names

    # JobSet

    def test_jobset_is_one_job(self):
        """Two Jobs of three pods each, in units of 32 GPUs: the rank runs over both, in the order of the Jobs."""
        self.world(3)
        self.add_set("a", self.replicated("zz", 1, 2, 16), self.replicated("node", 2, 3, 16))
        names = self.add_set_pods("a", "zz", [0], 2, 16) + self.add_set_pods("a", "node", [0], 3, 16)
        self.start()
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 24))
        self.assertFalse(self.is_lifted(names[0]))
        names += self.add_set_pods("a", "node", [1], 3, 16)
        self.wait_lifted(*names)
        self.check_units(names, 2)
        self.assertEqual(self.status("jobset-a")["phase"], "Placed")

    def test_jobset_starts_in_order(self):
        """The second replicated job comes when the first one is ready: its places are kept."""
        self.world(2)
        self.add_set("a", self.replicated("driver", 1, 1), self.replicated("node", 1, 3),
                     metadata={"annotations": {GROUP: "32"}}, startupPolicy={"startupPolicyOrder": "InOrder"})
        first = self.add_set_pods("a", "driver", [0], 1)
        self.start()
        self.wait_lifted(*first)
        self.bind(first[0])
        self.assertEqual(self.host.counters()["reservedGPUs"], 24)
        names = first + self.add_set_pods("a", "node", [0], 3)
        self.wait_lifted(*names)
        self.check_units(names)

    def test_trainjob_with_an_initializer(self):
        """Its JobSet first loads data, without GPUs: these pods are in no unit, have no rank, and hold nothing."""
        self.world(3)
        without = {"replicas": 1, "template": {"spec": {"parallelism": 1, "completions": 1, "template": template(0)}}}
        self.add_set("a", {"name": "dataset-initializer", **without},
                     self.replicated("node", 1, 8, 32, dependsOn=[{"name": "dataset-initializer", "status": "Complete"}]))
        first = job_set_pod("a", "dataset-initializer", 0, 0, gated=False)
        first["spec"] = pod_spec(0, gated=False)
        self.add_pod("a-dataset-initializer-0-0-0", first)
        self.start()
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)
        names = self.add_set_pods("a", "node", [0], 8, 32)
        self.wait_lifted(*names)
        self.check_units(names)

    def test_jobset_restarts(self):
        """All its Jobs are made again, and while the old pods go, the new ones get a plan of their own."""
        self.world(2)
        self.add_set("a", self.replicated("node", 2, 2, 32))
        old = self.add_set_pods("a", "node", [0, 1], 2, 32)
        self.start()
        self.wait_lifted(*old)
        for name in old:
            self.bind(name)
        for name in old:
            self.change_pod(name, {"deletionTimestamp": "2026-01-01T01:00:00Z"})
        new = self.add_set_pods("a", "node", [0, 1], 2, 32, attempt=1)
        for name in old:
            self.end(name)
        self.wait_lifted(*new)
        self.check_units(new)

    def test_jobset_is_suspended(self):
        self.world(2)
        self.add_set("a", self.replicated("node", 1, 4, 32), suspend=True)
        names = self.add_set_pods("a", "node", [0], 2, 32)
        self.start()
        self.assertTrue(wait_for(lambda: (self.condition(names[0]) or {}).get("reason") == "OwnerStopped"), self.pod(names[0]))
        self.assertIn("its JobSet is suspended", self.condition(names[0])["message"])
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)

    def test_jobset_with_a_torn_unit(self):
        self.world(2)
        self.add_set("a", self.replicated("driver", 1, 1), self.replicated("node", 1, 3, 32))
        names = self.add_set_pods("a", "driver", [0], 1)
        says = ("the 8 GPUs of driver are not a multiple of gpu-group-size 32: to have units over all of the job, annotate its "
                "object and not its templates")
        self.start()
        self.assertTrue(wait_for(lambda: (self.condition(names[0]) or {}).get("reason") == "RuleBroken"), self.pod(names[0]))
        self.assertEqual(self.condition(names[0])["message"], says)
        with self.api.lock:
            a_set = self.api.objects[self.api.place(JOB_SETS + "/x")[0], "a"]
        response, _ = self.review("validate", a_set, kind=("jobset.x-k8s.io", "v1alpha2", "JobSet"))
        self.assertEqual((response["allowed"], response["status"]["message"]), (False, says))

    # LeaderWorkerSet

    def test_groups_are_placed_one_by_one(self):
        """Each in one rack, its leader first; the third one waits for room, and gets it."""
        self.world(2)
        self.add_workers("a", 3)
        self.start()
        groups = {}
        for group in (1, 0, 2):
            groups[group] = self.add_group("a", group, size=1)
            if group != 2:
                self.assertTrue(wait_for(lambda g=group: self.named(f"leaderworkerset-a-{g}")), self.objects())
            groups[group] += self.add_group("a", group, first=1)
            if group != 2:
                self.wait_lifted(*groups[group])
                self.check_units(groups[group])
                for name in groups[group]:
                    self.bind(name)
        self.assertTrue(wait_for(lambda: (self.condition("a-2") or {}).get("reason") == "TooFewGPUs"), self.pod("a-2"))
        self.assertFalse(any(self.is_lifted(name) for name in groups[2]))
        for name in groups[0]:
            self.end(name)
        self.wait_lifted(*groups[2])
        self.check_units(groups[2])

    def test_group_is_made_again(self):
        """As its restart policy does: the leader goes, and its workers with it; the next group of that name is planned."""
        self.world(1)
        self.add_workers("a", 1, leader=False)
        names = self.add_group("a", 0)
        self.start()
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        for name in names:
            self.end(name)
        names = self.add_group("a", 0)
        self.wait_lifted(*names)
        self.check_units(names)

    def test_groups_are_rolled(self):
        """A changed size comes group by group: those that are there keep theirs, and nothing is wrong with them."""
        self.world(2)
        self.add_workers("a", 2, leader=False)
        groups = [self.add_group("a", 0), self.add_group("a", 1)]
        self.start()
        for names in groups:
            self.wait_lifted(*names)
            for name in names:
                self.bind(name)
        self.add_workers("a", 2, leader=False, annotation="16")
        for name in groups[1]:
            self.end(name)
        self.add_group("a", 1, annotation="16")
        self.wait_lifted(*groups[1])
        for name in groups[0]:  # only a pod of it, made again from what the group was made from
            self.change_pod(name, {"labels": {**self.pod(name)["metadata"]["labels"], "seen": "again"}})
        self.end(groups[0][2])
        self.add_pod(groups[0][2], group_pod("a", 0, 2))
        self.wait_lifted(*groups[0])
        with self.api.lock:
            self.assertEqual([o["note"] for (where, _), o in self.api.objects.items() if where[2] == "events" and o["reason"] == "RuleBroken"], [])

    def test_workers_come_when_the_leader_is_ready(self):
        self.world(2)
        self.add_workers("a", 1, startupPolicy="LeaderReady")
        names = self.add_group("a", 0, size=1)
        self.start()
        self.wait_lifted("a-0")
        self.bind("a-0")
        self.assertEqual(self.host.counters()["reservedGPUs"], 24)
        names += self.add_group("a", 0, first=1)
        self.wait_lifted(*names)
        self.check_units(names)

    def test_set_becomes_known_later(self):
        """Its object tells how many pods a group has: each group is planned when it comes."""
        self.world(2)
        leaders = self.add_group("a", 0, size=1) + self.add_group("a", 1, size=1)
        self.start(owner=60000)
        self.assertTrue(wait_for(lambda: self.host.job("ns/LeaderWorkerSet/a-1").get("reason") == "OwnerUnknown"))
        self.add_workers("a", 2)
        for group in (0, 1):
            self.assertTrue(wait_for(lambda g=group: len(self.named(f"leaderworkerset-a-{g}")) == 4), self.objects())
        self.assertFalse(any(self.is_lifted(name) for name in leaders))
        self.assertEqual(self.host.counters()["reservedGPUs"], 48)

    def test_groups_are_spread(self):
        """Each in a supernode of its own, as long as there is one; the third where there is room."""
        self.world(2, nodes_each=8)
        self.api.add(LEADER_WORKER_SETS, "a", metadata={"annotations": {"metax-tech.com/spread": "supernode"}}, spec={
            "replicas": 3, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template(8, "group")}})
        self.start()
        groups = []
        for group in range(3):
            groups.append(self.add_group("a", group))
            self.wait_lifted(*groups[-1])
        racks = [self.check_units(names)[0].split("-")[0] for names in groups]
        self.assertEqual(sorted(racks[:2]), ["s0", "s1"])
        self.assertIn(racks[2], ("s0", "s1"))

    def test_subgroups_are_units(self):
        """Two of two pods each, though no rack has room for all four."""
        self.world(2, nodes_each=2)
        self.api.add(LEADER_WORKER_SETS, "a", spec={"replicas": 1, "leaderWorkerTemplate": {
            "size": 4, "workerTemplate": template(8, "subgroup"), "subGroupPolicy": {"subGroupSize": 2}}})
        self.start()
        names = [f"a-0-{worker}" if worker else "a-0" for worker in range(4)]
        for worker, name in enumerate(names):
            self.add_pod(name, group_pod("a", 0, worker, size="subgroup"))
        self.wait_lifted(*names)
        self.check_units(names, 2)

    # a size that changes while the job runs

    def test_word_for_a_number_while_it_runs(self):
        """Said once, as an Event of the job's, with both; its pods stay where they are."""
        self.world(2)
        def change(size):
            self.api.add(PYTORCH, "a", spec={"pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": template(8, size)}, "Worker": {"replicas": 7, "template": template(8)}}})
        change(32)
        names = ["a-master-0", *(f"a-worker-{i}" for i in range(7))]
        for name in names:
            made = pytorch_pod("a", *name[2:].split("-"))
            made["metadata"]["annotations"] = {GROUP: "32"} if "master" in name else {}
            self.add_pod(name, made)
        self.start()
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        before = self.check_units(names)
        self.assertTrue(wait_for(lambda: self.host.job("ns/PyTorchJob/a")["state"] == "placed"))
        change("group")

        def told():
            with self.api.lock:
                return {o["regarding"]["name"]: (o["type"], o["note"]) for (where, _), o in self.api.objects.items()
                        if where[2] == "events" and o["reason"] == "RuleBroken"}
        note = "Warning", "gpu-group-size differs within the job: group on Master, 32 on a-master-0"
        self.assertTrue(wait_for(lambda: told() == {"a-worker-6": note, "a": note}), told())
        self.assertEqual(self.check_units(names), before)

    # MPIJob, RayCluster

    def test_mpijob(self):
        """Of the MPI operator: its object says how many workers come. The launcher, which a Job makes, has no GPU and no rank."""
        self.world(3)
        self.api.add(MPI_JOBS, "a", spec={"mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": {"metadata": {}, "spec": {"containers": [{"name": "main"}]}}},
            "Worker": {"replicas": 8, "template": template(8, 32)}}})
        self.add_pod("a-launcher-x2k9d", {"metadata": {
            "labels": {KUBEFLOW + "job-name": "a", KUBEFLOW + "job-role": "launcher"},
            "ownerReferences": [owner("batch/v1", "Job", "a-launcher", "uid-launcher")]},
            "spec": {"containers": [{"name": "main"}]}})
        names = [f"a-worker-{i}" for i in range(8)]
        self.start()
        for i, name in enumerate(names):
            if i == 7:
                self.assertTrue(wait_for(lambda: self.host.job("ns/MPIJob/a").get("reason") == "PodsMissing"), self.host.job("ns/MPIJob/a"))
            self.add_pod(name, {"metadata": {
                "labels": {KUBEFLOW + "job-name": "a", KUBEFLOW + "job-role": "worker", KUBEFLOW + "replica-index": str(i)},
                "annotations": {GROUP: "32"}, "ownerReferences": [owner("kubeflow.org/v2beta1", "MPIJob", "a", "uid-mpi")]},
                "spec": pod_spec(8)})
        self.wait_lifted(*names)
        self.check_units(names)

    def test_mpijob_whose_launcher_is_a_worker(self):
        """It has rank 0, is made by a Job, and the operator numbers the others from 1."""
        self.world(3)
        self.api.add(MPI_JOBS, "a", spec={"runLauncherAsWorker": True, "mpiReplicaSpecs": {
            role: {"replicas": count, "template": template(8, 32)} for role, count in (("Launcher", 1), ("Worker", 7))}})
        self.start()
        names = ["a-launcher-x2k9d", *(f"a-worker-{i}" for i in range(7))]
        made_by = [owner("batch/v1", "Job", "a-launcher", "uid-launcher"), owner("kubeflow.org/v2beta1", "MPIJob", "a", "uid-mpi")]
        for index, name in enumerate(names):
            self.add_pod(name, {"metadata": {
                "labels": {KUBEFLOW + "job-name": "a", KUBEFLOW + "job-role": name.split("-")[1], KUBEFLOW + "replica-index": str(index)},
                "annotations": {GROUP: "32"}, "ownerReferences": [made_by[index > 0]]}, "spec": pod_spec(8)})
        self.wait_lifted(*names)
        self.check_units(names)

    def add_ray(self, name, *groups, head=0, **spec):
        self.api.add(RAY_CLUSTERS, name, spec={
            "headGroupSpec": {"template": template(head) if head else {"spec": {"containers": [{"name": "main"}]}}},
            "workerGroupSpecs": [{"groupName": group, "replicas": pods, "minReplicas": 0, "maxReplicas": 64, "template": template(8, size)}
                                 for group, pods, size in groups], **spec})

    def add_ray_pods(self, name, group, suffixes, size=None, gpus=8):
        names = [f"{name}-{group}-{suffix}x9d" for suffix in suffixes]
        for pod in reversed(names):
            self.add_pod(pod, {"metadata": {
                "labels": {"ray.io/cluster": name, "ray.io/group": group, "ray.io/node-type": "head" if group == "headgroup" else "worker"},
                "annotations": {GROUP: str(size)} if size else {}, "ownerReferences": [owner("ray.io/v1", "RayCluster", name, "uid-ray")]},
                "spec": pod_spec(gpus, gated=bool(size))})
        return names

    def test_raycluster(self):
        """Each group of workers is a job of its own, with a size of its own; the head and its GPUs are none of them."""
        self.world(4)
        self.add_ray("a", ("big", 4, 32), ("small", 4, 16), head=2)
        self.add_ray_pods("a", "headgroup", "h", gpus=2)
        small = self.add_ray_pods("a", "small", "bdfh", 16)
        big = self.add_ray_pods("a", "big", "bdf", 32)
        self.start()
        self.wait_lifted(*small)
        self.assertTrue(wait_for(lambda: self.host.job("ns/RayCluster/a.big").get("reason") == "PodsMissing"), self.host.job("ns/RayCluster/a.big"))
        big += self.add_ray_pods("a", "big", "h", 32)
        self.wait_lifted(*big)
        self.check_units(big)
        self.check_units(small, 2)
        self.assertEqual(self.status("raycluster-a.big")["phase"], "Placed")

    def test_raycluster_is_scaled(self):
        """By a whole unit, whose pods get names before and after those that are there."""
        self.world(4)
        self.add_ray("a", ("w", 4, 32))
        names = self.add_ray_pods("a", "w", "cdef", 32)
        self.start()
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        self.add_ray("a", ("w", 8, 32))
        more = self.add_ray_pods("a", "w", "abgh", 32)
        self.wait_lifted(*more)
        more.sort(key=lambda name: int(self.pod(name)["metadata"]["annotations"][PLAN + "rank"]))  # those seen first come first
        self.check_units(names + more)

    # a kind that an administrator describes

    def add_training_pods(self, name, role, count, size=32):
        names = [f"{name}-{role}-{i}" for i in range(count)]
        for i, pod in enumerate(names):
            self.add_pod(pod, {"metadata": {
                "labels": {"example.com/training": name, "example.com/role": role, "batch.kubernetes.io/job-completion-index": str(i)},
                "annotations": {GROUP: str(size)}, "ownerReferences": [owner("batch/v1", "Job", f"{name}-{role}", f"uid-{name}-{role}")]},
                "spec": pod_spec(8)})
        return names

    def test_described_kind(self):
        """Its object says which pods come; the rank runs over its roles, in their order."""
        kinds = f"{self.folder}/kinds.yaml"
        with open(kinds, "w", encoding="ascii") as file:
            file.write("""
kinds:
- apiVersion: example.com/v1
  kind: Training
  resource: trainings
  child: Job
  labels: {job: example.com/training, role: example.com/role, index: batch.kubernetes.io/job-completion-index}
  templates:
  - {each: .spec.groups, path: .pod, role: .name, replicas: .size}
  suspend: .spec.paused
""")
        self.world(3)
        spec = {"groups": [{"name": "b", "size": 4, "pod": template(8, 32)}, {"name": "a", "size": 8, "pod": template(8, 32)}]}
        self.api.add(TRAININGS, "x", spec=spec)
        names = self.add_training_pods("x", "b", 4)
        self.start(kinds=kinds)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Training/x").get("reason") == "PodsMissing"), self.host.job("ns/Training/x"))
        self.assertEqual(self.host.counters()["reservedGPUs"], 64)
        names += self.add_training_pods("x", "a", 8)
        self.wait_lifted(*names)
        self.check_units(names)
        self.assertEqual(self.status("training-x")["phase"], "Placed")

    # pods whose owner is not in this cluster

    def add_synced(self, name, annotations, **spec):
        """As a syncer of a virtual cluster writes it: another owner, other labels, the annotations as they were."""
        self.add_pod(f"{name}-x-team-x-virtual", {
            "metadata": {"labels": {"vcluster.loft.sh/managed-by": "virtual"}, "annotations": annotations,
                         "ownerReferences": [owner("v1", "Service", "virtual", "uid-virtual", controller=False)]},
            "spec": pod_spec(8, **spec)})
        return f"{name}-x-team-x-virtual"

    def test_pod_group_of_kubernetes(self):
        """Pods of a script that name one: planned when no more come."""
        self.world(3)
        self.start()
        names = [f"run-{rank}" for rank in range(8)]
        for name in names:
            self.add_pod(name, {"metadata": {"annotations": {GROUP: "32"}},
                                "spec": {**pod_spec(8), "schedulingGroup": {"podGroupName": "run"}}})
        self.wait_lifted(*names)
        self.check_units(names)
        self.assertEqual(self.status("pods-run")["phase"], "Placed")

    def test_groups_of_others(self):
        """Of Kueue, of Coscheduling and of Volcano, as a script writes them, without the object: ranks by index, else by name."""
        self.world(6)
        self.start()
        for name, labels, annotations in (
                ("kueue", {"kueue.x-k8s.io/pod-group-name": "kueue", "kueue.x-k8s.io/pod-group-pod-index": "{}"},
                 {"kueue.x-k8s.io/pod-group-total-count": "8"}),
                ("plugin", {"scheduling.x-k8s.io/pod-group": "plugin"}, {}),
                ("gang", {}, {"scheduling.k8s.io/group-name": "gang"})):
            names = [f"{name}-{rank}" for rank in range(8)]
            for rank, pod in reversed(list(enumerate(names))):
                self.add_pod(pod, {"metadata": {"labels": {key: value.format(rank) for key, value in labels.items()},
                                                "annotations": {GROUP: "32", **annotations}}, "spec": pod_spec(8)})
            self.wait_lifted(*names)
            self.check_units(names)
            for pod in names:
                self.bind(pod)

    def test_pods_say_which_job_they_form(self):
        """They are placed when all are there that they speak of, and nothing is kept for the others."""
        self.world(3)
        self.start()
        says = {GROUP: "32", "metax-tech.com/job-name": "run", "metax-tech.com/job-pods": "8"}
        names = [self.add_synced(f"run-{rank}", says) for rank in range(7)]
        self.assertTrue(wait_for(lambda: (self.condition(names[0]) or {}).get("reason") == "PodsMissing"), self.pod(names[0]))
        self.assertEqual(self.condition(names[0])["message"], "7 of the 8 pods are there that its pods speak of")
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)
        names.append(self.add_synced("run-7", says))
        self.wait_lifted(*names)
        self.check_units(names)
        for name in names:
            self.bind(name)
        self.end(names[5])
        names[5] = self.add_synced("run-5", says)
        self.wait_lifted(*names)
        self.check_units(names)

    def test_pods_that_speak_of_too_many(self):
        self.world(1)
        self.start()
        alone = self.add_synced("big-0", {GROUP: "32", "metax-tech.com/job-name": "big", "metax-tech.com/job-pods": "10000"})
        self.assertTrue(wait_for(lambda: (self.condition(alone) or {}).get("reason") == "PodsMissing"), self.pod(alone))
        other = self.add_synced("big-1", {GROUP: "32", "metax-tech.com/job-name": "big", "metax-tech.com/job-pods": "4"})
        self.assertTrue(wait_for(lambda: (self.condition(other) or {}).get("reason") == "RuleBroken"), self.pod(other))
        self.assertRegex(self.condition(other)["message"], r"^pods big-[01]-\S+ and big-[01]-\S+ say that the job has (4 and 10000|10000 and 4) pods$")
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)

    def test_synced_volcano_job(self):
        """Its annotations tell the job, and the PodGroup that they name is in another cluster."""
        self.world(3)
        self.api.add("/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups", "other", spec={"minMember": 1}, status={"phase": "Inqueue"})
        names = [self.add_synced(f"a-worker-{rank}", {
            GROUP: "32", "volcano.sh/job-name": "a", "volcano.sh/task-spec": "worker", "volcano.sh/task-index": str(rank),
            "scheduling.k8s.io/group-name": "a-uid-a"}) for rank in range(8)]
        self.start(owner=1500)
        self.assertTrue(wait_for(lambda: (self.condition(names[0]) or {}).get("reason") == "NotAdmitted"), self.pod(names[0]))
        self.wait_lifted(*names)
        self.check_units(names)


if __name__ == "__main__":
    side_by_side.main()
