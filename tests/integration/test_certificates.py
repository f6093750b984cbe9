#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-scheduler and certificates: its own, those of its clients, and what it reports of both.

Usage: test_certificates.py GPUTOPO_SCHEDULER [unittest arguments]
"""

import datetime
import json
import os
import re
import shutil
import socket
import ssl
import sys
import tempfile
import unittest

import prometheus_text
from api_double import StrictDouble
from companion_driver import NODES, TOPOLOGIES, Companion
from daemon_driver import free_port, wait_for
from extender_driver import FILTER, JSON, PRIORITIZE, args, asking_pod, client, context_of
from kube_driver import kubeconfig, make_authority, make_certificate, openssl
from placement_driver import node_status, pod_spec, topology

SCHEDULER = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
NAMESPACE = "gputopo-system"
EXPIRES = 'gputopo_http_tls_certificate_expires_timestamp_seconds{listener="https"}'
CA = """[ca]
default_ca = own
[own]
dir = .
database = {folder}/index
new_certs_dir = {folder}
serial = {folder}/serial
default_md = sha256
policy = any
[any]
commonName = supplied
"""


def make_certificate_of_time(folder, name, begin, end):
    """A server's certificate from one day to another, both counted from now."""
    stamps = [(datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)).strftime("%Y%m%d%H%M%SZ") for days in (begin, end)]
    for file, text in (("index", ""), ("serial", "1000\n"), ("ca.conf", CA.format(folder=folder)), ("of-time.ext", "subjectAltName=IP:127.0.0.1\n")):
        with open(f"{folder}/{file}", "w", encoding="ascii") as to:
            to.write(text)
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.csr", "-subj", f"/CN={name}")
    openssl("ca", "-batch", "-notext", "-config", f"{folder}/ca.conf", "-cert", f"{folder}/ca.crt", "-keyfile", f"{folder}/ca.key", "-startdate",
            stamps[0], "-enddate", stamps[1], "-extfile", f"{folder}/of-time.ext", "-in", f"{folder}/{name}.csr", "-out", f"{folder}/{name}.crt")


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gputopo-certificates-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        make_authority(cls.folder)
        make_certificate(cls.folder, "good", "/CN=good", "subjectAltName=IP:127.0.0.1")

    def setUp(self):
        self.api = StrictDouble(self.folder)
        self.addCleanup(self.api.stop)
        self.config = kubeconfig(f"{self.folder}/config", self.api.url, f"certificate-authority: {self.folder}/ca.crt", "token: token-1")
        self.api.add(NODES, "n1", status=node_status(8))
        self.api.add(TOPOLOGIES, "n1", status=topology("n1", 8))
        self.tls = tempfile.mkdtemp(dir=self.folder)
        self.https = free_port()

    def use(self, name):
        """Puts a pair where the daemon reads it, both at once for whoever looks at the second."""
        for end in ("key", "crt"):
            shutil.copy(f"{self.folder}/{name}.{end}", f"{self.tls}/new")
            os.rename(f"{self.tls}/new", f"{self.tls}/tls.{end}")

    def start(self, *options, tls=True, ready=True):
        more = ("--https", f"127.0.0.1:{self.https}", "--tls-certificate", f"{self.tls}/tls.crt", "--tls-key", f"{self.tls}/tls.key") if tls else ()
        companion = Companion(SCHEDULER, "--kubeconfig", self.config, "--namespace", NAMESPACE, "--leader-elect=false", *more, *options)
        self.addCleanup(lambda: self.assertEqual(companion.stop(), 0, companion.lines))
        self.companion = companion
        if ready:
            self.assertTrue(wait_for(companion.is_ready), companion.lines)
        return companion

    def client(self, certificate=None):
        made = client(self.https, context_of(f"{self.folder}/ca.crt", certificate and f"{self.folder}/{certificate}"))
        self.addCleanup(made.__exit__, None, None, None)
        return made.__enter__()

    def comes_to(self, name, value):
        self.assertTrue(wait_for(lambda: self.companion.metrics().get(name) == value), (name, value, self.companion.metrics()))


