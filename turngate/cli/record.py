"""``turngate record``: what a person does in a browser becomes a task and a demonstration for ``turngate/Web-v1``."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
from rich.console import Console

from turngate.cli import consoles
from turngate.errors import ConfigError
from turngate.run.process.signals import Stopped
from turngate.types import JSON, Task

if TYPE_CHECKING:
    from turngate.envs.web.engine.listening import Heard
    from turngate.envs.web.recording import Demonstration, SiteRecorder

app = typer.Typer(rich_markup_mode=None)
TASKS, DEMONSTRATIONS = "tasks.jsonl", "demonstrations.jsonl"
PAUSE_S = 0.1
NO_VERIFIER = "turngate.envs.web.recording:not_checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSite:
    """Which site is shown. ``url`` "": the first page of ``folder``. ``verifier``: "" = none yet."""

    url: str = ""
    folder: Path | None = None
    allowed: tuple[str, ...] = ()
    verifier: str = ""

    @property
    def start_url(self) -> str:
        """The first page. Raises ConfigError if there is neither address nor folder."""
        from turngate.envs.web.loaders.own.folder_site import HOST

        if not self.url and self.folder is None:
            raise ConfigError("name the site: turngate record URL, or turngate record --folder FOLDER")
        return self.url or f"http://{HOST}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts on the network that its pages may reach."""
        from turngate.envs.web.loaders.own.folder_site import HOST

        try:
            own = urlsplit(self.start_url)
            host = f"{own.hostname}:{own.port}" if own.port else own.hostname
        except ValueError as error:
            raise ConfigError(f"'{self.url}' is not an address: {error}") from None
        if own.scheme not in ("http", "https") or not host:
            raise ConfigError(f"'{self.url}' is not an address; write it as http://HOST/PATH")
        return self.allowed if self.folder is not None and own.hostname == HOST else (host, *self.allowed)

    def table(self, file: Path) -> dict[str, JSON]:
        """``env.tasks`` of a config that plays the tasks of ``file``."""
        found: dict[str, JSON] = {"type": "web_site", "file": str(file), "verifier": self.verifier or NO_VERIFIER}
        if self.folder is not None:
            found["folder"] = str(self.folder)
        return found | {"allowed": list(self.hosts)} if self.hosts else found


@app.command("record")
def record_command(
    prompt: Annotated[str, typer.Option(help="What the task asks for, in the words that an agent will read.")],
    url: Annotated[str, typer.Argument(metavar="[URL]", help="First page; with --folder, its index.html.")] = "",
    folder: Annotated[Path | None, typer.Option(help="Files of a site, shown as http://site.test/.")] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where tasks.jsonl and demonstrations.jsonl are; more are added.")
    ] = Path("recorded"),
    name: Annotated[str, typer.Option("--id", help="Id of the task; else recorded-1 and so on.")] = "",
    verifier: Annotated[str, typer.Option(metavar="MODULE:FUNCTION", help="Says whether the task is solved.")] = "",
    allowed: Annotated[
        list[str] | None, typer.Option(help="Another host that the pages may reach; repeat for more.")
    ] = None,
    answer: Annotated[str, typer.Option(help="What the demonstration answers in the end.")] = "done",
) -> None:
    """Record what you do on a site as a task and a demonstration for turngate/Web-v1.

    A browser opens; the recording ends when its window is closed, or with Ctrl-C. Then the same is played in the
    environment, where elements get their references.
    """
    site = RecordedSite(url=url, folder=folder, allowed=tuple(allowed or ()), verifier=verifier)
    record(consoles.output(), site, out=out, prompt=prompt, name=name, answer=answer)


