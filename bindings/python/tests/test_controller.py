"""Controllers in Python: they race as those in Rust do, and what is wrong with one is said once and clearly."""

from __future__ import annotations

import paceline
import pytest


@paceline.controller("test-fixed", params={"packets": (10.0, 1.0, 1000.0), "mode": ("still", ["still", "paced"])}, show=["seen"])
class Fixed:
    def __init__(self, env: object, packets: float, mode: str) -> None:
        self.window = packets * env.mss  # type: ignore[attr-defined]
        self.seen = 0
        if mode == "paced":
            self.pacing_mbps = 3.0

    def on_ack(self, ack: object) -> None:
        self.seen += 1


def test_the_same_machine_as_in_rust(short: paceline.Scenario) -> None:
    names = ["fixed:window=30", "test-fixed:packets=30"]
    records = paceline.run(short, [f"{name}@{via}" for name in names for via in ("udp", "alcc")], set={"seed": 3})
    throughput, delay = records["throughput_mbps"], records["delay_ms_mean"]
    assert throughput[:2] == throughput[2:] and delay[:2] == delay[2:]
    assert records["controller"][2] == "test-fixed:packets=30"


def test_pacing_and_shown_variables(short: paceline.Scenario) -> None:
    records = paceline.run(short, ["test-fixed:packets=1000,mode=paced@udp"], series=True)
    assert records["throughput_mbps"][0] == pytest.approx(3.1, abs=0.1)
    variables = records.variables
    seen = [value for name, value in zip(variables["variable"], variables["value"]) if name == "seen"]
    assert seen[-1] > 100


@paceline.controller("test-aimd", params={"beta": (0.5, 0.1, 0.9)})
class Aimd(paceline.Controller):
    """Every call, every field."""

    recovery = "controller"
    calls: set[str] = set()

    def __init__(self, env: object, beta: float) -> None:
        self.mss: int = env.mss  # type: ignore[attr-defined]
        self.window, self.beta = 10.0 * self.mss, beta
        self.next_tick = 100_000_000

    def on_sent(self, sent: paceline.Sent) -> int:
        assert sent.bytes <= sent.in_flight
        return sent.now

    def on_ack(self, ack: paceline.Ack) -> None:
        self.calls.add("ack")
        for packet in ack.packets:
            assert packet.tag == packet.sent_at
        assert ack.bytes == sum(packet.bytes for packet in ack.packets)
        assert ack.phase in ("open", "recovery", "loss") and ack.delivered >= ack.bytes
        if ack.rate:
            assert ack.rate.bytes_per_s == pytest.approx(ack.rate.delivered * 1e9 / ack.rate.interval, rel=1e-3)
        self.window += self.mss * ack.bytes / self.window

    def on_loss(self, loss: paceline.Loss) -> None:
        self.calls.add("loss")
        assert loss.bytes == sum(packet.bytes for packet in loss.packets) and loss.packets[0].cause == "unknown"
        if loss.new_episode:
            self.window *= self.beta

    def on_tick(self, now: int) -> None:
        self.calls.add("tick")
        self.next_tick = now + 100_000_000


def test_every_event_has_its_fields(short: paceline.Scenario) -> None:
    records = paceline.run(short, ["test-aimd@udp", "test-aimd@tcp", "reno@tcp"], seconds=10, threads=2)
    assert Aimd.calls == {"ack", "loss", "tick"}
    assert all(utilization > 0.9 for utilization in records["utilization"])
    again = paceline.run(short, ["test-aimd@udp", "test-aimd@tcp", "reno@tcp"], seconds=10, threads=1)
    assert records.to_json() == again.to_json()


def wrong(name: str, on_ack: str, short: paceline.Scenario, via: str = "udp") -> paceline.Records:
    """A race of three, one of which is wrong in its second run alone."""
    source = f"""
class Wrong:
    runs = 0
    def __init__(self, env):
        Wrong.runs += 1
        self.run, self.window, self.acks = Wrong.runs, 20000.0, 0
    def on_ack(self, ack):
        self.acks += 1
        if self.run == 2 and self.acks > 10:
            {on_ack}
"""
    space: dict[str, type] = {}
    exec(compile(source, "/somewhere/wrong.py", "exec"), space)
    paceline.controller(name)(space["Wrong"])
    return paceline.run(short, ["cubic@tcp", f"{name}@{via}", "reno@tcp"], runs=3, threads=1, failures="keep")


@pytest.mark.parametrize(
    ("name", "on_ack", "says"),
    [
        ("test-raises", "1 / 0", "Wrong.on_ack raised ZeroDivisionError: division by zero (wrong.py, line 10)"),
        ("test-nan", "self.window = float('nan')", "after Wrong.on_ack (wrong.py, line 7) window is NaN"),
        ("test-none", "self.window = None", "after Wrong.on_ack (wrong.py, line 7) window is None"),
        ("test-text", "self.window = 'wide'", "after Wrong.on_ack (wrong.py, line 7) window could not be read"),
    ],
)
def test_one_error_and_the_other_runs_go_on(short: paceline.Scenario, name: str, on_ack: str, says: str) -> None:
    records = wrong(name, on_ack, short)
    assert len(records) == 8 and len(records.failures) == 1
    failed = records.failures[0]
    assert (failed.contestant, failed.run, failed.seed) == (f"{name}@udp", 2, 1)
    assert failed.message.startswith(f"{name}@udp, run 2: controller '{name}': {says}") and "\n" not in failed.message


@pytest.mark.parametrize("via", ["udp", "tcp", "alcc/open"])
def test_a_window_in_the_wrong_unit_is_named(short: paceline.Scenario, via: str) -> None:
    name = f"test-unit-{via.replace('/', '-')}"
    records = wrong(name, "self.window = 2.0 * 1.5e6 * ack.srtt", short, via)  # bytes per second times nanoseconds
    assert len(records) == 8 and len(records.failures) == 1
    message = records.failures[0].message
    assert message.startswith(f"{name}@{via}, run 2: {name}: a window of ") and "\n" not in message
    assert ", set by Wrong.on_ack (wrong.py, line 7), has put " in message


def test_failures_are_raised_at_the_end(short: paceline.Scenario) -> None:
    @paceline.controller("test-init")
    class Broken:
        def __init__(self, env: object) -> None:
            raise KeyError("no such thing")

        def on_ack(self, ack: object) -> None: ...

    with pytest.raises(paceline.RunsFailed, match="Broken.__init__ raised KeyError") as caught:
        paceline.run(short, ["test-init@udp", "reno@tcp"])
    assert isinstance(caught.value.__cause__, KeyError) and len(caught.value.records) == 1


def test_registering() -> None:
    class Empty: ...

    with pytest.raises(TypeError, match="has no on_ack"):
        paceline.controller("test-empty")(Empty)
    with pytest.raises(ValueError, match="there is a controller 'cubic' already"):
        paceline.controller("cubic")(Fixed)
    with pytest.raises(ValueError, match="is not a name for a controller"):
        paceline.controller("a b")(Fixed)
    with pytest.raises(ValueError, match="with other parameters"):
        paceline.controller("test-fixed")(Fixed)
    with pytest.raises(paceline.ScenarioError, match="no parameter 'pakets'; did you mean packets"):
        paceline.run({"name": "x", "down": {"rate": "1 Mbit/s"}}, ["test-fixed:pakets=3@udp"])
