#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The static experiments of docs/placement-benchmarks.md: the openb pods until the cluster is full, nothing
# leaves. Prints the tables; about two minutes on one core.
#
#     tests/bench/sim_static.sh PATH/gputopo TRACES-DIRECTORY [SEEDS]
#
# TRACES-DIRECTORY holds openb/.
set -eu

if [ $# -lt 2 ] || [ ! -f "$1" ] || [ ! -d "$2/openb" ]; then
    echo "usage: $0 PATH/gputopo TRACES-DIRECTORY [SEEDS]" >&2
    exit 2
fi
gputopo=$1 openb=$2/openb seeds=${3:-10}

table() { # title options...
    printf '\n### %s\n\n' "$1"
    shift
    printf '| pods | policy | allocated GPUs, %% | rejected pods |\n|---|---|---|---|\n'
    for list in default multigpu20 multigpu50; do
        "$gputopo" simulate --cluster "$openb/openb_node_list_gpu_node.csv" \
            --trace "$openb/openb_pod_list_$list.csv" --seeds "$seeds" -o json "$@" |
            /usr/bin/python3 -c '
import json, sys
for p in json.load(sys.stdin):
    print("| {} | {} | {:.2f} ±{:.2f} | {:.0f} |".format(
        sys.argv[1], p["policy"], 100 * p["occupancy"], 100 * p["ci95"]["occupancy"], p["rejected"]))' "$list"
    done
}

table "All pods, scores with CPU, ties by name (the published protocol)"
table "All pods, scores with CPU, ties at random" --ties random
table "Whole-GPU pods, CPU and memory for feasibility only, ties by name" --whole-gpus --gpu-only
table "Whole-GPU pods, scores with CPU, ties by name" --whole-gpus
