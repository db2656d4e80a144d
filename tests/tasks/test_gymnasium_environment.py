"""Tests epg_tf.tasks.gymnasium_environment, over all of the registry and against simulations driven
by hand.
"""

from __future__ import annotations

import json
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import env_checker, seeding
from gymnasium.utils.passive_env_checker import env_render_passive_checker

import epg_tf
from epg_tf.core.errors import RenderError
from epg_tf.tasks import rendering
from epg_tf.tasks.gymnasium_environment import TaskEnv, register_environments
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.registry import FAMILIES
from tests.tasks.families import Compass, Wanderer

NOMINAL = {"mass": 1.0, "damping": 1.0, "gain": [1.0, 1.0]}  # of PointGoal
HEAVY = {"task": {"mass": 2.0, "gain": [0.5, 1.5]}}


@pytest.fixture
def extra(monkeypatch):
    """Lets two more families be found by name."""
    for family in (Wanderer, Compass):
        monkeypatch.setitem(FAMILIES, family.name, family)


@pytest.fixture
def drawable():
    """Skips, with the reason, where nothing can be drawn."""
    try:
        rendering.Camera(PointGoal(4, 25).model, 8, 8).close()
    except RenderError as error:
        pytest.skip(str(error))


def environment_ids() -> list[str]:
    return sorted(name for name in gymnasium.registry if name.startswith("epg_tf/"))


def test_a_vector_environment_has_the_numbers_of_single_ones():
    """Members have seeds one after another, and the options of a reset."""
    vector = gymnasium.make_vec("epg_tf/RandomHopper-v0", num_envs=3)
    seen, infos = vector.reset(seed=4)
    actions = vector.action_space.sample()
    after = vector.step(actions)[0]
    for member in range(3):
        single = TaskEnv("random_hopper")
        observation, info = single.reset(seed=4 + member)
        np.testing.assert_array_equal(seen[member], observation)
        assert infos["task"]["gravity"][member] == info["task"]["gravity"]
        np.testing.assert_array_equal(after[member], single.step(actions[member])[0])
    _, infos = vector.reset(seed=0, options={"task": {"gravity": -3.7}})
    assert infos["task"]["gravity"].tolist() == [-3.7] * 3


def test_every_family_is_registered():
    assert environment_ids() == sorted(
        f"epg_tf/{family.__name__}-v0" for family in FAMILIES.values()
    )
    for family in FAMILIES.values():
        spec = gymnasium.spec(f"epg_tf/{family.__name__}-v0")
        assert spec.kwargs == {"family": family.name} and isinstance(spec.entry_point, str)
        assert spec.max_episode_steps == family.default_episode_limit
    assert gymnasium.spec("epg_tf/RandomHopper-v0").max_episode_steps == 1000
    assert gymnasium.spec("epg_tf/PointGoal-v0").max_episode_steps == 25


def test_families_added_later_can_be_registered(extra):
    before = environment_ids()
    with warnings.catch_warnings(action="error"):  # Gymnasium warns of what is registered twice
        epg_tf.register_environments()
        register_environments()
    try:
        assert sorted({*environment_ids()} - {*before}) == [
            "epg_tf/Compass-v0",
            "epg_tf/Wanderer-v0",
        ]
        assert gymnasium.make("epg_tf/Compass-v0").action_space.n == 4
    finally:
        del gymnasium.registry["epg_tf/Compass-v0"], gymnasium.registry["epg_tf/Wanderer-v0"]


def test_the_module_prefix_registers_as_well(monkeypatch):
    for name in environment_ids():
        monkeypatch.delitem(gymnasium.registry, name)
    monkeypatch.delitem(sys.modules, "epg_tf")  # so that an import executes the package again
    with pytest.raises(gymnasium.error.Error):
        gymnasium.make("epg_tf/RandomHopper-v0")
    observation, _ = gymnasium.make("epg_tf:epg_tf/RandomHopper-v0").reset(seed=1)
    np.testing.assert_array_equal(observation, TaskEnv("random_hopper").reset(seed=1)[0])


