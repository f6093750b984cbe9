# SPDX-License-Identifier: Apache-2.0
"""Runs gputopo-agent for the tests of publishing, and a real API server where there is one."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

from kube_driver import kubeconfig, make_authority, make_certificate, openssl

HERE = os.path.dirname(os.path.abspath(__file__))
MACHINES = os.path.join(HERE, "../machines")
CRDS = os.path.join(HERE, "../../daemonset/crds")
SEARCH = os.pathsep.join(filter(None, [os.environ.get("GPUTOPO_KUBE_BIN"), os.environ.get("PATH")]))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(condition, seconds=15):
    """What the condition says when it is true at last."""
    end = time.monotonic() + seconds
    while True:
        said = condition()
        if said or time.monotonic() >= end:
            return said
        time.sleep(0.05)


class Agent:
    """A running agent and what it said."""

    def __init__(self, program, directory, *arguments, node="n1", env=None):
        self.port = free_port()
        self.process = subprocess.Popen(
            [program, "--http", f"127.0.0.1:{self.port}", "--node-name", node, "--log-format", "json",
             "--kubelet-dir", directory, *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(env or {})})
        self.lines = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.lines.append({"event": line.rstrip("\n"), "level": "raw"})

    def events(self, name):
        return [line for line in list(self.lines) if line["event"] == name]

    def hangup(self):
        self.process.send_signal(signal.SIGHUP)

    def metrics(self):
        """Sample lines, by their name and labels as they stand."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in text.splitlines() if line and not line.startswith("#")}

    def is_current(self):
        try:
            return self.metrics().get("gputopo_publish_current") == 1
        except OSError:
            return False

    def memory_kib(self):
        """RSS and its anonymous part."""
        fields = {}
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            for line in status:
                name, _, value = line.partition(":")
                fields[name] = value.split()
        return int(fields["VmRSS"][0]), int(fields["RssAnon"][0])

    def stop(self, seconds=20):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.reader.join(10)
            self.process.stderr.close()


class RealServer:
    """etcd and kube-apiserver on loopback, with the custom resources of this repository."""

    apiserver_path = shutil.which("kube-apiserver", path=SEARCH)
    etcd_path = shutil.which("etcd", path=SEARCH)
    kubectl_path = shutil.which("kubectl", path=SEARCH)

    @classmethod
    def is_there(cls):
        return bool(cls.apiserver_path and cls.etcd_path and cls.kubectl_path)

    def __init__(self, folder):
        self.folder = folder
        self.port, self.etcd_port, peer_port = free_port(), free_port(), free_port()
        make_authority(folder)
        make_certificate(folder, "server", "/CN=kube-apiserver", "subjectAltName=IP:127.0.0.1,DNS:localhost")
        make_certificate(folder, "admin", "/O=system:masters/CN=admin")
        openssl("genrsa", "-out", f"{folder}/sa.key", "2048")
        self.log = open(f"{folder}/log", "wb")  # noqa: SIM115, closed in close()
        etcd = f"http://127.0.0.1:{self.etcd_port}"
        peer = f"http://127.0.0.1:{peer_port}"
        self.etcd = subprocess.Popen(
            [self.etcd_path, "--data-dir", f"{folder}/etcd", "--unsafe-no-fsync", "--listen-client-urls", etcd,
             "--advertise-client-urls", etcd, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", f"default={peer}"], stdout=self.log, stderr=self.log)
        self.apiserver = None
        self.start()
        self.url = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = kubeconfig(f"{folder}/admin.kubeconfig", self.url, "certificate-authority: ca.crt",
                                     "client-certificate: admin.crt, client-key: admin.key")

    def start(self):
        f = self.folder
        self.apiserver = subprocess.Popen(
            [self.apiserver_path, f"--etcd-servers=http://127.0.0.1:{self.etcd_port}", "--bind-address=127.0.0.1",
             f"--secure-port={self.port}", "--service-cluster-ip-range=10.96.0.0/24",
             f"--tls-cert-file={f}/server.crt", f"--tls-private-key-file={f}/server.key",
             f"--client-ca-file={f}/ca.crt", f"--service-account-key-file={f}/sa.key",
             f"--service-account-signing-key-file={f}/sa.key", f"--cert-dir={f}",
             "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC",
             "--endpoint-reconciler-type=none"], stdout=self.log, stderr=self.log)

    def kubectl(self, *arguments, text=None, check=True):
        done = subprocess.run([self.kubectl_path, "--kubeconfig", self.kubeconfig, *arguments], input=text,
                              text=True, capture_output=True, timeout=60, check=False)
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def get(self, what, name):
        text = self.kubectl("get", what, name, "-o", "json", "--show-managed-fields", "--ignore-not-found")
        return json.loads(text) if text else None

    def install(self):
        """Waits until it is up and applies the custom resource definitions."""
        if not wait_for(lambda: "ok" in self.kubectl("get", "--raw", "/readyz", check=False), 90):
            raise AssertionError("the API server does not come up")
        self.kubectl("apply", "-k", CRDS)
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")

    @staticmethod
    def end(process):
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self):
        self.end(self.apiserver)
        self.end(self.etcd)
        self.log.close()
