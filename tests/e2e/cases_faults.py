# SPDX-License-Identifier: Apache-2.0
"""Faults around the DaemonSet: of the kubelet, the API server, etcd and tokens, and deleted objects and Nodes."""
import contextlib
import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from cases_api import TOPOLOGIES
from harness import token
from harness.account import patch
from harness.controlplane import ControlPlane
from harness.report import quick
from harness.waiting import Failed, same, until

TOKEN = "/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~projected/api/token"  # of an agent's pod, on its node
KUBE_TOOL = "tests/kube-tool"


def kube_tool(program, *arguments):
    """tests/integration's driver of the client that agent and companion share."""
    folder = str(pathlib.Path(__file__).resolve().parents[1] / "integration")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("kube_driver").Tool(program, *arguments)
    finally:
        sys.path.remove(folder)


class Watch:
    """Every version of one object from now on."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.file = cluster.state / "watch.json"
        with open(self.file, "w") as out:
            self.process = cluster.enter("control", "kubectl", "get", "ngt", name, "--watch", "-o", "json", stdout=out,
                                         stderr=subprocess.DEVNULL)
        try:
            until("the first version", self.versions)
        except Failed:
            self.end()
            raise

    def versions(self):
        text, decoder, found, at = self.file.read_text(), json.JSONDecoder(), [], 0
        while at < len(text):
            try:
                version, at = decoder.raw_decode(text, at)
            except ValueError:  # the last one is not yet whole
                break
            found.append(version)
            while at < len(text) and text[at].isspace():
                at += 1
        return found

    def end(self):
        self.process.terminate()
        self.process.wait(30)


class FaultCases:
    def __init__(self, daemonset):
        self.of, self.cluster, self.report = daemonset, daemonset.cluster, daemonset.report
        self.control = ControlPlane(self.cluster)

    # steps

    def address(self, number):
        return self.of.ready_agent(number)["status"]["podIP"]

    def restarts(self):
        """Of the agents' containers, by node."""
        return {number: [status["restartCount"] for status in self.of.agent(number)["status"]["containerStatuses"]]
                for number in self.of.nodes}

    def waits_for(self, address, name, what, seconds=120):
        """Until the metric is as `what` says; asked of the pod, not of the API server."""
        def told():
            got = self.of.metric(address, name)
            return (got is not None and what(got)) or (False, got)
        until(f"{name} of {address}", told, seconds)

    def observed(self, number):
        return self.of.stored(number).get("status", {}).get("observedAt", "")

    # cases

    @quick
    def kubelet_killed(self):
        """Under a pod with GPUs: it and its GPUs stay, and not one version of the object says otherwise."""
        node, address = self.of.nodes[1], self.address(1)
        held, owners, restarts = node.used(), self.of.owners(self.of.stored(1)), self.restarts()
        container = self.cluster.get("pod", "gpus-1")["status"]["containerStatuses"][0]["containerID"]
        registrations = self.of.metric(address, "gputopo_registrations_total")
        watch = Watch(self.cluster, "node1")
        try:
            self.cluster.kill_kubelet(1, "KILL")
            self.waits_for(address, "gputopo_registrations_total", lambda value: value > registrations)
            self.waits_for(address, "gputopo_plugin_registered", lambda value: value == 1)
            node.registered()
            self.of.allocatable(1, 8)
            until("the assignments from before", lambda: node.used() == held or (False, node.used()), 60)
            until("the object to say registered",
                  lambda: self.of.said(self.of.stored(1)).get("Registered") == ("True", "Registered"))
            # two heartbeats later nothing that was on its way can be missing
            before = self.observed(1)
            until("two heartbeats", lambda: self.observed(1) > before and watch.versions()[-1]["status"]["observedAt"] > before)
            versions = watch.versions()
        finally:
            watch.end()
        wrong = [self.of.owners(version) for version in versions if self.of.owners(version) != owners]
        if wrong or not owners:
            raise Failed(f"the object named {wrong[:1]} as owners in between, {owners} are right")
        same(self.cluster.get("pod", "gpus-1")["status"]["containerStatuses"][0]["containerID"], container, "the container")
        same(self.restarts(), restarts, "restarts of the agents' containers")
        return f"{len(versions)} versions of the object, each with the owners"

    def object_deleted(self):
        before = self.of.stored(1)
        self.cluster.kubectl("delete", "ngt", "node1")

        def back():
            stored = self.of.stored(1)
            return (stored.get("status", {}).get("observedAt") and "free" in stored["status"]
                    and stored["metadata"]["uid"] != before["metadata"]["uid"] and stored) or (False, list(stored))
        stored = until("the object to be made again", back)
        for what in ("gpus", "links", "free", "owners"):
            same(stored["status"][what], before["status"][what], f"{what} of the new object")
        same(stored["metadata"]["ownerReferences"], before["metadata"]["ownerReferences"], "its owner")

    def edited(self):
        """Nonsense that the definition allows: gone with the next heartbeat, what others have added beside it stays."""
        before = self.of.stored(1)["status"]
        self.cluster.kubectl("label", "ngt", "node1", "example.com/theirs=1")
        self.cluster.kubectl(*patch("ngt", "node1", {"status": {
            "links": [], "free": [0], "freeCount": 1, "owners": [], "driverVersion": "none"}}, "--subresource=status"))
        self.cluster.kubectl("annotate", "node", "node1", "--overwrite", "metax-tech.com/gpu.topology.losses=nonsense")

        def right():
            status = self.of.stored(1)["status"]
            wrong = [what for what in ("links", "free", "freeCount", "owners", "driverVersion")
                     if status.get(what) != before.get(what)]
            return not wrong or (False, wrong)
        until("the object to be right again", right)
        until("the Node's annotation to be right again", lambda: json.loads(self.annotation("losses") or "{}"))
        same(self.of.stored(1)["metadata"]["labels"]["example.com/theirs"], "1", "a label of somebody else")

    def annotation(self, what):
        text = self.cluster.get("node", "node1")["metadata"]["annotations"].get(f"metax-tech.com/gpu.topology.{what}", "")
        return text if text.startswith("{") else ""

    @quick
    def apiserver_away(self):
        """A link goes down meanwhile: the agents wait, their containers are not restarted, and then it is told."""
        addresses = {number: self.address(number) for number in self.of.nodes}
        live, restarts = self.of.machines[1], self.restarts()
        same(self.of.said(self.of.stored(1))["LinksHealthy"], ("True", "AllUp"), "LinksHealthy before")
        failed = "gputopo_publish_away"
        with self.control.without_apiserver():
            start = time.monotonic()
            for address in addresses.values():
                self.waits_for(address, failed, lambda value: value == 1)
            live.set_link(1, 3, up=False)
            self.waits_for(addresses[1], 'gputopo_links{kind="MX",state="down"}', lambda value: value == 1)
            for address in addresses.values():
                same(self.of.metric(address, "gputopo_plugin_registered"), 1, "registered while the API server is away")
            away = time.monotonic() - start
        for address in addresses.values():
            self.waits_for(address, failed, lambda value: value == 0)
            self.waits_for(address, "gputopo_publish_current", lambda value: value == 1)
        until("the object to tell of the link",
              lambda: self.of.said(self.of.stored(1)).get("LinksHealthy") == ("False", "LinkDown")
              or (False, self.of.said(self.of.stored(1))))
        down = [(link["a"], link["b"]) for link in self.of.stored(1)["status"]["links"] if link.get("state") == "down"]
        same(down, [(1, 3)], "links that are down")
        same(self.restarts(), restarts, "restarts of the agents' containers")
        live.set_link(1, 3, up=True)
        until("the object to tell that it is up again",
              lambda: self.of.said(self.of.stored(1)).get("LinksHealthy") == ("True", "AllUp"))
        for number in addresses:
            self.of.allocatable(number, 8)
        return f"away for {away:.0f} s"

    @contextlib.contextmanager
    def asleep(self, tool):
        """The program does not notice what happens meanwhile."""
        inner = self.cluster.ask("control", "pgrep", "-f", f"^{self.of.build / KUBE_TOOL} ").split()
        same(len(inner), 1, "processes of kube-tool")
        self.cluster.ask("control", "kill", "-STOP", *inner)
        try:
            yield
        finally:
            self.cluster.ask("control", "kill", "-CONT", *inner)
            os.kill(tool.process.pid, signal.SIGCONT)  # nsenter goes to sleep with what it runs

    def compaction(self):
        """An informer sleeps while objects change, etcd forgets how, and the API server starts afresh: its place is gone
        (410), it lists again and tells each change once."""
        for name in ("stays", "changes", "goes"):
            self.cluster.kubectl("create", "-f", "-", data={"apiVersion": "topology.metax-tech.com/v1alpha1",
                                                            "kind": "NodeGPUTopology", "metadata": {"name": name}})
        tool = kube_tool(self.cluster.state / "enter", "control", self.of.build / KUBE_TOOL, "--kubeconfig",
                         self.cluster.state / "admin.kubeconfig")
        try:
            follow = tool.start("inform", "/".join(TOPOLOGIES.split("/")[2:]))
            tool.event(follow, "SYNCED", 60)
            seen = len(tool.said(follow))
            with self.asleep(tool):
                with self.control.without_apiserver():
                    pass  # the stream has ended: nothing of what follows can come by it
                self.cluster.kubectl("label", "ngt", "changes", "example.com/changed=1")
                self.cluster.kubectl("delete", "ngt", "goes")
                revision = self.control.compact()
                with self.control.without_apiserver():
                    pass  # what it remembers beside etcd is gone, too
            tool.event(follow, "SYNCED", 120, count=2)
            self.cluster.kubectl("label", "ngt", "stays", "example.com/changed=2")  # and it goes on watching
            tool.wait(follow, lambda answer: self.change(answer) == ("UPDATE", "stays"), 60)
            counters = tool.ask("counters", of=follow)
            said = [self.change(answer) for answer in tool.said(follow)[seen:]]
        finally:
            tool.close()
        ours = [one for one in said if one[1] in ("stays", "changes", "goes")]
        same(sorted(ours), [("DELETE", "goes"), ("UPDATE", "changes"), ("UPDATE", "stays")], "what the informer told")
        same([answer["known"] for answer in tool.said(follow) if answer.get("event") == "DELETE"], [False],
             "whether the deletion was heard of by the watch")
        same(counters["lists"], 2, "lists of the informer")
        self.cluster.kubectl("delete", "ngt", "stays", "changes")
        for number in self.of.nodes:  # the agents have no watch, and nothing to lose
            before = self.observed(number)
            until(f"the agent of node{number} to publish", lambda number=number, before=before: self.observed(number) > before)
        return f"revision {revision} compacted"

    @staticmethod
    def change(answer):
        metadata = answer.get("object", {}).get("metadata", {}) if isinstance(answer.get("object"), dict) else {}
        return answer.get("event"), answer.get("name") or metadata.get("name")

    def token_expires(self):
        """The agent finds a token that has expired, is refused with it, and goes on with the one that the kubelet puts
        there next."""
        pod, address = self.of.ready_agent(2), self.address(2)
        file = TOKEN.format(uid=pod["metadata"]["uid"])
        good = self.cluster.ask(2, "cat", file)
        now = int(time.time())
        told = token.claims(good)
        same(told["kubernetes.io"]["node"]["name"], "node2", "node in the token")
        # the API server allows for clocks that are a minute apart
        expired = token.signed(good, self.cluster.state / "pki" / "sa.key", iat=now - 4000, nbf=now - 4000, exp=now - 120)
        refused = self.of.metric(address, "gputopo_publish_unauthorized_total")
        restarts = self.restarts()

        def unauthorized():
            if self.cluster.ask(2, "cat", file) != expired:  # also where the kubelet has been quicker than the agent
                self.cluster.ask(2, "tee", file, data=expired)
            return self.of.metric(address, "gputopo_publish_unauthorized_total") > refused
        until("the agent to be refused", unauthorized, 180)
        self.waits_for(address, "gputopo_publish_current", lambda value: value == 0)
        before = self.observed(2)
        # a change of the pod has the kubelet look at its volumes at once, instead of within a minute and a half
        self.cluster.kubectl("annotate", "pod", "-n", pod["metadata"]["namespace"], pod["metadata"]["name"],
                             "example.com/look=again")
        until("the kubelet to put a good token there", lambda: self.cluster.ask(2, "cat", file) != expired, 180)
        start = time.monotonic()
        self.waits_for(address, "gputopo_publish_current", lambda value: value == 1, 180)
        until("the agent to publish again", lambda: self.observed(2) > before)
        same(self.restarts(), restarts, "restarts of the agents' containers")
        return f"published {time.monotonic() - start:.0f} s after the new token"

    def node_deleted(self):
        """Its object is collected and not made again, until there is a Node of that name."""
        uid = self.cluster.get("node", "node2")["metadata"]["uid"]
        pod = self.of.ready_agent(2)
        same(self.of.stored(2)["metadata"]["ownerReferences"][0]["uid"], uid, "owner of the object")
        self.cluster.kubectl("delete", "node", "node2")
        start = time.monotonic()
        until("the object to be collected", lambda: not self.of.stored(2))
        collected = time.monotonic() - start
        until("the agent to say that there is no such Node", lambda: "there is no such Node" in self.of.log(2, pod))
        same(self.of.stored(2), {}, "the object while there is no Node")
        self.cluster.kill_kubelet(2, "TERM")  # the next one registers the Node

        def back():
            found = [item["metadata"]["uid"] for item in self.cluster.get("nodes")["items"]
                     if item["metadata"]["name"] == "node2"]
            owners = self.of.stored(2).get("metadata", {}).get("ownerReferences", [])
            return (found and found[0] != uid and [one["uid"] for one in owners] == found) or (False, (found, owners))
        until("an object that the new Node owns", back, 240)
        there = time.monotonic() - start
        self.of.ready_agent(2)
        self.of.allocatable(2, 8)
        return f"collected after {collected:.0f} s, there again after {there:.0f} s"

    def under_pods(self):
        """With pods that have GPUs, on recorded machines."""
        case = self.report.case
        case("the kubelet is killed: assignments, owners and the agent's pod stay", self.kubelet_killed)
        case("an object deleted by hand comes back", self.object_deleted)
        case("an object edited into nonsense is put right", self.edited)

    def recorded(self):
        self.report.case("a Node is deleted: its object goes, and comes with the next Node", self.node_deleted)

    def live(self):
        case = self.report.case
        case("the API server is killed, a link goes down, the API server comes back: told", self.apiserver_away)
        case("etcd is compacted: an informer whose place is gone lists again, each change told once", self.compaction)
        case("the agent's token expires and the kubelet renews it", self.token_expires)
