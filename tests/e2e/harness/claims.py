# SPDX-License-Identifier: Apache-2.0
"""A cluster whose GPUs are offered by Dynamic Resource Allocation, and its claims."""
import json
import subprocess

from . import pods
from .account import Account
from .install import DAEMONSET
from .node import Node
from .waiting import Failed, same, until

DRIVER = "gpu.metax-tech.com"
POOL = "resource.k8s.io/v1"
OBJECTS = ("base/namespace.yaml", "crds/nodegputopologies.yaml", "base/rbac.yaml", "base/policy.yaml", "components/dra/dra.yaml")


def template(name, count, **request):
    """A ResourceClaimTemplate of so many GPUs."""
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count, **request}
    return {"apiVersion": POOL, "kind": "ResourceClaimTemplate", "metadata": {"name": name},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}}}


def claim(name, count):
    made = template(name, count)
    return {**made, "kind": "ResourceClaim", "spec": made["spec"]["spec"]}


def claiming(name, template=None, claim=None):
    """A pod of one show-devices container with such a claim."""
    pod = pods.manifest(name, 0)
    which = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    pod["spec"]["resourceClaims"] = [{"name": "gpus", **which}]
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    return pod


class DraNode(Node):
    """A node whose agent writes with a token of its own, narrowed by the policies that operators get."""

    def __init__(self, cluster, build, recording, number=1):
        super().__init__(cluster, build, recording, number)
        token = cluster.kubectl("create", "token", "gputopo-agent", "-n", "gputopo-system", "--duration=8h",
                                "--bound-object-kind=Node", f"--bound-object-name=node{number}")
        self.account = Account(cluster, f"gputopo-agent-node{number}", token)
        self.cdi = cluster.state / f"node{number}" / "cdi"
        self.names = {self.device_name(gpu): gpu["index"] for gpu in self.machine.gpus}

    @staticmethod
    def device_name(gpu):
        return "gpu-" + gpu["bdf"].replace(":", "-").replace(".", "-")

    def options(self, advertise="dra", *more):
        return ("--kubeconfig", self.account.file, f"--advertise={advertise}", "--cdi-dir", self.cdi, *more)

    def start(self, advertise="dra", *more):
        self.agent.start(*self.options(advertise, *more))

    def slices(self):
        return [item for item in self.cluster.get("resourceslices")["items"]
                if item["spec"]["driver"] == DRIVER and item["spec"].get("nodeName") == f"node{self.number}"]

    def offered(self):
        """The indices of single GPUs in the order of the slice; None while there is none."""
        slices = [one for one in self.slices() if "sharedCounters" not in one["spec"]]
        return [self.names[device["name"]] for device in slices[0]["spec"].get("devices", []) if device["name"] in self.names] if slices else None

    def claim_of(self, pod):
        """The claim of the pod, also the one that the scheduler makes for plain limits; None while there is none."""
        made = self.cluster.get("pod", pod)
        status = made["status"]
        names = [one.get("resourceClaimName") for one in made["spec"].get("resourceClaims", [])]
        names += [one.get("resourceClaimName") for one in status.get("resourceClaimStatuses", [])]
        names.append(status.get("extendedResourceClaimStatus", {}).get("resourceClaimName"))
        names = [name for name in names if name]
        return self.cluster.get("resourceclaim", names[0]) if names else None

    def allocated(self, claim):
        results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        return sorted(self.names[result["device"]] for result in results)

    def check_held(self, pod, container="c0"):
        """Prepared and seen are the same; returns the indices."""
        held = self.prepared().get(self.claim_of(pod)["metadata"]["name"], [])
        seen = self.seen(pod, container)
        same(seen.made_up(), self.machine.expected_nodes(held), f"device nodes in {pod}, against what is prepared for it")
        uuids = [pods_uuid for pods_uuid in seen.env.get("METAX_GPU_UUIDS", "").split(",") if pods_uuid]
        same(self.machine.indices(uuids), held, f"UUIDs told to {pod}")
        return held

    def check_claimed(self, pod, container="c0"):
        """Planned, prepared and seen are the same; returns the indices."""
        planned = self.allocated(self.claim_of(pod))
        same(self.check_held(pod, container), planned, f"GPUs of {pod}, against its claim")
        return planned

    def state(self):
        return json.loads((self.cluster.kubelet_dir(self.number) / "plugins" / DRIVER / "claims.json").read_text())

    def prepared(self):
        """{claim: indices} as the agent keeps it on disk."""
        return {one["name"]: sorted(self.names[device["device"]] for device in one["devices"]) for one in self.state()["claims"]}

    def specs(self):
        """The UIDs of claims that have a CDI spec."""
        return {path.name[len("metax-tech.com-gpu-claim-"):-len(".json")]
                for path in self.cdi.glob("metax-tech.com-gpu-claim-*.json")}

    def published(self):
        """{pod: indices}, and the free ones, in the NodeGPUTopology."""
        status = self.cluster.get("ngt", f"node{self.number}").get("status", {})
        owners = {}
        for one in status.get("owners", []):
            owners.setdefault(one["pod"], []).append(one["gpu"])
        return {pod: sorted(gpus) for pod, gpus in owners.items()}, status.get("free")


def install(cluster):
    """Everything that an operator applies, but the DaemonSet."""
    for name in OBJECTS:
        try:
            cluster.kubectl("apply", "--server-side", "-f", DAEMONSET / name)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{name}: {late}") from late
    until("the service account", lambda: cluster.get("serviceaccounts", "-n", "gputopo-system")["items"])
