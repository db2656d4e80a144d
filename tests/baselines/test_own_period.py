"""Tests epg_tf.baselines.own_period: PPO and REINFORCE with an M of their own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.baselines.inner_loop_method import InnerLoopMethod, InnerLoops
from epg_tf.baselines.method import Request
from epg_tf.baselines.own_period import OwnPeriodMethod, nearest_divisor, own_settings
from epg_tf.baselines.policy_gradient import no_loss
from epg_tf.core.errors import ConfigError
from epg_tf.epg.baseline_settings import PPOConfig, ReinforceConfig
from epg_tf.epg.inner_loop import Teaching


@pytest.mark.parametrize(
    ("number", "wanted", "found"),
    [(2048, 256, 256), (1000, 256, 250), (24, 256, 24), (97, 96, 97), (8, 3, 4), (4, 2, 2)],
)
def test_periods_are_divisors_of_the_life(number, wanted, found):
    assert nearest_divisor(number, wanted) == found
    assert nearest_divisor(2 * 8, 4) == 4 and nearest_divisor(2, 1) == 1


def test_a_life_with_a_large_prime_factor_has_no_tiny_minibatches(make_tiny):
    """8128 is 64 x 127: a period of 2032 has 16 and 127 among its divisors, but not 64."""
    ppo = PPOConfig(2048, 64, 1, 1e-2, log_std=0.0, discount=0.9, gae_lambda=0.9)
    found = own_settings(dataclasses.replace(make_tiny(), ppo=ppo), "ppo", 8128)
    assert (found.inner.update_period, found.inner.minibatch) == (2032, 127)


def test_own_settings_replace_those_of_the_life(make_tiny):
    ppo = PPOConfig(12, 8, 3, 1e-2, log_std=-2.0, discount=0.5, gae_lambda=0.3)
    other = ReinforceConfig(6, 3, 2, 2e-2, log_std=-0.5, discount=0.6)
    tiny = make_tiny(inner={"kl_limit": 0.02, "centred_observations": False})
    experiment = dataclasses.replace(tiny, ppo=ppo, reinforce=other)
    found = own_settings(experiment, "ppo", 24)
    found.check()
    assert (found.inner.update_period, found.inner.minibatch) == (12, 6)
    assert (found.policy.log_std, found.policy.hidden) == (-2.0, experiment.policy.hidden)
    assert (found.surrogate.kind, found.surrogate.discount) == ("ppo", 0.5)
    assert (found.surrogate.gae_lambda, found.loss.buffer_steps) == (0.3, 12)
    assert found.inner.final_episodes == experiment.inner.final_episodes
    assert found.inner.kl_limit == 0.0 and not found.inner.centred_observations
    found = own_settings(experiment, "reinforce", 24)
    assert (found.inner.update_period, found.inner.minibatch) == (6, 3)
    assert (found.surrogate.kind, found.surrogate.discount) == ("reinforce", 0.6)
    assert found.policy.log_std == -0.5


def test_a_life_without_env_steps_is_refused(make_tiny):
    with pytest.raises(ConfigError, match="^config.ppo: a life of 0 env steps has nothing to"):
        own_settings(make_tiny(), "ppo", 0)


@pytest.mark.slow
def test_with_the_period_of_the_learned_loss_ppo_is_ppo_as_epg(make_tiny):
    """Without memory: with one, agents draw their memory's weights as well."""
    tiny = make_tiny(loss={"memory_units": 0}, surrogate={"discount": 0.9})
    own = PPOConfig(8, 4, 2, 1e-2, log_std=0.0, discount=0.9, gae_lambda=0.95)
    request = Request(tiny.task, 0, "test", 4, 24, 2)
    found = OwnPeriodMethod("ppo", dataclasses.replace(tiny, ppo=own)).train(request)
    with InnerLoops(tiny) as loops:
        same = InnerLoopMethod("ppo_as_epg", loops, no_loss, Teaching(1.0, 1e-2, 2)).train(request)
    np.testing.assert_array_equal(found.final_return, same.final_return)
    changed = dataclasses.replace(own, update_period=24)
    other = OwnPeriodMethod("ppo", dataclasses.replace(tiny, ppo=changed)).train(request)
    assert other.env_steps.tolist() == [24] and (other.final_return != same.final_return).any()


@pytest.mark.slow
def test_rivals_of_a_loss_with_its_own_start_begin_afresh(make_tiny):
    """So the same agents as beside a loss without one."""
    finals = []
    for moves in ("loss", "both"):
        experiment = make_tiny(evolution={"moves": moves})
        request = Request(experiment.task, 0, "test", 4, 24, 2)
        finals.append(OwnPeriodMethod("ppo", experiment).train(request).final_return)
    np.testing.assert_array_equal(*finals)
