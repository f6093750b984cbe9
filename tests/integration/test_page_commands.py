#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of all pages, kubectl's, helm's, ours and those that read their files, and applies the objects that pages show, with
the real programs: an API server with its controllers, on loopback. No kubelet is there: this test plays one, and pods only seem to run.

Usage: test_page_commands.py BUILD_DIR [unittest arguments]

The programs are looked for in $GPUTOPO_KUBE_BIN, on PATH and where `tests/e2e/build` puts them; without them the test is skipped (77).
"""

import contextlib
import glob
import http.server
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "gputopo/e2e")
os.environ["GPUTOPO_KUBE_BIN"] = os.pathsep.join(filter(None, [os.environ.get("GPUTOPO_KUBE_BIN"), *(
    path for name in ("kubernetes", "helm") for path in sorted(glob.glob(f"{CACHE}/{name}-" + "[0-9a-f]" * 16)))]))
from real_api import SEARCH, RealServer  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
HELM, MANAGER = shutil.which("helm", path=SEARCH), shutil.which("kube-controller-manager", path=SEARCH)
FOREIGN = [path for pattern in ("volcano-crds-*", "kueue-" + "[0-9a-f]" * 16 + "/crd", "cert-manager-*/crd") for path in sorted(CACHE.glob(pattern))[-1:]]
PAGES = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "daemonset/README.md", "daemonset/chart/README.md",
         *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md") if "zh-CN" not in path.parts))
NAMESPACE, TIMEOUT_S = "gputopo-system", 300
# What stands for something of the reader's, and what it is here.
WORDS = ((r"\b(NODE|node17|rack-b-n03)\b", "node1"), (r"\bPOD\b", f"$(kubectl -n {NAMESPACE} get pods -o name | head -1)"), (r"\bJOB\b", "job/train"),
         (r"\bpod P\b", "pod u-0 -n team"), (r"pytorch-demo-\.\.\.", "pytorch-demo"), (r"\bbig-0-mx5nl\b", "-n team u-0"),
         (r"--from (FILE|node\.json)\b", "--from tests/machines/c500-8.json"),
         (r"gputopo withdraw --gates", "gputopo withdraw --gates --yes"),
         (r"oci://registry.example.com/gpu/charts/gputopo --version [\d.]+", "daemonset/chart"))
# This list may only get shorter.
CANNOT = {
    "port-forward": "a kubelet forwards, and none is here; the suite chart of tests/e2e does this",
    "gputopo explain": "no companion is here; the suites of tests/e2e ask one",
    "gputopo replay": "likewise; test_bundle.py replays its decisions",
    "gputopo simulate": "the trace is not in this tree; test_simulate.py",
    "gputopo-scheduler --http": "it runs until somebody ends it; test_companion.py",
    "./dev ": "it builds all; .ci/run does that",
    "mknod": "it is for the host of a kubelet; tests/e2e/harness/install.py makes the same nodes",
    "minisign": "of a release; tests/packages/run signs and checks one",
    "tests/bench/": "it takes up to an hour; a developer's own measurement",
    "apt install": "tests/packages/run installs the packages (it makes them with cpack, too), and test_agent.py asks /readyz",
    "kubectl krew": "krew is not here; tests/packages/run compares its manifest with the archive",
    "kubectl oidc-login": "a plugin of others, which the page names",
    "/etc/systemd": "it changes the machine; tests/packages/run takes it from the page, and runs it in a root of its own",
    "./kubectl": "./dev cluster starts the cluster of this page",
}
UNSERVED = {"scheduling.k8s.io/v1beta1": "Kubernetes 1.37 has it; tests/e2e/cases_pod_groups.py makes it"}
SETTING = [
    *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("team", "gpu", "volcano-system")),
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1", "labels": {"metax-tech.com/gpu.installed": "true", "kubernetes.io/os": "linux"}},
     "spec": {"taints": [{"key": "metax-tech.com/unhealthy-gpus", "effect": "PreferNoSchedule"}]}},
    *({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team"},
       "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}} for name in ("u-0", "u-1")),
    *({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace},
       "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}
      for name, namespace in (("train", "default"), ("gputopo-crds", NAMESPACE))),
    {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "pytorch-demo", "namespace": "default"}, "spec": {"minMember": 1}},
    {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "gputopo-scheduler", "namespace": NAMESPACE},
     "spec": {"holderIdentity": "gputopo-scheduler-0", "renewTime": "2026-01-31T12:00:00.000000Z"}},
    *({"apiVersion": "topology.metax-tech.com/v1alpha1", "kind": kind, "metadata": {"name": name}}
      for kind, name in (("NodeGPUTopology", "node1"), ("Supernode", "s0"))),
]


def definition(plural, kind):
    """Of a kind of the Prometheus operator, which takes anything."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.monitoring.coreos.com"},
            "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}]}}


