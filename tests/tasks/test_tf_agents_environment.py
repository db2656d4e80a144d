"""Tests epg_tf.tasks.tf_agents_environment, over all of the registry and against simulations driven
by hand.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from tf_agents.environments.utils import validate_py_environment
from tf_agents.specs.array_spec import BoundedArraySpec

from epg_tf.core.errors import ConfigError
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.tasks.hopper import RandomHopper
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.reacher import RandomReacher
from epg_tf.tasks.registry import FAMILIES, make_family
from epg_tf.tasks.settings import TaskConfig
from epg_tf.tasks.tf_agents_environment import TaskEnvironment, load_environment
from tests.tasks.families import Wanderer

FIRST, MID, LAST = 0, 1, 2


def actions_of(environment: TaskEnvironment, steps: int) -> np.ndarray:
    """Returns random actions [steps, P, A], beyond the bounds now and then."""
    shape = (steps, environment.batch_size, *environment.action_spec().shape)
    return np.random.default_rng(5).uniform(-1.2, 1.2, shape).astype(np.float32)


def trajectory(environment: TaskEnvironment, actions: np.ndarray) -> dict[str, np.ndarray]:
    """Returns every field of the time steps from `reset` on, [1 + steps, P, ...]."""
    steps = [environment.reset(), *(environment.step(action) for action in actions)]
    return {name: np.stack([getattr(step, name) for step in steps]) for name in steps[0]._fields}


def assert_same(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name], name)


@pytest.mark.parametrize(("identifier", "population"), [("CartPole-v1", 1), ("Pendulum-v1", 3)])
def test_gymnasiums_environments_fit_their_specs(identifier, population):
    environment = TaskEnvironment(
        make_family(TaskConfig(f"gymnasium:{identifier}", 1, 30)), population, seed=1
    )
    validate_py_environment(environment, episodes=4)


def test_environments_are_loaded_by_name_or_from_settings():
    named = load_environment("random_reacher@15", population=3, seed=4)
    config = TaskConfig("random_reacher", RandomReacher.default_frame_skip, 15)
    configured, other = (load_environment(config, 3, seed) for seed in (4, 5))
    assert (named.batch_size, named.action_spec().shape) == (3, (2,))
    starts = [environment.reset().observation.numpy() for environment in (named, configured, other)]
    assert (starts[0] == starts[1]).all() and (starts[0] != starts[2]).any()
    for name, message in (
        ("walker", "'walker' is not a task family"),
        ("point_goal@many", "the part after @ is .* not 'many'"),
        ("point_goal@", "the part after @ is .* not ''"),
    ):
        with pytest.raises(ConfigError, match=f"^environment '{name}': {message}"):
            load_environment(name)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_specs_say_sizes_bounds_and_names_and_time_steps_fit_them(name):
    family = FAMILIES[name](2, 15)
    environment = TaskEnvironment(family, 3, seed=1)
    assert environment.batched and environment.batch_size == 3
    infinity = np.finfo(np.float32).max  # TF-Agents'
    seen = (family.observation_size,), np.float32, -infinity, infinity, "observation"
    low, high = (bound.astype(np.float32) for bound in family.action_bounds)
    taken = (family.action_size,), np.float32, low, high, "action"
    found = environment.observation_spec(), environment.action_spec()
    for spec, wanted in zip(found, (seen, taken), strict=True):
        assert spec == BoundedArraySpec(*wanted) and spec.name == wanted[-1]
    validate_py_environment(environment, episodes=3)


def by_hand(family, population: int, seed: int, actions: np.ndarray) -> dict[str, np.ndarray]:
    """Drives a simulation of its own, one member at a time, as `TaskEnvironment` promises to."""
    members = []
    for member in range(population):
        key = LifeKey(seed, "environment", 0, member)
        start, only = [life_generator(key, "reset")], np.array([0])
        simulation = BodySimulation(family, 1)
        simulation.set_tasks([family.sample_task(life_generator(key, "task"))])
        rows, over = [(FIRST, 0.0, 1.0, simulation.reset(only, start)[0])], False
        for action in actions[:, member]:
            if over:
                rows.append((FIRST, 0.0, 1.0, simulation.next_episode(only, start)[0]))
                over = False
                continue
            result = simulation.step(action[None])
            over = bool(result.terminated[0] or result.truncated[0])
            rows.append(
                (
                    LAST if over else MID,
                    result.reward[0],
                    0.0 if result.terminated[0] else 1.0,
                    result.observation[0],
                )
            )
        members.append([np.stack(part) for part in zip(*rows, strict=True)])
    return {
        name: np.stack(part, axis=1)
        for name, part in zip(
            ("step_type", "reward", "discount", "observation"),
            zip(*members, strict=True),
            strict=True,
        )
    }


@pytest.mark.parametrize("family_class", [RandomHopper, PointGoal, Wanderer])
def test_members_live_as_by_hand_to_the_bit(family_class):
    environment = TaskEnvironment(family_class(4, 30), 3, seed=7)
    actions = actions_of(environment, 150)
    lived = trajectory(environment, actions)
    assert_same(lived, by_hand(family_class(4, 30), 3, 7, actions))
    assert (lived["step_type"] == LAST).sum() >= 9
    if family_class is RandomHopper:  # falls happen, at different times
        assert len(set((lived["step_type"] == LAST).argmax(axis=0))) > 1


def test_only_the_member_whose_episode_is_over_restarts():
    """One is moved to the end of its episode, one to a NaN reward; the third continues."""
    environment = TaskEnvironment(Wanderer(1, 100), 3, seed=1)
    environment.reset()
    environment._simulation.state.qpos[:] = [[0.95, 0.0], [0.995, 0.0], [0.0, 0.0]]
    ended = environment.step(np.zeros((3, 2), np.float32))
    assert ended.step_type.tolist() == [LAST, LAST, MID]
    assert ended.discount.tolist() == [0.0, 0.0, 1.0] and ended.reward.tolist() == [1.0, 0.0, 1.0]
    assert (ended.observation[1] == 0.0).all()
    following = environment.step(np.ones((3, 2), np.float32))
    assert following.step_type.tolist() == [FIRST, FIRST, MID]
    assert following.discount.tolist() == [1.0] * 3 and following.reward.tolist() == [0.0, 0.0, 1.0]
    assert (following.observation[:2, 4:] == 0.0).all() and (
        following.observation[2, 4:] > 0.0
    ).all()  # m/s


def test_seeds_decide_tasks_and_starts():
    environment = TaskEnvironment(PointGoal(2, 10), 2, seed=3)
    actions = actions_of(environment, 25)
    first, second = trajectory(environment, actions), trajectory(environment, actions)
    assert (
        (first["observation"][0] != second["observation"][0]).any(axis=-1).all()
    )  # other starts, the same tasks
    environment.seed(4)
    other = trajectory(environment, actions)
    assert (other["observation"][0] != first["observation"][0]).any(axis=-1).all()
    environment.seed(3)
    assert_same(trajectory(environment, actions), first)
    environment.seed(3)
    assert (
        environment.step(actions[0]).is_first().all()
    )  # no member continues an episode of the previous seed


def test_resetting_keeps_the_tasks():
    environment = TaskEnvironment(PointGoal(1, 10), 2, seed=3)
    pushes = []
    for _ in range(2):
        environment.reset()
        environment._simulation.state.qpos[:] = 0.0
        pushes.append(environment.step(np.ones((2, 2), np.float32)).observation[:, 4:])
    np.testing.assert_array_equal(*pushes)
    environment.seed(4)
    environment.reset()
    environment._simulation.state.qpos[:] = 0.0
    assert (environment.step(np.ones((2, 2), np.float32)).observation[:, 4:] != pushes[0]).all()


class TestRefusals:
    """One line that says what is wrong."""

    def test_actions_of_another_shape(self):
        environment = TaskEnvironment(PointGoal(2, 10), 3, seed=1)
        environment.reset()
        with pytest.raises(ValueError, match=r"^action has shape \(2,\); it must be \(3, 2\)$"):
            environment.step(np.zeros(2, np.float32))

    @pytest.mark.parametrize("low, high", [(-np.inf, 1.0), (-1.0, np.inf)])
    def test_unbounded_actions(self, low, high):
        family = PointGoal(2, 10)
        family.action_bounds = np.full(2, low), np.array([1.0, high])
        with pytest.raises(
            ValueError, match="^family 'point_goal' has unbounded actions; TF-Agents needs"
        ):
            TaskEnvironment(family, 2, seed=1)
