# SPDX-License-Identifier: Apache-2.0
"""JobSets, TrainJobs and LeaderWorkerSets by their own controllers: objects between the job and its pods make these."""
import json

import yaml

from harness.install import EXAMPLES
from harness.placed import IMAGE
from harness.report import quick
from harness.waiting import Failed, same, until

JOB_SET, LWS = "jobset.sigs.k8s.io", "leaderworkerset.sigs.k8s.io"
GROUP = "metax-tech.com/gpu-group-size"


class KindCases:
    def __init__(self, placed, controllers, report):
        self.placed, self.cluster, self.controllers, self.report = placed, placed.cluster, controllers, report

    # steps

    def jobset(self, **spec):
        [manifest] = self.placed.example("jobset.yaml", lambda spec: [one["template"]["spec"]["template"] for one in spec["replicatedJobs"]])
        manifest["spec"].update(spec)
        return manifest

    @staticmethod
    def of(name, **more):
        """The selector of a JobSet's pods."""
        return ",".join([f"{JOB_SET}/jobset-name={name}", *(f"{JOB_SET}/{key.replace('_', '-')}={value}" for key, value in more.items())])

    def with_driver(self, annotated):
        """A driver with GPUs before 7 nodes; `annotated`: the JobSet itself has the size."""
        made = self.jobset(startupPolicy={"startupPolicyOrder": "InOrder"})
        [node] = made["spec"]["replicatedJobs"]
        node.update(replicas=1)
        node["template"]["spec"].update(parallelism=7, completions=7)
        driver = yaml.safe_load(yaml.safe_dump({**node, "name": "zz-driver"}))
        driver["template"]["spec"].update(parallelism=1, completions=1)
        made["spec"]["replicatedJobs"] = [driver, node]
        if annotated:
            made["metadata"]["annotations"] = {GROUP: "32"}
            for one in (driver, node):
                one["template"]["spec"]["template"]["metadata"]["annotations"].clear()
        return made

    def workers(self, replicas, **spec):
        [manifest] = self.placed.example("leaderworkerset.yaml", lambda spec: [spec["leaderWorkerTemplate"]["workerTemplate"]])
        manifest["spec"].update(replicas=replicas, **spec)
        return manifest

    def group(self, index):
        """Its pods, leader first, in one rack; and the rack."""
        pods = self.placed.bound(f"{LWS}/name=vllm-demo,{LWS}/group-index={index}", 4)
        [rack] = self.placed.check_placed(pods, 32)
        same([pod["metadata"]["labels"][f"{LWS}/worker-index"] for pod in pods], ["0", "1", "2", "3"], f"the order of group {index}")
        return pods, rack

    def restart(self, name):
        """The pod stays, as its kubelet restarts the container: of one that is deleted and soon made again the controller may not know."""
        statuses = self.cluster.get("pod", name)["status"]["containerStatuses"]
        statuses[0]["restartCount"] = 1
        self.cluster.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", json.dumps(
            {"status": {"containerStatuses": statuses}}))

    def runtime(self, name, policy, *jobs):
        """Of TrainJobs, after the trainer's own; `policy` None: the same. `jobs`: (name, its container's name, what it is to the trainer, the job that has to end first)."""
        made = yaml.safe_load((self.controllers[-1].files / "runtime.yaml").read_text())
        [node] = made["spec"]["template"]["spec"]["replicatedJobs"]
        node["template"]["spec"]["template"]["spec"].update(nodeSelector={"pool": "hollow"}, terminationGracePeriodSeconds=0)
        made["metadata"]["name"], made["spec"]["template"]["spec"]["replicatedJobs"] = name, []
        made["spec"]["mlPolicy"] = policy or made["spec"]["mlPolicy"]
        for job, container, step, after in jobs:
            one = {**yaml.safe_load(yaml.safe_dump(node)), "name": job, **({"dependsOn": [{"name": after, "status": "Complete"}]} if after else {})}
            one["template"]["metadata"] = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}} if step else {}
            one["template"]["spec"]["template"]["spec"]["containers"][0].update(name=container, image=IMAGE, imagePullPolicy="Never")
            made["spec"]["template"]["spec"]["replicatedJobs"].append(one)
        self.placed.apply(made)

    def train(self, runtime, **spec):
        """The example, of this runtime."""
        [manifest] = list(yaml.safe_load_all((EXAMPLES / "trainjob.yaml").read_text()))
        manifest["spec"]["trainer"]["image"] = IMAGE
        manifest["spec"].update(spec, runtimeRef={"name": runtime})
        self.placed.create(manifest)

    # cases

    @quick
    def begin(self):
        for controller in self.controllers:
            controller.start()
        self.runtime("torch-distributed", None, ("node", "node", "trainer", None))

    @quick
    def jobset_example(self):
        self.placed.create(self.jobset())
        pods = self.placed.bound(self.of("jobset-demo"), 8)
        racks = self.placed.check_placed(pods, 32)
        same([(pod["metadata"]["labels"][f"{JOB_SET}/job-index"], pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
              for pod in pods], [(str(rank // 4), str(rank % 4)) for rank in range(8)], "Jobs and indexes in the order of ranks")
        same([item["status"]["phase"] for item in self.cluster.get("gpl", "-n", "default")["items"]], ["Placed"], "phases")
        return f"units in racks {', '.join(racks)}"

    def jobset_in_order(self):
        """The second replicated job comes when the first is ready; a unit has pods of both."""
        self.placed.create(self.with_driver(True))
        pods = self.placed.bound(self.of("jobset-demo"), 8)
        racks = self.placed.check_placed(pods, 32)
        same(pods[0]["metadata"]["labels"][f"{JOB_SET}/replicatedjob-name"], "zz-driver", "the pod of rank 0")
        return f"units in racks {', '.join(racks)}"

    def jobset_refused(self):
        try:
            self.placed.create(self.with_driver(False))
        except Failed as refusal:
            if "the 8 GPUs of zz-driver are not a multiple of gpu-group-size 32" not in str(refusal):
                raise
            return str(refusal).split(": ", 1)[-1][-200:]
        raise Failed("a JobSet whose driver is no whole unit was admitted")

    def jobset_restarts(self):
        """One of its Jobs fails: all are made again, and placed as a whole."""
        made = self.jobset(failurePolicy={"maxRestarts": 2})
        made["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 0
        self.placed.create(made)
        pods = self.placed.bound(self.of("jobset-demo", restart_attempt=0), 8)
        self.cluster.kubectl("patch", "pod", pods[5]["metadata"]["name"], "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Failed"}}')
        again = self.placed.bound(self.of("jobset-demo", restart_attempt=1), 8)
        return f"units in racks {', '.join(self.placed.check_placed(again, 32))}"

    def jobset_suspended(self):
        self.placed.create(self.jobset(suspend=True))
        until("its Jobs", lambda: len(self.cluster.get("jobs", "-n", "default")["items"]) == 2)
        same(list(self.placed.pods(self.of("jobset-demo"))), [], "pods of a suspended JobSet")
        self.cluster.kubectl("patch", "jobset", "jobset-demo", "--type=merge", "-p", '{"spec":{"suspend":false}}')
        self.placed.check_placed(self.placed.bound(self.of("jobset-demo"), 8), 32)

    @quick
    def trainjob(self):
        self.train("torch-distributed")
        pods = self.placed.bound(self.of("trainjob-demo"), 8)
        racks = self.placed.check_placed(pods, 32)
        same([pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for pod in pods], [str(rank) for rank in range(8)], "ranks")
        return f"units in racks {', '.join(racks)}"

    def trainjob_mpi(self):
        """The launcher as rank 0, one of the nodes, and one without GPUs outside of the ranks."""
        racks = []
        for name, as_node, launcher in (("mpi-node", True, ("launcher", "node", "trainer", None)),
                                        ("mpi-launcher", False, ("launcher", "launcher", None, None))):
            mpi = {"numProcPerNode": 1, "mpiImplementation": "OpenMPI", "sshAuthMountPath": "/root/.ssh", "runLauncherAsNode": as_node}
            self.runtime(name, {"numNodes": 1, "mpi": mpi}, launcher, ("node", "node", None if as_node else "trainer", None))
            self.train(name)
            pods = self.placed.bound(self.of("trainjob-demo", **({} if as_node else {"replicatedjob_name": "node"})), 8)
            racks += self.placed.check_placed(pods, 32)
            same([(pod["metadata"]["labels"][f"{JOB_SET}/replicatedjob-name"], pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
                  for pod in pods], [("launcher", "0")] * as_node + [("node", str(rank)) for rank in range(8 - as_node)], "ranks")
            if not as_node:
                self.placed.unplanned(self.of("trainjob-demo", replicatedjob_name="launcher"))
            self.placed.clean()
        return f"units in racks {', '.join(racks)}"

    def trainjob_elastic(self):
        """The nodes come when the initializer has ended, which is no part of the ranks. This trainer makes all nodes of an elastic policy."""
        self.runtime("elastic", {"torch": {"numProcPerNode": "auto", "elasticPolicy": {"minNodes": 4, "maxNodes": 8}}},
                     ("dataset-initializer", "dataset-initializer", "dataset-initializer", None), ("node", "node", "trainer", "dataset-initializer"))
        self.train("elastic", initializer={"dataset": {"storageUri": "hf://team/set"}})
        [first] = self.placed.bound(self.of("trainjob-demo"), 1)
        self.placed.unplanned(self.of("trainjob-demo"))
        self.cluster.kubectl("patch", "pod", first["metadata"]["name"], "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Succeeded"}}')
        pods = self.placed.bound(self.of("trainjob-demo", replicatedjob_name="node"), 8)
        racks = self.placed.check_placed(pods, 32)
        same([pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for pod in pods], [str(rank) for rank in range(8)], "ranks")
        return f"units in racks {', '.join(racks)}"

    def deployment(self):
        """The example, and a rollout of it: the strategy Recreate ends all pods before it makes new ones."""
        [manifest] = self.placed.example("deployment.yaml")
        self.placed.create(manifest)
        racks = self.placed.check_placed(self.placed.bound("app=deployment-demo", 4), 16)
        self.cluster.kubectl("patch", "deployment", "deployment-demo", "--type=merge", "-p", json.dumps(
            {"spec": {"template": {"metadata": {"annotations": {"round": "2"}}}}}))

        def renewed():
            pods = self.placed.pods("app=deployment-demo")
            return [pod["metadata"]["annotations"].get("round") for pod in pods.values()] == ["2"] * 4 or (False, self.placed.summary(pods))
        until("the pods of the second round", renewed)
        racks += self.placed.check_placed(self.placed.bound("app=deployment-demo", 4), 16)
        return f"units in racks {', '.join(racks[:2])}, after the rollout in {', '.join(racks[2:])}"

    @quick
    def groups(self):
        """Each in one rack; a third comes, and one with a worker that restarts is made again as a whole."""
        self.placed.create(self.workers(2))
        racks = [self.group(index)[1] for index in (0, 1)]
        self.cluster.kubectl("scale", "leaderworkerset", "vllm-demo", "--replicas=3")
        racks.append(self.group(2)[1])
        before, _ = self.group(1)
        self.restart("vllm-demo-1-2")
        old = {pod["metadata"]["uid"] for pod in before}
        until("every pod of the group to be another one",
              lambda: not old & {pod["metadata"]["uid"] for pod in self.placed.pods(f"{LWS}/name=vllm-demo,{LWS}/group-index=1").values()})
        racks.append(self.group(1)[1])
        return f"groups 0, 1, 2 in racks {', '.join(racks[:3])}; group 1 again in {racks[3]}"

    def scaled(self):
        """Down: the last groups go, and what they had is free. Up again: new ones are placed. The first one stays as it is."""
        self.placed.create(self.workers(3))
        stays = [pod["metadata"]["uid"] for pod in self.group(0)[0]]
        down = [self.group(index)[0] for index in (1, 2)]
        self.cluster.kubectl("scale", "leaderworkerset", "vllm-demo", "--replicas=1")
        self.placed.gone(f"{LWS}/name=vllm-demo,{LWS}/group-index in (1, 2)")
        left = {pod["spec"]["nodeName"] for pods in down for pod in pods}

        def free():
            used = [item["metadata"]["name"] for item in self.cluster.get("ngt")["items"]
                    if item["metadata"]["name"] in left and item["status"].get("freeCount") != 8]
            kept = [item["metadata"]["name"] for item in self.cluster.get("gpl", "-n", "default")["items"]]
            return (not used and len(kept) == 1) or (False, (used, kept))
        until("the GPUs of both groups to be free, and their plans to be gone", free)
        self.cluster.kubectl("scale", "leaderworkerset", "vllm-demo", "--replicas=3")
        racks = [self.group(index)[1] for index in (1, 2)]
        same([pod["metadata"]["uid"] for pod in self.group(0)[0]], stays, "the pods of group 0")
        return f"groups 1 and 2 again in racks {', '.join(racks)}"

    def subgroups(self):
        """Each in one rack, and no rack has pods of both groups."""
        made = self.workers(2)
        made["metadata"]["annotations"] = {"metax-tech.com/spread": "supernode"}
        made["spec"]["leaderWorkerTemplate"]["subGroupPolicy"] = {"subGroupSize": 2}
        made["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["annotations"][GROUP] = "subgroup"
        self.placed.create(made)
        racks = [self.placed.check_placed(self.placed.bound(f"{LWS}/name=vllm-demo,{LWS}/group-index={index}", 4), 16) for index in (0, 1)]
        same(set(racks[0]) & set(racks[1]), set(), "racks with pods of both groups")
        return f"the subgroups of two groups in racks {', '.join(racks[0])} and {', '.join(racks[1])}"

    def rollout(self):
        """One group more than wanted is made, and the others follow one by one."""
        rolling = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 1}}
        made = self.placed.create(self.workers(2, rolloutStrategy=rolling))
        for index in (0, 1):
            self.group(index)
        made["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["annotations"]["round"] = "2"
        self.cluster.kubectl("patch", "leaderworkerset", "vllm-demo", "--type=merge", "-p", yaml.safe_dump(
            {"spec": {"leaderWorkerTemplate": {"workerTemplate": made["spec"]["leaderWorkerTemplate"]["workerTemplate"]}}}))

        def renewed():
            pods = self.placed.pods(f"{LWS}/name=vllm-demo")
            rounds = [pod["metadata"]["annotations"].get("round") for pod in pods.values()]
            return rounds == ["2"] * 8 or (False, self.placed.summary(pods))
        until("both groups to be of the second round", renewed, 180)
        return f"in racks {', '.join(self.group(index)[1] for index in (0, 1))}"

    def leader_ready(self):
        """The workers are made when the leader is ready: their places are kept."""
        self.placed.create(self.workers(1, startupPolicy="LeaderReady"))
        _, rack = self.group(0)
        return f"in rack {rack}"

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        if case("the controllers of JobSet 0.10.1, LeaderWorkerSet 0.7.0 and Trainer 2.1.0 run", self.begin):
            case("the example's JobSet, units of 32", self.jobset_example)
            case("a JobSet that starts in order, units over all of it", self.jobset_in_order)
            case("a JobSet whose units would have pods of two replicated jobs is refused", self.jobset_refused)
            case("a JobSet is restarted as a whole", self.jobset_restarts)
            case("a JobSet is suspended and resumed", self.jobset_suspended)
            case("the example's TrainJob, units of 32", self.trainjob)
            case("TrainJobs of the runtime MPI, the launcher a node or without GPUs", self.trainjob_mpi)
            case("a TrainJob of elastic PyTorch with an initializer", self.trainjob_elastic)
            case("the example's Deployment, and a rollout", self.deployment)
            case("the example's LeaderWorkerSet, its groups come one by one", self.groups)
            case("a LeaderWorkerSet is scaled down and up again", self.scaled)
            case("a LeaderWorkerSet whose subgroups are units, its groups spread over racks", self.subgroups)
            case("a LeaderWorkerSet is rolled", self.rollout)
            case("a LeaderWorkerSet whose workers wait for the leader", self.leader_ready)
        self.placed.clean()
