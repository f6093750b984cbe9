#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The size of gputopo bundle for 1,000 nodes, as the real agent and a real companion tell of them to the double of the API
server, with the logs at their limit.   bundle.py BIN_DIR; measures as in loss.sh"""

import collections
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import unittest
import urllib.parse

BINARIES = os.path.abspath(sys.argv.pop(1))
sys.argv.append(os.path.join(BINARIES, "gputopo-agent"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))
# pylint: disable=wrong-import-position
import dra_case  # noqa: E402
import test_ui  # noqa: E402
from api_double import Status  # noqa: E402
from companion_driver import NODES, SUPERNODES, Companion  # noqa: E402
from daemon_driver import wait_for  # noqa: E402
from kube_driver import kubeconfig  # noqa: E402
from placement_driver import gates, indexed_pod, supernode_status, template  # noqa: E402

SCHEDULER, GPUTOPO = os.path.join(BINARIES, "gputopo-scheduler"), os.path.join(BINARIES, "gputopo")
COUNT, FREE, IN_RACK, EVENTS = 1000, 64, 16, 2000  # the nodes beyond these hold four pods of two GPUs each
LIMIT = 50 * 1000 * 1000
SYSTEM = "/api/v1/namespaces/gputopo-system"
TIME = "2026-11-01T00:00:00Z"
LINE = json.dumps({"time": TIME, "level": "info", "event": "a pod got its GPUs", "namespace": "team-1", "pod": "train-17-worker-3",
                   "container": "main", "gpus": [f"GPU-{i:08x}-0000-4000-8000-000000000001" for i in range(2)]}) + "\n"


class Log:
    """A log that is longer than what is asked for."""

    def run(self, handler):
        most = int(urllib.parse.parse_qs(urllib.parse.urlsplit(handler.path).query)["limitBytes"][0])
        handler.answer(200, (LINE * (most // len(LINE) + 1))[-most:].encode(), {"Content-Type": "text/plain"})


def node_name(n):
    return f"gpu-node-{n:04}.site-1.example.com"


def copy_of(obj, n):
    """What the agent wrote of n1, of the n-th node: with a name and UUIDs of its own."""
    text = json.dumps(obj).replace('"n1', f'"{node_name(n)}')
    return json.loads(re.sub("GPU-[0-9a-f]{8}", f"GPU-{n:08x}", text))


def container(name="main", **more):
    return {"name": name, "image": "registry.example.com/team/train:2026.11", "terminationMessagePath": "/dev/termination-log",
            "env": [{"name": f"SETTING_{i}", "value": "some value of an ordinary length"} for i in range(20)],
            "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent", **more}


def pod_status(n):
    return {"phase": "Running", "qosClass": "Burstable", "hostIP": f"10.0.{n >> 8}.{n & 255}", "podIP": f"10.1.{n >> 8}.{n & 255}",
            "startTime": TIME, "conditions": [
                {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": TIME}
                for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")],
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "started": True, "state": {"running": {"startedAt": TIME}},
                                   "image": "registry.example.com/team/train:2026.11", "containerID": "containerd://" + "5" * 64,
                                   "imageID": "registry.example.com/team/train@sha256:" + "7" * 64, "lastState": {}}]}


def configz(n):
    """Of the size of a kubelet's."""
    return {"kubeletconfig": {"clusterDNS": ["10.96.0.10"], "nodeIP": f"10.0.{n >> 8}.{n & 255}", "topologyManagerPolicy": "best-effort",
                              **{f"aSettingOfTheKubelet{i:03}": "4m0s" if i % 2 else i * 1000 for i in range(140)}}}


