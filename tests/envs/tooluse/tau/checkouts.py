"""Two small checkouts of our own about a ferry, in the layouts of tau-bench and of tau2, and a user."""

import json
from pathlib import Path
from textwrap import dedent
from typing import ClassVar, Literal

import turngate
from turngate.envs.tooluse.generated.domains.talk import UserReply
from turngate.envs.tooluse.generated.domains.users import SimulatedUser

BOOKINGS = {
    "F1": {"guest": "ada", "day": "monday", "price": 30, "seats": [1, 2]},
    "F2": {"guest": "ben", "day": "friday", "price": 20.5, "seats": []},
    "F3": {"guest": "ada", "day": "sunday", "price": 9, "seats": [7]},
}
GUESTS = {"ada": {"city": "Aveiro", "credit": 0}, "ben": {"city": "Bergen", "credit": 5}}
RULES = "Serve guests of the ferry. Ask who they are."
SECRET = "You are Ada, and your word is heron."

BENCH_TOOLS = """
class Looks:
    @staticmethod
    def invoke(data, booking):
        return json.dumps(data["bookings"][booking])

    @staticmethod
    def get_info():
        return about("get_booking", "Look at a booking.", booking="its number")


class Moves:
    @staticmethod
    def invoke(data, booking, day, note):
        if day == "never":
            return "Error: no such day"
        data["bookings"][booking]["day"] = day
        if note:
            data["bookings"][booking]["note"] = note
        return "moved"

    @staticmethod
    def get_info():
        return about("move_booking", "Move a booking.", booking="its number", day="the new day", note="or empty")


class Drops:
    @staticmethod
    def invoke(data, booking):
        gone = data["bookings"].pop(booking)
        data["guests"][gone["guest"]]["credit"] += gone["price"]
        return "dropped"

    @staticmethod
    def get_info():
        return about("drop_booking", "Take a booking back and give credit.", booking="its number")


class Enters:
    @staticmethod
    def invoke(data, booking, guest, day, price, seats):
        data["bookings"][booking] = {"guest": guest, "day": day, "price": price, "seats": seats}
        data["guests"][guest]["credit"] -= price
        return "entered"

    @staticmethod
    def get_info():
        found = about("enter_booking", "Enter a booking.", booking="number", guest="who", day="day")
        found["function"]["parameters"]["properties"] |= {"price": {"type": "number"}, "seats": {"type": "array"}}
        return found


class Adds:
    @staticmethod
    def invoke(data, expression):
        if any(sign not in "0123456789+-*/(). " for sign in expression):
            return "Error: not a sum"
        return str(eval(expression, {"__builtins__": None}, {}))

    @staticmethod
    def get_info():
        return about("calculate", "Work out a sum.", expression="the sum")


class HandsOver:
    @staticmethod
    def invoke(data, summary):
        return "handed over"

    @staticmethod
    def get_info():
        return about("transfer_to_human_agents", "Hand the guest over to a person.", summary="why")


def about(name, says, **arguments):
    properties = {one: {"type": "string", "description": text} for one, text in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"type": "function", "function": {"name": name, "description": says, "parameters": parameters}}


ALL_TOOLS = [Looks, Moves, Drops, Enters, Adds, HandsOver]
"""

BENCH_TASKS = f'''
from tau_bench.types import Action, Task

raise RuntimeError("nobody runs this file")
TASKS_TEST = [
    Task(
        annotator="x",
        user_id="ada",
        instruction="{SECRET} "
        "Move F1 to tuesday and ask its price.",
        actions=[
            Action(name="get_booking", kwargs={{"booking": "F1"}}),
            Action(name="move_booking", kwargs={{"booking": "F1", "day": "tuesday", "note": ""}}),
        ],
        outputs=["30"],
    ),
    Task(
        annotator="x",
        user_id="ben",
        instruction="You are Ben. Complain about F2.",
        actions=[
            Action(name="get_booking", kwargs={{"booking": "F2"}}),
            Action(name="transfer_to_human_agents", kwargs={{"summary": "a complaint"}}),
        ],
        outputs=[],
    ),
    Task(
        annotator="x",
        user_id="ada",
        instruction="You are Ada. Take F3 back.",
        actions=[
            Action(name="move_booking", kwargs={{"booking": "F3", "day": "never", "note": ""}}),
            Action(name="drop_booking", kwargs={{"booking": "F3"}}),
        ],
        outputs=[],
    ),
]
'''

