"""A service of orders behind paths, as a REST interface has them; the goal is a state, and nothing else may change."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, Field

import turngate
from turngate import Evidence, FromEvidence, Rubric, Task, ToolEnv, ToolError, TurnSpec, tool

ID = "examples/Orders-v1"
DONE = FromEvidence(name="done", evidence="done", kind="outcome", levels=(0, 1))
CLOSER = FromEvidence(name="closer", evidence="closer", kind="process", weight=0.2, per_turn=True)
GOODS = ("lamp", "desk", "chair")
Amount = Annotated[int, Field(ge=1, le=99)]


class Change(BaseModel):
    """What of an order may be changed."""

    address: str | None = None
    amount: Amount | None = None


def make_task(split: str, number: int) -> Task:
    """Some orders, one of them to be changed, and one to be made; the others are to stay as they are."""
    shift = number + 7 * (split == "heldout")
    orders = {
        str(100 + n): {"item": GOODS[(n + shift) % 3], "amount": 1 + (n * shift) % 5, "address": "Oslo"}
        for n in range(4)
    }
    wanted, amount = str(100 + shift % 4), 6 + shift % 9
    new = {"item": GOODS[number % 3], "amount": 1 + number % 4, "address": "Rome"}
    more = f"Order {new['amount']} of {new['item']} for the address Rome."
    prompt = f"Make the order {wanted} one of {amount} pieces. {more} Leave all other orders as they are."
    private = {"orders": orders, "goal": {**orders, wanted: {**orders[wanted], "amount": amount}, "104": new}}
    return Task(id=f"{split}/{number}", env_id=ID, prompt=prompt, private=private, split=split)


def make_tasks(*, n: int = 60) -> Iterator[Task]:
    """``n`` services for each split."""
    return (make_task(split, number) for split in ("train", "heldout") for number in range(n))


class Orders(ToolEnv):
    """Make, read, change and delete orders; several calls may be made in one turn."""

    turn_spec = TurnSpec(
        rubric=Rubric(rewards=(DONE, CLOSER), gates=(turngate.needs_outcome(0.5),)),
        max_turns=6,
        tasks=make_tasks,
        has_oracle=True,
    )
    calls_per_turn = 4

    def begin(self, task: Task) -> str:
        """Put the orders in place."""
        self.orders = {number: dict(order) for number, order in task.private["orders"].items()}
        self.next, self.left = 104, self.differences()
        return task.prompt

    def differences(self) -> int:
        """How many orders are not as they should be."""
        goal = self.task.private["goal"]
        return sum(self.orders.get(number) != goal.get(number) for number in self.orders.keys() | goal.keys())

    def find(self, order: int) -> dict[str, object]:
        """An order by its number."""
        if str(order) not in self.orders:
            raise ToolError(f"404: there is no order {order}; orders: {', '.join(self.orders)}")
        return self.orders[str(order)]

    @tool
    def post(self, item: Literal["lamp", "desk", "chair"], address: str, amount: Amount = 1) -> str:
        """Make an order."""
        self.orders[str(self.next)] = {"item": item, "amount": amount, "address": address}
        self.next += 1
        return f"201: {self.next - 1}"

    @tool
    def get(self, order: int) -> str:
        """Read an order."""
        return f"200: {self.find(order)}"

    @tool
    def patch(self, order: int, change: Change) -> str:
        """Change an order.

        Args:
            change: the fields to change, as JSON
        """
        self.find(order).update(change.model_dump(exclude_none=True))
        return f"200: {self.find(order)}"

    @tool
    def delete(self, order: int) -> str:
        """Delete an order."""
        self.find(order)
        del self.orders[str(order)]
        return "204"

    @tool(name="finish")
    def say_done(self) -> str:
        """Say that all is done."""
        self.end()
        return "done"

    def state(self) -> str:
        """The orders, and which number comes next."""
        return f"{self.task.id} {self.orders} {self.next}"

    def changed(self) -> list[Evidence]:
        """After the calls of a turn: whether less is left to do."""
        before, self.left = self.left, self.differences()
        return [Evidence(name="closer", value=self.left < before)]

    def verify(self) -> list[Evidence]:
        """Whether the orders are as they should be, all of them."""
        return [Evidence(name="done", value=self.differences() == 0)]

    def oracle(self, task: Task) -> list[str]:
        """Change what differs, make what is missing, and finish."""
        before, goal = task.private["orders"], task.private["goal"]
        number = next(number for number in before if goal[number] != before[number])
        post = "post {item} {address} {amount}".format(**goal["104"])
        return [f"get {number}", f'patch {number} {{"amount": {goal[number]["amount"]}}}', post, "finish"]


turngate.register(ID, "examples.environments.service:Orders", description="A service of orders.")
