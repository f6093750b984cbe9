# SPDX-License-Identifier: Apache-2.0
"""GPUs by Dynamic Resource Allocation, on a real cluster."""
import json
import signal
import threading
import time

import grpc

from cases_claim_life import ClaimLifeCases
from cases_claims import ClaimCases
from cases_daemonset import OPEN
from cases_composites import CompositeCases
from cases_plugin import ONCE
from harness import claims, pods
from harness.account import apply
from harness.agent import Agent
from harness.claims import DRIVER, DraNode, claim, claiming, template
from harness.report import quick
from harness.waiting import Failed, same, until

RETRIED_S = 30  # the kubelet's own next try comes after a minute or more
CHURNED = 200


class Asking(threading.Thread):
    """Asks the kubelet who uses what, in bursts over its limit of 100 a second, so that it refuses the agent, too."""

    def __init__(self, usage):
        super().__init__(daemon=True)
        self.usage, self.asked, self.refused, self.end = usage, 0, 0, threading.Event()

    def run(self):
        with grpc.insecure_channel(f"unix:{self.usage.socket}", [("grpc.default_authority", "localhost")]) as channel:
            ask = channel.unary_unary("/v1.PodResourcesLister/List")
            while not self.end.wait(0.5):
                calls = [ask.future(b"", timeout=10) for _ in range(60)]
                self.asked += len(calls)
                self.refused += sum(call.exception() is not None for call in calls)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.join()


