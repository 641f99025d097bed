"""Auxiliary losses that compare whole episodes: pairs of a better and a worse one (DPO, CPL, PRDP), or single ones
(KTO)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from turngate.errors import ConfigError, RunError
from turngate.judges.examiners.base import Likelihoods
from turngate.trainer.auxiliary.base import (
    AuxiliaryContext,
    AuxiliaryRow,
    AuxiliaryRows,
    AuxiliarySource,
    WeightedAuxiliaryPart,
)
from turngate.trainer.auxiliary.pairing import Bare, Pair, Rule, Span, Winners, bare, compared, pairs_of
from turngate.trainer.auxiliary.preference import Contrast, Cpl, Kto, Prdp, Preference
from turngate.trainer.guidance.results import is_solved, unguided
from turngate.types import JSON, FloatArray, Metrics, ScoredGroup

if TYPE_CHECKING:
    from turngate.config import Config


class ComparingPart(WeightedAuxiliaryPart):
    """An auxiliary loss whose loss is over whole episodes. A subclass names it, and the model that it compares with, if
    any."""

    plays: ClassVar[bool] = False

    weight: float = Field(1.0, gt=0)
    """Factor of the mean loss per pair or episode, which is added to the loss; longer ones do not weigh more."""
    most: int = Field(4, ge=1)
    """Most pairs of one task in a step (of KTO: most episodes), spread evenly over its episodes."""

    @property
    @abstractmethod
    def contrast(self) -> Contrast:
        """The loss."""

    @property
    def teachers(self) -> tuple[str, ...]:
        """The reference, if there is one."""
        reference = getattr(self, "reference", None)
        return () if reference is None else (reference,)

    def likelihoods(self, means: AuxiliaryContext) -> Likelihoods | None:
        """Measures texts under the reference; None without one."""
        return means.teacher(*self.teachers) if self.teachers else None


class PairingPart(ComparingPart):
    """An auxiliary loss whose loss is over pairs of episodes of one task."""

    rule: Rule = "outcome"
    """Which two episodes are a pair. outcome: a success and a failure; score: two that were paid differently; branch:
    the same of two that branched off each other, or off a third at the same turn (needs [branching])."""
    min_gap: float = Field(0.0, ge=0)
    """Least difference of what both were paid, in units of reward; 0: any."""
    winners: Winners = "unaided"
    """Which episodes may be preferred: those without help (unaided), only those with help (guided), or all. The other
    side of a pair never had help."""
    span: Span = "episode"
    """Which tokens are compared. episode: all that the policy wrote; difference: those from the first turn on in which
    both sides saw the same and wrote something else, which has less variance."""

    @model_validator(mode="after")
    def _branches_part(self) -> Self:
        if self.rule == "branch" and self.span == "episode":
            raise ValueError(
                "rule 'branch' compares episodes from where they part, so span = 'episode' does not go with it; set "
                'span = "difference"'
            )
        return self

    def check_config(self, config: Config) -> None:
        """Raise ConfigError where no episode with help can win, because there is no guide."""
        if self.winners == "guided" and config.guide.type == "none":
            raise ConfigError(
                f"auxiliary loss '{self.type}' has no effect: no episode has help that could win; set guide, for "
                'instance {type = "teacher"}, or winners = "all"'
            )

    def open(self, means: AuxiliaryContext) -> AuxiliarySource:
        return PairedEpisodes(self, self.likelihoods(means))


class EpisodePairs(PairingPart):
    """Agent-RLVR and DPO: of each task, successes are preferred to failures without help, under the bare context.

    Adds ``weight`` times the mean over the pairs of ``−log σ(beta·(D₊ − D₋))`` to the loss, where D is how much
    likelier the policy finds an episode's own tokens than ``reference`` does. Hints are always taken out of the
    contexts, also where the guide leaves them in, so both sides begin alike; a pair that does not is left out and
    counted (``auxiliary/pairs_other_beginning``). Tokens that the policy did not write are in no D. The first pairs
    have a loss of ln 2 = 0.693, because the policy is the reference then.

    Source: Agent-RLVR, https://arxiv.org/abs/2506.11425, where successes had help (``winners = "guided"``); its
    guidance is guide "teacher"; where the hint is during learning, and the number of pairs, are not told there and are
    ours. With ``winners = "all"`` it is DPO, https://arxiv.org/abs/2305.18290, and with ``span = "difference"`` that of
    branches.
    """

    type: Literal["pairs"] = "pairs"
    beta: float = Field(0.1, gt=0)
    """How soon a pair is told apart well enough: the larger, the closer the policy stays to the reference."""
    reference: str = "start"
    """The frozen model that both sides are compared with: a folder, a name on the Hugging Face hub, or "start" for the
    model that training began from."""
    winners: Winners = "guided"
    """Which successes are preferred: those with help, those without (unaided), or all. Failures never had help."""
    imitated: float = Field(0.0, ge=0)
    """Weight of the cross-entropy per token of the preferred episodes, beside each pair; raise it, to 0.1 or 1, where
    preferred episodes become less likely too."""
    score_decay: float = Field(0.0, ge=0)
    """Weight of the mean square of both scores beta·D, which keeps them near 0; 1e-3 for a scorer as in muCode."""

    @property
    def contrast(self) -> Contrast:
        return Preference(beta=self.beta, imitated=self.imitated, score_decay=self.score_decay)


class CplPairs(PairingPart):
    """CPL: successes are preferred to failures by the policy's own likelihood alone, without a reference.

    Adds ``weight`` times the mean over the pairs of ``−log σ(A₊ − bias·A₋)`` to the loss, ``A = Σ_t gamma^t·alpha·log
    π`` over an episode's own tokens. Contrastive preference learning, https://arxiv.org/abs/2310.13639 and its code,
    which has alpha 0.1 and bias 0.5 and no discount. Known weakness: A sums over tokens, so the shorter side is
    preferred from the start; compare from the first difference, or pair episodes of like length.
    """

    type: Literal["cpl"] = "cpl"
    alpha: float = Field(0.1, gt=0)
    """Temperature of the policy: how much reward a nat of log-probability stands for."""
    bias: float = Field(0.5, gt=0, le=1)
    """Weight of the worse side. At 1 the loss does not change if both sides become less likely by the same amount;
    below 1 it does."""
    gamma: float = Field(1.0, gt=0, le=1)
    """Discount per turn; below 1, later turns of both sides count less."""
    imitated: float = Field(0.0, ge=0)
    """Weight of the cross-entropy per token of the preferred episodes, beside each pair."""

    @property
    def contrast(self) -> Contrast:
        return Cpl(alpha=self.alpha, bias=self.bias, gamma=self.gamma, imitated=self.imitated)


class PrdpPairs(PairingPart):
    """PRDP: the gain in log-likelihood of one episode over another is to equal the difference of their payments.

    Adds ``weight`` times the mean over the pairs of ``(beta·(D₊ − D₋) − (R₊ − R₋))²`` to the loss. Unlike DPO it knows
    how much better the better one was, and stops pulling once the margin is right.
    https://arxiv.org/abs/2402.08714; its clipping of the ratio is left out.
    """

    type: Literal["prdp"] = "prdp"
    rule: Rule = "score"
    """Which two episodes are a pair. score: two that were paid differently; outcome: a success and a failure; branch:
    as score, of two that branched off each other, or off a third at the same turn (needs [branching])."""
    beta: float = Field(0.1, gt=0)
    """How much reward a nat of likelihood stands for: the larger, the closer the policy stays to the reference."""
    reference: str = "start"
    """The frozen model that both sides are compared with: a folder, a name on the Hugging Face hub, or "start"."""

    @property
    def contrast(self) -> Contrast:
        return Prdp(beta=self.beta)


class KtoEpisodes(ComparingPart):
    """KTO: each success is to become likelier than under the reference, and each failure less likely; no pairs needed.

    Adds ``weight`` times the mean over the episodes without help of ``1 − σ(±(beta·D − z))`` to the loss, + for a
    success; z is the mean of beta·D over the step's episodes, at least 0. Weights balance successes and failures, as
    long as a step has both. Source: https://arxiv.org/abs/2402.01306. It learns where a task has failures alone.
    """

    type: Literal["kto"] = "kto"
    beta: float = Field(0.1, gt=0)
    """How much a nat over the reference counts: the larger, the sooner an episode is likely enough."""
    reference: str = "start"
    """The frozen model that episodes are compared with: a folder, a name on the Hugging Face hub, or "start"."""
    balanced: bool = True
    """Whether successes and failures of a step weigh alike together, however many of each there are."""

    @property
    def contrast(self) -> Contrast:
        return Kto(beta=self.beta)

    def open(self, means: AuxiliaryContext) -> AuxiliarySource:
        return SingleEpisodes(self, self.likelihoods(means))


# --- sources ----------------------------------------------------------------------------------------------------------


class ComparedEpisodes(AuxiliarySource):
    """What the sources have in common: they ask the reference, and remember whether there ever was anything to
    compare."""

    unit = "pair"

    def __init__(self, part: ComparingPart, likelihoods: Likelihoods | None) -> None:
        self._comparing, self._likelihoods = part, likelihoods
        self._ever = 0

    def _rows(self, sides: Sequence[Bare], values: Sequence[float], weights: Sequence[float]) -> AuxiliaryRows:
        asked: Sequence[FloatArray | None] = [None] * len(sides)
        if self._likelihoods is not None:
            asked = self._likelihoods([side.ids for side in sides], [side.own for side in sides])
        rows = [_row(*of) for of in zip(sides, asked, values, weights, strict=True)]
        contrast = self._comparing.contrast
        self._ever += len(rows) // contrast.together
        return AuxiliaryRows(rows=rows, weight=self._comparing.weight, contrast=contrast)

    def state(self) -> JSON:
        """How many pairs or episodes there were so far."""
        return {"ever": self._ever}

    def load(self, state: JSON) -> None:
        assert isinstance(state, Mapping)
        self._ever = int(state["ever"])  # type: ignore[arg-type]

    def conclude(self) -> None:
        """Raise RunError if it never had anything to compare."""
        if not self._ever:
            raise RunError(
                f"auxiliary loss '{self._comparing.type}' found no {self.unit} in any step, so it taught nothing; see "
                "its settings (rule, min_gap, winners), or play tasks that sometimes succeed with more siblings "
                "(train.group_size)"
            )


class PairedEpisodes(ComparedEpisodes):
    """Pairs the episodes of a step."""

    def __init__(self, part: PairingPart, likelihoods: Likelihoods | None) -> None:
        super().__init__(part, likelihoods)
        self._part = part
        self._pairs = self._other_beginning = 0

    async def rows(self, groups: Sequence[ScoredGroup], step: int) -> AuxiliaryRows | None:
        """See the class of the part."""
        sides: list[Bare] = []
        gaps: list[float] = []
        self._other_beginning = 0
        for group in groups:
            for pair, both in islice(self._sides(group), self._part.most):
                found = compared(*both, self._part.span)
                if found is None:
                    self._other_beginning += 1
                else:
                    sides += found
                    gaps += [pair.gap, 0.0]
        self._pairs = len(sides) // 2
        return self._rows(sides, gaps, [1.0] * len(sides))

    def metrics(self) -> Metrics:
        """Pairs of this step, and those that were left out, because their sides were not in the same situation."""
        return {"pairs": float(self._pairs), "other_beginning": float(self._other_beginning)}

    def _sides(self, group: ScoredGroup) -> Iterator[tuple[Pair, tuple[Bare, Bare]]]:
        part = self._part
        for pair in pairs_of(group, part.rule, min_gap=part.min_gap, winners=part.winners):
            win, lose = bare(pair.win), bare(pair.lose)
            if win is not None and lose is not None:
                yield pair, (win, lose)


class SingleEpisodes(ComparedEpisodes):
    """Takes the episodes of a step one by one."""

    unit = "episode without help"

    def __init__(self, part: KtoEpisodes, likelihoods: Likelihoods | None) -> None:
        super().__init__(part, likelihoods)
        self._part = part
        self._won = self._lost = 0

    async def rows(self, groups: Sequence[ScoredGroup], step: int) -> AuxiliaryRows | None:
        found = [(side, float(won)) for group in groups for side, won in islice(_singles(group), self._part.most)]
        self._won = sum(won > 0 for _, won in found)
        self._lost = len(found) - self._won
        weights = [1.0] * len(found)
        if self._part.balanced and self._won and self._lost:
            weights = [len(found) / (2 * (self._won if won else self._lost)) for _, won in found]
        return self._rows([side for side, _ in found], [won for _, won in found], weights)

    def metrics(self) -> Metrics:
        """Successes and failures of this step."""
        return {"successes": float(self._won), "failures": float(self._lost)}


def _singles(group: ScoredGroup) -> Iterator[tuple[Bare, bool]]:
    """Usable episodes without help, successes and failures in turn as long as there are both."""
    kinds: list[list[tuple[Bare, bool]]] = [[], []]
    for one, score in zip(group.trajectories, group.scores, strict=True):
        side = bare(one) if score.usable and unguided(one) else None
        if side is not None:
            kinds[is_solved(score)].append((side, is_solved(score)))
    longest = max(map(len, kinds))
    return (kind[place] for place in range(longest) for kind in reversed(kinds) if place < len(kind))


def _row(side: Bare, logprob: FloatArray | None, value: float, weight: float) -> AuxiliaryRow:
    teacher = None
    if logprob is not None:
        teacher = np.zeros(len(side.ids), np.float32)
        teacher[side.own] = logprob
    return AuxiliaryRow(ids=side.ids, trained=side.own, teacher=teacher, turn=side.turn, value=value, weight=weight)
