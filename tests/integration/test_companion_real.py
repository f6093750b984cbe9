#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-scheduler on a real kube-apiserver and etcd: with the manifests of this repository and a token of its own
account, and with Volcano's definition of HyperNodes where that is found.

Usage: test_companion_real.py GPUTOPO_SCHEDULER [unittest arguments]

kube-apiserver, kubectl and etcd are looked for in $GPUTOPO_KUBE_BIN and on PATH; without them the test is skipped
(77). Volcano's definition is looked for in $GPUTOPO_VOLCANO_CRDS and in Go's module cache.
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from companion_driver import LABEL, OLD_SUPERNODE_LABEL, SUPERNODE_LABEL, Companion, mesh, report
from daemon_driver import PATIENCE, wait_for
from kube_driver import kubeconfig, make_certificate
from real_api import RealServer

SCHEDULER = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
DAEMONSET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../daemonset")
NAMESPACE = "gputopo-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:gputopo-scheduler"
CRD = "topology.volcano.sh_hypernodes.yaml"
VOLCANO = [path for folder in (os.environ.get("GPUTOPO_VOLCANO_CRDS"),
                               *sorted(glob.glob(os.path.expanduser("~/go/pkg/mod/volcano.sh/volcano@*/config/crd/volcano/bases"))))
           if folder and os.path.exists(path := f"{folder}/{CRD}")]


