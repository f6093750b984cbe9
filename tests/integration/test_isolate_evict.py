#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo isolate --evict from end to end: the command, the agent of the node, and the placement controller, on one double
of the API server.

Usage: test_isolate_evict.py PLACEMENT_HOST GPUTOPO_AGENT GPUTOPO [unittest arguments]
"""

import json
import os
import subprocess
import sys
import time

PROGRAM = os.path.abspath(sys.argv.pop(3)) if len(sys.argv) > 3 else ""

import placement_case  # noqa: E402, it and the next take their arguments
from test_placement_node_loss import QUIET, NodeLoss  # noqa: E402
import test_publish  # noqa: E402
import side_by_side  # noqa: E402
from api_double import StrictDouble  # noqa: E402
from daemon_driver import PATIENCE, wait_for  # noqa: E402
from kubelet_double import KubeletDouble  # noqa: E402
from placement_driver import planned_node  # noqa: E402
from publish_driver import Agent  # noqa: E402

REASON = "ticket 17"


class Double(placement_case.PodDouble, StrictDouble):
    """The agent's writes are checked as the real one does, pods and evictions as for the companion."""


class Evict(placement_case.PlacementCase):
    double = Double
    begin, play, turn, places, wait_settled = (getattr(NodeLoss, name) for name in ("begin", "play", "turn", "places", "wait_settled"))

    def take_over(self, pod):
        """A real agent for the node of the pod, which holds all GPUs there. Returns the node."""
        node = planned_node(self.pod(pod))
        place = f"{self.folder}/{node}"
        os.makedirs(f"{place}/dev/dri")
        for name in ["mxcd", *(f"dri/card{i}" for i in range(16)), *(f"dri/renderD{128 + i}" for i in range(16))]:
            with open(f"{place}/dev/{name}", "w", encoding="ascii"):
                pass
        kubelet = KubeletDouble(place)
        kubelet.book.NAMESPACE = "ns"
        kubelet.start()
        self.addCleanup(kubelet.stop, leave_socket=False)
        machine = test_publish.Case.recorded()["node"]
        for gpu in machine["gpus"]:
            gpu["uuid"] = f"GPU-{node}-{gpu['index']}"
        with open(f"{place}/node.json", "w", encoding="utf-8") as file:
            json.dump(machine, file)
        agent = self.agents[node] = Agent(test_publish.AGENT, place, "--from", f"{place}/node.json", "--dev-root", f"{place}/dev", "--kubeconfig",
                      self.config, node=node)
        self.addCleanup(agent.stop)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        kubelet.admit(pod, 8)
        self.assertTrue(wait_for(lambda: {owner["pod"] for owner in self.topology(node).get("owners", [])} == {pod}), self.topology(node))
        return node

    def topology(self, node):
        with self.api.lock:
            return self.api.objects[self.api.place(f"{placement_case.TOPOLOGIES}/x")[0], node]["status"]

    def isolate(self, node, *arguments):
        done = subprocess.run([PROGRAM, "isolate", f"{node}/5", "--reason", REASON, *arguments, "--kubeconfig", self.config],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(wait_for(lambda: self.topology(node).get("healthyCount") == 7), self.agents[node].lines)

    def test_the_unit_moves(self):
        """Only where people say so, and only with the policy: the unit goes as a whole, a job without it stays."""
        self.agents = {}
        self.world(3)
        others = self.add_gang("b", 4, 32)
        self.begin()
        self.wait_lifted(*others)
        for name in others:
            self.bind(name)
        mine, other = self.take_over("a-3"), self.take_over(others[1])
        self.isolate(mine)
        self.isolate(other, "--evict")
        time.sleep(QUIET)
        self.assertEqual(self.api.evicted, [])
        self.play()
        self.isolate(mine, "--evict")
        self.wait_settled(lambda places: mine[:2] not in {place[:2] for place in places})
        self.assertEqual(sorted(self.api.evicted), ["a-0", "a-1", "a-2", "a-3"])


del NodeLoss  # its own tests run elsewhere

if __name__ == "__main__":
    side_by_side.main()
