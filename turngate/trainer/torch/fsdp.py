"""``FsdpLearner``: the learner of a run with several processes, in the first of them. It calls all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

from turngate.agents.policies.base import ReadWeights
from turngate.agents.policies.forward import cast
from turngate.agents.protocols import LanguageModel, Precision
from turngate.errors import ConfigError
from turngate.trainer.learner import NOTHING, Critic, Measured, TokensPerPass
from turngate.trainer.loss.tokens import Loss
from turngate.trainer.torch.batch_shares import Share, join_columns, shares_of
from turngate.trainer.torch.learner import refuse_other_critic
from turngate.trainer.torch.model_parts import emptied, equal_to, sharded, skeleton
from turngate.trainer.torch.packing import Packing
from turngate.trainer.torch.sharded import ShardLearner
from turngate.trainer.torch.shards import read_state
from turngate.trainer.torch.team import Handed, Ranks, Team
from turngate.trainer.torch.trained_weights import refuse_other, whole_model
from turngate.types import PLAIN, Batch, BoolArray, FloatArray, Metrics, Sampling

T = TypeVar("T")


class FsdpLearner:
    """AdamW on a transformers causal language model that is divided among the processes of ``ranks``.

    Updates and measurements are those of a ``TorchLearner``, to rounding; settings are the same. The weights are taken
    out of ``model``, which keeps their names and shapes; ``weights`` has them. Learners of one model share it.
    """

    def __init__(
        self,
        ranks: Ranks,
        model: LanguageModel,
        *,
        lr: float,
        weight_decay: float = 0.0,
        clip_norm: float = 1.0,
        tokens_per_pass: TokensPerPass = "auto",
        sampling: Sampling = PLAIN,
        critic: Critic | None = None,
        dtype: Precision = "auto",
        packing: Packing = "auto",
    ) -> None:
        self.model, self._ranks, self._number = model, ranks, ranks.number_for(self)
        self._has_critic = critic is not None
        self._is_settled = packing == "rows"  # whether trees need no comparison with rows any more
        settings = {"lr": lr, "weight_decay": weight_decay, "clip_norm": clip_norm, "sampling": sampling}
        settings |= {"tokens_per_pass": tokens_per_pass, "dtype": dtype, "packing": packing, "critic": critic}
        self._place, known = ranks.number_of(model)
        settings["deterministic"] = torch.get_deterministic_debug_mode()
        cast(model, torch.float32)  # as ``TorchLearner`` does
        handed = [None] * ranks.size if known else ranks.handed(model)
        ranks.call(_open, [(self._number, self._place, one, settings) for one in handed])
        emptied(model)

    def forward_backward(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> Metrics:
        """See ``TorchLearner``. Raises ConfigError for a loss that cannot be sent to other processes."""
        shares = shares_of(batch, self._ranks.size)
        metrics: Metrics = {}
        for found in self._over(_learn, batch, [(loss, share.of(measured)) for share in shares], shares):
            for name, part in found.items():
                metrics[name] = metrics.get(name, 0.0) + part
        return metrics

    def hold_gradient(self) -> float:
        return float(self._each(_hold)[0])

    def optim_step(self, *, lr_scale: float = 1.0) -> Metrics:
        metrics: Metrics = self._each(_update, lr_scale)[0]
        return metrics

    def weights(self) -> GatheredWeights:
        """The weights of the whole model, one gathered after the other when they are read."""
        return GatheredWeights(self)

    def whole_weight(self, name: str) -> torch.Tensor:
        """A weight of the whole model, in memory of its own."""
        found = self._each(_gather, name)[0]
        assert found is not None, "the first process has it"
        return found

    def twin(self) -> LanguageModel:
        """A model that is divided like this learner's and equal to it at this moment, for another learner to open."""
        twin = skeleton(self.model)
        place, _ = self._ranks.number_of(twin)
        self._ranks.call(_copy, [(self._place, place, twin)] * self._ranks.size)
        return twin

    def logprobs(self, batch: Batch, *, whole: bool = False) -> FloatArray:
        return self._measured("logprobs", batch, {"whole": whole})

    def entropies(self, batch: Batch) -> FloatArray:
        return self._measured("entropies", batch, {})

    def values(self, batch: Batch, wanted_L: BoolArray) -> FloatArray:
        """See ``TorchLearner``. Raises ConfigError for a learner without a critic."""
        if not self._has_critic:
            raise ConfigError("values are to be computed, but this learner has no critic; open it with one")
        shares = shares_of(batch, self._ranks.size)
        wanted = [(wanted_L[share.first : share.first + share.batch.n_tokens],) for share in shares]
        return join_columns(self._over(_values, batch, wanted, shares))

    def save(self, path: Path) -> None:
        """Write what ``TorchLearner.save`` does, each process its own part (see ``shards``): any number of processes
        can go on with it. Raises RuntimeError where one of them cannot write."""
        self._each(_save, path.absolute())

    def load(self, path: Path) -> None:
        """Read what ``save`` or ``TorchLearner.save`` wrote, each process its own part. Raises StoreError for the state
        of another model."""
        outline = read_state(path, torch.device("meta"))
        refuse_other_critic(path, outline, critic=self._has_critic)
        refuse_other(whole_model(outline, path), dict(self.model.named_parameters()), path)
        self._each(_load, path.absolute())

    def _measured(self, measure: str, batch: Batch, options: Mapping[str, Any]) -> FloatArray:
        shares = shares_of(batch, self._ranks.size)
        return join_columns(self._over(_measure, batch, [(measure, options)] * len(shares), shares))

    def _over(
        self, function: Callable[..., Any], batch: Batch, arguments: list[tuple[Any, ...]], shares: list[Share]
    ) -> list[Any]:
        """Call ``function`` with a share of ``batch`` and ``arguments`` in each process."""
        if not self._is_settled and self._ranks.first(_unsettled, self._number, batch):
            self._each(_settle, batch)
            self._is_settled = True
        rest = zip(shares, arguments, strict=True)
        return self._ranks.call(function, [(self._number, share, *own) for share, own in rest])

    def _each(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Call ``function`` with the same arguments in each process."""
        return self._ranks.call(function, [(self._number, *arguments)] * self._ranks.size)


class GatheredWeights(ReadWeights[torch.Tensor]):
    """The weights of a learner's model by name. Only one is whole at a time: it is gathered when it is read.

    Each reading is one call of all processes, so a reader may take some of them, in any order, and stop in between. The
    next update changes the values.
    """

    def __init__(self, learner: FsdpLearner) -> None:
        self._learner = learner
        self._shapes = {name: tuple(weight.shape) for name, weight in learner.model.named_parameters()}

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._shapes:
            raise KeyError(name)
        return self._learner.whole_weight(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._shapes[name]


# --- functions that run in every process ------------------------------------------------------------------------------


def _open(team: Team, number: int, place: int, handed: Handed | None, settings: dict[str, Any]) -> None:
    settings = dict(settings)
    torch.set_deterministic_debug_mode(settings.pop("deterministic"))
    if place not in team.held:
        assert handed is not None, "the first learner of a model sends it"
        team.held[place] = sharded(team, handed.outline, handed.filling(team))
    team.held[number] = ShardLearner(team, team.held[place], **settings)


def _copy(team: Team, place: int, to: int, outline: LanguageModel) -> None:
    """Hold a copy of the model of one number under another."""
    team.held[to] = sharded(team, outline, equal_to(team.held[place]))


def _unsettled(team: Team, number: int, batch: Batch) -> bool:
    learner: ShardLearner = team.held[number]
    return learner.unsettled(batch)


def _settle(team: Team, number: int, batch: Batch) -> None:
    with _at(team, number) as learner:
        learner.settle(batch)


def _learn(team: Team, number: int, share: Share, loss: Loss, measured: Measured) -> Metrics:
    with _at(team, number) as learner:
        return learner.forward_backward(learner.take(share), loss, measured=measured)


def _measure(team: Team, number: int, share: Share, measure: str, options: Mapping[str, Any]) -> FloatArray:
    with _at(team, number) as learner:
        found: FloatArray = getattr(learner, measure)(learner.take(share), **options)
        return found


def _values(team: Team, number: int, share: Share, wanted_L: BoolArray) -> FloatArray:
    with _at(team, number) as learner:
        return learner.values(learner.take(share), wanted_L)


def _hold(team: Team, number: int) -> float:
    with _at(team, number) as learner:
        return learner.hold_gradient()


def _update(team: Team, number: int, lr_scale: float) -> Metrics:
    with _at(team, number) as learner:
        return learner.optim_step(lr_scale=lr_scale)


def _gather(team: Team, number: int, name: str) -> torch.Tensor | None:
    """A whole weight, in the first process; None in the others, because every one would send it."""
    with _at(team, number) as learner:
        weight = learner.whole_weight(name)
        return None if team.place.rank else weight


def _save(team: Team, number: int, path: Path) -> None:
    with _at(team, number) as learner:
        learner.save(path)


def _load(team: Team, number: int, path: Path) -> None:
    with _at(team, number) as learner:
        learner.load(path)


@contextmanager
def _at(team: Team, number: int) -> Iterator[ShardLearner]:
    """A learner of this process; afterwards no weight is left gathered, so that the next pass gathers current ones."""
    learner = team.held[number]
    yield learner
    learner.model.reshard()
