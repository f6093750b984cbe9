#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What a decision of the core costs: scoring nodes, planning jobs, changes of state, memory, and how all that
# grows with the cluster.
#
#     tests/bench/core.sh BUILD/bin
#
# The form of the output is that of loss.sh.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -ne 1 ] || [ ! -x "$1/bench_core" ]; then
    echo "usage: $0 DIRECTORY-OF-bench_core (a release build)" >&2
    exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

"$1/bench_core" >"$work/measures"
awk -f "$here/report.awk" "$work/measures"
