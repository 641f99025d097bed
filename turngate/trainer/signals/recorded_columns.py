"""Columns that need no model: what the sampler and the environment recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from turngate.errors import ShapeError
from turngate.trainer.signals.base import Found, Played
from turngate.types import FloatArray


@dataclass(frozen=True, slots=True)
class TokenRows:
    """``surprisal_S``: −log μ of each policy token in nats, μ the sampler, in the context in which it sampled.

    Its mean is the entropy of μ there, also where a hint stood in that context and is left out for learning; −log π
    without the hint would be a cross-entropy.

    ``turn_S`` comes with every signal (``base.Signals``), so this also serves rules that read nothing else by token.
    """

    def measure(self, played: Played) -> Found:
        return Found(columns={"surprisal_S": -played.batch.logprob_L[played.spoken_S]})


@dataclass(frozen=True, slots=True)
class EvidenceColumns:
    """Columns that an environment measured: ``names`` maps a column ``…_N`` to the evidence that it holds per turn.

    True becomes 1 and False 0. A turn without such evidence, or with evidence of value None, gets NaN; of several facts
    about a turn the last one counts. Raises ShapeError for evidence about a turn that was not played.
    """

    names: Mapping[str, str]

    def measure(self, played: Played) -> Found:
        columns = {column: np.full(played.table.n_turns, np.nan, np.float32) for column in self.names}
        wanted: dict[str, list[FloatArray]] = {}
        for column, name in self.names.items():
            wanted.setdefault(name, []).append(columns[column])
        first = 0
        for trajectory in played.trajectories:
            n_turns = len(trajectory.turns)
            for fact in trajectory.evidence:
                if fact.turn is None or fact.name not in wanted:
                    continue
                if not 0 <= fact.turn < n_turns:
                    raise ShapeError(
                        f"evidence '{fact.name}' of trajectory '{trajectory.id}' is about turn {fact.turn}, "
                        f"but it has {n_turns} turns"
                    )
                for column_N in wanted[fact.name]:
                    column_N[first + fact.turn] = np.nan if fact.value is None else float(fact.value)  # type: ignore[arg-type]
            first += n_turns
        return Found(columns=columns)
