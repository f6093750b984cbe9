#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes client against the double of the API server.

Usage: test_kube.py KUBE_TOOL [unittest arguments]
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from api_double import ApiDouble, Held, Raw, Silence, Status, Stream, event, status_object
from daemon_driver import wait_for
from kube_driver import Tool, kubeconfig, make_authority, make_certificate

TOOL = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
MAPS = "/v1/configmaps"
LARGE = 84 * (1 << 20) // 10
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


class Identity(Case):
    def test_token(self):
        self.api.add(WHERE, "x", data={"a": "1"})
        answer = self.get()
        self.assert_answer(answer, 200, tries=1)
        self.assertEqual(answer["object"]["data"], {"a": "1"})
        agent = self.api.requests[0].headers["User-Agent"]
        self.assertRegex(agent, r"^kube-tool/\d+\.\d+\.\d+ \(linux/\w+\) gputopo/\S+$")

    def test_client_certificate_and_data(self):
        make_certificate(self.folder, "client", "/CN=me")

        def data(name):
            with open(f"{self.folder}/{name}", "rb") as file:
                return base64.b64encode(file.read()).decode()
        self.api.add(WHERE, "x")
        tool = self.start_tool("client-certificate: client.crt, client-key: client.key")
        self.assert_answer(self.get(tool), 200)
        tool = self.start_tool(f"client-certificate-data: {data('client.crt')}, client-key-data: {data('client.key')}",
                               f"certificate-authority-data: {data('ca.crt')}")
        self.assert_answer(self.get(tool), 200)
        self.assertNotIn("Authorization", self.api.requests[-1].headers)

    def test_another_authority_is_not_trusted(self):
        make_authority(self.folder, "other")
        tool = self.start_tool(cluster="certificate-authority: other.crt")
        answer = self.get(tool, deadlineMs=1500)
        self.assert_answer(answer, 0, "EPROTO")
        self.assertEqual(self.api.requests, [])

    def test_the_name_of_the_server_is_checked(self):
        self.addCleanup(os.remove, f"{self.folder}/server.crt")  # made again for the next test
        make_certificate(self.folder, "server", "/CN=elsewhere", "subjectAltName=DNS:elsewhere")
        self.api.stop()
        self.api.start()
        self.assert_answer(self.get(deadlineMs=1500), 0, "EPROTO")
        self.assertEqual(self.api.requests, [])

    def test_no_proxy_of_the_environment(self):
        self.api.add(WHERE, "x")
        path = kubeconfig(f"{self.folder}/proxied", self.api.url, "certificate-authority: ca.crt", "token: token-1")
        tool = self.adopt(Tool(TOOL, "--kubeconfig", path, env={"https_proxy": "http://127.0.0.1:1",
                                                                "ALL_PROXY": "http://127.0.0.1:1"}))
        self.assert_answer(self.get(tool), 200)

    def test_401_forever(self):
        self.api.tokens.clear()
        self.assert_answer(self.get(), 401, "EPERM", tries=1)  # this token never changes

    def test_redirects_are_not_followed(self):
        self.api.fail(Status(307, headers={"Location": self.api.url + "/elsewhere"}))
        self.assertEqual(self.get()["status"], 307)
        self.assertEqual(len(self.api.requests), 1)


