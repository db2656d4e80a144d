"""Writes the cards of learned losses, in Markdown: of a shipped loss, and of an exported one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epg_tf.artifacts.card_tests import CardTests, tests_section, untested_changes
from epg_tf.artifacts.description import describe
from epg_tf.artifacts.learned_loss import LearnedLoss
from epg_tf.baselines.method import learned_name
from epg_tf.core import files
from epg_tf.core.formatting import count, duration, markdown_cell
from epg_tf.core.loss_settings import LossConfig
from epg_tf.losses.extra_channels import sees_reward
from epg_tf.tasks.gymnasium_family import GymnasiumFamily
from epg_tf.tasks.registry import make_family

CARD_FILE = "card.md"

_USE = "## Use without epg_tf"
_START = " Agents start from the\nweights that `initial_policy` returns by name."
_SHARED = ("seed", "commit", "versions")  # facts of a run that its losses state too


def shipped_card(name: str, loss: LearnedLoss, run: Mapping[str, Any], tests: CardTests) -> str:
    """Returns the card of a shipped loss: what it is, where it came from, how it was tested.

    Args:
      name: Of the loss.
      loss: The loss.
      run: `summary.json` of its run.
      tests: What its tests found.

    Raises:
      KeyError, TypeError, AttributeError: A summary is of something else.
    """
    described, experiment = describe(loss), loss.experiment
    untested = ["bodies other than " + described["family"] + "'s", *untested_changes(tests)]
    return f"""# {name}

{_opening(experiment.loss, described)}

{facts_table(_life_facts(loss, described) | _run_facts(run))}

{tests_section(name, tests, learned_name(experiment), experiment, loss.facts)}
Not tested: {"; ".join(untested)}.
"""


def _opening(loss: LossConfig, described: Mapping[str, Any]) -> str:
    """Returns what a loss is, in a sentence."""
    seen = "with the reward among its inputs" if sees_reward(loss) else "and never sees a reward"
    start, family = described["initial_policy"], described["family"]
    if start is None:
        what = f"A loss of {described['parameters']:,} parameters that trains fresh agents"
        return f"{what} in {family} {seen}."
    if not described["channels"]:
        return (
            f"A policy of {start['parameters']:,} parameters, from which agents in {family} start."
        )
    parameters = described["parameters"] - start["parameters"]
    return (
        f"A loss of {parameters:,} parameters that trains agents in {family} {seen}, and a policy "
        f"of {start['parameters']:,} from which they start."
    )


def _life_facts(loss: LearnedLoss, described: Mapping[str, Any]) -> dict[str, str]:
    """Returns where and how long agents live, by what the facts are of."""
    inner, task = loss.experiment.inner, loss.experiment.task
    own = isinstance(make_family(task), GymnasiumFamily)
    steps = "the environment's own" if own else f"{task.frame_skip} physics steps"
    if task.physics == "coarse":
        steps += " (evolved in coarse physics, tested in exact)"
    return {
        "observations, actions": f"{described['observation_size']}, {described['action_size']}",
        "a life": f"{inner.updates} updates of {inner.update_period} env steps, Adam at "
        f"{inner.learning_rate:g}",
        "an env step, an episode": f"{steps}, at most {task.episode_limit} env steps",
    }


def _run_facts(run: Mapping[str, Any]) -> dict[str, str]:
    """Returns how a loss was evolved; `run` is the run's summary.json.

    Raises:
      KeyError, TypeError, ValueError, AttributeError: It is something else.
    """
    versions = run["versions"].items()
    begun = {}
    if "begun_with" in run:
        scale = run["begun_with"].get("scale")
        times = "" if scale is None else f", mean actions times {scale:g}"
        begun = {"begun with": run["begun_with"]["loss"] + times}
    return {
        "evolved in": f"{count(run['env_steps'])} env steps, {run['epochs']} epochs, "
        f"{duration(run['seconds'])}",
        **begun,
        "seed, commit": f"{run['seed']}, {run['commit']}",
        "packages": ", ".join(f"{package} {version}" for package, version in versions),
        "settings": "`config` in loss.json",
    }


def facts_table(facts: Mapping[str, str]) -> str:
    """Returns a table of facts by what they are of."""
    rows = (f"| {markdown_cell(key)} | {markdown_cell(text)} |" for key, text in facts.items())
    return "\n".join(["| | |", "|---|---|", *rows])


def exported_card(learned: LearnedLoss) -> str:
    """Returns the card of an export: what is known of the loss, and how to use the SavedModel.

    A loss that has a card beside it keeps it. For others the card is made from their facts and,
    where they lie in the folder of a finished run, from its summary.

    Raises:
      RecordError: Its own card, or the run's summary, cannot be read.
      ConfigError: Its family is unknown; a user's own must be registered first.
    """
    described = describe(learned)
    head = own_card(learned.folder, _USE) or _made_card(learned, described)
    use = _use_of_loss if described["channels"] else _use_of_start
    return f"{head}\n\n{_USE}\n\n{use(described)}"


def _use_of_loss(described: Mapping[str, Any]) -> str:
    """Returns how the SavedModel of a loss is used."""
    rule, agent, memory = (described[name] for name in ("normalisation", "agent", "memory"))
    limit = f"; {agent['kl_rule']}" if agent["kl_limit"] else ""
    by_state = ", then a second output of the network" if agent["state_dependent_std"] else ""
    remembered = (
        f"{memory['rule']}; {memory['inputs']} inputs, {memory['units']} units"
        if memory
        else "none"
    )
    start = "" if described["initial_policy"] is None else _START
    return f"""    loaded = tf.saved_model.load(FOLDER)
    description = json.loads(loaded.describe()["json"].numpy())
    losses = loaded.loss({{name: tensor, ...}})["loss"]  # [P], inside a tf.GradientTape

