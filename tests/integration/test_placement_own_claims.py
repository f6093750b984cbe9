#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pods with claims that their user wrote are placed like pods with limits, against the double of the API server.

Usage: test_placement_own_claims.py PLACEMENT_HOST [unittest arguments]
"""

import copy
import json
import unittest

from claim_case import DRIVER, ClaimCase
from daemon_driver import wait_for
from placement_case import JOBS
from placement_driver import GROUP, apply_patch, gates, indexed_pod, owner, template

LEADER_WORKER_SETS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/ns/leaderworkersets"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaimtemplates"


def claimed(pod, name="mine", request=None):
    """The pod, or the template, with a claim of that template in the place of its limits."""
    pod = copy.deepcopy(pod)
    pod["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": name}]
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpus", **({"request": request} if request else {})}]}
    return pod


class OwnClaimsTest(ClaimCase):
    def template(self, name="mine", count=8, requests=None, **devices):
        request = {"name": "of-mine", "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count}}
        self.api.add(TEMPLATES, name, spec={"spec": {"devices": {"requests": requests or [request], **devices}}})

    def begin(self, pods=4, job=True):
        self.world(2)
        if job:
            self.api.add(JOBS, "a", spec={"completionMode": "Indexed", "completions": pods, "parallelism": pods,
                                          "template": claimed(template(8, 32))})
        self.start()
        return [f"a-{i}" for i in range(pods)]

    def pod_of(self, index, name="mine", request=None):
        return claimed(indexed_pod("a", index, group=32, gated=False), name, request)

    def known(self):
        self.assertTrue(wait_for(lambda: self.review("mutate", self.pod_of(0))[1]))

    def create_own(self, name, index, **more):
        pod = self.pod_of(index, **more)
        pod = apply_patch(pod, self.review("mutate", pod)[1])
        self.add_pod(name, pod)
        self.assertEqual(pod["spec"]["resourceClaims"], [{"name": "gpus", "resourceClaimTemplateName": "gputopo-gpus-8"}])
        self.add_claim(name, "gputopo-gpus-8")
        return pod

    def test_placed_as_pods_with_limits(self):
        self.template()
        names = self.begin()
        self.known()
        for i, name in enumerate(names):
            pod = self.create_own(name, i, request="of-mine" if i else None)
            self.assertEqual(pod["spec"]["containers"][0]["resources"]["claims"],
                             [{"name": "gpus", "request": "gpus-0"} if i else {"name": "gpus"}])
        self.wait_checked(*names)

    def test_job_is_planned_from_its_object(self):
        """Its first pod is enough, though the template of its claim came after the job."""
        self.begin()
        self.template()
        self.known()
        self.create_own("a-0", 0)
        self.assertTrue(wait_for(lambda: len(self.status().get("nodes") or []) == 4), self.status())

    def test_group_is_planned_from_its_object(self):
        """The templates of a LeaderWorkerSet have names of their own."""
        self.begin(job=False)
        self.template()
        self.known()
        group = {"spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 4, "workerTemplate": claimed(template(8, "group"))}}}
        kind = ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet")
        self.assertEqual(self.review("validate", {"metadata": {"name": "a", "namespace": "ns"}, **group}, kind=kind)[0],
                         {"uid": "u", "allowed": True})
        self.api.add(LEADER_WORKER_SETS, "a", **group)
        leader = claimed({"metadata": {
            "labels": {"leaderworkerset.sigs.k8s.io/name": "a", "leaderworkerset.sigs.k8s.io/worker-index": "0"},
            "annotations": {GROUP: "group"}, "ownerReferences": [owner("apps/v1", "StatefulSet", "a", "uid-set")]},
            "spec": template(8)["spec"]})
        self.add_pod("a-0", apply_patch(leader, self.review("mutate", leader)[1]))
        self.add_claim("a-0", "gputopo-gpus-8")
        self.assertTrue(wait_for(lambda: len(self.status("leaderworkerset-a-0").get("nodes") or []) == 4), self.objects())

    def test_job_that_goes_before_its_template_comes(self):
        self.begin()
        self.api.remove(JOBS, "a")
        self.template()
        self.known()
        self.create_own("a-0", 0)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") in ("OwnerUnknown", "Planned")))
        self.assertLess(len(self.status().get("nodes") or []), 4)

    def test_template_that_is_not_there(self):
        self.begin(job=False)
        self.assertTrue(wait_for(lambda: self.refusal(self.pod_of(0)) == "the ResourceClaimTemplate mine is not there"))

    def refusal(self, pod):
        return self.review("mutate", pod)[0].get("status", {}).get("message")

    def test_what_cannot_be_planned(self):
        exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 8}
        def one(**more):
            return [{"name": "x", "exactly": {**exactly, **more}}]
        wrong = {
            "several": ({"requests": [*one(), {"name": "y", "exactly": exactly}]}, "has several requests, where one can be planned"),
            "select": ({"requests": one(selectors=[{"cel": {"expression": "true"}}])}, "has selectors, which a plan does not honour"),
            "admin": ({"requests": one(adminAccess=True)}, "asks for adminAccess, for which nothing is planned"),
            "every": ({"requests": one(allocationMode="All")}, "asks for all GPUs of a node, not for a number of them"),
            "many": ({"requests": one(count=33)}, "asks for more GPUs than a claim may have"),
            "choice": ({"requests": [{"name": "x", "firstAvailable": [{"name": "a", "deviceClassName": DRIVER, "count": 1}]}]},
                       "has alternatives (firstAvailable), where one can be planned"),
            "linked": ({"requests": one(), "constraints": [{"requests": ["x"], "matchAttribute": "gpu.metax-tech.com/linkZone"}]},
                       "has constraints, which a plan does not honour")}
        self.template()
        self.template("nic", requests=[{"name": "x", "exactly": {"deviceClassName": "nic.example.com", "count": 1}}])
        for name, (devices, _) in wrong.items():
            self.template(name, **devices)
        self.begin(job=False)
        self.known()
        for name, (_, why) in wrong.items():
            beside = self.pod_of(0, name)
            beside["spec"]["resourceClaims"].insert(0, {"name": "net", "resourceClaimTemplateName": "nic"})
            self.assertTrue(wait_for(lambda pod=beside, name=name, why=why: self.refusal(pod) == f"the ResourceClaimTemplate {name} {why}"),
                            self.refusal(beside))
            self.assertTrue(wait_for(lambda name=name, why=why: self.refusal(self.pod_of(0, name)) == f"the ResourceClaimTemplate {name} {why}"),
                            self.refusal(self.pod_of(0, name)))

    def test_pods_that_cannot_be_planned(self):
        self.template()
        self.begin(job=False)
        self.known()
        self.add_pod("other", {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "none"}]}})
        self.add_claim("other", "gputopo-gpus-1")
        limits, twice, two, shared = (self.pod_of(0) for _ in range(4))
        limits["spec"]["containers"][0]["resources"]["limits"] = {"metax-tech.com/gpu": "8"}
        twice["spec"]["containers"].append({**twice["spec"]["containers"][0], "name": "second"})
        two["spec"]["resourceClaims"].append({"name": "more", "resourceClaimTemplateName": "mine"})
        shared["spec"]["resourceClaims"] += [{"name": "one", "resourceClaimName": self.claim_name("other")}]
        for pod, why in ((limits, "it asks for GPUs by limits and by a claim"),
                         (twice, "its claim of GPUs has to be that of one container, no more and no less"),
                         (two, "it has two claims of GPUs, by the ResourceClaimTemplates mine and mine"),
                         (shared, f"it names the ResourceClaim {self.claim_name('other')}, which other pods may share: GPUs of groups are "
                                  "planned for pods that name a ResourceClaimTemplate")):
            self.assertTrue(wait_for(lambda pod=pod, why=why: self.refusal(pod) == why), self.refusal(pod))

    def judge(self, operation, **objects):
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": operation, "namespace": "ns", "kind": {"group": "batch", "version": "v1", "kind": "Job"}, **objects}}
        return self.host.order(f"validate {json.dumps(body)}")["response"]

    def test_rules_for_owners(self):
        """What breaks a rule is refused, as with limits, and may be changed where it was so before."""
        self.template()
        self.begin(job=False)
        self.known()
        broken = {"metadata": {"name": "a", "namespace": "ns"}, "spec": {
            "completionMode": "Indexed", "completions": 4, "parallelism": 4, "template": claimed(template(8, 12))}}
        self.assertIn("12", self.judge("CREATE", object=broken)["status"]["message"])
        self.assertTrue(self.judge("UPDATE", object=broken, oldObject=broken)["allowed"])

    def test_others_are_left_alone(self):
        """Pods without groups, and those whose claims are of other devices."""
        self.template()
        self.template("nic", requests=[{"name": "x", "exactly": {"deviceClassName": "nic.example.com", "count": 1}}])
        self.begin(job=False)
        self.known()
        alone = {"metadata": {"name": "alone"}, "spec": self.pod_of(0)["spec"]}
        self.assertEqual(self.review("mutate", alone), ({"uid": "u", "allowed": True}, None))
        self.assertTrue(wait_for(lambda: self.review("mutate", self.pod_of(0, "nic")) == ({"uid": "u", "allowed": True}, None)))
        beside = self.pod_of(0)
        beside["spec"]["resourceClaims"].insert(0, {"name": "net", "resourceClaimTemplateName": "nic"})
        changed = apply_patch(beside, self.review("mutate", beside)[1])
        self.assertEqual([one["resourceClaimTemplateName"] for one in changed["spec"]["resourceClaims"]], ["nic", "gputopo-gpus-8"])
        self.assertTrue(gates(changed))


if __name__ == "__main__":
    unittest.main(verbosity=2)
