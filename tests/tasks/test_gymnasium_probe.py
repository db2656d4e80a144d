"""Tests what is found out about an environment of Gymnasium before anything is learned in it: its
faults, each in one line, whether it reports success, and that the advice of those lines works.
"""

from __future__ import annotations

import os
import re
import statistics

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from epg_tf.baselines.off_policy import has_bounds
from epg_tf.baselines.rl2 import rl2_family
from epg_tf.core.errors import ConfigError, RenderError
from epg_tf.core.types import LifeKey
from epg_tf.metagenrl.agents import check_continuous
from epg_tf.reports.life_pictures import LifeRecorder, film_frames, make_camera
from epg_tf.tasks.episodes import play_episodes
from epg_tf.tasks.gymnasium_environment import TaskEnv
from epg_tf.tasks.registry import (
    is_importable,
    make_family,
    named_environment,
    simulate,
    usual_limit,
)
from epg_tf.tasks.settings import TaskConfig
from epg_tf.tasks.tf_agents_environment import TaskEnvironment
from epg_tf.tasks.trials import TrialEnvironment, trial_specs

ENV_ID = "epg_tf_tests/Walk-v0"
NAMED = f"config.task.family='gymnasium:{ENV_ID}'"


class Walk(gymnasium.Env):
    """x moves by the action from a random start; the reward is -|x|."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, scale=1.0, name="", render_mode=None):
        self.scale, self.name, self.render_mode = scale, name, render_mode
        self.x = 0.0

    def observe(self):
        return np.array([self.x, self.scale], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-3.0, 3.0)
        return self.observe(), {}

    def step(self, action):
        self.x += 0.3 * float(np.ravel(action)[0])
        return self.observe(), -abs(self.x), False, False, {}

    def render(self):
        return np.full((20, 40, 3), 100.0 + 20.0 * self.x).astype(np.uint8)


def walk(**changes):
    """Returns a subclass of `Walk` with other attributes."""
    return type("Changed", (Walk,), changes)


def step_with(change):
    """Returns a subclass whose step returns `change` of Walk's five values."""
    return walk(step=lambda self, action: change(self, *Walk.step(self, action)))


@pytest.fixture
def made():
    """A function: class of an environment, keyword arguments in the id -> its family."""

    def register(kind=Walk, keywords=""):
        gymnasium.register(ENV_ID, kind, max_episode_steps=9)
        return make_family(TaskConfig(f"gymnasium:{ENV_ID}{keywords}", 1, 9))

    yield register
    gymnasium.registry.pop(ENV_ID, None)


pytestmark = pytest.mark.filterwarnings(
    "ignore:.*already in registry", "ignore:.*precision lowered"
)

