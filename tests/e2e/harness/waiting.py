# SPDX-License-Identifier: Apache-2.0
"""Polling instead of sleeping. The limits are long, since a loaded machine is slow."""
import time


class Failed(Exception):
    """A check that does not hold; the text is what the reader of the report sees."""


def until(what, ask, seconds=120, pause=0.2):
    """Asks until the answer is true and returns it. An answer may be (False, why): the last why is told."""
    end = time.monotonic() + seconds
    why = ""
    while True:
        answer = ask()
        if isinstance(answer, tuple) and len(answer) == 2 and answer[0] is False:
            why = f"; last seen: {answer[1]}"
        elif answer:
            return answer
        if time.monotonic() > end:
            raise Failed(f"waited {seconds} s for {what}{why}")
        time.sleep(pause)


def same(got, want, what):
    if got != want:
        raise Failed(f"{what}: got {got!r}, want {want!r}")
