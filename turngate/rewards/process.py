"""Process rewards and costs per turn, from facts that were measured during or after the episode.

Judged steps (CAPO), verifiable tags (RLVMR), information gain (IGPO), then costs: events charged against a budget,
and lengths. The costs are built so that an episode never gains by doing more: ``charged`` never falls when something
is added, and length costs grow with the length, act among successes only and are bounded.

The costs that one episode alone decides exist as rubric components too, in ``components``.
"""

from enum import IntEnum
from typing import Literal

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.columns import (
    Float64Array,
    Int64Array,
    flags,
    labels,
    last_known,
    numbers,
    owners,
    prefix_sum,
    share,
    shifted,
    turns_left,
)
from turngate.rewards.statistics import check_scale, group_stats, z_scores
from turngate.types import BoolArray

# --- CAPO: steps judged by critiques ---------------------------------------------------------------------------------


def capo_votes(
    bad_NC: npt.ArrayLike, *, mode: Literal["majority", "intersection", "average"] = "majority"
) -> Float64Array:
    """What C critiques together say of each turn, 1 = wrong: float64[N].

    "majority": more than half of the valid ones call it wrong; "intersection": all of them; "average": their share.
    An invalid critique (NaN) has no vote; no valid one leaves the turn without verdict (NaN). A tie is no majority.

    Source: https://arxiv.org/abs/2508.02298. Raises ShapeError for anything but 0, 1 or NaN, ConfigError.
    """
    if mode not in ("majority", "intersection", "average"):
        raise ConfigError(f"mode is '{mode}'; it must be 'majority', 'intersection' or 'average'")
    bad_NC = np.asarray(bad_NC, np.float64)
    if bad_NC.ndim != 2:
        raise ShapeError(f"bad_NC has shape {bad_NC.shape}, expected turns × critiques")
    flags("bad_NC", bad_NC, bad_NC.shape, missing="allowed")
    n_valid_N = (~np.isnan(bad_NC)).sum(axis=1)
    share_N = np.where(n_valid_N > 0, np.nansum(bad_NC, axis=1) / np.maximum(n_valid_N, 1), np.nan)
    if mode == "average":
        return share_N
    wrong_N = share_N > 0.5 if mode == "majority" else share_N == 1.0
    return np.where(np.isnan(share_N), np.nan, wrong_N)


def capo(
    bad_N: npt.ArrayLike,
    outcome_B: npt.ArrayLike,
    traj_N: npt.ArrayLike,
    *,
    w_outcome: float = 2.0,
    w_process: float = 1.0,
) -> Float64Array:
    """Reward of every *token* of a turn: ``r_t = w_outcome · o − w_process · bad_t``: float64[N].

    Never sum it over turns: the outcome is in it T times. Take ``capo_advantage``. ``bad_N`` lies in [0, 1]; a turn
    without verdict is not punished.

    Source: https://arxiv.org/abs/2508.02298, reconstructed; the weights (2, 1) are not certain to be the paper's, only
    w_outcome > w_process is, so that a wrong step of a success still beats a right one of a failure. Raises
    ShapeError, ConfigError unless w_outcome > w_process ≥ 0.
    """
    if not w_outcome > w_process >= 0:
        raise ConfigError(f"capo needs w_outcome > w_process ≥ 0, found {w_outcome} and {w_process}")
    outcome_B = numbers("outcome_B", outcome_B)
    traj_N = owners(traj_N, len(outcome_B))
    bad_N = numbers("bad_N", bad_N, traj_N.shape, missing="allowed", low=0.0, high=1.0)
    return w_outcome * outcome_B[traj_N] - w_process * np.nan_to_num(bad_N, nan=0.0)


