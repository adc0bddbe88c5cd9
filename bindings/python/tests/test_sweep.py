"""Sweeps: the same bytes whoever runs them, and nothing twice."""

from __future__ import annotations

import concurrent.futures
import pathlib
from typing import Any

import paceline
import pytest

GRID: dict[str, Any] = {
    "scenario": {"name": "swept", "seconds": 1, "down": {"rate": "5 Mbit/s", "queue": "droptail:packets=30"}, "up": {"delay": "10ms"}},
    "grid": {"down.rate": ["5 Mbit/s", "10 Mbit/s"], "down.delay": ["10ms", "20ms", "30ms"]},
    "contestants": ["cubic@tcp", "copa@udp"],
    "runs": 3,
}


def content(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}


def test_threads_and_processes_give_the_same_bytes(tmp_path: pathlib.Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        one = paceline.sweep(GRID, tmp_path / "threads", executor=threads)
    steps: list[tuple[int, int]] = []
    two = paceline.sweep(GRID, tmp_path / "processes", workers=2, progress=lambda made, due: steps.append((made, due)))
    assert one.runs == two.runs == 36 and not one.failures and steps[-1] == (36, 36)
    assert content(tmp_path / "threads") == content(tmp_path / "processes") != {}


def test_what_is_there_is_not_run_again(tmp_path: pathlib.Path) -> None:
    class Killed(Exception): ...

    class Counting(concurrent.futures.ThreadPoolExecutor):
        points = 0

        def submit(self, call: Any, batch: Any) -> Any:  # type: ignore[override]
            Counting.points += len(batch)
            return super().submit(call, batch)

    def kill(made: int, due: int) -> None:
        if made >= 16:
            raise Killed

    with Counting(1) as executor, pytest.raises(Killed):
        paceline.sweep(GRID, tmp_path / "killed", executor=executor, progress=kill)
    Counting.points = 0
    with Counting(1) as executor:
        assert paceline.sweep(GRID, tmp_path / "killed", executor=executor).runs == 36
    assert 0 < Counting.points <= 20
    whole = paceline.sweep(GRID, tmp_path / "whole", executor=concurrent.futures.ThreadPoolExecutor(1))
    assert whole.runs == 36 and content(tmp_path / "killed") == content(tmp_path / "whole")


def test_dask_gives_the_same_bytes(tmp_path: pathlib.Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster, cluster.get_client() as client:
        assert paceline.sweep(GRID, tmp_path / "dask", executor=client).runs == 36
    paceline.sweep(GRID, tmp_path / "one", executor=concurrent.futures.ThreadPoolExecutor(1))
    assert content(tmp_path / "dask") == content(tmp_path / "one")


def test_errors_name_the_key(tmp_path: pathlib.Path) -> None:
    wrong = {**GRID, "grid": {"down.rat": ["5 Mbit/s"]}}
    with pytest.raises(paceline.ScenarioError, match="unknown key 'rat'"):
        paceline.sweep(wrong, tmp_path / "wrong")
