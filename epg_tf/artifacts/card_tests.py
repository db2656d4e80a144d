"""Writes what tests of a learned loss found, for its card, in Markdown."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from epg_tf.baselines.method import LABELS
from epg_tf.core.experiment import Experiment
from epg_tf.core.formatting import markdown_cell

_RIVALS = ("ppo", "ppo_as_epg", "sac", "td3", "reinforce")
_FIXED = ("zero_shot_linear", "zero_shot_policy")
_RETURNS = {
    "in its own task": ("own",),
    "in another agent's task (transfer)": ("transfer",),
    "taught from another agent's experience (yoked)": ("yoked",),
    "half-way, before its task becomes another (switch)": ("switch", "before"),
    "just after": ("switch", "after"),
    "at the end": ("switch",),
}


@dataclasses.dataclass(frozen=True)
class CardTests:
    """What tests of a loss found.

    Attributes:
      equal: `summary.json` of a test in which rivals live as long as the agents of the loss.
      longer: The same of a test in which rivals live longer; None: there is none.
      adaptation: `adaptation.json`; None: it was not measured.
      robustness: `robustness.json`; None: it was not measured.
      seeds: `summary.json` of a test of losses that runs of the same settings and other seeds
        evolved, the loss itself among them; None: there is none.
    """

    equal: Mapping[str, Any]
    longer: Mapping[str, Any] | None = None
    adaptation: Mapping[str, Any] | None = None
    robustness: Mapping[str, Any] | None = None
    seeds: Mapping[str, Any] | None = None


def tests_section(
    name: str,
    tests: CardTests,
    learned: str,
    experiment: Experiment,
    facts: Mapping[str, Any],
) -> str:
    """Returns tables of all tests, with the commands that made them.

    Args:
      name: Of the loss.
      tests: What they found.
      learned: Key of the loss's own row.
      experiment: Settings of the loss.
      facts: Of the loss.

    Raises:
      KeyError, TypeError, AttributeError: A summary is of something else.
    """
    about, lives = tests.equal["about"], tests.equal[learned]["lives"]
    steps = about["updates"] * experiment.inner.update_period
    times = about.get("compare_updates", 1)
    more = "" if times == 1 else f" Rivals learn for {times} times as many env steps."
    sections = [
        f"""{lives} fresh agents, each in a task drawn for this test, {steps} env steps each; mean \
and 95 % interval over lives.{more}
Area under the learning curve (auc): return of the newest episode, averaged over a life.
Match: env steps after which a method first reaches the evolved loss's final mean return.

    epg-tf meta-test --loss={name}{_flags(tests.equal, learned, experiment)} --output_dir=OUT

| | final return | interval | auc | interval | match | failed lives |
|---|---|---|---|---|---|---|
{rows_of_methods(tests.equal)}
"""
    ]
    if tests.longer is not None:
        times = tests.longer["about"]["compare_updates"]
        sections.append(
            f"""Rivals that learn for {times} times as many env steps as the agents of the loss:

    epg-tf meta-test --loss={name}{_flags(tests.longer, learned, experiment)} --output_dir=OUT

| | final return | interval | auc | interval | match | failed lives |
|---|---|---|---|---|---|---|
{rows_of_methods(tests.longer)}
"""
        )
    if tests.seeds is not None:
        sections.append(_seeds(tests.seeds, learned, experiment, facts))
    if tests.adaptation is not None:
        sections.append(_adaptation(name, tests.adaptation, experiment))
    if tests.robustness is not None:
        sections.append(_robustness(name, tests.robustness, experiment))
    return "\n".join(sections)


def _flags(test: Mapping[str, Any], learned: str, experiment: Experiment) -> str:
    """Returns the flags of a test; those of a config that it replaced settings by are not known."""
    about = test["about"]
    rivals = ",".join(rival for rival in _RIVALS if rival in test)
    rivals = rivals or ("none" if "untrained" in test else "alone")
    words = [f"--lives={test[learned]['lives']}", f"--seed={about['seed']}", f"--compare={rivals}"]
    if about.get("compare_updates", 1) > 1:
        words.append(f"--compare_updates={about['compare_updates']}")
    guidance = experiment.evolution.final_guidance
    if about.get("alpha", guidance) != guidance:
        words.append(f"--alpha={about['alpha']:g}")
    words += ["--zero_shot=own"] if any(fixed in test for fixed in _FIXED) else []
    return "".join(f" {word}" for word in [*words, *_lives(about, experiment)])


def _lives(about: Mapping[str, Any], experiment: Experiment) -> list[str]:
    """Returns the flags that say which lives, where they are not the usual ones."""
    updates, reporting = about["updates"], about.get("phase") == "reporting"
    words = [] if updates == experiment.inner.updates else [f"--updates={updates}"]
    return [*words, "--reporting"] if reporting else words


def losses_of(test: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the facts of each loss of a test, by the name that it has there.

    Raises:
      KeyError, TypeError, AttributeError: It is the summary of something else.
    """
    about = test["about"]
    return {about["loss"]: about["loss_facts"], **about.get("other_loss_facts", {})}


