"""Every episode of a process as a row, and what follows exactly from that: probabilities, values, return, gradient.

Suffixes: ``_P`` episodes (rows), ``_PT`` their turns (padded to the longest), ``_OA`` observation × action.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from benchmarks.credit_lab.processes import Edge, Process
from turngate.types import derive_seed

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Paths:
    """All episodes, sorted so that those that begin alike lie together.

    ``low_PT, high_PT``: the rows that share the first t turns of row p are ``low ≤ row < high``. ``node_PT`` numbers
    these histories. Rows of one task are ``task_low_K ≤ row < task_high_K``. Beyond the end of an episode observation
    and action are −1, rewards 0. ``paid_PT`` is what the process verdicts are paid, ``reward_PT`` where it is booked.
    """

    process: Process
    observations: tuple[str, ...]
    observation_PT: Ints
    action_PT: Ints
    reward_PT: Floats
    process_PT: Floats
    paid_PT: Floats
    open_P: npt.NDArray[np.bool_]
    outcome_P: Floats
    truth_P: Floats
    log_chance_P: Floats
    length_P: Ints
    low_PT: Ints
    high_PT: Ints
    node_PT: Ints
    task_low_K: Ints
    task_high_K: Ints
    task_chance_K: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """(observations, actions): the shape of the policy's logits."""
        return len(self.observations), len(self.process.actions)

    @cached_property
    def counts_PX(self) -> Floats:
        """How often each (observation, action) occurs in each episode: float64[P, O·A]."""
        n_actions = self.shape[1]
        counts_PX = np.zeros((len(self.length_P), self.shape[0] * n_actions))
        row, turn = np.nonzero(self.action_PT >= 0)
        np.add.at(counts_PX, (row, self.observation_PT[row, turn] * n_actions + self.action_PT[row, turn]), 1.0)
        return counts_PX

    @cached_property
    def total_P(self) -> Floats:
        """Everything that is paid in each episode."""
        total_P: Floats = self.reward_PT.sum(1)
        return total_P

    @cached_property
    def to_go_PT(self) -> Floats:
        """Payments from turn t to the end."""
        return np.cumsum(self.reward_PT[:, ::-1], axis=1)[:, ::-1]


@dataclass(frozen=True, slots=True)
class _Step:
    state: str
    action: int
    number: int
    edge: Edge


def enumerate_paths(process: Process) -> Paths:
    """All episodes of ``process``, by depth-first search over actions and edges."""
    episodes = [(task, steps) for task in process.tasks for steps in _extend(process, task, ())]
    states = dict.fromkeys(process.observation(state) for state, _ in process.edges)
    observations = tuple(states)
    place = {name: number for number, name in enumerate(observations)}
    longest = max(len(steps) for _, steps in episodes)
    observation_PT = _pad([[place[process.observation(s.state)] for s in steps] for _, steps in episodes], longest, -1)
    action_PT = _pad([[s.action for s in steps] for _, steps in episodes], longest, -1)
    verdict_PT = _pad([[s.edge.process for s in steps] for _, steps in episodes], longest, np.nan)
    payment_PT = _pad([[s.edge.outcome for s in steps] for _, steps in episodes], longest, 0.0)
    outcome_P = payment_PT.sum(1)
    open_P = (outcome_P >= 1.0) if process.gated else np.ones(len(episodes), np.bool_)
    paid_PT = booked_PT = process.process_weight * np.nan_to_num(verdict_PT) * open_P[:, None]
    if process.book_last:
        last_P = np.array([len(steps) for _, steps in episodes]) - 1
        booked_PT = np.where(np.arange(longest) == last_P[:, None], paid_PT.sum(1, keepdims=True), 0.0)
    low_PT, high_PT = _prefixes([(task, *((s.action, s.number) for s in steps)) for task, steps in episodes], longest)
    starts = np.array([list(process.tasks).index(task) for task, _ in episodes])
    return Paths(
        process=process,
        observations=observations,
        observation_PT=observation_PT.astype(np.int64),
        action_PT=action_PT.astype(np.int64),
        reward_PT=payment_PT + booked_PT,
        process_PT=verdict_PT,
        paid_PT=paid_PT,
        open_P=open_P,
        outcome_P=outcome_P,
        truth_P=np.array([sum(s.edge.truth for s in steps) for _, steps in episodes]),
        log_chance_P=np.array([sum(np.log(s.edge.probability) for s in steps) for _, steps in episodes]),
        length_P=np.array([len(steps) for _, steps in episodes]),
        low_PT=low_PT,
        high_PT=high_PT,
        node_PT=low_PT * longest + np.arange(longest),
        task_low_K=np.searchsorted(starts, np.arange(len(process.tasks)), side="left"),
        task_high_K=np.searchsorted(starts, np.arange(len(process.tasks)), side="right"),
        task_chance_K=np.array(list(process.tasks.values())),
    )


