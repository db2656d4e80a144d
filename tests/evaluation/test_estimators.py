"""Estimators: each fits every config, keeps to the budget, and means what its name says."""

import dataclasses
import math

import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.evaluation import estimators
from epg_tf.evaluation.study_costs import epoch_env_steps
from tests.configs.test_configs import SETTINGS, experiment

BUDGET = 20e6


def test_a_mix_of_families_is_refused():
    with pytest.raises(ConfigError, match="compared on one family"):
        estimators.applied(experiment("mixed:laptop"), "config", BUDGET)


@pytest.mark.parametrize("config", sorted(SETTINGS.keys() - {"mixed:laptop"}))
@pytest.mark.parametrize("name", estimators.OVERRIDES)
def test_an_estimator_fits_a_config(config, name):
    before = experiment(config)
    made = estimators.applied(before, name, 1e9)  # validates
    cost = epoch_env_steps(made)
    assert abs(made.evolution.epochs * cost - 1e9) <= cost / 2
    assert made.evolution.validation_period == 0
    per_vector = before.evolution.lives // before.evolution.noise_vectors
    more = {
        "paper": 4 // per_vector,
        "paper_sigma": 4 // per_vector,
        "algorithm_1": 4 // per_vector,
        "many_lives": 4,
    }.get(name, 1)
    assert made.evolution.lives == more * before.evolution.lives
    assert made.compute.shard_lives == more * before.compute.shard_lives
    assert before == dataclasses.replace(
        made,
        evolution=before.evolution,
        compute=before.compute,
        loss=dataclasses.replace(
            made.loss, start=before.loss.start, mean_limit=before.loss.mean_limit
        ),
        inner=dataclasses.replace(
            made.inner, centred_observations=before.inner.centred_observations
        ),
    )


@pytest.mark.parametrize(
    ("config", "updates"),
    [
        ("point_goal:", 8),
        ("directional_hopper:laptop", 8),
        ("directional_half_cheetah:night", 32),
    ],
)
def test_the_shortest_life_holds_an_episode_where_the_fitness_needs_one(config, updates):
    """The last has whole lives as the fitness; 32 updates of 32 env steps, episodes of 1000."""
    made = estimators.applied(experiment(config), "short_lives", 1e9)
    assert made.evolution.shortest_life == updates


@pytest.mark.parametrize("name, sigma", [("paper", 0.01), ("paper_sigma", 0.1)])
def test_the_papers_estimator_on_a_laptop(name, sigma):
    """4 lives for each of the config's 32 vectors: 20e6 / (128 * (1024 + 75)) = 142.17 epochs; 40 %
    and 10 % anneal.
    """
    made = estimators.applied(experiment("point_goal:"), name, BUDGET).evolution
    assert (made.epochs, made.learning_rate_epochs, made.guidance_epochs) == (142, 57, 14)
    assert (made.lives, made.noise_vectors, made.sigma, made.l2) == (128, 32, sigma, 1e-3)
    assert (made.learning_rate, made.final_learning_rate, made.guidance, made.final_guidance) == (
        1e-2,
        1e-3,
        1,
        0,
    )
    assert not (made.antithetic or made.common_random_numbers or made.shortest_life)
    assert (made.fitness, made.fitness_from) == ("rank", "final_episodes")


@pytest.mark.parametrize("name", ["paper", "paper_sigma"])
def test_the_papers_estimator_has_none_of_what_a_config_adds(name):
    """RandomReacher's night limits policies and has noise that becomes smaller and short lives; the
    paper has none of it.
    """
    config = experiment("random_reacher:night")
    made = estimators.applied(config, name, 1e9)
    assert config.evolution.final_sigma > 0 == made.evolution.final_sigma
    assert config.loss.mean_limit > 0 == made.loss.mean_limit
    assert made.inner.centred_observations and not config.inner.centred_observations
    assert config.evolution.longest_life > 0 == made.evolution.longest_life


@pytest.mark.parametrize("config", ["random_hopper:paper", "goal_ant:paper"])
def test_on_the_papers_configs_it_changes_nothing_but_the_length(config):
    before = experiment(config)
    made = estimators.applied(before, "paper", 5000 * epoch_env_steps(before))
    assert made == dataclasses.replace(
        before, evolution=dataclasses.replace(before.evolution, validation_period=0)
    )


def refined(**evolution):
    """A config with much that estimators take away."""
    made = experiment("point_goal:")
    values = {
        "fitness": "rank_in_pair",
        "shortest_life": 8,
        "learning_rate_epochs": 50,
        **evolution,
    }
    return dataclasses.replace(
        made,
        loss=dataclasses.replace(made.loss, start="centred"),
        evolution=dataclasses.replace(made.evolution, **values),
    )


