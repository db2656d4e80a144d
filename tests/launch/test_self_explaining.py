"""The command line explains itself: commands, configs and settings."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from epg_tf.artifacts.loss_files import pretrained_losses
from epg_tf.runs import config_files
from epg_tf.tasks.registry import FAMILIES, is_packaged
from launch.__main__ import commands as all_commands
from tests.launch import commands


def epg_tf(*words) -> subprocess.CompletedProcess:
    """Runs `python -m launch`, which is `epg-tf` in a checkout."""
    return subprocess.run(
        [sys.executable, "-m", "launch", *words],
        cwd=commands.ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env=commands.environment(),
        check=False,
    )


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_help_lists_every_command_with_one_line(words):
    process = epg_tf(*words)
    assert (process.returncode, process.stderr) == (0, "")
    files = {path.stem for path in (commands.ROOT / "launch").glob("*.py")}
    shared = {"__init__", "__main__", "arguments", "command_line", "config_flag"}
    shared |= {"evaluation_flags", "flag_errors", "meta_test_flags", "run_flags", "surroundings"}
    shared |= {"described_test", "flag_help"}
    for name in files - shared:
        start = f"  {name} ".replace("_", "-")
        (line,) = [line for line in process.stdout.splitlines() if line.startswith(start)]
        assert line.endswith(".") and len(line.split()) > 4
    assert len(all_commands()) == len(files - shared)


def test_a_misspelt_command_is_one_line():
    process = epg_tf("meta-tran", "--config=point_goal")
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert "'meta-tran' is not a command; did you mean meta-train" in process.stderr


@pytest.mark.slow
def test_a_command_can_be_run_by_its_name():
    """With dashes or underscores; its own --help is its module's."""
    process = epg_tf("meta-train", "--help")
    assert process.returncode == 0 and "--run_dir" in process.stdout
    assert "Meta-trains what the config names" in process.stdout
    assert "launch.settings` lists those of EPG" in " ".join(process.stdout.split())


def test_the_help_of_a_command_is_in_groups():
    """Those of one use have what follows its name; each flag is in one group."""
    text = commands.done("meta_test", "--help")
    groups = re.findall(r"^(\w.*):\n((?:  .*\n)+)", text[text.index("\nflags:") :], re.MULTILINE)
    flags = {
        name: re.findall(r"^  --(?:\[no\])?(\w+):", body, re.MULTILINE) for name, body in groups
    }
    kinds = ["for losses of EPG", "for objectives of MetaGenRL"]
    assert [*flags] == ["flags", *kinds, "settings", "this process"]
    assert flags[kinds[0]] == ["alpha", "fixed_policies", "physics"]
    assert flags[kinds[1]] == ["env_steps", "environment", "episodes"]
    assert flags["settings"] == ["config", "print_config"] and flags["this process"] == ["threads"]
    assert "--alpha: Share of PPO" in text and "--physics: <exact|coarse>: Physics" in text


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (["meta-t"], ["meta-test", "meta-train"]),
        (["meta_test", "--comp"], ["--compare=", "--compare_updates="]),
        (["list", "--no"], []),
    ],
)
def test_bash_completes_commands_and_flags(typed, completed):
    shell = 'epg-tf() { python -m launch "$@"; }; eval "$(epg-tf --completion)"; _epg_tf'
    words = f"COMP_WORDS=(epg-tf {' '.join(typed)}); COMP_CWORD={len(typed)}"
    script = f'{words}; {shell}; echo "${{COMPREPLY[*]}}"'
    process = subprocess.run(
        ["bash", "-c", script],
        cwd=commands.ROOT,
        capture_output=True,
        text=True,
        env=commands.environment(),
        check=True,
    )
    assert process.stdout.split() == completed


def test_configs_losses_and_families_with_their_sizes_and_ranges_are_listed():
    printed = commands.done("list")
    listed = printed.splitlines()
    for name in [*config_files.package_configs(), *pretrained_losses()]:
        assert name in listed
    assert "  variants: laptop, paper" in listed
    packaged = {name: kind for name, kind in FAMILIES.items() if is_packaged(name)}
    assert packaged
    for name, kind in packaged.items():
        assert f"{name}: " in printed
        for quantity in kind.quantities:
            assert f"  {quantity.name}: " in printed
    assert "gravity: -20 to -2 (m/s^2); out of distribution -2 to -1" in printed
    assert "direction: -1 or 1" in printed
    assert (
        "observation 11, action 3; at most 1000 env steps an episode, each 8 ms, 4 physics steps"
        in printed
    )


@pytest.mark.parametrize("system", config_files.SYSTEMS)
def test_every_setting_is_listed(system):
    """Those of EPG where no system is named."""
    printed = commands.done("settings", *([] if system == "epg" else [f"--system={system}"]))
    for setting in config_files.SYSTEMS[system].describe():
        assert f"{setting.name}={setting.default!r}" in printed
        for limit in re.findall(r"-?\d[\d.e+-]*|'\w+'", setting.bounds):
            assert limit in printed
        assert setting.meaning.split()[0] in printed


def test_flags_change_what_a_config_leaves_out_and_what_does_not_fit_there(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("def get_config():\n    return {'inner': {'minibatch': 5, 'updates': 7}}\n")
    changed = ("inner.minibatch=4", "inner.update_period=8", "task.range=nominal")
    words = [f"--config={own}", *(f"--config.{each}" for each in changed)]
    printed = commands.done("meta_train", *words, "--print_config").replace("'", "")
    for line in (*changed, "inner.updates=7"):
        assert f"config.{line}\n" in printed


def test_print_config_shows_settings_and_cost_and_does_nothing(tmp_path):
    folder = tmp_path / "run"
    flags = ["--config=random_hopper:paper", "--config.evolution.epochs=7", f"--run_dir={folder}"]
    lines = commands.done("meta_train", *flags, "--print_config").splitlines()
    assert not folder.exists()
    assert "config.evolution.epochs=7" in lines and "config.task.frame_skip=2" in lines
    assert lines[-1].startswith("cost: 7 epochs x 256 lives x 8192 env steps")


def test_the_version_is_told():
    process = epg_tf("--version")
    assert (process.returncode, process.stdout, process.stderr) == (0, "epg-tf 0.1.0\n", "")
