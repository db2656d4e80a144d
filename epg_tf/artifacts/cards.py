"""Writes cards, in Markdown: what was learned, where it is from, how it did, how to use it.

The first lines of a pretrained one's are metadata in YAML, as hubs of models read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from epg_tf.artifacts.artifact import Artifact
from epg_tf.artifacts.description import describe
from epg_tf.baselines.method import LABELS, learned_name
from epg_tf.core import files
from epg_tf.core.formatting import count, duration, markdown_cell
from epg_tf.epg.settings import Experiment
from epg_tf.losses.extra_channels import sees_reward
from epg_tf.metagenrl.settings import MetaGenRLExperiment

CARD_FILE = "README.md"  # the name that hubs of models show

_USE = "## Use without epg_tf"
_COMPARED = (
    "off_policy_reinforce",
    "ddpg_with_td3",
    "ppo",
    "ppo_as_epg",
    "sac",
    "td3",
    "reinforce",
    "ddpg",
)
_FIXED = ("zero_shot_linear", "zero_shot_policy")
_EPISODES = 5  # of an evaluation of MetaGenRL, unless a test says otherwise
_RETURNS = {
    "in its own task": ("own",),
    "in another agent's task (transfer)": ("transfer",),
    "taught from another agent's experience (yoked)": ("yoked",),
    "half-way, before its task becomes another (switch)": ("switch", "before"),
    "just after": ("switch", "after"),
    "at the end": ("switch",),
    "lost at the switch": ("switch", "lost"),
    "regained": ("switch", "regained"),
}


def pretrained_card(
    name: str,
    learned: Artifact[Any],
    tests: Sequence[Mapping[str, Any]],
    studies: Mapping[str, Mapping[str, Any]],
    run: Mapping[str, Any] | None = None,
) -> str:
    """Returns the card of a pretrained artifact: what it is, where it came from, how it did.

    Args:
      name: Of the artifact.
      learned: The artifact.
      tests: `summary.json` of each evaluation, of it alone or with those of other seeds.
      studies: "adaptation" and "robustness", as far as they were measured, -> NAME.json.
      run: `summary.json` of its run, which knows the costs of the whole run.

    Raises:
      KeyError, TypeError, AttributeError, ValueError: A summary is of something else.
    """
    sections = [_evaluation(name, learned, test) for test in tests]
    if "adaptation" in studies:
        sections.append(_adaptation(name, learned, studies["adaptation"]))
    if "robustness" in studies:
        sections.append(_robustness(name, learned, studies["robustness"]))
    run = {} if run is None else {key: run[key] for key in ("epochs", "env_steps", "seconds")}
    return f"""{_metadata(name, learned, tests)}
# {name}

{_opening(learned)}

{_table(("", ""), _facts(learned, run))}

Mean and 95 % interval over fresh agents, and over losses where there are several. Area under the
learning curve (auc): mean return over a life. Match: env steps after which a method first reaches
the final mean return of what was learned. LOSSES are folders of those of other seeds, CONFIG is the
config of meta-training.

