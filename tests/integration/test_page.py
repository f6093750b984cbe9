#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The cluster page in a real Chromium: of an invented cluster with everything that may be wrong, and of the real companion
with 40, 2,000 and 10,000 nodes.

Usage: test_page.py UI_HOST SCHEDULER [unittest arguments]

Without a Chromium ($GPUTOPO_CHROMIUM, or one of the usual names on PATH) all is skipped, with a word. Pictures go to
$GPUTOPO_PICTURES where it is set.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
import unittest

import chromium
from daemon_driver import wait_for
from page_world import companion

HOST = SCHEDULER = None
SCREENS = ((1400, 900, "light"), (390, 844, "light"), (1400, 900, "dark"), (390, 844, "dark"))
ELEMENTS_MAX, CHANGE_MAX = 2500, 20 << 10


@contextlib.contextmanager
def serving(*arguments):
    process = subprocess.Popen([HOST, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline().split()[1])}"
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(60)


# Every text that is shown, whose contrast on what is below it is less than 4.5.
PALE = """(() => {
  const rgb = (text) => (/rgba?\\((.*)\\)/.exec(text)?.[1] || "0,0,0,0").split(",").map(Number);
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if ((c[3] ?? 1) > 0.5) return c; } return [255, 255, 255]; };
  const found = new Set();
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || e.offsetParent === null || e.closest("svg, noscript, .unseen")) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x), contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) found.add(`${e.tagName} ${e.className} ${contrast.toFixed(2)}: ${e.textContent.slice(0, 30)}`);
  }
  return [...found];
})()"""

# Colours of the map against the paper, and of jobs against both kinds of ground.
MARKS = """(() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (colour) => { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); const [r, g, b] = pen.getImageData(0, 0, 1, 1).data;
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  const style = getComputedStyle(document.documentElement), paper = light(style.getPropertyValue("--paper")), found = {};
  const add = (name, colour) => { const [a, b] = [light(colour), paper].sort((x, y) => y - x); found[name] = (a + 0.05) / (b + 0.05); };
  for (const name of ["free", "edge", "bad", "warn", "job", "focus", "wire"]) add(name, style.getPropertyValue(`--${name}`));
  coloursOfHalls(Array.from({ length: 400 }, (_, i) => ({ name: `${i >> 1} / ${i}` }))).forEach((colour) => add(colour, colour));
  for (let i = 0; i < 12; i++) { const e = document.createElement("i"); e.className = `g h${i}`; document.body.append(e); add(`h${i}`, getComputedStyle(e).backgroundColor); e.remove(); }
  return found;
})()"""


@unittest.skipUnless(chromium.program(), "there is no Chromium here: the page was not looked at")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(chromium.browser())

    def open(self, url, query="", width=1400, height=900, scheme="light", nodes=1):
        self.browser.size(width, height, width < 500)
        self.browser.scheme(scheme)
        self.browser.open(f"{url}/ui{query}")
        self.browser.wait_for(f"page.head && page.nodes.size >= {nodes}", 180)

    def go(self, address):
        self.browser.evaluate(f"location.hash = {json.dumps(address)}")
        self.browser.wait_for("!document.querySelector('#view').hidden")

    def text(self, selector):
        return self.browser.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def count(self, selector):
        return self.browser.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")

    def picture(self, name):
        if os.environ.get("GPUTOPO_PICTURES"):
            self.browser.picture(f"{os.environ['GPUTOPO_PICTURES']}/{name}.png")

    def assert_quiet(self, url):
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual([asked for asked in self.browser.asked() if not asked.startswith(url)], [], "the page asks somebody else")

    def assert_one_screen(self):
        tall, wide = self.browser.evaluate("[document.documentElement.scrollHeight - innerHeight, document.documentElement.scrollWidth - innerWidth]")
        self.assertLessEqual((tall, wide), (0, 0))
        below = self.browser.evaluate("['fits', 'waits', 'uses', 'cluster', 'log'].map((id) => document.getElementById(id).getBoundingClientRect())"
                                      ".filter((r) => r.height < 40 || r.bottom > innerHeight || r.right > innerWidth).length")
        self.assertEqual(below, 0, "a panel is not on the screen")
        self.assertLess(self.count("*"), ELEMENTS_MAX)


