#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the programs of a build consist of, as Debian packages: those that they are linked with, those whose archives
they contain, and the licences of all of them."""
import functools
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys

PROGRAMS = ("gputopo", "gputopo-agent", "gputopo-probe", "gputopo-scheduler")
LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
# what our own programs open at run time, so that nothing tells: whatever talks to the API server
OPENED = ("libcurl-gnutls.so.4",)
TALKERS = ("gputopo", "gputopo-agent", "gputopo-scheduler")
# what the vendor's library, which is opened at run time from the node's /opt, may be linked with
FOR_VENDOR = ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")
COMMON_LICENSES = pathlib.Path("/usr/share/common-licenses")
SOURCES = pathlib.Path(__file__).resolve().parent.parent


def ask(*command, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def program_of(build, name):
    program = build / "bin" / name
    return program if program.exists() else sys.exit(f"there is no {program}: ./dev build makes it")


def identity(build):
    """(version, commit) as the programs say them."""
    program = program_of(build, "gputopo")
    kind = processor(program)
    emulator = [] if kind == platform.machine() else [f"qemu-{kind}-static"]
    _, version, commit = ask(*emulator, program, "--version").split()
    return version, commit.strip("()")


def epoch():
    """The time that everything made of these sources bears: $SOURCE_DATE_EPOCH, else the commit's; 0 where nobody knows it."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    archived = re.fullmatch(r"[0-9a-f]+ (\d+)\n", (SOURCES / "cmake/commit").read_text())
    if archived:
        return int(archived.group(1))
    told = subprocess.run(["git", "-C", SOURCES, "log", "-1", "--format=%ct"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False)
    return int(told.stdout or 0) if (SOURCES / ".git").exists() else 0


def processor(path):
    """What kind of processor a program or library is for, as uname says it."""
    with open(path, "rb") as file:
        head = file.read(20)
    kind = {62: "x86_64", 183: "aarch64"}.get(int.from_bytes(head[18:20], "little")) if head[:4] == b"\x7fELF" else None
    return kind or sys.exit(f"{path} is no program for amd64 or arm64")


def tool(name, path):
    """The program of binutils that knows the file at `path`."""
    kind = processor(path)
    return name if kind == platform.machine() else f"{kind}-linux-gnu-{name}"


def library(soname, kind):
    """The path under which the loader of such a processor finds it, in Debian's directories; None: there is none."""
    if soname == pathlib.PurePath(LOADERS[kind]).name:
        return LOADERS[kind]
    paths = [f"/lib/{kind}-linux-gnu/{soname}", f"/usr/lib/{kind}-linux-gnu/{soname}"]
    return next((path for path in paths if os.path.exists(path)), None)


@functools.cache
def needed(path):
    """The paths of what the file names itself."""
    kind, found = processor(path), set()
    for soname in re.findall(r"\(NEEDED\).*\[(\S+)\]", ask("readelf", "--dynamic", "--wide", path)):
        found.add(library(soname, kind) or sys.exit(f"{path}: {soname} not found"))
    return found


def libraries(program):
    """The paths under which the loader finds what `program` is linked with, the loader included."""
    found, ahead = set(), {str(program), LOADERS[processor(program)]}
    while ahead:
        found |= ahead
        ahead = set().union(*map(needed, ahead)) - found
    return found - {str(program)}


def opened(build, name):
    """What the program of that name opens at run time, with what that is linked with."""
    if name not in TALKERS:
        return set()
    paths = {library(soname, processor(program_of(build, name))) or sys.exit(f"this machine has no {soname}") for soname in OPENED}
    return paths.union(*map(libraries, paths))


def archives(build, name):
    """The static libraries of Debian packages that the program was linked from, by the link command of the build."""
    if name not in PROGRAMS:
        return set()  # Go links it, with archives of ours alone
    command = ask("ninja", "-C", build, "-t", "commands", "-s", f"bin/{name}")
    return {path for word in shlex.split(command) for path in re.findall(r"/usr/[^,\s]+\.a", word)}


@functools.cache
def all_files():
    """{path: package} of everything that Debian packages have put on this machine."""
    lines = ask("dpkg-query", "-S", "*").splitlines()
    return {path: names.split(",")[0].split(":")[0] for names, path in (line.split(": ", 1) for line in lines if ": " in line)}


def owner(path):
    """The Debian package that the file came with."""
    real = str(pathlib.Path(path).resolve())
    known = all_files()
    return known.get(real) or known.get(real.removeprefix("/usr")) or sys.exit(f"{path} is of no Debian package")


def owners(paths):
    return {owner(path) for path in paths}


def package_copyright(package):
    path = pathlib.Path("/usr/share/doc", package, "copyright")
    return path if path.exists() else sys.exit(f"the package {package} has no {path}")


def licences(packages):
    """{place: file}: the copyright files of the packages and of gputopo, and the licences that they refer to."""
    found = {f"usr/share/doc/{package}/copyright": package_copyright(package) for package in packages}
    found["usr/share/doc/gputopo/copyright"] = SOURCES / "release/copyright"
    texts = "\n".join(path.read_text(errors="replace") for path in found.values())
    for name in {name.rstrip(".") for name in re.findall(rf"{COMMON_LICENSES}/([\w.-]+)", texts)}:
        if (COMMON_LICENSES / name).exists():
            found[f"usr/share/common-licenses/{name}"] = COMMON_LICENSES / name
    return found


def copy_contained(build, component, directory):
    """Copies the copyright files of the packages that the programs of a component contain."""
    names = ("gputopo", "gputopo-probe") if component == "gputopo" else (component,)
    for package in set().union(*(owners(archives(pathlib.Path(build), name)) for name in names)):
        pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(package_copyright(package), pathlib.Path(directory, package))


if __name__ == "__main__":  # for CMake: parts.py epoch, or parts.py contained BUILD_DIR COMPONENT DIRECTORY
    if sys.argv[1] == "epoch":
        print(epoch())
    else:
        copy_contained(*sys.argv[2:])