def record(
    console: Console,
    site: RecordedSite,
    *,
    out: Path,
    prompt: str,
    name: str = "",
    answer: str = "done",
    visible: bool = True,
    person: Callable[[SiteRecorder], None] | None = None,
) -> None:
    """Record one demonstration, and add it to ``tasks.jsonl`` and ``demonstrations.jsonl`` in ``out``.

    It ends when the window is closed or a signal comes; actions until then are kept. ``person``: a function that acts
    in place of a person at the screen. Raises ConfigError for a site that cannot be shown and where there was no
    action.
    """
    from turngate.envs.web.env import WebEnv
    from turngate.envs.web.recording import demonstrate

    tasks = out / TASKS
    start: dict[str, JSON] = {"prompt": prompt, "start_url": site.start_url, "split": "train"}
    row = {"id": _free_name(tasks, name), **start}
    if site.folder is not None and not site.folder.is_dir():
        raise ConfigError(f"'{site.folder}' is no folder; name the folder that holds the files of the site")
    task = _task(site, row)
    heard, stop = _heard(console, task, visible, person)
    if not heard:
        raise ConfigError("nothing was done on the pages, so nothing is kept")
    with closing(WebEnv(max_turns=3 * len(heard) + 10)) as env:
        shown = demonstrate(env, task, heard, answer)
    _append(tasks, row)
    _append(out / DEMONSTRATIONS, {"task": task.id, "actions": list(shown.actions)})
    _tell(console, site, out, task, shown)
    if stop is not None and stop.number != signal.SIGINT:
        raise stop


def _task(site: RecordedSite, row: dict[str, JSON]) -> Task:
    from turngate.envs.web.loaders.own.own_source import ENV_ID
    from turngate.envs.web.loaders.own.scenario import PRIVATE_KEY, OwnTask

    folder = None if site.folder is None else str(site.folder.resolve())
    own = OwnTask(start_url=site.start_url, folder=folder, allowed=site.hosts, verifier=site.verifier or NO_VERIFIER)
    private = {PRIVATE_KEY: own.model_dump_json()}
    return Task(id=f"site/{row['id']}", env_id=ENV_ID, prompt=str(row["prompt"]), private=private)


def _heard(
    console: Console, task: Task, visible: bool, person: Callable[[SiteRecorder], None] | None
) -> tuple[list[Heard], Stopped | None]:
    """The recorded actions, and the signal that ended the recording, if one did."""
    from turngate.envs.web.recording import SiteRecorder

    recorder = SiteRecorder(task, visible=visible)
    try:
        console.print(f"recording '{task.prompt}'; it ends with the window, or with Ctrl-C here", markup=False)
        if person is not None:
            person(recorder)
            return recorder.heard, None
        while recorder.goes_on():
            time.sleep(PAUSE_S)
        return recorder.heard, None
    except Stopped as stop:
        return recorder.heard, stop
    finally:
        recorder.close()


def _free_name(tasks: Path, wanted: str) -> str:
    from turngate.jsonl import read_rows

    rows = [row for _, row in read_rows(tasks)] if tasks.exists() else []
    taken = {row.get("id") for row in rows if isinstance(row, dict)}
    if wanted in taken:
        raise ConfigError(f"'{tasks}' holds a task '{wanted}' already; choose another --id, or another --out")
    return wanted or next(name for number in count(1) if (name := f"recorded-{number}") not in taken)


def _append(path: Path, row: dict[str, JSON]) -> None:
    from turngate.store import write_text_atomic

    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    before = before if not before or before.endswith("\n") else before + "\n"
    write_text_atomic(path, before + json.dumps(row, ensure_ascii=False) + "\n")


def _tell(console: Console, site: RecordedSite, out: Path, task: Task, shown: Demonstration) -> None:
    from turngate.envs.web.env import WebEnv
    from turngate.envs.web.loaders.own.own_source import ENV_ID

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    for action in shown.actions:
        say(f"  {action}")
    if shown.problem:
        say(f"{shown.left_out} things that were done after these are left out: {shown.problem}")
    if site.verifier and shown.outcome is not None:
        solved = "" if shown.outcome == 1 else "; it does not solve the task, so look at it before a model imitates it"
        say(f"played again in {ENV_ID}: outcome {shown.outcome:g}{solved}")
    elif not site.verifier:
        say("whether they solve the task was not measured; name a function with --verifier MODULE:FUNCTION")
    if len(shown.actions) > WebEnv.turn_spec.max_turns:
        say(f"set env.kwargs.max_turns = {len(shown.actions)} or more: that many turns are needed")
    table = ", ".join(f"{key} = {json.dumps(value)}" for key, value in site.table(out / TASKS).items())
    say(f"added '{task.id}' to {out / TASKS} and {out / DEMONSTRATIONS}; in a config:")
    say(f"  env.tasks = {{{table}}}")
    say(f"  warm_start.demonstrations = {json.dumps(str(out / DEMONSTRATIONS))}")
