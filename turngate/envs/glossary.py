"""The meaning of each name of evidence that several places use: shipped rewards and environments.

A name has one meaning and one form in every environment and reward. Environments declare what they record in
``TurnSpec.evidence`` and take their words from here; a reward reads the evidence of the names in its ``reads``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from turngate.errors import UnknownName

GLOSSARY: Mapping[str, str] = MappingProxyType(
    {
        # --- every turn and every call ---
        "parsed": "whether the text of the turn was a call without a flaw",
        "tool": "name of the tool that was called",
        "repeated": "whether the same was asked for before",
        "call_ok": "whether the call did what it was asked for",
        "action_key": "a text that is equal for equal calls",
        "reply": "what the agent wrote in the turn, word for word; empty where it was cut off",
        "n_calls": "number of calls in the turn",
        # --- the answer ---
        "answer": "the agent's answer as text; null: there is none",
        "answered": "whether an answer was given",
        "gold": "the right answer, or a list of texts each of which is right",
        "items": "the items of the agent's answer, a list of texts",
        "gold_items": "the items of the right answer, each a text or a list of texts that are all right",
        "correct": "whether the answer is right",
        "token_f1": "share of words that the answer and the nearest right one have in common, 0 to 1",
        "stated_confidence": "how sure of its answer the agent said it was, 0 to 1; false: it did not say",
        "answer_well_formed": "whether there is an answer and nothing after it",
        "stray_tags": "whether the answer holds remains of tool syntax",
        "submitted": "whether the work was handed in",
        "distance": "how much is missing of the right end, in documents or values of the state; 0: nothing",
        # --- queries ---
        "gold_query": "the hidden query that answers the question",
        "rows": "the rows of the submitted query, a list of lists; false: it failed, or there is none",
        "gold_rows": "the rows of the hidden query, a list of lists",
        "ordered": "whether the question asks for rows in an order",
        # --- calls ---
        "calls": "the calls that were made, a list of {name, arguments}",
        "gold_calls": "the calls that solve the task, a list of {name, arguments}",
        "malformed": "number of turns in which no call could be read",
        "well_formed": "whether every turn kept to the format of calls",
        "n_solved": "number of gold calls that were made in the turn",
        "solvable": "number of gold calls that could have been made in the turn",
        "unsolved": "number of gold calls that were not made",
        # --- code ---
        "fail_to_pass": "each hidden test that has to pass → whether it does, or null",
        "patch": "each changed file → its unified diff; false: nothing was handed in",
        "gold_patch": "each file of the reference repair → its unified diff",
        "files_opened": "the files that the agent looked into, a list of paths",
        "gold_files": "the files that the reference repair changes, a list of paths",
        "diagnostics_delta": "weighted findings of the tools after the turn minus those before it",
        "safe": "whether the action of the turn was safe",
        "tool_confidence": "how sure the tool is that it found the right place, 0 to 1",
        "ran_tests": "whether the turn ran the tests",
        "edit_applied": "whether the edit of the turn changed a file",
        # --- search ---
        "retrieved": "the texts that the turn retrieved, a list",
        "gold_documents": "the texts that have to be found, a list",
        "step_search": "what the turn brought to light of the gold documents, less what was known, −1 to 1",
        "n_documents": "number of passages that the turn retrieved",
        "relevance": "how much what the turn retrieved has to do with the question, as a judge says, 0 to 1",
        "weighted": "the weighted sum of a judge's sub-scores of that, 0 to 1",
        "key_score": "how well the queries hit the titles of the documents that are needed, 0 to 1",
        "cited": "the documents that the agent cited, a list of ids",
        "gold_chunks": "the documents that support the answer, a list of ids",
        # --- pages ---
        "candidates": "the candidates that a click named, a list of [x, y] in pixels, the likeliest first",
        "candidate_hit": "the number of the first candidate that hits the element that the task needs next, from 1; 0: "
        "none does; only where that element is known",
        "click_confidence": "how sure of its place the agent said it was as it clicked, 0 to 1; false: it did not say",
        "click_hit": "whether a click lies on the element that the task needs next; only where that element is known",
        "click_offset": "how far from the middle of that element a click lies, [x, y] in shares of its size",
        # --- what examiners measure ---
        "gold_logprob": "log-probability of the right answer after the turn, in nats per token",
        "gold_logprob_start": "the same before the first turn",
        "step_verdict": "whether the turn is right, as a judge says",
    }
)
"""Name of the evidence → its meaning."""


def meanings(*names: str) -> dict[str, str]:
    """The entries of these names. Raises UnknownName."""
    for name in names:
        if name not in GLOSSARY:
            raise UnknownName("evidence", name, GLOSSARY)
    return {name: GLOSSARY[name] for name in names}
