"""Tests what every task family must have, over all of the registry."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.tasks.base import StepResult
from epg_tf.tasks.bodies import BodyFamily, State
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.quantities import Quantity, outside, ranges
from epg_tf.tasks.registry import FAMILIES, make_family
from epg_tf.tasks.settings import TaskConfig
from tests.tasks.families import shared_family

RANDOMISED = sorted(name for name, family in FAMILIES.items() if family.quantities)
PLAIN = {"hopper", "half_cheetah", "walker2d", "ant", "reacher"}  # families of one task


def arrays(state: State) -> tuple[np.ndarray, ...]:
    """Returns everything a state holds, in a fixed order."""
    return (state.qpos, state.qvel, state.goal, *state.task.values(), *state.sensed.values())


def support(quantity: Quantity, bounds: tuple[float, float]) -> set[float] | tuple[float, float]:
    return set(bounds) if quantity.either else bounds


def overlap(quantity: Quantity) -> bool:
    """Returns whether training and out-of-distribution values can coincide (but for a common
    bound).
    """
    one, other = support(quantity, quantity.training), support(quantity, quantity.shifted)
    if quantity.either:
        return bool(one & other)
    return max(one[0], other[0]) < min(one[1], other[1]) or one == other


def model_field(family: BodyFamily, name: str) -> np.ndarray:
    return np.asarray(
        getattr(family.model.opt, name[4:])
        if name.startswith("opt.")
        else getattr(family.model, name)
    )


def generators(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


def simulate(family: BodyFamily, seeds: list[int]) -> BodySimulation:
    """Returns simulations with tasks and first episodes drawn from `seeds`."""
    simulation = BodySimulation(family, len(seeds))
    simulation.set_tasks([family.sample_task(generator) for generator in generators(*seeds)])
    simulation.reset(np.arange(len(seeds)), generators(*(seed + 1000 for seed in seeds)))
    return simulation


def actions_of(family: BodyFamily, seeds: list[int], steps: int) -> np.ndarray:
    """Returns [steps, P, A] random actions, those of each simulation from its seed alone."""
    return np.stack(
        [
            np.random.default_rng(seed + 2000).uniform(-1, 1, (steps, family.action_size))
            for seed in seeds
        ],
        axis=1,
    ).astype(np.float32)


def trajectory(simulation: BodySimulation, actions: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns qpos, qvel, observation and reward after each step, [steps, P, ...]; episodes are
    never reset.
    """
    rows = []
    for action in actions:
        result = simulation.step(action)
        rows.append(
            (
                simulation.state.qpos.copy(),
                simulation.state.qvel.copy(),
                result.observation,
                result.reward,
            )
        )
    return tuple(np.stack(part) for part in zip(*rows, strict=True))


def assert_same(first: tuple[np.ndarray, ...], second: tuple[np.ndarray, ...]) -> None:
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


@functools.cache
def drawn_tasks(name: str, task_range: str, count: int = 2000) -> dict[str, np.ndarray]:
    """Returns [count, size] values by quantity, and checks names and shapes."""
    family = shared_family(name, task_range=task_range)
    tasks = [family.sample_task(generator) for generator in generators(*range(count))]
    for quantity in family.quantities:
        shape = (quantity.size,) if quantity.size else ()
        values = [task[quantity.name] for task in tasks]
        assert all(value.shape == shape and value.dtype == np.float64 for value in values)
    names = [quantity.name for quantity in family.quantities]
    assert all(list(task) == names for task in tasks)
    return {name: np.stack([task[name] for task in tasks]).reshape(count, -1) for name in names}


def test_the_registry_is_in_order():
    assert all(name == family.name for name, family in FAMILIES.items())
    assert set(FAMILIES) - set(RANDOMISED) <= PLAIN


