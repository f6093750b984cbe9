# SPDX-License-Identifier: Apache-2.0
"""The companion's placement and our plugins in Volcano's scheduler, both in one cluster: pods with the label PLACED are the
companion's, which its webhook gates; all others are the plugins'."""
import json
import os
import random
import time

from harness import install
from harness.placed import annotation, pod_template, rack_of
from harness.waiting import Failed, same, until

from cases_operators import WORKERS, OperatorCases
from cases_volcano import task, vcjob

PLACED = {"placed-by": "companion"}
SHAPES = ((4, 8, 32), (8, 8, 32), (2, 8, 16), (4, 4, 16), (8, 2, 16), (3, 8, None), (1, 2, None))  # pods, GPUs, a unit
JOBS, ROUNDS, LEFT = 8, 10, 6
LOST = ("PlanLost", "PlanRefused")


def of_companion(pod):
    return pod["metadata"].get("labels", {}).get("placed-by") == "companion"


class BesideCases:
    def __init__(self, placed, volcano, report):
        self.placed, self.volcano, self.cluster, self.report = placed, volcano, placed.cluster, report
        self.seed = int(os.environ.get("GPUTOPO_SEED", 0)) or random.randrange(1, 1 << 31)

    # steps

    def begin(self):
        """Placement comes into a cluster that ran without it; its webhook asks about labelled pods alone. A pod whose GPUs the plugins
        took in the second in which they were planned is made again."""
        self.placed.places = True
        self.placed.apply_manifests("recreate")
        self.cluster.kubectl("rollout", "status", "deployment/gputopo-scheduler", "-n", install.NAMESPACE, "--timeout=290s")
        self.cluster.kubectl("patch", "mutatingwebhookconfiguration", "gputopo-scheduler", "--type=json", "-p", json.dumps(
            [{"op": "add", "path": "/webhooks/0/objectSelector", "value": {"matchLabels": PLACED}}]))

        def gated(labels):
            pod = pod_template(8, group=8, labels=labels)
            pod["metadata"].update(name="probe", namespace="default")
            made = json.loads(self.cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-",
                                                   data={"apiVersion": "v1", "kind": "Pod", **pod}))
            return bool(made["spec"].get("schedulingGates"))
        until("the webhook to gate labelled pods alone", lambda: gated(PLACED) and not gated({}), 60)

    def job(self, name, pods, gpus, group, companion, **more):
        labels = {"case": "beside", **(PLACED if companion else {})}
        return vcjob(name, task("t", pods, pod_template(gpus, group=group, labels=labels, **more)), minAvailable=pods)

    def one_worker_of_four(self, labels):
        """The manual's ElasticJob in one rack, of whose workers three do not exist yet."""
        [manifest] = self.placed.example("elasticjob.yaml", lambda spec: [spec["replicaSpecs"]["worker"]["template"]])
        worker = manifest["spec"]["replicaSpecs"]["worker"]
        worker["replicas"] = 4
        worker["template"]["metadata"].setdefault("labels", {}).update(labels)
        worker["template"]["spec"]["nodeSelector"] = {"rack": "3"}
        made = self.placed.create(manifest)
        self.placed.create(OperatorCases.elastic_worker(made, 0, 0))
        self.placed.bound(WORKERS, 1)
        return made

    def others_come(self, made, nodes):
        """The job "four" is on other nodes than these, and the workers that come later are on these."""
        for pod in self.placed.bound("volcano.sh/job-name=four", 4):
            if pod["spec"]["nodeName"] in nodes:
                raise Failed(f"{pod['metadata']['name']} is on {pod['spec']['nodeName']}, which is reserved")
        for rank in (3, 1, 2):
            self.placed.create(OperatorCases.elastic_worker(made, rank, rank))
        workers = self.placed.bound(WORKERS, 4)
        self.placed.check_placed(workers, 32)
        same({pod["spec"]["nodeName"] for pod in workers[1:]}, nodes, "the nodes of those that came later")

    # cases

    def left_alone(self):
        """A job of each: who planned it is seen by the affinity, which the companion alone writes. Then a pod of each unit is made again."""
        self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": [
            self.job("companions", 8, 8, 32, True), self.job("plugins", 8, 8, 32, False)]})
        times = []
        for name, companion in (("companions", True), ("plugins", False)):
            pods = self.placed.bound(f"volcano.sh/job-name={name}", 8)
            self.placed.check_placed(pods, 32)
            same([bool(pod["spec"].get("affinity")) for pod in pods], [companion] * 8, f"affinities of {name}")
            lost = pods[5]
            started = time.monotonic()
            self.cluster.kubectl("delete", "pod", lost["metadata"]["name"], "--wait")
            until(f"the successor of {lost['metadata']['name']}", lambda: self.placed.pods(f"volcano.sh/job-name={name}").get(
                lost["metadata"]["name"], lost)["metadata"]["uid"] != lost["metadata"]["uid"])
            after = self.placed.bound(f"volcano.sh/job-name={name}", 8)
            self.placed.check_placed(after, 32)
            same(rack_of(after[5]["spec"]["nodeName"]), rack_of(lost["spec"]["nodeName"]), "its rack")
            times.append(f"{time.monotonic() - started:.1f} s")
        self.placed.no_gpu_twice()
        return f"successors ran after {' and '.join(times)}"

    def reserved_places(self):
        """Three workers of four are missing: the plugins see in the Lease that their nodes are reserved, and use the four others."""
        made = self.one_worker_of_four(PLACED)
        kept = until("the places of three workers in the Lease", lambda: (lambda note: note.count("hollow-3-") == 3 and note)(
            self.cluster.get("lease", "gputopo-scheduler", "-n", install.NAMESPACE)["metadata"].get("annotations", {}).get(
                "topology.metax-tech.com/note", "")))
        nodes = {word.split("=")[0] for word in kept.split()}
        self.placed.create(self.job("five", 5, 8, None, False, nodeSelector={"rack": "3"}))
        self.volcano.rounds(3)
        self.placed.untouched(self.placed.pods("volcano.sh/job-name=five"))
        self.placed.create(self.job("four", 4, 8, 32, False, nodeSelector={"rack": "3"}))
        self.others_come(made, nodes)
        self.cluster.kubectl("delete", "elasticjob", "pytorch-demo", "--wait=false")
        self.cluster.kubectl("delete", "jobs.batch.volcano.sh", "four", "--wait=false")
        self.placed.bound("volcano.sh/job-name=five", 5)
        return kept

    def reserved_by_plugins(self):
        """Three workers of four are missing, and this time the plugins keep their places: the companion sees it in their Lease, and a job of
        five nodes of the rack waits, while one of four goes to the others."""
        made = self.one_worker_of_four({})
        kept = until("the places of three workers in the plugins' Lease", lambda: (lambda note: note.count("hollow-3-") == 3 and note)(
            self.plugins_lease()["metadata"].get("annotations", {}).get("topology.metax-tech.com/note", "")))
        nodes = {word.split("=")[0] for word in kept.split()}
        self.placed.create(self.job("five", 5, 8, 40, True, nodeSelector={"rack": "3"}))
        self.placed.waits("volcano.sh/job-name=five", "TooFewGPUs", "24 GPUs are reserved by the other scheduler for pods to come")
        self.cluster.kubectl("delete", "jobs.batch.volcano.sh", "five", "--wait=true")
        self.placed.create(self.job("four", 4, 8, 32, True, nodeSelector={"rack": "3"}))
        self.others_come(made, nodes)
        until("the plugins' Lease to keep nothing", lambda: "annotations" not in self.plugins_lease()["metadata"])
        return kept

    def plugins_lease(self):
        return next((lease for lease in self.cluster.get("leases", "-n", install.NAMESPACE)["items"]
                     if lease["metadata"]["name"] == "gputopo-vc-scheduler"), {"metadata": {"annotations": {}}})

    def churn(self):
        """Both place at the same time; most of the time some of them wait."""
        dice, alive, made = random.Random(self.seed), {}, 0
        for _ in range(ROUNDS):
            batch = []
            for _ in range(JOBS):
                pods, gpus, group = dice.choice(SHAPES)
                companion = bool(group) and dice.random() < 0.5
                name, made = f"both-{made}", made + 1
                batch.append(self.job(name, pods, gpus, group, companion))
                alive[name] = pods
            self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": batch})
            self.volcano.rounds(dice.choice((1, 2)))
            self.invariants()
            gone = dice.sample(sorted(alive), min(len(alive), JOBS - 1))
            for name in gone:
                del alive[name]
            self.cluster.kubectl("delete", "jobs.batch.volcano.sh", *gone, "--wait=false", "--ignore-not-found")
        for name in sorted(alive)[LEFT:]:
            del alive[name]
            self.cluster.kubectl("delete", "jobs.batch.volcano.sh", name, "--wait=false")
        until("all that are left to run", lambda: self.settled(alive), 120)
        self.invariants()
        lost = [item["note"] for item in self.cluster.get("events.events.k8s.io", "-n", "default")["items"] if item["reason"] in LOST]
        return f"seed {self.seed}, {made} jobs, {len(alive)} at the end, {len(lost)} Events of {' and '.join(LOST)}"

    def settled(self, alive):
        """{name: pods}"""
        pods = self.placed.pods("case=beside")
        running = [name for name, pod in pods.items() if pod["spec"].get("nodeName")]
        return len(running) == len(pods) == sum(alive.values()) or (False, self.placed.summary(
            {name: pod for name, pod in pods.items() if name not in running}))

    def invariants(self):
        """No unit in two racks, no GPU twice by whoever planned it, no pod for which a kubelet had no GPU."""
        units, held = {}, {}
        everything = [pod for pod in self.cluster.get("pods", "-n", "default", "-l", "case=beside")["items"]
                      if not pod["metadata"].get("deletionTimestamp")]
        refused = [pod["metadata"]["name"] for pod in everything if str(pod["status"].get("reason")).startswith("OutOf")]
        same(refused, [], "pods that came to a node without GPUs for them")
        for pod in everything:
            node, owner = pod["spec"].get("nodeName"), "companion" if of_companion(pod) else "plugins"
            if not node or not annotation(pod, "gpus"):
                continue
            if annotation(pod, "unit"):
                units.setdefault((pod["metadata"]["labels"]["volcano.sh/job-name"], annotation(pod, "unit")), set()).add(rack_of(node))
            for ids in json.loads(annotation(pod, "gpus")).values():
                for gpu in ids:
                    who = f"{pod['metadata']['name']} of the {owner}"
                    same(held.setdefault((node, gpu), who), who, f"who has {gpu} of {node}")
        torn = {unit: racks for unit, racks in units.items() if len(racks) > 1}
        if torn:
            raise Failed(f"torn: {torn}")
        self.placed.no_gpu_twice()

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        if not case("placement by the companion comes into the cluster, for labelled pods", self.begin):
            return
        case("what the companion planned the plugins leave alone, and the other way round", self.left_alone)
        case("places that the companion reserves for pods to come, the plugins leave free", self.reserved_places)
        case("places that the plugins reserve for pods to come, the companion leaves free", self.reserved_by_plugins)
        case("80 jobs of both come and go", self.churn)
        self.placed.clean()
