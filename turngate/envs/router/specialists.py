"""Functions that play models in generated routing tasks: each knows one kind of thing, and one of them everything.

Their knowledge, except sums, is made up by hash, so no agent can know it beforehand.
"""

from __future__ import annotations

import re

from turngate.types import derive_seed

BEASTS = (
    "adder badger bear beaver bee bison boar bull camel cat crane crow deer dog dove eagle elk falcon ferret fox frog "
    "goat goose hare hawk hen heron horse hound lark lion lynx magpie mole moth mouse newt otter owl ox panther pike "
    "quail ram raven rook salmon seal snail stag stork swan swift toad trout viper wasp whale wolf wren"
).split()
COLOURS = ("red", "green", "blue", "white")
STUFFS = ("brick", "stone", "clay", "wood")
UNKNOWN = "unknown"
_SUM = re.compile(r"(\d+) plus (\d+)")
_ARMS = re.compile(r"arms of (\w+)")
_BRIDGE = re.compile(r"bridge of (\w+)")
_FLAG = re.compile(r"flag of (\w+)")
_WALLS = re.compile(r"walls of (\w+)")


def beast_of(town: str) -> str:
    """The beast on the arms of a town."""
    return BEASTS[derive_seed("router-arms", town) % len(BEASTS)]


def year_of(town: str) -> str:
    """The year in which a town built its bridge."""
    return str(1200 + derive_seed("router-bridge", town) % 700)


def abacus(question: str) -> str:
    """Adds two numbers."""
    found = _SUM.search(question)
    return str(int(found[1]) + int(found[2])) if found and max(map(len, found.groups())) < 10 else UNKNOWN


def herald(question: str) -> str:
    """Knows the arms of every town."""
    found = _ARMS.search(question)
    return beast_of(found[1]) if found else UNKNOWN


def mason(question: str) -> str:
    """Knows when every bridge was built."""
    found = _BRIDGE.search(question)
    return year_of(found[1]) if found else UNKNOWN


def painter(question: str) -> str:
    """Knows the colour of every flag."""
    found = _FLAG.search(question)
    return COLOURS[derive_seed("router-flag", found[1]) % len(COLOURS)] if found else UNKNOWN


def builder(question: str) -> str:
    """Knows what every wall is made of."""
    found = _WALLS.search(question)
    return STUFFS[derive_seed("router-walls", found[1]) % len(STUFFS)] if found else UNKNOWN


def sage(question: str) -> str:
    """Knows all of it."""
    others = (abacus, herald, mason, painter, builder)
    return next((said for one in others if (said := one(question)) != UNKNOWN), UNKNOWN)


def parrot(question: str) -> str:
    """Repeats the last word of the question."""
    return (question.split() or [UNKNOWN])[-1].strip("?")
