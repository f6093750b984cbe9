#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The companion makes Supernodes of what the nodes and the configuration say, and tells of conflicts.

Usage: test_companion_supernodes.py GPUTOPO_SCHEDULER [unittest arguments]
"""

import copy
import json
import time

import jsonschema
import side_by_side
from companion_case import CONFIGMAPS, GROUPS, Case
from companion_driver import LABEL, NODES, OLD_SUPERNODE_LABEL, SUPERNODE_LABEL, SUPERNODES, TOPOLOGIES, report
from crds import status_schema
from daemon_driver import wait_for

EVENTS = 'gputopo_informer_events_total{resource="supernodes"}'


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
    def test_tiers(self):
        self.add_mesh("n1", "n2", "n3", free=2)
        self.configure(GROUPS)
        self.start()
        self.wait_members({"hall": [], "rack-1": ["n1", "n2"], "rack-2": ["n3"]})
        self.wait(lambda: all(self.statuses().values()))
        hall, rack = self.statuses()["hall"], self.statuses()["rack-1"]
        self.assertEqual((hall["tier"], hall["nodes"], hall["capacity"], hall["free"]), (2, 3, 24, 6))
        self.assertNotIn("members", hall)
        self.assertEqual((rack["parent"], rack["source"], rack["capacity"]), ("hall", "config", 16))
        for status in (hall, rack):
            jsonschema.validate(status, status_schema("supernodes"))
        self.configure(GROUPS + "\ntiers: [{tier: 1, bandwidthGBps: 12.5}, {tier: 3, bandwidthGBps: fast}]")
        self.wait(lambda: {n: s.get("bandwidthGBps") for n, s in self.statuses().items()} == {"hall": None, "rack-1": 12.5, "rack-2": 12.5})
        jsonschema.validate(self.statuses()["rack-1"], status_schema("supernodes"))
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
        self.configure(GROUPS)
        companion = self.start()
        want = {"hall": [], "rack-1": ["n1", "n2"], "rack-2": ["n3"]}
        self.wait_members(want)
        for nonsense in ("groups: [", "a: &a [*a]", "groups: 7", "- x", "groups: {}", "x: y\n" * 2, '"' * 3):
            self.configure(nonsense)
            self.wait(lambda: companion.metrics()["gputopo_supernode_config_error"] == 1)
            self.configure(GROUPS)
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
        self.wait(lambda: [r for r, _ in again.said() if r == "BadConfiguration"])
        self.add_report("n3", gpus=4)
        self.settle()
        self.assertEqual((self.members(), again.metrics()["gputopo_joins_total"]), (want, 0))
        self.configure(GROUPS)
        self.wait(lambda: self.statuses()["rack-2"]["capacity"] == 4)
        self.assertEqual(self.members(), want)

    def test_deleted_and_made_again(self):
        self.add_mesh("n1", "n2", "n3")
        self.configure(GROUPS)
        self.start()
        want = {"hall": [], "rack-1": ["n1", "n2"], "rack-2": ["n3"]}
        self.wait_members(want)
        self.api.remove(CONFIGMAPS, "gputopo-supernodes")
        self.wait(lambda: "rack-1" not in self.members() and len(self.members()) == 1)  # what the nodes report
        self.configure(GROUPS)
        self.wait_members(want)
        self.configure(GROUPS.replace("rack-1", "row-1"))
        self.wait_members({"hall": [], "row-1": ["n1", "n2"], "rack-2": ["n3"]})
        for name in ("row-1", "hall"):
            self.api.remove(SUPERNODES, name)
        self.wait_members({"hall": [], "row-1": ["n1", "n2"], "rack-2": ["n3"]})

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


class Network(Case):
    """Tiers above supernodes, from what describes the network."""

    def tiers(self):
        return {name: (s.get("tier"), s.get("parent", ""), s.get("source")) for name, s in self.statuses().items()}

    def give(self, **keys):
        self.api.add(CONFIGMAPS, "gputopo-network", data={key.replace("_", "."): text for key, text in keys.items()})

    def test_a_table_and_its_mistakes(self):
        self.add_mesh("n1", "n2")
        self.add_mesh("n3", "n4")
        self.add_node("n5")
        self.add_report("n5")
        self.give(network_csv="node,leaf,hall\nn1,l1,h1\nn2,l1,h1\nn3,l2,h1\nn4,l2,h1\nn5,l2,h1\nn5,l1,h1\nn6,l2\n")
        companion = self.start("--network=gputopo-network")
        self.wait(lambda: len(self.tiers()) == 6 and all(t[0] for t in self.tiers().values()))
        tiers = self.tiers()
        self.assertEqual({name: tier for name, tier in tiers.items() if not name.startswith("mx-")},
                         {"n5": (1, "l2", "network"), "l1": (2, "h1", "network"), "l2": (2, "h1", "network"),
                          "h1": (3, "", "network")})
        self.assertEqual(sorted(t for name, t in tiers.items() if name.startswith("mx-")),
                         [(1, "l1", "report"), (1, "l2", "report")])
        for name, obj in self.objects().items():
            jsonschema.validate(obj["status"], status_schema("supernodes"))
        self.wait(lambda: {"line 7: node n5 is in line 6 already, which counts",
                           "line 8: 2 fields, expected 3: is the table complete?"} <= {
            e["note"] for e in self.told_events()
            if (e["reason"], e["regarding"]["name"]) == ("BadConfiguration", "gputopo-network")})
        # an unreadable one changes nothing, even after a restart
        written = len(self.written())
        self.give(network_csv="<html>")
        self.wait(lambda: any("the network cannot be read" in e["note"] for e in self.told_events()))
        companion.stop()
        again = self.start("--network=gputopo-network")
        self.wait(lambda: [r for r, _ in again.said() if r == "BadConfiguration"])
        self.assertEqual((self.tiers(), len(self.written())), (tiers, written))
        self.give(network_csv="node,leaf\nn1,new\nn2,new\n")
        self.wait(lambda: "l1" not in self.tiers() and self.tiers().get("new") == (2, "", "network"))

    def test_what_agents_know_of_their_ports(self):
        """Names and tiers follow the cables; a table names the leaves above which there are halls."""
        def hear(node, leaf):
            nics = [{"name": f"mlx5_{i}", "bdf": f"0000:{0xc0 + i:02x}:00.0", "numaNode": 0, "locality": []} for i in range(2)]
            self.api.add(TOPOLOGIES, node, status={**report(f"uuid-{node}", gpus=0, free=0), "nics": nics, "network": [
                {"port": nic["name"], "switch": leaf, "switchPort": f"Eth{i}"} for i, nic in enumerate(nics)]})
        for i in range(4):
            self.add_node(f"n{i}")
            hear(f"n{i}", "leaf-a" if i < 2 else "leaf-b")
        self.start("--network=gputopo-network")
        want = {**{f"n{i}": (1, "leaf-a" if i < 2 else "leaf-b", "network") for i in range(4)},
                "leaf-a": (2, "", "network"), "leaf-b": (2, "", "network")}
        self.wait(lambda: self.tiers() == want)
        self.give(network_csv="node,leaf,hall\nx,leaf-a,h1\ny,leaf-b,h1\n")
        want.update({"leaf-a": (2, "h1", "network"), "leaf-b": (2, "h1", "network"), "h1": (3, "", "network")})
        self.wait(lambda: self.tiers() == want)
        hear("n1", "leaf-b")
        want["n1"] = (1, "leaf-b", "network")
        self.wait(lambda: self.tiers() == want)

    def test_labels_and_wrong_cables(self):
        keys = [f"network.topology.nvidia.com/{what}" for what in ("leaf", "spine")]
        for i in range(4):
            self.api.add(NODES, f"n{i}", metadata={"labels": dict(zip(keys, ("l9", "s9")))})
        lines = []
        for rail in range(3):
            lines.append(f'Switch\t41 "S-{rail}"\t# "MF0;rail-{rail}:MQM8700/U1" enhanced port 0 lid 5 lmc 0')
            lines += [f'[{n + 1}]\t"H-{n}{p}"[1]({n}{p})\t# "n{n} mlx5_{p}" lid 1 4xHDR' for n in range(3) for p in range(3)
                      if rail == {(2, 1): 2}.get((n, p), p)]
        self.give(ibnetdiscover="\n".join(lines))
        self.start("--network=gputopo-network", f"--network-labels={','.join(keys)}")
        self.wait(lambda: self.tiers() == {**{f"n{i}": (1, "rail-0", "network") for i in range(3)}, "n3": (1, "l9", "network"),
                                           "rail-0": (2, "", "network"), "l9": (2, "s9", "network"),
                                           "s9": (3, "", "network")})
        told = "node n2: port mlx5_1 is at switch rail-2, expected rail-1, as of 2 of 3 nodes"
        self.wait(lambda: ("Cabling", "Node", "n2", told) in {
            (e["reason"], e["regarding"]["kind"], e["regarding"]["name"], e["note"]) for e in self.told_events()})
        self.assertEqual(self.condition("n2"), ("True", "Cabling", told))


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
                wait_for(lambda: companion.metrics()[EVENTS] > events)
            return answer
        self.api.serve = hold_back
        companion = self.start()
        self.wait(lambda: edited)
        self.wait(lambda: self.members() == {edited[0]: ["n1", "n2"]} and self.statuses()[edited[0]]["tier"] == 1)

    def test_our_own_writes_are_no_news(self):
        """Supernodes are not worked out again when the watch tells of a write before its answer comes."""
        serve, joins, early = self.api.serve, [], []

        def hold_back(request):
            is_write = request.method in ("POST", "PATCH") and "/supernodes" in request.path
            events = companion.metrics()[EVENTS] if is_write else 0
            if is_write and not joins:
                joins.append(companion.metrics()["gputopo_joins_total"])
            answer = serve(request)
            if is_write:
                early.append(wait_for(lambda: companion.metrics()[EVENTS] > events))
            return answer
        self.api.serve = hold_back
        for pair in ("ab", "cd", "ef"):
            self.add_mesh(*pair)
        companion = self.start()
        for number, pair in enumerate(("gh", "ij", "kl", "mn"), 3):  # on a busy machine there may be another reason, not each time
            self.wait(lambda n=number: len(self.members()) == n and len(early) >= 2)
            self.settle()
            self.assertTrue(all(early), early)
            if companion.metrics()["gputopo_joins_total"] == joins[0]:
                return
            joins.clear()
            early.clear()
            self.add_mesh(*pair)
        self.fail("they are worked out again each time")

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


side_by_side.main()
