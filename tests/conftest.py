"""Settings and fixtures shared by all tests of a process."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gym_notices.notices  # noqa: E402

gym_notices.notices.notices.clear()

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import tensorflow as tf  # noqa: E402

from epg_tf.agents.agent import Agent  # noqa: E402
from epg_tf.core.types import EnvironmentSpec  # noqa: E402
from epg_tf.epg.learner import make_agents  # noqa: E402
from epg_tf.epg.settings import Experiment  # noqa: E402
from epg_tf.epg.shards import configure_tensorflow  # noqa: E402
from epg_tf.losses.contract import Experience  # noqa: E402

configure_tensorflow(2)
tf.constant(0)  # TensorFlow has started: from here on a test cannot change its threads

_HERE = Path(__file__).parent
_LONGEST = {"launch", "runs", "artifacts", "metagenrl", "evaluation", "epg", "baselines"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts long tests first, so that no worker is left alone with one at the end: files that are in
    no folder, then folders of long ones.
    """

    def place(item: pytest.Item) -> int:
        name = item.path.relative_to(_HERE).parts[0]
        return 0 if name.endswith(".py") else 1 if name in _LONGEST else 2

    items.sort(key=place)


TINY = {
    "task": {"family": "point_goal", "episode_limit": 6},
    "policy": {"hidden": (8,)},
    "loss": {
        "buffer_steps": 32,
        "widths": (4, 3),
        "strides": (3, 2),
        "filters": (3, 3),
        "context": 5,
        "head": 4,
        "memory_units": 3,
        "memory_inputs": 2,
    },
    "inner": {"updates": 3, "update_period": 8, "minibatch": 4},
    "surrogate": {"value_hidden": (8,)},
    "evolution": {
        "epochs": 3,
        "lives": 8,
        "noise_vectors": 4,
        "guidance_epochs": 1,
        "validation_period": 2,
        "validation_lives": 4,
    },
    "compute": {"shard_lives": 4, "threads": 1, "parallel": "threads"},
}


@pytest.fixture(scope="session")
def make_tiny():
    """A function: settings by group, e.g. `loss={"reward": True}` -> the tiny experiment with those
    changed.
    """

    def make(**changes) -> Experiment:
        groups = {**TINY, **{name: {} for name in changes if name not in TINY}}
        return Experiment.from_mapping(
            {name: {**values, **changes.get(name, {})} for name, values in groups.items()}
        )

    return make


@pytest.fixture(scope="session")
def tiny(make_tiny) -> Experiment:
    """An experiment whose lives take milliseconds."""
    return make_tiny()


@pytest.fixture
def make_agent():
    """A function (experiment, P, O, A) -> P agents, all variables (memory included) far from 0."""

    def make(
        experiment, population, observation_size, action_size, seed=0, discrete=False
    ) -> Agent:
        spec = EnvironmentSpec(observation_size, action_size, discrete)
        agent = make_agents(population, spec, experiment)
        generator = np.random.default_rng(seed)
        for variable in agent.trainable_variables_of(True, True):
            variable.assign(0.5 * generator.standard_normal(variable.shape))
        return agent

    return make


@pytest.fixture
def make_experience():
    """A function (P, N, M, O, A) -> random `Experience` whose oldest rows are padding, episodes of
    mixed ends.

    With `discrete`, actions as sampled are one-hot.
    """

    def make(
        population, steps, period, observation_size, action_size, seed=1, discrete=False
    ) -> Experience:
        generator = np.random.default_rng(seed)

        def draw(*shape):
            return generator.standard_normal((population, *shape)).astype(np.float32)

        def flags(*shape):
            return (generator.random((population, *shape)) < 0.2).astype(np.float32)

        lived = (np.arange(steps) >= (steps - period) // 2).astype(np.float32)[:, None]
        terminated = flags(period)
        parts = (
            draw(steps, observation_size) * lived,
            draw(steps, action_size) * lived,
            draw(steps, 1) * lived,
            flags(steps, 1) * lived,
            draw(period, action_size),
            draw(period),
            terminated,
            flags(period) * (1.0 - terminated),
            draw(period, observation_size),
        )
        experience = Experience(*map(tf.constant, parts))
        if not discrete:
            return experience
        return experience._replace(
            raw_action=tf.one_hot(tf.argmax(experience.raw_action, axis=2), action_size)
        )

    return make
