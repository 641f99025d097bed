"""Credit: a ``TurnTable`` in, one number per turn out. Pure numpy, one function per method, configured by keyword.

``CREDITS`` maps the name of a method to its function. ``control`` holds the negative controls and is not in it.
"""

from collections.abc import Callable

from turngate.trainer.credit.gigpo import gigpo
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.returns import returns
from turngate.trainer.credit.rloo import rloo
from turngate.types import FloatArray

CREDITS: dict[str, Callable[..., FloatArray]] = {"grpo": grpo, "rloo": rloo, "returns": returns, "gigpo": gigpo}

__all__ = ["CREDITS", "gigpo", "grpo", "returns", "rloo"]
