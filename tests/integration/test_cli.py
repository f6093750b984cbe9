#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The command line of gputopo, from outside: test_cli.py BIN_DIR [unittest arguments]"""

import copy
import glob
import itertools
import json
import os
import pty
import random
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from seed import given_seed

BIN = ""
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
SCHEMA = os.path.join(SOURCE, "docs", "node.schema.json")
FORMATS = ["text", "json", "yaml", "dot", "svg"]
TIMEOUT_S = 60


def node(count=8, group=4, bandwidth=None):
    """A node of `count` GPUs in groups of `group` that are joined by direct links, one NUMA node a group."""
    gpus = [
        {
            "index": i,
            "uuid": "GPU-00000000-0000-4000-8000-%012x" % i,
            "bdf": "0000:%02x:00.0" % (0x10 + i),
            "product": "MXC500",
            "numaNode": i // group,
            "healthy": True,
        }
        for i in range(count)
    ]
    links = []
    for b in range(count):
        for a in range(b):
            link = {"a": a, "b": b, "kind": "MX" if a // group == b // group else "SYS"}
            if link["kind"] == "MX" and bandwidth:
                link["bandwidthMBps"] = bandwidth
            links.append(link)
    return {"name": "test", "gpus": gpus, "nics": [], "links": links, "missing": []}


def weight(n, a, b):
    link = next(l for l in n["links"] if {l["a"], l["b"]} == {a, b})
    if "bandwidthMBps" in link:
        return max(1, (link["bandwidthMBps"] + 500) // 1000)
    return {"MX": 64, "PIX": 32, "PXB": 24, "PHB": 16, "NODE": 12, "SYS": 8}[link["kind"]]


def ranked(n, free, k):
    """Every choice with its score and loss, best first: a brute force of its own."""

    def total(gpus):
        return sum(weight(n, a, b) for a, b in itertools.combinations(gpus, 2))

    choices = []
    for gpus in itertools.combinations(sorted(free), k):
        rest = [g for g in free if g not in gpus]
        score = total(gpus)
        loss = total(free) - score - total(rest)
        choices.append((-score, loss, sum(1 << g for g in gpus), list(gpus)))
    return [{"gpus": gpus, "score": -s, "loss": loss} for s, loss, _, gpus in sorted(choices)]


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gputopo-cli-")
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, content):
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content)
        with open(self.path(name), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return self.path(name)

    def sysfs(self, name, vendor, count=4):
        """The root of a machine with `count` GPUs: two below each of the host bridges, and a NIC."""
        devices = self.path(f"{name}/sys/bus/pci/devices")
        os.makedirs(devices)

        def device(bridge, bdf, numa, ids, kind):
            real = self.path(f"{name}/sys/devices/{bridge}/{bdf}")
            os.makedirs(real)
            # Of the configuration space the ids and the class, little-endian.
            config = struct.pack("<HH6xH52x", int(ids[:4], 16), int(ids[4:], 16), int(kind, 16))
            for file, content in {
                "vendor": f"0x{ids[:4]}\n",
                "device": f"0x{ids[4:]}\n",
                "class": f"0x{kind}00\n",
                "numa_node": f"{numa}\n",
                "irq": "0\n",
                "resource": "0x0000000000000000 0x0000000000000000 0x0000000000000000\n" * 7,
                "local_cpulist": f"{numa}\n",
                "current_link_speed": "32.0 GT/s PCIe\n",
                "current_link_width": "16\n",
            }.items():
                with open(os.path.join(real, file), "w", encoding="ascii") as opened:
                    opened.write(content)
            with open(os.path.join(real, "config"), "wb") as opened:
                opened.write(config)
            os.symlink(os.path.relpath(real, devices), os.path.join(devices, bdf))

        for i in range(count):
            numa = i // 2
            device(f"pci0000:{numa}0", "0000:%d%d:00.0" % (numa, i + 1), numa, vendor + "0a01", "0300")
        device("pci0000:10", "0000:1f:00.0", 1, "15b31017", "0207")
        return self.path(name)

    def run_cli(self, *args, program="gputopo", **kwargs):
        kwargs.setdefault("stdout", subprocess.PIPE)
        return subprocess.run(
            [os.path.join(BIN, program), *args],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            **kwargs,
        )

    def done(self, *args, **kwargs):
        result = self.run_cli(*args, **kwargs)
        self.assertEqual((result.returncode, result.stderr), (0, b""), args)
        return result.stdout.decode() if result.stdout is not None else None

    def refused(self, code, *args, says=None, **kwargs):
        """Exit code `code`, nothing on stdout, exactly one clean line on stderr."""
        result = self.run_cli(*args, **kwargs)
        line = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, code, (args, line))
        self.assertFalse(result.stdout, args)
        self.assertTrue(line.startswith("gputopo: "), line)
        self.assertTrue(line.endswith("\n"), line)
        self.assertEqual(line.count("\n"), 1, line)
        self.assertTrue(line[:-1].isprintable(), line)
        if says:
            self.assertRegex(line, says)
        return line


