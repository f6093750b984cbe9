# SPDX-License-Identifier: Apache-2.0
"""./dev test: which argument is a preset and which is a test's name, with programs that only write down how they are called."""
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
CALLED = ("cmake", "ctest", "ninja")


class Arguments(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gputopo-dev-")
        self.addCleanup(shutil.rmtree, self.dir)
        for name in ("dev", "CMakePresets.json"):
            shutil.copy(os.path.join(ROOT, name), self.dir)
        bin_dir = os.path.join(self.dir, "bin")
        os.mkdir(bin_dir)
        for name, text in [(name, f'echo {name} "$@" >>{self.dir}/calls') for name in CALLED] + [
                ("dpkg-query", "printf installed"), ("prometheus", ""), ("promtool", "")]:
            with open(os.path.join(bin_dir, name), "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(file.name, 0o755)

    def calls(self, *args):
        """What a run starts: {program: its arguments}."""
        done = subprocess.run([os.path.join(self.dir, "dev"), *args], capture_output=True, text=True, check=False,
                              env=os.environ | {"PATH": f"{self.dir}/bin:{os.environ['PATH']}"})
        self.assertEqual(0, done.returncode, done.stderr)
        with open(os.path.join(self.dir, "calls"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        os.unlink(file.name)
        return {line.split()[0]: line.split()[1:] for line in lines}

    def check(self, args, directory, name):
        calls = self.calls("test", *args)
        self.assertEqual(["-C", directory], calls["ninja"][:2])
        self.assertEqual(["--test-dir", directory], calls["ctest"][:2])
        self.assertEqual(["-R", name] if name else [], [a for a in calls["ctest"][-2:] if a in ("-R", name)])

    def test_a_name_needs_no_slash(self):
        self.check(["placement_webhook"], "build", "placement_webhook")
        self.check(["unit/placement_webhook"], "build", "unit/placement_webhook")

    def test_a_preset_may_follow_a_name(self):
        self.check(["placement_webhook", "asan"], "build-asan", "placement_webhook")

    def test_presets_are_no_names(self):
        self.check([], "build", None)
        self.check(["asan"], "build-asan", None)
        self.check(["release"], "build", None)

    def test_the_hidden_preset_and_a_pattern_are_names(self):
        self.check(["base"], "build", "base")
        self.check([".*"], "build", ".*")

    def test_what_follows_a_name_is_a_preset(self):
        done = subprocess.run([os.path.join(self.dir, "dev"), "test", "webhook", "nothing"], capture_output=True, text=True,
                              check=False, env=os.environ | {"PATH": f"{self.dir}/bin:{os.environ['PATH']}"})
        self.assertEqual((2, "./dev: build: there is no preset nothing\n"), (done.returncode, done.stderr))


if __name__ == "__main__":
    unittest.main()
