"""Tests epg_tf.epg.learner."""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.agents.buffer import Buffer
from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import EnvironmentSpec, LifeKey
from epg_tf.epg.learner import Learner
from epg_tf.losses.extra_channels import EXTRA_CHANNELS, ExtraChannel
from epg_tf.tasks.base import StepResult
from tests import reference

P, O, A = 2, 4, 2  # noqa: E741 (the legend's letter)
KEYS = [LifeKey(0, "test", 0, index) for index in range(P)]


@pytest.fixture(scope="module")
def experiment(make_tiny):
    """Few weights, for finite differences; a policy whose mean is not nearly 0; time limits are no
    end here.
    """
    return make_tiny(
        policy={"hidden": (3,), "output_scale": 0.5},
        compute={"shard_lives": P},
        loss={"truncation_as_end": False},
        inner={"learning_rate": 0.01},
    )


def make_phi(learner):
    """Returns one random phi per life, [P, D]."""
    size = parameter_count(learner.loss.shapes)
    return 0.4 * np.random.default_rng(5).standard_normal((P, size)).astype(np.float32)


def make_buffer(experiment, periods=3, discrete=False):
    """Returns a buffer of random steps (with one-hot actions) and its newest M rows' shift and
    scale (random too).
    """
    period, generator = experiment.inner.update_period, np.random.default_rng(6)
    buffer = Buffer(P, experiment.loss.buffer_steps, period, EnvironmentSpec(O, A))
    for _ in range(periods):
        buffer.make_room()
        for step in range(period):
            terminated = generator.random(P) < 0.2
            result = StepResult(
                generator.standard_normal((P, O)),
                generator.standard_normal(P),
                terminated,
                (generator.random(P) < 0.2) & ~terminated,
                np.zeros(P, bool),
                np.zeros(P, bool),
            )
            action = (
                np.eye(A)[generator.integers(A, size=P)]
                if discrete
                else generator.standard_normal((P, A))
            )
            buffer.write(step, generator.standard_normal((P, O)), action, result)
    shift, scale = generator.uniform(0.5, 1.5, (2, P, O + A + 1)).astype(np.float32)
    return buffer, shift, scale


def make_order(experiment):
    """Returns shuffled minibatches [S, P, B]."""
    inner, generator = experiment.inner, np.random.default_rng(7)
    order = np.stack([generator.permutation(inner.update_period) for _ in range(P)])
    return order.reshape(P, -1, inner.minibatch).swapaxes(0, 1).astype(np.int32)


def reference_update(experiment, life, phi, weights, memory, buffer, shift, scale, order):
    """One update of one life from the paper: normalise, two minibatches, gradients by differences,
    Adam.

    Weights without a log deviation are those of a policy with discrete actions.
    """
    config = experiment.loss
    size = (O, O + A)
    shift, scale = np.float64(shift[life]), np.float64(scale[life])
    lived = np.float64(buffer.lived)[:, None]
    observation = (
        (np.float64(buffer.observation[life]) - shift[: size[0]]) * scale[: size[0]] * lived
    )
    action = (
        (np.float64(buffer.action[life]) - shift[size[0] : size[1]])
        * scale[size[0] : size[1]]
        * lived
    )
    parameters = [np.float64(w) for w in weights] + [np.float64(memory)]
    moments = [reference.Adam(experiment.inner.learning_rate) for _ in parameters]
    for minibatch in order[:, life]:

        def loss(parameters, minibatch=minibatch):
            if len(weights) % 2:
                seen, log_std = reference.mlp(parameters[:-2], observation), parameters[-2]
            else:
                seen, log_std = reference.softmax(reference.mlp(parameters[:-1], observation)), []
            losses = reference.loss_network(
                np.float64(phi[life]),
                config,
                experiment.inner.update_period,
                observation,
                action,
                None,
                np.float64(buffer.terminated[life]),
                seen,
                log_std,
                reference.memory_output(parameters[-1]),
            )
            return losses[minibatch].mean()

        gradients = reference.finite_differences(loss, parameters)
        parameters = [
            p + adam.change(g) for p, adam, g in zip(parameters, moments, gradients, strict=True)
        ]
    return parameters


