#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-scheduler, its part "extender": what schedulers ask over HTTP and HTTPS, beside the double of the API server.

Usage: test_extender.py GPUTOPO_SCHEDULER [unittest arguments]
"""

import contextlib
import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import prometheus_text
import side_by_side
from api_double import Status, StrictDouble
from companion_driver import NODES, SUPERNODES, TOPOLOGIES, Companion
from daemon_driver import free_port, wait_for
from extender_driver import (ALL_PATHS, FILTER, JSON, PREDICATE, PREEMPT, PRIORITIZE, VOLCANO_PRIORITIZE, args, asking_pod, client,
                             context_of, node_info, preempt_args, task)
from kube_driver import kubeconfig, make_authority, make_certificate
from placement_driver import GROUP, PLAN, indexed_pod, node_status, planned_node, pod_spec, statefulset_pod, supernode_status, template, topology
from silent import SilentSockets

SCHEDULER = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
PODS = "/api/v1/namespaces/ns/pods"
REQUEST_SECONDS = 30  # what the server gives a request


class Case(unittest.TestCase):
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gputopo-extender-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        make_authority(cls.folder)
        for name, subject in (("server", "server"), ("scheduler", "kube-scheduler")):
            make_certificate(cls.folder, name, f"/CN={subject}", "subjectAltName=IP:127.0.0.1")
        make_authority(cls.folder, "others")
        make_certificate(cls.folder, "stranger", "/CN=stranger", authority="others")

    def setUp(self):
        self.api = StrictDouble(self.folder)
        self.addCleanup(self.api.stop)
        self.config = kubeconfig(f"{self.folder}/config", self.api.url, f"certificate-authority: {self.folder}/ca.crt",
                                 "token: token-1")

    def start(self, *options, ready=True):
        companion = Companion(SCHEDULER, "--only=extender", "--kubeconfig", self.config, "--namespace=default",
                              "--leader-elect=false", *options)
        self.addCleanup(lambda: self.assertEqual(companion.stop(), 0, companion.lines))
        self.companion = companion
        if ready:
            self.assertTrue(wait_for(companion.is_ready), companion.lines)
        return companion

    def add_node(self, name, *used, gpus=8):
        """`used`: the indices of GPUs that some pod has."""
        self.api.add(NODES, name, status=node_status(gpus))
        self.api.add(TOPOLOGIES, name, status=topology(name, gpus, [(i, "other", f"pod-{i}") for i in used]))

    def add_pod(self, name, gpus, **more):
        annotations, node = more.pop("annotations", {}), more.pop("node", None)
        spec = pod_spec(gpus, gated=False)
        if node:
            spec["nodeName"] = node
        self.api.add(PODS, name, metadata={"annotations": annotations, "uid": f"uid-of-{name}"}, spec=spec,
                     status={"phase": "Pending"}, **more)

    def add_planned(self, name, node, *gpus):
        self.add_pod(name, len(gpus), annotations={
            PLAN + "node": node, PLAN + "gpus": json.dumps({"main": [f"GPU-{node}-{i}" for i in gpus]})})

    def client(self, port=None, context=None):
        made = client(port or self.companion.port, context)
        self.addCleanup(made.__exit__, None, None, None)
        return made.__enter__()

    def answer(self, path, body, of=None):
        status, text = (of or self.client()).ask(path, body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def scores(self, pod, *names, of=None):
        return {item["Host"]: item["Score"] for item in self.answer(PRIORITIZE, args(pod, *names), of)}

    def metric(self, path, result):
        return self.companion.metrics()[f'gputopo_extender_requests_total{{path="{path}",result="{result}"}}']


class KeptClose(Case):
    """Pods of jobs without annotations, beside one that has a place; both nodes are alike."""

    def setUp(self):
        super().setUp()
        for name, supernode in (("n1", "s1"), ("n2", "s2"), ("n3", "s1")):
            self.add_node(name)
        self.api.add(SUPERNODES, "s1", status=supernode_status(["n1", "n3"]))
        self.api.add(SUPERNODES, "s2", status=supernode_status(["n2"]))
        labels = {"batch.kubernetes.io/job-name": "gang"}
        for index, node in ((0, "n1"), (1, None)):
            self.api.add(PODS, f"gang-{index}", metadata={"uid": f"uid-of-gang-{index}", "labels": {
                **labels, "batch.kubernetes.io/job-completion-index": str(index)}},
                spec={**pod_spec(4, gated=False), **({"nodeName": node} if node else {})}, status={"phase": "Pending"})

    def draws(self):
        scores = self.scores(asking_pod("gang-1", gpus=4), "n2", "n3")
        return scores["n3"] > scores["n2"]

    def annotate(self, value):
        self.api.add("/api/v1/namespaces", "ns", metadata={"annotations": {"metax-tech.com/default-job-topology": value}})

    def test_a_namespace_asks_for_it(self):
        self.api.add("/api/v1/namespaces", "ns")
        self.start()
        self.assertFalse(self.draws())
        self.annotate("preferred")
        self.assertTrue(wait_for(self.draws))
        self.annotate("Preferred")
        self.assertTrue(wait_for(lambda: not self.draws()))
        self.assertTrue(wait_for(lambda: any("preferred is meant" in line.get("why", "") for line in self.companion.lines)), self.companion.lines)

    def test_an_option_asks_for_it(self):
        self.start("--unannotated=prefer", "--closeness-weight=0.5")
        self.assertTrue(self.draws())


class Preempts(Case):
    """Pods of other priorities run on n1, n2 and n3; on n2 the two GPUs that would become free have no direct link."""

    def setUp(self):
        super().setUp()
        for node in ("n1", "n2", "n3"):
            self.api.add(NODES, node, status=node_status(8))
            status = topology(node, 8, [(gpu, "ns", f"{node}-{gpu // 2}") for gpu in range(8)])
            if node == "n2":
                for link in status["links"]:
                    if (link["a"], link["b"]) == (0, 1):
                        link["state"] = "down"
            self.api.add(TOPOLOGIES, node, status=status)
            for number in range(4):
                self.add_running(f"{node}-{number}", node, 5 if node == "n3" else 0)
        self.start()

    def add_running(self, name, node, priority):
        self.api.add(PODS, name, metadata={"uid": f"uid-of-{name}"}, spec={
            **pod_spec(2, gated=False), "nodeName": node, "priority": priority}, status={"phase": "Running"})

    def ask(self, victims, gpus=2):
        named = {node: ([f"uid-of-{name}" for name in names], broken) for node, (names, broken) in victims.items()}
        answer = self.answer(PREEMPT, preempt_args(asking_pod(gpus=gpus), named))["NodeNameToMetaVictims"]
        for node, given in answer.items():
            self.assertEqual(given, {"Pods": [{"UID": uid} for uid in named[node][0]], "NumPDBViolations": named[node][1]})
        return sorted(answer)

    def test_the_best_links_of_equal_victims(self):
        self.assertEqual(self.ask({"n1": (["n1-0"], 0), "n2": (["n2-0"], 0)}), ["n1"])
        self.assertEqual(self.ask({"n1": (["n1-0"], 0), "n2": (["n2-1"], 0)}), ["n1", "n2"])

    def test_priorities_and_budgets_come_first(self):
        self.assertEqual(self.ask({"n2": (["n2-0"], 0), "n3": (["n3-0"], 0)}), ["n2"])
        self.assertEqual(self.ask({"n2": (["n2-0"], 0), "n1": (["n1-0"], 1)}), ["n2"])

    def test_too_few_gpus_and_unknown_nodes(self):
        self.assertEqual(self.ask({"n1": (["n1-0"], 0), "n2": (["n2-0", "n2-1"], 0)}, gpus=4), ["n2"])
        self.assertEqual(self.ask({"new": (["x"], 0)}), ["new"])
        self.assertEqual(self.ask({"new": (["x"], 0), "n1": (["n1-0"], 0)}), ["n1"])
        self.assertEqual(self.ask({}), [])

    def test_a_pod_without_gpus_goes_anywhere(self):
        self.assertEqual(self.ask({"n1": (["n1-0"], 0), "n2": (["n2-0"], 2)}, gpus=0), ["n1", "n2"])

    def test_bad_bodies(self):
        for body, word in (({"Pod": asking_pod()}, "NodeNameToMetaVictims: expected an object"),
                           ({"Pod": asking_pod(), "NodeNameToMetaVictims": {"n1": {"Pods": [{}]}}},
                            "NodeNameToMetaVictims.n1.Pods: a pod without a UID")):
            status, text = self.client().ask(PREEMPT, body)
            self.assertEqual((status, word in text), (400, True), text)


class Answers(Case):
    def setUp(self):
        super().setUp()
        self.add_node("n1")
        self.add_node("n2", 0, 1, 2, 3)
        self.add_node("n3", *range(5))
        self.api.add(SUPERNODES, "s", status=supernode_status(["n1", "n2"]))
        self.start()

    def test_prioritize(self):
        scores = self.scores(asking_pod(gpus="4"), "n1", "n2", "n3", "new")
        self.assertEqual(list(scores), ["n1", "n2", "n3", "new"])
        self.assertEqual((scores["n2"], scores["new"]), (10, 0))
        self.assertTrue(0 < scores["n1"] < 10, scores)
        # a pod without GPUs, and one for which there is no room
        self.assertEqual(set(self.scores(asking_pod(gpus="64"), "n1", "n2").values()), {0})
        self.answer(PRIORITIZE, args({**asking_pod(), "spec": {"containers": [{"name": "x"}]}}, "n1", "n2"))

    def test_the_model_follows(self):
        before = self.scores(asking_pod(gpus="8"), "n1", "n2")
        self.assertEqual((before["n1"], before["n2"]), (10, 0))
        self.add_node("n1", 7)
        self.add_node("n2")
        self.assertTrue(wait_for(lambda: self.scores(asking_pod(gpus="8"), "n1", "n2") == {"n1": 0, "n2": 10}))
        self.api.remove(TOPOLOGIES, "n2")  # unknown, not empty
        self.assertTrue(wait_for(lambda: self.scores(asking_pod(gpus="8"), "n1", "n2") == {"n1": 0, "n2": 0}))

    def test_filter(self):
        self.add_planned("planned", "n1", 0, 1, 2, 3, 4, 5)
        def refused():
            return self.answer(FILTER, args(asking_pod(gpus="4"), "n1", "n2", "n3", "new"))["FailedNodes"]
        self.assertTrue(wait_for(refused))
        answer = self.answer(FILTER, args(asking_pod(gpus="4"), "n1", "n2", "n3", "new"))
        self.assertEqual(answer["NodeNames"], ["n2", "n3", "new"])  # that n3 is full the scheduler knows best
        self.assertEqual(answer["FailedNodes"], {
            "n1": "6 of the free GPUs are reserved for planned or starting pods, 2 are left, 4 needed"})
        self.assertFalse(answer.get("Error"))
        # the planned pod itself: there and nowhere else
        answer = self.answer(FILTER, args(asking_pod("planned", "6"), "n1", "n2"))
        self.assertEqual(answer["NodeNames"], ["n1"])
        self.assertEqual(answer["FailedAndUnresolvableNodes"], {"n2": "gputopo planned this pod for node n1"})
        # another pod of the same name is not that one
        answer = self.answer(FILTER, args(asking_pod("planned", "6", uid="later"), "n2"))
        self.assertEqual(answer["NodeNames"], ["n2"])

    def test_volcano(self):
        pod = asking_pod(gpus="4")
        def ask(*nodes):
            return self.answer(VOLCANO_PRIORITIZE, {"task": task(pod), "nodes": [node_info(*n) for n in nodes]})
        answer = ask(("n1", 8), ("n2", 4), ("new", 8))
        self.assertEqual((answer["errorMessage"], set(answer["nodeScore"])), ("", {"n1", "n2", "new"}))
        self.assertEqual(max(answer["nodeScore"], key=answer["nodeScore"].get), "n2")
        # Volcano gave away 4 of n1 and 1 of n2 a moment ago
        score = ask(("n1", 4), ("n2", 3))["nodeScore"]
        self.assertGreater(score["n1"], score["n2"])
        self.add_planned("planned", "n1", 0, 1, 2, 3, 4)
        def predicate(of, node):
            return self.answer(PREDICATE, {"task": task(of), "node": node_info(node, 8)})
        self.assertTrue(wait_for(lambda: predicate(pod, "n1")["status"]))
        self.assertEqual(predicate(pod, "n1")["code"], 2)
        self.assertEqual(predicate(pod, "n2")["status"], "")
        planned = asking_pod("planned", "5")
        self.assertEqual(predicate(planned, "n1")["status"], "")
        self.assertEqual(predicate(planned, "n2"), {"status": "gputopo planned this pod for node n1", "code": 3})

    def test_gpus_by_claim(self):
        """A pod is asked for by claim as by limits, whether the cache knows it already or not."""
        self.add_planned("planned", "n1", 0, 1, 2, 3, 4, 5)
        self.add_pod("limits", 4)
        spec = {"containers": [{"name": "main", "resources": {"claims": [{"name": "gputopo-gpus", "request": "gpus-0"}]}}],
                "resourceClaims": [{"name": "gputopo-gpus", "resourceClaimTemplateName": "gputopo-gpus-4"}]}
        self.api.add(PODS, "claims", metadata={"uid": "uid-of-claims"}, spec=spec, status={"phase": "Pending"})
        self.assertTrue(wait_for(lambda: self.companion.metrics()['gputopo_cache_pods{state="waiting"}'] == 3))
        nodes = ("n1", "n2", "n3", "new")
        volcano = [node_info(name, 8) for name in nodes]
        def ask(pod):
            return [self.answer(path, body) for path, body in (
                (FILTER, args(pod, *nodes)), (PRIORITIZE, args(pod, *nodes)), (PREDICATE, {"task": task(pod), "node": volcano[0]}),
                (VOLCANO_PRIORITIZE, {"task": task(pod), "nodes": volcano}))]
        limits = ask(asking_pod("limits", "4"))
        self.assertEqual((list(limits[0]["FailedNodes"]), limits[2]["code"]), (["n1"], 2))
        self.assertEqual({item["Host"]: item["Score"] for item in limits[1]}["n2"], 10)
        for name in ("claims", "just-made"):
            with self.subTest(name):
                self.assertEqual(ask({"metadata": asking_pod(name)["metadata"], "spec": spec}), limits)

    def test_pods_that_end(self):
        """The API server may keep them for long; what was planned for them is free at once."""
        ends = {"succeeded": {"status": {"phase": "Succeeded"}}, "failed": {"status": {"phase": "Failed"}},
                "deleted": {"metadata": {"deletionTimestamp": "2026-01-01T01:00:00Z"}}}
        for name, end in ends.items():
            with self.subTest(name):
                self.add_planned(name, "n1", 0, 1, 2, 3, 4, 5)
                def refused():
                    return self.answer(FILTER, args(asking_pod(gpus="4"), "n1"))["FailedNodes"]
                self.assertTrue(wait_for(refused))
                pod = self.api.objects[self.api.place(PODS)[0], name]
                self.api.add(PODS, name, spec=pod["spec"], status=end.get("status", pod["status"]),
                             metadata={**pod["metadata"], **end.get("metadata", {})})
                self.assertTrue(wait_for(lambda: not refused()))

    def test_metrics_and_readiness(self):
        connection = self.client()
        for _ in range(3):
            self.scores(asking_pod(), "n1", of=connection)
        self.assertEqual(self.metric(PRIORITIZE, "answered"), 3)
        connection.ask(PRIORITIZE, b"{")
        self.assertEqual(self.metric(PRIORITIZE, "refused"), 1)
        metrics = self.companion.metrics()
        self.assertEqual(metrics["gputopo_extender_decision_seconds_count"], 3)
        self.assertEqual(metrics['gputopo_extender_decision_seconds_bucket{le="+Inf"}'], 3)
        self.assertEqual((metrics["gputopo_cache_nodes"], metrics["gputopo_leader"]), (3, 1))
        prometheus_text.parse(self.companion.get("/metrics")[1])
        self.assertEqual(self.companion.get("/readyz"), (200, "ok, leads\n"))
        self.assertEqual(self.companion.get("/healthz")[0], 200)


class ReservedByPeople(Case):
    """Two of three nodes are in a Supernode that people have reserved."""

    def check(self, parts, whom, passed):
        self.api.add(SUPERNODES, "s", metadata={"annotations": {
            "metax-tech.com/reserved-until": f"2126-01-01T00:00:00Z for={whom}"}}, status=supernode_status(["n1", "n2"]))
        for name in ("n1", "n2", "n3"):
            self.add_node(name)
        self.companion = Companion(SCHEDULER, f"--only={parts}", "--kubeconfig", self.config, "--namespace=default", "--leader-elect=false")
        self.addCleanup(self.companion.stop)
        self.assertTrue(wait_for(self.companion.is_ready), self.companion.lines)
        asker = self.client()

        def answer():
            return self.answer(FILTER, args(asking_pod(gpus="8"), "n1", "n2", "n3"), of=asker)
        self.assertTrue(wait_for(lambda: answer()["NodeNames"] == passed), answer())
        if len(passed) == 1:
            said = f"this node is reserved by people until 2126-01-01T00:00:00Z for {whom}"
            self.assertEqual(answer()["FailedNodes"], {"n1": said, "n2": said})

    def test_the_extender_alone(self):
        self.check("extender", "team", ["n3"])

    def test_beside_the_placement(self):
        self.check("extender,placement", "team", ["n3"])

    def test_for_the_namespace_of_the_pod(self):
        self.check("extender", "ns", ["n1", "n2", "n3"])


class Replicas(Case):
    SETS = "/apis/apps/v1/namespaces/ns/statefulsets"

    def test_who_stands_by_keeps_what_the_leader_keeps(self):
        """Places of a StatefulSet's pods that are not made yet: no object but the leader's lease tells of them."""
        for name in ("n1", "n2", "n3"):
            self.add_node(name)
        self.api.add(SUPERNODES, "s1", status=supernode_status(["n1", "n2"]))
        self.api.add(self.SETS, "web", metadata={"uid": "uid-set"}, spec={"replicas": 2, "template": template(8, 16)})
        both = [self.start("--only=extender,placement", "--leader-elect=true") for _ in range(2)]
        self.assertTrue(wait_for(lambda: any(one.leads() for one in both)))
        self.api.add(PODS, "web-0", status={"phase": "Pending"}, **statefulset_pod("web", 0))
        for one in both:
            port = self.client(one.port)
            self.assertTrue(wait_for(lambda port=port: self.answer(
                FILTER, args(asking_pod("other", 8), "n1", "n2", "n3"), port)["NodeNames"] == ["n3"]),
                self.answer(FILTER, args(asking_pod("other", 8), "n1", "n2", "n3"), port))
        self.api.remove(PODS, "web-0")
        for one in both:
            port = self.client(one.port)
            self.assertTrue(wait_for(lambda port=port: len(self.answer(
                FILTER, args(asking_pod("other", 8), "n1", "n2", "n3"), port)["NodeNames"]) == 3))


class OtherScheduler(Case):
    """What vc-scheduler's plugins keep for pods to come, by their Lease."""
    LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    JOBS = "/apis/batch/v1/namespaces/ns/jobs"

    def keep(self, note, seconds=300):
        self.api.add(self.LEASES, "gputopo-vc-scheduler", metadata={"annotations": {"topology.metax-tech.com/note": note} if note else {}},
                     spec={"holderIdentity": "vc-scheduler", "leaseDurationSeconds": seconds, "renewTime": "2026-01-31T12:00:00.000000Z"})

    def test_its_places_are_nobody_elses(self):
        """Plans go round them, the page and explain name them; when they are given up, who waits is placed."""
        for name in ("n1", "n2", "n3"):
            self.add_node(name)
        self.keep("n1=0-7 n2=0,1 unknown=* nonsense")
        companion = self.start("--only=extender,placement,ui")
        self.assertTrue(wait_for(companion.leads))
        self.assertEqual(self.answer(FILTER, args(asking_pod("other", 8), "n1", "n2", "n3"))["NodeNames"], ["n3"])
        notes = {node["name"]: node.get("note", "") for node in json.loads(companion.get("/debug/model")[1])["nodes"]}
        self.assertEqual(notes, {"n1": "8 reserved by the other scheduler for pods to come", "n2": "2 reserved by the other scheduler for pods to come", "n3": ""})
        self.api.add(SUPERNODES, "s1", status=supernode_status(["n1", "n2", "n3"]))
        self.api.add(self.JOBS, "big", metadata={"uid": "uid-big"}, spec={
            "parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template(8, 16)})
        for i in range(2):
            self.api.add(PODS, f"big-{i}", status={"phase": "Pending"}, **indexed_pod("big", i, uid="uid-big", group=16))
        def explained():
            return companion.get("/explain?job=ns/Job/big")[1]
        self.assertTrue(wait_for(lambda: "10 GPUs are reserved by the other scheduler for pods to come" in explained()), explained())
        self.keep("n1=0-7")
        self.assertTrue(wait_for(lambda: "It is placed" in explained()), explained())
        self.assertEqual(sorted(planned_node(self.api.objects[self.api.place(PODS)[0], f"big-{i}"]) for i in range(2)), ["n2", "n3"])
        self.api.remove(self.LEASES, "gputopo-vc-scheduler")
        self.assertTrue(wait_for(lambda: self.answer(FILTER, args(asking_pod("other", 8), "n1", "n2"))["NodeNames"] == ["n1"]))

    def test_it_is_not_renewed(self):
        self.add_node("n1")
        self.keep("n1=*", seconds=1)
        self.start()
        self.assertTrue(wait_for(lambda: self.answer(FILTER, args(asking_pod("other", 8), "n1"))["NodeNames"] == ["n1"]))

    def test_it_may_not_be_read(self):
        """Older roles: one line in the log, and all else works."""
        self.add_node("n1")
        self.api.fail(Status(403), times=10000, path="leases")
        companion = self.start()
        self.assertEqual(self.answer(FILTER, args(asking_pod("other", 8), "n1"))["NodeNames"], ["n1"])
        self.assertTrue(any("places that Volcano's scheduler keeps" in str(line) for line in companion.lines), companion.lines)


class Held(Case):
    JOBS = "/apis/batch/v1/namespaces/ns/jobs"

    def test_one_pod_holds_room_for_its_whole_job(self):
        """Whoever may make a Job holds GPUs by what it says, not by the pods that it has: a ResourceQuota counts pods."""
        names = [f"n{i}" for i in range(8)]
        for name in names:
            self.add_node(name)
        self.api.add(self.JOBS, "big", metadata={"uid": "uid-big"}, spec={
            "parallelism": 8, "completions": 8, "completionMode": "Indexed", "template": template(8, 8)})
        companion = self.start("--only=extender,placement")
        self.assertTrue(wait_for(companion.leads))
        self.api.add(PODS, "big-0", status={"phase": "Pending"}, **indexed_pod("big", 0, uid="uid-big", group=8))
        self.assertTrue(wait_for(lambda: companion.metrics()["gputopo_placement_reserved_gpus"] == 7 * 8), companion.metrics())
        self.assertEqual(self.answer(FILTER, args(asking_pod("other", 8), *names))["NodeNames"], [])
        self.api.remove(PODS, "big-0")


class LargeModel(Case):
    def test_the_model_is_whole(self):
        names = [f"node-{n:05}" for n in range(3000)]
        for name in names:
            self.add_node(name)
        companion = self.start("--only=extender,ui")
        def model():
            status, text = companion.get("/debug/model")
            self.assertEqual(status, 200, text)
            return json.loads(text)
        whole = wait_for(lambda: (seen := model())["counters"]["nodes"] == 3000 and seen)
        self.assertEqual(sorted(node["name"] for node in whole["nodes"]), names)
        self.assertFalse(whole["truncated"])
        self.api.remove(NODES, names[0])
        self.api.remove(TOPOLOGIES, names[0])
        self.assertTrue(wait_for(lambda: model()["counters"]["nodes"] == 2999))
        self.assertEqual(self.scores(asking_pod("p", 4), names[1], names[2])[names[1]], 10)


class Memory(Case):
    BUDGET_MIB, SPARE_MIB = 192, 64  # what all requests may hold together, and what reading them costs besides

    def open_bodies(self, count, path, begin, piece, pieces, https=None):
        """So many bodies that do not end, from eight addresses; each sends what the server takes, and stays open."""
        context = context_of(f"{self.folder}/ca.crt") if https else None
        head = (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\n"
                f"Content-Length: {len(begin) + len(piece) * pieces + 1}\r\n\r\n").encode()
        for i in range(count):
            connection = socket.create_connection(("127.0.0.1", https or self.companion.port), 60, (f"127.0.0.{2 + i % 8}", 0))
            self.addCleanup(connection.close)
            if https:
                connection = context.wrap_socket(connection, server_hostname="127.0.0.1")
                self.addCleanup(connection.close)
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                connection.sendall(head + begin)
                for _ in range(pieces):
                    connection.sendall(piece)

    def peak_mib(self):
        with open(f"/proc/{self.companion.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) >> 10

    def is_sanitized(self):
        with open(f"/proc/{self.companion.process.pid}/maps", encoding="ascii") as maps:
            return "san.so" in maps.read() or "TSAN_OPTIONS" in os.environ

    def holds(self, *how, https=None):
        self.add_node("n1")
        self.start("--only=extender,placement", *(("--https", f"127.0.0.1:{https}", "--tls-certificate", f"{self.folder}/server.crt",
                                                   "--tls-key", f"{self.folder}/server.key") if https else ()))
        before = self.companion.memory_kib()[0] >> 10
        self.open_bodies(*how, https=https)
        with client(self.companion.port) as other:  # small questions of others are answered all the same
            self.assertEqual(self.scores(asking_pod(gpus="4"), "n1", of=other), {"n1": 10})
            self.assertEqual(other.ask("/healthz", method="GET")[0], 200)
        if not self.is_sanitized():
            self.assertLess(self.peak_mib() - before, self.BUDGET_MIB + self.SPARE_MIB)

    def test_a_node_that_is_rewired_again_and_again(self):
        """2,000 reports of one node of 16 GPUs, each with other weights of its links."""
        rng, asked = random.Random(1), 0
        self.add_node("n1", gpus=16)
        self.start()
        with client(self.companion.port) as other:
            for i in range(2000):
                status = topology("n1", 16)
                for link in status["links"]:
                    link["bandwidthMBps"] = 1000 * rng.randrange(1, 200)
                self.api.add(TOPOLOGIES, "n1", status=status)
                if i % 20 == 0:
                    self.assertEqual(self.scores(asking_pod(gpus="4"), "n1", of=other), {"n1": 10})
                    asked += 1
        events = 'gputopo_informer_events_total{resource="nodegputopologies"}'
        self.assertTrue(wait_for(lambda: self.companion.metrics()[events] >= 2000), self.companion.metrics())
        self.assertEqual((asked, self.companion.metrics()["gputopo_cache_nodes_rewired"]), (100, 1))
        said = self.companion.events("a node reports another wiring again and again: its links fail, or its agent is faulty")
        self.assertEqual([line["node"] for line in said], ["n1"])
        if not self.is_sanitized():
            self.assertLess(self.peak_mib(), 100)

    def test_names(self):
        names = b"".join(b'"%s%03d",' % (b"x" * 245, i) for i in range(1000))
        self.holds(32, PRIORITIZE, b'{"Pod":' + json.dumps(asking_pod()).encode() + b',"NodeNames":[', names, 60)

    def test_reviews(self):
        self.holds(128, "/webhook/mutate", b"{", b" " * (1 << 20), 3, https=free_port())


class Webhook(Case):
    REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "namespace": "ns", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "object": {"metadata": {"name": "p", "annotations": {GROUP: "8"}}, "spec": pod_spec(8, gated=False)}}}

    def start_tls(self, *more):
        self.https = free_port()
        self.start("--only=extender,placement", "--https", f"127.0.0.1:{self.https}", "--tls-certificate",
                   f"{self.folder}/server.crt", "--tls-key", f"{self.folder}/server.key", *more)

    def ask(self, port, context=None):
        with client(port, context) as asking:
            return asking.ask("/webhook/mutate", self.REVIEW)

    def test_on_https_alone(self):
        self.start_tls()
        status, text = self.ask(self.companion.port)
        self.assertEqual((status, "port of --https" in text), (403, True), text)
        status, text = self.ask(self.https, context_of(f"{self.folder}/ca.crt"))
        self.assertEqual((status, '"patchType":"JSONPatch"' in text), (200, True), text)
        self.assertEqual(self.companion.metrics()['gputopo_webhook_reviews_total{kind="forbidden"}'], 1)

    def test_the_clients_certificate(self):
        self.start_tls("--tls-client-ca", f"{self.folder}/ca.crt", "--webhook-clients", "kube-apiserver,server")
        ca = f"{self.folder}/ca.crt"
        for certificate, expected in ((None, 401), (f"{self.folder}/scheduler", 403), (f"{self.folder}/server", 200)):
            self.assertEqual(self.ask(self.https, context_of(ca, certificate))[0], expected, certificate)
        self.assertEqual(self.companion.metrics()['gputopo_webhook_reviews_total{kind="forbidden"}'], 2)

    def test_a_name_needs_an_authority(self):
        done = subprocess.run([SCHEDULER, "--webhook-clients", "kube-apiserver"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr.strip()),
                         (2, "gputopo-scheduler: --webhook-clients needs --tls-client-ca"))

    def test_silent_sockets_are_in_nobodys_way(self):
        self.start_tls()
        with SilentSockets(self.https) as silent:
            end = time.monotonic() + 2
            while time.monotonic() < end or silent.closed < 500:
                self.assertEqual(self.ask(self.https, context_of(f"{self.folder}/ca.crt"))[0], 200)
                time.sleep(0.05)

    def test_a_large_review_of_nothing(self):
        """A million values, more than any object that the API server stores, are refused before they become a tree."""
        self.start_tls()
        junk = json.dumps(self.REVIEW)[:-1] + ', "x": [' + "0," * (1 << 20) + "0]}"
        context = context_of(f"{self.folder}/ca.crt")
        with client(self.https, context) as asking:
            self.assertEqual(asking.ask("/webhook/mutate", junk.encode())[0], 400)


class NotSynced(Case):
    def test_no_answer_before_everything_is_known(self):
        self.add_node("n1")
        self.api.fail(Status(503), times=1 << 30, method="GET", path="/pods$")
        companion = self.start(ready=False)
        self.assertTrue(wait_for(lambda: self.reachable(companion)))
        connection = self.client()
        bodies = {FILTER: args(asking_pod(), "n1"), PREEMPT: preempt_args(asking_pod(), {"n1": ([], 0)}), PRIORITIZE: args(asking_pod(), "n1"),
                  PREDICATE: {"task": task(asking_pod()), "node": node_info("n1", 8)},
                  VOLCANO_PRIORITIZE: {"task": task(asking_pod()), "nodes": [node_info("n1", 8)]}}
        for path, body in bodies.items():
            status, text = connection.ask(path, body)
            self.assertEqual((status, text), (503, "gputopo-scheduler has not read the cluster yet\n"), path)
            self.assertEqual(self.metric(path, "not_ready"), 1)
        waits = (503, "extender: waiting for the list of pods\n")
        self.assertTrue(wait_for(lambda: companion.get("/readyz") == waits), companion.get("/readyz"))
        self.api.faults.clear()
        self.assertTrue(wait_for(companion.is_ready), companion.lines)
        for path, body in bodies.items():
            self.assertEqual(connection.ask(path, body)[0], 200, path)

    @staticmethod
    def reachable(companion):
        try:
            return companion.get("/healthz")[0] == 200
        except OSError:
            return False


class Tls(Case):
    def setUp(self):
        super().setUp()
        self.add_node("n1")
        self.https = free_port()

    def start_tls(self, *more):
        return self.start("--https", f"127.0.0.1:{self.https}", "--tls-certificate", f"{self.folder}/server.crt",
                          "--tls-key", f"{self.folder}/server.key", *more)

    def context(self, certificate=None):
        return context_of(f"{self.folder}/ca.crt", certificate and f"{self.folder}/{certificate}")

    def test_client_certificate(self):
        self.start_tls("--tls-client-ca", f"{self.folder}/ca.crt")
        known = self.client(self.https, self.context("scheduler"))
        for _ in range(2):  # on the same connection
            self.assertEqual(self.scores(asking_pod(gpus="8"), "n1", of=known), {"n1": 10})
        self.assertEqual(self.answer(FILTER, args(asking_pod(), "n1"), known)["NodeNames"], ["n1"])
        # without one: not what kube-scheduler asks; Volcano cannot show any
        unknown = self.client(self.https, self.context())
        for path in (FILTER, PRIORITIZE):
            self.assertEqual(unknown.ask(path, args(asking_pod(), "n1")), (401, "this is asked with a client certificate\n"))
        self.assertEqual(unknown.ask("/readyz", method="GET")[0], 200)
        body = {"task": task(asking_pod()), "nodes": [node_info("n1", 8)]}
        self.answer(VOLCANO_PRIORITIZE, body, unknown)
        # nor on the port without TLS
        self.assertEqual(self.client().ask(PRIORITIZE, args(asking_pod(), "n1"))[0], 401)
        # of another authority: no connection at all, or none that counts
        with client(self.https, self.context("stranger")) as stranger, contextlib.suppress(ssl.SSLError, OSError):
            self.assertEqual(stranger.ask(PRIORITIZE, args(asking_pod(), "n1"))[0], 401)
        self.assertEqual(self.scores(asking_pod(gpus="8"), "n1", of=known), {"n1": 10})

    def test_without_client_ca(self):
        self.start_tls()
        self.assertEqual(self.scores(asking_pod(gpus="8"), "n1", of=self.client(self.https, self.context())), {"n1": 10})
        with client(self.https, ssl.create_default_context()) as suspicious, self.assertRaises(ssl.SSLError):
            suspicious.ask(PRIORITIZE, args(asking_pod(), "n1"))
        with socket.create_connection(("127.0.0.1", self.https), 60) as plain:  # speaks no TLS
            plain.sendall(b"POST /kube-scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            plain.settimeout(60)
            with contextlib.suppress(OSError):
                self.assertNotIn(b"HTTP/1.1 200", plain.recv(100))


class BadInput(Case):
    """A clear error, and no effect on others, who ask all the time."""

    def setUp(self):
        super().setUp()
        self.add_node("n1")
        self.add_node("n2", 0, 1, 2, 3)
        self.start()
        self.stopping, self.wrong, self.asked = threading.Event(), [], 0
        self.others = threading.Thread(target=self.ask_all_the_time)
        self.others.start()
        self.addCleanup(self.end_others)

    def ask_all_the_time(self):
        with client(self.companion.port) as connection:
            while not self.stopping.wait(0.02):
                try:
                    status, text = connection.ask(PRIORITIZE, args(asking_pod("other", "4"), "n1", "n2"))
                    self.asked += 1
                    if status != 200 or {s["Host"]: s["Score"] for s in json.loads(text)}["n2"] != 10:
                        self.wrong.append((status, text))
                except (OSError, ValueError) as error:
                    self.wrong.append(repr(error))
                    return

    def end_others(self):
        asked = self.asked
        self.assertTrue(wait_for(lambda: self.asked > asked + 2 or self.wrong), "the others get no answers")
        self.stopping.set()
        self.others.join()
        self.assertEqual(self.wrong, [])
        self.assertEqual([line for line in self.companion.lines if line["level"] in ("raw", "error")], [])

    def refused(self, path, body, status, *words, **more):
        got, text = self.client().ask(path, body, **more)
        self.assertEqual(got, status, text[:500])
        self.assertTrue(text.endswith("\n") and text.count("\n") == 1 and len(text) < 1000, text[:1000])
        for word in words:
            self.assertIn(word, text)

    def test_verbs_and_types(self):
        body = args(asking_pod(), "n1")
        for path in ALL_PATHS:
            for method in ("GET", "PUT", "DELETE", "PATCH"):
                self.refused(path, None if method == "GET" else body, 405, "POST", method=method)
            for kind in ("text/plain", "application/jsonl", "", None):
                self.refused(path, body, 415, "application/json", content_type=kind)
            self.assertNotEqual(self.client().ask(path, body, content_type="Application/JSON; charset=utf-8")[0], 415)
        self.assertEqual(self.client().ask("/kube-scheduler/bind", body)[0], 404)
        self.assertEqual(self.client().ask("/volcano/", body)[0], 404)

    def test_json(self):
        for path, body in ((FILTER, args(asking_pod(), "n1", "n2")), (PRIORITIZE, args(asking_pod(), "n1")),
                           (PREDICATE, {"task": task(asking_pod()), "node": node_info("n1", 8)}),
                           (VOLCANO_PRIORITIZE, {"task": task(asking_pod()), "nodes": [node_info("n1", 8)]})):
            text = json.dumps(body).encode()
            self.assertEqual(self.client().ask(path, text)[0], 200)
            for cut in range(0, len(text) - 1, 37):
                self.refused(path, text[:cut], 400, "line 1, column")
            self.refused(path, text + b"}", 400, "line 1, column")
            self.refused(path, b"[" * 100000, 400, "byte 8: nested deeper")
            self.refused(path, b'{"Pod":' + b"[" * 100000, 400)
            self.refused(path, b'{"other":' + b"[" * 100000, 400, "the end of the text")
            self.refused(path, b"\xff\xfe", 400, "line 1, column 1")
            self.refused(path, b"[]", 400)
            self.refused(path, b"{}", 400)
        self.refused(PRIORITIZE, {"Pod": None, "NodeNames": ["n1"]}, 400)
        self.refused(PRIORITIZE, {"Pod": asking_pod(), "NodeNames": [7]}, 400, "NodeNames[0]")
        self.refused(PRIORITIZE, {"Pod": asking_pod(), "NodeNames": [""]}, 400)
        self.refused(PRIORITIZE, {"Pod": asking_pod(), "NodeNames": ["n" * 254]}, 413, "more than 253 bytes")

    def test_amounts(self):
        for amount, word in (("-1", "negative"), (-8, "metax-tech.com/gpu"), ("0.5", "metax-tech.com/gpu"), ("1e30", "metax-tech.com/gpu"),
                             (10 ** 30, "metax-tech.com/gpu"), ("many", "metax-tech.com/gpu"), ("", "metax-tech.com/gpu"),
                             ([8], "metax-tech.com/gpu")):
            pod = asking_pod(gpus=amount)
            for path in (FILTER, PRIORITIZE):
                self.refused(path, args(pod, "n1"), 400, word)
            self.refused(VOLCANO_PRIORITIZE, {"task": task(pod), "nodes": [node_info("n1", 8)]}, 400, word)
            self.refused(PREDICATE, {"task": task(pod), "node": node_info("n1", 8)}, 400, word)
        # of a node: that one is unknown, the others are not
        score = self.answer(VOLCANO_PRIORITIZE, {"task": task(asking_pod()), "nodes": [
            node_info("n1", -3), node_info("n2", 4), node_info("new", 10 ** 27)]})["nodeScore"]
        self.assertEqual(max(score, key=score.get), "n2")
        # annotations are not what the extenders go by
        for value in ("1e30", "3.5", "-32", 7, None, "x" * 70000):
            self.assertEqual(self.scores(asking_pod(gpus="4", annotations={GROUP: value}), "n2"), {"n2": 10})

    def test_unknown_nodes(self):
        names = [f"ghost-{i}" for i in range(1000)]
        self.assertEqual(set(self.scores(asking_pod(), *names).values()), {0})
        self.assertEqual(self.answer(FILTER, args(asking_pod(), *names))["NodeNames"], names)
        self.refused(PRIORITIZE, args(asking_pod(), "n1", "n1\u0000"), 400, "U+0000")
        odd = ["../n1", "n1\n", "\U0001f600", " n1", "N1"]
        self.assertEqual(self.scores(asking_pod(), *odd), dict.fromkeys(odd, 0))
        answer = self.answer(PRIORITIZE, args(asking_pod(gpus="4"), "n2", "n2"))  # twice: each is answered
        self.assertEqual([item["Host"] for item in answer], ["n2", "n2"])

    def test_names_of_11_megabytes(self):
        names = [f"{i:06}" + "x" * 214 for i in range(50000)]
        body = json.dumps(args(asking_pod(), "n1", *names)).encode()
        self.assertGreater(len(body), 11_000_000)
        before = self.companion.memory_kib()[0]
        for path in (PRIORITIZE, FILTER):
            status, text = self.client().ask(path, body)
            self.assertEqual((status, "n1" in text), (200, True), text[:300])
        too_many = json.dumps(args(asking_pod(), *(f"node-{i:06}" for i in range(65537)))).encode()
        self.refused(PRIORITIZE, too_many, 413, "65536")
        self.refused(FILTER, too_many, 413, "65536")
        self.answer(FILTER, args(asking_pod(), "n1"))  # what the large ones needed is given back
        with open(f"/proc/{self.companion.process.pid}/maps", encoding="ascii") as maps:
            sanitized = "san.so" in maps.read() or "TSAN_OPTIONS" in os.environ  # which keeps what is freed
        if not sanitized:
            self.assertLess(self.companion.memory_kib()[0] - before, 40000)

    def test_a_body_beyond_every_limit(self):
        with socket.create_connection(("127.0.0.1", self.companion.port), 60) as connection:
            connection.sendall(f"POST {FILTER} HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\n"
                               f"Content-Length: {600 << 20}\r\n\r\n{{".encode())
            connection.settimeout(60)
            self.assertIn(b" 413 ", connection.recv(1000).split(b"\r\n")[0])

    def test_pods_that_contradict_each_other(self):
        """A thousand of one job, each with another group size, and all with a plan for the same GPUs."""
        owner = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}]
        for i in range(1000):
            self.api.add(PODS, f"j-{i}", metadata={
                "ownerReferences": owner, "annotations": {
                    GROUP: (str(i), f"{i}.5", "1" + "0" * 30, "", "-8")[i % 5], PLAN + "node": ("n1", "ghost", "")[i % 3],
                    PLAN + "gpus": ('{"main":["GPU-n1-0"]}', "{", '{"main":7}', "[]")[i % 4]}},
                spec=pod_spec(("1", "-1", "1e30", 0.5)[i % 4], gated=False), status={"phase": "Pending"})
        self.assertTrue(wait_for(lambda: self.companion.metrics().get(
            'gputopo_informer_objects{resource="pods"}') == 1000, 30))
        self.assertEqual(self.scores(asking_pod(gpus="4"), "n1", "n2")["n2"], 10)
        self.assertEqual(self.answer(FILTER, args(asking_pod(gpus="4"), "n1", "n2"))["NodeNames"], ["n1", "n2"])

    def test_slow_clients(self):
        """All others are answered, and they are cut off."""
        head = f"POST {PRIORITIZE} HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: 1000\r\n\r\n{{".encode()
        begin, ended = time.monotonic(), set()
        slow = [socket.create_connection(("127.0.0.1", self.companion.port), 60) for _ in range(60)]
        for connection in slow:
            self.addCleanup(connection.close)
            connection.sendall(head)
        while len(ended) < len(slow) and time.monotonic() - begin < REQUEST_SECONDS + 60:
            with client(self.companion.port) as fresh:
                self.assertEqual(self.scores(asking_pod(gpus="4"), "n1", "n2", of=fresh)["n2"], 10)
            for connection in slow:
                connection.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    try:
                        connection.sendall(b" ")
                        if connection.recv(1000) == b"":
                            ended.add(connection)
                    except ConnectionError:
                        ended.add(connection)
            time.sleep(1)
        self.assertEqual(len(ended), len(slow))
        self.assertGreaterEqual(time.monotonic() - begin, REQUEST_SECONDS - 1)


if __name__ == "__main__":
    side_by_side.main()