class Invented(Page):
    """ui-host: a cluster with all that may be wrong."""

    def test_what_is_wrong_is_said_first(self):
        with serving() as url:
            self.open(url)
            self.assertEqual(self.count("#status.wrong"), 1)
            said = self.text("#status-text")
            for part in ("1 node not Ready", "1 node without a current report", "1 node with a link down", "2 GPUs unhealthy", "1 node cordoned", "1 GPU isolated"):
                self.assertIn(part, said)
            for fault, node in (("not-ready", "rack-e-n07"), ("stale", "rack-e-n06"), ("link-down", "rack-d-n02"), ("cordoned", "rack-e-n08"),
                                ("isolated", "rack-d-n06")):
                self.go(f"#/nodes/{fault}")
                self.browser.wait_for(f"document.querySelector('#view-body').innerText.includes('{node}')")
                self.assertEqual(self.count("#view .node"), 1)
            self.assert_quiet(url)

    def test_what_is_wrong_with_jobs_and_the_companion(self):
        with serving("--wrong") as url:
            self.open(url)
            said = self.text("#status-text")
            for part in ("no replica leads", "the certificate of the webhooks ends in 2 days", "1 job torn", "1 job runs without a plan",
                         "1 job has lost its plan"):
                self.assertIn(part, said)
            self.assertNotIn("leader", self.text("#summary"))
            for fault, job in (("torn", "ns/torn"), ("unplaced", "ns/bare"), ("lost", "ns/lost")):
                self.assertEqual(self.browser.evaluate(f"document.querySelector('#status-text a[href=\"#/jobs/{fault}\"]').innerText.slice(0, 5)"), "1 job")
                self.go(f"#/jobs/{fault}")
                self.browser.wait_for(f"document.querySelector('#view-body').innerText.includes('{job}')")
            self.assert_quiet(url)

    def test_what_fits_and_who_waits(self):
        with serving() as url:
            self.open(url)
            self.browser.wait_for("document.querySelector('#waits-lines').innerText.includes('TooFewGPUs')")
            units = self.browser.evaluate("Object.fromEntries([...document.querySelectorAll('#fits-rows tr')].map((r) => [r.children[0].innerText, r.children[1].innerText]))")
            # each rack alone: no unit of 32 has four whole free nodes in one
            whole = self.browser.evaluate("page.racks.map((r) => r.nodes.filter((id) => page.nodes.get(id).available === 8).length)")
            self.assertEqual([units["8 GPUs"], units["16 GPUs"], units["32 GPUs"]], [str(sum(n // k for n in whole)) for k in (1, 2, 4)])
            self.assertEqual(list(units), [f"{size} GPUs" for size in (8, 12, 16, 32, 64, 128)])  # 12: of a job that is there
            self.go("#/waits/RuleBroken")
            self.assertIn("odd-sizes", self.text("#view-body"))
            self.assertIn("not a multiple", self.text("#view-body"))
            self.go("#/fits/16")
            self.assertEqual(self.count("#view-body .columns li"), sum(n >= 2 for n in whole))

    def test_a_job_alone_in_colour(self):
        with serving() as url:
            self.open(url)
            self.browser.click("[...document.querySelectorAll('#uses-rows a')].find((a) => a.innerText === 'ns/llama-70b')")
            self.browser.wait_for("document.querySelector('#view-body pre')?.innerText.includes('llama-70b-worker-3')")
            self.assertIn("on 16 nodes in 2 of 5 racks", self.text("#view .domains"))
            self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('#view p.quiet.domains')].map((p) => p.innerText)"),
                             ["1 of 2 domains of tier 2: hall-1"])
            self.assertEqual(self.browser.evaluate("coloursOfHalls(['x / a', 'x / b', 'x / c', 'y / d'].map((name) => ({ name })))"
                                                   ".map((colour, i, all) => [all.indexOf(colour), parseInt(colour.split(' ')[2])])"),
                             [[0, 200], [1, 200], [0, 200], [3, 337]])
            self.assertEqual(self.count("#view .g.on"), 128)
            self.assertEqual(self.browser.evaluate("location.hash"), "#/job/ns%2FPyTorchJob%2Fllama-70b")
            self.assertEqual(self.browser.evaluate("emphasis().job.size"), 16)
            self.picture("job")
            self.browser.key("Escape")
            self.browser.wait_for("document.querySelector('#view').hidden")
            self.assert_quiet(url)

    def test_long_lists_say_how_much_more_there_is(self):
        with serving() as url:
            self.open(url)
            self.go("#/job/ns%2FPyTorchJob%2Fllama-70b")
            self.assertIn("and 5 more", self.browser.evaluate(
                "(() => { for (const node of page.nodes.values()) node.users = [{ ...node.users[0], job: view.arg, unit: 0, pod: 'x' }];"
                " return make('div', null, ...viewJob().slice(1)).textContent; })()"))
            self.go("#/waits")
            jobs, said = self.browser.evaluate("(() => { for (const job of page.jobs.values()) Object.assign(job, { settled: false, reason: 'Same' });"
                                               " return [page.jobs.size, make('div', null, ...viewWaits().slice(1)).textContent]; })()")
            self.assertIn(f"and {jobs - 20} more", said)

    def test_behind_whom(self):
        with serving() as url:
            self.open(url)
            rows, before = self.browser.evaluate("(() => { const [a, b] = [...page.jobs.values()]; a.place = 70; b.place = 71; sumUp();"
                                                  " return [[a, b].map((job) => jobRow(job).textContent), [a.namespace, a.name].join('/')]; })()")
            self.assertNotIn("behind", rows[0])
            self.assertIn(f"number 72 in line, behind {before}", rows[1])

    def test_nodes_without_a_report(self):
        with serving() as url:
            self.open(url)
            link, said = self.browser.evaluate("(() => { Object.assign(page.head, { withoutTopology: 3, absent: ['a', 'b'] }); drawStatus();"
                                               " return [document.querySelector('#status-text a[href=\"#/absent\"]')?.innerText,"
                                               " make('div', null, ...viewAbsent()).textContent]; })()")
            self.assertIn("3 nodes with GPUs not shown", link)
            self.assertIn("aband 1 more", said)

    def test_decisions_leave_what_happened_to_nodes(self):
        with serving() as url:
            self.open(url)
            kinds = self.browser.evaluate("(() => { const told = { nodes: [], nodesGone: [], jobs: [], jobsGone: [], state: page.state, ms: Date.now() };"
                                          " take({ ...told, events: [{ kind: 'Node' }] });"
                                          " take({ ...told, events: Array.from({ length: 300 }, () => ({ kind: 'Job' })) });"
                                          " return page.events.map((event) => event.kind); })()")
            self.assertEqual((kinds.count("Job"), kinds.count("Node"), kinds[-1]), (200, 1, "Node"))

    def test_racks_and_nodes(self):
        with serving() as url:
            self.open(url)
            x, y = self.browser.evaluate("(() => { const t = map.tiles.find((t) => t.rack.name === 'rack-d'), b = document.querySelector('#map').getBoundingClientRect();"
                                         " return [b.x + t.x + 9, b.y + t.y + 9]; })()")
            for what in ("mousePressed", "mouseReleased"):
                self.browser.call("Input.dispatchMouseEvent", type=what, x=x, y=y, button="left", clickCount=1)
            self.browser.wait_for("document.querySelectorAll('#view .node').length === 9")
            self.go("#/node/rack-d-n02")
            self.browser.wait_for("document.querySelectorAll('#view svg .gpu').length === 8")
            self.assertEqual(self.count("#view svg line.less"), 1)
            self.browser.wait_for("document.querySelector('#view pre').innerText.includes('GPUs 4-7: used by pod')")
            self.go("#/node/nobody")
            self.assertIn("There is no node nobody", self.text("#view-title"))
            self.assert_quiet(url)

    def test_wirings_of_all_sizes(self):
        """Neither dots nor labels touch each other."""
        with serving() as url:
            self.open(url)
            self.go("#/node/rack-d-n02")
            self.browser.wait_for("document.querySelectorAll('#view svg .gpu').length === 8")
            for n in (1, 2, 8, 16, 24, 48, 64):
                gap, wide, high, picture = self.browser.evaluate(
                    f"(() => {{ const n = {n}, weights = Array.from({{ length: n }}, (_, i) => Array.from({{ length: n }}, (_, j) => i === j ? 0 : 64));"
                    " const figure = drawWiring({ weights }, weights.map(() => ({ state: 'free' }))); document.querySelector('#view .two > div').replaceChildren(figure);"
                    " const dots = [...figure.querySelectorAll('.gpu')], at = (dot, name) => +dot.getAttribute(name), r = at(dots[0], 'r');"
                    " const boxes = [...figure.querySelectorAll('text')].map((text) => text.getBBox());"
                    " const box = figure.querySelector('svg').getBoundingClientRect();"
                    " return [n > 1 ? Math.hypot(at(dots[0], 'cx') - at(dots[1], 'cx'), at(dots[0], 'cy') - at(dots[1], 'cy')) - 2 * r - 4 : 0,"
                    " Math.max(...boxes.map((b) => b.width)) - 2 * r, r, box.width / figure.querySelector('svg').viewBox.baseVal.width]; })()")
                self.assertGreaterEqual(gap, 0, n)
                self.assertLess(wide, 0, n)
                self.assertGreaterEqual(high * picture, 8, n)
                self.picture(f"wiring-{n}")

    def test_by_keyboard(self):
        with serving() as url:
            self.open(url)
            self.browser.evaluate("document.querySelector('#map').focus()")
            for key, rack in (("ArrowRight", "rack-b"), ("ArrowLeft", "rack-a"), ("ArrowRight", "rack-b")):
                self.browser.key(key)
                self.assertIn(f"{rack}: 9 nodes", self.text("#map-said"))
            self.browser.key("Enter")
            self.browser.wait_for("location.hash === '#/rack/rack-b'")
            self.browser.key("Escape")
            self.browser.wait_for("location.hash === '#/'")
            self.browser.key("/")
            self.assertEqual(self.browser.evaluate("document.activeElement.id"), "search")
            for words, count in (("notebook", None), ("rack-d-n02", 1), ("link down", 1), ("nowhere", 0)):
                self.browser.evaluate(f"(() => {{ const s = document.querySelector('#search'); s.value = {json.dumps(words)}; s.dispatchEvent(new Event('input')); }})()")
                found = self.count("#uses-rows .use")
                self.assertTrue(found == count if count is not None else found > 3, (words, found))
            self.browser.call("Accessibility.enable")
            tree = self.browser.call("Accessibility.getFullAXTree")["nodes"]
            self.assertEqual([node for node in tree if node.get("role", {}).get("value") in ("button", "searchbox", "link", "application")
                              and not node.get("name", {}).get("value")], [])

    def test_contrast_on_every_screen(self):
        with serving() as url:
            for width, height, scheme in SCREENS:
                self.open(url, width=width, height=height, scheme=scheme)
                for address in ("#/", "#/rack/rack-d", "#/node/rack-d-n02", "#/job/ns%2FPyTorchJob%2Fllama-70b", "#/waits"):
                    self.browser.evaluate(f"location.hash = {json.dumps(address)}")
                    self.browser.wait_for(f"(view.name || '') === {json.dumps(address.split('/')[1])}")
                    self.assertEqual(self.browser.evaluate(PALE), [], (scheme, address))
                self.assertEqual({name: contrast for name, contrast in self.browser.evaluate(MARKS).items() if contrast < 3}, {})
                self.browser.evaluate("location.hash = '#/'")
                self.assert_one_screen()
                self.picture(f"invented-{width}-{scheme}")

    def test_a_theme_by_address(self):
        with serving() as url:
            self.open(url, "?theme=dark")
            self.assertEqual(self.browser.evaluate("document.documentElement.dataset.theme"), "dark")

    def test_when_the_companion_is_gone(self):
        with serving("--fail-after", "2") as url:
            self.open(url)
            self.browser.wait_for("!document.querySelector('#trouble').hidden")
            self.assertIn("cannot be reached (it answers 503", self.text("#trouble"))
            self.assertIn("old", self.text("#age"))
        self.browser.wait_for("document.querySelector('#trouble').innerText.includes('fetch')")

    def test_names_are_only_text(self):
        with serving("--hostile") as url:
            self.open(url)
            for address in ("#/uses/ns", "#/waits", "#/rack/rack-c"):
                self.go(address)
                self.assertEqual(self.count("body img, #page script, #page b b"), 0)
            self.browser.evaluate("location.hash = hrefOf('job', [...page.jobs.keys()].find((key) => key.includes('<img')))")
            self.browser.wait_for("document.querySelector('#view pre')?.innerText.includes('onerror')")
            self.assertEqual(self.count("body img, #page script"), 0)
            self.assert_quiet(url)

    def test_without_the_controller(self):
        with serving("--no-placement") as url:
            self.open(url)
            self.assertIn("gated", self.text("#waits-lines"))
            self.assertIn("placement is off", self.text("#status-text"))


class Real(Page):
    """The real companion on the double of the API server."""

    def test_asked_twice_at_once(self):
        """A tab that is shown again asks at once, perhaps while an answer is on its way: nothing is told twice."""
        with companion(SCHEDULER, 40, waiting=3) as (_, running):
            self.open(f"http://127.0.0.1:{running.port}", nodes=40)
            self.browser.wait_for("page.events.length > 0")
            numbers = self.browser.evaluate("(async () => { page.events = []; page.head.lastEvent = 0; page.etag = ''; await Promise.all([ask(), ask()]);"
                                            " return page.events.map((event) => event.number); })()")
            self.assertGreater(len(numbers), 0)
            self.assertEqual(len(numbers), len(set(numbers)), numbers)

    def look(self, nodes, redraw_ms, seen_s):
        with companion(SCHEDULER, nodes) as (world, running):
            url = f"http://127.0.0.1:{running.port}"
            self.open(url, nodes=nodes)
            self.browser.wait_for("page.head.synced && [...page.jobs.values()].filter((job) => !job.settled).length === 40")
            self.browser.wait_for("[...page.jobs.values()].every((job) => job.settled || job.reason)")
            self.browser.wait_for("document.querySelector('#waits-lines').innerText.includes('NoSupernode')")
            self.assertLessEqual(self.count("#waits-lines li"), 6)
            self.assertIn("Nothing is wrong", self.text("#status-text"))
            drew = sorted(self.browser.evaluate("[1, 2, 3, 4, 5].map(() => { drawAll(); return page.drewMs; })"))
            self.assertLess(drew[2], redraw_ms, drew)
            self.change(world, nodes, seen_s)
            self.assert_scrolled()
            for width, height, scheme in SCREENS:
                self.open(url, width=width, height=height, scheme=scheme, nodes=nodes)
                self.assert_one_screen()
                self.picture(f"real-{nodes}-{width}-{scheme}")
            self.assert_quiet(url)

    def assert_scrolled(self):
        """To the tile of what was chosen, where the map is higher than its box."""
        self.browser.evaluate("document.querySelector('#map-box').scrollTop = 0")
        self.go(f"#/rack/{self.browser.evaluate('map.tiles.at(-1).rack.name')}")
        top, high, all_high, tile, side = self.browser.evaluate(
            "(() => { const box = document.querySelector('#map-box'); return [box.scrollTop, box.clientHeight, box.scrollHeight, map.tiles.at(-1).y, map.side]; })()")
        self.assertEqual(top > 0, all_high > high, (top, high, all_high))
        self.assertTrue(top <= tile and tile + side <= top + high, (top, high, tile, side))
        self.browser.evaluate("location.hash = '#/'")
        return top

    def change(self, world, nodes, seen_s):
        """What changes reaches the header, with a small answer, in time."""
        self.browser.events.clear()
        took = []
        for change in range(4):
            time.sleep(1.5)
            cordoned = change % 2 == 0
            self.assertEqual("1 node cordoned" in self.text("#status-text"), not cordoned)
            began = time.monotonic()
            world.add_node(9, **({"unschedulable": True} if cordoned else {}))
            self.browser.wait_for(f"document.querySelector('#status-text').innerText.includes('1 node cordoned') === {json.dumps(cordoned)}")
            took.append(time.monotonic() - began)
        world.add_topology(10, unhealthy=(3,), why="isolated: ticket 4711")
        self.browser.wait_for("document.querySelector('#status-text').innerText.includes('1 GPU isolated')")
        self.assertIn("Nothing is wrong", self.text("#status-text"))
        self.assertEqual(self.count("#status.wrong"), 0)
        began = time.monotonic()
        world.add_topology(10, unhealthy=(3,), link_down=True)
        self.browser.wait_for("document.querySelector('#status.wrong')?.innerText.includes('1 GPU unhealthy')")
        took.append(time.monotonic() - began)
        self.assertIn("link down", self.text("#status-text"))
        self.go(f"#/node/{world.names[10]}")
        self.browser.wait_for("document.querySelector('#view .log').innerText.includes('GPUUnhealthy')")
        self.assertIn("GPUIsolated", self.text("#view .log"))
        self.browser.evaluate("location.hash = '#/'")
        self.assertLess(sorted(took)[len(took) // 2], seen_s, took)
        sizes = [event["params"]["encodedDataLength"] for event in self.browser.events if event["method"] == "Network.loadingFinished"]
        self.assertTrue(sizes)
        self.assertLess(max(sizes), CHANGE_MAX, f"{nodes} nodes")

    def test_40_nodes(self):
        self.look(40, 100, 2)

    def test_2000_nodes(self):
        self.look(2000, 100, 2)

    def test_10000_nodes(self):
        self.look(10000, 400, 5)


del Page


class Changes(unittest.TestCase):
    """What /ui/state tells of objects that come and go, without a browser."""

    def test_what_goes_is_told(self):
        with companion(SCHEDULER, 40, waiting=3) as (world, running):
            states = []

            def ask():
                """All that was told since the last answer, in one."""
                query = f"?since={states[-1]}" if states else ""
                status, text = running.get(f"/ui/state{query}")
                told = json.loads(text) if status == 200 else None
                if told:
                    states.append(told["state"])
                return told

            def until(seen):
                self.assertTrue(wait_for(lambda: (told := ask()) and seen(told), 60))

            until(lambda told: told["synced"] and len(told["nodes"]) == 40)
            until(lambda told: not told["nodes"] and not told["jobs"])  # it has come to rest
            gone = next(row for row in json.loads(running.get("/ui/state")[1])["nodes"] if row[1] == "r002-n06")
            world.api.remove("/apis/topology.metax-tech.com/v1alpha1/nodegputopologies", "r002-n06")
            until(lambda told: told["nodesGone"] == [gone[0]] and not told["all"] and told["absent"] == ["r002-n06"])
            world.api.remove("/api/v1/namespaces/lab/pods", "notebook-5-0-x0")
            until(lambda told: told["jobsGone"] == ["lab/Job/notebook-5"])
            old = states[0]
            told = json.loads(running.get(f"/ui/state?since={old}")[1])
            self.assertIn("lab/Job/notebook-5", told["jobsGone"])
            self.assertIn(gone[0], told["nodesGone"])
            world.running_pod("lab", "notebook-5", 0, 5, 2, planned=False)
            until(lambda told: [job["key"] for job in told["jobs"]] == ["lab/Job/notebook-5"])
            self.assertEqual(len(json.loads(running.get("/ui/state")[1])["nodes"]), 39)

    def test_a_plan_is_told(self):
        """A job that finds its place at once never waits, and is told nevertheless."""
        with companion(SCHEDULER, 40, waiting=0) as (world, running):
            world.add_waiting(1, group=32)
            told = []

            def happened():
                told[:] = json.loads(running.get("/ui/state")[1])["events"]
                return told
            self.assertTrue(wait_for(happened, 60))
            self.assertEqual([(event["reason"], event["warning"], event["namespace"], event["kind"], event["name"]) for event in told],
                             [("Planned", False, "team-b", "Job", "big-001")])
            self.assertRegex(told[0]["text"], "^1 unit in rack-00[012]$")


if __name__ == "__main__":
    HOST, SCHEDULER = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
