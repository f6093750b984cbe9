#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Standard terms: words that this project once used in a sense of its own stay out of names, comments, texts and pages.

WORDS has for each the term to use instead, and where it is looked for; the words of an identifier count one by one."""
import os
import re
import subprocess
import sys

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
# /debug/model has an old name until the next release
ALLOWED = re.compile(r"\"heard\"|`heard`", re.I)
SKIPPED = re.compile(r"tests/(?:data|fuzz/corpus)/|CHANGELOG\.md|tests/lint/check_words\.py|.*(?:/js/|\.(?:svg|json|lock|sum|mod|png|gz)$)|daemonset/generate$")
WORD = re.compile(r"[A-Za-z]+")


def words(line):
    """The words of a line; those of a camelCase or snake_case identifier one by one."""
    return WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", line))


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


main()
