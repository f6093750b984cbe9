# SPDX-License-Identifier: Apache-2.0
"""Beside a stock Volcano: gpu-aware by its extender plugin, the manual's jobs placed, and Volcano's other behaviour
unchanged."""
import json
import re

from harness.contention import five_gangs
from harness.placed import PLAN, annotation, gpus_of, pod_template, rank
from harness.report import quick
from harness.waiting import Failed, same, until

from cases_gpu_aware import EXACT, GpuAwareCases

VOLCANO_API = "batch.volcano.sh/v1alpha1"


def task(name, replicas, template, **more):
    return {"name": name, "replicas": replicas, "template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}, **more}


def vcjob(name, *tasks, **spec):
    return {"apiVersion": VOLCANO_API, "kind": "Job", "metadata": {"name": name, "namespace": "default"},
            "spec": {"schedulerName": "volcano", "tasks": list(tasks), **spec}}


class VolcanoCases:
    def __init__(self, placed, volcano, report, races=False):
        """`races`: pods without units may have their GPUs written on them, where two come to a node at once."""
        self.placed, self.volcano, self.cluster, self.report, self.races = placed, volcano, placed.cluster, report, races
        self.aware = GpuAwareCases(placed, report)

    # steps

    def podgroup(self, job):
        groups = [item for item in self.cluster.get("podgroups.scheduling.volcano.sh")["items"]
                  if any(owner["name"] == job for owner in item["metadata"].get("ownerReferences", []))]
        same(len(groups), 1, f"PodGroups of {job}")
        return groups[0]

    def phase(self, job):
        return self.cluster.get("jobs.batch.volcano.sh", job).get("status", {}).get("state", {}).get("phase")

    def short_racks(self):
        """Three whole nodes are free in each rack."""
        filled = [(rack, number) for rack in (1, 2, 3, 4, 5) for number in range(3, 8)]
        for rack, number in filled:
            pod = pod_template(8, labels={"occupies": "racks"}, nodeName=f"hollow-{rack}-{number}")
            self.placed.apply({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {
                **pod["metadata"], "name": f"occupies-{rack}-{number}", "namespace": "default"}})
        for rack, number in filled:
            self.aware.told_free(f"hollow-{rack}-{number}", 0)

    def five_gangs(self, check, waiting):
        five_gangs(self.placed, "jobs.batch.volcano.sh", "volcano.sh/job-name",
                   lambda name, pods, template: vcjob(name, task("t", pods, template), minAvailable=pods), check, waiting)

    # gpu-aware

    @quick
    def without_us(self):
        self.volcano.start(self.volcano.without_us())
        self.aware.occupy()
        got = {gpus: self.aware.place(f"vplain-{gpus}", gpus, "volcano") for gpus in sorted(EXACT, reverse=True)}
        self.aware.remove(*(f"vplain-{gpus}" for gpus in EXACT))
        self.aware.told_free("hollow-2-0", 8)
        hits = sum(got[gpus] == node for gpus, node in EXACT.items())
        return f"{hits} of {len(EXACT)} exact: " + ", ".join(f"{gpus} on {node}" for gpus, node in got.items())

    @quick
    def aware_with(self):
        """The example's extender plugin; binpack is out, since it would often choose the fullest node as well."""
        self.volcano.reload(re.sub(r"  - name: binpack\n", "", self.volcano.with_us()))
        for gpus, node in EXACT.items():
            same(self.aware.place(f"vaware-{gpus}", gpus, "volcano"), node, f"the node of a pod of {gpus}")
        asked = self.placed.metric('gputopo_extender_requests_total{path="/volcano/prioritize",result="answered"}')
        if not asked:
            raise Failed("the scheduler never asked")
        self.aware.remove(*(f"vaware-{gpus}" for gpus in EXACT))
        self.aware.told_free("hollow-2-3", 7)
        self.volcano.reload(self.volcano.with_us())
        return f"{len(EXACT)} of {len(EXACT)} exact, {asked:.0f} questions to prioritize"

    # the manual's Volcano Job

    def example(self, name, atomic=None):
        """Makes the example's job under a name of its own: Volcano's controller may forget a job that takes the name of one just
        deleted ("failed to find job in cache")."""
        [manifest] = self.placed.example("volcano-job.yaml", lambda spec: [task["template"] for task in spec["tasks"]], atomic)
        manifest["metadata"]["name"] = name
        self.placed.create(manifest)
        return f"volcano.sh/job-name={name}"

    @quick
    def volcano_job(self, name="manual", atomic=None):
        pods = self.placed.bound(self.example(name, atomic), 8)
        racks = self.placed.check_placed(pods, 32, atomic)
        same([pod["metadata"]["name"] for pod in pods],
             [f"{name}-master-0", *(f"{name}-worker-{at}" for at in range(7))], "pods in the order of ranks")
        for pod in pods:
            env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0].get("env", [])}
            same((env.get("RANK"), env.get("WORLD_SIZE")), (str(rank(pod)), "8"), f"what the pytorch plugin gives {pod['metadata']['name']}")
        until("the job to run", lambda: self.phase(name) == "Running" or (False, self.phase(name)))
        return f"units in racks {', '.join(racks)}"

    def volcano_job_atomic(self):
        """Racks of three free nodes: no unit of 32 fits, atoms of 16 do."""
        self.short_racks()
        selector = self.example("manual-32")
        why = self.placed.waits(selector, "NoSupernode")
        self.placed.untouched(self.placed.pods(selector))
        self.cluster.kubectl("delete", "jobs.batch.volcano.sh", "manual-32", "--wait")
        self.placed.gone(selector)
        return f"32 alone: {why}; with 16: {self.volcano_job('manual-16', 16)}"

    def restarted(self):
        """A policy of Volcano: a pod fails, the job is restarted; the group is released and planned again."""
        policies = [{"event": "PodFailed", "action": "RestartJob"}]
        self.placed.create(vcjob("again", task("worker", 4, pod_template(8, group=32)), minAvailable=4, policies=policies))
        pods = self.placed.bound("volcano.sh/job-name=again", 4)
        self.placed.check_placed(pods, 32)
        first = {pod["metadata"]["uid"] for pod in pods}
        self.cluster.kubectl("patch", "pod", pods[1]["metadata"]["name"], "--subresource=status", "--type=merge", "-p",
                             json.dumps({"status": {"phase": "Failed"}}))
        until("all pods to be others", lambda: (lambda now: len(now) == 4 and not first & now)(
            {pod["metadata"]["uid"] for pod in self.placed.pods("volcano.sh/job-name=again").values()}))
        self.placed.check_placed(self.placed.bound("volcano.sh/job-name=again", 4), 32)

    @quick
    def contention(self):
        """By Volcano."""
        self.five_gangs(lambda selector: self.placed.check_placed(self.placed.bound(selector, 8), 64),
                        lambda name: self.placed.waits(f"volcano.sh/job-name={name}", "TooFewGPUs"))

    # Volcano's own

    def plain_gang(self, annotations=()):
        """A PodGroup's minMember: seven of eight pods fit, so none runs, and all run when there is room."""
        occupant = pod_template(8, nodeName="hollow-5-7")
        self.placed.apply({"apiVersion": "v1", "kind": "Pod", **occupant,
                           "metadata": {"name": "in-the-way", "namespace": "default"}})
        template = pod_template(8, nodeSelector={"rack": "5"})
        self.placed.create(vcjob("gang", task("t", 8, template), minAvailable=8))
        until("the gang to be seen as unschedulable", lambda: any(
            one["type"] == "Unschedulable" and one["status"] == "True"
            for one in self.podgroup("gang").get("status", {}).get("conditions", [])))
        same([pod["spec"].get("nodeName") for pod in self.placed.pods("volcano.sh/job-name=gang").values()], [None] * 8, "its nodes")
        self.cluster.kubectl("delete", "pod", "in-the-way", "--wait")
        for pod in self.placed.bound("volcano.sh/job-name=gang", 8):
            same(sorted(key for key in pod["metadata"].get("annotations", {}) if key.startswith(PLAN)), list(annotations),
                 "its plans")

    def plugins_and_policies(self):
        """A vcjob with svc, env and ssh, without GPUs groups: as ever, and done when its task is."""
        template = pod_template(1)
        self.placed.create(vcjob("classic", task("server", 1, template, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]),
                                 task("client", 2, template), minAvailable=3, plugins={"svc": [], "env": [], "ssh": []}))
        pods = {pod["metadata"]["name"]: pod for pod in self.placed.bound("volcano.sh/job-name=classic", 3)}
        for name, pod in pods.items():
            env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0].get("env", [])}
            index = name.rsplit("-", 1)[1]
            same((env.get("VK_TASK_INDEX"), env.get("VC_TASK_INDEX")), (index, index), f"what the env plugin gives {name}")
            same(pod["spec"].get("hostname"), name, "its hostname by the svc plugin")
            mounts = [mount["mountPath"] for mount in pod["spec"]["containers"][0].get("volumeMounts", [])]
            if "/root/.ssh" not in mounts or "/etc/volcano" not in mounts:
                raise Failed(f"{name} has {mounts}")
            same(gpus_of(pod), 1, "its GPUs")
            if annotation(pod, "node") not in (None, pod["spec"]["nodeName"] if self.races else None):
                raise Failed(f"{name} on {pod['spec']['nodeName']} is planned for {annotation(pod, 'node')}")
        self.cluster.kubectl("get", "service", "classic")
        self.cluster.kubectl("patch", "pod", "classic-server-0", "--subresource=status", "--type=merge", "-p",
                             json.dumps({"status": {"phase": "Succeeded"}}))
        until("the job to be complete", lambda: self.phase("classic") == "Completed" or (False, self.phase("classic")))

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        if not case("Volcano without us: its scheduler, controllers and webhooks run, and any node is taken", self.without_us):
            return
        self.report.case("gpu-aware on Volcano: the node whose free GPUs match exactly wins", self.aware_with)
        case("the manual's Volcano Job, units of 32", self.volcano_job)
        case("the same where no rack has room for 32: it waits and says why; atoms of 16 fall back", self.volcano_job_atomic)
        case("five gangs of Volcano where two fit", self.contention)
        case("RestartJob: the group is planned again", self.restarted)
        case("a gang without the annotation: all or nothing, by Volcano alone", self.plain_gang)
        case("a vcjob with svc, env, ssh and policies", self.plugins_and_policies)
        self.placed.clean()
