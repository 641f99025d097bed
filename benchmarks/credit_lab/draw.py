"""Episodes drawn many at a time, as cohorts of siblings or as small trees, and their ``TurnTable``.

Several policies can be drawn from at once (``owner_B`` says which); learning uses that to train all seeds together.
Auxiliary models are exact: the critic's values, the step scores and the beliefs come from the enumeration, so that an
estimator is never blamed for a bad model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.credit_lab.paths import Floats, Ints, Paths, chances, conditional, log_policy, score
from turngate.errors import UnknownName
from turngate.types import TurnTable


@dataclass(frozen=True, kw_only=True, eq=False)
class Draw:
    """Drawn episodes: rows of ``paths``, with owner, cohort, and where they branched off (−1 = a root of its own)."""

    paths: Paths
    logits_WOA: Floats
    path_B: Ints
    owner_B: Ints
    cohort_B: Ints
    parent_B: Ints
    branch_B: Ints

    @cached_property
    def traj_N(self) -> Ints:
        """Trajectory of each turn."""
        return np.repeat(np.arange(len(self.path_B)), self.paths.length_P[self.path_B])

    @cached_property
    def index_N(self) -> Ints:
        """Index of each turn in its trajectory."""
        length_B = self.paths.length_P[self.path_B]
        first_B = np.cumsum(length_B) - length_B
        turns: Ints = np.arange(len(self.traj_N)) - first_B[self.traj_N]
        return turns

    @property
    def last_N(self) -> npt.NDArray[np.bool_]:
        """True at the last turn of each trajectory."""
        return np.append(self.traj_N[1:] != self.traj_N[:-1], True)

    def of_turns(self, value_PT: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Gather a column of turns."""
        gathered: npt.NDArray[Any] = value_PT[self.path_B[self.traj_N], self.index_N]
        return gathered

    @cached_property
    def choice_N(self) -> Ints:
        """Number of the (observation, action) pair of each turn."""
        n_actions = self.paths.shape[1]
        choice: Ints = self.of_turns(self.paths.observation_PT) * n_actions + self.of_turns(self.paths.action_PT)
        return choice


