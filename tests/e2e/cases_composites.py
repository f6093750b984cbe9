# SPDX-License-Identifier: Apache-2.0
"""Pairs, link zones and the whole node as devices that count their GPUs."""
from harness.claims import claim, claiming, template
from harness.waiting import Failed, same, until


class CompositeCases:
    """In the cluster of DraCases, with its node and agent."""

    def __init__(self, dra):
        self.dra, self.node, self.cluster = dra, dra.node, dra.cluster

    # steps

    def restart(self, *options):
        self.node.agent.stop()
        self.node.start("dra", *options)

    def place(self, index):
        return self.node.device_name(self.node.machine.gpus[index]).removeprefix("gpu-")

    def devices(self):
        """{name: device} of the slice that has any, and how many slices there are."""
        slices = self.node.slices()
        return {device["name"]: device for one in slices for device in one["spec"].get("devices", [])}, len(slices)

    def asks(self, name, kind):
        self.dra.apply(claiming(name, f"one-{kind}"))

    def runs(self, name, kind):
        """The GPUs of a pod that asks for a composite: those which its name says are prepared, and seen in the container."""
        self.asks(name, kind)
        self.dra.running(name)
        [result] = self.node.claim_of(name)["status"]["allocation"]["devices"]["results"]
        used = self.devices()[0][result["device"]]["consumesCounters"][0]["counters"]
        got = self.node.check_held(name)
        same(got, sorted(int(counter.removeprefix("gpu-")) for counter in used), f"GPUs of {result['device']}, by its counters")
        return got

    def waits(self, name, kind):
        """The scheduler finds no node for it."""
        self.asks(name, kind)
        until(f"the scheduler to refuse {name}", lambda: any("nodes are available" in message for message in self.dra.events(name)))
        same(self.dra.pod(name)["status"]["phase"], "Pending", f"phase of {name}")

    # cases

    def begins(self):
        self.dra.apply(*(template(f"one-{kind}", 1, deviceClassName=f"gpu-{kind}.metax-tech.com") for kind in ("pair", "zone", "node")))
        self.restart("--dra-composites")
        devices, slices = until("composites", lambda: (lambda got: got if "node-8" in got[0] else None)(self.devices()))
        same(slices, 2, "slices")
        same(sorted({name.split("-")[0]: None for name in devices}), ["gpu", "node", "pair", "zone"], "kinds of devices")
        told = devices[f"zone-{self.place(4)}-4"]["attributes"]
        same((told["type"]["string"], told["gpus"]["int"], told["links"]["int"]), ("zone", 4, 6), "attributes of a zone")
        return f"{len(devices)} devices"

    def best_pair(self):
        """A claim of a pair gets the best linked one, and the next the best of the rest; plain claims get single GPUs."""
        all_gpus = self.node.all
        first = self.runs("pair", "pair")
        same(first, self.node.machine.best(all_gpus, 2), "the best pair")
        until("the owner in the NodeGPUTopology", lambda: self.node.published()[0] == {"pair": first} or (False, self.node.published()))
        want = self.node.machine.best(all_gpus - set(first), 2)
        order = [f"pair-{self.place(pair[0])}-{self.place(pair[1])}" for pair in (first, want)]
        def next_pair():  # after the one in use, which comes first so that it has room in the slice
            devices = [name for name in self.devices()[0] if name.startswith("pair-")]
            return devices[:2] == order or (False, devices[:2])
        until("the order to follow", next_pair)
        same(self.runs("pair2", "pair"), want, "the best pair of the rest")
        [single] = self.dra.run_pod("single", 1)
        if single in first + want:
            raise Failed(f"GPU {single} is in a pair")
        return f"{first}, {want}, {single}"

    def singles_spoil(self):
        """One GPU of each zone is enough: no zone is left, nor the node."""
        self.dra.empty()
        self.runs("zone", "zone")
        [single] = self.dra.run_pod("single", 1)
        self.waits("zone2", "zone")
        self.waits("whole", "node")
        self.dra.delete("single")
        self.dra.running("zone2")
        same(len(self.node.check_held("zone2")), 4, "GPUs of the second zone")
        self.dra.delete("zone", "zone2")
        self.dra.running("whole")
        same(self.node.check_held("whole"), sorted(self.node.all), "GPUs of the whole node")
        self.dra.empty()
        return f"GPU {single} kept a zone and the node from others"

    def overlaps(self):
        """A third party gives away the node, of which a pair is in use: the agent refuses, until that is given back."""
        held = self.runs("first", "pair")
        self.dra.apply(claim("stolen", 1))
        self.dra.allocate_devices("stolen", "node-8")
        self.dra.apply(claiming("thief", claim="stolen"))
        names = [self.node.device_name(self.node.machine.gpus[index]) for index in held]
        self.dra.told("thief", f"node-8: {names[0]} is held by the claim default/first")
        self.dra.apply(claim("both", 1))
        self.dra.allocate_devices("both", f"pair-{self.place(held[0])}-{self.place(held[1])}", names[1])
        self.dra.apply(claiming("greedy", claim="both"))
        self.dra.told("greedy", f"overlap: both have {names[1]}")
        self.dra.delete("first")
        self.dra.running("thief")
        same(self.node.check_held("thief"), sorted(self.node.all), "GPUs of the node")
        self.dra.empty()

    def unhealthy(self):
        """What has an unhealthy GPU is not offered."""
        self.node.machine.sick.add(0)
        self.node.agent.rescan()
        def without():
            names = self.devices()[0]
            return not [name for name in names if self.place(0) in name or name == "node-8"] or (False, sorted(names))
        until("composites without it", without)
        self.node.machine.sick.clear()
        self.node.agent.rescan()
        until("all of them", lambda: "node-8" in self.devices()[0])

    def kubelet_restarts(self):
        """The kubelet deletes both slices at its start."""
        got, old = self.runs("stays", "pair"), {one["metadata"]["uid"] for one in self.node.slices()}
        self.cluster.kill_kubelet(1, "KILL")
        until("two others", lambda: (lambda now: len(now) == 2 and not now & old)({one["metadata"]["uid"] for one in self.node.slices()}))
        same(self.node.check_held("stays"), got, "GPUs of the pod that stayed")
        self.runs("after", "zone")
        self.dra.empty()

    def ends(self):
        """Switched off while a pair is in use: its GPUs come back when it ends."""
        held = self.runs("last", "pair")
        self.restart()
        until("one slice", lambda: len(self.node.slices()) == 1)
        until("the others alone", lambda: sorted(self.node.offered()) == sorted(self.node.all - set(held)) or (False, self.node.offered()))
        self.dra.delete("last")
        until("all", lambda: sorted(self.node.offered()) == sorted(self.node.all) or (False, self.node.offered()))
        self.dra.empty()

    def not_kept(self):
        """This API server drops counters: composites would be given twice, so that none is offered."""
        self.restart("--dra-composites")
        until("the Event", lambda: any(item.get("reason") == "CompositesNotOffered" for item in self.cluster.get("events", "-A")["items"]))
        until("the slice alone", lambda: len(self.node.slices()) == 1)
        same(sorted(self.node.offered()), sorted(self.node.all), "GPUs in the slice")
        self.dra.run_pod("plain", 1)
        self.dra.empty()
        self.restart()

    def tidy(self):
        self.dra.tidy()

    def run(self):
        of = f"Kubernetes {self.dra.version}, composites: "
        def case(name, run):
            return self.dra.report.case(of + name, run, self.tidy)
        if not self.dra.newest:
            case("not offered where no counters are kept", self.not_kept)
            return
        if not case("pairs, zones and the node are offered", self.begins):
            return
        case("a claim of a pair gets the best linked one", self.best_pair)
        case("single GPUs spoil them", self.singles_spoil)
        case("what overlaps is refused", self.overlaps)
        case("an unhealthy GPU takes them out", self.unhealthy)
        case("the kubelet is killed: both slices are made again", self.kubelet_restarts)
        case("switched off while one is in use", self.ends)
