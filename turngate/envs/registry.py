"""Environments by name: ``register`` stores data, ``make`` builds.

The registry is gymnasium's own, so ``turngate.make("turngate/Sql-v1")`` and ``gymnasium.make("turngate/Sql-v1")`` are
the same thing. It is stricter than gymnasium: a taken id raises instead of being overwritten, every id carries a
version, a misspelt id or argument is answered with the closest one, and plugins are loaded.

A plugin is a package that declares an entry point in the group ``turngate.envs``, a callable that registers:

    [project.entry-points."turngate.envs"]
    acme = "acme_envs:register_all"

Plugins load once, when an id is not known without them. If one fails, a warning names it and the others load all the
same.

An environment of a single file needs no plugin. ``order:acme/Order-v0`` is the id ``acme/Order-v0``, once the module
``order`` is imported, also from the current folder. It is gymnasium's own form, and can be written wherever an id can;
the environment, its tasks and messages about it have the id alone.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import re
import threading
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

import gymnasium

from turngate.envs.base import TurnEnv
from turngate.envs.named_module import module_of_id
from turngate.errors import ConfigError, DuplicateName, TurngateError, UnknownName, UserError
from turngate.foreign import described, guarded, is_own, staying

PLUGIN_GROUP = "turngate.envs"

_ID = re.compile(r"(?P<base>[A-Za-z0-9_-]+/[A-Za-z0-9_.-]+)-v(?P<version>0|[1-9][0-9]*)")
_ENTRY_POINT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """One entry of the registry: data only, nothing is imported before ``make``."""

    id: str
    entry_point: str
    kwargs: Mapping[str, object] = field(default_factory=dict)
    description: str = ""


@dataclass(slots=True)
class _Plugins:
    """Whether plugins were loaded, and the error of each that failed, by its name."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    loaded: bool = False
    failed: dict[str, str] = field(default_factory=dict)


_registered: dict[str, Registered] = {}
_plugins = _Plugins()


def register(id: str, entry_point: str, *, kwargs: Mapping[str, object] | None = None, description: str = "") -> None:
    """Register an environment under ``namespace/Name-vN``.

    ``entry_point`` is ``"module:Class"``, which ``make`` imports; ``kwargs`` are default arguments of the class. Raise
    the version N with any change to tasks, tools or the meaning of a reward. Raises ConfigError for an id or entry
    point of another form, DuplicateName for an id that is taken.
    """
    if not _ID.fullmatch(id):
        raise ConfigError(f"environment id '{id}' must look like 'namespace/Name-vN', for instance 'acme/Shop-v0'")
    if not isinstance(entry_point, str) or not _ENTRY_POINT.fullmatch(entry_point):
        raise ConfigError(f"entry point {entry_point!r} of '{id}' must look like 'package.module:ClassName'")
    if taken := gymnasium.registry.get(id):
        mend = "raise the version or rename it"
        if taken.entry_point == entry_point:
            name = entry_point.split(":")[1]
            mend = f'if its file ran as a script and was then imported, register it as f"{{__name__}}:{name}"'
        raise DuplicateName(f"environment id '{id}' is taken by '{taken.entry_point}'; {mend}")
    defaults = dict(kwargs or {})
    gymnasium.register(id, entry_point, order_enforce=False, disable_env_checker=True, kwargs=defaults)
    _registered[id] = Registered(id=id, entry_point=entry_point, kwargs=defaults, description=description)


def registered() -> dict[str, Registered]:
    """Every environment that ``make`` can build, by id, in alphabetical order. Loads the plugins."""
    load_plugins()
    return dict(sorted(_registered.items()))


def make(id: str, **kwargs: Any) -> TurnEnv:
    """Build the environment ``id``, also ``module:id``. ``kwargs`` go to its class and override the registered ones.

    Raises UnknownName for the id or its module, ConfigError for an argument that the class does not take, an entry
    point or module that cannot be imported, MissingExtra for an optional dependency.
    """
    entry = find(id)
    _check_arguments(entry.id, creator(entry), {**entry.kwargs, **kwargs})
    with staying():
        env = gymnasium.make(entry.id, **kwargs).unwrapped
    if not isinstance(env, TurnEnv):
        built = type(env).__name__
        raise ConfigError(f"entry point '{entry.entry_point}' of '{entry.id}' built a {built}, not a TurnEnv")
    return env


