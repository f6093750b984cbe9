#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the documentation with the programs: options against --help, metrics against /metrics of running daemons.

Usage: test_reference.py DIRECTORY_OF_PROGRAMS [--write]

Commands that README and pages show run, and print what is shown there; the picture of a node is drawn again.

Option, value, default, metric and labels of each row of a table are made from the programs; what a thing means is
written by hand, and comes from --help or # HELP for a row that is new. Without --write nothing is changed, and whatever
--write would change is a failure.
"""

import difflib
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile

from daemon_driver import wait_for
from served import Served, families, probing_agent

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
METRIC = re.compile(r"\b(?:gputopo|process)_[a-z0-9_]+\b")
# a metric in a page that lists none of a program's
NAMED = re.compile(r"\b(?:gputopo|process)_[a-z0-9_]+_(?:total|seconds|bytes|info|ratio)\b")

EXAMPLE = re.compile(r"^\$ (?:build/bin/)?(gputopo [^\n|>]*tests/[^\n|>]*)\n((?:(?!\$ |```).*\n)*)", re.M)

problems = []


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def help_of(*command):
    return subprocess.run([*command, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout


def options(text):
    """{name: (what follows it, sentence, default)}, in the order of --help."""
    text = re.sub(r"\n {20,}(?=\S)", " ", text)
    found = {}
    for name, value, sentence in re.findall(r"^ +(?:-\w, )?--([a-z-]+)([ =]\S+)?(?:  +| )(.*)$", text, flags=re.M):
        default = re.search(r" \((?:default: )?([^()]+)\)$", sentence)
        found[name] = (value, sentence[:default.start()] if default else sentence, default[1] if default else "")
    return found


def cells(row):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def as_row(*columns):
    return "| " + " | ".join(columns).replace("|  |", "| |") + " |"


def code(text):
    return re.sub(r"(?<!\S)(?:--|\$)[\w-]+", r"`\g<0>`", text) if " " in text or not text else f"`{text}`"


def option_tables(text, have):
    """The page with its tables of options as the program has them: option, default, meaning."""
    told, lines, last = set(), [], 0
    in_table = False
    for line in text.splitlines():
        in_table = line.startswith("|") and (in_table or line == "| option | default | meaning |")
        if in_table and line.startswith("| `--"):
            names, default, meaning = cells(line)
            names = [name for name in re.findall(r"`--([a-z-]+)", names) if name in have]
            if not names:
                continue
            told |= set(names)
            defaults = [code(have[name][2]) for name in names if have[name][2]]
            line = as_row(", ".join(f"`--{name}{have[name][0]}`" for name in names),
                          ", ".join(defaults) or default, meaning)
        lines.append(line)
        last = len(lines) if in_table else last
    new = [as_row(f"`--{name}{value}`", code(default), sentence)
           for name, (value, sentence, default) in have.items() if name not in told]
    return "\n".join(lines[:last] + new + lines[last:]) + "\n"


def metric_tables(text, have):
    """A section with its tables of metrics as the program serves them: metric, meaning."""
    told, lines, last = set(), [], 0
    for line in text.splitlines():
        if line.startswith("| `gputopo_"):
            names, meaning = cells(line)
            names = [name for name in METRIC.findall(names) if name in have]
            if not names:
                continue
            process = ", `process_*`" if "`process_*`" in line else ""
            line = as_row(", ".join(f"`{with_labels(name, have)}`" for name in names) + process, meaning)
        if line.startswith(("| `gputopo_", "`process_")):
            told |= set(METRIC.findall(line))
            told |= {name for name in have if name.startswith("process_")} if "process_*" in line else set()
        lines.append(line)
        last = len(lines) if line.startswith("| `gputopo_") else last
    new = [as_row(f"`{with_labels(name, have)}`", have[name]["help"]) for name in have if name not in told]
    return "\n".join(lines[:last] + new + lines[last:]) + "\n"


def with_labels(name, have):
    labels = ",".join(have[name]["labels"])
    return f"{name}{{{labels}}}" if labels else name


def check_verbs(program):
    """The usage of each verb in cli.md has the options of its --help, and simulate.md those of simulate."""
    page = read("docs/reference/cli.md")
    usage = re.search(r"^```\n(gputopo show .*?)^```", page, flags=re.S | re.M)[1]
    usage = re.sub(r"\n {3,}", " ", usage)
    for verb in re.findall(r"^  ([a-z]+) {2,}", help_of(program), flags=re.M):
        have = set(options(help_of(program, verb))) - {"help"}
        lines = " ".join(line for line in usage.splitlines() if line.split()[1] == verb)
        told = set(re.findall(r"--([a-z-]+)", lines if "OPTION" not in lines else read(f"docs/reference/{verb}.md")))
        short = {"-o": "output", "-k": "gpus", "-n": "namespace"}
        told |= {name for letter, name in short.items() if re.search(rf"(?<!\S)\[?{letter} ", lines)}
        if "OPTION" in lines:
            told = (told & have) | ({"output"} & have)
        for name in sorted(have ^ told):
            problems.append(f"docs/reference/cli.md: {verb}: --{name} is not in {'the usage' if name in have else 'its --help'}")


def check_parts(text, page):
    parts = set(re.findall(r"^  ([a-z]+) {2,}", text.split("\nParts:\n")[1], flags=re.M))
    for part in sorted(parts ^ set(re.findall(r"^\| `([a-z]+)` \|", page.split("## Options")[0], flags=re.M))):
        problems.append(f"docs/reference/scheduler.md: part {part}: not in both, table and --help")


def check_types(everything):
    """metrics.md tells the type of a metric by the end of its name."""
    for name, metric in everything.items():
        kind = "counter" if name.endswith("_total") else "histogram" if name.endswith(("_duration_seconds", "_decision_seconds")) else "gauge"
        if metric["type"] != kind:
            problems.append(f"docs/reference/metrics.md: {name} is a {metric['type']}, by its name a {kind}")


def check_named(everything):
    for folder, _, names in (*os.walk(f"{ROOT}/docs"), *os.walk(f"{ROOT}/daemonset")):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), ROOT)
            for metric in NAMED.findall(read(path)) if name.endswith((".md", ".yaml", ".json")) else ():
                if metric not in everything:
                    problems.append(f"{path}: no program has the metric {metric}")


def run(programs, *words):
    return subprocess.run([f"{programs}/{words[0]}", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60).stdout


def check_examples(programs):
    """Of what is shown below a command on files of the repository, each line comes, in this order; `...` is left out."""
    examples = 0
    for path in ("README.md", *(os.path.relpath(path, ROOT) for path in glob.glob(f"{ROOT}/docs/**/*.md", recursive=True))):
        for command, shown in EXAMPLE.findall(read(path)):
            lines = run(programs, *shlex.split(command, comments=True)).splitlines()
            examples += 1
            for line in shown.splitlines():
                wanted = re.escape(line.rstrip()).replace(r"\.\.\.", ".*")
                while lines and not re.fullmatch(wanted, lines[0].rstrip()):
                    lines.pop(0)
                if not lines and line not in ("", "..."):
                    problems.append(f"{path}: {command.strip()}: does not print: {line}")
                    break
    if examples < 5:
        problems.append(f"only {examples} examples are found")
    if run(programs, "gputopo", "show", "--from", "tests/machines/c500-8.json", "-o", "svg") != read("docs/pictures/node.svg"):
        problems.append("docs/pictures/node.svg: is drawn otherwise now (gputopo show --from tests/machines/c500-8.json -o svg)")


# who is meant where an option stands alone; a `gputopo VERB` names itself, and what helm and kubectl are given is theirs
SPEAKERS = {"agent": ["gputopo-agent"], "companion": ["gputopo-scheduler"], "probe": ["gputopo-probe"]}
SPOKEN = re.compile(r"(?:helm|kubectl)[^`]*`|\b(gputopo(?: (?!-)[a-z]+|-[a-z]+)?(?![\w.-])|agent|companion|probe)|(?<![\w-])--([a-z][a-z-]*)|\b(agent|scheduler)\.options\.([a-z-]+)")


def check_upgrade(programs):
    """What the release's notes tell an upgrader to give is an option of the program named before it. What they call gone is none."""
    known, seen = {}, 0
    notes = re.search(r"^### What to do on upgrade\n(.*?)^### ", read("CHANGELOG.md"), re.S | re.M)[1]
    for line in re.split(r"\n(?=\d+\. |\|)", notes):
        parts = cells(line) if line.startswith("|") else ["", line]
        who = None
        for column, part in enumerate(parts):
            for speaker, option, chart, value in SPOKEN.findall(part):
                if speaker:
                    who = SPEAKERS.get(speaker, speaker.split())
                    continue
                command = SPEAKERS["companion" if chart == "scheduler" else "agent"] if chart else who
                name = option or value
                if not name:  # of helm or kubectl
                    continue
                if not command:
                    problems.append(f"CHANGELOG.md: upgrade: --{name}: no program is named before it")
                    continue
                have = known.setdefault(" ".join(command), set(options(help_of(f"{programs}/{command[0]}", *command[1:]))))
                seen += 1
                if (name in have) != bool(column):
                    problems.append(f"CHANGELOG.md: upgrade: {' '.join(command)} has {'an' if name in have else 'no'} option --{name}")
    if seen < 15:
        problems.append(f"CHANGELOG.md: only {seen} options are found in what to do on upgrade")


