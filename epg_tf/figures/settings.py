"""Says what settings a need of a figure means, and whether a run or a test has them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epg_tf.baselines.method import learned_name
from epg_tf.core.config_files import AnyExperiment, load_experiment, read_experiment
from epg_tf.core.experiment import Experiment
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.rl2_experiment import RL2Experiment
from epg_tf.figures.declaration import Changes, LossNeed, Need, ProgressNeed, RunNeed, TestNeed
from epg_tf.figures.records import FoundRun, FoundTest
from epg_tf.runs import saved_settings
from epg_tf.tasks.registry import usual_limit

_STAGES = "objectives"  # folder of a run of MetaGenRL
_TASK = ("task.family", "task.frame_skip", "task.episode_limit", "task.range")
_NETWORK = ("policy.hidden", "policy.activation", "policy.observation_pairs")
_POLICY = (*_NETWORK, "policy.state_dependent_std")
_LOSS = (
    *("loss.reward", "loss.start", "loss.buffer_steps", "loss.filters", "loss.memory_units"),
    *("inner.updates", "inner.update_period", "evolution.moves"),
)
_EVOLUTION = ("evolution.fitness_from", "past.policies", "mix.families")
SAME = {
    "EPG": (*_TASK, *_POLICY, *_LOSS, *_EVOLUTION),
    "MAML": (*_TASK, *_NETWORK),
    "RL²": (*_TASK, "trial.episodes", "trial.exploratory_episodes"),
    "MetaGenRL": (
        "environments",
        "life_rounds",
        "steps_per_agent",
        "objective.time",
        "objective.value_inputs",
        "meta.virtual_steps",
        "meta.unit_virtual_steps",
        "meta.normalize_agent_gradients",
        "meta.warm_up",
        "past.states",
        "validation.agents",
        "validation.env_steps",
        "validation.episodes",
    ),
}
"""System -> settings in which a run must agree with what a figure needs. Other settings, such as
EPG's number of epochs, may differ; captions state how. (Runs of MetaGenRL must be equally long,
because objectives of different lengths stand side by side in a table.)"""


def system_of(experiment: AnyExperiment) -> str:
    """Returns the key of `SAME` for an experiment."""
    if isinstance(experiment, Experiment):
        return "EPG"
    if isinstance(experiment, MetaGenRLExperiment):
        return "MetaGenRL"
    return "RL²" if isinstance(experiment, RL2Experiment) else "MAML"


@functools.cache
def wanted(config: str, changes: Changes = ()) -> AnyExperiment:
    """Returns the settings of a config with some of them changed.

    Args:
      config: NAME or NAME:VARIANT of a shipped config.
      changes: Settings that are not those of the config.

    Raises:
      ConfigError: There is no such config or variant, or settings do not fit together.
    """
    settings: dict[str, Any] = load_experiment(config).to_mapping()
    for name, value in changes:
        group, _, field = name.rpartition(".")
        (settings[group] if group else settings)[field] = value
    return read_experiment(settings)


def of_run(need: Need) -> RunNeed:
    """Returns the run that a need is of."""
    return need if isinstance(need, RunNeed) else need.run


def of_test(need: TestNeed) -> AnyExperiment:
    """Returns the settings of a test: those of the run, with those that the test changes."""
    return wanted(need.run.config, need.run.changes + need.changes)


def learned_method(need: TestNeed) -> str:
    """Returns the key of what was learned in the table of a test."""
    experiment = wanted(need.run.config, need.run.changes)
    return learned_name(experiment) if isinstance(experiment, Experiment) else "objective"


def flat(experiment: AnyExperiment) -> dict[str, Any]:
    """Returns the settings as "GROUP.FIELD" -> value."""
    found = saved_settings.flat(experiment.to_mapping())
    return {name.removeprefix("config."): value for name, value in found}


def is_run(need: RunNeed | LossNeed, found: FoundRun) -> bool:
    """Returns whether a run is what a need asks for, finished or not."""
    run = of_run(need)
    return found.record.seed == run.seed and agree(
        wanted(run.config, run.changes), found.record.experiment
    )


def is_loss(need: RunNeed, experiment: AnyExperiment, facts: Mapping[str, Any]) -> bool:
    """Returns whether a loss is what the run of a need learns.

    Args:
      need: The run.
      experiment: Settings of the loss.
      facts: Of its meta-training.
    """
    return facts.get("seed") == need.seed and agree(wanted(need.config, need.changes), experiment)


def agree(experiment: AnyExperiment, other: AnyExperiment) -> bool:
    """Returns whether two experiments agree in what `SAME` names."""
    system = system_of(experiment)
    if system != system_of(other):
        return False
    mine, its = flat(experiment), flat(other)
    return all(mine[name] == its[name] for name in SAME[system])


def differences(need: RunNeed, found: AnyExperiment) -> dict[str, Any]:
    """Returns the settings in which a run differs from what a need declares: name -> its value.

    Args:
      need: The run that is asked for.
      found: Settings of the one that is there.
    """
    mine, its = flat(wanted(need.config, need.changes)), flat(found)
    ignored = ("compute.", "threads", "ppo.", "reinforce.", "sac.", "td3.", "baseline.")
    return {
        name: value
        for name, value in its.items()
        if mine.get(name) != value and not name.startswith(ignored)
    }


def is_test(need: TestNeed, found: FoundTest) -> bool:
    """Returns whether a test is what a need asks for."""
    methods = {learned_method(need), *need.methods, *(name for name, _ in need.trained)}
    about = found.about
    if not methods <= set(found.methods) or (need.curves and not found.has_curves):
        return False
    if "run" in about or about.get("compare_updates", 1) != 1 or about.get("other_losses"):
        return False
    if about.get("loss_facts", {}).get("seed") != need.run.seed:
        return False
    if Path(str(about.get("loss", ""))).parent.name == _STAGES:
        return False  # a stage of a run, not what it learned
    experiment = of_test(need)
    if isinstance(experiment, MetaGenRLExperiment):
        return _is_objective_test(need, experiment, found)
    return isinstance(experiment, Experiment) and _is_loss_test(need, experiment, found)


def _is_objective_test(need: TestNeed, wanted: MetaGenRLExperiment, found: FoundTest) -> bool:
    about = found.about
    family, _, limit = (need.environment or wanted.environments[0]).partition("@")
    return (
        about.get("environment") == family
        and about.get("episode_limit") == int(limit or usual_limit(family))
        and about.get("env_steps") == objective_life(need, wanted)
        and found.experiment is not None
        and agree(wanted, found.experiment)
    )


def objective_life(need: TestNeed, experiment: MetaGenRLExperiment) -> int:
    """Returns the env steps in which the agents of an objective's test learn."""
    return need.env_steps or (experiment.life_rounds or experiment.rounds) * experiment.round_steps