def id_alone(id: str) -> str:
    """``id`` without the module that is to be imported first: the id that is registered."""
    return id.rpartition(":")[2]


def find(id: str) -> Registered:
    """The entry of ``id``. Imports the module of ``module:id``; loads the plugins if the id is not known without them.

    Raises UnknownName for the id or the module, ConfigError for a module that fails on import or registers nothing.
    """
    before, own = set(_registered), id_alone(id)
    module = module_of_id(id) if ":" in id else None
    if own not in _registered:
        load_plugins()
    if own in _registered:
        return _registered[own]
    raise _unknown(own) if module is None else _not_in(module, own, _registered.keys() - before)


def load_plugins() -> None:
    """Let every installed plugin register its environments, once per process. A warning names a plugin that fails."""
    with _plugins.lock:
        if _plugins.loaded:
            return
        _plugins.loaded = True  # first, so that a plugin which calls make() does not load itself again
        for plugin in entry_points(group=PLUGIN_GROUP):
            try:
                registers = plugin.load()
                if not callable(registers):
                    raise ConfigError(f"it names a module; name a function in it that registers: {plugin.value}:NAME")
                registers()
            except BaseException as error:  # it must not hide the other plugins
                if not is_own(error):
                    raise
                why = _plugins.failed[plugin.name] = described(error)
                _log.warning("plugin '%s' (%s) failed to load: %s", plugin.name, plugin.value, why)


def creator(entry: Registered) -> Callable[..., object]:
    """Import the class or function of ``entry`` that builds its environment. Raises ConfigError if that fails."""
    module, name = entry.entry_point.split(":")
    point = f"'{entry.entry_point}' of '{entry.id}'"
    with guarded(lambda why: ConfigError(f"entry point {point} cannot be loaded: {why}"), through=TurngateError):
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def _check_arguments(id: str, creator: Callable[..., object], kwargs: Mapping[str, object]) -> None:
    """Raise ConfigError for arguments that the class does not take, with the closest name, before anything is built."""
    known = _arguments(creator)
    for name in kwargs:
        if known is not None and name not in known:
            raise ConfigError(str(UnknownName(f"argument of '{id}'", name, known)))
    try:
        inspect.signature(creator).bind(**kwargs)
    except TypeError as error:
        raise ConfigError(f"'{id}': {error}") from error


def _arguments(creator: Callable[..., object]) -> list[str] | None:
    """The names of its arguments; None if it takes any name.

    A class that passes ``**options`` on also takes the arguments of its base class.
    """
    classes = inspect.getmro(creator) if isinstance(creator, type) else ()
    makers = [vars(one)["__init__"] for one in classes if "__init__" in vars(one)] or [creator]
    known: list[str] = []
    for maker in makers:
        parameters = inspect.signature(maker).parameters.values()
        known += [
            p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name != "self"
        ]
        if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
            return known
    return None


def _not_in(module: ModuleType, id: str, brought: Set[str]) -> UserError:
    """The error for an id that ``module`` was to register. ``brought``: what was registered when it was imported."""
    within = (f"{module.__name__}:", f"{module.__name__}.")
    known = sorted(brought | {name for name, entry in _registered.items() if entry.entry_point.startswith(within)})
    file = getattr(module, "__file__", None) or "a folder"
    if known:
        hint = f"'{file}' registers {', '.join(known)}"
        return UnknownName(f"environment of module '{module.__name__}',", id, known, hint=hint)
    return ConfigError(
        f"module '{module.__name__}' ('{file}') registers no environment when it is imported; end it with "
        f'turngate.register("{id}", f"{{__name__}}:CLASS")'
    )


def _unknown(id: str) -> UnknownName:
    """The error for ``id``, with the versions that exist and the plugins that might have held it."""
    hints = []
    base = re.sub(r"-v[0-9]*\Z", "", id)
    matches = [match for match in map(_ID.fullmatch, _registered) if match and match["base"] == base]
    if versions := sorted(int(match["version"]) for match in matches):
        hints.append(f"existing versions of '{base}': " + ", ".join(f"v{version}" for version in versions))
    if not any(known.startswith(f"{id.partition('/')[0]}/") for known in _registered):
        hints.append(f"to import the module that registers it, also one in this folder, write MODULE:{id}")
    hints += [f"plugin '{name}' failed to load: {problem}" for name, problem in _plugins.failed.items()]
    return UnknownName("environment", id, _registered, hint="; ".join(hints))
