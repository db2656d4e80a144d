"""Checks what the README and the pages in docs/ state, where a machine can."""

from __future__ import annotations

import csv
import functools
import importlib
import json
import re

import numpy as np
import pytest

from configs import point_goal
from epg_tf.artifacts.learned_loss import SHIPPED, shipped_losses
from epg_tf.artifacts.learned_objective import shipped_objectives
from epg_tf.baselines.method import LABELS
from epg_tf.core.experiment import Experiment
from epg_tf.core.maml_experiment import MAMLExperiment
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.rl2_experiment import RL2Experiment
from epg_tf.reports.plots import EvaluatedRun
from epg_tf.runs import saved_settings
from epg_tf.runs.study import summarize
from tests.docs.pages import PAGES, ROOT, anchors, commands_in, interval, links, text_of
from tests.launch import commands

README = PAGES[0].read_text(encoding="utf-8")
RESULTS = ROOT / "results"
TEXTS = {page: text_of(page) for page in PAGES}
NAMED = sorted({command for text in TEXTS.values() for command in commands_in(text)})
SETTINGS = {
    name.removeprefix("config.")
    for experiment in (Experiment(), MetaGenRLExperiment(), MAMLExperiment(), RL2Experiment())
    for name, _ in saved_settings.flat(experiment.to_mapping())
}
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def test_the_readme_is_short():
    lines = README.splitlines()
    assert len(lines) <= 130
    assert max(map(len, lines)) <= 110  # of a row of a table; other lines: test_lines_wrap


@by_page
def test_lines_wrap(page):
    """All but rows of tables, which cannot."""
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 100 and not line.startswith("|")] == []


@by_page
def test_links_lead_somewhere(page):
    for path, anchor in links(TEXTS[page]):
        target = (page.parent / path).resolve() if path else page
        assert target.exists() and ROOT in (target, *target.parents), path
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), (path, anchor)


@by_page
def test_named_files_exist(page):
    folders = "epg_tf|configs|launch|tests|docs|results|examples"
    for path in re.findall(rf"`((?:{folders})/[\w./*]+)`", TEXTS[page]):
        assert any(ROOT.glob(path.rstrip("/"))), path


def test_files_in_the_tables_of_algorithms_exist():
    rows = re.findall(r"^\|[^|]*\| (`.*?) \|", README.partition("## Algorithms")[2], re.M)
    paths = [path for row in rows for path in re.findall(r"`([\w./]+)`", row)]
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / "epg_tf" / path).exists()] == []


@pytest.mark.parametrize(
    "target", sorted({name for t in TEXTS.values() for name in re.findall(r"`?make ([a-z-]+)`", t)})
)
def test_named_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@functools.cache
def flags_of(name: str) -> set[str]:
    """Returns the flags that the help of a command lists."""
    process = commands.run(name, "--help")
    assert process.returncode == 0, process.stderr
    return set(re.findall(r"^ *--(?:\[no\])?(\w+):", process.stdout, re.MULTILINE))


@pytest.mark.parametrize("name", sorted({command.name for command in NAMED}))
def test_named_commands_have_the_flags_that_pages_give_them(name):
    assert (ROOT / "launch" / f"{name}.py").is_file()
    given = {word for command in NAMED if command.name == name for word in command.words}
    flags = {re.match(r"--(\w+)", word)[1] for word in given if word.startswith("--")}
    assert flags <= flags_of(name), flags - flags_of(name)


@by_page
def test_named_settings_exist(page):
    named = re.findall(r"--config\.([a-z_]+(?:\.[a-z_]+)?)", TEXTS[page])
    assert set(named) <= SETTINGS


def test_named_configs_and_losses_exist():
    values = {word for command in NAMED for word in command.words}
    configs = {m for word in values for m in re.findall(r"^--config=(\w+(?::[\w-]+)?)$", word)}
    names = "|".join(path.stem for path in (ROOT / "configs").glob("[a-z]*.py"))
    for text in TEXTS.values():
        configs |= set(re.findall(rf"`((?:{names}):\w+)`", text))
    assert len(configs) > 15
    for config in configs - {"CONFIG", "NAME", "FILE"}:
        name, _, variant = config.partition(":")
        module = importlib.import_module(f"configs.{name}")
        assert module.get_config(*[variant] * bool(variant))
    losses = {m for word in values for m in re.findall(r"^--loss=(\w+)$", word)} - {"none"}
    assert len(losses) > 2
    assert all((SHIPPED / name / "loss.npz").is_file() for name in losses - {"NAME", "RUN_DIR"})


