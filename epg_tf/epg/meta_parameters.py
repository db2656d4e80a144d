"""Defines what evolution moves: the parameters phi of a loss, and where they start."""

from __future__ import annotations

from epg_tf.core.experiment import Experiment
from epg_tf.core.random_streams import loss_generator
from epg_tf.core.types import Array
from epg_tf.losses.channels import Channel, declared_channels
from epg_tf.losses.initial_parameters import initial_parameters
from epg_tf.losses.temporal_conv import parameter_shapes
from epg_tf.tasks.registry import make_family


def loss_channels(experiment: Experiment) -> tuple[Channel, ...]:
    """Returns the inputs that the loss of an experiment declares."""
    return declared_channels(make_family(experiment.task).spec, experiment.loss)


def loss_shapes(experiment: Experiment) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of the arrays that phi consists of, in the order of the flat vector."""
    return parameter_shapes(loss_channels(experiment), experiment.loss)


def initial_phi(experiment: Experiment, seed: int) -> Array:
    """Returns the parameters that evolution starts from, [D] float32."""
    return initial_parameters(loss_generator(seed), loss_channels(experiment), experiment.loss)
