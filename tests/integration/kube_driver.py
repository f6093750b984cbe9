# SPDX-License-Identifier: Apache-2.0
"""Drives kube-tool, and makes the certificates of a test's API server."""

import contextlib
import json
import os
import socket
import subprocess
import threading
import time

from daemon_driver import PATIENCE


class Tool:
    """A running kube-tool."""

    def __init__(self, program, *arguments, env=None):
        self.process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
        self.answers = {}
        self.last_id = 0
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            with self.changed:
                self.answers.setdefault(answer["id"], []).append(answer)
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def start(self, do, resource=None, **more):
        """Gives an order, returns its id."""
        self.last_id += 1
        order = {"id": self.last_id, "do": do, **more}
        if resource:
            order["resource"] = resource
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        return self.last_id

    def said(self, number):
        with self.changed:
            return list(self.answers.get(number, []))

    def wait(self, number, until=lambda answer: True, timeout=PATIENCE, count=1):
        """The count-th answer that satisfies `until`."""
        end = time.monotonic() + timeout
        with self.changed:
            while True:
                fitting = [a for a in self.answers.get(number, []) if until(a)]
                if len(fitting) >= count:
                    return fitting[count - 1]
                left = end - time.monotonic()
                if left <= 0 or self.process.poll() is not None:
                    raise AssertionError(f"order {number}: no such answer within {timeout} s; "
                                         f"got {str(self.answers.get(number))[:4000]}, "
                                         f"ended: {self.process.poll()}")
                self.changed.wait(min(left, 1))

    def event(self, number, name, timeout=PATIENCE, count=1):
        return self.wait(number, lambda a: a.get("event") == name, timeout, count)

    def ask(self, do, resource=None, timeout=PATIENCE, **more):
        return self.wait(self.start(do, resource, **more), timeout=timeout)

    def close(self):
        """Ends it; returns its exit code and what it said on standard error."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(PATIENCE)
        self.process.stdout.close()
        errors = self.process.stderr.read().decode()
        self.process.stderr.close()
        return self.process.returncode, errors

    def memory_kib(self):
        """RSS and its anonymous part."""
        fields = {}
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            for line in status:
                name, _, value = line.partition(":")
                fields[name] = value.split()
        return int(fields["VmRSS"][0]), int(fields["RssAnon"][0])


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")  # made at once, as RSA's are not


def make_authority(folder, name="ca", days=2):
    openssl("req", "-x509", *NEW_KEY, "-keyout", f"{folder}/{name}.key", "-out",
            f"{folder}/{name}.crt", "-subj", f"/CN=test-{name}", "-days", str(days))


def make_certificate(folder, name, subject, extension="basicConstraints=CA:FALSE", authority="ca"):
    with open(f"{folder}/{name}.ext", "w", encoding="ascii") as file:
        file.write(extension + "\n")
    openssl("req", *NEW_KEY, "-keyout", f"{folder}/{name}.key", "-out",
            f"{folder}/{name}.csr", "-subj", subject)
    openssl("x509", "-req", "-in", f"{folder}/{name}.csr", "-CA", f"{folder}/{authority}.crt", "-CAkey",
            f"{folder}/{authority}.key", "-CAcreateserial", "-days", "2", "-out", f"{folder}/{name}.crt",
            "-extfile", f"{folder}/{name}.ext")


def kubeconfig(path, server, cluster="", user=""):
    """Writes one; `cluster` and `user` are YAML flow members, such as "token: x"."""
    with open(path + ".new", "w", encoding="ascii") as file:  # renamed: another program may be reading the old one
        file.write("apiVersion: v1\nkind: Config\n"
                   f'clusters: [{{name: c, cluster: {{server: "{server}", {cluster}}}}}]\n'
                   f"users: [{{name: u, user: {{{user}}}}}]\n"
                   "contexts: [{name: x, context: {cluster: c, user: u, namespace: default}}]\n"
                   "current-context: x\n")
    os.rename(path + ".new", path)
    return path


class Relay:
    """Passes TCP on and counts the bytes: of all (up, down), and of each question with its answer (exchanges), which
    are as many as there are turns from down to up."""

    def __init__(self, port):
        self.target, self.up, self.down = port, 0, 0
        self.exchanges, self.asking = [], False
        self.count, self.dead = 0, 0  # connections
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.count += 1
            threading.Thread(target=self.copy, args=(near, far, "up", self.count), daemon=True).start()
            threading.Thread(target=self.copy, args=(far, near, "down", self.count), daemon=True).start()

    def kill(self):
        """Passes on nothing more of the connections so far, without a word."""
        self.dead = self.count

    def copy(self, source, to, way, number):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                setattr(self, way, getattr(self, way) + len(data))
                if way == "up" and not self.asking:
                    self.exchanges.append(0)
                self.asking = way == "up"
                self.exchanges[-1:] = [sum(self.exchanges[-1:]) + len(data)]
                if number > self.dead:
                    to.sendall(data)
            to.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()
