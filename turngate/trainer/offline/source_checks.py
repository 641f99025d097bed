"""Which interval of publishing fits which run: a setting without effect is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turngate.config.sections import TrainSection


def check_sync(train: TrainSection, *, plays: bool, adapters: bool, policy: str) -> None:
    """Raise ValueError for a ``train.sync_every`` without effect, and for parts that need the weights of other
    steps."""
    every = train.sync_every
    if every == 1:
        return
    said = f"train.sync_every = {every}"
    if not plays:
        raise ValueError(f"{said} has no effect: no step plays, so the sampler needs no weights; leave it out")
    if every >= train.steps:
        raise ValueError(
            f"{said} has no effect beyond that of 0: there are {train.steps} steps; lower it, or write 0 for never"
        )
    if train.ahead:
        raise ValueError(f"{said} does not go with train.ahead: both decide how old episodes are; leave one out")
    validated = getattr(train.validation, "every", None)
    if validated is not None and (not every or validated % every):
        raise ValueError(
            f"train.validation.every = {validated} needs the sampler's weights of its steps, and {said} gives them to "
            "it after others; make it a multiple, or leave one out"
        )
    if adapters and policy != "local":
        raise ValueError(
            f'{said} does not go with learner.lora and policy.type = "{policy}", which takes adapters as they are '
            "trained; leave one out"
        )
