# SPDX-License-Identifier: Apache-2.0
"""Hundreds of jobs with rules that a scheduler checks, over small random clusters. No plan is refused, every job that is planned runs, and
for each that waits, brute force finds no place either."""
import collections
import os
import time
import types

from harness import install
from harness.hollow import APPLY, HollowNodes
from harness.placed import ATOMIC_SIZE, GROUP_SIZE, gpus_of
from harness.ruled import CLASS, JOB_NAME, OVERHEAD, RANK, SPECIAL, SUPERNODE, WORLD, small_clusters
from harness.rules import Job, World, is_planned
from harness.schedulers import Program, Volcano
from harness.waiting import Failed, same, until

SEED = int(os.environ.get("GPUTOPO_SEED", 1))
JOBS = int(os.environ.get("GPUTOPO_RULES_JOBS", 500))
CLUSTERS, AT_ONCE = 40, 5  # small clusters, jobs of one in a round
REST, LIMIT = 6, 300  # seconds without a change; for a round
UNSCHEDULABLE = 30  # seconds; then a plan counts as refused
REFUSED = "PlanRefused"


class RuleCases:
    scheduler, spaces_by_labels = "default-scheduler", True
    at_once = False  # Volcano allocates pods in the order of ranks, and tries none again

    def __init__(self, report, cluster, build):
        self.report, self.cluster, self.build = report, cluster, build
        self.worlds = small_clusters(CLUSTERS, SEED, self.spaces_by_labels)
        self.hollow = HollowNodes(cluster, build, {world.at: len(world.names) for world in self.worlds})
        self.counts, self.rules, self.reasons, self.hang = (collections.Counter() for _ in range(4))
        self.kept, self.tried = None, 0  # kept: of a round, what keeps jobs from a place

    # beginning

    def apply(self, items, *more):
        self.cluster.kubectl(*APPLY, "--field-manager=test", *more, "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": items})

    def begin(self):
        cluster = self.cluster
        cluster.kubectl("apply", "--server-side", "-k", install.DAEMONSET / "crds")
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=290s", "crd", "nodegputopologies.topology.metax-tech.com",
                        "supernodes.topology.metax-tech.com", "gpuplacements.topology.metax-tech.com")
        for file in ("namespace", "rbac"):
            cluster.kubectl("apply", "--server-side", "-f", install.DAEMONSET / "base" / f"{file}.yaml")
        self.hollow.start()
        self.apply([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": node["name"], "labels": node["labels"]}, "spec": {"taints": node["taints"]}}
                    for world in self.worlds for node in world.nodes])
        for cpus in sorted({node["cpus"] for world in self.worlds for node in world.nodes}):
            status = self.hollow.status()
            status["allocatable"] = status["capacity"] = {**status["capacity"], "cpu": str(cpus)}
            self.apply([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": node["name"]}, "status": status}
                        for world in self.worlds for node in world.nodes if node["cpus"] == cpus], "--subresource=status")
        self.apply([*(space for world in self.worlds for space in world.namespaces()),
                    {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": CLASS}, "handler": CLASS, "overhead": {
                        "podFixed": {"cpu": str(OVERHEAD)}}, "scheduling": {"tolerations": [{"key": SPECIAL, "value": "y"}]}}])
        self.start_companion()
        want = {node["labels"][SUPERNODE]: 0 for world in self.worlds for node in world.nodes}
        for world in self.worlds:
            for node in world.nodes:
                want[node["labels"][SUPERNODE]] += 8

        def complete():
            told = {item["metadata"]["name"]: item.get("status", {}).get("capacity") for item in self.cluster.get("supernodes")["items"]}
            return told == want or (False, {name: told.get(name) for name in want if told.get(name) != want[name]})
        until("every supernode to be complete", complete)
        return f"{CLUSTERS} clusters, {len(self.hollow.names)} nodes"

    def start_companion(self):
        Program(self.cluster, "companion", self.build / "bin" / "gputopo-scheduler", f"--kubeconfig={self.cluster.state}/admin.kubeconfig",
                "--patience=86400", f"--unschedulable={UNSCHEDULABLE}", "--supernodes-config=none").start()

    # a round

    def submit(self, number):
        """The pods of all jobs: {job: its rules}."""
        blockers, needed, pods, jobs = [], [], [], {}
        for world in self.worlds:
            blockers += world.blockers(number)
            for at in range(min(AT_ONCE, JOBS - len(self.rules_of) - len(jobs))):
                name = f"j{world.at}-{number}-{at}"
                made, more, jobs[name] = world.job(name)
                pods += made
                needed += more
        for pod in pods:
            pod["spec"]["schedulerName"] = self.scheduler
        self.create(needed)
        self.create(blockers)
        self.create_jobs(pods)
        return jobs

    def create(self, items):
        if items:
            self.cluster.kubectl("create", "--validate=false", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": items})

    def create_jobs(self, pods):
        self.create(pods)

    def jobs(self):
        """{name: its pods, by rank}"""
        found = {}
        for pod in self.cluster.get("pods", "-A", "-l", "job")["items"]:
            found.setdefault(pod["metadata"]["labels"]["job"], []).append(pod)
        return {name: sorted(pods, key=lambda pod: int(pod["metadata"]["annotations"][RANK])) for name, pods in found.items()}

    @staticmethod
    def runs(pods):
        return all(pod["status"].get("phase") == "Running" for pod in pods)

    def at_rest(self):
        """All jobs, once nothing has changed for a while: each runs, or nothing of it is planned."""
        last, since, end = None, 0, time.monotonic() + LIMIT
        while True:
            jobs, now = self.jobs(), time.monotonic()
            standing = {pod["metadata"]["uid"]: (pod["spec"].get("nodeName"), pod["status"].get("phase"), is_planned(pod))
                        for pods in jobs.values() for pod in pods}
            last, since = standing, since if standing == last else now
            half = [name for name, pods in jobs.items() if not self.runs(pods) and any(is_planned(pod) or pod["spec"].get("nodeName") for pod in pods)]
            if now - since > REST and not half:
                return jobs
            if now > end:
                raise Failed(f"no rest; not whole: {[(name, self.told(jobs[name])) for name in half[:5]]}")
            time.sleep(1)

    @staticmethod
    def told(pods):
        """Why it waits, and what the scheduler says of its pods."""
        conditions = [one for pod in pods for one in pod["status"].get("conditions", []) if one["status"] == "False"]
        return sorted({f"{one['type']} {one.get('reason')}: {one.get('message', '')}" for one in conditions
                       if one["type"] in ("GPUPlacement", "PodScheduled") and one.get("reason") != "SchedulingGated"})

    @staticmethod
    def reason(pods):
        return next((one["reason"] for pod in pods for one in pod["status"].get("conditions", []) if one["type"] == "GPUPlacement"), "nothing said")

    def objects(self, kind, *more):
        return self.cluster.get(kind, *more)["items"]

    def pictures(self):
        """{number: World}, with the pods that are on its nodes."""
        def by_name(items):
            return {item["metadata"]["name"]: item for item in items}
        nodes, namespaces, volumes = (by_name(self.objects(kind)) for kind in ("nodes", "namespaces", "persistentvolumes"))
        claims = {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in self.objects("persistentvolumeclaims", "-A")}
        pods, found = self.objects("pods", "-A"), {}
        for world in self.worlds:
            found[world.at] = World({name: nodes[name] for name in world.names}, nodes, namespaces, claims, volumes, SUPERNODE)
        for pod in pods:
            on = nodes.get(pod["spec"].get("nodeName"))
            at = on and on["metadata"]["labels"].get(WORLD)
            if at is not None and pod["status"].get("phase") in ("Pending", "Running"):
                found[int(at)].there.append((pod, on["metadata"]["name"]))
        return found

    def placeable(self, jobs):
        """Jobs that wait although brute force finds a place: {job: nodes}."""
        pictures, found, self.kept = self.pictures(), {}, collections.Counter()
        for name, pods in jobs.items():
            if not self.runs(pods):
                job = Job(pictures[int(pods[0]["metadata"]["labels"][WORLD])], pods)
                if place := job.placement(at_once=self.at_once):
                    found[name] = place
                elif job.placement(by_rank=True):
                    self.kept["the order in which pods are bound"] += 1
                elif job.placement(False):
                    self.kept["a plan that names a node"] += 1
                self.tried += job.tried
        return found

    def check_units(self, jobs):
        """Those that run lie as they should, whoever bound them."""
        supers = {node["name"]: node["labels"][SUPERNODE] for world in self.worlds for node in world.nodes}
        used = collections.Counter()
        for pods in jobs.values():
            if self.runs(pods):
                annotations = pods[0]["metadata"]["annotations"]
                size = int(annotations.get(ATOMIC_SIZE) or annotations[GROUP_SIZE]) // gpus_of(pods[0])
                for first in range(0, len(pods), size):
                    same(len({supers[pod["spec"]["nodeName"]] for pod in pods[first:first + size]}), 1, f"supernodes of a unit of {annotations[JOB_NAME]}")
        for pod in self.objects("pods", "-A"):
            if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Running":
                used[pod["spec"]["nodeName"]] += gpus_of(pod)
        same({node: count for node, count in used.items() if count > 8}, {}, "nodes with too many pods")

    def refused(self):
        """Events and conditions of plans that the scheduler refused, also of those that were then placed elsewhere."""
        notes = [item["note"] for item in self.objects("events.events.k8s.io", "-A") if item["reason"] in (REFUSED, "PlannedAgain")]
        return notes + [text for pods in self.jobs().values() for text in self.told(pods) if REFUSED in text]

    def round(self, number):
        asked = self.submit(number)
        self.rules_of.update(asked)
        jobs = self.at_rest()
        same(jobs.keys(), asked.keys(), "the jobs of the round")
        same(self.refused(), [], "plans that the scheduler has refused")
        self.check_units(jobs)
        missed = self.placeable(jobs)
        if missed:  # it may just have been told of what makes it fit
            time.sleep(REST)
            jobs = self.at_rest()
            missed = self.placeable(jobs)
        self.hang += self.kept
        for name, pods in jobs.items():
            self.counts["ran" if self.runs(pods) else "waited"] += 1
            self.rules.update(f"{rule} {'ran' if self.runs(pods) else 'waited'}" for rule in set(asked[name]))
            if not self.runs(pods):
                self.reasons[self.reason(pods)] += 1
        if missed:
            raise Failed("; ".join(f"{name} {sorted(set(asked[name]))} could be on {', '.join(nodes)}: {self.told(jobs[name])}"
                                   for name, nodes in sorted(missed.items())))

    def clear(self):
        for world in self.worlds:
            for space in world.spaces:
                for what in ("pods", "persistentvolumeclaims"):
                    self.cluster.kubectl("delete", "--raw", f"/api/v1/namespaces/{space}/{what}")
        self.cluster.kubectl("delete", "persistentvolumes", "--all", "--wait=false")

        def gone():
            free = all(item["status"].get("freeCount") == 8 for item in self.objects("ngt"))
            return free and not self.objects("pods", "-A") and not self.objects("persistentvolumes")
        until("everything of the round to be gone", gone)

    def bind(self):
        self.rules_of, number = {}, 0
        while len(self.rules_of) < JOBS:
            if number:
                self.clear()
            self.round(number)
            number += 1
        told = ", ".join(f"{count} {reason}" for reason, count in self.reasons.most_common())
        if min(self.counts["ran"], self.counts["waited"]) < JOBS // 5:
            raise Failed(f"too few to prove anything: {dict(self.counts)}")
        hang = ", ".join(f"{count} by {what}" for what, count in self.hang.items())
        return (f"{len(self.rules_of)} jobs in {number} rounds, seed {SEED}: {self.counts['ran']} ran, {self.counts['waited']} waited ({told}), 0 of these "
                f"had a place that is safe, of {self.tried} that were tried (kept from one: {hang or 'none'}), 0 plans were refused; by rule: "
                + ", ".join(f"{name} {count}" for name, count in sorted(self.rules.items())))

    def run(self):
        case = self.report.case
        if case("rules: small clusters of made nodes, and the companion", self.begin):
            case(f"rules: {JOBS} jobs are bound where they are planned, and who waits has no place", self.bind)


class VolcanoRuleCases(RuleCases):
    """Volcano's scheduler with our plugins: a PodGroup for each job, and no gates. Its process does not know labels of Namespaces."""
    scheduler, spaces_by_labels, at_once = "volcano", False, True

    def __init__(self, report, cluster, build, directory, program):
        super().__init__(report, cluster, build)
        self.volcano = Volcano(types.SimpleNamespace(cluster=cluster), directory, program)

    def start_companion(self):
        Program(self.cluster, "companion", self.build / "bin" / "gputopo-scheduler", f"--kubeconfig={self.cluster.state}/admin.kubeconfig",
                "--only=supernodes", "--supernodes-config=none").start()
        self.volcano.start(self.volcano.manual("manual-gpu-podaffinity.yaml"))

    def create_jobs(self, pods):
        sizes = collections.Counter((pod["metadata"]["namespace"], pod["metadata"]["labels"]["job"]) for pod in pods)
        self.create([{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name, "namespace": namespace},
                      "spec": {"minMember": count, "queue": "default"}} for (namespace, name), count in sizes.items()])
        for pod in pods:
            del pod["spec"]["schedulingGates"]
            pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = pod["metadata"]["labels"]["job"]
        self.create(pods)

    def at_rest(self):
        jobs = super().at_rest()
        self.volcano.rounds(2)
        return super().at_rest() if self.jobs() != jobs else jobs

    @staticmethod
    def reason(pods):
        return next((one["reason"] for pod in pods for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled"), "nothing said")

    def refused(self):
        """Pods of a job that were bound while others of it were not, as a refusal in the middle of a job would leave it, are no rest."""
        return [item["note"] for item in self.objects("events.events.k8s.io", "-A") if item["reason"] in ("FailedBinding", "FailedScheduling")
                and "bind" in item["note"]]

    def clear(self):
        for world in self.worlds:
            for space in world.spaces:
                self.cluster.kubectl("delete", "--raw", f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{space}/podgroups")
        super().clear()
