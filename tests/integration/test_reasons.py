#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reasons why gputopo-scheduler has a job wait that test_placement.py has no case for, as `gputopo explain` says them.

Usage: test_reasons.py GPUTOPO_SCHEDULER GPUTOPO [unittest arguments]
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

import side_by_side
from api_double import Status, StrictDouble
from companion_driver import NODES, SUPERNODES, TOPOLOGIES, Companion
from daemon_driver import wait_for
from kube_driver import kubeconfig
from placement_driver import PLAN, gates, indexed_pod, node_status, planned_node, replica, supernode_status, template, topology

SCHEDULER, GPUTOPO = sys.argv.pop(1), sys.argv.pop(1)
PODS = "/api/v1/namespaces/ns/pods"
JOBS = "/apis/batch/v1/namespaces/ns/jobs"


class Reasons(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gputopo-reasons-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.api = StrictDouble(self.folder)
        self.addCleanup(self.api.stop)
        for rack in ("r1", "r2"):
            members = [f"{rack}-n{i:02}" for i in range(32)]
            for node in members:
                self.api.add(NODES, node, metadata={"labels": {"kubernetes.io/hostname": node}}, status=node_status())
                self.api.add(TOPOLOGIES, node, status=topology(node))
            self.api.add(SUPERNODES, rack, status=supernode_status(members))

    def start(self, *options):
        config = kubeconfig(f"{self.folder}/config", self.api.url, "certificate-authority: ca.crt", "token: token-1")
        self.companion = Companion(SCHEDULER, "--only=placement,ui", "--kubeconfig", config, "--namespace=default",
                                   "--leader-elect=false", *options)
        self.addCleanup(lambda: self.assertEqual(self.companion.stop(), 0, self.companion.lines))
        self.assertTrue(wait_for(self.companion.is_ready), self.companion.lines)

    def add_job(self, name, pods, group, made=None, **more):
        """An Indexed Job, and its pods as far as they are made."""
        self.api.add(JOBS, name, spec={"completionMode": "Indexed", "completions": pods, "parallelism": pods,
                                       "template": template(8, group)})
        for i in range(pods if made is None else made):
            self.add_pod(f"{name}-{i}", **indexed_pod(name, i, group=group, **more))

    def add_pod(self, name, **what):
        self.api.add(PODS, name, status={"phase": "Pending"}, **what)

    def pod(self, name):
        with self.api.lock:
            return self.api.objects.get((self.api.place(PODS)[0], name))

    def explain(self, name):
        return subprocess.run([GPUTOPO, "explain", f"--companion=127.0.0.1:{self.companion.port}", f"ns/{name}"],
                              capture_output=True, text=True, check=False).stdout

    def expect(self, name, *lines):
        """A job comes to say this."""
        wait_for(lambda: lines[-1] in self.explain(name))
        said = self.explain(name).splitlines()
        for line in lines:
            self.assertTrue([one for one in said if line in one], said)

    def events(self):
        with self.api.lock:
            return [(o["regarding"]["name"], o["type"], o["reason"], o["note"])
                    for (where, _), o in self.api.objects.items() if where[2] == "events"]

    def condition(self, name):
        return next((c["reason"] for c in self.pod(name)["status"].get("conditions", []) if c["type"] == "GPUPlacement"), None)

    def test_not_tried(self):
        """A round of tries in vain rests for a while: who comes then stands in line."""
        elsewhere = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In",
                                   "values": [f"x{i}" for i in range(4000)]}]}]}}}
        self.start()
        said = ""
        for i in range(200):  # the more wait, the longer a round takes
            if i < 60:
                self.add_job(f"slow{i}", 1, 8, affinity=elsewhere)
            self.add_job(f"late{i}", 1, 8)
            said = wait_for(lambda name=f"late{i}": self.explain(name))
            if "NotTried" in said:
                break
        self.assertRegex(said, r"It waits for room, for \d+ s, number")
        self.assertIn("  NotTried: it is not yet first in the queue\n", said)
        self.assertTrue(wait_for(lambda: not gates(self.pod(f"late{i}-0"))), said)
        self.assertIsNone(self.condition(f"late{i}-0"), "explain alone says it")

    def test_no_memory(self):
        """It is told as what it is, and tried again though nothing changes."""
        self.start()
        pid = self.companion.process.pid
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        if size > 1 << 40:
            self.skipTest("a sanitizer's address space has no limit")
        resource.prlimit(pid, resource.RLIMIT_AS, (size + (3 << 20), resource.RLIM_INFINITY))
        self.add_job("huge", 131072, 8, made=1)  # its pods take megabytes
        self.expect("huge", "It waits for room", "Failed: job: Cannot allocate memory")
        self.add_job("small", 1, 8)
        self.assertTrue(wait_for(lambda: not gates(self.pod("small-0"))))
        self.assertIsNone(self.condition("huge-0"), "explain alone says it")
        resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.expect("huge", "ReserveLimit: 1 of its 131072 pods are there, and 1048568 GPUs would be reserved for the others")

    def test_unit_torn(self):
        self.start()
        self.add_job("torn", 3, 24, made=0)
        for i, node in enumerate(("r1-n00", "r2-n00", None)):
            where = {"gated": False, "nodeName": node} if node else {}
            self.add_pod(f"torn-{i}", **indexed_pod("torn", i, group=24, **where))
        self.expect("torn", "UnitTorn: unit 0: running pods of one unit of 24 GPUs lie in different supernodes")
        self.assertTrue(wait_for(lambda: self.condition("torn-2") == "UnitTorn"))

    def test_owner_unknown(self):
        self.start()
        self.add_pod("early-0", **indexed_pod("early", 0, group=8))
        self.expect("early", "It is not planned yet",
                    "OwnerUnknown: the object that makes its pods is not known: more pods may come")
        self.assertTrue(wait_for(lambda: self.condition("early-0") == "OwnerUnknown"))

    def test_no_group(self):
        self.start()
        for name, kind, note, atomic in (
                ("plain", "Normal", "no gpu-group-size: there is nothing to plan", None),
                ("atoms", "Warning", "atomic-gpu-group-size does nothing without gpu-group-size: the job is left alone", 8)):
            self.api.add(JOBS, name, spec={"completionMode": "Indexed", "completions": 1, "parallelism": 1,
                                           "template": template(8, None, atomic)})
            self.add_pod(f"{name}-0", **indexed_pod(name, 0))
            self.assertTrue(wait_for(lambda who=f"{name}-0": not gates(self.pod(who))))
            self.assertTrue(wait_for(lambda want=(name, kind, "NoGroup", note): want in self.events()), self.events())

    # -- volumes --

    def add_volume(self, name, *nodes):
        self.api.add("/api/v1/persistentvolumes", name, spec={"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]}]}}})

    def add_claim(self, name, **spec):
        self.api.add("/api/v1/namespaces/ns/persistentvolumeclaims", name, spec=spec)

    @staticmethod
    def volume(claim):
        return {"name": "data", "persistentVolumeClaim": {"claimName": claim}}

    def planned(self, name):
        self.assertTrue(wait_for(lambda: planned_node(self.pod(name))), self.explain(name.rsplit("-", 1)[0]))
        return planned_node(self.pod(name))

    def test_each_pod_goes_to_its_disk(self):
        """Each pod of a job has a claim of its own, bound to a disk of one node; one that is not there may have any."""
        for i, node in enumerate(("r1-n05", "r1-n03")):
            self.add_volume(f"disk-{i}", node)
            self.add_claim(f"data-disks-{i}", volumeName=f"disk-{i}")
        self.start()
        self.add_job("first", 1, 8)
        self.planned("first-0")  # the controller has begun
        self.add_job("disks", 3, 24, made=0)
        for i in range(2):
            self.add_pod(f"disks-{i}", **indexed_pod("disks", i, group=24, volumes=[self.volume(f"data-disks-{i}")]))
        self.assertEqual([self.planned(f"disks-{i}") for i in range(2)], ["r1-n05", "r1-n03"])

    def test_a_volume_where_there_is_no_room(self):
        """The job says so; when its claim is made again elsewhere, it goes there."""
        self.add_volume("there", "elsewhere")
        self.add_claim("shared", volumeName="there")
        self.start()
        self.add_job("shared", 2, 16, volumes=[self.volume("shared")])
        self.expect("shared", "PodRules", "the volumes or devices of its pods can be used on some nodes only")
        self.add_volume("here", "r2-n01", "r2-n07")
        self.add_claim("shared", volumeName="here")
        self.assertEqual({self.planned(f"shared-{i}") for i in range(2)}, {"r2-n01", "r2-n07"})

    def test_more_pods_with_disks_than_are_told_apart(self):
        """Those beyond are placed as if they had none, not all where the last one has its disk."""
        nodes = [f"r1-n{i:02}" for i in range(32)]
        for i in range(72):
            self.add_volume(f"disk-{i}", nodes[i % 32])
            self.add_claim(f"data-disks-{i}", volumeName=f"disk-{i}")
        self.start()
        self.api.add(JOBS, "disks", spec={"completionMode": "Indexed", "completions": 72, "parallelism": 72,
                                          "template": template(2, 144)})
        for i in range(72):
            self.add_pod(f"disks-{i}", **indexed_pod("disks", i, gpus=2, group=144, volumes=[self.volume(f"data-disks-{i}")]))
        planned = [self.planned(f"disks-{i}") for i in range(72)]
        self.assertEqual(planned[:63], [nodes[i % 32] for i in range(63)])
        self.assertTrue(set(planned) <= set(nodes))

    def test_many_volumes(self):
        """Most can be used on the same nodes; the last one decides."""
        for i in range(100):
            self.add_volume(f"v{i}", *(("r2-n07",) if i == 99 else ("r2-n01", "r2-n07", "r2-n09")))
            self.add_claim(f"c{i}", volumeName=f"v{i}")
        self.start()
        self.add_job("many", 1, 8, volumes=[{**self.volume(f"c{i}"), "name": f"d{i}"} for i in range(100)])
        self.assertEqual(self.planned("many-0"), "r2-n07")

    def test_a_volume_to_be_made(self):
        """Where its class allows it."""
        self.api.add("/apis/storage.k8s.io/v1/storageclasses", "zonal", volumeBindingMode="WaitForFirstConsumer", allowedTopologies=[
            {"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["r2-n04"]}]}])
        self.start()
        self.add_job("new", 1, 8, volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
        self.expect("new", "PodRules", "claims of its pods, of volumes or devices, are missing or not bound yet")
        self.add_claim("new-0-scratch", storageClassName="zonal")
        self.assertEqual(self.planned("new-0"), "r2-n04")

    def add_driver(self, limit, *nodes):
        for node in nodes:
            self.api.add("/apis/storage.k8s.io/v1/csinodes", node,
                         spec={"drivers": [{"name": "disks.csi", "nodeID": node, "allocatable": {"count": limit}}]})

    def test_nodes_with_as_many_volumes_as_they_can_have(self):
        """Each pod takes two volumes of its own, which are made with it, of three that a node can have: the pods get nodes of their own,
        and none where a pod without GPUs has two. A job that finds no other node says so, and goes on when that pod is gone."""
        nodes = [f"{rack}-n{i:02}" for rack in ("r1", "r2") for i in range(32)]
        self.api.add("/apis/storage.k8s.io/v1/storageclasses", "disks", provisioner="disks.csi", volumeBindingMode="WaitForFirstConsumer")
        self.add_driver(3, *nodes[:2], *nodes[3:])
        self.add_driver(1, nodes[2])
        for i in range(2):
            self.api.add("/api/v1/persistentvolumes", f"there-{i}", spec={"csi": {"driver": "disks.csi", "volumeHandle": f"there-{i}"}})
            self.add_claim(f"there-{i}", volumeName=f"there-{i}")
        self.add_pod("there", spec={"nodeName": nodes[0], "containers": [{"name": "main"}], "volumes": [
            {**self.volume(f"there-{i}"), "name": f"v{i}"} for i in range(2)]})
        self.start()
        self.api.add(JOBS, "own", spec={"completionMode": "Indexed", "completions": 4, "parallelism": 4, "template": template(2, 8)})
        for i in range(4):
            for k in range(2):
                self.add_claim(f"disk-{k}-own-{i}", storageClassName="disks")
            self.add_pod(f"own-{i}", **indexed_pod("own", i, gpus=2, group=8, volumes=[
                {**self.volume(f"disk-{k}-own-{i}"), "name": f"v{k}"} for k in range(2)]))
        planned = {self.planned(f"own-{i}") for i in range(4)}
        self.assertEqual(len(planned), 4)
        self.assertFalse(planned & {nodes[0], nodes[2]})
        self.add_claim("new", storageClassName="disks")
        self.add_claim("newer", storageClassName="disks")
        self.add_job("only", 1, 8, volumes=[{**self.volume(name), "name": name} for name in ("new", "newer")],
                     nodeSelector={"kubernetes.io/hostname": nodes[0]})
        self.expect("only", "PodRules", "cannot take what such a pod needs of disks.csi beside what is in use there")
        self.api.remove("/api/v1/namespaces/ns/pods", "there")
        self.assertEqual(self.planned("only-0"), nodes[0])

    def test_devices_of_another_driver(self):
        """Two nodes have cards of another driver, two each; one is given away. Pods that get one each from a template fill the two nodes as far
        as they have some, a further one waits, and a pod whose claim has its card goes there."""
        claims = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"
        cards = {"devices": {"requests": [{"name": "card", "exactly": {"deviceClassName": "cards", "count": 1}}]}}
        result = {"request": "card", "driver": "cards.example", "device": "a"}
        self.api.add("/apis/resource.k8s.io/v1/deviceclasses", "cards", spec={"selectors": [
            {"cel": {"expression": "device.driver == 'cards.example'"}}]})
        for node in ("r1-n01", "r1-n02"):
            self.api.add("/apis/resource.k8s.io/v1/resourceslices", node, spec={"driver": "cards.example", "nodeName": node, "pool": {
                "name": node, "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "a"}, {"name": "b"}]})
        self.api.add("/apis/resource.k8s.io/v1/namespaces/ns/resourceclaimtemplates", "card", spec={"spec": cards})
        self.api.add(claims, "given", spec=cards, status={"allocation": {
            "devices": {"results": [{**result, "pool": "r1-n02"}]}, "nodeSelector": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["r1-n02"]}]}]}}})
        self.start()
        self.api.add(JOBS, "carded", spec={"completionMode": "Indexed", "completions": 3, "parallelism": 3, "template": template(2, 6)})
        for i in range(3):
            self.add_pod(f"carded-{i}", **indexed_pod("carded", i, gpus=2, group=6, resourceClaims=[
                {"name": "card", "resourceClaimTemplateName": "card"}]))
        self.assertEqual(sorted(self.planned(f"carded-{i}") for i in range(3)), ["r1-n01", "r1-n01", "r1-n02"])
        self.add_job("late", 1, 8, resourceClaims=[{"name": "card", "resourceClaimTemplateName": "card"}])
        self.expect("late", "PodRules", "64 nodes cannot take what such a pod needs of cards.example beside what is in use there")
        self.api.add(JOBS, "there", spec={"completionMode": "Indexed", "completions": 1, "parallelism": 1, "template": template(2, 2)})
        self.add_pod("there-0", **indexed_pod("there", 0, gpus=2, group=2, resourceClaims=[{"name": "card", "resourceClaimName": "given"}]))
        self.assertEqual(self.planned("there-0"), "r1-n02")
        self.api.add("/apis/resource.k8s.io/v1/resourceslices", "r2-n05", spec={"driver": "cards.example", "nodeName": "r2-n05", "pool": {
            "name": "r2-n05", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "a"}]})
        self.assertEqual(self.planned("late-0"), "r2-n05")
        for node in ("r2-n09", "r2-n10"):
            self.api.add("/apis/resource.k8s.io/v1/resourceslices", node, spec={"driver": "cards.example", "nodeName": node, "pool": {
                "name": node, "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "a"}]})
        self.api.add(claims, "both", spec=cards)  # two pods that fill a node each share it: its card can be on one node only
        self.add_job("pair", 2, 16, resourceClaims=[{"name": "card", "resourceClaimName": "both"}])
        self.expect("pair", "PodRules", "on nodes where rules of pods do not allow it")

    def test_labels_of_namespaces(self):
        """Anti-affinity to the pods of Namespaces with a label: r1-n01 has one, r1-n02 one of another Namespace."""
        for name, team in (("near", "a"), ("far", "b")):
            self.api.add("/api/v1/namespaces", name, metadata={"labels": {"team": team}})
        for namespace, node in (("near", "r1-n01"), ("far", "r1-n02")):
            self.api.add(f"/api/v1/namespaces/{namespace}/pods", "other", status={"phase": "Running"}, metadata={"labels": {"app": "x"}},
                         spec={"nodeName": node, "containers": [{"name": "main"}]})
        self.start()
        self.add_job("first", 1, 8)
        self.planned("first-0")
        rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "namespaceSelector": {"matchLabels": {"team": "a"}},
             "topologyKey": "kubernetes.io/hostname"}]}}
        only = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["r1-n01", "r1-n02"]}]}]}}}
        self.add_job("apart", 1, 8, affinity={**rule, **only})
        self.assertEqual(self.planned("apart-0"), "r1-n02")

    def test_volumes_that_may_not_be_listed(self):
        """Said in the log, and plans are made as if there were none; nothing is asked before a pod has a claim."""
        self.api.fail(Status(403, "forbidden"), times=1 << 30, method="GET", path="persistentvolumeclaims$")
        self.add_volume("disk", "elsewhere")
        self.start()
        self.add_job("plain", 1, 8)
        self.planned("plain-0")
        self.assertFalse(self.companion.events("plans do not consider where pods can use their volumes"))
        self.add_job("with", 1, 8, volumes=[self.volume("data")])
        self.planned("with-0")
        said = self.companion.events("plans do not consider where pods can use their volumes")
        self.assertEqual([line["resource"] for line in said], ["persistentvolumeclaims"])
        self.assertTrue(self.companion.is_ready())

    def test_moves_that_are_suggested(self):
        """Explain and the page have the command, as the Event has it."""
        for rack, movable in (("r1", "true"), ("r2", "false")):
            made = replica(f"x-{rack}", uid=f"x{rack}", gated=False)
            made["metadata"]["annotations"] = {"metax-tech.com/movable": movable}
            made["spec"]["nodeName"] = f"{rack}-n00"
            self.api.add(PODS, f"x-{rack}", **{**made, "status": {"phase": "Running"}})
            self.api.add(TOPOLOGIES, f"{rack}-n00", status=topology(f"{rack}-n00", used=[(gpu, "ns", f"x-{rack}") for gpu in range(8)]))
        self.start("--patience=1")
        self.add_job("wide", 32, 256)
        self.expect("wide", "it fits when 1 pod of 1 job with 8 GPUs moves: kubectl delete pod -n ns x-r1")
        notes = [note for _, _, reason, note in self.events() if reason == "MovesSuggested"]
        self.assertTrue(notes and all("kubectl delete pod -n ns x-r1" in note for note in notes), notes)
        [told] = [job for job in json.loads(self.companion.get("/ui/state")[1])["jobs"] if job["name"] == "wide"]
        self.assertIn("kubectl delete pod -n ns x-r1", json.dumps(told))

    def test_quotas_that_may_not_be_listed(self):
        """Said in the log, and nobody waits for them; as soon as they may be, they count."""
        self.api.fail(Status(403, "resourcequotas is forbidden"), times=1 << 30, method="GET", path="resourcequotas$")
        self.api.add("/api/v1/namespaces/ns/resourcequotas", "q", spec={"hard": {"requests.metax-tech.com/gpu": "8"}})
        self.start()
        said = self.companion.events("GPUs are reserved for pods that do not exist as if there were no quota")
        self.assertEqual([(line["resource"], "403" in line["error"]) for line in said], [("resourcequotas", True)])
        self.add_job("first", 1, 8)
        self.assertTrue(wait_for(lambda: not gates(self.pod("first-0"))))  # the controller has begun
        self.add_job("free", 2, 16, made=1)
        self.assertTrue(wait_for(lambda: not gates(self.pod("free-0"))), self.explain("free"))
        self.api.faults.clear()
        self.assertTrue(wait_for(lambda: self.companion.events("follows again")), self.companion.lines)
        self.add_job("late", 2, 16, made=1)
        self.expect("late", "QuotaExceeded: quota q of its namespace allows 8 GPUs: 24 are used, ")

    def test_audit(self):
        """What the planner did not do and somebody did: told of the pod and its owner, in the metric, until it is gone."""
        def forged(name, index, node, gpus, planned=None):
            what = indexed_pod(name, index, gpus=gpus, group=2 * gpus, gated=False, nodeName=node)
            ids = [f"GPU-{planned or node}-{i}" for i in range(gpus)]
            what["metadata"]["annotations"].update({f"{PLAN}node": planned or node, f"{PLAN}gpus": json.dumps({"main": ids}),
                                                    f"{PLAN}unit": "0", f"{PLAN}rank": str(index)})
            self.add_pod(f"{name}-{index}", **what)

        def findings():
            told = self.companion.metrics()
            return [told[f'gputopo_placement_findings{{kind="{kind}"}}'] for kind in ("UnitTorn", "DoublePlanned", "Misplaced")]

        self.start()
        self.assertEqual(findings(), [0, 0, 0])
        for index, node in enumerate(("r1-n00", "r2-n00")):
            forged("torn", index, node, 8)
        for name in ("one", "two"):
            forged(name, 0, "r1-n01", 4)
        forged("moved", 0, "r1-n02", 4, planned="r1-n03")
        self.assertTrue(wait_for(lambda: findings() == [1, 1, 1]), findings())
        for reason, pod, note in (
                ("UnitTorn", "torn-0", "unit 0 of job ns/Job/torn is in two supernodes: rank 0, pod torn-0, on node r1-n00 in r1; "
                 "rank 1, pod torn-1, on node r2-n00 in r2"),
                ("DoublePlanned", "two-0", "GPUs 0-3 of node r1-n01 are in the plans of two pods, ns/two-0 and ns/one-0"),
                ("Misplaced", "moved-0", "pod ns/moved-0 is on node r1-n02, its plan is for node r1-n03")):
            for name in (pod, pod[:-2]):
                self.assertTrue(wait_for(lambda want=(name, "Warning", reason, note): want in self.events()), self.events())
            self.assertIn((reason, note), [(line["reason"], line["what"]) for line in self.companion.events("a placement is wrong")])
        for name in ("torn-1", "one-0", "moved-0"):
            self.api.remove(PODS, name)
        self.assertTrue(wait_for(lambda: findings() == [0, 0, 0]), findings())

    def test_unplaced(self):
        """Pods that came while nobody gated them: the size on the pods, on the job alone, or given later."""
        def run(name, group=None, annotations=None):
            self.api.add(JOBS, name, metadata={"annotations": annotations or {}}, spec={
                "completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": template(8)})
            for index, node in enumerate(("r1-n00", "r2-n00") if name == "own" else ("r1-n01", "r2-n01")):
                self.add_pod(f"{name}-{index}", **indexed_pod(name, index, uid=f"uid-{name}", group=group, gated=False, nodeName=node))

        def unplaced():
            return self.companion.metrics()['gputopo_placement_findings{kind="Unplaced"}']

        size = "metax-tech.com/gpu-group-size"
        run("own", group=16)
        run("meta", annotations={size: "16"})
        run("none")
        self.start()
        self.assertTrue(wait_for(lambda: unplaced() == 4), unplaced())
        for name, node in (("own", "r1-n00"), ("meta", "r1-n01")):
            note = (f"pod ns/{name}-0 runs on node {node} without a plan, though its job ns/Job/{name} has gpu-group-size 16: its units may "
                    "lie apart. The webhook did not see the pod, or the size was set later")
            self.assertTrue(wait_for(lambda want=(f"{name}-0", "Warning", "Unplaced", note): want in self.events()), self.events())
            self.assertTrue(wait_for(lambda who=name: [e for e in self.events() if e[0] == who and e[2] == "Unplaced"]), self.events())
            self.assertEqual(len([e for e in self.events() if e[0] == name]), 1, "one Event for the owner")
            told = self.explain(name)
            self.assertIn("in units of 16", told)
            self.assertIn("Unplaced: 2 of its pods run without a plan, though it has a group size", told)
            self.assertEqual(told.count("(without a plan)"), 2, told)
        self.assertNotIn("Unplaced", self.explain("none"))
        jobs = {job["name"]: job for job in json.loads(self.companion.get("/debug/model")[1])["jobs"]}
        self.assertEqual([(jobs[name]["unplaced"], jobs[name]["settled"], jobs[name]["reason"], jobs[name]["groupSize"])
                          for name in ("own", "meta", "none")],
                         [(2, False, "Unplaced", "16"), (2, False, "Unplaced", "16"), (0, True, None, None)])
        self.api.add(JOBS, "none", metadata={"annotations": {size: "16"}}, spec={
            "completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": template(8)})
        self.assertTrue(wait_for(lambda: unplaced() == 6), unplaced())
        for name in ("own", "meta", "none"):
            self.api.remove(PODS, f"{name}-0")
            self.api.remove(PODS, f"{name}-1")
        self.assertTrue(wait_for(lambda: unplaced() == 0), unplaced())


side_by_side.main()
