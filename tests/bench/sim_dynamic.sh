#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The dynamic experiments of docs/placement-benchmarks.md: jobs come and go, every policy on the same jobs. Prints
# Markdown tables; the runs themselves go to OUT/*.csv, and what is there is not run again. Takes about a quarter of
# an hour on one core, so `./dev bench` does not call it.
#
#     tests/bench/sim_dynamic.sh PATH/gputopo TRACES-DIRECTORY OUT [SEEDS]
#
# TRACES-DIRECTORY holds philly/philly.csv and lingjun/topo.csv.
set -eu

if [ $# -lt 3 ] || [ ! -f "$1" ] || [ ! -d "$2" ]; then
    echo "usage: $0 PATH/gputopo TRACES-DIRECTORY OUT [SEEDS]" >&2
    exit 2
fi
gputopo=$1 traces=$2 out=$3 seeds=${4:-10}
all=gputopo,gputopo-static,kueue,slurm-block,huawei,volcano,first-fit,best-fit,kueue+first,kueue+most,huawei+first,volcano+first
few=gputopo,kueue,huawei,first-fit,best-fit,kueue+first
mkdir -p "$out"

# What does not fit is rejected (none), or waits, at a load that no policy can serve (backfill) and at one that all can
# (calm); fifo; replay: the same with the file's own times.
one() { # name cluster trace jobs options...
    name=$1 on=$2 jobs_of=$3 jobs=$4
    shift 4
    run() { # experiment policies jobs load options...
        file=$out/$1.$name.csv policies=$2 count=$3 load=$4
        shift 4
        [ -s "$file" ] || {
            "$gputopo" simulate --cluster "$on" --trace "$jobs_of" --policy "$policies" --seeds "$seeds" --load "$load" \
                --jobs "$count" -o csv "$@" >"$file.new"
            mv "$file.new" "$file"
        }
    }
    run none "$all" "$jobs" 1.1 --queue none "$@"
    run backfill "$few" $((jobs / 3)) 1.1 "$@"
    run calm "$few" $((jobs / 3)) 0.8 "$@"
    case $name in
    seren-32x32x8 | kalos-lingjun | helios-21x48x8) run fifo "$few" $((jobs / 3)) 1.1 --queue fifo "$@" ;;
    philly-*) run replay "$few" $((jobs / 3)) 0.8 --replay "$@" ;;
    esac
}

# In the held-out settings no rule was looked for: other clusters, other jobs, other seeds.
for cluster in lingjun 32x32x8 57x18x4 21x48x8; do
    on=$cluster
    [ $cluster = lingjun ] && on=$traces/lingjun/topo.csv
    for trace in seren kalos helios; do
        one "$trace-$cluster" "$on" $trace 60000
    done
    one "philly-$cluster" "$on" "$traces/philly/philly.csv" 150000
done
one seren-32x32x8-failures 32x32x8 seren 60000 --mtbf 2000 --repair 12
one kalos-lingjun-failures "$traces/lingjun/topo.csv" kalos 60000 --mtbf 2000 --repair 12
for setting in "seren 12x32x8+20x16x8" "kalos 96x9x4" "kalos 16x64x8" "helios 12x32x8+20x16x8" "mix:8,24,72 57x18x4" \
    "mix:8,48,192 21x48x8" "mix:1,4,8,32,128 24x24x8" "mix:4,16,64,256 40x36x8"; do
    one "held-out-${setting% *}-${setting#* }" "${setting#* }" "${setting% *}" 60000 --seed 342
done

exec /usr/bin/python3 - "$out" <<'EOF'
import csv, glob, math, os, statistics, sys

T95 = [0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
OURS = ("gputopo", "gputopo-static")


def mean_ci(values):
    n = len(values)
    t = T95[n - 1] if n - 1 < len(T95) else 1.96
    return statistics.mean(values), t * statistics.stdev(values) / math.sqrt(n) if n > 1 else 0.0


def read(experiment):
    tables = {}
    for path in sorted(glob.glob(os.path.join(sys.argv[1], experiment + ".*.csv"))):
        runs = {}
        with open(path, encoding="utf-8") as file:
            for row in csv.DictReader(file):
                runs.setdefault(row["policy"], {})[row["seed"]] = row
        name = os.path.basename(path)[len(experiment) + 1:-4]
        tables[name] = runs
    return dict(sorted(tables.items(), key=lambda item: (item[0].startswith("held-out"), item[0])))


def verdict(mean, ci):
    return "above" if mean - ci > 0 else "below" if mean + ci < 0 else "equal"


def best_peer_table(experiment, field, title):
    print(f"\n### {title}\n")
    print("| jobs, cluster | gputopo | best peer | difference | |\n|---|---|---|---|---|")
    counts = {}
    for table, runs in read(experiment).items():
        value = {name: {s: 100 * float(r[field]) for s, r in of.items()} for name, of in runs.items()}
        best = max((n for n in value if n not in OURS), key=lambda n: statistics.mean(value[n].values()))
        mean, ci = mean_ci([value["gputopo"][s] - value[best][s] for s in value[best]])
        word = verdict(mean, ci)
        kind = "held-out" if table.startswith("held-out") else "18 settings"
        counts.setdefault(kind, {}).setdefault(word, []).append(table)
        print(f"| {table} | {statistics.mean(value['gputopo'].values()):.2f} | {best} "
              f"{statistics.mean(value[best].values()):.2f} | {mean:+.2f} ±{ci:.2f} | {word} |")
    for kind, words in counts.items():
        print(f"\n{kind}: " + ", ".join(f"{word} in {len(tables)}" for word, tables in sorted(words.items())))


def waiting_table(experiment, title):
    print(f"\n### {title}\n")
    fields = ("waitMean", "waitGpuMean", "waitP99", "slowdownNode", "slowdownSupernode", "slowdownLarger")
    print("| jobs, cluster | policy | served, % | wait: mean, s | by GPUs, s | p99, s | slowdown: a node | a supernode | larger |")
    print("|---" * 9 + "|")
    for table, runs in read(experiment).items():
        for policy in ("gputopo", "kueue", "huawei", "first-fit", "kueue+first"):
            rows = runs[policy].values()
            served = statistics.mean(100 * float(r["served"]) for r in rows)
            cells = [statistics.mean(float(r[f]) for r in rows) for f in fields]
            print(f"| {table} | {policy} | {served:.2f} | " + " | ".join(f"{c:,.0f}" for c in cells[:3]) + " | " +
                  " | ".join(f"{c:.2f}" for c in cells[3:]) + " |")


best_peer_table("none", "occupancy", "Rejection: occupancy, %")
best_peer_table("backfill", "served", "Backfill, load 1.1: GPU time served, %")
waiting_table("calm", "Backfill, load 0.8: waiting")
best_peer_table("fifo", "served", "FIFO, load 1.1: GPU time served, %")
waiting_table("replay", "Backfill, the real arrivals of Philly, load 0.8")
EOF
