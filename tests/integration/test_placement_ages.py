#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Since when a job is in its state, and why: condition, GPUPlacement, `gputopo explain` and /debug/model say the same, whoever leads;
and so do the metrics of waits.

Usage: test_placement_ages.py GPUTOPO_SCHEDULER GPUTOPO [unittest arguments]
"""

import calendar
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import side_by_side
from api_double import Held, Status, StrictDouble
from companion_driver import NODES, SUPERNODES, TOPOLOGIES, Companion
from daemon_driver import wait_for
from kube_driver import kubeconfig
from placement_driver import gates, indexed_pod, node_status, planned_node, supernode_status, template, topology

SCHEDULER, GPUTOPO = sys.argv.pop(1), sys.argv.pop(1)
PODS = "/api/v1/namespaces/ns/pods"
JOBS = "/apis/batch/v1/namespaces/ns/jobs"
PLACEMENTS = "/apis/topology.metax-tech.com/v1alpha1/namespaces/ns/gpuplacements"
HOUR = 3600
TEXT_REST_S = 5  # a text that was told stays for so long


def stamp(ago=0):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago))


def seconds(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


class Ages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gputopo-ages-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.api = StrictDouble(self.folder)
        self.addCleanup(self.api.stop)
        self.nodes = [f"r{r}-n{n}" for r in (1, 2) for n in range(4)]
        for node in self.nodes:
            self.api.add(NODES, node, metadata={"labels": {"kubernetes.io/hostname": node}}, status=node_status())
            self.api.add(TOPOLOGIES, node, status=topology(node))
        for rack in ("r1", "r2"):
            self.api.add(SUPERNODES, rack, status=supernode_status([n for n in self.nodes if n.startswith(rack)]))

    def start(self, *options):
        config = kubeconfig(f"{self.folder}/config", self.api.url, "certificate-authority: ca.crt", "token: token-1")
        companion = Companion(SCHEDULER, "--only=placement,ui", "--kubeconfig", config, "--namespace=default",
                              *(options or ["--leader-elect=false"]))
        self.addCleanup(lambda: companion.process.poll() is None and self.assertEqual(companion.stop(), 0, companion.lines))
        self.assertTrue(wait_for(companion.is_ready), companion.lines)
        return companion

    def add_pod(self, name, pod, ago=0):
        metadata = {**pod["metadata"], "creationTimestamp": stamp(ago)}
        self.api.add(PODS, name, **{"status": {"phase": "Pending"}, **pod, "metadata": metadata})

    def add_job(self, name, pods, group, made=None, ago=0, gpus=8, **more):
        self.api.add(JOBS, name, spec={"completionMode": "Indexed", "completions": pods, "parallelism": pods,
                                       "template": template(gpus, group)})
        for i in range(pods if made is None else made):
            self.add_pod(f"{name}-{i}", indexed_pod(name, i, gpus=gpus, group=group, **more), ago)

    def found(self, path, name):
        with self.api.lock:
            return json.loads(json.dumps(self.api.objects.get((self.api.place(path + "/x")[0], name))))

    def condition(self, pod):
        return next((c for c in (self.found(PODS, pod) or {}).get("status", {}).get("conditions", [])
                     if c["type"] == "GPUPlacement"), {})

    def status(self, name):
        return (self.found(PLACEMENTS, name) or {}).get("status", {})

    def use(self, node, gpus, by="other"):
        self.api.add(TOPOLOGIES, node, status=topology(node, used=[(gpu, "ns", by) for gpu in gpus]))

    def fill(self):
        for node in self.nodes:
            self.use(node, range(8))

    def explain(self, companion, name):
        return subprocess.run([GPUTOPO, "explain", f"--companion=127.0.0.1:{companion.port}", f"ns/{name}"],
                              capture_output=True, text=True, check=False).stdout

    def wait_said(self, companion, name, text):
        self.assertTrue(wait_for(lambda: text in self.explain(companion, name)), self.explain(companion, name))

    def model_job(self, companion, name):
        answers = []

        def is_there():
            code, text = companion.get("/debug/model")[:2]
            answers[:] = [job for job in json.loads(text)["jobs"] if job["name"] == name] if code == 200 else []
            return answers
        wait_for(is_there)
        return answers[0]

    def run_on(self, name, node, pod):
        self.use(node, range(8), name)
        self.add_pod(name, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Running"}})

    def test_who_would_have_to_move(self):
        """j lies in two racks; m may move into the third, and then one rack would do. Nothing is said where m may not."""
        self.api.add(NODES, "r3-n0", metadata={"labels": {"kubernetes.io/hostname": "r3-n0"}}, status=node_status())
        self.api.add(TOPOLOGIES, "r3-n0", status=topology("r3-n0"))
        self.api.add(SUPERNODES, "r3", status=supernode_status(["r3-n0"]))
        self.fill()
        self.api.add(JOBS, "j", spec={"completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": template(8, 8)})
        self.run_on("j-0", "r1-n0", indexed_pod("j", 0, group=8, gated=False))
        self.run_on("j-1", "r2-n0", indexed_pod("j", 1, group=8, gated=False))
        moves = indexed_pod("m", 0, uid="uid-m", gated=False)
        self.run_on("m-0", "r2-n3", moves)
        companion = self.start()
        self.wait_said(companion, "j", "It lies in 2 of 3 supernodes\n")
        moves["metadata"]["annotations"]["metax-tech.com/movable"] = "true"
        self.run_on("m-0", "r2-n3", moves)
        self.wait_said(companion, "j", "It lies in 2 of 3 supernodes; 1 supernode would do if 1 pod of m and its 1 in r1 moved\n")

    def make_older(self, job, pods, ago):
        """As an earlier leader would have left its GPUPlacement and its conditions, had it reported them so long ago."""
        placement = self.found(PLACEMENTS, job)
        for key in ("waitingSince", "plannedAt"):
            if placement and placement["status"].get(key):
                placement["status"][key] = stamp(ago)
        if placement:
            self.api.add(PLACEMENTS, job, **{k: v for k, v in placement.items() if k not in ("apiVersion", "kind")})
        for name in pods:
            pod = self.found(PODS, name)
            for condition in pod["status"].get("conditions", []):
                condition["lastTransitionTime"] = stamp(ago)
            self.api.add(PODS, name, **{k: v for k, v in pod.items() if k not in ("apiVersion", "kind")})

    def make_states(self):
        """A job in each state that lasts, by name, with what explain says of it."""
        self.add_job("placed", 1, 8)
        first = self.start()
        self.assertTrue(wait_for(lambda: gates(self.found(PODS, "placed-0")) == []))
        self.use(planned_node(self.found(PODS, "placed-0")), range(8), "placed-0")
        pod = self.found(PODS, "placed-0")
        self.api.add(PODS, "placed-0", **{"metadata": pod["metadata"], "status": {"phase": "Running"},
                                          "spec": {**pod["spec"], "nodeName": planned_node(pod)}})
        for node in self.nodes:
            if node != planned_node(pod):
                self.use(node, range(8))
        self.add_job("waits", 1, 8)
        self.add_job("bad", 3, 12)
        pod = indexed_pod("held", 0, group=8)
        pod["spec"]["schedulingGates"].append({"name": "example.com/gate"})
        self.api.add(JOBS, "held", spec={"completionMode": "Indexed", "completions": 1, "parallelism": 1, "template": template(8, 8)})
        self.add_pod("held-0", pod)
        words = {"placed": "It is placed", "waits": "It waits for room", "bad": "It is refused",
                 "held": "It is not planned yet"}
        for name, said in words.items():
            self.wait_said(first, name, said)
        for name in ("waits", "bad", "held"):
            self.assertTrue(wait_for(lambda name=name: self.condition(f"{name}-0") and self.status(f"job-{name}")), name)
        return first, words

    def test_ages_outlive_leaders(self):
        """Since when a job is in its state stands in its objects: the next leader and a follower say the same."""
        first, words = self.make_states()
        first.process.kill()
        first.stop()
        for hours, name in enumerate(words, 2):
            self.make_older(f"job-{name}", [f"{name}-0"], hours * HOUR)
        self.add_job("new", 1, 8, ago=9 * HOUR)  # nobody has ever said anything of it
        words["new"] = "It waits for room"
        before = {name: self.status(f"job-{name}") for name in words}
        both = [self.start("--leader-elect=true") for _ in range(2)]
        self.assertTrue(wait_for(lambda: any(one.leads() for one in both)))
        leader = next(one for one in both if one.leads())
        follower = next(one for one in both if one is not leader)
        self.assertTrue(wait_for(lambda: self.status("job-new").get("reason") == "TooFewGPUs"))
        for companion in (leader, follower):
            for hours, name in zip((2, 3, 4, 5, 9), words):
                with self.subTest(job=name, leads=companion is leader):
                    self.wait_said(companion, name, f"{words[name]}, for {hours} h")
                    since = seconds(self.model_job(companion, name)["since"])
                    for key in ("waitingSince",) if words[name] == "It waits for room" else ("plannedAt",) if name == "placed" else ():
                        self.assertEqual(since, seconds(self.status(f"job-{name}")[key]))
                    if name != "placed":
                        self.assertTrue(wait_for(lambda name=name, since=since: seconds(
                            self.condition(f"{name}-0")["lastTransitionTime"]) == since), (since, self.condition(f"{name}-0")))
        for key, name in (("plannedAt", "placed"), ("waitingSince", "waits")):
            self.assertEqual(self.status(f"job-{name}")[key], before[name][key])

    def texts(self, companion, name):
        said = [line.strip() for line in self.explain(companion, name).splitlines() if line.startswith("  TooFewGPUs")]
        condition, status, model = self.condition(f"{name}-0"), self.status(f"job-{name}"), self.model_job(companion, name)
        return [f"{reason}: {text}" for reason, text in ((condition["reason"], condition["message"]), (status["reason"], status["message"]),
                                                        (model["reason"], model["text"]))] + said

    def test_one_text(self):
        """While much changes, everybody reads the same text, a new one every few seconds; then the last one."""
        self.fill()
        companion = self.start()
        self.add_job("a", 4, 32)
        self.assertTrue(wait_for(lambda: self.status("job-a").get("reason") == "TooFewGPUs" and self.condition("a-3")))
        before, began = len(self.api.asked(method="PATCH")), time.monotonic()
        read = []
        for i in range(24):
            self.use(self.nodes[i % 8], range(i % 3, 8) if i < 23 else range(7))
            read.append(self.texts(companion, "a"))
        took, wrote = time.monotonic() - began, len(self.api.asked(method="PATCH")) - before
        self.assertLessEqual(wrote, 5 * (took / TEXT_REST_S + 1), took)  # four conditions and the object
        differ = [texts for texts in read if len(set(texts)) > 1]
        self.assertLessEqual(len(differ), took / TEXT_REST_S + 1, differ)  # while the writes are under way
        for node in self.nodes:
            self.use(node, range(7))
        self.use(self.nodes[0], ())
        self.assertTrue(wait_for(lambda: len(set(self.texts(companion, "a"))) == 1 and " has 8 " in self.texts(companion, "a")[0],
                                 2 * TEXT_REST_S), self.texts(companion, "a"))

    def test_a_job_that_waits_warns(self):
        self.fill()
        self.start()
        self.add_job("a", 1, 8)

        def types():
            with self.api.lock:
                return {(o["regarding"]["kind"], o["type"]) for (where, _), o in self.api.objects.items()
                        if where[2] == "events" and o["reason"] == "TooFewGPUs"}
        self.assertTrue(wait_for(lambda: types() == {("Pod", "Warning"), ("Job", "Warning")}), types())

    # ---- metrics of waits ----

    def metric(self, companion, name, **labels):
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        return companion.metrics().get(f"gputopo_{name}{{{text}}}" if text else f"gputopo_{name}")

    def waits(self, companion, gpus):
        """{limit of a bucket: waits within it}, and the sum of the waits."""
        limits = ("1", "5", "15", "60", "300", "900", "3600", "14400", "43200", "86400", "259200", "+Inf")
        found = {limit: self.metric(companion, "placement_wait_duration_seconds_bucket", gpus=gpus, le=limit) for limit in limits}
        self.assertEqual(found["+Inf"], self.metric(companion, "placement_wait_duration_seconds_count", gpus=gpus))
        return found, self.metric(companion, "placement_wait_duration_seconds_sum", gpus=gpus)

    def test_waits_are_counted_whoever_led(self):
        """A wait is counted when its plan is in force, by all the time that the objects say."""
        self.fill()
        first = self.start()
        for name, pods in (("a", 1), ("b", 2)):
            self.add_job(name, pods, 8 * pods)
            self.assertTrue(wait_for(lambda name=name: self.condition(f"{name}-0") and self.status(f"job-{name}")))
        self.assertEqual(self.waits(first, "1-8")[0]["+Inf"], 0)
        first.process.kill()
        first.stop()
        self.make_older("job-a", ["a-0"], 2 * HOUR)
        self.make_older("job-b", ["b-0", "b-1"], 30 * HOUR)
        self.add_job("new", 1, 8, ago=9 * HOUR)  # no leader has seen it
        second = self.start()
        self.assertTrue(wait_for(lambda: self.status("job-new").get("reason") == "TooFewGPUs"))
        self.assertAlmostEqual(self.metric(second, "placement_oldest_wait_seconds", namespace="ns"), 30 * HOUR, delta=60)
        for node in self.nodes[:4]:
            self.use(node, ())
        self.assertTrue(wait_for(lambda: [gates(self.found(PODS, f"{pod}-0")) for pod in ("a", "b", "new")] == [[]] * 3))
        counts, total = self.waits(second, "1-8")
        self.assertEqual({key: counts[key] for key in ("3600", "14400", "43200", "+Inf")},
                         {"3600": 0, "14400": 1, "43200": 2, "+Inf": 2})
        self.assertAlmostEqual(total, 11 * HOUR, delta=60)
        counts, total = self.waits(second, "9-32")
        self.assertEqual({key: counts[key] for key in ("86400", "259200", "+Inf")}, {"86400": 0, "259200": 1, "+Inf": 1})
        self.assertIsNone(self.metric(second, "placement_oldest_wait_seconds", namespace="ns"))
        self.use(self.nodes[4], ())
        self.add_job("soon", 1, 8)
        self.assertTrue(wait_for(lambda: gates(self.found(PODS, "soon-0")) == []))
        self.assertEqual(self.waits(second, "1-8")[0]["300"], 1)
        self.assertEqual(self.waits(second, "1-8")[0]["+Inf"], 3)

    def test_oldest_waits_by_namespace(self):
        """Twenty namespaces at most, and of the others the oldest."""
        self.fill()
        for i in range(24):
            space = f"team-{i}"
            pod = indexed_pod("a", 0, group=8)
            self.api.add(JOBS.replace("/ns/", f"/{space}/"), "a", spec={"completionMode": "Indexed", "completions": 1,
                                                                        "parallelism": 1, "template": template(8, 8)})
            self.api.add(PODS.replace("/ns/", f"/{space}/"), "a-0", **{
                "status": {"phase": "Pending"}, **pod,
                "metadata": {**pod["metadata"], "namespace": space, "creationTimestamp": stamp((i + 1) * HOUR)}})

        companion = self.start()  # after the pods: while it still gathers those of a job, this does not wait

        def oldest():
            prefix = 'gputopo_placement_oldest_wait_seconds{namespace="'
            return {key[len(prefix):-2]: value for key, value in companion.metrics().items() if key.startswith(prefix)}
        self.assertTrue(wait_for(lambda: self.metric(companion, "placement_jobs", state="waits") == 24))
        found = oldest()
        self.assertEqual(set(found), {f"team-{i}" for i in range(4, 24)} | {"(others)"})
        hours = {name: round(value / HOUR) for name, value in found.items()}
        self.assertEqual(hours, {**{f"team-{i}": i + 1 for i in range(4, 24)}, "(others)": 4})

    def test_units_that_fit(self):
        """Of two supernodes with 32 GPUs each; a size is there up to the largest of them."""
        companion = self.start()

        def fitting():
            prefix = 'gputopo_fitting_units{unit="'
            return {int(key[len(prefix):-2]): value for key, value in companion.metrics().items() if key.startswith(prefix)}
        self.assertTrue(wait_for(lambda: fitting() == {1: 64, 2: 32, 4: 16, 8: 8, 16: 4, 32: 2}), fitting())
        self.use(self.nodes[0], range(3))
        self.assertTrue(wait_for(lambda: fitting() == {1: 61, 2: 30, 4: 15, 8: 7, 16: 3, 32: 1}), fitting())
        self.fill()
        self.assertTrue(wait_for(lambda: fitting() == {1: 0, 2: 0, 4: 0, 8: 0, 16: 0, 32: 0}), fitting())

    def fitting(self, companion):
        prefix = 'gputopo_placement_fitting_job_wait_seconds{reason="'
        return {key[len(prefix):-2]: value for key, value in companion.metrics().items() if key.startswith(prefix)}

    def test_jobs_held_back(self):
        """By nodes reserved for an older job; and planned ones whose pods cannot be written."""
        for node in ("r1-n0", "r1-n1", "r2-n0"):
            self.use(node, range(8))
        self.api.fail(Status(403, "a policy forbids it"), times=10000, method="PATCH", path="/stuck-0$")
        companion = self.start("--leader-elect=false", "--patience=1")
        self.add_job("older", 4, 32, ago=2 * HOUR)
        self.assertTrue(wait_for(lambda: self.metric(companion, "placement_reserved_nodes") == 4, 60))
        self.assertEqual(set(self.fitting(companion).values()), {0})
        self.add_job("held", 3, 24, ago=HOUR)
        self.assertTrue(wait_for(lambda: self.fitting(companion)["reserved"] >= 2), self.fitting(companion))
        self.add_job("stuck", 1, 8)
        self.assertTrue(wait_for(lambda: self.fitting(companion)["planned"] >= 2), self.fitting(companion))
        self.assertEqual({reason for reason, value in self.fitting(companion).items() if value}, {"reserved", "planned"})

    def test_jobs_that_fit_and_wait(self):
        """What keeps a job from GPUs that are free, and for how long; not one that has no room."""
        for node in self.nodes[:4]:
            self.use(node, range(8))
        refused = {"method": "POST", "path": "/ns/gpuplacements$"}
        self.api.fail(Status(403, "exceeded quota: objects"), times=10000, **refused)
        self.add_job("refused", 1, 8, ago=HOUR)
        self.add_job("large", 8, 64, ago=3 * HOUR)
        companion = self.start()

        def fitting():
            return self.fitting(companion)
        self.assertTrue(wait_for(lambda: fitting()["write_refused"] > 0, 60), fitting())
        self.assertAlmostEqual(fitting()["write_refused"], HOUR, delta=90)
        self.assertEqual({reason: value for reason, value in fitting().items() if value and reason != "write_refused"}, {})
        answer = threading.Event()
        self.addCleanup(answer.set)
        self.api.faults.clear()
        self.api.fail(Held(answer, 403, message="exceeded quota: objects"), times=10000, **refused)
        before = len(self.api.asked(method="POST", path=PLACEMENTS))
        self.assertTrue(wait_for(lambda: len(self.api.asked(method="POST", path=PLACEMENTS)) > before, 60))
        self.assertAlmostEqual(fitting()["write_refused"], HOUR, delta=150)  # while it is tried again, too
        answer.set()
        self.fill()
        self.assertTrue(wait_for(lambda: not any(fitting().values()), 60), fitting())
        for node in self.nodes[4:]:
            self.use(node, ())
        self.api.faults.clear()
        self.assertTrue(wait_for(lambda: gates(self.found(PODS, "refused-0")) == [], 120))
        self.assertEqual(self.waits(companion, "1-8")[0], {**dict.fromkeys(self.waits(companion, "1-8")[0], 0),
                                                           **dict.fromkeys(("14400", "43200", "86400", "259200", "+Inf"), 1)})


if __name__ == "__main__":
    side_by_side.main()
