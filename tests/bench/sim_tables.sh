#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# All simulated tables of docs/placement-benchmarks.md: sim_static.sh, sim_dynamic.sh and sim_defaults.py one after
# the other, about three quarters of an hour of one core. The tables go to OUT/*.md and are printed; what is there is
# not run again.
#
#     tests/bench/sim_tables.sh BUILD/bin TRACES-DIRECTORY OUT [SEEDS]
set -eu

if [ $# -lt 3 ] || [ ! -f "$1/gputopo" ] || [ ! -d "$2" ]; then
    echo "usage: $0 BUILD/bin TRACES-DIRECTORY OUT [SEEDS]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
programs=$1 traces=$2 out=$3 seeds=${4:-10}
mkdir -p "$out"

tables() { # name command...
    name=$1
    shift
    [ -s "$out/$name.md" ] || {
        "$@" >"$out/$name.md.new"
        mv "$out/$name.md.new" "$out/$name.md"
    }
    cat "$out/$name.md"
}
tables static "$here/sim_static.sh" "$programs" "$traces" "$seeds"
tables dynamic "$here/sim_dynamic.sh" "$programs" "$traces" "$out" "$seeds"
tables defaults "$here/sim_defaults.py" "$programs/gputopo" "$traces" "$seeds"
