"""A judge that says what it is told to, and how it fails."""

import asyncio
import json
import re

from turngate.judges.asking import Judge, JudgeSettings, Reply, TextModel
from turngate.judges.texts import Criterion, Fault, FaultKind, JudgeId, item_of_text
from turngate.rewards.fence import WORD_MARK

CRITERION = Criterion(name="right", text="The answer is right.")
FAST = JudgeSettings(call_s=5, deadline_s=10, attempts=3, backoff_s=0, backoff_max_s=0)
NO = {"evidence": [], "verdict": "no", "score": 1}
DOWN = Reply(fault=Fault(kind=FaultKind.UNAVAILABLE, detail="status 500"))


class Scripted(TextModel):
    """Answers ``script(prompt, n)``, the n-th call with that question: an object, a text or a Reply."""

    def __init__(self, script, *, name="scripted", version="1", concurrency=4):
        self.judge, self.concurrency, self.script = JudgeId(name=name, version=version), concurrency, script
        self.asks, self.counts = [], {}

    async def complete(self, prompt):
        self.asks.append(prompt)
        fence = re.search(r"BEGIN (\w+) task", prompt.text)  # a question that is asked again has its words marked
        question = fence[1] + nonce(prompt.text) if fence else prompt.text
        n = self.counts[question] = self.counts.get(question, 0) + 1
        said = self.script(prompt.text, n)
        if asyncio.iscoroutine(said):
            said = await said
        return said if isinstance(said, Reply) else Reply(text=written(prompt.text, said))


def nonce(prompt):
    """What a reply to this question must repeat."""
    return re.search(r'without "id": "(\w+)"', prompt)[1]


def written(prompt, said):
    """A text as it is; an object as JSON, under the nonce of the question if there is one and it names none itself."""
    if isinstance(said, str):
        return said
    return json.dumps({"id": nonce(prompt)} | said if "belongs to this question" in prompt else said)


def item(n, text=None):
    return item_of_text(f"i{n}", f"task {n}", text or f"the answer is {n}")


def items(n):
    return [item(index) for index in range(n)]


def shown(prompt):
    """What stands in the fences of the agent's turns, in order; where words are marked, with blanks again."""
    if "instead of a blank" in prompt:
        prompt = prompt.replace(WORD_MARK, " ")
    return re.findall(r"^BEGIN \w+ ([^\n]*turn \d+, agent)\n(.*?)\nEND \w+ \1$", prompt, re.DOTALL | re.MULTILINE)


def said(prompt):
    return [text for _, text in shown(prompt)]


def is_null(prompt):
    """Whether this asks about a canary: nothing of the form that ``item`` makes, or made for another task."""
    task = re.search(r"BEGIN \w+ task\ntask.(\d+)\n", prompt)
    return not any(text.startswith(f"the answer is {task.group(1)}") for text in said(prompt))


def yes(prompt, score=9):
    return {"evidence": [{"turn": 0, "quote": said(prompt)[0]}], "verdict": "yes", "score": score}


def fair(prompt, n):
    """Yes to whatever has an answer to its task."""
    return NO if is_null(prompt) else yes(prompt)


def fails_for_good(fault):
    """Whatever real work is asked about fails that way; canaries are answered."""
    return lambda prompt, n: NO if is_null(prompt) else fault(prompt)


def by_points(points):
    """A fair judge of pairs: ``points`` of each text shown (0 if it is unknown), quoting the better one."""

    def script(prompt, n):
        a, b = (points(text) for text in said(prompt))
        evidence = [{"answer": "A" if a > b else "B", "turn": 0, "quote": said(prompt)[a < b]}] if a != b else []
        return {"evidence": evidence, "a": a, "b": b}

    return script


def judge(script, *, settings=FAST, cache=None, seed=0, **options):
    return Judge(Scripted(script, **options), settings=settings, cache=cache, seed=seed)
