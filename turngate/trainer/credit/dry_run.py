"""Which columns does a credit rule read? The rule is run once on a small made-up table, which records its look-ups.

So a config that names a rule whose columns cannot be filled is refused before training begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from turngate.errors import ShapeError
from turngate.trainer.credit.pay_sources import PAID
from turngate.types import FloatArray, TokenCredit, TurnTable

Column = npt.NDArray[Any]
TOKENS = 3  # policy tokens of each turn


BRANCHES = frozenset({"parent_B", "branch_B"})
"""Columns about which trajectory branched off which; they mean nothing in a run whose rollouts do not branch."""

_MEASURED = frozenset(
    {"value_S", "bootstrap_B", "logratio_N", "logratio_S", "gain_N", "turn_S", "surprisal_S", "sharing_S"}
)
_ADVICE = {
    "value_N": "a critic measures it in training with turn_gae, or branching 'mc_values', or evidence fills it "
    "(signals.evidence)",
    "count_N": "branching 'mc_values' measures it",
    "similar_N": "set signals.similar",
} | dict.fromkeys(_MEASURED, "only training measures it")


class _RecordingColumns(dict[str, Column]):
    """Columns that record which of them are read. ``spare`` answers for any reward component that has no column."""

    def __init__(self, columns: Mapping[str, Column], spare: Column | None) -> None:
        super().__init__(columns)
        self.read: set[str] = set()
        self.lacking = ""  # the last missing column that the rule asked for
        self.spare = spare

    def __contains__(self, name: object) -> bool:
        found = super().__contains__(name) or (self.spare is not None and str(name).startswith(PAID))
        self.lacking = "" if found else str(name)
        return found

    def __getitem__(self, name: str) -> Column:
        self.read.add(name)
        found = self.get(name, self.spare if name in self else None)
        return super().__getitem__(name) if found is None else found  # raises KeyError


def columns_read(
    rule: Callable[[TurnTable], object],
    offered: Iterable[str] = (),
    *,
    siblings: int = 2,
    components: Iterable[str] | None = None,
    branching: bool = False,
) -> frozenset[str]:
    """The columns of ``measured`` that ``rule`` reads, out of those of ``tabulate`` and the ``offered`` ones.

    The table has one task and ``siblings`` trajectories of two turns with three policy tokens each. The first
    trajectory succeeds, and the second branched off it after one turn. ``components`` are the rubric's (None = not
    known, so any name is taken for one). ``branching`` says whether rollouts branch; without it the columns
    ``BRANCHES`` are left out, because a rule over trees would train as if every trajectory were a tree of its own.

    Raises ShapeError, naming the column, if the rule needs one that is not offered; ConfigError for settings that the
    rule refuses.
    """
    columns = _columns(siblings, offered, components)
    if not branching:
        for name in BRANCHES:
            del columns[name]
    table = _table(siblings, columns)
    try:
        rule(table)
    except (ShapeError, KeyError) as error:
        if not columns.lacking or columns.lacking not in str(error):
            raise
        raise ShapeError(_refusal(columns.lacking)) from None
    return frozenset(columns.read)


def beyond_tabulated(columns: Iterable[str]) -> set[str]:
    """Those of some columns that ``tabulate`` does not fill; ``turn_S`` comes with every column by token."""
    return {name for name in columns if not name.startswith(PAID)} - _recorded(1).keys() - {"won_B", "turn_S"}


def learns_from_one_tree(
    rule: Callable[[TurnTable], FloatArray | TokenCredit],
    offered: Iterable[str] = (),
    *,
    siblings: int = 2,
    components: Iterable[str] | None = None,
) -> bool:
    """Whether ``rule`` gives credit to a first turn that all siblings share, summed over them.

    In the table that ``columns_read`` uses, all others branched off the first trajectory after one turn. Raises what
    the rule raises.
    """
    columns = _columns(siblings, offered, components)
    later_B, first_N = np.arange(siblings) > 0, np.arange(2 * siblings) % 2 == 0
    columns["parent_B"] = np.where(later_B, 0, -1).astype(np.int32)
    columns["branch_B"] = later_B.astype(np.int32)
    for name in ("act_N", "said_N"):
        columns[name] = np.where(first_N, 0, columns[name])
    credit = rule(_table(siblings, columns))
    credit_N = credit.per_turn(2 * siblings) if isinstance(credit, TokenCredit) else credit
    return bool(abs(credit_N[first_N].sum()) > 1e-4 * max(1.0, np.abs(credit_N).sum()))


def _table(b: int, columns: Mapping[str, Column]) -> TurnTable:
    """One task and ``b`` trajectories of two turns, of which the first succeeds."""
    n = 2 * b
    first_N = np.arange(n) % 2 == 0
    return TurnTable(
        reward_N=(np.arange(n) == 1).astype(np.float32),
        process_N=np.where(first_N, 1, np.where(np.arange(n) == n - 1, np.nan, 0)).astype(np.float32),
        open_N=np.arange(n) < 2,
        traj_N=np.repeat(np.arange(b, dtype=np.int32), 2),
        index_N=np.tile(np.arange(2, dtype=np.int32), b),
        state_N=np.where(first_N, 1, 1 + np.arange(n)).astype(np.int64),
        outcome_B=(np.arange(b) == 0).astype(np.float32),
        cohort_B=np.zeros(b, np.int32),
        measured=columns,
    )


def _columns(b: int, offered: Iterable[str], components: Iterable[str] | None) -> _RecordingColumns:
    paid_B = (np.arange(b) == 0).astype(np.float32)
    named = ("outcome", "process") if components is None else components
    paid = {f"{PAID}{name}_B": paid_B for name in named}
    measured = _recorded(b) | paid | {name: _offered(name, b) for name in offered}
    return _RecordingColumns(measured, paid_B if components is None else None)


def _refusal(name: str) -> str:
    """Why a rule that needs this column cannot be used, and what to do."""
    if name in BRANCHES:
        return (
            "it needs branches (parent_B, branch_B), which no rollout of this run makes; add [branching] with a type "
            "such as tree_grpo, or take a rule for siblings that were sampled independently, or tempo or lambda_grpo "
            "with merge = 'tokens' or 'action_observation'"
        )
    if name.startswith(PAID):
        return f"it needs column '{name}', but the rubric has no component '{name.removeprefix(PAID)[:-2]}'"
    advice = _ADVICE.get(
        name, f'fill it with evidence that the environment records: signals.evidence = {{{name} = "..."}}'
    )
    return f"it needs column '{name}', which nothing in this run fills; {advice}"


def _recorded(b: int) -> dict[str, Column]:
    """What ``tabulate`` measures; the second trajectory branched off the first one."""
    second_B = np.arange(b) == 1
    return {
        "parent_B": np.where(second_B, 0, -1).astype(np.int32),
        "branch_B": second_B.astype(np.int32),
        "tokens_N": np.full(2 * b, TOKENS, np.int32),
        "surprisal_N": 1 + np.arange(2 * b, dtype=np.float32) % 3,
        "act_N": np.arange(2 * b, dtype=np.int64),
        "said_N": np.arange(2 * b, dtype=np.int64),
        "settled_B": (np.arange(b) == 0).astype(np.float32),
        "unplaced_B": np.zeros(b, np.float32),
        "process_paid_N": np.zeros(2 * b, np.float32),
    }


def _offered(name: str, b: int) -> Column:
    if name == "turn_S":
        return np.repeat(np.arange(2 * b, dtype=np.int32), TOKENS)
    of_one = {"_N": 2 * b, "_B": b, "_S": 2 * b * TOKENS}[name[-2:]]
    return np.full(of_one, name == "sharing_S", np.float32)
