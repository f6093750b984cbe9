#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo bundle and gputopo replay: against the double of the API server, which passes on what is asked of the
companion to its debug pages over an invented cluster, or to a real companion.

Usage: test_bundle.py UI_HOST GPUTOPO GPUTOPO_SCHEDULER [unittest arguments]
"""

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

import chromium
import test_ui
from api_double import ApiDouble, Status, StrictDouble
from companion_driver import NODES, SUPERNODES, TOPOLOGIES, Companion
from daemon_driver import wait_for
from kube_driver import kubeconfig
from placement_driver import gates, indexed_pod, node_status, supernode_status, template, topology

GPUTOPO = SCHEDULER = None
PODS = "/api/v1/namespaces/ns/pods"
SYSTEM = "/api/v1/namespaces/gputopo-system"


# Of a NodeGPUTopology: people, machines and switches in it, and what others say of them.
SEEN = {"spec": {"isolated": [{"gpu": "3", "by": "alice@corp.example", "reason": "slow"}]},
        "status": {"gpus": [{"serial": "SN-0815"}], "network": [{"port": "eth0", "switch": "LEAF-07", "switchPort": "swp12"}],
                   "conditions": [{"message": "of these:\nrack-a-n01\n10.1.2.3 and\nfe80::17, LEAF-07 is\tlost, pod train-0-xyz is not there"}]}}


def keys_of(value):
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return (set(value) if isinstance(value, dict) else set()).union(*map(keys_of, values))


def run(*arguments, code=0):
    done = subprocess.run([GPUTOPO, *arguments], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != code:
        raise AssertionError(f"{arguments}: {done.returncode}, {done.stderr}{done.stdout}")
    return done.stderr if code == 2 or (code == 1 and not done.stdout) else done.stdout


def files_of(path):
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read().decode() for member in tar}


def container(name, **more):
    return {"name": name, "image": "registry.example/image:1", "command": ["run", "hunter2"], "args": ["--http=:9400"], "env": [{"name": "TOKEN", "value": "hunter2"}], **more}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.api = self.enterContext(ApiDouble(self.folder))
        self.config = kubeconfig(f"{self.folder}/config", self.api.url, "certificate-authority: ca.crt", "token: token-1")
        for node in ("rack-a-n01", "rack-a-n02"):
            self.api.add("/api/v1/nodes", node, spec={"taints": [{"key": "dedicated", "value": "acme"}]}, status={"addresses": [{"type": "InternalIP", "address": "10.1.2.3"}], "images": [{"names": ["x"]}],
                "nodeInfo": {"machineID": "machine-1"}})
            self.api.add("/apis/topology.metax-tech.com/v1alpha1/nodegputopologies", node, metadata={"managedFields": [{"manager": "secret"}]}, **SEEN)
            self.api.configz[node] = {"kubeletconfig": {"topologyManagerPolicy": "restricted", "clusterDNS": ["10.9.9.9"],
                                                        "staticPodURLHeader": {"Authorization": ["Bearer hunter2"]}}}
        self.pod("gputopo-system", "gputopo-scheduler-1", "gputopo-scheduler", 9401)
        self.pod("gputopo-system", "gputopo-agent-1", "gputopo-agent", 9400)
        self.pod("team", "train-0", "train", None, limits={"metax-tech.com/gpu": "8"})
        self.pod("team", "web-0", "web", None)
        for driver, name in (("gpu.metax-tech.com", "ours"), ("other.example", "others")):
            self.api.add("/apis/resource.k8s.io/v1/resourceslices", f"rack-a-n01-{name}", spec={
                "driver": driver, "nodeName": "rack-a-n01", "pool": {"name": "rack-a-n01"}, "devices": [{"name": "gpu-0"}]})
            self.api.add("/apis/resource.k8s.io/v1/namespaces/team/resourceclaims", f"train-0-{name}", status={
                "allocation": {"devices": {"results": [{"driver": driver, "pool": "rack-a-n01", "device": "gpu-0"}]}}})
        for namespace, name in (("gputopo-system", "gputopo-agent-faults"), ("gputopo-system", "kube-root-ca.crt"), ("team", "gputopo-like")):
            self.api.add(f"/api/v1/namespaces/{namespace}/configmaps", name, data={"faults.yaml": f"# {name}\nflapping: {{falls: 5}}"})
        self.api.add("/apis/topology.metax-tech.com/v1alpha1/namespaces/team/gpuplacements", "train", status={"behind": "team/Job/tune-9"})

    def pod(self, namespace, name, app, port, limits=None):
        self.api.add(f"/api/v1/namespaces/{namespace}/pods", name, metadata={"labels": {"app.kubernetes.io/name": app},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "vault.example/token": "hunter2"}}, status={
            "containerStatuses": [{"name": "main", "lastState": {"terminated": {"exitCode": 7, "message": "password hunter2"}}}]}, spec={
            "nodeName": "rack-a-n01", "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
            "containers": [container("main", ports=[{"name": "http", "containerPort": port}] if port else [], resources={"limits": limits or {}})]})

    def companion(self, url, agents=True):
        self.api.fail(test_ui.Proxied(url), times=99, path="/pods/gputopo-scheduler-1%3A9401/proxy/debug")
        self.api.fail(Status(200, body=b"gputopo_up 1\n"), times=99, path="/pods/gputopo-scheduler-1%3A9401/proxy/metrics")
        self.api.fail(test_ui.Proxied(url), times=99, path="/services/https%3Agputopo-scheduler%3Ahttps/proxy/")
        self.api.fail(Status(200, body=b"it began on rack-a-n01\n"), times=99, path="/log?")
        if agents:
            self.api.fail(Status(200, body=b'{"node":"rack-a-n01","used":[{"gpu":0,"namespace":"team","pod":"train-0","claim":"mine-5"}]}'), times=99,
                          path="/pods/gputopo-agent-1%3A9400/proxy/usage")
            self.api.fail(Status(200, body=b"# TYPE gputopo_gpus gauge\ngputopo_gpus 8\ngputopo_missing 0\ngputopo_gpus_free 10\n"), times=99, path="/pods/gputopo-agent-1%3A9400/proxy/metrics")

    def bundle(self, *arguments, name="bundle.tar"):
        run("bundle", "--kubeconfig", self.config, "-o", f"{self.folder}/{name}", *arguments)
        return f"{self.folder}/{name}"

    def rewrite(self, path, change):
        """The same bundle with other decisions."""
        with tarfile.open(path) as old, tarfile.open(f"{path}.changed", "w", format=tarfile.USTAR_FORMAT) as new:
            for member in old:
                data = old.extractfile(member).read()
                if member.name.endswith("/decisions.jsonl"):
                    data = change(data.decode()).encode()
                member.size = len(data)
                new.addfile(member, io.BytesIO(data))
        return f"{path}.changed"


class Bundle(Case):
    def test_has_everything(self):
        with test_ui.serving("--patience=1000") as url:
            self.companion(url)
            started = time.monotonic()
            path = self.bundle()
        self.assertLess(time.monotonic() - started, 60)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        files = files_of(path)
        self.assertEqual(json.loads(files["about.json"])["version"], 1)
        nodes = [json.loads(line) for line in files["objects/nodes.jsonl"].splitlines()]
        self.assertEqual([node["metadata"]["name"] for node in nodes], ["rack-a-n01", "rack-a-n02"])
        pods = [json.loads(line)["metadata"]["name"] for line in files["objects/pods.jsonl"].splitlines()]
        self.assertEqual(sorted(pods), ["gputopo-agent-1", "gputopo-scheduler-1", "train-0"])
        self.assertIn("rack-a-n02", files["objects/nodegputopologies.jsonl"])
        for kind, name in (("resourceslices", "rack-a-n01-ours"), ("resourceclaims", "train-0-ours")):
            found = [json.loads(line)["metadata"]["name"] for line in files[f"objects/{kind}.jsonl"].splitlines()]
            self.assertEqual(found, [name])
        for secret in ("hunter2", "secretName", "managedFields"):
            self.assertNotIn(secret, "".join(files.values()))
        self.assertEqual(files["agents/gputopo-agent-1/metrics.txt"], "gputopo_gpus 8\ngputopo_gpus_free 10\n")
        self.assertEqual(files["companion/gputopo-scheduler-1/log.txt"], "it began on rack-a-n01\n")
        self.assertIn('"pod":"train-0"', files["agents/usage.jsonl"])
        kept = [json.loads(line) for line in files["objects/configmaps.jsonl"].splitlines()]
        self.assertEqual([found["metadata"]["name"] for found in kept], ["gputopo-agent-faults"])
        self.assertIn("falls: 5", kept[0]["data"]["faults.yaml"])
        self.assertEqual({pod["metadata"]["name"]: pod["spec"]["containers"][0].get("args") for pod in map(json.loads, files["objects/pods.jsonl"].splitlines())},
                         {"gputopo-agent-1": ["--http=:9400"], "gputopo-scheduler-1": ["--http=:9400"], "train-0": None})
        self.assertIn("restricted", files["nodes/rack-a-n02/configz.json"])
        self.assertIn('"exitCode":7', files["objects/pods.jsonl"])
        self.assertGreater(len(json.loads(files["companion/model.json"])["jobs"]), 3)
        self.assertGreater(files["companion/gputopo-scheduler-1/decisions.jsonl"].count('"decision":'), 0)
        missing = files["missing.txt"].splitlines()
        for part in ("recording", "pod-resources", "faults.d"):
            self.assertTrue([line for line in missing if line.startswith(f"nodes/{part}: only the node itself")], missing)
        self.assertEqual({request.method for request in self.api.requests}, {"GET"})

    def test_says_what_could_not_be_had(self):
        self.api.fail(Status(403, 'pods "gputopo-agent-1:9400" is forbidden', body=None), times=99, path="/pods/gputopo-agent-1%3A9400/proxy")
        with test_ui.serving() as url:
            self.companion(url, agents=False)
            self.api.configz.clear()
            self.api.fail(Status(403, "events is forbidden"), times=9, path="/events")
            missing = files_of(self.bundle())["missing.txt"]
        self.assertRegex(missing, r"(?m)^objects/events.jsonl: .*403 Forbidden: events is forbidden")
        self.assertRegex(missing, r"(?m)^agents/gputopo-agent-1/metrics.txt: .*403")
        self.assertRegex(missing, r"(?m)^nodes/rack-a-n01/configz.json: .*403")

    def test_of_too_many_decisions(self):
        """The last ones are kept."""
        text = "x" * (1 << 20)
        for i in range(40):
            self.api.fail(Status(200, body=f'{{"cluster":1,"nodes":[]}}\n{{"job":"{text}","decision":{i + 1}}}\n'.encode()), path="/proxy/debug/decisions")
        self.api.fail(Status(200, body=b""), path="/proxy/debug/decisions")
        self.api.fail(Status(404), times=99, path="/proxy")
        files = files_of(self.bundle())
        kept = re.findall(r'"decision":([0-9]+)', files["companion/gputopo-scheduler-1/decisions.jsonl"])
        self.assertEqual(kept, [str(i) for i in range(30, 41)])
        self.assertIn("the oldest decisions are left out", files["missing.txt"])

    def test_leaves_out_whose_names_are_not_known(self):
        self.api.fail(Status(200, body=b"<html>train-0"), path="/ui/state$")
        with test_ui.serving() as url:
            self.companion(url)
            files = files_of(self.bundle("--anonymous"))
        self.assertNotIn("companion/state.json", files)
        self.assertRegex(files["missing.txt"], "(?m)^companion/state.json: ")
        self.assertIn("companion/model.json", files)

    def test_of_no_cluster(self):
        self.api.stop()
        said = run("bundle", "--kubeconfig", self.config, "-o", f"{self.folder}/none", code=1)
        self.assertRegex(said, "^gputopo: bundle: nothing could be had: .*")
        self.assertFalse(os.path.exists(f"{self.folder}/none"))
        self.assertIn("-o: expected the file", run("bundle", code=2))

    def test_names_are_numbers(self):
        with test_ui.serving() as url:
            self.companion(url)
            plain, files = files_of(self.bundle()), files_of(self.bundle("--anonymous", name="anonymous.tar"))
        names = {job["name"] for job in json.loads(plain["companion/model.json"])["jobs"]}
        names |= {node["name"] for node in json.loads(plain["companion/model.json"])["nodes"]} | {"train-0", "team", "10.1.2.3", "10.9.9.9"}
        text = "\n".join(name + "\n" + data for name, data in files.items() if not name.startswith("page/")).replace("\\n", " ")
        for name in names | {"alice", "corp.example", "SN-0815", "LEAF-07", "swp12", "fe80::17", "machine-1", "acme", "tune-9", "mine-5", "--http"}:
            self.assertIsNone(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w])", text), name)
        self.assertIn(" is not there", files["objects/nodegputopologies.jsonl"])
        for file in ("companion/state.json", "companion/model.json"):
            self.assertEqual(keys_of(json.loads(files[file])), keys_of(json.loads(plain[file])))
        self.assertNotIn("objects/configmaps.jsonl", files)
        self.assertIn("objects/configmaps.jsonl: left out by --anonymous", files["missing.txt"])
        self.assertIn("agents/usage.jsonl", files)
        again, before = run("replay", f"{self.folder}/anonymous.tar"), run("replay", f"{self.folder}/bundle.tar")
        self.assertEqual(again, before)
        self.assertRegex(again, r"^[1-9][0-9]* decisions? made again, 0 otherwise than then\n$")


class Replay(Case):
    def setUp(self):
        super().setUp()
        with test_ui.serving() as url:
            self.companion(url)
            self.path, self.anonymous = self.bundle(), self.bundle("--anonymous", name="anonymous.tar")

    def test_decides_the_same(self):
        self.assertRegex(run("replay", self.path), r"^[1-9][0-9]* decisions? made again, 0 otherwise than then\n$")

    def test_says_where_it_decides_otherwise(self):
        """As a version with another rule would: here GPUs that were free then are not in the file."""
        changed = self.rewrite(self.path, lambda text: re.sub(r'"masks":\[.*?\]\],', '"masks":[[0,"0","ff","0",true]],', text))
        said = run("replay", changed, code=1)
        self.assertRegex(said, r"decision [0-9]+, 20[-0-9T:.]+Z, ns/.*: decided otherwise\n  then:\n    .*\n(    .*\n)*  now:\n    .*\n")
        self.assertRegex(said, r"[0-9]+ decisions? made again, [1-9][0-9]* otherwise than then\n$")
        told = json.loads(run("replay", "-o", "json", changed, code=1))
        self.assertEqual(re.findall("[0-9]+", said.splitlines()[-1]), [str(told["same"] + told["otherwise"]), str(told["otherwise"])])
        self.assertEqual([f"decision {one['number']}, {one['time']}, {one['job']}: decided otherwise" for one in told["decisions"]],
                         [line for line in said.splitlines() if line.startswith("decision ")])
        self.assertTrue(all(one["then"] != one["now"] for one in told["decisions"]))
        changed = self.rewrite(self.path, lambda text: text.replace('"text":"', '"text":"\\u001b[2J').replace('"job":"', '"job":"\\u001b[2J'))
        self.assertNotIn("\x1b", run("replay", changed, code=1))

    def test_of_another_file(self):
        with open(self.path, "rb") as file:
            cut = file.read()[:3000]
        for text, says in ((b"", "expected the tar archive"), (b"x" * 1024, "byte 0: expected the tar archive"),
                           (cut, "expected the tar archive"), (gzip.compress(cut), "it is compressed, gunzip it first"),
                           (cut.replace(b"000644", b"000645", 1), "byte 0: expected the tar archive")):
            with open(f"{self.folder}/other", "wb") as file:
                file.write(text)
            self.assertIn(says, run("replay", f"{self.folder}/other", code=1))
        broken = self.rewrite(self.path, lambda text: text.replace('"masks":', '"masks":7,"x":'))
        self.assertRegex(run("replay", broken, code=1), r"^gputopo: replay: .*: companion/gputopo-scheduler-1/decisions.jsonl: line 2: a list: expected as")
        unordered = self.rewrite(self.path, lambda text: text.replace('"excluded":[]', '"excluded":[5,9,5,9]'))
        self.assertIn("a list of nodes: expected as", run("replay", unordered, code=1))

    def test_page(self):
        page = f"{self.folder}/page.html"
        self.assertEqual(run("replay", "--page", page, self.path), "")
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertNotIn('src="', text)
        self.assertEqual(text.index("Content-Security-Policy"), text.rindex("Content-Security-Policy"))
        self.assertEqual(text.count("<script"), text.count("</script>"))
        recorded = re.search(r'id="recorded">(.*?)</script>', text, re.S).group(1)
        self.assertEqual(json.loads(recorded), json.loads(files_of(self.path)["companion/state.json"]))

    @unittest.skipUnless(chromium.program(), "there is no Chromium here: the page was not looked at")
    def test_page_in_a_browser(self):
        """The cluster as it was, without anybody who answers."""
        for path in (self.path, self.anonymous):
            with self.subTest(path=path):
                self.look_at(path)

    def look_at(self, path):
        run("replay", "--page", f"{self.folder}/page.html", path)
        model = json.loads(files_of(path)["companion/model.json"])
        with chromium.browser() as browser:
            browser.open(f"file://{self.folder}/page.html")
            browser.wait_for("document.querySelectorAll('#waits-lines li').length > 0")
            self.assertIn(str(len(model["nodes"])), browser.evaluate("document.querySelector('#summary').innerText"))
            self.assertEqual(browser.complaints(), [])
            browser.evaluate("navigator.sendBeacon('http://127.0.0.1:9/x') || 0")
            self.assertIn("connect-src", "".join(map(str, browser.complaints())))
            self.assertEqual([asked for asked in browser.asked() if not asked.startswith("file:")], [])


class Companions(unittest.TestCase):
    """A real companion: jobs that get places, and one that waits."""

    def add_job(self, name, pods, group):
        self.api.add("/apis/batch/v1/namespaces/ns/jobs", name, spec={
            "completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": template(8, group)})
        for i in range(pods):
            self.api.add(PODS, f"{name}-{i}", **{"status": {"phase": "Pending"}, **indexed_pod(name, i, gpus=8, group=group)})

    def pod_of(self, name):
        with self.api.lock:
            return json.loads(json.dumps(self.api.objects[(self.api.place(PODS + "/x")[0], name)]))

    def test_its_decisions(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.api = self.enterContext(StrictDouble(folder))
        racks = {"r1": [f"r1-n{n}" for n in range(4)], "r2": [f"10.0.0.{n}" for n in range(4)]}
        for node in (node for nodes in racks.values() for node in nodes):
            self.api.add(NODES, node, metadata={"labels": {"kubernetes.io/hostname": node}}, status=node_status())
            self.api.add(TOPOLOGIES, node, status=topology(node))
        for rack, nodes in racks.items():
            self.api.add(SUPERNODES, rack, status=supernode_status(nodes))
        config = kubeconfig(f"{folder}/config", self.api.url, "certificate-authority: ca.crt", "token: token-1")
        companion = Companion(SCHEDULER, "--only=placement,ui", "--kubeconfig", config, "--namespace=default", "--leader-elect=false")
        self.addCleanup(lambda: self.assertEqual(companion.stop(), 0, companion.lines))
        self.assertTrue(wait_for(companion.is_ready), companion.lines)
        for name, pods in (("small", 1), ("rack", 4), ("pair", 2)):
            self.add_job(name, pods, 8 * pods)
            self.assertTrue(wait_for(lambda name=name: gates(self.pod_of(f"{name}-0")) == []), name)
        self.add_job("large", 4, 32)
        self.assertTrue(wait_for(lambda: "ns/Job/large" in companion.get("/debug/decisions")[1]))
        code, said = companion.get("/debug/decisions?after=x")[:2]
        self.assertEqual((code, said), (400, "after: expected the number of a decision\n"))
        self.api.fail(test_ui.Proxied(f"http://127.0.0.1:{companion.port}"), times=99, path="/services/https%3Agputopo-scheduler%3Ahttps/proxy/")
        run("bundle", "--kubeconfig", config, "-o", f"{folder}/bundle.tar")
        decisions = [json.loads(line) for line in files_of(f"{folder}/bundle.tar")["companion/service/decisions.jsonl"].splitlines()]
        told = {decision["job"]: decision["text"] for decision in decisions if "job" in decision}
        self.assertEqual(set(told), {f"ns/Job/{name}" for name in ("small", "rack", "pair", "large")})
        self.assertRegex(told["ns/Job/small"], r"^unit 0: 8 GPUs in supernode r[12].*\npod 0: node (r1-n|10[.]0[.]0[.])[0-3], GPUs 0-7\n$")
        self.assertIn("1 unit of 32 GPUs needed, supernodes can hold 0", told["ns/Job/large"])
        again = run("replay", f"{folder}/bundle.tar")
        self.assertRegex(again, r"^[4-9] decisions made again, 0 otherwise than then\n$")
        run("bundle", "--kubeconfig", config, "--anonymous", "-o", f"{folder}/anonymous.tar")
        self.assertEqual(run("replay", f"{folder}/anonymous.tar"), again)


if __name__ == "__main__":
    test_ui.HOST, GPUTOPO, SCHEDULER = sys.argv[1:4]
    test_ui.GPUTOPO = GPUTOPO
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
