"""Writes a page on a run or a test, or on several side by side: one HTML file.

    epg-tf report --run_dir=runs/first --output=first.html
    epg-tf report --run_dir=runs/first,runs/first-test --output=first.html

The file needs no network and nothing beside it.
"""

from __future__ import annotations

from pathlib import Path

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

flags.adopt_module_key_flags(config_flag)
_RUN_DIR = flags.DEFINE_list(
    "run_dir",
    None,
    "Folder of a run or a test; several, separated by commas, are shown side by side.",
)
_OUTPUT = flags.DEFINE_string("output", None, "File to write, which ends in .html.")
_FILM = flags.DEFINE_bool(
    "film", True, "Draw film strips; each takes a life, and needs OpenGL (egl or osmesa)."
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace the file --output even if it is no page of this command."
)

command_line.parse_flags(__name__)

from epg_tf.core import files
from epg_tf.reports.html_page import is_page
from .evaluation_flags import check_parent


def main(argv: list[str]) -> int:
    """Reads the folders and writes the page; returns the exit code."""
    del argv
    folders, output = _folders(), _output()
    from epg_tf.runs.pages import make_page  # after refusals, as it imports TensorFlow

    config_flag.load_families()
    text = make_page(folders, _FILM.value)
    files.write_atomically(output, lambda stream: stream.write(text.encode()))
    print(f"the page is in {output}")
    return 0


def _folders() -> list[str]:
    folders = _RUN_DIR.value
    if not folders or "" in folders:
        raise command_line.UsageError(
            "--run_dir is missing or names no folder; for example --run_dir=runs/first"
        )
    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        raise command_line.UsageError(f"--run_dir={','.join(folders)} names a folder twice")
    return list(folders)


def _output() -> Path:
    output = Path(command_line.required(_OUTPUT, "report.html"))
    if output.suffix != ".html" or output.is_dir():
        raise command_line.UsageError(f"--output={output} must be a file that ends in .html")
    check_parent("output", output)
    if output.exists() and not (_OVERWRITE.value or is_page(output)):
        raise command_line.UsageError(
            f"--output={output}: there is such a file, and it is no page of this command; name "
            "another, or pass --overwrite"
        )
    return output


if __name__ == "__main__":
    command_line.run(main)
