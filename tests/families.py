"""Every family of parts whose module was imported."""

from collections.abc import Iterator

from turngate.parts import Part


def families() -> Iterator[type[Part]]:
    """Base classes that set ``types``, also those of a family within another."""
    waiting = list(Part.__subclasses__())
    while waiting:
        family = waiting.pop(0)
        if "types" in family.__dict__:
            yield family
        waiting += family.__subclasses__()
