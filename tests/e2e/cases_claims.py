# SPDX-License-Identifier: Apache-2.0
"""Jobs with groups whose limits become claims with the planned GPUs, beside pods whose GPUs kube-scheduler chooses."""
import collections
import concurrent.futures
import json
import os
import pathlib

from cases_plugin import ONCE
from harness import audit, install, pods
from harness.claims import DraNode, claiming, template
from harness.placed import GROUP_SIZE, IMAGE, RESOURCE, Placed, annotation, job, pod_template, statefulset
from harness.report import quick
from harness.schedulers import TrainingOperator, Volcano
from harness.waiting import Failed, same, until

KUSTOMIZATION = """apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{base}/no-probe]
components: [{base}/components/placement, {tls}, {base}/components/claims]
patches:
- target: {{kind: Deployment, name: gputopo-scheduler}}
  patch: |
    - {{op: add, path: /spec/template/spec/nodeSelector/kubernetes.io~1hostname, value: node1}}
- patch: |
    $patch: delete
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {{name: gputopo-agent, namespace: gputopo-system}}
"""
SUPERNODES = "groups:\n" + "".join(f"- {{name: rack-{number}, tier: 1, nodes: [node{number}]}}\n" for number in (1, 2))
ROUNDS = int(os.environ.get("GPUTOPO_CLAIM_ROUNDS", "5"))
TEMPLATES_S = 300  # the companion looks every minute which are in use, and deletes what three looks have not found


