"""The models that a routing agent may ask, as a config names them:
``models = [{name = "small", price = 0.1, text_model = {type = "server", …}}]``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

from pydantic import BaseModel, Field, ValidationError

from turngate.errors import ConfigError
from turngate.parts import Part
from turngate.problems import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The text of a model, and its number of tokens. ``declined``: it gave no answer, or one that was cut off."""

    text: str
    tokens: int
    declined: bool = False


class LiveModel(Protocol):
    """A model for as long as an environment is open."""

    def reply(self, question: str) -> ModelReply:
        """The model's reply to a question. Raises EnvError if none comes in time."""
        ...

    def close(self) -> None:
        """Free the model's resources. Safe to repeat."""
        ...


class RoutedModel(Part):
    """A model that the agent may ask. A subclass sets ``type``, declares its settings and writes ``open``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "routed model"
    fallback: ClassVar[str] = "text_model"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.judges.asking.routed_models",)
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """What the agent calls it; letters, digits, dots, dashes and underscores."""
    description: str = ""
    """What the agent is told about it."""
    price: float = Field(ge=0, allow_inf_nan=False)
    """Cost of one token of its replies, in a unit that all models share."""
    latency_s: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Seconds that a reply usually takes, as the agent is told."""
    usual_tokens: float = Field(100.0, gt=0, allow_inf_nan=False)
    """Tokens of a usual reply; has an effect on the scale of costs where cost_range is left out."""

    @property
    def outside(self) -> str:
        """The outside source of the replies, in words; "" where the same question gets the same reply."""
        return ""

    @abstractmethod
    def open(self) -> LiveModel:
        """The model. Raises UserError where there is none by these settings."""


ModelLike: TypeAlias = RoutedModel | Mapping[str, object]
"""A model as an environment takes it: a part, or its table."""


class _ModelsArgument(BaseModel):
    models: tuple[RoutedModel, ...] = Field(min_length=1)


def routed_models(models: Sequence[ModelLike]) -> tuple[RoutedModel, ...]:
    """The models that a setting names. Raises ConfigError for none, a wrong one and two of one name."""
    data = {"models": list(models)}
    try:
        found = _ModelsArgument.model_validate(data).models
    except ValidationError as error:
        raise ConfigError(one_line(error, _ModelsArgument, data)) from None
    name, count = Counter(model.name for model in found).most_common(1)[0]
    if count > 1:
        raise ConfigError(f"models: {count} of them are called '{name}'; give each a name of its own")
    return found
