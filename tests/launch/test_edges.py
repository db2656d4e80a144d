"""No command ends in a traceback, and none ends well having done nothing, whatever flags it gets.

Settings are tried at all their edges in one process; commands, each in a fork, with flags at edges
that are drawn by a key.
"""

from __future__ import annotations

import functools
import math
import os
import random
import re
import shlex
from pathlib import Path

import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.runs.config_files import SYSTEMS
from tests.launch import commands
from tests.launch.systems import SYSTEMS as RUNS

LOSS = commands.ROOT / "tests" / "golden" / "run" / "best"
LIVES = " ".join(["--config=point_goal", *commands.life_settings()])
# A command line of each command that works; OUT is a folder that is not there.
WORKING = {
    "meta_train": "evolution --run_dir=OUT/run",
    "meta_test": f"--loss={LOSS} --output_dir=OUT/test --lives=2 --updates=1 --compare=none",
    "export": f"--loss={LOSS} --output_dir=OUT/export",
    "report": f"--run_dir={LOSS.parent} --output=OUT/page.html --nofilm",
    "list": "",
    "settings": "",
    "figure": "--list",
    "render": f"--loss={LOSS} --output=OUT/paths.png --view=path",
    "tune": f"{LIVES} --method=ppo_as_epg --budget=2 --lives=2",
    "study": f"--measure=robustness --loss={LOSS} --output_dir=OUT/study --lives=2",
    "benchmark": f"{LIVES} --lives=2 --updates=1",
    "publish": f"--run_dir={LOSS.parent} --name=mine --evaluations=OUT --output_dir=OUT/published",
}
WORDS = ["", ",", "a,b", ":", "@", "~", "-1", "0", "nan", "inf", "1e400", "²"]
WORDS += ["x" * 300, "nothing", "/dev/null", "/dev/zero", "OUT", str(LOSS), "point_goal", "none"]
FLAG = re.compile(r"^  --(\[no\])?(\w+):(.*?)(?=^  --|\Z)", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\((?:an? )?(integer|number)(?: in the range \[(\S+), (\S+)\])?")
KEYS = int(os.environ.get("EPG_TF_EDGE_KEYS", "1"))  # of further searches
LONGEST = 100  # of what makes a command longer


@functools.cache
def flags_of(command: str) -> dict[str, list[str]]:
    """Returns the flags of a command by its help, and for each the values at its edges."""
    found = {}
    for no, name, text in FLAG.findall(commands.run(command, "--help").stdout):
        number = NUMBER.search(" ".join(text.split()))
        if no:
            found[name] = ["true", "false", "maybe"]
        elif number and number[2]:
            low, high = float(number[2]), float(number[3])
            edges = [low - 1, low, low + 1, high + 1, *([high] if high <= LONGEST else [])]
            found[name] = [f"{edge:g}" for edge in edges] + ["", "1.5", "nan", "1e400", "many"]
        else:
            found[name] = WORDS
    return found


@pytest.mark.slow
@pytest.mark.parametrize("command", WORKING)
@pytest.mark.parametrize("key", range(KEYS))
def test_commands_work_or_say_why_not(command, key, tmp_path):
    draw = random.Random(f"{command} {key}")
    for number in range(8):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        base = []
        for word in WORKING[command].split():
            base += RUNS[word].flags() if word in RUNS else [word]
        names = draw.sample(sorted(flags_of(command)), min(2, len(flags_of(command))))
        edges = [f"--{name}={draw.choice(flags_of(command)[name])}" for name in names]
        edges = [
            re.sub(r"^(--(?:\w+_dir|output|json|save_policy)=)(?!OUT|/)", r"\1OUT/", edge)
            for edge in edges
        ]
        words = [word.replace("OUT", str(folder)) for word in [*base, *edges]]
        check(commands.run(command, *words, timeout=60), folder, shlex.join(words))


def check(process, folder: Path, words: str) -> None:
    """Asserts that a command did something, or refused in one line."""
    said = process.stderr
    assert process.returncode in (0, 1, 2) and "Traceback" not in said, f"{words}\n{said}"
    if process.returncode:
        assert said.count("error: ") >= 1 and len(said.splitlines()) <= 40, f"{words}\n{said}"
    else:
        assert process.stdout or any(folder.iterdir()), words


def edges_of(setting) -> list:
    """Returns values at and beyond the edges of a setting."""
    bounds = [float(number) for number in re.findall(r"-?\d[\d.e+-]*", setting.bounds or "")]
    near = [value for bound in bounds for value in (bound - 1, bound, bound + 1)]
    numbers = [*near, 0, -1, 1, 10**30, -(10**30), math.nan, math.inf, -math.inf, 1e-300]
    whole = [int(value) for value in numbers if math.isfinite(value)]
    return [*numbers, *whole, None, True, "", "x", (), ((),), (0,), (1e400,), ("",), [], {}, b"x"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_settings_are_taken_or_refused(system):
    """Each alone, at all its edges."""
    kind, tried = SYSTEMS[system], 0
    for setting in kind.describe():
        for value in edges_of(setting):
            mapping = kind().to_mapping()
            *groups, field = setting.name.removeprefix("config.").split(".")
            inner = mapping
            for group in groups:
                inner = inner[group]
            inner[field] = value
            tried += 1
            try:
                kind.from_mapping(mapping)
            except ConfigError as error:
                assert "\n" not in str(error)
    assert tried > 300
