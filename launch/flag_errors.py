"""Puts what is wrong with flags into one line, in the words of this package."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from absl import flags

from epg_tf.core import old_settings
from epg_tf.runs.config_files import SYSTEMS

from . import arguments

# What Python and the libraries say -> what users need to know.
_WORDS = (
    (r"invalid literal for int\(\) with base 10: (.*)", r"\1 is no whole number"),
    (r"could not convert string to float: (.*)", r"\1 is no number"),
    (r"\('Non-boolean argument to boolean flag', (.*)\)", r"\1 is neither true nor false"),
    (r"flag --(\w+)=None: is missing", r"--\1 is missing"),
    (
        r"flag --(config[\w.]*)=(\S*): Failed to parse .* as a ConfigDict: .*",
        r"flag --\1=\2: \1 is a group of settings; set one of them, --\1.FIELD=VALUE",
    ),
)


def in_one_line(
    error: Exception, words: Sequence[str], settings: str, known: Sequence[str] = ()
) -> str:
    """Returns what is wrong with the flags, without the tracebacks that ml_collections adds.

    Args:
      words: Of the command line, without the program.
      settings: The command that lists settings.
    """
    message = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    if isinstance(error, flags.UnrecognizedFlagError):
        return _no_flag(error.flagname, words, known)
    if "Error whilst parsing config file" in message:  # with the traceback of our own error
        reason = re.sub(r"^(\w+\.)*(Config|Record)Error: ", "", message.strip().splitlines()[-1])
        flag = "run_dir" if arguments.given("config", words) is None else "config"  # to resume it
        known_place = reason.startswith("config=")
        return f"--{flag}{reason.removeprefix('config')}" if known_place else f"--{flag}: {reason}"
    if isinstance(error, (AttributeError, KeyError)):
        message = _no_setting(message, words, settings)
    message = " ".join(message.split())
    for pattern, replacement in _WORDS:
        message = re.sub(pattern, replacement, message)
    return message


def _no_flag(name: str, words: Sequence[str], known: Sequence[str]) -> str:
    """Returns the line on a flag that a command does not have."""
    if name.startswith("config."):
        if "config" in known:
            folder = arguments.given("run_dir", words)
            if folder and arguments.wants_resume(words):
                return f"--run_dir={folder}: there is no run to resume; name the folder of one"
            return f"--{name} changes a setting of --config, which is not given; name one as well"
        return f"--{name} is no flag of this command, which has no settings; leave it out"
    near = difflib.get_close_matches(name, known, 1, 0.75)
    if "config" in known and not near:
        settings = [each.name for kind in SYSTEMS.values() for each in kind.describe()]
        near = [setting for setting in dict.fromkeys(settings) if setting.endswith(f".{name}")][:3]
    guess = f"did you mean {' or '.join(f'--{each}' for each in near)}? " if near else ""
    return f"--{name} is no flag of this command; {guess}--help lists all"


def _no_setting(message: str, words: Sequence[str], settings: str) -> str:
    """Returns the line on a --config.GROUP.FIELD that does not exist."""
    message = re.sub(r"[\\']", "", message.replace("\\n", ". ")).rstrip(" ?.")
    message = re.sub(r"\. Did you mean (\S+) instead of .*", r"; did you mean \1?", message)
    given = list(dict.fromkeys(arguments.overrides(words)))
    remark = next(filter(None, map(old_settings.remark, given)), "")
    part = re.match(r'"?(\w+)"?', message)
    named = [f"--config.{name}" for name in given if part and part[1] in name.split(".")]
    which = " or ".join(named) or "a --config.GROUP.FIELD flag"
    others = "|".join(sorted(set(SYSTEMS) - {"epg"}))
    end = " " if message.endswith("?") and not remark else ". "
    return (
        f"{which} names no setting: {message}{remark and ', ' + remark}{end}"
        f"`{settings}` lists those of EPG, with --system={others} others"
    )
