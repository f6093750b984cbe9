# SPDX-License-Identifier: Apache-2.0
"""JobSets and LeaderWorkerSets of their own controllers, placed by the plugins in Volcano's scheduler. Volcano's controller makes a
PodGroup for each Job and each StatefulSet of theirs."""
from harness.waiting import same, until

from cases_kinds import GROUP, KindCases

RACKS = 5  # of eight whole nodes without kubelets


class VolcanoKindCases:
    def __init__(self, placed, volcano, controllers, report):
        self.placed, self.volcano, self.cluster, self.controllers, self.report = placed, volcano, placed.cluster, controllers, report
        self.kinds = KindCases(placed, controllers, report)

    # steps

    def jobset(self, name, **more):
        """Two Jobs of two pods; the size stands on the set, so that its unit has the pods of both."""
        made = self.kinds.jobset()
        made["metadata"] = {"name": name, "annotations": {GROUP: "32"}}
        [node] = made["spec"]["replicatedJobs"]
        node["template"]["spec"].update(parallelism=2, completions=2)
        template = node["template"]["spec"]["template"]
        template["metadata"]["annotations"] = more
        template["spec"]["schedulerName"] = "volcano"
        return made

    def placed_whole(self, name):
        """The rack of its unit, whose pods are in the order of the Jobs."""
        pods = self.placed.bound(self.kinds.of(name), 4)
        [rack] = self.placed.check_placed(pods, 32)
        same([pod["metadata"]["name"].rsplit("-", 1)[0] for pod in pods], [f"{name}-node-{at // 2}-{at % 2}" for at in range(4)],
             "pods in the order of ranks")
        return rack

    def podgroups(self):
        return self.cluster.get("podgroups.scheduling.volcano.sh", "-n", "default")["items"]

    # cases

    def begin(self):
        for controller in self.controllers:
            controller.start()
        self.volcano.reload(self.volcano.manual("manual-gpu-podaffinity.yaml"))

    def jobsets(self):
        """As many at once as there is room for: each unit is whole though its two PodGroups come one after the other."""
        names = [f"set-{number}" for number in range(2 * RACKS)]
        self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": [self.jobset(name) for name in names]})
        racks = sorted(self.placed_whole(name) for name in names)
        same([group["spec"]["minMember"] for group in self.podgroups()], [1] * len(names) * 2, "minima of the PodGroups")
        return f"in racks {', '.join(racks)}"

    def one_pod_group(self):
        """With a PodGroup of its own a JobSet is one gang for its queue, too: nothing of the second one runs in what the first has left."""
        self.placed.apply({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "small"},
                           "spec": {"weight": 1, "capability": {"metax-tech.com/gpu": "48"}}})
        for name in ("gang-0", "gang-1"):
            self.placed.create({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name, "namespace": "default"},
                                "spec": {"minMember": 4, "queue": "small"}})
            self.placed.create(self.jobset(name, **{"scheduling.k8s.io/group-name": name}))
        def first():
            on = [name for name in ("gang-0", "gang-1") if any(pod["spec"].get("nodeName") for pod in self.placed.pods(self.kinds.of(name)).values())]
            return on or (False, self.placed.summary(self.placed.pods()))
        [name] = until("one of them to begin", first)
        rack = self.placed_whole(name)
        other = {"gang-0": "gang-1", "gang-1": "gang-0"}[name]
        self.volcano.rounds(3)
        self.placed.untouched(self.placed.pods(self.kinds.of(other)))
        self.cluster.kubectl("delete", "jobset", name, "--wait", "--cascade=foreground")
        then = self.placed_whole(other)
        self.cluster.kubectl("delete", "podgroups.scheduling.volcano.sh", "--all", "-n", "default")
        return f"in rack {rack}, then in {then}"

    def groups(self):
        """As many groups as there is room for: the leaders come first and are of one PodGroup, the workers' places are kept."""
        made = self.kinds.workers(2 * RACKS)
        made["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["schedulerName"] = "volcano"
        self.placed.create(made)
        racks = sorted(self.kinds.group(index)[1] for index in range(2 * RACKS))
        same(len(self.podgroups()), 1 + 2 * RACKS, "PodGroups")
        return f"in racks {', '.join(racks)}"

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        if case("the controllers of JobSet 0.10.1 and LeaderWorkerSet 0.7.0 run beside Volcano", self.begin):
            case("JobSets whose units have pods of two Jobs", self.jobsets)
            case("JobSets with PodGroups of their own in a full queue", self.one_pod_group)
            case("a LeaderWorkerSet of ten groups", self.groups)
        self.placed.clean()
