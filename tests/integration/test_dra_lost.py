#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-agent, claims, and a kubelet that has lost its state of them, so that it never asks to unprepare them.

It takes minutes, in which it waits: the agent is in no hurry to take GPUs from somebody.

Usage: test_dra_lost.py GPUTOPO_AGENT [unittest arguments]
"""

import time
import unittest

from api_double import Status
from dra_case import CLAIMS, DraCase
from daemon_driver import wait_for

FORGOTTEN_S = 150 + 3 * 30 + 20  # gone for so long, and asked for every 30 seconds


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


if __name__ == "__main__":
    unittest.main(verbosity=2)
