#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How the command line gets to a cluster: exec plugins of a kubeconfig, servers without TLS on this machine, and the
companion by the API server's proxy. Against the double of the API server and plugins that do what they are told.

Usage: test_login.py BIN_DIR [unittest arguments]
"""

import base64
import datetime
import json
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import test_cli
from api_double import ApiDouble, Held, Status
from daemon_driver import wait_for
from kube_driver import kubeconfig, make_certificate

SECONDS = 60
V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"
NOTHING = "no supernodes"

# Notes how it was called, then writes the next of the texts in the file "answers" beside it.
PLUGIN = """#!/usr/bin/python3
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
fds = [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
with open(f"{here}/calls", "a") as calls:
    calls.write(json.dumps({"args": sys.argv[1:], "env": dict(os.environ), "fds": fds, "stdin": os.readlink("/proc/self/fd/0")}) + "\\n")
with open(f"{here}/calls") as calls:
    count = len(calls.readlines())
with open(f"{here}/answers.json") as file:
    answers = json.load(file)
answer = answers[min(count, len(answers)) - 1]
if answer.get("ask"):
    print("code: ", end="", file=sys.stderr, flush=True)
    answer["stdout"] = answer["stdout"] % input()
sys.stderr.write(answer.get("stderr", ""))
sys.stdout.write(answer.get("stdout", "") * answer.get("times", 1))
sys.stdout.flush()
sys.exit(answer.get("code", 0))
"""


def credential(version=V1, **status):
    return json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status})


def in_seconds(seconds):
    when = datetime.datetime.fromtimestamp(int(time.time()) + seconds, datetime.timezone.utc)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


class Case(test_cli.Case):
    @classmethod
    def setUpClass(cls):
        cls.certificates = tempfile.mkdtemp(prefix="gputopo-login-")
        cls.addClassCleanup(shutil.rmtree, cls.certificates, ignore_errors=True)

    def setUp(self):
        super().setUp()
        self.api = ApiDouble(self.certificates)
        self.addCleanup(self.api.stop)
        os.makedirs(self.path("bin"))

    def plugin(self, *answers, name="plugin", **more):
        """A kubeconfig whose user has a plugin that gives these answers, the last one for ever."""
        with open(self.path(f"bin/{name}"), "w", encoding="ascii") as file:
            file.write(PLUGIN)
        os.chmod(self.path(f"bin/{name}"), 0o755)
        self.write("bin/answers.json", [answer if isinstance(answer, dict) else {"stdout": answer} for answer in answers])
        return self.user({"apiVersion": V1, "command": f"bin/{name}", "interactiveMode": "Never", **more})

    def user(self, exec_, cluster=""):
        return kubeconfig(self.path("config"), self.api.url, f"certificate-authority: {self.certificates}/ca.crt, {cluster}",
                          f"exec: {json.dumps(exec_)}")

    def calls(self):
        with open(self.path("bin/calls"), encoding="ascii") as file:
            return [json.loads(line) for line in file]

    def run_verb(self, config, *args, **more):
        return subprocess.run([f"{test_cli.BIN}/gputopo", *(args or ("supernodes",)), "--kubeconfig", config], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS, check=False, **more)

    def works(self, config, *args, says=NOTHING, errors="", **more):
        result = self.run_verb(config, *args, **more)
        self.assertEqual((result.returncode, result.stderr), (0, errors))
        self.assertIn(says, result.stdout)

    def fails(self, config, *args, says, lines=1, **more):
        result = self.run_verb(config, *args, **more)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertEqual(result.stderr.count("\n"), lines, result.stderr)
        self.assertRegex(result.stderr.splitlines()[-1], f"^gputopo: {(args or ('supernodes',))[0]}: .*{says}")


class Plugins(Case):
    def test_what_it_gets(self):
        """Arguments as they are, the variables of both, what is asked, and none of our descriptors."""
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        self.addCleanup(os.close, write)
        config = self.plugin(credential(token="token-1"), args=["get-token", "--x=$HOME; `id`", ""], env=[
            {"name": "PROFILE", "value": "a=b c"}, {"name": "GIVEN", "value": "new"}])
        self.works(config, pass_fds=(read, write), env={**os.environ, "GIVEN": "old", "KEPT": "yes", "KUBERNETES_EXEC_INFO": "stale"})
        call, = self.calls()
        self.assertEqual(call["args"], ["get-token", "--x=$HOME; `id`", ""])
        self.assertEqual([call["env"].get(name) for name in ("PROFILE", "GIVEN", "KEPT")], ["a=b c", "new", "yes"])
        self.assertEqual(json.loads(call["env"]["KUBERNETES_EXEC_INFO"]),
                         {"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": False}})
        self.assertEqual((sorted(call["fds"]), call["stdin"]), (["0", "1", "2"], "/dev/null"))
        self.assertEqual(self.api.requests[-1].headers["Authorization"], "Bearer token-1")

    def test_what_it_learns_of_the_cluster(self):
        exec_ = {"apiVersion": V1BETA1, "command": "bin/plugin", "provideClusterInfo": True}
        self.plugin(credential(V1BETA1, token="token-1"))
        extension = 'extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: "a-1"}}]'
        self.works(self.user(exec_, extension))
        cluster = json.loads(self.calls()[-1]["env"]["KUBERNETES_EXEC_INFO"])["spec"]["cluster"]
        with open(f"{self.certificates}/ca.crt", "rb") as file:
            authority = file.read()
        self.assertEqual(base64.b64decode(cluster.pop("certificate-authority-data")), authority)
        self.assertEqual(cluster, {"server": self.api.url, "config": {"audience": "a-1"}})

    def test_where_it_is(self):
        """With a slash below the kubeconfig's folder, otherwise on $PATH."""
        os.makedirs(self.path("elsewhere"))
        self.works(self.plugin(credential(token="token-1"), name="gputopo-test-plugin"), cwd=self.path("elsewhere"))
        bare = self.user({"apiVersion": V1, "command": "gputopo-test-plugin", "interactiveMode": "Never"})
        self.works(bare, env={**os.environ, "PATH": f"{self.path('bin')}:{os.environ['PATH']}"})
        self.fails(bare, cwd=self.path("bin"), says="gputopo-test-plugin: No such file or directory$")
        hint = self.user({"apiVersion": V1, "command": "gputopo-test-none", "interactiveMode": "Never", "installHint": "get it\nwith: x"})
        self.fails(hint, says="exec plugin gputopo-test-none: .*No such file or directory: get it.*with: x$")

    def test_an_oidc_helper(self):
        """kubelogin, as its manual has it in the kubeconfig."""
        args = ["oidc-login", "get-token", "--oidc-issuer-url=https://issuer.example.com", "--oidc-client-id=kubernetes"]
        self.plugin({"stdout": credential(V1BETA1, token="token-1", expirationTimestamp=in_seconds(3600)),
                     "stderr": "Please visit http://localhost:8000 in your browser\n"}, name="kubectl")
        config = self.user({"apiVersion": V1BETA1, "command": "kubectl", "args": args, "env": None, "provideClusterInfo": False})
        self.works(config, "cluster", says="0 nodes", errors="Please visit http://localhost:8000 in your browser\n",
                   env={**os.environ, "PATH": f"{self.path('bin')}:{os.environ['PATH']}"})
        self.assertEqual([call["args"] for call in self.calls()], [args])  # once for both lists

    def test_a_client_certificate(self):
        make_certificate(self.certificates, "client", "/CN=me")
        pair = {}
        for member, name in (("clientCertificateData", "client.crt"), ("clientKeyData", "client.key")):
            with open(f"{self.certificates}/{name}", encoding="ascii") as file:
                pair[member] = file.read()
        self.works(self.plugin(credential(**pair)))
        self.assertNotIn("Authorization", self.api.requests[-1].headers)

    def test_a_person_is_asked(self):
        config = self.plugin({"stdout": credential(token="token-%s"), "ask": True}, interactiveMode="Always")
        self.fails(config, says="it needs a terminal")
        near, far = pty.openpty()
        with subprocess.Popen([f"{test_cli.BIN}/gputopo", "supernodes", "--kubeconfig", config], stdin=far, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            os.close(far)
            self.assertEqual(process.stderr.read(6), "code: ")
            os.write(near, b"1\n")
            self.assertIn(NOTHING, process.communicate(timeout=SECONDS)[0])
            os.close(near)
        self.assertTrue(json.loads(self.calls()[0]["env"]["KUBERNETES_EXEC_INFO"])["spec"]["interactive"])

    def test_static_credentials_win(self):
        config = kubeconfig(self.path("config"), self.api.url, f"certificate-authority: {self.certificates}/ca.crt",
                            f"token: token-1, exec: {{apiVersion: {V1}, command: /nonexistent, interactiveMode: Never}}")
        self.works(config)


class Renewal(Case):
    def test_refused_once(self):
        self.works(self.plugin(credential(token="old"), credential(token="token-1")))
        self.assertEqual([r.headers["Authorization"] for r in self.api.requests], ["Bearer old", "Bearer token-1"])

    def test_refused_in_the_middle_of_a_list(self):
        for i in range(600):
            self.api.add("/apis/topology.metax-tech.com/v1alpha1/supernodes", f"s{i}", status={"tier": 1, "members": []})
        config = self.plugin(credential(token="token-1"), credential(token="token-2"))
        self.api.tokens.add("token-2")
        original = self.api.take_fault

        def second_page(request):
            return Status(401) if "continue" in request.query and len(self.calls()) == 1 else original(request)
        self.api.take_fault = second_page
        result = self.run_verb(config)
        self.assertEqual((result.returncode, result.stderr, len(result.stdout.splitlines())), (0, "", 601))

    def test_refused_for_ever(self):
        self.fails(self.plugin(credential(token="old")), says="the credential of exec plugin .*/bin/plugin: .*401 ")
        self.assertEqual(len(self.calls()), 2)

    def test_expired_before_it_came(self):
        """The server's clock decides: it is used, and the plugin runs once."""
        self.works(self.plugin(credential(token="token-1", expirationTimestamp="2020-01-01T00:00:00Z")), "cluster", says="0 nodes")
        self.assertEqual(len(self.calls()), 1)

    def test_expires_between_two_requests(self):
        expires = in_seconds(8)  # after the first request, also on a slow machine
        config = self.plugin(credential(token="token-1", expirationTimestamp=expires), credential(token="token-2"))
        self.api.tokens.add("token-2")
        held = threading.Event()
        self.api.fail(Held(held, 404), path="supernodes")
        done = []
        thread = threading.Thread(target=lambda: done.append(self.run_verb(config, "withdraw", "--dry-run")))
        thread.start()
        self.assertTrue(wait_for(lambda: self.api.asked() and in_seconds(0) > expires))
        held.set()
        thread.join()
        self.assertEqual((done[0].returncode, done[0].stderr), (0, ""))
        tokens = [r.headers["Authorization"] for r in self.api.requests]
        self.assertEqual((tokens[0], tokens[-1], len(self.calls())), ("Bearer token-1", "Bearer token-2", 2))


class Faults(Case):
    def test_what_plugins_do_wrong(self):
        one = credential(token="token-1")
        for says, lines, answer in (
                ("ended with code 3$", 2, {"stderr": "no session\n", "code": 3}),
                ("its output.*line 1, column 1", 1, "Logging in...\n" + one),
                ("writes more than 1048576 bytes", 1, {"stdout": "x" * 1000, "times": 1 << 20}),
                (f"of '{V1BETA1}' in place of ExecCredential of '{V1}'", 1, credential(V1BETA1, token="token-1")),
                ("neither a token nor a certificate", 1, credential()),
                ("but not both", 1, credential(clientKeyData="x")),
                ("white space", 1, credential(token="a b")),
                ("its output", 1, "")):
            with self.subTest(says=says):
                self.fails(self.plugin(answer), says="exec plugin .*/bin/plugin: .*" + says, lines=lines)
        self.assertEqual(self.api.requests, [])

    def test_a_noisy_one(self):
        noise = "x" * 999 + "\n"
        self.works(self.plugin({"stdout": credential(token="token-1"), "stderr": noise * 3000}), errors=noise * 3000)

    def test_daemons_do_not_run_it(self):
        """It would stop their event loop."""
        program = f"{test_cli.BIN}/gputopo-scheduler"
        if not os.access(program, os.X_OK):
            self.skipTest("gputopo-scheduler is not built")
        result = subprocess.run([program, "--kubeconfig", self.plugin(credential(token="token-1")), "--http=none"],
                                capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, "^gputopo-scheduler: a user with exec is for the command line: a daemon takes .*\n$")
        self.assertFalse(os.path.exists(self.path("bin/calls")))


class WithoutTls(Case):
    """As kubectl proxy serves."""

    def serve(self, address="127.0.0.1"):
        self.api.stop()
        with unittest.mock.patch.object(ApiDouble, "plain", True):
            api = ApiDouble(self.certificates, address=address)
        api.plain = True
        self.addCleanup(api.stop)
        return api

    def test_on_this_machine(self):
        api = self.serve()
        for host in ("127.0.0.1", "localhost"):
            self.works(kubeconfig(self.path("config"), f"http://{host}:{api.port}"))

    def test_by_ipv6(self):
        try:
            api = self.serve("::1")
        except OSError as error:
            self.skipTest(str(error))
        self.works(kubeconfig(self.path("config"), f"http://[::1]:{api.port}"))

    def test_no_credential_is_sent(self):
        """As kubectl does: whoever has that port is asked."""
        api = self.serve()
        self.works(kubeconfig(self.path("config"), api.url, "", "token: token-1"))
        self.works(kubeconfig(self.path("config"), api.url, "", f"exec: {{apiVersion: {V1}, command: /nonexistent, interactiveMode: Never}}"))
        self.assertFalse([r for r in api.requests if "Authorization" in r.headers])

    def test_elsewhere(self):
        for host in ("10.0.0.1", "127.0.0.1.example.com", "localhost.example.com", "[::2]", "[::1]x", "128.0.0.1", "127.1", "0x7f.0.0.1"):
            self.fails(kubeconfig(self.path("config"), f"http://{host}:1"), says=r"without TLS only this machine is asked|does not belong")


class Companion(Case):
    """gputopo explain by the API server's proxy."""
    SERVICE = "/api/v1/namespaces/gputopo-system/services/https%3Agputopo-scheduler%3Ahttps/proxy/explain"

    def setUp(self):
        super().setUp()
        self.config = kubeconfig(self.path("config"), self.api.url, f"certificate-authority: {self.certificates}/ca.crt", "token: token-1")

    def test_by_the_kubeconfig(self):
        self.api.fail(Status(200, body=b"It waits for room\n"), path="/proxy/", times=3)
        self.works(self.config, "explain", "-n", "ns", "a b", says="It waits for room")
        asked = self.api.requests[-1]
        self.assertEqual((asked.method, asked.path, asked.query), ("GET", self.SERVICE, {"name": "ns/a b"}))
        self.works(self.config, "explain", "ns/j", "-o", "json", says="It waits")
        self.assertEqual(self.api.requests[-1].query, {"name": "ns/j", "format": "json"})
        self.works(self.config, "explain", "--service=other/http:mine:9401", "j", says="It waits")
        self.assertEqual(self.api.requests[-1].path, "/api/v1/namespaces/other/services/http%3Amine%3A9401/proxy/explain")

    def test_without_a_word_about_the_cluster(self):
        self.api.fail(Status(200, body=b"It runs\n"), path="/proxy/")
        result = subprocess.run([f"{test_cli.BIN}/gputopo", "explain", "j"], capture_output=True, text=True, timeout=SECONDS, check=False,
                                env={**os.environ, "KUBECONFIG": self.config})
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "It runs\n", ""))

    def test_what_the_companion_does_not_know(self):
        self.api.fail(Status(404, body=b"there is no pod or job \"j\"\n"), path="/proxy/")
        self.fails(self.config, "explain", "j", says='the answer is 404: there is no pod or job "j"$')

    def test_what_the_api_server_refuses(self):
        self.api.fail(Status(403, 'services "https:gputopo-scheduler:https" is forbidden: User "u" cannot get resource "services/proxy"'))
        self.fails(self.config, "explain", "j", says='cannot be reached: .*403 Forbidden: .*"services/proxy".*port-forward')
        self.api.fail(Status(404, 'services "gputopo-scheduler" not found'))
        self.fails(self.config, "explain", "j", says="cannot be reached: .*404 NotFound: services .* not found")

    def test_with_a_plugin(self):
        self.api.fail(Status(401), path="/proxy/")
        self.api.fail(Status(200, body=b"It runs\n"), path="/proxy/")
        self.works(self.plugin(credential(token="token-1")), "explain", "j", says="It runs")
        self.assertEqual(len(self.calls()), 2)

    def test_usage(self):
        for says, args in (("--companion: not together with", ("--companion=127.0.0.1:1",)),
                           ("--service: expected NAMESPACE/NAME, is 'x'", ("--service=x",))):
            result = self.run_verb(self.config, "explain", *args, "j")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(says, result.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]):
        sys.exit(__doc__)
    test_cli.BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
