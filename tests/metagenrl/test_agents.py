"""Tests epg_tf.metagenrl.agents: in which units agents see rewards."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.metagenrl.population import Population, meta_learn
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs import metagenrl_checkpoints
from epg_tf.runs.identity import RunIdentity
from epg_tf.runs.metagenrl import METAGENRL
from tests.metagenrl.test_population import TINY


def scaled(environment, scale=True, **changes):
    """Returns settings of two agents in one environment, the second of which lives 4 rounds."""
    return MetaGenRLExperiment.from_mapping(
        {
            **TINY,
            "environments": (environment,),
            "agents": 2,
            "agent": {**TINY["agent"], "replay_steps": 96, "scale_rewards": scale},
            **changes,
        }
    )


def root_mean_square(rewards):
    return max(1.0, (sum(float(r) ** 2 for r in rewards) / len(rewards)) ** 0.5)


@pytest.mark.slow
def test_units_are_those_of_the_steps_before_the_first_update(monkeypatch):
    """Of each life: agent 1 starts again after one round, agent 0 after two."""
    population = Population(scaled("gymnasium:Pendulum-v1@6"), 0)
    shard = population.shards[0]
    given, update = [], shard.learner.update

    def noted(chunks, *rest):
        given.append((chunks["reward"].copy(), chunks["mask"]))
        return update(chunks, *rest)

    monkeypatch.setattr(shard.learner, "update", noted)
    units = []
    for result in meta_learn(scaled("gymnasium:Pendulum-v1@6"), 0, population):
        units.append(shard.arrays()["reward_units"].copy())
        if result.state.round == 1:
            rewards = shard.replay.newest(12)["reward"]
            first = [root_mean_square(row[:4]) for row in rewards]
            raw = {abs(float(r) / first[0]) for r in rewards[0]}
            shown = given[0][0][:, 0][given[0][1][:, 0] > 0]
            assert all(min(abs(abs(r) - each) for each in raw) < 1e-6 for r in shown)
    again = shard.replay.newest(48)["reward"]
    np.testing.assert_allclose(units[0], first, rtol=1e-6)
    assert min(first) > 1.0
    assert units[1][0] == units[0][0] and units[1][1] != units[0][1]
    np.testing.assert_allclose(units[1][1], root_mean_square(again[1][12:16]), rtol=1e-6)
    np.testing.assert_allclose(units[3][0], root_mean_square(again[0][24:28]), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "same"),
    [("gymnasium:InvertedPendulum-v5@6", True), ("gymnasium:Pendulum-v1@6", False)],
)
def test_small_rewards_stay_as_they_are(environment, same):
    """Rewards of a root mean square up to 1 are not enlarged: not one bit differs."""
    ends = [
        list(meta_learn(scaled(environment, scale, steps_per_agent=24), 0))[-1].state.parameters
        for scale in (False, True)
    ]
    assert (ends[0].tobytes() == ends[1].tobytes()) == same


@pytest.mark.slow
def test_units_come_back_from_disk(tmp_path):
    """Agent 0 is in the middle of its life, so its unit cannot be measured again."""
    experiment = dataclasses.replace(scaled("gymnasium:Pendulum-v1@6"), steps_per_agent=24)
    population = Population(experiment, 0)
    results = meta_learn(experiment, 0, population)
    state = next(results).state
    identity = RunIdentity(METAGENRL, experiment.to_mapping(), 0)
    metagenrl_checkpoints.save_shards(tmp_path, population, identity)
    metagenrl_checkpoints.save_state(tmp_path, state, identity)
    undisturbed = next(results).state
    state, _ = metagenrl_checkpoints.restore(tmp_path, fresh := Population(experiment, 0), identity)
    resumed = next(meta_learn(experiment, 0, fresh, state)).state
    assert resumed.parameters.tobytes() == undisturbed.parameters.tobytes()
