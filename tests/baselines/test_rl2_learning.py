"""Tests how RL² learns: what its policy does, the numbers of PPO, and what an iteration takes."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from epg_tf.baselines.played_trials import Trials, play_trials
from epg_tf.baselines.recurrent_ppo import RecurrentAgent
from epg_tf.baselines.rl2 import RL2Trainer
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.errors import RunFailed
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.trials import TrialEnvironment
from tests.baselines.test_rl2 import TASK, TINY

P, T, A = 4, 12, 2
DISCOUNT, LAMBDA = 0.9, 0.6


def new_agent(**ppo) -> RecurrentAgent:
    experiment = RL2Experiment.from_mapping({**TINY, "ppo": {**TINY["ppo"], **ppo}})
    return RecurrentAgent(make_family(TASK), experiment.network, experiment.ppo, seed=0)


def keys_of(iteration):
    return [LifeKey(0, "rl2", iteration, number) for number in range(P)]


def trials_of(agent, iteration) -> Trials:
    return play_trials(TrialEnvironment(make_family(TASK), P, T), agent, keys_of(iteration))


@functools.cache
def met() -> tuple[RecurrentAgent, Trials, Trials]:
    """Returns an agent that has observed trials and played others, and both of these.

    One minibatch and one epoch: what an update returns is of the agent that has not moved yet.
    """
    agent = new_agent(epochs=1, minibatches=1, discount=DISCOUNT, gae_lambda=LAMBDA)
    first = trials_of(agent, 1)
    agent.observe(first.trajectory)
    return agent, first, trials_of(agent, 2)


def replayed(agent, trials, observed, step_type):
    """Returns the policy's means [P, T + 1, A] over whole trials, by its network alone.

    Observations are normalised by the moments of those `observed`, in NumPy.
    """
    rows = observed.trajectory.observation.reshape(P * (T + 1), -1).astype(np.float64)
    seen = (trials.trajectory.observation - rows.mean(axis=0)) / np.sqrt(rows.var(axis=0) + 1e-3)
    seen = np.clip(seen, -5.0, 5.0).astype(np.float32)
    return agent._actor(seen, step_type, network_state=(), training=False)[0].mean().numpy()


def test_a_replay_of_whole_trials_gives_what_the_policy_put_out():
    """As training does it. A state that is cleared between episodes gives something else."""
    agent, first, trials = met()
    means = trials.trajectory.policy_info["dist_params"]["loc"]
    step_type = trials.trajectory.step_type
    np.testing.assert_allclose(replayed(agent, trials, first, step_type), means, atol=1e-6)
    cleared = step_type.copy()
    cleared[:, 6] = 0  # FIRST, where the second episode starts
    other = replayed(agent, trials, first, cleared)
    np.testing.assert_allclose(other[:, :6], means[:, :6], atol=1e-6)
    assert (np.abs(other[:, 6] - means[:, 6]) > 1e-4).any(axis=1).all()


def test_actions_are_means_plus_the_noise_of_their_trial():
    _, _, trials = met()
    info = trials.trajectory.policy_info["dist_params"]
    for row, key in enumerate(keys_of(2)):
        noise = life_generator(key, "action").normal(size=(T, A))
        action = info["loc"][row, :T] + info["scale"][row, :T] * noise
        np.testing.assert_allclose(trials.trajectory.action[row, :T], action, atol=1e-6)
    np.testing.assert_allclose(info["scale"], np.exp(-0.5), rtol=1e-5)


def test_the_numbers_of_a_first_minibatch_are_those_of_a_slow_reference():
    """Rewards are normalised by all so far, advantages estimated across the episodes of a trial,
    and the ratio of probabilities is 1, since nothing that the policy uses has moved yet.
    """
    agent, first, trials = met()
    before = agent.arrays()
    found = agent.update(trials.trajectory, [np.arange(P)])
    after = agent.arrays()
    agent.load(before)
    rewards = np.stack([first.trajectory.reward, trials.trajectory.reward]).astype(np.float64)
    reward = rewards[1] / np.sqrt(rewards.var() + 1e-3)
    value = trials.trajectory.policy_info["value_prediction"].astype(np.float64)
    advantage, ahead = np.zeros((P, T + 1)), np.zeros(P)
    for t in reversed(range(T)):
        goes_on = DISCOUNT if t < T - 1 else 0.0
        delta = reward[:, t] + goes_on * value[:, t + 1] - value[:, t]
        ahead = advantage[:, t] = delta + goes_on * LAMBDA * ahead
    # TF-Agents' means take the row that ends a trial, which has no loss.
    standardised = (advantage - advantage.mean()) / advantage.std()
    assert found["clipped_share"] == 0.0
    policy_loss = -standardised[:, :T].sum() / (P * (T + 1))
    assert found["policy_loss"] == pytest.approx(policy_loss, abs=1e-6)
    assert found["value_loss"] == pytest.approx(0.5 * (advantage**2).mean(), 1e-4)
    names = [name for name in after if name.startswith("policy_")]
    assert any((after[name] != before[name]).any() for name in names)
    count, mean, squares = (after[f"rewards_0{number}"] for number in range(3))
    assert count == pytest.approx(2 * P * (T + 1), 1e-4)
    assert (mean, squares / count) == (
        pytest.approx(rewards.mean(), 1e-4),
        pytest.approx(rewards.var(), 1e-4),
    )
    both = np.stack([first.trajectory.observation, trials.trajectory.observation])
    np.testing.assert_allclose(after["observations_01"], both.mean(axis=(0, 1, 2)), atol=1e-5)


@functools.cache
def learner() -> RecurrentAgent:
    """Returns one agent for all trainers of the settings of `TINY`."""
    return new_agent()


def by_hand(counted) -> dict:
    """Returns arrays after two iterations that count the rewards from env step `counted` on."""
    agent = learner()
    trials = trials_of(agent, 1)
    trials.trajectory.reward[:, :counted] = 0.0
    agent.observe(trials.trajectory)
    trials = trials_of(agent, 2)
    assert (trials.episode == np.repeat([0, 1], T // 2)).all()
    trials.trajectory.reward[:, :counted] = 0.0
    order = life_generator(LifeKey(0, "rl2", 2, 0), "minibatch")
    agent.update(trials.trajectory, [order.permutation(P), order.permutation(P)])
    return agent.arrays()


def by_trainer(exploratory) -> tuple[dict, dict]:
    """Returns the arrays after two iterations of a trainer, and the numbers of the second."""
    trial = {"episodes": 2, "exploratory_episodes": exploratory}
    trainer = RL2Trainer(RL2Experiment.from_mapping({**TINY, "iterations": 2, "trial": trial}), 0)
    trainer.agent = learner()
    *_, newest = trainer.iterate(0, float("-inf"))
    return trainer.agent.arrays(), newest.metrics


@pytest.mark.slow
def test_iterations_of_rl2_and_e_rl2_differ_in_the_rewards_of_the_first_episode():
    """To the bit: each is the iteration by hand on its own rewards, in shuffled epochs."""
    agent = learner()
    fresh = agent.arrays()
    seen = {}
    for exploratory, counted in ((0, 0), (1, 6)):
        agent.load(fresh)
        expected = by_hand(counted)
        keys = [LifeKey(0, "validation", 0, number) for number in range(2)]
        validation = play_trials(TrialEnvironment(make_family(TASK), 2, T), agent, keys)
        agent.load(fresh)
        seen[exploratory], metrics = by_trainer(exploratory)
        for name, values in expected.items():
            np.testing.assert_array_equal(seen[exploratory][name], values, err_msg=name)
        mean = np.mean(validation.returns, axis=0)
        assert metrics["validation_return/episode_1"] == mean[0]
        assert metrics["validation_return/episode_2"] == mean[1]
    agent.load(fresh)
    assert any((seen[0][name] != seen[1][name]).any() for name in fresh if "policy_" in name)


def test_a_loss_that_is_not_finite_ends_the_run():
    trainer = RL2Trainer(RL2Experiment.from_mapping(TINY), 0)
    trainer.agent = learner()
    fresh = trainer.agent.arrays()
    trainer.agent.load({**fresh, "value_00": np.full_like(fresh["value_00"], np.nan)})
    with pytest.raises(RunFailed, match="iteration 2; make config.ppo.learning_rate"):
        list(trainer.iterate(1, 0.0))
    trainer.agent.load(fresh)
