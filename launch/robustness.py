"""Measures what a loss of EPG is worth where something is not as in evolution: tasks at the ends of
their range and outside it, policies of other shapes, lives four times as long.

For example:

    epg-tf robustness --loss=random_hopper --output_dir=runs/robustness

Settings are those of the loss; of --config only the families that its file registers are used.
"""

from __future__ import annotations

import dataclasses

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.artifacts.artifact import load_loss
from epg_tf.core import formatting
from epg_tf.core.errors import ConfigError
from epg_tf.evaluation import zero_shot
from epg_tf.evaluation.evaluate import loss_request
from epg_tf.evaluation.robustness import RobustnessTest, changes, summarize_robustness
from epg_tf.reports.robustness_report import (
    OWN,
    join_changes,
    read_known,
    table,
    write_robustness,
)
from .evaluation_flags import facts_of_lives, prepare_results, required, required_loss

_LOSS = flags.DEFINE_string(
    "loss", None, "Folder of a run or of a learned loss, or the name of a shipped loss."
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder for robustness.json and robustness.png."
)
flags.adopt_module_key_flags(config_flag)
_LIVES = flags.DEFINE_integer(
    "lives", 32, "Agents per change, one unseen task each.", lower_bound=2, upper_bound=10**6
)
_SEED = flags.DEFINE_integer("seed", 0, "Names the unseen tasks.", lower_bound=0)
_REPORTING = flags.DEFINE_bool(
    "reporting",
    False,
    "Measure on tasks that are kept for published numbers, those of epg-tf meta-test --reporting.",
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace results in --output_dir; foreign files in it stay."
)
_RESUME = flags.DEFINE_bool(
    "resume",
    False,
    "Keep the changes that --output_dir has and measure those that are missing. Lives without a "
    "change are measured again, and must give the same returns.",
)


def main(argv: list[str]) -> int:
    """Measures, prints and writes; returns the exit code."""
    del argv
    loss = required_loss(_LOSS, "runs/first")
    test = _test()
    output = required(_OUTPUT_DIR, "runs/first-robustness")
    prepare_results(_OUTPUT_DIR, _OVERWRITE.value, OWN, _RESUME.value)
    request = test.request
    about = facts_of_lives(loss, test.learned, request, test.fixed)
    wanted = changes(test.learned.experiment)
    known = read_known(output, wanted, about) if _RESUME.value else {}
    print(
        f"{request.agents} fresh agents on unseen {request.task.family} tasks, "
        f"{formatting.count(request.env_steps)} env steps of learning each, under "
        f"{len(wanted)} conditions" + (f", {len(known)} of which are there" if known else ""),
        flush=True,
    )
    title = f"{request.task.family}: away from what evolution had"
    found = []
    for change, returns in test.run(known):
        found.append((change, returns))
        summary = join_changes(output, known, summarize_robustness(found), wanted)
        picture = write_robustness(output, summary, about, title)  # what is known is kept
        print(f"  {change.label}: done", flush=True)
    print(f"\n{table(summary)}\nresults are in {output}; the picture:\n{picture}")
    return 0


def _test() -> RobustnessTest:
    """Returns the test that the flags describe."""
    learned = load_loss(str(_LOSS.value))
    config_flag.load_families()
    experiment = learned.experiment.in_physics("exact")
    request = loss_request(experiment, _SEED.value, _LIVES.value)
    if _REPORTING.value:
        request = dataclasses.replace(request, phase="reporting")
    fixed = tuple(zero_shot.beside(learned))
    try:
        return RobustnessTest(dataclasses.replace(learned, experiment=experiment), request, fixed)
    except ConfigError as error:
        raise command_line.UsageError(f"--loss={_LOSS.value}: {error}") from error


if __name__ == "__main__":
    command_line.run(main)
