"""Which branching fits which run: settings without effect, or that contradict each other, are refused."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.trainer.branching.base import BranchingPart

SHARES_OUT = frozenset({"lambda_grpo", "lambda_grpo_tokens"})
"""Rules that divide the credit of a shared turn among the siblings, which branched rollouts do already."""


def fills_values(data: Mapping[str, object]) -> bool:
    """Whether the branching of a config that is not validated yet measures values, so that no critic is needed."""
    try:
        return bool(BranchingPart.load(data["branching"]).fills)
    except (KeyError, ValueError):  # none, or validation reports it
        return False


def check_branching(
    part: BranchingPart, group_size: int, credit: str, reads: frozenset[str], *, critic: bool, guide: str, retries: bool
) -> None:
    """Raise ValueError if ``part`` cannot be used in a run with these settings.

    ``reads``: the columns that the rule ``credit`` reads; ``critic``: the run has one; ``retries``: its ``guide`` tries
    again from the midst of episodes.
    """
    name = part.type
    if part.fills and retries:
        raise ValueError(
            f"branching '{name}' cannot be used with guide '{guide}': its retries leave episodes as continuations do, "
            "but they are helped, so the values would be those of helped play. Use another guide, or a branching that "
            "measures no values, such as tree_grpo"
        )
    part.check(group_size)
    if credit in SHARES_OUT:
        raise ValueError(
            f"credit '{credit}' divides the credit of shared turns, but with [branching] the loss counts each of them "
            "once already; use grpo"
        )
    if part.fills and critic:
        raise ValueError(f"value_N would be measured twice, by a critic and by branching '{name}'; leave [value] out")
    if part.fills and not part.fills & reads:
        raise ValueError(
            f"branching '{name}' has no effect beyond that of tree_grpo: credit '{credit}' reads neither value_N nor "
            "count_N; use a rule that does, such as turn_gae or progress with read = 'value'"
        )
