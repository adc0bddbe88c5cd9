"""What `paceline.run` costs beside the command: the same race by both in turns, wall clock and processor time.

    python examples/overhead.py PATH-OF-THE-COMMAND [--rounds 7]

The command must be a release build of the same version as the package.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

import paceline

SCENARIO = pathlib.Path(__file__).parents[3] / "scenarios" / "dumbbell.toml"
RUNS, SECONDS = 4, 120


def spent(before: os.times_result, after: os.times_result) -> tuple[float, float]:
    """Processor time of this process, and of its children."""
    return (after.user + after.system - before.user - before.system,
            after.children_user + after.children_system - before.children_user - before.children_system)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    race = [options.command, "race", str(SCENARIO), "--runs", str(RUNS), "--seconds", str(SECONDS), "--threads", "1", "--json", "-"]
    walls: list[tuple[float, float]] = []
    processors: list[tuple[float, float]] = []
    for _ in range(options.rounds):
        start, before = time.monotonic(), os.times()
        records = paceline.run(SCENARIO, runs=RUNS, seconds=SECONDS, threads=1)
        middle, between = time.monotonic(), os.times()
        command = subprocess.run(race, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        end, after = time.monotonic(), os.times()
        walls.append((middle - start, end - middle))
        processors.append((spent(before, between)[0], spent(between, after)[1]))
        theirs = [json.loads(line) for line in command.stdout.splitlines()]
        assert [run["throughput_mbps"] for run in theirs] == records["throughput_mbps"], "not the same version"
    for name, pairs in (("wall clock", walls), ("processor time", processors)):
        ours, theirs = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
        ratios = [a / b - 1 for a, b in pairs]
        print(f"{name}: paceline.run {ours:.3f} s, the command {theirs:.3f} s (least of {options.rounds}): {ours / theirs - 1:+.1%};"
              f" median of the pairs {statistics.median(ratios):+.1%}")


if __name__ == "__main__":
    main()
