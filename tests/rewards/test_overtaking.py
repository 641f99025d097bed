"""What ``Rubric.check`` says of a rubric is looked for at random in what its gates pay, for every shipped part."""

from itertools import islice
from typing import Literal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.every import for_every
from tests.rewards.overtaking import REWARDS, contradictions, gate, mixtures, outcomes, records, reward, rubric
from tests.rewards.shipped import FORMULAS, GATES, types
from turngate.rewards import FromEvidence, Gate, InformationGain, Reward, Rubric, requires
from turngate.rewards.parts import Span

REFUSED = {
    ("event_cost", "trust"),
    ("repetition", "trust"),
    ("information_gain", "trust"),
    ("length_cost", "once"),
    ("length_cost", "best_so_far"),
}
"""``trust`` compares no sums; ``once`` and ``best_so_far`` want a component that pays turn by turn."""


def test_every_shipped_part_takes_part():
    formulas = {part(name="graded").type for part in FORMULAS}
    assert {*REWARDS, "unit_tests", *formulas} - {"formula"} == types(Reward)
    assert set(GATES) == types(Gate)


@for_every("by", GATES)
@for_every("kind", REWARDS)
def test_no_gate_lets_a_component_do_what_the_check_rules_out(kind: str, by: str):
    rng = np.random.default_rng([*f"{kind} {by}".encode()])
    drawn = (rubric([*outcomes(rng), reward(kind, "a", rng)], [gate(by, "a", [], rng)]) for _ in range(100))
    tried = list(islice((asked for asked in drawn if asked is not None), 5))
    assert bool(tried) is ((kind, by) not in REFUSED)
    for asked in tried:
        assert contradictions(asked, asked.check(), records(asked, 30, rng)) == []


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_nor_do_small_rubrics_of_any_kind(seed: int):
    rng = np.random.default_rng(seed)
    asked = next(mixtures(rng, list(GATES)))
    assert contradictions(asked, asked.check(), records(asked, 30, rng), int(rng.choice([0, 700]))) == []


# --- the search itself -----------------------------------------------------------------------------------------------


def test_it_finds_what_a_check_at_two_levels_misses():
    """Tests at 0.75 plus style are paid 1.15 against 1.0. A check that knows 0 and 1 only calls that safe."""
    style = FromEvidence(name="style", evidence="style", weight=0.4)
    tests = FromEvidence(name="tests", evidence="tests", kind="outcome")
    graded = Rubric(rewards=(tests, style))
    at_two_levels = Rubric(rewards=(tests.model_copy(update={"levels": (0, 1)}), style)).check()
    assert at_two_levels.safe
    found = contradictions(graded, at_two_levels, records(graded, 30, np.random.default_rng(0)))
    assert any(problem.startswith("outcome ") for problem in found)


class Forgetful(InformationGain):
    """Believes that what telescopes does so whatever a gate drops."""

    type: Literal["forgetful"] = "forgetful"  # type: ignore[assignment]

    def part_span(self, n_verdicts: float) -> Span:
        """The whole sum."""
        return self.span(n_verdicts)


def test_it_finds_a_sum_whose_terms_a_gate_drops():
    won = FromEvidence(name="won", evidence="won", kind="outcome", levels=(0, 1))
    gates = (requires("ok", on="gain"),)
    false = Rubric(rewards=(won, Forgetful(name="gain", weight=0.3)), gates=gates)
    true = Rubric(rewards=(won, InformationGain(name="gain", weight=0.3)), gates=gates)
    assert false.check().process == (-0.3, 0.3)
    rng = np.random.default_rng(0)
    played = records(true, 80, rng)
    assert any(problem.startswith("process pays") for problem in contradictions(false, false.check(), played))
    assert contradictions(true, true.check(), played) == []


@for_every("by", ["veto", "needs_outcome", "soft"])
def test_it_finds_each_sort_of_false_claim(by: str):
    """Unsafe rubrics with the verdict of a safe one."""
    won = FromEvidence(name="won", evidence="won", kind="outcome", levels=(0, 1))
    harmless = Rubric(rewards=(won,)).check()
    rng = np.random.default_rng(3)
    dear = FromEvidence(name="a", evidence="a", kind="penalty", weight=-0.9)
    lossy = FromEvidence(name="a", evidence="a", low=-1.0, weight=1.5)
    asked = rubric([won, dear if by == "veto" else lossy], [gate(by, "a", [], rng)])
    assert asked is not None
    assert contradictions(asked, harmless, records(asked, 200, rng))
