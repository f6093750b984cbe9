#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo cluster, gputopo supernodes, gputopo show --node, and the users of a node's GPUs.

Usage: test_cluster.py BIN_DIR double|real [unittest arguments]

"double" runs against the double of the API server. "real" runs against kube-apiserver and etcd, which are looked for in
$GPUTOPO_KUBE_BIN and on PATH; without them it is skipped (77).
"""

import contextlib
import copy
import fcntl
import http.server
import json
import os
import pty
import random
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
import xml.etree.ElementTree as ElementTree

import jsonschema
import test_cli
import yaml
from api_double import ApiDouble, Raw, Status
from cluster_maker import SUPERNODES, TOPOLOGIES, busy_cluster, machine, node_status, supernode_status
from crds import CRDS
from daemon_driver import free_port, wait_for
from kube_driver import kubeconfig, make_certificate
from publish_driver import Agent
from real_api import RealServer
from seed import given_seed

SVG = "{http://www.w3.org/2000/svg}"
SECONDS = 60


def schema(name):
    with open(os.path.join(test_cli.SOURCE, "docs", name), encoding="utf-8") as file:
        return json.load(file)


def is_sanitized():
    with open(os.path.join(test_cli.BIN, "gputopo"), "rb") as file:
        return b"__asan_init" in file.read()


def now(ago=0):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago))


class Case(test_cli.Case):
    @classmethod
    def setUpClass(cls):
        cls.certificates = tempfile.mkdtemp(prefix="gputopo-cluster-")
        cls.addClassCleanup(shutil.rmtree, cls.certificates, ignore_errors=True)

    def setUp(self):
        super().setUp()
        self.api = ApiDouble(self.certificates)
        self.addCleanup(self.api.stop)
        self.config = kubeconfig(self.path("config"), self.api.url,
                                 f"certificate-authority: {self.certificates}/ca.crt", "token: token-1")

    def put(self, topologies, supernodes=None, fresh=True):
        for name, status in topologies.items():
            if fresh and status.get("observedAt", "").startswith("2026-01"):
                status["observedAt"] = now()
            self.api.add(TOPOLOGIES, name, status=status)
        for name, status in (supernodes or {}).items():
            self.api.add(SUPERNODES, name, status=status)

    def ask(self, verb, *args, warnings=None):
        """Standard output; standard error is empty, or has a line for each of the patterns `warnings`."""
        result = self.run_cli(verb, "--kubeconfig", self.config, *args)
        lines = result.stderr.decode().splitlines()
        self.assertEqual(result.returncode, 0, lines)
        self.assertEqual(len(lines), len(warnings or []), lines)
        for line, pattern in zip(lines, warnings or []):
            self.assertRegex(line, f"^gputopo: {verb}: " + pattern)
        return result.stdout.decode()

    def fails(self, verb, *args, says, config=None):
        return self.refused(1, verb, "--kubeconfig", config or self.config, *args, says=f"^gputopo: {verb}: .*{says}")


class ClusterFile(Case):
    def test_round_trip(self):
        topologies, supernodes = busy_cluster(5, 9, random.Random(given_seed()))
        bandwidths = {1: 50, 2: 12.5}
        for status in supernodes.values():
            status["bandwidthGBps"] = bandwidths[status["tier"]]
        self.put(topologies, supernodes)
        text = self.ask("cluster", "-o", "json")
        file = json.loads(text)
        self.assertEqual({t["tier"]: t["bandwidthGBps"] for t in file["tiers"]}, bandwidths)
        jsonschema.validate(file, schema("cluster.schema.json"))
        self.assertEqual({(s["name"], s["tier"], s.get("parent")) for s in file["supernodes"]},
                         {(n, s["tier"], s.get("parent")) for n, s in supernodes.items()})
        member_of = {m["node"]: name for name, s in supernodes.items() for m in s.get("members", [])}
        self.assertEqual({n["name"]: (n.get("supernode"), n["free"]) for n in file["nodes"]},
                         {name: (member_of[name], status["free"]) for name, status in topologies.items()})
        node_schema = schema("node.schema.json")
        for n in file["nodes"]:
            gpus = topologies[n["name"]]["gpus"]
            if "topology" in n:
                jsonschema.validate(n["topology"], node_schema)
                self.assertEqual([(g["uuid"], g["health"]) for g in n["topology"]["gpus"]], [(g["uuid"], g["health"]) for g in gpus])
            else:
                self.assertEqual(n.get("unhealthy", []), [i for i, g in enumerate(gpus) if g["health"] == "unhealthy"])
        owned = {(f"{o['namespace']}/{o['pod']}", name, o["gpu"]) for name, s in topologies.items() for o in s["owners"]}
        self.assertEqual({(p["name"], p["node"], gpu) for p in file["pods"] for gpu in p["gpus"]}, owned)

        path = self.write("cluster.json", text)
        free = sum(len(s["free"]) == 8 for s in topologies.values())
        plan = json.loads(self.done("plan", "--cluster", path, "--pods", "1", "--gpus", "8", "-o", "json"))
        self.assertEqual(plan["placed"], free > 0)
        plan = json.loads(self.done("plan", "--cluster", path, "--pods", "9", "--gpus", "8", "--group-size", "72",
                                    "--advise", "-o", "json"))
        self.assertFalse(plan["placed"])  # no rack of 9 nodes is empty
        unhealthy_racks = {member_of[n] for n, s in topologies.items() if s["healthyCount"] < 8}
        self.assertEqual(plan["advice"]["possible"], len(unhealthy_racks) < 5)
        for pod in plan["advice"]["move"]:
            self.assertIn((pod["name"], pod["node"], pod["gpus"][0]), owned)

    def test_large_clusters_stay_small(self):
        """More nodes than a cluster file could hold with everything about them: those wired alike refer to one."""
        bases = {"c500-8": machine(), "deadlink": machine("c500-8-deadlink"), "c500-4": machine("c500-4")}
        topologies, supernodes = {}, {}
        rng = random.Random(5)
        for i in range(2000):
            base = bases[rng.choice(list(bases))]
            unhealthy = [3] if i % 50 == 7 else []
            topologies[f"n{i}"] = node_status(f"n{i}", base, [("a", f"p-{i}", [0, 1])] if i % 3 else [], unhealthy)
            if i % 50 in (7, 9):
                topologies[f"n{i}"]["gpus"][2].update(grade="slow" if i % 100 < 50 else "suspect", gradeReason="70 %")
            if i % 50 == 11:
                topologies[f"n{i}"]["kubelet"] = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod", "source": "config"}
        supernodes["s"] = supernode_status(list(topologies)[:1500])
        self.put(topologies, supernodes)
        with subprocess.Popen([f"{test_cli.BIN}/gputopo", "cluster", "--kubeconfig", self.config, "-o", "json"],
                              stdout=subprocess.PIPE) as process:
            first = process.stdout.read(1)  # what it has to say does not fit into the pipe: it still lives
            with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                peak = int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1))
            file = json.loads(first + process.stdout.read())
        self.assertEqual(process.returncode, 0)
        print(f"2,000 nodes: {peak} kB at most")
        if not is_sanitized():
            self.assertLess(peak, 64 << 10)
        pages = [r for r in self.api.requests if r.path == TOPOLOGIES]
        self.assertEqual(["continue" in r.query for r in pages], [False, True, True, True])
        jsonschema.validate(file, schema("cluster.schema.json"))
        self.assertEqual(len(file["nodes"]), 2000)
        whole = {n["name"]: n for n in file["nodes"] if "topology" in n}
        self.assertEqual(len(whole), 6)
        for n in file["nodes"]:
            like = n if "topology" in n else whole[n["like"]]
            weights = [link["weight"] for link in like["topology"]["links"]]
            self.assertEqual(weights, [link["weight"] for link in topologies[n["name"]]["links"]])
            self.assertEqual(like["topology"].get("kubelet", {}).get("topologyManagerPolicy"),
                             topologies[n["name"]].get("kubelet", {}).get("topologyManagerPolicy"))
            if "like" in n:
                gpus = topologies[n["name"]]["gpus"]
                self.assertEqual(n.get("unhealthy", []), [i for i, g in enumerate(gpus) if not g["healthy"]])
                self.assertEqual(n.get("slow", []), [i for i, g in enumerate(gpus) if g.get("grade")])
        plan = json.loads(self.done("plan", "--cluster", self.write("c.json", file), "--pods", "3", "--gpus", "2", "-o",
                                    "json"))
        self.assertTrue(plan["placed"])

    def test_unknown_use_is_not_free(self):
        status = node_status("n1", machine())
        del status["free"], status["freeCount"], status["owners"]
        self.put({"n1": status, "n2": node_status("n2", machine())})
        file = json.loads(self.ask("cluster", "-o", "json", warnings=["n1: it is not known which GPUs are free"]))
        self.assertEqual([n["free"] for n in file["nodes"]], [[], list(range(8))])
        self.assertRegex(self.ask("cluster"), r"n1 +\?{8} +\? +use not known")

    def test_list_begins_again(self):
        """410 in the middle of a list: what came before is not counted twice."""
        self.put({f"n{i}": node_status(f"n{i}", machine(), [("a", f"p-{i}", [0])]) for i in range(600)},
                 {"s": supernode_status([])})
        self.api.fail(Status(410, "too old"), path="nodegputopologies", method="GET")
        pages = []
        original = self.api.take_fault

        def second_page_only(request):
            if request.path != TOPOLOGIES:
                return None
            pages.append(request)
            return original(request) if "continue" in request.query else None
        self.api.take_fault = second_page_only
        file = json.loads(self.ask("cluster", "-o", "json"))
        self.assertEqual(len(pages), 4)
        self.assertEqual((len(file["nodes"]), len(file["pods"])), (600, 600))


class Nonsense(Case):
    def test_objects_edited_by_hand(self):
        good = node_status("good", machine(), [("a", "p-0", [0])])

        def edited(**changes):
            return {**copy.deepcopy(good), **changes}
        wrong = copy.deepcopy(good)
        wrong["gpus"][0], wrong["gpus"][1] = wrong["gpus"][1], wrong["gpus"][0]  # which is allowed: `index` tells
        wrong["owners"][0]["pod"] = "p-5"
        self.put({
            "good": good,
            "b1": edited(gpus="eight"), "b2": edited(links=[{"a": 3, "b": 3}]), "b3": edited(free=["x"]),
            "b4": edited(owners=[{"gpu": 99, "namespace": "a", "pod": "p"}]), "b5": wrong, "b6": {}, "b7": edited(gpus=[]),
            "b8": edited(free=[0], owners=[{"gpu": 0, "namespace": "a", "pod": "p", "container": "c"}]),
        }, {
            "s0": supernode_status(["good", "b3"]), "s1": supernode_status(["good"], parent="nobody"),
            "s2": {"tier": "high"}, "s3": supernode_status([], parent="s0"), "s4": {**supernode_status([]), "members": {}},
            "s5": supernode_status(["only-there"]),
        })
        said = [
            r"supernodes/s2: tier: expected a number, is a string; this supernode is left out",
            r"supernodes/s4: members: expected an array, is an object; this supernode is left out",
            r"nodegputopologies/b1: gpus: expected an array, is a string; this node is left out",
            r"nodegputopologies/b2: links\[0\]: expected a < b.*; this node is left out",
            r"nodegputopologies/b3: free\[0\]: expected a number, is a string; its use counts as not known",
            r"nodegputopologies/b4: owners\[0\].gpu: there is no GPU 99, the node has 8; its use counts as not known",
            r"nodegputopologies/b7: .*this node is left out",  # links of GPUs that are not there
            r"supernodes/s1: parent: there is no supernode nobody; it counts as none",
            r"supernodes/s3: parent: s0 has tier 1, a parent of tier 1 must have a higher one",
            r"supernodes/s1: members: good is in s0 already, which counts",
        ]
        table = self.ask("cluster", warnings=said)
        self.assertRegex(table, r"b1 +- +- +cannot be read")
        self.assertRegex(table, r"b6 +- +- +nothing reported yet")
        self.assertRegex(table, r"only-there +- +- +no NodeGPUTopology")
        file = json.loads(self.ask("cluster", "-o", "json", warnings=[*said, "b3 and others: it is not known"]))
        self.assertEqual({n["name"]: n.get("supernode") for n in file["nodes"]},
                         {"good": "s0", "b3": "s0", "b4": None, "b5": None, "b8": None})
        self.assertEqual({p["name"]: p["gpus"] for p in file["pods"]}, {"a/p-0": [0], "a/p-5": [0], "a/p": [0]})
        self.done("plan", "--cluster", self.write("c.json", file), "--pods", "1", "--gpus", "4")
        ElementTree.fromstring(self.ask("cluster", "-o", "svg", warnings=said))

    def test_a_pod_in_two_places(self):
        self.put({"n1": node_status("n1", machine(), [("a", "db-0", [0, 1])], observed=now(600)),
                  "n2": node_status("n2", machine(), [("a", "db-0", [4])], observed=now())})
        file = json.loads(self.ask("cluster", "-o", "json", warnings=[
            "nodegputopologies/n1: owners: pod a/db-0 has GPUs on n2 too, which counts"]))
        self.assertEqual([(p["name"], p["node"], p["gpus"]) for p in file["pods"]], [("a/db-0", "n2", [4])])
        self.assertEqual(file["nodes"][0]["free"], [2, 3, 4, 5, 6, 7])

    def test_many_wrong_ones_are_counted(self):
        self.put({f"n{i:03}": {"gpus": 5} for i in range(100)})
        self.ask("cluster", warnings=[*["nodegputopologies/n"] * 20, "80 more objects like that"])

    def test_texts_of_others_stay_texts(self):
        status = node_status("n1", machine(), [("a", "<b>&\"'\x1b[31m\npod", [0])], unhealthy=[1])
        status["gpus"][1]["unhealthyReason"] = "</text><script>"
        status["conditions"][0].update(status="False", message="\x1b[2J\nnext", reason="x")
        self.put({"n1": status})
        result = self.run_cli("cluster", "--kubeconfig", self.config)
        self.assertNotIn(b"\x1b", result.stdout + result.stderr)
        svg = self.run_cli("cluster", "--kubeconfig", self.config, "-o", "svg").stdout
        self.assertNotIn(b"<script", svg)
        ElementTree.fromstring(svg)
        shown = self.run_cli("show", "--kubeconfig", self.config, "--node", "n1")
        self.assertNotIn(b"\x1b", shown.stdout + shown.stderr)


class Table(Case):
    def test_a_long_reason_is_cut_between_characters(self):
        status = node_status("n", machine(), unhealthy=[7])
        status["gpus"][7]["unhealthyReason"] = "isolated: " + "测" * 36
        self.put({"n": status}, {})
        self.assertIn("  GPU 7 unhealthy (isolated: " + "测" * 16 + "...)\n", self.ask("cluster"))

    def test_what_a_person_sees(self):
        base = machine()
        self.put({
            "rack-a-n2": node_status("rack-a-n2", base, [("team", "llm-worker-3", [0, 1, 2, 3]), ("team", "llm-worker-4", [4]),
                                                         ("web", "chat-7d9f8b6c5d-x2x4z", [5])], unhealthy=[7]),
            "rack-a-n10": node_status("rack-a-n10", base, observed=now(3 * 3600),
                                      Registered={"status": "False", "reason": "RegistrationFailed"}),
            "loose": node_status("loose", base, unhealthy=[1], free=[], owners=[("x", "y", [1])],
                                 Registered={"status": "False", "reason": "NoDevicePlugin"}),
        }, {"rack-a": supernode_status(["rack-a-n10", "rack-a-n2"], parent="hall", links=False,
                                       conflict="rack-a-n2 is seen by one side only"),
            "hall": supernode_status([], tier=2)})
        lines = self.ask("cluster").splitlines()
        self.assertEqual(lines[0], "3 nodes, 24 GPUs: 9 free, 6 used, 2 unhealthy, 7 not known; 1 supernode, 4 pods with GPUs")
        self.assertIn("hall  tier 2, 2 nodes, 16 GPUs: 9 free, 6 used, 1 unhealthy", lines)
        self.assertIn("rack-a  tier 1 in hall, 2 nodes, 16 GPUs: 9 free, 6 used, 1 unhealthy, links down", lines)
        self.assertIn("  conflict: rack-a-n2 is seen by one side only", lines)
        rows = [re.split("  +", line.strip()) for line in lines if re.match(r"  (rack|loose)", line)]
        self.assertEqual(rows, [
            ["rack-a-n2", "######.x", "1", "team/llm 5, web/chat 1", "GPU 7 unhealthy (uncorrectable ECC errors)"],
            ["rack-a-n10", "........", "8", "-", "not registered, last seen 3 h ago"],
            ["loose", "?X??????", "0", "x/y 1", "GPU 1 unhealthy (uncorrectable ECC errors)"]])
        self.assertEqual(lines[-1], "GPUs:  . free   # used   x unhealthy   X unhealthy and used   ? not known, or not offered")

    def test_a_part_of_a_large_cluster(self):
        topologies, supernodes = busy_cluster(25, 16, random.Random(5))
        self.put(topologies, supernodes)
        whole, sums = self.ask("cluster"), self.ask("cluster", "--nodes", "none")
        self.assertEqual(sums.splitlines()[0], whole.splitlines()[0])
        self.assertLess(len(sums), len(whole) / 8)
        self.assertEqual([line for line in sums.splitlines() if line], [line for line in whole.splitlines() if line and not line.startswith((" ", "GPUs:"))])
        wrong = self.ask("cluster", "--nodes", "wrong")
        rows = [line for line in whole.splitlines() if line.startswith("  rack") and "unhealthy" in line]
        self.assertGreater(len(rows), 3)
        self.assertEqual([line for line in wrong.splitlines() if line.startswith("  rack")], rows)
        free = [line for line in self.ask("cluster", "--nodes", "free").splitlines() if line.startswith("  rack")]
        self.assertEqual(free, [line for line in whole.splitlines() if line.startswith("  rack") and "." in line.split()[1]])
        one = self.ask("cluster", "--supernode", "rack-c")
        self.assertEqual(sum(line.startswith("  rack-c-") for line in one.splitlines()), 16)
        self.assertNotIn("rack-d-", one)
        hall = self.ask("cluster", "--supernode", "hall-1", "--nodes", "none")
        self.assertIn("rack-a  tier 1 in hall-1", hall)
        self.assertNotIn("hall-2", hall)

    def test_health_that_nobody_knows(self):
        base = machine()
        self.put({"known": node_status("known", base), "half": node_status("half", base, [("x", "y", [0, 5])], unsure=[4, 5]),
                  "dark": node_status("dark", machine("c500-8-nolib"), unsure=range(8),
                                      VendorLibrary={"status": "False", "reason": "NoAnswer"})}, {})
        text = self.ask("cluster")
        lines = text.splitlines()
        self.assertEqual(lines[0], "3 nodes, 24 GPUs: 22 free (9 of unknown health), 2 used; 0 supernodes, 1 pod with GPUs")
        rows = [re.split("  +", line.strip()) for line in lines if re.match(r"(known|half|dark)", line.strip())]
        self.assertEqual(sorted(rows), [
            ["dark", "~~~~~~~~", "8", "-", "GPU 0-7 of unknown health, no vendor library"],
            ["half", "#...~#..", "6", "x/y 2", "GPU 4,5 of unknown health"],
            ["known", "........", "8", "-"]])
        self.assertEqual(lines[-1], "GPUs:  . free   ~ free, health unknown   # used")
        svg = self.ask("cluster", "-o", "svg")
        self.assertIn("free, health unknown", svg)
        self.assertIn("9 of unknown health", svg)
        dark = re.search(r"<g><title>dark: .*?</g>", svg, re.S).group()
        self.assertEqual(dark.count("health unknown</title>"), 8)
        self.assertNotIn("#8fcfa6", dark)  # the edge of one that is free and well
        self.assertEqual(re.search(r"<g><title>known: .*?</g>", svg, re.S).group().count("#8fcfa6"), 8)

    def test_nothing(self):
        self.assertEqual(self.ask("cluster"), "0 nodes, 0 GPUs: 0 free, 0 used; 0 supernodes, 0 pods with GPUs\n")
        self.assertEqual(json.loads(self.ask("cluster", "-o", "json")), {"supernodes": [], "nodes": [], "pods": []})
        self.assertIn("no supernodes", self.ask("supernodes"))
        ElementTree.fromstring(self.ask("cluster", "-o", "svg"))

    def on_terminal(self, columns, **env):
        self.put(*busy_cluster(2, 5, random.Random(2), halls=1))
        near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen([f"{test_cli.BIN}/gputopo", "cluster", "--kubeconfig", self.config], stdout=far,
                              env={**os.environ, "TERM": "xterm", **env}) as process:
            os.close(far)
            said = b""
            try:
                while part := os.read(near, 65536):
                    said += part
            except OSError:
                pass
            os.close(near)
            self.assertEqual(process.wait(SECONDS), 0)
        return said.decode()

    def test_terminal(self):
        for columns in (60, 80, 200):
            said = self.on_terminal(columns)
            self.assertIn("\x1b[32m", said)
            rows = [row for row in re.sub(r"\x1b\[\d+m", "", said).splitlines() if row.startswith("  rack")]
            self.assertEqual(len(rows), 10)
            self.assertLessEqual(max(map(len, rows)), columns)
        self.assertNotIn("\x1b", self.on_terminal(80, NO_COLOR="1"))
        self.assertNotIn("\x1b", self.on_terminal(80, TERM="dumb"))

    def test_supernodes(self):
        self.put({}, {"rack-2": supernode_status(["a", "b"], parent="hall", links=False), "hall": supernode_status([], tier=2),
                      "rack-10": supernode_status(["c"], parent="hall", conflict="c is in two", source="config")})
        rows = [line.split(None, 7) for line in self.ask("supernodes").splitlines()]
        self.assertEqual(rows, [["NAME", "TIER", "NODES", "GPUS", "FREE", "LINKS", "SOURCE", "CONFLICT"],
                                ["hall", "2", "0", "0", "-", "up", "report", "-"],
                                ["rack-2", "1", "2", "16", "-", "down", "report", "-"],
                                ["rack-10", "1", "1", "8", "-", "up", "config", "c is in two"]])
        found = json.loads(self.ask("supernodes", "-o", "json"))["supernodes"]
        self.assertEqual([(s["name"], s["parent"], s["members"], s["conflict"]) for s in found],
                         [("hall", None, [], None), ("rack-2", "hall", ["a", "b"], None),
                          ("rack-10", "hall", ["c"], "c is in two")])
        self.assertFalse(self.api.asked(path=TOPOLOGIES))


class Formats(Case):
    def test_the_same_in_all_verbs(self):
        topologies, supernodes = busy_cluster(2, 3, random.Random(given_seed()))
        self.put(topologies, supernodes)
        node = min(topologies)
        self.api.add(TOPOLOGIES, node, status=topologies[node], spec={"isolated": [{"reason": "hot", "grade": "bad"}]})
        for args in (["cluster"], ["supernodes"], ["isolated"], ["show", "--node", node]):
            text, as_json, as_yaml = (self.ask(*args, "-o", format_) for format_ in ("text", "json", "yaml"))
            self.assertEqual(*(re.sub(r"\d+ s ago", "", one) for one in (text, self.ask(*args))))
            self.assertEqual(yaml.safe_load(as_yaml), json.loads(as_json), args)
        self.assertEqual(set(self.ask("cluster", "-o", "name").splitlines()), set(topologies))
        self.assertEqual(set(self.ask("supernodes", "-o", "name").splitlines()), set(supernodes))
        for verb in ("cluster", "supernodes"):
            self.assertEqual(self.ask(verb, "-o", "table"), self.ask(verb))

    def test_names_are_completed(self):
        topologies, supernodes = busy_cluster(2, 3, random.Random(given_seed()))
        self.put(topologies, supernodes)
        script = os.path.join(test_cli.SOURCE, "cli/completion/kubectl_complete-gputopo")
        env = {**os.environ, "PATH": f"{test_cli.BIN}:{os.environ['PATH']}"}
        start = os.path.commonprefix(list(topologies))
        for words, names in ((["show", "--kubeconfig", self.config, "--node", start], topologies), (["isolate", "--kubeconfig", self.config, ""], topologies),
                             (["drain", "--kubeconfig", self.config, ""], supernodes), (["cluster", "--kubeconfig", self.config, "--supernode", ""], supernodes),
                             (["isolate", "--kubeconfig", self.config, "no-such"], ()), (["isolate", "--gr"], ["--grade"])):
            said = subprocess.run([script, *words], capture_output=True, text=True, env=env, timeout=SECONDS, check=False)
            self.assertEqual((said.returncode, said.stderr), (0, ""))
            self.assertEqual(sorted(said.stdout.splitlines()), sorted([*names, ":4"]), words)

    def test_watch(self):
        self.put({"n1": node_status("n1", machine())}, {"rack-1": supernode_status(["n1"])})
        process = subprocess.Popen([f"{test_cli.BIN}/gputopo", "supernodes", "--watch", "-o", "table", "--kubeconfig", self.config],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        alarm = threading.Timer(SECONDS, process.kill)
        alarm.start()
        try:
            first = [process.stdout.readline() for _ in range(2)]
            self.assertRegex(first[1], "^rack-1 ")
            self.api.fail(Status(403, "not now"), path="supernodes")  # told, and asked again
            self.assertIn("not now", process.stderr.readline())
            self.put({}, {"rack-2": supernode_status(["n2"])})
            again = [process.stdout.readline() for _ in range(4)]
            self.assertEqual(again[0], "\n")
            self.assertRegex(again[3], "^rack-2 ")
        finally:
            alarm.cancel()
            process.terminate()
            rest = process.communicate(timeout=SECONDS)
        self.assertEqual((rest, process.returncode), (("", ""), -15))
        self.fails("supernodes", "--watch", config=self.path("none"), says="No such file")

    def test_watch_ends_with_its_reader(self):
        self.put({}, {"rack-1": supernode_status(["n1"])})
        for ours, theirs in (os.pipe(), os.openpty()):
            process = subprocess.Popen([f"{test_cli.BIN}/gputopo", "supernodes", "--watch", "--kubeconfig", self.config],
                                       stdout=theirs, stderr=subprocess.PIPE, start_new_session=True)
            self.addCleanup(process.stderr.close)
            self.addCleanup(process.kill)
            os.close(theirs)
            self.assertTrue(os.read(ours, 1))
            os.close(ours)
            self.assertEqual(process.wait(timeout=SECONDS), 1)

    def test_watch_hides_an_error_that_is_over(self):
        """On a terminal, where it stands below the text."""
        self.put({}, {"rack-1": supernode_status(["n1"])})
        ours, theirs = os.openpty()
        process = subprocess.Popen([f"{test_cli.BIN}/gputopo", "supernodes", "--watch", "--kubeconfig", self.config], stdout=theirs, stderr=theirs)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(theirs)
        self.addCleanup(os.close, ours)
        said = b""
        for mark in (b"rack-1", b"not now", b"rack-1"):
            if mark == b"not now":
                self.api.fail(Status(403, "not now"), path="supernodes")
            end = time.monotonic() + SECONDS
            while mark not in said:
                self.assertTrue(select.select([ours], [], [], max(0, end - time.monotonic()))[0], mark)
                said += os.read(ours, 4096)
            said = said.split(mark, 1)[1]


class Picture(Case):
    def check(self, topologies, supernodes):
        self.put(topologies, supernodes)
        text = self.ask("cluster", "-o", "svg")
        self.assertNotRegex(text, r"<script|href|javascript|<image|@import")
        root = ElementTree.fromstring(text)
        width, height = int(root.get("width")), int(root.get("height"))
        for box in root.iter(f"{SVG}rect"):
            if "x" in box.attrib:
                self.assertGreaterEqual(int(box.get("x")), 0)
                self.assertLessEqual(int(box.get("x")) + int(box.get("width")), width)
                self.assertLessEqual(int(box.get("y")) + int(box.get("height")), height)
        titles = [t.text for t in root.iter(f"{SVG}title")]
        cells = [t for t in titles if re.match(r"GPU \d+: ", t)]
        self.assertEqual(len(cells), sum(len(s["gpus"]) for s in topologies.values()))
        self.assertEqual(sum(t.endswith(": free") for t in cells), sum(len(s["free"]) for s in topologies.values()))
        for name, status in topologies.items():
            self.assertTrue(any(t.startswith(f"{name}: {len(status['gpus'])} GPUs, {len(status['free'])} free")
                                for t in titles), name)
        texts = [t.text for t in root.iter(f"{SVG}text")]
        for name in supernodes:
            self.assertIn(name, texts)
        return root

    def test_shapes(self):
        rng = random.Random(given_seed())
        for racks, nodes, halls in ((5, 9, 2), (1, 1, 0), (1, 100, 0), (45, 10, 3)):
            with self.subTest(racks=racks, nodes=nodes):
                topologies, supernodes = busy_cluster(racks, nodes, rng, halls)
                self.api.objects.clear()
                self.check(topologies, supernodes)

    def test_large_clusters_are_about_as_wide_as_high(self):
        """400 nodes in racks, in one, in halls, and without supernodes."""
        rng = random.Random(given_seed())
        for racks, nodes, halls, known in ((45, 9, 0, True), (1, 400, 0, True), (50, 8, 5, True), (45, 9, 0, False)):
            with self.subTest(racks=racks, nodes=nodes, halls=halls, known=known):
                topologies, supernodes = busy_cluster(racks, nodes, rng, halls)
                self.api.objects.clear()
                self.put(topologies, supernodes if known else {})
                root = ElementTree.fromstring(self.ask("cluster", "-o", "svg"))
                width, height = int(root.get("width")), int(root.get("height"))
                self.assertTrue(0.6 < width / height < 1.7, f"{width} x {height}")

    def test_one_color_for_one_job(self):
        self.put({f"n{i}": node_status(f"n{i}", machine(), [("a", f"train-worker-{i}", [0, 1]), ("b", f"web-{i}", [2])])
                  for i in range(3)})
        root = ElementTree.fromstring(self.ask("cluster", "-o", "svg"))
        colors = {}
        for box in root.iter(f"{SVG}rect"):
            title = box.find(f"{SVG}title")
            if title is not None:
                colors.setdefault(re.sub(r"GPU \d+: |-\d+$", "", title.text), set()).add(box.get("fill"))
        self.assertEqual({k: len(v) for k, v in colors.items()}, {"a/train-worker": 1, "b/web": 1, "free": 1})
        self.assertEqual(len(set.union(*colors.values())), 3)
        self.assertIn("a/train: 6 GPUs, 3 pods", [t.text for t in root.iter(f"{SVG}text")])


class Errors(Case):
    def test_no_cluster(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")}
        for verb in ("cluster", "supernodes"):
            result = subprocess.run([f"{test_cli.BIN}/gputopo", verb], capture_output=True, text=True, timeout=SECONDS,
                                    env={**env, "HOME": self.dir}, check=False)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertRegex(result.stderr, rf"^gputopo: {verb}: no cluster is known: .*\n$")
        self.fails("cluster", says="No such file", config=self.path("none"))
        self.fails("cluster", "--context", "other", says="other")

    def test_where_the_configuration_comes_from(self):
        self.put({"n1": node_status("n1", machine())})
        os.makedirs(self.path(".kube"))
        shutil.copy(self.config, self.path(".kube/config"))
        env = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")}
        for more in ({"HOME": self.dir}, {"KUBECONFIG": self.config, "HOME": "/"}):
            result = subprocess.run([f"{test_cli.BIN}/gputopo", "cluster", "--context", "x"], capture_output=True, text=True,
                                    timeout=SECONDS, env={**env, **more}, check=False)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("n1", result.stdout)

    def test_server(self):
        gone = kubeconfig(self.path("gone"), f"https://127.0.0.1:{free_port()}",
                          f"certificate-authority: {self.certificates}/ca.crt", "token: token-1")
        self.fails("supernodes", config=gone, says="https://127.0.0.1:.*refused|connect")
        bad = kubeconfig(self.path("bad"), self.api.url, f"certificate-authority: {self.certificates}/ca.crt", "token: no")
        self.fails("cluster", config=bad, says="supernodes: 401 ")
        self.api.fail(Status(403, 'nodegputopologies is forbidden: User "u" cannot list'), path="nodegpu", times=2)
        self.fails("cluster", says="nodegputopologies: 403 .*User \"u\" cannot list")
        self.fails("show", "--node", "n1", says="403 ")
        self.api.fail(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{]}"), path="supernodes")
        self.fails("supernodes", says="not JSON")

    def test_not_installed(self):
        self.api.fail(Status(404, "the server could not find the requested resource"), times=9)
        for args, name in ((["cluster"], "supernodes"), (["supernodes"], "supernodes"),
                           (["show", "--node", "n1"], "nodegputopologies")):
            self.fails(*args, says=f"no custom resource {name}.topology.metax-tech.com; install it with: kubectl apply "
                                   "--server-side --force-conflicts -k daemonset/crds")

    def test_usage(self):
        for says, args in (("-o: expected text, json, yaml, name or svg, is 'xml'", ["cluster", "-o", "xml"]),
                           ("-o: expected text, json, yaml or name, is 'svg'", ["supernodes", "-o", "svg"]),
                           ("--watch is for text", ["cluster", "-o", "json", "--watch"]),
                           ("--watch is for text", ["explain", "-o", "yaml", "--watch", "pod"]),
                           ("unexpected argument 'x'", ["cluster", "x"]),
                           ("--nodes and --supernode are for the table", ["cluster", "-o", "json", "--nodes", "none"]),
                           ("--from: not together with --node", ["show", "--node", "n", "--from", "f"]),
                           ("--agent: not together with --node", ["show", "--node", "n", "--agent", "none"]),
                           ("--kubeconfig: only together with --node", ["show", "--kubeconfig", "f"]),
                           ("--node: expected", ["show", "--node", ""])):
            self.refused(2, *args, says=says)


class ShowNode(Case):
    def test_like_the_recording(self):
        status = node_status("n1", machine(), [("a", "p-0", [0, 1, 5])], LinksHealthy={
            "status": "False", "reason": "LinkDown", "message": "1 of 12 direct links are down"})
        self.put({"n1": status})
        path = self.write("n1.json", status)
        for form in ("dot", "svg"):
            self.assertEqual(self.ask("show", "--node", "n1", "-o", form), self.done("show", "--from", path, "-o", form))
        self.assertEqual(yaml.safe_load(self.ask("show", "--node", "n1", "-o", "yaml")),
                         json.loads(self.ask("show", "--node", "n1", "-o", "json")))  # with who has which GPU
        matrix = self.ask("show", "--node", "n1")
        own, more = matrix[:len(self.done("show", "--from", path))], matrix[len(self.done("show", "--from", path)):]
        self.assertEqual(own, self.done("show", "--from", path))
        self.assertRegex(more, r"^\nFree GPUs: 2-4,6,7\n  GPUs 0,1,5: a/p-0, container main\nObserved:  \S+Z, \d+ s ago\n"
                               r"Condition: LinksHealthy: False: 1 of 12 direct links are down\n$")
        found = json.loads(self.ask("show", "--node", "n1", "-o", "json"))
        jsonschema.validate(found, schema("node.schema.json"))
        self.assertEqual((found["free"], found["owners"]), (status["free"], status["owners"]))
        self.assertEqual(found["gpus"], json.loads(self.done("show", "--from", path, "-o", "json"))["gpus"])

    def test_unknown_node(self):
        self.fails("show", "--node", "n1", says="no NodeGPUTopology of node 'n1'; there is none at all")
        self.put({f"gpu-{i}": node_status(f"gpu-{i}", machine()) for i in range(20)})
        self.fails("show", "--node", "gpu-33", says="of the 20 there are, near are gpu-")
        self.fails("show", "--node", "gpu-7.example.com", says="near is gpu-7$")
        self.fails("show", "--node", "database", says="there are 20, for example gpu-")
        self.fails("show", "--node", "a/b", says="'a/b' cannot be a name")
        self.api.requests.clear()
        self.fails("show", "--node", "x", says="there are 20")
        self.assertIn("PartialObjectMetadata", self.api.requests[-1].headers["Accept"])

    def test_nonsense(self):
        good = node_status("n1", machine())
        self.put({"n1": {"gpus": []}, "n2": {}, "n3": {**good, "free": [77]}, "n4": {**good, "links": 1}})
        self.fails("show", "--node", "n2", says="n2: the agent of this node has not reported anything yet")
        self.fails("show", "--node", "n4", says="nodegputopologies/n4: links: expected an array, is a number")
        self.assertIn("Free GPUs: not known", self.ask("show", "--node", "n3", warnings=[
            r"nodegputopologies/n3: free\[0\]: there is no GPU 77"]))


class Withdraw(Case):
    """gputopo withdraw: what agents and companion wrote is taken back, and nobody else's."""
    OURS = {"app.kubernetes.io/managed-by": "gputopo-scheduler"}
    HYPERNODES, NODEFEATURES = "/apis/topology.volcano.sh/v1alpha1/hypernodes", "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/x/nodefeatures"
    LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    PLACEMENTS = "/apis/topology.metax-tech.com/v1alpha1/namespaces/{}/gpuplacements"

    @staticmethod
    def by(*managers):
        return {"managedFields": [{"manager": manager, "operation": "Apply"} for manager in managers]}

    def changes(self):
        return {(r.method, r.path, r.query.get("fieldManager")) for r in self.api.requests if r.method != "GET"}

    def fill(self):
        for name, managers in (("n1", ("gputopo-agent",)), ("n2", ("kubelet", "gputopo-agent-labels")), ("n3", ("kubelet",))):
            self.api.add("/api/v1/nodes", name, metadata=self.by(*managers))
        self.put({"n1": node_status("n1", machine())})
        for path in (SUPERNODES, self.HYPERNODES, self.NODEFEATURES):
            self.api.add(path, "ours", metadata={"labels": self.OURS})
            self.api.add(path, "theirs", metadata={"labels": {"app.kubernetes.io/managed-by": "somebody"}})
        for namespace in ("x", "y"):
            self.api.add(self.PLACEMENTS.format(namespace), "job-j")
        self.api.add(self.LEASES, "gputopo-scheduler")
        gate, other = {"name": "metax-tech.com/gpu-placement"}, {"name": "example.com/quota"}
        for name, gates in (("waits", [gate]), ("waits-for-both", [gate, other]), ("waits-for-other", [other]), ("waits-for-none", None)):
            self.api.add("/api/v1/namespaces/x/pods", name, status={"phase": "Pending"}, spec={"schedulingGates": gates} if gates else {})
        self.api.add(self.LEASES, "other")
    LIST = """remove the gate of pods x/waits
remove the gate of pods x/waits-for-both
remove our labels, annotations, condition and taint of nodes n1
remove our labels, annotations, condition and taint of nodes n2
delete nodegputopologies n1
delete supernodes ours
delete gpuplacements x/job-j
delete gpuplacements y/job-j
delete hypernodes ours
delete nodefeatures x/ours
delete leases default/gputopo-scheduler
2 Pods, 2 Nodes, 1 NodeGPUTopologies, 1 Supernodes, 2 GPUPlacements, 1 HyperNodes, 1 NodeFeatures
"""

    def test_a_list_alone(self):
        self.fill()
        for more in ((), ("--yes",)):
            self.assertEqual(self.ask("withdraw", "--dry-run", *more), self.LIST)
        self.assertEqual(self.ask("withdraw", "--dry-run", "--gates"), "".join(self.LIST.splitlines(True)[:2]) + "2 Pods\n")
        changes = json.loads(self.ask("withdraw", "--dry-run", "-o", "json"))["changes"]
        self.assertEqual([f"{change['resource']} {change.get('namespace', '')}/{change['name']}".replace(" /", " ") for change in changes],
                         [re.sub("^.* (.* .*)$", r"\1", line) for line in self.LIST.splitlines()[:-1]])
        self.assertEqual({change["action"] for change in changes if change["resource"] in ("pods", "nodes")}, {"change"})
        self.assertEqual({change["action"] for change in changes if change["resource"] not in ("pods", "nodes")}, {"delete"})
        self.assertEqual(self.changes(), set())

    def test_without_a_terminal(self):
        self.fill()
        near, far = pty.openpty()  # only one of both
        for streams in ({"stdin": subprocess.DEVNULL}, {"stdin": far}, {"stdin": subprocess.DEVNULL, "stdout": far}):
            result = subprocess.run([f"{test_cli.BIN}/gputopo", "withdraw", "--kubeconfig", self.config], timeout=SECONDS, check=False,
                                    **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams})
            self.assertEqual((result.returncode, result.stdout or b""), (2, b""))
            self.assertEqual(result.stderr, b"gputopo: withdraw: there is no terminal to ask at: give --yes, or --dry-run for a list\n")
        os.close(near)
        os.close(far)
        self.assertEqual(self.api.requests, [])

    def at_terminal(self, answer, *args):
        """Its exit code, what it writes, and its errors."""
        near, far = pty.openpty()
        attributes = termios.tcgetattr(far)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(far, termios.TCSANOW, attributes)
        with subprocess.Popen([f"{test_cli.BIN}/gputopo", "withdraw", "--kubeconfig", self.config, *args], stdin=far, stdout=far,
                              stderr=subprocess.PIPE) as process:
            os.close(far)
            said = b""
            with contextlib.suppress(OSError):
                while part := os.read(near, 65536):
                    said += part
                    if said.endswith(b"[y/N] ") and answer is not None:
                        os.write(near, answer)
                        answer = None
            errors = process.stderr.read().decode()
            os.close(near)
            return process.wait(SECONDS), said.decode().replace("\r\n", "\n"), errors

    def test_a_person_is_asked(self):
        self.fill()
        for answer in (b"\n", b"n\n", b"yesterday\n", b"\x04"):
            code, said, errors = self.at_terminal(answer)
            self.assertEqual((code, said), (1, self.LIST + "Change this? [y/N] "))
            self.assertEqual(errors, "gputopo: withdraw: not confirmed: nothing was changed\n")
            self.assertEqual(self.changes(), set())
        code, said, errors = self.at_terminal(b"y\n")
        self.assertEqual((code, said, errors), (0, self.LIST + "Change this? [y/N] " + self.LIST.splitlines(True)[-1], ""))
        self.assertEqual(len(self.changes()), 16)
        self.api.objects.clear()
        self.assertEqual(self.at_terminal(None)[:2], (0, "0 Pods, 0 Nodes, 0 NodeGPUTopologies, 0 Supernodes, 0 GPUPlacements, 0 HyperNodes, 0 NodeFeatures\n"))

    def test_what_is_ours(self):
        self.fill()
        self.assertEqual(self.ask("withdraw", "--yes"),
                         "2 Pods, 2 Nodes, 1 NodeGPUTopologies, 1 Supernodes, 2 GPUPlacements, 1 HyperNodes, 1 NodeFeatures\n")
        self.assertEqual(self.changes(), {
            *(("PATCH", f"/api/v1/nodes/{name}", manager) for name in ("n1", "n2")
              for manager in ("gputopo-agent", "gputopo-agent-labels")),
            *(("PATCH", f"/api/v1/nodes/{name}/status", "gputopo-agent-condition") for name in ("n1", "n2")),
            *(("PATCH", f"/api/v1/namespaces/x/pods/{name}", None) for name in ("waits", "waits-for-both")),
            ("DELETE", f"{TOPOLOGIES}/n1", None), ("DELETE", f"{SUPERNODES}/ours", None),
            *(("DELETE", f"{self.PLACEMENTS.format(namespace)}/job-j", None) for namespace in ("x", "y")),
            ("DELETE", f"{self.HYPERNODES}/ours", None), ("DELETE", f"{self.NODEFEATURES}/ours", None),
            *(("DELETE", f"{self.LEASES}/{name}", None) for name in ("gputopo-scheduler", "gputopo-vc-scheduler"))})
        for request in self.api.requests:
            if request.method == "PATCH" and "/nodes/" in request.path:  # nothing but who is meant
                body = json.loads(request.body)
                self.assertEqual(set(body["metadata"]), {"name", "uid"})
                self.assertTrue(body["metadata"]["uid"].startswith("uid-"))
        pods, _, _ = self.api.place("/api/v1/namespaces/x/pods")
        self.assertEqual([self.api.objects[pods, name]["spec"].get("schedulingGates", []) for name in ("waits", "waits-for-both")],
                         [[], [{"name": "example.com/quota"}]])

    def test_gates_alone(self):
        self.put({"n1": node_status("n1", machine())})
        self.api.add(self.LEASES, "gputopo-scheduler")
        self.api.add("/api/v1/namespaces/x/pods", "waits", status={"phase": "Pending"},
                     spec={"schedulingGates": [{"name": "metax-tech.com/gpu-placement"}]})
        self.assertEqual(self.ask("withdraw", "--gates", "--yes"), "1 Pods\n")
        self.assertEqual(self.changes(), {("PATCH", "/api/v1/namespaces/x/pods/waits", None)})
        self.assertEqual(self.ask("withdraw", "--gates", "--yes"), "0 Pods\n")

    def test_nothing_there(self):
        self.api.fail(Status(404, "the server could not find the requested resource"), path="hypernodes", times=1)
        self.assertEqual(self.ask("withdraw", "--yes"), "0 Pods, 0 Nodes, 0 NodeGPUTopologies, 0 Supernodes, 0 GPUPlacements, 0 HyperNodes, 0 NodeFeatures\n")

    def test_what_is_refused_is_told(self):
        self.put({"n1": node_status("n1", machine())})
        self.api.fail(Status(403, "nodegputopologies is forbidden"), path="nodegputopologies/n1", times=1)
        self.fails("withdraw", "--yes", says="nodegputopologies n1: 403 .*forbidden")


