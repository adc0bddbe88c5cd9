"""Mistakes on purpose: each is refused in one line that says what was expected."""

from __future__ import annotations

import functools
from typing import Any

import paceline
import pytest


@pytest.mark.parametrize("given", [5, (1, 2), (1, 0, 5, 7), ("a", "ab"), ("a", []), (1, [1, 2]), "abc", None])
def test_parameters_that_cannot_be(given: Any) -> None:
    with pytest.raises(ValueError, match="controller 'test-mistake-given': parameter 'gain': .* is neither a number with its"):
        paceline.controller("test-mistake-given", params={"gain": given})


def fault(short: paceline.Scenario, name: str, body: str, more: str = "") -> str:
    """What is said of a class whose acknowledgements do this."""
    source = f"""
class Wrong:
    def __init__(self, env):
        self.window = 20000.0
    def on_ack(self, ack):
        {body}
{more}
"""
    space: dict[str, type] = {}
    exec(compile(source, "/somewhere/wrong.py", "exec"), space)
    paceline.controller(name)(space["Wrong"])
    records = paceline.run(short, [f"{name}@udp"], failures="keep")
    assert len(records.failures) == 1 and "\n" not in records.failures[0].message
    return records.failures[0].message


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("self.window = -1", "window is -1; make it bytes from 0 on"),
        ("self.pacing_mbps = 0", "pacing_mbps is 0; make it Mbit/s above 0, or None"),
        ("self.pacing_mbps = -3.5", "pacing_mbps is -3.5; make it Mbit/s above 0, or None"),
        ("self.pacing_mbps = 1e-12", "pacing_mbps is 1e-12, less than a byte per second; make it Mbit/s above 0, or None"),
        ("self.gap = 0.0005", "gap is 5e-4, a part of 1 ns; make it whole ns, or None"),
        ("self.gap = -1", "gap is -1; make it ns from 0 on, or None"),
        ("self.ssthresh = -5", "ssthresh is -5; make it bytes from 0 on, or None"),
        ("self.next_tick = ack.now + 1000", "next_tick is set, and the class has no on_tick; define on_tick(self, now)"),
    ],
)
def test_answers_that_cannot_be(short: paceline.Scenario, body: str, says: str) -> None:
    name = f"test-mistake-{abs(hash(body))}"
    assert f"after Wrong.on_ack (wrong.py, line 5) {says}" in fault(short, name, body)


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("coroutine", "lambda function: functools.partialmethod(asynchronous)"),
        ("generator", "lambda function: lambda self, ack: (one for one in [ack])"),
    ],
)
def test_calls_that_do_nothing(short: paceline.Scenario, kind: str, function: str) -> None:
    """What a decorator hides from a look at the class."""

    async def asynchronous(self: Any, ack: Any) -> None: ...

    decorate = eval(function, {"asynchronous": asynchronous, "functools": functools})

    class Hidden(paceline.Controller):
        def __init__(self, env: Any) -> None:
            self.window = 20000.0

        @decorate
        def on_ack(self, ack: Any) -> None: ...

    paceline.controller(f"test-mistake-{kind}")(Hidden)
    said = paceline.run(short, [f"test-mistake-{kind}@udp"], failures="keep").failures[0].message
    assert f"answered a {kind}, so that nothing was done; make it a plain def" in said


@pytest.mark.parametrize(("name", "value"), [("ecn", "'l4s'"), ("recovery", "'controller'")])
def test_what_the_class_says_is_not_said_by_the_object(short: paceline.Scenario, name: str, value: str) -> None:
    space: dict[str, Any] = {"paceline": paceline}
    source = f"""
class Late(paceline.Controller):
    def __init__(self, env):
        self.window, self.{name} = 20000.0, {value}
    def on_ack(self, ack): ...
class Early(Late):
    {name} = {value}
"""
    exec(source, space)
    paceline.controller(f"test-mistake-late-{name}")(space["Late"])
    paceline.controller(f"test-mistake-early-{name}")(space["Early"])
    records = paceline.run(short, [f"test-mistake-{when}-{name}@udp" for when in ("late", "early")], failures="keep")
    assert [failed.contestant for failed in records.failures] == [f"test-mistake-late-{name}@udp"]
    assert f"sets {name} to {value}, which is read from the class; write {name} = {value} below class Late" in records.failures[0].message
    space["Late"].ecn = None
    with pytest.raises(ValueError, match="controller 'test-mistake-none': ecn is 'None'; write 'off', 'classic', 'exact' or 'l4s'"):
        paceline.controller("test-mistake-none")(space["Late"])


@pytest.mark.parametrize("answer", ["'tag'", "-1", "1.5", "2**64", "[1]"])
def test_tags_that_cannot_be(short: paceline.Scenario, answer: str) -> None:
    more = f"    def on_sent(self, sent):\n        return {answer}"
    said = fault(short, f"test-mistake-tag-{abs(hash(answer))}", "pass", more)
    assert "Wrong.on_sent (wrong.py, line 7) answered" in said
    assert said.endswith("answer a tag, a whole number from 0 to 2^64 - 1, or None")


def test_tags_that_can_be(short: paceline.Scenario) -> None:
    numpy = pytest.importorskip("numpy")
    tags: set[int] = set()

    @paceline.controller("test-mistake-tags")
    class Tags(paceline.Controller):
        def __init__(self, env: paceline.Env) -> None:
            self.window, self.sent = 10.0 * env.mss, 0

        def on_sent(self, sent: paceline.Sent) -> Any:
            self.sent += 1
            return [None, 2**64 - 1, numpy.int32(7), True][self.sent % 4]

        def on_ack(self, ack: paceline.Ack) -> None:
            tags.update(packet.tag for packet in ack.packets)

    paceline.run(short, ["test-mistake-tags@udp"])
    assert tags == {0, 2**64 - 1, 7, 1}


