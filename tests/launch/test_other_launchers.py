"""launch.meta_test, launch.benchmark and launch.tune, each with tiny settings."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest
from absl import flags

from epg_tf.artifacts.artifact import load_loss, save
from epg_tf.core.errors import RecordError
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.evaluation.results import read_results
from epg_tf.evaluation.summary import summarize
from epg_tf.runs.folder_lock import FolderLock
from launch import evaluation_flags
from tests.launch import commands

CONFIG = "--config=configs/point_goal.py"


@pytest.fixture(scope="module")
def loss(tmp_path_factory):
    """A loss that two epochs evolved."""
    folder = tmp_path_factory.mktemp("evolved") / "run"
    process = commands.run(
        "meta_train", CONFIG, f"--run_dir={folder}", *commands.settings(evolution__epochs=2)
    )
    assert process.returncode == 0, process.stderr
    return folder / "best"


@pytest.mark.slow
def test_meta_test_writes_curves_summary_and_picture(loss, tmp_path):
    before = (loss / "loss.npz").read_bytes()
    process = commands.run(
        "meta_test",
        f"--loss={loss}",
        f"--output_dir={tmp_path / 'out'}",
        "--lives=5",
        "--updates=4",
    )
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    out = tmp_path / "out"
    assert process.stdout.splitlines()[-2:] == [
        str(out / "curves.png"),
        f"a page to look at: python -m launch.report --run_dir={out} --output={out}.html",
    ]
    assert (loss / "loss.npz").read_bytes() == before
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    methods = ("epg", "ppo", "ppo_as_epg", "untrained", "random_loss", "centred_loss")
    assert [*summary] == ["format_version", *methods, "about"]
    for method in methods:
        result = summary[method]
        assert result["lives"] == 5 and result["env_steps"] == 4 * 8
        assert result["ci95"][0] < result["final_return_mean"] < result["ci95"][1]
    results = read_results(tmp_path / "out" / "curves.csv")
    # Methods, lives, updates and the final policy; PPO has one update, its own M being longer.
    assert len(results) == 5 * 5 * (4 + 1) + 5 * (1 + 1)
    assert (results.select("untrained").pivot("kl")[1] == 0.0).all()
    assert set(results.select("epg").loss) == {str(loss)} and set(results.loss_seed) == {0, -1}
    found = summarize(results)
    assert list(found["epg"].ci95) == pytest.approx(summary["epg"]["ci95"])
    assert found["ppo"].ahead_mean == pytest.approx(summary["ppo"]["ahead_mean"])


def test_meta_test_can_leave_ppo_out(loss, tmp_path):
    process = commands.run(
        "meta_test", f"--loss={loss}", f"--output_dir={tmp_path}", "--lives=2", "--compare=none"
    )
    assert process.returncode == 0, process.stderr
    assert "ppo" not in json.loads((tmp_path / "summary.json").read_text())


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            ["--physics=coarse"],
            "--physics=coarse: config.task.physics='coarse': point_goal declares",
        ),
        (
            [CONFIG, "--config.task.physics=coarse"],
            "--config.task.physics=coarse has no effect here: --physics says in which physics",
        ),
    ],
)
def test_physics_that_a_test_cannot_have_are_refused_before_it_starts(loss, tmp_path, flags, line):
    process = commands.run(
        "meta_test", f"--loss={loss}", f"--output_dir={tmp_path / 'out'}", *flags
    )
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert line in process.stderr and not (tmp_path / "out").exists()


@pytest.mark.parametrize("flag", ["--environment=point_goal", "--env_steps=40", "--episodes=2"])
def test_flags_of_objectives_are_refused_for_losses_of_epg(tmp_path, flag):
    process = commands.run(
        "meta_test", "--loss=point_goal", f"--output_dir={tmp_path / 'out'}", flag
    )
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    words = (
        f"{flag}: --loss=point_goal is a loss of EPG, to which this does not apply; leave it out"
    )
    assert words in process.stderr and not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("physics", ["exact", "coarse"])
def test_the_summary_of_a_test_says_in_which_physics_it_was(tmp_path, physics):
    process = commands.run(
        "meta_test",
        "--loss=random_reacher",
        "--lives=2",
        "--updates=2",
        "--compare=none",
        f"--output_dir={tmp_path / 'out'}",
        *([] if physics == "exact" else ["--physics=coarse"]),
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    about = json.loads((tmp_path / "out" / "summary.json").read_text())["about"]
    assert about["task"]["physics"] == physics
    assert f"unseen random_reacher tasks in {physics} physics" in process.stdout


def _truncated(folder):
    (folder / "loss.npz").write_bytes((folder / "loss.npz").read_bytes()[:500])


def _foreign_config(folder):
    description = json.loads((folder / "loss.json").read_text())
    description["config"]["policy"]["wings"] = 2
    (folder / "loss.json").write_text(json.dumps(description))


def _other_sizes(folder):
    description = json.loads((folder / "loss.json").read_text())
    description["config"]["loss"]["head"] = 3
    (folder / "loss.json").write_text(json.dumps(description))


def _no_description(folder):
    (folder / "loss.json").unlink()


@pytest.mark.parametrize("damage", [_truncated, _foreign_config, _other_sizes, _no_description])
def test_unusable_losses_are_refused_in_one_line(loss, tmp_path, damage):
    shutil.copytree(loss, tmp_path / "loss")
    damage(tmp_path / "loss")
    process = commands.run(
        "meta_test", f"--loss={tmp_path / 'loss'}", f"--output_dir={tmp_path / 'out'}"
    )
    assert process.returncode == 2
    assert (
        process.stderr.startswith(f"error: --loss={tmp_path / 'loss'}")
        and process.stderr.count("\n") == 1
    )
    assert not (tmp_path / "out").exists()


def test_a_missing_loss_and_a_folder_in_use_are_refused(loss, tmp_path):
    process = commands.run(
        "meta_test", f"--loss={tmp_path / 'none'}", f"--output_dir={tmp_path / 'out'}"
    )
    assert process.returncode == 2 and f"--loss={tmp_path / 'none'}" in process.stderr
    (tmp_path / "kept.txt").write_text("precious")
    process = commands.run("meta_test", f"--loss={loss}", f"--output_dir={tmp_path}")
    assert (
        process.returncode == 2
        and (tmp_path / "kept.txt").exists()
        and process.stderr.count("\n") == 1
    )
    process = commands.run(
        "meta_test", f"--loss={loss}", f"--output_dir={loss.parent}", "--overwrite"
    )
    assert process.returncode == 2 and "belongs to a run or loss" in process.stderr
    assert "best_validation_return_mean" in json.loads((loss.parent / "summary.json").read_text())


@pytest.mark.parametrize("flag", ["--resume", "--overwrite"])
def test_a_folder_that_another_test_writes_to_is_refused(tmp_path, flag):
    """Before what that test has written so far is read or removed."""
    unfinished = tmp_path / ".curves.csv.1.tmp"
    unfinished.touch()
    lock = FolderLock(tmp_path)
    lock.acquire()
    process = commands.run(
        "meta_test", "--loss=point_goal", "--config=point_goal", f"--output_dir={tmp_path}", flag
    )
    lock.release()
    assert process.returncode == 2 and unfinished.exists()
    assert "another process is writing to this folder; wait for it" in process.stderr


def test_a_new_folder_is_locked_as_well(tmp_path):
    values = flags.FlagValues()
    flag = flags.DEFINE_string("output_dir", str(tmp_path / "new"), "", flag_values=values)
    values.mark_as_parsed()
    evaluation_flags.prepare_results(flag, False, ())
    with pytest.raises(RecordError, match="another process is writing to this folder"):
        FolderLock(tmp_path / "new").acquire()
    evaluation_flags._lock_of(tmp_path / "new").release()


def test_benchmark_writes_its_numbers(tmp_path):
    process = commands.run(
        "benchmark",
        CONFIG,
        *commands.life_settings(),
        "--lives=10",
        f"--json={tmp_path / 'b.json'}",
    )
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    found = json.loads((tmp_path / "b.json").read_text())
    assert found["coarse"] is None and found["speedup"] is None  # point_goal declares none
    numbers = found["exact"]
    assert set(numbers["shares"]) == {"acting", "physics", "family", "updating", "rest"}
    assert sum(numbers["shares"].values()) == pytest.approx(1.0)
    assert all(share > 0.005 for share in numbers["shares"].values())
    assert numbers["ratio"] == pytest.approx(
        numbers["life_env_steps_per_second"] / numbers["physics_env_steps_per_second"]
    )
    assert numbers["env_steps"] == 10 * (3 * 8 + 3 * 6)
    assert numbers["update_milliseconds"] > 0 and numbers["peak_rss_bytes"] > 1e8


@pytest.mark.slow
def test_benchmark_prints_one_row_for_the_table():
    process = commands.run(
        "benchmark", CONFIG, *commands.life_settings(), "--lives=4", "--markdown"
    )
    assert process.returncode == 0 and process.stderr == ""
    assert re.fullmatch(
        r"\| `point_goal` \| [\d.]+ k? ?\| [\d.]+ k? ?\| [\d.]+ \| (\d+ / ){4}\d+ \|( — \|){5}\n",
        process.stdout,
    )


def test_a_loss_goes_only_where_observations_and_actions_fit(loss, tmp_path):
    process = commands.run(
        "meta_test",
        f"--loss={loss}",
        f"--output_dir={tmp_path / 'out'}",
        "--config=configs/random_hopper.py",
    )
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert "random_hopper has observation_size 11, the loss was made for 6" in process.stderr


@pytest.mark.slow
def test_elsewhere_task_policy_and_baseline_are_replaced(loss, tmp_path):
    """The loss and how it teaches stay; users know if baselines were tuned with other
    observations."""
    config = json.loads((loss.parent / "config.json").read_text())
    config["config"]["inner"]["centred_observations"] = False
    (tmp_path / "uncentred").mkdir()
    (tmp_path / "uncentred" / "config.json").write_text(json.dumps(config))
    process = commands.run(
        "meta_test",
        f"--loss={loss}",
        f"--output_dir={tmp_path / 'out'}",
        "--lives=2",
        f"--config={tmp_path / 'uncentred'}",
        "--config.task.range=mass=3:4",
        "--config.policy.hidden=(5,)",
    )
    assert process.returncode == 0, process.stderr
    assert (
        "has inner.centred_observations=False, baselines have the loss's here, True"
        in process.stdout
    )
    about = json.loads((tmp_path / "out" / "summary.json").read_text())["about"]
    assert about["task"]["range"] == "mass=3:4" and about["updates"] == 3
    assert about["policy"]["hidden"] == [5]
    assert about["replaced"]["config.policy.hidden"] == [[64, 64], [5]]
    tested = {"task", "policy", "surrogate", "ppo", "reinforce", "sac", "td3"}
    assert {name.split(".")[1] for name in about["replaced"]} <= tested


@pytest.mark.slow
def test_a_shared_loss_is_tested_in_another_body(tmp_path):
    """Evolved in hidden_goal (4 observations, 2 actions), tested in directional_half_cheetah."""
    process = commands.run(
        "meta_train",
        "--config=configs/hidden_goal.py",
        f"--run_dir={tmp_path / 'run'}",
        *commands.settings(
            evolution__epochs=1,
            loss__shared_over_actions=True,
            loss__products=1,
            loss__start="policy_gradient",
        ),
    )
    assert process.returncode == 0, process.stderr
    arguments = (
        "meta_test",
        f"--loss={tmp_path / 'run' / 'final'}",
        f"--output_dir={tmp_path / 'out'}",
        "--lives=2",
        "--config=configs/directional_half_cheetah.py",
        "--config.task.episode_limit=6",
    )
    process = commands.run(*arguments, "--compare=reinforce")
    assert process.returncode == 0 and process.stderr == "", process.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["about"]["task"]["family"] == "directional_half_cheetah"
    assert summary["epg"]["lives"] == 2 and "reinforce" in summary
    stated = json.loads((tmp_path / "run" / "final" / "loss.json").read_text())
    assert (stated["observation_size"], stated["action_size"]) == (4, 2)


@pytest.mark.parametrize("path", ["missing/b.json", "keep.txt", "."])
def test_benchmark_refuses_before_measuring_what_it_cannot_write(tmp_path, path):
    (tmp_path / "keep.txt").write_text("precious")
    process = commands.run(
        "benchmark", CONFIG, *commands.life_settings(), f"--json={tmp_path / path}"
    )
    assert process.returncode == 2 and "--json=" in process.stderr and process.stdout == ""
    assert (tmp_path / "keep.txt").read_text() == "precious"


@pytest.mark.slow
def test_all_rivals_learn_longer_and_say_when_they_match(loss, tmp_path):
    process = commands.run(
        "meta_test",
        f"--loss={loss}",
        f"--output_dir={tmp_path / 'out'}",
        "--lives=2",
        "--compare=sac,reinforce,ppo_as_epg",
        "--compare_updates=2",
        "--alpha=0.5",
        CONFIG,
        "--config.sac.random_steps=40",
        "--config.task.episode_limit=6",
    )
    assert process.returncode == 0 and process.stderr == "", process.stderr
    assert "2 times as many by rivals" in process.stdout and "match" in process.stdout
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    names = ["epg", "ppo_as_epg", "sac", "reinforce", "untrained", "random_loss", "centred_loss"]
    assert [name for name in summary if name in names] == names
    for name in names:
        assert "steps_to_match" in summary[name]
        baseline = name in ("ppo_as_epg", "sac", "reinforce")
        assert summary[name]["env_steps"] == (48 if baseline else 24)
    about = summary["about"]
    assert (about["alpha"], about["compare_updates"]) == (0.5, 2)
    assert about["rivals"]["sac"]["random_steps"] == 40


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--compare=sacc", "--compare='sacc' is no method"),
        ("--compare=sac:runs/a", "sac was not trained before"),
        ("--alpha=1.5", "alpha"),
        ("--compare_updates=0", "compare_updates"),
    ],
)
def test_rivals_that_nobody_knows_are_refused(flag, message, tmp_path):
    process = commands.run("meta_test", "--loss=point_goal", f"--output_dir={tmp_path}/out", flag)
    assert process.returncode == 2 and message in process.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_losses_of_several_seeds_are_tested_together_on_tasks_kept_for_reports(loss, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(loss, other)
    settings = ["--lives=2", "--compare=none", CONFIG, "--config.task.episode_limit=6"]
    found = {}
    for name, words in {"usual": [], "kept": ["--reporting"]}.items():
        folder = f"--output_dir={tmp_path / name}"
        process = commands.run("meta_test", f"--loss={loss},{other}", folder, *settings, *words)
        assert process.returncode == 0 and process.stderr == "", process.stderr
        found[name] = json.loads((tmp_path / name / "summary.json").read_text())
    kept = found["kept"]
    assert kept["about"]["phase"] == "reporting" and kept["about"]["other_losses"] == [str(other)]
    assert kept["epg"]["losses"] == 2
    returns = [kept[key]["final_return_mean"] for key in ("epg", f"epg {loss}", f"epg {other}")]
    assert len(set(returns)) == 1  # the losses are the same
    assert returns[0] != found["usual"]["epg"]["final_return_mean"]  # the tasks are not
    assert 0.0 <= kept["untrained"]["improvement"] <= 1.0


@pytest.mark.slow
def test_an_evolved_start_is_a_row_beside_a_loss_with_the_policy_and_ppo_of_the_config(
    loss, tmp_path
):
    """PPO from the very policy that agents begin with differs where the config's PPO does."""
    learned = load_loss(loss)
    moved = {"moves": "initialisation", "guidance": 1.0, "final_guidance": 1.0}
    evolution = dataclasses.replace(learned.experiment.evolution, **moved)
    start = dataclasses.replace(learned.experiment, evolution=evolution)
    save(tmp_path / "start", initial_phi(start, 0), start, {"env_steps": 5})
    found = {}
    for name, clip in {"usual": 0.2, "sharper": 1e-3}.items():
        process = commands.run(
            "meta_test",
            f"--loss={loss},{tmp_path / 'start'}",
            f"--output_dir={tmp_path / name}",
            "--lives=2",
            "--compare=none",
            CONFIG,
            f"--config.surrogate.clip={clip}",
        )
        assert (process.returncode, process.stderr) == (0, "")
        found[name] = read_results(tmp_path / name)
    assert "the reward is not an input of the evolved loss (EPG)\n" in process.stdout
    assert "PPO from an evolved start (PPO+I) 5\n" in process.stdout
    hashes = [found[name].select("ppo_i").final("policy_sha256") for name in found]
    assert (hashes[0] != hashes[1]).all()
    same = [found[name].select("epg").final("policy_sha256") for name in found]
    np.testing.assert_array_equal(*same)


