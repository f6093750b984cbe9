# SPDX-License-Identifier: Apache-2.0
"""The DaemonSet as an operator applies it: image, ConfigMap of recordings, pods on real nodes."""
import json
import os
import shutil
import subprocess

from cases_api import DAEMONSET, topology, use
from harness import pods
from harness.account import Account, apply
from harness.node import Node
from harness.podresources import PodResources
from harness.recordings import C500, C550, MACHINES
from harness.waiting import Failed, same, until

NAMESPACE = "gputopo-system"
SELECTOR = "app.kubernetes.io/name=gputopo-agent"
DEVICES = "/run/gputopo-dev"  # as in daemonset/recorded
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
LIVE = "/run/gputopo-live"
LIBRARY = "tests/fake-mxsml/libmxsml.so"
FETCH = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"

# daemonset/base on a node whose sysfs, vendor library and device nodes are made ones
OVERLAY = """apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{base}]
patches:
- target: {{kind: DaemonSet, name: gputopo-agent}}
  patch: |
    - {{op: add, path: /spec/template/spec/volumes/-, value: {{name: live, hostPath: {{path: {live}}}}}}}
    - {{op: test, path: /spec/template/spec/volumes/2/name, value: dev}}
    - {{op: replace, path: /spec/template/spec/volumes/2/hostPath/path, value: {devices}}}
    - {{op: test, path: /spec/template/spec/containers/1/volumeMounts/2/name, value: dev}}
    - {{op: replace, path: /spec/template/spec/containers/1/volumeMounts/2/mountPath, value: {devices}}}
    - {{op: add, path: /spec/template/spec/containers/1/args/-, value: --root={live}/root}}
    - {{op: add, path: /spec/template/spec/containers/1/args/-, value: --dev-root={devices}}}
    - {{op: add, path: /spec/template/spec/containers/1/args/-, value: --health-interval=2}}
    - op: add
      path: /spec/template/spec/containers/1/volumeMounts/-
      value: {{name: live, mountPath: {live}, readOnly: true}}
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --root={live}/root}}
    - op: add
      path: /spec/template/spec/containers/0/env
      value: [{{name: GPUTOPO_FAKE_MXSML, value: {live}/scenario.json}}]
    - op: add
      path: /spec/template/spec/containers/0/volumeMounts/-
      value: {{name: live, mountPath: {live}, readOnly: true}}
    - {{op: test, path: /spec/template/spec/containers/0/volumeMounts/2/name, value: dev}}
    - {{op: remove, path: /spec/template/spec/containers/0/volumeMounts/2}}
"""


class DaemonSetCases:
    def __init__(self, report, cluster, build):
        self.report, self.cluster, self.build = report, cluster, build
        self.nodes = {}

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
        archive = self.cluster.state / "gputopo.tar"
        done = subprocess.run([DAEMONSET / "image", self.build, archive], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        for number in (1, 2):
            self.cluster.ask(number, "ctr", "images", "import", archive)
        return done.stdout.strip()

    def rollout(self):
        self.nodes = {number: Node(self.cluster, self.build, recording, number)
                      for number, recording in enumerate((C500, C550), 1)}
        for number, node in self.nodes.items():  # each node's own below the shared /run
            self.cluster.ask(number, "mkdir", "-p", DEVICES)
            self.cluster.ask(number, "mount", "--bind", node.machine.dev, DEVICES)
        self.cluster.kubectl("apply", "--server-side", "-f", DAEMONSET / "base" / "namespace.yaml")
        self.cluster.kubectl("create", "configmap", "gputopo-recordings", "-n", NAMESPACE,
                             *(f"--from-file=node{number}.json={recording}"
                               for number, recording in enumerate((C500, C550), 1)))
        self.cluster.kubectl("apply", "--server-side", "-k", DAEMONSET / "recorded")
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
        kept = {name: int(value.split()[0]) / 1000 for name, value in status.items() if name in ("VmRSS", "RssAnon")}
        return f"{kept['VmRSS']:.1f} MB resident, {kept['RssAnon']:.1f} MB anonymous"

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
                status = next((item.get("status", {}) for item in self.cluster.get("ngt")["items"]
                               if item["metadata"]["name"] == f"node{number}"), {})
                owners = [(one["namespace"], one["pod"], one["container"], one["gpu"]) for one in status.get("owners", [])]
                return (owners == [("default", f"gpus-{number}", "c0", gpu) for gpu in held] and status) or (False, owners)
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
        text = self.cluster.ask("control", "/usr/bin/python3", "-c", FETCH, f"http://{address}:9400/metrics")
        if "gputopo_plugin_registered 1" not in text:
            raise Failed(f"the agent of node2 does not say that it is registered: {text[:300]}")

    def live(self):
        """Both nodes find out live: the agent reads a sysfs tree, the probe's container loads the fake library."""
        made = self.cluster.state / "live"
        subprocess.run([MACHINES / "make-machine", MACHINES / "specs" / "c500-8.json", made], check=True)
        library = made / "root" / "opt" / "mxdriver" / "lib"
        library.mkdir(parents=True)
        shutil.copy(self.build / LIBRARY, library)
        uuids = {device["bdf"]: device["uuid"] for device in json.loads((made / "scenario.json").read_text())["devices"]}
        for number in self.nodes:
            node = self.nodes[number] = Node(self.cluster, self.build, made / "root", 10 + number)
            node.number, node.book = number, PodResources(self.cluster.kubelet_dir(number))
            for gpu in node.machine.gpus:
                gpu["uuid"] = uuids[gpu["bdf"]]
            self.cluster.ask(number, "umount", DEVICES)
            self.cluster.ask(number, "mount", "--bind", node.machine.dev, DEVICES)
            self.cluster.ask(number, "mkdir", "-p", LIVE)
            self.cluster.ask(number, "mount", "--bind", made, LIVE)
        (made / "kustomization.yaml").write_text(OVERLAY.format(
            base=os.path.relpath(DAEMONSET / "base", made), live=LIVE, devices=DEVICES))
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", made)
        self.cluster.kubectl("rollout", "status", "daemonset/gputopo-agent", "-n", NAMESPACE, "--timeout=110s")
        for number, node in self.nodes.items():
            self.ready_agent(number)
            until("the UUIDs that only the vendor's library knows", lambda: node.book.allocatable() == set(uuids.values())
                  or (False, sorted(node.book.allocatable())))
            self.allocatable(number, 8)
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
        self.cluster.kubectl("delete", "-k", DAEMONSET / "base", "--wait")
        left = self.cluster.kubectl("get", "crd", "-o", "name")
        if "metax" in left:
            raise Failed(f"left: {left}")

    def run(self):
        case = self.report.case
        if not case("the image is built and imported", self.image):
            return
        if not case("the DaemonSet runs on both nodes: allocatable 8", self.rollout):
            return
        case("the agent's process has no capability and a read-only root", self.unprivileged)
        if case("pods with GPUs run", self.pods_run):
            case("the agents publish their nodes, and the pods as owners", self.published)
            case("the agent's pod is deleted: assignments kept", self.agent_deleted)
        case("the token of the agent's pod writes its own node's objects only", self.own_token)
        case("metrics of an agent are served on its pod's address", self.metrics)
        if not (self.build / LIBRARY).exists():
            self.report.skip("live discovery with the probe's container", f"{self.build / LIBRARY} is not built")
        elif case("both nodes discover live, with the probe's container", self.live):
            case("the probe's container has no network and no token", self.probe)
        case("everything can be deleted again", self.end)
