"""Puts an evolved and tested loss among those that come with the package: phi, its description and
a card.

python -m launch.ship_loss --run_dir=runs/hopper --test_dir=runs/hopper-test --name=random_hopper
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from launch import command_line  # first: it quietens the frameworks

from absl import flags  # isort: skip

from epg_tf.core import formatting
from epg_tf.artifacts import learned_loss
from epg_tf.core import files
from epg_tf.tasks.registry import make_family

_RUN_DIR = flags.DEFINE_string(
    "run_dir", None, "Finished run of launch.meta_train; its best/ is shipped."
)
_TEST_DIR = flags.DEFINE_string("test_dir", None, "What launch.meta_test found for that loss.")
_NAME = flags.DEFINE_string("name", None, "Name of the loss, e.g. random_hopper.")
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", str(learned_loss.SHIPPED), "Folder of shipped losses."
)
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace a shipped loss of that name.")

_OWN = ("loss.npz", "loss.json", "card.md")
_LABELS = {
    "epg": "this loss",
    "ppo": "PPO, tuned",
    "untrained": "an agent that never learns",
    "random_loss": "a loss that was never evolved",
}


def main(argv: list[str]) -> int:
    """Ships a loss; returns the exit code."""
    del argv
    for flag in (_RUN_DIR, _TEST_DIR, _NAME):
        if not flag.value:
            raise command_line.UsageError(f"--{flag.name} is missing; see --help")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", _NAME.value):
        raise command_line.UsageError(
            f"--name={_NAME.value!r} must be lower-case letters, digits and underscores"
        )
    run, test = Path(_RUN_DIR.value), Path(_TEST_DIR.value)
    loss = learned_loss.load_loss(run / "best")
    summary = files.read_json(run / "summary.json", "the summary of a finished run, --run_dir")
    scores = files.read_json(test / "summary.json", "the summary of a test, --test_dir")
    try:
        same, baseline = scores["about"]["loss_facts"] == loss.facts, scores["about"]["baseline"]
        text = card(_NAME.value, loss, summary, scores)
    except (KeyError, TypeError, AttributeError) as error:
        raise command_line.UsageError(
            f"--run_dir={run} or --test_dir={test} holds a summary.json of something else "
            f"({type(error).__name__}: {error}); name a finished run of launch.meta_train "
            f"and the --output_dir of launch.meta_test"
        ) from error
    if not same:
        raise command_line.UsageError(
            f"--test_dir={test} tested another loss than --run_dir={run}/best; run "
            f"launch.meta_test --loss={run}/best"
        )
    folder = Path(_OUTPUT_DIR.value) / _NAME.value
    files.prepare_folder(folder, _OWN, overwrite=_OVERWRITE.value)
    surrogate = dataclasses.replace(loss.experiment.surrogate, **baseline)
    experiment = dataclasses.replace(
        loss.experiment, surrogate=surrogate
    )  # as tested; the loss has no use for it
    learned_loss.save_loss(folder, loss.phi, experiment, loss.facts)
    files.write_atomically(folder / "card.md", lambda stream: stream.write(text.encode()))
    print(
        f"{_NAME.value} is in {folder}; use it with --loss={_NAME.value} or "
        f"epg_tf.load_loss({_NAME.value!r})"
    )
    return 0


def card(name: str, loss: learned_loss.LearnedLoss, summary: dict, scores: dict) -> str:
    """Writes what a user has to know of a loss, in Markdown.

    Args:
      name: Of the loss.
      loss: The loss.
      summary: The run's `summary.json`.
      scores: `summary.json` of `launch.meta_test`.
    """
    experiment, about, tested = loss.experiment, scores["about"], scores["epg"]["lives"]
    family, inner, task, count = (
        make_family(experiment.task),
        experiment.inner,
        experiment.task,
        formatting.count,
    )
    seen = (
        "with the reward among its inputs" if experiment.loss.reward else "and never sees a reward"
    )
    facts = {
        "observations, actions": f"{family.observation_size}, {family.action_size}",
        "a life": f"{inner.updates} updates of {inner.update_period} env steps, Adam at "
        f"{inner.learning_rate:g}",
        "an env step, an episode": f"{task.frame_skip} physics steps, at most "
        f"{task.episode_limit} env steps",
        "evolved in": f"{count(summary['env_steps'])} env steps, {summary['epochs']} epochs, "
        f"{formatting.duration(summary['seconds'])}",
        "seed, commit": f"{summary['seed']}, {summary['commit']}",
        "packages": ", ".join(
            f"{package} {version}" for package, version in summary["versions"].items()
        ),
        "settings": "`config` in loss.json",
    }
    lines = [
        f"# {name}",
        "",
        f"A loss of {loss.phi.size:,} parameters that trains fresh agents in {family.name} {seen}.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {key} | {value} |" for key, value in facts.items()),
        "",
        f"Fresh agents on {tested} tasks that evolution never met, "
        f"{about['updates'] * inner.update_period} env steps "
        f"each; mean and 95 % interval over lives.",
        "Area: return of the newest episode, averaged over a life.",
        "",
        f"    python -m launch.meta_test --loss={name} --lives={tested} --seed={about['seed']} "
        "--output_dir=OUT",
        "",
        "| | final return | interval | area | interval | failed lives |",
        "|---|---|---|---|---|---|",
        *(_row(_LABELS[method], row) for method, row in scores.items() if method in _LABELS),
        "",
        f"Not tested: bodies other than {family.name}'s; other frame skips, episode limits, "
        "policy networks and longer "
        f"lives than",
        f"those above; tasks outside the range `{about['task']['range']}`.",
        "",
    ]
    return "\n".join(lines)


def _row(label: str, row: dict) -> str:
    final, area = ("{:.2f} to {:.2f}".format(*row[name]) for name in ("ci95", "auc_ci95"))
    return (
        f"| {label} | {row['final_return_mean']:.2f} | {final} | {row['auc_mean']:.2f} | {area} | "
        f"{row['failed_lives']} |"
    )


if __name__ == "__main__":
    command_line.run(main)
