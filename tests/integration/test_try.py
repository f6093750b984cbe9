#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo try, against the double of the API server: test_try.py BIN_DIR [unittest arguments]"""

import json
import os
import shutil
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import test_cli
import yaml
from api_double import ApiDouble, Status
from companion_driver import NODES
from kube_driver import kubeconfig
from placement_driver import indexed_pod, node_status, pytorch_pod

RACK = "example.com/rack"
TEXT = """\
14 nodes with 112 GPUs, 44 free, in 3 supernodes by label (example.com/rack); 2 nodes without it, each by itself
How the GPUs of a node are wired is known only with gputopo's agent; here they only count.

Units that fit now, each in one supernode, of pods of 8 GPUs:
      8 GPUs: 4
     16 GPUs: 1
     32 GPUs: 0
     64 GPUs: 0

4 jobs of several pods run; 2 lie in more supernodes than needed
(1 job has pods of different sizes and is not looked at)
   GPUs  SUPERNODES  NEEDED  WITH GPUTOPO  JOB
     32           3       1             2  ns/PyTorchJob/demo
      8           2       1             1  ns/Job/pair
NEEDED is for the empty cluster, WITH GPUTOPO if the job was placed again now, on what is free and what it has.
gputopo would put 2 of the 2 into fewer supernodes.

3 jobs wait
  ns/Job/huge: 8 of 8 pods wait; there is no room for 64 GPUs in pods of 8
  ns/Job/large: 4 of 4 pods wait; by GPUs it fits, in 3 supernodes (1 in the empty cluster)
  ns/Job/small: 1 of 1 pod waits; by GPUs it fits, in 1 supernode (1 in the empty cluster)

Nothing was written into the cluster.
"""


