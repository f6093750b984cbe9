# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes client and the double of the API server, for the tests of the client."""

import os
import shutil
import sys
import tempfile
import unittest

from api_double import ApiDouble
from kube_driver import Tool, kubeconfig

TOOL = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
MAPS = "/v1/configmaps"
WHERE = "/api/v1/namespaces/default/configmaps"


def config_map(name, version, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default", "uid": "u", "resourceVersion": str(version)},
            "data": data}  # the metadata come before, as the real one writes them


class Case(unittest.TestCase):
    configs = 0

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gputopo-kube-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

    def setUp(self):
        self.api = ApiDouble(self.folder)
        self.addCleanup(self.api.stop)
        self.tools = []
        self.tool = self.start_tool()

    def start_tool(self, user="token: token-1", cluster="certificate-authority: ca.crt"):
        Case.configs += 1  # a file of its own: another tool may be reading its own just now
        path = kubeconfig(f"{self.folder}/config{Case.configs}", self.api.url, cluster, user)
        return self.adopt(Tool(TOOL, "--kubeconfig", path))

    def adopt(self, tool):
        self.addCleanup(self.end_tool, tool)
        return tool

    def end_tool(self, tool):
        self.assertEqual(tool.close(), (0, ""))

    def get(self, tool=None, **more):
        return (tool or self.tool).ask("get", MAPS, namespace="default", name="x", **more)

    def assert_answer(self, answer, status, code=None, tries=None):
        self.assertEqual((answer.get("status"), answer.get("code")), (status, code), answer)
        if tries is not None:
            self.assertEqual(answer["tries"], tries, answer)
