"""Putting methods into a config, before it is validated.

The settings of a user and of a method are joined in one of four ways:

* only one of them sets a key: it is taken;
* both name a part for one key (``credit``, ``guide`` …), and not the same: refused, because one of them would be lost;
* lists of parts (``examine``, ``auxiliary``, ``train.filters``, ``loss.penalties``, ``loss.correction``): the user's
  and the method's are joined, a part that both have once;
* any other setting, and a part inside of a part (``examine.judge``): the user's counts, and a line at the start of the
  run names the method's value.

Two methods that set one key differently are refused, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from pydantic import Field

from turngate.config.sections import Section
from turngate.errors import ConfigError
from turngate.methods.overlay import PART_KEYS, PART_LISTS, Method, find, parts_in

KEY = "method"
ADDED = "env.rubric_adds.rewards"
"""Rewards that a method adds to the rubric; one that the user pays already is left as it is."""


class MergedMethod(Section):
    """A method that was merged into a config. A config that has it as a table holds the method's settings already, so
    reading it again changes nothing."""

    name: str = Field(min_length=1)
    """Name of the method."""
    instead: tuple[str, ...] = ()
    """Settings of the user's that count instead of the method's, each with both values."""


def merge_methods(data: Mapping[str, object]) -> dict[str, object]:
    """``data`` with the settings of the methods that it names; their names become tables.

    Raises UnknownName, ConfigError for settings that contradict each other, DataError for a file that is no method.
    """
    named = _named(data)
    if not named:
        return dict(data)
    found = [find(name) for name in named]
    if twice := next((name for name in named if named.count(name) > 1), None):
        raise ConfigError(f"method '{twice}' is named twice; name it once")
    for at, one in enumerate(found):
        for other in found[:at]:
            _check_pair(other, one)
    tree: dict[str, object] = dict(data)
    records: list[dict[str, object]] = []
    for name, method in zip(named, found, strict=True):
        instead = list[str]()
        over = _without_paid(deepcopy(dict(method.settings)), data)
        for key, value in over.items():
            tree[key] = _merged(tree[key], value, key, method.name, instead) if key in tree else value
        records.append({"name": name, "instead": instead} if instead else {"name": name})
    return {**tree, KEY: records}


def with_names(data: Mapping[str, object]) -> dict[str, object]:
    """``merge_methods``, but with the names of the methods as they were: for settings that are changed before the
    end."""
    names = _named(data)
    return {**merge_methods(data), KEY: names} if names else dict(data)


def blamed(message: str, methods: Sequence[MergedMethod]) -> str:
    """The needs of the methods whose parts a refusal is about; "" if it is about none of them."""
    found = [find(one.name) for one in methods]
    return "; ".join(_fits_not(method) for method in found if _is_about(message, method))


def refusal(message: str, names: Sequence[str]) -> str:
    """The message about a config that is wrong with these methods and right without them."""
    return f"{'; '.join(_fits_not(find(name)) for name in names)}: {message}"


def names_in(data: Mapping[str, object]) -> list[str]:
    """The names of the methods in ``data``, whether they are merged already or not."""
    value = data.get(KEY)
    listed = value if isinstance(value, list | tuple) else [value]
    return [
        str(one["name"]) if isinstance(one, Mapping) else one
        for one in listed
        if isinstance(one, str) or (isinstance(one, Mapping) and "name" in one)
    ]


def _is_about(message: str, method: Method) -> bool:
    """Whether a message names a part of the method, a key that it sets, or the rubric where it changes that."""
    named = [f"'{kind}'" for _, kind in parts_in(method.settings)] + [key for key, _ in _leaves(method.settings)]
    return any(one in message for one in named) or (message.startswith("the rubric of") and "env" in method.settings)


def _fits_not(method: Method) -> str:
    needs = f", which needs {method.head.needs}," if method.head.needs else ""
    return f"method '{method.name}'{needs} does not fit"


def _named(data: Mapping[str, object]) -> list[str]:
    """The methods that are not merged yet. Values that are no names are left for validation to refuse."""
    value = data.get(KEY)
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(one, str) for one in listed):
        return []
    return list(listed)


def _merged(own: Any, over: Any, path: str, method: str, instead: list[str]) -> Any:
    """The value that counts for one key, the user's or the method's; notes in ``instead`` where the user's differs."""
    if path in PART_LISTS:
        return _joined(own, over, path, method, instead)
    if path == "env":
        tables = own if isinstance(own, list | tuple) else [own]
        found = [_merged_tables(one, over, path, method, instead) for one in tables]
        return found if isinstance(own, list | tuple) else found[0]
    if path == ADDED:
        taken = {_name_of(one) for one in own}
        return [*own, *(one for one in over if _name_of(one) not in taken)]
    if path in PART_KEYS:
        mine, theirs = _part(own), _part(over)
        if mine.get("type") not in (None, theirs.get("type")):
            raise ConfigError(
                f"method '{method}' sets {path} = '{theirs.get('type')}', and the config '{mine['type']}'; leave one "
                f"of them out (on the command line: --{path}={theirs.get('type')})"
            )
        return _merged_tables({**mine, "type": theirs.get("type")}, theirs, path, method, instead)
    if path == "stages":
        if list(map(_name_of, own)) != list(map(_name_of, over)):
            raise ConfigError(f"method '{method}' has stages of its own, and so has the config; leave one of them out")
        pairs = zip(own, over, strict=True)
        return [_merged_tables(one, other, f"stages.{_name_of(one)}", method, instead) for one, other in pairs]
    if isinstance(own, Mapping) and isinstance(over, Mapping) and own.get("type") in (None, over.get("type")):
        return _merged_tables(own, over, path, method, instead)
    if own != over:
        instead.append(f"{path} = {_written(own)} (the method has {_written(over)})")
    return own


