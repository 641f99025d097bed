"""``turngate envs``: the registered environments."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from turngate.envs.registry import load_plugins, registered
from turngate.report.tables import print_table


def list_envs(console: Console) -> None:
    """Print id and description of every environment, including those of other installed packages."""
    load_plugins()
    table = Table("id", "what it is", box=None)
    for id_, entry in sorted(registered().items()):
        table.add_row(id_, entry.description)
    print_table(console, table)
