# SPDX-License-Identifier: Apache-2.0
"""A new kubelet, 1.35.4, 1.36.3 or 1.37.2, alone: no API server, pods from files."""
import json

from cases_plugin import PluginCases
from harness import pods
from harness.agent import FETCH
from harness.node import Node
from harness.report import quick
from harness.waiting import Failed, same, until


class NewestCases:
    def __init__(self, report, cluster, build, recording, version="1.36.3"):
        self.report, self.cluster, self.build, self.recording = report, cluster, build, recording
        self.version = version
        self.node = None

    def manifest(self, name):
        return self.cluster.state / "node1" / "manifests" / f"{name}.json"

    def status(self, name):
        """Of a static pod, whose name the kubelet completes with the node's; None while there is none."""
        answer = self.cluster.ask(1, "/usr/bin/python3", "-c", FETCH, "http://127.0.0.1:10255/pods")
        for item in json.loads(answer)["items"] or []:
            if item["metadata"]["name"] == f"{name}-node1":
                return item["status"]
        return None

    def running(self, name):
        def ask():
            try:
                status = self.status(name)
            except Failed:  # the kubelet is on its way
                return False
            if status and status["phase"] == "Failed":
                raise Failed(f"{name}: {status.get('reason')}: {status.get('message')}")
            states = (status or {}).get("containerStatuses", [])
            return [(state["containerID"], state["restartCount"], state["state"]["running"]["startedAt"])
                    for state in states if "running" in state["state"]]
        return until(f"{name} to run", ask)

    @quick
    def registration(self):
        version = self.cluster.ask(1, "kubelet", "--version").strip()
        same(version, f"Kubernetes v{self.version}", "the kubelet's version")
        self.node = Node(self.cluster, self.build, self.recording)
        self.node.agent.start()
        self.node.registered()

    @quick
    def two(self):
        want = self.node.machine.best(self.node.free(), 2)
        # the kubelet reads whatever lies in the directory: the file must appear complete
        part = self.cluster.state / "two.json"
        part.write_text(json.dumps(pods.manifest("two", 2, static=True)))
        part.rename(self.manifest("two"))
        self.running("two")
        got = self.node.check_container("two-node1")
        same(got, want, "GPUs of the static pod, against `gputopo loss`")
        return ",".join(map(str, got))

    @quick
    def restart(self):
        before, used = self.running("two"), self.node.used()
        registrations = self.node.agent.metric("gputopo_registrations_total")
        self.cluster.kill_kubelet(1, "KILL")
        until("another registration",
              lambda: (self.node.agent.metric("gputopo_registrations_total") or 0) > registrations)
        self.node.registered()
        same(self.running("two"), before, "the container after the restart")
        until("the assignments from before", lambda: self.node.used() == used or (False, self.node.used()))
        self.node.check_container("two-node1")

    def health_of(self, name):
        """{ID: health} as the status of a static pod's container tells it."""
        return {one["resourceID"]: one["health"] for container in self.status(name)["containerStatuses"]
                for told in container.get("allocatedResourcesStatus", []) for one in told["resources"]}

    @quick
    def unhealthy_in_use(self):
        """The GPU of a running container becomes unhealthy: its pod's status says so, and that it is well again."""
        held = self.node.used()["two-node1", "c0"]
        names = [self.node.machine.gpus[index]["uuid"] for index in held]
        until("the pod's status to tell of both", lambda: self.health_of("two") == dict.fromkeys(names, "Healthy")
              or (False, self.health_of("two")))
        self.node.machine.sick.add(held[0])
        self.node.agent.rescan()
        until("the status to say Unhealthy", lambda: self.health_of("two") == {names[0]: "Unhealthy", names[1]: "Healthy"}
              or (False, self.health_of("two")))
        self.node.machine.sick.clear()
        self.node.agent.rescan()
        until("the status to say Healthy", lambda: set(self.health_of("two").values()) == {"Healthy"}
              or (False, self.health_of("two")))

    def unhealthy(self):
        free = sorted(self.node.free())[0]
        self.node.machine.sick.add(free)
        self.node.agent.rescan()
        self.node.registered(healthy=7)
        self.node.machine.sick.clear()
        self.node.agent.rescan()
        self.node.registered(healthy=8)

    @quick
    def freed(self):
        self.manifest("two").unlink()
        until("the usage table to be empty", lambda: not self.node.used())
        self.node.agent.stop()

    def run_restarts(self):
        if (self.report.case(f"kubelet {self.version} alone takes the plugin's 8 devices", self.registration)
                and self.report.case(f"kubelet {self.version}: a pod of 2 GPUs sees exactly the best two", self.two)):
            plugin = PluginCases(self.report, self.cluster, self.node, "")
            self.report.case(f"kubelet {self.version} restarts again and again: the same assignments, 8 devices, no descriptor more", plugin.restarts)

    def run(self):
        if not self.report.case(f"kubelet {self.version} alone takes the plugin's 8 devices", self.registration):
            return
        if self.report.case(f"kubelet {self.version}: a pod of 2 GPUs sees exactly the best two", self.two):
            self.report.case(f"kubelet {self.version} is killed and comes back: assignment kept, 8 devices", self.restart)
        self.report.case(f"kubelet {self.version}: a GPU becomes unhealthy and recovers", self.unhealthy)
        if self.version > "1.36":  # before, by default, nobody tells
            self.report.case(f"kubelet {self.version}: the status of a pod tells the health of its GPUs", self.unhealthy_in_use)
        PluginCases(self.report, self.cluster, self.node, f"kubelet {self.version}: ").run()
        self.report.case(f"kubelet {self.version}: the pod ends, its GPUs are free, the agent ends cleanly", self.freed)
