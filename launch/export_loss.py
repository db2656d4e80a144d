"""Exports a learned loss as a SavedModel that needs nothing but TensorFlow.

python -m launch.export_loss --loss=random_hopper --output_dir=exported
"""

from __future__ import annotations

import json
from pathlib import Path

from launch import command_line  # first: it quietens the frameworks

from absl import flags  # isort: skip

from epg_tf.artifacts import export
from epg_tf.artifacts.learned_loss import SHIPPED, LearnedLoss, load_loss, loss_folder
from epg_tf.core import files
from epg_tf.artifacts import saved_models

_LOSS = flags.DEFINE_string(
    "loss", None, "Folder of a learned loss, e.g. RUN_DIR/best, or a shipped one's name."
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder for the SavedModel, phi, its description and a card."
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace an export in --output_dir; foreign files in it stay."
)


def main(argv: list[str]) -> int:
    """Exports a loss; returns the exit code."""
    del argv
    for flag, example in ((_LOSS, "random_hopper"), (_OUTPUT_DIR, "exported")):
        if not flag.value:
            raise command_line.UsageError(
                f"--{flag.name} is missing; for example --{flag.name}={example}"
            )
    learned, home = load_loss(_LOSS.value), loss_folder(_LOSS.value)
    folder, text = Path(_OUTPUT_DIR.value), card(learned, home)
    source, target = home.resolve(), folder.resolve()
    if target in (source, *source.parents) or SHIPPED.resolve() in (target, *target.parents):
        raise command_line.UsageError(
            f"--output_dir={folder} is where losses are kept; choose another folder"
        )
    saved_models.prepare_target(folder, "--output_dir", _OVERWRITE.value, export.MARKERS)
    difference = export.export_loss(learned, folder, text)
    print(
        f"the SavedModel is in {folder}; read again, losses and gradients differ by "
        f"{difference:.1e} at most\n"
        f"how to use it: {folder / 'card.md'}"
    )
    return 0


def card(learned: LearnedLoss, home: Path) -> str:
    """Writes what a user of the SavedModel has to know, in Markdown: the loss's own card, if any,
    and how to feed it.

    Args:
      learned: The loss.
      home: Folder it was read from.

    Raises:
      RecordError: Its own card cannot be read.
    """
    known = export.describe(learned)
    if (home / "card.md").is_file():
        head = files.read_text(home / "card.md", "the loss's card").split(_HEADING)[0].rstrip()
    else:
        facts = "\n".join(
            f"| {key} | {json.dumps(value)} |" for key, value in known["facts"].items()
        )
        head = (
            f"# A loss for {known['family']}\n\nEvolved, but not shipped: what it is worth, "
            "launch.meta_test tells."
            f"\n\n| | |\n|---|---|\n{facts}"
        )
    rows = "\n".join(
        f"| `{name}` | {_shape(spec['shape'])} {spec['type']} | {spec['meaning']} |"
        for name, spec in known["inputs"].items()
    )
    rule, agent, memory = known["normalisation"], known["agent"], known["memory"]
    remembered = (
        f"{memory['rule']}; {memory['inputs']} inputs, {memory['units']} units"
        if memory
        else "none"
    )
    return f"""{head}

{_HEADING}

    loaded = tf.saved_model.load(FOLDER)
    description = json.loads(loaded.describe()["json"].numpy())
    losses = loaded.loss({{name: tensor, ...}})["loss"]  # [P], inside a tf.GradientTape

Signatures: `loss` (-> `loss` [P], the {known["reduction"]} of each agent's minibatch, and `per_step` [P, B]),
`gradients` (the same inputs -> gradients of each agent's loss with respect to what its policy answers and its memory),
`describe` (-> `json`). P agents and minibatches of B steps are free; buffers hold {known["buffer_steps"]} steps, oldest
first.

| input | shape | meaning |
|---|---|---|
{rows}

- Normalisation of {", ".join(rule["channels"])}: {rule["rule"]}; floor {rule["floor"]}.
- Memory: {remembered}.
- Agents in evolution: hidden layers {agent["hidden"]} of {agent["activation"]}, columns of norm 1, of the last kernel
  {agent["last_kernel_norm"]:g}; log deviation {agent["log_std"]:g} at birth.
- {agent["updates"]} updates in a life, M = {known["update_period"]}, minibatch {known["minibatch"]}; {agent["rule"]}.
- {agent["optimizer"]}, at {agent["learning_rate"]:g}.
"""


_HEADING = "## Use without epg_tf"


def _shape(letters: list[str | int]) -> str:
    return f"[{', '.join(map(str, letters))}]"


if __name__ == "__main__":
    command_line.run(main)
