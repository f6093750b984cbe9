#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo drain, with the placement controller on the double of the API server.

Usage: test_drain.py PLACEMENT_HOST GPUTOPO [unittest arguments]
"""

import json
import os
import subprocess
import sys
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(2)) if len(sys.argv) > 2 else ""

from daemon_driver import PATIENCE, wait_for  # noqa: E402
from placement_driver import node_status, pod_spec, replica  # noqa: E402
from rebalance_case import RebalanceCase  # noqa: E402


class Drain(RebalanceCase):
    def drain(self, *arguments, code=0, says=""):
        result = subprocess.run([PROGRAM, "drain", *arguments, "--kubeconfig", self.config], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(says, result.stderr)
        return result.stdout

    def cordoned(self):
        with self.api.lock:
            return sorted(name for (where, name), obj in self.api.objects.items()
                          if where[2] == "nodes" and obj["spec"].get("unschedulable"))

    def begin_drain(self):
        """The unit u of two nodes in one supernode, beside a pod that may not move and one without a plan that may."""
        self.begin(waiting=False)
        self.free_nodes = [n for n in self.nodes if n.startswith(self.home) and n not in {self.pod(u)["spec"]["nodeName"] for u in self.names}]
        self.add_pod("y", {"metadata": {}, "spec": pod_spec(8, False)})
        self.run_on("y", self.free_nodes[0], range(8))
        made = replica("x", uid="x", gpus=8, gated=False)
        made["metadata"]["annotations"] = {"metax-tech.com/movable": "true"}
        self.add_pod("x", made)
        self.run_on("x", self.free_nodes[1], range(8))

    def lines(self, moves, evicts):
        places = {name: self.pod(name)["spec"]["nodeName"] for name in ("u-0", "u-1", "x", "y")}
        return (f"{moves:<6} ns/u-0 on {places['u-0']}\n{moves:<6} ns/u-1 on {places['u-1']}\n{evicts:<6} ns/x on {places['x']}\n"
                f"stays  ns/y on {places['y']}: it has not said that it may move (metax-tech.com/movable)\n")

    def test_a_supernode_is_emptied(self):
        self.begin_drain()
        lines = self.lines("move", "evict")
        self.assertEqual(self.drain("--dry-run", self.home), f"supernode {self.home}: 4 nodes, 4 cordoned now\n{lines}"
                         "2 of 4 pods with GPUs move, 1 are evicted, 1 stays (dry run: nothing was changed)\n")
        told = json.loads(self.drain("--dry-run", "-o", "json", self.home))
        pods = told.pop("pods")
        self.assertEqual(told, {"supernode": self.home, "nodes": 4, "cordoned": 4, "dryRun": True})
        self.assertEqual("".join(f"{pod['way']:<6} {pod['namespace']}/{pod['name']} on {pod['node']}{': ' + pod['why'] if 'why' in pod else ''}\n"
                                 for pod in pods), lines)
        self.assertEqual((self.cordoned(), self.api.evicted), ([], []))
        self.assertEqual(self.drain(self.home), f"supernode {self.home}: 4 nodes, 4 cordoned now\n{lines}"
                         "2 of 4 pods with GPUs move, 1 are evicted, 1 stays\n")
        self.assertEqual(self.cordoned(), [f"{self.home}-n{n}" for n in range(4)])
        self.play()
        self.assertTrue(wait_for(lambda: {(self.pod(n) or {"spec": {}})["spec"].get("nodeName", "?")[:2] for n in self.names} == {self.other}),
                        self.host.job("ns/Job/u"))
        self.end("x")
        self.assertEqual(sorted(self.api.evicted), ["u-0", "u-1", "x"])
        left = self.drain(self.home)
        self.assertTrue(left.startswith(f"supernode {self.home}: 4 nodes, 0 cordoned now\nstays  ns/y on "), left)
        self.assertTrue(left.endswith("0 of 1 pods with GPUs move, 0 are evicted, 1 stays\n"), left)

    def test_a_budget_and_a_full_cluster(self):
        """Who is not let go stays, and without room nobody leaves."""
        self.begin_drain()
        for number in range(1, 4):
            self.add_pod(f"z-{number}", {"metadata": {}, "spec": pod_spec(8, False)})
            self.run_on(f"z-{number}", f"{self.other}-n{number}", range(8))
        self.api.budget = lambda name: "no disruptions"
        self.play()
        said = self.drain(self.home)
        self.assertRegex(said, r"stays  ns/x on \S+: .*no disruptions")
        self.assertTrue(wait_for(lambda: "no pod is evicted while there is no other place" in self.host.job("ns/Job/u")["text"]), self.host.job("ns/Job/u"))
        self.assertEqual(self.api.evicted, [])
        self.assertIn("moves  ns/u-0", self.drain(self.home))  # it was asked before

    def add_replicas(self):
        """Two pods of one owner without a plan, on the nodes of the supernode that u leaves free."""
        for number, node in enumerate(self.free_nodes):
            made = replica("x", uid="x", gpus=8, gated=False)
            made["metadata"]["annotations"] = {"metax-tech.com/movable": "true"}
            self.add_pod(f"x-{number}", made)
            self.run_on(f"x-{number}", node, range(8))

    def begin_replicas(self, **options):
        self.begin(waiting=False, **options)
        self.free_nodes = [n for n in self.nodes if n.startswith(self.home) and n not in {self.pod(u)["spec"]["nodeName"] for u in self.names}]
        self.add_replicas()

    def test_a_budget_keeps_all_of_an_owner(self):
        """Dry runs ask first, so that nobody leaves whose mate stays; --dry-run says so, too."""
        self.begin_replicas()
        self.api.budget = lambda name: "no disruptions" if name == "x-1" else None
        for arguments in (("--dry-run", self.home), (self.home,)):
            said = self.drain(*arguments)
            self.assertRegex(said, r"stays  ns/x-0 on \S+: another pod of its owner may not leave\nstays  ns/x-1 on \S+: .*no disruptions")
        self.assertEqual([name for name in self.api.evicted if name.startswith("x")], [])
        self.api.budget = None
        self.assertIn("2 are evicted", self.drain(self.home))
        self.assertEqual(sorted(name for name in self.api.evicted if name.startswith("x")), ["x-0", "x-1"])

    def test_the_brake(self):
        """Two of ten nodes are not Ready, and one may be. Those of the supernode, and cordoned ones, do not count."""
        self.begin_replicas()
        self.add_silent("s2-n0", "s2-n1")
        why = "2 of the 10 nodes of the cluster are not Ready, and --brake lets 1 go at once"
        self.assertRegex(self.drain("--dry-run", self.home), rf"stays  ns/x-0 on \S+: {why}\nstays  ns/x-1 on \S+: {why}\n")
        self.assertIn("2 are evicted", self.drain("--dry-run", "--brake", "20", self.home))
        self.assertRegex(self.drain(self.home), rf"stays  ns/x-0 on \S+: {why}\n")
        self.assertEqual([name for name in self.api.evicted if name.startswith("x")], [])
        self.api.add("/api/v1/nodes", "s2-n1", spec={"unschedulable": True}, status={**node_status(), "conditions": []})
        self.api.add("/api/v1/nodes", self.free_nodes[0], spec={}, status={**node_status(), "conditions": []})
        self.assertIn("2 are evicted", self.drain(self.home))
        self.drain("--brake", "0", self.home, code=2, says="--brake")

    def test_misuse(self):
        self.world(1)
        self.drain(code=2, says="expected one SUPERNODE")
        self.drain("none", code=1, says="none")


if __name__ == "__main__":
    unittest.main()
