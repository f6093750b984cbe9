#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What GPUPlacements cost: bytes, memory of the companion that knows them, and time to write and to read one.
#
#     tests/bench/placements.sh BUILD/bin
#
# The form of the output is that of loss.sh.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -ne 1 ] || [ ! -x "$1/bench_placements" ]; then
    echo "usage: $0 DIRECTORY-OF-bench_placements (a release build)" >&2
    exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

"$1/bench_placements" >"$work/measures"
awk -f "$here/report.awk" "$work/measures"
