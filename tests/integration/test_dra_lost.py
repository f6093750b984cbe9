#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-agent, claims, and a kubelet that has lost its state of them, so that it never asks to unprepare them.

It takes minutes, in which it waits: the agent is in no hurry to take GPUs from somebody.

Usage: test_dra_lost.py GPUTOPO_AGENT [unittest arguments]
"""

import time

import side_by_side
from api_double import Status
from dra_case import CLAIMS, DraCase
from daemon_driver import wait_for

GONE_S = 150
FORGOTTEN_S = GONE_S + 3 * 30 + 20  # gone for so long, and asked for every 30 seconds


class LostTest(DraCase):
    def test_the_kubelet_has_lost_its_state(self):
        """What is in the API server stays, and what cannot be asked for; what nobody has is given back."""
        driver = self.start()
        for index, name in enumerate(("gone", "another", "stays", "unknown")):
            self.claim(name, index)
            driver.prepare(name)
        self.api.remove(CLAIMS, "gone")
        self.claim("another", 1, uid="uid-of-its-successor")
        self.api.fail(Status(503), times=100000, method="GET", path=f"{CLAIMS}/unknown")
        self.api.remove(CLAIMS, "unknown")
        held = {"stays": [self.names[2]], "unknown": [self.names[3]]}
        self.assertTrue(wait_for(lambda: self.state() == held, FORGOTTEN_S), self.state())
        self.assertEqual(len(self.specs()), 2)
        time.sleep(35)  # one more round
        self.assertEqual(self.state(), held)
        self.assertEqual(driver.prepare("stays", "unknown"), {name: (devices, "") for name, devices in held.items()})
        self.claim("heir", 0)
        self.assertEqual(driver.prepare("heir"), {"heir": ([self.names[0]], "")})
        lost = [line for line in self.agents[0].lines if "its GPUs are free again" in str(line)]
        self.assertEqual(len(lost), 2, lost)

    def away(self, stop, start):
        """A claim that nobody has is seen to be gone, then nobody answers for longer than that must last. It lasts that long afterwards.
        The claim of a container that runs, which the kubelet does not know any more either, stays held.

        This is the longest time that the agent counts for claims: each question without an answer begins it again, so that ten minutes
        away are as good as these. Its questions are single ones, each of 10 s at most; pauses between tries and the time of watches (300 s)
        are those of the ResourceSlices alone."""
        driver = self.start()
        for index, name in enumerate(("gone", "runs")):
            self.claim(name, index)
            driver.prepare(name)
        held = self.state()
        self.assertEqual(sorted(held), ["gone", "runs"])
        asked = lambda: [r for r in self.api.requests if r.path.startswith(f"{CLAIMS}/gone") and r.at > removed]
        removed = time.monotonic()
        self.api.remove(CLAIMS, "gone")
        self.assertTrue(wait_for(asked, 60))
        time.sleep(1)
        stop()
        time.sleep(GONE_S + 10)
        start()
        time.sleep(75)  # two rounds
        self.assertEqual(self.state(), held)
        runs = {"runs": [self.names[1]]}
        self.assertTrue(wait_for(lambda: self.state() == runs, FORGOTTEN_S), self.state())
        self.assertEqual(driver.prepare("runs"), {"runs": (runs["runs"], "")})

    def test_the_api_server_is_away(self):
        self.away(self.api.stop, self.api.start)

    def test_the_kubelet_is_away(self):
        self.away(self.kubelet.stop, self.kubelet.start)


if __name__ == "__main__":
    side_by_side.main()
