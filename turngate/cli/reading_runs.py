"""The commands that read recorded runs. Each imports its modules when it is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from turngate.cli import consoles

app = typer.Typer(rich_markup_mode=None)
Trust: TypeAlias = Annotated[
    bool, typer.Option("--trust", help="Import code that the run names. Without it, looking at a run executes nothing.")
]


def reads_runs(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with an option --trust, without which it imports nothing that a run names."""

    @functools.wraps(command)
    def guarded(*, trust: bool = False, **options: object) -> None:
        from turngate.config.run_config import reading_runs

        with reading_runs(trust=trust):
            command(**options)

    own = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("trust", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Trust)
    guarded.__signature__ = own.replace(parameters=[*own.parameters.values(), option])  # type: ignore[attr-defined]
    guarded.__annotations__ = {**command.__annotations__, "trust": Trust}
    return guarded


RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, for instance runs/NAME.")]


@app.command()
@reads_runs
def show(
    run: RunPath,
    trajectory: Annotated[str, typer.Option(help="Id of a trajectory; without it, ids are listed.")] = "",
    step: Annotated[int | None, typer.Option(min=0, help="List the trajectories of this step.")] = None,
    screenshots: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With --trajectory: write its images, with a ring where it pointed."),
    ] = None,
) -> None:
    """Print a recorded episode turn by turn. Shows what was measured, earned, paid after gates and credited."""
    from turngate.cli.show import list_trajectories, show_trajectory
    from turngate.errors import ConfigError

    console = consoles.output()
    if trajectory:
        show_trajectory(console, run, trajectory, screenshots=screenshots)
    elif screenshots is not None:
        raise ConfigError("--screenshots needs --trajectory ID; 'turngate show RUN' lists the ids")
    else:
        list_trajectories(console, run, step)


@app.command()
@reads_runs
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
    from turngate.cli.credit import credit_again, probe_turn
    from turngate.config.run_config import parse_table
    from turngate.errors import ConfigError

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


@app.command()
@reads_runs
def rescore(
    run: RunPath,
    rubric: Annotated[
        str,
        typer.Option(metavar="RUBRIC", help="Name of a shipped rubric, a JSON or TOML file, or package.module:NAME."),
    ],
    write: Annotated[
        str, typer.Option(metavar="NAME", help="Scores go to RUN/rescored/NAME; named after the rubric if not given.")
    ] = "",
    phase: Annotated[
        str, typer.Option(help="Episodes to score: train, or an evaluation such as after-heldout-greedy.")
    ] = "train",
) -> None:
    """Score the recorded episodes of a run by another rubric. Prints how the payments differ; needs no model."""
    from turngate.cli.rescore import rescore_command

    rescore_command(consoles.output(), run, rubric, name=write, phase=phase)


@app.command()
@reads_runs
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run, or a folder with trajectories/.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one, or the same with --other.")],
    phase: Annotated[
        str, typer.Option(help="Episodes to compare, such as before-heldout-greedy; else the last evaluations of both.")
    ] = "",
    other: Annotated[str, typer.Option(help="Phase of B, if not that of A.")] = "",
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the differences into this file.")] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write everything into this file.")] = None,
) -> None:
    """Compare two runs on the same tasks: success, rewards, turns, tokens, and which tasks changed sides.

    Episodes are paired by task and seed; every difference has a 95 % interval over distinct questions.
    """
    from turngate.cli.compare_runs import compare_runs

    compare_runs(consoles.output(), a, b, phase=phase, other=other, png=png, json=json)


@app.command()
@reads_runs
def ope(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A run, or its folder trajectories.")],
    policy: Annotated[
        str,
        typer.Option(
            metavar="MODEL", help="A run, RUN/checkpoints/step=…, a model folder, or a name on the Hugging Face hub."
        ),
    ],
    phase: Annotated[
        str, typer.Option(help="Episodes to judge by: train, or a sampled evaluation such as before-heldout-sampled.")
    ] = "train",
    temperature: Annotated[
        float | None, typer.Option(help="Of the policy to judge; that of its own run, else of the episodes.")
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="Episodes that may be left out: guided, branched; repeat for both.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other resamples for the intervals.")] = 0,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write everything into this file.")] = None,
) -> None:
    """Judge a policy by recorded episodes of another one, without playing it (off-policy evaluation).

    Prints importance-sampling, doubly robust and fitted-Q estimates with intervals, and the reason for each that the
    episodes cannot carry. Exit code 1 if they carry none.
    """
    from turngate.cli.ope import judge_offline

    told = judge_offline(
        consoles.output(),
        store,
        policy,
        phase=phase,
        temperature=temperature,
        leave_out=leave_out or (),
        seed=seed,
        json=json,
    )
    raise typer.Exit(0 if told else 1)