@pytest.mark.parametrize("name", RANDOMISED)
class TestQuantities:
    """What the tasks of one family differ in."""

    def test_every_quantity_varies_and_stays_in_range(self, name):
        for task_range in ("training", "out_of_distribution"):
            drawn, varying = drawn_tasks(name, task_range), []
            for quantity in FAMILIES[name].quantities:
                low, high = quantity.training
                if task_range != "training" and quantity.shifted is not None:
                    low, high = quantity.shifted
                values, edge = drawn[quantity.name], 0.02 * (high - low)
                assert (values >= low).all() and (values <= high).all(), quantity
                assert (values.min(axis=0) <= low + edge).all() and (
                    values.max(axis=0) >= high - edge
                ).all(), quantity
                if quantity.either:
                    assert set(np.unique(values)) == {low, high}
                    share = (values == high).mean(axis=0)
                    assert low == high or (np.abs(share - 0.5) < 0.05).all(), quantity
                varying += [column for column in values.T if low < high]
            if task_range == "training" and FAMILIES[name].goal_size:
                varying = varying or [
                    np.random.default_rng(0).random(2000)
                ]  # what varies are the episodes' goals
            between = np.corrcoef(np.stack(varying)) - np.eye(len(varying))
            assert np.abs(between).max() < 0.1  # 4.5 deviations of 2000 independent draws

    def test_out_of_distribution_ranges_do_not_overlap_those_of_training(self, name):
        shifted = [
            quantity for quantity in FAMILIES[name].quantities if quantity.shifted is not None
        ]
        assert shifted and not any(map(overlap, shifted))

    def test_nominal_tasks_are_the_models_own_body(self, name):
        family = shared_family(name, task_range="nominal")
        for generator in generators(1, 2):
            task = family.sample_task(generator)
            for field, values in family.fields(task).items():
                np.testing.assert_array_equal(values, model_field(family, field), field)
            assert_same(tuple(task.values()), tuple(family.complete_task({}).values()))

    def test_different_tasks_are_different_worlds(self, name):
        """Every field varies, and equal starts and actions give other states, or other rewards."""
        family = shared_family(name, task_range="out_of_distribution")
        one, other = (family.sample_task(generator) for generator in generators(1, 2))
        for field in family.expanded:
            assert not np.array_equal(family.fields(one)[field], family.fields(other)[field]), field
        simulation = simulate(family, [1, 1])  # the same but for the task
        simulation.set_tasks([one, other])
        simulation.reset(np.arange(2), generators(5, 5))
        qpos, qvel, _, reward = trajectory(simulation, actions_of(family, [1, 1], 20))
        assert not np.array_equal(reward[:, 0], reward[:, 1])
        if family.expanded:
            assert not np.array_equal(qpos[-1, 0], qpos[-1, 1]) and not np.array_equal(
                qvel[-1, 0], qvel[-1, 1]
            )

    def test_a_named_range_replaces_that_of_training_alone(self, name):
        first, *others = FAMILIES[name].quantities
        low, high = first.training
        middle = low + 0.4 * (high - low), low + 0.6 * (high - low)
        asked = (high, high) if first.either else middle
        drawn = drawn_tasks(name, f"{first.name}={asked[0]}:{asked[1]}", 200)
        assert (drawn[first.name] >= asked[0]).all() and (drawn[first.name] <= asked[1]).all()
        for quantity in others:
            low, high = quantity.training
            assert (drawn[quantity.name] >= low).all() and (drawn[quantity.name] <= high).all()
            assert np.ptp(drawn[quantity.name]) >= 0.8 * (high - low)


@pytest.mark.parametrize(
    ("name", "task_range"),
    [
        *(
            ("random_hopper", text)
            for text in ("trainig", "mass=1", "mass=2:1", "mass=a:b", "mass=nan:1", "wings=0:1", "")
        ),
        *(("random_hopper", text) for text in ("mass=0.5:1,", "mass=0:1", "mass=1:2,mass=1:2")),
        ("directional_hopper", "direction=0:1"),
        ("goal_ant", "bearing=0:90"),
        ("forward_backward_ant", "bearing=0:1"),
        ("fetch", "width=0:0.3"),
    ],
)
def test_a_range_that_means_nothing_is_refused_in_one_line(name, task_range):
    with pytest.raises(
        ConfigError, match="^config.task.range=.*(NAME among|impossible|twice)"
    ) as it:
        make_family(TaskConfig(family=name, range=task_range))
    assert "\n" not in str(it.value)


@pytest.mark.parametrize("name", RANDOMISED)
def test_ranges_of_the_family_itself_are_possible(name):
    for quantity in FAMILIES[name].quantities:
        for value in (*quantity.training, *(quantity.shifted or ()), quantity.nominal):
            assert quantity.allows(value), quantity


@pytest.mark.parametrize("name", RANDOMISED)
def test_tasks_outside_training_are_those_that_the_family_names(name):
    assert outside(FAMILIES[name].quantities) == {"outside its range": "out_of_distribution"}


