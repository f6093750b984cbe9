# SPDX-License-Identifier: Apache-2.0
"""The DaemonSet as an operator applies it: image, ConfigMap of recordings, pods on real nodes."""
import datetime
import json
import os
import re
import time

from cases_api import topology, use
from cases_faults import FaultCases
from cases_monitoring import MonitoringCases
from cases_supernodes import SupernodeCases
from harness import install, pods
from harness.account import Account, apply
from harness.install import DAEMONSET, DEVICES, NAMESPACE, SERVERS
from harness.node import Node
from harness.podresources import PodResources
from harness.recordings import C500, C550
from harness.report import quick
from harness.waiting import Failed, same, until

SELECTOR = "app.kubernetes.io/name=gputopo-agent"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
HEARTBEAT = 5  # seconds; 300 are the default, and too many to wait for
FETCH = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"
PROBE_RESOURCE = "metax-tech.com/gpu-probe"
# joins the device cgroup of a process, and says what comes of opening files under its rules
OPEN = """import errno, os, sys
pid, *paths = sys.argv[1:]
groups = [line.rstrip("\\n").split(":", 2) for line in open(f"/proc/{pid}/cgroup")]
place = [f"/sys/fs/cgroup/devices{path}" for _, kinds, path in groups if "devices" in kinds.split(",")]
place += [f"/sys/fs/cgroup{path}" for number, kinds, path in groups if not kinds]
place = [path for path in place if os.path.exists(path + "/cgroup.procs")]
with open(place[0] + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
for path in paths:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        print(path, "opened")
    except OSError as why:
        print(path, errno.errorcode[why.errno])
"""


def seconds(stamp):
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


