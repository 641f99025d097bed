"""Grade-school word problems in the format of GSM8K: calculate, then answer with one number.

A few problems of our own lie in ``word_problems/``. For yours, name the files, JSON lines or Parquet, in the config:
``tasks = {type = "examples.environments.gsm8k:word_problems", train = "train.jsonl", heldout = "test.jsonl"}``.
"""

import operator
from pathlib import Path
from typing import Literal

import pyarrow.json
import pyarrow.parquet

from turngate import Evidence, FromEvidence, Rubric, Task, ToolEnv, ToolError, TurnSpec, register, tool

ID = "examples/Gsm8k-v0"
RIGHT = FromEvidence(name="right", evidence="right", kind="outcome", levels=(0, 1))
OURS = Path(__file__).parent / "word_problems"
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def word_problems(*, train: Path = OURS / "train.jsonl", heldout: Path = OURS / "heldout.jsonl") -> list[Task]:
    """Rows of ``question`` and ``answer``; the number is what follows #### in the answer."""
    return [
        Task(
            id=f"{split}/{n}",
            env_id=ID,
            prompt=f"{row['question']}\nAnswer with a number, without its unit.",
            private={"number": float(row["answer"].rpartition("####")[2].replace(",", ""))},
            split=split,
        )
        for split, file in (("train", train), ("heldout", heldout))
        for n, row in enumerate(rows(file))
    ]


def rows(file: Path) -> list[dict[str, str]]:
    read = pyarrow.parquet.read_table if file.suffix == ".parquet" else pyarrow.json.read_json
    return read(file).to_pylist()


class Gsm8k(ToolEnv):
    """Calculate as often as the turns allow; the answer ends the episode."""

    turn_spec = TurnSpec(rubric=Rubric(rewards=(RIGHT,)), max_turns=8, tasks=word_problems, has_oracle=True)

    def begin(self, task: Task) -> str:
        self.given = None
        return task.prompt

    @tool
    def calculate(self, left: float, sign: Literal["+", "-", "*", "/"], right: float) -> str:
        """Work out one step."""
        if sign == "/" and right == 0:
            raise ToolError("nothing can be divided by 0")
        return f"{OPERATORS[sign](left, right):.12g}"

    @tool(name="answer")
    def give_answer(self, number: float) -> str:
        """Answer the question."""
        self.given = number
        self.end()
        return "answered"

    def state(self) -> str:
        return f"{self.task.id} {self.shown}"

    def answer(self) -> str | None:
        return None if self.given is None else f"{self.given:.12g}"

    def verify(self) -> list[Evidence]:
        return [Evidence(name="right", value=self.given == self.task.private["number"])]

    def oracle(self, task: Task) -> list[str]:
        return [f"answer {task.private['number']}"]


register(ID, "examples.environments.gsm8k:Gsm8k", description="Grade-school word problems.")
