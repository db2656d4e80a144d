"""Writes the cards of learned objectives, in Markdown: of a shipped one, and of an export."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from epg_tf.artifacts.card_tests import losses_of, row_of_test
from epg_tf.artifacts.cards import facts_table, input_rows, own_card
from epg_tf.artifacts.learned_objective import LearnedObjective
from epg_tf.artifacts.objective_description import describe_objective
from epg_tf.baselines.method import LABELS
from epg_tf.core.formatting import count

USE = "## Use without epg_tf"

_RIVALS = {  # and the setting of `baseline` that is its learning rate
    "off_policy_reinforce": "off_policy_learning_rate",
    "ppo": "ppo_learning_rate",
    "reinforce": "reinforce_learning_rate",
    "td3": "td3_learning_rate",
    "ddpg": "ddpg_learning_rate",
}
_REPORTING = "objective_reporting"  # phase of the streams of published numbers
_PLACEHOLDER = "CONFIG is the config of meta-training; these tests change rates of others.\n\n"
_EPISODES = 5  # of an evaluation, unless a test says otherwise


def shipped_objective_card(
    name: str, learned: LearnedObjective, tests: Sequence[Mapping[str, Any]]
) -> str:
    """Returns the card of a shipped objective: what it is, where it came from, how it was tested.

    Args:
      name: Of the objective.
      learned: The objective.
      tests: `summary.json` of its tests, each in an environment; of the objective alone, or of
        objectives of the same settings and other seeds, it among them.

    Raises:
      KeyError, TypeError, AttributeError, ValueError: A summary is of something else, or of
        another version.
    """
    sections = "\n".join(_section(name, learned, test) for test in tests)
    return f"""# {name}

{_opening(learned)}

{facts_table(_facts(learned))}

Fresh agents in each test; mean and 95 % interval over agents.
Area under the learning curve (auc): mean of the evaluations after each round.
Match: env steps after which a method first reaches the final mean return of the objective, or of
all objectives of a test together.

{_PLACEHOLDER if "=CONFIG " in sections else ""}{sections}
Not tested here: other environments, lengths of life and sizes of networks.
"""


def _section(name: str, learned: LearnedObjective, test: Mapping[str, Any]) -> str:
    """Returns what a test in an environment found, with its command."""
    about, objectives = test["about"], losses_of(test)
    environment = about["environment"]
    exactly = f"{environment}@{about['episode_limit']}"
    seen = not {environment, exactly}.isdisjoint(about["trained_in"])
    agents = test["objective"]["lives"] // len(objectives)
    settings = about["config"]["baseline"]
    rates = [f"{LABELS[key]} {settings[_RIVALS[key]]:g}" for key in _RIVALS if key in test]
    times = about.get("compare_updates", 1)
    longer = "" if times == 1 else f"; they learn for {times} times as many env steps"
    together = ""
    if len(objectives) > 1:
        together = (
            "\nObjectives of the same settings and other seeds learn in it as well. All together: "
            "the interval of\nthe return is over objectives and agents, that of auc over "
            "objectives. OBJECTIVES are their folders.\n"
        )
    return f"""{agents} fresh agents, {about["env_steps"]} env steps each, in {environment}, \
{"one of the environments" if seen else "which is none of the environments"} of meta-training.
Learning rates of the others: {", ".join(rates) or "there are none"}{longer}.
{together}
    epg-tf meta-test --loss={name if len(objectives) == 1 else "OBJECTIVES"} \
{_flags(test, agents)} --output_dir=OUT

