"""Sweeps: the same bytes by whichever means they are run, and nothing twice."""

from __future__ import annotations

import collections
import concurrent.futures
import importlib.util
import pathlib
import pickle
import random
import subprocess
import sys
import time
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

        def submit(self, call: Any, key: str, batch: Any) -> Any:  # type: ignore[override]
            Counting.points += len(batch)
            return super().submit(call, key, batch)

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
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"grid": {"down.rat": ["5 Mbit/s"]}}, "grid.down.rat", "with 5 Mbit/s: down.rat: unknown key 'rat'"),
        ({"contestants": ["cubic@tcp", "rno@tcp"]}, "contestants[1]", "unknown controller 'rno'; did you mean reno?"),
        ({"scenario": {"name": "s", "seconds": 1, "down": {"queue": "droptal"}}}, "scenario.down.queue", "droptal"),
        ({"linked": [["down.rate", "down.delay"]]}, "linked[0][1]", "'down.delay' has 3 values, and 'down.rate' has 2"),
    ]
    for wrong, key, problem in cases:
        with pytest.raises(paceline.ScenarioError) as raised:
            paceline.sweep({**GRID, **wrong}, tmp_path / "wrong")
        assert str(raised.value).startswith(f"sweep: {key}: ") and problem in str(raised.value), raised.value
        assert raised.value.key == key and not (tmp_path / "wrong").exists()


def test_the_medians_are_beside_the_records(tmp_path: pathlib.Path) -> None:
    linked = {**GRID, "grid": {"down.delay": ["5ms", "20ms"], "up.delay": ["5ms", "20ms"]}, "linked": [["down.delay", "up.delay"]]}
    swept = paceline.sweep(linked, tmp_path / "out", executor=concurrent.futures.ThreadPoolExecutor(1))
    lines = (tmp_path / "out" / "_cells.csv").read_text().splitlines()
    assert swept.runs == 12 and len(lines) == 5
    assert lines[0].startswith("cell,grid.down.delay,grid.up.delay,contestant,runs,failed,throughput_mbps,")
    assert lines[2].startswith("1,20ms,20ms,cubic@tcp,3,0,")


def test_options_that_cannot_be_are_named(tmp_path: pathlib.Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"workers": 0}, "workers: 0 is not a whole number from 1 on"),
        ({"workers": "2"}, "workers: '2' is not a whole number from 1 on"),
        ({"workers": 1.5}, "workers: 1.5 is not a whole number from 1 on"),
        ({"executor": 3}, "executor: 3 has no submit; give a Dask client, or an executor of concurrent.futures"),
        ({"part": 3}, "part: 3 is not a part; write I/N, such as '1/10', with I from 1 to N"),
    ]
    for options, problem in cases:
        with pytest.raises(paceline.ScenarioError) as raised:
            paceline.sweep(GRID, tmp_path / "wrong", **options)
        assert str(raised.value) == problem and [raised.value.key] == list(options) and not (tmp_path / "wrong").exists()
    with pytest.raises(TypeError, match="a grid is a path or a dict, not int"):
        paceline.sweep(3, tmp_path / "wrong")  # type: ignore[arg-type]