@pytest.mark.parametrize("discrete", [False, True])
def test_one_update_equals_the_reference(experiment, discrete):
    """Normalisation with padding, minibatches in turn, gradients through all N steps, Adam: the
    weights agree.
    """
    learner = Learner(P, EnvironmentSpec(O, A, discrete), experiment, measure_kl=False)
    phi, order = make_phi(learner), make_order(experiment)
    buffer, shift, scale = make_buffer(experiment, discrete=discrete)
    assert not buffer.lived.all() and len(order) == 2
    learner.begin(KEYS, phi, 0.0, experiment.inner.learning_rate)
    before, memory = learner.weights(), learner.agent.memory.kernel.numpy()
    finite, _ = learner.update(buffer, shift, scale, order)
    after = [*learner.weights(), learner.agent.memory.kernel.numpy()]
    assert finite.all()
    for life in range(P):
        expected = reference_update(
            experiment,
            life,
            phi,
            [w[life] for w in before],
            memory[life],
            buffer,
            shift,
            scale,
            order,
        )
        for start, found, other in zip([*before, memory], after, expected, strict=True):
            assert (
                np.abs(other - start[life]).max() > 5e-3
            )  # it moved by about the rate of 0.01, twice
            np.testing.assert_allclose(found[life], other, atol=2e-5)


@pytest.mark.parametrize(
    ("alpha", "kind", "discrete"),
    [(0.0, "ppo", False), (0.5, "ppo", True), (1.0, "reinforce", False)],
)
def test_every_kind_of_teaching_moves_what_it_should(make_tiny, experiment, alpha, kind, discrete):
    """A learned loss moves the memory, PPO the value network; both move the policy."""
    tiny = make_tiny(compute={"shard_lives": P}, surrogate={"kind": kind})
    learner = Learner(P, EnvironmentSpec(O, A, discrete), tiny, measure_kl=True)
    buffer, shift, scale = make_buffer(experiment, discrete=discrete)
    learner.begin(KEYS, make_phi(learner), alpha, 0.01)
    agent = learner.agent
    parts = (
        agent.policy.variables_in_order[-1],
        agent.memory.kernel,
        agent.value.trainable_variables[0],
    )
    before = [part.numpy() for part in parts]
    finite, kl = learner.update(buffer, shift, scale, make_order(experiment))
    moved = [bool((part.numpy() != start).any()) for part, start in zip(parts, before, strict=True)]
    assert moved == [True, alpha < 1, alpha > 0 and kind == "ppo"]
    assert finite.all() and (kl > 0).all()


@pytest.mark.parametrize("discrete", [False, True])
def test_kl_equals_the_reference(make_tiny, discrete):
    """Mean over the newest M steps of KL(before, after); without memory a discrete policy leaves no
    constant channel.
    """
    experiment = make_tiny(
        compute={"shard_lives": P},
        loss={"memory_units": 0 if discrete else 3},
        policy={"hidden": (3,), "output_scale": 0.5},
    )
    learner = Learner(P, EnvironmentSpec(O, A, discrete), experiment, measure_kl=True)
    (buffer, shift, scale), period = make_buffer(experiment, discrete=discrete), 8
    learner.begin(KEYS, make_phi(learner), 0.0, 0.05)
    before = learner.weights()
    finite, kl = learner.update(buffer, shift, scale, make_order(experiment))
    assert finite.all()
    for life in range(P):
        newest = (buffer.observation[life, -period:] - shift[life, :O]) * scale[life, :O]
        old, new = ([np.float64(w[life]) for w in each] for each in (before, learner.weights()))
        layers = len(old) - (not discrete)
        ends = (reference.mlp(w[:layers], np.float64(newest)) for w in (old, new))
        found = [
            reference.categorical_kl(one, other)
            if discrete
            else reference.kl_divergence(one, old[-1], other, new[-1])
            for one, other in zip(*ends, strict=True)
        ]
        assert kl[life] == pytest.approx(np.mean(found), rel=1e-3) and np.mean(found) > 1e-3


