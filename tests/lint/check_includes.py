#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Unused #includes: a source includes a header of the tree only where it uses a name that the header itself declares, and a
standard header of the list below only where it uses one of its names. Its own header, and a private one (*_internal.h), may always be there.
Headers are not checked: they may include for others.

check_includes.py [--remove]: with --remove the lines go; build afterwards."""
import functools
import os
import re
import subprocess
import sys

STANDARD = {
    "ctype.h": r"is(?:alnum|alpha|digit|space|upper|lower|print|xdigit|punct|cntrl)|to(?:upper|lower)",
    "errno.h": r"E[A-Z0-9]{2,}|errno|program_invocation_\w+",
    "fcntl.h": r"O_[A-Z]+|open|openat|fcntl|AT_\w+|[FS]_[A-Z_]+|fallocate|posix_\w+|FD_CLOEXEC",
    "float.h": r"(?:DBL|FLT|LDBL)_\w+",
    "limits.h": r"\w+_(?:MAX|MIN|BIT)",
    "poll.h": r"p?poll\w*|POLL\w+|nfds_t",
    "signal.h": r"SIG\w*|sig\w+|kill|raise|SA_\w+|pthread_(?:kill|sigmask)|SI_\w+",
    "stdio.h": r"\w*printf|FILE|f(?:open|puts|putc|getc|gets|read|write|close|flush|seek\w*|tell\w*|dopen|error|scanf)|puts|putc\w*|getc\w*"
               r"|std(?:in|out|err)|getline|getdelim|perror|EOF|rename\w*|remove|\w*scanf|fileno|BUFSIZ|SEEK_\w+|open_memstream|setv?buf"
               r"|tmpfile|rewind|clearerr|feof",
    "stdlib.h": r"[mc]alloc|realloc\w*|free|strto\w+|abort|_?[eE]xit|EXIT_\w+|\w*env|qsort\w*|bsearch|l?l?abs|ato\w|\w*rand\w*|realpath|mk\w+temp\w*"
                r"|atexit|system|l?l?div|aligned_alloc|posix_memalign|size_t|NULL|getloadavg|posix_openpt|grantpt|unlockpt|ptsname\w*",
    "string.h": r"mem\w+|st[rp]\w+|explicit_bzero|basename|size_t|NULL|ffs\w*",
}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"][^\n]*\n", re.M)


def without_texts(text):
    return COMMENT.sub(lambda m: " " if m[0][0] == "/" else '""', text)


def declared(text):
    """Names that a header declares, and the fields of its structs."""
    names = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.M))
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", text, flags=re.M)
    names |= set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)\s*[{;]", text))
    for body in re.findall(r"\benum\b(?:\s+\w+)?\s*\{([^}]*)\}", text):
        names |= set(re.findall(r"(?:^|,)\s*([A-Za-z_]\w*)", re.sub(r"\([^()]*\)", "", body)))
    names |= set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", text))
    for statement in re.findall(r"^(?:typedef|extern)\b[^;{]*(?:\{[^}]*\})?[^;{]*;", text, re.M):
        names |= set(re.findall(r"\w+", statement))
    for words in re.findall(r"GT_DEFINE\w*\(([^)]*)\)", text):  # functions and macros for cleanup
        for name in re.findall(r"\w+", words):
            names |= {name, name + "_p", "auto_" + name}
    names |= set(re.findall(r"\w+", " ".join(re.findall(r"^gt_\w+\s+((?:gt_\w+)(?:\s*,\s*gt_\w+)*);", text, re.M))))
    fields = set(re.findall(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])*\s*(?::\s*\d+)?\s*[;,]", text))
    return names, fields


def unused(path, text, files, header):
    body = INCLUDE.sub("", without_texts(text).replace('""', '"" '))
    words, members = set(re.findall(r"\w+", body)), set(re.findall(r"(?:\.|->)\s*(\w+)", body))
    for match in INCLUDE.finditer(text):
        name = match[1]
        if name in STANDARD:
            if not any(re.fullmatch(STANDARD[name], word) for word in words) and not (name.startswith("std") and path.startswith("tests")):
                yield match
            continue
        beside = os.path.join(os.path.dirname(path), name)
        other = name if name in files else beside if beside in files else None
        if other and os.path.splitext(other)[0] != os.path.splitext(path)[0]:
            names, fields = header(other)
            if not names & words and not fields & members and not other.endswith("_internal.h"):
                yield match


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    files = set(subprocess.run(["git", "ls-files", "*.c", "*.h"], check=True, capture_output=True, text=True).stdout.split())
    texts = {path: open(path, encoding="utf-8").read() for path in sorted(filter(os.path.exists, files))}
    header = functools.cache(lambda path: declared(without_texts(texts[path])))
    problems = []
    for path, text in texts.items():
        if path.endswith(".h"):
            continue
        found = list(unused(path, text, texts, header))
        problems += [f"{path}: does not use {match[1]}" for match in found]
        if found and "--remove" in sys.argv:
            for match in reversed(found):
                text = text[:match.start()] + text[match.end():]
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    print("\n".join(problems))
    sys.exit(bool(problems))


main()