class Pod(Case):
    """The credentials of a pod: the token in its file."""

    def setUp(self):
        super().setUp()
        self.pod = f"{self.folder}/pod"
        os.makedirs(self.pod, exist_ok=True)
        shutil.copy(f"{self.folder}/ca.crt", f"{self.pod}/ca.crt")
        self.write_token("token-1")
        self.api.add(WHERE, "x")

    def write_token(self, token):
        with open(f"{self.pod}/new", "w", encoding="ascii") as file:
            file.write(token)
        os.rename(f"{self.pod}/new", f"{self.pod}/token")

    def start_pod(self, **env):
        return self.adopt(Tool(TOOL, "--pod", self.pod, env={
            "KUBERNETES_SERVICE_HOST": self.api.address, "KUBERNETES_SERVICE_PORT": str(self.api.port), **env}))

    def test_401_once(self):
        tool = self.start_pod()
        self.api.fail(Status(401))
        self.assert_answer(self.get(tool), 200, tries=2)
        self.assertEqual(tool.ask("counters")["unauthorized"], 1)

    def test_401_forever(self):
        tool = self.start_pod()
        self.api.tokens.clear()
        self.assert_answer(self.get(tool), 401, "EPERM", tries=2)

    def test_renewed_token(self):
        tool = self.start_pod()
        self.assert_answer(self.get(tool), 200, tries=1)
        self.write_token("token-2\n")
        self.api.tokens = {"token-2"}
        self.assert_answer(self.get(tool), 200, tries=2)
        self.assert_answer(self.get(tool), 200, tries=1)
        self.assertEqual(self.api.requests[-1].headers["Authorization"], "Bearer token-2")

    def test_an_empty_token_file_keeps_the_old_token(self):
        tool = self.start_pod()
        self.assert_answer(self.get(tool), 200)
        for text in ("", "\n", "two words", "x\0y"):
            self.write_token(text)
            self.api.fail(Status(401))
            self.assert_answer(self.get(tool), 200, tries=2)
            self.assertEqual(self.api.requests[-1].headers["Authorization"], "Bearer token-1")

    def test_an_expired_token_does_not_end_a_watch(self):
        tool = self.start_pod()
        number = tool.start("watch", MAPS, namespace="default", resourceVersion=str(self.api.version))
        self.assertTrue(wait_for(lambda: self.api.asked(watch=True)))
        self.api.tokens.clear()
        self.api.add(WHERE, "y")
        tool.event(number, "ADDED")
        self.assertEqual(len(self.api.asked(watch=True)), 1)

    def test_403_is_not_tried_again(self):
        tool = self.start_pod()
        self.api.fail(Status(403, 'configmaps "x" is forbidden'), times=5)
        answer = self.get(tool)
        self.assert_answer(answer, 403, "EACCES", tries=1)
        self.assertEqual(answer["error"], '403 Forbidden: configmaps "x" is forbidden')

    def test_ipv6(self):
        try:
            api = ApiDouble(self.folder, address="::1")
        except OSError as error:
            self.skipTest(str(error))
        self.addCleanup(api.stop)
        shutil.copy(f"{self.folder}/ca.crt", f"{self.pod}/ca.crt")
        api.add(WHERE, "x")
        tool = self.start_pod(KUBERNETES_SERVICE_HOST="::1", KUBERNETES_SERVICE_PORT=str(api.port))
        self.assert_answer(self.get(tool), 200)

    def test_no_pod(self):
        done = subprocess.run([TOOL, "--pod", self.pod], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              env={k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")},
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"not in a pod", done.stderr)


class Answers(Case):
    def test_404(self):
        answer = self.get()
        self.assert_answer(answer, 404, "ENOENT", tries=1)
        self.assertEqual(answer["error"], '404 NotFound: configmaps "x" not found')

    def test_an_evil_message_is_one_short_line(self):
        self.api.fail(Status(403, "a\nb\x1b[31m" + "x" * 100000))
        answer = self.get()
        self.assert_answer(answer, 403, "EACCES")
        self.assertLess(len(answer["error"]), 700)
        self.assertNotRegex(answer["error"], "[\n\x1b]")

    def test_an_error_that_is_no_status(self):
        self.api.fail(Status(403, body=b"<html>go away</html>"))
        answer = self.get()
        self.assert_answer(answer, 403, "EACCES")
        self.assertEqual(answer["error"], "403")

    def test_429_with_retry_after(self):
        self.api.add(WHERE, "x")
        self.api.fail(Status(429, headers={"Retry-After": "1"}), times=2)
        answer = self.get()
        self.assert_answer(answer, 200, tries=3)
        self.assertGreaterEqual(answer["seconds"], 2)
        self.assertEqual(self.tool.ask("counters")["throttled"], 2)

    def test_5xx(self):
        self.api.add(WHERE, "x")
        for code in (500, 502, 503, 504):
            self.api.fail(Status(code))
            self.assert_answer(self.get(), 200, tries=2)
        self.api.fail(Status(501))
        self.assert_answer(self.get(), 501, "EIO", tries=1)

    def test_backoff_grows_and_ends_at_the_deadline(self):
        self.api.fail(Status(500), times=1000)
        answer = self.get(deadlineMs=8000)
        self.assert_answer(answer, 500, "EIO")
        self.assertIn(f"after {answer['tries']} tries", answer["error"])
        self.assertTrue(3 <= answer["tries"] <= 8, answer)  # pauses of 0.1, 0.2, 0.4... seconds at least
        self.assertLess(answer["seconds"], 30)
        times = [r.at for r in self.api.requests]
        gaps = [b - a for a, b in zip(times, times[1:])]
        for gap, least in zip(gaps, (0.1, 0.2, 0.4, 0.8, 1.6)):
            self.assertGreater(gap, 0.9 * least, gaps)

    def test_server_away_for_a_while(self):
        self.api.stop()
        number = self.tool.start("apply", MAPS, namespace="default", name="x", manager="m", forever=True,
                                 body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
        time.sleep(2)
        self.api.start()
        answer = self.tool.wait(number)
        self.assertEqual(answer["status"], 201)
        self.assertGreater(answer["tries"], 2)
        self.assertEqual(len(self.api.asked(method="PATCH")), 1)

    def test_no_server(self):
        self.api.stop()
        answer = self.get(deadlineMs=300)
        self.assert_answer(answer, 0, "ECONNREFUSED")
        self.assertIn(str(self.api.port), answer["error"])
        self.api.start()

    def test_silent_server(self):
        self.api.add(WHERE, "x")
        self.api.fail(Silence())
        answer = self.get(tryMs=3000)
        self.assert_answer(answer, 200, tries=2)

    def test_silent_server_to_the_deadline(self):
        self.api.fail(Silence(), times=10)
        answer = self.get(deadlineMs=700)
        self.assert_answer(answer, 0, "ETIMEDOUT")
        self.assertLess(answer["seconds"], 9)  # one try may take ten seconds

    def test_half_an_answer(self):
        self.api.add(WHERE, "x")
        self.api.fail(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"half"))
        self.api.fail(Raw(b""))
        self.api.fail(Raw(b"HTTP/1.1 200 OK\r\nContent-Le", reset=True))
        self.api.fail(Raw(b"no HTTP at all\r\n\r\n"))
        answer = self.get()
        self.assert_answer(answer, 200)
        self.assertGreaterEqual(answer["tries"], 4)

    def test_a_connection_that_died_idle(self):
        self.api.add(WHERE, "x")
        self.assert_answer(self.get(), 200)
        self.api.cut_connections()
        time.sleep(0.1)
        self.assert_answer(self.get(), 200, tries=1)

    def test_slow_bytes(self):
        body = json.dumps(config_map("x", 1, a="b")).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        parts = [part for byte in body for part in (bytes([byte]), 0.002)]
        self.api.fail(Raw(head, *parts))
        self.assertEqual(self.get()["object"]["data"], {"a": "b"})

    def test_garbage(self):
        for body in (b"no JSON", b"", b'{"a":', b"\xff\xfe", b"[" * 100000):
            self.api.fail(Status(200, body=body))
            self.assert_answer(self.get(), 200, "EBADMSG", tries=1)

    def test_an_answer_that_is_too_large(self):
        self.api.add(WHERE, "x", data={"a": "y" * 100000})
        self.assert_answer(self.get(responseMax=50000), 0, "EFBIG", tries=1)
        self.assert_answer(self.get(responseMax=200000), 200)

    def test_an_endless_answer(self):
        self.api.fail(Stream(*[b"x" * 65536] * 2000))
        answer = self.get(responseMax=1 << 20)
        self.assert_answer(answer, 0, "EFBIG", tries=1)
        self.assertLess(self.tool.memory_kib()[1], 400 << 10)

    def test_connections_are_used_again(self):
        self.api.add(WHERE, "x")
        for _ in range(20):
            self.get()
        self.assertEqual(len({r.connection for r in self.api.requests}), 1)

    def test_at_most_16_at_a_time(self):
        self.api.add(WHERE, "x")
        self.api.fail(Silence(5), times=16)
        numbers = [self.tool.start("get", MAPS, namespace="default", name="x") for _ in range(40)]
        counters = self.tool.ask("counters")
        self.assertEqual((counters["running"], counters["waiting"]), (16, 24))
        for number in numbers:
            self.assert_answer(self.tool.wait(number), 200)

    def test_the_oldest_in_line_goes_first(self):
        """Answers that start new requests do not keep out the one that has waited."""
        for name in ("x", "again", "old"):
            self.api.add(WHERE, name)
        queued = threading.Event()
        self.api.fail(Held(queued, 200, body=json.dumps(config_map("x", 1)).encode()), times=16)
        greedy = [self.tool.start("get", MAPS, namespace="default", name="x", again=200) for _ in range(16)]
        old = self.tool.start("get", MAPS, namespace="default", name="old")
        self.tool.ask("counters")  # orders are taken one after the other: all stand in line
        queued.set()
        for number in (old, *greedy):
            self.assert_answer(self.tool.wait(number), 200)
        names = [request.path.rsplit("/", 1)[-1] for request in self.api.requests]
        self.assertLess(names.index("old"), 100)

    def test_too_many(self):
        self.api.fail(Silence(), times=16)
        numbers = [self.tool.start("get", MAPS, namespace="default", name="x") for _ in range(1025)]
        self.assertEqual(self.tool.wait(numbers[-1])["code"], "EAGAIN")
        for number in numbers[:40]:
            self.tool.start("cancel", of=number)

    def test_cancel(self):
        self.api.add(WHERE, "x")
        self.api.fail(Silence(), times=1)
        number = self.tool.start("get", MAPS, namespace="default", name="x")
        self.assertTrue(wait_for(lambda: len(self.api.requests) == 1))
        self.tool.start("cancel", of=number)
        self.api.fail(Status(429, headers={"Retry-After": "60"}), times=1)
        waiting = self.tool.start("get", MAPS, namespace="default", name="x", deadlineMs=600000)
        self.assertTrue(wait_for(lambda: self.tool.ask("counters")["throttled"] == 1))
        self.tool.start("cancel", of=waiting)
        self.assert_answer(self.get(), 200)
        self.assertEqual((self.tool.said(number), self.tool.said(waiting)), ([], []))

    def test_names_that_are_none(self):
        for name in ("a/b", "..", "", "x" * 300):
            answer = self.tool.ask("get", MAPS, namespace="default", name=name)
            self.assertEqual(answer["code"], "EINVAL")
        self.assertEqual(self.api.requests, [])


class Writes(Case):
    BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}}

    def test_create_update_delete(self):
        made = self.tool.ask("create", MAPS, namespace="default", body=self.BODY)
        self.assert_answer(made, 201)
        self.assert_answer(self.tool.ask("create", MAPS, namespace="default", body=self.BODY), 409, "EEXIST")
        changed = {**made["object"], "data": {"a": "2"}}
        self.assert_answer(self.tool.ask("update", MAPS, namespace="default", name="x", body=changed), 200)
        self.assert_answer(self.tool.ask("update", MAPS, namespace="default", name="x", body=changed), 409, "EBUSY",
                           tries=1)
        self.assert_answer(self.tool.ask("delete", MAPS, namespace="default", name="x"), 200)
        self.assert_answer(self.get(), 404, "ENOENT")

    def test_apply(self):
        def apply(manager, **more):
            return self.tool.ask("apply", MAPS, namespace="default", name="x", manager=manager,
                                 body={**self.BODY, "data": {"a": manager}}, **more)
        self.assert_answer(apply("one"), 201)
        request = self.api.asked(method="PATCH")[0]
        self.assertEqual(request.headers["Content-Type"], "application/apply-patch+yaml")
        self.assertEqual(request.query, {"fieldManager": "one", "fieldValidation": "Ignore"})
        answer = apply("two")
        self.assert_answer(answer, 409, "EBUSY", tries=1)
        self.assertIn("conflict", answer["error"])
        self.assert_answer(apply("two", force=True), 200)
        self.assertEqual(self.api.asked(method="PATCH")[-1].query, {"fieldManager": "two", "fieldValidation": "Ignore", "force": "true"})
        self.assertEqual(self.tool.ask("apply", MAPS, namespace="default", name="x", body=self.BODY)["code"], "EINVAL")

    def test_status_and_merge_patch(self):
        self.api.add("/apis/topology.metax-tech.com/v1alpha1/nodegputopologies", "n1", spec={"a": 1})
        answer = self.tool.ask("merge", "topology.metax-tech.com/v1alpha1/nodegputopologies", name="n1",
                               subresource="status", body={"status": {"free": 3}, "spec": {"a": None}})
        self.assertEqual((answer["object"]["status"], answer["object"]["spec"]), ({"free": 3}, {}))
        self.assertTrue(self.api.requests[-1].path.endswith("/nodegputopologies/n1/status"))

    def test_lease(self):
        made = self.tool.ask("lease", namespace="default", name="l", holder="me")
        self.assert_answer(made, 201)
        version = made["object"]["metadata"]["resourceVersion"]
        for status, code in ((200, None), (409, "EBUSY")):
            self.assert_answer(self.tool.ask("lease", namespace="default", name="l", holder="me", transitions=1,
                                             resourceVersion=version), status, code)

    def test_events(self):
        def record(note, node="n1", reason="LinkDown"):
            self.tool.start("event", apiVersion="v1", kind="Node", name=node, reason=reason, action="Watch",
                            warning=True, note=note)

        def done():
            counters = self.tool.ask("counters")
            return counters["eventsWritten"], counters["eventsRepeated"], counters["eventsDropped"]
        begin = time.monotonic()
        record("one")
        record("one")
        record("ü" * 2000)
        self.assertTrue(wait_for(lambda: done() == (2, 1, 0)), done())
        bodies = [json.loads(r.body) for r in self.api.asked(method="POST")]
        self.assertEqual(sorted(len(b["note"]) for b in bodies), [3, 500])
        self.assertEqual(bodies[0]["regarding"], {"apiVersion": "v1", "kind": "Node", "name": "n1"})
        for i in range(200):
            record(f"storm {i}")
        self.assertTrue(wait_for(lambda: done() == (25, 1, 177)), done())
        record("another reason is heard", reason="LinkUp")
        for i in range(200):  # of many objects: 60 a minute, and none is lost for having to wait
            record("a storm", node=f"n{i}")
        self.assertTrue(wait_for(lambda: sum(done()) == 404), done())
        written, repeated, dropped = done()
        self.assertIn(written, range(60, 62 + int(time.monotonic() - begin)))
        self.assertEqual((repeated, dropped), (1, 403 - written))


