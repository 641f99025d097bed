"""The program that ``forked_commands`` starts: it imports what commands need, and forks for each request.

Commands make no figures for their reports, as in other tests of whole runs (``pictures``).
"""

import atexit
import gc
import json
import os
import runpy
import signal
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from tests.helpers.pictures import PLOTS, begin_picture
from turngate.cli.thread_waiting import bound_spinning
from turngate.report import figure, summary

IMPORTED = (
    "torch",
    "torch._dynamo",  # by an optimizer's first step
    "transformers.models.auto.modeling_auto",
    "transformers.models.qwen3.modeling_qwen3",  # a new model's
    "pandas",  # by pyarrow's first array
    "pyarrow.parquet",
    "turngate.run.staged_job",
    "turngate.cli.eval",
)
"""Of these each command needs some, and each takes seconds."""


def serve() -> None:
    """Fork for each request, until nobody can ask any more."""
    bound_spinning(os.environ)
    for name in IMPORTED:
        import_module(name)
    figure.write_png = begin_picture
    for name in PLOTS:
        setattr(summary, name, begin_picture)
    gc.freeze()  # so that a collection in a child does not copy all that was imported
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    while line := requests.readline():
        pid = os.fork()
        if pid == 0:
            out.close()
            requests.close()
            become(json.loads(line))
        out.write(b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        out.write(b"%d\n" % os.waitstatus_to_exitcode(status))


def become(request: Mapping[str, object]) -> NoReturn:
    """The command of a request, to its end; only what was imported is not torn down, which takes seconds."""
    if request["session"]:
        os.setsid()
    folder = Path(str(request["folder"]))
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, folder / "out", os.O_WRONLY | os.O_CREAT),
        (2, folder / "errors", os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    sys.argv = [request["module"], *request["words"]]  # type: ignore[misc]
    code: object = 0
    try:
        runpy.run_module(str(request["module"]), run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    serve()
