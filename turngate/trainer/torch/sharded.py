"""A process's part of a learner: a share of every batch, and a shard of every weight (FSDP2).

``fully_shard`` divides weights, gradients and the state of the optimizer among the processes. For a pass each process
gathers the weights of one layer after another and adds its gradient to the sum of all. So all processes have to make
the same passes in the same order: one that has fewer rows makes passes over nothing.

The head of a critic is small, so each process has a whole one. Their gradients are summed up before each update, which
is the same in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor import empty as empty_shards

from turngate.agents.protocols import LanguageModel, Precision
from turngate.trainer.learner import Critic, Measured, TokensPerPass, tokens_of_a_pass
from turngate.trainer.loss.tokens import Loss, Needs, Tokens
from turngate.trainer.torch.batch_shares import Share
from turngate.trainer.torch.critic import ValueTargets
from turngate.trainer.torch.learner import TorchLearner
from turngate.trainer.torch.packing import Packer, Packing
from turngate.trainer.torch.passes import Pass, Passes
from turngate.trainer.torch.prediction import Predicted
from turngate.trainer.torch.rows import Rows
from turngate.trainer.torch.shards import read_held, write_divided
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
        critic: Critic | None,
        dtype: Precision,
        packing: Packing,
    ) -> None:
        super().__init__(
            model, lr=lr, weight_decay=weight_decay, clip_norm=clip_norm, sampling=sampling, critic=critic, dtype=dtype
        )
        self._team = team
        self._own = SharePasses(team, model, sampling, tokens_per_pass, dtype, packing)
        self._passes = self._own
        self._advice = [
            f"lower learner.tokens_per_pass, which is {tokens_of_a_pass(tokens_per_pass, team.device.type)}",
            "start more processes on more GPUs",
        ]

    def take(self, share: Share) -> Batch:
        """Begin with a share: everything that is computed until the next call is about it. Returns its batch."""
        self._own.share = share
        return share.batch

    def unsettled(self, batch: Batch) -> bool:
        """Whether ``settle`` is to be called before passes over shares of this batch."""
        return self._own.in_step.packer.unsettled(batch)

    def settle(self, batch: Batch) -> None:
        """See ``Packer.settle``. All processes compare the same trees with the same rows, and find the same."""
        self._own.in_step.packer.settle(batch)

    def whole_weight(self, name: str) -> torch.Tensor:
        """A weight gathered from all processes."""
        return _whole(self._trained.published()[name])

    def save(self, path: Path) -> None:
        """Write this process's part of what ``TorchLearner.save`` writes; the first one writes the index."""
        write_divided(self._state(), path, group=self._team.talk)

    def _read(self, path: Path) -> Mapping[str, object]:
        """This process's part of a saved state, but all of a critic's head and of what the optimizer keeps of it."""
        state: Any = read_held(path, Divided(self._team))
        kept = state["optimizer"]["state"]
        for number in [number for number in kept if number >= len(self._parameters)]:
            kept[number] = {name: _whole(value) for name, value in kept[number].items()}
        if "critic" in state:
            head = state["critic"]["head"]
            state["critic"]["head"] = {name: _whole(value) for name, value in head.items()}
        found: Mapping[str, object] = state
        return found

    def _norm(self, tensors: Sequence[torch.Tensor]) -> float:
        return float(_whole(torch.nn.utils.get_total_norm(tensors)))

    def _clipped(self, parameters: Iterable[torch.nn.Parameter], what: str) -> float:
        own = list(parameters)
        self._sum_gradients([one for one in own if not isinstance(one, DTensor)])
        norm = float(_whole(torch.nn.utils.clip_grad_norm_(own, self._clip_norm)))
        self._skips.note(what, norm)
        return norm

    def _sum_gradients(self, replicas: Sequence[torch.nn.Parameter]) -> None:
        """Give weights that every process has whole the sum of all processes' gradients, if any process has one."""
        if not replicas or not self._team.most(int(any(one.grad is not None for one in replicas))):
            return
        for one in replicas:
            one.grad = torch.zeros_like(one) if one.grad is None else one.grad
            dist.all_reduce(one.grad)

    def _policy_part(self, one: Pass, fixed: Loss) -> tuple[torch.Tensor, Metrics]:
        """See ``TorchLearner``. The loss is not asked about a pass over nothing."""
        if one.rows is self._own.nothing:
            return one.tokens.logprob.sum() + self._own.touched, {}
        value, parts = super()._policy_part(one, fixed)
        return value + self._own.touched, parts

    def _descend(self, value: torch.Tensor, parts: Metrics, metrics: Metrics) -> None:
        """See ``TorchLearner``. One share whose loss is not finite ends the update in all processes, since all of them
        have to take part in each backward pass, or none."""
        broken = self._team.most(int(not math.isfinite(value.item())))
        super()._descend(value + math.nan if broken else value, parts, metrics)

    def _further_epochs(self) -> None:
        """See ``TorchLearner``. Each process goes over its own states at once, so that all make the same updates."""
        if self._value_head is not None and self._team.most(len(self._targets)):
            self._targets = [_joined(self._targets, self._value_head.weight)]
            super()._further_epochs()

    def _surveyed(self, parts: list[Tokens]) -> list[Tokens]:
        """The tokens of all shares."""
        found = self._team.everyones([_on(one, torch.device("cpu")) for one in parts])
        return [_on(one, self._device) for shared in found for one in shared]


