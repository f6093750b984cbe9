#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names mean one thing: no two files of the product define the same struct, union or enum tag, enumerator, typedef or macro.

Also those that only one file sees, so that a search for a name finds one thing. A macro may stand in two files with the same
text, or be taken back with #undef. The tests may repeat names, but none that begins with gt_ or GT_, but for a struct that a
source of the product keeps to itself."""
import collections
import os
import re
import subprocess
import sys

# Names that are defined twice until they are renamed. One that is defined once must leave this list.
EXCEPTIONS = set("""
    ACCEPTS_AT_ONCE ANSWER_MAX BACKLOG BODY_MAX CALLS_MAX CONTAINER DEADLINE_MS DEPTH_MAX DESCRIPTORS_NEEDED
    DEVICES_MAX DIGITS_MAX EVENTS_PER_MINUTE FILE_MAX FORMAT_JSON GT_PLAN_PODS_MAX GT_POD_CONTAINERS_MAX
    GUARD HEAD HEAD_MAX IDLE ID_BITS KEPT_BYTES KEPT_COUNT KEY KEYS_MAX LEAF LEAVE_MS
    LEVEL_MX LIBRARY LOOK_MS MESSAGE_MAX NAMESPACE NAME_MAX_BYTES NODE NODE_NAME NOTES_MAX NOTE_MAX OBJECT PAIRS_NAMED
    PATH_MAX_BYTES PAUSE_FIRST_MS PAUSE_MAX_MS PAUSE_MS POD PROGRESS_STEP REGISTER_TIMEOUT_MS RESTARTS_MAX ROLES_MAX
    RUNNING_MAX SEARCH_LIMIT_US SPEED_MAX STACK_BYTES STREAM_TIMEOUT_MS SYNC_MS TEXT_MAX TIMEOUT_MS TROUBLE_MAX
    VALUE_MAX WIDTH_MAX answer call done_letter entry facts gt_option gt_part gt_plan_pod gt_plan_request
    gt_pod_container gt_pod_containers gt_queue gt_scan_callback id kind letter maker members names options parts pen
    place question reader row run scanner search server slot spread state verdict wanted writer
""".split())

TAG = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
ENUM = re.compile(r"\benum\b(?:\s+\w+)?\s*\{([^}]*)\}")
TYPEDEF = re.compile(r"^typedef\b[^;{]*?\(?\*?(\w+)\)?(?:\([^;]*\))?;", re.M)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.M)


def strip_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
                  lambda m: "\n" * m.group(0).count("\n") or '""', text, flags=re.S)


def enumerators(text):
    for body in ENUM.findall(text):
        while (flat := re.sub(r"\([^()]*\)", "", body)) != body:  # what stands in brackets is no enumerator
            body = flat
        yield from re.findall(r"(?:^|,)\s*([A-Za-z_]\w*)", body)


def definitions(path, text, raw):
    """(kind, name, what may be repeated): a macro with the same text is the same macro."""
    for name in TAG.findall(text):
        yield "tag", name, None
    for name in enumerators(text):
        yield "constant", name, None
    for name in TYPEDEF.findall(text):
        yield "typedef", name, None
    for name, body in MACRO.findall(raw):
        if not re.search(rf"^\s*#\s*undef\s+{name}\b", raw, re.M):
            yield "constant", name, " ".join(body.split())


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    files = subprocess.run(["git", "ls-files", "*.c", "*.h"], check=True, capture_output=True, text=True).stdout.split()
    found = collections.defaultdict(lambda: collections.defaultdict(list))  # (kind, name) -> file -> texts
    for path in filter(os.path.exists, files):
        raw = open(path, encoding="utf-8").read()
        for kind, name, text in definitions(path, strip_comments(raw), raw):
            found[kind, name][path].append(text)
    problems, twice = [], set()
    for (kind, name), places in sorted(found.items()):
        product = [path for path in places if not path.startswith("tests/")]
        if name.lower().startswith("gt_") and not (kind == "tag" and all(path.endswith(".c") for path in product)):
            product = list(places)
        texts = {text for path in product for text in places[path]}
        if len(product) < 2 or (len(texts) == 1 and None not in texts):
            continue
        twice.add(name)
        if name not in EXCEPTIONS:
            problems.append(f"{kind} {name} is defined in {', '.join(sorted(product))}")
    for name in sorted(EXCEPTIONS - twice):
        problems.append(f"{name} is defined once: take it from EXCEPTIONS in tests/lint/check_names.py")
    print("\n".join(problems))
    print(f"{len(found)} names, {len(EXCEPTIONS)} exceptions")
    sys.exit(bool(problems))


main()
