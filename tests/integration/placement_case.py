# SPDX-License-Identifier: Apache-2.0
"""A cluster in the double of the API server, and the placement controller on it, for the tests of both."""

import base64
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import unittest

from api_double import ApiDouble, ApiError
from daemon_driver import PATIENCE, wait_for
from kube_driver import kubeconfig
from placement_driver import (PLAN, Host, gates, indexed_pod, node_status, planned_node, resource_slice, supernode_status, template,
                              topology)

HOST = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
PODS = "/api/v1/namespaces/ns/pods"
TOPOLOGIES = "/apis/topology.metax-tech.com/v1alpha1/nodegputopologies"
SUPERNODES = "/apis/topology.metax-tech.com/v1alpha1/supernodes"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PLACEMENTS = "/apis/topology.metax-tech.com/v1alpha1/namespaces/ns/gpuplacements"
JOBS = "/apis/batch/v1/namespaces/ns/jobs"
SETS = "/apis/apps/v1/namespaces/ns/statefulsets"
PYTORCH = "/apis/kubeflow.org/v1/namespaces/ns/pytorchjobs"


class PodDouble(ApiDouble):
    """Beyond the double: a patch's uid and resourceVersion are preconditions, a subresource changes the status and
    metadata alone, and gates are only removed, as in the real one (test_placement_real.py)."""

    def changed_to(self, collection, name, old, new):
        if self.patching:
            given, status = self.patching
            for key in ("uid", "resourceVersion"):
                if given.get("metadata", {}).get(key, old["metadata"][key]) != old["metadata"][key]:
                    raise ApiError(409, f'Operation cannot be fulfilled on {collection[2]} "{name}": {key} has changed')
        if self.patching and collection[2] == "pods":
            if status:
                new["spec"] = old["spec"]
            else:
                new["status"] = old.get("status", {})
                had = gates(old)
                if any(gate not in had for gate in gates(new)):
                    raise ApiError(422, "spec.schedulingGates: Forbidden: only deletion is allowed")
                if old["spec"].get("affinity") != new["spec"].get("affinity") and not had:
                    raise ApiError(422, "spec: Forbidden: pod updates may not change fields")
        if self.patching:
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        return super().changed_to(collection, name, old, new)

    patching = None
    meddle = None     # is called before a write is served
    hold_back = None  # and this one before it is answered

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.evicted = []
        self.finished = []  # (path, status) of writes, in the order in which they were served

    def serve(self, request):
        if request.method == "GET":
            return self.served(request)
        if self.meddle:
            self.meddle(request)
        code = 0
        try:
            code, body = self.served(request)
        except ApiError as error:
            code = error.code
            raise
        finally:
            self.finished.append((request.path, code))
        if self.hold_back:
            self.hold_back(request)
        return code, body

    budget = None  # (name) -> why it must not go, or None

    def evict(self, request):
        collection, name, _ = self.place(request.path)
        obj, body = self.objects.get((collection, name)), json.loads(request.body)
        if body["apiVersion"] != "policy/v1" or body["kind"] != "Eviction" or body["metadata"]["name"] != name:
            raise ApiError(400, "no Eviction")
        if not obj:
            raise ApiError(404, f'pods "{name}" not found')
        if body["deleteOptions"]["preconditions"]["uid"] != obj["metadata"]["uid"]:
            raise ApiError(409, "the UID in the precondition does not match")
        refusal = self.budget and self.budget(name)
        if refusal:
            raise ApiError(429, refusal)
        if request.query.get("dryRun") == "All":
            return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        self.evicted.append(name)
        self.add(request.path.rsplit("/", 2)[0], name, **{
            k: v for k, v in obj.items() if k not in ("apiVersion", "kind")} | {
            "metadata": {**obj["metadata"], "deletionTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30))}})
        return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def served(self, request):
        with self.lock:
            self.patching = None
            if request.method == "POST" and request.path.endswith("/eviction"):
                return self.evict(request)
            if request.method == "PATCH":
                self.patching = (json.loads(request.body), request.path.endswith("/status"))
            elif request.method == "DELETE" and request.body:
                collection, name, _ = self.place(request.path)
                wants = json.loads(request.body).get("preconditions", {})
                old = self.objects.get((collection, name))
                if old and any(old["metadata"][k] != v for k, v in wants.items()):
                    raise ApiError(409, "the precondition does not hold")
            return super().serve(request)


class PlacementCase(unittest.TestCase):
    double = PodDouble
    by_claims = False  # how the agents give GPUs

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.api = self.double(self.folder)
        self.addCleanup(self.api.stop)
        self.config = kubeconfig(f"{self.folder}/config", self.api.url, "certificate-authority: ca.crt",
                                 "token: token-1")
        self.host = None
        self.nodes = []

    def tearDown(self):
        if self.host:
            code, errors = self.host.close()
            self.assertEqual((code, errors), (0, ""))

    def begin_again(self):
        """An empty API server and no companion, where an earlier subtest has used them."""
        if self.host:
            self.host.close()
            self.api.stop()
            self.setUp()

    def start(self, answer_s=PATIENCE, **options):
        self.host = Host(HOST, self.config, **{"settle": 300, "owner": 300, "gang": 300, "retry": 1000, "request": 1000, "brake": 100, **options})
        self.assertTrue(self.host.order("start", answer_s)["started"])
        return self.host

    def world(self, supernodes, nodes_each=4, gpus=8):
        """Supernodes s0, s1... of nodes s0-n0, s0-n1..."""
        for s in range(supernodes):
            members = [f"s{s}-n{n}" for n in range(nodes_each)]
            for node in members:
                self.api.add("/api/v1/nodes", node, metadata={"labels": {"kubernetes.io/hostname": node}},
                             spec={}, status=node_status(gpus))
                self.api.add(TOPOLOGIES, node, status=topology(node, gpus, by_claims=self.by_claims))
                if self.by_claims:
                    self.offer_slice(node, range(gpus))
            self.api.add(SUPERNODES, f"s{s}", status=supernode_status(members))
            self.nodes += members

    def add_silent(self, *nodes):
        """Nodes that are not Ready, so that the brake is on."""
        for node in nodes:
            status = node_status()
            status["conditions"][0].update(status="Unknown")
            self.api.add("/api/v1/nodes", node, spec={}, status=status)
            self.api.add(TOPOLOGIES, node, status=topology(node))

    def offer_slice(self, node, gpus, **more):
        self.api.add(SLICES, f"{node}-gpu.metax-tech.com", spec=resource_slice(node, gpus, **more))

    def add_pod(self, name, pod):
        self.api.add(PODS, name, **{"status": {"phase": "Pending"}, **pod, "metadata": {
            "creationTimestamp": "2026-01-01T00:00:00Z", **pod["metadata"]}})

    def pod(self, name):
        with self.api.lock:
            collection, _, _ = self.api.place(PODS + "/x")
            return self.api.objects.get((collection, name))

    def is_lifted(self, *names):
        return all(pod and not gates(pod) for pod in [self.pod(name) for name in names])

    def wait_lifted(self, *names, seconds=PATIENCE):
        if not wait_for(lambda: self.is_lifted(*names), seconds):
            self.fail(f"not lifted: {[(n, self.pod(n)) for n in names if not self.is_lifted(n)]}, "
                      f"{self.host.counters()}, {self.host.notes[-5:]}")

    def bind(self, name):
        """As a scheduler and the node's agent would: onto its planned node, with its planned GPUs."""
        pod = self.pod(name)
        node = planned_node(pod)
        ids = [i for container in json.loads(pod["metadata"]["annotations"][PLAN + "gpus"]).values()
               for i in container]
        self.run_on(name, node, [int(i.rsplit("-", 1)[1]) for i in ids])

    def run_on(self, name, node, gpus):
        self.change_pod(name, spec={**self.pod(name)["spec"], "nodeName": node}, status={"phase": "Running"})
        with self.api.lock:
            collection, _, _ = self.api.place(TOPOLOGIES + "/x")
            status = self.api.objects[collection, node]["status"]
            used = [(o["gpu"], o["namespace"], o["pod"]) for o in status["owners"] if o["pod"] != name]
        self.api.add(TOPOLOGIES, node, status=topology(node, len(status["gpus"]),
                                                       used + [(gpu, "ns", name) for gpu in gpus], by_claims=self.by_claims))

    def change_pod(self, name, metadata=None, **members):
        pod = self.pod(name)
        self.api.add(PODS, name, **{k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | members |
                     {"metadata": {**pod["metadata"], **(metadata or {})}})

    def end(self, name, phase=None):
        """The pod goes, or stays with the phase of its end, and the node's agent notices."""
        node = self.pod(name)["spec"].get("nodeName")
        if phase:
            self.change_pod(name, status={"phase": phase})
        else:
            self.api.remove(PODS, name)
        if node:
            self.free(node, name)

    def free(self, node, name):
        with self.api.lock:
            collection, _, _ = self.api.place(TOPOLOGIES + "/x")
            status = self.api.objects[collection, node]["status"]
        used = [(o["gpu"], o["namespace"], o["pod"]) for o in status["owners"] if o["pod"] != name]
        self.api.add(TOPOLOGIES, node, status=topology(node, len(status["gpus"]), used, by_claims=self.by_claims))

    def events(self):
        with self.api.lock:
            return [obj for (where, _), obj in self.api.objects.items() if where[2] == "events"]

    def condition(self, name):
        for condition in (self.pod(name) or {}).get("status", {}).get("conditions", []):
            if condition["type"] == "GPUPlacement":
                return condition
        return None

    def add_job(self, name, pods, group=None, gpus=8, atomic=None, loss=None, **spec):
        self.api.add(JOBS, name, spec={"completionMode": "Indexed", "completions": pods, "parallelism": pods,
                                       "template": template(gpus, group, atomic, loss), **spec})

    def add_gang(self, name, pods, group, gpus=8, backoffLimit=6, **more):
        self.add_job(name, pods, group, gpus, backoffLimit=backoffLimit)
        for i in range(pods):
            self.add_pod(f"{name}-{i}", indexed_pod(name, i, gpus=gpus, group=group, **more))
        return [f"{name}-{i}" for i in range(pods)]

    def review(self, order, obj, operation="CREATE", dry_run=False, kind=("", "v1", "Pod")):
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": operation, "namespace": "ns", "dryRun": dry_run, "kind": dict(zip(("group", "version", "kind"), kind)),
            "object": obj}}
        answer = self.host.order(f"{order} {json.dumps(body)}")
        response = answer["response"]
        self.assertEqual(response["uid"], "u")
        return response, json.loads(base64.b64decode(response["patch"])) if "patch" in response else None

    def objects(self):
        with self.api.lock:
            collection, _, _ = self.api.place(PLACEMENTS + "/x")
            return {name: json.loads(json.dumps(obj)) for (where, name), obj in self.api.objects.items()
                    if where == collection}

    def object(self, name="job-a"):
        return self.objects().get(name)

    def status(self, name="job-a"):
        return (self.object(name) or {}).get("status", {})

    def rows(self, name="job-a"):
        """Of the plan in the object, or in its parts: rank, unit, node, GPUs and, where it stands there, the pod."""
        objects = self.objects()
        status = objects.get(name, {}).get("status", {})
        rows = []
        for part in [objects[part]["status"] for part in status.get("parts", [])] or [status]:
            split = [row.split(":") for row in part.get("pods", [])]
            rows += [[row[0], row[1], part["nodes"][int(row[2])], *row[3:]] for row in split]
        return rows

    def named(self, name="job-a"):
        """{rank: (node, GPUs)} of the plan in the object"""
        return {int(row[0]): (row[2], row[3]) for row in self.rows(name)}

    def check_plan(self, names, name="job-a"):
        """Pods and object agree, every unit lies together, and nothing is planned twice."""
        named = self.named(name)
        for rank, pod in enumerate(names):
            annotations = self.pod(pod)["metadata"]["annotations"]
            self.assertEqual(annotations[PLAN + "node"], named[rank][0], pod)
        self.assertEqual(len(set(named.values())), len(named))
        for unit in range(0, len(names), 4):
            self.assertEqual(len({named[rank][0].split("-")[0] for rank in range(unit, unit + 4)}), 1, named)

    def hold(self, method, pattern):
        """Requests of the double that match are not served before the event is set; served, they count as done."""
        event, waiting = threading.Event(), []
        self.addCleanup(event.set)

        def meddle(request):
            if request.method == method and re.search(pattern, request.path):
                waiting.append(request.path)
                event.wait(PATIENCE)
        self.api.meddle = meddle
        return event, waiting
