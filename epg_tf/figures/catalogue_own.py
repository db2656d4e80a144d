"""Figures that no paper has: what this package adds, and what they need."""

from __future__ import annotations

from collections.abc import Sequence

from epg_tf.figures.declaration import Changes, Declaration, RunNeed
from epg_tf.figures.run_analyses import validation_curves

_FAMILIES = {  # family -> config, epochs, epochs between tests, its config's start
    "HiddenGoal": ("hidden_goal:laptop", 40, 10, "policy_gradient"),
    "TurnedMotors": ("turned_motors:laptop", 40, 10, "policy_gradient"),
    "DirectionalHopper": ("directional_hopper:laptop", 20, 5, "policy_gradient"),
    "DirectionalHalfCheetah": ("directional_half_cheetah:laptop", 30, 10, "correlating"),
}
_SEEDS = range(3)


def _start(name: str) -> Changes:
    """Returns the settings of a start, of limited steps and products where it has them."""
    gradient = name == "policy_gradient"
    return (
        ("loss.start", name),
        ("loss.products", 8 if gradient else 0),
        ("inner.kl_limit", 0.02 if gradient else 0.0),
    )


def _starts() -> Sequence[RunNeed]:
    needs = []
    for family, (config, epochs, period, usual) in _FAMILIES.items():
        length: Changes = (
            ("evolution.epochs", epochs),
            ("evolution.learning_rate_epochs", 100),
            ("evolution.validation_period", period),
        )
        for name in ("policy_gradient", "correlating", "centred"):
            changes = length if name == usual else _start(name) + length
            needs += [
                RunNeed(config, seed, changes, f"{family}: {name}", optional=seed > 0)
                for seed in _SEEDS
            ]
    return needs


OWN = (
    Declaration(
        "own.starts",
        "Losses with three starts, along evolution",
        "not in the papers",
        "A loss that begins as a policy gradient teaches from the first epochs on; others have to "
        "find out how to.",
        {"laptop": _starts()},
        validation_curves,
        reason="it is declared at the scale laptop alone",
        method="Mean final return of validation agents; mean and standard deviation over the "
        "seeds that are there, a thin line each.",
    ),
)
