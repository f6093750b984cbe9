#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The daemons with the system calls of daemonset/seccomp alone: other tests' cases, with programs that are confined.

Usage: test_seccomp.py DIRECTORY_OF_PROGRAMS FAKE_LIBRARY [unittest arguments]"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROFILE = HERE.parents[1] / "daemonset/seccomp/gputopo.json"
PROGRAMS, LIBRARY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


class Confined(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="gputopo-seccomp-")
        self.addCleanup(scratch.cleanup)
        self.programs = pathlib.Path(scratch.name)
        for name in os.listdir(PROGRAMS):
            (self.programs / name).symlink_to(f"{PROGRAMS}/{name}")
        for name in ("gputopo-agent", "gputopo-scheduler"):
            (self.programs / name).unlink()
            (self.programs / name).write_text(f'#!/bin/sh\nexec /usr/bin/python3 {HERE}/confined.py {PROFILE} {PROGRAMS}/{name} "$@"\n')
            (self.programs / name).chmod(0o755)

    def passes(self, test, *arguments):
        done = subprocess.run([sys.executable, HERE / test, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:])
        self.assertRegex(done.stdout, r"Ran [1-9]\d* tests? in ")

    def test_what_is_not_in_it_fails(self):
        """And not by chance: without the profile it does not."""
        chown = ["/usr/bin/python3", "-c", "import os; os.chown('/', -1, -1)"]
        confined = subprocess.run(["/usr/bin/python3", HERE / "confined.py", PROFILE, *chown], stderr=subprocess.PIPE, text=True, check=False)
        self.assertIn("Function not implemented", confined.stderr)
        self.assertEqual(subprocess.run(chown, check=False).returncode, 0)

    def test_the_list(self):
        rules = json.loads(PROFILE.read_text())["syscalls"]
        self.assertEqual([rule["action"] for rule in rules], ["SCMP_ACT_ALLOW"])
        self.assertEqual(rules[0]["names"], sorted(set(rules[0]["names"])))
        self.assertIn(f"allows the {len(rules[0]['names'])} system calls", (HERE.parents[1] / "docs/reference/permissions.md").read_text())

    def test_the_agent(self):
        self.passes("test_agent.py", self.programs, LIBRARY, "-k", "near_their", "-k", "life_of_a_node")
        self.passes("test_dra.py", self.programs / "gputopo-agent", "DraTest.test_prepares_the_same_again", "DraTest.test_slices")
        self.passes("test_health.py", self.programs, LIBRARY, "Health.test_admitted_after_the_check")  # it starts a program

    def test_the_companion(self):
        self.passes("test_companion.py", self.programs / "gputopo-scheduler", "Listing", "Volcano.test_tiers_and_members", "Leading.test_one_of_two_writes")
        self.passes("test_extender.py", self.programs / "gputopo-scheduler", "Answers.test_prioritize")


if __name__ == "__main__":
    unittest.main()
