"""What is written in Python is asked what others are asked: RFC 9743's questions, rules, its event log; and takes start-ups."""

from __future__ import annotations

import json
import pathlib

import paceline
import pytest


@paceline.controller("test-judge-reno")
class Reno(paceline.Controller):
    """NewReno by RFC 5681."""

    def __init__(self, env: paceline.Env) -> None:
        self.mss = env.mss
        self.window = 10.0 * env.mss
        self.ssthresh = float("1e15")

    def on_ack(self, ack: paceline.Ack) -> None:
        if ack.phase not in ("open", "loss") or not ack.window_limited:
            return
        self.window += ack.bytes if self.window < self.ssthresh else self.mss * ack.bytes / self.window

    def on_loss(self, loss: paceline.Loss) -> None:
        if loss.new_episode:
            self.window = self.ssthresh = max(self.window / 2, 2.0 * self.mss)

    def on_timeout(self, timeout: paceline.Timeout) -> None:
        if timeout.count == 1:
            self.ssthresh = max(self.window / 2, 2.0 * self.mss)
        self.window = 1.0 * self.mss


@paceline.controller("test-judge-raises")
class Raises(Reno):
    def on_ack(self, ack: paceline.Ack) -> None:
        raise KeyError("by hand")


def test_a_class_is_judged_by_the_rules_of_its_specification() -> None:
    seen: list[tuple[int, int]] = []
    judged = paceline.conform("test-judge-reno@tcp", "reno", progress=lambda ended, due: seen.append((ended, due)))
    verdicts = {one.rule: one.verdict for one in judged}
    assert verdicts["reno-halving"] == "holds" and verdicts["reno-slow-start"] == "holds"
    assert seen[-1][0] == seen[-1][1] > 0
    assert "reno-halving" in repr(judged) and "<td>reno-halving</td>" in judged._repr_html_() and judged.page.startswith("<!")
    assert json.dumps(judged.to_dicts()[0])


def test_words_for_what_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="as_: there are no rules for 'test-judge-reno'; give one of reno, cubic"):
        paceline.conform("test-judge-reno@tcp")
    with pytest.raises(ValueError, match="give a contestant"):
        paceline.conform(as_="reno")
    with pytest.raises(ValueError, match="unknown controller"):
        paceline.evaluate("no-such-thing@udp")
    with pytest.raises(ValueError, match="^only: there is no question or section 'charm'; name some of"):
        paceline.evaluate("reno", only="charm")
    with pytest.raises(RuntimeError, match="Raises.on_ack raised KeyError") as caught:
        paceline.conform("test-judge-raises@tcp", "reno")
    assert "please report it" not in str(caught.value)


def test_rfc_9743_asks_a_class() -> None:
    asked = paceline.evaluate("test-judge-reno@tcp", quick=True, only="loss")
    ours = paceline.evaluate("reno@tcp", quick=True, only="loss")
    assert [one.id for one in asked] == ["loss"] and not asked[0].failures
    assert asked[0].charts and asked[0].source == ours[0].source and "test-judge-reno" in asked[0].question
    assert "<td>" in asked._repr_html_()
    failed = paceline.evaluate("test-judge-raises@tcp", quick=True, only="loss")
    assert failed[0].failures and "Raises.on_ack raised KeyError" in failed[0].failures[0]


def test_its_log_is_replayed_and_judged(short: paceline.Scenario, tmp_path: pathlib.Path) -> None:
    paceline.run(short, ["test-judge-reno@tcp"], runs=2, seconds=20, events=tmp_path)
    log = tmp_path / "test-judge-reno@tcp-1.jsonl"
    assert sorted(path.name for path in tmp_path.iterdir()) == [log.name]
    again = paceline.replay(log)
    assert again.equal and again.events is not None and again.events > 1000 and again.controller == "test-judge-reno"
    other = paceline.replay(log, "cubic")
    assert not other.equal and other.answer is not None and other.line is not None
    judged = paceline.conform(as_="reno", events=log)
    assert {one.origin for one in judged} == {"an event log"} or len(judged) > 0
    assert any(one.verdict == "holds" for one in judged)
    with pytest.raises(OSError, match="cannot be read"):
        paceline.replay(tmp_path / "nowhere.jsonl")


@pytest.mark.parametrize("start", ["slow", "hystart", "chirp-q"])
def test_start_ups_stand_before_a_class(short: paceline.Scenario, start: str) -> None:
    ends: list[tuple[float, float]] = []

    @paceline.controller(f"test-judge-after-{start}")
    class After(paceline.Controller):
        """Keeps what the start-up has found."""

        def __init__(self, env: paceline.Env) -> None:
            self.window = 2.0 * env.mss

        def on_start_end(self, now: int) -> None:
            assert self.ssthresh == self.window
            ends.append((now / 1e9, self.window / 1448))

        def on_ack(self, ack: paceline.Ack) -> None:
            assert ends

        def on_loss(self, loss: paceline.Loss) -> None:
            if loss.new_episode:
                self.window /= 2

    name = f"test-judge-after-{start}"
    records = paceline.run(short, [f"{name}:start={start}@udp", f"reno:start={start}@udp"], seconds=5)
    assert records["controller"][0] == f"{name}:start={start}" and len(ends) == 1
    # 12 Mbit/s times 40 ms are 40 packets, and the queue holds 60.
    assert ends[0][0] < 2 and 15 < ends[0][1] < 210
    with pytest.raises(paceline.ScenarioError, match="chirp_gain does not apply to start=own"):
        paceline.run(short, [f"{name}:chirp_gain=2@udp"])


def test_a_parameter_of_ones_own_goes_before_a_start_up(short: paceline.Scenario) -> None:
    @paceline.controller("test-judge-own-start", params={"start": (5.0, 1.0, 100.0)})
    class Own(Reno):
        def __init__(self, env: paceline.Env, start: float) -> None:
            super().__init__(env)
            self.window = start * env.mss

    assert paceline.run(short, ["test-judge-own-start:start=9@udp"])["controller"] == ["test-judge-own-start:start=9"]
