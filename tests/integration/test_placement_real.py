#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The placement controller against a real kube-apiserver and etcd, on loopback, in a temporary directory.

Usage: test_placement_real.py PLACEMENT_HOST [GPUTOPO_SCHEDULER] [unittest arguments]

With the second program the whole companion runs, and its webhook is called by the API server.

kube-apiserver and kubectl are looked for in $GPUTOPO_KUBE_BIN and on PATH, etcd too; without them the test is
skipped (77).
"""

import base64
import contextlib
import copy
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import yaml

from daemon_driver import free_port, wait_for
from kube_driver import kubeconfig, make_certificate
from placement_driver import (PLAN, RESOURCE, TOPOLOGY_API, Host, gates, indexed_pod, planned_node,
                              required_nodes, statefulset_pod, supernode_status, template, topology)
from real_api import RealServer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOST = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
sys.argv = [sys.argv[0], *filter(None, sys.argv[1:])]
SCHEDULER = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and os.path.exists(sys.argv[1]) else ""
COMPANION = "system:serviceaccount:gputopo-system:gputopo-scheduler"


def policy(name):
    """A policy of ours with its binding, as YAML."""
    with open(os.path.join(ROOT, "daemonset/base/policy.yaml"), encoding="utf-8") as file:
        return "\n---\n".join(text for text in file.read().split("\n---\n") if f"  name: {name}\n" in text)


class RealPlacementTest(unittest.TestCase):
    """The companion has its account's name, by which the policy that binds it knows it, and every right besides."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.server = RealServer(cls.folder)
        cls.server.install()
        make_certificate(cls.folder, "companion", f"/O=system:masters/CN={COMPANION}")
        cls.kubeconfig = kubeconfig(f"{cls.folder}/companion.kubeconfig", cls.server.url, "certificate-authority: ca.crt",
                                    "client-certificate: companion.crt, client-key: companion.key")
        cls.server.kubectl("create", "-f", "-", text=policy("gputopo-pods"))
        cls.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
        cls.make({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "ns"}})
        for s in range(2):
            members = [f"s{s}-n{n}" for n in range(4)]
            for node in members:
                cls.make_node(node)
            cls.make({"apiVersion": TOPOLOGY_API, "kind": "Supernode", "metadata": {"name": f"s{s}"}},
                     supernode_status(members))

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        shutil.rmtree(cls.folder)

    @classmethod
    def make(cls, obj, status=None, path=None):
        if path:  # a subresource of a pod
            return cls.server.kubectl("create", "--raw", f"/api/v1/namespaces/ns/pods/{path}/binding", "-f", "-",
                                      text=json.dumps(obj))
        text = cls.server.kubectl("create", "-f", "-", "-o", "json", text=json.dumps(obj))
        made = json.loads(text)
        if status:
            cls.server.kubectl("replace", "--subresource=status", "-f", "-",
                               text=json.dumps({**made, "status": status}))
        return made

    @classmethod
    def make_node(cls, name):
        cls.make({"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": name, "labels": {"kubernetes.io/hostname": name, "zone": "a"}}}, {
                "capacity": {RESOURCE: "8", "pods": "110", "cpu": "8", "memory": "64Gi"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "x", "message": "x"}]})
        # An admission plugin taints every new node until a controller that does not run here says it is ready.
        cls.server.kubectl("patch", "node", name, "--type=merge", "-p", '{"spec": {"taints": null}}')
        cls.make({"apiVersion": TOPOLOGY_API, "kind": "NodeGPUTopology", "metadata": {"name": name}},
                 topology(name))

    def setUp(self):
        self.host = None

    def tearDown(self):
        if self.host:
            self.assertEqual(self.host.close(), (0, ""))
        for node in [f"s{s}-n{n}" for s in range(2) for n in range(4)]:
            self.set_used(node, [])
        # No garbage collector runs here.
        self.server.kubectl("delete", "-n", "ns", "jobs,statefulsets", "--all", "--cascade=background")
        self.server.kubectl("delete", "-n", "ns", "pods", "--all", "--force", "--grace-period=0")
        self.server.kubectl("delete", "-n", "ns", "gpuplacements", "--all")

    def start(self, **options):
        self.host = Host(HOST, self.kubeconfig,
                         **{"settle": 300, "gang": 300, "retry": 1000, "request": 1000, **options})
        self.assertTrue(self.host.order("start")["started"])

    def make_pod(self, name, pod):
        made = self.make({"apiVersion": "v1", "kind": "Pod", **pod,
                          "metadata": {"name": name, "namespace": "ns", **pod["metadata"]}})
        return made

    def make_job(self, name, pods, group, **more):
        job = template(8, group)
        job["spec"].update(more)
        made = self.make({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "ns"},
                          "spec": {"completionMode": "Indexed", "completions": pods, "parallelism": pods,
                                   "template": job}})
        return made["metadata"]["uid"]

    def make_gang(self, name, pods, group, **more):
        uid = self.make_job(name, pods, group, **more)
        for i in range(pods):
            self.make_pod(f"{name}-{i}", indexed_pod(name, i, uid, group=group, **copy.deepcopy(more)))
        return [f"{name}-{i}" for i in range(pods)]

    def pods(self):
        items = json.loads(self.server.kubectl("get", "pods", "-n", "ns", "-o", "json"))["items"]
        return {pod["metadata"]["name"]: pod for pod in items}

    def wait_lifted(self, *names, seconds=30):
        def lifted():
            pods = self.pods()
            return all(name in pods and not gates(pods[name]) for name in names) and pods
        pods = wait_for(lifted, seconds)
        if not pods:
            self.fail(f"not lifted: {self.host.counters()}, {self.host.notes[-5:]}")
        return pods

    def test_gang(self):
        self.start()
        names = self.make_gang("a", 4, 32)
        pods = self.wait_lifted(*names)
        for index, name in enumerate(names):
            pod = pods[name]
            self.assertEqual(required_nodes(pod), [[planned_node(pod)]])
            self.assertNotIn("nominatedNodeName", pod["status"])
            self.assertEqual(pod["metadata"]["annotations"][PLAN + "rank"], str(index))
        self.assertEqual(len({planned_node(pods[name])[:2] for name in names}), 1)
        counters = self.host.counters()
        self.assertEqual((counters["writeFailures"], counters["podsLifted"], counters["writes"]), (0, 4, 5))

    def test_hint_for_another_scheduler(self):
        self.start()
        pods = self.wait_lifted(*self.make_gang("a", 4, 32, schedulerName="volcano"))
        for pod in pods.values():
            self.assertEqual(required_nodes(pod), [[planned_node(pod)]])
            self.assertEqual(pod["status"]["nominatedNodeName"], planned_node(pod))
            conditions = {c["type"]: c for c in pod["status"]["conditions"]}
            self.assertEqual(conditions["GPUPlacement"]["status"], "True")
            self.assertIn("PodScheduled", conditions)

    def bind(self, name):
        """As a scheduler would, and as the node's agent would report it."""
        pod = self.pods()[name]
        node = planned_node(pod)
        self.make({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": "ns"},
                   "target": {"apiVersion": "v1", "kind": "Node", "name": node}}, path=name)
        gpus = [int(i.rsplit("-", 1)[1]) for i in
                json.loads(pod["metadata"]["annotations"][PLAN + "gpus"])["main"]]
        self.set_used(node, [(gpu, "ns", name) for gpu in gpus])

    def set_used(self, node, used):
        text = self.server.kubectl("get", "nodegputopology", node, "-o", "json")
        self.server.kubectl("replace", "--subresource=status", "-f", "-",
                            text=json.dumps({**json.loads(text), "status": topology(node, used=used)}))

    def wait_condition(self, name, reason):
        def reasons():
            pod = self.pods().get(name, {})
            return [c for c in pod.get("status", {}).get("conditions", [])
                    if c["type"] == "GPUPlacement" and c["reason"] == reason]
        found = wait_for(reasons)
        self.assertTrue(found, f"{name}: no {reason}: {self.host.counters()}, {self.host.notes[-3:]}")
        return found[0]

    def test_statefulset_pods_one_after_the_other(self):
        self.start()
        made = self.make({"apiVersion": "apps/v1", "kind": "StatefulSet",
                          "metadata": {"name": "set", "namespace": "ns"},
                          "spec": {"replicas": 3, "serviceName": "set", "selector": {"matchLabels": {"app": "x"}},
                                   "template": {**template(8, 24), "spec": {
                                       **template(8)["spec"], "restartPolicy": "Always"}}}})
        nodes = []
        for i in range(3):
            self.make_pod(f"set-{i}", statefulset_pod("set", i, made["metadata"]["uid"]))
            nodes.append(planned_node(self.wait_lifted(f"set-{i}")[f"set-{i}"]))
            self.bind(f"set-{i}")
            self.assertTrue(wait_for(lambda n=i: self.host.counters()["reservedGPUs"] == 16 - 8 * n))
        self.assertEqual(len(set(nodes)), 3)
        self.assertEqual(len({node[:2] for node in nodes}), 1)

    def test_affinity_and_other_gates(self):
        """What may be changed of a gated pod, as the real server has it."""
        self.start()
        terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                 {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["s1-n0"]}]}]
        names = self.make_gang("a", 2, 16, affinity={"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": terms[0]}]}},
            tolerations=[{"key": "x", "operator": "Exists"}],
            schedulingGates=[{"name": "scheduling.volcano.sh/queue-allocation-gate"}])
        def planned():
            pods = self.pods()
            return all(gates(pods[n]) == ["scheduling.volcano.sh/queue-allocation-gate"] for n in names) and pods
        pods = wait_for(planned)
        self.assertTrue(pods, self.host.notes)
        for name in names:
            node = planned_node(pods[name])
            self.assertEqual(required_nodes(pods[name])[-1], [node])
            affinity = pods[name]["spec"]["affinity"]["nodeAffinity"]
            had = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            self.assertEqual(had[0]["matchExpressions"], terms[0]["matchExpressions"])
            self.assertEqual(had[1]["matchFields"][0], terms[1]["matchFields"][0])
            self.assertEqual(len(affinity["preferredDuringSchedulingIgnoredDuringExecution"]), 1)
        self.assertEqual(self.host.counters()["writeFailures"], 0)

    def test_waiting_job_says_why(self):
        self.start()
        first = self.make_gang("first", 8, 32)
        self.wait_lifted(*first)
        second = self.make_gang("second", 1, 8)
        condition = self.wait_condition(second[0], "TooFewGPUs")
        self.assertEqual(condition["status"], "False")
        events = self.server.kubectl("get", "events", "-n", "ns", "-o", "json")
        self.assertTrue(wait_for(lambda: [e for e in json.loads(self.server.kubectl(
            "get", "events", "-n", "ns", "-o", "json"))["items"] if e["reason"] == "TooFewGPUs"]), events)
        for name in first:
            self.server.kubectl("delete", "pod", "-n", "ns", name, "--grace-period=0", "--force")
        self.wait_lifted(*second)
        self.wait_condition(second[0], "Planned")

    def set_quota(self, hard):
        """As its controller would, which does not run here: the API server enforces and counts by the status."""
        key = f"requests.{RESOURCE}"
        self.server.kubectl("patch", "-n", "ns", "resourcequota", "q", "--type=merge", "-p", json.dumps({"spec": {"hard": {key: hard}}}))
        quota = json.loads(self.server.kubectl("get", "-n", "ns", "resourcequota", "q", "-o", "json"))
        used = quota["status"].get("used", {}).get(key, "0")
        self.server.kubectl("patch", "-n", "ns", "resourcequota", "q", "--subresource=status", "--type=merge",
                            "-p", json.dumps({"status": {"hard": {key: hard}, "used": {key: used}}}))
        return used

    def test_quota(self):
        """The API server counts pods when they are made; what is reserved for the others stays within what it would let in."""
        self.make({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "ns"},
                   "spec": {"hard": {f"requests.{RESOURCE}": "16"}}})
        self.addCleanup(self.server.kubectl, "delete", "-n", "ns", "resourcequota", "q")
        self.set_quota("16")
        self.start(retry=600000)
        uid = self.make_job("a", 4, 32)
        self.make_pod("a-0", indexed_pod("a", 0, uid, group=32))
        text = "quota q of its namespace allows 16 GPUs: 8 are used, 0 are reserved for pods to come; it would need 24 more"
        self.assertEqual(self.wait_condition("a-0", "QuotaExceeded")["message"], text)
        self.assertEqual(self.host.counters()["reservedGPUs"], 0)
        self.make_pod("a-1", indexed_pod("a", 1, uid, group=32))
        with self.assertRaisesRegex(AssertionError, "exceeded quota: q"):
            self.make_pod("a-2", indexed_pod("a", 2, uid, group=32))
        self.assertEqual(self.set_quota("32"), "16")
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 16), self.host.counters())
        for i in (2, 3):
            self.make_pod(f"a-{i}", indexed_pod("a", i, uid, group=32))
        self.wait_lifted(*(f"a-{i}" for i in range(4)))
        self.assertEqual(self.set_quota("32"), "32")

    def make_small_pods(self, name, pods, group):
        """All in one request, of two GPUs each: four find place on a node."""
        uid = self.make({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "ns"},
                         "spec": {"completionMode": "Indexed", "completions": pods, "parallelism": pods,
                                  "template": template(2, group)}})["metadata"]["uid"]
        made = [indexed_pod(name, i, uid, gpus=2, group=group) for i in range(pods)]
        for i, pod in enumerate(made):
            pod["metadata"].update({"name": f"{name}-{i}", "namespace": "ns"})
        self.server.kubectl("create", "-f", "-", text=json.dumps({
            "apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in made]}))
        return [f"{name}-{i}" for i in range(pods)]

    def test_killed_in_the_middle_of_the_burst(self):
        """Killed at any moment: the next one goes on, and what is lifted already stays together with the rest."""
        half = 0
        for round_ in range(2):
            names = self.make_small_pods(f"kill{round_}", 32, 32)
            self.start()
            wait_for(lambda: self.host.counters()["podsLifted"], 5)
            self.host.kill()
            pods = self.pods()
            for n in names:
                self.assertEqual(planned_node(pods[n]) is None, bool(gates(pods[n])))  # all of it, or nothing
            before = {n: planned_node(pods[n]) for n in names if planned_node(pods[n])}
            half += 0 < len(before) < 32
            self.start()
            pods = self.wait_lifted(*names)
            self.assertEqual({n: planned_node(pods[n]) for n in before}, before)
            for unit in (names[:16], names[16:]):
                self.assertEqual(len({planned_node(pods[n])[:2] for n in unit}), 1)
            gpus = [gpu for n in names for gpu in json.loads(pods[n]["metadata"]["annotations"][PLAN + "gpus"])["main"]]
            self.assertEqual(len(set(gpus)), 64)
            self.server.kubectl("delete", "pods", "-n", "ns", "--all", "--grace-period=0", "--force")
            self.assertEqual(self.host.close(), (0, ""))
            self.host = None
        print(f"killed in the middle of {half} of 2 bursts", file=sys.stderr)

    def test_api_server_restarts(self):
        self.start()
        uid = self.make_job("a", 4, 32)
        for i in range(3):
            self.make_pod(f"a-{i}", indexed_pod("a", i, uid, group=32))
        self.server.end(self.server.apiserver)
        time.sleep(0.5)
        self.server.start()
        self.server.wait_ready()
        self.make_pod("a-3", indexed_pod("a", 3, uid, group=32))
        self.wait_lifted(*(f"a-{i}" for i in range(4)), seconds=90)

    def test_restored_from_a_backup(self):
        """A running job is there as before; one that waits is of before it said so; one that came later has never been."""
        self.start()
        a = self.make_gang("a", 4, 32)
        self.wait_lifted(*a)
        self.host.order("stop")
        waits = self.make_gang("waits", 8, 32)
        self.server.back_up()
        self.assertTrue(self.host.order("start"))
        self.wait_condition(waits[0], "TooFewGPUs")
        later = self.make_gang("later", 4, 32)
        self.wait_lifted(*later, seconds=90)
        self.server.restore()
        began = time.monotonic()
        self.assertNotIn(later[0], self.pods())
        self.wait_condition(waits[0], "TooFewGPUs")  # which the backup does not have
        again = self.make_gang("again", 4, 32)
        self.wait_lifted(*again, seconds=60)
        print(f"as ever {time.monotonic() - began:.1f} s after the restore", file=sys.stderr)
        for name in a + again:
            self.server.kubectl("delete", "pod", "-n", "ns", name, "--grace-period=0", "--force")
        self.wait_lifted(*waits, seconds=60)

    def test_lost_plan_is_repaired(self):
        self.start(recreate=1)
        names = self.make_gang("a", 2, 8)
        pods = self.wait_lifted(*names)
        node = planned_node(pods["a-1"])
        uid = pods["a-1"]["metadata"]["uid"]
        self.set_used(node, [(gpu, "ns", "stranger") for gpu in range(8)])
        try:
            self.assertTrue(wait_for(lambda: "a-1" not in self.pods() or
                                     self.pods()["a-1"]["metadata"]["uid"] != uid, 20))
            self.make_pod("a-1", indexed_pod("a", 1, pods["a-1"]["metadata"]["ownerReferences"][0]["uid"], group=8))
            again = self.wait_lifted("a-1")["a-1"]
            self.assertNotEqual(planned_node(again), node)
        finally:
            self.set_used(node, [])

    def set_ready(self, node, ready):
        conditions = [{"type": "Ready", "status": "True" if ready else "Unknown", "reason": "x", "message": "x"}]
        self.server.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p",
                            json.dumps({"status": {"conditions": conditions}}))

    def test_evictions(self):
        """A unit that lost a node: a budget that nobody has counted yet holds, and then the pods go, each once."""
        self.start(nodeloss=500)
        names = self.make_gang("a", 4, 32)
        self.server.kubectl("annotate", "-n", "ns", "pods", "--all", "metax-tech.com/on-node-loss=unit")
        pods = self.wait_lifted(*names)
        self.make({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a", "namespace": "ns"}, "spec": {
            "minAvailable": 4, "selector": {"matchLabels": {"batch.kubernetes.io/job-name": "a"}}}})
        for name in names:
            node = planned_node(pods[name])
            self.make({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {
                "apiVersion": "v1", "kind": "Node", "name": node}}, path=name)
            self.server.kubectl("patch", "-n", "ns", "pod", name, "--subresource=status", "--type=merge", "-p", json.dumps(
                {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}))
        lost = planned_node(pods["a-2"])
        self.addCleanup(self.set_ready, lost, True)
        self.set_ready(lost, False)
        self.assertTrue(wait_for(lambda: "budget" in self.host.job("ns/Job/a").get("text", ""), 20), self.host.job("ns/Job/a"))
        status = json.loads(self.server.kubectl("get", "gpl", "-n", "ns", "job-a", "-o", "json"))["status"]
        self.assertEqual((status["moving"], {node[:2] for node in status["nodes"]} & {lost[:2]}), ("Unit", set()))
        self.assertFalse(any("deletionTimestamp" in pod["metadata"] for pod in self.pods().values()))
        self.server.kubectl("delete", "-n", "ns", "pdb", "a")
        self.assertTrue(wait_for(lambda: sum("deletionTimestamp" in pod["metadata"] for pod in self.pods().values()) == 3, 20),
                        self.host.job("ns/Job/a"))
        self.assertEqual(self.host.counters()["conflicts"], 0)

    @contextlib.contextmanager
    def companion(self, shipped=None):
        """gputopo-scheduler with its webhook, which the API server calls: about all pods and StatefulSets, or by what is shipped."""
        port = free_port()
        make_certificate(self.folder, "webhook", "/CN=webhook", "subjectAltName=IP:127.0.0.1")
        with open(f"{self.folder}/ca.crt", "rb") as file:
            bundle = base64.b64encode(file.read()).decode()
        log = open(f"{self.folder}/companion.log", "wb")  # noqa: SIM115, closed below
        process = subprocess.Popen(
            [SCHEDULER, "--kubeconfig", self.kubeconfig, "--only", "placement", "--http", "none",
             "--https", f"127.0.0.1:{port}", "--tls-certificate", f"{self.folder}/webhook.crt", "--tls-key",
             f"{self.folder}/webhook.key", "--leader-elect", "false"], stdin=subprocess.DEVNULL, stderr=log)
        context = ssl.create_default_context(cafile=f"{self.folder}/ca.crt")

        def ready():
            try:
                with urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz", context=context) as answer:
                    return answer.status == 200
            except OSError:
                return False

        def webhook(kind, path, rules):
            if shipped:
                made, = (item for item in yaml.safe_load_all(shipped) if item["kind"] == kind)
                for hook in made["webhooks"]:
                    hook.update(clientConfig={"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}, failurePolicy="Fail")
                return {**made, "metadata": {"name": "gputopo"}}
            return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "gputopo"},
                    "webhooks": [{"name": "placement.metax-tech.com", "admissionReviewVersions": ["v1"],
                                  "sideEffects": "None", "failurePolicy": "Fail", "rules": rules, "clientConfig": {
                                      "url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}}]}

        pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        sets = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["statefulsets"]}
        try:
            self.assertTrue(wait_for(ready))
            self.make(webhook("MutatingWebhookConfiguration", "/webhook/mutate", [pods]))
            self.make(webhook("ValidatingWebhookConfiguration", "/webhook/validate", [sets]))
            time.sleep(2)  # the API server reads them now and then
            yield port, context
        finally:
            for kind in ("mutating", "validating"):
                self.server.kubectl("delete", f"{kind}webhookconfigurations", "gputopo", "--ignore-not-found")
            process.send_signal(signal.SIGTERM)
            code = process.wait(20)
            log.close()
            with open(f"{self.folder}/companion.log", encoding="utf-8") as file:
                self.assertEqual(code, 0, file.read()[-3000:])

    @unittest.skipUnless(SCHEDULER, "the companion is not given")
    def test_warnings_of_keys(self):
        """kubectl prints them, and the API server asks about the objects that may deserve one."""
        with open(os.path.join(ROOT, "daemonset/components/placement/webhook.yaml"), encoding="utf-8") as file:
            shipped = file.read()
        typo, size = "metax-tech.com/gpu-groupsize", "metax-tech.com/gpu-group-size"
        meant = f"Warning: unknown key {typo}: {size} is meant\n"

        def jobs(name, **annotations):
            return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "ns", "annotations": annotations},
                    "spec": {"suspend": True, "completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": template()}}

        def typed(made, *path):
            at = made
            for key in path:
                at = at.setdefault(key, {})
            at[typo] = "8"
            return made

        cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "w-cron", "namespace": "ns"}, "spec": {
            "schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template()}}}}
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w-web", "namespace": "ns"}, "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template()}}
        deployment["spec"]["template"]["spec"].pop("restartPolicy")
        with self.companion(shipped):
            for made, said in ((jobs("w-none"), ""), (jobs("w-typo", **{typo: "8"}), meant), (jobs("w-own", **{size: "8"}), ""),
                               (typed(cron, "spec", "jobTemplate", "metadata", "annotations"), meant),
                               (typed(deployment, "spec", "template", "metadata", "annotations"), meant)):
                done = subprocess.run([self.server.kubectl_path, "--kubeconfig", self.server.kubeconfig, "create", "-f", "-"],
                                      input=json.dumps(made), capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, said), made["metadata"]["name"])
            refused = self.is_refused(lambda: self.make(jobs("w-bad", **{size: "12"})))
            self.assertIn("gpu-group-size 12 is not a multiple of the pod's 8 GPUs", str(refused))

    def test_policy_of_plans(self):
        """Who else may write a plan: nobody, but for a new pod that can go nowhere else."""
        plan = {f"{PLAN}node": "s0-n0", f"{PLAN}gpus": '{"main":["GPU-s0-n0-0"]}'}

        def pod(name, node="s0-n0", gated=False):
            made = indexed_pod("x", 0, gated=gated)
            made["metadata"]["annotations"].update(plan)
            if node:
                made["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}
            return lambda: self.make_pod(name, made)
        said = "only gputopo-scheduler writes"
        for refused in (pod("nowhere", None), pod("elsewhere", "s0-n1"), pod("gated", gated=True)):
            self.assertIn(said, str(self.is_refused(refused)))
        pod("pinned")()
        for change in (f"{PLAN}gpus=x", f"{PLAN}gpus-", f"{PLAN}rank=1", f"{PLAN}rank="):
            self.assertIn(said, str(self.is_refused(lambda change=change: self.server.kubectl(
                "annotate", "pod", "-n", "ns", "pinned", "--overwrite", change))))
        self.server.kubectl("annotate", "pod", "-n", "ns", "pinned", "other=x")

    def test_policy_of_the_probes_resource(self):
        """Nobody asks for it outside of gputopo's namespace, in no kind of container."""
        def pod(**more):
            return lambda: self.make_pod("x", {"metadata": {}, "spec": {"containers": [{"name": "a", "image": "x"}], **more}})
        asks = [{"name": "b", "image": "x", "resources": {"limits": {"metax-tech.com/gpu-probe": "1"}}}]
        for refused in (pod(containers=asks), pod(initContainers=asks)):
            self.assertIn("for gputopo's own probe", str(self.is_refused(refused)))
        pod()()

    def written(self, count, name):
        """Objects as gputopo-scheduler writes them, each with the patch that makes another of it."""
        self.addCleanup(self.server.kubectl, "delete", "-n", "ns", "gpl", "--all")
        program = os.path.join(os.path.dirname(HOST), "test_api_gpu_placement")
        lines = subprocess.run([program, str(count)], check=True, capture_output=True, text=True).stdout.splitlines()
        for i, (made, patch) in enumerate(zip(map(json.loads, lines[::2]), map(json.loads, lines[1::2]))):
            made["metadata"].update(namespace="ns", name=f"{name}-{i}")
            yield made, patch

    def test_placements_on_the_api_server(self):
        """They are kept as they are written, the largest too, and a patch of another version is refused."""
        file = f"{self.folder}/placement.json"

        def patch(name, body):
            with open(file, "w", encoding="utf-8") as to:
                json.dump(body, to)
            return self.server.kubectl("patch", "gpl", "-n", "ns", name, "--type=merge", "--patch-file", file, "-o", "json")
        for written, change in self.written(12, "written"):
            name = written["metadata"]["name"]
            begun = time.monotonic()
            made = self.make(written)
            took = time.monotonic() - begun
            self.assertEqual((made["spec"], made["status"]), (written["spec"], written["status"]))
            if len(written["status"].get("pods", [])) == 16384:
                etcd = len(self.server.kubectl("get", "--raw", f"/apis/{TOPOLOGY_API}/namespaces/ns/gpuplacements/{name}"))
                print(f"16384 pods: {len(json.dumps(written, separators=(',', ':')))} bytes, {etcd} on the API server, {took:.2f} s")
            now = {key: made["metadata"][key] for key in ("uid", "resourceVersion")}
            for other, said in (({"resourceVersion": "1"}, "(Conflict)"), ({"uid": "another"}, "metadata.uid"),
                                ({"resourceVersion": "1", "uid": "another"}, "(Conflict)")):
                change["metadata"] = {**now, **other}
                self.assertIn(said, self.is_refused(lambda name=name, change=change: patch(name, change)))
            change["metadata"] = now
            got = json.loads(patch(name, change))
            self.assertEqual(got["metadata"].get("ownerReferences"), written["metadata"].get("ownerReferences"))
            for part in ("spec", "status"):
                want = {key: value for key, value in change[part].items() if value is not None}
                self.assertEqual(got[part], {**want, **({"job": written["spec"]["job"]} if part == "spec" else {})})
        self.assertIn("GPUs of all its pods", self.server.kubectl("explain", "gpl.spec.gpus"))

    def test_policy_of_placements(self):
        """Nobody else writes one; the garbage collector may take its owner off, and everybody with the right may delete it."""
        (made, _), *_ = self.written(2, "policed")
        made["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}]
        companion = ("--as", COMPANION, "--as-group", "system:masters")
        self.server.kubectl("create", "-f", "-", text=policy("gputopo-placement"))
        try:
            said = "only gputopo-scheduler writes GPUPlacements"
            self.assertTrue(wait_for(lambda: said in self.refusal("create", "--dry-run=server", "-f", "-", text=json.dumps(made))))
            self.server.kubectl("create", *companion, "-f", "-", text=json.dumps(made))
            change = ("patch", "gpl", "-n", "ns", "policed-0", "--type=merge", "-p")
            for body in ({"status": {"epoch": 99}}, {"status": None}, {"spec": {"priority": 5000}}):
                self.assertIn(said, self.refusal(*change, json.dumps(body)))
                self.server.kubectl(*change, json.dumps(body), *companion)
            self.server.kubectl(*change, '{"metadata": {"ownerReferences": null, "labels": {"a": "b"}}}')
            self.server.kubectl("delete", "gpl", "-n", "ns", "policed-0")
        finally:
            self.server.kubectl("delete", "validatingadmissionpolicybindings,validatingadmissionpolicies", "gputopo-placement")

    def refusal(self, *arguments, **more):
        """What kubectl says where it fails; empty where it does not."""
        return self.is_refused(lambda: self.server.kubectl(*arguments, **more)) or ""

    def test_policy_of_the_companion(self):
        """With its token one can place pods, and little else."""
        spec = indexed_pod("x", 0)["spec"]
        container = spec["containers"][0]
        spec["initContainers"] = [{"name": "init", "image": container["image"]}]
        spec["schedulingGates"].append({"name": "example.com/quota"})
        self.make_pod("gated", {"metadata": {"labels": {"app": "x"}, "annotations": {"example.com/theirs": "x"}}, "spec": spec})
        self.make_pod("bound", indexed_pod("y", 0, gated=False))
        self.make({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bound", "namespace": "ns"},
                   "target": {"apiVersion": "v1", "kind": "Node", "name": "s0-n0"}}, path="bound")

        def patch(body, name="gated", *more, kind="strategic"):
            return lambda: self.server.kubectl("patch", "pod", "-n", "ns", name, f"--type={kind}", "-p", json.dumps(body),
                                               *more, "--as", COMPANION, "--as-group", "system:masters")

        def status(body, **more):
            return patch({"status": body}, "gated", "--subresource=status", **more)

        def delete(name):
            self.server.kubectl("delete", "pod", "-n", "ns", name, "--wait=false", "--as", COMPANION, "--as-group", "system:masters")
        image = [{"name": container["name"], "image": "example.com/other"}]
        for what, said in (
                (patch({"spec": {"containers": image}}), "nothing else"),
                (patch({"spec": {"containers": image}}, "bound"), "nothing else"),
                (patch({"spec": {"initContainers": [{**image[0], "name": "init"}]}}), "nothing else"),
                (patch({"spec": {"activeDeadlineSeconds": 1}}, "bound"), "nothing else"),
                (patch({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}), "nothing else"),
                (patch({"spec": {"nodeSelector": {"a": "b"}}}), "nothing else"),
                (patch({"spec": {"schedulingGates": None}}, kind="merge"), "no other"),
                (patch({"metadata": {"labels": {"app": "y"}}}), "no labels"),
                (patch({"metadata": {"finalizers": ["example.com/stays"]}}), "no labels"),
                (patch({"metadata": {"annotations": {"example.com/theirs": None}}}), "only annotations"),
                (patch({"metadata": {"annotations": {"example.com/mine": "x"}}}), "only annotations"),
                (patch({"metadata": {"labels": {"app": "y"}}}, "gated", "--subresource=status"), "no labels"),
                (status({"phase": "Failed"}), "in a pod's status"),
                (status({"podIPs": [{"ip": "10.1.2.3"}], "podIP": "10.1.2.3"}), "in a pod's status"),
                (status({"conditions": [{"type": "Ready", "status": "True"}]}), "in a pod's status"),
                (status({"reason": "Evicted", "message": "x"}), "in a pod's status"),
                (status({"hostIP": "10.1.2.3", "hostIPs": [{"ip": "10.1.2.3"}]}), "in a pod's status"),
                (status({"startTime": "2026-01-01T00:00:00Z"}), "in a pod's status"),
                (status({"ephemeralContainerStatuses": [{"name": "e", "image": "i", "imageID": "", "ready": True,
                                                         "restartCount": 0}]}), "in a pod's status"),
                (patch({"metadata": {"annotations": {f"{PLAN}node": "s0-n0"}}}, "bound"), "only while it has the gate"),
                (lambda: delete("bound"), "no pod that is on a node"),
                (lambda: delete("gated"), "none that it has not planned")):
            self.assertIn(said, str(self.is_refused(what)))
        patch({"metadata": {"annotations": {f"{PLAN}unit": "1"}},
               "spec": {"schedulingGates": [{"name": "example.com/quota"}]}}, kind="merge")()
        status({"nominatedNodeName": "s0-n1", "conditions": [{"type": "GPUPlacement", "status": "True"}]})()
        made = self.pods()["gated"]
        self.assertEqual((gates(made), made["metadata"]["annotations"][f"{PLAN}unit"]), (["example.com/quota"], "1"))

    def is_refused(self, what):
        """The API server's words, or False."""
        try:
            what()
        except AssertionError as error:
            return str(error)
        return False

    def told(self, node):
        return json.loads(self.server.kubectl("get", "ngt", node, "-o", "json")).get("spec", {}).get("isolated")

    def change_topology(self, node, change, *more):
        return lambda: self.server.kubectl("patch", "ngt", node, "--type=merge", "-p", json.dumps(change), *more)

    def test_policy_of_isolations_that_follow_their_gpus(self):
        """With the companion's token one can write what others have isolated, and nothing else of the object."""
        self.server.kubectl("create", "-f", "-", text="\n---\n".join(map(policy, ("gputopo-isolation", "gputopo-moved-gpus"))))
        user = ("--as", COMPANION, "--as-group", "system:masters")
        node, value = "s1-n3", {"gpu": "0", "bandwidthGBps": 1, "at": "2026-01-01T00:00:00Z", "by": COMPANION}
        entry = {"gpu": "GPU-s0-n0-0", "reason": "hot", "by": "alice", "since": "2026-01-01T00:00:00Z"}
        everything = {"all": True, "reason": "x", "by": "system:admin"}

        def refused(change, what=None):
            return str(self.is_refused(what or self.change_topology(node, change, "--dry-run=server", *user)))
        self.assertTrue(wait_for(lambda: "moves what is isolated" in refused({"spec": {"isolated": [everything]}})))
        self.assertIn("nothing of a NodeGPUTopology but what is isolated", refused({"spec": {"measured": [value]}}))
        for metadata in ({"labels": {"a": "b"}}, {"annotations": {"a": "b"}}, {"finalizers": ["example.com/stays"]}):
            self.assertIn("nothing of a NodeGPUTopology but what is isolated", refused({"metadata": metadata}))
        self.assertIn("moves what is isolated", refused(None, lambda: self.server.kubectl("delete", "ngt", node, *user)))
        self.assertIn("a new entry says by:", refused(None, self.change_topology(node, {"spec": {"isolated": [entry]}})))
        self.change_topology(node, {"spec": {"isolated": [entry]}}, *user)()
        name = json.loads(self.server.kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]["username"]
        everything["by"] = name
        self.change_topology(node, {"spec": {"isolated": [entry, everything]}})()
        self.assertIn("moves what is isolated", refused({"spec": {"isolated": [entry]}}))
        self.change_topology(node, {"spec": {"isolated": [everything]}}, *user)()
        self.assertEqual(self.told(node), [everything])
        if SCHEDULER:
            self.follow_gpu(entry, name)
        self.change_topology(node, {"spec": None})()
        self.server.kubectl("delete", "validatingadmissionpolicybinding", "gputopo-isolation", "gputopo-moved-gpus")

    def follow_gpu(self, entry, name):
        """The whole companion, under these policies."""
        entry = {**entry, "gpu": "GPU-s1-n3-0", "by": name}
        self.change_topology("s0-n0", {"spec": {"isolated": [entry]}})()
        with self.companion():
            self.assertTrue(wait_for(lambda: self.told("s1-n3")[1:] == [entry]), self.told("s1-n3"))
            self.assertEqual(self.told("s0-n0"), [entry])
            status = topology("s1-n3", unhealthy=[0])
            status["gpus"][0]["health"] = "unhealthy"
            self.change_topology("s1-n3", {"status": status}, "--subresource=status")()
            self.assertTrue(wait_for(lambda: self.told("s0-n0") == []), self.told("s0-n0"))

    @unittest.skipUnless(SCHEDULER, "gputopo-scheduler is not given")
    def test_companion_and_its_webhook(self):
        with self.companion() as (port, context):
            uid = self.make_job("hook", 4, 32)
            names = [f"hook-{i}" for i in range(4)]
            for i, name in enumerate(names):  # not gated, and only the job's template is annotated
                made = self.make_pod(name, indexed_pod("hook", i, uid, gated=False))
                self.assertEqual(gates(made), [] if i else ["metax-tech.com/gpu-placement"])
                self.assertEqual(required_nodes(made), [[planned_node(made)]] if i else [])  # the rest of a planned job
                if not i:
                    time.sleep(1)

            def lifted():
                pods = self.pods()
                return all(planned_node(pods[n]) and not gates(pods[n]) for n in names)
            self.assertTrue(wait_for(lifted))
            places = [planned_node(pod) for name, pod in self.pods().items() if name in names]
            for name in names:  # kubectl hides them
                text = self.server.kubectl("get", "--raw", f"/api/v1/namespaces/ns/pods/{name}")
                self.assertNotIn("managedFields", json.loads(text)["metadata"])
            self.assertEqual((len(set(places)), len({node[:2] for node in places})), (4, 1))
            plain = self.make_pod("plain", {"metadata": {}, "spec": indexed_pod("x", 0, gated=False)["spec"]})
            self.assertEqual(gates(plain), [])
            with self.assertRaisesRegex(AssertionError, "gpu-group-size 20 is not a multiple of the pod's 8 GPUs"):
                self.make_pod("bad", indexed_pod("bad", 0, "uid", group=20, gated=False))
            with self.assertRaisesRegex(AssertionError, "40 GPUs are not a multiple of gpu-group-size 32"):
                self.make({"apiVersion": "apps/v1", "kind": "StatefulSet",
                           "metadata": {"name": "bad", "namespace": "ns"},
                           "spec": {"replicas": 5, "serviceName": "x", "selector": {"matchLabels": {"app": "x"}},
                                    "template": {**template(8, 32), "spec": {
                                        **template(8)["spec"], "restartPolicy": "Always"}}}})
            with urllib.request.urlopen(f"https://127.0.0.1:{port}/metrics", context=context) as answer:
                metrics = answer.read().decode()
            self.assertIn("gputopo_placement_pods_planned_total 4\n", metrics)
            self.assertIn("gputopo_placement_pods_admitted_total 3\n", metrics)
            self.assertIn("gputopo_placement_writes_total 2\n", metrics)
            self.assertIn("gputopo_placement_conflicts_total 0\n", metrics)
            self.assertIn('gputopo_placement_jobs{state="placed"} 1\n', metrics)
            request = urllib.request.Request(f"https://127.0.0.1:{port}/webhook/mutate", b"nonsense",
                                             {"Content-Type": "application/json"})
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, context=context)
            self.assertEqual(refused.exception.code, 400)
            refused.exception.close()


if not RealServer.is_there():
    print("skipped: kube-apiserver, kubectl or etcd is not there ($GPUTOPO_KUBE_BIN, PATH)")
    sys.exit(77)
if __name__ == "__main__":
    unittest.main(verbosity=2)
