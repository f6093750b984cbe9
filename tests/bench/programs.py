#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The CPU that whole programs take: what a user starts.   programs.py BUILD/bin; measures as in loss.sh"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
MACHINE = os.path.join(TESTS, "machines", "c500-8.json")
RUNS = 15


def run(command):
    """CPU of one run, in ms."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"programs.py: {' '.join(command)} ended with {process.returncode}")
    return 1000 * (used.ru_utime + used.ru_stime)


def measure(name, command, runs=RUNS, goal="-"):
    print(f"{name}\t{min(run(command) for _ in range(runs)):.2f}\tms\t{goal}", flush=True)


def cluster(path, count):
    nodes = [{"name": f"n{i:05d}", "supernode": f"s{i // 32:04d}", "gpus": 8} for i in range(count)]
    pods = [{"name": f"ns/p{i:05d}", "node": f"n{i:05d}", "gpus": list(range(8 if i % 3 else 5)), "job": f"ns/j{i // 4}",
             "groupSize": 32} for i in range(count)]
    with open(path, "w", encoding="ascii") as file:
        json.dump({"nodes": nodes, "pods": pods}, file)


def node(count, weight):
    return {"gpus": [{"index": i, "bdf": f"0000:{i + 16:02x}:00.0"} for i in range(count)],
            "links": [{"a": a, "b": b, "kind": "MX", "bandwidthMBps": 1000 * weight(a, b)}
                      for a in range(count) for b in range(a + 1, count)]}


def wirings(path, rng):
    """60 nodes of 16 GPUs, none wired like another."""
    nodes = [{"name": f"n{i}", "supernode": f"s{i // 8}", "topology": node(16, lambda a, b: rng.randrange(1, 100))} for i in range(60)]
    with open(path, "w", encoding="ascii") as file:
        json.dump({"nodes": nodes}, file)


def cubes(path, rng):
    """2,500 nodes of 64 GPUs in a cube of six dimensions, each with other GPUs free."""
    first = {"name": "n0", "supernode": "s0", "topology": node(64, lambda a, b: 64 if (a ^ b).bit_count() == 1 else 8)}
    nodes = [{"name": f"n{i}", "supernode": f"s{i // 16}", "like": "n0", "free": sorted(rng.sample(range(64), rng.randrange(20, 60)))}
             for i in range(1, 2500)]
    with open(path, "w", encoding="ascii") as file:
        json.dump({"nodes": [first, *nodes]}, file)


def main():
    if len(sys.argv) != 2 or not os.path.exists(os.path.join(sys.argv[1], "gputopo")):
        sys.stderr.write("usage: programs.py DIRECTORY-OF-THE-PROGRAMS (a release build)\n")
        sys.exit(2)
    gputopo, agent = (os.path.join(os.path.abspath(sys.argv[1]), name) for name in ("gputopo", "gputopo-agent"))
    work = tempfile.mkdtemp(prefix="gputopo-bench-")
    try:
        print("# Programs from start to end, CPU")
        subprocess.run([os.path.join(TESTS, "machines", "make-machine"), os.path.join(TESTS, "machines", "specs", "c500-8.json"),
                        work], check=True)
        root = os.path.join(work, "root")
        measure("gputopo --version", [gputopo, "--version"])
        measure("gputopo show, a recorded sysfs root", [gputopo, "show", "--root", root, "--probe", "none", "--agent", "none"])
        measure("gputopo show -o json, a recording", [gputopo, "show", "--from", MACHINE, "-o", "json"])
        measure("gputopo show -o svg, a recording", [gputopo, "show", "--from", MACHINE, "-o", "svg"])
        measure("gputopo loss, a recording", [gputopo, "loss", "--from", MACHINE, "-k", "4"])
        measure("gputopo-agent --oneshot, a recorded sysfs root", [agent, "--oneshot", "--root", root, "--probe", "none"])
        path = os.path.join(work, "cluster.json")
        cluster(path, 10000)
        measure("gputopo plan, a file of 10,000 nodes", [gputopo, "plan", "--cluster", path, "--pods", "8", "--gpus", "8"], 5)
        for name, write in (("60 wirings of 16 GPUs", wirings), ("2,500 cubes of 64 GPUs", cubes)):
            write(path, random.Random(1))
            measure(f"gputopo plan, {name}", [gputopo, "plan", "--cluster", path, "--pods", "4", "--gpus", "8"], 5, "<200")
        jobs = ["--cluster", "20x16x8", "--trace", "seren", "--load", "1.1", "--queue", "none", "--jobs", "4000", "-o", "csv", "--policy"]
        measure("gputopo simulate, 4,000 jobs", [gputopo, "simulate", *jobs, "gputopo"], 5)
        with_peers = os.path.join(os.path.dirname(gputopo), "bench_simulate")
        for policy in ("kueue", "best-fit"):
            command = [with_peers] if os.path.exists(with_peers) else [gputopo, "simulate"]  # of an older commit
            measure(f"simulate, 4,000 jobs, {policy}", [*command, *jobs, policy], 5)
    finally:
        shutil.rmtree(work, ignore_errors=True)


main()
