"""Tests what every task family must have, over all of the registry."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from epg_tf.tasks.base import State, Task, TaskFamily
from epg_tf.tasks.physics import Simulation, StepResult
from epg_tf.tasks.registry import FAMILIES

Quantity = tuple[Callable[[TaskFamily, Task], np.ndarray], float, float, int]


def ratio(field: str, rows=slice(None)) -> Callable[[TaskFamily, Task], np.ndarray]:
    """Returns the factors on the entries of a model field that are not zero."""

    def factors(family: TaskFamily, task: Task) -> np.ndarray:
        base = getattr(family.model, field)[rows]
        return task[field][rows][base != 0] / base[base != 0]

    return factors


def capsules(family: TaskFamily) -> np.ndarray:
    return family.model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE


# Per family, what its documentation says is drawn, between which bounds, and how many numbers on their own.
QUANTITIES: dict[str, dict[str, Quantity]] = {
    "point_goal": {
        "mass": (ratio("body_mass"), 0.5, 2.0, 1),
        "damping": (ratio("dof_damping"), 0.5, 2.0, 1),
        "gain": (ratio("actuator_gear"), 0.5, 2.0, 2),
    },
    "random_hopper": {
        "mass": (ratio("body_mass"), 0.5, 2.0, 4),
        "friction": (ratio("geom_friction"), 0.5, 2.0, 5),
        "radius": (lambda f, t: t["geom_size"][capsules(f), 0] / f.model.geom_size[capsules(f), 0], 0.5, 2.0, 4),
        "gravity": (lambda f, t: t["opt.gravity"][2:], -20.0, -2.0, 1),
    },
}


def model_field(family: TaskFamily, name: str) -> np.ndarray:
    return np.asarray(getattr(family.model.opt, name[4:]) if name.startswith("opt.") else getattr(family.model, name))


def generators(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


def simulate(family: TaskFamily, seeds: list[int], threads: int = 1) -> Simulation:
    """Returns simulations with tasks and first episodes drawn from `seeds`."""
    simulation = Simulation(family, len(seeds), threads)
    simulation.set_tasks([family.sample_task(generator) for generator in generators(*seeds)])
    simulation.reset(np.arange(len(seeds)), generators(*(seed + 1000 for seed in seeds)))
    return simulation


def actions_of(family: TaskFamily, seeds: list[int], steps: int) -> np.ndarray:
    """Returns [steps, P, A] random actions, those of each simulation from its seed alone."""
    return np.stack([np.random.default_rng(seed + 2000).uniform(-1, 1, (steps, family.action_size))
                     for seed in seeds], axis=1).astype(np.float32)


def trajectory(simulation: Simulation, actions: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns qpos, qvel, observation and reward after each step, [steps, P, ...]; episodes are never reset."""
    rows = []
    for action in actions:
        result = simulation.step(action)
        rows.append((simulation.state.qpos.copy(), simulation.state.qvel.copy(), result.observation, result.reward))
    return tuple(np.stack(part) for part in zip(*rows, strict=True))


def assert_same(first: tuple[np.ndarray, ...], second: tuple[np.ndarray, ...]) -> None:
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_documented_quantities_cover_the_registry():
    assert set(QUANTITIES) == set(FAMILIES), "say in QUANTITIES what a new family draws and between which bounds"
    assert all(name == family.name for name, family in FAMILIES.items())