class DaemonSetCases:
    def __init__(self, report, cluster, build, crds):
        self.report, self.cluster, self.build, self.crds = report, cluster, build, crds
        self.nodes = {}
        self.machines = {}  # those that are discovered live
        self.applied = None  # the last overlay

    # steps

    def agent(self, number, selector=SELECTOR):
        """The running agent's pod on a node, or None."""
        items = self.cluster.get("pods", "-n", NAMESPACE, "-l", selector,
                                 f"--field-selector=spec.nodeName=node{number}")["items"]
        live = [item for item in items if "deletionTimestamp" not in item["metadata"]]
        return live[0] if len(live) == 1 else None

    def ready_agent(self, number, but_not="", selector=SELECTOR):
        def ready():
            pod = self.agent(number, selector)
            if pod is None or pod["metadata"]["uid"] == but_not:
                return False
            statuses = pod["status"].get("containerStatuses", [])
            if statuses and all(status["ready"] for status in statuses):
                return pod
            return False, json.dumps([status.get("state") for status in statuses])
        return until(f"the pod of {selector} on node{number}", ready, 180)

    def ready_probe(self, number, but_not=""):
        return self.ready_agent(number, but_not, "app.kubernetes.io/name=gputopo-probe")

    def pid(self, pod, container="agent"):
        """Of the container's process, in the cluster's PID namespace."""
        wanted = next(status["containerID"] for status in pod["status"]["containerStatuses"] if status["name"] == container)
        return self.cluster.pid(pod["spec"]["nodeName"].removeprefix("node"), wanted)

    def proc(self, pid, file):
        return self.cluster.ask("control", "cat", f"/proc/{pid}/{file}")

    def status(self, pid):
        return dict(line.split(":\t", 1) for line in self.proc(pid, "status").splitlines() if ":\t" in line)

    def metrics_of(self, address):
        return self.cluster.ask("control", "/usr/bin/python3", "-c", FETCH, f"http://{address}:9400/metrics")

    def metric(self, address, name):
        """Asked of the pod itself, so also while there is no API server. None: there is no such metric."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.metrics_of(address), re.M)
        return float(found.group(1)) if found else None

    def log(self, number, pod, container="agent"):
        """Of a pod's container; without the API server, which would have to know the Node."""
        files = (self.cluster.state / f"node{number}" / "logs").glob(
            f"{NAMESPACE}_*_{pod['metadata']['uid']}/{container}/*.log")
        return "".join(file.read_text(errors="replace") for file in files)

    def stored(self, number):
        """The node's object, {} while there is none."""
        return next((item for item in self.cluster.get("ngt")["items"] if item["metadata"]["name"] == f"node{number}"), {})

    @staticmethod
    def owners(stored):
        return [(one["namespace"], one["pod"], one["container"], one["gpu"])
                for one in stored.get("status", {}).get("owners", [])]

    @staticmethod
    def said(stored):
        """{condition: (status, reason)}"""
        return {one["type"]: (one["status"], one["reason"]) for one in stored.get("status", {}).get("conditions", [])}

    def allocatable(self, number, want):
        def told():
            got = self.cluster.get("node", f"node{number}")["status"]["allocatable"].get(pods.RESOURCE)
            return got == str(want) or (False, got)
        until(f"allocatable {want} on node{number}", told)

    def run_pod(self, name, number, count):
        manifest = pods.manifest(name, count)
        manifest["spec"]["nodeSelector"] = {"kubernetes.io/hostname": f"node{number}"}
        self.cluster.kubectl("create", "-f", "-", data=manifest)
        until(f"{name} to run", lambda: self.cluster.get("pod", name)["status"]["phase"] == "Running")
        return self.nodes[number].check_container(name)

    # cases, in order

    @quick
    def image(self):
        return install.import_image(self.cluster, self.build, (1, 2))

    @quick
    def rollout(self):
        self.nodes = {number: Node(self.cluster, self.build, recording, number)
                      for number, recording in enumerate((C500, C550), 1)}
        for number, node in self.nodes.items():
            install.mount(self.cluster, number, node.machine.dev, DEVICES)
        self.cluster.kubectl("apply", "--server-side", "-f", DAEMONSET / "base" / "namespace.yaml")
        self.cluster.kubectl("create", "configmap", "gputopo-recordings", "-n", NAMESPACE,
                             *(f"--from-file=node{number}.json={recording}"
                               for number, recording in enumerate((C500, C550), 1)))
        self.applied = install.apply(self.cluster, "recorded", install.RECORDED, HEARTBEAT)
        for number in self.nodes:
            self.ready_agent(number)
            self.allocatable(number, 8)
        row = self.cluster.kubectl("get", "daemonset", "gputopo-agent", "-n", NAMESPACE, "--no-headers")
        same(row.split()[1:6], ["2", "2", "2", "2", "2"], "the DaemonSet's pods")

    @quick
    def unprivileged(self):
        """Of the running process, not of the manifest."""
        pid = self.pid(self.ready_agent(1))
        status = self.status(pid)
        for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            same(int(status[kind], 16), 0, f"{kind} of the agent")
        same((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), "no new privileges, seccomp filter")
        mounts = {}
        for line in self.proc(pid, "mountinfo").splitlines():
            fields = line.split()
            mounts[fields[4]] = fields[5].split(",")
        writable = {path for path, options in mounts.items() if "ro" not in options
                    and not path.startswith(("/proc", "/sys"))}
        allowed = {"/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/run/termination-log", "/etc/hosts",
                   "/var/lib/kubelet/device-plugins"}
        if writable - allowed:
            raise Failed(f"also writable in the agent's container: {sorted(writable - allowed)}")
        for path in ("/", DEVICES, "/var/lib/kubelet/pod-resources", "/etc/gputopo/recordings"):
            if "ro" not in mounts[path]:
                raise Failed(f"{path} is writable in the agent's container: {mounts[path]}")

    def memory(self):
        """Of the agent in its pod, registered with its kubelet and with its TLS session open; by what is mapped."""
        address, pid = self.ready_agent(1)["status"]["podIP"], self.pid(self.ready_agent(1))
        until("the agent to have published", lambda: self.metric(address, "gputopo_publish_current") == 1)
        parts, name, anonymous = {}, "", 0
        for line in self.proc(pid, "smaps").splitlines():
            fields = line.split()
            if not fields[0].endswith(":"):
                name = os.path.basename(fields[5]) if len(fields) > 5 else "[anonymous]"
            elif fields[0] == "Rss:":
                parts[name] = parts.get(name, 0) + int(fields[1]) * 1024 / 1e6
            elif fields[0] == "Anonymous:":
                anonymous += int(fields[1]) * 1024 / 1e6
        resident = sum(parts.values())
        if resident > 20 or anonymous > 4:
            raise Failed(f"{resident:.1f} MB resident, {anonymous:.1f} MB anonymous: {parts}")
        largest = sorted(parts.items(), key=lambda part: -part[1])[:6]
        return (f"{resident:.1f} MB resident, {anonymous:.1f} MB of it anonymous; "
                + ", ".join(f"{name} {size:.1f}" for name, size in largest))

    @quick
    def pods_run(self):
        got = {number: self.run_pod(f"gpus-{number}", number, 2) for number in self.nodes}
        for number, node in self.nodes.items():
            same(got[number], node.machine.best(node.all, 2), f"GPUs on node{number}, against `gputopo loss`")
        return " ".join(f"node{number}:{','.join(map(str, gpus))}" for number, gpus in got.items())

    @quick
    def published(self):
        """Each agent has written its node's object with the token of its pod: wiring, owners, conditions, and the Node."""
        sizes = []
        for number, node in self.nodes.items():
            held = node.machine.indices(node.usage.used()[f"gpus-{number}", "c0"])

            def told(number=number, held=held):
                stored = self.stored(number)
                owners = self.owners(stored)
                return (owners == [("default", f"gpus-{number}", "c0", gpu) for gpu in held] and stored["status"]) or (
                    False, owners)
            status = until(f"the owners in the object of node{number}", told, 60)
            same(status["free"], sorted(node.all - set(held)), "free GPUs")
            same([gpu["uuid"] for gpu in status["gpus"]], [gpu["uuid"] for gpu in node.machine.gpus], "UUIDs")
            said = {one["type"]: one["status"] for one in status["conditions"]}
            same((said["Discovered"], said["Registered"]), ("True", "True"), f"conditions {said}")
            owner = self.cluster.get("ngt", f"node{number}")["metadata"]["ownerReferences"][0]
            kept = self.cluster.get("node", f"node{number}")["metadata"]
            same((owner["kind"], owner["uid"]), ("Node", kept["uid"]), "owner of the object")
            for what in ("losses", "scores"):
                annotation = json.loads(kept["annotations"][f"metax-tech.com/gpu.topology.{what}"])
                same(list(annotation), [str(k) for k in range(1, 9)], f"the Node's {what}")
            same(kept["labels"].get("metax-tech.com/gpu.product"), node.machine.gpus[0]["product"], "the Node's label")
            sizes.append(f"{len(json.dumps(status)) / 1000:.1f} kB")
        return ", ".join(sizes)

    @quick
    def agent_deleted(self):
        """The running pod's GPUs stay its own, and no other pod gets them."""
        node, before = self.nodes[1], self.agent(1)
        held = node.used()
        container = self.cluster.get("pod", "gpus-1")["status"]["containerStatuses"][0]["containerID"]
        self.cluster.kubectl("delete", "pod", "-n", NAMESPACE, before["metadata"]["name"], "--wait")
        self.ready_agent(1, before["metadata"]["uid"])
        self.allocatable(1, 8)
        node.registered()
        same(node.used(), held, "assignments after the agent's pod was deleted")
        same(self.cluster.get("pod", "gpus-1")["status"]["containerStatuses"][0]["containerID"], container, "its container")
        got = self.run_pod("six-more", 1, 6)
        same(sorted(got + held["gpus-1", "c0"]), list(range(8)), "GPUs of both pods")
        self.cluster.kubectl("delete", "pod", "six-more", "gpus-1", "gpus-2", "--wait")

    @quick
    def own_token(self):
        """With the very token that the kubelet has put into the agent's pod."""
        for number, other in ((1, 2), (2, 1)):
            token = self.proc(self.pid(self.ready_agent(number)), "root" + TOKEN)
            agent = Account(self.cluster, f"pod-{number}", token)
            agent.may(*apply("test", "--dry-run=server"), data=topology(f"node{number}"))
            agent.may(*apply("test", "--dry-run=server", "--subresource=status"),
                      data=topology(f"node{number}", use([0, 1])))
            agent.may_not(f"the agent of node node{number} may not write the NodeGPUTopology node{other}",
                          *apply("gputopo-agent"), data=topology(f"node{other}"))

    def metrics(self):
        address = self.ready_agent(2)["status"]["podIP"]
        text = self.metrics_of(address)
        if "gputopo_plugin_registered 1" not in text:
            raise Failed(f"the agent of node2 does not say that it is registered: {text[:300]}")

    @quick
    def live(self):
        """Both nodes find out live: the agent reads a sysfs tree, the probe in its own pod loads the fake library."""
        for number, spec in ((1, "c500-8"), (2, "c550-8")):
            live = self.machines[number] = install.make_live(self.cluster, self.build, number, spec)
            node = self.nodes[number] = Node(self.cluster, self.build, live.root, 10 + number)
            node.number, node.usage = number, PodResources(self.cluster.kubelet_dir(number))
            for gpu in node.machine.gpus:
                gpu["uuid"] = live.uuids()[gpu["bdf"]]
            install.mount(self.cluster, number, node.machine.dev, DEVICES)
        self.applied = install.apply(self.cluster, "live", install.MADE, HEARTBEAT, "hypernodes")
        for name in ("agent", "probe"):
            self.cluster.kubectl("rollout", "status", f"daemonset/gputopo-{name}", "-n", NAMESPACE, "--timeout=290s")
        waited = []
        for number, node in self.nodes.items():
            pod, probe = self.ready_agent(number), self.ready_probe(number)
            uuids = self.machines[number].uuids()
            until("the UUIDs that only the vendor's library knows", lambda: node.usage.allocatable() == set(uuids.values())
                  or (False, sorted(node.usage.allocatable())))
            self.allocatable(number, 8)
            begun = [status["state"]["running"]["startedAt"] for item in (pod, probe) for status in item["status"]["containerStatuses"]]
            waited.append(f"node{number} {(seconds(begun[1]) - seconds(begun[0])):.0f} s")
            self.answering(number)
            until(f"the object of node{number} to tell what the library tells", lambda: self.told(number) or (False, self.stored(number)))
        got = self.run_pod("live", 1, 4)
        self.cluster.kubectl("delete", "pod", "live", "--wait")
        return f"a pod of 4 has {','.join(map(str, got))}; from an agent's start to its probe's: {', '.join(waited)}"

    def told(self, number):
        status = self.stored(number).get("status", {})
        return (status.get("supernode"), [gpu["uuid"] for gpu in status.get("gpus", [])]) == (
            {"uuid": SERVERS[number], "remote": [SERVERS[3 - number]]}, [gpu["uuid"] for gpu in self.nodes[number].machine.gpus])

    def answering(self, number, want=("True", "Answering")):
        until(f"the library of node{number} to be {want[1]}", lambda: self.said(self.stored(number)).get("VendorLibrary") == want
              or (False, self.said(self.stored(number))))

    @quick
    def probe(self):
        """The container that loads the library has no privilege and no token, and of the host's devices the GPUs'."""
        pod, machine = self.ready_probe(1), self.nodes[1].machine
        probe, agent = self.pid(pod, "probe"), self.pid(self.ready_agent(1))
        for who, pid in (("probe", probe), ("agent", agent)):
            status = self.status(pid)
            same([int(status[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")], [0] * 5, f"capabilities of the {who}")
            same((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), f"no new privileges, seccomp filter of the {who}")
            same(status["Seccomp_filters"], "2" if who == "probe" else "1", f"the runtime's filter, and the probe's own against sockets: {who}")
            same("libmxsml" in self.proc(pid, "maps"), False, f"the vendor's library in the first process of the {who}")
        mounts = {line.split()[4]: line.split()[5].split(",") for line in self.proc(probe, "mountinfo").splitlines()}
        same([path for path in mounts if "serviceaccount" in path], [], "tokens in the probe's container")
        writable = {path for path, options in mounts.items() if "ro" not in options and not path.startswith(("/proc", "/sys/", "/dev"))}
        same(writable - {"/etc/hosts", "/run/termination-log"}, {install.SOCKETS}, "writable in the probe's container")
        for path in ("/", "/sys", "/opt"):
            same("ro" in mounts[path], True, f"{path} is read-only in the probe's container")
        every = machine.expected_nodes(range(len(machine.gpus)))
        found = self.cluster.ask("control", "find", f"/proc/{probe}/root/dev", "-type", "c", "-path", "*/dri/*", "-o", "-name", "mx*")
        same({path.split("/root/dev/")[1] for path in found.split()}, set(every), "device nodes in the probe's container")
        paths = [f"/proc/{probe}/root/dev/{name}" for name in every]
        opened = dict(line.split() for line in self.cluster.ask(
            "control", "/usr/bin/python3", "-c", OPEN, probe, *paths, "/dev/kmsg").splitlines())
        same(opened.pop("/dev/kmsg"), "EPERM", "opening a device that was not handed out")
        same(opened, dict.fromkeys(paths, "ENXIO"), "opening the GPUs', which have no driver here")
        return f"{len(every)} device nodes"

    @quick
    def refused(self):
        """Nobody else gets the probe's resource: its holder could open the GPUs of every pod of the node."""
        self.cluster.kubectl("create", "namespace", "tenant")
        for kind in ("containers", "initContainers"):
            manifest = pods.manifest("thief", 0)
            greedy = {**manifest["spec"]["containers"][0], "name": "greedy", "resources": {"limits": {PROBE_RESOURCE: "1"}}}
            manifest["spec"][kind] = [greedy, *(manifest["spec"]["containers"] if kind == "containers" else [])]
            try:
                self.cluster.kubectl("create", "-n", "tenant", "-f", "-", data=manifest)
            except Failed as refusal:
                if "is for gputopo's own probe" not in str(refusal):
                    raise
            else:
                raise Failed(f"a pod with {PROBE_RESOURCE} in {kind} was taken")
        self.cluster.kubectl("create", "-n", "tenant", "--dry-run=server", "-f", "-", data=pods.manifest("honest", 1))
        self.cluster.kubectl("delete", "namespace", "tenant", "--wait")

    def probe_away(self):
        """No probe: the agent goes on with what it knows, and says so; another one, and all is as before."""
        node, before = self.nodes[1], self.ready_probe(1)
        devices = node.usage.allocatable()
        self.cluster.kubectl("patch", "daemonset", "gputopo-probe", "-n", NAMESPACE, "--type=merge",
                             "-p", '{"spec": {"template": {"spec": {"nodeSelector": {"example.com/nowhere": "true"}}}}}')
        self.answering(1, ("False", "NotAnswering"))
        same(node.usage.allocatable(), devices, "GPUs without the probe")
        self.cluster.kubectl("patch", "daemonset", "gputopo-probe", "-n", NAMESPACE, "--type=json",
                             "-p", '[{"op": "remove", "path": "/spec/template/spec/nodeSelector/example.com~1nowhere"}]')
        start = time.monotonic()
        self.ready_probe(1, before["metadata"]["uid"])
        self.answering(1)
        same(node.usage.allocatable(), devices, "GPUs after all")
        return f"answering {time.monotonic() - start:.0f} s after the probe was allowed again"

    def probe_survives(self):
        """The kubelet and the agent are started again: both resources are back, and the probe's container has run on."""
        def containers():
            return [status["containerID"] for number in self.nodes for status in self.ready_probe(number)["status"]["containerStatuses"]]

        def offered():
            given = self.cluster.get("node", "node1")["status"]["allocatable"]
            return (given.get(PROBE_RESOURCE), given.get(pods.RESOURCE)) == ("1", "8") or (False, given)
        address, running, pod = self.ready_agent(1)["status"]["podIP"], containers(), self.ready_agent(1)
        registrations = self.metric(address, "gputopo_registrations_total")
        self.cluster.kill_kubelet(1, "KILL")
        until("GPUs to be registered again", lambda: self.metric(address, "gputopo_registrations_total") > registrations)
        until("the probe's resource to be registered again", lambda: self.metric(address, "gputopo_probe_resource_registered") == 1)
        until("both resources on node1", offered)
        self.cluster.kubectl("delete", "pod", "-n", NAMESPACE, pod["metadata"]["name"], "--wait")
        self.ready_agent(1, pod["metadata"]["uid"])
        until("both resources on node1", offered)
        same(self.nodes[1].usage.allocatable(), set(self.machines[1].uuids().values()), "GPUs by the next agent")
        self.answering(1)
        same(containers(), running, "the probes' containers")

    @quick
    def end(self):
        self.cluster.kubectl("delete", "-k", self.applied, "--wait", "--ignore-not-found")
        left = self.cluster.kubectl("get", "crd,clusterrole,clusterrolebinding,validatingadmissionpolicy,namespace", "-o", "name")
        if "metax" in left or "gputopo" in left:
            raise Failed(f"left: {left}")


    def run(self):
        case = self.report.case
        if not case("the image is built and imported", self.image):
            return
        if not case("the DaemonSet runs on both nodes: allocatable 8", self.rollout):
            return
        case("the agent's process has no capability and a read-only root", self.unprivileged)
        faults = FaultCases(self)
        if case("pods with GPUs run", self.pods_run):
            case("the agents publish their nodes, and the pods as owners", self.published)
            case("an agent has at most 20 MB, 4 MB of it anonymous", self.memory)
            faults.under_pods()
            case("the agent's pod is deleted: assignments kept", self.agent_deleted)
        faults.recorded()
        case("the token of the agent's pod writes its own node's objects only", self.own_token)
        case("metrics of an agent are served on its pod's address", self.metrics)
        supernodes = SupernodeCases(self, self.crds)
        supernodes.prepare()
        if case("both nodes discover live, with an unprivileged probe", self.live):
            case("the probe's container has no privilege and no token, and the GPUs' devices alone", self.probe)
            case("a pod of somebody else does not get the probe's resource", self.refused)
            case("the probe goes away and comes back", self.probe_away)
            case("kubelet and agent are started again under the probe", self.probe_survives)
            joined = supernodes.begin()  # what goes wrong next goes wrong under the companion, too
            if joined:
                MonitoringCases(self).run()
            faults.live()
            if joined:
                supernodes.rest()
        case("everything can be deleted again", self.end)
