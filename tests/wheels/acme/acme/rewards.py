"""A reward that reads what the examiner of this package records, and a gate."""

from typing import Literal

from turngate import Gate, Reward


class Loudness(Reward):
    """Every turn that was loud."""

    type: Literal["acme_loudness"] = "acme_loudness"
    name: str = "loudness"
    per_turn: bool = True

    @property
    def reads(self):
        return ("loud",)

    def verdicts(self, facts):
        return [(turn, float(value)) for turn, value in facts.verdicts("loud")]


class Curfew(Gate):
    """From turn ``turn`` on, component ``on`` is not paid."""

    on: str
    turn: int

    @property
    def name(self):
        return f"curfew({self.turn})"

    def touches(self, name, kind):
        return name == self.on

    def apply(self, draft):
        for line in draft.lines:
            if line.name == self.on and line.turn is not None and line.turn >= self.turn:
                line.close(self.name)
