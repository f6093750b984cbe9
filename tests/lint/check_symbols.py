#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_symbols.py BUILD_DIR: no two of the house's libraries define the same public name.

A linker takes the first definition from an archive and says nothing of the second: a program would call a stranger."""
import collections
import pathlib
import subprocess
import sys


def main():
    libraries = sorted(pathlib.Path(sys.argv[1]).glob("**/libgt_*.a"))
    defined = collections.defaultdict(set)
    for library in libraries:
        listing = subprocess.run(["nm", "--defined-only", "--extern-only", str(library)], check=True,
                                 capture_output=True, text=True).stdout
        for line in listing.splitlines():
            fields = line.split()
            if len(fields) == 3 and fields[1] in "TDBRVW":
                defined[fields[2]].add(library.name)
    twice = {name: where for name, where in defined.items() if len(where) > 1 and name.startswith("gt_")}
    for name, where in sorted(twice.items()):
        print(f"{name} is defined in {', '.join(sorted(where))}")
    print(f"{len(libraries)} libraries, {len(defined)} names")
    sys.exit(bool(twice) or not libraries)


main()