class ClaimCases:
    """In the cluster of DraCases, whose first node and agent it takes over."""

    def __init__(self, dra):
        self.dra, self.cluster, self.report = dra, dra.cluster, dra.report
        self.placed = Placed(dra.cluster, dra.build)
        self.nodes = {}

    # steps

    @staticmethod
    def template(gpus, group):
        template = pod_template(gpus, group=group, nodeSelector={})
        template["spec"]["containers"][0]["name"] = "c0"
        return template

    def job(self, name, count, gpus, group):
        self.placed.create(job(name, count, self.template(gpus, group)))

    def node_of(self, pod):
        return self.nodes[int(pod["spec"]["nodeName"].removeprefix("node"))]

    def single(self, name):
        """A pod of one GPU that kube-scheduler places; (number of its node, its GPU)."""
        self.dra.apply(pods.manifest(name, 1) if self.dra.newest else claiming(name, "gpus-1"))
        self.dra.running(name)
        node = self.node_of(self.dra.pod(name))
        [gpu] = node.check_claimed(name)
        until(f"the GPU of {name} in the NodeGPUTopology", lambda: node.published()[0].get(name) == [gpu] or (False, node.published()))
        return node.number, gpu

    def job_ran(self, name, count, gpus):
        return self.ran(f"job-name={name}", f"job-{name}", count, gpus)

    def ran(self, selector, placement, count, gpus, name="gputopo-gpus", container="c0"):
        """Until its pods run: one claim a pod, and planned, allocated, prepared and seen are the same. Returns {node: its GPUs}."""
        held = {}
        for pod in self.placed.bound(selector, count):
            of, spec, node = pod["metadata"]["name"], pod["spec"], self.node_of(pod)
            same([RESOURCE in one["resources"].get(kind, {}) for one in spec["containers"] for kind in ("limits", "requests")],
                 [False, False], f"limits of {of}")
            same([(one["name"], one.get("resourceClaimTemplateName")) for one in spec["resourceClaims"]],
                 [(name, f"gputopo-gpus-{gpus}")], f"claims of {of}")
            same(annotation(pod, "node"), spec["nodeName"], f"the node of {of}, as planned")
            planned = node.machine.indices(json.loads(annotation(pod, "gpus"))[container])
            same(len(planned), gpus, f"planned GPUs of {of}")
            same(node.check_claimed(of, container), planned, f"allocated, prepared and seen GPUs of {of}, against its plan")
            until(f"the owner {of} in the NodeGPUTopology", lambda: node.published()[0].get(of) == planned or (False, node.published()))
            held.setdefault(node.number, []).extend(planned)
        object_ = self.cluster.get("gpuplacements.topology.metax-tech.com", placement)
        same({one.get("claimTemplate") for one in object_["spec"]["templates"]}, {f"gputopo-gpus-{gpus}"}, "claims in its GPUPlacement")
        object_ = object_["status"]
        same((object_["phase"], sorted(set(object_["nodes"]))), ("Placed", [f"node{number}" for number in sorted(held)]), "its GPUPlacement")
        return {number: sorted(gpus) for number, gpus in held.items()}

    def given_twice(self):
        """GPUs that are in two claims, and which: {(node, device): [claim]}."""
        given = collections.defaultdict(list)
        for item in self.cluster.get("resourceclaims", "-A")["items"]:
            for one in item.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []):
                given[one["pool"], one["device"]].append(item["metadata"]["name"])
        return {gpu: claims for gpu, claims in given.items() if len(claims) > 1}

    def no_gpu_twice(self):
        same(self.given_twice(), {}, "GPUs in two claims")

    @quick
    def clean(self):
        self.cluster.kubectl("delete", "jobs,statefulsets", "--all", "--wait", "--cascade=foreground")
        self.dra.delete(*self.placed.pods() or ["none"])
        for node in self.nodes.values():
            until(f"nothing prepared on node{node.number}", lambda: not node.prepared() or (False, node.prepared()))
            until(f"all GPUs of node{node.number} free", lambda: set(node.published()[1]) == node.all or (False, node.published()))
        until("no claim", lambda: not (left := self.cluster.get("resourceclaims")["items"]) or (False, left))

    # cases

    @quick
    def begins(self):
        """The companion as an operator gets it, with the component `claims`; a second node; each is a supernode."""
        cluster, directory = self.cluster, self.cluster.state / "placed"
        self.nodes = {1: self.dra.node, 2: DraNode(cluster, self.dra.build, self.dra.recording, 2)}
        Placed.unique(self.nodes[2], 2)
        self.nodes[2].start()
        install.import_image(cluster, self.dra.build, (1,))
        cluster.kubectl("apply", "--server-side", "-k", install.DAEMONSET / "crds")
        self.placed.apply({"apiVersion": "v1", "kind": "ConfigMap", "data": {"supernodes.yaml": SUPERNODES},
                           "metadata": {"name": "gputopo-supernodes", "namespace": install.NAMESPACE}})
        self.placed.make_certificates()
        directory.mkdir()
        (directory / "kustomization.yaml").write_text(KUSTOMIZATION.format(
            base=os.path.relpath(install.DAEMONSET, directory), tls=os.path.relpath(self.placed.tls, directory)))
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", directory)
        cluster.kubectl("rollout", "status", "deployment/gputopo-scheduler", "-n", install.NAMESPACE, "--timeout=290s")
        def complete():
            told = {item["metadata"]["name"]: item.get("status", {}).get("capacity") for item in cluster.get("supernodes")["items"]}
            return told == {"rack-1": 8, "rack-2": 8} or (False, told)
        until("both supernodes", complete)

    @quick
    def job_beside_single(self):
        """A unit of all GPUs of a node, while kube-scheduler has put a pod of one GPU on one of the two."""
        number, gpu = self.single("single")
        self.job("whole", 2, 4, 8)
        same(self.job_ran("whole", 2, 4), {3 - number: list(range(8))}, "the unit's GPUs")
        self.job("beside", 3, 2, 2)
        held = self.job_ran("beside", 3, 2)
        same(list(held), [number], "the node of the second job")
        if gpu in held[number]:
            raise Failed(f"GPU {gpu} of node{number} is in two pods")
        last = self.single("last")
        same(sorted([gpu, last[1], *held[number]]), list(range(8)), "GPUs of the node in use")
        self.no_gpu_twice()
        return f"node{number}: {gpu} and {last[1]} by kube-scheduler, {held[number]} planned"

    def waits(self):
        """A job without room keeps its gates and gets no allocation; it has its GPUs when the other one has gone."""
        number, _ = self.single("single")
        self.job("first", 2, 4, 8)
        self.job_ran("first", 2, 4)
        self.job("second", 2, 4, 8)
        said = self.placed.waits("job-name=second", "TooFewGPUs")
        allocated = [item["metadata"]["name"] for item in self.cluster.get("resourceclaims")["items"]
                     if item["metadata"]["name"].startswith("second-") and item.get("status", {}).get("allocation")]
        same(allocated, [], "claims of the job that waits, with GPUs")
        self.cluster.kubectl("delete", "job", "first", "--wait=false")
        same(self.job_ran("second", 2, 4), {3 - number: list(range(8))}, "its GPUs then")
        self.no_gpu_twice()
        return said

    def successors(self):
        """Pods of a StatefulSet are deleted, softly and by force: the next one of that name has a claim of its own, on its unit's node."""
        self.placed.create(statefulset("set", 2, self.template(2, 4)))
        held = self.ran("app=set", "statefulset-set", 2, 2)
        for name, how in (("set-1", "--wait=true"), ("set-0", "--force"), ("set-1", "--force")):
            before = self.dra.pod(name)
            self.cluster.kubectl("delete", "pod", name, how)
            until(f"the next {name}", lambda: name in (there := self.placed.pods("app=set"))
                  and there[name]["metadata"]["uid"] != before["metadata"]["uid"])
            same(list(self.ran("app=set", "statefulset-set", 2, 2)), list(held), f"the node of the StatefulSet after {name}")
            self.no_gpu_twice()

    @staticmethod
    def by_claims(template, name):
        """The template with a claim of that ResourceClaimTemplate in the place of its limits."""
        spec = template["spec"]
        spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": name}]
        spec["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
        return template

    def own_claims(self):
        """A job whose user wrote the claims is placed as one with limits; what cannot be planned is refused."""
        self.placed.create(job("own", 2, self.by_claims(self.template(0, 8), "gpus-4")))
        held = self.ran("job-name=own", "job-own", 2, 4, "gpus")
        same([sorted(gpus) for gpus in held.values()], [list(range(8))], "the unit's GPUs, on one node")
        self.no_gpu_twice()
        chosen = template("gpus-chosen", 4, selectors=[{"cel": {"expression": 'device.driver == "gpu.metax-tech.com"'}}])
        pod = {"apiVersion": "v1", "kind": "Pod", **self.by_claims(self.template(0, 8), chosen["metadata"]["name"])}
        pod["metadata"]["name"] = "chosen"
        self.dra.apply(chosen)
        def refused():
            try:
                self.dra.apply(pod)
            except Failed as refusal:
                return "has selectors, which a plan does not honour" in str(refusal) or (False, refusal)
            raise Failed("a pod whose claim has selectors was admitted")
        until("it to be refused with its sentence", refused)
        self.cluster.kubectl("delete", "resourceclaimtemplate", chosen["metadata"]["name"])

    def at_once(self):
        """While the plan of a job is written kube-scheduler places single pods; together they need every GPU. It may give one GPU to
        two single pods; a planned one is in one claim."""
        singles, planned, others = [f"at-once-{number}" for number in range(8)], [], 0
        for round_ in range(ROUNDS):
            name = f"round-{round_}"
            with concurrent.futures.ThreadPoolExecutor() as threads:
                made = [threads.submit(self.dra.apply, *(pods.manifest(single, 1) for single in singles)),
                        threads.submit(self.job, name, 4, 2, 2)]
                for one in made:
                    one.result()
            def on_nodes():
                left = [item["metadata"]["name"] for item in self.cluster.get("pods")["items"] if not item["spec"].get("nodeName")]
                return not left or (False, left)
            until("every pod to have a node", on_nodes)
            twice = self.given_twice()
            if any("gputopo-gpus" in claim for claims in twice.values() for claim in claims):
                planned.append((round_, twice))
            else:
                self.job_ran(name, 4, 2)
                others += bool(twice)  # kube-scheduler's own fault: the agent refuses one of the pods
            for single in [] if twice else singles:
                self.dra.running(single)
            self.clean()
        if others:
            audit.forget(self.cluster)  # which may have seen that
        same(planned, [], f"rounds of {ROUNDS} in which a planned GPU was in two claims")
        return f"{ROUNDS} rounds; in {others} kube-scheduler gave one GPU to two claims of its own"

    def manuals_job(self):
        """The manual's PyTorchJob, of a size for two nodes, by Kubeflow's training operator and Volcano 1.14.1 as it comes, which knows
        nothing of claims."""
        volcano, operator = (pathlib.Path(directory) for directory in self.dra.others)
        volcano = Volcano(self.placed, volcano)
        init = self.cluster.state / "init.yaml"  # its own asks for a name server, which is not here
        init.write_text(json.dumps([{"name": "init", "image": IMAGE, "imagePullPolicy": "Never", "command": ONCE}]))
        operator = TrainingOperator(self.cluster, operator, gang=False, init=init)
        try:
            volcano.start(volcano.without_us())
            operator.start()
            [manifest] = self.placed.example("pytorchjob.yaml", lambda spec: [one["template"] for one in spec["pytorchReplicaSpecs"].values()])
            specs = manifest["spec"]["pytorchReplicaSpecs"]
            specs["Worker"]["replicas"] = 3
            specs["Master"]["template"]["metadata"]["annotations"][GROUP_SIZE] = "8"
            for one in specs.values():
                one["template"]["spec"]["nodeSelector"] = {}
                one["template"]["spec"]["containers"][0]["resources"]["limits"][RESOURCE] = 4
            self.placed.create(manifest)
            held = self.ran("training.kubeflow.org/job-name=pytorch-demo", "pytorchjob-pytorch-demo", 4, 4, container="pytorch")
            same(held, {1: list(range(8)), 2: list(range(8))}, "GPUs of the job")
            same({pod["spec"]["schedulerName"] for pod in self.placed.pods().values()}, {"volcano"}, "schedulers of its pods")
            self.no_gpu_twice()
            self.cluster.kubectl("delete", "pytorchjobs.kubeflow.org", "--all", "--wait", "--cascade=foreground")
        finally:
            operator.stop()
            volcano.stop()
            self.cluster.kubectl("delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-l", "!app.kubernetes.io/part-of")

    def templates_go(self):
        """Templates that no pod names any more."""
        self.clean()
        def left():
            return [item["metadata"]["name"] for item in self.cluster.get("resourceclaimtemplates")["items"]
                    if item["metadata"]["name"].startswith("gputopo-")]
        before = left()
        if not before:
            raise Failed("there is none from before")
        until("the companion's templates to go", lambda: not left() or (False, left()), TEMPLATES_S, 2)
        return " ".join(before)

    def run(self):
        def case(name, run):
            return self.report.case(of + name, run, self.clean)
        of = f"Kubernetes {self.dra.version}, planned claims: "
        if not self.report.case(of + "a second node, and the companion with the component claims", self.begins):
            return
        case("jobs beside pods that kube-scheduler places; planned, allocated, prepared and seen are the same", self.job_beside_single)
        case("a job without room waits, and its claims hold nothing", self.waits)
        case("a job whose user wrote the claims", self.own_claims)
        case("pods of a StatefulSet go: the next ones have claims of their own, in their unit's supernode", self.successors)
        if self.dra.newest: # of two pods at once 1.34.1 itself has given one GPU to both
            case("a job and single pods come at once: no GPU is in two claims", self.at_once)
            if self.dra.others:
                case("the manual's PyTorchJob by Volcano", self.manuals_job)
            case("templates that no pod names go", self.templates_go)
        self.report.case(of + "nothing is left of claims", self.clean)
        self.report.case(of + "the second agent ends cleanly", quick(lambda: self.nodes[2].agent.stop()))