def test_tasks_outside_training_are_just_beyond_ranges_and_possible():
    quantities = (
        Quantity("gear", "N", training=(-2.0, 2.0)),
        Quantity("mass", "kg", training=(1.0, 9.0), possible=(0.1, 10.0)),
        Quantity("swapped", "0 or 1", training=(0.0, 1.0), either=True),
        Quantity("length", "m", training=(1.0, 1.0)),
    )
    assert outside(quantities) == {
        "just above its range": "gear=2.0:3.0,mass=9.0:10.0",
        "just below its range": "gear=-3.0:-2.0,mass=0.5:1.0",
    }
    assert outside(quantities[2:]) == {}
    for task_range in outside(quantities).values():
        assert set(ranges(quantities, task_range)) == {each.name for each in quantities}


@pytest.mark.parametrize("name", sorted(PLAIN & set(FAMILIES)))
def test_a_family_of_one_task_has_no_other_range(name):
    with pytest.raises(ConfigError, match="out_of_distribution"):
        make_family(TaskConfig(family=name, range="out_of_distribution"))


def test_a_task_that_a_user_gives_is_completed_and_checked():
    family = FAMILIES["random_hopper"](2, 1000)
    task = family.complete_task({"gravity": -3, "mass": [1, 2, 1, 2]})
    assert (
        task["gravity"] == -3.0
        and task["mass"].tolist() == [1, 2, 1, 2]
        and task["radius"].tolist() == [1.0] * 4
    )
    assert (
        family.complete_task({"mass": 2})["mass"].tolist() == [2.0] * 4
    )  # one number for all links
    for given, reason in (
        ({"wings": 2}, "wings"),
        ({"mass": [1, 2]}, "4 numbers"),
        ({"gravity": "much"}, "one"),
        ({"gravity": np.nan}, "one number"),
        ({"gravity": [1, 2]}, "one number"),
        ({"mass": 0}, "within 0.01 and 100"),
        ({"mass": [1, 1, 1, -1]}, "within"),
    ):
        with pytest.raises(ValueError, match=reason):
            family.complete_task(given)


