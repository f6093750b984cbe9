#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The libraries in the images, their licences, and which part needs each, as docs/reference/image.md lists them: contents.py BUILD [--check]

Writes each table between its marks, that of Volcano's scheduler where BUILD has it; --check only says whether the page has other ones, and ends with 1 if so."""
import os
import pathlib
import re
import shutil
import sys

import gomodules
import parts

PAGE = parts.SOURCES / "docs/reference/image.md"
BEGIN, END = "<!-- made by release/contents.py: {} -->\n", "<!-- end -->\n"
# where the copyright file does not say it for all files, or says it of programs beside the library
GCC = "GPL-3+ with GCC's exception"
LICENCES = {
    "libc-ares-dev": "MIT", "libc6": "LGPL-2.1+", "libcom-err2": "MIT", "libgcc-s1": GCC, "libgnutls30": "LGPL-2.1+", "libgssapi-krb5-2": "MIT",
    "libhwloc15": "BSD-3-Clause", "libidn2-0": "LGPL-3+ or GPL-2+", "libk5crypto3": "MIT", "libkeyutils1": "LGPL-2+", "libkrb5-3": "MIT",
    "libkrb5support0": "MIT", "libpci3": "GPL-2+", "librtmp1": "LGPL-2.1+", "libstdc++-12-dev": GCC, "libstdc++6": GCC, "libtasn1-6": "LGPL-2.1+"}


def users(path, programs, paths, vendor):
    """What needs this library itself: programs of ours before libraries."""
    told = [f"`{name}`" for name, program in programs.items() if path in parts.needed(str(program)) or path == parts.LOADERS[parts.processor(program)]]
    name = pathlib.Path(path).name
    if name in parts.OPENED:
        told.append("loaded by those that ask the API server")
    if path in vendor:
        told.append("the vendor's library")
    return told or sorted({f"`{parts.owner(other)}`" for other in paths - {path} if path in parts.needed(other)})


def version(package):
    """Without what a security update changes."""
    found = re.match(r"(?:\d+:)?(\d{3,}|\d+(?:\.\d+)?)", parts.ask("dpkg-query", "-W", "-f", "${Version}\n", package))
    return found[1]


def licence(package):
    text = parts.package_copyright(package).read_text(errors="replace")
    found = re.search(r"^Files:[ \t]*\*[ \t]*\n(?:.*\n)*?License:[ \t]*(\S.*)$", text, re.M)
    return LICENCES.get(package) or (found[1] if found else sys.exit(f"LICENCES of release/contents.py has to name the licence of {package}"))


def table(build, names, for_vendor):
    programs = {name: parts.program_of(build, name) for name in names}
    kind = parts.processor(next(iter(programs.values())))
    vendor = {parts.library(soname, kind) for soname in for_vendor} - {None}
    paths = vendor.union(*map(parts.libraries, vendor), *(parts.libraries(program) | parts.opened(build, name) for name, program in programs.items()))
    packages = {}
    for path in paths:
        packages.setdefault(parts.owner(path), set()).add(path)
    yield "| Debian's package | version | licence | files | needed by |\n|---|---|---|---|---|\n"
    contained = {}
    for name in programs:
        for package in parts.owners(parts.archives(build, name)):
            contained.setdefault(package, []).append(f"`{name}`")
    for package, names in sorted(contained.items()):
        yield f"| {package} | {version(package)} | {licence(package)} | linked statically | {', '.join(names)} |\n"
    for package, files in sorted(packages.items()):
        why = dict.fromkeys(word for path in sorted(files) for word in users(path, programs, paths, vendor) if word != f"`{package}`")
        names = ", ".join(f"`{pathlib.Path(path).name}`" for path in sorted(files))
        yield f"| {package} | {version(package)} | {licence(package)} | {names} | {', '.join(why)} |\n"


def importers():
    """{module: the modules whose packages import its packages}, of Volcano's scheduler as it is built."""
    ask = ["go", "list", "-deps", "-tags", "netgo osusergo", "-f",
           '{{with .Module}}{{if .Replace}}{{.Replace.Path}}{{else}}{{.Path}}{{end}}{{end}}\t{{.ImportPath}}\t{{join .Imports " "}}', "."]
    packages = [line.split("\t") for line in parts.ask(*ask, cwd=gomodules.SOURCES, env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}).splitlines()]
    module_of, found = {path: module for module, path, _ in packages}, {}
    for module, _, imports in packages:
        for path in imports.split():
            if module_of.get(path, module) != module:
                found.setdefault(module_of[path], set()).add(module)
    return found


GO_LICENCES = (("Apache-2.0", "Apache License"), ("MPL-2.0", "Mozilla Public License"), ("MIT", "Permission is hereby granted, free of charge"),
               ("ISC", "Permission to use, copy, modify, and"), ("BSD-3-Clause", "Neither the name|names of its contributors"), ("BSD-2-Clause", "Redistribution and use in source"))


def go_licence(module):
    """All that its first file of that kind has; further files belong to parts of it."""
    file, *_ = sorted(path for path in gomodules.directory(module).iterdir() if gomodules.LICENCE.match(path.name) and path.is_file())
    text = " ".join(file.read_text(errors="replace").split())
    found = [name for name, words in GO_LICENCES if re.search(words, text)]
    if "BSD-3-Clause" in found:
        found.remove("BSD-2-Clause")  # whose words it has, too
    return " and ".join(found) or sys.exit(f"GO_LICENCES of release/contents.py knows no licence like {file}")


def go_table(build):
    """The modules, their versions and licences, and up to two modules that need each, ours first."""
    needed_by, ours = importers(), "gputopo/scheduler-ext/volcano/vc-scheduler"
    yield "\n| Go module | version | licence | needed by |\n|---|---|---|---|\n"
    for module in gomodules.modules(build / "bin/vc-scheduler"):
        users_of = sorted(needed_by.get(module[0], ()), key=lambda name: (name != ours, name))
        told = ["`vc-scheduler`" if name == ours else name for name in users_of[:2]] + ([f"{len(users_of) - 2} more"] if users_of[2:] else [])
        yield f"| {module[0]} | {module[1]} | {go_licence(module)} | {', '.join(told)} |\n"


def main():
    build, check = pathlib.Path(sys.argv[1]), "--check" in sys.argv[2:]
    lines = {"gputopo": table(build, parts.PROGRAMS, parts.FOR_VENDOR)}
    if (build / "bin/vc-scheduler").exists() and shutil.which("go"):
        lines["vc-scheduler"] = [*table(build, gomodules.PROGRAMS, ()), *go_table(build)]
    text = PAGE.read_text()
    for image, rows in lines.items():
        before, begin, rest = text.partition(BEGIN.format(image))
        text = before + begin + "".join(rows) + END + rest.partition(END)[2]
    if text == PAGE.read_text():
        return 0
    print(f"docs/reference/image.md {'does not list what is in the image: release/contents.py BUILD mends it' if check else 'is written'}")
    if not check:
        PAGE.write_text(text)
    return check


if __name__ == "__main__":
    sys.exit(main())
