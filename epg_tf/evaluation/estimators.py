"""Estimators of evolution for the command evolution-study: what each changes in a config.

They differ in `evolution`, in how phi starts and in the lives of a shard; a life and its cost stay
the same.
"""

from __future__ import annotations

from typing import Any

from epg_tf.core.errors import ConfigError
from epg_tf.epg.meta_parameters import moves_loss
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation.study_costs import epoch_env_steps

# Table 1 and section 4 of EPG; the schedules are stretched to the epochs a budget allows.
_TABLE_1 = {
    "epochs": 5000,
    "learning_rate": 1e-2,
    "final_learning_rate": 1e-3,
    "learning_rate_epochs": 2000,
    "l2": 1e-3,
    "guidance": 1.0,
    "final_guidance": 0.0,
    "guidance_epochs": 500,
    "final_sigma": 0.0,
}
# Algorithm 1 and section 3.2 of EPG: independent noise vectors, one task per life, ranks of the
# mean returns of a vector's lives.
_ALGORITHM_1 = {
    "antithetic": False,
    "common_random_numbers": False,
    "fitness": "rank",
    "fitness_from": "final_episodes",
    "shortest_life": 0,
    "longest_life": 0,
}
_AS_DRAWN: dict[str, dict[str, Any]] = {
    "loss": {"start": "random", "mean_limit": 0.0},
    "inner": {"centred_observations": True},
}

OVERRIDES: dict[str, dict[str, dict[str, Any]]] = {
    # The config as it is.
    "config": {},
    # EPG as published; sigma is not printed there, 0.01 is that of the authors' code, as in
    # epg/presets.py.
    "paper": {"evolution": {**_TABLE_1, **_ALGORITHM_1, "sigma": 0.01}, **_AS_DRAWN},
    # The same with the sigma of our laptop configs, which suits a small loss better.
    "paper_sigma": {"evolution": {**_TABLE_1, **_ALGORITHM_1, "sigma": 0.1}, **_AS_DRAWN},
    # Algorithm 1 alone: start, sigma and learning rates are the config's, because Table 1's are for
    # 5000 epochs.
    "algorithm_1": {"evolution": {**_ALGORITHM_1, "guidance": 0.0, "guidance_epochs": 0}},
    # The config's, but with a random start, ranks over all lives and antithetic pairs (Salimans et
    # al. 2017).
    "pairs": {
        "evolution": {"antithetic": True, "common_random_numbers": True, "fitness": "rank"},
        "loss": {"start": "random"},
    },
    # The config's, with one thing removed. Without common numbers, ranks within pairs mean nothing.
    "no_common_numbers": {"evolution": {"common_random_numbers": False, "fitness": "rank"}},
    "random_start": {"loss": {"start": "random"}},
    "rank": {"evolution": {"fitness": "rank"}},
    "final_episodes": {"evolution": {"fitness_from": "final_episodes"}},
    # The config's, with one option added; docs/evolution.md lists these.
    "rank_in_pair": {
        "evolution": {"antithetic": True, "common_random_numbers": True, "fitness": "rank_in_pair"}
    },
    "short_lives": {"evolution": {"shortest_life": 8}},  # or as long as an episode, see `applied`
    "last_episodes": {"evolution": {"fitness_from": "last_episodes"}},
    "whole_life": {"evolution": {"fitness_from": "whole_life"}},
    "weighted": {"evolution": {"fitness_from": "weighted"}},
    # Four times the lives in an epoch, so a quarter of the epochs, and a lower learning rate.
    "many_lives": {"evolution": {"learning_rate": 2e-2}},
}
# R of EPG, W / V = 256 / 64, with the config's noise vectors.
LIVES_PER_VECTOR = {"paper": 4, "paper_sigma": 4, "algorithm_1": 4}
MORE_VECTORS = {"many_lives": 4}  # times the config's noise vectors, with the config's R
_GUIDANCE = ("guidance", "final_guidance", "guidance_epochs")


def applied(experiment: Experiment, name: str, env_steps: float) -> Experiment:
    """Returns an experiment with the estimator `name`, as long as a budget allows.

    The lives of all its epochs take about `env_steps`; they take fewer in families whose episodes
    may end early, because `epoch_env_steps` counts final episodes at their limit. Where the fitness
    is of episodes of learning, the shortest life holds one at its limit. Learning rate and
    guidance anneal over the same share of all epochs as before. There is no validation, which
    would take more env steps.

    Args:
      experiment: Settings of a config.
      name: A key of `OVERRIDES`.
      env_steps: Budget of meta-training.

    Raises:
      ConfigError: The estimator does not fit the config, which may be of a mix of families, or the
        budget is less than an epoch.
    """
    if experiment.mix.families:
        raise ConfigError(
            f"config.mix.families={experiment.mix.families}: estimators are compared on one "
            "family; leave it empty"
        )
    mapping = experiment.to_mapping()
    for group, values in OVERRIDES[name].items():
        mapping[group].update(values)
    evolution = mapping["evolution"]
    if evolution["shortest_life"] and evolution["fitness_from"] != "final_episodes":
        episode = -(-experiment.task.episode_limit // experiment.inner.update_period)
        evolution["shortest_life"] = max(evolution["shortest_life"], episode)
    if not moves_loss(experiment):  # agents learn by PPO alone, so guidance stays
        evolution.update({field: getattr(experiment.evolution, field) for field in _GUIDANCE})
    lives, vectors = evolution["lives"], evolution["noise_vectors"]
    evolution["noise_vectors"] = vectors * MORE_VECTORS.get(name, 1)
    evolution["lives"] = LIVES_PER_VECTOR.get(name, lives // vectors) * evolution["noise_vectors"]
    compute = mapping["compute"]  # an epoch keeps its number of shards
    compute["shard_lives"] = max(1, compute["shard_lives"] * evolution["lives"] // lives)
    evolution["validation_period"] = 0
    cost, before = epoch_env_steps(Experiment.from_mapping(mapping)), evolution["epochs"]
    if env_steps < cost:
        raise ConfigError(
            f"env_steps={env_steps:g} is below the {cost:g} that one epoch of the estimator "
            f"{name!r} takes; allow more"
        )
    evolution["epochs"] = epochs = round(env_steps / cost)
    for schedule in ("learning_rate_epochs", "guidance_epochs"):
        evolution[schedule] = round(evolution[schedule] * epochs / before)
    return Experiment.from_mapping(mapping)
