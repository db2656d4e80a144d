"""launch.surroundings: commands work, or say why not in one line, in unusual processes."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from tests.launch import commands

PYTHON = shlex.quote(sys.executable)
SETTINGS = f"{PYTHON} -m launch.settings"
TRAIN = f"{PYTHON} -m launch.meta_train"


def shell(script: str, folder) -> subprocess.CompletedProcess:
    """Runs a script whose $OUT is a folder, with the checkout's modules."""
    return subprocess.run(
        ["sh", "-c", script],
        cwd=commands.ROOT,
        env={**commands.environment(), "OUT": str(folder), "PYTHONPATH": str(commands.ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    "script",
    [
        f"PYTHONIOENCODING=ascii MPLBACKEND=nothing PYTHONOPTIMIZE=1 {SETTINGS} --system=rl2",
        f"{SETTINGS} <&- 2>&-",
    ],
)
def test_commands_work(script, tmp_path):
    process = shell(script, tmp_path)
    assert (process.returncode, process.stderr) == (0, "")
    assert "config." in process.stdout


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"PYTHONOPTIMIZE=2 {SETTINGS}", "PYTHONOPTIMIZE=2 (-OO) removes texts that this program"),
        (
            f"mkdir $OUT/gone && cd $OUT/gone && rmdir $OUT/gone && {SETTINGS}",
            "the working folder was removed; change to one that exists",
        ),
        (f"MUJOCO_GL=nothing {SETTINGS}", "unset it, or set it to egl or osmesa"),
    ],
)
def test_commands_refuse_what_they_cannot_work_with(script, message, tmp_path):
    process = shell(script, tmp_path)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("error: ") and process.stderr.count("\n") == 1
    assert message in process.stderr


@pytest.mark.slow
@pytest.mark.parametrize("variables", ["PYTHONIOENCODING=ascii MPLBACKEND=nothing", ""])
def test_a_run_ends_well(variables, tmp_path):
    """Also without standard error, where progress would be shown."""
    flags = shlex.join(["--config=point_goal", *commands.settings()])
    closed = "" if variables else "2>&-"
    process = shell(f"{variables} {TRAIN} {flags} --run_dir=$OUT/run {closed}", tmp_path)
    assert (process.returncode, process.stderr) == (0, "")
    assert (tmp_path / "run" / "summary.json").is_file()


NO_LOSS = "no pretrained loss of that name"
# A command line, and what standard error says in one line.
ANSWERED = {
    "meta_train --help": "",
    "meta_train --config=random_hopper:night --minutes=1 --begin_with=point_goal": "--run_dir is",
    "report --run_dir=runs/a --output=page.txt": "must be a file that ends in .html",
    "benchmark --config=point_goal --json=missing/speed.json": "--json=missing/speed.json: missing",
    "figure --list --runs=missing": "--runs=missing is no folder",
    "export --loss=missing --output_dir=exported": NO_LOSS,
    "export --loss=point_goal": "--output_dir is missing",
    "publish --run_dir=runs/a --name=Upper --evaluations=runs/b": "--name='Upper' must be",
    "render --loss=missing --output=life.gif": NO_LOSS,
    "render --output=life.gif": "--loss is missing",
    "study": "--measure is missing",
    "study --measure=adaptation --loss=missing": NO_LOSS,
    "tune --config=point_goal --json=missing/trials.json": "--json=missing/trials.json: missing",
}
# Runs each line of a file as a command, in a fork of a process that has imported what takes long.
FORKS = """
import os, runpy, sys
import mujoco, epg_tf.runs.config_files
for number, line in enumerate(open(sys.argv[1])):
    child = os.fork()
    if not child:
        for stream in (1, 2):
            os.dup2(os.open(f"{sys.argv[1]}-{number}-{stream}", os.O_CREAT | os.O_WRONLY), stream)
        sys.argv = line.split()
        runpy.run_module(f"launch.{sys.argv[0]}", run_name="__main__", alter_sys=True)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_flags_are_answered_before_tensorflow_is_imported(tmp_path):
    """Also those that are wrong; a module of that name would be what standard error names."""
    (tmp_path / "tensorflow.py").write_text("raise SystemExit(9)")
    (tmp_path / "words").write_text("\n".join(ANSWERED))
    (tmp_path / "forks.py").write_text(FORKS)
    script = f'PYTHONPATH="$OUT:$PYTHONPATH" {PYTHON} $OUT/forks.py $OUT/words'
    process = shell(script, tmp_path)
    assert (process.returncode, process.stderr) == (0, "")
    codes = process.stdout.split()
    for number, (code, (words, part)) in enumerate(zip(codes, ANSWERED.items(), strict=True)):
        said = (tmp_path / f"words-{number}-2").read_text()
        expected = ("2", 1) if part else ("0", 0)
        assert (code, said.count("\n")) == expected and part in said, (words, said)
