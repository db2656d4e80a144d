"""Meta-trains one small run of every method and tests them together, exports and ships the evolved
starts, as users do.
"""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import epg_tf
from tests.launch import commands

pytestmark = pytest.mark.slow

FAMILY = {"task.family": "point_goal", "task.episode_limit": 6, "task.physics": "exact"}
PPO_I = ("evolution.moves=initialisation", "evolution.guidance=1", "evolution.final_guidance=1")


def _flags(settings) -> list[str]:
    return [f"--config.{name}={value}" for name, value in settings.items()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of tiny runs by their names."""
    folder = tmp_path_factory.mktemp("runs")
    epg = ("meta_train", "--config=point_goal", *commands.settings(policy__hidden="(4,)"))
    maml = {"policy.hidden": "(4,)", "adaptation.env_steps": 24, "outer.tasks": 2}
    rl2 = {"trials": 4, "validation_trials": 2, "network.input_units": 4, "network.lstm_units": 4}
    made = {
        "epg": epg,
        "epg_i": (*epg, "--config.evolution.moves=both"),
        "ppo_i": (*epg, *(f"--config.{setting}" for setting in PPO_I)),
        "maml": (
            "meta_train",
            "--config=maml_half_cheetah",
            *_flags(FAMILY | maml | {"outer.iterations": 2, "outer.validation_period": 1}),
        ),
        "rl2": (
            "meta_train",
            "--config=rl2_half_cheetah",
            *_flags(FAMILY | rl2 | {"iterations": 2, "validation_period": 1, "ppo.epochs": 1}),
        ),
    }
    for name, words in made.items():
        process = commands.run(*words, f"--run_dir={folder / name}")
        assert process.returncode == 0, (name, process.stderr)
    return folder


def test_all_methods_are_rows_of_one_table_and_curves_of_one_picture(runs, tmp_path):
    process = commands.run(
        "meta_test",
        f"--loss={runs / 'epg'},{runs / 'epg_i'},{runs / 'ppo_i'}",
        f"--compare=ppo,maml:{runs / 'maml'},maml10:{runs / 'maml'},rl2:{runs / 'rl2'}",
        "--lives=4",
        f"--output_dir={tmp_path / 'test'}",
    )
    assert (process.returncode, process.stderr) == (0, "")
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
def test_evolved_starts_are_exported_and_shipped(runs, tmp_path, name, signatures):
    process = commands.run(
        "export", f"--loss={runs / name}", f"--output_dir={tmp_path / 'exported'}"
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert sorted(epg_tf.open_saved_model(tmp_path / "exported").signatures) == signatures
    tested = commands.run(
        "meta_test",
        f"--loss={runs / name}",
        "--compare=none",
        "--lives=4",
        f"--output_dir={tmp_path / 'test'}",
    )
    assert tested.returncode == 0, tested.stderr
    pretrained = commands.run(
        "publish",
        f"--run_dir={runs / name}",
        f"--evaluations={tmp_path / 'test'}",
        "--name=start",
        f"--output_dir={tmp_path / 'pretrained'}",
    )
    assert pretrained.returncode == 0, pretrained.stderr
    folders = tmp_path / "pretrained" / "start", runs / name / "best"
    np.testing.assert_array_equal(*(epg_tf.load_loss(folder).phi for folder in folders))
    card = (tmp_path / "pretrained" / "start" / "card.md").read_text()
    assert "from which" in card and "| time |" in card
