"""Steps a CPU second of other environments, with random actions as in speed.py.

    python examples/peers.py --pcc CHECKOUT              # of PCC-RL, in an environment with numpy below 2 and gym
    python examples/peers.py --ns3 RL-TCP --gym MODULE   # ns3-gym's example, built, and its folder model/ns3gym
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import pathlib
import random
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

STEPS = 4000
PORT = 5600


def silent() -> Any:
    """What these packages print is left out."""
    return contextlib.redirect_stdout(io.StringIO())


def pcc(checkout: pathlib.Path, fixed: bool) -> tuple[float, float]:
    """Steps a CPU second and packets a step of PCC-RL's simulator: its default links, or 12 Mbit/s and 40 ms."""
    random.seed(1)
    sys.path[:0] = [str(checkout / "src" / "gym"), str(checkout / "src")]
    with silent():
        import network_sim  # type: ignore[import-not-found]

        env = network_sim.SimulatedNetworkEnv()
        if fixed:
            # Packets of 1500 bytes a second, seconds each way, the logarithm of packets.
            env.min_bw = env.max_bw = 1000
            env.min_lat = env.max_lat = 0.01
            env.min_queue = env.max_queue = math.log(50)
            env.min_loss = env.max_loss = 0
        env.reset()
        packets = 0
        start = time.process_time()
        for action in np.random.default_rng(1).uniform(-0.5, 0.5, (STEPS, 1)):
            done = env.step(action)[2]
            packets += env.senders[0].sent
            if done:
                env.reset()
    return STEPS / (time.process_time() - start), packets / STEPS


def ns3(program: pathlib.Path, module: pathlib.Path) -> tuple[float, float]:
    """Steps a CPU second of ns3-gym over 12 Mbit/s and 40 ms, a step every 40 ms, and the share of that time in ns-3."""
    sys.path[:0] = [str(module), str(module / "ns3gym")]
    from ns3gym import ns3env  # type: ignore[import-not-found]

    path = ["--bottleneck_bandwidth=12Mbps", "--access_bandwidth=100Mbps", "--access_delay=10ms", "--mtu=1500"]
    own = [f"--openGymPort={PORT}", "--simSeed=1", "--transport_prot=TcpRlTimeBased", "--envTimeStep=0.04", "--duration=400"]
    child = subprocess.Popen([str(program), *own, *path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        child.wait(timeout=1)
    except subprocess.TimeoutExpired:
        pass
    else:
        assert child.stderr
        sys.exit(f"{program} ended at once, with {child.returncode}: {child.stderr.read().strip()}")
    with silent():
        env = ns3env.Ns3Env(port=PORT, stepTime=0.04, startSim=False)
        rng = np.random.default_rng(1)
        seen = env.reset()
        start, steps, done = time.process_time(), 0, False
        while not done:
            # Its observation has the window and the segment in bytes; its action has the threshold and the window.
            window, segment = int(seen[5]), int(seen[6])
            wanted = max(window, 10 * segment) * (1 + rng.uniform(-0.5, 0.5))
            seen, _, done, _ = env.step([0, max(2 * segment, int(wanted))])
            steps += 1
    here = time.process_time() - start
    child.communicate(timeout=30)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    there = used.ru_utime + used.ru_stime
    return steps / (here + there), there / (here + there)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pcc", type=pathlib.Path, metavar="CHECKOUT")
    parser.add_argument("--ns3", type=pathlib.Path, metavar="RL-TCP")
    parser.add_argument("--gym", type=pathlib.Path, metavar="MODULE")
    args = parser.parse_args()
    if not args.pcc and not (args.ns3 and args.gym):
        parser.error("give --pcc, or --ns3 and --gym")
    if args.pcc:
        for name, fixed in [("its default links", False), ("12 Mbit/s, 40 ms", True)]:
            print("PCC-RL, %s: %.0f steps a CPU second, %.0f packets a step" % (name, *pcc(args.pcc, fixed)))
    if args.ns3 and args.gym:
        rate, share = ns3(args.ns3, args.gym)
        print(f"ns3-gym, 12 Mbit/s, 40 ms: {rate:.0f} steps a CPU second, {100 * share:.0f} % of it in ns-3")


if __name__ == "__main__":
    main()
