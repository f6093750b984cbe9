# SPDX-License-Identifier: Apache-2.0
"""daemonset/monitoring on a real cluster: a real Prometheus scrapes agents and companion as the PodMonitors say."""
import json
import re
import shutil
import subprocess
import urllib.parse

import yaml

from cases_api import ROOT
from harness.install import NAMESPACE
from harness.report import quick
from harness.waiting import Failed, until

ADDRESS = "127.0.0.1:9090"  # of the control plane's network namespace
FETCH = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"
QUIT = f"import urllib.request; urllib.request.urlopen('http://{ADDRESS}/-/quit', data=b'', timeout=10)"
META = "__meta_kubernetes_pod_"


def program():
    return shutil.which("prometheus")


def load(name):
    return list(yaml.safe_load_all((ROOT / "daemonset" / "monitoring" / name).read_text()))


def label(name):
    return META + "label_" + re.sub(r"\W", "_", name)


def scrape(monitor):
    """What the Prometheus operator makes of a PodMonitor, as far as ours go. Debian's Prometheus is built without the
    discovery of Kubernetes: a file says what that would find."""
    endpoint, = monitor["spec"]["podMetricsEndpoints"]
    keep = [([label(name)], value) for name, value in monitor["spec"]["selector"]["matchLabels"].items()]
    keep.append(([META + "container_port_name"], endpoint["port"]))
    copied = {"job": label(monitor["spec"]["jobLabel"]), "namespace": "__meta_kubernetes_namespace", "pod": META + "name",
              "container": META + "container_name"}
    return {"job_name": monitor["metadata"]["name"], "metrics_path": endpoint["path"], "honor_labels": endpoint["honorLabels"],
            "scrape_interval": "1s",
            "file_sd_configs": [{"files": ["pods.json"]}],
            "relabel_configs": [
                *({"action": "keep", "source_labels": names, "regex": value} for names, value in keep),
                *({"source_labels": [source], "target_label": target} for target, source in copied.items()),
                *({"source_labels": one["sourceLabels"], "target_label": one["targetLabel"]}
                  for one in endpoint.get("relabelings", []))]}


