"""The command `epg-tf`: lists the commands of this folder, and runs one.

    epg-tf meta-train --config=random_hopper:laptop --run_dir=runs/hopper

In a checkout `python -m launch` is the same, and `python -m launch.meta_train` runs a command.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import os
import runpy
import sys
from pathlib import Path

_FOLDER = Path(__file__).parent
_COMMON = ("list", "meta-train", "meta-test", "report", "export")


def commands() -> dict[str, str]:
    """Returns the name of each command and the first sentence of its docstring."""
    found = {}
    for path in sorted(_FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if "main" in functions and path.stem != "__main__":
            text = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
            found[path.stem.replace("_", "-")] = text
    return found


def listing() -> str:
    """Returns the help: one line for each command, those of every day first."""
    known = commands()
    width = max(map(len, known))
    lines = {name: f"  {name:<{width}}  {text}" for name, text in known.items()}
    return "\n".join(
        [
            "Learns loss functions for reinforcement learning.",
            "",
            "usage: epg-tf COMMAND [--flag=value ...]",
            "",
            *(lines.pop(name) for name in _COMMON),
            "",
            "further commands:",
            *lines.values(),
            "",
            "`epg-tf COMMAND --help` explains the flags of a command.",
            '`eval "$(epg-tf --completion)"` makes bash or zsh complete commands and flags.',
        ]
    )


def main() -> None:
    """Runs the command that the first word names, as `python -m` would run its file."""
    words = sys.argv[1:]
    if not words or words[0] in ("--help", "-h", "-help", "help"):
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        with contextlib.suppress(BrokenPipeError):  # of `epg-tf --help | head`
            print(listing(), flush=True)
        os._exit(0)
    if words[0] == "--words":
        print(*commands(), sep="\n")
        return
    if words[0] == "--completion":
        from .flag_help import COMPLETION

        print(COMPLETION)
        return
    if words[0] in ("--version", "-version"):
        import epg_tf  # here, so that the help needs nothing

        print(f"epg-tf {epg_tf.__version__}")
        return
    name, known = words[0].replace("_", "-"), commands()
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        guess = f"did you mean {near[0]}? " if near else ""
        print(
            f"error: {words[0]!r} is not a command; {guess}`epg-tf --help` lists them",
            file=sys.stderr,
        )
        sys.exit(2)
    sys.argv = [f"epg-tf {name}", *words[1:]]
    module = f"{__package__}.{name.replace('-', '_')}"
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
