#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_symbols.py BUILD_DIR: which symbols the product's files export.

- No two files define the same public name: a linker takes the first definition from an archive and says nothing of the
  second, and a program would call a stranger.
- Every public name is used by another file of the product. What its own file alone uses is static; what tests alone use
  belongs to the tests. A test may call an inner function that its own file uses."""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Public without a user in the product, and why.
KEPT = {
    "gt_http_port": "a test that listens at any port asks which it got",
    "gt_probe_client_deadline": "a test cannot wait as long as a vendor library may take",
}
# What the Go adapter calls is used.
ADAPTER = "scheduler-ext/volcano/vc-scheduler"
KEPT.update({name: "the Go adapter calls it" for path in (ROOT / ADAPTER).rglob("*.go")
             for name in re.findall(r"\bC\.(gt_\w+)\(", path.read_text(encoding="utf-8"))})


def source_of(build, thing):
    """The source file of an object file, relative to the root; None for generated ones and those left from a source that is gone."""
    relative = thing.relative_to(build)
    folder, _, inner = str(relative).partition("CMakeFiles/")
    source = pathlib.Path(folder) / inner.partition(".dir/")[2][:-len(".o")]
    return source if "generated" not in inner and (ROOT / source).exists() else None


def read_symbols(build):
    """By name: the sources that define it, and those that need it from elsewhere."""
    sources = {str(thing): source for thing in build.rglob("*.c.o") if (source := source_of(build, thing))}
    listing = subprocess.run(["nm", "--print-file-name", "--extern-only", *sources], check=True, capture_output=True, text=True).stdout
    defined, needed = collections.defaultdict(set), collections.defaultdict(set)
    for line in listing.splitlines():
        path, _, rest = line.partition(":")
        fields = rest.split()
        if fields[0] == "U":
            needed[fields[1]].add(sources[path])
        elif len(fields) == 3 and fields[1] in "TDBRVW":
            defined[fields[2]].add(sources[path])
    return defined, needed


def is_test(source):
    return source.parts[0] == "tests"


def uses_itself(source, name):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", (ROOT / source).read_text(encoding="utf-8"), flags=re.S)
    return len(re.findall(rf"\b{name}\b", text)) > 1


def problem_with(name, source, needed):
    by_product = any(not is_test(user) and user != source for user in needed[name])
    by_tests = any(map(is_test, needed[name]))
    if by_product or name in KEPT:
        return None
    if not uses_itself(source, name):
        return f"only tests use {name}: move it into tests/, or test in another way" if by_tests else f"nobody uses {name}"
    return None if by_tests else f"no other file uses {name}: make it static"


def main():
    defined, needed = read_symbols(pathlib.Path(sys.argv[1]).resolve())
    problems, names = [], 0
    for name, where in sorted(defined.items()):
        where = {source for source in where if not is_test(source)}
        if not name.startswith(("gt_", "cli_")) or not where:
            continue
        names += 1
        if len(where) > 1 and name.startswith("gt_"):
            problems.append(f"{name} is defined in {', '.join(sorted(map(str, where)))}")
        elif len(where) == 1 and (problem := problem_with(name, next(iter(where)), needed)):
            problems.append(f"{next(iter(where))}: {problem}")
    print("\n".join(problems))
    print(f"{names} public names")
    sys.exit(bool(problems) or not names)


main()