def test_what_is_taken_away():
    """Lives of 8 to 32 updates are shorter, so that a budget lasts longer; half the epochs anneal,
    as before.
    """
    made = {name: estimators.applied(refined(), name, BUDGET) for name in estimators.OVERRIDES}
    told = {
        name: (
            e.evolution.common_random_numbers,
            e.evolution.fitness,
            e.evolution.shortest_life,
            e.loss.start,
        )
        for name, e in made.items()
    }
    assert told == {
        "config": (True, "rank_in_pair", 8, "centred"),
        "paper": (False, "rank", 0, "random"),
        "paper_sigma": (False, "rank", 0, "random"),
        "pairs": (True, "rank", 8, "random"),
        "no_common_numbers": (False, "rank", 8, "centred"),
        "random_start": (True, "rank_in_pair", 8, "random"),
        "rank": (True, "rank", 8, "centred"),
        "many_lives": (True, "rank_in_pair", 8, "centred"),
        "algorithm_1": (False, "rank", 0, "centred"),
        **dict.fromkeys(
            (
                "rank_in_pair",
                "short_lives",
                "final_episodes",
                "last_episodes",
                "whole_life",
                "weighted",
            ),
            (True, "rank_in_pair", 8, "centred"),
        ),
    }
    mean = sum(k * p for k, p in enumerate_lifetimes(8, 32)) * 32
    assert made["config"].evolution.epochs == round(BUDGET / (32 * mean)) > 800
    assert made["config"].evolution.learning_rate_epochs == round(
        made["config"].evolution.epochs / 2
    )


def test_algorithm_1_alone_keeps_the_configs_rates():
    before = experiment("point_goal:").evolution
    made = estimators.applied(experiment("point_goal:"), "algorithm_1", BUDGET).evolution
    assert (made.antithetic, made.lives, made.noise_vectors, made.guidance) == (False, 128, 32, 0.0)
    assert (made.sigma, made.learning_rate, made.final_learning_rate, made.l2) == (
        before.sigma,
        before.learning_rate,
        before.final_learning_rate,
        before.l2,
    )


def test_one_option_more():
    made = {
        name: estimators.applied(experiment("point_goal:"), name, BUDGET).evolution
        for name in ("config", "short_lives", "final_episodes", "last_episodes")
    }
    told = {name: (e.shortest_life, e.fitness_from) for name, e in made.items()}
    assert told == {
        "config": (0, "whole_life"),
        "short_lives": (8, "whole_life"),
        "final_episodes": (0, "final_episodes"),
        "last_episodes": (0, "last_episodes"),
    }
    assert made["config"].epochs == round(BUDGET / (32 * 1024))  # no final episodes
    assert made["final_episodes"].epochs == round(BUDGET / (32 * (1024 + 75)))


def test_four_times_the_lives_leave_a_quarter_of_the_epochs():
    """128 lives of 1024 env steps; all epochs anneal, as in the config."""
    made = estimators.applied(experiment("point_goal:"), "many_lives", BUDGET)
    evolution = made.evolution
    assert (evolution.lives, evolution.noise_vectors, made.compute.shard_lives) == (128, 128, 128)
    assert (evolution.learning_rate, evolution.final_learning_rate) == (2e-2, 5e-3)
    assert evolution.epochs == evolution.learning_rate_epochs == round(BUDGET / (128 * 1024))


def enumerate_lifetimes(shortest, longest):
    """Yields each length with its probability, by the bounds of the draws that lead to it."""
    for updates in range(shortest, longest + 1):
        yield updates, math.log((updates + 1) / updates) / math.log((longest + 1) / shortest)


def test_pairs_are_made_where_a_config_has_none():
    made = estimators.applied(experiment("random_hopper:paper"), "pairs", 1e9).evolution
    assert made.antithetic and made.common_random_numbers and made.noise_vectors == 64


def test_less_than_an_epoch_is_refused():
    with pytest.raises(ConfigError, match="env_steps=32000 is below the 32768"):
        estimators.applied(experiment("point_goal:"), "config", 32000)


def test_what_does_not_fit_is_a_config_error():
    odd = refined(
        lives=5,
        noise_vectors=5,
        antithetic=False,
        common_random_numbers=False,
        fitness="rank",
    )
    with pytest.raises(ConfigError, match="noise_vectors=5 must be even"):
        estimators.applied(odd, "pairs", BUDGET)
