# SPDX-License-Identifier: Apache-2.0
"""The companion and the double of the API server, for its tests."""

import copy
import os
import shutil
import sys
import tempfile
import time
import unittest

from api_double import StrictDouble
from companion_driver import NODES, SUPERNODE_LABEL, SUPERNODES, TOPOLOGIES, Companion, mesh, report
from daemon_driver import PATIENCE, wait_for
from kube_driver import kubeconfig

SCHEDULER = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
NAMESPACE = "gputopo-system"
CONFIGMAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
GROUPS = """
groups:
- {name: hall, tier: 2}
- {name: rack-1, parent: hall, nodes: ["n[1-2]"]}
- {name: rack-2, tier: 1, parent: hall, nodes: [n3]}
"""
HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.certificates = tempfile.mkdtemp(prefix="gputopo-companion-")
        cls.addClassCleanup(shutil.rmtree, cls.certificates, ignore_errors=True)

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="gputopo-companion-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.api = StrictDouble(self.certificates, tokens=("token-1",))
        self.addCleanup(self.api.stop)

    # what is there

    def add_node(self, name, label=None):
        self.api.add(NODES, name, metadata={"labels": {SUPERNODE_LABEL: label}} if label else {})

    def add_report(self, name, remote=(), note="", **more):
        self.api.add(TOPOLOGIES, name, status={**report(f"uuid-{name}", *remote, **more), **({"note": note} if note else {})})

    def add_mesh(self, *names, **more):
        for name, remote in mesh(*names).items():
            self.add_node(name)
            self.add_report(name, remote, **more)

    def configure(self, text):
        self.api.add(CONFIGMAPS, "gputopo-supernodes", data={"supernodes.yaml": text})

    def objects(self, path=SUPERNODES):
        with self.api.lock:
            where = self.api.place(path)[0]
            return {name: copy.deepcopy(obj) for (at, name), obj in self.api.objects.items() if at == where}

    def statuses(self):
        return {name: obj.get("status", {}) for name, obj in self.objects().items()}

    def members(self):
        """{supernode: the names of its nodes}"""
        return {name: [m["node"] for m in status.get("members", []) if isinstance(m, dict)]
                for name, status in self.statuses().items()}

    def condition(self, supernode, kind="Conflict"):
        found = [c for c in self.statuses().get(supernode, {}).get("conditions", []) if isinstance(c, dict) and c["type"] == kind]
        return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None

    def written(self, kind="supernodes"):
        return [r for r in self.api.asked() if r.method != "GET" and f"/{kind}" in r.path]

    def told_events(self):
        with self.api.lock:
            return [copy.deepcopy(obj) for (where, _), obj in self.api.objects.items() if where[2] == "events"]

    # the companion

    def start(self, *arguments, wait=True, user="token: token-1", program=None, only="supernodes"):
        config = kubeconfig(f"{self.directory}/config", self.api.url,
                            f"certificate-authority: {self.certificates}/ca.crt", user)
        companion = Companion(program or SCHEDULER, f"--only={only}", "--namespace", NAMESPACE, "--kubeconfig", config, *arguments)
        self.addCleanup(lambda: self.assertEqual(companion.stop(), 0, companion.lines))
        if wait:
            self.assertTrue(wait_for(companion.is_ready), companion.lines)
        return companion

    def wait(self, condition, seconds=PATIENCE):
        self.assertTrue(wait_for(condition, seconds), self.statuses())

    def wait_members(self, want, seconds=PATIENCE):
        wait_for(lambda: self.members() == want, seconds)
        self.assertEqual(self.members(), want)

    def pass_rounds(self, companion):
        """Two more rounds, each for one more node: what the first one decided is written before the second."""
        for _ in range(2):
            alone = companion.metrics()['gputopo_nodes{state="alone"}']
            self.add_mesh(f"alone-{alone:.0f}")
            self.wait(lambda before=alone: companion.metrics()['gputopo_nodes{state="alone"}'] == before + 1)

    def settle(self):
        """Nothing is written any more."""
        def writes():
            return len([r for r in self.api.asked() if r.method != "GET" and "leases" not in r.path])
        seen = -1
        while seen != writes():
            seen = writes()
            time.sleep(3)
