"""An objective that is a function with a setting, and one that fails in the second process of a run."""

import os

from turngate.errors import RunError
from turngate.trainer.loss import Gain, Tokens


def scaled(tokens: Tokens, *, by: float = 1.0) -> Gain:
    """REINFORCE, times ``by``."""
    value = by * tokens.advantage * tokens.logprob
    return Gain(value=value, limited=value != value)


def fails(tokens: Tokens) -> Gain:
    """In the process of rank 1."""
    if os.environ.get("RANK") == "1":
        raise RunError("it has had enough")
    return scaled(tokens)