def _seeds(
    test: Mapping[str, Any], learned: str, experiment: Experiment, own: Mapping[str, Any]
) -> str:
    """Returns how the losses of other seeds compare."""
    losses, rows = losses_of(test), []
    for name, facts in losses.items():
        this = ", this loss" if facts == own else ""
        rows.append(_return_row(f"seed {facts['seed']}{this}", test[f"{learned} {name}"]))
    rows.append(_return_row("all together", test[learned]))
    rows += [_return_row(LABELS[rival], test[rival]) for rival in _RIVALS if rival in test]
    agents = test[learned]["lives"] // len(losses)
    flags = _flags({**test, learned: {"lives": agents}}, learned, experiment)
    return f"""Losses of the same settings and other seeds, {agents} agents each, in the same \
tasks; the interval of all together is over losses and agents:

    epg-tf meta-test --loss=LOSSES{flags} --output_dir=OUT

| | final return | interval | failed lives |
|---|---|---|---|
{chr(10).join(rows)}
"""


def _return_row(label: str, row: Mapping[str, Any]) -> str:
    return f"| {label} | {_final(row)} | {row['failed_lives']} |"


def _final(row: Mapping[str, Any]) -> str:
    """Returns the cells of the final return and its interval."""
    return f"{_mean({'mean': row['final_return_mean']})} | {_interval(row)}"


def rows_of_methods(test: Mapping[str, Any]) -> str:
    """Returns a row of a table for each method of a test's `summary.json`."""
    return "\n".join(row_of_test(LABELS[key], row) for key, row in test.items() if key in LABELS)


def row_of_test(label: str, row: Mapping[str, Any]) -> str:
    """Returns the row of a method in a table of tests."""
    match = row.get("steps_to_match")
    auc = "not comparable | "  # a curve that explores, beside curves that do not
    if row["final_return_mean"] is None:
        auc = " | "
    elif row["auc_mean"] is not None:
        auc = f"{row['auc_mean']:.2f} | " + "{:.2f} to {:.2f}".format(*row["auc_ci95"])
    return (
        f"| {label} | {_final(row)} | {auc} | "
        f"{'never' if match is None else match} | {row['failed_lives']} |"
    )


def _adaptation(name: str, found: Mapping[str, Any], experiment: Experiment) -> str:
    """Returns what tells a loss that teaches from one that holds a policy."""
    about, lives = found["about"], found["own"]["lives"]
    words = [f"--lives={lives}", f"--seed={about['seed']}", *_lives(about, experiment)]
    rows = []
    for label, path in _RETURNS.items():
        place: Any = found
        for key in path:
            place = place[key]
        rows.append(f"| {label} | {_mean(place)} | {_interval(place)} |")
    switch = found["switch"]
    lost, regained = (
        f"{_mean(switch[key])} [{_interval(switch[key])}]" for key in ("lost", "regained")
    )
    pairs = found["pairs"]
    paired = "each agent is paired with one that has another task."
    if pairs["differing_tasks"] < pairs["all"]:
        paired = (
            f"{pairs['differing_tasks']} of {pairs['all']} pairs of agents have different tasks."
        )
    return f"""Does it teach? Returns of final policies; {paired}

    epg-tf adaptation --loss={name} {" ".join(words)} --output_dir=OUT

| final return | mean | interval |
|---|---|---|
{chr(10).join(rows)}

Lost at the switch {lost}, regained {regained}.
"""


def untested_changes(tests: CardTests) -> list[str]:
    """Returns what no test of a loss changes, in words."""
    changed = set() if tests.robustness is None else {*tests.robustness["changes"]}
    found = ["other frame skips, episode limits and settings of the inner loop"]
    if not changed & {"wide", "deep", "relu"}:
        found.append("other policy networks")
    if "longer" not in changed:
        found.append("longer lives than those above")
    if "shifted" not in changed:
        found.append(f"tasks outside the range `{tests.equal['about']['task']['range']}`")
    return found


def _robustness(name: str, found: Mapping[str, Any], experiment: Experiment) -> str:
    """Returns what the loss is worth where something is not as in evolution."""
    about, changes = found["about"], found["changes"]
    lives = changes["own"]["loss"]["lives"]
    words = [f"--lives={lives}", f"--seed={about['seed']}", *_lives(about, experiment)]
    fixed = [method for method in _FIXED if method in changes["own"]]
    rows = []
    for change in changes.values():
        row, others = change["loss"], [change.get(method) for method in fixed]
        cells = [_mean(row), _interval(row), *map(_mean, others), f"{row['failed_lives']}"]
        rows.append(f"| {markdown_cell(change['label'])} | {' | '.join(cells)} |")
    heads = "".join(f" {LABELS[method]} |" for method in fixed)
    return f"""What is it worth where something is not as in evolution?

    epg-tf robustness --loss={name} {" ".join(words)} --output_dir=OUT

| | final return | interval |{heads} failed lives |
|---|---|---|{"---|" * len(fixed)}---|
{chr(10).join(rows)}
"""


def _mean(row: Mapping[str, Any] | None) -> str:
    """Returns the mean of a row; empty without a row, and words where all lives failed."""
    if row is None:
        return ""
    return "all failed" if row["mean"] is None else f"{row['mean']:.2f}"


def _interval(place: Mapping[str, Any]) -> str:
    if None in place["ci95"]:
        return ""
    return "{:.2f} to {:.2f}".format(*place["ci95"])
