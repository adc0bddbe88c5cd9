"""Records and tables, in Arrow's memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Optional

from . import _paceline

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


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


class Records(Table):
    """What runs left: a table with a row for each run, and further tables.

    The columns are ``contestant`` and those of the CSV (``docs/guide/records.md``).
    """

    def __init__(self, runs: _paceline.Records) -> None:
        super().__init__(runs.records())
        self._runs = runs

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
