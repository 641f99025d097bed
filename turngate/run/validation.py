"""Validation: the model plays tasks of their own, and the best pass of a warm start is kept."""

from __future__ import annotations

import copy
import math
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from turngate.agents.chat import Chat
from turngate.agents.policies.base import Weights
from turngate.agents.protocols import LanguageModel
from turngate.agents.rollout import Player, Worlds
from turngate.config.run_config import Config
from turngate.config.sections import Validation, ValidationTasksSection
from turngate.errors import ConfigError, RunError
from turngate.judges.examiners.base import ExamineContext
from turngate.judges.examiners.examining import Examining
from turngate.judges.examiners.facts import recorded_answer
from turngate.progress_bar import Progress
from turngate.run.assembly.learners import reference_of, rounded_for
from turngate.run.assembly.models import kept_weights
from turngate.run.environments import Environments, naming_key
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.evaluate import Evaluation, evaluate
from turngate.trainer.evaluation.overlap import question_of
from turngate.trainer.evaluation.validation_passes import TriedPass, TriedPasses, WarmStartRecord
from turngate.trainer.imitate import Imitation, Phase, converge
from turngate.trainer.learner import Learner
from turngate.trainer.signals.likelihoods import likelihoods_of
from turngate.types import Task, derive_seed

KEY = "warm_start.validation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationTasks:
    """The tasks of each environment, and how many more were left out because their question is evaluated."""

    by_env: dict[str, list[Task]]
    left_out: int

    @property
    def count(self) -> int:
        """The number of tasks of all environments."""
        return sum(map(len, self.by_env.values()))


def validation_tasks(
    config: Config, environments: Environments, section: ValidationTasksSection, key: str = KEY
) -> ValidationTasks:
    """The tasks of ``section.split`` that follow those of its evaluation, so that no choice depends on test tasks.

    ``key`` is that of the section, for messages. Tasks that ask what an evaluated task asks are left out. Raises
    ConfigError for a split that is trained on, for one that has too few tasks, and if no task is left.
    """
    found = {label: _tasks_of(config, environments, label, section, key) for label in environments.sections}
    kept = {label: _not_evaluated(config, environments, label, tasks) for label, tasks in found.items()}
    if empty := [label for label, tasks in kept.items() if not tasks]:
        raise ConfigError(
            f"{key}: each of the {section.tasks} tasks of '{empty[0]}' {section.split} asks a question that is "
            f"evaluated; name another {key}.split"
        )
    left_out = sum(map(len, found.values())) - sum(map(len, kept.values()))
    return ValidationTasks(by_env=kept, left_out=left_out)


def _tasks_of(
    config: Config, environments: Environments, label: str, section: ValidationTasksSection, key: str
) -> list[Task]:
    if section.split == environments.sections[label].split:
        raise ConfigError(f"{key}.split: '{section.split}' is the split that is trained on; name another one")
    with naming_key(f"{key}.split"):
        size = environments[label].tasks.size(section.split)
    evaluated = config.eval.tasks if section.split in config.eval.splits else 0
    if size is not None and size < evaluated + section.tasks:
        raise ConfigError(
            f"{key}: split '{section.split}' of '{label}' holds {size} tasks, of which eval.tasks = {evaluated} are "
            f"evaluated; {max(0, size - evaluated)} are left, fewer than {key}.tasks = {section.tasks}; lower one of "
            "the two or name another split"
        )
    return [environments.task(label, section.split, evaluated + number) for number in range(section.tasks)]


def _not_evaluated(config: Config, environments: Environments, label: str, tasks: list[Task]) -> list[Task]:
    evaluated = [task for split in config.eval.splits for task in environments.heldout(label, split, config.eval.tasks)]
    questions = question_of([*evaluated, *tasks])
    asked = {questions[task.id] for task in evaluated}
    return [task for task in tasks if questions[task.id] not in asked]


