# SPDX-License-Identifier: Apache-2.0
"""From earlier releases to this one, by exactly the lines that our pages give."""
import threading
import time

import yaml

from harness import install, previous
from harness.install import DAEMONSET, NAMESPACE
from harness.report import quick
from harness.waiting import same, until

PAGES = {"helm": ("docs/how-to/install.md", "Upgrade"), "kubectl": ("daemonset/README.md", "Upgrading and removing")}
SUPERNODES, PLACEMENTS = "supernodes.topology.metax-tech.com", "gpuplacements.topology.metax-tech.com"


class Gap(threading.Thread):
    """How long each node had fewer GPUs to give than 8, by its kubelet's usage table, while something went on."""

    def __init__(self, nodes):
        super().__init__(daemon=True)
        self.nodes, self.longest, self.end = nodes, dict.fromkeys(nodes, 0.0), threading.Event()

    def run(self):
        since = {}
        while not self.end.wait(0.1):  # the kubelet answers 100 questions a second, to all together
            for number, node in self.nodes.items():
                if len(node.usage.allocatable()) < 8:
                    since.setdefault(number, time.monotonic())
                elif number in since:
                    self.longest[number] = max(self.longest[number], time.monotonic() - since.pop(number))
        if since:
            self.longest.update(dict.fromkeys(since, float("inf")))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.join()

    def __str__(self):
        return ", ".join(f"node{number} {seconds:.1f} s" for number, seconds in self.longest.items())


class ReleaseCases:
    def __init__(self, chart, values):
        """`chart`: the ChartCases. `values`: with which its nodes have GPUs."""
        self.chart, self.values = chart, values
        self.now = yaml.safe_load((DAEMONSET / "chart/Chart.yaml").read_text())["appVersion"]
        self.old, self.daemonsets = previous.commits()[:1 if chart.report.is_quick else 2], {}  # what is upgraded from, and its daemonset/

    def latest(self):
        """daemonset/ of the release before; where the history is not here, of this one."""
        return self.daemonsets[self.old[0]] if self.old else DAEMONSET

    def definitions(self, daemonset=None):
        """{name: versions} of our custom resources, in the cluster or in those files."""
        items = self.chart.cluster.get("crd", "-l", "app.kubernetes.io/part-of=gputopo")["items"] if daemonset is None else [
            yaml.safe_load(file.read_text()) for file in (daemonset / "crds").iterdir() if file.name != "kustomization.yaml"]
        return {item["metadata"]["name"]: item["spec"]["versions"] for item in items}

    def defined(self, daemonset=DAEMONSET):
        there, wanted = self.definitions(), self.definitions(daemonset)
        same([name for name in wanted if there.get(name) != wanted[name]], [], f"definitions that are not those of {daemonset}")

    def defining(self):
        """When the release's Job of the definitions runs."""
        jobs = [item for item in yaml.safe_load_all(self.chart.helm("get", "hooks", "gputopo", "-n", NAMESPACE)) if item and item["kind"] == "Job"]
        return [item["metadata"]["annotations"]["helm.sh/hook"] for item in jobs if item["metadata"]["name"] == "gputopo-crds"]

    def versions(self):
        return {pod["spec"]["containers"][-1]["image"].rsplit(":", 1)[1] for pod in self.chart.agents().values()}

    @quick
    def fetch(self):
        for commit in self.old:
            archive = previous.archive(commit)
            for number in (1, 2):
                self.chart.cluster.ask(number, "ctr", "images", "import", archive)
            self.daemonsets[commit] = previous.daemonset(commit, self.chart.cluster.state / "before")
        return f"commits {' and '.join(self.old)}"

    @quick
    def upgrade(self):
        """By the page's first block, nothing else. The definitions are the chart's; the agents are replaced one node after the other; what runs
        keeps its GPUs, and the certificate stays."""
        before, secret, old = self.chart.holds(), self.chart.certificates(), self.chart.agents()
        objects = {item["metadata"]["uid"] for kind in ("ngt", "gpl") for item in self.chart.cluster.get(kind, "-A")["items"]}
        with Gap(self.chart.nodes) as gap:
            install.follow(self.chart.cluster, install.commands(*PAGES["helm"])[0])
            self.defined()
            self.chart.rolled_out()
        same((self.chart.heartbeats(), self.versions()), ({"5"}, {self.now}), "the agents' arguments and images")
        same(objects - {item["metadata"]["uid"] for kind in ("ngt", "gpl") for item in self.chart.cluster.get(kind, "-A")["items"]}, set(), "lost objects")
        same({number: pod["metadata"]["uid"] == old[number]["metadata"]["uid"] for number, pod in self.chart.agents().items()},
             {1: False, 2: False}, "agents that were not replaced")
        same(self.chart.holds(), before, "GPUs and containers of pods after the upgrade")
        same(self.chart.certificates(), secret, "the certificate after the upgrade")
        return f"no GPU to give for at most: {gap}"

    def rollback(self):
        """The release before comes back with its own definitions."""
        before = self.chart.holds()
        with Gap(self.chart.nodes) as gap:
            self.chart.helm("rollback", "gputopo", "1", "-n", NAMESPACE, "--wait", "--timeout=290s")
            self.chart.rolled_out()
        same((self.chart.heartbeats(), self.versions()), ({"5"}, {previous.version(self.old[0])}), "the agents' arguments and images")
        same(self.chart.holds(), before, "GPUs and containers of pods after the rollback")
        self.defined(self.daemonsets[self.old[0]])
        return f"no GPU to give for at most: {gap}"

    def older(self):
        """Each way that the page has. What a release adds is not there in the one before."""
        ways = install.commands(*PAGES["helm"])
        commit = self.old[1]
        for way in ways:
            self.chart.cluster.kubectl("delete", "-k", DAEMONSET / "crds")
            self.chart.release("install", *self.values, chart=self.daemonsets[commit] / "chart")
            self.defined(self.daemonsets[commit])
            if way is ways[0]:
                self.chart.cluster.kubectl("delete", "crd", PLACEMENTS)
            install.follow(self.chart.cluster, way)
            self.defined()
            if way is ways[0]:
                same(self.defining(), ["pre-install,pre-upgrade,pre-rollback"], "when old definitions are replaced")
                self.chart.rolled_out()
                same(self.versions(), {self.now}, "the agents' images")
            self.remove()
        return f"commit {commit}, in {len(ways)} ways"

    def remove(self):
        self.chart.helm("uninstall", "gputopo", "-n", NAMESPACE, "--wait", "--timeout=290s")
        until("the release's pods to be gone", lambda: not self.chart.cluster.get("pods", "-n", NAMESPACE)["items"])

    def plain(self):
        """The manifests of both releases, one after the other, then this one's as the page says it."""
        self.remove()
        self.chart.cluster.kubectl("delete", "-k", DAEMONSET / "crds")
        block, = install.commands(*PAGES["kubectl"])
        for commit in reversed(self.old):
            self.chart.cluster.kubectl("apply", "--server-side", "-k", self.daemonsets[commit])
            self.defined(self.daemonsets[commit])
        install.follow(self.chart.cluster, block)
        self.defined()
        self.chart.cluster.kubectl("rollout", "status", "deployment/gputopo-scheduler", "-n", NAMESPACE, "--timeout=290s")
        self.chart.cluster.kubectl("rollout", "status", "daemonset/gputopo-agent", "-n", NAMESPACE, "--timeout=290s")
