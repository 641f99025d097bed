"""Families of repair problems: every bug of every form against tests that are run as the runner runs them."""

import builtins
import keyword
import re
import sys
from collections import Counter
from functools import cache, lru_cache
from itertools import product
from string import Template
from types import CodeType, FrameType
from typing import Any

from tests.helpers.every import for_every
from turngate.envs.code.generated.families import FAMILIES
from turngate.envs.code.generated.families.family import BugFamily
from turngate.envs.code.generated.generate import MODULE, TESTS, BugDraft, build, draft
from turngate.envs.code.problem import Problem
from turngate.envs.code.sources import GeneratedCode
from turngate.envs.seeded_random import SeededRandom

SEEDS = 5
MOST_LINES_RUN = 2000  # of one test under one bug; the longest loop of a correct text takes some dozens
WORD = re.compile(r"[A-Za-z_]+|[0-9]+|[^\sA-Za-z0-9_]")


class TooLong(BaseException):
    """A text ran on and on. Not an Exception, so that nothing takes it for a bug that raises."""


@cache
def drawings(name: str) -> tuple[tuple[int, BugDraft, Problem], ...]:
    """Seed, draft and problem: each bug of each form of a family with some seeds."""
    drawings = []
    declared = FAMILIES[name]
    for number, used in enumerate(declared.forms):
        for place, bug in enumerate(used.bugs):
            for seed in range(SEEDS):
                rng = SeededRandom("test", declared.name, number, place, seed)
                drawn = draft(rng, declared, used, bug)
                problem = build(drawn, rng, "code/test/0")
                assert problem, f"{bug} is not caught with {drawn.pick}"
                drawings.append((seed, drawn, problem))
    return tuple(drawings)


def verdicts(module: str, tests: str, *, most_lines: int = 0) -> dict[str, bool]:
    """Test id → whether it passes. The tests are run against the module in one namespace."""
    names: dict[str, Any] = {}
    exec(module, names)
    exec(without_import(tests), names)
    results = {}
    for name in [name for name in names if name.startswith("test_")]:
        try:
            watched(names[name], most_lines) if most_lines else names[name]()
            results[f"{TESTS}::{name}"] = True
        except Exception:
            results[f"{TESTS}::{name}"] = False
    return results


@lru_cache(maxsize=64)
def without_import(tests: str) -> CodeType:
    return compile(tests.partition("\n")[2], TESTS, "exec")


def watched(call: Any, most_lines: int) -> None:
    left = most_lines

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        left -= event == "line"
        if left < 0:
            raise TooLong
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)


def parts(problem: Problem) -> tuple[str, str, str, str]:
    """The module as found and as solved, and the tests that the agent sees and that decide."""
    texts = (problem.files[MODULE], problem.solved[MODULE], problem.files[TESTS], problem.hidden[TESTS])
    assert all(text is not None for text in texts)
    return texts  # type: ignore[return-value]


def oracle_edit(found: str, solved: str) -> tuple[str, str]:
    """The only line that differs, as found and as it ought to be, without its indent."""
    pairs = list(zip(found.splitlines(), solved.splitlines(), strict=True))
    (changed,) = [pair for pair in pairs if pair[0] != pair[1]]
    old, new = (line.strip() for line in changed)
    assert changed[0].removesuffix(old) == changed[1].removesuffix(new), "the indent differs"
    return old, new


@for_every("name", FAMILIES)
def test_tests_tell_every_bug_from_its_repair(name: str):
    for _, drawn, problem in drawings(name):
        found, solved, shown, hidden = parts(problem)
        results = verdicts(found, hidden)
        assert 6 <= len(results) <= 8
        assert all(verdicts(solved, hidden).values())
        assert problem.fail_to_pass == tuple(test for test, passed in results.items() if not passed)
        assert problem.pass_to_pass == tuple(test for test, passed in results.items() if passed)
        assert problem.sensitive == problem.fail_to_pass
        assert len(problem.fail_to_pass) >= 2
        seen = verdicts(found, shown)
        assert list(seen.values()).count(False) in (1, 2)
        assert seen == {test: results[test] for test in seen}
        assert hidden.startswith(shown)
        assert set(problem.fail_to_pass) - set(seen), "the agent could write the answers of all failing tests by hand"
        assert drawn.found == found
        assert drawn.solved == solved


@for_every("name", FAMILIES)
def test_no_bug_of_a_text_passes_whichever_was_put_in_and_none_runs_on(name: str):
    for seed, drawn, problem in drawings(name):
        if seed:
            continue  # watching is slow
        hidden = parts(problem)[3]
        assert all(verdicts(drawn.solved, hidden, most_lines=MOST_LINES_RUN).values())
        for bug in drawn.form.bugs:
            results = verdicts(drawn.form.broken(drawn.pick, bug), hidden, most_lines=MOST_LINES_RUN)
            assert not all(results.values()), bug


