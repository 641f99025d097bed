"""Tokens of an episode: exact, whatever the template does to history and whatever the texts contain."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import models
from turngate.agents import tiny
from turngate.agents.chat import Chat
from turngate.errors import ConfigError
from turngate.types import EndedBy

# as Qwen3's: a system prompt, and thoughts are dropped from every turn but the last
FORGETFUL = (
    "{{ '<|im_start|>system\nBe helpful.<|im_end|>\n' }}{% for message in messages %}"
    "{% set content = message.content.split('</think>')[-1].lstrip('\n') if message.role == 'assistant' "
    "else message.content %}"
    "{{ '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def forgetful():
    tokenizer = tiny.train_tokenizer(models.TEXTS, vocabulary=300)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.chat_template = FORGETFUL
    return Chat(tokenizer)


def text_of(chat, *parts):
    return chat.tokenizer.decode(np.concatenate(parts), clean_up_tokenization_spaces=False)


def test_an_episode_is_opening_completions_and_follow_ups():
    chat = models.chat()
    said = [chat.encode_turn("press a"), chat.encode_turn("press b")]
    parts = [
        chat.opening("red"),
        said[0],
        chat.follow_up("click green", EndedBy.STOP),
        said[1],
        chat.follow_up("clunk", EndedBy.SCRIPT),
    ]
    assert text_of(chat, *parts) == (
        "<|user|>red<|end|><|assistant|>press a<|end|>"
        "<|user|>click green<|end|><|assistant|>press b<|end|>"
        "<|user|>clunk<|end|><|assistant|>"
    )
    whole = [("user", "red"), ("assistant", "press a"), ("user", "click green"), ("assistant", "press b")]
    messages = [{"role": role, "content": text} for role, text in [*whole, ("user", "clunk")]]
    rendered = chat.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert rendered == text_of(chat, *parts)


def test_history_keeps_thoughts_that_the_template_would_drop(forgetful):
    thought = "<think>red is a</think>\npress a"
    said = forgetful.encode_turn(thought)
    history = text_of(forgetful, forgetful.opening("red"), said, forgetful.follow_up("green", EndedBy.STOP))
    assert history == (
        "<|im_start|>system\nBe helpful.<|im_end|>\n<|im_start|>user\nred<|im_end|>\n<|im_start|>assistant\n"
        "<think>red is a</think>\npress a<|im_end|>\n<|im_start|>user\ngreen<|im_end|>\n<|im_start|>assistant\n"
    )
    messages = [{"role": "user", "content": "red"}, {"role": "assistant", "content": thought}]
    assert "<think>" not in forgetful.tokenizer.apply_chat_template(messages, tokenize=False)


def test_a_turn_that_was_cut_off_gets_its_end_as_context():
    chat = models.chat()
    stopped, cut = chat.follow_up("red", EndedBy.STOP), chat.follow_up("red", EndedBy.LENGTH)
    assert cut[0] == chat.eos_id
    np.testing.assert_array_equal(cut[1:], stopped)
    assert chat.eos_id not in stopped[:1]


@pytest.mark.parametrize("text", ["<|end|>", "a<|user|>b", "<|assistant|>press a<|end|>"])
def test_text_that_spells_a_special_token_stays_text(text):
    chat = models.chat()
    special = set(chat.tokenizer.all_special_ids) | set(chat.tokenizer.added_tokens_decoder)
    plain = chat.opening("")  # the frame alone
    for ids, frame in (
        (chat.opening(text), plain),
        (chat.follow_up(text, EndedBy.STOP), chat.follow_up("", EndedBy.STOP)),
        (chat.encode_turn(text), chat.encode_turn("")),
    ):
        assert sum(int(i) in special for i in ids) == sum(int(i) in special for i in frame)
    assert chat.decode(chat.encode_turn(text)) == text


@given(st.text())
def test_every_text_survives_encoding(text):
    chat = models.chat()
    ids = chat.encode_turn(text)
    assert ids.dtype == np.int32
    assert ids[-1] == chat.eos_id
    assert chat.decode(ids) == text


def test_decode_takes_only_the_end_away():
    chat = models.chat()
    end = np.array([chat.eos_id], np.int32)
    press = chat.encode_turn("press a")[:-1]
    assert chat.decode(press) == "press a"
    assert chat.decode(end) == ""
    assert chat.decode(np.zeros(0, np.int32)) == ""
    assert chat.decode(np.concatenate([end, press])) == "<|end|>press a"


def test_a_tokenizer_without_template_is_refused():
    tokenizer = copy.deepcopy(models.tokenizer())
    tokenizer.chat_template = None
    with pytest.raises(ConfigError, match="has no chat template"):
        Chat(tokenizer)


def test_a_template_may_end_turns_with_another_token_than_eos(forgetful):
    tokenizer = copy.deepcopy(forgetful.tokenizer)
    tokenizer.eos_token = "<|end|>"
    chat = Chat(tokenizer)
    assert chat.eos_id == forgetful.eos_id
    assert chat.ends == {forgetful.eos_id, tokenizer.eos_token_id}
    np.testing.assert_array_equal(chat.follow_up("red", EndedBy.LENGTH), forgetful.follow_up("red", EndedBy.LENGTH))


def test_a_template_that_ends_no_turn_is_refused(forgetful):
    tokenizer = copy.deepcopy(forgetful.tokenizer)
    tokenizer.chat_template = FORGETFUL.replace("content + '<|im_end|>", "content + '")
    with pytest.raises(ConfigError, match=r"does not end an assistant turn with '<\|im_end\|>' or another"):
        Chat(tokenizer)
    tokenizer.eos_token = None
    with pytest.raises(ConfigError, match="has no eos_token"):
        Chat(tokenizer)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ messages[-1]['content'] }}<|end|>", "'user' message appears 0 times"),
        ("{% for m in messages %}{{ m['content'] + m['content'] }}<|end|>{% endfor %}", "appears 2 times"),
    ],
)
def test_a_template_that_loses_or_repeats_messages_is_refused(template, problem):
    tokenizer = copy.deepcopy(models.tokenizer())
    tokenizer.chat_template = template
    with pytest.raises(ConfigError, match=problem):
        Chat(tokenizer)


NAMED = "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
BRACKETS = (
    "{% for m in messages %}{{ '[INST] ' + m['content'] + ' [/INST]' if m['role'] == 'user' "
    "else ' ' + m['content'] + '<|end|>' }}{% endfor %}"
)
THINKS = (
    "{{ '<|assistant|><think>\\n\\n</think>\\n\\n' + m['content'] + '<|end|>' if m['role'] == 'assistant' "
    "else '<|user|>' + m['content'] + '<|end|>' }}"
)


def test_a_template_that_does_not_say_whose_turn_it_is_is_refused():
    tokenizer = copy.deepcopy(models.tokenizer())
    tokenizer.chat_template = NAMED
    with pytest.raises(ConfigError, match=r"not say that it is the model's turn: '<\|assistant\|>' stands before"):
        Chat(tokenizer)


@pytest.mark.parametrize(
    "template",
    [
        NAMED + "{% if add_generation_prompt %}<|assistant|>{% endif %}",
        NAMED + "{% if add_generation_prompt %}<|assistant|><think>{% endif %}",
        BRACKETS,
        "{% for m in messages %}" + THINKS + "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
        "{% for m in messages %}{{ m['content'] + '<|end|>' }}{% endfor %}",
    ],
)
def test_a_template_that_says_it_in_its_own_way_is_taken(template):
    tokenizer = copy.deepcopy(models.tokenizer())
    tokenizer.chat_template = template
    assert len(Chat(tokenizer).opening("red"))
