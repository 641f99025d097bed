"""The lean pass and the transformers pass against the model itself, over whole contexts.

1. Hidden states are those of the transformers model, for every architecture that the lean pass serves.
2. Weights are read where the model keeps them.
3. What the lean pass does not compute goes another way.
4. An engine on either pass samples the same.
"""

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import models
from tests.helpers.rounding import PASS, assert_alike, assert_logprobs, pass_tolerance
from tests.helpers.tapes import Tape, Tapes
from turngate.agents.policies import fast_cpu as lean
from turngate.agents.policies.cuda_graphs import Bucket, FixedWork, decode_step
from turngate.agents.policies.fast_cpu import LeanForward, LeanStep, captured_of, forward_of, is_lean
from turngate.agents.policies.forward import Feed, HubForward, _alike
from turngate.agents.policies.kv_cache import SlotCache

VOCABULARY, SLOTS = 50, 6
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
KINDS = {
    "qwen3": ("Qwen3", {}),
    "qwen3, one key per query": ("Qwen3", {"num_key_value_heads": 4}),
    "qwen3, wide heads, biased": ("Qwen3", {"head_dim": 16, "attention_bias": True}),
    "qwen2": ("Qwen2", {}),
    "llama": ("Llama", {"head_dim": 8}),
    "llama 3, biased": ("Llama", {"head_dim": 8, "rope_parameters": LLAMA3, "attention_bias": True, "mlp_bias": True}),
}


def built(kind, **changes):
    """Two layers, four heads that share two keys; every weight random, so that a missing norm or bias shows."""
    name, own = KINDS[kind]
    sizes = {
        "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
    }  # fmt: skip
    if name == "Qwen3":
        sizes["head_dim"] = 8
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(**sizes | own | changes)
        model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
        shuffled(model)
    return model


@torch.no_grad()
def shuffled(model):
    """Other weights, in place: about the scale of a trained model's."""
    for weight in model.parameters():
        weight.copy_(torch.randn_like(weight) * 0.3 + (1.0 if weight.ndim == 1 else 0.0))


def cache_for(model, slots=SLOTS):
    return SlotCache(model.config, slots, device=torch.device("cpu"), dtype=next(model.parameters()).dtype)


@torch.inference_mode()
def fed(forward, schedule):
    """Feed ``schedule``, passes of {row: ids}; {row: hidden state after its last token} per pass."""
    filled, results = dict.fromkeys(range(SLOTS), 0), []
    for news in schedule:
        feeds = [Feed(row, filled[row], np.asarray(news[row], np.int32)) for row in sorted(news)]
        hidden = forward(feeds)
        results.append({feed.row: hidden[at].clone() for at, feed in enumerate(feeds)})
        for feed in feeds:
            filled[feed.row] = feed.end
    return results


def expected(model, schedule):
    """One forward pass per row and point in time, over its whole context."""
    context, results = {row: [] for row in range(SLOTS)}, []
    for news in schedule:
        for row, ids in news.items():
            context[row] = [*context[row], *ids]
        with torch.no_grad():
            results.append(
                {row: model.base_model(torch.tensor([context[row]])).last_hidden_state[0, -1] for row in news}
            )
    return results


def assert_computed(results, model, schedule):
    """The states of ``schedule`` are those of the model, to rounding."""
    within = pass_tolerance(model, tokens=sum(len(ids) for news in schedule for ids in news.values()))
    for one, other in zip(results, expected(model, schedule), strict=True):
        assert one.keys() == other.keys()
        for row in one:
            assert_alike(one[row], other[row], within)


def script(seed):
    """Prompts, then decoding with rows that pause, rows that begin a turn beside them, and a late row."""
    rng = np.random.default_rng(seed)

    def say(n):
        return rng.integers(0, VOCABULARY, n).tolist()

    return [
        {0: say(7), 1: say(7), 2: say(3), 4: say(5)},
        {0: say(1), 1: say(1), 2: say(1), 4: say(1)},
        {0: say(1), 2: say(1), 3: say(9), 4: say(1)},
        {1: say(6), 2: say(6), 4: say(1), 5: say(1)},
        {0: say(1), 1: say(1), 2: say(1), 3: say(1), 4: say(1), 5: say(1)},
        {5: say(20)},
    ]


