"""Lists every setting with its type, default, bounds and meaning.

epg-tf settings
epg-tf settings --system=metagenrl
epg-tf settings --system=rl2
"""

from __future__ import annotations

import textwrap

from . import command_line  # first: it silences the frameworks

from absl import flags

from epg_tf.core.settings import Description
from epg_tf.runs.config_files import SYSTEMS

_SYSTEM = flags.DEFINE_enum("system", "epg", list(SYSTEMS), "Whose settings.")
_WIDTH = 100
_INDENT = " " * 4


def main(argv: list[str]) -> int:
    """Prints two lines or more per setting; returns the exit code."""
    del argv
    print("change one with --config=NAME --config.GROUP.FIELD=VALUE\n")
    for setting in SYSTEMS[_SYSTEM.value].describe():
        print(_paragraph(setting))
    others = ", ".join(f"--system={name}" for name in SYSTEMS if name != _SYSTEM.value)
    print(f"\nthe settings of the other systems: {others}")
    return 0


def _paragraph(setting: Description) -> str:
    """Returns name, default, bounds, and the type where the default does not show it in a line, the
    meaning below.
    """
    shown = setting.type in ("bool", "float", "int", "str")
    bounds = setting.bounds
    for words, sign in (("at least", ">="), ("at most", "<="), ("above", ">"), ("below", "<")):
        bounds = bounds.replace(words, sign)
    limits = [*([] if shown else [setting.type]), *([bounds] if bounds else [])]
    line = f"{setting.name}={setting.default!r}" + f"  ({', '.join(limits)})" * bool(limits)
    meaning = textwrap.wrap(setting.meaning, _WIDTH - len(_INDENT))
    return "\n".join([line, *(_INDENT + words for words in meaning)])


if __name__ == "__main__":
    command_line.run(main)
