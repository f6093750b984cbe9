# SPDX-License-Identifier: Apache-2.0
"""Real kubelets whose topology manager has a policy that refuses pods, scope container and pod, and the static CPU manager, on two NUMA nodes."""
import random
import time

import yaml

from cases_plugin import ONCE
from harness import install, pods
from harness.node import Node
from harness.report import quick
from harness.schedulers import Program
from harness.waiting import Failed, same, until

REFUSED = "TopologyAffinityError"
SCHEDULER = "numa-scheduler"
AT_ONCE = 12  # pods
SIZES = ((1,), (1,), (2,), (1, 1), (3,), (3,), (4,), (2, 2), (3, 1))  # GPUs of each container; those of 3 leave one beside them
LARGE = ((6,), (4, 4), (8,))  # these need both NUMA nodes, as only restricted allows
INITS = (0, 0, 0, 1, 2)  # GPUs of an init container of pods with several containers, at most those of the pod; 0: there is none
SCOPES = {1: "container", 2: "pod"}  # by the number of the node
SINGLE, RESTRICTED = "single-numa-node", "restricted"
GATE, GROUP_SIZE = "metax-tech.com/gpu-placement", "metax-tech.com/gpu-group-size"


class NumaCases:
    def __init__(self, report, cluster, build, recording, policy):
        self.report, self.cluster, self.build, self.recording, self.policy = report, cluster, build, recording, policy
        self.sizes = SIZES if policy == SINGLE else SIZES + LARGE
        self.many = 40 if report.is_quick else 200
        self.nodes, self.companion = {}, None

    def agent_options(self, number):
        state = self.cluster.state
        return "--kubeconfig", state / "admin.kubeconfig", "--kubelet-config", state / f"node{number}" / "kubelet.yaml", "--heartbeat", "5"

    @quick
    def published(self):
        """The kubelets run with the policy, and the agents say so."""
        cluster = self.cluster
        cluster.kubectl("apply", "--server-side", "-k", install.DAEMONSET / "crds")
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=290s", "crd", "nodegputopologies.topology.metax-tech.com",
                        "supernodes.topology.metax-tech.com", "gpuplacements.topology.metax-tech.com")
        for number in SCOPES:
            node = self.nodes[number] = Node(cluster, self.build, self.recording, number)
            for gpu in node.machine.whole["gpus"]:
                gpu.update(numaNode=gpu["index"] // 4, uuid=f"GPU-{number}-{gpu['index']}")
            node.machine.whole["supernode"] = None
            node.machine.write()
            node.agent.start(*self.agent_options(number))
            node.registered()
        for number, scope in SCOPES.items():
            until("8 GPUs", lambda: cluster.get("node", f"node{number}")["status"]["allocatable"].get(pods.RESOURCE) == "8")
            (status, condition), = until("the condition NUMAAlignment", lambda: self.told(number))
            same([status["kubelet"][key] for key in ("topologyManagerPolicy", "topologyManagerScope", "cpuManagerPolicy")],
                 [self.policy, scope, "static"], "what is told of the kubelet")
            same((condition["status"], condition["reason"]), ("False", "PodsTooLarge") if self.policy == SINGLE else ("True", "SizesFit"),
                 "the condition")
        return condition["message"]

    def told(self, number):
        statuses = [item.get("status", {}) for item in self.cluster.get("ngt")["items"] if item["metadata"]["name"] == f"node{number}"]
        return [(status, one) for status in statuses for one in status.get("conditions", []) if one["type"] == "NUMAAlignment"]

    @quick
    def begin(self):
        """The companion and a kube-scheduler that asks it, beside the stock one."""
        state = self.cluster.state
        self.companion = Program(self.cluster, "companion", self.build / "bin" / "gputopo-scheduler", f"--kubeconfig={state}/admin.kubeconfig").start()
        file = state / f"{SCHEDULER}.yaml"
        file.write_text(yaml.safe_dump({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": f"{state}/scheduler.kubeconfig"}, "profiles": [{"schedulerName": SCHEDULER}],
            "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1,
            "extenders": [{"urlPrefix": "http://127.0.0.1:9401/kube-scheduler", "filterVerb": "filter", "prioritizeVerb": "prioritize",
                           "weight": 10, "nodeCacheCapable": True}]}))
        program = Program(self.cluster, SCHEDULER, "kube-scheduler", f"--config={file}", "--secure-port=10359",
                          f"--authentication-kubeconfig={state}/scheduler.kubeconfig",
                          f"--authorization-kubeconfig={state}/scheduler.kubeconfig").start()
        until(f"{SCHEDULER} to run", lambda: program.alive() and program.said("Caches are synced"), 60)

    @staticmethod
    def pod(name, sizes, init, scheduler, planned):
        pod = pods.manifest(name, *sizes)
        # with 0 the pod is gone from the API while the kubelet has its GPUs still, and nobody could know
        pod["spec"].update(schedulerName=scheduler, terminationGracePeriodSeconds=1)
        if len(sizes) > 1 and init:
            pod["spec"]["initContainers"] = [{**pods.manifest(name, init)["spec"]["containers"][0], "name": "first", "command": ONCE}]
        if planned:
            pod["metadata"]["annotations"] = {GROUP_SIZE: str(sum(sizes))}
            pod["spec"]["schedulingGates"] = [{"name": GATE}]
        return pod

    def stream(self, scheduler, plan=False):
        """Pods come and go, a few at a time; with `plan` every third is planned. {scope: pods refused}, pods that have run."""
        chance, made, ran, refused = random.Random(7), 0, 0, dict.fromkeys(SCOPES.values(), 0)
        alive, begun, end = {}, {}, time.monotonic() + 10 * self.many
        while made < self.many or alive:
            new = []
            while made < self.many and len(alive) < AT_ONCE:
                new.append(self.pod(f"{scheduler[:4]}-{made}", chance.choice(self.sizes), chance.choice(INITS), scheduler, plan and made % 3 == 2))
                alive[new[-1]["metadata"]["name"]], made = chance.uniform(0, 2), made + 1
            if new:
                self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": new})
            gone, now = [], time.monotonic()
            for item in self.cluster.get("pods")["items"]:
                name, status = item["metadata"]["name"], item["status"]
                if name not in alive:
                    continue
                if status["phase"] == "Failed":
                    if status.get("reason") != REFUSED:
                        raise Failed(f"{name}: {status.get('reason')}: {status.get('message')}")
                    refused[SCOPES[int(item["spec"]["nodeName"][4:])]] += 1
                    gone.append(name)
                elif status["phase"] == "Running" and begun.setdefault(name, now) + alive[name] < now:
                    ran += 1
                    gone.append(name)
            if gone:
                self.cluster.kubectl("delete", "pod", *gone, "--wait=false")
                for name in gone:
                    del alive[name]
            if now > end:
                raise Failed(f"{made} pods made, {ran} have run, {len(alive)} are left: {sorted(alive)}")
        return refused, ran

    @quick
    def without_us(self):
        refused, ran = self.stream("default-scheduler")
        lacking = [scope for scope, count in refused.items() if not count]
        if (SCOPES[1] in lacking or self.policy == SINGLE and lacking) and not self.report.is_quick:  # there are few pods then
            raise Failed(f"no pod was refused without us with scope {lacking[0]}: the stream proves nothing")
        return f"{self.words(refused)} of {self.many} pods refused, {ran} have run" + "".join(
            f"; that none is refused with us proves nothing for scope {scope}" for scope in lacking)

    @quick
    def with_us(self):
        until("every GPU to be free", lambda: all(item["status"].get("freeCount") == 8 for item in self.cluster.get("ngt")["items"]))
        refused, ran = self.stream(SCHEDULER, plan=True)
        same((self.words(refused), ran), ("0 (scope container), 0 (scope pod)", self.many), "pods refused, and pods that have run")
        return f"0 of {self.many} pods refused"

    @quick
    def damped(self):
        """The agents are not told the policy, and each node has one free GPU on each NUMA node: each kubelet refuses one planned pod of 2,
        no second one, and the job says why it waits."""
        for node in self.nodes.values():
            node.agent.stop()
            node.agent.start("--kubeconfig", self.cluster.state / "admin.kubeconfig", "--heartbeat", "5")
            node.registered()
        until("the policies to be unknown", lambda: all((one["reason"] == "PolicyUnknown") for number in SCOPES for _, one in self.told(number)))
        names = [f"holder-{number}-{half}" for number in SCOPES for half in "ab"]  # each gets three GPUs of one NUMA node
        for name in names:
            pod = pods.manifest(name, 3)
            pod["spec"].update(nodeName=f"node{name.split('-')[1]}", terminationGracePeriodSeconds=1)
            self.cluster.kubectl("create", "-f", "-", data=pod)
        until("the holders to run", lambda: all(self.cluster.get("pod", name)["status"]["phase"] == "Running" for name in names))
        until("2 GPUs to be free on each node", lambda: all(item["status"].get("freeCount") == 2 for item in self.cluster.get("ngt")["items"]))
        template = {"metadata": {"annotations": {GROUP_SIZE: "2"}}, "spec": {**pods.manifest("p", 2)["spec"], "restartPolicy": "Never",
                                                                             "schedulingGates": [{"name": GATE}]}}
        self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "damped"}, "spec": {
            "completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 100, "template": template}})

        def told():
            notes = [item["note"] for item in self.cluster.get("events.events.k8s.io")["items"] if item["reason"] == "RefusedByKubelet"]
            return notes if len(notes) > 1 else (False, notes)
        notes = until("both kubelets to refuse a pod, and Events that say so", told, 60)

        def waits():  # the Job makes the next pods after ten seconds
            messages = [item["status"].get("message", "") for item in self.cluster.get("gpl")["items"] if item["metadata"]["name"] == "job-damped"]
            return any("kubelets have refused 2 nodes" in message for message in messages) or (False, messages)
        until("the job to wait for that", waits, 60)

        def refused():
            failed = [item for item in self.cluster.get("pods", "-l", "job-name=damped")["items"] if item["status"]["phase"] == "Failed"]
            return sorted((item["spec"]["nodeName"], item["status"]["reason"]) for item in failed)
        time.sleep(20)
        same(refused(), [(f"node{number}", REFUSED) for number in SCOPES], "nodes of the pods that were refused")
        if not self.report.is_quick:
            self.damped_after_a_restart(refused)
        self.cluster.kubectl("delete", "job", "damped")
        self.cluster.kubectl("delete", "pod", *names)
        return notes[0]

    def damped_after_a_restart(self, refused):
        """The failed pods tell a new companion; `refused()`: where these are, and why."""
        self.companion.stop()
        self.companion.start()
        self.cluster.kubectl("delete", "pod", "-l", "job-name=damped", "--field-selector=status.phase=Pending", "--force", "--grace-period=0")
        before = {item["metadata"]["uid"] for item in self.cluster.get("pods", "-l", "job-name=damped")["items"]}

        def wait_again():
            new = [item for item in self.cluster.get("pods", "-l", "job-name=damped")["items"] if item["metadata"]["uid"] not in before]
            told = [condition.get("message", "") for item in new for condition in item["status"].get("conditions", []) if condition["type"] == "GPUPlacement"]
            return any("kubelets have refused 2 nodes" in message for message in told) or (False, told)
        until("new pods to wait for that after a restart of the companion", wait_again, 180)
        time.sleep(20)
        same(refused(), [(f"node{number}", REFUSED) for number in SCOPES], "nodes of the pods that were refused before the restart, and after it")

    @staticmethod
    def words(refused):
        return ", ".join(f"{count} (scope {scope})" for scope, count in refused.items())

    def run(self):
        case = self.report.case
        if not case(f"{self.policy}: the agent publishes the kubelet's policies, and that pods of 8 {'cannot' if self.policy == SINGLE else 'can'} run",
                    self.published):
            return
        if not case(f"{self.policy}: the companion, and a kube-scheduler that asks it", self.begin):
            return
        case(f"{self.policy} without us: pods of 1 to {sum(self.sizes[-1])} GPUs come and go, and the kubelet refuses some", self.without_us)
        case(f"{self.policy} with us: the same pods, and it refuses none", self.with_us)
        case(f"{self.policy} that nobody has told us: each kubelet refuses one planned pod, no second one, and the job waits", self.damped)
