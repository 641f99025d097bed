"""Asking a model for texts: retries, limits, and what is counted."""

import asyncio

import pytest

from tests.helpers.scripted_judge import DOWN, FAST, Scripted
from turngate.errors import ConfigError
from turngate.judges.asking import JudgeSettings, PolicyJudge, Reply
from turngate.trainer.guidance.base import NoGuide
from turngate.trainer.guidance.experience import MemoryGuidePart
from turngate.trainer.guidance.writer import Writer, consult, prepare

PROMPTS = {"b": "second", "a": "first", "c": "third"}


def written(script, *, settings=FAST, seed=1, **options):
    text_model = Scripted(script, **options)
    writer = Writer(text_model, settings)
    texts = asyncio.run(asyncio.wait_for(writer.write(PROMPTS, seed=seed), 30))
    return texts, writer.metrics(), text_model.asks


def test_every_prompt_gets_its_text():
    texts, metrics, asks = written(lambda prompt, n: f"about {prompt}")
    assert texts == {"a": "about first", "b": "about second", "c": "about third"}
    assert metrics == {"guide/writer_asked": 3, "guide/writer_unreachable": 0, "guide/writer_cut_off": 0}
    assert {ask.max_tokens for ask in asks} == {FAST.max_tokens}
    assert len({ask.seed for ask in asks}) == 3


def test_seeds_depend_on_the_name_and_the_attempt_alone():
    def seeds(**options):
        return {ask.name: ask.seed for ask in written(lambda prompt, n: "x", **options)[2]}

    assert seeds(concurrency=1) == seeds(concurrency=3)
    assert set(seeds(seed=2).values()).isdisjoint(seeds().values())


def test_a_failed_call_is_repeated_and_a_text_that_never_comes_is_left_out():
    texts, metrics, asks = written(lambda prompt, n: DOWN if prompt == "first" or n == 1 else prompt)
    assert texts == {"b": "second", "c": "third"}
    assert metrics == {"guide/writer_asked": 3, "guide/writer_unreachable": 1, "guide/writer_cut_off": 0}
    assert len(asks) == 3 + 2 + 2


def test_a_refusal_and_a_late_reply_are_no_texts():
    async def late():
        await asyncio.sleep(20)

    script = {"first": lambda: "I'm sorry, I cannot.", "second": late, "third": lambda: "fine"}
    hasty = JudgeSettings(call_s=0.05, deadline_s=0.1, attempts=1, backoff_s=0, backoff_max_s=0)
    texts, metrics, _ = written(lambda prompt, n: script[prompt](), settings=hasty)
    assert texts == {"c": "fine"}
    assert metrics["guide/writer_unreachable"] == 2


def test_a_text_that_was_cut_off_is_none_even_if_it_can_be_read(caplog):
    """It is not asked for again: it would become too long again."""
    texts, metrics, asks = written(lambda prompt, n: Reply(text='{"plan": ["x"]}', cut_off=prompt == "first"))
    assert set(texts) == {"b", "c"}
    assert metrics == {"guide/writer_asked": 3, "guide/writer_unreachable": 0, "guide/writer_cut_off": 1}
    assert len(asks) == 3
    assert f"longer than {FAST.max_tokens} tokens; raise guide.text_model.max_tokens" in caplog.text


def test_counts_begin_anew_after_they_were_told():
    writer = Writer(Scripted(lambda prompt, n: "x"), FAST)
    assert writer.metrics() == {"guide/writer_asked": 0, "guide/writer_unreachable": 0, "guide/writer_cut_off": 0}
    asyncio.run(writer.write(PROMPTS, seed=1))
    assert writer.metrics()["guide/writer_asked"] == 3
    assert writer.metrics()["guide/writer_asked"] == 0


def test_an_error_of_the_speaker_itself_is_raised():
    def broken(prompt, n):
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        written(broken)


def test_a_guide_that_writes_nothing_is_not_asked():
    asyncio.run(prepare(NoGuide(), None, [], seed=1))
    asyncio.run(consult(NoGuide(), None, [], wave=1, seed=1))


def test_a_config_that_is_written_back_is_read_again():
    """All settings stand in it, also those of judges that have no effect here."""
    part = MemoryGuidePart(text_model=PolicyJudge(max_tokens=7))
    again = MemoryGuidePart.load(part.model_dump(mode="json"))
    assert again == part
    with pytest.raises((ConfigError, ValueError), match=r"text_model\.doubt has no effect"):
        MemoryGuidePart(text_model=PolicyJudge(doubt=(0.1, 0.2)))
