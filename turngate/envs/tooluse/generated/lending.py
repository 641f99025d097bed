"""The desk of a small library, as tools: the world of the tasks that ship with ``turngate/ToolUse-v1``.

The state: ``members`` (id → name), ``books`` (id → title), ``loans`` (book → member).
"""

from __future__ import annotations

from turngate.envs.tool_env import ToolError
from turngate.envs.tooluse.engine.python_world import State, policy
from turngate.tools.tool import tool
from turngate.types import ToolCall

MOST_LOANS = 3


@tool(read_only=True)
def find_member(name: str, state: State) -> str:
    """The id of a member.

    Args:
        name: the member's full name
    """
    return _found(name, state["members"], "member")


@tool(read_only=True)
def find_book(title: str, state: State) -> str:
    """The id of a book, and whether it is on loan.

    Args:
        title: the whole title
    """
    book = _found(title, state["books"], "book")
    return f"{book}, on loan to {state['loans'][book]}" if book in state["loans"] else f"{book}, in"


@tool(read_only=True)
def list_loans(member: str, state: State) -> str:
    """The books that a member has on loan.

    Args:
        member: id of the member
    """
    _known(member, state["members"], "member")
    books = [f"{book} {state['books'][book]}" for book, holder in state["loans"].items() if holder == member]
    return "; ".join(books) or "none"


@tool
def lend(book: str, member: str, state: State) -> str:
    """Lend a book that is in. A member has at most three books on loan.

    Args:
        book: id of the book
        member: id of the member
    """
    _known(book, state["books"], "book")
    _known(member, state["members"], "member")
    if book in state["loans"]:
        raise ToolError(f"{book} is on loan")
    state["loans"][book] = member
    return f"{book} lent to {member}"


@tool
def take_back(book: str, state: State) -> str:
    """Take back a book that is on loan.

    Args:
        book: id of the book
    """
    _known(book, state["books"], "book")
    if book not in state["loans"]:
        raise ToolError(f"{book} is not on loan")
    del state["loans"][book]
    return f"{book} is back"


@policy
def most_loans(call: ToolCall, state: State) -> bool:
    """Nobody has more than three books."""
    holders = list(state["loans"].values())
    free = call.arguments.get("book") not in state["loans"]
    return call.name == "lend" and free and holders.count(call.arguments.get("member")) >= MOST_LOANS


def _found(name: str, table: dict[str, str], what: str) -> str:
    for key, known in table.items():
        if known.lower() == name.strip().lower():
            return key
    raise ToolError(f"no {what} '{name.strip()[:40]}'")


def _known(key: str, table: dict[str, str], what: str) -> None:
    if key not in table:
        raise ToolError(f"no {what} has the id '{key[:40]}'")
