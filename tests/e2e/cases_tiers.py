# SPDX-License-Identifier: Apache-2.0
"""Two halls of five leaves of four nodes: our plans and Kueue's of the same jobs, Volcano's plugins and jobs without annotations, and cables that
change while a job runs. The nodes are hollow; their agents tell of LLDP neighbours, which their recordings have."""
import collections
import json
import random
import types

from harness import install
from harness.hollow import APPLY, HollowNodes, name
from harness.placed import GATE, job, pod_template
from harness.report import quick
from harness.schedulers import Kueue, Program, Volcano
from harness.waiting import Failed, same, until

from cases_volcano import task, vcjob

HALLS, LEAVES, EACH = 2, 5, 4
JOBS, NODES_AT_ONCE, SEED = 30, 36, 7
SIZES = (1, 2, 2, 3, 4, 4, 6, 8)  # pods of a whole node
TOPOLOGY = "metax-tech.com/job-topology"
QUEUE, PREFERRED = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/podset-preferred-topology"
HOSTNAME = "kubernetes.io/hostname"
KUEUE_API = "kueue.x-k8s.io/v1beta2"


def switch(leaf):
    return f"leaf-{leaf:02}"


def hall_of(leaf):
    return f"hall-{(leaf - 1) // LEAVES + 1}"


def leaf_of(node):
    return int(node.split("-")[1])


def arrivals():
    """The same for all: ("+", name, pods) and ("-", name, pods). At most NODES_AT_ONCE nodes are in use."""
    chance, live, made, used = random.Random(SEED), [], 0, 0
    while made < JOBS:
        pods = chance.choice(SIZES)
        while used + pods > NODES_AT_ONCE:
            gone = live.pop(chance.randrange(len(live)))
            used -= gone[1]
            yield ("-", *gone)
        live.append((f"j{made:02}", pods))
        made, used = made + 1, used + pods
        yield ("+", *live[-1])


def spread(leaves):
    return len({hall_of(leaf) for leaf in leaves}), len(set(leaves))


def fewest(free, pods):
    """Of the halls, and then of the leaves, that have room for the job: all nodes are alike."""
    def leaves_in(halls):
        left, used = pods, 0
        for room in sorted((room for leaf, room in free.items() if hall_of(leaf) in halls), reverse=True):
            used += left > 0
            left -= room
        return used if left <= 0 else None
    halls = sorted({hall_of(leaf) for leaf in free})
    one = [leaves for hall in halls if (leaves := leaves_in({hall}))]
    return (1, min(one)) if one else (len(halls), leaves_in(set(halls)))


