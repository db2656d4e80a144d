"""Tests epg_tf.artifacts.learner: on the same transitions it computes what the package's inner loop
does, with any loss; it goes on where it was saved; and it needs only TensorFlow and NumPy.
"""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

import epg_tf
from epg_tf.artifacts import learner as module
from epg_tf.artifacts.artifact import PRETRAINED, LearnedLoss
from epg_tf.artifacts.export import export
from epg_tf.artifacts.learner import Learner
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoop, final_inner_settings
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.tasks import registry
from epg_tf.tasks.registry import make_family
from tests.tasks.families import Choices

KEY = LifeKey(0, "test", 0, 3)
LOSSES = sorted(path.name for path in PRETRAINED.iterdir() if "objective" not in path.name)


def space_of(family):
    """Returns a family's space of actions, as Gymnasium has it."""
    if not family.discrete_actions:
        low, high = family.action_bounds
        return spaces.Box(np.float32(low), np.float32(high))
    if family.action_parts:
        return spaces.MultiDiscrete(family.action_parts)
    return spaces.Discrete(family.action_size, start=int(family.choices[0]))


def life_of(learned, updates):
    """Lives one life in the package.

    Returns:
      What its updates started from, the policy's weights after each of them, its memory at the end.
    """
    experiment = dataclasses.replace(
        learned.experiment,
        compute=dataclasses.replace(learned.experiment.compute, shard_lives=1),
    )
    loop, began, weights = InnerLoop(experiment, make_family(experiment.task)), [], []

    def observe(learner, raw, minibatches):
        began.append([part.numpy() for part in raw])
        weights.append(learner.weights())

    loop.learner.observer = observe
    settings = dataclasses.replace(
        final_inner_settings(experiment), updates=updates, fitness_from="whole_life"
    )
    loop.run([KEY], learned.phi[None], settings)
    memory = loop.learner.agent.memory
    return began, [*weights[1:], loop.learner.weights()], memory and memory.kernel.numpy()[0]


def begun(folder, learned):
    """Returns the learner of an export, with the random numbers of the package's life."""
    family = make_family(learned.experiment.task)
    learner = Learner(folder, space_of(family))
    learner.about["units"]["observations"] = None  # what the package records is in these units
    learner.noise, learner.orders = (
        life_generator(KEY, purpose) for purpose in ("action", "minibatch")
    )
    if learner.about["initial_policy"] is None:
        draws = life_generator(KEY, "policy")
        learner.policy.set_weights(learner._initial_policy(draws).get_weights())
    if learner._guidance:
        sizes = [family.observation_size, *learned.experiment.surrogate.value_hidden, 1]
        fresh = module.network(sizes, "tanh", 1.0, life_generator(KEY, "critic"))
        learner._guidance._value.set_weights(fresh.get_weights())
    return learner


def check_equal(learned, folder, updates=4):
    """Lives the package's life again with an export, and compares actions and weights."""
    export(learned, folder, "card")
    began, weights, memory = life_of(learned, updates)
    learner = begun(folder, learned)
    period, size = learner.about["update_period"], learner.about["observation_size"]
    for (steps, after, _, _, _, _, goal), expected in zip(began, weights, strict=True):
        for row, next_observation, place in zip(
            steps[0, -period:], after[0], goal[0, -period:], strict=True
        ):
            learner.act(row[:size])
            np.testing.assert_allclose(learner._acted[1], row[size:-3], rtol=1e-4, atol=1e-5)
            goals = {"goal": place} if place.size else {}
            learner.record(next_observation, *row[-3:], **goals)
        for found, own in zip(learner._moved, expected, strict=True):
            np.testing.assert_allclose(found, own[0], rtol=1e-4, atol=2e-5)
    if memory is not None:
        np.testing.assert_allclose(learner._memory, memory, rtol=1e-4, atol=2e-5)
    return learner


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_it_learns_as_the_inner_loop_does(name, tmp_path):
    """With each pretrained loss, on the transitions of a life of the package."""
    learned = epg_tf.load_loss(name)
    start = Learner.__init__
    del start
    check_equal(learned, tmp_path)
