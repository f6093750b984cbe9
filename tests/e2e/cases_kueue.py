# SPDX-License-Identifier: Apache-2.0
"""Kueue: quota for jobs whose units a rack can take, preemption, and pods with its gate."""
from harness.placed import job, pod_template
from harness.report import quick
from harness.waiting import same, until

QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
GPU = "metax-tech.com/gpu"


class KueueCases:
    def __init__(self, placed, kueue, report, version):
        """`version`: that of the API in which its objects are written here."""
        self.placed, self.kueue, self.cluster, self.report = placed, kueue, placed.cluster, report
        self.api = f"kueue.x-k8s.io/{version}"
        self.checked = {"v1beta1": {"admissionChecks": ["supernodes"]},
                        "v1beta2": {"admissionChecksStrategy": {"admissionChecks": [{"name": "supernodes"}]}}}[version]

    # steps

    def set_queue(self, gpus, **more):
        self.placed.apply({"apiVersion": self.api, "kind": "ClusterQueue", "metadata": {"name": "gpus"}, "spec": {
            "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"}, **self.checked,
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [
                {"name": "default", "resources": [{"name": GPU, "nominalQuota": str(gpus)}]}]}], **more}})

    def submit(self, name, pods, group, **labels):
        made = job(name, pods, pod_template(8, group=group))
        made["metadata"]["labels"] = {QUEUE: "queue", **labels}
        self.placed.create(made)

    def workload(self, name):
        found = [one for one in self.cluster.get("workloads.kueue.x-k8s.io", "-n", "default")["items"]
                 if any(owner["name"] == name for owner in one["metadata"].get("ownerReferences", []))]
        return found[0] if found else {}

    def condition(self, name, kind):
        return next((one for one in self.workload(name).get("status", {}).get("conditions", []) if one["type"] == kind), {})

    def fill(self, pods):
        """So many nodes of each rack are in use, by jobs that Kueue has nothing to do with."""
        for rack in range(1, 6):
            template = pod_template(8, labels={"case": "fill"})
            template["spec"]["nodeSelector"]["rack"] = str(rack)
            self.placed.create(job(f"fill-{rack}", pods, template))
        self.placed.bound("case=fill", 5 * pods)

    # cases

    @quick
    def begin(self):
        self.kueue.start()
        for kind, name, spec in (("ResourceFlavor", "default", {}),
                                 ("AdmissionCheck", "supernodes", {"controllerName": "topology.metax-tech.com/supernodes"})):
            self.placed.apply({"apiVersion": self.api, "kind": kind, "metadata": {"name": name}, "spec": spec})
        self.set_queue(320)
        self.placed.apply({"apiVersion": self.api, "kind": "LocalQueue", "metadata": {"name": "queue", "namespace": "default"},
                           "spec": {"clusterQueue": "gpus"}})
        self.placed.apply({"apiVersion": self.api, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 1000,
                           "description": "x"})
        def active():
            conditions = self.cluster.get("clusterqueue", "gpus").get("status", {}).get("conditions", [])
            return any(one["type"] == "Active" and one["status"] == "True" for one in conditions) or (False, conditions)
        until("the ClusterQueue to be active, by our check", active, 90)
        fields = self.cluster.get("admissioncheck", "supernodes", "--show-managed-fields")["metadata"]["managedFields"]
        same({one["apiVersion"] for one in fields if one["manager"] == "gputopo-scheduler"}, {"kueue.x-k8s.io/v1beta2"},
             "the version that the companion writes")

    @quick
    def room(self):
        """Two units wait without quota and without pods while no rack has room; a small job passes; then they run."""
        self.fill(5)
        try:
            self.submit("big", 8, 32)
            def evicted():
                """It keeps the quota until the time to try again has come, and then takes it at once if nobody else does."""
                status = self.workload("big").get("status", {})
                counts = status.get("schedulingStats", {}).get("evictions", [])
                return any(one["reason"] == "AdmissionCheck" for one in counts) and any(
                    check.get("retryCount") for check in status.get("admissionChecks", [])) or (False, status)
            until("Kueue to take the quota back and to count the retry", evicted, 90)
            same(self.cluster.get("job", "big")["spec"]["suspend"], True, "the job is suspended")
            same(self.placed.pods("job-name=big"), {}, "its pods")
            self.submit("small", 1, 8)
            self.placed.bound("job-name=small", 1)
            same(self.placed.pods("job-name=big"), {}, "the big job's pods")
            self.cluster.kubectl("delete", "job", "fill-4", "fill-5", "--wait", "--cascade=foreground")
            self.placed.check_placed(self.placed.bound("job-name=big", 8, seconds=150), 32)
        finally:
            self.placed.clean()

    def too_large(self):
        """A unit that is larger than any rack, which may be so for a day alone: its job is not deactivated, and is told why."""
        self.submit("large", 16, 128)
        try:
            def told():
                workload = self.workload("large")
                checks = workload.get("status", {}).get("admissionChecks", [])
                return any("GPUs for pods of 8, a unit of 128 must lie in one: a size up to" in check["message"]
                           for check in checks) or (False, checks)
            until("the reason in the Workload", told, 60)
            until("Kueue to count the retry", lambda: any(check.get("retryCount") for check in
                  self.workload("large")["status"]["admissionChecks"]) or (False, self.workload("large")["status"]), 60)
            same(self.workload("large")["spec"].get("active", True), True, "the Workload is active")
            same(self.placed.pods("job-name=large"), {}, "its pods")
        finally:
            self.placed.clean()

    def preemption(self):
        """A job of higher priority takes the quota: the other one is suspended, holds nothing, and runs again afterwards."""
        self.set_queue(64)
        try:
            self.submit("low", 8, 32)
            self.placed.bound("job-name=low", 8)
            self.submit("high", 8, 32, **{PRIORITY: "high"})
            self.placed.check_placed(self.placed.bound("job-name=high", 8, seconds=150), 32)
            same(self.cluster.get("job", "low")["spec"]["suspend"], True, "the other job is suspended")
            same(self.placed.pods("job-name=low"), {}, "its pods")
            same(self.placed.metric("gputopo_placement_reserved_gpus"), 0, "GPUs reserved")
            self.cluster.kubectl("delete", "job", "high", "--wait", "--cascade=foreground")
            self.placed.check_placed(self.placed.bound("job-name=low", 8, seconds=150), 32)
        finally:
            self.placed.clean()
            self.set_queue(320)

    def pod_group(self):
        """Pods with Kueue's gate wait with a reason, and are planned when it goes."""
        self.set_queue(320, stopPolicy="Hold")
        try:
            for at in range(2):
                template = pod_template(8, group=8, labels={QUEUE: "queue", "kueue.x-k8s.io/pod-group-name": "group", "case": "group"})
                template["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = "2"
                template["metadata"]["name"] = f"group-{at}"
                self.placed.create({"apiVersion": "v1", "kind": "Pod", **template})
            def waits():
                said = [one.get("reason") for pod in self.placed.pods("case=group").values()
                        for one in pod["status"].get("conditions", []) if one["type"] == "GPUPlacement"]
                return said == ["NotAdmitted"] * 2 or (False, said)
            until("both to say that they are not admitted", waits)
            self.placed.untouched(self.placed.pods("case=group"))
            self.set_queue(320)
            self.placed.check_placed(self.placed.bound("case=group", 2), 8)  # one job of two pods
        finally:
            self.set_queue(320)
            self.cluster.kubectl("delete", "pods", "--all", "--wait=false")
            self.cluster.kubectl("delete", "workloads.kueue.x-k8s.io", "--all", "-n", "default", "--wait=false")  # else it keeps them
            self.placed.clean()

    def run(self, kinds=None):
        """`kinds`: the KueueKindCases, where their controllers are there."""
        trainer = "2.2.1" if kinds and kinds.patched else "2.1.0"
        if kinds and not self.report.case(f"the controllers of JobSet 0.10.1, LeaderWorkerSet 0.7.0 and Trainer {trainer} run", kinds.kinds.begin):
            return
        if not self.report.case("Kueue with a queue that has our AdmissionCheck", self.begin):
            return
        if not kinds or not self.report.is_quick:  # those wait likewise
            self.report.case("two units wait without quota until a rack has room", self.room)
        self.report.case("a unit larger than any rack is not rejected", self.too_large)
        self.report.case("preemption by priority", self.preemption)
        self.report.case("a pod group with Kueue's gate", self.pod_group)
        if kinds:
            kinds.run()
        self.kueue.stop()
