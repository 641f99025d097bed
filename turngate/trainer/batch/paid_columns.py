"""What each reward component was paid, as columns, for credit rules that normalise each component on its own."""

from collections.abc import Sequence

import numpy as np

from turngate.trainer.credit.pay_sources import PAID
from turngate.types import FloatArray, Score


def paid_columns(scores: Sequence[Score]) -> dict[str, FloatArray]:
    """``paid/NAME_B`` for every component NAME of the ledgers: what it was paid in each episode, float32[B].

    Payments are weighted and after all gates, so behind a closed gate they are 0. ``tabulate`` hands over what episodes
    are compared by, so an outcome or process component without an event was measured in no sibling either: NaN. A
    penalty without an event, or a veto that did not happen, cost nothing: 0.
    """
    penalties = {event.name for score in scores for event in score.ledger if event.kind == "penalty"}
    names = dict.fromkeys(event.name for score in scores for event in score.ledger)
    columns = {name: np.full(len(scores), 0.0 if name in penalties else np.nan) for name in names}
    for row, score in enumerate(scores):
        for event in score.ledger:
            before = columns[event.name][row]
            columns[event.name][row] = event.paid if np.isnan(before) else before + event.paid
    return {f"{PAID}{name}_B": paid_B.astype(np.float32) for name, paid_B in columns.items()}
