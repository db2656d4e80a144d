"""Every config is a valid experiment, the paper's are Table 1, and the laptop's evolve."""

import dataclasses
import functools
import json
from pathlib import Path

import numpy as np
import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.settings import Experiment
from epg_tf.figures.results import unpacked
from epg_tf.losses.extra_channels import sees_reward
from epg_tf.metagenrl.shard_plans import plan_shards
from epg_tf.runs.config_files import describe_config, load_experiment, package_configs, run_settings
from epg_tf.studies.speed import measure_lives
from epg_tf.tasks.registry import make_family, named_environment
from tests.launch import commands

SETTINGS = {
    f"{file}:{variant}"
    for file in package_configs()
    if not file.startswith(("metagenrl", "maml", "rl2"))
    for variant in describe_config(file)[1] or ("",)
}


NIGHTS = sorted(name for name in SETTINGS if ":night" in name)
ON_A_LAPTOP = sorted(name for name in SETTINGS if "paper" not in name and name not in NIGHTS)

# EPG, Table 1: update period M, updates; life U = M * updates (the paper's 8196 is 8192).
TABLE_1 = {
    "random_hopper:paper": (64, 128),
    "random_walker:paper": (128, 256),
    "random_reacher:paper": (128, 512),
    "directional_hopper:paper": (64, 128),
    "directional_half_cheetah:paper": (32, 256),
    "goal_ant:paper": (32, 512),
    "goal_ant:paper_right_half": (32, 512),
    "goal_ant:paper_forward_backward": (32, 512),
    "goal_ant:paper_no_reset": (32, 512),
    "random_hopper:paper_past": (64, 128),
    "random_hopper:paper_channels": (64, 128),
    "goal_ant:paper_goal": (32, 512),
    "random_walker:paper_epg_i": (128, 256),
    "directional_half_cheetah:paper_epg_i": (32, 256),
    "goal_ant:paper_epg_i": (32, 512),
    "fetch:paper": (32, 256),
}


# First version of the paper, section 4.1: updates.
FIRST_VERSION = {
    "random_hopper:paper_v1": 128,
    "directional_hopper:paper_v1": 128,
    "random_reacher:paper_v1": 512,
}


# What each variant of these families means: family, frame_skip, episode limit, range.
ALL_ROUND = "bearing=-3.14159265:3.14159265"
TASKS = {
    "random_hopper:laptop": ("random_hopper", 4, 250, "training"),
    "random_hopper:paper": ("random_hopper", 2, 1000, "training"),
    "random_hopper:paper_v1": ("random_hopper", 2, 1000, "training"),
    "random_reacher:paper_v1": ("random_reacher", 2, 50, "training"),
    "random_walker:paper": ("random_walker", 4, 1000, "training"),
    "random_reacher:paper": ("random_reacher", 2, 50, "training"),
    "directional_hopper:paper": ("directional_hopper", 2, 1000, "training"),
    "directional_hopper:paper_v1": (
        "directional_hopper",
        2,
        1000,
        "mass=0.5:2,friction=0.5:2,radius=0.5:2,gravity=-20:-2",
    ),
    "directional_half_cheetah:paper": ("directional_half_cheetah", 5, 1000, "training"),
    "fetch:paper": ("fetch", 20, 50, "training"),
    "hidden_goal:laptop": ("hidden_goal", 4, 25, "training"),
    "directional_half_cheetah:demo": ("directional_half_cheetah", 5, 100, "training"),
    "mixed:laptop": ("hidden_goal", 4, 25, "training"),
    "mixed:cheetah_lunar": ("half_cheetah", 5, 1000, "training"),
    "turned_motors:laptop": ("turned_motors", 4, 25, "training"),
    **{
        f"goal_ant:{scale}{name}": (family, 5, limit, task_range)
        for scale, limit in (("paper", 1000), ("laptop", 100))
        for name, family, task_range in (
            ("", "goal_ant", ALL_ROUND),
            ("_right_half", "goal_ant", "training"),
            ("_forward_backward", "forward_backward_ant", "training"),
            ("_no_reset", "goal_ant_no_reset", ALL_ROUND),
        )
    },
}


