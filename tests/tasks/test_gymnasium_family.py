"""Tests epg_tf.tasks.gymnasium_family against environments driven by hand, and on made-up ones that
misbehave.
"""

from __future__ import annotations

import dataclasses
import gc
import re
import sys
import time
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text

from configs import gymnasium_env
from epg_tf.core.errors import ConfigError
from epg_tf.tasks.base import Simulation
from epg_tf.tasks.registry import make_family, simulate
from epg_tf.tasks.settings import TaskConfig

# id: (O, A, whether actions are discrete, how the episodes below end)
KNOWN = {
    "Pendulum-v1": (3, 1, False, {"truncated"}),
    "HalfCheetah-v5": (17, 6, False, {"truncated"}),
    "LunarLanderContinuous-v3": (8, 2, False, {"terminated", "truncated"}),
    "CartPole-v1": (4, 2, True, {"terminated", "truncated"}),
    "LunarLander-v3": (8, 4, True, {"terminated", "truncated"}),
}
LIMITS = {"CartPole-v1": 20, "LunarLander-v3": 80, "LunarLanderContinuous-v3": 110}
STEPS = 200
SEEDS = [1, 2, 3]
FAKE = "epg_tf_tests/Fake-v0"


def make(env_id, limit=50, frame_skip=1, task_range="training"):
    return make_family(TaskConfig(f"gymnasium:{env_id}", frame_skip, limit, task_range))


def generators(seeds=SEEDS):
    return [np.random.default_rng(seed) for seed in seeds]


def begun(family, seeds=SEEDS) -> tuple[Simulation, list[np.random.Generator], np.ndarray]:
    """Returns a simulation whose first episodes have begun, its generators and the first
    observations.
    """
    simulation, resets = simulate(family, len(seeds)), generators(seeds)
    simulation.set_tasks([family.sample_task(generator) for generator in generators(seeds)])
    return simulation, resets, simulation.reset(np.arange(len(seeds)), resets)


def actions_of(family, steps, seeds=SEEDS):
    """Returns [steps, P, A]: one-hot rows, or normal numbers, some of them out of bounds."""
    draws = np.stack(
        [
            np.random.default_rng(seed + 100).standard_normal(
                (steps, family.action_size), np.float32
            )
            for seed in seeds
        ],
        axis=1,
    )
    if family.discrete_actions:
        return np.eye(family.action_size, dtype=np.float32)[draws.argmax(axis=2)]
    return draws


def rows_of(result, k):
    return [getattr(result, field.name)[k].tobytes() for field in dataclasses.fields(result)]


def driven(simulation, resets, actions, parts):
    """Steps `parts(t)` (lists of rows, or None for all) one after another; returns [t][row] results
    and new starts.
    """
    history = []
    for t, action in enumerate(actions):
        found = {}
        for ids in parts(t):
            rows = np.arange(len(action)) if ids is None else np.array(ids)
            result = simulation.step(action[rows], None if ids is None else rows)
            for k, row in enumerate(rows):
                found[row] = rows_of(result, k)
                if result.terminated[k] or result.truncated[k]:
                    found[row].append(simulation.next_episode(np.array([row]), resets).tobytes())
        history.append([found[row] for row in sorted(found)])
    return history


@pytest.mark.parametrize("env_id", KNOWN)
def test_equals_environments_driven_by_hand(env_id):
    """To the bit, with a fresh environment for each episode: none depends on neighbours, nor on
    what was before it.
    """
    limit = LIMITS.get(env_id, 50)
    family = make(env_id, limit)
    assert (family.observation_size, family.action_size, family.discrete_actions) == KNOWN[env_id][
        :3
    ]
    assert (
        family.name == f"gymnasium:{env_id}" and not family.continues and not family.goal_reaching
    )
    simulation, resets, first = begun(family)
    actions, seeds, ends = actions_of(family, STEPS), generators(), set()

    def start(row):
        env = gymnasium.make(env_id, max_episode_steps=limit)
        return env, env.reset(seed=int(seeds[row].integers(2**31)))[0].astype(np.float32)

    envs, starts = zip(*[start(row) for row in range(3)], strict=True)
    envs = list(envs)
    np.testing.assert_array_equal(first, starts)
    for action in actions:
        result = simulation.step(action)
        assert not result.diverged.any() and not result.success.any()
        for row, env in enumerate(envs):
            space = env.action_space
            given = (
                int(action[row].argmax())
                if family.discrete_actions
                else np.clip(action[row], space.low, space.high).astype(space.dtype)
            )
            observation, reward, terminated, truncated, _ = env.step(given)
            np.testing.assert_array_equal(result.observation[row], observation.astype(np.float32))
            assert result.reward[row] == np.float32(reward)
            assert (result.terminated[row], result.truncated[row]) == (
                terminated,
                truncated and not terminated,
            )
            if terminated or truncated:
                ends.add("terminated" if terminated else "truncated")
                env.close()
                envs[row], expected = start(row)
                np.testing.assert_array_equal(
                    simulation.next_episode(np.array([row]), resets)[0], expected
                )
    assert ends == KNOWN[env_id][3]
    assert result.observation.dtype == result.reward.dtype == np.float32


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_some_are_stepped_as_all_are(env_id):
    family = make(env_id, LIMITS.get(env_id, 50))
    actions = actions_of(family, 120)
    whole = driven(*begun(family)[:2], actions, lambda t: [None])
    split = driven(
        *begun(family)[:2],
        actions,
        lambda t: ([[0, 2], [1]], [[1], [0], [2]], [None], [[0, 1, 2]])[t % 4],
    )
    assert split == whole
    assert any(len(row) > 6 for rows in whole for row in rows), "no episode ended"
    alone = driven(*begun(family, SEEDS[1:2])[:2], actions[:, 1:2], lambda t: [None])
    assert [rows[0] for rows in alone] == [rows[1] for rows in whole]


