"""Tests evolution within a budget, whose search and test are replaced by short ones."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from epg_tf.artifacts.artifact import load_loss, save
from epg_tf.core.errors import ConfigError, Interrupted, RecordError, RunFailed
from epg_tf.epg import candidates as choices
from epg_tf.epg.candidates import Agents, gentler, neighbours
from epg_tf.epg.settings import Experiment
from epg_tf.epg.state import initial_state
from epg_tf.evaluation.requests import loss_request
from epg_tf.evaluation.summary import Summary
from epg_tf.evaluation.tuning import Trial
from epg_tf.runs import automatic, settings_search, worth
from epg_tf.runs.automatic import AutomaticEvolution, Budget, has_stopped_improving
from epg_tf.runs.config_files import load_experiment, run_settings
from epg_tf.runs.evolution import EVOLUTION, evolve_in_folder
from epg_tf.runs.fixed_policy import evolved_policy
from epg_tf.runs.folder import RunFolder, RunTarget
from epg_tf.runs.identity import RunIdentity
from epg_tf.runs.metrics import MetricsFile
from epg_tf.runs.own_families import write_settings
from epg_tf.runs.settings_search import Begun, Tried, begun_candidates, fitting, ranking
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig

SMALL = {
    "inner": {"updates": 2, "update_period": 32, "minibatch": 32, "final_episodes": 1},
    "evolution": {
        "lives": 4,
        "noise_vectors": 4,
        "validation_lives": 2,
        "fitness_from": "final_episodes",
    },
    "compute": {"shard_lives": 4, "threads": 1},
}
GIVEN = Experiment.from_mapping(
    {"task": dataclasses.asdict(TaskConfig("point_goal", 2, 10))} | SMALL
)
AGENTS = Agents(3e-3, -1.5, 2)
NAMED = tuple(f"{group}.{field}" for group, fields in SMALL.items() for field in fields)


def budget(seed=0, minutes=1.0):
    evolution = dataclasses.replace(GIVEN.evolution, epochs=10)
    given = dataclasses.replace(GIVEN, evolution=evolution)
    return Budget(given, (*NAMED, "evolution.epochs"), seed, minutes)


class Search:
    """Has tried two candidates; epochs take so long that ten of them fill the budget."""

    def __init__(self, candidates, free, seed, seconds, final_seconds):
        assert {"policy_gradient", "centred"} <= set(candidates)
        self.begun, self.stopped = candidates, False

    def run(self):
        if self.stopped:
            raise Interrupted
        yield Tried("centred", 0, AGENTS, 0, -20.0, (-21.0, -19.0))
        yield Tried("centred", 1, AGENTS, 4, -10.0, (-11.0, -9.0), 3.6)
        yield Tried(
            "policy_gradient", 1, AGENTS._replace(learning_rate=1e-2), 4, -12.0, (-13.0, -11.0), 3.6
        )

    def stop(self):
        self.stopped = True


class Paragraph:
    """Says nothing of the loss but its size."""

    def __init__(self, learned, folder, seed, seconds, fixed):
        assert learned.experiment.compute.threads == GIVEN.compute.threads
        self.text = f"{learned.phi.size} parameters, {seconds:.0f} seconds"

    def paragraph(self):
        return self.text


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(automatic, "SettingsSearch", Search)
    monkeypatch.setattr(automatic, "Worth", Paragraph)
    monkeypatch.setattr(automatic, "evolved_policy", lambda *arguments: None)
    monkeypatch.setattr(automatic, "has_stopped_improving", lambda rows: False)


@pytest.mark.slow
def test_the_best_candidate_evolves_and_its_config_repeats_the_run(tmp_path, monkeypatch):
    """Its epochs are fixed, so all are done, though it is late and has stopped to improve."""
    monkeypatch.setattr(automatic, "has_stopped_improving", lambda rows: True)
    monkeypatch.setattr(automatic, "_LATE", 0.0)
    lines = []
    work = AutomaticEvolution(budget(), RunTarget(tmp_path / "run"), lines.append)
    assert work.run() == tmp_path / "run" / "1"
    record = json.loads((tmp_path / "run" / "search.json").read_text())
    assert [each["name"] for each in record["order"]] == ["centred", "policy_gradient"]
    assert [each["name"] for each in record["runs"]] == ["centred"]
    settings = run_settings(tmp_path / "run" / "1")
    assert settings.loss.start == "centred"
    assert settings.evolution.epochs == 10
    assert lines[-1].endswith("parameters, 14 seconds")
    assert not any("warning" in line for line in lines)
    for _ in evolve_in_folder(settings, 0, tmp_path / "again"):
        pass
    first, again = (
        (tmp_path / each / "final" / "loss.npz").read_bytes() for each in ("run/1", "again")
    )
    assert first == again
    assert (tmp_path / "run" / "best" / "loss.npz").is_file()


@pytest.mark.slow
def test_a_run_around_the_fixed_policy_is_repeated_with_it(tmp_path, monkeypatch):
    class Around(Search):
        def run(self):
            assert self.begun["around_policy"].state.env_steps > 0
            assert self.begun["quadratic"].state.env_steps == 0
            yield Tried("around_policy", 1, AGENTS, 4, -10.0, (-11.0, -9.0), 3.6)

    monkeypatch.setattr(automatic, "SettingsSearch", Around)
    monkeypatch.setattr(automatic, "evolved_policy", evolved_policy)
    work = AutomaticEvolution(budget(minutes=0.1), RunTarget(tmp_path / "run"))
    run = work.run()
    policy = load_loss(work.policy_of(run))
    assert policy.experiment.evolution.moves == "initialisation"
    for _ in evolve_in_folder(run_settings(run), 0, tmp_path / "again", begin_with=policy):
        pass
    first, again = (
        (folder / "final" / "loss.npz").read_bytes() for folder in (run, tmp_path / "again")
    )
    assert first == again


def stop(self, number):
    """Stands for what runs the evolution that a search has planned."""
    raise Interrupted


def test_a_search_that_was_killed_with_nothing_but_the_policy_plans_the_rest(tmp_path, monkeypatch):
    def killed(*arguments):
        (tmp_path / "run" / "zero_shot_linear").mkdir()
        raise SystemExit

    monkeypatch.setattr(automatic, "evolved_policy", killed)
    with pytest.raises(SystemExit):
        AutomaticEvolution(budget(), RunTarget(tmp_path / "run")).run()
    monkeypatch.setattr(automatic, "evolved_policy", lambda *arguments: None)
    monkeypatch.setattr(AutomaticEvolution, "_run", stop)
    work = AutomaticEvolution(budget(), RunTarget(tmp_path / "run", resume=True))
    with pytest.raises(Interrupted):
        work.run()
    assert work._settings_of(1).loss.start == "centred"


def test_a_candidate_that_the_fixed_policy_does_not_fit_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("epg_tf.runs.fixed_policy.evolve", lambda *given: [])  # as it begins
    inner = dataclasses.replace(GIVEN.inner, centred_observations=False)
    given = {name: dataclasses.replace(GIVEN, inner=inner) for name in ("centred", "around_policy")}
    other = dataclasses.replace(GIVEN, task=dataclasses.replace(GIVEN.task, episode_limit=2))
    (tmp_path / "zero_shot_linear").mkdir()  # all that a killed process may leave
    policy = evolved_policy(other, 0, 0.0, tmp_path, lambda: None)
    assert set(begun_candidates(given, 0, policy)) == {"centred"}


def test_a_config_repeats_the_run_of_a_family_of_a_users_file(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("def get_config(variant):\n    return {'task': {}}\n")
    run = tmp_path / "run" / "1"
    RunFolder(RunIdentity(EVOLUTION, GIVEN.to_mapping(), 0), RunTarget(run)).close()
    path = write_settings(f"{mine}:a", run)
    assert path == tmp_path / "run" / "settings.py"
    assert load_experiment(str(path)) == run_settings(run)


@pytest.mark.slow
def test_a_run_that_no_longer_improves_ends_and_the_next_candidate_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(automatic, "has_stopped_improving", lambda rows: len(rows) == 3)
    monkeypatch.setattr(AutomaticEvolution, "_seconds_of", lambda self, number: 10.0)
    free = Budget(GIVEN, NAMED, 0, 1.0)
    AutomaticEvolution(free, RunTarget(tmp_path / "run")).run()
    found = [run_settings(tmp_path / "run" / each) for each in ("1", "2")]
    assert [each.evolution.epochs for each in found] == [3, 3]  # a third has no time
    assert [each.loss.start for each in found] == ["centred", "policy_gradient"]
    assert found[1].inner.learning_rate == 1e-2
    summaries = [
        json.loads((tmp_path / "run" / each / "summary.json").read_text()) for each in ("1", "2")
    ]
    assert [each["epochs"] for each in summaries] == [3, 3]


@pytest.mark.slow
def test_a_run_that_is_faster_than_planned_goes_on(tmp_path, monkeypatch):
    def spent(self, number):  # a third of what was planned, then all of it
        done = len(MetricsFile(tmp_path / "run" / "1" / "metrics.csv").read())
        return 35.0 if done == 30 else 10.0

    monkeypatch.setattr(AutomaticEvolution, "_seconds_of", spent)
    AutomaticEvolution(Budget(GIVEN, NAMED, 0, 1.0), RunTarget(tmp_path / "run")).run()
    settings = run_settings(tmp_path / "run" / "1")
    assert settings.evolution.epochs == 30  # 10, and at most 20 more
    assert settings.evolution.learning_rate_epochs == 10
    assert not (tmp_path / "run" / "2").exists()


def test_a_run_ends_when_its_time_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(AutomaticEvolution, "_seconds_of", lambda self, number: 44.0)
    monkeypatch.setattr(automatic, "_LATE", 0.0)
    lines = []
    target = RunTarget(tmp_path / "run")
    AutomaticEvolution(Budget(GIVEN, NAMED, 0, 1.0), target, lines.append).run()
    assert run_settings(tmp_path / "run" / "1").evolution.epochs == 4  # as many as in the search
    assert "run 1 ends after 4 epochs: its time is over" in lines
    assert not any("stopped after" in line for line in lines)  # as after an interruption
    assert "stopped after epoch 4" in (tmp_path / "run" / "1" / "log.txt").read_text()
    assert (tmp_path / "run" / "1" / "summary.json").is_file()
    assert not (tmp_path / "run" / "2").exists()


@pytest.mark.slow
def test_a_stopped_budget_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    free = Budget(GIVEN, NAMED, 0, 1.0)
    monkeypatch.setattr(AutomaticEvolution, "_seconds_of", lambda self, number: 44.0)
    AutomaticEvolution(free, RunTarget(tmp_path / "whole")).run()
    work = AutomaticEvolution(free, RunTarget(tmp_path / "stopped"))

    def stop_after(rows):
        if len(rows) == 4:
            work.stop()
        return False

    monkeypatch.setattr(automatic, "has_stopped_improving", stop_after)
    with pytest.raises(Interrupted):
        work.run()
    assert not (tmp_path / "stopped" / "best").exists()
    monkeypatch.setattr(automatic, "has_stopped_improving", lambda rows: False)
    monkeypatch.setattr(automatic, "SettingsSearch", None)  # nothing is searched again
    AutomaticEvolution(free, RunTarget(tmp_path / "stopped", resume=True)).run()
    whole, stopped = (
        (tmp_path / each / "1" / "final" / "loss.npz").read_bytes() for each in ("whole", "stopped")
    )
    assert whole == stopped


def test_another_budget_is_refused_and_nothing_is_lost(tmp_path, monkeypatch):
    """Nor is a search overwritten that goes on."""
    monkeypatch.setattr(AutomaticEvolution, "_run", stop)
    first = AutomaticEvolution(budget(), RunTarget(tmp_path / "run"))
    (tmp_path / "run" / "search.json").write_text("{}")
    with pytest.raises(RecordError, match="another process is writing"):
        AutomaticEvolution(budget(), RunTarget(tmp_path / "run", overwrite=True))
    assert (tmp_path / "run" / "search.json").read_text() == "{}"
    with pytest.raises(Interrupted):
        first.run()
    (tmp_path / "run" / "1").mkdir()
    (tmp_path / "run" / "1" / "metrics.csv").write_text("epoch\n")
    before = sorted(path for path in (tmp_path / "run").rglob("*") if path.is_file())
    for other in (budget(seed=1), budget(minutes=2.0)):
        with pytest.raises(RecordError, match="another family, seed, budget or settings"):
            AutomaticEvolution(other, RunTarget(tmp_path / "run", resume=True))
    with pytest.raises(RecordError, match="not empty"):
        AutomaticEvolution(budget(), RunTarget(tmp_path / "run"))
    assert sorted(path for path in (tmp_path / "run").rglob("*") if path.is_file()) == before


def test_folders_of_something_else_stay_as_they_are(tmp_path):
    folder = tmp_path / "runs"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "mine.txt").write_text("mine")
    for how in ({"overwrite": True}, {"resume": True}):
        with pytest.raises(RecordError, match="it holds 1, which no search"):
            AutomaticEvolution(budget(), RunTarget(folder, **how))
    assert (folder / "1" / "mine.txt").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.parametrize("failing", [1, 2])
def test_a_run_that_fails_loses_nothing_of_the_other(tmp_path, monkeypatch, failing):
    session = AutomaticEvolution._session

    def fail(self, number, metrics):
        if number == failing:
            raise RunFailed("all 4 lives of 3 epochs in a row failed")
        return session(self, number, metrics)

    monkeypatch.setattr(automatic, "has_stopped_improving", lambda rows: len(rows) == 3)
    monkeypatch.setattr(AutomaticEvolution, "_seconds_of", lambda self, number: 10.0)
    monkeypatch.setattr(AutomaticEvolution, "_session", fail)
    found = AutomaticEvolution(Budget(GIVEN, NAMED, 0, 1.0), RunTarget(tmp_path / "run")).run()
    assert found == tmp_path / "run" / str(3 - failing)
    assert (tmp_path / "run" / "best" / "loss.npz").is_file()
    record = json.loads((tmp_path / "run" / "search.json").read_text())
    assert ["failed" in run for run in record["runs"]] == [failing == 1, failing == 2]
    monkeypatch.setattr(AutomaticEvolution, "_session", None)  # nothing evolves again
    work = AutomaticEvolution(
        Budget(GIVEN, NAMED, 0, 1.0), RunTarget(tmp_path / "run", resume=True)
    )
    assert work.run() == found


def test_a_run_that_failed_late_is_best_where_it_was_validated_best(tmp_path):
    work = AutomaticEvolution(budget(), RunTarget(tmp_path / "run"))
    for name, value in (("1", -5.0), ("2", -7.0)):
        folder = tmp_path / "run" / name
        save(folder / "best", initial_state(GIVEN, 0).phi, GIVEN, {})
        MetricsFile(folder / "metrics.csv").append({"epoch": 1, "validation_return_mean": value})
    work._record["runs"] = [{"failed": "all lives failed"}, {}]
    assert work._best() == tmp_path / "run" / "1"


def test_candidates_whose_agents_all_failed_are_not_run_after_a_resume(tmp_path, monkeypatch):
    class Failing(Search):
        def run(self):
            yield Tried("centred", 1, AGENTS, 4, -10.0, (-11.0, -9.0), 3.6)
            yield Tried("quadratic", 1, AGENTS, 4, np.nan, (np.nan, np.nan), 3.6)
            yield Tried("policy_gradient", 0, AGENTS, 4, -12.0, (-13.0, -11.0), 3.6)

    tried = []
    monkeypatch.setattr(automatic, "SettingsSearch", Failing)
    monkeypatch.setattr(AutomaticEvolution, "_seconds_of", lambda self, number: 1.0)

    def fail(self, number, metrics):
        tried.append(self._record["runs"][number - 1]["name"])
        if len(tried) == 1:
            raise Interrupted
        raise RunFailed(f"the lives of run {number} failed")

    monkeypatch.setattr(AutomaticEvolution, "_session", fail)
    failed = (True, RunFailed, "of run 2 failed")
    for resume, expected, message in ((False, Interrupted, None), failed):
        with pytest.raises(expected, match=message):
            AutomaticEvolution(
                Budget(GIVEN, NAMED, 0, 1.0), RunTarget(tmp_path / "run", resume=resume)
            ).run()
    assert tried == ["centred", "centred", "policy_gradient"]


@pytest.mark.slow
def test_a_run_that_is_never_validated_has_a_best_loss(tmp_path):
    evolution = dataclasses.replace(GIVEN.evolution, epochs=3, validation_period=0)
    given = dataclasses.replace(GIVEN, evolution=evolution)
    named = (*NAMED, "evolution.epochs", "evolution.validation_period")
    AutomaticEvolution(Budget(given, named, 0, 1.0), RunTarget(tmp_path / "run")).run()
    assert (tmp_path / "run" / "best" / "loss.npz").is_file()


def test_several_families_are_refused(tmp_path):
    mix = dataclasses.replace(
        GIVEN.mix,
        families=("hidden_goal",),
        frame_skips=(2,),
        episode_limits=(10,),
        physics=("exact",),
    )
    given = dataclasses.replace(GIVEN, mix=mix)
    with pytest.raises(ConfigError, match="settings are chosen for one family"):
        AutomaticEvolution(Budget(given, (), 0, 1.0), RunTarget(tmp_path / "run"))


@pytest.mark.parametrize(
    ("validations", "stopped"),
    [
        ([1, 2, 3, 4, 5, 6], False),
        ([5, 1, 2, 3], False),
        ([5, 1, 2, 3, 4], True),
        ([1, 5, 4, 4, 5, 5], True),
        ([1, 5, 4, 4, 4, 6], False),
        ([], False),
    ],
)
def test_a_run_stops_after_four_validations_without_a_better_one(validations, stopped):
    rows = [{"validation_return_mean": float("nan")}]
    for value in validations:
        rows += [{"validation_return_mean": value}, {"validation_return_mean": float("nan")}]
    assert has_stopped_improving(rows) is stopped


class _Fake:
    """A candidate whose worth grows by its slope with every share of time."""

    begins = {"slow": -5.0, "late": -9.0, "fast": -6.0, "failing": float("nan")}
    slopes = {"slow": 0.5, "late": 2.0, "fast": 3.0, "failing": 0.0}

    def __init__(self, name, begun, seed, make):
        self.name, self.experiment, self.rungs = name, begun.experiment, 0

    def begin(self, rate):
        agents = Agents.of(self.experiment)._replace(learning_rate=rate)
        return self._tried(agents.live_in(self.experiment), 0)

    def measure(self, rung):
        return self._tried(self.experiment, rung)

    def restart_gently(self, rung):
        """Only "falling" is better by that."""
        kept = self.name == "falling"
        self.slopes = {**self.slopes, "falling": 5.0} if kept else self.slopes
        return dataclasses.replace(self._tried(self.experiment, rung), kept=kept, gentle=True)

    def change(self, changed, rung):
        """Better are policies that explore less."""
        kept = changed.policy.log_std < self.experiment.policy.log_std
        self.experiment = changed if kept else self.experiment
        return dataclasses.replace(self._tried(changed, rung), kept=kept)

    def _tried(self, experiment, rung):
        agents = Agents.of(experiment)
        mean = self.begins[self.name] + self.slopes[self.name] * self.rungs
        mean -= abs(agents.learning_rate - 1e-2)
        return Tried(self.name, rung, agents, self.rungs, mean, (mean - 1, mean + 1), 0.1)

    def evolve(self, seconds):
        self.rungs += 1


def test_the_best_three_go_on_with_their_best_rate(monkeypatch):
    monkeypatch.setattr(settings_search, "_Candidate", _Fake)
    given = dict.fromkeys(_Fake.begins, Begun(GIVEN, None))
    tried = list(settings_search.SettingsSearch(given, Agents._fields, 0, 60.0, 1.0).run())
    rungs = [{each.name for each in tried if each.rung == rung} for rung in range(3)]
    assert rungs == [set(_Fake.begins), set(_Fake.begins), {"slow", "fast", "late"}]
    assert len([each for each in tried if each.rung == 0]) == 4 * 4
    known = [each for each in tried if each.rung and each.name != "failing"]
    assert {each.agents.learning_rate for each in known} == {1e-2}
    assert [each.name for each in ranking(tried)] == ["fast", "slow", "late", "failing"]
    usual = Agents(1e-2, GIVEN.policy.log_std, 2)
    changed = [(each.name, each.agents, each.kept) for each in tried if each.rung > 2]
    less, more = (usual._replace(log_std=usual.log_std + change) for change in (-0.5, 0.5))
    longer = ("fast", less._replace(updates=4), False)
    assert changed == [("fast", less, True), ("fast", more, False), longer]
    assert ranking(tried)[0].agents == less


def test_the_best_in_the_end_tries_other_agents(monkeypatch):
    monkeypatch.setattr(settings_search, "_Candidate", _Fake)
    monkeypatch.setattr(_Fake, "slopes", {**_Fake.slopes, "late": 5.0})
    given = dict.fromkeys(_Fake.begins, Begun(GIVEN, None))
    tried = list(settings_search.SettingsSearch(given, Agents._fields, 0, 60.0, 1.0).run())
    means = [{each.name: each.mean for each in tried if each.rung == rung} for rung in (1, 2)]
    assert [each["late"] > each["fast"] for each in means] == [False, True]
    assert {each.name for each in tried if each.rung > 2} == {"late"}


def test_what_has_become_worse_begins_again_by_smaller_steps(monkeypatch):
    monkeypatch.setattr(settings_search, "_Candidate", _Fake)
    monkeypatch.setattr(_Fake, "begins", {**_Fake.begins, "falling": -1.0})
    monkeypatch.setattr(_Fake, "slopes", {**_Fake.slopes, "falling": -20.0})
    given = dict.fromkeys(_Fake.begins, Begun(GIVEN, None))
    for free, expected in (((), []), ({"steps"}, ["falling"])):
        tried = list(settings_search.SettingsSearch(given, free, 0, 60.0, 1.0).run())
        gentle = [each for each in tried if each.gentle]
        assert [each.name for each in gentle] == expected
        assert (ranking(tried)[0].name == "falling") == bool(free)
        assert {each.agents for each in tried} == {Agents.of(GIVEN)}  # which are fixed


@pytest.mark.parametrize(
    ("usual", "after", "kept"),
    [
        ([1.0, 2.0, 3.0, 4.0], [1.5, 2.5, 3.0, 4.0], True),
        ([1.0, 2.0, 3.0, 4.0], [0.5, 1.0, 2.0, 3.5], False),
        ([np.nan] * 4, [0.5, 1.0, 2.0, 3.5], True),
        ([np.nan] * 4, [np.nan] * 4, True),
        ([1.0, 2.0, 3.0, 4.0], [np.nan] * 4, False),
    ],
)
def test_smaller_steps_are_kept_where_agents_do_better_by_them(monkeypatch, usual, after, kept):
    made = candidate([usual, after])
    begun, spoilt = made._state, SimpleNamespace(epoch=2, phi=None)
    made._state, made._epoch_seconds = spoilt, 7.0
    evolved = []
    monkeypatch.setattr(made, "evolve", lambda seconds: evolved.append(made._state))
    made.measure(1)
    tried = made.restart_gently(1)
    assert evolved == [begun]  # from its beginning
    assert (tried.kept, tried.gentle) == (kept, True)
    assert made.experiment == (gentler(GIVEN) if kept else GIVEN)
    assert made._state is (begun if kept else spoilt)
    np.testing.assert_array_equal(made._returns, after if kept else usual)
    np.testing.assert_array_equal(made._first, made._returns)
    assert made._gentle == kept


def test_a_loss_that_was_best_by_smaller_steps_is_to_evolve_by_them(tmp_path, monkeypatch):
    class Gentle(Search):
        def run(self):
            yield Tried("centred", 1, AGENTS, 4, -10.0, (-11.0, -9.0), 3.6, gentle=True)

    monkeypatch.setattr(automatic, "SettingsSearch", Gentle)
    monkeypatch.setattr(AutomaticEvolution, "_run", stop)
    work = AutomaticEvolution(budget(), RunTarget(tmp_path / "run"))
    with pytest.raises(Interrupted):
        work.run()
    settings = work._settings_of(1)
    usual = choices.candidates(budget().given, {}, make_family(GIVEN.task).spec)["centred"]
    steps = [(each.sigma, each.learning_rate) for each in (settings.evolution, usual.evolution)]
    np.testing.assert_allclose(steps[0], 0.3 * np.array(steps[1]))


def test_all_candidates_have_as_many_rates_where_time_is_short(monkeypatch):
    monkeypatch.setattr(settings_search, "_Candidate", _Fake)
    given = dict.fromkeys(_Fake.begins, Begun(GIVEN, None))
    tried = list(settings_search.SettingsSearch(given, Agents._fields, 0, 0.0, 0.0).run())
    usual = GIVEN.inner.learning_rate
    first = [(each.name, each.agents.learning_rate) for each in tried if each.rung == 0]
    assert first == [(name, usual) for name in given]
    evolved = [[each.name for each in tried if each.rung == rung] for rung in (1, 2)]
    assert evolved == [["slow", "fast"], ["fast", "slow"]]  # the best two as they begin


def test_a_loss_that_does_not_fit_the_body_is_no_candidate():
    spec = make_family(GIVEN.task).spec
    few = dataclasses.replace(GIVEN.loss, start="quadratic", products=1, factors=1)
    given = {"fits": GIVEN, "few": dataclasses.replace(GIVEN, loss=few)}
    assert set(fitting(given, spec)) == {"fits"}
    with pytest.raises(ConfigError, match="config.loss.products=1 is too few"):
        fitting({"few": given["few"]}, spec)


def test_baselines_whose_settings_are_fixed_are_not_tuned(monkeypatch, tmp_path):
    tuned = []

    def tune(self, name, experiment):
        tuned.append(name)
        return experiment

    def stop(path):
        raise Interrupted

    monkeypatch.setattr(worth.Worth, "_tuned", tune)
    monkeypatch.setattr(worth, "load_loss", stop)  # the fixed policy, which comes after them
    measured = worth.Worth(SimpleNamespace(experiment=GIVEN), tmp_path, 0, 1.0, {"ppo": {}})
    with pytest.raises(Interrupted):
        measured.paragraph()
    assert tuned == ["sac"]


@pytest.mark.parametrize(("seconds", "settings"), [(1.0, 6), (432.0, 6), (864.0, 9), (1440.0, 10)])
def test_a_longer_budget_tries_more_settings_of_baselines(monkeypatch, tmp_path, seconds, settings):
    class Counted:
        def __init__(self, name, experiment, seed, budget, agents):
            asked.append(budget)

        def run(self):
            yield Trial(0, 0, 4, {}, 1.0, (0.0, 2.0), 0)

    asked = []
    monkeypatch.setattr(worth, "Search", Counted)
    measured = worth.Worth(SimpleNamespace(experiment=GIVEN), tmp_path, 0, seconds)
    assert measured._tuned("ppo", GIVEN) == GIVEN and asked == [settings]


def row(mean, ahead=None, failed=0):
    interval = None if ahead is None else (ahead - 1.0, ahead + 1.0)
    return Summary(
        mean,
        ci95=(mean - 1, mean + 1),
        lives=64,
        failed_lives=failed,
        ahead_mean=ahead,
        ahead_ci95=interval,
    )


def test_the_paragraph_tells_of_agents_that_failed():
    found = {
        "epg": row(10.0),
        "ppo": row(5.0, 5.0, failed=18),
        "untrained": row(0.0, 10.0),
        "zero_shot_linear": row(np.nan, np.nan, failed=64),
    }
    text = " ".join(worth.sentences(GIVEN, found))
    assert "It ends above PPO at 5.00 [4.00, 6.00] (18 of 64 agents failed) (difference" in text
    assert "fixed linear policy at nan [nan, nan] (64 of 64 agents failed)." in text
    assert "cannot be compared with fixed linear policy" in text
    assert "SAC is for continuous actions" in text


def test_the_paragraph_names_what_is_above_level_and_below():
    found = {
        "epg loss": row(10.0),
        "ppo": row(5.0, 5.0),
        "sac": row(12.0, -2.0),
        "untrained": row(0.0, 10.0),
        "zero_shot_linear": row(9.5, 0.5),
    }
    text = " ".join(worth.sentences(GIVEN, found))
    assert "64 fresh agents" in text
    assert "learns without any reward" in text
    assert "above PPO" in text
    assert "below SAC" in text
    assert "about as high as fixed linear policy at 9.50 [8.50, 10.50]" in text
    own = np.arange(8.0)
    (said,) = worth.adapts(own, own - 2.0 + 0.1 * own, own - 5.0)
    assert "lose 1.65 [" in said and "experience 5.00 [5.00, 5.00]: they adapt" in said
    assert "it is not shown" in " ".join(worth.adapts(own, own[::-1].copy(), own))


def test_a_range_that_training_never_draws_is_tested_or_said_to_fail(monkeypatch, tmp_path):
    asked = []
    row = Summary(3.0, ci95=(2.0, 4.0), lives=64)
    monkeypatch.setattr(worth, "summarize", lambda results: {"epg": row, "ppo": row})
    monkeypatch.setattr(worth.Worth, "_results", lambda self, evaluation: asked.append(evaluation))
    monkeypatch.setattr(worth, "Evaluation", lambda learned, name, request, methods: request)
    measured = worth.Worth(None, tmp_path, 0, 1.0)
    said = measured._outside(None, loss_request(GIVEN, 0, 64), "beyond", "out_of_distribution")
    assert said == "In tasks beyond it ends at 3.00 [2.00, 4.00], PPO at 3.00 [2.00, 4.00]."
    assert [request.task.range for request in asked] == ["out_of_distribution"]

    def fails(*given):
        raise given[0]

    monkeypatch.setattr(worth, "Evaluation", fails)
    request = loss_request(GIVEN, 0, 64)
    said = measured._outside(ValueError("mass\n-1"), request, "beyond", "nominal")
    assert said == "In tasks beyond nothing could be measured: mass -1."
    with pytest.raises(Interrupted):
        measured._outside(Interrupted(), request, "beyond", "nominal")


def test_what_evolution_adds_counts_twice():
    def at(name, rung, mean):
        added = mean - 52.0 if name == "rising" and rung > 1 else 0.0
        return Tried(name, rung, AGENTS, 2 * rung, mean, (mean - 1.0, mean + 1.0), added=added)

    tried = [at("good", 0, 84.0), at("rising", 0, -1e6), at("bad", 0, 0.0)]
    tried += [at("good", 1, 80.0), at("rising", 1, 52.0), at("bad", 1, 10.0)]
    assert [each.name for each in ranking(tried)] == ["good", "rising", "bad"]
    tried += [at("good", 2, 78.0), at("rising", 2, 75.0)]
    assert [each.name for each in ranking(tried)] == ["rising", "good", "bad"]
    tried += [at("good", 3, float("nan")), at("rising", 3, 1.0)]
    assert [each.name for each in ranking(tried)] == ["rising", "good", "bad"]


def candidate(returned):
    """Returns a candidate whose agents return rows in turn."""

    class Returning:
        def run(self, keys, phi_of, settings):
            return SimpleNamespace(final_return=np.array(returned.pop(0)))

    begun = Begun(GIVEN, SimpleNamespace(epoch=2))
    return settings_search._Candidate("any", begun, 0, lambda experiment: Returning())


def test_what_evolution_adds_counts_where_it_is_clear():
    """To the returns of the same agents in the first rung."""
    first, risen, noisy = [1.0, 2.0, 3.0, 4.0], [2.0, 3.5, 4.0, 5.5], [9.0, 1.0, 2.0, 4.0]
    made = candidate([first, risen, noisy, [float("nan")] * 4])
    assert [made.measure(rung).added for rung in (1, 2, 3, 4)] == [0.0, 1.25, 0.0, 0.0]


def test_other_agents_are_kept_where_they_are_clearly_better_or_live_shorter():
    usual, unclear, better = [1.0, 2.0, 3.0, 4.0], [0.5, 2.0, 3.5, 4.5], [2.0, 3.1, 4.0, 5.1]
    level = [each - 0.1 for each in better]
    made = candidate([usual, unclear, better, unclear, better, unclear, level])
    made.experiment = Agents(3e-3, -1.0, 4).live_in(GIVEN)
    made.measure(1)
    less, more = neighbours(made.experiment, "log_std")
    assert [made.change(each, 2).kept for each in (less, more, less)] == [False, True, False]
    assert made.experiment == more
    shorter, longer = neighbours(more, "updates")
    kept = [made.change(each, 2).kept for each in (longer, shorter, shorter)]
    assert kept == [False, False, True]
    assert Agents.of(made.experiment) == (3e-3, -0.5, 2)


def test_lifetimes_that_differ_in_evolution_have_no_others():
    experiment = Agents(3e-3, -1.0, 8).live_in(GIVEN)
    assert [each.inner.updates for each in neighbours(experiment, "updates")] == [4, 16]
    evolution = dataclasses.replace(experiment.evolution, longest_life=8)
    assert not neighbours(dataclasses.replace(experiment, evolution=evolution), "updates")


@pytest.mark.slow
def test_a_search_lives_with_other_deviations_and_lifetimes():
    evolution = dataclasses.replace(GIVEN.evolution, epochs=2)
    given = dataclasses.replace(GIVEN, evolution=evolution)
    experiment = Agents(3e-3, -1.0, 4).live_in(given)
    begun = Begun(experiment, initial_state(experiment, 0))
    tried = list(settings_search.SettingsSearch({"any": begun}, Agents._fields, 0, 1e3, 1.0).run())
    changed = [each for each in tried if each.rung > 1]
    assert [each.agents[1:] for each in changed[:2]] == [(-1.5, 4), (-0.5, 4)]
    assert [each.agents.updates for each in changed[2:]] == [2, 8]
    assert len({each.mean for each in changed}) == 4
