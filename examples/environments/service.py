"""A service of orders behind paths, as a REST interface has them; the goal is a state, and nothing else may change."""

from pydantic import BaseModel, Field

from turngate import Evidence, FromEvidence, Rubric, Task, TaskList, ToolEnv, ToolError, TurnSpec, register, tool

ID = "examples/Orders-v0"
DONE = FromEvidence(name="done", evidence="done", kind="outcome", levels=(0, 1))
GOODS = ("lamp", "desk", "chair")


class Change(BaseModel):
    """What of an order may be changed."""

    address: str | None = None
    amount: int | None = Field(None, ge=1, le=99)


def make_task(split: str, number: int) -> Task:
    """Some orders, and what one customer wants of his."""
    shift = number + 7 * (split == "heldout")
    orders = {
        str(100 + n): {"item": GOODS[(n + shift) % 3], "amount": 1 + (n * shift) % 5, "address": "Oslo"}
        for n in range(4)
    }
    wanted, amount = str(100 + shift % 4), 6 + shift % 9
    prompt = f"Make the order {wanted} one of {amount} pieces. Leave all other orders as they are."
    private = {"orders": orders, "goal": {**orders, wanted: {**orders[wanted], "amount": amount}}}
    return Task(id=f"{split}/{number}", env_id=ID, prompt=prompt, private=private, split=split)


class Orders(ToolEnv):
    """Read and change orders; several calls may be made in one turn."""

    turn_spec = TurnSpec(rubric=Rubric(rewards=(DONE,)), max_turns=6, has_oracle=True)
    calls_per_turn = 4

    def __init__(self) -> None:
        super().__init__(tasks=TaskList([make_task(split, n) for split in ("train", "heldout") for n in range(60)]))

    def begin(self, task: Task) -> str:
        """Put the orders in place."""
        self.orders = {number: dict(order) for number, order in task.private["orders"].items()}
        return task.prompt

    def find(self, order: int) -> dict[str, object]:
        """An order by its number."""
        if str(order) not in self.orders:
            raise ToolError(f"404: there is no order {order}; orders: {', '.join(self.orders)}")
        return self.orders[str(order)]

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
        """The orders."""
        return f"{self.task.id} {self.orders} {self.shown}"

    def verify(self) -> list[Evidence]:
        """Whether the orders are as they should be, all of them."""
        return [Evidence(name="done", value=self.orders == self.task.private["goal"])]

    def oracle(self, task: Task) -> list[str]:
        """Change what differs, and finish."""
        before, goal = task.private["orders"], task.private["goal"]
        number = next(number for number in goal if goal[number] != before[number])
        return [f"get {number}", f'patch {number} {{"amount": {goal[number]["amount"]}}}', "finish"]


register(ID, "examples.environments.service:Orders", description="A service of orders.")
