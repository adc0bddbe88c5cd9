"""The environment: Gymnasium's own check, determinism, and what an action does."""

from __future__ import annotations

import paceline
import pytest

gymnasium = pytest.importorskip("gymnasium")
np = pytest.importorskip("numpy")

from gymnasium.utils.env_checker import check_env  # noqa: E402

import paceline.gym  # noqa: E402

NAME = "paceline/CongestionControl-v0"


@pytest.mark.parametrize("options", [{}, {"step": "50ms", "action": "rate"}, {"via": "tcp"}])
@pytest.mark.filterwarnings("error")
def test_gymnasium_has_nothing_to_object(options: dict[str, str]) -> None:
    check_env(gymnasium.make(NAME, **options).unwrapped, skip_render_check=True)


def episode(seed: int, action: float) -> list[tuple[float, ...]]:
    env = gymnasium.make(NAME, set={"seconds": 3, "down.loss": 0.01})
    observation, _ = env.reset(seed=seed)
    steps = [tuple(observation)]
    over = False
    while not over:
        observation, reward, ended, over, info = env.step(np.array([action], np.float32))
        assert env.observation_space.contains(observation) and not ended
        steps.append((*observation, reward, info["throughput_mbps"], info["window_packets"]))
    return steps


def test_a_seed_determines_an_episode() -> None:
    assert episode(5, 0.1) == episode(5, 0.1)
    assert episode(5, 0.1) != episode(6, 0.1)


def test_actions_are_factors_on_the_window() -> None:
    env = gymnasium.make(NAME)
    _, info = env.reset(seed=1)
    assert info["window_packets"] == pytest.approx(10)
    for action, packets in [(1.0, 20), (1.0, 40), (0.0, 40), (-1.0, 20)]:
        _, _, _, _, info = env.step(np.array([action], np.float32))
        assert info["window_packets"] == pytest.approx(packets)
    for _ in range(10):
        _, _, _, _, info = env.step(np.array([0.0], np.float32))
    # 20 packets of 1448 bytes and headers in 40 ms.
    assert info["throughput_mbps"] == pytest.approx(5.7, abs=0.3)


def test_a_vector_is_its_environments() -> None:
    few = gymnasium.make_vec(NAME, num_envs=3, set={"seconds": 1})
    observations, _ = few.reset(seed=4)
    one = gymnasium.make(NAME, set={"seconds": 1})
    alone, _ = one.reset(seed=5)
    assert (observations[1] == alone).all()
    rewards, resets = [], 0
    for step in range(60):
        observations, reward, ended, over, info = few.step(np.full((3, 1), 0.2, np.float32))
        rewards.append(reward[1])
        resets += int(over[1])
        assert few.observation_space.contains(observations) and info["throughput_mbps"].shape == (3,)
    assert resets >= 1
    for step in range(5):
        _, reward, _, _, _ = one.step(np.array([0.2], np.float32))
        assert reward == rewards[step]


def test_rewards_of_ones_own() -> None:
    env = gymnasium.make(NAME, reward=lambda info: -info["queue_ms"])
    env.reset(seed=1)
    _, reward, _, _, info = env.step(np.array([0.0], np.float32))
    assert reward == -info["queue_ms"]


def test_scenarios_that_cannot_be_steered() -> None:
    with pytest.raises(paceline.ScenarioError, match="flows: 2 flows are the contestant's own"):
        gymnasium.make(NAME, set={"flows": [{"count": 2}]})
    with pytest.raises(paceline.ScenarioError, match="down.rate: 'fast' is not a rate"):
        gymnasium.make(NAME, set={"down.rate": "fast"})
    with pytest.raises(ValueError, match="action: 'jump' is neither"):
        gymnasium.make(NAME, action="jump")


def test_a_policy_races(short: paceline.Scenario) -> None:
    paceline.gym.register_policy("test-policy", lambda seen: 1.0 if seen[0] < 0.2 else -1.0)
    records = paceline.run(short, ["test-policy@udp", "cubic@tcp"], seconds=10)
    assert records["utilization"][0] > 0.5 and records["queue_ms_p95"][0] < 100
    paceline.gym.register_policy("test-policy-nan", lambda seen: float("nan"))
    with pytest.raises(paceline.RunsFailed, match="its policy answered NaN"):
        paceline.run(short, ["test-policy-nan@udp"])
