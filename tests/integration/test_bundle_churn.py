#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Decisions of a real companion while jobs come and go and nodes fail, against the double of the API server: gputopo
replay makes each of them again from bundles, byte for byte. $GPUTOPO_DECISIONS: how many (100).

Usage: test_bundle_churn.py GPUTOPO GPUTOPO_SCHEDULER [unittest arguments]
"""

import collections
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

import test_ui
from api_double import StrictDouble
from companion_driver import NODES, SUPERNODES, TOPOLOGIES, Companion
from daemon_driver import wait_for
from kube_driver import kubeconfig
from placement_driver import gates, indexed_pod, node_status, planned_node, supernode_status, template, topology
from seed import given_seed

GPUTOPO, SCHEDULER = (os.path.abspath(sys.argv.pop(1)) for _ in range(2)) if len(sys.argv) > 2 else ("", "")
WANTED = int(os.environ.get("GPUTOPO_DECISIONS", 100))
NS = "/apis/topology.metax-tech.com/v1alpha1/namespaces/ns/gpuplacements"
PODS, JOBS = "/api/v1/namespaces/ns/pods", "/apis/batch/v1/namespaces/ns/jobs"
RACKS, IN_RACK, AT_ONCE = 4, 6, 24  # jobs: more than there is room for
BATCH = 60  # decisions between two bundles, of 256 that the companion keeps


class Churn(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(given_seed())
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.api = self.enterContext(StrictDouble(self.folder))
        self.racks = {f"rack-{r}": [f"rack-{r}-n{n}" for n in range(IN_RACK)] for r in range(RACKS)}
        self.nodes = [node for nodes in self.racks.values() for node in nodes]
        self.jobs, self.made, self.seen, self.texts, self.kinds = {}, 0, 0, {}, collections.Counter()
        for node in self.nodes:
            self.api.add(NODES, node, metadata={"labels": {"kubernetes.io/hostname": node}}, status=node_status())
            self.api.add(TOPOLOGIES, node, status=topology(node))
        for rack, nodes in self.racks.items():
            self.api.add(SUPERNODES, rack, status=supernode_status(nodes))
        self.config = kubeconfig(f"{self.folder}/config", self.api.url, "certificate-authority: ca.crt", "token: token-1")
        self.companion = Companion(SCHEDULER, "--only=placement,ui", "--kubeconfig", self.config, "--namespace=default", "--leader-elect=false")
        self.addCleanup(lambda: self.assertEqual(self.companion.stop(), 0, self.companion.lines[-9:]))
        self.assertTrue(wait_for(self.companion.is_ready), self.companion.lines)
        self.api.fail(test_ui.Proxied(f"http://127.0.0.1:{self.companion.port}"), times=1 << 20, path="/services/https%3Agputopo-scheduler%3Ahttps/proxy/")

    def all_of(self, path):
        with self.api.lock:
            where = self.api.place(path + "/x")[0]
            return {name: obj for (at, name), obj in self.api.objects.items() if at == where}

    def come(self):
        """A job of units, some with atoms, of 1 to 8 GPUs a pod."""
        name, gpus, unit = f"job-{self.made}", self.random.choice((1, 2, 4, 8)), self.random.choice((1, 2, 4, 6))
        pods = unit * self.random.choice((1, 1, 2))
        atomic = gpus * unit // 2 if unit % 2 == 0 and self.random.random() < 0.3 else None
        self.made += 1
        self.jobs[name] = [f"{name}-{i}" for i in range(pods)]
        self.api.add(JOBS, name, metadata={"uid": f"uid-{name}"}, spec={
            "completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": template(gpus, gpus * unit, atomic)})
        for i, pod in enumerate(self.jobs[name]):
            self.api.add(PODS, pod, status={"phase": "Pending"}, **indexed_pod(name, i, uid=f"uid-{name}", gpus=gpus, group=gpus * unit))

    def go(self, name):
        for pod in self.jobs.pop(name):
            if pod in self.all_of(PODS):
                self.api.remove(PODS, pod)
        self.api.remove(JOBS, name)
        if name in self.all_of(NS):  # as the garbage collector does
            self.api.remove(NS, name)

    def run_pods(self):
        """Those without a gate run where they are planned."""
        for name, pod in self.all_of(PODS).items():
            if gates(pod) or pod["status"]["phase"] != "Pending" or not planned_node(pod):
                continue
            again = {key: pod[key] for key in ("metadata", "spec")}
            again["spec"] = {**again["spec"], "nodeName": planned_node(pod)}
            self.api.add(PODS, name, **again, status={"phase": "Running"})

    def fail_somewhere(self):
        """A GPU or two are unhealthy there, or the node is closed, or not Ready; what was before is over."""
        node, what = self.random.choice(self.nodes), self.random.randrange(4)
        status = node_status()
        if what == 1:
            status["conditions"][0]["status"] = "False"
        bad = self.random.sample(range(8), self.random.randrange(1, 3)) if what == 2 else ()
        self.api.add(NODES, node, metadata={"labels": {"kubernetes.io/hostname": node}}, status=status, spec={"unschedulable": True} if what == 3 else {})
        self.api.add(TOPOLOGIES, node, status=topology(node, unhealthy=bad))

    def last(self):
        found = re.findall('"decision":([0-9]+)', self.companion.get(f"/debug/decisions?after={self.seen}")[1])
        self.seen = max(map(int, found), default=self.seen)
        return self.seen

    def replay(self):
        """Takes a bundle, and has its decisions made again."""
        path = f"{self.folder}/bundle.tar"
        subprocess.run([GPUTOPO, "bundle", "--kubeconfig", self.config, "-o", path], check=True, timeout=120, capture_output=True)
        done = subprocess.run([GPUTOPO, "replay", path], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        with tarfile.open(path) as tar:
            lines = tar.extractfile("companion/service/decisions.jsonl").read().decode().splitlines()
        decisions = [decision for decision in map(json.loads, lines) if "decision" in decision]
        self.assertEqual(done.stdout, f"{len(decisions)} decisions made again, 0 otherwise than then\n")
        for decision in decisions:
            if decision["decision"] not in self.texts:
                self.kinds["placed" if decision["text"].startswith("unit") else "waits"] += 1
            self.assertEqual(self.texts.setdefault(decision["decision"], decision["text"]), decision["text"])

    def test_each_is_made_again(self):
        while len(self.texts) < WANTED:
            before = self.last()
            while len(self.jobs) < AT_ONCE:
                self.come()
            self.assertTrue(wait_for(lambda before=before: self.last() > before), self.companion.lines[-9:])
            self.run_pods()
            for name in self.random.sample(sorted(self.jobs), AT_ONCE // 3):
                self.go(name)
            self.fail_somewhere()
            with self.api.lock:  # what every watch has told
                del self.api.history[:-2000]
            if self.last() - max(self.texts, default=0) >= BATCH:
                self.replay()
        print(f"{len(self.texts)} decisions of {self.made} jobs: {dict(self.kinds)}", file=sys.stderr)
        self.assertGreater(min(self.kinds["placed"], self.kinds["waits"]), len(self.texts) // 10)


if __name__ == "__main__":
    unittest.main()
