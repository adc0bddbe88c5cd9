"""Gymnasium environments over scenarios: ``paceline/CongestionControl-v0``.

>>> import gymnasium, paceline.gym
>>> envs = gymnasium.make_vec("paceline/CongestionControl-v0", num_envs=16, scenario="scenarios/cellular.toml")

An environment steers the one flow of a scenario that is the contestant's own. A step lasts one smoothed RTT (``step="rtt"``) or a
fixed span (``step="50ms"``). An action is a number from -1 to 1: the window (or with ``action="rate"`` the pacing rate) is multiplied
by 2 to the power of it. An observation is what a controller may see, ``OBSERVATION``; ``info`` has what only the world knows besides,
``FIGURES``. An episode is one run of the scenario; a seed determines all episodes after it.

The reward is the throughput over what the link could have carried in the step, less half of the queueing delay over the smallest
RTT, less ten times the share that was lost. Another one is a function of ``info``: ``reward=lambda info: ...``, on numbers, or on
arrays in a vector of environments.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from . import _paceline, _travel
from ._scenario import given, unpacked

__all__ = ["CongestionControl", "CongestionControlVector", "FIGURES", "OBSERVATION", "register_policy"]

OBSERVATION: tuple[str, ...] = tuple(name for name, _, _ in _paceline.OBSERVATION)
"""What is observed, in its order."""
FIGURES: tuple[str, ...] = tuple(_paceline.FIGURES)
"""The keys of ``info``."""

Scenario = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Reward = Callable[[dict[str, Any]], Any]

#: 12 Mbit/s, 40 ms, a queue of one and a half BDP: where nobody names a scenario (our choice).
DEFAULT: dict[str, Any] = {
    "name": "environment",
    "seconds": 30,
    "down": {"rate": "12 Mbit/s", "delay": "20ms", "queue": "droptail:packets=60"},
    "up": {"delay": "20ms"},
}


def _spaces() -> tuple[Any, Any]:
    low, high = (np.array([bounds[side] for bounds in _paceline.OBSERVATION], np.float32) for side in (1, 2))
    return gymnasium.spaces.Box(low, high, dtype=np.float32), gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)


class _Batch:
    """The compiled half, in arrays."""

    def __init__(
        self, scenario: Optional[Scenario], count: int, via: str, step: Union[str, float], action: str,
        set: Optional[Mapping[str, Any]],
    ) -> None:
        what, folder = unpacked(DEFAULT if scenario is None else scenario)
        self.inner = _paceline.Batch(what, folder, given(set=set), count, via, step, action)
        self.count = count

    def reset(self, seeds: Sequence[Optional[int]]) -> tuple[Floats, dict[str, Doubles]]:
        observations, _, _, info = self.arrays(self.inner.reset(list(seeds)))
        return observations, info

    def step(self, actions: Any) -> tuple[Floats, Doubles, NDArray[np.bool_], dict[str, Doubles]]:
        return self.arrays(self.inner.step(np.asarray(actions, "<f4").tobytes()))

    def arrays(
        self, answer: tuple[bytearray, bytearray, bytearray, bytearray]
    ) -> tuple[Floats, Doubles, NDArray[np.bool_], dict[str, Doubles]]:
        observations, rewards, ends, figures = answer
        table = np.frombuffer(figures, "<f8").reshape(self.count, len(FIGURES))
        return (
            np.frombuffer(observations, "<f4").reshape(self.count, len(OBSERVATION)),
            np.frombuffer(rewards, "<f8"),
            np.frombuffer(ends, np.bool_),
            {name: table[:, column] for column, name in enumerate(FIGURES)},
        )


class CongestionControl(gymnasium.Env[Floats, Floats]):
    """One environment; see the module."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        scenario: Optional[Scenario] = None,
        *,
        via: str = "udp",
        step: Union[str, float] = "rtt",
        action: str = "window",
        reward: Optional[Reward] = None,
        set: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self._batch = _Batch(scenario, 1, via, step, action, set)
        self._reward = reward
        self._over = True
        self.observation_space, self.action_space = _spaces()

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict[str, Any]] = None) -> tuple[Floats, dict[str, Any]]:
        """Begins an episode: the first observation, and what is known besides. The same seed gives the same episode."""
        super().reset(seed=seed)
        observations, info = self._batch.reset([seed])
        self._over = False
        return observations[0], _row(info)

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Applies an action for one step: observation, reward, terminated (never), truncated (the time is over), and what is known besides."""
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over; call reset() first")
        observations, rewards, ends, info = self._batch.step(np.ravel(action))
        row, self._over = _row(info), bool(ends[0])
        reward = rewards[0] if self._reward is None else self._reward(row)
        return observations[0], float(reward), False, self._over, row


class CongestionControlVector(VectorEnv[Floats, Floats, NDArray[Any]]):
    """Environments side by side, stepped in one call; one that is over begins its next episode in the step after."""

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        scenario: Optional[Scenario] = None,
        *,
        via: str = "udp",
        step: Union[str, float] = "rtt",
        action: str = "window",
        reward: Optional[Reward] = None,
        set: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.num_envs = num_envs
        self._batch = _Batch(scenario, num_envs, via, step, action, set)
        self._reward = reward
        self._over = np.zeros(num_envs, np.bool_)
        self._never = np.zeros(num_envs, np.bool_)
        self.single_observation_space, self.single_action_space = _spaces()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self,
        *,
        seed: Union[int, Sequence[Optional[int]], None] = None,
        options: Optional[dict[str, Any]] = None,
    ) -> tuple[Floats, dict[str, Any]]:
        """Begins an episode in each environment. One seed stands for the first of them; the others have those after it."""
        if seed is None or isinstance(seed, int):
            first = seed
            seeds: list[Optional[int]] = [None if first is None else first + index for index in range(self.num_envs)]
        else:
            seeds = list(seed)
        if seeds[0] is None and not self._over.any():
            # Environments that nobody seeded differ from each other all the same.
            start = int(self.np_random.integers(2**31))
            seeds = [start + index for index in range(self.num_envs)]
        return self._batch.reset(seeds)

    def step(self, actions: Floats) -> tuple[Floats, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """As :meth:`CongestionControl.step` for all environments at once: arrays with one entry for each."""
        observations, rewards, ends, info = self._batch.step(actions)
        if self._reward is not None:
            rewards = np.where(self._over, 0.0, self._reward(info))
        self._over = ends
        return observations, rewards, self._never.copy(), ends, info


def _row(info: dict[str, Doubles]) -> dict[str, Any]:
    return {name: float(column[0]) for name, column in info.items()}


def register_policy(
    name: str, policy: Callable[[Floats], Any], *, step: Union[str, float] = "rtt", action: str = "window"
) -> None:
    """Makes a policy a controller: ``"NAME@udp"`` is a contestant from now on, with the same machine as in the environment.

    ``policy`` takes an observation and answers an action; ``step`` and ``action`` are those that it was trained with.
    """

    _register_policy(name, policy, {"step": step, "action": action})


def _register_policy(name: str, policy: Callable[[Floats], Any], options: dict[str, Any]) -> None:
    def call(seen: list[float]) -> float:
        return float(np.ravel(policy(np.array(seen, np.float32)))[0])

    _paceline.register_policy(name, call, options["step"], options["action"])
    _travel.KNOWN[name] = _travel.Registered(_register_policy, policy, options)


gymnasium.register(
    "paceline/CongestionControl-v0",
    entry_point="paceline.gym:CongestionControl",
    vector_entry_point="paceline.gym:CongestionControlVector",
)
