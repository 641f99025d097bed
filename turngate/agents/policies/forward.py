"""One pass of the model over the new tokens of all rows: one token for rows that decode, a prompt or an observation for
rows that begin a turn.

``HubForward`` runs any transformers model, padded to rows of equal length; on a GPU ``CapturedForward``
(``cuda_graphs.py``) repeats its decode steps as captured graphs. ``LeanForward`` (``fast_cpu.py``) runs the common
dense architectures on a CPU without padding and without the cost of the modules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from turngate.agents.architecture import FULL, SLIDING, cache_refusal, layer_kinds, window
from turngate.agents.policies.gpu import suit
from turngate.agents.policies.kv_cache import SlotCache
from turngate.agents.protocols import LanguageModel, Precision
from turngate.errors import ConfigError
from turngate.types import IntArray


def precision_of(name: Precision, device: torch.device) -> torch.dtype:
    """The number format that ``name`` means on ``device``."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def capped(logits: torch.Tensor, cap: float | None) -> torch.Tensor:
    """The model's logits from what its head computed: c · tanh(z / c) for a cap c (``logit_cap``), else z itself."""
    return logits if cap is None else cap * torch.tanh(logits / cap)


def cast(model: LanguageModel, dtype: torch.dtype) -> None:
    """Round the weights of ``model`` to ``dtype``, in place. Tables that are no weights (rotations) stay exact."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)


@dataclass(frozen=True, slots=True)
class Feed:
    """The new tokens of one row of the cache: ``ids`` stand at columns ``start``, ``start + 1``, …; at least one."""

    row: int
    start: int
    ids: IntArray

    @property
    def end(self) -> int:
        """The column after the last new token: how much of the row attention reads."""
        return self.start + len(self.ids)


class Forward(ABC):
    """The model without its head."""

    patience: ClassVar[int] = 0
    """Decode steps for which a turn that begins may wait for others to begin with it, because a pass with prompts costs
    about as much for one of them as for many."""

    def __init__(self, model: LanguageModel, cache: SlotCache) -> None:
        self._base, self._cache = model.base_model, cache
        weight = next(model.parameters())
        self._device, self._dtype = weight.device, weight.dtype
        suit(self._device)

    @abstractmethod
    def __call__(self, feeds: Sequence[Feed]) -> torch.Tensor:
        """Store keys and values of the new tokens; the hidden state after the last token of each feed [r, width].

        ``feeds`` are in the order of their rows, each row at most once.
        """


class HubForward(Forward):
    """Through the model's own ``forward``.

    A model of transformers takes a 4-D mask as it is, also in layers that see only a window, so each kind of layer is
    given the mask that it would have made itself. Raises ConfigError for a kind that is not known.
    """

    def __init__(self, model: LanguageModel, cache: SlotCache) -> None:
        super().__init__(model, cache)
        if problem := cache_refusal(model.config):
            raise ConfigError(problem)
        self._kinds, self._window = layer_kinds(model.config), window(model.config)
        self._adds = getattr(model.config, "_attn_implementation", None) == "eager"  # a mask that is added to scores

    def __call__(self, feeds: Sequence[Feed]) -> torch.Tensor:
        """See ``Forward``. Several passes where one would be mostly padding: a long prompt beside rows that decode."""
        last: dict[int, torch.Tensor] = {}
        for part in _alike(feeds):
            last.update(zip((feed.row for feed in part), self._padded(part), strict=True))
        return torch.stack([last[feed.row] for feed in feeds])

    def _padded(self, feeds: Sequence[Feed]) -> torch.Tensor:
        n_new = [len(feed.ids) for feed in feeds]
        ids = np.zeros((len(feeds), max(n_new)), np.int64)
        columns = np.full_like(ids, self._cache.scratch)
        for r, feed in enumerate(feeds):
            ids[r, : n_new[r]] = feed.ids
            columns[r, : n_new[r]] = np.arange(feed.start, feed.end)
        last = self._tensor(n_new) - 1  # before the pass: a copy to the device waits for what it was given
        rows, width = [feed.row for feed in feeds], max(feed.end for feed in feeds)
        hidden = self.states(rows, self._tensor(ids), self._tensor(columns), width)
        return hidden[torch.arange(len(feeds), device=self._device), last]

    def states(self, rows: Sequence[int], ids: torch.Tensor, columns: torch.Tensor, width: int) -> torch.Tensor:
        """Hidden states [r, q, hidden] of tokens ``ids`` [r, q] of the cache's ``rows``, at ``columns`` [r, q].

        A token at the scratch column is padding. Attention reads ``width`` columns. If the rows follow each other,
        nothing is copied from or to the host.
        """
        self._cache.aim(rows, columns, width)
        # padding attends to column 0: no row of the mask may be empty (NaN)
        reach = columns.masked_fill(columns == self._cache.scratch, 0)
        output = self._base(
            input_ids=ids,
            attention_mask=self._masks(reach, width),
            position_ids=reach,
            past_key_values=self._cache,
            use_cache=True,
        )
        hidden: torch.Tensor = output.last_hidden_state
        return hidden

    def _masks(self, reach: torch.Tensor, width: int) -> Any:
        """The mask of what each token sees, [r, 1, q, width]; or one mask for each kind of layer by its name."""
        before = reach[:, None, :, None] - torch.arange(width, device=self._device)
        seen = {FULL: before >= 0}
        if self._window is not None:
            seen[SLIDING] = seen[FULL] & (before < self._window)
        if self._adds:
            seen = {kind: self._added(mask) for kind, mask in seen.items()}
        return seen if self._kinds is not None else seen[FULL if self._window is None else SLIDING]

    def _added(self, mask: torch.Tensor) -> torch.Tensor:
        hidden = torch.finfo(self._dtype).min
        return torch.zeros(mask.shape, dtype=self._dtype, device=self._device).masked_fill_(~mask, hidden)

    def _tensor(self, numbers: Any) -> torch.Tensor:
        return torch.as_tensor(numbers, device=self._device)


def _alike(feeds: Sequence[Feed]) -> Iterator[list[Feed]]:
    """Parts of similar length, at most half of each padding, in the order of their rows."""
    part: list[Feed] = []
    n_tokens = 0
    for feed in sorted(feeds, key=lambda feed: len(feed.ids)):
        n_tokens += len(feed.ids)
        if part and len(feed.ids) * (len(part) + 1) > 2 * n_tokens:
            yield sorted(part, key=lambda feed: feed.row)
            part, n_tokens = [], len(feed.ids)
        part.append(feed)
    yield sorted(part, key=lambda feed: feed.row)
