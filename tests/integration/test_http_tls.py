#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of the daemons with TLS: certificates, their rotation, hostile clients.

Usage: test_http_tls.py HTTP_HOST [unittest arguments]
"""

import contextlib
import json
import os
import random
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

from http_case import EARLY, HOST, SLOW, Server, ask, chunked, ended, post, read_answer, sum_of


class Authority:
    """A CA made by openssl, and certificates of it."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.certificate = os.path.join(folder, f"{name}.crt")
        self.key = os.path.join(folder, f"{name}.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key,
                "-out", self.certificate, "-days", "2", "-subj", f"/CN={name}")

    def issue(self, name, cn, usage="serverAuth", days="1"):
        base = os.path.join(self.folder, name)
        with open(f"{base}.ext", "w", encoding="ascii") as f:
            f.write(f"subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage={usage}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{base}.key",
                "-out", f"{base}.csr", "-subj", f"/O=test/CN={cn}")
        openssl("x509", "-req", "-in", f"{base}.csr", "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
                "-out", f"{base}.crt", "-days", days, "-extfile", f"{base}.ext")
        return f"{base}.crt", f"{base}.key"


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gputopo-http-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.authority = Authority(cls.folder, "authority")
        cls.other = Authority(cls.folder, "other")
        cls.first = cls.authority.issue("first", "first")
        cls.second = cls.authority.issue("second", "second")
        cls.client = cls.authority.issue("client", "system:kube-scheduler", "clientAuth")
        cls.stranger = cls.other.issue("stranger", "stranger", "clientAuth")
        cls.expired = cls.authority.issue("expired", "expired", "clientAuth", "-1")

    def server(self, *arguments, pair=None):
        certificate, key = pair or self.first
        return Server("--certificate", certificate, "--key", key, "--body-max", str(8 << 20), *arguments)

    def context(self, client=None, version=None):
        context = ssl.create_default_context(cafile=self.authority.certificate)
        if client:
            context.load_cert_chain(*client)
        if version:
            context.minimum_version = context.maximum_version = version
        return context

    @contextlib.contextmanager
    def dial(self, server, **how):
        with server.dial() as plain:
            connection = self.context(**how).wrap_socket(plain, server_hostname="localhost")
            try:
                yield connection
            finally:
                connection.close()

    def echo(self, server, body=b"{}", **how):
        with self.dial(server, **how) as connection:
            return json.loads(ask(connection, post("/echo", body))[1])

    @staticmethod
    def name_of(connection):
        return dict(part[0] for part in connection.getpeercert()["subject"])["commonName"]

    @staticmethod
    def stats(connection):
        return json.loads(ask(connection, "GET /stats HTTP/1.1\r\nHost: x\r\n\r\n")[1])

    def test_versions(self):
        with self.server() as server:
            for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
                with self.dial(server, version=version) as connection:
                    self.assertEqual(connection.version(), name)
                    header, _ = ask(connection, post("/echo", b"{}"))
                    self.assertIn(" 200 ", header)
            answer = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_1", "-cipher",
                                     "ALL:@SECLEVEL=0"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
            self.assertNotEqual(answer.returncode, 0)
            with self.dial(server) as connection:
                expires = self.stats(connection)["tls_expires"]
                self.assertEqual(expires, ssl.cert_time_to_seconds(connection.getpeercert()["notAfter"]))

    def test_bodies(self):
        body = random.Random(3).randbytes(5 << 20)
        for arguments in ([], ["--buffer", "32768"], ["--buffer", "65536"]):
            with self.server(*arguments) as server, self.dial(server) as connection:
                for part in (body[:1], body[:15000], body[:16384], body):
                    for path in ("/echo", "/eat"):
                        header, answer = ask(connection, post(path, part))
                        self.assertIn(" 200 ", header)
                        self.assertEqual(json.loads(answer)["sum"], sum_of(part))
                connection.sendall(post("/echo", b"one") + chunked("/eat", [b"three"]) + post("/echo", b"four"))
                left, sizes = b"", []
                for _ in range(3):
                    _, answer, left = read_answer(connection, left)
                    sizes.append(json.loads(answer)["len"])
                self.assertEqual(sizes, [3, 5, 4])
                header, _ = ask(connection, post("/small", b"x" * 3000000))
                self.assertIn(" 413 ", header)

    def test_big_answer_to_a_slow_reader(self):
        with self.server() as server, self.dial(server) as connection, self.dial(server) as quick:
            connection.sendall(f"GET /big?{4 << 20} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            time.sleep(0.3)
            self.assertIn(" 200 ", ask(quick, post("/echo", b"{}"))[0])
            _, body, _ = read_answer(connection)
            self.assertEqual(len(body), 4 << 20)

    def test_curl(self):
        with self.server("--client-ca", self.authority.certificate) as server:
            answer = subprocess.run(
                ["curl", "-sS", "--max-time", "60", "--cacert", self.authority.certificate, "--cert", self.client[0],
                 "--key", self.client[1], "-d", "{}", f"https://localhost:{server.port}/echo", "--resolve",
                 f"localhost:{server.port}:127.0.0.1"], capture_output=True, text=True, check=True)
            self.assertEqual(json.loads(answer.stdout)["client"], "system:kube-scheduler")

    def refuses(self, server, **how):
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            self.echo(server, **how)

    def test_client_certificates(self):
        wrong_purpose = self.second
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.server("--client-ca", self.authority.certificate) as server:
                self.assertEqual(self.echo(server, client=self.client, version=version)["client"],
                                 "system:kube-scheduler")
                self.assertIsNone(self.echo(server, version=version)["client"])
                self.assertEqual(self.echo(server, client=self.client, version=version)["names"], ["system:kube-scheduler", "localhost"])
                for bad in (self.stranger, self.expired, wrong_purpose):
                    self.refuses(server, client=bad, version=version)
                with self.dial(server, version=version) as connection:
                    self.assertEqual(self.stats(connection)["refused_tls"], 3)
            with self.server("--client-ca", self.authority.certificate, "--client-required") as server:
                self.assertEqual(self.echo(server, client=self.client, version=version)["client"],
                                 "system:kube-scheduler")
                self.refuses(server, version=version)
                self.refuses(server, client=self.stranger, version=version)
                with self.dial(server, client=self.client) as connection:
                    self.assertEqual(self.stats(connection)["made"], 0)
        with self.server() as server:  # nobody is asked: what is shown all the same proves nothing
            self.assertIsNone(self.echo(server, client=self.stranger)["client"])

    def mounted(self, pair):
        """A folder as the kubelet mounts a Secret: names are links into ..data, which is a link itself."""
        folder = tempfile.mkdtemp(dir=self.folder)
        for name in ("tls.crt", "tls.key", "ca.crt"):
            os.symlink(f"..data/{name}", os.path.join(folder, name))
        self.mount(folder, pair)
        return folder

    def mount(self, folder, pair, authority=None):
        data = tempfile.mkdtemp(dir=folder, prefix="..")
        shutil.copy(pair[0], os.path.join(data, "tls.crt"))
        shutil.copy(pair[1], os.path.join(data, "tls.key"))
        shutil.copy((authority or self.authority).certificate, os.path.join(data, "ca.crt"))
        link = os.path.join(folder, "..data_tmp")
        os.symlink(os.path.basename(data), link)
        os.rename(link, os.path.join(folder, "..data"))

    def comes_to(self, server, name):
        end = time.monotonic() + SLOW
        while True:
            with self.dial(server) as connection:
                if self.name_of(connection) == name:
                    return
            self.assertLess(time.monotonic(), end, name)
            time.sleep(0.2)

    def test_rotation(self):
        folder = self.mounted(self.first)
        pair = (os.path.join(folder, "tls.crt"), os.path.join(folder, "tls.key"))
        with self.server("--client-ca", os.path.join(folder, "ca.crt"), pair=pair) as server, \
                self.dial(server, client=self.client) as old:
            self.assertEqual(self.name_of(old), "first")
            self.mount(folder, self.second)
            self.comes_to(server, "second")
            self.assertEqual(server.wait_events(1), [{"event": "tls", "error": None}])
            # The connection from before goes on, with its identity.
            self.assertEqual(json.loads(ask(old, post("/echo", b"{}"))[1])["client"], "system:kube-scheduler")

            # A certificate without its key: told once, the old pair stays.
            self.mount(folder, (self.first[0], self.second[1]))
            end = time.monotonic() + 7
            while time.monotonic() < end:
                with self.dial(server) as connection:
                    self.assertEqual(self.name_of(connection), "second")
                time.sleep(0.3)
            self.assertEqual(len(server.wait_events(2)), 2)
            self.assertIn("tls.crt", server.events[1]["error"])
            stats = self.stats(old)
            self.assertEqual((stats["tls_loads"], stats["tls_failures"]), (2, 1))

            # The right one, and another CA for clients.
            self.mount(folder, self.first, self.other)
            self.comes_to(server, "first")
            self.assertEqual(self.echo(server, client=self.stranger)["client"], "stranger")
            self.refuses(server, client=self.client)
            self.assertEqual(json.loads(ask(old, post("/echo", b"{}"))[1])["client"], "system:kube-scheduler")
            # Gone altogether.
            os.unlink(os.path.join(folder, "..data"))
            time.sleep(2.5)
            self.assertEqual(self.echo(server)["len"], 2)
            self.assertEqual(self.echo(server)["len"], 2)
            self.assertIn("tls.crt", server.wait_events(4)[3]["error"])

    def test_rotation_in_place(self):
        folder = tempfile.mkdtemp(dir=self.folder)
        pair = (os.path.join(folder, "crt"), os.path.join(folder, "key"))
        for source, to in zip(self.first, pair):
            shutil.copy(source, to)
        with self.server(pair=pair) as server:
            self.comes_to(server, "first")
            for source, to in zip(self.second, pair):
                shutil.copy(source, to)
            self.comes_to(server, "second")

    def test_rotation_under_load(self):
        """Connections that come and go while the files change: none fails."""
        folder = self.mounted(self.first)
        pair = (os.path.join(folder, "tls.crt"), os.path.join(folder, "tls.key"))
        with self.server(pair=pair) as server:
            failures, names, stop = [], set(), threading.Event()

            def client():
                while not stop.is_set():
                    try:
                        with self.dial(server) as connection:
                            names.add(self.name_of(connection))
                            ask(connection, post("/echo", b"x" * 5000))
                    except OSError as e:
                        failures.append(e)

            threads = [threading.Thread(target=client) for _ in range(4)]
            for thread in threads:
                thread.start()
            for i in range(4):
                self.comes_to(server, "second" if i % 2 else "first")
                if i < 3:
                    self.mount(folder, self.first if i % 2 else self.second)
            end = time.monotonic() + SLOW
            while len(names) < 2 and time.monotonic() < end:
                time.sleep(0.1)
            stop.set()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
            self.assertEqual(names, {"first", "second"})

    def test_hostile(self):
        with self.server("--request-ms", "4500", "--idle-ms", "4000") as server:
            with server.dial() as plain:
                plain.sendall(b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n")
                self.assertTrue(ended(plain))
            rng = random.Random(4)
            for _ in range(50):
                with server.dial() as garbage:
                    with contextlib.suppress(OSError):
                        garbage.sendall(b"\x16\x03\x01" + rng.randbytes(rng.randrange(2000)))
            with server.dial() as drip:  # a handshake, one byte at a time
                hello = b"\x16\x03\x01\x40\x00\x01"
                begin, cut = time.monotonic(), False
                while time.monotonic() - begin < SLOW and not cut:
                    with contextlib.suppress(IndexError):
                        try:
                            drip.sendall(hello[:1])
                            hello = hello[1:] or b"\0"
                        except OSError:
                            cut = True
                    cut = cut or ended(drip, 0.2)
                self.assertTrue(cut)
                self.assertLess(time.monotonic() - begin, EARLY)
            self.assertEqual(self.echo(server)["len"], 2)

    def test_does_not_start(self):
        missing = os.path.join(self.folder, "missing")
        for arguments, part in (
                (["--certificate", missing, "--key", self.first[1]], "missing"),
                (["--certificate", self.first[0], "--key", self.second[1]], "first.crt"),
                (["--certificate", self.first[0]], "without a key"),
                (["--certificate", self.first[1], "--key", self.first[1]], "first.key"),
                (["--certificate", self.first[0], "--key", self.first[1], "--client-ca", self.first[1]], "first.key"),
                (["--certificate", self.first[0], "--key", self.first[1], "--client-required"], "no CA")):
            run = subprocess.run([HOST, *arguments], capture_output=True, text=True, timeout=SLOW, check=False)
            self.assertEqual(run.returncode, 1, arguments)
            self.assertIn(part, run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
