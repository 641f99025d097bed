"""An environment: ring the bell that fits the weather, twice. Its tasks and its rubric."""

import os

import turngate
from turngate import Evidence, FromEvidence, Observation, Outcome, Parameter, Rubric, Task, Tool, TurnEnv, TurnSpec

BELLS = {"sun": "high", "rain": "low"}
WEATHER = ("sun sun", "sun rain", "rain sun", "rain rain")
RUBRIC = Rubric(rewards=(FromEvidence(name="played", evidence="played", kind="outcome", levels=(0, 1)),))


def melodies(*, n: int = 40) -> list[Task]:
    """So many tasks, every fourth one held out."""
    return [
        Task(
            id=f"bells/{i}",
            env_id="acme/Bells-v0",
            prompt="Ring.",
            private={"weather": WEATHER[i % len(WEATHER)].split()},
            split="heldout" if i % 4 == 3 else "train",
        )
        for i in range(n)
    ]


class BellsEnv(TurnEnv):
    """``dies_in``: the task in which the environment ends its own process."""

    turn_spec = TurnSpec(
        tools=(Tool(name="ring", description="Ring a bell.", parameters=(Parameter(name="bell"),)),),
        rubric=RUBRIC,
        max_turns=2,
        has_oracle=True,
    )

    def __init__(self, *, tasks=None, split=None, max_turns=None, dies_in=""):
        super().__init__(tasks=melodies_source() if tasks is None else tasks, split=split, max_turns=max_turns)
        self.dies_in = dies_in

    def start(self, task, rng):
        self.task_id, self.weather, self.rang = task.id, task.private["weather"], []
        return Observation(text=f"{task.prompt} {self.weather[0]}", state_key="0")

    def act(self, action):
        if self.dies_in and self.task_id.endswith(self.dies_in):
            os._exit(7)
        bell = "" if action.parse_error else action.calls[0].arguments["bell"]
        self.rang.append(bell == BELLS[self.weather[len(self.rang)]])
        done = len(self.rang) == len(self.weather)
        text = "silence" if done else self.weather[len(self.rang)]
        return Outcome(observation=Observation(text=text, state_key=str(len(self.rang))), done=done)

    def verify(self):
        yield Evidence(name="played", value=self.rang == [True] * len(self.weather))

    def oracle(self, task):
        return [f"ring {BELLS[one]}" for one in task.private["weather"]]


def melodies_source():
    return turngate.TaskList(melodies())


def register_all():
    turngate.register("acme/Bells-v0", "acme.bells:BellsEnv", description="Ring what the weather asks for.")
