"""Tests epg_tf.agents.replay."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from epg_tf.agents.replay import Replay

P, O, A = 2, 3, 2  # noqa: E741 (the legend's letter)
K, B, T = 2, 3, 4


def written(steps, capacity, ends=(), terminations=(), population=P):
    """Returns a replay after so many steps, each told by its number (from 1) and agent; `ends` are
    (agent, number).
    """
    replay = Replay(population, capacity, O, A)
    for number in range(1, steps + 1):
        mark = number + 1000.0 * np.arange(population)
        flags = [
            np.array([(agent, number) in which for agent in range(population)])
            for which in ((*ends, *terminations), terminations)
        ]
        replay.write(
            {
                "observation": mark[:, None] + [0.1, 0.2, 0.3],
                "action": mark[:, None] + [0.4, 0.5],
                "reward": mark,
                "terminated": flags[1],
                "ended": flags[0],
                "next_observation": mark[:, None] + [1.1, 1.2, 1.3],
            }
        )
    return replay


def draw(replay, batches=K, batch=B, length=T, seed=0, ages=(1000, 1000)):
    """Draws with streams of the agents' own, by default for agents as old as the replay."""
    generators = [np.random.default_rng((seed, agent)) for agent in range(len(ages))]
    return replay.draw(generators, np.array(ages), batches, batch, length)


def numbers(drawn):
    """Returns the numbers of the steps drawn, [K, P, B, T], 0 in the padding."""
    agents = 1000.0 * np.arange(drawn["reward"].shape[1])[:, None, None]
    return np.int64(np.rint(drawn["reward"] - agents * drawn["mask"]))


@pytest.mark.parametrize("steps", [13, 20, 41])
def test_chunks_are_consecutive_whole_steps_of_one_episode(steps):
    """Before the ring is full, when it just is, and long after: every field is that of the step. A
    chunk is T long unless it ends with its episode or the newest step, or begins with one or with
    the oldest step.
    """
    ends, terminations = ((0, 4), (0, 17), (1, 9), (1, 33), (0, 39)), ((1, 6), (0, 11), (1, 36))
    replay, oldest = written(steps, 20, ends, terminations), max(1, steps - 19)
    starts = [set() for _ in range(P)]
    for agent, seed in itertools.product(range(P), range(40)):
        drawn = draw(replay, 1, 3, seed=seed)
        for place, chunk in enumerate(numbers(drawn)[0, agent]):
            expected = [chunk[0]]
            while (
                len(expected) < T
                and expected[-1] < steps
                and (agent, expected[-1]) not in ends + terminations
            ):
                expected.append(expected[-1] + 1)
            begins = chunk[0] == oldest or (agent, chunk[0] - 1) in ends + terminations
            if begins:  # it may be cut
                expected = expected[: np.count_nonzero(chunk)]
            rest = T - len(expected)
            np.testing.assert_array_equal(
                drawn["mask"][0, agent, place], [1.0] * len(expected) + [0.0] * rest
            )
            marks = np.array(expected)[:, None] + 1000.0 * agent
            for name, offsets in (
                ("observation", [0.1, 0.2, 0.3]),
                ("action", [0.4, 0.5]),
                ("next_observation", [1.1, 1.2, 1.3]),
                ("reward", [0.0]),
            ):
                part = drawn[name][0, agent, place].reshape(T, -1)
                np.testing.assert_allclose(part[: len(expected)], marks + offsets, rtol=1e-6)
                assert not part[len(expected) :].any(), name
            np.testing.assert_array_equal(
                drawn["terminated"][0, agent, place],
                [float((agent, number) in terminations) for number in expected] + [0] * rest,
            )
            starts[agent].add(chunk[0])
    assert starts == [set(range(oldest, steps + 1))] * P


def test_batches_are_disjoint_while_there_are_enough_steps():
    """No step is drawn twice, in one batch or in two; with fewer steps than chunks there is still
    an answer.
    """
    for seed in range(20):
        found = numbers(draw(written((K * B + 1) * T, 1000, ends=[(0, 8)]), seed=seed))
        for agent in range(P):
            steps = found[:, agent][found[:, agent] > 0]
            assert len(set(steps)) == len(steps) > K * B
    few = numbers(draw(written(2, 10)))[..., 0]
    assert few.shape == (K, P, B) and set(few.ravel()) <= {1, 2}