@pytest.mark.parametrize("name", sorted(FAMILIES))
class TestFamily:
    """Properties of one family."""

    def family(self, name: str, episode_limit: int = 1000, randomize: bool = True) -> TaskFamily:
        return FAMILIES[name](2, episode_limit, randomize)

    def test_sizes_and_types(self, name):
        family = self.family(name)
        seeds = [1, 2, 3]
        simulation = simulate(family, seeds)
        assert simulation.state.qpos.shape == (3, family.model.nq)
        assert simulation.state.qvel.shape == (3, family.model.nv)
        assert simulation.state.goal.shape == (3, family.goal_size)
        assert family.action_size == family.model.nu
        assert family.seconds_per_step == pytest.approx(2 * family.model.opt.timestep)
        first = simulation.reset(np.array([0, 2]), generators(4, 5, 6))
        assert first.shape == (2, family.observation_size) and first.dtype == np.float32
        for action in actions_of(family, seeds, 50):
            result = simulation.step(action)
            assert result.observation.shape == (3, family.observation_size)
            assert result.observation.dtype == result.reward.dtype == np.float32
            assert result.reward.shape == (3,)
            for flag in (result.terminated, result.truncated, result.diverged):
                assert flag.shape == (3,) and flag.dtype == bool
            assert np.isfinite(result.observation).all() and np.isfinite(result.reward).all()
            assert not result.diverged.any()

    def test_start_is_drawn_in_full_from_the_generator(self, name):
        family = self.family(name)
        starts = [family.start(generator) for generator in generators(1, 1, 2)]
        for part, size in zip(starts[0], (family.model.nq, family.model.nv, family.goal_size), strict=True):
            assert part.shape == (size,) and part.dtype == np.float64
        assert_same(starts[0], starts[1])
        assert not np.array_equal(starts[0][0], starts[2][0])

    def test_same_generators_give_the_same_trajectory(self, name):
        family, seeds = self.family(name), [1, 2]
        actions = actions_of(family, seeds, 100)
        assert_same(trajectory(simulate(family, seeds), actions),
                    trajectory(simulate(self.family(name), seeds), actions))

    def test_different_generators_give_different_tasks(self, name):
        family = self.family(name)
        one, other = (family.sample_task(generator) for generator in generators(1, 2))
        for field in family.expanded:
            assert not np.array_equal(one[field], other[field]), field
        simulation = simulate(family, [1, 1])  # the same but for the task
        simulation.set_tasks([one, other])
        qpos, qvel, _, _ = trajectory(simulation, actions_of(family, [1, 1], 20))
        assert not np.array_equal(qpos[-1, 0], qpos[-1, 1])
        assert not np.array_equal(qvel[-1, 0], qvel[-1, 1])

    def test_a_task_sets_each_expanded_field_in_the_shape_of_the_model(self, name):
        family = self.family(name)
        task = family.sample_task(np.random.default_rng(1))
        assert set(task) == set(family.expanded)
        for field in family.expanded:
            assert task[field].shape == model_field(family, field).shape, field
            assert not np.shares_memory(task[field], model_field(family, field)), field

    def test_every_quantity_varies_within_its_documented_bounds(self, name):
        family = self.family(name)
        tasks = [family.sample_task(generator) for generator in generators(*range(200))]
        drawn = []
        for quantity, (read, low, high, count) in QUANTITIES[name].items():
            values = np.stack([read(family, task) for task in tasks])
            assert values.shape[1] > 0, quantity
            tolerance = 1e-9 * (high - low)
            assert (values >= low - tolerance).all() and (values <= high + tolerance).all(), quantity
            edge = 0.05 * (high - low)  # missed by 200 uniform draws with probability 4e-5
            assert (values.min(axis=0) < low + edge).all() and (values.max(axis=0) > high - edge).all(), quantity
            _, own = np.unique(values[0].round(12), return_index=True)
            assert own.size == count, quantity
            drawn.extend(values[:, own].T)
        for field in family.expanded:
            assert np.stack([task[field] for task in tasks]).std(axis=0).max() > 0, field
        between = np.corrcoef(np.stack(drawn)) - np.eye(len(drawn))
        assert np.abs(between).max() < 0.3  # 4 deviations of independent draws

    def test_sampling_leaves_the_model_alone(self, name):
        family = self.family(name)
        before = {field: model_field(family, field).copy() for field in family.expanded}
        simulate(family, [1, 2]).step(np.zeros((2, family.action_size)))
        for field, values in before.items():
            np.testing.assert_array_equal(values, model_field(family, field), field)

    def test_without_randomization_every_task_is_the_model(self, name):
        family = self.family(name, randomize=False)
        for generator in generators(1, 2):
            for field, values in family.sample_task(generator).items():
                np.testing.assert_array_equal(values, model_field(family, field), field)

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

    def test_family_methods_share_no_memory_with_the_state(self, name):
        family = self.family(name)
        state = simulate(family, [1, 2]).state
        copies = [array.copy() for array in vars(state).values()]
        answers = (family.observe(state), family.reward(state, state, np.zeros((2, family.action_size))),
                   family.terminated(state))
        for answer in answers:
            assert not any(np.shares_memory(answer, array) for array in vars(state).values())
        assert_same(tuple(vars(state).values()), tuple(copies))
        assert answers[0].dtype == np.float64

    def test_no_observation_entry_is_constant(self, name):
        family = self.family(name)
        simulation, resets = simulate(family, [1, 2, 3]), generators(11, 12, 13)
        seen = []
        for _ in range(3):
            seen.append(simulation.reset(np.arange(3), resets))
            for action in actions_of(family, [1, 2, 3], 15):
                seen.append(simulation.step(action).observation)
        assert (np.concatenate(seen).std(axis=0) > 1e-4).all()
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
        assert [row for row, _ in truncated] == [False] * 7 + [True] * 3  # reset after steps 2 and 4; stays truncated
        assert [row for _, row in truncated] == [False] * 3 + [True] + [False] * 3 + [True] * 3

    def test_advancing_moves_like_stepping_and_names_the_ended(self, name):
        family, seeds = self.family(name, episode_limit=30), [1, 2, 3]
        stepped, advanced, resets = simulate(family, seeds), simulate(family, seeds), (generators(5, 6, 7),
                                                                                       generators(5, 6, 7))
        ends = 0
        for step, action in enumerate(3 * actions_of(family, seeds, 70)):
            result, ids = stepped.step(action), advanced.advance(action)
            assert ids.tolist() == np.flatnonzero(result.terminated | result.truncated).tolist()
            assert_same(tuple(vars(advanced.state).values()), tuple(vars(stepped.state).values()))
            ids = np.union1d(ids, [1]) if step == 11 else ids  # so that they do not all end at once
            ends += ids.size
            for simulation, streams in zip((stepped, advanced), resets, strict=True):
                if ids.size:
                    simulation.reset(ids, streams)
        assert ends > 5

    def test_actions_beyond_the_control_range_act_like_clipped_ones(self, name):
        family, seeds = self.family(name), [1, 2]
        low, high = family.model.actuator_ctrlrange.T
        assert family.model.actuator_ctrllimited.all()
        wild = 3 * actions_of(family, seeds, 60)
        assert (np.abs(wild) > 1).any()
        assert_same(trajectory(simulate(family, seeds), wild),
                    trajectory(simulate(family, seeds), np.clip(wild, low, high)))

    def test_reward_sees_both_states_and_the_clipped_action(self, name, monkeypatch):
        family, seen = self.family(name), []
        simulation = simulate(family, [1, 2])
        monkeypatch.setattr(family, "reward", lambda *given: seen.append(given) or np.zeros(2))
        start, wild = simulation.state.rows(np.arange(2)), np.tile([-7.0, 0.25, 7.0], family.action_size)
        wild = np.stack([wild[: family.action_size], wild[-family.action_size :]])
        simulation.step(wild)
        (before, after, action), = seen
        assert_same(tuple(vars(before).values()), tuple(vars(start).values()))
        assert_same(tuple(vars(after).values()), tuple(vars(simulation.state).values()))
        assert not np.array_equal(before.qpos, after.qpos)
        np.testing.assert_array_equal(action, np.clip(wild, *family.model.actuator_ctrlrange.T))

    def test_stepping_some_leaves_the_others_untouched_and_equals_stepping_all(self, name):
        family, seeds = self.family(name, episode_limit=40), [1, 2, 3, 4]
        actions, ids = actions_of(family, seeds, 80), np.array([0, 2])
        whole, parts = simulate(family, seeds), simulate(family, seeds)
        expected: list[StepResult] = [whole.step(action) for action in actions[:50]]
        others = [array[[1, 3]].copy() for array in vars(parts.state).values()]
        for action, wanted in zip(actions[:50], expected, strict=True):
            result = parts.step(action[ids], ids)
            assert_same(tuple(vars(result).values()), tuple(part[ids] for part in vars(wanted).values()))
            assert_same(tuple(array[[1, 3]] for array in vars(parts.state).values()), tuple(others))
        for action, wanted in zip(actions[:50], expected, strict=True):  # the others have aged by nothing either
            result = parts.step(action[[1, 3]], np.array([1, 3]))
            assert_same(tuple(vars(result).values()), tuple(part[[1, 3]] for part in vars(wanted).values()))
        assert_same(tuple(vars(parts.state).values()), tuple(vars(whole.state).values()))
        nobody = parts.step(np.zeros((0, family.action_size)), np.zeros(0, np.int64))
        assert len(nobody.observation) == len(nobody.reward) == len(nobody.terminated) == 0
        assert_same(tuple(vars(parts.state).values()), tuple(vars(whole.state).values()))

    def test_an_episode_does_not_depend_on_the_one_before(self, name, monkeypatch):
        """To the bit, even if it starts pressed against something, where the solver's warm start matters."""
        family, seeds = self.family(name), [1, 2]
        pressed = simulate(family, seeds)
        for _ in range(100):
            pressed.step(np.ones((2, family.action_size)))
        starts = [(pressed.state.qpos[row].copy(), pressed.state.qvel[row].copy(), pressed.state.goal[row].copy())
                  for row in range(2)]
        used = simulate(family, seeds)
        for _ in range(50):
            used.step(-np.ones((2, family.action_size)))
        fresh = simulate(family, seeds)
        for simulation in (used, fresh):
            order = iter(starts)
            monkeypatch.setattr(family, "start", lambda _, order=order: next(order))
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
            assert_same(tuple(part[[0, 2]] for part in vars(wanted).values()),
                        tuple(part[[0, 2]] for part in vars(result).values()))

    def test_results_do_not_depend_on_neighbours(self, name):
        family, seeds = self.family(name), [1, 2, 3, 4, 5]
        actions = actions_of(family, seeds, 100)
        together = trajectory(simulate(family, seeds), actions)
        for row, seed in enumerate(seeds):
            alone = trajectory(simulate(family, [seed]), actions[:, row : row + 1])
            assert_same(tuple(part[:, 0] for part in alone), tuple(part[:, row] for part in together))

    def test_results_do_not_depend_on_native_threads(self, name):
        family, seeds = self.family(name), list(range(9))
        actions = actions_of(family, seeds, 100)
        assert_same(trajectory(simulate(family, seeds, threads=1), actions),
                    trajectory(simulate(family, seeds, threads=2), actions))

    def test_a_state_selects_rows_as_copies(self, name):
        state = simulate(self.family(name), [1, 2, 3]).state
        rows = state.rows(np.array([2, 0]))
        assert isinstance(rows, State)
        for part, whole in zip(vars(rows).values(), vars(state).values(), strict=True):
            np.testing.assert_array_equal(part, whole[[2, 0]])
            assert not np.shares_memory(part, whole)
