"""Code: tests, diagnostics, similarity of patches, and what a good repair looks like on the way.

Everything here works on recorded verdicts: a test is True (passed), False (failed, or the candidate's own code made it
time out) or None (the machine failed, so the result is unknown). None is never counted as a failure, nor as a pass.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.outcome.formula import Formula
from turngate.rewards.parts import Facts, Kind, Reward, Verdict
from turngate.types import Evidence

Array: TypeAlias = npt.NDArray[np.float64]
Results: TypeAlias = Mapping[str, bool | None]


# --- tests -----------------------------------------------------------------------------------------------------------


def all_tests_pass(results: Results, fail_to_pass: Collection[str], pass_to_pass: Collection[str] = ()) -> float | None:
    """``1[every test in both lists passed]``, the outcome of SWE-bench and Agent-RLVR.

    A test that is not among the results did not run, which is a failure: a patch that deletes tests cannot pass. None
    if no test is listed, or if all that was measured passed but something was not measured.
    Source: https://arxiv.org/abs/2506.11425 (abstract read).
    """
    verdicts = [results.get(name, False) for name in (*fail_to_pass, *pass_to_pass)]
    if not verdicts or (None in verdicts and False not in verdicts):
        return None
    return float(all(verdicts))


def fraction_of_tests(
    results: Results,
    fail_to_pass: Collection[str],
    pass_to_pass: Collection[str] = (),
    *,
    tests_untouched: bool | None = True,
    faithful: bool = False,
) -> float | None:
    """Share of ``fail_to_pass`` that passed, if nothing of ``pass_to_pass`` broke; else 0. In [0, 1].

    ``tests_untouched=False`` (the hash of a test file changed) earns 0, None (not checked) gives None;
    ``faithful=True`` ignores it, so editing the tests pays. A test without a result did not run and counts as failed.
    None if a verdict that counts is None, or if ``fail_to_pass`` is empty. Becomes ``all_tests_pass`` for one test in
    ``fail_to_pass``. Source: the soft outcome next to https://arxiv.org/abs/2506.11425.
    """
    if not faithful and tests_untouched is False:
        return 0.0
    kept = [results.get(name, False) for name in pass_to_pass]
    fixed = [results.get(name, False) for name in fail_to_pass]
    if not fixed:
        return None
    if False in kept:
        return 0.0
    if None in kept or None in fixed or (not faithful and tests_untouched is None):
        return None
    return sum(map(bool, fixed)) / len(fixed)


def pass_rates(passed_BJ: npt.ArrayLike) -> Array:
    """How often B attempts passed each of J tests: float64[J]; NaN for a test that was never measured.

    ``passed_BJ`` holds 1, 0 or NaN (not measured, which does not count). Raises ShapeError for other values.
    """
    passed_BJ = np.asarray(passed_BJ, np.float64)
    if passed_BJ.ndim != 2 or not np.isin(passed_BJ[~np.isnan(passed_BJ)], (0.0, 1.0)).all():
        raise ShapeError(f"passed_BJ of shape {passed_BJ.shape} must be a matrix of 1, 0 and NaN")
    n_J = np.sum(~np.isnan(passed_BJ), axis=0)
    return np.where(n_J > 0, np.nansum(passed_BJ, axis=0) / np.maximum(n_J, 1), np.nan)


def difficulty_weights(rate_J: npt.ArrayLike, *, floor: float = 0.0) -> Array | None:
    """VeRPO's weights of tests from how often they are passed: ``w_j ∝ 1 − rate_j``, summing to 1: float64[J].

    A test that all attempts pass weighs 0, unless ``floor`` (ours), the least of ``1 − rate_j``, lets it count; one
    that was never measured (NaN) weighs 0. None if all would weigh 0, so that shares are 0/0: every test is passed by
    all, or there is none. Twenty copies of a test weigh twenty times as much as one.

    Source: https://arxiv.org/abs/2601.03525 (abstract read). Raises ShapeError for a rate outside [0, 1], ConfigError
    for a floor outside [0, 1].
    """
    if not 0 <= floor <= 1:
        raise ConfigError(f"floor={floor} must lie in [0, 1], as 1 − the pass rate does")
    rate_J = np.asarray(rate_J, np.float64)
    known_J = ~np.isnan(rate_J)
    if rate_J.ndim != 1 or not ((rate_J[known_J] >= 0) & (rate_J[known_J] <= 1)).all():
        raise ShapeError(f"rate_J {rate_J.tolist()} must be flat, and its values between 0 and 1 or NaN")
    weight_J = np.where(known_J, np.maximum(1 - rate_J, floor), 0.0)
    total = float(weight_J.sum())
    return weight_J / total if total > 0 else None


def weighted_tests(passed_J: npt.ArrayLike, weight_J: npt.ArrayLike) -> float | None:
    """``Σ w_j·passed_j``, VeRPO's dense score of one attempt; in [0, 1] for weights that sum to 1.

    NaN in ``passed_J`` is not measured, and gives None where its weight is not 0; so does an empty list. Raises
    ShapeError for weights that do not fit.
    """
    passed_J, weight_J = np.asarray(passed_J, np.float64), np.asarray(weight_J, np.float64)
    if passed_J.shape != weight_J.shape or passed_J.ndim != 1:
        raise ShapeError(f"passed_J {passed_J.shape} and weight_J {weight_J.shape} must be equal and flat")
    if not ((weight_J >= 0) & np.isfinite(weight_J)).all():
        raise ShapeError(f"weight_J {weight_J.tolist()} must be finite and at least 0")
    if not np.isin(passed_J[~np.isnan(passed_J)], (0.0, 1.0)).all():
        raise ShapeError(f"passed_J {passed_J.tolist()} must be 1, 0 or NaN")
    counts_J = weight_J > 0
    if not passed_J.size or np.isnan(passed_J[counts_J]).any():
        return None
    return float(weight_J[counts_J] @ passed_J[counts_J])


# --- patches ---------------------------------------------------------------------------------------------------------


def patch_similarity(
    predicted: Mapping[str, str] | None,
    gold: Mapping[str, str],
    *,
    max_chars: int = 6_000,
    faithful: bool = False,
) -> float | None:
    """SWE-RL: mean similarity of two patches over all files that either touches; −1 if there is no valid patch.

    A patch maps each file to its unified diff; the similarity of a file is difflib's ``2·matches / total length``, 0
    if only one patch touches it. Default: only added and removed lines are compared, without hunk headers and context,
    so copying context earns nothing, and an empty gold gives None. ``faithful=True``
    (https://arxiv.org/abs/2502.18449) compares the whole diffs, and two empty patches are equal (1). Many right fixes
    look different: use it where tests are missing.

    ``max_chars`` (ours) bounds the time, in both forms: two diffs longer than that together are compared line by line
    instead of character by character, and a predicted diff beyond 20 times that earns 0.
    """
    if not faithful and not gold:
        return None
    if predicted is None:
        return -1.0
    files = sorted(predicted.keys() | gold.keys())
    if not files:
        return 1.0
    scores = [_diff_ratio(predicted.get(file), gold.get(file), max_chars, faithful) for file in files]
    return sum(scores) / len(scores)


def _diff_ratio(mine: str | None, theirs: str | None, max_chars: int, faithful: bool) -> float:
    if mine is None or theirs is None:
        return 0.0
    if not faithful:
        mine, theirs = changed_lines(mine), changed_lines(theirs)
    if len(mine) > 20 * max_chars:
        return 0.0
    if len(mine) + len(theirs) > max_chars:
        return SequenceMatcher(None, mine.splitlines(), theirs.splitlines(), autojunk=False).ratio()
    return SequenceMatcher(None, mine, theirs, autojunk=False).ratio()


def changed_lines(diff: str) -> str:
    """The added and removed lines of one file's unified diff, with their signs.

    Lines before the first hunk are a header. A diff without hunk headers is one hunk.
    """
    lines = diff.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("@@")), 0)
    return "\n".join(line for line in lines[start:] if line.startswith(("+", "-")))


# --- diagnostics -----------------------------------------------------------------------------------------------------


def diagnostics_reward(
    before: float | None,
    after: float | None,
    *,
    safe: bool,
    confidence: float,
    alpha: float = 0.5,
    beta: float = 0.4,
    gamma: float = 0.1,
    faithful: bool = False,
) -> float | None:
    """Lanser-CLI's reward of a turn from weighted diagnostics D before and after it, whether the action was safe (S)
    and the tool's confidence ``a`` in [0, 1] that it found the right place.

    Default: ``α(D_before − D_after) − β(1 − S) − γ(1 − a)``. The first term telescopes, so an episode earns at most
    ``α(D_first − D_last)`` whatever its length. ``faithful=True`` (https://arxiv.org/abs/2510.22907, eq. 5.1, weights
    .5, .4, .1) has ``+βS`` instead of ``−β(1 − S)``: 0.4 for every safe turn in which nothing happens. Its proposition
    5.2 (never negative) does not hold: nothing changed, unsafe, a < 1 is below 0.

    Deleting code clears diagnostics too, so gate it on tests. None if D is unknown before or after.
    """
    if not 0 <= confidence <= 1:
        raise ShapeError(f"confidence is {confidence}; it must lie in [0, 1]")
    if before is None or after is None:
        return None
    safety = beta * safe if faithful else -beta * (not safe)
    return alpha * (before - after) + safety - gamma * (1 - confidence)


# --- on the way ------------------------------------------------------------------------------------------------------


def localisation(opened: Collection[str], gold: Collection[str], *, faithful: bool = False) -> float | None:
    """How well the files that were opened are the files that the gold patch touches: Jaccard index, in [0, 1].

    ``faithful=True`` is the usual recall, which is 1 for opening everything. None without gold files.
    """
    mine, theirs = set(opened), set(gold)
    if not theirs:
        return None
    return len(mine & theirs) / len(theirs if faithful else mine | theirs)


# --- parts of a rubric -----------------------------------------------------------------------------------------------


class PatchSimilarity(Formula):
    """How alike the ``patch`` and the ``gold_patch`` are, by ``patch_similarity``: −1 to 1.

    Both map each file to its unified diff; ``patch`` is false where the agent wrote none that is valid.
    """

    type: Literal["patch_similarity"] = "patch_similarity"
    kind: Kind = "outcome"
    low: float = -1.0
    faithful: bool = False
    """Whether to compare whole diffs, as published; copying context then pays."""

    def grade(self, patch: dict[str, str] | Literal[False], gold_patch: dict[str, str]) -> float | None:
        """The verdict by ``patch_similarity``."""
        return patch_similarity(patch or (None if patch is False else {}), gold_patch, faithful=self.faithful)


class LanserDiagnostics(Formula):
    """Lanser-CLI's reward of a turn from how the tools' findings changed, by ``diagnostics_reward``.

    ``diagnostics_delta`` is the weighted number of findings after the turn minus that before it, as code repair records
    it. ``safe`` (the action was) and ``tool_confidence`` (in [0, 1], that it found the right place) may be left
    out and then cost nothing. Verdicts beyond ``low`` and ``high`` are cut off there. Deleting code clears findings
    too, so gate it on tests.
    """

    type: Literal["lanser"] = "lanser"
    per_turn: bool = True
    low: float = -1.0
    alpha: float = 0.5
    """Reward for one finding less, in units of the verdict."""
    beta: float = 0.4
    """Cost of an unsafe action; with ``faithful``, reward of a safe one."""
    gamma: float = 0.1
    """Cost of a confidence of 0; a higher confidence costs proportionally less."""
    faithful: bool = False
    """Whether every safe turn earns ``beta``, as published, also one in which nothing happens."""

    def grade(self, diagnostics_delta: float, safe: bool = True, tool_confidence: float = 1.0) -> float | None:
        """``diagnostics_reward``, cut off."""
        score = diagnostics_reward(
            0.0,
            diagnostics_delta,
            safe=safe,
            confidence=tool_confidence,
            alpha=self.alpha,
            beta=self.beta,
            gamma=self.gamma,
            faithful=self.faithful,
        )
        return None if score is None else min(max(score, self.low), self.high)


class Localisation(Formula):
    """How well ``files_opened`` are the ``gold_files`` that the reference repair touches, by ``localisation``."""

    type: Literal["localisation"] = "localisation"
    faithful: bool = False
    """Whether to use the usual recall, which is 1 for opening everything."""

    def grade(self, files_opened: list[str], gold_files: list[str]) -> float | None:
        """The verdict by ``localisation``."""
        return localisation(files_opened, gold_files, faithful=self.faithful)


class ReproducedFirst(Reward):
    """1 if the failure was reproduced before the first edit, 0 if an edit came first; nothing if there was neither.

    ``evidence`` is true of a turn that reproduced it, ``edit`` of one that edited; the defaults are what code repair
    records of turns that ran the tests and that changed a file.
    """

    type: Literal["reproduced_first"] = "reproduced_first"
    evidence: str = "ran_tests"
    """Evidence that is true of a turn that reproduced the failure."""
    edit: str = "edit_applied"
    """Evidence that is true of a turn that edited."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The two names."""
        return (self.evidence, self.edit)

    @property
    def always_due(self) -> bool:
        """False: there may be nothing to judge."""
        return False

    def verdicts(self, facts: Facts) -> list[Verdict]:
        """One verdict about the whole episode, or none."""
        first = {name: min(_turns(facts, name), default=math.inf) for name in self.reads}
        reproduced, edited = first[self.evidence], first[self.edit]
        return [] if reproduced == edited == math.inf else [(None, float(reproduced < edited))]

    def evidence_of(self, verdicts: Sequence[Verdict]) -> tuple[Evidence, ...]:
        """The evidence that comes first."""
        return tuple(Evidence(name=self.evidence if value else self.edit, value=True, turn=0) for _, value in verdicts)

    def turns_of(self, verdicts: Sequence[Verdict]) -> int:
        """The turn of ``evidence_of``."""
        return min(1, len(verdicts))


def _turns(facts: Facts, name: str) -> list[int]:
    return [turn for turn, value in facts.verdicts(name) if value and turn is not None]
