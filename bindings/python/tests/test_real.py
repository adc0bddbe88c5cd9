"""Controllers in Python in real time. Nothing here depends on how fast the machine is: rates are small, and figures are not judged."""

from __future__ import annotations

import os
import pathlib
import time

import paceline
import pytest


@paceline.controller("test-live", params={"packets": (20.0, 1.0, 1000.0)}, show=["acks"])
class Live:
    """A fixed window, paced to 4 Mbit/s."""

    pacing_mbps = 4.0

    def __init__(self, env: paceline.Env, packets: float) -> None:
        self.window, self.acks = packets * env.mss, 0
        self.last = 0

    def on_ack(self, ack: paceline.Ack) -> None:
        assert ack.now >= self.last
        self.last = ack.now
        self.acks += len(ack.packets)


def wrong(name: str, on_ack: str) -> None:
    source = f"""
import time
class Wrong:
    pacing_mbps = 4.0
    def __init__(self, env):
        self.window, self.acks = 20000.0, 0
    def on_ack(self, ack):
        self.acks += 1
        if self.acks > 20:
            {on_ack}
"""
    space: dict[str, type] = {}
    exec(compile(source, "/somewhere/wrong.py", "exec"), space)
    paceline.controller(name)(space["Wrong"])


def test_a_transfer_over_loopback() -> None:
    with paceline.Server() as server:
        sent = paceline.send(server.address, "test-live:packets=30", bytes=200_000)
        assert sent.bytes == 200_000 and sent.controller == "test-live:packets=30" and sent.packets_sent >= 138
        assert paceline.send(server.address, "cubic", bytes=100_000).bytes == 100_000
        server.close()
        assert sorted(session.bytes for session in server.sessions) == [100_000, 200_000] and not server.problems


def test_a_key_on_both_ends(tmp_path: pathlib.Path) -> None:
    secret = bytes(range(32))
    file = tmp_path / "key"
    file.write_text(secret.hex())
    file.chmod(0o600)
    with paceline.Server(key=secret) as server:
        assert paceline.send(server.address, "test-live", bytes=50_000, key=file).bytes == 50_000
        with pytest.raises(OSError, match="it has a key; give key="):
            paceline.send(server.address, "test-live", bytes=50_000)
    file.chmod(0o644)
    with pytest.raises(PermissionError, match="chmod 600"):
        paceline.send(server.address, bytes=1, key=file)


@pytest.mark.parametrize(
    ("name", "on_ack", "says"),
    [
        ("live-raises", "1 / 0", r"^controller 'live-raises': Wrong.on_ack raised ZeroDivisionError: division by zero \(wrong.py, line 10\)$"),
        ("live-nan", "self.window = float('nan')", "window is NaN"),
        ("live-sleeps", "time.sleep(3.2)", r"Wrong.on_ack took \d+.\d s \(wrong.py, line 7\): in real time a call may take 3 s"),
        ("live-loops", "while True: pass", r"Wrong.on_ack took \d+.\d s \(wrong.py, line 7\): in real time a call may take 3 s"),
    ],
)
def test_what_is_wrong_ends_its_own_run(name: str, on_ack: str, says: str) -> None:
    wrong(name, on_ack)
    with paceline.Server() as server:
        with pytest.raises(RuntimeError, match=says) as caught:
            paceline.send(server.address, f"{name}", seconds=600)
        assert "\n" not in str(caught.value)
        # Others are not concerned.
        assert paceline.send(server.address, "test-live", bytes=50_000).bytes == 50_000
    if name == "live-raises":
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_call_that_never_returns_is_left_behind() -> None:
    # Sleeping in the system: no exception gets there. Its thread ends with the process.
    wrong("live-stuck", "time.sleep(600)")
    begun = time.monotonic()
    with paceline.Server(timeout=1) as server, pytest.raises(RuntimeError, match="and has not returned: in real time a call may take 3 s"):
        paceline.send(server.address, "live-stuck", seconds=600)
    assert time.monotonic() - begun < 500


def test_words_for_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="nothing to send"):
        paceline.send("127.0.0.1:9")
    with pytest.raises(ValueError, match="no such host"):
        paceline.send("nowhere.invalid:1", bytes=1)
    with pytest.raises(ValueError, match="controller 'cubik'"):
        paceline.send("127.0.0.1:9", "cubik", bytes=1)
    with pytest.raises(OSError, match="is not loopback: give both ends the same key"):
        paceline.send("192.0.2.1:9", bytes=1)
    with pytest.raises(ValueError, match="32 bytes"):
        paceline.Server(key=b"short")


def may_race() -> bool:
    return os.geteuid() == 0 and os.path.exists("/dev/net/tun")


@pytest.mark.skipif(not may_race(), reason="it needs root")
def test_a_race_in_real_time(short: paceline.Scenario) -> None:
    low = {"down.rate": "3 Mbit/s", "seconds": 1.5}
    wrong("live-raises-too", "1 / 0")
    records = paceline.run(
        short, ["test-live@udp", "live-raises-too@udp", "test-live@alcc"], set=low, real=True, series=True, failures="keep"
    )
    assert records["contestant"] == ["test-live@udp", "test-live@alcc"] and records["world"] == ["real", "real"]
    assert all(throughput > 0 for throughput in records["throughput_mbps"])
    assert [failed.contestant for failed in records.failures] == ["live-raises-too@udp"]
    assert "Wrong.on_ack raised ZeroDivisionError" in records.failures[0].message
    assert len(records.series) > 10
    # The simulator is as it was.
    assert paceline.run(short, ["test-live@udp"])["world"] == ["sim"]


def test_events_of_a_real_race_are_by_the_clock_of_the_world(short: paceline.Scenario) -> None:
    events = paceline.run(short, ["copa@udp"], seconds=1, events=True, real=True).events
    assert {"sent", "acked"} <= set(events["event"])
    assert all(0 <= now < 2 for now in events["time_s"])