def test_the_next_steps_are_those_of_their_pages():
    """Each step's command is in the page that it links."""
    steps = re.findall(r"^\d\. \[.*?\]\((.*?)\).*?`(epg-tf .*?)`", README, re.M | re.S)
    assert len(steps) == 5
    for page, command in steps:
        (step,) = commands_in(command)
        found = [c for c in commands_in(text_of(ROOT / page)) if c.name == step.name]
        assert any(set(step.words) <= set(other.words) for other in found), command


OFF_POLICY = sorted((RESULTS / "night" / "off_policy").glob("*.json"))
# Those of MetaGenRL have tables on a page of their own.
EPG_LOSSES = sorted({*shipped_losses()} - {*shipped_objectives()})


@pytest.mark.parametrize("name", EPG_LOSSES)
def test_the_readme_shows_the_results_that_are_kept(name):
    """Of fixed policies it shows the better one."""
    kept = json.loads((RESULTS / "reporting" / f"{name}.json").read_text())
    (row,) = re.findall(rf"^\| `{name}`.*$", README, re.MULTILINE)
    cells = [cell.strip() for cell in row.split("|")[2:-1]]
    fixed = [kept["zero_shot_linear"], kept["zero_shot_policy"]]
    best = max(fixed, key=lambda values: values["final_return_mean"])
    size = abs(kept["epg"]["final_return_mean"])
    digits = 2 if size < 2 else 1 if size < 1000 else 0
    shown = [kept["epg"], kept.get("sac"), kept["ppo"], best, kept["untrained"]]
    apart = RESULTS / "night" / "off_policy" / f"{name.removesuffix('_night')}.json"
    if shown[1] is None:
        shown[1] = json.loads(apart.read_text())["sac"]
    expected = [
        f"{values['final_return_mean']:.{digits}f} ± {np.diff(values['ci95'])[0] / 2:.{digits}f}"
        for values in shown
    ]
    assert [cell.replace("*", "") for cell in cells] == expected
    assert kept["about"]["phase"] == "reporting" and kept["epg"]["lives"] == 128


def test_the_readme_says_where_sac_had_fewer_agents():
    """It takes long with the papers' lives."""
    rows = re.findall(r"^\| `(\w+)` \| .* ± .*$", README, re.MULTILINE)
    assert sorted(rows) == EPG_LOSSES
    kept = {path.stem: json.loads(path.read_text())["sac"]["lives"] for path in OFF_POLICY}
    lives = [kept.get(name.removesuffix("_night"), 128) for name in rows]
    laptop = rows.index("directional_hopper")
    lives[:laptop] = [128] * laptop
    fewer = lives.count(16)
    words = ("one", "two", "three", "four", "five", "six", "seven")
    assert lives == [128] * (len(rows) - fewer) + [16] * fewer
    said = re.search(r"SAC has the first 16 tasks in the last (\w+)\.", " ".join(README.split()))
    assert (said is None) if fewer == 0 else said[1] == words[fewer - 1]


@pytest.mark.parametrize("name", EPG_LOSSES)
def test_the_page_of_results_shows_all_rows_that_are_kept(name):
    kept = json.loads((RESULTS / "reporting" / f"{name}.json").read_text())
    page = TEXTS[ROOT / "docs" / "results.md"]
    table = page.partition(f"| `{name}` | final return")[2].partition("\n\n")[0]
    digits = 2 if abs(kept["epg"]["final_return_mean"]) < 20 else 1
    methods = [method for method in kept if method in LABELS]
    assert len(methods) == table.count("\n") - 1
    for method in methods:
        cell = interval(kept[method], "final_return_mean", "ci95", digits)
        assert f"| {cell} |" in table, method


