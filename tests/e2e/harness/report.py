# SPDX-License-Identifier: Apache-2.0
"""A line for every case, and a count at the end."""
import time
import traceback

from .waiting import Failed


class Report:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.logs = list  # returns the files whose last lines are shown where a case fails

    def say(self, text):
        print(text, flush=True)

    def case(self, name, run):
        """Runs one case; returns whether it passed."""
        start = time.monotonic()
        try:
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
        self.say(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
