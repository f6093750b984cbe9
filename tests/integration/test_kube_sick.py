#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How often an informer asks a sick API server: less and less, whatever the server does, and at once less where it says so.

All cases wait the same minute, beside each other.

Usage: test_kube_sick.py KUBE_TOOL [unittest arguments]
"""

import time
import unittest

from api_double import ApiDouble, Raw, Silence, Status, Stream
from kube_case import MAPS, TOOL, WHERE, Case
from kube_driver import Tool, kubeconfig

ALWAYS = 1 << 30
FAILURES = {
    "500": lambda: Status(500),
    "401": lambda: Status(401),
    "403": lambda: Status(403),
    "429": lambda: Status(429),
    "429 with Retry-After": lambda: Status(429, headers={"Retry-After": "1"}),
    "cut": lambda: Raw(b"", reset=True),
    "short streams": lambda: Stream(6.0, whole=False),
    "silent": Silence,
    "refused": None,
}


class Sick(Case):
    def informer(self, name):
        api = ApiDouble(self.folder)
        self.addCleanup(api.stop)
        api.add(WHERE, "a")
        config = kubeconfig(f"{self.folder}/{name.replace(' ', '-')}", api.url, "certificate-authority: ca.crt", "token: token-1")
        return api, self.adopt(Tool(TOOL, "--kubeconfig", config))

    def test_a_minute_later(self):
        running = {}
        for name, action in FAILURES.items():
            for when in ("from the start", "later"):
                key = f"{name}, {when}"
                api, tool = running[key] = self.informer(key)
                if when == "later":
                    api.fail(Stream(1.0, whole=False), watch=True)
                    number = tool.start("inform", MAPS, namespace="default")
                    tool.event(number, "SYNCED")
                if action:
                    api.fail(action(), times=ALWAYS)
                else:
                    api.stop()
                if when == "from the start":
                    number = tool.start("inform", MAPS, namespace="default")
                running[key] = api, tool, number
        began = time.monotonic()
        time.sleep(80)
        for key, (api, tool, number) in running.items():
            with self.subTest(key):
                if not key.startswith("refused"):
                    late = [request for request in api.requests if began + 60 <= request.at < began + 80]
                    self.assertLessEqual(len(late), 2)
                    self.assertGreaterEqual(len(api.requests), 2)
                else:
                    tries = [a for a in tool.said(number) if a["event"] == "TROUBLE"]
                    self.assertLessEqual(len(tries), 12)
        for key, (api, _, _) in running.items():
            if key.startswith("refused"):
                api.start()
            with api.lock:
                api.faults.clear()
            api.add(WHERE, "new")
        for key, (_, tool, number) in running.items():
            with self.subTest(f"{key}: well again"):
                tool.wait(number, lambda a: a["event"] == "ADD" and a["object"]["metadata"]["name"] == "new", timeout=120)


unittest.main(verbosity=2)
