"""Who says whether the answer that a probe forced is right. See probe.toml."""

from turngate.envs.lock import LockEnv
from turngate.types import Task


def opens(task: Task, answer: str) -> bool:
    """Whether the answer names the right keys in their order."""
    keys = [action.removeprefix("press ") for action in LockEnv().oracle(task)]
    return answer.split() == keys
