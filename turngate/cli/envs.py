"""``turngate envs``: the registered environments."""

from __future__ import annotations

import typer
from rich.table import Table

from turngate.cli import consoles
from turngate.envs.registry import load_plugins, registered

app = typer.Typer(rich_markup_mode=None)


@app.command()
def envs() -> None:
    """List the registered environments."""
    from turngate.report.tables import print_table

    load_plugins()
    table = Table("id", "what it is", box=None)
    for id_, entry in sorted(registered().items()):
        table.add_row(id_, entry.description)
    print_table(consoles.output(), table)
