"""Computes inputs of a learned loss beyond the paper's, once per update, from the buffer.

EPG, section 3.3, allows for any further input, such as an exploration signal or the time step. A
loss gets those that `config.loss.channels` names. Another one is one more entry of the table: a
function of `Recorded`, registered with `register_channel` in the file that also makes the config.
What a loss does not name is not computed, and only channels that say so are given the reward.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from epg_tf.core.errors import ConfigError
from epg_tf.core.products import number_of_pairs, products_of_pairs
from epg_tf.losses.action_effects import action_effects
from epg_tf.losses.settings import AS_IT_IS, LossConfig
from epg_tf.losses.turned_observation import turned_towards_reward

_DEVIATION_FLOOR = 1e-2  # so that future rewards that hardly differ are not scaled up
GOAL_SIZE = 3  # coordinates
TOWARDS_REWARD = "observation_towards_reward"
_LEAST_SEEN = 1e-3  # share of returns that lies in the buffer
_PLANES = 8  # bits of a cell's number: at most 256 cells


class Recorded(NamedTuple):
    """What the buffer of P lives holds at an update, oldest step first, without gradient; padding
    all zeros.

    Attributes:
      observation: [P, N, O], normalised.
      action: [P, N, A], normalised.
      reward: [P, N, 1], normalised.
      ended: [P, N, 1], 1.0 at the last step of an episode, whatever ended it.
      lived: [1, N, 1], 0.0 in the padding.
      time_in_life: [1, N, 1], steps since the life began, as a share of its length.
      goal: [P, N, 3], where the goal was (m, in the world, not normalised); [P, N, 0] unless a
        channel of the loss sees it.
      raw_observation: [P, N, O], not normalised.
      raw_reward: [P, N, 1], not normalised.
      terminated: [P, N, 1], 1.0 at the last step of an episode that no time limit ended.
      turning: See `EnvironmentSpec.turning`.
    """

    observation: tf.Tensor
    action: tf.Tensor
    reward: tf.Tensor
    ended: tf.Tensor
    lived: tf.Tensor
    time_in_life: tf.Tensor
    goal: tf.Tensor
    raw_observation: tf.Tensor
    raw_reward: tf.Tensor
    terminated: tf.Tensor
    turning: tuple[tuple[int, int, float], ...] = ()


@dataclasses.dataclass(frozen=True)
class ExtraChannel:
    """One entry of the table.

    Attributes:
      compute: Function of (recorded, settings of the loss) -> [P, N, width]; a life's values must
        not depend on other lives.
      meaning: What users of an exported loss have to provide, one phrase; may hold the names of
        settings of the loss in braces.
      width: Its size per step, >= 1; or a function of O that returns it.
      sees_reward: Whether `compute` is given the rewards; if not, they are all zeros.
      sees_goal: Whether it needs `Recorded.goal`.
      turns: Whether it needs `Recorded.turning`.
    """

    compute: Callable[[Recorded, LossConfig], tf.Tensor]
    meaning: str
    width: int | Callable[[int], int] = 1
    sees_reward: bool = True
    sees_goal: bool = False
    turns: bool = False

    def width_with(self, observation_size: int) -> int:
        """Returns its size per step where observations have O dimensions."""
        return self.width(observation_size) if callable(self.width) else self.width


def future_reward(recorded: Recorded, loss: LossConfig) -> tf.Tensor:
    """Computes the discounted sum of the step's reward and later ones of its episode, as far as the
    buffer goes, with mean 0 and deviation 1 over the life's steps in the buffer: [P, N, 1].

    The mean over the buffer serves as the first baseline of a policy gradient.
    """
    goes_on = loss.future_discount * (1.0 - recorded.ended)
    return _standardised(_sums_to_come(recorded.reward, goes_on), recorded)


def return_to_go(recorded: Recorded, loss: LossConfig) -> tf.Tensor:
    """Computes the discounted return from a step on, about the mean over the life's steps in the
    buffer, and over its deviation (at least 0.01 of the largest reward): [P, N, 1].

    s_t = r_t + gamma s_(t+1) within the episode. Where it terminates nothing follows; after a time
    limit, and the newest step, follows the mean of all s. So it tells even where every reward is 1
    that to fall is bad, and where every one is -1 that to arrive is good.
    """
    gamma = loss.future_discount
    largest = tf.reduce_max(tf.abs(recorded.raw_reward), axis=1, keepdims=True)
    reward = tf.math.divide_no_nan(recorded.raw_reward, largest)
    newest = tf.constant(np.arange(reward.shape[1])[None, :, None] == reward.shape[1] - 1)
    ended = tf.maximum(recorded.ended, tf.cast(newest, tf.float32))
    goes_on = gamma * (1.0 - ended)
    seen = _sums_to_come(reward, goes_on)
    cut_off = _sums_to_come(gamma * ended * (1.0 - recorded.terminated), goes_on)
    mean = _mean(seen, recorded) / tf.maximum(1.0 - _mean(cut_off, recorded), _LEAST_SEEN)
    return _standardised(seen + cut_off * mean, recorded)


def _mean(values: tf.Tensor, recorded: Recorded) -> tf.Tensor:
    """Returns the mean of [P, N, 1] over the life's steps in the buffer, [P, 1, 1]."""
    steps = tf.maximum(tf.reduce_sum(recorded.lived, axis=1, keepdims=True), 1.0)
    return tf.reduce_sum(values * recorded.lived, axis=1, keepdims=True) / steps


