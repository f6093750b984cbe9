# SPDX-License-Identifier: Apache-2.0
"""A real API server for tests: etcd and kube-apiserver on loopback, in a folder of the test's own.

The programs are looked for in $GPUTOPO_KUBE_BIN and on PATH.
"""

import json
import os
import shutil
import subprocess
import urllib.request

from crds import CRDS
from daemon_driver import PATIENCE, free_port, wait_for
from kube_driver import kubeconfig, make_authority, make_certificate, openssl

SEARCH = os.pathsep.join(filter(None, [os.environ.get("GPUTOPO_KUBE_BIN"), os.environ.get("PATH")]))


class RealServer:
    """etcd and kube-apiserver, which forgets nothing by itself."""

    apiserver_path = shutil.which("kube-apiserver", path=SEARCH)
    etcd_path = shutil.which("etcd", path=SEARCH)
    kubectl_path = shutil.which("kubectl", path=SEARCH)

    @classmethod
    def is_there(cls):
        return bool(cls.apiserver_path and cls.etcd_path and cls.kubectl_path)

    def __init__(self, folder):
        self.folder = folder
        self.port, self.etcd_port, self.peer_port = free_port(), free_port(), free_port()
        make_authority(folder)
        make_certificate(folder, "server", "/CN=kube-apiserver", "subjectAltName=IP:127.0.0.1,DNS:localhost")
        make_certificate(folder, "admin", "/O=system:masters/CN=admin")
        openssl("genrsa", "-out", f"{folder}/sa.key", "2048")
        self.log = open(f"{folder}/log", "wb")  # noqa: SIM115, closed in close()
        self.etcd = self.apiserver = None
        self.start_etcd()
        self.start()
        self.url = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = kubeconfig(f"{folder}/admin.kubeconfig", self.url, "certificate-authority: ca.crt",
                                     "client-certificate: admin.crt, client-key: admin.key")

    def start_etcd(self):
        etcd, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.peer_port}"
        self.etcd = subprocess.Popen(
            [self.etcd_path, "--data-dir", f"{self.folder}/etcd", "--unsafe-no-fsync", "--listen-client-urls", etcd,
             "--advertise-client-urls", etcd, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", f"default={peer}"], stdout=self.log, stderr=self.log)

    def start(self):
        f = self.folder
        self.apiserver = subprocess.Popen(
            [self.apiserver_path, f"--etcd-servers=http://127.0.0.1:{self.etcd_port}", "--bind-address=127.0.0.1",
             f"--secure-port={self.port}", "--service-cluster-ip-range=10.96.0.0/24",
             f"--tls-cert-file={f}/server.crt", f"--tls-private-key-file={f}/server.key",
             f"--client-ca-file={f}/ca.crt", f"--service-account-key-file={f}/sa.key",
             f"--service-account-signing-key-file={f}/sa.key", f"--cert-dir={f}",
             "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC",
             "--enable-admission-plugins=NodeRestriction",
             "--endpoint-reconciler-type=none", "--etcd-compaction-interval=0",
             "--allow-privileged=true"], stdout=self.log, stderr=self.log)

    def kubectl(self, *arguments, text=None, check=True):
        done = subprocess.run([self.kubectl_path, "--kubeconfig", self.kubeconfig, *arguments], input=text,
                              text=True, capture_output=True, timeout=2 * PATIENCE, check=False)
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def get(self, what, name):
        text = self.kubectl("get", what, name, "-o", "json", "--show-managed-fields", "--ignore-not-found")
        return json.loads(text) if text else None

    def install(self):
        """Waits until it is up and applies the custom resource definitions of this repository."""
        self.wait_ready()
        self.kubectl("apply", "-k", CRDS)
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", f"--timeout={PATIENCE}s")

    def wait_ready(self):
        if not wait_for(lambda: "ok" in self.kubectl("get", "--raw", "/readyz", check=False), 3 * PATIENCE):
            raise AssertionError("the API server does not come up")

    def swap_data(self, source, target):
        """Both programs end, one directory of etcd's becomes a copy of another, and they start again."""
        self.apiserver.kill()  # asked to end, it waits for its watches
        self.apiserver.wait()
        self.end(self.etcd)
        shutil.rmtree(f"{self.folder}/{target}", ignore_errors=True)
        shutil.copytree(f"{self.folder}/{source}", f"{self.folder}/{target}")
        self.start_etcd()
        self.start()
        self.wait_ready()

    def back_up(self):
        self.swap_data("etcd", "backup")

    def restore(self):
        """What came after back_up() has never been."""
        self.swap_data("backup", "etcd")

    def compact(self):
        """Makes etcd forget all but the present."""
        etcd = f"http://127.0.0.1:{self.etcd_port}/v3/kv/"
        with urllib.request.urlopen(etcd + "range", data=b'{"key": "AA=="}', timeout=PATIENCE) as answer:
            revision = json.load(answer)["header"]["revision"]
        data = json.dumps({"revision": revision}).encode()
        with urllib.request.urlopen(etcd + "compaction", data=data, timeout=PATIENCE) as answer:
            answer.read()

    @staticmethod
    def end(process):
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self):
        self.end(self.apiserver)
        self.end(self.etcd)
        self.log.close()
