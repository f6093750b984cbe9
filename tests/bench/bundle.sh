#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The size of gputopo bundle with 1,000 nodes; measures and report as in loss.sh.   tests/bench/bundle.sh BUILD/bin
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY-OF-THE-PROGRAMS" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
/usr/bin/python3 "$here/bundle.py" "$1" >"$work/measures" || exit 2
awk -f "$here/report.awk" "$work/measures"