class TierCases:
    def __init__(self, report, cluster, build):
        self.report, self.cluster, self.build = report, cluster, build
        self.hollow = Cabled(cluster, build, {leaf: EACH for leaf in range(1, HALLS * LEAVES + 1)})
        self.table = cluster.state / "network.csv"
        self.leaves = {}  # whose: {job: leaves of its pods}
        self.least = collections.defaultdict(dict)  # whose: {job: the fewest halls, and leaves of them, that had room}

    # steps

    def create(self, *items):
        self.cluster.kubectl("create", "--validate=false", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": list(items)})

    def apply(self, *items):
        self.cluster.kubectl(*APPLY, "--field-manager=test", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": list(items)})

    def pods(self, selector):
        return self.cluster.get("pods", "-n", "default", "-l", selector)["items"]

    def running(self, selector, count, seconds=90):
        def all_run():
            pods = self.pods(selector)
            phases = collections.Counter(pod["status"].get("phase") for pod in pods)
            return pods if phases == {"Running": count} else (False, [
                (dict(phases), one.get("message")) for pod in pods for one in pod["status"].get("conditions", []) if one["status"] == "False"][:3])
        return until(f"{count} pods of {selector} to run", all_run, seconds)

    def gone(self, kind, jobs, label):
        for one in jobs:
            self.cluster.kubectl("delete", kind, one, "-n", "default", "--wait", "--cascade=foreground")
            until(f"the pods of {one} to go", lambda one=one: not self.pods(f"{label}={one}"))

    def gated(self, title, pods, **annotations):
        template = pod_template(8, group=8, schedulingGates=[{"name": GATE}])
        template["metadata"]["annotations"].update(annotations)
        return job(title, pods, template)

    def play(self, whose, make):
        """All arrivals, one after the other."""
        found, live = {}, set()
        free = collections.Counter({leaf: EACH for leaf in range(1, HALLS * LEAVES + 1)})
        try:
            for what, title, pods in arrivals():
                if what == "-":
                    self.gone("job", [title], "job-name")
                    live.discard(title)
                    free.update(found[title])
                    continue
                live.add(title)
                self.create(make(title, pods))
                found[title] = sorted(leaf_of(pod["spec"]["nodeName"]) for pod in self.running(f"job-name={title}", pods))
                self.least[whose][title] = fewest(free, pods)
                free.subtract(found[title])
        finally:
            self.gone("job", sorted(live), "job-name")
        self.leaves[whose] = found

    def told(self, whose):
        """Leaves of all jobs, jobs in both halls, and jobs in more leaves or halls than had to be."""
        found = self.leaves[whose]
        return (sum(len(set(on)) for on in found.values()), sum(spread(on)[0] > 1 for on in found.values()),
                sum(spread(on) > self.least[whose][title] for title, on in found.items()))

    def domains(self):
        return {item["metadata"]["name"]: (item["status"].get("tier"), item["status"].get("parent", "")) for item in self.cluster.get("supernodes")["items"]
                if item.get("status")}

    def expect_domains(self, **moved):
        want = {f"hall-{hall}": (3, "") for hall in range(1, HALLS + 1)}
        want.update({switch(leaf): (2, hall_of(leaf)) for leaf in range(1, HALLS * LEAVES + 1)})
        want.update({node: (1, moved.get(node, switch(leaf_of(node)))) for node in self.hollow.names})

        def there():
            now = self.domains()
            return now == want or (False, sorted(set(now.items()) ^ set(want.items()))[:6])
        until("the tiers that cables and table make", there, 120)

    # cases

    @quick
    def begin(self):
        cluster = self.cluster
        cluster.kubectl("apply", "--server-side", "-k", install.DAEMONSET / "crds")
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=290s", "crd", "nodegputopologies.topology.metax-tech.com",
                        "supernodes.topology.metax-tech.com", "gpuplacements.topology.metax-tech.com")
        for file in ("namespace", "rbac"):
            cluster.kubectl("apply", "--server-side", "-f", install.DAEMONSET / "base" / f"{file}.yaml")
        self.table.write_text("node,leaf,hall\n" + "".join(f"none-{leaf},{switch(leaf)},{hall_of(leaf)}\n" for leaf in range(1, HALLS * LEAVES + 1)))
        self.hollow.start()
        Program(cluster, "companion", self.build / "bin" / "gputopo-scheduler", f"--kubeconfig={cluster.state}/admin.kubeconfig",
                "--patience=86400", "--supernodes-config=none", f"--network={self.table}").start()
        self.expect_domains()
        return f"{len(self.hollow.names)} nodes in {HALLS * LEAVES} leaves by LLDP, {HALLS} halls by a table"

    @quick
    def ours(self):
        self.play("ours", self.gated)
        leaves, torn, more = self.told("ours")
        if more:
            raise Failed(f"{more} jobs are in more halls or leaves than had to be: {self.leaves['ours']}, at least {dict(self.least['ours'])}")
        return f"{JOBS} jobs in {leaves} leaves, {torn} in both halls, none in more than had to be"

    @quick
    def cables(self):
        """Two nodes of leaf 1 come to leaf 2, one of them with a job. Names and later plans change, the pod does not."""
        moved = (name(1, 0), name(1, 1))
        lasting = self.gated("lasting", 1)
        lasting["spec"]["template"]["spec"]["nodeSelector"][HOSTNAME] = moved[1]
        self.create(lasting)
        before, = self.running("job-name=lasting", 1)
        wide = self.gated("wide", 5, **{TOPOLOGY: "required=leaf"})
        self.create(wide)
        try:
            until("the job to say that no leaf holds it", lambda: any(
                one.get("reason") == "NoDomain" for pod in self.pods("job-name=wide") for one in pod["status"].get("conditions", [])))
            for node in moved:
                self.hollow.cable(node, switch(2))
            self.expect_domains(**{node: switch(2) for node in moved})
            on = {pod["spec"]["nodeName"] for pod in self.running("job-name=wide", 5)}
            same(on, {moved[0], *(name(2, number) for number in range(EACH))}, "the nodes of the job that needs five of a leaf")
            after, = self.pods("job-name=lasting")
            same([(pod["metadata"]["uid"], pod["spec"]["nodeName"], pod["metadata"]["annotations"], pod["status"]["startTime"]) for pod in (after,)],
                 [(pod["metadata"]["uid"], pod["spec"]["nodeName"], pod["metadata"]["annotations"], pod["status"]["startTime"]) for pod in (before,)],
                 "the pod that ran meanwhile")
        finally:
            self.gone("job", ["wide", "lasting"], "job-name")
            for node in moved:
                self.hollow.cable(node, switch(1))
        self.expect_domains()

    def kueues(self, kueue):
        """Topology-aware scheduling with the same levels, the leaf preferred."""
        kueue.start()
        try:
            self.apply(*({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": {
                "tiers/leaf": switch(leaf_of(node)), "tiers/hall": hall_of(leaf_of(node))}}} for node in self.hollow.names))
            for kind, title, spec in (
                    ("Topology", "tiers", {"levels": [{"nodeLabel": key} for key in ("tiers/hall", "tiers/leaf", HOSTNAME)]}),
                    ("ResourceFlavor", "hollow", {"nodeLabels": {"pool": "hollow"}, "topologyName": "tiers"}),
                    ("ClusterQueue", "gpus", {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["metax-tech.com/gpu"], "flavors": [
                        {"name": "hollow", "resources": [{"name": "metax-tech.com/gpu", "nominalQuota": "320"}]}]}]})):
                self.apply({"apiVersion": KUEUE_API, "kind": kind, "metadata": {"name": title}, "spec": spec})
            self.apply({"apiVersion": KUEUE_API, "kind": "LocalQueue", "metadata": {"name": "queue", "namespace": "default"}, "spec": {"clusterQueue": "gpus"}})

            def queued(title, pods):
                template = pod_template(8)
                template["metadata"]["annotations"][PREFERRED] = "tiers/leaf"
                made = job(title, pods, template)
                made["metadata"]["labels"] = {QUEUE: "queue"}
                return made
            self.play("kueue", queued)
        finally:
            kueue.stop()
        ours, theirs = self.told("ours"), self.told("kueue")
        self.report.say("     job, pods: leaves of ours | of Kueue's")
        for title, on in self.leaves["ours"].items():
            self.report.say(f"     {title}, {len(on)}: {' '.join(map(str, on))} | {' '.join(map(str, self.leaves['kueue'][title]))}")
        if ours[2] > theirs[2]:  # the sums also tell of the choices before, by which each has other nodes free
            raise Failed(f"leaves, jobs in both halls, jobs in more than had to be: ours {ours}, Kueue's {theirs}")
        return f"leaves {ours[0]}, Kueue {theirs[0]}; jobs in both halls {ours[1]}, {theirs[1]}; in more than had to be {ours[2]}, {theirs[2]}"

    def volcanos(self, volcano):
        """Jobs of 8 pods, half the nodes of a hall, that say nothing: with `closeness.weight` each has the two leaves that it needs, or one more."""
        text = volcano.with_plugins()
        if text.count("loss.weight: 0.5") != 1:
            raise Failed("the configuration has another loss.weight")
        volcano.start(text.replace("loss.weight: 0.5", "loss.weight: 0.5, closeness.weight: 1"))
        names = [f"plain-{number}" for number in range(4)]
        found = {}
        try:
            for title in names:
                self.create(vcjob(title, task("worker", 8, pod_template(8)), minAvailable=8))
                found[title] = sorted(leaf_of(pod["spec"]["nodeName"]) for pod in self.running(f"volcano.sh/job-name={title}", 8, 150))
        finally:
            self.gone("jobs.batch.volcano.sh", list(found), "volcano.sh/job-name")
            volcano.stop()
        if any(len(set(on)) > 3 or len({hall_of(leaf) for leaf in on}) > 1 for on in found.values()):
            raise Failed(f"leaves of the pods: {found}")
        return ", ".join(f"{title}: {len(set(on))} leaves" for title, on in found.items())

    def run(self, kueue, volcano):
        """`kueue`: the directory of its programs, `volcano`: that and our scheduler; None: they have not been built."""
        case, skip = self.report.case, self.report.skip
        if not case("tiers: 40 nodes whose agents tell of their leaves", self.begin):
            return
        ours = case(f"tiers: {JOBS} jobs come and go, each in the fewest halls and leaves", self.ours)
        case("tiers: cables change while a job runs", self.cables)
        title = "tiers: Kueue's plans of the same jobs, side by side: not more of ours are in more leaves than had to be"
        if kueue and ours:
            case(title, lambda: self.kueues(Kueue(self.cluster, kueue)))
        elif ours:
            skip(title, "tests/e2e/build kueue-0.19 has not been run")
        title = "tiers: jobs without annotations lie close with Volcano's plugins"
        if volcano:
            case(title, lambda: self.volcanos(Volcano(types.SimpleNamespace(cluster=self.cluster), *volcano)))
        else:
            skip(title, "tests/e2e/build volcano vc-scheduler has not been run")


class Cabled(HollowNodes):
    """Nodes whose RDMA ports are all at one switch."""

    @staticmethod
    def machine(recorded, node):
        return Cabled.cabled(HollowNodes.machine(recorded, node), switch(leaf_of(node)))

    @staticmethod
    def cabled(machine, to):
        return {**machine, "network": [{"port": nic["name"], "switch": to, "switchPort": f"Eth{at}"} for at, nic in enumerate(machine["nics"])]}

    def cable(self, node, to):
        """As where the node's LLDP file has changed, until its agent has published it."""
        self.write(node, self.cabled(json.loads((self.directory / f"{node}.json").read_text()), to))
        self.cluster.ask("control", "kill", "-HUP", (self.directory / f"{node}.pid").read_text().strip())
        until(f"the agent of {node} to tell of its switch", lambda: {
            one["switch"] for one in self.cluster.get("ngt", node)["status"].get("network", [])} == {to})
