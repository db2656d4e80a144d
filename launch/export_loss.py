"""Exports a learned loss as a SavedModel that needs only TensorFlow.

For example:

    epg-tf export-loss --loss=random_hopper --output_dir=exported
"""

from __future__ import annotations

from pathlib import Path

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.artifacts import export
from epg_tf.artifacts.cards import CARD_FILE, exported_card
from epg_tf.artifacts.learned_loss import SHIPPED, load_loss, loss_folder
from .evaluation_flags import prepare_saved_model, required

flags.adopt_module_key_flags(config_flag)
_LOSS = flags.DEFINE_string(
    "loss", None, "Folder of a run or of a learned loss, or the name of a shipped loss."
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
    loss, output = required(_LOSS, "random_hopper"), required(_OUTPUT_DIR, "exported")
    config_flag.load_families()
    learned, home = load_loss(loss), loss_folder(loss)
    folder, text = Path(output), exported_card(learned, home)
    source, target = home.resolve(), folder.resolve()
    if target in (source, *source.parents) or SHIPPED.resolve() in (target, *target.parents):
        raise command_line.UsageError(
            f"--output_dir={folder} is where losses are kept; choose another folder"
        )
    prepare_saved_model(_OUTPUT_DIR, _OVERWRITE.value, export.MARKERS)
    difference = export.export_loss(learned, folder, text)
    print(
        f"the SavedModel is in {folder}; read again, losses and gradients differ by "
        f"{difference:.1e} at most\n"
        f"how to use it: {folder / CARD_FILE}"
    )
    return 0


if __name__ == "__main__":
    command_line.run(main)
