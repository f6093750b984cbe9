# SPDX-License-Identifier: Apache-2.0
"""The DaemonSet as an operator applies it: image, ConfigMap of recordings, pods on real nodes."""
import json
import os
import re

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
from harness.waiting import Failed, same, until

SELECTOR = "app.kubernetes.io/name=gputopo-agent"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
HEARTBEAT = 5  # seconds; 300 are the default, and too many to wait for
FETCH = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"


class DaemonSetCases:
    def __init__(self, report, cluster, build, crds):
        self.report, self.cluster, self.build, self.crds = report, cluster, build, crds
        self.nodes = {}
        self.machines = {}  # those that are discovered live
        self.applied = None  # the last overlay

    # steps

    def agent(self, number):
        """The running agent's pod on a node, or None."""
        items = self.cluster.get("pods", "-n", NAMESPACE, "-l", SELECTOR,
                                 f"--field-selector=spec.nodeName=node{number}")["items"]
        live = [item for item in items if "deletionTimestamp" not in item["metadata"]]
        return live[0] if len(live) == 1 else None

    def ready_agent(self, number, but_not=""):
        def ready():
            pod = self.agent(number)
            if pod is None or pod["metadata"]["uid"] == but_not:
                return False
            statuses = pod["status"].get("containerStatuses", [])
            if statuses and all(status["ready"] for status in statuses):
                return pod
            return False, json.dumps([status.get("state") for status in statuses])
        return until(f"the agent's pod on node{number}", ready, 180)

    def pid(self, pod, container="agent"):
        """Of the container's process, in the cluster's PID namespace."""
        number = pod["spec"]["nodeName"].removeprefix("node")
        wanted = next(status["containerID"].split("//")[1] for status in pod["status"]["containerStatuses"]
                      if status["name"] == container)
        for line in self.cluster.ask(number, "ctr", "tasks", "list").splitlines():
            if line.split()[0] == wanted:
                return line.split()[1]
        raise Failed(f"containerd knows no task {wanted}")

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

    def image(self):
        return install.import_image(self.cluster, self.build, (1, 2))

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

    def pods_run(self):
        got = {number: self.run_pod(f"gpus-{number}", number, 2) for number in self.nodes}
        for number, node in self.nodes.items():
            same(got[number], node.machine.best(node.all, 2), f"GPUs on node{number}, against `gputopo loss`")
        return " ".join(f"node{number}:{','.join(map(str, gpus))}" for number, gpus in got.items())

    def published(self):
        """Each agent has written its node's object with the token of its pod: wiring, owners, conditions, and the Node."""
        sizes = []
        for number, node in self.nodes.items():
            held = node.machine.indices(node.book.used()[f"gpus-{number}", "c0"])

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

    def live(self):
        """Both nodes find out live: the agent reads a sysfs tree, the probe's container loads the fake library."""
        for number, spec in ((1, "c500-8"), (2, "c550-8")):
            live = self.machines[number] = install.make_live(self.cluster, self.build, number, spec)
            node = self.nodes[number] = Node(self.cluster, self.build, live.root, 10 + number)
            node.number, node.book = number, PodResources(self.cluster.kubelet_dir(number))
            for gpu in node.machine.gpus:
                gpu["uuid"] = live.uuids()[gpu["bdf"]]
            install.mount(self.cluster, number, node.machine.dev, DEVICES)
        self.applied = install.apply(self.cluster, "live", install.MADE, HEARTBEAT, "hypernodes")
        self.cluster.kubectl("rollout", "status", "daemonset/gputopo-agent", "-n", NAMESPACE, "--timeout=110s")
        for number, node in self.nodes.items():
            self.ready_agent(number)
            uuids = self.machines[number].uuids()
            until("the UUIDs that only the vendor's library knows", lambda: node.book.allocatable() == set(uuids.values())
                  or (False, sorted(node.book.allocatable())))
            self.allocatable(number, 8)

            def told():
                stored = self.stored(number)
                said, status = self.said(stored), stored.get("status", {})
                return (said.get("VendorLibrary"), status.get("supernode"), [gpu["uuid"] for gpu in status.get("gpus", [])]) == (
                    ("True", "Answering"), {"uuid": SERVERS[number], "remote": [SERVERS[3 - number]]},
                    [gpu["uuid"] for gpu in node.machine.gpus]) or (False, (said, status.get("supernode")))
            until(f"the object of node{number} to tell what the library tells", told)
        got = self.run_pod("live", 1, 4)
        self.cluster.kubectl("delete", "pod", "live", "--wait")
        return f"a pod of 4 has {','.join(map(str, got))}"

    def probe(self):
        """The container that loads the library has neither network nor token; the agent beside it has no privilege."""
        pod = self.ready_agent(1)
        same([item["name"] for item in pod["spec"]["containers"]], ["probe", "agent"], "containers of the pod")
        agent, probe = self.pid(pod), self.pid(pod, "probe")
        where = [self.cluster.ask("control", "readlink", f"/proc/{pid}/ns/net").strip() for pid in (agent, probe)]
        if where[0] == where[1]:
            raise Failed("the probe is in the pod's network namespace")
        interfaces = {line.split(":")[0].strip() for line in self.proc(probe, "net/dev").splitlines()[2:]}
        if "eth0" in interfaces or self.proc(probe, "net/route").splitlines()[1:]:
            raise Failed(f"the probe has a network: {interfaces}")
        if "serviceaccount" in self.proc(probe, "mountinfo"):
            raise Failed("the probe's container has the token")
        same(int(self.status(agent)["CapEff"], 16), 0, "capabilities of the agent beside the probe")
        for container in ("agent", "probe"):
            seen = self.proc(self.pid(pod, container), "maps")
            same("libmxsml" in seen, False, f"the vendor's library in the first process of {container}")

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
        if case("both nodes discover live, with the probe's container", self.live):
            case("the probe's container has no network and no token", self.probe)
            joined = supernodes.begin()  # what goes wrong next goes wrong under the companion, too
            if joined:
                MonitoringCases(self).run()
            faults.live()
            if joined:
                supernodes.rest()
        case("everything can be deleted again", self.end)
