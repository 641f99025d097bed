"""Blackjack, as gymnasium has it, for an agent that reads and writes."""

import gymnasium

from turngate import FromEvidence, Rubric, Task, TaskList, ToolEnv, TurnSpec, register, tool

ID = "examples/Blackjack-v0"
RESULT = FromEvidence(name="result", evidence="result", kind="outcome", low=-1, high=1, levels=(-1, 0, 1))
TASKS = [
    Task(id=f"{split}/{n}", env_id=ID, prompt="Play a hand of blackjack.", private={"seed": first + n}, split=split)
    for split, first in (("train", 0), ("heldout", 1_000_000))
    for n in range(500)
]


class Blackjack(ToolEnv):
    """Hit until you stand: nearer to 21 than the dealer wins, beyond it loses."""

    turn_spec = TurnSpec(rubric=Rubric(rewards=(RESULT,)), max_turns=12)

    def __init__(self) -> None:
        super().__init__(tasks=TaskList(TASKS))
        self.table = gymnasium.make("Blackjack-v1", sab=True)

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
