#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the documentation with the tree: links and their anchors, names of pages in sources and of sources in pages,
YAML that can be read; pages for users that are not too many words; every reason of a condition or Event in the list of all; the tests that a page names for its
claims; the README leads to every page.   check_docs.py [ROOT]

Without git and without a build, so that it also runs on an unpacked archive. What pages say of options and metrics is held
against the programs by tests/integration/test_reference.py.
"""

import os
import re
import sys

import yaml

ROOT = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
SKIPPED = re.compile(r"build|\.|__pycache__$|third_party$|vendor$")
SOURCES = (".c", ".h", ".py", ".md", ".yaml", ".sh", ".cmake", ".txt", ".1", ".html", ".js", ".css")

LINK = re.compile(r"\[[^\]\n]*\]\(([^()\s]+)\)")
PAGE = re.compile(r"(?<![\w./-])((?:docs|daemonset)/[\w./-]+\.(?:md|json|yaml))\b(?:#([\w-]+))?")
SOURCE = re.compile(r"(?<![\w*}])[\w./-]+\.[ch]\b")

problems = []


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def files(*starts, ends):
    for start in starts:
        full = os.path.join(ROOT, start)
        if os.path.isfile(full):
            yield start
        for folder, folders, names in os.walk(full):
            folders[:] = sorted(name for name in folders if not SKIPPED.match(name))
            yield from (os.path.relpath(os.path.join(folder, name), ROOT) for name in sorted(names)
                        if name.endswith(ends))


def without_code(text):
    """Blanks fenced blocks and code spans, keeps the lines."""
    text = re.sub(r"^ *```.*?^ *```", lambda m: "\n" * m[0].count("\n"), text, flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text):
    """The anchors that the headings of a page have, by the rule of the common hosts of repositories."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M)
    found, seen = set(), {}
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, flags=re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        number = seen.get(slug, 0)
        seen[slug] = number + 1
        found.add(f"{slug}-{number}" if number else slug)
    return found


def check_links(path):
    for number, line in enumerate(without_code(read(path)).splitlines(), 1):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            other = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if not os.path.exists(os.path.join(ROOT, other)) or other.startswith(".."):
                problems.append(f"{path}:{number}: {target}: there is no {other}")
            elif anchor and other.endswith(".md") and anchor not in anchors(read(other)):
                problems.append(f"{path}:{number}: {target}: {other} has no such heading")


def check_yaml(path):
    text = read(path)
    for match in re.finditer(r"^( *)```ya?ml\n(.*?)^ *```", text, flags=re.S | re.M):
        try:
            list(yaml.safe_load_all(re.sub(r"^ *\.\.\.$", "", match[2], flags=re.M)))  # what is left out
        except yaml.YAMLError as error:
            number = text.count("\n", 0, match.start()) + 1
            problems.append(f"{path}:{number}: this YAML cannot be read: {str(error).splitlines()[0]}")


def check_pages(path):
    """A page that a source names is there, and its heading."""
    for number, line in enumerate(read(path).splitlines(), 1):
        for name, anchor in PAGE.findall(line):
            if not os.path.exists(os.path.join(ROOT, name)):
                problems.append(f"{path}:{number}: there is no {name}")
            elif anchor and anchor not in anchors(read(name)):
                problems.append(f"{path}:{number}: {name} has no heading {anchor}")


def check_sources(path, known):
    """Sources that a page names are there: what it says of how things are built would be wrong first."""
    for number, line in enumerate(read(path).splitlines(), 1):
        for name in SOURCE.findall(line):
            if not any(other.endswith("/" + name.lstrip("./")) for other in known):
                problems.append(f"{path}:{number}: there is no source {name}")


# a statement of the sources that gives a condition or an Event its reason, and words in such statements that are none
REASONED = re.compile(r"\breason\b|\b\w*say\(|_state\(|_event\(|_tell\(|condition_of\(|\bnames\[\]|\bfacts\[|CONDITION_REFUSED|GT_REASON_")
REASON = re.compile(r'"((?:GPU|CDI|[A-Z][a-z])[A-Za-z]+)"')
NO_REASONS = {"Audit", "Conflict", "ConfigMap", "DisruptionTarget", "Discovered", "DoesNotExist", "Evict", "Exists", "False", "Forbidden", "GPUPlacement", "HyperNode",
              "Invalid", "Join", "LinksHealthy", "Move", "Node", "NodeGPUTopology", "Normal", "NotIn", "Observe", "Place", "Placed", "Pod", "PodScheduled", "Preempt", "PreemptionByScheduler", "Project", "Ready",
              "Recreate", "Report", "Supernode", "True", "Unknown", "Unschedulable", "UsageKnown", "VendorLibrary",
              "Warning"}


