#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-scheduler, its part "supernodes", against the double of the API server: what it lists,
HyperNodes and NodeFeatures, who leads, and what blocks it.

Usage: test_companion.py GPUTOPO_SCHEDULER [unittest arguments]
"""

import os
import ssl
import subprocess
import time
import unittest

import side_by_side
import stopped_thread
from api_double import Status
from companion_case import GROUPS, HYPERNODES, NAMESPACE, SCHEDULER, Case
from companion_driver import LABEL, NODES, SUPERNODES, TOPOLOGIES, Companion
from daemon_driver import PATIENCE, free_port, wait_for
from kube_driver import kubeconfig
from silent import SilentSockets, look

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
FEATURES = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures"


class Listing(Case):
    """One informer a kind, whatever the parts."""
    PODS = "/api/v1/pods"

    def lists(self):
        """{path: what is accepted, of each list}; pages that follow do not count, nor does the list of Pending pods."""
        found = {path: [] for path in (NODES, TOPOLOGIES, SUPERNODES, self.PODS)}
        for request in self.api.asked(method="GET", watch=False):
            if request.path in found and "continue" not in request.query and request.query.get("fieldSelector") != "status.phase=Pending":
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
        """2,000 on each port in turn: every port makes room for a probe."""
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
                        self.assertEqual(look(port, "/healthz", how), 200, (flooded, port))
                    time.sleep(0.05)
        self.assertEqual(look(health, "/readyz"), 200)
        self.assertEqual(look(health, "/metrics"), 404)
        for listener in ("health", "http", "https"):  # not when their time was over
            self.assertGreaterEqual(companion.metrics()[f'gputopo_http_refused_total{{listener="{listener}",reason="evicted"}}'], 500)

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
        self.assertEqual(companion.stop(), 1)
        self.assertEqual(companion.events("something hangs, leaving without it")[0]["level"], "warning")


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
        self.configure(GROUPS)
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
        for at, kind, where, obj, _ in self.api.history:  # every state that Volcano could have seen
            if where[2] == "hypernodes" and at > version:
                now[obj["metadata"]["name"]] = [m["selector"]["exactMatch"]["name"] for m in obj["spec"]["members"]]
                held = [node for nodes in now.values() for node in nodes]
                self.assertEqual(len(held), len(set(held)), (kind, now))
        self.wait(lambda: self.condition("r2", "HyperNode")[1] == "Projected")
        told = [(c["reason"], c["message"]) for _, _, where, obj, _ in self.api.history if where[2] == "supernodes"
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
        self.wait(lambda: self.members_of().get("r1") == [("Node", "n1")])
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
        self.wait(lambda: self.members_of().get("r1") == [("Node", "n1"), ("Node", "n2")])
        # one that may hold anything
        self.add_hypernode("labels", {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"a": "b"}}}})
        self.wait(lambda: not {"r1", "r2", "r3", "top"} & set(self.members_of()))

    def test_without_volcano(self):
        self.add_mesh("n1", "n2")
        self.api.fail(Status(404), times=1000, path="hypernodes")
        begin = time.monotonic()
        companion = self.start("--project=hypernodes")
        self.wait(lambda: len(self.members()) == 1 and all(self.statuses().values()))
        name = next(iter(self.members()))
        self.assertEqual(self.condition(name, "HyperNode")[:2], ("False", "NotInstalled"))
        time.sleep(4)
        said = companion.events("the cluster does not know this kind, it is looked up again now and then")
        self.assertEqual([line["kind"] for line in said], ["HyperNode"])
        self.assertLess(len([r for r in self.api.asked() if "hypernodes" in r.path]), 8 + time.monotonic() - begin)
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
                                (["--supernodes-config=a b"], "a b"), (["--config=/nowhere"], "--config"),
                                (["--namespace=A b"], "A b"), (["--kubeconfig"], "--kubeconfig"), (["--help=1"], "--help")):
            with self.subTest(arguments):
                done = self.run_it(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
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

    def test_every_kind_of_error_is_told(self):
        self.api.fail(Status(422, "strange selector"), times=1, path="configmaps")
        self.api.fail(Status(403, "forbidden here"), times=10000, path="configmaps")
        companion = self.start(wait=False)
        for text in ("strange selector", "forbidden here"):
            self.wait(lambda text=text: [event for event in companion.events("cannot watch") if text in event["error"]])


side_by_side.main()
