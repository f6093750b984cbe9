# SPDX-License-Identifier: Apache-2.0
"""daemonset/chart on Kubernetes before 1.30: what the cluster lacks is left out or refused, and the rest works."""
import json
import pathlib
import shutil
import types

from cases_chart import CHART, INSTALLED, NODE_PROFILE, SETS, ChartCases
from cases_policies import PolicyCases
from cases_volcano import task, vcjob
from harness.cluster import built
from harness.install import DAEMONSET, NAMESPACE, commands, follow
from harness.placed import annotation, pod_template
from harness.report import quick
from harness.schedulers import Volcano
from harness.waiting import Failed, same, until

UNPLACED = "placement.enabled: true needs Kubernetes 1.28"


class OlderCases(ChartCases):
    def __init__(self, report, cluster, build, version):
        super().__init__(report, cluster, build, None)
        self.version = version

    @quick
    def taken(self):
        """What the API server there knows of each set of values; it refuses a field or kind that it does not."""
        self.cluster.kubectl("create", "namespace", NAMESPACE)
        refused = 0
        for name, values in SETS.items():
            try:
                text = self.render(values, "--kube-version", self.version)
            except Failed as why:
                if UNPLACED not in str(why):
                    raise
                refused += 1
                text = self.render((*values, "placement.enabled=false", "scheduler.options.on-lost-plan=null"), "--kube-version", self.version)
            try:
                self.cluster.ask("control", "kubectl", "apply", "--server-side", "--dry-run=server", "-f", "-", data=text)
            except Failed as why:
                raise Failed(f"{name}: {why}") from why
        same(refused > 0, self.version.startswith("1.26."), "whether sets with placement are refused")
        return f"{len(SETS)} sets, {refused} of them without placement"

    @quick
    def installed_with(self, *values):
        self.recorded()
        seconds = self.from_nothing(CHART, *values)
        status = self.cluster.get("deployment", "gputopo-scheduler", "-n", NAMESPACE)["status"]
        same(status.get("availableReplicas"), 2, "companions that answer")
        return f"{seconds:.1f} s from the label to 8 GPUs"

    @quick
    def removed(self):
        self.helm("uninstall", "gputopo", "-n", NAMESPACE, "--wait", "--timeout=290s")
        for item in self.cluster.get("nodes")["items"]:
            left = [key for key in (*item["metadata"]["labels"], *item["metadata"].get("annotations", {})) if "metax-tech.com/" in key]
            same(left, [INSTALLED], f"labels and annotations of {item['metadata']['name']}")

    @quick
    def freed(self):
        self.removed()
        same(self.gates("waits"), [[], []], "gates of pods that nobody places any more")

    @quick
    def refused_whole(self):
        """As it is the chart wants gates. It says so, and nothing of it is there but the definitions, which Helm makes before it looks at values;
        with --dry-run=server not even these."""
        for more, definitions in ((["--dry-run=server"], 0), ([], 3)):
            try:
                self.release("install", wait=False, more=more)
            except Failed as why:
                if UNPLACED not in str(why) or self.version not in str(why):
                    raise
            else:
                raise Failed(f"it was installed {more}")
            same(self.cluster.kubectl("get", "crd", "-o", "name").count("topology.metax-tech.com"), definitions, f"definitions after helm install {more}")
        same(self.helm("list", "-A", "-q").split(), [], "releases")
        found = self.cluster.kubectl("get", "clusterrole,serviceaccount,secret,daemonset,deployment", "-A", "-o", "name").split()
        same([name for name in found if "gputopo" in name or "metax" in name], [], "what is there of it")

    @quick
    def node_profile(self):
        seconds = self.installed_with(*NODE_PROFILE)
        notes = self.helm("get", "notes", "gputopo", "-n", NAMESPACE)
        missing = [part for part in ("placement (1.28", "admission policies (1.30", "claims (1.34") if part not in notes]
        same(missing, [], f"what the notes do not say that this cluster cannot have: {notes}")
        written = self.cluster.get("node", "node2")["metadata"]
        missing = {"metax-tech.com/gpu.topology.scores", "metax-tech.com/gpu.product"} - {**written["labels"], **written["annotations"]}.keys()
        same(missing, set(), "annotations and labels that the Node lacks")
        return seconds

    @quick
    def strict(self):
        """By the lines of permissions.md. What follows runs with these system calls alone, as containerd has them from the file."""
        profile = DAEMONSET / "seccomp/gputopo.json"
        for number in self.nodes:
            place = self.cluster.kubelet_dir(number) / "seccomp"
            place.mkdir(exist_ok=True)
            shutil.copy(profile, place)
        lines, = commands("docs/reference/permissions.md", "A stricter seccomp profile")
        follow(self.cluster, lines)
        for what in "daemonset/gputopo-agent", "deployment/gputopo-scheduler":
            self.cluster.kubectl("rollout", "status", what, "-n", NAMESPACE, "--timeout=290s")
        wanted, confined = json.loads(profile.read_text()), []
        for item in self.cluster.get("pods", "-n", NAMESPACE)["items"]:
            name = item["metadata"]["labels"].get("app.kubernetes.io/name")
            if name in ("gputopo-agent", "gputopo-scheduler") and "deletionTimestamp" not in item["metadata"]:
                started, = item["status"]["containerStatuses"]
                spec = json.loads(self.cluster.ask(item["spec"]["nodeName"].removeprefix("node"), "ctr", "containers", "info",
                                                   started["containerID"].split("//")[1]))["Spec"]
                given = spec["linux"]["seccomp"]
                same((given["defaultAction"], given["syscalls"][0]["names"], started["restartCount"]),
                     (wanted["defaultAction"], wanted["syscalls"][0]["names"], 0), f"the profile and restarts of {item['metadata']['name']}")
                confined.append(name)
        same(sorted(confined), ["gputopo-agent"] * 2 + ["gputopo-scheduler"] * 2, "containers with the profile")
        return f"{len(wanted['syscalls'][0]['names'])} system calls"

    @quick
    def used(self):
        """Pods get GPUs, of which the kubelet's table and the published owners agree."""
        self.run_pod("two", 1, 2)
        self.run_pod("eight", 2, 8)
        used = {number: sorted(gpu for gpus in node.used().values() for gpu in gpus) for number, node in self.nodes.items()}
        same({number: len(set(gpus)) for number, gpus in used.items()}, {1: 2, 2: 8}, "GPUs in use by the kubelets")

        def published():
            said = {item["metadata"]["name"]: item["status"].get("freeCount") for item in self.cluster.get("ngt")["items"]}
            return said == {"node1": 6, "node2": 0} or (False, said)
        until("the published use of the GPUs", published)

    @quick
    def extender(self):
        self.asked_by_schedulers(self.cluster.get("secret", "gputopo-scheduler-tls", "-n", NAMESPACE)["data"])

    @quick
    def in_volcano(self):
        """By the manual's ConfigMaps: a unit comes to one node, and its containers have the GPUs that their Bindings named."""
        volcano = Volcano(types.SimpleNamespace(cluster=self.cluster), pathlib.Path(built("volcano")[0]),
                          pathlib.Path(built("vc-scheduler")[0]) / "vc-scheduler")
        template = pod_template(2, group=4)
        del template["spec"]["nodeSelector"]
        volcano.start(volcano.with_plugins())  # its webhooks stay, so it runs until the cluster ends
        self.cluster.kubectl("create", "-f", "-", data=vcjob("unit", task("t", 2, template), minAvailable=2))

        def running():
            items = self.cluster.get("pods", "-l", "volcano.sh/job-name=unit")["items"]
            return [item["status"]["phase"] for item in items] == ["Running"] * 2 and items or (
                False, ([item["status"] for item in items], self.cluster.get("podgroups.scheduling.volcano.sh")["items"]))
        items = until("the unit to run", running)
        on = {item["spec"]["nodeName"] for item in items}
        same(len(on), 1, f"nodes of the unit: {on}")
        node = self.nodes[int(on.pop().removeprefix("node"))]
        used = node.used()
        for item in items:
            planned = node.machine.indices(json.loads(annotation(item, "gpus"))["main"])
            same(sorted(used[item["metadata"]["name"], "main"]), sorted(planned), f"the GPUs of {item['metadata']['name']}")
        self.cluster.kubectl("delete", "jobs.batch.volcano.sh", "unit", "--wait")

    @quick
    def replaced(self):
        """Definitions stay after an uninstall. One that is older than the chart's is brought up by the next helm install, before anything needs it."""
        name = "supernodes.topology.metax-tech.com"
        columns = [one["name"] for one in self.cluster.get("crd", name)["spec"]["versions"][0]["additionalPrinterColumns"]]
        self.cluster.kubectl("patch", "crd", name, "--type=json", "-p", '[{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}]')
        self.release("install", *NODE_PROFILE)
        same([one["name"] for one in self.cluster.get("crd", name)["spec"]["versions"][0]["additionalPrinterColumns"]], columns, "columns of Supernodes")
        self.helm("uninstall", "gputopo", "-n", NAMESPACE, "--wait", "--timeout=290s")

    def run_1_28(self):
        case = self.report.case
        case("every set of values renders, and the API server takes it", self.taken)
        if case("the image is built and imported", self.new_image) and \
                case("helm install: nodes have GPUs and objects", self.installed_with) and \
                case("agents and companions with the stricter seccomp profile", self.strict) and \
                case("a job is placed and runs", self.placed):
            case("gputopo explain asks by the API server", self.explained)
            case("the webhook refuses what the admission policies refuse elsewhere", PolicyCases(self, by_webhook=True).enforced)
            case("helm uninstall takes back what was written", self.freed)

    def run_1_26(self):
        case = self.report.case
        case("every set of values that needs no placement renders, and the API server takes it", self.taken)
        case("helm install with placement is refused as a whole", self.refused_whole)
        if case("the image is built and imported", self.new_image) and \
                case("helm install without placement: nodes have GPUs, objects and annotations", self.node_profile):
            case("agents and companions with the stricter seccomp profile", self.strict)
            case("pods get GPUs, and the objects say who has them", self.used)
            case("kube-scheduler's extender answers by TLS", self.extender)
            case("Volcano's scheduler with our plugins: a unit on one node, with the GPUs that it planned", self.in_volcano)
            if case("helm uninstall takes back what was written", self.removed):
                case("helm install replaces an old definition", self.replaced)
