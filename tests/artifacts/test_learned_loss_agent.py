"""Tests epg_tf.LearnedLossAgent against the package's own inner loop, and with what TF-Agents has:
drivers, replay buffers, PolicySaver.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.drivers import dynamic_step_driver
from tf_agents.policies import policy_saver
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.trajectories import StepType, Trajectory
from tf_agents.utils import common

import epg_tf
from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.artifacts.loss_files import PRETRAINED
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoop, InnerLoopSettings
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.tasks.registry import make_family

LOSSES = sorted(
    path.name for path in PRETRAINED.iterdir() if path.is_dir() and "objective" not in path.name
)


def learned_loss(experiment):
    return LearnedLoss(initial_phi(experiment, 0), experiment, {})


def world(learned, count=1):
    """Returns an environment of those that a loss was evolved in."""
    return epg_tf.load_environment(learned.experiment.task, count)


def agent_in(environment, learned, **settings):
    return epg_tf.LearnedLossAgent(
        environment.time_step_spec(), environment.action_spec(), learned, **settings
    )


def weights_of(agent):
    """Returns what its policy is made of, its normalisation last."""
    return [variable.numpy() for variable in agent.collect_policy._variables()]


def collected(agent, environment, steps):
    """Returns a replay buffer with as many steps of an agent, in all environments together."""
    replay = tf_uniform_replay_buffer.TFUniformReplayBuffer(
        agent.collect_data_spec, batch_size=environment.batch_size, max_length=2 * steps
    )
    dynamic_step_driver.DynamicStepDriver(
        environment, agent.collect_policy, [replay.add_batch], num_steps=steps
    ).run()
    return replay


@pytest.mark.parametrize(
    "changes",
    [
        {
            "inner": {"centred_observations": False, "kl_limit": 1e-4},
            "loss": {"reward": True, "channels": ("time_in_life",)},
        },
        {"task": {"family": "gymnasium:CartPole-v1", "frame_skip": 1, "episode_limit": 10}},
        {"task": {"family": "gymnasium:Pendulum-v1", "frame_skip": 1, "episode_limit": 10}},
    ],
    ids=lambda changes: str(list(changes.values())),
)
def test_it_learns_what_the_inner_loop_learns(make_tiny, changes):
    """From the same experience, to the same bits; units of actions and observations cost some."""
    experiment = make_tiny(**changes)
    experiment = dataclasses.replace(
        experiment, compute=dataclasses.replace(experiment.compute, shard_lives=1)
    )
    learned = learned_loss(experiment)
    family = make_family(experiment.task)
    loop = InnerLoop(experiment, family)
    lived = []

    def record(learner, raw, order):
        lived.append(raw.steps.numpy()[0, -experiment.inner.update_period :])

    loop.learner.observer = record
    loop.run([LifeKey(7, "environment", 0, 0)], learned.phi[None], InnerLoopSettings(0.0, 1e-3))
    agent = agent_in(world(learned), learned, seed=7)
    size, units = family.observation_size, family.observation_units or (0.0, 1.0)
    for steps in lived:
        observation, action, ends = np.split(steps, [size, -3], axis=1)
        ended = ends[:, 1:].any(axis=1)
        if family.discrete_actions:
            action = family.chosen(action).astype(np.int32)
        else:
            action = family.environment_action(action).astype(np.float32)
        frames = Trajectory(
            step_type=np.full(len(steps), StepType.MID),
            observation=np.float32(observation / units[1] + units[0]),
            action=action,
            policy_info=(),
            next_step_type=np.where(ended, StepType.LAST, StepType.MID).astype(np.int32),
            reward=ends[:, 0],
            discount=1.0 - ends[:, 1],
        )
        info = agent.train(tf.nest.map_structure(lambda values: tf.constant(values[None]), frames))
        assert np.isfinite(info.loss) and info.extra["finite"] and info.extra["kl"] > 0.0
    exact = family.observation_units is None and family.action_units is None
    shift, scale = loop.observation_scaling
    wanted = [*loop.learner.weights(), shift[0], scale[0]]
    for mine, theirs in zip(weights_of(agent), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=0.0 if exact else 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_pretrained_losses_learn_from_a_driver_and_a_replay_buffer(name):
    """Gathered, as a data set, and in a compiled function: the policy moves with every M steps."""
    learned = epg_tf.load_loss(name)
    environment = world(learned)
    agent = agent_in(environment, learned)
    agent.initialize()
    agent.train_step_counter.assign(0)
    period = learned.experiment.inner.update_period
    agent.train(collected(agent, environment, period).gather_all())
    first = weights_of(agent)
    replay = collected(agent, environment, 2 * period)
    for frames, _ in replay.as_dataset(
        sample_batch_size=1, num_steps=period, single_deterministic_pass=True
    ):
        info = common.function(agent.train)(frames)
    assert agent.train_step_counter.numpy() >= 2
    assert np.isfinite(info.loss) and info.extra["kl"] > 0.0 and info.extra["finite"]
    moved = zip(first[:-2], weights_of(agent)[:-2], strict=True)
    assert all((before != after).any() for before, after in moved)


def test_it_waits_for_m_steps_and_begins_anew(make_tiny):
    learned = learned_loss(make_tiny())
    environment = world(learned)
    agent = agent_in(environment, learned, train_step_counter=tf.Variable(0))
    fresh = weights_of(agent)
    steps = collected(agent, environment, 8).gather_all()
    half = [tf.nest.map_structure(lambda x, k=k: x[:, k], steps) for k in np.s_[:4, 4:]]
    assert np.isnan(agent.train(half[0]).loss) and agent.train_step_counter == 0
    assert np.isfinite(agent.train(half[1]).loss) and agent.train_step_counter == 1
    agent.initialize()
    assert all((a == b).all() for a, b in zip(fresh, weights_of(agent), strict=True))


@pytest.mark.slow
def test_a_policy_saver_keeps_what_it_has_learned(make_tiny, tmp_path):
    """But for the last bits, since a saved graph is compiled."""
    learned = learned_loss(make_tiny())
    environment = world(learned)
    agent = agent_in(environment, learned)
    agent.train(collected(agent, environment, 8).gather_all())
    policy_saver.PolicySaver(agent.policy, batch_size=None).save(str(tmp_path / "policy"))
    step = environment.current_time_step()
    loaded = tf.saved_model.load(str(tmp_path / "policy"))
    np.testing.assert_allclose(loaded.action(step).action, agent.policy.action(step).action, 1e-5)
    agent.initialize()
    assert not np.allclose(loaded.action(step).action, agent.policy.action(step).action, 0.1)


class TestRefusals:
    """One line that says what is wrong."""

    def test_other_environments(self, make_tiny):
        other = world(learned_loss(make_tiny(task={"family": "reacher", "frame_skip": 2})))
        with pytest.raises(epg_tf.ConfigError, match="^the environment has .*observation"):
            agent_in(other, learned_loss(make_tiny()))
        environment = world(learned_loss(make_tiny()))
        own = environment.action_spec()
        wide = type(own)(own.shape, own.dtype, -2.0, 2.0)
        with pytest.raises(epg_tf.ConfigError, match="^the environment has .*action"):
            epg_tf.LearnedLossAgent(environment.time_step_spec(), wide, learned_loss(make_tiny()))

    def test_losses_with_a_share_of_ppo(self, make_tiny):
        learned = learned_loss(make_tiny(evolution={"final_guidance": 0.5}))
        with pytest.raises(epg_tf.ConfigError, match="^loss 'phi' needs PPO beside it"):
            agent_in(world(learned), learned)

    def test_several_environments_at_once(self, make_tiny):
        learned = learned_loss(make_tiny())
        two = world(learned, count=2)
        agent = agent_in(two, learned)
        steps = collected(agent, two, 8).gather_all()
        with pytest.raises(epg_tf.ConfigError, match="there are 2 environments$"):
            agent.train(steps)
