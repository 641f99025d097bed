"""``turngate train``: a run from its config to its report."""

from __future__ import annotations

from rich.console import Console

from turngate.commands.report import write_report
from turngate.config import Config
from turngate.run.job import Job


def train(console: Console, settings: Config) -> None:
    """Do what is left of a run, then print its tables and draw its curves."""
    job = Job(settings, console)
    job.run()
    write_report(job.path, console)
