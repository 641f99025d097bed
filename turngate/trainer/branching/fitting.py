"""Which branching fits which run: settings without effect, or that contradict each other, are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from turngate.trainer.branching.base import BranchingPart


def fills_values(data: Mapping[str, object]) -> bool:
    """Whether the branching of a config that is not validated yet measures values, so that no critic is needed."""
    try:
        return bool(BranchingPart.load(data["branching"]).fills)
    except (KeyError, ValueError):  # none, or validation reports it
        return False


def check_branching(
    part: BranchingPart,
    group_size: int,
    credit: str,
    reads: frozenset[str],
    *,
    critic: bool,
    guide: str,
    retries: bool,
    learns_from_one_tree: Callable[[], bool],
) -> None:
    """Raise ValueError if ``part`` cannot be used in a run with these settings.

    ``reads``: the columns that the rule ``credit`` reads; ``critic``: the run has one; ``retries``: its ``guide`` tries
    again from the midst of episodes; ``learns_from_one_tree``: whether the rule gives credit to a first turn that all
    siblings share (see ``CreditRule.learns_from_one_tree``).
    """
    name = part.type
    if part.fills and retries:
        raise ValueError(
            f"branching '{name}' cannot be used with guide '{guide}': its retries leave episodes as continuations do, "
            "but they are helped, so the values would be those of helped play. Use another guide, or a branching that "
            "measures no values, such as tree_grpo"
        )
    part.check(group_size)
    if part.roots and getattr(part, part.roots) < 2 and not learns_from_one_tree():
        raise ValueError(
            f"branching '{name}' with {part.roots} = 1 grows one tree, and credit '{credit}' compares siblings: a "
            f"first turn that all of them share would teach nothing. Set branching.{part.roots} to 2 or more, or use a "
            "rule that needs no siblings, such as returns with baseline = 'none', or turn_gae"
        )
    if part.fills and critic:
        raise ValueError(f"value_N would be measured twice, by a critic and by branching '{name}'; leave [value] out")
    if part.fills and not part.fills & reads:
        raise ValueError(
            f"branching '{name}' has no effect beyond that of tree_grpo: credit '{credit}' reads neither value_N nor "
            "count_N; use a rule that does, such as turn_gae or progress with read = 'value'"
        )