class Program(Case):
    def test_version(self):
        for option in ["--version", "-V"]:
            self.assertRegex(self.done(option), r"^gputopo \d+\.\d+\.\d+ \(\S+\)\n$")

    def test_help(self):
        text = self.done("--help")
        for verb in ["show", "record", "loss"]:
            self.assertIn(verb, text)
            self.assertIn("Usage: gputopo " + verb, self.done(verb, "--help"))
            self.assertIn("Usage: gputopo " + verb, self.done(verb, "--help", "--no-such-option"))

    def test_what_people_type_first(self):
        self.assertEqual(self.done("-h"), self.done("--help"))
        self.assertEqual(self.done("help"), self.done("--help"))
        self.assertEqual(self.done("version"), self.done("--version"))
        for verb in re.findall(r"^  ([a-z-]+)  +\S", self.done("--help"), re.M):
            self.assertEqual(self.done(verb, "--version"), self.done("--version"), verb)
            self.assertEqual(self.done(verb, "version"), self.done("--version"), verb)
            self.assertEqual(self.done(verb, "help"), self.done(verb, "--help"), verb)
        self.assertEqual(self.done("--version", program="gputopo-simulate"), self.done("--version"))
        self.assertEqual(self.done("version", program="gputopo-simulate"), self.done("--version"))
        for verb in ("show", "plan", "cluster", "simulate", "explain"):
            self.assertEqual(self.done("help", verb), self.done(verb, "--help"))
            self.assertEqual(self.done(verb, "-h"), self.done(verb, "--help"))
        self.assertIn("help: ", self.refused(1, "replay", "--", "help"))  # a file

    def test_every_verb_has_an_example(self):
        """That is understood: --help is the last option that is read."""
        for program in filter(lambda name: os.path.exists(os.path.join(BIN, name)), ("gputopo", "gputopo-agent", "gputopo-scheduler", "gputopo-probe")):
            example = re.search(rf"^Example: {program} (.*)", self.done("--help", program=program), re.M)
            self.assertTrue(example, program)
            self.done(*shlex.split(example[1].partition(" > ")[0]), "--help", program=program)
        for verb in re.findall(r"^  ([a-z-]+)  +\S", self.done("--help"), re.M):
            example = re.search(r"^Example: (.*)\Z", self.done(verb, "--help"), re.M | re.S)
            self.assertTrue(example, verb)
            words = shlex.split(example[1].replace("\n", " ").rpartition(" | ")[2].partition(" > ")[0])
            self.assertEqual(words[:2], ["gputopo", verb])
            self.assertIn(f"Usage: gputopo {verb}", self.done(*words[1:], "--help"))

    def test_did_you_mean(self):
        self.refused(2, "shwo", says="there is no verb 'shwo', did you mean show?")
        self.refused(2, "help", "plam", says="did you mean plan?")
        self.refused(2, "plan", "--gorup-size", "8", says="did you mean --group-size?")
        self.refused(2, "plan", "--gorup-size=8", says="did you mean --group-size?")
        for word in ("zzzzzz", "fre"):  # which is no try
            self.refused(2, word, says="expected show, record")
        cluster = self.write("cluster.json", {"nodes": [{"name": "n1", "gpus": 8, "fre": [0]}]})
        self.refused(1, "plan", "--cluster", cluster, "--pods", "1", "-k", "1",
                     says='line 1: nodes\\[0\\]: there is no key "fre", did you mean "free"?')
        for key, cluster in (("tier", {"supernodes": [{"name": "s", "teir": 2}], "nodes": []}), ("gpus", {"nodes": [{"name": "n", "gpsu": 8}]})):
            self.refused(1, "plan", "--cluster", self.write("cluster.json", cluster), "--pods", "1", "-k", "1", says=f'did you mean "{key}"')
        typo = node()
        typo["gpus"][1]["cpuSt"] = "0-3"
        self.refused(1, "show", "--from", self.write("node.json", typo), says='gpus\\[1\\]: there is no key "cpuSt", did you mean "cpuSet"?')
        cluster = self.write("cluster.json", {"nodes": [{"name": "n1", "gpus": 8, "free": [0], "fre": 1, "note": "x"}], "mine": 1})
        self.done("plan", "--cluster", cluster, "--pods", "1", "-k", "1")

    def test_an_exit_code_for_not_placed(self):
        cluster = self.write("cluster.json", {"nodes": [{"name": "n1", "gpus": 8}]})
        for pods, asked, code in ((1, True, 0), (9, False, 0), (9, True, 1)):
            run = self.run_cli("plan", "--cluster", cluster, "--pods", str(pods), "-k", "8", *(["--exit-code"] if asked else []))
            self.assertEqual((run.returncode, run.stderr), (code, b""), (pods, asked))
            self.assertIn(b"n1" if pods == 1 else b"not placed", run.stdout)

    def test_kubectl_plugin(self):
        self.assertIn("Usage: kubectl gputopo loss", self.done("loss", "--help", program="kubectl-gputopo"))
        self.assertRegex(self.done("--version", program="kubectl-gputopo"), "^gputopo ")
        self.refused(2, "--nonsense", program="kubectl-gputopo")

    def test_wrong_usage(self):
        good = self.write("node.json", node())
        for says, args in [
            ("expected a verb", []),
            ("'shw'", ["shw"]),
            ("--nonsense", ["--nonsense"]),
            ("'--r' is ambiguous", ["check-node", "--r"]),
            ("--nonsense", ["--nonsense", "show"]),
            ("'-z'", ["-z"]),
            ("show: .*--nonsense", ["show", "--nonsense"]),
            ("show: .*'-z'", ["show", "-z"]),
            ("show: .*'extra'", ["show", "extra"]),
            ("show: .*'extra'", ["show", "--", "extra"]),
            ("show: .*requires an argument", ["show", "--from"]),
            ("show: .*requires an argument", ["show", "-o"]),
            ("show: .*allow an argument", ["show", "--help=yes"]),
            ("show: -o: expected .* is 'xml'", ["show", "-o", "xml"]),
            ("show: -o: expected .* is ''", ["show", "-o", ""]),
            ("show: --vendor: .*'zzzz'", ["show", "--vendor", "zzzz"]),
            ("show: --vendor", ["show", "--vendor", "0"]),
            ("show: --vendor", ["show", "--vendor", ""]),
            ("show: --vendor", ["show", "--vendor", "12345"]),
            ("show: --vendor", ["show", "--vendor", "-1"]),
            ("show: --root: not together", ["show", "--from", good, "--root", "/"]),
            ("show: --probe: not together", ["show", "--from", good, "--probe", "/bin/true"]),
            ("record: -o: expected", ["record"]),
            ("record: -o: expected", ["record", "-o", ""]),
            ("record: .*--from", ["record", "--from", good, "-o", self.path("out")]),
            ("record: .*'extra'", ["record", "-o", self.path("out"), "extra"]),
            ("loss: -k: expected", ["loss", "--from", good]),
            ("loss: -o: expected text, json or yaml", ["loss", "--from", good, "-k", "1", "-o", "svg"]),
            ("'b c'", ["b c"]),
        ]:
            with self.subTest(args=args):
                self.refused(2, *args, says=says)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_hostile_arguments_stay_one_line(self):
        nasty = "x\nsecond\x1b[31m line\r"
        for args in [
            [nasty],
            ["--" + nasty],
            ["-" + nasty],
            ["show", "--" + nasty],
            ["show", "-\n"],
            ["show", nasty],
            ["show", "-o", nasty],
            ["loss", "-k", nasty],
            ["show", "--vendor", nasty],
            ["show", "-o", "y" * 100000],
            ["y" * 100000],
        ]:
            with self.subTest(args=args[-1][:20]):
                self.assertLess(len(self.refused(2, *args)), 1200)
        self.refused(1, "show", "--from", self.path(nasty))


