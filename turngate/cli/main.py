"""The command line. An error is printed as one line on stderr, and torch is not imported to find it.

Exit codes: 0 done; 1 a check that failed, a run that had to stop, a bug; 2 a mistake of the user; 130 and 143 ended by
SIGINT and SIGTERM.
"""

from __future__ import annotations

import os
import sys
import traceback
from functools import cache
from io import TextIOWrapper
from itertools import takewhile
from typing import Annotated

import typer
from rich.console import Console

from turngate import __version__
from turngate.cli import (
    check,
    compare_runs,
    credit,
    data,
    doctor,
    envs,
    eval_options,
    explain,
    export,
    fetch_model,
    hints,
    init,
    judge_check,
    methods,
    ope,
    plan,
    play,
    record,
    replay_choice,
    report,
    rescore,
    serve_search,
    show,
    tasks,
    tools,
    train,
    view_folder,
)
from turngate.cli.crash import crash_line, culprit
from turngate.cli.reading_runs import refuse_addresses
from turngate.cli.thread_waiting import bound_spinning
from turngate.errors import TurngateError, UserError
from turngate.run.process.signals import Stopped, stopping_in_order

app = typer.Typer(
    help="Train tool-using agents over many turns.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
COMMANDS = (
    *(train, eval_options, doctor, plan, fetch_model, explain, envs, methods),
    *(check, play, record, hints, judge_check, init, tools, serve_search),
    *(show, credit, rescore, compare_runs, ope, replay_choice, export, report, view_folder),
    *(tasks, data),
)
"""The modules that declare a command, in the order in which ``turngate --help`` lists them."""
for command in COMMANDS:
    app.add_typer(command.app)
refuse_addresses(app)


@cache
def _command() -> typer.core.TyperGroup:
    return typer.main.get_group(app)


def main() -> None:
    """Entry point of the command ``turngate``."""
    bound_spinning(os.environ)
    sys.argv = [_as_utf_8(word) for word in sys.argv]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a letter that a terminal lacks is shown as ?
    try:
        with stopping_in_order():
            _command()()
    except Stopped as stop:
        _end(stop, str(stop), stop.code)
    except UserError as error:
        _end(error, f"error: {error}", 2)
    except TurngateError as error:
        _end(error, f"{type(error).__name__}: {error}", 1)
    except OSError as error:
        _end(error, f"error: {_os_problem(error)}", 1)
    except Exception as error:
        _end(error, crash_line(error), 1)
    except BaseException as error:
        if culprit(error) is None:  # the end of a command; else a user's code called sys.exit() or the like
            raise
        _end(error, crash_line(error), 1)


def _as_utf_8(word: str) -> str:
    """An argument as UTF-8, also where the locale knows ASCII alone."""
    return os.fsencode(word).decode("utf-8", errors="replace")


def _end(error: BaseException, line: str, code: int) -> None:
    if "--debug" in takewhile(lambda word: word.startswith("-"), sys.argv[1:]):
        traceback.print_exception(error)
    line = _printable("; ".join([line, *getattr(error, "__notes__", ())]))
    Console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)


def _printable(line: str) -> str:
    """A line without characters that break it, move the cursor or reverse the writing direction: values hold any."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)


def _os_problem(error: OSError) -> str:
    """The system's reason, with the file that it is about."""
    said = error.strerror or str(error) or type(error).__name__
    return said if error.filename is None else f"'{error.filename}': {said}"


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"turngate {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error too.")] = False,
) -> None:
    """Train tool-using agents over many turns."""
