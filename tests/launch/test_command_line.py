"""launch.command_line: messages name flags; of several ranks one prints, none waits for ever."""

import errno
import os
import signal
import types

import pytest
from absl import flags

from epg_tf.core import files
from launch import command_line, evaluation_flags
from tests.launch import commands


@pytest.fixture
def rank(monkeypatch):
    """A function that makes this process a rank; exits become exceptions, and waiting takes no
    time.
    """
    waited = []
    monkeypatch.setattr(command_line.time, "sleep", waited.append)
    monkeypatch.setattr(command_line.os, "_exit", lambda code: pytest.exit(f"at once, with {code}"))
    handlers = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}

    def become(number):
        monkeypatch.setenv("HOROVOD_RANK", str(number))
        monkeypatch.setenv("HOROVOD_SIZE", "3")
        return waited

    yield become
    for name, handler in handlers.items():
        signal.signal(name, handler)


@pytest.mark.parametrize(
    ("running", "shell", "words"),
    [
        ("/there/.venv/bin/python", "/there/.venv/bin", "python"),
        ("HERE/.venv/bin/python", "/elsewhere", ".venv/bin/python"),
        ("/my folder/bin/python", None, "'/my folder/bin/python'"),
    ],
)
def test_messages_name_the_interpreter_that_runs(running, shell, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    running = running.replace("HERE", str(tmp_path))
    monkeypatch.setattr(command_line.sys, "executable", running)
    found = None if shell is None else f"{shell}/python"
    monkeypatch.setattr(command_line.shutil, "which", lambda name: found)
    assert command_line.program("meta_test") == f"{words} -m launch.meta_test"


def failure(*arguments) -> str:
    """Returns how a failing process ended."""
    with pytest.raises((SystemExit, pytest.exit.Exception)) as raised:
        command_line.fail(*arguments)
    return str(raised.value)


def test_a_single_process_prints_and_exits(monkeypatch, capsys):
    for name in [name for name in os.environ if name.startswith("HOROVOD_")]:
        monkeypatch.delenv(name)
    assert failure("no such thing") == "2" and capsys.readouterr().err == "error: no such thing\n"


@pytest.mark.parametrize(
    ("number", "reporting", "where", "waits"),
    [(0, (), "", []), (2, (), " on rank 2", [10.0]), (1, (2, 1), "", [])],
)
def test_rank_0_or_the_named_one_prints_at_once_and_others_wait(
    rank, capsys, number, reporting, where, waits
):
    """They name themselves; another rank is named where rank 0 is lost."""
    waited = rank(number)
    assert failure("no such thing", *reporting) == "at once, with 2"
    assert capsys.readouterr().err == f"error{where}: no such thing\n" and waited == waits


def test_a_rank_that_is_none_ends_the_command_in_one_line(monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "abc")
    process = commands.run("meta_train", "--config=point_goal", "--run_dir=/nowhere/run")
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert process.stderr.startswith("error: HOROVOD_RANK=abc in the environment is no rank")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("runs/a: not empty; pass resume=True", "--run_dir=runs/a: not empty; pass --resume"),
        ("runs/a/b: not empty", "runs/a/b: not empty"),
        ("x: no loss; pass overwrite=True", "--loss=x: no loss; pass --overwrite"),
        ("seed=1: the run in runs/a has seed 0", "--seed=1: the run in runs/a has seed 0"),
        ("config.seed=1: too large", "config.seed=1: too large"),
        ("rank 1 is late, pass a larger timeout", "rank 1 is late, pass a larger --rank_timeout"),
        ("resume=True and overwrite=True contradict", "--resume and --overwrite contradict"),
    ],
)
def test_messages_of_the_package_name_flags(monkeypatch, message, shown):
    values = flags.FlagValues()
    flags.DEFINE_string("run_dir", "runs/a/", "", flag_values=values)
    flags.DEFINE_list("loss", ["y", "x"], "", flag_values=values)
    flags.DEFINE_integer("seed", 1, "", flag_values=values)
    values.mark_as_parsed()
    monkeypatch.setattr(command_line.flags, "FLAGS", values)
    assert command_line.with_flags(message) == shown


@pytest.mark.parametrize(
    ("known", "again"),
    [
        ({}, "again"),
        ({"overwrite": False}, "again with --overwrite"),
        ({"resume": False}, "with --resume"),
        ({"overwrite": False, "resume": False}, "with --resume"),
        ({"overwrite": True, "resume": False}, "with --resume instead of --overwrite"),
    ],
)
def test_a_full_disk_is_told_in_one_line(tmp_path, capsys, monkeypatch, known, again):
    """With the file, and with the words that keep what has been done."""
    values = flags.FlagValues()
    for name, value in known.items():
        flags.DEFINE_bool(name, value, "", flag_values=values)
    values.mark_as_parsed()
    monkeypatch.setattr(command_line.flags, "FLAGS", values)
    path = tmp_path / "curves.csv"

    def fill(stream):
        raise OSError(errno.ENOSPC, "No space left on device")  # as write() raises it

    monkeypatch.setattr(command_line.app, "run", lambda guarded, **_: guarded(["x"]))
    with pytest.raises(SystemExit, match="^1$"):
        command_line.run(lambda argv: files.write_atomically(path, fill))
    assert capsys.readouterr().err == (
        f"error: [Errno 28] No space left on device: '{path}'; remove the cause and run the "
        f"same command {again}\n"
    )


def test_json_replaces_results_and_nothing_else(tmp_path):
    """No file that was copied out of a folder, and none that nobody can read to its end."""
    result, deep, pipe = (tmp_path / name for name in ("kept.json", "deep", "pipe"))
    files.write_json(result, {"rows": []})
    evaluation_flags.check_json(types.SimpleNamespace(name="json", value=str(result)))
    for key in ("about", "kind"):
        files.write_json(tmp_path / key, {key: {}})
    deep.write_text("[" * 100_000)
    os.mkfifo(pipe)
    others = [tmp_path / "about", tmp_path / "kind", deep, pipe, tmp_path, "/dev/zero"]
    for path in others:
        with pytest.raises(command_line.UsageError, match=f"^--json={path} is there, and is no r"):
            evaluation_flags.check_json(types.SimpleNamespace(name="json", value=str(path)))


def test_the_words_of_a_flag_file_stand_in_its_place(tmp_path):
    (tmp_path / "flags.txt").write_text("# A remark.\n--config=point_goal\n\n--seed=3\n")
    words = ["--run_dir=a", f"--flagfile={tmp_path}/flags.txt", "--seed=4"]
    expected = ["--run_dir=a", "--config=point_goal", "--seed=3", "--seed=4"]
    assert command_line.with_flag_files(words) == expected


@pytest.mark.parametrize(("name", "content"), [("none.txt", None), ("raw.bin", b"\xff\xfe\x00")])
def test_a_flag_file_that_cannot_be_read_is_told_in_one_line(tmp_path, capsys, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        command_line.with_flag_files([f"--flagfile={tmp_path}/{name}"])
    shown = capsys.readouterr().err
    assert ended.value.code == 2 and shown.count("\n") == 1 and "error: --flagfile: " in shown
