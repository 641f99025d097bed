"""Problems that others have written: SWE-bench rows with local git repositories, QuixBugs, and own pairs of files."""

from turngate.envs.code.loaders.load import LoadedProblems, match_ids, quixbugs, swe_bench

__all__ = ["LoadedProblems", "match_ids", "quixbugs", "swe_bench"]
