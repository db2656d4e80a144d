"""Tests epg_tf.artifacts.learner: on the same transitions it computes what the package's inner loop
does, with any loss; it goes on where it was saved; and it needs only TensorFlow and NumPy.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

import epg_tf
from epg_tf.artifacts import learner as module
from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.artifacts.export import export, programs
from epg_tf.artifacts.learner import Learner
from epg_tf.artifacts.loss_files import PRETRAINED
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoop, final_inner_settings
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.tasks import registry
from epg_tf.tasks.registry import make_family
from tests.tasks.families import Choices
from tests.tasks.test_multi_discrete import TwoAxes

SEEN, BOX = 6, spaces.Box(-1.0, 1.0, [2])  # of point_goal
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
        learner._guidance.network.set_weights(fresh.get_weights())
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
    if memory is not None and learner.about["memory"]:
        np.testing.assert_allclose(learner._memory, memory, rtol=1e-4, atol=2e-5)
    return learner


CHOICES = {"family": "choices"}
LIMITED = {"kl_limit": 1e-3}
GUIDED = {"guidance": 0.4, "final_guidance": 0.4}
ALONE = {"moves": "initialisation", "guidance": 1.0, "final_guidance": 1.0}
SETTINGS = [
    {"loss": {"reward": True, "channels": ("return_to_go", "time_in_life")}},
    {"task": CHOICES, "loss": {"products": 3}, "inner": LIMITED, "evolution": GUIDED},
    {"evolution": ALONE, "surrogate": {"kind": "reinforce_with_values"}},
    {"evolution": ALONE | {"moves": "both"}, "inner": {"kl_limit": 1e-4}},
    {"evolution": GUIDED, "surrogate": {"kind": "reinforce"}},
    {"task": {"family": "parts"}, "evolution": GUIDED},
    {"policy": {"state_dependent_std": True}, "loss": {"products": 3, "reward": True}},
    {"policy": {"observation_pairs": True}, "loss": {"memory_units": 0}},
    {"inner": {"centred_observations": False, "kl_limit": 1e-5}},
    {"loss": {"truncation_as_end": False, "shared_over_actions": True, "products": 3}},
    {"loss": {"channels": ("novelty", "future_reward", "observation_pairs", "goal")}},
    {"loss": {"channels": ("observation_as_it_is",)}},
    {"loss": {"identifying": 2, "start": "identifying"}},
]


@pytest.fixture
def make_learned(make_tiny, monkeypatch):
    """A function: settings by group -> what evolution starts from, as if it were learned."""
    monkeypatch.setitem(registry.FAMILIES, "choices", Choices)
    monkeypatch.setitem(registry.FAMILIES, "parts", TwoAxes)

    def make(**changes) -> LearnedLoss:
        experiment = make_tiny(**changes)
        phi = initial_phi(experiment, 0)
        if experiment.loss.identifying:  # which begins without a say
            phi += 0.2 * np.random.default_rng(0).standard_normal(phi.shape).astype("f4")
        return LearnedLoss(phi, experiment, {})

    return make


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_it_learns_as_the_inner_loop_does_with_each_pretrained_loss(name, tmp_path):
    check_equal(epg_tf.load_loss(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("changes", SETTINGS)
def test_it_learns_as_the_inner_loop_does(changes, make_learned, tmp_path):
    """With all that a loss may see, all kinds of actions, guidance, and limits."""
    learned = make_learned(**changes)
    learner = check_equal(learned, tmp_path, learned.experiment.inner.updates)
    moved = np.concatenate([np.ravel(variable) for variable in learner._moved])
    assert np.isfinite(moved).all() and learner.steps == 24


@pytest.fixture(scope="module")
def exported(tiny, tmp_path_factory):
    """Folder of the export of a tiny loss that sees no reward."""
    folder = tmp_path_factory.mktemp("exported")
    export(LearnedLoss(initial_phi(tiny, 0), tiny, {}), folder, "card")
    return folder


def live(learner, steps, seed=0):
    """Lives random transitions; returns the actions."""
    generator, actions = np.random.default_rng(seed), []
    for _ in range(steps):
        actions.append(learner.act(generator.standard_normal(SEEN)))
        following, over = generator.standard_normal(SEEN), generator.random() < 0.2
        learner.record(following, np.nan, over, False)
    return actions


def no_gradient_moves(learner):
    """Lives M steps whose gradients are not finite."""
    start = [variable.numpy() for variable in learner._moved]
    learner.act(np.full(SEEN, np.nan))
    learner.record(np.zeros(SEEN), 0.0, False, False)
    with pytest.warns(UserWarning, match="not finite"):
        live(learner, 7)
    for before, variable in zip(start, learner._moved, strict=True):
        np.testing.assert_array_equal(variable, before)


@pytest.mark.slow
def test_it_goes_on_where_it_was_saved_with_equal_bits(exported, tmp_path):
    """In the middle of M steps, whatever the learner lived before; NaN rewards do nothing to a loss
    that sees none, and a gradient that is not finite is left out.
    """
    learner = Learner(exported, BOX)
    live(learner, 19)
    learner.save(tmp_path / "saved.npz")
    resumed = Learner(exported, BOX, seed=7)
    no_gradient_moves(resumed)
    resumed.load(tmp_path / "saved.npz")
    for one, other in zip(live(learner, 13, 1), live(resumed, 13, 1), strict=True):
        assert one.tobytes() == other.tobytes()
    assert learner.steps == resumed.steps == 32
    for one, other in zip(learner._saved(), resumed._saved(), strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()
    assert np.isfinite(learner.policy.get_weights()[0]).all()


@pytest.mark.slow
def test_it_trains_any_keras_policy(exported):
    """Two branches and layer normalisation; all its weights move."""
    seen = tf.keras.Input([SEEN])
    wide = tf.keras.layers.Dense(5, "elu")(tf.keras.layers.LayerNormalization()(seen))
    means = tf.keras.layers.Dense(2)(tf.keras.layers.Concatenate()([wide, seen]))
    policy = tf.keras.Model(seen, means)
    start = policy.get_weights()
    learner = Learner(exported, BOX, policy)
    live(learner, 16)
    assert learner.policy is policy
    for before, after in zip(start, policy.get_weights(), strict=True):
        assert np.abs(after - before).max() > 1e-4


def test_actions_are_the_environments(exported):
    """-1 and 1 are bounds; beyond them actions are clipped."""
    uneven = spaces.Box(np.float32([0.0, -4.0]), np.float32([1.0, 2.0]))
    taken = Learner(exported, uneven)._actions.taken
    np.testing.assert_allclose(taken(np.float32([0.5, 0.0])), [0.75, -1.0])
    np.testing.assert_allclose(taken(np.float32([-9.0, 9.0])), [0.0, 2.0])
    free = spaces.Box(np.float32([-np.inf, -1.0]), np.float32([np.inf, 1.0]))
    np.testing.assert_allclose(
        Learner(exported, free)._actions.taken(np.float32([-9.0, 9.0])), [-9.0, 1.0]
    )


@pytest.mark.parametrize(
    ("space", "parts", "row", "expected"),
    [
        (spaces.Discrete(3, start=5), True, [0, 0, 1], 7),
        (spaces.MultiDiscrete([2, 3]), [2, 3], [0, 1, 0, 1, 0], [1, 1]),
        (spaces.MultiBinary(2), [2, 2], [0, 1, 1, 0], [1, 0]),
    ],
)
def test_choices_are_the_environments(space, parts, row, expected):
    about = {"discrete_actions": parts, "action_size": len(row)}
    action = module.Choices(about, space).taken(np.float32(row))
    assert space.contains(action) and np.array_equal(action, expected)
    with pytest.raises(ValueError, match="the loss needs choices"):
        module.Choices(about, spaces.Discrete(9))


def test_what_does_not_fit_is_refused(exported):
    with pytest.raises(ValueError, match="needs a Box of 2 numbers"):
        Learner(exported, spaces.Box(-1.0, 1.0, [3]))
    with pytest.raises(ValueError, match="needs a Box of 2 numbers"):
        Learner(exported, spaces.Discrete(2))
    policy = tf.keras.Sequential([tf.keras.Input([SEEN]), tf.keras.layers.Dense(4)])
    with pytest.raises(ValueError, match="policy returns 4 numbers, but the loss needs 2"):
        Learner(exported, BOX, policy)
    with pytest.raises(RuntimeError, match="call act"):
        Learner(exported, BOX).record(np.zeros(SEEN), 0.0, False, False)


@pytest.mark.parametrize("guided", [False, True])
def test_files_beside_an_export_need_tensorflow_and_numpy_alone(make_learned, guided):
    learned = make_learned(evolution=GUIDED) if guided else make_learned()
    named = programs(learned)
    assert list(named) == ["learner.py", "guidance.py"][: 1 + guided]
    for name in named:
        nodes = list(ast.walk(ast.parse((Path(module.__file__).parent / name).read_text())))
        names = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
        names |= {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
        others = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
        assert others == {"numpy", "tensorflow"}


def test_the_learner_is_beside_the_export(exported):
    assert (exported / "learner.py").read_text() == Path(module.__file__).read_text()
    assert not (exported / "guidance.py").exists()
