"""Tables: truths are truths, empty ones have their columns, and what is pickled or written comes back."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import pathlib
import pickle

import paceline
import pytest

pyarrow = pytest.importorskip("pyarrow")


@paceline.controller("test-tables-boom")
class Boom(paceline.Controller):
    def __init__(self, env: paceline.Env) -> None:
        self.window = 10.0 * env.mss

    def on_ack(self, ack: paceline.Ack) -> None:
        raise ZeroDivisionError("by hand")


def raced(short: paceline.Scenario) -> paceline.Records:
    short.update(flows=[{}, {"contestant": "cubic@tcp"}])
    return paceline.run(short, ["copa@udp", "test-tables-boom@udp"], series=True, events=True, failures="keep")


def test_what_holds_or_does_not_is_a_bool(short: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    pandas = pytest.importorskip("pandas")
    records = paceline.run(short)
    assert records.to_arrow().schema.field("trusted").type == pyarrow.bool_() and records["trusted"] == [None]
    path = tmp_path / "real.jsonl"
    line = records.to_json().rstrip("\n")
    path.write_text("".join(f'{line[:-1]},"trusted":{value}}}\n' for value in ("true", "false")))
    read = paceline.Records.read(path)
    assert read["trusted"] == [True, False] and read.to_pandas()["trusted"].sum() == 1
    series = raced(short).series
    assert set(series["own"]) == {True, False} and series.to_arrow().schema.field("own").type == pyarrow.bool_()
    frame = series.to_pandas()
    assert frame["own"].dtype == bool
    text = tmp_path / "series.csv"
    frame.to_csv(text, index=False)
    assert pandas.read_csv(text)["own"].dtype == bool


def test_frames_have_figures(short: paceline.Scenario) -> None:
    media = {"media_rate": {"fps": 30, "least": "150 kbit/s", "most": "1.5 Mbit/s", "late_after": "100ms"}}
    records = paceline.run(short, ["copa@udp"], set={"flows": [{"workload": media}]})
    assert records["frame_ms_p95"][0] >= records["frame_ms_p50"][0] > 20 and records["frames_late"] == [0]
    assert records.to_dicts()[0]["flows"][0]["frames"][0]["stream"] == "video" and "frame_ms_p95" in records._repr_html_()
    without = paceline.run(short, ["copa@udp"])
    assert without["frame_ms_p95"] == [None] and "frame_ms_p95" not in without._repr_html_()


def test_figures_that_a_program_does_not_show_are_none(short: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    line = json.loads(paceline.run(short, ["copa@udp"]).to_json())
    line.update(goodput_mbps=None, retransmits=None, timeouts=None)
    path = tmp_path / "programs.jsonl"
    path.write_text(json.dumps(line) + "\n")
    read = paceline.Records.read(path)
    assert read["goodput_mbps"] == read["retransmits"] == read["timeouts"] == [None]
    assert read.to_arrow().schema.field("retransmits").type == pyarrow.int64() and json.loads(read.to_json()) == line


def test_where_all_fail_the_columns_stay(short: paceline.Scenario) -> None:
    none = paceline.run(short, ["test-tables-boom@udp"], series=True, events=True, failures="keep")
    some = paceline.run(short, ["copa@udp"], series=True, events=True)
    assert len(none) == 0 and len(none.failures) == 1 and none["throughput_mbps"] == []
    for table, other in [(none, some), (none.series, some.series), (none.events, some.events), (none.quantiles, some.quantiles)]:
        assert table.to_arrow().schema == other.to_arrow().schema
    with pytest.raises(KeyError, match="there is no column 'throughput'; there are contestant, "):
        none["throughput"]


def test_records_are_read_from_what_the_command_writes(short: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    records = paceline.run(short, ["copa@udp", "cubic@tcp"], runs=2)
    path = tmp_path / "race.jsonl"
    path.write_text(records.to_json())
    again = paceline.Records.read(path)
    assert again.to_json() == records.to_json() and again["contestant"] == ["copa@udp"] * 2 + ["cubic@tcp"] * 2
    assert len(again.series) == 0 and again.series.column_names == records.series.column_names
    path.write_text(records.to_json() + "{}\n")
    with pytest.raises(ValueError, match=r"race.jsonl:5: not a record"):
        paceline.Records.read(path)
    with pytest.raises(OSError, match="cannot be read"):
        paceline.Records.read(tmp_path / "nowhere.jsonl")


def test_tables_records_and_errors_can_be_pickled(short: paceline.Scenario) -> None:
    records = raced(short)
    again: paceline.Records = pickle.loads(pickle.dumps(records))
    assert again.to_json() == records.to_json()
    for name in ("series", "variables", "events", "quantiles"):
        assert getattr(again, name).to_arrow() == getattr(records, name).to_arrow(), name
    assert again.to_arrow() == records.to_arrow()
    failed = again.failures[0]
    assert failed.message == records.failures[0].message and failed.run == 1
    assert isinstance(failed.exception, ZeroDivisionError)
    assert pickle.loads(pickle.dumps(again)).to_json() == records.to_json()
    error = paceline.RunsFailed(records)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    with pytest.raises(paceline.ScenarioError) as caught:
        paceline.run(short, set={"down.delay": "soon"})
    wrong = pickle.loads(pickle.dumps(caught.value))
    assert type(wrong) is paceline.ScenarioError and str(wrong) == str(caught.value) and wrong.key == caught.value.key
    assert paceline.ScenarioError.__module__ == "paceline"


def fails(key: str) -> paceline.Records:
    return paceline.run({"name": "x", "down": {"rate": "1 Mbit/s"}, "seconds": 1}, ["reno@udp"], set={key: "soon"})


def test_errors_come_back_from_processes() -> None:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        with pytest.raises(paceline.ScenarioError, match="^set down.delay=soon: ") as caught:
            pool.submit(fails, "down.delay").result()
        assert caught.value.key == "down.delay"


def test_a_notebook_sees_tables_and_how_far_it_is(short: paceline.Scenario) -> None:
    seen: list[tuple[int, int]] = []
    records = paceline.run(short, ["copa@udp", "test-tables-boom@udp"], runs=2, failures="keep", progress=lambda ended, due: seen.append((ended, due)))
    assert seen[-1] == (4, 4) and seen == sorted(seen)
    html = records._repr_html_()
    assert "<th>throughput_mbps</th>" in html and "copa@udp" in html and "ZeroDivisionError" in html
    assert "rows" not in html and "columns" in html and "jain" not in html
    assert "<th>event</th>" in paceline.run(short, events=True).events._repr_html_()
    with pytest.raises(TypeError, match="progress: 'yes' is neither a bool nor a function of two numbers"):
        paceline.run(short, progress="yes")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="^stop$"):
        paceline.run(short, runs=2, threads=1, progress=stop)


def stop(ended: int, due: int) -> None:
    raise RuntimeError("stop")
