"""The settings of a run: one frozen tree, read from TOML and ``--section.key=value``, validated once, written back.

Components receive values, never this tree. An unknown key is an error that names the closest one.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from inspect import Parameter, signature
from operator import or_
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union, get_args, get_origin, get_type_hints

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from turngate.errors import ConfigError, DataError
from turngate.problems import one_line
from turngate.sinks import ConsoleLines, SinkPart
from turngate.trainer.credit import CREDITS, TOKEN_CREDITS, VALUE_TARGETS
from turngate.trainer.credit.implicit import REWARD_MODELS
from turngate.trainer.loss_settings import ClippedSection, LossSection
from turngate.trainer.signal_settings import RewardModelSection, SignalsSection, ValueSection


class Section(BaseModel):
    """Base of every section."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class EnvSection(Section):
    """What is played."""

    id: str = "turngate/Sql-v1"
    """Registered id, for instance turngate/Sql-v1."""
    split: str = "train"
    """Split that training tasks come from."""
    kwargs: dict[str, Any] = {}
    """Arguments of the environment's constructor."""


class TinyModel(Section):
    """A Qwen3 architecture from random weights, with a tokenizer trained on the warm start's text."""

    layers: int = Field(4, ge=1)
    """Transformer layers."""
    width: int = Field(192, ge=16)
    """Size of the hidden state."""
    heads: int = Field(4, ge=1)
    """Attention heads; divides the width."""
    vocabulary: int = Field(2048, ge=260)
    """Most entries of the tokenizer."""

    @model_validator(mode="after")
    def _divides(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class WarmStart(Section):
    """Supervised fine-tuning before reinforcement learning."""

    episodes: int | None = Field(None, ge=1)
    """Oracle episodes to make; leave out when demonstrations are given."""
    demonstrations: Path | None = None
    """JSON lines {"task": ID, "actions": [TEXT, …]} to learn from instead of the oracle."""
    epochs: int = Field(1, ge=1)
    """Passes over the episodes."""
    episodes_per_batch: int = Field(64, ge=1)
    """Episodes per optimizer step."""
    lr: float = Field(1e-3, gt=0)
    """Peak learning rate of AdamW."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.episodes is None) == (self.demonstrations is None):
            raise ValueError("give either episodes (from the oracle) or demonstrations (a file)")
        return self


class PolicySection(Section):
    """How episodes are sampled."""

    temperature: float = Field(1.0, gt=0)
    """Sampling temperature of training and of the main evaluation."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Only the likeliest tokens that together hold this much probability are sampled, there and in the learner."""
    top_k: int = Field(0, ge=0)
    """Only so many likeliest tokens are sampled, there and in the learner; 0 = all."""
    turn_tokens: int = Field(64, ge=1)
    """Most tokens of one turn."""
    context: int = Field(1024, ge=16)
    """Most tokens of an episode."""
    episode_s: float = Field(600.0, gt=0)
    """Most seconds of an episode."""
    lanes: int = Field(64, ge=1)
    """Episodes played at once."""
    order: Literal["fixed", "ready"] = "fixed"
    """fixed: reproducible bit for bit; ready: episodes rejoin as soon as their environment has answered."""

    @model_validator(mode="after")
    def _leaves_a_choice(self) -> Self:
        if self.top_k == 1:
            raise ValueError("top_k = 1 leaves one token, whose probability is 1, so nothing could be learned")
        return self


class LearnerSection(Section):
    """How weights are updated in reinforcement learning."""

    lr: float = Field(1e-5, gt=0)
    """Learning rate of AdamW."""
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled weight decay."""
    clip_norm: float = Field(1.0, gt=0)
    """Largest norm of the gradient."""
    tokens_per_pass: int = Field(16384, ge=1)
    """Most padded tokens of one forward pass; changes memory, not the result."""
    tolerance: float = Field(1e-4, gt=0)
    """Largest allowed difference between the sampler's and the learner's logprobs."""


def _credit_section(name: str, rule: Callable[..., object]) -> type[Section]:
    """The settings of a credit rule: its keyword arguments, under their own names, types and defaults."""
    hints = get_type_hints(rule)
    fields: dict[str, Any] = {"type": (Literal[name], name)}
    for argument in signature(rule).parameters.values():
        if argument.kind is Parameter.KEYWORD_ONLY:
            fields[argument.name] = (hints[argument.name], argument.default)
    return create_model(f"{name}_section", __base__=Section, __doc__=rule.__doc__, **fields)


RULES: dict[str, Callable[..., object]] = {**CREDITS, **TOKEN_CREDITS}
CREDIT_SECTIONS = {name: _credit_section(name, rule) for name, rule in RULES.items()}

if TYPE_CHECKING:

    class CreditSection(Section):
        """How turns get their credit; the other keys are the arguments of the rule."""

        type: str
else:
    CreditSection = Annotated[reduce(or_, CREDIT_SECTIONS.values()), Field(discriminator="type")]


class TrainSection(Section):
    """The reinforcement-learning loop."""

    steps: int = Field(100, ge=0)
    """Updates; 0 = only the warm start."""
    tasks_per_step: int = Field(16, ge=1)
    """Different tasks per update."""
    group_size: int = Field(8, ge=2)
    """Episodes per task and update."""
    minibatches: int = Field(1, ge=1)
    """Optimizer steps per update."""
    filters: tuple[str, ...] = ("varied",)
    """Groups that fail one of these are dropped and counted."""
    checkpoint_every: int = Field(1, ge=1)
    """Updates between checkpoints; a run that was killed goes on from the last."""


class EvalSection(Section):
    """Unaided evaluation, before and after training."""

    splits: tuple[str, ...] = ("heldout",)
    """Splits of the environment's tasks."""
    tasks: int = Field(200, ge=1)
    """Tasks per split."""
    samples: int = Field(1, ge=1)
    """Episodes per task at the training temperature; greedy plays each task once."""


class Config(Section):
    """Everything that defines a run."""

    name: str = Field("run", pattern=r"^[A-Za-z0-9._-]+$")
    """Folder of the run inside ``folder``."""
    folder: Path = Path("runs")
    """Where runs are kept."""
    seed: int = Field(0, ge=0)
    """Everything random derives from it."""
    model: str | TinyModel = TinyModel()
    """A hub name, a local folder, or a tiny model from nothing."""
    env: EnvSection = EnvSection()
    warm_start: WarmStart | None = None
    policy: PolicySection = PolicySection()
    learner: LearnerSection = LearnerSection()
    credit: CreditSection = CREDIT_SECTIONS["grpo"]()  # type: ignore[assignment]
    value: ValueSection | None = None
    reward_model: RewardModelSection | None = None
    signals: SignalsSection = SignalsSection()
    loss: LossSection = ClippedSection()
    sink: tuple[SinkPart, ...] = (ConsoleLines(),)
    """Where the numbers of each step go besides metrics.jsonl. May differ when a run goes on."""
    train: TrainSection = TrainSection()
    eval: EvalSection = EvalSection()
    controls: tuple[Literal["shuffled_credit", "random_reward"], ...] = ()
    """Negative controls: the same training from the same warm start, with the signal destroyed."""
    control_steps: int | None = Field(None, ge=1)
    """Updates of each control; leave out for as many as train.steps."""

    @model_validator(mode="before")
    @classmethod
    def _with_models_of_the_rule(cls, data: Any) -> Any:
        """A rule with a critic or an implicit reward model gets one by default, so that the tree says how it learns.

        A critic that saw only groups whose siblings differ would not know what is easy and what is hopeless, so no
        filter is its default.
        """
        if not isinstance(data, Mapping):
            return data
        credit, train = data.get("credit"), data.get("train", {})
        name = credit.get("type") if isinstance(credit, Mapping) else getattr(credit, "type", None)
        added: dict[str, Any] = {}
        if name in VALUE_TARGETS and data.get("value") is None:
            added["value"] = {}
        if name in VALUE_TARGETS and isinstance(train, Mapping) and "filters" not in train:
            added["train"] = {**train, "filters": ()}
        if name in REWARD_MODELS and data.get("reward_model") is None:
            added["reward_model"] = {}
        return {**data, **added}

    @model_validator(mode="after")
    def _read_by_the_rule(self) -> Self:
        """Whatever credit does not read would have no effect."""
        name = self.credit.type
        if self.value is not None and name not in VALUE_TARGETS:
            raise ValueError(f"value has no effect: credit '{name}' reads no values; {', '.join(VALUE_TARGETS)} do")
        if self.reward_model is not None and name not in REWARD_MODELS:
            known = ", ".join(REWARD_MODELS)
            raise ValueError(f"reward_model has no effect: credit '{name}' reads no rewards of a model; {known} do")
        if self.signals != SignalsSection():
            rule = partial(RULES[name], **self.credit.model_dump(exclude={"type"}))
            self.signals.check_effect(rule, name, siblings=self.train.group_size)
        return self

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if isinstance(self.model, TinyModel) and self.warm_start is None:
            raise ValueError("a tiny model starts from random weights and its tokenizer from text; add [warm_start]")
        if self.controls and not self.train.steps:
            raise ValueError("controls without train.steps would do nothing")
        if self.control_steps is not None and not self.controls:
            raise ValueError("control_steps without controls has no effect")
        return self


def load(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file, apply ``--section.key=value`` and validate. Raises ConfigError, DataError."""
    try:
        data = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"no config file '{path}'") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(path, str(error)) from error
    for override in overrides:
        _apply(data, override)
    return parse(data)


def parse(data: Mapping[str, Any]) -> Config:
    """Validate a tree of plain values. Raises ConfigError with one line."""
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_one_line(error, data)) from None


def dump(config: Config) -> str:
    """The resolved tree as TOML."""
    return tomli_w.dumps(_without_none(config.model_dump(mode="json")))


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.removeprefix("--").partition("=")
    if not override.startswith("--") or not equals:
        raise ConfigError(f"'{override}' is not an override; write --section.key=value")
    *sections, leaf = key.split(".")
    for section in sections:
        data = data.setdefault(section, {})
        if not isinstance(data, dict):
            raise ConfigError(f"'{override}': '{section}' is a value, not a section")
    try:
        data[leaf] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        data[leaf] = text  # a bare word is text


def _one_line(error: ValidationError, data: Mapping[str, Any]) -> str:
    first = max(error.errors(), key=_weight)
    if first["loc"][:1] == ("sink",):
        return one_line(error, Config, data)
    steps = [str(part) for part in first["loc"]]
    where = _written(steps, data)
    if first["type"] == "extra_forbidden":
        known = _keys_at(steps[:-1])
        close = difflib.get_close_matches(where[-1], known, n=1, cutoff=0.4)
        advice = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}"
        return f"unknown key '{'.'.join(where)}'; {advice}"
    if first["type"] == "union_tag_invalid":
        tag, known = first["ctx"]["tag"], [name.strip("' ") for name in first["ctx"]["expected_tags"].split(",")]
        close = difflib.get_close_matches(tag, known, n=1, cutoff=0.3)
        advice = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}"
        return f"unknown {'.'.join(where)} '{tag}'; {advice}"
    if first["type"] == "union_tag_not_found":
        known = [model.model_fields["type"].default for model in _sections_at(steps)]
        return f"'{'.'.join(where)}' needs a type; known: {', '.join(known)}"
    message = first["msg"].removeprefix("Value error, ")
    return f"{'.'.join(where) or 'config'}: {message}" + (f", got {first['input']!r}" if where else "")


def _weight(found: Mapping[str, Any]) -> tuple[bool, int, bool]:
    """Which of several errors to tell: an unknown key, then the union member that got furthest, then our own words."""
    return found["type"] == "extra_forbidden", len(found["loc"]), found["type"] == "value_error"


def _written(steps: Sequence[str], data: Any) -> list[str]:
    """The steps that stand in the file: pydantic adds the names of union members."""
    where: list[str] = []
    for step in steps:
        if isinstance(data, Mapping) and step in data:
            where, data = [*where, step], data[step]
        elif isinstance(data, Sequence) and step.isdigit():
            where, data = [*where, step], data[int(step)]
    return where


def _keys_at(path: Sequence[str]) -> list[str]:
    """Names of the fields of the section at ``path``."""
    return sorted({name for section in _sections_at(path) for name in section.model_fields})


def _sections_at(path: Sequence[str]) -> list[type[BaseModel]]:
    """The section at ``path``, or the members of the union there; indices and parts that pydantic adds are skipped."""
    sections: list[type[BaseModel]] = [Config]
    for part in path:
        named = [field.annotation for s in sections for name, field in s.model_fields.items() if name == part]
        sections = [model for annotation in named for model in _models(annotation)] or sections
        tagged = [s for s in sections if "type" in s.model_fields and s.model_fields["type"].default == part]
        sections = tagged or [s for s in sections if s.__name__ == part] or sections
    return sections


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType, Annotated, tuple):
        return [model for part in get_args(annotation) for model in _models(part)]
    return []


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def parse_table(name: str, text: str) -> dict[str, Any]:
    """A TOML inline table given on the command line. Raises ConfigError."""
    try:
        table = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} '{text}' is not a TOML inline table such as {{rows = 12}}: {error}") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{name} '{text}' is not a table; write {{key = value}}")
    return table
