# SPDX-License-Identifier: Apache-2.0
"""A small cluster for tests that read what both daemons serve: an agent on a recorded node beside a kubelet's double,
gputopo-scheduler with all its parts, and the double of the API server between them."""

import contextlib
import json
import os
import re
import subprocess

import placement_driver
from api_double import StrictDouble
from companion_driver import NODES, SUPERNODE_LABEL, TOPOLOGIES, Companion, report
from daemon_driver import free_port, wait_for
from kube_driver import kubeconfig, make_authority
from kubelet_double import KubeletDouble
from publish_driver import MACHINES, Agent

NAMESPACE = "gputopo-system"
PODS = "/api/v1/namespaces/team/pods"
JOBS = "/apis/batch/v1/namespaces/team/jobs"


class Served(contextlib.ExitStack):
    def __init__(self, programs, directory, machine="c500-8"):
        super().__init__()
        self.programs, self.directory = programs, directory
        self.api = self.enter_context(StrictDouble(directory, tokens=("token-1",)))
        node_json = subprocess.run([f"{programs}/gputopo", "show", "--from", f"{MACHINES}/{machine}.json", "-o", "json"],
                                   capture_output=True, text=True, check=True).stdout
        self.node = json.loads(node_json)
        self.recording = f"{directory}/node.json"
        self.record()
        os.makedirs(f"{directory}/dev/dri")
        for name in ["mxcd", *(f"dri/card{i}" for i in range(16)), *("dri/render" f"D{128 + i}" for i in range(16))]:
            with open(f"{directory}/dev/{name}", "w", encoding="ascii"):
                pass
        for name in ("n1", "n2"):  # n1 has a real agent, n2 was reported by one that is gone
            self.api.add(NODES, name, metadata={"labels": {SUPERNODE_LABEL: "rack"}}, status=placement_driver.node_status())
        self.api.add(TOPOLOGIES, "n2", status={**report("uuid-n2"), **placement_driver.topology("n2")})
        self.kubelet = KubeletDouble(directory)
        self.kubelet.start()
        self.callback(self.kubelet.stop, leave_socket=False)
        config = kubeconfig(f"{directory}/config", self.api.url, f"certificate-authority: {directory}/ca.crt", "token: token-1")
        os.makedirs(f"{directory}/plugins/gpu.metax-tech.com")  # claims were served here, so that their metrics are
        with open(f"{directory}/plugins/gpu.metax-tech.com/claims.json", "w", encoding="ascii") as file:
            file.write('{"version": 1, "claims": []}')
        self.agent = Agent(f"{programs}/gputopo-agent", directory, "--from", self.recording, "--dev-root", f"{directory}/dev",
                           "--kubeconfig", config, "--device-strategy", "both", "--cdi-dir", f"{directory}/cdi")
        self.callback(self.agent.stop)
        make_authority(directory, "companion", days=30)  # its certificate, too
        self.companion = Companion(f"{programs}/gputopo-scheduler", "--namespace", NAMESPACE, "--kubeconfig", config, "--https",
                                   f"127.0.0.1:{free_port()}", "--tls-certificate", f"{directory}/companion.crt", "--tls-key",
                                   f"{directory}/companion.key", "--only=supernodes,placement,extender,ui,kueue")
        self.callback(self.companion.stop)

    def record(self):
        with open(f"{self.recording}.new", "w", encoding="utf-8") as file:
            json.dump(self.node, file)
        os.rename(f"{self.recording}.new", self.recording)

    def rescan(self):
        self.record()
        self.agent.hangup()

    def add_job(self, name, pods, group):
        """A Job with so many gated pods of 8 GPUs."""
        template = placement_driver.template(8, group=group)
        self.api.add(JOBS, name, spec={"completions": pods, "parallelism": pods, "completionMode": "Indexed", "template": template})
        with self.api.lock:
            uid = self.api.objects[self.api.place(JOBS)[0], name]["metadata"]["uid"]
        for rank in range(pods):
            self.api.add(PODS, f"{name}-{rank}", spec=placement_driver.pod_spec(8), status={"phase": "Pending"}, metadata={
                "annotations": template["metadata"]["annotations"],
                "labels": {"batch.kubernetes.io/job-completion-index": str(rank)},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}]})

    def settle(self):
        """Both are ready, the agent has published, the companion leads."""
        for what in (lambda: self.agent.get("/readyz")[0] == 200, self.agent.is_current, self.companion.is_ready,
                     self.companion.leads, lambda: self.companion.metrics().get('gputopo_nodes{state="placed"}') == 2):
            if not wait_for(lambda what=what: quietly(what)):
                raise AssertionError(f"{self.agent.lines}\n{self.companion.lines}")


def probing_agent(served):
    """/metrics of an agent with a probe, which a recording has no use for."""
    root = f"{served.directory}/root"
    os.makedirs(f"{root}/sys/bus/pci/devices")
    agent = Agent(f"{served.programs}/gputopo-agent", served.directory, "--root", root, "--probe", "/bin/false",
                  "--probe-resource", "example.com/probe", "--no-device-plugin", "--no-publish")
    try:
        if not wait_for(lambda: quietly(lambda: "gputopo_probe_restarts_total" in agent.get("/metrics")[1])):
            raise AssertionError(agent.lines)
        return agent.get("/metrics")[1]
    finally:
        agent.stop()


def quietly(what):
    try:
        return what()
    except OSError:
        return False


def families(text):
    """{name: {"type", "help", "labels": {label: set of values}}} of an answer of /metrics."""
    found = {}
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            found.setdefault(name, {"labels": {}})[word.lower()] = rest
            continue
        name, labels = re.match(r"([a-zA-Z0-9_:]+)(?:\{(.*)\})? ", line).groups()
        base = name if name in found else re.sub("_(bucket|sum|count)$", "", name)
        for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""):
            if not (label == "le" and base != name):
                found[base]["labels"].setdefault(label, set()).add(value)
    return found
