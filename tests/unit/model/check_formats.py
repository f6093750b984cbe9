#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every form of every sample node with tools that did not write it.

usage: check_formats.py NODE_TOOL SCHEMA
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

import jsonschema
import yaml

TOOL, SCHEMA = sys.argv[1:3]


def tool(*arguments):
    return subprocess.run([TOOL, *arguments], check=True, capture_output=True).stdout.decode()


def strict(schema):
    """The schema with no other keys than those it names, so that an undocumented key is seen."""
    if isinstance(schema, dict):
        closed = {key: strict(value) for key, value in schema.items()}
        if "properties" in closed and closed.get("type") == "object":
            closed["additionalProperties"] = False
        return closed
    if isinstance(schema, list):
        return [strict(value) for value in schema]
    return schema


def keys(value):
    """Every key that occurs, by path without positions."""
    found = set()

    def walk(path, part):
        if isinstance(part, dict):
            for key, below in part.items():
                found.add(f"{path}.{key}")
                walk(f"{path}.{key}", below)
        elif isinstance(part, list):
            for below in part:
                walk(path, below)

    walk("", value)
    return found


def documented_keys(schema):
    found = set()

    def walk(path, part):
        if "$ref" in part:
            walk(path, schema["$defs"][part["$ref"].rsplit("/", 1)[1]])
        for key, below in part.get("properties", {}).items():
            found.add(f"{path}.{key}")
            walk(f"{path}.{key}", below)
        if "items" in part:
            walk(path, part["items"])

    walk("", schema)
    return found


class Formats(unittest.TestCase):
    samples = tool("samples").split()

    def test_schema(self):
        with open(SCHEMA, encoding="utf-8") as file:
            schema = json.load(file)
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(strict(schema))
        seen = set()
        for name in self.samples:
            with self.subTest(name):
                node = json.loads(tool("sample", name, "json"))
                validator.validate(node)
                seen |= keys(node)
                for position, gpu in enumerate(node["gpus"]):
                    self.assertEqual(gpu["index"], position)
                self.assertEqual(len(node["links"]), len(node["gpus"]) * (len(node["gpus"]) - 1) // 2)
                for link in node["links"]:
                    self.assertLess(link["a"], link["b"])
        self.assertEqual(documented_keys(schema) - seen, {".links.bandwidthMBps"})
        # The check itself must be able to fail.
        node = json.loads(tool("sample", "one", "json"))
        for spoil in (lambda n: n.pop("links"), lambda n: n.update(extra=1), lambda n: n["gpus"][0].update(index=-1)):
            broken = json.loads(json.dumps(node))
            spoil(broken)
            self.assertFalse(validator.is_valid(broken))

    def test_round_trip(self):
        for name in self.samples:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                text = tool("sample", name, "json")
                path = os.path.join(folder, "node.json")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                self.assertEqual(tool("file", path, "json"), text)
                # As another program would write it, with its keys in another order.
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(json.loads(text), file, sort_keys=True)
                self.assertEqual(tool("file", path, "json"), text)

    def test_yaml(self):
        for name in self.samples:
            with self.subTest(name):
                self.assertEqual(yaml.safe_load(tool("sample", name, "yaml")), json.loads(tool("sample", name, "json")))

    def test_dot(self):
        if not shutil.which("dot"):
            self.skipTest("no dot")
        for name in self.samples:
            if name == "big-64":
                continue  # Graphviz takes long for 2,016 links
            with self.subTest(name):
                done = subprocess.run(["dot", "-Tsvg"], input=tool("sample", name, "dot").encode(), capture_output=True,
                                      check=False)
                self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
                ET.fromstring(done.stdout)

    def test_svg(self):
        for name in self.samples:
            with self.subTest(name):
                root = ET.fromstring(tool("sample", name, "svg"))
                self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
                width, height = int(root.get("width")), int(root.get("height"))
                node = json.loads(tool("sample", name, "json"))
                for element in root.iter():
                    kind = element.tag.rsplit("}", 1)[1]
                    self.assertIn(kind, {"svg", "g", "rect", "path", "circle", "text", "title"})
                    if kind == "rect":
                        self.assertGreaterEqual(int(element.get("x")), 0)
                        self.assertLessEqual(int(element.get("x")) + int(element.get("width")), width)
                        self.assertLessEqual(int(element.get("y")) + int(element.get("height")), height)
                    if kind == "text":
                        self.assertLess(int(element.get("y")), height)
                titles = [t.text for t in root.iter("{http://www.w3.org/2000/svg}title")]
                for gpu in node["gpus"]:
                    self.assertEqual(sum(t.startswith(f"GPU {gpu['index']} ") and gpu["bdf"] in t for t in titles), 1)
                drawn = sum(t.startswith("GPU ") and (": link down" in t or t.endswith("GB/s")) for t in titles)
                direct = sum(link["kind"] == "MX" for link in node["links"])
                buses = [int(t.split()[0]) for t in titles if "GPUs, every pair linked" in t]
                self.assertEqual(drawn + sum(n * (n - 1) // 2 for n in buses), direct)
                self.assertLess(drawn, 120)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
