# SPDX-License-Identifier: Apache-2.0
"""A real API server with many Node objects and no kubelet, for companion_jobs.py: fills it, and watches its pods."""

import contextlib
import glob
import http.client
import json
import os
import queue
import ssl
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "gputopo/e2e")
os.environ["GPUTOPO_KUBE_BIN"] = os.pathsep.join(filter(None, [
    os.environ.get("GPUTOPO_KUBE_BIN"), *sorted(glob.glob(f"{CACHE}/kubernetes-{16 * '[0-9a-f]'}")),
    *sorted(glob.glob(f"{CACHE}/volcano-[0-9a-f]*"))]))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))
from crds import CRDS  # noqa: E402
from placement_driver import GATE, RESOURCE, TOPOLOGY_API, resource_slice, supernode_status, topology  # noqa: E402
from real_api import RealServer  # noqa: E402

WRITERS, GPUS, PER_SUPERNODE = 12, 8, 16
GROUP, VERSION = TOPOLOGY_API.split("/")
TOPOLOGIES, SUPERNODES = f"/apis/{TOPOLOGY_API}/nodegputopologies", f"/apis/{TOPOLOGY_API}/supernodes"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
NAMESPACE = "team"  # in default, a policy looks at each Event
NODES, PODS = "/api/v1/nodes", f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PLACEMENTS = f"/apis/{TOPOLOGY_API}/namespaces/{NAMESPACE}/gpuplacements"
PODGROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups"
HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
# Nothing here runs, so nothing adds what these would ask for.
FLAGS = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,DefaultTolerationSeconds "
         "--max-requests-inflight=3000 --max-mutating-requests-inflight=2000 --delete-collection-workers=8")


def definition(plural, kind):
    """As ours, but it takes anything: checking costs the API server 25 ms an object, and is not what is measured."""
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"}, "spec": {
                "group": GROUP, "scope": "Cluster", "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
                "versions": [{"name": VERSION, "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


def node(name, labels=None):
    amounts = {"cpu": "192", "memory": "2Ti", "pods": "110", RESOURCE: str(GPUS)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                 "lastHeartbeatTime": "2026-01-31T12:00:00Z", "lastTransitionTime": "2026-01-31T12:00:00Z"}]}}


def node_name(n):
    return f"node-{n:05}"


