# SPDX-License-Identifier: Apache-2.0
"""Faults of the API server and etcd: they are killed, stopped for a while and started again, or lose history."""
import contextlib

from .waiting import Failed, until

COMPACT = """
import json, sys, urllib.request
def call(what, body):
    with urllib.request.urlopen("http://127.0.0.1:2379/v3/kv/" + what, json.dumps(body).encode(), timeout=30) as answer:
        return json.load(answer)
revision = call("range", {"key": "AA=="})["header"]["revision"]
call("compaction", {"revision": revision, "physical": True})
print(revision)
"""


class ControlPlane:
    def __init__(self, cluster):
        self.cluster = cluster
        self.hold = cluster.state / "apiserver.hold"

    def pid(self):
        """Of the running API server in the PID namespace, 0 while there is none."""
        return int((self.cluster.state / "apiserver.pid").read_text() or 0)

    def answers(self):
        try:
            return self.cluster.kubectl("get", "--raw", "/readyz") == "ok"
        except Failed:
            return False

    @contextlib.contextmanager
    def without_apiserver(self):
        """Kills it; it comes back at the end, whatever happens in between."""
        before = self.pid()
        self.hold.touch()
        try:
            self.cluster.ask("control", "kill", "-KILL", before)
            until("the API server to be gone", lambda: self.pid() == 0, 60, 0.05)
            yield
        finally:
            self.hold.unlink()
            until("the API server to be back", lambda: self.pid() not in (0, before) and self.answers(), 240)

    def compact(self):
        """etcd forgets everything but the present; returns the revision."""
        return int(self.cluster.ask("control", "/usr/bin/python3", "-c", COMPACT))