@for_every("name", FAMILIES)
def test_one_edit_of_one_line_repairs_it(name: str):
    for _, _, problem in drawings(name):
        found, solved, _, _ = parts(problem)
        old, new = oracle_edit(found, solved)
        assert found.count(old) == 1, old
        assert found.replace(old, new) == solved
        assert "=>" not in old + new


@for_every("name", FAMILIES)
def test_texts_are_short_and_say_what_they_ought_to_do(name: str):
    for _, drawn, problem in drawings(name):
        found, solved, _, hidden = parts(problem)
        called = drawn.pick["called"]
        assert problem.statement == f"solution.py: {called} fails its tests. Repair it."
        assert len(WORD.findall(found)) <= 75
        assert 3 <= len([line for line in solved.splitlines() if line]) <= 8
        assert max(map(len, found.splitlines())) <= 90
        assert max(map(len, hidden.splitlines())) <= 120
        (docstring,) = re.findall(r'^    """[A-Z].*\.("""|\.""")$', solved, re.MULTILINE)
        assert docstring
        assert re.findall(r'""".*"""', found) == re.findall(r'""".*"""', solved)


@for_every("name", FAMILIES)
def test_a_family_declares_at_least_three_bugs_for_each_of_its_two_or_three_forms(name: str):
    declared = FAMILIES[name]
    assert declared.name == name
    assert 2 <= len(declared.forms) <= 3
    for used in declared.forms:
        assert 1 <= used.level <= GeneratedCode().max_level
        assert len(set(used.bugs)) == len(used.bugs) >= 4
        for bug in used.bugs:
            assert used.text.count(bug.right) == 1, bug
            assert "\n" not in bug.right[:-1] + bug.wrong[:-1], bug


@for_every("name", FAMILIES)
def test_constants_that_the_repair_needs_stand_in_the_docstring(name: str):
    declared = FAMILIES[name]
    for used in declared.forms:
        docstring = used.text.split('"""')[1]
        constants = {
            placeholder
            for placeholder in Template(used.text).get_identifiers()
            if not declared.pools.get(placeholder, ("x",))[0].isidentifier()
        }
        assert constants <= set(Template(docstring).get_identifiers())


@for_every("name", FAMILIES)
def test_names_are_free_for_use(name: str):
    declared = FAMILIES[name]
    names = [word for pool in declared.pools.values() for word in pool]
    names += [word for used in declared.forms for word in used.called]
    for word in filter(str.isidentifier, names):
        assert not keyword.iskeyword(word)
        assert not hasattr(builtins, word), word
    assert {placeholder for used in declared.forms for placeholder in Template(used.text).get_identifiers()} <= {
        "called",
        *declared.pools,
    }


@for_every("name", FAMILIES)
def test_texts_leave_their_arguments_as_they_are(name: str):
    for _, drawn, _ in drawings(name):
        for text in (drawn.solved, drawn.found):
            names: dict[str, Any] = {}
            exec(text, names)
            for turn in range(5):
                arguments = drawn.family.arguments(SeededRandom("arguments", turn), drawn.pick)
                before = repr(arguments)
                try:
                    names[drawn.pick["called"]](*arguments)
                except Exception:
                    assert repr(arguments) == before
                assert repr(arguments) == before


@for_every("name", FAMILIES)
def test_a_family_has_many_problems(name: str):
    assert len(problems_of(FAMILIES[name])) >= 200


def problems_of(declared: BugFamily) -> set[str]:
    """Every pair of texts that can be drawn."""
    pairs = set()
    for used in declared.forms:
        for bug in used.bugs:
            both = Template(f"{used.text}\0{used.text.replace(bug.right, bug.wrong)}")
            placeholders = both.get_identifiers()
            pools = {"called": used.called, **declared.pools}
            for words in product(*(pools[placeholder] for placeholder in placeholders)):
                if len(set(words)) == len(words):
                    pairs.add(both.substitute(dict(zip(placeholders, words, strict=True))))
    return pairs


def test_topics_levels_and_kinds_of_bug_are_many():
    assert len(FAMILIES) == 53
    forms = [used for declared in FAMILIES.values() for used in declared.forms]
    assert {used.level for used in forms} == {1, 2, 3}
    kinds = Counter(bug.kind for used in forms for bug in used.bugs)
    assert len(kinds) == 12
    assert min(kinds.values()) >= 4
