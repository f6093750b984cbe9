#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Reading an AdmissionReview of 2 MB: milliseconds of the only thread, and how often faster that is than a tree
# of the whole text.
#
#     tests/bench/review.sh BUILD/bin
#
# The form of the output is that of loss.sh.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -ne 1 ] || [ ! -x "$1/bench_review" ]; then
    echo "usage: $0 DIRECTORY-OF-bench_review (a release build)" >&2
    exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

"$1/bench_review" >"$work/measures"
awk -f "$here/report.awk" "$work/measures"
