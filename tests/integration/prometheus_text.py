#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A strict reader of the Prometheus text format 0.0.4, for tests."""

import math
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}


class FormatError(Exception):
    pass


def _labels(text, line):
    labels = {}
    while text:
        match = LABEL.match(text)
        if not match or match[1] in labels:
            raise FormatError(f"labels: {line}")
        labels[match[1]] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], match[2])
        text = text[match.end():]
    return labels


def _family(name, families):
    for suffix in ("", "_bucket", "_sum", "_count"):
        base = name[: len(name) - len(suffix)] if suffix else name
        if name.endswith(suffix) and base in families and (
                not suffix or families[base]["type"] in ("histogram", "summary")):
            return base
    raise FormatError(f"{name}: no TYPE before it")


def _check_histogram(name, samples):
    """Each of its other labels' values has a histogram of its own."""
    histograms = {}
    for key, labels, value in samples:
        others = frozenset((label, text) for label, text in labels.items() if label != "le")
        histograms.setdefault(others, []).append((key, labels, value))
    for one in histograms.values():
        buckets = [(float(labels["le"]), value) for key, labels, value in one if key == name + "_bucket"]
        if [bound for bound, _ in buckets] != sorted(bound for bound, _ in buckets) or not buckets:
            raise FormatError(f"{name}: buckets are not in order")
        if [value for _, value in buckets] != sorted(value for _, value in buckets):
            raise FormatError(f"{name}: buckets are not cumulative")
        count = [value for key, _, value in one if key == name + "_count"]
        if buckets[-1][0] != math.inf or count != [buckets[-1][1]]:
            raise FormatError(f"{name}: +Inf is not the count")
        if len([1 for key, _, _ in one if key == name + "_sum"]) != 1:
            raise FormatError(f"{name}: no sum")


def parse(text):
    """{(name, frozenset of labels): value}; FormatError for whatever a strict reader would refuse."""
    if not text.endswith("\n"):
        raise FormatError("no line feed at the end")
    families, values, last = {}, {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# "):
            _, kind, name, rest = line.split(" ", 3)
            if not NAME.fullmatch(name) or kind not in ("HELP", "TYPE"):
                raise FormatError(line)
            family = families.setdefault(name, {"samples": []})
            if kind in family or family["samples"]:
                raise FormatError(f"{name}: {kind} twice or behind its samples")
            family[kind] = rest
            if kind == "TYPE":
                if rest not in TYPES:
                    raise FormatError(line)
                family["type"] = rest
            continue
        match = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)", line)
        if not match:
            raise FormatError(f"no sample: {line!r}")
        name, labels, value = match[1], _labels(match[2] or "", line), float(match[3])
        base = _family(name, families)
        if base != last and families[base]["samples"]:
            raise FormatError(f"{base}: its samples do not stand together")
        last = base
        key = (name, frozenset(labels.items()))
        if key in values:
            raise FormatError(f"twice: {line}")
        if families[base]["type"] == "counter" and (value < 0 or not name.endswith("_total")):
            raise FormatError(f"no counter: {line}")
        values[key] = value
        families[base]["samples"].append((name, labels, value))
    for name, family in families.items():
        if "HELP" not in family or "type" not in family:
            raise FormatError(f"{name}: without HELP or TYPE")
        if family["type"] == "histogram":
            _check_histogram(name, family["samples"])
    return values
