#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs that a user starts; measures and report as in loss.sh.   tests/bench/programs.sh BUILD/bin
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY-OF-THE-PROGRAMS" >&2; exit 2; }
measures=$(mktemp)
trap 'rm -f "$measures"' EXIT
"$here/programs.py" "$1" >"$measures" || exit 2
awk -f "$here/report.awk" "$measures"
