"""Runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Optional, Union

from . import _paceline, _progress
from ._records import Records, RunsFailed
from ._scenario import given, unpacked, wrong


def run(
    scenario: Union[str, os.PathLike[str], Mapping[str, Any]],
    contestants: Optional[Iterable[str]] = None,
    *,
    runs: Optional[int] = None,
    seed: Optional[int] = None,
    seconds: Union[str, float, None] = None,
    threads: int = 0,
    set: Optional[Mapping[str, Any]] = None,
    series: Union[bool, str, float] = False,
    events: Union[bool, str, os.PathLike[str]] = False,
    real: bool = False,
    run_programs: bool = False,
    keep: Union[str, os.PathLike[str], None] = None,
    failures: Literal["raise", "keep"] = "raise",
    progress: _progress.Progress = None,
) -> Records:
    """Runs every contestant of a scenario, each alone on the same path, as often as it says.

    ``scenario`` is a file, a :class:`Scenario`, or a dict with the same keys. ``contestants`` (``["copa@udp", "cubic@tcp"]``),
    ``runs``, ``seed`` and ``seconds`` replace its keys; ``set`` does so with any key: ``{"down.delay": "25ms", "flows.0.count": 3}``.
    ``threads`` is how many runs at once, 0 one per core. ``series`` keeps points over time: True about 600 of them, or a
    step (``"20ms"``, or seconds). ``events`` keeps every event of every controller: True in ``Records.events``; a folder has an event
    log of each flow of the first run of each contestant, for :func:`replay`, :func:`conform` and the command.

    ``real`` races over sockets and the kernel's TCP behind an emulated path, in real time and one run after the other, as ``paceline race
    --real`` does; it needs root, or user namespaces and a process with a single thread. Controllers in Python run ``@udp``, ``@alcc``
    and ``@icn``. A call of theirs that takes longer than 3 s ends its run.

    A scenario with programs of others (``NAME@program``) has commands: they run only with ``run_programs``, and each is printed before on
    standard error; read those of a stranger (:meth:`Scenario.effective`). What programs write is kept in the folder ``keep``, without it
    only of failed runs, in a temporary one that a warning names.

    In the simulator scenario and seed determine everything in the result. Other threads of Python go on meanwhile; Ctrl-C stops it.

    ``progress`` is called with the runs that are over and how many there are, whenever one ends and every second. Without it a line on
    standard error says how far it is, where that is a terminal or a notebook; True writes it anywhere, False never.

    Raises :class:`ScenarioError` before anything is run where scenario or options are wrong, or cannot be in real time; OSError
    where this process may not race in real time; and :class:`RunsFailed` after all runs where some failed; ``failures="keep"`` leaves
    those in ``Records.failures`` instead.
    """
    if failures not in ("raise", "keep"):
        raise wrong("failures", f"failures: {failures!r} is neither 'raise' nor 'keep'")
    if not isinstance(events, (bool, str, os.PathLike)) or events == "":
        raise wrong("events", f"events: {events!r} is neither True nor False nor a folder")
    for name, value in (("real", real), ("run_programs", run_programs)):
        if not isinstance(value, bool):
            raise wrong(name, f"{name}: {value!r} is neither True nor False")
    if run_programs and not real:
        raise wrong("run_programs", "run_programs: programs run in real time only; add real=True")
    if keep is not None and not run_programs:
        raise wrong("keep", "keep: it is for what programs write; add run_programs=True")
    folder_of_logs = None if isinstance(events, bool) else os.fspath(events)
    what, folder = unpacked(scenario)
    options = given(contestants, runs, seed, seconds, set)
    with _progress.watching(progress) as tell:
        kept = None if keep is None else os.fspath(keep)
        compiled = _paceline.run(what, folder, options, threads, series, events is True, folder_of_logs, real, run_programs, kept, tell)
        records = Records(compiled)
    if records.failures and failures == "raise":
        cause = next((failed.exception for failed in records.failures if failed.exception), None)
        raise RunsFailed(records) from cause
    return records