class Api(RealServer):
    def __init__(self, folder, flags=""):
        wrapped = os.path.join(folder, "kube-apiserver")
        if not os.path.exists(wrapped):
            with open(wrapped, "w", encoding="ascii") as script:
                script.write(f'#!/bin/sh\nexec {RealServer.apiserver_path} "$@" {FLAGS} {flags}\n')
            os.chmod(wrapped, 0o755)
        self.apiserver_path = wrapped
        super().__init__(folder)
        self.context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
        self.context.load_cert_chain(f"{folder}/admin.crt", f"{folder}/admin.key")
        self.wait_ready()

    def connect(self, timeout=120):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=timeout)

    def ask(self, method, path, body=None, connection=None, kind="application/json"):
        own = connection or self.connect()
        own.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
        answer = own.getresponse()
        text = answer.read()
        if not connection:
            own.close()
        if answer.status >= 300:
            raise SystemExit(f"companion_jobs.py: {method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text)

    def create_all(self, requests):
        """[(path, object)], many at a time; the seconds that it took."""
        waiting, failed = queue.Queue(), []
        for request in requests:
            waiting.put(request)

        def write():
            connection = self.connect()
            try:
                while True:
                    path, body = waiting.get_nowait()
                    self.ask("POST", path, body, connection)
            except queue.Empty:
                pass
            except (OSError, SystemExit) as error:
                failed.append(error)
            finally:
                connection.close()
        begin = time.monotonic()
        threads = [threading.Thread(target=write) for _ in range(min(WRITERS, len(requests)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise SystemExit(str(failed[0]))
        return time.monotonic() - begin

    def fill(self, nodes, labels=lambda n: {}, by_claims=False):
        for plural, kind in (("nodegputopologies", "NodeGPUTopology"), ("supernodes", "Supernode")):
            self.kubectl("create", "-f", "-", text=json.dumps(definition(plural, kind)))
        self.kubectl("create", "-f", f"{CRDS}/gpuplacements.yaml")
        self.kubectl("create", "namespace", NAMESPACE)
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        names = [node_name(n) for n in range(nodes)]
        requests = [(NODES, node(name, labels(n))) for n, name in enumerate(names)]
        requests += [(TOPOLOGIES, {"apiVersion": TOPOLOGY_API, "kind": "NodeGPUTopology", "metadata": {"name": name},
                                   "status": topology(name, GPUS, by_claims=by_claims)}) for name in names]
        requests += [(SLICES, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
                               "spec": resource_slice(name, range(GPUS))}) for name in names if by_claims]
        requests += [(SUPERNODES, {"apiVersion": TOPOLOGY_API, "kind": "Supernode", "metadata": {"name": f"super-{s:04}"},
                                   "status": supernode_status(names[s * PER_SUPERNODE:(s + 1) * PER_SUPERNODE])})
                     for s in range(-(-nodes // PER_SUPERNODE))]
        return self.create_all(requests)

    def install_volcano(self, nodes):
        found = sorted(glob.glob(f"{CACHE}/volcano-crds-*/"))
        if not found:
            return False
        self.kubectl("create", "-f", found[-1])
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        for name, parent in (("root", None), ("default", "root")):
            self.ask("POST", QUEUES, {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name},
                                      "spec": {"weight": 1, "reclaimable": False, **({"parent": parent} if parent else {})}})
            self.ask("PATCH", f"{QUEUES}/{name}/status", {"status": {"state": "Open"}}, kind="application/merge-patch+json")
        self.create_all([(HYPERNODES, {
            "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": f"super-{s:04}"},
            "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": node_name(n)}}}
                                            for n in range(s * PER_SUPERNODE, min(nodes, (s + 1) * PER_SUPERNODE))]}})
            for s in range(-(-nodes // PER_SUPERNODE))])
        return True

    def clear(self):
        for path in (PODS, JOBS, PODGROUPS, GROUPS, PLACEMENTS):
            connection = self.connect()
            connection.request("DELETE", path, json.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
                                                           "propagationPolicy": "Background"}), {"Content-Type": "application/json"})
            connection.getresponse().read()  # 404: where there are none of that kind
            connection.close()


class Watch:
    """When pods came, were lifted, and were bound; by name. The API server ends a watch that reads too slowly: it is begun
    again where it ended."""
    PATH = PODS

    def __init__(self, api):
        self.api, self.closed = api, False
        self.version = api.ask("GET", self.PATH + "?limit=1")["metadata"]["resourceVersion"]
        self.came, self.lifted, self.bound, self.nodes = {}, {}, {}, {}
        self.connection = api.connect(timeout=600)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            while not self.closed:
                self.connection.request("GET", f"{self.PATH}?watch=1&resourceVersion={self.version}")
                answer = self.connection.getresponse()
                while line := answer.readline():
                    self.take(json.loads(line)["object"])
                self.connection.close()
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass  # closed

    def take(self, pod):
        now, name, spec = time.monotonic(), pod["metadata"]["name"], pod["spec"]
        self.version = pod["metadata"]["resourceVersion"]
        self.came.setdefault(name, now)
        if GATE not in (gate["name"] for gate in spec.get("schedulingGates") or []):
            self.lifted.setdefault(name, now)
        if spec.get("nodeName"):
            self.nodes[name] = spec["nodeName"]
            self.bound.setdefault(name, now)

    def wait(self, of, count, seconds):
        """Until so many are there, or nothing has come for a while."""
        end = time.monotonic() + seconds
        while len(of) < count and time.monotonic() < end:
            time.sleep(0.02)
        return len(of) >= count

    def close(self):
        self.closed = True
        with contextlib.suppress(OSError, AttributeError):  # it may be between two connections
            self.connection.sock.shutdown(2)
        self.thread.join(5)
        self.connection.close()
