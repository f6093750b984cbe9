# SPDX-License-Identifier: Apache-2.0
"""An 8-GPU node of a real cluster: API server, scheduler, kubelet 1.34.1."""
import datetime
import json
import time

from cases_plugin import LifeCases, PluginCases
from harness import pods
from harness.node import Node
from harness.report import quick
from harness.waiting import Failed, same, until

GPU = pods.RESOURCE


class ClusterCases:
    def __init__(self, report, cluster, build, recording):
        self.report, self.cluster, self.build, self.recording = report, cluster, build, recording
        self.node = None
        self.chosen = []  # of the sequence 4, 2, 1, 1: compared with the kubelet double later

    # steps

    def status(self):
        return self.cluster.get("node", "node1")["status"]

    @staticmethod
    def counts(status):
        return status["capacity"].get(GPU), status["allocatable"].get(GPU)

    def wait_counts(self, capacity, allocatable, since=0.0):
        """What the kubelet has reported; not what it said before `since`, a time."""
        def reported():
            status = self.status()
            ready = next(condition for condition in status["conditions"] if condition["type"] == "Ready")
            said = datetime.datetime.fromisoformat(ready["lastHeartbeatTime"]).timestamp()
            return (self.counts(status) == (str(capacity), str(allocatable)) and said >= since) or (
                False, f"{self.counts(status)}, {said - since:.0f} s after it counts")
        until(f"capacity {capacity} and allocatable {allocatable}", reported)

    def pod(self, name):
        return self.cluster.get("pod", name)

    def create(self, name, *gpus):
        self.cluster.kubectl("create", "-f", "-", data=pods.manifest(name, *gpus))

    def wait_running(self, name):
        def running():
            status = self.pod(name)["status"]
            if status["phase"] == "Failed":
                raise Failed(f"{name}: {status.get('reason')}: {status.get('message')}")
            ready = [container.get("ready") for container in status.get("containerStatuses", [])]
            return (status["phase"] == "Running" and all(ready)) or (False, status["phase"])
        until(f"{name} to run", running)

    def admit(self, name, count):
        """A pod of one container: runs, gets what the loss table says, sees exactly that."""
        want = self.node.machine.best(self.node.free(), count)
        self.create(name, count)
        self.wait_running(name)
        got = self.node.check_container(name)
        same(got, want, f"GPUs of {name}, against `gputopo loss`")
        return got

    def delete(self, *names):
        self.cluster.kubectl("delete", "pod", *names, "--wait", "--ignore-not-found")
        until(f"{', '.join(names)} to leave the kubelet's usage table",
              lambda: not any(pod in names for pod, _ in self.node.used()))

    def delete_all(self):
        names = [item["metadata"]["name"] for item in self.cluster.get("pods")["items"]]
        if names:
            self.delete(*names)

    def running(self):
        """What must not change under the feet of running pods."""
        return {(item["metadata"]["name"], status["name"]):
                (status["containerID"], status["restartCount"], status["state"]["running"]["startedAt"])
                for item in self.cluster.get("pods")["items"] if item["status"]["phase"] == "Running"
                for status in item["status"]["containerStatuses"]}

    def undisturbed(self, disturb):
        """Runs `disturb`, waits until everything is back, and checks that containers and usage are as before."""
        containers, used = self.running(), self.node.used()
        registrations = self.node.agent.metric("gputopo_registrations_total")
        disturb()
        until("the plugin to be registered", lambda: self.node.agent.metric("gputopo_plugin_registered") == 1)
        self.node.registered()
        self.wait_counts(8, 8, time.time())
        # just after its start the kubelet answers an empty list before it has read its checkpoint
        until("the assignments from before", lambda: self.node.used() == used or (False, self.node.used()))
        same(self.running(), containers, "containers afterwards")
        for pod, container in used:
            self.node.check_container(pod, container)
        return registrations

    # cases, in order

    @quick
    def capacity(self):
        self.node = Node(self.cluster, self.build, self.recording)
        same(len(self.node.machine.gpus), 8, "GPUs of the recording")
        same(self.counts(self.status()), (None, None), "capacity before the agent")
        self.node.agent.start()
        self.wait_counts(8, 8)

    def plain(self):
        self.create("plain", 0)
        self.wait_running("plain")
        same(self.node.check_container("plain"), [], "GPUs of a pod that asks for none")
        self.node.plain = self.node.seen("plain")
        self.delete("plain")

    @quick
    def sequence(self):
        for number, count in enumerate((4, 2, 1, 1)):
            self.chosen.append(self.admit(f"gpus{count}-{number}", count))
        return " ".join(f"{len(gpus)}:{','.join(map(str, gpus))}" for gpus in self.chosen)

    def ninth(self):
        self.create("ninth", 1)

        def refused():
            for condition in self.pod("ninth")["status"].get("conditions", []):
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return condition["message"]
            return False
        message = until("the scheduler's refusal", refused)
        if f"Insufficient {GPU}" not in message:
            raise Failed(f"refused for another reason: {message}")
        same(self.pod("ninth")["status"]["phase"], "Pending", "phase of the ninth")
        return message.split(". ")[0]

    def ninth_later(self):
        freed = self.chosen[3]
        self.delete("gpus1-3")
        self.wait_running("ninth")
        same(self.node.check_container("ninth"), freed, "GPUs of the ninth")

    def kubelet_restart(self, how):
        before = self.undisturbed(lambda: self.cluster.kill_kubelet(1, how))
        after = self.node.agent.metric("gputopo_registrations_total")
        if after <= before:
            raise Failed(f"{before:g} registrations before, {after:g} after")
        return f"{after - before:g} more registration(s)"

    @quick
    def kubelet_killed(self):
        return self.kubelet_restart("KILL")

    def kubelet_stopped(self):
        return self.kubelet_restart("TERM")

    @quick
    def agent_restart(self):
        def restart():
            self.node.agent.stop()
            self.wait_counts(8, 0)
            self.node.agent.start()
        self.undisturbed(restart)

    def both_restart(self):
        def restart():
            self.node.agent.stop()
            self.cluster.kill_kubelet(1, "TERM")
            until("the kubelet's usage table", lambda: self.usage_answers())
            self.node.agent.start()
        self.undisturbed(restart)

    def usage_answers(self):
        try:
            return bool(self.node.usage.used())
        except Exception:  # not yet listening
            return False

    @quick
    def who_uses_what(self):
        """The agent, the kubelet's usage table, the pods as created and their containers agree; and what is left is free."""
        def told():
            usage = json.loads(self.node.agent.fetch("/usage") or "{}")
            held = {}
            for one in usage.get("used", []):
                held.setdefault((one["pod"], one["container"]), []).append(one["gpu"])
            used = self.node.used()
            return (usage.get("known") and not usage["stale"] and held == used and usage) or (False, (usage, used))
        usage = until("the agent and the kubelet's usage table to agree", told, 60)
        asked = {(item["metadata"]["name"], container["name"]): int(container["resources"]["limits"][GPU])
                 for item in self.cluster.get("pods")["items"] if item["status"]["phase"] == "Running"
                 for container in item["spec"]["containers"] if GPU in container["resources"].get("limits", {})}
        used = self.node.used()
        same({who: len(gpus) for who, gpus in used.items()}, asked, "GPUs by container, against the pods as created")
        for pod, container in used:
            same(self.node.check_container(pod, container), used[pod, container], f"GPUs of {pod}/{container}")
        same(set(usage["free"]), self.node.free(), "free GPUs")
        same({one["namespace"] for one in usage["used"]}, {"default"}, "namespaces")
        same((usage["twice"], usage["strangers"]), ([], []), "GPUs held twice, and devices that are none of ours")
        same(self.node.agent.metric("gputopo_gpus_in_use"), sum(asked.values()), "GPUs in use by the metrics")
        return f"{len(usage['used'])} GPUs in {len(used)} containers, {len(usage['free'])} free"

    @quick
    def unhealthy_in_use(self):
        unhealthy = self.chosen[0][0]
        containers, used = self.running(), self.node.used()
        self.node.machine.sick.add(unhealthy)
        self.node.agent.rescan()
        self.wait_counts(8, 7)
        same(self.node.used(), used, "assignments while a GPU is unhealthy")
        same(self.running(), containers, "containers while a GPU is unhealthy")
        self.node.machine.sick.clear()
        self.node.agent.rescan()
        self.wait_counts(8, 8)
        same(self.running(), containers, "containers after recovery")

    def unhealthy_free(self):
        self.delete_all()
        self.node.machine.sick.add(2)
        self.node.agent.rescan()
        self.wait_counts(8, 7)
        self.admit("around-unhealthy", 4)
        self.delete("around-unhealthy")
        same(self.admit("all-but-unhealthy", 7), [0, 1, 3, 4, 5, 6, 7], "GPUs beside the unhealthy one")
        self.delete("all-but-unhealthy")
        self.node.machine.sick.clear()
        self.node.agent.rescan()
        self.wait_counts(8, 8)

    def lost(self):
        self.node.machine.lost.add(5)
        self.node.agent.rescan()
        self.wait_counts(8, 7)
        same(self.node.agent.metric('gputopo_gpus{health="lost"}'), 1, "lost GPUs by the metrics")
        # `gputopo loss` counts the seven that are left, so the indices are compared by the usage table only
        self.create("around-lost", 7)
        self.wait_running("around-lost")
        same(self.node.check_container("around-lost"), [0, 1, 2, 3, 4, 6, 7], "GPUs beside the lost one")
        self.delete("around-lost")
        self.node.machine.lost.clear()
        self.node.agent.rescan()
        self.wait_counts(8, 8)

    def eight(self):
        same(self.admit("gpus8", 8), list(range(8)), "GPUs of the pod of 8")
        self.delete("gpus8")

    @quick
    def holes(self):
        """Where the first free GPUs are not the best ones: one GPU of the first mesh is taken."""
        self.delete_all()
        got = [self.admit(f"hole{number}", count) for number, count in enumerate((1, 4, 2))]
        if got[1] == sorted(self.node.all - set(got[0]))[:4]:
            raise Failed(f"this machine does not tell the best GPUs from the first: {got}")
        self.delete_all()
        return " ".join(f"{len(gpus)}:{','.join(map(str, gpus))}" for gpus in got)

    @quick
    def two_containers(self):
        first = self.node.machine.best(self.node.free(), 2)
        second = self.node.machine.best(self.node.free() - set(first), 3)
        self.create("pair", 2, 3)
        self.wait_running("pair")
        same([self.node.check_container("pair", name) for name in ("c0", "c1")], [first, second],
             "GPUs of two containers in one pod")
        self.delete("pair")

    @quick
    def agent_ends(self):
        self.node.agent.stop()
        self.wait_counts(8, 0)

    def reset(self):
        """After a failure: no pods, a whole machine, a running agent; so that the next case starts clean."""
        try:
            self.node.machine.sick.clear()
            self.node.machine.lost.clear()
            if self.node.agent.process.poll() is None:
                self.node.agent.rescan()
            else:
                self.node.agent.start()
            self.delete_all()
        except Exception as error:  # the cases will show what is wrong
            self.report.say(f"     cannot clean up: {error}")

    def run(self):
        def case(name, run):
            passed = self.report.case(name, run)
            if not passed:
                self.reset()
            return passed
        if not self.report.case("capacity and allocatable are 8", self.capacity):
            return
        case("a pod that asks for no GPU sees none", self.plain)
        under_pods = [
            ("pods of 4, 2, 1, 1 see exactly the GPUs that the loss table chooses", self.sequence),
            ("a ninth GPU is refused by the scheduler", self.ninth),
            ("the agent, the kubelet's usage table and the pods agree on who uses what", self.who_uses_what),
            ("a killed kubelet comes back: assignments kept, allocatable 8", self.kubelet_killed),
            ("a stopped kubelet comes back: likewise", self.kubelet_stopped),
            ("the agent restarts: likewise", self.agent_restart),
            ("kubelet and agent restart together: likewise", self.both_restart),
            ("they still agree on who uses what", self.who_uses_what),
            ("a pod ends and the ninth gets its GPU", self.ninth_later),
            ("a GPU in use becomes unhealthy and recovers: allocatable 7, 8, its pod untouched", self.unhealthy_in_use),
        ]
        for number, (name, run) in enumerate(under_pods):
            if not case(name, run):
                for later, _ in under_pods[number + 1:]:
                    self.report.skip(later, "needs the pods of the case before")
                break
        case("pods of 1, 4, 2: the best GPUs are not the first free ones", self.holes)
        case("a free GPU becomes unhealthy: pods go around it", self.unhealthy_free)
        case("a GPU vanishes and returns: allocatable 7, 8", self.lost)
        case("a pod of 8 sees all", self.eight)
        case("two containers of one pod have GPUs of their own", self.two_containers)
        LifeCases(self.report, self).run()
        PluginCases(self.report, self.cluster, self.node, "").run()
        self.report.case("the agent ends cleanly on SIGTERM: allocatable 0", self.agent_ends)