BENCH_TRAIN = """
TASKS_TRAIN = [
    Task(
        instruction="You are Ben. Move F2 to monday.",
        actions=[Action(name="move_booking", kwargs={"booking": "F2", "day": "monday", "note": ""})],
        outputs=[],
    )
]
"""

TOOLKIT = """
import inspect
from types import SimpleNamespace


def is_tool(writes=False):
    def mark(function):
        function.is_tool, function.writes = True, writes
        return function

    return mark


class ToolKitBase:
    def __init__(self, db):
        self.db = db

    @property
    def tools(self):
        return {name: getattr(self, name) for name in dir(type(self)) if hasattr(getattr(type(self), name), "is_tool")}

    def get_tools(self):
        schemas = {name: {"function": schema(name, one)} for name, one in self.tools.items()}
        return {name: SimpleNamespace(openai_schema=one) for name, one in schemas.items()}

    def use_tool(self, tool_name, **arguments):
        return self.tools[tool_name](**arguments)

    def tool_mutates_state(self, name):
        return self.tools[name].writes

    def update_db(self, data):
        whole = self.db.model_dump()
        for table, rows in data.items():
            whole[table] |= rows
        self.db = type(self.db).model_validate(whole)


def schema(name, function):
    signature = inspect.signature(function).parameters
    needed = [one for one, about in signature.items() if about.default is inspect.Parameter.empty]
    properties = {one: {"type": "string"} for one in signature}
    return {
        "name": name,
        "description": function.__doc__,
        "parameters": {"type": "object", "properties": properties, "required": needed},
    }
"""

TAU2_TOOLS = '''
from tau2.domains.ferry.data_model import FerryDB
from tau2.environment.toolkit import ToolKitBase, is_tool


class FerryTools(ToolKitBase):
    db: FerryDB

    @is_tool()
    def get_booking(self, booking: str):
        """Look at a booking."""
        return self.db.bookings[booking]

    @is_tool()
    def transfer_to_human_agents(self, summary: str) -> str:
        """Hand the guest over to a person."""
        return "handed over"

    @is_tool(writes=True)
    def move_booking(self, booking: str, day: str, note: str = ""):
        """Move a booking."""
        if booking not in self.db.bookings:
            raise ValueError("no such booking")
        self.db.bookings[booking].day = day
        return self.db.bookings[booking]

    def assert_day(self, booking: str, day: str) -> bool:
        return self.db.bookings[booking].day == day

    def close_pier(self, booking: str) -> None:
        self.db.bookings[booking].day = "cancelled"
'''

TAU2_MODEL = """
from pydantic import BaseModel


class Booking(BaseModel):
    guest: str
    day: str
    price: float
    seats: list[int]


class FerryDB(BaseModel):
    bookings: dict[str, Booking]
    piers: list[str]
"""


def _tau2_task(id_, *, gold=None, setup=None, says="You are Ada. Move F1 to tuesday.", **criteria):
    actions = gold and [{"action_id": "a", "name": "move_booking"} | one for one in gold]
    return {
        "id": id_,
        "user_scenario": {"persona": "Brief.", "instructions": says},
        "initial_state": setup,
        "evaluation_criteria": {"actions": actions} | criteria,
    }


