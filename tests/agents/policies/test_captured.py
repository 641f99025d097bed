"""Captured decode steps on a CPU, where a tape of operations stands in for a CUDA graph: it repeats what it recorded,
in the memory in which it recorded it, and none of the Python around it.

1. The sizes that steps are captured in.
2. A captured step computes what the plain pass computes, for every architecture, beside rows that are fed more.
3. What is recorded holds what it reads by reference: weights that change are seen, a cache that grew is recorded anew.
4. What cannot be captured, or computes something else, is said once, and everything goes through the plain pass.
5. An engine samples the same with it; on a GPU it is what is chosen.
"""

import asyncio
import copy
import logging

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.helpers import architectures, models, templates
from tests.helpers.rounding import assert_alike, assert_logprobs, pass_tolerance
from tests.helpers.tapes import Tapes
from turngate.agents.chat import Chat
from turngate.agents.policies import cuda_graphs as captured
from turngate.agents.policies.cuda_graphs import (
    Bucket,
    CapturedForward,
    FixedWork,
    bucket_of,
    capture_problem,
    decode_step,
)
from turngate.agents.policies.fast_cpu import LeanStep
from turngate.agents.policies.forward import Feed, HubForward, cast
from turngate.agents.policies.kv_cache import SlotCache
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.policies.parts import LocalPolicyPart
from turngate.agents.rollout import TokenLimits

SLOTS = 6
FAMILIES = pytest.mark.parametrize("name", architectures.SHAPES)
CPU = torch.device("cpu")
LIMITS = TokenLimits(turn_tokens=6, context=1000)


class Pair:
    """The same feeds to a captured and to a plain forward, each with a cache of its own."""

    def __init__(self, model, recorder=None, seed=0):
        dtype = next(model.parameters()).dtype
        self.caches = [SlotCache(model.config, SLOTS, device=CPU, dtype=dtype) for _ in range(2)]
        self.recorder = recorder or Tapes()
        self.captured = CapturedForward(model, self.caches[0], self.recorder)
        self.plain = HubForward(model, self.caches[1])
        self.filled, self._rng = dict.fromkeys(range(SLOTS), 0), np.random.default_rng(seed)
        self._model = model

    @torch.inference_mode()
    def feed(self, **lengths):
        """Feed some ids to rows r0, r1, …: both results [r, width]."""
        feeds = []
        for name, length in lengths.items():
            row = int(name[1:])
            feeds.append(Feed(row, self.filled[row], self._rng.integers(3, 290, length).astype(np.int32)))
            self.filled[row] += length
        return self.captured(feeds), self.plain(feeds)

    def within(self, **norms):
        """How far states may be apart; see ``pass_tolerance``."""
        return pass_tolerance(self._model, tokens=max(self.filled.values()), **norms)

    def agree(self, *passes, exactly=False):
        for lengths in passes:
            ours, plain = self.feed(**lengths)
            assert_alike(ours, plain, 0 if exactly else self.within())


def apart(states, others):
    """The largest distance between two states, as a share of the second's norm."""
    return float(((states - others).float().norm(dim=-1) / others.float().norm(dim=-1)).max())


def rows(*which, n=1):
    return {f"r{row}": n for row in which}


@pytest.fixture
def warned(caplog):
    """The warnings so far."""
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records if record.name == captured.__name__]


# --- 1: sizes --------------------------------------------------------------------------------------------------------


def test_sizes_are_powers_of_two_and_all_rows():
    found = {(n, width): bucket_of(n, width, 48) for n in range(1, 49) for width in (1, 128, 129, 600)}
    assert {bucket.rows for bucket in found.values()} == {1, 2, 4, 8, 16, 32, 48}
    assert {bucket.width for bucket in found.values()} == {128, 256, 1024}
    assert all(bucket.rows >= n and bucket.width >= width for (n, width), bucket in found.items())
    assert bucket_of(33, 129, 48) == Bucket(48, 256)
    assert bucket_of(3, 128, 64) == Bucket(4, 128)


# --- 2: what is computed ---------------------------------------------------------------------------------------------


