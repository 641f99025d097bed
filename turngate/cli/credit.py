"""``turngate credit``: apply another credit rule to a recorded step, or see which tokens learn from one reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from turngate.cli import consoles
from turngate.cli.reading_runs import RunPath, reads_runs
from turngate.errors import ConfigError, StoreError
from turngate.types import JSON, ScoredGroup

if TYPE_CHECKING:
    from turngate.config.run_config import Config
    from turngate.store.folder import RunFolder

app = typer.Typer(rich_markup_mode=None)


@app.command()
@reads_runs(weights_with=("probe",))
def credit(
    run: RunPath,
    method: Annotated[str, typer.Option(help="Credit rule to apply, for instance gigpo.")],
    settings: Annotated[
        str, typer.Option(help="Settings of the rule as a TOML inline table, such as {gamma = 0.9}.")
    ] = "{}",
    step: Annotated[int | None, typer.Option(min=0, help="Training step; the last one if not given.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many turns to list.")] = 20,
    probe: Annotated[
        int | None, typer.Option(min=0, help="Number of a turn: change its reward, and print whose gradient changes.")
    ] = None,
    trajectory: Annotated[str | None, typer.Option(help="With --probe: id of the turn's trajectory.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="With --probe: what is added to the reward; 1 if not given.")
    ] = None,
    earned: Annotated[
        bool, typer.Option("--earned", help="With --probe: change the process reward before gates, not what was paid.")
    ] = False,
) -> None:
    """Apply another credit rule to a recorded step.

    Lists the turns whose credit differs most from that of the run's own rule. With --probe and --trajectory: which
    tokens learn from the reward of one turn.
    """
    from turngate.config.run_config import parse_table

    arguments = parse_table("settings", settings)
    if (probe is None) != (trajectory is None):
        raise ConfigError("--probe TURN and --trajectory ID go together; 'turngate show RUN' lists the ids")
    if probe is None or trajectory is None:
        if delta is not None or earned:
            raise ConfigError("--delta and --earned have no effect without --probe")
        credit_again(consoles.output(), run, method, settings=arguments, step=step, top=top)
        return
    if step is not None:
        raise ConfigError("--step has no effect with --probe: the trajectory says which step it was played in")
    probe_turn(
        consoles.output(),
        run,
        method,
        settings=arguments,
        trajectory=trajectory,
        turn=probe,
        delta=1.0 if delta is None else delta,
        earned=earned,
        top=top,
    )


def credit_again(
    console: Console, path: Path, method: str, *, settings: dict[str, JSON], step: int | None, top: int
) -> None:
    """Apply the rule ``method`` to a recorded step (the last one if not given) and compare it with the run's own rule.

    Prints the ``top`` turns whose credit differs most. Raises ConfigError, StoreError if the step has no usable group.
    """
    import numpy as np

    from turngate.report.credits import show_moves
    from turngate.run.assembly.credit import recorded_rule
    from turngate.store import Store
    from turngate.store.folder import RunFolder
    from turngate.trainer.batch.episode_credit import recorded_columns
    from turngate.trainer.batch.pack import by_turn
    from turngate.trainer.credit.rule import CreditRule
    from turngate.trainer.filters.parts import keep

    run = RunFolder.of(path)
    store, recorded = Store(path), recorded_rule(run)
    at = store.last_step() if step is None else step
    if at is None:
        raise ConfigError(f"'{path}' holds no training steps yet")
    kept, _ = keep(list(store.read(at, "train")), {}, lone=recorded.imitates)
    if not kept:
        raise StoreError(f"step {at} holds no group with two usable trajectories; try another --step")
    learned, _ = keep(kept, recorded.filters, lone=recorded.imitates)
    told = f"step {at}, {len(kept)} groups, of which {len(learned)} passed the filters"
    credits = store.credit(at)
    taught = [trajectory.id for group in learned for trajectory in group.trajectories]
    is_recorded = bool(taught) and set(taught) <= credits.keys()
    measured = recorded_columns([credits[name] for name in taught]) if is_recorded else {}
    rule, own = CreditRule.named(method, settings, measured), recorded.rule
    if own is None and not is_recorded:
        lacks = " and that this run did not record" if taught else f", and step {at} learned from no episode"
        raise ConfigError(
            f"the run's own credit rule '{recorded.name}' reads values that only training measures{lacks}, so it "
            "cannot be compared with another; try another --step"
        )
    by_record = own is None or bool(rule.reads(measured, branching=True) & measured.keys())
    if by_record:  # what training measured is known of the episodes that it learned from
        kept, told = learned, f"{told}; compared are these"
    console.print(told, highlight=False)
    table = recorded.table(kept)
    trajectories = [trajectory for group in kept for trajectory in group.trajectories]
    if by_record:
        table = replace(table, measured={**table.measured, **measured})
        old_N = np.concatenate([credits[trajectory.id].advantage_T for trajectory in trajectories])
    else:
        assert own is not None
        old_N = by_turn(own(table), table.n_turns)
        if recorded.note:
            console.print(recorded.note, markup=False, highlight=False, soft_wrap=True)
    before, after = (recorded.name, old_N), (method, by_turn(rule(table), table.n_turns))
    show_moves(console, trajectories, table.reward_N, before, after, whose=recorded.whose, top=top)


def probe_turn(
    console: Console,
    path: Path,
    method: str,
    *,
    settings: dict[str, JSON],
    trajectory: str,
    turn: int,
    delta: float,
    earned: bool,
    top: int,
) -> None:
    """Add ``delta`` to the reward of one recorded turn and print which turns' gradients change, and which should.

    The gradient is that of the run's loss over the whole step in which the trajectory was played, computed with the
    weights that played it if a checkpoint still has them. ``earned``: change the process reward before gates instead of
    the payment.
    """
    from turngate.config.run_config import load_run
    from turngate.report.probes import show_probe
    from turngate.run.assembly.credit import recorded_rule
    from turngate.store import Store
    from turngate.store.folder import RunFolder
    from turngate.trainer.batch.contexts import without_hints
    from turngate.trainer.batch.pack import by_turn
    from turngate.trainer.checks.gradient_probe import probe_gradient
    from turngate.trainer.credit.rule import CreditRule
    from turngate.trainer.filters.parts import keep

    rule = CreditRule.named(method, settings)
    run = RunFolder.of(path)
    store, config = Store(path), load_run(run)
    at, _, _ = store.find(trajectory)
    if at not in store.steps():
        raise ConfigError(
            f"'{trajectory}' was played in an evaluation, from which nothing is learned; name a trajectory of training"
        )
    if note := recorded_rule(run).note:
        raise ConfigError(f"step {at} cannot be probed: {note}")
    reset = config.train.reset_reference
    if config.loss.needs_reference and reset is not None and at > reset:
        raise ConfigError(
            f"step {at} cannot be probed: the loss compared with the policy after step {reset} "
            "(train.reset_reference), whose weights are not kept; name a trajectory of an earlier step"
        )
    kept, _ = keep(list(store.read(at, "train")), config.filters, lone=config.credit.imitates)
    if trajectory not in {one.id for group in kept for one in group.trajectories}:
        raise ConfigError(
            f"nothing was learned from '{trajectory}' in step {at}: it was not usable, or one of the filters "
            f"{', '.join(config.filters) or '(none)'} dropped it; name another"
        )
    kept = without_hints(kept)
    learner, whose = _learner_at(run, config, at)
    console.print(f"step {at}, {len(kept)} groups; gradient by {whose}", highlight=False)
    loss, aggregate = config.loss.policy_loss(config.seed), config.loss.aggregate
    found = probe_gradient(
        learner,
        kept,
        lambda table: by_turn(rule(table), table.n_turns),
        loss,
        trajectory=trajectory,
        turn=turn,
        delta=delta,
        aggregate=aggregate,
        column="process_N" if earned else "reward_N",
        measured=_measured(run, config, learner, loss, kept),
    )
    what = "to the process reward, before gates, of" if earned else "to what was paid for"
    console.print(f"{delta:+g} {what} turn {turn} of {trajectory}:", markup=False, highlight=False)
    show_probe(console, found, name=method, top=top)


def _learner_at(run: RunFolder, config: Config, step: int) -> tuple[Any, str]:
    """A learner with the weights that played ``step``, or else the nearest later ones; and words for which they are."""
    from turngate.run.assembly.learners import learner_of
    from turngate.run.assembly.models import load_model
    from turngate.run.assembly.target_policy import started_from
    from turngate.trainer.checkpoint import Checkpoints

    if step == 1:
        return learner_of(config, load_model(started_from(run, config))[0]), "the weights that played it"
    checkpoints = Checkpoints(run.checkpoints)
    kept = [known for known in checkpoints.steps() if known >= step - 1]
    if kept:
        learner = learner_of(config, load_model(started_from(run, config))[0])
        checkpoints.load(kept[0], learner)
        played = kept[0] == step - 1
        return learner, "the weights that played it" if played else f"the weights after step {kept[0]}"
    if not run.is_complete:
        raise StoreError(
            f"'{run.path}' has no weights to compute a gradient with: no checkpoint of step {step - 1} or later and "
            "no finished model"
        )
    return learner_of(config, load_model(str(run.model))[0]), "the weights at the end of the run"


def _measured(run: RunFolder, config: Config, learner: Any, loss: Any, groups: Sequence[ScoredGroup]) -> Any:
    """The columns that the loss needs, measured by the learner itself and by the model that the run began from."""
    import numpy as np

    from turngate.run.assembly.learners import reference_of
    from turngate.run.assembly.models import load_model
    from turngate.run.assembly.target_policy import started_from
    from turngate.trainer.batch.pack import pack
    from turngate.trainer.learner import measured_for
    from turngate.trainer.signals.said_thoughts import thought_marks

    n_turns = sum(len(trajectory.turns) for group in groups for trajectory in group.trajectories)
    batch = pack(groups, np.zeros(n_turns, np.float32))
    needed = config.loss.needs_reference
    reference = reference_of(config, load_model(started_from(run, config))[0]) if needed else None
    columns = measured_for(loss, batch, learner, reference)
    if config.loss.needs_thoughts:
        model, tokenizer = load_model(started_from(run, config))
        trajectories = [trajectory for group in groups for trajectory in group.trajectories]
        columns["thought_L"] = thought_marks(trajectories, config.policy.chat(model, tokenizer))
    return columns
