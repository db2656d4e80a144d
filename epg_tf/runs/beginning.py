"""Begins a run of evolution with what another run evolved: a loss, e.g. of easier tasks, or a fixed
linear policy, around which a loss begins as a valley.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epg_tf.artifacts.artifact import LearnedLoss, interface
from epg_tf.artifacts.loss_files import checksum
from epg_tf.core.errors import ConfigError
from epg_tf.core.parameters import split
from epg_tf.core.types import Array
from epg_tf.epg.meta_parameters import evolves_loss, initial_policy, loss_channels, start_shapes
from epg_tf.epg.settings import Experiment
from epg_tf.epg.state import EvolutionState, initial_state
from epg_tf.losses.extra_channels import TOWARDS_REWARD
from epg_tf.losses.initial_parameters import probabilities, with_floor
from epg_tf.losses.settings import AS_IT_IS
from epg_tf.runs.fixed_policy import on_observations_as_they_are
from epg_tf.runs.identity import SCALE
from epg_tf.tasks.registry import make_family

_SAME = ("kind", "channels", "parameter_shapes")  # of `interface`
_CENTRING = ("inner", "centred_observations")
_SAME_FUNCTION = (("loss", "leaky_slope"), ("policy", "activation"), _CENTRING)
_SAME_BODY = ("observation_size", "action_size", "discrete_actions")


def beginning(experiment: Experiment, seed: int, earlier: LearnedLoss | None) -> EvolutionState:
    """Returns the state before the first epoch: that of a fresh run, or one that holds what an
    earlier run evolved, whose env steps count as spent.

    A loss that begins with a fixed linear policy is the valley of `loss.start="quadratic"`, its
    floor at that policy's means; the rest of it is drawn from the seed. Where it sees observations
    as they are, the floor is at the policy's means whatever agents have normalised.

    Args:
      seed: Of the run; an earlier vector does not depend on it, all later draws do.
      earlier: What the run begins with; None: a fresh vector.

    Raises:
      ConfigError: What the earlier run evolved does not fit these settings.
    """
    fresh = initial_state(experiment, seed)
    if earlier is None:
        return fresh
    policy = not evolves_loss(earlier.experiment)
    if policy and experiment.evolution.moves == "loss":
        phi = _valley(experiment, fresh.phi, earlier)
    else:
        _check_sizes(experiment, earlier, _SAME)
        _check_functions(experiment, earlier, _SAME_FUNCTION)
        phi = earlier.phi
    return dataclasses.replace(fresh, phi=phi, best_phi=phi, env_steps=_spent(earlier))


def _spent(earlier: LearnedLoss) -> int:
    spent = earlier.facts.get("env_steps")
    if type(spent) is not int or not 0 <= spent < 2**62:
        raise ConfigError(
            f"begin_with={earlier.name}: its facts have env_steps={spent!r:.50}, which is no "
            "count; restore it from the run that wrote it"
        )
    return spent


def _check_sizes(experiment: Experiment, earlier: LearnedLoss, names: Sequence[str]) -> None:
    """Refuses a vector of other inputs or sizes, naming the first difference."""
    mine, its = interface(experiment), interface(earlier.experiment)
    for name in names:
        here, there = (_by_name(sizes[name]) for sizes in (mine, its))
        for part in [part for part in {**there, **here} if here.get(part) != there.get(part)][:1]:
            what = f"{name} {part}".strip().replace("_", " ")
            raise ConfigError(
                f"begin_with={earlier.name}: {what} is {there.get(part, 'not there')}, these "
                f"settings have {here.get(part, 'none')}; set config.loss, config.policy and "
                "config.evolution.moves as they were there"
            )


def _by_name(sizes: Any) -> Mapping[str, Any]:
    """Returns an entry of `interface` as name -> what it is."""
    if isinstance(sizes, list):
        return {channel["name"]: f"{channel['width']} ({channel['kind']})" for channel in sizes}
    return sizes if isinstance(sizes, dict) else {"": sizes}


def _check_functions(
    experiment: Experiment, earlier: LearnedLoss, names: Sequence[tuple[str, str]]
) -> None:
    """Refuses settings, by group and name, that make another function of the same parameters."""
    mine, its = experiment.to_mapping(), earlier.experiment.to_mapping()
    for group, name in names:
        here, there = mine[group][name], its[group][name]
        if here != there:
            raise ConfigError(
                f"begin_with={earlier.name} has config.{group}.{name}={there!r}, these settings "
                f"have {here!r}; set the same here"
            )


def _valley(experiment: Experiment, phi: Array, earlier: LearnedLoss) -> Array:
    """Returns phi, begun as a valley, with its floor at a fixed linear policy."""
    _check_sizes(experiment, earlier, _SAME_BODY)
    loss, its = experiment.loss, earlier.experiment
    turned = TOWARDS_REWARD in loss.channels
    as_it_is = AS_IT_IS in loss.channels and not turned
    blind = "observation" in loss.without and not (turned or as_it_is)
    if loss.start != "quadratic" or loss.shared_over_actions or blind:
        raise ConfigError(
            f"begin_with={earlier.name} is a policy, and a loss with config.loss.start="
            f"{loss.start!r}, shared_over_actions={loss.shared_over_actions} and without="
            f"{loss.without} has no place for one; set config.loss.start='quadratic', the second "
            "to False, and let it see observations"
        )
    if its.policy.hidden or its.policy.state_dependent_std:
        raise ConfigError(
            f"begin_with={earlier.name} is a policy with config.policy.hidden={its.policy.hidden}, "
            "and the floor of a valley is linear; evolve one with config.policy.hidden=()"
        )
    if turned and (its.inner.centred_observations or its.policy.observation_pairs):
        raise ConfigError(
            f"begin_with={earlier.name} is a policy with config.inner.centred_observations="
            f"{its.inner.centred_observations} and config.policy.observation_pairs="
            f"{its.policy.observation_pairs}, and {TOWARDS_REWARD!r} in config.loss.channels is "
            "neither centred nor multiplied; evolve one with both False, or leave the channel out"
        )
    if its.policy.observation_pairs and (as_it_is or "observation_pairs" not in loss.channels):
        raise ConfigError(
            f"begin_with={earlier.name} is a policy with config.policy.observation_pairs=True, and "
            f"a loss with config.loss.channels={loss.channels} does not see the same; have "
            f"'observation_pairs' among them, and not {AS_IT_IS!r}"
        )
    if as_it_is:
        _check_units(experiment, earlier)
        kernel, bias = on_observations_as_they_are(earlier)
    else:
        _check_functions(experiment, earlier, (_CENTRING,))
        policy = initial_policy(its, earlier.phi)
        kernel, bias = policy["output/kernel"], policy["output/bias"]
    spec = make_family(experiment.task).spec
    if spec.discrete_actions:
        kernel, bias = probabilities(kernel, bias, spec.choices)
    return with_floor(phi, loss_channels(experiment), loss, kernel, bias)


def _check_units(experiment: Experiment, earlier: LearnedLoss) -> None:
    """Refuses a policy that sees observations in other units than agents of these settings do."""
    mine, its = experiment.task, earlier.experiment.task
    ones = np.zeros(1), np.ones(1)
    here, there = (make_family(task).observation_units or ones for task in (mine, its))
    if not all(np.array_equal(one, other) for one, other in zip(here, there, strict=True)):
        raise ConfigError(
            f"begin_with={earlier.name} sees observations of config.task.family={its.family!r}, "
            f"frame_skip={its.frame_skip}, in other units than those of {mine.family!r}, "
            f"{mine.frame_skip}, and {AS_IT_IS!r} in config.loss.channels depends on units; evolve "
            "a policy with these settings of the task, or leave the channel out"
        )


def scaled(policy: LearnedLoss, scale: float) -> LearnedLoss:
    """Returns a fixed linear policy whose mean actions are those of another one times a factor.

    Args:
      policy: Moved by `evolution.moves="initialisation"`, without hidden layers.
      scale: Above 0 and finite.

    Raises:
      ConfigError: It is no such policy, or no such number.
    """
    experiment = policy.experiment
    if not 0.0 < scale < np.inf:
        raise ConfigError(f"begin_scale={scale} is not above 0 and finite; pass 0.5, for example")
    if evolves_loss(experiment) or experiment.policy.hidden:
        raise ConfigError(
            f"begin_scale={scale} is for fixed linear policies, and begin_with={policy.name} has "
            f"config.evolution.moves={experiment.evolution.moves!r} and config.policy.hidden="
            f"{experiment.policy.hidden}; leave it out"
        )
    if experiment.policy.state_dependent_std or interface(experiment)["discrete_actions"]:
        raise ConfigError(
            f"begin_scale={scale} is for policies whose last layer gives mean actions alone, and "
            f"that of begin_with={policy.name} gives deviations, too, or choices; leave it out"
        )
    shapes = start_shapes(experiment)
    weights = {name: values[0].copy() for name, values in split(policy.phi[None], shapes).items()}
    for name in ("output/kernel", "output/bias"):
        weights[name] *= np.float32(scale)
    phi = np.concatenate([values.ravel() for values in weights.values()])
    return dataclasses.replace(policy, phi=phi, facts={**policy.facts, SCALE: scale})


def facts_of(earlier: LearnedLoss | None) -> dict[str, Any]:
    """Returns what a run states of what it began with, for `RunIdentity`."""
    if earlier is None:
        return {}
    scale = {SCALE: earlier.facts[SCALE]} if SCALE in earlier.facts else {}
    return {"loss": earlier.name, **scale, "phi_sha256": checksum(earlier.phi)}
