"""launch.export and launch.meta_test --save_policy, and damaged and hostile losses."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import tensorflow as tf

import epg_tf
from epg_tf.artifacts.loss_files import PRETRAINED
from epg_tf.core.errors import RecordError
from tests.launch import commands

GOLDEN = commands.ROOT / "tests" / "golden" / "exported"


@pytest.mark.slow
def test_a_pretrained_loss_is_exported_and_saved_model_cli_reads_it(tmp_path):
    words = ["export", "--loss=random_hopper", f"--output_dir={tmp_path}"]
    assert commands.done(*words).count("\n") == 2
    files = "README.md assets fingerprint.pb learner.py loss.json loss.npz saved_model.pb variables"
    assert sorted(path.name for path in tmp_path.iterdir()) == files.split()
    card = (tmp_path / "README.md").read_text()
    assert card.startswith((PRETRAINED / "random_hopper" / "README.md").read_text().rstrip())
    assert "| `policy_mean` | [P, 128, 3] float32 |" in card
    cli = [sys.executable, "-m", "tensorflow.python.tools.saved_model_cli", "show", "--all"]
    shown = subprocess.run(
        [*cli, "--dir", tmp_path], capture_output=True, text=True, check=True
    ).stdout
    for text in (
        "signature_def['loss']",
        "signature_def['gradients']",
        "signature_def['describe']",
        "inputs['policy_mean'] tensor_info:\n        dtype: DT_FLOAT\n        shape: (-1, 128, 3)",
        "outputs['per_step']",
        "outputs['json']",
    ):
        assert text in shown
    assert "--overwrite" in commands.refused(*words)


@pytest.mark.slow
def test_a_loss_without_a_card_gets_one_and_an_export_can_be_exported(tmp_path):
    best = GOLDEN.parent / "run" / "best"
    commands.done("export", f"--loss={best}", f"--output_dir={tmp_path / 'one'}")
    commands.done("export", f"--loss={tmp_path / 'one'}", f"--output_dir={tmp_path / 'two'}")
    cards = [(tmp_path / name / "README.md").read_text() for name in ("one", "two")]
    assert cards[0] == cards[1] and cards[0].count("## Use without epg_tf") == 1


@pytest.mark.slow
def test_the_first_agent_of_a_test_can_be_saved(tmp_path):
    """Its folder holds the policy and where it came from; a folder in use is refused before
    anything is tested.
    """
    flags = ["--loss=point_goal", "--lives=2", "--updates=2", "--compare=none"]
    flags.append(f"--save_policy={tmp_path / 'test' / 'policy'}")
    commands.done("meta_test", *flags, f"--output_dir={tmp_path / 'test'}")
    about = json.loads((tmp_path / "test" / "policy" / "policy.json").read_text())
    assert (
        about["format_version"] == 1
        and about["env_steps"] == 64
        and len(about["policy_sha256"]) == 64
    )
    policy = epg_tf.open_saved_model(tmp_path / "test" / "policy")
    assert policy.get_initial_state(batch_size=tf.constant(3)) == ()
    refused = commands.run("meta_test", *flags, f"--output_dir={tmp_path / 'other'}")
    assert (
        refused.returncode == 2
        and "--save_policy=" in refused.stderr
        and not (tmp_path / "other").exists()
    )


def rewrite(folder, **changes):
    path = folder / "loss.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def rewrite_task(folder, **changes):
    config = json.loads((folder / "loss.json").read_text())["config"]
    rewrite(folder, config={**config, "task": {**config["task"], **changes}})


def swapped_shapes(folder):
    shapes = json.loads((folder / "loss.json").read_text())["parameter_shapes"]
    shapes["head/kernel"], shapes["context/kernel"] = (
        shapes["context/kernel"],
        shapes["head/kernel"],
    )
    rewrite(folder, parameter_shapes=shapes)


def wrong_family(folder):
    rewrite(folder, family="random_hopper")


def another_body(folder):
    rewrite_task(folder, family="random_hopper", frame_skip=4)


def importing_family(folder):
    rewrite_task(folder, family="gymnasium:antigravity:Evil-v0")


def oversized(folder):
    os.truncate(folder / "loss.npz", 2**40)  # a hole, which takes no room


def path_traversal(folder):
    with zipfile.ZipFile(folder / "loss.npz", "w") as archive:
        archive.writestr("../../escaped.npy", b"out of the folder")


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("escaped",)  # in the folder of the process


def pickled(folder):
    np.savez(folder / "loss.npz", phi=np.array([Bomb()], dtype=object))


def foreign_saved_model(folder):
    (folder / "loss.json").unlink()
    (folder / "loss.npz").unlink()


DAMAGE = {
    swapped_shapes: "parameter_shapes",
    wrong_family: "family='random_hopper'",
    another_body: "its config means",
    importing_family: "import a module",
    oversized: "1099511627776 bytes, more than",
    path_traversal: "is a path, not the name",
    pickled: "Object arrays cannot be loaded",
    foreign_saved_model: "SavedModel of other origin",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_and_hostile_losses_are_refused_in_one_line(tmp_path, monkeypatch, damage):
    """By what loads a loss in every command; other damage is in tests/artifacts."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "deep" / "loss"
    shutil.copytree(GOLDEN, folder)
    damage(folder)
    with pytest.raises(RecordError) as refused:
        epg_tf.load_loss(folder)
    message = str(refused.value)
    assert message.startswith(f"{folder}: ") and "\n" not in message and DAMAGE[damage] in message
    assert not list(tmp_path.rglob("escaped*"))


def test_an_unreadable_card_is_told(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "loss")
    (tmp_path / "loss" / "README.md").write_bytes(b"\xff\xfe")
    words = [f"--loss={tmp_path / 'loss'}", f"--output_dir={tmp_path / 'out'}"]
    assert "README.md" in commands.refused("export", *words) and not (tmp_path / "out").exists()
