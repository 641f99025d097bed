"""Chooses how a batch goes through the model: as padded rows, or as trees in which a shared prefix stands once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch

from turngate.agents.protocols import LanguageModel
from turngate.agents.refused_memory import is_out_of_memory
from turngate.agents.rounding import agreement, pass_rounding
from turngate.errors import ConfigError
from turngate.trainer.learner import TokensPerPass, tokens_of_a_pass
from turngate.trainer.torch.prefix_tree import PrefixTree, trees_of
from turngate.trainer.torch.rows import Rows, padded, rows_of, tree_rows
from turngate.trainer.torch.tree_attention import TreeKernel, attending, kernels_on, layout_of, pairs_of
from turngate.types import Batch, BoolArray

log = logging.getLogger(__name__)

Packing: TypeAlias = Literal["auto", "rows", "tree"]
"""How segments go through the model; auto: as trees where that costs less, as rows elsewhere."""

WORTH = 0.9
"""A tree is chosen where it is estimated to cost less than this share of what rows cost."""
CANNOT = (ConfigError, RuntimeError, TypeError, ValueError)
"""What a model raises that cannot be called with a tree."""
TRIED = 2048
"""Tokens of the tree with which the gradient through FlexAttention is tried; see ``Packer._slopes``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """How segments go through the model from now on, and what computes the attention of trees."""

    packing: Packing
    kernel: TreeKernel


