"""Names the settings that are worth trying in a family of which nothing is known but itself.

What `loss.start` means is in docs/evolve.md. A candidate is a whole experiment: a start with the
lifetimes, rates and deviations that suit it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import EnvironmentSpec
from epg_tf.epg import presets
from epg_tf.epg.settings import Experiment
from epg_tf.losses.settings import AS_IT_IS
from epg_tf.tasks.settings import TaskConfig

Fixed = Mapping[str, Mapping[str, Any]]
"""Settings that are not to be chosen: group -> field -> value."""

INNER_RATES = (3e-3, 1e-2, 3e-2)
"""Learning rates of agents that are tried with each start."""

_STEPS = ("sigma", "final_sigma", "learning_rate", "final_learning_rate")  # of evolution
_GENTLY = 0.3  # times the usual steps
_DEVIATIONS = (-0.5, 0.5)  # changes of policy.log_std that are tried
_LENGTHS = (0.5, 2.0)  # of lifetimes, in times the usual, that are tried

AROUND_POLICY = "around_policy"
"""Name of the candidate that begins around a fixed linear policy."""

_SHORTEST, _LONGEST, _EPISODES = 1024, 4096, 4  # of lifetimes, in env steps; episodes in one
_PERIOD = 32  # M of the presets
_RETURNS = "return_to_go"  # a channel of which a loss that is to see no reward has none
_MOST_PAIRS = 12  # dimensions of an observation of which all pairs are inputs of a small loss


class Agents(NamedTuple):
    """What is chosen of agents beside their start.

    Attributes:
      learning_rate: > 0.
      log_std: Of their policies at first, natural logarithm.
      updates: In a lifetime.
    """

    learning_rate: float
    log_std: float
    updates: int

    def __str__(self) -> str:
        return (
            f"learning rate {self.learning_rate:g}, log_std {self.log_std:g} and {self.updates} "
            "updates of agents"
        )

    @classmethod
    def of(cls, experiment: Experiment) -> Agents:
        """Returns those of an experiment."""
        inner = experiment.inner
        return cls(inner.learning_rate, experiment.policy.log_std, inner.updates)

    def live_in(self, experiment: Experiment) -> Experiment:
        """Returns an experiment with these."""
        inner = dataclasses.replace(
            experiment.inner, learning_rate=self.learning_rate, updates=self.updates
        )
        policy = dataclasses.replace(experiment.policy, log_std=self.log_std)
        return dataclasses.replace(experiment, inner=inner, policy=policy)


def neighbours(experiment: Experiment, field: str) -> list[Experiment]:
    """Returns an experiment with other deviations or lifetimes; the latter hold an episode, and
    there are none where they differ in evolution.

    Args:
      experiment: The usual one.
      field: "log_std" or "updates".
    """
    agents, inner = Agents.of(experiment), experiment.inner
    if field == "log_std":
        changed = [agents._replace(log_std=agents.log_std + change) for change in _DEVIATIONS]
    elif experiment.evolution.shortest_life or experiment.evolution.longest_life:
        changed = []
    else:
        least = max(2, -(-experiment.task.episode_limit // inner.update_period))
        lengths = (int(times * inner.updates) for times in _LENGTHS)
        changed = [agents._replace(updates=length) for length in lengths if length >= least]
    return [each.live_in(experiment) for each in changed]


def gentler(experiment: Experiment) -> Experiment:
    """Returns an experiment with less noise on the loss, and smaller steps of it: for a loss that
    is good as it begins, which the usual ones spoil.
    """
    usual = experiment.evolution
    changed = {field: _GENTLY * getattr(usual, field) for field in _STEPS}
    return dataclasses.replace(experiment, evolution=dataclasses.replace(usual, **changed))


def candidates(given: Experiment, fixed: Fixed, spec: EnvironmentSpec) -> dict[str, Experiment]:
    """Returns what to try, by name.

    Args:
      given: The family.
      fixed: Settings that are not to be chosen, from `fixed_settings`.
      spec: Of the family.

    Raises:
      ConfigError: There are several families, agents are not to learn from a loss, or the fixed
        settings fit no candidate.
    """
    if given.mix.families:
        raise ConfigError(
            f"config.mix.families={given.mix.families}: settings are chosen for one family; leave "
            "the others out"
        )
    found: dict[str, Experiment] = {}
    conflicts: list[ConfigError] = []
    period = fixed.get("inner", {}).get("update_period", _PERIOD)
    usually = _that_begin_so(_usual(given.task, spec, period), fixed.get("loss", {}))
    for name, usual in usually.items():
        try:
            made = with_settings(usual, fixed)
            # Fixed settings may make two the same.
            if (name != AROUND_POLICY or AS_IT_IS in made.loss.channels) and (
                made not in found.values()
            ):
                found[name] = made
        except ConfigError as error:
            conflicts.append(error)
    if not found:
        raise conflicts[0]
    for each in found.values():
        if each.inner.updates < 2 or each.evolution.moves != "loss":
            raise ConfigError(
                f"config.inner.updates={each.inner.updates} and config.evolution.moves="
                f"{each.evolution.moves!r}: settings are chosen for losses whose agents have at "
                "least 2 updates; set such ones, or leave out the minutes"
            )
    return found


def _usual(task: TaskConfig, spec: EnvironmentSpec, period: int) -> dict[str, Experiment]:
    """Returns the candidates of a family before any setting is fixed, but for M, the period."""
    updates = max(2, -(-lifetime(task.episode_limit) // period))
    rewarded = _of_length(presets.teaching(task, reward=True), updates)
    correlating = dataclasses.replace(rewarded.loss, start="correlating", products=0)
    products = max(rewarded.loss.products, spec.action_size)
    gradient = dataclasses.replace(rewarded.loss, products=products)
    returns = dataclasses.replace(gradient, channels=(_RETURNS,))
    identifying = dataclasses.replace(returns, identifying=8, buffer_steps=256)
    pairs = ("observation_pairs",) if spec.observation_size <= _MOST_PAIRS else ()
    actions, discrete = spec.action_size, spec.discrete_actions
    valley = presets.valley(rewarded.loss, actions, None if discrete else (-2.0, -0.5))
    return {
        "policy_gradient": dataclasses.replace(rewarded, loss=gradient),
        "return_gradient": dataclasses.replace(rewarded, loss=returns),
        "return_gradient_identifying": dataclasses.replace(rewarded, loss=identifying),
        "correlating": dataclasses.replace(rewarded, loss=correlating),
        "identifying": _of_length(presets.identifying(task, channels=pairs), updates),
        "centred": presets.laptop(task, updates, reward=True),
        "quadratic": dataclasses.replace(rewarded, loss=valley),
        AROUND_POLICY: presets.around_policy(rewarded, actions, discrete),
    }


def _that_begin_so(usual: dict[str, Experiment], fixed: Mapping[str, Any]) -> dict[str, Experiment]:
    """Returns the candidates whose start is the fixed one, or "centred" with another start, and
    that see no reward where there is to be none.
    """
    start = fixed.get("start")
    if start is not None:
        alike = {name: each for name, each in usual.items() if each.loss.start == start}
        usual = alike or {start: usual["centred"]}
    if fixed.get("reward") is False:
        usual = {k: each for k, each in usual.items() if _RETURNS not in each.loss.channels}
    return usual


def lifetime(episode_limit: int) -> int:
    """Returns the env steps of a lifetime in a family: some of its episodes, and a power of two.

    Args:
      episode_limit: Env steps of an episode, at most.
    """
    steps = _SHORTEST
    while steps < _LONGEST and steps < _EPISODES * episode_limit:
        steps *= 2
    return steps if steps >= episode_limit else -(-episode_limit // _PERIOD) * _PERIOD


def _of_length(experiment: Experiment, updates: int) -> Experiment:
    return dataclasses.replace(
        experiment, inner=dataclasses.replace(experiment.inner, updates=updates)
    )


def fixed_settings(given: Experiment, named: Collection[str]) -> dict[str, dict[str, Any]]:
    """Returns the settings that are not to be chosen, by group and field: those of `given` that are
    not the default, and the named ones. Those of the task are fixed always.
    """
    fixed: dict[str, dict[str, Any]] = {}
    usual = Experiment().to_mapping()
    for group, values in given.to_mapping().items():
        for field, value in values.items():
            chosen = value != usual[group][field] or f"{group}.{field}" in named
            if group == "task" or chosen:
                fixed.setdefault(group, {})[field] = value
    return fixed


def free_fields(fixed: Fixed, spec: EnvironmentSpec) -> set[str]:
    """Returns which fields of `Agents` may be chosen, and "steps" where those of evolution may.

    Args:
      fixed: From `fixed_settings`.
      spec: Of the family.
    """
    named = {*fixed.get("inner", {}), *fixed.get("policy", {})}
    useless = {"log_std"} if spec.discrete_actions else set()
    steps = set() if {*_STEPS} & {*fixed.get("evolution", {})} else {"steps"}
    return {*Agents._fields} - named - useless | steps


def with_settings(usual: Experiment, fixed: Fixed) -> Experiment:
    """Returns a candidate with fixed settings, checked.

    Raises:
      ConfigError: They do not fit it.
    """
    mapping = usual.to_mapping()
    for group, values in fixed.items():
        mapping[group] |= values
    return Experiment.from_mapping(mapping)


def in_time(chosen: Experiment, fixed: Fixed, epochs: int) -> Experiment:
    """Returns a candidate as it evolves for some epochs: outer learning rates anneal to the end,
    and there are ten validations.

    Args:
      chosen: The candidate.
      fixed: What stays; also the number of epochs.
      epochs: At least 1.
    """
    kept = fixed.get("evolution", {})
    epochs = kept.get("epochs", epochs)
    wanted: dict[str, Any] = {
        "epochs": epochs,
        "learning_rate_epochs": epochs,
        "validation_period": max(1, epochs // 10),
    }
    free = {field: value for field, value in wanted.items() if field not in kept}
    evolution = dataclasses.replace(chosen.evolution, **free)
    return dataclasses.replace(chosen, evolution=evolution)


def names_family_alone(given: Experiment, named: Collection[str]) -> bool:
    """Returns whether nothing but the task, and how it is computed, is chosen."""
    return not set(fixed_settings(given, named)) - {"task", "compute"}
