#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The size of gputopo bundle for 1,000 nodes, as the real agent and a real companion tell of them, with the logs at their limit.

Usage: test_bundle_large.py GPUTOPO_AGENT GPUTOPO_SCHEDULER GPUTOPO [unittest arguments]
"""

import collections
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

import dra_case
import test_ui
from api_double import Status
from companion_driver import NODES, SUPERNODES, TOPOLOGIES, Companion
from daemon_driver import wait_for
from kube_driver import kubeconfig
from placement_driver import gates, indexed_pod, supernode_status, template

SCHEDULER, GPUTOPO = (os.path.abspath(sys.argv.pop(1)) for _ in range(2)) if len(sys.argv) > 2 else ("", "")
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
        shutil.copy(f"{dra_case.MACHINES}/c550-8.json", self.machine)
        self.start()
        agent = self.agents[0]
        self.assertTrue(wait_for(agent.is_current), agent.lines)
        self.metrics = agent.get("/metrics")[1]
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
        self.api.fail(Log(), times=2 * COUNT, path="/log$")

    def bundle(self):
        """(count, bytes) of each kind of file, and what is said to be missing."""
        path = f"{self.directory}/bundle.tar"
        began, parts = time.monotonic(), collections.Counter()
        subprocess.run([GPUTOPO, "bundle", "--kubeconfig", self.config, "-o", path], check=True, timeout=600, stderr=subprocess.DEVNULL)
        took, size, counts = time.monotonic() - began, os.stat(path).st_size, collections.Counter()
        with tarfile.open(path) as tar:
            for member in tar:
                part = member.name if member.name.startswith(("objects/", "companion/")) else re.sub("/.*/", "/*/", member.name)
                counts[part] += 1
                parts[part] += member.size
            missing = tar.extractfile("missing.txt").read().decode()
        print(f"{size / 1e6:.1f} MB in {took:.1f} s: " + ", ".join(f"{part} {counts[part]} x {total / counts[part] / 1e3:.1f} kB"
              for part, total in sorted(parts.items()) if total > 100000) + f"; missing:\n{missing}", file=sys.stderr)
        self.assertLessEqual(size, LIMIT)
        return counts, missing

    def test_a_thousand_nodes(self):
        self.companion()
        counts, missing = self.bundle()
        self.assertEqual([line.split(":")[0] for line in missing.splitlines()], ["nodes/recording"])
        for part in ("agents/*/metrics.txt", "agents/*/log.txt", "nodes/*/configz.json"):
            self.assertEqual(counts[part], COUNT, part)
        again = subprocess.run([GPUTOPO, "replay", f"{self.directory}/bundle.tar"], check=True, capture_output=True, text=True).stdout
        self.assertRegex(again, r"^[1-9][0-9]+ decisions made again, 0 otherwise than then\n$")
        with self.api.lock:
            self.api.faults = [fault for fault in self.api.faults if fault.action is not self.agents_metrics]
        self.api.fail(Status(200, body=b"gputopo_gpus 8\n" * 10000), times=COUNT, path="/proxy/metrics$")
        counts, missing = self.bundle()
        self.assertEqual({part for part in counts if part.startswith("objects/")}, {
            f"objects/{kind}.jsonl" for kind in ("nodegputopologies", "supernodes", "gpuplacements", "nodes", "pods", "events", "resourceslices")})
        for part in ("agents/gputopo-agent-[0-9]+x/metrics.txt", "nodes/gpu-node-[0-9]+.*/configz.json"):
            self.assertEqual(len(re.findall(f"(?m)^{part}: left out, and so are all of its kind after it: ", missing)), 1)


if __name__ == "__main__":
    unittest.main()