class Lists(Case):
    def fill(self, count, **data):
        for i in range(count):
            self.api.add(WHERE, f"m{i:04}", data=data)

    def list(self, **more):
        number = self.tool.start("list", MAPS, namespace="default", **more)
        done = self.tool.event(number, "DONE")
        names = [a["object"].get("metadata", {}).get("name") for a in self.tool.said(number)
                 if a["event"] == "OBJECT"]
        return done, names

    def test_pages(self):
        self.fill(1201)
        done, names = self.list()
        self.assertEqual(names, [f"m{i:04}" for i in range(1201)])
        self.assertEqual(done["resourceVersion"], str(self.api.version))
        self.assertEqual([r.query["limit"] for r in self.api.requests], ["500"] * 3)

    def test_none(self):
        self.assertEqual(self.list()[1], [])
        self.api.fail(Status(200, body=b'{"kind":"L","metadata":{"resourceVersion":"7"},"items":null}'))
        self.assertEqual(self.list()[0]["resourceVersion"], "7")

    def test_selectors_and_metadata(self):
        self.fill(3, a="b")
        self.api.add(WHERE, "labelled", metadata={"labels": {"k": "v&w=1"}})
        self.assertEqual(self.list(labelSelector="k=v&w=1")[1], ["labelled"])
        done, names = self.list(fieldSelector="metadata.name=m0001", metadataOnly=True)
        self.assertEqual(names, ["m0001"])
        self.assertIn("as=PartialObjectMetadataList", self.api.requests[-1].headers["Accept"])

    def test_410_at_the_first_page_is_an_answer(self):
        self.api.fail(Status(410))
        done, _ = self.list()
        self.assertEqual(done["code"], "ESTALE")
        self.assertEqual(len(self.api.requests), 1)

    def test_410_in_the_middle(self):
        self.fill(5)
        original = self.api.list
        calls = []

        def forgetful(collection, request):
            calls.append(request.query.get("continue"))
            page = original(collection, request)
            if len(calls) in (1, 4):
                self.api.snapshots.clear()
            return page
        self.api.list = forgetful
        number = self.tool.start("list", MAPS, namespace="default", limit=2)
        done = self.tool.event(number, "DONE")
        self.assertNotIn("error", done)
        self.assertEqual(done["seen"], 5)
        begins = [a for a in self.tool.said(number) if a["event"] == "BEGIN"]
        self.assertEqual(len(begins), 3)

    def test_410_forever(self):
        self.fill(5)
        original = self.api.list

        def forgetful(collection, request):
            page = original(collection, request)
            self.api.snapshots.clear()
            return page
        self.api.list = forgetful
        number = self.tool.start("list", MAPS, namespace="default", limit=2)
        done = self.tool.event(number, "DONE")
        self.assertEqual(done["code"], "ESTALE")
        self.assertLess(len(self.api.requests), 20)

    def test_pages_that_are_too_large_become_smaller(self):
        self.fill(20, a="x" * 10000)
        done, names = self.list(pageMax=50000)
        self.assertEqual(len(names), 20, done)
        self.assertLess(len(self.api.requests), 25)

    def oversize(self):
        return [(a["object"], a["max"]) for a in self.tool.said(0)]

    def test_a_page_that_was_made_smaller_grows_again(self):
        self.fill(2000)
        for name in ("m0700", "m0701"):
            self.api.add(WHERE, name, data={"a": "x" * 80000})
        done, names = self.list(pageMax=160000)
        self.assertEqual(names, [f"m{i:04}" for i in range(2000)], done)
        self.assertLess(len(self.api.requests), 40)
        self.assertEqual(self.api.requests[-1].query["limit"], "500")

    def test_an_object_that_is_too_large_is_passed_over(self):
        self.fill(600)
        for name in ("m0000", "m0300", "m0301", "m0599"):
            self.api.add(WHERE, name, data={"a": "x" * 200000})
        done, names = self.list(pageMax=160000)
        self.assertEqual(done.get("resourceVersion"), str(self.api.version), done)
        self.assertEqual(names, [f"m{i:04}" for i in range(600) if i not in (0, 300, 301, 599)])
        self.assertEqual(self.oversize(), [(f"configmaps default/{name}", 160000)
                                           for name in ("m0000", "m0300", "m0301", "m0599")])
        self.list(pageMax=160000)
        self.assertEqual(len(self.oversize()), 4)  # each is told once
        self.assertEqual(self.tool.ask("counters")["oversize"], 8)
        done, _ = self.list(pageMax=100, metadataOnly=True)
        self.assertEqual(done["code"], "EFBIG")  # not even the metadata

    def test_another_first_object_meanwhile_is_not_passed_over(self):
        self.fill(3)
        self.api.add(WHERE, "m0000", data={"a": "x" * 200000})
        original = self.api.list

        def busy(collection, request):
            page = original(collection, request)
            if len(self.api.asked(method="GET")) in (2, 3):  # after the large one alone, and after its version
                self.api.add(WHERE, f"l{len(self.api.requests)}")
            return page
        self.api.list = busy
        number = self.tool.start("inform", MAPS, namespace="default", limit=2, pageMax=160000)
        self.tool.event(number, "SYNCED")
        self.tool.wait(number, lambda a: a.get("object", {}).get("metadata", {}).get("name") == "l3")
        self.assertEqual({a["object"]["metadata"]["name"] for a in self.tool.said(number) if a["event"] == "ADD"},
                         {"l2", "l3", "m0001", "m0002"})
        self.assertEqual(self.oversize(), [("configmaps default/m0000", 160000)])

    def test_410_while_the_first_object_is_too_large(self):
        self.fill(3)
        self.api.add(WHERE, "m0000", data={"a": "x" * 200000})
        original = self.api.list

        def forgetful(collection, request):
            if request.query.get("resourceVersionMatch") and not self.api.floor:
                self.api.add(WHERE, "new")
                self.api.compact()
            return original(collection, request)
        self.api.list = forgetful
        done, _ = self.list(pageMax=160000)
        self.assertNotIn("error", done)
        self.assertEqual(done["seen"], 3)

    def test_garbage(self):
        for body in (b"{}", b'{"metadata":{},"items":[]}', b'{"metadata":{"resourceVersion":"1"}}', b"[]", b"",
                     b'{"metadata":{"resourceVersion":"1"},"items":[1]}',
                     b'{"metadata":{"resourceVersion":"1"},"items":[{"a":1},', b'{"items":{}}', b"\0" * 10):
            self.api.fail(Status(200, body=body))
            done, _ = self.list()
            self.assertEqual(done["code"], "EBADMSG", body)

    def test_errors_between_pages(self):
        self.fill(5)
        self.api.fail(Status(200, body=json.dumps(self.api.list(
            self.api.place(WHERE)[0], type("R", (), {"query": {"limit": "2"}, "headers": {}}))).encode()))
        self.api.fail(Status(429, headers={"Retry-After": "1"}))
        self.api.fail(Status(500))
        done, names = self.list(limit=2)
        self.assertEqual(len(names), 5, done)

    def test_cancel_within(self):
        self.fill(10)
        number = self.tool.start("list", MAPS, namespace="default", limit=3, cancelAfter=4)
        self.tool.event(number, "OBJECT", count=4)
        self.assertEqual(len(self.list(limit=3)[1]), 10)  # time enough for more of the other
        self.assertEqual(len([a for a in self.tool.said(number) if a["event"] == "OBJECT"]), 4)
        self.assertFalse([a for a in self.tool.said(number) if a["event"] == "DONE"])


