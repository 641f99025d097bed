"""Questions about a table, answered with pandas: steps that can be combined, typed so that nothing else can run."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pandas

from turngate import Evidence, FromEvidence, Rubric, Task, ToolEnv, ToolError, TurnSpec, register, tool

ID = "examples/Tables-v1"
RIGHT = FromEvidence(name="right", evidence="right", kind="outcome", levels=(0, 1))
CITIES = ("Oslo", "Rome", "Lima")


def make_task(split: str, number: int) -> Task:
    """A table of sales, and the question after one city's total or mean."""
    rng = np.random.default_rng([split == "heldout", number])
    sales = {"city": rng.choice(CITIES, 12).tolist(), "year": rng.integers(2020, 2023, 12).tolist()}
    sales["sold"] = rng.integers(1, 100, 12).tolist()
    city, how = str(rng.choice(sales["city"])), str(rng.choice(["sum", "mean"]))
    prompt = f"What is the {how} of the pieces sold in {city}?"
    return Task(
        id=f"{split}/{number}",
        env_id=ID,
        prompt=prompt,
        private={"sales": sales, "city": city, "how": how},
        split=split,
    )


def make_tasks(*, n: int = 200) -> Iterator[Task]:
    """``n`` tables for each split."""
    return (make_task(split, number) for split in ("train", "heldout") for number in range(n))


class Tables(ToolEnv):
    """Look at the columns, narrow the rows down, aggregate a column, answer."""

    turn_spec = TurnSpec(rubric=Rubric(rewards=(RIGHT,)), max_turns=6, tasks=make_tasks, has_oracle=True)

    def begin(self, task: Task) -> str:
        """Load the table."""
        self.rows, self.given = pandas.DataFrame(task.private["sales"]), None
        return task.prompt

    @tool
    def columns(self) -> str:
        """List the columns, each with its values in the first rows."""
        return "\n".join(f"{name}: {', '.join(map(str, self.rows[name][:3]))}, …" for name in self.rows)

    @tool
    def keep(self, column: Literal["city", "year", "sold"], value: str | int) -> str:
        """Keep the rows with this value in a column."""
        if isinstance(value, str) != (column == "city"):
            raise ToolError(f"{column} holds {'names' if column == 'city' else 'numbers'}, not {value!r}")
        self.rows = self.rows[self.rows[column] == value]
        return f"{len(self.rows)} rows are left"

    @tool
    def total(self, column: Literal["year", "sold"], how: Literal["sum", "mean", "max", "min", "count"]) -> str:
        """Aggregate a column of the rows that are left."""
        if self.rows.empty:
            raise ToolError("no rows are left")
        return f"{self.rows[column].agg(how):g}"

    @tool(name="answer")
    def give_answer(self, number: float) -> str:
        """Answer the question."""
        self.given = number
        self.end()
        return "answered"

    def state(self) -> str:
        """The rows that are left, and the answer."""
        return f"{self.task.id} {self.rows.index.tolist()} {self.given}"

    def verify(self) -> list[Evidence]:
        """Whether the number is right to a thousandth."""
        right = self.solution(self.task)
        return [Evidence(name="right", value=self.given is not None and abs(self.given - right) <= 1e-3 * abs(right))]

    @staticmethod
    def solution(task: Task) -> float:
        """The number."""
        table = pandas.DataFrame(task.private["sales"])
        return float(table[table["city"] == task.private["city"]]["sold"].agg(task.private["how"]))

    def oracle(self, task: Task) -> list[str]:
        """Look, and three steps."""
        city, how = task.private["city"], task.private["how"]
        return ["columns", f"keep city {city}", f"total sold {how}", f"answer {self.solution(task)}"]


register(ID, "examples.environments.tables:Tables", description="Questions about a table, with pandas.")
