"""The scale of costs that moves with the last episodes: its numbers, its memory, and what scoring again gives."""

import pytest

from tests.judges.examiners.episodes import context, examined, group, run, values
from turngate.judges.examiners.cost_window import CostWindow
from turngate.judges.examiners.examining import Examining
from turngate.types import Evidence


def siblings(*costs, name="t"):
    groups = group(*("x" for _ in costs), name=name)
    from dataclasses import replace

    paid = [
        replace(one, evidence=(*one.evidence, Evidence(name="cost", value=cost, by="verifier")))
        for one, cost in zip(groups.trajectories, costs, strict=True)
    ]
    return replace(groups, trajectories=tuple(paid))


def ranks(groups):
    return [value for row in values(groups, "cost_rank") for (value,) in row]


def test_the_worked_numbers():
    after, metrics = examined([CostWindow()], [siblings(100.0, 400.0), siblings(900.0, 1600.0, name="u")])
    assert ranks(after) == pytest.approx([1, 0.685185, 0.314815, 0], abs=1e-6)
    assert metrics["examine/cost_rank/missing_share"] == 0


def test_a_cost_that_is_missing_has_no_rank_and_does_not_count():
    after, _ = examined([CostWindow()], [siblings(100.0, None, 400.0, 900.0, 1600.0)])
    assert ranks(after) == [1, None, pytest.approx(0.685185, abs=1e-6), pytest.approx(0.314815, abs=1e-6), 0]


def test_the_window_is_remembered_cut_and_left_alone_by_evaluations(tmp_path):
    examining = Examining([CostWindow(window=4)], context())

    async def play():
        async with examining:
            await examining.examined([siblings(100.0, 400.0, 900.0, 1600.0)], 1)
            evaluated, _ = await examining.examined([siblings(10000.0)], 0)
            kept = examining.state()
            second, _ = await examining.examined([siblings(2500.0, 3600.0)], 2)
            return evaluated, kept, second

    evaluated, kept, second = run(play())
    assert ranks(evaluated) == [0]
    assert kept == {"cost_rank": {"costs": [100.0, 400.0, 900.0, 1600.0]}}
    assert examining.state() == {"cost_rank": {"costs": [900.0, 1600.0, 2500.0, 3600.0]}}
    assert ranks(second) == pytest.approx([1 - (50 - 31.5) / 27, 0])
    resumed = Examining([CostWindow(window=4)], context())
    resumed.restore(kept)

    async def again():
        async with resumed:
            return await resumed.examined([siblings(2500.0, 3600.0)], 2)

    assert ranks(run(again())[0]) == ranks(second)
