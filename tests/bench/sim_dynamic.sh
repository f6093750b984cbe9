#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The dynamic experiments of docs/placement-benchmarks.md: jobs come and go on four shapes of clusters, every
# policy on the same jobs. Prints Markdown tables; the runs themselves go to OUT/*.csv. Takes about half an
# hour on one core, so `./dev bench` does not call it.
#
#     tests/bench/sim_dynamic.sh PATH/gputopo TRACES-DIRECTORY OUT [SEEDS [JOBS]]
#
# TRACES-DIRECTORY holds philly/philly.csv and lingjun/topo.csv.
set -eu

if [ $# -lt 3 ] || [ ! -f "$1" ] || [ ! -d "$2" ]; then
    echo "usage: $0 PATH/gputopo TRACES-DIRECTORY OUT [SEEDS [JOBS]]" >&2
    exit 2
fi
gputopo=$1 traces=$2 out=$3 seeds=${4:-10} jobs=${5:-200000}
policies=gputopo,gputopo-static,kueue,slurm-block,huawei,volcano,first-fit,best-fit,worst-fit,random
mkdir -p "$out"

one() { # name cluster trace options...
    name=$1 on=$2 jobs_of=$3
    shift 3
    [ -s "$out/$name.csv" ] ||
        "$gputopo" simulate --cluster "$on" --trace "$jobs_of" --policy "$policies" --seeds "$seeds" \
            --load 1.1 --queue none --jobs "$jobs" -o csv "$@" >"$out/$name.csv.new"
    [ ! -e "$out/$name.csv.new" ] || mv "$out/$name.csv.new" "$out/$name.csv"
}

for trace in seren kalos helios philly; do
    source=$trace
    [ $trace = philly ] && source=$traces/philly/philly.csv
    one "$trace-lingjun" "$traces/lingjun/topo.csv" "$source"
    one "$trace-32x32x8" 32x32x8 "$source"
    one "$trace-57x18x4" 57x18x4 "$source"
    one "$trace-21x48x8" 21x48x8 "$source"
done
one "seren-32x32x8-failures" 32x32x8 seren --mtbf 2000 --repair 12
one "kalos-lingjun-failures" "$traces/lingjun/topo.csv" kalos --mtbf 2000 --repair 12

exec /usr/bin/python3 - "$out" <<'EOF'
import csv, glob, math, os, statistics, sys

T95 = [0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
OURS = ("gputopo", "gputopo-static")


def mean_ci(values):
    n = len(values)
    t = T95[n - 1] if n - 1 < len(T95) else 1.96
    return statistics.mean(values), t * statistics.stdev(values) / math.sqrt(n) if n > 1 else 0.0


tables = {}
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.csv"))):
    runs = {}
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            runs.setdefault(row["policy"], {})[row["seed"]] = row
    tables[os.path.basename(path)[:-4]] = runs

for field in ("occupancy", "acceptance"):
    names = list(next(iter(tables.values())))
    print(f"\n### {field}, %: mean over the seeds\n")
    print("| jobs, cluster | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for table, runs in tables.items():
        means = {name: mean_ci([100 * float(r[field]) for r in runs[name].values()]) for name in names}
        print(f"| {table} | " + " | ".join(f"{m:.2f} ±{c:.2f}" for m, c in means.values()) + " |")

print("\n### Difference to the best peer, points of occupancy, pair by pair on the same jobs\n")
print("| jobs, cluster | best peer | gputopo | gputopo-static |\n|---|---|---|---|")
for table, runs in tables.items():
    value = {name: {s: 100 * float(r["occupancy"]) for s, r in of.items()} for name, of in runs.items()}
    best = max((n for n in value if n not in OURS), key=lambda n: statistics.mean(value[n].values()))
    cells = []
    for name in OURS:
        mean, ci = mean_ci([value[name][s] - value[best][s] for s in value[best]])
        verdict = "above" if mean - ci > 0 else "below" if mean + ci < 0 else "equal"
        cells.append(f"{mean:+.2f} ±{ci:.2f} {verdict}")
    print(f"| {table} | {best} | " + " | ".join(cells) + " |")
EOF
