"""A process's part of a learner: a share of every batch, and a shard of every weight (FSDP2).

``fully_shard`` divides weights, gradients and the state of the optimizer among the processes. For a pass each process
gathers the weights of one layer after another and adds its gradient to the sum of all. So all processes have to make
the same passes in the same order: one that has fewer rows makes passes over nothing.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from turngate.agents.protocols import LanguageModel, Precision
from turngate.trainer.learner import NOTHING, Measured, TokensPerPass
from turngate.trainer.loss.tokens import Loss, Needs, Tokens
from turngate.trainer.torch.batch_shares import Share
from turngate.trainer.torch.learner import TorchLearner
from turngate.trainer.torch.packing import Packer, Settled
from turngate.trainer.torch.passes import Passes
from turngate.trainer.torch.prediction import Predicted
from turngate.trainer.torch.rows import Rows
from turngate.trainer.torch.team import Team
from turngate.types import Batch, BoolArray, Metrics, Sampling


class ShardLearner(TorchLearner):
    """A ``TorchLearner`` that computes one share of each batch, in step with those of the other processes.

    Every method that computes something is called in all processes at once. Metrics are sums over this share.
    """

    def __init__(
        self,
        team: Team,
        model: LanguageModel,
        *,
        lr: float,
        weight_decay: float,
        clip_norm: float,
        tokens_per_pass: TokensPerPass,
        sampling: Sampling,
        dtype: Precision,
    ) -> None:
        super().__init__(model, lr=lr, weight_decay=weight_decay, clip_norm=clip_norm, sampling=sampling, dtype=dtype)
        self._team = team
        self._own = SharePasses(team, model, sampling, tokens_per_pass, dtype)
        self._passes = self._own

    def take(self, share: Share, settled: Settled) -> Batch:
        """Begin with a share; what is computed until the next one is about it. Returns its batch."""
        self._own.begin(share, settled)
        return share.batch

    def forward_backward(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> Metrics:
        """See ``TorchLearner``. A pass over nothing is made without ``loss``."""
        fixed, memory = self._survey(batch, loss, measured)
        metrics: Metrics = {}
        for one in self._passes.over(batch, loss, measured):
            if one.rows is self._own.nothing:
                value, parts = one.tokens.logprob.sum(), Metrics()
            else:
                value, parts = fixed(one.tokens)
            if one.outside is not None:
                parts = parts | {"policy/outside_support_share": one.outside}
            self._descend(value + self._own.touched, parts, metrics)
        if not self._skips.problem:
            self._memory = memory
        return metrics

    def whole_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every weight by name, gathered from all processes, one at a time."""
        for name, parameter in self.model.named_parameters():
            yield name, _whole(parameter.detach())

    def whole_state(self) -> dict[str, object]:
        """What ``TorchLearner.save`` writes, gathered from all processes; tensors on the CPU of the first one."""
        keep = self._team.place.rank == 0
        optimizer: Any = self._optimizer.state_dict()
        return {
            "model": {name: weight.cpu() for name, weight in self.whole_weights() if keep},
            "optimizer": {**optimizer, "state": {n: _gathered(one, keep) for n, one in optimizer["state"].items()}},
            "memory": dict(self._memory),
            "skipped_in_a_row": self._skips.in_a_row,
        }

    def restore(self, state: Mapping[str, object]) -> None:
        """Take this process's shards of ``state``, which only the first process has to know (see ``outline``)."""
        saved: Any = state
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(self._shard(saved["model"][name], parameter))
        optimizer = saved["optimizer"]
        moments = {
            number: {name: self._shard(value, self._parameters[number]) for name, value in one.items()}
            for number, one in optimizer["state"].items()
        }
        self._optimizer.load_state_dict({**optimizer, "state": moments})
        self._memory = saved.get("memory", {})
        self._skips.in_a_row = saved.get("skipped_in_a_row", 0)

    def _shard(self, value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
        """The shard of a tensor that belongs to ``parameter``; a number, such as the count of updates, as it is."""
        if value.ndim == 0 and parameter.ndim:
            return value
        assert isinstance(parameter, DTensor)
        full = _there(value, parameter.device)
        return distribute_tensor(full, parameter.device_mesh, parameter.placements)

    def _norm(self, tensors: Sequence[torch.Tensor]) -> float:
        return float(_whole(torch.nn.utils.get_total_norm(tensors)))

    def _clipped(self, parameters: Iterable[torch.nn.Parameter], what: str) -> float:
        norm = float(_whole(torch.nn.utils.clip_grad_norm_(parameters, self._clip_norm)))
        self._skips.note(what, norm)
        return norm

    def _descend(self, value: torch.Tensor, parts: Metrics, metrics: Metrics) -> None:
        """See ``TorchLearner``. One share whose loss is not finite ends the update in all processes, since all of them
        have to take part in each backward pass, or none."""
        broken = self._team.most(int(not math.isfinite(value.item())))
        super()._descend(value + math.nan if broken else value, parts, metrics)

    def _surveyed(self, parts: list[Tokens]) -> list[Tokens]:
        """The tokens of all shares."""
        found = self._team.everyones([_on(one, torch.device("cpu")) for one in parts])
        return [_on(one, self._device) for shared in found for one in shared]


class SharePasses(Passes):
    """The passes over a share, as many in every process.

    ``touched`` is 0 and has a gradient of 0 for every weight that the last pass gathered: added to the loss, it makes
    sure that every process adds something to the sum of each gradient, whatever the loss is.
    """

    def __init__(
        self, team: Team, model: LanguageModel, sampling: Sampling, tokens_per_pass: TokensPerPass, dtype: Precision
    ) -> None:
        super().__init__(model, sampling, tokens_per_pass, dtype)
        self._in_step = InStep(self._packer, team, self._device)
        self._packer = self._in_step  # type: ignore[assignment]
        self.nothing = self._in_step.nothing
        self.touched = torch.zeros(())

    def begin(self, share: Share, settled: Settled) -> None:
        """Begin with a share, whose segments go through the model as ``settled``."""
        self.share = share
        self._in_step.packer.settle(settled)

    def _called(self, **inputs: Any) -> Any:
        return self.model.states_of(**inputs)  # type: ignore[attr-defined]

    def _predict(self, rows: Rows, hidden: torch.Tensor, needs: Needs) -> Predicted:
        none = hidden[:0]
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bf16):
            self.touched = none.sum() + self.head(none).sum()
        return super()._predict(rows, hidden, needs)

    def _tokens(self, batch: Batch, rows: Rows, predicted: Predicted, measured: Measured) -> Tokens:
        """See ``Passes``; tokens and trajectories are numbered as in the whole batch, which a survey sees."""
        own = super()._tokens(batch, rows, predicted, measured)
        return replace(own, place=own.place + self.share.first, segment=own.segment + self.share.first_segment)

    def _total(self, batch: Batch) -> float:
        return self.share.total


