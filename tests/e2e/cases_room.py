# SPDX-License-Identifier: Apache-2.0
"""Room is made for a waiting unit by moving others (--rebalance=evict), and people reserve and empty supernodes."""
import json
import time

from cases_node_loss import NodeLossCases
from harness import install
from harness.placed import job, pod_template, rack_of
from harness.waiting import same, until


class RoomCases(NodeLossCases):
    def evict(self):
        """The companion makes moves by itself."""
        self.cluster.kubectl("patch", "deployment", "gputopo-scheduler", "-n", install.NAMESPACE, "--type=json", "-p", json.dumps(
            [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--rebalance=evict"}]))
        self.cluster.kubectl("rollout", "status", "deployment/gputopo-scheduler", "-n", install.NAMESPACE, "--timeout=290s")

    def movable(self):
        """Two jobs of a node each in rack 4, since the others are full; then one node of each other rack is free."""
        for rack, pods in (("1", 2), ("5", 3)):
            self.fill(f"holder{rack}", pods, rack=rack)
            self.fill(f"pad{rack}", 1, rack=rack)
        template = pod_template(8, group=8, labels={"app": "small"})
        template["metadata"]["annotations"]["metax-tech.com/movable"] = "true"
        for name in ("small0", "small1"):
            self.placed.create(job(name, 1, template))
        pods = [self.placed.bound(f"job-name={name}", 1)[0] for name in ("small0", "small1")]
        same([rack_of(pod["spec"]["nodeName"]) for pod in pods], ["4", "4"], "racks of the small jobs")
        for rack in ("1", "5"):
            self.cluster.kubectl("delete", "job", f"pad{rack}")
            self.placed.gone(f"job-name=pad{rack}")
        return {pod["metadata"]["uid"] for pod in pods}

    def two_moves(self):
        """A unit of a whole rack waits. Two jobs go to the other racks, one after the other as their budget allows; it starts."""
        before = self.movable()
        self.placed.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "small", "namespace": "default"},
                           "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "small"}}}})
        try:
            until("the budget to allow one disruption", lambda: self.cluster.get("pdb", "small")["status"].get("disruptionsAllowed") == 1)
            began = time.monotonic()
            self.placed.create(job("wide", 4, pod_template(8, group=32)))
            wide = self.placed.bound("job-name=wide", 4)
            took = time.monotonic() - began
            same({rack_of(pod["spec"]["nodeName"]) for pod in wide}, {"4"}, "the rack of the unit")
            now = [self.placed.bound(f"job-name={name}", 1)[0] for name in ("small0", "small1")]
            same(sorted(rack_of(pod["spec"]["nodeName"]) for pod in now), ["1", "5"], "racks of the small jobs")
            same(before & {pod["metadata"]["uid"] for pod in now}, set(), "pods that stayed")
            self.placed.event("MovesBegun", "2 pods of 2 jobs")
            self.placed.no_gpu_twice()
        finally:
            self.cluster.kubectl("delete", "pdb", "small")
        return f"it started after {took:.1f} s"

    def emptied(self):
        """A rack is reserved by people, and drained: what may move leaves, nothing new comes, and it is said."""
        self.movable()
        self.cluster.kubectl("annotate", "supernode", "rack-5", "metax-tech.com/reserved-until="
                             + time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600)))
        try:
            def explained():
                said = [self.cluster.ask("control", "gputopo", "explain", "--companion", f"{self.placed.address()}:9401", f"hollow-5-{number}")
                        for number in range(4)]
                return any("reserved by people until" in text for text in said) or (False, said)
            until("explain to tell of the reservation", explained)
            said = self.cluster.ask("control", "gputopo", "drain", "rack-4")
            same("2 of 2 pods with GPUs move, 0 are evicted, 0 stay" in said, True, f"what drain says: {said}")

            def where():
                pods = self.placed.pods("app=small")
                racks = sorted(rack_of(pod["spec"].get("nodeName") or "hollow-?") for pod in pods.values())
                return racks == ["1", "4"] or (False, racks)
            until("one of them to go to the only node that is free and not reserved", where)
            self.placed.event("NodeLost", "people ask for it", "reserved by people")
        finally:
            self.cluster.kubectl("annotate", "supernode", "rack-5", "metax-tech.com/reserved-until-")
        try:
            until("the other to go to rack 5", lambda: sorted(
                rack_of(pod["spec"].get("nodeName") or "hollow-?") for pod in self.placed.pods("app=small").values()) == ["1", "5"])
            same("0 of 0 pods with GPUs move" in self.cluster.ask("control", "gputopo", "drain", "rack-4"), True, "nothing is left")
        finally:
            for number in range(4):
                self.cluster.kubectl("uncordon", f"hollow-4-{number}")
        return said.splitlines()[-1]

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        if self.report.case("the companion makes moves by itself", self.evict):
            case("a unit of a whole rack starts after two moves, within a budget", self.two_moves)
            case("a rack is emptied, beside one that people have reserved", self.emptied)
        self.placed.clean()
