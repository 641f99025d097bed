"""Models in GGUF files, as llama.cpp keeps them: written here with the package ``gguf``, read by every way a model is
named."""

import gguf
import numpy as np
import pytest
import torch

from turngate.agents import gguf_file, tiny
from turngate.agents.chat import Chat
from turngate.errors import ConfigError
from turngate.run.assembly.stored_weights import stored_weights

WIDTH, HEADS, LAYERS, INNER = 32, 2, 2, 64
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def written(path, *, architecture="llama"):
    """A Llama of two layers with a tokenizer of bytes, all of it drawn."""
    letters = [letter for letter in gguf_letters() if letter]
    tokens = ["<unk>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", *letters, "ab"]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([2, 3, 3, 3, *[1] * (len(tokens) - 4)])
    writer.add_token_merges(["a b"])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    draw = np.random.default_rng(0)

    def add(name, *shape):
        writer.add_tensor(name, draw.normal(size=shape).astype(np.float32))

    add("token_embd.weight", len(tokens), WIDTH)
    add("output_norm.weight", WIDTH)
    add("output.weight", len(tokens), WIDTH)
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
        for name, shape in (("ffn_gate", (INNER, WIDTH)), ("ffn_up", (INNER, WIDTH)), ("ffn_down", (WIDTH, INNER))):
            add(f"blk.{layer}.{name}.weight", *shape)
        add(f"blk.{layer}.attn_norm.weight", WIDTH)
        add(f"blk.{layer}.ffn_norm.weight", WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_letters():
    """The letters for the 256 bytes, as byte-level BPE writes them."""
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNGATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def test_a_file_is_a_model_that_can_be_trained_and_saved(tmp_path, cache):
    name = str(written(tmp_path / "tiny.gguf"))
    model, tokenizer = tiny.load(name)
    assert type(model).__name__ == "LlamaForCausalLM"
    assert {str(weight.dtype) for weight in model.parameters()} == {"torch.float32"}
    assert not hasattr(model.config, "quantization_config")
    assert model.get_input_embeddings().weight[0, :4].tolist() == pytest.approx(
        np.random.default_rng(0).normal(size=(1, WIDTH))[0, :4].tolist(), abs=1e-6
    )
    chat = Chat(tokenizer)
    assert chat.decode(chat.encode_turn("ab <|im_end|> ü")) == "ab <|im_end|> ü"
    model(input_ids=torch.as_tensor(chat.opening("ab"))[None].long()).logits.sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())
    tiny.save(model, tokenizer, tmp_path / "saved")
    again, _ = tiny.load(str(tmp_path / "saved"))
    for (_, one), (_, other) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(one, other)
    outline, _ = tiny.outline(name)
    assert stored_weights(name, outline).formats == ("F32",)
    assert len(list(cache.iterdir())) == 1


def test_it_is_unpacked_once_for_its_content(tmp_path, cache, monkeypatch):
    path = written(tmp_path / "tiny.gguf")
    folder = gguf_file.unpacked(str(path))
    monkeypatch.setattr(gguf_file, "_convert", lambda path, folder: pytest.fail("it was unpacked again"))
    assert gguf_file.unpacked(str(path)) == folder
    assert gguf_file.unpacked("some/name") == "some/name"
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(pytest.fail.Exception):
        gguf_file.unpacked(str(path))
    assert [entry.name for entry in cache.iterdir()] == [folder.rpartition("/")[2]]  # nothing half-written stays


@pytest.mark.parametrize("kept", [0, 3, 100, 3000])
def test_a_file_that_is_cut_off_is_refused(tmp_path, cache, kept):
    path = written(tmp_path / "tiny.gguf")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ConfigError, match=r"tiny\.gguf' cannot be loaded: .*copy them again"):
        tiny.load(str(path))
    assert not list(cache.iterdir())


def test_an_architecture_that_is_not_read_and_a_file_that_is_not_there_are_named(tmp_path):
    path = written(tmp_path / "odd.gguf", architecture="rwkv6")
    with pytest.raises(ConfigError, match="architecture rwkv6 is not supported yet; name another file"):
        tiny.load(str(path))
    with pytest.raises(ConfigError, match=r"there is no file '.*none\.gguf'"):
        tiny.load(str(tmp_path / "none.gguf"))