OF_A_NIGHT = {
    "directional_hopper",
    "directional_half_cheetah_night",
    "random_hopper_night",
    "random_walker_night",
    "fetch_night",
    "random_reacher_night",
    "goal_ant_night",
}


@pytest.mark.parametrize("name", sorted({*EPG_LOSSES} - {"point_goal"} - OF_A_NIGHT))
def test_the_earlier_tables_show_the_results_that_are_kept(name):
    kept = json.loads((RESULTS / name / "test.json").read_text())
    page = TEXTS[ROOT / "docs" / "results.md"]
    for method, values in kept.items():
        if method in ("epg", "ppo", "untrained", "random_loss"):
            area = ("area_mean", "area_ci95") if "area_mean" in values else ("auc_mean", "auc_ci95")
            cells = [
                [
                    interval(values, mean, ends, digits, method == "epg")
                    for mean, ends in (("final_return_mean", "ci95"), area)
                ]
                for digits in (1, 2)
            ]
            assert any(" | ".join(cell) in page for cell in cells), cells


@pytest.mark.parametrize(("name", "digits"), [("point_goal", 2), ("random_hopper", 1)])
def test_the_table_of_three_losses_shows_the_results_that_are_kept(name, digits):
    kept = json.loads((RESULTS / "reporting" / f"{name}_three_losses.json").read_text())
    assert kept["about"]["phase"] == "reporting" and kept["epg"]["losses"] == 3
    rows = [kept[f"epg results/phi/{name}-{seed}"] for seed in range(3)] + [kept["epg"]]
    cells = [interval(row, "final_return_mean", "ci95", digits, False) for row in rows]
    assert f"| `{name}` | {' | '.join(cells)} |" in TEXTS[ROOT / "docs" / "results.md"]


@pytest.mark.parametrize("name", sorted(OF_A_NIGHT))
def test_the_page_of_nights_shows_the_results_that_are_kept(name):
    kept = json.loads((RESULTS / "reporting" / f"{name}.json").read_text())
    page = (RESULTS / "night" / "README.md").read_text(encoding="utf-8")
    digits = 2 if abs(kept["epg"]["final_return_mean"]) < 20 else 1
    others = {"reinforce"} & {*kept}
    for method in ("epg", "ppo", "ppo_as_epg", "untrained", *others):
        ends = (("final_return_mean", "ci95"), ("auc_mean", "auc_ci95"))
        cells = [interval(kept[method], mean, both, digits) for mean, both in ends]
        assert f"| {' | '.join(cells)} |" in page, method
    for method in ("zero_shot_linear", "zero_shot_policy"):
        assert f"| {interval(kept[method], 'final_return_mean', 'ci95', digits)} |" in page
    assert interval(kept["ppo"], "ahead_mean", "ahead_ci95", digits) in page


@pytest.mark.parametrize("goals", ["test", "right_half", "forward_backward"])
def test_the_page_of_nights_shows_the_other_tests_of_ants(goals):
    kept = json.loads((RESULTS / "night" / f"goal_ant_turned_{goals}.json").read_text())
    page = (RESULTS / "night" / "README.md").read_text(encoding="utf-8")
    for method in {"epg", "ppo"} & {*kept}:
        row = kept[method]
        metres = {"mean": row["final_return_mean"] / 20, "ci95": [x / 20 for x in row["ci95"]]}
        cells = [
            interval(row, "final_return_mean", "ci95", 1),
            interval(row, "auc_mean", "auc_ci95", 1),
            interval(metres, "mean", "ci95", 2),
        ]
        assert f"| {' | '.join(cells)} |" in page, method


def test_the_page_of_adaptation_shows_the_ants():
    path = RESULTS / "adaptation_reporting" / "goal_ant_night" / "adaptation.json"
    kept = json.loads(path.read_text())
    page = TEXTS[ROOT / "docs" / "adaptation.md"].partition("**GoalAnt**")[2]
    switch = kept["switch"]
    rows = {
        "in its own task": kept["own"],
        "transfer": kept["transfer"],
        "yoked": kept["yoked"],
        "before the switch": switch["before"],
        "just after": switch["after"],
        "at the end": switch,
    }
    for name, row in rows.items():
        assert f"| {name} | {interval(row, 'mean', 'ci95', 1)} |" in page, name
    assert interval(switch["lost"], "mean", "ci95", 1) in page
    assert interval(switch["regained"], "mean", "ci95", 1) in page


