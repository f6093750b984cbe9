#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The libraries in the image, their licences, and which part needs each, as docs/reference/image.md lists them: contents.py BUILD [--check]

Writes the table between its marks; --check only says whether the page has another one, and ends with 1 if so."""
import pathlib
import re
import sys

import parts

PAGE = parts.SOURCES / "docs/reference/image.md"
BEGIN, END = "<!-- made by release/contents.py -->\n", "<!-- end -->\n"
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


def table(build):
    programs = {name: parts.program_of(build, name) for name in parts.PROGRAMS}
    kind = parts.processor(next(iter(programs.values())))
    vendor = {parts.library(soname, kind) for soname in parts.FOR_VENDOR} - {None}
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


def main():
    build, check = pathlib.Path(sys.argv[1]), "--check" in sys.argv[2:]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    text = before + BEGIN + "".join(table(build)) + END + after
    if text == PAGE.read_text():
        return 0
    print(f"docs/reference/image.md {'does not list what is in the image: release/contents.py BUILD mends it' if check else 'is written'}")
    if not check:
        PAGE.write_text(text)
    return check


if __name__ == "__main__":
    sys.exit(main())