@pytest.mark.parametrize("oldest", [0, 17])
def test_every_step_is_drawn_equally_often(oldest):
    """First steps of episodes as often as later ones, those of short episodes as those of long
    ones, the oldest and the newest as others; also in a ring that has come round.
    """
    held, chunk, count = 23, 5, 3
    ends = [(agent, oldest + end) for agent in range(P) for end in (1, 2, 9, 16)]
    replay = written(oldest + held, held, ends)
    counts, draws = np.zeros((P, held)), 3000
    generators = [np.random.default_rng((7, agent)) for agent in range(P)]
    for _ in range(draws):
        found = numbers(replay.draw(generators, np.array([1000, 1000]), 1, count, chunk))[0]
        for agent in range(P):
            drawn = found[agent][found[agent] > 0] - oldest - 1
            counts[agent] += np.bincount(drawn, minlength=held)
    share = counts / draws
    spread = np.sqrt(share.mean() * (1 - share.mean()) / draws)
    np.testing.assert_allclose(share, share.mean(), atol=4.5 * spread)


def test_an_agents_draws_do_not_depend_on_its_neighbours():
    """Neither on what they have lived through nor on how many or how old they are."""
    ends = [(0, 13), (0, 21)]
    replay, busy = (
        written(40, 30, ends),
        written(40, 30, [*ends, *((1, number) for number in range(1, 41, 2))]),
    )
    one, two = draw(replay), draw(busy)
    alone = draw(written(40, 30, ends, population=1), ages=[1000])
    for name in one:
        assert (
            one[name][:, 0].tobytes() == two[name][:, 0].tobytes() == alone[name][:, 0].tobytes()
        ), name
        assert one[name][:, 0].tobytes() == draw(replay, ages=[1000, 3])[name][:, 0].tobytes(), name
    assert one["mask"][:, 1].sum() > two["mask"][:, 1].sum()


@pytest.mark.parametrize("steps", [13, 20, 41])
@pytest.mark.parametrize("age", [1, 7, 12])
def test_what_was_before_an_agent_was_born_is_not_drawn(steps, age):
    """Its own steps are, all of them and as whole chunks."""
    replay, starts = written(steps, 20), set()
    for seed in range(60):
        found = numbers(draw(replay, 1, 2, ages=[age, 1000], seed=seed))[0]
        starts |= set(found[0, :, 0])
        for chunk in found[0]:
            if chunk[0] > steps - age + 1:  # the oldest may be cut
                np.testing.assert_array_equal(
                    chunk, [n if n <= steps else 0 for n in range(chunk[0], chunk[0] + T)]
                )
        np.testing.assert_array_equal(found[1], numbers(draw(replay, 1, 2, seed=seed))[0, 1])
    assert starts == set(range(steps - age + 1, steps + 1))


def test_a_cleared_replay_is_a_new_one():
    replay, new = written(17, 10, ends=[(0, 16), (1, 15)]), written(4, 10)
    replay.clear()
    assert replay.steps == 0
    replay.extend(new.newest(4))
    one, other = draw(replay, 1, 4), draw(new, 1, 4)
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)


@pytest.mark.parametrize("steps", [7, 20, 53])
def test_newest_and_extend_rebuild_the_same_replay(steps):
    """And both go on alike, though the rows may lie elsewhere in the ring."""
    replay, rebuilt = written(steps, 20, ends=[(0, 5), (1, 50)]), Replay(P, 20, O, A)
    newest = replay.newest(replay.steps)
    np.testing.assert_array_equal(newest["reward"][0], np.arange(max(1, steps - 19), steps + 1))
    rebuilt.extend(newest)
    for more in range(25):
        assert rebuilt.steps == replay.steps
        one, other = (draw(each, seed=more) for each in (replay, rebuilt))
        assert all(one[name].tobytes() == other[name].tobytes() for name in one)
        added = {
            name: part[:, -1] + np.float32(more) for name, part in newest.items() if name != "ended"
        }
        for each in (replay, rebuilt):
            each.write({**added, "ended": np.array([more % 3 == 0, more % 4 == 0])})


def test_the_replay_keeps_copies():
    """Simulations reuse their arrays, and learners may write into what they have drawn."""
    sizes = {
        "observation": (O,),
        "action": (A,),
        "reward": (),
        "terminated": (),
        "ended": (),
        "next_observation": (O,),
    }
    replay, step = written(3, 10), {name: np.ones((P, *size)) for name, size in sizes.items()}
    replay.write(step)
    before = draw(replay, 1, 4)
    for part in (*step.values(), *draw(replay, 1, 4).values(), *replay.newest(4).values()):
        part += 7.0
    after = draw(replay, 1, 4)
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)
