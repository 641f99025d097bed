"""A text model as a model that a routing agent may ask: ``models = [{name = …, text_model = {type = "server", …}}]``.

A model that fails, or takes too long, makes the episode unusable. A model that declines to answer, or says nothing,
counts as having answered: the agent could otherwise void an episode by what it asks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from turngate.envs.router.askable import ModelReply, RoutedModel
from turngate.errors import ConfigError
from turngate.judges.asking.blocking_text_model import MOST_S, BlockingTextModel, Declined, refuse_unfit
from turngate.judges.asking.parts import JudgePart

QUESTION = "{question}"


class SpokenModel(RoutedModel):
    """A model behind a server, in this process, in a file of replies, or a function."""

    type: Literal["text_model"] = "text_model"
    text_model: JudgePart
    """The model: of type server, model, recorded or function. Of how it is asked, call_s, attempts, max_tokens and
    temperature count."""
    prompt: str = QUESTION
    """Prompt of the model; {question} stands for the agent's question."""
    deadline_s: float = Field(20.0, gt=0, lt=MOST_S)
    """Most seconds of one reply with all its attempts; below that of a turn of the environment, which is 30."""
    cache: Path | None = None
    """File of replies (JSON lines), which is read first and grows; none: replies are remembered while it runs."""
    seed: int = Field(0, ge=0)
    """Where the sampling of replies begins; has an effect at a temperature above 0."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for a model that cannot stand here, and for a prompt without the question."""
        refuse_unfit(self.text_model, f"model '{self.name}'")
        if QUESTION not in self.prompt:
            raise ConfigError(f"the prompt of model '{self.name}' must hold {QUESTION}")

    @property
    def outside(self) -> str:
        return f"the model '{self.name}', which the agent asks" if self.text_model.asks_model else ""

    def open(self) -> OpenModel:
        return OpenModel(self)


class OpenModel:
    """What ``SpokenModel`` opens."""

    def __init__(self, part: SpokenModel) -> None:
        self._prompt = part.prompt
        asked = {"text_model", "seed"}
        self._text_model = BlockingTextModel(
            part.text_model,
            role=f"model '{part.name}'",
            identity=part.model_dump(mode="json", include=asked),
            deadline_s=part.deadline_s,
            seed=part.seed,
            cache=part.cache,
        )

    def reply(self, question: str) -> ModelReply:
        try:
            told = self._text_model.complete(self._prompt.replace(QUESTION, question))
        except Declined:
            return ModelReply(text="", tokens=0, declined=True)
        return ModelReply(text=told.text, tokens=told.tokens)

    def close(self) -> None:
        self._text_model.close()
