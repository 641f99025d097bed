"""Why rules differ: how closely credit follows what was said of each turn, and how often siblings meet in a state."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from turngate.config.run_config import load_run
from turngate.run.assembly.credit import own_rule
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.trainer.batch.pack import by_turn
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.gigpo import step_groups
from turngate.trainer.filters.parts import keep
from turngate.types import FloatArray, TurnTable

UPDATES = 10


class Signal(NamedTuple):
    """Means over the first ``UPDATES`` updates of a run.

    ``follows``: correlation over turns of credit with the turn's own verdict; None where credit cannot be computed
    again, because it reads a critic. ``shared``: share of turns that began in a state in which another one of the
    siblings began.
    """

    follows: float | None
    shared: float


def read_signal(path: Path) -> Signal:
    """The signal of a run, from its recorded episodes. Its own rule is used, also where credit was then shuffled."""
    config, follows, shared = load_run(RunFolder(path)), [], []
    rule = own_rule(config)
    for step in islice(range(1, config.train.steps + 1), UPDATES):
        kept, _ = keep(list(Store(path).read(step, "train")), config.train.filters_by_name)
        if not kept:
            continue  # nothing was learned in this update
        table = tabulate(kept)
        shared.append(shared_states(table))
        if rule is not None:
            follows.append(correlation(by_turn(rule(table), table.n_turns), table.process_N))
    known = [value for value in follows if value is not None]
    return Signal(fmean(known) if known else None, fmean(shared) if shared else 0.0)


def correlation(credit_N: FloatArray, verdict_N: FloatArray) -> float | None:
    """Pearson's, over the turns with a verdict; None where either is the same for all of them."""
    said_N = ~np.isnan(verdict_N)
    credit_M, verdict_M = credit_N[said_N].astype(np.float64), verdict_N[said_N].astype(np.float64)
    if len(credit_M) < 2 or not credit_M.std() or not verdict_M.std():
        return None
    return float(np.corrcoef(credit_M, verdict_M)[0, 1])


def shared_states(table: TurnTable) -> float:
    """Share of turns whose (cohort, state) is that of another turn as well."""
    _, group_M = step_groups(table)
    return float((np.bincount(group_M)[group_M] > 1).sum() / table.n_turns)