class DraCases:
    def __init__(self, report, cluster, build, recording, version, others=None):
        """`others`: the directories of Volcano and of the training operator, None where they could not be built."""
        self.report, self.cluster, self.build, self.recording = report, cluster, build, recording
        self.version, self.others = version, others
        self.newest = version != "1.34.1"
        self.node = None

    # steps

    def apply(self, *objects):
        self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": list(objects)})

    def pod(self, name):
        return self.cluster.get("pod", name)

    def running(self, name, seconds=120):
        def ask():
            status = self.pod(name)["status"]
            if status["phase"] in ("Failed", "Succeeded"):
                raise Failed(f"{name}: {status['phase']}: {status.get('reason')}: {status.get('message')}")
            ready = [container.get("ready") for container in status.get("containerStatuses", [])]
            return (status["phase"] == "Running" and all(ready)) or (False, f"{status['phase']}; {self.events(name)[-1:]}")
        until(f"{name} to run", ask, seconds)

    def container(self, name):
        status = self.pod(name)["status"]["containerStatuses"][0]
        return status["containerID"], status["restartCount"]

    def events(self, name):
        return [item["message"] for item in self.cluster.get("events", "--field-selector", f"involvedObject.name={name}")["items"]
                if item.get("message")]

    def told(self, name, text, seconds=120):
        until(f"an Event of {name} with '{text}'", lambda: any(text in message for message in self.events(name))
              or (False, self.events(name)[-2:]), seconds)

    def delete(self, *names, wait=True):
        self.cluster.kubectl("delete", "pod", *names, f"--wait={'true' if wait else 'false'}", "--ignore-not-found")

    def empty(self):
        """Nothing is left of any pod."""
        names = [item["metadata"]["name"] for item in self.cluster.get("pods")["items"]]
        if names:
            self.delete(*names)
        self.cluster.kubectl("delete", "resourceclaims", "--all", "--wait=false")
        until("no prepared claim", lambda: not self.node.prepared() or (False, self.node.prepared()))
        until("no CDI spec of a claim", lambda: not self.node.specs() or (False, self.node.specs()))
        until("no claim", lambda: not self.cluster.get("resourceclaims")["items"])

    def tidy(self):
        """After a case that failed."""
        if self.node and self.node.agent.process.poll() is not None:
            self.node.start()
        if self.node and self.node.machine.sick:
            self.node.machine.sick.clear()
            self.node.agent.rescan()
        if self.node and self.cluster.get("pods")["items"]:
            self.empty()

    def run_pod(self, name, count):
        self.apply(claiming(name, f"gpus-{count}"))
        self.running(name)
        return self.node.check_claimed(name)

    def allocate(self, name, *indices):
        """Writes the allocation of a claim, as anybody with the right may, unchecked."""
        self.allocate_devices(name, *(self.node.device_name(self.node.machine.gpus[index]) for index in indices))

    def allocate_devices(self, name, *devices):
        results = [{"request": "gpus", "driver": DRIVER, "pool": "node1", "device": device} for device in devices]
        status = {"allocation": {
            "allocationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node1"]}]}]}}}
        self.cluster.kubectl("patch", "resourceclaim", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))

    # cases

    @quick
    def begins(self):
        version = self.cluster.ask(1, "kubelet", "--version").strip()
        same(version, f"Kubernetes v{self.version}", "the kubelet's version")
        claims.install(self.cluster)
        self.node = DraNode(self.cluster, self.build, self.recording)
        self.node.start()
        offered = until("the slice", self.node.offered)
        same(sorted(offered), sorted(self.node.all), "GPUs in the slice")
        self.apply(*(template(f"gpus-{count}", count) for count in (1, 2, 4, 8)))

    @quick
    def slice_says(self):
        [made] = self.node.slices()
        owner = made["metadata"]["ownerReferences"][0]
        node = self.cluster.get("node", "node1")
        same((owner["kind"], owner["name"], owner["uid"]), ("Node", "node1", node["metadata"]["uid"]), "the slice's owner")
        same(made["spec"]["pool"], {"name": "node1", "generation": 1, "resourceSliceCount": 1}, "the pool")
        device = next(one for one in made["spec"]["devices"] if one["attributes"]["index"]["int"] == 3)
        gpu, told = self.node.machine.gpus[3], device["attributes"]
        same(device["name"], self.node.device_name(gpu), "name of a device")
        same(told["uuid"]["string"], gpu["uuid"], "its UUID")
        same(told["product"]["string"], gpu["product"], "its product")
        same(told["resource.kubernetes.io/pciBusID"]["string"], gpu["bdf"], "its place")
        same(told["resource.kubernetes.io/numaNode"]["int"], gpu["numaNode"], "its NUMA node")
        zones = {}
        for one in made["spec"]["devices"]:
            zones.setdefault(one["attributes"]["linkZone"]["int"], set()).add(one["attributes"]["index"]["int"])
        same(sorted(map(sorted, zones.values())), [[0, 1, 2, 3], [4, 5, 6, 7]], "link zones")
        return f"{len(json.dumps(made['spec']))} bytes"

    @quick
    def claimed(self):
        """Pods with claims see what was allocated, which is the best of what is free."""
        order = self.node.offered()
        got = self.run_pod("two", 2)
        same(got, sorted(order[:2]), "the first two of the slice")
        same(got, self.node.machine.best(self.node.all, 2), "the best pair")
        until("the owner in the NodeGPUTopology", lambda: self.node.published()[0] == {"two": got} or (False, self.node.published()))
        same(set(self.node.published()[1]), self.node.all - set(got), "free GPUs")
        want = self.node.machine.best(self.node.all - set(got), 1)
        until("the order to follow", lambda: self.node.offered()[:1] == want or (False, self.node.offered()))
        same(self.run_pod("one", 1), want, "the best single GPU of the rest")
        return f"{got}, {want}"

    @quick
    def device_rules(self):
        """What the container may open, by the rules of its cgroup. The made-up devices have no driver."""
        got = self.run_pod("opens", 2)
        pid, machine = self.cluster.pid(1, self.container("opens")[0]), self.node.machine
        own = [f"/proc/{pid}/root/dev/{name}" for name in machine.expected_nodes(got)]
        others = [str(machine.dev / name) for index in self.node.all - set(got) for name in machine.nodes_of(machine.gpus[index])]
        opened = dict(line.split() for line in
                      self.cluster.ask(1, "/usr/bin/python3", "-c", OPEN, pid, *own, *others).splitlines())
        same(opened, {**dict.fromkeys(own, "ENXIO"), **dict.fromkeys(others, "EPERM")}, "opening devices")
        self.empty()
        return "cgroup v2" if self.cluster.ask(1, "stat", "-f", "-c", "%T", "/sys/fs/cgroup").strip() == "cgroup2fs" else "cgroup v1"

    @quick
    def freed(self):
        self.delete("two", "one")
        self.empty()
        until("all GPUs free", lambda: set(self.node.published()[1]) == self.node.all and not self.node.published()[0])

    def zone(self):
        """A constraint keeps four GPUs in one link zone, also when both are spoilt by one GPU less."""
        made = template("zone", 4)
        made["spec"]["spec"]["devices"]["constraints"] = [{"requests": ["gpus"], "matchAttribute": f"{DRIVER}/linkZone"}]
        self.apply(made, claiming("zone", "zone"))
        self.running("zone")
        got = self.node.check_claimed("zone")
        if got not in ([0, 1, 2, 3], [4, 5, 6, 7]):
            raise Failed(f"{got} is no link zone")
        self.empty()

    @quick
    def second_writer(self):
        """A third party gives a GPU away twice: nobody but the agent notices, and it refuses with a sentence."""
        [held] = self.run_pod("first", 1)
        self.apply(claim("stolen", 1))
        self.allocate("stolen", held)
        self.apply({**claiming("thief", claim="stolen")})
        self.told("thief", "is held by the claim default/first")
        same(self.node.prepared().get("stolen"), None, "what was prepared for the thief")
        self.delete("first")
        self.running("thief", RETRIED_S)
        same(self.node.check_claimed("thief"), [held], "the GPU, when it was given back")
        self.empty()

    def unknown_devices(self):
        self.apply(claim("odd", 1), claim("alien", 1))
        for name, device in {"alien": "gpu-0000-ff-1f-7", "odd": "something"}.items():
            self.allocate_devices(name, device)
            self.apply(claiming(name, claim=name))
        self.told("alien", "gpu-0000-ff-1f-7 is no GPU of this node")
        self.told("odd", '"something", which is no GPU')
        self.empty()

    def agent_restarts(self):
        """Killed and started again: nothing changes for pods, containers that restart meanwhile have their GPUs."""
        got = self.run_pod("lives", 2)
        before = self.container("lives")
        self.node.agent.signal(signal.SIGKILL)
        self.node.agent.process.wait(60)
        # another container of the same pod, while no agent runs
        self.cluster.ask(1, "ctr", "tasks", "kill", "-s", "KILL", before[0].removeprefix("containerd://"))
        until("the next container", lambda: self.container("lives")[1] > before[1] or (False, self.container("lives")))
        self.running("lives")
        self.node.start()
        same(self.node.check_claimed("lives"), got, "GPUs of the container that restarted")
        until("the owner, published", lambda: self.node.published()[0] == {"lives": got} or (False, self.node.published()))
        self.empty()

    def driver_away(self):
        """While no agent runs pods wait; what ended meanwhile is given back when it comes again."""
        got = self.run_pod("ends", 4)
        self.node.agent.stop()
        self.delete("ends", wait=False)
        self.apply(claiming("waits", "gpus-2"))
        self.told("waits", "DRA driver")
        same(self.node.prepared(), {self.node.claim_of("ends")["metadata"]["name"]: got}, "prepared claims")
        start = time.monotonic()
        self.node.start()
        self.running("waits", RETRIED_S)
        seconds = time.monotonic() - start
        self.node.check_claimed("waits")
        until("the pod that ended to go", lambda: "ends" not in [item["metadata"]["name"] for item in self.cluster.get("pods")["items"]])
        self.empty()
        return f"ran {seconds:.1f} s after the agent's start"

    def forced(self):
        """A pod is deleted by force while no agent runs: its GPU counts as free in the API at once, and is given to the next
        pod only when the kubelet has taken it back."""
        self.apply(*(claiming(f"full{i}", "gpus-4") for i in range(2)))
        self.running("full0")
        self.running("full1")
        held = self.node.check_claimed("full0")
        uid = self.node.claim_of("full0")["metadata"]["uid"]
        self.node.agent.stop()
        self.cluster.kubectl("delete", "pod", "full0", "--force", "--grace-period=0")
        until("the claim to go", lambda: uid not in [item["metadata"]["uid"] for item in self.cluster.get("resourceclaims")["items"]])
        self.apply(claiming("heir", "gpus-4"))
        until("the heir to have the GPUs in the API", lambda: self.node.claim_of("heir") and self.node.allocated(self.node.claim_of("heir")) == held)
        self.node.start()
        self.running("heir", 120)
        same(self.node.check_claimed("heir"), held, "GPUs of the heir")
        if uid in self.node.specs():
            raise Failed("the CDI spec of the claim that is gone is still there")
        self.empty()

    def kubelet_restarts(self):
        """The kubelet deletes the node's slices at its start: they are there again, and pods notice nothing."""
        got = self.run_pod("stays", 2)
        before, old = self.container("stays"), self.node.slices()[0]["metadata"]["uid"]
        start = time.monotonic()
        self.cluster.kill_kubelet(1, "KILL")
        until("another slice", lambda: [one for one in self.node.slices() if one["metadata"]["uid"] != old])
        seconds = time.monotonic() - start
        same(sorted(self.node.offered()), sorted(self.node.all), "GPUs in the new slice")
        same(self.container("stays"), before, "the container")
        same(self.node.check_claimed("stays"), got, "its GPUs")
        self.run_pod("after", 1)
        self.empty()
        return f"slice again after {seconds:.1f} s"

    def slice_deleted(self):
        [made] = self.node.slices()
        start = time.monotonic()
        self.cluster.kubectl("delete", "resourceslice", made["metadata"]["name"])
        until("the slice", self.node.slices, pause=0.05)
        return f"{time.monotonic() - start:.1f} s"

    def claim_deleted(self):
        """Somebody deletes the claim under a running pod, its finalizer, too: the GPU is free in the API, and in use here."""
        [held] = self.run_pod("victim", 1)
        name = self.node.claim_of("victim")["metadata"]["name"]
        self.cluster.kubectl("delete", "resourceclaim", name, "--wait=false")
        self.cluster.kubectl("patch", "resourceclaim", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        until("the claim to go", lambda: not self.cluster.get("resourceclaims")["items"])
        self.apply(claim("again", 1))
        self.allocate("again", held)
        self.apply(claiming("next", claim="again"))
        self.told("next", f"is held by the claim default/{name}")
        self.delete("victim")
        self.running("next", RETRIED_S)
        same(self.node.check_claimed("next"), [held], "the GPU after the victim's end")
        self.empty()

    def unhealthy(self):
        """An unhealthy GPU leaves the slice, and a claim that has it is refused; it comes back well."""
        self.node.machine.sick.add(5)
        self.node.agent.rescan()
        until("the slice without it", lambda: sorted(self.node.offered()) == [0, 1, 2, 3, 4, 6, 7])
        self.apply(claim("unhealthy", 1))
        self.allocate("unhealthy", 5)
        self.apply(claiming("unhealthy", claim="unhealthy"))
        self.told("unhealthy", "is unhealthy: made unhealthy by the test")
        self.node.machine.sick.clear()
        self.node.agent.rescan()
        until("the slice with it", lambda: sorted(self.node.offered()) == sorted(self.node.all))
        self.running("unhealthy", RETRIED_S)
        self.empty()

    def tainted(self):
        """Where it is asked for, an unhealthy GPU is offered with a taint, and the scheduler keeps away from it."""
        self.node.agent.stop()
        self.node.start("dra", "--dra-taint=NoSchedule")
        self.node.machine.sick.add(0)
        self.node.agent.rescan()
        def taints():
            return {self.node.names[device["name"]]: device["taints"][0] for one in self.node.slices()
                    for device in one["spec"]["devices"] if device.get("taints")}
        told = until("the taint", taints)
        same({index: (taint["key"], taint["effect"]) for index, taint in told.items()},
             {0: (f"{DRIVER}/unhealthy", "NoSchedule")}, "taints")
        self.apply(claiming("whole", "gpus-8"))
        time.sleep(3)
        same(self.pod("whole")["status"]["phase"], "Pending", "a pod of all eight")
        self.delete("whole")
        got = self.run_pod("around", 4)
        if 0 in got:
            raise Failed(f"the pod got {got}")
        self.node.machine.sick.clear()
        self.node.agent.rescan()
        until("no taint", lambda: not taints())
        self.empty()
        self.node.agent.stop()
        self.node.start()

    def health_told(self):
        """The pod's status tells the health of its GPU."""
        [held] = self.run_pod("patient", 1)
        def health():
            status = self.pod("patient")["status"]["containerStatuses"][0]
            return [one["health"] for told in status.get("allocatedResourcesStatus", []) for one in told["resources"]]
        until("Healthy", lambda: health() == ["Healthy"] or (False, health()))
        self.node.machine.sick.add(held)
        self.node.agent.rescan()
        until("Unhealthy", lambda: health() == ["Unhealthy"] or (False, health()))
        self.node.machine.sick.clear()
        self.node.agent.rescan()
        until("Healthy again", lambda: health() == ["Healthy"] or (False, health()))
        self.empty()

    def full(self):
        """One after the other: of nine at once kube-scheduler 1.34.1 has given one GPU to two claims, which the agent refused."""
        got = [index for i in range(8) for index in self.run_pod(f"one{i}", 1)]
        same(sorted(got), sorted(self.node.all), "GPUs of eight pods")
        self.apply(claiming("ninth", "gpus-1"))
        until("the scheduler to say no", lambda: any("nodes are available" in message for message in self.events("ninth")))
        self.delete("one3")
        self.running("ninth")
        same(self.node.check_claimed("ninth"), [got[3]], "the GPU of the ninth")
        self.empty()

    def plain_limits(self):
        """`limits: metax-tech.com/gpu` of pods that know nothing of claims; each container sees its own."""
        self.cluster.kubectl("create", "-f", "-", data=pods.manifest("plain", 2))
        self.running("plain")
        got = self.node.check_claimed("plain")
        until("the owner in the NodeGPUTopology", lambda: self.node.published()[0] == {"plain": got} or (False, self.node.published()))
        self.cluster.kubectl("create", "-f", "-", data=pods.manifest("both", 1, 2))
        self.running("both")
        planned, seen = self.node.allocated(self.node.claim_of("both")), []
        for container, count in (("c0", 1), ("c1", 2)):
            nodes = set(self.node.seen("both", container).made_up())
            mine = [index for index in planned if set(self.node.machine.expected_nodes([index])) <= nodes]
            same(len(mine), count, f"GPUs in {container}")
            seen += mine
        same(sorted(seen), planned, "GPUs of both containers")
        self.empty()

    def two_agents(self):
        """A rolling update: the next agent comes before the last one has gone. No slice goes, no pod waits."""
        old_slice = self.node.slices()[0]["metadata"]["uid"]
        got = self.run_pod("over", 2)
        next_one = Agent(self.cluster, self.node.agent.program, self.node.machine)
        next_one.PORT, next_one.log = 9410, self.cluster.state / "log" / "agent1-next"
        next_one.begin("--http", f"127.0.0.1:{next_one.PORT}", *self.node.options())
        until("the next agent to be ready", next_one.ready)
        self.run_pod("both", 1)
        self.node.agent.stop()
        self.run_pod("alone", 1)
        self.delete("over")
        until("the claim of before to be given back", lambda: got not in self.node.prepared().values())
        time.sleep(35)  # after 30 s without a driver the kubelet deletes its slices
        same(self.node.slices()[0]["metadata"]["uid"], old_slice, "the slice")
        self.node.start()
        next_one.stop()
        self.empty()

    def churning(self, name, count):
        """A pod of the churn: every fourth has an init container, too, which shares the claim."""
        pod = claiming(name, f"gpus-{count}")
        if int(name[1:]) % 4 == 1:
            pod["spec"]["initContainers"] = [{**pod["spec"]["containers"][0], "name": "first", "command": ONCE}]
        return pod

    def check_churned(self, item, count):
        name = item["metadata"]["name"]
        got = self.node.check_claimed(name)
        same(len(got), count, f"GPUs of {name}")
        for one in item["spec"].get("initContainers", []):
            same(self.node.seen(name, one["name"]).made_up(), self.node.machine.expected_nodes(got), f"device nodes in {name}/{one['name']}")

    def churn(self):
        """Pods of 1, 2, 4 and 8 come and go, every third by force, some with init containers, while the kubelet's list is asked more
        often than its limit allows: planned, prepared and seen are the same, always."""
        waiting, alive, checked = [(f"c{i}", (1, 2, 4, 1, 8, 2, 1, 4)[i % 8]) for i in range(CHURNED)], {}, 0
        with Asking(self.node.usage) as asking:
            while waiting or alive:
                while waiting and len(alive) < 5:
                    name, count = waiting.pop(0)
                    self.apply(self.churning(name, count))
                    alive[name] = count
                done = []
                for item in self.cluster.get("pods")["items"]:
                    name = item["metadata"]["name"]
                    if name in alive and item["status"]["phase"] == "Running":
                        self.check_churned(item, alive.pop(name))
                        done.append(name)
                held = [index for indices in self.node.prepared().values() for index in indices]
                same(len(held), len(set(held)), f"GPUs that two claims hold: {held}")
                for name in done:
                    checked += 1
                    if checked % 3 == 0:
                        self.cluster.kubectl("delete", "pod", name, "--force", "--grace-period=0")
                    else:
                        self.delete(name, wait=False)
                if not done:
                    time.sleep(0.3)
        same(checked, CHURNED, "pods that ran")
        if not asking.refused:
            raise Failed(f"the kubelet answered all {asking.asked} questions")
        self.empty()
        return f"{checked} pods; the kubelet refused {asking.refused} of {asking.asked} questions"

    def back_and_forth(self):
        """From claims to the device plugin and back on a live node: no GPU is offered by both, running pods keep theirs."""
        kept = self.run_pod("by-claim", 2)
        self.node.agent.stop()
        self.node.start("plugin")
        until("no slice", lambda: not self.node.slices())
        def allocatable():
            return self.cluster.get("node", "node1")["status"]["allocatable"].get(pods.RESOURCE)
        until("six GPUs by the plugin", lambda: allocatable() == "6" or (False, allocatable()))
        self.cluster.kubectl("create", "-f", "-", data=pods.manifest("by-plugin", 4))
        self.running("by-plugin")
        got = self.node.check_container("by-plugin")
        if set(got) & set(kept):
            raise Failed(f"{got} by the plugin, {kept} by a claim")
        self.delete("by-claim")
        until("eight", lambda: allocatable() == "8" or (False, allocatable()))
        self.node.agent.stop()
        self.node.start()
        until("the four others in the slice", lambda: sorted(self.node.offered() or []) == sorted(self.node.all - set(got))
              or (False, self.node.offered()))
        self.run_pod("new", 2)
        self.delete("by-plugin")
        until("all eight in the slice", lambda: sorted(self.node.offered()) == sorted(self.node.all) or (False, self.node.offered()))
        self.empty()

    def may_not(self):
        """What the agent's token may write is narrowed to its own node, driver and one annotation."""
        account, foreign = self.node.account, {
            "apiVersion": claims.POOL, "kind": "ResourceSlice", "metadata": {"name": "foreign"},
            "spec": {"driver": DRIVER, "nodeName": "node2", "pool": {"name": "node2", "generation": 1, "resourceSliceCount": 1}}}
        account.may_not("may not write the ResourceSlice foreign", "create", "--validate=false", "-f", "-", data=foreign)
        other = {**foreign, "spec": {**foreign["spec"], "nodeName": "node1", "driver": "other.example.com"}}
        account.may_not("of the driver gpu.metax-tech.com only", "create", "--validate=false", "-f", "-", data=other)
        self.run_pod("mine", 1)
        def written(name, **metadata):
            return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}}
        retried = {"gpu.metax-tech.com/retried": "now"}
        account.may_not("changes no spec, labels", *apply("agent"), data=written("mine", labels={"a": "b"}))
        account.may_not("only the annotation gpu.metax-tech.com/retried", *apply("agent"), data=written("mine", annotations={"a": "b"}))
        account.may(*apply("agent"), data=written("mine", annotations=retried))
        far = pods.manifest("far", 0)
        far["spec"]["schedulingGates"] = [{"name": "example.com/never"}]
        self.cluster.kubectl("create", "-f", "-", data=far)
        account.may_not("pods of its own node only", *apply("agent"), data=written("far", annotations=retried))
        self.empty()

    def footprint(self):
        pid = self.node.agent.pid()
        with open(f"/proc/{pid}/status") as status:
            resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        if resident > 20 << 10:
            raise Failed(f"{resident} KiB resident, the goal is 20 MiB")
        return f"{resident / 1024:.1f} MiB resident"

    def run(self):
        def case(name, run):
            return self.report.case(name, run, self.tidy)
        of = f"Kubernetes {self.version}, claims: "
        if not case(of + "the driver registers, 8 GPUs are in one slice", self.begins):
            return
        case(of + "the slice has owner, pool and attributes", self.slice_says)
        case(of + "pods see the allocated GPUs, the best of the free ones; they are published", self.claimed)
        case(of + "a container opens the devices of its GPUs, and no others", self.device_rules)
        case(of + "pods end: nothing is left of their claims", self.freed)
        case(of + "four GPUs of one link zone by a constraint", self.zone)
        case(of + "a GPU that somebody gave away twice is refused, and given when it is free", self.second_writer)
        case(of + "devices that are none are refused", self.unknown_devices)
        case(of + "the agent is killed: pods and their next containers keep their GPUs", self.agent_restarts)
        case(of + "no agent: pods wait, and run at once when it is back", self.driver_away)
        case(of + "a pod deleted by force: its GPUs are given on when it has ended", self.forced)
        case(of + "the kubelet is killed: its slice is made again", self.kubelet_restarts)
        case(of + "the slice is deleted: made again", self.slice_deleted)
        case(of + "a claim deleted under a running pod: its GPU stays its own", self.claim_deleted)
        case(of + "an unhealthy GPU leaves the slice and comes back", self.unhealthy)
        case(of + "a full node: the ninth pod waits", self.full)
        if self.newest:
            case(of + "an unhealthy GPU with a taint", self.tainted)
            case(of + "the pod's status tells the health of its GPU", self.health_told)
            case(of + "plain limits by the extended resource", self.plain_limits)
        case(of + "two agents side by side, as in a rolling update", self.two_agents)
        case(of + f"{CHURNED} pods come and go: planned, prepared and seen are the same", self.churn)
        case(of + "to the device plugin and back, with pods", self.back_and_forth)
        case(of + "what the agent's token may not write", self.may_not)
        ClaimLifeCases(self).run()
        CompositeCases(self).run()
        ClaimCases(self).run()
        case(of + "the agent's memory", self.footprint)
        self.report.case(of + "the agent ends cleanly", quick(lambda: self.node.agent.stop()))
