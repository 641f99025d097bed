"""Tokenizers and models from nothing."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import models
from turngate.agents import tiny
from turngate.agents.chat import Chat


@given(st.text())
def test_any_text_is_encoded_without_loss(text):
    tokenizer = models.tokenizer()
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def test_frequent_words_are_one_token_and_marks_stand_alone():
    tokenizer = tiny.train_tokenizer(["SELECT name FROM users WHERE name = 'Ann' AND age > 31"] * 4, vocabulary=400)
    pieces = [tokenizer.decode([i]) for i in tokenizer("SELECT name = 'Ann'", add_special_tokens=False)["input_ids"]]
    assert pieces == ["SELECT", " name", " =", " '", "Ann", "'"]


def test_the_vocabulary_is_bounded_and_the_special_tokens_come_first():
    tokenizer = tiny.train_tokenizer(models.TEXTS, vocabulary=265)
    assert len(tokenizer) == 265
    assert tokenizer.convert_tokens_to_ids([tiny.END, tiny.USER, tiny.ASSISTANT]) == [0, 1, 2]
    assert tokenizer.eos_token_id == tokenizer.pad_token_id == 0


def test_a_model_is_drawn_from_its_seed_and_leaves_the_global_generator_alone():
    def weights(seed):
        made = tiny.random_model(models.tokenizer(), layers=1, width=16, heads=2, context=64, seed=seed)
        return torch.cat([weight.detach().flatten() for weight in made.parameters()])

    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = weights(0), weights(0), weights(1)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.dtype == torch.float32


def test_saving_and_loading_changes_nothing(tmp_path):
    made = models.model()
    tiny.save(made, models.tokenizer(), tmp_path)
    loaded, tokenizer = tiny.load(str(tmp_path))
    for (name, weight), (other_name, other) in zip(made.named_parameters(), loaded.named_parameters(), strict=True):
        assert name == other_name
        assert torch.equal(weight, other)
    chat, same = models.chat(), Chat(tokenizer)
    np.testing.assert_array_equal(same.opening("red <|end|> é"), chat.opening("red <|end|> é"))
    assert same.eos_id == chat.eos_id


def test_embeddings_are_tied():
    made = models.model()
    assert made.get_output_embeddings().weight is made.get_input_embeddings().weight
