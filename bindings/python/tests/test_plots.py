"""Plots: what is drawn is what the frames say."""

from __future__ import annotations

import pathlib
from typing import Any

import paceline
import pytest

matplotlib = pytest.importorskip("matplotlib")
np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
matplotlib.use("agg")

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


def outline(ax: Any, line: int = 0) -> Any:
    """The outline that is drawn first."""
    return next(found for found in ax.lines[line:] if len(found.get_xdata()) > 2).get_xydata()


def test_ellipses_are_one_standard_deviation() -> None:
    frame = pd.DataFrame(
        {"contestant": "a@udp", "delay_ms_p95": [10.0, 10.0, 30.0, 30.0], "throughput_mbps": [1.0, 5.0, 1.0, 5.0]}
    )
    ax = plots.throughput_delay(frame)
    drawn = outline(ax)
    assert (drawn.max(axis=0) - drawn.min(axis=0)) / 2 == pytest.approx([(400 / 3) ** 0.5, (16 / 3) ** 0.5], rel=1e-3)
    assert (drawn.max(axis=0) + drawn.min(axis=0)) / 2 == pytest.approx([20, 3]) and ax.xaxis_inverted()
    assert ax.get_xlabel() == "delay p95, ms (better to the right)"


def within(ax: Any) -> bool:
    """All that is drawn lies inside of the axes."""
    (right, left), (low, high) = ax.get_xlim(), ax.get_ylim()
    points = np.concatenate([line.get_xydata() for line in ax.lines])
    return bool((points >= [left, low]).all() and (points <= [right, high]).all())


@pytest.mark.parametrize("seed", range(6))
def test_ellipses_are_whole_and_names_do_not_overlap(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = []
    for name in ["verus@udp", "bbr@tcp", "copa:delta=0.1@udp", "cubic@tcp", "sprout@udp"][: 2 + seed % 4]:
        middle, rate = 10 ** random.uniform(1.2, 1.2 + seed / 3), random.uniform(2, 9)
        spread = random.lognormal(0, 0.6, 6)
        rows += [{"contestant": name, "delay_ms_p95": middle * s, "throughput_mbps": rate * s**-0.3} for s in spread]
    ax = plots.throughput_delay(pd.DataFrame(rows))
    assert within(ax)
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(one.overlaps(other) for index, one in enumerate(boxes) for other in boxes[:index])
    assert ax.get_legend() is not None or len(ax.texts) == len({row["contestant"] for row in rows})
    matplotlib.pyplot.close(ax.figure)


def test_points_on_each_other_have_a_legend() -> None:
    names = [f"a-rather-long-name-{number}@udp" for number in range(5)]
    frame = pd.DataFrame({"contestant": names, "delay_ms_p95": [20.0 + 1e-3 * n for n in range(5)], "throughput_mbps": 5.0})
    ax = plots.throughput_delay(frame)
    assert ax.get_legend() is not None and not ax.texts


def test_a_logarithmic_axis_has_its_ellipses() -> None:
    frame = pd.DataFrame(
        {
            "contestant": ["a@udp"] * 4 + ["b@udp"] * 4,
            "delay_ms_p95": [10.0, 10.0, 40.0, 40.0, 1000.0, 1000.0, 4000.0, 4000.0],
            "throughput_mbps": [1.0, 5.0] * 4,
        }
    )
    ax = plots.throughput_delay(frame)
    assert ax.get_xscale() == "log" and within(ax)
    drawn = np.log(outline(ax)[:, 0])
    # The same factor on both sides.
    assert np.exp(drawn.max() - drawn.min()) == pytest.approx(np.exp(2 * np.std(np.log([10, 10, 40, 40]), ddof=1)), rel=1e-3)
    assert np.exp(drawn.max() + drawn.min()) == pytest.approx(400, rel=1e-3)


def test_beside_rivals_the_own_throughput_is_drawn(short: paceline.Scenario) -> None:
    alone = plots.throughput_delay(paceline.run(short, ["copa@udp"]))
    assert alone.get_ylabel() == "throughput, Mbit/s"
    short.update(flows=[{}, {"contestant": "cubic@tcp"}])
    records = paceline.run(short, ["copa@udp"])
    beside = plots.throughput_delay(records)
    assert beside.get_ylabel() == "own throughput, Mbit/s"
    assert beside.lines[0].get_ydata()[0] == pytest.approx(records["own_throughput_mbps"][0])
    both = plots.throughput_delay(records, throughput="throughput_mbps")
    assert both.lines[0].get_ydata()[0] == pytest.approx(records["throughput_mbps"][0])


def test_rivals_are_grey_and_texts_are_not_taken_for_truths(short: paceline.Scenario) -> None:
    short.update(flows=[{}, {"contestant": "cubic@tcp"}])
    frame = paceline.run(short, ["copa@udp"], series=True).series.to_pandas()
    own, rival = plots.time_series(frame).lines
    assert own.get_color() == plots.colour("copa")[0] and rival.get_color() == plots.SOFT
    frame["own"] = frame["own"].map({True: "true", False: "false"})
    with pytest.raises(TypeError, match="column 'own' holds 'true', which is not a bool; convert it: frame"):
        plots.time_series(frame)
    frame["own"] = frame["own"].map({"true": 1, "false": 0})
    with pytest.raises(TypeError, match="is not a bool"):
        plots.time_series(frame)


def test_legends_lie_above_the_data(records: paceline.Records) -> None:
    for ax in [plots.time_series(records.series), plots.cdf(records.quantiles), plots.fairness_triangle(records.series)]:
        ax.figure.draw_without_rendering()
        legend = ax.get_legend()
        assert legend is not None
        assert legend.get_window_extent().y0 >= ax.get_window_extent().y1 - 1
        matplotlib.pyplot.close(ax.figure)


@pytest.mark.parametrize(
    "values",
    [
        ["5ms", "20ms", "50ms", "100ms", "1s"],
        ["900 kbit/s", "5 Mbit/s", "12mbit", "1 Gbit/s"],
        ["droptail:bdp=0.25", "droptail:bdp=1", "droptail:bdp=2", "droptail:bdp=10"],
        ["1500B", "9kB", "1MiB"],
        [2, 10, 30],
        [0.001, 0.02, 0.1],
    ],
)
def test_heat_maps_are_in_the_order_of_numbers_with_numbers_in_cells(values: list[Any]) -> None:
    rows = [{"x": value, "y": other, "z": float(n * 10 + m)} for n, value in enumerate(values) for m, other in enumerate("ab")]
    ax = plots.heat_map(pd.DataFrame(rows[::-1]), "x", "y", "z")
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert shown == [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    assert [text.get_text() for text in ax.texts[: len(values)]] == [f"{n * 10.0:.3g}" for n in range(len(values))]
    matplotlib.pyplot.close(ax.figure)


def test_your_own_style_stays() -> None:
    frame = pd.DataFrame({"contestant": ["a@udp"], "delay_ms_p95": [20.0], "throughput_mbps": [5.0]})
    with matplotlib.rc_context({"figure.figsize": (7, 5), "font.size": 13}):
        ax = plots.throughput_delay(frame)
        assert tuple(ax.figure.get_size_inches()) == (7, 5) and ax.xaxis.label.get_fontsize() == 13
        assert ax.texts[0].get_fontsize() == pytest.approx(0.85 * 13)
    ax = plots.throughput_delay(frame)
    assert tuple(ax.figure.get_size_inches()) == (3.5, 2.5)
    assert ax.xaxis.label.get_fontsize() == 8 and ax.texts[0].get_fontsize() == pytest.approx(0.85 * 8)


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
