"""Parts of a user that hand over what cannot be used, or raise: one class per kind, ``gives`` names what."""

import asyncio
import math
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
import torch

from turngate import Guidance, Reward
from turngate.agents.branches import Fork
from turngate.agents.policies.parts import LocalPolicyPart
from turngate.agents.prefix_turns import PrefixTurns
from turngate.trainer.auxiliary.base import AuxiliaryPart, AuxiliaryRow, AuxiliaryRows, AuxiliarySource
from turngate.trainer.branching.base import BranchingPart
from turngate.trainer.curriculum.base import CurriculumPart
from turngate.trainer.curriculum.choosing import PoolCurriculum, PoolPart
from turngate.trainer.filters.parts import FilterPart
from turngate.trainer.guidance.base import Guide, GuidePart
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.learner import TorchLearnerPart
from turngate.trainer.loss.base import Correction, Gain, Objective, Penalty, Shaping
from turngate.trainer.loss.tokens import Needs
from turngate.trainer.offline.replays import ReplayPart, StepPlan
from turngate.trainer.offline.sources import EpisodesPart, Waves
from turngate.trainer.torch.learner import TorchLearner
from turngate.types import Completion, EndedBy

RAISED = {
    "KeyError": KeyError("who"),
    "SystemExit": SystemExit(0),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "CancelledError": asyncio.CancelledError(),
    "GeneratorExit": GeneratorExit(),
    "StopIteration": StopIteration(),
}


class Unspeakable:
    def __repr__(self):
        raise ValueError("no words")


PLAIN = {"none": None, "nan": math.nan, "text": "0.5", "number": 3, "unspeakable": Unspeakable(), "empty": []}


def answer(gives, known):
    """Raise what ``gives`` names, or return it: one of ``known``, which are made when asked for, or a plain value."""
    if gives in RAISED:
        raise RAISED[gives]
    return known[gives]() if gives in known else PLAIN[gives]


# --- rewards, credit rules and filters --------------------------------------------------------------------------------


class OddReward(Reward):
    gives: str

    @property
    def reads(self):
        return ("opened",)

    def verdicts(self, facts):
        number = {"numpy": np.float32(0.5), "yes": np.bool_(True), "nan": math.nan, "text": "0.5", "none": None}
        return 0.5 if self.gives == "bare" else [(None, number[self.gives])]


def as_list(table):
    return [float(number) for number in table.reward_N]


def one_too_many(table):
    return np.zeros(table.n_turns + 1, np.float32)


def none(table):
    return None


def odd_filter(group, *, gives: str = "list"):
    n = len(group.trajectories)
    known = {
        "list": lambda: [True] * n,
        "numpy": lambda: np.bool_(True),
        "long": lambda: [True] * (n + 1),
        "floats": lambda: [0.5] * n,
    }
    return answer(gives, known)


class OddSurvey(FilterPart):
    gives: str

    def survey(self, groups):
        return answer(self.gives, {})


# --- guides -----------------------------------------------------------------------------------------------------------


class OddGuide(GuidePart):
    gives: str = "numpy"
    where: str = "plan"

    def open(self, helpers):
        return answer(self.gives, {}) if self.where == "open" else OddHelp(self.gives, self.where)


class OddHelp(Guide):
    def __init__(self, gives, where):
        self.gives, self.where = gives, where

    def plan(self, task, group_size):
        hint = Guidance(kind="hint", level=1, text="Try.", source="env")
        turns = PrefixTurns(turns=("a",), guidance=hint)

        def plan(entry, **more):
            return Plan(entries=[entry, *[None] * (group_size - 1)], **more)

        known = {
            "numpy": lambda: plan(replace(hint, level=np.int64(1), insert_turn=np.int32(0))),
            "no episode": lambda: Plan(entries=[]),
            "no entries": lambda: Plan(entries=None),
            "a text": lambda: plan("hint"),
            "a level": lambda: plan(replace(hint, level=math.nan)),
            "no text": lambda: plan(replace(hint, text=None)),
            "a turn": lambda: plan(replace(turns, turns="press")),
            "into": lambda: plan(hint, into="nowhere"),
        }
        return answer(self.gives, known) if self.where == "plan" else plan(None)

    def again(self, group, wave):
        if self.where != "again":
            return None
        return answer(self.gives, {"a row": lambda: Plan(entries=[None], into="replace", row=99)})

    def settle(self, group, played):
        return answer(self.gives, {}) if self.where == "settle" else group

    def observe(self, groups):
        if self.where == "observe":
            answer(self.gives, {})

    def metrics(self):
        known = {"numpy": lambda: {"guide/x": np.float32(1)}, "a name": lambda: {3: 1.0}}
        known |= {"a word": lambda: {"guide/x": "1"}}
        return answer(self.gives, known) if self.where == "metrics" else {"guide/seen": np.int64(1)}

    def state(self):
        return answer(self.gives, {"an object": object}) if self.where == "state" else {"n": 1}

    def load(self, state):
        """Nothing is remembered."""


