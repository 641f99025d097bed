"""What the tests of examiners share: contexts to work in, groups to look at, and rubrics over what was found."""

import asyncio
from dataclasses import replace

import numpy as np

from tests.helpers import models
from turngate.agents.policies.base import Policy
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.judges.examiners.base import ExamineContext
from turngate.judges.examiners.examining import Examining
from turngate.types import Action, Completion, EndedBy, Evidence, Group, Task


class Said(Policy):
    """Gives texts with the log-probabilities that they are to have, in the order of the requests."""

    concurrency = 1

    def __init__(self, *said):
        self.said, self.requests, self.released = list(said), [], []

    async def complete(self, request):
        self.requests.append(request)
        text, probability = self.said[len(self.requests) - 1]
        ids_K = models.chat().encode_turn(text)
        logprobs_K = np.log(np.resize(np.asarray(probability, np.float32), len(ids_K)))
        return Completion(ids_K=ids_K, logprobs_K=logprobs_K, ended_by=EndedBy.SCRIPT, policy_version=0, text=text)

    def release(self, episode):
        self.released.append(episode)


def silent():
    """A policy that nobody is to ask."""

    def say(request):
        raise AssertionError(f"asked {request}")

    return ScriptedPolicy(say, models.chat())


def context(policy=None, *, step=7, seed=1, answer=lambda trajectory: None, **more):
    return ExamineContext(player=models.player(policy or silent()), step=step, seed=seed, answer=answer, **more)


def examine(examiner, groups, at):
    async def go():
        return await examiner.examine(groups, at)

    return asyncio.run(asyncio.wait_for(go(), 60))


def examined(examiners, groups, at, *, step=7):
    """The groups with the facts of all examiners, as a run has them, and the metrics."""

    async def go():
        async with Examining(examiners, at) as examining:
            return await examining.examined(groups, step)

    return asyncio.run(asyncio.wait_for(go(), 60))


def group(trajectories, *, name="task", **private):
    """The trajectories as siblings of one task with this private data."""
    task = Task(id=name, env_id="e", prompt="", private=private)
    return Group(task=task, trajectories=tuple(replace(one, task=task) for one in trajectories))


def episodes(*n_turns, name="task"):
    """Recorded episodes of so many turns: context "click red", words "press a"."""
    chat = models.chat()
    turns = [models.turn(chat.opening("click red"), chat.encode_turn("press a"))]
    turns += [models.turn(chat.follow_up("click red", EndedBy.STOP), chat.encode_turn("press a"))]
    turns = [replace(turn, action=Action(text="press a")) for turn in turns]
    return [
        models.trajectory([turns[min(t, 1)] for t in range(n)], name=f"{name}{number}", task=name)
        for number, n in enumerate(n_turns)
    ]


def with_facts(group, facts):
    """The group with an examiner's facts in its records, as a run keeps them."""
    found = [replace(one, evidence=(*one.evidence, *own)) for one, own in zip(group.trajectories, facts, strict=True)]
    return replace(group, trajectories=tuple(found))


def told(group, **values):
    """The group with one fact per name and trajectory."""
    facts = [
        tuple(Evidence(name=name, value=column[number], by="verifier") for name, column in values.items())
        for number in range(len(group.trajectories))
    ]
    return with_facts(group, facts)


def values(facts, name):
    """Per trajectory, {turn: value} of one name."""
    return [{fact.turn: fact.value for fact in own if fact.name == name} for own in facts]
