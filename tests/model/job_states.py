#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explores the table of what may happen to a job, scheduler-ext/placement/job_states.def.

A job is in a state, and in the queue of waiting jobs or not. It comes into the queue with the event that ENTERS, and leaves
it at any time. Wanted: each state and each event can happen; nothing that is not ours, refused or planned is in the queue;
what a try says may be told wherever a job in the queue can be; from everywhere a job can be placed and can cease to be ours.
Each word has its row on the pages of symptoms and of reasons.

job_states.py --happened FOLDER TEST... compares the table with the events that placement-host has noted in FOLDER, a file a
test: each is in the table, and each event and each state of the table has happened. Then it empties FOLDER, so that the next
comparison is of new runs. Where one of the tests has not run: 77, which skips it.
"""
import pathlib
import re
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACEMENT = ROOT / "scheduler-ext/placement"
ROW = re.compile(r'^JOB_EVENT\("(\w*)", (\w+), (\w+(?:\([\w, ]+\))?), (\w+), "([^"]+)"\)$', re.M)
QUEUED = ("GATHERS", "WAITS", "PLACED", "LOST")


class Event(NamedTuple):
    word: str
    to: str
    start: str
    queue: str
    why: str

    def takes(self, state, queued):
        """Whether it may be told to a job in this state; `queued`: also with this event."""
        kind, *named = re.findall(r"\w+", self.start)
        start = {"ANY": True, "QUEUED": state in QUEUED, "ONE_OF": state in named, "BUT": state not in named}[kind]
        if not queued:
            return start and self.queue in ("OUT", "EITHER")
        return start and (self.queue == "ENTERS" or (state in QUEUED and self.queue != "OUT"))


def steps(events, at):
    state, queued = at
    if queued:
        yield None, (state, False)
    for event in events:
        if event.takes(state, queued or event.queue == "ENTERS"):
            yield event, (event.to, event.queue == "ENTERS" or (queued and event.queue != "LEAVES"))


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
    tries = [event for event in events if event.queue in ("IN", "LEAVES")]
    for state, queued in sorted(reached):
        if queued and state not in QUEUED:
            yield f"{state} is in the queue"
        for event in tries if queued else ():
            if not event.takes(state, queued):
                yield f"{event.word} cannot be told to a job in the queue, in {state}"
        ends = {after for after, _ in explore(events, (state, queued))[0]}
        if not {"PLACED", "NONE"} <= ends:
            yield f"{state} has no way out"
    if len({event[:4] for event in events}) != len(events):
        yield "an event is there twice"


def happened(events, states, folder, tests):
    """What the comparison finds; None: a test has not run."""
    files = {test: folder / test for test in tests if (folder / test).exists()}
    if missing := [test for test in tests if test not in files]:
        print("not compared, since these have not run:", *missing)
        return None
    seen = set()
    for path in folder.iterdir():
        for line in path.read_text(encoding="utf-8").splitlines():
            state, queue, to, word = (*line.split(" "), "")[:4]
            seen.add((state, queue == "IN", word, to))
        path.unlink()
    found = [f"the table does not allow {word or 'no word'}: {state} to {to}, {'in' if queued else 'not in'} the queue"
             for state, queued, word, to in sorted(seen)
             if not any((event.word, event.to) == (word, to) and event.takes(state, queued) for event in events)]
    allowed = {(state, queued, event.word, event.to) for event in events for state in states for queued in (False, True)
               if event.takes(state, queued)}
    print(f"{len(seen)} of {len(allowed)} combinations of a state, an event and the queue have happened")
    found += [f"no test reaches {event.word or 'no word'}, {event.to}, {event.queue}" for event in events
              if not any((event.word, event.to) == (word, to) and event.takes(state, queued) for state, queued, word, to in seen)]
    return found + [f"no test reaches {state}" for state in states if state not in {to for _, _, _, to in seen}]


def main():
    table = (PLACEMENT / "job_states.def").read_text(encoding="utf-8")
    header = (PLACEMENT / "controller.h").read_text(encoding="utf-8")
    events = [Event(*row) for row in ROW.findall(table)]
    states = re.findall(r"GT_PLACEMENT_(\w+)", re.search(r"enum gt_placement_state \{(.*?)GT_PLACEMENT_STATES", header, re.S).group(1))
    if sys.argv[1:2] == ["--happened"]:
        found = happened(events, states, pathlib.Path(sys.argv[2]), sys.argv[3:])
        if found is None:
            return 77
        print("\n".join(found) or "as expected")
        return 1 if found else 0
    found = list(faults(events, states))
    if len(events) != table.count("\nJOB_EVENT("):
        found.append("a line of the table is not read")
    # A lack of any of these rules is found.
    for broken in ([event for event in events if event.to != "REFUSED"],
                   [event for event in events if event.queue != "ENTERS"],
                   [event._replace(queue="EITHER") if event.queue == "OUT" else event for event in events],
                   [event._replace(queue="IN") if event.queue == "LEAVES" else event for event in events],
                   [event._replace(start=f"BUT({event.to})") for event in events],
                   [event._replace(start="ONE_OF(WAITS, WRITES)") if event.queue == "IN" else event for event in events]):
        if not list(faults(broken, states)):
            found.append("a broken table is not found")
    words = {event.word for event in events}
    for path in sorted(PLACEMENT.glob("*.c")):
        text = path.read_text(encoding="utf-8")
        used = [word for call in re.findall(r"gt_placement_set_state\(.*?\);", text, re.S) for word in re.findall(r'(?<=[\s(])"([A-Z]\w*)"', call)]
        used += re.findall(r'\[GT_(?:PLAN|PODS|OWNER)_(?!PLACED)\w+\] = "(\w+)"', text)
        found += [f"{path.name}: the table lacks {word}" for word in used if word not in words]
    said = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("troubleshooting.md", "reference/reasons.md"))
    for word in sorted(words - {""}):
        if not re.search(rf"\b{word}\b", said):
            found.append(f"neither docs/troubleshooting.md nor docs/reference/reasons.md has {word}")
    print(f"{len(states)} states, {len(events)} events")
    print("\n".join(found) or "as expected")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