def test_methods_that_would_do_nothing() -> None:
    class Misspelt(paceline.Controller):
        def on_ack(self, ack: Any) -> None: ...
        def on_lost(self, loss: Any) -> None: ...

    with pytest.raises(ValueError, match="Misspelt.on_lost would never be called; did you mean on_loss, or a name that does not begin"):
        paceline.controller("test-mistake-misspelt")(Misspelt)

    class Far(paceline.Controller):
        def on_ack(self, ack: Any) -> None: ...
        def on_xyzzyx_quux(self) -> None: ...

    with pytest.raises(ValueError, match="would never be called; those that are called: on_sent, on_ack"):
        paceline.controller("test-mistake-far")(Far)

    for written in ("onLoss", "onloss", "On_loss", "OnAck"):
        cls = type("Spelt", (paceline.Controller,), {"on_ack": Misspelt.on_ack, written: lambda self, loss: None})
        with pytest.raises(ValueError, match=rf"Spelt.{written} would never be called; did you mean on_(loss|ack), or a name"):
            paceline.controller("test-mistake-spelt")(cls)

    class Later(paceline.Controller):
        async def on_ack(self, ack: Any) -> None: ...

    with pytest.raises(TypeError, match="Later.on_ack is async, so that a call would do nothing; write def"):
        paceline.controller("test-mistake-async")(Later)

    class Yields(paceline.Controller):
        def on_ack(self, ack: Any) -> Any:
            yield ack

    with pytest.raises(TypeError, match="Yields.on_ack has a yield"):
        paceline.controller("test-mistake-yield")(Yields)

    class Number(paceline.Controller):
        on_loss = 3

        def on_ack(self, ack: Any) -> None: ...

    with pytest.raises(TypeError, match="Number.on_loss is 3, and no method"):
        paceline.controller("test-mistake-number")(Number)


@pytest.mark.parametrize(
    ("options", "key", "says"),
    [
        ({"events": 3}, "events", "events: 3 is neither True nor False nor a folder"),
        ({"events": ""}, "events", "events: '' is neither True nor False nor a folder"),
        ({"real": "yes"}, "real", "real: 'yes' is neither True nor False"),
        ({"set": "a=b"}, "set", "set: 'a=b' is not a dict of keys and values"),
        ({"set": {3: 4}}, "set", "set: the key 3 is not a text"),
        ({"set": {"down": 3}}, "down", "set down=3: down: integer `3` stands where a table is due; write { key = value }"),
        (
            {"set": {"flows": [{"count": -1}]}},
            "flows",
            "set flows=[{ count = -1 }]: flows[0].count: integer `-1` is not a whole number from 0 to 4294967295",
        ),
        ({"failures": "ignore"}, "failures", "failures: 'ignore' is neither 'raise' nor 'keep'"),
        ({"runs": 2.0}, "runs", "runs: 2.0 is not a whole number from 0 to 4294967295"),
        ({"runs": True}, "runs", "runs: True is not a whole number"),
        ({"seed": -1}, "seed", "seed: -1 is not a whole number from 0"),
        ({"threads": -1}, "threads", "threads: -1 is not a whole number from 0"),
        ({"threads": "two"}, "threads", "threads: 'two' is not a whole number from 0"),
        ({"seconds": "soon"}, "seconds", "seconds: 'soon' is not a span above 0"),
        ({"seconds": -2}, "seconds", "seconds: -2 is not a span above 0"),
        ({"seconds": float("nan")}, "seconds", "seconds: nan is not a span above 0"),
        ({"contestants": 3}, "contestants", "contestants: 3 is not a list of texts"),
        ({"contestants": [3]}, "contestants", "contestants: [3] is not a list of texts"),
        ({"series": True, "set": {"seconds": "x"}}, "seconds", ""),
    ],
)
def test_options_of_the_wrong_type(short: paceline.Scenario, options: dict[str, Any], key: str, says: str) -> None:
    with pytest.raises(paceline.ScenarioError) as caught:
        paceline.run(short, **options)
    assert str(caught.value).startswith(says) and caught.value.key == key and "\n" not in str(caught.value)


def test_seconds_are_written_as_for_the_command(short: paceline.Scenario) -> None:
    short["seconds"] = 7
    assert paceline.run(short, seconds="1500ms")["seconds"] == paceline.run(short, seconds=1.5)["seconds"] == [1.5]


def test_real_time_speaks_to_users_of_the_package(short: paceline.Scenario) -> None:
    @paceline.controller("test-mistake-real")
    class Fine(paceline.Controller):
        def __init__(self, env: paceline.Env) -> None:
            self.window = 10.0 * env.mss

        def on_ack(self, ack: paceline.Ack) -> None: ...

    for via in ("tcp", "quic"):
        with pytest.raises(paceline.ScenarioError) as caught:
            paceline.run(short, [f"test-mistake-real@{via}"], real=True)
        assert caught.value.key == "contestants"
        assert f"does not run inside {via} in real time; write test-mistake-real@udp, test-mistake-real@alcc" in str(caught.value)
    try:
        paceline.run(short, ["copa@quic"], real=True)
    except OSError as error:
        pytest.skip(f"it may not race in real time: {error}")
    except paceline.ScenarioError as error:
        assert "cargo" not in str(error) and "--real" not in str(error) and "copa@udp" in str(error)
