"""Compares estimates of memory with what runs take, and runs out of memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from epg_tf.epg.memory_requirements import memory_requirements as evolution_requirements
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.memory_requirements import memory_requirements as metagenrl_needs
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.registry import make_family, named_environment
from tests.launch import commands

# Prints the memory (bytes) by which the settings on the command line raise the peak of a process
# that has already run small ones, and the estimate.
MEASURE = """
import json, sys
from pathlib import Path
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoopSettings
from epg_tf.epg.memory_requirements import memory_requirements as evolution_requirements
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import initial_state
from epg_tf.metagenrl.memory_requirements import memory_requirements as metagenrl_needs
from epg_tf.metagenrl.population import meta_learn
from epg_tf.tasks.registry import make_family, named_environment

def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])

def live(experiment):
    phi = initial_state(experiment, 0).phi
    with Shards(experiment) as shards:
        keys = [LifeKey(0, "evolution", 0, life) for life in range(experiment.compute.shard_lives)]
        shards.run(keys, lambda life: phi, InnerLoopSettings(0.0, 1e-3))

kind, small, large = sys.argv[1], *map(json.loads, sys.argv[2:])
if kind == "evolution":
    live(Experiment.from_mapping(small))
    before, experiment = memory("VmRSS"), Experiment.from_mapping(large)
    live(experiment)
    needs = evolution_requirements(experiment, make_family(experiment.task).spec, 1)
else:
    list(meta_learn(MetaGenRLExperiment.from_mapping(small), 0))
    before, experiment = memory("VmRSS"), MetaGenRLExperiment.from_mapping(large)
    list(meta_learn(experiment, 0))
    specs = {name: named_environment(name).spec for name in experiment.environments}
    needs = metagenrl_needs(experiment, specs, 1)
print(memory("VmHWM") - before, sum(need.size for need in needs))
"""
EVOLUTION = {
    "inner": {"updates": 2, "update_period": 64, "minibatch": 64, "final_episodes": 1},
    "evolution": {"lives": 32, "noise_vectors": 32},
    "compute": {"shard_lives": 32, "threads": 1},
}
METAGENRL = {
    "environments": ["point_goal@50"],
    "agents": 4,
    "steps_per_agent": 200,
    "round_steps": 100,
    "threads": 1,
}
AGENT = {"hidden": [32, 32], "batch": 10, "chunk": 10, "random_steps": 100, "updates_after": 190}
SIZES = {
    "buffer": ("evolution", {"loss": {"buffer_steps": 20_000}}),
    "policies": ("evolution", {"policy": {"hidden": [1000, 1000]}, "loss": {"buffer_steps": 64}}),
    "losses": ("evolution", {"loss": {"context": 2000, "filters": [10, 40]}}),
    "memories": ("evolution", {"loss": {"memory_inputs": 2000, "memory_units": 500}}),
    "networks": ("metagenrl", {"agent": {**AGENT, "hidden": [1000, 1000]}}),
    "chunk": ("metagenrl", {"agent": {**AGENT, "batch": 1, "chunk": 200}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_estimates_are_below_what_is_used_and_near_it(name):
    kind, changes = SIZES[name]
    base = EVOLUTION if kind == "evolution" else {**METAGENRL, "agent": AGENT}
    small = {**base, "loss": {"buffer_steps": 64}} if kind == "evolution" else base
    words = [json.dumps(small), json.dumps({**base, **changes})]
    output = subprocess.run(
        [sys.executable, "-c", MEASURE, kind, *words], check=True, capture_output=True, text=True
    )
    used, estimate = map(float, output.stdout.split())
    assert 1.0 < used / estimate < 3.0


def test_the_papers_sizes_are_far_below_a_laptops_memory():
    """Settings that fit must never be refused."""
    experiment, objective = Experiment(), MetaGenRLExperiment()
    needs = evolution_requirements(experiment, make_family(experiment.task).spec, 8)
    assert sum(need.size for need in needs) < 2**30
    specs = {name: named_environment(name).spec for name in objective.environments}
    needs = metagenrl_needs(objective, specs, 8)
    assert sum(need.size for need in needs) < 4 * 2**30


def test_agents_of_tests_along_meta_training_count():
    """A replay of 100 agents with 100 k steps of 2 x 6 observations, 2 actions and 3 numbers."""
    settings = {
        "environments": ("point_goal",),
        "agent": {"hidden": (4,)},
        "validation": {"agents": 100, "env_steps": 10**5},
    }
    sizes = []
    for period in (0, 1):
        settings["validation"]["period"] = period
        experiment = MetaGenRLExperiment.from_mapping(settings)
        specs = {"point_goal": named_environment("point_goal").spec}
        sizes.append(sum(need.size for need in metagenrl_needs(experiment, specs, 1)))
    assert 1.0 < (sizes[1] - sizes[0]) / (4 * 100 * 10**5 * 17) < 1.05


HUGE = "--config.policy.hidden=(100000,100000)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "flags", "field"),
    [
        (
            "meta_train",
            ["--config=metagenrl_laptop", "--config.agent.chunk=1000000", "--run_dir={folder}"],
            "config.agent.chunk=1000000",
        ),
        (
            "benchmark",
            ["--config=point_goal", "--config.loss.buffer_steps=10000000"],
            "config.loss.buffer_steps=10000000",
        ),
        (
            "meta_test",
            ["--loss=point_goal", "--config=point_goal", HUGE, "--output_dir={folder}"],
            "config.policy.hidden=(100000",
        ),
    ],
)
def test_sizes_that_cannot_fit_are_refused_before_anything_starts(launcher, flags, field, tmp_path):
    folder = tmp_path / "out"
    run = commands.run(launcher, *(flag.format(folder=folder) for flag in flags))
    assert run.returncode == 2 and run.stderr.count("\n") == 1, run.stderr
    assert field in run.stderr and "GiB" in run.stderr
    assert not folder.exists()


def test_few_lives_need_less_memory_than_evolution():
    """A test of two lives, in one shard, does not fill the threads that evolution fills."""
    experiment = Experiment()
    spec = make_family(experiment.task).spec
    few = sum(need.size for need in evolution_requirements(experiment, spec, 8, count=2))
    most = sum(need.size for need in evolution_requirements(experiment, spec, 8))
    assert few == pytest.approx(most / 8)


@pytest.mark.slow
def test_memory_that_ends_in_mid_run_gives_one_line(tmp_path):
    """The address space of the process ends where the first large tensor begins."""
    program = (
        "import resource, sys; from pathlib import Path\n"
        "import launch.meta_train, epg_tf.epg.inner_loop as loop\n"
        "update = loop.Lives.update_agents\n"
        "def limited(self, epochs):\n"
        "    used = int(Path('/proc/self/statm').read_text().split()[0]) * 4096\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, -1))\n"
        "    update(self, epochs)\n"
        "loop.Lives.update_agents = limited\n"
        "sys.argv[0] = 'meta_train'\n"
        "launch.meta_train.command_line.run(launch.meta_train.main)\n"
    )
    flags = [
        "--config=point_goal",
        f"--run_dir={tmp_path / 'run'}",
        "--config.loss.buffer_steps=400000",
        "--config.compute.threads=1",
    ]
    run = subprocess.run(
        [sys.executable, "-c", program, *flags],
        cwd=commands.ROOT,
        capture_output=True,
        text=True,
        env=commands.environment(),
    )
    assert run.returncode == 2
    assert run.stderr.startswith("error: these settings need more memory than there is (")
    assert run.stderr.count("\n") == 1
