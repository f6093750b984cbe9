#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-scheduler, its part "supernodes", against the double of the API server.

Usage: test_companion.py GPUTOPO_SCHEDULER [unittest arguments]
"""

import copy
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

import jsonschema
import stopped_thread
from api_double import Status, StrictDouble
from companion_driver import (LABEL, NODES, OLD_SUPERNODE_LABEL, SUPERNODE_LABEL, SUPERNODES, TOPOLOGIES, Companion, mesh, report)
from crds import status_schema
from daemon_driver import PATIENCE, free_port, wait_for
from kube_driver import kubeconfig
from silent import PROBE_S, SilentSockets, look

SCHEDULER = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
NAMESPACE = "gputopo-system"
CONFIGMAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
EVENTS = 'gputopo_informer_events_total{resource="supernodes"}'
HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
FEATURES = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.certificates = tempfile.mkdtemp(prefix="gputopo-companion-")
        cls.addClassCleanup(shutil.rmtree, cls.certificates, ignore_errors=True)

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="gputopo-companion-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.api = StrictDouble(self.certificates, tokens=("token-1",))
        self.addCleanup(self.api.stop)

    # what is there

    def add_node(self, name, label=None):
        self.api.add(NODES, name, metadata={"labels": {SUPERNODE_LABEL: label}} if label else {})

    def add_report(self, name, remote=(), note="", **more):
        self.api.add(TOPOLOGIES, name, status={**report(f"uuid-{name}", *remote, **more), **({"note": note} if note else {})})

    def add_mesh(self, *names, **more):
        for name, remote in mesh(*names).items():
            self.add_node(name)
            self.add_report(name, remote, **more)

    def configure(self, text):
        self.api.add(CONFIGMAPS, "gputopo-supernodes", data={"supernodes.yaml": text})

    def objects(self, path=SUPERNODES):
        with self.api.lock:
            where = self.api.place(path)[0]
            return {name: copy.deepcopy(obj) for (at, name), obj in self.api.objects.items() if at == where}

    def statuses(self):
        return {name: obj.get("status", {}) for name, obj in self.objects().items()}

    def members(self):
        """{supernode: the names of its nodes}"""
        return {name: [m["node"] for m in status.get("members", []) if isinstance(m, dict)]
                for name, status in self.statuses().items()}

    def condition(self, supernode, kind="Conflict"):
        found = [c for c in self.statuses().get(supernode, {}).get("conditions", []) if isinstance(c, dict) and c["type"] == kind]
        return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None

    def written(self, kind="supernodes"):
        return [r for r in self.api.asked() if r.method != "GET" and f"/{kind}" in r.path]

    def told_events(self):
        with self.api.lock:
            return [copy.deepcopy(obj) for (where, _), obj in self.api.objects.items() if where[2] == "events"]

    # the companion

    def start(self, *arguments, wait=True, user="token: token-1", program=None, only="supernodes"):
        config = kubeconfig(f"{self.directory}/config", self.api.url,
                            f"certificate-authority: {self.certificates}/ca.crt", user)
        companion = Companion(program or SCHEDULER, f"--only={only}", "--namespace", NAMESPACE, "--kubeconfig", config, *arguments)
        self.addCleanup(lambda: self.assertEqual(companion.stop(), 0, companion.lines))
        if wait:
            self.assertTrue(wait_for(companion.is_ready), companion.lines)
        return companion

    def wait(self, condition, seconds=PATIENCE):
        self.assertTrue(wait_for(condition, seconds), self.statuses())

    def wait_members(self, want, seconds=PATIENCE):
        wait_for(lambda: self.members() == want, seconds)
        self.assertEqual(self.members(), want)

    def pass_rounds(self, companion):
        """Two more rounds, each for one more node: what the first one decided is written before the second."""
        for _ in range(2):
            alone = companion.metrics()['gputopo_nodes{state="alone"}']
            self.add_mesh(f"alone-{alone:.0f}")
            self.wait(lambda before=alone: companion.metrics()['gputopo_nodes{state="alone"}'] == before + 1)

    def settle(self):
        """Nothing is written any more."""
        def writes():
            return len([r for r in self.api.asked() if r.method != "GET" and "leases" not in r.path])
        seen = -1
        while seen != writes():
            seen = writes()
            time.sleep(3)


class Listing(Case):
    """One informer a kind, whatever the parts."""
    PODS = "/api/v1/pods"

    def lists(self):
        """{path: what is accepted, of each list}; pages that follow do not count."""
        found = {path: [] for path in (NODES, TOPOLOGIES, SUPERNODES, self.PODS)}
        for request in self.api.asked(method="GET", watch=False):
            if request.path in found and "continue" not in request.query:
                found[request.path].append(request.headers["Accept"])
        return found

    def test_supernodes_alone(self):
        self.add_mesh("n1", "n2")
        self.start()
        self.wait(lambda: len(self.objects()) == 1)
        lists = self.lists()
        self.assertEqual([len(lists[path]) for path in (NODES, TOPOLOGIES, SUPERNODES, self.PODS)], [1, 1, 1, 0])
        self.assertIn("as=PartialObjectMetadataList", lists[NODES][0])

    def test_all_parts(self):
        self.add_mesh("n1", "n2")
        self.start(only="supernodes,placement,extender,ui")
        self.wait(lambda: len(self.objects()) == 1)
        lists = self.lists()
        self.assertEqual([len(of_kind) for of_kind in lists.values()], [1, 1, 1, 1])
        self.assertNotIn("PartialObjectMetadata", lists[NODES][0])


class Flooded(Case):
    def test_silent_sockets_keep_nobody_out(self):
        """2,000 on each port in turn: every port answers in time for a probe."""
        health, https = free_port(), free_port()
        self.add_mesh("n1", "n2")
        companion = self.start("--health", f"127.0.0.1:{health}", "--https", f"127.0.0.1:{https}", "--tls-certificate",
                               f"{self.certificates}/server.crt", "--tls-key", f"{self.certificates}/server.key")
        context = ssl.create_default_context(cafile=f"{self.certificates}/ca.crt")
        ports = ((health, None), (companion.port, None), (https, context))
        for flooded, _ in ports:
            with SilentSockets(flooded) as silent:
                end = time.monotonic() + 2
                while time.monotonic() < end or silent.closed < 500:
                    for port, how in ports:
                        status, seconds = look(port, "/healthz", how)
                        self.assertEqual(status, 200, (flooded, port))
                        self.assertLess(seconds, PROBE_S, (flooded, port))
                    time.sleep(0.05)
        self.assertEqual(look(health, "/readyz")[0], 200)
        self.assertEqual(look(health, "/metrics")[0], 404)

    def test_few_descriptors(self):
        """Where the process may have 256, silent sockets leave it what it needs for the API server."""
        program = f"{self.directory}/few"
        with open(program, "w", encoding="ascii") as script:
            script.write(f'#!/bin/sh\nulimit -n 256\nexec {SCHEDULER} "$@"\n')
        os.chmod(program, 0o755)
        self.add_mesh("n1", "n2")
        companion = self.start(program=program)
        with SilentSockets(companion.port):
            self.add_mesh("m1", "m2")
            self.wait(lambda: len(self.members()) == 2)
            self.assertLess(companion.metrics()["process_open_fds"], 192)


@unittest.skipUnless(stopped_thread.possible(), "needs ptrace of a child")
class TheLoopHangs(Case):
    def test_sigterm_ends_it(self):
        config = kubeconfig(f"{self.directory}/config", self.api.url, f"certificate-authority: {self.certificates}/ca.crt",
                            "token: token-1")
        companion = Companion(SCHEDULER, "--only=supernodes", "--namespace", NAMESPACE, "--kubeconfig", config)
        self.addCleanup(lambda: companion.process.poll() is None and companion.stop())
        self.assertTrue(wait_for(companion.is_ready), companion.lines)
        stopped = stopped_thread.StoppedThread(companion.process.pid, "gputopo-schedul")
        self.addCleanup(stopped.release)
        begin = time.monotonic()
        self.assertEqual(companion.stop(PROBE_S), 1)
        self.assertLess(time.monotonic() - begin, PROBE_S)
        self.assertEqual(companion.events("something hangs, leaving without it")[0]["level"], "warning")


class Joining(Case):
    def test_reports_are_joined(self):
        self.add_mesh("n1", "n2", "n3", free=4)
        self.add_mesh("m1", "m2", links="False")
        self.add_node("alone")
        self.add_report("alone")
        self.start()
        self.wait(lambda: len(self.statuses()) == 2 and all(self.statuses().values()))
        statuses = {tuple(m["node"] for m in s["members"]): s for s in self.statuses().values()}
        self.assertEqual(set(statuses), {("n1", "n2", "n3"), ("m1", "m2")})
        three, two = statuses["n1", "n2", "n3"], statuses["m1", "m2"]
        self.assertEqual((three["tier"], three["source"], three["nodes"], three["capacity"], three["free"]),
                         (1, "report", 3, 24, 12))
        self.assertIs(three["linksHealthy"], True)
        self.assertIs(two["linksHealthy"], False)
        self.assertEqual(three["members"][0], {"node": "n1", "server": "uuid-n1", "gpus": 8, "free": 4})
        self.assertEqual(two["members"][0], {"node": "m1", "server": "uuid-m1", "gpus": 8})
        for name, obj in self.objects().items():
            self.assertEqual(obj["metadata"]["labels"], LABEL, name)
            jsonschema.validate(obj["status"], status_schema("supernodes"))
        ready = {tuple(m["node"] for m in s["members"]): s["conditions"][0] for s in self.statuses().values()}
        self.assertEqual((ready["n1", "n2", "n3"]["type"], ready["n1", "n2", "n3"]["status"]), ("Ready", "True"))
        self.assertEqual(ready["n1", "n2", "n3"]["reason"], "Complete")
        self.assertEqual(ready["m1", "m2"]["reason"], "UseUnknown")

    def test_more_nodes_than_an_object_lists(self):
        """Its sums are of all of them."""
        count = 8193
        for i in range(count):
            self.add_node(f"n{i:04}", label="hall")
            self.add_report(f"n{i:04}", gpus=1, free=1)
        self.start()
        self.wait(lambda: self.condition("hall", "Ready") == ("False", "TooLarge", "8193 nodes, of which 8192 are listed"))
        status = self.statuses()["hall"]
        self.assertEqual((len(status["members"]), status["nodes"], status["capacity"], status["free"]),
                         (8192, count, count, count))
        self.api.remove(NODES, "n0000")
        self.wait(lambda: self.condition("hall", "Ready")[1] == "Complete")

    def test_spares_are_shown(self):
        """Those that it has by the option, or by its own annotation; of too many it has none."""
        self.add_mesh("n1", "n2", free=8)
        self.start("--spare-nodes=1", only="supernodes,placement,extender,ui")
        self.wait(lambda: [status.get("spares") for status in self.statuses().values()] == [1])
        [(name, found)] = self.objects().items()
        jsonschema.validate(found["status"], status_schema("supernodes"))
        for told, shown in (("2", 2), ("3", None), ("many", None), (None, 1), ("0", None)):
            with self.api.lock:
                found = self.objects()[name]
                annotations = {"metax-tech.com/spare-nodes": told} if told else {}
                self.api.add(SUPERNODES, name, metadata={"labels": LABEL, "annotations": annotations}, status=found["status"])
            self.wait(lambda: self.statuses()[name].get("spares") == shown)

    def test_only_changes_are_written(self):
        self.add_mesh("n1", "n2", free=8)
        companion = self.start()
        self.wait(lambda: all(self.statuses().values()) and self.statuses())
        self.settle()
        before = len(self.written())
        self.assertEqual(before, 2, "one to make it, one for its status")
        for _ in range(5):  # heartbeats: nothing that counts has changed
            self.api.add(TOPOLOGIES, "n1", status={**report("uuid-n1", "uuid-n2", free=8),
                                                   "observedAt": "2026-02-01T00:00:00Z"})
        self.pass_rounds(companion)
        self.assertEqual(len(self.written()), before)
        observed = next(iter(self.statuses().values()))["observedAt"]
        time.sleep(1)
        begun = time.monotonic()
        for free in (7, 6, 5, 4):  # within a second: written together
            self.add_report("n1", ["uuid-n2"], free=free)
        self.wait(lambda: next(iter(self.statuses().values()))["free"] == 12)
        status = next(iter(self.statuses().values()))
        self.assertNotEqual(status["observedAt"], observed)
        self.assertLessEqual(len(self.written()) - before, 2 + int(time.monotonic() - begun))
        self.assertEqual(companion.metrics()['gputopo_object_write_failures_total{kind="Supernode"}'], 0)
        self.assertEqual(companion.metrics()['gputopo_supernodes{tier="1"}'], 1)

    def test_a_supernode_goes_with_its_nodes(self):
        self.add_mesh("n1", "n2")
        self.start()
        self.wait(lambda: len(self.statuses()) == 1)
        self.api.remove(NODES, "n2")  # its report is still there
        self.wait_members({})

    def test_labels(self):
        self.add_mesh("n1", "n2")
        self.add_node("n3", label="rack-7")
        self.add_node("n4", label="rack-7")
        self.add_node("n5", label="Not A Name")
        companion = self.start()
        self.wait(lambda: self.members().get("rack-7") == ["n3", "n4"] and len(self.members()) == 2)
        self.assertEqual(self.statuses()["rack-7"]["source"], "label")
        self.assertEqual(self.condition("rack-7", "Ready")[:2], ("False", "NodesSilent"))
        self.wait(lambda: [note for reason, note in companion.said() if reason == "BadName" and "node n5" in note])
        self.add_node("n4", label="rack-8")
        self.wait(lambda: self.members().get("rack-8") == ["n4"] and self.members().get("rack-7") == ["n3"])

    def test_label_key_of_ones_own(self):
        self.api.add(NODES, "n1", metadata={"labels": {"example.com/block": "b-1", SUPERNODE_LABEL: "no"}})
        self.start("--supernode-label=example.com/block")
        self.wait_members({"b-1": ["n1"]})

    def test_the_old_label_is_read_where_it_is_asked_for(self):
        for name, labels in (("n1", {OLD_SUPERNODE_LABEL: "old"}), ("n2", {OLD_SUPERNODE_LABEL: "old", SUPERNODE_LABEL: "new"}),
                             ("n3", {OLD_SUPERNODE_LABEL: "old", SUPERNODE_LABEL: ""})):
            self.api.add(NODES, name, metadata={"labels": labels})
        companion = self.start()
        self.wait_members({"new": ["n2"]})
        told, = companion.events("a node label names a supernode and is not read any more")
        self.assertEqual((told["label"], told["read"]), (OLD_SUPERNODE_LABEL, SUPERNODE_LABEL))
        companion.stop()
        companion = self.start(f"--supernode-label={SUPERNODE_LABEL},{OLD_SUPERNODE_LABEL}")
        self.wait_members({"new": ["n2"], "old": ["n1", "n3"]})
        self.assertEqual(companion.events("a node label names a supernode and is not read any more"), [])


class Configuration(Case):
    GOOD = """
        groups:
        - {name: hall, tier: 2}
        - {name: rack-1, parent: hall, nodes: ["n[1-2]"]}
        - {name: rack-2, tier: 1, parent: hall, nodes: [n3]}
        """

    def test_tiers(self):
        self.add_mesh("n1", "n2", "n3", free=2)
        self.configure(self.GOOD)
        self.start()
        self.wait_members({"hall": [], "rack-1": ["n1", "n2"], "rack-2": ["n3"]})
        self.wait(lambda: all(self.statuses().values()))
        hall, rack = self.statuses()["hall"], self.statuses()["rack-1"]
        self.assertEqual((hall["tier"], hall["nodes"], hall["capacity"], hall["free"]), (2, 3, 24, 6))
        self.assertNotIn("members", hall)
        self.assertEqual((rack["parent"], rack["source"], rack["capacity"]), ("hall", "config", 16))
        for status in (hall, rack):
            jsonschema.validate(status, status_schema("supernodes"))
        # a change, and then nothing at all
        self.configure("groups: [{name: rack-2, nodes: [n1, n2, n3]}]")
        self.wait_members({"rack-2": ["n1", "n2", "n3"]})
        self.api.remove(CONFIGMAPS, "gputopo-supernodes")
        self.wait(lambda: len(self.members()) == 1 and list(self.statuses().values())[0].get("source") == "report")

    def test_mistakes_name_their_culprit(self):
        self.add_mesh("n1", "n2", "n3", free=2)
        self.configure("""
            groups:
            - {name: one, nodes: [n1, ghost]}
            - {name: two, nodes: [n1, n2]}
            - {name: ring-a, tier: 2, parent: ring-b}
            - {name: ring-b, tier: 2, parent: ring-a}
            - {name: Bad_Name, nodes: [n3]}
            - {tier: 1}
            - {name: odd, tier: high}
            - {name: three, nodes: ["n[9-3]", n3], colour: red}
            - {name: three, nodes: [n2]}
            - {name: none, parent: nobody, nodes: [ghost]}
            """)
        companion = self.start()
        self.wait(lambda: self.members() == {"one": ["n1"], "two": ["n2"], "three": ["n3"], "ring-a": [], "ring-b": [],
                                             "none": []} and all(self.statuses().values()))
        self.assertEqual(self.condition("one")[:2], ("True", "UnknownNode"))
        self.assertIn("ghost", self.condition("one")[2])
        self.assertIn("group two: node n1 is in group one already", self.condition("one")[2])
        self.assertEqual(self.condition("two")[:2], ("True", "NodeTwice"))
        self.assertEqual(self.condition("ring-a")[:2], ("True", "BadTier"))
        self.assertIn("ring-b", self.condition("ring-a")[2])
        self.assertEqual(self.condition("three"), ("False", "NoConflict", ""))
        self.assertIn("group none: there is no group nobody to be its parent", self.condition("none")[2])
        self.assertEqual(self.condition("ring-a", "Ready"),
                         ("False", "Empty", "no supernode with nodes names it as its parent"))
        self.assertEqual(self.condition("none", "Ready"), ("False", "Empty", "none of its nodes is there"))
        for status in self.statuses().values():
            jsonschema.validate(status, status_schema("supernodes"))
        self.wait(lambda: len(companion.said()) >= 12)
        self.assertEqual({reason for reason, _ in companion.said()},
                         {"UnknownNode", "NodeTwice", "BadTier", "BadName", "UnknownParent", "GroupTwice", "BadConfiguration"})
        notes = " | ".join(note for _, note in companion.said())
        for culprit in ("ghost", "Bad_Name", "groups[5] has no name", "odd: tier", "n[9-3]", "colour", "ring-a of tier 2"):
            self.assertIn(culprit, notes)
        self.wait(lambda: len(self.told_events()) >= 8)
        about = {(e["regarding"]["kind"], e["regarding"]["name"]) for e in self.told_events()}
        self.assertEqual(about, {("ConfigMap", "gputopo-supernodes")})
        self.settle()
        events = len(self.told_events())
        self.add_report("n1", ["uuid-n2"], free=1)
        self.wait(lambda: self.statuses()["one"]["free"] == 1)
        self.assertEqual(len(self.told_events()), events, "what is told is not told again")

    def test_nonsense_keeps_what_was(self):
        self.add_mesh("n1", "n2", "n3")
        self.configure(self.GOOD)
        companion = self.start()
        want = {"hall": [], "rack-1": ["n1", "n2"], "rack-2": ["n3"]}
        self.wait_members(want)
        for nonsense in ("groups: [", "a: &a [*a]", "groups: 7", "- x", "groups: {}", "x: y\n" * 2, '"' * 3):
            self.configure(nonsense)
            self.wait(lambda: companion.metrics()["gputopo_supernode_config_error"] == 1)
            self.configure(self.GOOD)
            self.wait(lambda: companion.metrics()["gputopo_supernode_config_error"] == 0)
        self.api.add(CONFIGMAPS, "gputopo-supernodes", data={"other.yaml": "groups: []"})
        self.wait(lambda: companion.metrics()["gputopo_supernode_config_error"] == 1)
        self.pass_rounds(companion)
        self.assertEqual(self.members(), want)
        # another process, which has never seen the good one
        companion.stop()
        self.configure("groups: [")
        again = self.start()
        self.wait(lambda: again.leads() and again.metrics()["gputopo_supernode_config_error"] == 1)
        self.wait(lambda: again.metrics()["gputopo_joins_total"] >= 1)
        self.pass_rounds(again)
        self.assertEqual(self.members(), want)
        self.assertTrue([r for r, _ in again.said() if r == "BadConfiguration"])

    def test_a_file(self):
        self.add_mesh("n1", "n2")
        path = f"{self.directory}/groups.json"
        with open(path, "w", encoding="ascii") as file:
            file.write('{"groups": [{"name": "f-1", "tier": 1, "nodes": ["n1", "nobody"]}]}')
        companion = self.start("--supernodes-config", path)
        self.wait_members({"f-1": ["n1"]})
        self.assertIn("nobody", self.condition("f-1")[2])
        self.wait(lambda: companion.said())
        self.assertFalse(self.api.asked(path=CONFIGMAPS))

    def test_a_file_of_options(self):
        self.add_mesh("n1", "n2")
        path = f"{self.directory}/options.yaml"
        with open(path, "w", encoding="ascii") as file:
            file.write("supernodes-config: none\nproject: [hypernodes, nodefeatures]\nlog-level: debug\nsupernodes: {x: 1}\n")
        self.start("--config", path, "--project=none")
        self.wait(lambda: len(self.members()) == 1)
        self.assertFalse(self.api.asked(path=HYPERNODES), "the command line wins")
        self.assertFalse(self.api.asked(path=CONFIGMAPS))


class Conflicts(Case):
    def test_asymmetric_split_and_same_server(self):
        self.add_mesh("a1", "a2")
        self.add_node("b1")
        self.add_report("b1", ["uuid-a1"])  # a1 does not see it
        for name in ("c1", "c2"):
            self.add_node(name)
            self.api.add(TOPOLOGIES, name, status=report("uuid-c", "uuid-a1"))
        for pair, hidden in ((("d1", "d2"), "uuid-0"), (("d3", "d4"), "uuid-0")):
            for name, other in (pair, pair[::-1]):
                self.add_node(name)
                self.add_report(name, [f"uuid-{other}", hidden])
        companion = self.start()
        self.wait(lambda: sorted(self.members().values()) == [["a1", "a2"], ["d1", "d2"], ["d3", "d4"]]
                  and all(self.statuses().values()))
        by_nodes = {tuple(nodes): name for name, nodes in self.members().items()}
        self.assertEqual(self.condition(by_nodes["a1", "a2"])[:2], ("True", "Asymmetric"))
        self.assertIn("b1 sees a1 over", self.condition(by_nodes["a1", "a2"])[2])
        for pair in (("d1", "d2"), ("d3", "d4")):
            self.assertEqual(self.condition(by_nodes[pair])[:2], ("True", "Split"))
        self.wait(lambda: {"Asymmetric", "SameUUID", "Split"} <= {reason for reason, _ in companion.said()})
        self.wait(lambda: {("Asymmetric", "Node", "b1"), ("SameUUID", "Node", "c1")} <= {
            (e["reason"], e["regarding"]["kind"], e["regarding"]["name"]) for e in self.told_events()})
        # mended: the condition goes, and the time of its change is a new one
        self.add_report("b1", [])
        self.wait(lambda: self.condition(by_nodes["a1", "a2"])[0] == "False")

    def take(self, node, server):
        """A taken node says that it is another's server, and sees what that one sees."""
        self.api.add(TOPOLOGIES, node, status=report(f"uuid-{server}", "uuid-n1", "uuid-n2", "uuid-n3"))

    def test_a_taken_node_does_not_take_anothers_place(self):
        self.add_mesh("n1", "n2")
        for name in ("a0", "z9"):  # before and behind its victim by name
            self.add_node(name)
            self.add_report(name)
        companion = self.start()
        self.wait(lambda: list(self.members().values()) == [["n1", "n2"]])
        name, = self.members()
        for node in ("a0", "z9"):
            self.take(node, "n1")
        self.wait(lambda: (self.condition(name) or "")[:2] == ("True", "TakenUUID"))
        self.assertEqual(self.members(), {name: ["n1", "n2"]})
        self.assertEqual(self.condition(name)[2], "node a0 reports server UUID uuid-n1, which is that of node n1; "
                                                  "node z9 reports server UUID uuid-n1, which is that of node n1")
        self.wait(lambda: {("TakenUUID", "Node", "a0"), ("TakenUUID", "Node", "z9")} <= {
            (e["reason"], e["regarding"]["kind"], e["regarding"]["name"]) for e in self.told_events()})
        self.assertEqual(companion.metrics()['gputopo_supernode_problems{kind="TakenUUID"}'], 2)
        # who is silent for a while comes back, and nobody has its place meanwhile
        self.api.add(TOPOLOGIES, "n1", status={**report(None), "supernode": None})
        self.wait(lambda: not self.members())
        self.add_report("n1", ["uuid-n2"])
        self.wait_members({name: ["n1", "n2"]})
        # the server is installed again under another name: its old Node goes, so the UUID is free
        for node in ("a0", "z9"):
            self.add_report(node)
        self.api.remove(NODES, "n1")
        self.add_node("n1-new")
        self.api.add(TOPOLOGIES, "n1-new", status=report("uuid-n1", "uuid-n2"))
        self.wait_members({name: ["n1-new", "n2"]})
        self.wait(lambda: self.condition(name)[0] == "False")

    def test_a_new_companion_knows_whose_place_it_is(self):
        self.add_mesh("n1", "n2")
        self.add_node("a0")
        companion = self.start()
        self.wait(lambda: list(self.members().values()) == [["n1", "n2"]])
        name, = self.members()
        companion.stop()
        self.take("a0", "n1")
        self.start()
        self.wait(lambda: (self.condition(name) or "")[:2] == ("True", "TakenUUID"))
        self.assertEqual(self.members(), {name: ["n1", "n2"]})
        self.assertFalse([r for r in self.written() if r.method == "DELETE"])

    def test_the_next_leader_knows_whose_place_it_is(self):
        self.add_node("a0")
        self.add_report("a0")
        first = self.start()
        self.wait(first.leads)
        second = self.start(user="token: token-1")
        self.add_mesh("n1", "n2")
        self.wait(lambda: list(self.members().values()) == [["n1", "n2"]])
        name, = self.members()
        self.take("a0", "n1")
        self.wait(lambda: (self.condition(name) or "")[:2] == ("True", "TakenUUID"))
        first.stop()
        self.wait(second.leads)
        self.add_report("n2", ["uuid-n1"], gpus=4)
        self.wait(lambda: self.statuses()[name]["capacity"] == 12)
        self.assertEqual((self.members(), self.condition(name)[1]), ({name: ["n1", "n2"]}, "TakenUUID"))

    def test_several_that_come_with_one_uuid(self):
        self.add_mesh("n1", "n2")
        self.add_node("a0")
        self.take("a0", "n1")
        companion = self.start()  # which of them it was is not known: neither
        self.wait(lambda: "SameUUID" in {reason for reason, _ in companion.said()})
        self.assertEqual(self.members(), {})
        self.add_report("a0")
        self.wait(lambda: list(self.members().values()) == [["n1", "n2"]])

    def test_a_definition_that_does_not_know_all(self):
        """The custom resource definitions of an older version: what they drop is not written again and again."""
        original = self.api.apply

        def drop(collection, name, request):
            if collection[2] == "supernodes":
                request = copy.copy(request)
                request.body = request.body.replace(b'"server"', b'"dropped"')
                body = json.loads(request.body)
                for member in body.get("status", {}).get("members", []):
                    member.pop("dropped", None)
                request.body = json.dumps(body).encode()
            return original(collection, name, request)
        self.api.apply = drop
        self.add_mesh("n1", "n2")
        companion = self.start()
        self.wait(lambda: list(self.members().values()) == [["n1", "n2"]])
        self.wait(lambda: companion.metrics()['gputopo_object_write_failures_total{kind="Supernode"}'] >= 1)
        self.settle()
        self.assertLess(len(self.written()), 12)
        self.assertIn("is its custom resource definition that of this version?", str(companion.events("cannot write")))

    def test_an_object_of_somebody_else(self):
        self.add_mesh("n1", "n2")
        self.configure("groups: [{name: theirs, nodes: [n1]}, {name: ours, nodes: [n2]}]")
        theirs = {"tier": 4, "source": "config", "members": "nonsense"}
        self.api.add(SUPERNODES, "theirs", status=theirs)
        self.api.add(SUPERNODES, "unrelated", status=theirs)
        companion = self.start()
        self.wait(lambda: self.members().get("ours") == ["n2"])
        self.wait(lambda: [note for reason, note in companion.said() if reason == "NameTaken" and "theirs" in note])
        self.pass_rounds(companion)
        self.assertEqual(self.statuses()["theirs"], theirs)
        self.assertEqual(self.statuses()["unrelated"], theirs)
        self.assertFalse([r for r in self.written() if "theirs" in r.path or "unrelated" in r.path])
        # it goes, so ours is made
        self.api.remove(SUPERNODES, "theirs")
        self.wait(lambda: self.statuses().get("theirs", {}).get("members") == [{"node": "n1", "gpus": 8}])

    def test_hand_edits_are_mended(self):
        self.add_mesh("n1", "n2", free=1)
        self.start()
        self.wait(lambda: self.statuses() and all(self.statuses().values()))
        name, obj = next(iter(self.objects().items()))
        since = obj["status"]["conditions"]
        self.settle()
        for edit in ({"tier": 5, "parent": "nowhere", "members": []}, {"members": {"node": 7}, "free": "many"},
                     {"conditions": "none at all"}, {}):
            status = {**obj["status"], **edit} if edit else {}
            self.api.add(SUPERNODES, name, status=status, metadata={"labels": LABEL})
            self.wait(lambda: self.members() == {name: ["n1", "n2"]} and "parent" not in self.statuses()[name]
                      and self.statuses()[name].get("free") == 2 and self.condition(name, "Ready"))
            if edit and "conditions" not in edit:
                self.assertEqual([c["lastTransitionTime"] for c in self.statuses()[name]["conditions"]],
                                 [c["lastTransitionTime"] for c in since])
        # a condition of somebody else's stays
        foreign = {"type": "Theirs", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "x"}
        status = self.statuses()[name]
        self.api.add(SUPERNODES, name, metadata={"labels": LABEL},
                     status={**status, "conditions": [*status["conditions"], foreign]})
        self.settle()
        self.assertIn(foreign, self.statuses()[name]["conditions"])
        self.api.remove(SUPERNODES, name)
        self.wait_members({name: ["n1", "n2"]})

    def test_an_edit_that_is_heard_of_before_our_answer(self):
        """The watch tells of our write and then of the edit, while the answer to the write is on its way: it tells of what is no more."""
        self.add_mesh("n1", "n2")
        serve, edited = self.api.serve, []

        def hold_back(request):
            answer = serve(request)
            if request.method == "PATCH" and "/supernodes/" in request.path and request.path.endswith("/status") and not edited:
                edited.append(request.path.split("/")[-2])
                events = companion.metrics()[EVENTS]
                self.api.add(SUPERNODES, edited[0], status={"tier": 5, "members": []}, metadata={"labels": LABEL})
                wait_for(lambda: companion.metrics()[EVENTS] > events, 10)
            return answer
        self.api.serve = hold_back
        companion = self.start()
        self.wait(lambda: edited)
        self.wait(lambda: self.members() == {edited[0]: ["n1", "n2"]} and self.statuses()[edited[0]]["tier"] == 1)

    def test_our_own_writes_are_no_news(self):
        """Supernodes are not worked out again when the watch tells of a write before its answer comes."""
        for pair in ("ab", "cd", "ef"):
            self.add_mesh(*pair)
        serve, joins, early = self.api.serve, [], []

        def hold_back(request):
            is_write = request.method in ("POST", "PATCH") and "/supernodes" in request.path
            events = companion.metrics()[EVENTS] if is_write else 0
            if is_write and not joins:
                joins.append(companion.metrics()["gputopo_joins_total"])
            answer = serve(request)
            if is_write:
                early.append(wait_for(lambda: companion.metrics()[EVENTS] > events, 10))
            return answer
        self.api.serve = hold_back
        companion = self.start()
        self.wait(lambda: len(self.members()) == 3 and len(early) >= 6)
        self.settle()
        self.assertTrue(all(early), early)
        self.assertEqual(companion.metrics()["gputopo_joins_total"], joins[0])

    def test_a_report_that_is_too_large(self):
        self.add_mesh("n1", "n2")
        companion = self.start()
        self.wait(lambda: list(self.members().values()) == [["n1", "n2"]])
        lists = len(self.api.asked(method="GET", watch=False))
        for _ in range(3):
            self.add_report("n1", ["uuid-n2"], note="x" * (5 << 20))
        self.add_report("n2", ["uuid-n1"], gpus=4)
        self.wait(lambda: [s["capacity"] for s in self.statuses().values()] == [12])
        self.assertEqual(companion.metrics()["gputopo_api_oversize_total"], 3)
        self.assertEqual([(e["object"], e["limit"]) for e in companion.events("an object is too large to be read: what was known of it stays")],
                         [("nodegputopologies n1", 4 << 20)])
        self.assertEqual([r.path for r in self.api.asked(method="GET", watch=False)[lists:] if "leases" not in r.path], [])

    def test_nonsense_in_reports(self):
        self.add_mesh("n1", "n2", free=1)
        for i, status in enumerate((None, 7, [], "x", {"supernode": 7}, {"supernode": {"uuid": 7, "remote": "x"}},
                                    {"supernode": {"uuid": "u" * 5000, "remote": [{}, None, 7, "r" * 5000] * 500}},
                                    {"gpuCount": -1, "freeCount": 1e300, "conditions": {"a": 7}, "gpus": {"x": []}},
                                    {"gpuCount": 4, "freeCount": 5, "conditions": [7, None, {"type": 7}]},
                                    {"gpuCount": 1.5})):
            self.add_node(f"odd-{i}")
            self.api.add(TOPOLOGIES, f"odd-{i}", **({} if status is None else {"status": status}))
        self.api.add(NODES, "odd-label", metadata={"labels": {SUPERNODE_LABEL: {"a": 1}}})
        self.api.add(NODES, "odd-labels", metadata={"labels": [1, 2]})
        companion = self.start("--project=nodefeatures")
        self.wait(lambda: list(self.members().values()) == [["n1", "n2"]])
        self.assertEqual(companion.metrics()['gputopo_nodes{state="placed"}'], 2)


