"""Recorded episodes as the estimators read them: each turn's probability under a policy and under the one that
played."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from turngate.agents.chat import Chat
from turngate.errors import EstimateRefused
from turngate.trainer.batch.pack import pack, rows
from turngate.trainer.credit.cohorts import Float64Array
from turngate.trainer.learner import Measuring
from turngate.trainer.offline.estimates import LoggedTurns, number_names
from turngate.trainer.offline.importance import turn_log_ratio
from turngate.trainer.offline.usable import BRANCHED, GUIDED, unlike, unsampled
from turngate.types import Score, ScoredGroup, Source, Trajectory, Turn

_EPISODES_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredTurns:
    """``paid`` has the rewards of each turn, ``success`` 1 on the last turn of a solved episode and 0 elsewhere.

    ``left_out`` counts the other episodes by reason.
    """

    paid: LoggedTurns
    success: LoggedTurns
    left_out: Counter[str]


def scored_turns(
    groups: Iterable[ScoredGroup],
    measuring: Measuring,
    chat: Chat,
    *,
    leave_out: Sequence[str] = (),
    context: int | None,
) -> ScoredTurns:
    """Recorded turns with their probabilities under the policy of ``measuring``. ``chat``: the format in which it would
    be shown the episodes.

    Raises EstimateRefused for episodes without a ratio, and says how to go on: no log-probabilities, turns that were
    not sampled, guided and branched episodes unless ``leave_out`` names them, another text or another tokenizer, and
    episodes longer than ``context``.
    """
    left_out: Counter[str] = Counter()
    names: dict[str, list[object]] = {"task": [], "state": [], "history": [], "action": []}
    columns: dict[str, list[Float64Array]] = {"log_ratio": [], "policy_logprob": [], "paid": [], "success": []}
    lengths: list[int] = []
    for episodes in _chunks(_usable(groups, leave_out, left_out)):
        trajectories = [_as_sampled(trajectory) for trajectory, _ in episodes]
        for trajectory in trajectories:
            _check(trajectory, chat, context)
        log_ratio_N, policy_logprob_N = _measured(trajectories, measuring)
        columns["log_ratio"].append(log_ratio_N)
        columns["policy_logprob"].append(policy_logprob_N)
        for trajectory, score in episodes:
            n_turns = len(trajectory.turns)
            lengths.append(n_turns)
            names["task"].append(trajectory.task.id)
            names["state"] += [turn.observation.state_key for turn in trajectory.turns]
            names["history"] += _histories(trajectory)
            names["action"] += [turn.completion.ids_K.tobytes() for turn in trajectory.turns]
            columns["paid"].append(score.compared.reward_T.astype(np.float64))
            solved = np.zeros(n_turns)
            solved[-1] = bool(score.success)
            columns["success"].append(solved)
    if not lengths:
        why = "; ".join(f"{count} {reason}" for reason, count in left_out.items()) or "nothing is recorded"
        raise EstimateRefused(f"no episode is left to judge by: {why}")
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    paid = LoggedTurns(
        episode_N=np.repeat(np.arange(len(lengths)), lengths),
        reward_N=joined["paid"],
        log_ratio_N=joined["log_ratio"],
        policy_logprob_N=joined["policy_logprob"],
        state_N=number_names(names["state"]),
        history_N=number_names(names["history"]),
        action_N=number_names(names["action"]),
        task_B=number_names(names["task"]),
    )
    return ScoredTurns(paid=paid, success=replace(paid, reward_N=joined["success"]), left_out=left_out)


def _usable(
    groups: Iterable[ScoredGroup], leave_out: Sequence[str], left_out: Counter[str]
) -> Iterator[tuple[Trajectory, Score]]:
    for group in groups:
        for trajectory, score in zip(group.trajectories, group.scores, strict=True):
            kind = GUIDED if trajectory.guidance is not None else BRANCHED if trajectory.parent is not None else ""
            if kind in leave_out:
                left_out[kind] += 1
            elif kind == GUIDED:
                raise EstimateRefused(
                    f"'{trajectory.id}' had help ({trajectory.guidance.kind}) that the policy is not shown; judge by "  # type: ignore[union-attr]
                    f"an evaluation (--phase), or leave such episodes out: --leave-out {GUIDED}"
                )
            elif kind == BRANCHED:
                raise EstimateRefused(
                    f"'{trajectory.id}' branched off another episode, so the two are not independent; judge by an "
                    f"evaluation (--phase), or leave such episodes out: --leave-out {BRANCHED}"
                )
            elif not score.usable:
                left_out["unusable"] += 1
            elif not trajectory.turns:
                left_out["without a turn"] += 1
            else:
                yield trajectory, score


def _chunks(episodes: Iterator[tuple[Trajectory, Score]]) -> Iterator[list[tuple[Trajectory, Score]]]:
    chunk = []
    for episode in episodes:
        chunk.append(episode)
        if len(chunk) == _EPISODES_AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _as_sampled(trajectory: Trajectory) -> Trajectory:
    """Every sampled token marked as the policy's: also those of turns that are not trained."""

    def marked(turn: Turn) -> Turn:
        source = turn.source.copy()
        source[len(turn.context_ids) :] = Source.POLICY
        return replace(turn, source=source)

    return replace(trajectory, turns=tuple(map(marked, trajectory.turns)))


def _check(trajectory: Trajectory, chat: Chat, context: int | None) -> None:
    problem = unsampled(trajectory) or unlike(trajectory, chat, context)
    if problem:
        raise EstimateRefused(problem)


def _measured(trajectories: Sequence[Trajectory], measuring: Measuring) -> tuple[Float64Array, Float64Array]:
    """log ρ and log π of every turn. Two float64[N]."""
    n_turns = sum(len(trajectory.turns) for trajectory in trajectories)
    group = ScoredGroup(task=trajectories[0].task, trajectories=tuple(trajectories), scores=_NONE * len(trajectories))
    batch = pack([group], np.zeros(n_turns, np.float32))
    sampled = batch.policy_weight_L > 0
    policy_S, behaviour_S = measuring.logprobs(batch)[sampled], batch.logprob_L[sampled]
    turn_S = rows(trajectories)[sampled]
    ratio_N = turn_log_ratio(policy_S, behaviour_S, turn_S, n_turns)
    return ratio_N, turn_log_ratio(policy_S, np.zeros_like(policy_S), turn_S, n_turns)


_NONE = (Score(ledger=(), reward_T=np.zeros(0, np.float32), outcome=None, usable=False),)


def _histories(trajectory: Trajectory) -> Iterator[bytes]:
    """A digest of all tokens before each turn's own."""
    seen = hashlib.blake2b(digest_size=16)
    for turn in trajectory.turns:
        seen.update(turn.context_ids.astype(np.int32).tobytes())
        yield seen.digest()
        seen.update(turn.completion.ids_K.astype(np.int32).tobytes())
