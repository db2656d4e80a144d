"""Names the folder of each run and evaluation that figures read."""

from __future__ import annotations

from epg_tf.figures.declaration import Changes, Run

_FOLDERS = {  # config -> folder below results/
    "random_hopper:laptop": "past_policies/hopper-{seed}",
    "random_hopper:laptop_past": "past_policies/hopper-past-{seed}",
    "random_walker:laptop": "evolved_starts/walker-epg-{seed}",
    "random_walker:laptop_epg_i": "evolved_starts/walker-epg_i-{seed}",
    "random_walker:laptop_ppo_i": "evolved_starts/walker-ppo_i-{seed}",
    "directional_half_cheetah:laptop": "cheetah_seeds/{seed}",
    "directional_half_cheetah:laptop-policy_gradient": (
        "starts/directional_half_cheetah-policy_gradient-{seed}"
    ),
    "directional_half_cheetah:laptop_epg_i": "evolved_starts/cheetah-epg_i-{seed}",
    "directional_half_cheetah:laptop_ppo_i": "evolved_starts/cheetah-ppo_i-{seed}",
    "directional_hopper:laptop": "starts/directional_hopper-policy_gradient-{seed}",
    "goal_ant:laptop_right_half": "evolved_starts/ant-epg-{seed}",
    "maml_half_cheetah:laptop": "meta_rivals/cheetah-maml-{seed}",
    "rl2_half_cheetah:laptop": "meta_rivals/cheetah-rl2-{seed}",
    "maml_goal_ant:laptop": "meta_rivals/ant-maml-{seed}",
    "rl2_goal_ant:laptop_right_half": "meta_rivals/ant-rl2-{seed}",
    "metagenrl_laptop": "metagenrl_replay/seed{seed}",
    "metagenrl_small": "metagenrl_small/seed{seed}",
    "metagenrl_bodies:hopper_cheetah": "metagenrl_bodies/seed{seed}",
    "metagenrl_night:small": "metagenrl_night/seed{seed}",
    "metagenrl_night:hopper_cheetah": "metagenrl_night/hopper_cheetah",
    "metagenrl_night:cheetah_lunar": "metagenrl_night/cheetah_lunar",
}
_PRETRAINED = {  # config -> pretrained loss, of seed 0
    "random_hopper:laptop": "random_hopper",
    "random_reacher:laptop": "random_reacher",
    "metagenrl_laptop": "point_goal_objective",
    "directional_hopper:night": "directional_hopper",
    **{
        f"{family}:night": f"{family}_night"
        for family in (
            *("random_hopper", "random_walker", "random_reacher"),
            *("directional_half_cheetah", "goal_ant", "fetch"),
        )
    },
}


def run(
    config: str,
    seed: int = 0,
    changes: Changes = (),
    kind: str = "",
    *,
    label: str = "",
    optional: bool = False,
) -> Run:
    """Returns a run with its folder; `kind` is one word for the changes."""
    key = f"{config}-{kind}" if kind else config
    family, _, variant = key.partition(":")
    if variant == "night" and not config.startswith("metagenrl"):
        seeded = f"_seed{seed}" if seed or family == "random_walker" else ""
        folder = f"night/{family}{seeded}"
    else:
        folder = _FOLDERS.get(key, key.replace(":", "-") + "-{seed}").format(seed=seed)
    instead = _PRETRAINED.get(key, "") if seed == 0 else ""
    return Run(folder, config, seed, changes, label, optional, instead)


def test_folder(run: Run, kind: str = "") -> str:
    """Returns the folder of an evaluation of what a run learned; `kind` is one word for what
    differs from another evaluation of the same config.
    """
    return "-".join(filter(None, ("tests/" + run.config.replace(":", "-"), kind)))
