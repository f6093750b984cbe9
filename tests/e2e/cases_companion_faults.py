# SPDX-License-Identifier: Apache-2.0
"""Faults around a placement: of the companion, the API server, the webhook, nodes, GPUs, owners and other
schedulers."""
import contextlib
import json
import subprocess

from harness import audit, install
from harness.controlplane import ControlPlane
from harness.placed import GATE, PLAN, annotation, gpus_of, job, pod_template, rack_of
from harness.report import quick
from harness.waiting import Failed, same, until

NOBODY = "nobody"  # a scheduler that does not run: planned pods stay unbound
AT_PLAN = """
    left=$4
    kubectl get pods -l "$1" -w -o 'jsonpath={.metadata.annotations.plan\\.topology\\.metax-tech\\.com/node}{"\\n"}' |
        while read -r node; do
            if [ -n "$node" ] && [ "$((left -= 1))" = 0 ]; then
                kill "-$2" "$3"
                echo sent
                exit
            fi
        done
"""
GATED = pod_template(8, group=32, schedulingGates=[{"name": GATE}])


class CompanionFaultCases:
    def __init__(self, placed, volcano, report):
        """`volcano`: None where it does not run."""
        self.placed, self.volcano, self.cluster, self.report = placed, volcano, placed.cluster, report

    # steps

    def process(self, pod):
        """(restarts, process) of one of its pods."""
        node = int(pod["spec"]["nodeName"].removeprefix("node"))
        container = pod["status"]["containerStatuses"][0]
        identity = container["containerID"].removeprefix("containerd://")
        listed = self.cluster.ask(node, "ctr", "tasks", "ls")
        return container["restartCount"], next(line.split()[1] for line in listed.splitlines() if line.startswith(identity))

    def signal(self, name, process):
        self.cluster.ask("control", "kill", f"-{name}", process)

    def back(self, pod, restarts):
        def there():
            status = self.cluster.get("pod", pod["metadata"]["name"], "-n", install.NAMESPACE)["status"]["containerStatuses"][0]
            return status["restartCount"] > restarts and status["ready"]
        until("the companion to be back", there)

    def leader(self):
        """The name of the pod that holds the lease; "": none."""
        return self.cluster.get("lease", "gputopo-scheduler", "-n", install.NAMESPACE)["spec"].get("holderIdentity", "").split("_")[0]

    def scale(self, replicas):
        self.cluster.kubectl("scale", "deployment/gputopo-scheduler", "-n", install.NAMESPACE, f"--replicas={replicas}")
        return self.placed.companions(replicas)

    @contextlib.contextmanager
    def without_companion(self):
        self.scale(0)
        try:
            yield
        finally:
            self.scale(1)

    def planned(self, name, count):
        """Waits until so many pods have a plan and no gate, on no node."""
        def there():
            pods = self.placed.pods(f"job-name={name}")
            ready = [pod for pod in pods.values() if annotation(pod, "node") and not pod["spec"].get("schedulingGates")]
            return (len(ready) == len(pods) == count and pods) or (False, self.placed.summary(pods))
        return until(f"{count} pods of {name} to be planned", there)

    # cases

    @quick
    def killed(self):
        """SIGKILL while a job of 40 pods is made, planned and lifted: nothing is placed twice, and every unit is in one rack.
        The gate is in the template: pods that are made while nobody answers the webhook would not have it."""
        pod = self.placed.companion()
        restarts, process = self.process(pod)
        return self.gone_in_mid_plan("killed", "KILL", process, lambda: self.back(pod, restarts))

    @contextlib.contextmanager
    def signal_at_plan(self, selector, signal, process, number):
        """Sent to the process at once when plans of such pods have been seen so many times, before the block ends."""
        waits = self.cluster.enter("control", "sh", "-c", AT_PLAN, "sh", selector, signal, process, number,
                                   stdout=subprocess.PIPE, text=True)
        yield waits
        same(waits.stdout.readline(), "sent\n", f"what came of waiting for plans of {selector}")

    def gone_in_mid_plan(self, name, signal, process, then):
        """Sent to the process at once when the first pod of a new job has its plan; `then` waits for who goes on with it."""
        with self.signal_at_plan(f"job-name={name}", signal, process, 1) as waits:
            self.placed.create(job(name, 40, GATED))
        pods = self.placed.pods(f"job-name={name}").values()
        told = (f"{len(pods)} pods, {sum(bool(annotation(pod, 'node')) for pod in pods)} planned, "
                f"{sum(not pod['spec'].get('schedulingGates') for pod in pods)} lifted")
        then()
        self.placed.check_placed(self.placed.bound(f"job-name={name}", 40), 32)
        self.placed.no_gpu_twice()
        waits.wait(60)
        return told

    def replicas(self):
        """Two of them: the extender answers on both, alike; the one that leads is killed, then the other one halted, each time
        in mid-plan; who stands by takes over, and who comes back stands by and does nothing."""
        pods = {pod["metadata"]["name"]: pod for pod in self.scale(2)}
        try:
            free, told = self.both_answer(pods.values()), []
            for name, signal in (("killed", "KILL"), ("halted", "STOP")):
                leader = self.leader()
                other = next(other for other in pods if other != leader)
                restarts, process = self.process(self.cluster.get("pod", leader, "-n", install.NAMESPACE))
                told.append(f"{name}: " + self.gone_in_mid_plan(name, signal, process, lambda: until(
                    "the other one to lead", lambda: self.leader() == other or (False, self.leader()))))
                if signal == "STOP":
                    self.signal("CONT", process)
                else:
                    self.back(pods[leader], restarts)
                again = {pod["metadata"]["name"]: pod for pod in self.placed.companions(2)}
                same(set(again), set(pods), "the companion's pods")
                until("one of them to lead", lambda: self.leading(again) == {leader: 0, other: 1} or (False, self.leading(again)))
                self.placed.check_placed(self.placed.bound(f"job-name={name}", 40), 32)
                if self.both_answer(again.values()) == free:
                    raise Failed(f"nodes that {name} has taken are as good as before: {free}")
                self.placed.clean()
            return "; ".join(told)
        finally:
            self.scale(1)

    def leading(self, pods):
        return {name: self.placed.metric("gputopo_leader", pod["status"]["podIP"]) for name, pod in pods.items()}

    def both_answer(self, pods):
        """What the two know of nodes and plans is the same soon."""
        asked = {"apiVersion": "v1", "kind": "Pod", **pod_template(8), "metadata": {"name": "p", "namespace": "default", "uid": "u"}}
        nodes = [f"hollow-{rack}-{number}" for rack in (1, 5) for number in range(8)]

        def alike():
            told = [self.placed.prioritize(pod["status"]["podIP"], asked, nodes, *self.placed.certificate()) for pod in pods]
            return told[0] if told[0] == told[1] and told[0][0] == 200 else (False, told)
        return json.loads(until("both to answer alike", alike)[1])

    def apiserver(self):
        """The API server goes while a job is planned, and comes back."""
        self.placed.create(job("server", 8, pod_template(8, group=32)))
        with ControlPlane(self.cluster).without_apiserver():
            pass
        self.placed.check_placed(self.placed.bound("job-name=server", 8), 32)
        self.placed.create(job("later", 8, pod_template(8, group=32)))
        self.placed.check_placed(self.placed.bound("job-name=later", 8), 32)

    def webhook_down(self):
        """failurePolicy Ignore: pods are made, without gate and place. The audit finds them, and asked for, the job is placed again.
        A gate written by hand waits for the companion."""
        with self.without_companion():
            self.placed.create(job("unplaced", 4, pod_template(8, group=32)))
            before = self.placed.bound("job-name=unplaced", 4)
            for pod in before:
                same(annotation(pod, "node"), None, "its plan")
            self.placed.create(job("gated", 4, GATED))
            until("its pods", lambda: len(self.placed.pods("job-name=gated")) == 4)
            self.placed.untouched(self.placed.pods("job-name=gated"))
        self.placed.check_placed(self.placed.bound("job-name=gated", 4), 32)
        self.finds({"Unplaced": 4})
        names = {pod["metadata"]["name"] for pod in before}

        def about():
            told = [(item["regarding"]["kind"], item["regarding"]["name"]) for item in audit.events(self.cluster)
                    if item["reason"] == "Unplaced"]
            return sorted(told) == [("Job", "unplaced"), *(("Pod", name) for name in sorted(names))] or (False, told)
        until("an Event about each pod, and one about the Job", about)
        same(names & set(self.placed.pods("job-name=unplaced")), names, "pods that stay while nobody asks")
        self.cluster.kubectl("annotate", "job", "unplaced", "metax-tech.com/on-unplaced=recreate")
        until("its pods to be made again", lambda: not names & set(self.placed.pods("job-name=unplaced")))
        racks = self.placed.check_placed(self.placed.bound("job-name=unplaced", 4), 32)
        self.finds({})
        self.placed.no_gpu_twice()
        audit.forget(self.cluster, kind="Unplaced")
        return f"from racks {', '.join(sorted({rack_of(pod['spec']['nodeName']) for pod in before}))} to rack {racks[0]}"

    def drained(self):
        """Between plan and bind a node is cordoned: no pod has run, so the job is planned again as a whole, elsewhere."""
        self.placed.create(job("lost", 4, pod_template(8, group=32, schedulerName=NOBODY)))
        pods = self.planned("lost", 4)
        node = annotation(next(iter(pods.values())), "node")
        self.cluster.kubectl("cordon", node)
        try:
            self.placed.event("PlannedAgain", "none of its pods has run")
            until("its pods to be made again", lambda: not set(pods) & set(self.placed.pods("job-name=lost")))
            again = self.planned("lost", 4)
        finally:
            self.cluster.kubectl("uncordon", node)
        nodes = {annotation(pod, "node") for pod in again.values()}
        same((node in nodes, len({rack_of(one) for one in nodes})), (False, 1), "the cordoned node among the new ones, racks of the unit")
        return f"from {node} to {', '.join(sorted(nodes))}"

    @quick
    def lost_and_repaired(self):
        """A planned GPU becomes unhealthy between plan and bind: the pod is made again, and planned elsewhere."""
        with self.placed.repairing():
            self.placed.create(job("repair", 4, pod_template(8, group=32, schedulerName=NOBODY)))
            pods = self.planned("repair", 4)
            sick = annotation(next(iter(pods.values())), "node")
            self.placed.hollow.set_health(sick, 3, False)
            try:
                def elsewhere():
                    now = self.placed.pods("job-name=repair")
                    nodes = [annotation(pod, "node") for pod in now.values()]
                    return (len(now) == 4 and all(nodes) and sick not in nodes
                            and not any(pod["spec"].get("schedulingGates") for pod in now.values()) and now) or (False, nodes)
                now = until("another plan", elsewhere)
                same(len({rack_of(annotation(pod, "node")) for pod in now.values()}), 1, "racks of the unit")
            finally:
                self.placed.hollow.set_health(sick, 3, True)
        return f"from {sick}: {len(set(now) - set(pods))} pods made again"

    def deleted(self):
        """The job goes while it is planned: nothing stays reserved for it."""
        for number in range(5):
            self.placed.create(job(f"brief-{number}", 8, pod_template(8, group=64)))
            self.cluster.kubectl("delete", "job", f"brief-{number}", "--wait=false")
        self.placed.clean()
        until("nothing to be reserved for them", lambda: self.placed.metric("gputopo_placement_reserved_gpus") == 0)
        self.placed.create(job("whole", 40, pod_template(8, group=64)))
        self.placed.check_placed(self.placed.bound("job-name=whole", 40), 64)

    def stale(self):
        """The nodes' objects tell nothing of who came: what was given is not given again."""
        hold = self.cluster.state / "hollow.hold"
        hold.touch()
        try:
            for name in ("one", "two", "three"):
                self.placed.create(job(name, 8, pod_template(8, group=64)))
                self.placed.check_placed(self.placed.bound(f"job-name={name}", 8), 64)
            told = [item for item in self.cluster.get("ngt")["items"] if item["status"].get("freeCount") != 8]
            same(told, [], "nodes that tell of a pod")
            self.placed.no_gpu_twice()
        finally:
            hold.unlink()
        until("the nodes to tell", lambda: sum(
            item["status"].get("freeCount", 0) for item in self.cluster.get("ngt")["items"]) == (42 - 24) * 8)

    def whole(self, name, count):
        """Waits until all pods of a placed job run, or one says that its unit is stuck; returns whether they run."""
        def settled():
            pods = self.placed.pods(f"job-name={name}").values()
            running = sum(pod["status"].get("phase") == "Running" for pod in pods)
            stuck = any(one["type"] == "GPUPlacement" and one["reason"] == "UnitStuck"
                        for pod in pods for one in pod["status"].get("conditions", []))
            return [len(pods) == running == count] if stuck or len(pods) == running == count else (
                False, self.placed.summary({pod["metadata"]["name"]: pod for pod in pods}))
        return until(f"{count} pods of {name} to run, or to be stuck", settled)[0]

    @quick
    def racing(self):
        """Two schedulers that know nothing of each other, and jobs with places, for the same GPUs: each GPU once. A pod whose
        node was taken after the other one of its unit was bound can go nowhere but into that rack: it may have to wait there
        until those who took it have gone."""
        items = [job(f"plain-{number}", 4, pod_template(8, schedulerName="default-scheduler" if number % 2 else "volcano"))
                 for number in range(4)]
        # plain pods may tear every rack so that its last node is of no use: what is left holds 9 units of 2 nodes for certain
        items += [job(f"placed-{number}", 4, pod_template(8, group=16, schedulerName="volcano" if number % 2 else "default-scheduler"))
                  for number in range(4)]
        with self.placed.repairing():  # the other scheduler may take planned GPUs before they are bound
            self.volcano.reload(self.volcano.with_us())  # now: it is another pod of the companion, with another address
            self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": items})
            for number in range(4):
                self.placed.bound(f"job-name=plain-{number}", 4)
            stuck = [number for number in range(4) if not self.whole(f"placed-{number}", 4)]
            self.placed.no_gpu_twice()
            if stuck:
                for number in range(4):
                    self.cluster.kubectl("delete", "job", f"plain-{number}", "--wait=false")
                    self.placed.gone(f"job-name=plain-{number}")
            places = {}
            for number in range(4):
                pods = self.placed.bound(f"job-name=placed-{number}", 4)
                places[number] = self.placed.check_placed(pods, 16)
            self.placed.no_gpu_twice()
            every = self.placed.pods().values()
            same(sum(gpus_of(pod) for pod in every if pod["spec"].get("nodeName")), 128 if stuck else 256, "GPUs of all pods together")
        return json.dumps(places) + (f"; stuck until there was room: {stuck}" if stuck else "")

    def finds(self, kinds):
        """Waits until the audit has found so many of each kind, and no others."""
        def told():
            now = audit.counted(self.placed.ask("/metrics"))
            return now == kinds or (False, now)
        until(f"the audit to find {kinds}", told)

    @staticmethod
    def forged(name, index, node, gpus, planned=None, **spec):
        """A pod with a plan that nobody made, as the policy lets somebody make it while the webhook does not answer."""
        planned = planned or node
        key = "batch.kubernetes.io/job-completion-index"
        pod = pod_template(gpus, group=2 * gpus, labels={"batch.kubernetes.io/job-name": name, key: str(index)}, affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [planned]}]}]}}}, **spec)
        pod["metadata"].update(name=f"{name}-{index}", namespace="default")
        pod["metadata"]["annotations"].update({
            key: str(index), f"{PLAN}node": planned, f"{PLAN}unit": "0", f"{PLAN}rank": str(index),
            f"{PLAN}gpus": json.dumps({"main": [f"GPU-{planned}-{gpu}" for gpu in range(gpus)]})})
        return {"apiVersion": "v1", "kind": "Pod", **pod}

    def audited(self):
        """A unit in two racks, a GPU in two plans, a pod on another node than planned: each is told, and forgotten when it has gone."""
        self.finds({})
        with self.without_companion():
            for pod in (self.forged("torn", 0, "hollow-1-0", 8, nodeName="hollow-1-0"),
                        self.forged("torn", 1, "hollow-2-0", 8, nodeName="hollow-2-0"),
                        self.forged("one", 0, "hollow-3-0", 4, nodeName="hollow-3-0"),
                        self.forged("two", 0, "hollow-3-0", 4, schedulerName=NOBODY),
                        self.forged("moved", 0, "hollow-4-0", 8, planned="hollow-4-1", nodeName="hollow-4-0")):
                self.placed.create(pod)
        self.finds({"UnitTorn": 1, "DoublePlanned": 1, "Misplaced": 1})
        for words in (("UnitTorn", "hollow-1-0 in rack-1", "hollow-2-0 in rack-2"), ("DoublePlanned", "default/one-0", "default/two-0"),
                      ("Misplaced", "default/moved-0 is on node hollow-4-0", "for node hollow-4-1")):
            self.placed.event(*words)
        self.placed.clean()
        self.finds({})
        audit.forget(self.cluster)

    def rotated(self):
        """The certificate is renewed under the same CA: the webhook goes on, without a restart."""
        before = (self.placed.tls / "tls.crt").read_text()
        self.placed.make_certificates()
        if (self.placed.tls / "tls.crt").read_text() == before:
            raise Failed("daemonset/tls made the same certificate again")
        pod = self.placed.companion()["metadata"]["uid"]
        self.placed.apply_manifests()
        self.placed.rolled_out()
        same(self.placed.companion()["metadata"]["uid"], pod, "the companion's pod")
        self.placed.create(job("signed", 4, pod_template(8, group=32)))
        self.placed.check_placed(self.placed.bound("job-name=signed", 4), 32)

    def run(self):
        if self.volcano:  # there is no kube-proxy: Volcano would go on asking the address of a pod that has gone
            self.volcano.reload(self.volcano.without_us())

        def case(name, run):
            return self.report.case(name, run, before=self.placed.clean)
        case("the companion is killed in mid-plan", self.killed)
        case("two replicas: who leads is killed, then halted, in mid-plan; the other takes over", self.replicas)
        case("the API server goes while a job is planned", self.apiserver)
        case("the webhook is down: pods without a plan are found, and placed where that is asked for", self.webhook_down)
        case("a node is drained between plan and bind: the job is planned again", self.drained)
        case("a GPU becomes unhealthy between plan and bind: repaired, where that is allowed", self.lost_and_repaired)
        case("a job is deleted while it is planned", self.deleted)
        case("the nodes' objects are stale", self.stale)
        if self.volcano:
            case("two schedulers race for the same GPUs", self.racing)
        case("placements that are wrong are found", self.audited)
        case("the certificate is renewed", self.rotated)
        self.placed.clean()
