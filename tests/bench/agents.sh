#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Many agents and an API server that goes away; measures and report as in loss.sh.
#
#     tests/bench/agents.sh BUILD/bin [AGENTS]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || [ $# -eq 2 ] || { echo "usage: $0 DIRECTORY-OF-THE-PROGRAMS [AGENTS]" >&2; exit 2; }
measures=$(mktemp)
trap 'rm -f "$measures"' EXIT
"$here/agents.py" "$@" >"$measures" || exit 2
awk -f "$here/report.awk" "$measures"
