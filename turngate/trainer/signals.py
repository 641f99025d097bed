"""What some credit rules read and rewards do not say: columns that a model measures, or that evidence carries.

A ``Signal`` looks at the kept episodes of a step before credit and fills in columns of the turn table. What it found
may come with a lesson for afterwards: a critic has returns to learn, an implicit reward model has outcomes. Only
signals that the credit rule reads are made (``turngate.run.credit.signals_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.agents.chat import Chat
from turngate.errors import ShapeError
from turngate.trainer.credit.igpo import information_gain
from turngate.trainer.learner import Learner
from turngate.trainer.likelihoods import likelihoods_of
from turngate.trainer.loss import PolicyLoss, Reinforce
from turngate.trainer.pack import boundaries, pack, rows
from turngate.types import Batch, BoolArray, FloatArray, IntArray, Metrics, ScoredGroup, Task, Trajectory, TurnTable

Columns: TypeAlias = Mapping[str, npt.NDArray[Any]]
Lesson: TypeAlias = Callable[[TurnTable], tuple[Mapping[str, FloatArray], Metrics]]
"""From the table that credit saw: columns [L] for the learner's ``measured``, and metrics. Called once per step."""

VARIED = 1e-12  # returns with less variance have nothing to explain


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """The kept episodes of a step, as trajectories, as turns, and as tokens that carry no credit yet.

    ``spoken_S``: places of the policy tokens in ``batch``; ``turn_S``: the row of the table that each belongs to.
    ``before_N``, ``after_N``: places after which the agent is to act, and has acted (``pack.boundaries``).
    """

    trajectories: tuple[Trajectory, ...]
    table: TurnTable
    batch: Batch
    spoken_S: IntArray
    turn_S: IntArray
    before_N: IntArray
    after_N: IntArray

    def sums(self, values_L: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """The sum over each turn's policy tokens: float64[N]."""
        weights = values_L[self.spoken_S].astype(np.float64)
        sums_N = np.bincount(self.turn_S, weights=weights, minlength=self.table.n_turns)
        return sums_N.astype(np.float64, copy=False)


def nothing(table: TurnTable) -> tuple[Mapping[str, FloatArray], Metrics]:
    """Nothing to learn after this step."""
    return {}, {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """Columns of the table, and what is to be learned once credit is known."""

    columns: Columns
    lesson: Lesson = nothing


class Signal(Protocol):
    """One source of columns."""

    def measure(self, played: Played) -> Found:
        """Look at the episodes, by today's weights."""
        ...


def _as_it_is(table: TurnTable) -> TurnTable:
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """All signals of a run. ``learners`` are models of theirs that train, by name: checkpoints save them.

    ``view`` changes the table before credit and lessons see it: a negative control, which must fool a critic too.
    """

    sources: tuple[Signal, ...] = ()
    learners: Mapping[str, Learner] = field(default_factory=dict)
    view: Callable[[TurnTable], TurnTable] = _as_it_is

    def measure(self, groups: Sequence[ScoredGroup], table: TurnTable) -> tuple[TurnTable, Lesson]:
        """The table with every column, and all lessons as one."""
        if not self.sources:
            return self.view(table), nothing
        played = played_of(groups, table)
        found = [source.measure(played) for source in self.sources]
        measured = {**table.measured, "turn_S": played.turn_S}
        for one in found:
            measured.update(one.columns)

        def lesson(seen: TurnTable) -> tuple[Mapping[str, FloatArray], Metrics]:
            columns: dict[str, FloatArray] = {}
            metrics: Metrics = {}
            for one in found:
                more, noted = one.lesson(seen)
                columns.update(more)
                metrics.update(noted)
            return columns, metrics

        return self.view(replace(table, measured=measured)), lesson


def played_of(groups: Sequence[ScoredGroup], table: TurnTable) -> Played:
    """What signals look at."""
    trajectories = tuple(trajectory for group in groups for trajectory in group.trajectories)
    batch = pack(groups, np.zeros(table.n_turns, np.float32), aggregate="sum")
    spoken_S = np.flatnonzero(batch.policy_weight_L).astype(np.int32)
    before_N, after_N = boundaries(trajectories)
    return Played(
        trajectories=trajectories,
        table=table,
        batch=batch,
        spoken_S=spoken_S,
        turn_S=rows(trajectories)[spoken_S],
        before_N=before_N,
        after_N=after_N,
    )


# --- without a model --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TokenRows:
    """``turn_S``, which every signal brings along, and ``surprisal_S``: −log μ of each policy token, in nats."""

    def measure(self, played: Played) -> Found:
        """See ``Signal``."""
        return Found(columns={"surprisal_S": -played.batch.logprob_L[played.spoken_S]})


@dataclass(frozen=True, slots=True)
class EvidenceColumns:
    """Columns that an environment measured: ``names`` maps a column ``…_N`` to the evidence that it holds per turn.

    A yes is 1 and a no is 0. NaN where there is no such evidence about a turn, or one without a value; of several the
    one measured last counts. Raises ShapeError for evidence about a turn that was not played.
    """

    names: Mapping[str, str]

    def measure(self, played: Played) -> Found:
        """See ``Signal``."""
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


# --- critic -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """A critic's values: ``value_N`` before each turn, or ``value_S`` before each policy token (``per_token``).

    ``targets`` gives the returns to learn from the table, in the same shape (``credit.VALUE_TARGETS``). With
    ``bootstrap``, ``bootstrap_B`` is the value of the state in which a truncated episode stopped, 0 for a finished
    one. That state lies after the agent's last words and before the environment's reply, which nobody recorded; so the
    critic also learns such states where what follows is known: the next return, or 0 after a finished episode.
    """

    learner: Learner
    targets: Callable[[TurnTable], FloatArray]
    per_token: bool = False
    bootstrap: bool = True

    def measure(self, played: Played) -> Found:
        """See ``Signal``."""
        at_M = played.spoken_S - 1 if self.per_token else played.before_N
        wanted_L = np.zeros(played.batch.n_tokens, np.bool_)
        wanted_L[at_M] = True
        if self.bootstrap:
            wanted_L[played.after_N] = True
        value_L = self.learner.values(played.batch, wanted_L)
        columns: dict[str, npt.NDArray[Any]] = {"value_S" if self.per_token else "value_N": value_L[at_M]}
        if self.bootstrap:
            columns["bootstrap_B"] = self._bootstrap(played, value_L)

        def lesson(table: TurnTable) -> tuple[Mapping[str, FloatArray], Metrics]:
            target_M = self.targets(table)
            return self._returns(played, at_M, target_M) | {"old_value_L": value_L}, explained(value_L[at_M], target_M)

        return Found(columns=columns, lesson=lesson)

    @staticmethod
    def _bootstrap(played: Played, value_L: FloatArray) -> FloatArray:
        """The value in which each truncated trajectory stopped, 0 for a finished one and one without turns."""
        table = played.table
        cut_B = np.array([trajectory.ending.truncated for trajectory in played.trajectories])
        last_M = np.flatnonzero(np.append(table.index_N[1:] == 0, True) & cut_B[table.traj_N])
        bootstrap_B = np.zeros(table.n_trajectories, np.float32)
        bootstrap_B[table.traj_N[last_M]] = value_L[played.after_N[last_M]]
        return bootstrap_B

    def _returns(self, played: Played, at_M: IntArray, target_M: FloatArray) -> dict[str, FloatArray]:
        """``return_L`` and ``value_weight_L``: a mean over all states that have something to learn."""
        return_L = np.zeros(played.batch.n_tokens, np.float32)
        taught_L = np.zeros(played.batch.n_tokens, np.bool_)
        if self.bootstrap:
            place_M, after_M = self._afterwards(played, target_M)
            return_L[place_M], taught_L[place_M] = after_M, True
        return_L[at_M], taught_L[at_M] = target_M, True
        return {"return_L": return_L, "value_weight_L": (taught_L / max(1, taught_L.sum())).astype(np.float32)}

    def _afterwards(self, played: Played, target_M: FloatArray) -> tuple[IntArray, FloatArray]:
        """States after a turn, and what they are worth: the return of what comes next, 0 after the end."""
        table = played.table
        row_M = played.turn_S if self.per_token else np.arange(table.n_turns)
        next_N = np.searchsorted(row_M, np.arange(table.n_turns), side="right")
        reachable_N = np.minimum(next_N, len(row_M) - 1)
        goes_on_N = (next_N < len(row_M)) & (table.traj_N[row_M[reachable_N]] == table.traj_N)
        last_N = np.append(table.index_N[1:] == 0, True)
        finished_B = np.array([trajectory.ending.terminated for trajectory in played.trajectories])
        known_N = goes_on_N | (last_N & finished_B[table.traj_N])
        after_N = np.where(goes_on_N, target_M[reachable_N], 0)
        return played.after_N[known_N], after_N[known_N].astype(np.float32)


def explained(value_M: FloatArray, return_M: FloatArray) -> Metrics:
    """``value/explained_variance``, ``1 − Var(G − V)/Var(G)``: 1 is perfect, 0 is a constant, below 0 is worse.

    Missing where all returns are alike, for then there is nothing to explain. ``value/mean`` and ``value/return`` are
    the means of both, before the update.
    """
    found = {"value/mean": float(value_M.mean()), "value/return": float(return_M.mean())}
    spread = float(return_M.var(dtype=np.float64))
    if spread > VARIED:
        found["value/explained_variance"] = 1 - float((return_M - value_M).var(dtype=np.float64)) / spread
    return found


# --- the policy's own uncertainty and belief --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entropies:
    """``entropy_S`` of each policy token and ``entropy_N``, its mean over a turn (NaN without tokens), in nats."""

    learner: Learner

    def measure(self, played: Played) -> Found:
        """See ``Signal``."""
        entropy_L = self.learner.entropies(played.batch)
        count_N = np.bincount(played.turn_S, minlength=played.table.n_turns)
        mean_N = np.where(count_N > 0, played.sums(entropy_L) / np.maximum(count_N, 1), np.nan)
        return Found(columns={"entropy_N": mean_N.astype(np.float32), "entropy_S": entropy_L[played.spoken_S]})


@dataclass(frozen=True, slots=True, kw_only=True)
class Beliefs:
    """``gain_N``: what each turn adds to the policy's belief in the right answer (see ``credit.igpo``).

    The belief before a turn is ``exp(mean log π)`` over the tokens of the answer, as if the assistant gave it there,
    with the sampler's temperature and the whole vocabulary. ``answer`` gives what the assistant says first, which does
    not count, and the answer. One more forward pass over the context of each turn. ``log`` takes differences of
    logarithms.
    """

    learner: Learner
    chat: Chat
    answer: Callable[[Task], tuple[str, str]]
    log: bool = False

    def measure(self, played: Played) -> Found:
        """See ``Signal``."""
        logprobs = likelihoods_of(self.learner)(*self._asked(played))
        belief_N = np.array([np.exp(one.mean(dtype=np.float64)) if len(one) else np.nan for one in logprobs])
        gain_N = information_gain(played.table, belief_N, log=self.log)
        return Found(columns={"gain_N": gain_N.astype(np.float32)})

    def _asked(self, played: Played) -> tuple[list[IntArray], list[BoolArray]]:
        """Per turn: everything before it is spoken, and the right answer instead, which is what is asked for."""
        ids, asked = [], []
        for trajectory in played.trajectories:
            first, answer = (self.chat.encode_turn(text)[:-1] for text in self.answer(trajectory.task))
            so_far: list[IntArray] = []
            for turn in trajectory.turns:
                so_far.append(turn.context_ids)
                ids.append(np.concatenate([*so_far, first, answer]))
                asked.append(np.arange(len(ids[-1])) >= len(ids[-1]) - len(answer))
                so_far.append(turn.completion.ids_K)
        return ids, asked


# --- another model beside the policy ----------------------------------------------------------------------------------

RewardLoss: TypeAlias = Callable[[TurnTable], tuple[float, npt.NDArray[np.float64]]]
ALONG = PolicyLoss(objective=Reinforce())  # Σ −advantage·log π: descends along any gradient with respect to log π


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatios:
    """``logratio_S``, ``log π_φ − log π_ref`` of each policy token, and ``logratio_N``, its sum over a turn.

    ``model`` is φ and ``base`` the reference; None is the sampler, as it was when it spoke. With ``loss`` (from the
    table to a number and its gradient with respect to each trajectory's Σ log-ratio: ``credit.implicit``), φ takes one
    step after each measurement, so the numbers of a step are those of φ before it has seen the outcomes. Models are
    measured over the whole vocabulary; a sampler that cuts its own is what it was.
    """

    model: Learner | None = None
    base: Learner | None = None
    loss: RewardLoss | None = None

    def measure(self, played: Played) -> Found:
        """See ``Signal``."""
        ratio_L = self._logprobs(self.model, played.batch) - self._logprobs(self.base, played.batch)
        ratio_N = played.sums(ratio_L).astype(np.float32)
        columns: Columns = {"logratio_S": ratio_L[played.spoken_S], "logratio_N": ratio_N}

        def lesson(table: TurnTable) -> tuple[Mapping[str, FloatArray], Metrics]:
            return {}, self._learn(replace(table, measured={**table.measured, "logratio_N": ratio_N}), played)

        return Found(columns=columns, lesson=nothing if self.loss is None else lesson)

    @staticmethod
    def _logprobs(learner: Learner | None, batch: Batch) -> FloatArray:
        return batch.logprob_L if learner is None else learner.logprobs(batch, whole=True)

    def _learn(self, table: TurnTable, played: Played) -> Metrics:
        assert self.model is not None
        assert self.loss is not None
        loss, gradient_B = self.loss(table)
        batch = played.batch
        advantage_L = np.zeros(batch.n_tokens, np.float32)
        advantage_L[played.spoken_S] = -gradient_B[table.traj_N[played.turn_S]]
        along = replace(
            batch,
            advantage_L=advantage_L,
            policy_weight_L=(batch.policy_weight_L > 0).astype(np.float32),
            logprob_L=np.zeros_like(batch.logprob_L),
        )
        self.model.forward_backward(along, ALONG)
        return {"reward_model/loss": loss, "reward_model/grad_norm": self.model.optim_step()["learner/grad_norm"]}
