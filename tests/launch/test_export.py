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
from epg_tf.artifacts import loss_files
from epg_tf.artifacts.artifact import PRETRAINED
from tests.launch import commands

GOLDEN = commands.ROOT / "tests" / "golden" / "exported"


@pytest.mark.slow
def test_a_shipped_loss_is_exported_and_saved_model_cli_reads_it(tmp_path):
    process = commands.run("export", "--loss=random_hopper", f"--output_dir={tmp_path}")
    assert process.returncode == 0 and process.stderr == "" and process.stdout.count("\n") == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "assets",
        "card.md",
        "fingerprint.pb",
        "loss.json",
        "loss.npz",
        "saved_model.pb",
        "variables",
    ]
    card = (tmp_path / "card.md").read_text()
    assert card.startswith((PRETRAINED / "random_hopper" / "card.md").read_text().rstrip())
    assert "| `policy_mean` | [P, 128, 3] float32 |" in card
    shown = subprocess.run(
        [
            sys.executable,
            "-m",
            "tensorflow.python.tools.saved_model_cli",
            "show",
            "--dir",
            tmp_path,
            "--all",
        ],
        capture_output=True,
        text=True,
        check=True,
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
    again = commands.run("export", "--loss=random_hopper", f"--output_dir={tmp_path}")
    assert again.returncode == 2 and again.stderr.count("\n") == 1 and "--overwrite" in again.stderr
    onto = commands.run("export", f"--loss={tmp_path}", f"--output_dir={tmp_path}", "--overwrite")
    assert (
        onto.returncode == 2
        and "where losses are kept" in onto.stderr
        and epg_tf.load_loss(tmp_path)
    )


@pytest.mark.slow
def test_a_loss_without_a_card_gets_one_and_an_export_can_be_exported(tmp_path):
    best = GOLDEN.parent / "run" / "best"
    process = commands.run("export", f"--loss={best}", f"--output_dir={tmp_path / 'one'}")
    assert process.returncode == 0, process.stderr
    process = commands.run(
        "export", f"--loss={tmp_path / 'one'}", f"--output_dir={tmp_path / 'two'}"
    )
    assert process.returncode == 0, process.stderr
    cards = [(tmp_path / name / "card.md").read_text() for name in ("one", "two")]
    assert cards[0] == cards[1] and cards[0].count("## Use without epg_tf") == 1


@pytest.mark.slow
def test_the_first_agent_of_a_test_can_be_saved(tmp_path):
    """Its folder holds the policy and where it came from; a folder in use is refused before
    anything is tested.
    """
    flags = (
        "--loss=point_goal",
        "--lives=2",
        "--updates=2",
        "--compare=none",
        f"--save_policy={tmp_path / 'policy'}",
    )
    flags = (*flags[:-1], f"--save_policy={tmp_path / 'test' / 'policy'}")
    process = commands.run("meta_test", *flags, f"--output_dir={tmp_path / 'test'}")
    assert process.returncode == 0 and process.stderr == ""
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


def truncated(folder):
    os.truncate(folder / "loss.npz", 300)


def swapped_shapes(folder):
    shapes = json.loads((folder / "loss.json").read_text())["parameter_shapes"]
    shapes["head/kernel"], shapes["context/kernel"] = (
        shapes["context/kernel"],
        shapes["head/kernel"],
    )
    rewrite(folder, parameter_shapes=shapes)


def with_phi(folder, phi):
    np.savez(folder / "loss.npz", phi=phi)
    rewrite(folder, phi_sha256=loss_files.checksum(phi), parameters=phi.size)


def not_a_number(folder):
    phi = epg_tf.load_loss(folder).phi
    phi[3] = np.nan
    with_phi(folder, phi)


def wrong_family(folder):
    rewrite(folder, family="random_hopper")


def another_body(folder):
    config = json.loads((folder / "loss.json").read_text())["config"]
    rewrite(
        folder,
        config={**config, "task": {**config["task"], "family": "random_hopper", "frame_skip": 4}},
    )


def importing_family(folder):
    config = json.loads((folder / "loss.json").read_text())["config"]
    rewrite(
        folder,
        config={**config, "task": {**config["task"], "family": "gymnasium:antigravity:Evil-v0"}},
    )


def oversized(folder):
    os.truncate(folder / "loss.npz", 2**40)  # a hole, which takes no room


def zip_bomb(folder):
    with (
        zipfile.ZipFile(folder / "loss.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("phi.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_1_0(
            member, {"descr": "<f4", "fortran_order": False, "shape": (2**26,)}
        )
        for _ in range(256):
            member.write(bytes(2**20))


def path_traversal(folder):
    with zipfile.ZipFile(folder / "loss.npz", "w") as archive:
        archive.writestr("../../escaped.npy", b"out of the folder")


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("escaped",)  # in the folder where the command runs


def pickled(folder):
    np.savez(folder / "loss.npz", phi=np.array([Bomb()], dtype=object))


def unreadable_card(folder):
    (folder / "card.md").write_bytes(b"\xff\xfe")


def foreign_saved_model(folder):
    (folder / "loss.json").unlink()
    (folder / "loss.npz").unlink()


def newer_format(folder):
    rewrite(folder, format_version=2)


def missing_card(folder):
    (folder / "loss.json").unlink()
    (folder / "saved_model.pb").unlink()


def another_kind(folder):
    rewrite(folder, kind="lstm_objective")


DAMAGE = {
    truncated: "damaged or not an .npz file",
    swapped_shapes: "parameter_shapes",
    not_a_number: "not finite",
    wrong_family: "family='random_hopper'",
    another_body: "its config means",
    importing_family: "import a module",
    oversized: "1099511627776 bytes, more than",
    zip_bomb: "bytes when unpacked",
    path_traversal: "is a path, not the name",
    pickled: "Object arrays cannot be loaded",
    foreign_saved_model: "SavedModel of other origin",
    newer_format: "format_version 2",
    missing_card: "holds no loss.json",
    another_kind: "loss.json does not describe a",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_and_hostile_losses_get_one_clear_line(tmp_path, damage):
    folder = tmp_path / "deep" / "loss"
    shutil.copytree(GOLDEN, folder)
    damage(folder)
    process = commands.run("export", f"--loss={folder}", f"--output_dir={tmp_path / 'out'}")
    assert process.returncode == 2 and process.stderr.count("\n") == 1 and process.stdout == ""
    assert (
        process.stderr.startswith(f"error: --loss={folder}: ") and DAMAGE[damage] in process.stderr
    )
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.rglob("escaped*")) and not (commands.ROOT / "escaped").exists()


def test_an_unreadable_card_is_told(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "loss")
    unreadable_card(tmp_path / "loss")
    process = commands.run(
        "export", f"--loss={tmp_path / 'loss'}", f"--output_dir={tmp_path / 'out'}"
    )
    assert (
        process.returncode == 2 and process.stderr.count("\n") == 1 and "card.md" in process.stderr
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_overwrite_spares_what_is_no_export(tmp_path):
    """A run's loss, a foreign folder, an export where a policy is to go, and the pretrained
    losses."""
    shutil.copytree(GOLDEN.parent / "run", tmp_path / "run")
    shutil.copytree(GOLDEN, tmp_path / "export")
    (tmp_path / "site" / "assets").mkdir(parents=True)
    (tmp_path / "site" / "assets" / "logo.svg").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    pretrained = PRETRAINED
    kept = "losses are kept"
    for folder, words in (
        (tmp_path / "run" / "best", "card.md is not there"),
        (tmp_path / "site", "is not there"),
        (tmp_path, kept),
        (pretrained / "point_goal", kept),
        (pretrained / "new", kept),
    ):
        process = commands.run(
            "export", f"--loss={tmp_path / 'export'}", f"--output_dir={folder}", "--overwrite"
        )
        assert (
            process.returncode == 2 and process.stderr.count("\n") == 1 and words in process.stderr
        )
    process = commands.run(
        "meta_test",
        "--loss=point_goal",
        f"--output_dir={tmp_path / 'test'}",
        "--overwrite",
        f"--save_policy={tmp_path / 'export'}",
    )
    assert process.returncode == 2 and "policy.json is not there" in process.stderr
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "flags",
    [
        ["--output_dir=OUT"],
        ["--loss=point_goal"],
        ["--loss=nothing", "--output_dir=OUT"],
        ["--loss=../../etc", "--output_dir=OUT"],
        ["--loss=point_goal", "--output_dir=FILE"],
    ],
)
def test_bad_flags_get_one_line(tmp_path, flags):
    (tmp_path / "file").write_text("mine")
    words = [
        flag.replace("OUT", str(tmp_path / "out")).replace("FILE", str(tmp_path / "file"))
        for flag in flags
    ]
    process = commands.run("export", *words)
    assert (
        process.returncode == 2
        and process.stderr.count("\n") == 1
        and (tmp_path / "file").read_text() == "mine"
    )