def capo_advantage(
    reward_N: npt.ArrayLike,
    tokens_N: npt.ArrayLike,
    traj_N: npt.ArrayLike,
    cohort_B: npt.ArrayLike,
    *,
    eps: float = 1e-6,
    ddof: int = 1,
) -> Float64Array:
    """``A = z(r)`` over all policy tokens of the cohort, turn t counting ``tokens_N[t]`` times: float64[N].

    Known weakness: long turns set the mean. Equal rewards give 0. See ``capo``. Raises ShapeError, ConfigError.
    """
    check_scale(eps, ddof)
    traj_N = owners(traj_N)
    cohort_B = np.asarray(cohort_B)
    cohort_B = labels("cohort_B", cohort_B, max(cohort_B.size, int(traj_N.max(initial=-1)) + 1))
    reward_N = numbers("reward_N", reward_N, traj_N.shape)
    return group_stats(reward_N, cohort_B[traj_N], weight_M=tokens_N, name="reward_N").z_M(eps=eps, ddof=ddof)


# --- RLVMR: verifiable tags ------------------------------------------------------------------------------------------


class Tag(IntEnum):
    """What a step says that it does. NONE: no tag, or the step was not valid; MALFORMED: a tag that does not parse."""

    PLANNING = 0
    EXPLORE = 1
    REFLECTION = 2
    MONITOR = 3
    NONE = 4
    MALFORMED = 5


def rlvmr_rewards(
    tag_N: npt.ArrayLike,
    success_B: npt.ArrayLike,
    repeated_N: npt.ArrayLike,
    valid_N: npt.ArrayLike,
    changed_N: npt.ArrayLike,
    traj_N: npt.ArrayLike,
    *,
    malformed: float = -0.1,
) -> Float64Array:
    """What a tag earns, checked against what the step did: float64[N].

    PLANNING 1 if the episode succeeds; EXPLORE 1 if the action was not taken before (``repeated_N`` 0); REFLECTION 1
    if the step before was not valid and the action changed; MALFORMED ``malformed``; everything else 0. An invalid
    step earns nothing for its tag. The first turn has nothing to reflect on.

    Source: https://arxiv.org/abs/2507.22844. Known weakness: novelty is paid for its own sake, and planning pays the
    outcome a second time. Raises ShapeError.
    """
    tag_N, success_B, traj_N = _tagged(tag_N, success_B, traj_N)
    repeated_N = flags("repeated_N", repeated_N, traj_N.shape)
    valid_N = flags("valid_N", valid_N, traj_N.shape)
    changed_N = flags("changed_N", changed_N, traj_N.shape)
    was_valid_N = shifted(valid_N, traj_N, np.ones(len(success_B)))
    earned_N = np.zeros(len(tag_N))
    earned_N[tag_N == Tag.PLANNING] = success_B[traj_N][tag_N == Tag.PLANNING]
    earned_N[tag_N == Tag.EXPLORE] = 1 - repeated_N[tag_N == Tag.EXPLORE]
    earned_N[tag_N == Tag.REFLECTION] = ((was_valid_N == 0) & (changed_N == 1))[tag_N == Tag.REFLECTION]
    return np.where(tag_N == Tag.MALFORMED, malformed, earned_N * valid_N)


