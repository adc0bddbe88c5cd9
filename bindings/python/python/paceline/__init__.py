"""Races of congestion controllers, in the simulator and in real time, from Python.

>>> import paceline
>>> records = paceline.run(paceline.shipped("cellular"), runs=3)
>>> records.to_pandas()[["contestant", "throughput_mbps", "delay_ms_p95"]]

A scenario is a file, or a :class:`Scenario` (or a dict) with the same keys; :func:`shipped` has some. A controller may be written in
Python (:func:`controller`); :func:`evaluate`, :func:`conform` and :func:`replay` judge it. ``paceline.plots`` draws, ``paceline.gym`` is a
Gymnasium environment; both need the extras of their names.
"""

from ._controller import Controller, controller
from ._judge import Answered, Clause, Conformance, Evaluation, Judged, Replayed, conform, evaluate, replay
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
from ._scenario import ContentNode, Cross, Direction, Flow, Link, Program, Scenario, Telemetry, When
from ._shipped import shipped
from ._sweep import FailedPoint, Swept, sweep

__all__ = [
    "Ack",
    "Acked",
    "Answered",
    "Clause",
    "Conformance",
    "ContentNode",
    "Controller",
    "Cross",
    "Direction",
    "Env",
    "Evaluation",
    "Failed",
    "FailedPoint",
    "Flow",
    "Hop",
    "Judged",
    "Link",
    "Loss",
    "Lost",
    "Program",
    "RateSample",
    "Records",
    "Replayed",
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
    "When",
    "__version__",
    "conform",
    "controller",
    "evaluate",
    "replay",
    "run",
    "send",
    "shipped",
    "sweep",
]
