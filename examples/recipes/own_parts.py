"""A filter and an examiner of one's own. See own_filter_and_examiner.toml."""

from collections import Counter
from collections.abc import Sequence

from turngate.judges.examiners.base import ExamineContext, Examiner, Facts
from turngate.types import Evidence, Group, ScoredGroup


def not_too_easy(group: ScoredGroup, *, at_most: float = 0.75) -> bool:
    """Whether at most so large a share of the siblings succeeds; the others teach little."""
    return sum(bool(score.success) for score in group.scores) / len(group.scores) <= at_most


class Rarity(Examiner):
    """The share of the siblings that gave another answer than this episode, or none: ``rarity``, in [0, 1].

    Missing for an episode without an answer, and for one without siblings.
    """

    @property
    def writes(self) -> tuple[str, ...]:
        """One fact about each episode."""
        return ("rarity",)

    async def examine(self, groups: Sequence[Group], desk: ExamineContext) -> Facts:
        """Called with one group at a time, as soon as it is played: the scope is "group"."""
        return [self._of_group([desk.answer(one) for one in group.trajectories]) for group in groups]

    def _of_group(self, answers: Sequence[str | None]) -> list[tuple[Evidence, ...]]:
        known, others = Counter(answers), len(answers) - 1
        shares = [None if one is None or not others else 1 - (known[one] - 1) / others for one in answers]
        return [(Evidence(name="rarity", value=share, by="verifier"),) for share in shares]
