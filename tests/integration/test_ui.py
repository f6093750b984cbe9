#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The companion's debug pages by HTTP: /debug/model, /explain and what the page asks. test_page.py looks at the page.

Usage: test_ui.py UI_HOST GPUTOPO [unittest arguments]
"""

import collections
import contextlib
import gzip
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from api_double import ApiDouble
from daemon_driver import wait_for
from kube_driver import kubeconfig

HOST = GPUTOPO = None


@contextlib.contextmanager
def serving(*arguments):
    process = subprocess.Popen([HOST, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        if not line.startswith("port "):
            raise RuntimeError(f"the host says {line!r}: {process.stderr.read()}")
        yield f"http://127.0.0.1:{int(line.split()[1])}"
    finally:
        stop(process)


def stop(process):
    process.stdin.close()
    try:
        _, said = process.stdout.read(), process.stderr.read()
        if process.wait(60) != 0:
            raise RuntimeError(f"the host ended with {process.returncode}: {said[-4000:]}")
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    finally:
        process.stdout.close()
        process.stderr.close()


def get(url):
    """Status, content type and text."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def numbers(ranges):
    """Of "0-3,6"."""
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def explain(url, **query):
    return get(f"{url}/explain?{urllib.parse.urlencode(query)}")


class Windows(unittest.TestCase):
    """What programs see."""

    @classmethod
    def setUpClass(cls):
        cls.serving = contextlib.ExitStack()
        cls.url = cls.serving.enter_context(serving())
        deadline = time.monotonic() + 60  # the controller tries the job once it has settled
        while cls.job("ns/PyTorchJob/moe-236b")["state"] != "waits":
            if time.monotonic() > deadline:
                raise TimeoutError("the job that cannot fit does not wait")
            time.sleep(0.1)

    @classmethod
    def tearDownClass(cls):
        cls.serving.close()

    @classmethod
    def model(cls):
        status, kind, text = get(f"{cls.url}/debug/model")
        assert status == 200 and kind == "application/json", (status, kind)
        return json.loads(text)

    @classmethod
    def job(cls, key):
        return {job["key"]: job for job in cls.model()["jobs"]}[key]

    def test_model_fits_together(self):
        model = self.model()
        self.assertEqual((len(model["nodes"]), len(model["supernodes"])), (45, 7))
        self.assertFalse(model["truncated"])
        nodes = {node["name"]: node for node in model["nodes"]}
        for supernode in model["supernodes"]:
            for name in supernode["nodes"]:
                self.assertEqual(nodes[name]["supernode"], supernode["name"])
        jobs = {job["key"]: job for job in model["jobs"]}
        for node in model["nodes"]:
            seen = sorted(gpu for group in node["gpus"] for gpu in group["gpus"])
            self.assertEqual(seen, list(range(8)), node["name"])
            for group in node["gpus"]:
                if "job" not in group:
                    continue
                names = {f"{jobs[group['job']]['namespace']}/{pod['name']}": pod for pod in jobs[group["job"]]["pods"]}
                pod = names[group["pod"]]
                self.assertEqual((pod["node"], pod["rank"], pod["unit"]), (node["name"], group["rank"], group["unit"]))
                self.assertLessEqual(set(group["gpus"]), set(pod["gpus"]))
        self.assertTrue(nodes["rack-e-n06"]["stale"])
        self.assertEqual(model["counters"]["nodesStale"], 1)

    def test_who_has_the_gpus(self):
        """Of each node all GPUs are named once, as the model has them."""
        self.assertEqual(explain(self.url, name="rack-a-n05")[2],
                         "node rack-a-n05: 0 of 8 GPUs can be given away\nGPUs 0-7: used by pod ns/llama-70b-worker-3 of job ns/PyTorchJob/llama-70b\n")
        words = collections.Counter()
        for node in self.model()["nodes"]:
            answer = json.loads(explain(self.url, node=node["name"], format="json")[2])
            self.assertEqual(answer["node"]["name"], node["name"])
            head, *lines = answer["text"].splitlines()
            seen = [gpu for line in lines for gpu in numbers(line.split(":")[0].split()[1])]
            self.assertEqual(sorted(seen), list(range(8)), answer["text"])
            self.assertIn(f"node {node['name']}: ", head)
            for line in lines:
                words[line.split(": ")[1].split(" pod ")[0].split(" job ")[0]] += 1
        self.assertLessEqual({"free", "used by", "planned for", "unhealthy"}, set(words), words)

    def test_spare_nodes(self):
        """They are distinct from nodes that are reserved for a job."""
        with serving("--spare-nodes", "1", "--racks", "7") as url:
            nodes = json.loads(get(f"{url}/debug/model")[2])["nodes"]
            spares = [node for node in nodes if node["spare"]]
            self.assertTrue(spares)
            self.assertEqual(len({node["supernode"] for node in spares}), len(spares))
            for node in spares:
                self.assertEqual([(group["state"], len(group["gpus"])) for group in node["gpus"]], [("free", 8)])
                self.assertIn("spare", node["note"])
                self.assertFalse(node["reserved"])
            self.assertIn(f"{len(spares)} nodes are spare, left free for pods that lose their nodes", explain(url, pod="ns/probe-0")[2])
            self.assertIn("GPUs 0-7: spare, left free for pods that lose their nodes", explain(url, node=spares[0]["name"])[2])
        self.assertEqual([node["name"] for node in self.model()["nodes"] if node["spare"]], [])

    def test_a_node_that_waits_for_a_job(self):
        """Its free GPUs are not free for others: explain says for whom they are, and until when."""
        with serving("--patience", "100", "--racks", "7") as url:
            def waiting():
                return [node["name"] for node in json.loads(get(f"{url}/debug/model")[2])["nodes"]
                        if node["reserved"] and any(group["state"] == "free" for group in node["gpus"])]
            self.assertTrue(wait_for(waiting))
            self.assertRegex(explain(url, node=waiting()[0])[2], r": reserved for job ns/PyTorchJob/moe-236b until \d{4}-\d\d-")

    def test_reasons_of_the_controller(self):
        waits, refused = self.job("ns/PyTorchJob/moe-236b"), self.job("ns/PyTorchJob/odd-sizes")
        self.assertIn("atoms of 64 GPUs needed", waits["text"])
        self.assertEqual((waits["place"], waits["settled"], waits["wants"]), (0, False, 256))
        self.assertRegex(waits["since"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual((refused["state"], refused["reason"]), ("refused", "RuleBroken"))
        self.assertEqual(self.job("ns/PyTorchJob/llama-70b")["units"], 4)

    def test_explanations(self):
        status, kind, text = explain(self.url, job="ns/PyTorchJob/moe-236b")
        self.assertEqual((status, kind), (200, "text/plain; charset=utf-8"))
        self.assertIn("It waits for room", text)
        self.assertIn("atoms of 64 GPUs needed", text)
        self.assertIn("runs on node rack-a-n05, as planned, GPUs 0-7", explain(self.url, name="llama-70b-worker-3")[2])
        self.assertIn("nodes could hold a pod of 8 GPUs now", explain(self.url, pod="ns/probe-0")[2])
        self.assertEqual(explain(self.url, pod="ns/nobody")[0], 404)
        self.assertEqual(explain(self.url, node="rack-a-n99")[::2], (404, 'there is no node "rack-a-n99" with GPUs\n'))
        self.assertEqual(explain(self.url)[0], 400)
        status, kind, text = explain(self.url, pod="ns/probe-0", format="json")
        self.assertEqual((status, kind), (200, "application/json"))
        self.assertEqual(json.loads(text)["best"][0]["kubeScheduler"], 10)

    def test_files_of_the_page(self):
        for path, kind in (("", "text/html"), ("/", "text/html"), ("/ui.css", "text/css"), ("/page.js", "text/javascript"),
                           ("/map.js", "text/javascript"), ("/panels.js", "text/javascript"), ("/views.js", "text/javascript"),
                           ("/icon.svg", "image/svg+xml")):
            status, got, text = get(f"{self.url}/ui{path}")
            self.assertEqual((status, got.split(";")[0]), (200, kind))
            self.assertTrue(text)
        self.assertEqual(get(f"{self.url}/ui/x.js")[0], 404)


class State(unittest.TestCase):
    """What the page asks: /ui/state and /ui/node."""

    def ask(self, url, query="", **headers):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(urllib.request.Request(f"{url}/ui/state{query}", headers=headers), timeout=60) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def test_all_then_only_changes(self):
        with serving() as url:
            def settled():
                told = json.loads(self.ask(url)[2])
                return {job["name"]: job["state"] for job in told["jobs"]}["moe-236b"] == "waits"
            self.assertTrue(wait_for(settled))
            status, headers, body = self.ask(url)
            told = json.loads(body)
            self.assertEqual((status, told["all"], len(told["nodes"]), len(told["supernodes"])), (200, True, 45, 7))
            self.assertEqual(self.ask(url, **{"If-None-Match": headers["ETag"]})[::2], (304, b""))
            again = json.loads(self.ask(url, f"?since={told['state']}")[2])
            self.assertEqual((again["all"], again["nodes"], "supernodes" in again), (False, [], False))
            for strange in ("1-1", told["state"] + "0", told["state"].split("-")[0] + "-999999", "-", "%00"):
                self.assertTrue(json.loads(self.ask(url, f"?since={strange}")[2])["all"], strange)

    def test_gzip(self):
        with serving() as url:
            _, headers, body = self.ask(url, **{"Accept-Encoding": "gzip"})
            self.assertEqual((headers["Content-Encoding"], headers["Vary"]), ("gzip", "Accept-Encoding"))
            self.assertEqual(len(json.loads(gzip.decompress(body))["nodes"]), 45)
            for refused in ("gzip;q=0", "gzip; q=0", "gzip;q=0.00", "deflate, gzip; q=0, br", "br"):
                _, plain, whole = self.ask(url, **{"Accept-Encoding": refused})
                self.assertIsNone(plain["Content-Encoding"], refused)
            self.assertGreater(len(whole), 3 * len(body))
            for taken in ("gzip;q=0.5", "br;q=0, gzip", "deflate, gzip; q=0.001"):
                self.assertEqual(self.ask(url, **{"Accept-Encoding": taken})[1]["Content-Encoding"], "gzip", taken)
            # both bodies are of one state, whose name is weak, and proxies may write it so or not
            self.assertRegex(headers["ETag"], '^W/"[0-9a-f-]+"$')
            for form in (str, lambda tag: tag[2:], lambda tag: f'"1", {tag}'):
                known = form(self.ask(url, **{"Accept-Encoding": "gzip"})[1]["ETag"])  # of now: the state may have changed
                self.assertEqual(self.ask(url, **{"If-None-Match": known, "Accept-Encoding": "gzip"})[::2], (304, b""), known)
            self.assertEqual(self.ask(url, **{"If-None-Match": '"1"'})[0], 200)

    def test_what_can_be_given_away(self):
        """GPUs of a node that takes no pods are not available."""
        with serving() as url:
            nodes = {row[1]: row for row in json.loads(self.ask(url)[2])["nodes"]}
            for name in ("rack-e-n06", "rack-e-n07", "rack-e-n08"):  # stale, not Ready, cordoned
                self.assertEqual(nodes[name][4], 0, nodes[name])
            self.assertEqual((nodes["rack-d-n02"][5] & 16, nodes["rack-d-n01"][5] & 16), (16, 0))  # a link is down

    def test_wiring(self):
        with serving() as url:
            status, kind, text = get(f"{url}/ui/node?name=rack-d-n02")
            self.assertEqual((status, kind), (200, "application/json"))
            weights = json.loads(text)["weights"]
            self.assertEqual((len(weights), weights[0][0], weights[2][1]), (8, 0, weights[1][2]))
            self.assertGreater(len({w for i, row in enumerate(weights) for j, w in enumerate(row) if i != j}), 1)
            self.assertEqual(get(f"{url}/ui/node?name=none")[0], 404)


class Proxied:
    """A fault of the double: the answer of the program at `url` to what follows "/proxy"."""

    def __init__(self, url):
        self.url = url

    def run(self, handler):
        status, kind, text = get(self.url + handler.path.split("/proxy", 1)[1])
        handler.answer(status, text.encode(), {"Content-Type": kind})


class Local(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.path == "/explain?name=j"
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(b"It runs\n" if known else b"no such job\n")

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


class CommandLine(unittest.TestCase):
    """gputopo explain."""

    def explain(self, code, *arguments, **more):
        run = subprocess.run([GPUTOPO, "explain", *arguments], capture_output=True, text=True, timeout=60, check=False, **more)
        self.assertEqual(run.returncode, code, run.stderr)
        self.assertEqual(run.stderr.count("\n"), 0 if code == 0 else 1)
        return run.stderr if code else run.stdout

    def test_against_a_companion(self):
        with serving() as url:
            here = "--companion=" + url.removeprefix("http://")
            self.assertIn("ns/moe-236b", self.explain(0, here, "-o", "name").splitlines())
            self.assertNotIn("/", self.explain(0, here, "-o", "name", "-n", "ns"))
            self.assertIn("planned for node rack-c-n02, GPUs 0-7", self.explain(0, here, "ns/vision-ft-worker-0"))
            self.assertIn("Job ns/PyTorchJob/llama-70b: 16 pods", self.explain(0, here, "-n", "ns", "llama-70b"))
            self.assertEqual(json.loads(self.explain(0, here, "-o", "json", "probe"))["feasible"], 7)
            self.assertIn('404: there is no pod, job or node "a b"', self.explain(1, here, "a b"))
            self.assertIn("names the namespace already", self.explain(2, here, "-n", "ns", "ns/probe"))
            self.assertIn("expected the name", self.explain(2, here))
        said = self.explain(1, here, "probe")
        self.assertIn("cannot be reached", said)
        self.assertIn("port-forward", said)

    def test_through_the_api_server(self):
        """The double passes on what is asked of the Service, as the API server's proxy does."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        with serving() as url, ApiDouble(folder) as api:
            api.fail(Proxied(url), path="/proxy/", times=9)
            config = kubeconfig(f"{folder}/config", api.url, "certificate-authority: ca.crt", "token: token-1")
            self.assertIn("planned for node rack-c-n02, GPUs 0-7", self.explain(0, "--kubeconfig", config, "ns/vision-ft-worker-0"))
            self.assertEqual(json.loads(self.explain(0, "--kubeconfig", config, "-o", "json", "-n", "ns", "probe-0"))["feasible"], 7)
            self.assertIn('404: there is no pod, job or node "a/b c&d"', self.explain(1, "--kubeconfig", config, "a/b c&d"))

    def test_of_no_cluster(self):
        """As in the companion's own pod: it is asked on this machine."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
        try:
            local = http.server.HTTPServer(("127.0.0.1", 9401), Local)
        except OSError as error:
            self.skipTest(f"127.0.0.1:9401: {error}")
        with local:
            thread = threading.Thread(target=local.serve_forever, args=(0.05,))
            thread.start()
            try:
                self.assertEqual(self.explain(0, "j", env={**env, "HOME": "/"}), "It runs\n")
                self.assertIn("the answer is 404: no such job", self.explain(1, "none", env={**env, "HOME": "/"}))
                self.assertIn("kubeconfig: /none: No such file", self.explain(1, "--kubeconfig=/none", "j", env=env))  # this was named
            finally:
                local.shutdown()
                thread.join()
        said = self.explain(1, "j", env={**env, "HOME": "/"})
        self.assertRegex(said, "cannot be reached: no cluster is known: .*; 127.0.0.1:9401: Connection refused; .*port-forward")


if __name__ == "__main__":
    HOST, GPUTOPO = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
