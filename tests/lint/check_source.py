#!/usr/bin/python3
"""Rules of this project that no compiler checks: floors, one file per third-party API, banned calls, licence lines."""
import re
import subprocess
import sys

# Every floor and the floors it may include from (itself always). One line more when a floor is added.
FLOORS = {
    "base": set(),
    "topology/model": {"base"},
    "api": {"base", "topology/model"},
    "topology/probe": {"base", "topology/model"},
    "topology/discovery": {"base", "topology/model", "topology/probe"},
    "http": {"base"},
    "proto": set(),
    "deviceplugin": {"base", "topology/model", "proto"},
    "agent": {"base", "topology/model", "topology/probe", "topology/discovery", "http", "deviceplugin", "kube", "api"},
    "kube": {"base", "api"},
    "scheduler-ext/supernodes": {"base", "kube"},
    "scheduler-ext/core": {"base", "topology/model"},
    "scheduler-ext/picture": {"base", "topology/model", "scheduler-ext/core"},
    "scheduler-ext/jobs": {"base", "api", "topology/model", "scheduler-ext/core"},
    "scheduler-ext/file": {"base", "topology/model", "scheduler-ext/core"},
    "scheduler-ext/sim": {"base", "topology/model", "scheduler-ext/core", "scheduler-ext/supernodes"},
    "scheduler-ext/cache": {"base", "api", "topology/model", "scheduler-ext/core", "scheduler-ext/jobs"},
    "scheduler-ext/wire": {"base", "api"},
    "scheduler-ext/owners": {"base", "api", "kube", "scheduler-ext/jobs"},
    "scheduler-ext/decide": {"base", "api", "kube", "scheduler-ext/core", "scheduler-ext/jobs", "scheduler-ext/cache", "scheduler-ext/owners"},
    "scheduler-ext/placement": {"base", "api", "kube", "scheduler-ext/core", "scheduler-ext/cache", "scheduler-ext/owners",
                                "scheduler-ext/decide"},
    "scheduler-ext/volcano": {"base", "api", "kube", "topology/model", "scheduler-ext/core", "scheduler-ext/jobs", "scheduler-ext/cache",
                              "scheduler-ext/owners", "scheduler-ext/decide"},
    "scheduler-ext/kueue": {"base", "api", "kube", "scheduler-ext/core", "scheduler-ext/jobs", "scheduler-ext/cache", "scheduler-ext/owners",
                            "scheduler-ext/decide"},
    "scheduler-ext/webhook": {"base", "api", "kube", "scheduler-ext/jobs", "scheduler-ext/cache", "scheduler-ext/decide", "scheduler-ext/wire",
                              "scheduler-ext/placement"},
    "scheduler-ext/serve": {"base", "api", "topology/model", "http", "scheduler-ext/core", "scheduler-ext/jobs",
                            "scheduler-ext/cache", "scheduler-ext/decide", "scheduler-ext/wire", "scheduler-ext/placement", "scheduler-ext/picture"},
    "scheduler-ext/companion": {"base", "api", "topology/model", "http", "kube", "scheduler-ext/core", "scheduler-ext/jobs",
                                "scheduler-ext/supernodes", "scheduler-ext/cache", "scheduler-ext/decide", "scheduler-ext/wire",
                                "scheduler-ext/owners", "scheduler-ext/placement", "scheduler-ext/kueue", "scheduler-ext/webhook", "scheduler-ext/serve"},
    "cli": {"base", "deviceplugin", "api", "kube", "topology/model", "topology/probe", "topology/discovery", "scheduler-ext/core", "scheduler-ext/jobs",
            "scheduler-ext/file", "scheduler-ext/sim", "scheduler-ext/picture"},
}

# A third-party header, and the files that may include it: each API stays replaceable in one place.
THIRD_PARTY = {
    r"<hwloc": 1,
    r"<pci/": 1,
    r"<libudev": 1,
    r"<microhttpd": 2,  # the server, and its requests
    r"<zlib\.h": 1,
    r"<gnutls/": 1,
    r"<yaml\.h": 2,  # one writes YAML, one reads it
    r"<curl/": 1,
    r"<dlfcn\.h": 2,  # the vendor library, and libcurl
    r"<grpc/": 4,  # queue, server, client and the small header they share
}

BANNED = re.compile(
    r"(?<![\w.>])(sprintf|vsprintf|strcpy|strcat|strncpy|strncat|gets|atoi|atol|atof|strtok|strtok_r|alloca|system|"
    r"sscanf|popen|tmpnam|mktemp)\s*\(")


def strip_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"",
                  lambda m: "\n" * m.group(0).count("\n") or '""', text, flags=re.S)


def floor_of(path):
    return max((floor for floor in FLOORS if path.startswith(floor + "/")), key=len, default=None)


def main():
    problems = []
    files = subprocess.run(["git", "ls-files", "*.c", "*.h"], check=True, capture_output=True, text=True).stdout.split()
    users = {pattern: set() for pattern in THIRD_PARTY}
    for path in files:
        text = open(path, encoding="utf-8").read()
        if "SPDX-License-Identifier: Apache-2.0" not in text[:200]:
            problems.append(f"{path}:1: no SPDX licence line")
        floor = floor_of(path)
        if not floor:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            include = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            other = floor_of(include.group(1)) if include else None
            if other and other != floor and other not in FLOORS[floor]:
                problems.append(f"{path}:{number}: {floor} must not use {other}")
            for pattern in THIRD_PARTY:
                if re.match(r"\s*#\s*include\s+" + pattern, line):
                    users[pattern].add(path)
        for number, line in enumerate(strip_comments(text).splitlines(), 1):
            call = BANNED.search(line)
            if call:
                problems.append(f"{path}:{number}: {call.group(1)}() is not used here")
    for pattern, limit in THIRD_PARTY.items():
        if len(users[pattern]) > limit:
            problems.append(f"{pattern} is included by {', '.join(sorted(users[pattern]))}: at most {limit} may")
    print("\n".join(problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
