"""NGRPO: an imagined best sibling, so that a cohort of failures still has a learning signal."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.rewards.columns import ZERO_RANGE
from turngate.trainer.credit.cohorts import validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Ddof, Eps
from turngate.trainer.credit.siblings import siblings
from turngate.types import FloatArray, TurnTable

Best: TypeAlias = Annotated[
    float, Field(description="Most that an episode can be paid, which is what the imagined siblings are paid.")
]
Imagined: TypeAlias = Annotated[
    int,
    Field(
        ge=0,
        description="Number of imagined perfect siblings; 0: none, which is grpo. With more of them a group of equal "
        "failures gets more negative credit.",
    ),
]


@rule
def ngrpo(table: TurnTable, *, best: Best = 1.0, imagined: Imagined = 1, eps: Eps = 1e-6, ddof: Ddof = 1) -> FloatArray:
    """NGRPO: GRPO beside imagined perfect siblings, so that a group of equal failures is blamed too.

    ``A_i = (R_i − mean') / (std' + eps)``, statistics over the cohort and ``imagined`` rewards ``best``: float32[N].

    ``best`` is the most that a trajectory can be paid. Source: https://arxiv.org/abs/2509.18851 (one imagined sibling,
    reward 1), which also clips harder where the advantage is negative: clip_low 0.16, clip_high 0.24.

    A cohort of equal failures gets the same negative number for all: everything it did becomes less likely, which
    raises entropy. Not zero-mean: the sum is minus what the imagined siblings got. ``imagined=0`` is ``grpo``.
    Degenerate: a cohort that was paid ``best`` throughout gives exactly 0; so does a cohort of one. Raises ShapeError
    (see ``validate``), ConfigError for a total above ``best``, imagined < 0, eps < 0 or another ddof than 0 or 1.
    """
    if imagined < 0 or eps < 0 or ddof not in (0, 1):
        raise ConfigError(
            f"ngrpo needs imagined ≥ 0, eps ≥ 0 and ddof 0 or 1, found imagined={imagined}, eps={eps}, ddof={ddof}"
        )
    validate(table)
    slack = ZERO_RANGE * max(1.0, abs(best))
    if table.total_B.max() > best + slack:
        i = int(table.total_B.argmax())
        raise ConfigError(f"trajectory {i} was paid {table.total_B[i]:g}, above best={best:g}; raise best")
    compared = siblings(table)
    groups = compared.group(table.total_B)
    n_G = np.maximum(groups.weight_G + imagined, 1)  # cohort numbers may have gaps
    gap_G = best - groups.mean_G
    shift_G = imagined * gap_G / n_G
    squares_G = groups.std_G(ddof=0) ** 2 * groups.weight_G + groups.weight_G * imagined * gap_G**2 / n_G
    scale_G = np.sqrt(squares_G / np.maximum(n_G - ddof, 1)) + eps
    at_best_G = groups.degenerate_G & ((np.abs(gap_G) <= slack) | (imagined == 0))
    silent_G = at_best_G | (groups.count_G < 2)
    scale_G[silent_G], shift_G[silent_G] = 1.0, 0.0
    return compared.to_turns((groups.centred_M - shift_G[groups.group_M]) / scale_G[groups.group_M])
