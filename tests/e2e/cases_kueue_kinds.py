# SPDX-License-Identifier: Apache-2.0
"""Kueue's own integrations of JobSets, TrainJobs and LeaderWorkerSets, with our AdmissionCheck."""
import yaml

from cases_kinds import LWS, KindCases
from harness.install import EXAMPLES
from harness.placed import IMAGE
from harness.report import quick
from harness.waiting import same, until

QUEUE, GATE = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/admission"
JOBSET, TRAINJOB, GROUPS = "jobset-demo", "trainjob-demo", "vllm-demo"
GROUP_PODS = f"{LWS}/name={GROUPS}"


class KueueKindCases:
    FRAMEWORKS = ("jobset.x-k8s.io/jobset", "leaderworkerset.x-k8s.io/leaderworkerset", "trainer.kubeflow.org/trainjob")

    def __init__(self, queues, controllers, patched):
        """`queues`: the KueueCases, whose queue is used; `patched`: the trainer has patches of the runtime instead of spec.annotations."""
        self.queues, self.placed, self.cluster, self.report = queues, queues.placed, queues.cluster, queues.report
        self.kinds, self.patched = KindCases(self.placed, controllers, self.report), patched

    # steps

    def manifests(self):
        """The examples: two units of 32 each."""
        [trainjob] = list(yaml.safe_load_all((EXAMPLES / "trainjob.yaml").read_text()))
        trainjob["spec"]["trainer"]["image"] = IMAGE
        if self.patched:
            trainjob["spec"]["runtimePatches"] = [{"manager": "example.com/author", "trainingRuntimeSpec": {
                "template": {"metadata": {"annotations": trainjob["spec"].pop("annotations")}}}}]
        made = [self.kinds.jobset(), self.kinds.workers(2), trainjob]
        for one in made:
            one["metadata"]["labels"] = {QUEUE: "queue"}
        return made

    def verdicts(self, name):
        """(state, message) of our check in the Workloads of an object: a LeaderWorkerSet has one for each group."""
        return [(check["state"], check["message"]) for one in self.cluster.get("workloads.kueue.x-k8s.io", "-n", "default")["items"]
                if any(owner["name"] == name for owner in one["metadata"].get("ownerReferences", []))
                for check in one.get("status", {}).get("admissionChecks", [])]

    def told(self, names, words):
        """Waits until our check has said so of each object. The state, and what it says, may be there for some seconds only."""
        missing = set(names)

        def all_told():
            for name in names:
                if any(words in message for _, message in self.verdicts(name)):
                    missing.discard(name)
            return not missing or (False, {name: self.verdicts(name) for name in missing})
        until(f'our check to say "{words}"', all_told, 60)

    # cases

    @quick
    def queued(self):
        """While no rack has room each waits in Kueue, without pods or with Kueue's gate; then each runs, its units whole."""
        made = self.manifests()
        names = [one["metadata"]["name"] for one in made]
        self.queues.fill(5)
        try:
            for one in made:
                self.placed.create(one)
            self.told(names, "of 32 GPUs needed, supernodes can hold 0")
            for name in names:
                if name != GROUPS:
                    same(self.placed.pods(self.kinds.of(name)), {}, f"pods of {name}")
            self.placed.waits(GROUP_PODS, "NotAdmitted")
            waiting = self.placed.pods(GROUP_PODS)
            self.placed.untouched(waiting)
            same({GATE in [gate["name"] for gate in pod["spec"]["schedulingGates"]] for pod in waiting.values()}, {True}, "Kueue's gate")
            self.cluster.kubectl("delete", "job", "fill-3", "fill-4", "fill-5", "--wait", "--cascade=foreground")
            racks = {}
            for name in names:
                if name != GROUPS:
                    pods = self.placed.bound(self.kinds.of(name), 8, seconds=90)  # less than places are held
                    racks[name] = self.placed.check_placed(pods, 32)
            racks[GROUPS] = [self.kinds.group(index)[1] for index in (0, 1)]
            for name in names:
                said = self.verdicts(name)
                if not said or any(state != "Ready" or " of 32 GPUs fit" not in message for state, message in said):
                    same(said, "Ready, with the supernodes", f"what our check says of {name}")
            return "; ".join(f"{name} in racks {', '.join(places)}" for name, places in racks.items())
        finally:
            self.placed.clean()

    def run(self):
        self.report.case("JobSet, LeaderWorkerSet and TrainJob in a queue of Kueue", self.queued)
