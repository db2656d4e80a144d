"""Puts what is wrong with flags into one line, in the words of this package."""

from __future__ import annotations

import re
from collections.abc import Sequence

from absl import flags

from epg_tf.core import old_settings

from . import arguments

# What Python and the libraries say -> what users need to know.
_WORDS = (
    (r"invalid literal for int\(\) with base 10: (.*)", r"\1 is no whole number"),
    (r"could not convert string to float: (.*)", r"\1 is no number"),
    (r"\('Non-boolean argument to boolean flag', (.*)\)", r"\1 is neither true nor false"),
    (
        r"flag --(config[\w.]*)=(\S*): Failed to parse .* as a ConfigDict: .*",
        r"flag --\1=\2: \1 is a group of settings; set one of them, --\1.FIELD=VALUE",
    ),
)


def in_one_line(error: Exception, words: Sequence[str], settings: str) -> str:
    """Returns what is wrong with the flags, without the tracebacks that ml_collections adds.

    Args:
      error: Raised where flags were read.
      words: Of the command line, without the program.
      settings: The command that lists all settings.
    """
    message = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    if "Unknown command line flag 'config." in message:
        message = f"{message.rstrip(' ?.')}; give --config=NAME as well"
    elif "Unknown command line flag" in message:
        message = f"{message.rstrip(' ?.')}; see --help"
    if "Traceback" in message:
        reason = message.strip().splitlines()[-1]
        if "positional argument" in reason:
            reason = "this config has no variants; leave out the colon and what follows"
        message = f"{message.split(': Error whilst', 1)[0]}: {reason}"
    message = re.sub(r"\b(\w+\.)*ConfigError: ", "", message)
    message = re.sub(r"^flag --config=\S+?: (?=\S)", "--config: ", message)
    if isinstance(error, (AttributeError, KeyError)) and "get_config" not in message:
        message = _no_setting(message, words, settings)
    elif not isinstance(error, (flags.Error, ValueError, OSError)):
        message = f"--config names a file that is no experiment ({message}); see docs/own_family.md"
    message = " ".join(message.split())
    for pattern, replacement in _WORDS:
        message = re.sub(pattern, replacement, message)
    return message


def _no_setting(message: str, words: Sequence[str], settings: str) -> str:
    """Returns the line on a --config.GROUP.FIELD that does not exist.

    Args:
      message: Of ml_collections; it names the part that is unknown.
      words, settings: As for `in_one_line`.
    """
    message = re.sub(r"[\\']", "", message.replace("\\n", ". ")).rstrip(" ?.")
    given = list(dict.fromkeys(arguments.overrides(words)))
    remark = next(filter(None, map(old_settings.remark, given)), "")
    part = re.match(r'"?(\w+)"?', message)
    named = [f"--config.{name}" for name in given if part and part[1] in name.split(".")]
    which = " or ".join(named) or "a --config.GROUP.FIELD flag"
    return f"{which} names no setting: {message}{remark and ', ' + remark}. `{settings}` lists all"
