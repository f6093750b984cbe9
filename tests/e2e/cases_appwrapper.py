# SPDX-License-Identifier: Apache-2.0
"""AppWrappers: their pods are known by the jobs in them, so that nothing has to know AppWrappers."""
import pathlib

from harness.cluster import built
from harness.placed import job, pod_template
from harness.schedulers import Program
from harness.waiting import same, until

NAMESPACE = "appwrapper-system"
CONFIGURATION = """
webhooksEnabled: false
controllerManager:
  health: {bindAddress: "127.0.0.1:8190"}
  metrics: {bindAddress: "127.0.0.1:8191"}
"""
LABEL = "workload.codeflare.dev/appwrapper"


class AppWrapperCases:
    def __init__(self, placed, report):
        self.placed, self.cluster, self.report = placed, placed.cluster, report

    def start(self):
        directory = pathlib.Path(built("appwrapper")[0])
        self.cluster.kubectl("apply", "--server-side", "-f", directory / "crd.yaml")
        self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=290s", "crd", "appwrappers.workload.codeflare.dev")
        self.cluster.kubectl("create", "namespace", NAMESPACE)
        self.placed.apply({"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": CONFIGURATION},
                           "metadata": {"name": "appwrapper-operator-config", "namespace": NAMESPACE}})
        program = Program(self.cluster, "appwrapper", "env", f"KUBECONFIG={self.cluster.state}/admin.kubeconfig", f"NAMESPACE={NAMESPACE}",
                          directory / "appwrapper").start()
        until("the controller", lambda: program.alive() and program.said("Starting workers"), 60)

    def wrapped(self):
        """A Job of two units and a JobSet of two in one AppWrapper: each is a job of its own."""
        self.start()
        inner = [job("inner", 8, pod_template(8, group=32)), *self.placed.example(
            "jobset.yaml", lambda spec: [one["template"]["spec"]["template"] for one in spec["replicatedJobs"]])]
        self.placed.create({"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": {"name": "demo", "namespace": "default"},
                            "spec": {"components": [{"template": one} for one in inner]}})
        try:
            racks = []
            for selector in ("job-name=inner", "jobset.sigs.k8s.io/jobset-name=jobset-demo"):
                pods = self.placed.bound(f"{LABEL}=demo,{selector}", 8)
                racks += self.placed.check_placed(pods, 32)
            same(sorted(item["status"]["phase"] for item in self.cluster.get("gpl", "-n", "default")["items"]), ["Placed"] * 2, "phases")
            return f"units in racks {', '.join(racks)}"
        finally:
            self.cluster.kubectl("delete", "appwrapper", "demo", "--wait")

    def run(self):
        self.report.case("a Job and a JobSet in an AppWrapper", self.wrapped, before=self.placed.clean)
        self.placed.clean()
