"""Key-value cache of many episodes: one row (slot) each, kept over all turns of the episode.

Rows in use are always the first ``n``, so that attention reads views instead of gathered copies: when an episode ends,
the last row moves into its place. The columns of one head lie next to each other in memory, because a decode step does
little else than read them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from turngate.agents.architecture import HubSettings, cache_shape


class SlotCache:
    """Keys and values as [slots, 2 · heads, capacity + 1, head_dim] per layer, the keys' heads first.

    Where keys and values differ in size (DeepSeek's latents) they lie side by side instead: [slots, heads, capacity +
    1, keys + values]. The last column is scratch: padding is written there. The cache also stands in for a transformers
    ``Cache`` (``aim`` and ``update``) when explicit positions and 4-D masks are passed.
    """

    def __init__(self, config: HubSettings, slots: int, *, device: torch.device, dtype: torch.dtype) -> None:
        shape = cache_shape(config)
        self._heads, self._beside = shape.heads, shape.keys if shape.keys != shape.values else 0
        self._lines = shape.heads if self._beside else 2 * shape.heads
        self._dim = shape.keys + shape.values if self._beside else shape.keys
        self._layers: int = config.num_hidden_layers
        self.slots, self._device, self._dtype = slots, device, dtype
        self.capacity = 0
        self._stores: list[torch.Tensor] = []
        self._rows = torch.zeros(0, dtype=torch.long)
        self._columns = torch.zeros(0, dtype=torch.long)
        self._width = 0
        self._first: int | None = None
        self.reserve(256)

    @torch.inference_mode(False)  # so that ``copy`` may write outside of that mode, too
    def reserve(self, n_tokens: int) -> None:
        """Make room for ``n_tokens`` per row and keep the content. Grows by doubling."""
        if n_tokens <= self.capacity:
            return
        capacity = max(self.capacity, 128)
        while capacity < n_tokens:
            capacity *= 2
        stores = [self._grown(layer, capacity) for layer in range(self._layers)]
        self._stores, self.capacity = stores, capacity  # together: an allocation may have failed

    def places(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """Where ``write`` puts single tokens at rows [p] and columns [p]: [p · 2 · heads]. Valid until ``reserve``."""
        heads = torch.arange(2 * self._heads, device=self._device)
        lines = rows[:, None] * (2 * self._heads) + heads
        return (lines * (self.capacity + 1) + columns[:, None]).flatten()

    def write(self, layer: int, places: torch.Tensor, heads: torch.Tensor) -> None:
        """Store keys and values [p, 2 · heads, dim] of single tokens; one index, because two cost twice the time."""
        self._stores[layer].view(-1, self._dim).index_copy_(0, places, heads.reshape(-1, self._dim))

    def read(self, layer: int, rows: slice | torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of some rows, the first ``width`` columns: [r, heads, width, dim]; views, for a slice."""
        return self._cut(self._stores[layer][:, :, :width][rows])

    def copy(self, source: int, targets: int | Sequence[int], n_tokens: int) -> None:
        """Row ``targets``, or each of them, starts with the first ``n_tokens`` of row ``source``."""
        where = targets if isinstance(targets, int) else torch.as_tensor(targets, device=self._device)
        for store in self._stores:
            store[where, :, :n_tokens] = store[source, :, :n_tokens]

    def copy_from(self, other: SlotCache, source: int, target: int, n_tokens: int) -> None:
        """Row ``target`` starts with the first ``n_tokens`` of row ``source`` of another cache of the same model."""
        for mine, theirs in zip(self._stores, other._stores, strict=True):
            mine[target, :, :n_tokens] = theirs[source, :, :n_tokens]

    @property
    def scratch(self) -> int:
        """The column that padding is written to and nothing reads."""
        return self.capacity

    # --- in the place of a transformers Cache -------------------------------------------------------------------------

    def aim(self, rows: Sequence[int], columns: torch.Tensor, width: int) -> None:
        """Say where the next forward pass writes: token [r, q] to row ``rows[r]``, column ``columns[r, q]``.

        ``width``: how many columns attention reads. When ``rows`` follow each other, no copy is made.
        """
        first, last = rows[0], rows[0] + len(rows)
        self._first = first if list(rows) == list(range(first, last)) else None
        if self._first is None:
            self._rows = torch.as_tensor(rows, device=self._device)[:, None]
        else:  # made where it is needed, so that a captured graph holds it too
            self._rows = torch.arange(first, last, device=self._device)[:, None]
        self._columns, self._width = columns, width

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new keys and values [r, heads, q, dim]; return what attention may read [r, heads, width, dim]."""
        store = self._stores[layer_idx]
        store[self._rows, :, self._columns] = torch.cat((keys, values), -1 if self._beside else 1).transpose(1, 2)
        if self._first is not None:
            return self.read(layer_idx, slice(self._first, self._first + len(self._rows)), self._width)
        return self.read(layer_idx, self._rows[:, 0], self._width)

    def get_seq_length(self, *_: object) -> int:
        """Asked by transformers; positions are always given, so it has no meaning here."""
        return 0

    def _cut(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of some rows of a store."""
        if self._beside:
            return rows[..., : self._beside], rows[..., self._beside :]
        return rows[:, : self._heads], rows[:, self._heads :]

    def _grown(self, layer: int, capacity: int) -> torch.Tensor:
        shape = (self.slots, self._lines, capacity + 1, self._dim)
        grown = torch.zeros(shape, device=self._device, dtype=self._dtype)
        if self._stores:
            grown[:, :, : self.capacity] = self._stores[layer][:, :, : self.capacity]
        return grown
