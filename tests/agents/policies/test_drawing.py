"""What the choice of tokens asks of the device; which are chosen is tested in ``test_local`` and its neighbours."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from turngate.agents.policies.sampling import Draws
from turngate.types import Sampling

CPU = torch.device("cpu")
KINDS = {
    "plain": [{}, {}, {}],
    "heated": [{"temperature": 0.6}, {}, {"temperature": 0.6}],
    "greedy": [{"temperature": 0.0}, {}, {"temperature": 0.5}],
    "cut": [{"top_p": 0.7}, {"top_k": 3}, {}],
    "all cut alike": [{"top_p": 0.7}] * 3,
}


class Operations(TorchDispatchMode):
    """The names of the operations that are called while it is entered."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def drawn(kind):
    samplings = [Sampling(**one) for one in KINDS[kind]]
    with Operations() as before:
        draws = Draws.of(samplings, [0.1, 0.5, 0.9], CPU)
    with Operations() as during:
        tokens, logprobs = draws.tokens(torch.linspace(-2, 2, 36).view(3, 12).sin())
    assert len(tokens) == len(logprobs) == 3
    return before.names, during.names


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_goes_from_the_host_to_the_device_while_it_computes(kind):
    """A tensor made from numbers of the host ("lift_fresh") would wait for the pass that was launched before it."""
    before, during = drawn(kind)
    assert "lift_fresh" in before
    assert not {"lift_fresh", "copy_", "item", "_local_scalar_dense"} & during


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_cut_sorts(kind):
    _, during = drawn(kind)
    assert bool({"sort", "topk"} & during) == ("cut" in kind)
