"""Figures that no paper has: what this package adds, and what they need."""

from __future__ import annotations

from collections.abc import Sequence

from epg_tf.figures.declaration import Changes, Declaration, RunNeed
from epg_tf.figures.run_analyses import validation_curves

_FAMILIES = {  # family -> config, epochs, epochs between tests
    "HiddenGoal": ("hidden_goal:laptop", 40, 10),
    "TurnedMotors": ("turned_motors:laptop", 40, 10),
    "DirectionalHopper": ("directional_hopper:laptop", 40, 5),
    "DirectionalHalfCheetah": ("directional_half_cheetah:laptop", 30, 10),
}
_SEEDS = range(3)


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
)