Signatures: `loss` (-> `loss` [P], the {described["reduction"]} of each agent's minibatch, and
`per_step` [P, B]), `gradients` (the same inputs -> gradients of each agent's loss with respect to
its policy's outputs and its memory), `describe` (-> `json`). P agents and minibatches of B steps
are free; buffers hold {described["buffer_steps"]} steps, oldest first.{start}

| input | shape | meaning |
|---|---|---|
{input_rows(described["inputs"])}

- Normalisation of {", ".join(rule["channels"])}: {rule["rule"]}; floor {rule["floor"]}.
- Memory: {remembered}.
- Inputs of policies: {agent["inputs"]}.
- Agents in evolution: {_network(agent)}, columns of norm 1, of the last kernel
  {agent["last_kernel_norm"]:g}; log_std {agent["log_std"]:g} at first{by_state}.
- {agent["updates"]} updates in a life, M = {described["update_period"]}, minibatch
  {described["minibatch"]}; {agent["rule"]}.
- {agent["optimizer"]}, at {agent["learning_rate"]:g}{limit}.
"""


def _use_of_start(described: Mapping[str, Any]) -> str:
    """Returns how the SavedModel of an initial policy alone is used."""
    agent, rule, surrogate = (described[name] for name in ("agent", "normalisation", "surrogate"))
    shapes = described["initial_policy"]["shapes"].items()
    rows = "\n".join(f"| `{name}` | {shape} |" for name, shape in shapes)
    learning = "It is used as it is: agents do not learn in their lives"
    if agent["updates"] and agent["learning_rate"]:
        learning = f"""Agents learn by {surrogate["kind"]}, whose settings are `surrogate` in the
  description, and see the rewards: {agent["updates"]} updates in a life, M =
  {described["update_period"]}, minibatch {described["minibatch"]}; {agent["rule"]};
  {agent["optimizer"]}, at {agent["learning_rate"]:g}. The value network starts afresh in each life.
  Rewards are as received, advantages standardised; actions are those that were sampled, before any
  clipping to bounds"""
    return f"""    loaded = tf.saved_model.load(FOLDER)
    description = json.loads(loaded.describe()["json"].numpy())
    weights = loaded.initial_policy()  # by name

Signatures: `initial_policy` (-> the weights), `describe` (-> `json`).

| weights | shape |
|---|---|
{rows}

- Inputs: {agent["inputs"]}.
- {_network(agent).capitalize()}, then {_outputs(described)}.
- Normalisation of observations: {rule["rule"]}; floor {rule["floor"]}.
- {learning}.
"""


def _outputs(described: Mapping[str, Any]) -> str:
    """Returns what the last layer of a policy gives."""
    if described["discrete_actions"]:
        return "a logit for each action"
    if described["agent"]["state_dependent_std"]:
        return "means and log standard deviations of Gaussians"
    return "means of Gaussians, whose log standard deviations are weights, too"


def _network(agent: Mapping[str, Any]) -> str:
    return f"hidden layers {agent['hidden']} of {agent['activation']}"


def input_rows(inputs: Mapping[str, Any]) -> str:
    """Returns rows of a table of inputs, as descriptions hold them."""
    return "\n".join(
        f"| `{name}` | {_shape(spec['shape'])} {spec['type']} | {spec['meaning']} |"
        for name, spec in inputs.items()
    )


def own_card(folder: Path | None, use: str) -> str:
    """Returns the card beside a loss, up to the heading `use`; empty if there is none.

    Raises:
      RecordError: It cannot be read.
    """
    if folder is None or not (folder / CARD_FILE).is_file():
        return ""
    text = files.read_text(folder / CARD_FILE, "the loss's card")
    return text.split(use)[0].rstrip()


def _made_card(learned: LearnedLoss, described: Mapping[str, Any]) -> str:
    """Returns a card made from a loss and its run, without how it is used."""
    run = _facts_of_run(learned)
    stated = {
        name: json.dumps(value)
        for name, value in described["facts"].items()
        if not run or name not in (*_SHARED, "begun_with")
    }
    opening = _opening(learned.experiment.loss, described)
    what = "A loss" if described["channels"] else "An initial policy"
    return f"""# {what} for {described["family"]}

{opening} Evolved, but not shipped; epg-tf meta-test measures how well it trains agents.

{facts_table(_life_facts(learned, described) | run | stated)}"""


def _facts_of_run(learned: LearnedLoss) -> dict[str, str]:
    """Returns `_run_facts` of the run in whose folder a loss lies.

    They are empty where there is no such run, it is not finished, or it evolved another loss.
    """
    if learned.folder is None:
        return {}
    run_dir = learned.folder.resolve().parent
    if not all((run_dir / name).is_file() for name in ("config.json", "summary.json")):
        return {}
    run = files.read_json(run_dir / "summary.json", "the run's summary")
    try:
        same = all(run[name] == learned.facts[name] for name in _SHARED)
        return _run_facts(run) if same else {}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}  # it is the summary of something else


def _shape(letters: Sequence[str | int]) -> str:
    return f"[{', '.join(map(str, letters))}]"
