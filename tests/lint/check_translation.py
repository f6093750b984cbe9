#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the Chinese pages against the English ones, block by block: headings and their levels, code, rows of tables, and in each block the same
names in code font, numbers and link targets. What differs is told with both lines and both texts.   check_translation.py [ROOT]

Each page of docs/how-to has a Chinese one, and both pages of symptoms. A Chinese page links to the Chinese page where there is one. In code a comment
may be translated. A page in ALONE has no English one. docs/zh-CN/glossary.md also lists words that are not used, beside the term to use."""
import difflib
import glob
import os
import re
import sys
from collections import Counter

ROOT = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
ALONE = ("docs/zh-CN/glossary.md", "docs/zh-CN/reasons.md")
MADE_FOR = {"docs/reference/reasons.md": "docs/zh-CN/reasons.md"}  # another page for the same readers: links to them are equal
HAN = re.compile(r"[\u4e00-\u9fff]")
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^()\s]+)\)|<(https?://[^>\s]+)>")
NUMBER = re.compile(r"(?<![A-Za-z0-9_.-])\d+(?:[.,]\d+)*")
COMMENT = re.compile(r"(?:^|(?<=\s))(?:#|//) .*$")
BORDER = re.compile(r"(?<!\\)[|]")
ITEM = re.compile(r" *(?:[-*]|\d+\.) ")
SHOWN = 160  # characters of a block in a message
problems = []


class Block:
    """A heading, a row, an item, a paragraph, or a block of code."""

    def __init__(self, kind, number, text):
        self.kind, self.number, self.text = kind, number, text

    def names(self):
        return Counter(" ".join(name.split()) for name in CODE.findall(self.text))

    def numbers(self):
        return Counter(NUMBER.findall(LINK.sub("]", CODE.sub("` `", self.text))))

    def links(self):
        return [one or other for one, other in LINK.findall(CODE.sub("` `", self.text))]

    def outline(self, path, chinese):
        """What is the same in both languages, to find the other one's block."""
        if self.kind == "code":
            return self.kind, "\n".join(COMMENT.sub("", line).rstrip() for line in self.text.splitlines())
        links = [resolved(path, target)[0] for target in self.links()]
        every = self.names().items(), self.numbers().items(), (chinese.get(page, page) for page in links)
        return self.kind, *(tuple(sorted(each)) for each in every)


def blocks(path):
    """The blocks of a page behind its first line, which has the languages."""
    found, fence, last = [], None, ""
    for number, line in enumerate(read(path).splitlines(), 1):
        inside = found[-1] if found and last else None
        if number == 1 and "](" in line:
            continue
        if fence is not None:
            if line.strip() == "```":
                fence = None
            else:
                found[-1].text += line[fence:] + "\n"
        elif line.lstrip().startswith("```"):
            fence = len(line) - len(line.lstrip())
            found.append(Block("code", number, line.strip() + "\n"))
        elif line.startswith("    ") and (not last or inside and inside.kind == "code"):
            if inside is None:
                found.append(Block("code", number, ""))
            found[-1].text += line + "\n"
        elif line.startswith("#"):
            found.append(Block("heading " + line.split(" ")[0], number, line))
        elif line.lstrip().startswith("|"):
            if not re.fullmatch(r"[|\s:-]+", line):
                found.append(Block(f"row of {len(BORDER.findall(line)) - 1} cells", number, line))
        elif line.strip():
            if ITEM.match(line):
                found.append(Block("item", number, ITEM.sub("", line, count=1)))
            elif inside and inside.kind in ("item", "paragraph"):
                found[-1].text += " " + line.strip()
            else:
                found.append(Block("paragraph", number, line.strip()))
        last = line.strip()
    return found


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def english_of(path):
    return "README.md" if path == "README.zh-CN.md" else path.replace("docs/zh-CN/", "docs/", 1)


def anchors(page):
    """The anchors of a page's headings in their order, by the rule of the common hosts of repositories."""
    found, seen = [], Counter()
    for block in page:
        if block.kind.startswith("heading"):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", block.text.lstrip("#").strip()).lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            found.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return found


def resolved(path, target):
    """The page and the anchor that a link of a page leads to."""
    if re.match(r"[a-z]+:", target):
        return target, ""
    name, _, anchor = target.partition("#")
    page = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
    return MADE_FOR.get(page, page), anchor


def destination(path, target, chinese, pages):
    """Where a link of a page leads, as page and number of the heading; no heading where the two pages have not equally many."""
    page, anchor = resolved(path, target)
    english = next((one for one, other in chinese.items() if page == (one if path in chinese else other)), None)
    if english is None:  # also a Chinese page's link to an English one that has a Chinese one: it is told as another target
        return f"{page}#{anchor}" if anchor else page
    ours, theirs = (anchors(pages[each]) for each in (english, chinese[english]))
    here = ours if page == english else theirs
    if anchor and len(ours) == len(theirs):
        anchor = theirs[here.index(anchor)] if anchor in here else anchor
        return f"{chinese[english]}#{anchor}"
    return chinese[english]


def shown(block, whole):
    text = " / ".join(block.text.strip().splitlines())
    return text if whole or len(text) <= SHOWN else text[:SHOWN] + "..."