@FAMILIES
def test_every_architecture_is_captured_and_computes_the_same(name, warned):
    """Rows that pause, rows without neighbours, a turn that begins beside others, longer than any window."""
    pair = Pair(architectures.model(name))
    pair.agree(
        {f"r{row}": 30 + row for row in range(SLOTS)},
        rows(*range(SLOTS)),
        rows(*range(SLOTS)),
        rows(0, 2, 5),
        {**rows(0, 1, 5), "r3": 7, "r4": 2},
        rows(1),
        rows(1, 3),
        rows(2),
        rows(*range(SLOTS)),
    )
    assert set(pair.captured.buckets) == {Bucket(6, 128), Bucket(2, 128), Bucket(4, 128)}
    assert pair.recorder.recorded == 3
    assert warned() == []


@FAMILIES
def test_in_bfloat16_it_agrees_to_rounding(name, warned):
    model = architectures.model(name)
    cast(model, torch.bfloat16)
    pair = Pair(model)
    pair.feed(**{f"r{row}": 30 + row for row in range(SLOTS)})
    for _ in range(4):
        ours, plain = pair.feed(**rows(*range(SLOTS)))
        assert ours.dtype == torch.bfloat16
        assert apart(ours, plain) < pair.within(norms=True)
    assert (pair.captured.buckets, pair.captured.problem, warned()) == ((Bucket(6, 128),), "", [])


@FAMILIES
def test_values_that_are_remembered_a_column_beside_theirs_are_far_beyond_rounding(name):
    """In the last layer alone. The tolerance of this file is for rounding, and must not hide what is wrong."""
    pair = Pair(architectures.model(name))
    pair.feed(r0=60)
    _, values = pair.caches[0].read(1, slice(0, 1), 128)
    values[0, :, 1:60] = values[0, :, :59].clone()
    ours, plain = pair.feed(r0=1)
    assert apart(ours, plain) > 100 * pair.within()


@FAMILIES
def test_the_step_needs_nothing_of_the_host(name):
    """In bfloat16 on the device "meta", every tensor with a dimension has to be there from the first to the last."""
    here = torch.device("meta")
    model = architectures.model(name).to(torch.bfloat16).to(here)
    forward = HubForward(model, SlotCache(model.config, SLOTS, device=here, dtype=torch.bfloat16))
    with torch.inference_mode(), _Only(here), FixedWork():
        states = decode_step(forward, torch.zeros(3 * SLOTS, dtype=torch.long, device=here), Bucket(4, 128))
    assert (states.shape, states.device) == ((4, 32), here)
    assert capture_problem(architectures.model(name).to(here), "auto") == ""


class _Only(TorchDispatchMode):
    def __init__(self, device):
        super().__init__()
        self._device = device

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = [one for one in tree_leaves((args, kwargs, result)) if isinstance(one, torch.Tensor) and one.ndim]
        assert all(one.device == self._device for one in tensors), func
        return result


# --- 3: what is held by reference ------------------------------------------------------------------------------------


def test_weights_that_are_changed_in_place_are_seen():
    model, other = architectures.model("qwen3"), architectures.model("qwen3", seed=1)
    pair = Pair(model)
    pair.agree(rows(*range(SLOTS), n=9), rows(*range(SLOTS)))
    before, _ = pair.feed(**rows(*range(SLOTS)))
    with torch.no_grad():
        for weight, new in zip(model.parameters(), other.parameters(), strict=True):
            weight.copy_(new)
    after, plain = pair.feed(**rows(*range(SLOTS)))
    assert_alike(after, plain, pair.within())
    assert not torch.allclose(before, after, atol=0.1)
    assert pair.recorder.recorded == 1


def test_a_cache_that_grew_is_recorded_anew(warned):
    pair = Pair(architectures.model("qwen3"))
    pair.agree(rows(0, 1, n=120), rows(0, 1), rows(0, 1))
    assert pair.captured.buckets == (Bucket(2, 128),)
    for cache in pair.caches:
        cache.reserve(300)
    pair.agree(rows(0, 1), rows(0, 1))
    assert pair.captured.buckets == (Bucket(2, 128),)
    assert pair.recorder.recorded == 2
    pair.agree(rows(0, 1, n=10), rows(0, 1), rows(0, 1, n=150), rows(0, 1))
    assert pair.captured.buckets == (Bucket(2, 128), Bucket(2, 256), Bucket(2, 512))
    assert warned() == []


