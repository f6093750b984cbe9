# SPDX-License-Identifier: Apache-2.0
"""A line for every case, and a count at the end."""
import time
import traceback

from .waiting import Failed


def quick(run):
    """Marks a case of the quick form: a suite's main way, its invariants, and the cases that these stand on."""
    run.quick = True
    return run


class Report:
    def __init__(self, is_quick=False):
        """`is_quick`: the cases that are marked, alone."""
        self.is_quick = is_quick
        self.passed = self.failed = self.skipped = self.left_out = 0
        self.logs = list  # returns the files whose last lines are shown where a case fails

    def say(self, text):
        print(text, flush=True)

    def wants(self, run):
        return not self.is_quick or getattr(run, "quick", False)

    def case(self, name, run, before=lambda: None):
        """Runs one case; returns whether it passed, or was left out by the quick form. `before` is run only where the case is,
        and belongs to it."""
        if not self.wants(run):
            self.left_out += 1
            return True
        start = time.monotonic()
        try:
            before()
            note = run() or ""
        except Failed as failure:
            return self.lost(name, start, str(failure))
        except Exception:
            return self.lost(name, start, "\n".join(traceback.format_exc().splitlines()[-6:]))
        self.passed += 1
        self.say(f"PASS {name} ({time.monotonic() - start:.1f} s)" + (f": {note}" if note else ""))
        return True

    def lost(self, name, start, why):
        self.failed += 1
        self.say(f"FAIL {name} ({time.monotonic() - start:.1f} s): {why}")
        for path in self.logs():
            if path.exists():
                for line in path.read_text(errors="replace").splitlines()[-6:]:
                    self.say(f"     {path.name if path.parent.name == 'log' else path.parent.name}: {line[:250]}")
        return False

    def skip(self, name, why):
        self.skipped += 1
        self.say(f"SKIP {name}: {why}")

    def count(self):
        self.say(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
                 + (f", {self.left_out} left out by the quick form" if self.is_quick else ""))
