"""What is asked of a controller besides races: RFC 9743's questions, the rules of its specification, its event log once more."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic, Optional, TypeVar, Union, overload

from . import _paceline, _progress

Path = Union[str, "os.PathLike[str]"]
T = TypeVar("T")


class _Said(Sequence[T], Generic[T]):
    """A list of answers, with a text for a terminal and a page."""

    #: What a notebook shows of each.
    _columns: tuple[str, ...] = ()

    def __init__(self, items: Iterable[T], text: str, page: str) -> None:
        self._items, self.text, self.page = tuple(items), text, page

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[T, Sequence[T]]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return self.text.rstrip("\n")

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in self._columns)
        cells = ([getattr(item, name) for name in self._columns] for item in self._items)
        rows = "".join(f"<tr>{''.join(f'<td>{html.escape(_cell(cell))}</td>' for cell in row)}</tr>" for row in cells)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def to_dicts(self) -> list[dict[str, Any]]:
        """Each as ``--json`` of the command has it."""
        return [asdict(item) for item in self._items]  # type: ignore[call-overload]

    def save(self, path: Path) -> None:
        """Writes the page with the figures, one HTML file that opens offline."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.page)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Answered:
    """One of RFC 9743's questions, answered."""

    id: str
    """Its name, such as ``harm``."""
    question: str
    source: str
    """Who asks: the clauses of RFC 9743 by their sections."""
    setup: str
    """On what it was run."""
    unasked: str
    """What of its clauses it does not ask in this version."""
    answer: str
    """One sentence of what the numbers support."""
    charts: list[dict[str, Any]]
    """What was measured: lines of points, with the axes' titles and units."""
    failures: list[str]
    """Runs that failed, one line each."""


@dataclass(frozen=True)
class Clause:
    """A clause of RFC 9743, with what the figures and the registry say of it."""

    clause: str
    """Its section."""
    title: str
    level: str
    """How much it is wanted, such as ``should``."""
    special: bool
    """Unsatisfactory results may pass (section 7 of the RFC)."""
    wants: str
    verdict: str
    """``met``, ``not met``, ``better than CUBIC``, ``like CUBIC``, ``worse than CUBIC``, ``stated``, ``not stated``, ``does not apply`` or
    ``not asked``."""
    why: Optional[str]
    """Why it does not apply, or was not asked."""
    questions: list[str]
    checks: list[dict[str, Any]]
    """Figures with CUBIC's, their bounds and verdicts."""
    statement: Optional[str]
    reason: str
    """Why it may be not met; for the authors to fill."""


@dataclass(frozen=True)
class Judged:
    """A rule of a specification, judged."""

    name: str
    """Who was judged."""
    rules_of: str
    """By the rules of this controller."""
    origin: str
    """Where the trajectory comes from."""
    rule: str
    says: str
    """What the specification says."""
    source: str
    measures: str
    """What ``value`` is."""
    path: str
    """The path that the rule is judged on."""
    verdict: str
    """``holds``, ``departs`` or ``not seen``."""
    value: Optional[float]
    low: float
    high: float
    """What is expected: from ``low`` to ``high``."""
    off_by: Optional[float]
    """How far ``value`` lies outside."""
    why: Optional[str]
    """Why it was not seen."""
    notes: list[str]


class Evaluation(_Said[Answered]):
    """All answers, and the ``clauses`` that they are asked for; ``print`` shows them as the command does, a notebook the answers as a table."""

    _columns = ("question", "answer", "source")

    def __init__(self, items: Iterable[Answered], text: str, page: str, clauses: Iterable[Clause] = ()) -> None:
        super().__init__(items, text, page)
        #: A row for every clause of RFC 9743, in order.
        self.clauses = tuple(clauses)


class Conformance(_Said[Judged]):
    """All rules; ``print`` shows them as the command does, a notebook as a table."""

    _columns = ("name", "rule", "verdict", "value", "low", "high", "says", "source")


def _read(kind: type[T], lines: list[str]) -> list[T]:
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return [kind(**{key: value for key, value in json.loads(line).items() if key in names}) for line in lines]


