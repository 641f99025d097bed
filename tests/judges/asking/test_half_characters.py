"""Half of a character (a lone surrogate), which a model writes as an escape of JSON and no file or tokenizer takes:
each text becomes storable where it enters."""

import json
from dataclasses import replace

import pytest

from tests.helpers import models
from turngate.agents.prefix_turns import PrefixTurns
from turngate.agents.server import Said, read_completion
from turngate.judges.asking.blocking_text_model import BlockingTextModel
from turngate.judges.asking.offline import FunctionJudge, recorded_replies
from turngate.judges.asking.text_model import Reply
from turngate.judges.asking.user_models import read_reply
from turngate.judges.texts import read_object
from turngate.store import write_json_atomic
from turngate.trainer.auxiliary.thoughts import read_correction
from turngate.trainer.guidance.guarded_help import LeakGuard
from turngate.trainer.guidance.plan import Plan
from turngate.types import Guidance, Task, derive_seed

HALF = "a \ud800 b"
WHOLE = "a ? b"
TASK = Task(id="t", env_id="turngate/Lock-v1", prompt="Open it.")
GUIDANCE = Guidance(kind="hint", level=1, text=HALF, source="oracle")


def half(prompt):
    return HALF


def completion(content, **message):
    choices = [{"message": {"content": content, **message}, "finish_reason": "stop"}]
    found = read_completion(json.dumps({"choices": choices}))
    assert isinstance(found, Said)
    return found


def recorded(folder):
    (folder / "replies.jsonl").write_text(json.dumps({"prompt": "p", "reply": HALF}))
    return recorded_replies(folder / "replies.jsonl")["p"].text


def remembered(folder):
    """A reply that is asked for, and one that was kept in a file before this was repaired."""
    kept, texts = folder / "kept.jsonl", []
    for _ in range(2):
        text_model = BlockingTextModel(
            FunctionJudge(path=f"{__name__}:half"), role="x", identity={}, deadline_s=5, cache=kept
        )
        texts.append(text_model.complete("p").text)
        text_model.close()
        kept.write_text(kept.read_text().replace("?", r"\ud800"))
    assert "ud800" in kept.read_text()
    return texts


def guided(entry):
    (kept,) = LeakGuard().allowed(TASK, Plan(entries=[entry])).entries
    return kept.guidance.text if isinstance(kept, PrefixTurns) else kept.text


def written(folder):
    write_json_atomic(folder / "state.json", {"rule": HALF})
    return json.loads((folder / "state.json").read_text("utf-8"))["rule"]


CALL = {"function": {"name": HALF, "arguments": {"x": HALF}}}
ENTRIES = {
    "a reply of any text model": lambda folder: Reply(text=HALF).text,
    "a recorded reply": recorded,
    "a reply asked for inside of an environment": remembered,
    "a model user's line": lambda folder: read_reply(f"MOOD: 0\nSAY: {HALF}").text,
    "a server's text": lambda folder: completion(HALF).text,
    "a server's refusal": lambda folder: completion("", refusal=HALF).refusal,
    "a server's call": lambda folder: [
        completion("", tool_calls=[CALL]).calls[0].name,
        json.loads(completion("", tool_calls=[CALL]).calls[0].arguments)["x"],
    ],
    "an object in a reply": lambda folder: read_object(r'{"x": "a \ud800 b"}')["x"],
    "a list in a reply": lambda folder: read_object(r'{"x": [{"y": "a \ud800 b"}]}')["x"][0]["y"],
    "a key in a reply": lambda folder: list(read_object(r'{"a \ud800 b": 1}')),
    "a corrected thought": lambda folder: read_correction(r'{"right": false, "thought": "a \ud800 b"}'),
    "help of a guide": lambda folder: guided(GUIDANCE),
    "help after a forced beginning": lambda folder: guided(PrefixTurns(turns=("press a",), guidance=GUIDANCE)),
    "a file of a run": written,
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_it_becomes_storable(entry, tmp_path):
    found = ENTRIES[entry](tmp_path)
    assert set([found] if isinstance(found, str) else found) == {WHOLE}


def test_help_without_it_stays_the_same_object():
    whole = replace(GUIDANCE, text=WHOLE)
    assert LeakGuard().allowed(TASK, plan := Plan(entries=[whole, None])) is plan


def test_a_chat_reads_it_as_a_question_mark():
    chat = models.chat()
    for ids in (chat.plain, chat.special, chat.encode_turn, chat.opening):
        assert list(ids(HALF)) == list(ids(WHOLE))


def test_a_seed_can_be_derived_from_it():
    assert derive_seed(HALF) != derive_seed(WHOLE)