class Packer:
    """Cuts batches for ``model``, whose states ``hidden`` computes: [r·t, width].

    Before the first tree is learned from, its states are compared with those of rows. On a GPU FlexAttention is tried
    first, with its gradient; where it fails, a warning says why and trees are computed in blocks. A model that attends
    in another way (sinks, recurrent layers, …) differs: "auto" then says so and stays with rows, "tree" raises
    ConfigError.

    ``agreed``: what all processes that compute together find, given what this one found; "" is no problem.
    """

    def __init__(
        self,
        hidden: Callable[[Rows], torch.Tensor],
        model: LanguageModel,
        packing: Packing,
        tokens_per_pass: TokensPerPass,
        precision: torch.dtype,
    ) -> None:
        self._hidden, self._packing, self._eps = hidden, packing, torch.finfo(precision).eps
        self._model, self._checked = model, False
        head, config = model.get_output_embeddings(), model.config
        self._device = device = head.weight.device
        self._kernels = kernels_on(device)
        self.agreed: Callable[[str], str] = str
        self._at_most = tokens_of_a_pass(tokens_per_pass, device.type)
        weights = sum(weight.numel() for weight in model.base_model.parameters()) - head.weight.numel()
        # what a pair of tokens costs in attention, in units of what a token costs elsewhere
        self._pair_cost = 2 * head.weight.shape[1] * config.num_hidden_layers / max(weights, 1)

    def rows(self, batch: Batch, trained: BoolArray, valued: BoolArray) -> Iterator[Rows]:
        """See ``rows_of``; a tree holds at most as many tokens as rows may."""
        self.settle(batch)
        yield from self.cut(batch, trained, valued)

    def cut(self, batch: Batch, trained: BoolArray, valued: BoolArray) -> Iterator[Rows]:
        """See ``rows``; without a comparison, so as trees only where one was made before."""
        trees = self._trees(batch) if self._checked else []
        if not trees:
            yield from rows_of(batch, trained, valued, at_most=self._at_most, device=self._device)
            return
        for tree in trees:
            yield tree_rows(batch, tree, trained, valued, self._device, self._kernels[0])

    def settle(self, batch: Batch) -> Settled:
        """How segments go through the model; compared first, where ``batch`` is the first with a tree (see the
        class)."""
        if self.unsettled(batch):
            self._check(batch, self._trees(batch)[0])
        return Settled(packing=self._packing, kernel=self._kernels[0])

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
        ours = sum(len(tree.ids_T) + self._pair_cost * pairs_of(tree, self._kernels[0]) for tree in trees)
        return trees if ours < WORTH * (tokens + self._pair_cost * pairs) else []

    def _check(self, batch: Batch, tree: PrefixTree) -> None:
        """Compare what ``tree`` gives with what rows give; see the class."""
        here, model = tree.node_L >= 0, type(self._model).__name__
        part = Batch(**{name: getattr(batch, name)[here] for name in batch.__dataclass_fields__})
        while why := self.agreed(self._problem(part)):
            if len(self._kernels) > 1:
                log.warning("%s cannot use FlexAttention (%s): shared prefixes are computed in blocks", model, why)
                self._kernels = self._kernels[1:]
                continue
            message = f"{model} cannot learn from shared prefixes ({why})"
            if self._packing == "tree":
                raise ConfigError(f'{message}; leave out learner.packing = "tree"')
            log.warning("%s: every segment is computed as a whole", message)
            self._packing = "rows"
            break
        self._checked = True  # not before: memory may have run out meanwhile

    def _problem(self, part: Batch) -> str:
        """In what a tree of the segments of ``part`` differs from rows; "" if in nothing. Raises errors that say that
        memory ran out, because they are about the size of a batch and not about the model."""
        flex = self._kernels[0] == "flex"
        caught: tuple[type[Exception], ...] = (Exception,) if flex else CANNOT  # a compiler may raise anything
        try:
            apart = {"state": self._state_difference(part)}
            if flex:
                apart["gradient"] = self._slopes_apart(part)
        except caught as error:
            if is_out_of_memory(error):
                raise
            return _first_line(error)
        at_most = self._at_most_apart(part)
        found = [
            f"a {what} differs by {much:.2g} of its norm" for what, much in apart.items() if not much <= at_most[what]
        ]
        return ", ".join(found)

    def _at_most_apart(self, part: Batch) -> dict[str, float]:
        """How far a state and a gradient may be from those of rows, as a share of their norm."""
        config, longest = self._model.config, int(part.position_L.max()) + 1
        passes = {"state": 1, "gradient": 2}
        return {
            what: agreement(pass_rounding(config, self._eps, tokens=longest, passes=n)) for what, n in passes.items()
        }

    @torch.enable_grad()  # the first tree may be one that is only measured
    def _slopes(self, part: Batch, tree: PrefixTree, kernel: TreeKernel) -> torch.Tensor:
        """The gradient of a sum of the states of ``tree`` by what its tokens are embedded as: [T, width].

        This goes back through the attention of every layer, and leaves the gradients of weights alone.
        """
        nothing, embedded = np.zeros(part.n_tokens, bool), list[torch.Tensor]()
        rows = tree_rows(part, tree, nothing, nothing, self._device, kernel)

        def keep(module: torch.nn.Module, inputs: object, output: torch.Tensor) -> torch.Tensor:
            embedded.append(output.detach().requires_grad_())
            return embedded[-1]

        hook = self._model.base_model.get_input_embeddings().register_forward_hook(keep)
        try:
            states = self._hidden(rows)[: len(tree.ids_T)].float()
        finally:
            hook.remove()
        # weights that differ, because a norm at the end may make the plain sum a constant
        uneven = torch.arange(states.numel(), device=self._device).cos().view_as(states)
        (slopes,) = torch.autograd.grad((states * uneven).sum(), embedded)
        return slopes[0, : len(tree.ids_T)].float()

    def _slopes_apart(self, part: Batch) -> float:
        """‖g − g'‖ / ‖g'‖ for what FlexAttention gives as the gradient g of a part of the tree, and blocks as g'."""
        tree = next(trees_of(part, at_most=min(TRIED, self._at_most)))
        ours, theirs = (self._slopes(part, tree, kernel) for kernel in (self._kernels[0], "blocks"))
        return float((ours - theirs).norm() / theirs.norm())

    @torch.no_grad()
    def _state_difference(self, part: Batch) -> float:
        """The largest ‖h − h'‖ / ‖h'‖ over the tokens of ``part``, for states h of its tree and h' of its rows."""
        nothing, every = np.zeros(part.n_tokens, bool), np.ones(part.n_tokens, bool)
        (tree,) = trees_of(part, at_most=part.n_tokens)
        whole = tree_rows(part, tree, nothing, every, self._device, self._kernels[0])
        states, apart = self._hidden(whole)[whole.valued].float(), list[torch.Tensor]()
        for rows in rows_of(part, nothing, every, at_most=self._at_most, device=self._device):
            plain = self._hidden(rows)[rows.valued].float()
            apart.append(((states[rows.valued_flat] - plain).norm(dim=-1) / plain.norm(dim=-1)).max())
        return float(torch.stack(apart).max())


def _first_line(error: Exception) -> str:
    """An error in a line: a compiler's has many."""
    first_line = str(error).strip().partition("\n")[0]
    return first_line if isinstance(error, ConfigError) else f"{type(error).__name__}: {first_line}"


def tree_problem(outline: LanguageModel) -> str:
    """Why a model cannot attend along a tree; "" if it can, as far as is seen without its weights (``tiny.outline``).

    What a tree gives is compared with rows when training first learns from one (``Packer``).
    """
    outline.config._experts_implementation = "batched_mm"  # the one whose shapes do not depend on the tokens
    layout = layout_of(_fork(), outline.get_output_embeddings().weight.device, "blocks")
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