@app.command()
@reads_runs
def replay(
    run: RunPath,
    phase: Annotated[str, typer.Option(help="Episodes to replay: train, or an evaluation; else all phases.")] = "",
    step: Annotated[int | None, typer.Option(min=0, help="Replay the episodes of this step only.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Most episodes to replay.")] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write everything into this file.")] = None,
    branch_at: Annotated[int | None, typer.Option(min=0, help="A turn from which --policy goes on.")] = None,
    policy: Annotated[str, typer.Option(metavar="MODEL", help="With --branch-at: a run, checkpoint or model.")] = "",
    episode: Annotated[str, typer.Option(metavar="ID", help="With --branch-at: this episode only.")] = "",
    samples: Annotated[int, typer.Option(min=1, help="With --branch-at: continuations of each episode.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="With --branch-at: another seed samples others.")] = 0,
    out: Annotated[Path | None, typer.Option(help="With --branch-at: new folder; else RUN/continued/NAME.")] = None,
    update: Annotated[int | None, typer.Option(min=1, help="Learn this training step again.")] = None,
) -> None:
    """Carry out the recorded actions of a run again and compare turn by turn what its environments do.

    Observations, state keys, evidence, endings and scores have to be the same, character by character. With --branch-at
    another policy goes on from a turn; with --update a training step is learned again from the checkpoint before it,
    and weights and metrics are compared bit for bit. Exit code 1 if something differs.
    """
    from turngate.cli.replay_choice import Branching, replay_command

    branching = Branching(at=branch_at, policy=policy, episode=episode, samples=samples, seed=seed, out=out)
    same = replay_command(
        consoles.output(), run, branching, update=update, phase=phase, step=step, limit=limit, json=json
    )
    raise typer.Exit(0 if same else 1)


@app.command()
@reads_runs
def export(
    run: RunPath,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder for the model.")],
    best: Annotated[
        bool, typer.Option("--best", help="The best validated step of a run with [train.validation].")
    ] = False,
    adapter: Annotated[
        bool, typer.Option("--adapter", help="The adapter alone, of a run with learner.lora, as peft reads it.")
    ] = False,
) -> None:
    """Write the trained model of a run as a Hugging Face folder, with a model card.

    The folder has weights, tokenizer, chat template, generation settings with the tokens that end a turn, and a
    README.md that states data, rubric, settings and results. It loads with transformers alone; an adapter, with peft.
    """
    from turngate.cli.export import export

    export(consoles.output(), run, out, best=best, adapter=adapter)


@app.command()
@reads_runs
def report(
    run: RunPath,
    html: Annotated[
        bool, typer.Option("--html", help="Write RUN/report/run.html: one file with every page, for any browser.")
    ] = False,
    beside: Annotated[
        list[Path] | None, typer.Option(metavar="RUN", help="With --html: a run to compare with; may be repeated.")
    ] = None,
) -> None:
    """Print the tables of a run again and redraw its curves; or write the page in which it explains itself."""
    from turngate.cli.report import report
    from turngate.errors import ConfigError

    if html:
        from turngate.cli.view_runs import html_report

        html_report(consoles.output(), run, beside or ())
    elif beside:
        raise ConfigError("--beside has no effect without --html; 'turngate compare' prints two runs side by side")
    else:
        report(consoles.output(), run)


@app.command()
@reads_runs
def view(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="A folder of runs, or a run.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0 takes a free one.")] = 8765,
) -> None:
    """Show all runs of a folder in a browser on this machine, also while they write."""
    from turngate.cli.view_runs import view

    view(consoles.output(), folder, port)