@functools.cache
def experiment(name):
    return load_experiment(name.removesuffix(":"))


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_config_is_a_valid_experiment(name):
    """Nights of reaching and of GoalAnt keep the zero of observations."""
    made = experiment(name)
    family = make_family(made.task)
    assert made.evolution.lives % made.compute.shard_lives == 0
    if name.startswith(("directional", "goal_ant", "hidden_goal", "turned_motors")):
        assert sees_reward(made.loss)  # the task cannot be inferred without (EPG, section 3.3)
    if name.startswith(("random", "fetch", "point")):
        assert not made.loss.reward and family.quantities
    reaching = ("random_reacher:night", "fetch:night", "fetch:target", "goal_ant:night")
    assert made.inner.centred_observations == (not name.startswith(reaching))


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_configs_evolve_in_coarse_physics_where_there_are_some_but_papers_and_nights_of_ants(name):
    made = experiment(name)
    exact = "paper" in name or name.startswith("goal_ant:night")
    for task in made.tasks:
        declared = make_family(dataclasses.replace(task, physics="exact")).has_coarse_physics
        expected = "coarse" if declared and not exact else "exact"
        assert task.physics == expected


@pytest.mark.parametrize(
    ("name", "home"),
    [
        (
            f"rl2_{family}:{variant}",
            f"directional_{family}:{variant}".replace("directional_goal", "goal"),
        )
        for family, variants in (
            ("half_cheetah", ("laptop", "paper")),
            ("goal_ant", ("laptop", "laptop_right_half", "paper", "paper_right_half")),
        )
        for variant in variants
    ],
)
def test_rl2_has_the_task_of_the_losses_that_it_is_compared_with(name, home):
    made = load_experiment(name)
    assert made.task == experiment(home).task
    if "paper" in name:  # MetaGenRL's authors: at most 50 M env steps, LSTM 64, two episodes
        assert 50e6 <= made.iterations * made.iteration_steps < 50.2e6
        assert (made.network.lstm_units, made.trial.episodes) == (64, 2)


def test_the_mix_has_the_tasks_of_the_families_own_configs():
    for task in experiment("mixed:laptop").tasks:
        assert task == experiment(f"{task.family}:laptop").task


@pytest.mark.parametrize("name", sorted(TABLE_1))
def test_the_papers_numbers(name):
    made = experiment(name)
    assert (made.inner.update_period, made.inner.updates) == TABLE_1[name]
    evolution = made.evolution
    assert (evolution.lives, evolution.noise_vectors, evolution.epochs) == (256, 64, 5000)
    assert (evolution.learning_rate, evolution.final_learning_rate) == (1e-2, 1e-3)
    assert (evolution.guidance, evolution.final_guidance, evolution.l2) == (1, 0, 1e-3)
    assert (evolution.learning_rate_epochs, evolution.guidance_epochs) == (2000, 500)
    assert not evolution.antithetic and not evolution.common_random_numbers
    inner = made.inner
    assert (inner.minibatch, inner.learning_rate, inner.final_episodes) == (32, 1e-3, 3)
    assert (evolution.fitness, made.policy.hidden, made.loss.memory_units) == ("rank", (64, 64), 32)
    assert made.task.range != "out_of_distribution"
    assert (made.loss.widths, made.loss.strides, made.loss.filters) == ((8, 4), (7, 2), (10, 10))


@pytest.mark.parametrize("name", sorted(FIRST_VERSION))
def test_the_numbers_of_the_papers_first_version(name):
    made = experiment(name)
    inner, loss, evolution = made.inner, made.loss, made.evolution
    assert (inner.updates, inner.update_period) == (FIRST_VERSION[name], 128)
    assert (loss.buffer_steps, inner.minibatch) == (128, 128)  # one gradient step a trajectory
    assert (loss.widths, loss.strides, loss.filters) == ((8, 4), (7, 2), (8, 8))
    assert (loss.context, loss.head, loss.memory_units) == (32, 16, 32)
    assert (evolution.lives, evolution.noise_vectors, evolution.epochs) == (32, 32, 3000)
    assert (evolution.guidance_epochs, evolution.fitness_from, evolution.l2) == (500, "weighted", 0)
    assert made.policy.state_dependent_std and made.policy.hidden == (64, 64)
    assert evolution.fitness == "raw"


def test_lives_from_past_policies_are_the_only_difference():
    for scale in ("laptop", "night", "paper"):
        past = experiment(f"random_hopper:{scale}_past")
        assert past.past.policies and past.past.share == 0.5
        usual = experiment(f"random_hopper:{scale}")
        assert not usual.past.policies and dataclasses.replace(past, past=usual.past) == usual