{chr(10).join(sections)}"""


def _metadata(name: str, learned: Artifact[Any], tests: Sequence[Mapping[str, Any]]) -> str:
    """Returns what hubs read: lines of YAML, whose values are JSON, which is YAML too."""
    key, results = _key(learned), []
    for test in tests:
        about, losses = test["about"], losses_of(test)
        mine = next(each for each, facts in losses.items() if facts == learned.facts)
        row = test[key if len(losses) == 1 else f"{key} {mine}"]
        if row["final_return_mean"] is None:
            continue
        place = about["environment"] if "environment" in about else about["task"]["family"]
        told = f"final return of {row['lives']} fresh agents after {row['env_steps']} env steps"
        value = {"type": "mean_reward", "name": told, "value": round(row["final_return_mean"], 2)}
        task = {"type": "reinforcement-learning", "name": "reinforcement learning"}
        dataset = {"type": place, "name": place}
        results.append({"task": task, "dataset": dataset, "metrics": [value]})
    kind = "metagenrl" if key == "objective" else "evolved-policy-gradients"
    lines = {
        "license": "apache-2.0",
        "library_name": "epg_tf",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["reinforcement-learning", "meta-learning", "learned-loss", kind, "tensorflow"],
        "model-index": [{"name": name, "results": results}],
    }
    yaml = "\n".join(f"{field}: {json.dumps(value)}" for field, value in lines.items())
    return f"---\n{yaml}\n---\n"


def _key(learned: Artifact[Any]) -> str:
    """Returns the method of an artifact in a summary."""
    experiment = learned.experiment
    return learned_name(experiment) if isinstance(experiment, Experiment) else "objective"


def exported_card(learned: Artifact[Any]) -> str:
    """Returns the card of an export: what is known of it, and how to use the SavedModel.

    A card beside the artifact is kept, up to how it is used.

    Raises:
      RecordError: That card cannot be read.
      ConfigError: Its family is unknown; a user's own must be registered first.
    """
    described, folder = describe(learned), learned.folder
    kind = described["kind"].removeprefix("exported_")
    head = f"# {kind}\n\n{_opening(learned)}\n\n{_table(('', ''), _facts(learned, {}))}"
    if folder is not None and (folder / CARD_FILE).is_file():
        head = files.read_text(folder / CARD_FILE, "the loss's card").split(_USE)[0].rstrip()
    inputs = [
        (f"`{name}`", f"[{', '.join(map(str, spec['shape']))}] {spec['type']}", spec["meaning"])
        for name, spec in described["inputs"].items()
    ]
    functions, given = [("`describe()`", "this description, as `json`")], ""
    if inputs:
        given = f"{_table(('input', 'shape', 'meaning'), inputs)}\n\n"
        score = "objective" if isinstance(learned.experiment, MetaGenRLExperiment) else "loss"
        functions += [
            (f"`{score}(inputs)`", f"`{score}` [P], which agents minimise, and `per_step`"),
            ("`gradients(inputs)`", "of each agent's with respect to what its policy does now"),
        ]
    if described.get("initial_policy"):
        functions.append(("`initial_policy()`", "the weights that agents start from, by name"))
    return f"""{head}

{_USE}

`learner.py` beside this card trains Keras policies with it; its first lines show a program. Or call
what the SavedModel holds:

    loaded = tf.saved_model.load(FOLDER)

{_table(("function", "returns"), functions)}

Sizes that are letters are free. Functions are differentiable; `loaded.signatures` has them, too.

{given}{_table(("description", ""), _flat(described))}
"""


def _flat(described: Mapping[str, Any], path: str = "") -> Iterable[tuple[str, str]]:
    """Yields name and value of each entry of a description but inputs and origin."""
    for name, value in described.items():
        if isinstance(value, Mapping):
            if name not in ("inputs", "facts", "parameter_shapes"):
                yield from _flat(value, f"{path}{name}.")
        elif value is not None and name != "channels":
            yield f"`{path}{name}`", value if isinstance(value, str) else json.dumps(value)


def _opening(learned: Artifact[Any]) -> str:
    """Returns what was learned, in a sentence."""
    experiment, described = learned.experiment, describe(learned)
    if isinstance(experiment, MetaGenRLExperiment):
        return (
            f"An objective of MetaGenRL with {learned.phi.size:,} parameters, which policies with "
            "any number of action dimensions minimise, meta-trained in "
            f"{', '.join(experiment.environments)}."
        )
    start, family = described["initial_policy"], described["family"]
    size = 0 if start is None else start["parameters"]
    policy = f"a policy of {size:,} parameters, from which agents in {family} start"
    if not described["inputs"]:
        return f"A{policy[1:]}."
    seen = "with the reward among its inputs" if sees_reward(experiment.loss) else ""
    loss = f"A loss of {learned.phi.size - size:,} parameters that trains agents in {family} "
    return loss + (seen or "and never sees a reward") + f", and {policy}" * (size > 0) + "."


def _facts(learned: Artifact[Any], run: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yields where an artifact came from; what has another form stays as it is."""
    experiment, left = learned.experiment, {**learned.facts, **run}
    if isinstance(experiment, Experiment):
        inner, task = experiment.inner, experiment.task
        yield "a life", f"{inner.updates} updates of {inner.update_period} env steps"
        yield "an episode", f"at most {task.episode_limit} env steps"
        yield "physics of meta-training", task.physics
    if type(left.get("env_steps")) is int:
        yield "env steps of meta-training", count(left.pop("env_steps"))
    if "seconds" in left:
        yield "time", duration(left.pop("seconds"))
    if isinstance(left.get("versions"), dict):
        versions = left.pop("versions").items()
        yield "packages", ", ".join(f"{package} {version}" for package, version in versions)
    if {"seed", "commit"} <= left.keys():
        yield "seed, commit", f"{left.pop('seed')}, {left.pop('commit')}"
    yield from ((name, json.dumps(value)) for name, value in left.items())
    yield "settings", "`config` in loss.json"