def _extend(process: Process, state: str, steps: tuple[_Step, ...]) -> Iterator[tuple[_Step, ...]]:
    for action in range(len(process.actions)):
        for number, edge in enumerate(process.edges[state, action]):
            longer = (*steps, _Step(state, action, number, edge))
            if edge.to is None or len(longer) == process.max_turns:
                yield longer
            else:
                yield from _extend(process, edge.to, longer)


def _pad(rows: list[list[float]] | list[list[int]], width: int, filler: float) -> Floats:
    return np.array([[*row, *[filler] * (width - len(row))] for row in rows], np.float64)


def _prefixes(keys: list[tuple[object, ...]], longest: int) -> tuple[Ints, Ints]:
    """First row, and one past the last row, that agree with each row about the task and the first t turns."""
    low_PT, high_PT = np.zeros((len(keys), longest), np.int64), np.zeros((len(keys), longest), np.int64)
    for turn in range(longest):
        begins = [row for row in range(len(keys)) if not row or keys[row][: turn + 1] != keys[row - 1][: turn + 1]]
        ends = [*begins[1:], len(keys)]
        for begin, end in zip(begins, ends, strict=True):
            low_PT[begin:end, turn], high_PT[begin:end, turn] = begin, end
    return low_PT, high_PT


# --- exact quantities ------------------------------------------------------------------------------------------------


def log_policy(logits_OA: Floats) -> Floats:
    """``log softmax`` over the last axis."""
    shifted = logits_OA - logits_OA.max(-1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def chances(paths: Paths, logits_OA: Floats) -> Floats:
    """The probability of each episode, given its task: float64[P]; 1 in sum for each task."""
    result: Floats = np.exp(paths.log_chance_P + paths.counts_PX @ log_policy(logits_OA).ravel())
    return result


def weights(paths: Paths, logits_OA: Floats) -> Floats:
    """The probability of each episode: float64[P], 1 in sum."""
    rows_K = paths.task_high_K - paths.task_low_K
    return chances(paths, logits_OA) * np.repeat(paths.task_chance_K, rows_K)


def expectation(paths: Paths, logits_OA: Floats, value_P: Floats) -> float:
    """The expected value under the policy of anything known about an episode."""
    return float(weights(paths, logits_OA) @ value_P)


def gradient(paths: Paths, logits_OA: Floats, value_P: Floats) -> Floats:
    """``∇ E[value] = E[value Σ_t ∇ log π(a_t | o_t)]``, summed over all episodes: float64[O, A]."""
    visits_OA = ((weights(paths, logits_OA) * value_P) @ paths.counts_PX).reshape(paths.shape)
    return score(visits_OA, logits_OA)


def score(credit_OA: Floats, logits_OA: Floats) -> Floats:
    """``Σ credit(o, a) ∇ log π(a | o)`` for a tabular softmax: credit − π(a|o) Σ_a credit; last two axes are O, A."""
    result: Floats = credit_OA - np.exp(log_policy(logits_OA)) * credit_OA.sum(-1, keepdims=True)
    return result


def conditional(paths: Paths, logits_OA: Floats, value_PT: Floats) -> Floats:
    """The expectation of a number, given the history before turn t: float64[P, T].

    ``to_go_PT`` gives a perfect critic. The history includes what the environment did not show; as a baseline that is
    fair, because it is known before the action.
    """
    chance_P = chances(paths, logits_OA)
    chance_PT = np.broadcast_to(chance_P[:, None], value_PT.shape)
    size = int(paths.node_PT.max()) + 1
    mass = np.bincount(paths.node_PT.ravel(), weights=chance_PT.ravel(), minlength=size)
    total = np.bincount(paths.node_PT.ravel(), weights=(chance_PT * value_PT).ravel(), minlength=size)
    known_PT: Floats = (total / np.where(mass > 0, mass, 1.0))[paths.node_PT]
    return known_PT


def comparison_policy(process: Process, shape: tuple[int, int]) -> Floats:
    """The logits at which gradients are compared: fixed numbers, drawn once from a normal distribution."""
    rng = np.random.default_rng(derive_seed("credit lab", process.name))
    logits_OA: Floats = process.logit_scale * rng.normal(size=shape)
    return logits_OA
