"""The settings of a run: one frozen tree, read from TOML and ``--section.key=value``, validated once, written back.

The tree is made of sections, whose keys are ours, and of parts (``turngate.parts``), whose keys are their own. An
unknown key is an error that names the closest one, and so is a setting without effect. Components receive values, never
this tree, and reading it imports no torch.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from turngate.agents.policies.parts import LocalPolicyPart, PolicyPart
from turngate.envs.registry import id_alone, load_plugins
from turngate.envs.tasks import TaskSourcePart
from turngate.errors import ConfigError, DataError, UserError
from turngate.examine.base import Examiner
from turngate.jsonl import read_json
from turngate.parts import Part, import_module
from turngate.problems import one_line
from turngate.rubrics import NamedRubric
from turngate.runs import RunFolder
from turngate.sinks import ConsoleLines, SinkPart
from turngate.trainer.credit import VALUE_TARGETS
from turngate.trainer.credit.implicit import REWARD_MODELS
from turngate.trainer.credit.rule import VALUES, CreditRule
from turngate.trainer.filters import FilterPart
from turngate.trainer.guidance import GuidePart, NoGuidePart
from turngate.trainer.learner import LearnerPart, TorchLearnerPart
from turngate.trainer.loss import LossSettings
from turngate.trainer.signals.settings import (
    CRITIC_COLUMNS,
    ENTROPY_COLUMNS,
    MODEL_COLUMNS,
    RewardModelSection,
    SignalsSection,
    ValueSection,
)
from turngate.types import JSON


class Section(BaseModel):
    """Base of every section."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class EnvSection(Section):
    """What is played. Write ``[[env]]`` several times to train on several environments at once."""

    id: str = "turngate/Sql-v1"
    """Registered id of the environment, for instance turngate/Sql-v1; ``turngate envs`` lists them. MODULE:ID imports
    the module that registers it first, also one in the current folder: guess:acme/Guess-v0."""
    name: str = Field("", pattern=r"^[A-Za-z0-9._/-]*$")
    """What metrics and reports call it; empty: its id. Needed where two entries have the same id."""
    split: str = "train"
    """Split of its tasks that training plays; which there are depends on the source of the tasks."""
    kwargs: dict[str, object] = {}
    """Arguments of the environment's constructor, for instance {max_turns = 4}."""
    tasks: TaskSourcePart | None = None
    """Where its tasks come from, for instance {type = "spider", folder = "…"}; left out: the environment's own."""
    rubric: NamedRubric | None = None
    """What episodes are paid for: the name of a shipped rubric (lock, sql, sql_reasoning, code_repair,
    code_repair_direct), a JSON or TOML file, a table with the keys below, or package.module:NAME. Left out: the
    environment's own."""
    allow_unsafe: bool = False
    """Train although process rewards can outrank the outcome; every report then says so."""
    weight: float = Field(1.0, gt=0)
    """Share of each step's tasks, relative to the other environments."""
    together: int = Field(1, ge=1)
    """So many neighbouring tasks always come in the same step, for instance 2 for two wordings of one question."""
    isolation: Literal["thread", "process"] = "thread"
    """thread: environments run in this process, which is faster; process: each in one of its own, for code that may
    hang or crash."""

    @model_validator(mode="after")
    def _tasks_once(self) -> Self:
        if self.tasks is not None and "tasks" in self.kwargs:
            raise ValueError("tasks stand in env.tasks and in env.kwargs.tasks; keep env.tasks")
        return self

    @property
    def label(self) -> str:
        """Its name in the run."""
        return self.name or id_alone(self.id)

    @property
    def arguments(self) -> dict[str, object]:
        """What its constructor is given."""
        return self.kwargs if self.tasks is None else {**self.kwargs, "tasks": self.tasks.model_dump()}


def _as_list(data: Any) -> Any:
    return [data] if isinstance(data, Mapping) else data