class Watches(Case):
    def setUp(self):
        super().setUp()
        self.api.version = 1000  # above those of events that are made by hand

    def watch(self, version=None, **more):
        return self.tool.start("watch", MAPS, namespace="default",
                               resourceVersion=str(self.api.version if version is None else version), **more)

    def versions(self):
        return [r.query["resourceVersion"] for r in self.api.asked(watch=True)]

    def wait_for_watches(self, count):
        self.assertTrue(wait_for(lambda: len(self.api.asked(watch=True)) >= count), self.versions())

    def test_events(self):
        number = self.watch()
        self.api.add(WHERE, "x", data={"a": "1"})
        self.assertEqual(self.tool.event(number, "ADDED")["object"]["data"], {"a": "1"})
        self.api.add(WHERE, "x", data={"a": "2"})
        self.assertEqual(self.tool.event(number, "MODIFIED")["object"]["data"], {"a": "2"})
        self.api.remove(WHERE, "x")
        self.tool.event(number, "DELETED")
        query = self.api.asked(watch=True)[0].query
        self.assertEqual((query["watch"], query["allowWatchBookmarks"]), ("1", "true"))
        self.assertTrue(240 <= int(query["timeoutSeconds"]) <= 360)

    def test_a_connection_of_its_own(self):
        self.api.add(WHERE, "x")
        self.get()
        self.watch()
        self.wait_for_watches(1)
        self.get()
        mine = self.api.asked(watch=True)[0].connection
        others = {r.connection for r in self.api.requests if not r.watch and r.at > self.api.asked(watch=True)[0].at}
        self.assertNotIn(mine, others)

    def test_end_is_normal_and_resumed(self):
        number = self.watch(timeoutS=1)
        start = str(self.api.version)
        self.wait_for_watches(2)
        after = str(self.api.add(WHERE, "x"))
        self.tool.event(number, "ADDED")
        self.wait_for_watches(4)
        self.assertEqual(self.versions()[:2], [start, start])
        self.assertEqual(self.versions()[-1], after)
        self.assertEqual(self.api.asked(watch=False), [])  # never listed
        self.assertFalse([a for a in self.tool.said(number) if a["event"] in ("TROUBLE", "LOST")])

    def test_bookmarks_move_the_version(self):
        self.api.bookmark_interval = 0.1
        number = self.watch(timeoutS=1, version=0)
        self.api.fail(Stream(event("BOOKMARK", {"metadata": {"resourceVersion": "777"}})), watch=True)
        self.wait_for_watches(2)
        self.assertIn("777", self.versions())
        self.assertGreaterEqual(self.tool.ask("counters", of=number)["bookmarks"], 1)
        self.assertFalse([a for a in self.tool.said(number) if a["event"] != "TROUBLE"])

    def test_any_chunks(self):
        text = b"".join(event("ADDED", config_map(f"m{i}", 200 + i, a="ä\\n\"}{")) for i in range(20)) + b"\n"
        self.api.fail(Stream(*[part for i in range(0, len(text), 7) for part in (text[i:i + 7], 0.001)]), watch=True)
        number = self.watch()
        self.tool.event(number, "ADDED", count=20)
        self.wait_for_watches(2)
        self.assertEqual(self.versions()[1], "219")

    def test_cut_in_a_line(self):
        line = event("ADDED", config_map("m0", 300)) + event("ADDED", config_map("m1", 301))
        for reset in (False, True):
            parts = Stream(line[:-20], whole=False)
            self.api.fail(Raw(*parts.parts, 0.2, reset=reset), watch=True)
        self.api.fail(Stream(event("ADDED", config_map("m1", 301)), 5), watch=True)
        number = self.watch()
        self.tool.event(number, "ADDED", count=3)
        names = [a["object"]["metadata"]["name"] for a in self.tool.said(number) if a["event"] == "ADDED"]
        self.assertEqual(names, ["m0", "m0", "m1"])
        self.assertEqual(self.versions()[1:3], ["300", "300"])
        self.assertEqual(self.tool.event(number, "TROUBLE")["code"], "ECONNRESET")

    def test_error_410_in_a_stream(self):
        self.api.add(WHERE, "x")
        self.api.compact()
        number = self.watch(version=1)
        lost = self.tool.event(number, "LOST")
        self.assertEqual(lost["code"], "ESTALE")
        self.assertIn("too old resource version", lost["error"])
        other = self.watch()
        self.api.add(WHERE, "y")
        self.tool.event(other, "ADDED")
        self.assertEqual(len(self.api.requests), 2, "the lost one is not begun again")

    def test_410_as_an_answer(self):
        self.api.gone_as_status = True
        self.api.compact()
        self.assertEqual(self.tool.event(self.watch(version=1), "LOST")["code"], "ESTALE")

    def test_another_error_in_a_stream(self):
        self.api.fail(Stream(event("ADDED", config_map("m0", 300)),
                             event("ERROR", status_object(500, "etcd is not well")), 60), watch=True)
        number = self.watch()
        self.assertIn("etcd is not well", self.tool.event(number, "TROUBLE")["error"])
        self.wait_for_watches(2)
        self.assertEqual(self.versions()[1], "300")

    def test_garbage_lines(self):
        for line in (b"no JSON\n", b"{}\n", b'{"type":"ADDED"}\n', b'{"type":1,"object":[]}\n', b"\0\0\n", b"[]\n"):
            self.api.fail(Stream(event("ADDED", config_map("m0", 300)), line, 60), watch=True)
        self.api.fail(Stream(event("ADDED", config_map("last", 400)), 60), watch=True)
        number = self.watch()
        self.tool.wait(number, lambda a: a.get("object", {}).get("metadata", {}).get("name") == "last")
        self.assertEqual(len([a for a in self.tool.said(number) if a["event"] == "TROUBLE"]), 6)

    def test_unknown_types_are_passed_over(self):
        self.api.fail(Stream(event("NEW_KIND", config_map("m", 300)), event("ADDED", config_map("n", 301)), 60),
                      watch=True)
        number = self.watch()
        self.tool.event(number, "ADDED")
        self.assertFalse([a for a in self.tool.said(number) if a["event"] == "TROUBLE"])

    def test_a_gigabyte_line(self):
        chunk = b"x" * (1 << 20)
        self.api.fail(Stream(b'{"type":"ADDED","object":{"a":"', *[chunk] * 1024, b'"}}\n',
                             event("ADDED", config_map("next", 300)), 60), watch=True)
        number = self.watch()
        self.assertEqual(self.tool.event(number, "ADDED")["object"]["metadata"]["name"], "next")
        self.assertEqual([(a["object"], a["max"]) for a in self.tool.said(0)], [("configmaps", 4 << 20)])
        self.assertEqual(len(self.tool.said(number)), 1)
        self.assertLess(self.tool.memory_kib()[1], 400 << 10)

    def test_a_large_object_is_passed_over(self):
        large = {"a": "x" * 20000}
        self.api.fail(Stream(event("ADDED", config_map("m0", 300)), event("MODIFIED", config_map("m1", 301, **large)),
                             event("ADDED", config_map("m2", 302)), event("DELETED", config_map("m2", 303, **large)),
                             event("MODIFIED", config_map("m1", 304, **large))), watch=True)
        number = self.watch(lineMax=10000)
        self.assertTrue(wait_for(lambda: len(self.api.asked(watch=True)) > 1))
        self.assertEqual([a["object"]["metadata"]["name"] for a in self.tool.said(number)], ["m0", "m2"])
        self.assertEqual(self.api.asked(watch=True)[1].query["resourceVersion"], "304")
        self.assertEqual([a["object"] for a in self.tool.said(0)], ["configmaps default/m1"])
        self.assertEqual(self.tool.ask("counters", of=number)["oversize"], 2)  # m2 is gone: nothing is missed

    def test_a_large_error_means_that_nothing_is_known(self):
        self.api.fail(Stream(event("ERROR", status_object(410, "x" * 20000))), watch=True)
        self.assertEqual(self.tool.event(self.watch(lineMax=10000), "LOST")["code"], "EFBIG")

    def test_a_large_object_that_is_gone_and_has_no_name(self):
        """Nobody can say which one it was: the list is asked for again."""
        nameless = dict(reversed(config_map("m1", 301, a="x" * 20000).items()))
        for line in (event("DELETED", nameless),
                     json.dumps({"object": nameless, "type": "DELETED"}).encode() + b"\n"):
            self.api.fail(Stream(line), watch=True)
            self.assertEqual(self.tool.event(self.watch(lineMax=10000), "LOST")["code"], "EFBIG")
        self.api.fail(Stream(event("MODIFIED", nameless), event("ADDED", config_map("m2", 302))), watch=True)
        number = self.watch(lineMax=10000)
        self.assertEqual(self.tool.event(number, "ADDED")["object"]["metadata"]["name"], "m2")
        self.assertEqual(self.tool.ask("counters", of=number)["oversize"], 1)

    def test_errors_before_the_stream(self):
        self.api.add(WHERE, "x")
        for action in (Status(500), Status(429, headers={"Retry-After": "1"}), Status(403), Status(404)):
            self.api.fail(action, watch=True)
        began = time.monotonic()
        number = self.watch(version=0)
        self.tool.event(number, "ADDED")
        codes = [a["code"] for a in self.tool.said(number) if a["event"] == "TROUBLE"]
        self.assertEqual(codes, ["EIO", "EAGAIN", "EACCES", "ENOENT"])
        self.assertGreater(time.monotonic() - began, 2)

    def test_no_storm_of_reconnects(self):
        self.api.fail(Stream(), times=1000, watch=True)  # ends at once, always
        begin = time.monotonic()
        self.watch()
        time.sleep(4)
        self.assertLess(len(self.api.requests), 9 + time.monotonic() - begin - 4)

    def test_server_restart(self):
        number = self.watch()
        self.wait_for_watches(1)
        self.api.stop()
        time.sleep(0.5)
        self.api.start()
        self.api.add(WHERE, "x")
        self.tool.event(number, "ADDED")

    def test_a_server_that_was_restored_from_a_backup(self):
        """Its versions are lower than they were: it would never tell of what comes now."""
        for selector in ({}, {"fieldSelector": "metadata.name=x"}):
            with self.subTest(**selector):
                number = self.watch(**selector)
                backup = self.api.snapshot()
                self.api.add(WHERE, "x")
                self.tool.event(number, "ADDED")
                self.api.restore(backup)
                lost = self.tool.event(number, "LOST")
                self.assertEqual(lost["code"], "ESTALE")
                self.assertIn("have gone back from version", lost["error"])

    def test_the_answer_about_the_version_is_too_large(self):
        """The watch goes on as if it had not been asked."""
        for i in range(5):
            self.api.add(WHERE, f"large{i}", metadata={"annotations": {"a": "x" * (1 << 20)}})
        number = self.watch(fieldSelector="metadata.namespace=default", version=self.api.version)
        self.wait_for_watches(1)
        self.api.stop()
        self.tool.event(number, "TROUBLE")
        self.api.start()
        self.wait_for_watches(2)
        self.api.add(WHERE, "x")
        self.tool.event(number, "ADDED")

    def test_a_server_that_is_gone_without_a_word(self):
        self.api.fail(Stream(event("ADDED", config_map("m0", 300)), 3600), watch=True)  # neither data nor end
        number = self.watch(timeoutS=1)
        self.tool.event(number, "ADDED")
        self.assertEqual(self.tool.event(number, "TROUBLE", timeout=90)["code"], "ETIMEDOUT")
        self.wait_for_watches(2)
        self.assertEqual(self.versions()[1], "300")

    def test_a_server_that_shuts_its_side(self):
        class Half:
            """Says no more, but does not close either."""
            def run(self, handler):
                Stream(event("ADDED", config_map("m0", 300)), whole=False).run(handler)
                socket.socket.shutdown(handler.connection, socket.SHUT_WR)
                handler.double.stopping.wait(60)
        self.api.fail(Half(), watch=True)
        number = self.watch()
        self.tool.event(number, "TROUBLE")
        self.wait_for_watches(2)
        self.assertEqual(self.versions()[1], "300")

    def test_401_is_tried_again(self):
        self.api.fail(Status(401), times=2, watch=True)
        number = self.watch()
        self.api.add(WHERE, "x")
        self.tool.event(number, "ADDED")

    def test_cancel_within(self):
        number, other = self.watch(cancelAfter=2), self.watch()
        for i in range(5):
            self.api.add(WHERE, f"m{i}")
        self.tool.event(number, "ADDED", count=2)
        self.tool.event(other, "ADDED", count=5)
        self.assertEqual(len(self.tool.said(number)), 2)
        self.assert_answer(self.get(), 404, "ENOENT")

    def test_metadata_and_selector(self):
        number = self.watch(metadataOnly=True, fieldSelector="metadata.name=x")
        self.api.add(WHERE, "y", data={"a": "1"})
        self.api.add(WHERE, "x", data={"a": "1"})
        self.assertNotIn("data", self.tool.event(number, "ADDED")["object"])
        self.assertEqual(len(self.tool.said(number)), 1)


