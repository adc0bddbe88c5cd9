"""What several tests run."""

from __future__ import annotations

import signal

import paceline
import pytest

# Tests interrupt runs by it; where pytest is in the background of a script, it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def short() -> paceline.Scenario:
    """Two seconds over 12 Mbit/s and 40 ms."""
    return paceline.Scenario(
        "short",
        seconds=2,
        runs=1,
        contestants=["cubic@tcp"],
        down={"rate": "12 Mbit/s", "delay": "20ms", "queue": "droptail:packets=60"},
        up={"delay": "20ms"},
    )
