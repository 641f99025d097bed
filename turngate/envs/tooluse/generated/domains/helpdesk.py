"""The IT help desk of a company, as a domain: accounts, groups, programs and laptops.

The state: ``employees``, ``accounts``, ``laptops``, ``groups`` (name → team), ``programs`` (those that may be
installed), ``session`` (who was verified, and whether a person took over).
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from turngate.envs.tool_env import ToolError
from turngate.envs.tooluse.engine.python_world import State, policy
from turngate.tools.tool import tool
from turngate.types import ToolCall

OLDEST = 4
"""Years after which a laptop is replaced."""


class Employee(BaseModel):
    """Who works at the company."""

    model_config = ConfigDict(extra="forbid")
    name: str
    email: str
    badge: str
    team: str
    laptop: str


class Account(BaseModel):
    """The account of the employee that has its id. ``abroad``: there was a sign-in from another country."""

    model_config = ConfigDict(extra="forbid")
    locked: bool = False
    abroad: bool = False
    groups: list[str]


class Laptop(BaseModel):
    """A laptop. ``years``: its age; ``replaced``: a new one was ordered."""

    model_config = ConfigDict(extra="forbid")
    years: int
    programs: list[str]
    replaced: bool = False


ENTITIES = {"employees": Employee, "accounts": Account, "laptops": Laptop}


@tool(read_only=True)
def find_employee(email: str, state: State) -> str:
    """The id of an employee.

    Args:
        email: the employee's email address
    """
    for key, row in state["employees"].items():
        if row["email"] == email.strip().lower():
            return str(key)
    raise ToolError("no employee has this email address")


@tool
def verify(employee: str, badge: str, state: State) -> str:
    """Verify who you talk with.

    Args:
        employee: id of the employee
        badge: the number of the badge that the employee tells you
    """
    row = state["employees"].get(employee)
    if row is None or row["badge"] != badge.strip():
        raise ToolError("this is not the employee's badge")
    state["session"]["verified"] = employee
    return "verified"


@tool(read_only=True)
def show_account(employee: str, state: State) -> str:
    """Account, team and laptop of an employee.

    Args:
        employee: id of the employee
    """
    row, account = _row("employees", employee, state), _row("accounts", employee, state)
    laptop = state["laptops"][row["laptop"]]
    signs = "signed in from abroad" if account["abroad"] else "signed in from the office"
    return (
        f"{employee} team {row['team']}, {'locked' if account['locked'] else 'open'}, {signs}, "
        f"groups {' '.join(account['groups'])}; laptop {row['laptop']}, {laptop['years']} years old, "
        f"with {' '.join(laptop['programs'])}"
    )


@tool(read_only=True)
def show_group(group: str, state: State) -> str:
    """Which team a group belongs to.

    Args:
        group: name of the group
    """
    if group not in state["groups"]:
        raise ToolError(f"no group '{group[:20]}'")
    return f"{group} belongs to team {state['groups'][group]}"


@tool(read_only=True)
def list_programs(state: State) -> str:
    """The programs that may be installed."""
    return " ".join(state["programs"])


@tool
def unlock_account(employee: str, state: State) -> str:
    """Unlock an account.

    Args:
        employee: id of the employee
    """
    _row("accounts", employee, state)["locked"] = False
    return "unlocked"


@tool
def join_group(employee: str, group: str, state: State) -> str:
    """Add an account to a group.

    Args:
        employee: id of the employee
        group: name of the group
    """
    account = _row("accounts", employee, state)
    if group not in state["groups"]:
        raise ToolError(f"no group '{group[:20]}'")
    if group in account["groups"]:
        raise ToolError(f"{employee} is in the group '{group}'")
    account["groups"].append(group)
    return "joined"


@tool
def install(laptop: str, program: str, state: State) -> str:
    """Install a program.

    Args:
        laptop: id of the laptop
        program: name of the program
    """
    programs = _row("laptops", laptop, state)["programs"]
    if program in programs:
        raise ToolError(f"{laptop} has {program}")
    programs.append(program)
    return "installed"


@tool
def replace_laptop(laptop: str, state: State) -> str:
    """Order a new laptop in place of an old one.

    Args:
        laptop: id of the old laptop
    """
    _row("laptops", laptop, state)["replaced"] = True
    return "ordered"


@tool
def hand_over(state: State) -> str:
    """Hand the conversation over to a person."""
    state["session"]["handed_over"] = True
    return "handed over"


@policy
def verified_employee(call: ToolCall, state: State) -> bool:
    """Show and change account and laptop only of an employee who was verified."""
    owner = _owner(call, state)
    return call.name not in ("find_employee", "verify") and bool(owner) and owner != state["session"]["verified"]


@policy
def abroad(call: ToolCall, state: State) -> bool:
    """Hand over who wants an account unlocked that was signed in to from abroad."""
    account = state["accounts"].get(str(call.arguments.get("employee")), {})
    return call.name == "unlock_account" and bool(account.get("abroad"))


@policy
def own_team(call: ToolCall, state: State) -> bool:
    """Add employees only to groups of their own team."""
    if call.name != "join_group":
        return False
    team = state["employees"].get(str(call.arguments.get("employee")), {}).get("team")
    return bool(state["groups"].get(str(call.arguments.get("group")), team) != team)


@policy
def listed_program(call: ToolCall, state: State) -> bool:
    """Install only programs that are listed."""
    return call.name == "install" and call.arguments.get("program") not in state["programs"]


@policy
def laptop_age(call: ToolCall, state: State) -> bool:
    """Replace a laptop only if it is at least 4 years old."""
    laptop = state["laptops"].get(str(call.arguments.get("laptop")), {"years": OLDEST})
    return call.name == "replace_laptop" and bool(laptop["years"] < OLDEST)


def _row(table: str, key: str, state: dict[str, Any]) -> dict[str, Any]:
    if key not in state[table]:
        raise ToolError(f"the {table} have no '{key[:20]}'")
    found: dict[str, Any] = state[table][key]
    return found


def _owner(call: ToolCall, state: dict[str, Any]) -> str:
    """Id of the employee whose account or laptop a call is about; "" if there is none."""
    employee, laptop = call.arguments.get("employee"), call.arguments.get("laptop")
    if employee in state["employees"]:
        return str(employee)
    return next((key for key, row in state["employees"].items() if row["laptop"] == laptop), "")
