"""A training job from config to report: warm start, evaluation, training, evaluation, baselines, controls.

Everything that is finished is on disk, so the same command goes on where a killed one stopped. A step is finished when
its checkpoint exists. What was recorded of later steps is moved to ``set_aside/``, and those steps are played again.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import asdict

from rich.console import Console

from turngate.agents.chat import Chat
from turngate.agents.protocols import LanguageModel
from turngate.agents.rollout import Worlds
from turngate.config import Config, dump, modules_of
from turngate.errors import ConfigError
from turngate.evaluations import WITH_MEMORY, add_evaluation, forget_evaluations, read_evaluations
from turngate.jsonl import cut_torn_line
from turngate.metrics import JsonlSink
from turngate.progress_bar import Progress
from turngate.rewards.monitors.alarm import Alarm
from turngate.run.aside_means import check_teachers
from turngate.run.assemble import assembled, check_credit, check_examiners, trees_of
from turngate.run.credit import answer_of
from turngate.run.demonstrations import check_demonstrations
from turngate.run.environments import Environments, naming_key
from turngate.run.helping import check_guide
from turngate.run.holding import locked_run
from turngate.run.keeping import STEPS_KEY, Keeping
from turngate.run.loop import run_to_end
from turngate.run.models import be_deterministic, check_model, require_torch, save_model
from turngate.run.side_runs import SideRun, SideRuns, side_runs
from turngate.run.splits import split_overlaps
from turngate.run.supervised import check_baselines
from turngate.run.validation import validation_tasks
from turngate.run.warm_start import starting_model
from turngate.runs import RunFolder
from turngate.sinks import Opening, Sinks, open_sinks
from turngate.store import Store, machine, write_json_atomic, write_text_atomic
from turngate.trainer.ahead import Training, training_of
from turngate.trainer.alarm_log import AlarmLog
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.curriculum import Curriculum
from turngate.trainer.evaluate import evaluate
from turngate.trainer.guidance import MemoryGuide
from turngate.trainer.monitoring import Watch, console_line, recorded
from turngate.trainer.overlap import SplitOverlap
from turngate.trainer.run_parts import Run
from turngate.types import Guidance, Task, derive_seed


class Job:
    """The work on one run folder.

    ``control`` names the negative control that this run is; None for a run that is to learn. ``start`` is the run
    whose warm-started model it begins from, by default the run itself. ``strict`` refuses an evaluated split that
    shares questions or answers with training. ``jobs``: how many runs are made at once, this one and its baselines and
    controls together; each of those has a process of its own where it is more than one. The constructor does no work,
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
    ) -> None:
        if not config.policy.trainable:
            raise ConfigError(
                f'policy.type "{config.policy.type}" can be evaluated (turngate eval --config CONFIG) but not trained; '
                'train with a policy of another type, such as policy.type = "local"'
            )
        config.policy.check_installed()
        self.config, self.console, self.control = config, console, control
        self.path = config.folder / config.name
        self.folder = RunFolder(self.path)
        self._start = start or self.folder
        self._side_runs = SideRuns(side_runs(config, self.folder), _make, jobs=jobs, console=console)
        self._watch = Watch(self._alarm)
        self.environments = Environments(config.env)
        try:
            for _, env in self.environments:
                for split in config.eval.splits:
                    with naming_key("eval.splits"):
                        env.tasks.size(split)  # raises for an unknown split
            check_credit(config, self.environments)
            check_examiners(config, self.environments)
            check_guide(config, self.environments)
            check_teachers(config)
            trees_of(config, self.environments)  # raises for an environment that cannot be forked
            check_baselines(config, self.environments)
            self._answer = answer_of(config, self.environments)
            require_torch()
            self._overlaps = self._compared(strict=strict)
            if not (self._start.warm_start.exists() or self.folder.is_complete):
                self._check_start()
            self._curriculum = self._opened_curriculum()
        except BaseException:
            self.environments.close()
            raise

    def run(self) -> None:
        """Do whatever of the run is not done yet. Can be called once, because it closes the environments at the end."""
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
            async with self.environments.worlds(self.config.policy.lanes) as worlds:
                await self._work(worlds, sinks)

    async def _work(self, worlds: Worlds, sinks: Sinks) -> None:
        config = self.config
        model, chat = await starting_model(config, self.environments, worlds, self._start, self.console)
        self._side_runs.begin()  # those that need the model of the warm start
        if self.folder.owner is None and any(env.turn_spec.tools for _, env in self.environments):
            self._say(chat.about_tools)
        if self.folder.owner is None and chat.about_history:
            self._say(chat.about_history)
        async with assembled(
            config,
            self.environments,
            model,
            chat,
            worlds,
            folder=self.folder,
            control=self.control,
            answer=self._answer,
            watch=self._watch,
            curriculum=self._curriculum,
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
        save_model(model, chat.tokenizer, self.folder.model, weights)

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
            await run.policy.publish(run.learner.weights(), done)
        return done

    async def _train(self, run: Run, training: Training, done: int, sinks: Sinks, keeping: Keeping) -> None:
        config, checkpoints = self.config, self._checkpoints()
        total = config.train.steps
        await keeping.after(run, done)
        with Progress(self.console, self.control or "training") as progress:
            for step in range(done + 1, total + 1):
                sinks.write(step, await training.step(step))
                if step % config.train.checkpoint_every == 0 or step == total or keeping.due(step):
                    checkpoints.save(step, run.learner, training.checkpointed)
                await keeping.after(run, step)
                progress.update(step, total, "")

    async def _evaluate(self, run: Run, phase: str, memory: Callable[[Task], Guidance | None] | None = None) -> None:
        """Evaluate without hints, at the training temperature and greedy, on every split; skips what is recorded."""
        finished = {(e.split, e.temperature) for p, e in read_evaluations(self.path) if p == phase}
        config = self.config
        for label, split, named in self._splits():
            tasks = self.environments.heldout(label, split, config.eval.tasks)
            for temperature, samples in ((config.policy.temperature, config.eval.samples), (0.0, 1)):
                if (named, temperature) in finished:
                    continue
                result, played = await evaluate(
                    run.player if temperature else run.player.greedy(),
                    run.worlds,
                    self.environments.score,
                    tasks,
                    split=named,
                    samples=samples,
                    seed=derive_seed(config.seed, "evaluate", phase, named, str(temperature)),
                    examining=run.examining,
                    reads=self.environments.rubrics[label].readers,
                    memory=memory,
                )
                step = 0 if phase == "before" else config.train.steps
                name = _file_name(f"{phase}-{named}-{'greedy' if temperature == 0 else 'sampled'}")
                store = Store(self.path)
                store.discard(step, name)  # left by a process that was killed before it added the evaluation
                store.write(step, played, phase=name)
                add_evaluation(self.path, phase, result)

    async def _evaluate_memory(self, run: Run) -> None:
        """Keep the memory of a guide that has one, and evaluate with it if the config asks for that."""
        if not isinstance(run.guide, MemoryGuide):
            return
        write_json_atomic(self.folder.memory, run.guide.state())
        if self.config.eval.memory and run.guide.memory.entries:
            await self._evaluate(run, WITH_MEMORY, run.guide.remembered)
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
        """The curriculum of a run that trains; of an endless source it has the tasks after those of the warm start."""
        config = self.config
        if not config.train.steps:
            return None
        shown = config.warm_start.episodes or 0 if config.warm_start else 0
        supply = self.environments.supply(
            per_step=config.train.tasks_per_step,
            group_size=config.train.group_size,
            seed=derive_seed(config.seed, "tasks"),
            first=self.environments.split(shown),
            refilled=config.train.refill is not None,
        )
        return config.curriculum.open(supply)

    def _check_start(self) -> None:
        """Check that a run which has not begun finds its model and the demonstrations of its warm start."""
        config = self.config
        if isinstance(config.model, str):
            with naming_key("model"):
                check_model(config.model, config.policy)
        if config.warm_start is not None:
            check_demonstrations(self.environments, config.warm_start)
            if config.warm_start.validation is not None:
                validation_tasks(config, self.environments, config.warm_start.validation)  # raises if there are too few
        if config.train.validation is not None:
            validation_tasks(config, self.environments, config.train.validation, STEPS_KEY)

    def _compared(self, *, strict: bool) -> list[SplitOverlap] | None:
        """What the evaluated splits share with training; None where it was told: in controls, in a run that goes on."""
        if self.control or (self.folder.has_begun and not strict):
            return None
        overlaps = list(split_overlaps(self.config, self.environments))
        problems = [found.problem for found in overlaps if found.leaks]
        if strict and problems:
            raise ConfigError(f"eval.splits: {problems[0]}; evaluate another split, or train without --strict")
        return overlaps

    def _tell_overlaps(self) -> None:
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
        if path.exists() and path.read_text() == text:
            return
        if path.exists() and self.folder.has_begun and _without_sinks(path.read_text()) != _without_sinks(text):
            raise ConfigError(f"'{self.path}' holds a run with other settings; choose another --name")
        modules = modules_of(self.config) | {type(env).__module__ for _, env in self.environments}
        others = sorted(name for name in modules if name.partition(".")[0] not in ("turngate", "__main__"))
        write_json_atomic(self.folder.machine, {**machine(), "modules": others})
        write_text_atomic(path, text)

    def _repair(self) -> None:
        """Remove what a crash of the machine damaged, where it can be played again, and print what was removed."""
        for file in (self.folder.metrics, self.folder.evaluations, self.folder.alarms):
            if n := cut_torn_line(file):
                self._say(f"{file}: its last line was incomplete, so its {n} bytes were cut off")
        if self.folder.is_complete:
            return
        checkpoints = self._checkpoints()
        for step, problem in checkpoints.set_damaged_aside().items():
            last = checkpoints.last()
            self._say(f"the checkpoint of step {step} is damaged ({problem}): set aside; step {last} is the newest")
            for phase in ("after", WITH_MEMORY):
                forget_evaluations(self.path, phase)

    def _checkpoints(self) -> Checkpoints:
        return Checkpoints(self.folder.checkpoints)


def _make(side_run: SideRun, console: Console) -> None:
    """Make a baseline or control; other processes import this function."""
    Job(side_run.config, console, control=side_run.control, start=side_run.start).run()


def _file_name(phase: str) -> str:
    """The phase under which episodes are stored: "/", ":" and blanks do not fit the name of a file."""
    return phase.replace("/", ".").replace(":", ".").replace(" ", "-")


def _without_sinks(text: str) -> dict[str, object]:
    """A config without its sinks, which change nothing in the run but where its metrics are sent."""
    return {key: value for key, value in tomllib.loads(text).items() if key != "sink"}