def test_a_result_stays_what_it_was_when_the_step_is_repeated():
    pair = Pair(architectures.model("qwen3"))
    pair.agree(rows(0, 1, n=9), rows(0, 1))
    first, _ = pair.feed(**rows(0, 1))
    before = first.clone()
    second, _ = pair.feed(**rows(0, 1))
    assert torch.equal(first, before)
    assert not torch.allclose(first, second, atol=0.1)


def test_a_row_that_moved_is_read_where_it_is():
    pair = Pair(architectures.model("qwen3"))
    pair.agree({"r0": 5, "r1": 8, "r2": 11, "r3": 3}, rows(0, 1, 2, 3))
    for cache in pair.caches:
        cache.copy(3, 1, pair.filled[3])
    pair.filled[1] = pair.filled[3]
    pair.agree(rows(0, 1, 2), rows(1, 2))


def test_padding_writes_to_no_row_that_takes_part():
    pair = Pair(architectures.model("qwen3"))
    pair.feed(**rows(*range(SLOTS), n=9))
    before = [cache.read(layer, slice(0, SLOTS), 256) for cache in pair.caches[:1] for layer in range(2)]
    before = [(keys.clone(), values.clone()) for keys, values in before]
    pair.feed(**rows(1, 4))
    for layer, (keys, values) in enumerate(before):
        new_keys, new_values = pair.caches[0].read(layer, slice(0, SLOTS), 256)
        for old, new in ((keys, new_keys), (values, new_values)):
            changed = (old != new).any(-1).any(1)
            assert changed.nonzero().tolist() == [[1, 9], [4, 9]]


# --- 4: what cannot be captured --------------------------------------------------------------------------------------


def experts_in_a_loop():
    model = architectures.model("qwen3_moe")
    model.config._experts_implementation = "eager"
    return model


def rotation_by_length():
    model = architectures.model("qwen3")
    config = copy.deepcopy(model.config)
    config.rope_parameters = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return type(model)(config).eval()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (experts_in_a_loop, "has a result whose shape depends on the numbers"),
        (rotation_by_length, "makes the host wait for a number"),
    ],
)
def test_a_model_whose_work_depends_on_the_numbers_goes_the_plain_way(make, why, warned):
    pair = Pair(make())
    pair.agree(rows(0, 1, n=9), rows(0, 1), rows(0, 1), {"r0": 1, "r1": 4})
    assert why in pair.captured.problem
    (message,) = warned()
    assert message.startswith(f"decode steps of {type(make()).__name__} cannot be captured ({pair.captured.problem})")
    assert (pair.captured.buckets, pair.recorder.recorded) == ((), 0)
    assert why in capture_problem(make().to("meta"), "bfloat16")


def test_a_recording_that_fails_is_told(warned):
    def failing(device):
        def record(work):
            raise RuntimeError("CUDA error: out of something\nmuch more about it")

        return record

    pair = Pair(architectures.model("qwen3"), failing)
    pair.agree(rows(0, 1, n=9), rows(0, 1), rows(0, 1), exactly=True)
    assert len(warned()) == 1
    assert "cannot be captured (CUDA error: out of something): each goes" in warned()[0]


def test_a_recording_that_computes_something_else_is_told_and_leaves_no_trace(warned):
    """This one repeats the step of its recording, with the ids and columns of then."""

    def stale(device):
        def record(work):
            states = work().clone()
            return lambda: states.roll(1, -1)

        return record

    pair = Pair(architectures.model("qwen3"), stale)
    pair.agree(rows(0, 1, n=9), rows(0, 1), rows(0, 1), rows(0), exactly=True)
    (message,) = warned()
    assert "(with 2 rows and 128 columns a state differs by " in message
    assert " of its norm): each goes through the model's modules" in message


