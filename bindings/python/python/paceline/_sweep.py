"""Sweeps over grids of values, by the processes of this machine or by Dask."""

from __future__ import annotations

import concurrent.futures
import importlib
import multiprocessing
import multiprocessing.connection
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from . import _paceline

#: Most points that a worker gets at once (our choice: of short runs so many that handing them out costs little), how many such turns
#: there are at least for each worker, and after how many seconds it reports at the latest, what is left going out again (our choice: a
#: kill costs little, and the workers end together).
BATCH, TURNS, REPORT_S = 64, 8, 0.25

Point = tuple[int, str]
Result = tuple[int, Optional[str], Optional[str]]


@dataclass(frozen=True)
class FailedPoint:
    """A run of a sweep that failed, with what shows it again."""

    contestant: str
    run: int
    seed: int
    set: list[str]
    """The values of its cell, as ``--set`` takes them."""
    problem: str


@dataclass(frozen=True)
class Swept:
    """What a sweep left."""

    folder: str
    """Parquet in partitions, ``contestant=.../part-NNN.parquet``."""
    chunks: list[str]
    runs: int
    failures: list[FailedPoint]


def run_points(points: list[Point]) -> list[Result]:
    """Runs points in this process: the first, and those after it until it is time to report."""
    results: list[Result] = []
    end = time.monotonic() + REPORT_S
    for index, point in points:
        results.append((index, *_paceline.run_point(point)))
        if time.monotonic() > end:
            break
    return results


def _end_with_the_sweep() -> None:
    """A worker of the pool waits for work for ever, even when the sweep was killed: this ends it then."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def wait() -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=wait, name="end with the sweep", daemon=True).start()


def sweep(
    grid: Union[str, os.PathLike[str], Mapping[str, Any]],
    folder: Union[str, os.PathLike[str]],
    *,
    workers: Optional[int] = None,
    executor: Any = None,
    progress: Optional[Callable[[int, int], None]] = None,
) -> Swept:
    """Runs a scenario over a grid of values, and keeps the results in ``folder``.

    ``grid`` is a file as ``paceline sweep`` takes it, or a dict with its keys: ``{"scenario": "dumbbell.toml", "grid": {"down.rate":
    ["5 Mbit/s", "50 Mbit/s"]}, "contestants": [...], "runs": 5}``. Runs go to ``workers`` processes, or to ``executor``: a Dask client,
    or anything with the ``submit`` of ``concurrent.futures``. What is in the folder is not run again, after whatever ended a
    sweep before; the bytes of its files do not depend on who ran what when. ``progress`` is called with the runs made and those
    known to be due.
    """
    source = dict(grid) if isinstance(grid, Mapping) else os.fspath(grid)
    compiled = _paceline.Sweep(source, os.getcwd())
    kept = _paceline.Folder(os.fspath(folder), compiled)
    own = None
    if executor is None:
        # Not by fork: the threads of whoever calls do not come along.
        context = multiprocessing.get_context("spawn")
        executor = own = concurrent.futures.ProcessPoolExecutor(workers, context, _end_with_the_sweep)
    try:
        while missing := kept.missing():
            points = list(zip(missing, compiled.points(missing)))
            due = kept.made() + len(missing)
            for results in _completed(executor, points, _workers(executor)):
                kept.put(results)
                if progress is not None:
                    progress(kept.made(), due)
    except concurrent.futures.BrokenExecutor as error:
        raise RuntimeError("a worker died; what was run is kept, run the sweep again to go on") from error
    finally:
        if own is not None:
            own.shutdown(cancel_futures=True)
    failures = [FailedPoint(*failed) for failed in kept.failures()]
    return Swept(os.fspath(folder), kept.chunks(), kept.made(), failures)


def _workers(executor: Any) -> int:
    """How many runs an executor makes at once, as far as it says."""
    if _is_dask(executor):
        threads: dict[str, int] = executor.nthreads()
        return max(1, sum(threads.values()))
    return int(getattr(executor, "_max_workers", 0)) or os.cpu_count() or 1


def _is_dask(executor: Any) -> bool:
    return type(executor).__module__.partition(".")[0] == "distributed"


def _batches(points: list[Point], size: int) -> list[list[Point]]:
    return [points[start : start + size] for start in range(0, len(points), size)]


def _completed(executor: Any, points: list[Point], workers: int) -> Iterator[list[Result]]:
    """Results as they come."""
    first = _batches(points, min(BATCH, -(-len(points) // (workers * TURNS))))
    dask = _is_dask(executor)
    # Not pure: Dask would keep results by their arguments.
    options = {"pure": False} if dask else {}
    sent: dict[Any, list[Point]] = {}

    def send(batches: list[list[Point]]) -> list[Any]:
        futures = [executor.submit(run_points, batch, **options) for batch in batches]
        sent.update(zip(futures, batches))
        return futures

    def left(future: Any, results: list[Result]) -> list[Any]:
        """Sends what there was no time for again, in batches that take about as long as this one."""
        rest = sent.pop(future)[len(results) :]
        return send(_batches(rest, len(results)))

    if dask:
        # Results come with their futures, and so at once: what a worker still has is lost with it.
        completed = importlib.import_module("distributed").as_completed(send(first), with_results=True)
        for future, results in completed:
            completed.update(left(future, results))
            yield results
        return
    pending = set(send(first))
    while pending:
        done, pending = concurrent.futures.wait(pending, return_when=concurrent.futures.FIRST_COMPLETED)
        for future in done:
            results = future.result()
            pending.update(left(future, results))
            yield results