@pytest.mark.parametrize("late", [0, 1])
def test_termination_wins_over_the_time_limit(late):
    push = np.array([[0.0, 1.0]], np.float32)
    simulation = begun(make("CartPole-v1", 500), [1])[0]
    ended = 1
    while not simulation.step(push).terminated[0]:
        ended += 1
    simulation = begun(make("CartPole-v1", ended - late), [1])[0]
    results = [simulation.step(push) for _ in range(ended - late)]
    assert not any(result.terminated[0] or result.truncated[0] for result in results[:-1])
    assert (results[-1].terminated[0], results[-1].truncated[0]) == (
        (False, True) if late else (True, False)
    )


def test_advancing_is_stepping():
    family = make("CartPole-v1", 20)
    (stepped, resets, _), (advanced, others, _) = begun(family), begun(family)
    for action in actions_of(family, 60):
        result, ended = stepped.step(action), advanced.advance(action)
        np.testing.assert_array_equal(ended, np.flatnonzero(result.terminated | result.truncated))
        if ended.size:
            np.testing.assert_array_equal(
                stepped.next_episode(ended, resets), advanced.next_episode(ended, others)
            )


@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLanderContinuous-v3"])
@pytest.mark.parametrize("ids", [None, [1]])
def test_what_is_no_number_stays_in_its_row_and_a_reset_heals(env_id, ids):
    family = make(env_id)
    actions = actions_of(family, 8)
    (healthy, _, first), (sick, _, _) = begun(family), begun(family)
    rows = np.arange(3) if ids is None else np.array(ids)
    for t, action in enumerate(actions[:4]):
        expected = healthy.step(action)
        if t == 2:
            action = action.copy()
            action[1, -1] = np.nan
            result, place = (
                sick.step(action[rows], None if ids is None else rows),
                list(rows).index(1),
            )
            assert not result.observation[place].any() and result.reward[place] == 0.0
            assert (result.diverged == (rows == 1)).all()
            assert result.terminated[place] and not result.truncated[place]
            assert [rows_of(result, k) for k, row in enumerate(rows) if row != 1] == [
                rows_of(expected, row) for row in rows if row != 1
            ]
            np.testing.assert_array_equal(sick.reset(np.array([1]), generators())[0], first[1])
        elif t < 2:
            sick.step(action)
    fresh = begun(family)[0]
    for action in actions[4:]:
        healed = sick.step(action)
        assert rows_of(healed, 1) == rows_of(fresh.step(action), 1)


