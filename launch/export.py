"""Exports a learned loss or objective as a SavedModel that needs only TensorFlow.

For example:

    epg-tf export --loss=random_hopper --output_dir=exported
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from .evaluation_flags import locked, losses_exist, required_loss

flags.adopt_module_key_flags(config_flag)
_LOSS = flags.DEFINE_string(
    "loss",
    None,
    "Folder of a run or of a learned loss or objective, or the name of a pretrained one.",
)
flags.register_validator("loss", lambda name: not name or losses_exist(name))
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder for the SavedModel, phi, its description and a card."
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace an export in --output_dir; foreign files in it stay."
)

command_line.parse_flags(__name__)


def main(argv: list[str]) -> int:
    """Exports a loss; returns the exit code."""
    del argv
    loss, output = (
        required_loss(_LOSS, "random_hopper"),
        command_line.required(_OUTPUT_DIR, "exported"),
    )
    config_flag.load_families()
    from epg_tf.artifacts.artifact import Artifact, load  # they import TensorFlow
    from epg_tf.artifacts.cards import CARD_FILE
    from epg_tf.artifacts.export import export

    folder = Path(output)
    learned: Artifact[Any] = load(loss)
    with locked(folder):
        difference = export(learned, folder, overwrite=_OVERWRITE.value)
    print(
        f"the SavedModel is in {folder}; what was read again differs by "
        f"{difference:.1e} at most\n"
        f"how to use it: {folder / CARD_FILE}"
    )
    return 0


if __name__ == "__main__":
    command_line.run(main)
