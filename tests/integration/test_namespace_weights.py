#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Weights of namespaces: the ConfigMap, and the order of waiting jobs that comes of it.

Usage: test_namespace_weights.py GPUTOPO_SCHEDULER GPUTOPO [unittest arguments]
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from api_double import StrictDouble
from companion_driver import NODES, SUPERNODES, TOPOLOGIES, Companion
from daemon_driver import wait_for
from kube_driver import kubeconfig
from placement_driver import indexed_pod, node_status, supernode_status, template, topology

SCHEDULER, GPUTOPO = sys.argv.pop(1), sys.argv.pop(1)
CONFIGMAPS = "/api/v1/namespaces/gputopo-system/configmaps"
NAME = "gputopo-namespace-weights"
JOBS = ("a/a1", "a/a2", "b/b1", "b/b2")  # by age
EQUAL, FOR_B = ["a/a1", "b/b1", "a/a2", "b/b2"], ["a/a1", "b/b1", "b/b2", "a/a2"]
WRONG = "a namespace's weight is no number from 1 to 1000, and is passed over"


class NamespaceWeights(unittest.TestCase):
    """A node that somebody has, and two jobs of each of two namespaces that want it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gputopo-weights-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.api = StrictDouble(self.folder)
        self.addCleanup(self.api.stop)
        self.api.add(NODES, "n", metadata={"labels": {"kubernetes.io/hostname": "n"}}, status=node_status())
        self.api.add(TOPOLOGIES, "n", status=topology("n", used=[(gpu, "c", "other") for gpu in range(8)]))
        self.api.add(SUPERNODES, "s", status=supernode_status(["n"]))
        for minute, key in enumerate(JOBS):
            namespace, job = key.split("/")
            self.api.add(f"/apis/batch/v1/namespaces/{namespace}/jobs", job, spec={
                "completionMode": "Indexed", "completions": 1, "parallelism": 1, "template": template(8, 8)})
            pod = indexed_pod(job, 0, group=8)
            self.api.add(f"/api/v1/namespaces/{namespace}/pods", f"{job}-0", status={"phase": "Pending"}, spec=pod["spec"],
                         metadata={**pod["metadata"], "creationTimestamp": f"2026-01-01T00:0{minute}:00Z"})
        config = kubeconfig(f"{self.folder}/config", self.api.url, "certificate-authority: ca.crt", "token: token-1")
        self.companion = Companion(SCHEDULER, "--only=placement,ui", "--kubeconfig", config, "--namespace=gputopo-system",
                                   "--leader-elect=false")
        self.addCleanup(lambda: self.assertEqual(self.companion.stop(), 0, self.companion.lines))
        self.assertTrue(wait_for(self.companion.is_ready), self.companion.lines)
        self.wait_order(EQUAL)

    def order(self):
        """The jobs by their numbers among those that wait."""
        numbers, self.behind = {}, {}
        for job in JOBS:
            said = subprocess.run([GPUTOPO, "explain", f"--companion=127.0.0.1:{self.companion.port}", job],
                                  capture_output=True, text=True, check=False).stdout
            found = re.search(r"number (\d+) of those that wait(?:, behind ([^,\n]+))?", said)
            numbers[job] = int(found[1]) if found else 0
            self.behind[job] = found[2] if found else None
        return sorted(JOBS, key=numbers.get) if sorted(numbers.values()) == [1, 2, 3, 4] else None

    def wait_order(self, want):
        """Seconds until it is so."""
        began = time.monotonic()
        self.assertTrue(wait_for(lambda: self.order() == want), (self.order(), self.companion.lines[-5:]))
        return time.monotonic() - began

    def weigh(self, **weights):
        self.api.add(CONFIGMAPS, NAME, data=weights)

    def test_a_change_counts_at_once(self):
        took = []
        for _ in range(3):
            self.weigh(b="4")
            took.append(self.wait_order(FOR_B))
            self.weigh(b="1")
            took.append(self.wait_order(EQUAL))
        # On a machine with time the slowest too takes less than a second. Who waits is tried every ten seconds anyway.
        self.assertLess(min(took), 5, took)

    def test_default(self):
        self.weigh(a="1", default="4")
        self.wait_order(FOR_B)
        self.assertEqual(self.behind, dict(zip(FOR_B, [None, *FOR_B])))

    def test_a_wrong_value_is_passed_over(self):
        self.weigh(b="4")
        self.wait_order(FOR_B)
        self.weigh(b="many", a="0", c="2")
        self.wait_order(EQUAL)
        told = {(line["namespace"], line["weight"]) for line in self.companion.events(WRONG) if line["level"] == "warning"}
        self.assertEqual(told, {("b", "many"), ("a", "0")})

    def test_without_it_all_are_equal(self):
        self.weigh(b="4")
        self.wait_order(FOR_B)
        self.api.remove(CONFIGMAPS, NAME)
        self.wait_order(EQUAL)


if __name__ == "__main__":
    unittest.main(verbosity=2)
