#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes client and the agent against a real API server.   kube.py BIN_DIR; measures as in loss.sh

kube-apiserver, kubectl and etcd are looked for in $GPUTOPO_KUBE_BIN, on PATH and where `./dev e2e` builds them. What
needs them is skipped where they are not there."""
import contextlib
import glob
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "gputopo/e2e")
os.environ["GPUTOPO_KUBE_BIN"] = os.pathsep.join(
    filter(None, [os.environ.get("GPUTOPO_KUBE_BIN"), *sorted(glob.glob(f"{CACHE}/kubernetes-*[0-9a-f]"))]))
sys.path.insert(0, os.path.join(TESTS, "integration"))
from kubelet_double import KubeletDouble  # noqa: E402
from kube_driver import Relay, kubeconfig  # noqa: E402
from publish_driver import MACHINES, Agent, wait_for  # noqa: E402
from real_api import RealServer  # noqa: E402

OBJECTS, UPDATES = 10000, 1000
PATH = "/apis/topology.metax-tech.com/v1alpha1/nodegputopologies"
USE = ("free", "freeCount", "owners", "scoreByCount", "lossByCount")


def measure(name, value, unit, goal="-"):
    print(f"{name}\t{value:.{0 if abs(value) >= 1000 else 2}f}\t{unit}\t{goal}", flush=True)


def memory(pid):
    """Resident, anonymous and highest memory in MiB."""
    found = {}
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            key, _, value = line.partition(":")
            if key in ("VmRSS", "RssAnon", "VmHWM"):
                found[key] = int(value.split()[0]) / 1024
    return found


def mappings(pid):
    """[(file, resident MiB)], the largest first."""
    parts, name = {}, ""
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as smaps:
        for line in smaps:
            fields = line.split()
            if not fields[0].endswith(":"):
                name = os.path.basename(fields[5]) if len(fields) > 5 else "[anonymous]"
            elif fields[0] == "Rss:":
                parts[name] = parts.get(name, 0) + int(fields[1]) / 1024
    return sorted(parts.items(), key=lambda part: -part[1])


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, binaries, folder):
        self.binaries, self.folder = binaries, folder
        etcd = os.path.join(folder, "etcd-quick")  # disks are not what is measured
        with open(etcd, "w", encoding="ascii") as script:
            script.write(f'#!/bin/sh\nexec {RealServer.etcd_path} --unsafe-no-fsync "$@"\n')
        os.chmod(etcd, 0o755)
        RealServer.etcd_path = etcd
        self.server = RealServer(folder)
        self.bodies = os.path.join(folder, "bodies.json")

    def program(self, *arguments, **more):
        return subprocess.Popen([os.path.join(self.binaries, "bench_kube"), *map(str, arguments)],
                                stdout=subprocess.PIPE, **more)

    def ask(self, *arguments):
        process = self.program(*arguments)
        out = process.communicate()[0].decode()
        if process.returncode != 0:
            raise SystemExit(f"kube.py: bench_kube {arguments[0]} ended with {process.returncode}")
        return out

    # the agent

    @contextlib.contextmanager
    def agent(self, *options, plugin=True):
        directory = tempfile.mkdtemp(prefix="agent-", dir=self.folder)
        dev = os.path.join(directory, "dev")
        os.makedirs(os.path.join(dev, "dri"))
        for name in ["mxcd", *(f"dri/card{i}" for i in range(16)), *(f"dri/renderD{128 + i}" for i in range(16))]:
            with open(os.path.join(dev, name), "w", encoding="ascii"):
                pass
        kubelet = KubeletDouble(directory)
        kubelet.start()
        agent = Agent(os.path.join(self.binaries, "gputopo-agent"), directory, "--from", f"{MACHINES}/c500-8.json",
                      "--dev-root", dev, *options)
        try:
            if plugin and not kubelet.wait_healthy(8, 30):
                raise SystemExit("kube.py: the agent did not register")
            yield agent, kubelet
        finally:
            agent.stop()
            kubelet.stop(leave_socket=False)

    def status(self):
        return (self.server.get("ngt", "n1") or {}).get("status", {})

    def pod_token(self):
        """Of a service account, bound to a pod of the node, as the agent has it."""
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gputopo-agent-abcde", "namespace": "default"},
               "spec": {"nodeName": "n1", "serviceAccountName": "gputopo-agent",
                        "containers": [{"name": "agent", "image": "none"}]}}
        self.server.kubectl("create", "serviceaccount", "gputopo-agent")
        self.server.kubectl("create", "clusterrolebinding", "bench", "--clusterrole=cluster-admin",
                            "--serviceaccount=default:gputopo-agent")
        self.server.kubectl("create", "-f", "-", text=json.dumps(pod))
        token = self.server.kubectl("create", "token", "gputopo-agent", "--bound-object-kind=Pod",
                                    f"--bound-object-name={pod['metadata']['name']}").strip()
        self.server.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")  # within its grace period
        return token

    def change_of_use(self, who, user, goal):
        """Returns the agent's memory with its connection open."""
        print(f"# A change of use: a container gets 4 of 8 GPUs; the agent tells the API server. Bytes with TLS, {who}")
        relay = Relay(self.server.port)
        config = kubeconfig(os.path.join(self.folder, "relay.kubeconfig"), f"https://127.0.0.1:{relay.port}",
                            "certificate-authority: ca.crt", user)
        with self.agent("--kubeconfig", config) as (agent, kubelet):
            if not wait_for(lambda: self.status().get("freeCount") == 8 and agent.is_current(), 60):
                raise SystemExit(f"kube.py: the agent does not publish: {agent.lines[-3:]}")
            time.sleep(2)  # until everything that was on its way is there
            before, writes = (relay.up, relay.down, len(relay.exchanges)), agent.metrics()
            kubelet.admit("train-worker-0", 4)
            if not wait_for(lambda: self.status().get("freeCount") == 4 and agent.is_current(), 60):
                raise SystemExit(f"kube.py: the change is not published: {agent.lines[-3:]}")
            time.sleep(1)
            up, down, parts = relay.up - before[0], relay.down - before[1], relay.exchanges[before[2]:]
            after = agent.metrics()
            sent = {name: after[name] - writes[name] for name in after if "publish_writes" in name}
            if sorted(sent[name] for name in sent if sent[name]) != [1, 1] or len(parts) != 2:
                raise SystemExit(f"kube.py: not one status and one set of annotations: {sent}, {parts}")
            measure("the status, who uses what: both ways", parts[0], "bytes", goal)
            measure("the Node's annotations for HAMi: both ways", parts[1], "bytes")
            measure("together", up + down, "bytes")
            measure("  of them from the agent", up, "bytes")
            figures = {**memory(agent.process.pid), "mappings": mappings(agent.process.pid)}
        relay.close()
        stored = self.server.get("ngt", "n1")
        status = stored["status"]
        base = {"apiVersion": stored["apiVersion"], "kind": stored["kind"], "metadata": {"name": "n1"}}
        with open(self.bodies, "w", encoding="utf-8") as file:
            json.dump({"object": {**base, "status": status},
                       "use": {**base, "status": {k: v for k, v in status.items() if k in USE}}}, file)
        return figures

    def agent_memory(self, whole):
        print("# The agent with its TLS session to the API server, everything on")
        measure("resident", whole["VmRSS"], "MiB", "<20")
        measure("anonymous", whole["RssAnon"], "MiB", "<4")
        with self.agent("--no-publish") as (agent, _):
            time.sleep(2)
            without = memory(agent.process.pid)
        measure("  part of the Kubernetes client (libcurl, GnuTLS), resident", whole["VmRSS"] - without["VmRSS"], "MiB")
        measure("  part of the Kubernetes client (libcurl, GnuTLS), anonymous", whole["RssAnon"] - without["RssAnon"], "MiB")
        largest = whole["mappings"][:8]
        for name, size in largest:
            measure(f"  of {name}", size, "MiB")
        measure(f"  of {len(whole['mappings']) - len(largest)} others", sum(size for _, size in whole["mappings"][8:]), "MiB")

    # list and watch

    @contextlib.contextmanager
    def quick_definition(self):
        """To make many objects in little time: whole ones in one request, and taken as they are. Checking them, which
        is not what is measured here, costs the API server some 25 ms of CPU for each."""
        crd = "customresourcedefinition.apiextensions.k8s.io/nodegputopologies.topology.metax-tech.com"
        version = json.loads(self.server.kubectl("get", crd, "-o", "jsonpath={.spec.versions[0]}"))

        def define(kept, **changed):
            self.server.kubectl("patch", crd, "--type=json", "-p", json.dumps(
                [{"op": "replace", "path": "/spec/versions/0", "value": {**version, **changed}}]))

            def tried():
                with open(self.bodies, encoding="utf-8") as file:
                    body = json.load(file)["object"]
                body["metadata"]["name"] = body["status"]["name"] = "bench-try"
                self.server.kubectl("create", "-f", "-", text=json.dumps(body))
                got = "status" in json.loads(self.server.kubectl("get", "ngt", "bench-try", "-o", "json"))
                self.server.kubectl("delete", "ngt", "bench-try")
                return got == kept
            if not wait_for(tried, 60):
                raise SystemExit("kube.py: the definition cannot be changed")
        define(True, subresources={},
               schema={"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}})
        yield
        define(False)

    def read_all(self):
        """The same pages, read and thrown away: what the API server takes, whoever asks. (seconds, bytes)"""
        context = ssl.create_default_context(cafile=f"{self.folder}/ca.crt")
        context.load_cert_chain(f"{self.folder}/admin.crt", f"{self.folder}/admin.key")
        connection = http.client.HTTPSConnection("127.0.0.1", self.server.port, context=context, timeout=120)
        start, size, more = time.monotonic(), 0, ""
        while True:
            query = {"limit": 500, **({"continue": more} if more else {})}
            connection.request("GET", f"{PATH}?{urllib.parse.urlencode(query)}")
            answer = connection.getresponse().read()
            size += len(answer)
            more = re.search(rb'"continue":"([^"]+)"', answer[-2000:])  # a list's metadata come last
            if not more:
                connection.close()
                return time.monotonic() - start, size
            more = more[1].decode()

    def follow(self):
        print(f"# List and watch of {OBJECTS} NodeGPUTopologies of 8 GPUs")
        config = self.server.kubeconfig
        with self.quick_definition():
            took = float(self.ask("fill", config, OBJECTS, self.bodies))
        measure("created by the client, 16 at a time", OBJECTS / took, "/s")
        stored = self.server.get("ngt", "bench-000000")
        busy = cpu_seconds(self.server.apiserver.pid)
        seconds, size = min(self.read_all() for _ in range(2))
        busy = (cpu_seconds(self.server.apiserver.pid) - busy) / 2
        follower = self.program("follow", config, stdin=subprocess.PIPE)
        pid = follower.pid

        def counters():
            follower.stdin.write(b"x")
            follower.stdin.flush()
            return json.loads(follower.stdout.readline())
        try:
            if not wait_for(lambda: counters()["synced"] >= 0, 120):
                raise SystemExit("kube.py: the list does not end")
            ready = counters()
            if ready["added"] < OBJECTS:
                raise SystemExit(f"kube.py: {ready['added']} of {OBJECTS} objects were listed")
            measure("time until everything is known", ready["synced"], "s", "<20")
            measure("bound: the same pages read by Python and thrown away", seconds, "s")
            measure("  CPU of the API server for them", busy, "s")
            measure("  size of the list", size / 1e6, "MB")
            measure("CPU of that, whole", ready["cpu"], "s")
            measure("  an object", 1e6 * ready["cpu"] / ready["added"], "us")
            full = memory(pid)
            measure("resident afterwards", full["VmRSS"], "MiB")
            measure("  anonymous", full["RssAnon"], "MiB")
            measure("  at its highest", full["VmHWM"], "MiB")
            took = float(self.ask("use", config, UPDATES, self.bodies))
            if not wait_for(lambda: counters()["updated"] >= UPDATES, 60):
                raise SystemExit(f"kube.py: {counters()['updated']} of {UPDATES} updates were told")
            after = counters()
            measure("changes of use written", UPDATES / took, "/s")
            measure("CPU of one update in the watch", 1e6 * (after["cpu"] - ready["cpu"]) / after["updated"], "us")
            measure("  resident after them", memory(pid)["VmRSS"], "MiB")
        finally:
            follower.stdin.close()
            follower.wait(30)
        return stored

    def json(self, stored):
        print("# The JSON of such an object")
        file = os.path.join(self.folder, "object.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(stored, out, separators=(",", ":"))
        sys.stdout.write(self.ask("json", file))

    def run(self):
        self.server.install()
        self.server.kubectl("create", "-f", "-", text='{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}')
        token = self.pod_token()
        self.change_of_use(f"a service account's token of {len(token)} bytes", f"token: {token}", "-")
        whole = self.change_of_use("a client certificate", "client-certificate: admin.crt, client-key: admin.key", "<2000")
        self.agent_memory(whole)
        self.json(self.follow())


def main():
    if len(sys.argv) != 2 or not os.path.exists(os.path.join(sys.argv[1], "bench_kube")):
        sys.stderr.write("usage: kube.py DIRECTORY-OF-THE-PROGRAMS (a release build)\n")
        sys.exit(2)
    if not RealServer.is_there():
        print("skipped\tKubernetes client against a real API server: kube-apiserver, kubectl or etcd is not there "
              "(./dev e2e builds the first two)")
        return
    folder = tempfile.mkdtemp(prefix="gputopo-bench-")
    bench = None
    try:
        bench = Bench(os.path.abspath(sys.argv[1]), folder)
        bench.run()
    finally:
        if bench:
            bench.server.close()
        shutil.rmtree(folder, ignore_errors=True)


main()