class Large(dra_case.DraCase):
    def setUp(self):
        super().setUp()
        gc.disable()  # else it looks at the double's millions of values for each list
        shutil.copy(f"{dra_case.MACHINES}/c550-8.json", self.machine)
        self.start()
        agent = self.agents[0]
        self.assertTrue(wait_for(agent.is_current), agent.lines)
        self.metrics, self.usage = agent.get("/metrics")[1], agent.get("/usage")[1]
        with self.api.lock:
            recorded = list(self.api.objects.items())
        self.stop()
        with self.api.lock:
            self.api.objects.clear()
            self.api.history.clear()
        for (where, name), obj in recorded:
            for n in range(COUNT if "gputopo" in name or where[2] in ("nodegputopologies", "resourceslices") else 0):
                self.add_copy(where, copy_of(obj, n))
        for n in range(COUNT):
            self.add_node(n)
        for n in range(EVENTS):
            self.api.add("/apis/events.k8s.io/v1/namespaces/team/events", f"train-{n}.18a5c0ffee", reason="PlacementWaits", type="Normal",
                         reportingController="gputopo-scheduler", eventTime=TIME, action="Plan",
                         regarding={"kind": "Pod", "namespace": "team", "name": f"train-{n}", "uid": "5" * 36, "apiVersion": "v1"},
                         note="1 unit of 256 GPUs needed, supernodes can hold 0: " + "32 nodes have too few free GPUs, " * 6)
        self.api.compact()  # each watch looks through the history for each event

    def add_copy(self, where, obj):
        path = where[0] + "/" + where[2]
        metadata = {key: obj["metadata"][key] for key in ("name", "labels", "annotations") if key in obj["metadata"]}
        self.api.add(path, metadata.pop("name"), metadata=metadata, **{key: obj[key] for key in ("spec", "status") if key in obj})

    def add_node(self, n):
        name = node_name(n)
        quantities = {"cpu": "128", "memory": "1056472064Ki", "ephemeral-storage": "960197124Ki", "metax-tech.com/gpu": "8", "pods": "110"}
        self.api.add(NODES, name, metadata={
            "labels": {"kubernetes.io/hostname": name, **{f"feature.node.kubernetes.io/cpu-cpuid.AVX{i}": "true" for i in range(60)}},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}, spec={"podCIDR": "10.1.0.0/24"}, status={
            "capacity": quantities, "allocatable": quantities, "images": [{"names": ["x" * 90] * 2, "sizeBytes": 1 << 30}] * 50,
            "conditions": [{"type": kind, "status": str(kind == "Ready"), "reason": "KubeletHasSufficientMemory", "lastTransitionTime": TIME,
                            "message": "kubelet has sufficient memory available", "lastHeartbeatTime": TIME}
                           for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready", "MetaXGPUHealthy")]})
        self.api.configz[name] = configz(n)
        self.program(f"gputopo-agent-{n:04}x", "gputopo-agent", 9400, n)
        for gpu in range(4 if n >= FREE else 0):
            self.api.add("/api/v1/namespaces/team/pods", f"notebook-{n}-{gpu}", status=pod_status(n), metadata={
                "labels": {"app": "notebook"}, "annotations": {"example.com/note": "x" * 200}},
                spec={"nodeName": name, "restartPolicy": "Never", "schedulerName": "default-scheduler", "priority": 0,
                      "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}] * 2,
                      "containers": [container(resources={"limits": {"metax-tech.com/gpu": "2"}, "requests": {"metax-tech.com/gpu": "2"}})]})

    def program(self, name, app, port, n):
        self.api.add(f"{SYSTEM}/pods", name, metadata={"labels": {"app.kubernetes.io/name": app}}, status=pod_status(n), spec={
            "nodeName": node_name(n), "containers": [container(ports=[{"name": "http", "containerPort": port}])]})

    def companion(self):
        """A real one, which has decided on some jobs."""
        for rack in range(COUNT // IN_RACK):
            self.api.add(SUPERNODES, f"rack-{rack}", status=supernode_status([node_name(n) for n in range(rack * IN_RACK, (rack + 1) * IN_RACK)]))
        self.config = kubeconfig(f"{self.directory}/config", self.api.url, f"certificate-authority: {self.certificates}/ca.crt", "token: token-1")
        companion = Companion(SCHEDULER, "--only=placement,ui", "--kubeconfig", self.config, "--namespace=default", "--leader-elect=false")
        self.addCleanup(lambda: self.assertEqual(companion.stop(), 0, companion.lines[-9:]))
        self.assertTrue(wait_for(companion.is_ready), companion.lines[-9:])
        for job in range(24):
            name = f"train-{job}"
            self.api.add("/apis/batch/v1/namespaces/ns/jobs", name, spec={
                "completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": template(8, 16)})
            for i in range(2):
                self.api.add("/api/v1/namespaces/ns/pods", f"{name}-{i}", **{"status": {"phase": "Pending"}, **indexed_pod(name, i, group=16)})
        last = (self.api.place("/api/v1/namespaces/ns/pods/x")[0], "train-23-1")
        self.assertTrue(wait_for(lambda: gates(self.api.objects[last]) == []))
        self.program("gputopo-scheduler-1", "gputopo-scheduler", 9401, 0)
        proxied = test_ui.Proxied(f"http://127.0.0.1:{companion.port}")
        self.api.fail(proxied, times=999, path="/pods/gputopo-scheduler-1%3A9401/proxy/")
        self.api.fail(proxied, times=999, path="/services/https%3Agputopo-scheduler%3Ahttps/proxy/")
        self.agents_metrics = Status(200, body=self.metrics.encode())
        self.api.fail(self.agents_metrics, times=2 * COUNT, path="/proxy/metrics$")
        self.api.fail(Status(200, body=self.usage.encode()), times=2 * COUNT, path="/proxy/usage$")
        self.api.fail(Log(), times=2 * COUNT, path="/log$")

    def bundle(self, what):
        """Measures one, and prints what is in it."""
        path = f"{self.directory}/bundle.tar"
        began, parts, counts = time.monotonic(), collections.Counter(), collections.Counter()
        done = subprocess.run([GPUTOPO, "bundle", "--kubeconfig", self.config, "-o", path], timeout=600, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        took = time.monotonic() - began
        with tarfile.open(path) as tar:
            for member in tar:
                part = member.name if member.name.startswith(("objects/", "companion/")) else re.sub("/.*/", "/*/", member.name)
                counts[part] += 1
                parts[part] += member.size
            missing = tar.extractfile("missing.txt").read().decode().splitlines()
        for part, total in parts.items():
            if total > LIMIT // 1000:
                print(f"# {what}: {part}, {counts[part]} of {total / counts[part] / 1000:.1f} kB")
        print(f"{what}\t{os.stat(path).st_size / 1e6:.1f}\tMB\t<50")
        print(f"{what}: time\t{took:.1f}\ts\t-")
        return [line for line in missing if ": only the node itself has" not in line]

    def test_size(self):
        self.companion()
        print(f"bundle of 1,000 nodes: parts left out\t{len(self.bundle('bundle of 1,000 nodes'))}\t-\t<1")
        with self.api.lock:
            self.api.faults = [fault for fault in self.api.faults if fault.action is not self.agents_metrics]
        self.api.fail(Status(200, body=b"gputopo_gpus 8\n" * 10000), times=COUNT, path="/proxy/metrics$")
        left_out = self.bundle("the same where not all fits")
        print(f"the same where not all fits: sentences about it\t{len(left_out)}\t-\t<5")
        self.assertTrue(all("left out, and so are all of its kind after it" in line for line in left_out), left_out)


if __name__ == "__main__":
    unittest.main()
