# SPDX-License-Identifier: Apache-2.0
"""A cluster whose GPUs are given by claims, in the double of the API server."""

import json

from api_double import ApiError
from placement_case import PlacementCase, PodDouble
from placement_driver import PLAN, apply_patch, indexed_pod, planned_node, required_nodes

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"
DRIVER = "gpu.metax-tech.com"
GROUPS = 1  # of enum gt_claims


class ClaimDouble(PodDouble):
    """Beyond the double: an allocation does not change, it goes and comes; a status alone, or all but that, is written."""

    def changed_to(self, collection, name, old, new):
        if self.patching and collection[2] == "resourceclaims":
            if self.patching[1]:
                new["metadata"] = {**old["metadata"], "resourceVersion": new["metadata"]["resourceVersion"]}
            else:
                new["status"] = old.get("status", {})
            before, after = old.get("status", {}).get("allocation"), new.get("status", {}).get("allocation")
            if before and after and before != after:
                raise ApiError(422, "status.allocation: field cannot be modified once set")
        return super().changed_to(collection, name, old, new)


class ClaimCase(PlacementCase):
    double = ClaimDouble
    by_claims = True

    def start(self, **options):
        return super().start(**{"claims": GROUPS, "claims_settle": 50, **options})

    def claim_name(self, pod):
        return f"{pod}-gputopo-gpus-x"

    def add_claim(self, pod, template):
        """As the claim controller makes it from a template."""
        counts = [int(count) for count in template.removeprefix("gputopo-gpus-").split("-")]
        self.api.add(CLAIMS, self.claim_name(pod), metadata={"ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": self.pod(pod)["metadata"]["uid"], "controller": True}]},
            spec={"devices": {"requests": [{"name": f"gpus-{i}", "exactly": {"deviceClassName": DRIVER, "count": count}}
                                           for i, count in enumerate(counts)]}}, status={})

    def create(self, name, index, job="a", group=32, claim=True):
        """As the API server makes a pod of a job: it asks the webhook first."""
        pod = indexed_pod(job, index, group=group, gated=False)
        pod = apply_patch(pod, self.review("mutate", pod)[1])
        self.add_pod(name, pod)
        [used] = pod["spec"]["resourceClaims"]
        self.assertEqual(used["name"], "gputopo-gpus")
        self.assertNotIn("metax-tech.com/gpu", pod["spec"]["containers"][0]["resources"]["limits"])
        if claim:
            self.add_claim(name, used["resourceClaimTemplateName"])

    def claim(self, pod):
        with self.api.lock:
            collection, _, _ = self.api.place(CLAIMS + "/x")
            return self.api.objects.get((collection, self.claim_name(pod)))

    def results(self, name):
        return ((self.claim(name) or {}).get("status", {}).get("allocation") or {}).get("devices", {}).get("results", [])

    def allocate(self, name, node, *devices):
        """As somebody else; GPUs by index, composites by name."""
        found = self.claim(name)
        self.api.add(CLAIMS, self.claim_name(name), **{k: v for k, v in found.items() if k not in ("apiVersion", "kind")} | {
            "status": {"allocation": {"devices": {"results": [
                {"request": "gpus-0", "driver": DRIVER, "pool": node, "device": one if isinstance(one, str) else self.device(one)}
                for one in devices]}}}})

    @staticmethod
    def device(gpu):
        return f"gpu-0000-{gpu + 1:02x}-00-0"

    def check(self, *names):
        """Each claim has just the GPUs of its pod's plan, and no GPU is in two of them."""
        seen = []
        for name in names:
            pod, claim = self.pod(name), self.claim(name)
            planned = [i for ids in json.loads(pod["metadata"]["annotations"][PLAN + "gpus"]).values() for i in ids]
            node = planned_node(pod)
            self.assertEqual(required_nodes(pod), [[node]])
            allocation = claim["status"]["allocation"]
            results = allocation["devices"]["results"]
            self.assertEqual([(one["driver"], one["pool"]) for one in results], [(DRIVER, node)] * len(planned))
            self.assertEqual([one["device"] for one in results], [self.device(int(i.rsplit("-", 1)[1])) for i in planned])
            self.assertEqual([term["matchFields"][0]["values"] for term in allocation["nodeSelector"]["nodeSelectorTerms"]], [[node]])
            self.assertRegex(allocation["allocationTimestamp"], r"^20\d\d-.*Z$")
            self.assertEqual(claim["metadata"]["finalizers"], ["resource.kubernetes.io/delete-protection"])
            seen += [(node, one["device"]) for one in results]
        self.assertEqual(len(set(seen)), len(seen))

    def wait_checked(self, *names):
        self.wait_lifted(*names)
        self.check(*names)