FAULTS = {
    "success in words": (
        step_with(lambda self, o, r, te, tr, i: (o, r, te, tr, {"success": "no"})),
        r"its info has success='no'; report True or False",
    ),
    "beyond float32": (
        walk(
            observation_space=spaces.Box(-np.inf, np.inf, (2,), np.float64),
            observe=lambda self: np.array([1e-60, 1.0]),
        ),
        r"its reset\(\) returns an observation that float32 does not hold, \[1.*; use units .*",
    ),
    "no info": (
        walk(reset=lambda self, seed=None, options=None: Walk.reset(self, seed=seed)[0]),
        r"its reset\(\) does not return what Gymnasium expects; return two values, .*",
    ),
    "no seed": (
        walk(reset=lambda self: (self.observe(), {})),
        r"its reset\(\) takes no seed; write def reset\(self, \*, seed=None, options=None\), .*",
    ),
    "four values": (
        step_with(lambda self, o, r, te, tr, i: (o, r, te, i)),
        r"its step\(\) does not return what Gymnasium expects; return five values: .*",
    ),
    "shape": (
        walk(observe=lambda self: np.zeros(3, np.float32)),
        r"its reset\(\) returns an observation of shape \(3,\), but its observation_space has "
        r"\(2,\); make them equal",
    ),
    "type": (
        walk(observation_space=spaces.Box(-9, 9, (2,), np.int64)),
        r"its reset\(\) returns an observation of float32, which does not fit its "
        r"observation_space of int64; make them equal",
    ),
    "observation": (
        walk(observe=lambda self: np.array([np.nan, 0.0], np.float32)),
        r"its reset\(\) returns an observation that is not finite; return finite numbers",
    ),
    "array reward": (
        step_with(lambda self, o, r, te, tr, i: (o, np.array([0.5]), te, tr, i)),
        r"its step\(\) returns the reward array\(\[0\.5\]\), which is an array of shape \(1,\); "
        r"return one number, e\.g\. float\(reward\)",
    ),
    "no reward": (
        step_with(lambda self, o, r, te, tr, i: (o, None, te, tr, i)),
        r"its step\(\) returns the reward None, which is no number; return one number, .*",
    ),
    "flag": (
        step_with(lambda self, o, r, te, tr, i: (o, r, None, tr, i)),
        r"its step\(\) returns terminated=None; return True or False",
    ),
    "an error in the standard library": (
        step_with(lambda self, *values: statistics.mean([])),
        r"step raised StatisticsError at test_gymnasium_probe\.py:\d+ \(mean .*\); correct .*",
    ),
    "an error in a frozen module": (
        step_with(lambda self, *values: os.environ["EPG_TF_MISSING"]),
        r"step raised KeyError at test_gymnasium_probe\.py:\d+ \('EPG_TF_MISSING'\); correct .*",
    ),
    "global random numbers": (
        step_with(lambda self, o, r, te, tr, i: (o, r + np.random.normal(), te, tr, i)),
        r"two episodes from the same seed and with the same actions differ; let the environment "
        r"draw all random numbers from self\.np_random, .*",
    ),
    "a state that stays": (
        walk(reset=lambda self, *, seed=None, options=None: (self.observe(), {})),
        r"two episodes from the same seed .* differ; .* let reset\(\) set all of its state",
    ),
    "equal bounds": (
        walk(action_space=spaces.Box(np.float32([-1.0, 2.0]), np.float32([1.0, 2.0]))),
        r"component 1 of its actions is within 2 and 2, which leaves no choice; widen the bounds, "
        r"or leave that component out",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_in_one_line_when_the_family_is_made(made, fault):
    kind, line = FAULTS[fault]
    with pytest.raises(ConfigError) as caught:
        made(kind)
    assert re.fullmatch(rf"{re.escape(NAMED)}: {line}", str(caught.value)), str(caught.value)


def goal_reached(self):
    return abs(self.x) < 0.5


def generators():
    return [np.random.default_rng(number) for number in (2, 4, 6)]


@pytest.mark.parametrize(
    ("key", "kind"), [("is_success", bool), ("success", float), ("success", np.array)]
)
def test_success_is_what_the_environment_reports(made, key, kind):
    """Of every step; by agents that push to the right, in rows stepped together and one by one."""
    reports = step_with(
        lambda self, o, r, te, tr, i: (o, r, te, tr, {key: kind(goal_reached(self))})
    )
    family = made(reports)
    assert family.goal_reaching
    right, found = np.ones((3, 1), np.float32), []
    for ids in (None, np.array([0, 1, 2])):
        simulation = simulate(family, 3)
        simulation.reset(np.arange(3), generators())
        results = [simulation.step(right, ids) for _ in range(9)]
        for result in results:
            np.testing.assert_array_equal(result.success, np.abs(result.observation[:, 0]) < 0.5)
        found.append(np.stack([result.success for result in results]))
    np.testing.assert_array_equal(*found)
    assert found[0].any() and not found[0].all()
    played = play_episodes(simulate(family, 3), lambda seen: right, generators(), 4)
    assert played.success_rate.min() >= 0.0 and 0.0 < played.success_rate.mean() < 1.0


def test_a_report_of_some_steps_is_false_in_the_others(made):
    family = made(
        step_with(
            lambda self, o, r, te, tr, i: (o, r, te, tr, {"success": True} if self.x > 0 else {})
        )
    )
    simulation = simulate(family, 4)
    family.goal_reaching = True
    starts = simulation.reset(np.arange(4), [np.random.default_rng(n) for n in range(4)])
    success = simulation.step(np.zeros((4, 1), np.float32)).success
    np.testing.assert_array_equal(success, starts[:, 0] > 0)
    assert set(success) == {True, False}


def test_observations_of_parts_are_flattened_as_gymnasium_does(made):
    parts = spaces.Dict(
        place=spaces.Box(-9, 9, (1,), np.float32),
        inner=spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))),
        kinds=spaces.MultiDiscrete([2, 3]),
    )

    def observe(self):
        kinds = np.array([1, 2])
        return {"place": np.array([self.x], np.float32), "inner": (1, [0, 1]), "kinds": kinds}

    family = made(walk(observation_space=parts, observe=observe))
    assert family.observation_size == 1 + 3 + 2 + 5
    assert re.fullmatch(
        r"gymnasium:\S+: observations Dict\(.*\) are flattened to 11 numbers, as "
        r"gymnasium\.spaces\.flatten does",
        *family.notices,
    )
    simulation = simulate(family, 2)
    first = simulation.reset(np.arange(2), [np.random.default_rng(n) for n in range(2)])
    for row in range(2):
        seen = observe(simulation.environment(row).unwrapped)
        np.testing.assert_array_equal(first[row], spaces.flatten(parts, seen).astype(np.float32))
    for ids in (None, np.arange(2)):
        assert simulation.step(np.zeros((2, 1)), ids).observation.shape == (2, 11)
    lake = make_family(TaskConfig("gymnasium:FrozenLake-v1", 1, 9))
    assert (lake.observation_size, lake.action_size) == (16, 4)


