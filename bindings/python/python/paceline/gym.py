"""Gymnasium environments over scenarios: ``paceline/CongestionControl-v0``.

>>> import gymnasium, paceline.gym
>>> envs = gymnasium.make_vec("paceline/CongestionControl-v0", num_envs=16, scenario="scenarios/cellular.toml")

An environment steers the one flow of a scenario that is the contestant's own. A step lasts one smoothed RTT (``step="rtt"``) or a
fixed span (``step="50ms"``). An action is a number from -1 to 1 (one outside counts as the nearest of these): the window (or with
``action="rate"`` the pacing rate) is multiplied by 2 to the power of it, and stays between one packet and 65536. An observation is what a
controller may see, ``OBSERVATION``; ``info`` has what only the world knows besides, ``FIGURES``; ``MEANING`` says what each is, with
its unit. An episode is one run of the scenario: it is terminated where the flow has an end and comes to it, and truncated when the
scenario's time is over. A seed determines all episodes after it; environments without a seed draw one.

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

__all__ = ["CongestionControl", "CongestionControlVector", "FIGURES", "MEANING", "OBSERVATION", "register_policy"]

OBSERVATION: tuple[str, ...] = tuple(name for name, *_ in _paceline.OBSERVATION)
"""What is observed, in its order."""
FIGURES: tuple[str, ...] = tuple(name for name, _ in _paceline.FIGURES)
"""The keys of ``info``."""
MEANING: dict[str, dict[str, str]] = {
    "observation": {name: meaning for name, _, _, meaning in _paceline.OBSERVATION},
    "info": dict(_paceline.FIGURES),
}
"""What each is, with its unit."""

Scenario = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ends = NDArray[np.bool_]
Reward = Callable[[dict[str, Any]], Any]

#: 12 Mbit/s, 40 ms, a queue of one and a half BDP: where no scenario is given (our choice).
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
        observations, _, _, _, info = self.arrays(self.inner.reset(list(seeds)))
        return observations, info

    def step(self, actions: Any) -> tuple[Floats, Doubles, Ends, Ends, dict[str, Doubles]]:
        try:
            given = np.ravel(np.asarray(actions)).astype("<f4", casting="same_kind", copy=False)
        except (TypeError, ValueError):
            given = np.empty(0, "<f4")
        if given.size != self.count or not np.isfinite(given).all():
            count = "one number" if self.count == 1 else f"{self.count} numbers"
            raise ValueError(f"action: {actions!r} is not {count} from -1 to 1")
        return self.arrays(self.inner.step(given.tobytes()))

    def arrays(self, answer: _paceline.Stepped) -> tuple[Floats, Doubles, Ends, Ends, dict[str, Doubles]]:
        observations, rewards, ended, over, figures = answer
        table = np.frombuffer(figures, "<f8").reshape(self.count, len(FIGURES))
        return (
            np.frombuffer(observations, "<f4").reshape(self.count, len(OBSERVATION)),
            np.frombuffer(rewards, "<f8"),
            np.frombuffer(ended, np.bool_),
            np.frombuffer(over, np.bool_),
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
        self._seeded = False
        self.observation_space, self.action_space = _spaces()

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict[str, Any]] = None) -> tuple[Floats, dict[str, Any]]:
        """Begins an episode: the first observation, and what is known besides. The same seed gives the same episode."""
        super().reset(seed=seed)
        if seed is None and not self._seeded:
            # Environments without a seed differ from each other.
            seed = int(self.np_random.integers(2**31))
        self._seeded = True
        observations, info = self._batch.reset([seed])
        self._over = False
        return observations[0], _row(info)

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Applies an action for one step: observation, reward, terminated (the flow came to its end), truncated (the time is over), and
        what is known besides. Raises ValueError where the action is not a number."""
        if self._over:
            raise gymnasium.error.ResetNeeded("there is no episode, or it is over; call reset() first")
        observations, rewards, ended, over, info = self._batch.step(action)
        row = _row(info)
        self._over = bool(ended[0] or over[0])
        reward = rewards[0] if self._reward is None else self._reward(row)
        return observations[0], float(reward), bool(ended[0]), bool(over[0]), row


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
        self._seeded = False
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
        if not self._seeded and any(seed is None for seed in seeds):
            # Environments without a seed differ from each other.
            start = int(self.np_random.integers(2**31))
            seeds = [start + index if seed is None else seed for index, seed in enumerate(seeds)]
        self._seeded = True
        self._over = np.zeros(self.num_envs, np.bool_)
        return self._batch.reset(seeds)

    def step(self, actions: Floats) -> tuple[Floats, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """As :meth:`CongestionControl.step` for all environments at once: arrays with one entry for each."""
        if not self._seeded:
            raise gymnasium.error.ResetNeeded("there is no episode; call reset() first")
        observations, rewards, ended, over, info = self._batch.step(actions)
        if self._reward is not None:
            rewards = np.where(self._over, 0.0, self._reward(info))
        self._over = np.asarray(ended | over)
        return observations, rewards, ended, over, info


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
