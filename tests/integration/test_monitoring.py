#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""daemonset/monitoring against what the programs really serve: every metric, label and value that a rule or the dashboard
names; each rule with promtool; and a real Prometheus that scrapes both daemons. Without Prometheus
on PATH what needs it is skipped.

Usage: test_monitoring.py DIRECTORY_OF_PROGRAMS [unittest arguments]
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import yaml
from daemon_driver import PATIENCE, free_port, wait_for
from kube_driver import make_authority
from served import NAMESPACE, Served, families, probing_agent

PROGRAMS = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
HERE = os.path.dirname(os.path.abspath(__file__))
MONITORING = os.path.join(HERE, "../../daemonset/monitoring")
TARGET_LABELS = {"job", "instance", "namespace", "pod", "container", "node",  # that the PodMonitors give
                 "cluster"}  # where one Prometheus holds several
SELECTOR = re.compile(r"\b((?:gputopo|process)_\w+)(?:\{([^}]*)\})?")


def load(name):
    with open(f"{MONITORING}/{name}", encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def rules():
    return [rule for group in load("rules.yaml")[0]["spec"]["groups"] for rule in group["rules"]]


def dashboard_queries():
    """(title, expression, legend)"""
    dashboard, = load("dashboard.json")
    return [(panel["title"], target["expr"], target["legendFormat"])
            for panel in dashboard["panels"] for target in panel.get("targets", [])]


def program(name):
    path = shutil.which(name)
    if not path:
        raise unittest.SkipTest(f"{name} is not installed (Debian's package prometheus)")
    return path


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="gputopo-monitoring-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)

    def serve(self):
        directory = tempfile.mkdtemp(dir=self.directory)
        served = Served(PROGRAMS, directory)
        self.addCleanup(served.close)
        served.add_job("fits", 1, 8)
        served.add_job("waits", 8, 64)
        served.settle()
        served.kubelet.admit("mine", 2)
        self.assertTrue(wait_for(lambda: "gputopo_gpus_in_use 2" in served.agent.get("/metrics")[1]))
        return served


class Names(Case):
    def check(self, where, expression, texts, served):
        """Metrics, labels and values of the expression; labels that the texts want."""
        known = set(TARGET_LABELS)
        for name, matchers in SELECTOR.findall(expression):
            family = served.get(name) or served.get(re.sub("_(bucket|sum|count)$", "", name))
            self.assertIsNotNone(family, f"{where}: no program serves {name}")
            labels = family["labels"]
            known |= set(labels) | ({"le"} if name.endswith("_bucket") else set())
            for label, operator, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', matchers):
                self.assertIn(label, set(labels) | TARGET_LABELS, f"{where}: {name} has no label {label}")
                if label in labels and not value.startswith("$"):
                    found = [v for v in labels[label] if (re.fullmatch(value, v) if "~" in operator else v == value)]
                    self.assertTrue(found, f"{where}: no {label} of {name} is {value}, only {sorted(labels[label])}")
        kept = set()
        for word, names in re.findall(r"\b(by|on|group_left) \(([^)]*)\)", expression):
            wanted = {name.strip() for name in names.split(",") if name.strip()}
            self.assertLessEqual(wanted, known, where)
            kept |= wanted if word == "by" else set()
        left = kept if re.search(r"\bby \(", expression) else known
        for text in texts:
            for label in re.findall(r"\$labels\.(\w+)", text) + re.findall(r"\{\{(\w+)\}\}", text):
                self.assertIn(label, left, f"{where}: {text}")

    def test_what_is_used_is_served(self):
        served = self.serve()
        found = {**families(probing_agent(served)), **families(served.agent.get("/metrics")[1]),
                 **families(served.companion.get("/metrics")[1])}
        queries = dashboard_queries()
        self.assertGreater(len(rules()), 10)
        self.assertGreater(len(queries), 30)
        for rule in rules():
            self.check(rule["alert"], rule["expr"], rule["annotations"].values(), found)
        for title, expression, legend in queries:
            self.check(title, expression, [legend], found)
        # what the check itself is worth
        for wrong in ("gputopo_nothing > 0", 'gputopo_gpus{state="lost"}', 'gputopo_gpus{health="sick"}', "sum by (kind) (gputopo_gpus)"):
            with self.assertRaises(AssertionError):
                self.check("", wrong, [], found)
        with self.assertRaises(AssertionError):
            self.check("", "sum by (node) (gputopo_gpus)", ["{{ $labels.health }}"], found)

    def test_form(self):
        names = [rule["alert"] for rule in rules()]
        self.assertEqual(len(names), len(set(names)))
        with open(f"{HERE}/alerts.yaml", encoding="utf-8") as file:
            tests = file.read()
        for rule in rules():
            self.assertIn(rule["labels"]["severity"], ("critical", "warning", "info"))
            self.assertEqual(set(rule["annotations"]), {"summary", "description", "runbook_url"}, rule["alert"])
            self.assertTrue(rule["alert"] in tests, f"{rule['alert']} is not tried in alerts.yaml")
            self.assertRegex(rule["annotations"]["runbook_url"], r"^docs/(troubleshooting|reference/symptoms)\.md#")
        dashboard, = load("dashboard.json")
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))

    def test_monitors_select_the_pods(self):
        """Name, label and port of each PodMonitor are those of the manifest that it is for."""
        for monitor, manifest in zip(load("podmonitors.yaml"), ("agent.yaml", "companion.yaml")):
            with open(f"{MONITORING}/../base/{manifest}", encoding="utf-8") as file:
                workload = next(d for d in yaml.safe_load_all(file) if d["metadata"]["name"] == monitor["metadata"]["name"])
            template = workload["spec"]["template"]
            labels = template["metadata"]["labels"]
            self.assertLessEqual(monitor["spec"]["selector"]["matchLabels"].items(), labels.items())
            self.assertEqual(labels[monitor["spec"]["jobLabel"]], monitor["metadata"]["name"], "the rules name the job so")
            ports = {port["name"] for container in template["spec"]["containers"] for port in container.get("ports", [])}
            self.assertIn(monitor["spec"]["podMetricsEndpoints"][0]["port"], ports)


