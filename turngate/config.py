"""The settings of a run: one frozen tree, read from TOML and ``--section.key=value``, validated once.

The tree is made of sections (``turngate.sections``), whose keys are fixed, and of parts (``turngate.parts``), each of
which defines its own keys. An unknown key is an error that names the closest known one; so is a setting that would have
no effect. The rest of the program is given values, never this tree. Reading a config imports no torch.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, field_validator, model_validator

from turngate.agents.policies.parts import LocalPolicyPart, PolicyPart
from turngate.envs.registry import load_plugins
from turngate.errors import ConfigError, DataError, UserError
from turngate.examine.base import Examiner
from turngate.jsonl import read_json
from turngate.parts import Part, import_module
from turngate.problems import one_line
from turngate.runs import RunFolder
from turngate.sections import Baselines, EnvSection, EvalSection, Section, TinyModel, TrainSection, WarmStart
from turngate.sinks import ConsoleLines, SinkPart
from turngate.trainer.aside import AsidePart, check_asides
from turngate.trainer.branching import BranchingPart
from turngate.trainer.branching.fitting import check_branching, fills_values
from turngate.trainer.credit import VALUE_TARGETS
from turngate.trainer.credit.control import check_controls
from turngate.trainer.credit.implicit import REWARD_MODELS
from turngate.trainer.credit.rule import VALUES, CreditRule
from turngate.trainer.curriculum import CurriculumPart, InOrderPart
from turngate.trainer.guidance import GuidePart, MemoryGuidePart, NoGuidePart
from turngate.trainer.learner import NO_CRITIC, LearnerPart, TorchLearnerPart
from turngate.trainer.loss import LossSettings
from turngate.trainer.older_weights import check_ahead, with_correction
from turngate.trainer.signals.settings import (
    CRITIC_COLUMNS,
    ENTROPY_COLUMNS,
    MODEL_COLUMNS,
    RewardModelSection,
    SignalsSection,
    ValueSection,
)
from turngate.types import JSON


def _as_list(data: Any) -> Any:
    return [data] if isinstance(data, Mapping) else data


class Config(Section):
    """Everything that defines a run."""

    name: str = "run"
    """Name of the run, and of its folder inside ``folder``: letters, digits, ".", "_" and "-", beginning with a
    letter, a digit or "_"."""
    folder: Path = Path("runs")
    """Folder in which runs are kept."""
    seed: int = Field(0, ge=0)
    """Seed from which every random number of the run is derived: the same seed and settings repeat a run, another seed
    shows how much of a result is luck."""
    model: str | TinyModel = TinyModel()
    """The model that is trained: a name on the Hugging Face hub, a local folder, or a table for a tiny new one."""
    env: Annotated[tuple[EnvSection, ...], BeforeValidator(_as_list), Field(min_length=1)] = (EnvSection(),)
    """The environment that is played. Write [[env]] several times to train on several at once."""
    warm_start: WarmStart | None = None
    policy: PolicyPart = LocalPolicyPart()
    """The policy, which plays the episodes: where the model is decoded, and how its tokens are sampled."""
    learner: LearnerPart = TorchLearnerPart()
    """The learner, which updates the weights of the model: where it computes, and by which optimizer."""
    credit: CreditRule = Field(default_factory=lambda: CreditRule.load("grpo"))
    """The rule that turns payments into credit: one number per turn. Training makes a turn more likely where its credit
    is positive, and less likely where it is negative. Most rules compare siblings, the episodes of one task in a
    step."""
    value: ValueSection | None = None
    reward_model: RewardModelSection | None = None
    signals: SignalsSection = SignalsSection()
    loss: LossSettings = LossSettings()
    guide: GuidePart = NoGuidePart()
    """The guide, which decides which episodes get which help in training, and whether a task is played on in further
    waves. Evaluation never uses it. package.module:Class names your own."""
    branching: BranchingPart | None = None
    """Where episodes branch off others of their task, so that siblings share turns (arpo, cure, eptree, mc_values,
    portool, prover, rise, tree_grpo, tree_rpo). A task still has train.group_size episodes; with a guide, those of each
    wave with the same help branch off each other. Leave it out to play every episode from the first turn on."""
    aside: tuple[AsidePart, ...] = ()
    """What is learned beside the episodes of each step, by imitation or from a teacher: [[aside]] tables, for instance
    {type = "relift"}."""
    examine: tuple[Examiner, ...] = ()
    """Examiners, which look at episodes after they were played and before they are scored, and record facts that the
    rubric reads: judges, votes, probes …"""
    curriculum: CurriculumPart = InOrderPart()
    """The curriculum, which decides which tasks are played: in their order, or by the results so far."""
    sink: tuple[SinkPart, ...] = (ConsoleLines(),)
    """Where the metrics of each step are sent besides metrics.jsonl. It is the only setting that may be changed when a
    run goes on."""
    train: TrainSection = TrainSection()
    eval: EvalSection = EvalSection()
    baselines: Baselines | None = None
    controls: tuple[Literal["shuffled_credit", "shuffled_reward", "random_reward"], ...] = ()
    """Negative controls: the run is repeated from the same warm start, with the credit of each episode given to another
    one (shuffled_credit), with the rewards of each episode paid to another one before credit is computed
    (shuffled_reward), or with rewards from the toss of a coin (random_reward). A run that is not clearly better than
    its controls learned nothing from its rewards. They are made after the run, beside it with train --jobs 2. Guides
    and asides, which choose or learn by true results, are refused; a curriculum still chooses tasks by true results."""
    control_steps: int | None = Field(None, ge=1)
    """Training steps of each control; leave out for as many as train.steps."""

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
            raise ValueError(
                "cannot be the name of a folder; use letters, digits, '.', '_' and '-', and begin with a letter, a "
                "digit or '_'"
            )
        return name

    @model_validator(mode="before")
    @classmethod
    def _with_models_of_the_rule(cls, data: Any) -> Any:
        """A rule with a critic or an implicit reward model gets its section by default, so that the tree shows it.

        With a critic the default is no filter: one that saw only groups whose siblings differ would never see tasks
        that are always solved or never.
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

    @model_validator(mode="before")
    @classmethod
    def _with_a_correction(cls, data: Any) -> Any:
        """A run whose episodes are sampled by older weights corrects for them, unless it says otherwise."""
        train = data.get("train") if isinstance(data, Mapping) else None
        ahead = train.get("ahead") if isinstance(train, Mapping) else getattr(train, "ahead", 0)
        return {**data, "loss": with_correction(data.get("loss", {}))} if ahead else data

    @model_validator(mode="after")
    def _read_by_the_rule(self) -> Self:
        """Refuse a rule that needs columns which this run does not fill, and sections that the rule does not read."""
        name = self.credit.type
        try:
            reads = self.columns
        except ConfigError as error:
            raise ConfigError(f"credit: {error}") from None
        if self.value is not None and not reads & VALUES:
            raise ValueError(f"value has no effect: credit '{name}' uses no critic; {', '.join(VALUE_TARGETS)} do")
        if self.value is not None and not self.learner.has_critic:
            raise ValueError(f"learner.type '{self.learner.type}' {NO_CRITIC}, unlike '{name}'")
        if self.reward_model is not None and name not in REWARD_MODELS:
            known = ", ".join(REWARD_MODELS)
            raise ValueError(f"reward_model has no effect: credit '{name}' uses no reward model; {known} do")
        self.signals.check_effect(reads, self.credit)
        per_token = any(column.endswith("_S") for column in reads)
        self.loss.check_effect(strips=self.guide.strips, experts=self.guide.experts, per_token=per_token)
        if self.branching is not None:
            size, critic, guide = self.train.group_size, self.value is not None, self.guide
            check_branching(self.branching, size, name, reads, critic=critic, guide=guide.type, retries=guide.branches)
        return self

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the credit rule reads beyond payments. Raises ConfigError for one that nothing fills."""
        return self.columns_given(None)

    def columns_given(self, components: Iterable[str] | None) -> frozenset[str]:
        """``columns`` for a rubric with these components; None: any components."""
        offered, trees = self.signals.offered, self.branching
        if self.value is None:
            offered = offered - CRITIC_COLUMNS | frozenset(self.signals.evidence)
        if trees is not None:
            offered |= trees.fills
        branching = self.guide.branches or (trees is not None and trees.shares)
        return self.credit.reads(offered, siblings=self.train.group_size, components=components, branching=branching)

    @model_validator(mode="after")
    def _environments(self) -> Self:
        labels = [env.label for env in self.env]
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise ValueError(f"two environments are called '{twice}'; give one of them a name of its own (env.name)")
        if len(self.env) == 1 and self.env[0].weight != 1:
            raise ValueError("env.weight has no effect in a run of one environment; leave it out")
        if len(self.env) > 1 and any(env.together > 1 for env in self.env):
            raise ValueError("env.together needs a run of one environment")
        if self.train.refill is not None and any(env.together > 1 for env in self.env):
            raise ValueError("train.refill needs env.together = 1, as it plays single further tasks; leave one out")
        if len(self.env) > self.train.tasks_per_step:
            raise ValueError(
                f"{len(self.env)} environments need train.tasks_per_step of at least as many, found "
                f"{self.train.tasks_per_step}"
            )
        return self

    @model_validator(mode="after")
    def _whole(self) -> Self:
        self.guide.check(self.train.group_size)
        lora: Any = getattr(self.learner, "lora", None)
        self.policy.check_adapters(None if lora is None else lora.rank)
        if isinstance(self.model, TinyModel) and self.warm_start is None and self.policy.trainable:
            raise ValueError(
                "a tiny new model has random weights, and its tokenizer is trained on the warm start; add [warm_start] "
                "or name a model"
            )
        if isinstance(self.model, TinyModel) and self.policy.top_k >= self.model.vocabulary:
            raise ValueError(
                f"policy.top_k {self.policy.top_k} has no effect: the vocabulary has {self.model.vocabulary} entries"
            )
        if self.eval.memory and not self.train.steps:
            raise ValueError("eval.memory has no effect with train.steps = 0; leave it out")
        if self.eval.memory and not isinstance(self.guide, MemoryGuidePart):
            raise ValueError(
                f"eval.memory has no effect: guide '{self.guide.type}' keeps no memory; guide 'memory' does"
            )
        if self.train.ahead:
            by_oracle = "gain_N" in self.columns and self.signals.answer is None
            check_ahead(self.train.steps, learner=self.learner.type, examine=self.examine, by_oracle=by_oracle)
        check_asides(self.aside, guide=self.guide.type, learner=self.learner.type, steps=self.train.steps)
        if self.controls and not self.train.steps:
            raise ValueError("controls have no effect with train.steps = 0; leave them out")
        check_controls(self.controls, guide=self.guide.type, asides=[part.type for part in self.aside])
        if self.control_steps is not None and not self.controls:
            raise ValueError("control_steps has no effect without controls; leave it out")
        validation = self.train.validation
        if validation is not None and self.learner.type == "frozen":
            raise ValueError(
                "train.validation has no effect: the frozen learner's weights stay as they are; leave it out"
            )
        if validation is not None and self.control_steps is not None and self.control_steps <= validation.every:
            raise ValueError(
                f"control_steps = {self.control_steps} is not more than train.validation.every = {validation.every}, "
                "so a control could not choose a step as the run does; raise control_steps, or lower every"
            )
        return self

    @model_validator(mode="after")
    def _more_demonstrations(self) -> Self:
        if self.baselines is None:
            return self
        own = None if self.warm_start is None else self.warm_start.episodes
        if own is None:
            raise ValueError(
                "baselines needs warm_start.episodes, the number of the oracle's demonstrations that the run itself "
                "imitates; set it, or leave [baselines] out"
            )
        least = self.baselines.demonstrations[0]
        if least <= own:
            raise ValueError(
                f"baselines.demonstrations: {least} is not more than warm_start.episodes = {own}, which the run itself "
                "imitates; name larger numbers"
            )
        return self


def load(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file, apply ``--section.key=value`` and validate. Raises ConfigError, DataError."""
    try:
        data = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"no config file '{path}'") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(path, str(error)) from error
    return parse_with(data, overrides)