def serve(programs):
    """What each daemon serves, with everything on."""
    with tempfile.TemporaryDirectory(prefix="gputopo-reference-") as directory, Served(programs, directory) as served:
        served.settle()
        served.kubelet.admit("mine", 2)
        if not wait_for(lambda: "gputopo_gpus_in_use 2" in served.agent.get("/metrics")[1]):
            raise AssertionError(served.agent.lines)
        return ({**families(probing_agent(served)), **families(served.agent.get("/metrics")[1])},
                families(served.companion.get("/metrics")[1]))


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def manual(name, section, text):
    """The manual page of a program, from its --help."""
    head, table, *notes = text.strip().split("\n\n")
    about = " ".join(head.splitlines()[1:])
    short = re.split(r"[:,]| \(|\. |\.$", about)[0]
    lines = ['.\\" SPDX-License-Identifier: Apache-2.0', '.\\" written by tests/integration/test_reference.py', f'.TH {name.upper()} {section} "" gputopo',
             ".SH NAME", f"{roff(name)} \\- {roff(short[0].lower() + short[1:])}", ".SH SYNOPSIS", f".B {roff(name)}", ".RI [ OPTION ]...",
             ".SH DESCRIPTION", roff(about), ".SH OPTIONS"]
    for option, sentence in re.findall(r"^ +(-\S.*?)(?:  +| (?=\S* *$))(.*)$", re.sub(r"\n {20,}(?=\S)", "  ", table), flags=re.M):
        lines += [".TP", f".B {roff(option)}", roff(re.sub(" +", " ", sentence))]
    if notes:
        lines += [".SH NOTES", ".nf", *(roff(note) + "\n" for note in notes[:-1]), roff(notes[-1]), ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR gputopo (1)"]) + "\n"


def main():
    programs, write = os.path.abspath(sys.argv[1]), "--write" in sys.argv[2:]
    agent_help, scheduler_help = help_of(f"{programs}/gputopo-agent"), help_of(f"{programs}/gputopo-scheduler")
    scheduler_page = read("docs/reference/scheduler.md")
    check_parts(scheduler_help, scheduler_page)
    check_verbs(f"{programs}/gputopo")
    check_examples(programs)
    check_upgrade(programs)
    agent, companion = serve(programs)
    check_types({**agent, **companion})
    check_named({**agent, **companion})
    heading = "# Metrics of gputopo-scheduler\n"
    of_agent, of_companion = read("docs/reference/metrics.md").split(heading)
    pages = [(name, 1 if name == "gputopo-simulate" else 8) for name in ("gputopo-agent", "gputopo-probe", "gputopo-scheduler", "gputopo-simulate")]
    for path, text in (
            *((f"release/man/{name}.{section}", manual(name, section, help_of(f"{programs}/{name}"))) for name, section in pages),
            ("docs/reference/agent.md", option_tables(read("docs/reference/agent.md"), options(agent_help))),
            ("docs/reference/scheduler.md", option_tables(scheduler_page, options(scheduler_help.split("\nParts:\n")[0]))),
            ("docs/reference/metrics.md", metric_tables(of_agent, agent) + heading + metric_tables(of_companion, companion))):
        old = read(path) if os.path.exists(os.path.join(ROOT, path)) else ""
        if write:
            with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
                file.write(text)
        elif old != text:
            problems.extend(difflib.unified_diff(old.splitlines(), text.splitlines(), path, f"{path} by the programs", lineterm="", n=0))
    print("\n".join(problems))
    if problems:
        print("tests/integration/test_reference.py BUILD/bin --write mends the tables", file=sys.stderr)
    sys.exit(bool(problems))


main()
