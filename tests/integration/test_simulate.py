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
import xml.dom.minidom

BIN = ""
HERE = os.path.dirname(os.path.abspath(__file__))
TRACES = os.path.join(HERE, "..", "..", "..", "shared", "data", "traces")
TIMEOUT_S = 120
GROUP = ["gputopo", "gputopo-static", "kueue", "kueue-slices", "kueue-preferred", "slurm-block", "huawei", "volcano",
         "first-fit", "best-fit", "worst-fit", "random", "kueue+most", "kueue+first", "kueue-preferred+first",
         "huawei+most", "huawei+first", "volcano+most", "volcano+first", "least-allocated", "most-allocated",
         "gpu-aware"]
POD = ["gputopo", "extender", "extender-managed", "fgd", "fgd-cpu", "best-fit", "dot-product", "packing", "clustering",
       "random"]
SMALL = ["--cluster", "8x4x8", "--trace", "mix:1,8,16,32", "--jobs", "800"]
NODES = "sn,cpu_milli,memory_mib,gpu,model\na,64000,1000,8,\nb,64000,1000,4,\nc,64000,1000,0,\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n1,100,1,1,500\n2,100,1,2,1000\n3,100,1,0,0\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\nt,60.0,1,60.0,c\nt,500.5,12,60,c\nt,9,32,60,c\n"
TOPO = "ip,DSW,PSW,ASW\na,G,P,S1\nb,G,P,S1\nc,G,P,S2\n"


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
        self.assertEqual([r["policy"] for r in reports], GROUP)
        for r in reports:
            for key in ("jobs", "placed", "rejected", "acceptance", "occupancy", "served", "waitMean", "waitGpuMean",
                        "slowdownNode", "slowdownSupernode", "slowdownLarger", "decisionsPerSecond", "splitShare",
                        "spreadMean", "spreadP99", "spreadBound", "fragmentation", "linkFragmentation", "linkShare",
                        "waitP50", "waitP99", "worked", "moved"):
                self.assertIsInstance(r[key], (int, float), key)
                self.assertIn(key, r["ci95"])
            self.assertEqual(r["jobs"], 800)
            self.assertAlmostEqual(r["placed"] + r["rejected"], 800, places=3)
            self.assertTrue(0 < r["occupancy"] <= 1 and 0 < r["acceptance"] <= 1)
            self.assertGreater(r["decisionsPerSecond"], 0)
            self.assertEqual(r["seeds"], [7, 8, 9])
            self.assertEqual(r["fragmentationSize"], 32)
            self.assertTrue(1 <= r["spreadBound"] <= r["spreadMean"] + 1e-9)
            self.assertTrue(r["series"])
            if r["policy"] not in ("least-allocated", "most-allocated", "gpu-aware"):
                self.assertEqual((r["splitShare"], r["spreadMean"]), (0, 1))

    def test_same_seed_same_answer(self):
        def answer(*more):
            rows = list(csv.DictReader(io.StringIO(self.good(*SMALL, "-o", "csv", *more))))
            for row in rows:
                del row["decisionsPerSecond"]
            return rows

        first = answer("--seeds", "2")
        self.assertEqual(first, answer("--seeds", "2"))
        self.assertEqual([r["policy"] for r in first[::2]], GROUP)
        self.assertEqual([r for r in first if r["seed"] == "43"], answer("--seed", "43"))
        self.assertNotEqual(answer("--seed", "43"), answer("--seed", "44"))

    def test_table_and_pictures(self):
        table = self.good(*SMALL, "--policy", "gputopo,kueue").splitlines()
        self.assertEqual(len(table), 4)
        self.assertIn("8x4x8 (8 supernodes, 32 nodes, 256 GPUs)", table[0])
        self.assertTrue(table[2].startswith("gputopo ") and table[3].startswith("kueue "))
        plots = os.path.join(self.dir.name, "plots")
        svg = self.good(*SMALL, "--policy", "gputopo,kueue", "-o", "svg", "--plot", plots)
        xml.dom.minidom.parseString(svg)
        self.assertEqual(sorted(os.listdir(plots)), ["acceptance.svg", "fragmentation.svg", "occupancy.svg", "spread.svg"])
        for name in os.listdir(plots):
            picture = xml.dom.minidom.parse(os.path.join(plots, name))
            self.assertEqual(len(picture.getElementsByTagName("polyline")), 2)

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
        """Units that move get more done than those that wait, spares help those; nothing is said of moves without failures."""
        jobs = ["--cluster", "8x8x8", "--trace", "mix:8,16,32,64", "--group", "32", "--jobs", "2000", "--load", "0.7", "--seeds", "4",
                "--policy", "gputopo", "-o", "json"]

        def run(*more):
            return json.loads(self.good(*jobs, *more))[0]

        fails = ["--mtbf", "500", "--repair", "12", "--node-loss-after", "60", "--restart-cost", "300"]
        whole, wait = run("--on-node-loss", "unit"), run(*fails, "--on-node-loss", "wait")
        unit, again = run(*fails, "--on-node-loss", "unit"), run(*fails, "--on-node-loss", "restart")
        self.assertEqual((whole["moved"], whole["interrupted"], wait["moved"]), (0, 0, 0))
        self.assertAlmostEqual(whole["worked"], whole["served"], places=6)
        self.assertGreater(unit["moved"], 0)
        self.assertLess(unit["waitGpuMean"], wait["waitGpuMean"])
        self.assertLess(wait["worked"], wait["served"])
        self.assertLessEqual(again["waitGpuMean"], unit["waitGpuMean"] * 1.2)
        self.assertNotEqual(run(*fails, "--on-node-loss", "wait", "--spare-nodes", "1")["worked"], wait["worked"])
        self.assertEqual({r["placed"] + r["rejected"] for r in (whole, wait, unit, again)}, {2000})

    def test_jobs_that_start_small_and_quotas(self):
        jobs = ["--cluster", "8x8x8", "--trace", "mix:8,64,256", "--group", "64", "--jobs", "1500", "--load", "1.1", "--policy", "gputopo",
                "-o", "json"]

        def run(*more):
            return json.loads(self.good(*jobs, *more))[0]

        self.assertLess(run("--minimum", "0.25")["waitGpuMean"], run("--minimum", "1")["waitGpuMean"])
        limited = run("--quota", "0.25")  # one namespace: a quarter is all that is used
        self.assertLessEqual(limited["served"], 0.25)
        self.assertGreater(limited["rejected"], 0)  # 256 of 512 GPUs are more than its quota

    def test_loss_weight(self):
        def run(weight):
            return json.loads(self.good("--cluster", "20x1x8x8+20x1x8x4+20x1x8x1", "--trace", "mix:1,2,4,8", "--load", "0.8",
                                        "--policy", "gpu-aware", "--loss-weight", weight, "-o", "json"))[0]

        self.assertLess(run("16")["linkFragmentation"], run("0.5")["linkFragmentation"])
        self.assertLess(run("0.5")["linkFragmentation"], run("0")["linkFragmentation"])
        self.assertLess(run("16")["linkShare"], run("0.5")["linkShare"])

    def test_files(self):
        nodes, pods = self.file("n.csv", NODES), self.file("p.csv", PODS)
        reports = json.loads(self.good("--cluster", nodes, "--trace", pods, "-o", "json"))
        self.assertEqual([r["policy"] for r in reports], POD)
        whole = json.loads(self.good("--cluster", nodes, "--trace", pods, "-o", "json", "--whole-gpus", "--gpu-only",
                                     "--ties", "random", "--loss-weight", "2", "--policy", "gputopo"))
        self.assertEqual(whole[0]["occupancy"], 1)
        self.good("--cluster", self.file("t.csv", TOPO), "--trace", self.file("j.csv", PHILLY), "--jobs", "50")
        self.good("--cluster", nodes, "--trace", "helios", "--jobs", "50")
        timed = self.file("timed.csv", PHILLY.replace("\nt,", "\n2017-10-09 07:01:55,"))
        replayed = self.good("--cluster", "2x2", "--trace", timed, "--replay", "-o", "json", "--policy", "gputopo")
        self.assertEqual(json.loads(replayed)[0]["jobs"], 3)
        self.good("--cluster", "2x2", "--trace", pods)

    def test_bad_files(self):
        nodes, pods = self.file("n.csv", NODES), self.file("p.csv", PODS)
        broken = self.file("b.csv", PODS + "this is not a job\n")
        self.bad(1, f"{broken}:5: expected 5 fields, is 1", "--cluster", nodes, "--trace", broken)
        broken = self.file("c.csv", NODES + "a,1,1,1,\n")
        self.bad(1, f"{broken}:5: node a is there twice", "--cluster", broken, "--trace", pods)
        broken = self.file("f.csv", TOPO + "a,G,P,S2\n")  # the same host in another rack
        self.bad(1, f"{broken}:5: node a is there twice", "--cluster", broken, "--trace", "seren")
        broken = self.file("d.csv", "hello\nworld\n")
        self.bad(1, f"{broken}:1: not a trace", "--cluster", nodes, "--trace", broken)
        self.bad(1, f"{broken}:1: not a cluster", "--cluster", broken, "--trace", pods)
        self.bad(1, "No such file", "--cluster", nodes, "--trace", os.path.join(self.dir.name, "nothing.csv"))
        self.bad(1, "No such file", "--cluster", os.path.join(self.dir.name, "nothing.csv"), "--trace", "seren")
        self.bad(1, "", "--cluster", nodes, "--trace", self.dir.name)
        empty = self.file("e.csv", "sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\n")
        self.bad(1, "no GPUs", "--cluster", empty, "--trace", "seren")
        self.bad(1, "no GPUs", "--cluster", empty, "--trace", pods)
        asking = self.file("s.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n1,1,1,1,1000,T4\n")
        self.bad(1, "no times such as 2017-10-09", "--cluster", "2x2", "--trace", self.file("t2.csv", PHILLY), "--replay")
        self.bad(1, "only the jobs of a file", *SMALL, "--replay")
        self.bad(2, "--replay", "--cluster", "2x2", "--trace", pods, "--replay")
        self.bad(1, "gpu_spec", "--cluster", "2x2", "--trace", asking)
        self.bad(1, "", *SMALL, "--plot", os.path.join(nodes, "under-a-file"))

    def test_bad_usage(self):
        self.bad(2, "--cluster: expected", "--trace", "seren")
        self.bad(2, "--trace: expected", "--cluster", "2x2")
        self.bad(2, "is '2y2'", "--cluster", "2y2", "--trace", "seren")
        self.bad(2, "is '2x2+'", "--cluster", "2x2+", "--trace", "seren")
        self.bad(2, "is 'alibaba'", "--cluster", "2x2", "--trace", "alibaba")
        self.bad(2, "is '0,1'", "--cluster", "2x2", "--trace", "mix:0,1")
        self.bad(2, "is 'best'", *SMALL, "--policy", "gputopo,best")
        self.bad(2, "is ''", *SMALL, "--policy", "")
        self.bad(2, "is 'fgd'", *SMALL, "--policy", "fgd")  # of single pods, not of groups
        self.bad(2, "at most 32", *SMALL, "--policy", ",".join(["kueue"] * 33))
        for option in ("--seed", "--seeds", "--load", "--jobs", "--group", "--atomic", "--mtbf", "--repair", "--warm-up",
                       "--loss-weight", "--queue", "--patience", "--reserve-waiting", "--ties", "-o"):
            for value in ("-1", "x", "", "1e999", "nan"):
                self.bad(2, f"is '{value}'", *SMALL, option, value)
        for option in ("--node-loss-after", "--restart-cost", "--spare-nodes", "--minimum", "--quota", "--on-node-loss",
                       "--reserve-waiting-percent"):
            for value in ("-1", "x", ""):
                self.bad(2, f"is '{value}'", *SMALL, option, value)
        self.bad(2, "--policy: kueue places whole jobs only", *SMALL, "--policy", "gputopo,kueue", "--spare-nodes", "1")
        self.bad(2, "only where jobs wait and leave", *SMALL, "--policy", "gputopo", "--minimum", "0.5", "--queue", "none")
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
        self.assertTrue(shown.endswith(b"\r\x1b[K"))
        self.assertNotIn(b"\r", out)

    def test_real_traces(self):
        openb = os.path.join(TRACES, "openb")
        if not os.path.isdir(openb):
            self.skipTest("the traces are not here")
        reports = json.loads(self.good("--cluster", os.path.join(openb, "openb_node_list_gpu_node.csv"), "--trace",
                                       os.path.join(openb, "openb_pod_list_default.csv"), "-o", "json",
                                       "--policy", "fgd,best-fit"))
        self.assertAlmostEqual(reports[0]["occupancy"], 0.9540, delta=0.005)
        self.assertAlmostEqual(reports[1]["occupancy"], 0.9311, delta=0.005)
        self.good("--cluster", os.path.join(TRACES, "lingjun", "topo.csv"), "--trace",
                  os.path.join(TRACES, "philly", "philly.csv"), "--jobs", "2000", "--policy", "gputopo")


if __name__ == "__main__":
    BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