class Volcano(Case):
    def members_of(self, path=HYPERNODES):
        return {name: [(m["type"], m["selector"].get("exactMatch", {}).get("name")) for m in obj["spec"]["members"]]
                for name, obj in self.objects(path).items()}

    def add_hypernode(self, name, *members, tier=1, labels=None):
        self.api.add(HYPERNODES, name, spec={"tier": tier, "members": list(members)},
                     metadata={"labels": labels or {}})

    @staticmethod
    def exact(kind, name):
        return {"type": kind, "selector": {"exactMatch": {"name": name}}}

    def test_tiers_and_members(self):
        self.add_mesh("n1", "n2", "n3", free=2)
        self.configure(Configuration.GOOD)
        self.start("--project=hypernodes")
        want = {"rack-1": [("Node", "n1"), ("Node", "n2")], "rack-2": [("Node", "n3")],
                "hall": [("HyperNode", "rack-1"), ("HyperNode", "rack-2")]}
        self.wait(lambda: self.members_of() == want)
        obj = self.objects(HYPERNODES)["hall"]
        self.assertEqual(obj["spec"]["tier"], 2)
        self.assertEqual(obj["metadata"]["labels"], {**LABEL, "volcano.sh/network-topology-source": "gputopo"})
        self.wait(lambda: self.condition("hall", "HyperNode") == ("True", "Projected", "the HyperNode hall has every member"))
        self.settle()
        before = len(self.written("hypernodes"))
        self.add_report("n1", ["uuid-n2"], free=1)  # the use of GPUs is nothing to a HyperNode
        self.wait(lambda: self.statuses()["rack-1"]["free"] == 3)
        self.assertEqual(len(self.written("hypernodes")), before)

    def test_a_member_never_has_two_parents(self):
        self.add_mesh("n1", "n2", "n3", free=2)
        self.configure("groups: [{name: r1, nodes: [n1, n2]}, {name: r2, nodes: [n3]}]")
        self.start("--project=hypernodes")
        self.wait(lambda: self.members_of() == {"r1": [("Node", "n1"), ("Node", "n2")], "r2": [("Node", "n3")]})
        self.settle()
        version = self.api.version
        self.configure("groups: [{name: r1, nodes: [n1]}, {name: r2, nodes: [n2, n3]}]")
        self.wait(lambda: self.members_of() == {"r1": [("Node", "n1")], "r2": [("Node", "n2"), ("Node", "n3")]})
        now = {}
        for at, kind, where, obj in self.api.history:  # every state that Volcano could have seen
            if where[2] == "hypernodes" and at > version:
                now[obj["metadata"]["name"]] = [m["selector"]["exactMatch"]["name"] for m in obj["spec"]["members"]]
                held = [node for nodes in now.values() for node in nodes]
                self.assertEqual(len(held), len(set(held)), (kind, now))
        self.wait(lambda: self.condition("r2", "HyperNode")[1] == "Projected")
        told = [(c["reason"], c["message"]) for _, _, where, obj in self.api.history if where[2] == "supernodes"
                for c in obj.get("status", {}).get("conditions", [])]
        self.assertIn(("Moving", "1 member is still held by another HyperNode of ours"), told)

    def test_what_others_hold_is_left_to_them(self):
        self.add_mesh("n1", "n2", "n3", "n4", "n5")
        self.configure("""
            groups: [{name: r1, parent: top, nodes: [n1, n2]}, {name: r2, parent: top, nodes: [n3]},
                     {name: r3, parent: top, nodes: [n4]}, {name: taken, parent: top, nodes: [n5]}, {name: top, tier: 2}]""")
        theirs = [("leaf", [self.exact("Node", "n2")]), ("taken", [self.exact("Node", "zzz")]),
                  ("regex", [{"type": "Node", "selector": {"regexMatch": {"pattern": "^n3$"}}}]),
                  ("big", [self.exact("HyperNode", "r3")])]
        for name, members in theirs:
            self.add_hypernode(name, *members)
        companion = self.start("--project=hypernodes")
        self.wait(lambda: self.members_of().get("top") == [("HyperNode", "r1")])
        self.assertEqual(self.members_of()["r1"], [("Node", "n1")])
        self.wait(lambda: self.members_of().get("r3") == [("Node", "n4")])
        self.assertNotIn("r2", self.members_of())
        self.wait(lambda: all(self.condition(name, "HyperNode") for name in ("r1", "r2", "taken", "top")))
        self.assertEqual(self.condition("r1", "HyperNode"),
                         ("False", "MemberHeld", "node n2 is held by the HyperNode leaf, which is somebody else's"))
        self.assertEqual(self.condition("r2", "HyperNode")[1], "MemberHeld")
        self.assertEqual(self.condition("taken", "HyperNode")[1], "NameTaken")
        self.assertIn("HyperNode r3 is held by the HyperNode big", self.condition("top", "HyperNode")[2])
        self.wait(lambda: len([1 for reason, _ in companion.said() if reason == "MemberHeld"]) >= 3)
        for name, members in theirs:
            self.assertEqual(self.objects(HYPERNODES)[name]["spec"]["members"], members)
        self.assertFalse([r for r in self.written("hypernodes") if r.path.split("/")[-1] in dict(theirs)])
        # they let go
        self.api.remove(HYPERNODES, "leaf")
        self.wait(lambda: self.members_of()["r1"] == [("Node", "n1"), ("Node", "n2")])
        # one that may hold anything
        self.add_hypernode("labels", {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"a": "b"}}}})
        self.wait(lambda: not {"r1", "r2", "r3", "top"} & set(self.members_of()))

    def test_without_volcano(self):
        self.add_mesh("n1", "n2")
        self.api.fail(Status(404), times=1000, path="hypernodes")
        companion = self.start("--project=hypernodes")
        self.wait(lambda: len(self.members()) == 1 and all(self.statuses().values()))
        name = next(iter(self.members()))
        self.assertEqual(self.condition(name, "HyperNode")[:2], ("False", "NotInstalled"))
        time.sleep(4)
        said = companion.events("the cluster does not know this kind, it is looked up again now and then")
        self.assertEqual([line["kind"] for line in said], ["HyperNode"])
        self.assertLess(len([r for r in self.api.asked() if "hypernodes" in r.path]), 12)
        for fault in self.api.faults:
            fault.left = 0
        self.wait(lambda: self.members_of() == {name: [("Node", "n1"), ("Node", "n2")]})