@pytest.mark.parametrize(
    ("family", "usual"), [("random_hopper", "_channels"), ("goal_ant", "_goal")]
)
def test_further_channels_are_the_only_difference(family, usual):
    for scale in ("laptop", "paper"):
        made, base = experiment(f"{family}:{scale}{usual}"), experiment(f"{family}:{scale}")
        assert dataclasses.replace(made, loss=base.loss) == base
        assert dataclasses.replace(made.loss, channels=()) == base.loss
        expected = ("goal",) if usual == "_goal" else ("time_in_life", "novelty")
        assert made.loss.channels == expected


@pytest.mark.parametrize("family", ["random_walker", "directional_half_cheetah", "goal_ant"])
def test_evolved_starts_move_what_their_names_say(family):
    """At the paper's scale nothing else differs (EPG, Figure 13)."""
    for scale in ("laptop", "paper"):
        usual = experiment(f"{family}:{scale}")
        for name, moves, alpha in (("epg_i", "both", 0.0), ("ppo_i", "initialisation", 1.0)):
            made = experiment(f"{family}:{scale}_{name}")
            assert (made.evolution.moves, made.evolution.final_guidance) == (moves, alpha)
            assert made.evolution.guidance == alpha or moves == "both"
            assert (made.task, made.loss.channels) == (usual.task, usual.loss.channels)
            fields = {"moves": moves} | ({"guidance": 1.0, "final_guidance": 1.0} if alpha else {})
            moved = dataclasses.replace(usual.evolution, **fields)
            if scale == "paper":
                assert made == dataclasses.replace(usual, evolution=moved)


@pytest.mark.parametrize("name", ["epg_i", "ppo_i"])
@pytest.mark.parametrize(
    ("family", "kept"), [("directional_half_cheetah", "cheetah"), ("random_walker", "walker")]
)
def test_the_laptops_evolved_starts_are_those_that_were_run(family, kept, name):
    """But for the length of the run, and baselines that were tuned later."""
    folder = unpacked(Path(commands.ROOT) / "results") / "evolved_starts" / f"{kept}-{name}-0"
    run = run_settings(folder)
    made = experiment(f"{family}:laptop_{name}")
    shorter = {
        field: getattr(run.evolution, field)
        for field in ("epochs", "learning_rate_epochs", "validation_period")
    }
    for group in ("task", "policy", "loss", "inner"):
        assert getattr(made, group) == getattr(run, group), group
    assert dataclasses.replace(made.evolution, **shorter) == run.evolution


def test_the_laptops_first_version_has_what_it_says_of_the_papers():
    made = experiment("random_hopper:laptop_v1")
    assert made.policy.state_dependent_std and made.evolution.fitness_from == "weighted"
    period = made.inner.update_period  # one gradient step a trajectory
    assert made.loss.buffer_steps == made.inner.minibatch == period
    assert made.evolution.lives == made.evolution.noise_vectors
    assert made.evolution.fitness == "raw"


def test_e_rl2_differs_from_rl2_in_its_exploring_episode():
    for scale in ("laptop", "paper"):
        made, base = (load_experiment(f"rl2_half_cheetah:{scale}{end}") for end in ("_e_rl2", ""))
        assert (made.trial.exploratory_episodes, base.trial.exploratory_episodes) == (1, 0)
        assert dataclasses.replace(made, trial=base.trial) == base


@pytest.mark.parametrize("name", NIGHTS)
def test_a_night_has_the_papers_bodies_and_lives(name):
    """All seven families have one (EPG, Table 1)."""
    assert {name.split(":")[0] for name in NIGHTS} == {name.split(":")[0] for name in TABLE_1}
    plain = name.removesuffix("_around")
    in_paper = plain.replace(":night", ":paper")
    made, paper = experiment(name), experiment(in_paper)
    assert dataclasses.replace(made.task, physics="exact") == paper.task
    assert (made.inner.update_period, made.inner.updates) == TABLE_1[in_paper]
    assert sees_reward(made.loss) == sees_reward(paper.loss)
    periods = {
        "random_reacher:night": 40,
        "fetch:night": 50,
        "random_walker:night": 50,
    }
    usual = 6 if name.startswith("goal_ant") else 20
    assert made.evolution.validation_period == periods.get(plain, usual)
    in_pairs = name.startswith(("random_hopper:", "fetch:", "goal_ant:"))
    assert made.evolution.fitness == ("rank_in_pair" if in_pairs else "rank")


