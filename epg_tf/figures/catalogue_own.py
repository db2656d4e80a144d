"""Figures that no paper has: what this package adds, and what they need."""

from __future__ import annotations

from collections.abc import Sequence

from epg_tf.figures.declaration import Changes, Declaration, RunNeed
from epg_tf.figures.run_analyses import validation_curves

_FAMILIES = {  # family -> config, epochs, whether its config begins as a policy gradient
    "HiddenGoal": ("hidden_goal:laptop", 40, True),
    "TurnedMotors": ("turned_motors:laptop", 40, True),
    "DirectionalHopper": ("directional_hopper:laptop", 40, True),
    "DirectionalHalfCheetah": ("directional_half_cheetah:laptop", 30, False),
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
    for family, (config, epochs, gradient) in _FAMILIES.items():
        for name in ("policy_gradient", "correlating", "centred"):
            of_config = name == ("policy_gradient" if gradient else "correlating")
            changes = () if of_config else _start(name)
            length: Changes = (
                ("evolution.epochs", epochs),
                ("evolution.learning_rate_epochs", 100),
                ("evolution.validation_period", 10),
            )
            needs += [
                RunNeed(config, seed, changes + length, f"{family}: {name}", optional=seed > 0)
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
