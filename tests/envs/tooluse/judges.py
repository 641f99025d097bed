"""Functions that judge, for ``judge = {type = "function", path = "tests.envs.tooluse.judges:…"}``."""

from tests.helpers.scripted_judge import NO, said, written, yes


def polite(prompt):
    """Yes to whoever says please in the last turn."""
    return written(prompt, yes(prompt) if any("please" in text for text in said(prompt)) else NO)


def mumbles(prompt):
    """Says nothing about real work, and no to planted one."""
    return "Well." if any(text.startswith("answer ") for text in said(prompt)) else written(prompt, NO)
