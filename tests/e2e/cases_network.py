# SPDX-License-Identifier: Apache-2.0
"""The chart's NetworkPolicies, enforced: which clients reach the daemons' ports, and what the daemons reach."""
import re

from cases_daemonset import DaemonSetCases
from harness import pods
from harness.install import NAMESPACE
from harness.policy import Enforcer
from harness.report import quick
from harness.waiting import Failed, same, until

MONITORING, VOLCANO, OTHERS = "monitoring", "volcano-system", "default"
API_SERVER = "10.96.0.1"  # in ./up, as pods see it
REACHED = """
import select, socket, sys
waiting = {}
for target in sys.argv[1:]:
    host, _, port = target.rpartition(":")
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex((host, int(port)))
    waiting[one] = target
reached = []
while waiting:
    _, ready, _ = select.select([], list(waiting), [], 3)
    if not ready:
        break
    for one in ready:
        target = waiting.pop(one)
        if one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
            reached.append(target)
print(*reached)
"""
READ = """
import sys, urllib.request
print(urllib.request.urlopen(f"http://{sys.argv[1]}/metrics", timeout=10).read().decode())
"""


class NetworkCases:
    """Of a release that is installed with placement, on nodes 1 and 2."""

    def __init__(self, chart):
        self.chart, self.cluster = chart, chart.cluster
        self.daemons = DaemonSetCases(chart.report, chart.cluster, chart.build, None)

    def inside(self, pod, container, program, *arguments):
        """Runs Python in the network of a pod."""
        number = pod["spec"]["nodeName"].removeprefix("node")
        return self.cluster.ask(number, "nsenter", "--target", self.daemons.pid(pod, container), "--net", "/usr/bin/python3", "-c", program, *arguments)

    def make_askers(self):
        """A pod of each namespace on each node."""
        for namespace in (MONITORING, VOLCANO):
            self.cluster.kubectl("create", "namespace", namespace)
        for namespace in (MONITORING, VOLCANO, OTHERS):
            for number in (1, 2):
                manifest = pods.manifest(f"asker-{number}", 0)
                manifest["metadata"]["labels"] = {"app": "asker"}
                manifest["spec"]["nodeName"] = f"node{number}"
                self.cluster.kubectl("create", "-n", namespace, "-f", "-", data=manifest)

        def running():
            items = self.cluster.get("pods", "-A", "-l", "app=asker")["items"]
            return all(item["status"]["phase"] == "Running" for item in items) and items
        return {namespace: [item for item in until("the asking pods", running) if item["metadata"]["namespace"] == namespace]
                for namespace in (MONITORING, VOLCANO, OTHERS)}

    def remove_askers(self):
        self.cluster.kubectl("delete", "pods", "-n", OTHERS, "-l", "app=asker", "--wait")
        self.cluster.kubectl("delete", "namespaces", MONITORING, VOLCANO, "--ignore-not-found", "--wait")

    def reached(self, pod, container="c0"):
        """The ports by their names that are open for somebody in this pod."""
        names = {f"{address}:{port}": name for name, (address, port) in self.ports.items()}
        return {names[target] for target in self.inside(pod, container, REACHED, *names).split()}

    def look(self):
        """{name: (address, port)} of everything that is asked here."""
        self.companion = self.cluster.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=gputopo-scheduler")["items"][0]
        self.agents = self.chart.agents()
        self.ports = {"companion": (self.companion["status"]["podIP"], 9401), "companion health": (self.companion["status"]["podIP"], 9403),
                      "companion TLS": (self.companion["status"]["podIP"], 9443)}
        for number, pod in self.agents.items():
            self.ports[f"agent {number}"] = (pod["status"]["podIP"], 9400)
            self.ports[f"agent {number} health"] = (pod["status"]["podIP"], 9402)
        return set(self.ports)

    def check(self, who, expected):
        for namespace, items in who.items():
            for pod in items:
                same(self.reached(pod), expected[namespace], f"ports that a pod of {namespace} on {pod['spec']['nodeName']} reaches")

    def health_requests(self, who):
        """How often health was asked for on the listener that is the kubelet's alone, by daemon, as monitoring reads it."""
        asked = {}
        for name, (address, port) in self.ports.items():
            if name in ("companion", "agent 1", "agent 2"):
                said = self.inside(who[MONITORING][0], "c0", READ, f"{address}:{port}")
                asked[name] = int(re.search(r'^gputopo_http_requests_total\{listener="health"\} (\d+)$', said, re.M)[1])
        return asked

    def published(self):
        return {item["metadata"]["name"]: item["status"].get("observedAt") for item in self.cluster.get("ngt")["items"]}

    def ready(self):
        return {item["metadata"]["name"]: [one["status"] for one in item["status"]["conditions"] if one["type"] == "Ready"]
                for item in self.cluster.get("pods", "-n", NAMESPACE)["items"]}

    @quick
    def policies(self):
        everything = self.look()
        outside = {f"kubelet of node{number}": (f"10.77.0.{10 + number}", 10250) for number in (1, 2)}
        try:
            who = self.make_askers()
            self.check(who, dict.fromkeys(who, everything))  # nothing is enforced yet: what is closed below is closed by the policies
            with Enforcer(self.cluster) as enforcer:
                same(enforcer.apply(), 4, "pods that the policies select")
                plain = {"companion", "agent 1", "agent 2"}
                self.check(who, {MONITORING: plain | {"companion TLS"}, VOLCANO: {"companion", "companion TLS"}, OTHERS: {"companion TLS"}})
                self.goes_on(who)
                self.ports = {**outside, "API server": (API_SERVER, 443)}
                for pod, container in ((self.companion, "scheduler"), (self.agents[1], "agent")):
                    own = f"kubelet of {pod['spec']['nodeName']}"  # no policy comes between a pod and its node
                    same(self.reached(pod, container), {"API server", own}, f"what {pod['metadata']['name']} reaches")
                same(self.reached(who[OTHERS][0]), set(self.ports), "what a pod without a policy reaches")
                self.chart.release("upgrade", "networkPolicy.apiServerCidrs={10.77.0.1/32,10.96.0.1/32}")
                same(self.look(), everything, "ports")
                enforcer.apply()
                self.check(who, {MONITORING: plain, VOLCANO: {"companion"}, OTHERS: set()})
                self.goes_on(who)
                return f"{len(everything)} ports, pods of {len(who)} namespaces on both nodes"
        finally:
            self.remove_askers()
            self.chart.release("upgrade", "networkPolicy.apiServerCidrs=null")

    def goes_on(self, who):
        """The webhook is asked, the kubelet's probes come through, and the agents publish."""
        before, told = self.health_requests(who), self.published()
        self.chart.gated("policed")
        self.cluster.kubectl("delete", "job", "policed", "--wait")
        until("two probes of each daemon", lambda: (lambda now: all(now[name] >= before[name] + 2 for name in before) or (False, now))(
            self.health_requests(who)))
        until("news of both nodes", lambda: (lambda now: all(now[name] != told[name] for name in told) or (False, now))(self.published()))
        unready = [name for name, status in self.ready().items() if status != ["True"]]
        if unready:
            raise Failed(f"not ready: {unready}")

    def run(self):
        self.chart.report.case("network policies, enforced: monitoring and Volcano get in, others do not; webhook and probes work", self.policies)
