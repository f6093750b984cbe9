#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Who may look at the page (--ui-access=checked): the real companion, and a double that knows users and their rights.

Usage: test_ui_access.py SCHEDULER [unittest arguments]
"""

import http.client
import json
import os
import ssl
import sys
import tempfile
import time
import unittest

import chromium
from api_double import ApiError, StrictDouble
from daemon_driver import free_port, wait_for
from extender_driver import context_of
from kube_driver import make_authority, make_certificate
from page_world import companion

SCHEDULER = None
USERS = {  # token: the user of a TokenReview
    "operator": {"username": "olga", "groups": ["operators"]},
    "tenant": {"username": "tim", "uid": "u-1", "groups": ["system:authenticated"], "extra": {"scopes": ["narrow"]}},
    "nobody": {"username": "nora"},
}


class Reviewer(StrictDouble):
    """Answers reviews. Operators may list nodes; Tim may list the pods of lab."""

    def __init__(self, *args, **more):
        self.reviewed, self.sick = [], False
        super().__init__(*args, **more)

    def serve(self, request):
        if request.method != "POST" or "reviews" not in request.path:
            return super().serve(request)
        if self.sick:
            raise ApiError(403, "forbidden")
        body = json.loads(request.body)
        spec = body["spec"]
        self.reviewed.append(spec)
        if request.path == "/apis/authentication.k8s.io/v1/tokenreviews":
            user = USERS.get(spec["token"])
            return 201, {**body, "status": {"authenticated": True, "user": user} if user else {"authenticated": False, "error": "unknown"}}
        if request.path != "/apis/authorization.k8s.io/v1/subjectaccessreviews":
            raise ApiError(404, request.path)
        asked = spec["resourceAttributes"]
        allowed = (asked == {"verb": "list", "resource": "nodes"} and "operators" in spec["groups"]) or \
                  (asked == {"verb": "list", "resource": "pods", "namespace": "lab"} and spec["user"] == "tim"
                   and spec["extra"] == {"scopes": ["narrow"]} and spec["uid"] == "u-1")
        return 201, {**body, "status": {"allowed": allowed}}


class Access(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world, cls.running = cls.enterClassContext(companion(SCHEDULER, 40, "--ui-access=checked", waiting=2, double=Reviewer))

    def ask(self, path, token=None, patience=30):
        """The answer when the companion knows who asks."""
        end = time.monotonic() + patience
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=30)
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            status, text = answer.status, answer.read().decode()
            connection.close()
            if status != 503 or time.monotonic() > end:
                return status, text, answer.headers
            time.sleep(0.1)

    def test_without_a_token(self):
        for path in ("/ui/state", "/ui/node?name=r000-n00", "/debug/model", "/explain?node=r000-n00"):
            status, text, headers = self.ask(path)
            self.assertEqual((status, headers["WWW-Authenticate"]), (401, "Bearer"), path)
            self.assertIn("a bearer token that the API server knows", text)
        self.assertEqual(self.ask("/ui")[0], 200)
        self.assertEqual(self.ask("/metrics")[0], 200)

    def test_strangers(self):
        self.assertEqual(self.ask("/ui/state", "made-up")[0], 401)
        self.assertEqual(self.ask("/ui/state", "nobody")[0], 403)
        self.assertEqual(self.ask("/ui/state?namespace=lab", "nobody")[0], 403)
        self.assertEqual(self.ask("/ui/state", "x" * 9000)[0], 401)

    def test_who_may_list_nodes_sees_all(self):
        status, text, _ = self.ask("/ui/state", "operator")
        self.assertEqual((status, len(json.loads(text)["nodes"])), (200, 40))
        for path in ("/ui/node?name=r000-n00", "/debug/model", "/explain?node=r000-n00"):
            self.assertEqual(self.ask(path, "operator")[0], 200, path)
        before = len(self.world.api.reviewed)
        for _ in range(20):
            self.assertEqual(self.ask("/ui/state", "operator")[0], 200)
        self.assertEqual(len(self.world.api.reviewed), before, "the verdict is not kept")

    def test_who_may_list_pods_sees_these(self):
        self.assertEqual(self.ask("/ui/state", "tenant")[0], 403)
        self.assertEqual(self.ask("/ui/state?namespace=team-a", "tenant")[0], 403)
        status, text, _ = self.ask("/ui/state?namespace=lab", "tenant")
        self.assertEqual(status, 200)
        told = json.loads(text)
        self.assertEqual({job["namespace"] for job in told["jobs"]}, {"lab"})
        self.assertEqual(len(told["nodes"]), 5)
        self.assertEqual({user[0].split("/")[0] for row in told["nodes"] for user in row[-1]}, {"lab"})
        self.assertNotIn("team-", text)
        for path in ("/debug/model", "/explain?node=r000-n00", "/ui/node?name=r000-n00"):
            self.assertEqual(self.ask(f"{path}{'&' if '?' in path else '?'}namespace=lab", "tenant")[0], 403, path)

    def test_a_state_of_somebody_else(self):
        """Who had seen all, or another namespace, gets all of this one, and no "nothing has changed"."""
        all_of_it = self.ask("/ui/state", "operator")
        state = json.loads(all_of_it[1])["state"]
        told = json.loads(self.ask(f"/ui/state?namespace=lab&since={state}", "tenant")[1])
        self.assertEqual((told["all"], len(told["nodes"])), (True, 5))
        again = json.loads(self.ask(f"/ui/state?namespace=lab&since={told['state']}", "tenant")[1])
        self.assertEqual((again["all"], again["nodes"]), (False, []))
        self.assertTrue(json.loads(self.ask(f"/ui/state?since={told['state']}", "operator")[1])["all"])
        self.assertNotEqual(all_of_it[2]["ETag"], self.ask("/ui/state?namespace=lab", "tenant")[2]["ETag"])

    def test_a_sick_api_server(self):
        self.world.api.sick = True
        try:
            self.assertTrue(wait_for(lambda: "cannot be asked who you are" in self.ask("/ui/state", "operator-2", patience=0)[1]))
        finally:
            self.world.api.sick = False

    @unittest.skipUnless(chromium.program(), "there is no Chromium here: signing in was not looked at")
    def test_sign_in(self):
        with chromium.browser() as browser:
            browser.size(390, 844, True)
            browser.open(f"http://127.0.0.1:{self.running.port}/ui")
            browser.wait_for("!document.querySelector('#sign-in').hidden")
            for token, namespace, script in (("nobody", "", "document.querySelector('#sign-in-why').innerText.includes('403')"),
                                             ("tenant", "lab", "page.nodes.size === 5 && document.querySelector('#status-text').innerText.includes('only what namespace lab has')"),
                                             ("operator", "", "page.nodes.size === 40")):
                browser.evaluate(f"(() => {{ document.querySelector('#token').value = '{token}'; document.querySelector('#namespace').value = '{namespace}';"
                                 " document.querySelector('#sign-in').requestSubmit(); })()")
                browser.wait_for(script)


class Certificates(unittest.TestCase):
    """Names in client certificates (--ui-clients), on the port of --https alone."""

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="gputopo-ui-access-"))
        make_authority(cls.folder)
        make_authority(cls.folder, "others")
        for name, subject, authority in (("server", "server", "ca"), ("grafana", "grafana", "ca"), ("scheduler", "kube-scheduler", "ca"),
                                         ("forged", "grafana", "others")):
            make_certificate(cls.folder, name, f"/CN={subject}", "subjectAltName=IP:127.0.0.1", authority)

    def ask(self, port, certificate, token=None, path="/ui/state"):
        context = context_of(f"{self.folder}/ca.crt", certificate and f"{self.folder}/{certificate}")
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            return connection.getresponse().status
        finally:
            connection.close()

    def look(self, names):
        """{certificate: the statuses of all that shows data}, by the port of --https."""
        port = free_port()
        options = ("--ui-access=checked", f"--https=127.0.0.1:{port}", f"--tls-certificate={self.folder}/server.crt", f"--tls-key={self.folder}/server.key",
                   f"--tls-client-ca={self.folder}/ca.crt", *((f"--ui-clients={names}",) if names else ()))
        with companion(SCHEDULER, 16, *options, waiting=0, double=Reviewer) as (world, running):
            self.assertTrue(wait_for(lambda: self.ask(port, "grafana") != 503))
            found = {}
            for certificate in (None, "grafana", "scheduler"):
                found[certificate] = {self.ask(port, certificate, path=path) for path in ("/ui/state", "/ui/node?name=r000-n00", "/debug/model", "/debug/decisions",
                                                                                        "/explain?node=r000-n00")}
            self.assertEqual(world.api.reviewed, [])
            with self.assertRaises((ssl.SSLError, OSError, AssertionError)):  # of another authority: no connection, or none that counts
                self.assertEqual(self.ask(port, "forged"), 200)
            plain = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
            plain.request("GET", "/ui/state")
            self.assertEqual(plain.getresponse().status, 401)
            plain.close()
            self.assertTrue(wait_for(lambda: self.ask(port, "scheduler", "operator") == 200))  # a token counts beside a name that does not
        return found

    def test_a_name(self):
        self.assertEqual(self.look("grafana"), {None: {401}, "grafana": {200}, "scheduler": {401}})

    def test_any_name(self):
        self.assertEqual(self.look("any"), {None: {401}, "grafana": {200}, "scheduler": {200}})

    def test_no_name(self):
        self.assertEqual(self.look(None), {None: {401}, "grafana": {401}, "scheduler": {401}})


if __name__ == "__main__":
    SCHEDULER = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
