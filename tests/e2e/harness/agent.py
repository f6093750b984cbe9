# SPDX-License-Identifier: Apache-2.0
"""gputopo-agent as a node of the cluster runs it."""
import os
import re
import signal

from .cluster import children
from .waiting import Failed, until

FETCH = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"


class Agent:
    PORT = 9400

    def __init__(self, cluster, program, machine, node=1):
        self.cluster, self.program, self.machine, self.node = cluster, program, machine, node
        self.log = cluster.state / "log" / f"agent{node}"
        self.process = None

    def begin(self, *options):
        self.process = self.cluster.enter(
            self.node, self.program, "--from", self.machine.file, "--dev-root", self.machine.dev,
            "--http", f"127.0.0.1:{self.PORT}", "--node-name", f"node{self.node}", *options,
            stdout=open(self.log, "a"), stderr=open(self.log, "a"), start_new_session=True)

    def start(self, *options):
        self.begin(*options)
        until("the agent to be ready", self.ready)

    def ready(self):
        if self.process.poll() is not None:
            raise Failed(f"the agent ended with {self.process.returncode}: {self.log.read_text()[-500:]}")
        return self.fetch("/readyz") is not None

    def pid(self):
        """nsenter stays between us and what it runs in another PID namespace."""
        return until("the agent's process", lambda: children(self.process.pid), 30, 0.02)[0]

    def signal(self, number):
        os.kill(self.pid(), number)

    def stop(self):
        self.signal(signal.SIGTERM)
        code = self.process.wait(60)
        if code != 0:
            raise Failed(f"the agent ended with {code} on SIGTERM")

    def rescan(self):
        self.machine.write()
        self.signal(signal.SIGHUP)

    def fetch(self, path):
        try:
            return self.cluster.ask(self.node, "/usr/bin/python3", "-c", FETCH, f"http://127.0.0.1:{self.PORT}{path}")
        except Failed:
            return None

    def metric(self, name):
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.fetch("/metrics") or "", re.M)
        return float(found.group(1)) if found else None