def _is_loss_test(need: TestNeed, wanted: Experiment, found: FoundTest) -> bool:
    """Returns whether a test is of such a loss, in exact physics; summaries of earlier versions
    state no settings of the loss, which then has to be one without past policies.
    """
    about = found.about
    alpha = wanted.evolution.final_guidance if need.alpha is None else need.alpha
    updates = wanted.inner.updates if need.updates is None else need.updates
    if about.get("updates") != updates or about.get("alpha", alpha) != alpha:
        return False
    task = about.get("task")
    if not isinstance(task, Mapping) or task.get("physics", "exact") != "exact":
        return False  # numbers of figures are those of exact physics
    if found.experiment is not None:
        return agree(wanted, found.experiment)
    return (
        _same(vars(wanted.task), task, _TASK)
        and _same(wanted.to_mapping()["policy"], about.get("policy"), _POLICY)
        and about.get("reward_declared") == wanted.loss.reward
        and not wanted.past.policies
        and wanted.evolution.fitness_from == "final_episodes"
        and found.methods[learned_method(need)].get("env_steps") == wanted.life_steps
    )


def _same(mine: Mapping[str, Any], stated: Any, names: tuple[str, ...]) -> bool:
    """Returns whether what a summary states of a group agrees; what it does not state does."""
    if not isinstance(stated, Mapping):
        return False
    fields = [name.rpartition(".")[2] for name in names]
    return all(_tuple(stated.get(name, mine[name])) == mine[name] for name in fields)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def is_progress(need: ProgressNeed, found: FoundTest, runs: list[FoundRun]) -> bool:
    """Returns whether a test is of the objectives that such a run kept.

    Args:
      need: What is asked for.
      found: The test.
      runs: Runs that are what `need.run` asks for; tests of earlier versions name theirs alone.
    """
    about = found.about
    steps = need.env_steps is None or about.get("env_steps") == need.env_steps
    if found.experiment is None:
        path = Path(str(about.get("run"))).resolve()
        of_them = any(path == run.shown.resolve() for run in runs)
    else:
        ended = "run" in about and about.get("run_finished") is True
        of_them = ended and is_loss(need.run, found.experiment, about.get("loss_facts") or {})
    return of_them and about.get("environment") == need.environment and steps and found.has_curves
