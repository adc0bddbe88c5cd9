"""Plots: tidy frames in, matplotlib's Axes out.

Every function takes a table of :class:`paceline.Records` (or a pandas frame with the same columns, of one's own making too) and
draws into ``ax``, or into a new figure. A controller has its colour, a datapath its dash, as on the page of a race.

>>> import matplotlib.pyplot as plt, paceline, paceline.plots
>>> paceline.plots.throughput_delay(paceline.run(paceline.shipped("cellular"), runs=5))
>>> plt.savefig("race.pdf")

A new figure has the size and the fonts of a paper's column, but for what your ``rcParams`` say otherwise; ``ax`` is drawn into as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Optional

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

from ._paceline import colour

__all__ = ["cdf", "colour", "fairness_triangle", "heat_map", "style", "throughput_delay", "time_series"]

#: Of the datapaths, as on the page of a race.
DASHES: dict[str, Any] = {
    "tcp": "-",
    "udp": (0, (3.5, 2)),
    "alcc": (0, (1, 1.5)),
    "quic": (0, (4.5, 1.5, 1, 1.5)),
    "icn": (0, (6, 1.5)),
}
OTHER_DASH: Any = (0, (3, 1, 1, 1, 1, 1))
#: Up to this many contestants have their names at their points, more have a legend; from how many times the least delay on its axis has
#: equal steps for equal factors (our choice: what can still be read).
NAMED, LOG_FROM = 5, 10
#: Up to this many cells in a row have their numbers in them (our choice: what can be read in a paper's column).
WRITTEN = 8
FILL, GRID, SOFT = "#e3e7ec", "#e6e9ed", "#5b6470"

#: Of a new figure: one column of a paper, text that can be read there, fonts that printers accept.
PAPER: dict[Any, Any] = {
    "figure.figsize": (3.5, 2.5),
    "figure.constrained_layout.use": True,
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,
}


class _Look:
    def __init__(self, colour: str, dash: Any) -> None:
        self.colour, self.dash = colour, dash


def style(contestants: Iterable[str]) -> dict[str, _Look]:
    """Colour and dash of each contestant: the colour belongs to the controller's name (:func:`colour`, for light pages), the dash to the
    datapath. One controller with several sets of parameters over one datapath: the first has its colour, the others have colours
    of those that no controller has."""
    looks: dict[str, _Look] = {}
    for contestant in contestants:
        if contestant in looks:
            continue
        controller, _, via = contestant.rpartition("@")
        dash = DASHES.get(via, OTHER_DASH)
        wanted = [colour(controller or contestant)[0], *(colour(f"{number} {contestant}")[0] for number in range(16))]
        taken = {(look.colour, str(look.dash)) for look in looks.values()}
        free = (hue for hue in wanted if (hue, str(dash)) not in taken)
        looks[contestant] = _Look(next(free, wanted[0]), dash)
    return looks


def throughput_delay(
    records: Any, ax: Optional[Axes] = None, *, delay: str = "delay_ms_p95", throughput: Optional[str] = None
) -> Axes:
    """Throughput against delay, the delay axis reversed: better is up and to the right. A point is the mean over runs; its
    ellipse has the directions and lengths of one standard deviation (Winstein and Balakrishnan, 2013).

    ``throughput`` is a column: without it ``own_throughput_mbps`` where flows run beside the contestant's own, else
    ``throughput_mbps``. Where runs begin at different places of a trace (``trace_start``), their spread is that of the trace:
    ``throughput="utilization"`` takes it out. Delays that differ by more than tenfold have a logarithmic axis, on which mean and ellipse
    are of the logarithms; throughputs of which none is below half of the largest have one that does not begin at 0."""
    frame, ax = _frame(records, "contestant", delay, *([throughput] if throughput else [])), _axes(ax)
    if throughput is None:
        throughput = "own_throughput_mbps" if "own_throughput_mbps" in frame and frame["own_throughput_mbps"].notna().any() else ""
        throughput = throughput or "throughput_mbps"
        frame = _frame(frame, throughput)
    frame = frame.dropna(subset=[delay, throughput])
    looks = style(frame["contestant"])
    parts = {name: frame.loc[frame["contestant"] == name, [delay, throughput]].to_numpy(float) for name in looks}
    means = [part[:, 0].mean() for part in parts.values()]
    log = bool(means) and frame[delay].min() > 0 and max(means) > LOG_FROM * min(means)
    middles: dict[str, tuple[float, float]] = {}
    drawn = []
    for contestant, look in looks.items():
        points = parts[contestant]
        outline = _ellipse(np.column_stack([np.log(points[:, 0]), points[:, 1]]) if log else points)
        if log:
            outline[:, 0] = np.exp(outline[:, 0])
        x, y = middles[contestant] = (float(outline[0, 0]), float(outline[0, 1]))
        drawn.append(outline)
        if len(points) > 1:
            ax.fill(*outline[1:].T, facecolor=look.colour, alpha=0.18, lw=0)
            ax.plot(*outline[1:].T, color=look.colour, ls=look.dash, lw=0.9)
        ax.plot(x, y, "+", color=look.colour)
    if drawn:
        _limits(ax, np.concatenate(drawn), log)
    ax.set_xlabel(f"{_title(delay)} (better to the right)")
    ax.set_ylabel(_title(throughput))
    if len(looks) > NAMED or not _named(ax, middles, looks, drawn):
        lines = [Line2D([], [], color=look.colour, ls=look.dash, marker="+", label=name) for name, look in looks.items()]
        ax.legend(handles=lines, frameon=False, fontsize=_small(ax), loc="center left", bbox_to_anchor=(1, 0.5), handlelength=2.6)
    return ax


def _ellipse(points: Any) -> Any:
    """The mean, and then the outline of one standard deviation around it."""
    middle = points.mean(axis=0)
    if len(points) < 2:
        return middle[None, :]
    lengths, directions = np.linalg.eigh(np.cov(points.T))
    turn = np.linspace(0, 2 * np.pi, 121)
    circle = np.column_stack([np.cos(turn), np.sin(turn)]) * np.sqrt(np.clip(lengths, 0, None))
    return np.vstack([middle, middle + circle @ directions.T])


def _limits(ax: Axes, drawn: Any, log: bool) -> None:
    """Limits that hold all that is drawn, with room around it."""
    (near, low), (far, high) = drawn.min(axis=0), drawn.max(axis=0)
    if log:
        room = (far / near) ** 0.15
        ax.set_xscale("log")
        ax.set_xlim(far * room, near / room)
    else:
        ax.set_xlim(far + max(0.15 * (far - near), 0.06 * far), min(0.0, near))
    tall = max(high - low, 0.05 * high)
    ax.set_ylim(low - 0.3 * tall if low > high / 2 else min(0.0, low), high + 0.15 * tall)


def _named(ax: Axes, middles: dict[str, tuple[float, float]], looks: dict[str, _Look], drawn: list[Any]) -> bool:
    """Writes the names at the points, where it can beside all ellipses, so that none lies on another name, on another's point, or
    outside; says whether that is possible."""
    figure = ax.get_figure(root=True)
    if figure is None:
        return False
    figure.draw_without_rendering()
    frame = ax.get_window_extent()
    outlines = [ax.transData.transform(outline) for outline in drawn]
    written: list[Annotation] = []

    def fits(text: Annotation, beside: bool) -> bool:
        box = text.get_window_extent().padded(1)
        inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
        points = np.concatenate(outlines if beside else [outline[:1] for outline in outlines])
        hidden = ((points > (box.x0, box.y0)) & (points < (box.x1, box.y1))).all(axis=1).any()
        return inside and not hidden and not any(box.overlaps(other.get_window_extent()) for other in written)

    for own, (name, middle) in enumerate(middles.items()):
        # In points: of the ellipse, seen from its middle.
        (left, low), (right, high) = (
            (side(outlines[own], axis=0) - outlines[own][0]) * 72 / figure.dpi for side in (np.min, np.max)
        )
        places = [(x * step, y * step, x, y) for step in (4, 10) for y in (1, -1) for x in (1, -1)]
        places += [(0, high + 3, 0, 1), (0, low - 3, 0, -1), (right + 3, 0, 1, 0), (left - 3, 0, -1, 0)]
        text = ax.annotate(
            name, middle, xytext=(0, 0), textcoords="offset points", color=looks[name].colour, fontsize=_small(ax), weight="bold"
        )
        for beside, (dx, dy, across, up) in [(True, place) for place in places] + [(False, place) for place in places]:
            text.set_position((dx, dy))
            text.set(ha=("right", "center", "left")[across + 1], va=("top", "center", "bottom")[up + 1])
            if fits(text, beside):
                break
        else:
            for other in [*written, text]:
                other.remove()
            return False
        written.append(text)
    return True


def cdf(values: Any, ax: Optional[Axes] = None, *, column: str = "delay_ms") -> Axes:
    """Cumulative distribution of ``column`` for each contestant: of packets, averaged over runs, from ``Records.quantiles``; of rows
    from any other table."""
    frame, ax = _frame(values, "contestant", column), _axes(ax)
    for contestant, look in style(frame["contestant"]).items():
        own = frame[frame["contestant"] == contestant]
        if "share" in own:
            means = own.groupby("share")[column].mean()
            x, y = means.to_numpy(float), means.index.to_numpy(float)
        else:
            x = np.sort(own[column].dropna().to_numpy(float))
            y = np.arange(1, len(x) + 1) / max(len(x), 1)
        ax.plot(x, y, color=look.colour, ls=look.dash, label=contestant)
    ax.set_ylim(0, 1)
    ax.set_xlim(left=0)
    ax.set_xlabel(_title(column))
    ax.set_ylabel("share")
    _legend(ax)
    return ax


def time_series(
    series: Any, ax: Optional[Axes] = None, *, column: str = "throughput_mbps", run: int = 1
) -> Axes:
    """``column`` over time in one run, a line for each flow, from ``Records.series``; what the link could carry stands behind a
    throughput. Flows beside the contestant's own are grey."""
    frame, ax = _frame(series, "contestant", "run", "time_s", column), _axes(ax)
    frame = frame[frame["run"] == run]
    if column == "throughput_mbps" and "capacity_mbps" in frame:
        capacity = frame.groupby("time_s")["capacity_mbps"].mean()
        ax.fill_between(capacity.index.to_numpy(float), capacity.to_numpy(float), color=FILL, lw=0, step="pre", label="capacity")
    _flags(frame, "own")
    for contestant, look in style(frame["contestant"]).items():
        own = frame[frame["contestant"] == contestant]
        parts = own.groupby("flow") if "flow" in own else [(1, own)]
        for number, (_, points) in enumerate(parts):
            label = contestant if number == 0 else None
            rival = "own" in points and not points["own"].iloc[0]
            colour = SOFT if rival else look.colour
            alpha = 1.0 if number == 0 else 0.6
            ax.plot(points["time_s"], points[column], color=colour, ls=look.dash, lw=1, alpha=alpha, label=label)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("time, s")
    ax.set_ylabel(_title(column))
    _legend(ax)
    return ax


