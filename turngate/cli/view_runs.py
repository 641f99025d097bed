"""``turngate view`` and ``turngate report --html``: the page in which a run explains itself, served or as one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from turngate.errors import ConfigError
from turngate.report.viewer.html_file import write_html
from turngate.report.viewer.live_runs import LiveRuns
from turngate.report.viewer.run_record import RunParts
from turngate.report.viewer.view_server import serve
from turngate.run.assembly.credit import recorded_rule
from turngate.run.replay.known_rubrics import known_rubrics
from turngate.store.folder import RunFolder

PARTS = RunParts(rule_of=recorded_rule, rubrics_of=known_rubrics)


def html_report(console: Console, path: Path, beside: Sequence[Path]) -> None:
    """Write ``report/run.html`` of a run; ``beside``: other runs that can be compared with it there."""
    run = RunFolder(path)
    own = run.stages or [run, *run.controls]
    written = write_html([*own, *map(RunFolder, beside)], run.report / "run.html", PARTS)
    size = f"{written.size / 1e6:.1f} MB"
    sample = "" if written.kept == written.groups else f", with the turns of {written.kept} of {written.groups} groups"
    console.print(f"written: {written.path} ({size}{sample})", markup=False, highlight=False, soft_wrap=True)


def serve_runs(console: Console, folder: Path, port: int) -> None:
    """Serve the page over all runs in a folder until interrupted. Raises ConfigError for a folder without any."""
    runs = LiveRuns(folder, PARTS)
    if not folder.is_dir() or not runs.names():
        raise ConfigError(
            f"'{folder}' holds no run; make one with 'turngate init my.toml' and 'turngate train my.toml', or name the "
            "folder in which your runs are"
        )

    def ready(address: str) -> None:
        console.print(f"{folder}: {len(runs.names())} runs at {address} (Ctrl+C ends it)", markup=False, soft_wrap=True)

    serve(runs, port, ready)
