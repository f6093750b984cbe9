#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-agent gives containers the GPUs that were planned for them: against the doubles of the API server and
of the kubelet.

Usage: test_publish_plan.py GPUTOPO_AGENT [unittest arguments]
"""

import json
import os
import shutil
import sys
import tempfile
import threading
import unittest

import side_by_side
from api_double import ApiDouble, Status
from kube_driver import kubeconfig
from kubelet_double import RESOURCE, KubeletDouble
from daemon_driver import wait_for
from publish_driver import MACHINES, Agent

AGENT = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
PODS = "/api/v1/namespaces/default/pods"
EVENTS = ("/apis/events.k8s.io/v1", "default", "events")
PLAN = "plan.topology.metax-tech.com/gpus"
HIT = {"hit": 1, "none": 0, "ambiguous": 0, "late": 0}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.certificates = tempfile.mkdtemp(prefix="gputopo-plan-")
        cls.addClassCleanup(shutil.rmtree, cls.certificates, ignore_errors=True)

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="gputopo-plan-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.api = ApiDouble(self.certificates)
        self.addCleanup(self.api.stop)
        self.api.add("/api/v1/nodes", "n1")
        self.dev = f"{self.directory}/dev"
        os.makedirs(f"{self.dev}/dri")
        for name in ["mxcd", *(f"dri/card{i}" for i in range(16)), *(f"dri/renderD{128 + i}" for i in range(16))]:
            with open(f"{self.dev}/{name}", "w", encoding="ascii"):
                pass
        self.machine = f"{self.directory}/node.json"
        shutil.copy(f"{MACHINES}/c500-8.json", self.machine)
        self.kubelet = KubeletDouble(self.directory)
        self.kubelet.book.empty_for = 0
        self.kubelet.start()
        self.addCleanup(self.kubelet.stop, leave_socket=False)

    def start(self, *arguments):
        config = kubeconfig(f"{self.directory}/config", self.api.url,
                            f"certificate-authority: {self.certificates}/ca.crt", "token: token-1")
        self.agent = Agent(AGENT, self.directory, "--from", self.machine, "--dev-root", self.dev, "--kubeconfig",
                           config, *arguments)
        self.addCleanup(self.end)
        self.assertTrue(self.kubelet.wait_healthy(8), self.agent.lines)
        if "--honour-plan=false" not in arguments:
            self.assertTrue(wait_for(lambda: self.metric("gputopo_plans_current")), self.agent.lines)
        self.gpus = list(self.kubelet.order)

    def end(self):
        code = self.agent.stop()
        if code:
            raise AssertionError(f"{code}: {self.agent.lines}")

    def metric(self, name):
        try:
            return self.agent.metrics().get(name)
        except OSError:
            return None

    def found(self):
        """Answers of GetPreferredAllocation by what was found."""
        return {kind: int(self.metric(f'gputopo_plan_preferences_total{{result="{kind}"}}'))
                for kind in ("hit", "none", "ambiguous", "late")}

    def got(self, result):
        return self.metric(f'gputopo_planned_containers_total{{result="{result}"}}')

    def plan(self, pod, *gpus, node="n1", wait=True, **containers):
        """A pod that is bound to a node: lists of indices for c0, c1..., or by name."""
        containers.update({f"c{i}": which for i, which in enumerate(gpus)})
        before = self.metric("gputopo_planned_pods")
        text = json.dumps({name: [self.gpus[i] for i in which] for name, which in containers.items()})
        self.bind(pod, {PLAN: text, "other": "x"}, node)
        if wait:
            self.assertTrue(wait_for(lambda: self.metric("gputopo_planned_pods") == before + 1), self.agent.lines)

    def bind(self, pod, annotations=None, node="n1"):
        self.api.add(PODS, pod, metadata={"annotations": annotations or {}}, spec={"nodeName": node})

    def admit(self, pod, *sizes, **how):
        return [sorted(self.gpus.index(name) for name in names)
                for names in self.kubelet.admit(pod, *sizes, **how)]

    late = 0  # containers that got what the topology chose, since the machine stood still for a second

    def admit_and_find(self, pod, *sizes, late=False, prepare=lambda: None, **how):
        """What it got, and what was found. Where the agent says `late` and that is not what is tested, the pod comes again."""
        for _ in range(50):
            prepare()
            before = self.found()
            got = self.admit(pod, *sizes, **how)
            found = {kind: count - before[kind] for kind, count in self.found().items()}
            if late or not found["late"]:
                break
            self.late += found["late"]
            self.kubelet.release(pod)
        return got, found

    def assert_all_as_planned(self, count):
        self.assertTrue(wait_for(lambda: self.got("as_planned") >= count), self.agent.lines)
        self.assertEqual(self.got("as_planned"), count)
        self.assertLessEqual(self.got("otherwise"), self.late)

    def after_a_look(self):
        """So that none comes by itself for a while."""
        lists = self.lists()
        self.assertTrue(wait_for(lambda: self.lists() > lists))

    def lists(self):
        return len(self.kubelet.book.calls)

    def events(self, reason):
        with self.api.lock:
            return [o for (where, _), o in self.api.objects.items() if where == EVENTS and o["reason"] == reason]


class Honoured(Case):
    def test_a_plan_that_topology_would_never_choose(self):
        self.start()
        self.plan("p", [0, 7])
        self.plan("elsewhere", [1, 2], node="n2", wait=False)
        self.assertEqual(self.admit_and_find("p", 2), ([[0, 7]], HIT))
        said = wait_for(lambda: self.agent.events("preferred as planned"))[0]
        self.assertEqual((said["namespace"], said["pod"], said["container"]), ("default", "p", "c0"))
        self.assert_all_as_planned(1)
        asked = [r for r in self.api.asked(path="/api/v1/pods")]
        self.assertTrue(asked and all(r.query["fieldSelector"] == "spec.nodeName=n1" for r in asked))
        self.assertTrue(all("PartialObjectMetadata" in r.headers["Accept"] for r in asked))

    def test_the_kubelet_learns_of_the_pod_first(self):
        self.start()
        self.plan("earlier", [1, 6])
        late = threading.Timer(0.6, self.plan, ("p", [0, 7]), {"wait": False})
        late.start()
        self.assertEqual(self.admit_and_find("p", 2), ([[0, 7]], HIT))
        late.join()

    def test_the_kubelet_is_slow(self):
        self.start()
        self.plan("p", [0, 7])
        self.kubelet.book.hang = 0.3
        self.assertEqual(self.admit_and_find("p", 2), ([[0, 7]], HIT))

    def test_two_containers(self):
        self.start()
        self.plan("p", [0, 5], [3, 6])
        self.assertEqual(self.admit_and_find("p", 2, 2), ([[0, 5], [3, 6]], {**HIT, "hit": 2}))
        self.plan("q", [1], [2, 4, 7])
        self.assertEqual(self.admit_and_find("q", 1, 3), ([[1], [2, 4, 7]], {**HIT, "hit": 2}))

    def test_five_equal_pods_at_once(self):
        self.start()
        wanted = {f"p{i}": [i] for i in (7, 3, 5, 1, 6)}
        for pod, gpus in wanted.items():
            self.plan(pod, gpus)
        for _ in range(50):
            before = self.found()
            threads = [threading.Thread(target=self.admit, args=(pod, 1)) for pod in wanted]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            found = {kind: count - before[kind] for kind, count in self.found().items()}
            got = {pod: [self.gpus.index(n) for n in self.kubelet.pods[pod][0]] for pod in wanted}
            if not found["late"]:  # as in admit_and_find()
                break
            for pod in wanted:
                self.kubelet.release(pod)
        self.assertEqual((got, found), (wanted, {**HIT, "hit": 5}))

    def test_a_pod_recreated_under_its_name(self):
        self.start()
        self.plan("web-0", [0, 7])
        self.assertEqual(self.admit_and_find("web-0", 2)[0], [[0, 7]])
        self.assert_all_as_planned(1)
        self.kubelet.release("web-0")
        self.api.remove(PODS, "web-0")
        self.assertTrue(wait_for(lambda: self.metric("gputopo_planned_pods") == 0))
        self.plan("web-0", [1, 4])
        self.assertEqual(self.admit_and_find("web-0", 2)[0], [[1, 4]])
        self.assert_all_as_planned(2)

    def test_recreated_while_the_watch_was_down(self):
        self.start()
        self.plan("web-0", [0, 7])
        self.api.fail(Status(503), times=3, path="/api/v1/pods$")
        self.api.cut_connections()
        self.api.remove(PODS, "web-0")
        self.api.add(PODS, "web-0", metadata={"annotations": {PLAN: json.dumps({"c0": [self.gpus[1]]})}},
                     spec={"nodeName": "n1"})
        self.api.compact()
        # a fresh List meets the pod with another uid
        self.assertTrue(wait_for(lambda: self.metric("gputopo_plans_current") == 1 and
                                 self.whole_lists() >= 2))
        self.assertEqual(self.admit_and_find("web-0", 1)[0], [[1]])

    def test_after_an_outage(self):
        """The watch goes on where it was: no new list, and no pod changes."""
        failed = "cannot ask what is planned for this node's pods"
        again = "the API server says again what is planned for this node's pods"
        self.api.bookmark_interval = 0.5
        self.start()
        for outages in (1, 2):
            said = len(self.agent.events(failed))
            self.api.fail(Status(503), times=2, path="/api/v1/pods$")
            self.api.cut_connections()
            self.assertTrue(wait_for(lambda n=said: len(self.agent.events(failed)) > n), self.agent.lines)
            self.assertTrue(wait_for(lambda: self.metric("gputopo_plans_current") == 1), self.agent.lines)
            asked = self.kubelet.book.during_rpc
            self.assertTrue(wait_for(lambda n=asked: self.asks_for_a_plan(n)), "a pod's plan may be on its way")
            self.assertTrue(wait_for(lambda n=outages: len(self.agent.events(again)) == n), self.agent.lines)
        self.assertEqual(self.whole_lists(), 1)

    def whole_lists(self):
        """Of pods, whole; else the watch looks at the version alone."""
        return len([r for r in self.api.asked(path="/api/v1/pods") if not r.watch and r.query.get("limit") != "1"])

    def asks_for_a_plan(self, asked):
        """Whether the kubelet is asked which pod it is, for one that nothing is planned for."""
        self.admit("nobody", 1)
        self.kubelet.release("nobody")
        return self.kubelet.book.during_rpc > asked

    def test_init_containers_are_not_in_the_kubelets_list(self):
        self.start()
        self.plan("p", [0, 2, 5, 7], prepare=[0, 5])
        got, found = self.admit_and_find("p", 4, init=[2])
        self.assertEqual(got[0][:1], [0])
        self.assertEqual(found["hit"], 1, "the app container has something to include: it is not asked for")
        taken = [self.gpus.index(n) for n in self.kubelet.pods["p"][0]]
        self.assertTrue({0, 5} <= set(taken), taken)
        self.kubelet.release("p")
        self.api.remove(PODS, "p")
        self.assertTrue(wait_for(lambda: self.metric("gputopo_planned_pods") == 0))
        self.plan("same", [3, 4], prepare=[3, 4])
        self.assertEqual(self.admit_and_find("same", 2, init=[2])[0], [[3, 4]])

    def test_the_first_lists_are_refused_for_their_rate(self):
        self.start()
        self.plan("p", [0, 7])
        book = self.kubelet.book
        lists = []

        def exhaust():
            self.after_a_look()
            lists.append(self.lists())
            book.exhausted = 4
        got, found = self.admit_and_find("p", 2, prepare=exhaust)
        answers = [str(call[2]) for call in book.calls[lists[-1]:lists[-1] + 5]]
        self.assertEqual((got, answers, found), ([[0, 7]], ["StatusCode.RESOURCE_EXHAUSTED"] * 4 + ["StatusCode.OK"], HIT))


class NotHonoured(Case):
    def test_pods_without_a_plan(self):
        self.start()
        self.assertEqual(self.metric("gputopo_planned_pods"), 0)
        self.bind("p")
        first = self.admit("p", 2)[0]
        self.assertEqual(first[0] // 4, first[1] // 4)
        self.plan("q", [0, 1, 2, 3, 4, 5])
        self.bind("r")
        self.admit("r", 1)
        self.assertEqual(self.found(), {"hit": 0, "none": 2, "ambiguous": 0, "late": 0})

    def test_without_an_api_server_nothing_is_asked_and_nobody_waits(self):
        self.start()
        self.api.fail(Status(503), times=1 << 30, path="/api/v1/pods$")
        self.api.cut_connections()
        self.assertTrue(wait_for(lambda: self.metric("gputopo_plans_current") == 0), self.agent.lines)
        self.after_a_look()
        for i in range(8):
            self.admit(f"p{i}", 1)
        self.assertEqual(self.found()["late"], 0)
        self.assertEqual(self.kubelet.book.untimely, 0)

    def test_switched_off(self):
        self.start("--honour-plan=false")
        self.api.add(PODS, "p", metadata={"annotations": {PLAN: json.dumps({"c0": [self.gpus[0], self.gpus[7]]})}},
                     spec={"nodeName": "n1"})
        self.assertTrue(wait_for(self.agent.is_current))
        self.after_a_look()
        got = self.admit("p", 2)[0]
        self.assertEqual(got[0] // 4, got[1] // 4, "the topology chooses")
        self.assertEqual(self.api.asked(path="/api/v1/pods"), [])
        self.admit("q", 1)
        self.assertEqual([n for n in self.agent.metrics() if "plan" in n], [])
        self.assertEqual(self.kubelet.book.untimely, 0)

    def test_a_gpu_becomes_unhealthy_after_planning(self):
        self.start()
        self.plan("p", [0, 7])
        with open(self.machine, encoding="utf-8") as file:
            node = json.load(file)
        node = node["node"]
        index = next(i for i, g in enumerate(node["gpus"]) if g["uuid"] == self.gpus[7])
        node["gpus"][index].update(healthy=False, unhealthyReason="too hot")
        with open(self.machine + ".new", "w", encoding="utf-8") as file:
            json.dump(node, file)
        os.rename(self.machine + ".new", self.machine)
        self.agent.hangup()
        self.assertTrue(self.kubelet.wait_healthy(7), self.agent.lines)
        got = self.admit("p", 2)[0]
        self.assertNotIn(7, got)
        self.assertEqual(self.found(), {"hit": 0, "none": 1, "ambiguous": 0, "late": 0})
        self.assertTrue(wait_for(lambda: self.got("otherwise") == 1), self.agent.lines)
        said = wait_for(lambda: self.agent.events("a container has other GPUs than planned"))[0]
        self.assertEqual(said["planned"].split(","), [self.gpus[0], self.gpus[7]])
        self.assertEqual(sorted(self.gpus.index(n) for n in said["actual"].split(",")), got)
        told = wait_for(lambda: self.events("PlanNotHonoured"))[0]
        self.assertEqual((told["regarding"]["kind"], told["regarding"]["name"]), ("Node", "n1"))
        self.assertIn("default/p", told["note"])

    def test_an_annotation_that_comes_late(self):
        self.start()
        got = self.admit("p", 2)[0]
        wanted = [0, 7] if got != [0, 7] else [1, 6]
        self.plan("p", wanted)
        self.assertTrue(wait_for(lambda: self.got("otherwise") == 1), self.agent.lines)
        lists = len(self.kubelet.book.lists())
        self.assertTrue(wait_for(lambda: len(self.kubelet.book.lists()) >= lists + 2))
        self.assertEqual(self.got("otherwise"), 1, "told once")
        self.assertEqual(len(self.agent.events("a container has other GPUs than planned")), 1)

    def test_several_pods_may_be_meant(self):
        self.start()
        self.kubelet.book.extra = [("default", "other", "c0", RESOURCE, [])]
        self.plan("p", [0, 7])
        self.plan("other", [1, 6])
        (got,), found = self.admit_and_find("p", 2)
        self.assertEqual(got[0] // 4, got[1] // 4)
        self.assertEqual(found, {"hit": 0, "none": 0, "ambiguous": 1, "late": 0})

    def test_a_pod_of_nobody_does_not_get_a_plan(self):
        self.start()
        self.plan("p", [0, 7])
        (got,), found = self.admit_and_find("stranger", 2)
        self.assertEqual(got[0] // 4, got[1] // 4)
        self.assertEqual(found["none"], 1)

    def test_a_kubelet_that_does_not_answer_in_time(self):
        self.start()
        self.plan("p", [0, 7])
        self.kubelet.book.hang = 30
        (got,), found = self.admit_and_find("p", 2, late=True)
        self.assertEqual(got[0] // 4, got[1] // 4)
        self.assertEqual(found, {"hit": 0, "none": 0, "ambiguous": 0, "late": 1})

    def test_the_list_is_empty_after_a_restart(self):
        self.start()
        self.plan("p", [0, 7])
        self.kubelet.book.empty_for = 30
        self.kubelet.restart()
        self.assertTrue(self.kubelet.wait_healthy(8))
        got, found = self.admit_and_find("p", 2)
        self.assertEqual((len(got[0]), found["none"]), (2, 1))
        self.kubelet.book.unavailable = True
        self.plan("q", [2, 6])
        before = self.found()
        self.assertEqual(len(self.admit("q", 2)[0]), 2)
        self.assertEqual(self.found()["late"] + self.found()["none"], before["late"] + before["none"] + 1)
        self.kubelet.book.unavailable = False

    def test_annotations_that_are_no_plan(self):
        self.start()
        bad = ["", "[]", "{", '{"c0": []}', '{"c0": ["a", "a"]}', '{"c0": ["a"], "c0": ["b"]}', '{"c0": "a"}',
               '{"c0": [1]}', '{"c0": ["x y"]}', "[" * 5000, '{"c0": [' + '"a",' * 6000 + '"b"]}',
               json.dumps({f"c{i}": [f"g{i}"] for i in range(129)})]
        for i, text in enumerate(bad):
            self.api.add(PODS, f"bad-{i}", metadata={"annotations": {PLAN: text}}, spec={"nodeName": "n1"})
        self.assertTrue(wait_for(lambda: self.metric("gputopo_plans_refused_total") == len(bad)),
                        self.agent.lines[-20:])
        self.assertEqual(self.metric("gputopo_planned_pods"), 0)
        self.plan("p", [0, 7])
        self.assertEqual(self.admit_and_find("p", 2)[0], [[0, 7]])

    def test_the_api_server_forbids_it(self):
        self.api.fail(Status(403, "pods is forbidden"), times=1000, path="/api/v1/pods$")
        config = kubeconfig(f"{self.directory}/config", self.api.url,
                            f"certificate-authority: {self.certificates}/ca.crt", "token: token-1")
        self.agent = Agent(AGENT, self.directory, "--from", self.machine, "--dev-root", self.dev, "--kubeconfig",
                           config)
        self.addCleanup(self.end)
        self.assertTrue(self.kubelet.wait_healthy(8), self.agent.lines)
        name = "cannot ask what is planned for this node's pods"
        self.assertTrue(wait_for(lambda: self.agent.events(name)))
        self.assertTrue(wait_for(self.agent.is_current), "the rest is published")
        self.assertEqual(len([e for e in self.agent.events(name) if e["level"] == "warning"]), 1)
        self.assertEqual(self.metric("gputopo_plans_current"), 0)


if __name__ == "__main__":
    side_by_side.main()