@pytest.mark.parametrize("environment_id", environment_ids())
class TestEveryId:
    """What Gymnasium asks of an environment."""

    def test_passes_the_checker(self, environment_id):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            env_checker.check_env(gymnasium.make(environment_id).unwrapped, skip_render_check=True)
        unwanted = [
            str(warning.message)
            for warning in caught
            if "infinity" not in str(warning.message)
            and "symmetric and normalized" not in str(warning.message)
        ]
        assert not unwanted

    def test_info_has_the_task_in_plain_numbers(self, environment_id):
        environment = gymnasium.make(environment_id)
        task = environment.reset(seed=1)[1]["task"]
        quantities = FAMILIES[environment.spec.kwargs["family"]].quantities
        assert set(task) == {quantity.name for quantity in quantities}
        assert json.loads(json.dumps(task)) == task
        assert environment.step(environment.action_space.sample())[4]["task"] == task
        assert environment.reset(options={"task": task})[1]["task"] == task

    def test_lives_as_a_simulation_driven_by_hand_to_the_bit(self, environment_id):
        environment = gymnasium.make(environment_id, max_episode_steps=-1)
        name, generator = environment.spec.kwargs["family"], seeding.np_random(5)[0]
        family, only = FAMILIES[name](FAMILIES[name].default_frame_skip, 10**6), np.array([0])
        simulation = BodySimulation(family, 1)
        simulation.set_tasks([family.sample_task(generator)])
        seen = gymnasium.spaces.Box(-np.inf, np.inf, (family.observation_size,), np.float32)
        low, high = (bound.astype(np.float32) for bound in family.action_bounds)
        assert environment.observation_space == seen
        assert environment.action_space == gymnasium.spaces.Box(low, high, dtype=np.float32)
        over, episodes = True, 0
        environment.action_space.seed(6)
        for step in range(100):
            if over:
                observation, _ = environment.reset(seed=None if step else 5)
                np.testing.assert_array_equal(observation, simulation.reset(only, [generator])[0])
                episodes += 1
            action = environment.action_space.sample()
            observation, reward, over, truncated, _ = environment.step(action)
            result = simulation.step(action[None])
            np.testing.assert_array_equal(observation, result.observation[0])
            assert (reward, over, truncated) == (result.reward[0], result.terminated[0], False)
        assert episodes > 1 or name != "random_hopper"


@pytest.mark.parametrize("name", ["RandomHopper", "PointGoal"])
def test_pictures_per_second_are_steps_per_second(name):
    environment = gymnasium.make(f"epg_tf/{name}-v0", frame_skip=3).unwrapped
    seconds = 3 * environment._simulation.model(0).opt.timestep
    assert environment.metadata["render_fps"] == round(1 / seconds)


def test_one_is_drawn(drawable):
    """Further families are drawn in test_rendering.py."""
    environment = gymnasium.make(
        "epg_tf/PointGoal-v0", render_mode="rgb_array", height=40, width=60
    )
    environment.reset(seed=1)
    env_render_passive_checker(environment)
    first = environment.render()
    assert first.shape == (40, 60, 3) and first.dtype == np.uint8 and first.std() > 5
    for _ in range(5):
        environment.step(environment.action_space.sample())
    assert (environment.render() != first).any()
    environment.close()


def start(environment: gymnasium.Env, **choices) -> tuple[list[float], dict]:
    """Resets; returns observation and task."""
    observation, info = environment.reset(**choices)
    return observation.tolist(), info["task"]


