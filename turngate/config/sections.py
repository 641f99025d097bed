"""The sections of a config: tables whose keys are fixed. ``turngate.config.run_config`` puts them and the parts
together.

An unknown key is an error; so is a setting that would have no effect. Importing this module imports no torch.
"""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from turngate.envs.registry import id_alone
from turngate.envs.tasks import TaskSourcePart
from turngate.rubrics import NamedRubric, RubricAdditions
from turngate.trainer.evaluation.validation_steps import Chooser, Kept
from turngate.trainer.filters.parts import FilterPart

Number = TypeVar("Number", int, float)
OneOrMore: TypeAlias = Number | Annotated[tuple[Number, ...], Field(min_length=1)]
"""A number, or a list of numbers that are tried."""


class Section(BaseModel):
    """Base of every section: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EnvSection(Section):
    """The environment that is played. Write ``[[env]]`` several times to train on several at once."""

    id: str = "turngate/Sql-v1"
    """Registered id of the environment, for instance turngate/Sql-v1; ``turngate envs`` lists them. MODULE:ID imports
    the module that registers it first, also one in the current folder: order:acme/Order-v0."""
    name: str = Field("", pattern=r"^[A-Za-z0-9._/-]*$")
    """Name of the environment in metrics and reports; empty: its id. Needed where two entries have the same id."""
    split: str = "train"
    """Split of the tasks that training plays; which splits there are depends on the source of the tasks."""
    kwargs: dict[str, object] = {}
    """Arguments of the environment's constructor, for instance {max_turns = 4}."""
    tasks: TaskSourcePart | None = None
    """Source of the tasks, for instance {type = "spider", folder = "…"}; left out: the environment's own tasks."""
    rubric: NamedRubric | None = None
    """Rubric that pays the episodes: the name of a shipped one (lock, sql, sql_reasoning, code_repair,
    code_repair_direct, search, search_cited, search_path, search_truthful, search_nuggets, tool_use, tool_use_judged,
    bfcl, tau_strict, router, router_window, web, web_judged, web_partial, slides), a JSON or TOML file, a table with
    the keys below, or package.module:NAME. Left out: the environment's own."""
    rubric_adds: RubricAdditions | None = None
    """Rewards and gates that come after those of the rubric, the environment's own included, as a method adds them;
    left out: none."""
    allow_unsafe: bool = False
    """Train although the rubric can pay a worse outcome more than a better one. Without this such a run is refused;
    with it every report of the run says so."""
    weight: float = Field(1.0, gt=0)
    """Share of the tasks of each step, relative to the weights of the other environments: 2 and 1 play 2/3 and 1/3."""
    together: int = Field(1, ge=1)
    """Number of neighbouring tasks that always come in the same step, for instance 2 where every question has two
    wordings that follow each other."""
    isolation: Literal["thread", "process"] = "thread"
    """Where environments run. thread: in threads of the training process, which is faster; process: each in a process
    of its own, which can be killed, for code that may hang or crash."""

    @model_validator(mode="after")
    def _tasks_once(self) -> Self:
        if self.tasks is not None and "tasks" in self.kwargs:
            raise ValueError("tasks are given twice, in env.tasks and in env.kwargs.tasks; keep env.tasks")
        return self

    @property
    def label(self) -> str:
        """Name of the environment in the run: ``name``, or the id (without a module) where that is empty."""
        return self.name or id_alone(self.id)

    @property
    def arguments(self) -> dict[str, object]:
        """Keyword arguments of the environment's constructor."""
        return self.kwargs if self.tasks is None else {**self.kwargs, "tasks": self.tasks.model_dump()}