PROGRAMS = r"^(kubectl|helm|(build/bin/)?gputopo(-scheduler)?|jq|sed|tar|g(un)?zip|curl|apt|\./dev|sudo|mkdir|minisign|tests/bench/\S+) "


def blocks(text, language):
    """The blocks of a page that are marked with this language, without the indent of a list."""
    for indent, marked, block in re.findall(r"^( *)```(\w*)\n(.*?)^ *```$", text, re.M | re.S):
        if marked == language:
            yield "\n".join(line.removeprefix(indent) for line in block.splitlines())


def scripts(block):
    """The commands of a block: what follows a prompt, or all, or the lines that are commands where it begins with output."""
    lines = block.replace("\\\n", " ").splitlines()
    lines = [line for line in lines if not line.startswith(("skopeo ", "release/publish "))]  # tests/e2e/cases_chart.py has a registry
    lines = [line for line in lines if not re.match(r"(gputopo .*| +)\[", line)]  # a synopsis
    if any(line.startswith("$ ") for line in lines):
        lines = [line[2:] for line in lines if line.startswith("$ ") and re.match(PROGRAMS, line[2:])]
    elif lines and lines[0].startswith("it fits"):
        lines = [line for line in lines if line.startswith("kubectl ")]
    return "\n".join(lines)


def commands():
    """[(page, script)]"""
    for page in PAGES:
        text = (ROOT / page).read_text()
        for block in blocks(text, ""):
            script = scripts(block)
            if re.search(rf"{PROGRAMS}|\b(kubectl|helm) ", script, re.M):
                yield page, script
        for line in re.findall(r"(?<!`)`((?:kubectl|helm|gputopo [^`\s]+ [^`\s]+) [^`]+)`|^ {4}((?:kubectl|helm|gputopo) .*)",
                               re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S), re.M):
            yield from ((page, part) for part in re.split(r" \\?\| ", line[0] or line[1]))


