"""launch.figure, as users start it; and the flags of the commands that it prints."""

from __future__ import annotations

import ast
import functools
import shlex

import pytest

from epg_tf.figures.catalogue import CATALOGUE
from epg_tf.figures.declaration import SCALES, Run
from epg_tf.figures.sources import status_of
from epg_tf.runs.config_files import find_config
from tests.figures import kept
from tests.launch import commands


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All commands that the figures need where nothing is there."""
    folder = tmp_path_factory.mktemp("nothing")
    found = [
        command
        for figure in CATALOGUE
        for scale in SCALES
        for command in status_of(figure, scale, [folder]).missing.values()
    ]
    return list(dict.fromkeys(found))


@functools.cache
def defined_flags(name: str) -> set[str]:
    """Returns the flags that a launcher, and the modules of launch/ that it imports, define."""
    tree = ast.parse((commands.ROOT / "launch" / f"{name}.py").read_text())
    found = {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "").startswith("DEFINE_")
        and isinstance(node.args[0], ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found |= {flag for each in names for flag in defined_flags(each)}
    return found


def test_every_command_has_flags_that_its_launcher_knows(made):
    assert len(made) > 100
    for command in made:
        known = defined_flags(command.name)
        for flag, _ in command.flags:
            assert flag in known or flag.startswith("config."), (command, flag)


def test_every_config_and_every_setting_of_a_run_is_usable(made):
    for command in made:
        if "config" in dict(command.flags):
            find_config(dict(command.flags)["config"])
    for figure in CATALOGUE:
        for sources in figure.sources.values():
            for source in sources:
                for run in (source,) if isinstance(source, Run) else source.runs:
                    run.experiment()


def test_commands_survive_a_shell(made):
    for command in made:
        text = command.text("epg-tf {}".format)
        assert shlex.split(text)[2:] == command.words()


@pytest.mark.slow
@pytest.mark.parametrize("system", ["random", "maml", "rl2", "metagenrl"])
def test_commands_of_runs_are_parsed_by_their_launcher(made, system):
    several = [
        command
        for command in made
        if command.name == "meta_train" and dict(command.flags).get("config", "").startswith(system)
    ]
    chosen = max(several, key=lambda command: len(command.flags))
    printed = commands.done("meta_train", *chosen.words(), "--print_config")
    for name, value in chosen.flags:
        if name.startswith("config."):
            assert f"{name}={value!r}" in printed


@pytest.mark.slow
def test_commands_of_tests_are_parsed_by_their_launcher(made):
    (chosen, *_) = [
        command
        for command in made
        if dict(command.flags).get("loss") == "random_hopper" and "updates" in dict(command.flags)
    ]
    commands.done("meta_test", *chosen.words(), "--print_config")


@pytest.mark.slow
def test_the_list_tells_what_is_missing_of_every_figure(tmp_path):
    kept.test(tmp_path / "tests" / "random_hopper-laptop")
    kept.run(tmp_path / "goal_ant-laptop-0", finished=False)
    process = commands.run("figure", "--list", f"--runs={tmp_path}")
    assert process.returncode == 0, process.stderr
    figures = process.stdout.split("\n\n")
    for figure, text in zip(CATALOGUE, figures, strict=False):
        assert text.startswith(f"{figure.name}: {figure.title} (")
    by_name = dict(zip((figure.name for figure in CATALOGUE), figures, strict=False))
    assert "ready\n" in by_name["epg.fig5"] and "missing:" not in by_name["epg.fig5"]
    assert f"  missing: {tmp_path}/tests/random_walker-laptop\n" in by_name["epg.fig6"]
    assert f"--run_dir={tmp_path}/goal_ant-laptop-0 --resume" in by_name["epg.fig10"]


@pytest.mark.slow
def test_a_figure_is_made_and_its_folder_refused_the_second_time(tmp_path):
    kept.test(tmp_path / "runs" / "tests" / "random_hopper-laptop")
    flags = ["--name=epg.fig5", f"--runs={tmp_path}/runs", f"--output_dir={tmp_path}/out"]
    process = commands.run("figure", *flags)
    assert process.returncode == 0, process.stderr
    assert "evolved loss (EPG): mean final return 5.50" in process.stdout
    assert (tmp_path / "out" / "figure.png").is_file()
    again = commands.run("figure", *flags)
    assert again.returncode == 2
    assert f"--output_dir={tmp_path}/out: the folder is not empty" in again.stderr
    assert commands.run("figure", *flags, "--overwrite").returncode == 0


@pytest.mark.slow
def test_one_of_several_that_cannot_be_made_leaves_the_others(tmp_path):
    table = kept.test(tmp_path / "runs" / "tests" / "random_hopper-laptop") / "curves.csv"
    table.write_text(table.read_text()[:-40])
    names = "--name=epg.fig5,epg.table1"
    process = commands.run(
        "figure", names, f"--runs={tmp_path}/runs", f"--output_dir={tmp_path}/out"
    )
    assert process.returncode == 1
    assert "left out: epg.fig5 cannot be made (" in process.stderr
    assert (tmp_path / "out" / "epg.table1" / "figure.png").is_file()


@pytest.mark.slow
def test_a_figure_that_lacks_runs_ends_with_their_commands(tmp_path):
    process = commands.run(
        "figure", "--name=epg.fig6", f"--runs={tmp_path}", f"--output_dir={tmp_path}/out"
    )
    assert process.returncode == 2
    assert f"missing: {tmp_path}/evolved_starts/walker-epg-0\n" in process.stderr
    assert "python -m launch.meta_train --config=random_walker:laptop" in process.stderr
    assert process.stderr.splitlines()[-1].startswith("error: --name=epg.fig6 cannot be made yet")
    assert not (tmp_path / "out").exists()
