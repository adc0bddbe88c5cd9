"""What a controller in Python costs over UDP in real time, beside the same controller in Rust: CPU of the sender's thread for
each packet, the highest rate over loopback, and a race over an emulated path of 100 Mbit/s (that part needs root, or `unshare -rn`).

    python examples/real_time.py [--seconds 5] [--rounds 3] [--race]
"""

from __future__ import annotations

import argparse
import pathlib

import paceline

SCENARIO = pathlib.Path(__file__).parents[3] / "scenarios" / "dumbbell.toml"
#: Both grow without limit over loopback, where nothing is lost: what is measured is how fast they can be called.
NAMES = ["reno", "real-time-example"]


@paceline.controller("real-time-example")
class Reno(paceline.Controller):
    """Slow start and congestion avoidance, as the `reno` of Rust has them (RFC 5681), without its other details."""

    def __init__(self, env: paceline.Env) -> None:
        self.mss, self.window, self.threshold = env.mss, 10.0 * env.mss, float("inf")

    def on_ack(self, ack: paceline.Ack) -> None:
        self.window += ack.bytes if self.window < self.threshold else self.mss * ack.bytes / self.window

    def on_loss(self, loss: paceline.Loss) -> None:
        if loss.new_episode:
            self.threshold = max(self.window / 2, 2 * self.mss)
            self.window = self.threshold


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--race", action="store_true")
    options = parser.parse_args()
    rates: dict[str, list[float]] = {name: [] for name in NAMES}
    costs: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(options.rounds):
        for name in NAMES:
            with paceline.Server() as server:
                sent = paceline.send(server.address, name, seconds=options.seconds)
            rates[name].append(sent.mbps)
            costs[name].append(sent.cpu_s / sent.packets_sent * 1e6)
    for name in NAMES:
        rounds = ", ".join(f"{rate:.0f}" for rate in rates[name])
        print(f"loopback, {name}: {min(costs[name]):.2f} us of CPU a packet, at most {max(rates[name]):.0f} Mbit/s (rounds: {rounds})")
    if options.race:
        contestants = [f"{name}@udp" for name in NAMES]
        records = paceline.run(SCENARIO, contestants, real=True, runs=options.rounds, seconds=options.seconds)
        for row, controller in enumerate(records["controller"]):
            cpu = records["cpu_s"][row] / options.seconds
            trusted = "" if records["trusted"][row] else ", not to be trusted"
            print(f"100 Mbit/s, {controller}: {records['throughput_mbps'][row]:.1f} Mbit/s, CPU of both ends {cpu:.3f} of a core{trusted}")


if __name__ == "__main__":
    main()