class MonitoringCases:
    def __init__(self, daemonset):
        self.of, self.cluster, self.report = daemonset, daemonset.cluster, daemonset.report
        self.folder = self.cluster.state / "prometheus"
        self.process = None

    def ask(self, what, **query):
        url = f"http://{ADDRESS}/api/v1/{what}?{urllib.parse.urlencode(query)}"
        return json.loads(self.cluster.ask("control", "/usr/bin/python3", "-c", FETCH, url))["data"]

    def firing(self):
        """{alert: nodes}, without waiting for their time."""
        found = {}
        for alert in self.ask("alerts")["alerts"]:
            found.setdefault(alert["labels"]["alertname"], []).append(alert["labels"].get("node"))
        return found

    def discover(self):
        """Every port of every pod in the namespace, with the labels that Prometheus gives to them."""
        found = [{"targets": [f"{pod['status']['podIP']}:{port['containerPort']}"], "labels": {
            "__meta_kubernetes_namespace": NAMESPACE, META + "name": pod["metadata"]["name"],
            META + "node_name": pod["spec"]["nodeName"], META + "container_name": container["name"],
            META + "container_port_name": port["name"],
            **{label(name): value for name, value in pod["metadata"]["labels"].items()}}}
            for pod in self.cluster.get("pods", "-n", NAMESPACE)["items"] if pod["status"].get("podIP")
            for container in pod["spec"]["containers"] for port in container.get("ports", [])]
        file = self.folder / "pods.json"
        file.with_suffix(".new").write_text(json.dumps(found))
        file.with_suffix(".new").rename(file)

    @quick
    def targets(self):
        folder = self.folder
        folder.mkdir()
        self.discover()
        groups = load("rules.yaml")[0]["spec"]["groups"]
        for rule in (rule for group in groups for rule in group["rules"]):
            rule.pop("for", None)
        jobs = [scrape(monitor) for monitor in load("podmonitors.yaml")]
        (folder / "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
        (folder / "prometheus.yml").write_text(yaml.safe_dump(
            {"global": {"evaluation_interval": "1s"}, "rule_files": ["rules.yml"], "scrape_configs": jobs}))
        with open(folder / "log", "w", encoding="utf-8") as log:
            self.process = self.cluster.enter(
                "control", program(), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={ADDRESS}", "--web.enable-lifecycle", stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def found():
            try:
                targets = self.ask("targets")["activeTargets"]
            except Failed as failed:
                return False, str(failed)[-200:]
            got = sorted((one["labels"]["job"], one["labels"].get("node"), one["health"]) for one in targets)
            return got == [("gputopo-agent", "node1", "up"), ("gputopo-agent", "node2", "up"),
                           ("gputopo-scheduler", None, "up")] or (False, got)
        until("Prometheus to find both agents and the companion", found, 60)

    @quick
    def quiet(self):
        """Samples of all three, and no alert."""
        until("the companion's samples", lambda: self.ask("query", query="gputopo_leader == 1")["result"])
        until("no alert", lambda: not self.firing() or (False, self.firing()), 60)
        dashboard, = load("dashboard.json")
        queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
        answered = [self.ask("query", query=query.replace("$node", ".*").replace("$cluster", ".*").replace("$__rate_interval", "10s")) for query in queries]
        return f"{sum(bool(one['result']) for one in answered)} of {len(queries)} queries of the dashboard have an answer now"

    def user(self):
        """Whose a GPU is: the user's pod, not the agent's."""
        self.of.run_pod("watched", 1, 3)
        query = 'sum by (node, namespace, pod) (gputopo_gpu_used{node="node1"})'

        def told():
            got = [(one["metric"], one["value"][1]) for one in self.ask("query", query=query)["result"]]
            return got == [({"node": "node1", "namespace": "default", "pod": "watched"}, "3")] or (False, got)
        until("Prometheus to know the pod", told)
        self.cluster.kubectl("delete", "pod", "watched", "--wait")

    @quick
    def link(self):
        self.of.machines[2].set_link(0, 1, up=False)
        until("the alert", lambda: self.firing().get("GputopoLinkDown") == ["node2"] or (False, self.firing()))
        self.of.machines[2].set_link(0, 1, up=True)
        until("its end", lambda: "GputopoLinkDown" not in self.firing() or (False, self.firing()))

    def nobody_leads(self):
        self.cluster.kubectl("scale", "deployment/gputopo-scheduler", "-n", NAMESPACE, "--replicas=0")
        until("the alert", lambda: "GputopoNobodyLeads" in self.firing() or (False, self.firing()))
        self.cluster.kubectl("scale", "deployment/gputopo-scheduler", "-n", NAMESPACE, "--replicas=1")
        self.cluster.kubectl("rollout", "status", "deployment/gputopo-scheduler", "-n", NAMESPACE, "--timeout=290s")
        self.discover()
        until("its end", lambda: "GputopoNobodyLeads" not in self.firing() or (False, self.firing()), 60)

    def run(self):
        case = self.report.case
        if not program():
            self.report.skip("Prometheus", "it is not installed (Debian's package prometheus)")
            return
        try:
            if case("Prometheus finds both agents and the companion as the PodMonitors say", self.targets):
                case("no alert on a sound cluster", self.quiet)
                case("whose a GPU is, in Prometheus", self.user)
                case("a link goes down: an alert names the node, and ends", self.link)
                case("no companion: an alert, which ends", self.nobody_leads)
        finally:
            if self.process and self.process.poll() is None:  # in a PID namespace, where no signal from here reaches it
                self.cluster.ask("control", "/usr/bin/python3", "-c", QUIT)
                self.process.wait(30)
