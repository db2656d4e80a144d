"""Measures whether a loss of EPG has learned to teach: how its agents do in each other's tasks,
when they are taught from each other's experience, and when their task switches.

For example:

    epg-tf adaptation --loss=random_hopper --output_dir=runs/adaptation
"""

from __future__ import annotations

import dataclasses

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.artifacts.artifact import load_loss
from epg_tf.core import formatting
from epg_tf.core.errors import ConfigError
from epg_tf.epg.baseline_settings import RIVALS
from epg_tf.evaluation import zero_shot
from epg_tf.evaluation.adaptation import MEASURES, AdaptationTest, summarize_adaptation
from epg_tf.evaluation.evaluate import loss_request
from epg_tf.reports.adaptation_report import OWN, table, write_adaptation
from .evaluation_flags import facts_of_lives, prepare_results, required, required_loss

_LOSS = flags.DEFINE_string(
    "loss", None, "Folder of a run or of a learned loss, or the name of a shipped loss."
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder for adaptation.json and adaptation.png."
)
flags.adopt_module_key_flags(config_flag)
_LIVES = flags.DEFINE_integer(
    "lives", 64, "Agents per measure, one unseen task each.", lower_bound=2, upper_bound=10**6
)
_UPDATES = flags.DEFINE_integer(
    "updates",
    None,
    "Updates per life; as in evolution by default. Tasks switch after half of them.",
    lower_bound=2,
    upper_bound=10**7,
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


def main(argv: list[str]) -> int:
    """Measures, prints and writes; returns the exit code."""
    del argv
    loss = required_loss(_LOSS, "runs/first")
    test = _test(loss)
    output = required(_OUTPUT_DIR, "runs/first-adaptation")
    prepare_results(_OUTPUT_DIR, _OVERWRITE.value, OWN)
    request, pairs = test.request, test.pairs()
    print(
        f"{request.agents} fresh agents on unseen {request.task.family} tasks, "
        f"{formatting.count(request.env_steps)} env steps of learning each; {len(MEASURES)} "
        f"measures; {pairs.differing} of {request.agents} pairs have different tasks",
        flush=True,
    )
    found = {}
    for name, returns in test.run():
        found[name] = returns
        print(f"  {name}: done", flush=True)
    summary = summarize_adaptation(found, pairs.differing, test.updates // 2)
    about = facts_of_lives(loss, test.learned, request, test.fixed)
    title = f"{request.task.family}: what agents learn from"
    picture = write_adaptation(output, summary, about, title)
    print(f"\n{table(summary)}\nresults are in {output}; the picture:\n{picture}")
    return 0


def _test(loss: str) -> AdaptationTest:
    """Returns the test that the flags describe."""
    learned = load_loss(loss)
    config_flag.refuse("task.physics", reason="adaptation is measured in exact physics")
    no_rival = "agents learn from the loss alone; leave it out"
    config_flag.refuse("surrogate", *RIVALS, reason=no_rival)
    experiment = config_flag.elsewhere(learned.experiment)
    request = loss_request(experiment, _SEED.value, _LIVES.value, _UPDATES.value)
    if _REPORTING.value:
        request = dataclasses.replace(request, phase="reporting")
    fixed = tuple(p for p in zero_shot.beside(learned) if zero_shot.fits(p, experiment.task))
    try:
        return AdaptationTest(dataclasses.replace(learned, experiment=experiment), request, fixed)
    except ConfigError as error:
        raise command_line.UsageError(f"--loss={_LOSS.value}: {error}") from error


if __name__ == "__main__":
    command_line.run(main)
