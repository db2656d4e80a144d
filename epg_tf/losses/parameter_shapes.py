"""Lists the parts of phi: every kernel and bias of a learned loss by name."""

from __future__ import annotations

from collections.abc import Sequence

from epg_tf.core.shapes import convolution_length
from epg_tf.losses.channels import FEATURES, Channel, input_width, network_channels, scored_width
from epg_tf.losses.identifying import identifying_shapes
from epg_tf.losses.settings import LossConfig


def parameter_shapes(channels: Sequence[Channel], config: LossConfig) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of the parts of phi, in the order of the flat vector.

    Args:
      channels: Declared inputs, from `declared_channels`.
      config: Sizes, and whether the loss is shared over actions.
    """
    channels = network_channels(channels, config)
    inputs, products = input_width(channels), config.products
    first, second = config.filters
    steps = config.buffer_steps
    for width, stride in zip(config.widths, config.strides, strict=True):
        steps = convolution_length(steps, width, stride)
    pooled = second * (steps if config.pooling == "flatten" else 1)
    shapes: dict[str, tuple[int, ...]] = {
        "convolution_1/kernel": (config.widths[0], inputs, first),
        "convolution_1/bias": (first,),
        "convolution_2/kernel": (config.widths[1], first, second),
        "convolution_2/bias": (second,),
        "context/kernel": (pooled, config.context),
        "context/bias": (config.context,),
        "head/kernel": (inputs + config.context, config.head),
        "head/bias": (config.head,),
    }
    if products:
        meets = inputs + config.context + scored_width(channels)
        shapes["products/kernel"] = (meets, config.factors * products)
        shapes["products/bias"] = (config.factors * products,)
    shapes |= {"output/kernel": (config.head + products, 1), "output/bias": (1,)}
    if config.identifying:
        shapes |= identifying_shapes(channels, config.identifying)
    if config.shared_over_actions:
        shapes[f"{FEATURES}/kernel"] = (1, config.features)
        shapes[f"{FEATURES}/bias"] = (config.features,)
    return shapes