def heat_map(frame: Any, x: str, y: str, value: str, ax: Optional[Axes] = None) -> Axes:
    """The median of ``value`` over rows for each pair of ``x`` and ``y``, such as two keys of a sweep, written into its cell where there
    is room. Numbers, and texts with a number and a unit (``5ms``, ``1 Gbit/s``, ``droptail:bdp=0.5``), are in the order of their
    magnitude."""
    table, ax = _frame(frame, x, y, value), _axes(ax)
    cells = table.pivot_table(index=y, columns=x, values=value, aggfunc="median", observed=True)
    cells = cells.loc[_ordered(cells.index), _ordered(cells.columns)]
    numbers = cells.to_numpy(float)
    image = ax.imshow(numbers, origin="lower", aspect="auto", cmap="viridis")
    ax.set_xticks(range(len(cells.columns)), [_short(name) for name in cells.columns])
    ax.set_yticks(range(len(cells.index)), [_short(name) for name in cells.index])
    ax.grid(False)
    ax.set_xlabel(_title(x))
    ax.set_ylabel(_title(y))
    size = _size(ax)
    ax.tick_params(labelsize=size - 1.5)
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    if max(numbers.shape) <= WRITTEN:
        for (row, column), number in np.ndenumerate(numbers):
            if np.isfinite(number):
                light = number > low + 0.6 * (high - low)
                ax.text(column, row, f"{number:.3g}", ha="center", va="center", size=size - 2, color="black" if light else "white")
    bar = ax.figure.colorbar(image, ax=ax)
    bar.set_label(_title(value), size=size)
    bar.ax.tick_params(labelsize=size - 1.5)
    return ax