# --- curricula --------------------------------------------------------------------------------------------------------


class OddCurriculum(CurriculumPart):
    gives: str = "numpy"
    where: str = "pick"

    def open(self, supply):
        return answer(self.gives, {}) if self.where == "open" else OddOrder(self.gives, self.where, supply)


class OddOrder:
    stateful = True

    def __init__(self, gives, where, supply):
        self.gives, self.where, self.supply = gives, where, supply

    def pick(self, step):
        first, *others = self.supply.in_order(step)
        known = {
            "numpy": lambda: tuple([first, *others]),
            "unknown": lambda: [replace(first, id="nowhere"), *others],
            "elsewhere": lambda: [replace(first, env_id="acme/Bank-v0"), *others],
            "twice": lambda: [first, first],
            "ids": lambda: [first.id],
        }
        return answer(self.gives if self.where == "pick" else "numpy", known)

    def more(self, n):
        return []

    def observe(self, groups):
        if self.where == "observe":
            answer(self.gives, {})

    def metrics(self):
        known = {"a word": lambda: {"curriculum/x": "1"}}
        return answer(self.gives, known) if self.where == "metrics" else {"curriculum/x": np.float64(0.5)}

    def save(self, path):
        path.write_text(str(answer(self.gives, {}) if self.where == "save" else 1))

    def load(self, path):
        """Nothing is remembered."""


class OddPool(PoolPart):
    gives: str = "list"

    def open(self, supply):
        return OddChoice(self, supply)


class OddChoice(PoolCurriculum):
    def __init__(self, part, supply):
        super().__init__(part, supply)
        self.gives = part.gives

    def choose(self, free_P, n, rng):
        known = {
            "list": lambda: free_P[:n].tolist(),
            "all": lambda: free_P,
            "outside": lambda: [10**6] * n,
            "floats": lambda: [0.5] * n,
        }
        return answer(self.gives, known)


# --- branchings, auxiliary losses, policies ---------------------------------------------------------------------------


class OddBranching(BranchingPart):
    gives: str = "numpy"

    def choose(self, forest, room, rng):
        if not forest.sound:
            return [None]
        known = {
            "numpy": lambda: [Fork(id=forest.sound[0].id, turn=np.int64(0))] * room,
            "numbers": lambda: [3] * room,
            "a leaf": lambda: [Fork(id="nobody", turn=0)],
            "a turn": lambda: [Fork(id=forest.sound[0].id, turn=99)],
            "half a turn": lambda: [Fork(id=forest.sound[0].id, turn=0.5)],
        }
        return answer(self.gives, known)


class OddAuxiliary(AuxiliaryPart):
    gives: str = "numpy"
    where: str = "rows"

    def open(self, means):
        return answer(self.gives, {}) if self.where == "open" else OddRows(self.gives, self.where)