class Kubelet(http.server.BaseHTTPRequestHandler):
    """What the API server asks for the log of a container."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"a line of the log\n")

    def log_message(self, *_):
        pass


class World:
    """The API server with its controllers, a node, and its kubelet."""

    def __init__(self, folder):
        self.folder, self.server, self.manager, self.ended = folder, RealServer(folder), None, threading.Event()
        self.kubelet = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Kubelet)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/server.crt", f"{folder}/server.key")
        self.kubelet.socket = context.wrap_socket(self.kubelet.socket, server_side=True)
        self.context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
        self.context.load_cert_chain(f"{folder}/admin.crt", f"{folder}/admin.key")
        self.threads = [threading.Thread(target=target) for target in (self.kubelet.serve_forever, self.run_pods)]

    def start(self):
        self.server.install()
        self.manager = subprocess.Popen(
            [MANAGER, "--kubeconfig", self.server.kubeconfig, "--leader-elect=false", "--use-service-account-credentials=false", "--secure-port=0",
             f"--service-account-private-key-file={self.folder}/sa.key", f"--root-ca-file={self.folder}/ca.crt",
             "--controllers=*,-node-lifecycle-controller"], stdout=self.server.log, stderr=self.server.log)
        for path in FOREIGN:
            self.server.kubectl("apply", "--server-side", "-f", str(path))
        self.apply([definition("podmonitors", "PodMonitor"), definition("prometheusrules", "PrometheusRule")])
        self.server.kubectl("wait", "--for=condition=Established", "crd", "--all", f"--timeout={TIMEOUT_S}s")
        for thread in self.threads:
            thread.start()

    def apply(self, objects, *more):
        return self.server.kubectl("apply", "--server-side", "--force-conflicts", *more, "-f", "-",
                                   text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def node_status(self):
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"}, "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": self.kubelet.server_port}},
            "capacity": {"metax-tech.com/gpu": "8"}, "allocatable": {"metax-tech.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}}

    def ask(self, method, path, body=None):
        request = urllib.request.Request(f"{self.server.url}/api/v1/{path}", data=body and json.dumps(body).encode(), method=method,
                                         headers={"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"})
        with urllib.request.urlopen(request, context=self.context, timeout=TIMEOUT_S) as answer:
            return json.load(answer)

    def run_pods(self):
        """Binds each pod, says that it runs, or has ended if it is of a Job, and removes it when somebody deletes it."""
        while not self.ended.wait(0.3):
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                for pod in self.ask("GET", "pods")["items"]:
                    with contextlib.suppress(urllib.error.HTTPError):  # somebody was faster
                        self.run_pod(pod)

    def run_pod(self, pod):
        metadata, spec = pod["metadata"], pod["spec"]
        path = f"namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if "deletionTimestamp" in metadata:
            self.ask("DELETE", path, {"gracePeriodSeconds": 0})
        elif "nodeName" not in spec and not spec.get("schedulingGates"):
            self.ask("POST", path + "/binding", {"metadata": {"name": metadata["name"]}, "target": {"kind": "Node", "name": "node1"}})
        elif pod["status"]["phase"] == "Pending" and "nodeName" in spec:
            ends = any(owner["kind"] == "Job" for owner in metadata.get("ownerReferences", ()))
            self.ask("PATCH", path + "/status", {"status": {
                "phase": "Succeeded" if ends else "Running", "conditions": [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")],
                "containerStatuses": [{"name": one["name"], "image": one["image"], "imageID": "", "restartCount": 0, "ready": True,
                                       "state": {"terminated": {"exitCode": 0}} if ends else {"running": {}}} for one in spec["containers"]]}})

    def close(self):
        self.ended.set()
        if self.threads[0].ident:  # else nobody serves, and shutdown() waits for ever
            self.kubelet.shutdown()
        for thread in self.threads:
            if thread.ident:
                thread.join()
        self.kubelet.server_close()
        if self.manager:
            self.server.end(self.manager)
        self.server.close()


class PageCommands(unittest.TestCase):
    have, named = None, False  # how gputopo is installed; whether the objects that commands name are there

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="gputopo-pages-"))
        cls.world = World(cls.folder)
        cls.addClassCleanup(cls.world.close)
        cls.world.start()
        cls.place = pathlib.Path(cls.folder, "place")
        cls.place.mkdir()
        for name, target in (("daemonset", ROOT / "daemonset"), ("tests", ROOT / "tests"), ("gputopo", ROOT), ("build", BUILD)):
            (cls.place / name).symlink_to(target)
        programs = (os.path.dirname(cls.world.server.kubectl_path), os.path.dirname(HELM), str(BUILD / "bin"), os.environ["PATH"])
        shutil.copy(ROOT / "daemonset/monitoring/rules.yaml", cls.place)
        cls.environment = {**os.environ, "PATH": os.pathsep.join(programs), "KUBECONFIG": cls.world.server.kubeconfig, "HOME": cls.folder}

    def run_script(self, script, check=True):
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=self.place, env=self.environment, input="y\n",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)
        if check:
            self.assertEqual(done.returncode, 0, f"{script}\n{done.stdout}")
        return done

    def remove(self):
        if self.run_script(f"helm status gputopo -n {NAMESPACE}", check=False).returncode == 0:
            self.run_script(f"helm uninstall gputopo -n {NAMESPACE}")
        self.run_script("if [ -f kustomization.yaml ]; then kubectl delete -k . --ignore-not-found; fi")
        self.run_script(f"kubectl delete -k daemonset --ignore-not-found; kubectl delete namespace {NAMESPACE} --ignore-not-found")

    def prepare(self, page, script):
        """As the reader of this page has it: nothing, plain manifests, or a release of Helm; and the objects that commands name."""
        wanted = "none" if re.search(r"helm install|create namespace", script) else \
            "plain" if page == "daemonset/README.md" or re.search("-k daemonset( |$)", script) else "helm"
        if wanted != self.have:
            self.remove()
            self.named = False
            if wanted == "plain":
                self.run_script("kubectl apply --server-side -k daemonset")
            elif wanted == "helm":
                self.run_script(f"helm install gputopo daemonset/chart -n {NAMESPACE} --create-namespace")
        if wanted != "none" and not self.named:
            self.run_script(f"kubectl wait --for=condition=Established crd --all --timeout={TIMEOUT_S}s")
            self.world.apply(SETTING)
            node = json.loads(self.run_script("gputopo show --from tests/machines/c500-8.json -o json").stdout)
            self.world.apply([self.world.node_status(), {"apiVersion": "topology.metax-tech.com/v1alpha1", "kind": "NodeGPUTopology",
                                                         "metadata": {"name": "node1"}, "status": node}], "--subresource=status")
            self.named = True
        self.named = self.named and not re.search("helm upgrade|gputopo withdraw", script)  # its Job takes the place of ours
        self.have = "helm" if "helm install" in script else None if re.search("uninstall|delete -k|create namespace", script) else wanted

    def test_commands(self):
        count, unable = 0, set()
        for page, script in commands():
            cannot = [words for words in CANNOT if words in script]
            unable.update(cannot)
            if cannot:
                continue
            for pattern, replacement in WORDS:
                script = re.sub(pattern, replacement, script)
            count += 1
            with self.subTest(page=page, script=script):
                self.assertNotRegex(script, r"(^|[\s>=])/(boot|dev/[^n]|etc|lib|opt|root|run|sbin|usr|var)\b", "it would touch this machine")
                if "\n" not in script and len(script.split()) < (3 if "kubectl" in script else 4):  # a page names this command
                    self.run_script(f"{script} --help")
                    continue
                self.prepare(page, script)
                self.run_script(script)
        self.assertGreater(count, 50)
        self.assertEqual(set(CANNOT) - unable, set(), "no page has these")

    def test_objects(self):
        """The API server takes those that pages show whole, and Helm the values."""
        self.prepare("", "")
        count, unserved = 0, set()
        for page in PAGES:
            for block in blocks((ROOT / page).read_text(), "yaml"):
                if block.startswith("# values.yaml of the chart\n"):
                    (self.place / "values.yaml").write_text(block)
                    self.run_script(f"helm upgrade gputopo daemonset/chart -n {NAMESPACE} --reset-then-reuse-values -f values.yaml --dry-run=server")
                if "..." in block or not block.startswith("apiVersion: "):  # a sketch, or a part
                    continue
                items = list(yaml.safe_load_all(block))
                newer = {item["apiVersion"] for item in items} & set(UNSERVED)
                unserved |= newer
                for item in () if newer else items:
                    count += 1
                    with self.subTest(page=page, kind=item["kind"]):
                        where = () if "namespace" in item["metadata"] else ("-n", "gpu")
                        self.world.apply([item], "--dry-run=server", "--validate=strict", *where)
        self.assertGreater(count, 10)
        self.assertEqual(unserved, set(UNSERVED), "no page has these")


if not (RealServer.is_there() and HELM and MANAGER and len(FOREIGN) == 3):
    print("skipped: kube-apiserver, kube-controller-manager, kubectl, etcd, helm or the definitions of Volcano, Kueue and cert-manager are not there "
          "($GPUTOPO_KUBE_BIN, PATH, and what tests/e2e/build makes)")
    sys.exit(77)
if __name__ == "__main__":
    unittest.main(verbosity=2)
