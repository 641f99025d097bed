"""Contents of the wheel ``bfcl-eval``: rows of tasks, docs of functions, simulated services, fixed texts.

The services are classes, imported as they are; of the rest of the wheel nothing is imported, because that needs
dozens of packages in versions of their own.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

from turngate.errors import ConfigError, DataError, UserError
from turngate.jsonl import read_rows

INSTALL = 'pip install "turngate[bfcl]" && pip install --no-deps bfcl-eval'
"""Without ``--no-deps`` the wheel would replace numpy and bring the clients of a dozen companies."""
NAMES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
}
"""Service → its module in the wheel, which is also the name of its file of docs."""
STATELESS = frozenset({"MathAPI"})
_PACKAGE = "bfcl_eval"
_SERVICES = f"{_PACKAGE}.eval_checker.multi_turn_eval.func_source_code"
_TEXTS = f"{_PACKAGE}.constants.default_prompts"


class WheelMissing(UserError, ImportError):
    """The wheel is not there."""

    def __init__(self) -> None:
        super().__init__(f"'bfcl-eval' is not installed; run: {INSTALL}")


def package_folder(folder: Path | None) -> Path:
    """Where the package ``bfcl_eval`` lies: ``folder``, or as it is installed.

    Raises WheelMissing, and DataError for a folder that is another one.
    """
    if folder is None:
        spec = importlib.util.find_spec(_PACKAGE)
        places = () if spec is None else spec.submodule_search_locations or ()
        if not places:
            raise WheelMissing
        return Path(next(iter(places))).resolve()
    if folder.name != _PACKAGE or not (folder / "data").is_dir():
        raise DataError(folder, f"is no folder '{_PACKAGE}' with 'data' in it, as in the wheel bfcl-eval")
    return folder.resolve()


def rows(package: Path, category: str) -> list[tuple[Mapping[str, object], Mapping[str, object]]]:
    """The tasks of a category, each with its row of gold calls. Raises DataError."""
    name = f"BFCL_v4_multi_turn_{category}.json"
    answers = dict(_rows(package / "data" / "possible_answer" / name))
    found = []
    for task_id, row in _rows(package / "data" / name):
        if task_id not in answers:
            raise DataError(package / "data" / name, f"the task '{task_id}' has no gold calls")
        found.append((row, answers[task_id]))
    return found


def docs(package: Path, service: str) -> list[Mapping[str, object]]:
    """The functions of a service, as the wheel describes them. Raises DataError."""
    return [row for _, row in _rows(package / "data" / "multi_turn_func_doc" / f"{NAMES[service]}.json", key="name")]


def service_class(package: Path, service: str) -> type:
    """The class of a simulated service. Raises ConfigError where it cannot be imported."""
    found: type = getattr(_module(package, f"{_SERVICES}.{NAMES[service]}"), service)
    return found


@cache
def signatures(package: Path, service: str) -> Mapping[str, Sequence[str]]:
    """The functions of a service, each with its arguments in order, which is not always that of the docs."""
    made = service_class(package, service)
    names = [str(doc["name"]) for doc in docs(package, service)]
    return {name: tuple(inspect.signature(getattr(made, name)).parameters)[1:] for name in names}


@cache
def text_of_new_functions(package: Path) -> str:
    """The user's message when functions that were withheld are offered."""
    return str(_module(package, _TEXTS).DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC)


def _rows(path: Path, key: str = "id") -> list[tuple[str, Mapping[str, object]]]:
    found: list[tuple[str, Mapping[str, object]]] = []
    for line, row in read_rows(path):
        if not isinstance(row, dict) or not isinstance(row.get(key), str):
            raise DataError(path, f"a row has no '{key}'", line=line)
        found.append((row[key], row))
    return found


def _module(package: Path, name: str) -> ModuleType:
    """A module of the wheel, which need not be installed."""
    loaded = sys.modules.get(_PACKAGE)
    if loaded is not None and package not in [Path(place).resolve() for place in loaded.__path__]:
        raise ConfigError(f"'{_PACKAGE}' was imported from {next(iter(loaded.__path__))}; one process takes one folder")
    sys.path.insert(0, str(package.parent))
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"'{name}' cannot be imported: {error}; run: {INSTALL}") from error
    finally:
        sys.path.remove(str(package.parent))
