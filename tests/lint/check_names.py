#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names mean one thing: no two files of the product define the same function, struct, union or enum tag, enumerator, typedef or
macro.

Also those that only one file sees, so that a search for a name or a line of a backtrace means one thing. A macro may stand in
two files with the same text, or be taken back with #undef. The tests may repeat names, but none that begins with gt_ or GT_, but
for a function, and for a struct that a source of the product keeps to itself."""
import collections
import os
import re
import subprocess
import sys

TAG = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
ENUM = re.compile(r"\benum\b(?:\s+\w+)?\s*\{([^}]*)\}")
TYPEDEF = re.compile(r"^typedef\b[^;{]*?\(?\*?(\w+)\)?(?:\([^;]*\))?;", re.M)
FUNCTION = re.compile(r"^(?![\s#}\"]|GT_DEFINE)(static\b)?[^;{}=#\"]*?\b(\w+)\(([^;{}]*)\)\n\{", re.M)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.M)


def strip_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
                  lambda m: "\n" * m.group(0).count("\n") or '""', text, flags=re.S)


def functions(text):
    """Those that the text, without comments, defines: (name, whether it is static, parameters, line)."""
    text = re.sub(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)[ \t]*", "", text)
    for m in FUNCTION.finditer(text):
        yield m.group(2), bool(m.group(1)), m.group(3), text.count("\n", 0, m.start(2)) + 1


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


def function_places(texts):
    """name -> [(file, line, whether it is static)]; texts: file -> its text without comments."""
    places = collections.defaultdict(list)
    for path, text in texts.items():
        for name, is_static, _, line in functions(text):
            places[name].append((path, line, is_static))
    return places


def is_shared(places):
    return len({path for path, _, _ in places}) > 1 and any(is_static for _, _, is_static in places)


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    files = subprocess.run(["git", "ls-files", "*.c", "*.h"], check=True, capture_output=True, text=True).stdout.split()
    found = collections.defaultdict(lambda: collections.defaultdict(list))  # (kind, name) -> file -> texts
    product_texts = {}
    for path in filter(os.path.exists, files):
        raw = open(path, encoding="utf-8").read()
        text = strip_comments(raw)
        for kind, name, same in definitions(path, text, raw):
            found[kind, name][path].append(same)
        if not path.startswith("tests/"):
            product_texts[path] = text
    problems = []
    called = function_places(product_texts)
    for name, places in sorted(called.items()):
        if is_shared(places):
            where = ", ".join(f"{path}:{line}" for path, line, _ in places)
            problems.append(f"function {name} is defined in {where}: put the module's name in front of a static one, "
                            f"such as {os.path.splitext(os.path.basename(places[0][0]))[0]}_{name}")
    for (kind, name), places in sorted(found.items()):
        product = [path for path in places if not path.startswith("tests/")]
        if name.lower().startswith("gt_") and not (kind == "tag" and all(path.endswith(".c") for path in product)):
            product = list(places)
        texts = {text for path in product for text in places[path]}
        if len(product) < 2 or (len(texts) == 1 and None not in texts):
            continue
        problems.append(f"{kind} {name} is defined in {', '.join(sorted(product))}")
    print("\n".join(problems))
    print(f"{len(found) + len(called)} names")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
