"""Values of ``tasks`` for ``turngate/CodeRepair-v1``: generated problems, task sets, QuixBugs, SWE-bench, own pairs.

Problems that others have written are measured before they are played: which tests tell the bug from the repair in every
repetition. That runs every program's tests a few times, once, when the environment is made; problems that cannot be
used are dropped and counted.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from turngate.envs.tasks import BadPath, TaskSource, TaskSourcePart

if TYPE_CHECKING:
    from turngate.envs.code.grading.grading_sandbox import Bench
    from turngate.envs.code.loaders import LoadedProblems


class CodeSource(TaskSourcePart):
    """A source of repair problems."""

    kind: ClassVar[str] = "code repair"


class GeneratedCode(CodeSource):
    """Endless problems of one short function. Splits: train, heldout (new texts), newfamily (new families)."""

    type: Literal["generated_code"] = "generated_code"
    families: tuple[str, ...] | None = None
    """Families of train and heldout; leave out for all but the held-out ones."""
    held_out_families: tuple[str, ...] | None = None
    """Families of newfamily, which the other splits never show."""
    max_level: int = Field(3, ge=1, le=3)
    """Hardest texts: 1 single expressions, 2 also loops and slices, 3 also early returns and helper functions."""

    def open(self) -> TaskSource:
        from turngate.envs.code.generated.generate import CodeGenerator

        return CodeGenerator(**self.settings())


class CodeFolder(CodeSource):
    """A task set that ``turngate tasks code`` made. Splits: train and heldout (one task in five, by its id)."""

    type: Literal["code"] = "code"
    folder: Path
    """Where the task set lies."""

    def open(self) -> TaskSource:
        from turngate.envs.code.taskset import read

        return read(self.folder_of("folder"))


class MeasuredSource(CodeSource):
    """A source whose problems have to be measured before they can be played."""

    held_out: int = Field(5, ge=0)
    """Every n-th problem goes to heldout instead of train, chosen by its id (5: 20 %); 0 = none."""
    repetitions: int = Field(3, ge=1)
    """How often bug and repair are measured; a test that does not report the same each time is left out."""

    @abstractmethod
    def problems(self) -> LoadedProblems:
        """The problems, not measured yet."""

    def open(self, bench: Bench | None = None) -> TaskSource:
        """The problems that ``bench`` can tell from their repairs; None: a bench of its own, with its defaults."""
        if bench is None:
            from turngate.envs.code.grading.grading_sandbox import Bench

            with Bench() as own:
                return self.open(own)
        loaded = self.problems()
        try:
            return loaded.settled(bench, repetitions=self.repetitions).tasks(held_out=self.held_out)
        except BaseException:
            loaded.close()
            raise


class _PairSource(MeasuredSource):
    folder: Path
    """Where the programs lie; it is only read."""

    def problems(self) -> LoadedProblems:
        from turngate.envs.code.loaders import quixbugs

        return quixbugs(self.folder_of("folder"))


class Pairs(_PairSource):
    """Your own pairs: NAME.py (broken), NAME_fixed.py or fixed/NAME.py, and test_NAME.py in one folder."""

    type: Literal["pairs"] = "pairs"


class QuixBugs(_PairSource):
    """QuixBugs as published: python_programs, correct_python_programs, python_testcases, json_testcases."""

    type: Literal["quixbugs"] = "quixbugs"

    def problems(self) -> LoadedProblems:
        folder = self.folder_of("folder")
        if not (folder / "python_programs").is_dir():
            raise BadPath(f".folder: '{folder}' is not laid out as QuixBugs: it has no folder 'python_programs'")
        return super().problems()


class SweBench(MeasuredSource):
    """Rows in the format of SWE-bench, with local git repositories. A row's own column "split" names its split."""

    type: Literal["swe_bench"] = "swe_bench"
    rows: Path
    """JSON lines, one row each."""
    repositories: Path
    """A folder with a git repository for each "owner/name" that a row names: owner__name or owner/name."""
    split: str | None = None
    """Only rows whose column "split" says so; leave out for all."""
    limit: int | None = Field(None, ge=1)
    """No more problems than that."""
    trees: Path | None = None
    """Where each commit's tree is exported to, once; leave out for a temporary folder."""

    def problems(self) -> LoadedProblems:
        from turngate.envs.code.loaders import swe_bench

        rows, repositories = self.file_of("rows"), self.folder_of("repositories")
        return swe_bench(rows, repositories, split=self.split, limit=self.limit, extract=self.trees)
