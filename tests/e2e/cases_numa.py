# SPDX-License-Identifier: Apache-2.0
"""A real kubelet with the topology manager's policy single-numa-node and the static CPU manager, on two NUMA nodes."""
import random
import time

import yaml

from harness import install, pods
from harness.node import Node
from harness.report import quick
from harness.schedulers import Program
from harness.waiting import Failed, same, until

REFUSED = "TopologyAffinityError"
SCHEDULER = "numa-scheduler"
AT_ONCE = 6   # pods
SIZES = (1, 1, 2, 2, 4)


class NumaCases:
    def __init__(self, report, cluster, build, recording):
        self.report, self.cluster, self.build, self.recording = report, cluster, build, recording
        self.many = 40 if report.is_quick else 200
        self.node = None

    def agent_options(self):
        return ("--kubeconfig", self.cluster.state / "admin.kubeconfig", "--kubelet-config", self.cluster.state / "node1" / "kubelet.yaml",
                "--heartbeat", "5")

    @quick
    def published(self):
        """The kubelet runs with the policy, and the agent says so."""
        cluster = self.cluster
        cluster.kubectl("apply", "--server-side", "-k", install.DAEMONSET / "crds")
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "nodegputopologies.topology.metax-tech.com",
                        "supernodes.topology.metax-tech.com", "gpuplacements.topology.metax-tech.com")
        self.node = Node(cluster, self.build, self.recording)
        for gpu in self.node.machine.whole["gpus"]:
            gpu["numaNode"] = gpu["index"] // 4
        self.node.machine.write()
        self.node.agent.start(*self.agent_options())
        self.node.registered()
        until("8 GPUs", lambda: cluster.get("node", "node1")["status"]["allocatable"].get(pods.RESOURCE) == "8")

        def told():
            statuses = [item.get("status", {}) for item in cluster.get("ngt")["items"]]
            return [(status["kubelet"], one) for status in statuses for one in status.get("conditions", []) if one["type"] == "NUMAAlignment"]
        (kubelet, condition), = until("the condition NUMAAlignment", told)
        same([kubelet[key] for key in ("topologyManagerPolicy", "topologyManagerScope", "cpuManagerPolicy")],
             ["single-numa-node", self.cluster.environment["NUMA"], "static"], "what is told of the kubelet")
        same((condition["status"], condition["reason"]), ("False", "PodsTooLarge"), "the condition")
        return condition["message"]

    @quick
    def begin(self):
        """The companion and a kube-scheduler that asks it, beside the stock one."""
        state = self.cluster.state
        Program(self.cluster, "companion", self.build / "bin" / "gputopo-scheduler", f"--kubeconfig={state}/admin.kubeconfig").start()
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

    def stream(self, scheduler):
        """Pods come and go, a few at a time. How many the kubelet has refused."""
        chance, made, refused, ran = random.Random(7), 0, 0, 0
        alive, end = {}, time.monotonic() + 10 * self.many
        while made < self.many or alive:
            while made < self.many and len(alive) < AT_ONCE:
                name = f"{scheduler[:4]}-{made}"
                pod = pods.manifest(name, chance.choice(SIZES))
                # with 0 the pod is gone from the API while the kubelet has its GPUs still, and nobody could know
                pod["spec"].update(schedulerName=scheduler, terminationGracePeriodSeconds=1)
                self.cluster.kubectl("create", "-f", "-", data=pod)
                alive[name], made = chance.uniform(2, 8), made + 1
            states = {item["metadata"]["name"]: item["status"] for item in self.cluster.get("pods")["items"]}
            gone = [name for name in alive if states[name]["phase"] == "Failed"]
            for name in gone:
                if states[name].get("reason") != REFUSED:
                    raise Failed(f"{name}: {states[name].get('reason')}: {states[name].get('message')}")
                refused += 1
            for name in list(alive):
                if states[name]["phase"] == "Running":
                    alive[name] -= 1
                    if alive[name] <= 0:
                        ran += 1
                        gone.append(name)
            if gone:
                self.cluster.kubectl("delete", "pod", *gone, "--wait=false")
                for name in gone:
                    del alive[name]
            if time.monotonic() > end:
                raise Failed(f"{made} pods made, {ran} have run, {len(alive)} are left: {sorted(alive)}")
        return refused, ran

    @quick
    def without_us(self):
        refused, ran = self.stream("default-scheduler")
        if not refused:
            raise Failed("no pod was refused without us: the stream proves nothing")
        return f"{refused} of {self.many} pods refused, {ran} have run"

    @quick
    def with_us(self):
        until("every GPU to be free", lambda: self.cluster.get("ngt", "node1")["status"].get("freeCount") == 8)
        refused, ran = self.stream(SCHEDULER)
        same((refused, ran), (0, self.many), "pods refused, and pods that have run")
        return f"0 of {self.many} pods refused"

    def run(self):
        case = self.report.case
        if not case("NUMA: the agent publishes the kubelet's policies, and that pods of 8 cannot run", self.published):
            return
        if not case("NUMA: the companion, and a kube-scheduler that asks it", self.begin):
            return
        case("NUMA without us: pods of 1, 2 and 4 GPUs come and go, and the kubelet refuses some", self.without_us)
        case("NUMA with us: the same pods, and it refuses none", self.with_us)
