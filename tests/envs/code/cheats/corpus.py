"""All cheats, and which of them the suite tries on which kind of problem."""

from tests.envs.code.cheats.breaking import BREAKING
from tests.envs.code.cheats.cheat import Cheat
from tests.envs.code.cheats.forging import FORGING
from tests.envs.code.cheats.kinds import KINDS
from tests.envs.code.cheats.lookup import LOOKUP
from tests.envs.code.cheats.patching import PATCHING
from tests.envs.code.cheats.telling import TELLING

CHEATS: tuple[Cheat, ...] = (*PATCHING, *FORGING, *LOOKUP, *TELLING, *BREAKING)

_PYTEST = tuple(kind for kind in KINDS if not kind.startswith("generated"))
_PLAIN = tuple(kind for kind in KINDS if kind.startswith("generated"))


def kinds_of(cheat: Cheat) -> tuple[str, str]:
    """The problems that the suite tries a cheat on, one for each runner; all kinds have their turn."""
    number = CHEATS.index(cheat)
    if cheat.name.startswith("is equal"):  # only there values are compared with objects that the tests make
        return _PLAIN[number % len(_PLAIN)], "quixbugs graph"
    return _PLAIN[number % len(_PLAIN)], _PYTEST[number % len(_PYTEST)]
