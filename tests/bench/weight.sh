#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What loss.weight does: gpu-aware with several weights on the same jobs, which come and go and leave a fifth of
# the GPUs free. Measured are linkFragmentation of `gputopo simulate`, the part of the bandwidth of the free
# GPUs that is gone, and fragmentation, the part of the free GPUs that pods of 8 cannot use. Goals: neither rises
# for certain from one weight to the next, and on nodes of several kinds both fall for certain from the first to
# the last ("for certain": by the 95 % confidence interval of the differences, seed by seed).
#
#     tests/bench/weight.sh BUILD/bin [PICTURE.svg]
#
# The form of the output is that of loss.sh. With PICTURE.svg, gnuplot draws it. About a minute on one core.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ ! -x "$1/gputopo" ]; then
    echo "usage: $0 DIRECTORY-OF-gputopo (a release build) [PICTURE.svg]" >&2
    exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

weights="0 0.5 2 4 8 16" seeds=20
three=70x1x8x8+70x1x8x4+60x1x8x1
for setting in "alike 200x1x8 mix:1,2,4,8" "alike-odd 200x1x8 mix:1,2,3,4,5,6,8" \
    "pairs-odd 200x1x8x2 mix:1,2,3,4,5,6,8" "mixed $three mix:1,2,4,8" "mixed-odd $three mix:1,2,3,4,5,6,8"; do
    # shellcheck disable=SC2086
    set -- "$1" "${2:-}" $setting
    for weight in $weights; do
        "$1/gputopo" simulate --cluster "$4" --trace "$5" --policy gpu-aware --loss-weight "$weight" --load 0.8 --queue none \
            --jobs 50000 --seeds "$seeds" -o csv >"$work/$3-$weight.csv"
    done
done

/usr/bin/python3 - "$work" "$weights" "$seeds" >"$work/measures" <<'END'
import csv, math, statistics, sys

work, weights, seeds = sys.argv[1], sys.argv[2].split(), int(sys.argv[3])
T95 = {20: 2.093}[seeds]  # Student's t
SETTINGS = (("alike", "200 nodes of groups of 4, pods of 1, 2, 4, 8"),
            ("alike-odd", "the same, pods of 1, 2, 3, 4, 5, 6, 8"),
            ("pairs-odd", "200 nodes of pairs, pods of 1, 2, 3, 4, 5, 6, 8"),
            ("mixed", "70 nodes of all 8 linked, 70 of groups of 4, 60 without links, pods of 1, 2, 4, 8"),
            ("mixed-odd", "the same, pods of 1, 2, 3, 4, 5, 6, 8"))
points = open(f"{work}/points", "w", encoding="utf-8")


def change(before, after):
    differences = [b - a for a, b in zip(before, after)]
    return statistics.mean(differences), T95 * statistics.stdev(differences) / math.sqrt(seeds)


for name, title in SETTINGS:
    print("# loss.weight,", title)
    lost, rooms = [], []
    for weight in weights:
        with open(f"{work}/{name}-{weight}.csv", encoding="utf-8") as file:
            runs = list(csv.DictReader(file))
        values = {key: [100 * float(run[key]) for run in runs] for key in ("linkFragmentation", "fragmentation", "linkShare")}
        lost.append(values["linkFragmentation"])
        rooms.append(values["fragmentation"])
        room, links = (statistics.mean(values[key]) for key in ("fragmentation", "linkShare"))
        print(f"{weight} (no room for 8: {room:.2f} %, pods' links {links:.2f} %)\t{statistics.mean(lost[-1]):.2f}\t%\t-")
        points.write(f"{weight} {statistics.mean(lost[-1])}\n")
    points.write("\n\n")
    for what, series in (("links", lost), ("room for 8", rooms)):
        steps = [change(a, b) for a, b in zip(series, series[1:])]
        print(f"{what}: largest certain rise in a step, points\t{max(m - ci for m, ci in steps):.3f}\t\t<0.001")
        mean, ci = change(series[0], series[-1])
        if "mixed" in name:  # alike nodes have little to choose
            print(f"{what}: rise from {weights[0]} to {weights[-1]}, at most, points\t{mean + ci:.3f}\t\t<0")
        else:
            print(f"{what}: certain rise from {weights[0]} to {weights[-1]}, points\t{mean - ci:.3f}\t\t<0.001")
END

[ -z "$2" ] || gnuplot -e "points = '$work/points'; picture = '$2'" "$here/weight.gnuplot"
awk -f "$here/report.awk" "$work/measures"
