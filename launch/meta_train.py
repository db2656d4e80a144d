"""Evolves a loss (Algorithm 1), in one process or in several.

    epg-tf meta-train --config=point_goal --run_dir=runs/first

The same on two ranks:

    horovodrun -np 2 -H localhost:2 epg-tf meta-train \\
        --config=point_goal --run_dir=runs/first
"""

from __future__ import annotations

from . import command_line, config_flag, run_flags  # first: it silences the frameworks

from absl import flags

from epg_tf.artifacts.learned_loss import LearnedLoss, load_loss
from epg_tf.core.communication import Communicator
from epg_tf.core.experiment import Experiment
from epg_tf.epg.shards import Shards
from epg_tf.runs.beginning import scaled
from epg_tf.runs.evolution import EvolutionSystem, cost_lines
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.session import Session
from .evaluation_flags import required

_BEGIN_WITH = flags.DEFINE_string(
    "begin_with",
    None,
    "Loss that a new run begins with: a shipped loss or a run's folder, of the same inputs and "
    "sizes; or a fixed linear policy, around which a loss begins. By default a fresh loss.",
)
_BEGIN_SCALE = flags.DEFINE_float(
    "begin_scale",
    None,
    "What the mean actions of the fixed linear policy of --begin_with are multiplied by.",
    lower_bound=1e-6,
    upper_bound=1e6,
)
flags.adopt_module_key_flags(config_flag)
flags.adopt_module_key_flags(run_flags)


def main(argv: list[str]) -> int:
    """Runs evolution to its end, or to Ctrl-C or SIGTERM; returns the exit code."""
    del argv
    experiment = config_flag.experiment(lambda found: cost_lines(found, "", 0, 1)[1:])
    target = run_flags.target("runs/first")
    communicator = run_flags.join()
    return run_flags.guard(lambda: _evolve(experiment, target, communicator))


def _earlier() -> LearnedLoss | None:
    """Returns what a new run begins with; None: a fresh loss."""
    scale = _BEGIN_SCALE.value
    if _BEGIN_WITH.value is None:
        if scale is not None:
            raise command_line.UsageError(
                f"--begin_scale={scale} scales the policy of --begin_with, which is not given; "
                "name one, or leave it out"
            )
        return None
    earlier = load_loss(required(_BEGIN_WITH, "runs/first"))
    return earlier if scale is None else scaled(earlier, scale)


def _evolve(experiment: Experiment, target: RunTarget, communicator: Communicator) -> int:
    with Shards(experiment, processes=communicator.local_size) as shards:
        system = EvolutionSystem(experiment, run_flags.seed(), shards, communicator, _earlier())
        code = run_flags.run_to_the_end(
            Session(system, target, run_flags.write),
            communicator,
            "stopping as soon as the lives have finished the update they are in",
            elastic=True,
        )
    if not code and communicator.rank == 0:
        run_flags.print_next("best", experiment.task.family, learns=experiment.inner.updates > 0)
    return code


if __name__ == "__main__":
    command_line.run(main)
