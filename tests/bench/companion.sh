#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gputopo-scheduler in a large cluster: memory, the extenders, and jobs against a real API server.
#
#     tests/bench/companion.sh BUILD/bin [extenders|jobs]
#
# Measures and report as in loss.sh; docs/benchmarks-companion.md says what is measured and what came out.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { echo "usage: $0 DIRECTORY-OF-THE-PROGRAMS [extenders|jobs]" >&2; exit 2; }
bin=$1
shift
measures=$(mktemp)
trap 'rm -f "$measures"' EXIT
trap 'exit 2' INT TERM
for part in "${@:-extenders jobs}"; do
	for one in $part; do
		/usr/bin/python3 "$here/companion_$one.py" "$bin" >>"$measures" || exit 2
	done
done
awk -f "$here/report.awk" "$measures"