class TinyModel(Section):
    """A new model: Qwen3's architecture with random weights, and a tokenizer trained on the texts of the warm start."""

    layers: int = Field(4, ge=1, le=256)
    """Number of transformer layers."""
    width: int = Field(192, ge=16, le=16_384)
    """Size of the hidden state; a multiple of ``heads``."""
    heads: int = Field(4, ge=1, le=256)
    """Number of attention heads of each layer."""
    vocabulary: int = Field(2048, ge=260, le=1_000_000)
    """Largest number of entries of the tokenizer's vocabulary."""

    @model_validator(mode="after")
    def _divides(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self

    @property
    def least_weights(self) -> int:
        """Weights that the layers have at least: attention and MLP, without embeddings."""
        return 7 * self.layers * self.width**2


class ValidationTasksSection(Section):
    """Which tasks choose among weights."""

    split: str = "heldout"
    """Split of the validation tasks. Where eval.splits names it too, they are the tasks that follow the evaluated ones,
    so no choice depends on the tasks of the evaluation."""
    tasks: int = Field(100, ge=1)
    """Number of validation tasks of each environment. Each is played once at the temperature of the evaluation and once
    at temperature 0; the mean of the two success rates is compared."""


class Validation(ValidationTasksSection):
    """Validation of the warm start: it goes on until the model stops improving on tasks of their own, then lowers the
    learning rate from the best pass, and keeps the best pass of all."""

    every: int = Field(1, ge=1)
    """Passes between two validations. Raise it where validation takes long."""
    patience: int = Field(10, ge=1)
    """Passes in a row that are no better than the best one before them, after which the learning rate falls to 0, over
    a fifth of the passes that the best one had. Raise it where validation has few tasks or few demonstrations are
    shown, so that one lucky pass does not end the warm start."""

    @model_validator(mode="after")
    def _patient(self) -> Self:
        if self.patience < self.every:
            raise ValueError(
                f"patience = {self.patience} is less than every = {self.every}, so the warm start would end before its "
                "first validation; raise patience, or lower every"
            )
        return self


class StepValidation(ValidationTasksSection):
    """Validation of training: the model plays tasks of their own after its steps, and the weights of the best step are
    kept in best/. The start and the last step are always validated."""

    every: int = Field(10, ge=1)
    """Training steps between two validations. Raise it where validation takes long; a checkpoint is written at each."""
    by: Chooser = "mean"
    """The success rate by which steps are compared: sampled (at policy.temperature), greedy (at temperature 0), or the
    mean of the two. Of equal steps the earliest is the best."""
    keep: Kept = "best"
    """Weights that are evaluated after training and become model/. best: those of the best step; last: those of the
    last one, with the best ones beside them in best/."""


class WarmStart(Section):
    """Supervised fine-tuning on solved episodes, before reinforcement learning."""

    episodes: int | None = Field(None, ge=1, le=10_000_000)
    """Number of episodes to imitate, written by the environment's oracle (its built-in solution of each task); leave
    out when demonstrations are given."""
    demonstrations: Path | None = None
    """File of episodes to imitate instead of the oracle's: JSON lines {"task": ID, "actions": [TEXT, …]}. With "hint":
    TEXT the first observation shows that hint, so the model learns to follow hints."""
    epochs: int = Field(1, ge=1)
    """Passes over all episodes; raise it where the warm-started model hardly solves a task. With validation, the most
    passes before the learning rate falls: a bound in case the model never stops improving. A report says so where it
    was reached."""
    episodes_per_batch: OneOrMore[Annotated[int, Field(ge=1)]] = 64
    """Episodes per optimizer step. A list, such as [8, 32]: each is tried with each lr, and validation chooses."""
    lr: OneOrMore[Annotated[float, Field(gt=0)]] | None = None
    """Peak learning rate of AdamW in the warm start; reinforcement learning has learner.lr. Left out: 1e-3 for a new
    model; for a pretrained one 2e-5, or 2e-4 where adapters are trained. A list, such as [1e-3, 3e-3]: each is tried,
    and validation chooses."""
    validation: Validation | None = None

    def grid(self, lr: float) -> tuple[tuple[float, int], ...]:
        """The pairs of learning rate and episodes per batch that are tried; one without lists. ``lr``: where it is left
        out."""
        return tuple(product(_listed(lr if self.lr is None else self.lr), _listed(self.episodes_per_batch)))

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.episodes is None) == (self.demonstrations is None):
            raise ValueError("give either episodes (from the oracle) or demonstrations (a file)")
        return self

    @model_validator(mode="after")
    def _has_a_choice(self) -> Self:
        if self.validation is not None and self.validation.every >= self.epochs:
            raise ValueError(
                f"validation has no effect: with every = {self.validation.every} and epochs = {self.epochs} only the "
                "last pass is validated, so there is nothing to choose; raise epochs, lower every, or leave it out"
            )
        if self.validation is None and isinstance(self.lr, tuple) | isinstance(self.episodes_per_batch, tuple):
            raise ValueError(
                "a list of learning rates or of episodes_per_batch needs validation, which chooses among them; add "
                "[warm_start.validation], or name one number"
            )
        return self


class Refill(Section):
    """Dynamic sampling: where filters drop the groups of some tasks, a step plays further tasks, until the groups of
    tasks_per_step are left. The curriculum picks them."""

    batches: int = Field(10, ge=2)
    """Most batches of tasks of a step, the first one included. A step that still lacks tasks then is trained on what
    there is, and ``refill/missing_tasks`` says how many it lacks."""


