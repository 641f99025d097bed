"""Keep the weights of the best training step: every so many steps the model plays validation tasks, unaided.

After the step's checkpoint is written: play, write the weights into ``best/step=000012/`` if they are the best so far,
then the line of ``validation.json``, then delete weights that no checkpoint would need. A process that is killed
between any two of these plays the same episodes again when it goes on, and writes the same files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

from turngate.agents.policies.base import Weights
from turngate.agents.protocols import LanguageModel, Tokenizer
from turngate.config.run_config import Config
from turngate.config.sections import StepValidation
from turngate.errors import StoreError
from turngate.progress_bar import Progress
from turngate.run.assembly.models import put_weights, save_model, saved_weights
from turngate.run.environments import Environments
from turngate.run.validation import played_on, rate_of, validation_tasks
from turngate.store.folder import RunFolder
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.checks import learner_output as learner_answers
from turngate.trainer.evaluation.validation_steps import TriedStep, TriedSteps, read_steps, write_steps
from turngate.trainer.run import Run

STEPS_KEY = "train.validation"


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """Validates the steps of one run that trains; without ``section`` every method does nothing.

    ``model`` is the one that the run's learner trains in place, ``base`` the folder or name of what it began as.
    """

    config: Config
    section: StepValidation | None
    environments: Environments
    folder: RunFolder
    model: LanguageModel
    tokenizer: Tokenizer
    base: str
    say: Callable[[str], None]

    def due(self, step: int) -> bool:
        """Whether the model is validated after this step: the start, every so many steps, and the last one."""
        every = None if self.section is None else self.section.every
        return every is not None and (step % every == 0 or step == self.config.train.steps)

    def forget_after(self, step: int) -> None:
        """Forget steps that are played again, before anything else."""
        known = read_steps(self.folder)
        if known is not None:
            write_steps(self.folder, known.until(step))

    async def after(self, run: Run, step: int, progress: Progress) -> None:
        """Validate the model after ``step``, whose checkpoint exists, unless that is not due or was done before.
        ``progress`` shows how far the validation is."""
        if self.section is None or not self.due(step):
            return
        known = read_steps(self.folder) or self._nothing(self.section)
        if any(one.number == step for one in known.tried):
            return
        one = await self._tried(run, self.section, step, progress)
        found = known.having(one)
        is_best = found.best == one
        if is_best:
            folder = self.folder.best(step)
            shutil.rmtree(folder, ignore_errors=True)  # left by a process that was killed before the next line
            save_model(self.model, self.tokenizer, folder, run.learner.weights())
            learner_answers.write_adapter(
                self.config.learner, run.learner, self.folder.best_adapter(step), base=self.base
            )
        write_steps(self.folder, found)
        self._delete_others(found)
        self.say(f"step {step}: validation: {one.line}{'; the best so far' if is_best else ''}")

    async def put_back(self, run: Run) -> Weights:
        """The weights that the run ends with: the learner's, or those of the best step, which the policy then gets.
        Adapters are written as ``adapter/``."""
        best = self._other_than_last()
        if best is None:
            learner_answers.write_adapter(self.config.learner, run.learner, self.folder.adapter, base=self.base)
            return run.learner.weights()
        folder = self.folder.best(best)
        if not folder.exists():
            raise StoreError(
                f"'{folder}', the weights of the best step, is missing; restore it from a backup, or remove "
                f"'{self.folder.validated}' and the checkpoints to train again"
            )
        if (adapter := self.folder.best_adapter(best)).exists():
            shutil.copytree(adapter, self.folder.adapter, dirs_exist_ok=True)
        weights = saved_weights(folder)
        put_weights(self.model, weights)
        await run.policy.publish(weights, best)
        return weights

    def _other_than_last(self) -> int | None:
        """The step whose weights the run ends with, where that is not the last one."""
        known = read_steps(self.folder)
        if self.section is None or known is None or known.best is None:
            return None
        self.say(known.line)
        kept = self.section.keep == "best" and known.best.number != self.config.train.steps
        return known.best.number if kept else None

    async def _tried(self, run: Run, section: StepValidation, step: int, progress: Progress) -> TriedStep:
        tasks = validation_tasks(self.config, self.environments, section, STEPS_KEY)
        sampled, greedy = [
            await played_on(
                tasks,
                player,
                run.worlds,
                self.environments,
                split=section.split,
                seed=self.config.seed,
                examining=run.examining,
                progress=progress,
                title=f"validation after step {step}, {how}",
            )
            for player, how in (
                (run.player.at(self.config.eval_temperature), "sampled"),
                (run.player.greedy(), "greedy"),
            )
        ]
        return TriedStep(
            number=step,
            sampled=rate_of(sampled, STEPS_KEY),
            greedy=rate_of(greedy, STEPS_KEY),
            unusable=sum(found.unusable for found in (*sampled, *greedy)),
        )

    def _nothing(self, section: StepValidation) -> TriedSteps:
        tasks = validation_tasks(self.config, self.environments, section, STEPS_KEY)
        return TriedSteps(
            steps=self.config.train.steps,
            split=section.split,
            temperature=self.config.eval_temperature,
            tasks=tasks.count,
            left_out=tasks.left_out,
            by=section.by,
            keep=section.keep,
        )

    def _delete_others(self, known: TriedSteps) -> None:
        """Keep the best of all, and the best as of each checkpoint, in case the run has to go on from there."""
        last = [self.config.train.steps, *Checkpoints(self.folder.checkpoints).steps()]
        needed = {best.number for step in last if (best := known.until(step).best) is not None}
        for folder in self.folder.bests:
            if folder not in {self.folder.best(number) for number in needed}:
                shutil.rmtree(folder)