| | final return | interval | auc | interval | match | failed agents |
|---|---|---|---|---|---|---|
{chr(10).join(_rows(test, learned))}
"""


def _rows(test: Mapping[str, Any], learned: LearnedObjective) -> list[str]:
    """Returns a row for each method; with several objectives, each of them comes first."""
    objectives = losses_of(test)
    own: list[str] = []
    others: list[str] = []
    labels = {key: LABELS[key] for key in test if key in LABELS}
    if len(objectives) > 1:
        labels["objective"] = "all together"
        for name, facts in objectives.items():
            this = facts == learned.facts
            label = f"seed {facts['seed']}{', this objective' * this}"
            (own if this else others).append(row_of_test(label, test[f"objective {name}"]))
    return [*own, *others, *(row_of_test(label, test[key]) for key, label in labels.items())]


def _flags(test: Mapping[str, Any], agents: int) -> str:
    """Returns the flags of a test; rates of rivals where they are not those of meta-training."""
    about = test["about"]
    known = [rival for rival in _RIVALS if rival in test]
    words = [
        f"--environment={about['environment']}@{about['episode_limit']}",
        f"--seed={about['seed']}",
        f"--lives={agents}",
        f"--env_steps={about['env_steps']}",
        *([] if about["episodes"] == _EPISODES else [f"--episodes={about['episodes']}"]),
        f"--compare={','.join(known) or 'none'}",
    ]
    times = about.get("compare_updates", 1)
    words += [f"--compare_updates={times}"] if times > 1 else []
    words += ["--reporting"] if about.get("phase") == _REPORTING else []
    changed = {name: now for name, (_, now) in about.get("replaced", {}).items()}
    words += ["--config=CONFIG"] if changed else []
    return " ".join([*words, *(f"--{name}={now}" for name, now in changed.items())])


def exported_objective_card(learned: LearnedObjective) -> str:
    """Returns the card of an export: what is known of the objective, and how to use the SavedModel.

    An objective that has a card beside it keeps it.

    Raises:
      RecordError: Its own card cannot be read.
    """
    described = describe_objective(learned)
    made = f"# An objective\n\n{_opening(learned)}\n\n{facts_table(_facts(learned))}"
    head = own_card(learned.folder, USE) or made
    agent = described["agent"]
    return f"""{head}

{USE}

    loaded = tf.saved_model.load(FOLDER)
    description = json.loads(loaded.describe()["json"].numpy())
    objective = loaded.objective({{name: tensor, ...}})["objective"]  # [P], in a tf.GradientTape

Signatures: `objective` (-> `objective` [P], and `per_step` [P, B, T]), `gradients` (the same inputs
-> gradients of each agent's objective with respect to `predicted_action`), `describe` (-> `json`).
P agents, B chunks and A action dimensions are free; chunks hold {described["chunk"]} steps, shorter
ones are padded. A policy minimises its objective: {described["reduction"]}.

| input | shape | meaning |
|---|---|---|
{input_rows(described["inputs"])}

- Normalisation: {described["normalisation"]}.
- Rewards: {agent["reward_rule"]}. Discount {agent["discount"]:g}.
- Agents in meta-training: hidden layers {agent["hidden"]}; {agent["layers"]}; batches of
  {agent["batch"]} chunks.
- {agent["rule"]}.
- {agent["optimizer"]}, policy at {agent["learning_rate"]:g}, critics at
  {agent["critic_learning_rate"]:g}; {agent["gradient_rule"]}.
"""


def _opening(learned: LearnedObjective) -> str:
    """Returns what an objective is, in two sentences."""
    places = learned.experiment.environments
    where = (
        f"in one environment alone, {places[0]}" if len(places) == 1 else f"in {', '.join(places)}"
    )
    return (
        f"An objective of MetaGenRL with {learned.parameters.size:,} parameters, which policies "
        f"with any number of action dimensions minimise. It was meta-trained {where}."
    )


def _facts(learned: LearnedObjective) -> dict[str, str]:
    experiment, facts = learned.experiment, learned.facts
    agent = experiment.agent
    known = {
        "agents of meta-training": f"{experiment.agents}, hidden layers {list(agent.hidden)}, "
        f"discount {agent.discount:g}",
        "chunks": f"{agent.batch} of {agent.chunk} steps in a batch",
    }
    left = dict(facts)
    if all(type(left.get(name)) is int for name in ("env_steps", "round")):
        env_steps, rounds = left.pop("env_steps"), left.pop("round")
        known["meta-trained in"] = f"{count(env_steps)} env steps, {rounds} rounds"
    if {"seed", "commit"} <= left.keys():
        known["seed, commit"] = f"{left.pop('seed')}, {left.pop('commit')}"
    if isinstance(left.get("versions"), dict):
        versions = left.pop("versions").items()
        known["packages"] = ", ".join(f"{package} {version}" for package, version in versions)
    known |= {name: json.dumps(value) for name, value in left.items()}
    return {**known, "settings": "`config` in loss.json"}
