#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explores the table of what may happen to a job, scheduler-ext/placement/job_states.def.

A job is in a state, and in the queue of waiting jobs or not. It comes into the queue with the event NotTried, and leaves it
at any time. Wanted: each state and each event can happen; nothing that is not ours, or refused, is in the queue; what a
try says may be told wherever a job in the queue can be; from everywhere a job can be placed and can cease to be ours.
Each word has its row on the pages of symptoms and of reasons, and a test names it.
"""
import pathlib
import re
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACEMENT = ROOT / "scheduler-ext/placement"
ROW = re.compile(r'^JOB_EVENT\("(\w*)", (\w+), (\w+), (\w+), "([^"]+)"\)$', re.M)
NEVER_QUEUED = ("NONE", "REFUSED")
ENTERS = "NotTried"


class Event(NamedTuple):
    word: str
    to: str
    start: str
    queue: str
    why: str

    def takes(self, state, queued):
        start = {"ANY": True, "QUEUED": state not in NEVER_QUEUED, "CHANGED": state != self.to}[self.start]
        return start and {"IN": queued, "OUT": not queued, "EITHER": True}[self.queue]


def steps(events, at):
    state, queued = at
    if queued:
        yield None, (state, False)
    for event in events:
        if event.takes(state, queued or event.word == ENTERS):
            yield event, (event.to, queued or event.word == ENTERS)


def explore(events, start):
    reached, stack, used = {start}, [start], set()
    while stack:
        for event, after in steps(events, stack.pop()):
            used.add(event)
            if after not in reached:
                reached.add(after)
                stack.append(after)
    return reached, used


def faults(events, states):
    reached, used = explore(events, ("NONE", False))
    for state in states:
        if (state, False) not in reached:
            yield f"{state} is not reached"
    for event in events:
        if event not in used:
            yield f"{event} cannot happen"
    tries = [event for event in events if event.queue == "IN"]
    for state, queued in sorted(reached):
        if queued and state in NEVER_QUEUED:
            yield f"{state} is in the queue"
        for event in tries if queued else ():
            if not event.takes(state, queued):
                yield f"{event.word} cannot be told to a job in the queue, in {state}"
        ends = {after for after, _ in explore(events, (state, queued))[0]}
        if not {"PLACED", "NONE"} <= ends:
            yield f"{state} has no way out"
    if len({event[:4] for event in events}) != len(events):
        yield "an event is there twice"


def main():
    table = (PLACEMENT / "job_states.def").read_text(encoding="utf-8")
    header = (PLACEMENT / "controller.h").read_text(encoding="utf-8")
    events = [Event(*row) for row in ROW.findall(table)]
    states = re.findall(r"GT_PLACEMENT_(\w+)", re.search(r"enum gt_placement_state \{(.*?)GT_PLACEMENT_STATES", header, re.S).group(1))
    found = list(faults(events, states))
    if len(events) != table.count("\nJOB_EVENT("):
        found.append("a line of the table is not read")
    # A lack of any of these rules is found.
    for broken in ([event for event in events if event.to != "REFUSED"],
                   [event for event in events if event.word != ENTERS],
                   [event._replace(queue="EITHER") for event in events],
                   [event._replace(start="CHANGED") for event in events]):
        if not list(faults(broken, states)):
            found.append("a broken table is not found")
    words = {event.word for event in events}
    for path in sorted(PLACEMENT.glob("*.c")):
        text = path.read_text(encoding="utf-8")
        used = [word for call in re.findall(r"gt_placement_set_state\(.*?\);", text, re.S) for word in re.findall(r'(?<=[\s(])"([A-Z]\w*)"', call)]
        used += re.findall(r'\[GT_(?:PLAN|PODS|OWNER)_(?!PLACED)\w+\] = "(\w+)"', text)
        found += [f"{path.name}: the table lacks {word}" for word in used if word not in words]
    said = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("troubleshooting.md", "reference/reasons.md"))
    tests = "".join(path.read_text(encoding="utf-8") for folder in ("integration", "e2e", "unit", "machines")
                    for path in (ROOT / "tests" / folder).rglob("*.*")
                    if path.suffix in (".py", ".c", ".h") and path.name != "test_placement_states.c")
    for word in sorted({event.word for event in events} - {""}):
        if not re.search(rf"\b{word}\b", said):
            found.append(f"neither docs/troubleshooting.md nor docs/reference/reasons.md has {word}")
        if not re.search(rf"\b{word}\b", tests):
            found.append(f"no test has {word}")
    print(f"{len(states)} states, {len(events)} events")
    print("\n".join(found) or "as expected")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
