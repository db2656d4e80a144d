"""Tests launch.flag_errors: what is wrong with flags, in one line and in plain words."""

from __future__ import annotations

import pytest
from absl import flags

from launch.flag_errors import in_one_line

ILLEGAL = flags.IllegalFlagValueError
LISTED = "`settings` lists those of EPG, with --system=maml|metagenrl|rl2 others"


@pytest.mark.parametrize(
    ("error", "words", "line"),
    [
        (
            ILLEGAL("flag --config.a.b=x: could not convert string to float: 'x'"),
            ["--config.a.b=x"],
            "flag --config.a.b=x: 'x' is no number",
        ),
        (
            ILLEGAL(
                "flag --config.a.b=x: ('Non-boolean argument to boolean flag', 'x')",
            ),
            ["--config.a.b=x"],
            "flag --config.a.b=x: 'x' is neither true nor false",
        ),
        (
            ILLEGAL("flag --config.a=1: Failed to parse '1' as a ConfigDict: `1` is not a dict."),
            ["--config.a=1"],
            "flag --config.a=1: config.a is a group of settings; set one of them, "
            "--config.a.FIELD=VALUE",
        ),
        (
            KeyError('"foo"'),
            ["--config=point_goal", "--config.task.physics=exact", "--config.loss.foo=1"],
            f'--config.loss.foo names no setting: "foo". {LISTED}',
        ),
        (
            KeyError('"other"'),
            ["--config.loss.foo=1"],
            f'a --config.GROUP.FIELD flag names no setting: "other". {LISTED}',
        ),
        (
            flags.UnrecognizedFlagError("config.a.b", "1"),
            ["--config.a.b=1"],
            "--config.a.b is no flag of this command, which has no settings; leave it out",
        ),
        (
            flags.UnrecognizedFlagError("config.a.b", "1"),
            ["--run_dir=a", "--resume", "--config.a.b=1"],
            "--run_dir=a: there is no run to resume; name the folder of one",
        ),
    ],
)
def test_lines(error, words, line):
    known = ("config", "run_dir", "resume") if "--resume" in words else ()
    assert in_one_line(error, words, "settings", known) == line
