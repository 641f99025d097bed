"""Six locks of two dials, which come again and again, and a lock that kills its process by SIGKILL after step 2."""

from turngate.envs.lock import LockTasks
from turngate.types import Task


def six_locks(*, n: int = 6) -> list[Task]:
    """The same tasks in every pass; two more are held out."""
    source = LockTasks(2)
    return [source.task("train", index) for index in range(n)] + [source.task("heldout", index) for index in range(2)]
