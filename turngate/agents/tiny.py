"""Small models from nothing: a byte-level BPE tokenizer trained on an environment's own text, and a real architecture
with random weights. Both are saved in Hugging Face format, so a folder made here and a published model load alike, and
an error names what is wrong in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from turngate.agents.architecture import attention_of, refusal
from turngate.agents.gguf_file import unpacked
from turngate.agents.model_files import model_files, silence
from turngate.agents.protocols import LanguageModel, Tokenizer
from turngate.errors import ConfigError
from turngate.types import storable

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
    bpe.train_from_iterator(map(storable, texts), trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=END, pad_token=END)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def is_own(tokenizer: Tokenizer) -> bool:
    """Whether it was made by ``train_tokenizer``, so that its model learns its tools here."""
    return str(tokenizer.chat_template) == TEMPLATE


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
    """Model, on a device, and tokenizer of a hub name, a local folder or a GGUF file.

    Raises ConfigError where there is none, where weights are missing or do not fit ``config.json``, and for a model
    that cannot be trained (``architecture.refusal``).
    """
    from transformers import AutoModelForCausalLM

    name = unpacked(name)
    config = _settings(name)
    with model_files(name):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            name,
            config=config,
            dtype=dtype,
            attn_implementation=attention_of(config),
            output_loading_info=True,
            trust_remote_code=False,
        )
    model, told = loaded
    if missing := sorted(told["missing_keys"]):
        raise ConfigError(
            f"the model '{name}' lacks {len(missing)} of its weights, {missing[0]} among them, which would begin at "
            "random; copy every file of it"
        )
    return model.to(device), _tokenizer(name, config)


def outline(name: str) -> tuple[LanguageModel, Tokenizer]:
    """The same as ``load`` returns, but the weights are without memory, on the device "meta". Raises as it does."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    name = unpacked(name)
    config = _settings(name)
    with model_files(name), torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(
            config, dtype=torch.float32, attn_implementation=attention_of(config), trust_remote_code=False
        )
    with suppress(OSError):  # most models have settings of generation, and then they name the ends of a turn
        model.generation_config = GenerationConfig.from_pretrained(name)
    return model, _tokenizer(name, config)


def _settings(name: str) -> Any:
    from transformers import AutoConfig

    with model_files(name):
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    if problem := refusal(config):
        raise ConfigError(f"the model '{name}' cannot be used: {problem}")
    return config


def _tokenizer(name: str, config: Any) -> Tokenizer:
    from transformers import AutoTokenizer

    with model_files(name, "tokenizer of the model"):
        tokenizer: Any = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    if not tokenizer("a", add_special_tokens=False)["input_ids"]:  # transformers makes an empty one where there is none
        raise ConfigError(
            f"the model '{name}' has no tokenizer; copy tokenizer.json and tokenizer_config.json beside its config.json"
        )
    if len(tokenizer) > config.vocab_size:
        raise ConfigError(
            f"the tokenizer of the model '{name}' has {len(tokenizer)} tokens and the model {config.vocab_size} "
            "(vocab_size of config.json), so some have no embedding; take the tokenizer that the model was trained "
            "with, or save the model after model.resize_token_embeddings(len(tokenizer))"
        )
    found: Tokenizer = tokenizer
    return found


def save(model: LanguageModel, tokenizer: Tokenizer, folder: Path, weights: Mapping[str, object] | None = None) -> None:
    """Write both in Hugging Face format; ``weights``, by name, instead of the model's own parameters."""
    silence()
    network: Any = model
    state = None
    if weights is not None:  # with what a model keeps beside its parameters, such as the bias of a router
        own, new = dict(network.named_parameters(remove_duplicate=False)), dict[str, Any]()
        for name in weights:  # each is read once: it may be computed for it
            read: Any = weights[name]
            new[name] = read.cpu()
        state = {name: value for name, value in network.state_dict().items() if name not in own} | new
    network.save_pretrained(folder, state_dict=state)
    tokenizer.save_pretrained(folder)
