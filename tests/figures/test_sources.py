"""Tests which folders figures read, and the commands for those that are missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from epg_tf.figures.catalogue import CATALOGUE, declaration
from epg_tf.figures.declaration import Declaration, Run, Test
from epg_tf.figures.sources import status_of
from epg_tf.figures.tables import settings_table
from tests.figures import kept

RESULTS = Path(__file__).resolve().parents[2] / "results"
RUN = Run("mine/run", "random_hopper:laptop", 3, (("evolution.epochs", 7),))
TEST = Test("mine/test", (RUN,), flags=(("updates", 9),), lives=5)


def status(folder, *sources, roots=()):
    figure = Declaration("a", "b", "c", "d", {"laptop": sources}, settings_table)
    return status_of(figure, "laptop", [folder, *roots])


def commands(found):
    return [command.text("epg-tf {}".format) for command in found.missing.values()]


def test_a_missing_test_comes_after_its_run_unless_that_is_there(tmp_path):
    both = commands(status(tmp_path, TEST))
    run, folder = f"{tmp_path}/mine/run", f"{tmp_path}/mine/test"
    test = (
        f"epg-tf meta_test --loss={run} --config=random_hopper:laptop --updates=9 --lives=5 "
        f"--compare=ppo --output_dir={folder}"
    )
    assert both == [
        f"epg-tf meta_train --config=random_hopper:laptop --seed=3 --run_dir={run} "
        "--config.evolution.epochs=7",
        test,
    ]
    kept.run(tmp_path / "mine" / "run")
    assert commands(status(tmp_path, TEST)) == [test]
    elsewhere = commands(status(tmp_path / "new", TEST, roots=[tmp_path]))
    assert elsewhere == [test.replace(folder, f"{tmp_path}/new/mine/test")]
    kept.test(tmp_path / "mine" / "test")
    assert status(tmp_path, TEST).ready and not status(tmp_path, TEST).missing


def test_what_has_begun_is_gone_on_with(tmp_path):
    kept.run(tmp_path / "mine" / "run", finished=False)
    found = status(tmp_path, RUN)
    assert not found.ready
    assert commands(found) == [f"epg-tf meta_train --run_dir={tmp_path}/mine/run --resume"]
    (tmp_path / "mine" / "test").mkdir()
    (tmp_path / "mine" / "test" / "unfinished.json").write_text("{}")
    assert commands(status(tmp_path, TEST))[1].endswith("/mine/test --resume")


def test_baselines_that_are_meta_trained_are_made_first(tmp_path):
    maml = Run("maml", "maml_half_cheetah:laptop")
    kept.run(tmp_path / "mine" / "run")
    made = commands(status(tmp_path, Test("test", (RUN,), trained=(("maml", maml),))))
    assert made[0].startswith("epg-tf meta_train --config=maml_half_cheetah:laptop")
    assert f"--compare=ppo,maml:{tmp_path}/maml" in made[1]


def test_what_is_optional_may_lack_but_not_all_of_it(tmp_path):
    one, other = (Run(name, "random_hopper:laptop", optional=True) for name in ("a", "b"))
    assert not status(tmp_path, one, other).ready
    kept.run(tmp_path / "b")
    found = status(tmp_path, one, other)
    assert found.ready and list(found.missing) == [tmp_path / "a"]
    assert found.found.sources == [(other, tmp_path / "b")]


def test_a_pretrained_loss_or_another_folder_stands_in_for_a_run(tmp_path):
    pretrained = Run("a", "random_hopper:laptop", instead="random_hopper")
    assert status(tmp_path, pretrained).found.sources == [(pretrained, Path("random_hopper"))]
    other = Run("a", "random_hopper:laptop", instead="b")
    kept.run(tmp_path / "b")
    assert status(tmp_path, other).found.sources == [(other, tmp_path / "b")]
    kept.run(tmp_path / "a")
    for run in (pretrained, other):
        assert status(tmp_path, run).found.sources == [(run, tmp_path / "a")]


def test_a_summary_alone_is_enough_only_for_what_draws_no_curves(tmp_path):
    made = kept.test(tmp_path / "mine" / "test")
    shutil.move(made / "summary.json", tmp_path / "mine" / "test.json")
    table = Test("mine/test", (RUN,), curves=False)
    assert status(tmp_path, table).found.sources == [(table, tmp_path / "mine" / "test.json")]
    assert not status(tmp_path, TEST).ready


@pytest.mark.parametrize(
    ("scale", "names"),
    [
        (
            "laptop",
            "epg.fig4 epg.fig14 epg.fig16 epg.fig20 epg.fig21 epg.table1 epg.spearman "
            "metagenrl.table1 metagenrl.table2",
        ),
        (
            "night",
            "epg.fig3 epg.fig4 epg.fig8 epg.fig14 epg.fig15 epg.fig16 epg.fig20 epg.fig21 "
            "epg.ablation epg.spearman metagenrl.table2",
        ),
        ("paper", "epg.table1"),
    ],
)
def test_figures_that_kept_results_are_enough_for(scale, names):
    found = [each.name for each in CATALOGUE if status_of(each, scale, [RESULTS]).ready]
    assert found == names.split()


def test_names_are_unique_and_a_folder_is_made_by_one_command(tmp_path):
    assert len({each.name for each in CATALOGUE}) == len(CATALOGUE) == 42
    made = {}
    for scale in ("laptop", "night", "paper"):
        for figure in CATALOGUE:
            for folder, command in status_of(figure, scale, [tmp_path]).missing.items():
                assert made.setdefault(folder, command) == command, figure.name


def test_figures_are_of_the_environments_of_the_papers():
    runs = {
        name: {source.config for source in declaration(name).sources["paper"]}
        for name in ("epg.fig3", "epg.fig4", "epg.fig14", "epg.fig15")
    }
    assert runs == {
        "epg.fig3": {"fetch:paper"},
        "epg.fig4": {"random_hopper:paper"},
        "epg.fig14": {"directional_hopper:paper"},
        "epg.fig15": {"goal_ant:paper"},
    }
    places = {
        (source.runs[0].config, dict(source.flags)["environment"])
        for source in declaration("metagenrl.fig6").sources["paper"]
    }
    trained = "metagenrl_paper:cheetah_lunar"
    assert places == {
        (trained, "gymnasium:Hopper-v5"),
        (trained, "gymnasium:HalfCheetah-v5"),
    }


def test_a_scale_that_is_not_declared_is_not_ready(tmp_path):
    assert not status_of(declaration("metagenrl.fig3"), "night", [tmp_path]).ready