class Divided:
    """Of each tensor the rows that ``fully_shard`` gives this process (see ``shards.Holding``); numbers whole."""

    def __init__(self, team: Team) -> None:
        self._mesh, self._device, self.group = team.mesh, team.device, team.talk

    def take(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.ndim == 0:
            return tensor
        return distribute_tensor(tensor.to(self._device), self._mesh, [Shard(0)], src_data_rank=None)

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        if not shape:
            return torch.empty((), dtype=dtype)
        return empty_shards(tuple(shape), dtype=dtype, device_mesh=self._mesh, placements=[Shard(0)])


class SharePasses(Passes):
    """The passes over a share, as many in every process.

    ``touched`` is 0 and has a gradient of 0 for every weight that the last pass gathered: added to the loss, it makes
    sure that every process adds something to the sum of each gradient, whatever the loss is.
    """

    def __init__(
        self,
        team: Team,
        model: LanguageModel,
        sampling: Sampling,
        tokens_per_pass: TokensPerPass,
        dtype: Precision,
        packing: Packing,
    ) -> None:
        super().__init__(model, sampling, tokens_per_pass, dtype, packing)
        self.in_step = InStep(self._packer, team, self._device)
        self._packer = self.in_step  # type: ignore[assignment]
        self.nothing = self.in_step.nothing
        self.touched = torch.zeros(())
        self.share: Share  # that of the batch under way

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
    """Cuts a share as ``packer`` does, which compares trees with rows before; then adds rows with nothing to learn,
    until every process has as many passes."""

    def __init__(self, packer: Packer, team: Team, device: torch.device) -> None:
        self.packer, self._team = packer, team
        packer.agreed = self._first_problem
        none, ids = torch.zeros(0, dtype=torch.long, device=device), torch.zeros(1, 1, dtype=torch.long, device=device)
        flat = np.zeros(0, np.int64)
        self.nothing = Rows(ids, None, none, none, none, flat, none, flat)

    def rows(self, batch: Batch, trained: BoolArray, valued: BoolArray) -> Iterator[Rows]:
        own = list(self.packer.cut(batch, trained, valued)) if batch.n_tokens else []
        added = self._team.most(len(own)) - len(own)
        yield from [*own, *[self.nothing] * added]

    def _first_problem(self, problem: str) -> str:
        return next(filter(None, self._team.everyones(problem)), "")


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _joined(targets: Sequence[ValueTargets], weight: torch.Tensor) -> ValueTargets:
    """All targets as one, which may have no state at all."""
    none, no_states = weight.new_zeros(0), weight.new_zeros(0, len(weight))
    columns = {
        name: torch.cat([start, *(getattr(one, name) for one in targets)])
        for name, start in (("states", no_states), ("target", none), ("weight", none), ("old", none))
    }
    return ValueTargets(**columns)


def _on(tokens: Tokens, device: torch.device) -> Tokens:
    """Detached tokens on ``device``."""
    columns = {field.name: getattr(tokens, field.name) for field in fields(tokens)}
    tensors = {name: one.detach().to(device) for name, one in columns.items() if isinstance(one, torch.Tensor)}
    return replace(tokens, **tensors)  # type: ignore[arg-type]
