"""Figures that no paper has: what this package adds, and what they need."""

from __future__ import annotations

from collections.abc import Sequence

from epg_tf.figures.declaration import Changes, Declaration, RunNeed
from epg_tf.figures.run_analyses import validation_curves
from epg_tf.figures.tables import last_tests_table

_FAMILIES = {  # family -> config, epochs, epochs between tests
    "HiddenGoal": ("hidden_goal:laptop", 40, 10),
    "TurnedMotors": ("turned_motors:laptop", 40, 10),
    "DirectionalHopper": ("directional_hopper:laptop", 40, 5),
    "DirectionalHalfCheetah": ("directional_half_cheetah:laptop", 30, 10),
}
_SEEDS = range(3)
_HALF: Changes = (
    ("steps_per_agent", 16_000),
    ("meta.learning_rate_rounds", 16),
    ("validation.period", 16),  # one test, with more agents
    ("validation.agents", 8),
)
_OBJECTIVES: dict[str, Changes] = {
    "base": (),
    "no time": (("objective.time", False),),
    "no values": (("objective.value_inputs", 0),),
    "no V(s')": (("objective.value_inputs", 1),),
    "3 virtual steps": (("meta.virtual_steps", 3),),
    "5 virtual steps": (("meta.virtual_steps", 5),),
    "virtual steps as long as the gradient": (("meta.unit_virtual_steps", False),),
    "agents' gradients not scaled": (("meta.normalize_agent_gradients", False),),
    "agents never start again": (("life_rounds", 0),),
}
_OBJECTIVE_SEEDS = range(2)


def _start(name: str) -> Changes:
    """Returns the settings of a start; a policy gradient has products and a limit of its steps."""
    gradient = name == "policy_gradient"
    return (
        ("loss.start", name),
        ("loss.products", 8 if gradient else 0),
        ("inner.kl_limit", 0.02 if gradient else 0.0),
    )


def _starts() -> Sequence[RunNeed]:
    needs = []
    for family, (config, epochs, period) in _FAMILIES.items():
        length: Changes = (
            ("evolution.epochs", epochs),
            ("evolution.learning_rate_epochs", 100),
            ("evolution.validation_period", period),
        )
        for name in ("policy_gradient", "correlating", "centred"):
            changes, label = _start(name) + length, f"{family}: {name}"
            needs += [RunNeed(config, s, changes, label, optional=s > 0) for s in _SEEDS]
    return needs


def _objectives() -> Sequence[RunNeed]:
    return [
        RunNeed("metagenrl_small", seed, _HALF + changes, label, optional=label != "base")
        for label, changes in _OBJECTIVES.items()
        for seed in _OBJECTIVE_SEEDS
    ]


OWN = (
    Declaration(
        "own.starts",
        "Losses with three starts, along evolution",
        "Not in the papers",
        "A loss that begins as a policy gradient teaches after fewer epochs than one with another "
        "start, in families that no fixed policy solves.",
        {"laptop": _starts()},
        validation_curves,
        reason="it is declared at the scale laptop alone",
        method="Mean final return of validation agents; mean and standard deviation over the "
        "seeds that are there, a thin line each.",
        claimant="This package",
    ),
    Declaration(
        "own.ablations",
        "Objectives of several environments, each with one thing changed",
        "Not in the papers",
        "The inputs of the objective and the settings of metagenrl_small that the paper does not "
        "have make it a better objective.",
        {"laptop": _objectives()},
        last_tests_table,
        reason="it is declared at the scale laptop alone",
        method="metagenrl_small with half of its rounds. Final returns of the 8 fresh agents of "
        "the test after the last round, after 4 k env steps: mean over seeds, and the seeds in "
        "parentheses. With the same seed, agents are the same in all rows.",
        claimant="This package",
    ),
)
