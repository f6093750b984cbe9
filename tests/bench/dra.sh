#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The agent as a DRA driver, beside the driver of Kubernetes' own tests; measures and report as in loss.sh.   tests/bench/dra.sh BUILD/bin
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY-OF-THE-PROGRAMS" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
peer=()
if command -v go >/dev/null; then
	(cd "$here/peers/dra-test-driver" && GOTOOLCHAIN=local CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$work/peer" .) >&2 || exit 2
	peer=("$work/peer")
fi
/usr/bin/python3 "$here/dra.py" "$1" ${peer[@]+"${peer[@]}"} >"$work/measures" || exit 2
awk -f "$here/report.awk" "$work/measures"