def in_cluster(series, cluster, well=False):
    """An input series of alerts.yaml, as a cluster's; `well`: what it begins with lasts."""
    values = re.sub(r"^(\S+)x\d+ .*$", r"\1x130", series["values"]) if well else series["values"]
    return {"series": series["series"].replace("{", f'{{cluster="{cluster}",', 1), "values": values}


def on_two_clusters(test):
    """The test with the same series of two clusters, of which one stays well: it raises no alert, and the other one all."""
    series = test["input_series"]
    expected = [{**question, "expr": question["expr"].replace("ALERTS{", 'ALERTS{cluster="sick",')}
                for question in test["promql_expr_test"]]
    return {**test, "name": "two clusters: " + test["name"],
            "input_series": [in_cluster(one, "sick") for one in series] + [in_cluster(one, "well", True) for one in series],
            "promql_expr_test": [*expected, {"expr": 'count_over_time(ALERTS{cluster!="sick"}[130m])', "eval_time": "130m"}]}


class Promtool(Case):
    def promtool(self, *command):
        done = subprocess.run([program("promtool"), *command], cwd=self.directory, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_rules(self):
        program("promtool")
        with open(f"{self.directory}/rules.yml", "w", encoding="utf-8") as file:
            yaml.safe_dump(load("rules.yaml")[0]["spec"], file)
        with open(f"{HERE}/alerts.yaml", encoding="utf-8") as file:
            tests = yaml.safe_load(file)
        every = tests["tests"][0]
        raised = {word for question in every["promql_expr_test"] for sample in question.get("exp_samples", [])
                  for word in re.findall(r'alertname="(\w+)"', sample["labels"])}
        self.assertEqual(raised, {rule["alert"] for rule in rules()}, "the first test raises every alert")
        tests["tests"].append(on_two_clusters(every))
        with open(f"{self.directory}/tests.yml", "w", encoding="utf-8") as file:
            yaml.safe_dump({"rule_files": ["rules.yml"], **tests}, file)
        self.promtool("check", "rules", "rules.yml")
        self.promtool("test", "rules", "tests.yml")


class RealPrometheus(Case):
    def start(self, served):
        """Prometheus on loopback, configured from the PodMonitors and the rules, which here do not wait."""
        scrape = []
        for monitor, port, labels in zip(load("podmonitors.yaml"), (served.agent.port, served.companion.port),
                                         ({"node": "n1"}, {})):
            endpoint = monitor["spec"]["podMetricsEndpoints"][0]
            name = monitor["metadata"]["name"]
            scrape.append({
                "job_name": name, "metrics_path": endpoint["path"], "honor_labels": endpoint["honorLabels"],
                "scrape_interval": "1s", "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": {
                    **labels, "pod": f"{name}-0", "namespace": NAMESPACE, "container": "main"}}]})
        groups = load("rules.yaml")[0]["spec"]["groups"]
        for group in groups:
            for rule in group["rules"]:
                rule.pop("for", None)
        folder = tempfile.mkdtemp(dir=self.directory)
        for name, content in (("rules.yml", {"groups": groups}),
                              ("prometheus.yml", {"global": {"evaluation_interval": "1s"}, "rule_files": ["rules.yml"],
                                                  "scrape_configs": scrape})):
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                yaml.safe_dump(content, file)
        self.port = free_port()
        with open(f"{folder}/log", "wb") as log:
            process = subprocess.Popen(
                [program("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)

    def ask(self, what, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is starting
                return {}
            raise AssertionError(f"{query}: {error.read().decode()}") from error
        except OSError:
            return {}

    def firing(self):
        return {alert["labels"]["alertname"]: alert for alert in self.ask("alerts").get("alerts", [])}

    def wait_firing(self, *names):
        if not wait_for(lambda: set(names) <= set(self.firing()), 2 * PATIENCE):
            raise AssertionError(f"{set(names) - set(self.firing())} did not come")

    def test_both_daemons(self):
        program("prometheus")
        served = self.serve()
        self.start(served)
        self.assertTrue(wait_for(lambda: [t["health"] for t in self.ask("targets").get("activeTargets", [])] == ["up", "up"]))
        time.sleep(4)
        self.assertTrue(wait_for(lambda: not self.firing()), ("all is well, but where a busy machine misses a look", self.firing()))

        def empty():
            found = []
            for title, expression, _ in dashboard_queries():
                answer = self.ask("query", query=expression.replace("$node", ".*").replace("$cluster", ".*").replace("$__rate_interval", "30s"))
                if not answer.get("result") and "gputopo_probe_" not in expression:  # a recording needs no probe
                    found.append((title, expression))
            return found
        self.assertTrue(wait_for(lambda: not empty()), empty())
        answer = self.ask("query", query='sum by (node, namespace, pod) (gputopo_gpu_used{node=~"n1"})')
        self.assertEqual([(r["metric"], r["value"][1]) for r in answer["result"]],
                         [({"node": "n1", "namespace": "default", "pod": "mine"}, "2")], "the user's pod, not the agent's")

        served.node["gpus"][2]["healthy"] = False
        next(link for link in served.node["links"] if link["kind"] == "MX")["state"] = "down"
        served.rescan()
        make_authority(served.directory, "companion", days=2)
        served.add_job("unseen", 1, 8)
        served.api.add(f"/api/v1/namespaces/{NAMESPACE}/configmaps", "gputopo-supernodes", data={"supernodes.yaml": "groups: ]"})
        self.wait_firing("GputopoGPUUnhealthy", "GputopoLinkDown", "GputopoSupernodeConflict", "GputopoCertificateExpires",
                         "GputopoPodsNotReviewed")
        served.kubelet.stop(leave_socket=False)
        self.wait_firing("GputopoPluginNotRegistered")
        served.api.stop()
        self.wait_firing("GputopoNobodyLeads")
        served.agent.stop()
        self.wait_firing("GputopoAgentDown")
        alerts = self.firing()
        for name, alert in alerts.items():
            for text in alert["annotations"].values():
                self.assertNotRegex(text, r"error|<no value>|\{\{", name)
        self.assertEqual(alerts["GputopoAgentDown"]["annotations"]["summary"], "The agent of n1 does not answer")
        served.api.start()  # for whoever stops it


unittest.main(verbosity=2)