class Recording(Walk):
    """Keeps the newest action."""

    def step(self, action):
        self.given = action
        assert self.action_space.contains(action)
        return super().step(0.0)


def test_the_wrapper_that_is_advised_for_other_actions_works(made):
    space = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Box(-2, 2, (1,)))
    kind = type("Changed", (Recording,), {"action_space": space})
    with pytest.raises(ConfigError, match="only Box, Discrete, .* are supported") as caught:
        made(kind)
    advice = str(caught.value).partition("register a version of it with ")[2]
    family = made(lambda **k: eval(advice, {"gymnasium": gymnasium, "env": kind(**k)}))
    assert family.action_size == 3
    simulation = simulate(family, 1)
    simulation.reset(np.array([0]), [np.random.default_rng(0)])
    simulation.step(np.float32([[0.5, 1.0, -2.0]]))
    found = simulation.environment(0).unwrapped.given
    assert {name: value.tolist() for name, value in found.items()} == {"a": [0.5, 1.0], "b": [-2.0]}


def test_the_wrapper_that_is_advised_for_unbounded_actions_works(made):
    kind = walk(action_space=spaces.Box(-np.inf, np.inf, (1,), np.float32))
    family = made(kind)
    assert not has_bounds(family)
    for check in (check_continuous, lambda family: rl2_family(TaskConfig(family.name, 1, 9))):
        with pytest.raises(
            ConfigError, match="finite bounds.*; register a version of it"
        ) as caught:
            check(family)
        advice = re.search(r"with (gymnasium\.wrappers\..*), with bounds", str(caught.value))[1]
    bounded = made(lambda **k: eval(advice, {"gymnasium": gymnasium, "env": kind(**k)}))
    assert has_bounds(bounded)
    check_continuous(bounded)


def test_an_environment_that_cannot_be_made_never_gives_an_empty_reason(made):
    def fails(**keywords):
        raise AssertionError

    with pytest.raises(ConfigError, match=r"cannot be made \(AssertionError at `raise Assert.*\)"):
        made(fails)


def test_an_environment_that_is_a_vector_alone_is_refused():
    gymnasium.register(ENV_ID, vector_entry_point="somewhere:Vector")
    with pytest.raises(ConfigError, match=r"vectors of environments alone.*entry_point, too$"):
        make_family(TaskConfig(f"gymnasium:{ENV_ID}", 1, 9))
    gymnasium.registry.pop(ENV_ID)


def test_keyword_arguments_follow_the_id(made):
    family = made(keywords='?scale=2.5&name="a\\u0026b"')
    assert family.name == f'gymnasium:{ENV_ID}?scale=2.5&name="a\\u0026b"'
    simulation = simulate(family, 1)
    first = simulation.reset(np.array([0]), [np.random.default_rng(0)])
    assert first[0, 1] == 2.5 and simulation.environment(0).unwrapped.name == "a&b"
    assert gymnasium.spec(ENV_ID).kwargs == {}
    assert usual_limit(family.name) == 9
    assert named_environment(f"{family.name}@5").episode_limit == 5
    ant = "gymnasium:Ant-v5?exclude_current_positions_from_observation=false"
    assert make_family(TaskConfig(ant, 1, 9)).observation_size == 107
    assert is_importable(ant) and not is_importable(family.name)


@pytest.mark.parametrize(
    ("keywords", "line"),
    [
        ("?", "'' after '?' is no keyword argument; write NAME=VALUE with VALUE in JSON"),
        ("?scale=__import__('os')", "after '?' is no keyword argument"),
        ("?scale=1&scale=2", "'scale=2' after '?' is no keyword argument"),
        ("?render_mode=null", "render_mode is chosen by what draws"),
        ("?size=1", "unexpected keyword argument 'size'"),
        ("?max_episode_steps=1", "unexpected keyword argument 'max_episode_steps'"),
    ],
)
def test_keyword_arguments_that_cannot_be_are_refused_in_one_line(made, keywords, line):
    with pytest.raises(ConfigError) as caught:
        made(keywords=keywords)
    message = str(caught.value)
    assert message.startswith("config.task.family=") and line in message and "\n" not in message


