"""A tiny encoder with random weights, and fusion by ranks."""

import numpy as np
import pytest

from turngate.envs.search.engine.bm25 import Bm25
from turngate.envs.search.engine.dense import DenseIndex, DenseRetriever, FusedIndex
from turngate.envs.search.engine.index_cache import library, retriever_part
from turngate.envs.search.engine.passages import Corpus, Document, Hit, Passage
from turngate.errors import ConfigError

TEXTS = {"a": "ants dig", "b": "bees fly far", "c": "cats sleep"}
CORPUS = Corpus([Document(id=name, title="", text=text) for name, text in TEXTS.items()])


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """The folder of a BERT of 16 dimensions whose words are those of the corpus."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("encoder")
    words = ["[PAD]", "[UNK]", *sorted({word for text in TEXTS.values() for word in text.split()})]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
        )
        BertModel(config).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_each_text_is_nearest_to_itself_whatever_the_batch(encoder, pooling):
    alone, together = (DenseRetriever(model=encoder, pooling=pooling, batch=batch).open(CORPUS) for batch in (1, 3))
    for name, text in TEXTS.items():
        best = together.search(text, 3)
        assert best[0].passage.document == name
        assert best[0].score == pytest.approx(1.0, abs=1e-5)
        np.testing.assert_allclose([hit.score for hit in best], [hit.score for hit in alone.search(text, 3)], atol=1e-5)
    assert together.search("  ", 3) == []


def test_vectors_are_kept_and_only_new_texts_are_encoded(encoder, tmp_path, monkeypatch):
    encoded = []
    real = DenseIndex._vectors
    monkeypatch.setattr(DenseIndex, "_vectors", lambda self, texts: encoded.extend(texts) or real(self, texts))

    def opened(documents, **settings):
        encoded.clear()
        corpus = Corpus([Document(id=name, title="", text=text) for name, text in documents.items()])
        part = retriever_part({"type": "dense", "model": encoder, "folder": str(tmp_path / "kept"), **settings})
        return part.open(corpus)

    first = [(hit.passage.document, hit.score) for hit in opened(TEXTS).search("ants dig", 3)]
    again = opened(TEXTS)
    assert encoded == []
    assert [(hit.passage.document, hit.score) for hit in again.search("ants dig", 3)] == first
    changed = opened({"z": "cats dig", "b": TEXTS["b"], "twin": TEXTS["b"]})
    assert encoded == [" cats dig"]
    assert [hit.passage.document for hit in changed.search("bees fly far", 2)] == ["b", "twin"]
    opened(TEXTS, pooling="first")  # other vectors, in another file
    assert len(encoded) == 3
    (kept, _) = sorted((tmp_path / "kept").iterdir())
    kept.write_bytes(kept.read_bytes()[:100])
    assert len(opened(TEXTS).search("ants", 3)) == 3  # one that was cut off is made anew
    assert len(opened(TEXTS, pooling="first").search("ants", 3)) == 3
    assert not list((tmp_path / "kept").glob("*.part"))


def test_a_folder_that_cannot_be_written_to(encoder, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"retriever\.folder: the vectors cannot be kept at"):
        DenseRetriever(model=encoder, folder=tmp_path / "file").open(CORPUS)


def test_a_hybrid_is_named_in_one_table(encoder, tmp_path):
    part = retriever_part({"type": "hybrid", "of": ["bm25", {"type": "dense", "model": encoder}]})
    (tmp_path / "a.txt").write_text("ants dig")
    opened = library({"type": "folder", "path": str(tmp_path)}, part)
    (hit,) = opened.retriever.search("ants", 3)
    assert hit.score == pytest.approx(2 / 61)


class Fixed:
    def __init__(self, *names):
        self.names = names

    def search(self, query, k):
        passages = [Passage(id=name, document=name, title="", text="") for name in self.names]
        return [Hit(passage=passage, score=1.0) for passage in passages][:k]

    def close(self):
        pass


def test_fusion_by_ranks():
    fused = FusedIndex([Fixed("a", "b"), Fixed("b", "c")], depth=5)
    hits = fused.search("x", 3)
    assert [hit.passage.id for hit in hits] == ["b", "a", "c"]
    assert [hit.score for hit in hits] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])
    assert len(FusedIndex([Bm25(CORPUS.passages)] * 2, depth=1).search("ants", 1)) == 1


def test_wrong_settings(tmp_path):
    with pytest.raises(ConfigError, match=r"retriever\.model: '.*' cannot be loaded"):
        DenseRetriever(model=str(tmp_path / "none")).open(CORPUS)
    with pytest.raises(ConfigError, match="names 'server', which searches its own documents"):
        retriever_part({"type": "hybrid", "of": ["bm25", {"type": "server", "url": "http://localhost:1/x"}]})
    with pytest.raises(ConfigError, match=r"retriever\.of"):
        retriever_part({"type": "hybrid", "of": ["bm25"]})