def draw(
    paths: Paths, logits_WOA: Floats, *, cohorts: int, siblings: int, rngs: Sequence[np.random.Generator], forked: bool
) -> Draw:
    """``cohorts`` cohorts for each of the W policies, each of its own generator.

    A cohort has one task. With ``forked`` its second half are branches: each shares the first turns of a root of its
    own, as many as a number drawn from ``fork_turns``, and goes on by itself; a root that had already ended is
    repeated. The branch point does not depend on what happened, so a branch by itself is distributed like a root.
    """
    parts = [_paths_of(paths, chances(paths, one), cohorts, siblings, rng, forked)
             for one, rng in zip(logits_WOA, rngs, strict=True)]  # fmt: skip
    size = cohorts * siblings
    path_B = np.concatenate([path_B for path_B, _ in parts])
    branch_B = np.concatenate([branch_B for _, branch_B in parts])
    place_B = np.arange(len(path_B))
    return Draw(
        paths=paths,
        logits_WOA=logits_WOA,
        path_B=path_B,
        owner_B=place_B // size,
        cohort_B=place_B // siblings,
        parent_B=np.where(branch_B > 0, place_B - siblings // 2, -1),
        branch_B=branch_B,
    )


def _paths_of(
    paths: Paths, chance_P: Floats, cohorts: int, siblings: int, rng: np.random.Generator, forked: bool
) -> tuple[Ints, Ints]:
    cumulative_P = np.cumsum(chance_P)
    task_C = rng.choice(len(paths.task_chance_K), size=cohorts, p=paths.task_chance_K)
    roots = siblings - siblings // 2 if forked else siblings
    low_CR = np.repeat(paths.task_low_K[task_C], roots).reshape(cohorts, roots)
    high_CR = np.repeat(paths.task_high_K[task_C], roots).reshape(cohorts, roots)
    root_CR = _pick(cumulative_P, low_CR, high_CR, rng)
    if not forked:
        return root_CR.ravel(), np.zeros(root_CR.size, np.int64)
    parent_CF = root_CR[:, -(siblings // 2) :]
    turn_CF = np.minimum(rng.choice(paths.process.fork_turns, size=parent_CF.shape), paths.length_P[parent_CF])
    fork_CF = _pick(cumulative_P, paths.low_PT[parent_CF, turn_CF], paths.high_PT[parent_CF, turn_CF], rng)
    branch_CS = np.concatenate([np.zeros_like(root_CR), turn_CF], axis=1)
    return np.concatenate([root_CR, fork_CF], axis=1).ravel(), branch_CS.ravel()


def _pick(cumulative_P: Floats, low: Ints, high: Ints, rng: np.random.Generator) -> Ints:
    """One row from each range, in proportion to its probability."""
    floor = np.where(low > 0, cumulative_P[low - 1], 0.0)
    point = floor + rng.random(low.shape) * (cumulative_P[high - 1] - floor)
    return np.clip(np.searchsorted(cumulative_P, point, side="right"), low, high - 1)


# --- what the estimator sees -----------------------------------------------------------------------------------------


def table(drawn: Draw, names: Sequence[str] = ()) -> TurnTable:
    """The turn table of a draw, with the measured columns ``names``.

    ``settled_B`` and ``process_paid_N`` are always there, as ``tabulate`` does it. Raises UnknownName for one not in
    ``COLUMNS``.
    """
    for name in names:
        if name not in COLUMNS:
            raise UnknownName("column of the laboratory", name, COLUMNS)
    paths = drawn.paths
    return TurnTable(
        reward_N=drawn.of_turns(paths.reward_PT).astype(np.float32),
        process_N=drawn.of_turns(paths.process_PT).astype(np.float32),
        open_N=paths.open_P[drawn.path_B[drawn.traj_N]],
        traj_N=drawn.traj_N.astype(np.int32),
        index_N=drawn.index_N.astype(np.int32),
        state_N=drawn.of_turns(paths.observation_PT),
        outcome_B=paths.outcome_P[drawn.path_B].astype(np.float32),
        cohort_B=drawn.cohort_B.astype(np.int32),
        measured={name: COLUMNS[name](drawn) for name in ("settled_B", "process_paid_N", *names)},
    )


def _surprisal(drawn: Draw) -> npt.NDArray[Any]:
    logp_WX = log_policy(drawn.logits_WOA).reshape(len(drawn.logits_WOA), -1)
    return -logp_WX[drawn.owner_B[drawn.traj_N], drawn.choice_N].astype(np.float32)


def _given_history(drawn: Draw, value_PT: Floats) -> Floats:
    """Expectation of a number, given what happened before each turn: float64[N + 1], a spare entry at the end."""
    known_WPT = np.stack([conditional(drawn.paths, logits_OA, value_PT) for logits_OA in drawn.logits_WOA])
    owner_N, path_N = drawn.owner_B[drawn.traj_N], drawn.path_B[drawn.traj_N]
    return np.append(known_WPT[owner_N, path_N, drawn.index_N], 0.0)


def _beliefs(drawn: Draw) -> tuple[Floats, Floats]:
    """The expected outcome before and after each turn: two float64[N]. After the last turn it is known."""
    outcome_PT = np.broadcast_to(drawn.paths.outcome_P[:, None], drawn.paths.node_PT.shape)
    belief = _given_history(drawn, outcome_PT)
    outcome_N = drawn.paths.outcome_P[drawn.path_B[drawn.traj_N]]
    return belief[:-1], np.where(drawn.last_N, outcome_N, belief[1:])


def _progress(drawn: Draw) -> Floats:
    """What each turn changed in the expected outcome: float64[N]."""
    before_N, after_N = _beliefs(drawn)
    return after_N - before_N


COLUMNS: Mapping[str, Callable[[Draw], npt.NDArray[Any]]] = {
    "settled_B": lambda drawn: drawn.paths.outcome_P[drawn.path_B].astype(np.float32),  # no gate cuts an outcome
    "process_paid_N": lambda drawn: drawn.of_turns(drawn.paths.paid_PT).astype(np.float32),
    "tokens_N": lambda drawn: np.ones(len(drawn.traj_N), np.int32),
    "surprisal_N": _surprisal,
    "parent_B": lambda drawn: drawn.parent_B.astype(np.int32),
    "branch_B": lambda drawn: drawn.branch_B.astype(np.int32),
    # a perfect critic, an implicit reward model at β = 0.05 that found the true progress, a perfect belief
    "value_N": lambda drawn: _given_history(drawn, drawn.paths.to_go_PT)[:-1].astype(np.float32),
    "logratio_N": lambda drawn: (_progress(drawn) / 0.05).astype(np.float32),
    "gain_N": lambda drawn: np.where(drawn.last_N, np.nan, _progress(drawn)).astype(np.float32),
    # a probe that knows the chance of success after each turn, and is as sure as that chance is far from a coin
    "accuracy_N": lambda drawn: _beliefs(drawn)[1].astype(np.float32),
    "confidence_N": lambda drawn: np.abs(2 * _beliefs(drawn)[1] - 1).clip(0, 1).astype(np.float32),
    "tag_N": lambda drawn: drawn.of_turns(drawn.paths.action_PT),
    "paid/outcome_B": lambda drawn: drawn.paths.outcome_P[drawn.path_B].astype(np.float32),
    "paid/process_B": lambda drawn: (drawn.paths.total_P - drawn.paths.outcome_P)[drawn.path_B].astype(np.float32),
}


# --- what the estimator's answer does --------------------------------------------------------------------------------


def gradients(drawn: Draw, advantage_N: npt.NDArray[Any], unit_B: Ints) -> Floats:
    """``Σ_i Σ_t A_it ∇ log π(a_t | o_t) / trajectories``, for each unit (consecutive numbers): float64[U, O·A].

    Trajectories of a unit belong to one owner. Every turn counts once, whatever the length of its episode.
    """
    n_units, (n_observations, n_actions) = int(unit_B[-1]) + 1, drawn.paths.shape
    width = n_observations * n_actions
    cell_N = unit_B[drawn.traj_N] * width + drawn.choice_N
    credit = np.bincount(cell_N, weights=advantage_N, minlength=n_units * width).astype(np.float64, copy=False)
    owner_U = np.zeros(n_units, np.int64)
    owner_U[unit_B] = drawn.owner_B
    gradient_UOA = score(credit.reshape(n_units, n_observations, n_actions), drawn.logits_WOA[owner_U])
    result: Floats = gradient_UOA.reshape(n_units, width) / np.bincount(unit_B)[:, None]
    return result