def test_the_page_of_nights_shows_the_ants_without_resets():
    kept = json.loads((RESULTS / "night" / "goal_ant_turned_no_reset.json").read_text())
    targets = json.loads((RESULTS / "night" / "goal_ant_turned_no_reset_targets.json").read_text())
    page = (RESULTS / "night" / "README.md").read_text(encoding="utf-8")
    for method in ("epg", "ppo"):
        row = kept[method]
        cells = [
            interval(targets[method], "targets", "ci95", 1),
            interval(row, "auc_mean", "auc_ci95", 1),
            interval(row, "final_return_mean", "ci95", 1),
            f"{100 * row['success_rate']:.0f} %",
        ]
        assert f"| {' | '.join(cells)} |" in page, method
    assert kept["about"]["task"] == targets["about"]["task"]


def test_the_page_of_robustness_shows_the_results_that_are_kept():
    page = TEXTS[ROOT / "docs" / "robustness.md"]
    kept = {
        path.stem: json.loads(path.read_text())["changes"]
        for path in sorted((RESULTS / "robustness").glob("*.json"))
    }
    tables = [
        [cell.strip(" `") for cell in heads.split("|")]
        for heads in re.findall(r"^\| the loss \|(.*)\|$", page, re.MULTILINE)
    ]
    assert sorted(sum(tables, [])) == [*kept]
    for losses in tables:
        first = kept[losses[0]]
        digits = 2 if abs(first["own"]["loss"]["mean"]) < 20 else 1
        for name, change in first.items():
            rows = {change["label"]: "loss"}
            for word, policy in (("linear", "zero_shot_linear"), ("network", "zero_shot_policy")):
                if policy in change:
                    rows[f"{word}, {change['label']}"] = policy
            for label, method in rows.items():
                cells = [
                    interval(kept[loss][name][method], "mean", "ci95", digits) for loss in losses
                ]
                assert f"| {label} | {' | '.join(cells)} |" in page, label


def test_the_page_of_nights_shows_the_evolutions_of_directional_hopper():
    kept = json.loads((RESULTS / "night" / "directional_hopper_seeds.json").read_text())
    page = (RESULTS / "night" / "README.md").read_text(encoding="utf-8")
    folders = ("directional_hopper", *(f"directional_hopper_seed{seed}" for seed in (1, 2)))
    directions = json.loads((RESULTS / "night" / "directional_hopper_directions.json").read_text())
    ends = (("final_return_mean", "ci95"), ("auc_mean", "auc_ci95"))
    for name, key in (
        *((f"seed {s}", f"epg results/night/{f}") for s, f in enumerate(folders)),
        ("PPO (tuned)", "ppo"),
    ):
        cells = [interval(kept[key], mean, both, 1) for mean, both in ends]
        halves = [directions[key][half] for half in ("forward", "backward")]
        cells += [interval(half, "mean", "ci95", 1) for half in halves]
        assert f"| {name} | {' | '.join(cells)} |" in page
    assert f"| all three | {interval(kept['epg'], 'final_return_mean', 'ci95', 1)} |" in page
    assert interval(kept["ppo"], "ahead_mean", "ahead_ci95", 1) in page


@pytest.mark.parametrize(("name", "digits"), [("random_walker", 1), ("fetch", 2)])
def test_the_page_of_nights_shows_the_losses_of_three_seeds(name, digits):
    kept = json.loads((RESULTS / "night" / f"{name}_seeds.json").read_text())
    page = (RESULTS / "night" / "README.md").read_text(encoding="utf-8")
    rows = [row for method, row in kept.items() if method.startswith("epg")]
    assert len(rows) == 4
    for row in (*rows, kept["ppo"]):
        ends = (("final_return_mean", "ci95"), ("auc_mean", "auc_ci95"))
        cells = [interval(row, mean, both, digits) for mean, both in ends]
        assert f"| {' | '.join(cells)} |" in page
    assert f"| {interval(kept['ppo'], 'ahead_mean', 'ahead_ci95', digits)} |" in page


