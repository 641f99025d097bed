"""Chooses how a batch goes through the model: as padded rows, or as trees in which a shared prefix stands once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

import numpy as np
import torch

from turngate.agents.protocols import LanguageModel
from turngate.errors import ConfigError
from turngate.trainer.learner import TokensPerPass, tokens_of_a_pass
from turngate.trainer.torch.prefix_tree import PrefixTree, trees_of
from turngate.trainer.torch.rows import Rows, padded, rows_of, tree_rows
from turngate.trainer.torch.tree_attention import attending, layout_of, pairs_of
from turngate.types import Batch, BoolArray

log = logging.getLogger(__name__)

Packing: TypeAlias = Literal["auto", "rows", "tree"]
"""How segments go through the model; auto: as trees where that costs less, as rows elsewhere."""

WORTH = 0.9
"""A tree is chosen where it is estimated to cost less than this share of what rows cost."""
AGREE = {torch.float32: 1e-3, torch.bfloat16: 0.1}
"""How far the state after a token may be from that of rows, as a share of its norm, by the format of matrix products:
much more than rounding makes it, much less than a token does that is seen and should not be."""
CANNOT = (ConfigError, RuntimeError, TypeError, ValueError)
"""What a model raises that cannot be called with a tree."""


class Packer:
    """Cuts batches for ``model``, whose states ``hidden`` computes: [r·t, width].

    Before the first tree is learned from, its states are compared with those of rows. A model that attends in another
    way (sinks, recurrent layers, …) differs: "auto" then says so and stays with rows, "tree" raises ConfigError.
    """

    def __init__(
        self,
        hidden: Callable[[Rows], torch.Tensor],
        model: LanguageModel,
        packing: Packing,
        tokens_per_pass: TokensPerPass,
        precision: torch.dtype,
    ) -> None:
        self._hidden, self._packing, self._agree = hidden, packing, AGREE[precision]
        self._model, self._checked = model, False
        head, config = model.get_output_embeddings(), model.config
        self._device = device = head.weight.device
        self._at_most = tokens_of_a_pass(tokens_per_pass, device.type)
        weights = sum(weight.numel() for weight in model.base_model.parameters()) - head.weight.numel()
        # what a pair of tokens costs in attention, in units of what a token costs elsewhere
        self._pair_cost = 2 * head.weight.shape[1] * config.num_hidden_layers / max(weights, 1)

    def rows(self, batch: Batch, trained: BoolArray, valued: BoolArray) -> Iterator[Rows]:
        """See ``rows_of``; a tree holds at most as many tokens as rows may, and no padding."""
        self.settle(batch)
        yield from self.cut(batch, trained, valued)

    def cut(self, batch: Batch, trained: BoolArray, valued: BoolArray) -> Iterator[Rows]:
        """See ``rows``; without a comparison, so as trees only where one was made before."""
        trees = self._trees(batch) if self._checked else []
        if not trees:
            yield from rows_of(batch, trained, valued, at_most=self._at_most, device=self._device)
            return
        for tree in trees:
            yield tree_rows(batch, tree, trained, valued, self._device)

    def settle(self, batch: Batch) -> None:
        """Compare trees with rows where ``batch`` is the first with a tree; see the class."""
        if self.unsettled(batch):
            self._check(batch, self._trees(batch)[0])

    def unsettled(self, batch: Batch) -> bool:
        """Whether ``batch`` is the first with a tree, which is not compared with rows yet."""
        return not self._checked and bool(self._trees(batch))

    def _trees(self, batch: Batch) -> list[PrefixTree]:
        """The trees of a batch, none if rows are cheaper."""
        if self._packing == "rows":
            return []
        trees = list(trees_of(batch, at_most=self._at_most))
        if self._packing == "tree":
            return trees
        tokens, pairs = padded(batch, self._at_most)
        ours = sum(len(tree.ids_T) + self._pair_cost * pairs_of(tree) for tree in trees)
        return trees if ours < WORTH * (tokens + self._pair_cost * pairs) else []

    def _check(self, batch: Batch, tree: PrefixTree) -> None:
        """Compare the states of ``tree`` with those of rows; see the class."""
        self._checked = True
        here = tree.node_L >= 0
        part = Batch(**{name: getattr(batch, name)[here] for name in batch.__dataclass_fields__})
        trains = self._model.get_output_embeddings().training
        self._model.eval()  # dropout would make any two passes differ
        with torch.no_grad():
            try:
                apart = self._apart(part, tree_rows(batch, tree, ~here, here, self._device))
                why = f"a state differs by {apart:.2g} of its norm" if apart > self._agree else ""
            except CANNOT as error:
                why = str(error)
        self._model.train(trains)
        if not why:
            return
        message = f"{type(self._model).__name__} cannot learn from shared prefixes ({why})"
        if self._packing == "tree":
            raise ConfigError(f'{message}; leave out learner.packing = "tree"')
        log.warning("%s: every segment is computed as a whole", message)
        self._packing = "rows"

    def _apart(self, part: Batch, tree: Rows) -> float:
        """The largest ‖h − h'‖ / ‖h'‖ over the tokens of ``part``, for states h of its tree and h' of its rows."""
        states, largest = self._hidden(tree)[tree.valued].float(), 0.0
        nothing, every = np.zeros(part.n_tokens, bool), np.ones(part.n_tokens, bool)
        for rows in rows_of(part, nothing, every, at_most=self._at_most, device=self._device):
            plain = self._hidden(rows)[rows.valued].float()
            apart = (states[rows.valued_flat] - plain).norm(dim=-1) / plain.norm(dim=-1)
            largest = max(largest, float(apart.max()))
        return largest


def tree_problem(outline: LanguageModel) -> str:
    """Why a model cannot attend along a tree; "" if it can, as far as is seen without its weights (``tiny.outline``).

    What a tree gives is compared with rows when training first learns from one (``Packer``).
    """
    outline.config._experts_implementation = "batched_mm"  # the one whose shapes do not depend on the tokens
    layout = layout_of(_fork(), outline.get_output_embeddings().weight.device)
    try:
        with torch.no_grad(), attending(outline):
            ids = torch.zeros_like(layout.depth_T)[None]
            outline.base_model(input_ids=ids, position_ids=layout.depth_T[None], use_cache=False, tree=layout)
    except CANNOT as error:
        return str(error)
    return ""


def _fork() -> PrefixTree:
    """The smallest tree: one token, and two that may follow it."""
    zeros = np.zeros(4, np.int32)
    floats = zeros.astype(np.float32)
    batch = Batch(
        ids_L=np.array([0, 1, 0, 2], np.int32),
        logprob_L=floats,
        advantage_L=floats,
        policy_weight_L=floats,
        ce_weight_L=floats,
        position_L=np.array([0, 1, 0, 1], np.int32),
        segment_L=np.array([0, 0, 1, 1], np.int32),
        turn_L=zeros,
        origin_L=zeros.astype(np.uint8),
    )
    (tree,) = trees_of(batch, at_most=4)
    return tree
