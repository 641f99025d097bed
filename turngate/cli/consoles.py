"""Where commands print."""

from __future__ import annotations

import sys

from rich.console import Console


def output() -> Console:
    """A console that breaks lines on a terminal only: in a pipe or a file every line stays whole."""
    return Console(soft_wrap=not sys.stdout.isatty())
