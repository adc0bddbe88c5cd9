"""Runs: the same figures as ever, in Arrow, and errors that name the key."""

from __future__ import annotations

import _thread
import json
import pathlib
import threading
import time

import paceline
import pytest

pyarrow = pytest.importorskip("pyarrow")
SCENARIOS = pathlib.Path(__file__).parents[3] / "scenarios"


def test_scenario_and_seed_determine_everything(short: paceline.Scenario) -> None:
    one = paceline.run(short, ["cubic@tcp", "copa@udp"], runs=3, threads=1)
    two = paceline.run(short, ["cubic@tcp", "copa@udp"], runs=3, threads=2)
    assert len(one) == 6 and one.to_json() == two.to_json()
    other = paceline.run(short, runs=3, seed=7)
    assert other["seed"] == [7, 7, 7]


def test_a_file_is_the_same_as_its_keys() -> None:
    file = SCENARIOS / "cellular.toml"
    options = dict(runs=1, seconds=2.0, contestants=["copa@udp"])
    written = paceline.run(file, **options)  # type: ignore[arg-type]
    read = paceline.run(paceline.Scenario.read(file), **options)  # type: ignore[arg-type]
    set_ = paceline.run(file, ["copa@udp"], set={"runs": 1, "seconds": 2.0})
    assert written.to_json() == read.to_json() == set_.to_json()


def test_every_library_reads_the_tables(short: paceline.Scenario) -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("pandas")
    records = paceline.run(short, runs=2, series=True, events=True)
    for table in [records, records.series, records.variables, records.events, records.quantiles]:
        assert len(table) > 1
        arrow = table.to_arrow()
        arrow.validate(full=True)
        assert arrow.num_rows == len(table) == len(table.to_pandas()) == len(polars.DataFrame(table))
        for name in table.column_names:
            assert arrow.column(name).to_pylist() == table[name], name
    assert records.to_dicts()[0]["flows"][0]["throughput_mbps"] > 10


def test_arrow_shares_the_memory(short: paceline.Scenario) -> None:
    series = paceline.run(short, series="10ms").series
    address = [pyarrow.table(table)["throughput_mbps"].chunk(0).buffers()[1].address for table in (series, series)]
    assert address[0] == address[1]


def test_series_and_events_say_the_same_as_the_record(short: paceline.Scenario) -> None:
    records = paceline.run(short, series="10ms", events=True)
    throughput = records.series["throughput_mbps"]
    assert len(throughput) == 200
    assert sum(throughput) / 200 == pytest.approx(records["throughput_mbps"][0], rel=1e-4)
    events = records.events
    assert events["event"].count("sent") == records.to_dicts()[0]["flows"][0]["packets"]
    rtts = [rtt for rtt in events["rtt_ms"] if rtt is not None]
    assert min(rtts) == pytest.approx(records["rtt_ms_min"][0], rel=1e-3)


@pytest.mark.parametrize(
    ("change", "key", "says"),
    [
        ({"down": {"rate": "5 Mbit/s", "qeue": "droptail"}}, "down.qeue", "unknown key 'qeue'; did you mean queue"),
        ({"down": {"rate": "fast"}}, "down.rate", "'fast' is not a rate"),
        ({"contestants": ["cubc@tcp"]}, "contestants[0]", "did you mean cubic"),
        ({"seconds": "long"}, "seconds", ""),
        ({"flows": [{"count": -1}]}, "flows[0].count", ""),
        ({"down": {"rate": object()}}, "down.rate", "a object is not a value of a scenario"),
        ({"down": {"trace": "nowhere.trace"}}, "down.trace", "cannot be read"),
    ],
)
def test_errors_name_the_key(short: paceline.Scenario, change: dict[str, object], key: str, says: str) -> None:
    short.update(change)
    for wrong in (short.check, lambda: paceline.run(short)):
        with pytest.raises(paceline.ScenarioError) as caught:
            wrong()
        assert caught.value.key == key and "\n" not in str(caught.value)
        assert str(caught.value).startswith(f"scenario: {key}: ") and says in str(caught.value)


def test_errors_of_options_and_files(short: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    with pytest.raises(paceline.ScenarioError, match="^set down.dely=3ms: down.dely: unknown key"):
        paceline.run(short, set={"down.dely": "3ms"})
    with pytest.raises(paceline.ScenarioError, match="^runs: 0 is not between 1 and"):
        paceline.run(short, runs=0)
    with pytest.raises(paceline.ScenarioError, match="nowhere.toml: cannot be read"):
        paceline.run("nowhere.toml")
    file = tmp_path / "wrong.toml"
    file.write_text("name = 'x'\n\n[down]\nrate = 'fast'\n")
    with pytest.raises(paceline.ScenarioError, match=r"wrong.toml:4: down.rate: 'fast'"):
        paceline.run(file)
    with pytest.raises(paceline.ScenarioError, match="no datapath 'quic'"):
        paceline.run(short, ["cubic@quic"])
    with pytest.raises(TypeError, match="expected str"):
        paceline.run(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="series: 'often' is not a span"):
        paceline.run(short, series="often")


def test_effective_scenarios_give_the_same_race(short: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "whole.toml"
    file.write_text(short.effective())
    assert paceline.run(file).to_json() == paceline.run(short).to_json()


def test_the_interpreter_goes_on_and_can_stop_a_run(short: paceline.Scenario) -> None:
    counted = 0

    def count() -> None:
        nonlocal counted
        while counted >= 0:
            counted += 1
            time.sleep(0.001)
            if counted == 50:
                _thread.interrupt_main()

    counter = threading.Thread(target=count, daemon=True)
    counter.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            # Hours, if it were not stopped.
            paceline.run(short, seconds=86_400, set={"down.rate": "10 Gbit/s", "down.queue": "droptail:packets=9999"})
        assert counted >= 50
    finally:
        counted = -10
        counter.join()


def test_records_are_those_of_the_command(short: paceline.Scenario) -> None:
    record = json.loads(paceline.run(short).to_json())
    assert record["version"] == paceline.__version__ and record["world"] == "sim"
