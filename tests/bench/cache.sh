#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What the cache costs: memory of a large cluster and its pods, and time for each object that is handed in.
#
#     tests/bench/cache.sh BUILD/bin
#
# The form of the output is that of loss.sh.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -ne 1 ] || [ ! -x "$1/bench_cache" ]; then
    echo "usage: $0 DIRECTORY-OF-bench_cache (a release build)" >&2
    exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

"$1/bench_cache" >"$work/measures"
awk -f "$here/report.awk" "$work/measures"
