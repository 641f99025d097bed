"""Typed Python functions, or the methods of a class, as a world of tools.

    from turngate import ToolError, tool
    from turngate.envs.tooluse import State

    STATE = {"lamps": {"hall": False}}

    @tool
    def switch(lamp: str, on: bool, state: State) -> str:
        \"\"\"Switch a lamp.\"\"\"
        if lamp not in state["lamps"]:
            raise ToolError(f"no lamp '{lamp}'")
        state["lamps"][lamp] = on
        return "done"

Functions that are marked with ``tool`` are tools; if none is, every public function that the module defines. A class
has its state in its attributes, its marked methods are the tools, and its constructor gets the state that a task begins
with. Each episode works on a copy of its own.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from turngate.envs.tool_env import ToolError
from turngate.envs.tooluse.engine.states import as_json
from turngate.envs.tooluse.engine.world import CallReply, OpenWorld, ToolWorld
from turngate.errors import ConfigError, DataError, EnvError, EpisodeError, UnknownName
from turngate.foreign import answer_for, described, guarded, is_own, text_of
from turngate.parts import import_module, refuse_untrusted
from turngate.tools.tool import GIVEN, Tool, given_to, is_tool, named_apart, tool_of
from turngate.types import JSON, ToolCall

State: TypeAlias = Annotated[dict[str, Any], GIVEN]
"""Type of the parameter by which a tool is given the state of the world."""

_POLICY = "__turngate_policy__"
_Function = TypeVar("_Function", bound=Callable[..., object])


def policy(function: _Function) -> _Function:
    """Make a function or a method a policy: it is asked before each call whether the call breaks it.

    It takes ``call`` (a ToolCall) and, where it wants it, a parameter of the type ``State``, and returns True where the
    policy is broken. The call is carried out all the same; its violation is recorded under the function's name. A call
    for which it raises an exception is not carried out, and the agent is shown the exception.
    """
    setattr(function, _POLICY, True)
    return function


def rules_of(module: ModuleType) -> dict[str, str]:
    """The policies that a module defines, name → docstring in one line."""
    found = {name: thing for name, thing in vars(module).items() if hasattr(thing, _POLICY)}
    return {name: " ".join((inspect.getdoc(thing) or "").split()) for name, thing in found.items()}


class PythonTools(ToolWorld):
    """The tools that a Python module defines, or a class in it."""

    type: Literal["python"] = "python"
    module: str
    """The module, as package.module or as a file; package.module:Class for a class whose methods are the tools."""

    def open(self) -> OpenWorld:
        name, _, inside = self.module.partition(":")
        module = tools_module(name)
        if not inside:
            return PythonWorld(_functions(module), first=getattr(module, "STATE", None), of=self.module)
        found = getattr(module, inside, None)
        if not isinstance(found, type):
            classes = [name for name, thing in vars(module).items() if isinstance(thing, type)]
            raise UnknownName(f"class of tools in '{name}',", inside, classes)
        return PythonWorld(_methods(found), maker=found, of=self.module)


@dataclass(frozen=True, slots=True)
class _Called:
    """A function of the user's: a tool or a policy, and which of its parameters are the state."""

    function: Callable[..., Any]
    given: tuple[str, ...]