class OddRows(AuxiliarySource):
    def __init__(self, gives, where):
        self.gives, self.where = gives, where

    async def rows(self, groups, step):
        good = AuxiliaryRow(ids=[1, 2, 3], trained=[False, True, True])
        known = {
            "numpy": lambda: AuxiliaryRows(rows=(good,), weight=np.float32(0.1)),
            "rows": lambda: AuxiliaryRows(rows=[3]),
            "no rows": lambda: AuxiliaryRows(rows=None),
            "a length": lambda: AuxiliaryRows(rows=[replace(good, trained=[False, True])]),
            "the first": lambda: AuxiliaryRows(rows=[replace(good, trained=[True, True, True])]),
            "words": lambda: AuxiliaryRows(rows=[replace(good, ids=["a", "b", "c"])]),
            "a token": lambda: AuxiliaryRows(rows=[replace(good, ids=[1, 2, 10**6])]),
            "a weight": lambda: AuxiliaryRows(rows=[good], weight=math.nan),
            "a teacher": lambda: AuxiliaryRows(rows=[replace(good, teacher=[0.0, math.nan, 0.0])]),
            "one teacher": lambda: AuxiliaryRows(rows=[good, replace(good, teacher=[0.0, 0.0, 0.0])]),
        }
        return answer(self.gives if self.where == "rows" else "numpy", known)

    def metrics(self):
        return answer(self.gives, {}) if self.where == "metrics" else {"x": np.float32(1)}

    def conclude(self):
        if self.where == "conclude":
            answer(self.gives, {})


class OddPolicy(LocalPolicyPart):
    gives: str = "lists"
    where: str = "complete"

    def open(self, model, chat):
        if self.where in ("open", "hides"):
            return answer(self.gives, {})
        policy = super().open(model, chat)
        kind = type(policy)
        changed = type("OddEngine", (kind,), {"complete": complete, "publish": publish, "__module__": __name__})
        policy.__class__ = changed
        policy.gives, policy.where = self.gives, self.where
        return policy


async def complete(self, request):
    said = await super(type(self), self).complete(request)
    n = len(said.ids_K)
    known = {
        "lists": lambda: Completion(
            ids_K=said.ids_K.tolist(),
            logprobs_K=said.logprobs_K.tolist(),
            ended_by=said.ended_by,
            policy_version=np.int64(said.policy_version),
            text=said.text,
        ),
        "logprobs": lambda: replace(said, logprobs_K=np.full(n, math.nan, np.float32)),
        "a token": lambda: replace(said, ids_K=np.full(n, 10**6, np.int32)),
        "half a token": lambda: replace(said, ids_K=np.full(n, 0.5, np.float32)),
        "a length": lambda: replace(said, ids_K=[1] * (n + 1)),
        "no text": lambda: replace(said, text=None),
        "an end": lambda: replace(said, ended_by="stop" if EndedBy.STOP else None),
    }
    return answer(self.gives if self.where == "complete" else "lists", known)


async def publish(self, weights, version):
    if self.where == "publish":
        answer(self.gives, {})
    await super(type(self), self).publish(weights, version)


# --- what a loss is made of -------------------------------------------------------------------------------------------


class OddObjective(Objective):
    gives: str = "fine"
    where: str = "__call__"

    @property
    def needs(self):
        return answer(self.gives, {}) if self.where == "needs" else Needs(survey=True)

    def survey(self, tokens, memory, seed):
        known = {"no act": lambda: (3, {}), "a memory": lambda: (self, {"x": "y"})}
        return answer(self.gives, known) if self.where == "survey" else (self._gain, {"seen": np.float32(1)})

    def _gain(self, tokens):
        value = tokens.advantage * tokens.logprob
        known = {
            "fine": lambda: Gain(value=value, limited=value != value),
            "a mean": lambda: Gain(value=value.mean(), limited=value != value),
            "numpy": lambda: Gain(value=value.detach().numpy(), limited=value != value),
            "no bound": lambda: Gain(value=value, limited=None),
        }
        return answer(self.gives if self.where == "__call__" else "fine", known)

    def __call__(self, tokens):
        return self._gain(tokens)


def odd_objective(tokens, *, gives: str = "none"):
    return answer(gives, {})


class OddCorrection(Correction):
    gives: str = "fine"

    def __call__(self, log_rho, tokens):
        ones = torch.ones_like(log_rho)
        known = {"fine": lambda: ones, "one": lambda: ones[0], "below": lambda: -ones, "numpy": ones.numpy}
        return answer(self.gives, known)


