"""The settings of a run: one frozen tree, read from TOML and ``--section.key=value``, validated once.

The tree is made of sections (``turngate.config.sections``), whose keys are fixed, and of parts (``turngate.parts``),
each of which defines its own keys. An unknown key is an error that names the closest known one; so is a setting that
would have no effect. The rest of the program gets values, never this tree. Reading a config imports no torch.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, field_validator, model_validator

from turngate.agents.policies.parts import LocalPolicyPart, PolicyPart
from turngate.config.overlays import KEY, MergedMethod, merge_methods, names_in, refusal, with_names
from turngate.config.part_checks import check_parts
from turngate.config.sections import (
    Baselines,
    EnvSection,
    EvalSection,
    Section,
    TinyModel,
    TrainSection,
    WarmStart,
)
from turngate.config.stages import StageRun, StageSection, check_stages, unfold_stages, with_settings
from turngate.envs.pool.cluster_parts import ClusterPart
from turngate.envs.registry import load_plugins
from turngate.errors import ConfigError, DataError, UserError
from turngate.jsonl import read_json, toml_of
from turngate.judges.examiners.base import Examiner
from turngate.methods.overlay import PART_KEYS
from turngate.parts import TRUST, Part, UntrustedCode, import_module, importing_nothing
from turngate.problems import one_line
from turngate.sinks import ConsoleLines, SinkPart
from turngate.store.folder import RunFolder
from turngate.trainer.auxiliary.base import AuxiliaryPart
from turngate.trainer.branching.base import BranchingPart
from turngate.trainer.branching.fitting import fills_values
from turngate.trainer.credit.control import check_controls
from turngate.trainer.credit.implicit import REWARD_MODELS
from turngate.trainer.credit.rule import VALUES, CreditRule
from turngate.trainer.curriculum.base import CurriculumPart
from turngate.trainer.curriculum.task_order import InOrderPart
from turngate.trainer.filters.parts import Filter
from turngate.trainer.guidance.base import GuidePart, NoGuidePart
from turngate.trainer.guidance.experience import MemoryGuidePart
from turngate.trainer.learner import (
    ADAPTER_LR,
    NEW_MODEL_LR,
    NO_CRITIC,
    PRETRAINED_LR,
    LearnerPart,
    TorchLearnerPart,
)
from turngate.trainer.loss.settings import LossSettings
from turngate.trainer.loss.staleness import check_ahead, with_correction
from turngate.trainer.offline.source_checks import check_sync
from turngate.trainer.offline.sources import EpisodesPart, PlayedPart
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
    """Folder in which runs are kept, or an address in a store, for instance s3://bucket/runs (extra storage)."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Seed from which every random number of the run is derived: the same seed and settings repeat a run, another seed
    shows how much of a result is luck."""
    method: tuple[MergedMethod, ...] = ()
    """Published methods, by name, for instance "gigpo" or ["gigpo", "gspo"]: their settings are merged into the others,
    and this key becomes the list of what was merged. turngate methods lists them; docs/methods.md."""
    model: str | TinyModel = TinyModel()
    """The model that is trained: a name on the Hugging Face hub, a local folder, or a table for a tiny new one."""
    env: Annotated[tuple[EnvSection, ...], BeforeValidator(_as_list), Field(min_length=1)] = (EnvSection(),)
    """The environment that is played. Write [[env]] several times to train on several at once."""
    cluster: ClusterPart | None = None
    """The cluster of machines (ray) that plays the environments and computes for learner.type = "fsdp"; left out: this
    machine. train --on ADDRESS sets it. It may be changed when a run goes on, and changes none of its numbers but by
    rounding, with another number of processes of the learner."""
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
    auxiliary: tuple[AuxiliaryPart, ...] = ()
    """Auxiliary losses, which are learned beside the episodes of each step, by imitation or from a teacher:
    [[auxiliary]] tables, for instance {type = "relift"}."""
    episodes: EpisodesPart = PlayedPart()
    """Where the episodes of a step come from: played by the policy (played), recorded by earlier runs (stored), or some
    of both (mixed); docs/offline.md."""
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
    its controls learned nothing from its rewards. They take as many steps as the run and are made after it, or beside
    it with train --jobs 2. Guides and auxiliary losses, which choose or learn by true results, are refused; a
    curriculum still chooses tasks by true results."""
    stages: tuple[StageSection, ...] = ()
    """Stages, each a run of its own that begins with the model of the one before: [[stages]] tables with the settings
    of a stage that differ from the rest of the file. The same command goes on in the stage where it was;
    docs/offline.md."""
    rounds: int = Field(1, ge=1)
    """How often the stages are gone through, for instance to collect and imitate again and again. It can be raised when
    a run goes on."""

    @field_validator("model")
    @classmethod
    def _in_the_home_folder(cls, model: str | TinyModel) -> str | TinyModel:
        return expanduser(model) if isinstance(model, str) else model

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
        that are always solved or never. Nor is there one where the rule imitates and does not compare siblings.
        """
        if not isinstance(data, Mapping):
            return data
        name, has_critic, imitates = _rule_of(data)
        train, added = data.get("train", {}), dict[str, Any]()
        if has_critic and data.get("value") is None:
            added["value"] = {}
        if (has_critic or imitates or _is_off(data)) and isinstance(train, Mapping) and "filters" not in train:
            added["train"] = {**train, "filters": ()}
        if name in REWARD_MODELS and data.get("reward_model") is None:
            added["reward_model"] = {}
        return {**data, **added}

    @model_validator(mode="before")
    @classmethod
    def _with_a_correction(cls, data: Any) -> Any:
        """A run whose episodes are sampled by older weights gets a correction by default."""
        train = data.get("train") if isinstance(data, Mapping) else None
        ahead = train.get("ahead") if isinstance(train, Mapping) else getattr(train, "ahead", 0)
        return {**data, "loss": with_correction(data.get("loss", {}))} if ahead else data

    @model_validator(mode="before")
    @classmethod
    def _with_stages(cls, data: Any) -> Any:
        """Each stage gets its settings. This validator is the last one here, so it runs first: on the file as written,
        without the additions of the other two for its rule and loss, which a stage may not have."""
        return with_settings(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _read_by_the_rule(self) -> Self:
        """Refuse a rule that needs columns which this run does not fill, and sections that the rule does not read."""
        name = self.credit.type
        try:
            reads = self.columns
        except ConfigError as error:
            raise ConfigError(f"credit: {error}") from None
        if self.value is not None and not reads & VALUES:
            critics = ", ".join(CreditRule.with_critic())
            raise ValueError(f"value has no effect: credit '{name}' uses no critic; {critics} do")
        if self.value is not None and not self.learner.has_critic:
            raise ValueError(f"learner.type '{self.learner.type}' {NO_CRITIC}, unlike '{name}'")
        if self.reward_model is not None and name not in REWARD_MODELS:
            known = ", ".join(REWARD_MODELS)
            raise ValueError(f"reward_model has no effect: credit '{name}' uses no reward model; {known} do")
        if self.reward_model is not None and not (self.reward_model.fitted or REWARD_MODELS[name][0]):
            raise ValueError(
                f"credit '{name}' needs a scorer that was fitted before, and reward_model.model is "
                f"'{self.reward_model.model}'; name a model's folder, or in a stage an earlier one, as stage:NAME"
            )
        self.signals.check_effect(reads, self.credit)
        per_token = any(column.endswith("_S") for column in reads)
        strips, replays = self.guide.strips or not self.episodes.plays, self.episodes.reads
        self.loss.check_effect(strips=strips, experts=self.guide.experts, per_token=per_token, replays=replays)
        return self

    @property
    def eval_temperature(self) -> float:
        """The temperature of sampled evaluation and of validation."""
        return self.policy.temperature if self.eval.temperature is None else self.eval.temperature

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the credit rule reads beyond payments. Raises ConfigError for one that nothing fills."""
        return self.columns_given(None)

    def columns_given(self, components: Iterable[str] | None) -> frozenset[str]:
        """``columns`` for a rubric with these components; None: any components."""
        branching = self.guide.branches or (self.branching is not None and self.branching.shares)
        return self.credit.reads(
            self._offered, siblings=self.train.group_size, components=components, branching=branching
        )

    @property
    def _offered(self) -> frozenset[str]:
        """The columns that this run can fill beside those that ``tabulate`` always fills."""
        offered = self.signals.offered
        if self.value is None:
            offered = offered - CRITIC_COLUMNS | frozenset(self.signals.evidence)
        return offered if self.branching is None else offered | self.branching.fills

    def learns_from_one_tree(self) -> bool:
        """Whether the credit rule gives credit to a first turn that all siblings share."""
        return self.credit.learns_from_one_tree(self._offered, siblings=self.train.group_size)

    @property
    def imitates_adapters(self) -> bool:
        """Whether a warm start trains adapters: where the learner does, but for a new model, whose random weights hold
        nothing that adapters could build on."""
        return self.adapter_rank is not None and not isinstance(self.model, TinyModel)

    @property
    def imitation_lr(self) -> float:
        """The learning rate of a warm start that names none."""
        if isinstance(self.model, TinyModel):
            return NEW_MODEL_LR
        return ADAPTER_LR if self.imitates_adapters else PRETRAINED_LR

    @property
    def adapter_rank(self) -> int | None:
        """The rank of the adapters that the learner trains; None = it trains the weights themselves."""
        lora: Any = getattr(self.learner, "lora", None)
        return None if lora is None else int(lora.rank)

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
    def _fits_its_parts(self) -> Self:
        check_parts(self)
        return self

    @model_validator(mode="after")
    def _whole(self) -> Self:
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
            check_ahead(self.train.steps, by_oracle=by_oracle)
        adapters = self.adapter_rank is not None
        check_sync(self.train, plays=self.episodes.plays, adapters=adapters, policy=self.policy.type)
        kinds = [part.type for part in self.auxiliary]
        if twice := next((kind for kind in kinds if kinds.count(kind) > 1), None):
            raise ValueError(
                f"auxiliary loss '{twice}' is listed twice, so its metrics could not be told apart; keep one"
            )
        if kinds and not self.train.steps:
            raise ValueError("an auxiliary loss has no effect with train.steps = 0; leave it out")
        if self.controls and not self.train.steps:
            raise ValueError("controls have no effect with train.steps = 0; leave them out")
        check_controls(self.controls, guide=self.guide.type, auxiliary=kinds)
        return self

    @model_validator(mode="after")
    def _of_stages(self) -> Self:
        check_stages(self.stages, self.rounds)
        if self.stages and (self.baselines or self.controls):
            raise ValueError("baselines and controls do not go with stages; leave them out")
        for stage in list(self.unfolded())[
            : 2 * len(self.stages)
        ]:  # later rounds differ from the second in names alone
            try:
                parse(stage.tree)
            except ConfigError as error:
                raise ConfigError(f"stages[{stage.place}] ('{stage.name}'): {error}") from error
        return self

    def unfolded(self) -> Iterator[StageRun]:
        """The stages of all rounds, with the settings of each; none for a run without stages."""
        shared = self.model_dump(mode="json", include={"model", "warm_start", "sink"}, exclude_none=True)
        yield from unfold_stages(
            RunFolder(self.folder / self.name), self.stages, rounds=self.rounds, seed=self.seed, shared=shared
        )

    @property
    def filters(self) -> Mapping[str, Filter]:
        """The filters of a training step by their names; without a policy loss, one that keeps nothing."""
        return {"learned": lambda group: False} if self.loss.is_off else self.train.filters_by_name

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
        data = toml_of(path.read_text(encoding="utf-8-sig"))  # some editors begin a file with a byte-order mark
    except FileNotFoundError:
        raise ConfigError(f"no config file '{path}'") from None
    except UnicodeDecodeError as error:
        raise DataError(path, f"is not UTF-8 text (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(path, str(error)) from error
    return parse_with(data, overrides)


def parse_with(data: dict[str, object], overrides: Sequence[str]) -> Config:
    """``parse`` after each ``--section.key=value`` is set in ``data``: first the method, whose settings the others can
    change. A part that is replaced as a whole contradicts no method."""
    chosen = [override for override in overrides if override.startswith(f"--{KEY}=")]
    for override in chosen:
        _apply(data, override)
    for key in PART_KEYS & {override.removeprefix("--").partition("=")[0] for override in overrides}:
        data.pop(key, None)
    data = with_names(data)
    for override in overrides:
        if override not in chosen:
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


class _Trust:
    """Whether code that recorded runs name is imported where they are read."""

    given = True


@contextmanager
def reading_runs(*, trust: bool) -> Iterator[None]:
    """Inside, no module that a recorded run names is imported, unless ``trust``: looking at a run executes no code."""
    before, _Trust.given = _Trust.given, trust
    try:
        yield
    finally:
        _Trust.given = before


def only_trusted() -> AbstractContextManager[None]:
    """For code that a recorded run names: refuses to run it inside of ``reading_runs`` without trust."""
    return nullcontext() if _Trust.given else importing_nothing()


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
            with only_trusted():
                import_module(str(name))
        except UserError as error:
            problems.append(str(error))
    return problems


def load_run(run: RunFolder) -> Config:
    """The settings of a run on disk, after importing the modules of its parts, unless ``reading_runs`` forbids it.

    Raises ConfigError, DataError.
    """
    if run.is_imported:
        raise ConfigError(
            f"'{run.path}' was imported from a log, so it has no settings of a run; show, rescore, credit, compare, "
            "ope and data export read it"
        )
    with only_trusted():
        problems = import_modules(run)
        try:
            return load(run.config)
        except UserError as error:
            if isinstance(error, UntrustedCode):
                raise
            if untrusted := next((line for line in problems if line.endswith(TRUST)), ""):
                raise UntrustedCode(untrusted) from error
            if problems:
                told = f"{error}; of the modules that the run was made with, {'; '.join(problems)}"
                raise ConfigError(told) from error
            raise


def parse(data: Mapping[str, object]) -> Config:
    """Validate a tree of plain values, as TOML gives it, with the settings of the methods that it names.

    Raises ConfigError with a message of one line, which names the methods if the config is right without them.
    """
    tree = merge_methods(data)
    try:
        return _validated(tree)
    except ConfigError as error:
        names = names_in(tree)
        if not names or isinstance(error, UntrustedCode) or _is_wrong({**data, KEY: ()}, str(error)):
            raise
        raise ConfigError(refusal(str(error), names)) from error


def _validated(tree: Mapping[str, object]) -> Config:
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(one_line(error, Config, tree)) from None


def _is_wrong(tree: Mapping[str, object], message: str) -> bool:
    try:
        _validated(tree)
    except UserError as error:
        return str(error) == message
    return False


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
        place[leaf] = toml_of(f"value = {text}")["value"]
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


def _rule_of(data: Mapping[str, object]) -> tuple[str, bool, bool]:
    """Name of the credit rule in a tree that is not validated yet; whether it reads a critic's values; and whether it
    does without siblings (``CreditRule.imitates``)."""
    try:
        rule = CreditRule.load(data["credit"])
    except (KeyError, ValueError):  # validation reports it, with its key
        return "", False, False
    signals = data.get("signals")
    evidence = signals.get("evidence", {}) if isinstance(signals, Mapping) else {}
    try:
        reads = rule.reads(MODEL_COLUMNS | ENTROPY_COLUMNS | set(evidence))
        return rule.type, bool(VALUES & reads) and not fills_values(data), rule.imitates
    except ConfigError:
        return rule.type, False, rule.imitates


def _is_off(data: Mapping[str, object]) -> bool:
    loss = data.get("loss")
    objective = loss.get("objective") if isinstance(loss, Mapping) else getattr(loss, "objective", None)
    return "none" in (
        objective,
        objective.get("type") if isinstance(objective, Mapping) else getattr(objective, "type", ""),
    )


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def parse_table(name: str, text: str) -> dict[str, JSON]:
    """A TOML inline table given on the command line. Raises ConfigError."""
    try:
        table = toml_of(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} '{text}' is not a TOML inline table such as {{rows = 12}}: {error}") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{name} '{text}' is not a table; write {{key = value}}")
    return table
