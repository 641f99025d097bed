"""A training job from config to report: warm start, evaluation, training, evaluation, baselines, controls.

Everything that is finished is on disk, so the same command goes on where a killed one stopped. A step is finished when
its checkpoint exists. What was recorded of later steps is moved to ``set_aside/``, and those steps are played again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import chain

from rich.console import Console

from turngate.agents.chat import Chat
from turngate.agents.protocols import LanguageModel
from turngate.agents.rollout import Worlds
from turngate.agents.tiny import is_own
from turngate.config.run_config import Config, dump, modules_of
from turngate.config.stages import StageEnd
from turngate.errors import ConfigError
from turngate.jsonl import cut_torn_line
from turngate.progress_bar import Progress
from turngate.rewards.monitors.alarm import Alarm
from turngate.run.assembly.assemble import assembled
from turngate.run.assembly.learners import about_learner
from turngate.run.assembly.models import be_deterministic, check_model, check_new_model, require_torch, save_model
from turngate.run.assembly.recorded_runs import evaluated_too, recorded_of
from turngate.run.best_step import STEPS_KEY, Keeping
from turngate.run.checks.config_fit import check_policy, fit_of
from turngate.run.checks.feeders import check_first_step
from turngate.run.checks.split_overlap import split_overlaps
from turngate.run.environments import Environments, naming_key
from turngate.run.process.event_loop import run_to_end
from turngate.run.process.run_lock import locked_run
from turngate.run.remote_folder import keep_here, refuse_address
from turngate.run.resume import added_steps, refuse_gaps, refuse_unscored, reopen
from turngate.run.side_runs import SideRun, SideRuns, side_runs
from turngate.run.stage_end import TrainingEnd
from turngate.run.start.demonstrations import check_demonstrations
from turngate.run.start.examples import tried_for_examples
from turngate.run.start.warm_start import starting_model
from turngate.run.validation import validation_tasks
from turngate.sinks import Opening, Sinks, open_sinks
from turngate.store import Store, machine, write_json_atomic, write_text_atomic
from turngate.store.folder import RunFolder
from turngate.store.metrics import JsonlSink
from turngate.trainer.ahead import Training, training_of
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.checks.alarm_log import AlarmLog
from turngate.trainer.checks.monitoring import Watch, console_line, recorded
from turngate.trainer.curriculum.answers import opened_curriculum
from turngate.trainer.curriculum.base import Curriculum
from turngate.trainer.evaluation.evaluate import evaluate
from turngate.trainer.evaluation.evaluations_file import (
    WITH_MEMORY,
    add_evaluation,
    forget_evaluations,
    read_evaluations,
    withheld_line,
)
from turngate.trainer.evaluation.overlap import SplitOverlap
from turngate.trainer.guidance.experience import MemoryGuide
from turngate.trainer.guidance.experience_memory import Recalled
from turngate.trainer.run import Run
from turngate.types import ScoredGroup, Task, derive_seed


class Job:
    """The work on one run folder.

    ``control`` names the negative control that this run is; None for a run that is to learn. ``start`` is the run
    whose warm-started model it begins from, by default the run itself. ``strict`` refuses an evaluated split that
    shares questions or answers with training. ``jobs``: how many runs are made at once, this one and its baselines and
    controls together; each of those has a process of its own where it is more than one. ``until``: when training ends
    before ``train.steps``. ``commit`` is called whenever something is finished, and may copy the folder as it is then,
    which blocks the run. The constructor does no work,
    but raises ConfigError for everything in the config that does not fit the environments that it names, and for more
    than one of ``jobs`` where the config has one run.
    """

    def __init__(
        self,
        config: Config,
        console: Console,
        *,
        control: str | None = None,
        start: RunFolder | None = None,
        strict: bool = False,
        jobs: int = 1,
        until: StageEnd | None = None,
        commit: Callable[[], None] = keep_here,
    ) -> None:
        refuse_address(config.folder)
        check_policy(config)
        self.config, self.console, self.control = config, console, control
        self.path = (config.folder / config.name).absolute()  # code of an environment may change the folder
        self.folder = RunFolder(self.path)
        self._start = start or self.folder
        self._until, self._commit = until, commit
        make = partial(_make, commit=commit)
        self._side_runs = SideRuns(side_runs(config, self.folder), make, jobs=jobs, console=console)
        self._watch = Watch(self._alarm)
        self.environments = Environments(config.env, cluster=config.cluster)
        try:
            self._fit = fit_of(config, self.environments)
            require_torch()
            self._overlaps = self._compared(strict=strict)
            self._is_complete = self.folder.is_complete and self._last_before() is None
            if not (self._start.warm_start.exists() or self._is_complete):
                self._check_start()
            self._curriculum = self._opened_curriculum()
            self._recorded = None if self._is_complete else recorded_of(config, self.environments)
            self._leak = "" if self._recorded is None else evaluated_too(config, self.environments, self._recorded)
            if self._leak and strict:
                raise ConfigError(f"episodes: {self._leak}; or train without --strict")
        except BaseException:
            self.environments.close()
            raise

    def run(self) -> None:
        """Do the rest of the run. Can be called once, because it closes the environments at the end."""
        with self.environments, locked_run(self.folder):
            self._write_config()
            self._repair()
            for label, problem in self.environments.unsafe.items():
                self._say(f"the rubric of '{label}' is unsafe, as env.allow_unsafe allows: {problem}")
            self._tell_overlaps()
            be_deterministic()
            with self._side_runs:
                run_to_end(self._run())
                self._side_runs.finish()

    # --- phases -------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        if self.folder.is_complete:
            self.console.print(f"{self.path}: complete, nothing left to do")
            return
        opening = Opening(
            run=self.folder,
            done=self._checkpoints().last() or 0,
            config=self.config.model_dump(mode="json"),
            console=self.console,
        )
        with open_sinks(self.config.sink, opening) as sinks:
            async with self.environments.worlds(self.config.policy.concurrency) as worlds:
                await self._work(worlds, sinks)

    async def _work(self, worlds: Worlds, sinks: Sinks) -> None:
        config = self.config
        model, chat = await starting_model(config, self.environments, worlds, self._start, self.console)
        self._commit()
        self._side_runs.begin()  # those that need the model of the warm start
        if self.folder.owner is None and any(env.turn_spec.tools for _, env in self.environments):
            self._say(chat.about_tools)
        if self.folder.owner is None and chat.about_history:
            self._say(chat.about_history)
        if self.folder.owner is None and not is_own(chat.tokenizer) and config.train.steps:
            self._say(about_learner(config, model))
        async with assembled(
            config,
            self.environments,
            model,
            chat,
            worlds,
            folder=self.folder,
            control=self.control,
            answer=self._fit.answer,
            watch=self._watch,
            curriculum=self._curriculum,
            recorded=self._recorded,
        ) as run:
            training = training_of(run, ahead=config.train.ahead, last=config.train.steps)
            keeping = self._keeping(model, chat)
            done = await self._resume(run, training)
            keeping.forget_after(done)
            if done == 0:
                await self._evaluate(run, "before")
            if config.train.steps:
                await self._train(run, training, done, sinks, keeping)
            weights = await keeping.put_back(run)
            if config.train.steps:
                await self._evaluate(run, "after")
            await self._evaluate_memory(run)
        run.auxiliary.conclude()  # before the run is complete, so that the same command does not end well afterwards
        save_model(model, chat.tokenizer, self.folder.model, weights)
        self._commit()

    async def _resume(self, run: Run, training: Training) -> int:
        """The last complete step; learner, policy and records are put back to it."""
        checkpoints = self._checkpoints()
        done = checkpoints.last() or 0
        if aside := Store(self.path).set_aside_after(done):
            self.console.print(
                f"resuming after step {done}; steps {aside} were recorded but not finished: moved to set_aside/"
            )
        JsonlSink(self.folder.metrics).truncate_after(done)
        AlarmLog(self.path).truncate_after(done)
        if done:
            self._watch.replay(recorded(self.path, until=done))
            checkpoints.load(done, run.learner, training.checkpointed)
            await run.publishing.resume(run.policy, run.learner.weights(), done)
        return done

    async def _train(self, run: Run, training: Training, done: int, sinks: Sinks, keeping: Keeping) -> None:
        config, checkpoints = self.config, self._checkpoints()
        total = config.train.steps
        ending = TrainingEnd(self._until, self.folder)
        with Progress(self.console, self.control or "training") as progress:
            await keeping.after(run, done, progress)
            for step in range(done + 1, (done if ending.reason else total) + 1):
                metrics = await training.step(step)
                sinks.write(step, metrics)
                if step == 1 and self._fit.unfed:
                    check_first_step(self._fit.unfed, self._played_so_far())
                ended = ending.after(metrics) or step == total
                if step % config.train.checkpoint_every == 0 or ended or keeping.due(step):
                    checkpoints.save(step, run.learner, training.checkpointed)
                await keeping.after(run, step, progress)
                self._commit()
                progress.update(step, total, "")
                if ended:
                    break
        if ending.reason:
            await run.publishing.conclude(run.policy, run.learner.weights(), ending.steps)
        if said := ending.line():
            self._say(said)
        refuse_unscored(self.folder)

    def _played_so_far(self) -> Iterator[ScoredGroup]:
        """The episodes of the first step, and those of the evaluation before it."""
        store = Store(self.path)
        return chain.from_iterable(store.read(step) for step in store.steps(None))

    async def _evaluate(self, run: Run, phase: str, memory: Callable[[Task], Recalled] | None = None) -> None:
        """Evaluate without hints, sampled and greedy, on every split; skips recorded evaluations."""
        finished = {(e.split, e.temperature) for p, e in read_evaluations(self.path) if p == phase}
        config = self.config
        for label, split, named in self._splits():
            tasks = self.environments.heldout(label, split, config.eval.tasks)
            for temperature, samples in ((config.eval_temperature, config.eval.samples), (0.0, 1)):
                if (named, temperature) in finished:
                    continue
                how = "greedy" if temperature == 0 else "sampled"
                with Progress(self.console, f"{phase} training, {named}, {how}", transient=True) as progress:
                    result, played = await evaluate(
                        run.player.at(temperature) if temperature else run.player.greedy(),
                        run.worlds,
                        self.environments.score,
                        tasks,
                        split=named,
                        samples=samples,
                        seed=derive_seed(config.seed, "evaluate", phase, named, str(temperature)),
                        examining=run.examining,
                        reads=self.environments.rubrics[label].readers,
                        memory=memory,
                        told=progress.episodes,
                    )
                step = 0 if phase == "before" else config.train.steps
                name = _file_name(f"{phase}-{named}-{how}")
                store = Store(self.path)
                store.discard(step, name)  # left by a process that was killed before it added the evaluation
                store.write(step, played, phase=name)
                add_evaluation(self.path, phase, result)
                self._commit()
                if line := withheld_line(result):
                    self._say(f"{phase}, {named}, temperature {temperature:g}: {line}")

    async def _evaluate_memory(self, run: Run) -> None:
        """Keep the memory of a guide that has one, and evaluate with it if the config asks for that."""
        if not isinstance(run.guide, MemoryGuide):
            return
        write_json_atomic(self.folder.memory, run.guide.state())
        if self.config.eval.memory and run.guide.memory.entries:
            await self._evaluate(run, WITH_MEMORY, run.guide.recalled)
        elif self.config.eval.memory:
            self._say("the memory is empty, so there is no evaluation with memory")

    def _splits(self) -> list[tuple[str, str, str]]:
        """(environment, split, name of the evaluation). The name is the split; ENV:SPLIT with several environments."""
        several = len(self.config.env) > 1
        return [
            (label, split, f"{label}:{split}" if several else split)
            for label in self.environments.sections
            for split in self.config.eval.splits
        ]

    # --- small parts --------------------------------------------------------------------------------------------------

    def _keeping(self, model: LanguageModel, chat: Chat) -> Keeping:
        config = self.config
        return Keeping(
            config=config,
            section=config.train.validation,
            environments=self.environments,
            folder=self.folder,
            model=model,
            tokenizer=chat.tokenizer,
            base=str(config.model if config.warm_start is None else self._start.warm_start.resolve()),
            say=self._say,
        )

    def _opened_curriculum(self) -> Curriculum | None:
        """The curriculum of a run that trains; of an endless source it has the tasks after those of the warm start and
        of the examples."""
        config = self.config
        if not config.train.steps:
            return None
        shown = config.warm_start.episodes or 0 if config.warm_start else 0
        first = {label: n + tried_for_examples(config.policy) for label, n in self.environments.split(shown).items()}
        supply = self.environments.supply(
            per_step=config.train.tasks_per_step,
            group_size=config.train.group_size,
            seed=derive_seed(config.seed, "tasks"),
            first=first,
            refilled=config.train.refill is not None,
        )
        return opened_curriculum(config.curriculum, supply, find=self.environments.find)

    def _check_start(self) -> None:
        """Check that a run which has not begun finds its model and the demonstrations of its warm start."""
        config = self.config
        if isinstance(config.model, str):
            with naming_key("model"):
                check_model(config.model, config.policy)
        else:
            check_new_model(config.model)
        if config.warm_start is not None:
            check_demonstrations(self.environments, config.warm_start)
            if config.warm_start.validation is not None:
                validation_tasks(config, self.environments, config.warm_start.validation)  # raises if there are too few
        if config.train.validation is not None:
            validation_tasks(config, self.environments, config.train.validation, STEPS_KEY)

    def _compared(self, *, strict: bool) -> list[SplitOverlap] | None:
        """What the evaluated splits share with training; None where this was reported before: in controls, in a resumed
        run."""
        if self.control or (self.folder.has_begun and not strict):
            return None
        overlaps = list(split_overlaps(self.config, self.environments))
        problems = [found.problem for found in overlaps if found.leaks]
        if strict and problems:
            raise ConfigError(f"eval.splits: {problems[0]}; evaluate another split, or train without --strict")
        return overlaps

    def _tell_overlaps(self) -> None:
        if self._leak:
            self._say(f"warning: {self._leak}")
        if self._overlaps is None:
            return
        for found in self._overlaps:
            self._say(f"warning: {found.problem}" if found.leaks else found.line)
        write_json_atomic(self.folder.overlap, {"splits": [asdict(found) for found in self._overlaps]})

    def _alarm(self, step: int, alarm: Alarm) -> None:
        """Print an alarm of a monitor and record it for the report."""
        self._say(console_line(step, alarm))
        AlarmLog(self.path).write(step, alarm)

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _write_config(self) -> None:
        """Write the config into the run folder, or raise ConfigError if a run with other settings has begun there."""
        text, path = dump(self.config), self.folder.config
        if path.exists() and path.read_bytes() == text.encode():
            return
        if (last := self._last_before()) is not None:
            reopen(self.folder, last)
            self._say(f"{self.path}: goes on after step {last}; train.steps is {self.config.train.steps} now")
        modules = modules_of(self.config) | {type(env).__module__ for _, env in self.environments}
        others = sorted(name for name in modules if name.partition(".")[0] not in ("turngate", "__main__"))
        write_json_atomic(self.folder.machine, {**machine(), "modules": others})
        write_text_atomic(path, text)

    def _last_before(self) -> int | None:
        """The last step that the run had, if it is asked for more of them now; see ``added_steps``."""
        return added_steps(self.folder, dump(self.config), ahead=bool(self.config.train.ahead))

    def _repair(self) -> None:
        """Remove what a crash of the machine damaged, where it can be played again, and print what was removed."""
        for file in (self.folder.metrics, self.folder.evaluations, self.folder.alarms):
            if n := cut_torn_line(file):
                self._say(f"{file}: its last line was incomplete, so its {n} bytes were cut off")
        plays = self.config.episodes.type != "stored"
        checkpoints = self._checkpoints()
        if self.folder.is_complete:  # a stage may have ended by itself
            refuse_gaps(self.folder, checkpoints.last() or self.config.train.steps, plays=plays)
            return
        for step, problem in checkpoints.set_damaged_aside().items():
            last = checkpoints.last()
            self._say(f"the checkpoint of step {step} is damaged ({problem}): set aside; step {last} is the newest")
            for phase in ("after", WITH_MEMORY):
                forget_evaluations(self.path, phase)
        refuse_gaps(self.folder, checkpoints.last() or 0, plays=plays)

    def _checkpoints(self) -> Checkpoints:
        return Checkpoints(self.folder.checkpoints)


def _make(side_run: SideRun, console: Console, *, commit: Callable[[], None]) -> None:
    """Make a baseline or control; other processes import this function."""
    Job(side_run.config, console, control=side_run.control, start=side_run.start, commit=commit).run()


def _file_name(phase: str) -> str:
    """The phase under which episodes are stored: "/", ":" and blanks do not fit the name of a file."""
    return phase.replace("/", ".").replace(":", ".").replace(" ", "-")
