"""FlexAttention along a tree shows what dense blocks show, and is used where its states and gradient are right.

1. Two numbers per node say who sees whom, in trees of any form and with any window; the oracle walks up the parents.
2. What it gives is what blocks give, and, through a learner, what rows give. torch refuses to compute its gradient on a
   CPU, though it has the formula; the tests of gradients switch that refusal off.
3. A kernel that cannot be used is found out before anything is learned, and blocks are taken, with a warning.
"""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.attention import flex_attention as torch_flex

from tests.helpers import models
from tests.helpers.numbers import near
from tests.helpers.rounding import GRADIENT, PASS, assert_alike, assert_logprobs, tolerance
from tests.trainer.torch import test_packing as packs
from tests.trainer.torch.test_prefix_tree import batch_of
from turngate.errors import ConfigError
from turngate.trainer.learner import Critic, Lora
from turngate.trainer.torch import packing as packing_module
from turngate.trainer.torch import tree_flex
from turngate.trainer.torch.prefix_tree import trees_of
from turngate.trainer.torch.tree_attention import kernels_on, layout_of, pairs_of
from turngate.trainer.torch.tree_flex import BLOCK, FlexLayout, blocks_of, mask_of, visible_nodes

CPU = torch.device("cpu")
forks = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=6)


def tree_of(segments, repeat=1):
    """A tree whose stems are ``repeat`` times as long as the segments are."""
    (tree,) = trees_of(batch_of([np.repeat(ids, repeat) for ids in segments]), at_most=10**6)
    return tree


def sees(tree, window=None):
    """Brute force: [T, T], who sees whom."""
    found = np.zeros((len(tree.ids_T),) * 2, bool)
    for query in range(len(found)):
        key = query
        while key >= 0 and (window is None or tree.depth_T[query] - tree.depth_T[key] < window):
            found[query, key] = True
            key = tree.parent_T[key]
    return found


