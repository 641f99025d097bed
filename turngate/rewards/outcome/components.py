"""Components of a rubric whose evidence is more than one number.

Everything else in this package is a pure function that a verifier calls: it records the result, and ``FromEvidence``
pays it. Here the facts themselves are recorded, so that a stored episode can be scored anew under another rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from turngate.rewards.outcome.code import Results, all_tests_pass, fraction_of_tests
from turngate.rewards.parts import Facts, Kind, Reward, Verdict


class UnitTests(Reward):
    """Hidden tests as outcome: 1 if all passed, or with ``soft`` the share that passes if nothing else broke.

    ``evidence`` names an object from each test that has to pass to true, false or null (not measured), ``guard`` one
    for the tests that must not break, if there are any. The last measurement counts. Null where it matters, and
    evidence that is missing, leave the outcome unmeasured and make the episode unusable, never zero. Raises ValueError
    for evidence of another form.
    """

    type: Literal["unit_tests"] = "unit_tests"
    kind: Kind = "outcome"
    evidence: str = "fail_to_pass"
    guard: str | None = None
    soft: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """One name or two."""
        return (self.evidence,) if self.guard is None else (self.evidence, self.guard)

    def verdicts(self, facts: Facts) -> list[Verdict]:
        """One verdict about the whole episode, or none."""
        fix = self._last(facts, self.evidence)
        keep: Results | None = {} if self.guard is None else self._last(facts, self.guard)
        if not fix or keep is None:
            return []
        score = (fraction_of_tests if self.soft else all_tests_pass)({**keep, **fix}, fix, keep)
        return [] if score is None else [(None, score)]

    def _last(self, facts: Facts, name: str) -> Results | None:
        measured = facts.by_name.get(name, ())
        value: Any = measured[-1].value if measured else None
        if value is None:
            return None
        if not isinstance(value, Mapping) or not all(passed in (True, False, None) for passed in value.values()):
            raise ValueError(
                f"component '{self.name}' of task '{facts.task_id}': evidence '{name}' must map tests to true, false "
                f"or null, found {value!r}"
            )
        return value
