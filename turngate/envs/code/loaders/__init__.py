"""Problems that others have written: SWE-bench rows with local git repositories, QuixBugs, and own pairs of files."""

from turngate.envs.code.loaders.load import Dropped, LoadedProblems, match_ids, quixbugs, swe_bench

__all__ = ["Dropped", "LoadedProblems", "match_ids", "quixbugs", "swe_bench"]
