"""Races of congestion controllers, in the simulator and in real time, from Python.

>>> import paceline
>>> records = paceline.run("scenarios/cellular.toml", runs=3)
>>> records.to_pandas()[["contestant", "throughput_mbps", "delay_ms_p95"]]

A scenario is a file, or a :class:`Scenario` (or a dict) with the same keys. ``paceline.plots`` draws, ``paceline.gym`` is a
Gymnasium environment; both need the extras of their names.
"""

from ._controller import Controller, controller
from ._paceline import (
    Ack,
    Acked,
    Env,
    Failed,
    Hop,
    Loss,
    Lost,
    RateSample,
    Restart,
    ScenarioError,
    Sent,
    Timeout,
    __version__,
)
from ._paceline import Telemetry as TelemetryReport
from ._real import Sent as SentOverUdp
from ._real import Server, Session, send
from ._records import Records, RunsFailed, Table
from ._run import run
from ._scenario import Cross, Direction, Flow, Link, Scenario, Telemetry
from ._sweep import FailedPoint, Swept, sweep

__all__ = [
    "Ack",
    "Acked",
    "Controller",
    "Cross",
    "Direction",
    "Env",
    "Failed",
    "FailedPoint",
    "Flow",
    "Hop",
    "Link",
    "Loss",
    "Lost",
    "RateSample",
    "Records",
    "Restart",
    "RunsFailed",
    "Scenario",
    "ScenarioError",
    "Sent",
    "SentOverUdp",
    "Server",
    "Session",
    "Swept",
    "Table",
    "Telemetry",
    "TelemetryReport",
    "Timeout",
    "__version__",
    "controller",
    "run",
    "send",
    "sweep",
]
