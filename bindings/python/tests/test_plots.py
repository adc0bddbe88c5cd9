"""Plots: what is drawn is what the frames say."""

from __future__ import annotations

import pathlib

import paceline
import pytest

matplotlib = pytest.importorskip("matplotlib")
pd = pytest.importorskip("pandas")
matplotlib.use("agg")

from matplotlib.patches import Ellipse  # noqa: E402

from paceline import plots  # noqa: E402


@pytest.fixture
def records(short: paceline.Scenario) -> paceline.Records:
    short.update(flows=[{"count": 2}])
    short["down"]["loss"] = 0.005
    return paceline.run(short, ["cubic@tcp", "cubic@udp", "copa@udp"], runs=3, series=True)


def test_every_plot_is_drawn_and_saved(records: paceline.Records, tmp_path: pathlib.Path) -> None:
    axes = [
        plots.throughput_delay(records),
        plots.cdf(records.quantiles),
        plots.cdf(records, column="throughput_mbps"),
        plots.time_series(records.series),
        plots.time_series(records.series, column="window_packets", run=2),
        plots.fairness_triangle(records.series),
        plots.heat_map(records, "contestant", "run", "throughput_mbps"),
    ]
    for number, ax in enumerate(axes):
        assert ax.get_xlabel() and ax.get_ylabel()
        ax.figure.savefig(tmp_path / f"{number}.pdf")
        assert (tmp_path / f"{number}.pdf").stat().st_size > 1000
        matplotlib.pyplot.close(ax.figure)


def test_ellipses_are_one_standard_deviation() -> None:
    frame = pd.DataFrame(
        {"contestant": "a@udp", "delay_ms_p95": [10.0, 10.0, 30.0, 30.0], "throughput_mbps": [1.0, 5.0, 1.0, 5.0]}
    )
    ax = plots.throughput_delay(frame)
    ellipse = next(patch for patch in ax.patches if isinstance(patch, Ellipse))
    sizes = sorted([ellipse.width, ellipse.height])
    assert sizes == pytest.approx([2 * (16 / 3) ** 0.5, 2 * (400 / 3) ** 0.5])
    assert ellipse.center == (20, 3) and ax.xaxis_inverted()
    assert ax.get_xlabel() == "delay p95, ms (better to the right)"


def test_a_controller_has_its_colour_and_a_datapath_its_dash() -> None:
    looks = plots.style(["cubic@tcp", "copa@udp", "cubic@udp", "copa:delta=0.1@udp", "vegas@alcc/cubic"])
    assert looks["cubic@tcp"].colour == looks["cubic@udp"].colour == plots.colour("cubic")[0] != looks["copa@udp"].colour
    assert looks["cubic@tcp"].dash != looks["cubic@udp"].dash == looks["copa@udp"].dash
    assert looks["copa:delta=0.1@udp"].colour != looks["copa@udp"].colour
    assert plots.style(["copa:delta=0.1@udp"])["copa:delta=0.1@udp"].colour == plots.colour("copa")[0]


def test_errors_say_what_is_missing(short: paceline.Scenario) -> None:
    with pytest.raises(KeyError, match="no column 'time_s'"):
        plots.time_series(paceline.run(short))
    with pytest.raises(ValueError, match=r"needs run\(..., series=True\)"):
        plots.time_series(paceline.run(short).series)


def test_many_contestants_have_a_legend_and_wide_ranges_a_logarithmic_axis() -> None:
    names = [f"c{number}@udp" for number in range(plots.NAMED + 1)]
    delays, rates = [10.0 * 3**n for n in range(len(names))], [9.0 + 0.1 * n for n in range(len(names))]
    frame = pd.DataFrame({"contestant": names, "delay_ms_p95": delays, "throughput_mbps": rates})
    ax = plots.throughput_delay(frame)
    assert ax.get_legend() is not None and not ax.texts and ax.get_xscale() == "log" and ax.xaxis_inverted()
    assert 0 < ax.get_ylim()[0] < 9
    few = plots.throughput_delay(frame[:2])
    assert few.get_legend() is None and len(few.texts) == 2 and few.get_xscale() == "linear"
