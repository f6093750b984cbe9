# SPDX-License-Identifier: Apache-2.0
"""The manual's other two jobs: the PyTorchJob by Kubeflow's training operator, the ElasticJob with the pods that its
operator makes."""
import json

from harness.cluster import built
from harness.placed import IMAGE, rack_of
from harness.report import quick
from harness.schedulers import DlroverMaster
from harness.waiting import Failed, same, until

DLROVER = "elasticjob.dlrover"
JOB = f"{DLROVER}/name"
WORKERS = f"{JOB}=pytorch-demo,{DLROVER}/replica-type=worker"


def definition(kind):
    """Of dlrover's, with any content."""
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{kind.lower()}s.elastic.iml.github.io"},
            "spec": {"group": "elastic.iml.github.io", "scope": "Namespaced",
                     "names": {"plural": f"{kind.lower()}s", "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
                     "versions": [{"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}},
                                   "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


class OperatorCases:
    def __init__(self, placed, operator, report):
        self.placed, self.operator, self.cluster, self.report = placed, operator, placed.cluster, report

    # PyTorchJob

    @quick
    def pytorch(self, atomic=None):
        [manifest] = self.placed.example("pytorchjob.yaml", lambda spec: [
            one["template"] for one in spec["pytorchReplicaSpecs"].values()], atomic)
        self.placed.create(manifest)
        selector = "training.kubeflow.org/job-name=pytorch-demo"
        pods = self.placed.bound(selector, 8)
        racks = self.placed.check_placed(pods, 32, atomic)
        same([pod["metadata"]["name"] for pod in pods],
             ["pytorch-demo-master-0", *(f"pytorch-demo-worker-{at}" for at in range(7))], "pods in the order of ranks")
        for at, pod in enumerate(pods):
            env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0].get("env", [])}
            same(env.get("RANK"), str(at), f"what the operator gives {pod['metadata']['name']}")
        return f"units in racks {', '.join(racks)}"

    def pytorch_too_big(self):
        [manifest] = self.placed.example("pytorchjob.yaml", lambda spec: [one["template"] for one in spec["pytorchReplicaSpecs"].values()])
        specs = manifest["spec"]["pytorchReplicaSpecs"]
        specs["Worker"]["replicas"] = 15
        specs["Master"]["template"]["metadata"]["annotations"]["metax-tech.com/gpu-group-size"] = "128"
        self.placed.create(manifest)
        selector = "training.kubeflow.org/job-name=pytorch-demo"
        why = self.placed.waits(selector, "NeverFits", "128")
        until("its pods", lambda: len(self.placed.pods(selector)) == 16)
        self.placed.untouched(self.placed.pods(selector))
        return why

    def pytorch_odd(self):
        """What breaks a rule is refused where the job is made, not when its pods hang."""
        [manifest] = self.placed.example("pytorchjob.yaml", lambda spec: [one["template"] for one in spec["pytorchReplicaSpecs"].values()])
        manifest["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["metadata"]["annotations"][
            "metax-tech.com/gpu-group-size"] = "24"
        try:
            self.placed.create(manifest)
        except Failed as refusal:
            if "gpu-group-size" not in str(refusal):
                raise
            return str(refusal).split(": ", 1)[-1][-200:]
        raise Failed("a PyTorchJob with a group of 24 was admitted")

    # ElasticJob

    @staticmethod
    def elastic_worker(made, number, rank, relaunched=0):
        """As dlrover's master makes it: its owner is the ElasticJob, which does not control it."""
        name, spec = made["metadata"]["name"], made["spec"]["replicaSpecs"]["worker"]
        owner = {"apiVersion": made["apiVersion"], "kind": "ElasticJob", "name": name, "uid": made["metadata"]["uid"],
                 "blockOwnerDeletion": True}
        labels = {"app": "dlrover", JOB: name, f"{DLROVER}/replica-type": "worker", f"{DLROVER}/replica-index": str(number),
                  f"{DLROVER}/rank-index": str(rank), f"{DLROVER}/relaunch-count": str(relaunched)}
        pod = json.loads(json.dumps(spec["template"]))
        own = pod["metadata"]
        own.update(name=f"{name}-edljob-worker-{number}", namespace="default", ownerReferences=[owner],
                   labels={**own.get("labels", {}), **labels})
        pod["spec"]["restartPolicy"] = "Never"
        for container in pod["spec"]["containers"]:
            count = str(spec["replicas"])
            container["env"] = [{"name": key, "value": value} for key, value in (
                ("NODE_RANK", str(rank)), ("NODE_NUM", count), ("RANK", str(rank)), ("WORLD_SIZE", count), ("WORKER_RANK", str(rank)))]
        return {"apiVersion": "v1", "kind": "Pod", **pod}

    @staticmethod
    def elastic_master(made):
        """As dlrover's operator makes it: it is controlled by the ElasticJob, has no rank, and wants no GPU."""
        name = made["metadata"]["name"]
        owner = {"apiVersion": made["apiVersion"], "kind": "ElasticJob", "name": name, "uid": made["metadata"]["uid"],
                 "controller": True, "blockOwnerDeletion": True}
        return {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": f"elasticjob-{name}-dlrover-master-0", "namespace": "default", "ownerReferences": [owner],
                             "labels": {"app.kubernets.io/name": "elasticjob", JOB: name,  # dlrover writes it so
                                        f"{DLROVER}/replica-type": "dlrover-master", f"{DLROVER}/replica-index": "0"}},
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "nodeSelector": {"pool": "hollow"},
                         "automountServiceAccountToken": False,
                         "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "Never"}]}}

    def elastic(self, atomic=None):
        """dlrover's master creates pods by four threads: they come in any order."""
        [manifest] = self.placed.example("elasticjob.yaml", lambda spec: [spec["replicaSpecs"]["worker"]["template"]], atomic)
        made = self.placed.create(manifest)
        workers = [self.elastic_worker(made, number, number) for number in (2, 0, 3, 1, 6, 7, 4, 5)]
        self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": [
            self.elastic_master(made), *workers]})
        pods = self.placed.bound(WORKERS, 8)
        racks = self.placed.check_placed(pods, 32, atomic)
        for at, pod in enumerate(pods):
            same(pod["metadata"]["labels"][f"{DLROVER}/rank-index"], str(at), "rank")
        master = self.cluster.get("pod", "elasticjob-pytorch-demo-dlrover-master-0")
        same(master["spec"].get("schedulingGates"), None, "gates of dlrover's own master")
        self.relaunched(made, pods[5])
        return f"units in racks {', '.join(racks)}"

    def relaunched(self, made, lost):
        """A worker that is made again keeps its rank, has another name, and returns to its unit."""
        self.cluster.kubectl("delete", "pod", lost["metadata"]["name"], "--wait")
        self.placed.create(self.elastic_worker(made, 8, 5, relaunched=1))
        again = self.placed.bound(WORKERS, 8)[5]
        same(again["metadata"]["name"], "pytorch-demo-edljob-worker-8", "the pod of rank 5")
        same(rack_of(again["spec"]["nodeName"]), rack_of(lost["spec"]["nodeName"]), "its rack")

    def elastic_by_dlrover(self):
        """The workers are made by dlrover's own master; one that is deleted is made again by it, and comes home."""
        [packages] = built("dlrover")
        [manifest] = self.placed.example("elasticjob.yaml", lambda spec: [spec["replicaSpecs"]["worker"]["template"]])
        self.placed.create(manifest)
        master = DlroverMaster(self.cluster, packages, "pytorch-demo")
        master.start()
        try:
            pods = self.placed.bound(WORKERS, 8)
            racks = self.placed.check_placed(pods, 32)
            same([pod["metadata"]["labels"][f"{DLROVER}/rank-index"] for pod in pods], [str(at) for at in range(8)], "ranks")
            lost = pods[5]
            self.cluster.kubectl("delete", "pod", lost["metadata"]["name"], "--wait")
            again = self.placed.bound(WORKERS, 8)[5]
            same(again["metadata"]["labels"][f"{DLROVER}/rank-index"], "5", "the rank of the one made again")
            same(rack_of(again["spec"]["nodeName"]), rack_of(lost["spec"]["nodeName"]), "its rack")
        finally:
            master.stop()
        return f"units in racks {', '.join(racks)}; {lost['metadata']['name']} became {again['metadata']['name']}"

    @quick
    def prepare(self):
        for kind in ("ElasticJob", "ScalePlan"):
            self.cluster.kubectl("apply", "--server-side", "-f", "-", data=definition(kind))
            self.cluster.kubectl("wait", "--for=condition=Established", "crd", definition(kind)["metadata"]["name"], "--timeout=290s")
        self.operator.start()

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        runs = case("Kubeflow's training operator runs", self.prepare)
        if runs:
            case("the manual's PyTorchJob, units of 32", self.pytorch)
            case("the same with atoms of 16", lambda: self.pytorch(16))
            case("a PyTorchJob whose unit no rack holds: nothing is placed", self.pytorch_too_big)
            case("a PyTorchJob that breaks a rule is refused", self.pytorch_odd)
            case("the manual's ElasticJob, units of 32", self.elastic)
            case("the same with atoms of 16, by Volcano", lambda: self.elastic(16))
        self.placed.clean()
        return runs