def evaluate(
    contestant: str,
    *,
    quick: bool = False,
    only: Union[str, Iterable[str]] = (),
    threads: int = 0,
    progress: _progress.Progress = None,
) -> Evaluation:
    """Holds a controller against RFC 9743, clause by clause, in the simulator: fairness, harm, queues, losses, paths that change.

    ``contestant`` is ``NAME`` or ``NAME@VIA``; the controller may be one written in Python. ``quick`` is a first look: one run of each
    setting, shorter, and up to 100 flows. ``only`` names questions (``"harm"``) or sections (``"7.9"``). ``progress`` is as in :func:`run`.

    Raises ValueError where the contestant or the question does not exist. Runs that fail are named in their answers.
    """
    names = [only] if isinstance(only, str) else list(only)
    with _progress.watching(progress) as tell:
        lines, text, page = _paceline.evaluate(contestant, quick, names, threads, tell)
    clauses = [line for line in lines if "clause" in json.loads(line)]
    answers = [line for line in lines if line not in clauses]
    return Evaluation(_read(Answered, answers), text, page, _read(Clause, clauses))


def conform(
    contestant: Optional[str] = None,
    as_: Optional[str] = None,
    *,
    events: Union[Path, Iterable[Path]] = (),
    qlog: Union[Path, Iterable[Path]] = (),
    pcap: Union[Path, Iterable[Path]] = (),
    trace: Optional[int] = None,
    flow: Optional[str] = None,
    threads: int = 0,
    progress: _progress.Progress = None,
) -> Conformance:
    """Judges what a controller does by the rules of a specification: ``as_`` is ``reno``, ``cubic``, ``bbr``, ``copa``, ``dctcp`` or
    ``prague``, and without it the contestant's own.

    A contestant, which may be written in Python, runs in the simulator. ``events`` are event logs, as ``run(..., events="DIR")`` and
    ``paceline race --events`` write them, ``qlog`` and ``pcap`` logs of other senders: these are judged besides, or alone.
    Of a qlog with several connections ``trace``, counted from 1, and ``flow``, a ``group_id``, choose one.

    Raises ValueError where there are no such rules, or a log is not one, OSError where it cannot be read, and RuntimeError where a run
    fails.
    """
    if contestant is None and not as_:
        raise ValueError("conform: nothing is named; give a contestant, or as_= and logs")
    files = [(kind, path) for kind, paths in (("events", events), ("qlog", qlog), ("pcap", pcap)) for path in _paths(paths)]
    if contestant is None and not files:
        raise ValueError("conform: there is nothing to judge; give a contestant, events=, qlog= or pcap=")
    with _progress.watching(progress) as tell:
        lines, text, page = _paceline.conform(contestant, as_, files, (trace, flow), threads, tell)
    return Conformance(_read(Judged, lines), text, page)


def _paths(given: Union[Path, Iterable[Path]]) -> list[str]:
    return [os.fspath(given)] if isinstance(given, (str, os.PathLike)) else [os.fspath(path) for path in given]


@dataclass(frozen=True)
class Replayed:
    """What an event log says of a controller."""

    controller: str
    equal: bool
    """All answers are as they were recorded."""
    events: Optional[int] = None
    """How many there were, where they are equal."""
    line: Optional[int] = None
    """Of the log, where the first answer differs."""
    event: Optional[str] = None
    answer: Optional[str] = None
    """Which answer differs, such as ``window``."""
    recorded: Optional[str] = None
    replayed: Optional[str] = None


def replay(log: Path, controller: Optional[str] = None) -> Replayed:
    """Feeds the events of a log, as ``run(..., events="DIR")`` writes it, to its controller once more, and compares all answers: a
    controller that is deterministic, and unchanged, gives the same. ``controller`` feeds them to another one.

    Raises OSError and ValueError where the log or the controller cannot be read, and RuntimeError where the controller raises.
    """
    return Replayed(**json.loads(_paceline.replay(os.fspath(log), controller)))