class Output(Case):
    def test_full_device_is_an_error(self):
        good = self.write("node.json", node())
        for args in [
            ["--help"],
            ["--version"],
            ["show", "--help"],
            ["show", "--from", good],
            ["loss", "--from", good, "-k", "2"],
            ["record", "--probe", "none", "-o", "-"],
            ["record", "--probe", "none", "-o", "/dev/full"],
        ]:
            with self.subTest(args=args), open("/dev/full", "wb") as full:
                self.refused(1, *args, stdout=full, says="No space left on device")

    def test_closed_stdout_is_an_error(self):
        good = self.write("node.json", node())
        for args in [["--version"], ["show", "--from", good]]:
            self.refused(1, *args, stdout=None, preexec_fn=lambda: os.close(1), says="Bad file descriptor")

    def test_gone_reader_is_quiet(self):
        good = self.write("node.json", node())
        reading, writing = os.pipe()
        os.close(reading)
        try:
            result = self.run_cli("show", "--from", good, "-o", "svg", stdout=writing)
        finally:
            os.close(writing)
        self.assertEqual((result.returncode, result.stderr), (1, b""))


class Show(Case):
    def test_matrix(self):
        text = self.done("show", "--from", self.write("node.json", node()))
        rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
        for i in range(8):
            row = next(rows[key] for key in rows if re.fullmatch(f"GPU{i}", key))
            expected = ["X" if i == j else "MX" if i // 4 == j // 4 else "SYS" for j in range(8)]
            self.assertEqual(row[1:9], expected)
        self.assertEqual(text, self.done("show", "--from", self.path("node.json"), "-o", "matrix"))

    def check_round_trip(self, source):
        first = self.done("show", "--from", source, "-o", "json")
        copy_of_it = self.write("copy.json", first)
        for output in FORMATS:
            again = self.done("show", "--from", copy_of_it, "-o", output)
            if output == "text" and not json.loads(first)["gpus"]:
                continue  # names its file
            self.assertEqual(self.done("show", "--from", source, "-o", output), again, output)
        self.assertEqual(first, self.done("show", "--from", copy_of_it, "-o", "json"))
        return json.loads(first)

    def test_round_trip(self):
        for count, group in [(0, 1), (1, 1), (2, 2), (4, 4), (8, 4), (8, 8), (16, 8), (64, 8)]:
            with self.subTest(count=count):
                self.check_round_trip(self.write("node.json", node(count, group)))

    def test_json_contract(self):
        shown = self.check_round_trip(self.write("node.json", node(bandwidth=49000)))
        for i, gpu in enumerate(shown["gpus"]):
            self.assertEqual(gpu["index"], i)
            for key in ["uuid", "bdf", "product", "numaNode", "healthy"]:
                self.assertEqual(gpu[key], node()["gpus"][i][key])
        self.assertEqual(len(shown["links"]), 28)
        for link in shown["links"]:
            self.assertLess(link["a"], link["b"])
            self.assertEqual(link["kind"], "MX" if link["a"] // 4 == link["b"] // 4 else "SYS")
            self.assertEqual(link["weight"], 49 if link["kind"] == "MX" else 8)
        for key in ["nics", "missing"]:
            self.assertIsInstance(shown[key], list)

    def test_json_is_valid_by_the_schema(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        with open(SCHEMA, encoding="utf-8") as file:
            schema = json.load(file)
        validator = jsonschema.validators.validator_for(schema)(schema)
        for n in [node(), node(0), node(1), node(64, 8), node(4, 2, 49000)]:
            validator.validate(json.loads(self.done("show", "--from", self.write("n.json", n), "-o", "json")))
        validator.validate(json.loads(self.done("show", "--probe", "none", "-o", "json")))

    def test_yaml_equals_json(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("python3-yaml is not installed")
        source = self.write("node.json", node())
        self.assertEqual(
            yaml.safe_load(self.done("show", "--from", source, "-o", "yaml")),
            json.loads(self.done("show", "--from", source, "-o", "json")),
        )

    def test_svg_is_xml_without_scripts(self):
        import xml.etree.ElementTree as tree

        text = self.done("show", "--from", self.write("node.json", node()), "-o", "svg")
        root = tree.fromstring(text)
        self.assertTrue(root.tag.endswith("svg"))
        self.assertFalse([e for e in root.iter() if e.tag.endswith("script")])

    def test_without_gpus(self):
        os.makedirs(self.path("empty/sys/bus/pci/devices"))
        sources = [
            ["--root", self.path("empty"), "--probe", "none"],
            ["--from", self.write("none.json", node(0))],
        ]
        for source in sources:
            with self.subTest(source=source):
                text = self.done("show", *source)
                self.assertRegex(text, r"^no GPUs .*\n$")
                self.assertEqual(text.count("\n"), 1)
                self.assertEqual(json.loads(self.done("show", *source, "-o", "json"))["gpus"], [])
                for output in FORMATS:
                    self.done("show", *source, "-o", output)

    def test_this_machine(self):
        # Whatever it is: it works without a probe and with the one beside the program.
        shown = json.loads(self.done("show", "--probe", "none", "-o", "json"))
        self.assertIn("vendor library", [missing["what"] for missing in shown["missing"]])
        self.done("show")

    def test_probe_that_is_not_there(self):
        self.refused(1, "show", "--probe", self.path("absent"), says="show: --probe: .*No such file")
        self.refused(1, "show", "--probe", self.dir, says="neither a program nor a socket")
        self.refused(1, "show", "--probe", self.write("plain", "x"), says="Permission denied")
        self.refused(1, "show", "--root", self.path("absent"), says="show: --root: .*No such file")
        self.refused(1, "show", "--root", self.path("plain"), says="Not a directory")


class Recordings(Case):
    def test_record_and_replay(self):
        file = self.path("recording.json")
        self.assertEqual(self.done("record", "--probe", "none", "-o", file), "")
        with open(file, encoding="utf-8") as opened:
            recording = json.load(opened)
        self.assertEqual(recording["gputopoRecording"], 1)
        live = json.loads(self.done("show", "--probe", "none", "-o", "json"))
        replayed = json.loads(self.done("show", "--from", file, "-o", "json"))
        for key in ["gpus", "links", "nics"]:
            self.assertEqual(live[key], replayed[key])
        self.assertEqual(self.done("record", "--probe", "none", "-o", "-")[:1], "{")
        self.assertEqual(sorted(os.listdir(self.dir)), ["recording.json"])

    def test_record_and_replay_another_root(self):
        for vendor, option in [("9999", []), ("10de", ["--vendor", "10de"]), ("1bcf", ["--vendor", "0x1BCF"])]:
            with self.subTest(vendor=vendor):
                root = self.sysfs("root" + vendor, vendor)
                source = ["--root", root, "--probe", "none", *option]
                file = self.path(vendor + ".json")
                self.done("record", *source, "-o", file)
                for output in FORMATS:
                    # The recording knows for which vendor it was made.
                    shown = self.done("show", *source, "-o", output)
                    self.assertEqual(self.done("show", "--from", file, "-o", output), shown)
                    self.assertEqual(self.done("show", "--from", file, *option, "-o", output), shown)
                n = json.loads(self.done("show", *source, "-o", "json"))
                self.assertEqual([gpu["numaNode"] for gpu in n["gpus"]], [0, 0, 1, 1])
                self.assertEqual(len(n["nics"]), 1)
                kinds = {(l["a"], l["b"]): l["kind"] for l in n["links"]}
                self.assertEqual((kinds[0, 1], kinds[1, 2], kinds[2, 3]), ("PHB", "SYS", "PHB"))
                with open(file, encoding="utf-8") as opened:
                    self.assertEqual(self.done("record", *source, "-o", "-"), opened.read())

    def test_mode_follows_the_umask(self):
        file = self.path("recording.json")
        self.done("record", "--probe", "none", "-o", file, preexec_fn=lambda: os.umask(0o027))
        self.assertEqual(os.stat(file).st_mode & 0o777, 0o640)

    def test_failure_leaves_nothing(self):
        file = self.write("kept.json", "old")
        self.refused(1, "record", "-o", file, "--root", self.path("absent"))
        self.refused(1, "record", "-o", file, "--probe", self.path("absent"))
        self.refused(2, "record", "-o", file, "--vendor", "x")
        self.refused(1, "record", "--probe", "none", "-o", self.path("absent/x"), says="absent/x.*No such file")
        self.refused(1, "record", "--probe", "none", "-o", self.dir)
        with open(file, encoding="utf-8") as opened:
            self.assertEqual(opened.read(), "old")
        self.assertEqual(os.listdir(self.dir), ["kept.json"])

    def test_recorded_machines(self):
        machines = os.path.join(SOURCE, "tests", "machines")
        files = sorted(f for f in os.listdir(machines) if f.endswith(".json")) if os.path.isdir(machines) else []
        if not files:
            self.skipTest("no recorded machines")
        for name in files:
            file = os.path.join(machines, name)
            with self.subTest(machine=name):
                shown = self.done("show", "--from", file, "-o", "json")
                self.assertEqual(
                    self.done("show", "--from", self.write("copy.json", shown), "-o", "json"), shown
                )
                n = json.loads(shown)
                if n["gpus"] and any(gpu["healthy"] for gpu in n["gpus"]):
                    answer = json.loads(self.done("loss", "--from", file, "-k", "1", "-o", "json"))
                    self.assertEqual((len(answer["gpus"]), answer["score"]), (1, 0))


class BadInput(Case):
    def broken(self, **changes):
        n = node()
        for key, value in changes.items():
            n[key] = value(copy.deepcopy(n[key])) if callable(value) else value
        return n

    def test_unreadable_nodes(self):
        good = json.dumps(node())
        second = node()
        second["gpus"][1]["uuid"] = second["gpus"][0]["uuid"]
        same_bdf = node()
        same_bdf["gpus"][1]["bdf"] = same_bdf["gpus"][0]["bdf"]
        asymmetric = node()
        asymmetric["links"].append({"a": 1, "b": 0, "kind": "SYS"})
        contradiction = node()
        contradiction["links"].append({"a": 0, "b": 1, "kind": "SYS"})
        wild_link = node()
        wild_link["links"][0]["b"] = 99
        many = node(8)
        many["gpus"] = [
            {**many["gpus"][0], "index": i, "uuid": f"GPU-{i}", "bdf": "0000:%02x:00.0" % i} for i in range(65)
        ]
        many["links"] = []
        hostile = {
            "empty": b"",
            "spaces": b"  \n",
            "zeros": b"\0" * 1000,
            "random": bytes(range(256)) * 8,
            "truncated": good[: len(good) // 2],
            "no last brace": good[:-1],
            "tail": good + "x",
            "number": "1",
            "list": "[]",
            "null": "null",
            "deep": "[" * 100000,
            "deep objects": '{"gpus":' * 50000,
            "empty recording": {"gputopoRecording": 1},
            "later recording": {"gputopoRecording": 99, "node": node()},
            "node of a wrong type": {"gputopoRecording": 1, "node": 7},
            "raw of a wrong type": {"gputopoRecording": 1, "node": node(), "raw": {"hwloc": "<broken"}},
            "gpus of a wrong type": self.broken(gpus="eight"),
            "gpu of a wrong type": self.broken(gpus=[1]),
            "no bdf": self.broken(gpus=lambda g: [{"index": 0}]),
            "bad bdf": self.broken(gpus=lambda g: [{**g[0], "bdf": "here"}] + g[1:]),
            "long uuid": self.broken(gpus=lambda g: [{**g[0], "uuid": "G" * 5000}] + g[1:]),
            "links of a wrong type": self.broken(links={"a": 1}),
            "kind that is none": self.broken(links=lambda l: [{**l[0], "kind": "WIFI"}] + l[1:]),
            "negative bandwidth": self.broken(links=lambda l: [{**l[0], "bandwidthMBps": -1}] + l[1:]),
            "huge bandwidth": self.broken(links=lambda l: [{**l[0], "bandwidthMBps": 1e300}] + l[1:]),
            "same uuid": second,
            "same bdf": same_bdf,
            "65 GPUs": many,
            "link to nowhere": wild_link,
            "link to itself": self.broken(links=lambda l: [{**l[0], "b": l[0]["a"]}] + l[1:]),
            "asymmetric": asymmetric,
            "two links of one pair": contradiction,
            "no xml": "<html><body>",
            "truncated xml": '<?xml version="1.0"?>\n<topology version="2.0"><object type="Machine">',
            "entities": '<?xml version="1.0"?><!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><t>&b;</t>',
        }
        for name, content in hostile.items():
            file = self.write("bad.json", content)
            with self.subTest(name):
                self.refused(1, "show", "--from", file, says="show: .*bad.json")
                self.refused(1, "show", "--from", file, "-o", "json")
                self.refused(1, "loss", "--from", file, "-k", "1")

    def test_unreadable_files(self):
        self.refused(1, "show", "--from", self.path("absent.json"), says="absent.json: No such file")
        self.refused(1, "show", "--from", self.write("empty.txt", " \n"), says="empty.txt: is empty: expected a recording")
        self.refused(1, "show", "--from", "", says="show: ")
        with open(self.path("huge.json"), "wb") as file:
            file.truncate(100 << 20)
        self.refused(1, "show", "--from", self.path("huge.json"))
        os.mkfifo(self.path("fifo"))
        self.refused(1, "show", "--from", self.path("fifo"))
        os.symlink("loop", self.path("loop"))
        self.refused(1, "show", "--from", self.path("loop"))
        if os.getuid() != 0:
            os.chmod(self.write("secret.json", node()), 0)
            self.refused(1, "show", "--from", self.path("secret.json"), says="Permission denied")

    def test_every_truncation(self):
        good = json.dumps(node(4, 2))
        for length in range(0, len(good), 37):
            self.refused(1, "show", "--from", self.write("cut.json", good[:length]))

    def test_mutations(self):
        dice = random.Random(given_seed())
        good = json.dumps({"gputopoRecording": 1, "node": node(4, 2)})
        tokens = ["null", "-1", "1e999", "99999999999", '""', "[]", "{}", "true", "}", "]", ",", '"', "\\u0000"]
        for _ in range(150):
            text = good
            for _ in range(dice.randrange(1, 4)):
                at = dice.randrange(len(text))
                text = text[:at] + dice.choice(tokens) + text[at + dice.randrange(8) :]
            with self.subTest(text=text):
                result = self.run_cli("show", "--from", self.write("mutated.json", text))
                self.assertIn(result.returncode, [0, 1], result.stderr)
                self.assertEqual(result.stderr.count(b"\n"), result.returncode)
                self.assertEqual(bool(result.stdout), result.returncode == 0)


class Loss(Case):
    def answer(self, n, k, free=None):
        args = ["--free", ",".join(map(str, free))] if free is not None else []
        return json.loads(
            self.done("loss", "--from", self.write("node.json", n), "-k", str(k), "-o", "json", *args)
        )

    def test_against_brute_force(self):
        irregular = node(6, 3)
        irregular["links"][3].update(kind="MX", bandwidthMBps=99000)
        irregular["links"][0].update(bandwidthMBps=21000)
        for n in [node(), node(8, 8), node(8, 2), node(4, 4), irregular]:
            count = len(n["gpus"])
            for free in [list(range(count)), list(range(1, count)), list(range(0, count, 2))]:
                for k in range(1, len(free) + 1):
                    order = ranked(n, free, k)
                    expected = {"k": k, "free": free, **order[0], "exact": True}
                    expected["runnerUp"] = order[1] if len(order) > 1 else None
                    with self.subTest(free=free, k=k):
                        self.assertEqual(self.answer(n, k, free), expected)

    def test_default_free_are_the_healthy(self):
        n = node()
        n["gpus"][2].update(healthy=False)
        answer = self.answer(n, 4)
        self.assertEqual(answer["free"], [0, 1, 3, 4, 5, 6, 7])
        self.assertEqual(answer["gpus"], [4, 5, 6, 7])

    def test_free_lists(self):
        n = node()
        file = self.write("node.json", n)
        uuid, bdf = n["gpus"][6]["uuid"], n["gpus"][7]["bdf"]
        for text, free in [
            ("0,1,5-7", [0, 1, 5, 6, 7]),
            ("7,0", [0, 7]),
            ("3,3,2-3", [2, 3]),
            (f"0,{uuid}", [0, 6]),
            (f"{uuid.upper()},{bdf}", [6, 7]),
            ("0-7", list(range(8))),
        ]:
            with self.subTest(text):
                answer = json.loads(self.done("loss", "--from", file, "-k", "2", "--free", text, "-o", "json"))
                self.assertEqual(answer["free"], free)
        for gpu in n["gpus"]:
            del gpu["uuid"]
        file = self.write("node.json", n)
        text = self.done("loss", "--from", file, "-k", "1", "--free", "PCI-" + bdf)
        self.assertIn("PCI-" + bdf, text)

    def test_bad_free_lists(self):
        file = self.write("node.json", node())
        for text in ["8", "0,8", "0-8", "7-6", "x", ",", "0,", ",0", "0,,1", "0 1", "-1", "0-", "1-2-3", "GPU-1",
                     "99999999999999999999", "0-18446744073709551615", "PCI-0000:ff:00.0", "z" * 5000, "0\n1"]:
            with self.subTest(text):
                self.refused(2, "loss", "--from", file, "-k", "1", "--free=" + text, says="loss: --free: ")

    def test_bad_k(self):
        file = self.write("node.json", node())
        for k in ["0", "-1", "x", "", "1x", "1.5", "+1", " 1", "0x2", "99999999999999999999"]:
            with self.subTest(k):
                self.refused(2, "loss", "--from", file, "-k", k, says="loss: -k: expected ")
        self.refused(1, "loss", "--from", file, "-k", "9", says=r"loss: 9 GPUs wanted, 8 are free \(0-7\)")
        self.refused(1, "loss", "--from", file, "-k", "65", says="65 GPUs wanted, 8 are free")
        self.refused(1, "loss", "--from", file, "-k", "4", "--free", "0,5", says=r"4 GPUs wanted, 2 are free \(0,5\)")
        self.refused(1, "loss", "--from", file, "-k", "2", "--free", "5", says=r"2 GPUs wanted, 1 is free \(5\)")
        self.refused(1, "loss", "--from", file, "-k", "1", "--free", "", says="1 GPU wanted, none is free")

    def test_without_gpus(self):
        file = self.write("none.json", node(0))
        self.refused(1, "loss", "--from", file, "-k", "1", says="loss: no GPUs in .*none.json")
        self.refused(1, "loss", "--from", file, "-k", "1", "--free", "0", "-o", "json")

    def test_text(self):
        n = node()
        file = self.write("node.json", n)
        text = self.done("loss", "--from", file, "-k", "2", "--free", "0-3,4,5,6")
        self.assertIn("score      64 GB/s", text)
        self.assertIn(n["gpus"][4]["uuid"], text)
        order = ranked(n, range(7), 2)
        self.assertIn("loss       %d GB/s" % order[0]["loss"], text)
        whole = self.done("loss", "--from", file, "-k", "8")
        self.assertIn("runner-up  none", whole)
        self.assertIn("there is no other choice", whole)

    def test_why(self):
        file = self.write("node.json", node())
        why = lambda *args: self.done("loss", "--from", file, *args).splitlines()[-1]
        # Four GPUs of one mesh, or of the other: equal in all but the mask.
        self.assertIn("of equals the lower mask is taken (0xf before 0xf0)", why("-k", "4"))
        # One GPU: score 0 everywhere; GPU 4 stands alone, so it cuts least.
        self.assertRegex(why("-k", "1", "--free", "0,1,4"), r"same score as GPU 0, but cuts 56 GB/s less")
        self.assertRegex(why("-k", "2", "--free", "0,1,4"), r"carry 56 GB/s more than among GPUs 0,4")

    def test_documented_examples(self):
        docs = os.path.join(SOURCE, "docs", "reference")
        with open(os.path.join(docs, "loss.md"), encoding="utf-8") as file:
            rows = re.findall(r"(\d+)/(\d+)[,.]", file.read())
        self.assertEqual(len(rows), 8)
        file = self.write("node.json", node())
        for k, (score, loss) in enumerate(rows, 1):
            text = self.done("loss", "--from", file, "-k", str(k))
            self.assertIn(f"\nscore      {score} GB/s ", text)
            self.assertIn(f"\nloss       {loss} GB/s ", text)

    def test_many_gpus(self):
        answer = self.answer(node(64, 8), 8)
        self.assertEqual(len(answer["gpus"]), 8)
        self.assertEqual(answer["score"], 28 * 64)
        self.assertIn(answer["exact"], [True, False])


class Extras(Case):
    MANUAL = os.path.join(SOURCE, "cli", "gputopo.1")
    COMPLETION = os.path.join(SOURCE, "cli", "completion", "gputopo.bash")

    def test_manual_renders_without_warnings(self):
        if not shutil.which("man"):
            self.skipTest("man is not installed")
        result = subprocess.run(["man", "--warnings", "-l", self.MANUAL], capture_output=True, timeout=TIMEOUT_S)
        self.assertEqual((result.returncode, result.stderr), (0, b""))

    def test_every_option_is_in_manual_and_completion(self):
        with open(self.MANUAL, encoding="utf-8") as file:
            manual = file.read().replace("\\-", "-")
        for verb in self.verbs():
            options = self.options(verb)
            self.assertIn("--help", options)
            self.assertEqual(set(self.complete(verb, "--")), options, verb)
            uses = "".join(re.findall(rf"^\.SY gputopo\n\.B {verb}\n(.*?)^\.YS", manual, re.M | re.S))
            for option in set() if "OPTION..." in uses else options - {"--help"}:
                short = re.search(rf"^ +(-[a-z]), +{option}\b", self.done(verb, "--help"), re.M)
                self.assertRegex(uses, rf"{option}\b" + (rf"|{short[1]}\b" if short else ""), verb)
        known = set().union(*map(self.options, self.verbs()), {"--version"})
        self.assertEqual(set(re.findall(r"--[a-z-]+[a-z]", re.sub(r"\\f.|\\~", " ", manual))), known)

    def verbs(self):
        return re.findall(r"^  ([a-z-]+)  +\S", self.done("--help"), re.M)

    def options(self, verb):
        return set(re.findall(r"^ +(?:-[a-z], +)?(--[a-z-]+)", self.done(verb, "--help"), re.M))

    def test_every_command_of_every_page_is_understood(self):
        """Of the programs of this line: the verb, its options and their values. --help is the last option that is read."""
        verbs, count = self.verbs(), 0
        for path in glob.glob(f"{SOURCE}/README*.md") + glob.glob(f"{SOURCE}/docs/**/*.md", recursive=True):
            with open(path, encoding="utf-8") as file:
                page = file.read().replace("\\\n", " ")
            blocks = re.findall(r"^```\w*\n(.*?)^```", page, re.M | re.S) + re.findall(r"^    \S.*", page, re.M) + re.findall(r"(?<!`)`([^`\n]+)`(?!`)", page)
            for line in "\n".join(blocks).splitlines():
                found = re.search(rf"(?:^|[\s$(])gputopo ({'|'.join(verbs)})(?= |$)((?:'[^'\n]*'|\"[^\"\n]*\"|[^|<>#;&)\n'\"])*)", line)
                if not found or "[" in line or re.search(r"\b[A-Z]{2,}\b|\b[A-Z]\b|\.\.\.|\$", re.sub("'[^']*'|\"[^\"]*\"", "", found[2])):
                    continue  # usage, with words that stand for others
                count += 1
                run = self.run_cli(found[1], *shlex.split(found[2]), "--help", "--help")  # once as the value of a last option
                self.assertEqual((run.returncode, run.stderr), (0, b""), f"{path}: {line}")
        self.assertGreater(count, 60)

    VALUES = {
        "cluster --nodes": ["all", "free", "wrong", "none"],
        "isolate --reason x --grade s": ["slow", "suspect"],
        "plan --close": ["room", "prefer"],
        "plan --slow-gpus": ["avoid", "never", "any"],
        "plan --job-topology": ["required=leaf", "required=spine", "preferred", "none"],
        "simulate --close": ["room", "prefer"],
        "simulate --policy gputopo,gputopo": ["gputopo,gputopo", "gputopo,gputopo-static"],
        "check-node --fail": ["all"],
        "replay -o": ["text", "json", "yaml"],
        "show -o": FORMATS,
        "plan --pods": [],
    }

    def test_completion_of_values(self):
        for line, values in self.VALUES.items():
            words = line.split() if len(line.split()) % 2 else [*line.split(), ""]
            self.assertEqual(self.complete(*words), values, line)

    def test_completion_of_fish(self):
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")
        script = "source {}; for line in $argv; complete -C $line; echo =; end".format(self.COMPLETION.replace(".bash", ".fish"))
        values = {line if len(line.split()) % 2 else f"{line} ": values for line, values in self.VALUES.items()}
        lines = ["gputopo "] + [f"gputopo {verb} --" for verb in self.verbs()] + [f"gputopo {line}" for line in values]
        done = subprocess.run(["fish", "--no-config", "-c", script, *lines], capture_output=True, text=True, timeout=TIMEOUT_S,
                              env={**os.environ, "HOME": self.dir, "PATH": f"{BIN}:{os.environ['PATH']}"}, check=True)
        answers = [{line.split("\t")[0] for line in part.splitlines() if line} for part in done.stdout.split("=\n")]
        self.assertEqual(answers[0], set(self.verbs()))
        for verb, answer in zip(self.verbs(), answers[1:]):
            self.assertEqual(answer, self.options(verb), verb)
        self.assertEqual(answers[len(self.verbs()) + 1:-1], [set(words) for words in values.values()])

    def zsh(self, **environment):
        """Returns what types keys and reads what they bring, until a pattern."""
        child, terminal = pty.fork()
        if child == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb", "HOME": self.dir, **environment})
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.close, terminal)

        def said(keys, until):
            os.write(terminal, keys.encode())
            text, end = "", time.monotonic() + TIMEOUT_S
            while not re.search(until, text) and time.monotonic() < end:
                if select.select([terminal], [], [], 1)[0]:
                    text += os.read(terminal, 65536).decode(errors="replace").replace("\r", "")
            return text
        said(f"stty cols 200 rows 200; PS1='$ '; fpath=({os.path.dirname(self.COMPLETION)} $fpath); autoload -U compinit; compinit -u -D; "
             "zstyle ':completion:*' insert-tab false; echo DO''NE\n", r"\nDONE")
        return said

    def test_completion_of_zsh(self):
        """What is listed on a terminal after two tabs."""
        if not shutil.which("zsh"):
            self.skipTest("zsh is not installed")
        said = self.zsh(PATH=f"{BIN}:{os.environ['PATH']}")
        for line, word in (("isolate --grade b", "ad"), ("plan --job-topology=required=l", "eaf"), ("simulate --policy gputopo,gpu-", "aware"), ("withdraw -o y", "aml")):
            self.assertIn(f"{line}{word} ", said(f"\x15gputopo {line}\t", re.escape(f"{line}{word} ")))

        def listed(line, pattern):
            """The first tab lists; the second puts the first of the list into the line."""
            return set(re.findall(pattern, said(f"\x15{line}\t\t", rf"\n\$ {line}\x07?[a-z]"), re.M))
        self.assertEqual(listed("gputopo ", r"^([a-z-]+) +-- "), set(self.verbs()))
        for verb in self.verbs():
            self.assertEqual(listed(f"gputopo {verb} --", r"^(--[a-z-]+)"), self.options(verb), verb)

    def test_other_shells_ask_for_names_with_the_options_of_the_line(self):
        program = self.write("gputopo", f"#!/bin/sh\necho \"$*\" >>{self.dir}/asked\necho name-one\n")
        os.chmod(program, 0o755)
        path = f"{self.dir}:{os.environ['PATH']}"
        script = self.COMPLETION.replace(".bash", ".fish")
        shells = []
        if shutil.which("fish"):
            shells.append(lambda line: subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], stdout=subprocess.PIPE, text=True,
                                                      timeout=TIMEOUT_S, env={**os.environ, "HOME": self.dir, "PATH": path}, check=True).stdout)
        if shutil.which("zsh"):
            said = self.zsh(PATH=path)
            shells.append(lambda line: said(f"\x15{line}\t", "name-one"))
        if not shells:
            self.skipTest("neither fish nor zsh is installed")
        for shell in shells:
            with open(self.path("asked"), "w", encoding="utf-8"):
                pass
            for line in ("isolate --kubeconfig ~/f --context c na", "drain --kubeconfig=f na", "explain -n team na", "show --context c --node na"):
                self.assertIn("name-one", shell(f"gputopo {line}"))
            with open(self.path("asked"), encoding="utf-8") as file:
                self.assertEqual(file.read().splitlines(), [f"cluster -o name --kubeconfig {self.dir}/f --context c", "supernodes -o name --kubeconfig=f",
                                                            "explain -o name -n team", "cluster -o name --context c"])

    def complete(self, *words, **environment):
        script = """
            source "$1"; shift
            COMP_WORDS=(gputopo "$@"); COMP_CWORD=$#; COMPREPLY=()
            _gputopo gputopo "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            [[ ${#COMPREPLY[@]} == 0 ]] || printf '%s\\n' "${COMPREPLY[@]}"
        """
        result = subprocess.run(
            ["bash", "--norc", "-c", script, "bash", self.COMPLETION, *words],
            capture_output=True,
            text=True,
            cwd=self.dir,
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **environment},
            timeout=TIMEOUT_S,
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.splitlines()

    def test_completion(self):
        self.assertEqual(subprocess.run(["bash", "-n", self.COMPLETION], timeout=TIMEOUT_S).returncode, 0)
        self.write("node.json", "{}")
        verbs = self.verbs()
        self.assertEqual(verbs[:3], ["show", "record", "loss"])
        self.assertEqual(self.complete(""), verbs + ["--help", "--version"])
        self.assertEqual(self.complete("re"), ["record", "release", "replay"])
        self.assertEqual(self.complete("show", "-o", ""), FORMATS)
        self.assertEqual(self.complete("show", "-o", "s"), ["svg"])
        self.assertEqual(self.complete("loss", "-o", ""), ["text", "json", "yaml"])
        self.assertEqual(self.complete("show", "--from", "no"), ["node.json"])
        self.assertEqual(self.complete("show", "--from", "=", "no"), ["node.json"])
        self.assertEqual(self.complete("show", "--from", "="), ["node.json"])
        self.assertEqual(self.complete("record", "-o", "no"), ["node.json"])
        self.assertEqual(self.complete("show", "--probe", "no"), ["node.json", "none"])
        self.assertEqual(self.complete("loss", "--from", "node.json", "--fre"), ["--free"])

    def test_completion_of_names(self):
        """Of a cluster that may be hostile, or silent."""
        program = self.write("gputopo", "#!/bin/sh\necho \"$*\" >>asked\necho 'n1\nn2\nn$(touch ran)'\n! [ \"$7\" = silent ] || exec sleep 600\n")
        os.chmod(program, 0o755)
        path = f"{self.dir}:{os.environ['PATH']}"
        self.assertEqual(self.complete("isolate", "--kubeconfig", "=", "~/f", "n", PATH=path), ["n1", "n2", "n$(touch ran)"])
        self.assertEqual(self.complete("drain", "--kubeconfig=f", "--context", "c", "n2", PATH=path), ["n2"])
        self.complete("isolate", "--kubeconfig", "f", "--context", "silent", "n1", PATH=path)
        self.assertEqual(self.complete("explain", "-n", "team", "n2", PATH=path), ["n2"])
        with open(self.path("asked"), encoding="utf-8") as file:
            asked = file.read().splitlines()
            self.assertEqual(asked[-1], "explain -o name -n team")
            self.assertEqual(asked[:2], [f"cluster -o name --kubeconfig {os.environ['HOME']}/f", "supernodes -o name --kubeconfig=f --context c"])
        self.assertFalse(os.path.exists(self.path("ran")))


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("usage: test_cli.py BIN_DIR [unittest arguments]")
    BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