class ApplyCrds(Case):
    def test_files_that_are_no_definitions(self):
        job = self.write("job.json", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}})
        nameless = self.write("nameless.json", {"kind": "CustomResourceDefinition"})
        for name, file in (("job", job), ("nameless", nameless)):
            self.fails("apply-crds", file, says=rf"{name}\.json: expected a CustomResourceDefinition with a name")
        self.fails("apply-crds", self.write("torn.json", "{"), says=r"torn\.json: line 1")
        self.fails("apply-crds", self.path("none.json"), says=r"none\.json: No such file")
        self.fails("apply-crds", self.write("large.json", " " * (1 << 20) + "{}"), says=r"large\.json: .*1048576")
        self.refused(2, "apply-crds", says="expected a file")
        self.assertEqual(self.api.requests, [])


class FakeAgent(http.server.BaseHTTPRequestHandler):
    answer = (404, b"")

    def do_GET(self):
        code, body = self.answer if self.path == "/usage" else (404, b"")
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


class LocalUse(test_cli.Case):
    def serve(self, body, code=200):
        handler = type("Handler", (FakeAgent,), {"answer": (code, body if isinstance(body, bytes) else json.dumps(body).encode())})
        server = http.server.HTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"127.0.0.1:{server.server_port}"

    def setUp(self):
        super().setUp()
        self.root = ["show", "--root", self.sysfs("root", "9999"), "--probe", "none"]

    def test_free_and_owners(self):
        agent = self.serve({"node": "n1", "known": True, "free": [0, 3], "twice": [], "strangers": [], "used": [
            {"gpu": 1, "uuid": "", "id": "PCI-x", "namespace": "a", "pod": "train-0", "container": "main"},
            {"gpu": 2, "uuid": "", "id": "PCI-y", "namespace": "a", "pod": "train-0", "container": "main"}]})
        plain = self.done(*self.root)
        self.assertEqual(self.done(*self.root, "--agent", agent),
                         plain + "\nFree GPUs: 0,3\n  GPUs 1,2: a/train-0, container main\n")
        self.assertEqual(self.done(*self.root, "--agent", "none"), plain)
        found = json.loads(self.done(*self.root, "--agent", agent, "-o", "json"))
        self.assertEqual((found.pop("free"), [o["gpu"] for o in found.pop("owners")]), ([0, 3], [1, 2]))
        self.assertEqual(found, json.loads(self.done(*self.root, "-o", "json")))

    def test_not_known_yet(self):
        agent = self.serve({"known": False, "free": []})
        self.assertEqual(self.done(*self.root, "--agent", agent), self.done(*self.root))

    def test_what_is_not_an_agent(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            for says, agent in (
                    ("the answer is 404", self.serve(b"", 404)),
                    ("line 1, column 1", self.serve(b"hello")),
                    ("free: is missing", self.serve({"known": True})),
                    (r"free\[0\]: there is no GPU 7, the node has 4", self.serve({"known": True, "free": [7], "used": []})),
                    (r"used\[0\].pod: is missing", self.serve({"known": True, "free": [], "used": [{"gpu": 1}]})),
                    ("larger than", self.serve(b" " * (2 << 20))),
                    ("refused", f"127.0.0.1:{free_port()}"),
                    ("timed out", f"127.0.0.1:{silent.getsockname()[1]}"),
                    ("expected ADDRESS:PORT", "nonsense")):
                self.refused(1, *self.root, "--agent", agent, says=f"^gputopo: show: --agent: .*{says}")
        path = self.write("node.json", test_cli.node())
        self.refused(2, "show", "--from", path, "--agent", "none", says="--agent: not together with --from")

    def test_the_real_agent(self):
        program = f"{test_cli.BIN}/gputopo-agent"
        if not os.access(program, os.X_OK):
            self.skipTest("gputopo-agent is not built")
        from kubelet_double import KubeletDouble  # pylint: disable=import-outside-toplevel
        kubelet = KubeletDouble(self.dir)
        kubelet.start()
        self.addCleanup(kubelet.stop, leave_socket=False)
        dev = self.path("dev/dri")
        os.makedirs(dev)
        for name in ["../mxcd", *(f"card{i}" for i in range(16)), *(f"renderD{128 + i}" for i in range(16))]:
            with open(f"{dev}/{name}", "w", encoding="ascii"):
                pass
        recording = f"{test_cli.SOURCE}/tests/machines/c500-4.json"
        agent = Agent(program, self.dir, "--from", recording, "--dev-root", self.path("dev"), "--no-publish")
        self.addCleanup(agent.stop)
        self.assertTrue(kubelet.wait_healthy(4), agent.lines)
        kubelet.admit("train-worker-0", 2)
        asked = [*self.root, "--agent", f"127.0.0.1:{agent.port}"]
        self.assertTrue(wait_for(lambda: b"train-worker-0" in self.run_cli(*asked).stdout), agent.lines)
        self.assertRegex(self.done(*asked), r"Free GPUs: \d,\d\n  GPUs \d,\d: \S+/train-worker-0, container")


class Real(test_cli.Case):
    """kube-apiserver with the custom resources of this repository."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gputopo-cluster-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.server = RealServer(cls.folder)
        cls.addClassCleanup(cls.server.close)
        cls.server.wait_ready()

    def put(self, kind, statuses):
        items = [{"apiVersion": "topology.metax-tech.com/v1alpha1", "kind": kind, "metadata": {"name": name},
                  "status": status} for name, status in statuses.items()]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        self.server.kubectl("create", "-f", "-", text=text)
        self.server.kubectl("apply", "--server-side", "--subresource=status", "-f", "-", text=text)

    def test_all(self):
        """In one, since what is not there yet comes first."""
        config = ["--kubeconfig", self.server.kubeconfig]
        self.refused(1, "cluster", *config, says="no custom resource supernodes.topology.metax-tech.com; install it")
        self.refused(1, "show", *config, "--node", "n1", says="no custom resource nodegputopologies.topology")
        self.server.install()
        self.assertIn("0 nodes", self.done("cluster", *config))

        topologies, supernodes = busy_cluster(3, 4, random.Random(4))
        self.put("NodeGPUTopology", topologies)
        self.put("Supernode", supernodes)
        file = json.loads(self.done("cluster", *config, "-o", "json"))
        self.assertEqual({n["name"]: n["free"] for n in file["nodes"]}, {n: s["free"] for n, s in topologies.items()})
        self.assertEqual(len(file["supernodes"]), len(supernodes))
        self.done("plan", "--cluster", self.write("c.json", file), "--pods", "2", "--gpus", "8", "--advise")
        self.assertEqual(len(re.findall(r"(?m)^  rack-", self.done("cluster", *config))), 12)
        self.assertIn("hall-1", self.done("supernodes", *config))
        self.assertIn("Free GPUs", self.done("show", *config, "--node", "rack-a-n01"))
        self.refused(1, "show", *config, "--node", "rack-a-n1", says="near are rack-a-n")

        make_certificate(self.folder, "guest", "/CN=guest")
        guest = kubeconfig(f"{self.folder}/guest.kubeconfig", self.server.url, "certificate-authority: ca.crt",
                           "client-certificate: guest.crt, client-key: guest.key")
        self.refused(1, "cluster", "--kubeconfig", guest, says='403 Forbidden: .*User "guest" cannot list')

        env = {**os.environ, "PATH": test_cli.BIN + os.pathsep + os.environ["PATH"], "KUBECONFIG": self.server.kubeconfig}
        for args in (["supernodes"], ["cluster"], ["show", "--node", "rack-a-n01"]):
            said = subprocess.run([self.server.kubectl_path, "gputopo", *args], capture_output=True, env=env,
                                  timeout=SECONDS, check=False)
            self.assertEqual((said.returncode, said.stderr), (0, b""))
            plain = self.done(*args, *config).encode()
            self.assertEqual(re.sub(rb"\d+ s ago", b"", said.stdout), re.sub(rb"\d+ s ago", b"", plain))
        self.withdrawn(config, len(topologies))
        self.definitions(config)

    def definitions(self, config):
        """Helm has made an old one, as it does of a chart's crds/, and one is not there."""
        crds = {}
        for file in ("gpuplacements", "nodegputopologies", "supernodes"):
            with open(os.path.join(CRDS, f"{file}.yaml"), encoding="utf-8") as stream:
                crds[file] = yaml.safe_load(stream)
        names = [crd["metadata"]["name"] for crd in crds.values()]
        self.server.kubectl("delete", "crd", *names[:2])
        old = copy.deepcopy(crds["supernodes"])
        old["spec"]["versions"][0]["additionalPrinterColumns"] = []
        old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["old"] = {"type": "string"}
        self.server.kubectl("replace", "--field-manager=helm", "-f", "-", text=json.dumps(old))
        files = [self.write(f"{file}.json", crd) for file, crd in crds.items()]
        self.assertEqual(self.done("apply-crds", *config, *files), "".join(f"{name}\n" for name in names))
        for name, crd in zip(names, crds.values()):
            self.assertEqual(self.server.get("crd", name)["spec"]["versions"], crd["spec"]["versions"])

    def withdrawn(self, config, topologies):
        """What an agent applied to a Node is gone, what somebody else applied as well stays."""
        prefix = "metax-tech.com/gpu."
        self.server.kubectl("create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": "n1", "labels": {"example.com/theirs": "1"}}}))
        for manager, metadata in (("gputopo-agent", {"annotations": {prefix + "topology.losses": "{}"}}),
                                  ("gputopo-agent-labels", {"labels": {prefix + "family": "MXC", prefix + "memory": "64GB"}}),
                                  ("operator", {"labels": {prefix + "family": "MXC"}})):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", **metadata}}
            self.server.kubectl("apply", "--server-side", f"--field-manager={manager}", "-f", "-", text=json.dumps(node))
        condition = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": [
            {"type": "MetaXGPUHealthy", "status": "False", "reason": "GPUUnhealthy"}]}}
        self.server.kubectl("apply", "--server-side", "--subresource=status", "--field-manager=gputopo-agent-condition", "-f", "-",
                            text=json.dumps(condition))
        self.server.kubectl("patch", "node", "n1", "--field-manager=gputopo-scheduler", "--type=merge", "-p", json.dumps({"spec": {"taints": [
            {"key": "metax-tech.com/unhealthy-gpus", "effect": "NoSchedule"}, {"key": "example.com/theirs", "effect": "NoSchedule"}]}}))
        self.assertEqual(self.done("withdraw", "--yes", *config),
                         f"0 Pods, 1 Nodes, {topologies} NodeGPUTopologies, 0 Supernodes, 0 GPUPlacements, 0 HyperNodes, 0 NodeFeatures\n")
        node = json.loads(self.server.kubectl("get", "node", "n1", "-o", "json"))
        self.assertEqual([taint["key"] for taint in node["spec"]["taints"]], ["example.com/theirs"])
        self.assertEqual([one for one in node.get("status", {}).get("conditions", []) if one["type"] == "MetaXGPUHealthy"], [])
        kept = node["metadata"]
        self.assertEqual(kept.get("annotations", {}), {})
        self.assertEqual({key for key in kept["labels"] if "/arch" not in key and "/os" not in key}, {"example.com/theirs", prefix + "family"})
        self.assertEqual(self.done("withdraw", "--yes", *config), "0 Pods, 0 Nodes, 0 NodeGPUTopologies, 0 Supernodes, 0 GPUPlacements, 0 HyperNodes, 0 NodeFeatures\n")


if __name__ == "__main__":
    if len(sys.argv) < 3 or not os.path.isdir(sys.argv[1]) or sys.argv[2] not in ("double", "real"):
        sys.exit(__doc__)
    test_cli.BIN = os.path.abspath(sys.argv.pop(1))
    which = sys.argv.pop(1)
    if which == "real" and not RealServer.is_there():
        print("skipped: kube-apiserver, kubectl or etcd is not there ($GPUTOPO_KUBE_BIN, PATH)")
        sys.exit(77)
    if which == "real":
        del Case, ClusterFile, Nonsense, Table, Picture, Errors, ShowNode, Withdraw, ApplyCrds, LocalUse
    else:
        del Real
    unittest.main(verbosity=2)
