"""From what a user writes to a rubric: the name of a shipped one, a file, a table, or ``package.module:NAME``.

A table or file may add to another rubric: ``{extends = "sql", gates = [{type = "needs_outcome", at_least = 0.5}]}``.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError
from pydantic_core import PydanticCustomError

from turngate.errors import ConfigError, DataError, UnknownName, UserError
from turngate.jsonl import read_text, toml_of
from turngate.parts import import_object, load_entry_point, plugin_entries
from turngate.problems import one_line
from turngate.rewards import Gate, Reward, Rubric

SHIPPED: Mapping[str, str] = MappingProxyType(
    {
        "lock": "turngate.envs.lock:RUBRIC",
        "sql": "turngate.envs.sql.rubric:RUBRIC",
        "sql_reasoning": "turngate.envs.sql.rubric:REASONING_RUBRIC",
        "code_repair": "turngate.envs.code.rubric:RUBRIC",
        "code_repair_direct": "turngate.envs.code.rubric:DIRECT_RUBRIC",
        "search": "turngate.envs.search.rubric:RUBRIC",
        "search_cited": "turngate.envs.search.rubric:CITED_RUBRIC",
        "search_path": "turngate.envs.search.rubric:PATH_RUBRIC",
        "search_truthful": "turngate.envs.search.rubric:TRUTHFUL_RUBRIC",
        "search_nuggets": "turngate.envs.search.rubric:NUGGET_RUBRIC",
        "tool_use": "turngate.envs.tooluse.rubric:RUBRIC",
        "tool_use_judged": "turngate.envs.tooluse.rubric:JUDGED_RUBRIC",
        "web": "turngate.envs.web.rubric:RUBRIC",
        "web_judged": "turngate.envs.web.rubric:JUDGED_RUBRIC",
        "web_partial": "turngate.envs.web.rubric:PARTIAL_RUBRIC",
        "slides": "turngate.envs.web.rubric:SLIDES_RUBRIC",
        "router": "turngate.envs.router.rubric:RUBRIC",
        "router_window": "turngate.envs.router.rubric:WINDOW_RUBRIC",
        "tau_strict": "turngate.envs.tooluse.rubric:TAU_STRICT_RUBRIC",
        "bfcl": "turngate.envs.tooluse.rubric:BFCL_RUBRIC",
    }
)
"""Names of the rubrics that come with turngate; other packages add theirs as entry points of ``turngate.rubrics``."""

GROUP = "turngate.rubrics"
FILES = (".json", ".toml")


def find_rubric(name: str) -> Rubric:
    """The rubric called ``name``: a shipped one, a ``.json`` or ``.toml`` file, or ``package.module:NAME``.

    Raises UnknownName, DataError for a file that cannot be read, and ConfigError for something that is not a rubric or
    a rubric that contradicts itself.
    """
    return _find(name, ())


def _find(name: str, within: tuple[str, ...]) -> Rubric:
    """``within``: the files that are being read, each of which extends the next."""
    if name.endswith(FILES):
        return _read(name, within)
    plugin = _plugins().get(name)
    if name not in SHIPPED and plugin is not None:
        return _checked(plugin.value, load_entry_point(plugin))
    path = SHIPPED.get(name) or (name if ":" in name else None)
    if path is None:
        raise UnknownName("rubric", name, rubric_names(), hint="or write package.module:NAME, or a .json or .toml file")
    return _checked(path, import_object(path))


def rubric_names() -> tuple[str, ...]:
    """Every name of a rubric that can be written without a path: the shipped ones and those of other packages."""
    return tuple(sorted({*SHIPPED, *_plugins()}))


def _read(path: str, within: tuple[str, ...]) -> Rubric:
    """The rubric in a JSON file, as ``Rubric.model_dump_json`` writes it, or in a TOML file with the same keys.

    Raises DataError for a file that cannot be read as its ending says, and ConfigError, with file and key, for a rubric
    that is wrong or that extends itself by way of the files ``within`` which it is read.
    """
    if path in within:
        raise ConfigError(f"a rubric cannot extend itself: {' extends '.join((*within, path))}")
    text = read_text(Path(path))
    try:
        data = toml_of(text) if path.endswith(".toml") else json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        raise DataError(path, f"is not JSON: {error.msg}", line=error.lineno) from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(path, f"is not TOML: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    try:
        return Rubric.model_validate(_whole(data, (*within, path)))
    except ValidationError as error:
        raise ConfigError(f"{path}: {one_line(error, Rubric, data)}") from error
    except UserError as error:
        raise ConfigError(f"{path}: {error}") from error


def _whole(data: object, within: tuple[str, ...]) -> object:
    """A table of a rubric, with the contents of the rubric that it ``extends``: its own rewards and gates come after
    those, any other key replaces theirs. Raises UserError."""
    if not isinstance(data, Mapping) or "extends" not in data:
        return data
    base, own = data["extends"], {key: value for key, value in data.items() if key != "extends"}
    if not isinstance(base, str):
        raise ConfigError(
            f"extends is {base!r:.80}; it must name a rubric, such as 'sql', a file or package.module:NAME"
        )
    found = _find(base, within).model_dump(mode="json")
    if not any(own.values()):
        raise ConfigError(f"extends = '{base}' adds nothing; name the rubric itself, or add rewards or gates")
    added = {key: [*found[key], *own[key]] for key in ("rewards", "gates") if isinstance(own.get(key), Sequence)}
    return found | own | added


def _without_repeats(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    name, count = next(iter(Counter(key for key, _ in pairs).most_common(1)), ("", 0))
    if count > 1:
        raise ConfigError(f"key '{name}' is written {count} times in one object; keep one")
    return dict(pairs)


def _checked(path: str, found: object) -> Rubric:
    if not isinstance(found, Rubric):
        raise ConfigError(f"'{path}' is {found!r:.80}, which is not a rubric; it must be a turngate.Rubric")
    return found


def _plugins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in plugin_entries(GROUP)}


def _looked_up(value: object) -> object:
    try:
        if isinstance(value, str):
            return find_rubric(value)
        return Rubric.model_validate(_whole(value, ())) if isinstance(value, Mapping) else value
    except UserError as error:  # a UserError would pass through pydantic, which knows the key
        raise PydanticCustomError("part", "{problem}", {"problem": str(error)}) from error


def _as_table(rubric: Rubric | None) -> object:
    return None if rubric is None else rubric.model_dump(mode="json")


NamedRubric: TypeAlias = Annotated[Rubric, BeforeValidator(_looked_up), PlainSerializer(_as_table)]
"""Type of a field that accepts a rubric as a user writes it, and is written back as a table.

So the config of a run keeps the rubric that the run had, also if the file or module changes later.
"""


class RubricAdditions(BaseModel):
    """Additions to any rubric: rewards and gates that come after its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    rewards: tuple[Reward, ...] = ()
    """Further components, for instance one that pays for facts of an examiner."""
    gates: tuple[Gate, ...] = ()
    """Further conditions on payments."""

    def joined(self, rubric: Rubric) -> Rubric:
        """``rubric`` with these. Raises ConfigError for a name that it has already."""
        added = {"rewards": (*rubric.rewards, *self.rewards), "gates": (*rubric.gates, *self.gates)}
        return rubric.model_copy(update=added)
