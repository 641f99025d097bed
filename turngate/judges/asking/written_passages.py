"""A model as a search engine: ``retriever = {type = "written", text_model = {type = "server", …}}``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.search.engine.passages import Corpus, Hit
from turngate.envs.search.engine.retrievers import RetrieverFailed, RetrieverPart
from turngate.envs.search.engine.self_search import request, written_passages
from turngate.errors import EnvError
from turngate.judges.asking.blocking_text_model import MOST_S, BlockingTextModel, Declined, refuse_unfit
from turngate.judges.asking.parts import JudgePart
from turngate.rewards.fence import words_marked


class WrittenPassages(RetrieverPart):
    """A model writes the passages for a query out of what it knows. Nothing checks that they are true."""

    type: Literal["written"] = "written"
    local: ClassVar[bool] = False
    finds: ClassVar[bool] = False
    text_model: JudgePart
    """The model: of type server, model, recorded or function. Of how it is asked, call_s, attempts, max_tokens and
    temperature count."""
    deadline_s: float = Field(20.0, gt=0, lt=MOST_S)
    """Most seconds of one reply with all its attempts; below that of a turn of the environment, which is 30."""
    cache: Path | None = None
    """File of replies (JSON lines), which is read first and grows; none: replies are remembered while it runs."""
    seed: int = Field(0, ge=0)
    """Where the sampling of replies begins; has an effect at a temperature above 0."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for a model that cannot stand here."""
        refuse_unfit(self.text_model, "a model that writes passages")

    @property
    def outside(self) -> str:
        return "a model, which writes the passages" if self.text_model.asks_model else ""

    def open(self, corpus: Corpus | None) -> PassageWriter:
        return PassageWriter(self)


class PassageWriter:
    """What ``WrittenPassages`` opens."""

    def __init__(self, part: WrittenPassages) -> None:
        self._text_model = BlockingTextModel(
            part.text_model,
            role="the model that writes passages",
            identity=part.model_dump(mode="json", include={"text_model", "seed"}),
            deadline_s=part.deadline_s,
            seed=part.seed,
            cache=part.cache,
        )

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """The passages that the model writes, in its order; none if it declines, because else the agent could void an
        episode by what it asks. Raises RetrieverFailed."""
        try:
            text = self._text_model.complete(request(query, k), again=request(words_marked(query), k)).text
        except Declined:
            return ()
        except EnvError as error:
            raise RetrieverFailed(str(error)) from error
        return [Hit(passage=one, score=1 / place) for place, one in enumerate(written_passages(text, k), 1)]

    def close(self) -> None:
        """Stop using the model."""
        self._text_model.close()
