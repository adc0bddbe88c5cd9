"""Sweeps over grids of values, by the processes of this machine or by Dask."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import functools
import hashlib
import importlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from . import _paceline, _progress, _travel
from ._scenario import wrong

#: Most points that a worker gets at once (our choice: of short runs so many that handing them out costs little), how many such turns
#: there are at least for each worker, and after how many seconds it reports at the latest, what is left going out again (our choice: a
#: kill costs little, and the workers end together).
BATCH, TURNS, REPORT_S = 64, 8, 0.25
#: Batches that are out for each worker (our choice: one at work, and the next ones at hand while the first one's results travel).
AHEAD = 3
#: Sweeps that a process keeps at hand (our choice: clients that share a cluster, each with one).
HELD = 4

#: What a script needs whose processes read it again.
GUARD = 'a script that sweeps keeps what it does below if __name__ == "__main__":, since each worker reads it'

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
    """Parquet in partitions, ``contestant=.../part-NNN.parquet``; ``_cells.csv`` has the medians."""
    chunks: list[pathlib.Path]
    runs: int
    failures: list[FailedPoint]


@dataclass(frozen=True)
class Shared:
    """What all points of a sweep share: a process gets it once."""

    text: bytes
    """The sweep, with its scenario and traces."""
    controllers: Optional[bytes]
    """Controllers in Python."""


@dataclass(frozen=True)
class Held:
    """A sweep that this process can run points of."""

    sweep: _paceline.Sweep
    key: str
    controllers: Optional[bytes]
    """To be registered; None where there are none, or where they are those of this process."""

    def at_work(self) -> contextlib.AbstractContextManager[None]:
        if self.controllers is None:
            return contextlib.nullcontext()
        return _travel.TURNS.taken(self.key, self.controllers)


_held: collections.OrderedDict[str, Held] = collections.OrderedDict()
_holding = threading.Lock()


def _hold(held: Held) -> Held:
    with _holding:
        _held[held.key] = held
        _held.move_to_end(held.key)
        while len(_held) > HELD:
            _held.popitem(last=False)
    return held


def run_points(key: str, points: list[int], shared: Optional[Shared] = None) -> Optional[list[Result]]:
    """Runs points of a sweep in this process: the first, and those after it until it is time to report. None where this process
    has not got what they share."""
    with _holding:
        held = _held.get(key)
    if held is None:
        if shared is None:
            return None
        sweep = _paceline.Sweep.from_json(zlib.decompress(shared.text).decode())
        held = _hold(Held(sweep, key, shared.controllers))
    results: list[Result] = []
    end = time.monotonic() + REPORT_S
    with held.at_work():
        for index in points:
            results.append((index, *held.sweep.run(index)))
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
    retry: bool = False,
    part: Optional[str] = None,
    progress: _progress.Progress = None,
) -> Swept:
    """Runs a scenario over a grid of values, and keeps the results in ``folder``.

    ``grid`` is a file as ``paceline sweep`` takes it, or a dict with its keys: ``{"scenario": "dumbbell.toml", "grid": {"down.rate":
    ["5 Mbit/s", "50 Mbit/s"]}, "contestants": [...], "runs": 5}``. Runs go to ``workers`` processes, or to ``executor``: a Dask client,
    or anything with the ``submit`` of ``concurrent.futures``. What is in the folder is not run again, after whatever ended a
    sweep before; the bytes of its files do not depend on who ran what when. A folder is of one build of paceline and of one
    state of each controller in Python: another one is refused. ``retry`` runs again what failed.

    Controllers in Python travel to the workers with all that they use of files that are not installed; it needs cloudpickle. What
    cannot be sent is refused before anything runs.

    ``part`` (``"3/10"``) runs the third of ten shares, beside the others in the same folder, as a job of an array; the same call
    without it puts together what all parts left, and runs what is missing.

    ``progress`` is called with the runs made and those known to be due. Without it a line on standard error says how far it is, where
    that is a terminal or a notebook; True writes it anywhere, False never.

    Raises :class:`ScenarioError` where the grid, the scenario or a contestant is wrong, and :class:`OSError` where the folder is of
    another sweep, another build or another controller, or another process works in it.
    """
    _check(grid, workers, executor, part)
    source = dict(grid) if isinstance(grid, Mapping) else os.fspath(grid)
    compiled = _paceline.Sweep(source, os.getcwd())
    names = compiled.controllers()
    compiled = compiled.with_digests(_travel.digests(names))
    # Threads of this process know its controllers.
    travels = not isinstance(executor, concurrent.futures.ThreadPoolExecutor)
    controllers = _travel.packed(names) if travels else None
    key = hashlib.sha256(compiled.identity().encode() + (controllers or b"")).hexdigest()
    kept = _paceline.Folder(os.fspath(folder), compiled, part)
    begun = kept.made()
    if retry:
        kept.retry()
    own = None
    if executor is None:
        # Not by fork: the caller's threads do not come along.
        context = multiprocessing.get_context("spawn")
        executor = own = concurrent.futures.ProcessPoolExecutor(workers, context, _end_with_the_sweep)
    _hold(Held(compiled, key, None))
    shared = functools.cache(lambda: Shared(zlib.compress(compiled.to_json().encode(), 1), controllers))
    try:
        with _progress.watching(progress) as tell:
            while missing := kept.missing():
                due = kept.made() + len(missing)
                if tell is not None:
                    tell(kept.made(), due)
                for results in _completed(executor, missing, key, shared):
                    kept.put(results)
                    if tell is not None:
                        tell(kept.made(), due)
    except concurrent.futures.BrokenExecutor as error:
        if own is not None and kept.made() == begun:
            raise RuntimeError(f"the workers ended before they had run anything; {GUARD}") from error
        raise RuntimeError("a worker died; what was run is kept, run the sweep again to go on") from error
    finally:
        with _holding:
            _held.pop(key, None)
        if own is not None:
            own.shutdown(cancel_futures=True)
    if part is None:
        kept.write_cells()
    failures = [FailedPoint(*failed) for failed in kept.failures()]
    return Swept(os.fspath(folder), kept.chunks(), kept.made(), failures)


def _check(grid: Any, workers: Any, executor: Any, part: Any) -> None:
    """Refuses options that cannot be, and a sweep that a worker would begin while it reads the script."""
    if not isinstance(grid, (str, os.PathLike, Mapping)):
        raise TypeError(f"a grid is a path or a dict, not {type(grid).__name__}")
    if workers is not None and (not isinstance(workers, int) or isinstance(workers, bool) or workers < 1):
        raise wrong("workers", f"workers: {workers!r} is not a whole number from 1 on")
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise wrong("executor", f"executor: {executor!r} has no submit; give a Dask client, or an executor of concurrent.futures")
    if part is not None and not isinstance(part, str):
        raise wrong("part", f"part: {part!r} is not a part; write I/N, such as '1/10', with I from 1 to N")
    # As multiprocessing asks before it starts a process.
    if executor is None and getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(f"a worker would begin the sweep once more; {GUARD}")


def _workers(executor: Any) -> int:
    """How many runs an executor makes at once, as far as it says."""
    if _is_dask(executor):
        threads: dict[str, int] = executor.nthreads()
        return max(1, sum(threads.values()))
    return int(getattr(executor, "_max_workers", 0)) or os.cpu_count() or 1


def _is_dask(executor: Any) -> bool:
    return type(executor).__module__.partition(".")[0] == "distributed"


class _Batches:
    """Batches that go out to an executor: no more at a time than keep its workers busy."""

    def __init__(self, executor: Any, points: list[int], key: str, shared: Callable[[], Shared]) -> None:
        self._executor, self._key, self._shared = executor, key, shared
        self._workers, self._asked = _workers(executor), time.monotonic()
        self._size = min(BATCH, -(-len(points) // (self._workers * TURNS)))
        self._points = iter(points)
        self._again: list[tuple[list[int], tuple[Shared, ...]]] = []
        self._out: dict[Any, list[int]] = {}
        # Not pure: Dask would keep results by their arguments.
        self._options = {"pure": False} if _is_dask(executor) else {}

    def send(self) -> list[Any]:
        """What can go out now."""
        if _is_dask(self._executor) and time.monotonic() > self._asked + 1:
            # A cluster grows and shrinks.
            self._workers, self._asked = _workers(self._executor), time.monotonic()
        futures = []
        while len(self._out) < AHEAD * self._workers:
            fresh: tuple[list[int], tuple[Shared, ...]] = ([], ())
            batch, shared = self._again.pop() if self._again else fresh
            batch = batch or list(itertools.islice(self._points, self._size))
            if not batch:
                break
            future = self._executor.submit(run_points, self._key, batch, *shared, **self._options)
            self._out[future] = batch
            futures.append(future)
        return futures

    def back(self, future: Any, results: Optional[list[Result]]) -> list[Result]:
        """One came back. What there was no time for goes out again, in batches that take about as long as this one; to a worker
        that has not got what all share that is sent."""
        batch = self._out.pop(future)
        if results is None:
            self._again.append((batch, (self._shared(),)))
            return []
        rest, size = batch[len(results) :], len(results)
        self._again += [(rest[start : start + size], ()) for start in range(0, len(rest), size)]
        return results


def _completed(executor: Any, points: list[int], key: str, shared: Callable[[], Shared]) -> Iterator[list[Result]]:
    """Results as they come."""
    batches = _Batches(executor, points, key, shared)
    if _is_dask(executor):
        # Results come with their futures, and so at once: what a worker still has is lost with it.
        completed = importlib.import_module("distributed").as_completed(batches.send(), with_results=True)
        for future, results in completed:
            results = batches.back(future, results)
            completed.update(batches.send())
            yield results
        return
    pending = set(batches.send())
    if not isinstance(executor, concurrent.futures.ThreadPoolExecutor):
        # While workers start.
        shared()
    while pending:
        done, pending = concurrent.futures.wait(pending, return_when=concurrent.futures.FIRST_COMPLETED)
        for future in done:
            results = batches.back(future, future.result())
            pending.update(batches.send())
            yield results
