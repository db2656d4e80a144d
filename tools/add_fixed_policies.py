"""Adds fixed policies to a test of a loss that had none, without training its agents again.

    python tools/add_fixed_policies.py --output=FOLDER TEST POLICY ...

TEST is the folder of a test of epg-tf meta-test, POLICY that of a fixed policy, evolved with
config.evolution.moves="initialisation" and config.inner.updates=0. FOLDER gets the
rows that `epg-tf meta-test --zero_shot=POLICY,...` would have written, because a life does not
depend on what else is in a test; `zero_shot_made_with` in its summary is about the new ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.artifacts.learned_loss import LearnedLoss
from epg_tf.artifacts.loss_files import checksum
from epg_tf.baselines.method import Request
from epg_tf.core import files
from epg_tf.core.config_files import read_experiment
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.experiment import Experiment, TaskConfig
from epg_tf.evaluation import zero_shot
from epg_tf.evaluation.evaluate import train_all
from epg_tf.evaluation.results import Results, read_results
from epg_tf.reports.evaluation_report import write_report
from epg_tf.runs.provenance import provenance


def request_of(about: Mapping[str, Any], experiment: Experiment, agents: int) -> Request:
    """Returns the request of a test.

    Args:
      about: Of its summary.
      experiment: Its settings.
      agents: Of each method.
    """
    inner = experiment.inner
    return Request(
        TaskConfig(**about["task"]),
        about["seed"],
        about["phase"],
        agents,
        about["updates"] * inner.update_period,
        inner.final_episodes,
    )


def main(words: Sequence[str]) -> int:
    """Reads, plays, writes; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--output", required=True, help="folder for the test with its new rows")
    parser.add_argument("test", help="folder of a test of epg-tf meta-test")
    parser.add_argument("policies", nargs="+", help="folders of fixed policies")
    given = parser.parse_args(words)
    try:
        tested = read_results(given.test)
        summary = files.read_json(Path(given.test) / "summary.json", "the summary of a test")
        about = summary["about"]
        if about["zero_shot_facts"]:
            names = ", ".join(about["zero_shot_facts"])
            raise ConfigError(f"{given.test} has fixed policies: {names}; name a test without")
        experiment = read_experiment(about["config"])
        if not isinstance(experiment, Experiment):
            raise ConfigError(f"{given.test} is no test of a loss of EPG")
        agents = len(next(iter(tested.groups().values())).agents())
        request = request_of(about, experiment, agents)
        policies = [zero_shot.load_fixed_policy(folder) for folder in given.policies]
        home = LearnedLoss(np.zeros(0, np.float32), experiment, {})
        methods = zero_shot.methods(home, policies)
        for policy in policies:
            zero_shot.check_body(policy, request.task)
        files.prepare_folder(given.output, (), overwrite=None)
        tables = list(train_all(methods, request))
    except (ConfigError, RecordError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (KeyError, TypeError, StopIteration) as error:
        print(f"error: {given.test} holds no test of a loss of EPG ({error!r})", file=sys.stderr)
        return 2
    learned = {each.name: each.learned for each in methods}
    costs = {f"{name} {each.name}": each.facts.get("env_steps") for name, each in learned.items()}
    sums = {f"{name} {each.name}": checksum(each.phi) for name, each in learned.items()}
    about = {
        **about,
        "parameters_sha256": {**about.get("parameters_sha256", {}), **sums},
        "meta_training_env_steps": {**about["meta_training_env_steps"], **costs},
        "zero_shot_facts": {name: each.facts for name, each in learned.items()},
        "zero_shot_made_with": provenance(),
    }
    title = f"{request.task.family}: fresh agents on unseen tasks"
    print(write_report(given.output, Results.join([tested, *tables]), about, title))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