class NodeFeatures(Case):
    def test_features(self):
        self.add_mesh("n1", "n2", free=3)
        self.add_node("n3")
        self.configure("groups: [{name: r1, parent: top, nodes: [n1, n2]}, {name: top, tier: 2, parent: site}, {name: site, tier: 4}]")
        self.start("--project=nodefeatures")
        self.wait(lambda: set(self.objects(FEATURES)) == {"gputopo-n1", "gputopo-n2"})
        obj = self.objects(FEATURES)["gputopo-n1"]
        self.assertEqual(obj["metadata"]["labels"], {**LABEL, "nfd.node.kubernetes.io/node-name": "n1"})
        self.assertEqual(obj["spec"]["labels"], {"topology.metax-tech.com/member-of": "r1", "topology.metax-tech.com/tier-2": "top",
                                                 "topology.metax-tech.com/tier-4": "site"})
        features = obj["spec"]["features"]
        self.assertEqual(set(features), {"flags", "attributes", "instances"})
        self.assertEqual(features["attributes"]["metax.supernode"]["elements"],
                         {"name": "r1", "tier": "1", "source": "config", "parent": "top"})
        self.assertEqual(features["attributes"]["metax.node"]["elements"], {"gpus": "8", "links": "up"})
        gpus = features["instances"]["metax.gpu"]["elements"]
        self.assertEqual(len(gpus), 8)
        self.assertEqual(gpus[5], {"attributes": {"index": "5", "product": "MXC500", "bdf": "0000:05:00.0",
                                                  "numaNode": "1", "zone": "0", "health": "healthy", "healthy": "true"}})
        self.settle()
        before = len(self.written("nodefeatures"))
        self.add_report("n1", ["uuid-n2"], free=1)
        self.wait(lambda: self.statuses()["r1"]["free"] == 4)
        self.assertEqual(len(self.written("nodefeatures")), before)
        self.api.remove(TOPOLOGIES, "n2")
        self.wait(lambda: set(self.objects(FEATURES)) == {"gputopo-n1"})