def listed(counter):
    return ", ".join(f"{name} ({count} times)" if count > 1 else str(name) for name, count in counter.items())


def report(what, english, one, translated, other):
    place = f"{english}:{one.number}" if one else english
    problems.append(f"{translated}:{other.number}: {what}, from {place}" if other else f"{translated}: {what}, from {place}")
    whole = not (one and other)  # it has to be written
    problems.extend(f"    {language}: {shown(block, whole)}" for language, block in (("English", one), ("Chinese", other)) if block)


def compare_code(english, one, translated, other):
    ours, theirs = one.text.splitlines(), other.text.splitlines()
    for at in range(max(len(ours), len(theirs))):
        line, line_there = (lines[at] if at < len(lines) else None for lines in (ours, theirs))
        same_code = None not in (line, line_there) and HAN.search(line_there) and COMMENT.search(line) and \
            COMMENT.sub("", line) == COMMENT.sub("", line_there)
        if line != line_there and not same_code:
            problems.append(f"{translated}:{other.number + at}: another line of code, from {english}:{one.number + at}")
            problems.extend((f"    English: {'(none)' if line is None else line}", f"    Chinese: {'(none)' if line_there is None else line_there}"))
            return


def compare(english, one, translated, other, chinese, pages):
    if one.kind != other.kind:
        report(f"{other.kind} instead of {one.kind}", english, one, translated, other)
    elif one.kind == "code":
        compare_code(english, one, translated, other)
    else:
        links = [Counter(destination(path, target, chinese, pages) for target in block.links())
                 for path, block in ((english, one), (translated, other))]
        for what, ours, theirs in (("code font", one.names(), other.names()), ("numbers", one.numbers(), other.numbers()), ("links", *links)):
            lacks, more = ours - theirs, theirs - ours
            words = "; ".join(filter(None, (lacks and f"lacks {listed(lacks)}", more and f"has {listed(more)}")))
            if words:
                report(f"{what}: {words}", english, one, translated, other)


def compare_pages(english, translated, chinese, pages):
    ours, theirs = pages[english], pages[translated]
    outlines = ([block.outline(path, chinese) for block in pages[path]] for path in (english, translated))
    matcher = difflib.SequenceMatcher(None, *outlines, autojunk=False)
    for _, start, end, start_there, end_there in matcher.get_opcodes():
        left, left_there = ours[start:end], theirs[start_there:end_there]
        if len(left) != len(left_there):  # which one is missing: those of one kind belong together, in their order
            inner = difflib.SequenceMatcher(None, [block.kind for block in left], [block.kind for block in left_there], autojunk=False)
            for tag, first, last, first_there, last_there in inner.get_opcodes():
                if tag == "equal":
                    for one, other in zip(left[first:last], left_there[first_there:last_there]):
                        compare(english, one, translated, other, chinese, pages)
                    continue
                for one in left[first:last]:
                    report(f"{one.kind} is missing", english, one, translated, None)
                for other in left_there[first_there:last_there]:
                    report(f"{other.kind} that is not there", english, None, translated, other)
        else:
            for one, other in zip(left, left_there):
                compare(english, one, translated, other, chinese, pages)


def check_first_lines(english, translated):
    """Each page leads to the other in its first line."""
    for path, other, word in ((english, translated, "中文"), (translated, english, "English")):
        target = os.path.relpath(other, os.path.dirname(path) or ".")
        if f"[{word}]({target})" not in read(path).split("\n", 1)[0]:
            problems.append(f"{path}:1: does not lead to the other language: expected [{word}]({target})")


def check_terms(paths):
    """Words that the glossary lists in its last column stay out of the other pages."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in read("docs/zh-CN/glossary.md").splitlines() if line.startswith("| ")]
    avoided = {word: row[1] for row in rows[1:] for word in re.split("[、，]", row[-1]) if word}
    if len(avoided) < 10:
        problems.append(f"docs/zh-CN/glossary.md: only {len(avoided)} words to avoid are found")
    for path in paths:
        for number, line in enumerate(read(path).splitlines(), 1):
            problems.extend(f"{path}:{number}: {word}: the glossary says {term}" for word, term in avoided.items() if word in line)


def main():
    translated = sorted(["README.zh-CN.md", *(os.path.relpath(path, ROOT) for path in glob.glob(f"{ROOT}/docs/zh-CN/**/*.md", recursive=True))])
    translated = [path for path in translated if path not in ALONE]
    chinese = {english_of(path): path for path in translated}
    for path in sorted({os.path.relpath(path, ROOT) for path in glob.glob(f"{ROOT}/docs/how-to/*.md")} | {"docs/troubleshooting.md", "docs/reference/symptoms.md"}):
        if path not in chinese:
            problems.append(f"{path}: there is no Chinese page docs/zh-CN/{path[5:]}")
    for english in [path for path in chinese if not os.path.exists(os.path.join(ROOT, path))]:
        problems.append(f"{chinese.pop(english)}: there is no English page {english}")
    pages = {path: blocks(path) for pair in chinese.items() for path in pair}
    for english, path in chinese.items():
        check_first_lines(english, path)
        compare_pages(english, path, chinese, pages)
    check_terms([*translated, "docs/zh-CN/reasons.md"])
    print("\n".join(problems))
    sys.exit(bool(problems))


main()
