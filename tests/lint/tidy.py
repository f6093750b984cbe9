#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy: tidy.py BUILD_DIR FILE...

What passed is kept by its content in ${XDG_CACHE_HOME:-~/.cache}/gputopo/tidy: the text that the compiler sees, comments too,
and the checks. Only what is not known there is looked at."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

AT_ONCE = 6  # files a process: each start of clang-tidy reads its own tables


def content(command):
    """A hash of one file as it is compiled, None where it cannot be."""
    words = shlex.split(command["command"])
    words = words[words.index(next(w for w in words if "clang" in os.path.basename(w))):]  # without a launcher
    done = subprocess.run([*words[:words.index("-o")], "-E", "-P", "-C", "-dD", command["file"]], cwd=command["directory"], capture_output=True, check=False)
    return hashlib.sha256(done.stdout) if done.returncode == 0 else None


def keep(cache, stamps):
    cache.parent.mkdir(parents=True, exist_ok=True)
    part = cache.with_suffix(f".{os.getpid()}")
    part.write_text("\n".join(sorted(stamps)) + "\n", encoding="ascii")
    part.rename(cache)


def main():
    build, files = sys.argv[1], sys.argv[2:]
    commands = {os.path.relpath(c["file"]): c for c in json.load(open(f"{build}/compile_commands.json", encoding="utf-8"))}
    checks = open(".clang-tidy", "rb").read() + subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "gputopo" / "tidy"
    passed = set(cache.read_text(encoding="ascii").split()) if cache.exists() else set()

    def stamp(file):
        text = content(commands[file]) if file in commands else None
        if text is None:
            return None
        text.update(checks)
        return text.hexdigest()

    def run(some):
        return subprocess.run(["clang-tidy", "-p", build, "--quiet", *some], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        stamps = dict(zip(files, pool.map(stamp, files)))
        left = [file for file in files if stamps[file] not in passed]
        parts = [left[i:i + AT_ONCE] for i in range(0, len(left), AT_ONCE)]
        is_bad, good = False, {stamps[file] for file in files} & passed
        for part, done in zip(parts, pool.map(run, parts)):
            if done.returncode or done.stdout.strip():
                is_bad = True
                print(done.stdout, end="")
            else:
                good.update(stamps[file] for file in part)
                keep(cache, good - {None})  # what passed is known, also where this one is ended
    return is_bad


sys.exit(main())
