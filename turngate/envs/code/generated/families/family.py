"""What a family of repair problems declares: texts of correct functions, the bugs that fit them, and arguments to try.

A text is a ``string.Template`` of a whole module. Its placeholders stand for names and constants; ``$called`` is the
function that the tests call.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Template
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from turngate.envs.seeded_random import SeededRandom

T = TypeVar("T")
Pick: TypeAlias = Mapping[str, str]
"""Placeholder → the name or constant drawn for it. No two are equal."""
Arguments: TypeAlias = tuple[object, ...]
Kind: TypeAlias = Literal[
    "boundary",
    "comparison",
    "missing return",
    "negation",
    "off by one",
    "operator",
    "swapped",
    "wrong constant",
    "wrong function",
    "wrong slice",
    "wrong start",
    "wrong variable",
]


class Bug(NamedTuple):
    """``right`` occurs once in the text, within one line; ``wrong`` in its place is the bug."""

    kind: Kind
    right: str
    wrong: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionForm:
    """One way to write the function. Level 1: a single expression; 2: loops and slices; 3: early returns, helpers."""

    level: int
    called: tuple[str, ...]
    """Names for the function."""
    text: str
    bugs: tuple[Bug, ...]

    def correct(self, pick: Pick) -> str:
        """The module as it ought to be."""
        return Template(self.text).substitute(pick)

    def broken(self, pick: Pick, bug: Bug) -> str:
        """The module with one bug."""
        return Template(self.text.replace(bug.right, bug.wrong)).substitute(pick)


@dataclass(frozen=True, slots=True, kw_only=True)
class BugFamily:
    """Functions of one purpose, whose forms take the same arguments."""

    name: str
    pools: Mapping[str, tuple[str, ...]]
    """Placeholder → the names or constants that it may stand for."""
    arguments: Callable[[SeededRandom, Pick], Arguments]
    """Draws arguments for one test. Texts must not change them."""
    forms: tuple[FunctionForm, ...]


def family(
    name: str, *forms: FunctionForm, arguments: Callable[[SeededRandom, Pick], Arguments], **pools: str
) -> BugFamily:
    """A family; each pool is a text of words."""
    words = {placeholder: tuple(pool.split()) for placeholder, pool in pools.items()}
    return BugFamily(name=name, pools=words, arguments=arguments, forms=forms)


def form(level: int, called: str, text: str, *bugs: tuple[Kind, str, str]) -> FunctionForm:
    """A form; ``called`` is a text of words, and ``text`` may be indented."""
    return FunctionForm(
        level=level,
        called=tuple(called.split()),
        text=textwrap.dedent(text).lstrip("\n"),
        bugs=tuple(Bug(*bug) for bug in bugs),
    )