class Leading(Case):
    def lease(self):
        return self.objects(LEASES).get("gputopo-scheduler", {}).get("spec", {})

    def reads_of_leases(self):
        return sum("/leases" in r.path for r in self.api.asked(method="GET"))

    def test_one_of_two_writes(self):
        self.add_mesh("n1", "n2", free=2)
        one = self.start()
        self.wait(one.leads)
        holder = self.lease()["holderIdentity"]
        two = self.start()
        self.wait(lambda: "stands by" in two.get("/readyz")[1])
        reads = self.reads_of_leases()
        self.wait(lambda: self.reads_of_leases() >= reads + 2)  # it has looked, and stays so
        self.assertFalse(two.leads())
        self.assertEqual(self.lease()["holderIdentity"], holder)
        self.assertEqual(self.lease()["leaseDurationSeconds"], 15)
        # given back: the other one need not wait for 15 seconds
        self.assertEqual(one.stop(), 0)
        self.assertNotEqual(self.lease().get("holderIdentity"), holder)
        self.wait(two.leads)
        self.assertNotEqual(self.lease()["holderIdentity"], holder)
        self.assertGreaterEqual(self.lease()["leaseTransitions"], 1)
        self.add_report("n1", ["uuid-n2"], free=1)
        self.wait(lambda: list(self.statuses().values())[0]["free"] == 3)

    def test_another_holder(self):
        """Somebody else takes the lease: we cease at once, and come back when he has been silent for its time."""
        self.add_mesh("n1", "n2", free=2)
        companion = self.start()
        self.wait(companion.leads)
        self.settle()
        taken = time.monotonic()
        self.api.add(LEASES, "gputopo-scheduler", spec={"holderIdentity": "other", "leaseDurationSeconds": 4,
                                                        "leaseTransitions": 7})
        self.wait(lambda: not companion.leads())
        before = len(self.written())
        self.add_report("n1", ["uuid-n2"], free=1)
        self.wait(companion.leads)
        self.assertGreater(time.monotonic() - taken, 4)
        self.assertEqual([r for r in self.written()[before:] if r.at - taken < 4], [])
        self.assertEqual(self.lease()["leaseTransitions"], 8)
        self.wait(lambda: list(self.statuses().values())[0]["free"] == 3)
        self.assertEqual(companion.metrics()["gputopo_leader_lost_total"], 1)

    def test_nothing_is_written_without_the_lease(self):
        self.add_mesh("n1", "n2", free=2)
        self.api.fail(Status(403), times=10000, path="leases")
        companion = self.start()
        self.wait(lambda: len([r for r in self.api.asked() if "leases" in r.path]) >= 3)
        self.assertEqual(self.objects(), {})
        self.assertFalse([r for r in self.api.asked() if r.method != "GET" and "leases" not in r.path])
        self.wait(lambda: companion.events("the lease cannot be written or read"))

    def test_the_api_server_away(self):
        self.add_mesh("n1", "n2", free=2)
        companion = self.start()
        self.wait(lambda: self.statuses() and all(self.statuses().values()))
        self.api.stop()
        self.wait(lambda: not companion.leads())
        self.assertEqual(companion.get("/healthz")[0], 200)
        with self.api.lock:
            self.add_report("n1", ["uuid-n2"], free=1)
            self.api.compact()
        self.api.start()
        self.wait(lambda: list(self.statuses().values())[0]["free"] == 3)

    def test_without_election(self):
        self.add_mesh("n1", "n2")
        self.start("--leader-elect=false")
        self.wait(lambda: len(self.members()) == 1)
        self.assertEqual(self.objects(LEASES), {})


