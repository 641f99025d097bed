"""Remembered steps written by hand."""

from dataclasses import replace

from turngate.rewards.monitors.step_facts import Learned, StepFacts

PLAIN = StepFacts(
    step=0, episodes=8, outcome=0.5, paid=0.5, process=0.1, turns=3.0, tokens=9.0, parsed=1.0, longest=("long",)
)
LEARNED = tuple(Learned.__dataclass_fields__)


def course(n, **columns):
    """``n`` steps; a column is a value, or a function of the step's number from 0."""
    steps = [{name: v(i) if callable(v) else v for name, v in columns.items()} for i in range(n)]
    return [
        replace(
            PLAIN,
            step=i + 1,
            learner=Learned(**{name: row.pop(name) for name in LEARNED if name in row}),
            **row,
        )
        for i, row in enumerate(steps)
    ]
