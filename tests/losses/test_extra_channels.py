"""Tests epg_tf.losses.extra_channels and channel_checks."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses import extra_channels
from epg_tf.losses.channel_checks import check_channels
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.extra_channels import (
    ExtraChannel,
    Recorded,
    extra_values,
    register_channel,
    sees_reward,
)
from epg_tf.losses.settings import LossConfig
from tests import reference
from tests.docs.pages import ROOT

P, O, A, N = 3, 4, 2, 21  # noqa: E741 (the legend's letter)
LIVED = 17


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(extra_channels, "EXTRA_CHANNELS", dict(extra_channels.EXTRA_CHANNELS))


@pytest.fixture
def recorded():
    """Random steps of P lives, the first four of them padding; buffers end within an episode."""
    generator = np.random.default_rng(0)
    lived = (np.arange(N) >= N - LIVED).astype(np.float32)[None, :, None]

    def draw(size):
        return tf.constant((generator.standard_normal((P, N, size)) * lived).astype(np.float32))

    ended = (generator.random((P, N, 1)) < 0.2).astype(np.float32) * lived
    share = np.linspace(0, 1, N, dtype=np.float32)[None, :, None] * lived
    return Recorded(
        draw(O),
        draw(A),
        draw(1),
        tf.constant(ended),
        tf.constant(lived),
        tf.constant(share),
        draw(3),
        draw(O),
        draw(1),
        tf.constant(ended * (generator.random((P, N, 1)) < 0.5).astype(np.float32)),
        ((0, 1, 1.0), (2, 3, 0.5)),
    )


def compute(name, recorded, **settings):
    return extra_channels.extra_channel(name).compute(recorded, LossConfig(**settings)).numpy()


@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
def test_future_reward_equals_the_reference(recorded, discount):
    """Returns to the end of the episode or of the buffer, standardised over the lived steps."""
    found = compute("future_reward", recorded, future_discount=discount)
    assert found.shape == (P, N, 1) and not found[:, :-LIVED].any()
    for life in range(P):
        reward, ended = (
            np.float64(part[life, -LIVED:, 0]) for part in (recorded.reward, recorded.ended)
        )
        expected = reference.standardised(reference.discounted_returns(reward, ended, discount))
        np.testing.assert_allclose(found[life, -LIVED:, 0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.99, 1.0])
def test_return_to_go_equals_the_reference(recorded, discount):
    """The return of each step, whose own mean follows where it was cut off: iterated until that
    mean stays.
    """
    found = compute("return_to_go", recorded, future_discount=discount)
    assert found.shape == (P, N, 1) and not found[:, :-LIVED].any()
    assert 0.0 < np.sum(recorded.terminated) < np.sum(recorded.ended)
    for life in range(P):
        reward, ended, terminated = (
            np.float64(part[life, -LIVED:, 0])
            for part in (recorded.raw_reward, recorded.ended, recorded.terminated)
        )
        mean = 0.0
        for _ in range(3000):
            returns = np.full(LIVED + 1, mean)
            for step in reversed(range(LIVED)):
                after = mean if ended[step] else returns[step + 1]
                returns[step] = reward[step] + discount * (0.0 if terminated[step] else after)
            mean = returns[:-1].mean()
        expected = reference.standardised(returns[:-1])
        np.testing.assert_allclose(found[life, -LIVED:, 0], expected, rtol=1e-3, atol=1e-4)


def of_rewards(recorded, reward, ended, terminated):
    """Returns `return_to_go` of the lived steps of the first life."""

    def steps(values):
        values = np.broadcast_to(np.asarray(values, np.float32), LIVED)
        return tf.tile(
            tf.pad(tf.constant(values[None, :, None]), [[0, 0], [4, 0], [0, 0]]), [P, 1, 1]
        )

    same = recorded._replace(
        raw_reward=steps(reward), ended=steps(ended), terminated=steps(terminated)
    )
    return compute("return_to_go", same)[0, -LIVED:, 0]


@pytest.mark.parametrize("reward", [1.0, -1.0, 1e7, -1e-7])
def test_where_all_rewards_are_equal_return_to_go_tells_of_terminations(recorded, reward):
    """The nearer one is, the worse, or the better where each step costs."""
    end = np.arange(LIVED) == 8
    found = np.sign(reward) * of_rewards(recorded, reward, end, end)
    assert (np.diff(found[:9]) < 0.0).all() and found[:9].max() < found[9:].min()
    assert np.abs(of_rewards(recorded, reward, end, 0.0 * end)).max() < 1e-2  # a time limit


def test_to_arrive_where_that_is_rewarded_is_better_than_a_time_limit(recorded):
    """Though episodes that arrive are shorter, and nothing follows."""
    arrived = np.isin(np.arange(LIVED), [2, 5])
    limit = np.isin(np.arange(LIVED), [2, 5, 16])
    found = of_rewards(recorded, arrived, limit, arrived)
    assert found[:6].min() > found[6:].max()
    assert found[2] > found[1] > found[0]


def test_novelty_counts_observations_of_the_same_cell(recorded):
    """Where an observation recurs n times in the buffer its novelty is at most 1 / sqrt(n); a
    neighbour's observations and the padding do not count.
    """
    observation = recorded.observation.numpy()
    observation[0, -LIVED:] = observation[0, -1]
    observation[1, -LIVED:-1] = 50.0
    observation[1, -1] = -50.0
    found = compute("novelty", recorded._replace(observation=tf.constant(observation)))
    np.testing.assert_allclose(found[0, -LIVED:], LIVED**-0.5, rtol=1e-6)
    np.testing.assert_allclose(found[1, -LIVED:-1], (LIVED - 1) ** -0.5, rtol=1e-6)
    assert found[1, -1] == pytest.approx(1.0) and not found[:, :-LIVED].any()
    counts = 1.0 / np.square(found[2, -LIVED:, 0])
    np.testing.assert_allclose(counts, np.round(counts), rtol=1e-5)
    assert 1.0 <= counts.min() < counts.max() < LIVED


def test_pairs_are_all_products_of_two_components(recorded):
    """O components have O (O + 1) / 2 pairs; [2, 3, 5] gives 4, 6, 10, 9, 15, 25."""
    size = recorded.observation.shape[2]
    found = compute("observation_pairs", recorded)
    channels = declared_channels(
        EnvironmentSpec(size, A), LossConfig(channels=("observation_pairs",))
    )
    assert found.shape == (P, N, channels[-1].width) == (P, N, size * (size + 1) // 2)
    three = tf.constant([[[2.0, 3.0, 5.0]]])
    found = compute("observation_pairs", recorded._replace(observation=three))
    np.testing.assert_array_equal(found, [[[4.0, 6.0, 10.0, 9.0, 15.0, 25.0]]])


@pytest.mark.parametrize("name", ["observation_pairs", "observation_as_it_is"])
def test_a_loss_for_any_body_cannot_see_what_has_the_size_of_one(name):
    config = LossConfig(channels=(name,), shared_over_actions=True)
    with pytest.raises(ConfigError, match=f"'{name}' depends on the observation"):
        declared_channels(EnvironmentSpec(11, 3), config)


@pytest.mark.parametrize("name", sorted(extra_channels.EXTRA_CHANNELS))
def test_a_life_never_depends_on_another(recorded, name):
    poison = np.ones((P, 1, 1), np.float32)
    poison[1] = np.nan
    ill = recorded._replace(
        observation=recorded.observation * poison,
        reward=recorded.reward * poison,
        raw_observation=recorded.raw_observation * poison,
    )
    one, other = compute(name, recorded), compute(name, ill)
    assert one[[0, 2]].tobytes() == other[[0, 2]].tobytes()


@pytest.mark.parametrize(
    ("changes", "declared"),
    [
        ({}, False),
        ({"reward": True}, True),
        ({"channels": ("novelty", "time_in_life")}, False),
        ({"channels": ("novelty", "future_reward")}, True),
        ({"channels": ("return_to_go",)}, True),
        ({"channels": ("observation_towards_reward",)}, True),
    ],
)
def test_a_loss_with_what_comes_from_rewards_sees_the_reward(changes, declared):
    assert sees_reward(LossConfig(**changes)) == declared


SEEING = {"future_reward", "return_to_go", "observation_towards_reward"}


@pytest.mark.parametrize("name", sorted(set(extra_channels.EXTRA_CHANNELS) - SEEING))
def test_the_others_do_not_see_the_reward(recorded, name):
    odd = recorded._replace(reward=recorded.reward * np.nan, raw_reward=recorded.reward * np.nan)
    assert compute(name, recorded).tobytes() == compute(name, odd).tobytes()


def test_an_observation_as_it_is_is_not_normalised(recorded):
    found = compute("observation_as_it_is", recorded)
    np.testing.assert_array_equal(found, recorded.raw_observation)
    assert not np.array_equal(found, recorded.observation)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("novel",), r"config.loss.channels='novel' is not a channel; .*'time_in_life'"),
        (("novelty", "novelty"), "declares 'novelty' a second time"),
        (("observation",), "declares 'observation' a second time"),
        (("minibatch",), "declares 'minibatch' a second time"),
    ],
)
def test_unusable_names_are_refused(names, message):
    with pytest.raises(ConfigError, match=message):
        declared_channels(EnvironmentSpec(11, 3), LossConfig(channels=names))


def test_the_channel_of_the_page_works(recorded):
    """The code of docs/evolve.md, as it is printed."""
    page = (ROOT / "docs" / "evolve.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "docs/evolve.md", "exec"), {})
    expected = np.square(recorded.action).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(compute("effort", recorded), expected, rtol=1e-6)


def test_a_users_own_is_one_entry(recorded):
    effort = ExtraChannel(lambda met, loss: tf.abs(met.action), "size of the action", width=A)
    register_channel("effort", effort)
    channels = declared_channels(EnvironmentSpec(O, A), LossConfig(channels=("effort",)))
    assert (channels[-1].name, channels[-1].width) == ("effort", A)
    found = extra_values(recorded, LossConfig(channels=("novelty", "effort")))
    assert list(found) == ["novelty", "effort"]
    np.testing.assert_array_equal(found["effort"], np.abs(recorded.action))
    with pytest.raises(ConfigError, match="a channel 'novelty' already exists"):
        register_channel("novelty", effort)


@pytest.mark.parametrize(
    ("name", "meaning", "message"),
    [
        ("two words", "odd", "cannot be called 'two words'"),
        ("odd", "of {nothing}", r"'odd': 'of \{nothing\}' may hold only .*KeyError"),
        ("odd", "of {", "may hold only .*ValueError"),
    ],
)
def test_a_users_own_that_cannot_be_described_is_refused(name, meaning, message):
    with pytest.raises(ConfigError, match=message):
        register_channel(name, ExtraChannel(lambda met, loss: met.reward, meaning))


@pytest.mark.parametrize("declared", [True, False])
def test_a_users_own_is_given_the_reward_only_if_it_says_so(recorded, declared):
    gain = ExtraChannel(lambda met, loss: 2.0 * met.reward, "gain", sees_reward=declared)
    register_channel("gain", gain)
    loss = LossConfig(channels=("gain",))
    assert sees_reward(loss) == declared
    np.testing.assert_array_equal(
        extra_values(recorded, loss)["gain"], 2.0 * declared * recorded.reward
    )


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (lambda met, loss: met.action, r"has the shape \[2, 512, 2\] .* \[2, 512, 1\]; correct"),
        (lambda met, loss: met.reward - tf.reduce_mean(met.reward), "must not mix rows"),
        (
            lambda met, loss: met.reward if tf.reduce_any(met.ended > 0) else met.ended,
            "has `if`, `for` or `while` on a tensor.*; use tf.where",
        ),
        (lambda met, loss: np.cumsum(met.reward, axis=1), r"fails \(NotImplementedError"),
        (
            lambda met, loss: tf.boolean_mask(met.reward, met.lived[0, :, 0] > 0, axis=1),
            r"has the shape \[2, 256, 1\]",
        ),
        (lambda met, loss: met.reward / met.lived, "values that are not finite"),
        (lambda met, loss: met.rewards, r"fails \(AttributeError: .*'rewards'\)"),
    ],
)
def test_a_users_own_that_cannot_be_used_is_refused(compute, message):
    """In one line, before anything is lived."""
    register_channel("odd", ExtraChannel(compute, "odd"))
    loss = LossConfig(channels=("novelty", "odd"))
    with pytest.raises(ConfigError, match=message) as it:
        check_channels(loss, EnvironmentSpec(O, A))
    assert "\n" not in str(it.value)


def test_usable_channels_pass():
    for name, channel in list(extra_channels.EXTRA_CHANNELS.items()):
        register_channel(f"own_{name}", channel)
    names = tuple(name for name in extra_channels.EXTRA_CHANNELS if name.startswith("own_"))
    spec = EnvironmentSpec(O, A, turning=((0, 1, 1.0),))
    check_channels(LossConfig(channels=("goal", *names)), spec)