def _standardised(values: tf.Tensor, recorded: Recorded) -> tf.Tensor:
    """Returns [P, N, 1] with mean 0 and deviation 1 over the life's steps, zeros in the padding."""
    centred = (values - _mean(values, recorded)) * recorded.lived
    variance = _mean(tf.square(centred), recorded)
    return centred / tf.maximum(tf.sqrt(variance), _DEVIATION_FLOOR)


def _sums_to_come(values: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Computes s_t = values_t + factors_t s_{t+1} along axis 1 of [P, N, 1], with s_N = 0.

    Doubles the number of steps that each sum covers, log2(N) times: TF-Agents' `discounted_return`,
    which goes step by step, takes four times as long (N = 128 and 512).
    """
    reach = 1
    while reach < values.shape[1]:
        after = [[0, 0], [0, reach], [0, 0]]
        values += factors * tf.pad(values[:, reach:], after)
        factors *= tf.pad(factors[:, reach:], after)
        reach *= 2
    return values


def novelty(recorded: Recorded, loss: LossConfig) -> tf.Tensor:
    """Computes 1 / sqrt(n), where n of the life's observations in the buffer lie in the step's
    cell: [P, N, 1] (Tang et al. 2017, Eq. 1 and 2).

    Cells are what 8 planes, the same in every life, cut the space of normalised observations into.
    """
    del loss
    size = recorded.observation.shape[2]
    drawn = np.random.default_rng(0).standard_normal((size + 1, _PLANES)).astype(np.float32)
    side = tf.matmul(recorded.observation, drawn[None, :-1]) + drawn[-1] > 0.0
    cell = tf.reduce_sum(tf.cast(side, tf.int32) * 2 ** np.arange(_PLANES, dtype=np.int32), axis=2)
    population, cells = tf.shape(cell)[0], 2**_PLANES
    own = cell + cells * tf.range(population)[:, None]
    lived = tf.broadcast_to(recorded.lived[:, :, 0], tf.shape(own))
    count = tf.math.unsorted_segment_sum(lived, own, population * cells)
    return tf.math.rsqrt(tf.maximum(tf.gather(count, own), 1.0))[:, :, None] * recorded.lived


def observation_pairs(recorded: Recorded, loss: LossConfig) -> tf.Tensor:
    """Computes the products of all pairs o_j o_k, j <= k, of the normalised observation, in the
    order of rows of an upper triangle: [P, N, O (O + 1) / 2].

    With them, what is linear in the inputs of a loss can be bilinear in the observation, as the
    torques that move a fingertip in a direction are.
    """
    del loss
    return products_of_pairs(recorded.observation)


def _time_in_life(recorded: Recorded, loss: LossConfig) -> tf.Tensor:
    del loss
    return tf.broadcast_to(recorded.time_in_life, tf.shape(recorded.ended))


def _goal(recorded: Recorded, loss: LossConfig) -> tf.Tensor:
    del loss
    return recorded.goal


def _as_it_is(recorded: Recorded, loss: LossConfig) -> tf.Tensor:
    del loss
    return recorded.raw_observation


def _towards_reward(recorded: Recorded, loss: LossConfig) -> tf.Tensor:
    del loss
    return turned_towards_reward(
        recorded.raw_observation, recorded.reward, recorded.lived, recorded.turning
    )


_SHIPPED = {
    "future_reward": ExtraChannel(
        future_reward,
        "discounted sum (discount {future_discount}) of the step's normalised reward and later "
        "ones of its episode, as far as the buffer goes, with mean 0 and standard deviation 1 "
        "(at least 0.01 before scaling) over the steps since the life began",
    ),
    "return_to_go": ExtraChannel(
        return_to_go,
        "discounted return (discount {future_discount}) from the step on, of rewards as they are, "
        "with nothing after a termination and the mean of these returns after a time limit or the "
        "newest step; less that mean, over its standard deviation (at least 0.01 times the largest "
        "reward in the buffer)",
    ),
    "time_in_life": ExtraChannel(
        _time_in_life, "steps since the life began, as a share of its length", sees_reward=False
    ),
    "novelty": ExtraChannel(
        novelty,
        "1 / sqrt(number of observations in the buffer that lie in the same cell), see "
        "epg_tf.losses.extra_channels.novelty",
        sees_reward=False,
    ),
    "observation_pairs": ExtraChannel(
        observation_pairs,
        "products of all pairs of components j <= k of the normalised observation, (1, 1), (1, 2), "
        "... (2, 2), ...",
        width=number_of_pairs,
        sees_reward=False,
    ),
    "goal": ExtraChannel(
        _goal,
        "where the goal is at the step (m, in the world; in fetch_target from the gripper, in "
        "units of 0.05 m), not normalised",
        width=GOAL_SIZE,
        sees_reward=False,
        sees_goal=True,
    ),
    AS_IT_IS: ExtraChannel(
        _as_it_is,
        "the observation, not normalised by the life, in the units of the policy's",
        width=lambda size: size,
        sees_reward=False,
    ),
    TOWARDS_REWARD: ExtraChannel(
        _towards_reward,
        "the observation, not normalised, in the frame turned about the vertical so that the x "
        "axis is the direction of the velocity in which the reward rises fastest (least squares "
        "over the steps since the life began, as far as the buffer goes), then each component over "
        "its root mean square (at least 0.01) over these steps; of the two quaternions of an "
        "orientation the one whose first component is not negative. An ant's components 14 and 15, "
        "counted from 1, turn by the angle, 2 and 5, and 3 and 4, by half of it",
        width=lambda size: size,
        turns=True,
    ),
}
EXTRA_CHANNELS: dict[str, ExtraChannel] = dict(_SHIPPED)


def register_channel(name: str, channel: ExtraChannel) -> None:
    """Adds a channel to the table, for `config.loss.channels` to name; replaces a user's earlier
    one.

    Raises:
      ConfigError: The package has one of this name, or name or meaning cannot be used.
    """
    if name in _SHIPPED:
        raise ConfigError(f"a channel {name!r} already exists; give yours another name")
    if not name.isidentifier():
        raise ConfigError(f"a channel cannot be called {name!r}; use letters, digits, underscores")
    try:
        meaning_of(channel, LossConfig())
    except (LookupError, ValueError) as error:
        raise ConfigError(
            f"meaning of the channel {name!r}: {channel.meaning!r} may hold only names of settings "
            f"of the loss in braces; double other braces ({type(error).__name__}: {error})"
        ) from error
    EXTRA_CHANNELS[name] = channel


def meaning_of(channel: ExtraChannel, loss: LossConfig) -> str:
    """Returns what users of an exported loss have to provide, with the settings filled in."""
    return channel.meaning.format(**dataclasses.asdict(loss))


def are_shipped(names: Sequence[str]) -> bool:
    """Returns whether any process that imports this package knows the channels."""
    return set(names) <= set(_SHIPPED)


def extra_channel(name: str) -> ExtraChannel:
    """Returns the entry of a name.

    Raises:
      ConfigError: There is none.
    """
    if name not in EXTRA_CHANNELS:
        raise ConfigError(
            f"config.loss.channels={name!r} is not a channel; choose among "
            f"{sorted(EXTRA_CHANNELS)}, or load the file that registers yours"
        )
    return EXTRA_CHANNELS[name]


def sees_reward(loss: LossConfig) -> bool:
    """Returns whether the reward, or what is computed from it, is among the inputs of a loss.

    Raises:
      ConfigError: A further channel is unknown.
    """
    return loss.reward or any(extra_channel(name).sees_reward for name in loss.channels)


def sees_goal(loss: LossConfig) -> bool:
    """Returns whether a channel of a loss needs to know where the goal is.

    Raises:
      ConfigError: A further channel is unknown.
    """
    return any(extra_channel(name).sees_goal for name in loss.channels)


def extra_values(recorded: Recorded, loss: LossConfig) -> dict[str, tf.Tensor]:
    """Computes the further channels that a loss declares, name -> [P, N, width], and the effects of
    actions, [P, A O], where it sees them.
    """
    nothing = tf.zeros_like(recorded.reward)
    blind = recorded._replace(reward=nothing, raw_reward=nothing)
    values = {}
    if loss.identifying:
        values["action_effects"] = action_effects(
            recorded.observation, recorded.action, recorded.ended, recorded.lived
        )
    for name in loss.channels:
        channel = extra_channel(name)
        found = channel.compute(recorded if channel.sees_reward else blind, loss)
        values[name] = tf.convert_to_tensor(found, tf.float32)
    return values
