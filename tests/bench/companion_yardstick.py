# SPDX-License-Identifier: Apache-2.0
"""How fast the CPU is while a bench runs: on a shared host the same work takes up to 1.5 times the CPU time a minute later."""

import contextlib
import json
import multiprocessing
import time

PAUSE_S = 0.01


def work(sums, ended):
    """The same work again and again, mostly memory, as the programs under test have it; about 2 % of a core."""
    text = json.dumps({f"pod-{i}": {"labels": {"job": f"job-{i // 8}"}, "gpus": [i] * 5} for i in range(150)})
    while not ended.is_set():
        begin = time.process_time_ns()
        json.loads(text)
        used = time.process_time_ns() - begin
        with sums.get_lock():
            sums[0] += 1
            sums[1] += used
        time.sleep(PAUSE_S)


class Yardstick:
    def __init__(self, sums):
        self.sums = sums

    def mark(self):
        with self.sums.get_lock():
            return tuple(self.sums)

    def since(self, mark):
        """Seconds of CPU that the work has taken, the mean since then."""
        runs, used = (after - before for after, before in zip(self.mark(), mark))
        if not runs:
            raise SystemExit("companion_yardstick.py: its work does not run")
        return used / runs / 1e9


@contextlib.contextmanager
def yardstick():
    context = multiprocessing.get_context("spawn")
    sums, ended = context.Array("q", 2), context.Event()
    process = context.Process(target=work, args=(sums, ended), daemon=True)
    process.start()
    try:
        yield Yardstick(sums)
    finally:
        ended.set()
        process.join(5)
        process.kill()
        process.join()