def test_each_size_is_compared_at_its_first_use(warned):
    """A recorder that goes wrong with its second piece of work: the first stays in use until then."""

    class Worse(Tapes):
        def _record(self, work):
            replay = super()._record(work)
            return replay if self.recorded == 1 else lambda: replay() * 1.5

    pair = Pair(architectures.model("qwen3"), Worse())
    pair.agree(rows(*range(SLOTS), n=9), rows(0, 1), rows(0, 1))
    assert (pair.captured.buckets, warned()) == ((Bucket(2, 128),), [])
    pair.agree(rows(0, 1, 2), rows(0, 1))
    assert (pair.captured.buckets, len(warned())) == ((), 1)


def test_weights_that_are_no_numbers_are_not_held_against_the_step(warned):
    model = architectures.model("qwen3")
    pair = Pair(model)
    pair.feed(**rows(0, 1, n=9))
    weight = model.base_model.norm.weight
    sound = weight.detach().clone()
    with torch.no_grad():
        weight.fill_(torch.nan)
    pair.feed(**rows(0, 1))
    assert (pair.captured.buckets, warned()) == ((), [])
    with torch.no_grad():
        weight.copy_(sound)
    pair.agree(rows(0, 1))
    assert (pair.captured.buckets, warned()) == ((Bucket(2, 128),), [])


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (lambda x: x[x > 0], "selects by a mask"),
        (lambda x: x.index_put_((x > 0,), torch.zeros(())), "selects by a mask"),
        (lambda x: x.to("meta"), "copies from one device to another"),
        (lambda x: torch.empty(3, device="meta").copy_(x), "copies from one device to another"),
        (lambda x: x if x.sum() > 0 else -x, "makes the host wait"),
        (lambda x: x.unique(), "depends on the numbers"),
        (lambda x: x + torch.tensor([1.0, 2.0, 3.0]), "from numbers of the host"),
        (lambda x: x + torch.as_tensor([1.0, 2.0, 3.0]), "from numbers of the host"),
    ],
)
def test_work_that_a_graph_cannot_hold_is_refused(work, why):
    with torch.inference_mode(), FixedWork(), pytest.raises(RuntimeError, match=why):
        work(torch.arange(3.0))


def test_work_that_a_graph_can_hold_is_not_refused():
    x = torch.arange(3.0)
    with torch.inference_mode(), FixedWork():
        picked = x.index_select(0, torch.arange(2)) + x[torch.arange(2)]
        filled = x.double().masked_fill_(x > 0, 5)
    assert (picked.tolist(), filled.tolist()) == ([0, 2], [0, 5, 5])


# --- 5: in the engine ------------------------------------------------------------------------------------------------


def played(forward, *, source=None, **sampling):
    policy = LocalPolicy(models.model() if source is None else source, models.chat(), concurrency=5, forward=forward)
    return policy, models.play(policy, n_tasks=5, siblings=4, **sampling)


@pytest.mark.parametrize(("temperature", "step"), [(1.0, None), (0.6, LeanStep), (0.0, None), (0.0, LeanStep)])
def test_an_engine_samples_the_same_with_captured_steps(temperature, step, warned):
    tapes = Tapes()
    policy, ours = played(
        lambda model, cache: CapturedForward(model, cache, tapes, step and step(model, cache)), temperature=temperature
    )
    _, plain = played(HubForward, temperature=temperature)
    within = pass_tolerance(models.model(), tokens=200)
    for one, other in zip(ours, plain, strict=True):
        np.testing.assert_array_equal(one.ids(), other.ids())
        for mine, its in zip(one.turns, other.turns, strict=True):
            assert_logprobs(mine.completion.logprobs_K, its.completion.logprobs_K, within)
    assert len(policy._forward.buckets) == tapes.recorded >= 3
    assert warned() == []


def test_turns_wait_for_each_other_beside_captured_steps_and_say_the_same():
    """Episodes whose turns end at different times, without waiting and with it."""
    passes = {}

    class Counted(CapturedForward):
        def _beside(self, feeds):
            passes[self.patience].append(len(feeds))
            return super()._beside(feeds)

    said = {}
    for patience in (0, 8):
        passes[patience] = []
        forward = type("Patient", (Counted,), {"patience": patience})
        policy = LocalPolicy(
            models.model(),
            models.chat(),
            concurrency=24,
            forward=lambda model, cache, forward=forward: forward(model, cache, Tapes()),
        )
        limits = TokenLimits(turn_tokens=40, context=1000)
        episodes = models.play(policy, n_tasks=8, siblings=3, make_env=models.LockEnv, limits=limits)
        said[patience] = [one.ids().tolist() for one in episodes]
    assert said[8] == said[0]
    assert sum(passes[8]) == sum(passes[0])
    assert len(passes[8]) < len(passes[0])