class TinyModel(Section):
    """A Qwen3 architecture from random weights, with a tokenizer trained on the warm start's text."""

    layers: int = Field(4, ge=1)
    """Transformer layers."""
    width: int = Field(192, ge=16)
    """Size of the hidden state; a multiple of ``heads``."""
    heads: int = Field(4, ge=1)
    """Attention heads of each layer."""
    vocabulary: int = Field(2048, ge=260)
    """Most entries of the tokenizer's vocabulary."""

    @model_validator(mode="after")
    def _divides(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class WarmStart(Section):
    """Supervised fine-tuning before reinforcement learning."""

    episodes: int | None = Field(None, ge=1)
    """Episodes to learn from, played by the environment's oracle; leave out when demonstrations are given."""
    demonstrations: Path | None = None
    """JSON lines {"task": ID, "actions": [TEXT, …]} to learn from instead of the oracle."""
    epochs: int = Field(1, ge=1)
    """How often all episodes are learned from."""
    episodes_per_batch: int = Field(64, ge=1)
    """Episodes per optimizer step."""
    lr: float = Field(1e-3, gt=0)
    """Peak learning rate of AdamW."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.episodes is None) == (self.demonstrations is None):
            raise ValueError("give either episodes (from the oracle) or demonstrations (a file)")
        return self


class TrainSection(Section):
    """The reinforcement-learning loop."""

    steps: int = Field(100, ge=0)
    """Training steps; each plays episodes and updates the weights. 0 = only the warm start."""
    tasks_per_step: int = Field(16, ge=1)
    """Different tasks that are played in a step."""
    group_size: int = Field(8, ge=2)
    """Episodes of each task in a step, the siblings that are compared; more give a better baseline and take longer."""
    minibatches: int = Field(1, ge=1)
    """Updates of the weights in a step, each on its share of the episodes; with more, later ones are off-policy."""
    filters: tuple[FilterPart, ...] = Field(default_factory=lambda: (FilterPart.load("varied"),))
    """Which of the played episodes are learned from; what a filter refuses is dropped and counted."""
    checkpoint_every: int = Field(1, ge=1)
    """Steps between checkpoints; a run that was killed goes on from the last one."""

    @field_validator("filters")
    @classmethod
    def _once(cls, filters: tuple[FilterPart, ...]) -> tuple[FilterPart, ...]:
        names = [part.type for part in filters]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"the filter '{twice}' stands twice; its drops could not be told apart")
        return filters

    @property
    def filters_by_name(self) -> dict[str, FilterPart]:
        """The filters in their order, by the name under which drops are counted."""
        return {part.type: part for part in self.filters}


class EvalSection(Section):
    """Evaluation without help, before and after training."""

    splits: tuple[str, ...] = ("heldout",)
    """Splits of the environment's tasks that are evaluated."""
    tasks: int = Field(200, ge=1)
    """Tasks of each split; more narrow the confidence intervals and take longer."""
    samples: int = Field(1, ge=1)
    """Episodes per task at the training temperature; greedy plays each task once."""


class Config(Section):
    """Everything that defines a run."""

    name: str = "run"
    """Name of the run, and of its folder inside ``folder``: letters, digits, ".", "_" and "-", beginning with a
    letter, a digit or "_"."""
    folder: Path = Path("runs")
    """Folder in which runs are kept."""
    seed: int = Field(0, ge=0)
    """Everything random derives from it: the same seed and settings repeat a run, another seed shows how much is
    luck."""
    model: str | TinyModel = TinyModel()
    """The model that is trained: a name on the Hugging Face hub, a local folder, or a table for a tiny new one."""
    env: Annotated[tuple[EnvSection, ...], BeforeValidator(_as_list), Field(min_length=1)] = (EnvSection(),)
    """What is played. Write [[env]] several times to train on several environments at once."""
    warm_start: WarmStart | None = None
    policy: PolicyPart = LocalPolicyPart()
    """What plays the episodes: where the model is decoded, and how its tokens are sampled."""
    learner: LearnerPart = TorchLearnerPart()
    """What updates the weights of the model: where, and by which optimizer."""
    credit: CreditRule = Field(default_factory=lambda: CreditRule.load("grpo"))
    """The rule that turns payments into credit: one number per turn, by which training makes the turn more likely, or
    less if it is negative. Siblings are the episodes of one task in a step; most rules compare them."""
    value: ValueSection | None = None
    reward_model: RewardModelSection | None = None
    signals: SignalsSection = SignalsSection()
    loss: LossSettings = LossSettings()
    guide: GuidePart = NoGuidePart()
    """What hints the model gets on which task in training. Only "none" ships yet; package.module:Class names your
    own."""
    examine: tuple[Examiner, ...] = ()
    """What examines episodes after they were played and before they are scored, and records facts for the rubric:
    judges, votes, probes …"""
    sink: tuple[SinkPart, ...] = (ConsoleLines(),)
    """Where the metrics of each step go besides metrics.jsonl. The one thing that may change when a run goes on."""
    train: TrainSection = TrainSection()
    eval: EvalSection = EvalSection()
    controls: tuple[Literal["shuffled_credit", "random_reward"], ...] = ()
    """Also train from the same warm start with credit shuffled among turns or with random rewards. A run that is not
    clearly better than these controls learned nothing from its rewards."""
    control_steps: int | None = Field(None, ge=1)
    """Updates of each control; leave out for as many as train.steps."""

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
            raise ValueError(
                "names no folder inside of 'folder'; use letters, digits, '.', '_' and '-', and begin with a "
                "letter, a digit or '_'"
            )
        return name

    @model_validator(mode="before")
    @classmethod
    def _with_models_of_the_rule(cls, data: Any) -> Any:
        """A rule with a critic or an implicit reward model gets one by default, so that the tree says how it learns.

        A critic that saw only groups whose siblings differ would not know what is easy and what is hopeless, so no
        filter is its default.
        """
        if not isinstance(data, Mapping):
            return data
        name, has_critic = _rule_of(data)
        train, added = data.get("train", {}), dict[str, Any]()
        if has_critic and data.get("value") is None:
            added["value"] = {}
        if has_critic and isinstance(train, Mapping) and "filters" not in train:
            added["train"] = {**train, "filters": ()}
        if name in REWARD_MODELS and data.get("reward_model") is None:
            added["reward_model"] = {}
        return {**data, **added}

    @model_validator(mode="after")
    def _read_by_the_rule(self) -> Self:
        """A rule needs columns that this run fills, and whatever it does not read would have no effect."""
        name = self.credit.type
        try:
            reads = self.columns
        except ConfigError as error:
            raise ConfigError(f"credit: {error}") from None
        if self.value is not None and not reads & VALUES:
            raise ValueError(f"value has no effect: credit '{name}' reads no values; {', '.join(VALUE_TARGETS)} do")
        if self.reward_model is not None and name not in REWARD_MODELS:
            known = ", ".join(REWARD_MODELS)
            raise ValueError(f"reward_model has no effect: credit '{name}' reads no rewards of a model; {known} do")
        self.signals.check_effect(reads, self.credit)
        return self

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the credit rule reads beyond payments. Raises ConfigError for one that nobody fills."""
        return self.columns_given(None)

    def columns_given(self, components: Iterable[str] | None) -> frozenset[str]:
        """The same where the rubric has these components."""
        offered = self.signals.offered
        if self.value is None:
            offered = offered - CRITIC_COLUMNS | frozenset(self.signals.evidence)
        return self.credit.reads(offered, siblings=self.train.group_size, components=components)

    @model_validator(mode="after")
    def _environments(self) -> Self:
        labels = [env.label for env in self.env]
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise ValueError(f"two environments are called '{twice}'; give one of them a name of its own (env.name)")
        if len(self.env) == 1 and self.env[0].weight != 1:
            raise ValueError("env.weight has no effect on a single environment; leave it out")
        if len(self.env) > 1 and any(env.together > 1 for env in self.env):
            raise ValueError("env.together needs a run of one environment")
        if len(self.env) > self.train.tasks_per_step:
            raise ValueError(
                f"{len(self.env)} environments need train.tasks_per_step of at least as many, found "
                f"{self.train.tasks_per_step}"
            )
        return self

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if isinstance(self.model, TinyModel) and self.warm_start is None and self.policy.trainable:
            raise ValueError("a tiny model starts from random weights and its tokenizer from text; add [warm_start]")
        if isinstance(self.model, TinyModel) and self.policy.top_k >= self.model.vocabulary:
            raise ValueError(
                f"policy.top_k {self.policy.top_k} has no effect: the vocabulary has {self.model.vocabulary} entries"
            )
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


def modules_of(value: object) -> set[str]:
    """The modules, turngate's own left out, that define the parts in ``value``: a config, or anything in one."""
    if isinstance(value, Mapping):
        return set().union(*map(modules_of, value.values()))
    if isinstance(value, tuple | list):
        return set().union(*map(modules_of, value))
    if not isinstance(value, BaseModel):
        return set()
    module = type(value).__module__
    own = module.partition(".")[0] == "turngate" or not isinstance(value, Part)
    return modules_of([getattr(value, name) for name in type(value).model_fields]) | (set() if own else {module})


def import_modules(run: RunFolder) -> list[str]:
    """Import what defines the parts of a run on disk; what is wrong with each module that cannot be imported.

    A part may be known by a name that only its own module brings, such as ``type = "mine"`` in a rubric.
    """
    load_plugins()
    row = read_json(run.machine) if run.machine.exists() else None
    names = row.get("modules", []) if isinstance(row, Mapping) else []
    problems = []
    for name in names if isinstance(names, list) else []:
        try:
            import_module(str(name))
        except UserError as error:
            problems.append(str(error))
    return problems


def load_run(run: RunFolder) -> Config:
    """The settings of a run on disk, with everything imported that it is made of. Raises ConfigError, DataError."""
    problems = import_modules(run)
    try:
        return load(run.config)
    except UserError as error:
        if problems:
            raise ConfigError(f"{error}; of the modules that the run was made with, {'; '.join(problems)}") from error
        raise


def parse(data: Mapping[str, object]) -> Config:
    """Validate a tree of plain values. Raises ConfigError with one line."""
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(one_line(error, Config, data)) from None


def dump(config: Config) -> str:
    """The resolved tree as TOML."""
    return tomli_w.dumps(_without_none(config.model_dump(mode="json")))


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.removeprefix("--").partition("=")
    if not override.startswith("--") or not equals:
        raise ConfigError(f"'{override}' is not an override; write --section.key=value")
    *sections, leaf = key.split(".")
    place: Any = data
    for section in sections:
        place = _inside(place, section, override)
        if not isinstance(place, dict | list):
            raise ConfigError(f"'{override}': '{section}' is a value, not a section")
    if isinstance(place, list):
        place = _only(place, override)
    try:
        place[leaf] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        place[leaf] = text  # a bare word is text


def _inside(place: Any, section: str, override: str) -> Any:
    """The table called ``section``; in a list of tables its number, or the name of a key of the only one."""
    if isinstance(place, list):
        if section.isdigit() and int(section) < len(place):
            return place[int(section)]
        place = _only(place, override)
    return place.setdefault(section, {})


def _only(tables: list[Any], override: str) -> Any:
    if len(tables) != 1:
        raise ConfigError(
            f"'{override}': there are {len(tables)} such tables; write their number, from 0, after the name"
        )
    return tables[0]


def _rule_of(data: Mapping[str, object]) -> tuple[str, bool]:
    """Name of the credit rule in a tree that is not validated yet, and whether it reads a critic's values."""
    try:
        rule = CreditRule.load(data["credit"])
    except (KeyError, ValueError):  # told by validation, with its key
        return "", False
    signals = data.get("signals")
    evidence = signals.get("evidence", {}) if isinstance(signals, Mapping) else {}
    try:
        return rule.type, bool(VALUES & rule.reads(MODEL_COLUMNS | ENTROPY_COLUMNS | set(evidence)))
    except ConfigError:
        return rule.type, False


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def parse_table(name: str, text: str) -> dict[str, JSON]:
    """A TOML inline table given on the command line. Raises ConfigError."""
    try:
        table = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} '{text}' is not a TOML inline table such as {{rows = 12}}: {error}") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{name} '{text}' is not a table; write {{key = value}}")
    return table
