"""``turngate view``: the page over all runs of a folder, see ``view_runs``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turngate.cli import consoles
from turngate.cli.reading_runs import reads_runs
from turngate.servers import VIEW_PORT

app = typer.Typer(rich_markup_mode=None)


@app.command()
@reads_runs()
def view(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="A folder of runs, or a run.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0 takes a free one.")] = VIEW_PORT,
) -> None:
    """Show all runs of a folder in a browser on this machine, also while they write."""
    from turngate.cli.view_runs import serve_runs

    serve_runs(consoles.output(), folder, port)