class TestTasks:
    """Which task an episode is in."""

    def test_seeds_decide_body_and_start(self):
        one, other = TaskEnv("random_hopper"), TaskEnv("random_hopper")
        first = start(one, seed=3)
        assert start(other, seed=3) == first
        assert start(one) == start(other)  # and all that follows
        assert start(one, seed=3) == first
        observation, task = start(one, seed=4)
        assert observation != first[0] and task["mass"] != first[1]["mass"]

    def test_other_episodes_are_in_the_same_task_until_another_is_asked_for(self):
        environment = TaskEnv("point_goal")
        observation, task = start(environment, seed=1)
        for options in (None, {}):
            again, same = start(environment, options=options)
            assert same == task and again != observation
        _, other = start(environment, options={"task": "new"})
        assert other != task and start(environment)[1] == other
        assert 0.5 <= other["mass"] <= 2.0 and other["mass"] != 1.0

    def test_named_quantities_and_nominal_others(self):
        environment = TaskEnv("point_goal")
        assert start(environment, options=HEAVY)[1] == {**NOMINAL, "mass": 2.0, "gain": [0.5, 1.5]}
        assert start(environment)[1]["mass"] == 2.0
        assert start(environment, options={"task": {}})[1] == NOMINAL
        assert start(environment, seed=1, options={"task": {"gain": 2}})[1] == {
            **NOMINAL,
            "gain": [2.0, 2.0],
        }


class TestEpisodes:
    """How episodes end and follow each other."""

    def test_time_limits_are_gymnasiums(self):
        environment = gymnasium.make("epg_tf/PointGoal-v0")
        environment.reset(seed=1)
        ends = [environment.step(environment.action_space.sample())[2:4] for _ in range(25)]
        assert ends == [(False, False)] * 24 + [(False, True)]
        bare = gymnasium.make("epg_tf/PointGoal-v0", max_episode_steps=-1)
        bare.reset(seed=1)
        assert not any(bare.step(bare.action_space.sample())[3] for _ in range(100))

    def test_families_that_continue_go_on(self, extra):
        environment = gymnasium.wrappers.TimeLimit(TaskEnv("wanderer"), 5)
        observation, task = start(environment, seed=1)
        environment.unwrapped._simulation.state.qpos[:] = 0.0
        for _ in range(5):
            last, _, terminated, truncated, _ = environment.step(np.array([0.1, 0.1]))
        assert truncated and not terminated
        assert start(environment) == (last.tolist(), task)
        onwards = environment.step(np.array([0.1, 0.1]))[0]
        assert (np.abs(onwards[2:4] - last[2:4]) < 0.1).all() and onwards[0] - last[
            0
        ] == pytest.approx(last[2] - onwards[2], abs=1e-6)  # and towards the same goal
        assert start(environment, seed=1) == (observation, task)
        environment.step(np.array([0.1, 0.1]))
        assert start(environment, options={"task": task})[0] != last.tolist()

    def test_after_the_end_they_start_anew(self, extra):
        environment = TaskEnv("wanderer")
        environment.reset(seed=1)
        environment._simulation.state.qpos[:] = [0.95, 0.0]
        last, _, terminated, _, _ = environment.step(np.zeros(2))
        assert terminated
        following = environment.reset()[0]
        assert (following != last).all() or following[2] != last[2]
        assert start(environment)[0] == following.tolist()  # an episode without a step is not over

    def test_divergence_terminates(self, extra):
        environment = TaskEnv("wanderer")
        environment.reset(seed=1)
        assert environment.step(np.zeros(2))[4]["diverged"] is False
        environment._simulation.state.qpos[:] = [0.995, 0.0]
        observation, reward, terminated, truncated, info = environment.step(np.zeros(2))
        assert (reward, terminated, truncated, info["diverged"]) == (0.0, True, False, True)
        assert (observation == 0.0).all()
        assert np.isfinite(environment.reset()[0]).all()

    def test_info_has_success_where_there_is_a_goal(self):
        environment = TaskEnv("point_goal")
        environment.reset(seed=1)
        state = environment._simulation.state
        for offset, reached in ((0.0, True), (0.5, False)):
            state.qpos[:], state.goal[:] = 0.0, [offset, 0.0]
            assert environment.step(np.zeros(2))[4]["success"] is reached
        hopper = TaskEnv("hopper")
        hopper.reset()
        assert "success" not in hopper.step(np.zeros(3))[4]

    def test_discrete_actions(self, extra):
        environment = TaskEnv("compass")
        assert environment.action_space == gymnasium.spaces.Discrete(4)
        moved = []
        for choice in range(4):
            environment.reset(seed=1)
            environment._simulation.state.qpos[:] = 0.0
            moved.append(np.sign(environment.step(np.int64(choice))[0][2:4]).tolist())
        assert moved == [[1, 0], [-1, 0], [0, 1], [0, -1]]


