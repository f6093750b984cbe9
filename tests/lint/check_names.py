#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names mean one thing: no two files of the product define the same struct, union or enum tag, enumerator, typedef or macro.

Also those that only one file sees, so that a search for a name finds one thing. A macro may stand in two files with the same
text, or be taken back with #undef. The tests may repeat names, but none that begins with gt_ or GT_, but for a struct that a
source of the product keeps to itself."""
import collections
import os
import re
import subprocess
import sys

TAG = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
ENUM = re.compile(r"\benum\b(?:\s+\w+)?\s*\{([^}]*)\}")
TYPEDEF = re.compile(r"^typedef\b[^;{]*?\(?\*?(\w+)\)?(?:\([^;]*\))?;", re.M)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.M)


def strip_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
                  lambda m: "\n" * m.group(0).count("\n") or '""', text, flags=re.S)


def enumerators(text):
    for body in ENUM.findall(text):
        while (flat := re.sub(r"\w*\([^()]*\)", "", body)) != body:  # no enumerators: macros, and what stands in brackets
            body = flat
        yield from re.findall(r"(?:^|,)\s*([A-Za-z_]\w*)", body)


def definitions(path, text, raw):
    """(kind, name, what may be repeated): a macro with the same text is the same macro."""
    for name in TAG.findall(text):
        yield "tag", name, None
    for name in enumerators(text):
        yield "constant", name, None
    for name in TYPEDEF.findall(text):
        yield "typedef", name, None
    for name, body in MACRO.findall(raw):
        if not re.search(rf"^\s*#\s*undef\s+{name}\b", raw, re.M):
            yield "constant", name, " ".join(body.split())


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    files = subprocess.run(["git", "ls-files", "*.c", "*.h"], check=True, capture_output=True, text=True).stdout.split()
    found = collections.defaultdict(lambda: collections.defaultdict(list))  # (kind, name) -> file -> texts
    for path in filter(os.path.exists, files):
        raw = open(path, encoding="utf-8").read()
        for kind, name, text in definitions(path, strip_comments(raw), raw):
            found[kind, name][path].append(text)
    problems = []
    for (kind, name), places in sorted(found.items()):
        product = [path for path in places if not path.startswith("tests/")]
        if name.lower().startswith("gt_") and not (kind == "tag" and all(path.endswith(".c") for path in product)):
            product = list(places)
        texts = {text for path in product for text in places[path]}
        if len(product) < 2 or (len(texts) == 1 and None not in texts):
            continue
        problems.append(f"{kind} {name} is defined in {', '.join(sorted(product))}")
    print("\n".join(problems))
    print(f"{len(found)} names")
    sys.exit(bool(problems))


main()