#: What a unit stands for beside others of its kind.
UNITS: dict[str, float] = {
    **{"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600},
    **{"bit/s": 1, "kbit/s": 1e3, "mbit/s": 1e6, "gbit/s": 1e9, "bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9},
    **{"b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30, "%": 0.01},
}
_NUMBER = re.compile(r"(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*([a-zµ/%]*)")


def _ordered(values: Any) -> list[Any]:
    """By magnitude where all are numbers, or texts that differ in one number and its unit; in the table's own order else."""
    found = list(values)
    if not all(isinstance(value, str) for value in found):
        return found
    parts = {value: _NUMBER.findall(value.lower()) for value in found}
    stems = {_NUMBER.sub("#", value.lower()) for value in found}
    if len(stems) != 1 or not all(parts.values()):
        return found
    return sorted(found, key=lambda value: [float(number) * UNITS.get(unit, 1) for number, unit in parts[value]])


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def fairness_triangle(
    series: Any, ax: Optional[Axes] = None, *, flows: tuple[int, int] = (1, 2), run: int = 1, smooth: int = 10
) -> Axes:
    """The throughput of one flow against that of another over time, from ``Records.series``: the triangle is what the link can carry,
    its diagonal equal shares (Chiu and Jain, 1989). A course is a mean over ``smooth`` steps; it ends in the dot."""
    frame, ax = _frame(series, "contestant", "run", "flow", "time_s", "throughput_mbps", "capacity_mbps"), _axes(ax)
    frame = frame[frame["run"] == run]
    capacity = float(frame["capacity_mbps"].mean())
    ax.fill([0, capacity, 0], [0, 0, capacity], color=FILL, lw=0)
    ax.plot([0, capacity / 2], [0, capacity / 2], color=SOFT, lw=0.8, ls=":")
    for contestant, look in style(frame["contestant"]).items():
        own = frame[frame["contestant"] == contestant]
        courses = [
            own[own["flow"] == flow].set_index("time_s")["throughput_mbps"].rolling(smooth, min_periods=1).mean()
            for flow in flows
        ]
        both = pd.concat(courses, axis=1, join="inner").to_numpy(float)
        if len(both):
            ax.plot(both[:, 0], both[:, 1], color=look.colour, ls=look.dash, lw=0.9, label=contestant)
            ax.plot(*both[-1], "o", color=look.colour, ms=4)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.set_aspect("equal")
    ax.set_xlabel(f"flow {flows[0]}, Mbit/s")
    ax.set_ylabel(f"flow {flows[1]}, Mbit/s")
    _legend(ax)
    return ax


def _frame(table: Any, *columns: str) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas() if hasattr(table, "to_pandas") else pd.DataFrame(table)
    missing = [column for column in columns if column not in frame]
    if missing:
        raise KeyError(f"the table has no column '{missing[0]}'; it has {', '.join(map(str, frame.columns))}")
    if frame.empty:
        raise ValueError("the table is empty; Records.series needs run(..., series=True), Records.events run(..., events=True)")
    return frame


def _flags(frame: pd.DataFrame, column: str) -> None:
    """Refuses a column that is there and is not true or false: a text "false" would count as true."""
    if column not in frame:
        return
    others = [value for value in frame[column].unique() if not isinstance(value, (bool, np.bool_))]
    if others:
        raise TypeError(
            f"column '{column}' holds {others[0]!r}, which is not a bool; convert it: "
            f"frame['{column}'] = frame['{column}'].map({{'true': True, 'false': False}})"
        )


def _axes(ax: Optional[Axes]) -> Axes:
    if ax is None:
        defaults = mpl.rcParamsDefault
        with plt.rc_context({key: value for key, value in PAPER.items() if mpl.rcParams[key] == defaults[key]}):
            _, ax = plt.subplots()
    ax.set_axisbelow(True)
    ax.grid(color=GRID, lw=0.6)
    return ax


def _size(ax: Axes) -> float:
    """Of the text of the axes, points."""
    return float(ax.xaxis.label.get_fontsize())


def _small(ax: Axes) -> float:
    """Of names and legends."""
    return 0.85 * _size(ax)


def _legend(ax: Axes) -> None:
    """Above the data, not over it."""
    count = len(ax.get_legend_handles_labels()[1])
    ax.legend(
        frameon=False, fontsize=_small(ax), loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.3, ncols=min(count, 2),
        columnspacing=1.2,
    )


def _title(column: str) -> str:
    name = column
    for suffix, unit in (("_mbps", "Mbit/s"), ("_ms", "ms"), ("_s", "s")):
        stem, found, part = name.rpartition(suffix)
        if found and part in ("", "_p50", "_p95", "_p99", "_mean", "_max", "_min"):
            return f"{stem.replace('_', ' ')}{part.replace('_', ' ')}, {unit}"
    return name.replace("_", " ")
