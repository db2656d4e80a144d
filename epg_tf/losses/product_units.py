"""Multiplies inputs of a learned loss: units that a policy gradient can be written with.

    unit_k = b(w_k1 x + c_k1) b(w_k2 x + c_k2) b(w_k3 x + c_k3)

or two factors. b is the identity up to 10 and approaches 20, smoothly. So losses and gradients are
exact while each form lies within 10 of zero, and a unit never exceeds 8000. Beyond, a unit is
nearly flat. With one form f a unit is a soft square instead,

    unit_k = 2 (sqrt(1 + f^2) - 1)

which is f^2 near zero and 2 |f| - 2 far from it. A sum of these is a valley, whatever the weights
are, and its slope leads back from everywhere; two different factors, or a third, can make it a
hill, and are nearly flat far out.
"""

from __future__ import annotations

import functools
import operator

import tensorflow as tf

EXACT = 10.0  # up to here a factor is the form itself
_ROOM = 10.0  # what the bound adds to that at most


def bounded(values: tf.Tensor) -> tf.Tensor:
    """Returns values where |values| <= 10, else sign(values) (10 + 10 tanh((|values| - 10) / 10)).

    Twice continuously differentiable, since tanh bends only in its third derivative at 0.
    """
    # Without gradient: what remains has the whole slope, 1 - tanh^2, which is 1 inside.
    inside = tf.stop_gradient(tf.clip_by_value(values, -EXACT, EXACT))
    return inside + _ROOM * tf.tanh((values - inside) / _ROOM)


def product_units(forms: tf.Tensor, factors: int) -> tf.Tensor:
    """Multiplies bounded forms: [P, B, factors K] -> [P, B, K].

    Args:
      forms: The first factors of all units, then the second, then the third if there are three.
      factors: Of a unit; with 1 it is the soft square.
    """
    if factors == 1:
        return 2.0 * (tf.sqrt(1.0 + tf.square(forms)) - 1.0)
    product: tf.Tensor = functools.reduce(operator.mul, tf.split(bounded(forms), factors, axis=2))
    return product
