"""Makes a ``TurnTable``, the columns that credit is computed from, out of scored groups."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from turngate.errors import ShapeError
from turngate.trainer.batch.paid_columns import paid_columns
from turngate.trainer.batch.shared_turns import shared_columns
from turngate.types import FloatArray, Score, ScoredGroup, Source, Trajectory, Turn, TurnTable, derive_seed


def tabulate(groups: Sequence[ScoredGroup]) -> TurnTable:
    """All turns of ``groups`` end to end, siblings in order.

    Cohorts (``Trajectory.cohort``: task, guidance kind and level) are dense numbers in order of appearance. Payments
    for a whole episode are booked on its last turn. So is the payment for a process verdict on a whole episode, but
    ``process_N`` of that turn does not contain the verdict. Where verdicts are missing, all columns hold what the
    episode is compared by (``Score.compared``), with the siblings' mean in their place. Raises ShapeError, naming the
    trajectory, for a score that is not usable (filters drop those), for a reward of another length than its turns and
    for a process verdict on a turn that it does not have.
    """
    scored = [pair for group in groups for pair in zip(group.trajectories, group.scores, strict=True)]
    pairs = [(trajectory, score.compared) for trajectory, score in scored]
    for trajectory, score in pairs:
        _validate(trajectory, score)
    cohorts: dict[object, int] = {}
    states: dict[tuple[str, str], int] = {}
    cohort_B = [cohorts.setdefault(trajectory.cohort, len(cohorts)) for trajectory, _ in pairs]
    columns = [_verdicts(trajectory, score) for trajectory, score in pairs]
    lengths = [len(trajectory.turns) for trajectory, _ in pairs]
    return TurnTable(
        reward_N=np.concatenate([np.zeros(0, np.float32), *(score.reward_T for _, score in pairs)]),
        process_N=np.array([value for process, _, _ in columns for value in process], np.float32),
        open_N=np.array([value for _, is_open, _ in columns for value in is_open], np.bool_),
        traj_N=np.repeat(np.arange(len(pairs), dtype=np.int32), lengths),
        index_N=np.array([index for length in lengths for index in range(length)], np.int32),
        state_N=np.array([state for trajectory, _ in pairs for state in _states(trajectory, states)], np.int64),
        outcome_B=np.array([score.outcome for _, score in pairs], np.float32),
        cohort_B=np.array(cohort_B, np.int32),
        measured=_measured([trajectory for trajectory, _ in pairs])
        | {
            "unplaced_B": np.array([0.0 if t.turns else score.total for t, score in pairs], np.float32),
            "won_B": np.array([_won(score) for _, score in pairs], np.bool_),
            "settled_B": np.array([_settled(score) for _, score in pairs], np.float32),
            "process_paid_N": np.array([value for _, _, paid in columns for value in paid], np.float32),
        }
        | paid_columns([score for _, score in pairs])
        | shared_columns([trajectory for trajectory, _ in pairs]),
    )


def _validate(trajectory: Trajectory, score: Score) -> None:
    n_turns = len(trajectory.turns)
    if not score.usable or score.outcome is None:
        why = score.problem or "it has no outcome"
        raise ShapeError(f"trajectory '{trajectory.id}' has no usable score ({why}); drop it before credit")
    if score.reward_T.shape != (n_turns,):
        raise ShapeError(f"reward_T of trajectory '{trajectory.id}' is {score.reward_T.shape}, expected ({n_turns},)")


def _verdicts(trajectory: Trajectory, score: Score) -> tuple[list[float], list[bool], list[float]]:
    """For each turn: its mean process verdict (NaN = none), whether a verdict is open, and what its verdicts were paid.

    A verdict is open unless a gate set its payment to 0. The mean is over the open verdicts, or over all if none is
    open. A verdict v of a component of weight w enters as sign(w)·v with weight |w|, so that what a component charges
    for counts against the turn. A component of weight 0 is ignored.
    """
    n_turns = len(trajectory.turns)
    open_sum, open_weight = [0.0] * n_turns, [0.0] * n_turns
    closed_sum, closed_weight = [0.0] * n_turns, [0.0] * n_turns
    paid = [0.0] * n_turns
    for event in score.ledger:
        turn = event.turn
        if event.kind != "process" or turn is None or not event.weight:
            continue
        if not 0 <= turn < n_turns:
            raise ShapeError(
                f"'{event.name}' of trajectory '{trajectory.id}' is a verdict on turn {turn}; it has {n_turns} turns"
            )
        paid[turn] += event.paid
        if event.factor:
            open_sum[turn] += event.weight * event.value
            open_weight[turn] += abs(event.weight)
        else:
            closed_sum[turn] += event.weight * event.value
            closed_weight[turn] += abs(event.weight)
    process = [
        opened / weight if weight else closed / closed_by if closed_by else float("nan")
        for opened, weight, closed, closed_by in zip(open_sum, open_weight, closed_sum, closed_weight, strict=True)
    ]
    is_open = [bool(weight) or not closed_by for weight, closed_by in zip(open_weight, closed_weight, strict=True)]
    return process, is_open, paid


def _won(score: Score) -> bool:
    """Whether the episode is a success that no gate, such as a veto, took the outcome's payment from."""
    return bool(score.success) and all(event.factor for event in score.ledger if event.kind == "outcome")


def _settled(score: Score) -> float:
    """Everything that was paid except for process verdicts."""
    process = sum(event.paid for event in score.ledger if event.kind == "process")
    total = float(score.reward_T.sum(dtype=np.float64)) if len(score.reward_T) else score.total
    return total - process


def _states(trajectory: Trajectory, known: dict[tuple[str, str], int]) -> list[int]:
    """The state before each turn as a number, equal in all runs for equal state keys; −1 where there is no key."""
    numbers = []
    for turn in trajectory.turns:
        key = (trajectory.task.env_id, turn.observation.state_key)
        if key not in known:
            known[key] = derive_seed("state", *key) if key[1] else -1
        numbers.append(known[key])
    return numbers


def _measured(trajectories: Sequence[Trajectory]) -> dict[str, npt.NDArray[Any]]:
    """Tokens and surprisal of each turn, and which trajectory branched off which, and where."""
    logprobs = [_sampled(turn) for trajectory in trajectories for turn in trajectory.turns]
    places = {trajectory.id: place for place, trajectory in enumerate(trajectories)}
    parents = [trajectory.parent or ("", 0) for trajectory in trajectories]
    parent_B = np.array([places.get(name, -1) for name, _ in parents], np.int32)
    return {
        "tokens_N": np.array([len(logprobs_K) for logprobs_K in logprobs], np.int32),
        "surprisal_N": np.array([-one.mean() if len(one) else np.nan for one in logprobs], np.float32),
        "parent_B": parent_B,
        "branch_B": np.where(parent_B < 0, 0, [turn for _, turn in parents]).astype(np.int32),
    }


def _sampled(turn: Turn) -> FloatArray:
    """The sampler's logprobs of the tokens that the policy chose itself: [K], without prefix turns."""
    logprobs_K: FloatArray = turn.completion.logprobs_K[turn.source[len(turn.context_ids) :] == Source.POLICY]
    return logprobs_K
