"""``turngate data``: episodes in the formats of others, in both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turngate.cli import consoles
from turngate.cli.reading_runs import reads_runs

app = typer.Typer(
    name="data",
    help="Export and import episodes in the formats of others.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("export")
@reads_runs()
def export_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or of an import.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="sft: messages to imitate; pairs: chosen and rejected (DPO); kto: completions with a label; atif: "
            "everything, as Harbor's trajectories; chat: OpenAI's messages.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="New file of JSON lines; RUN/exported/PHASE-FORMAT.jsonl.")
    ] = None,
    phase: Annotated[
        str, typer.Option(help="Episodes to export: train, or an evaluation such as after-heldout-greedy.")
    ] = "train",
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Only episodes of which this holds, such as 'turns <= 4'; repeat for more. Names: success, outcome, "
            "paid, turns, tokens, guided, and components of the rubric.",
        ),
    ] = None,
    min_paid: Annotated[float | None, typer.Option(help="Only episodes that were paid at least so much.")] = None,
    most: Annotated[int, typer.Option(min=0, help="Most rows of one task; 0 = all.")] = 0,
    copies: Annotated[
        bool, typer.Option("--copies", help="sft: also episodes of a task with the same actions as another.")
    ] = False,
    hints: Annotated[
        str, typer.Option(help="Episodes with a hint: strip the hint, or leave-out the episode.")
    ] = "strip",
    min_gap: Annotated[
        float | None, typer.Option(min=0, help="pairs: how much more the chosen side was paid; else success, failure.")
    ] = None,
    one_turn: Annotated[
        bool, typer.Option("--one-turn", help="pairs: the first turn that differs alone, without what follows.")
    ] = False,
) -> None:
    """Write recorded episodes as JSON lines for other trainers and tools.

    sft has successes alone unless --where or --min-paid says what else. Private data of tasks is not recorded, so it is
    in no export.
    """
    from turngate.cli.data_export import Selection, export_data

    chosen = Selection(
        phase=phase,
        where=tuple(where or ()),
        min_paid=min_paid,
        most=most,
        copies=copies,
        hints=hints,
        min_gap=min_gap,
        one_turn=one_turn,
    )
    export_data(consoles.output(), run, to, out, chosen)


@app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file, or a folder of .json, .jsonl or .eval files.")],
    format: Annotated[
        str,
        typer.Option(
            "--from", metavar="FORMAT", help="chat (OpenAI), atif (Harbor), trl, verifiers, inspect, training-trace."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="RUN", help="New folder, which other commands read like a run.")],
    phase: Annotated[str, typer.Option(help="Phase that the episodes are recorded as.")] = "train",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave records out that cannot be read, and name them.")
    ] = False,
    tokenizer: Annotated[
        str, typer.Option(metavar="MODEL", help="Make missing token ids with this model's chat template.")
    ] = "",
    temperature: Annotated[
        float | None, typer.Option(min=0, help="At which the episodes were sampled; turngate ope needs it.")
    ] = None,
) -> None:
    """Read a log of another tool, so that show, rescore, credit, ope, compare and data export work on it.

    All of it is read, or nothing. Nothing in the file is executed, and no address in it is fetched.
    """
    from turngate.cli.data_import import import_log

    import_log(
        consoles.output(),
        file,
        format,
        out,
        phase=phase,
        skip_bad=skip_bad,
        tokenizer=tokenizer,
        temperature=temperature,
    )
