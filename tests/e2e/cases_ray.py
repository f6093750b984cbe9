# SPDX-License-Identifier: Apache-2.0
"""RayClusters, RayJobs and RayServices by KubeRay's operator. No Ray runs in their pods, which is why no job and no service gets ready."""
import json

from harness.placed import GATE, gpus_of, pod_template
from harness.waiting import Failed, same, until

NAME, GROUP = "ray.io/cluster", "ray.io/group"


def group(name, pods, size):
    return {"groupName": name, "replicas": pods, "minReplicas": 0, "maxReplicas": 64, "rayStartParams": {}, "template": pod_template(8, group=size)}


def cluster(*groups, head=0):
    return {"headGroupSpec": {"rayStartParams": {}, "template": pod_template(head)}, "workerGroupSpecs": list(groups)}


def on(pod):
    return pod["metadata"]["name"], pod["spec"]["nodeName"]


class RayCases:
    def __init__(self, placed, operator, report):
        self.placed, self.cluster, self.operator, self.report = placed, placed.cluster, operator, report

    def create(self, kind, **spec):
        self.placed.create({"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "demo", "namespace": "default"}, "spec": spec})

    def check_group(self, name, group, pods, size):
        racks = self.placed.check_placed(self.placed.bound(f"{NAME}={name},{GROUP}={group}", pods), size)
        return f"{group} in racks {', '.join(racks)}"

    def runs(self):
        self.operator.start()

    def example(self):
        [manifest] = self.placed.example("raycluster.yaml", lambda spec: [
            spec["headGroupSpec"]["template"], *(one["template"] for one in spec["workerGroupSpecs"])])
        self.placed.create(manifest)
        return self.check_group("demo", "workers", 8, 32)

    def two_groups(self):
        """Each with a size of its own, beside a head with GPUs, which is no part of them."""
        self.create("RayCluster", **cluster(group("big", 8, 32), group("small", 4, 16), head=4))
        told = [self.check_group("demo", "big", 8, 32), self.check_group("demo", "small", 4, 16)]
        [head] = self.placed.bound(f"{NAME}=demo,{GROUP}=headgroup", 1)
        same(gpus_of(head), 4, "GPUs of the head")
        same([one for one in head["spec"].get("schedulingGates", []) if one["name"] == GATE], [], "gates of the head")
        until("the cluster to be ready", lambda: self.cluster.get("raycluster", "demo")["status"].get("state") == "ready")
        return "; ".join(told)

    def replicas(self, pods):
        self.cluster.kubectl("patch", "raycluster", "demo", "--type=json", "-p",
                             f'[{{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": {pods}}}]')

    def autoscaler(self, replicas, *workers):
        """What Ray's autoscaler asks for, by the account that KubeRay makes for the head: replicas, and the pods that go."""
        self.cluster.kubectl("patch", "raycluster", "demo", "--type=json", "--as=system:serviceaccount:default:demo", "-p", json.dumps([
            {"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": replicas},
            {"op": "replace", "path": "/spec/workerGroupSpecs/0/scaleStrategy", "value": {"workersToDelete": workers}}]))


    def scaled(self):
        """By a whole unit; less than that is refused. What runs stays where it is."""
        self.create("RayCluster", **cluster(group("big", 4, 32)))
        before = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in self.placed.bound(f"{NAME}=demo,{GROUP}=big", 4)}
        self.replicas(8)
        told = self.check_group("demo", "big", 8, 32)
        after = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in self.placed.pods(f"{NAME}=demo,{GROUP}=big").values()}
        same({name: after.get(name) for name in before}, before, "where the first unit runs")
        try:
            self.replicas(10)
        except Failed as refusal:
            if "are not a multiple of gpu-group-size 32" not in str(refusal):
                raise
            return told
        raise Failed("a group of 10 pods with units of 4 was admitted")

    @staticmethod
    def of_hosts(replicas, hosts):
        """A group that the autoscaler changes: each of its replicas has so many pods."""
        return {**group("big", replicas, 32), "numOfHosts": hosts, "scaleStrategy": {"workersToDelete": []}}

    def autoscaled(self):
        """A replica is a whole unit: one comes, the first one goes, and another one comes; what runs stays where it is."""
        try:
            self.create("RayCluster", enableInTreeAutoscaling=True, **cluster(self.of_hosts(2, 2)))
        except Failed as refusal:
            if "it is scaled by 2 pods at a time, which is not a multiple of the 4 pods of a unit" not in str(refusal):
                raise
        else:
            raise Failed("a group whose replicas are half a unit was admitted")
        self.create("RayCluster", enableInTreeAutoscaling=True, **cluster(self.of_hosts(1, 4)))
        selector = f"{NAME}=demo,{GROUP}=big"
        first = self.placed.bound(selector, 4)
        racks = self.placed.check_placed(first, 32)
        self.autoscaler(2)
        both = self.placed.bound(selector, 8)
        racks = self.placed.check_placed(both, 32)
        same({on(pod) for pod in first} <= {on(pod) for pod in both}, True, "the first unit stays")
        self.autoscaler(1, *(pod["metadata"]["name"] for pod in first))
        left = self.placed.bound(selector, 4)
        same({on(pod) for pod in left}, {on(pod) for pod in both} - {on(pod) for pod in first}, "what is left is the second unit")
        self.autoscaler(2)
        again = self.placed.bound(selector, 8)
        racks += self.placed.check_placed(again, 32)
        same({on(pod) for pod in left} <= {on(pod) for pod in again}, True, "the second unit stays")
        return f"units in racks {', '.join(racks[:2])}, then {', '.join(racks[2:])}"

    def by_another(self, kind, **spec):
        """A RayCluster, which that object makes under another name."""
        self.create(kind, **spec)
        [made] = until("its RayCluster", lambda: self.cluster.get("rayclusters", "-n", "default")["items"])
        return self.check_group(made["metadata"]["name"], "big", 8, 32)

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        if case("KubeRay's operator 1.5.1 runs", self.runs):
            case("the example's RayCluster, units of 32", self.example)
            case("a RayCluster, units of 32 in one group, of 16 in the other, its head with GPUs", self.two_groups)
            case("a group of a RayCluster gets one more unit", self.scaled)
            case("a RayCluster whose autoscaler adds and removes units of 32", self.autoscaled)
            case("a RayJob, units of 32", lambda: self.by_another(
                "RayJob", entrypoint="true", rayClusterSpec=cluster(group("big", 8, 32))))
            case("a RayService, units of 32", lambda: self.by_another(
                "RayService", serveConfigV2="applications: []", rayClusterConfig=cluster(group("big", 8, 32))))
        self.placed.clean()
