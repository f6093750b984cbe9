#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Volcano's allocate for a gang of 64 pods of 8 GPUs in one session, three ways: tests/bench/volcano.sh BUILD/bin [NODES...]
#
#   stock       gang, predicates, nodeorder
#   plugins     gpu-podaffinity and gpu-aware besides, units of 32 GPUs
#   scored      the same without units: gpu-aware scores every node for every pod
#   hypernodes  stock and network-topology-aware, a HyperNode for each supernode of 16 nodes, hard sub groups of 4 pods
#
# The framework and the action are Volcano's own, in one process; nothing is bound. The best of three runs, but for HyperNodes. Skipped where there is no Go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { echo "usage: $0 DIRECTORY-OF-THE-PROGRAMS [NODES...]" >&2; exit 2; }
build=$(cd "$1/.." && pwd)
shift
echo "== Volcano's allocate, 64 pods of 8 GPUs in 16 units"
if ! command -v go >/dev/null; then
	echo "skipped: there is no Go"
	exit 0
fi
ninja -C "$build" --quiet volcano_archives
export GPUTOPO_BENCH_NODES="${*:-1024 4096 5008}"
said=$("$here/../../scheduler-ext/volcano/test" "$build" -v -run TestAllocateTime -count 1 -timeout 30m 2>/dev/null | grep ' allocate_ms=' || true)
echo "$said"
awk '{ for (i = 2; i <= NF; i++) { split($i, pair, "="); value[pair[1]] = pair[2] }
       key = $1 SUBSEP value["nodes"]
       if (!(key in took) || value["allocate_ms"] < took[key]) took[key] = value["allocate_ms"]
       split_[$1, value["nodes"]] = value["split"]; nodes[value["nodes"]]
       if (value["placed"] != 64) { print "MISSED " $1 " placed " value["placed"] " of 64"; missed = 1 } }
     function goal(text, ratio, limit) { printf "%s %s: %.2f (goal: at most %g)\n", ratio <= limit ? "met   " : "MISSED", text, ratio, limit
                                         missed += ratio > limit }
     END { if (NR == 0) { print "MISSED nothing was measured"; exit 1 }
           for (n in nodes) {
             goal(n " nodes, plugins / stock", took["plugins", n] / took["stock", n], 1.2)
             goal(n " nodes, scored / stock", took["scored", n] / took["stock", n], 1.2)
             goal(n " nodes, plugins / hypernodes", took["plugins", n] / took["hypernodes", n], 0.1)
             goal(n " nodes, units in two supernodes, with the plugins", split_["plugins", n], 0) }
           exit missed > 0 }' < <([ -z "$said" ] || echo "$said")
