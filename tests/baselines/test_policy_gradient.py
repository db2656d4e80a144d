"""Tests epg_tf.baselines.policy_gradient: PPO and REINFORCE with settings of their own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.baselines.inner_loop_method import InnerLoopMethod, InnerLoops
from epg_tf.baselines.method import Request
from epg_tf.baselines.policy_gradient import (
    beside_loss,
    beside_objective,
    fitted,
    nearest_divisor,
    no_loss,
)
from epg_tf.core.errors import ConfigError
from epg_tf.epg.baseline_settings import PPOConfig, ReinforceConfig
from epg_tf.epg.inner_loop import InnerLoopSettings
from epg_tf.metagenrl.settings import MetaGenRLExperiment

OWN_PPO = PPOConfig(12, 8, 3, 1e-2, log_std=-2.0, discount=0.5, gae_lambda=0.3)
OWN_REINFORCE = ReinforceConfig(6, 3, 2, 2e-2, log_std=-0.5, discount=0.6)


@pytest.mark.parametrize(
    ("number", "wanted", "found"),
    [(2048, 256, 256), (1000, 256, 250), (24, 256, 24), (97, 96, 97), (8, 3, 4), (2, 1, 1)],
)
def test_periods_are_divisors_of_the_lifetime(number, wanted, found):
    assert nearest_divisor(number, wanted) == found


@pytest.mark.parametrize(
    ("name", "kind", "period", "minibatch", "log_std", "discount"),
    [("ppo", "ppo", 12, 6, -2.0, 0.5), ("reinforce", "reinforce", 6, 3, -0.5, 0.6)],
)
def test_own_settings_replace_those_of_the_lifetime(
    make_tiny, name, kind, period, minibatch, log_std, discount
):
    tiny = make_tiny(inner={"kl_limit": 0.02, "centred_observations": False})
    experiment = dataclasses.replace(tiny, ppo=OWN_PPO, reinforce=OWN_REINFORCE)
    method = beside_loss(name, experiment)
    found = fitted(method.experiment, 24)
    found.check()
    assert (found.inner.update_period, found.inner.minibatch) == (period, minibatch)
    assert (found.loss.buffer_steps, found.policy.log_std) == (period, log_std)
    assert (found.surrogate.kind, found.surrogate.discount) == (kind, discount)
    lam = 0.3 if name == "ppo" else experiment.surrogate.gae_lambda
    assert (found.surrogate.gae_lambda, found.policy.hidden) == (lam, experiment.policy.hidden)
    assert found.inner.kl_limit == 0.0 and not found.inner.centred_observations
    assert method.inner_settings.fresh and method.inner_settings.alpha == 1.0


def test_a_lifetime_with_a_large_prime_factor_has_no_tiny_minibatches(make_tiny):
    """8128 is 64 x 127: a period of 2032 has 16 and 127 among its divisors, but not 64."""
    ppo = dataclasses.replace(OWN_PPO, update_period=2048, minibatch=64)
    method = beside_loss("ppo", dataclasses.replace(make_tiny(), ppo=ppo))
    found = fitted(method.experiment, 8128)
    assert (found.inner.update_period, found.inner.minibatch) == (2032, 127)
    with pytest.raises(ConfigError, match="^config.ppo: a life of 0 env steps has nothing to"):
        fitted(method.experiment, 0)


def test_beside_an_objective_sizes_rates_and_discount_are_those_of_its_evaluation():
    experiment = MetaGenRLExperiment.from_mapping(
        {
            "agent": {"hidden": (4,), "discount": 0.9},
            "baseline": {"update_period": 32, "minibatch": 16, "ppo_epochs": 3},
        }
    )
    found = {name: beside_objective(name, experiment) for name in ("ppo", "reinforce")}
    for method in found.values():
        settings = fitted(method.experiment, 64)
        settings.check()
        assert (settings.inner.update_period, settings.inner.minibatch) == (32, 16)
        assert settings.policy.hidden == settings.surrogate.value_hidden == (4,)
        assert settings.surrogate.discount == 0.9 and method.inner_settings.final_noise == 0.0
    ppo, reinforce = found["ppo"], found["reinforce"]
    assert ppo.experiment.surrogate.kind == "ppo" and ppo.inner_settings.epochs == 3
    assert reinforce.experiment.surrogate.kind == "reinforce_with_values"
    assert reinforce.inner_settings.epochs == 1
    rates = MetaGenRLExperiment().baseline
    assert ppo.inner_settings.learning_rate == rates.ppo_learning_rate
    assert reinforce.inner_settings.learning_rate == rates.reinforce_learning_rate


def test_with_the_period_of_the_learned_loss_ppo_is_ppo_as_epg(make_tiny):
    """Without memory: with one, agents draw their memory's weights as well."""
    tiny = make_tiny(loss={"memory_units": 0}, surrogate={"discount": 0.9})
    own = PPOConfig(8, 4, 2, 1e-2, log_std=0.0, discount=0.9, gae_lambda=0.95)
    request = Request(tiny.task, 0, "test", 4, 24, 2)
    found = beside_loss("ppo", dataclasses.replace(tiny, ppo=own)).train(request)
    with InnerLoops(tiny) as loops:
        same = InnerLoopMethod("ppo_as_epg", loops, no_loss, InnerLoopSettings(1.0, 1e-2, 2)).train(
            request
        )
    np.testing.assert_array_equal(found.final_return, same.final_return)
