#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The daemons with the system calls of daemonset/seccomp alone: other tests' cases, with programs that are confined.

Usage: test_seccomp.py DIRECTORY_OF_PROGRAMS FAKE_LIBRARY [unittest arguments]"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from kubelet_double import KubeletDouble

HERE = pathlib.Path(__file__).resolve().parent
PROFILE = HERE.parents[1] / "daemonset/seccomp/gputopo.json"
PROGRAMS, LIBRARY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


@unittest.skipUnless(os.path.exists("/proc/sys/kernel/seccomp/actions_avail"), "this kernel has no seccomp filters")
@unittest.skipUnless(shutil.which("cc"), "there is no C compiler for the numbers of system calls")
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

    def all_pass(self, *tests):
        """At the same time, since they wait most of theirs."""
        started = [subprocess.Popen([sys.executable, HERE / test, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                   for test, *arguments in tests]
        for one in started:
            said, _ = one.communicate()
            self.assertEqual(one.returncode, 0, said[-3000:])
            self.assertRegex(said, r"Ran [1-9]\d* tests? in ")

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

    def test_check_node(self):
        """The agent starts it."""
        program = [f"{PROGRAMS}/gputopo", "check-node", "-o", "json"]
        free, confined = (json.loads(subprocess.run([*before, *program], stdout=subprocess.PIPE, check=True).stdout)["checks"]
                          for before in ([], ["/usr/bin/python3", HERE / "confined.py", PROFILE]))
        self.assertEqual([(one["name"], one["verdict"]) for one in confined], [(one["name"], one["verdict"]) for one in free])

    def test_the_daemons(self):
        agent, companion = self.programs / "gputopo-agent", self.programs / "gputopo-scheduler"
        self.all_pass(["test_agent.py", self.programs, LIBRARY, "-k", "near_their", "-k", "life_of_a_node"],
                      ["test_dra.py", agent, "DraTest.test_prepares_the_same_again", "DraTest.test_slices"],
                      ["test_health.py", self.programs, LIBRARY, "Health.test_each_boot_is_checked_once"],  # it starts a program
                      ["test_companion.py", companion, "Listing", "Volcano.test_tiers_and_members", "Leading.test_one_of_two_writes"],
                      ["test_extender.py", companion, "Answers.test_prioritize"])


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("runc"), "needs root and runc")
@unittest.skipUnless(pathlib.Path(PROGRAMS).parent.name == "build", "the image is of the release")
class Container(unittest.TestCase):
    """What a container runtime makes of the profile: runc itself makes system calls after it has set it."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="gputopo-seccomp-")
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)
        self.root = self.directory / "rootfs"
        self.kubelet = KubeletDouble(str(self.directory / "kubelet"))

    def runc(self, *arguments, **options):
        return subprocess.run(["runc", "--root", self.directory / "state", *arguments], cwd=self.directory, check=True, **options)

    def started(self, *command):
        """A container of the image, as restricted as the agent's; returns its first process."""
        subprocess.run([HERE.parents[1] / "daemonset/image", pathlib.Path(PROGRAMS).parent, self.root, "--tree"], check=True, stdout=subprocess.DEVNULL)
        shutil.copy(HERE.parent / "machines/c500-8.json", self.root / "etc/node.json")
        (self.root / "etc/dev/dri").mkdir(parents=True)
        for gpu in json.loads((self.root / "etc/node.json").read_text())["node"]["gpus"]:
            for kind, key in (("card", "card"), ("renderD", "render")):
                (self.root / f"etc/dev/dri/{kind}{gpu['drm'][key]}").symlink_to("/dev/null")
        (self.root / "etc/dev/mxcd").symlink_to("/dev/null")
        (self.root / "var/lib/kubelet").mkdir(parents=True)
        self.runc("spec")
        spec = json.loads((self.directory / "config.json").read_text())
        spec["process"].update(terminal=False, args=command, noNewPrivileges=True, capabilities={})
        spec["linux"].update(seccomp=json.loads(PROFILE.read_text()), resources={})
        spec["mounts"].append({"destination": "/var/lib/kubelet", "type": "bind", "source": self.kubelet.root, "options": ["rbind", "rw"]})
        (self.directory / "config.json").write_text(json.dumps(spec))
        name = self.directory.name
        with open(self.directory / "log", "w") as log:
            self.runc("run", "--detach", name, stdout=log, stderr=log)
        self.addCleanup(self.runc, "delete", "--force", name)
        return json.loads(self.runc("state", name, stdout=subprocess.PIPE).stdout)["pid"]

    def test_the_agent(self):
        self.kubelet.start()
        self.addCleanup(self.kubelet.stop)
        process = self.started("/usr/bin/gputopo-agent", "--from=/etc/node.json", "--dev-root=/etc/dev", "--no-publish")
        self.assertTrue(self.kubelet.wait_healthy(8), (self.directory / "log").read_text())
        self.assertEqual(len(self.kubelet.admit("train", 4)[0]), 4)
        status = pathlib.Path(f"/proc/{process}/status").read_text()
        for line in ("CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "Seccomp_filters:\t1"):
            self.assertIn(line, status)


if __name__ == "__main__":
    unittest.main()
