#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes client against a real kube-apiserver and etcd, on loopback, in a temporary directory.

Usage: test_kube_real.py KUBE_TOOL [unittest arguments]

kube-apiserver is looked for in $GPUTOPO_KUBE_BIN and on PATH, etcd too; without them the test is skipped (77).
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from kube_driver import Tool, kubeconfig, make_authority, make_certificate, openssl

TOOL = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
SEARCH = os.pathsep.join(filter(None, [os.environ.get("GPUTOPO_KUBE_BIN"), os.environ.get("PATH")]))
APISERVER = shutil.which("kube-apiserver", path=SEARCH)
ETCD = shutil.which("etcd", path=SEARCH)
MAPS = "/v1/configmaps"
NODES = "/v1/nodes"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """etcd and kube-apiserver."""

    def __init__(self, folder):
        self.folder = folder
        self.port, self.etcd_port, self.peer_port = free_port(), free_port(), free_port()
        make_authority(folder)
        make_certificate(folder, "server", "/CN=kube-apiserver", "subjectAltName=IP:127.0.0.1,DNS:localhost")
        make_certificate(folder, "admin", "/O=system:masters/CN=admin")
        openssl("genrsa", "-out", f"{folder}/sa.key", "2048")
        self.log = open(f"{folder}/log", "wb")
        etcd = f"http://127.0.0.1:{self.etcd_port}"
        self.etcd = subprocess.Popen(
            [ETCD, "--data-dir", f"{folder}/etcd", "--unsafe-no-fsync", "--listen-client-urls", etcd,
             "--advertise-client-urls", etcd, "--listen-peer-urls", f"http://127.0.0.1:{self.peer_port}",
             "--initial-advertise-peer-urls", f"http://127.0.0.1:{self.peer_port}", "--initial-cluster",
             f"default=http://127.0.0.1:{self.peer_port}"],
            stdout=self.log, stderr=self.log)
        self.apiserver = None
        self.start()
        self.url = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = kubeconfig(f"{folder}/admin.kubeconfig", self.url, "certificate-authority: ca.crt",
                                     "client-certificate: admin.crt, client-key: admin.key")

    def start(self):
        f = self.folder
        self.apiserver = subprocess.Popen(
            [APISERVER, f"--etcd-servers=http://127.0.0.1:{self.etcd_port}", "--bind-address=127.0.0.1",
             f"--secure-port={self.port}", "--service-cluster-ip-range=10.96.0.0/24",
             f"--tls-cert-file={f}/server.crt", f"--tls-private-key-file={f}/server.key",
             f"--client-ca-file={f}/ca.crt", f"--service-account-key-file={f}/sa.key",
             f"--service-account-signing-key-file={f}/sa.key", f"--cert-dir={f}",
             "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC",
             "--endpoint-reconciler-type=none", "--etcd-compaction-interval=0"],
            stdout=self.log, stderr=self.log)

    def compact(self):
        """Makes etcd forget all but the present."""
        etcd = f"http://127.0.0.1:{self.etcd_port}/v3/kv/"
        with urllib.request.urlopen(etcd + "range", data=b'{"key": "AA=="}', timeout=10) as answer:
            revision = json.load(answer)["header"]["revision"]
        data = json.dumps({"revision": revision}).encode()
        with urllib.request.urlopen(etcd + "compaction", data=data, timeout=10) as answer:
            answer.read()

    def stop(self, process):
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self):
        self.stop(self.apiserver)
        self.stop(self.etcd)
        self.log.close()


class RealServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gputopo-kube-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.server = Server(cls.folder)
        cls.addClassCleanup(cls.server.close)
        tool = Tool(TOOL, "--kubeconfig", cls.server.kubeconfig)
        end = time.monotonic() + 90
        while True:
            answer = tool.ask("get", "/v1/namespaces", name="default", deadlineMs=5000)
            if answer["status"] == 200:
                break
            if time.monotonic() > end:
                raise AssertionError(f"the API server does not come up: {answer}")
            time.sleep(0.2)
        assert tool.close() == (0, "")

    def setUp(self):
        self.tool = Tool(TOOL, "--kubeconfig", self.server.kubeconfig)

    def tearDown(self):
        self.assertEqual(self.tool.close(), (0, ""))

    def make_map(self, name, **data):
        return self.tool.ask("apply", MAPS, namespace="default", name=name, manager="test", force=True,
                             body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                                   "data": data})

    def test_objects(self):
        answer = self.tool.ask("create", MAPS, namespace="default", manager="test", body={
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"a": "1"}})
        self.assertEqual(answer["status"], 201)
        answer = self.tool.ask("create", MAPS, namespace="default", body={
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}})
        self.assertEqual((answer["status"], answer["code"]), (409, "EEXIST"))
        self.assertIn("already exists", answer["error"])
        got = self.tool.ask("get", MAPS, namespace="default", name="made")["object"]
        self.assertEqual(got["data"], {"a": "1"})
        answer = self.tool.ask("get", MAPS, namespace="default", name="made", metadataOnly=True)["object"]
        self.assertEqual(answer["kind"], "PartialObjectMetadata")
        self.assertNotIn("data", answer)
        answer = self.tool.ask("merge", MAPS, namespace="default", name="made", body={"data": {"b": "2"}})
        self.assertEqual(answer["object"]["data"], {"a": "1", "b": "2"})
        answer = self.tool.ask("update", MAPS, namespace="default", name="made", body=got)
        self.assertEqual((answer["status"], answer["code"]), (409, "EBUSY"))
        answer = self.tool.ask("delete", MAPS, namespace="default", name="made")
        self.assertEqual(answer["status"], 200)
        answer = self.tool.ask("get", MAPS, namespace="default", name="made")
        self.assertEqual((answer["status"], answer["code"]), (404, "ENOENT"))

    def test_apply_and_conflict(self):
        self.assertEqual(self.make_map("applied", a="1")["status"], 201)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "2"}}
        answer = self.tool.ask("apply", MAPS, namespace="default", name="applied", manager="other", body=body)
        self.assertEqual((answer["status"], answer["code"]), (409, "EBUSY"))
        self.assertIn("conflict", answer["error"])
        answer = self.tool.ask("apply", MAPS, namespace="default", name="applied", manager="other", body=body,
                               force=True)
        self.assertEqual((answer["status"], answer["object"]["data"]), (200, {"a": "2"}))

    def test_node_and_its_status(self):
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        self.assertEqual(self.tool.ask("create", NODES, body=body)["status"], 201)
        answer = self.tool.ask("apply", NODES, name="n1", subresource="status", manager="test", body={
            **body, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}]}})
        self.assertEqual(answer["status"], 200)
        self.assertEqual(answer["object"]["status"]["conditions"][0]["type"], "Ready")
        answer = self.tool.ask("apply", NODES, name="n1", manager="test", body={
            **body, "metadata": {"name": "n1", "annotations": {"x/y": "z"}}})
        self.assertEqual(answer["object"]["metadata"]["annotations"]["x/y"], "z")

    def test_list_in_pages(self):
        for i in range(7):
            self.make_map(f"page{i}", a="1")
        number = self.tool.start("list", MAPS, namespace="default", limit=3)
        done = self.tool.event(number, "DONE")
        self.assertGreaterEqual(done["seen"], 7)
        names = [a["object"]["metadata"]["name"] for a in self.tool.said(number) if a["event"] == "OBJECT"]
        self.assertLessEqual({f"page{i}" for i in range(7)}, set(names))
        self.assertEqual(len(names), len(set(names)))
        number = self.tool.start("list", MAPS, namespace="default", fieldSelector="metadata.name=page3",
                                 metadataOnly=True)
        self.assertEqual(self.tool.event(number, "DONE")["seen"], 1)
        self.assertNotIn("data", self.tool.said(number)[1]["object"])

    def test_watch(self):
        version = self.make_map("watched", a="1")["object"]["metadata"]["resourceVersion"]
        number = self.tool.start("watch", MAPS, namespace="default", resourceVersion=version, timeoutS=8,
                                 fieldSelector="metadata.name=watched")
        self.make_map("watched", a="2")
        self.assertEqual(self.tool.event(number, "MODIFIED")["object"]["data"], {"a": "2"})
        # A bookmark comes shortly before the end, and only to a watch that has seen something happen.
        self.make_map("watched", a="between")
        self.tool.event(number, "MODIFIED", count=2)
        end = time.monotonic() + 60  # the server ends it and it is resumed
        while time.monotonic() < end:
            counters = self.tool.ask("counters", of=number)
            if counters["connects"] > 1 and counters["bookmarks"]:
                break
            time.sleep(0.2)
        self.make_map("watched", a="3")
        self.assertEqual(self.tool.event(number, "MODIFIED", count=3)["object"]["data"], {"a": "3"})
        self.tool.ask("delete", MAPS, namespace="default", name="watched")
        self.tool.event(number, "DELETED")
        counters = self.tool.ask("counters", of=number)
        self.assertGreaterEqual(counters["connects"], 2)
        self.assertEqual(counters["errors"], 0)
        self.assertGreaterEqual(counters["bookmarks"], 1)

    def test_watch_of_a_forgotten_version(self):
        version = self.make_map("old", a="1")["object"]["metadata"]["resourceVersion"]
        for i in range(3):
            self.make_map("old", a=f"x{i}")
        self.server.compact()
        self.server.stop(self.server.apiserver)  # its watch cache remembers longer than etcd
        self.server.start()
        self.assertEqual(self.tool.ask("get", MAPS, namespace="default", name="old", forever=True,
                                       timeout=60)["status"], 200)
        number = self.tool.start("watch", MAPS, namespace="default", resourceVersion=version)
        lost = self.tool.event(number, "LOST", timeout=60)
        self.assertEqual(lost["code"], "ESTALE")

    def test_informer(self):
        self.make_map("first", a="1")
        number = self.tool.start("inform", MAPS, namespace="default")
        self.tool.event(number, "SYNCED")
        self.make_map("second", a="1")
        self.tool.wait(number, lambda a: a["event"] == "ADD" and a["object"]["metadata"]["name"] == "second")
        self.make_map("second", a="2")
        self.tool.wait(number, lambda a: a["event"] == "UPDATE" and a["object"]["data"] == {"a": "2"})
        self.tool.ask("delete", MAPS, namespace="default", name="second")
        self.assertTrue(self.tool.event(number, "DELETE")["known"])

    def test_informer_over_a_restart_of_the_server(self):
        number = self.tool.start("inform", MAPS, namespace="default")
        self.tool.event(number, "SYNCED")
        self.server.stop(self.server.apiserver)
        time.sleep(1)
        self.server.start()
        self.tool.ask("apply", MAPS, namespace="default", name="after", manager="test", forever=True, timeout=60,
                      body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "after"}})
        self.tool.wait(number, lambda a: a["event"] == "ADD" and a["object"]["metadata"]["name"] == "after",
                       timeout=60)

    def test_lease(self):
        made = self.tool.ask("lease", namespace="default", name="leader", holder="me")
        self.assertEqual(made["status"], 201, made)
        version = made["object"]["metadata"]["resourceVersion"]
        renewed = self.tool.ask("lease", namespace="default", name="leader", holder="me",
                                resourceVersion=version)
        self.assertEqual(renewed["status"], 200, renewed)
        late = self.tool.ask("lease", namespace="default", name="leader", holder="you",
                             resourceVersion=version)
        self.assertEqual((late["status"], late["code"]), (409, "EBUSY"))

    def test_event(self):
        for _ in range(2):
            self.tool.start("event", apiVersion="v1", kind="Node", name="n1", warning=True, reason="LinkDown",
                            action="Watch", note="the link between GPU 0 and GPU 1 is down")
        end = time.monotonic() + 10
        while self.tool.ask("counters")["eventsWritten"] < 1 and time.monotonic() < end:
            time.sleep(0.1)
        counters = self.tool.ask("counters")
        self.assertEqual((counters["eventsWritten"], counters["eventsRepeated"], counters["eventsFailed"]),
                         (1, 1, 0))
        number = self.tool.start("list", "events.k8s.io/v1/events", namespace="default")
        self.tool.event(number, "DONE")
        notes = [a["object"]["note"] for a in self.tool.said(number) if a["event"] == "OBJECT"]
        self.assertIn("the link between GPU 0 and GPU 1 is down", notes)

    def test_service_account(self):
        self.tool.ask("create", "/v1/serviceaccounts", namespace="default", body={
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "agent"}})
        answer = self.tool.ask("create", "/v1/serviceaccounts", namespace="default", name="agent",
                               subresource="token", body={
                                   "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                                   "spec": {"expirationSeconds": 600}})
        self.assertEqual(answer["status"], 201, answer)
        pod = f"{self.folder}/pod"
        os.makedirs(pod, exist_ok=True)
        shutil.copy(f"{self.folder}/ca.crt", f"{pod}/ca.crt")
        with open(f"{pod}/token", "w", encoding="ascii") as file:
            file.write(answer["object"]["status"]["token"])
        env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.server.port)}
        tool = Tool(TOOL, "--pod", pod, env=env)
        answer = tool.ask("get", MAPS, namespace="default", name="any")
        self.assertEqual((answer["status"], answer["code"], answer["tries"]), (403, "EACCES", 1))
        self.assertIn("system:serviceaccount:default:agent", answer["error"])
        with open(f"{pod}/token", "w", encoding="ascii") as file:
            file.write("no-token-of-this-server")
        self.assertEqual(tool.close(), (0, ""))
        tool = Tool(TOOL, "--pod", pod, env=env)
        answer = tool.ask("get", MAPS, namespace="default", name="any")
        self.assertEqual((answer["status"], answer["code"], answer["tries"]), (401, "EPERM", 2))
        self.assertEqual(tool.close(), (0, ""))


if not APISERVER or not ETCD:
    print("skipped: kube-apiserver or etcd is not there ($GPUTOPO_KUBE_BIN, PATH)")
    sys.exit(77)
unittest.main(verbosity=2)