MOVE = {"arguments": {"booking": "F1", "day": "tuesday", "note": "x"}}
_LOOK = {"name": "get_booking", "arguments": {"booking": "F1"}}
_ASSERT = {"env_type": "assistant", "func_name": "assert_day", "arguments": {"booking": "F1", "day": "tuesday"}}
_SHUT = {"env_type": "assistant", "func_name": "close_pier", "arguments": {"booking": "F1"}}
_EXTRA = {"bookings": {"F9": {"guest": "eva", "day": "monday", "price": 1, "seats": []}}}
TAU2_TASKS = [
    _tau2_task("moves", gold=[MOVE], communicate_info=["tuesday"]),
    _tau2_task("asserts", gold=[MOVE], env_assertions=[_ASSERT], reward_basis=["ENV_ASSERTION"]),
    _tau2_task("acts", gold=[MOVE, _LOOK], reward_basis=["DB", "ACTION"]),
    _tau2_task("looks", gold=[_LOOK]),
    _tau2_task("begins", gold=[MOVE], setup={"initialization_actions": [_SHUT]}),
    _tau2_task(
        "enters",
        gold=[MOVE | {"arguments": {"booking": "F9", "day": "friday"}}],
        setup={"initialization_data": {"agent_data": _EXTRA}},
    ),
    _tau2_task("empty judge", gold=[MOVE], reward_basis=["DB", "NL_ASSERTION"]),
    _tau2_task("judged", gold=[MOVE], nl_assertions=["It was kind."], reward_basis=["DB", "NL_ASSERTION"]),
    _tau2_task("on a device", gold=[MOVE | {"requestor": "user"}]),
    _tau2_task("half way", gold=[MOVE], setup={"message_history": [{"role": "user", "content": "hello"}]}),
    _tau2_task("free", reward_basis=["DB"]),
]


def tau_bench_checkout(folder: Path) -> Path:
    """A checkout in the layout of tau-bench."""
    home = folder / "tau_bench" / "envs" / "ferry"
    _write(folder / "tau_bench" / "__init__.py", 'raise RuntimeError("nobody imports this package")')
    _write(home / "tools" / "__init__.py", "import json\n" + BENCH_TOOLS)
    _write(home / "data" / "bookings.json", json.dumps(BOOKINGS))
    _write(home / "data" / "guests.json", json.dumps(GUESTS))
    _write(home / "wiki.md", RULES)
    _write(home / "tasks_test.py", BENCH_TASKS)
    _write(home / "tasks_train.py", BENCH_TRAIN)
    return folder


def tau2_checkout(folder: Path) -> Path:
    """A checkout in the layout of tau2."""
    data, code = folder / "data" / "tau2" / "domains" / "ferry", folder / "src" / "tau2"
    _write(data / "db.json", json.dumps({"bookings": BOOKINGS, "piers": ["north"]}))
    _write(data / "policy.md", RULES)
    _write(data / "tasks.json", json.dumps(TAU2_TASKS))
    _write(data / "split_tasks.json", json.dumps({"test": ["moves"], "train": ["asserts", "acts"], "base": []}))
    _write(code / "__init__.py", 'raise RuntimeError("nobody imports this package")')
    _write(code / "environment" / "toolkit.py", TOOLKIT)
    _write(code / "domains" / "ferry" / "data_model.py", TAU2_MODEL)
    _write(code / "domains" / "ferry" / "tools.py", TAU2_TOOLS)
    return folder


def ferry(kind: str, folder: Path, **settings):
    """The environment with the tasks of a checkout."""
    env_settings = {name: settings.pop(name) for name in ("max_turns",) if name in settings}
    tasks = {"type": kind, "folder": str(folder), "domain": "ferry", "user": "nobody"} | settings
    return turngate.make("turngate/ToolUse-v1", tasks=tasks, **env_settings)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))


class Guest(SimulatedUser):
    """A user who says their instructions at once, agrees to everything, and leaves when they are told goodbye."""

    type: Literal["tests.envs.tooluse.tau.checkouts:Guest"] = "tests.envs.tooluse.tau.checkouts:Guest"
    NAME: ClassVar[str] = "tests.envs.tooluse.tau.checkouts:Guest"

    def open(self):
        return self

    def reply(self, sheet, before, said):
        if "goodbye" in said:
            return UserReply("Thanks. ###STOP###", 0)
        return UserReply("Yes." if before else sheet.instructions, 0)

    def close(self):
        pass
