#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What gputopo-agent publishes, on a real kube-apiserver and etcd with the custom resources of this repository.

Usage: test_publish_real.py GPUTOPO_AGENT [unittest arguments]

kube-apiserver and kubectl are looked for in $GPUTOPO_KUBE_BIN and on PATH, etcd too; without them the test is
skipped (77).
"""

import json
import os
import shutil
import sys
import tempfile
import time
import unittest

from kube_driver import Relay, kubeconfig
from kubelet_double import KubeletDouble
from daemon_driver import wait_for
from publish_driver import MACHINES, Agent
from real_api import RealServer

AGENT = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
SANITIZED = b"__asan_init" in open(AGENT, "rb").read() if AGENT else False  # noqa: SIM115
SCORES = "metax-tech.com/gpu.topology.scores"


class RealPublish(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gputopo-publish-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.server = RealServer(cls.folder)
        cls.addClassCleanup(cls.server.close)
        cls.server.install()

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="gputopo-publish-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.dev = f"{self.directory}/dev"
        os.makedirs(f"{self.dev}/dri")
        for name in ["mxcd", *(f"dri/card{i}" for i in range(16)), *(f"dri/renderD{128 + i}" for i in range(16))]:
            with open(f"{self.dev}/{name}", "w", encoding="ascii"):
                pass
        self.make_node()
        self.addCleanup(self.server.kubectl, "delete", "node,ngt", "n1", "--ignore-not-found")

    def make_node(self):
        self.server.kubectl("create", "-f", "-", text='{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}')

    def start(self, *arguments, machine="c500-8", config=None):
        agent = Agent(AGENT, self.directory, "--from", f"{MACHINES}/{machine}.json", "--dev-root", self.dev,
                      "--kubeconfig", config or self.server.kubeconfig, *arguments)
        self.addCleanup(lambda: self.assertEqual(agent.stop(), 0, agent.lines))
        return agent

    def kubelet(self):
        kubelet = KubeletDouble(self.directory)
        kubelet.start()
        self.addCleanup(kubelet.stop, leave_socket=False)
        return kubelet

    def status(self):
        return (self.server.get("ngt", "n1") or {}).get("status", {})

    def meta(self):
        return self.server.get("node", "n1")["metadata"]

    def wait_current(self, agent):
        self.assertTrue(wait_for(agent.is_current), agent.lines)

    def test_every_machine_is_taken(self):
        for machine in ("c500-4", "c500-8", "c500-8-deadlink", "c500-8-nolib", "c550-8"):
            with self.subTest(machine):
                agent = self.start("--no-device-plugin", "--heartbeat", "5", machine=machine)
                self.wait_current(agent)
                self.assertEqual(agent.events("cannot publish"), [])
                self.assertEqual(self.status()["gpuCount"], 4 if machine == "c500-4" else 8)
                row = self.server.kubectl("get", "ngt", "n1", "--no-headers")
                product = {"c500-8-nolib": None, "c550-8": "MXC550"}.get(machine, "MXC500")
                self.assertEqual([word for word in row.split() if "MX" in word], [product] if product else [], row)
                self.assertNotIn("<no value>", row)  # what the API server says of null
                agent.stop()
                self.server.kubectl("delete", "ngt", "n1")

    def test_use_and_its_price(self):
        relay = Relay(self.server.port)
        self.addCleanup(relay.close)
        config = kubeconfig(f"{self.folder}/relay.kubeconfig", f"https://127.0.0.1:{relay.port}",
                            "certificate-authority: ca.crt", "client-certificate: admin.crt, client-key: admin.key")
        kubelet = self.kubelet()
        agent = self.start(config=config)
        self.assertTrue(wait_for(lambda: self.status().get("freeCount") == 8), agent.lines)
        self.wait_current(agent)
        time.sleep(1.5)
        names = ["up", "down"]
        before = [getattr(relay, n) for n in names]
        writes = agent.metrics()
        kubelet.admit("train-worker-0", 4)
        self.assertTrue(wait_for(lambda: self.status().get("freeCount") == 4))
        self.wait_current(agent)
        time.sleep(0.5)
        spent = [getattr(relay, n) - b for n, b in zip(names, before)]
        after = agent.metrics()
        sent = {k: after[k] - writes[k] for k in after if "publish_writes" in k and after[k] != writes[k]}
        rss, anonymous = agent.memory_kib()
        print(f"one change of use: {sent}, TLS bytes up and down {spent}; RSS {rss} kB, anonymous {anonymous} kB")
        print(self.server.kubectl("get", "nodegputopologies"))
        print(self.server.kubectl("get", "nodegputopologies", "-o", "wide"))
        self.assertEqual(sum(sent.values()), 2)
        status, annotations = relay.exchanges[-2:]
        self.assertEqual(status + annotations, sum(spent))
        self.assertLess(status, 2000)
        self.assertLess(annotations, 1700 + (12 << 10))  # with the object, which the agent watches for its spec
        if not SANITIZED:
            self.assertLess(rss, 20 << 10)
            self.assertLess(anonymous, 4 << 10)
        managers = {m["manager"]: m for m in self.server.get("ngt", "n1")["metadata"]["managedFields"]
                    if m.get("subresource") == "status"}
        self.assertEqual(set(managers), {"gputopo-agent", "gputopo-agent-usage"})
        self.assertNotIn("f:message", json.dumps(managers["gputopo-agent"]))  # conditions are atomic: less to answer
        self.assertEqual(set(managers["gputopo-agent-usage"]["fieldsV1"]["f:status"]),
                         {"f:free", "f:freeCount", "f:owners", "f:scoreByCount", "f:lossByCount"})

    def make_pod(self, name, node, annotations):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
               "spec": {"nodeName": node, "containers": [{"name": "c0", "image": "none"}]}}
        self.server.kubectl("create", "-f", "-", text=json.dumps(pod))
        self.addCleanup(self.server.kubectl, "delete", "pod", name, "--ignore-not-found", "--force", "--grace-period=0")

    def test_plans_are_followed(self):
        """The plans of this node's pods, by a watch of metadata: honoured, changed, gone with the pod."""
        if "default" not in self.server.kubectl("get", "serviceaccounts", "-o", "name"):
            self.server.kubectl("create", "serviceaccount", "default")
        key = "plan.topology.metax-tech.com/gpus"
        kubelet = self.kubelet()
        kubelet.book.empty_for = 0
        agent = self.start()
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        first = {key: json.dumps({"c0": [kubelet.order[0], kubelet.order[7]]})}
        second = {key: json.dumps({"c0": [kubelet.order[1], kubelet.order[6]]})}
        self.make_pod("p", "n1", first)
        self.make_pod("elsewhere", "n2", first)
        self.make_pod("plain", "n1", {})
        planned = lambda: agent.metrics().get("gputopo_planned_pods")  # noqa: E731
        self.assertTrue(wait_for(lambda: planned() == 1), agent.lines)
        self.assertEqual(sorted(kubelet.admit("p", 2)[0]), sorted([kubelet.order[0], kubelet.order[7]]))
        self.make_pod("q", "n1", first)
        self.assertTrue(wait_for(lambda: planned() == 2), agent.lines)
        self.server.kubectl("annotate", "pod", "q", "--overwrite", f"{key}={second[key]}")
        time.sleep(1)
        self.assertEqual(sorted(kubelet.admit("q", 2)[0]), sorted([kubelet.order[1], kubelet.order[6]]))
        self.server.kubectl("delete", "pod", "p", "q", "--force", "--grace-period=0")
        self.assertTrue(wait_for(lambda: planned() == 0), agent.lines)
        values = agent.metrics()
        self.assertEqual(values['gputopo_plan_preferences_total{result="hit"}'], 2)
        self.assertEqual(values['gputopo_planned_containers_total{result="otherwise"}'], 0)

    def test_owner_annotations_and_labels(self):
        self.server.kubectl("label", "node", "n1", "metax-tech.com/gpu.product=theirs")
        agent = self.start("--no-device-plugin", "--heartbeat", "2")
        self.wait_current(agent)
        meta = self.meta()
        self.assertEqual(self.server.get("ngt", "n1")["metadata"]["ownerReferences"],
                         [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": meta["uid"]}])
        self.assertEqual({k: v for k, v in meta["labels"].items() if k.startswith("metax-tech.com/")},
                         {"metax-tech.com/gpu.product": "theirs", "metax-tech.com/gpu.memory": "64GB",
                          "metax-tech.com/gpu.family": "MXC"})
        self.assertEqual(json.loads(meta["annotations"][SCORES])["8"], 1999)
        said = agent.events("a label of the Node is somebody else's, left to them")
        self.assertEqual([line["label"] for line in said], ["metax-tech.com/gpu.product"])

    def test_hand_edits_and_times(self):
        agent = self.start()
        self.wait_current(agent)
        since = [c["lastTransitionTime"] for c in self.status()["conditions"]]
        self.server.kubectl("patch", "ngt", "n1", "--subresource=status", "--type=merge",
                            "-p", '{"status": {"links": [], "driverVersion": "nonsense"}}')
        self.server.kubectl("annotate", "node", "n1", "--overwrite", f"{SCORES}=nonsense")
        agent.hangup()
        self.assertTrue(wait_for(lambda: len(self.status()["links"]) == 28))
        self.assertTrue(wait_for(lambda: self.meta()["annotations"][SCORES] != "nonsense"))
        agent.stop()
        time.sleep(1.1)
        self.wait_current(self.start())
        self.assertEqual([c["lastTransitionTime"] for c in self.status()["conditions"]], since)

    def test_annotations_of_others(self):
        """Without the device plugin, somebody else's may have the node: its annotations are left alone."""
        self.server.kubectl("annotate", "node", "n1", f"{SCORES}=theirs")
        agent = self.start("--no-device-plugin")
        self.assertTrue(wait_for(lambda: agent.events("cannot publish")))
        self.assertEqual(agent.events("cannot publish")[0]["what"], "annotations")
        self.assertEqual(self.meta()["annotations"][SCORES], "theirs")
        self.assertTrue(wait_for(lambda: "observedAt" in self.status()))

    def test_object_deleted(self):
        agent = self.start("--no-device-plugin", "--heartbeat", "2")
        self.wait_current(agent)
        self.server.kubectl("delete", "ngt", "n1")
        self.assertTrue(wait_for(lambda: "observedAt" in self.status()), agent.lines)

    def test_node_deleted(self):
        """Without the garbage collector: that it is not there is found out by the annotations, and no Node is made."""
        agent = self.start("--no-device-plugin", "--heartbeat", "2")
        self.wait_current(agent)
        self.server.kubectl("delete", "node", "n1")
        self.assertTrue(wait_for(
            lambda: agent.events("there is no such Node, nothing is published until there is")), agent.lines)
        time.sleep(5)
        self.assertIsNone(self.server.get("node", "n1"))
        self.make_node()
        self.assertTrue(wait_for(lambda: SCORES in self.meta().get("annotations", {})), agent.lines)
        self.assertEqual(self.server.get("ngt", "n1")["metadata"]["ownerReferences"][0]["uid"], self.meta()["uid"])

    def test_server_restarted(self):
        agent = self.start("--no-device-plugin", "--heartbeat", "2")
        self.wait_current(agent)
        self.server.end(self.server.apiserver)
        time.sleep(3)
        self.server.start()
        self.assertTrue(wait_for(lambda: "ok" in self.server.kubectl("get", "--raw", "/readyz", check=False), 60))
        observed = self.status()["observedAt"]
        self.assertTrue(wait_for(lambda: self.status()["observedAt"] != observed, 60), agent.lines)


if not RealServer.is_there():
    print("skipped: kube-apiserver, kubectl or etcd is not there ($GPUTOPO_KUBE_BIN, PATH)")
    sys.exit(77)
unittest.main(verbosity=2)
