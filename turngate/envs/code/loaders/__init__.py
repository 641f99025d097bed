"""Problems that others have written: SWE-bench rows with local git repositories, QuixBugs, and own pairs of files."""

from turngate.envs.code.loaders.load import LoadedProblems, quixbugs, swe_bench

__all__ = ["LoadedProblems", "quixbugs", "swe_bench"]
