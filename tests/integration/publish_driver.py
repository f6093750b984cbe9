# SPDX-License-Identifier: Apache-2.0
"""Runs gputopo-agent for the tests of publishing."""

import os

from daemon_driver import Daemon

MACHINES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../machines")


class Agent(Daemon):
    def __init__(self, program, directory, *arguments, node="n1", env=None):
        super().__init__(program, "--node-name", node, "--kubelet-dir", directory, *arguments, env=env)

    def is_current(self):
        try:
            return self.metrics().get("gputopo_publish_current") == 1
        except OSError:
            return False
