# SPDX-License-Identifier: Apache-2.0
"""MPIJobs by Kubeflow's MPI operator; TFJobs, XGBoostJobs, PaddleJobs, JAXJobs and MPIJobs of v1 by its training operator."""
from harness.cluster import built
from harness.placed import pod_template
from harness.report import quick
from harness.waiting import same

JOB, TYPE, ROLE = (f"training.kubeflow.org/{key}" for key in ("job-name", "replica-type", "job-role"))
# In the order of ranks: the member of the spec with the roles, the name of the container that the operator looks for, the roles with GPUs.
KINDS = {"TFJob": ("tfReplicaSpecs", "tensorflow", {"Chief": 1, "Worker": 7}),
         "XGBoostJob": ("xgbReplicaSpecs", "xgboost", {"Master": 1, "Worker": 7}),
         "PaddleJob": ("paddleReplicaSpecs", "paddle", {"Worker": 8}),
         "JAXJob": ("jaxReplicaSpecs", "jax", {"Worker": 8}),
         "MPIJob": ("mpiReplicaSpecs", "mpi", {"Worker": 8})}
OPERATED = tuple(kind.lower() for kind in KINDS)


def role(replicas, gpus=8, container="main"):
    template = pod_template(gpus, group=32 if gpus else None)
    template["spec"]["containers"][0]["name"] = container
    return {"replicas": replicas, "restartPolicy": "Never", "template": template}


class KubeflowCases:
    def __init__(self, placed, mpi, training, report):
        self.placed, self.cluster, self.mpi, self.training, self.report = placed, placed.cluster, mpi, training, report

    def create(self, version, kind, roles, **spec):
        self.placed.create({"apiVersion": f"kubeflow.org/{version}", "kind": kind, "metadata": {"name": "demo", "namespace": "default"},
                            "spec": {**spec, **roles}})

    def placed_in(self, names, *selectors):
        """The pods of these names are placed as units in the order of ranks; returns the racks."""
        pods = self.placed.bound(",".join((f"{JOB}=demo", *selectors)), len(names))
        for name, pod in zip(names, pods):
            same(pod["metadata"]["name"][:len(name)], name, "the pod of the next rank")
        return f"units in racks {', '.join(self.placed.check_placed(pods, 32))}"

    @quick
    def mpi_runs(self):
        self.mpi.start()

    @quick
    def launcher(self):
        self.create("v2beta1", "MPIJob", {"mpiReplicaSpecs": {"Launcher": role(1, 0), "Worker": role(8)}})
        racks = self.placed_in([f"demo-worker-{at}" for at in range(8)], f"{ROLE}=worker")
        self.placed.bound(f"{JOB}=demo,{ROLE}=launcher", 1)
        self.placed.unplanned(f"{JOB}=demo,{ROLE}=launcher")
        return racks

    def launcher_works(self):
        self.create("v2beta1", "MPIJob", {"mpiReplicaSpecs": {"Launcher": role(1), "Worker": role(7)}}, runLauncherAsWorker=True)
        return self.placed_in(["demo-launcher-", *(f"demo-worker-{at}" for at in range(7))])

    def training_runs(self):
        """Its MPIJob, of v1, has the name of the MPI operator's: a cluster has one of the two."""
        self.mpi.stop()
        self.cluster.kubectl("delete", "crd", "mpijobs.kubeflow.org", "--wait")
        self.cluster.kubectl("apply", "--server-side", "-f", *built("mpijob-v1"))
        self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "mpijobs.kubeflow.org")
        self.training.start()

    def of_kind(self, kind, others=()):
        """`others`: roles that ask for no GPU."""
        specs, container, roles = KINDS[kind]
        self.create("v1", kind, {specs: {**{name: role(1, 0, container) for name in others},
                                         **{name: role(count, container=container) for name, count in roles.items()}}})
        names = [f"demo-{name.lower()}-{at}" for name, count in roles.items() for at in range(count)]
        racks = self.placed_in(names, *(f"{TYPE}!={name.lower()}" for name in others))
        for name in others:
            self.placed.unplanned(f"{JOB}=demo,{TYPE}={name.lower()}")
        return racks

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        if case("the MPI operator 0.7.0 runs", self.mpi_runs):
            case("an MPIJob, units of 32, its launcher without GPUs", self.launcher)
            case("an MPIJob whose launcher is a worker, units of 32", self.launcher_works)
        if case("Kubeflow's training operator 1.9.3 runs", self.training_runs):
            case("a TFJob with chief and parameter server, units of 32", lambda: self.of_kind("TFJob", ["PS"]))
            for kind in ("XGBoostJob", "PaddleJob", "JAXJob"):
                case(f"a {kind}, units of 32", lambda kind=kind: self.of_kind(kind))
            case("an MPIJob of v1, units of 32, its launcher without GPUs", lambda: self.of_kind("MPIJob", ["Launcher"]))
        self.placed.clean()
