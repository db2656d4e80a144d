"""Writes the commands that repeat a run, a test or a study, from what its folder states."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from epg_tf.artifacts.artifact import SHIPPED
from epg_tf.evaluation.comparisons import LOSSES, OBJECTIVES, asked_for
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.zero_shot import NAMES
from epg_tf.tasks.registry import is_shipped


def repeat_run(path: Path, seed: int, begun: str | None = None, scale: float | None = None) -> str:
    """Returns the command that makes a run with the settings of the run in `path` once more.

    Args:
      path: Folder of the run.
      seed: Of the run.
      begun: What it began with; None: a fresh vector.
      scale: What the policy that it began with was multiplied by; None: nothing.
    """
    words = {"config": path, "seed": seed, "run_dir": f"{path}-again"}
    start = {"begin_with": begun, "begin_scale": scale}
    given = {name: value for name, value in start.items() if value is not None}
    return _command("meta-train", words | given)


def remark_on_files(families: Iterable[str]) -> str | None:
    """Returns what a command needs besides for families that no package has; None without such.

    Args:
      families: FAMILY, FAMILY@EPISODE_LIMIT or gymnasium:ID.
    """
    own = [name for name in families if not is_shipped(name.partition("@")[0])]
    if not own:
        return None
    return (
        f"With the settings above, from a config of your own that registers the family "
        f"{', '.join(own)}:"
    )


def repeat_study(path: Path, choices: Mapping[str, Any]) -> str:
    """Returns the command of a study; its settings are in the config.json of a folder `settings`.

    Args:
      path: Folder of the study.
      choices: What its study.json states beside the settings.
    """
    words = {
        name: ",".join(map(str, value)) if isinstance(value, list) else value
        for name, value in choices.items()
    }
    return _command(
        "evolution-study", {"config": "settings", **words, "output_dir": f"{path}-again"}
    )


def repeat_test(path: Path, about: Mapping[str, Any], results: Results) -> str:
    """Returns the command of a test; settings of another config are not known.

    Args:
      path: Folder of the test.
      about: What its summary states of it.
      results: Its table.

    Raises:
      KeyError, TypeError: The summary does not state what a test is.
    """
    agents = len(next(iter(results.groups().values())).agents())
    output = {"seed": about["seed"], "output_dir": f"{path}-again"}
    if "run" in about:
        words = {
            "run_dir": about["run"],
            "environment": results.task[0].partition(" ")[0],
            "agents": agents,
            "env_steps": about["env_steps"],
            "episodes": about["episodes"],
        }
        return _command("objective-progress", words | output)
    objective, methods = "environment" in about, set(results.method)
    menu = OBJECTIVES if objective else LOSSES
    rivals = [name for name in menu.methods if name in methods & set(menu.groups["all"])]
    trained = about.get("meta_trained", {})
    rivals += [f"{name.partition(' ')[0]}:{facts['folder']}" for name, facts in trained.items()]
    times = about.get("compare_updates", 1)
    words = {
        "loss": ",".join([about["loss"], *about.get("other_losses", [])]),
        "lives": agents,
        "compare": asked_for(menu, rivals, methods),
        "compare_updates": None if times == 1 else times,
    }
    specific = _of_objective(about) if objective else _of_loss(about, methods)
    return _command("meta-test", words | specific | output)


def _of_objective(about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "environment": f"{about['environment']}@{about['episode_limit']}",
        "env_steps": about["env_steps"],
        "episodes": about["episodes"],
        "reporting": about.get("phase") == "objective_reporting",
    }


def _of_loss(about: Mapping[str, Any], methods: set[str]) -> dict[str, Any]:
    alphas = {about.get("alpha"), *about.get("other_alphas", {}).values()}
    return {
        "updates": about["updates"] or None,  # none: a fixed policy, as in its evolution
        "alpha": about.get("alpha") if len(alphas) < 2 else None,  # then each has its own
        "physics": about["task"].get("physics"),
        "zero_shot": _fixed_policies(about) if methods & set(NAMES) else None,
        "reporting": about.get("phase") == "reporting",
    }


def _fixed_policies(about: Mapping[str, Any]) -> str | None:
    """Returns the folders of fixed policies of a test; "own" if they are in that of its loss; None
    if they are what is tested.
    """
    names = (name.partition(" ") for name in about.get("parameters_sha256", ()))
    found = [folder for method, _, folder in names if method in NAMES]
    tested = (about["loss"], *about.get("other_losses", ()))
    folders = [name for name in found if name not in tested]
    if found and not folders:
        return None
    homes = {Path(about["loss"]), SHIPPED / about["loss"]}
    return "own" if homes >= {Path(folder).parent for folder in folders} else ",".join(folders)


def _command(name: str, words: Mapping[str, Any]) -> str:
    """Returns a command, one flag a line; flags that are None or False are left out."""
    lines: Sequence[str] = [
        f"--{flag}" if value is True else shlex.quote(f"--{flag}={value}")
        for flag, value in words.items()
        if value is not None and value is not False
    ]
    return " \\\n    ".join([f"epg-tf {name}", *lines])
