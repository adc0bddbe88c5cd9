"""Scenarios as Python objects: the keys are those of the file, described in ``docs/guide/scenarios.md`` and ``paths.md``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Optional, TypedDict, Union

from . import _paceline

Path = Union[str, "os.PathLike[str]"]
Size = Union[str, int]
Share = Union[str, float]


class Direction(TypedDict, total=False):
    """A path in one direction, or a direction of a link."""

    rate: str
    schedule: Union[list[list[str]], dict[str, Any]]
    schedule_lap: str
    trace: Path
    trace_start: str
    light_trace: Path
    light_below: Size
    light_after: str
    bucket: dict[str, str]
    wifi: dict[str, Any]
    policer: dict[str, str]
    marks: str
    queue: str
    queue_schedule: list[list[str]]
    outages: list[list[str]]
    loss: Any
    loss_schedule: list[list[Any]]
    duplicate: Share
    reorder: Any
    delay: str
    delay_schedule: list[list[str]]
    jitter: Any
    jitter_schedule: list[list[Any]]


class Link(Direction, total=False):
    """A link between two nodes; ``back`` is the direction from its second node to its first."""

    between: list[str]
    back: Direction


class ContentNode(TypedDict, total=False):
    """A node with a content router; without ``route`` it has every object."""

    route: list[str]
    cache: Size


# `from` is a word of Python.
_From = TypedDict("_From", {"from": str}, total=False)


class Flow(_From, total=False):
    """Flows of one kind."""

    contestant: str
    count: int
    stagger: str
    direction: str
    to: str
    object: str
    sources: list[str]
    start: str
    stop: str
    workload: Any
    extra_delay: str
    mss: int
    ack_every: int
    ack_delay: str
    paced: bool
    handshake: bool
    remembered: dict[str, Size]
    remember: bool
    arrivals: bool
    receiver: str
    timers: str
    telemetry: bool


class Program(TypedDict, total=False):
    """A program that is not ours, as a contestant ``NAME@program`` of a race in real time."""

    sender: str
    receiver: str
    server: str
    ready: Union[str, dict[str, str]]
    ready_within: str
    port: int
    options: dict[str, str]
    prepare: str
    version: str
    env: dict[str, str]
    inherit: list[str]
    congestion: str
    sysctl: dict[str, str]
    user: str
    stop: str
    linger: str
    grace: str
    exit: list[int]
    early: bool
    figures: dict[str, str]


class Cross(_From, total=False):
    """Traffic without a controller."""

    direction: str
    to: str
    rate: str
    packet: Size
    burst: int
    poisson: bool
    start: str
    stop: str


class Telemetry(TypedDict, total=False):
    """In-band telemetry: what hops report to senders."""

    profile: str
    interval: str
    delay: str
    stops: str
    resumes: str
    forge: str
    late: str
    drop: Share
    impostor: str
    lie: str
    lie_from: str
    bus: str


# `is` and `for` are words of Python.
_When = TypedDict("_When", {"is": dict[str, Any], "for": str}, total=False)


class When(_When, total=False):
    """A change that a controller's variables trigger."""

    flow: int
    after: str
    skip: int
    times: int
    delay: str
    set: dict[str, Any]


class Scenario(dict[str, Any]):
    """A scenario: a dict with the keys of a scenario file.

    >>> Scenario(name="short", seconds=10, contestants=["cubic@tcp"],
    ...          down={"rate": "12 Mbit/s", "delay": "20ms", "queue": "droptail:packets=60"}, up={"delay": "20ms"})

    Nothing is checked before it is run, or :meth:`check` is called: then every error names the key.
    """

    folder: Optional[str] = None
    """Where traces are looked for; the current folder without it."""

    def __init__(
        self,
        name: str,
        *,
        title: Optional[str] = None,
        seconds: Union[str, float, None] = None,
        runs: Optional[int] = None,
        seed: Optional[int] = None,
        tunnel: Optional[str] = None,
        contestants: Optional[Iterable[str]] = None,
        programs: Optional[Mapping[str, Union[Program, Mapping[str, Any]]]] = None,
        programs_from: Optional[Path] = None,
        down: Union[Direction, Mapping[str, Any], None] = None,
        up: Union[Direction, Mapping[str, Any], None] = None,
        links: Optional[Mapping[str, Union[Link, Mapping[str, Any]]]] = None,
        nodes: Optional[Mapping[str, Union[ContentNode, Mapping[str, Any]]]] = None,
        flows: Optional[Iterable[Union[Flow, Mapping[str, Any]]]] = None,
        cross: Optional[Iterable[Union[Cross, Mapping[str, Any]]]] = None,
        telemetry: Union[Telemetry, Mapping[str, Any], None] = None,
        when: Optional[Iterable[Union[When, Mapping[str, Any]]]] = None,
        **keys: Any,
    ) -> None:
        given = dict(
            name=name,
            title=title,
            seconds=seconds,
            runs=runs,
            seed=seed,
            tunnel=tunnel,
            contestants=None if contestants is None else list(contestants),
            programs=programs,
            programs_from=programs_from,
            down=down,
            up=up,
            links=links,
            nodes=nodes,
            flows=None if flows is None else list(flows),
            cross=None if cross is None else list(cross),
            telemetry=telemetry,
            when=None if when is None else list(when),
            **keys,
        )
        super().__init__((key, _plain(value)) for key, value in given.items() if value is not None)

    @classmethod
    def read(cls, path: Path) -> Scenario:
        """The scenario in a file; its traces are looked for beside the file."""
        scenario = cls.__new__(cls)
        scenario.update(json.loads(_paceline.read_scenario(os.fspath(path))))
        scenario.folder = os.path.dirname(os.path.abspath(os.fspath(path)))
        return scenario

    def effective(self) -> str:
        """The whole scenario as the text of a file, every default filled in.

        Raises :class:`ScenarioError` where anything in it is wrong.
        """
        return _paceline.effective_scenario(self, self.folder, given())

    def check(self) -> None:
        """Raises :class:`ScenarioError` where anything in it is wrong."""
        self.effective()


def wrong(key: str, text: str) -> _paceline.ScenarioError:
    """An option is wrong."""
    error = _paceline.ScenarioError(text)
    error.key = key
    return error


def given(
    contestants: Optional[Iterable[str]] = None,
    runs: Optional[int] = None,
    seed: Optional[int] = None,
    seconds: Union[str, float, None] = None,
    set: Optional[Mapping[str, Any]] = None,
) -> _paceline.Given:
    """What replaces keys of a scenario, as the compiled half takes it."""
    if isinstance(contestants, str):
        contestants = [contestants]
    elif isinstance(contestants, Iterable):
        contestants = list(contestants)
    try:
        keys = dict(set or {})
    except (TypeError, ValueError):
        raise wrong("set", f"set: {set!r} is not a dict of keys and values, such as {{'down.delay': '25ms'}}") from None
    return {
        "contestants": contestants,
        "runs": runs,
        "seed": seed,
        "seconds": seconds,
        "set": keys,
    }


def unpacked(scenario: Union[Path, Mapping[str, Any]]) -> tuple[Union[str, dict[str, Any]], Optional[str]]:
    """What the compiled half takes as a scenario, and the folder of its traces."""
    if isinstance(scenario, Mapping):
        return dict(scenario), getattr(scenario, "folder", None)
    return os.fspath(scenario), None


def _plain(value: Any) -> Any:
    """Mappings as dicts, which the compiled half takes."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value
