"""An environment that shows pictures: one to begin with, another after a wrong answer. Importing it registers it."""

import struct
import zlib
from dataclasses import replace

import turngate
from turngate.envs.base import TurnSpec
from turngate.envs.tasks import TaskList
from turngate.envs.tool_env import ToolEnv
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.tools.tool import tool
from turngate.types import Evidence, Task

ID = "test/Gallery-v0"
COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0)}
TASKS = [
    Task(id=f"gallery/{name}", env_id=ID, prompt="Which colour?", private={"colour": name}, split="heldout")
    for name in COLOURS
]


def png(red, green, blue):
    """One pixel."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(bytes([0, red, green, blue]))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


class GalleryEnv(ToolEnv):
    """Name the colour of a picture."""

    turn_spec = TurnSpec(
        rubric=Rubric(rewards=(FromEvidence(name="seen", evidence="seen", kind="outcome", weight=1.0, levels=(0, 1)),)),
        max_turns=2,
    )

    def __init__(self, *, tasks=None, split=None, max_turns=None):
        super().__init__(tasks=tasks or TaskList(TASKS), split=split, max_turns=max_turns)

    def begin(self, task):
        self.seen = False
        return task.prompt

    def start(self, task, rng):
        return replace(super().start(task, rng), images=(png(*COLOURS[task.private["colour"]]),))

    def act(self, action):
        outcome = super().act(action)
        images = () if outcome.done else (png(9, 9, 9), png(8, 8, 8))
        return replace(outcome, observation=replace(outcome.observation, images=images))

    @tool
    def name(self, colour: str) -> str:
        """Name the colour."""
        self.seen = colour == self.task.private["colour"]
        if self.seen:
            self.end()
        return "right" if self.seen else "no; look again"

    def verify(self):
        yield Evidence(name="seen", value=self.seen)


turngate.register(ID, "tests.helpers.galleries:GalleryEnv")
