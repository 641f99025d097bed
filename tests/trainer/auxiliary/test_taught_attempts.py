"""RISE with a teacher: what stands before the oracle's attempt, what is trained, and how much it weighs."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import models
from tests.trainer.auxiliary.test_auxiliary_losses import episode, means
from turngate.agents.chat import join
from turngate.trainer.auxiliary.taught_attempts import RiseTeacher
from turngate.types import RewardEvent


def paid_for(trajectories, totals):
    """A group whose episodes were paid so much, by a line of the ledger."""
    group = models.scored(trajectories, totals)
    lines = [RewardEvent(name="won", kind="outcome", turn=None, value=paid, weight=1.0) for paid in totals]
    return replace(
        group, scores=tuple(replace(one, ledger=(line,)) for one, line in zip(group.scores, lines, strict=True))
    )


async def right(tasks, entries, *, seed):
    """Plays every entry, which is paid 1."""
    return [
        paid_for([episode(one.turns, task=task.id) for one in own], [1.0] * len(own))
        for task, own in zip(tasks, entries, strict=True)
    ]


async def wrong(tasks, entries, *, seed):
    return [
        paid_for([episode(one.turns, task=task.id) for one in own], [0.0] * len(own))
        for task, own in zip(tasks, entries, strict=True)
    ]


def group_of(*paid):
    texts = [["press b", "press c"], ["press c"], ["press d"]]
    return paid_for([episode(text, name=f"t{at}") for at, text in enumerate(texts[: len(paid)])], list(paid))


def test_the_oracles_attempt_follows_the_policys_own():
    chat, group = models.chat(), group_of(0.0)
    source = RiseTeacher(note="Again.").open(means(right, lambda task: [["press a", "press d"]]))
    (row,) = asyncio.run(source.rows([group], 1)).rows
    (attempt,) = group.trajectories
    (shown,) = asyncio.run(right([group.task], [[type("Entry", (), {"turns": ("press a", "press d")})]], seed=0))
    target = shown.trajectories[0]
    between = chat.frames(()).follow_up(
        f"Again.\n{target.turns[0].observation.text}", attempt.turns[-1].completion.ended_by
    )
    rest = target.ids()[len(target.turns[0].context_ids) :]
    np.testing.assert_array_equal(row.ids, join(attempt.ids().tolist(), between.tolist(), rest.tolist()))
    said = np.split(row.ids[row.trained], np.flatnonzero(np.isin(row.ids[row.trained], list(chat.ends)))[:-1] + 1)
    assert [chat.decode(one) for one in said] == ["press a", "press d"]
    assert not row.trained[: len(attempt.ids()) + len(between)].any()


def test_a_row_weighs_as_rise_would_weigh_the_oracles_attempt():
    """The sheet's payments 1, .5, 0 with τ = ½: the softmax of the first is .665241, times 3 members."""
    source = RiseTeacher(tau=0.5).open(means(right))
    found = asyncio.run(source.rows([group_of(0.5, 0.0)], 1))
    assert [row.weight for row in found.rows] == pytest.approx([3 * 0.665241] * 2, abs=1e-5)
    lens = [len(row.ids) for row in found.rows]
    assert lens[0] < lens[1]  # the attempt that was paid least comes first, and it is the shorter one here


@pytest.mark.parametrize(
    ("play", "paid", "settings", "n_rows"),
    [
        (right, (0.0, 0.5, 0.0), {}, 2),
        (right, (0.0, 0.5, 0.0), {"most": 3}, 3),
        (right, (1.0, 1.0), {}, 0),  # nothing was worse than the oracle's
        (wrong, (0.0, 0.0), {}, 0),
        (wrong, (-0.5, 0.0), {}, 1),
    ],
)
def test_attempts_that_were_paid_less_than_the_oracles_are_taken(play, paid, settings, n_rows):
    source = RiseTeacher(**settings).open(means(play))
    found = asyncio.run(source.rows([group_of(*paid)], 1))
    assert (len(found.rows) if found else 0) == n_rows
    assert source.metrics() == {"too_long": 0}


def test_what_does_not_fit_and_what_broke_is_left_out():
    made = means(right)
    limits = replace(made.player.limits, context=10)
    player = type(made.player)(made.player.policy, made.player.chat, limits)
    source = RiseTeacher().open(replace(made, player=player))
    assert asyncio.run(source.rows([group_of(0.0, 0.0)], 1)) is None
    assert source.metrics() == {"too_long": 2}
    broken = group_of(0.0)
    broken = replace(broken, scores=(replace(broken.scores[0], usable=False),))
    source = RiseTeacher().open(made)
    assert asyncio.run(source.rows([broken], 1)) is None
    assert asyncio.run(RiseTeacher().open(means(right, lambda task: [])).rows([group_of(0.0)], 1)) is None