# --- 1: what is computed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_states_are_those_of_the_transformers_model(kind):
    model, schedule = built(kind), script(0)
    forward = forward_of(model, cache_for(model))
    assert type(forward) is LeanForward
    assert_computed(fed(forward, schedule), model, schedule)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_padded_pass_computes_the_same(dtype):
    model, schedule = built("qwen3").to(dtype), script(1)
    assert_computed(fed(HubForward(model, cache_for(model)), schedule), model, schedule)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_order_of_feeding_agrees(data):
    model = built("qwen3")
    rows = st.dictionaries(st.integers(0, SLOTS - 1), st.integers(1, 5), min_size=1)
    lengths = data.draw(st.lists(rows, min_size=1, max_size=5))
    rng = np.random.default_rng(len(lengths))
    schedule = [{row: rng.integers(0, VOCABULARY, n).tolist() for row, n in news.items()} for news in lengths]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lean, "SMALL", data.draw(st.sampled_from([0, 10, 40, lean.SMALL])))
        patch.setattr(lean, "COPIED", data.draw(st.sampled_from([0, lean.COPIED])))
        assert_computed(fed(forward_of(model, cache_for(model)), schedule), model, schedule)


def test_positions_beyond_the_first_capacity_are_rotated_rightly():
    model = built("qwen3", max_position_embeddings=2048)
    cache = cache_for(model)
    forward = forward_of(model, cache)
    rng = np.random.default_rng(0)
    schedule = [{1: rng.integers(0, VOCABULARY, n).tolist()} for n in (200, 1, 90, 1)]
    first = fed(forward, schedule[:1])
    cache.reserve(400)
    assert cache.capacity == 512
    with torch.inference_mode():
        rest, start = [], 200
        for news in schedule[1:]:
            rest.append({1: forward([Feed(1, start, np.asarray(news[1], np.int32))])[0]})
            start += len(news[1])
    assert_computed(first + rest, model, schedule)


def calls_of(rows, n_new, columns):
    """As lists: the rows, who asks (padding asks as token 0) and how many columns each query sees; the answers."""
    model = built("qwen3")
    calls, answers = LeanForward(model, cache_for(model))._calls(*map(np.array, (rows, n_new, columns)))
    return [(call.rows, call.asked, (call.mask == 0).sum(-1).flatten().tolist()) for call in calls], answers


def test_rows_that_follow_each_other_are_one_call_over_views():
    (call,), answers = calls_of([1, 2, 3], [1, 1, 1], [5, 0, 2])
    assert call == (slice(1, 4), slice(0, 3), [6, 1, 3])
    assert answers is None


def test_rows_that_decode_are_one_call_over_the_row_between(monkeypatch):
    monkeypatch.setattr(lean, "SMALL", 20)
    (decoding, beginning), answers = calls_of([0, 1, 3], [1, 8, 1], [5, *range(8), 2])
    rows, asked, seen = decoding
    assert (rows, asked.tolist(), seen) == (slice(0, 4), [0, 0, 0, 9], [6, 1, 1, 3])
    assert beginning == (slice(1, 2), slice(1, 9), [1, 2, 3, 4, 5, 6, 7, 8])
    assert answers.tolist() == [0, 4, 5, 6, 7, 8, 9, 10, 11, 3]


def test_rows_far_from_each_other_are_copied(monkeypatch):
    monkeypatch.setattr(lean, "SMALL", 20)
    ((rows, asked, seen),), answers = calls_of([0, 40], [3, 2], [0, 1, 2, 4, 5])
    assert rows.tolist() == [0, 40]
    assert (asked.tolist(), seen) == ([0, 1, 2, 3, 4, 0], [1, 2, 3, 5, 6, 1])
    assert answers.tolist() == [0, 1, 2, 3, 4]


def test_the_padded_pass_pads_at_most_as_much_as_there_is():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n_new = rng.choice([1, 1, 1, 2, 5, 30, 200], size=rng.integers(1, 20))
        feeds = [Feed(row, 0, np.zeros(n, np.int32)) for row, n in enumerate(n_new)]
        parts = list(_alike(feeds))
        assert sorted(feed.row for part in parts for feed in part) == list(range(len(feeds)))
        for part in parts:
            lengths = [len(feed.ids) for feed in part]
            assert max(lengths) * len(lengths) <= 2 * sum(lengths)
            assert [feed.row for feed in part] == sorted(feed.row for feed in part)


# --- 2: weights ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["qwen3, wide heads, biased", "llama 3, biased"])
def test_every_weight_that_changes_is_seen(kind):
    model, schedule = built(kind), script(0)
    forward = forward_of(model, cache_for(model))
    before = fed(forward, schedule)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        shuffled(model)
    after = fed(forward, schedule)
    assert_computed(after, model, schedule)
    assert not torch.allclose(after[0][0], before[0][0], atol=0.1)


