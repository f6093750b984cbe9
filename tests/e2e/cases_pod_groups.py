# SPDX-License-Identifier: Apache-2.0
"""Pods whose owner is not here: of Kubernetes' own PodGroup, whose API is on, so that kube-scheduler binds each gang as a whole; and those
that say themselves which job they form, as scripts and syncers of virtual clusters write them."""
from harness.placed import job, pod_template
from harness.waiting import same, until

API = "scheduling.k8s.io/v1beta1"
GROUPS = "podgroups.scheduling.k8s.io"
RUN = "run"  # the label of the pods of a case
RACK = {"rack": "4"}  # eight nodes of 8 GPUs: two units of 32


class PodGroupCases:
    def __init__(self, placed, report):
        self.placed, self.cluster, self.report = placed, placed.cluster, report

    # steps

    def group(self, name, policy):
        self.placed.create({"apiVersion": API, "kind": "PodGroup", "metadata": {"name": name, "namespace": "default"},
                            "spec": {"schedulingPolicy": policy}})

    def gang(self, name, count):
        self.group(name, {"gang": {"minCount": count}})

    def pods(self, name, numbers, **spec):
        """As a script makes them: without an owner, and without any label or annotation that tells a rank."""
        for number in numbers:
            template = pod_template(8, group=32, labels={RUN: name}, schedulingGroup={"podGroupName": name}, **spec)
            template["metadata"].update(name=f"{name}-{number}", namespace="default")
            self.placed.create({"apiVersion": "v1", "kind": "Pod", **template})

    def check(self, name, count=8):
        pods = self.placed.bound(f"{RUN}={name}", count)
        racks = self.placed.check_placed(pods, 32)
        same([pod["metadata"]["name"] for pod in pods], [f"{name}-{at}" for at in range(count)], "the pods in the order of ranks")
        return pods, f"units in racks {', '.join(racks)}"

    def scheduled(self, name):
        """What kube-scheduler itself says of the PodGroup."""
        def told():
            conditions = self.cluster.get(GROUPS, name).get("status", {}).get("conditions", [])
            return any((one["type"], one["status"]) == ("PodGroupInitiallyScheduled", "True") for one in conditions) or (False, conditions)
        until(f"kube-scheduler to say that {name} is scheduled", told)

    def nodes(self, name):
        return {pod: one["spec"]["nodeName"] for pod, one in self.placed.pods(f"{RUN}={name}").items() if one["spec"].get("nodeName")}

    def clean(self):
        self.placed.clean()
        self.cluster.kubectl("delete", GROUPS, "--all", "--wait")

    # cases

    def served(self):
        """The pods keep their group, so the feature is on; the companion reads this API."""
        same("podgroups.scheduling.k8s.io" in self.cluster.kubectl("api-resources", "-o", "name").split(), True, "PodGroups are served")

    def taken_whole(self):
        """What kube-scheduler does, and what our plans build on: it takes no pod of a PodGroup while another one has a gate."""
        self.gang("g", 1)
        for name, more in (("held", {"schedulingGates": [{"name": "example.com/held"}]}), ("free", {})):
            template = pod_template(0, labels={RUN: "g"}, schedulingGroup={"podGroupName": "g"}, **more)
            template["metadata"].update(name=name, namespace="default")
            self.placed.create({"apiVersion": "v1", "kind": "Pod", **template})
        self.placed.create(job("other", 1, pod_template(0)))
        self.placed.bound("job-name=other", 1)  # which came later
        same(self.nodes("g"), {}, "pods of the PodGroup that are bound")
        self.cluster.kubectl("patch", "pod", "held", "--type=merge", "-p", '{"spec": {"schedulingGates": []}}')
        self.placed.bound(f"{RUN}=g", 2)

    def whole(self):
        """Pods that come one by one wait for the gang; then all are planned, and bound in one go."""
        self.gang("a", 8)
        self.pods("a", range(7))
        said = self.placed.waits(f"{RUN}=a", "PodsMissing", "7 of its pods are there, its PodGroup needs 8")
        self.placed.untouched(self.placed.pods(f"{RUN}=a"))
        self.pods("a", [7])
        _, told = self.check("a")
        self.scheduled("a")
        same(self.placed.placement("pods-a")["phase"], "Placed", "its phase")
        return f"{said}; then {told}"

    def successor(self):
        """A pod ends and is made again under its name: back in its unit, with its rank; the others stay."""
        self.gang("a", 8)
        self.pods("a", range(8))
        before, _ = self.check("a")
        lost = before[5]["metadata"]
        self.cluster.kubectl("delete", "pod", lost["name"], "--wait")
        self.pods("a", [5])
        after, told = self.check("a")
        stay = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in before if pod["metadata"]["uid"] != lost["uid"]}
        same({pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in after if pod["metadata"]["name"] != lost["name"]}, stay, "where the others run")
        return told

    def waits_for_room(self):
        """A rack with room for one unit: nothing of a gang of two begins, and it holds no place of another job."""
        self.placed.create(job("holder", 4, pod_template(8, group=32, nodeSelector=RACK)))
        self.placed.check_placed(self.placed.bound("job-name=holder", 4), 32)
        self.gang("b", 8)
        self.pods("b", range(8), nodeSelector=RACK)
        said = self.placed.waits(f"{RUN}=b", "TooFewGPUs")
        self.placed.untouched(self.placed.pods(f"{RUN}=b"))
        self.placed.create(job("other", 4, pod_template(8, group=32, nodeSelector=RACK)))
        self.placed.check_placed(self.placed.bound("job-name=other", 4), 32)
        self.cluster.kubectl("delete", "job", "holder", "other", "--wait", "--cascade=foreground")
        self.check("b")
        self.scheduled("b")
        return said

    def no_part(self):
        """`minCount` 4 of 8, and room for one unit: kube-scheduler would take none of them, so none is planned."""
        self.placed.create(job("holder", 4, pod_template(8, group=32, nodeSelector=RACK)))
        self.placed.check_placed(self.placed.bound("job-name=holder", 4), 32)
        self.gang("c", 4)
        self.pods("c", range(8), nodeSelector=RACK)
        said = self.placed.waits(f"{RUN}=c", "TooFewGPUs")
        self.placed.untouched(self.placed.pods(f"{RUN}=c"))
        self.cluster.kubectl("delete", "job", "holder", "--wait", "--cascade=foreground")
        self.check("c")
        return said

    def grows(self):
        """Four more pods come while its first ones run."""
        self.gang("f", 4)
        self.pods("f", range(4))
        before, _ = self.check("f", 4)
        self.scheduled("f")
        self.pods("f", range(4, 8))
        after, told = self.check("f")
        same([pod["spec"]["nodeName"] for pod in after[:4]], [pod["spec"]["nodeName"] for pod in before], "where the first ones run")
        return told

    def basic(self):
        """A PodGroup without a gang: planned when no more pods come."""
        self.group("d", {"basic": {}})
        self.pods("d", range(8))
        return self.check("d")[1]

    def refused(self):
        """Seven pods of the gang's seven are no whole units."""
        self.gang("e", 7)
        self.pods("e", range(7))
        said = self.placed.waits(f"{RUN}=e", "RuleBroken", "56 GPUs are not a multiple of gpu-group-size 32")
        self.placed.untouched(self.placed.pods(f"{RUN}=e"))
        return said

    def say(self, annotations, labels, owner=False):
        """Eight pods, the last rank first, whose names tell none but by their number; `annotations`: of a rank."""
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "virtual", "namespace": "default"}, "spec": {"clusterIP": "None"}}
        uid = self.placed.create(service)["metadata"]["uid"] if owner else None
        try:
            for number in reversed(range(8)):
                template = pod_template(8, group=32, labels=labels)
                template["metadata"].update(name=f"run-{number}-x-team-x-virtual", namespace="default", ownerReferences=[
                    {"apiVersion": "v1", "kind": "Service", "name": "virtual", "uid": uid}] if owner else [])
                template["metadata"]["annotations"].update(annotations(number))
                self.placed.create({"apiVersion": "v1", "kind": "Pod", **template})
            pods = self.placed.bound(",".join("=".join(pair) for pair in labels.items()), 8)
            racks = self.placed.check_placed(pods, 32)
            return [pod["metadata"]["name"].split("-")[1] for pod in pods], f"units in racks {', '.join(racks)}"
        finally:
            self.placed.clean()
            if owner:
                self.cluster.kubectl("delete", "service", "virtual")

    def synced(self):
        """Of a Volcano Job in a virtual cluster: a Service owns the pods, their labels are others, their annotations are kept."""
        ranks, told = self.say(lambda number: {
            "volcano.sh/job-name": "a", "volcano.sh/task-spec": "worker", "volcano.sh/task-index": str(number),
            "scheduling.k8s.io/group-name": "a-uid-a"}, {"vcluster.loft.sh/managed-by": "virtual"}, owner=True)
        same(ranks, [str(number) for number in range(8)], "the pods in the order of ranks")
        return told

    def by_annotations(self):
        """The ranks that the pods say, against their names."""
        ranks, told = self.say(lambda number: {
            "metax-tech.com/job-name": "run", "metax-tech.com/job-pods": "8", "metax-tech.com/rank": str(7 - number)}, {RUN: "script"})
        same(ranks, [str(7 - number) for number in range(8)], "the pods in the order of ranks")
        return told

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.clean)
        if case("Kubernetes serves PodGroups of its own", self.served):
            case("kube-scheduler takes no pod of a PodGroup while another one has a gate", self.taken_whole)
            case("a PodGroup's eight bare pods, units of 32: they wait for the gang, then run", self.whole)
            case("a pod of it is made again and comes back to its unit", self.successor)
            case("a PodGroup without room for its gang holds nothing, and runs when there is room", self.waits_for_room)
            case("a PodGroup that may begin with a part of its pods begins with all that are there", self.no_part)
            case("a PodGroup grows", self.grows)
            case("a PodGroup without a gang", self.basic)
            case("a PodGroup whose pods are no whole units", self.refused)
            case("pods of a Volcano Job as a virtual cluster's syncer makes them", self.synced)
            case("a script's pods that say their job and their ranks", self.by_annotations)
        self.clean()