@dataclass(kw_only=True)
class Trial:
    """Plays the validation tasks with the weights of a learner, and keeps a copy of the best weights of all.

    ``player`` plays with a copy of the model. ``best_rate`` is the rate of ``best``, whichever learner had it.
    """

    config: Config
    folder: RunFolder
    section: Validation
    environments: Environments
    worlds: Worlds
    tasks: ValidationTasks
    player: Player
    examining: Examining
    progress: Progress
    """Shows how far each validation is, and what it found."""
    best: Weights | None = None
    best_rate: float = -math.inf
    _pushes: int = 0

    async def converge(self, passes: Imitation, *, lr: float, episodes_per_batch: int) -> TriedPasses:
        """Make the passes of one learning rate and batch size (see ``converge``); returns what was tried."""
        warm_start = self.config.warm_start
        assert warm_start is not None
        tried: list[TriedPass] = []

        async def validate(number: int, cross_entropy: float, phase: Phase) -> float:
            one = await self._tried(passes.learner, number, cross_entropy, phase)
            tried.append(one)
            return one.mean

        with empty_folder(self.folder.best_pass) as folder:
            converged = await converge(
                passes,
                most=warm_start.epochs,
                patience=self.section.patience,
                every=self.section.every,
                validate=validate,
                checkpoint=folder / "state",
            )
        return TriedPasses(
            lr=lr,
            episodes_per_batch=episodes_per_batch,
            patience=self.section.patience,
            converged=converged,
            tried=tuple(tried),
        )

    async def _tried(self, learner: Learner, number: int, cross_entropy: float, phase: Phase) -> TriedPass:
        self._pushes += 1
        await self.player.policy.publish(learner.weights(), self._pushes)
        sampled = await self._play(self.player, f"validation of pass {number}, sampled")
        greedy = await self._play(self.player.greedy(), f"validation of pass {number}, greedy")
        one = TriedPass(
            number=number,
            phase=phase,
            cross_entropy=cross_entropy,
            sampled=rate_of(sampled),
            greedy=rate_of(greedy),
            unusable=sum(found.unusable for found in (*sampled, *greedy)),
        )
        if one.mean > self.best_rate:
            self.best, self.best_rate = kept_weights(learner.weights()), one.mean
        self.progress.found(f"pass {number} solves {one.mean:.0%} of validation, the best so far {self.best_rate:.0%}")
        return one

    def record(self, demonstrations: int, grid: Sequence[TriedPasses]) -> WarmStartRecord:
        """What was tried, as it is recorded; ``demonstrations`` is the number that were imitated."""
        return WarmStartRecord(
            demonstrations=demonstrations,
            split=self.section.split,
            temperature=self.player.sampling.temperature,
            tasks=self.tasks.count,
            left_out=self.tasks.left_out,
            grid=tuple(grid),
        )

    async def _play(self, player: Player, title: str) -> list[Evaluation]:
        return await played_on(
            self.tasks,
            player,
            self.worlds,
            self.environments,
            split=self.section.split,
            seed=self.config.seed,
            examining=self.examining,
            progress=self.progress,
            title=title,
        )


@contextmanager
def empty_folder(path: Path) -> Iterator[Path]:
    """An empty folder, for as long as the block lasts; what a process that was killed left there is deleted."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path)


@asynccontextmanager
async def trying(
    config: Config,
    environments: Environments,
    worlds: Worlds,
    model: LanguageModel,
    chat: Chat,
    *,
    folder: RunFolder,
    progress: Progress,
) -> AsyncIterator[Trial]:
    """The trial of a warm start from ``model``, which is left as it is, for as long as the block lasts."""
    warm_start = config.warm_start
    assert warm_start is not None
    assert warm_start.validation is not None
    player = config.policy.player(rounded_for(config, copy.deepcopy(model)), chat).at(config.eval_temperature)
    desk = ExamineContext(
        player=player,
        step=0,
        seed=config.seed,
        answer=recorded_answer,
        likelihoods=likelihoods_of(reference_of(config, model)),
        verdicts=folder.verdicts,
    )
    async with player.policy.running(), Examining(config.examine, desk) as examining:
        yield Trial(
            config=config,
            folder=folder,
            section=warm_start.validation,
            environments=environments,
            worlds=worlds,
            tasks=validation_tasks(config, environments, warm_start.validation),
            player=player,
            examining=examining,
            progress=progress,
        )


async def played_on(
    tasks: ValidationTasks,
    player: Player,
    worlds: Worlds,
    environments: Environments,
    *,
    split: str,
    seed: int,
    examining: Examining | None,
    progress: Progress,
    title: str,
) -> list[Evaluation]:
    """One episode per task, unaided; an evaluation for each environment. ``progress`` shows it as ``title``.

    The seed is the same every time, so that passes or steps differ by their weights alone.
    """
    results = []
    for label, of_env in tasks.by_env.items():
        temperature = str(player.sampling.temperature)
        of_several = f", {label}" if len(tasks.by_env) > 1 else ""
        with progress.within(f"{title}{of_several}") as count:
            result, _ = await evaluate(
                player,
                worlds,
                environments.score,
                of_env,
                split=split,
                samples=1,
                seed=derive_seed(seed, "validation", label, temperature),
                examining=examining,
                reads=environments.rubrics[label].readers,
                told=count.episodes,
            )
        results.append(result)
    return results


def rate_of(results: list[Evaluation], key: str = KEY) -> float:
    """The share of usable episodes that succeeded, of all environments. Raises RunError if none is usable."""
    n = sum(len(result.success_B) for result in results)
    if not n:
        lost = sum(result.unusable for result in results)
        raise RunError(f"none of {lost} validation episodes is usable, so nothing can be chosen; see {key}")
    return sum(sum(result.success_B) for result in results) / n
