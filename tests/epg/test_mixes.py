"""Tests evolution on several families at once: lives, ranks, fitness and settings of mixes."""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.core.communication import SingleProcess
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import LifeKey
from epg_tf.epg.epoch_plan import life_keys, life_tasks
from epg_tf.epg.inner_loop import InnerLoopSettings
from epg_tf.epg.memory_requirements import evolution_requirements
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.outer_loop import run_epoch
from epg_tf.epg.shards import RankedShards, Shards
from epg_tf.epg.state import initial_state
from tests.epg.test_outer_loop import ScriptedShards, results_of
from tests.thread_ranks import on_ranks

MIX = {
    "families": ("turned_motors", "half_cheetah"),
    "frame_skips": (4, 5),
    "episode_limits": (5, 6),
    "physics": ("exact", "coarse"),
}
TASKS = [0, 1, 2, 1, 2, 2, 0, 1, 2, 1]
FIELDS = ("final_return", "failed", "env_steps")


@pytest.fixture(scope="module")
def make_mix(make_tiny):
    """A function: settings by group -> the tiny experiment on three families."""

    def make(**changes):
        evolution = {
            "lives": 12,
            "noise_vectors": 12,
            "antithetic": True,
            "common_random_numbers": True,
            "fitness": "rank_in_pair",
            "guidance": 0.0,
            "validation_lives": 6,
            "validation_period": 1,
        }
        return make_tiny(
            task={"family": "hidden_goal"},
            loss={"shared_over_actions": True, "features": 3, "reward": True},
            evolution={**evolution, **changes.get("evolution", {})},
            mix={**MIX, **changes.get("mix", {})},
            **{name: changes[name] for name in changes if name not in ("evolution", "mix")},
        )

    return make


def bits(outcomes, rows=slice(None)):
    return [np.asarray(getattr(outcomes, name))[rows].tobytes() for name in FIELDS]


@pytest.mark.slow
def test_a_life_of_a_mix_is_that_of_its_family_alone(make_mix):
    """To the bit, in the physics that its family has in the mix, on one rank or two."""
    experiment = make_mix()
    keys = [LifeKey(1, "evolution", 0, index) for index in range(len(TASKS))]
    inner_settings, phi = InnerLoopSettings(0.0, 1e-2), initial_phi(experiment, 3)

    def phi_of(life):
        return phi + np.float32(0.01 * life)

    def ranked(communicator):
        with Shards(experiment) as shards:
            runner = RankedShards(shards, communicator)
            return runner.run(keys, phi_of, inner_settings, tasks=TASKS)

    with Shards(experiment) as shards:
        mixed = shards.run(keys, phi_of, inner_settings, tasks=TASKS)
        exact = shards.run(keys, phi_of, inner_settings, exact=True, tasks=TASKS)
    for number in range(3):
        lives = [life for life, task in enumerate(TASKS) if task == number]
        alone = experiment.of_task(number)
        with Shards(alone) as shards:
            its_keys = [keys[life] for life in lives]
            own = shards.run(its_keys, lambda i: phi_of(lives[i]), inner_settings)  # noqa: B023
        assert bits(own) == bits(mixed, lives)
        same_physics = alone.task.physics == "exact"
        assert (bits(own) == bits(exact, lives)) == same_physics
    for outcomes in on_ranks(2, ranked):
        assert bits(outcomes) == bits(mixed)


def test_pairs_take_the_families_in_turn(make_mix):
    evolution = make_mix().evolution
    tasks = life_tasks(make_mix())
    assert tasks == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]
    keys = life_keys(evolution, 0, 0)
    assert all(len({tasks[life] for life in range(12) if keys[life] == key}) == 1 for key in keys)


class Scripted(ScriptedShards):
    """Answers with a return of 10 times the number of the task, more for larger phi."""

    def run(self, keys, phi, inner_settings, done=None, exact=False, tasks=None):
        """Returns outcomes without a simulation."""
        self.asked.append(tasks)
        return results_of([10.0 * (1 + task) + phi(life)[0] for life, task in enumerate(tasks)])


def test_returns_count_in_the_units_of_their_family(make_mix):
    """Units change fitness and validation, and no bit of phi: ranks are within pairs."""
    found = {}
    for units in ((), (10.0, 20.0, 30.0)):
        experiment, shards = make_mix(mix={"return_units": units}), Scripted(None)
        state = initial_state(experiment, 0)
        state.phi[:] = 0.0
        found[units] = run_epoch(experiment, 0, state, RankedShards(shards, SingleProcess()))
        asked = [sorted(life_tasks(experiment)), [0, 0, 1, 1, 2, 2]]
        assert [sorted(tasks) for tasks in shards.asked] == asked
    plain, scaled = found.values()
    assert plain.state.phi.tobytes() == scaled.state.phi.tobytes()
    assert plain.state.phi[0] > 0.0
    moved = float(plain.state.phi[0])
    assert plain.metrics["validation_return_mean"] == pytest.approx(20.0 + moved)
    expected = np.mean([1.0 + moved / unit for unit in (10.0, 20.0, 30.0)])
    assert scaled.metrics["validation_return_mean"] == pytest.approx(expected)
    assert plain.metrics["fitness_mean"] == pytest.approx(20.0, abs=1.0)
    assert scaled.metrics["fitness_mean"] == pytest.approx(1.0, abs=0.1)


def test_memory_is_that_of_all_families(make_mix):
    experiment = make_mix()
    whole = sum(need.size for need in evolution_requirements(experiment, 2))
    alone = [experiment.of_task(number) for number in range(3)]
    assert whole == sum(need.size for one in alone for need in evolution_requirements(one, 2))


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"mix": {"frame_skips": (4,)}}, "config.mix.frame_skips=(4,)"),
        ({"mix": {"episode_limits": (5, 6, 7)}}, "config.mix.episode_limits=(5, 6, 7)"),
        ({"mix": {"physics": ()}}, "config.mix.physics=()"),
        ({"mix": {"return_units": (1.0, 2.0)}}, "config.mix.return_units=(1.0, 2.0)"),
        ({"mix": {"return_units": (1.0, 2.0, 0.0)}}, "config.mix.return_units[2]=0.0"),
        ({"evolution": {"fitness": "rank"}}, "cannot be ranked together"),
        ({"evolution": {"lives": 16, "noise_vectors": 16}}, "unequal numbers of pairs"),
        ({"evolution": {"validation_lives": 4}}, "unequal numbers of lives"),
        ({"evolution": {"moves": "both"}}, "serves any body"),
    ],
)
def test_mixes_that_do_not_fit_are_refused(make_mix, changes, part):
    with pytest.raises(ConfigError) as caught:
        make_mix(**changes)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_a_mix_needs_a_shared_loss_and_continuous_actions(make_tiny, make_mix):
    with pytest.raises(ConfigError, match="serves any body"):
        make_tiny(mix=MIX)
    discrete = {"families": ("turned_motors", "gymnasium:CartPole-v1"), "frame_skips": (4, 1)}
    with pytest.raises(ConfigError, match="continuous"):
        initial_phi(make_mix(mix={**discrete, "physics": ("exact", "exact")}), 0)
