"""Checks that links, files, commands, flags, settings and configs that pages name exist."""

from __future__ import annotations

import functools
import importlib
import re

import pytest

from epg_tf.artifacts.loss_files import PRETRAINED
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.settings import flat
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from tests.docs.pages import PAGES, ROOT, anchors, commands_in, links, text_of
from tests.launch import commands

README = PAGES[0].read_text(encoding="utf-8")
TEXTS = {page: text_of(page) for page in PAGES}
NAMED = sorted({command for text in TEXTS.values() for command in commands_in(text)})
SETTINGS = {
    name.removeprefix("config.")
    for experiment in (Experiment(), MetaGenRLExperiment(), MAMLExperiment(), RL2Experiment())
    for name, _ in flat(experiment.to_mapping())
}
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


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
    assert len(paths) > 10
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
    assert len(configs) > 5
    for config in configs - {"CONFIG", "NAME", "FILE"}:
        name, _, variant = config.partition(":")
        module = importlib.import_module(f"configs.{name}")
        assert module.get_config(*[variant] * bool(variant))
    losses = {m for word in values for m in re.findall(r"^--loss=(\w+)$", word)} - {"none"}
    assert len(losses) > 1
    assert all((PRETRAINED / name / "loss.npz").is_file() for name in losses - {"NAME", "RUN_DIR"})
