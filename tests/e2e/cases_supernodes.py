# SPDX-License-Identifier: Apache-2.0
"""gputopo-scheduler on a real cluster: Supernodes from the nodes' reports and the operator's configuration, and
Volcano's HyperNodes."""
import json
import xml.etree.ElementTree

from cases_api import ROOT, topology, use, wiring
from harness.account import Account, apply
from harness.install import NAMESPACE, SERVERS
from harness.machine import ask
from harness.report import quick
from harness.waiting import Failed, same, until

PROGRAM = "gputopo-scheduler"
CONFIG = "gputopo-supernodes"
SOURCE = "volcano.sh/network-topology-source"
EXTRA = (3, 4, 5)  # Nodes without a kubelet, whose objects a test writes, beside the two nodes that run


class SupernodeCases:
    def __init__(self, daemonset, crds):
        self.of, self.cluster, self.report = daemonset, daemonset.cluster, daemonset.report
        self.crds = crds  # the directory of Volcano's

    # steps

    def supernodes(self):
        """{names of the member nodes: the object}, of tier 1."""
        return {frozenset(member["node"] for member in item["status"]["members"]): item
                for item in self.cluster.get("supernodes")["items"] if item.get("status", {}).get("members")}

    @staticmethod
    def names(*numbers):
        return frozenset(f"node{number}" for number in numbers)

    @staticmethod
    def condition(item, kind):
        found = next((one for one in item["status"]["conditions"] if one["type"] == kind), None)
        return (found["status"], found["reason"], found["message"]) if found else None

    def waits_for(self, what, groups, **fields):
        """Until tier 1 is made of exactly these groups of node numbers, and the first one has these fields."""
        wanted = {self.names(*group) for group in groups}

        def there():
            found = self.supernodes()
            first = found.get(self.names(*groups[0]), {}).get("status", {}) if groups else {}
            got = {key: first.get(key) for key in fields}
            return (set(found) == wanted and got == fields and (found or True)) or (
                False, ([sorted(group) for group in found], got))
        return until(what, there)

    def make_node(self, number, *remotes):
        """A Node without a kubelet, and what its agent would report; without the label that would bring it one."""
        name = f"node{number}"
        self.cluster.kubectl(*apply("test"), data={"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        self.write_report(number, *remotes)

    def write_report(self, number, *remotes):
        node = {**ask(self.of.build / "bin" / "gputopo", "show", "--from", ROOT / "tests" / "machines" / "c500-8.json",
                      "-o", "json"), "name": f"node{number}",
                "supernode": {"uuid": SERVERS[number], "remote": [SERVERS[remote] for remote in remotes]}}
        self.cluster.kubectl(*apply("gputopo-agent"), data=topology(node["name"]))
        self.cluster.kubectl(*apply("gputopo-agent", "--subresource=status"),
                             data=topology(node["name"], wiring(node, "Discovered", "LinksHealthy")))
        self.cluster.kubectl(*apply("gputopo-agent-usage", "--subresource=status"),
                             data=topology(node["name"], use(list(range(8)))))

    def live_report(self, number, *remotes):
        """The fake vendor library of that node sees these servers from now on."""
        self.of.machines[number].set_remotes(*(SERVERS[remote] for remote in remotes))

    def configure(self, text):
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG, "namespace": NAMESPACE},
                    "data": {"supernodes.yaml": text}}
        self.cluster.kubectl(*apply("test"), data=manifest)

    def event(self, reason, *words):
        """Waits for an event of the companion whose note has all the words."""
        def told():
            notes = [item["note"] for item in self.cluster.get("events.events.k8s.io", "-A")["items"]
                     if item["reason"] == reason]
            return any(all(word in note for word in words) for note in notes) or (False, notes)
        until(f"an event {reason} with {', '.join(words)}", told)

    def hypernodes(self):
        return {item["metadata"]["name"]: item for item in self.cluster.get("hypernodes")["items"]}

    @staticmethod
    def members(hypernode):
        return {(one["type"], one["selector"]["exactMatch"]["name"]) for one in hypernode["spec"]["members"]}

    # cases, in order

    def prepare(self):
        """Volcano's definition, before the companion that is to project is there."""
        self.cluster.kubectl("apply", "--server-side", "-f", self.crds / "topology.volcano.sh_hypernodes.yaml")
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "hypernodes.topology.volcano.sh", "--timeout=290s")

    @quick
    def companion(self):
        self.cluster.kubectl("rollout", "status", f"deployment/{PROGRAM}", "-n", NAMESPACE, "--timeout=290s")
        lease = self.cluster.get("lease", PROGRAM, "-n", NAMESPACE)
        return f"the lease is held by {lease['spec']['holderIdentity'].split('_')[0]}"

    @quick
    def reports(self):
        """Live node1 and node2 see each other by their (fake) vendor libraries; node3 and node4 by written objects."""
        self.make_node(3, 4)
        self.make_node(4, 3)
        found = self.waits_for("a supernode of node1 and node2, another one of node3 and node4", [(1, 2), (3, 4)],
                               tier=1, source="report", capacity=16, free=16, nodes=2, linksHealthy=True)
        same(self.condition(found[self.names(1, 2)], "Conflict")[0], "False", "Conflict")
        return ", ".join(sorted(item["metadata"]["name"] for item in found.values()))

    @quick
    def follows(self):
        """A pod with GPUs, and a link that goes down, on a node of the cluster: the supernode tells."""
        self.of.run_pod("in-supernode", 1, 3)
        self.waits_for("the supernode to count 13 free", [(1, 2), (3, 4)], free=13, capacity=16)
        self.of.machines[2].set_link(0, 1, up=False)
        self.waits_for("the supernode to tell of the link", [(1, 2), (3, 4)], linksHealthy=False, free=13)
        self.of.machines[2].set_link(0, 1, up=True)
        self.cluster.kubectl("delete", "pod", "in-supernode", "--wait")
        self.waits_for("the supernode to be whole again", [(1, 2), (3, 4)], linksHealthy=True, free=16)

    @quick
    def told_to_people(self):
        """What gputopo, also as a plugin of kubectl, reads out of the cluster; and the file that it makes can be planned on."""
        gputopo = self.of.build / "bin" / "gputopo"
        names = {item["metadata"]["name"] for item in self.supernodes().values()}
        table = self.cluster.ask("control", gputopo, "cluster")
        listed = self.cluster.kubectl("gputopo", "supernodes")
        for word in (*names, "node1", "node2", "node3", "node4"):
            if word not in table:
                raise Failed(f"gputopo cluster says nothing of {word}: {table}")
        for name in names:
            if name not in listed:
                raise Failed(f"kubectl gputopo supernodes says nothing of {name}: {listed}")
        node = json.loads(self.cluster.ask("control", gputopo, "show", "--node", "node1", "-o", "json"))
        same([gpu["uuid"] for gpu in node["gpus"]], [gpu["uuid"] for gpu in self.of.nodes[1].machine.gpus], "UUIDs of node1")
        file = self.cluster.state / "cluster.json"
        file.write_text(self.cluster.ask("control", gputopo, "cluster", "-o", "json"))
        plan = ask(gputopo, "plan", "--cluster", file, "--pods", "4", "--gpus", "4", "--group-size", "16", "-o", "json")
        same(plan["placed"], True, "a job of one group of 16, planned on the cluster as it is")
        nodes = {pod["node"] for pod in plan["units"][0]["pods"]}
        if nodes not in ({"node1", "node2"}, {"node3", "node4"}):
            raise Failed(f"the group is not in one supernode: {nodes}")
        drawn = self.cluster.ask("control", gputopo, "cluster", "-o", "svg")
        xml.etree.ElementTree.fromstring(drawn)

    def deleted(self):
        item = self.supernodes()[self.names(1, 2)]
        name = item["metadata"]["name"]
        self.cluster.kubectl("delete", "supernode", name)

        def back():
            found = self.supernodes().get(self.names(1, 2))
            return found and found["metadata"]["uid"] != item["metadata"]["uid"] and found
        same(until("the supernode to be made again", back)["metadata"]["name"], name, "its name")

    def conflict(self):
        """One side no longer sees the other: said, with both names, and gone again."""
        self.make_node(5, 1, 2)
        self.live_report(1, 2, 5)
        self.live_report(2, 1, 5)
        self.waits_for("a supernode of three nodes", [(1, 2, 5), (3, 4)], capacity=24, free=24)
        self.live_report(2, 1)

        def told(status, *words):
            found = self.supernodes().get(self.names(1, 2, 5))
            said = found and self.condition(found, "Conflict")
            return (said and said[0] == status and all(word in said[2] for word in words) and said) or (False, said)
        said = until("the conflict to be told", lambda: told("True", "node2", "node5"))
        self.event(said[1], "node2", "node5")
        self.live_report(2, 1, 5)
        until("the conflict to be gone", lambda: told("False"))
        return said[2]

    def configured(self):
        """The operator's word counts more than reports; what makes no sense in it is named, and the rest works."""
        good = """groups:
- {name: rack-1, tier: 1, parent: hall, nodes: [node1, node3]}
- {name: rack-2, tier: 1, parent: hall, nodes: ["node[4-5]"]}
- {name: hall, tier: 2}
"""
        self.configure(good)
        found = self.waits_for("supernodes as configured", [(1, 3), (4, 5)], source="config", parent="hall", capacity=16)
        same(sorted(item["metadata"]["name"] for item in found.values()), ["rack-1", "rack-2"], "names of tier 1")
        hall = until("the hall", lambda: next((item["status"] for item in self.cluster.get("supernodes")["items"]
                                               if item["metadata"]["name"] == "hall" and item["status"].get("nodes") == 4), None))
        same((hall["tier"], hall["capacity"]), (2, 32), "tier and capacity of the hall")
        self.configure(good + "- {name: rack-3, tier: 1, nodes: [node5, node2, node9]}\n")

        def named():
            rack = next((item for item in self.cluster.get("supernodes")["items"]
                         if item["metadata"]["name"] == "rack-3" and item.get("status")), None)
            said = rack and self.condition(rack, "Conflict")
            return (said and said[0] == "True" and said) or (False, said)
        said = until("the mistake to be named", named)
        self.event("NodeTwice", "node5", "rack-3")
        self.event("UnknownNode", "node9")
        self.configure("groups: [\n")  # no YAML at all
        self.event("BadConfiguration")
        same("rack-1" in [item["metadata"]["name"] for item in self.cluster.get("supernodes")["items"]], True,
             "rack-1 is kept while the configuration cannot be read")
        self.configure(good)
        self.waits_for("supernodes as configured again", [(1, 3), (4, 5)], source="config")
        return said[2]

    def projected(self):
        """Volcano's own definition takes them; what somebody else's HyperNode holds is left out, and theirs untouched."""
        def there(name, *members):
            def ask_for():
                got = self.hypernodes().get(name)
                return (got and self.members(got) == set(members) and got) or (False, got and self.members(got))
            return until(f"the HyperNode {name}", ask_for)
        rack = there("rack-1", ("Node", "node1"), ("Node", "node3"))
        hall = there("hall", ("HyperNode", "rack-1"), ("HyperNode", "rack-2"))
        same((rack["spec"]["tier"], hall["spec"]["tier"]), (1, 2), "tiers")
        same(rack["metadata"]["labels"][SOURCE], "gputopo", "the label that tells whose it is")
        theirs = {"apiVersion": rack["apiVersion"], "kind": "HyperNode", "metadata": {"name": "theirs"},
                  "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "node3"}}}]}}
        self.cluster.kubectl(*apply("somebody"), data=theirs)
        before = self.hypernodes()["theirs"]["metadata"]["resourceVersion"]
        there("rack-1", ("Node", "node1"))

        def told():
            rack = next(item for item in self.cluster.get("supernodes")["items"] if item["metadata"]["name"] == "rack-1")
            said = [one["message"] for one in rack["status"]["conditions"] if one["reason"] == "MemberHeld"]
            return any("node3" in message and "theirs" in message for message in said) or (False, said)
        until("rack-1 to tell who holds node3", told)
        same(self.hypernodes()["theirs"]["metadata"]["resourceVersion"], before, "version of somebody else's HyperNode")
        self.cluster.kubectl("delete", "hypernode", "theirs")
        there("rack-1", ("Node", "node1"), ("Node", "node3"))
        bad = {**theirs, "metadata": {"name": "bad"}, "spec": {"tier": 1, "members": [{"type": "Rack"}]}}
        try:
            self.cluster.kubectl(*apply("somebody"), data=bad)
        except Failed as refusal:
            if "Unsupported value" not in str(refusal):
                raise
        else:
            raise Failed("the definition takes anything, so that it proves nothing")
        return json.dumps(rack["spec"])

    def unconfigured(self):
        """Without the ConfigMap reports count again, and no HyperNode is left of what was."""
        self.cluster.kubectl("delete", "configmap", CONFIG, "-n", NAMESPACE)
        found = self.waits_for("supernodes by report again", [(1, 2, 5), (3, 4)], source="report")
        names = {item["metadata"]["name"] for item in found.values()}
        until("the HyperNodes to follow", lambda: set(self.hypernodes()) == names or (False, sorted(self.hypernodes())))

    def forbidden(self):
        """What the companion may not, with the token of its pod."""
        token = self.cluster.kubectl("create", "token", "gputopo-scheduler", "-n", NAMESPACE)
        account = Account(self.cluster, "companion-pod", token)
        account.may_not("orbidden", "delete", "crd", "hypernodes.topology.volcano.sh")
        account.may_not("orbidden", "get", "secrets", "-A")
        account.may_not("orbidden", "patch", "ngt", "node1", "--type=merge", "-p", '{"metadata":{"labels":{"a":"b"}}}')

    @quick
    def removed(self):
        self.cluster.kubectl("delete", "configmap", CONFIG, "-n", NAMESPACE, "--ignore-not-found")
        for number in EXTRA:
            self.cluster.kubectl("delete", "node,ngt", f"node{number}", "--wait=false", "--ignore-not-found")
        self.live_report(1, 2)
        self.live_report(2, 1)
        self.waits_for("the supernodes of what is left", [(1, 2)], source="report", capacity=16)
        self.cluster.kubectl("delete", "deployment", PROGRAM, "-n", NAMESPACE, "--wait")
        self.cluster.kubectl("delete", "supernodes,hypernodes", "--all")

    def begin(self):
        """Returns whether the others make sense."""
        case = self.report.case
        return case("gputopo-scheduler runs as a Deployment", self.companion) and case(
            "Supernodes are made of what the nodes report", self.reports)

    def rest(self):
        case = self.report.case
        case("a Supernode follows its nodes: GPUs in use, a link that goes down", self.follows)
        case("gputopo shows the cluster, and plans on it", self.told_to_people)
        case("a Supernode deleted by hand comes back", self.deleted)
        case("reports that contradict each other are a condition and an event", self.conflict)
        if case("the operator's ConfigMap counts, its mistakes are named", self.configured):
            case("Volcano's definition takes the HyperNodes, somebody else's are left alone", self.projected)
            case("without the ConfigMap the reports count again", self.unconfigured)
        case("roles give the companion nothing more with HyperNodes", self.forbidden)
        case("the companion is removed", self.removed)
