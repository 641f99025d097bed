"""A user's judge around the policy in training: it asks it for real, and makes of its words a verdict that can be read.

A tiny model has no verdicts of its own. Who is better follows from what both did, by how much from what the policy
said, so verdicts repeat only if the policy says the same again. Every call is written to the file that the variable
OWN_JUDGE_LOG names; at call number n under weights of version v, where OWN_JUDGE_STOPS is "v:n", it waits for ever.
"""

import asyncio
import hashlib
import os
import re
from pathlib import Path

from tests.helpers.scripted_judge import written
from turngate.judges.asking import PolicyJudge, PolicyTextModel, Reply


class Articulate(PolicyJudge):
    """The policy, with words."""

    def text_model(self, player):
        """Asks the running policy."""
        return Articulated(player.policy, player.chat, context=self.context)


class Articulated(PolicyTextModel):
    """Remembers how often it was asked under which weights."""

    def __init__(self, policy, chat, *, context):
        super().__init__(policy, chat, context=context)
        self.log, self.stops, self.calls = Path(os.environ["OWN_JUDGE_LOG"]), os.environ.get("OWN_JUDGE_STOPS"), {}

    async def complete(self, prompt):
        """The verdict on the pair in the prompt."""
        version = self.judge.version
        self.calls[version] = self.calls.get(version, 0) + 1
        with self.log.open("a") as log:
            log.write(f"{version} {prompt.name.rpartition('/')[0]}\n")
        if self.stops == f"{version}:{self.calls[version]}":
            self.log.with_suffix(".stopped").touch()
            await asyncio.Event().wait()
        reply = await super().complete(prompt)
        if reply.fault and not reply.cut_off:  # words of a tiny model seldom end
            return reply
        return Reply(text=written(prompt.text, verdict(prompt.text, reply.text)))


def verdict(prompt, words):
    """The better one by a hash of what was done; work of three turns beats what has fewer."""
    pattern = r"^BEGIN \w+ answer ([AB]), (turn \d+), agent\n(.*?)\nEND \w+ answer \1, \2, agent$"
    turns = re.findall(pattern, prompt, re.DOTALL | re.MULTILINE)
    work = {letter: [text for whose, _, text in turns if whose == letter] for letter in "AB"}
    points = {letter: number("".join(texts)) if len(texts) == 3 else -1 for letter, texts in work.items()}
    if points["A"] == points["B"]:
        return {"evidence": [], "a": 5, "b": 5}
    better, worse = sorted("AB", key=lambda letter: -points[letter])
    turn, line = max(enumerate(work[better]), key=lambda one: len(one[1]))
    scores = {better.lower(): 6 + number(words) % 4, worse.lower(): 1}
    return {"evidence": [{"answer": better, "turn": turn, "quote": line}], **scores}


def number(text):
    """A number that text alone decides."""
    return int.from_bytes(hashlib.sha1(text.encode()).digest()[:4])
