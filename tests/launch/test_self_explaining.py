"""The command line explains itself: commands, configs, settings, and what has no effect."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from epg_tf.artifacts.artifact import pretrained_losses, save
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.random_streams import loss_generator
from epg_tf.epg.settings import Experiment
from epg_tf.losses.lstm_objective import initial_parameters
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs import config_files
from epg_tf.runs.config_files import load_experiment
from epg_tf.tasks.settings import TaskConfig
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


@pytest.fixture
def objective(tmp_path):
    """The folder of an objective of MetaGenRL that was never trained."""
    experiment = load_experiment("metagenrl_laptop")
    small = dataclasses.replace(experiment.objective, lstm_units=4)
    experiment = dataclasses.replace(experiment, objective=small)
    parameters = initial_parameters(loss_generator(0), experiment.objective)
    save(tmp_path, parameters, experiment, {})
    return tmp_path


@pytest.mark.parametrize("words", [[], ["--help"], ["help"]])
def test_help_lists_every_command_with_one_line(words):
    process = epg_tf(*words)
    assert (process.returncode, process.stderr) == (0, "")
    files = {path.stem for path in (commands.ROOT / "launch").glob("*.py")}
    shared = {"__init__", "__main__", "arguments", "command_line", "config_flag"}
    shared |= {"evaluation_flags", "flag_errors", "meta_test_flags", "run_flags"}
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
    assert "launch.settings` lists all" in " ".join(process.stdout.split())


def test_configs_and_losses_are_listed():
    process = commands.run("list")
    assert (process.returncode, process.stderr) == (0, "")
    listed = process.stdout.splitlines()
    for name in [*config_files.package_configs(), *pretrained_losses()]:
        assert name in listed
    assert "  variants: laptop, paper" in listed


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ([], Experiment),
        (["--system=metagenrl"], MetaGenRLExperiment),
        (["--system=maml"], MAMLExperiment),
        (["--system=rl2"], RL2Experiment),
    ],
)
def test_every_setting_is_listed(flags, kind):
    process = commands.run("settings", *flags)
    assert (process.returncode, process.stderr) == (0, "")
    for setting in kind.describe():
        assert f"{setting.name}={setting.default!r}  ({setting.type}" in process.stdout
        assert setting.bounds in process.stdout
        assert setting.meaning.split()[0] in process.stdout


def test_print_config_shows_settings_and_cost_and_does_nothing(tmp_path):
    folder = tmp_path / "run"
    flags = ["--config=random_hopper:paper", "--config.evolution.epochs=7", f"--run_dir={folder}"]
    process = commands.run("meta_train", *flags, "--print_config")
    assert (process.returncode, process.stderr) == (0, "") and not folder.exists()
    lines = process.stdout.splitlines()
    assert "config.evolution.epochs=7" in lines and "config.task.frame_skip=2" in lines
    assert lines[-1].startswith("cost: 7 epochs x 256 lives x 8192 env steps")


def test_print_config_of_a_test_shows_what_the_test_would_use():
    flags = ["--loss=random_hopper", "--output_dir=nowhere", "--config=random_hopper"]
    process = commands.run("meta_test", *flags, "--config.task.range=nominal", "--print_config")
    assert (process.returncode, process.stderr) == (0, "")
    assert "config.task.range='nominal'" in process.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("meta_test", ["--loss=point_goal", "--output_dir=x", "--config.inner.updates=3"]),
        ("meta_test", ["--loss=point_goal", "--output_dir=x", "--config.loss.reward=true"]),
        ("render", ["--loss=point_goal", "--output=x.png", "--config.compute.threads=2"]),
        ("tune", ["--config.sac.batch=64"]),
        ("tune", ["--config.task.physics=exact"]),
        ("benchmark", ["--config.task.physics=exact"]),
        ("study", ["--measure=adaptation", "--loss=point_goal", "--config.sac.batch=64"]),
        ("list", ["--config.task.frame_skip=3"]),
        ("export", ["--loss=point_goal", "--output_dir=x", "--config.task.frame_skip=3"]),
    ],
)
def test_settings_without_effect_are_refused(name, flags):
    process = commands.run(name, "--config=point_goal", *flags)
    assert process.returncode == 2 and process.stdout == "" and process.stderr.count("\n") == 1
    assert f"{flags[-1]} has no effect here" in process.stderr


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("tune", ["--method=ppo", "--config.baseline.ppo_learning_rate=1e-2"]),
        ("tune", ["--method=ppo", "--config.baseline.ddpg_learning_rate=1e-2"]),
    ],
)
def test_settings_of_metagenrl_without_effect_are_refused(name, flags):
    process = commands.run(name, "--config=metagenrl_laptop", *flags)
    assert process.returncode == 2 and process.stdout == "" and process.stderr.count("\n") == 1
    assert f"{flags[-1]} has no effect here" in process.stderr


def test_a_picture_of_a_path_has_no_frames():
    flags = ("--loss=none", "--config=goal_ant", "--view=path", "--output=path.png")
    process = commands.run("render", *flags, "--frames=3")
    assert process.returncode == 2 and "--frames=3 has no effect with --view=path" in process.stderr


def test_more_settings_than_there_are_to_draw_are_refused():
    process = commands.run("tune", "--config=point_goal", "--method=ppo_as_epg", "--budget=16")
    assert process.returncode == 2 and process.stdout == "" and process.stderr.count("\n") == 1
    assert "--budget=16: --method=ppo_as_epg" in process.stderr and "at most 15" in process.stderr


def test_rivals_of_a_night_may_be_tuned_in_shorter_lives():
    """Lives of evolution must be made shorter with them, though there is no evolution."""
    shorter = ("--config=random_reacher:night", "--config.inner.updates=64", "--print_config")
    process = commands.run("tune", *shorter)
    assert process.returncode == 2 and "config.evolution.longest_life=96" in process.stderr
    process = commands.run("tune", *shorter, "--config.evolution.longest_life=64")
    assert process.returncode == 0 and "config.inner.updates=64" in process.stdout.splitlines()


def test_resuming_nothing_names_the_folder(tmp_path):
    process = commands.run("meta_train", "--resume", f"--run_dir={tmp_path}")
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert f"--run_dir={tmp_path}: there is no run to resume in it" in process.stderr


def test_an_own_family_is_asked_for_by_its_flag(tmp_path):
    settings = Experiment(task=TaskConfig(family="mine")).to_mapping()
    (tmp_path / "config.json").write_text(json.dumps({"config": settings, "seed": 0}))
    process = commands.run("meta_train", "--resume", f"--run_dir={tmp_path}")
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert "'mine'" in process.stderr and "with --config=FILE" in process.stderr


def test_the_version_is_told():
    process = epg_tf("--version")
    assert (process.returncode, process.stdout, process.stderr) == (0, "epg-tf 0.1.0\n", "")


@pytest.mark.parametrize(
    ("name", "config", "proposed"),
    [
        ("render", "metagenrl_laptop", "point_goal"),
        ("benchmark", "rl2_half_cheetah", "point_goal"),
    ],
)
def test_a_config_of_the_other_system_is_refused(name, config, proposed):
    words = ("--loss=none", "--output=life.gif") if name == "render" else ()
    process = commands.run(name, f"--config={config}", *words)
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert f"--config={config} holds" in process.stderr and proposed in process.stderr


def test_print_config_of_an_objective_needs_no_config(objective):
    process = commands.run("meta_test", f"--loss={objective}", "--print_config")
    assert (process.returncode, process.stderr) == (0, "")
    assert "config.objective.lstm_units=4" in process.stdout.splitlines()
