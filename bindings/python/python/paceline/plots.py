"""Plots: tidy frames in, matplotlib's Axes out.

Every function takes a table of :class:`paceline.Records` (or a pandas frame with the same columns, of one's own making too) and
draws into ``ax``, or into a new figure. A controller has its colour, a datapath its dash, as on the page of a race.

>>> import paceline, paceline.plots
>>> records = paceline.run("scenarios/cellular.toml", runs=5)
>>> paceline.plots.throughput_delay(records).figure.savefig("race.pdf")
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

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
#: Up to so many contestants have their names at their points, more have a legend; from how many times the least delay on its axis has
#: equal steps for equal factors (our choice: what can still be read).
NAMED, LOG_FROM = 5, 10
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
    records: Any, ax: Optional[Axes] = None, *, delay: str = "delay_ms_p95", throughput: str = "throughput_mbps"
) -> Axes:
    """Throughput against delay, the delay axis reversed: better is up and to the right. A point is the mean over runs; its
    ellipse has the directions and lengths of one standard deviation (Winstein and Balakrishnan, 2013). Delays that differ by more than
    tenfold have a logarithmic axis; throughputs of which none is below half of the largest have one that does not begin at 0."""
    frame, ax = _frame(records, "contestant", delay, throughput).dropna(subset=[delay]), _axes(ax)
    looks = style(frame["contestant"])
    middles = []
    for contestant, look in looks.items():
        points = frame.loc[frame["contestant"] == contestant, [delay, throughput]].to_numpy(float)
        x, y = points.mean(axis=0)
        middles.append((x, y))
        if len(points) > 1:
            lengths, directions = np.linalg.eigh(np.cov(points.T))
            width, height = 2 * np.sqrt(np.clip(lengths, 0, None))
            angle = np.degrees(np.arctan2(directions[1, 0], directions[0, 0]))
            ax.add_patch(Ellipse((x, y), width, height, angle=angle, facecolor=look.colour, alpha=0.18))
            ax.add_patch(Ellipse((x, y), width, height, angle=angle, fill=False, edgecolor=look.colour, ls=look.dash))
        ax.plot(x, y, "+", color=look.colour)
        if len(looks) <= NAMED:
            ax.annotate(
                contestant, (x, y), xytext=(4, 4), textcoords="offset points", color=look.colour, fontsize="small", weight="bold"
            )
    if len(looks) > NAMED:
        lines = [Line2D([], [], color=look.colour, ls=look.dash, marker="+", label=name) for name, look in looks.items()]
        ax.legend(handles=lines, frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5), handlelength=2.6)
    ax.autoscale_view()
    ax.margins(0.15)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    if middles:
        (near, far), (low, high) = ((min(axis), max(axis)) for axis in zip(*middles))
        if near > 0 and far > LOG_FROM * near:
            ax.set_xscale("log")
            ax.set_xlim(near / 1.6, far * 1.6)
        if low > high / 2:
            ax.set_ylim(bottom=max(0, low - 0.4 * max(high - low, 0.05 * high)))
    ax.invert_xaxis()
    ax.set_xlabel(f"{_title(delay)} (better to the right)")
    ax.set_ylabel(_title(throughput))
    return ax


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
    ax.legend(frameon=False, fontsize="small")
    return ax


def time_series(
    series: Any, ax: Optional[Axes] = None, *, column: str = "throughput_mbps", run: int = 1
) -> Axes:
    """``column`` over time in one run, a line for each flow, from ``Records.series``; what the link could carry stands behind a
    throughput."""
    frame, ax = _frame(series, "contestant", "run", "time_s", column), _axes(ax)
    frame = frame[frame["run"] == run]
    if column == "throughput_mbps" and "capacity_mbps" in frame:
        capacity = frame.groupby("time_s")["capacity_mbps"].mean()
        ax.fill_between(capacity.index.to_numpy(float), capacity.to_numpy(float), color=FILL, lw=0, step="pre", label="capacity")
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
    ax.legend(frameon=False, fontsize="small")
    return ax


def heat_map(frame: Any, x: str, y: str, value: str, ax: Optional[Axes] = None) -> Axes:
    """The median of ``value`` over rows for each pair of ``x`` and ``y``, such as two keys of a sweep."""
    table, ax = _frame(frame, x, y, value), _axes(ax)
    cells = table.pivot_table(index=y, columns=x, values=value, aggfunc="median", observed=True)
    image = ax.imshow(cells.to_numpy(float), origin="lower", aspect="auto", cmap="viridis")
    ax.set_xticks(range(len(cells.columns)), [str(name) for name in cells.columns])
    ax.set_yticks(range(len(cells.index)), [str(name) for name in cells.index])
    ax.grid(False)
    ax.set_xlabel(_title(x))
    ax.set_ylabel(_title(y))
    size = float(ax.xaxis.label.get_fontsize())
    ax.tick_params(labelsize=size - 1.5)
    bar = ax.figure.colorbar(image, ax=ax)
    bar.set_label(_title(value), size=size)
    bar.ax.tick_params(labelsize=size - 1.5)
    return ax


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
    ax.legend(frameon=False, fontsize="small")
    return ax


def _frame(table: Any, *columns: str) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas() if hasattr(table, "to_pandas") else pd.DataFrame(table)
    missing = [column for column in columns if column not in frame]
    if missing:
        raise KeyError(f"the table has no column '{missing[0]}'; it has {', '.join(map(str, frame.columns))}")
    if frame.empty:
        raise ValueError("the table is empty; Records.series needs run(..., series=True), Records.events run(..., events=True)")
    return frame


def _axes(ax: Optional[Axes]) -> Axes:
    if ax is None:
        with plt.rc_context(PAPER):
            _, ax = plt.subplots()
    ax.set_axisbelow(True)
    ax.grid(color=GRID, lw=0.6)
    return ax


def _title(column: str) -> str:
    name = column
    for suffix, unit in (("_mbps", "Mbit/s"), ("_ms", "ms"), ("_s", "s")):
        stem, found, part = name.rpartition(suffix)
        if found and part in ("", "_p50", "_p95", "_p99", "_mean", "_max", "_min"):
            return f"{stem.replace('_', ' ')}{part.replace('_', ' ')}, {unit}"
    return name.replace("_", " ")
