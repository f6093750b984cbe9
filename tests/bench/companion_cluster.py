# SPDX-License-Identifier: Apache-2.0
"""An API server of a large cluster: lists of made-up nodes, topologies, pods and jobs, everything else as the double of
the tests has it."""

import json
import os
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))
from api_double import Status, StrictDouble  # noqa: E402
from placement_driver import GROUP, PLAN, RESOURCE, TOPOLOGY_API  # noqa: E402

GPUS, PER_SUPERNODE, PER_JOB = 8, 16, 8
TOPOLOGIES, NODES, PODS = f"/apis/{TOPOLOGY_API}/nodegputopologies", "/api/v1/nodes", "/api/v1/pods"
JOBS = "/apis/kubeflow.org/v1/pytorchjobs"
VERSION = "100"
TIME = "2026-01-31T12:00:00Z"


def node_name(n):
    return f"gpu-node-{n:05}"


def uuid(n, gpu):
    return f"GPU-{n:08x}-5a5a-4b4b-8c8c-0123456789{gpu:02x}"


def managed(manager, paths):
    fields = {f"f:section{i}": {".": {}, f'k:{{"type":"Condition{i}"}}': {
        ".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:reason": {}, "f:status": {}}} for i in range(paths)}
    return {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": TIME, "fieldsType": "FieldsV1",
            "fieldsV1": fields}


