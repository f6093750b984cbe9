# SPDX-License-Identifier: Apache-2.0
"""Programs with everything that they need: libraries, loader, licences and a bill of materials."""
import io
import pathlib
import tarfile
import tempfile

import gomodules
import parts
import sbom

SBOM = "usr/share/doc/gputopo/sbom.spdx.json"


def stripped(program):
    with tempfile.NamedTemporaryFile() as out:
        parts.ask(parts.tool("strip", program), "-o", out.name, program)
        return pathlib.Path(out.name).read_bytes()


def contents(build, names, sonames=()):
    """{place below the root: (mode, bytes)} of the programs with these names, and of all that is needed for them; `sonames`:
    libraries besides, where this machine has them."""
    kind = parts.processor(parts.program_of(build, names[0]))
    besides = {parts.library(soname, kind) for soname in sonames} - {None}
    needed = besides.union(*(parts.libraries(path) for path in besides),
                           *(parts.libraries(parts.program_of(build, name)) | parts.opened(build, name) for name in names))
    debian = {path.lstrip("/"): path for path in needed}
    programs = {name: stripped(parts.program_of(build, name)) for name in names}
    shipped = {place: (parts.owner(path), pathlib.Path(path).read_bytes()) for place, path in debian.items()}
    packages = parts.owners(needed).union(*(parts.owners(parts.archives(build, name)) for name in names))
    tree = {f"usr/bin/{name}": (0o755, data) for name, data in programs.items()}
    tree.update({place: (0o755, data) for place, (_, data) in shipped.items()})
    tree.update({place: (0o644, path.read_bytes()) for place, path in parts.licences(packages).items()})
    for name in set(names) & set(gomodules.PROGRAMS):
        tree.update({place: (0o644, path.read_bytes()) for place, path in gomodules.licences(parts.program_of(build, name)).items()})
    tree[SBOM] = 0o644, sbom.document(build, programs, shipped).encode()
    return tree


def add(tar, name, data, mode=0o644, mtime=0):
    """One file, which says nothing of who packed it, and when."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), mode, mtime
    tar.addfile(info, io.BytesIO(data))
