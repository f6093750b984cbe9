#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the placement controller's options do, by docs/placement-benchmarks.md: each value against the default on the same
jobs, in simulated time. Prints Markdown tables; half an hour of one core.

    tests/bench/sim_defaults.py PATH/gputopo TRACES-DIRECTORY [SEEDS]

TRACES-DIRECTORY holds philly/philly.csv."""
import csv
import io
import math
import statistics
import subprocess
import sys

T95 = [0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]
SETTINGS = {"kalos, 57x18x4": ["--cluster", "57x18x4", "--trace", "kalos", "--jobs", "5000"],
            "seren, 32x32x8": ["--cluster", "32x32x8", "--trace", "seren", "--jobs", "30000"]}
COLUMNS = (("worked", 100, 2), ("waitMean", 1, 0), ("waitGpuMean", 1, 0), ("slowdownNode", 1, 2), ("slowdownSupernode", 1, 2),
           ("slowdownLarger", 1, 2), ("waitFirstP99", 1, 0), ("rejected", 1, 1))


def mean_ci(values):
    n = len(values)
    t = T95[n - 1] if n - 1 < len(T95) else 1.96
    return statistics.mean(values), t * statistics.stdev(values) / math.sqrt(n) if n > 1 else 0.0


def run(gputopo, seeds, arguments):
    done = subprocess.run([gputopo, "simulate", "--policy", "gputopo", "--seeds", str(seeds), "-o", "csv", *arguments],
                          stdout=subprocess.PIPE, text=True, check=True)
    return {row["seed"]: row for row in csv.DictReader(io.StringIO(done.stdout))}


def table(title, setting, common, variants, gputopo, seeds):
    """The first variant is the default."""
    print(f"\n### {title}: {setting}\n\n| | " + " | ".join(key for key, _, _ in COLUMNS) + " |\n" + "|---" * (len(COLUMNS) + 1) + "|")
    first = None
    for name, arguments in variants:
        rows = run(gputopo, seeds, [*common, *arguments])
        first = first or rows
        cells = []
        for key, scale, digits in COLUMNS:
            text = f"{statistics.mean(scale * float(row[key]) for row in rows.values()):,.{digits}f}"
            if rows is not first:
                mean, ci = mean_ci([scale * (float(rows[seed][key]) - float(first[seed][key])) for seed in rows])
                text += f" ({mean:+,.{digits}f} ±{ci:,.{digits}f})"
            cells.append(text)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def values(option, default, others):
    return [(f"{option} {value}", [f"--{option}", str(value)]) for value in (default, *others)]


def main():
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} PATH/gputopo TRACES-DIRECTORY [SEEDS]")
    gputopo, traces, seeds = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 10
    for setting, jobs in SETTINGS.items():
        for load in ("0.8", "1.1"):
            common, name = [*jobs, "--load", load], f"{setting}, load {load}"
            table("Patience", name, common, values("patience", 60, (10, 600, 3600, 1e9)), gputopo, seeds)
            table("Turn of the reservation", name, common, values("reserve-waiting", 600, (60, 3600, 1e9)), gputopo, seeds)
            table("Its limit", name, common, values("reserve-waiting-percent", 50, (10, 25, 100)), gputopo, seeds)
    philly = ["--cluster", "8x8x8", "--trace", f"{traces}/philly/philly.csv", "--jobs", "15000", "--load", "1.2"]
    table("Quotas", "philly, 8x8x8, load 1.2", philly,
          [("turns", ["--queue", "turns"]), ("age", ["--queue", "backfill"])] +
          [(f"{queue}, quota {quota}", ["--queue", queue, "--quota", quota]) for queue in ("turns", "backfill") for quota in ("0.5", "0.25")],
          gputopo, seeds)


if __name__ == "__main__":
    main()
