"""Endless routing tasks: a question of a made-up kind, and models of which one answers it cheaply and one at a high
price."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from turngate.envs.router import specialists
from turngate.envs.router.task import RouterTask
from turngate.envs.seeded_random import SeededRandom
from turngate.envs.tasks import split_of
from turngate.errors import UnknownName
from turngate.types import JSON, Task

ENV_ID = "turngate/Router-v1"
HELD_OUT = 3
"""Every n-th town, and sum, belongs to the split heldout."""
_HEADS = "Ald Bren Cal Dor Esk Fal Gar Hal Ist Kel Lun Mar Nor Or Pel Quen Ros Sel Tal Ulm Ver Wen".split()
_TAILS = "ack bury by cot dale don field ford ham hurst ley mere ness sted stow thorpe ton wick worth".split()
_ASKED: Mapping[str, str] = MappingProxyType(
    {
        "abacus": "What is {} plus {}?",
        "herald": "Which beast is on the arms of {}?",
        "mason": "In which year was the bridge of {} built?",
        "painter": "Which colour has the flag of {}?",
        "builder": "What are the walls of {} made of?",
    }
)
_KNOWS: Mapping[str, str] = MappingProxyType(
    {
        "abacus": "adds numbers",
        "herald": "knows the arms of towns",
        "mason": "knows when bridges were built",
        "painter": "knows the flags of towns",
        "builder": "knows the walls of towns",
    }
)
_PLAIN, _EASY = ("abacus", "herald", "mason"), ("painter", "builder")


def _model(knows: Callable[[str], str], description: str, price: float, latency_s: float) -> dict[str, JSON]:
    text_model: JSON = {"type": "function", "path": f"{knows.__module__}:{knows.__name__}"}
    known: dict[str, JSON] = {
        "name": knows.__name__,
        "description": description,
        "price": price,
        "latency_s": latency_s,
    }
    return {**known, "usual_tokens": 1.0, "text_model": text_model}


def _models(names: Sequence[str]) -> tuple[dict[str, JSON], ...]:
    return (
        *(_model(getattr(specialists, name), _KNOWS[name], 1.0, 0.2) for name in names),
        _model(specialists.parrot, "repeats a word", 0.5, 0.1),
        _model(specialists.sage, "knows all that the others know", 16.0, 4.0),
    )


MODELS = _models(_PLAIN)
"""The models of these tasks, as a config would name them."""
EASY_MODELS = _models(_EASY)
"""The models of easy tasks."""


class RoutingTasks:
    """Question number ``index`` of a split, by hash. Towns and sums of the splits are apart."""

    splits: tuple[str, ...] = ("train", "heldout")

    def __init__(self, *, easy: bool = False) -> None:
        self._name = "routing-easy" if easy else "routing"
        self._kinds: Sequence[str] = _EASY if easy else _PLAIN
        known = "turngate.envs.router.generate:MODELS", "turngate.envs.router.generate:EASY_MODELS"
        self._models = known[easy]

    def size(self, split: str) -> None:
        """None: there is no end of tasks. Raises UnknownName."""
        if split not in self.splits:
            raise UnknownName("split", split, self.splits)

    def task(self, split: str, index: int) -> Task:
        """Task ``index``: a question that one of the cheap models knows."""
        self.size(split)
        rng = SeededRandom(self._name, split, index)
        knows = rng.pick(self._kinds)
        about = _about(rng, knows, split)
        prompt = _ASKED[knows].format(*about)
        asked = RouterTask(gold=[specialists.sage(prompt)], models=self._models, ask=self._kinds.index(knows))
        return Task(
            id=f"{self._name}/{split}/{index}",
            env_id=ENV_ID,
            prompt=prompt,
            private=asked.private(),
            hints=(f"One of the cheap models {_KNOWS[knows]}.", f"Ask {knows}, who {_KNOWS[knows]}, and answer that."),
            split=split,
        )

    def find(self, task_id: str) -> Task:
        """The task of an id made by ``task``."""
        match task_id.split("/"):
            case [self._name, split, index] if split in self.splits and index.isdigit():
                return self.task(split, int(index))
        raise UnknownName("task", task_id, [f"{self._name}/{split}/0" for split in self.splits])


def _about(rng: SeededRandom, knows: str, split: str) -> list[str]:
    """What a question is about: a town, or two numbers, of that split."""
    while True:
        if knows == "abacus":
            about = [str(rng.whole(10, 999)), str(rng.whole(10, 999))]
        else:
            about = [rng.pick(_HEADS) + rng.pick(_TAILS)]
        if (split_of(" ".join(about), HELD_OUT) == "heldout") == (split == "heldout"):
            return about