@pytest.mark.parametrize("variant", ["", "_right_half", "_forward_backward", "_no_reset"])
def test_the_nights_of_ants_have_a_small_loss_that_turns_what_it_sees(variant):
    made = experiment(f"goal_ant:night{variant}")
    assert made.loss.channels == ("observation_towards_reward",) and made.loss.start == "quadratic"
    assert made.loss.products == made.loss.factors * 8 and "observation" in made.loss.without
    assert made.evolution.longest_life == 128


def test_some_nights_hold_means_within_limits():
    """And evolve in shorter lives; the valley of the first two cannot become a hill."""
    fetch, reacher, walker = (
        experiment(f"{family}:night") for family in ("fetch", "random_reacher", "random_walker")
    )
    for made in (fetch, reacher, walker):
        assert made.loss.mean_limit == 1.0 and -2.0 <= made.policy.log_std <= -1.5
    assert fetch.loss.factors == reacher.loss.factors == 1
    assert (fetch.evolution.shortest_life, fetch.evolution.longest_life) == (12, 48)
    assert fetch.inner.final_episodes == 10
    assert (walker.evolution.longest_life, walker.evolution.sigma) == (48, 0.03)


def test_the_night_of_random_reacher_has_a_small_loss_that_sees_pairs():
    """A product unit for each component of the action."""
    loss = experiment("random_reacher:night").loss
    assert (loss.start, loss.products) == ("quadratic", 2)
    assert (loss.head, loss.context, loss.memory_units) == (1, 1, 0)
    assert loss.channels == ("observation_pairs",)


def test_the_night_of_directional_half_cheetah_begins_as_a_policy_gradient():
    made = experiment("directional_half_cheetah:night")
    loss, evolution = made.loss, made.evolution
    assert (loss.start, loss.products, made.inner.kl_limit) == ("policy_gradient", 8, 0.02)
    assert evolution.epochs == evolution.learning_rate_epochs == 200
    assert evolution.fitness_from == "whole_life"


@pytest.mark.parametrize("name", sorted(TASKS))
def test_what_a_variant_means(name):
    task = experiment(name).task
    assert (task.family, task.frame_skip, task.episode_limit, task.range) == TASKS[name]


@pytest.mark.parametrize(
    "file", sorted({name.split(":")[0] for name in SETTINGS if ":laptop" in name})
)
def test_laptop_is_meant_where_no_variant_is_named(file):
    assert load_experiment(file) == load_experiment(f"{file}:laptop")


HERE = {"threads": 2, "parallel": "threads"}  # those of the process that runs tests


def small(made):
    """Returns the same experiment with two epochs of few and short lives."""
    settings = made.to_mapping()
    changed = {
        "inner": {"updates": 4, "final_episodes": 1},
        "evolution": {"epochs": 2, "lives": 8, "noise_vectors": 4, "validation_period": 0},
        "compute": {"shard_lives": 4, **HERE},
    }
    changed["evolution"]["fitness_from"] = "final_episodes"
    if made.evolution.longest_life:
        changed["evolution"] |= {"shortest_life": 2, "longest_life": 4}
    for group, values in changed.items():
        settings[group] |= values
    return Experiment.from_mapping(settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [*ON_A_LAPTOP, *(name for name in NIGHTS if name.endswith(":night"))]
)
def test_a_laptop_config_evolves(name):
    """No life may fail."""
    made = small(experiment(name))
    rows = [result.metrics for result in evolve(made, 0)]
    assert len(rows) == 2
    assert all(row["failed_lives"] == 0 and row["fitness_std"] > 0 for row in rows)
    reaching = all(make_family(task).goal_reaching for task in made.tasks)
    assert (not np.isnan(rows[-1]["success_rate"])) == reaching


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ON_A_LAPTOP if name.endswith(":laptop")])
def test_a_family_spends_little_of_a_life_on_itself(name):
    """Of the time of a life, at most a quarter goes into the family's own NumPy code."""
    made = experiment(name).in_physics("exact")
    made = dataclasses.replace(made, compute=dataclasses.replace(made.compute, **HERE))
    speed = measure_lives(made, 0, 32, 4)
    assert speed.shares["family"] < 0.25


