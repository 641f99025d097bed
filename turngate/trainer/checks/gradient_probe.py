"""Shows which tokens' gradients depend on the reward of one turn: perturbs that reward and compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, Protocol, cast

import numpy as np

from turngate.errors import ConfigError, UnknownName
from turngate.trainer.batch.pack import Aggregate, pack, rows
from turngate.trainer.batch.table import tabulate
from turngate.trainer.learner import NOTHING, Measured
from turngate.trainer.loss.tokens import Loss
from turngate.types import Batch, Credit, FloatArray, IntArray, ScoredGroup, TurnTable


class GradientLearner(Protocol):
    """A learner that can also compute gradients without training."""

    def token_gradient(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> FloatArray:
        """∂loss/∂log π of each token: float32[L], 0 where nothing is trained."""
        ...

    def gradient_norm(self, batch: Batch, coefficient_L: FloatArray) -> float:
        """‖Σ_l coefficient_l·∇log π(token l)‖ over all parameters."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnShift:
    """What the perturbation did to one turn.

    ``before`` and ``after`` are the turn's advantage without and with the perturbation. ``changed`` holds the positions
    in the trajectory of the tokens whose ∂loss/∂log π changed, and ``by`` how much each did: [M]. ``n_tokens`` is the
    number of policy tokens of the turn. ``predicted`` is what Σ ``by`` would be under the plain policy gradient,
    −Σ policy_weight·(after − before); a loss that clips, weighs or mixes tokens differs from it, and so do ratios other
    than 1. ``norm`` is the length of the part of the change in the parameters' gradient that comes from this turn.
    """

    trajectory: str
    turn: int
    before: float
    after: float
    n_tokens: int
    changed: IntArray
    by: FloatArray
    predicted: float
    norm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientProbe:
    """One ``TurnShift`` per turn of all trajectories, in their order, and the change of the whole gradient."""

    shifts: tuple[TurnShift, ...]
    norm: float

    @property
    def moved(self) -> tuple[TurnShift, ...]:
        """Turns whose gradient changed."""
        return tuple(shift for shift in self.shifts if len(shift.changed))


def probe_gradient(
    learner: object,
    groups: Sequence[ScoredGroup],
    credit: Credit,
    loss: Loss,
    *,
    trajectory: str,
    turn: int,
    delta: float,
    aggregate: Aggregate = "token",
    column: Literal["reward_N", "process_N"] = "reward_N",
    measured: Measured = NOTHING,
) -> GradientProbe:
    """Add ``delta`` to one turn's reward, recompute credit, and compare every turn's advantage and gradient.

    Nothing is trained: the learner's weights, gradient and memory stay as they are. ``column`` is the perturbed
    quantity: the payment (``reward_N``), or the process verdict (``process_N``) for credit that reads verdicts; a turn
    without a verdict is then taken to have 0 before. ``outcome_B`` and ``settled_B`` are not changed. With a loss in
    which tokens do not interact, the gradient changes only at turns whose advantage changed. Siblings are among them if
    the credit rule takes its baseline from siblings.

    Raises UnknownName for the trajectory, ConfigError for the turn, for a delta of 0, or for a learner that cannot show
    its gradient (see ``GradientLearner``), ShapeError as credit and pack do.
    """
    if not all(callable(getattr(learner, name, None)) for name in ("token_gradient", "gradient_norm")):
        raise ConfigError(f"{type(learner).__name__} cannot show the gradient of a token; use learner.type = 'torch'")
    shows = cast("GradientLearner", learner)
    if delta == 0 or not np.isfinite(delta):
        raise ConfigError(f"the probe needs a finite delta other than 0, found {delta}")
    table = tabulate(groups)
    before_N, after_N = credit(table), credit(_perturbed(table, _row(groups, trajectory, turn), column, delta))
    batches = [pack(groups, advantage_N, aggregate=aggregate) for advantage_N in (before_N, after_N)]
    gradients = [shows.token_gradient(batch, loss, measured=measured) for batch in batches]
    change_L = gradients[1] - gradients[0]
    names = [one.id for group in groups for one in group.trajectories]
    batch = batches[0]
    row_L = rows([one for group in groups for one in group.trajectories])
    shifts = []
    for row, (owner, index) in enumerate(zip(table.traj_N, table.index_N, strict=True)):
        at = row_L == row
        hit = np.flatnonzero(at & (change_L != 0))
        gain, weight_M = float(after_N[row]) - float(before_N[row]), batch.policy_weight_L[at]
        shifts.append(
            TurnShift(
                trajectory=names[owner],
                turn=int(index),
                before=float(before_N[row]),
                after=float(after_N[row]),
                n_tokens=int(np.count_nonzero(weight_M)),
                changed=batch.position_L[hit],
                by=change_L[hit],
                predicted=-float(weight_M.sum(dtype=np.float64)) * gain + 0.0,  # no −0
                norm=_norm(shows, batch, np.where(at, change_L, 0)),
            )
        )
    return GradientProbe(shifts=tuple(shifts), norm=_norm(shows, batch, change_L))


def _row(groups: Sequence[ScoredGroup], trajectory: str, turn: int) -> int:
    """The row of the turn in the table of ``groups``."""
    row = 0
    trajectories = [one for group in groups for one in group.trajectories]
    for one in trajectories:
        if one.id == trajectory:
            if not 0 <= turn < len(one.turns):
                raise ConfigError(f"trajectory '{trajectory}' has turns 0 to {len(one.turns) - 1}, found {turn}")
            return row + turn
        row += len(one.turns)
    raise UnknownName("trajectory", trajectory, [one.id for one in trajectories])


def _perturbed(table: TurnTable, row: int, column: Literal["reward_N", "process_N"], delta: float) -> TurnTable:
    values = getattr(table, column).copy()
    values[row] = np.nan_to_num(values[row]) + np.float32(delta)
    return replace(table, reward_N=values) if column == "reward_N" else replace(table, process_N=values)


def _norm(learner: GradientLearner, batch: Batch, change_L: FloatArray) -> float:
    """The norm of the parameters' gradient for ``change_L``, computed from only those trajectories that it changes."""
    touched = np.isin(batch.segment_L, np.unique(batch.segment_L[change_L != 0]))
    if not touched.any():
        return 0.0
    columns = {column.name: getattr(batch, column.name)[touched] for column in fields(batch)}
    return learner.gradient_norm(Batch(**columns), change_L[touched])
