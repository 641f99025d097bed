"""Key-value cache of many episodes: one row (slot) each, kept over all turns of the episode.

Rows in use are always the first ``n``, so that attention reads a view instead of a gathered copy: when an episode ends,
the last row moves into its place. A row's ``filled`` counts tokens that were really fed to the model; what a completion
sampled last was not fed yet and is fed first in the next turn.
"""

from __future__ import annotations

from typing import Any

import torch


class SlotCache:
    """Stands in for a transformers ``Cache`` when explicit positions and a 4-D mask are passed.

    Keys and values lie as [slots, capacity + 1, heads, head_dim] per layer; the last column is scratch for padding.
    """

    def __init__(self, config: Any, slots: int, *, device: torch.device, dtype: torch.dtype) -> None:
        self._heads: int = config.num_key_value_heads
        self._dim: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._layers: int = config.num_hidden_layers
        self._slots, self._device, self._dtype = slots, device, dtype
        self.capacity = 0
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self._rows = torch.zeros(0, dtype=torch.long)
        self._columns = torch.zeros(0, dtype=torch.long)
        self._width = 0
        self._whole = False
        self.reserve(256)

    def reserve(self, n_tokens: int) -> None:
        """Make room for ``n_tokens`` per row, keeping what is there. Grows by doubling."""
        if n_tokens <= self.capacity:
            return
        capacity = max(self.capacity, 128)
        while capacity < n_tokens:
            capacity *= 2
        keys = [self._grown(self._keys, layer, capacity) for layer in range(self._layers)]
        values = [self._grown(self._values, layer, capacity) for layer in range(self._layers)]
        self._keys, self._values, self.capacity = keys, values, capacity  # together: an allocation may have failed

    def aim(self, rows: torch.Tensor, columns: torch.Tensor, width: int) -> None:
        """Say where the next forward pass writes: token [r, q] to row ``rows[r]``, column ``columns[r, q]``.

        ``width``: how many columns attention reads. When ``rows`` are the first rows in order, no copy is made.
        """
        self._rows, self._columns, self._width = rows[:, None], columns, width
        self._whole = bool((rows == torch.arange(len(rows), device=rows.device)).all())

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new keys and values [r, heads, q, dim]; return what attention may read [r, heads, width, dim]."""
        return self._put(self._keys[layer_idx], keys), self._put(self._values[layer_idx], values)

    def copy(self, source: int, target: int, n_tokens: int) -> None:
        """Row ``target`` starts with the first ``n_tokens`` of row ``source``."""
        for store in (*self._keys, *self._values):
            store[target, :n_tokens] = store[source, :n_tokens]

    def _put(self, store: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        store[self._rows, self._columns] = new.transpose(1, 2)
        rows = store[: len(self._rows)] if self._whole else store[self._rows[:, 0]]
        return rows[:, : self._width].transpose(1, 2)

    def _grown(self, stores: list[torch.Tensor], layer: int, capacity: int) -> torch.Tensor:
        shape = (self._slots, capacity + 1, self._heads, self._dim)
        grown = torch.zeros(shape, device=self._device, dtype=self._dtype)
        if stores:
            grown[:, : self.capacity] = stores[layer][:, : self.capacity]
        return grown

    @property
    def scratch(self) -> int:
        """The column that padding is written to and nothing reads."""
        return self.capacity

    def get_seq_length(self, *_: Any) -> int:
        """Asked by transformers; positions are always given, so it has no meaning here."""
        return 0