def test_a_script_without_a_guard_is_told_so(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import paceline\npaceline.sweep({GRID!r}, 'out', workers=1)\n")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    said = done.stderr.splitlines()
    guard = 'a script that sweeps keeps what it does below if __name__ == "__main__":, since each worker reads it'
    assert said[-1] == f"RuntimeError: the workers ended before they had run anything; {guard}"
    assert f"RuntimeError: a worker would begin the sweep once more; {guard}" in said
    script.write_text(f"import paceline\nif __name__ == '__main__': print(paceline.sweep({GRID!r}, 'out', workers=1).runs)\n")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.stdout == "36\n"


def test_parts_of_a_sweep_work_in_one_folder(tmp_path: pathlib.Path) -> None:
    threads = concurrent.futures.ThreadPoolExecutor(1)
    made = [paceline.sweep(GRID, tmp_path / "out", executor=threads, part=f"{part}/2") for part in (1, 2)]
    assert [swept.chunks for swept in made] == [[], []] and made[1].runs == 36
    assert paceline.sweep(GRID, tmp_path / "out", executor=threads).runs == 36
    paceline.sweep(GRID, tmp_path / "whole", executor=threads)
    assert content(tmp_path / "out") == content(tmp_path / "whole") and not list((tmp_path / "out").glob("_journal*"))
    with pytest.raises(ValueError, match="part: '3/2' is not a part; write I/N"):
        paceline.sweep(GRID, tmp_path / "out", executor=threads, part="3/2")


class Workers:
    """Two workers that take turns, each with what it holds of its own: who asks for what all points share does not depend on time."""

    _max_workers = 2

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held: list[Any] = [collections.OrderedDict() for _ in range(self._max_workers)]
        self.sizes: list[int] = []
        self.monkeypatch = monkeypatch

    def submit(self, call: Any, *arguments: Any) -> concurrent.futures.Future[Any]:
        sent = pickle.dumps(arguments)
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self.monkeypatch.context() as inside:
            inside.setattr(paceline._sweep, "_held", self.held[len(self.sizes) % len(self.held)])
            future.set_result(call(*pickle.loads(sent)))
        self.sizes.append(len(sent))
        return future


def test_what_all_points_share_is_sent_once_to_a_worker(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = random.Random(1)
    (tmp_path / "trace").write_text("".join(f"{time}\n" for time in sorted(moments.randrange(1, 60_000) for _ in range(50_000))))
    grid = {
        "scenario": {"name": "traced", "seconds": 0.2, "down": {"trace": str(tmp_path / "trace"), "delay": "10ms"}},
        "grid": {"down.delay": ["10ms", "20ms"]},
        "contestants": ["cubic@tcp", "copa@udp"],
        "runs": 50,
    }
    workers = Workers(monkeypatch)
    assert paceline.sweep(grid, tmp_path / "out", executor=workers).runs == 200
    large = [size for size in workers.sizes if size > 10_000]
    # What was out before the first answer asks for it, each batch of its own.
    first = paceline._sweep.AHEAD * workers._max_workers
    assert workers.sizes[:first] == [size for size in workers.sizes[:first] if size < 10_000] and len(large) == first
    assert len(workers.sizes) > 20 and sum(workers.sizes) < first * max(large) + 20_000


def test_a_run_says_how_far_it_is(short: paceline.Scenario, capsys: pytest.CaptureFixture[str]) -> None:
    steps: list[tuple[int, int]] = []
    paceline.run(short, runs=3, progress=lambda over, due: steps.append((over, due)))
    assert steps[-1] == (3, 3) and steps == sorted(steps)

    def stop(over: int, due: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        paceline.run(short, runs=3, progress=stop)
    paceline.run(short, runs=3)
    assert capsys.readouterr().err == ""
    line = paceline._progress.Line()
    line._next = 0.0
    line(1, 4)
    line.end()
    assert capsys.readouterr().err.startswith("\r1 of 4 runs, ")


def example() -> Any:
    """The example that measures both."""
    file = pathlib.Path(__file__).parents[1] / "examples" / "sweep_pool_and_dask.py"
    spec = importlib.util.spec_from_file_location("sweep_pool_and_dask", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_killed_sweeps_go_on_and_run_nothing_twice(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("distributed")
    both = example()
    what = both.grid(64, 1.0)
    runs = both.run("pool", tmp_path / "whole", what)
    assert runs == 64
    for how in ("pool", "dask"):
        before, after = both.killed(how, tmp_path / how, what, runs, 0.3)
        points = both.kept(tmp_path / how)
        assert before + after == len(points) == len(set(points)) == runs and after > 0
        assert both.digest(tmp_path / how) == both.digest(tmp_path / "whole")
    both.run("dask-worker-killed", tmp_path / "worker", what)
    assert both.digest(tmp_path / "worker") == both.digest(tmp_path / "whole")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it looks at /proc")
def test_workers_end_with_a_sweep_that_is_killed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = example()
    name = f"PACELINE_TEST={tmp_path}".encode()
    monkeypatch.setenv("PACELINE_TEST", str(tmp_path))
    both.killed("pool", tmp_path / "killed", both.grid(64, 1.0), 64, 0.3)

    def alive() -> list[str]:
        # Known by their environment; their parent is gone.
        return [
            process.name
            for process in pathlib.Path("/proc").glob("[0-9]*")
            if b"spawn_main" in command(process) and parent(process) == 1 and name in environment(process)
        ]

    def command(process: pathlib.Path) -> bytes:
        try:
            return (process / "cmdline").read_bytes()
        except OSError:
            return b""

    def environment(process: pathlib.Path) -> bytes:
        try:
            return (process / "environ").read_bytes()
        except OSError:
            return b""

    def parent(process: pathlib.Path) -> int:
        try:
            return int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return 0

    deadline = time.monotonic() + 120
    while alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive()
