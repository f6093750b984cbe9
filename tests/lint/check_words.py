#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Standard terms: words that this project once used in a sense of its own stay out of names, comments, texts and pages.

WORDS has for each the term to use instead, and where it is looked for; the words of an identifier count one by one. ONE_MEANING has
words of the glossary that identifiers of the product's C code may have in the sense of the glossary alone."""
import os
import re
import subprocess
import sys

import check_names

EVERYWHERE, PRODUCT = "", r"(?:agent|api|base|cli|daemonset|deviceplugin|docs|http|kube|proto|scheduler-ext|topology)/|README"
WORDS = [  # word, the standard term, files
    (r"ill", "unhealthy", EVERYWHERE),
    (r"doors?", "extender, endpoint", EVERYWHERE),
    (r"anew", "again", EVERYWHERE),
    (r"untold", "not given, not known", EVERYWHERE),
    (r"heard", "received, observed", PRODUCT),
    (r"wish(?:es)?", "desired state, option", PRODUCT),
    (r"stray|seats?|choosy|leavers?|goers|hopeless|makings", "a word of the field", PRODUCT),
]
ONE_MEANING = [  # words of an identifier, their only meaning, the files where there is such a thing
    (r"planners?", "the plan search of scheduler-ext/core", r"scheduler-ext/core/"),
    (r"rooms?|roomy|headroom", "space for pods in the cluster; else capacity, limit, bytes left",
     r"scheduler-ext/(?!supernodes/|wire/|owners/)|cli/try_find\.c"),
    (r"(?:un|with)?(?:holds?|holders?|holdings?|held)", "to keep something back; else has, uses, owns, is true, fits",
     r"scheduler-ext/(?:companion/kueue_part|core/queue|decide/|kueue/|placement/|serve/|sim/|cache/cache_pods)|topology/model/|cli/plan\.c|api/(?:isolation|names)|"
     r"agent/(?:agent_cdi|agent_dra|changes|fault_file|health_file|metrics)|deviceplugin/(?:inventory|registration)\."),
    (r"takes?", "to remove something for one's own use; else read, accept, adopt",
     r"(?!agent/(?!plans)|http/(?!request)|scheduler-ext/(?:serve/(?!page)|supernodes/(?!join)|webhook/(?!webhook)))"),
    (r"leaves?|leaving", "pods leave their place; else remove, end, exit", r"scheduler-ext/(?!cache/|serve/|owners/|wire/)|api/isolation"),
]
# /debug/model has an old name until the next release
ALLOWED = re.compile(r"\"heard\"|`heard`", re.I)
SKIPPED = re.compile(r"tests/(?:data|fuzz/corpus)/|CHANGELOG\.md|tests/lint/check_words\.py|.*(?:/js/|\.(?:svg|json|lock|sum|mod|png|gz)$)|daemonset/generate$")
WORD = re.compile(r"[A-Za-z]+")


def words(line):
    """The words of a line; those of a camelCase or snake_case identifier one by one."""
    return WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", line))


def several_meanings(path, raw):
    """(line, identifier, the only meaning of a word in it) of each identifier that has such a word in another sense."""
    if not re.match(PRODUCT, path) or not path.endswith((".c", ".h")):
        return
    text = re.sub(r"^[ \t]*#[ \t]*include[^\n]*", "", check_names.strip_comments(raw), flags=re.M)
    for number, line in enumerate(text.split("\n"), 1):
        for name in set(re.findall(r"[A-Za-z_]\w*", line)):
            for pattern, meaning, where in ONE_MEANING:
                if any(re.fullmatch(pattern, word, re.I) for word in name.split("_")) and not re.match(where, path):
                    yield number, name, meaning


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    patterns = [(re.compile(word, re.I), word, term, where) for word, term, where in WORDS]
    problems, lines = [], 0
    for path in subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n"):
        if not path or SKIPPED.match(path) or os.path.islink(path) or not os.path.isfile(path):
            continue
        try:
            text = open(path, encoding="utf-8").read()
        except UnicodeDecodeError:
            continue
        problems += [f"{path}:{number}: {name}: this word means: {meaning}" for number, name, meaning in several_meanings(path, text)]
        watched = [pattern for pattern, _, _, where in patterns if re.match(where, path)]
        for number, line in enumerate(text.splitlines(), 1):
            lines += 1
            if not any(pattern.search(line) for pattern in watched):
                continue
            found = {word for word in words(ALLOWED.sub("", line))}
            for pattern, _, term, where in patterns:
                if re.match(where, path):
                    problems += [f"{path}:{number}: \"{word}\": {term}" for word in sorted(found) if pattern.fullmatch(word)]
    print("\n".join(problems))
    print(f"{lines} lines")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
