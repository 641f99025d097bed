"""What ``tasks`` of ``turngate/Router-v1`` can name: generated questions with their own models, and files of yours."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.tasks import TaskSource, TaskSourcePart


class RoutingSource(TaskSourcePart):
    """A source of questions that are answered with the help of models."""

    kind: ClassVar[str] = "routing"

    brings_models: ClassVar[bool] = False
    """Whether its tasks name the models that know the answers: ``private["models"]``, the path of a list of tables;
    else the environment's setting does."""


class GeneratedRouting(RoutingSource):
    """Endless questions about sums and made-up towns, with models of their own, which are functions. Splits: train
    and heldout (other towns and sums)."""

    type: Literal["generated_routing"] = "generated_routing"

    brings_models: ClassVar[bool] = True
    easy: bool = False
    """Whether every question has one of four answers, for models that are too small to copy a word."""

    def open(self) -> TaskSource:
        from turngate.envs.router.generate import RoutingTasks

        return RoutingTasks(easy=self.easy)


class RoutingQuestions(RoutingSource):
    """Your own questions, for models of your own. Splits: those that the rows name, else train and heldout."""

    type: Literal["routing_questions"] = "routing_questions"
    file: Path
    """JSON lines {"prompt": …, "answers": …}, optionally with "id" and "split"; answers: one, or several that are all
    right."""
    held_out: int = Field(5, ge=0)
    """Every n-th question goes to heldout, chosen by its text, where a row names no split (5: 20 %); 0 = none."""

    def open(self) -> TaskSource:
        from turngate.envs.router.question_rows import read_questions

        return read_questions(self.file_of("file"), held_out=self.held_out)