@settings(max_examples=40, deadline=None)
@given(forks, st.integers(1, 90), st.one_of(st.none(), st.integers(1, 300)))
def test_a_node_sees_its_own_path_as_far_as_the_window_reaches(segments, repeat, window):
    tree = tree_of(segments, repeat)
    real, padded = len(tree.ids_T), len(layout_of(tree, CPU, "flex").depth_T)
    assert padded % BLOCK == 0
    assert 0 <= padded - real < BLOCK or padded == 3 * BLOCK
    right = np.eye(padded, dtype=bool)
    right[:real, :real] = sees(tree, window)
    first_P, end_P = visible_nodes(tree, padded, window)
    mask, places = mask_of(first_P, end_P, CPU), torch.arange(padded)
    nothing = torch.zeros((), dtype=torch.int64)
    np.testing.assert_array_equal(mask.mask_mod(nothing, nothing, places[:, None], places), right)

    some, every = blocks_of(first_P, end_P)
    blocks = right.reshape(padded // BLOCK, BLOCK, -1, BLOCK)
    assert not (blocks.any((1, 3)) & ~some).any()
    assert not (every & ~blocks.all((1, 3))).any()
    if window is None:
        np.testing.assert_array_equal(some, blocks.any((1, 3)))
        np.testing.assert_array_equal(every, blocks.all((1, 3)))
        assert pairs_of(tree, "flex") == some.sum() * BLOCK**2
    np.testing.assert_array_equal(mask.to_dense()[0, 0], some)
    np.testing.assert_array_equal(mask.full_kv_num_blocks[0, 0], every.sum(1))


def tensors(tree, padded, heads=4, key_heads=2, width=16):
    rng = torch.Generator().manual_seed(len(tree.ids_T))
    return [torch.randn(1, n, padded, width, generator=rng) for n in (heads, key_heads, key_heads)]


SHAPES = {
    "siblings": [[0] * 60 + [kind] * 25 for kind in range(1, 9)],
    "turns": [[0] * 30 + [1] * 40 + [kind] * 30 for kind in range(2, 6)] + [[0] * 30 + [6] * 90],
    "branches": [[0] * 20 + [one] * 20 + [two] * 20 for one in range(1, 4) for two in range(4, 10)],
    "a row": [[1] * 450],
    "a few tokens": [[0, 1], [0, 2]],
}


@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize("window", [None, 7, 50, 1000])
@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_it_attends_as_blocks_do(shape, window, key_heads):
    tree = tree_of(SHAPES[shape])
    flex, blocks = (layout_of(tree, CPU, kernel) for kernel in ("flex", "blocks"))
    real = len(tree.ids_T)
    given = tensors(tree, len(flex.depth_T), key_heads=key_heads)
    asked = {"scaling": 0.3, "dropout": 0.0, "window": window}
    expected = blocks.attend(*(one[:, :, :real] for one in given), **asked)
    found = flex.attend(*given, **asked)
    assert_alike(found[:, :real], expected, tolerance(depth=3, terms=real))  # scores, shares, what is attended to
    assert torch.isfinite(found).all()
    assert list(flex.depth_T[:real]) == list(blocks.depth_T)
    kept = dict(flex.masks)
    flex.attend(*given, **asked)
    assert all(flex.masks[window] is mask for window, mask in kept.items())
    assert len(flex.masks) == len(kept) == 1


def test_a_gpu_tries_it_first_and_a_cpu_never_does():
    assert kernels_on(torch.device("cuda")) == ["flex", "blocks"]
    assert kernels_on(CPU) == ["blocks"]


# --- through a learner ------------------------------------------------------------------------------------------------


@pytest.fixture
def tried(monkeypatch):
    """A CPU tries FlexAttention first, as a GPU does."""
    monkeypatch.setattr(packing_module, "kernels_on", lambda device: ["flex", "blocks"])


@pytest.fixture
def with_gradients(tried, monkeypatch):
    monkeypatch.setattr(torch_flex, "_validate_device", lambda *tensors: None)


def both(make=models.model, **given):
    return [models.learner(make(), packing=packing, **given) for packing in ("rows", "tree")]


def gradient(taught):
    return torch.cat([one.grad.flatten() for one in taught.model.parameters() if one.grad is not None]).numpy()


def said(caplog):
    """What turngate warns of; torch's compiler speaks in the same log."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("turngate")]


def kernel_of(taught, batch):
    return taught._passes._packer.settle(batch).kernel


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"tokens_per_pass": 60},
        {"critic": Critic(shared=True)},
        {"lora": Lora(rank=4, alpha=8)},
        {"checkpoint_activations": True},
    ],
    ids=str,
)
def test_the_gradient_is_that_of_rows(given, with_gradients, caplog):
    trajectories, batch = packs.batch_of()
    measured = packs.returns_of(trajectories, batch) if "critic" in given else {}
    rows, tree = both(**given)
    expected, metrics = (one.forward_backward(batch, packs.LOSS, measured=measured) for one in (rows, tree))
    assert kernel_of(tree, batch) == "flex"
    assert not said(caplog)
    assert np.abs(gradient(rows)).max() > 1e-3
    assert_alike(gradient(tree), gradient(rows), GRADIENT)
    assert metrics == near(expected, PASS)
    assert_logprobs(tree.logprobs(batch), rows.logprobs(batch), PASS)
    assert_logprobs(tree.entropies(batch), rows.entropies(batch), PASS)


@pytest.mark.parametrize("measure", ["logprobs", "entropies"])
def test_it_is_found_fit_where_the_first_tree_is_only_measured(measure, with_gradients, caplog):
    _, batch = packs.batch_of()
    rows, tree = both()
    assert_logprobs(getattr(tree, measure)(batch), getattr(rows, measure)(batch), PASS)
    assert kernel_of(tree, batch) == "flex"
    assert not said(caplog)
    assert all(weight.grad is None for weight in tree.model.parameters())


def test_one_compiled_kernel_serves_trees_of_every_size_with_and_without_windows(with_gradients, monkeypatch):
    """Traced, with its gradient, for sizes that are not known; only the code for a processor is not made."""
    counter = CompileCounterWithBackend("aot_eager")
    monkeypatch.setattr(tree_flex, "flex_attention", tree_flex.compiled(counter))
    rows, tree = both(lambda: dict(packs.other_models())["sliding window"])
    compiled = []
    for tasks in (9, 4, 14):
        _, batch = packs.batch_of(tasks=tasks)
        for one in (rows, tree):
            one.model.zero_grad()
            one.forward_backward(batch, packs.LOSS)
        assert_alike(gradient(tree), gradient(rows), GRADIENT)
        assert_logprobs(tree.logprobs(batch), rows.logprobs(batch), PASS)
        compiled.append(counter.frame_count)
    assert kernel_of(tree, batch) == "flex"
    assert len(set(compiled)) == 1 <= compiled[0]


@pytest.mark.parametrize("name", ["llama", "sliding window"])
def test_grouped_queries_and_sliding_windows(name, with_gradients):
    _, batch = packs.batch_of()
    rows, tree = both(lambda: dict(packs.other_models())[name])
    for one in (rows, tree):
        one.forward_backward(batch, packs.LOSS)
    assert kernel_of(tree, batch) == "flex"
    assert_alike(gradient(tree), gradient(rows), GRADIENT)


def test_bfloat16_agrees_to_its_rounding(with_gradients, caplog):
    _, batch = packs.batch_of()
    rows, tree = both(dtype="bfloat16")
    for one in (rows, tree):
        one.forward_backward(batch, packs.LOSS)
    assert kernel_of(tree, batch) == "flex"
    assert not said(caplog)
    ours, theirs = gradient(tree), gradient(rows)
    assert np.dot(ours, theirs) / np.linalg.norm(ours) / np.linalg.norm(theirs) > 0.99


def learned_in_blocks(caplog):
    """A learner that has to take blocks, and learns from them what rows teach."""
    _, batch = packs.batch_of()
    rows, tree = (models.learner(packing=packing) for packing in ("rows", "tree"))
    with caplog.at_level(logging.WARNING):
        for one in (rows, tree):
            one.forward_backward(batch, packs.LOSS)
            one.forward_backward(batch, packs.LOSS)
    assert kernel_of(tree, batch) == "blocks"
    assert_alike(gradient(tree), gradient(rows), GRADIENT)
    (told,) = said(caplog)
    assert told.endswith("shared prefixes are computed in blocks")
    return told


def test_without_a_gradient_blocks_are_taken_aloud(tried, caplog):
    assert "NotImplementedError: FlexAttention does not support backward on CPU" in learned_in_blocks(caplog)


@pytest.mark.parametrize("error", [RuntimeError("no kernel\nline 2\nline 3"), AssertionError(), KeyError("head_dim")])
def test_whatever_the_compiler_raises_blocks_are_taken_aloud(error, tried, monkeypatch, caplog):
    def fails(*arguments, **more):
        raise error

    monkeypatch.setattr(tree_flex, "flex_attention", fails)
    told = learned_in_blocks(caplog)
    assert f"cannot use FlexAttention ({type(error).__name__}" in told
    assert "line 2" not in told


def wrongly(change):
    right = FlexLayout.attend
    return lambda *arguments, **more: change(right(*arguments, **more))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda result: result + (result - result.detach()) / 2, "a gradient differs by"),
        (lambda result: result * 1.1, "a state differs by"),
        (lambda result: result * float("nan"), "a state differs by nan"),
    ],
)
def test_wrong_numbers_are_found_out(change, what, with_gradients, monkeypatch, caplog):
    monkeypatch.setattr(FlexLayout, "attend", wrongly(change))
    assert what in learned_in_blocks(caplog)


def test_dropout_is_refused():
    layout = layout_of(tree_of([[0, 1], [0, 2]]), CPU, "flex")
    with pytest.raises(ConfigError, match=r"knows no dropout, and the model has 0\.1"):
        layout.attend(*tensors(layout.tree, len(layout.depth_T)), scaling=None, dropout=0.1, window=None)


def test_auto_chooses_by_what_the_kernel_computes(with_gradients):
    """Blocks of 128 tokens are a waste for short rows, and save little of what they see in a narrow model."""
    _, few = packs.batch_of(tasks=1)
    _, many = packs.batch_of(tasks=20)
    for batch, packing, trees in ((few, "auto", False), (few, "tree", True), (many, "auto", True)):
        taught, layouts = models.learner(packing=packing), []
        taught.model.base_model.register_forward_pre_hook(
            lambda module, args, kwargs, layouts=layouts: layouts.append(kwargs.get("tree")), with_kwargs=True
        )
        taught.forward_backward(batch, packs.LOSS)
        assert isinstance(layouts[-1], FlexLayout) == trees, (packing, batch.n_tokens)


def test_a_kernel_that_fails_in_another_process_is_left_here_too(with_gradients, caplog):
    _, batch = packs.batch_of()
    taught = models.learner()
    problems = iter(["no compiler there", ""])
    taught._passes._packer.agreed = lambda own: own or next(problems)
    assert kernel_of(taught, batch) == "blocks"
    assert len(said(caplog)) == 1
    assert "no compiler there" in said(caplog)[0]


def test_a_model_that_fits_neither_learns_from_rows_and_both_are_said(tried, caplog):
    _, batch = packs.batch_of()
    with caplog.at_level(logging.WARNING):
        taught = models.learner(packs.strange("sinks"))
        taught.forward_backward(batch, packs.LOSS)
    first, second = said(caplog)
    assert "GptOssForCausalLM cannot use FlexAttention (attention along a tree knows no" in first
    assert "GptOssForCausalLM cannot learn from shared prefixes (attention along a tree knows no" in second
    plain = models.learner(packs.strange("sinks"), packing="rows")
    plain.forward_backward(batch, packs.LOSS)
    np.testing.assert_array_equal(gradient(taught), gradient(plain))