def parse_with(data: dict[str, object], overrides: Sequence[str]) -> Config:
    """``parse`` after each ``--section.key=value`` is set in ``data``."""
    for override in overrides:
        _apply(data, override)
    return parse(data)


def modules_of(value: object) -> set[str]:
    """The modules that define the parts in ``value`` (a config, or anything in one), without turngate's own."""
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
    """Import the modules that define the parts of a run on disk; returns a line for each that cannot be imported.

    They have to be imported first because a config may name a part by a short name, such as ``type = "mine"``, which is
    known only once its module was imported.
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
    """The settings of a run on disk, after importing the modules of its parts. Raises ConfigError, DataError."""
    problems = import_modules(run)
    try:
        return load(run.config)
    except UserError as error:
        if problems:
            raise ConfigError(f"{error}; of the modules that the run was made with, {'; '.join(problems)}") from error
        raise


def parse(data: Mapping[str, object]) -> Config:
    """Validate a tree of plain values, as TOML gives it. Raises ConfigError with a message of one line."""
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(one_line(error, Config, data)) from None


def dump(config: Config) -> str:
    """The whole tree as TOML, with every default filled in."""
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
            f"'{override}': there are {len(tables)} such tables; write the number of one, from 0, after the name, as "
            "in --env.0.weight=2"
        )
    return tables[0]


def _rule_of(data: Mapping[str, object]) -> tuple[str, bool]:
    """Name of the credit rule in a tree that is not validated yet, and whether it reads a critic's values."""
    try:
        rule = CreditRule.load(data["credit"])
    except (KeyError, ValueError):  # validation reports it, with its key
        return "", False
    signals = data.get("signals")
    evidence = signals.get("evidence", {}) if isinstance(signals, Mapping) else {}
    try:
        reads = rule.reads(MODEL_COLUMNS | ENTROPY_COLUMNS | set(evidence))
        return rule.type, bool(VALUES & reads) and not fills_values(data)
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
