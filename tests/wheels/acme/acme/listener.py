"""An examiner: which turns were loud."""

from turngate import Evidence
from turngate.judges.examiners.base import Examiner


class Listener(Examiner):
    """Whether the text of a turn has a word in it."""

    scope = "episode"
    word: str = "high"

    @property
    def writes(self):
        return ("loud",)

    async def examine(self, groups, context):
        return [
            [
                tuple(
                    Evidence(name="loud", value=self.word in turn.action.text, turn=at, by="verifier")
                    for at, turn in enumerate(one.turns)
                )
                for one in group.trajectories
            ]
            for group in groups
        ]
