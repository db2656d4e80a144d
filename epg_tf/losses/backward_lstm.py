"""Runs P LSTMs that read the last step first, with gradients written by hand that can be
differentiated again.

TensorFlow's own gradient of a gradient of an unrolled LSTM is thousands of small operations. Here a
step has about ten in each direction, because only what depends on other steps is left in the loops;
all else is computed for all steps at once:

    z_t = x_t W + h_{t+1} R                    x_t W + b for all steps at once
    c_t = f_t c_{t+1} + i_t g_t                g = tanh, f, i, o = sigmoid of the parts of z
    h_t = o_t tanh(c_t)                        f, i, o are 0 in the padding, so c and h are too

With these states known, the slopes of z follow from slopes of h by a recurrence that is linear, in
the other direction of time, and its transpose is linear too:

    dh_t = (slope of h_t) + dz_{t-1} R'
    dc_t = a_t dh_t + f_{t-1} dc_{t-1}         a = o (1 - tanh(c)^2)
    dz_t = k_t [dc_t, dc_t, dc_t, dh_t]        k = slopes of candidate and gates
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from epg_tf.core.parallel_layers import parallel_dense


class _States(NamedTuple):
    """What an LSTM passed through, at all steps.

    Attributes:
      gates: [P, B, T, 3 units], forget, input, output; 0 in the padding.
      candidate: [P, B, T, units].
      cell: [P, B, T, units].
      hidden: [P, B, T, units].
    """

    gates: tf.Tensor
    candidate: tf.Tensor
    cell: tf.Tensor
    hidden: tf.Tensor


def backward_lstm(
    inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """Runs P LSTMs from the last step to the first.

    Args:
      inputs: [P, B, T, in].
      kernel: [P, in + units, 4 units]; columns: candidate, forget, input, output gate.
      bias: [P, 4 units].
      mask: [P, B, T], 1.0 where there is a step; elsewhere states are zero.

    Returns:
      States [P, B, T, units].
    """
    hidden: tf.Tensor = _hidden(*_prepared(inputs, kernel, bias), mask[..., None])
    return hidden


def plain_backward_lstm(
    inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """Computes the same with TensorFlow's own gradients, for graphs that are saved: a SavedModel
    does not keep gradients of gradients that are written by hand. Arguments and result are as in
    `backward_lstm`; kernel and bias may be [1, ...] for all.
    """
    return _run(*_prepared(inputs, kernel, bias), mask[..., None]).hidden


def _prepared(inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns what inputs and bias add to candidate and gates, and the recurrent kernel."""
    units, width, steps = kernel.shape[-1] // 4, inputs.shape[-1], inputs.shape[2]
    shape, kernel = tf.shape(inputs), tf.convert_to_tensor(kernel)
    from_inputs, recurrent = tf.split(kernel, [width, units], axis=1)
    prepared = parallel_dense(tf.reshape(inputs, [shape[0], -1, width]), from_inputs, bias)
    return tf.reshape(prepared, [shape[0], shape[1], steps, 4 * units]), recurrent


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _hidden(
    prepared: tf.Tensor, recurrent: tf.Tensor, mask: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, None]]]:
    """Returns the hidden states [P, B, T, units] of `_states`.

    Its gradient computes with `_States` that have a gradient of their own, so what is
    differentiated again are not the steps one by one.
    """
    states = _States(*_states(prepared, recurrent, mask))

    def gradient(slope: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, None]:
        slopes = _States(*map(tf.zeros_like, states))._replace(hidden=slope)
        return (*_input_slopes(states, recurrent, slopes), None)

    return states.hidden, gradient


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _states(
    prepared: tf.Tensor, recurrent: tf.Tensor, mask: tf.Tensor
) -> tuple[tuple[tf.Tensor, ...], Callable[..., tuple[tf.Tensor, tf.Tensor, None]]]:
    """Returns the `_States` of `_run`, with a gradient of their own."""
    states = _run(prepared, recurrent, mask)

    def gradient(*slopes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, None]:
        return (*_input_slopes(states, recurrent, _States(*slopes)), None)

    return tuple(states), gradient


def _run(prepared: tf.Tensor, recurrent: tf.Tensor, mask: tf.Tensor) -> _States:
    """Runs the LSTMs.

    Args:
      prepared: [P, B, T, 4 units], what inputs and bias add to candidate and gates.
      recurrent: [P, units, 4 units].
      mask: [P, B, T, 1].
    """
    units = recurrent.shape[1]
    hidden = cell = tf.zeros_like(prepared[:, :, 0, :units])
    found = []
    for before, present in zip(
        tf.unstack(prepared, axis=2)[::-1], tf.unstack(mask, axis=2)[::-1], strict=True
    ):
        candidate, gates = tf.split(
            before + tf.matmul(hidden, recurrent), [units, 3 * units], axis=-1
        )
        candidate, gates = tf.tanh(candidate), tf.sigmoid(gates) * present
        forget, take, give = tf.split(gates, 3, axis=-1)
        cell = forget * cell + take * candidate
        hidden = give * tf.tanh(cell)
        found.append((gates, candidate, cell, hidden))
    return _States(*(tf.stack(part[::-1], axis=2) for part in zip(*found, strict=True)))


