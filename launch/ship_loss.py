"""Adds a learned and tested loss or objective to those of the package, with a card.

For example:

    epg-tf ship-loss --run_dir=runs/hopper --test_dir=runs/hopper-test \\
        --name=random_hopper
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.artifacts.artifact import (
    Artifact,
    LearnedLoss,
    SHIPPED,
    is_objective,
    load_loss,
    load_objective,
    save,
)
from epg_tf.artifacts.cards import CARD_FILE, CardTests, losses_of, shipped_card
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.epg.settings import Experiment
from .evaluation_flags import required

flags.adopt_module_key_flags(config_flag)
_RUN_DIR = flags.DEFINE_string(
    "run_dir",
    None,
    "Finished run of epg-tf meta-train, whose best/ is shipped; or run of epg-tf "
    "meta-train, or folder of its objective.",
)
_TEST_DIR = flags.DEFINE_string(
    "test_dir",
    None,
    "What epg-tf meta-test found for that loss; for an objective, A,B,...: tests in several "
    "environments, also tests with objectives of other seeds.",
)
_LONGER_TEST_DIR = flags.DEFINE_string(
    "longer_test_dir",
    None,
    "What epg-tf meta-test --compare_updates=K found for that loss; K times the life for rivals.",
)
_ADAPTATION_DIR = flags.DEFINE_string(
    "adaptation_dir", None, "What epg-tf adaptation found for that loss."
)
_ROBUSTNESS_DIR = flags.DEFINE_string(
    "robustness_dir", None, "What epg-tf robustness found for that loss."
)
_SEEDS_DIR = flags.DEFINE_string(
    "seeds_dir",
    None,
    "What epg-tf meta-test found for losses of the same settings and other seeds, that loss among "
    "them.",
)
_NAME = flags.DEFINE_string("name", None, "Name of the loss, e.g. random_hopper.")
_OUTPUT_DIR = flags.DEFINE_string("output_dir", str(SHIPPED), "Folder of shipped losses.")
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace a shipped loss of that name; fixed policies stay."
)

_SUMMARY = "the summary of a test, --test_dir"
_OF_A_TEST = ("task", "phase", "seed", "updates", "alpha", "compare_updates")  # in its facts


def main(argv: list[str]) -> int:
    """Ships a loss; returns the exit code."""
    del argv
    run = Path(required(_RUN_DIR, "runs/hopper"))
    config_flag.load_families()
    named = required(_TEST_DIR, "runs/hopper-test").split(",")
    if "" in named or len({*named}) < len(named):
        raise command_line.UsageError(f"--test_dir={_TEST_DIR.value} names a test twice, or none")
    folders = [Path(folder) for folder in named]
    name = required(_NAME, "random_hopper")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        raise command_line.UsageError(
            f"--name={name!r} must be lower-case letters, digits and underscores"
        )
    if is_objective(run):
        return _ship_objective(run, folders, name)
    test, *others = folders
    if others:
        raise command_line.UsageError(
            f"--test_dir={_TEST_DIR.value} names several tests, but --run_dir={run} holds a loss "
            "of EPG, whose card has one; name one"
        )
    return _ship_loss(run, test, name)


def _ship_loss(run: Path, test: Path, name: str) -> int:
    """Ships a loss of EPG; returns the exit code."""
    loss = load_loss(run / "best")
    evolved = files.read_json(run / "summary.json", "the summary of a finished run, --run_dir")
    tested = _of_one_loss(files.read_json(test / "summary.json", _SUMMARY), _TEST_DIR)
    longer = _optional(_LONGER_TEST_DIR, "summary.json", loss)
    if longer is not None and longer["about"].get("compare_updates", 1) == 1:
        raise command_line.UsageError(
            f"--longer_test_dir={_LONGER_TEST_DIR.value}: rivals do not live longer there; run "
            f"{command_line.program('meta_test')} --compare_updates=4"
        )
    adaptation = _optional(_ADAPTATION_DIR, "adaptation.json", loss)
    robustness = _optional(_ROBUSTNESS_DIR, "robustness.json", loss)
    seeds = _of_seeds(loss, tested)
    try:
        same, baseline = tested["about"]["loss_facts"] == loss.facts, tested["about"]["baseline"]
        rivals = tested["about"].get("rivals", {})
        exact = all(_is_exact(found["about"]) for found in (tested, longer or tested))
        tests = [test for test in (tested, longer, seeds) if test is not None]
        text = shipped_card(name, loss, CardTests(tests, adaptation, robustness), evolved)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        given = (_LONGER_TEST_DIR, _ADAPTATION_DIR, _ROBUSTNESS_DIR, _SEEDS_DIR)
        further = "".join(f" or --{flag.name}={flag.value}" for flag in given if flag.value)
        raise command_line.UsageError(
            f"--run_dir={run} or --test_dir={test}{further} holds the results of something else "
            f"({type(error).__name__}: {error}); name a finished run of "
            f"{command_line.program('meta_train')} and the --output_dir of "
            f"{command_line.program('meta_test')}"
        ) from error
    if not same:
        raise command_line.UsageError(
            f"--test_dir={test} tested another loss than --run_dir={run}/best; run "
            f"{command_line.program('meta_test')} --loss={run}/best"
        )
    if not exact:
        raise command_line.UsageError(
            f"--test_dir={test} or --longer_test_dir={_LONGER_TEST_DIR.value} is a test in coarse "
            "physics; cards report exact physics, so leave --physics out of the test"
        )
    # The loss has no use for surrogate and rivals; they are kept as they were tested.
    settings = {**loss.experiment.to_mapping(), "surrogate": baseline, **rivals}
    experiment = Experiment.from_mapping(settings)
    folder = _write(name, text, dataclasses.replace(loss, experiment=experiment))
    _tell(folder, "load_loss")
    return 0


def _ship_objective(run: Path, tests: list[Path], name: str) -> int:
    """Ships an objective; returns the exit code."""
    for flag in (_LONGER_TEST_DIR, _ADAPTATION_DIR, _ROBUSTNESS_DIR, _SEEDS_DIR):
        if flag.value is not None:
            raise command_line.UsageError(
                f"--{flag.name}={flag.value} is of losses of EPG, but --run_dir={run} holds an "
                "objective of MetaGenRL; leave it out"
            )
    learned = load_objective(run)
    found = [files.read_json(test / "summary.json", _SUMMARY) for test in tests]
    try:
        losses = [[*losses_of(tested).values()] for tested in found]
        other = [
            test for test, facts in zip(tests, losses, strict=True) if learned.facts not in facts
        ]
        twice = any(len({each["seed"] for each in facts}) < len(facts) for facts in losses)
        text = shipped_card(name, learned, CardTests(found))
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise command_line.UsageError(
            f"--test_dir={_TEST_DIR.value} holds the results of something else, or of another "
            f"version ({type(error).__name__}: {error}); name the --output_dir of "
            f"{command_line.program('meta_test')}"
        ) from error
    if twice:
        raise command_line.UsageError(
            f"--test_dir={_TEST_DIR.value} has a test of two objectives of one seed; test "
            "objectives of different seeds"
        )
    if other:
        raise command_line.UsageError(
            f"--test_dir={other[0]} tested another objective than {learned.name}; run "
            f"{command_line.program('meta_test')} --loss={learned.name}"
        )
    _tell(_write(name, text, learned), "load_objective")
    return 0


def _of_one_loss(found: dict[str, Any], flag: flags.FlagHolder[str | None]) -> dict[str, Any]:
    """Returns what a test found; refuses a test of several losses, whose row is their mean."""
    about = found.get("about")
    if isinstance(about, dict) and about.get("other_losses"):
        raise command_line.UsageError(
            f"--{flag.name}={flag.value} is a test of several losses; run "
            f"{command_line.program('meta_test')} on --run_dir={_RUN_DIR.value} alone"
        )
    return found


def _write(name: str, text: str, learned: Artifact[Any]) -> Path:
    """Writes a shipped loss and its card, new or in place of another; returns their folder."""
    folder = Path(str(_OUTPUT_DIR.value)) / name
    try:
        files.prepare_folder(folder, (), overwrite=_OVERWRITE.value)
    except RecordError as error:
        message = command_line.with_flags(f"{error}")
        raise command_line.UsageError(f"--name={name}: {message}") from error

    def write(into: Path) -> None:
        save(into, learned.phi, learned.experiment, learned.facts)
        files.write_atomically(into / CARD_FILE, lambda stream: stream.write(text.encode()))

    files.replace_together(folder, write, CARD_FILE)
    return folder


def _tell(folder: Path, function: str) -> None:
    name = folder.name
    print(f"{name} is in {folder}; use it with --loss={name} or epg_tf.{function}({name!r})")


def _is_exact(about: dict[str, Any]) -> bool:
    return bool(about["task"].get("physics", "exact") == "exact")


def _optional(
    flag: flags.FlagHolder[str | None], file: str, loss: LearnedLoss
) -> dict[str, Any] | None:
    """Returns what a further test of the loss found, or None where the flag names none."""
    if flag.value is None:
        return None
    found = files.read_json(Path(flag.value) / file, f"the results of a test, --{flag.name}")
    about = found.get("about") if isinstance(found, dict) else None
    if not isinstance(about, dict) or about.get("loss_facts") != loss.facts:
        raise command_line.UsageError(
            f"--{flag.name}={flag.value} holds no test of --run_dir={_RUN_DIR.value}/best; name "
            f"the --output_dir of such a test"
        )
    return _of_one_loss(found, flag)


def _of_seeds(loss: LearnedLoss, tested: dict[str, Any]) -> dict[str, Any] | None:
    """Returns what a test of losses of other seeds found, or None where the flag names none."""
    if _SEEDS_DIR.value is None:
        return None
    found = files.read_json(Path(_SEEDS_DIR.value) / "summary.json", "a test, --seeds_dir")
    given = f"--seeds_dir={_SEEDS_DIR.value}"
    try:
        losses = [*losses_of(found).values()]
        seeds = {facts["seed"] for facts in losses}
        differing = [
            name for name in _OF_A_TEST if found["about"].get(name) != tested["about"].get(name)
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise command_line.UsageError(
            f"{given} holds the results of something else; name the --output_dir of "
            f"{command_line.program('meta_test')} --loss=A,B"
        ) from error
    if len(losses) < 2 or len(seeds) < len(losses) or loss.facts not in losses:
        raise command_line.UsageError(
            f"{given} is no test of --run_dir={_RUN_DIR.value}/best and losses of other seeds; run "
            f"{command_line.program('meta_test')} --loss=A,B with it among them"
        )
    if differing:
        raise command_line.UsageError(
            f"{given} and --test_dir={_TEST_DIR.value} differ in {differing[0]}; make both tests "
            "with the same flags"
        )
    return found


if __name__ == "__main__":
    command_line.run(main)
