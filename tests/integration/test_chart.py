#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""daemonset/chart without Helm: test_chart.py BUILD_DIR VERSION [unittest arguments]

Values, their comments and their schema against the programs' options. What Helm makes of it: tests/e2e/cases_chart.py."""
import ast
import json
import pathlib
import re
import subprocess
import sys
import unittest

import jsonschema
import yaml

BUILD, VERSION = pathlib.Path(sys.argv.pop(1)).resolve(), sys.argv.pop(1)
DAEMONSET = pathlib.Path(__file__).resolve().parents[2] / "daemonset"
CHART = DAEMONSET / "chart"
PROGRAMS = {"agent": "gputopo-agent", "scheduler": "gputopo-scheduler"}


def comments():
    """{path of a value: what README.md says of it}"""
    rows = re.findall(r"^\| `([^`]+)` \| (?:`([^`]*)`)? ?\| (.+) \|$", (CHART / "README.md").read_text(), re.M)
    return {path: comment for path, _, comment in rows}


class Chart(unittest.TestCase):
    def setUp(self):
        self.values = yaml.safe_load((CHART / "values.yaml").read_text())
        self.schema = json.loads((CHART / "values.schema.json").read_text())

    def test_what_is_made_is_made(self):
        """The table of values and the custom resources; the manifests are Helm's."""
        done = subprocess.run([DAEMONSET / "generate", "--check", "--helm", ""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_versions(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual((chart["version"], chart["appVersion"]), (VERSION, VERSION))

    def test_end_to_end_sets_every_option(self):
        """The two sets of options in cases_chart.py, which Helm renders there, have all that the chart has."""
        tree = ast.parse((CHART.parents[1] / "tests/e2e/cases_chart.py").read_text())
        sets = {node.targets[0].id: ast.literal_eval(node.value) for node in tree.body
                if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) in ("OPTIONS", "PLACED_OPTIONS")}
        for part in PROGRAMS:
            self.assertEqual(sorted(one.partition("=")[0] for options in sets.values() for one in options[part]),
                             sorted(self.values[part]["options"]))

    def test_options_without_a_value_get_none(self):
        """The chart writes --NAME=true but for those that its template names, and a program refuses that for the others."""
        template = (CHART / "templates/_helpers.tpl").read_text().partition('define "gputopo.options"')[2].partition("{{- end }}")[0]
        for part, name in PROGRAMS.items():
            text = subprocess.run([BUILD / "bin" / name, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
            for option in re.findall(r"^  --([a-z-]+)(?: {2,}|$)", text, re.M):
                if option in self.values[part]["options"] and not option.startswith("no-"):
                    self.assertIn(f'"{option}"', template)

    def test_every_option_is_a_value(self):
        """Or the comment tells who sets it; and the comment of a null tells the program's own default."""
        told = comments()
        for part, name in PROGRAMS.items():
            program = BUILD / "bin" / name
            if not program.exists():
                self.skipTest(f"{name} is not built")
            text = subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
            options = re.findall(r"^  --([a-z-]+)(.*(?:\n {25,}\S.*)*)$", text, re.M)
            self.assertGreater(len(options), 15)
            mine = self.values[part]["options"]
            for option, rest in options:
                path = f"{part}.options"
                if option not in mine:
                    self.assertRegex(told[path], rf"--{option}\b", f"{name} --{option} is no value and nobody says why")
                    continue
                default = re.search(r"\(([^()]*)\)$", rest.strip())
                if default and mine[option] is None and " " not in default[1] and "," not in default[1]:
                    self.assertIn(f"({default[1]}", told[f"{path}.{option}"])
            self.assertEqual(set(mine) - {option for option, _ in options}, set(), "values that are no option")

    def test_every_value_is_in_the_schema(self):
        jsonschema.validate(self.values, self.schema)
        self.walk(self.values, self.schema, "")

    def walk(self, values, schema, path):
        if "properties" not in schema:
            return
        self.assertIs(schema["additionalProperties"], False, path)
        self.assertEqual(set(values), set(schema["properties"]) - {"global"}, path)
        for key, value in values.items():
            if isinstance(value, dict) and value:
                self.walk(value, schema["properties"][key], f"{path}.{key}")

    def test_nonsense_is_refused(self):
        for path, value in (("agent.optionz", {}), ("agent.options.heartbeat", "5"), ("agent.options.http", ":http"), ("mode", "off"),
                            ("agent.maxUnavailable", "101%"), ("scheduler.options.weight", 0), ("scheduler.options.weight", "much"),
                            ("image.digest", "latest"), ("placement.certificates.caBundle", "/etc/ca.crt"), ("probe.library", "opt"), ("probe.mode", "on"),
                            ("probe.enabled", False)):
            *above, last = path.split(".")
            values = yaml.safe_load((CHART / "values.yaml").read_text())
            at = values
            for key in above:
                at = at[key]
            at[last] = value
            with self.assertRaises(jsonschema.ValidationError, msg=f"{path}: {value}"):
                jsonschema.validate(values, self.schema)

    def test_volcano_gets_the_manuals_configuration(self):
        """Both of its chapters in one."""
        made = re.search(r'define "gputopo.volcano" -}}\n(.*?){{- end }}', (CHART / "templates" / "_helpers.tpl").read_text(), re.S)[1]
        manual = {}
        for chapter in ("aware", "podaffinity"):
            text = (DAEMONSET / "examples" / f"manual-gpu-{chapter}.yaml").read_text()
            manual[chapter] = yaml.safe_load(yaml.safe_load(text)["data"]["volcano-scheduler.conf"])
        wanted = manual["podaffinity"] | {"tiers": [manual["podaffinity"]["tiers"][0], manual["aware"]["tiers"][1]]}
        self.assertEqual(yaml.safe_load(made), wanted)

    def test_jobs_of_the_hooks_need_no_terminal(self):
        """They get as far as to look for a cluster."""
        commands = re.findall(r'"command" "\[/usr/bin/(gputopo[^]]*)\]"', (CHART / "templates" / "cleanup.yaml").read_text())
        self.assertEqual(len(commands), 2)
        for command in commands:
            program, *arguments = command.split(", ")
            done = subprocess.run([BUILD / "bin" / program, *arguments, "--kubeconfig=/none"], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn("/none: No such file", done.stderr)

    def test_every_file_is_licensed_and_commented(self):
        for file in (CHART / "values.yaml", CHART / "Chart.yaml", *CHART.glob("templates/_*.tpl")):
            self.assertIn("SPDX-License-Identifier: Apache-2.0", file.read_text().splitlines()[0], file)


if __name__ == "__main__":
    unittest.main(verbosity=2)
