#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""From the agent's start to GPUs offered: the kubelet has eight healthy ones.

boot.py BUILD/bin; the fake vendor library is taken from BUILD/tests; measures as in loss.sh
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(TESTS, "integration"))
import kubelet_double  # noqa: E402

PATIENCE = 60
RUNS = 5


def measure(name, value, unit, goal="-"):
    print(f"{name}\t{value:.3f}\t{unit}\t{goal}", flush=True)


class Node:
    """A made machine with the fake vendor library, and a kubelet that has been running for a while."""

    def __init__(self, binaries, library):
        self.binaries = binaries
        self.work = tempfile.mkdtemp(prefix="gputopo-bench-")
        subprocess.run([os.path.join(TESTS, "machines", "make-machine"),
                        os.path.join(TESTS, "machines", "specs", "c500-8.json"), self.work], check=True)
        self.root = os.path.join(self.work, "root")
        os.makedirs(os.path.join(self.root, "opt/mxdriver/lib"))
        shutil.copy(library, os.path.join(self.root, "opt/mxdriver/lib/libmxsml.so"))
        with open(os.path.join(self.work, "scenario.json"), encoding="utf-8") as file:
            self.vendor = json.load(file)
        self.scenario = os.path.join(self.work, "faults.json")
        self.kubelet_dir = os.path.join(self.work, "kubelet")
        self.dev = os.path.join(self.work, "dev")
        os.makedirs(os.path.join(self.dev, "dri"))
        for name in ["mxcd", *(f"dri/card{i}" for i in range(16)), *(f"dri/renderD{128 + i}" for i in range(16))]:
            with open(os.path.join(self.dev, name), "w", encoding="ascii"):
                pass

    def remove(self):
        shutil.rmtree(self.work, ignore_errors=True)

    def boot(self, probe=None, faults=(), book_hangs=0.0):
        """Seconds until the GPUs are offered."""
        with open(self.scenario, "w", encoding="utf-8") as file:
            json.dump({**self.vendor, "faults": list(faults)}, file)
        kubelet = kubelet_double.KubeletDouble(self.kubelet_dir)
        kubelet.book.hang = book_hangs
        kubelet.start()
        begin = time.monotonic()
        agent = subprocess.Popen(
            [os.path.join(self.binaries, "gputopo-agent"), "--kubelet-dir", self.kubelet_dir, "--root", self.root,
             "--dev-root", self.dev, "--http", "none", "--node-name", "bench", *(["--probe", probe] if probe else [])],
            stderr=subprocess.DEVNULL, env={**os.environ, "GPUTOPO_FAKE_MXSML": self.scenario})
        try:
            if not kubelet.wait_healthy(8, PATIENCE):
                raise SystemExit("boot.py: no eight GPUs were offered")
            return time.monotonic() - begin
        finally:
            agent.send_signal(signal.SIGTERM)
            try:
                agent.wait(10)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
            kubelet.stop(leave_socket=False)
            shutil.rmtree(self.kubelet_dir)


def worst(node, **how):
    """Of RUNS boots."""
    return max(node.boot(**how) for _ in range(RUNS))


def main():
    library = os.path.join(sys.argv[1], "../tests/fake-mxsml/libmxsml.so") if len(sys.argv) == 2 else ""
    if not os.path.exists(library):
        sys.stderr.write("usage: boot.py BUILD/bin (with the tests built)\n")
        sys.exit(2)
    node = Node(os.path.abspath(sys.argv[1]), library)
    silent = socket.socket(socket.AF_UNIX)
    try:
        path = os.path.join(node.work, "silent.sock")
        silent.bind(path)
        silent.listen(8)  # connects, and nobody ever answers
        print("# From the agent's start to 8 GPUs offered to the kubelet")
        measure("worst, all answer", worst(node), "s", "<1")
        measure("worst, no probe is installed", worst(node, probe="none"), "s", "<1")
        measure("worst, the probe's socket is not there", worst(node, probe=os.path.join(node.work, "no.sock")), "s",
                "<3")
        measure("worst, the probe does not answer", worst(node, probe=path), "s", "<3")
        measure("worst, a call of the library hangs",
                worst(node, faults=[{"call": "mxSmlGetDeviceInfo", "dev": 3, "do": "hang"}]), "s", "<3")
        measure("worst, the library hangs from its start",
                worst(node, faults=[{"call": "mxSmlInit", "do": "hang"}]), "s", "<3")
        measure("worst, the kubelet does not say who uses what", worst(node, book_hangs=30.0), "s", "<3")
    finally:
        silent.close()
        node.remove()


main()
