"""Sweeps over grids of values, by the processes of this machine or by Dask."""

from __future__ import annotations

import concurrent.futures
import importlib
import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from . import _paceline

#: Points that a worker runs before it reports (our choice: few enough that a kill costs little).
BATCH = 8

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


def run_points(points: list[tuple[int, str]]) -> list[Result]:
    """Runs points in this process."""
    return [(index, *_paceline.run_point(point)) for index, point in points]


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
            batches = [points[start : start + BATCH] for start in range(0, len(points), BATCH)]
            due = kept.made() + len(missing)
            for results in _completed(executor, batches):
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


def _completed(executor: Any, batches: Iterable[list[tuple[int, str]]]) -> Iterator[list[Result]]:
    """Results as they come."""
    if type(executor).__module__.partition(".")[0] == "distributed":
        completed = importlib.import_module("distributed").as_completed
        # Not pure: Dask would keep results by their arguments.
        futures = executor.map(run_points, list(batches), pure=False)
        # Results come with their futures, and so at once: what a worker still has is lost with it.
        for _, results in completed(futures, with_results=True):
            yield results
    else:
        for future in concurrent.futures.as_completed([executor.submit(run_points, batch) for batch in batches]):
            yield future.result()
