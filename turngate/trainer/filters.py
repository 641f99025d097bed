"""Which groups reach credit. What is dropped is counted, by reason."""

from collections.abc import Callable, Mapping, Sequence

from turngate.types import Metrics, ScoredGroup

Filter = Callable[[ScoredGroup], bool]


def varied(group: ScoredGroup) -> bool:
    """Siblings differ in what they were paid: else no group-relative estimator has a signal (DAPO, 2503.14476)."""
    totals = [score.total for score in group.scores]
    return max(totals) - min(totals) > 1e-6


FILTERS: Mapping[str, Filter] = {"varied": varied}


def keep(groups: Sequence[ScoredGroup], filters: Mapping[str, Filter]) -> tuple[list[ScoredGroup], Metrics]:
    """Drop unusable trajectories, groups with fewer than two left, and groups that a filter refuses.

    An episode that had no room for its first turn is usable as a result, but there is nothing in it to learn from.
    """
    kept: list[ScoredGroup] = []
    drops = {"drop/unusable_trajectories": 0.0, "drop/lonely_groups": 0.0} | {
        f"drop/not_{name}": 0.0 for name in filters
    }
    for group in groups:
        pairs = zip(group.trajectories, group.scores, strict=True)
        usable = [index for index, (trajectory, score) in enumerate(pairs) if score.usable and trajectory.turns]
        drops["drop/unusable_trajectories"] += len(group.scores) - len(usable)
        if len(usable) < 2:
            drops["drop/lonely_groups"] += 1
            continue
        rest = ScoredGroup(
            task=group.task,
            trajectories=tuple(group.trajectories[index] for index in usable),
            scores=tuple(group.scores[index] for index in usable),
        )
        refused = next((name for name, passes in filters.items() if not passes(rest)), None)
        if refused:
            drops[f"drop/not_{refused}"] += 1
        else:
            kept.append(rest)
    return kept, drops
