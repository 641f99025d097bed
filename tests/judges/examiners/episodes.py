"""Episodes that were never played, examiners that say what they are told to, and how both meet."""

import asyncio
from typing import Any, ClassVar

import numpy as np

from turngate.judges.examiners.base import ExamineContext, Examiner
from turngate.judges.examiners.examining import Examining
from turngate.judges.examiners.facts import recorded_answer
from turngate.types import Action, Completion, EndedBy, Ending, Evidence, Group, Observation, Task, Trajectory, Turn


def turn(text):
    nothing = np.zeros(0, np.int32)
    return Turn(
        observation=Observation(text="what now?"),
        context_ids=nothing,
        completion=Completion(
            ids_K=nothing, logprobs_K=np.zeros(0, np.float32), ended_by=EndedBy.STOP, policy_version=0, text=text
        ),
        source=np.zeros(0, np.uint8),
        action=Action(text=text),
    )


def task(name="t", env="test/Env-v1", **private):
    return Task(id=name, env_id=env, prompt=f"do {name}", private=private)


def episode(said, *, name="t#0", of=None, answer="", ending=Ending.FINISHED, evidence=()):
    """An episode whose turns are ``said``, a text or several, the last one its answer; ``answer=...`` records none."""
    texts = [said] if isinstance(said, str) else list(said)
    recorded = (Evidence(name="answer", value=(texts[-1:] or [None])[0] if answer == "" else answer),)
    return Trajectory(
        id=name,
        task=of or task(),
        turns=tuple(map(turn, texts)),
        ending=ending,
        seed=0,
        evidence=(() if answer is ... else recorded) + tuple(evidence),
    )


def group(*said, name="t", env="test/Env-v1", private=None, **options):
    """Siblings, each made by ``episode``."""
    of = task(name, env, **(private or {}))
    siblings = [episode(text, name=f"{name}#{at}", of=of, **options) for at, text in enumerate(said)]
    return Group(task=of, trajectories=tuple(siblings))


def context(**options):
    return ExamineContext(**{"player": None, "step": 0, "seed": 7, "answer": recorded_answer} | options)


class Told(Examiner):
    """Does what ``script(groups, context)`` says, a coroutine or not; keeps what it was called with."""

    scope: ClassVar = "group"
    type: str
    facts_named: tuple[str, ...] = ("told",)
    script: Any = None
    policy: bool = False
    reach: str = ""
    calls: list[Any] = []  # noqa: RUF012 (pydantic copies it)

    @property
    def writes(self):
        return self.facts_named

    @property
    def asks_policy(self):
        return self.policy

    async def examine(self, groups, context):
        self.calls.append([tuple(one.id for one in group.trajectories) for group in groups])
        said = self.script(groups, context)
        return await said if asyncio.iscoroutine(said) else said


class ToldOfEpisodes(Told):
    scope: ClassVar = "episode"


class ToldOfBatches(Told):
    scope: ClassVar = "batch"


def told(script=None, *, kind=Told, **options):
    return kind(type="told", script=script or every(1), **options)


def every(value, name="told", **options):
    """A script that records one value about each episode."""
    return lambda groups, context: [
        [(Evidence(name=name, value=value, by="judge", **options),) for _ in group.trajectories] for group in groups
    ]


def run(work):
    return asyncio.run(asyncio.wait_for(work, 60))


def examined(examiners, groups, *, step=1, **options):
    """Groups with facts, and metrics."""

    async def go():
        async with Examining(examiners, context(**options)) as examining:
            return await examining.examined(groups, step)

    return run(go())


def values(groups, name="told"):
    """Under ``name``, of every episode the values in order."""
    return [[[f.value for f in one.evidence if f.name == name] for one in group.trajectories] for group in groups]
