#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kubernetes 1.37's own gangs, each in one value of a node's label (alpha), and gputopo-scheduler, on the same nodes.

    gangs.py BUILD/bin [NODES [PODS]]      (1,000, 1,000)

A real API server and kube-scheduler 1.37.2 with the feature gates on, no kubelet. Jobs of 8 pods of 2 GPUs; the label is what
`--project=nodefeatures` has NFD write, one value for each supernode of 16 nodes. For Kubernetes each job has a PodGroup with
that label as its topology constraint; for us its pods have the group size of the manual. In both forms of companion_jobs.py:
pods made while the scheduler runs, and pods that all wait already. Measures as in loss.sh."""
import glob
import os
import sys

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "gputopo/e2e")
THERE = sorted(glob.glob(f"{CACHE}/kubernetes-1.37-*[0-9a-f]"))
os.environ["GPUTOPO_KUBE_BIN"] = os.pathsep.join(filter(None, [os.environ.get("GPUTOPO_KUBE_BIN"), *THERE]))

from companion_api import GROUPS, PER_SUPERNODE, RealServer  # noqa: E402
from companion_jobs import Bench, started  # noqa: E402

GATES = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
GROUP = "scheduling.k8s.io/v1beta1"
LABEL = "topology.metax-tech.com/member-of"


class Gangs(Bench):
    FLAGS = f"{GATES} --runtime-config={GROUP}=true"

    def kube_scheduler(self, extender=None):
        return super().kube_scheduler(extender, GATES)

    def job(self, pods, gpus, group, gated, grouped=False):
        own, made = super().job(pods, gpus, group, gated)
        if grouped:
            name = own[0][1]["metadata"]["name"]
            own.append((GROUPS, {"apiVersion": GROUP, "kind": "PodGroup", "metadata": {"name": name}, "spec": {
                "schedulingPolicy": {"gang": {"minCount": pods}}, "schedulingConstraints": {"topology": [{"key": LABEL}]}}}))
            for _, pod in made:
                pod["spec"]["schedulingGroup"] = {"podGroupName": name}
        return own, made

    def run(self, what):
        print(f"# Kubernetes 1.37.2 with {self.nodes} Node objects of 8 GPUs on {os.cpu_count()} cores; {self.count} pods of 2 GPUs in jobs of 8")
        self.api.fill(self.nodes, lambda n: {LABEL: f"super-{n // PER_SUPERNODE:04}"})
        for form, all_wait in ((self.flow, False), (self.place, True)):
            kind = "all wait" if all_wait else "made"
            form(f"kube-scheduler alone, {kind}", self.kube_scheduler)
            form(f"PodGroups, {kind}", self.kube_scheduler, grouped=True)
            form(f"gputopo, {kind}", self.kube_scheduler, "placement", **({"gated": True} if all_wait else {}))
            self.ratio(f"gputopo to PodGroups, {kind}", f"gputopo, {kind}", f"PodGroups, {kind}")


def main():
    numbers = [int(n) for n in sys.argv[2:4]]
    if not 1 < len(sys.argv) < 5 or not os.path.exists(os.path.join(sys.argv[1], "gputopo-scheduler")):
        sys.stderr.write("usage: gangs.py DIRECTORY-OF-THE-PROGRAMS [NODES [PODS]] (a release build)\n")
        sys.exit(2)
    if not RealServer.is_there() or not THERE:
        print("skipped\tKubernetes 1.37.2 is not there: tests/e2e/build kubernetes-1.37 makes it")
        return
    with started(Gangs, sys.argv[1], *(numbers + [1000, 1000][len(numbers):])) as bench:
        bench.run("")


if __name__ == "__main__":
    main()
