# SPDX-License-Identifier: Apache-2.0
"""The kubelet of a unit's node is killed: the unit moves to a spare node, or as a whole to another supernode."""
import json

from harness import install
from harness.placed import annotation, job, pod_template, rack_of
from harness.report import quick
from harness.waiting import same, until

RACKS = {1: 3, 4: 4, 5: 4}  # hollow nodes; the two with kubelets make it five in rack 1
RENEW = 3  # seconds between two signs of life of a hollow node
DEAD, OTHER = 1, 2  # nodes with kubelets
POLICY = "metax-tech.com/on-node-loss"
SPARES = "metax-tech.com/spare-nodes"


class NodeLossCases:
    def __init__(self, placed, report):
        self.placed, self.cluster, self.report = placed, placed.cluster, report

    # steps

    @quick
    def companion_elsewhere(self):
        """It answers the webhook: that is another story."""
        self.cluster.kubectl("patch", "deployment", "gputopo-scheduler", "-n", install.NAMESPACE, "--type=json", "-p", json.dumps(
            [{"op": "add", "path": "/spec/template/spec/nodeSelector/kubernetes.io~1hostname", "value": f"node{OTHER}"}]))
        self.cluster.kubectl("rollout", "status", "deployment/gputopo-scheduler", "-n", install.NAMESPACE, "--timeout=290s")
        same(self.placed.companion()["spec"]["nodeName"], f"node{OTHER}", "the companion's node")

    def set_spares(self, count):
        self.cluster.kubectl("annotate", "supernode", "rack-1", "--overwrite", SPARES + ("-" if count is None else f"={count}"))
        until(f"the Supernode to tell of {count} spares", lambda: self.cluster.get("supernode", "rack-1")["status"].get("spares") == count)

    def fill(self, name, pods, **selector):
        self.placed.create(job(name, pods, pod_template(8, nodeSelector=selector)))
        self.placed.bound(f"job-name={name}", pods)

    def begin(self):
        """Two units of four pods, one of them with a pod on the node that is going to be lost. Returns the pods by rank, and
        the ranks of that unit."""
        template = pod_template(8, group=32, nodeSelector={})
        template["metadata"]["annotations"][POLICY] = "unit"
        self.placed.create(job("train", 8, template))
        pods = self.placed.bound("job-name=train", 8)
        same(sorted(self.placed.check_placed(pods, 32)), ["1", "4"], "racks of the units")
        unit = next(annotation(pod, "unit") for pod in pods if rack_of(pod["spec"]["nodeName"]) == "1")
        ranks = [at for at, pod in enumerate(pods) if annotation(pod, "unit") == unit]
        same(any(pods[at]["spec"]["nodeName"] == f"node{DEAD}" for at in ranks), True, f"a pod of it is on node{DEAD}")
        return pods, ranks

    def not_ready(self):
        def silent():
            ready = next(one for one in self.cluster.get("node", f"node{DEAD}")["status"]["conditions"] if one["type"] == "Ready")
            return ready["status"] == "Unknown" or (False, ready)
        until(f"node{DEAD} not to be ready", silent, 90)

    def again(self, before, moved):
        """The pods by rank, when those of the ranks `moved` have others in their place; ranks and units are as before."""
        old = {before[at]["metadata"]["uid"] for at in moved}

        def there():
            pods = self.placed.pods("job-name=train")
            new = [pod for pod in pods.values() if pod["metadata"]["uid"] not in old and pod["status"].get("phase") == "Running"]
            return (len(new) == len(pods) == len(before) and new) or (False, self.placed.summary(pods))
        pods = sorted(until("the next pods to run", there, 180), key=lambda pod: int(annotation(pod, "rank")))
        for at, (now, then) in enumerate(zip(pods, before)):
            index = "batch.kubernetes.io/job-completion-index"
            same([now["metadata"]["annotations"][index], annotation(now, "rank"), annotation(now, "unit"), annotation(now, "unit-rank")],
                 [str(at), str(at), annotation(then, "unit"), annotation(then, "unit-rank")], f"index, rank, unit and unit rank of {at}")
            same(now["metadata"]["uid"] == then["metadata"]["uid"], at not in moved, f"rank {at} is the pod that it was")
        self.placed.check_placed(pods, 32)
        return pods

    def home(self):
        """The kubelet is back, and ends what it did not know to have ended."""
        until(f"node{DEAD} to be ready", lambda: not self.cluster.get("node", f"node{DEAD}")["spec"].get("taints"), 120)
        until("no pod to be on its way out", lambda: not [
            pod for pod in self.cluster.get("pods", "-n", "default")["items"] if pod["metadata"].get("deletionTimestamp")], 120)
        self.placed.no_gpu_twice()

    # cases

    @quick
    def spare(self):
        """The pod of the lost node goes to the spare, a node with a kubelet, and gets its planned GPUs there; no other moves."""
        self.set_spares(1)
        self.fill("holder", 4, rack="5")
        pods, ranks = self.begin()
        [lost] = [at for at in ranks if pods[at]["spec"]["nodeName"] == f"node{DEAD}"]
        with self.cluster.without_kubelet(DEAD):
            self.not_ready()
            now = self.again(pods, [lost])
            same(now[lost]["spec"]["nodeName"], f"node{OTHER}", "the spare node")
            name = now[lost]["metadata"]["name"]
            node = self.placed.nodes[OTHER]
            planned = node.machine.indices(json.loads(annotation(now[lost], "gpus"))["main"])
            same(node.check_container(name, "main"), planned, f"GPUs of {name}, as planned")
        self.home()
        return f"rank {lost} from node{DEAD} to node{OTHER}"

    def no_spare(self):
        """No pod is evicted while no rack has room for the unit; then it moves as a whole, and the other one stays."""
        self.set_spares(None)
        self.fill("extra", 1, **{"kubernetes.io/hostname": f"node{OTHER}"})
        self.fill("holder", 4, rack="5")
        pods, ranks = self.begin()
        with self.cluster.without_kubelet(DEAD):
            self.not_ready()
            said = self.placed.event("NodeLost", f"node{DEAD}", "no pod is evicted")
            same({pod["metadata"]["uid"] for pod in self.placed.pods("job-name=train").values()},
                 {pod["metadata"]["uid"] for pod in pods}, "the job's pods")
            self.cluster.kubectl("delete", "job", "holder", "--wait=false")
            now = self.again(pods, ranks)
            same({rack_of(now[at]["spec"]["nodeName"]) for at in ranks}, {"5"}, "the unit's rack")
        self.home()
        return said

    def run(self):
        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        if self.report.case(f"the companion on node{OTHER}", self.companion_elsewhere):
            case("a kubelet is killed under a unit of four pods: one pod goes to the spare node", self.spare)
            case("the same without a spare: the unit moves as a whole when another rack has room", self.no_spare)
        self.placed.clean()
