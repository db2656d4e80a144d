"""Tunes the learning rate of a method that objectives are compared with, on streams that no test
meets.

    epg-tf tune-objective-rivals --config=metagenrl_laptop \\
        --method=off_policy_reinforce

Prints the setting to write into the config's `baseline`. Other settings can be tried as
--config.baseline.FIELD=VALUE.
"""

from __future__ import annotations

import dataclasses

from . import command_line, config_flag  # first: it silences the frameworks

import numpy as np
from absl import flags

from epg_tf.core import formatting
from epg_tf.metagenrl.settings import BaselineConfig
from epg_tf.core.threads import configure_tensorflow, cpus
from epg_tf.evaluation.evaluate_objective import evaluate_rival
from epg_tf.reports.tables import label
from .evaluation_flags import request_of

_FIELDS = {
    "off_policy_reinforce": "off_policy_learning_rate",
    "ppo": "ppo_learning_rate",
    "reinforce": "reinforce_learning_rate",
    "td3": "td3_learning_rate",
    "ddpg": "ddpg_learning_rate",
}
_SETTINGS = {
    "off_policy_reinforce": ("gae_lambda",),
    "ppo": ("update_period", "minibatch", "ppo_epochs"),
    "reinforce": ("update_period", "minibatch"),
    "td3": (),
    "ddpg": (),
}
"""What else each has in config.baseline."""

flags.adopt_module_key_flags(config_flag)
_METHOD = flags.DEFINE_enum("method", "off_policy_reinforce", list(_FIELDS), "What to tune.")
_RATES = flags.DEFINE_list("learning_rates", ["3e-4", "1e-3", "3e-3", "1e-2"], "Rates to try.")
_ENVIRONMENT = flags.DEFINE_string(
    "environment", None, "FAMILY or FAMILY@EPISODE_LIMIT; as in training by default."
)
_AGENTS = flags.DEFINE_integer("agents", 8, "Agents per rate.", lower_bound=2, upper_bound=10**6)
_ENV_STEPS = flags.DEFINE_integer(
    "env_steps",
    None,
    "Env steps of learning per agent; as in training by default.",
    lower_bound=1,
    upper_bound=10**8,
)
_EPISODES = flags.DEFINE_integer(
    "episodes", 5, "Episodes per agent and evaluation.", lower_bound=1, upper_bound=10**4
)
_SEED = flags.DEFINE_integer("seed", 0, "Names the agents' streams.", lower_bound=0)


def main(argv: list[str]) -> int:
    """Tries every rate on the same agents and names the best; returns the exit code."""
    del argv
    field, name = _FIELDS[_METHOD.value], _METHOD.value
    _refuse_unused(field, name)
    experiment = config_flag.metagenrl_experiment()
    rates = command_line.positive_numbers("learning_rates", _RATES.value, float)
    request = request_of(
        experiment,
        _ENVIRONMENT.value,
        _SEED.value,
        _AGENTS.value,
        _ENV_STEPS.value,
        _EPISODES.value,
    )
    request = dataclasses.replace(request, phase="objective_tuning")
    configure_tensorflow(experiment.threads or cpus(1))
    print(
        f"{label(name)}, {request.agents} agents in {request.task.family}, "
        f"{formatting.count(request.env_steps)} env steps each; mean final return and 95 % interval"
    )
    means = {}
    for rate in rates:
        baseline = dataclasses.replace(experiment.baseline, **{field: rate})
        tried = dataclasses.replace(experiment, baseline=baseline)
        row = evaluate_rival(name, tried, request)
        means[rate] = np.nan_to_num(row.final_return_mean, nan=-np.inf)
        print(
            f"  {field}={rate:<8g} {row.final_return_mean:9.2f}  [{row.ci95[0]:.2f}, "
            f"{row.ci95[1]:.2f}]  failed {row.failed_lives}",
            flush=True,
        )
    best = max(rates, key=lambda rate: means[rate])
    if not np.isfinite(means[best]):
        raise command_line.UsageError(
            f"--learning_rates={','.join(_RATES.value)}: agents failed with every one of them; "
            "try smaller rates"
        )
    edge = (
        "; the largest or smallest tried, so try more" if best in (min(rates), max(rates)) else ""
    )
    print(
        f"best: BaselineConfig({field}={best:g}), mean {means[best]:.2f}; write it into the "
        f"config{edge}"
    )
    return 0


def _refuse_unused(field: str, name: str) -> None:
    """Refuses settings that the method does not have, and its rate, which --learning_rates names.

    Args:
      field: Of the rate, in config.baseline.
      name: Of the method.
    """
    config_flag.refuse(f"baseline.{field}", reason="--learning_rates takes its place")
    groups = ("meta", "objective", "past", "validation")
    config_flag.refuse(*groups, reason="no objective takes part; leave it out")
    rounds = ("failed_rounds", "objective_period")
    config_flag.refuse(*rounds, reason="there is no meta-training in this command; leave it out")
    others = {f"baseline.{known.name}" for known in dataclasses.fields(BaselineConfig)}
    own = {f"baseline.{known}" for known in _SETTINGS[name]}
    config_flag.refuse(*others - own, reason=f"it is not of --method={name}; leave it out")


if __name__ == "__main__":
    command_line.run(main)
