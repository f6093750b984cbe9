#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The dynamic experiments of docs/placement-benchmarks.md: jobs come and go, every policy on the same jobs. Prints
# Markdown tables; the runs themselves go to OUT/*.csv, and what is there is not run again. Takes about ten
# minutes on one core, so `./dev bench` does not call it.
#
#     tests/bench/sim_dynamic.sh BUILD/bin TRACES-DIRECTORY OUT [SEEDS]
#
# TRACES-DIRECTORY holds philly/philly.csv and lingjun/topo.csv.
set -eu

if [ $# -lt 3 ] || [ ! -f "$1/bench_simulate" ] || [ ! -d "$2" ]; then
    echo "usage: $0 BUILD/bin TRACES-DIRECTORY OUT [SEEDS]" >&2
    exit 2
fi
simulate=$1/bench_simulate traces=$2 out=$3 seeds=${4:-10}
all=gputopo,gputopo-static,kueue,kueue-slices,kueue-preferred,slurm-block,huawei,volcano,first-fit,best-fit
all=$all,kueue+first,kueue-preferred+first,kueue+most,huawei+first,huawei+most,volcano+first,volcano+most
few=gputopo,kueue,kueue-slices,kueue-preferred,huawei,first-fit,best-fit,kueue+first,kueue-preferred+first
mkdir -p "$out"

run() { # experiment name cluster trace policies jobs load options...
    file=$out/$1.$2.csv on=$3 of=$4 policies=$5 jobs=$6 load=$7
    shift 7
    [ $on = lingjun ] && on=$out/topo.csv && # a rack is a supernode
        awk -F, 'NR == 1 { print "node,supernode"; next } { print $1 "," $3 "-" $4 }' "$traces/lingjun/topo.csv" >"$on"
    [ $of = philly ] && of=$traces/philly/philly.csv
    [ -s "$file" ] || {
        "$simulate" --cluster "$on" --trace "$of" --policy "$policies" --seeds "$seeds" --load "$load" \
            --jobs "$jobs" -o csv "$@" >"$file.new"
        mv "$file.new" "$file"
    }
}

# What does not fit is rejected. The held-out settings have other clusters or jobs, and seeds that no rule was chosen
# by; the unseen ones were made when the rules were as they are. Each also runs without topology (pool).
rejected() { # name cluster trace jobs options...
    name=$1 cluster=$2 trace=$3 jobs=$4
    shift 4
    run none "$name" "$cluster" "$trace" "$all" "$jobs" 1.1 --queue none "$@"
    run pool-none "$name" "$cluster" "$trace" first-fit "$jobs" 1.1 --queue none --pool "$@"
}
for cluster in lingjun 32x32x8 57x18x4 21x48x8; do
    for trace in seren kalos helios; do
        rejected "$trace-$cluster" $cluster $trace 60000
    done
    rejected "philly-$cluster" $cluster philly 150000
done
rejected seren-32x32x8-failures 32x32x8 seren 60000 --mtbf 2000 --repair 12
rejected kalos-lingjun-failures lingjun kalos 60000 --mtbf 2000 --repair 12
for setting in "seren 12x32x8+20x16x8" "kalos 96x9x4" "kalos 16x64x8" "helios 12x32x8+20x16x8" "mix:8,24,72 57x18x4" \
    "mix:8,48,192 21x48x8" "mix:1,4,8,32,128 24x24x8" "mix:4,16,64,256 40x36x8"; do
    rejected "held-out-${setting% *}-${setting#* }" "${setting#* }" "${setting% *}" 60000 --seed 342
done
for setting in "kalos 36x28x8" "seren 16x60x8" "helios 20x16x8+9x72x8" "philly 30x30x8" "mix:8,32,96 24x40x8" \
    "mix:2,8,40,160 28x44x8" "seren 12x12x8+6x12x16" "mix:2,4,8,24 30x6x4+15x6x8" "philly 10x12x8" \
    "mix:8,24,48,192 10x24x8+25x6x8"; do
    jobs=60000
    [ "$setting" = "philly 30x30x8" ] && jobs=150000
    rejected "unseen-${setting% *}-${setting#* }" "${setting#* }" "${setting% *}" $jobs --seed 742
done

# Nodes of 4, 8 and 16 GPUs; supernodes of two sizes; many small jobs; pods that do not fill a node.
for setting in "kinds mix:1,2,3,4,6,8,16 10x1x16+40x1x8+60x1x4" "kinds helios 20x8x8+20x8x4" \
    "kinds mix:1,2,4,8,16,64 10x8x16+20x8x8" "sizes mix:8,32,128 8x16x8+16x4x8" "sizes mix:32,64 8x16x8+16x4x8" \
    "sizes mix:8,16,32,64 lingjun" "small philly 8x8x8" "small mix:1,2,4,8,16,32 8x8x8" "small mix:6,12,18,40 12x10x8"; do
    jobs=60000 of=${setting#* } # KIND TRACE CLUSTER
    rejected "${setting%% *}-${of% *}-${of#* }" "${of#* }" "${of% *}" $jobs --seed 1142
done

# Leaves and spines above the supernodes.
for setting in "mix:8,16,32,64,128 64x2x8 8 4" "mix:64,128,256,512 64x8x8 8 4" "helios 64x2x8 8 4" "kalos 128x2x8 16 4" \
    "seren 128x4x8 8 4"; do
    set -- $setting
    run leaf "$1-$2" "$2" "$1" gputopo,kueue,kueue-preferred,volcano,kai,first-fit 20000 0.9 --queue none --leaf "$3" --spine "$4" \
        --seed 1142
    run pool-leaf "$1-$2" "$2" "$1" first-fit 20000 0.9 --queue none --pool --seed 1142
done

waits() { # cluster trace
    run backfill "$2-$1" "$1" "$2" $few 15000 1.1
    run pool-backfill "$2-$1" "$1" "$2" first-fit 15000 1.1 --pool
}
# It waits: at a load that no policy can serve (backfill, fifo; replay, with the file's own times), at one that all
# can (calm).
for setting in "seren 32x32x8" "kalos 57x18x4" "helios 21x48x8"; do
    cluster=${setting#* } trace=${setting% *}
    waits "$cluster" "$trace"
    run calm "$trace-$cluster" "$cluster" "$trace" $few 15000 0.8
    run pool-calm "$trace-$cluster" "$cluster" "$trace" first-fit 15000 0.8 --pool
    run fifo "$trace-$cluster" "$cluster" "$trace" $few 15000 1.1 --queue fifo
    run pool-fifo "$trace-$cluster" "$cluster" "$trace" first-fit 15000 1.1 --queue fifo --pool
done
for setting in "seren lingjun" "kalos 21x48x8" "helios 32x32x8"; do
    cluster=${setting#* } trace=${setting% *}
    waits "$cluster" "$trace"
done
run replay philly-lingjun lingjun philly $few 60000 1.1 --replay
run pool-replay philly-lingjun lingjun philly first-fit 60000 1.1 --replay --pool

exec /usr/bin/python3 - "$out" <<'EOF'
import csv, glob, math, os, statistics, sys

T95 = [0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
OURS = ("gputopo", "gputopo-static")


def mean_ci(values):
    n = len(values)
    t = T95[n - 1] if n - 1 < len(T95) else 1.96
    return statistics.mean(values), t * statistics.stdev(values) / math.sqrt(n) if n > 1 else 0.0


def kind_of(table):
    return next((kind for kind in ("held-out", "unseen", "kinds", "sizes", "small") if table.startswith(kind)), "18 settings")


def read(experiment):
    tables = {}
    for path in sorted(glob.glob(os.path.join(sys.argv[1], experiment + ".*.csv"))):
        runs = {}
        with open(path, encoding="utf-8") as file:
            for row in csv.DictReader(file):
                runs.setdefault(row["policy"], {})[row["seed"]] = row
        name = os.path.basename(path)[len(experiment) + 1:-4]
        tables[name] = runs
    return dict(sorted(tables.items(), key=lambda item: (kind_of(item[0]), item[0])))


def verdict(mean, ci):
    return "above" if mean - ci > 0 else "below" if mean + ci < 0 else "equal"


def best_peer_table(experiment, field, title, sums=False):
    print(f"\n### {title}\n")
    print("| jobs, cluster | gputopo | best peer | difference | | without topology |\n" + "|---" * 6 + "|")
    counts, pools = {}, read("pool-" + experiment)
    for table, runs in read(experiment).items():
        value = {name: {s: 100 * float(r[field]) for s, r in of.items()} for name, of in runs.items()}
        best = max((n for n in value if n not in OURS), key=lambda n: statistics.mean(value[n].values()))
        mean, ci = mean_ci([value["gputopo"][s] - value[best][s] for s in value[best]])
        word = verdict(mean, ci)
        pool = statistics.mean(100 * float(row[field]) for row in pools[table]["first-fit"].values())
        counts.setdefault(kind_of(table), {}).setdefault(word, []).append(table)
        print(f"| {table} | {statistics.mean(value['gputopo'].values()):.2f} | {best} "
              f"{statistics.mean(value[best].values()):.2f} | {mean:+.2f} ±{ci:.2f} | {word} | {pool:.2f} |")
    for kind, words in counts.items() if sums else ():
        print(f"\n{kind}: " + ", ".join(f"{word} in {len(tables)}" for word, tables in sorted(words.items())))


def domains_table(experiment, one, many, peers):
    """Jobs that need several domains of the tier below: how many lie in one, and how many domains a job has for each it
    needs."""
    print(f"\n### {one}, %; {many} over the fewest that do\n")
    print("| jobs, cluster | " + " | ".join(peers) + " |\n" + "|---" * (len(peers) + 1) + "|")
    for table, runs in read(experiment).items():
        rows = {p: runs[p].values() for p in peers}
        share = {p: statistics.mean(100 * float(r[one]) for r in rows[p]) for p in peers}
        over = {p: statistics.mean(float(r[many]) / float(r[many + "Bound"]) for r in rows[p]) for p in peers}
        if any(o > 1.0005 for o in over.values()):
            print(f"| {table} | " + " | ".join(f"{share[p]:.1f}, {over[p]:.2f}" for p in peers) + " |")


def waiting_table(experiment, title):
    print(f"\n### {title}\n")
    fields = ("waitMean", "waitGpuMean", "waitP99", "slowdownNode", "slowdownSupernode", "slowdownLarger")
    print("| jobs, cluster | policy | served, % | wait: mean, s | by GPUs, s | p99, s | slowdown: a node | a supernode | larger |")
    print("|---" * 9 + "|")
    pools = read("pool-" + experiment)
    for table, runs in read(experiment).items():
        runs["without topology"] = pools[table]["first-fit"]
        if all(float(r["waitMean"]) < 0.5 for of in runs.values() for r in of.values()):
            print(f"| {table} | all | nobody waits | | | | | | |")
            continue
        for policy in ("gputopo", "kueue", "kueue-preferred", "huawei", "first-fit", "kueue-preferred+first", "without topology"):
            rows = runs[policy].values()
            served = statistics.mean(100 * float(r["served"]) for r in rows)
            cells = [statistics.mean(float(r[f]) for r in rows) for f in fields]
            print(f"| {table} | {policy} | {served:.2f} | " + " | ".join(f"{c:,.0f}" for c in cells[:3]) + " | " +
                  " | ".join(f"{c:.2f}" for c in cells[3:]) + " |")


best_peer_table("none", "occupancy", "Rejection: occupancy, %", sums=True)
domains_table("none", "jobsInOne", "jobSupernodes",
              ("gputopo", "kueue-preferred", "slurm-block", "huawei", "volcano", "best-fit"))
for one, many in (("jobsInOne", "jobSupernodes"), ("jobsInOneLeaf", "jobLeaves"), ("jobsInOneSpine", "jobSpines")):
    domains_table("leaf", one, many, ("gputopo", "kueue", "kueue-preferred", "volcano", "kai", "first-fit"))
best_peer_table("leaf", "occupancy", "The same runs: occupancy, %")
best_peer_table("backfill", "served", "Backfill, load 1.1: GPU time served, %")
waiting_table("calm", "Backfill, load 0.8: waiting")
best_peer_table("fifo", "served", "FIFO, load 1.1: GPU time served, %")
waiting_table("replay", "Backfill, the real arrivals of Philly, load 1.1")
EOF
