# SPDX-License-Identifier: Apache-2.0
"""A cluster in which gputopo places jobs: two nodes with kubelets, 40 hollow ones, 5 racks in 2 halls, the companion with webhook and extenders."""
import contextlib
import json
import os
import subprocess

import yaml

from . import install
from .agent import FETCH
from .hollow import APPLY, HollowNodes, name
from .node import Node
from .recordings import C550
from .report import quick
from .waiting import Failed, same, until

GATE = "metax-tech.com/gpu-placement"
PLAN = "plan.topology.metax-tech.com/"
GROUP_SIZE, ATOMIC_SIZE = "metax-tech.com/gpu-group-size", "metax-tech.com/atomic-gpu-group-size"
RESOURCE = "metax-tech.com/gpu"
IMAGE = "local.test/show-devices:1"
RACKS = {1: 8, 2: 8, 3: 8, 4: 8, 5: 8}  # hollow nodes of a rack; the two with kubelets are in rack 1
HALLS = {"east": (1, 2, 3), "west": (4, 5)}
HEARTBEAT = 10  # seconds

KUSTOMIZATION = """apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{base}/recorded]
components: [{components}]
patches:
- target: {{kind: DaemonSet, name: gputopo-agent}}
  patch: |
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --heartbeat={heartbeat}}}
- target: {{kind: Deployment, name: gputopo-scheduler}}
  patch: |
    - {{op: add, path: /spec/template/spec/nodeSelector/pool, value: kubelet}}
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --patience=5}}
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --unschedulable=10}}
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --node-loss-after=10}}
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --brake=100}}
"""

PRIORITIZE = """
import http.client, ssl, sys
address, body, ca, *mine = sys.argv[1:]
tls = ssl.create_default_context(cafile=ca)
tls.check_hostname = False
if mine:
    tls.load_cert_chain(*mine)
connection = http.client.HTTPSConnection(address, 9443, context=tls, timeout=10)
connection.request("POST", "/kube-scheduler/prioritize", body, {"Content-Type": "application/json"})
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


def supernodes(kubelets=True, sizes=None):
    """The operator's configuration; `kubelets`: with the two nodes that have one; `sizes`: of other racks than RACKS."""
    lines, sizes = ["groups:"], sizes or RACKS
    for hall, racks in HALLS.items():
        for rack in sorted(sizes.keys() & racks):
            nodes = [name(rack, number) for number in range(sizes[rack])] + (["node1", "node2"] if rack == 1 and kubelets else [])
            lines.append(f"- {{name: rack-{rack}, tier: 1, parent: {hall}, nodes: [{', '.join(nodes)}]}}")
        lines.append(f"- {{name: {hall}, tier: 2}}")
    return "\n".join(lines) + "\n"


def rack_of(node):
    return "1" if node.startswith("node") else node.split("-")[1]


