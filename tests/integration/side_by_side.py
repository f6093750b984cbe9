# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of one test beside each other: most of their time they wait for pauses of the program under test."""

import concurrent.futures
import subprocess
import sys
import threading
import time
import unittest


def cases_of(suite):
    return [case for part in suite for case in (cases_of(part) if isinstance(part, unittest.TestSuite) else [part])]


def main(processes=4):
    """In place of unittest.main(). Each process has every n-th case; cases named as arguments run one after the other."""
    if len(sys.argv) > 1:
        unittest.main(verbosity=2)
    names = [case.id().removeprefix("__main__.") for case in cases_of(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))]
    printing = threading.Lock()

    def run(part):
        began, report = time.monotonic(), []
        with subprocess.Popen([*sys.orig_argv, *part], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True) as process:
            for line in process.stdout:
                if report or line.startswith("====="):  # what failed: in one piece, at the end
                    report.append(line)
                    continue
                if line.endswith(("ok\n", "FAIL\n", "ERROR\n")):
                    line, began = f"{time.monotonic() - began:6.1f} s  {line}", time.monotonic()
                if line.strip("-\n"):
                    with printing:
                        print(line, end="", flush=True)
        with printing:
            print(*report, sep="", end="", flush=True)
        return process.returncode

    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        codes = list(pool.map(run, filter(None, (names[first::processes] for first in range(processes)))))
    print(f"{len(names)} cases in {len(codes)} processes, exit codes {codes}")
    sys.exit(1 if any(codes) or not names else 0)