@pytest.mark.parametrize(
    "path",
    sorted((unpacked(Path(commands.ROOT) / "results") / "tuning").glob("*_night.*.json")),
    ids=lambda path: path.stem,
)
def test_rivals_of_a_night_have_the_settings_that_won_their_search(path):
    kept = json.loads(path.read_text())
    made = getattr(experiment(f"{path.stem.partition('_night')[0]}:night"), kept["group"])
    winner = kept["winner"]["settings"]
    assert {name: getattr(made, name) for name in winner} == winner


@pytest.mark.parametrize(
    ("name", "epg"),
    [
        ("maml_half_cheetah", "directional_half_cheetah:laptop"),
        ("maml_half_cheetah:paper", "directional_half_cheetah:paper"),
        ("maml_goal_ant", "goal_ant:laptop_right_half"),
    ],
)
def test_maml_has_task_policy_and_life_of_the_loss_that_it_is_compared_with(name, epg):
    mine, its = experiment(name), experiment(epg)
    assert (mine.task, mine.policy) == (its.task, its.policy)
    assert mine.adaptation.env_steps == its.life_steps
    assert mine.iteration_steps == mine.outer.tasks * 2 * its.life_steps


def test_the_papers_ant_of_maml_has_steps_on_8192_env_steps_and_sees_goals_in_front():
    paper = experiment("maml_goal_ant:paper")
    assert paper.adaptation.env_steps == 8192 and paper.task.range == "training"
    assert make_family(paper.task).episode_limit == 1000


@pytest.mark.parametrize("names", ["lunar", "hopper", "cheetah_lunar", "cheetah_hopper"])
def test_every_training_set_of_table_2(names):
    made = experiment(f"metagenrl_paper:{names}")
    assert len(made.environments) == len(names.split("_"))
    assert sum(plan.last - plan.first for plan in plan_shards(made)) == 20


# config: environments, those of tests alone, agents in each, rounds, virtual steps
NIGHT_BODIES = "metagenrl_night:hopper_walker"
SMALL_HELD_OUT = ("gymnasium:InvertedDoublePendulum-v5@200",)
META_TRAINING = {
    "metagenrl_small": ((), SMALL_HELD_OUT, 6, 32, 1),
    "metagenrl_bodies": (("hopper", "half_cheetah"), ("walker2d",), 6, 64, 1),
    "metagenrl_night": ((), SMALL_HELD_OUT, 6, 80, 3),
    NIGHT_BODIES: (("hopper", "walker2d"), ("half_cheetah",), 8, 96, 3),
}


@pytest.mark.parametrize("name", META_TRAINING)
def test_meta_training_on_a_laptop(name):
    places, held_out, agents, rounds, virtual = META_TRAINING[name]
    made, small = experiment(name), experiment("metagenrl_small")
    assert (made.rounds, made.meta.virtual_steps) == (rounds, virtual)
    assert made.environments == (places or small.environments)
    assert made.validation.environments == held_out
    sizes = [plan.last - plan.first for plan in plan_shards(made)]
    assert sizes == [agents] * len(made.environments)
    assert made.objective == small.objective and made.agent.hidden == small.agent.hidden
    if name != "metagenrl_small":
        assert made.rounds == made.meta.learning_rate_rounds
        assert made.rounds % made.life_rounds == made.rounds % made.validation.period == 0


def test_the_small_set_has_four_environments_of_different_sizes():
    made = experiment("metagenrl_small")
    specs = [named_environment(name).spec for name in made.environments]
    sizes = [(spec.observation_size, spec.action_size) for spec in specs]
    assert sizes == [(6, 2), (3, 1), (4, 1), (10, 2)] and made.agent.scale_rewards


def test_a_night_has_the_agents_of_the_shorter_runs():
    assert experiment("metagenrl_night").agent == experiment("metagenrl_small").agent
    made, bodies = experiment(NIGHT_BODIES), experiment("metagenrl_bodies:hopper_walker")
    assert made.agent == bodies.agent and made.validation.env_steps == 8000


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("metagenrl_paper:hopper_walker", "'walker'; join some of"),
        ("metagenrl_bodies:hopper_ant", "bodies:hopper_ant names 'ant'; join some of"),
        ("metagenrl_night:hopper_ant", "night:hopper_ant names 'ant'; write small, or join"),
    ],
)
def test_an_unknown_training_set_is_named(name, message):
    with pytest.raises(ConfigError, match=message):
        load_experiment(name)
