#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes client against a real kube-apiserver and etcd, on loopback, in a temporary directory.

Usage: test_kube_real.py KUBE_TOOL [unittest arguments]

kube-apiserver, kubectl and etcd are looked for in $GPUTOPO_KUBE_BIN and on PATH; without them the test is skipped (77).
"""

import os
import shutil
import sys
import tempfile
import time
import unittest

from kube_driver import Relay, Tool, kubeconfig
from real_api import RealServer
from watch_cases import SelectedWatches

TOOL = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
MAPS = "/v1/configmaps"
NODES = "/v1/nodes"


class RealClient(SelectedWatches, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gputopo-kube-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.server = RealServer(cls.folder)
        cls.addClassCleanup(cls.server.close)
        cls.server.wait_ready()
        cls.server.kubectl("create", "serviceaccount", "default")

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

    def through_a_relay(self):
        relay = Relay(self.server.port)
        self.addCleanup(relay.close)
        tool = Tool(TOOL, "--kubeconfig", kubeconfig(
            f"{self.folder}/relay.kubeconfig", f"https://127.0.0.1:{relay.port}", "certificate-authority: ca.crt",
            "client-certificate: admin.crt, client-key: admin.key"))
        self.addCleanup(lambda: self.assertEqual(tool.close(), (0, "")))
        return relay, tool

    def test_short_writes(self):
        """No object in the answer, little on the wire, and errors that can be read."""
        relay, tool = self.through_a_relay()
        sizes = []
        for number in range(10):
            before = relay.up, relay.down
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "short"}, "data": {"a": str(number)}}
            answer = tool.ask("apply", MAPS, namespace="default", name="short", manager="one", noObject=True, body=body)
            self.assertEqual((answer["status"], answer.get("error"), answer.get("object")),
                             (200 if number else 201, None, None), answer)
            sizes.append((relay.up - before[0], relay.down - before[1]))
        self.assertLess(max(up for up, _ in sizes[2:]), 280, sizes)
        self.assertLess(max(down for _, down in sizes[2:]), 420, sizes)
        self.assertEqual(relay.count, 1)
        answer = tool.ask("apply", MAPS, namespace="default", name="short", manager="two", noObject=True, body=body | {
            "data": {"a": "x"}})
        self.assertEqual((answer["status"], answer["code"]), (409, "EBUSY"))
        self.assertIn('conflict with "one"', answer["error"])

    def test_a_connection_that_died_without_a_word(self):
        """It carries several requests one after another, and must not take more than one of them with it."""
        relay, tool = self.through_a_relay()
        ask = {"namespace": "default", "name": "dead", "noObject": True, "manager": "test", "tryMs": 1500}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dead"}}
        tool.ask("apply", MAPS, body=body, **ask)
        self.assertEqual(tool.ask("apply", MAPS, body=body, **ask)["tries"], 1)
        self.assertEqual(relay.count, 1)
        relay.kill()
        self.assertEqual([tool.ask("apply", MAPS, body=body, **ask)["tries"] for _ in range(4)], [2, 1, 1, 1])
        self.assertEqual(relay.count, 2)

    def test_a_request_given_up_on_a_dead_connection(self):
        relay, tool = self.through_a_relay()
        ask = {"namespace": "default", "name": "dead", "noObject": True, "manager": "test", "tryMs": 5000}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dead"}}
        tool.ask("apply", MAPS, body=body, **ask)
        relay.kill()
        tool.start("cancel", of=tool.start("apply", MAPS, body=body, **ask))
        self.assertEqual(tool.ask("apply", MAPS, body=body, **ask)["tries"], 1)

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
        self.server.end(self.server.apiserver)  # its watch cache remembers longer than etcd
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

    def make_large(self, name):
        """0.9 MB in etcd, 5.4 MB as JSON: a control character becomes six."""
        self.make_map(name)
        for key in ("a", "b"):
            answer = self.tool.ask("merge", MAPS, namespace="default", name=name, quiet=True,
                                   responseMax=16 << 20, body={"data": {key: "\x01" * 450000}})
            self.assertEqual(answer["status"], 200, answer)

    def test_objects_that_are_too_large(self):
        for name in ("large-0", "large-5"):
            self.make_large(name)
        for i in range(1, 10):
            if i != 5:
                self.make_map(f"large-{i}")
        number = self.tool.start("inform", MAPS, namespace="default", pageMax=4 << 20, limit=4)
        self.tool.event(number, "SYNCED")
        seen = {a["object"]["metadata"]["name"] for a in self.tool.said(number) if a["event"] == "ADD"}
        self.assertEqual({name for name in seen if name.startswith("large")}, {f"large-{i}" for i in (1, 2, 3, 4, 6, 7, 8, 9)})
        self.assertEqual([a["object"] for a in self.tool.said(0)], ["configmaps default/large-0", "configmaps default/large-5"])
        self.make_large("large-1")  # 0.45 MB, then 0.9 MB
        self.tool.ask("delete", MAPS, namespace="default", name="large-1")
        self.assertFalse(self.tool.wait(number, lambda a: a.get("name") == "large-1")["known"])
        self.make_map("large-2", a="1")
        self.tool.event(number, "UPDATE")
        counters = self.tool.ask("counters", of=number)
        self.assertEqual((counters["lists"], counters["connects"]), (1, 1))
        self.assertIn("configmaps default/large-1", [a["object"] for a in self.tool.said(0)])
        for i in range(10):
            self.tool.ask("delete", MAPS, namespace="default", name=f"large-{i}")

    def test_informer_over_a_restart_of_the_server(self):
        number = self.tool.start("inform", MAPS, namespace="default")
        self.tool.event(number, "SYNCED")
        self.server.end(self.server.apiserver)
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


if not RealServer.is_there():
    print("skipped: kube-apiserver, kubectl or etcd is not there ($GPUTOPO_KUBE_BIN, PATH)")
    sys.exit(77)
unittest.main(verbosity=2)
