# SPDX-License-Identifier: Apache-2.0
"""Drives kube-tool, and makes the certificates of a test's API server."""

import json
import os
import subprocess
import threading
import time


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

    def wait(self, number, until=lambda answer: True, timeout=20, count=1):
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

    def event(self, number, name, timeout=20, count=1):
        return self.wait(number, lambda a: a.get("event") == name, timeout, count)

    def ask(self, do, resource=None, timeout=20, **more):
        return self.wait(self.start(do, resource, **more), timeout=timeout)

    def close(self):
        """Ends it; returns its exit code and what it said on standard error."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait(20)
        self.reader.join(5)
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


def make_authority(folder, name="ca"):
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{folder}/{name}.key", "-out",
            f"{folder}/{name}.crt", "-subj", f"/CN=test-{name}", "-days", "2")


def make_certificate(folder, name, subject, extension="basicConstraints=CA:FALSE", authority="ca"):
    with open(f"{folder}/{name}.ext", "w", encoding="ascii") as file:
        file.write(extension + "\n")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{folder}/{name}.key", "-out",
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
