"""Writes the cards of learned objectives, in Markdown: of a shipped one, and of an export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from epg_tf.artifacts.card_tests import rows_of_tests
from epg_tf.artifacts.cards import facts_table, input_rows, own_card
from epg_tf.artifacts.learned_objective import LearnedObjective
from epg_tf.artifacts.objective_description import describe_objective
from epg_tf.core.formatting import count

USE = "## Use without epg_tf"

_RIVALS = ("off_policy_reinforce", "ppo", "reinforce", "td3", "ddpg")


def shipped_objective_card(name: str, learned: LearnedObjective, test: Mapping[str, Any]) -> str:
    """Returns the card of a shipped objective: what it is, where it came from, how it was tested.

    Args:
      name: Of the objective.
      learned: The objective.
      test: `summary.json` of its test.

    Raises:
      KeyError, TypeError, AttributeError: The summary is of something else.
    """
    about, agents = test["about"], test["objective"]["lives"]
    known = [rival for rival in _RIVALS if rival in test]
    environment = about["environment"]
    seen = environment in about["trained_in"]
    flags = [
        f"--environment={environment}",
        f"--seed={about['seed']}",
        f"--lives={agents}",
        f"--env_steps={about['env_steps']}",
        f"--compare={','.join(known) or 'none'}",
    ]
    return f"""# {name}

{_opening(learned)}

{facts_table(_facts(learned))}

{agents} fresh agents, {about["env_steps"]} env steps each, in {environment}, \
{"one of the environments" if seen else "which is none of the environments"} of meta-training; \
mean and 95 % interval over agents.
Area under the learning curve (auc): mean of the evaluations after each round.
Match: env steps after which a method first reaches the objective's final mean return.

    epg-tf meta-test --loss={name} {" ".join(flags)} --output_dir=OUT

| | final return | interval | auc | interval | match | failed agents |
|---|---|---|---|---|---|---|
{rows_of_tests(test)}

Not tested here: other environments, lengths of life and sizes of networks.
"""


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
    if {"env_steps", "round"} <= left.keys():
        env_steps, rounds = left.pop("env_steps"), left.pop("round")
        known["meta-trained in"] = f"{count(env_steps)} env steps, {rounds} rounds"
    if {"seed", "commit"} <= left.keys():
        known["seed, commit"] = f"{left.pop('seed')}, {left.pop('commit')}"
    if isinstance(left.get("versions"), dict):
        versions = left.pop("versions").items()
        known["packages"] = ", ".join(f"{package} {version}" for package, version in versions)
    known |= {name: json.dumps(value) for name, value in left.items()}
    return {**known, "settings": "`config` in loss.json"}
