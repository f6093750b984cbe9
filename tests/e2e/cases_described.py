# SPDX-License-Identifier: Apache-2.0
"""A kind of job that only the chart's values describe, as docs/how-to/describe-a-kind.md does; the case is its controller."""
import re

from harness.install import DAEMONSET
from harness.placed import annotation, job, pod_template, rank
from harness.report import quick
from harness.waiting import Failed, same, until

PAGE = DAEMONSET.parent / "docs/how-to/describe-a-kind.md"
NAME = "example.com/training"
GROUPS = {"b": 4, "a": 3}  # in the order of the object
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "trainings.example.com"},
    "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Training", "plural": "trainings"}, "versions": [
        {"name": "v1", "served": True, "storage": True,
         "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


class DescribedCases:
    """Of a release that is installed with placement, on nodes 1 and 2, which each have four free GPUs."""

    def __init__(self, chart):
        self.chart, self.cluster = chart, chart.cluster

    @staticmethod
    def template(role):
        made = pod_template(1, group=4, labels={NAME: "demo", "example.com/role": role})
        del made["spec"]["nodeSelector"]
        return made

    def training(self, groups):
        return {"apiVersion": "example.com/v1", "kind": "Training", "metadata": {"name": "demo", "namespace": "default"}, "spec": {
            "driver": {"template": self.template("driver")},
            "groups": [{"name": name, "size": size, "template": self.template(name)} for name, size in groups.items()]}}

    def make(self, training, role, pods):
        made = job(f"demo-{role}", pods, self.template(role))
        made["metadata"].update(labels={NAME: "demo"}, ownerReferences=[{
            "apiVersion": "example.com/v1", "kind": "Training", "name": "demo", "uid": training["metadata"]["uid"], "controller": True}])
        self.cluster.kubectl("create", "-f", "-", data=made)

    def pods(self):
        return self.cluster.get("pods", "-l", f"{NAME}=demo")["items"]

    def refused(self):
        try:
            self.cluster.kubectl("create", "--dry-run=server", "-f", "-", data=self.training({**GROUPS, "a": 4}))
        except Failed as refusal:
            if "9 GPUs are not a multiple of gpu-group-size 4" not in str(refusal):
                raise
            return True
        return False, "it was admitted"

    @quick
    def described(self):
        """One whose units do not divide is refused at creation; another is planned with its first pods, in the order of its object."""
        self.cluster.kubectl("create", "-f", "-", data=DEFINITION)
        values = self.cluster.state / "kinds.yaml"
        values.write_text(re.search(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.M | re.S)[1])
        self.chart.release("upgrade", more=("--values", values))
        until("a Training that breaks a rule to be refused", self.refused, 60)
        self.cluster.kubectl("create", "-f", "-", data=self.training(GROUPS))
        training = self.cluster.get("training", "demo")
        try:
            self.make(training, "a", GROUPS["a"])

            until("its first three pods to be planned, at the end of the ranks", lambda: sorted(map(rank, self.pods())) == [5, 6, 7] or (
                False, [(rank(pod), pod["status"].get("conditions")) for pod in self.pods()]))
            self.make(training, "driver", 1)
            self.make(training, "b", GROUPS["b"])

            def running():
                pods = self.pods()
                return [pod["status"]["phase"] for pod in pods] == ["Running"] * 8 and pods or (
                    False, [(pod["metadata"]["name"], pod["status"]["phase"], pod["status"].get("conditions")) for pod in pods])
            pods = sorted(until("its pods to run", running), key=rank)
            roles = [pod["metadata"]["labels"]["example.com/role"] for pod in pods]
            same(roles, ["driver", *(name for name, size in GROUPS.items() for _ in range(size))], "roles in the order of ranks")
            indices = [pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for pod in pods]
            same(indices, ["0", *(str(at) for size in GROUPS.values() for at in range(size))], "indexes in the order of ranks")
            nodes = [{pod["spec"]["nodeName"] for pod in pods[first:first + 4]} for first in (0, 4)]
            same([len(on) for on in nodes], [1, 1], "nodes of a unit")
            same([annotation(pod, "node") for pod in pods], [pod["spec"]["nodeName"] for pod in pods], "the nodes that were planned")
            return f"units on {', '.join(name for on in nodes for name in on)}"
        finally:
            self.cluster.kubectl("delete", "jobs", "-l", f"{NAME}=demo", "--wait", "--cascade=foreground")
            self.cluster.kubectl("delete", "crd", "trainings.example.com")