@pytest.mark.parametrize("discrete", [False, True])
def test_a_limit_shortens_the_updates_that_exceed_it(make_tiny, discrete):
    """Life 0 minimises a loss of zero, and moves by none of it; life 1 moves as far as is allowed,
    the same way as without a limit, down to a quarter of the divergence.
    """
    hashes, divergences, moved = [], [], []
    for limit in (0.0, 1e3, None):
        limit = divergences[0][1] / 4 if limit is None else float(limit)
        tiny = make_tiny(
            compute={"shard_lives": P},
            policy={"output_scale": 0.5},
            inner={"kl_limit": limit},
            loss={"truncation_as_end": False},
        )
        learner = Learner(P, EnvironmentSpec(O, A, discrete), tiny, measure_kl=True)
        phi = make_phi(learner)
        phi[0] = 0.0
        learner.begin(KEYS, phi, 0.0, 0.02)
        before = learner.weights()
        buffer = make_buffer(tiny, discrete=discrete)
        finite, kl = learner.update(*buffer, make_order(tiny))
        assert finite.all() and kl[0] == 0.0
        hashes.append(learner.hashes().tolist())
        divergences.append(kl)
        moved.append(
            np.concatenate(
                [(a[1] - b[1]).ravel() for a, b in zip(learner.weights(), before, strict=True)]
            )
        )
    free, loose, quarter = (float(kl[1]) for kl in divergences)
    assert free > 1e-3 and hashes[1] == hashes[0] and loose == free
    assert hashes[2][0] == hashes[0][0]
    assert 0.9 * free / 4 < quarter < 1.001 * free / 4
    share = np.linalg.norm(moved[2]) / np.linalg.norm(moved[0])
    assert share == pytest.approx(0.5, rel=0.1)
    np.testing.assert_allclose(moved[2], share * moved[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("rate", "discrete"), [(1.0, False), (0.1, True)])
def test_long_steps_stay_within_the_limit(make_tiny, rate, discrete):
    """Also where the divergence is not quadratic, as when deviations grow. Steps of 1e30 leave
    nothing finite to compare; the life goes on as it was.
    """
    tiny = make_tiny(compute={"shard_lives": P}, inner={"kl_limit": 0.05})
    learner = Learner(P, EnvironmentSpec(O, A, discrete), tiny, measure_kl=True)
    given = (*make_buffer(tiny, discrete=discrete), make_order(tiny))
    learner.begin(KEYS, make_phi(learner), 0.0, rate)
    finite, kl = learner.update(*given)
    assert finite.all() and (kl > 1e-3).all() and (kl < 1.01 * 0.05).all()
    if discrete:
        return  # logits explode to one choice, which can be compared
    learner.begin(KEYS, make_phi(learner), 0.0, 1e30)
    before = learner.weights()
    learner.update(*given)
    for one, other in zip(before, learner.weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_limit_does_not_hold_for_the_surrogate_alone(make_tiny):
    """It has settings of its own as a baseline; blended with a learned loss it is limited."""
    found = {}
    surrogate = {"kind": "reinforce"}  # compiles faster than PPO
    tiny = make_tiny(compute={"shard_lives": P}, inner={"kl_limit": 1e-6}, surrogate=surrogate)
    learner = Learner(P, EnvironmentSpec(O, A), tiny, measure_kl=True)
    for alpha in (1.0, 0.9):
        learner.begin(KEYS, make_phi(learner), alpha, 0.05)
        _, found[alpha] = learner.update(*make_buffer(tiny), make_order(tiny))
    assert (found[1.0] > 1e-3).all() and (found[0.9] < 1e-5).all()


def test_channels_are_computed_from_what_the_buffer_recorded(make_tiny, monkeypatch):
    """Ends of either kind, times as shares, normalised rewards; the padding is all zeros."""
    seen = []

    def watch(recorded, loss):
        seen.append(recorded)
        return recorded.reward

    monkeypatch.setitem(EXTRA_CHANNELS, "watch", ExtraChannel(watch, "the reward"))
    tiny = make_tiny(loss={"channels": ("watch",)}, task={"episode_limit": 4})
    learner = Learner(P, EnvironmentSpec(O, A), tiny, measure_kl=False)
    buffer, shift, scale = make_buffer(tiny)
    buffer.time_in_life[:] = np.linspace(0, 1, len(buffer.lived)) * buffer.lived
    experience = learner.experience(Learner.raw_experience(buffer, shift, scale))
    recorded, lived = seen[-1], buffer.lived
    assert 0 < lived.sum() < len(lived) and buffer.terminated.any() and buffer.truncated.any()
    np.testing.assert_array_equal(
        recorded.ended[:, :, 0], np.maximum(buffer.terminated, buffer.truncated)
    )
    np.testing.assert_array_equal(recorded.lived[0, :, 0], lived)
    np.testing.assert_array_equal(recorded.time_in_life[0, :, 0], buffer.time_in_life)
    expected = (buffer.reward - shift[:, -1:]) * scale[:, -1:] * lived
    np.testing.assert_allclose(recorded.reward[:, :, 0], expected, rtol=1e-5)
    np.testing.assert_array_equal(experience.channel("watch"), recorded.reward)