def test_the_page_of_nights_shows_both_directions_of_the_cheetah():
    folder = RESULTS / "night" / "directional_half_cheetah"
    kept = json.loads((folder / "by_direction.json").read_text())
    page = (RESULTS / "night" / "README.md").read_text(encoding="utf-8")
    for method in ("epg", "ppo", "ppo_as_epg", "untrained", "zero_shot_policy"):
        halves = [kept[method][half] for half in ("forward", "backward")]
        cells = [interval(half, "mean", "ci95", 1) for half in halves]
        assert f"| {' | '.join(cells)} |" in page, method
    assert [kept["epg"][half]["agents"] for half in ("forward", "backward")] == [58, 70]


@pytest.mark.parametrize(
    ("test", "digits", "seeds"),
    [
        ("metagenrl_small/inverted_double_pendulum", 0, 3),
        ("metagenrl_small/turned_motors", 2, 3),
        ("metagenrl_night/inverted_double_pendulum", 0, 3),
        ("metagenrl_night/inverted_double_pendulum_two", 0, 2),
        ("metagenrl_night/turned_motors", 2, 3),
        ("metagenrl_night/mountain_car_continuous", 2, 3),
    ],
)
def test_the_page_of_objectives_shows_results_where_they_were_not_trained(test, digits, seeds):
    kept = json.loads((RESULTS / f"{test}.json").read_text())
    page = TEXTS[ROOT / "docs" / "metagenrl.md"]
    assert kept["about"]["phase"] == "objective_reporting"
    trained_in = {name.partition("@")[0] for name in kept["about"]["trained_in"]}
    assert len(trained_in) == 4 and kept["about"]["environment"] not in trained_in
    assert interval(kept["objective"], "final_return_mean", "ci95", digits, True) in page
    assert kept["objective"]["losses"] == seeds
    for seed in range(seeds):
        folder = f"results/{test.partition('/')[0]}/seed{seed}"
        (row,) = (row for name, row in kept.items() if name.startswith(f"objective {folder}"))
        ends = interval(row, "final_return_mean", "ci95", digits)
        lines = re.findall(rf"^\| \.\.\. seed {seed} .*$", page, re.M)
        assert sum(f"| {ends} |" in line for line in lines) == 1
    assert {"off_policy_reinforce", "ppo", "untrained_objective"} <= set(rivals_of(kept))
    for row in rivals_of(kept).values():
        ends = interval(row, "final_return_mean", "ci95", digits)
        assert f"| {ends} | {interval(row, 'ahead_mean', 'ahead_ci95', digits)} |" in page


def rivals_of(kept):
    """The rows of a test's summary that are of no learned objective."""
    return {
        method: row
        for method, row in kept.items()
        if method not in ("format_version", "about") and not method.startswith("objective")
    }


@pytest.mark.parametrize(
    ("test", "digits"),
    [
        ("metagenrl_small/pendulum", 0),
        ("metagenrl_small/inverted_pendulum", 0),
        ("metagenrl_small/reacher", 2),
        ("metagenrl_small/point_goal", 2),
        ("metagenrl_night/pendulum", 0),
        ("metagenrl_night/inverted_pendulum", 0),
        ("metagenrl_night/reacher", 2),
        ("metagenrl_night/point_goal", 2),
        ("metagenrl_bodies/walker2d", 0),
        ("metagenrl_night/hopper_cheetah_walker2d", 0),
        ("metagenrl_night/hopper_cheetah_hopper", 0),
        ("metagenrl_night/hopper_cheetah_half_cheetah", 0),
    ],
)
def test_the_page_of_objectives_shows_rivals_with_ddpg(test, digits):
    kept = json.loads((RESULTS / f"{test}.json").read_text())
    page = TEXTS[ROOT / "docs" / "metagenrl.md"]
    assert kept["about"]["phase"] == "objective_reporting"
    assert (
        f"| {interval(kept['objective'], 'final_return_mean', 'ci95', digits, True)} |  |" in page
    )
    assert {"ddpg", "off_policy_reinforce", "ppo", "untrained_objective"} <= set(rivals_of(kept))
    for row in rivals_of(kept).values():
        ends = interval(row, "final_return_mean", "ci95", digits)
        assert f"| {ends} | {interval(row, 'ahead_mean', 'ahead_ci95', digits)} |" in page