class Own(Case):
    """Nobody connects to the port with TLS here: what is said of the files does not wait for that."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_certificate_of_time(cls.folder, "expired", -3, -1)
        make_certificate_of_time(cls.folder, "early", 1, 3)

    def becomes(self, status, text):
        def is_so():
            said = self.companion.get("/readyz")
            return said[0] == status and re.search(text, said[1])
        self.assertTrue(wait_for(is_so), self.companion.get("/readyz"))

    def test_ready_only_with_a_valid_certificate(self):
        self.use("good")
        self.start()
        self.becomes(200, r"^ok, leads\n$")
        self.use("expired")
        self.becomes(503, rf"^https: the certificate {self.tls}/tls\.crt expired on \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n$")
        self.assertEqual(self.companion.get("/healthz")[0], 200)  # to start it again would not help
        status, text = self.companion.get("/readyz?exclude=certificate")  # nor to cut Volcano off, which asks the plain port
        self.assertEqual((status, text.splitlines()[-1]), (200, "ok, leads"))
        self.assertIn("expired on", text)
        self.use("early")
        self.becomes(503, rf"^https: the certificate {self.tls}/tls\.crt is not valid before \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n$")
        self.use("good")
        self.becomes(200, r"^ok, leads\n$")

    def test_it_starts_with_an_expired_one(self):
        """As it does after a weekend; and goes on by itself when there is a new one."""
        self.use("expired")
        self.start(ready=False)
        self.assertTrue(wait_for(lambda: self.companion.events("loaded a certificate") or self.reachable()))
        self.becomes(503, "expired on")
        self.use("good")
        self.becomes(200, "ok")

    def reachable(self):
        try:
            return self.companion.get("/healthz")[0] == 200
        except OSError:
            return False

    def test_expiry_and_failures_are_exported(self):
        self.use("good")
        self.start()
        now = datetime.datetime.now(datetime.timezone.utc).timestamp()
        metrics = self.companion.metrics()
        self.assertTrue(now + 86400 < metrics[EXPIRES] < now + 3 * 86400, metrics[EXPIRES])
        self.assertEqual(metrics['gputopo_http_tls_loads_total{listener="https"}'], 1)
        self.assertEqual(metrics['gputopo_http_tls_load_failures_total{listener="https"}'], 0)
        self.use("expired")
        self.comes_to('gputopo_http_tls_loads_total{listener="https"}', 2)
        self.assertLess(self.companion.metrics()[EXPIRES], now)
        with open(f"{self.tls}/tls.key", "w", encoding="ascii") as file:
            file.write("no key\n")
        self.comes_to('gputopo_http_tls_load_failures_total{listener="https"}', 1)
        self.assertNotIn('gputopo_http_tls_loads_total{listener="http"}', metrics)
        prometheus_text.parse(self.companion.get("/metrics")[1])


class Connections(Case):
    def test_connections_and_refusals_are_exported(self):
        self.use("good")
        self.start()
        opened = [self.client() for _ in range(3)]
        for one in opened:
            self.assertEqual(one.ask("/readyz", method="GET")[0], 200)
        metrics = self.companion.metrics()
        self.assertEqual(metrics['gputopo_http_connections{listener="https"}'], 3)
        self.assertEqual(metrics['gputopo_http_connections_total{listener="https"}'], 3)
        self.assertEqual(metrics['gputopo_http_requests_total{listener="https"}'], 3)
        self.assertGreater(metrics['gputopo_http_connections_total{listener="http"}'], 0)
        for reason in ("size", "busy", "address", "evicted", "slow", "tls"):
            self.assertEqual(metrics[f'gputopo_http_refused_total{{listener="https",reason="{reason}"}}'], 0, reason)
        for one in opened:
            one.close()
        self.comes_to('gputopo_http_connections{listener="https"}', 0)
        self.assertEqual(self.companion.metrics()['gputopo_http_refused_total{listener="https",reason="tls"}'], 0)
        with socket.create_connection(("127.0.0.1", self.https), 60) as plain:  # speaks no TLS
            plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            plain.recv(100)
        with self.assertRaises(ssl.SSLError), client(self.https, ssl.create_default_context()) as suspicious:
            suspicious.ask("/readyz", method="GET")
        self.comes_to('gputopo_http_refused_total{listener="https",reason="tls"}', 2)
        with socket.create_connection(("127.0.0.1", self.companion.port), 60) as large:
            large.sendall(f"POST {FILTER} HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: {600 << 20}\r\n\r\n".encode())
            self.assertIn(b" 413 ", large.recv(1000).split(b"\r\n")[0])
        self.comes_to('gputopo_http_refused_total{listener="http",reason="size"}', 1)


class Clients(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, subject, extension in (("generated", "/CN=kube-scheduler", "extendedKeyUsage=clientAuth"),
                                         ("cluster", "/O=system:masters/CN=system:kube-scheduler", "extendedKeyUsage=clientAuth"),
                                         ("by-dns", "/O=x", "subjectAltName=IP:127.0.0.1,DNS:other,DNS:scheduler.example"),
                                         ("node", "/O=system:nodes/CN=system:node:n1", "subjectAltName=DNS:n1"),
                                         ("prefix", "/CN=kube-scheduler-2", "basicConstraints=CA:FALSE")):
            make_certificate(cls.folder, name, subject, extension)

    def asked_by(self, name):
        """The statuses of both questions; they agree."""
        one = self.client(name)
        answers = {one.ask(path, args(asking_pod(), "n1")) for path in (FILTER, PRIORITIZE)}
        self.assertEqual(len({status for status, _ in answers}), 1, answers)
        return answers.pop()

    def start_for(self, *options):
        self.use("good")
        self.start("--tls-client-ca", f"{self.folder}/ca.crt", *options)

    def test_kube_scheduler_is_known_by_its_name(self):
        self.start_for()
        for name in ("generated", "cluster"):
            self.assertEqual(self.asked_by(name)[0], 200, name)
        for name, called in (("node", "system:node:n1"), ("prefix", "kube-scheduler-2"), ("by-dns", "other")):
            self.assertEqual(self.asked_by(name), (403, f'the client certificate is that of "{called}"; who may ask this (--extender-clients): '
                                                        "kube-scheduler,system:kube-scheduler\n"))
        forbidden = 'gputopo_extender_requests_total{{path="{}",result="forbidden"}}'.format
        self.assertEqual([self.companion.metrics()[forbidden(path)] for path in (FILTER, PRIORITIZE)], [3, 3])
        self.assertEqual(self.client("node").ask("/readyz", method="GET")[0], 200)  # the rest asks for no name
        # without any, as without TLS
        self.assertEqual(self.client().ask(FILTER, args(asking_pod(), "n1")), (401, "this is asked with a client certificate\n"))
        self.assertEqual(self.companion.metrics()[forbidden(FILTER)], 4)

    def test_names_of_your_own(self):
        self.start_for("--extender-clients=mine,scheduler.example")
        self.assertEqual([self.asked_by(name)[0] for name in ("by-dns", "generated", "node")], [200, 403, 403])

    def test_any(self):
        self.start_for("--extender-clients=any")
        self.assertEqual([self.asked_by(name)[0] for name in ("generated", "node", "by-dns")], [200, 200, 200])


class Reviews(Case):
    """Pods with GPUs that were made, against what the webhook was asked."""

    MADE = "gputopo_webhook_pods_total"

    def add_pod(self, namespace, name, gpus=1):
        spec = pod_spec(gpus, gated=False) if gpus else {"containers": [{"name": "main", "image": "none"}]}
        self.api.add(f"/api/v1/namespaces/{namespace}/pods", name, spec=spec, status={"phase": "Pending"})

    def test_pods_that_should_have_been_reviewed(self):
        self.add_pod("team", "before")
        self.use("good")
        self.start("--webhook-except=kube-system,vendor")
        self.assertEqual(self.companion.metrics()[self.MADE], 0)
        for namespace in ("kube-system", "vendor", NAMESPACE):
            self.add_pod(namespace, "p")
        self.add_pod("team", "without", gpus=0)
        self.add_pod("team", "one")
        self.add_pod("other", "two", gpus=8)
        self.comes_to(self.MADE, 2)
        self.api.add("/api/v1/namespaces/team/pods", "one", spec=pod_spec(1, gated=False), status={"phase": "Running"})
        self.add_pod("team", "three")
        self.comes_to(self.MADE, 3)  # a change is no new one
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": "CREATE", "namespace": "team", "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "object": {"metadata": {"name": "three"}, "spec": pod_spec(1, gated=False)}}}
        status, text = self.client().ask("/webhook/mutate", review)
        self.assertEqual((status, json.loads(text)["response"]["allowed"]), (200, True), text)
        self.comes_to('gputopo_webhook_reviews_total{kind="mutate"}', 1)

    def test_without_tls_there_is_no_webhook(self):
        self.start(tls=False)
        self.add_pod("team", "one")
        self.comes_to('gputopo_informer_objects{resource="pods"}', 1)
        self.assertFalse(re.search(self.MADE, self.companion.get("/metrics")[1]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