def test_choices_keep_the_environments_own_numbers(made):
    kind = type("Changed", (Recording,), {"action_space": spaces.Discrete(5, start=-2)})
    family = made(kind)
    assert (family.action_size, family.first_action) == (5, -2)
    environment = TaskEnv(family.name)
    environment.reset(seed=0)
    assert environment.action_space == spaces.Discrete(5, start=-2)
    given = []
    for action in range(-2, 3):
        environment.step(action)
        given.append(int(environment._simulation.environment(0).unwrapped.given))
    assert given == [-2, -1, 0, 1, 2]
    with pytest.raises(ValueError, match=r"^action=3 must be a whole number within -2 \.\. 2$"):
        environment.step(3)
    batched = TaskEnvironment(family, 2, 0)
    assert (batched.action_spec().minimum, batched.action_spec().maximum) == (-2, 2)
    batched.reset()
    batched.step(np.array([-2, 1]))
    with pytest.raises(ValueError, match=r"must be within -2 \.\. 2$"):
        batched.step(np.array([-3, 1]))
    trials = TrialEnvironment(family, 2, 5)
    _, taken = trial_specs(family)
    assert (taken.dtype.name, int(taken.minimum), int(taken.maximum)) == ("int32", 0, 4)
    trials.begin([LifeKey(0, "test", 0, number) for number in range(2)])
    seen = trials.step(np.array([0, 4])).observation
    np.testing.assert_array_equal(seen[:, 2:7], np.eye(5)[[0, 4]])
    for where, expected in ((batched, [-2, 1]), (trials, [-2, 2])):
        members = [where._simulation.environment(row).unwrapped for row in range(2)]
        assert [int(member.given) for member in members] == expected


def test_pictures_are_the_environments_own(made):
    """Those of a film are of the very states that the agent saw."""
    family = made()
    environment = TaskEnv(family.name, render_mode="rgb_array")
    assert environment.metadata["render_modes"] == ["rgb_array"]
    seen, _ = environment.reset(seed=1)
    picture = environment.render()
    assert picture.shape == (20, 40, 3) and (picture == int(100 + 20 * seen[0])).all()
    recorder, simulation, shown = LifeRecorder(18), simulate(family, 1), []

    def watch(simulation, result):
        shown.append(int(100 + 20 * simulation.environment(0).unwrapped.x))
        recorder(simulation, result)

    draws = np.random.default_rng(5)
    resets = [np.random.default_rng(3)]
    play_episodes(simulation, lambda seen: draws.uniform(-2, 2, (1, 1)), resets, 3, watch)
    camera = make_camera(family, LifeKey(0, "test", 0, 0), 10, 99)
    rows, labels = film_frames(recorder, camera, (3, 3))
    camera.close()
    assert [int(frame[0, 0, 0]) for row in rows for frame in row] == [
        shown[9 * episode + step] for episode in range(3) for step in (0, 4, 8)
    ]
    assert rows[0][0].shape == (10, 20, 3) and labels == [
        "after 0 of 18 env steps",
        "after 9 of 18 env steps",
        "final policy",
    ]


def test_what_draws_no_pictures_is_said_before_a_life(made):
    family = made(walk(metadata={"render_modes": ["human"]}))
    with pytest.raises(RenderError, match=r"has no pictures: its environment does not list 'rgb_"):
        make_camera(family, LifeKey(0, "test", 0, 0), 10, 20)
    with pytest.raises(ValueError, match=r"^render_mode='rgb_array' must be None or one of \[\]$"):
        TaskEnv(family.name, render_mode="rgb_array")
    family = made(walk(__init__=lambda self, scale=1.0: Walk.__init__(self, scale)))
    with pytest.raises(
        RenderError, match=r"^the environment cannot draw itself \(TypeError: .*\)$"
    ):
        make_camera(family, LifeKey(0, "test", 0, 0), 10, 20)
    family = made(walk(render=lambda self: None))
    with pytest.raises(RenderError, match=r"draws object of shape \(\); its render\(\) must"):
        make_camera(family, LifeKey(0, "test", 0, 0), 10, 20)


def test_an_environment_is_probed_once_as_long_as_it_stays_registered(made):
    resets = []

    def counted(kind):
        def reset(self, *, seed=None, options=None):
            resets.append(seed)
            return kind.reset(self, seed=seed)

        return type("Counted", (kind,), {"reset": reset})

    reports = step_with(lambda self, o, r, te, tr, i: (o, r, te, tr, {"success": True}))
    name = made(counted(reports)).name
    before = len(resets)
    assert before and named_environment(f"{name}@9").goal_reaching and len(resets) == before
    assert not made(counted(Walk)).goal_reaching and len(resets) == 2 * before
    with pytest.raises(ConfigError, match="takes no seed"):
        made(FAULTS["no seed"][0])