def given_reasons():
    given = set()
    for path in files("agent", "api", "scheduler-ext", ends=(".c", ".h")):
        if not re.match(r"scheduler-ext/(sim|wire|jobs)/", path):
            for statement in re.sub(r"/\*.*?\*/", "", read(path), flags=re.S).split(";"):
                given |= set(REASON.findall(statement)) if REASONED.search(statement) else set()
    if len(given) < 50:
        problems.append(f"only {len(given)} reasons are found in the sources")
    return given


def check_reasons(page, first_cells, given, conditions):
    """A page lists every reason that the daemons give and every one of these conditions, and no other."""
    told = set(re.findall(r"`([A-Za-z]+)`", "\n".join(first_cells)))
    for reason in sorted((given - NO_REASONS | conditions) - told):
        problems.append(f"{page}: lacks the reason {reason}")
    for reason in sorted(told - given - conditions):
        problems.append(f"{page}: no program gives the reason {reason}")


def check_all_reasons():
    """The list of reasons has them, besides those of waiting jobs on the page of symptoms. The Chinese list also has the conditions, and says of each
    what it means and what to do."""
    given, page, chinese = given_reasons(), "docs/reference/reasons.md", "docs/zh-CN/reasons.md"
    waits = read("docs/troubleshooting.md").split("\n## A job waits\n")[1].split("\n## ")[0]
    check_reasons(page, re.findall(r"^\|([^|]*)\|", waits + read(page), flags=re.M), given, set())
    conditions = set(re.findall(r'#define GT_CONDITION_\w+ +"(\w+)"', read("api/names.h")))
    for path in files("api", ends=".c"):
        for names in re.findall(r"condition_names\[\w+\] = \{(.*?)\}", read(path), flags=re.S):
            conditions |= set(re.findall(r'"(\w+)"', names))
    rows = [(number, [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
            for number, line in enumerate(read(chinese).splitlines(), 1) if line.startswith("| `")]
    check_reasons(chinese, [cells[0] for _, cells in rows], given, conditions)
    problems.extend(f"{chinese}:{number}: {cells[0]}: a cell is empty" for number, cells in rows if not all(cells))


SHOWN = re.compile(r"`([\w-]+\.(?:py|c))(?:: ([^`]+))?`")


def check_claims(path, tests):
    """In a table whose last column is "shown by" every line names tests that there are: `FILE: TEST`, where TEST is a function or the title of
    a case, or `FILE` alone, below tests/. Returns the number of lines."""
    claims, last = 0, None
    for number, line in enumerate(read(path).splitlines(), 1):
        cells = re.split(r"(?<!\\)\|", line)[1:-1] if line.startswith("|") else []
        if not cells or last is None:
            last = cells[-1].strip() if cells else None
        elif last == "shown by" and not re.fullmatch(r"-+", cells[-1]):
            claims += 1
            shown = SHOWN.findall(cells[-1])
            if not shown:
                problems.append(f"{path}:{number}: names no test")
            for file, name in shown:
                if file not in tests:
                    problems.append(f"{path}:{number}: there is no {file} below tests")
                elif name and not re.search(rf'(?:\bdef|\bvoid) {re.escape(name)}\(|"{re.escape(name)}"', tests[file]):
                    problems.append(f"{path}:{number}: {file} has no test {name}")
    return claims


KINDS = re.compile(r'\.type = \{"[^"]+", "[^"]+", "[^"]+", "(\w+)"|KUBEFLOW_KIND\(\s*"\w+",\s*"\w+",\s*"(\w+)"')


def check_kinds():
    """Each kind of jobs has a row in the tables that say of each how it is written, ranked and planned."""
    kinds = {one or other for path in files("api/kinds", ends=".c") for one, other in KINDS.findall(read(path))}
    if len(kinds) < 15:
        problems.append(f"only {len(kinds)} kinds of jobs are found in api/kinds")
    for page in ("docs/how-to/schedule-a-model-parallel-job.md", "docs/reference/jobs.md", "docs/reference/placement-controller.md"):
        told = set(re.findall(r"\w+", "\n".join(line for line in read(page).splitlines() if line.startswith("|"))))
        problems.extend(f"{page}: no table has {kind}s: the first comment of its file, or of an example, says it (docs/add-a-kind.md)"
                        for kind in sorted(kinds) if not told & {kind, f"{kind}s"})


def check_ends(path):
    """A page for users begins with who needs it and ends with what to do next."""
    parts = [part for part in read(path).strip().split("\n\n") if not part.startswith(("#", "English |"))]
    if not parts[0].startswith("For "):
        problems.append(f"{path}: does not begin with \"For ...\": who needs it")
    if not parts[-1].startswith("Next: "):
        problems.append(f"{path}: does not end with \"Next: ...\": what to do next")


WORDS_MAX = 6700  # of what a stranger reads first; a fact that he does not need for his first job stands in docs/reference
SENTENCE_MAX = 25


def sentences(text):
    """What stands between full stops or colons. Code is one word; cells of tables and items of lists stand alone."""
    text = re.sub(r"^ *```.*?^ *```$|(?<=\n\n)(    .*\n)+", "\n\n", text, flags=re.M | re.S)
    text = re.sub(r"`[^`]+`", "code", re.sub(r"\]\([^)]*\)", "]", text))
    text = re.sub(r"^ *(\||#|!\[|- |\d+\. ).*", lambda line: "\n\n" + line[0].replace("|", "\n\n"), text, flags=re.M)
    return [" ".join(one.split()) for part in re.split(r"\n\s*\n", text) for one in re.split(r"[.!?:]\s", part)]


def check_words():
    """README and the pages for users together stay short, and so do their sentences."""
    pages = ["README.md", *files("docs/how-to", "docs/troubleshooting.md", ends=".md")]
    problems.extend(f"{page}: a sentence has more than {SENTENCE_MAX} words: {one}" for page in pages for one in sentences(read(page))
                    if len(one.split()) > SENTENCE_MAX and not one.startswith("!["))
    words = sum(len(read(page).split()) for page in pages)
    if words > WORDS_MAX:
        problems.append(f"README.md, docs/how-to and docs/troubleshooting.md: {words} words instead of at most {WORDS_MAX}: leave out what the reference says")


def check_diff():
    """What the page on new kinds shows as added stands in the list of kinds, in this order, as do the lines beside it; and its code in the
    file of that kind."""
    page, of = "docs/add-a-kind.md", "api/job_kind.h"
    [code] = re.findall(r"```c\n(.*?)```", read(page), re.S)
    shown_file = f"api/kinds/{re.search(r'gt_kind_([a-z_]+) =', code)[1]}.c"
    problems.extend(f"{page}: {shown_file} does not have this: {part.splitlines()[0]}" for part in code.split("\n\n") if part.strip() not in read(shown_file))
    listed = [line.rstrip(" \\").strip() for line in read(of).splitlines()]
    [shown] = re.findall(r"```diff\n(.*?)```", read(page), re.S)
    for part in re.split(r" *#define .*\n", shown):
        lines = [line.strip().lstrip("+").strip() for line in part.splitlines() if line.strip()]
        rest = iter(listed)
        if not all(line in rest for line in lines):
            problems.append(f"{page}: {of} does not have these lines: {'; '.join(lines)}")


def main():
    pages = list(files("README.md", "README.zh-CN.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "daemonset", "tests", "cli",
                       "topology", "deviceplugin", ends=".md"))
    if len(pages) < 20:
        problems.append(f"only {len(pages)} pages are found")
    known = ["/" + path for path in files(".", ends=(".c", ".h"))]
    for path in pages:
        check_links(path)
        check_yaml(path)
        check_sources(path, known)
    for path in files("docs", ends=".md"):
        start = "README.zh-CN.md" if path.startswith("docs/zh-CN/") else "README.md"
        if path not in LINK.findall(read(start)):
            problems.append(f"{start}: does not lead to {path}")
    for path in files("README.md", ".", ends=SOURCES):
        check_pages(os.path.normpath(path))
    for path in files("docs/how-to", "docs/troubleshooting.md", ends=".md"):
        check_ends(path)
    check_words()
    check_all_reasons()
    check_kinds()
    check_diff()
    tests = {os.path.basename(path): read(path) for path in files("tests", ends=(".py", ".c"))}
    claims = {path: check_claims(path, tests) for path in pages}
    if claims["docs/security.md"] < 40:
        problems.append(f"docs/security.md: only {claims['docs/security.md']} claims are found")
    print("\n".join(dict.fromkeys(problems)))
    sys.exit(bool(problems))


main()
