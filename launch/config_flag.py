"""The flag --config of all commands that need settings, and what becomes of it."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import arguments, command_line  # command_line first: it silences the frameworks

from absl import flags
from ml_collections import config_flags

from epg_tf.core import communication
from epg_tf.runs.config_files import SYSTEMS, AnyExperiment, read_experiment
from epg_tf.core.errors import ConfigError
from epg_tf.core.settings import changes, flat
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.settings import Physics
from epg_tf.epg.baseline_settings import BASELINES
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs import config_files
from epg_tf.tasks.registry import is_packaged, make_family, named_environment

_CONFIG = config_flags.DEFINE_config_file(
    "config",
    None,
    "Settings: NAME or NAME:VARIANT of a config of the package "
    f"(`{command_line.program('list')}` lists them), the path of a file that ends in .py, or "
    "the folder of a run. --config.GROUP.FIELD=VALUE changes a setting; "
    f"`{command_line.program('settings')}` lists those of EPG with type, default, bounds and "
    "meaning.",
)
flags.adopt_module_key_flags(command_line)
_PRINT = flags.DEFINE_bool(
    "print_config", False, "Print the settings that this command would use, and end."
)

# Groups that a test takes from --config.
TESTED = ("task", "policy", "surrogate", *BASELINES)

_NAMES = {"epg": "EPG", "metagenrl": "MetaGenRL", "maml": "MAML", "rl2": "RL²"}
_SYSTEMS = {kind: _NAMES[system] for system, kind in SYSTEMS.items()}

Cost = Callable[[Any], Sequence[str]]


def is_given() -> bool:
    """Returns whether there is a --config."""
    return _CONFIG.value is not None


def experiment_of(
    kinds: tuple[type, ...],
    physics: Physics | None = None,
    cost: Cost | None = None,
) -> Any:
    """Returns the validated experiment of --config; for --print_config prints it and ends.

    Args:
      physics: What the command simulates, whatever the config of EPG says; None: as it says.
      cost: Returns lines on what the experiment costs, to be printed with it.

    Raises:
      UsageError: The flag was not given, or it is of another system.
      ConfigError: A setting is unusable.
    """
    read = read_experiment(_settings())
    if not isinstance(read, kinds):
        wanted = " and ".join(_SYSTEMS[kind] for kind in kinds)
        raise command_line.UsageError(
            f"--config={_typed()} holds settings of {_SYSTEMS[type(read)]}, and this command is "
            f"for {wanted}; name another, e.g. --config=point_goal"
        )
    _check_environments(read)
    if physics and isinstance(read, Experiment):
        read = read.in_physics(physics)
    return print_and_end(read, cost)


def _check_environments(read: AnyExperiment) -> None:
    """Raises UsageError or ConfigError if an environment cannot be made."""
    if not isinstance(read, MetaGenRLExperiment):
        for task in read.tasks if isinstance(read, Experiment) else (read.task,):
            make_family(task)
        return
    from epg_tf.metagenrl.agents import check_continuous  # here, as it imports TensorFlow

    for name in read.environments:
        try:
            check_continuous(named_environment(name))
        except ConfigError as error:
            several = "; several are written as \"('point_goal', 'random_hopper')\""
            advice = several if "," in name else ""
            raise command_line.UsageError(f"config.environments: {error}{advice}") from error


def with_test_settings(home: Experiment, physics: Physics = "exact") -> Experiment:
    """Returns the experiment a loss was made in, with task, policy and baselines of --config if
    that is given; for --print_config prints it and ends.

    Args:
      physics: Of the test, whatever those of evolution.

    Raises:
      UsageError: The loss does not fit the observations or actions there, or a
        --config.GROUP.FIELD has no effect.
    """
    if not is_given():
        return print_and_end(home.in_physics(physics))
    refuse_overrides(TESTED, "it is as in evolution; leave it out")
    other = Experiment.from_mapping(_settings())
    here, there = (make_family(each.in_physics("exact").task) for each in (home, other))
    any_body = home.loss.shared_over_actions and home.evolution.moves == "loss"
    sizes = () if any_body else ("observation_size", "action_size")
    for name in (*sizes, "discrete_actions"):
        if getattr(here, name) != getattr(there, name):
            raise command_line.UsageError(
                f"--config={_typed()}: {there.name} has {name} {getattr(there, name)}, the loss "
                f"was made for {getattr(here, name)}; use it in a family that has the same"
            )
    moved = dataclasses.replace(home, **{group: getattr(other, group) for group in TESTED})
    return print_and_end(moved.in_physics(physics))


def note_on_centring(home: Experiment, methods: Sequence[str]) -> str:
    """Returns a line for users where baselines of a test have settings of a --config whose agents
    see centred observations and the loss's do not, or the reverse; else it is empty.
    """
    if not is_given() or not {"ppo", "reinforce"} & {*methods}:
        return ""
    theirs = Experiment.from_mapping(_settings()).inner.centred_observations
    if theirs == home.inner.centred_observations:
        return ""
    return (
        f"--config={_typed()} has inner.centred_observations={theirs}, baselines have the loss's "
        f"here, {not theirs}; other settings may be better for them\n"
    )


def with_baseline(home: MetaGenRLExperiment) -> MetaGenRLExperiment:
    """Returns the experiment an objective was made in, with the baseline settings of --config if
    that holds settings of MetaGenRL; for --print_config prints it and ends.

    Another --config is loaded for the families that it registers.

    Raises:
      UsageError: A --config.GROUP.FIELD has no effect.
    """
    if not is_given():
        return print_and_end(home)
    if "baseline" not in _settings():
        _run_for_families()
        return print_and_end(home)
    refuse_overrides(("baseline",), "it is as in meta-training; leave it out")
    baseline = MetaGenRLExperiment.from_mapping(_settings()).baseline
    return print_and_end(dataclasses.replace(home, baseline=baseline))


def replaced(home: Any, now: Any) -> dict[str, tuple[Any, Any]]:
    """Returns name -> (then, now) of the settings that differ between two experiments of a kind."""
    found = changes(home.to_mapping(), now.to_mapping())
    return {name: (then, value) for name, then, value in found}


def load_families() -> None:
    """Runs the file of --config, if there is one, for the families that it registers.

    Raises:
      UsageError: A --config.GROUP.FIELD is given, which has no effect.
    """
    if is_given():
        print_and_end(_run_for_families())
    elif _PRINT.value:
        raise command_line.UsageError("--print_config: there is no --config to print; name one")


def _run_for_families() -> AnyExperiment:
    """Returns the experiment of --config, of which a command uses the families alone."""
    refuse_overrides((), "only the families that the file registers are used; leave it out")
    return read_experiment(_settings())


def refuse(*ignored: str, reason: str) -> None:
    """Refuses --config.GROUP.FIELD flags that a command ignores.

    Args:
      ignored: GROUP or GROUP.FIELD.

    Raises:
      UsageError: There is such a flag.
    """
    for name in arguments.overrides(sys.argv[1:]):
        if name in ignored or name.split(".")[0] in ignored:
            raise _no_effect(name, reason)


def refuse_overrides(honoured: Sequence[str], reason: str) -> None:
    """Refuses --config.GROUP.FIELD flags that a command cannot honour.

    Raises:
      UsageError: There is such a flag.
    """
    for name in arguments.overrides(sys.argv[1:]):
        if name.split(".")[0] not in honoured:
            raise _no_effect(name, reason)


def _no_effect(setting: str, reason: str) -> command_line.UsageError:
    """Returns the error for a --config.GROUP.FIELD, named with its value if one was typed."""
    value = arguments.given(f"config.{setting}", sys.argv[1:])
    typed = f"--config.{setting}={value}" if value else f"--config.{setting}"
    return command_line.UsageError(f"{typed} has no effect here: {reason}")


def print_and_end(experiment: Any, cost: Cost | None = None) -> Any:
    """Returns the experiment; for --print_config prints it, with its cost, and ends the process."""
    if not _PRINT.value:
        return experiment
    if not communication.launched_rank():  # alone, or rank 0
        for name, value in flat(experiment.to_mapping()):
            print(f"{name}={value!r}")
        for line in cost(experiment) if cost else ():
            print(line)
    command_line.end()


def test_flags_for(name: str) -> str:
    """Returns " --config=FILE" for a family that the file of --config registers, else "".

    With it come the settings of this command line that a test honours.
    """
    file = config_flag_for(name)
    overrides = arguments.override_words(sys.argv[1:], (*TESTED, "baseline")) if file else ()
    return file + "".join(f" {shlex.quote(word)}" for word in overrides)


def config_flag_for(name: str) -> str:
    """Returns " --config=FILE" as `test_flags_for` does, without any setting."""
    if not _typed() or is_packaged(name.partition("@")[0]):
        return ""
    return f" {shlex.quote(f'--config={_typed()}')}"


def file_of(experiment: Experiment) -> str | None:
    """Returns the --config that registers a family or channels, from any working folder; None where
    the package has them all.
    """
    from epg_tf.losses.extra_channels import are_shipped  # it imports TensorFlow

    known = is_packaged(experiment.task.family) and are_shipped(experiment.loss.channels)
    if not _typed() or known:
        return None
    return str(config_files.absolute(config_files.find_config(_typed())))


def _typed() -> str:
    """Returns the value of --config as the user typed it."""
    return arguments.given("config", sys.argv[1:]) or ""


def _settings() -> Mapping[str, Any]:
    """Returns the settings of --config, unchecked; raises UsageError where it was not given."""
    if _CONFIG.value is not None:
        settings: Mapping[str, Any] = _CONFIG.value.to_dict()
        return settings
    words = sys.argv[1:]
    if arguments.wants_resume(words) and (folder := arguments.given("run_dir", words)):
        raise command_line.UsageError(
            f"--run_dir={folder}: there is no run to resume in it; name the folder of a run, or "
            "give --config to start one, e.g. --config=point_goal"
        )
    raise command_line.UsageError("--config is missing; e.g. --config=point_goal")
