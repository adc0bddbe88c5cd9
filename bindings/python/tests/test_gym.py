"""The environment: Gymnasium's own check, determinism, and what an action does."""

from __future__ import annotations

import pathlib

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


PATHS = {
    "name": "paths",
    "seconds": 3,
    "down": {"rate": "5 Mbit/s..50 Mbit/s", "delay": "10ms..40ms", "queue": "droptail:packets=150"},
    "up": {"delay": "10ms"},
}


def test_environments_without_a_seed_differ_and_those_with_one_do_not() -> None:
    still = np.zeros((4, 1), np.float32)
    for mode in ("sync", "vector_entry_point"):
        envs = gymnasium.make_vec(NAME, num_envs=4, vectorization_mode=mode, scenario=PATHS)
        envs.reset()
        assert len(set(envs.step(still)[4]["capacity_mbps"])) == 4, mode
        envs.reset(seed=7)
        first = envs.step(still)[4]["capacity_mbps"]
        envs.reset(seed=7)
        assert (envs.step(still)[4]["capacity_mbps"] == first).all()
    one, other = gymnasium.make(NAME, scenario=PATHS), gymnasium.make(NAME, scenario=PATHS)
    one.reset(), other.reset()
    assert one.step(still[0])[4]["capacity_mbps"] != other.step(still[0])[4]["capacity_mbps"]


@pytest.mark.parametrize("action", [np.array([np.nan], np.float32), None, np.array([np.inf]), [0.1, 0.2], np.zeros(0), [None], "a", {}, [1j]])
def test_what_is_not_an_action_is_refused(action: object) -> None:
    env = gymnasium.make(NAME).unwrapped
    env.reset(seed=1)
    with pytest.raises(ValueError, match="is not one number from -1 to 1"):
        env.step(action)
    # It goes on as if nothing had been.
    assert env.step(np.array([0.5], np.float32))[4]["window_packets"] == pytest.approx(10 * 2**0.5)
    envs = gymnasium.make_vec(NAME, num_envs=2)
    envs.reset(seed=1)
    with pytest.raises(ValueError, match="is not 2 numbers from -1 to 1"):
        envs.step(np.array([[0.0], [np.nan]]))


def test_a_step_before_the_first_episode_is_refused() -> None:
    for env in (gymnasium.make(NAME).unwrapped, gymnasium.make_vec(NAME, num_envs=2)):
        with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
            env.step(np.zeros((getattr(env, "num_envs", 1), 1), np.float32))


@pytest.mark.parametrize("via", ["quic", "foo", "quic/cubic"])
def test_a_datapath_that_the_simulator_lacks_is_an_exception(via: str) -> None:
    with pytest.raises(paceline.ScenarioError, match="give udp, tcp, alcc or icn") as caught:
        gymnasium.make(NAME, via=via)
    assert caught.value.key == "via"


@pytest.mark.parametrize(("via", "size"), [("udp", "100kB"), ("tcp", "30kB"), ("alcc", "200kB")])
def test_a_flow_with_an_end_terminates(via: str, size: str) -> None:
    env = gymnasium.make(NAME, via=via, set={"flows": [{"workload": {"bytes": size}}], "seconds": 20})
    for _ in range(2):
        env.reset(seed=1)
        ended = over = False
        while not (ended or over):
            _, _, ended, over, info = env.step(np.array([0.2], np.float32))
        assert ended and not over and 0.05 < info["time_s"] < 2
    envs = gymnasium.make_vec(NAME, num_envs=2, via=via, set={"flows": [{"workload": {"bytes": size}}], "seconds": 20})
    envs.reset(seed=1)
    ends = 0
    for _ in range(60):
        _, _, ended, over, info = envs.step(np.full((2, 1), 0.2, np.float32))
        assert not over.any()
        ends += int(ended.sum())
    assert ends >= 4


def test_every_number_has_a_meaning_that_the_guide_says() -> None:
    assert tuple(paceline.gym.MEANING["observation"]) == paceline.gym.OBSERVATION and len(paceline.gym.OBSERVATION) == 9
    assert tuple(paceline.gym.MEANING["info"]) == paceline.gym.FIGURES
    guide = (pathlib.Path(__file__).parents[3] / "docs" / "guide" / "python.md").read_text()
    for table in paceline.gym.MEANING.values():
        for name, meaning in table.items():
            assert f"- `{name}`: {meaning}\n" in guide
