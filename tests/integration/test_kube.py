#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes client against the double of the API server: who it is, and single requests.

Usage: test_kube.py KUBE_TOOL [unittest arguments]
"""

import base64
import json
import os
import shutil
import subprocess
import threading
import time
import unittest

from api_double import ApiDouble, Held, Raw, Silence, Status, Stream
from daemon_driver import wait_for
from kube_case import MAPS, TOOL, WHERE, Case, config_map
from kube_driver import Tool, kubeconfig, make_authority, make_certificate


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
        self.assertTrue(2 <= answer["tries"] <= 8, answer)  # pauses of 0.1, 0.2, 0.4... seconds at least
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
        answer = self.get(deadlineMs=700, tryMs=600000)
        self.assert_answer(answer, 0, "ETIMEDOUT")

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
        self.assertEqual(sorted((b["note"] for b in bodies), key=len), ["one", 498 * "ü" + "..."])
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


unittest.main(verbosity=2)
