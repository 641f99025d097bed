"""The evidence of ``turngate/CodeRepair-v1``: names and meanings, and repairs in the form in which they are
compared."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from turngate.envs.code.problem import Problem, Texts, unified
from turngate.envs.glossary import meanings
from turngate.types import JSON, Evidence, storable

DIFF_CHARS = 20_000
"""Most characters of the diff of one file that are recorded."""

_OF_TURNS = {
    "tests_fixed": "share of the tests that have to pass which do after the turn",
    "tests_broken": "share of the tests that must not break which the turn left broken",
    "localised": "how near the turn came to what the reference repair changes: 1 its functions, ½ its files",
}
_OF_DIAGNOSTICS = {
    **meanings("diagnostics_delta"),
    "diagnostics": "counts of what the tools find in the changed files",
}
EVIDENCE = {
    **meanings("ran_tests", "edit_applied", "submitted", "fail_to_pass"),
    **meanings("patch", "gold_patch", "files_opened", "gold_files"),
    **_OF_TURNS,
    **_OF_DIAGNOSTICS,
    "exit": "exit code of the command of the turn",
    "syntax_ok": "whether the modules that were changed so far can be parsed",
    "submitted_untested": "whether the tree was handed in without a run of the tests since its last change",
    "empty_patch": "whether nothing was changed that counts",
    "tests_fixed_at_end": "share of the tests that have to pass which do at the end",
    "tests_broken_at_end": "share of the tests that must not break which are broken at the end",
    "resolved": "whether the problem is solved and handed in",
    "ladder": "−1 not handed in, −½ nothing changed, 0 the tests fail, 1 they pass",
    "tests_changed": "recorded where it happens: test files that were changed",
    "tests_deleted": "recorded where it happens: test files that were deleted",
    "protected_diff": "recorded where it happens: protected files that were changed",
    "files_deleted": "recorded where it happens: files that are gone although the reference repair keeps them",
    "too_large": "recorded where it happens: files that no patch would hold",
    "tampering": "recorded where it happens: names in the repair that reach into the runner",
    "exit_overridden": "recorded where it happens: the exit of the runner was overridden",
    "control_passed": "recorded where it happens: a test passed that honest code fails",
    "tests_ended_early": "recorded where it happens: why the run of the tests ended early",
}


def declared(evidence: Mapping[str, str] | None, *, each: bool, diagnosed: bool) -> Mapping[str, str] | None:
    """The part of the declared evidence that these settings record: tests after ``each`` turn, findings of tools."""
    left_out = {**({} if each else _OF_TURNS), **({} if diagnosed else _OF_DIAGNOSTICS)}
    return None if evidence is None else {name: said for name, said in evidence.items() if name not in left_out}


def diffs(problem: Problem, repair: Texts) -> dict[str, str]:
    """Path → unified diff, of each file that a repair changes."""
    found = ((path, unified(path, problem.original(path), text)) for path, text in sorted(repair.items()))
    return {path: diff for path, diff in found if diff}


def compared(problem: Problem, repair: Texts, opened: Collection[str], *, submitted: bool) -> Iterator[Evidence]:
    """The repair beside the reference repair, and the files that were looked into beside those that it changes."""
    gold = {path: unified(path, problem.found(path), text) for path, text in sorted(problem.solved.items())}
    facts: dict[str, JSON] = {
        "patch": _kept(diffs(problem, repair)) if submitted else False,
        "gold_patch": _kept(gold),
        "files_opened": sorted(opened),
        "gold_files": sorted(problem.solved),
    }
    for name, value in facts.items():
        yield Evidence(name=name, value=value, by="verifier")


def _kept(patch: Mapping[str, str]) -> dict[str, JSON]:
    return {storable(path): storable(diff, DIFF_CHARS) for path, diff in patch.items()}
