"""Models divided among the processes of a team: each has a part of every weight, and nowhere all are together."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from turngate.agents.protocols import LanguageModel
from turngate.trainer.torch.team import Filling, Team


def skeleton(model: LanguageModel) -> LanguageModel:
    """A copy of ``model`` without numbers, in which weights that are one stay one."""
    return copy.deepcopy(model, {id(tensor): _meta(tensor) for _, tensor in tensors_of(model)})


def emptied(model: LanguageModel) -> None:
    """Take the weights out of ``model``, in place: it keeps their names and shapes."""
    _replace_tensors(model, {id(weight): _meta(weight) for weight in model.parameters()})


def sharded(team: Team, outline: LanguageModel, filling: Filling) -> LanguageModel:
    """A model like ``outline``, of which each process has a part that ``filling`` gives. Called in all of them.

    Each transformer layer is gathered on its own; the rest, with the embedding, for a whole pass.
    """
    own = skeleton(outline)
    layers = {str(name) for name in getattr(own, "_no_split_modules", None) or ()}
    parts: list[Any] = [part for part in own.modules() if type(part).__name__ in layers]  # type: ignore[attr-defined]
    own.states_of = own.base_model.__call__  # type: ignore[attr-defined]
    for part in [*parts, own]:
        fully_shard(part, mesh=team.mesh)
        assert isinstance(part, FSDPModule)
        part.set_gradient_divide_factor(1.0)  # the weights in a batch are those of the whole one: a sum, no average
        part.set_force_sum_reduction_for_comms(True)  # gloo knows no other
    register_fsdp_forward_method(own, "states_of")  # type: ignore[arg-type]
    _replace_tensors(
        own, {id(tensor): _like(tensor, filling(name, tensor.detach())) for name, tensor in tensors_of(own)}
    )
    return own


@dataclass(frozen=True, slots=True)
class FromFirst:
    """The numbers of the first process's ``outline``, of which the others have a ``skeleton``: one tensor at a time."""

    outline: LanguageModel

    def filling(self, team: Team) -> Filling:
        known = dict(tensors_of(self.outline))

        def part_of(name: str, tensor: torch.Tensor) -> torch.Tensor:
            whole = known[name].detach()
            there = torch.empty_like(whole, device=team.device) if whole.is_meta else whole.to(team.device)
            if isinstance(tensor, DTensor):
                return distribute_tensor(there, tensor.device_mesh, tensor.placements)
            there = there.contiguous()
            dist.broadcast(there, src=0)
            return there.clone()

        return part_of


def equal_to(model: LanguageModel) -> Filling:
    """The same parts as those of ``model``, which is divided."""
    known: Mapping[str, torch.Tensor] = dict(tensors_of(model))
    return lambda name, tensor: known[name].detach().clone()


def tensors_of(model: LanguageModel) -> Iterator[tuple[str, torch.Tensor]]:
    """Every weight and buffer once, with its name."""
    yield from model.named_parameters()
    module: Any = model
    yield from module.named_buffers()


def _meta(tensor: torch.Tensor) -> torch.Tensor:
    return _like(tensor, torch.empty_like(tensor, device="meta"))


def _like(tensor: torch.Tensor, content: torch.Tensor) -> torch.Tensor:
    """``content`` as the weight or the buffer that ``tensor`` is."""
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(content, requires_grad=tensor.requires_grad)
    return content


def _replace_tensors(model: Any, made: Mapping[int, torch.Tensor]) -> None:
    """Replace tensors of ``model`` by those that ``made`` has for them; those that were one stay one."""
    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                table[name] = made.get(id(tensor), tensor)
