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

# A cluster file of 100,000 nodes with as many pods.
/usr/bin/python3 - "$work/cluster.json" <<'END'
import json, sys

COUNT = 100000
nodes = [{"name": f"n{i:06d}", "supernode": f"s{i // 32:05d}", "gpus": 8} for i in range(COUNT)]
pods = [{"name": f"ns/p{i:06d}", "node": f"n{i:06d}", "gpus": list(range(8 if i % 3 else 5)), "movable": True,
         "job": f"ns/j{i // 4}", "groupSize": 32} for i in range(COUNT)]
with open(sys.argv[1], "w", encoding="ascii") as file:
    json.dump({"nodes": nodes, "pods": pods}, file)
END
/usr/bin/python3 - "$1/gputopo" "$work/cluster.json" >>"$work/measures" <<'END'
import resource, subprocess, sys

print("# gputopo plan, a file of 100,000 nodes with 100,000 pods")
subprocess.run([sys.argv[1], "plan", "--cluster", sys.argv[2], "--pods", "1", "--gpus", "2"], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"CPU time, s\t{used.ru_utime + used.ru_stime:.2f}\ts\t<10")
print(f"memory, MiB\t{used.ru_maxrss / 1024:.0f}\tMiB\t<1024")
END

# A line a number of nodes: nodes, score all, its bound, plan, state change, memory.
if [ $# -eq 2 ]; then
    awk -F '\t' 'split($1, name, " nodes: ") == 2 { row[name[1]] = row[name[1]] " " $2 }
        END { for (nodes in row) print nodes row[nodes] }' "$work/measures" | sort -n >"$work/sizes"
    gnuplot -e "sizes = '$work/sizes'; picture = '$2'" "$here/core.gnuplot"
fi
awk -f "$here/report.awk" "$work/measures"