def rlvmr(
    reward_N: npt.ArrayLike,
    tag_N: npt.ArrayLike,
    outcome_B: npt.ArrayLike,
    traj_N: npt.ArrayLike,
    cohort_B: npt.ArrayLike,
    *,
    alpha: float = 0.5,
    form: Literal["paper", "code"] = "paper",
    eps: float = 1e-6,
    ddof: int = 1,
) -> Float64Array:
    """``A = α z_cohort(o) + (1 − α) z_tag(r)``; z_tag compares the steps of one cohort and one tag: float64[N].

    ``form="code"`` is ``z_cohort(o) + w z_tag(r)`` with w = ``alpha``; the released scripts use w = 1, twice the scale
    of the paper's form. NONE and MALFORMED steps are compared with each other. Outcome statistics are taken over
    trajectories (the released code takes them over steps, so long episodes weigh more).

    Source: https://arxiv.org/abs/2507.22844, α = 0.5. Degenerate: a tag seen once gives 0 (released: the raw reward
    leaks); so do equal rewards. Becomes GRPO on the outcome for α = 1 (paper) or 0 (code). Raises ShapeError,
    ConfigError.
    """
    if form not in ("paper", "code"):
        raise ConfigError(f"form is '{form}'; it must be 'paper' or 'code'")
    share("alpha", alpha, high=1.0 if form == "paper" else np.inf)
    tag_N, outcome_B, traj_N = _tagged(tag_N, outcome_B, traj_N)
    cohort_B = labels("cohort_B", cohort_B, len(outcome_B))
    reward_N = numbers("reward_N", reward_N, traj_N.shape, missing="allowed")
    pool_N = np.minimum(tag_N, int(Tag.NONE)) + len(Tag) * cohort_B[traj_N]
    z_N = np.nan_to_num(z_scores(reward_N, pool_N, eps=eps, ddof=ddof, name="reward_N"), nan=0.0)
    z_B = z_scores(outcome_B, cohort_B, eps=eps, ddof=ddof, name="outcome_B")
    return z_B[traj_N] + alpha * z_N if form == "code" else alpha * z_B[traj_N] + (1 - alpha) * z_N


def _tagged(
    tag_N: npt.ArrayLike, outcome_B: npt.ArrayLike, traj_N: npt.ArrayLike
) -> tuple[Int64Array, Float64Array, Int64Array]:
    outcome_B = numbers("outcome_B", outcome_B)
    traj_N = owners(traj_N, len(outcome_B))
    return labels("tag_N", tag_N, len(traj_N), below=len(Tag)), outcome_B, traj_N


# --- IGPO: information gain ------------------------------------------------------------------------------------------


def information_gain(
    gold_logprob_N: npt.ArrayLike,
    start_logprob_B: npt.ArrayLike,
    traj_N: npt.ArrayLike,
    *,
    form: Literal["prob", "log"] = "prob",
) -> Float64Array:
    """``r_t = p_t − p_{t−1}``: how much more the policy believes in the gold answer after a turn: float64[N].

    ``gold_logprob_N`` is the mean log-probability (nats) of the gold answer's tokens, teacher-forced into the answer
    template, after turn t; ``start_logprob_B`` before the first one. Both are evidence, measured by whoever has the
    policy. ``p = exp(·)``, or the log-probability itself for ``form="log"``. The last turn gets NaN: the outcome pays
    there (``igpo_rewards``).

    Source: https://arxiv.org/abs/2510.14967. A turn that was not measured is NaN, and the next gain spans it, so the
    gains add up to ``p_{T−1} − p_0`` whatever the length: potential-based shaping with Φ = p. Known weaknesses: needs
    a gold answer; quoting it in a search query inflates p; belief may fall rightly. Raises ShapeError for a
    log-probability above 0, ConfigError.
    """
    if form not in ("prob", "log"):
        raise ConfigError(f"form is '{form}'; it must be 'prob' or 'log'")
    start_B = numbers("start_logprob_B", start_logprob_B, missing="allowed", high=0.0)
    traj_N = owners(traj_N, len(start_B))
    belief_N = numbers("gold_logprob_N", gold_logprob_N, traj_N.shape, missing="allowed", high=0.0)
    if form == "prob":
        start_B, belief_N = np.exp(start_B), np.exp(belief_N)
    known_N = last_known(belief_N, traj_N)
    known_N = np.where(np.isnan(known_N), start_B[traj_N], known_N)
    gain_N = belief_N - shifted(known_N, traj_N, start_B)
    return np.where(turns_left(traj_N) == 0, np.nan, gain_N)