# --- 3: what goes another way ----------------------------------------------------------------------------------------


def test_what_is_not_computed_exactly_goes_through_the_model():
    sliding = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
    stretched = {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}}
    others = {
        "precision": built("qwen3").double(),
        "window": built("qwen3", **sliding),
        "rotation": built("qwen3", **stretched),
        "activation": built("qwen3", hidden_act="gelu"),
    }
    wrapped = built("qwen3")
    layer = wrapped.base_model.layers[1].self_attn
    layer.q_proj = torch.nn.Sequential(layer.q_proj)
    for what, model in {**others, "projection": wrapped}.items():
        assert not is_lean(model), what
        assert type(forward_of(model, cache_for(model))) is HubForward
    assert is_lean(built("qwen3"))


def test_another_architecture_goes_through_the_model():
    config = transformers.Olmo2Config(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.Olmo2ForCausalLM(config).eval()
    forward, schedule = forward_of(model, cache_for(model)), script(2)
    assert type(forward) is HubForward
    assert_computed(fed(forward, schedule), model, schedule)


# --- 4: in the engine ------------------------------------------------------------------------------------------------


def test_an_engine_samples_the_same_on_either_pass():
    lean, hub = models.local(concurrency=5), models.local(concurrency=5)
    assert type(lean._forward) is LeanForward
    hub._forward = HubForward(hub._model, hub._cache)
    played = [models.play(policy, n_tasks=5, siblings=4) for policy in (lean, hub)]
    for one, other in zip(*played, strict=True):
        np.testing.assert_array_equal(one.ids(), other.ids())
        for mine, its in zip(one.turns, other.turns, strict=True):
            assert_logprobs(mine.completion.logprobs_K, its.completion.logprobs_K, PASS)


# --- 5: a decode step to be captured ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_captured_steps_compute_what_the_model_computes(kind):
    model, schedule, tapes = built(kind), script(0), Tapes()
    schedule += [{row: [row + n] for row in range(SLOTS)} for n in range(4)]
    forward = captured_of(model, cache_for(model), tapes)
    assert_computed(fed(forward, schedule), model, schedule)
    assert (forward.problem, forward.buckets, tapes.recorded) == ("", (Bucket(6, 128),), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_captured_steps_in_bfloat16_agree_to_rounding_with_the_modules(kind):
    model, schedule = built(kind).bfloat16(), script(1)
    schedule += [{row: [row + n] for row in range(SLOTS)} for n in range(4)]
    forward = captured_of(model, cache_for(model), Tapes())
    assert type(forward._body) is LeanStep
    ours, theirs = fed(forward, schedule), fed(HubForward(model, cache_for(model)), schedule)
    apart = [
        float((one[row] - other[row]).float().norm() / other[row].float().norm())
        for one, other in zip(ours, theirs, strict=True)
        for row in one
    ]
    assert max(apart) < pass_tolerance(model, tokens=30, norms=True)
    assert forward.problem == ""


def test_norms_round_as_those_of_the_modules():
    model = built("qwen3").bfloat16()
    norm, step = model.base_model.layers[0].input_layernorm, LeanStep(model, cache_for(model))
    x = torch.linspace(-3, 3, 40 * 32).sin().view(40, 32).bfloat16()
    with torch.no_grad():
        assert torch.equal(step._rms(x, norm.weight), norm(x))


def test_a_step_needs_nothing_of_the_host_and_copies_no_keys():
    here = torch.device("meta")
    model = built("qwen3").bfloat16().to(here)
    cache = SlotCache(model.config, SLOTS, device=here, dtype=torch.bfloat16)
    ids = torch.zeros(3 * 4, dtype=torch.long, device=here)
    sizes = {}
    for step in (HubForward(model, cache), LeanStep(model, cache)):
        with torch.inference_mode(), Tape() as tape, FixedWork():
            assert decode_step(step, ids, Bucket(4, 256)).shape == (4, 32)
        computed = [made for func, _, _, made in tape.calls if isinstance(made, torch.Tensor) and not func.is_view]
        copies = [made for func, _, _, made in tape.calls if func is torch.ops.aten.clone.default]
        assert all(made.device == here for made in computed if made.ndim)
        sizes[type(step)] = len(computed), max(made.numel() for made in copies)
    assert sizes[LeanStep][0] < 0.8 * sizes[HubForward][0]
    one_layer_of_keys = 4 * 256 * 2 * 8
    assert sizes[LeanStep][1] < one_layer_of_keys < sizes[HubForward][1]
