"""Hints of a shop task: which elements the next steps use, then what goes into them, then the steps themselves.

They never tell how the episode has to end, so the hint of an impossible task reads like that of another one.
"""

from __future__ import annotations

from turngate.envs.web.generated.shop.records import PlanStep, ShopTask

LEVELS = 3
_HINTED = 6
"""So many steps are told at once."""


def shop_hint(task: ShopTask, level: int, done: int = 0) -> str | None:
    """Level 1 to 3 of help after ``done`` steps of the plan; None for another level and where only the answer is left.

    1: the elements that are used next; 2: also the values of fields and lists, and the products by their names; 3: the
    steps in full.
    """
    steps = [step for step in task.plan[done:] if step.kind != "answer"][:_HINTED]
    if not 1 <= level <= LEVELS or not steps:
        return None
    return " ".join(_LEVELS[place](steps) for place in range(level))


def in_words(step: PlanStep) -> str:
    """A step as an instruction."""
    if step.kind == "answer":
        return f'answer "{step.value}"'
    element = f'the {step.role} "{step.name}"'
    return {
        "fill": f'fill "{step.value}" into {element}',
        "select": f'choose "{step.value}" in {element}',
        "click": f"click {element}",
    }[step.kind]


def _elements(steps: list[PlanStep]) -> str:
    """The used elements without links, whose names tell the product."""
    roles = [step.role if step.role == "link" else f'{step.role} "{step.name}"' for step in steps]
    return f"Next you use: {', '.join(roles)}."


def _values(steps: list[PlanStep]) -> str:
    values = [f'"{step.value or step.name}"' for step in steps if step.value or step.role == "link"]
    return f"What you need for that: {', '.join(values)}." if values else "No value has to be filled in."


def _actions(steps: list[PlanStep]) -> str:
    return f"In order: {'; '.join(map(in_words, steps))}."


_LEVELS = (_elements, _values, _actions)
