"""Controllers in Python in sweeps: failures are failures, classes get to workers, and runs of two of them do not mix."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import math
import pathlib
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import paceline
import pytest
from paceline import _travel

GRID: dict[str, Any] = {
    "scenario": {"name": "swept", "seconds": 1, "down": {"rate": "10 Mbit/s", "delay": "10ms"}, "up": {"delay": "10ms"}},
    "contestants": ["raises@udp", "nan@udp", "reno@udp"],
    "runs": 2,
}


class Fixed(paceline.Controller):
    def __init__(self, env: Any) -> None:
        self.window = 10.0 * env.mss

    def on_ack(self, ack: Any) -> None: ...


@paceline.controller("raises")
class Raises(Fixed):
    def on_ack(self, ack: Any) -> None:
        raise ValueError("a bug")


@paceline.controller("nan")
class Nan(Fixed):
    def on_ack(self, ack: Any) -> None:
        self.window = math.nan


@contextlib.contextmanager
def executors(how: str) -> Iterator[Any]:
    if how == "pool":
        yield None
    elif how == "threads":
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            yield threads
    else:
        distributed = pytest.importorskip("distributed")
        with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster, cluster.get_client() as client:
            yield client


@pytest.mark.parametrize("how", ["pool", "threads", "dask"])
def test_a_controller_that_goes_wrong_is_a_failure(how: str, tmp_path: pathlib.Path) -> None:
    gym = pytest.importorskip("paceline.gym")
    pandas = pytest.importorskip("pandas")

    def policy(seen: Any) -> float:
        raise RuntimeError("untrained")

    gym.register_policy("untrained", policy)
    gym.register_policy("undecided", lambda seen: math.nan)
    # A rival that goes wrong spoils the run of the one it runs beside.
    beside = {**GRID["scenario"], "flows": [{"contestant": "each"}, {"contestant": "raises@udp"}]}
    contestants = [*GRID["contestants"], "untrained@udp", "undecided@udp"]
    with executors(how) as executor:
        swept = paceline.sweep({**GRID, "contestants": contestants}, tmp_path / "out", executor=executor, workers=2)
        rival = paceline.sweep({**GRID, "scenario": beside, "contestants": ["reno@tcp"]}, tmp_path / "rival", executor=executor, workers=1)
    problems = {failed.contestant: failed.problem for failed in swept.failures}
    assert swept.runs == 10 and len(swept.failures) == 8 and len(rival.failures) == 2
    assert problems["raises@udp"].startswith("controller 'raises': Raises.on_ack raised ValueError: a bug (test_sweep_")
    assert "window is NaN; keep it finite" in problems["nan@udp"]
    assert "controller 'untrained': its policy raised RuntimeError: untrained" in problems["untrained@udp"]
    assert "controller 'undecided': its policy answered nan" in problems["undecided@udp"].lower()
    frame = pandas.read_parquet(tmp_path / "out")
    good = frame[frame["failure"].isna()]
    assert set(good["contestant"]) == {"reno@udp"} and frame[frame["failure"].notna()]["throughput_mbps"].isna().all()


def script(code: str, folder: pathlib.Path, **names: str) -> str:
    """What a script printed that comes as ``python -c``: its ``__main__`` has no file, like that of a notebook."""
    for name, text in names.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=folder, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("how", ["pool", "dask"])
def test_classes_get_to_workers_from_wherever_they_are(how: str, tmp_path: pathlib.Path) -> None:
    if how == "dask":
        pytest.importorskip("distributed")
    code = f"""
        import contextlib, sys, paceline
        import helpers, mine                       # files beside the script, which workers elsewhere do not have
        from helpers import packets as count
        factor = 3.0
        scale = lambda bytes: factor * bytes / 3
        def made(extra):                           # a closure
            class Inner(mine.Base):
                def on_loss(self, loss): self.window = scale(self.window) + extra
            return Inner
        paceline.controller("closure")(made(0.0))
        @paceline.controller("plain", params={{"packets": (20.0, 1.0, 100.0)}})
        class Plain(paceline.Controller):
            def __init__(self, env, packets): self.window = packets * env.mss
            def on_ack(self, ack): self.window = scale(self.window)
        @paceline.controller("helped")
        class Helped(mine.Base):
            def on_ack(self, ack):
                super().on_ack(ack)
                self.window = count() * self.mss
        grid = {GRID!r}
        grid["contestants"] = ["closure@udp", "plain:packets=5@udp", "helped@udp", "there@udp"]
        def cluster():
            import distributed
            return distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None)
        def main():
            if {how!r} == "dask":
                with cluster() as workers, workers.get_client() as client:
                    client.run(lambda: __import__("os").chdir("/"))
                    client.run(lambda: [sys.path.remove(path) for path in ("", {str(tmp_path)!r}) if path in sys.path])
                    return paceline.sweep(grid, "out", executor=client)
            return paceline.sweep(grid, "out", workers=2)
        swept = main()
        print(swept.runs, [failed.problem for failed in swept.failures])
    """
    mine = """
        import paceline, helpers
        class Base(paceline.Controller):
            def __init__(self, env): self.mss = env.mss; self.window = helpers.packets() * env.mss
            def on_ack(self, ack): self.window = helpers.packets() * self.mss
        @paceline.controller("there")
        class There(Base): ...
    """
    helpers = "COUNT = 7\ndef packets(): return COUNT\n"
    assert script(code, tmp_path, mine=mine, helpers=helpers) == "8 []\n"


CHANGING = """
    import sys, paceline, tool
    W = {window}
    def gain(): return {gain}
    class Base(paceline.Controller):
        def __init__(self, env): self.window = W * env.mss
    @paceline.controller("mixed", params={{"beta": ({beta}, 0.1, 1.0)}}, summary="{summary}")
    class Mixed(Base):
        {comment}
        def __init__(self, env, beta): super().__init__(env)
        def on_ack(self, ack): self.window = self.window * gain() * tool.SCALE
    grid = {grid!r}
    grid["contestants"] = ["mixed@udp"]
    try:
        print(paceline.sweep(grid, "out", workers=1).runs)
    except OSError as error:
        print(error)
