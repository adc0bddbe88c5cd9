"""A scenario with programs of others has commands: from Python they do not run."""

from __future__ import annotations

import pathlib

import paceline
import pytest


def with_program(short: paceline.Scenario, program: paceline.Program) -> paceline.Scenario:
    return paceline.Scenario(**{**short, "contestants": ["cubic@tcp", "own@program"], "programs": {"own": program}, "seconds": 1.5})


@pytest.fixture
def touching(short: paceline.Scenario, tmp_path: pathlib.Path) -> paceline.Scenario:
    """Every command makes a file."""
    touch = f"touch {tmp_path}/ran"
    return with_program(short, {"version": touch, "prepare": touch, "sender": touch, "receiver": touch})


def test_commands_do_not_run(touching: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    says = "^own@program: .*, and race them by the command, paceline race --real --run-programs$"
    with pytest.raises(paceline.ScenarioError, match=says) as caught:
        paceline.run(touching, real=True)
    assert caught.value.key == "contestants" and "\n" not in str(caught.value)
    # One that runs beside the contestant too.
    beside = paceline.Scenario(**{**touching, "contestants": ["cubic@tcp"], "flows": [{}, {"contestant": "own@program"}]})
    with pytest.raises(paceline.ScenarioError, match="^own@program: .* --run-programs$"):
        paceline.run(beside, real=True)
    touching.check()
    assert "touch" in touching.effective() and not (tmp_path / "ran").exists()


def test_the_simulator_runs_no_command(touching: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    with pytest.raises(paceline.ScenarioError, match="^own@program: a program runs in real time only; add real=True$"):
        paceline.run(touching)
    assert not (tmp_path / "ran").exists()