def igpo_rewards(
    gain_N: npt.ArrayLike, outcome_B: npt.ArrayLike, traj_N: npt.ArrayLike, *, weight: float = 1.0
) -> Float64Array:
    """IGPO's reward per turn: ``weight`` times the gain, and the outcome at the last turn: float64[N].

    Gains without verdict stay NaN. weight = 1 as published; others found 0.5 and more unstable and use 0.1. An episode
    of one turn is paid its outcome alone. Source: https://arxiv.org/abs/2510.14967. Raises ShapeError.
    """
    outcome_B = numbers("outcome_B", outcome_B)
    traj_N = owners(traj_N, len(outcome_B))
    gain_N = numbers("gain_N", gain_N, traj_N.shape, missing="allowed")
    return np.where(turns_left(traj_N) == 0, outcome_B[traj_N], weight * gain_N)


# --- events charged against a budget ---------------------------------------------------------------------------------


def charged(amount_N: npt.ArrayLike, traj_N: npt.ArrayLike, *, free: float = 0.0, budget: float = 4.0) -> Float64Array:
    """What each turn uses up of an episode's budget of bad events: float64[N], each in [0, 1], at most 1 per episode.

    With ``U_t`` the amounts up to turn t, ``c_t = (clip(U_t − free, 0, budget) − clip(U_{t−1} − free, 0, budget)) /
    budget``: the first ``free`` are free, the next ``budget`` cost 1 / budget each, the rest nothing more. Adding an
    amount anywhere never lowers the sum, and the sum is bounded whatever the length (ours). Multiply with a negative
    weight. A turn without measurement is NaN and uses up nothing.

    Raises ShapeError for a negative amount, ConfigError for free < 0 or budget ≤ 0.
    """
    if not (0 <= free < np.inf and 0 < budget < np.inf):
        raise ConfigError(f"charged needs free ≥ 0 and budget > 0, found {free} and {budget}")
    traj_N = owners(traj_N)
    amount_N = numbers("amount_N", amount_N, traj_N.shape, missing="allowed", low=0.0)
    used_N = (prefix_sum(np.nan_to_num(amount_N, nan=0.0), traj_N) - free).clip(0.0, budget)
    before_N = shifted(used_N, traj_N, np.zeros(int(traj_N.max(initial=-1)) + 1))
    return np.where(np.isnan(amount_N), np.nan, (used_N - before_N) / budget)


def repeats(action_N: npt.ArrayLike, traj_N: npt.ArrayLike, state_N: npt.ArrayLike | None = None) -> BoolArray:
    """Whether the same action was taken before in the same episode: bool[N].

    ``action_N`` holds whole numbers that are equal for equal actions (a hash), negative = no action, which repeats
    nothing. With ``state_N`` (negative = unknown, no state repeats it) the state has to be the same too, so that
    trying again after something changed is no repeat. Feed it to ``charged``. Raises ShapeError.
    """
    traj_N = owners(traj_N)
    key_N = _keys("action_N", action_N, traj_N)
    unknown_N = key_N < 0
    columns = [key_N, traj_N]
    if state_N is not None:
        state_key_N = _keys("state_N", state_N, traj_N)
        unknown_N |= state_key_N < 0
        columns.append(state_key_N)
    first_N = np.zeros(len(traj_N), np.bool_)
    first_N[np.unique(np.stack(columns), axis=1, return_index=True)[1]] = True
    return ~first_N & ~unknown_N


def _keys(name: str, key_N: npt.ArrayLike, traj_N: Int64Array) -> Int64Array:
    found = np.asarray(key_N)
    if found.shape != traj_N.shape or (found.size and found.dtype.kind not in "iu"):
        raise ShapeError(f"{name} must hold {len(traj_N)} whole numbers, found {found.dtype}{list(found.shape)}")
    return found.astype(np.int64, copy=False)


