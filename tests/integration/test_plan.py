#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo plan, from outside: test_plan.py BIN_DIR [unittest arguments]"""

import contextlib
import itertools
import json
import os
import pty
import random
import re
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

import test_cli
from seed import given_seed
from test_cli import Case, SOURCE, node

CASES = os.path.join(SOURCE, "..", "shared", "data", "cases")
EXAMPLE = os.path.join(SOURCE, "tests", "data", "example-cluster.json")
SCHEMA = os.path.join(SOURCE, "docs", "cluster.schema.json")


def plain(name, supernode=None, gpus=8, free=None):
    n = {"name": name, "gpus": gpus}
    if supernode:
        n["supernode"] = supernode
    if free is not None:
        n["free"] = free
    return n


def free_of(cluster):
    """Node name -> set of free GPUs, as the format says."""
    free = {}
    for n in cluster["nodes"]:
        count = n["gpus"] if "gpus" in n else len(n["topology"]["gpus"])
        gpus = set(n["free"]) if n.get("free") is not None else set(range(count))
        if n.get("free") is None:
            for pod in cluster.get("pods", []):
                if pod["node"] == n["name"]:
                    gpus -= set(pod["gpus"])
        if "topology" in n:
            gpus -= {i for i, g in enumerate(n["topology"]["gpus"]) if not g.get("healthy", True)}
        free[n["name"]] = gpus
    return free


def leaf_of(cluster):
    """Node name -> its tier-1 supernode; a node of its own is ("node", name)."""
    tiers = {s["name"]: s.get("tier", 1) for s in cluster.get("supernodes", [])}
    return {
        n["name"]: n["supernode"] if n.get("supernode") and tiers.get(n["supernode"], 1) == 1 else n["name"]
        for n in cluster["nodes"]
    }


def with_gone(cluster, gone):
    """free_of() once these pods have left."""
    free = free_of(cluster)
    unhealthy = {n["name"]: {i for i, g in enumerate(n["topology"]["gpus"]) if not g.get("healthy", True)}
           for n in cluster["nodes"] if "topology" in n}
    for pod in gone:
        free[pod["node"]] |= set(pod["gpus"]) - unhealthy.get(pod["node"], set())
    return free


def fits(cluster, free, runs, pods, gpus):
    """Whether `runs` runs of `pods` pods of `gpus` GPUs find supernodes: fills supernode after supernode, node after
    node, pod by pod. Which pod stands on which node of a supernode does not matter, since they are alike."""
    leaf = leaf_of(cluster)
    held = 0
    for supernode in set(leaf.values()):
        nodes = [sorted(free[n]) for n in leaf if leaf[n] == supernode]
        room = 0
        for gpus_of_node in nodes:
            left = list(gpus_of_node)
            while len(left) >= gpus:
                left = left[gpus:]
                room += 1
        while room >= pods:
            room -= pods
            held += 1
    return held >= runs


def least_to_move(cluster, runs, pods, gpus):
    """The smallest number of movable pods, by trying all sets."""
    movable = [p for p in cluster.get("pods", []) if p.get("movable")]
    for count in range(len(movable) + 1):
        for chosen in itertools.combinations(movable, count):
            if fits(cluster, with_gone(cluster, chosen), runs, pods, gpus):
                return count
    return None


