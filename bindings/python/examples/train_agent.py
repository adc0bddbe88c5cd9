"""Trains a small agent and races it.

    python examples/train_agent.py                     # cross-entropy search, nothing but numpy: some minutes
    python examples/train_agent.py --iterations 3      # a taste
    python examples/train_agent.py --stable-baselines3 # PPO, with stable-baselines3 installed

The policy of the search is a linear function of the observation. A generation is tried in as many environments as it has
members, all over the same paths, drawn anew for each generation.
"""

from __future__ import annotations

import argparse
from typing import Any, Callable

import gymnasium
import numpy as np

import paceline
import paceline.gym

#: Every episode draws its path.
TRAINING = {
    "name": "training",
    "seconds": 10,
    "down": {"rate": "5 Mbit/s..50 Mbit/s", "delay": "10ms..40ms", "queue": "droptail:packets=150", "loss": "0.0..0.01"},
    "up": {"delay": "10ms"},
}
#: And one that it has not seen.
RACE = paceline.Scenario(
    "race",
    seconds=30,
    runs=5,
    down={"rate": "20 Mbit/s", "delay": "25ms", "queue": "droptail:packets=150", "loss": 0.002},
    up={"delay": "25ms"},
)
STEPS, MEMBERS, BEST, AGENT = 200, 32, 8, "agent-example"
Policy = Callable[[Any], Any]


def search(iterations: int, seed: int) -> Policy:
    """Cross-entropy method (de Boer and others, 2005): sample around a mean, keep the best, move there."""
    random = np.random.default_rng(seed)
    envs = gymnasium.make_vec("paceline/CongestionControl-v0", num_envs=MEMBERS, scenario=TRAINING)
    size = len(paceline.gym.OBSERVATION) + 1
    mean, spread = np.zeros(size), np.full(size, 0.5)
    for iteration in range(iterations):
        members = mean + spread * random.standard_normal((MEMBERS, size))
        seen, _ = envs.reset(seed=[seed + iteration] * MEMBERS)
        total = np.zeros(MEMBERS)
        for _ in range(STEPS):
            actions = np.tanh((members[:, :-1] * seen).sum(axis=1) + members[:, -1])
            seen, rewards, _, _, _ = envs.step(actions[:, None].astype(np.float32))
            total += rewards
        best = members[np.argsort(total)[-BEST:]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.02
        print(f"{iteration + 1:3}: reward of a step {total.mean() / STEPS:7.3f}, best {total.max() / STEPS:7.3f}")
    print("weights:", dict(zip((*paceline.gym.OBSERVATION, "bias"), mean.round(3).tolist())))
    return lambda seen: np.tanh(mean[:-1] @ seen + mean[-1])


def ppo(iterations: int, seed: int) -> Policy:
    """By stable-baselines3."""
    from stable_baselines3 import PPO  # type: ignore[import-not-found]

    model = PPO("MlpPolicy", gymnasium.make("paceline/CongestionControl-v0", scenario=TRAINING), seed=seed, verbose=1)
    model.learn(total_timesteps=iterations * STEPS * MEMBERS)
    return lambda seen: model.predict(seen, deterministic=True)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a small agent and races it.")
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stable-baselines3", action="store_true")
    options = parser.parse_args()
    train = ppo if options.stable_baselines3 else search
    paceline.gym.register_policy(AGENT, train(options.iterations, options.seed))
    records = paceline.run(RACE, [f"{AGENT}@udp", "copa@udp", "cubic@tcp", "bbr@tcp"])
    print(f"{'contestant':24} {'Mbit/s':>8} {'p95 delay, ms':>14}")
    names = records["contestant"]
    for name in dict.fromkeys(names):
        rows = [row for row, other in enumerate(names) if other == name]
        medians = [np.median([records[column][row] for row in rows]) for column in ("throughput_mbps", "delay_ms_p95")]
        print(f"{name:24} {medians[0]:8.2f} {medians[1]:14.1f}")


if __name__ == "__main__":
    main()
