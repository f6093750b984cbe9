#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The companion's debug pages: /debug/model and /explain by HTTP, and the page in a real Chromium.

Usage: test_ui.py UI_HOST GPUTOPO [unittest arguments]

Without a Chromium ($GPUTOPO_CHROMIUM, or one of the usual names on PATH) the tests of the page are skipped, with a word.
Pictures go to $GPUTOPO_PICTURES where it is set.
"""

import collections
import contextlib
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

import chromium
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
    def model(cls, query=""):
        status, kind, text = get(f"{cls.url}/debug/model{query}")
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
            self.assertIn(f"{len(spares)} nodes are spares: left to pods whose nodes are lost", explain(url, pod="ns/probe-0")[2])
            self.assertIn("GPUs 0-7: left free as a spare node", explain(url, node=spares[0]["name"])[2])
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

    def test_pods_can_be_left_out(self):
        self.assertNotIn("pods", self.model("?pods=no")["jobs"][0])

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
        for path, kind in (("", "text/html"), ("/", "text/html"), ("/ui.css", "text/css"), ("/ui.js", "text/javascript"), ("/page.js", "text/javascript"), ("/cluster.js", "text/javascript"),
                           ("/icon.svg", "image/svg+xml")):
            status, got, text = get(f"{self.url}/ui{path}")
            self.assertEqual((status, got.split(";")[0]), (200, kind))
            self.assertTrue(text)
        self.assertEqual(get(f"{self.url}/ui/x.js")[0], 404)


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


@unittest.skipUnless(chromium.program(), "there is no Chromium here: the page was not looked at")
class Page(unittest.TestCase):
    """What people see."""

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.browser = cls.stack.enter_context(chromium.browser())

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def open(self, url, query="", width=1280, height=900, scheme="light", mobile=False):
        self.browser.size(width, height, mobile)
        self.browser.scheme(scheme)
        self.browser.open(f"{url}/ui{query}")
        self.browser.wait_for("document.querySelectorAll('#cluster .node .g').length > 0", 60)

    def text(self, selector):
        return self.browser.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def count(self, selector):
        return self.browser.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")

    def visible(self, selector):
        return self.browser.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})]"
                                     ".filter((e) => e.offsetParent !== null).length")

    def picture(self, name, whole=False):
        folder = os.environ.get("GPUTOPO_PICTURES")
        if folder:
            self.browser.picture(f"{folder}/{name}.png", whole)

    def assert_quiet(self, url):
        self.assertEqual(self.browser.complaints(), [])
        outside = [asked for asked in self.browser.asked() if not asked.startswith(url)]
        self.assertEqual(outside, [], "the page asks somebody else")

    def test_everything_is_there(self):
        with serving() as url:
            self.open(url)
            self.browser.wait_for("!!document.querySelector('#waiting-jobs li.waits')")
            self.assertEqual((self.count("#cluster .node"), self.count("#cluster .g")), (45, 360))
            self.assertEqual(self.count("#cluster .frame"), 7)
            self.assertEqual(self.count("#cluster .frame.inner > .frames > .frame"), 5)
            edges = self.browser.evaluate("[...document.querySelectorAll('#cluster .frame')].map((f) => [!!f.querySelector(':scope > .frames'),"
                                          " getComputedStyle(f).borderTopColor, f.querySelector('.tier')?.innerText || ''])")
            above = [edge for inner, edge, _ in edges if inner]
            self.assertEqual(len(set(above)), len(above), edges)
            self.assertFalse({edge for inner, edge, _ in edges if not inner} & set(above), edges)
            self.assertEqual({tier for inner, _, tier in edges if inner}, {"leaf, tier 2"})
            self.assertIn("atoms of 64 GPUs needed", self.text("#waiting-jobs li.waits"))
            self.assertIn("not a multiple", self.text("#waiting-jobs li.refused"))
            self.assertEqual(self.count("#cluster .g.unhealthy"), 2)
            unsure = self.browser.evaluate("[...document.querySelectorAll('#cluster .node')].filter((n) => "
                                           "n.querySelectorAll('.unsure').length === 8).map((n) => n.querySelector('.flags').innerText)")
            self.assertEqual(len(unsure), self.count("#cluster .unsure") // 8)
            self.assertGreater(len(unsure), 0)
            self.assertTrue(all("health unknown" in flags for flags in unsure), unsure)
            self.assertEqual(self.count("#cluster .g.assumed"), 32)
            self.assertIn("stale", self.text('[data-node="rack-e-n06"] .flags'))
            self.assertIn("45 nodes", self.text("#summary"))
            self.assertIn("live", self.text("#age"))
            self.assertFalse(self.browser.evaluate("document.documentElement.scrollWidth > innerWidth"))
            label = self.browser.evaluate("document.querySelector('[data-node=\"rack-a-n01\"]').getAttribute('aria-label')")
            self.assertEqual(label, "Node rack-a-n01: GPU 0-7 used by ns/PyTorchJob/llama-70b, unit 0")
            self.picture("light")
            self.assert_quiet(url)

    def test_asks_again_and_keeps_what_is_drawn(self):
        with serving() as url:
            self.open(url)
            self.browser.evaluate("document.querySelector('[data-node=\"rack-a-n01\"] .g').mark = 1")
            asked = sum("debug/model" in address for address in self.browser.asked())
            deadline = time.monotonic() + 60
            while sum("debug/model" in address for address in self.browser.asked()) < asked + 2:
                self.assertLess(time.monotonic(), deadline, "it does not ask again")
                time.sleep(0.3)
            self.assertEqual(self.browser.evaluate("document.querySelector('[data-node=\"rack-a-n01\"] .g').mark"), 1)

    def test_a_job_is_highlighted(self):
        with serving() as url:
            self.open(url)
            self.browser.click("[...document.querySelectorAll('#jobs button')].find((b) => b.innerText.includes('llama-70b'))")
            self.assertEqual(self.count("#cluster.picked .g.on"), 128)
            units = self.browser.evaluate("[...new Set([...document.querySelectorAll('.g.on')].map((c) => c.dataset.unit))].join()")
            self.assertEqual(units, "0,1,2,3")
            self.browser.wait_for("document.querySelector('#about pre').innerText.includes('llama-70b-worker-3')")
            self.assertEqual(self.count("#jobs button[aria-pressed=true]"), 1)
            domains = self.browser.evaluate("[...document.querySelectorAll('.frame.on')].map((f) => f.querySelector('h3').innerText).sort().join()")
            self.assertEqual(domains, "hall-1,rack-a,rack-b")
            self.assertEqual(self.text("#about .domains"), "in 1 of 2 leaves, 2 of 5 supernodes")
            self.picture("job")
            self.browser.key("Escape")
            self.assertEqual(self.count("#cluster.picked"), 0)
            self.assert_quiet(url)

    def test_the_filter(self):
        with serving() as url:
            self.open(url)
            for words, nodes in (("stale", 1), ("llama rack-b", 8), ("rack-e-n0", 9), ("nowhere", 0), ("", 45)):
                self.browser.evaluate(f"(() => {{ const f = document.querySelector('#filter'); f.value = {json.dumps(words)};"
                                      "f.dispatchEvent(new Event('input')); })()")
                self.assertEqual(self.visible("#cluster .node"), nodes, words)
            self.open(url, "?filter=rack-e")
            self.assertEqual((self.visible("#cluster .node"), self.visible("#cluster .frame")), (9, 2))
            self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('#jobs b')].some((b) => b.innerText === 'llama-70b')"), False)
            self.assertGreater(self.count("#jobs button"), 2)

    def test_by_keyboard(self):
        with serving() as url:
            self.open(url)
            self.assertEqual(self.count(".node[tabindex='0']"), 1)
            self.browser.evaluate("document.querySelector('.node[tabindex=\"0\"]').focus()")
            for _ in range(2):
                self.browser.key("ArrowDown")
            self.assertEqual(self.browser.evaluate("document.activeElement.dataset.node"), "rack-a-n03")
            self.assertIn("Node rack-a-n03", self.text("#about"))
            self.browser.key("End")
            self.assertEqual(self.browser.evaluate("document.activeElement.dataset.node"), "rack-e-n09")
            self.assertEqual(self.count(".node[tabindex='0']"), 1)
            # each name of a control is known to those who cannot see it
            self.browser.call("Accessibility.enable")
            tree = self.browser.call("Accessibility.getFullAXTree")["nodes"]
            nameless = [node for node in tree if node.get("role", {}).get("value") in ("button", "searchbox", "textbox")
                        and not node.get("name", {}).get("value")]
            self.assertEqual(nameless, [])

    def test_dark_and_narrow(self):
        with serving() as url:
            for width, scheme in ((400, "light"), (400, "dark"), (1280, "dark")):
                self.open(url, width=width, height=850, scheme=scheme, mobile=width == 400)
                paper = self.browser.evaluate("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(", ")
                self.assertEqual(int(paper[0]) < 128, scheme == "dark")
                self.assertFalse(self.browser.evaluate("document.documentElement.scrollWidth > innerWidth"), width)
                self.picture(f"{scheme}-{width}")
            self.open(url, "?theme=dark", scheme="light")
            self.assertEqual(self.browser.evaluate("document.documentElement.dataset.theme"), "dark")
            self.assert_quiet(url)

    def test_details_on_a_small_screen(self):
        with serving() as url:
            self.open(url, width=400, height=850, mobile=True)
            self.assertEqual(self.visible("#details"), 0)
            self.browser.click("document.querySelector('[data-node=\"rack-d-n04\"] .name')")
            self.browser.wait_for("document.querySelector('#details').classList.contains('open')")
            self.assertIn("GPUs 0-3: used, nobody knows by whom", self.text("#about"))

    def test_when_the_companion_is_gone(self):
        with serving("--fail-after", "2") as url:
            self.open(url)
            self.browser.wait_for("!document.querySelector('#trouble').hidden")
            self.assertIn("cannot be reached (it answers 503)", self.text("#trouble"))
            self.assertIn("old", self.text("#age"))
            self.assertEqual(self.count("#cluster .node"), 45)
            self.picture("trouble")
        # and now nobody answers at all
        self.browser.wait_for("document.querySelector('#trouble').innerText.includes('fetch')")

    def test_names_are_only_text(self):
        with serving("--hostile") as url:
            self.open(url)
            self.browser.wait_for("document.body.innerText.includes('<img src=x onerror=alert(1)>')")
            self.assertEqual(self.count("body img, #left script, #details script, #page svg, #page b b"), 0)
            self.browser.click("document.querySelector('[data-node=\"rack-c-n06\"] .name')")
            self.browser.evaluate("[...document.querySelectorAll('button.job')].find((b) => b.innerText.includes('<img')).click()")
            self.browser.wait_for("document.querySelector('#about pre').innerText.includes('onerror')")
            self.assertEqual(self.count("#about img, #about script"), 0)
            self.assert_quiet(url)

    def test_colours_tell_jobs_apart_and_stay(self):
        colours = ("Object.fromEntries([...document.querySelectorAll('#jobs button')]"
                   ".map((b) => [b.dataset.job, b.querySelector('.g').className]))")
        with serving() as url:
            self.open(url)
            first = self.browser.evaluate(colours)
            self.assertEqual(len(set(first.values())), len(first))
            self.open(url)
            self.assertEqual(self.browser.evaluate(colours), first)

    def test_a_thousand_nodes(self):
        with serving("--racks", "63", "--nodes", "16") as url:
            self.open(url)
            self.assertEqual(self.count("#cluster .node"), 1008)
            self.assertFalse(self.browser.evaluate("document.documentElement.scrollWidth > innerWidth"))
            self.picture("thousand")
            self.assert_quiet(url)

    def test_supernodes_of_one_node(self):
        """They have no frame of their own in a leaf, and count all the same."""
        with serving() as url:
            self.open(url)
            frames, nodes, said = self.browser.evaluate("""(() => {
                const model = structuredClone(page.model);
                model.supernodes = model.supernodes.flatMap((s) => s.tier > 1 ? [s] : s.nodes.map((name) => ({ ...s, name, nodes: [name] })));
                drawCluster(model);
                applyPick();
                return [[...document.querySelectorAll("#cluster .frame h3")].map((h) => h.innerText),
                        document.querySelectorAll("#cluster .node .g").length, domainsOf("ns/PyTorchJob/llama-70b")];
            })()""")
            self.assertEqual((frames, nodes), (["hall-1", "hall-2"], 360))
            self.assertRegex(said, r"^1 of 2 leaves, [0-9]+ of 45 supernodes$")
            self.assert_quiet(url)

    def test_a_node_says_who_has_its_gpus(self):
        with serving() as url:
            self.open(url)
            self.browser.evaluate("document.querySelector(\"[data-node='rack-a-n05']\").click()")
            self.browser.wait_for("document.body.innerText.includes('GPUs 0-7: used by pod ns/llama-70b-worker-3 of job')")
            self.assert_quiet(url)

    def test_kept_nodes(self):
        with serving("--patience", "100", "--racks", "7") as url:  # in five there is none that would do
            self.open(url)
            self.browser.wait_for("document.querySelectorAll('#cluster .flags').length > 30")
            self.browser.wait_for("document.querySelector('#waiting-jobs').innerText.includes('nodes are reserved for it')")
            self.assertIn("reserved", self.text("[data-node='rack-f-n01'] .flags"))
            self.assertIn("reserved for a larger job that has waited for long", explain(url, pod="ns/probe-0")[2])
            self.assertIn("nodes are reserved for it", explain(url, job="ns/moe-236b")[2])
            self.picture("kept")

    def test_without_the_controller(self):
        with serving("--no-placement") as url:
            self.open(url)
            self.assertIn("gated", self.text("#waiting-jobs"))
            self.assert_quiet(url)


if __name__ == "__main__":
    HOST, GPUTOPO = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
