#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The AdmissionCheck for Kueue, in the double of the API server. The tests do what Kueue would.

Usage: test_kueue.py GPUTOPO_SCHEDULER [unittest arguments]
"""

import copy
import datetime
import json
import shutil
import sys
import tempfile
import time
import unittest

import side_by_side
from api_double import ApiError, Status, StrictDouble
from companion_driver import NODES, SUPERNODES, TOPOLOGIES, Companion
from daemon_driver import wait_for
from kube_driver import kubeconfig
from placement_driver import indexed_pod, node_status, planned_node, resource_slice, supernode_status, template, topology

SCHEDULER = sys.argv.pop(1)
GROUP = "/apis/kueue.x-k8s.io"
KUEUE = f"{GROUP}/v1beta2"
PODS = "/api/v1/namespaces/ns/pods"
WORKLOADS, CHECKS, FLAVORS = f"{KUEUE}/namespaces/ns/workloads", f"{KUEUE}/admissionchecks", f"{KUEUE}/resourceflavors"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CONTROLLER = "topology.metax-tech.com/supernodes"
FITS, NOTHING = "2 units of 16 GPUs fit: ", "no gpu-group-size: there is nothing to check"
FULL = "2 units of 16 GPUs needed, supernodes can hold 0"


def now(ago=0):
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


class KueueDouble(StrictDouble):
    """The list of checks has their names as keys, and a version that is given is a precondition. Objects are the same in all
    versions of the API."""

    def __init__(self, folder):
        self.served = ("v1beta1", "v1beta2")
        super().__init__(folder)

    def place(self, path):  # pylint: disable=arguments-differ
        return super().place(path.replace(f"{GROUP}/v1beta1/", f"{KUEUE}/"))

    def check_identity(self, handler, request):
        super().check_identity(handler, request)
        if not request.path.startswith(f"{GROUP}/"):
            return
        if request.path.split("/")[3] not in self.served:
            raise ApiError(404, "the server could not find the requested resource")
        if request.method == "PATCH" and not request.path.startswith(f"/apis/{json.loads(request.body)['apiVersion']}/"):
            raise ApiError(400, "the API version in the data does not match the expected API version")

    def serve(self, request):
        if request.path == GROUP:
            if not self.served:
                raise ApiError(404, "the server could not find the requested resource")
            return 200, {"kind": "APIGroup", "apiVersion": "v1", "name": "kueue.x-k8s.io", "versions": [
                {"groupVersion": f"kueue.x-k8s.io/{version}", "version": version} for version in self.served]}
        return super().serve(request)

    def serve_only(self, *versions):
        """As when Kueue was replaced: watches of a version that is gone end."""
        self.served = versions
        self.cut_connections()

    def apply(self, collection, name, request):
        body = json.loads(request.body)
        if collection[2] == "admissionchecks":  # as the real one, where Kueue has written it in v1beta2
            raise ApiError(500, ".spec.retryDelayMinutes: field not declared in schema")
        if collection[2] != "workloads":
            return super().apply(collection, name, request)
        with self.lock:
            old = self.objects.get((collection, name))
            if old is None:
                raise ApiError(404, f'workloads "{name}" not found')
            if body["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
                raise ApiError(409, "the object has been modified", "Conflict")
            new = copy.deepcopy(old)
            for given in body["status"]["admissionChecks"]:
                check = next(c for c in new["status"]["admissionChecks"] if c["name"] == given["name"])
                retries = check.get("retryCount")
                check.clear()
                check.update(given, **({} if retries is None else {"retryCount": retries}))
            return self.changed_to(collection, name, old, new)


class Kueue(unittest.TestCase):
    by_claims = False
    eight = {"spec": {"devices": {"requests": [
        {"name": "mine", "exactly": {"deviceClassName": "gpu.metax-tech.com", "allocationMode": "ExactCount", "count": 8}}]}}}

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gputopo-kueue-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.api = KueueDouble(self.folder)
        self.addCleanup(self.api.stop)
        self.config = kubeconfig(f"{self.folder}/config", self.api.url, "certificate-authority: ca.crt", "token: token-1")

    def world(self, supernodes=1, nodes_each=4):
        for s in range(supernodes):
            members = [f"s{s}-n{n}" for n in range(nodes_each)]
            for node in members:
                self.api.add(NODES, node, metadata={"labels": {"kubernetes.io/hostname": node, "rack": f"s{s}"}}, status=node_status())
                self.use(node, False)
                if self.by_claims:
                    self.api.add(SLICES, node, spec=resource_slice(node))
            self.api.add(SUPERNODES, f"s{s}", status=supernode_status(members))

    def use(self, node, used=True, gpus=8):
        self.api.add(TOPOLOGIES, node, status=topology(node, gpus, used=[(gpu, "other", "pod") for gpu in range(gpus)] if used else [],
                                                       by_claims=self.by_claims))

    def add_check(self, name="supernodes", controller=CONTROLLER, **spec):
        self.api.add(CHECKS, name, metadata={"generation": 1}, spec={"controllerName": controller, **spec})

    def start(self, parts="kueue", *options):
        companion = Companion(SCHEDULER, f"--only={parts}", "--kubeconfig", self.config, "--namespace=gputopo-system", "--leader-elect=false",
                              *options)
        self.addCleanup(lambda: self.assertEqual(companion.stop(), 0, companion.lines))
        self.assertTrue(wait_for(companion.is_ready), companion.lines)
        return companion

    def add_workload(self, name, pods=4, group=16, checks=("supernodes",), reserved=True, priority=0, gpus=8, flavor=None, ago=0,
                     state="Pending", message="", **more):
        """A Workload of a Job, with its quota or without."""
        pod = template(gpus, group)
        pod["spec"] |= more
        self.api.add(WORKLOADS, name, metadata={"generation": 1, "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}]}, spec={
                "queueName": "queue", "priority": priority, "podSets": [{"name": "main", "count": pods, "template": pod}]})
        if reserved:
            self.reserve(name, checks, flavor, ago, state, message)

    def workload(self, name):
        with self.api.lock:
            return copy.deepcopy(self.api.objects[self.api.place(WORKLOADS)[0], name])

    def set_status(self, name, status):
        workload = self.workload(name)
        self.api.add(WORKLOADS, name, metadata=workload["metadata"], spec=workload["spec"], status=status)

    def reserve(self, name, checks=("supernodes",), flavor=None, ago=0, state="Pending", message="", retries=None):
        count = self.workload(name)["spec"]["podSets"][0]["count"]
        self.set_status(name, {
            "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "",
                            "lastTransitionTime": now(ago)}],
            "admission": {"clusterQueue": "cluster", "podSetAssignments": [
                {"name": "main", "count": count, **({"flavors": {"metax-tech.com/gpu": flavor}} if flavor else {})}]},
            "admissionChecks": [{"name": check, "state": state, "message": message, "lastTransitionTime": now(ago),
                                 **({} if retries is None else {"retryCount": retries})} for check in checks]})

    def evict(self, name):
        self.set_status(name, {"conditions": [
            {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "", "lastTransitionTime": now()},
            {"type": "Evicted", "status": "True", "reason": "AdmissionCheck", "message": "", "lastTransitionTime": now()}],
            "admissionChecks": [{"name": "supernodes", "state": "Pending", "message": "Reset to Pending", "lastTransitionTime": now()}]})

    def check(self, name, check="supernodes"):
        return next((c for c in self.workload(name).get("status", {}).get("admissionChecks", []) if c["name"] == check), {})

    def wait_check(self, name, state, text="", seconds=60):
        self.assertTrue(wait_for(lambda: self.check(name).get("state") == state and text in self.check(name)["message"], seconds),
                        (self.check(name), text))
        return self.check(name)

    def is_ready_after_retries(self, name):
        """Kueue evicts a Workload whose check says Retry, and lets it in again."""
        if self.check(name).get("state") == "Retry":
            self.evict(name)
            self.reserve(name)
        return self.check(name).get("state") == "Ready"

    def active(self, name="supernodes"):
        with self.api.lock:
            status = self.api.objects[self.api.place(CHECKS)[0], name].get("status", {})
        return [(c["status"], c["reason"], c["message"]) for c in status.get("conditions", []) if c["type"] == "Active"]

    # tests

    def test_people_reserve_a_supernode(self):
        """Only who it is for is let in: a namespace, or a job."""
        until = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.world()
        self.api.add(SUPERNODES, "s0", metadata={"annotations": {"metax-tech.com/reserved-until": f"{until} for=ns/Job/ours"}},
                     status=supernode_status([f"s0-n{n}" for n in range(4)]))
        self.add_check()
        self.start("placement,kueue")
        self.add_workload("theirs", ago=60)
        self.assertTrue(wait_for(lambda: self.check("theirs").get("state") == "Retry"), self.check("theirs"))
        self.assertIn("; 4 nodes are reserved by people", self.check("theirs")["message"])
        self.add_workload("ours")
        self.assertTrue(wait_for(lambda: self.check("ours").get("state") == "Ready"), self.check("ours"))

    def test_ready_and_not(self):
        """One that fits is Ready, one that does not gives its quota back, with numbers, and is asked again later and later."""
        self.world()
        self.add_check()
        self.start()
        self.assertTrue(wait_for(self.active))
        self.assertEqual(self.active()[0][:2], ("True", "Active"))
        self.add_workload("fits")
        self.assertEqual(self.wait_check("fits", "Ready")["message"], FITS + "s0")
        self.add_workload("none", group=None)
        self.assertEqual(self.wait_check("none", "Ready")["message"], NOTHING)
        for node in range(3):
            self.use(f"s0-n{node}")
        self.evict("fits")
        began = time.monotonic()
        self.reserve("fits")
        self.assertEqual(self.wait_check("fits", "Retry", FULL)["requeueAfterSeconds"], 10)
        self.assertGreater(time.monotonic() - began, 4)  # pods that were preempted for it may still be ending
        self.evict("fits")
        self.reserve("fits", retries=2)
        self.assertEqual(self.wait_check("fits", "Retry")["requeueAfterSeconds"], 40)
        self.evict("fits")
        self.reserve("fits")
        for node in range(3):
            self.use(f"s0-n{node}", False)
        self.wait_check("fits", "Ready")

    def test_claims_of_users(self):
        """Pods that ask by a ResourceClaimTemplate of their user count as those with limits."""
        self.by_claims = True
        self.world()
        self.add_check()
        self.api.add("/apis/resource.k8s.io/v1/namespaces/ns/resourceclaimtemplates", "eight", spec=self.eight)
        self.start("placement,kueue", "--claims=groups")
        by_claim = {"containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpus"}]}}],
                    "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "eight"}]}
        self.add_workload("fits", **by_claim)
        self.assertEqual(self.wait_check("fits", "Ready")["message"], FITS + "s0")
        self.add_workload("rule", group=12, **by_claim)
        self.wait_check("rule", "Rejected", "gpu-group-size 12 is not a multiple of the pod's 8 GPUs")
        self.evict("fits")
        late = {**by_claim, "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "late"}]}
        self.add_workload("late", **late)
        self.wait_check("late", "Retry", "a ResourceClaimTemplate that its pods name is not there")
        self.api.add("/apis/resource.k8s.io/v1/namespaces/ns/resourceclaimtemplates", "late", spec=self.eight)
        self.assertTrue(wait_for(lambda: self.is_ready_after_retries("late")), self.check("late"))
        self.assertIn(FITS, self.check("late")["message"])

    def test_size_of_the_object(self):
        """An annotation of the Job itself, which Kueue does not copy into the Workload."""
        self.world()
        self.add_check()
        self.api.add("/apis/batch/v1/namespaces/ns/jobs", "own", metadata={"annotations": {"metax-tech.com/gpu-group-size": "16"}}, spec={
            "completionMode": "Indexed", "parallelism": 4, "completions": 4, "template": template(8)})
        self.start("placement,kueue")
        self.add_workload("own", group=None)
        self.assertEqual(self.wait_check("own", "Ready")["message"], FITS + "s0")

    def test_preemption_is_kueues(self):
        """It is said where the companion would preempt, too, and only there."""
        self.world()
        for options, warned in ((["--preempt=true"], True), ([], False)):
            with self.subTest(options):
                companion = self.start("placement,kueue", *options)
                self.assertTrue(wait_for(lambda: any("following Kueue" in str(line) for line in companion.lines)), companion.lines)
                time.sleep(0.3)
                self.assertEqual(any("turn --preempt off" in str(line) for line in companion.lines), warned, companion.lines)

    def test_never(self):
        self.world()
        self.add_check()
        self.start()
        self.add_workload("rule", gpus=3)
        self.assertEqual(self.wait_check("rule", "Rejected")["message"], "gpu-group-size 16 is not a multiple of the pod's 3 GPUs")
        self.add_workload("strange", gpus="many")
        self.wait_check("strange", "Rejected")
        self.add_workload("large", pods=8, group=64)
        self.assertEqual(self.wait_check("large", "Retry")["message"],
                         "no supernode has more than 32 GPUs for pods of 8, a unit of 64 must lie in one: a size up to 32, or an atomic size, would do")
        for node in range(4):
            self.use(f"s0-n{node}")
        self.add_workload("full")

        def refused():
            check = self.check("full")
            if check.get("state") == "Ready":  # the companion had not seen the nodes' reports yet
                self.evict("full")
                self.reserve("full")
            return check.get("state") == "Retry" and FULL in check["message"]
        self.assertTrue(wait_for(refused), self.check("full"))

    def test_a_rack_in_repair(self):
        """What is too large only now is not rejected: the text says what is missing, and it fits when that is back."""
        self.world()
        self.add_check()
        self.start()
        self.add_workload("a", group=32)
        self.wait_check("a", "Ready")
        larger = "no supernode has more than 24 GPUs for pods of 8, a unit of 32 must lie in one: a size up to 24, or an atomic size, would do"

        def ask(more=""):
            self.evict("a")
            self.reserve("a")
            self.wait_check("a", "Retry", larger + more)

        whole = [f"s0-n{n}" for n in range(4)]
        self.api.remove(TOPOLOGIES, "s0-n3")
        ask("; s0-n3 has no NodeGPUTopology")
        self.use("s0-n3", False)
        self.api.add(SUPERNODES, "s0", status=supernode_status(whole[:2] + whole[3:]))
        ask()
        self.api.add(SUPERNODES, "s0", status=supernode_status(whole))
        self.use("s0-n1", False, gpus=7)
        ask()
        self.use("s0-n1", False)
        self.evict("a")
        self.reserve("a")
        self.wait_check("a", "Ready")

    def test_before_the_last_agent(self):
        """Nothing is rejected because an agent has not reported yet."""
        self.world()
        self.api.remove(TOPOLOGIES, "s0-n3")
        self.add_check()
        self.add_workload("a", group=32)
        self.start()
        self.wait_check("a", "Retry", "a size up to 24, or an atomic size, would do; s0-n3 has no NodeGPUTopology")
        self.use("s0-n3", False)
        self.evict("a")
        self.reserve("a")
        self.wait_check("a", "Ready")

    def versions_of(self, method):
        with self.api.lock:
            return [request.path.split("/")[3] for request in self.api.requests
                    if request.method == method and request.path.startswith(f"{GROUP}/")]

    def test_versions(self):
        """The newest version that is served and known, also after Kueue was replaced under the running companion."""
        self.world()
        self.api.served = ("v1beta1", "v1beta0")
        self.add_check()
        self.start()
        self.add_workload("old")
        self.wait_check("old", "Ready")
        self.assertTrue(wait_for(self.active))
        self.assertEqual(set(self.versions_of("PATCH")), {"v1beta1"})
        self.api.serve_only("v1beta2")
        self.evict("old")
        self.api.remove(WORKLOADS, "old")  # nobody tells of it
        self.add_workload("new")
        self.wait_check("new", "Ready", seconds=60)
        self.api.requests.clear()
        self.evict("new")
        self.reserve("new")
        self.wait_check("new", "Ready")
        self.assertEqual(set(self.versions_of("PATCH")), {"v1beta2"})

    def test_two_that_fit_alone(self):
        """The second one waits while the first one's pods are not planned; then what they have counts."""
        self.world()
        self.add_check()
        self.start("placement,kueue")
        self.add_workload("low", priority=1, ago=9)
        self.wait_check("low", "Ready")
        self.add_workload("high", priority=5)
        self.wait_check("high", "Retry", "1 Workload was let in before that will take GPUs")
        self.api.add("/apis/batch/v1/namespaces/ns/jobs", "low", spec={"completionMode": "Indexed", "completions": 4, "parallelism": 4,
                                                                       "template": template(8, 16)})
        for i in range(4):
            pod = indexed_pod("low", i, group=16)
            self.api.add("/api/v1/namespaces/ns/pods", f"low-{i}", metadata={**pod["metadata"], "creationTimestamp": now()},
                         spec=pod["spec"], status={"phase": "Pending"})
        def planned():
            with self.api.lock:
                where = self.api.place("/api/v1/namespaces/ns/pods")[0]
                return all(planned_node(self.api.objects[where, f"low-{i}"]) for i in range(4))
        self.assertTrue(wait_for(planned))
        self.evict("high")
        self.reserve("high")
        self.assertNotIn("let in before", self.wait_check("high", "Retry", FULL)["message"])

    def test_a_hold_ends(self):
        """With the quota, and with the Workload; and a new leader goes on with it."""
        self.world()
        self.add_check()
        self.add_workload("first", state="Ready", message=FITS)
        self.add_workload("old", state="Ready", message=FITS, ago=500)
        companion = self.start()
        self.add_workload("second")
        self.assertTrue(wait_for(lambda: companion.metrics().get("gputopo_kueue_held_workloads") == 1))
        time.sleep(1)
        self.assertEqual(self.check("second")["state"], "Pending")
        self.evict("first")
        self.wait_check("second", "Ready")
        self.reserve("first")
        time.sleep(1)
        self.api.remove(WORKLOADS, "second")
        self.wait_check("first", "Ready")

    def test_priority_goes_first(self):
        self.world()
        self.add_check()
        self.add_workload("low", ago=5)
        self.add_workload("high", priority=7)
        self.start()
        self.wait_check("high", "Ready")
        self.wait_check("low", "Retry")

    def test_flavors_and_selectors(self):
        self.world(2)
        self.add_check()
        self.api.add(FLAVORS, "one", spec={"nodeLabels": {"rack": "s1"}})
        self.start()
        self.add_workload("a", flavor="one")
        self.assertEqual(self.wait_check("a", "Ready")["message"], FITS + "s1")
        self.add_workload("b", flavor="one", nodeSelector={"rack": "s0"})
        self.wait_check("b", "Retry", "its node selector, affinity or tolerations exclude all 8 nodes")
        self.add_workload("c", nodeSelector={"rack": "s0"})
        self.assertEqual(self.wait_check("c", "Ready")["message"], FITS + "s0")

    def test_nodes_that_lack_memory(self):
        """A DaemonSet's pod has what the Workload's would need."""
        self.world(1, nodes_each=4)
        self.add_check()
        for n in range(4):
            status = node_status()
            status["allocatable"]["memory"] = "256Gi"
            self.api.add(NODES, f"s0-n{n}", metadata={"labels": {"kubernetes.io/hostname": f"s0-n{n}"}}, status=status)
        self.api.add(PODS, "daemon", metadata={"uid": "daemon"}, spec={"nodeName": "s0-n0", "containers": [
            {"name": "main", "resources": {"requests": {"memory": "200Gi"}}}]}, status={"phase": "Running"})
        self.start()
        needs = {"containers": [{"name": "main", "resources": {"limits": {"metax-tech.com/gpu": "8", "memory": "64Gi"}}}]}
        self.add_workload("a", **needs)
        self.wait_check("a", "Retry", "GPUs for it are free, on nodes with too little else; "
                                      "1 node lacks memory (a pod needs 64Gi, at most 56Gi is free)")
        self.api.remove(PODS, "daemon")
        self.evict("a")
        self.reserve("a")
        self.assertEqual(self.wait_check("a", "Ready")["message"], FITS + "s0")

    def test_checks_that_are_not_ours(self):
        """Each wrong object is told so, and the others go on."""
        self.world(2)
        self.add_check("foreign", "example.com/other")
        self.add_check("misspelt", "topology.metax-tech.com/supernode")
        self.add_check("parameters", parameters={"apiGroup": "example.com", "kind": "X", "name": "x"})
        self.add_check()
        self.start()
        self.add_workload("a", checks=("foreign", "misspelt", "parameters", "supernodes"))
        self.wait_check("a", "Ready")
        for other in ("foreign", "misspelt", "parameters"):
            self.assertEqual(self.check("a", other)["state"], "Pending")
        self.assertEqual(self.active("foreign"), [])
        self.assertEqual(self.active("misspelt"), [("False", "UnknownController", "spec.controllerName: there is no "
                                                    f"topology.metax-tech.com/supernode, the check is {CONTROLLER}")])
        self.assertEqual(self.active("parameters"), [("False", "BadParametersRef", "spec.parameters: this check takes none")])
        self.add_check("parameters")  # as it should be: a second one of ours
        self.assertTrue(wait_for(lambda: ("True", "Active") in [said[:2] for said in self.active("parameters")]))
        self.add_workload("b", checks=("parameters", "supernodes"))
        self.assertTrue(wait_for(lambda: self.check("b", "parameters").get("state") == self.check("b").get("state") == "Ready"))

    def test_refused_writes(self):
        self.world()
        self.api.fail(Status(403, "forbidden"), times=2, method="PATCH", path="admissionchecks")
        self.api.fail(Status(409, "modified"), times=1, method="PATCH", path="workloads")
        self.add_check()
        companion = self.start()
        self.add_workload("a")
        self.wait_check("a", "Ready")
        self.assertTrue(wait_for(self.active))
        self.assertEqual(companion.metrics()["gputopo_kueue_write_failures_total"], 2)

    def test_no_write_of_an_older_state(self):
        """A refused write waits; meanwhile the check was made right, and has that status from another replica."""
        self.api.fail(Status(403, "forbidden"), times=1, method="PATCH", path="admissionchecks")
        self.add_check(parameters={"apiGroup": "example.com", "kind": "X", "name": "x"})
        self.start()
        refused = lambda: len(self.api.asked(method="PATCH"))
        self.assertTrue(wait_for(refused))
        right = {"type": "Active", "status": "True", "reason": "Active", "message": "", "observedGeneration": 1, "lastTransitionTime": now()}
        self.api.add(CHECKS, "supernodes", metadata={"generation": 1}, spec={"controllerName": CONTROLLER}, status={"conditions": [right]})
        self.assertFalse(wait_for(lambda: refused() > 1, 7))  # which is longer than the first pause
        self.assertEqual(self.active(), [("True", "Active", "")])

    def test_kueue_comes_later(self):
        self.world()
        self.api.served = ()
        companion = self.start()
        self.assertTrue(wait_for(lambda: len(self.api.asked(path=GROUP)) > 2))
        self.add_check()
        self.add_workload("a")
        self.api.served = ("v1beta2",)
        self.wait_check("a", "Ready", seconds=60)
        self.assertEqual(companion.metrics()['gputopo_kueue_decisions_total{state="Ready"}'], 1)


if __name__ == "__main__":
    side_by_side.main()
