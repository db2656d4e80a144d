"""Prepares the words of a command line before flags are parsed: those of configs are made ones that
parsers load.

Pure but for looking whether files exist.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from epg_tf.runs import config_files

_HOME = re.compile(r"(--?\w+=)(~.*)")


def prepared(words: Sequence[str], known: Container[str]) -> list[str]:
    """Returns the words of a command line as the parsers of flags want them.

    A leading ~ in a value becomes the home folder, which shells do only at the start of a word. The
    name of a config becomes a variant of `FLAG_CONFIG`. To resume a run, its folder is enough: it
    then names the config, too.

    Raises:
      ConfigError: There is no such config.
    """
    found = [_expanded(word) for word in words]
    if "config" not in known:
        return found
    places = [(at, width, value) for at, width, name, value in _flags(found) if name == "config"]
    if not places:
        folder = given("run_dir", found)
        if "resume" in known and wants_resume(found) and folder and _is_run(folder):
            return [_config(os.path.join(".", folder)), *found]  # not a config of that name
        return found
    words_of_configs = {at + offset for at, width, _ in places for offset in range(width)}
    others = [word for at, word in enumerate(found) if at not in words_of_configs]
    return [_config(places[-1][2]), *others]  # of several the last one counts


def given(flag: str, words: Sequence[str]) -> str | None:
    """Returns the last value of a flag as it was typed, or None where it was not."""
    values = [value for _, _, name, value in _flags(words) if name == flag]
    return values[-1] if values else None


def overrides(words: Sequence[str]) -> list[str]:
    """Returns the names GROUP.FIELD of the settings that --config.GROUP.FIELD flags change."""
    return [
        name.removeprefix("no").removeprefix("config.")
        for _, _, name, _ in _flags(words)
        if name.removeprefix("no").startswith("config.")
    ]


def override_words(words: Sequence[str], groups: Sequence[str]) -> list[str]:
    """Returns the --config.GROUP.FIELD=VALUE flags of some groups, one word each."""
    return [
        f"--{name}={value}"
        for _, _, name, value in _flags(words)
        if name.startswith("config.") and name.split(".")[1] in groups
    ]


def wants_resume(words: Sequence[str]) -> bool:
    """Returns whether --resume is given, and no --noresume after it."""
    found = [re.fullmatch(r"--?(no)?resume(=(true|t|1))?", word, re.IGNORECASE) for word in words]
    given_last = [match for match in found if match][-1:]
    return any(not match[1] for match in given_last)


def _flags(words: Sequence[str]) -> Iterator[tuple[int, int, str, str]]:
    """Yields place, number of words, name and value of each flag."""
    for place, word in enumerate(words):
        named = re.fullmatch(r"--?([\w.]+)(?:=(.*))?", word, re.DOTALL)
        if not named:
            continue
        following = words[place + 1] if place + 1 < len(words) else ""
        if named[2] is not None:
            yield place, 1, named[1], named[2]
        elif following and not following.startswith("-"):
            yield place, 2, named[1], following
        else:
            yield place, 1, named[1], ""


def _expanded(word: str) -> str:
    tilde = _HOME.fullmatch(word)
    return tilde[1] + os.path.expanduser(tilde[2]) if tilde else word


def _config(name: str) -> str:
    """Returns the word that makes flags load a config; raises ConfigError if there is none."""
    config_files.find_config(name)
    return f"--config={config_files.FLAG_CONFIG}:{name}"


def _is_run(folder: str) -> bool:
    return (Path(folder) / config_files.RUN_SETTINGS).is_file()
