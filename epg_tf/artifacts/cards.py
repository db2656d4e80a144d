"""Writes the cards of learned losses, in Markdown: of a shipped loss, and of an exported one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epg_tf.artifacts import export
from epg_tf.artifacts.learned_loss import LearnedLoss
from epg_tf.baselines.method import LABELS
from epg_tf.core import files
from epg_tf.core.formatting import count, duration
from epg_tf.tasks.registry import make_family

CARD_FILE = "card.md"

_USE = "## Use without epg_tf"


def shipped_card(
    name: str, loss: LearnedLoss, run: Mapping[str, Any], test: Mapping[str, Any]
) -> str:
    """Returns the card of a shipped loss: what it is, where it came from, how it was tested.

    Args:
      name: Of the loss.
      loss: The loss.
      run: `summary.json` of its run.
      test: `summary.json` of its test.

    Raises:
      KeyError, TypeError, AttributeError: A summary is of something else.
    """
    experiment, about, lives = loss.experiment, test["about"], test["epg"]["lives"]
    family, inner = make_family(experiment.task), experiment.inner
    seen = (
        "with the reward among its inputs" if experiment.loss.reward else "and never sees a reward"
    )
    rows = "\n".join(_test_row(LABELS[key], row) for key, row in test.items() if key in LABELS)
    return f"""# {name}

A loss of {loss.phi.size:,} parameters that trains fresh agents in {family.name} {seen}.

{_facts_table(_shipped_facts(loss, run))}

Fresh agents on {lives} tasks that evolution never met, {about["updates"] * inner.update_period} \
env steps each; mean and 95 % interval over lives.
Area under the learning curve (auc): return of the newest episode, averaged over a life.

    epg-tf meta-test --loss={name} --lives={lives} --seed={about["seed"]} --output_dir=OUT

| | final return | interval | auc | interval | failed lives |
|---|---|---|---|---|---|
{rows}

Not tested: bodies other than {family.name}'s; other frame skips, episode limits, policy networks \
and longer lives than
those above; tasks outside the range `{about["task"]["range"]}`.
"""


def _shipped_facts(loss: LearnedLoss, run: Mapping[str, Any]) -> dict[str, str]:
    experiment = loss.experiment
    family, inner, task = make_family(experiment.task), experiment.inner, experiment.task
    versions = run["versions"].items()
    return {
        "observations, actions": f"{family.observation_size}, {family.action_size}",
        "a life": f"{inner.updates} updates of {inner.update_period} env steps, Adam at "
        f"{inner.learning_rate:g}",
        "an env step, an episode": f"{task.frame_skip} physics steps, at most "
        f"{task.episode_limit} env steps",
        "evolved in": f"{count(run['env_steps'])} env steps, {run['epochs']} epochs, "
        f"{duration(run['seconds'])}",
        "seed, commit": f"{run['seed']}, {run['commit']}",
        "packages": ", ".join(f"{package} {version}" for package, version in versions),
        "settings": "`config` in loss.json",
    }


def _facts_table(facts: Mapping[str, str]) -> str:
    return "\n".join(
        ["| | |", "|---|---|", *(f"| {key} | {text} |" for key, text in facts.items())]
    )


def _test_row(label: str, row: Mapping[str, Any]) -> str:
    final, auc = ("{:.2f} to {:.2f}".format(*row[name]) for name in ("ci95", "auc_ci95"))
    return (
        f"| {label} | {row['final_return_mean']:.2f} | {final} | {row['auc_mean']:.2f} | {auc} | "
        f"{row['failed_lives']} |"
    )


def exported_card(learned: LearnedLoss, home: files.PathLike) -> str:
    """Returns the card of an export: the loss's own card, if any, and how to use the SavedModel.

    Args:
      learned: The loss.
      home: Folder it was read from.

    Raises:
      RecordError: Its own card cannot be read.
    """
    described = export.describe(learned)
    own = Path(home) / CARD_FILE
    if own.is_file():
        head = files.read_text(own, "the loss's card").split(_USE)[0].rstrip()
    else:
        facts = {key: json.dumps(value) for key, value in described["facts"].items()}
        head = (
            f"# A loss for {described['family']}\n\nEvolved, but not shipped; epg-tf meta-test "
            f"measures how well it trains agents.\n\n{_facts_table(facts)}"
        )
    rows = "\n".join(
        f"| `{name}` | {_shape(spec['shape'])} {spec['type']} | {spec['meaning']} |"
        for name, spec in described["inputs"].items()
    )
    rule, agent, memory = (described[name] for name in ("normalisation", "agent", "memory"))
    remembered = (
        f"{memory['rule']}; {memory['inputs']} inputs, {memory['units']} units"
        if memory
        else "none"
    )
    return f"""{head}

{_USE}

    loaded = tf.saved_model.load(FOLDER)
    description = json.loads(loaded.describe()["json"].numpy())
    losses = loaded.loss({{name: tensor, ...}})["loss"]  # [P], inside a tf.GradientTape

Signatures: `loss` (-> `loss` [P], the {described["reduction"]} of each agent's minibatch, and
`per_step` [P, B]), `gradients` (the same inputs -> gradients of each agent's loss with respect to
its policy's outputs and its memory), `describe` (-> `json`). P agents and minibatches of B steps
are free; buffers hold {described["buffer_steps"]} steps, oldest first.

| input | shape | meaning |
|---|---|---|
{rows}

- Normalisation of {", ".join(rule["channels"])}: {rule["rule"]}; floor {rule["floor"]}.
- Memory: {remembered}.
- Agents in evolution: hidden layers {agent["hidden"]} of {agent["activation"]}, columns of norm 1,
  of the last kernel {agent["last_kernel_norm"]:g}; log_std {agent["log_std"]:g} at first.
- {agent["updates"]} updates in a life, M = {described["update_period"]}, minibatch
  {described["minibatch"]}; {agent["rule"]}.
- {agent["optimizer"]}, at {agent["learning_rate"]:g}.
"""


def _shape(letters: Sequence[str | int]) -> str:
    return f"[{', '.join(map(str, letters))}]"
