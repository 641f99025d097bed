"""``turngate/Router-v1``: answer questions, and ask models of different price and skill where that helps.

After Router-R1 (https://arxiv.org/abs/2506.09033). Replies are recorded, so an episode can be scored again without the
models. A model that fails makes the episode unusable; an unknown model, or one that declines, is reported to the agent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from turngate.envs.base import TurnSpec
from turngate.envs.glossary import meanings
from turngate.envs.router.askable import LiveModel, ModelLike, RoutedModel, routed_models
from turngate.envs.router.rubric import RUBRIC
from turngate.envs.router.sources import GeneratedRouting, RoutingSource
from turngate.envs.router.task import RouterTask
from turngate.envs.tasks import TasksLike, part_of
from turngate.envs.tool_env import ToolEnv, ToolError
from turngate.errors import ConfigError, UnknownName
from turngate.parts import import_object
from turngate.rewards.outcome.answers import exact_match, token_f1
from turngate.rewards.outcome.calibration import confidence_in
from turngate.rewards.outcome.costs import cost_score
from turngate.rewards.outcome.normal_form import normalize
from turngate.tools.tool import tool
from turngate.types import Evidence, Task, storable

GOAL = "Answer the question. Models may help; each token that they say costs. One tool per turn"
COMMANDS = ": ask MODEL QUESTION | answer TEXT"
DEADLINE_S = 30.0
EVIDENCE = {
    **meanings("answered", "correct", "token_f1", "gold", "stated_confidence"),
    "cost": "what all replies of models cost together",
    "cost_score": "1 for no cost down to 0 for the most that counts, on a scale that the settings fix",
    "n_asked": "number of questions to models",
    "latency_s": "seconds that the models take together",
    "asked": "name of the model that was asked in the turn",
    "model_reply": "what the model replied",
    "reply_tokens": "number of tokens of its reply",
    "reply_cost": "what its reply cost",
}
NO_MODELS = "these tasks need models; write models = [{name = …, price = …, text_model = {…}}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """A question that was put to a model, its reply, and what that cost."""

    model: str
    question: str
    reply: str
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterState:
    """The state of an episode at one moment; for forks."""

    task: Task
    turn: int
    shown: str
    asked: tuple[AskedModel, ...]
    answer: str | None
    done: frozenset[str]


class RouterEnv(ToolEnv):
    """Questions, and models to ask. ``models``: see ``askable.py``; generated questions bring their own.

    ``question_chars``: most characters of a question to a model; ``reply_chars``: of its reply, so many are shown.
    ``cost_range``: the values of √cost that score 1 and 0; None: from nothing to one usual reply of every model.
    Raises ConfigError for settings that are out of range or do not go together, and what ``TurnEnv`` raises.
    """

    turn_spec = TurnSpec(
        rubric=RUBRIC,
        max_turns=8,
        tasks=GeneratedRouting(),
        deadline_s=DEADLINE_S,
        fork="exact",
        side_effects="none",
        has_oracle=True,
        hint_levels=2,
        evidence=EVIDENCE,
    )
    answers = ("question",)

    def __init__(
        self,
        *,
        models: Sequence[ModelLike] | None = None,
        tasks: TasksLike = None,
        split: str | None = None,
        max_turns: int | None = None,
        question_chars: int = 1000,
        reply_chars: int = 1000,
        cost_range: tuple[float, float] | None = None,
    ) -> None:
        for name, value in (("question_chars", question_chars), ("reply_chars", reply_chars)):
            if value < 40:
                raise ConfigError(f"{name} is {value}; it must be at least 40")
        _refuse_misfit(models, tasks, self.turn_spec.tasks)
        self._own = None if models is None else routed_models(models)
        self._cost_range = cost_range
        self._models: dict[str, RoutedModel] = {}
        self._range()
        self._question_chars, self._reply_chars = question_chars, reply_chars
        self._open: dict[str, LiveModel] = {}
        self._asked: list[AskedModel] = []
        self._answer: str | None = None
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)

    def begin(self, task: Task) -> str:
        """List the models and ask the question."""
        self._asked, self._answer, self._models = [], None, self._models_of(task)
        known = "\n".join(_line(model) for model in self._models.values())
        return f"{GOAL}{'' if self.tool_format else COMMANDS}.\nModels:\n{known}\nQuestion: {task.prompt}"

    def state(self) -> str:
        """The task, what was asked and replied, and the last text."""
        asked = (f"{one.model}\x1e{one.question}\x1e{one.reply}" for one in self._asked)
        return "\x1f".join((self.task.id, *asked, self.shown))

    def verify(self) -> Iterable[Evidence]:
        """Compare the answer with the right ones, and sum up the costs."""
        gold, answer = RouterTask.of(self.task).gold, self._answer
        cost = sum(one.cost for one in self._asked)
        facts = {
            "answered": answer is not None,
            "correct": answer is not None and exact_match(answer, gold) == 1.0,
            "token_f1": token_f1(answer or "", gold),
            "cost": cost,
            "cost_score": cost_score(cost, *self._range()),
            "n_asked": len(self._asked),
            "latency_s": sum(self._models[one.model].latency_s for one in self._asked),
            "gold": list(gold),
            "stated_confidence": confidence_in(super().answer() or ""),
        }
        for name, value in facts.items():
            yield Evidence(name=name, value=value, by="verifier")

    def answer(self) -> str | None:
        """The text of the call ``answer``."""
        return self._answer

    def oracle(self, task: Task) -> Sequence[str]:
        """Ask the cheapest model that knows the answer, where the task names one, and give the answer."""
        asked = RouterTask.of(task)
        asks = [] if asked.ask is None else [f"ask {list(self._models_of(task))[asked.ask]}"]
        return [*asks, f"answer {asked.gold[0]}"]

    def hint(self, task: Task, level: int) -> str | None:
        """Those of the task; where it has none, 1: which model costs least; 2: the order of all models by price."""
        if task.hints:
            return super().hint(task, level)
        cheap = sorted(self._models_of(task).values(), key=lambda model: model.price)
        order = f"In the order of price: {', '.join(model.name for model in cheap)}."
        levels = (f"{cheap[0].name} costs least: ask it first.", f"{cheap[0].name} costs least: ask it first. {order}")
        return levels[level - 1] if 1 <= level <= len(levels) else None

    def outside(self, task: Task) -> str:
        """The outside source of the first model that has one."""
        return next((one.outside for one in self._models_of(task).values() if one.outside), "")

    def marks(self, task: Task) -> Mapping[str, str]:
        """The question."""
        return {"question": normalize(task.prompt)}

    def save(self) -> RouterState:
        return RouterState(
            task=self.task,
            turn=self.turn,
            shown=self.shown,
            asked=tuple(self._asked),
            answer=self._answer,
            done=frozenset(self._done),
        )

    def load(self, saved: object) -> None:
        assert isinstance(saved, RouterState)
        self.turn, self.shown, self._done = saved.turn, saved.shown, set(saved.done)
        self._models = self._models_of(saved.task)
        self._asked, self._answer = list(saved.asked), saved.answer

    def close(self) -> None:
        """Close the models."""
        while self._open:
            self._open.popitem()[1].close()
        super().close()

    # --- tools --------------------------------------------------------------------------------------------------------

    @tool
    def ask(self, model: str, question: str = "") -> str:
        """Ask a model.

        Args:
            model: its name
            question: what it is asked; leave it out to ask the question of the task
        """
        if model not in self._models:
            raise ToolError(str(UnknownName("model", model[:40], self._models)))
        said = question.strip() or self.task.prompt
        if len(said) > self._question_chars:
            raise ToolError(f"the question has {len(said)} characters; at most {self._question_chars} are allowed")
        reply = self._live(model).reply(said)
        cost = self._models[model].price * reply.tokens
        text = storable(reply.text, self._reply_chars)
        self._asked.append(AskedModel(model=model, question=said, reply=text, cost=cost))
        for name, value in (
            ("asked", model),
            ("model_reply", text),
            ("reply_tokens", reply.tokens),
            ("reply_cost", cost),
        ):
            self.record(name, value)
        if reply.declined:
            raise ToolError(f"{model} declined to answer; ask otherwise, or another model")
        return f"{model}: {text}" if text.strip() else f"{model} said nothing"

    @tool(name="answer")
    def give_answer(self, text: str) -> str:
        """Answer in as few words as possible. Ends the episode."""
        self._answer = text.strip()
        self.end()
        return "answered"

    # --- what its tools use -------------------------------------------------------------------------------------------

    def _models_of(self, task: Task) -> dict[str, RoutedModel]:
        """The models that can be asked: those of the task, else the environment's."""
        named = RouterTask.of(task).models
        found = _brought(named) if named else self._own
        if found is None:
            raise ConfigError(NO_MODELS)
        return {model.name: model for model in found}

    def _live(self, name: str) -> LiveModel:
        """The model of that name; it is opened when it is first asked."""
        part = self._models[name]
        key = part.model_dump_json()
        if key not in self._open:
            self._open[key] = part.open()
        return self._open[key]

    def _range(self) -> tuple[float, float]:
        """The values of √cost that score 1 and 0. Raises ConfigError for bounds that are none."""
        if self._cost_range is None:
            return 0.0, math.sqrt(sum(model.price * model.usual_tokens for model in self._models.values()))
        low, high = self._cost_range
        if not 0 <= low < high < math.inf:
            raise ConfigError(
                f"cost_range is {[low, high]}; it must be two values of √cost, 0 ≤ the first < the second"
            )
        return low, high


def _refuse_misfit(models: Sequence[ModelLike] | None, tasks: TasksLike, default: TasksLike) -> None:
    """Raises ConfigError for models where the tasks bring their own, and for none where they do not."""
    source = part_of(tasks, default, RouterEnv.__name__)
    if not isinstance(source, RoutingSource):
        return
    if models is None and not source.brings_models:
        raise ConfigError(NO_MODELS)
    if models is not None and source.brings_models:
        raise ConfigError(
            f"models has no effect with '{source.type}', which brings its own; name other tasks, or leave it out"
        )


@cache
def _brought(path: str) -> tuple[RoutedModel, ...]:
    """The models that a task names."""
    return routed_models(import_object(path))


def _line(model: RoutedModel) -> str:
    about = f" {model.description}" if model.description else ""
    return f"- {model.name}:{about} (price {model.price:g} a token, {model.latency_s:g} s)"
