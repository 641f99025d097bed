"""Blackjack, as gymnasium has it, for an agent that reads and writes."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import gymnasium

from turngate import FromEvidence, Rubric, Task, ToolEnv, TurnSpec, register, tool

ID = "examples/Blackjack-v0"
RESULT = FromEvidence(name="result", evidence="result", kind="outcome", low=-1, high=1, levels=(-1, 0, 1))


def hands(*, n: int = 500) -> Iterator[Task]:
    """``n`` hands for each split."""
    for split, first in (("train", 0), ("heldout", 1_000_000)):
        for i in range(n):
            prompt = "Play a hand of blackjack."
            yield Task(id=f"{split}/{i}", env_id=ID, prompt=prompt, private={"seed": first + i}, split=split)


class Blackjack(ToolEnv):
    """Hit until you stand: nearer to 21 than the dealer wins, beyond it loses."""

    turn_spec = TurnSpec(rubric=Rubric(rewards=(RESULT,)), max_turns=12, tasks=hands)

    @cached_property
    def table(self) -> gymnasium.Env[Any, Any]:
        """The game."""
        return gymnasium.make("Blackjack-v1", sab=True)

    def begin(self, task: Task) -> str:
        """Deal."""
        self.hand, _ = self.table.reset(seed=task.private["seed"])
        return f"{task.prompt} {self.look()}"

    def look(self) -> str:
        """What lies on the table."""
        mine, dealer, ace = self.hand
        return f"You have {mine}{' with an ace as 11' if ace else ''}, the dealer shows {dealer}."

    @tool
    def hit(self) -> str:
        """Take a card."""
        return self.play(1)

    @tool
    def stand(self) -> str:
        """Let the dealer play."""
        return self.play(0)

    def play(self, action: int) -> str:
        """One move, and what it led to."""
        self.hand, reward, done, _, _ = self.table.step(action)
        if done:
            self.record("result", int(reward))
            self.end()
        return f"{self.look()} The hand is over." if done else self.look()

    def state(self) -> str:
        """The cards; which come next is fixed by the task."""
        return f"{self.task.id} {self.hand}"

    def close(self) -> None:
        """Put the cards away."""
        self.table.close()
        super().close()


register(ID, "examples.environments.blackjack:Blackjack", description="A hand of blackjack.")
