"""The same sweep by the process pool and by Dask: the same bytes, also after kill -9, and what Dask costs more.

    python examples/sweep_pool_and_dask.py [--runs 2000] [--seconds 2] [--rounds 2] [--kill] [--trace FILE --command PACELINE]

Without --kill both run the sweep in turns, and the wall clock of each is printed, its workers' start included. With --kill each is
killed when a third of its runs is in the journal, and run again; then one worker of Dask is killed while the sweep goes on. With
--trace the sweep is over a recorded trace, by the command, by the pool and by Dask, one worker each: wall clock, and the largest resident
memory of the process and of its largest child.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Optional

import pyarrow.parquet

import paceline

WORKERS = 2
STARTS: list[float] = []
"""How long clusters took to start, the import of their library included, s."""
ENDS: list[float] = []
"""How long they took to end, s."""
CONTESTANTS = ["cubic@tcp", "copa@udp", "bbr@tcp", "reno@tcp"]


def grid(runs: int, seconds: float) -> dict[str, Any]:
    """``runs`` runs of all contestants together, in cells of up to ten runs of each."""
    each = max(1, min(10, runs // (2 * len(CONTESTANTS))))
    delays = max(1, runs // (2 * each * len(CONTESTANTS)))
    return {
        "scenario": {"name": "swept", "down": {"rate": "5 Mbit/s", "queue": "droptail:packets=60"}, "up": {"delay": "10ms"}},
        "grid": {"down.rate": ["5 Mbit/s", "10 Mbit/s"], "down.delay": [f"{10 + delay}ms" for delay in range(delays)]},
        "contestants": CONTESTANTS,
        "runs": each,
        "seconds": seconds,
    }


def traced(runs: int, seconds: float, trace: str) -> dict[str, Any]:
    """``runs`` runs over a recorded trace: two contestants, up to 20 runs of each in a cell."""
    each = min(20, max(1, runs // 2))
    return {
        "scenario": {"name": "traced", "down": {"trace": trace, "queue": "droptail:bytes=1MB"}, "up": {"delay": "10ms"}},
        "grid": {"down.delay": [f"{delay}ms" for delay in range(1, max(1, runs // (2 * each)) + 1)]},
        "contestants": ["copa@udp", "cubic@tcp"],
        "runs": each,
        "seconds": seconds,
    }


def digest(folder: pathlib.Path) -> str:
    """Of all Parquet files, their names included."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.parquet")):
        total.update(f"{path.relative_to(folder)} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


def kept(folder: pathlib.Path) -> list[int]:
    """Points that are in the folder: those of parts, and those of the journal."""
    points: list[int] = []
    for path in folder.rglob("*.parquet"):
        points += pyarrow.parquet.read_table(path, columns=["point"], partitioning=None)["point"].to_pylist()
    journal = folder / "_journal.jsonl"
    if journal.exists():
        lines = journal.read_text().splitlines(keepends=True)
        points += [json.loads(line)["point"] for line in lines if line.endswith("\n") and '"point"' in line]
    return points


def run(
    how: str, folder: pathlib.Path, what: dict[str, Any], progress: Optional[Callable[[int, int], None]] = None, workers: int = WORKERS
) -> int:
    if how == "pool":
        return paceline.sweep(what, folder, workers=workers, progress=progress).runs
    begun = time.monotonic()
    import distributed

    with distributed.LocalCluster(workers, threads_per_worker=1, dashboard_address=None) as cluster, cluster.get_client() as client:
        if how == "dask-worker-killed":
            victims = [pid for pid in client.run(os.getpid).values()]

            def kill_once(made: int, due: int) -> None:
                if victims and made * 3 > due:
                    os.kill(victims.pop(), signal.SIGKILL)
                    victims.clear()

            return paceline.sweep(what, folder, executor=client, progress=kill_once).runs
        STARTS.append(time.monotonic() - begun)
        runs = paceline.sweep(what, folder, executor=client, progress=progress).runs
        begun = time.monotonic()
    ENDS.append(time.monotonic() - begun)
    return runs


def measured(how: str, folder: str, what: dict[str, Any]) -> None:
    """Prints what one sweep with one worker cost this process and its largest child."""
    begun = time.monotonic()
    runs = run(how, pathlib.Path(folder), what, workers=1)
    spent = time.monotonic() - begun - sum(STARTS) - sum(ENDS)
    own, child = (resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    start = f", and {STARTS[0]:.2f} s before it and {ENDS[0]:.2f} s after it for the cluster" if STARTS else ""
    print(f"{how}: {runs} runs in {spent:.2f} s{start}; {own:.0f} MB, its child {child:.0f} MB; {digest(pathlib.Path(folder))}", flush=True)


def over_a_trace(runs: int, seconds: float, trace: str, command: str, rounds: int) -> None:
    what = traced(runs, seconds, os.path.abspath(trace))
    for turn in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / "sweep.toml"
            file.write_text(as_toml(what))
            begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            subprocess.run([command, "sweep", str(file), "--out", f"{name}/out", "--threads", "1"], check=True, stdout=subprocess.DEVNULL)
            spent, peak = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            shown = f"; {peak:.0f} MB" if peak > before else ""
            print(f"command: {runs} runs in {spent:.2f} s{shown}; {digest(pathlib.Path(name) / 'out')}", flush=True)
            for how in ("pool", "dask"):
                subprocess.run([sys.executable, __file__, "--measured", how, f"{name}/{how}", json.dumps(what)], check=True)


def as_toml(what: dict[str, Any]) -> str:
    """JSON's texts, numbers and arrays are TOML's."""
    scenario = what["scenario"]
    lines = [f"{key} = {json.dumps(value)}" for key, value in what.items() if not isinstance(value, dict)]
    lines += ["[grid]", *(f"{key} = {json.dumps(value)}" for key, value in what["grid"].items())]
    lines += ["[scenario]", *(f"{key} = {json.dumps(value)}" for key, value in scenario.items() if not isinstance(value, dict))]
    for part in ("down", "up"):
        lines += [f"[scenario.{part}]", *(f"{key} = {json.dumps(value)}" for key, value in scenario[part].items())]
    return "\n".join(lines) + "\n"


def killed(how: str, folder: pathlib.Path, what: dict[str, Any], runs: int, pause: float = 0.0) -> tuple[int, int]:
    """Starts a sweep, kills it with SIGKILL and resumes it; answers how many runs were kept, and how many were made afterwards.
    ``pause`` slows the first one down: seconds after each batch."""
    process = subprocess.Popen([sys.executable, __file__, "--child", how, str(folder), json.dumps(what), str(pause)])
    while len(kept(folder)) < runs // 3:
        if process.poll() is not None:
            raise SystemExit("the sweep was over before it could be killed; take more or longer runs")
        time.sleep(0.02)
    process.kill()
    process.wait()
    before = len(kept(folder))
    made: list[int] = []
    run(how, folder, what, lambda now, due: made.append(now))
    return before, made[-1] - before


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--trace", help="a recorded trace")
    parser.add_argument("--command", default="paceline", help="the command, beside --trace")
    parser.add_argument("--measured", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measured:
        how, name, text = options.measured
        measured(how, name, json.loads(text))
        return
    if options.trace:
        over_a_trace(options.runs, options.seconds, options.trace, options.command, options.rounds)
        return
    if options.child:
        how, folder, what, pause = options.child
        run(how, pathlib.Path(folder), json.loads(what), lambda made, due: time.sleep(float(pause)))
        return
    what = grid(options.runs, options.seconds)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if options.kill:
            runs = run("pool", folder / "whole", what)
            whole = digest(folder / "whole")
            print(f"{runs} runs of {options.seconds} s, not killed: {whole}")
            for how in ("pool", "dask"):
                before, after = killed(how, folder / how, what, runs)
                points = kept(folder / how)
                once = len(points) == len(set(points)) == runs == before + after
                print(f"{how}, killed: {before} kept, {after} made afterwards, each once: {once}; {digest(folder / how)}")
            run("dask-worker-killed", folder / "worker", what)
            print(f"dask, one worker killed: {len(set(kept(folder / 'worker')))} runs; {digest(folder / 'worker')}")
            return
        spent: dict[str, list[float]] = {"pool": [], "dask": []}
        for turn in range(options.rounds):
            for how in spent:
                start = time.monotonic()
                runs = run(how, folder / f"{how}{turn}", what)
                spent[how].append(time.monotonic() - start)
                print(f"{how}: {runs} runs in {spent[how][-1]:.2f} s; {digest(folder / f'{how}{turn}')}", flush=True)
        pool, dask = min(spent["pool"]), min(spent["dask"])
        start = min(STARTS)
        print(
            f"dask against the pool: {dask / pool - 1:+.1%}, without the cluster's start ({start:.2f} s) {(dask - start) / pool - 1:+.1%};"
            f" a run takes {pool / runs * WORKERS * 1e3:.1f} ms"
        )


if __name__ == "__main__":
    main()
