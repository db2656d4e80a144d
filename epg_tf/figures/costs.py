"""Computes what the runs and tests behind a figure cost, before any of them starts."""

from __future__ import annotations

from epg_tf.core.config_files import AnyExperiment
from epg_tf.core.experiment import Experiment
from epg_tf.core.maml_experiment import MAMLExperiment
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.evaluation.comparisons import LOSSES, OBJECTIVES
from epg_tf.evaluation.study_costs import epoch_env_steps
from epg_tf.figures.declaration import LossNeed, Need, ProgressNeed, RunNeed, TestNeed
from epg_tf.figures.settings import objective_life, of_test, wanted


def run_env_steps(experiment: AnyExperiment) -> float:
    """Returns the env steps of a run, without validation; final episodes count in full."""
    if isinstance(experiment, Experiment):
        return experiment.evolution.epochs * epoch_env_steps(experiment)
    if isinstance(experiment, MetaGenRLExperiment):
        return float(experiment.agents * experiment.steps_per_agent)
    if isinstance(experiment, MAMLExperiment):
        return float(experiment.outer.iterations * experiment.iteration_steps)
    return float(experiment.iterations * experiment.iteration_steps)


def sequential_env_steps(experiment: Experiment) -> int:
    """Returns the env steps that a worker takes one after the other: E lives of U."""
    return experiment.evolution.epochs * experiment.life_steps


def test_env_steps(need: TestNeed) -> float:
    """Returns the env steps in which the agents of a test learn, of all its methods."""
    experiment = of_test(need)
    if isinstance(experiment, MetaGenRLExperiment):
        life = objective_life(need, experiment)
        methods = OBJECTIVES.chosen(need.compare)
    else:
        assert isinstance(experiment, Experiment)
        updates = experiment.inner.updates if need.updates is None else need.updates
        life, methods = updates * experiment.inner.update_period, LOSSES.chosen(need.compare)
    return float(need.lives * life * (len(methods) + len(need.trained)))


def env_steps(need: Need) -> float:
    """Returns the env steps of a need alone, without what it rests on; 0 for tests of the
    objectives that a run kept, whose number is only known afterwards.
    """
    if isinstance(need, TestNeed):
        return test_env_steps(need)
    if isinstance(need, ProgressNeed):
        return 0.0
    run = need.run if isinstance(need, LossNeed) else need
    return run_env_steps(wanted(run.config, run.changes))


def runs_of(need: Need) -> list[RunNeed]:
    """Returns the runs that a need rests on, itself included."""
    if isinstance(need, RunNeed):
        return [need]
    trained = [run for _, run in need.trained] if isinstance(need, TestNeed) else []
    return [need.run, *trained]


def whole_cost(needs: tuple[Need, ...]) -> float:
    """Returns the env steps of all that a figure needs, each run counted once."""
    runs = {(run.config, run.seed, run.changes): run for need in needs for run in runs_of(need)}
    tests = [need for need in needs if isinstance(need, TestNeed | ProgressNeed)]
    return sum(map(env_steps, [*runs.values(), *tests]))