@pytest.mark.parametrize(
    "options, line",
    [
        (
            {"task": {"weight": 1}},
            "task names 'weight'; point_goal has ['damping', 'gain', 'mass']",
        ),
        (
            {"task": {"gain": [1, 2, 3]}},
            "task['gain']=[1, 2, 3] must be 2 numbers, within 0.01 and 100 "
            "(times 10 N per unit of action)",
        ),
        (
            {"task": "old"},
            "options['task']='old' must be 'new' or a mapping from quantities to values",
        ),
        ({"tasks": {}}, "options names 'tasks'; the only option is 'task'"),
    ],
)
def test_unknown_options_are_refused_and_change_nothing(options, line):
    environment = TaskEnv("point_goal")
    first = start(environment, seed=1)
    with pytest.raises(ValueError) as caught:
        environment.reset(seed=2, options=options)
    assert str(caught.value) == line
    second = start(environment)
    assert start(environment, seed=1) == first and start(environment) == second


class TestRefusals:
    """One line that says what is wrong."""

    def test_stepping_before_a_start(self):
        with pytest.raises(gymnasium.error.ResetNeeded, match=r"^call reset\(\) before step\(\)$"):
            TaskEnv("point_goal").step(np.zeros(2))

    @pytest.mark.parametrize("action", [np.zeros((1, 2)), np.zeros(3), 0.0])
    def test_actions_of_another_shape(self, action):
        environment = TaskEnv("point_goal")
        environment.reset()
        with pytest.raises(ValueError, match=r"^action has shape \([13, 2]*\); it must be \(2,\)$"):
            environment.step(action)

    @pytest.mark.parametrize("action", [4, -1, 0.5])
    def test_choices_there_are_not(self, extra, action):
        environment = TaskEnv("compass")
        environment.reset()
        with pytest.raises(
            ValueError, match=rf"^action={action} must be a whole number within 0 .. 3$"
        ):
            environment.step(action)


class TestDrawing:
    """Pictures and windows."""

    def test_without_a_mode_nothing_is_drawn(self):
        environment = TaskEnv("point_goal")
        environment.reset()
        with pytest.warns(UserWarning, match='without render_mode="rgb_array"'):
            assert environment.render() is None

    def test_human_shows_every_step(self, monkeypatch):
        shown, closed = [], []

        class Window:
            """Replaces a window and records calls."""

            def __init__(self, model):
                self.model = model

            def show(self, pose):
                shown.append((self.model.body_mass[1], pose.qpos[0]))

            def close(self):
                closed.append(self.model.body_mass[1])

        monkeypatch.setattr(rendering, "check_display", lambda: None)
        monkeypatch.setattr(rendering, "Window", Window)
        environment = gymnasium.make("epg_tf/PointGoal-v0", render_mode="human")
        for mass in (1.0, 2.0):
            at = environment.reset(seed=1, options={"task": {"mass": mass}})[0][2]
            assert shown[-1] == (mass, pytest.approx(at))
            for _ in range(3):
                at = environment.step(np.ones(2, np.float32))[0][2]
                assert shown[-1] == (mass, pytest.approx(at))
        assert len(shown) == 8 and closed == [1.0]
        environment.close()
        assert closed == [1.0, 2.0]


def test_a_seed_means_the_same_for_good():
    """A change of these numbers needs a new version in the ids."""
    task = start(gymnasium.make("epg_tf/RandomHopper-v0"), seed=0)[1]
    np.testing.assert_allclose(
        task["mass"], [1.45544253, 0.90468007, 0.56146029, 0.52479145], rtol=1e-6
    )
    np.testing.assert_allclose(task["gravity"], -19.3954596, rtol=1e-6)
