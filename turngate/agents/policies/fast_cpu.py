"""The forward pass of Llama, Qwen2 and Qwen3 on a CPU, over the weights of the transformers model itself.

On small models the modules cost as much as the arithmetic: a decode step of 64 rows calls several hundred tensor
operations that move a few kilobytes each. Here a step is one pass over packed tokens (no padding), a layer is about
fifteen operations, and attention reads views of the cache; heads of grouped queries are never copied.

For each layer, with RMS(x) = x / √(mean x² + ε):

    [q, k, v] = W (RMS(h) · g₁);   q, k ← rotate(RMS(q) · g_q), rotate(RMS(k) · g_k)      RMS of q, k in Qwen3 only
    h ← h + W_o attention(q, K, V)
    h ← h + W_down (silu(W_gate x) · (W_up x)),   x = RMS(h) · g₂

Weights are read where the model keeps them, so published weights are seen at once. Everything else (other
architectures, other precisions, accelerators) goes through ``HubForward``, or on a GPU through ``CapturedForward``, to
which ``LeanStep`` is given for these architectures: the same layers in any precision, for decode steps in fixed memory
and for the passes beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from turngate.agents.policies.cuda_graphs import CapturedForward, Recorder
from turngate.agents.policies.forward import Feed, Forward, HubForward
from turngate.agents.policies.kv_cache import SlotCache
from turngate.agents.protocols import LanguageModel

BASES = ("LlamaModel", "Qwen2Model", "Qwen3Model")
ROTATIONS = ("default", "llama3")  # frequencies that do not depend on the length of the context
SMALL = 2**13
"""Pairs of a query and a key, about as many as are computed in the time that a further call of attention takes."""
COPIED = 4
"""A call reads views of the cache, with the rows between those that it serves, unless copying these is cheaper. To
copy a row costs about as much as this many queries to it."""


def forward_of(model: LanguageModel, cache: SlotCache) -> Forward:
    """The fastest pass that computes what ``model`` does."""
    if is_lean(model):
        return LeanForward(model, cache)
    on_gpu = next(model.parameters()).device.type == "cuda"
    return captured_of(model, cache) if on_gpu else HubForward(model, cache)


def captured_of(
    model: LanguageModel, cache: SlotCache, recorder: Callable[[torch.device], Recorder] | None = None
) -> CapturedForward:
    """Decode steps that are captured, by the step that has the fewest operations for ``model``."""
    return CapturedForward(model, cache, recorder, LeanStep(model, cache) if is_known(model) else None)


def is_lean(model: LanguageModel) -> bool:
    """Whether ``LeanForward`` computes what ``model`` does."""
    on_cpu = all(weight.device.type == "cpu" and weight.dtype == torch.float32 for weight in model.parameters())
    return on_cpu and is_known(model)


def is_known(model: LanguageModel) -> bool:
    """Whether ``model`` is one of the architectures that are computed here, in whatever precision."""
    config = model.config
    return (
        type(model.base_model).__name__ in BASES
        and set(getattr(config, "layer_types", None) or ()) <= {"full_attention"}
        and config.rope_parameters["rope_type"] in ROTATIONS
        and config.hidden_act == "silu"
        and all(type(part) is nn.Linear for layer in model.base_model.layers for part in _projections(layer))
    )


def _projections(layer: Any) -> tuple[Any, ...]:
    attention, mlp = layer.self_attn, layer.mlp
    return (
        *(attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj),
        *(mlp.gate_proj, mlp.up_proj, mlp.down_proj),
    )


@dataclass(frozen=True, slots=True)
class _Layer:
    """The weights of one layer, by reference."""

    before_attention: Any
    queries: Any
    keys: Any
    values: Any
    attended: Any
    query_norm: Any  # None: no norm
    key_norm: Any
    before_mlp: Any
    gate: Any
    up: Any
    down: Any

    @classmethod
    def of(cls, layer: Any) -> _Layer:
        attention = layer.self_attn
        queries, keys, values, attended, gate, up, down = _projections(layer)
        return cls(
            before_attention=layer.input_layernorm.weight,
            queries=queries,
            keys=keys,
            values=values,
            attended=attended,
            query_norm=attention.q_norm.weight if hasattr(attention, "q_norm") else None,
            key_norm=attention.k_norm.weight if hasattr(attention, "k_norm") else None,
            before_mlp=layer.post_attention_layernorm.weight,
            gate=gate,
            up=up,
            down=down,
        )


@dataclass(frozen=True, slots=True)
class _Call:
    """Feeds that are one call of attention: q queries, padded, in each of r rows of the cache.

    ``rows``: a slice where the call reads views, rows between that it does not serve included; else the rows, which are
    copied. ``asked`` [r · q]: which tokens of the pass ask, padded with any; a slice where they follow each other.
    """

    rows: slice | torch.Tensor
    asked: slice | torch.Tensor
    mask: torch.Tensor  # [r, 1, q, width], 0 or -∞; the width is how much of the cache is read


@dataclass(frozen=True, slots=True)
class _Pass:
    """Packed tokens of one pass: where they go, how they are rotated, who attends to what."""

    ids: torch.Tensor  # [p]
    places: torch.Tensor  # of the new keys and values in the cache
    cos: torch.Tensor  # [p, 1, dim]
    sin: torch.Tensor  # [p, 1, dim], negative in the first half
    calls: list[_Call]
    answers: torch.Tensor | None  # [p], where each token's result is in the results of all calls; None: in its order
    last: torch.Tensor | None  # [r]; None: every token is the last of its feed


class LeanForward(Forward):
    """See the module."""

    def __init__(self, model: LanguageModel, cache: SlotCache) -> None:
        super().__init__(model, cache)
        config = model.config
        self._dim: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._n_queries: int = config.num_attention_heads
        self._n_keys: int = config.num_key_value_heads
        self._eps: float = config.rms_norm_eps
        self._layers = [_Layer.of(layer) for layer in self._base.layers]
        self._cos = self._sin = torch.zeros(0, 1, self._dim)

    def __call__(self, feeds: Sequence[Feed]) -> torch.Tensor:
        return self._hidden(self._plan(feeds))

    def _hidden(self, plan: _Pass) -> torch.Tensor:
        h = F.embedding(plan.ids, self._base.embed_tokens.weight)
        for number, layer in enumerate(self._layers):
            attended = self._attend(plan, number, self._heads(plan, layer, self._rms(h, layer.before_attention)))
            h = _added(h, layer.attended, attended)
            x = self._rms(h, layer.before_mlp)
            x = F.silu(_linear(layer.gate, x)).mul_(_linear(layer.up, x))
            h = _added(h, layer.down, x)
        if plan.last is not None:
            h = h[plan.last]
        return self._rms(h, self._base.norm.weight)

    # --- tokens that are fed ------------------------------------------------------------------------------------------

    def _plan(self, feeds: Sequence[Feed]) -> _Pass:
        n_new = np.array([len(feed.ids) for feed in feeds])
        rows = np.array([feed.row for feed in feeds])
        starts = np.array([feed.start for feed in feeds])
        ends = np.cumsum(n_new)
        columns = np.arange(ends[-1]) + np.repeat(starts - (ends - n_new), n_new)
        self._reach(int(columns.max()) + 1)
        column = self._there(columns)
        calls, answers = self._calls(rows, n_new, columns)
        return _Pass(
            ids=self._there(np.concatenate([feed.ids for feed in feeds]).astype(np.int64)),
            places=self._cache.places(self._there(np.repeat(rows, n_new)), column),
            cos=self._cos[column],
            sin=self._sin[column],
            calls=calls,
            answers=answers,
            last=None if ends[-1] == len(feeds) else self._there(ends - 1),
        )

    def _calls(self, rows: Any, n_new: Any, columns: Any) -> tuple[list[_Call], torch.Tensor | None]:
        """The calls of attention for feeds of ``n_new`` tokens at ``rows``, whose tokens stand at ``columns``; and
        where the result of each token is among theirs (see ``_Pass``)."""
        ends = np.cumsum(n_new)
        begins, widths = ends - n_new, columns[ends - 1] + 1
        calls, answers, n_results = [], np.zeros(ends[-1], np.int64), 0
        for feeds in _together(n_new, widths):
            here, lengths, q, width = rows[feeds], n_new[feeds], int(n_new[feeds].max()), int(widths[feeds].max())
            first, last = int(here[0]), int(here[-1]) + 1
            viewed = (last - first) * q <= len(feeds) * (q + COPIED)
            n_rows, row = (last - first, here - first) if viewed else (len(feeds), np.arange(len(feeds)))
            within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            tokens, places = np.repeat(begins[feeds], lengths) + within, np.repeat(row * q, lengths) + within
            asked, reach = np.zeros((2, n_rows * q), np.int64)
            asked[places], reach[places], answers[tokens] = tokens, columns[tokens], n_results + places
            n_results += n_rows * q
            unseen = torch.arange(width, device=self._device) > self._there(reach).view(n_rows, 1, q, 1)
            mask = torch.zeros(unseen.shape, dtype=self._dtype, device=self._device)
            calls.append(
                _Call(
                    rows=slice(first, last) if viewed else self._there(here),
                    asked=slice(int(tokens[0]), int(tokens[-1]) + 1) if _counts_up(asked) else self._there(asked),
                    mask=mask.masked_fill_(unseen, -torch.inf),
                )
            )
        in_order = n_results == len(answers) and _counts_up(answers)
        return calls, None if in_order else self._there(answers)

    def _there(self, numbers: Any) -> torch.Tensor:
        """Numbers of the host, where the model is."""
        return torch.as_tensor(numbers, device=self._device)

    def _reach(self, n_positions: int) -> None:
        """Extend the rotation's tables, as the model computes them, to at least that many positions."""
        if n_positions <= len(self._cos):
            return
        positions = torch.arange(self._cache.capacity, device=self._device)[None]
        cos, sin = self._base.rotary_emb(torch.zeros(1, dtype=self._dtype, device=self._device), positions)
        sin = torch.cat((-sin[..., : self._dim // 2], sin[..., self._dim // 2 :]), -1)
        self._cos, self._sin = cos[0, :, None], sin[0, :, None]

    # --- one layer ----------------------------------------------------------------------------------------------------

    def _rms(self, x: torch.Tensor, weight: Any) -> torch.Tensor:
        return F.rms_norm(x, x.shape[-1:], weight, self._eps)

    def _heads(self, plan: _Pass, layer: _Layer, x: torch.Tensor) -> torch.Tensor:
        """Queries, keys (both rotated) and values of each token [p, queries + 2 · keys, dim]."""
        parts = (_linear(layer.queries, x), _linear(layer.keys, x), _linear(layer.values, x))
        heads = torch.cat(parts, -1).view(len(x), -1, self._dim)
        turned = heads[:, : self._n_queries + self._n_keys]
        plain = turned
        if layer.query_norm is not None:
            plain = F.rms_norm(turned, (self._dim,), None, self._eps)
            plain[:, : self._n_queries].mul_(layer.query_norm)
            plain[:, self._n_queries :].mul_(layer.key_norm)
        torch.addcmul(plain * plan.cos, plain.roll(self._dim // 2, -1), plan.sin, out=turned)
        return heads

    def _attend(self, plan: _Pass, layer: int, heads: torch.Tensor) -> torch.Tensor:
        """Store the new keys and values, then let each token read its row up to itself [p, queries · dim]."""
        self._cache.write(layer, plan.places, heads[:, self._n_queries :])
        queries = heads[:, : self._n_queries]
        parts = [self._attend_call(call, layer, queries[call.asked]) for call in plan.calls]
        read = parts[0] if len(parts) == 1 else torch.cat(parts)
        return read if plan.answers is None else read.index_select(0, plan.answers)

    def _attend_call(self, call: _Call, layer: int, queries: torch.Tensor) -> torch.Tensor:
        """The queries that share a key's head are a longer row of queries to that head, so keys are not repeated."""
        n, _, q, width = call.mask.shape
        group = self._n_queries // self._n_keys
        grouped = queries.reshape(n, q, self._n_keys, group, self._dim).permute(0, 2, 3, 1, 4)
        keys, values = self._cache.read(layer, call.rows, width)
        mask = call.mask if group == 1 or q == 1 else call.mask.repeat(1, 1, group, 1)
        read = F.scaled_dot_product_attention(
            grouped.reshape(n, self._n_keys, group * q, self._dim),
            keys,
            values,
            attn_mask=mask.expand(n, 1, group * q, -1),
        )
        return read.view(n, self._n_keys, group, q, self._dim).permute(0, 3, 1, 2, 4).reshape(n * q, -1)


def _linear(linear: Any, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, linear.weight, linear.bias)


def _added(h: torch.Tensor, linear: Any, x: torch.Tensor) -> torch.Tensor:
    """h + W x (+ b)."""
    total = torch.addmm(h, x, linear.weight.t())
    return total if linear.bias is None else total.add_(linear.bias)


class LeanStep(LeanForward):
    """One token for each of the first rows of the cache, in fixed memory: a decode step to be captured.

    In any precision, on any device. Norms round where the modules round, before their weight and after it.
    """

    def states(self, rows: Sequence[int], ids: torch.Tensor, columns: torch.Tensor, width: int) -> torch.Tensor:
        """As ``HubForward.states``, with q = 1 and rows that follow each other."""
        self._reach(self._cache.capacity)
        first, last = rows[0], rows[0] + len(rows)
        column = columns[:, 0]
        reach = column.masked_fill(column == self._cache.scratch, 0)
        mask = torch.zeros(len(rows), 1, 1, width, dtype=self._dtype, device=self._device)
        mask.masked_fill_(torch.arange(width, device=self._device) > reach[:, None, None, None], float("-inf"))
        plan = _Pass(
            ids=ids[:, 0],
            places=self._cache.places(torch.arange(first, last, device=self._device), column),
            cos=self._cos[reach],
            sin=self._sin[reach],
            calls=[_Call(rows=slice(first, last), asked=slice(0, len(rows)), mask=mask)],
            answers=None,
            last=None,
        )
        return self._hidden(plan)[:, None]

    def _rms(self, x: torch.Tensor, weight: Any) -> torch.Tensor:
        return super()._rms(x, None).mul_(weight)


# --- who attends together ---------------------------------------------------------------------------------------------


def _together(n_new: Any, widths: Any) -> Iterator[Any]:
    """Feeds that are one call of attention, in the order of their rows: those of similar length, as long as padding
    costs less than a further call would."""
    if n_new.max() == 1:
        yield np.arange(len(n_new))
        return
    order = np.argsort(n_new, kind="stable")
    begin = pairs = widest = 0
    for end, (n, width) in enumerate(zip(n_new[order].tolist(), widths[order].tolist(), strict=True)):
        pairs, widest = pairs + n * width, max(widest, width)
        if (end + 1 - begin) * n * widest > pairs + SMALL:
            yield np.sort(order[begin:end])
            begin, pairs, widest = end, n * width, width
    yield np.sort(order[begin:])


def _counts_up(numbers: Any) -> bool:
    return bool((np.diff(numbers) == 1).all())
