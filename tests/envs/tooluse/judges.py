"""Functions that judge, for ``judge = {type = "function", path = "tests.envs.tooluse.judges:…"}``."""

import json

from tests.helpers.scripted_judge import NO, said, yes


def polite(prompt):
    """Yes to whoever says please in the last turn."""
    return json.dumps(yes(prompt) if any("please" in text for text in said(prompt)) else NO, ensure_ascii=False)


def mumbles(prompt):
    """Says nothing about real work, and no to planted one."""
    return "Well." if any(text.startswith("answer ") for text in said(prompt)) else json.dumps(NO)
