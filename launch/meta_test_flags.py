"""Defines the flags of epg-tf meta-test."""

from __future__ import annotations

from . import config_flag  # first: it silences the frameworks

from absl import flags

from .evaluation_flags import learning_flags, losses_exist

LOSS = flags.DEFINE_string(
    "loss",
    None,
    "Folder of a run or of a learned loss, or the name of a pretrained loss; several, separated by "
    "commas: made with the same settings and different seeds, or, of EPG, with another "
    "config.evolution.moves (EPG, EPG+I, PPO+I).",
)
flags.register_validator(
    "loss", lambda names: losses_exist(*filter(None, (names or "").split(",")))
)
OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder for curves.csv, summary.json and curves.png."
)
flags.adopt_module_key_flags(config_flag)
LIVES = flags.DEFINE_integer(
    "lives",
    None,
    "Lives per method, one unseen task each; 64 by default, 8 agents of MetaGenRL.",
    lower_bound=2,
    upper_bound=10**6,
)
UPDATES = flags.DEFINE_integer(
    "updates",
    None,
    "Updates per life; as in evolution by default.",
    lower_bound=1,
    upper_bound=10**7,
)
COMPARE = flags.DEFINE_list(
    "compare",
    ["ppo"],
    "Which baselines learn on the same tasks: none, ppo, all, or names separated by commas. With "
    "alone, also beside others, agents that never learn and unevolved losses are left out. For "
    "losses of EPG ppo means ppo and ppo_as_epg; names are ppo, ppo_as_epg, sac, td3, reinforce, "
    "and NAME:FOLDER of what was meta-trained, with the name maml or maml10 or rl2 or e_rl2. Of "
    "MetaGenRL names are off_policy_reinforce, ddpg_with_td3, ppo, reinforce, td3, ddpg.",
)
COMPARE_UPDATES = flags.DEFINE_integer(
    "compare_updates",
    1,
    "Baselines learn for so many times the env steps of the others.",
    lower_bound=1,
    upper_bound=10**4,
)
ALPHA = flags.DEFINE_float(
    "alpha",
    None,
    "For losses of EPG: share of PPO in what their agents minimise; by default the share with "
    "which evolution ends (config.evolution.final_guidance).",
    lower_bound=0.0,
    upper_bound=1.0,
)
SEED = flags.DEFINE_integer("seed", 0, "Names the unseen tasks.", lower_bound=0)
REPORTING = flags.DEFINE_bool(
    "reporting",
    False,
    "Test on tasks that are kept for published numbers: use them once, when nothing is left to "
    "choose.",
)
PHYSICS = flags.DEFINE_enum(
    "physics",
    None,
    ["exact", "coarse"],
    "For losses of EPG: physics of the test, whatever those of evolution; exact by default.",
)
OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace results in --output_dir; foreign files in it stay."
)
RESUME = flags.DEFINE_bool(
    "resume",
    False,
    "Go on with the test in --output_dir, or begin it: methods that it has are kept, those that "
    "--compare names besides are added. Losses, fixed and meta-trained policies must be the "
    "same.",
)
FIXED_POLICIES = flags.DEFINE_list(
    "fixed_policies",
    None,
    "For losses of EPG: folders of fixed policies to put into the same tasks, or own: those in the "
    "folder of the loss. By default these, or those of a pretrained loss of the same tasks, unless "
    "--compare has alone; nothing behind the equals sign: none.",
)
SAVE_POLICY = flags.DEFINE_string(
    "save_policy", None, "Folder for the first agent as a TF-Agents policy."
)
LEARNING = learning_flags("For objectives of MetaGenRL", "as in meta-training")