class Cluster:
    """Pod p is the p % 8th of job p // 8; those below `asking` ask for a GPU, and have one while there are any."""

    def __init__(self, nodes, pods, asking):
        self.nodes, self.pods, self.asking = nodes, pods, asking
        self.jobs = asking // PER_JOB
        # Nodes in every state of use, from empty to full, as far as the pods go.
        self.used, at, left = [[] for _ in range(nodes)], 0, min(asking, nodes * GPUS)
        self.place, pod = {}, 0
        wanted = [(5 * n) % (GPUS + 1) for n in range(nodes)]
        share = left / max(1, sum(wanted))
        for n in range(nodes):
            at += wanted[n] * share if share <= 1 else GPUS * left / (nodes * GPUS)
            while pod < min(left, round(at)) and len(self.used[n]) < GPUS:
                self.place[pod] = (n, len(self.used[n]))
                self.used[n].append(pod)
                pod += 1
        self.spec_of_pod = self._pod_text()

    def counts(self):
        return {TOPOLOGIES: self.nodes, NODES: self.nodes, PODS: self.pods, JOBS: self.jobs}

    def item(self, path, i):
        return {TOPOLOGIES: self.topology, NODES: self.node, PODS: self.pod, JOBS: self.job}[path](i)

    def topology(self, n):
        first = n - n % PER_SUPERNODE
        owners = [{"gpu": gpu, "namespace": f"team-{pod // PER_JOB % 50}", "pod": self.pod_name(pod), "container": "main"}
                  for gpu, pod in enumerate(self.used[n])]
        status = {"name": node_name(n), "gpus": [
            {"index": g, "uuid": uuid(n, g), "bdf": f"0000:{g + 1:02x}:00.0", "product": "MXC550", "numaNode": g // 4,
             "mode": "native", "healthy": True, "zone": 1} for g in range(GPUS)],
            "links": [{"a": a, "b": b, "kind": "MX", "pathKind": "NODE", "state": "up", "weight": 64}
                      for b in range(1, GPUS) for a in range(b)],
            "nics": [], "missing": [], "owners": owners, "free": list(range(len(owners), GPUS)), "gpuCount": GPUS,
            "healthyCount": GPUS, "freeCount": GPUS - len(owners), "observedAt": TIME,
            "supernode": {"uuid": f"server-{n}", "remote": [f"server-{m}" for m in range(first, first + PER_SUPERNODE)
                                                            if m != n and m < self.nodes]},
            "conditions": [{"type": "LinksHealthy", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": TIME}]}
        return json.dumps({"metadata": {"name": node_name(n), "uid": f"t-{n}", "resourceVersion": VERSION,
                                        "managedFields": [managed("gputopo-agent", 12)]}, "status": status})

    def node(self, n):
        labels = {"kubernetes.io/hostname": node_name(n), "topology.kubernetes.io/zone": f"zone-{n % 8}",
                  **{f"feature.example.com/some-property-{i}": f"value-{i}" for i in range(25)}}
        return json.dumps({
            "metadata": {"name": node_name(n), "uid": f"n-{n}", "resourceVersion": VERSION, "labels": labels,
                         "managedFields": [managed("kubelet", 20)]}, "spec": {},
            "status": {"capacity": {RESOURCE: "8"}, "allocatable": {RESOURCE: "8"}, "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastTransitionTime": TIME}],
                "images": [{"names": [f"example/some/image-{i}:v1.2.{i}"], "sizeBytes": 1000003 * i} for i in range(30)]}})

    @staticmethod
    def pod_name(p):
        return f"pretrain-{p // PER_JOB}-worker-{p % PER_JOB}"

    @staticmethod
    def _pod_text():
        """The part that is the same in all of them, about 6 KB, with a place for the resources."""
        return json.dumps({
            "volumes": [{"name": f"volume-{i}", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}} for i in range(4)],
            "containers": [{"name": "main", "image": "example/train:1.0", "command": ["python3", "train.py"], "env": [
                {"name": f"SETTING_{i}", "value": f"some value of an ordinary length {i * 7919}"} for i in range(20)],
                "resources": {"limits": {"cpu": "16", "memory": "64Gi", "@gpu@": "1"}},
                "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent"}],
            "restartPolicy": "Never", "schedulerName": "volcano", "priority": 0, "enableServiceLinks": True,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                             "tolerationSeconds": 300}], "nodeName": "@node@"})

    def pod(self, p):
        job, asks = p // PER_JOB, p < self.asking
        metadata = {"namespace": f"team-{job % 50}", "name": self.pod_name(p), "uid": f"{p:08x}-1111-4222-8333-444455556666",
                    "resourceVersion": VERSION, "creationTimestamp": TIME, "labels": {"app": "pretrain"},
                    "managedFields": [managed("training-operator", 12), managed("kubelet", 6)]}
        place = self.place.get(p)
        if asks:
            metadata["ownerReferences"] = [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": f"pretrain-{job}",
                                            "uid": f"j-{job}", "controller": True}]
            metadata["labels"].update({"training.kubeflow.org/job-name": f"pretrain-{job}",
                                       "training.kubeflow.org/replica-type": "worker",
                                       "training.kubeflow.org/replica-index": str(p % PER_JOB)})
            metadata["annotations"] = {GROUP: "8"}
        if asks and place:
            metadata["annotations"].update({
                PLAN + "node": node_name(place[0]), PLAN + "rank": str(p % PER_JOB), PLAN + "unit": "0",
                PLAN + "gpus": json.dumps({"main": [uuid(*place)]})})
        spec = self.spec_of_pod.replace('"@gpu@"', f'"{RESOURCE}"' if asks else '"example.com/nic"')
        bound = place or not asks
        spec = spec.replace('"@node@"', f'"{node_name(place[0] if place else p % self.nodes)}"' if bound else '""')
        return (f'{{"metadata":{json.dumps(metadata)},"spec":{spec},'
                f'"status":{{"phase":"{"Running" if bound else "Pending"}","conditions":[{{"type":"PodScheduled",'
                f'"status":"{bound}","lastTransitionTime":"{TIME}"}}]}}}}')

    @staticmethod
    def job(j):
        return json.dumps({
            "metadata": {"namespace": f"team-{j % 50}", "name": f"pretrain-{j}", "uid": f"j-{j}", "resourceVersion": VERSION,
                         "creationTimestamp": TIME, "managedFields": [managed("kubectl", 6)]},
            "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": PER_JOB, "restartPolicy": "Never", "template": {
                "metadata": {"annotations": {GROUP: "8"}}, "spec": {"containers": [
                    {"name": "main", "image": "example/train:1.0", "resources": {"limits": {RESOURCE: "1"}}}]}}}}}})


class LargeDouble(StrictDouble):
    def __init__(self, folder, cluster):
        self.cluster = cluster
        self.counts = cluster.counts()
        self.bytes_out = 0
        super().__init__(folder)

    def take_fault(self, request):
        path = urllib.parse.unquote(request.path)
        if request.method != "GET" or request.watch or path not in self.counts:
            return super().take_fault(request)
        begin, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 500)
        end = min(begin + limit, self.counts[path])
        more = f',"continue":"{end}"' if end < self.counts[path] else ""
        items = ",".join(self.cluster.item(path, i) for i in range(begin, end))
        body = f'{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{VERSION}"{more}}},"items":[{items}]}}'
        self.bytes_out += len(body)
        return Status(200, body=body.encode())