class Try(test_cli.Case):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.certificates = tempfile.mkdtemp(prefix="gputopo-try-")
        cls.addClassCleanup(shutil.rmtree, cls.certificates, ignore_errors=True)

    def setUp(self):
        super().setUp()
        self.api = ApiDouble(self.certificates)
        self.addCleanup(self.api.stop)
        config = kubeconfig(self.path("config"), self.api.url, f"certificate-authority: {self.certificates}/ca.crt", "token: token-1")
        self.config = ["--kubeconfig", config]

    def node(self, name, rack=None, gpus=8, unhealthy=0, **spec):
        status = node_status()
        status.setdefault("capacity", {})["metax-tech.com/gpu"] = str(gpus)
        status.setdefault("allocatable", {})["metax-tech.com/gpu"] = str(gpus - unhealthy)
        self.api.add(NODES, name, metadata={"labels": {RACK: rack} if rack else {}}, spec=spec, status=status)

    def pod(self, name, pod, node=None, phase="Running"):
        if node:
            pod["spec"]["nodeName"] = node
        self.api.add("/api/v1/namespaces/ns/pods", name, **pod, status={"phase": phase if node else "Pending"})

    def job(self, job, gpus, *nodes):
        for index, node in enumerate(nodes):
            self.pod(f"{job}-{index}", indexed_pod(job, index, uid=f"uid-{job}", gpus=gpus, gated=False), node)

    def fill(self):
        for rack in "abc":
            for number in range(1, 5):
                self.node(f"{rack}{number}", rack, unschedulable=(rack, number) == ("c", 4))
        self.node("x1")
        self.node("x2")
        self.node("cpu", gpus=0)
        for index, node in enumerate(["a1", "b1", "c1", "c2"]):
            self.pod(f"demo-{index}", pytorch_pod("demo", "worker", index, gated=False), node)
        self.job("close", 8, "b2", "b3")
        self.job("pair", 4, "b4", "c3")
        self.job("note", 1, "a2")
        self.pod("mixed-0", indexed_pod("mixed", 0, uid="uid-mixed", gpus=1, gated=False), "a2")
        self.pod("mixed-1", indexed_pod("mixed", 1, uid="uid-mixed", gpus=2, gated=False), "a2")
        self.pod("gone", indexed_pod("gone", 0, uid="uid-gone", gated=False), "a3", "Succeeded")
        self.job("large", 8, None, None, None, None)
        self.job("huge", 8, *[None] * 8)
        self.job("small", 8, None)

    def look(self, *options):
        return self.done("try", "--supernode-label", f"example.com/no,{RACK}", *options, *self.config)

    def test_what_is_found(self):
        self.fill()
        self.assertEqual(self.look(), TEXT.replace("(example.com/rack)", f"(example.com/no,{RACK})"))

    def test_only_lists_nodes_and_pods(self):
        self.fill()
        self.look()
        asked = {(request.method, request.path.split("?")[0]) for request in self.api.requests}
        self.assertEqual(asked, {("GET", "/api/v1/nodes"), ("GET", "/api/v1/pods")})

    def test_formats(self):
        self.fill()
        found = json.loads(self.look("-o", "json"))
        self.assertEqual(yaml.safe_load(self.look("-o", "yaml")), found)
        self.assertEqual((found["gpus"], found["free"], found["nodesAlone"]), (112, 44, 2))
        jobs = {job["name"]: job for job in found["jobs"]}
        self.assertEqual(jobs["ns/PyTorchJob/demo"], {"name": "ns/PyTorchJob/demo", "pods": 4, "waiting": 0, "gpusPerPod": 8,
                                                      "supernodes": 3, "needed": 1, "placedAgain": 2})
        self.assertIsNone(jobs["ns/Job/mixed"]["gpusPerPod"])
        page = self.look("-o", "html")
        self.assertIn("  ns/PyTorchJob/demo\n", page)
        self.assertIn("pre{white-space:pre-wrap}", page)
        picture = ElementTree.fromstring(page[page.index("<svg"):page.index("</svg>") + 6])
        self.assertIn("a1", "".join(picture.itertext()))

    def test_plan_takes_its_cluster(self):
        self.fill()
        cluster = self.write("cluster.json", json.loads(self.look("-o", "json"))["cluster"])
        self.assertIn("placed: 1 unit of 16 GPUs", self.done("plan", "--cluster", cluster, "--pods", "2", "-k", "8", "--group-size", "16"))
        self.assertIn("not placed", self.done("plan", "--cluster", cluster, "--pods", "4", "-k", "8", "--group-size", "32"))

    def test_no_label(self):
        self.fill()
        for index in range(2):
            self.pod(f"more-{index}", indexed_pod("more", index, uid="uid-more", gpus=1 + index, gated=False), "a4")
        text = self.done("try", *self.config)
        self.assertIn("(2 jobs have pods of different sizes and are not looked at)", text)
        self.assertIn("and no supernodes: no node has a label ", text)
        self.assertIn("5 jobs of several pods run; 1 lies in more supernodes than needed", text)

    def test_an_empty_cluster(self):
        self.refused(1, "try", *self.config, says=r"no node has GPUs: none has metax-tech.com/gpu in status.capacity")
        self.node("a1")
        self.refused(1, "try", "--resource-name", "example.com/gpu", *self.config, says="none has example.com/gpu")

    def test_what_cannot_be_read(self):
        self.node("a1")
        self.api.add(NODES, "bad", spec={"taints": 5}, status={"capacity": {"metax-tech.com/gpu": "8"}})
        self.pod("lost", indexed_pod("lost", 0, uid="uid-lost", gated=False), "nowhere")
        result = self.run_cli("try", *self.config)
        self.assertEqual(result.returncode, 0)
        lines = result.stderr.decode().splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertRegex(lines[0], r"^gputopo: try: nodes/bad: spec.taints.*; this node is left out")
        self.assertRegex(lines[1], r"pods/ns/lost: runs on nowhere, which has no GPUs; it is left out")
        self.assertIn("1 node with 8 GPUs, 8 free", result.stdout.decode())

    def test_more_pods_than_gpus(self):
        """GPUs of a node can get lost while its pods run."""
        self.node("a1", "a", gpus=3)
        self.node("b1", "b", gpus=8)
        self.job("whole", 2, "a1", "b1")
        self.job("part", 2, "a1", "b1")
        self.job("none", 2, "a1", "b1")
        result = self.run_cli("try", "--supernode-label", RACK, *self.config)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stderr.decode().splitlines()), 2)
        self.assertRegex(result.stderr.decode(), r"pods/ns/.*: asks for 2 GPUs, a1 has only 1 left for it")
        self.assertIn("2 nodes with 11 GPUs, 2 free", result.stdout.decode())
        self.assertIn("3 jobs of several pods run", result.stdout.decode())

    def test_unhealthy_gpus(self):
        """Those that the kubelet does not give out are not free."""
        self.node("a1", "a", unhealthy=2)
        self.node("b1", "b", unhealthy=2)
        self.job("part", 4, "a1")
        self.job("whole", 8, "b1")
        self.assertIn("2 nodes with 16 GPUs, 2 free,", self.look())

    def test_pods_larger_than_nodes(self):
        self.node("a1", "a")
        self.job("large", 70, "a1", "a1")
        self.job("waits", 16, None)
        found = json.loads(self.run_cli("try", "-o", "json", "--supernode-label", RACK, *self.config).stdout)
        self.assertEqual({job["name"]: (job["supernodes"], job["needed"], job["placedAgain"]) for job in found["jobs"]},
                         {"ns/Job/large": (1, None, None), "ns/Job/waits": (0, None, None)})
        text = self.run_cli("try", "--supernode-label", RACK, *self.config).stdout.decode()
        self.assertIn("1 job of several pods runs; 0 lie in more supernodes than needed", text)
        self.assertIn("there is no room for 16 GPUs in pods of 16", text)

    def test_a_large_supernode(self):
        count = 9000  # more than a Supernode lists
        for number in range(count):
            self.node(f"n{number}", "a", gpus=1)
        text = self.look()
        self.assertIn(f"in 1 supernode by label (example.com/no,{RACK})\n", text)
        self.assertIn("     16 GPUs: 562\n", text)

    def test_more_gpus_than_are_looked_at(self):
        self.node("a1", gpus=72)
        result = self.run_cli("try", *self.config)
        self.assertEqual(result.stderr.decode(), "gputopo: try: nodes/a1: has 72 GPUs, 64 of them are looked at\n")
        self.assertIn("1 node with 64 GPUs, 64 free", result.stdout.decode())

    def test_without_rights(self):
        self.node("a1")
        self.api.fail(Status(403, 'pods is forbidden: User "u" cannot list'), path="pods", times=9)
        self.refused(1, "try", *self.config, says='pods: 403 .*User "u" cannot list')


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]):
        sys.exit(__doc__)
    test_cli.BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
