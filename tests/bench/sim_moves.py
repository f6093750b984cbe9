#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What moving pods brings, by docs/placement-benchmarks.md: gputopo simulate with --moves-a-day, where each move costs the job
that moves ten minutes, beside the same jobs without moves and without topology. Prints Markdown tables; some ten minutes of
one core.

    tests/bench/sim_moves.py PATH/gputopo [SEEDS]

The jobs are made: 20 days on 512 GPUs, with the hours of a day, from MIXES."""
import csv
import datetime
import io
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile

T95 = [0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]
GPUS, DAYS, HOUR, DAY = 512, 20, 3600, 86400
BEGIN = datetime.datetime(2026, 1, 5)
# At this load the jobs cannot all be served in time where they find no room, and can without topology.
LOAD, MOVE_SECONDS = 0.97, 600

# A weight of arrivals for each hour of the day.
ALWAYS = [1] * 24
WORK = [0] * 8 + [1, 3, 4, 4, 3, 3, 4, 4, 4, 3, 2, 1] + [0.3] * 4
MORNING = [0] * 7 + [2, 4, 4, 1] + [0] * 13
NIGHT = [0] * 22 + [1, 0]

# Of each mix, parts of its GPU time: (part, sizes in GPUs, median hours, spread of the logarithm, hours of arrival).
MIXES = {
    "trainings of a supernode beside notebooks": [
        (0.56, (64,), 12, 0.8, ALWAYS),
        (0.14, (1, 1, 1, 2), 5, 0.8, WORK),
        (0.30, (4, 8, 16, 32), 3, 1.0, WORK),
    ],
    "inference by day": [
        (0.27, (1, 2, 4, 8), 11, 0.2, MORNING),
        (0.46, (16, 32, 64), 8, 0.8, ALWAYS),
        (0.27, (1, 2, 4, 8), 3, 1.0, WORK),
    ],
    "batches by night": [
        (0.32, (8, 16, 32), 4, 0.5, NIGHT),
        (0.47, (32, 64), 14, 0.8, ALWAYS),
        (0.21, (1, 2, 4, 8), 4, 1.0, WORK),
    ],
}


def make_jobs(mix, seed):
    """[(seconds, run time, GPUs)] by time."""
    rng = random.Random(seed)
    jobs = []
    for part, sizes, hours, spread, when in mix:
        mean = hours * HOUR * math.exp(spread * spread / 2)
        count = round(LOAD * part * GPUS * DAYS * DAY / (mean * statistics.mean(sizes)))
        for _ in range(count):
            hour = rng.choices(range(24), when)[0]
            at = rng.randrange(DAYS) * DAY + hour * HOUR + rng.randrange(HOUR)
            jobs.append((at, max(60, round(rng.lognormvariate(math.log(hours * HOUR), spread))), rng.choice(sizes)))
    jobs.sort()
    stretch = LOAD * GPUS * (jobs[-1][0] - jobs[0][0]) / sum(seconds * gpus for _, seconds, gpus in jobs)
    return [(at, max(1, round(seconds * stretch)), gpus) for at, seconds, gpus in jobs]


def write_trace(path, jobs):
    with open(path, "w", encoding="utf-8") as file:
        file.write("timestamp,duration,num_gpus,gpu_time,cluster\n")
        for at, seconds, gpus in jobs:
            when = BEGIN + datetime.timedelta(seconds=at)
            file.write(f"{when:%Y-%m-%d %H:%M:%S},{seconds},{gpus},{seconds * gpus},all\n")


def run(gputopo, jobs, arguments):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "jobs.csv")
        write_trace(path, jobs)
        done = subprocess.run([gputopo, "simulate", "--cluster", "8x8x8", "--policy", "gputopo", "--trace", path, "--replay",
                               "--jobs", str(len(jobs)), "--load", str(LOAD), "--restart-cost", str(MOVE_SECONDS),
                               "-o", "csv", *arguments], stdout=subprocess.PIPE, text=True, check=True)
    row = {key: float(value) for key, value in next(csv.DictReader(io.StringIO(done.stdout))).items() if key != "policy"}
    row["hours"] = (row["served"] - row["worked"]) * GPUS * 24  # GPU hours a day without progress
    return row


def mean_ci(values):
    n = len(values)
    t = T95[n - 1] if n - 1 < len(T95) else 1.96
    return statistics.mean(values), t * statistics.stdev(values) / math.sqrt(n) if n > 1 else 0.0


def table(name, gputopo, seeds):
    variants = {"no moves": [], "2 a day": ["--moves-a-day", "2"], "20 a day": ["--moves-a-day", "20"],
                "any number": ["--moves-a-day", "1000000"], "without topology": ["--pool"]}
    runs = {title: [] for title in variants}
    for seed in range(1, seeds + 1):
        jobs = make_jobs(MIXES[name], seed)
        for title, arguments in variants.items():
            runs[title].append(run(gputopo, jobs, arguments))
    base = [row["worked"] for row in runs["no moves"]]
    print(f"\n### {name}\n\n| moves | progress, % | | wait by GPUs, h | mean, h | slowdown: a node | a supernode | moves a day | "
          "GPU hours a day they cost | jobs that moved, % | most moves of a job |\n" + "|---" * 11 + "|")
    for title, rows in runs.items():
        mean = {key: statistics.mean(row[key] for row in rows) for key in rows[0]}
        gain, ci = mean_ci([100 * (row["worked"] - b) for row, b in zip(rows, base)])
        cells = [title, f"{100 * mean['worked']:.2f}", "" if rows is runs["no moves"] else f"{gain:+.2f} ±{ci:.2f}",
                 f"{mean['waitGpuMean'] / HOUR:.2f}", f"{mean['waitMean'] / HOUR:.2f}", f"{mean['slowdownNode']:.2f}",
                 "" if title == "without topology" else f"{mean['slowdownSupernode']:.2f}",
                 f"{mean['moved'] / DAYS:.1f}", f"{mean['hours']:.1f}", f"{100 * mean['jobsMoved'] / mean['jobs']:.1f}", f"{mean['movedMost']:.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
    worked, waited = ([statistics.mean(row[key] for row in runs[title]) for title in ("no moves", "20 a day", "without topology")]
                      for key in ("worked", "waitGpuMean"))
    part, waits = ((some - none) / (bound - none) for none, some, bound in (worked, waited))
    print(f"\n20 moves a day bring {100 * part:.0f} % of the bound's progress, and {100 * waits:.0f} % of its shorter waiting by GPUs.",
          flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} PATH/gputopo [SEEDS]")
    for name in MIXES:
        table(name, sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10)


if __name__ == "__main__":
    main()
