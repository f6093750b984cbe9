# SPDX-License-Identifier: Apache-2.0
"""The Go modules that a program was made of, as its own build information lists them, and the licences in their sources."""
import functools
import pathlib
import re

import parts

SOURCES = parts.SOURCES / "scheduler-ext/volcano/vc-scheduler"
PROGRAMS = ("vc-scheduler",)
LICENCE = re.compile(r"^(licen[cs]e|copying|notice)([-.].*)?$", re.I)


@functools.cache
def modules(program):
    """[(path, version)] of what is in it, but for our own."""
    lines = parts.ask("go", "version", "-m", program).splitlines()
    found = [line.split("\t")[1:] for line in lines if line.startswith(("\tdep\t", "\t=>\t"))]
    replaced = {number - 1 for number, fields in enumerate(found) if fields[0] == "=>"}
    return sorted((fields[1], fields[2]) for number, fields in enumerate(found) if number not in replaced)


@functools.cache
def directory(module):
    """Where the sources of (path, version) lie: they were built from, so they are there."""
    escaped = [re.sub("[A-Z]", lambda letter: "!" + letter.group(0).lower(), part) for part in module]
    return pathlib.Path(parts.ask("go", "env", "GOMODCACHE").strip(), "@".join(escaped))


def licences(program):
    """{place: file} of the licence texts of its modules; every module must have one."""
    found = {}
    for module in modules(program):
        root = directory(module)
        files = [path for path in (sorted(root.iterdir()) if root.is_dir() else []) if LICENCE.match(path.name) and path.is_file()]
        if not files:
            raise SystemExit(f"the Go module {'@'.join(module)} has no licence in {root}")
        found.update({f"usr/share/doc/go/{module[0]}/{path.name}": path for path in files})
    return found


def package(module):
    """A module as SPDX has it."""
    path, version = module
    return {"SPDXID": "SPDXRef-Go-" + re.sub(r"[^A-Za-z0-9.-]", "-", path), "name": path, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:golang/{path}@{version}"}]}