def void_mask(
    void_N: npt.ArrayLike, traj_N: npt.ArrayLike, *, scope: Literal["trajectory", "turn"] = "trajectory"
) -> BoolArray:
    """Which turns may train: not those of an episode with a void turn, or not the void turn alone: bool[N].

    A void turn holds neither a complete tool call nor a final answer. The masked episode stays in the reward
    statistics of its group; only its tokens leave the loss. An unknown turn (NaN) is not void.

    Source: SimpleTIR, https://arxiv.org/abs/2509.02479. Known weakness: masking hides a collapse of the format, so
    watch the share of void turns (0.2 is alarming). Raises ShapeError, ConfigError.
    """
    if scope not in ("trajectory", "turn"):
        raise ConfigError(f"scope is '{scope}'; it must be 'trajectory' or 'turn'")
    traj_N = owners(traj_N)
    trains_N: BoolArray = flags("void_N", void_N, traj_N.shape, missing="allowed") != 1
    if scope == "trajectory" and len(traj_N):
        trains_N = (np.bincount(traj_N, weights=~trains_N) == 0)[traj_N]
    return trains_N


# --- lengths ---------------------------------------------------------------------------------------------------------


def overlong(
    length_B: npt.ArrayLike, *, limit: float, buffer: float, factor: float = 1.0, floor: float | None = -1.0
) -> Float64Array:
    """Soft overlong punishment: 0 up to ``limit − buffer``, then falling by ``factor`` per buffer: float64[B].

    ``max(floor, −factor · max(L − (limit − buffer), 0) / buffer)``. Lengths are policy tokens (tool output is not the
    policy's doing) or turns. ``floor=None`` has no floor, as in verl.

    Source: DAPO, https://arxiv.org/abs/2503.14476, limit 20480 and buffer 4096 tokens. Known weakness: it punishes long
    failures too, which teaches giving up early; among successes only is ``cost_among_successes``. An episode that a
    budget cut short should be masked rather than punished, unless finishing in time is the skill. Raises ShapeError,
    ConfigError unless 0 < buffer ≤ limit, factor ≥ 0 and floor ≤ 0.
    """
    if not (0 < buffer <= limit < np.inf and factor >= 0 and (floor is None or floor <= 0)):
        raise ConfigError(
            f"overlong needs 0 < buffer ≤ limit, factor ≥ 0 and floor ≤ 0, found {buffer}, {limit}, {factor}, {floor}"
        )
    length_B = numbers("length_B", length_B, low=0.0)
    cost_B = -np.maximum(length_B - (limit - buffer), 0.0) / buffer * factor
    return cost_B if floor is None else np.maximum(cost_B, floor)


def cost_among_successes(
    length_B: npt.ArrayLike, success_B: npt.ArrayLike, cohort_B: npt.ArrayLike, *, weight: float = 0.1
) -> Float64Array:
    """``−λ (L − L_min) / (L_max − L_min)`` over the successes of the cohort; failures cost nothing: float64[B].

    Shorter successes beat longer ones of the same task, by at most λ = 0.1 (ours), and nobody gains by failing early.
    Lengths are turns, policy tokens or calls. Degenerate: one success, or equally long ones, cost nothing. Raises
    ShapeError, ConfigError for λ < 0.
    """
    if not 0 <= weight < np.inf:
        raise ConfigError(f"weight is {weight}; a cost is at least 0")
    length_B = numbers("length_B", length_B, low=0.0)
    passed_B = flags("success_B", success_B, length_B.shape) == 1
    cohort_B = labels("cohort_B", cohort_B, len(length_B))
    n_cohorts = int(cohort_B.max(initial=-1)) + 1
    low_G, high_G = np.full(n_cohorts, np.inf), np.zeros(n_cohorts)
    np.minimum.at(low_G, cohort_B[passed_B], length_B[passed_B])
    np.maximum.at(high_G, cohort_B[passed_B], length_B[passed_B])
    range_B = (high_G - low_G)[cohort_B]
    costs_B = passed_B & (range_B > 0)
    above_B = np.where(costs_B, length_B - low_G[cohort_B], 0.0)
    return -weight * above_B / np.where(costs_B, range_B, 1.0)