class PythonWorld:
    """A world of Python functions that share a table, or of methods that share an object. See ``OpenWorld``.

    Raises ConfigError for a module without tools, for tools that ``tool`` refuses, and for a first state that is no
    table.
    """

    fork: Literal["exact", "none"] = "exact"
    knows_state = True

    def __init__(
        self,
        functions: Mapping[str, Callable[..., object]],
        *,
        of: str,
        first: object = None,
        maker: type | None = None,
    ) -> None:
        """``first``: the state of tasks that name none. ``maker``: the class whose methods the functions are."""
        if first is not None and not isinstance(first, dict):
            raise ConfigError(f"STATE of '{of}' is {first!r:.60}; it must be a dict")
        self._of, self._first, self._maker = of, first or {}, maker
        self._tools: dict[str, _Called] = {}
        self._policies: dict[str, _Called] = {}
        tools = []
        for name, function in functions.items():
            called = _Called(function, given_to(function))
            if hasattr(function, _POLICY):
                self._policies[name] = called
            else:
                tools.append(tool_of(function))
                self._tools[tools[-1].name] = called
        self.tools = named_apart(tools, f"'{of}'")
        if not tools:
            raise ConfigError(f"'{of}' defines no tools; mark functions with @turngate.tool")
        self._held: Any = None

    def start(self, initial: Mapping[str, object] | None) -> None:
        """See ``OpenWorld.start``. A class is called with the entries of ``initial`` as its arguments."""
        given = copy.deepcopy(dict(self._first if initial is None else initial))
        if self._maker is None:
            self._held = given
            return
        state = f"'{self._of}' cannot be made from the state {sorted(given)}"
        with guarded(lambda why: ConfigError(f"{state}: {why}")):
            self._held = self._maker(**given)

    def call(self, tool: Tool, arguments: Mapping[str, object], call: ToolCall) -> CallReply:
        """See ``OpenWorld.call``. An exception of a function is the answer of the call, because the agent's arguments
        may have caused it. Where a policy raises it is not known whether the call breaks it, so the call is not carried
        out."""
        broken: tuple[str, ...] = ()
        try:
            broken = tuple(name for name in self._policies if self._breaks(name, call))
            text = self._run(self._tools[tool.name], arguments)
        except EpisodeError:
            raise
        except ToolError as error:
            return CallReply(text=f"error: {text_of(error)}", ok=False, violations=broken)
        except BaseException as error:
            if not is_own(error):
                raise
            if not isinstance(error, Exception):
                problem = f"raised {described(error)[:200]}, which ends programs and tasks; raise ToolError instead"
                answer_for(f"tool '{tool.name}' of '{self._of}'", problem)
            return CallReply(text=f"error: {described(error)}", ok=False, violations=broken)
        return CallReply(text=text_of(text), violations=broken)

    def state(self) -> JSON:
        problem = "the state of the world cannot be compared"
        with guarded(lambda why: EnvError(f"{problem}: {why}"), through=EpisodeError):
            return as_json(self._held)

    def save(self) -> object:
        return copy.deepcopy(self._held)

    def load(self, saved: object) -> None:
        self._held = copy.deepcopy(saved)

    def close(self) -> None:
        """Nothing to free."""

    def _breaks(self, name: str, call: ToolCall) -> bool:
        """Whether a call breaks the policy ``name``. Raises what the policy raises, which is logged as well."""
        try:
            return bool(self._run(self._policies[name], {"call": call}))
        except BaseException as error:
            if is_own(error):
                problem = f"raised {described(error)[:200]} for the call {call.name}, which was not carried out"
                answer_for(f"policy '{name}' of '{self._of}'", problem)
            raise

    def _run(self, called: _Called, arguments: Mapping[str, object]) -> object:
        given = dict.fromkeys(called.given, self._held)
        if self._maker is None:
            return called.function(**arguments, **given)
        return called.function(self._held, **arguments, **given)


def _functions(module: ModuleType) -> dict[str, Callable[..., object]]:
    """The tools and policies of a module, in the order in which they are defined."""
    own: dict[str, Callable[..., object]] = {
        name: thing
        for name, thing in vars(module).items()
        if inspect.isfunction(thing) and (thing.__module__ == module.__name__ or is_tool(thing))
    }
    marked = {name: thing for name, thing in own.items() if is_tool(thing) or hasattr(thing, _POLICY)}
    if any(is_tool(thing) for thing in marked.values()):
        return marked
    return marked | {name: thing for name, thing in own.items() if not name.startswith("_")}


def _methods(cls: type) -> dict[str, Callable[..., object]]:
    members = {name: thing for owner in reversed(cls.__mro__) for name, thing in vars(owner).items()}
    return {
        name: thing
        for name, thing in members.items()
        if is_tool(thing) or (callable(thing) and hasattr(thing, _POLICY))
    }


def tools_module(name: str) -> ModuleType:
    """A module by its name, or by its file. Raises ConfigError, and DataError for a file that is not there."""
    if not name.endswith(".py"):
        return import_module(name)
    refuse_untrusted(name)
    path = Path(name).resolve()
    if not path.is_file():
        raise DataError(name, "there is no such file of tools")
    known = f"turngate_tools_{hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()}"
    if known in sys.modules:
        return sys.modules[known]
    spec = importlib.util.spec_from_file_location(known, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[known] = module  # first, because dataclasses and type hints look it up there
    try:
        with guarded(lambda why: ConfigError(f"'{name}' cannot be imported: {why}")):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[known]
        raise
    return module
