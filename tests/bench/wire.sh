#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Reading and answering what the schedulers' extenders post: MB/s of a Volcano prioritize of 50 MB and more,
# beside the speed of memchr over the same body, and requests per second of kube-scheduler's extender.
#
#     tests/bench/wire.sh BUILD/bin
#
# The form of the output is that of loss.sh.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -ne 1 ] || [ ! -x "$1/bench_wire" ]; then
    echo "usage: $0 DIRECTORY-OF-bench_wire (a release build)" >&2
    exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

"$1/bench_wire" >"$work/measures"
awk -f "$here/report.awk" "$work/measures"