class RealCompanion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gputopo-companion-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.server = RealServer(cls.folder)
        cls.addClassCleanup(cls.server.close)
        cls.server.install()
        overlay = f"{cls.folder}/overlay"
        os.mkdir(overlay)
        with open(f"{overlay}/kustomization.yaml", "w", encoding="ascii") as file:
            json.dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
                       "resources": [os.path.relpath(DAEMONSET, overlay)],
                       "components": [os.path.relpath(f"{DAEMONSET}/components/{name}", overlay)
                                      for name in ("hypernodes", "nodefeatures")]}, file)
        cls.server.kubectl("apply", "--server-side", "-k", overlay)
        token = cls.server.kubectl("create", "token", "gputopo-scheduler", "-n", NAMESPACE).strip()
        cls.config = kubeconfig(f"{cls.folder}/companion.kubeconfig", cls.server.url, "certificate-authority: ca.crt",
                                f"token: {token}")

    def setUp(self):
        self.addCleanup(self.server.kubectl, "delete", "nodes,ngt,sn", "--all")
        self.addCleanup(self.server.kubectl, "delete", "configmap", "gputopo-supernodes", "-n", NAMESPACE,
                        "--ignore-not-found")

    def start(self, *arguments):
        companion = Companion(SCHEDULER, "--only=supernodes", "--namespace", NAMESPACE, "--kubeconfig", self.config,
                              *arguments)
        self.addCleanup(lambda: self.assertEqual(companion.stop(), 0, companion.lines))
        self.assertTrue(wait_for(lambda: companion.is_ready() and companion.leads()), companion.lines)
        return companion

    def test_templates_of_claims(self):
        """With the rights of the component: made for the first pod that names it, and again when it is deleted."""
        for name in ("placement", "claims"):
            self.server.kubectl("apply", "-f", f"{DAEMONSET}/components/{name}/rbac.yaml")
        self.server.kubectl("create", "serviceaccount", "default", check=False)
        self.start("--only=placement", "--claims=groups")
        name = "gputopo-gpus-2"
        self.addCleanup(self.server.kubectl, "delete", "pod", "claims", "--force")
        self.server.kubectl("create", "-f", "-", text=json.dumps({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "claims"}, "spec": {
                "resourceClaims": [{"name": "gputopo-gpus", "resourceClaimTemplateName": name}],
                "containers": [{"name": "main", "image": "none", "resources": {
                    "claims": [{"name": "gputopo-gpus", "request": "gpus-0"}]}}]}}))
        for _ in range(2):
            self.assertTrue(wait_for(lambda: self.server.get("resourceclaimtemplate", name)))
            [request] = self.server.get("resourceclaimtemplate", name)["spec"]["spec"]["devices"]["requests"]
            self.assertEqual((request["name"], request["exactly"]["count"]), ("gpus-0", 2))
            self.server.kubectl("delete", "resourceclaimtemplate", name)

    def apply(self, obj, *arguments):
        self.server.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=test", "-f", "-", *arguments,
                            text=json.dumps(obj))

    def add_node(self, name, labels=None):
        self.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}})

    def add_report(self, name, remote=(), **more):
        head = {"apiVersion": "topology.metax-tech.com/v1alpha1", "kind": "NodeGPUTopology", "metadata": {"name": name}}
        self.apply(head)
        self.apply({**head, "status": report(f"uuid-{name}", *remote, **more)}, "--subresource=status")

    def add_mesh(self, *names, **more):
        for name, remote in mesh(*names).items():
            self.add_node(name)
            self.add_report(name, remote, **more)

    def configure(self, text):
        self.apply({"apiVersion": "v1", "kind": "ConfigMap", "data": {"supernodes.yaml": text},
                    "metadata": {"name": "gputopo-supernodes", "namespace": NAMESPACE}})

    def items(self, what="supernodes"):
        listed = json.loads(self.server.kubectl("get", what, "-o", "json", "--show-managed-fields"))["items"]
        return {item["metadata"]["name"]: item for item in listed}

    def statuses(self):
        return {name: item.get("status", {}) for name, item in self.items().items()}

    def wait(self, condition, seconds=PATIENCE):
        self.assertTrue(wait_for(condition, seconds), self.statuses())

    def test_the_account_may_do_its_work_and_no_more(self):
        self.add_mesh("n1", "n2", free=3)
        self.add_node("n3", labels={SUPERNODE_LABEL: "by-label"})
        companion = self.start()
        self.wait(lambda: {s.get("source") for s in self.statuses().values()} == {"report", "label"})
        joined, = [item for item in self.items().values() if item["status"]["source"] == "report"]
        self.assertEqual((joined["status"]["capacity"], joined["status"]["free"]), (16, 6))
        self.assertEqual(joined["metadata"]["labels"], LABEL)
        self.assertEqual({m["manager"] for m in joined["metadata"]["managedFields"]}, {"gputopo-scheduler"})
        print(self.server.kubectl("get", "supernodes"))
        self.configure("groups: [{name: g1, nodes: [n1, ghost]}]")
        self.wait(lambda: self.statuses().get("g1", {}).get("capacity") == 8)
        self.configure("groups: [")
        self.wait(lambda: companion.metrics()['gputopo_events_total{result="written"}'] >= 2)
        self.assertEqual(companion.metrics()['gputopo_events_total{result="failed"}'], 0)
        notes = self.server.kubectl("get", "events.events.k8s.io", "-n", NAMESPACE, "-o", "jsonpath={.items[*].note}")
        self.assertIn("ghost", notes)
        self.assertIn("cannot be read", notes)
        self.server.kubectl("delete", "node", "n3")
        self.wait(lambda: set(self.statuses()) == {"g1"})
        self.assertEqual(companion.metrics()['gputopo_object_write_failures_total{kind="Supernode"}'], 0)
        for verb, what in (("delete", "nodegputopologies"), ("patch", "nodegputopologies/status"), ("get", "secrets"),
                           ("patch", "nodes"), ("create", "configmaps"), ("delete", "leases"), ("update", "supernodes")):
            answer = self.server.kubectl("auth", "can-i", verb, what, "-n", NAMESPACE, f"--as={ACCOUNT}", check=False)
            self.assertEqual(answer.strip(), "no", f"{verb} {what}")

    def test_a_kubelet_cannot_place_its_node(self):
        """With the kubelet's credential, NodeRestriction refuses the label that names a supernode."""
        self.add_node("n1")
        make_certificate(self.folder, "kubelet", "/O=system:nodes/CN=system:node:n1")
        kubelet = kubeconfig(f"{self.folder}/kubelet.kubeconfig", self.server.url, "certificate-authority: ca.crt",
                             "client-certificate: kubelet.crt, client-key: kubelet.key")

        def label(key, value):
            return subprocess.run([self.server.kubectl_path, "--kubeconfig", kubelet, "label", "node", "n1", f"{key}={value}"],
                                  capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
        refused = label(SUPERNODE_LABEL, "mine")
        self.assertNotEqual(refused.returncode, 0, refused.stdout)
        self.assertIn(f"is not allowed to modify labels: {SUPERNODE_LABEL}", refused.stderr)
        self.assertEqual(label(OLD_SUPERNODE_LABEL, "mine").returncode, 0, "which is why the old one is not read")
        self.start()
        self.server.kubectl("label", "node", "n1", f"{SUPERNODE_LABEL}=by-the-operator")
        self.wait(lambda: set(self.statuses()) == {"by-the-operator"})

    def test_a_taken_server(self):
        self.add_mesh("n1", "n2", free=3)
        self.add_mesh("a0")
        companion = self.start()
        self.wait(lambda: [1 for s in self.statuses().values() if s.get("free") == 6])
        name, = self.statuses()
        self.assertEqual(self.statuses()[name]["members"][0]["server"], "uuid-n1")
        companion.stop()
        head = {"apiVersion": "topology.metax-tech.com/v1alpha1", "kind": "NodeGPUTopology", "metadata": {"name": "a0"}}
        self.apply({**head, "status": report("uuid-n1", "uuid-n2")}, "--subresource=status")
        companion = self.start()
        self.wait(lambda: "TakenUUID" in [c["reason"] for c in self.statuses()[name]["conditions"]])
        self.assertEqual([m["node"] for m in self.statuses()[name]["members"]], ["n1", "n2"])
        self.assertEqual(companion.metrics()['gputopo_object_write_failures_total{kind="Supernode"}'], 0)

    def test_edits_by_hand(self):
        self.add_mesh("n1", "n2", free=3)
        self.configure("groups: [{name: rack, nodes: [n1, n2]}, {name: theirs, nodes: []}]")
        self.apply({"apiVersion": "topology.metax-tech.com/v1alpha1", "kind": "Supernode", "metadata": {"name": "theirs"}})
        companion = self.start()
        self.wait(lambda: self.statuses().get("rack", {}).get("free") == 6)
        version = self.items()["theirs"]["metadata"]["resourceVersion"]
        since = self.statuses()["rack"]["conditions"][0]["lastTransitionTime"]
        for patch in ('{"status":{"parent":"nowhere","free":1,"linksHealthy":false}}',
                      '{"status":{"conditions":[],"members":[]}}', '{"status":null}'):
            self.server.kubectl("patch", "supernode", "rack", "--subresource=status", "--type=merge", "-p", patch)
            self.wait(lambda: self.statuses()["rack"].get("free") == 6 and "parent" not in self.statuses()["rack"]
                      and len(self.statuses()["rack"]["members"]) == 2 and self.statuses()["rack"]["conditions"])
            if "conditions" not in patch and "null" not in patch:
                self.assertEqual(self.statuses()["rack"]["conditions"][0]["lastTransitionTime"], since)
        self.server.kubectl("delete", "supernode", "rack")
        self.wait(lambda: self.statuses().get("rack", {}).get("free") == 6)
        self.assertEqual(self.items()["theirs"]["metadata"]["resourceVersion"], version)
        self.assertTrue([1 for reason, note in companion.said() if reason == "NameTaken" and "theirs" in note])

    def test_nothing_is_written_for_nothing(self):
        self.add_mesh("n1", "n2", free=3)
        companion = self.start()
        self.wait(lambda: [1 for s in self.statuses().values() if s.get("free") == 6])
        before = self.items()
        writes = companion.metrics()['gputopo_object_writes_total{kind="Supernode",verb="apply"}']
        self.add_report("n1", ["uuid-n2"], free=3)
        time.sleep(8)
        self.assertEqual(self.items(), before)
        self.assertEqual(companion.metrics()['gputopo_object_writes_total{kind="Supernode",verb="apply"}'], writes)
        companion.stop()
        self.start()
        time.sleep(4)
        self.assertEqual(self.items(), before, "a new process finds all as it shall be")

    def test_restart_of_the_server(self):
        self.add_mesh("n1", "n2", free=3)
        companion = self.start()
        self.wait(lambda: [1 for s in self.statuses().values() if s.get("free") == 6])
        self.server.compact()
        self.server.end(self.server.apiserver)
        time.sleep(2)
        self.server.start()
        self.server.wait_ready()
        self.add_report("n1", ["uuid-n2"], free=2)
        self.assertTrue(wait_for(lambda: [1 for s in self.statuses().values() if s.get("free") == 5], 60), companion.lines)

    @unittest.skipUnless(VOLCANO, "Volcano's definitions are not there ($GPUTOPO_VOLCANO_CRDS)")
    def test_hypernodes_by_volcanos_definition(self):
        self.add_mesh("n1", "n2", "n3", free=3)
        self.configure("groups: [{name: hall, tier: 2}, {name: r1, parent: hall, nodes: [n1, n2]},"
                       " {name: r2, parent: hall, nodes: [n3]}, {name: empty}]")
        companion = self.start("--project=hypernodes")
        self.wait(lambda: [c for c in self.statuses().get("r1", {}).get("conditions", []) if c["reason"] == "NotInstalled"])
        self.server.kubectl("apply", "--server-side", "-f", VOLCANO[-1])
        self.server.kubectl("wait", "--for=condition=Established", "crd", "hypernodes.topology.volcano.sh")
        self.assertTrue(wait_for(lambda: set(self.items("hypernodes")) == {"hall", "r1", "r2"}, 60), companion.lines)
        print(self.server.kubectl("get", "hypernodes"))
        members = self.items("hypernodes")["hall"]["spec"]["members"]
        self.assertEqual(members, [{"type": "HyperNode", "selector": {"exactMatch": {"name": name}}} for name in ("r1", "r2")])
        self.wait(lambda: [c["status"] for c in self.statuses()["r1"]["conditions"] if c["type"] == "HyperNode"] == ["True"])
        self.apply({"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "theirs"},
                    "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {"a": "b"}}}}]}})
        self.wait(lambda: set(self.items("hypernodes")) == {"theirs"})
        self.server.kubectl("delete", "hypernode", "theirs")
        self.wait(lambda: set(self.items("hypernodes")) == {"hall", "r1", "r2"})
        self.assertEqual(companion.metrics()['gputopo_object_write_failures_total{kind="HyperNode"}'], 0)
        self.server.kubectl("delete", "configmap", "gputopo-supernodes", "-n", NAMESPACE)
        self.wait(lambda: not {"hall", "r1"} & set(self.items("hypernodes")))
        self.server.kubectl("delete", "hypernodes", "--all")


if not RealServer.is_there():
    print("skipped: kube-apiserver, kubectl or etcd is not there ($GPUTOPO_KUBE_BIN, PATH)")
    sys.exit(77)
unittest.main(verbosity=2)
