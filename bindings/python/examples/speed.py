"""What the package costs: a controller in Python, the environment, and runs beside the command.

    python examples/speed.py [PATH OF THE COMMAND]
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import time
from typing import Any

import gymnasium
import numpy as np

import paceline
import paceline.gym

SCENARIO = pathlib.Path(__file__).parents[3] / "scenarios" / "dumbbell.toml"


@paceline.controller("speed-example")
class Reno(paceline.Controller):
    """Congestion avoidance."""

    acks = 0

    def __init__(self, env: paceline.Env) -> None:
        self.mss, self.window = env.mss, 100.0 * env.mss

    def on_ack(self, ack: paceline.Ack) -> None:
        Reno.acks += 1
        self.window += self.mss * ack.bytes / self.window

    def on_loss(self, loss: paceline.Loss) -> None:
        if loss.new_episode:
            self.window /= 2


def cpu(call: Any) -> float:
    """CPU time of this process, which other programs do not change much."""
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    spent = cpu(lambda: paceline.run(SCENARIO, ["speed-example@udp"], runs=1, seconds=30, threads=1))
    print(f"a controller in Python: {Reno.acks / spent:10.0f} acks a CPU second")
    for scenario, name in [(None, "12 Mbit/s, 40 ms"), (paceline.Scenario("s", down={"rate": "4 Mbit/s", "delay": "10ms"}), "4 Mbit/s, 20 ms")]:
        envs = gymnasium.make_vec("paceline/CongestionControl-v0", num_envs=16, scenario=scenario)
        envs.reset(seed=1)
        random = np.random.default_rng(1)
        actions = random.uniform(-0.5, 0.5, (1000, 16, 1)).astype(np.float32)

        def steps() -> None:
            for action in actions:
                envs.step(action)

        print(f"16 environments, {name}: {16_000 / cpu(steps):10.0f} steps a CPU second")
    if len(sys.argv) > 1:
        options = ["--runs", "4", "--seconds", "60", "--threads", "1"]
        ours, command = [], []
        for _ in range(3):
            start = time.monotonic()
            paceline.run(SCENARIO, runs=4, seconds=60, threads=1)
            ours.append(time.monotonic() - start)
            start = time.monotonic()
            subprocess.run([sys.argv[1], "race", SCENARIO, *options], check=True, stdout=subprocess.DEVNULL)
            command.append(time.monotonic() - start)
        print(f"4 runs: paceline.run {min(ours):.3f} s, the command {min(command):.3f} s: {min(ours) / min(command) - 1:+.1%}")


if __name__ == "__main__":
    main()