class PlanCase(Case):
    def plan(self, cluster, *args):
        path = cluster if isinstance(cluster, str) else self.write("cluster.json", cluster)
        return json.loads(self.done("plan", "--cluster", path, *map(str, args), "-o", "json"))

    def check_relocation(self, cluster, answer):
        """Whom it moves may move, nobody is given what another has; what is free for the job then."""
        moves = answer["relocation"]["move"]
        pods = {pod["name"]: pod for pod in cluster["pods"]}
        leaf = leaf_of(cluster)
        free, now = with_gone(cluster, moves), {n: set(g) for n, g in free_of(cluster).items()}
        for move in moves:
            pod = pods[move["name"]]
            self.assertTrue(pod["movable"])
            self.assertEqual((pod["node"], pod["gpus"], pod.get("job")), (move["node"], move["gpus"], move.get("job")))
            self.assertEqual(len(move["toGpus"]), len(move["gpus"]))
            self.assertLessEqual(set(move["toGpus"]), now[move["toNode"]])
            now[move["toNode"]] -= set(move["toGpus"])
            free[move["toNode"]] -= set(move["toGpus"])
            if pod.get("groupSize", 0) > len(pod["gpus"]):
                mates = [p for p in cluster["pods"] if (p.get("job"), p.get("unit", 0)) == (pod["job"], pod.get("unit", 0))]
                places = [leaf[m["toNode"]] for m in moves if m["name"] in [p["name"] for p in mates]]
                self.assertEqual((len(places), len(set(places))), (len(mates), 1))
        self.assertEqual(answer["relocation"]["jobs"], len({m.get("job", m["name"]) for m in moves}))
        return free

    def check_placement(self, cluster, units, pods, gpus, unit_pods, run_pods, free=None):
        """What every placement must keep: GPUs are free and used once, ranks in order, runs in one supernode."""
        free = {n: set(g) for n, g in (free or free_of(cluster)).items()}
        leaf = leaf_of(cluster)
        rank = 0
        self.assertEqual([u["unit"] for u in units], list(range(pods // unit_pods)))
        for unit in units:
            self.assertEqual(len(unit["pods"]), unit_pods)
            touched = []
            for i, pod in enumerate(unit["pods"]):
                self.assertEqual(pod["rank"], rank)
                rank += 1
                self.assertEqual(len(pod["gpus"]), gpus)
                self.assertEqual(pod["gpus"], sorted(set(pod["gpus"])))
                self.assertLessEqual(set(pod["gpus"]), free[pod["node"]])
                free[pod["node"]] -= set(pod["gpus"])
                if leaf[pod["node"]] not in touched:
                    touched.append(leaf[pod["node"]])
                if i % run_pods:
                    self.assertEqual(leaf[pod["node"]], leaf[unit["pods"][i - 1]["node"]])
            self.assertEqual(unit["supernodes"], touched)


class Answers(PlanCase):
    CLUSTER = {
        "nodes": [
            plain("a1", "A"),
            plain("a2", "A", free=[0, 1, 2, 3]),
            plain("b1", "B"),
            plain("b2", "B"),
            plain("c1"),
        ]
    }

    def test_json(self):
        answer = self.plan(self.CLUSTER, "--pods", 2, "--gpus", 8, "--group-size", 16)
        self.assertEqual(
            answer,
            {
                "placed": True,
                "policy": "gpu-podaffinity",
                "units": [
                    {
                        "unit": 0,
                        "supernodes": ["B"],
                        "within": "B",
                        "tier": 1,
                        "pods": [
                            {"rank": 0, "node": "b1", "gpus": list(range(8)), "score": 28 * 64},
                            {"rank": 1, "node": "b2", "gpus": list(range(8)), "score": 28 * 64},
                        ],
                    }
                ],
            },
        )

    def test_what_the_companion_has_learned(self):
        """The sizes of its /debug/model take the place of the pods'. Once jobs have left, another order counts."""
        cluster = {"nodes": [{"name": f"{s}{i}", "supernode": s, "gpus": 8} for s, count in (("a", 4), ("b", 7))
                             for i in range(count)],
                   "pods": [{"name": "p", "node": "b6", "gpus": [0], "groupSize": 256}],
                   "unitSizes": [{"gpus": size, "present": 1000, "past": 0} for size in (32, 64, 128)]}
        cluster["nodes"].append({"name": "b7", "supernode": "b", "gpus": 8})
        job = ("--pods", 2, "--gpus", 8, "--group-size", 16)
        self.assertEqual(self.plan(cluster, *job)["units"][0]["within"], "b")  # 32 loses no place there
        cluster["unitSizes"][0]["past"] = 8.5
        self.assertEqual(self.plan(cluster, *job)["units"][0]["within"], "a")  # the fullest

    def test_explain(self):
        answer = self.plan(self.CLUSTER, "--pods", 2, "--gpus", 8, "--group-size", 16, "--explain", "--chain", "8,16,20")
        self.assertIn("supernode B", answer["units"][0]["why"])
        text = self.done("plan", "--cluster", self.path("cluster.json"), "--pods", "2", "--gpus", "8", "--group-size", "16",
                         "--explain")
        self.assertIn("supernode B, which had room for 2 such pods", text)

    def test_text(self):
        path = self.write("cluster.json", self.CLUSTER)
        text = self.done("plan", "--cluster", path, "--pods", "4", "--gpus", "4", "--group-size", "16")
        self.assertRegex(text, r"\Aplaced: 1 unit of 16 GPUs \(4 pods of 4\)\nunit 0: supernode \w+\n")
        self.assertRegex(text, r"ranks 0-1 +b1  GPUs 0-3 \| 4-7\n")
        text = self.done("plan", "--cluster", path, "--pods", "4", "--gpus", "8", "--group-size", "16")
        self.assertRegex(text, r"\Anot placed: 2 units of 16 GPUs \(2 pods of 8\)\n  2 units of 16 GPUs needed, "
                               r"supernodes can hold 1; ")

    def test_does_not_fit(self):
        for args in [
            ("--pods", 4, "--gpus", 8, "--group-size", 16),
            ("--pods", 1000, "--gpus", 8, "--group-size", 8000),
            ("--pods", 131072, "--gpus", 64, "--group-size", 64 * 131072),
            ("--pods", 1, "--gpus", 1024, "--group-size", 1024),
            ("--pods", 4, "--gpus", 8, "--group-size", 32, "--atomic-group-size", 16),
            ("--pods", 5, "--gpus", 8),
            ("--pods", 1, "--gpus", 9),
            ("--pods", 1, "--gpus", 1024),
        ]:
            answer = self.plan(self.CLUSTER, *args)
            self.assertEqual(answer["placed"], False, args)
            self.assertEqual(answer["units"], [])
            self.assertRegex(answer["reason"], r"\w", args)
        answer = self.plan({"nodes": []}, "--pods", 1, "--gpus", 1)
        self.assertEqual((answer["placed"], answer["units"]), (False, []))
        answer = self.plan({"nodes": []}, "--pods", 2, "--gpus", 1, "--group-size", 2, "--explain", "--advise")
        self.assertEqual((answer["placed"], answer["advice"]["possible"]), (False, False))

    def test_reason_of_one_by_one(self):
        answer = self.plan(self.CLUSTER, "--pods", 5, "--gpus", 8)
        self.assertEqual(answer["reason"],
                         "4 of 5 pods find a node; for the next no node has 8 GPUs available; most are 4 on node a2")

    def test_without_group(self):
        answer = self.plan(self.CLUSTER, "--pods", 2, "--gpus", 4)
        self.assertEqual(answer["policy"], "gpu-aware")
        self.assertEqual(answer["units"][0]["pods"][0],
                         {"rank": 0, "node": "a2", "gpus": [0, 1, 2, 3], "score": 6 * 64, "loss": 0})
        self.check_placement(self.CLUSTER, answer["units"], 2, 4, 1, 1)
        text = self.done("plan", "--cluster", self.path("cluster.json"), "--pods", "2", "--gpus", "4")
        self.assertIn("each by itself", text)

    def test_atomic_alone(self):
        answer = self.plan(self.CLUSTER, "--pods", 2, "--gpus", 4, "--atomic-group-size", 8)
        self.assertEqual(answer["policy"], "gpu-aware")
        self.assertIn("left alone", answer["warning"])
        text = self.done("plan", "--cluster", self.path("cluster.json"), "--pods", "2", "--gpus", "4",
                         "--atomic-group-size", "8")
        self.assertTrue(text.startswith("warning: atomic-gpu-group-size does nothing"))

    def test_topology_and_health(self):
        """GPUs come from the wiring of the node: the free mesh, not the first numbers; unhealthy GPUs are left out."""
        unhealthy = node(8)
        unhealthy["gpus"][5]["healthy"] = False
        cluster = {"nodes": [{"name": "n", "topology": node(8), "free": [2, 3, 4, 5, 6, 7]}]}
        answer = self.plan(cluster, "--pods", 1, "--gpus", 4, "--group-size", 4)
        self.assertEqual(answer["units"][0]["pods"][0]["gpus"], [4, 5, 6, 7])
        cluster = {"nodes": [{"name": "n", "topology": unhealthy}]}
        answer = self.plan(cluster, "--pods", 1, "--gpus", 4, "--group-size", 4)
        self.assertEqual(answer["units"][0]["pods"][0]["gpus"], [0, 1, 2, 3])
        self.assertFalse(self.plan(cluster, "--pods", 1, "--gpus", 8, "--group-size", 8)["placed"])

    def test_numa(self):
        """A kubelet that gives a pod GPUs of one NUMA node, with 2 and 2 free: one pod leaving is enough, or moving where it fits."""
        one = node(8)
        for gpu in one["gpus"]:
            gpu["numaNode"] = gpu["index"] // 4
        one["kubelet"] = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container", "cpuManagerPolicy": "none"}
        pods = [{"name": f"ns/{name}", "node": "n", "gpus": gpus, "movable": True} for name, gpus in (("a", [0, 1]), ("b", [4, 5]))]
        cluster = {"nodes": [{"name": "n", "supernode": "s", "topology": one}], "pods": pods}
        def asked(gpus, what, of=cluster):
            return self.plan(of, "--pods", 1, "--gpus", gpus, "--group-size", gpus, what)
        self.assertEqual([pod["name"] for pod in asked(4, "--advise")["advice"]["move"]], ["ns/a"])
        self.assertFalse(asked(8, "--advise")["advice"]["possible"])
        self.assertFalse(asked(4, "--relocate")["relocation"]["possible"])
        both = {**cluster, "nodes": [*cluster["nodes"], plain("other", "t", 2)]}
        self.assertEqual([(pod["name"], pod["toNode"]) for pod in asked(4, "--relocate", both)["relocation"]["move"]], [("ns/a", "other")])

    def test_tiers(self):
        """A soft unit goes to the lowest tier that holds it."""
        cluster = {
            "supernodes": [
                {"name": "h1", "tier": 2}, {"name": "h2", "tier": 2},
                {"name": "s1", "parent": "h1"}, {"name": "s2", "parent": "h1"},
                {"name": "s3", "parent": "h2"}, {"name": "s4", "parent": "h2"},
            ],
            "nodes": [plain("s1-1", "s1"), plain("s2-1", "s2"), plain("s3-1", "s3"), plain("s3-2", "s3"),
                      plain("s4-1", "s4"), plain("s4-2", "s4")],
        }
        args = ("--gpus", 8, "--atomic-group-size", 8)
        answer = self.plan(cluster, "--pods", 4, "--group-size", 32, *args)
        self.assertEqual((answer["units"][0]["within"], answer["units"][0]["tier"]), ("h2", 2))
        self.check_placement(cluster, answer["units"], 4, 8, 4, 1)
        answer = self.plan(cluster, "--pods", 6, "--group-size", 48, *args)
        self.assertEqual((answer["units"][0]["within"], answer["units"][0]["tier"]), (None, None))
        answer = self.plan(cluster, "--pods", 2, "--group-size", 16, *args)
        self.assertEqual(answer["units"][0]["tier"], 1)

    def test_crossing(self):
        """What boundaries a job crosses, at which bandwidth, and who would have to move for fewer."""
        full = {"b2-0": [0, 1, 2, 3], "a2-0": []}
        cluster = {
            "supernodes": [{"name": f"leaf{i}", "tier": 2} for i in (1, 2, 3, 4)] +
                          [{"name": f"{name}{i}", "parent": f"leaf{leaf}"} for leaf, name in enumerate("abcd", 1) for i in (1, 2)],
            "nodes": [{"name": f"{name}{i}-0", "supernode": f"{name}{i}", "gpus": 8,
                       **({"free": full[f"{name}{i}-0"]} if f"{name}{i}-0" in full else {})} for name in "abcd" for i in (1, 2) if (name, i) != ("d", 2)],
        }
        args = ("--gpus", 8, "--group-size", 8, "--explain", "--pods")
        crossing = lambda pods: self.plan(cluster, *args, pods).get("crossing")
        self.assertIsNone(crossing(1))
        self.assertEqual(crossing(2), "2 of 8 supernodes")
        self.assertEqual(crossing(4), "3 of 4 leaves, 4 of 8 supernodes")
        cluster["tiers"] = [{"tier": 1, "bandwidthGBps": 50}, {"tier": 2, "bandwidthGBps": 12.5}]
        self.assertEqual(crossing(2), "2 of 8 supernodes; slowest step 50 GB/s, between c2 and c1")
        self.assertEqual(crossing(4), "3 of 4 leaves, 4 of 8 supernodes; slowest step 12.5 GB/s, between leaf4 and leaf1")
        cluster["pods"] = [{"name": f"t/x-{i}", "node": "b2-0", "gpus": [4 + 2 * i, 5 + 2 * i], "movable": True, "job": "team-b"} for i in (0, 1)]
        self.assertTrue(crossing(4).endswith("; 2 leaves would do if 2 pods of team-b moved"), crossing(4))
        text = self.done("plan", "--cluster", self.path("cluster.json"), *map(str, args), "4")
        self.assertIn("  3 of 4 leaves, 4 of 8 supernodes; slowest step", text)
        cluster["pods"][0]["movable"] = False
        self.assertNotIn("moved", crossing(4))

    def test_slow_gpus(self):
        """Of nodes that are alike those without slow GPUs; another supernode where that costs no room."""
        nodes = [{**plain(f"n{i}", "s"), **({"slow": [i]} if i < 2 else {})} for i in range(4)]
        cluster = {"supernodes": [{"name": "s", "tier": 1}], "nodes": nodes}
        job = ("--pods", 2, "--gpus", 8, "--group-size", 16)
        self.assertEqual({pod["node"] for unit in self.plan(cluster, *job)["units"] for pod in unit["pods"]}, {"n2", "n3"})
        self.assertEqual({pod["node"] for unit in self.plan(cluster, *job, "--slow-gpus", "any")["units"] for pod in unit["pods"]},
                         {"n0", "n1"})
        three = ("--pods", 3, "--gpus", 8, "--group-size", 24)
        self.assertTrue(self.plan(cluster, *three)["placed"])
        answer = self.plan(cluster, *three, "--slow-gpus", "never")
        self.assertFalse(answer["placed"])
        self.assertIn("it would fit with GPUs that are slow or suspect, which it never takes", answer["reason"])
        one, = self.plan({"nodes": nodes[:1]}, "--pods", 1, "--gpus", 4)["units"]
        self.assertNotIn(0, one["pods"][0]["gpus"])

    def test_slow_gpus_are_said(self):
        """Which ones a job gets, and what would free it of them."""
        def said(cluster, *job):
            return self.plan(cluster, *job).get("slow")
        supers = [{"name": name, "tier": 1} for name in "ab"]
        nodes = [{**plain(f"a{i}", "a"), "slow": [i, 7]} for i in range(5)]
        whole = ("--pods", 5, "--gpus", 8, "--group-size", 40)
        named = ("the pace of slow or suspect GPUs: GPUs 0,7 of node a0 (rank 0), GPUs 1,7 of node a1 (rank 1), "
                 "GPUs 2,7 of node a2 (rank 2), and those of 2 more pods")
        alone = {"supernodes": supers[:1], "nodes": nodes}
        text = said(alone, *whole)
        self.assertTrue(text.startswith(f"{named}; to be free of them: 1 unit of 40 GPUs needed"), text)
        self.assertNotIn("slow", text[len(named):])
        self.assertIn(f"\n  {named}; to be free of them: ",
                      self.done("plan", "--cluster", self.write("cluster.json", alone), *map(str, whole)))
        # whole nodes of a supernode that larger jobs need
        larger = {"supernodes": supers, "nodes": nodes[:1] + [plain(f"b{i}", "b") for i in range(4)]}
        job = ("--pods", 1, "--gpus", 8, "--group-size", 8, "--chain", "8,32")
        self.assertEqual(said(larger, *job), "the pace of slow or suspect GPUs: GPUs 0,7 of node a0 (rank 0); without them "
                         "(--slow-gpus never) it would lie farther apart, or take the room of larger jobs")
        self.assertIsNone(said(larger, *job, "--slow-gpus", "never"))
        self.assertIsNone(said(larger, *job, "--slow-gpus", "any"))
        self.assertEqual(said({"nodes": nodes[:1]}, "--pods", 1, "--gpus", 7), "the pace of slow or suspect GPUs: GPU 0 of node a0 "
                         "(rank 0); to be free of them, such a pod needs a node with 7 others free")

    def test_required_tiers(self):
        """The whole job, or each unit, in one supernode of a tier; and closeness before room."""
        cluster = {
            "supernodes": [{"name": "l1", "tier": 2}, {"name": "l2", "tier": 2}] +
                          [{"name": f"{l}s{i}", "parent": l} for l in ("l1", "l2") for i in range(3)],
            "nodes": [plain(f"{l}s{i}-{n}", f"{l}s{i}") for l in ("l1", "l2") for i in range(3) for n in range(1 + (l == "l1" and i == 0))],
        }
        args = ("--gpus", 8, "--group-size", 8, "--pods")
        self.assertTrue(self.plan(cluster, *args, 5)["placed"])
        answer = self.plan(cluster, *args, 5, "--job-topology", "required=leaf")
        self.assertFalse(answer["placed"])
        self.assertEqual(answer["reason"], "the job must lie in one supernode of tier 2; 5 units of 8 GPUs needed; "
                                           "l1 lacks room for 1, l2 lacks room for 2")
        leaves = lambda answer: {pod["node"][:2] for unit in answer["units"] for pod in unit["pods"]}
        self.assertEqual(leaves(self.plan(cluster, *args, 4, "--job-topology", "required=2")), {"l1"})
        self.assertEqual(leaves(self.plan(cluster, *args, 3, "--close", "prefer")), {"l2"})
        self.assertEqual(leaves(self.plan(cluster, *args, 4, "--close", "prefer")), {"l1"})
        atoms = ("--gpus", 8, "--atomic-group-size", 8, "--group-size", 16, "--pods")
        self.assertTrue(self.plan(cluster, *atoms, 6, "--gpu-group-topology", "required=leaf")["placed"])
        wide = ("--gpus", 8, "--atomic-group-size", 8, "--group-size", 32, "--pods")
        self.assertFalse(self.plan(cluster, "--gpus", 8, "--atomic-group-size", 8, "--group-size", 40, "--pods", 5,
                                   "--gpu-group-topology", "required=leaf")["placed"])
        self.assertTrue(self.plan(cluster, *wide, 4, "--gpu-group-topology", "required=leaf")["placed"])

    def test_names_are_quoted(self):
        name = 'n"\\ü'
        answer = self.plan({"nodes": [plain(name)]}, "--pods", 1, "--gpus", 8, "--group-size", 8)
        self.assertEqual(answer["units"][0]["pods"][0]["node"], name)
        self.assertEqual(answer["units"][0]["supernodes"], [name])

    def test_large(self):
        cluster = {"nodes": [plain("n%05d" % i, "s%03d" % (i // 32)) for i in range(10240)]}
        path = self.write("cluster.json", cluster)
        start = time.monotonic()
        answer = self.plan(path, "--pods", 128, "--gpus", 8, "--group-size", 32)
        self.assertTrue(answer["placed"])
        self.check_placement(cluster, answer["units"], 128, 8, 4, 4)
        print("10,240 nodes: %.2f s in all" % (time.monotonic() - start), file=sys.stderr)
        self.assertFalse(self.plan(path, "--pods", 20480, "--gpus", 8, "--group-size", 32)["placed"])


class Example(PlanCase):
    def setUp(self):
        super().setUp()
        with open(EXAMPLE, encoding="utf-8") as file:
            self.cluster = json.load(file)

    def test_schema(self):
        import jsonschema
        with open(SCHEMA, encoding="utf-8") as file:
            schema = json.load(file)
        jsonschema.Draft202012Validator.check_schema(schema)
        check = jsonschema.Draft202012Validator(schema)
        check.validate(self.cluster)
        check.validate(Answers.CLUSTER)
        check.validate({"nodes": [], "unitSizes": [{"gpus": 8, "present": 64, "past": 0.5}, {"gpus": 16}]})
        for wrong in [{}, {"nodes": [{"name": "a"}]}, {"nodes": [plain("a", gpus=65)]}, {"nodes": [plain("a", free=[64])]},
                      {"nodes": [], "supernodes": [{"name": "s", "tier": 9}]}, {"nodes": [], "unitSizes": [{"past": 1}]}]:
            self.assertFalse(check.is_valid(wrong), wrong)
            self.refused(1, "plan", "--cluster", self.write("wrong.json", wrong), "--pods", "1", "--gpus", "1")

    def test_manual(self):
        answer = self.plan(EXAMPLE, "--pods", 8, "--gpus", 8, "--group-size", 32)
        self.check_placement(self.cluster, answer["units"], 8, 8, 4, 4)
        answer = self.plan(EXAMPLE, "--pods", 8, "--gpus", 8, "--group-size", 64, "--atomic-group-size", 16)
        self.check_placement(self.cluster, answer["units"], 8, 8, 8, 2)

    def test_advice(self):
        answer = self.plan(EXAMPLE, "--pods", 12, "--gpus", 8, "--group-size", 32, "--advise")
        self.assertEqual([p["name"] for p in answer["advice"]["move"]], ["serve/rank-0"])
        free = with_gone(self.cluster, answer["advice"]["move"])
        self.check_placement(self.cluster, answer["advice"]["units"], 12, 8, 4, 4, free)
        placed = self.plan(EXAMPLE, "--pods", 1, "--gpus", 8, "--group-size", 8, "--advise")
        self.assertNotIn("advice", placed)

    def test_relocation(self):
        answer = self.plan(EXAMPLE, "--pods", 8, "--gpus", 8, "--group-size", 64, "--relocate")
        self.assertEqual([p["name"] for p in answer["relocation"]["move"]], ["dev/notebook-max", "serve/rank-1"])
        self.assertTrue(answer["relocation"]["exact"])
        free = self.check_relocation(self.cluster, answer)
        self.check_placement(self.cluster, answer["relocation"]["units"], 8, 8, 8, 8, free)
        text = self.done("plan", "--cluster", EXAMPLE, "--pods", "8", "--gpus", "8", "--group-size", "64", "--relocate")
        self.assertIn("it fits when 2 movable pods of 2 jobs, with 5 GPUs, move; nothing that costs less will do", text)
        self.assertIn("serve/rank-1 from rack-d-n08, GPUs 0-3, to rack-e-n03, GPUs 4-7, job serve/rank", text)
        self.refused(2, "plan", "--cluster", EXAMPLE, "--pods", "1", "--gpus", "1", "--advise", "--relocate",
                     says="expected one of the two")

    def test_commands_that_relocate(self):
        """Where the pods' names have a namespace, and nothing that a shell would read otherwise."""
        cluster = {"nodes": [{"name": f"{s}{i}", "supernode": s, "gpus": 8} for s in "ab" for i in range(2)], "pods": []}
        args = ["--pods", "2", "--gpus", "8", "--group-size", "16", "--relocate"]

        def commands(name, **more):
            cluster["pods"] = [{"name": name, "node": "a0", "gpus": list(range(8)), "movable": True, "job": "u", **more},
                               {"name": "v", "node": "b0", "gpus": list(range(8)), "job": "v"}]
            text = self.done("plan", "--cluster", self.write("cluster.json", cluster), *args)
            return [line.strip() for line in text.splitlines() if "kubectl" in line]
        self.assertEqual(commands("ns/u-0", groupSize=8), ["kubectl annotate pod -n ns u-0 metax-tech.com/move-to=b1"])
        self.assertEqual(commands("ns/u-0"), ["kubectl delete pod -n ns u-0"])
        for name in ("u-0", "ns/u;ls", "ns/u/0"):
            self.assertEqual(commands(name, groupSize=8), [])

    def test_whole_unit_moves(self):
        cluster = {"nodes": [{"name": f"{s}{i}", "supernode": s, "gpus": 8} for s in "ab" for i in range(4)], "pods": [
            {"name": f"u-{i}", "node": f"a{i}", "gpus": list(range(8)), "movable": True, "job": "u", "groupSize": 16, "unit": 0}
            for i in range(2)]}
        cluster["pods"].append({"name": "v", "node": "b0", "gpus": list(range(8)), "job": "v"})
        args = ["--pods", 4, "--gpus", 8, "--group-size", 32, "--relocate"]
        answer = self.plan(cluster, *args)
        self.assertEqual(sorted(m["name"] for m in answer["relocation"]["move"]), ["u-0", "u-1"])
        self.assertEqual(answer["relocation"]["cost"], 20)
        free = self.check_relocation(cluster, answer)
        self.check_placement(cluster, answer["relocation"]["units"], 4, 8, 4, 4, free)
        cluster["pods"][0]["movable"] = False  # then the unit stays, as where a pod of it is not in the file
        self.assertFalse(self.plan(cluster, *args)["relocation"]["possible"])
        cluster["pods"][0].update(movable=True, groupSize=24)
        self.assertFalse(self.plan(cluster, *args)["relocation"]["possible"])
        cluster["pods"][0]["groupSize"] = 16  # 8 GPUs that cost three times as much are not taken
        cluster["pods"][2].update(movable=True, restartCost=3)
        self.assertEqual(self.plan(cluster, *args)["relocation"]["cost"], 20)
        cluster["pods"][2]["restartCost"] = 1
        self.assertEqual(self.plan(cluster, *args)["relocation"]["cost"], 12)

    def test_moves_into_one_supernode_of_a_tier(self):
        """Two halls of two racks. Six pods fit, but not in one hall until the cheaper pod moves."""
        cluster = {"supernodes": [*({"name": hall, "tier": 2} for hall in "xy"),
                                  *({"name": f"{hall}{rack}", "parent": hall} for hall in "xy" for rack in "ab")],
                   "nodes": [{"name": f"{hall}{rack}{i}", "supernode": f"{hall}{rack}", "gpus": 8}
                             for hall in "xy" for rack in "ab" for i in range(4)],
                   "pods": [{"name": f"{name}-{i}", "node": f"{node}{i}", "gpus": list(range(8)), "movable": True, "job": f"{name}-{i}",
                             "restartCost": cost}
                            for name, node, count, cost in (("p", "xa", 3, 2), ("q", "ya", 3, 1)) for i in range(count)]}
        args = ["--pods", 6, "--gpus", 8, "--group-size", 8, "--job-topology", "required=2", "--relocate"]
        answer = self.plan(cluster, *args)
        self.assertEqual([(m["name"][0], m["toNode"][0]) for m in answer["relocation"]["move"]], [("q", "x")])
        self.assertEqual((answer["relocation"]["cost"], answer["relocation"]["exact"]), (12, True))
        self.assertEqual({pod["node"][0] for unit in answer["relocation"]["units"] for pod in unit["pods"]}, {"y"})
        cluster["pods"][3]["movable"] = cluster["pods"][4]["movable"] = cluster["pods"][5]["movable"] = False
        answer = self.plan(cluster, *args)
        self.assertEqual([(m["name"][0], m["toNode"][0]) for m in answer["relocation"]["move"]], [("p", "y")])
        self.refused(2, "plan", "--cluster", EXAMPLE, "--pods", "12", "--gpus", "8", "--group-size", "32", "--job-topology", "required=1",
                     "--advise", says="does not know of tiers")

    def test_moves_for_units_in_a_tier(self):
        """Two halls with 5 and 4 free nodes. Three units of 3 pods fit once one pod has moved, or two cheap ones."""
        cluster = {"supernodes": [*({"name": hall, "tier": 2} for hall in "xy"),
                                  *({"name": f"{hall}{rack}", "parent": hall} for hall in "xy" for rack in "ab")],
                   "nodes": [{"name": f"{hall}{rack}{i}", "supernode": f"{hall}{rack}", "gpus": 8}
                             for hall in "xy" for rack in "ab" for i in range(4)],
                   "pods": [{"name": f"{name}-{i}", "node": f"{node}{i}", "gpus": list(range(8)), "movable": True, "job": f"{name}-{i}",
                             "restartCost": cost}
                            for name, node, count, cost in (("p", "xa", 3, 2), ("q", "ya", 4, 1)) for i in range(count)]}
        args = ["--pods", 9, "--gpus", 8, "--group-size", 24, "--atomic-group-size", 8, "--gpu-group-topology", "required=2", "--relocate"]

        def moves():
            answer = self.plan(cluster, *args)
            halls = [{pod["node"][0] for pod in unit["pods"]} for unit in answer["relocation"]["units"]]
            self.assertEqual({len(hall) for hall in halls}, {1})
            return sorted((m["name"][0], m["toNode"][0]) for m in answer["relocation"]["move"]), answer["relocation"]["cost"]
        self.assertEqual(moves(), ([("p", "y")], 20))
        for pod in cluster["pods"][:3]:
            pod["movable"] = False
        self.assertEqual(moves(), ([("q", "x")] * 2, 24))

    def test_documented_output(self):
        with open(os.path.join(SOURCE, "docs", "reference", "cli.md"), encoding="utf-8") as file:
            page = file.read()
        shown = re.findall(r"\$ gputopo (plan [^\n]*)\n(.*?)\n(?:\.\.\.\n)?```", page, re.S)
        self.assertEqual(len(shown), 2)
        for command, text in shown:
            args = command.replace("tests/data/example-cluster.json", EXAMPLE).split()
            self.assertTrue(self.done(*args).startswith(text), command)


@unittest.skipUnless(os.path.isdir(CASES), "the small clusters are not here")
class Cases(PlanCase):
    """Small clusters on which the rule once lost."""

    def leaves(self, name, pods, group, *args):
        answer = self.plan(os.path.join(CASES, name), "--pods", pods, "--gpus", 8, "--group-size", group, *args)
        self.assertTrue(answer["placed"])
        return {pod["node"].split("-")[0] for unit in answer["units"] for pod in unit["pods"]}

    def test_leaves(self):
        for group, *args in ((16,), (96, "--atomic-group-size", 16), (32, "--atomic-group-size", 16)):
            self.assertEqual(len(self.leaves("leaves.json", 12, group, *args)), 3, group)
        self.assertEqual(self.leaves("leaf_single.json", 2, 16), {"l1"})
        for group, *args in ((16,), (64, "--atomic-group-size", 16), (32, "--atomic-group-size", 16)):
            self.assertEqual(self.leaves("leaf_whole.json", 8, group, *args), {"l2"}, group)

    def first(self, name, pods, gpus, group):
        answer = self.plan(os.path.join(CASES, name), "--pods", pods, "--gpus", gpus, "--group-size", group)
        return answer["units"][0]["pods"][0]["node"]

    def test_the_smallest_kind_of_node(self):
        self.assertEqual(self.first("small_kind.json", 1, 3, 3), "a")

    def test_the_smaller_supernode(self):
        for name in ("small_super.json", "small_super2.json"):
            self.assertEqual(self.first(name, 4, 8, 32), "y0", name)

    def test_nearly_idle_supernodes(self):
        self.assertEqual(self.first("nearly_idle.json", 1, 1, 1), "a1")


class Wrong(PlanCase):
    def test_usage(self):
        path = self.write("cluster.json", Answers.CLUSTER)
        good = {"--cluster": path, "--pods": "4", "--gpus": "8", "--group-size": "16"}

        def args(**change):
            options = {**good, **{"--" + k.replace("_", "-"): v for k, v in change.items()}}
            return [word for key, value in options.items() if value is not None for word in (key, value)]

        for says, change in [
            ("--cluster: expected", {"cluster": None}),
            ("--pods: expected", {"pods": None}),
            ("--gpus: expected", {"gpus": None}),
            ("--pods: expected a number from 1 to 131072, is '0'", {"pods": "0"}),
            ("--pods: expected", {"pods": "131073"}),
            ("--pods: expected", {"pods": "-1"}),
            ("--pods: expected", {"pods": "x\ny"}),
            ("--gpus: expected", {"gpus": "0"}),
            ("--gpus: expected", {"gpus": "1025"}),
            ("--output: expected text, json or yaml, is 'svg'", {"output": "svg"}),
            ("--chain: expected", {"chain": ""}),
            ("--chain: expected", {"chain": "8,8"}),
            ("--chain: expected", {"chain": "16,8"}),
            ("--chain: expected", {"chain": "8,,16"}),
            ("--chain: expected", {"chain": "0"}),
            ("--chain: expected", {"chain": "8,16,"}),
            ("--chain: expected", {"chain": ",".join(str(i) for i in range(1, 18))}),
            ("--chain: expected", {"chain": "99999999999999999999"}),
            ("gpu-group-size 20 is not a multiple of the pod's 8 GPUs", {"group_size": "20"}),
            ("the job's 32 GPUs are not a multiple of gpu-group-size 24", {"group_size": "24"}),
            ('"many" is not a number of GPUs', {"group_size": "many"}),
            ("0 is not a size", {"group_size": "0"}),
            ("atomic-gpu-group-size 12 does not divide", {"group_size": "16", "atomic_group_size": "12"}),
            ("atomic-gpu-group-size 4 is not a multiple of the pod's 8", {"group_size": "16", "atomic_group_size": "4"}),
        ]:
            self.refused(2, "plan", *args(**change), says=re.escape(says))
        self.refused(2, "plan", *args(), "more", says="unexpected argument")
        self.refused(2, "plan", "--explain=yes", *args())

    def test_cluster_files(self):
        self.refused(1, "plan", "--cluster", self.path("none.json"), "--pods", "1", "--gpus", "1",
                     says="none.json: No such file")
        self.refused(1, "plan", "--cluster", self.dir, "--pods", "1", "--gpus", "1")
        two = '{"nodes": [\n {"name": "a", "gpus": 8},\n {"name": "a", "gpus": 8}\n]}'
        path = self.write("cluster.json", two)
        line = self.refused(1, "plan", "--cluster", path, "--pods", "1", "--gpus", "1")
        self.assertEqual(line, f'gputopo: plan: {path}: line 3: nodes[1].name: "a" is the name of nodes[0] already\n')
        for says, text in [
            (r"line 1, column 2: expected a key", "{x"),
            (r"line 2: nodes\[0\].supernode: there is no supernode \"t\"",
             '{"supernodes": [{"name": "s"}], "nodes": [{"name": "a", "gpus": 8,\n"supernode": "t"}]}'),
            (r"line 3: supernodes\[2\].parent: the parents of \"u\" form a cycle",
             '{"supernodes": [{"name": "r", "tier": 1},\n{"name": "t", "tier": 2,\n"parent": "u"}, '
             '{"name": "u", "tier": 3, "parent": "t"}], "nodes": []}'),
            (r"line 1: nodes\[0\].free\[0\]: there is no GPU 9, the node has 8",
             '{"nodes": [{"name": "a", "gpus": 8, "free": [9]}]}'),
            (r"line 1: nodes\[0\].gpus: expected 0 to 64, is 100", '{"nodes": [{"name": "a", "gpus": 100}]}'),
            (r"line 1: nodes\[0\].topology: gpus\[0\]", '{"nodes": [{"name": "a", "topology": {"gpus": [{}]}}]}'),
        ]:
            self.refused(1, "plan", "--cluster", self.write("cluster.json", text), "--pods", "1", "--gpus", "1", says=says)

    def test_broken_bytes(self):
        """Every prefix of a good file, and one byte changed: an answer, or one clean line."""
        with open(EXAMPLE, "rb") as file:
            good = file.read()
        rng = random.Random(4)
        for _ in range(60):
            at = rng.randrange(len(good))
            data = good[:at] if rng.random() < 0.4 else good[:at] + bytes([rng.randrange(256)]) + good[at + 1:]
            path = self.write("broken.json", data)
            result = self.run_cli("plan", "--cluster", path, "--pods", "2", "--gpus", "8", "--group-size", "16")
            self.assertIn(result.returncode, [0, 1])
            if result.returncode:
                self.assertRegex(result.stderr.decode(), r"\Agputopo: plan: [^\n]*broken\.json: line \d+[^\n]*\n\Z")


class BruteForce(PlanCase):
    ROUNDS = 150

    def random_cluster(self, rng):
        supernodes = [f"s{i}" for i in range(rng.randint(0, 3))]
        cluster = {"nodes": [], "pods": []}
        if supernodes and rng.random() < 0.5:
            cluster["supernodes"] = [{"name": "top", "tier": 2}] + [
                {"name": s, "tier": 1, **({"parent": "top"} if rng.random() < 0.5 else {})} for s in supernodes
            ]
        for i in range(rng.randint(1, 6)):
            n = {"name": f"n{i}"}
            if rng.random() < 0.3:
                n["topology"] = node(8)
                n["topology"]["gpus"][rng.randrange(8)]["healthy"] = rng.random() < 0.7
            else:
                n["gpus"] = rng.choice([2, 4, 8, 8, 16])
            if supernodes and rng.random() < 0.8:
                n["supernode"] = rng.choice(supernodes)
            count = n.get("gpus", 8)
            gpus = list(range(count))
            rng.shuffle(gpus)
            while gpus and rng.random() < 0.5 and len(cluster["pods"]) < 7:
                size = rng.randint(1, len(gpus))
                cluster["pods"].append({"name": f"p{len(cluster['pods'])}", "node": n["name"], "gpus": sorted(gpus[:size]),
                                        "movable": rng.random() < 0.8})
                gpus = gpus[size:]
            if rng.random() < 0.3:
                n["free"] = sorted(gpus[: rng.randint(0, len(gpus))])
            cluster["nodes"].append(n)
        return cluster

    def test_random(self):
        rng = random.Random(given_seed())
        placed = advised = 0
        for number in range(self.ROUNDS):
            with self.subTest(round=number):
                cluster = self.random_cluster(rng)
                gpus = rng.choice([1, 2, 4, 8])
                unit = rng.randint(1, 4)
                units = rng.randint(1, 3)
                atom = rng.choice([d for d in range(1, unit + 1) if unit % d == 0]) if rng.random() < 0.5 else unit
                args = ["--pods", unit * units, "--gpus", gpus, "--group-size", unit * gpus]
                if atom != unit:
                    args += ["--atomic-group-size", atom * gpus]
                answer = self.plan(cluster, *args, "--advise")
                runs = unit * units // atom
                expected = fits(cluster, free_of(cluster), runs, atom, gpus)
                self.assertEqual(answer["placed"], expected, (cluster, args))
                if expected:
                    placed += 1
                    self.check_placement(cluster, answer["units"], unit * units, gpus, unit, atom)
                    continue
                least = least_to_move(cluster, runs, atom, gpus)
                self.assertEqual(answer["advice"]["possible"], least is not None, (cluster, args))
                if least is None:
                    continue
                advised += 1
                self.assertEqual(len(answer["advice"]["move"]), least, (cluster, args))
                free = with_gone(cluster, answer["advice"]["move"])
                self.check_placement(cluster, answer["advice"]["units"], unit * units, gpus, unit, atom, free)
                answer = self.plan(cluster, *args, "--relocate")
                if answer["relocation"]["possible"]:
                    self.assertGreaterEqual(len(answer["relocation"]["move"]), least)
                    free = self.check_relocation(cluster, answer)
                    self.check_placement(cluster, answer["relocation"]["units"], unit * units, gpus, unit, atom, free)
        self.assertGreater(placed, self.ROUNDS // 8)
        self.assertGreater(advised, self.ROUNDS // 20)


class OneNode(Case):
    """--from: what mx-smi says, where nothing of ours is installed."""
    MATRIX = "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\tX\tMX\tNODE\tNODE\nGPU1\tMX\tX\tNODE\tNODE\nGPU2\tNODE\tNODE\tX\tMX\nGPU3\tNODE\tNODE\tMX\tX\n"

    def plan_of(self, text, *args):
        return subprocess.run([f"{test_cli.BIN}/gputopo", "plan", "--from", "-", *args], input=text, capture_output=True, text=True, check=False)

    def test_a_matrix(self):
        said = json.loads(self.plan_of(self.MATRIX, "--pods", "2", "-k", "2", "-o", "json").stdout)
        self.assertEqual([pod["gpus"] for unit in said["units"] for pod in unit["pods"]], [[0, 1], [2, 3]])
        self.assertIn("not placed", self.plan_of(self.MATRIX, "--pods", "3", "-k", "2").stdout)
        said = self.plan_of(self.MATRIX.replace("GPU2\tNODE", "GPU2\tPIX"), "--pods", "2", "-k", "2")
        self.assertEqual((said.returncode, said.stderr), (1, "gputopo: plan: -: row GPU0 says NODE of GPU2, and row GPU2 PIX of GPU0\n"))

    def test_a_matrix_for_other_verbs(self):
        def done(*args):
            return subprocess.run([f"{test_cli.BIN}/gputopo", *args, "--from", "-"], input=self.MATRIX, stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(json.loads(done("loss", "--free", "0,2,3", "-k", "2", "-o", "json"))["gpus"], [2, 3])
        picture = xml.etree.ElementTree.fromstring(done("show", "-o", "svg"))
        texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual([text for text in texts if re.fullmatch("GPU [0-9]+", text)], [f"GPU {i}" for i in range(4)])

    def test_one_of_both(self):
        node_file = os.path.join(SOURCE, "tests", "machines", "c500-8.json")
        said = subprocess.run([f"{test_cli.BIN}/gputopo", "plan", "--from", node_file, "--pods", "1", "-k", "8"], capture_output=True, text=True, check=False)
        if "built without hwloc" not in said.stderr:  # as the static client is
            self.assertIn("GPUs 0-7", said.stdout)
        self.refused(2, "plan", "--from", node_file, "--cluster", EXAMPLE, "--pods", "1", "-k", "8", says="--cluster: expected the file of a cluster, or --from")
        self.refused(2, "plan", "--pods", "1", "-k", "8", says="--cluster: expected the file of a cluster, or --from")


class Progress(Case):
    def test_on_a_terminal_alone(self):
        """What takes long is said, and gone when the answer comes; without an escape sequence, as NO_COLOR wants it."""
        args = [f"{test_cli.BIN}/gputopo", "plan", "--cluster", EXAMPLE, "--pods", "4", "--gpus", "8"]
        near, far = pty.openpty()
        with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=far) as process:
            os.close(far)
            self.assertIn(b"placed:", process.stdout.read())
        said = b""
        with contextlib.suppress(OSError):  # the kernel hands on what was written piece by piece, and then an error
            while part := os.read(near, 4096):
                said += part
        os.close(near)
        self.assertEqual(said, b"\rreading the cluster\rplacing the pods   \r                \r")
        self.assertEqual(subprocess.run(args, capture_output=True, check=True).stderr, b"")


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("usage: test_plan.py BIN_DIR [unittest arguments]")
    test_cli.BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