class OddPenalty(Penalty):
    gives: str = "numpy"
    where: str = "__call__"

    def survey(self, tokens, memory, seed):
        return answer(self.gives, {}) if self.where == "survey" else (self, memory)

    def __call__(self, tokens):
        value = tokens.logprob.sum() * 0
        known = {
            "numpy": lambda: (value, {"policy/odd": np.float32(1), "policy/odder": value.detach()}),
            "alone": lambda: value,
            "each": lambda: (tokens.logprob, {}),
            "a word": lambda: (value, {"policy/odd": "1"}),
        }
        return answer(self.gives if self.where == "__call__" else "numpy", known)


class OddShaping(Shaping):
    gives: str = "fine"

    def __call__(self, tokens):
        known = {"fine": lambda: tokens.advantage, "a sum": lambda: tokens.advantage.sum()}
        return answer(self.gives, known)


# --- learners ---------------------------------------------------------------------------------------------------------


class OddLearner(TorchLearnerPart):
    gives: str = "numpy"
    where: str = "optim_step"

    @contextmanager
    def started(self, *, jobs=1):
        if self.where == "hides":  # what went wrong inside
            with suppress(BaseException):
                yield True
            return
        yield True
        if self.where == "started":
            answer(self.gives, {})

    def open(self, model, *, sampling=None, critic=None, lr=None):
        if self.where in ("open", "hides"):
            return answer(self.gives, {})
        learner = OddUpdates(model, lr=self.lr, **({} if sampling is None else {"sampling": sampling}))
        learner.gives, learner.where = self.gives, self.where
        return learner

    def write_adapter(self, learner, folder, *, base):
        if self.where == "write_adapter":
            answer(self.gives, {})


class OddUpdates(TorchLearner):
    def _odd(self, name, right, **known):
        return answer(self.gives, {"numpy": lambda: right} | known) if self.where == name else right

    def optim_step(self, *, lr_scale=1.0):
        right = super().optim_step(lr_scale=lr_scale)
        return self._odd(
            "optim_step", right | {"learner/odd": np.float32(1)}, **{"a word": lambda: {"learner/odd": "1"}}
        )

    def forward_backward(self, batch, loss, **more):
        return self._odd("forward_backward", super().forward_backward(batch, loss, **more))

    def logprobs(self, batch, *, whole=False):
        right = super().logprobs(batch, whole=whole)
        return self._odd("logprobs", right.tolist(), **{"one less": lambda: right[1:]})

    def weights(self):
        return self._odd("weights", super().weights())

    def save(self, path):
        super().save(path)
        self._odd("save", None)


# --- episode sources and replay strategies ----------------------------------------------------------------------------


class OddEpisodes(EpisodesPart):
    gives: str = "numpy"
    where: str = "waves"

    def open(self, means):
        return answer(self.gives, {}) if self.where == "open" else OddWaves(self.gives)


class OddWaves:
    def __init__(self, gives):
        self.gives = gives

    async def waves(self, play, tasks, step):
        found = await play(tasks)
        columns = {"groups": found.groups, "played": found.played, "unused": found.unused}
        known = {
            "numpy": lambda: Waves(**columns, metrics=found.metrics | {"replay/odd": np.float32(1)}),
            "trajectories": lambda: Waves(**columns | {"groups": found.groups[0].trajectories}, metrics={}),
            "no groups": lambda: Waves(**columns | {"groups": None}, metrics={}),
            "a word": lambda: Waves(**columns, metrics={"replay/odd": "1"}),
        }
        return answer(self.gives, known)


class OddReplay(ReplayPart):
    gives: str = "numpy"

    def plan(self, facts):
        n = len(facts.tasks)
        known = {
            "numpy": lambda: StepPlan(n_tasks=np.int64(n)),
            "too many": lambda: StepPlan(n_tasks=n + 1),
            "nothing": lambda: StepPlan(n_tasks=0),
            "a task": lambda: StepPlan(n_tasks=n, groups=[facts.tasks]),
            "no rows": lambda: StepPlan(n_tasks=n, joined={facts.tasks[0]: []}),
            "a row": lambda: StepPlan(n_tasks=n, again={"lock/1": 3}),
        }
        return answer(self.gives, known)
