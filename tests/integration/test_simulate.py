#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo simulate from outside: test_simulate.py BIN_DIR [unittest arguments]"""

import csv
import io
import json
import os
import pty
import subprocess
import sys
import tempfile
import unittest

BIN = ""
HERE = os.path.dirname(os.path.abspath(__file__))
TRACES = os.path.join(HERE, "..", "..", "..", "shared", "data", "traces")
TIMEOUT_S = 120
POLICIES = ["gputopo", "gputopo-static", "gpu-aware"]
SMALL = ["--cluster", "8x4x8", "--trace", "mix:1,8,16,32", "--jobs", "800"]
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\nt,60.0,1,60.0,c\nt,500.5,12,60,c\nt,9,32,60,c\n"
TOPO = "node,supernode\na,S1\nb,S1\nc,S2\n"


def call(*arguments):
    return subprocess.run([os.path.join(BIN, "gputopo"), "simulate", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False)


class Simulate(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def file(self, name, text):
        path = os.path.join(self.dir.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def good(self, *arguments):
        result = call(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        return result.stdout

    def bad(self, code, text, *arguments):
        result = call(*arguments)
        self.assertEqual(result.returncode, code, result)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, r"\Agputopo: simulate: [^\n]+\n\Z")
        self.assertIn(text, result.stderr)

    def test_json(self):
        reports = json.loads(self.good(*SMALL, "-o", "json", "--seeds", "3", "--seed", "7"))
        self.assertEqual([r["policy"] for r in reports], POLICIES)
        for r in reports:
            for key in ("jobs", "placed", "rejected", "acceptance", "occupancy", "served", "waitMean", "waitGpuMean",
                        "slowdownNode", "slowdownSupernode", "slowdownLarger", "decisionsPerSecond", "splitShare",
                        "spreadMean", "jobsInOne", "jobSupernodes", "jobSupernodesBound", "fragmentation", "linkFragmentation", "linkShare",
                        "waitP50", "waitP99", "worked", "moved"):
                self.assertIsInstance(r[key], (int, float), key)
                self.assertIn(key, r["ci95"])
            self.assertEqual(r["jobs"], 800)
            self.assertAlmostEqual(r["placed"] + r["rejected"], 800, places=3)
            self.assertTrue(0 < r["occupancy"] <= 1 and 0 < r["acceptance"] <= 1)
            self.assertGreater(r["decisionsPerSecond"], 0)
            self.assertEqual(r["seeds"], [7, 8, 9])
            self.assertEqual(r["fragmentationSize"], 32)
            self.assertTrue(1 <= r["spreadMean"] + 1e-9)
            self.assertTrue(1 <= r["jobSupernodesBound"] <= r["jobSupernodes"] + 1e-9 and 0 < r["jobsInOne"] <= 1)
            self.assertTrue(r["series"])
            if r["policy"] != "gpu-aware":
                self.assertEqual((r["splitShare"], r["spreadMean"]), (0, 1))

    def test_pool(self):
        """The same jobs, and a job fits where enough GPUs are free."""
        shape = ("--cluster", "4x2x8", "--trace", "mix:3,16", "--queue", "none", "--jobs", "600", "--policy", "gputopo", "-o", "json")
        (group,), (pool,) = json.loads(self.good(*shape)), json.loads(self.good(*shape, "--pool"))
        self.assertEqual((pool["fragmentation"], pool["fragmentationSize"]), (0, 1))
        self.assertEqual(group["fragmentationSize"], 16)
        self.assertGreater(pool["occupancy"], group["occupancy"])
        self.assertLess(pool["rejected"], group["rejected"])

    def test_leaves_and_spines(self):
        (report,) = json.loads(self.good("--cluster", "8x1x8", "--leaf", "2", "--spine", "2", "--trace", "mix:16,32,64", "--jobs", "500",
                                         "--policy", "gputopo", "-o", "json"))
        for share, count in (("jobsInOne", "jobSupernodes"), ("jobsInOneLeaf", "jobLeaves"), ("jobsInOneSpine", "jobSpines")):
            self.assertGreaterEqual(report[count], report[count + "Bound"], count)
            self.assertTrue(0 <= report[share] <= 1, share)
        self.assertEqual((report["jobsInOne"], report["jobSpinesBound"] > 1), (0, True))
        self.bad(2, "--spine: only with --leaf", "--cluster", "8x1x8", "--spine", "2", "--trace", "kalos")

    def test_a_table_of_the_network(self):
        """The same tree as a shape and as a table, in any order of lines."""
        jobs = ("--trace", "mix:16,32,64", "--jobs", "500", "--policy", "gputopo", "-o", "json")
        (shape,) = json.loads(self.good("--cluster", "8x2x8", "--leaf", "2", "--spine", "2", *jobs))
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "network.csv")

            def table(*lines):
                with open(path, "w", encoding="utf-8") as file:
                    file.write("\n".join(("node,supernode,leaf,spine,hall", *lines)) + "\n")
                return path
            lines = [f"n{i:02},r{i // 2},l{i // 4},s{i // 8},h" for i in range(16)]
            (report,) = json.loads(self.good("--cluster", table(*lines[::-1]), *jobs))
            for key in ("placed", "occupancy", "jobSupernodes", "jobLeaves", "jobSpines", "jobSpinesBound", "jobsInOneLeaf"):
                self.assertEqual(report[key], shape[key], key)
            self.assertEqual(report["jobsInOneHall"], 1)
            self.bad(1, "line 18: node n00 is in line 2 already", "--cluster", table(*lines, lines[0]), *jobs)
            self.bad(1, "line 18: l0 is in s9, but in s0 by 4 rows", "--cluster", table(*lines, "x,r9,l0,s9,h"), *jobs)
            self.bad(2, "--leaf: ", "--cluster", table(*lines), "--leaf", "2", *jobs)

    def test_same_seed_same_answer(self):
        def answer(*more):
            rows = list(csv.DictReader(io.StringIO(self.good(*SMALL, "-o", "csv", *more))))
            for row in rows:
                del row["decisionsPerSecond"]
            return rows

        first = answer("--seeds", "2")
        self.assertEqual(first, answer("--seeds", "2"))
        self.assertEqual([r["policy"] for r in first[::2]], POLICIES)
        self.assertEqual([r for r in first if r["seed"] == "43"], answer("--seed", "43"))
        self.assertNotEqual(answer("--seed", "43"), answer("--seed", "44"))

    def test_table(self):
        table = self.good(*SMALL, "--policy", "gputopo, gpu-aware").splitlines()
        self.assertEqual(len(table), 4)
        self.assertIn("8x4x8 (8 supernodes, 32 nodes, 256 GPUs)", table[0])
        self.assertTrue(table[2].startswith("gputopo ") and table[3].startswith("gpu-aware "))

    def test_options_change_the_run(self):
        def run(*more):
            return json.loads(self.good(*SMALL, "--policy", "gputopo", "-o", "json", *more))[0]

        plain = run("--queue", "none")
        self.assertGreater(plain["rejected"], 0)
        self.assertEqual(plain["waitP99"], 0)
        kept = run("--load", "1.3")
        self.assertGreater(kept["waitP99"], 0)
        self.assertEqual((kept["rejected"], kept["placed"]), (0, 800))
        self.assertEqual(run("--load", "1.3", "--queue", "backfill", "--patience", "60", "--reserve-waiting", "600")["waitP99"],
                         kept["waitP99"])
        self.assertNotEqual(run("--load", "1.3", "--patience", "1e9")["slowdownNode"], kept["slowdownNode"])
        self.assertGreater(run("--queue", "fifo")["waitP99"], 0)
        self.assertGreater(run("--mtbf", "50", "--repair", "2")["interrupted"], 0)
        self.assertLess(run("--queue", "none", "--load", "0.2")["rejected"], plain["rejected"])
        self.assertEqual(run("--group", "8")["fragmentationSize"], 8)
        self.assertGreater(run("--atomic", "8")["spreadMean"], 1)
        self.assertGreater(run("--no-departures")["occupancy"], 0.8)

    def test_nodes_that_fail(self):
        """Their jobs begin again, and end none the less."""
        jobs = ["--cluster", "8x8x8", "--trace", "mix:8,16,32,64", "--group", "32", "--jobs", "2000", "--load", "0.7", "--seeds", "4",
                "--policy", "gputopo", "-o", "json"]
        (whole,), (fails,) = (json.loads(self.good(*jobs, *more)) for more in ((), ("--mtbf", "500", "--repair", "12")))
        self.assertEqual((whole["moved"], whole["interrupted"]), (0, 0))
        self.assertAlmostEqual(whole["worked"], whole["served"], places=6)
        self.assertGreater(fails["interrupted"], 0)
        self.assertEqual({r["placed"] + r["rejected"] for r in (whole, fails)}, {2000})

    def test_quotas(self):
        (limited,) = json.loads(self.good("--cluster", "8x8x8", "--trace", "mix:8,64,256", "--group", "64", "--jobs", "1500", "--load", "1.1",
                                          "--policy", "gputopo", "--quota", "0.25", "-o", "json"))
        self.assertLessEqual(limited["served"], 0.25)  # one namespace: a quarter is all that is used
        self.assertGreater(limited["rejected"], 0)  # 256 of 512 GPUs are more than its quota

    def test_moves(self):
        jobs = ["--cluster", "8x4x8", "--trace", "mix:1,2,4,8,32", "--jobs", "2000", "--load", "0.8", "--policy", "gputopo", "-o", "json"]

        def run(*more):
            return json.loads(self.good(*jobs, *more))[0]

        none, some = run(), run("--moves-a-day", "50", "--restart-cost", "60")
        self.assertEqual((none["moved"], none["jobsMoved"], none["movedMost"]), (0, 0, 0))
        self.assertAlmostEqual(none["worked"], none["served"], places=6)
        self.assertGreaterEqual(some["moved"], some["jobsMoved"])
        self.assertGreater(some["jobsMoved"], 0)
        self.assertLess(some["worked"], some["served"])
        self.assertLess(some["slowdownSupernode"], none["slowdownSupernode"])

    def test_loss_weight(self):
        def run(weight):
            return json.loads(self.good("--cluster", "20x1x8x8+20x1x8x4+20x1x8x1", "--trace", "mix:1,2,4,8", "--load", "0.8",
                                        "--policy", "gpu-aware", "--loss-weight", weight, "-o", "json"))[0]

        self.assertLess(run("16")["linkFragmentation"], run("0.5")["linkFragmentation"])
        self.assertLess(run("0.5")["linkFragmentation"], run("0")["linkFragmentation"])
        self.assertLess(run("16")["linkShare"], run("0.5")["linkShare"])

    def test_files(self):
        self.good("--cluster", self.file("t.csv", TOPO), "--trace", self.file("j.csv", PHILLY), "--jobs", "50")
        timed = self.file("timed.csv", PHILLY.replace("\nt,", "\n2017-10-09 07:01:55,"))
        replayed = self.good("--cluster", "2x2", "--trace", timed, "--replay", "-o", "json", "--policy", "gputopo")
        self.assertEqual(json.loads(replayed)[0]["jobs"], 3)

    def test_bad_files(self):
        topo, jobs = self.file("t.csv", TOPO), self.file("j.csv", PHILLY)
        broken = self.file("b.csv", PHILLY + "this is not a job\n")
        self.bad(1, f"{broken}:5: expected 5 fields, is 1", "--cluster", topo, "--trace", broken)
        broken = self.file("f.csv", TOPO + "a,S2\n")  # the same host in another rack
        self.bad(1, f"{broken}: not all of it can be used: line 5: node a is in line 2 already", "--cluster", broken, "--trace", "seren")
        broken = self.file("d.csv", "hello\nworld\n")
        self.bad(1, f"{broken}:1: not a trace", "--cluster", topo, "--trace", broken)
        self.bad(1, f"{broken}: it begins with \"hello\", expected a table", "--cluster", broken, "--trace", jobs)
        self.bad(1, "No such file", "--cluster", topo, "--trace", os.path.join(self.dir.name, "nothing.csv"))
        self.bad(1, "No such file", "--cluster", os.path.join(self.dir.name, "nothing.csv"), "--trace", "seren")
        self.bad(1, "", "--cluster", topo, "--trace", self.dir.name)
        self.bad(1, "no times such as 2017-10-09", "--cluster", "2x2", "--trace", jobs, "--replay")
        self.bad(1, "only the jobs of a file", *SMALL, "--replay")
        self.bad(2, "--replay", "--cluster", "2x2", "--trace", jobs, "--replay", "--no-departures")

    def test_bad_usage(self):
        self.bad(2, "--cluster: expected", "--trace", "seren")
        self.bad(2, "--trace: expected", "--cluster", "2x2")
        self.bad(2, "is '2y2'", "--cluster", "2y2", "--trace", "seren")
        self.bad(2, "is '2x2+'", "--cluster", "2x2+", "--trace", "seren")
        self.bad(2, "is 'alibaba'", "--cluster", "2x2", "--trace", "alibaba")
        self.bad(2, "is '0,1'", "--cluster", "2x2", "--trace", "mix:0,1")
        self.bad(2, "is 'best'", *SMALL, "--policy", "gputopo,best")
        self.bad(2, "is ''", *SMALL, "--policy", "")
        self.bad(2, "is 'gputopo-'", *SMALL, "--policy", "gputopo,gputopo-")
        self.bad(2, "is 'kueue'", *SMALL, "--policy", "kueue")  # only the benchmarks have it
        self.bad(2, "at most 32", *SMALL, "--policy", ",".join(["gputopo"] * 33))
        for option in ("--seed", "--seeds", "--load", "--jobs", "--group", "--atomic", "--mtbf", "--repair",
                       "--loss-weight", "--queue", "--patience", "--reserve-waiting", "-o"):
            for value in ("-1", "x", "", "1e999", "nan"):
                self.bad(2, f"is '{value}'", *SMALL, option, value)
        for option in ("--restart-cost", "--quota", "--reserve-waiting-percent", "--moves-a-day"):
            for value in ("-1", "x", ""):
                self.bad(2, f"is '{value}'", *SMALL, option, value)
        self.bad(2, "--policy: gpu-aware moves no pods", *SMALL, "--policy", "gpu-aware", "--moves-a-day", "1")
        self.bad(2, "--moves-a-day: only where jobs wait", *SMALL, "--policy", "gputopo", "--moves-a-day", "1", "--queue", "none")
        self.bad(2, "unexpected argument", *SMALL, "more")
        self.bad(2, "unrecognized option", *SMALL, "--nonsense")

    def test_progress_on_a_terminal(self):
        leader, follower = pty.openpty()
        with subprocess.Popen([os.path.join(BIN, "gputopo"), "simulate", *SMALL], stdout=subprocess.PIPE,
                              stderr=follower) as process:
            os.close(follower)
            shown = b""
            try:
                while chunk := os.read(leader, 4096):
                    shown += chunk
            except OSError:  # the other end is closed
                pass
            out = process.stdout.read()
        os.close(leader)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"%", shown)
        self.assertIn(b"[####", shown)
        self.assertRegex(shown, rb"\r +\r\Z")
        self.assertNotIn(b"\r", out)

    def test_real_traces(self):
        if not os.path.isdir(TRACES):
            self.skipTest("the traces are not here")
        with open(os.path.join(TRACES, "lingjun", "topo.csv"), encoding="utf-8") as file:
            rows = [line.strip().split(",") for line in file][1:]  # host, DSW, PSW, ASW: a rack is a supernode
        table = self.file("topo.csv", "node,supernode\n" + "".join(f"{row[0]},{row[2]}-{row[3]}\n" for row in rows))
        self.good("--cluster", table, "--trace",
                  os.path.join(TRACES, "philly", "philly.csv"), "--jobs", "2000", "--policy", "gputopo")


if __name__ == "__main__":
    BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