def losses_of(test: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the facts of each loss of a test, by the name that it has there.

    Raises:
      KeyError, TypeError, AttributeError: It is the summary of something else.
    """
    about = test["about"]
    return {about["loss"]: about["loss_facts"], **about.get("other_loss_facts", {})}


def _evaluation(name: str, learned: Artifact[Any], test: Mapping[str, Any]) -> str:
    """Returns what an evaluation found; with several losses, each of them comes first."""
    about, losses = test["about"], losses_of(test)
    experiment, key = learned.experiment, _key(learned)
    labels = {each: LABELS[each] for each in test if each in LABELS}
    rows = []
    if len(losses) > 1:
        labels[key] = "all together"
        for each, facts in losses.items():
            this = ", this one" if facts == learned.facts else ""
            rows.append((f"seed {facts['seed']}{this}", *_cells(test[f"{key} {each}"])))
    rows += [(label, *_cells(test[each])) for each, label in labels.items()]
    agents, where = test[key]["lives"] // len(losses), "its own tasks"
    if "environment" in about:
        place = about["environment"]
        seen = {place, f"{place}@{about['episode_limit']}"} & {*about["trained_in"]}
        where, steps = f"{place}, {'' if seen else 'not '}of meta-training", about["env_steps"]
    else:
        steps = about["updates"] * experiment.inner.update_period
    times = about.get("compare_updates", 1)
    longer = "" if times == 1 else f"; other methods learn for {times} times as many"
    words = [f"--lives={agents}", f"--seed={about['seed']}", *_flags(learned, test)]
    heads = ("", "final return", "interval", "auc", "interval", "match", "failed agents")
    several = name if len(losses) == 1 else "LOSSES"
    text = f"{agents} agents, {steps} env steps each, in {where}{longer}:"
    return _section(text, f"meta-test --loss={several}", words, heads, rows)


def _flags(learned: Artifact[Any], test: Mapping[str, Any]) -> list[str]:
    """Returns the flags of an evaluation; a config that settings are from is not known."""
    about = test["about"]
    compared = ",".join(each for each in _COMPARED if each in test)
    untrained = "none" if "untrained" in test or "environment" in about else "alone"
    words = [f"--compare={compared or untrained}"]
    if about.get("compare_updates", 1) > 1:
        words.append(f"--compare_updates={about['compare_updates']}")
    if "environment" in about:
        words.insert(0, f"--environment={about['environment']}@{about['episode_limit']}")
        words.append(f"--env_steps={about['env_steps']}")
        words += [f"--episodes={about['episodes']}"] * (about["episodes"] != _EPISODES)
    else:
        guidance = learned.experiment.evolution.final_guidance
        alpha = about.get("alpha", guidance)
        words += [f"--alpha={alpha:g}"] * (alpha != guidance)
        words += ["--fixed_policies=own"] * any(fixed in test for fixed in _FIXED)
    words += _lives(learned, about)
    changed = {name: now for name, (_, now) in about.get("replaced", {}).items()}
    changed = changed if "environment" in about else {}
    return words + ["--config=CONFIG"] * bool(changed) + [f"--{k}={v}" for k, v in changed.items()]


def _lives(learned: Artifact[Any], about: Mapping[str, Any]) -> list[str]:
    """Returns the flags that say which lives, where they are not the usual ones."""
    words = ["--reporting"] if about.get("phase") in ("reporting", "objective_reporting") else []
    if "environment" in about or about["updates"] == learned.experiment.inner.updates:
        return words
    return [f"--updates={about['updates']}", *words]


def _adaptation(name: str, learned: Artifact[Any], found: Mapping[str, Any]) -> str:
    """Returns what tells a loss that teaches from one that holds a policy."""
    about, pairs, rows = found["about"], found["pairs"], []
    for label, path in _RETURNS.items():
        place: Any = found
        for key in path:
            place = place[key]
        rows.append((label, _mean(place), _interval(place)))
    words = [f"--lives={found['own']['lives']}", f"--seed={about['seed']}", *_lives(learned, about)]
    text = (
        "Does it teach? Returns of final policies; "
        f"{pairs['differing_tasks']} of {pairs['all']} pairs of agents have different tasks:"
    )
    heads = ("final return", "mean", "interval")
    return _section(text, f"study --measure=adaptation --loss={name}", words, heads, rows)


def _robustness(name: str, learned: Artifact[Any], found: Mapping[str, Any]) -> str:
    """Returns what a loss is worth where something is not as in evolution."""
    about, changes, rows = found["about"], found["changes"], []
    fixed = [method for method in _FIXED if method in changes["own"]]
    for change in changes.values():
        row = change["loss"]
        others = (_mean(change.get(method)) for method in fixed)
        rows.append(
            (change["label"], _mean(row), _interval(row), *others, str(row["failed_lives"]))
        )
    lives = changes["own"]["loss"]["lives"]
    words = [f"--lives={lives}", f"--seed={about['seed']}", *_lives(learned, about)]
    heads = ("", "final return", "interval", *(LABELS[each] for each in fixed), "failed agents")
    text = "Where something is not as in evolution:"
    return _section(text, f"study --measure=robustness --loss={name}", words, heads, rows)


def _section(
    text: str,
    command: str,
    words: Sequence[str],
    heads: Sequence[str],
    rows: Sequence[tuple[str, ...]],
) -> str:
    """Returns a table of numbers and the command that repeats them."""
    line = " ".join(["    epg-tf", command, *words, "--output_dir=OUT"])
    return f"{text}\n\n{line}\n\n{_table(heads, rows)}\n"


def _table(heads: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ["---"] * len(heads), *(map(markdown_cell, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the cells of a method in a table of tests."""
    match = row.get("steps_to_match")
    auc = ("not comparable", "")  # a curve that explores, beside curves that do not
    if row["final_return_mean"] is None or row["auc_mean"] is not None:
        auc = _mean({"mean": row["auc_mean"]}, ""), _interval({"ci95": row["auc_ci95"]})
    final = _mean({"mean": row["final_return_mean"]}), _interval(row)
    return (*final, *auc, "never" if match is None else str(match), str(row["failed_lives"]))


def _mean(row: Mapping[str, Any] | None, failed: str = "all failed") -> str:
    """Returns the mean of a row; empty without a row, and words where all lives failed."""
    if row is None:
        return ""
    return failed if row["mean"] is None else f"{row['mean']:.2f}"


def _interval(place: Mapping[str, Any]) -> str:
    low_high = place["ci95"]
    return "" if None in low_high else "{:.2f} to {:.2f}".format(*low_high)
