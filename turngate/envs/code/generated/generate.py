"""Endless repair problems in one short module each, derived by hash from split and number.

A problem is one correct text of a family, one of the bugs declared for it, and six to eight tests whose expected
values the correct text gives. Every bug of the text fails one of them, whichever was put in. The splits are apart:
every pair of correct and broken text belongs, by its own hash, either to training or to the held-out split.
``newfamily`` shows families that the other splits never use.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

from turngate.envs.code.generated.families import FAMILIES, HELD_OUT
from turngate.envs.code.generated.families.family import Arguments, Bug, BugFamily, FunctionForm, Pick
from turngate.envs.code.problem import Problem
from turngate.envs.seeded_random import SeededRandom
from turngate.errors import ConfigError, UnknownName
from turngate.types import Task

MODULE = "solution.py"
TESTS = "test_solution.py"
HELD_OUT_SHARE = 4  # one problem in so many is held out
SHOWN = 2  # tests that the agent may see

_CASES = 16  # to choose from; six to eight are taken
_TRIES = 64  # arguments drawn at most
_CACHED = 4096


class CodeGenerator:
    """Repair problems of one function. The same settings, those of ``GeneratedCode``, give equal tasks everywhere.

    Raises UnknownName for a family, ConfigError for settings that leave nothing to repair.
    """

    def __init__(
        self, *, families: Sequence[str] | None, held_out_families: Sequence[str] | None, max_level: int
    ) -> None:
        seen, unseen = _divide(families, held_out_families, max_level)
        self._families = {"train": seen, "heldout": seen} | ({"newfamily": unseen} if unseen else {})
        self._max_level = max_level
        self.splits = tuple(self._families)

    def size(self, split: str) -> None:
        """Endless. Raises UnknownName."""
        if split not in self._families:
            raise UnknownName("split", split, self.splits)

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` of ``split``. Raises UnknownName, IndexError."""
        self.size(split)
        if index < 0:
            raise IndexError(f"task number {index} of split '{split}'; numbers start at 0")
        return _task(split, index, self._families[split], self._max_level)

    def find(self, task_id: str) -> Task:
        """The task of an id made by ``task``. Raises UnknownName."""
        match task_id.split("/"):
            case ["code", split, index] if split in self.splits and index.isdecimal():
                return self.task(split, int(index))
        raise UnknownName("task", task_id, [f"code/{split}/0" for split in self.splits])


@dataclass(frozen=True, slots=True, kw_only=True)
class BugDraft:
    """The choices before the tests: the text with its names and constants, and the bug in it."""

    family: BugFamily
    form: FunctionForm
    bug: Bug
    pick: Pick

    @property
    def solved(self) -> str:
        """The module as it ought to be."""
        return self.form.correct(self.pick)

    @property
    def found(self) -> str:
        """The module as the agent finds it."""
        return self.form.broken(self.pick, self.bug)

    @property
    def held_out(self) -> bool:
        """Whether this pair of texts belongs to the held-out split and never to training."""
        pair = f"{self.solved}\0{self.found}"
        return hashlib.blake2b(pair.encode(), digest_size=4).digest()[0] % HELD_OUT_SHARE == 0


def draft(rng: SeededRandom, family: BugFamily, form: FunctionForm, bug: Bug) -> BugDraft:
    """Draws the names and constants, no two of them equal."""
    pick: dict[str, str] = {}
    for placeholder, pool in (("called", form.called), *family.pools.items()):
        pick[placeholder] = rng.pick([word for word in pool if word not in pick.values()])
    return BugDraft(family=family, form=form, bug=bug, pick=pick)


def build(drawn: BugDraft, rng: SeededRandom, problem_id: str) -> Problem | None:
    """The problem of a draft, with its tests; None if the arguments drawn do not tell the bug from the repair."""
    candidates = _cases(drawn, rng)
    if not candidates:
        return None
    cases = _chosen(candidates, drawn, rng)
    called = drawn.pick["called"]
    ids = [f"{TESTS}::test_{number}" for number in range(1, len(cases) + 1)]
    failing = tuple(name for name, case in zip(ids, cases, strict=True) if drawn.bug in case.caught_by)
    return Problem(
        id=problem_id,
        statement=f"{MODULE}: {called} fails its tests. Repair it.",
        files={MODULE: drawn.found, TESTS: _test_text(called, cases[:SHOWN])},
        solved={MODULE: drawn.solved},
        hidden={TESTS: _test_text(called, cases)},
        runner="plain",
        test_files=(TESTS,),
        fail_to_pass=failing,
        pass_to_pass=tuple(name for name in ids if name not in failing),
        sensitive=failing,
        asked={name: name for name in ids},
        about={
            "family": drawn.family.name,
            "function": called,
            "level": drawn.form.level,
            "bug": drawn.bug.kind,
        },
    )