@pytest.mark.parametrize("name", sorted(FAMILIES))
class TestFamily:
    """Properties of one family."""

    def family(self, name: str, episode_limit: int = 1000) -> BodyFamily:
        return shared_family(name, episode_limit)

    def test_sizes_and_types(self, name):
        family = self.family(name)
        seeds = [1, 2, 3]
        simulation = simulate(family, seeds)
        assert simulation.state.qpos.shape == (3, family.model.nq)
        assert simulation.state.qvel.shape == (3, family.model.nv)
        assert simulation.state.goal.shape == (3, family.goal_size)
        assert all(bounds.shape == (family.action_size,) for bounds in family.action_bounds)
        assert family.seconds_per_step == pytest.approx(2 * family.model.opt.timestep)
        first = simulation.reset(np.array([0, 2]), generators(4, 5, 6))
        assert first.shape == (2, family.observation_size) and first.dtype == np.float32
        for action in actions_of(family, seeds, 50):
            result = simulation.step(action)
            assert result.observation.shape == (3, family.observation_size)
            assert result.observation.dtype == result.reward.dtype == np.float32
            assert result.reward.shape == (3,)
            for flag in (result.terminated, result.truncated, result.diverged, result.success):
                assert flag.shape == (3,) and flag.dtype == bool
            assert np.isfinite(result.observation).all() and np.isfinite(result.reward).all()
            assert not result.diverged.any() and (family.goal_reaching or not result.success.any())

    def test_what_is_computed_once_a_step_is_what_each_method_computes(self, name):
        family = self.family(name)
        simulation = simulate(family, [1, 2, 3])
        state = simulation.state
        action = actions_of(family, [1, 2, 3], 1)[0]
        kept = dataclasses.replace(state, found={})
        for _ in range(2):
            np.testing.assert_array_equal(family.observe(kept), family.observe(state))
            np.testing.assert_array_equal(
                family.reward(state, kept, action), family.reward(state, state, action)
            )
            np.testing.assert_array_equal(family.succeeded(kept), family.succeeded(state))

    def test_start_is_drawn_in_full_from_the_generator(self, name):
        family = self.family(name)
        starts = [
            family.start(generator, family.complete_task({})) for generator in generators(1, 1, 2)
        ]
        for part, size in zip(
            starts[0], (family.model.nq, family.model.nv, family.goal_size), strict=True
        ):
            assert part.shape == (size,) and part.dtype == np.float64
        assert_same(starts[0], starts[1])
        assert not all(np.array_equal(*parts) for parts in zip(starts[0], starts[2], strict=True))

    def test_trajectories_depend_on_generators_and_actions_alone(self, name):
        """Not on neighbours, or what the family has simulated before."""
        family, seeds = self.family(name), list(range(9))
        actions = actions_of(family, seeds, 40)
        together = trajectory(simulate(family, seeds), actions)
        fresh = FAMILIES[name](2, 1000)
        assert_same(together, trajectory(simulate(fresh, seeds), actions))
        for row in (0, 5):
            alone = trajectory(simulate(family, [row]), actions[:, row : row + 1])
            assert_same(alone, tuple(part[:, row : row + 1] for part in together))

    def test_new_tasks_replace_the_old_to_the_bit(self, name):
        family, seeds = self.family(name), [1, 2]
        used = simulate(family, [7, 8])
        trajectory(used, actions_of(family, [7, 8], 30))
        used.set_tasks([family.sample_task(generator) for generator in generators(*seeds)])
        used.reset(np.arange(2), generators(*(seed + 1000 for seed in seeds)))
        actions = actions_of(family, seeds, 60)
        assert_same(trajectory(used, actions), trajectory(simulate(family, seeds), actions))

    def test_nothing_returned_changes_later(self, name):
        family, seeds = self.family(name), [1, 2]
        simulation = simulate(family, seeds)
        first = simulation.reset(np.arange(2), generators(3, 4))
        actions = actions_of(family, seeds, 3)
        given = actions[0].copy()
        result = simulation.step(actions[0])
        kept = [array.copy() for array in (first, *vars(result).values())]
        for action in actions[1:]:
            simulation.step(action)
        simulation.reset(np.arange(2), generators(5, 6))
        assert_same((first, *vars(result).values()), tuple(kept))
        np.testing.assert_array_equal(actions[0], given)

    def test_no_observation_entry_is_constant(self, name):
        family = self.family(name)
        simulation, resets = simulate(family, [1, 2, 3]), generators(11, 12, 13)
        seen = []
        for _ in range(3):
            seen.append(simulation.reset(np.arange(3), resets))
            for action in actions_of(family, [1, 2, 3], 15):
                seen.append(simulation.step(action).observation)
        assert (
            np.stack(seen).std(axis=0) > 1e-4
        ).all()  # within each life: normalisation hides what does not vary
        starts = np.stack(seen[::16])  # [episode, P, O]
        assert (starts[0] != starts[1]).any(axis=1).all()  # episodes do not start alike

    def test_time_limit_truncates_and_does_not_terminate(self, name):
        family = self.family(name, episode_limit=4)
        simulation, still = simulate(family, [1, 2]), np.zeros((2, family.action_size))
        truncated, resets = [], generators(3, 4)
        for step in range(1, 11):
            result = simulation.step(still)
            assert not result.terminated.any()
            truncated.append(result.truncated.tolist())
            if step in (2, 4):
                simulation.reset(np.array([0]), resets)
            if step == 4:
                simulation.reset(np.array([1]), resets)
        assert [row for row, _ in truncated] == [False] * 7 + [
            True
        ] * 3  # reset after steps 2 and 4; stays truncated
        assert [row for _, row in truncated] == [False] * 3 + [True] + [False] * 3 + [True] * 3

    def test_advancing_moves_like_stepping_and_names_the_ended(self, name):
        family, seeds = self.family(name, episode_limit=30), [1, 2, 3]
        stepped, advanced, resets = (
            simulate(family, seeds),
            simulate(family, seeds),
            (generators(5, 6, 7), generators(5, 6, 7)),
        )
        ends = 0
        for step, action in enumerate(3 * actions_of(family, seeds, 70)):
            result, ids = stepped.step(action), advanced.advance(action)
            assert ids.tolist() == np.flatnonzero(result.terminated | result.truncated).tolist()
            assert_same(arrays(advanced.state), arrays(stepped.state))
            ids = np.union1d(ids, [1]) if step == 11 else ids  # so that they do not all end at once
            ends += ids.size
            for simulation, streams in zip((stepped, advanced), resets, strict=True):
                if ids.size:
                    simulation.reset(ids, streams)
        assert ends > 5

    def test_actions_beyond_the_control_range_act_like_clipped_ones(self, name):
        family, seeds = self.family(name), [1, 2]
        low, high = family.action_bounds
        assert np.isfinite(low).all() and np.isfinite(high).all()
        wild = 3 * actions_of(family, seeds, 60)
        wild[7, 0, 0], wild[9, 1, -1] = -np.inf, np.inf
        assert (np.abs(wild) > 1).any()
        assert_same(
            trajectory(simulate(family, seeds), wild),
            trajectory(simulate(family, seeds), np.clip(wild, low, high)),
        )

    def test_reward_sees_both_states_and_the_clipped_action(self, name, monkeypatch):
        family, seen = self.family(name), []
        simulation = simulate(family, [1, 2])
        monkeypatch.setattr(family, "reward", lambda *given: seen.append(given) or np.zeros(2))
        start, wild = (
            simulation.state.rows(np.arange(2)),
            np.tile([-7.0, 0.25, 7.0], family.action_size),
        )
        wild = np.stack([wild[: family.action_size], wild[-family.action_size :]])
        simulation.step(wild)
        ((before, after, action),) = seen
        assert_same(arrays(before), arrays(start))
        assert_same(arrays(after), arrays(simulation.state))
        assert not np.array_equal(before.qpos, after.qpos)
        np.testing.assert_array_equal(action, np.clip(wild, *family.action_bounds))

    def test_stepping_some_leaves_the_others_untouched_and_equals_stepping_all(self, name):
        family, seeds = self.family(name, episode_limit=40), [1, 2, 3, 4]
        actions, ids = actions_of(family, seeds, 80), np.array([0, 2])
        whole, parts = simulate(family, seeds), simulate(family, seeds)
        expected: list[StepResult] = [whole.step(action) for action in actions[:50]]
        others = [array[[1, 3]].copy() for array in arrays(parts.state)]
        for action, wanted in zip(actions[:50], expected, strict=True):
            result = parts.step(action[ids], ids)
            assert_same(
                tuple(vars(result).values()), tuple(part[ids] for part in vars(wanted).values())
            )
            assert_same(tuple(array[[1, 3]] for array in arrays(parts.state)), tuple(others))
        for action, wanted in zip(
            actions[:50], expected, strict=True
        ):  # the others have aged by nothing either
            result = parts.step(action[[1, 3]], np.array([1, 3]))
            assert_same(
                tuple(vars(result).values()), tuple(part[[1, 3]] for part in vars(wanted).values())
            )
        assert_same(arrays(parts.state), arrays(whole.state))
        nobody = parts.step(np.zeros((0, family.action_size)), np.zeros(0, np.int64))
        assert len(nobody.observation) == len(nobody.reward) == len(nobody.terminated) == 0
        assert_same(arrays(parts.state), arrays(whole.state))

    def test_an_episode_does_not_depend_on_the_one_before(self, name, monkeypatch):
        """To the bit, even if it starts pressed against something, where the solver's warm start
        matters.
        """
        family, seeds = self.family(name), [1, 2]
        pressed = simulate(family, seeds)
        for _ in range(100):
            pressed.step(np.ones((2, family.action_size)))
        starts = [
            (
                pressed.state.qpos[row].copy(),
                pressed.state.qvel[row].copy(),
                pressed.state.goal[row].copy(),
            )
            for row in range(2)
        ]
        used = simulate(family, seeds)
        for _ in range(50):
            used.step(-np.ones((2, family.action_size)))
        fresh = simulate(family, seeds)
        for simulation in (used, fresh):
            order = iter(starts)
            monkeypatch.setattr(family, "start", lambda *_, order=order: next(order))
            simulation.reset(np.arange(2), generators(0, 0))
        actions = actions_of(family, seeds, 50)
        assert_same(trajectory(used, actions), trajectory(fresh, actions))

    def test_resetting_some_leaves_the_others_untouched(self, name):
        family, seeds = self.family(name), [1, 2, 3]
        actions = actions_of(family, seeds, 60)
        plain, disturbed = simulate(family, seeds), simulate(family, seeds)
        for step, action in enumerate(actions):
            if step % 7 == 3:
                disturbed.reset(np.array([1]), generators(0, step, 0))
            wanted, result = plain.step(action), disturbed.step(action)
            assert_same(
                tuple(part[[0, 2]] for part in vars(wanted).values()),
                tuple(part[[0, 2]] for part in vars(result).values()),
            )