class Fake(gymnasium.Env):
    """Observes how often it was stepped; fails at a step if its first action there is above 0.5."""

    made: list[Fake] = []

    def __init__(
        self, observation_space=None, action_space=None, trouble="", at_reset="", seconds=0.0
    ):
        self.observation_space = observation_space or Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = action_space or Box(-1.0, 1.0, (1,), np.float32)
        self.trouble, self.at_reset, self.seconds = trouble, at_reset, seconds
        self.given, self.closed, self.steps = [], False, 0
        Fake.made.append(self)

    def _observe(self, trouble):
        if trouble == "raises":
            raise ZeroDivisionError("over\nthe edge")
        fill = {"nan": np.nan, "huge": 1e300}.get(trouble, self.steps)
        return np.full(self.observation_space.shape, fill, self.observation_space.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        first = self.steps == 0 and not self.given
        self.steps = 0
        return self._observe("" if first else self.at_reset), {}

    def step(self, action):
        time.sleep(self.seconds)
        self.steps += 1
        self.given.append(action)
        trouble = self.trouble if np.ravel(action)[0] > 0.5 else ""
        reward = {"reward": np.inf, "huge reward": -1e300}.get(trouble, 1.0)
        return self._observe(trouble), reward, False, False, {}

    def close(self):
        self.closed = True


@pytest.fixture
def fake():
    """A function: keywords of `Fake` -> the family of a registered one, in trouble once it is made,
    and the environments of its making forgotten but for the first.
    """

    def register(trouble="", at_reset="", seconds=0.0, **keywords):
        gymnasium.register(FAKE, Fake, kwargs=keywords)
        family = make(FAKE)
        late = {"trouble": trouble, "at_reset": at_reset, "seconds": seconds}
        gymnasium.registry[FAKE].kwargs |= late
        del Fake.made[1:]
        return family

    Fake.made.clear()
    yield register
    gymnasium.registry.pop(FAKE, None)


@pytest.mark.parametrize("trouble", ["nan", "huge", "reward", "huge reward"])
def test_outputs_that_are_no_numbers_end_the_episode_of_their_row(fake, trouble):
    simulation = begun(fake(trouble=trouble))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = simulation.step(np.array([[0.0], [1.0], [0.0]], np.float32))
    assert result.diverged.tolist() == result.terminated.tolist() == [False, True, False]
    np.testing.assert_array_equal(result.observation, [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_array_equal(result.reward, [1.0, 0.0, 1.0])


def test_a_start_that_is_no_number_diverges_at_the_next_step(fake):
    simulation, resets, _ = begun(fake(at_reset="nan"))
    zeros = np.zeros((3, 1), np.float32)
    simulation.step(zeros)
    np.testing.assert_array_equal(simulation.reset(np.array([0, 2]), resets), np.zeros((2, 2)))
    result = simulation.step(zeros)
    assert result.diverged.tolist() == [True, False, True]
    assert [env.steps for env in Fake.made[1:]] == [0, 2, 0]
    for env in Fake.made:
        env.at_reset = ""
    simulation.reset(np.arange(3), resets)
    assert not simulation.step(zeros).diverged.any()


def test_no_environment_is_given_what_is_no_number(fake):
    family = fake(action_space=Box(-np.inf, np.inf, (1,), np.float32))
    result = begun(family)[0].step(np.array([[np.nan], [np.inf], [-7.0]], np.float32))
    assert result.diverged.tolist() == [True, True, False]
    assert [env.given for env in Fake.made[1:]] == [[], [], [[-7.0]]]


def test_an_environment_that_raises_is_named_in_one_line(fake):
    simulation, resets, _ = begun(fake(trouble="raises", at_reset="raises"))
    with pytest.raises(ConfigError) as caught:
        simulation.step(np.array([[0.0], [1.0], [0.0]], np.float32))
    assert re.fullmatch(
        rf"config\.task\.family='gymnasium:{FAKE}': step raised ZeroDivisionError at "
        r"test_gymnasium_family\.py:\d+ \(over the edge\); correct the environment, .*",
        str(caught.value),
    )
    with pytest.raises(ConfigError, match=r"reset raised ZeroDivisionError"):
        simulation.reset(np.array([1]), resets)


def test_observations_of_any_type_become_float32(fake):
    family = fake(observation_space=Box(0, 255, (6,), np.uint8))
    assert family.observation_size == 6
    simulation, _, first = begun(family)
    np.testing.assert_array_equal(first, np.zeros((3, 6)))
    result = simulation.step(np.zeros((3, 1), np.float32))
    assert result.observation.dtype == np.float32
    np.testing.assert_array_equal(result.observation, np.ones((3, 6)))


def test_actions_in_a_box_come_clipped_in_its_shape_and_type(fake):
    low = np.array([[-1.0, -2.0], [-3.0, -np.inf]])
    family = fake(action_space=Box(low, -low, (2, 2), np.float64))
    assert family.action_size == 4
    np.testing.assert_array_equal(family.action_bounds, [low.ravel(), -low.ravel()])
    begun(family, [1])[0].step(np.array([[-np.inf, 1.5, 9.0, 1e9]], np.float32))
    given = Fake.made[1].given[0]
    assert given.dtype == np.float64
    np.testing.assert_array_equal(given, [[-1.0, 1.5], [3.0, 1e9]])


def test_whole_numbers_are_rounded_to(fake):
    simulation = begun(fake(action_space=Box(-2, 2, (3,), np.int8)), [1])[0]
    simulation.step(np.array([[-0.6, 1.4, 7.0]], np.float32))
    assert Fake.made[1].given[0].dtype == np.int8 and Fake.made[1].given[0].tolist() == [-1, 1, 2]


@pytest.mark.parametrize(
    "keywords, named",
    [
        ({"observation_space": Text(4)}, r"observations Text\(.*; Text cannot be flattened: .*"),
        (
            {"observation_space": Box(0, 255, (96, 96, 3), np.uint8)},
            r"observations Box\(0, 255, \(96, 96, 3\), uint8\), of 3 axes as pictures have; "
            r"register .* a wrapper that reduces .*, or with gymnasium.wrappers.FlattenObservation",
        ),
        ({"observation_space": Box(0, 1, (4097,))}, r"observations .* of 4097 numbers; register"),
        ({"action_space": Discrete(1)}, r"actions Discrete\(1\), of which there is only one"),
        ({"action_space": Box(-1, 1, (0,))}, r"no actions, so an agent cannot learn; give"),
        (
            {"action_space": MultiDiscrete([1, 1])},
            r"actions MultiDiscrete\(\[1 1\]\), of which there is only one",
        ),
        (
            {"action_space": Dict({"a": Discrete(2)})},
            r"actions Dict\('a': Discrete\(2\)\); only Box, Discrete, MultiDiscrete and Multi",
        ),
    ],
)
def test_other_spaces_are_refused(fake, keywords, named):
    with pytest.raises(
        ConfigError, match=rf"^config\.task\.family='gymnasium:{FAKE}' has {named}[^\n]*$"
    ):
        fake(**keywords)
    assert [env.closed for env in Fake.made] == [True]


@pytest.mark.parametrize(
    "env_id, named",
    [
        (
            "Pendulun-v1",
            r"is unknown \(.*Did you mean: `Pendulum`\?\); name an environment with its version",
        ),
        (
            "HalfCheetah-v3",
            r"cannot be made \(.*mujoco.*\); install",
        ),  # what it says depends on what was imported before
    ],
)
def test_what_gymnasium_does_not_offer_is_refused_in_one_line(env_id, named):
    with warnings.catch_warnings(), pytest.raises(ConfigError) as caught:
        warnings.simplefilter("error")
        make(env_id)
    assert re.match(rf"config\.task\.family='gymnasium:{env_id}' {named}", str(caught.value))
    assert "\n" not in str(caught.value)


def test_a_missing_box2d_names_our_extra(monkeypatch):
    for module in [name for name in sys.modules if name.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    with pytest.raises(
        ConfigError,
        match=r"'gymnasium:LunarLander-v3' cannot be made \(Box2D is not installed\); "
        r"install the extra that brings it: epg_tf\[lunar\]$",
    ):
        make("LunarLander-v3")


def test_nothing_is_imported_for_a_name(tmp_path, monkeypatch):
    (tmp_path / "strange_module.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ConfigError,
        match="'gymnasium:strange_module:Pendulum-v1' would import a module; import "
        "that module in your own code",
    ):
        make("strange_module:Pendulum-v1")
    with pytest.raises(SystemExit):
        gymnasium.make("strange_module:Pendulum-v1")


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(
        ConfigError, match=r"^config\.task\.frame_skip=2 does not fit .*set it to 1$"
    ):
        make("Pendulum-v1", frame_skip=2)
    with pytest.raises(
        ConfigError, match=r"config\.task\.range='out_of_distribution' needs a family"
    ):
        make("Pendulum-v1", task_range="out_of_distribution")
    assert make("Pendulum-v1", task_range="nominal").sample_task(generators()[0]) == {}
    with pytest.raises(ConfigError, match="or 'gymnasium:ID'"):
        make_family(TaskConfig("pendulum"))


def test_older_versions_are_used_in_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not begun(make("CartPole-v0"))[0].step(np.ones((3, 2), np.float32)).diverged.any()


def test_environments_are_closed_with_their_simulation(fake):
    simulation = begun(fake())[0]
    assert [env.closed for env in Fake.made] == [True, False, False, False]
    del simulation
    gc.collect()
    assert all(env.closed for env in Fake.made)


def test_time_in_the_environments_is_not_the_familys(fake):
    simulation = begun(fake(seconds=0.02))[0]
    for _ in range(5):
        simulation.step(np.zeros((3, 1), np.float32))
    assert 0.0 < simulation.family_seconds < 0.15  # of more than 0.3 s


def test_the_config_limits_what_the_registry_does_not(fake):
    fake()
    assert gymnasium_env.get_config(FAKE).task.episode_limit == 1000
