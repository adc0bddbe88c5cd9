"""Records and tables, in Arrow's memory."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Protocol, Union

from . import _paceline

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


#: What a notebook shows of a table at most (our choice: a screen).
SHOWN_ROWS, SHOWN_COLUMNS = 12, 12
#: What it shows of records, as far as any run has it.
FIGURES = (
    "contestant", "run", "throughput_mbps", "own_throughput_mbps", "utilization", "delay_ms_p50", "delay_ms_p95", "queue_ms_p95",
    "frame_ms_p95", "frames_late", "frames_lost", "loss", "jain", "trusted",
)


def html_table(table: Table, columns: Iterable[str]) -> str:
    """The first rows, as notebooks show them."""
    shown = list(columns)
    values = [table[name][:SHOWN_ROWS] for name in shown]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in shown)
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(_cell(cell))}</td>' for cell in row)}</tr>" for row in zip(*values))
    left_out = [f"{len(table)} rows" if len(table) > SHOWN_ROWS else ""]
    left_out.append(f"{len(table.column_names)} columns" if len(table.column_names) > len(shown) else "")
    note = " and ".join(filter(None, left_out))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" + (f"<p>of {note}</p>" if note else "")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Table:
    """A table in Arrow's memory.

    Every library that speaks Arrow's PyCapsule interface takes it as it is and shares its memory: ``polars.DataFrame(table)``,
    ``pyarrow.table(table)``, DuckDB, and others. The methods below are these calls.
    """

    def __init__(self, inner: _paceline.Table) -> None:
        self._inner = inner

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        return self._inner.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, column: str) -> list[Any]:
        return self._inner.column(column)

    def __repr__(self) -> str:
        return f"<paceline.{type(self).__name__} of {len(self)} rows and {len(self.column_names)} columns>"

    def _repr_html_(self) -> str:
        return html_table(self, self._shown())

    def _shown(self) -> list[str]:
        """The columns that a notebook shows."""
        return self.column_names[:SHOWN_COLUMNS]

    @property
    def column_names(self) -> list[str]:
        """The columns."""
        return self._inner.column_names

    def to_arrow(self) -> pyarrow.Table:
        """As a table of pyarrow, which shares the memory."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """As a data frame of pandas. With pyarrow, columns of numbers share the memory; without, everything is copied."""
        import pandas

        try:
            import pyarrow
        except ImportError:
            copied: pandas.DataFrame = pandas.DataFrame({name: self[name] for name in self.column_names})
            return copied
        frame: pandas.DataFrame = pyarrow.table(self).to_pandas(split_blocks=True)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """As a data frame of polars, which shares the memory."""
        import polars

        return polars.DataFrame(self)


class _Runs(Protocol):
    """What records are made of."""

    @property
    def failures(self) -> list[_paceline.Failed]: ...
    def json(self) -> list[str]: ...
    def records(self) -> _paceline.Table: ...
    def series(self) -> _paceline.Table: ...
    def variables(self) -> _paceline.Table: ...
    def events(self) -> _paceline.Table: ...
    def quantiles(self) -> _paceline.Table: ...


@dataclass(frozen=True)
class _Kept:
    """The same, out of a pickle."""

    failures: list[_paceline.Failed]
    lines: list[str]
    tables: dict[str, _paceline.Table]

    def json(self) -> list[str]:
        return self.lines

    def records(self) -> _paceline.Table:
        return self.tables["records"]

    def series(self) -> _paceline.Table:
        return self.tables["series"]

    def variables(self) -> _paceline.Table:
        return self.tables["variables"]

    def events(self) -> _paceline.Table:
        return self.tables["events"]

    def quantiles(self) -> _paceline.Table:
        return self.tables["quantiles"]


class Records(Table):
    """What runs left: a table with a row for each run, and further tables.

    The columns are those of the CSV (``docs/guide/records.md``); where no run reached its end, without rows.
    """

    def __init__(self, runs: _Runs) -> None:
        super().__init__(runs.records())
        self._runs = runs

    @classmethod
    def read(cls, path: Union[str, os.PathLike[str]]) -> Records:
        """The records in a file that ``paceline race --json`` or :meth:`to_json` wrote; there are no further tables then.

        Raises OSError where it cannot be read, and ValueError with file and line where it holds anything else.
        """
        return cls(_paceline.read_records(os.fspath(path)))

    def __reduce__(self) -> tuple[type[Records], tuple[_Runs]]:
        runs = self._runs
        tables = {name: getattr(runs, name)() for name in ("records", "series", "variables", "events", "quantiles")}
        return type(self), (_Kept(runs.failures, runs.json(), tables),)

    def _shown(self) -> list[str]:
        return [name for name in FIGURES if name in FIGURES[:2] or any(value is not None for value in self[name])]

    def _repr_html_(self) -> str:
        failed = "".join(f"<p>failed: {html.escape(failure.message)}</p>" for failure in self.failures[:SHOWN_ROWS])
        return super()._repr_html_() + failed

    @property
    def failures(self) -> list[_paceline.Failed]:
        """Runs that did not reach their end: contestant, run, seed, message, and what a controller in Python raised."""
        return self._runs.failures

    @property
    def series(self) -> Table:
        """Points over time, with ``run(..., series=True)``: a row for each step of each flow.

        ``time_s`` is the end of the step, ``flow`` counts from 1, ``of`` is the flow's own contestant, which is another where rivals
        run beside (``own`` is false then); ``capacity_mbps`` and ``link_queue_bytes`` are of the link.
        """
        return Table(self._runs.series())

    @property
    def variables(self) -> Table:
        """The controllers' own variables over time, with ``run(..., series=True)``, one below the other."""
        return Table(self._runs.variables())

    @property
    def events(self) -> Table:
        """What the controllers were informed of and what they answered, with ``run(..., events=True)``."""
        return Table(self._runs.events())

    @property
    def quantiles(self) -> Table:
        """Delay on the path, and of this in queues, at the shares 0, 0.01, ... 1 of packets of each run."""
        return Table(self._runs.quantiles())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Each record as the JSON has it, with its flows and links."""
        return [json.loads(line) for line in self._runs.json()]

    def to_json(self) -> str:
        """JSON Lines, as ``paceline race --json`` writes."""
        return "".join(f"{line}\n" for line in self._runs.json())


class RunsFailed(RuntimeError):
    """Some runs did not reach their end. ``records`` has those that did, and the failures."""

    def __init__(self, records: Records) -> None:
        self.records = records
        first, *others = (failed.message for failed in records.failures)
        more = f" (and {len(others)} more failed of {len(records) + len(others) + 1})" if others else ""
        super().__init__(f"{first}{more}")

    def __reduce__(self) -> tuple[type[RunsFailed], tuple[Records]]:
        return type(self), (self.records,)
