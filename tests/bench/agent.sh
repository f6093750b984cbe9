#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The agent as a process: how soon it offers GPUs, what it costs; measures and report as in loss.sh.   tests/bench/agent.sh BUILD/bin
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY-OF-THE-PROGRAMS" >&2; exit 2; }
measures=$(mktemp)
trap 'rm -f "$measures"' EXIT
"$here/boot.py" "$1" >"$measures" || exit 2
"$here/agent.py" "$1" >>"$measures" || exit 2
awk -f "$here/report.awk" "$measures"
