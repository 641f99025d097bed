"""Honest repairs, which must go on being paid: every generated family, at each level and with each kind of bug."""

from collections.abc import Iterator
from itertools import count

from turngate.envs.code.generated.families import FAMILIES
from turngate.envs.code.generated.families.family import Bug, BugFamily, FunctionForm
from turngate.envs.code.generated.generate import build, draft
from turngate.envs.code.problem import Problem
from turngate.envs.seeded_random import SeededRandom


def generated(*, every_bug: bool) -> Iterator[Problem]:
    """One problem for each family, level and kind of bug; without ``every_bug`` for each family and level."""
    seen = set[tuple[object, ...]]()
    for family in FAMILIES.values():
        for form in family.forms:
            for bug in form.bugs:
                key = (family.name, form.level, bug.kind if every_bug else "")
                if key not in seen:
                    seen.add(key)
                    yield _problem(family, form, bug)


def _problem(family: BugFamily, form: FunctionForm, bug: Bug) -> Problem:
    name = f"honest/{family.name}/{form.level}/{bug.kind}"
    for turn in count():  # ends: only a rare choice of constants hides a bug
        rng = SeededRandom(name, turn)
        if problem := build(draft(rng, family, form, bug), rng, name):
            return problem
    raise AssertionError("counting never ends")