"""


def test_an_edited_class_does_not_go_on_in_the_same_folder(tmp_path: pathlib.Path) -> None:
    def swept(scale: str = "1.0", **changes: str) -> str:
        parts = {"window": "10.0", "gain": "1.0", "beta": "0.5", "summary": "s", "comment": "...", **changes}
        return script(CHANGING.format(grid=GRID, **parts), tmp_path, tool=f"SCALE = {scale}\nOTHER = 1\n")

    assert swept() == "2\n"
    # Neither a comment, nor a place, nor a word for people changes what it does.
    assert swept(comment="# more to read", summary="other") == "2\n"
    for changed in ({"window": "3.0"}, {"gain": "1.01"}, {"beta": "0.6"}, {"scale": "2.0"}, {"comment": "ecn = 'classic'"}):
        assert "controller 'mixed' is not the one whose runs it holds" in swept(**changed), changed
    assert swept() == "2\n"


def test_what_cannot_be_sent_is_refused_before_anything_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.Lock()

    @paceline.controller("locked")
    class Locked(Fixed):
        def on_ack(self, ack: Any) -> None:
            with lock:
                self.window += 1

    grid = {**GRID, "contestants": ["locked@udp", "reno@udp"]}
    with pytest.raises(paceline.ScenarioError, match="contestants: 'locked': it cannot be sent to other processes .*ThreadPoolExecutor"):
        paceline.sweep(grid, tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists()
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        assert not paceline.sweep(grid, tmp_path / "out", executor=threads).failures
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(paceline.ScenarioError, match="pip install cloudpickle"):
        paceline.sweep({**GRID, "contestants": ["raises@udp"]}, tmp_path / "none", workers=1)
    assert paceline.sweep({**GRID, "contestants": ["reno@udp"]}, tmp_path / "compiled", workers=1).runs == 2


def test_what_failed_is_run_again_when_that_is_asked_for(tmp_path: pathlib.Path) -> None:
    flag = tmp_path / "there"

    @paceline.controller("needs")
    class Needs(Fixed):
        def on_ack(self, ack: Any) -> None:
            flag.read_text()

    grid = {**GRID, "contestants": ["needs@udp", "reno@udp"]}
    assert len(paceline.sweep(grid, tmp_path / "out", workers=1).failures) == 2
    flag.write_text("")
    assert len(paceline.sweep(grid, tmp_path / "out", workers=1).failures) == 2
    swept = paceline.sweep(grid, tmp_path / "out", workers=1, retry=True)
    assert swept.runs == 4 and not swept.failures
    whole = paceline.sweep(grid, tmp_path / "whole", workers=1)
    content = lambda folder: {path.name: path.read_bytes() for path in folder.rglob("*.parquet")}  # noqa: E731
    assert not whole.failures and content(tmp_path / "out") == content(tmp_path / "whole")


def test_two_versions_of_a_class_take_turns_in_a_long_lived_worker(tmp_path: pathlib.Path) -> None:
    distributed = pytest.importorskip("distributed")
    grid = {**GRID, "contestants": ["turns@udp"], "runs": 60}

    def register(packets: float) -> None:
        @paceline.controller("turns")
        class Turns(paceline.Controller):
            def __init__(self, env: Any) -> None:
                self.window = packets * env.mss

            def on_ack(self, ack: Any) -> None: ...

    def throughput(folder: str) -> set[float]:
        pandas = pytest.importorskip("pandas")
        return {round(rate) for rate in pandas.read_parquet(tmp_path / folder)["throughput_mbps"]}

    with distributed.LocalCluster(1, threads_per_worker=2, dashboard_address=None) as cluster, cluster.get_client() as client:
        for packets, folder in ((10.0, "a"), (2.0, "b")):
            register(packets)
            with pytest.raises(InterruptedError):
                paceline.sweep(grid, tmp_path / folder, executor=client, progress=interrupted)
        # The first one again, while the worker has the second one's class.
        register(10.0)
        paceline.sweep(grid, tmp_path / "a", executor=client)
        register(2.0)
        paceline.sweep(grid, tmp_path / "b", executor=client)
    assert throughput("a") == {5} and throughput("b") == {1}


def interrupted(made: int, due: int) -> None:
    if made:
        raise InterruptedError


def test_records_and_folders_name_the_build(tmp_path: pathlib.Path) -> None:
    record = paceline.run(GRID["scenario"], ["reno@udp"], runs=1).to_dicts()[0]
    paceline.sweep({**GRID, "contestants": ["reno@udp"]}, tmp_path / "out", workers=1)
    held = json.loads((tmp_path / "out" / "_sweep.json").read_text())
    assert held["commit"] == record.get("commit") and held["version"] == record["version"]
    held["commit"] = "0" * 40
    (tmp_path / "out" / "_sweep.json").write_text(json.dumps(held, separators=(",", ":")) + "\n")
    with pytest.raises(OSError, match="runs of two builds do not mix; name another folder$"):
        paceline.sweep({**GRID, "contestants": ["reno@udp"]}, tmp_path / "out", workers=1)


def test_a_digest_sees_values_and_not_places() -> None:
    def digest(made: Any) -> str:
        return _travel._walked(_travel.Registered(_travel._register, made, {})).hash.hexdigest()  # type: ignore[arg-type]

    def function(text: str, **names: Any) -> Any:
        exec(compile(textwrap.dedent(text), "any", "exec"), names)
        return names["f"]

    code = "def f(x):\n    return x + A\n"
    assert digest(function(code, A=1)) == digest(function("\n\n# lower\n" + code, A=1, B=2)) != digest(function(code, A=2))
    assert digest(function(code, A=1.0)) != digest(function(code, A=1))
    assert digest(function("def f(x): return x in {'a', 'b', 'c'}")) == digest(function("def f(x): return x in {'c', 'a', 'b'}"))
    assert digest(function("def f(x): return [g for g in A if g]", A=[1])) != digest(function("def f(x): return [g for g in A if g]", A=[2]))
    loop: list[Any] = []
    loop.append(loop)
    assert digest(function(code, A=loop)) == digest(function(code, A=loop))
    numpy = pytest.importorskip("numpy")
    assert digest(function(code, A=numpy.ones(3))) != digest(function(code, A=numpy.zeros(3)))
