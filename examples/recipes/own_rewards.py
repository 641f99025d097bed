"""A reward of one's own: from the facts about an episode to verdicts. See own_reward.toml."""

from itertools import groupby

from turngate import Reward
from turngate.rewards.parts import Facts, Verdict


class Streak(Reward):
    """The longest run of true facts without a false one between them, as a share of all of them: one verdict in [0, 1].

    Not measured where no fact was.
    """

    evidence: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts, one per turn."""
        return (self.evidence,)

    def verdicts(self, facts: Facts) -> list[Verdict]:
        """About the whole episode, so the turn is None."""
        found = [bool(value) for _, value in facts.verdicts(self.evidence)]
        if not found:
            return []
        longest = max(sum(run) for _, run in groupby(found))
        return [(None, longest / len(found))]
