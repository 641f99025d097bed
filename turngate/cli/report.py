"""``turngate report``: print the tables of a run again and redraw its curves, or write its page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turngate.cli import consoles
from turngate.cli.reading_runs import RunPath, reads_runs
from turngate.errors import ConfigError

app = typer.Typer(rich_markup_mode=None)


@app.command()
@reads_runs()
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
    if html:
        from turngate.cli.view_runs import html_report

        html_report(consoles.output(), run, beside or ())
    elif beside:
        raise ConfigError("--beside has no effect without --html; 'turngate compare' prints two runs side by side")
    else:
        from turngate.report.summary import write_report

        write_report(run, consoles.output())