class Informers(Case):
    def inform(self, **more):
        number = self.tool.start("inform", MAPS, namespace="default", **more)
        return number

    def told(self, number):
        return [(a["event"], a["name"] if a["event"] == "DELETE" else a["object"]["metadata"]["name"])
                for a in self.tool.said(number) if a["event"] in ("ADD", "UPDATE", "DELETE")]

    def test_life(self):
        self.api.add(WHERE, "a")
        number = self.inform()
        self.assertEqual(self.tool.event(number, "SYNCED")["seen"], 1)
        self.api.add(WHERE, "b")
        self.api.add(WHERE, "a")
        self.api.remove(WHERE, "a")
        self.assertTrue(self.tool.event(number, "DELETE")["known"])
        self.assertEqual(self.told(number), [("ADD", "a"), ("ADD", "b"), ("UPDATE", "a"), ("DELETE", "a")])

    def test_what_happened_meanwhile(self):
        for name in ("same", "changed", "gone", "again"):
            self.api.add(WHERE, name)
        number = self.inform()
        self.tool.event(number, "SYNCED")
        self.assertTrue(wait_for(lambda: self.api.asked(watch=True)))
        self.api.stop()
        before = len(self.told(number))
        self.api.add(WHERE, "changed", data={"a": "2"})
        self.api.remove(WHERE, "gone")
        self.api.remove(WHERE, "again")
        self.api.add(WHERE, "again")
        self.api.add(WHERE, "new")
        self.api.compact()
        self.api.start()
        self.tool.event(number, "SYNCED", count=2)
        self.assertEqual(sorted(self.told(number)[before:]),
                         [("ADD", "again"), ("ADD", "new"), ("DELETE", "again"), ("DELETE", "gone"),
                          ("UPDATE", "changed"), ("UPDATE", "same")])  # our own writes may be known that etcd has lost
        counters = self.tool.ask("counters", of=number)
        self.assertEqual((counters["lists"], counters["objects"]), (2, 4))

    def test_lists_only_when_it_must(self):
        number = self.inform(timeoutS=1)
        self.tool.event(number, "SYNCED")
        self.assertTrue(wait_for(lambda: self.api.asked(watch=True)))
        self.api.cut_connections()
        self.assertTrue(wait_for(lambda: self.tool.ask("counters", of=number)["connects"] >= 4))
        whole = [r for r in self.api.asked(watch=False) if r.query["limit"] != "1"]  # else it looks at the version alone
        self.assertEqual(len(whole), 1)

    def test_no_storm_of_lists(self):
        gone = Stream(event("ERROR", status_object(410, "too old")))
        self.api.fail(gone, times=1000, watch=True)
        begin = time.monotonic()
        self.inform()
        time.sleep(5)
        self.assertLess(len(self.api.asked(watch=False)), 9 + time.monotonic() - begin - 5)

    def test_two_pods_of_8_mib(self):
        """By the limits that the daemons have: pages of 500 in 16 MiB, events of 4 MiB."""
        for i in range(2000):
            self.api.add(WHERE, f"m{i:04}")
        for name in ("m0700", "m0701"):
            self.api.add(WHERE, name, data={"a": "x" * LARGE})
        number = self.inform(quiet=True)
        self.assertEqual(self.tool.event(number, "SYNCED", timeout=300)["seen"], 2000)
        lists = len(self.api.asked(watch=False))
        self.assertLess(lists, 40)
        for _ in range(3):  # and one of them changes again and again
            self.api.add(WHERE, "m0700", data={"a": "x" * LARGE})
            before = self.tool.ask("counters", of=number)["events"]
            self.api.add(WHERE, "m0001")
            self.assertTrue(wait_for(lambda: self.tool.ask("counters", of=number)["events"] > before, 60))
        counters = self.tool.ask("counters", of=number)
        self.assertEqual((counters["oversize"], counters["lists"], counters["connects"], counters["objects"]),
                         (3, 1, 1, 2000))
        self.assertEqual(len(self.api.asked(watch=False)), lists)

    def test_what_is_known_of_an_object_that_became_too_large(self):
        limits = {"pageMax": 160000, "lineMax": 10000, "limit": 50}
        large = {"a": "x" * 200000}
        for name in ("kept", "again", "gone", "small"):
            self.api.add(WHERE, name)
        number = self.inform(**limits)
        self.tool.event(number, "SYNCED")
        before = len(self.told(number))
        self.api.add(WHERE, "kept", data=large)
        self.api.add(WHERE, "new", data=large)
        self.api.remove(WHERE, "again")
        self.api.add(WHERE, "again", data=large)
        self.api.add(WHERE, "gone", data=large)
        self.api.remove(WHERE, "gone")
        self.assertFalse(self.tool.wait(number, lambda a: a.get("name") == "gone")["known"])
        self.assertEqual(self.told(number)[before:], [("DELETE", "again"), ("DELETE", "gone")])
        self.api.stop()  # and a new list knows no more
        self.api.add(WHERE, "small")
        self.api.compact()
        self.api.start()
        self.tool.event(number, "SYNCED", count=2)
        self.assertEqual(self.told(number)[before + 2:], [("UPDATE", "small")])
        self.api.stop()
        self.api.remove(WHERE, "kept")
        self.api.add(WHERE, "kept", data=large)  # another one of that name
        self.api.compact()
        self.api.start()
        self.tool.event(number, "SYNCED", count=3)
        self.assertEqual(self.told(number)[before + 3:], [("DELETE", "kept"), ("UPDATE", "small")])
        for name in ("kept", "new"):
            self.api.add(WHERE, name)  # small again
        self.tool.event(number, "ADD", count=6)
        self.assertEqual(self.told(number)[before + 5:], [("ADD", "kept"), ("ADD", "new")])

    def test_until_it_is_there(self):
        for action in (Status(404), Status(403), Status(500), Status(200, body=b"nonsense")):
            self.api.fail(action)
        self.api.add(WHERE, "a")
        number = self.inform()
        self.tool.event(number, "SYNCED")
        codes = [a["code"] for a in self.tool.said(number) if a["event"] == "TROUBLE"]
        self.assertEqual(codes, ["ENOENT", "EACCES", "EBADMSG"])  # the 500 was tried again by itself

    def test_limit_of_objects(self):
        for i in range(10):
            self.api.add(WHERE, f"m{i}")
        number = self.inform(objectsMax=4)
        self.tool.event(number, "SYNCED")
        self.assertEqual(len(self.told(number)), 4)
        self.assertEqual(self.tool.ask("counters", of=number)["refused"], 6)

    def test_cancel_everywhere(self):
        for i in range(6):
            self.api.add(WHERE, f"m{i}")
        for after in (1, 3, 6):
            number = self.inform(cancelAfter=after, limit=2)
            self.tool.event(number, "ADD", count=after)
        number = self.inform(cancelAfter=7)
        self.tool.event(number, "SYNCED")
        self.api.add(WHERE, "another")
        self.tool.wait(number, lambda a: a["event"] == "ADD", count=7)
        self.api.add(WHERE, "and-another")
        self.tool.event(self.inform(), "ADD", count=8)
        self.assertEqual(len(self.told(number)), 7)

    def test_all_namespaces(self):
        self.api.add(WHERE, "a")
        self.api.add("/api/v1/namespaces/other/configmaps", "a")
        number = self.tool.start("inform", MAPS, allNamespaces=True)
        self.tool.event(number, "SYNCED")
        self.api.remove("/api/v1/namespaces/other/configmaps", "a")
        self.assertEqual(self.tool.event(number, "DELETE")["namespace"], "other")
        self.assertEqual(self.tool.ask("counters", of=number)["objects"], 1)


unittest.main(verbosity=2)
