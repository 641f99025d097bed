"""A training job from config to report: warm start, evaluation, reinforcement learning, evaluation, controls.

Everything that is finished is on disk, so the same command goes on where a killed one stopped. A step counts once its
checkpoint exists; what was recorded of later steps is set aside and those steps are played again.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from turngate.agents.chat import Chat
from turngate.agents.policies.scripted import ScriptedPolicy, by_task
from turngate.agents.rollout import Player, play_groups
from turngate.config import Config, WarmStart, dump
from turngate.errors import ConfigError, RunError
from turngate.evaluations import add_evaluation, read_evaluations
from turngate.metrics import JsonlSink
from turngate.progress import Progress
from turngate.rewards.monitors.alarm import Alarm
from turngate.run.credit import answer_of, needs_reference, rule_of, signals_of, trains_reward_model
from turngate.run.demonstrations import demonstrations, texts_of
from turngate.run.environments import Environments
from turngate.run.learners import learner_of, reference_of, reward_model_of
from turngate.run.models import be_deterministic, load_model, new_model, save_model
from turngate.runs import RunFolder
from turngate.store import Store, machine, write_json_atomic, write_text_atomic
from turngate.trainer.alarm_log import AlarmLog
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.evaluate import SUCCESS, evaluate
from turngate.trainer.guidance import NoGuide
from turngate.trainer.imitate import imitate
from turngate.trainer.loss import PolicyLoss
from turngate.trainer.monitoring import Watch, console_line, recorded
from turngate.trainer.step import Run, train_step
from turngate.types import Trajectory, derive_seed


class Job:
    """One run folder. ``control`` destroys the signal; ``start`` is the warm-started model to begin from."""

    def __init__(
        self, config: Config, console: Console, *, control: str | None = None, start: Path | None = None
    ) -> None:
        self.config, self.console, self.control = config, console, control
        self.path = config.folder / config.name
        self.folder = RunFolder(self.path)
        self._start = start
        self._credit = rule_of(config, control)
        self._watch = Watch(self._alarm)
        self.environments = Environments(config.env)
        try:
            for _, env in self.environments:
                for split in config.eval.splits:
                    env.tasks.size(split)  # raises for an unknown split, before any work
            self._answer = answer_of(config, self.environments)
        except BaseException:
            self.environments.close()
            raise

    def run(self) -> None:
        """Do whatever is not done yet. Once: its environments are closed at the end."""
        with self.environments:
            self._claim()
            be_deterministic()
            asyncio.run(self._run())
            self._run_controls()

    # --- phases -------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        if self.folder.is_complete:
            self.console.print(f"{self.path}: complete, nothing left to do")
            return
        async with self.environments.worlds(self.config.policy.lanes) as worlds:
            model, chat = await self._warm_start(worlds)
            sampler = copy.deepcopy(model)
            player = self.config.policy.player(sampler, chat)
            learner = learner_of(self.config, model)
            needed = needs_reference(self.config)
            reference = reference_of(self.config, copy.deepcopy(model)) if needed else None
            along = reward_model_of(self.config, copy.deepcopy(model)) if trains_reward_model(self.config) else None
            signals = signals_of(
                self.config,
                control=self.control,
                learner=learner,
                reward_model=along,
                reference=reference,
                chat=chat,
                answer=self._answer,
            )
            run = self._assemble(player, learner, worlds, reference, signals)
            done = await self._resume(run)
            if done == 0:
                await self._evaluate(player, worlds, "before")
            await self._train(run, done)
            await self._evaluate(player, worlds, "after")
            save_model(model, chat.tokenizer, self.folder.model)

    async def _warm_start(self, worlds: Any) -> tuple[Any, Chat]:
        """The model to begin from, made once and kept in the run."""
        folder = self._start or self.folder.warm_start
        section = self.config.warm_start
        if section is not None and not folder.exists():
            await self._imitate(worlds, section, folder)
        name = str(folder) if section is not None or self._start else str(self.config.model)
        model, tokenizer = load_model(name)
        return model, Chat(tokenizer)

    async def _imitate(self, worlds: Any, section: WarmStart, folder: Path) -> None:
        config = self.config
        tasks, lines = demonstrations(self.environments, section)
        model, tokenizer = self._untrained(texts_of(tasks, lines, self.environments))
        chat = Chat(tokenizer)
        policy = ScriptedPolicy(by_task(lines), chat, lanes=config.policy.lanes)
        player = Player(policy, chat, config.policy.limits())
        seed = derive_seed(config.seed, "demonstrations")
        groups = await play_groups(player, worlds, tasks, [[None]] * len(tasks), seed=seed)
        played = [trajectory for group in groups for trajectory in group.trajectories]
        solved = self._solved(played, [score for group in groups for score in self.environments.score(group).scores])
        learner = config.learner.open(model, lr=section.lr)
        with Progress(self.console, "warm start") as progress:
            imitate(
                learner,
                PolicyLoss(),
                solved,
                epochs=section.epochs,
                episodes_per_batch=section.episodes_per_batch,
                seed=derive_seed(config.seed, "imitate"),
                report=lambda step, total, metrics: progress.update(
                    step, total, f"cross-entropy {metrics['loss/imitation']:.3f} nats/token"
                ),
            )
        save_model(model, tokenizer, folder)

    def _untrained(self, texts: Iterator[str]) -> tuple[Any, Any]:
        """The model that the warm start trains."""
        config = self.config
        if isinstance(config.model, str):
            return load_model(config.model)
        seed = derive_seed(config.seed, "model")
        return new_model(config.model, texts, context=config.policy.context, seed=seed)

    def _solved(self, played: Sequence[Trajectory], scores: Sequence[Any]) -> list[Trajectory]:
        """Only demonstrations that solve their task are imitated; the others are counted aloud."""
        solved = [t for t, s in zip(played, scores, strict=True) if s.usable and (s.outcome or 0.0) >= SUCCESS]
        if not solved:
            problem = next((t.error for t in played if t.error), "none of them solves its task")
            raise RunError(f"none of {len(played)} demonstrations can be used: {problem}")
        if len(solved) < len(played):
            self.console.print(f"{len(played) - len(solved)} of {len(played)} demonstrations do not solve their task")
        return solved

    async def _resume(self, run: Run) -> int:
        """The last complete step; learner, policy and records are put back to it."""
        checkpoints = self._checkpoints()
        done = checkpoints.last() or 0
        store = Store(self.path)
        if aside := store.set_aside_after(done):
            self.console.print(f"resuming after step {done}; steps {aside} were recorded but not finished: set aside")
        JsonlSink(self.folder.metrics).truncate_after(done)
        AlarmLog(self.path).truncate_after(done)
        if done:
            self._watch.replay(recorded(self.path, until=done))
            checkpoints.load(done, run.learner, run.signals.learners)
            await run.policy.publish(run.learner.weights(), done)
        return done

    async def _train(self, run: Run, done: int) -> None:
        config, checkpoints = self.config, self._checkpoints()
        first = config.warm_start.episodes or 0 if config.warm_start else 0
        tasks_at = self.environments.stream(
            per_step=config.train.tasks_per_step,
            seed=derive_seed(config.seed, "tasks"),
            first=self.environments.split(first),
        )
        sink = JsonlSink(self.folder.metrics)
        total = config.train.steps
        with Progress(self.console, self.control or "training") as progress:
            for step in range(done + 1, total + 1):
                metrics = await train_step(run, tasks_at(step), step)
                sink.write(step, metrics)
                if step % config.train.checkpoint_every == 0 or step == total:
                    checkpoints.save(step, run.learner, run.signals.learners)
                progress.step(step, total, metrics)
        sink.close()

    async def _evaluate(self, player: Player, worlds: Any, phase: str) -> None:
        """Unaided, at the training temperature and greedy, on every split; recorded once."""
        recorded = {(e.split, e.temperature) for p, e in read_evaluations(self.path) if p == phase}
        config = self.config
        for label, split, named in self._splits():
            tasks = self.environments.heldout(label, split, config.eval.tasks)
            for temperature, samples in ((config.policy.temperature, config.eval.samples), (0.0, 1)):
                if (named, temperature) in recorded:
                    continue
                tester = player if temperature else player.greedy()
                seed = derive_seed(config.seed, "evaluate", phase, named, str(temperature))
                result, played = await evaluate(
                    tester, worlds, self.environments.score, tasks, split=named, samples=samples, seed=seed
                )
                step = 0 if phase == "before" else config.train.steps
                name = f"{phase}-{named}-{'greedy' if temperature == 0 else 'sampled'}".replace("/", ".")
                store = Store(self.path)
                store.discard(step, name)  # of a run that was killed before the line below
                store.write(step, played, phase=name)
                add_evaluation(self.path, phase, result)

    def _splits(self) -> list[tuple[str, str, str]]:
        """Environment and split of each evaluation, and its name: the split, after the environment's if several."""
        several = len(self.config.env) > 1
        return [
            (label, split, f"{label}:{split}" if several else split)
            for label in self.environments.sections
            for split in self.config.eval.splits
        ]

    def _run_controls(self) -> None:
        """Each control is a run of its own inside this one."""
        config = self.config
        steps = config.control_steps or config.train.steps
        for control in config.controls:
            changes = {
                "folder": self.folder.control(control).path.parent,
                "name": control,
                "controls": (),
                "control_steps": None,
                "train": config.train.model_copy(update={"steps": steps}),
            }
            # without a warm start, every run begins from the named model itself
            start = self.folder.warm_start if config.warm_start else None
            Job(config.model_copy(update=changes), self.console, control=control, start=start).run()

    # --- small parts --------------------------------------------------------------------------------------------------

    def _alarm(self, step: int, alarm: Alarm) -> None:
        """A monitor found something: a line for whoever looks on, and one for the report."""
        self.console.print(console_line(step, alarm), markup=False, highlight=False, soft_wrap=True)
        AlarmLog(self.path).write(step, alarm)

    def _assemble(self, player: Player, learner: Any, worlds: Any, reference: Any, signals: Any) -> Run:
        config = self.config
        return Run(
            player=player,
            worlds=worlds,
            score=self.environments.score,
            guide=NoGuide(),
            credit=self._credit,
            filters=config.train.filters_by_name,
            learner=learner,
            loss=config.loss.policy_loss(config.seed),
            store=Store(self.path),
            group_size=config.train.group_size,
            minibatches=config.train.minibatches,
            aggregate=config.loss.aggregate,
            tolerance=config.learner.tolerance,
            seed=config.seed,
            reference=reference,
            watch=self._watch,
            signals=signals,
        )

    def _claim(self) -> None:
        """Make the run folder, or check that it belongs to this very config; one that never began may have another."""
        text, path = dump(self.config), self.folder.config
        if path.exists() and path.read_text() == text:
            return
        if path.exists() and self.folder.has_begun:
            raise ConfigError(f"'{self.path}' holds a run with other settings; choose another --name")
        self.path.mkdir(parents=True, exist_ok=True)
        write_json_atomic(self.folder.machine, machine())
        write_text_atomic(path, text)

    def _checkpoints(self) -> Checkpoints:
        return Checkpoints(self.folder.checkpoints)
