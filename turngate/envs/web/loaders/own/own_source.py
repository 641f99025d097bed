"""Your own site as ``tasks`` of ``turngate/Web-v1``: ``tasks = {type = "web_site", file = "tasks.jsonl", …}``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationError

from turngate.envs.tasks import TaskList, TaskSource, TaskSourcePart, split_of
from turngate.envs.web.loaders.own.folder_site import HOST
from turngate.envs.web.loaders.own.scenario import PRIVATE_KEY, OwnTask
from turngate.errors import ConfigError, DataError
from turngate.jsonl import read_rows
from turngate.parts import import_object
from turngate.problems import one_line
from turngate.types import JSON, Task

ENV_ID = "turngate/Web-v1"


class WebSite(TaskSourcePart):
    """Your own tasks on your own site: a folder of files, or addresses. Splits: those that the rows name, else train
    and heldout."""

    type: Literal["web_site"] = "web_site"
    kind: ClassVar[str] = "web tasks"
    file: Path
    """JSON lines {"id": …, "prompt": …}, optionally with "start_url", "expected" (an argument for the verifier), "gold"
    (a list of actions that solve it), "target" (CSS selector of the element that has to be clicked), "hints" and
    "split"."""
    verifier: str
    """package.module:function. It takes a ``PageEnd`` and returns True, False or a share from 0 to 1."""
    folder: Path | None = None
    """Files that are served as http://site.test/ in this process."""
    start_url: str = f"http://{HOST}/"
    """The first page, where a row names none."""
    allowed: tuple[str, ...] = ()
    """Hosts on the network that pages may reach (localhost:8000); all others are refused."""
    held_out: int = Field(5, ge=0)
    """Every n-th task goes to heldout, chosen by its id, where a row names no split (5: 20 %); 0 = none."""

    def open(self) -> TaskSource:
        """Raises DataError for a row that cannot be used, ConfigError for a verifier or folder that is none."""
        if not callable(import_object(self.verifier)):
            raise ConfigError(f"tasks.verifier: '{self.verifier}' is no function")
        folder = None if self.folder is None else self.folder_of("folder")
        path = self.file_of("file")
        return TaskList([self._task(row, path, line, folder) for line, row in read_rows(path)])

    def _task(self, row: JSON, path: Path, line: int, folder: Path | None) -> Task:
        known = {"id", "prompt", "start_url", "expected", "gold", "target", "hints", "split"}
        if not isinstance(row, dict) or not isinstance(row.get("id"), str) or not isinstance(row.get("prompt"), str):
            raise DataError(path, "a task needs the texts 'id' and 'prompt'", line=line)
        if strange := sorted(row.keys() - known):
            raise DataError(path, f"unknown key '{strange[0]}'; there are {', '.join(sorted(known))}", line=line)
        data: dict[str, Any] = {name: row[name] for name in ("start_url", "expected", "gold", "target") if name in row}
        data = {"start_url": self.start_url, "allowed": self.allowed, "verifier": self.verifier, **data}
        data["folder"] = None if folder is None else str(folder.resolve())
        try:
            own = OwnTask.model_validate(data)
        except ValidationError as error:
            raise DataError(path, one_line(error, OwnTask, data), line=line) from None
        return Task(
            id=f"site/{row['id']}",
            env_id=ENV_ID,
            prompt=row["prompt"],
            private={PRIVATE_KEY: own.model_dump_json()},
            hints=tuple(row.get("hints", ())),
            split=row.get("split") or split_of(row["id"], self.held_out),
        )