def test_a_loss_is_not_tested_twice(tmp_path):
    flags = ["--loss=point_goal,point_goal", f"--output_dir={tmp_path}/out"]
    process = commands.run("meta_test", *flags)
    assert process.returncode == 2 and "names a loss twice" in process.stderr
    flags = ["--loss=point_goal,random_hopper", f"--output_dir={tmp_path}/out"]
    process = commands.run("meta_test", *flags)
    assert process.returncode == 2 and "loss='random_hopper' has config." in process.stderr
    assert not (tmp_path / "out").exists()


def test_a_search_is_not_overwritten_and_goes_on_only_with_its_own_file(tmp_path):
    path = tmp_path / "sac.json"
    path.write_text('{"format_version": 1, "rival": "td3"}')
    call = ["tune", CONFIG, "--method=sac", "--budget=2"]
    for given, words in {
        (f"--json={path}",): f"--json={path} is there; pass --resume",
        (f"--json={path}", "--resume"): "it is of another search, with baseline='td3'",
        ("--resume",): "--resume=True goes on with a file; name it with --json",
    }.items():
        process = commands.run(*call, *given)
        assert process.returncode == 2 and words in process.stderr and process.stdout == ""
    assert json.loads(path.read_text())["rival"] == "td3"


@pytest.mark.slow
def test_tune_baseline_names_the_best(tmp_path):
    call = [
        "tune",
        CONFIG,
        *commands.life_settings(),
        "--method=reinforce",
        "--lives=2",
        "--budget=4",
        f"--json={tmp_path / 'trials.json'}",
    ]
    process = commands.run(*call)
    assert process.returncode == 0 and process.stderr == "", process.stderr
    assert "4 settings x 2 agents, then 2 settings x 6 agents" in process.stdout
    found = json.loads((tmp_path / "trials.json").read_text())
    assert [trial["agents"] for trial in found["trials"]] == [2] * 4 + [6] * 2
    best = found["winner"]["settings"]
    assert f"reinforce.epochs = {best['epochs']}" in process.stdout
    assert best in [trial["settings"] for trial in found["trials"][4:]]
    assert set(best) == set(found["space"]) and "--method=reinforce" in found["command"]
    assert found["at_edge"].keys() <= set(best) and found["env_steps"] == 24
    assert found["centred_observations"] is True
    stopped = {**found, "trials": found["trials"][:5], "winner": None}
    (tmp_path / "trials.json").write_text(json.dumps(stopped))
    again = commands.run(*call, "--resume")
    assert again.returncode == 0 and again.stdout == process.stdout, again.stderr
    whole = json.loads((tmp_path / "trials.json").read_text())
    assert {**whole, "command": found["command"]} == found
