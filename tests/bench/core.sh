#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What a decision of the core costs: scoring nodes, planning jobs, changes of state, memory, and how all that
# grows with the cluster.
#
#     tests/bench/core.sh BUILD/bin [PICTURE.svg]
#
# The form of the output is that of loss.sh. With PICTURE.svg, gnuplot draws the growth.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ ! -x "$1/bench_core" ]; then
    echo "usage: $0 DIRECTORY-OF-bench_core (a release build) [PICTURE.svg]" >&2
    exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

"$1/bench_core" >"$work/measures"

# A line a number of nodes: nodes, take the best, its bound, plan, state change, memory.
if [ $# -eq 2 ]; then
    awk -F '\t' 'split($1, name, " nodes: ") == 2 { row[name[1]] = row[name[1]] " " $2 }
        END { for (nodes in row) print nodes row[nodes] }' "$work/measures" | sort -n >"$work/sizes"
    gnuplot -e "sizes = '$work/sizes'; picture = '$2'" "$here/core.gnuplot"
fi
awk -f "$here/report.awk" "$work/measures"