@pytest.mark.parametrize("by", [1.0, 1.5])
def test_a_pass_beside_captured_steps_is_compared_once_with_the_modules(by, warned):
    model, calls = models.model(), []

    class Scaled(LeanStep):
        def __call__(self, feeds):
            calls.append(len(feeds))
            return super().__call__(feeds) * by

    cache = SlotCache(model.config, SLOTS, device=CPU, dtype=torch.float32)
    forward = CapturedForward(model, cache, Tapes(), Scaled(model, cache))
    plain = HubForward(model, SlotCache(model.config, SLOTS, device=CPU, dtype=torch.float32))
    with torch.inference_mode():
        for start in (0, 20, 40):
            feeds = [Feed(row, start, np.arange(3, 23, dtype=np.int32) + row) for row in range(3)]
            assert_alike(forward(feeds), plain(feeds), pass_tolerance(model, tokens=60))
    wrong = by != 1
    assert len(calls) == (1 if wrong else 3)
    assert ["with prompts of up to 20 columns a state differs by 0.5 of its norm" in line for line in warned()] == (
        [True] if wrong else []
    )


def test_what_is_published_is_sampled_from_without_recording_anew():
    tapes, other = Tapes(), models.model(9)
    policy, before = played(lambda model, cache: CapturedForward(model, cache, tapes))
    recorded = tapes.recorded
    asyncio.run(policy.publish(dict(other.named_parameters()), 1))
    after = models.play(policy, n_tasks=5, siblings=4)
    assert tapes.recorded == recorded
    _, expected = played(HubForward, source=copy.deepcopy(other))
    assert [one.ids().tolist() for one in after] == [one.ids().tolist() for one in expected]
    assert [one.ids().tolist() for one in after] != [one.ids().tolist() for one in before]


@pytest.mark.parametrize("name", ["qwen3", "gemma2"])
def test_an_engine_in_bfloat16_samples_what_its_model_says(name, warned, monkeypatch):
    """The log-probabilities of what it sampled are those of the model's own forward pass, to rounding."""
    source, chat = architectures.model(name), Chat(templates.tokenizer(architectures.SHAPES[name].template))
    cast(source, torch.bfloat16)
    monkeypatch.setattr(models, "chat", lambda: chat)
    policy, episodes = played(lambda model, cache: CapturedForward(model, cache, Tapes()), source=source, limits=LIMITS)
    assert policy._cache.read(0, slice(0, 1), 1)[0].dtype == torch.bfloat16
    apart = []
    for one in episodes:
        naive = models.naive_logprobs(source, one.ids())
        start = 0
        for turn in one.turns:
            start += len(turn.context_ids)
            said = turn.completion.logprobs_K
            apart.append(np.abs(said - naive[start : start + len(said)]).max())
            start += len(said)
    assert max(apart) < pass_tolerance(source, tokens=200)
    assert policy._forward.buckets
    assert warned() == []


@pytest.mark.parametrize(("name", "step"), [("qwen3", LeanStep), ("gemma3", HubForward)])
def test_on_a_gpu_it_is_what_the_engine_goes_through(name, step, monkeypatch):
    """With weights that only claim to be there."""
    monkeypatch.setattr(captured, "CudaGraphs", Tapes())
    source = architectures.model(name)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        for part in source.modules():
            for name, weight in part._parameters.items():
                if weight is not None:
                    there = FakeTensor(mode, weight.detach().to("meta"), torch.device("cuda:0"))
                    part._parameters[name] = torch.nn.Parameter(there, requires_grad=False)
        policy = LocalPolicyPart(concurrency=3).open(source, models.chat())
        assert type(policy._forward) is CapturedForward
        assert type(policy._forward._body) is step
        assert policy._forward._fed.device.type == "cuda"
    cast(source := models.model(), torch.bfloat16)
    assert type(models.local(source)._forward) is HubForward