class InStep:
    """Cuts a share as ``packer`` does, then adds rows with nothing to learn, until every process has as many passes."""

    def __init__(self, packer: Packer, team: Team, device: torch.device) -> None:
        self.packer, self._team = packer, team
        none, ids = torch.zeros(0, dtype=torch.long, device=device), torch.zeros(1, 1, dtype=torch.long, device=device)
        flat = np.zeros(0, np.int64)
        self.nothing = Rows(ids, None, none, none, none, flat, none, flat)

    def rows(self, batch: Batch, trained: BoolArray, valued: BoolArray) -> Iterator[Rows]:
        """See ``Packer.rows``."""
        own = list(self.packer.rows(batch, trained, valued)) if batch.n_tokens else []
        added = self._team.most(len(own)) - len(own)
        yield from [*own, *[self.nothing] * added]


# --- models -----------------------------------------------------------------------------------------------------------


def skeleton(model: LanguageModel) -> LanguageModel:
    """A copy of ``model`` without numbers, in which weights that are one stay one."""
    return _copied(model, lambda tensor: torch.empty_like(tensor, device="meta"))


def sharded(team: Team, model: LanguageModel) -> LanguageModel:
    """A copy of the first process's ``model`` that is divided among all processes, which pass a ``skeleton`` of it.

    Each transformer layer is gathered on its own; the rest, with the embedding, for a whole pass.
    """
    first = team.place.rank == 0
    own = _copied(model, lambda tensor: tensor.to(team.device, copy=True) if first else _there(tensor, team.device))
    for tensor in _tensors(own):
        dist.broadcast(tensor.detach(), src=0)
    layers = {str(name) for name in getattr(own, "_no_split_modules", None) or ()}
    parts: list[Any] = [part for part in own.modules() if type(part).__name__ in layers]  # type: ignore[attr-defined]
    own.states_of = own.base_model.__call__  # type: ignore[attr-defined]
    for part in [*parts, own]:
        fully_shard(part, mesh=team.mesh)
        assert isinstance(part, FSDPModule)
        part.set_gradient_divide_factor(1.0)  # the weights in a batch are those of the whole one: a sum, no average
        part.set_force_sum_reduction_for_comms(True)  # gloo knows no other
    register_fsdp_forward_method(own, "states_of")  # type: ignore[arg-type]
    return own


def outline(state: object) -> object:
    """A state with its numbers, but without the content of tensors: what other processes need to ``restore`` it."""
    if isinstance(state, Mapping):
        return {name: outline(value) for name, value in state.items()}
    return state.to("meta") if isinstance(state, torch.Tensor) and state.ndim else state


def _copied(model: LanguageModel, make: Any) -> LanguageModel:
    """A copy with other tensors in place of weights and buffers."""
    memo: dict[int, Any] = {}
    for tensor in _tensors(model):
        made = make(tensor.detach())
        if isinstance(tensor, torch.nn.Parameter):
            made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
        memo[id(tensor)] = made
    return copy.deepcopy(model, memo)


def _tensors(model: Any) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers()]


def _there(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on ``device``; one without content gets any."""
    return torch.empty_like(tensor, device=device) if tensor.is_meta else tensor.to(device)


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _gathered(entry: Mapping[str, Any], keep: bool) -> dict[str, Any]:
    """What the optimizer keeps of one weight."""
    whole = {name: _whole(value) if isinstance(value, torch.Tensor) else value for name, value in entry.items()}
    return {name: value.cpu() if isinstance(value, torch.Tensor) else value for name, value in whole.items() if keep}


def _on(tokens: Tokens, device: torch.device) -> Tokens:
    """Detached tokens on ``device``."""
    columns = {field.name: getattr(tokens, field.name) for field in fields(tokens)}
    tensors = {name: one.detach().to(device) for name, one in columns.items() if isinstance(one, torch.Tensor)}
    return replace(tokens, **tensors)  # type: ignore[arg-type]
