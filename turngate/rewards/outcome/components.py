"""Components of a rubric whose evidence is more than one number.

Everything else in this package is a pure function that a verifier calls: it records the result, and ``FromEvidence``
pays it. Here the facts themselves are recorded, so that a stored episode can be scored anew under another rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

from turngate.rewards.outcome.code import Results, all_tests_pass, fraction_of_tests
from turngate.rewards.parts import Facts, Kind, Reward, Verdict
from turngate.types import Evidence


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
    """Name of the evidence that maps each test that has to pass to true, false or null (not measured)."""
    guard: str | None = None
    """Name of the same for tests that must not break; leave it out if there are none."""
    soft: bool = False
    """Whether part of the tests earns part of the outcome; false: all or nothing."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The evidence of the tests to pass and, if there is one, of the guard."""
        return (self.evidence,) if self.guard is None else (self.evidence, self.guard)

    @property
    def attainable(self) -> tuple[float, ...] | None:
        """All or nothing, unless ``soft``: the number of tests, and so of shares, is the task's."""
        return (0.0, 1.0) if self.levels is None and not self.soft else self.levels

    def evidence_of(self, verdicts: Sequence[Verdict]) -> tuple[Evidence, ...]:
        """As many tests as it takes to pass this share of them, and none that broke."""
        found: list[Evidence] = []
        for _, value in verdicts:
            share = Fraction(value).limit_denominator(1000)
            tests = {f"test {i}": i < share.numerator for i in range(share.denominator)}
            found.append(Evidence(name=self.evidence, value=tests))
            if self.guard is not None:
                found.append(Evidence(name=self.guard, value={}))
        return tuple(found)

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
            self._reject(facts, None, f"evidence '{name}' must map tests to true, false or null, found {value!r}")
        return value
