"""A scenario with programs of others has commands: from Python they run only where that is asked for."""

from __future__ import annotations

import os
import pathlib
import shlex
import sys
import time
from collections.abc import Callable
from typing import Any

import paceline
import pytest

#: One end connects and sends zeros for the flow's length; the other takes them, until it is asked to end.
SENDER = """
import os, socket, time
peer = socket.create_connection((os.environ["PACELINE_PEER"], int(os.environ["PACELINE_PORT"])))
end, sent = time.monotonic() + float(os.environ["PACELINE_SECONDS"]), 0
while time.monotonic() < end:
    sent += peer.send(bytes(20000))
print('{"sent": %d}' % sent)
"""
RECEIVER = """
import os, socket
peer = socket.create_server(("0.0.0.0", int(os.environ["PACELINE_PORT"]))).accept()[0]
while peer.recv(65536):
    pass
"""
OWN: paceline.Program = {
    "version": "echo own 1.2",
    "congestion": "reno",
    "sender": f"exec {shlex.quote(sys.executable)} -c {shlex.quote(SENDER)}",
    "receiver": f"exec {shlex.quote(sys.executable)} -c {shlex.quote(RECEIVER)}",
    "figures": {"sent": "sender.out#/sent"},
}


def with_program(short: paceline.Scenario, program: paceline.Program) -> paceline.Scenario:
    return paceline.Scenario(**{**short, "contestants": ["cubic@tcp", "own@program"], "programs": {"own": program}, "seconds": 1.5})


@pytest.fixture
def touching(short: paceline.Scenario, tmp_path: pathlib.Path) -> paceline.Scenario:
    """Every command makes a file."""
    touch = f"touch {tmp_path}/ran"
    return with_program(short, {"version": touch, "prepare": touch, "sender": touch, "receiver": touch})


def raced(scenario: paceline.Scenario, **options: Any) -> paceline.Records:
    try:
        return paceline.run(scenario, ["own@program"], real=True, run_programs=True, **options)
    except OSError as refused:
        pytest.skip(str(refused))


def until(what: str, so: Callable[[], bool]) -> None:
    """Waits long enough for a slow machine: only a failure waits for it."""
    end = time.monotonic() + 120
    while not so():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def processes_with(text: str) -> list[str]:
    """Command lines."""
    lines = []
    for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if text in line]


def test_commands_do_not_run_unless_asked(touching: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    with pytest.raises(paceline.ScenarioError, match=r"^own@program: .*\(Scenario.effective\(\) shows them\), and add run_programs=True$") as caught:
        paceline.run(touching, real=True)
    assert caught.value.key == "contestants" and "\n" not in str(caught.value)
    # One that runs beside the contestant too.
    beside = paceline.Scenario(**{**touching, "contestants": ["cubic@tcp"], "flows": [{}, {"contestant": "own@program"}]})
    with pytest.raises(paceline.ScenarioError, match="^own@program: .* add run_programs=True$"):
        paceline.run(beside, real=True)
    touching.check()
    assert "touch" in touching.effective() and not (tmp_path / "ran").exists()


def test_the_simulator_runs_no_command(touching: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    with pytest.raises(paceline.ScenarioError, match="^own@program: a program runs in real time only; add real=True$"):
        paceline.run(touching)
    with pytest.raises(paceline.ScenarioError, match="^run_programs: programs run in real time only; add real=True$"):
        paceline.run(touching, run_programs=True)
    assert not (tmp_path / "ran").exists()


def test_options_that_cannot_be(touching: paceline.Scenario) -> None:
    wrong: Any = "yes"
    with pytest.raises(paceline.ScenarioError, match="^run_programs: 'yes' is neither True nor False$"):
        paceline.run(touching, real=True, run_programs=wrong)
    with pytest.raises(paceline.ScenarioError, match="^keep: it is for what programs write; add run_programs=True$"):
        paceline.run(touching, real=True, keep="somewhere")


def test_a_program_races(short: paceline.Scenario, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept"
    # Further arguments, by which its processes are known.
    marked: paceline.Program = {**OWN, "sender": f"{OWN['sender']} {tmp_path}", "receiver": f"{OWN['receiver']} {tmp_path}"}
    records = raced(with_program(short, marked), keep=kept)
    (flow,) = records.to_dicts()[0]["flows"]
    assert flow["via"] == "program" and flow["throughput_mbps"] > 0 and flow["timeouts"] is None
    program = flow["program"]
    assert program["version"] == "own 1.2" and program["protocol"] == "tcp" and program["connections"] == 1
    assert program["figures"]["sent"] > 0 and program["sender"]["status"] == 0 and program["receiver"]["cpu_s"] > 0
    assert (kept / "own@program-1-0" / "sender.out").read_text().startswith('{"sent": ')
    said = capfd.readouterr().err
    # Each line of a script, none of which passes for a command.
    assert "own version: echo own 1.2\n" in said and "\n  | import os, socket, time\n" in said
    until("all processes have ended", lambda: processes_with(str(tmp_path)) == [])


def test_what_a_program_does_wrong_fails_its_run(short: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    crashes: paceline.Program = {**OWN, "sender": "echo out of ideas >&2; exit 7"}
    with pytest.warns(UserWarning, match="^what programs of the failed runs wrote is in ") as warned:
        records = raced(with_program(short, crashes), failures="keep")
    (failed,) = records.failures
    assert failed.contestant == "own@program" and "sender: ended with status 7 at 0." in failed.message
    assert failed.message.endswith("\n  | out of ideas")
    folder = pathlib.Path(str(warned[0].message).rsplit(" ", 1)[-1])
    assert (folder / "own@program-1-0" / "sender.err").read_text() == "out of ideas\n"
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
    absent: paceline.Program = {**OWN, "version": "no-such-program --version"}
    with pytest.raises(paceline.ScenarioError, match="^own@program: version: 'no-such-program --version' ended with status 127; install it") as caught:
        raced(with_program(short, absent))
    assert caught.value.key == "programs"


def test_nothing_is_left_of_a_race_that_is_killed(short: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    mark = f"3000.{os.getpid()}"
    stubborn = f"trap '' TERM HUP INT; (setsid sleep {mark} &); sleep {mark}"
    program: paceline.Program = {"ready": {"after": "1ms"}, "sender": f"echo begun >{tmp_path}/begun; {stubborn}", "receiver": stubborn}
    scenario = with_program(short, program)
    code = f"import paceline; paceline.run({dict(scenario)!r}, ['own@program'], seconds=600, real=True, run_programs=True)"
    ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
    child = os.spawnve(os.P_NOWAIT, sys.executable, [sys.executable, "-c", code], {**os.environ, "TMPDIR": str(tmp_path)})
    until("the program runs, or cannot", lambda: (tmp_path / "begun").exists() or os.waitid(os.P_PID, child, ended) is not None)
    os.kill(child, 9)
    os.waitpid(child, 0)
    if not (tmp_path / "begun").exists():
        pytest.skip("this machine races no programs")
    until("all processes have ended", lambda: processes_with(mark) == [])