def test_the_page_of_rivals_shows_both_halves_of_goal_ant():
    front, behind = (
        json.loads((RESULTS / "meta_rivals" / f"ant_{half}.json").read_text())
        for half in ("front", "behind")
    )
    page = TEXTS[ROOT / "docs" / "rivals_meta.md"]
    for method in ("epg", "ppo", "ppo_as_epg", "maml", "maml10", "rl2", "untrained"):
        halves = [
            interval(each[method], "final_return_mean", "ci95", 1) for each in (front, behind)
        ]
        assert f"| {' | '.join(halves)} |" in page, method
    assert [front[method]["losses"] for method in ("epg", "maml", "maml10", "rl2")] == [3] * 4


@pytest.mark.parametrize(
    ("row", "digits", "exact", "coarse"),
    [
        ("`random_hopper`", 1, "random_hopper/test_exact", "random_hopper/test_coarse"),
        ("`random_walker`", 1, "random_walker/test_exact", "random_walker/test_coarse"),
        ("`goal_ant`, which did not learn", 2, "goal_ant/test_exact", "goal_ant/test_coarse"),
        ("`random_hopper`", 1, "shipped_random_hopper_exact", "shipped_random_hopper_coarse"),
        ("`random_reacher`", 2, "shipped_random_reacher_exact", "shipped_random_reacher_coarse"),
    ],
)
def test_the_page_of_physics_shows_the_results_that_are_kept(row, digits, exact, coarse):
    found = [
        interval(
            json.loads((RESULTS / "coarse_physics" / f"{name}.json").read_text())["epg"],
            "final_return_mean",
            "ci95",
            digits,
        )
        for name in (exact, coarse)
    ]
    assert f"| {row} | {' | '.join(found)} |" in TEXTS[ROOT / "docs" / "physics.md"]


@pytest.mark.parametrize("seed", range(3))
def test_the_demos_numbers_are_those_kept(seed):
    kept = json.loads((RESULTS / f"demo_seed{seed}.json").read_text())["epg"]
    cell = interval(kept, "final_return_mean", "ci95", 2, True)
    assert cell in TEXTS[ROOT / "docs" / "results.md"]


def test_the_demos_length_is_the_configs():
    text = TEXTS[ROOT / "docs" / "results.md"]
    (epochs,) = re.findall(r"Evolution took (\d+) epochs", text)
    assert int(epochs) == point_goal.get_config().evolution.epochs


STUDIES = sorted(RESULTS.glob("study_*"))


def test_studies_are_kept():
    assert STUDIES


@pytest.mark.parametrize("folder", STUDIES, ids=lambda path: path.name)
def test_a_study_that_is_kept_adds_up(folder):
    """Its summary, and what docs/evolution.md says of it, follow from its tests."""
    with open(folder / "study.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    runs = [
        EvaluatedRun(
            name,
            int(seed),
            [
                {key: float(row[key]) for key in ("epoch", "env_steps", "mean", "low", "high")}
                for row in rows
                if (row["estimator"], row["seed"]) == (name, seed)
            ],
        )
        for name, seed in dict.fromkeys((row["estimator"], row["seed"]) for row in rows)
    ]
    summary = json.loads((folder / "summary.json").read_text())
    assert summarize(runs, summary["ppo"]) == summary
    page = TEXTS[ROOT / "docs" / "evolution.md"]
    for row in summary["runs"].values():
        first = row["env_steps_above_ppo"]
        assert first is None or f"{first / 1e6:.2f} M" in page


@pytest.mark.parametrize("file", sorted(RESULTS.rglob("*.json")), ids=lambda path: path.name)
def test_results_name_no_path_of_a_machine(file):
    assert not re.search(r'["\s=]/\w+/', file.read_text(encoding="utf-8"))
