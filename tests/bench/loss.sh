#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What the choice of GPUs costs, and beside it NVIDIA's go-gpuallocator on the same matrix.
#
#     tests/bench/loss.sh BUILD/bin
#
# The form of every benchmark here. A script NAME.sh takes the directory of the built programs, prints one
# line a measure and exits with 1 when a goal is missed, with 2 when it could not measure. Its programs print
# measures, four fields with a tab between them,
#
#     NAME <tab> VALUE <tab> UNIT <tab> GOAL
#
# where VALUE is a plain decimal number, UNIT one of ns, us, ms, s, B, KiB, MiB, x (a ratio), % or empty, and
# GOAL "<30", ">100000" or "-" for none. A line "# text" is a heading, "skipped <tab> text" says what was left
# out and why. report.awk turns them into
#
#     VERDICT  NAME  VALUE UNIT  goal GOAL
#
# with the verdict pass, FAIL, info (no goal) or skip.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -ne 1 ] || [ ! -x "$1/bench_loss" ]; then
    echo "usage: $0 DIRECTORY-OF-bench_loss (a release build)" >&2
    exit 2
fi
bin=$(cd "$1" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

"$bin/bench_loss" >"$work/ours"

# "go version go1.26.8 linux/amd64" -> 1.26
go_is_there() {
    command -v go >/dev/null || return 1
    version=$(GOTOOLCHAIN=local go version 2>/dev/null | sed -n 's/.* go\([0-9]*\.[0-9]*\).*/\1/p')
    [ -n "$version" ] && { [ "${version%.*}" -gt 1 ] || [ "${version#*.}" -ge 26 ]; }
}

if go_is_there; then
    if (cd "$here/peers/go-gpuallocator" && go build -o "$work/peer" .) >"$work/log" 2>&1; then
        {
            echo "# go-gpuallocator v0.6.0, best-effort policy, on the same matrices"
            "$bin/bench_loss" --matrix 8 >"$work/matrix"
            "$work/peer" "$work/matrix" 2 3 4
            "$bin/bench_loss" --matrix 16 >"$work/matrix"
            "$work/peer" "$work/matrix" 4
        } >"$work/peers"
        # The ratios come from the measures themselves, by their names.
        awk -F '\t' '
            $1 == "first choice of a new class of 16, worst k" { first = $2 }
            $1 == "choose 4 of 16, all free" { ours = $2 / 1000 }
            $1 == "go-gpuallocator 4 of 16, all free" { theirs = $2 }
            END {
                printf "go-gpuallocator / ours, 4 of 16, warm\t%.0f\tx\t>100000\n", theirs / ours
                printf "go-gpuallocator / ours, 4 of 16, first choice of a new class\t%.1f\tx\t>20\n",
                       theirs / first
            }' "$work/ours" "$work/peers" >"$work/ratios"
    else
        cat "$work/log" >&2
        echo "the peer go-gpuallocator could not be built" >&2
        exit 2
    fi
else
    printf 'skipped\tgo 1.26 or newer is not on PATH\n' >"$work/peers"
    : >"$work/ratios"
fi

cat "$work/ours" "$work/peers" "$work/ratios" | awk -f "$here/report.awk"
