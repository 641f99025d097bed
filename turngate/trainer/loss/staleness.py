"""Settings that a config needs or may not have where the weights that sample are older than those that learn.

This is the case with ``train.ahead`` (see ``turngate.trainer.ahead``). No torch.
"""

from __future__ import annotations

from collections.abc import Mapping

from turngate.trainer.loss.base import Objective
from turngate.trainer.loss.settings import LossSettings


def with_correction(loss: object) -> object:
    """The section ``loss`` with truncated importance sampling, where it names no ``correction``.

    An objective with a ratio then takes it to the learner's own weights before the update (``decoupled``), so that the
    ratio to the sampler, which the correction weighs by, counts once. One with ``decoupled = false`` is left as it is:
    its own ratio is that to the sampler. So is a loss that cannot be read, which validation reports.
    """
    given = loss.model_dump(exclude_unset=True) if isinstance(loss, LossSettings) else loss
    if not isinstance(given, Mapping) or "correction" in given:
        return loss
    try:
        objective = Objective.load(given["objective"]) if "objective" in given else _fallback()
    except ValueError:
        return loss
    if objective.uses_ratio and given.get("decoupled") is False:
        return loss
    return {**given, "correction": [{"type": "tis"}], **({"decoupled": True} if objective.uses_ratio else {})}


def check_ahead(steps: int, *, by_oracle: bool) -> None:
    """Raise ValueError where nothing can overlap with ``train.ahead``, and for a rule that asks the environments from
    the learner's thread. Parts that go with it in no run say so themselves.

    ``by_oracle``: whether the credit rule reads how likely the answers of the environments' oracles are.
    """
    if steps < 2:
        raise ValueError(f"train.ahead has no effect with train.steps = {steps}: no step follows; leave it out")
    if by_oracle:
        raise ValueError(
            "a credit rule that reads gain_N does not go with train.ahead while the environments' oracles give the "
            "answers, because they serve one thread; set signals.answer, or train.ahead = 0"
        )


def _fallback() -> Objective:
    found: Objective = LossSettings.model_fields["objective"].default
    return found
