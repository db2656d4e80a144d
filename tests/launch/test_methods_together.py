"""Meta-trains one small run of every method and tests them together, exports and publishes the
evolved starts, as users do.
"""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import epg_tf
from tests.launch import commands
from tests.launch.systems import SYSTEMS

pytestmark = pytest.mark.slow

FAMILY = {"task__family": "point_goal", "task__episode_limit": 6, "policy__hidden": "(4,)"}
PPO_I = {
    "evolution__moves": "initialisation",
    "evolution__guidance": 1,
    "evolution__final_guidance": 1,
}
RUNS = {
    "epg": ("evolution", FAMILY),
    "epg_i": ("evolution", FAMILY | {"evolution__moves": "both"}),
    "ppo_i": ("evolution", FAMILY | PPO_I),
    "maml": ("maml", {"task__frame_skip": 4, "adaptation__env_steps": 24}),
    "rl2": ("rl2", {"task__family": "point_goal", "validation_period": 1}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of tiny runs by their names."""
    folder = tmp_path_factory.mktemp("runs")
    for name, (system, changes) in RUNS.items():
        words = SYSTEMS[system].flags(**changes)
        commands.done("meta_train", *words, f"--run_dir={folder / name}")
    return folder


def test_all_methods_are_rows_of_one_table_and_curves_of_one_picture(runs, tmp_path):
    commands.done(
        "meta_test",
        f"--loss={runs / 'epg'},{runs / 'epg_i'},{runs / 'ppo_i'}",
        f"--compare=ppo,maml:{runs / 'maml'},maml10:{runs / 'maml'}/final,rl2:{runs / 'rl2'}",
        "--lives=4",
        f"--output_dir={tmp_path / 'test'}",
    )
    summary = json.loads((tmp_path / "test" / "summary.json").read_text())
    methods = {"epg", "epg_i", "ppo_i", "ppo", "ppo_as_epg", "maml", "maml10", "rl2"}
    assert methods <= set(summary)
    assert all(summary[name]["lives"] == 4 for name in methods)
    steps = summary["about"]["meta_training_env_steps"]
    for name in ("epg", "epg_i", "ppo_i", "maml", "rl2"):
        assert any(key.startswith(f"{name} ") and count > 0 for key, count in steps.items()), name
    with open(tmp_path / "test" / "curves.csv", newline="") as stream:
        tasks = {row["method"]: row["task"] for row in csv.DictReader(stream)}
    assert methods <= set(tasks) and len(set(tasks.values())) == 1
    assert (tmp_path / "test" / "curves.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("name", "signatures"),
    [
        ("epg_i", ["describe", "gradients", "initial_policy", "loss"]),
        ("ppo_i", ["describe", "initial_policy"]),
    ],
)
def test_evolved_starts_are_exported_and_published(runs, tmp_path, name, signatures):
    run, test, exported = runs / name, tmp_path / "test", tmp_path / "exported"
    commands.done("export", f"--loss={run}", f"--output_dir={exported}")
    assert sorted(epg_tf.open_saved_model(exported).signatures) == signatures
    words = [f"--loss={run}", "--compare=none", "--lives=4"]
    commands.done("meta_test", *words, f"--output_dir={test}")
    words = [f"--run_dir={run}", f"--evaluations={test}", "--name=start"]
    commands.done("publish", *words, f"--output_dir={tmp_path / 'published'}")
    folders = tmp_path / "published" / "start", run / "best"
    np.testing.assert_array_equal(*(epg_tf.load_loss(folder).phi for folder in folders))
    card = (tmp_path / "published" / "start" / "README.md").read_text()
    assert "from which" in card and "| time |" in card
