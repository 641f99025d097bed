"""The locks of ``odd_envs`` under their ids: the command line imports a module that an environment's id names."""

from turngate import register
from turngate.envs.registry import registered

KINDS = ("OddLock", "OddOracle", "NoOracle", "BadClose", "Hangs", "Dies", "Breakable")

for kind in KINDS:
    if f"test/{kind}-v0" not in registered():
        register(f"test/{kind}-v0", f"tests.helpers.odd_envs:{kind}")
