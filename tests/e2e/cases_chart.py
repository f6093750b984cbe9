# SPDX-License-Identifier: Apache-2.0
"""daemonset/chart by Helm: rendered in every shape, installed, upgraded, rolled back, broken, and removed again."""
import base64
import json
import os
import re
import shutil
import stat
import subprocess
import time

import yaml

from cases_daemonset import FETCH, OPEN, PROBE_RESOURCE, DaemonSetCases
from cases_described import DescribedCases
from cases_network import NetworkCases
from cases_policies import PolicyCases
from cases_publish import PublishCases
from cases_releases import SUPERNODES, ReleaseCases
from harness import install, pods, reboot
from harness.account import Account
from harness.claims import DraNode, claiming, template
from harness.install import DAEMONSET, DEVICES, NAMESPACE
from harness.machine import Machine
from harness.node import Node
from harness.placed import GATE, PRIORITIZE, annotation, job, pod_template
from harness.recordings import C500, C550
from harness.report import quick
from harness.waiting import Failed, same, until

CHART = DAEMONSET / "chart"
INSTALLED = "metax-tech.com/gpu.installed"
RECORDED = ("agent.recordings.configMap=gputopo-recordings", f"agent.options.dev-root={DEVICES}")
PLACED = ("placement.enabled=true", "placement.certificates.mode=existing")
NODE_PROFILE = ("placement.enabled=false", "scheduler.options.only={supernodes,extender,ui}")  # what Kubernetes 1.26 can have
STRICT = tuple(f"{who}.seccompProfile.{what}" for who in ("agent", "scheduler") for what in ("type=Localhost", "localhostProfile=gputopo.json"))
SECCOMP = ({"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "gputopo.json"})
# Each option that the chart has, with another value than the default (tests/integration/test_chart.py compares them): those that work
# without the placement, and those that mean something only with it
OPTIONS = {
    "agent": ("root=/host", "dev-root=/host/dev", "kubelet-dir=/var/lib/k0s/kubelet", "kubelet-config=/etc/kubelet.yaml", "kubelet-configz=true",
              "resource=example.com/gpu", "device-strategy=both", "cdi-dir=/etc/cdi", "vendor=1ed5", "http=:19400", "health=:19402",
              "rescan-interval=86400", "stale-links=600", "health-interval=0", "log-level=debug", "log-format=text", "honour-plan=false",
              "heartbeat=60", "admit-after-check=all", "fault-conditions=KernelDeadlock=report"),
    "scheduler": ("only={supernodes,ui}", "http=[::]:19401", "health=:19403", "extender-clients={mine,scheduler.example}", "weight=2.5",
                  "loss-weight=1", "closeness-weight=2", "unannotated=prefer", "chain={8,24,72}", "close=prefer",
                  "supernode-label=example.com/rack", "supernodes-config=racks", "network=fabric",
                  "network-labels={example.com/leaf,example.com/spine}", "project={hypernodes,nodefeatures}", "leader-elect=false",
                  "log-level=error", "log-format=text"),
}
PLACED_OPTIONS = {
    "agent": ("advertise=dra", "dra-taint=NoSchedule", "dra-composites=true", "no-publish=false"),
    "scheduler": ("webhook-clients={apiserver}", "ui-access=checked", "ui-clients={operator}", "on-lost-plan=recreate", "claims=groups", "patience=5",
                  "unschedulable=10", "node-loss-after=600", "brake=20", "on-unhealthy-gpu=evict", "taint-unhealthy=NoSchedule", "rebalance=evict",
                  "preempt=true", "moves-a-day=20", "spare-nodes=1", "reserve=60", "reserve-yield=7", "reserve-gpus=64"),
}
OPTION_SETS, PLACED_OPTION_SETS = (tuple(f"{who}.options.{one}" for who, all_of in options.items() for one in all_of)
                                   for options in (OPTIONS, PLACED_OPTIONS))

SETS = {  # name: values
    "as it is": (),
    "another plugin serves": ("mode=topologyOnly",),
    "annotations alone": ("mode=annotationsOnly",),
    "nodes by PCI": ("agent.nodes=pci", "agent.pciClasses={0302,1200}"),
    "every node": ("agent.nodes=all", "agent.tolerations=null"),
    "no probe": ("probe.mode=none",),
    "a privileged probe": ("probe.mode=privileged",),
    "a probe beside another plugin": ("mode=topologyOnly", "probe.mode=device", "probe.library=/usr/local/lib"),
    "recordings": RECORDED,
    "agents alone": ("scheduler.enabled=false", "placement.enabled=false"),
    "agents that publish nothing": ("scheduler.enabled=false", "placement.enabled=false", "agent.options.no-publish=true"),
    "a stricter seccomp profile": STRICT,
    "the extender without placement": NODE_PROFILE,
    "one replica": ("scheduler.replicas=1",),
    "two replicas without a budget": ("podDisruptionBudget.enabled=false",),
    "narrow network policies": ("networkPolicy.apiServerCidrs={10.0.0.0/28,fd00::/64}", "networkPolicy.volcano=null",
                                "networkPolicy.from[0].namespaceSelector.matchLabels.a=b"),
    "network policies that let nobody in": ("networkPolicy.from=null", "networkPolicy.volcano=null"),
    "no network policies": ("networkPolicy.enabled=false",),
    "a certificate of ours": (*PLACED, "placement.certificates.secretName=mine", "placement.certificates.caBundle=-----BEGIN CERTIFICATE-----"),
    "names of the extender": ("placement.certificates.extraNames={10.1.2.3,extender.example.com}",),
    "a webhook that fails": ("placement.webhook.failurePolicy=Fail", "placement.webhook.excludedNamespaces={kube-system,monitoring}"),
    "pods made again": ("scheduler.options.on-lost-plan=recreate",),
    "HyperNodes and NodeFeatures": ("scheduler.options.project={hypernodes,nodefeatures}",),
    "every option": ("placement.enabled=false", "scheduler.replicas=1", *OPTION_SETS),
    "every option of the placement": (*PLACED, *PLACED_OPTION_SETS),
    "an image by its digest": ("image.repository=registry.example.com/gputopo", f"image.digest=sha256:{'0' * 64}",
                               "image.pullSecrets[0].name=registry"),
    "the neighbours of ports": ("agent.lldp=true",),
    "a fault table": ("agent.faultTable.signals.temperature.threshold=95", "agent.podAnnotations.c=d"),
    "labels and annotations": ("agent.podLabels.a=b", "agent.podAnnotations.c=d", "scheduler.podLabels.a=b",
                               "scheduler.podAnnotations.c=d", "agent.seLinuxOptions.type=container_device_plugin_t"),
    "common labels and annotations": ("commonLabels.team=gpu", "commonAnnotations.example\\.com/owner=gpu", "monitoring.enabled=false",
                                      "agent.serviceAccountAnnotations.a=b", "scheduler.serviceAccountAnnotations.a=b"),
    "variables and volumes": ("agent.extraEnv[0].name=A", "agent.extraEnv[0].value=b", "scheduler.extraEnv[0].name=A",
                              *(f"{who}.{what}" for who in ("agent", "scheduler") for what in (
                                  "extraVolumes[0].name=more", "extraVolumes[0].emptyDir.sizeLimit=1Mi",
                                  "extraVolumeMounts[0].name=more", "extraVolumeMounts[0].mountPath=/more"))),
    "where pods go": ("agent.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=a",
                      "agent.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
                      "scheduler.topologySpreadConstraints[0].maxSkew=1", "scheduler.topologySpreadConstraints[0].topologyKey=zone",
                      "scheduler.topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway"),
    "no cleanup": ("cleanup.enabled=false",),
    "no old revisions": ("revisionHistoryLimit=0",),
    "definitions by other means": ("crds.upgradeJob.enabled=false",),
    "Volcano's scheduler": ("volcano.scheduler.enabled=true", "volcano.scheduler.namespace=default", "volcano.scheduler.replicas=2",
                            "volcano.scheduler.image.repository=registry.example.com/gputopo-vc-scheduler", "volcano.scheduler.image.tag=v1"),
    "roles for Volcano's own": ("volcano.scheduler.enabled=true", "volcano.scheduler.deployment=false"),
}
AGENTS, COMPANION, VOLCANO = {"DaemonSet/agent", "DaemonSet/probe"}, {"Deployment/scheduler"}, {"Deployment/vc-scheduler"}
HOOKS = {"Job/cleanup", "Job/crds"}
MARKED = {  # a value that is found again by its last word: the objects that have it
    "agent.affinity.podAffinity.a=mark-affinity": AGENTS,
    "scheduler.affinity.podAffinity.a=mark-scheduler-affinity": COMPANION,
    "agent.tolerations[0].key=mark-toleration": AGENTS,
    "scheduler.tolerations[0].key=mark-scheduler-toleration": COMPANION | HOOKS,
    "scheduler.topologySpreadConstraints[0].topologyKey=mark-spread": COMPANION,
    "image.pullSecrets[0].name=mark-secret": AGENTS | COMPANION | VOLCANO | HOOKS,
    "agent.extraEnv[0].name=mark-env": {"DaemonSet/agent"},
    "scheduler.extraEnv[0].name=mark-scheduler-env": COMPANION,
    "agent.extraVolumes[0].name=mark-volume": {"DaemonSet/agent"},
    "agent.extraVolumeMounts[0].name=mark-mount": {"DaemonSet/agent"},
    "agent.extraVolumeMounts[0].mountPath=/mark": {"DaemonSet/agent"},
    "scheduler.extraVolumes[0].name=mark-scheduler-volume": COMPANION,
    "scheduler.extraVolumeMounts[0].name=mark-scheduler-mount": COMPANION,
    "scheduler.extraVolumeMounts[0].mountPath=/mark-scheduler": COMPANION,
    "agent.serviceAccountAnnotations.a=mark-account": {"ServiceAccount/agent"},
    "scheduler.serviceAccountAnnotations.a=mark-scheduler-account": {"ServiceAccount/scheduler"},
    "agent.priorityClassName=mark-priority": AGENTS,
    "scheduler.priorityClassName=mark-scheduler-priority": COMPANION,
    "agent.podAnnotations.a=mark-pod": {"DaemonSet/agent"},
    "scheduler.podAnnotations.a=mark-scheduler-pod": COMPANION,
}
WRONG = (  # values, what the refusal says, and further arguments
    ((), ("namespace default", "gputopo-system"), "-n", "default"),
    (("agent.option.heartbeat=5",), ("agent", "option")),
    (("agent.options.heartbeats=5",), ("agent", "options", "heartbeats")),
    (("agent.options.heartbeat=soon",), ("agent", "options", "heartbeat", "integer")),
    (("agent.options.heartbeat=0",), ("agent", "options", "heartbeat", "minimum")),
    (("agent.options.http=127.0.0.1:9400",), ("agent", "options", "http")),
    (("agent.updateStrategy=Surge",), ("agent", "updateStrategy", "OnDelete")),
    (("agent.maxUnavailable=0",), ("agent", "maxUnavailable")),
    (("agent.nodes=some",), ("agent", "nodes", "installed")),
    (("probe.mode=on",), ("probe", "mode", "privileged")),
    (("probe.enabled=false",), ("probe", "enabled")),
    (("agent.options.resource=metax-tech.com/gpu-probe", "placement.enabled=false"), ("agent.options.resource", "probe")),
    (("agent.pciClasses={vga}",), ("agent", "pciClasses")),
    (("mode=none",), ("mode", "topologyOnly")),
    (("image.pullPolicy=Sometimes",), ("image", "pullPolicy")),
    (("scheduler.replicas=0",), ("scheduler", "replicas")),
    (("scheduler.options.only={supernode}",), ("scheduler", "options", "only")),
    (("scheduler.options.project=hypernodes",), ("scheduler", "options", "project", "array")),
    (("networkPolicy.apiServerCidrs={api.example.com}",), ("networkPolicy", "apiServerCidrs")),
    (("networkPolicy.from[0].namespace=monitoring",), ("networkPolicy", "from", "namespace")),
    (("placement.certificates.mode=mine",), ("placement", "certificates", "mode")),
    (("scheduler.enabled=false",), ("scheduler.enabled", "placement.enabled")),
    (("agent.options.no-publish=true",), ("agent.options.no-publish", "scheduler.enabled")),
    (("agent.nodes=pci", "agent.affinity.nodeAffinity.a=b"), ("agent.affinity.nodeAffinity", "agent.nodes: pci")),
    (("fullnameOverride=Mine",), ("fullnameOverride",)),
    (("commonLabels.a[0]=b",), ("commonLabels",)),
    (("agent.options.resource=example.com/gpu",), ("agent.options.resource", "example.com/gpu", "placement.enabled")),
    (("scheduler.options.on-lost-plan=recreate", "placement.enabled=false"), ("on-lost-plan", "placement.enabled")),
    (("scheduler.options.only={extender}",), ("scheduler.options.only", "placement")),
    (("scheduler.options.only={placement}", "placement.enabled=false"), ("scheduler.options.only", "placement.enabled")),
    (("scheduler.options.webhook-clients={kube-apiserver}", "placement.enabled=false"), ("webhook-clients", "placement.enabled")),
    (("agent.options.health=:9400",), ("agent.options.health", "agent.options.http")),
    (("scheduler.options.http=0.0.0.0:9403",), ("scheduler.options.health", "scheduler.options.http")),
    (("scheduler.options.http=:9443",), ("scheduler.options.http", "9443", "extender")),
    (("scheduler.options.leader-elect=false",), ("scheduler.replicas", "leader-elect")),
    (("placement.certificates.mode=certManager",), ("placement.certificates.mode", "cert-manager.io/v1")),
    (("monitoring.enabled=true",), ("monitoring.enabled", "monitoring.coreos.com/v1")),
    (("volcano.scheduler.configuration=none",), ("volcano", "scheduler", "configuration")),
    (("placement.certificates.issuerRef.name=mine",), ("issuerRef", "placement.certificates.mode")),
)
SERVED = "import ssl, sys; print(ssl.get_server_certificate((sys.argv[1], 9443)))"
BASE = ("namespace.create=true", "scheduler.replicas=1", "agent.nodes=all", "placement.enabled=false", "cleanup.enabled=false", "crds.upgradeJob.enabled=false")
SAME = (  # a kustomization, components of it, and the values that say the same
    ("base", (), ()),
    ("no-probe", (), ("probe.mode=none",)),
    ("recorded", (), RECORDED),
    ("base", ("placement",), PLACED),
    ("base", ("placement", "recreate"), (*PLACED, "scheduler.options.on-lost-plan=recreate")),
    ("base", ("hypernodes",), ("scheduler.options.project={hypernodes}",)),
    ("base", ("nodefeatures",), ("scheduler.options.project={nodefeatures}",)),
)


HELMS = ("app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart")


def named(objects):
    """Without the labels that Helm alone knows."""
    found = {}
    for item in filter(None, objects):
        metadata = item["metadata"]
        metadata["labels"] = {key: value for key, value in metadata.get("labels", {}).items() if key not in HELMS}
        found[item["kind"], metadata.get("namespace"), metadata["name"]] = in_order(item)
    return found


def in_order(item):
    """Lists whose order means nothing to Kubernetes, sorted."""
    if isinstance(item, dict):
        return {key: sorted(value) if key == "args" else in_order(value) for key, value in item.items()}
    if isinstance(item, list) and item and all(isinstance(one, dict) and "name" in one for one in item):
        return sorted((in_order(one) for one in item), key=lambda one: one["name"])
    if isinstance(item, str):  # kustomize folds long lines again
        return " ".join(item.split())
    return [in_order(one) for one in item] if isinstance(item, list) else item


def templates(objects):
    return [item["spec"]["template"]["spec"] for item in objects if item["kind"] in ("DaemonSet", "Deployment", "Job")]


class ChartCases:
    def __init__(self, report, cluster, build, manager):
        """`manager`: a CertManager, or None."""
        self.report, self.cluster, self.build, self.manager = report, cluster, build, manager
        self.nodes = {}
        self.releases = ReleaseCases(self, RECORDED)
        self.told = (DAEMONSET.parent / "docs/reference/permissions.md").read_text()

    # steps

    def helm(self, *arguments):
        return self.cluster.ask("control", "helm", *arguments)

    def render(self, values, *more):
        sets = [word for value in values for word in ("--set", value)]
        return self.helm("template", "gputopo", CHART, "-n", NAMESPACE, *sets, *more)

    def release(self, command, *values, wait=True, more=(), chart=CHART):
        """install or upgrade; what was set before stays."""
        sets = [word for value in values for word in ("--set", value)]
        return self.helm(command, "gputopo", chart, "-n", NAMESPACE, *(["--reset-then-reuse-values"] if command == "upgrade" else []), *sets,
                         *(["--wait", "--timeout=290s"] if wait else []), *more)

    def agents(self):
        """{node's number: its pod}, of those that are not on their way out."""
        items = self.cluster.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=gputopo-agent")["items"]
        return {int(item["spec"]["nodeName"].removeprefix("node")): item for item in items
                if "deletionTimestamp" not in item["metadata"]}

    def allocatable(self):
        return {item["metadata"]["name"]: item["status"]["allocatable"].get(pods.RESOURCE) for item in self.cluster.get("nodes")["items"]}

    def holds(self):
        """Who has which GPUs by the kubelets' usage tables, and the containers of the test's pods."""
        used = {number: node.used() for number, node in self.nodes.items()}
        containers = {item["metadata"]["name"]: [one["containerID"] for one in item["status"].get("containerStatuses", [])]
                      for item in self.cluster.get("pods")["items"]}
        return used, containers

    def rolled_out(self):
        """Helm itself waits for all nodes but maxUnavailable."""
        self.cluster.kubectl("rollout", "status", "daemonset/gputopo-agent", "-n", NAMESPACE, "--timeout=290s")
        until("8 GPUs on each node", lambda: self.allocatable() == {"node1": "8", "node2": "8"} or (False, self.allocatable()))

    def heartbeats(self):
        return {re.search(r"--heartbeat=(\d+)", " ".join(pod["spec"]["containers"][-1]["args"])).group(1) for pod in self.agents().values()}

    # cases without a release

    @quick
    def drift(self):
        self.helm("lint", "--strict", CHART)
        self.cluster.ask("control", DAEMONSET / "generate", "--check")

    def kustomize(self):
        """The kustomizations, patches and all, are the chart with the values that say the same."""
        directory = self.cluster.state / "same"
        directory.mkdir()
        base = os.path.relpath(DAEMONSET, directory)
        for name, components, values in SAME:
            (directory / "kustomization.yaml").write_text(
                "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
                f"resources: [{base}/{name}]\n"
                f"components: [{', '.join(f'{base}/components/{one}' for one in components)}]\n")
            plain = named(yaml.safe_load_all(self.cluster.kubectl("kustomize", directory)))
            chart = named(yaml.safe_load_all(self.render((*BASE, *values), "--include-crds")))
            same(sorted(map(str, plain)), sorted(map(str, chart)), f"objects of {name} with {components}")
            for key, item in plain.items():
                same(item, chart[key], f"{key} of {name} with {components}")

    def monitoring(self):
        """What the chart adds is daemonset/monitoring; without the companion, what is about agents."""
        def chart(*values):
            rendered = {wanted: named(yaml.safe_load_all(self.render((f"monitoring.enabled={wanted}", *values),
                                                                     "--api-versions", "monitoring.coreos.com/v1"))) for wanted in ("false", "true")}
            return {key: item for key, item in rendered["true"].items() if key not in rendered["false"]}
        plain = named(yaml.safe_load_all(self.cluster.kubectl("kustomize", DAEMONSET / "monitoring")))
        made = chart()
        same(sorted(map(str, made)), sorted(map(str, plain)), "objects")
        for key, item in plain.items():
            same(made[key], item, str(key))
        alone = chart("scheduler.enabled=false", "placement.enabled=false", "monitoring.labels.release=prometheus")
        same(sorted(item["kind"] for item in alone.values()), ["ConfigMap", "PodMonitor", "PrometheusRule"], "objects of agents alone")
        groups = {item["kind"]: [group["name"] for group in item["spec"]["groups"]] for item in alone.values() if item["kind"] == "PrometheusRule"}
        same(groups, {"PrometheusRule": ["gputopo-nodes"]}, "groups of agents alone")
        same([item["metadata"]["labels"].get("release") for item in alone.values() if item["kind"] != "ConfigMap"], ["prometheus"] * 2, "labels")
        self.runbooks()

    def runbooks(self):
        """Alerts link to where the operator has the pages."""
        base = "https://git.example.com/gputopo/blob/main/"
        text = self.render(("monitoring.enabled=true", f"monitoring.runbookBase={base}"), "--api-versions", "monitoring.coreos.com/v1")
        told = [rule["annotations"]["runbook_url"] for item in yaml.safe_load_all(text) if item and item["kind"] == "PrometheusRule"
                for group in item["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
        same({url.partition("docs/")[0] for url in told}, {base}, f"where {len(told)} runbooks are")

    @quick
    def combinations(self):
        """Every set of values: safe where it should be, options that the programs take, and accepted by the API server."""
        self.cluster.kubectl("create", "namespace", NAMESPACE)
        for name, values in SETS.items():
            try:
                text = self.render(values)
                self.harmless([item for item in yaml.safe_load_all(text) if item], values)
                self.cluster.ask("control", "kubectl", "apply", "--server-side", "--dry-run=server", "-f", "-", data=text)
            except Failed as why:
                raise Failed(f"{name}: {why}") from why
        every = (*PLACED, "volcano.scheduler.enabled=true", "agent.options.advertise=dra", "scheduler.options.claims=groups")
        same(self.render(("fullnameOverride=mine", *every)).replace("mine-", "gputopo-"), self.render(every), "what another name changes")
        objects = [item for item in yaml.safe_load_all(self.render(("commonLabels.team=gpu", "commonAnnotations.to=gpu", *every))) if item]
        for item in objects:
            if not item["metadata"]["labels"].keys() >= {"team", "app.kubernetes.io/part-of", *HELMS} or item["metadata"]["annotations"]["to"] != "gpu":
                raise Failed(f"{item['kind']} {item['metadata']['name']} has {item['metadata']}")
        named = self.render(("scheduler.options.supernodes-config=racks", "scheduler.options.network=cables"))
        if "resourceNames: [racks, cables, gputopo-namespace-weights]" not in named:
            raise Failed("the role has other ConfigMaps than the values")
        managed = self.render(("placement.certificates.mode=certManager",), "--api-versions", "cert-manager.io/v1")
        kinds = [item["kind"] for item in yaml.safe_load_all(managed) if item]
        same([kinds.count(kind) for kind in ("Issuer", "Certificate", "Secret")], [2, 3, 0], "cert-manager's objects")
        same(self.render(("placement.certificates.mode=certManager",), "--api-versions", "cert-manager.io/v1"), managed, "the second time, with cert-manager")
        same(self.render(PLACED), self.render(PLACED), "the second time, with a certificate of ours")
        budgets = [item["spec"] for item in yaml.safe_load_all(self.render(())) if item and item["kind"] == "PodDisruptionBudget"]
        same(budgets, [{"maxUnavailable": 1, "selector": {"matchLabels": {"app.kubernetes.io/name": "gputopo-scheduler"}}}], "the budget by default")
        self.marked()
        return f"{len(SETS) + 1} sets"

    def marked(self):
        """Values come to the objects that they are about, and to no other."""
        wanted = {value.rpartition("=")[2]: objects for value, objects in MARKED.items()}
        items = [item for item in yaml.safe_load_all(self.render((*PLACED, *MARKED, "volcano.scheduler.enabled=true"))) if item]
        found = {mark: sorted({f"{item['kind']}/{item['metadata']['name'].removeprefix('gputopo-')}" for item in items
                               if item["kind"] in ("DaemonSet", "Deployment", "Job", "ServiceAccount") and f'"{mark}"' in json.dumps(item)}) for mark in wanted}
        same(found, {mark: sorted(objects) for mark, objects in wanted.items()}, "the objects with each value")

    def harmless(self, objects, values):
        privileged = "probe.mode=privileged" in values
        asked = {"nodes/proxy"} if any("kubelet-configz=" in value for value in values) else set()  # permissions.md says what it allows
        for role in objects:
            for rule in role.get("rules", []) if role["kind"] in ("Role", "ClusterRole") else []:
                words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
                if words & {"*", "secrets", "nodes/proxy", "escalate", "bind", "impersonate"} - asked or role["metadata"]["name"] not in self.told:
                    raise Failed(f"{role['metadata']['name']} has {rule}, or is not in permissions.md")
        for pod in templates(objects):
            same(len(pod["containers"]), 1, f"containers beside {pod['containers'][0]['name']}, itself counted")
            if {"hostNetwork", "hostPID", "hostIPC"} & set(pod) or pod["securityContext"]["seccompProfile"] not in SECCOMP:
                raise Failed(f"a pod has {pod}")
            for item in pod["containers"]:
                security = item["securityContext"]
                may = privileged and item["name"] == "probe"
                if security["privileged"] != may or not security["readOnlyRootFilesystem"] or (
                        not may and (security["allowPrivilegeEscalation"] or security["capabilities"] != {"drop": ["ALL"]})):
                    raise Failed(f"{item['name']} has {security}")
                program = self.build / "bin" / item["command"][-1].rsplit("/", 1)[-1]
                if item["name"] in ("agent", "scheduler"):
                    done = subprocess.run([program, *item["args"], "--version"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    same((done.returncode, done.stderr), (0, ""), f"{program.name} {' '.join(item['args'])}")

    @quick
    def wrong(self):
        for values, words, *more in WRONG:
            try:
                self.render(values, *more)
            except Failed as refusal:
                said = str(refusal)
                if not all(word in said for word in words):
                    raise Failed(f"{values}: not all of {words} in: {said}") from refusal
            else:
                raise Failed(f"{values} {more} was taken")
        return f"{len(WRONG)} of them"

    @quick
    def older_kubernetes(self):
        """What a release lacks is left out, or refused by name. Every release that the chart's README names is rendered for."""
        for minor in range(26, 38):
            self.render(() if minor >= 28 else NODE_PROFILE, "--kube-version", f"1.{minor}.0")
        kinds = [{item["kind"] for item in yaml.safe_load_all(self.render((), "--kube-version", version)) if item} for version in ("1.28.15", "1.30.0")]
        same(kinds[1] - kinds[0], {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}, "what 1.28 lacks")
        self.noted()
        self.rules_for_the_webhook()
        if "recursiveReadOnly" in self.render((), "--kube-version", "1.28.15"):
            raise Failed("1.28 is given recursiveReadOnly")
        self.extender_alone()
        for version, value in (("1.27.3", "placement.enabled=true"), ("1.33.0", "agent.options.advertise=dra"), ("1.33.0", "scheduler.options.claims=all")):
            name = value.partition("=")[0]
            try:
                self.render((value,), "--kube-version", version)
            except Failed as refusal:
                if name not in str(refusal) or version not in str(refusal):
                    raise Failed(f"{value} on {version}: {refusal}") from refusal
            else:
                raise Failed(f"{value} was taken on {version}")

    def noted(self):
        """What the notes say that a release cannot have. `helm template` leaves them out, so they are rendered as a text in YAML."""
        chart = self.cluster.state / "noted"
        shutil.copytree(CHART, chart)
        lines = (chart / "templates/NOTES.txt").read_text().splitlines()
        (chart / "templates/noted.yaml").write_text("notes: |\n" + "".join(f"  {line}\n" for line in lines))
        lacks = {}
        for version in ("1.28.15", "1.30.0", "1.34.0"):
            text = self.helm("template", "gputopo", chart, "-n", NAMESPACE, "--kube-version", version, "--show-only", "templates/noted.yaml")
            lacks[version] = (re.findall(r"Not to be had on Kubernetes \S+: (.*)\.", text), "The webhook enforces the policies' rules instead." in text)
        same(lacks, {"1.28.15": (["admission policies (1.30 and newer), claims (1.34 and newer)"], True),
                     "1.30.0": (["claims (1.34 and newer)"], False), "1.34.0": ([], False)}, "what the notes say")

    def extender_alone(self):
        """Before 1.28 there are no gates, and so no webhook; schedulers are still answered, by TLS and on the plain port."""
        items = [item for item in yaml.safe_load_all(self.render(NODE_PROFILE, "--kube-version", "1.26.9")) if item]
        kinds = [item["kind"] for item in items]
        same([kinds.count(kind) for kind in ("Service", "Secret", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")], [1, 2, 0, 0],
             "the Service, its certificate and kube-scheduler's, and no webhook")
        rules = [rule for item in items if item["metadata"]["name"] == "gputopo-scheduler" for rule in item.get("rules", ()) if "pods" in rule["resources"]]
        same([rule["verbs"] for rule in rules], [["list", "watch"]], "what the companion may do with pods")
        deployment, = (item for item in items if item["kind"] == "Deployment")
        container, = deployment["spec"]["template"]["spec"]["containers"]
        said = {arg.partition("=")[0] for arg in container["args"]}
        if not said >= {"--https", "--tls-certificate", "--tls-key", "--tls-client-ca", "--only"} or "--webhook-except" in said:
            raise Failed(f"the companion has {container['args']}")
        policies = [item["metadata"]["name"] for item in items if item["kind"] == "NetworkPolicy"]
        same("gputopo-scheduler-placement" in policies, True, f"a way in for schedulers: {policies}")
        plain = {item["kind"] for item in yaml.safe_load_all(self.render(("placement.enabled=false",), "--kube-version", "1.26.9")) if item}
        same(plain & {"Service", "Secret"}, set(), "what nobody is served by")

    def rules_for_the_webhook(self):
        """Each policy with its rules, but for those about an agent's own node."""
        policies, hooks = {}, {}
        for item in yaml.safe_load_all(self.render((), "--kube-version", "1.30.0")):
            if item and item["kind"] == "ValidatingAdmissionPolicy":
                policies[item["metadata"]["name"]] = item["spec"]
        for item in yaml.safe_load_all(self.render((), "--kube-version", "1.29.0")):
            if item and item["kind"] == "ValidatingWebhookConfiguration":
                hooks = {hook["name"].partition(".")[0]: hook for hook in item["webhooks"] if ".rules." in hook["name"]}
        same(sorted(hooks), sorted(policies), "the webhook's rules")
        for name, spec in policies.items():
            conditions, hook = [one["expression"] for one in hooks[name]["matchConditions"]], hooks[name]
            same((hook["rules"], hook["failurePolicy"]), (spec["matchConstraints"]["resourceRules"], "Fail"), name)
            same([one["expression"] for one in spec["matchConditions"]], conditions[:len(spec["matchConditions"])], name)
            for rule in spec["validations"]:
                text = rule["expression"]
                for variable in spec.get("variables", ()):
                    text = text.replace(f"variables.{variable['name']}", f"({variable['expression']})") if variable["name"] != "node" else text
                if (f"({text})" in conditions[-1]) == ("variables.node" in text) and text != "false":
                    raise Failed(f"{name}: {text} is {'not ' if 'variables.node' not in text else ''}asked for by the webhook")
            if any(word in text for text in conditions for word in (".?", "[?", "variables.")):
                raise Failed(f"{name}: Kubernetes 1.28 does not know this: {conditions}")

    # cases of a release

    @quick
    def new_image(self):
        return install.import_image(self.cluster, self.build, (1, 2))

    @quick
    def installed(self):
        """No agent without MetaX's label on a node; with it, GPUs and objects."""
        self.recorded()
        before = self.releases.latest()
        seconds = self.from_nothing(before / "chart")
        self.releases.defined(before)
        return f"{seconds:.1f} s from the label to 8 GPUs"

    def recorded(self):
        self.nodes = {number: Node(self.cluster, self.build, recording, number)
                      for number, recording in enumerate((C500, C550), 1)}
        for number, node in self.nodes.items():
            install.mount(self.cluster, number, node.machine.dev, DEVICES)
        self.cluster.kubectl("create", "configmap", "gputopo-recordings", "-n", NAMESPACE,
                             *(f"--from-file=node{number}.json={node.machine.file}" for number, node in self.nodes.items()))

    def from_nothing(self, chart, *values):
        """Returns the seconds from the label to GPUs."""
        notes = self.release("install", *RECORDED, "agent.options.heartbeat=5", *values, chart=chart)
        if f"No node has the label {INSTALLED}" not in notes:
            raise Failed(f"the notes do not tell why there is no agent: {notes}")
        same(self.agents(), {}, "agents on nodes without the label")
        start = time.monotonic()
        for number in self.nodes:
            self.cluster.kubectl("label", "node", f"node{number}", f"{INSTALLED}=true")
        until("8 GPUs on each node", lambda: self.allocatable() == {"node1": "8", "node2": "8"} or (False, self.allocatable()))
        seconds = time.monotonic() - start

        def published():
            said = {item["metadata"]["name"]: {one["type"]: one["status"] for one in item.get("status", {}).get("conditions", [])}.get("Registered")
                    for item in self.cluster.get("ngt")["items"]}
            return said == {"node1": "True", "node2": "True"} or (False, said)
        until("the nodes' objects", published)
        return seconds

    @quick
    def placed(self):
        """Two pods of one unit: gated by the webhook, planned, on one node."""
        template = pod_template(2, group=4)
        del template["spec"]["nodeSelector"]
        self.cluster.kubectl("create", "-f", "-", data=job("train", 2, template))

        def running():
            items = self.cluster.get("pods", "-l", "job-name=train")["items"]
            return [item["status"]["phase"] for item in items] == ["Running"] * 2 and items or (
                False, [(item["status"]["phase"], item["spec"].get("schedulingGates"), item["status"].get("conditions")) for item in items])
        items = until("the job to run", running)
        on = {item["spec"]["nodeName"] for item in items}
        if len(on) != 1 or {annotation(item, "node") for item in items} != on:
            raise Failed(f"the unit is on {on}, planned {[annotation(item, 'node') for item in items]}")
        number = int(on.pop().removeprefix("node"))
        self.run_pod("beside", 3 - number, 3)
        self.gated("waits")
        return f"on node{number}"

    @quick
    def explained(self):
        """gputopo explain by the API server's proxy, with the one right that cli.md gives people; then by kubectl proxy."""
        self.cluster.kubectl("create", "serviceaccount", "people", "-n", NAMESPACE)
        people = Account(self.cluster, "people", self.cluster.kubectl("create", "token", "people", "-n", NAMESPACE))

        def explain(file):
            process = self.cluster.enter("control", self.build / "bin" / "gputopo", "explain", "default/Job/train", "--kubeconfig", file,
                                         text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            return process.communicate(timeout=300)[0]
        said = explain(people.file)
        if "403 Forbidden" not in said or '"services/proxy"' not in said:
            raise Failed(f"without the right it says: {said}")
        line = re.search(r"^kubectl (create role .*\\\n.*)$", (DAEMONSET.parent / "docs/reference/cli.md").read_text(), re.M)[1]
        self.cluster.kubectl(*line.replace("\\\n", " ").split())
        self.cluster.kubectl("create", "rolebinding", "people", "-n", NAMESPACE, "--role=gputopo-explain",
                             f"--serviceaccount={NAMESPACE}:people")
        wanted = "Job default/Job/train: 2 pods"
        until("the role to count", lambda: wanted in explain(people.file) or (False, explain(people.file)))
        proxy = self.cluster.enter("control", "kubectl", "--kubeconfig", people.file, "proxy", "--port=0", text=True, stdout=subprocess.PIPE)
        try:
            file = self.cluster.state / "proxied.kubeconfig"
            file.write_text(json.dumps({"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c"}}], "clusters": [
                {"name": "c", "cluster": {"server": f"http://{proxy.stdout.readline().split()[-1]}"}}]}))
            said = explain(file)
        finally:
            proxy.terminate()
            proxy.wait()
        if wanted not in said:
            raise Failed(f"by kubectl proxy it says: {said}")
        self.cluster.kubectl("delete", "serviceaccount/people", "rolebinding/people", "role/gputopo-explain", "-n", NAMESPACE)
        return said.splitlines()[0]

    @quick
    def forwarded(self):
        """The commands of look-at-a-cluster.md and troubleshooting.md by which kubectl forwards a port."""
        asked = {"how-to/look-at-a-cluster.md": ("/ui", "<title>gputopo"), "troubleshooting.md": ("/readyz", "ok")}
        for page, (path, wanted) in asked.items():
            line, = re.findall(r"^(?:\$ )?kubectl (.* port-forward \S+ \d+)(?: &)?$", (DAEMONSET.parent / "docs" / page).read_text(), re.M)
            line = line.replace("POD", self.agents()[1]["metadata"]["name"]).split()
            forward = self.cluster.enter("control", "kubectl", *line, text=True, stdout=subprocess.PIPE)
            try:
                forward.stdout.readline()  # it listens
                said = self.cluster.ask("control", "/usr/bin/python3", "-c", FETCH, f"http://127.0.0.1:{line[-1]}{path}")
            finally:
                forward.terminate()
                forward.wait()
            if wanted not in said:
                raise Failed(f"kubectl {' '.join(line)}: {path} is {said[:200]}")

    def gated(self, name):
        """A job whose unit no node has room for: the webhook has gated its pods."""
        template = pod_template(8, group=16)
        del template["spec"]["nodeSelector"]
        self.cluster.kubectl("create", "-f", "-", data=job(name, 2, template))
        until(f"{name} to wait", lambda: self.gates(name) == [[GATE], [GATE]] or (False, self.gates(name)))

    def gates(self, name):
        return [[gate["name"] for gate in item["spec"].get("schedulingGates", [])]
                for item in self.cluster.get("pods", "-l", f"job-name={name}")["items"]]

    def run_pod(self, name, number, count):
        manifest = pods.manifest(name, count)
        manifest["spec"]["nodeSelector"] = {"kubernetes.io/hostname": f"node{number}"}
        self.cluster.kubectl("create", "-f", "-", data=manifest)
        until(f"{name} to run", lambda: self.cluster.get("pod", name)["status"]["phase"] == "Running")

    def certificates(self):
        secret = self.cluster.get("secret", "gputopo-scheduler-tls", "-n", NAMESPACE)["data"]
        hooks = [hook["clientConfig"].get("caBundle") for kind in ("mutating", "validating")
                 for hook in self.cluster.get(f"{kind}webhookconfiguration", "gputopo-scheduler")["webhooks"]]
        same(set(hooks), {secret["ca.crt"]}, "the webhooks' authority")
        return secret

    def by_hand(self):
        """OnDelete: no agent is replaced until its pod is deleted; RollingUpdate goes on with the others."""
        before, old = self.holds(), self.agents()
        self.cluster.kubectl("patch", "daemonset", "gputopo-agent", "-n", NAMESPACE, "--type=merge",
                             "-p", '{"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}')
        self.release("upgrade", "agent.options.heartbeat=7", "agent.updateStrategy=OnDelete")
        self.releases.defined()

        def observed():  # it deletes what a rolling update deletes before it says so
            found = self.cluster.get("daemonset", "gputopo-agent", "-n", NAMESPACE)
            return found["status"].get("observedGeneration") == found["metadata"]["generation"]
        until("the controller to have seen the change", observed)
        same({number: pod["metadata"]["uid"] for number, pod in self.agents().items()},
             {number: pod["metadata"]["uid"] for number, pod in old.items()}, "agents under OnDelete")
        self.cluster.kubectl("delete", "pod", "-n", NAMESPACE, old[1]["metadata"]["name"], "--wait")
        until("the next agent of node1", lambda: 1 in self.agents())
        until("8 GPUs on each node", lambda: self.allocatable() == {"node1": "8", "node2": "8"} or (False, self.allocatable()))
        same(self.agents()[2]["metadata"]["uid"], old[2]["metadata"]["uid"], "the agent of node2")
        same(self.heartbeats(), {"5", "7"}, "the agents' arguments")
        self.release("upgrade", "agent.updateStrategy=RollingUpdate")
        same(self.releases.defining(), ["pre-rollback"], "when definitions are applied that are the chart's already")
        self.rolled_out()
        same(self.heartbeats(), {"7"}, "the agents' arguments")
        same(self.holds(), before, "GPUs and containers of pods after all")

    def broken(self):
        """An image that is nowhere: the rollout stops at the first node, and the companion that answers stays."""
        before, old = self.holds(), self.agents()
        self.release("upgrade", "image.tag=broken", "image.pullPolicy=Never", wait=False)

        def stuck():
            bad = [number for number, pod in self.agents().items() for status in pod["status"].get("containerStatuses", [])
                   if status["state"].get("waiting", {}).get("reason") == "ErrImageNeverPull"]
            return bad or (False, "no pod lacks its image")
        bad, = until("one agent without its image", stuck)
        good = 3 - bad
        for _ in range(20):  # it goes no further
            same(self.agents()[good]["metadata"]["uid"], old[good]["metadata"]["uid"], "the agent of the other node")
            time.sleep(0.5)
        same(self.allocatable()[f"node{good}"], "8", "GPUs of the other node")
        companions = self.cluster.get("deployment", "gputopo-scheduler", "-n", NAMESPACE)["status"]
        same(companions.get("availableReplicas"), 2, "companions that answer")
        same(self.holds(), before, "GPUs and containers of pods under a broken rollout")
        self.cluster.kubectl("patch", "crd", SUPERNODES, "--type=json", "-p", '[{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}]')
        self.helm("rollback", "gputopo", "-n", NAMESPACE, "--wait", "--timeout=290s")
        self.releases.defined()
        self.rolled_out()
        same(self.holds(), before, "GPUs and containers of pods after all")
        return f"stopped at node{bad} for 10 s"

    def allocated(self, pod):
        """(the node's number, the indices that the pod's only claim was given)."""
        names = [one["resourceClaimName"] for one in pod["status"].get("resourceClaimStatuses", [])]
        same(len(names), 1, f"claims of {pod['metadata']['name']}")
        devices = [one["device"] for one in self.cluster.get("resourceclaim", names[0])["status"]["allocation"]["devices"]["results"]]
        number = int(pod["spec"]["nodeName"].removeprefix("node"))
        names = {DraNode.device_name(gpu): gpu["index"] for gpu in self.nodes[number].machine.gpus}
        return number, sorted(names[device] for device in devices)

    def by_claims(self):
        """The chart's values give the GPUs by claims, by users and by the webhook, and by the device plugin again."""
        for number in self.nodes:  # where this node's containerd looks
            install.mount(self.cluster, number, self.cluster.state / f"node{number}" / "cdi", "/var/run/cdi")
        before, start = self.holds(), time.monotonic()
        used = {number: {gpu for gpus in held.values() for gpu in gpus} for number, held in before[0].items()}
        self.release("upgrade", "agent.options.advertise=dra", "scheduler.options.claims=groups")
        self.cluster.kubectl("rollout", "status", "daemonset/gputopo-agent", "-n", NAMESPACE, "--timeout=290s")

        def offered():
            return {item["spec"]["nodeName"]: len(item["spec"]["devices"]) for item in self.cluster.get("resourceslices")["items"]}
        free = {f"node{number}": 8 - len(gpus) for number, gpus in used.items()}
        until("the free GPUs in slices", lambda: offered() == free or (False, (offered(), free)))
        seconds = time.monotonic() - start
        same(self.holds(), before, "GPUs and containers of pods after the switch")
        self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": [template("two", 2), claiming("by-claim", "two")]})
        train = pod_template(2, group=4)
        train["spec"]["containers"][0].update(name="c0", image="local.test/show-devices:1")
        del train["spec"]["nodeSelector"]
        self.cluster.kubectl("create", "-f", "-", data=job("claims", 2, train))

        def running():
            items = [item for item in self.cluster.get("pods")["items"] if item["metadata"]["name"].startswith(("by-claim", "claims-"))]
            return len(items) == 3 and all(item["status"]["phase"] == "Running" for item in items) and items or (
                False, [(item["metadata"]["name"], item["status"]["phase"], item["status"].get("conditions")) for item in items])
        given = {number: set(gpus) for number, gpus in used.items()}
        for pod in until("the pods with claims to run", running):
            number, gpus = self.allocated(pod)
            seen = self.nodes[number].seen(pod["metadata"]["name"]).made_up()
            same(seen, self.nodes[number].machine.expected_nodes(gpus), f"device nodes in {pod['metadata']['name']}, against its claim")
            same(given[number] & set(gpus), set(), "GPUs that another pod has")
            given[number] |= set(gpus)
        self.cluster.kubectl("delete", "job", "claims", "--wait", "--cascade=foreground")
        self.release("upgrade", "agent.options.advertise=plugin", "scheduler.options.claims=null")
        self.cluster.kubectl("rollout", "status", "daemonset/gputopo-agent", "-n", NAMESPACE, "--timeout=290s")
        until("no slice", lambda: not offered() or (False, offered()))
        until("six and eight GPUs by the plugin", lambda: sorted(self.allocatable().values()) == ["6", "8"] or (False, self.allocatable()))
        self.cluster.kubectl("delete", "pod,resourceclaimtemplate", "by-claim", "two", "--ignore-not-found", "--wait")
        until("8 GPUs on each node", lambda: self.allocatable() == {"node1": "8", "node2": "8"} or (False, self.allocatable()))
        self.release("upgrade", "agent.options.advertise=null")
        self.rolled_out()
        same(self.cluster.get("deviceclasses")["items"], [], "classes of devices, afterwards")
        self.run_pod("plain", 2, 1)
        self.cluster.kubectl("delete", "pod", "plain", "--wait")
        same(self.holds(), before, "GPUs and containers of pods after all")
        return f"{seconds:.1f} s until the free GPUs were in slices"

    @quick
    def switched_off(self):
        """Nobody plans any more: the pods that wait lose their gates by a Job, and what runs keeps its GPUs. Then on again."""
        def running():
            used, containers = self.holds()
            return used, {name: ids for name, ids in containers.items() if ids}
        before = running()
        self.release("upgrade", "image.tag=", "placement.enabled=false")
        until("the gates to be removed", lambda: self.gates("waits") == [[], []] or (False, self.gates("waits")))
        self.cluster.kubectl("delete", "job", "waits", "--wait", "--cascade=foreground")
        self.release("upgrade", "placement.enabled=true")
        self.gated("waits")
        same(running(), before, "GPUs and containers of pods after all")

    @quick
    def uninstalled(self):
        """Nothing is left but the pods that run, the custom resources' definitions and what the test itself made."""
        before = self.holds()
        written = [key for item in self.cluster.get("nodes")["items"]
                   for key in (*item["metadata"]["labels"], *item["metadata"].get("annotations", {})) if key.startswith("metax-tech.com/")]
        if len(written) < 2 * 4:
            raise Failed(f"the nodes have only {written}: there is little to take back")
        start = time.monotonic()
        self.helm("uninstall", "gputopo", "-n", NAMESPACE, "--wait", "--timeout=290s")
        seconds = time.monotonic() - start
        for item in self.cluster.get("nodes")["items"]:
            left = [key for key in (*item["metadata"]["labels"], *item["metadata"].get("annotations", {})) if "metax-tech.com/" in key]
            same(left, [INSTALLED], f"labels and annotations of {item['metadata']['name']}")
        for kind in ("ngt", "supernodes", "gpl"):
            same(self.cluster.get(kind, "-A")["items"], [], kind)
        same(self.gates("waits"), [[], []], "gates of pods that nobody places any more")
        definitions = {line for line in self.cluster.kubectl("get", "crd", "-o", "name").split() if "metax" in line}
        same(len(definitions), 3, "definitions of custom resources")
        left = self.cluster.kubectl(
            "get", "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding,"
            "mutatingwebhookconfiguration,validatingwebhookconfiguration,role,rolebinding,daemonset,deployment,job,service,"
            "serviceaccount,secret,lease,configmap,networkpolicy,poddisruptionbudget", "-A", "-o", "name")
        same([line for line in left.split() if "gputopo" in line], ["configmap/gputopo-recordings"], "left in the cluster")
        until("the release's pods to be gone", lambda: not self.cluster.get("pods", "-n", NAMESPACE)["items"])
        same(self.holds(), before, "GPUs and containers of pods after all")
        return f"{seconds:.1f} s"

    def again(self):
        """With the definitions that Helm has left, by the labels of Node Feature Discovery, and without the plugin."""
        self.cluster.kubectl("delete", "jobs,pods", "--all", "--wait")
        self.release("install", *RECORDED, "agent.nodes=pci", "mode=annotationsOnly", "fullnameOverride=site")
        self.cluster.kubectl("label", "node", "node2", "feature.node.kubernetes.io/pci-0302_9999.present=true")

        def written():
            said = self.cluster.get("node", "node2")["metadata"]
            return {**said["labels"], **said["annotations"]}.keys() >= {"metax-tech.com/gpu.topology.scores", "metax-tech.com/gpu.product"}
        until("the Node's annotations and labels", written)
        same(self.cluster.get("ngt")["items"], [], "objects of an agent that writes annotations only")
        self.release("upgrade", "mode=topologyOnly")

        def published():
            said = {item["metadata"]["name"]: item.get("status", {}).get("freeCount") for item in self.cluster.get("ngt")["items"]}
            return said == {"node2": 8} or (False, said)
        until("the node of that label to be described", published)
        same(set(self.allocatable().values()) - {None, "0"}, set(), "GPUs without a plugin")
        self.release("upgrade", "mode=full")
        until("8 GPUs on that node", lambda: self.allocatable()["node2"] == "8")

    def rebooted(self):
        """The node's pods start before its plugin does. The kubelet may refuse those with GPUs until then; nobody has to help."""
        template = {"metadata": {"labels": {"app": "server"}}, "spec": pods.manifest("server", 3)["spec"]}
        template["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node2"}
        self.cluster.kubectl("create", "-f", "-", data={
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "server"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "server"}}, "template": template}})

        def serve(without=()):
            items = [item for item in self.cluster.get("pods", "-l", "app=server")["items"] if item["status"]["phase"] == "Running"]
            containers = {one["containerID"] for item in items for one in item["status"].get("containerStatuses", []) if one["ready"]}
            return len(containers) == 2 and not containers & set(without) and containers or (False, [item["status"] for item in items])
        before = until("two pods with GPUs", serve)
        reboot.off(self.cluster, 2)
        start = time.monotonic()
        containerd = reboot.on(self.cluster, 2)
        until("both to run again", lambda: serve(before), 180)
        seconds = time.monotonic() - start
        used = [gpu for gpus in self.nodes[2].used().values() for gpu in gpus]
        same((len(used), len(set(used))), (6, 6), "GPUs in use on node2")
        same(self.allocatable()["node2"], "8", "GPUs of node2")
        refused = [item["status"].get("reason") for item in self.cluster.get("pods", "-l", "app=server")["items"]
                   if item["status"]["phase"] == "Failed"]
        same(set(refused) - {"UnexpectedAdmissionError"}, set(), "why pods failed")
        same(containerd.poll(), None, "containerd's end")
        return f"{seconds:.0f} s after power came back; {len(refused)} pods were refused and made again"

    def asked_by_schedulers(self, secret):
        """Serves with the certificate of this Secret, and answers kube-scheduler's alone."""
        pod = self.cluster.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=gputopo-scheduler")["items"][0]
        address = pod["status"]["podIP"]
        served = self.cluster.ask("control", "/usr/bin/python3", "-c", SERVED, address)
        same(served.strip(), base64.b64decode(secret["tls.crt"]).decode().strip(), "the certificate that the companion serves with")
        client = self.cluster.get("secret", "gputopo-kube-scheduler-tls", "-n", NAMESPACE)["data"]
        files = [self.cluster.state / name for name in ("ca.crt", "tls.crt", "tls.key")]
        for file in files:
            file.write_bytes(base64.b64decode(client[file.name]))
        asked = (PRIORITIZE, address, json.dumps({"Pod": pods.manifest("p", 2), "NodeNames": ["node2"]}))
        statuses = [self.cluster.ask("control", "/usr/bin/python3", "-c", *asked, *shown).split()[0] for shown in (files, files[:1])]
        if statuses[0] != "200" or statuses[1] not in ("401", "403"):
            raise Failed(f"the extender answers {statuses} with its certificate and without")

    def managed(self):
        """The companion serves with what cert-manager has made, the API server believes it, and so does the extender."""
        self.cluster.kubectl("delete", "deployments,jobs,pods", "--all", "--wait")
        self.helm("uninstall", "gputopo", "-n", NAMESPACE, "--wait", "--timeout=290s")
        self.manager.start()
        start = time.monotonic()
        self.release("install", *RECORDED, "agent.nodes=pci", "scheduler.replicas=1", "placement.certificates.mode=certManager", "placement.webhook.failurePolicy=Fail")
        seconds = time.monotonic() - start

        def believed():
            try:
                return self.certificates()
            except Failed as why:
                return False, why
        secret = until("the CA in the webhooks", believed)
        said = self.cluster.get("secret", "gputopo-scheduler-tls", "-n", NAMESPACE)["metadata"]["annotations"]
        same(said.get("cert-manager.io/certificate-name"), "gputopo-scheduler", "whose certificate the Secret holds")
        self.gated("managed")  # by a webhook without which no pod with GPUs is made
        self.cluster.kubectl("delete", "job", "managed", "--wait")
        self.asked_by_schedulers(secret)
        return f"{seconds:.1f} s from helm install to a companion that serves"

    def privileged(self):
        """A probe that is privileged, where somebody asks for it, and then the default: what each may, and what it tells."""
        live = install.make_live(self.cluster, self.build, 2, "c550-8")
        machine = Machine(self.build / "bin" / "gputopo", live.root, self.cluster.state / "made", 12)
        os.mknod(machine.dev / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))  # it is to be /dev in a container, which needs that
        install.mount(self.cluster, 2, machine.dev, DEVICES)
        render = ("--post-renderer", install.post_renderer(self.cluster, 5))
        daemons, told = DaemonSetCases(self.report, self.cluster, self.build, None), []
        for mode, resource, open_kmsg in (("privileged", None, "opened"), ("device", "1", "EPERM")):
            self.release("upgrade", "agent.recordings.configMap=", "agent.nodes=pci", f"probe.mode={mode}", more=render)
            self.cluster.kubectl("rollout", "status", "daemonset/gputopo-probe", "-n", NAMESPACE, "--timeout=290s")
            until("the UUIDs that only the vendor's library knows", lambda: self.nodes[2].usage.allocatable() == set(live.uuids().values()))
            given = until("8 GPUs on node2", lambda: (lambda now: now.get(pods.RESOURCE) == "8" and now or (False, now))(
                self.cluster.get("node", "node2")["status"]["allocatable"]))
            same(given.get(PROBE_RESOURCE), resource, f"the probe's resource with probe.mode={mode}")
            probe = daemons.ready_probe(2)
            pid = daemons.pid(probe, "probe")
            status = daemons.status(pid)
            opened = self.cluster.ask("control", "/usr/bin/python3", "-c", OPEN, pid, f"/proc/{pid}/root/dev/mxcd", "/dev/kmsg").split()[1::2]
            same(opened, ["ENXIO", open_kmsg], f"opening a GPU's device, which has no driver here, and another with probe.mode={mode}")
            told.append(f"{probe['spec']['containers'][0]['securityContext']}, effective capabilities {status['CapEff']}, "
                        f"{status['Seccomp_filters']} seccomp filters")
        return "; then ".join(told)

    def run(self, again=False):
        """`again`: on another Kubernetes; there the quick form leaves out what Helm alone does, and the network policies."""
        case, short, releases = self.report.case, again and self.report.is_quick, self.releases
        if not short:
            case("the chart passes helm lint, the manifests are what it makes", self.drift)
        case("each kustomization is the chart with the same values", self.kustomize)
        case("the chart's monitoring is daemonset/monitoring", self.monitoring)
        case("every set of values renders, and the API server takes it", self.combinations)
        if not short:
            case("wrong values are refused by name", self.wrong)
            case("on Kubernetes from 1.26 on: what a release lacks is left out, or refused", self.older_kubernetes)
        if not case("the image is built and imported", self.new_image):
            return
        if releases.old:
            if not case("what is upgraded from: images and charts before the last changes of a definition", releases.fetch):
                return
        else:
            self.report.skip("upgrades from earlier releases", "there is no history here")
        if not case("helm install: nodes have GPUs and objects", self.installed):
            return
        if case("a job is placed and runs", self.placed):
            case("gputopo explain asks by the API server", self.explained)
            case("kubectl forwards the ports of companion and agent", self.forwarded)
            if releases.old:
                case("the release before is upgraded under running pods by what install.md says", releases.upgrade)
            case("the admission policies refuse what they should", PolicyCases(self).enforced)
            if releases.old:
                case("helm rollback under running pods", releases.rollback)
            if case("agents are replaced by hand, one after the other", self.by_hand) and not short:
                NetworkCases(self).run()
            case("a broken image stops at one node", self.broken)
            case("by claims, with the chart's values, and back", self.by_claims)
            if not short:
                case("a kind of job that the values describe: refused, and placed by its object", DescribedCases(self).described)
                case("placement is switched off while a job waits, and on again", self.switched_off)
        if case("helm uninstall leaves nothing but running pods", self.uninstalled):
            if len(releases.old) > 1:
                case("the release before that is upgraded, by Helm and by kubectl, by what install.md says", releases.older)
            if not short and shutil.which("skopeo") and shutil.which("docker-registry"):
                case("a release in a registry, installed by nobody but Helm; and as one file", PublishCases(self, RECORDED).published)
            elif not short:
                self.report.skip("a release in a registry", "there is no skopeo or no docker-registry")
            if case("installed again: nodes by PCI, annotations only, then without the plugin, then with it", self.again):
                case("a node's power fails: its pods start before its plugin, and get GPUs", self.rebooted)
                if self.manager:
                    case("cert-manager makes the certificates", self.managed)
                elif not short:
                    self.report.skip("cert-manager makes the certificates", "it has not been built")
                case("a privileged probe, then the default one: 8 GPUs", self.privileged)
                if releases.old:
                    case("the manifests of the releases before are upgraded by what daemonset/README.md says", releases.plain)
