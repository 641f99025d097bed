"""After which steps the sampler gets the weights, and what it has in a run that goes on."""

import asyncio
from typing import Any

import pytest
import torch

from turngate.trainer.publishing import Publishing


class Sampler:
    """Remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[int, float]] = []

    async def publish(self, weights: Any, version: int) -> None:
        self.given.append((version, float(weights["w"])))


def trained(publishing: Publishing, sampler: Sampler, weight: torch.Tensor, steps: range) -> None:
    """Each step adds one to the weight, in place."""
    for step in steps:
        weight += 1
        if publishing.due(step, moved=True):
            asyncio.run(publishing.publish(sampler, {"w": weight}, step))  # type: ignore[arg-type]


@pytest.mark.parametrize(("every", "given"), [(1, list(range(1, 11))), (4, [4, 8, 10]), (5, [5, 10]), (0, [10])])
def test_steps_of_publication(every, given):
    """The weights 0 are there from the beginning: of the steps 0 to 9 those of s = 4 are played with 0, 4 and 8."""
    sampler = Sampler()
    trained(Publishing(every=every, last=10), sampler, torch.zeros(()), range(1, 11))
    assert sampler.given == [(step, float(step)) for step in given]


def test_online_a_step_that_changed_nothing_publishes_nothing():
    assert not Publishing().due(3, moved=False)
    assert Publishing(every=4).due(4, moved=False)  # the steps before may have changed them


@pytest.mark.parametrize(("done", "has"), [(3, []), (4, [(4, 4.0)]), (6, [(4, 4.0)]), (10, [(10, 10.0)])])
def test_a_run_that_goes_on_has_the_weights_that_the_sampler_had(tmp_path, done, has):
    publishing, weight = Publishing(every=4, last=10), torch.zeros(())
    trained(publishing, Sampler(), weight, range(1, done + 1))
    (state,) = publishing.checkpointed.values()
    state.save(tmp_path / "sampler.pt")
    again, sampler = Publishing(every=4, last=10), Sampler()
    again.load(tmp_path / "sampler.pt")
    asyncio.run(again.resume(sampler, {"w": weight}, done))  # type: ignore[arg-type]
    assert sampler.given == has
    behind = {3: 3, 4: 0, 6: 2, 10: 0}[done]
    assert again.metrics(done) == {"policy/steps_behind": behind}


def test_online_and_offline_keep_nothing():
    assert Publishing().checkpointed == {} == Publishing(every=0).checkpointed
    assert Publishing().metrics(3) == {}


def test_where_no_step_plays_the_sampler_gets_weights_before_validations_and_when_it_goes_on():
    publishing, sampler, weight = Publishing(every=4, last=10, plays=False), Sampler(), torch.zeros(())
    trained(publishing, sampler, weight, range(1, 7))
    assert sampler.given == [(4, 4.0)]
    assert publishing.checkpointed == {} == publishing.metrics(6)
    again, sampler = Publishing(every=4, last=10, plays=False), Sampler()
    asyncio.run(again.resume(sampler, {"w": weight}, 6))  # type: ignore[arg-type]
    assert sampler.given == [(6, 6.0)]


@pytest.mark.parametrize(("every", "done", "given"), [(1, 3, []), (4, 4, []), (4, 6, [(6, 6.0)]), (0, 3, [(3, 3.0)])])
def test_the_step_that_turned_out_to_be_the_last_is_published(every, done, given):
    publishing, sampler, weight = Publishing(every=every, last=10), Sampler(), torch.zeros(())
    trained(publishing, sampler, weight, range(1, done + 1))
    before = list(sampler.given)
    asyncio.run(publishing.conclude(sampler, {"w": weight}, done))  # type: ignore[arg-type]
    assert sampler.given == before + given