def _merged_tables(own: Any, over: Mapping[str, Any], path: str, method: str, instead: list[str]) -> dict[str, Any]:
    if not isinstance(own, Mapping):  # validation refuses it, with its key
        return dict(over)
    tree = dict(own)
    for key, value in over.items():
        tree[key] = _merged(tree[key], value, f"{path}.{key}", method, instead) if key in tree else value
    return tree


def _joined(own: Any, over: Sequence[Any], path: str, method: str, instead: list[str]) -> list[Any]:
    """A list of parts: the user's, then those of the method that the user does not have."""
    mine = [_part(one) for one in (own if isinstance(own, list | tuple) else [own])]
    if not mine and over:
        theirs = _written([_part(one)["type"] for one in over])
        raise ConfigError(
            f"method '{method}' has {path} = {theirs}, and the config sets it to []; leave one of them out"
        )
    if mine and not over:
        instead.append(f"{path} = {_written([one.get('type') for one in mine])} (the method has [])")
    for part in map(_part, over):
        at = next((at for at, one in enumerate(mine) if one.get("type") == part["type"]), None)
        if at is None and len(mine) == 1 and "type" not in mine[0]:  # --examine.judge.url=… without --examine.type
            at = 0
        if at is None:
            mine.append(part)
        else:
            mine[at] = _merged_tables({**mine[at], "type": part["type"]}, part, path, method, instead)
    return mine


def _check_pair(one: Method, other: Method) -> None:
    """Raise ConfigError where two methods set one key to different values, or name different parts for it."""
    values = dict(_leaves(one.settings))
    for key, value in _leaves(other.settings):
        if key in values and values[key] != value:
            raise ConfigError(
                f"methods '{one.name}' and '{other.name}' both set {key}, to {_written(values[key])} and "
                f"{_written(value)}; name one of them"
            )


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        path = f"{prefix}{key}"
        if path in PART_KEYS and isinstance(value, str):
            yield f"{path}.type", value
        elif isinstance(value, Mapping):
            yield from _leaves(value, f"{path}.")
        elif path not in PART_LISTS and path != ADDED:
            yield path, value


def _without_paid(settings: Mapping[str, Any], data: Mapping[str, object]) -> dict[str, Any]:
    """A method's settings without the rewards that the user's own rubric pays already, by their names."""
    env, own = settings.get("env"), data.get("env")
    adds = env.get("rubric_adds") if isinstance(env, Mapping) else None
    rubric = own.get("rubric") if isinstance(own, Mapping) else None
    if not isinstance(adds, Mapping) or not isinstance(rubric, Mapping):
        return dict(settings)
    paid = {_name_of(one) for one in rubric.get("rewards", ())}
    left = {**adds, "rewards": [one for one in adds.get("rewards", ()) if _name_of(one) not in paid]}
    kept = {key: value for key, value in left.items() if value}
    others = {key: value for key, value in env.items() if key != "rubric_adds"} if isinstance(env, Mapping) else {}
    return {**settings, "env": {**others, "rubric_adds": kept} if kept else others}


def _part(value: Any) -> dict[str, Any]:
    """A part as a table: its name alone is its type."""
    return {"type": value} if isinstance(value, str) else dict(value) if isinstance(value, Mapping) else {}


def _name_of(reward: Any) -> Any:
    return reward.get("name", reward.get("type")) if isinstance(reward, Mapping) else reward


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
