# SPDX-License-Identifier: Apache-2.0
"""Runs placement-host for the tests, and makes the objects of their clusters."""

import json
import subprocess
import threading
import time

from daemon_driver import PATIENCE

GATE = "metax-tech.com/gpu-placement"
GROUP = "metax-tech.com/gpu-group-size"
ATOMIC = "metax-tech.com/atomic-gpu-group-size"
LOSS = "metax-tech.com/on-node-loss"
RESOURCE = "metax-tech.com/gpu"
PLAN = "plan.topology.metax-tech.com/"
TOPOLOGY_API = "topology.metax-tech.com/v1alpha1"


class Host:
    """A running placement-host."""

    def __init__(self, program, config, **options):
        self.process = subprocess.Popen(
            [program, "--kubeconfig", config, *(f"{k}={v}" for k, v in options.items())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.notes, self.answers = [], []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            said = json.loads(line)
            with self.changed:
                (self.notes if "note" in said else self.answers).append(said)
                self.changed.notify_all()

    def order(self, text, timeout=PATIENCE):
        with self.changed:
            before = len(self.answers)
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
            end = time.monotonic() + timeout
            while len(self.answers) == before:
                left = end - time.monotonic()
                if left <= 0 or self.process.poll() is not None:
                    raise AssertionError(f"no answer to {text[:60]}: {self.process.poll()}")
                self.changed.wait(min(left, 1))
            return self.answers[before]

    def job(self, key):
        return self.order(f"job {key}")

    def counters(self):
        return self.order("counters")

    def kill(self):
        self.process.kill()
        self.process.stdin.close()
        return self._end()

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        return self._end()

    def _end(self):
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(PATIENCE)
        lines = self.process.stderr.read().splitlines(keepends=True)
        self.warned = [line for line in lines if " warning cannot watch " in line]  # as the companion logs it
        errors = "".join(line for line in lines if line not in self.warned)
        self.process.stdout.close()
        self.process.stderr.close()
        return self.process.returncode, errors


def topology(name, gpus=8, used=(), unhealthy=(), by_claims=False, why=""):
    """The status of a NodeGPUTopology: one mesh of direct links; `used` are (gpu, namespace, pod)."""
    taken = {gpu for gpu, _, _ in used} | set(unhealthy)
    return {
        "name": name,
        "gpus": [{"index": i, "uuid": f"GPU-{name}-{i}", "bdf": f"0000:{i + 1:02x}:00.0", "product": "MXC550",
                  "numaNode": 0, "mode": "native", "healthy": i not in unhealthy, "zone": 1,
                  **({"unhealthyReason": why} if why and i in unhealthy else {})} for i in range(gpus)],
        "links": [{"a": a, "b": b, "kind": "MX", "pathKind": "NODE", "state": "up", "weight": 64}
                  for b in range(1, gpus) for a in range(b)],
        "free": [i for i in range(gpus) if i not in taken],
        "owners": [{"gpu": gpu, "namespace": namespace, "pod": pod, "container": "main"}
                   for gpu, namespace, pod in used],
        "missing": [],
        **({"conditions": [{"type": "Registered", "status": "True", "reason": "DriverRegistered"}]} if by_claims else {}),
    }


def resource_slice(node, gpus=range(8), tainted=(), generation=1, slices=1):
    """The spec of a ResourceSlice as the node's agent writes it."""
    taint = {"taints": [{"key": "gpu.metax-tech.com/unhealthy", "value": "x", "effect": "NoSchedule"}]}
    return {"driver": "gpu.metax-tech.com", "nodeName": node, "pool": {"name": node, "generation": generation, "resourceSliceCount": slices},
            "devices": [{"name": f"gpu-0000-{i + 1:02x}-00-0", **(taint if i in tainted else {})} for i in gpus]}


def node_status(gpus=8):
    return {"capacity": {RESOURCE: str(gpus)}, "allocatable": {RESOURCE: str(gpus)},
            "conditions": [{"type": "Ready", "status": "True", "reason": "x", "message": "x",
                            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}


def supernode_status(members, tier=1):
    return {"tier": tier, "source": "config", "members": [{"node": node} for node in members],
            "nodes": len(members)}


def pod_spec(gpus=8, gated=True, **more):
    spec = {"containers": [{"name": "main", "image": "none", "resources": {"limits": {RESOURCE: str(gpus)}}}],
            **more}
    if gated:
        spec["schedulingGates"] = [{"name": GATE}, *spec.get("schedulingGates", [])]
    return spec


def template(gpus=8, group=None, atomic=None, loss=None):
    annotations = {**({GROUP: str(group)} if group else {}), **({ATOMIC: str(atomic)} if atomic else {}),
                   **({LOSS: loss} if loss else {})}
    return {"metadata": {"annotations": annotations, "labels": {"app": "x"}},
            "spec": {**pod_spec(gpus, gated=False), "restartPolicy": "Never"}}


def owner(api_version, kind, name, uid, controller=True):
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
            **({"controller": True} if controller else {})}


def indexed_pod(job, index, uid="uid-job", gpus=8, group=None, gated=True, **more):
    """The pod of an Indexed Job: metadata and spec."""
    key = "batch.kubernetes.io/job-completion-index"
    return {"metadata": {"labels": {"batch.kubernetes.io/job-name": job, key: str(index)},
                         "annotations": {key: str(index), **({GROUP: str(group)} if group else {})},
                         "ownerReferences": [owner("batch/v1", "Job", job, uid)]},
            "spec": pod_spec(gpus, gated, **more)}


def statefulset_pod(name, index, uid="uid-set", gpus=8, gated=True):
    return {"metadata": {"labels": {"apps.kubernetes.io/pod-index": str(index)},
                         "ownerReferences": [owner("apps/v1", "StatefulSet", name, uid)]},
            "spec": pod_spec(gpus, gated)}


def replica(name, uid="uid-rs", gpus=8, gated=True):
    """A pod of a ReplicaSet: its name tells no rank."""
    return {"metadata": {"labels": {"app": name}, "ownerReferences": [owner("apps/v1", "ReplicaSet", name, uid)]},
            "spec": pod_spec(gpus, gated)}


def pytorch_pod(job, role, index, uid="uid-pytorch", gpus=8, gated=True):
    return {"metadata": {"labels": {"training.kubeflow.org/job-name": job,
                                    "training.kubeflow.org/replica-type": role,
                                    "training.kubeflow.org/replica-index": str(index)},
                         "ownerReferences": [owner("kubeflow.org/v1", "PyTorchJob", job, uid)]},
            "spec": pod_spec(gpus, gated)}


def planned_node(pod):
    return pod["metadata"].get("annotations", {}).get(PLAN + "node")


def required_nodes(pod):
    """The nodes that its required affinity names by field."""
    terms = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    return [field["values"] for term in terms for field in term.get("matchFields", [])]


def gates(pod):
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]


def apply_patch(obj, operations):
    """A JSON patch of "add" and "remove" operations."""
    obj = json.loads(json.dumps(obj))
    for operation in operations:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        at = obj
        for part in way:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if operation["op"] == "remove":
            del at[last]
        elif isinstance(at, list):
            at.append(operation["value"])
        else:
            at[last] = operation["value"]
    return obj