class Placed:
    def __init__(self, cluster, build, places=True, racks=None, renew=None):
        """`places`: the companion does; else it makes the supernodes alone. `racks`: other ones than RACKS; `renew`: how often
        hollow nodes say that they are alive."""
        self.cluster, self.build, self.places, self.racks = cluster, build, places, racks or RACKS
        self.hollow = HollowNodes(cluster, build, self.racks, renew)
        self.nodes = {}  # number: Node, those with a kubelet
        self.tls = cluster.state / "tls"

    # beginning

    @quick
    def install(self, *components):
        """Image, agents, companion; `components`: names below daemonset/components."""
        cluster = self.cluster
        for number in (1, 2):
            cluster.kubectl("label", "node", f"node{number}", "pool=kubelet", "--overwrite")
        install.import_image(cluster, self.build, (1, 2))
        self.nodes = {number: Node(cluster, self.build, C550, number) for number in (1, 2)}
        for number, node in self.nodes.items():
            self.unique(node, number)
            install.mount(cluster, number, node.machine.dev, install.DEVICES)
        cluster.kubectl("apply", "--server-side", "-f", install.DAEMONSET / "base" / "namespace.yaml")
        cluster.kubectl("apply", "--server-side", "-k", install.DAEMONSET / "crds")
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=290s", "crd",
                        "nodegputopologies.topology.metax-tech.com", "supernodes.topology.metax-tech.com",
                        "gpuplacements.topology.metax-tech.com")
        cluster.kubectl("create", "configmap", "gputopo-recordings", "-n", install.NAMESPACE,
                        *(f"--from-file=node{number}.json={node.machine.file}" for number, node in self.nodes.items()))
        self.apply({"apiVersion": "v1", "kind": "ConfigMap", "data": {"supernodes.yaml": supernodes(sizes=self.racks)},
                    "metadata": {"name": "gputopo-supernodes", "namespace": install.NAMESPACE}})
        self.make_certificates()
        self.apply_manifests(*components)
        self.hollow.start()
        for kind in ("daemonset/gputopo-agent", "deployment/gputopo-scheduler"):
            cluster.kubectl("rollout", "status", kind, "-n", install.NAMESPACE, "--timeout=290s")
        for number in self.nodes:
            until(f"the GPUs of node{number}", lambda: cluster.get("node", f"node{number}")["status"]["allocatable"].get(RESOURCE) == "8")
        until("every supernode to be complete", self.supernodes_complete)

    @staticmethod
    def unique(node, number):
        """Both replay one recording: no two GPUs and no two servers of a cluster have the same UUID."""
        for gpu in node.machine.whole["gpus"]:
            gpu["uuid"] = f"GPU-node{number}-{gpu['index']}"
        node.machine.whole["supernode"] = None
        node.machine.write()

    def make_certificates(self, *names):
        done = subprocess.run([install.DAEMONSET / "tls", self.tls, *names], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Failed(f"daemonset/tls: {done.stdout.strip()}")

    def apply_manifests(self, *components):
        directory = self.cluster.state / "placed"
        directory.mkdir(exist_ok=True)
        base = os.path.relpath(install.DAEMONSET, directory)
        (directory / "kustomization.yaml").write_text(KUSTOMIZATION.format(
            base=base, heartbeat=HEARTBEAT, components=", ".join([
                *([f"{base}/components/placement", os.path.relpath(self.tls, directory)] if self.places else []),
                *(f"{base}/components/{component}" for component in components)])))
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", directory)

    @contextlib.contextmanager
    def repairing(self):
        """The companion may make pods again whose planned place was taken."""
        self.apply_manifests("recreate")
        self.rolled_out()
        try:
            yield
        finally:
            self.clean()
            self.cluster.kubectl("delete", "clusterrole,clusterrolebinding", "gputopo-scheduler-recreate")
            self.apply_manifests()
            self.rolled_out()

    def rolled_out(self):
        self.cluster.kubectl("rollout", "status", "deployment/gputopo-scheduler", "-n", install.NAMESPACE, "--timeout=290s")
        self.companion()

    def supernodes_complete(self):
        told = {item["metadata"]["name"]: item.get("status", {}).get("capacity") for item in self.cluster.get("supernodes")["items"]}
        want = {f"rack-{rack}": 8 * (count + (2 if rack == 1 else 0)) for rack, count in self.racks.items()}
        return all(told.get(rack) == gpus for rack, gpus in want.items()) or (False, told)

    # the companion

    def companions(self, count):
        """Its running pods, of which there are to be so many."""
        def ready():
            pods = self.cluster.get("pods", "-n", install.NAMESPACE, "-l", "app.kubernetes.io/name=gputopo-scheduler")["items"]
            ready = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp") and any(
                one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))]
            return [ready] if len(pods) == len(ready) == count else (False, [pod["status"] for pod in pods])
        return until(f"{count} pods of the companion", ready)[0]

    def companion(self):
        return self.companions(1)[0]

    def address(self):
        return self.companion()["status"]["podIP"]

    def prioritize(self, address, pod, nodes, *more):
        """(status, answer) of the extender; `more`: files of a client's certificate and its key."""
        said = self.cluster.ask("control", "/usr/bin/python3", "-c", PRIORITIZE, address, json.dumps({"Pod": pod, "NodeNames": nodes}),
                                self.tls / "ca.crt", *more)
        status, _, answer = said.partition(" ")
        return int(status), answer

    def certificate(self):
        """kube-scheduler's."""
        return self.tls / "scheduler.crt", self.tls / "scheduler.key"

    def ask(self, path, address=None):
        """What the companion answers over plain HTTP; `address`: of one of several."""
        return self.cluster.ask("control", "/usr/bin/python3", "-c", FETCH, f"http://{address or self.address()}:9401{path}")

    def metric(self, name, address=None):
        return read_metric(self.ask("/metrics", address), name)

    def agent_metric(self, number, name):
        pods = self.cluster.get("pods", "-n", install.NAMESPACE, "-l", "app.kubernetes.io/name=gputopo-agent")["items"]
        pod = next(pod for pod in pods if pod["spec"]["nodeName"] == f"node{number}")
        return read_metric(self.cluster.ask("control", "/usr/bin/python3", "-c", FETCH,
                                            f"http://{pod['status']['podIP']}:9400/metrics"), name)

    # jobs and pods

    def apply(self, manifest):
        self.cluster.kubectl(*APPLY, "--field-manager=test", "-f", "-", data=manifest)

    def create(self, manifest):
        return json.loads(self.cluster.kubectl("create", "-o", "json", "-f", "-", data=manifest))

    @staticmethod
    def example(file, templates=lambda spec: [spec["template"]], atomic=None):
        """The objects of an example, to be run here: of the first, the job, image and node pool are changed, and where asked
        it gets the second annotation."""
        manifests = list(yaml.safe_load_all((install.EXAMPLES / file).read_text()))
        for template in templates(manifests[0]["spec"]):
            template["spec"].update(nodeSelector={"pool": "hollow"}, terminationGracePeriodSeconds=0)
            for container in template["spec"]["containers"]:
                container.update(image=IMAGE, imagePullPolicy="Never")
            annotations = template.get("metadata", {}).get("annotations")
            if annotations and atomic:
                annotations[ATOMIC_SIZE] = str(atomic)
        return manifests

    def pods(self, selector=None, namespace="default"):
        """{name: pod}, those that are not on their way out and were not refused by a kubelet."""
        items = self.cluster.get("pods", "-n", namespace, *(["-l", selector] if selector else []))["items"]
        return {item["metadata"]["name"]: item for item in items if not item["metadata"].get("deletionTimestamp")
                and item["status"].get("reason") != f"OutOf{RESOURCE}"}

    def bound(self, selector, count, namespace="default", seconds=120):
        """Waits until so many pods are on nodes, then returns them in the order of their ranks."""
        def there():
            pods = self.pods(selector, namespace)
            on = [pod for pod in pods.values() if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Running"]
            return (len(pods) == len(on) == count and on) or (False, self.summary(pods))
        pods = until(f"{count} pods of {selector} to be bound and to run", there, seconds)
        return sorted(pods, key=rank)

    def gone(self, selector, namespace="default"):
        until(f"the pods of {selector} to be gone", lambda: not self.cluster.get("pods", "-n", namespace, "-l", selector)["items"])

    REMADE = "trainjobs.trainer.kubeflow.org"  # Trainer 2.1.0 makes the JobSet again while a deletion of the TrainJob waits for its end
    KINDS = ("jobsets.jobset.x-k8s.io", "leaderworkersets.leaderworkerset.x-k8s.io",
             "rayservices.ray.io", "rayjobs.ray.io", "rayclusters.ray.io", "mpijobs.kubeflow.org", "tfjobs.kubeflow.org", "xgboostjobs.kubeflow.org",
             "paddlejobs.kubeflow.org", "jaxjobs.kubeflow.org", "job", "statefulset", "deployment", "pytorchjobs.kubeflow.org", "jobs.batch.volcano.sh", "elasticjobs.elastic.iml.github.io")

    def clean(self):
        """Nothing of a case is left in the namespace default, and every GPU is free."""
        known = self.cluster.kubectl("api-resources", "-o", "name").split()
        kinds = [kind for kind in self.KINDS if "." not in kind or kind in known]
        if self.REMADE in known:
            self.cluster.kubectl("delete", self.REMADE, "--all", "--wait", "--cascade=background")
        self.cluster.kubectl("delete", ",".join(kinds), "--all", "--wait", "--cascade=foreground")
        self.cluster.kubectl("delete", "pods", "--all", "--wait")

        def free():
            used = {item["metadata"]["name"]: item["status"].get("owners") for item in self.cluster.get("ngt")["items"]
                    if item["status"].get("freeCount") != 8}
            return not used or (False, used)
        until("every GPU to be free again", free)

    @staticmethod
    def summary(pods):
        return {name: (pod["status"].get("phase"), pod["spec"].get("nodeName"), len(pod["spec"].get("schedulingGates", [])),
                       [one.get("message") for one in pod["status"].get("conditions", [])
                        if one["status"] == "False"][:2]) for name, pod in sorted(pods.items())[:6]}

    def check_placed(self, pods, size, atomic=None):
        """The plan was kept, ranks are contiguous in units, each unit (each atom) in one rack. Returns the racks by unit."""
        for pod in pods:
            same(pod["spec"]["nodeName"], annotation(pod, "node"), f"the node of {pod['metadata']['name']}, as planned")
            same([gate for gate in pod["spec"].get("schedulingGates", [])], [], f"gates of {pod['metadata']['name']}")
        same([rank(pod) for pod in pods], list(range(len(pods))), "ranks")
        per_unit = size // gpus_of(pods[0])
        same([int(annotation(pod, "unit")) for pod in pods], [at // per_unit for at in range(len(pods))], "units in the order of ranks")
        together = (atomic or size) // gpus_of(pods[0])
        racks = []
        for first in range(0, len(pods), together):
            held = {rack_of(pod["spec"]["nodeName"]) for pod in pods[first:first + together]}
            if len(held) != 1:
                raise Failed(f"ranks {first} to {first + together - 1} are in racks {sorted(held)}")
            racks.append(held.pop())
        return racks

    def untouched(self, pods):
        """No plan, no node: nothing of it was placed."""
        for pod in pods.values():
            plans = [key for key in pod["metadata"].get("annotations", {}) if key.startswith(PLAN)]
            if plans or pod["spec"].get("nodeName") or pod["status"].get("nominatedNodeName"):
                raise Failed(f"{pod['metadata']['name']} has {plans} and is on {pod['spec'].get('nodeName')}")

    def unplanned(self, selector):
        """A pod without GPUs: nobody held it or planned it."""
        [pod] = self.pods(selector).values()
        same([key for key in pod["metadata"].get("annotations", {}) if key.startswith(PLAN)], [], f"the plan of {selector}")
        same(pod["spec"].get("schedulingGates"), None, f"the gates of {selector}")

    def waits(self, selector, reason, *words, namespace="default"):
        """Waits until a pod's condition GPUPlacement is False for this reason; returns its sentence."""
        def told():
            pods = self.pods(selector, namespace)
            said = [(one["reason"], one["message"]) for pod in pods.values() for one in pod["status"].get("conditions", [])
                    if one["type"] == "GPUPlacement" and one["status"] == "False"]
            return next((text for why, text in said if why == reason and all(word in text for word in words)), None) or (
                False, said or self.summary(pods))
        return until(f"the pods of {selector} to wait for {reason}", told)

    def event(self, reason, *words, namespace="default"):
        def told():
            notes = [item["note"] for item in self.cluster.get("events.events.k8s.io", "-n", namespace)["items"]
                     if item["reason"] == reason]
            return next((note for note in notes if all(word in note for word in words)), None) or (False, notes[-5:])
        return until(f"an event {reason} with {', '.join(words)}", told)

    def placement(self, name):
        """The status of its GPUPlacement."""
        return self.cluster.get("gpuplacements.topology.metax-tech.com", name)["status"]

    def explain(self, name):
        return self.cluster.ask("control", "gputopo", "explain", "--companion", f"{self.address()}:9401", f"default/{name}")

    def no_gpu_twice(self):
        """Over all pods of the cluster: the nodes' own words, and the sums per node."""
        used = {}
        for pod in self.cluster.get("pods", "-A")["items"]:
            if pod["spec"].get("nodeName") and pod["status"].get("phase") in ("Pending", "Running"):
                used[pod["spec"]["nodeName"]] = used.get(pod["spec"]["nodeName"], 0) + gpus_of(pod)
        over = {node: count for node, count in used.items() if count > 8}
        if over:
            raise Failed(f"more pods than GPUs: {over}")


def read_metric(text, name):
    line = next((line for line in text.splitlines() if line.startswith(name + " ")), None)
    return None if line is None else float(line.split()[-1])


def annotation(pod, name):
    return pod["metadata"].get("annotations", {}).get(PLAN + name)


def rank(pod):
    return int(annotation(pod, "rank") or -1)


def gpus_of(pod):
    return sum(int(one.get("resources", {}).get("limits", {}).get(RESOURCE, 0)) for one in pod["spec"]["containers"])


def pod_template(gpus, pool="hollow", group=None, atomic=None, labels=None, **spec):
    """A template of one container; `group` and `atomic` as in the manual."""
    annotations = {key: str(value) for key, value in ((GROUP_SIZE, group), (ATOMIC_SIZE, atomic)) if value}
    limits = {RESOURCE: str(gpus)} if gpus else {}
    return {"metadata": {"labels": labels or {}, "annotations": annotations},
            "spec": {"nodeSelector": {"pool": pool}, "terminationGracePeriodSeconds": 0, "enableServiceLinks": False,
                     "automountServiceAccountToken": False,
                     "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "Never",
                                     "resources": {"limits": limits}}], **spec}}


def job(name, pods, template, **spec):
    template = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
            "spec": {"completionMode": "Indexed", "completions": pods, "parallelism": pods, "backoffLimit": 100,
                     "template": template, **spec}}


def statefulset(name, pods, template, **spec):
    template = {**template, "metadata": {**template["metadata"], "labels": {"app": name}}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": "default"},
            "spec": {"serviceName": name, "replicas": pods, "selector": {"matchLabels": {"app": name}},
                     "template": template, **spec}}

