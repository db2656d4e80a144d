"""Lists every task family: sizes, what differs between its tasks and in which ranges, and the
episode limit.

    epg-tf list-tasks

With the family that a config file registers:

    epg-tf list-tasks --config=random_swimmer.py
"""

from __future__ import annotations

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags


from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.quantities import Quantity, Range
from epg_tf.tasks.registry import FAMILIES


flags.adopt_module_key_flags(config_flag)


def main(argv: list[str]) -> int:
    """Prints one paragraph per family; returns the exit code."""
    del argv
    config_flag.load_families()
    for name, kind in FAMILIES.items():
        family = kind(kind.default_frame_skip, kind.default_episode_limit)
        print(
            "\n".join(
                [f"{name}: {_summary(family)}", _sizes(family), *map(_draws, family.quantities), ""]
            )
        )
    print(
        "gymnasium:ID: any Gymnasium environment with Box or Discrete actions, for example\n"
        "  --config=gymnasium_env:Pendulum-v1"
    )
    return 0


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