class Program(Case):
    def run_it(self, *arguments, timeout=PATIENCE):
        return subprocess.run([SCHEDULER, *arguments], capture_output=True, text=True, timeout=timeout, check=False)

    def test_usage(self):
        for arguments, word in ((["--only=nothing"], "nothing"), (["--only="], "--only"), (["--nonsense"], "--nonsense"),
                                (["--http=x"], "--http"), (["--leader-elect=perhaps"], "perhaps"), (["x"], "x"),
                                (["--project=a,hypernodes"], "'a'"), (["--supernode-label=a/b/c"], "a/b/c"),
                                (["--supernodes-config=a b"], "a b"), (["--config=/nowhere"], "/nowhere"),
                                (["--namespace=A b"], "A b"), (["--kubeconfig"], "--kubeconfig"), (["--help=1"], "--help")):
            with self.subTest(arguments):
                done = self.run_it(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(word, done.stderr)
        for text, word in (("x: 1", "x"), ("[]", "mapping"), ("http: {a: b}", "http"), ("config: a", "config"),
                           ("only: [supernodes, 7]", "7"), ("only: [[a]]", "only"), ("a: [", "YAML"), ("help: true", "help")):
            with self.subTest(text):
                path = f"{self.directory}/bad.yaml"
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                done = self.run_it("--config", path)
                self.assertEqual(done.returncode, 2, done)
                self.assertIn(path, done.stderr)
                self.assertIn(word, done.stderr)

    def test_help_and_version(self):
        done = self.run_it("--help")
        self.assertEqual(done.returncode, 0)
        for word in ("--only PARTS", "--leader-elect BOOL", "supernodes "):
            self.assertIn(word, done.stdout)
        self.assertRegex(self.run_it("--version").stdout, r"^gputopo-scheduler \d+\.\d+\.\d+ \(\w")

    def test_failures_to_start(self):
        self.add_mesh("n1", "n2")
        for arguments, word in (([], "--kubeconfig"), (["--kubeconfig", "/nowhere"], "/nowhere")):
            done = subprocess.run([SCHEDULER, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False,
                                  env={k: v for k, v in os.environ.items() if not k.startswith("KUBE")})
            self.assertEqual(done.returncode, 1, done)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(word, done.stderr)
        companion = self.start()
        done = self.run_it("--http", f"127.0.0.1:{companion.port}", "--kubeconfig", f"{self.directory}/config")
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(companion.port), done.stderr)

    def test_not_ready_says_why(self):
        self.api.fail(Status(403, "forbidden here"), times=10000, path="nodegputopologies")
        companion = self.start(wait=False)
        self.wait(lambda: companion.events("cannot watch"))
        self.wait(lambda: "supernodes: NodeGPUTopologies not known yet: 403" in companion.get("/readyz")[1])
        self.assertEqual(companion.get("/readyz")[0], 503)
        self.assertEqual(companion.get("/nowhere")[0], 404)
        self.assertEqual(self.objects(), {})
        metrics = companion.metrics()
        self.assertGreaterEqual(metrics['gputopo_informer_list_failures_total{resource="nodegputopologies"}'], 1)
        self.assertEqual(metrics['gputopo_informer_lists_total{resource="nodegputopologies"}'], 0)
        self.wait(lambda: companion.metrics()['gputopo_informer_lists_total{resource="supernodes"}'] == 1)
        self.assertEqual(metrics['gputopo_informer_list_failures_total{resource="supernodes"}'], 0)


unittest.main(verbosity=2)