class TrainSection(Section):
    """The reinforcement-learning loop."""

    steps: int = Field(100, ge=0)
    """Number of training steps. Each plays episodes, then updates the weights. 0 = only the warm start, which is
    evaluated once."""
    tasks_per_step: int = Field(16, ge=1, le=100_000)
    """Number of different tasks that are played in a step."""
    group_size: int = Field(8, ge=2, le=100_000)
    """Episodes of each task in a step: the siblings, which are compared with each other. More give a better baseline
    and take longer."""
    minibatches: int = Field(1, ge=1)
    """Updates of the weights in a step, each on its share of the episodes. More learn faster from the same episodes,
    but every update after the first is off-policy: older weights sampled its episodes."""
    validation: StepValidation | None = None
    filters: tuple[FilterPart, ...] = Field(default_factory=lambda: (FilterPart.load("varied"),))
    """Filters that choose which of the played episodes are learned from; what a filter drops is counted."""
    refill: Refill | None = None
    ahead: int = Field(0, ge=0, le=1)
    """Steps that rollouts are ahead of the learner. 0: a step is played, then learned from. 1: while the learner
    updates on one step, the next is played with the weights that are there, so its episodes are one update old
    (policy/age) and loss.correction is "tis" unless it is set. Faster where both take time and neither fills the
    machine alone; docs/asynchrony.md."""
    sync_every: int = Field(1, ge=0)
    """Steps after which the sampler gets the learner's weights. 1: after each step (online); s: after steps s, 2s, …
    (semi-online), so episodes are up to s − 1 steps old; 0: never (offline), so all are played by the first weights.
    After the last step it gets them in any case. Raise it where publishing takes long, or for preference learning."""
    reset_reference: int | None = Field(None, ge=1)
    """Step after which the model that penalties and credit keep the policy near is replaced by the policy as it is then
    (ReMix); left out: it stays the one that training began from. Teachers of auxiliary losses stay as they are. Set it
    where a penalty holds back a policy that has moved far."""
    checkpoint_every: int = Field(1, ge=1)
    """Steps between checkpoints. A run that was killed goes on from its last checkpoint, so a larger number costs more
    repeated steps and saves time on writing."""

    @field_validator("filters")
    @classmethod
    def _once(cls, filters: tuple[FilterPart, ...]) -> tuple[FilterPart, ...]:
        names = [part.type for part in filters]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"the filter '{twice}' is listed twice, so its drops could not be told apart; keep one")
        return filters

    @model_validator(mode="after")
    def _drops_something(self) -> Self:
        if self.refill is not None and not self.filters:
            raise ValueError("refill has no effect without filters, which drop groups; name some, or leave refill out")
        return self

    @model_validator(mode="after")
    def _validates_steps(self) -> Self:
        if self.validation is not None and self.validation.every >= self.steps:
            raise ValueError(
                f"validation has no effect: with every = {self.validation.every} and steps = {self.steps} no step "
                "before the last is validated; lower every, or leave it out"
            )
        return self

    @property
    def filters_by_name(self) -> dict[str, FilterPart]:
        """The filters in their order, by the name under which their drops are counted."""
        return {part.type: part for part in self.filters}


class EvalSection(Section):
    """Evaluation before and after training, in which the model gets no hints."""

    splits: tuple[str, ...] = ("heldout",)
    """Splits of the environment's tasks that are evaluated."""
    tasks: int = Field(200, ge=1)
    """Number of tasks of each split; more tasks narrow the confidence intervals and take longer."""
    samples: int = Field(1, ge=1)
    """Episodes per task in the sampled evaluation. The evaluation at temperature 0 plays each task once."""
    temperature: float | None = Field(None, gt=0)
    """Temperature of the sampled evaluation, and of validation; left out: policy.temperature. Set it where training
    explores at a temperature at which the model would never be used."""
    memory: bool = False
    """Evaluate once more after training, with the experience memory of guide "memory" in the context. The report has it
    apart, as "with memory"; the other evaluations are without help."""


class Baselines(Section):
    """Supervised baselines: after the run, new models imitate more demonstrations and are evaluated like the run."""

    demonstrations: tuple[int, ...] = Field(min_length=1)
    """Numbers of demonstrations by the oracle, ascending, for instance [400, 800, 1600]: a model is made from each, by
    the settings of the warm start. The report says with how many of them supervised learning alone is as good as
    reinforcement learning after warm_start.episodes."""

    @model_validator(mode="after")
    def _ascend(self) -> Self:
        numbers = self.demonstrations
        later = next((b for a, b in pairwise(numbers) if b <= a), None)
        if later is not None:
            raise ValueError(f"demonstrations must ascend, and {later} does not; found {list(numbers)}")
        return self


def _listed(value: Number | tuple[Number, ...]) -> tuple[Number, ...]:
    return value if isinstance(value, tuple) else (value,)
