# SPDX-License-Identifier: Apache-2.0
"""gpu-aware: the node whose free GPUs match a request exactly wins; beside the stock kube-scheduler, with and without us."""
from harness.placed import gpus_of, pod_template
from harness.report import quick
from harness.schedulers import ExtendedKubeScheduler
from harness.waiting import Failed, same, until

# Rack 2: how many GPUs are in use on its hollow nodes. Exact matches: of 2 GPUs node 1, of 4 node 2, of 1 node 4.
IN_USE = {0: 0, 1: 6, 2: 4, 3: 1, 4: 7, 5: 0, 6: 3, 7: 8}
EXACT = {1: "hollow-2-4", 2: "hollow-2-1", 4: "hollow-2-2", 5: "hollow-2-6", 7: "hollow-2-3"}


class GpuAwareCases:
    def __init__(self, placed, report):
        self.placed, self.cluster, self.report = placed, placed.cluster, report
        self.scheduler = ExtendedKubeScheduler(placed)

    # steps

    def occupy(self):
        """Pods that nobody scheduled, as after weeks of coming and going."""
        for number, count in IN_USE.items():
            if count:
                pod = pod_template(count, labels={"occupies": "rack-2"}, nodeName=f"hollow-2-{number}")
                self.placed.apply({"apiVersion": "v1", "kind": "Pod", **pod,
                                   "metadata": {**pod["metadata"], "name": f"occupies-{number}", "namespace": "default"}})
        until("the nodes to tell who has their GPUs", lambda: all(
            self.cluster.get("ngt", f"hollow-2-{number}")["status"]["freeCount"] == 8 - count for number, count in IN_USE.items()))

    def pod(self, name, gpus, scheduler, **spec):
        template = pod_template(gpus, labels={"case": "aware"}, schedulerName=scheduler, **spec)
        if "nodeSelector" not in spec:
            template["spec"]["nodeSelector"] = {"rack": "2"}
        return {"apiVersion": "v1", "kind": "Pod", **template,
                "metadata": {**template["metadata"], "name": name, "namespace": "default"}}

    def place(self, name, gpus, scheduler, **spec):
        """The node that a pod gets."""
        self.placed.create(self.pod(name, gpus, scheduler, **spec))
        return self.node_of(name)

    def node_of(self, name):
        def there():
            pod = self.cluster.get("pod", name)
            return pod["spec"].get("nodeName") and pod["status"]["phase"] == "Running" and pod["spec"]["nodeName"] or (
                False, pod["status"])
        return until(f"{name} to be bound", there)

    def remove(self, *names):
        self.cluster.kubectl("delete", "pod", *names, "--wait", "--ignore-not-found")

    def told_free(self, node, count):
        until(f"{node} to tell that {count} are free", lambda: self.cluster.get("ngt", node)["status"]["freeCount"] == count)

    # cases

    @quick
    def prepare(self):
        self.occupy()
        self.scheduler.start()

    def without_us(self):
        """Among equal nodes kube-scheduler takes any: exact matches are luck, and 5 of 5 would be odd luck. The largest pod
        comes first, or small ones might leave no room for it."""
        names = [f"plain-{gpus}" for gpus in EXACT]
        got = {gpus: self.place(f"plain-{gpus}", gpus, "default-scheduler") for gpus in sorted(EXACT, reverse=True)}
        self.remove(*names)
        self.told_free("hollow-2-0", 8)
        hits = sum(got[gpus] == node for gpus, node in EXACT.items())
        if hits == len(EXACT):
            raise Failed(f"all exact without us: the nodes prove nothing: {got}")
        return f"{hits} of {len(EXACT)} exact"

    @quick
    def with_us(self):
        for gpus, node in EXACT.items():
            same(self.place(f"aware-{gpus}", gpus, self.scheduler.NAME), node, f"the node of a pod of {gpus}")
        requests = self.placed.metric('gputopo_extender_requests_total{path="/kube-scheduler/prioritize",result="answered"}')
        self.remove(*(f"aware-{gpus}" for gpus in EXACT))
        self.told_free("hollow-2-3", 7)
        return f"{len(EXACT)} of {len(EXACT)} exact, {requests:.0f} questions to prioritize"

    @quick
    def burst(self):
        """Twelve pods at once, faster than any agent reports: what is reserved is not given twice, and whole nodes stay whole."""
        names = [f"burst-{number}" for number in range(6)]
        self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": [
            self.pod(name, 1, self.scheduler.NAME) for name in names]})
        got = [self.node_of(name) for name in names]
        whole = {"hollow-2-0", "hollow-2-5"}
        if whole & set(got):
            raise Failed(f"a whole node was broken for one GPU: {got}")
        self.placed.no_gpu_twice()
        self.remove(*names)
        self.told_free("hollow-2-4", 1)
        return " ".join(node.removeprefix("hollow-2-") for node in got)

    def real_nodes(self):
        """On kubelets: node1 has two GPUs left, node2 eight; the pod of two runs on node1, and gets these two."""
        first = self.pod("holds-six", 6, "default-scheduler", nodeSelector={"kubernetes.io/hostname": "node1"})
        self.placed.create(first)
        self.node_of("holds-six")
        node = self.placed.nodes[1]
        held = node.used()["holds-six", "main"]
        until("node1 to tell", lambda: self.cluster.get("ngt", "node1")["status"]["freeCount"] == 2)
        same(self.place("wants-two", 2, self.scheduler.NAME, nodeSelector={"pool": "kubelet"}), "node1", "the node of a pod of 2")
        same(sorted(held + node.used()["wants-two", "main"]), list(range(8)), "GPUs of both pods on node1")
        self.remove("holds-six", "wants-two")
        until("node1 to tell", lambda: self.cluster.get("ngt", "node1")["status"]["freeCount"] == 8)

    @quick
    def without_gpus(self):
        """Pods without GPUs go to the node whose GPUs are all in use, not where kube-scheduler alone spreads them."""
        names = [f"no-gpus-{number}" for number in range(3)]
        for name in names:
            pod = self.pod(name, 0, self.scheduler.NAME)
            same(gpus_of(pod), 0, "its GPUs")
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "8", "memory": "64Gi"}}
            self.placed.create(pod)
            same(self.node_of(name), "hollow-2-7", f"the node of {name}")
        self.remove(*names)

    @quick
    def certificate(self):
        """The extender refuses who cannot show the certificate; the webhook does not."""
        asked = self.placed.address(), self.pod("p", 2, self.scheduler.NAME), ["hollow-2-0"]
        same(self.placed.prioritize(*asked, *self.placed.certificate())[0], 200, "with the certificate")
        status, _ = self.placed.prioritize(*asked)
        if status not in (401, 403):
            raise Failed(f"without a certificate: {status}")

    def run(self):
        case = self.report.case
        if not case("gpu-aware: nodes in use, and a second kube-scheduler that asks the companion", self.prepare):
            return
        case("gpu-aware without us: kube-scheduler takes any node", self.without_us)
        case("gpu-aware with us: the node whose free GPUs match exactly wins", self.with_us)
        case("gpu-aware: pods at once get no GPU twice and break no whole node", self.burst)
        case("gpu-aware on kubelets: the two GPUs that are left", self.real_nodes)
        case("gpu-aware for pods without GPUs: the node whose GPUs are all in use", self.without_gpus)
        case("the extender wants kube-scheduler's certificate", self.certificate)

    def end(self):
        self.cluster.kubectl("delete", "pod", "-l", "occupies=rack-2", "--wait")