def _input_slopes(
    states: _States, recurrent: tf.Tensor, slopes: _States
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the slopes of what was `prepared` and of `recurrent`, from those of all states."""
    forget, take, give = tf.split(states.gates, 3, axis=-1)
    squashed = tf.tanh(states.cell)
    open_gates = states.gates * (1.0 - states.gates)
    open_candidate = 1.0 - tf.square(states.candidate)
    partners = tf.concat([_later(states.cell), states.candidate, squashed], axis=-1)
    factors = tf.concat([take * open_candidate, partners * open_gates], axis=-1)
    through = give * (1.0 - tf.square(squashed))
    # Slopes of gates and candidate act on z at once, and through R on the hidden state before.
    direct = tf.concat([slopes.candidate * open_candidate, slopes.gates * open_gates], axis=-1)
    hidden_slope = slopes.hidden + _earlier(_product(direct, recurrent))
    cell_slope = slopes.cell + through * hidden_slope
    found = direct + _slopes(
        hidden_slope, cell_slope, factors, through, _earlier(forget), recurrent
    )
    return found, _weight_slope(_later(states.hidden), found)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _slopes(
    hidden: tf.Tensor,
    cell: tf.Tensor,
    factors: tf.Tensor,
    through: tf.Tensor,
    keep: tf.Tensor,
    recurrent: tf.Tensor,
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]:
    """Runs the linear recurrence from the first step to the last.

        r_t = dz_{t-1} R',   dh_t = hidden_t + r_t
        dc_t = cell_t + through_t r_t + keep_t dc_{t-1}
        dz_t = factors_t [dc_t, dc_t, dc_t, dh_t]

    Args:
      hidden: [P, B, T, units].
      cell: [P, B, T, units].
      factors: [P, B, T, 4 units].
      through: [P, B, T, units].
      keep: [P, B, T, units].
      recurrent: R, [P, units, 4 units].

    Returns:
      dz, [P, B, T, 4 units].
    """
    slope = tf.zeros_like(factors[:, :, 0])
    cell_slope = tf.zeros_like(keep[:, :, 0])
    found = []
    for to_hidden, to_cell, factor, share, kept in zip(
        *(tf.unstack(part, axis=2) for part in (hidden, cell, factors, through, keep)), strict=True
    ):
        back = tf.matmul(slope, recurrent, transpose_b=True)
        cell_slope = to_cell + share * back + kept * cell_slope
        four = tf.concat([cell_slope, cell_slope, cell_slope, to_hidden + back], axis=-1)
        slope = factor * four
        found.append((slope, four, back, cell_slope))
    slopes, fours, backs, cells = (tf.stack(part, axis=2) for part in zip(*found, strict=True))

    def gradient(slope: tf.Tensor) -> tuple[tf.Tensor, ...]:
        tangent, by_cell, by_hidden, by_back = _tangents(slope, factors, through, keep, recurrent)
        by_recurrent = _weight_slope(_later(by_back), slopes)
        return (
            by_hidden,
            by_cell,
            tangent * fours,
            by_cell * backs,
            by_cell * _earlier(cells),
            by_recurrent,
        )

    return slopes, gradient


def _tangents(
    slope: tf.Tensor, factors: tf.Tensor, through: tf.Tensor, keep: tf.Tensor, recurrent: tf.Tensor
) -> list[tf.Tensor]:
    """Runs the transpose of `_slopes` from the last step to the first.

        u_t = slope_t + rho_{t+1} R,   [v1, v2, v3, eta_t] = factors_t u_t
        gamma_t = v1 + v2 + v3 + keep_{t+1} gamma_{t+1},   rho_t = eta_t + through_t gamma_t

    Returns:
      [u, gamma, eta, rho], each [P, B, T, ...].
    """
    back = by_cell = tf.zeros_like(through[:, :, 0])
    found = []
    steps = [tf.unstack(part, axis=2)[::-1] for part in (slope, factors, through, _later(keep))]
    for own, factor, share, kept in zip(*steps, strict=True):
        tangent = own + tf.matmul(back, recurrent)
        *to_cell, by_hidden = tf.split(factor * tangent, 4, axis=-1)
        by_cell = tf.add_n([*to_cell, kept * by_cell])
        back = by_hidden + share * by_cell
        found.append((tangent, by_cell, by_hidden, back))
    return [tf.stack(part[::-1], axis=2) for part in zip(*found, strict=True)]


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _later(part: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """Returns at each step what `part`, [P, B, T, ...], is at the next, 0 after the last.

    Its transpose is `_earlier`; TensorFlow's gradient of a slice takes ten times as long.
    """
    return tf.pad(part[:, :, 1:], [[0, 0], [0, 0], [0, 1], [0, 0]]), _earlier


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _earlier(part: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """Returns at each step what `part`, [P, B, T, ...], is at the one before, 0 at the first."""
    return tf.pad(part[:, :, :-1], [[0, 0], [0, 0], [1, 0], [0, 0]]), _later


def _rows(part: tf.Tensor) -> tf.Tensor:
    """Returns the steps of all chunks in a row, [P, B T, width]."""
    shape = tf.shape(part)
    return tf.reshape(part, [shape[0], -1, part.shape[-1]])


def _product(part: tf.Tensor, recurrent: tf.Tensor) -> tf.Tensor:
    """Returns part @ R' at all steps, [P, B, T, units]."""
    shape = tf.shape(part)
    found = tf.matmul(_rows(part), recurrent, transpose_b=True)
    return tf.reshape(found, [shape[0], shape[1], shape[2], recurrent.shape[1]])


def _weight_slope(inputs: tf.Tensor, slopes: tf.Tensor) -> tf.Tensor:
    """Returns the slope of weights, [P, in, out], that mapped inputs to what has these slopes."""
    return tf.matmul(_rows(inputs), _rows(slopes), transpose_a=True)
