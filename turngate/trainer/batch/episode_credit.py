"""The credit of a batch, cut into episodes, as it is recorded."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from turngate.store.step_credit import EpisodeCredit
from turngate.types import FloatArray, ScoredGroup, TokenCredit, TurnTable

Column = npt.NDArray[Any]


def episode_credits(
    groups: Sequence[ScoredGroup], table: TurnTable, credit: FloatArray | TokenCredit, names: Collection[str] = ()
) -> dict[str, EpisodeCredit]:
    """The credit of each episode by its id. ``names``: columns of ``table.measured`` that are kept with it."""
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    cuts_B = np.searchsorted(table.traj_N, np.arange(1, len(trajectories)))
    is_by_token = isinstance(credit, TokenCredit)
    advantage_N = credit.per_turn(table.n_turns) if isinstance(credit, TokenCredit) else credit
    tokens_N = of_tokens(credit.advantage_S, credit.turn_S, table.n_turns) if isinstance(credit, TokenCredit) else []
    columns: dict[str, Sequence[Column | tuple[Column, ...]]] = {}
    for name in sorted(names):
        values = table.measured[name]
        if name.endswith("_S"):
            columns[name] = _by_episode(of_tokens(values, table.measured["turn_S"], table.n_turns), cuts_B)
        else:
            columns[name] = np.split(values, cuts_B) if name.endswith("_N") else list(values)
    advantages, tokens = np.split(advantage_N, cuts_B), _by_episode(tokens_N, cuts_B)
    return {
        one.id: EpisodeCredit(
            advantage_T=advantages[at],
            tokens_T=tokens[at] if is_by_token else None,
            columns={name: held[at] for name, held in columns.items()},
        )
        for at, one in enumerate(trajectories)
    }


def recorded_columns(found: Sequence[EpisodeCredit]) -> dict[str, Column]:
    """The columns that were recorded with the credit of some episodes, for the table of these episodes in this order.

    With a column ``_S`` there is ``turn_S`` too. Empty where the episodes have none.
    """
    columns: dict[str, Column] = {}
    for name in found[0].columns if found else ():
        held: list[Any] = [one.columns[name] for one in found]
        turns = [turn for one in held for turn in one] if name.endswith("_S") else held
        columns[name] = np.stack(held) if name.endswith("_B") else np.concatenate(turns)
        if name.endswith("_S"):
            columns["turn_S"] = np.repeat(np.arange(len(turns), dtype=np.int32), list(map(len, turns)))
    return columns


def of_tokens(values_S: Column, turn_S: Column, n_turns: int) -> list[Column]:
    """The values of the policy's tokens of each turn, in order."""
    order = np.argsort(turn_S, kind="stable")
    ends = np.cumsum(np.bincount(turn_S, minlength=n_turns))
    return np.split(values_S[order], ends[:-1])


def _by_episode(turns: Sequence[Column], cuts_B: Column) -> list[tuple[Column, ...]]:
    edges = [0, *cuts_B.tolist(), len(turns)]
    return [tuple(turns[first:last]) for first, last in pairwise(edges)]
