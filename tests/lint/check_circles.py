#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""No two files of the product call each other in a circle.

A module is X.c with its headers X.h, X_internal.h and X_private.h, or a header that has no such .c. Module A depends on module B if a
function body or a table of A names a function or variable that only B defines, itself or through a macro. The source is formatted
by clang-format, so that a definition is recognised by its shape."""
import collections
import os
import re
import subprocess
import sys

DEFINITION = re.compile(r"^(?!typedef\b|else\b|__attribute__|#)((?:[A-Za-z_][\w ]*[ *]+)+)(\w+)\([^;{}]*\)[^;{}()]*\n\{(.*?)^\}", re.M | re.S)
# A type in capitals is a macro of a file, which says static.
VARIABLE = re.compile(r"^(?!static\b|extern\b|typedef\b|return\b|struct \w+;)[a-z_][\w *]*[ *](\w+)(?:\[[^\]]*\])*(?: = |;)", re.M)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.M)
WORD = re.compile(r"(?<![\w.])(?<!->)(?<!struct )(?<!enum )(?<!union )[A-Za-z_]\w*")


def strip_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
                  lambda m: "\n" * m.group(0).count("\n") or '""', text, flags=re.S)


def module_of(path, sources):
    stem = path[:-2]
    for suffix in ("", "_internal", "_private"):
        if stem.endswith(suffix) and stem[:len(stem) - len(suffix)] + ".c" in sources:
            return stem[:len(stem) - len(suffix)]
    return stem


def arrows(texts):
    """{module: {module: names that the first takes from the second}}"""
    sources = set(texts)
    module = {path: module_of(path, sources) for path in texts}
    homes = collections.defaultdict(set)
    macros = {}
    own = collections.defaultdict(set)  # the functions of a file that are its own
    for path, text in texts.items():
        for head, name, _ in DEFINITION.findall(text):
            if path.endswith(".c") and head.startswith("static "):
                own[path].add(name)
            else:
                homes[name].add(module[path])
        if path.endswith(".c"):
            for name in VARIABLE.findall(text):
                homes[name].add(module[path])
        else:
            macros.update({name: set(WORD.findall(body)) for name, body in MACRO.findall(text)})
    home = {name: next(iter(modules)) for name, modules in homes.items()
            if len(modules) == 1 and name not in ("main", "__attribute__")}
    ties = collections.defaultdict(lambda: collections.defaultdict(set))
    for path, text in texts.items():
        # A header declares what others define: only its functions call.
        body = text if path.endswith(".c") else "\n".join(body for _, _, body in DEFINITION.findall(text))
        names = set(WORD.findall(body)) - own[path]
        for name in list(names):
            names |= macros.get(name, set())
        for name in names:
            if name in home and home[name] != module[path]:
                ties[module[path]][home[name]].add(name)
    return ties


def circles(ties):
    """The strongly connected sets of modules with more than one module, by Tarjan's way."""
    order, low, stack, found = {}, {}, [], []

    def visit(at):
        order[at] = low[at] = len(order)
        stack.append(at)
        for other in sorted(ties.get(at, ())):
            if other not in order:
                visit(other)
                low[at] = min(low[at], low[other])
            elif other in stack:
                low[at] = min(low[at], order[other])
        if low[at] == order[at]:
            group = stack[stack.index(at):]
            del stack[stack.index(at):]
            if len(group) > 1:
                found.append(set(group))

    for module in sorted(ties):
        if module not in order:
            visit(module)
    return found


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    files = subprocess.run(["git", "ls-files", "*.c", "*.h"], check=True, capture_output=True, text=True).stdout.split()
    product = [path for path in files if not path.startswith("tests/") and os.path.exists(path)]
    ties = arrows({path: strip_comments(open(path, encoding="utf-8").read()) for path in product})
    sys.setrecursionlimit(10000)
    found = circles(ties)
    for group in found:
        print(f"{len(group)} files call each other in a circle:")
        for a in sorted(group):
            for b in sorted(group & set(ties[a])):
                print(f"  {a} -> {b}: {', '.join(sorted(ties[a][b]))}")
    print(f"{len(product)} files, {len(found)} circles")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
