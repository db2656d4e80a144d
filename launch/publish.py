"""Adds a learned and evaluated loss or objective to those of the package, with a card for hubs.

For example:

    epg-tf publish --run_dir=runs/hopper --evaluations=runs/hopper-test,runs/hopper-adaptation \\
        --name=random_hopper
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

flags.adopt_module_key_flags(config_flag)
_RUN_DIR = flags.DEFINE_string(
    "run_dir",
    None,
    "Finished run of epg-tf meta-train, whose best/ is published; for an objective also its own "
    "folder.",
)
_EVALUATIONS = flags.DEFINE_list(
    "evaluations",
    None,
    "Folders of what was found for it, separated by commas: of epg-tf meta-test, also with longer "
    "lives or beside losses of other seeds, and of epg-tf study.",
)
_NAME = flags.DEFINE_string("name", None, "Name that it gets, e.g. random_hopper.")
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder of published losses; by default that of the package."
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace what was published by that name; fixed policies stay."
)

command_line.parse_flags(__name__)

from epg_tf.artifacts.loss_files import PRETRAINED
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.epg.settings import Experiment

if TYPE_CHECKING:  # they import TensorFlow, and flags are read before it is
    from epg_tf.artifacts.artifact import Artifact

_STUDIES = ("adaptation", "robustness")  # files of epg-tf study


def main(argv: list[str]) -> int:
    """Publishes an artifact; returns the exit code."""
    del argv
    run = Path(command_line.required(_RUN_DIR, "runs/hopper"))
    config_flag.load_families()
    name = command_line.required(_NAME, "random_hopper")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        raise command_line.UsageError(
            f"--name={name!r} must be lower-case letters, digits and underscores"
        )
    found = {folder: _read(folder) for folder in _folders()}
    from epg_tf.artifacts.artifact import is_objective, load
    from epg_tf.artifacts.cards import pretrained_card

    objective = is_objective(run)
    learned: Artifact[Any] = load(str(run if objective else run / "best"))
    read = {} if objective else files.read_json(run / "summary.json", "a finished run, --run_dir")
    try:
        tests, studies = _card_tests(found, learned)
        text = pretrained_card(name, learned, tests, studies, read or None)
        if not objective:
            learned = _as_evaluated(learned, tests[0]["about"])
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise command_line.UsageError(
            f"--run_dir={run} or --evaluations={','.join(found)} holds the results of something "
            f"else, or of another version ({files.one_line(error)}); name a finished run "
            "and what was found for its loss"
        ) from error
    folder = _write(name, text, learned)
    function = "load_objective" if objective else "load_loss"
    print(f"{name} is in {folder}; use it with --loss={name} or epg_tf.{function}({name!r})")
    return 0


def _folders() -> Sequence[str]:
    folders = _EVALUATIONS.value or []
    if not folders or "" in folders or len({*folders}) < len(folders):
        raise command_line.UsageError(
            f"--evaluations={','.join(folders)} names no folder, or one twice; for example "
            "--evaluations=runs/hopper-test"
        )
    return list(folders)


def _read(folder: str) -> tuple[str, dict[str, Any]]:
    """Returns what was measured, and what was found."""
    for kind in _STUDIES:
        if (path := Path(folder) / f"{kind}.json").exists():
            return kind, files.read_json(path, "a study, --evaluations")
    return "test", files.read_json(Path(folder) / "summary.json", "a test, --evaluations")


def _card_tests(
    found: Mapping[str, tuple[str, dict[str, Any]]], learned: Artifact[Any]
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Returns the evaluations and the studies that a card tells of, see `pretrained_card`.

    Raises:
      UsageError: Something was found for another artifact, in coarse physics, or for two of a seed.
      LookupError, TypeError, AttributeError, ValueError: It is the result of something else.
    """
    from epg_tf.artifacts.cards import losses_of

    for folder, (_, result) in found.items():
        about, given = result["about"], f"--evaluations={folder}"
        losses = [*losses_of(result).values()]
        if learned.facts not in losses:
            raise command_line.UsageError(
                f"{given} tested something else than --run_dir={_RUN_DIR.value}; run "
                f"{command_line.program('meta_test')} --loss={learned.name}"
            )
        if len({facts["seed"] for facts in losses}) < len(losses):
            raise command_line.UsageError(
                f"{given} has two losses of one seed; test losses of different seeds"
            )
        if about.get("task", {}).get("physics", "exact") != "exact":
            raise command_line.UsageError(
                f"{given} was measured in coarse physics; cards report exact physics, so leave "
                "--physics out of the test"
            )
    studies = {kind: result for kind, result in found.values() if kind in _STUDIES}
    tests = [result for kind, result in found.values() if kind == "test"]
    if not tests:
        raise command_line.UsageError(
            f"--evaluations={','.join(found)} has no folder of {command_line.program('meta_test')}"
        )
    return tests, studies


def _as_evaluated(learned: Artifact[Any], about: Mapping[str, Any]) -> Artifact[Any]:
    """Returns a loss of EPG with surrogate and baselines as they were beside it in a test."""
    baselines = {"surrogate": about["baseline"], **about.get("rivals", {})}
    experiment = Experiment.from_mapping({**learned.experiment.to_mapping(), **baselines})
    return dataclasses.replace(learned, experiment=experiment)


def _write(name: str, text: str, learned: Artifact[Any]) -> Path:
    """Writes an artifact and its card, new or in place of another; returns their folder."""
    folder = Path(_OUTPUT_DIR.value or PRETRAINED) / name
    try:
        files.prepare_folder(folder, (), overwrite=_OVERWRITE.value)
    except RecordError as error:
        message = command_line.with_flags(f"{error}")
        raise command_line.UsageError(f"--name={name}: {message}") from error
    from epg_tf.artifacts.artifact import save
    from epg_tf.artifacts.cards import CARD_FILE

    def write(into: Path) -> None:
        save(into, learned.phi, learned.experiment, learned.facts)
        files.write_atomically(into / CARD_FILE, lambda stream: stream.write(text.encode()))

    files.replace_together(folder, write, CARD_FILE)
    return folder


if __name__ == "__main__":
    command_line.run(main)
