"""``FsdpLearner``: the learner of a run with several processes, in the first of them. It calls all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from turngate.agents.policies.forward import cast
from turngate.agents.protocols import LanguageModel, Precision
from turngate.errors import ConfigError
from turngate.trainer.learner import NOTHING, Measured, TokensPerPass
from turngate.trainer.loss.tokens import Loss
from turngate.trainer.torch.batch_shares import Share, joined, shares_of
from turngate.trainer.torch.learner import refuse_other_critic
from turngate.trainer.torch.packing import Packing, Settled
from turngate.trainer.torch.passes import Passes
from turngate.trainer.torch.sharded import ShardLearner, outline, sharded, skeleton
from turngate.trainer.torch.shards import read_state, write_state
from turngate.trainer.torch.team import Team
from turngate.trainer.torch.trained_weights import refuse_other, whole_model
from turngate.types import PLAIN, Batch, BoolArray, FloatArray, Metrics, Sampling


class FsdpLearner:
    """AdamW on a transformers causal language model that is divided among the processes of ``team``.

    Updates and measurements are those of a ``TorchLearner``, to rounding; settings and files are the same. ``model``
    stays a whole one in this process; ``weights`` writes what was learned into it. Learners of one model share it.
    """

    def __init__(
        self,
        team: Team,
        model: LanguageModel,
        *,
        lr: float,
        weight_decay: float = 0.0,
        clip_norm: float = 1.0,
        tokens_per_pass: TokensPerPass = "auto",
        sampling: Sampling = PLAIN,
        dtype: Precision = "auto",
        packing: Packing = "auto",
    ) -> None:
        self.model, self._team, self._number = model.train(), team, team.number_for(self)
        cast(model, torch.float32)  # as ``TorchLearner`` does
        self._whole = Passes(model, sampling, tokens_per_pass, dtype, packing)  # to compare trees with rows
        settings = {"lr": lr, "weight_decay": weight_decay, "clip_norm": clip_norm, "sampling": sampling}
        settings |= {"tokens_per_pass": tokens_per_pass, "dtype": dtype}
        place, known = team.number_of(model)
        settings["deterministic"] = torch.are_deterministic_algorithms_enabled()
        sent = [None if known else skeleton(model)] * (team.place.size - 1)
        team.call(_open, [(self._number, place, one, settings) for one in (model, *sent)])

    def forward_backward(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> Metrics:
        """See ``TorchLearner``. Raises ConfigError for a loss that cannot be sent to other processes."""
        shares = shares_of(batch, self._team.place.size)
        metrics: Metrics = {}
        for found in self._over(_learn, batch, [(loss, share.of(measured)) for share in shares], shares):
            for name, part in found.items():
                metrics[name] = metrics.get(name, 0.0) + part
        return metrics

    def hold_gradient(self) -> float:
        """See ``Learner``."""
        return float(self._each(_hold)[0])

    def optim_step(self, *, lr_scale: float = 1.0) -> Metrics:
        """See ``Learner``."""
        metrics: Metrics = self._each(_update, lr_scale)[0]
        return metrics

    def weights(self) -> Mapping[str, torch.Tensor]:
        """The parameters of the whole model by name, brought up to date; the next call changes them."""
        first = (self._number, self.model)
        self._team.call(_gather_weights, [first, *[(self._number, None)] * (self._team.place.size - 1)])
        return {name: parameter.detach() for name, parameter in self.model.named_parameters()}

    def logprobs(self, batch: Batch, *, whole: bool = False) -> FloatArray:
        """See ``TorchLearner``."""
        return self._measured("logprobs", batch, {"whole": whole})

    def entropies(self, batch: Batch) -> FloatArray:
        """See ``TorchLearner``."""
        return self._measured("entropies", batch, {})

    def values(self, batch: Batch, wanted_L: BoolArray) -> FloatArray:
        """There is no critic: raises ConfigError."""
        raise ConfigError(
            'values are to be computed, but learner.type "fsdp" has no critic; use learner.type = "torch"'
        )

    def save(self, path: Path) -> None:
        """Write what ``TorchLearner.save`` does: any number of processes can go on with it."""
        write_state(self._each(_state)[0], path)

    def load(self, path: Path) -> None:
        """Read what ``save`` or ``TorchLearner.save`` wrote. Raises StoreError for the state of another model."""
        state = read_state(path, torch.device("cpu"))
        refuse_other_critic(path, state, critic=False)
        refuse_other(whole_model(state, path), dict(self.model.named_parameters()), path)
        others = (self._number, outline(state))
        self._team.call(_restore, [(self._number, state), *[others] * (self._team.place.size - 1)])

    def _measured(self, measure: str, batch: Batch, options: Mapping[str, Any]) -> FloatArray:
        shares = shares_of(batch, self._team.place.size)
        return joined(self._over(_measure, batch, [(measure, options)] * len(shares), shares))

    def _over(
        self, function: Callable[..., Any], batch: Batch, arguments: list[tuple[Any, ...]], shares: list[Share]
    ) -> list[Any]:
        """Call ``function`` with a share of ``batch`` and ``arguments`` in each process."""
        settled = self._whole.settled(batch)
        rest = zip(shares, arguments, strict=True)
        return self._team.call(function, [(self._number, share, settled, *own) for share, own in rest])

    def _each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call ``function`` with the same arguments in each process."""
        return self._team.call(function, [(self._number, *arguments)] * self._team.place.size)


# --- what the processes are called for --------------------------------------------------------------------------------


def _open(team: Team, number: int, place: int, model: LanguageModel | None, settings: dict[str, Any]) -> None:
    settings = dict(settings)
    if settings.pop("deterministic"):
        torch.use_deterministic_algorithms(True, warn_only=torch.cuda.is_available())
    if place not in team.held:
        assert model is not None, "the first learner of a model sends it"
        team.held[place] = sharded(team, model)
    team.held[number] = ShardLearner(team, team.held[place], **settings)


def _learn(team: Team, number: int, share: Share, settled: Settled, loss: Loss, measured: Measured) -> Metrics:
    with _at(team, number) as learner:
        return learner.forward_backward(learner.take(share, settled), loss, measured=measured)


def _measure(
    team: Team, number: int, share: Share, settled: Settled, measure: str, options: Mapping[str, Any]
) -> FloatArray:
    with _at(team, number) as learner:
        found: FloatArray = getattr(learner, measure)(learner.take(share, settled), **options)
        return found


def _hold(team: Team, number: int) -> float:
    with _at(team, number) as learner:
        return learner.hold_gradient()


def _update(team: Team, number: int, lr_scale: float) -> Metrics:
    with _at(team, number) as learner:
        return learner.optim_step(lr_scale=lr_scale)


def _gather_weights(team: Team, number: int, model: LanguageModel | None) -> None:
    """Write all weights into ``model``, which the first process passes."""
    own = {} if model is None else dict(model.named_parameters())
    with _at(team, number) as learner, torch.no_grad():
        for name, weight in learner.whole_weights():
            if model is not None:
                own[name].copy_(weight)


def _state(team: Team, number: int) -> dict[str, Any] | None:
    with _at(team, number) as learner:
        state = learner.whole_state()
        return state if team.place.rank == 0 else None


def _restore(team: Team, number: int, state: Mapping[str, Any]) -> None:
    with _at(team, number) as learner:
        learner.restore(state)


@contextmanager
def _at(team: Team, number: int) -> Iterator[ShardLearner]:
    """A learner of this process; afterwards no weight is left gathered, so that the next pass gathers current ones."""
    learner = team.held[number]
    yield learner
    learner.model.reshard()
