"""Lists the shipped configs with their variants, and the shipped losses.

epg-tf configs
"""

from __future__ import annotations

from . import command_line  # first: it silences the frameworks

from epg_tf.artifacts.artifact import load_loss, load_objective, shipped_losses, shipped_objectives
from epg_tf.runs import config_files
from epg_tf.losses.extra_channels import sees_reward


def main(argv: list[str]) -> int:
    """Prints a paragraph per config and a line per loss; returns the exit code."""
    del argv
    print("configs, for --config=NAME or --config=NAME:VARIANT; the first variant is the default\n")
    for name in config_files.shipped_configs():
        meaning, variants = config_files.describe_config(name)
        print(f"{name}\n  {meaning}")
        if variants:
            print(f"  variants: {', '.join(variants)}")
    print("\nlosses, for --loss=NAME\n")
    objectives = shipped_objectives()
    for name in shipped_losses():
        if name in objectives:
            places = load_objective(name).experiment.environments
            print(f"{name}\n  an objective of MetaGenRL, meta-trained in {', '.join(places)}")
            continue
        experiment = load_loss(name).experiment
        reward = "sees the reward" if sees_reward(experiment.loss) else "never sees a reward"
        print(f"{name}\n  evolved in {experiment.task.family}, {reward}")
    print(
        f"\nSettings: `{command_line.program('settings')}`; those of a config: any command with "
        "--config=NAME --print_config."
    )
    return 0


if __name__ == "__main__":
    command_line.run(main)
