"""Small models from nothing: a byte-level BPE tokenizer trained on an environment's own text, and a real architecture
with random weights. Both are saved in Hugging Face format, so a folder made here and a published model load alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turngate.agents.protocols import LanguageModel, Tokenizer
from turngate.errors import ConfigError

END, USER, ASSISTANT = "<|end|>", "<|user|>", "<|assistant|>"
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
# A word keeps its leading space; digits, quotes and other marks stand alone, so that literals copy piece by piece.
WORDS = r" ?[A-Za-z_]+| ?[0-9]+| ?[^\sA-Za-z0-9_]|\s+"


def train_tokenizer(texts: Iterable[str], *, vocabulary: int) -> Tokenizer:
    """A byte-level BPE of at most ``vocabulary`` entries: any text is encoded without loss, frequent words are one."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END, USER, ASSISTANT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=END, pad_token=END)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def random_model(
    tokenizer: Tokenizer, *, layers: int, width: int, heads: int, context: int, seed: int
) -> LanguageModel:
    """A Qwen3 causal language model with random float32 weights drawn from ``seed``; embeddings are tied."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=width * 3,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=width // heads,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        initializer_range=width**-0.5,  # keeps the scale of activations; the published 0.02 is for wide models
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)


def load(name: str, *, dtype: str = "auto", device: str = "cpu") -> tuple[LanguageModel, Tokenizer]:
    """Model, on a device, and tokenizer of a hub name or a local folder. Raises ConfigError if there is none."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _silence()
    with _found(name):
        model: Any = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
        tokenizer: Any = AutoTokenizer.from_pretrained(name)
    return model.to(device), tokenizer


def check(name: str) -> None:
    """Raise ConfigError unless there is a model of that hub name or in that folder; reads its settings only."""
    from transformers import AutoConfig

    with _found(name):
        AutoConfig.from_pretrained(name)


@contextmanager
def _found(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = str(error).strip().partition("\n")[0].rstrip(".")
        raise ConfigError(
            f"the model '{name}' cannot be loaded: {problem}. Name a folder that holds one, such as RUN/model, or a "
            "name of the hub; with HF_HUB_OFFLINE=1 only what was loaded before is there"
        ) from error


def save(model: LanguageModel, tokenizer: Tokenizer, folder: Path, weights: Mapping[str, object] | None = None) -> None:
    """Write both in Hugging Face format; ``weights``, by name, instead of the model's own."""
    _silence()
    model.save_pretrained(folder, state_dict=None if weights is None else dict(weights))
    tokenizer.save_pretrained(folder)


def _silence() -> None:
    """One progress bar is enough, and it is ours."""
    from transformers.utils import logging

    logging.disable_progress_bar()