@lru_cache(maxsize=_CACHED)
def _task(split: str, index: int, families: tuple[str, ...], max_level: int) -> Task:
    # ends: a quarter of the problems of every family is held out, and only a rare choice of constants hides a bug
    for turn in count():
        rng = SeededRandom("code-task", split, index, turn)
        family = FAMILIES[rng.pick(families)]
        form = rng.pick([form for form in family.forms if form.level <= max_level])
        drawn = draft(rng, family, form, rng.pick(form.bugs))
        if split != "newfamily" and drawn.held_out != (split == "heldout"):
            continue
        if problem := build(drawn, rng, f"code/{split}/{index}"):
            return problem.task(split)
    raise AssertionError("counting never ends")


class _Case(NamedTuple):
    """A call, the value that it ought to give, and the bugs under which it does not."""

    call: str
    wanted: str
    caught_by: frozenset[Bug]


def _cases(drawn: BugDraft, rng: SeededRandom) -> list[_Case]:
    """Different calls that tell every bug; none at all if too few such were drawn.

    Arguments that the correct text does not provide for (it raises) are left out.
    """
    called = drawn.pick["called"]
    correct = _function(drawn.solved, called)
    broken = {bug: _function(drawn.form.broken(drawn.pick, bug), called) for bug in drawn.form.bugs}
    cases: dict[str, _Case] = {}
    caught = Counter[Bug]()
    for _ in range(_TRIES):
        if len(cases) >= _CASES and _cases_catch(drawn, caught):
            break
        arguments = drawn.family.arguments(rng, drawn.pick)
        call = f"{called}({', '.join(map(repr, arguments))})"
        if call in cases or (wanted := _outcome(correct, arguments)) is _RAISED:
            continue
        caught_by = frozenset(bug for bug, function in broken.items() if _outcome(function, arguments) != wanted)
        cases[call] = _Case(call, repr(wanted), caught_by)
        caught.update(caught_by)
    return list(cases.values()) if _cases_catch(drawn, caught) else []


def _cases_catch(drawn: BugDraft, caught: Counter[Bug]) -> bool:
    """Whether the cases catch each bug of the text, and the one that was drawn twice."""
    return len(caught) == len(drawn.form.bugs) and caught[drawn.bug] >= 2


def _chosen(cases: Sequence[_Case], drawn: BugDraft, rng: SeededRandom) -> list[_Case]:
    """Six to eight cases, first the two that the agent may see.

    One of the first two tells the bug, the other passes where any does. Another that tells it is hidden, and so is
    one for each other bug of the text.
    """
    cases = rng.shuffled(cases)
    telling = [case for case in cases if drawn.bug in case.caught_by]
    passing = [case for case in cases if drawn.bug not in case.caught_by]
    shown = [telling.pop(0), (passing or telling).pop(0)]
    hidden = telling[:1]
    for bug in drawn.form.bugs:
        if not any(bug in case.caught_by for case in hidden):
            hidden += [case for case in cases if bug in case.caught_by and case not in shown][:1]
    size = rng.whole(6, 8) - SHOWN
    hidden += [case for case in cases if case not in shown and case not in hidden][: max(0, size - len(hidden))]
    return rng.shuffled(shown) + rng.shuffled(hidden)


_RAISED = object()


def _outcome(function: Callable[..., Any], arguments: Arguments) -> object:
    """The value of a call of our own text, or ``_RAISED``."""
    try:
        return function(*arguments)
    except Exception:  # what a bug raises is part of the bug, and any exception fails a test
        return _RAISED


def _function(text: str, called: str) -> Callable[..., Any]:
    """A function of a text that this package wrote itself."""
    names: dict[str, Any] = {}
    exec(compile(text, MODULE, "exec"), names)
    function: Callable[..., Any] = names[called]
    return function


def _test_text(called: str, cases: Sequence[_Case]) -> str:
    tests = (
        f"\n\ndef test_{number}():\n    assert {case.call} == {case.wanted}\n" for number, case in enumerate(cases, 1)
    )
    return f"from {MODULE.removesuffix('.py')} import {called}\n{''.join(tests)}"


def _divide(
    families: Sequence[str] | None, held_out_families: Sequence[str] | None, max_level: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Families of train and heldout, and those of newfamily."""
    for name in (*(families or ()), *(held_out_families or ())):
        if name not in FAMILIES:
            raise UnknownName("family", name, FAMILIES)
        if not _fits(name, max_level):
            raise ConfigError(f"family '{name}' has no form of level {max_level} or below; raise max_level")
    unseen = [name for name in HELD_OUT if name not in (families or ()) and _fits(name, max_level)]
    if held_out_families is not None:
        unseen = _unique(held_out_families)
    seen = [name for name in FAMILIES if name not in unseen and _fits(name, max_level)]
    if families is not None:
        seen = _unique(families)
    if both := [name for name in seen if name in unseen]:
        raise ConfigError(f"families {both} are both used and held out; take them from one of the two lists")
    if not seen:
        raise ConfigError("no family is left for train and heldout; name at least one")
    return tuple(seen), tuple(unseen)


def _fits(name: str, max_level: int) -> bool:
    return any(form.level <= max_level for form in FAMILIES[name].forms)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
