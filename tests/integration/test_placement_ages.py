#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Since when a job is in its state, and why: condition, GPUPlacement, `gputopo explain` and /debug/model say the same, whoever leads.

Usage: test_placement_ages.py GPUTOPO_SCHEDULER GPUTOPO [unittest arguments]
"""

import calendar
import json
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from api_double import StrictDouble
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
