"""Lists what there is: configs with their variants, task families, and pretrained losses.

    epg-tf list

With the family that a config file registers:

    epg-tf list --config=random_swimmer.py
"""

from __future__ import annotations

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

flags.adopt_module_key_flags(config_flag)

command_line.parse_flags(__name__)

from epg_tf.artifacts.artifact import load_loss, load_objective, pretrained_objectives
from epg_tf.artifacts.loss_files import pretrained_losses
from epg_tf.runs import config_files
from epg_tf.losses.extra_channels import sees_reward
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.quantities import Quantity, Range
from epg_tf.tasks.registry import FAMILIES


def main(argv: list[str]) -> int:
    """Prints a paragraph per config, family and loss; returns the exit code."""
    del argv
    config_flag.load_families()
    print("configs, for --config=NAME or --config=NAME:VARIANT; the first variant is the default\n")
    for name in config_files.package_configs():
        meaning, variants = config_files.describe_config(name)
        print(f"{name}\n  {meaning}")
        if variants:
            print(f"  variants: {', '.join(variants)}")
    print("\ntask families\n")
    for name, kind in FAMILIES.items():
        family = kind(kind.default_frame_skip, kind.default_episode_limit)
        print(f"{name}: {_summary(family)}\n{_sizes(family)}")
        print("".join(f"{_draws(quantity)}\n" for quantity in family.quantities), end="")
    print(
        "gymnasium:ID: any Gymnasium environment with Box or Discrete actions, for example\n"
        "  --config=gymnasium_env:Pendulum-v1\n\nlosses, for --loss=NAME\n"
    )
    for name in pretrained_losses():
        print(f"{name}\n  {_origin(name)}")
    print(f"\nSettings: `{command_line.program('settings')}`, or --config=NAME --print_config.")
    return 0


def _origin(loss: str) -> str:
    """Returns where a pretrained loss or objective was learned."""
    if loss in pretrained_objectives():
        places = load_objective(loss).experiment.environments
        return f"an objective of MetaGenRL, meta-trained in {', '.join(places)}"
    experiment = load_loss(loss).experiment
    reward = "sees the reward" if sees_reward(experiment.loss) else "never sees a reward"
    return f"evolved in {experiment.task.family}, {reward}"


def _summary(family: TaskFamily) -> str:
    return (type(family).__doc__ or "no description").strip().splitlines()[0]


def _sizes(family: TaskFamily) -> str:
    goal = ", a goal to reach" if family.goal_reaching else ""
    steps = (
        f", each {1e3 * family.seconds_per_step:.3g} ms, {family.frame_skip} physics steps"
        if isinstance(family, BodyFamily)
        else ""
    )
    return (
        f"  observation {family.observation_size}, action {family.action_size}{goal}; at most "
        f"{family.episode_limit} env steps an episode{steps}"
    )


def _draws(quantity: Quantity) -> str:
    shifted = (
        ""
        if quantity.shifted is None
        else f"; out of distribution {_range(quantity, quantity.shifted)}"
    )
    count = f"{quantity.size} x " if quantity.size else ""
    training = _range(quantity, quantity.training)
    return f"  {quantity.name}: {count}{training} ({quantity.unit}){shifted}"


def _range(quantity: Quantity, bounds: Range) -> str:
    low, high = (f"{bound:.4g}" for bound in bounds)
    if low == high:
        return low
    return f"{low} or {high}" if quantity.either else f"{low} to {high}"


if __name__ == "__main__":
    command_line.run(main)
