"""Defines what evolution moves: a flat vector, and where it starts.

With `evolution.moves` "loss" the vector is phi, the parameters of a loss. With "initialisation" it
is theta_0, the weights of the policy that all lives start from; with "both" it is phi, then theta_0
(EPG, section 4.2: EPG+I and PPO+I). Other modules call the vector phi, whatever it holds.
"""

from __future__ import annotations

import numpy as np

from epg_tf.agents.policies import fresh_weights, policy_shapes
from epg_tf.core.errors import ConfigError
from epg_tf.core.parameters import parameter_count, split
from epg_tf.core.random_streams import loss_generator, start_generator
from epg_tf.core.types import Array
from epg_tf.epg.settings import Experiment
from epg_tf.losses.channels import Channel, declared_channels
from epg_tf.losses.initial_parameters import initial_parameters
from epg_tf.losses.parameter_shapes import parameter_shapes
from epg_tf.tasks.registry import make_family

_START = "initial_policy/"  # before the names of theta_0's arrays


def evolves_loss(experiment: Experiment) -> bool:
    """Returns whether the vector holds the parameters of a loss."""
    return experiment.evolution.moves != "initialisation"


def evolves_policy(experiment: Experiment) -> bool:
    """Returns whether the vector holds an initial policy."""
    return experiment.evolution.moves != "loss"


def loss_channels(experiment: Experiment) -> tuple[Channel, ...]:
    """Returns the inputs that the loss of an experiment declares."""
    spec, deviations = make_family(experiment.task).spec, experiment.policy.state_dependent_std
    return declared_channels(spec, experiment.loss, deviations)


def loss_shapes(experiment: Experiment) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of the arrays of a loss, in the order of the flat vector."""
    return parameter_shapes(loss_channels(experiment), experiment.loss)


def start_shapes(experiment: Experiment) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of the weights of a policy, in the order of the flat vector."""
    return policy_shapes(make_family(experiment.task).spec, experiment.policy)


def vector_shapes(experiment: Experiment) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of the arrays that the vector consists of, in its order."""
    shapes = loss_shapes(experiment) if evolves_loss(experiment) else {}
    if evolves_policy(experiment):
        shapes |= {_START + name: shape for name, shape in start_shapes(experiment).items()}
    return shapes


def initial_phi(experiment: Experiment, seed: int) -> Array:
    """Returns the vector that evolution starts from, [D] float32.

    A loss is a fresh one, and an initial policy is drawn as those of fresh agents are.
    """
    parts = []
    if evolves_loss(experiment):
        channels, *_ = [loss_channels(experiment.of_task(n)) for n in range(len(experiment.tasks))]
        parts.append(initial_parameters(loss_generator(seed), channels, experiment.loss))
    if evolves_policy(experiment):
        spec = make_family(experiment.task).spec
        weights = fresh_weights(start_generator(seed), spec, experiment.policy)
        parts += [weight.ravel() for weight in weights]
    return np.concatenate(parts)


def divided(experiment: Experiment, vectors: Array) -> tuple[Array, Array]:
    """Cuts vectors into losses and initial policies.

    Args:
      experiment: Settings.
      vectors: [..., D].

    Returns:
      (phi [..., D_phi], theta_0 [..., D_theta]); what evolution does not move has length 0.

    Raises:
      ConfigError: D is another number.
    """
    check_size(experiment, vectors.shape[-1])
    loss = parameter_count(loss_shapes(experiment)) if evolves_loss(experiment) else 0
    return vectors[..., :loss], vectors[..., loss:]


def initial_policy(experiment: Experiment, start: Array) -> dict[str, Array]:
    """Returns name -> weights of one initial policy theta_0, [D_theta]."""
    shapes = start_shapes(experiment)
    return {name: values[0] for name, values in split(start[None], shapes).items()}


def check_size(experiment: Experiment, size: int) -> None:
    """Raises ConfigError if a vector of `size` numbers is not what these settings move."""
    if size != parameter_count(vector_shapes(experiment)):
        raise ConfigError(f"phi has {size} parameters; {needed(experiment)}")


def needed(experiment: Experiment) -> str:
    """Returns what the vector of an experiment consists of, with its sizes, for messages."""
    parts = []
    if evolves_loss(experiment):
        count = parameter_count(loss_shapes(experiment))
        parts.append(f"a loss of these settings has {count} parameters")
    if evolves_policy(experiment):
        count, policy = parameter_count(start_shapes(experiment)), experiment.policy
        parts.append(
            f"an initial policy of config.policy.hidden={policy.hidden} and observation_pairs="
            f"{policy.observation_pairs} has {count} parameters"
        )
    return ", and ".join(parts)
