"""The command line, run in the process of a test."""

import contextlib
import sys
from pathlib import Path

from turngate.cli.main import main


def turngate(*arguments: object) -> int:
    """Its exit code."""
    before = sys.argv
    sys.argv = ["turngate", *map(str, arguments)]
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    finally:
        sys.argv = before
    return 0


def turngate_at(folder: Path, *arguments: object) -> int:
    """The same with ``folder`` as the current one."""
    with contextlib.chdir(folder):
        return turngate(*arguments)
