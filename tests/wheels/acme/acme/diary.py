"""A sink: one line per step, in the folder of the run."""

from turngate.sinks import SinkPart


class Diary(SinkPart):
    """``diary.txt``; begins each line with ``greeting``."""

    greeting: str = "Dear diary"

    def open(self, opening):
        return Pages(opening.run.path / "diary.txt", self.greeting)


class Pages:
    def __init__(self, path, greeting):
        self.path, self.greeting = path, greeting

    def write(self, step, metrics):
        with self.path.open("a") as file:
            file.write(f"{self.greeting}, step {step}\n")

    def close(self):
        pass
