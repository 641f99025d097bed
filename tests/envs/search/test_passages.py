"""Documents become passages that hold all of their text, and wrong documents are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.envs.search.engine.passages import Corpus, Document, id_of
from turngate.errors import ConfigError


def document(name="a", text="Some text.", where=""):
    return Document(id=name, title="T", text=text, where=where)


@given(st.text("ab. \n", min_size=1, max_size=400).filter(str.strip), st.integers(40, 90))
def test_passages_hold_every_word_and_are_short(text, most):
    corpus = Corpus([document(text=text)], chunk_chars=most)
    assert all(0 < len(passage.text) <= most for passage in corpus.passages)
    assert "".join("".join(p.text.split()) for p in corpus.passages) == "".join(text.split())


def test_paragraphs_stay_together_where_they_fit():
    corpus = Corpus([document(text="One.\n\nTwo.\n\n" + "Three. " * 5)], chunk_chars=40)
    assert corpus.passages[0].text == "One.\n\nTwo."
    assert [passage.id for passage in corpus.passages][:2] == ["a#0", "a#1"]


def test_ids_have_no_blanks_commas_or_brackets():
    assert id_of(" my, [old] file.txt") == "my_old_file.txt"
    assert Corpus([document("my file.txt")]).by_id.keys() == {"my_file.txt#0"}


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ([document(where="x.jsonl, line 3", text=" \n")], r"x\.jsonl, line 3: the document has no text"),
        ([document(where="1"), document(where="x.jsonl, line 9")], "x.jsonl, line 9: the id 'a' is taken by 1"),
        ([document(name=" ", where="x, line 1")], "x, line 1: the document has no id"),
        ([], "there are no documents"),
    ],
)
def test_wrong_documents_are_named(documents, problem):
    with pytest.raises(ConfigError, match=problem):
        Corpus(documents)


def test_wrong_documents_can_be_left_out():
    corpus = Corpus([document(text=""), document("b"), document("b")], skip_bad=True)
    assert list(corpus.documents) == ["b"]
    assert len(corpus.left_out) == 2
    with pytest.raises(ConfigError, match="no documents; document 'a': the document has no text"):
        Corpus([document(text="")], skip_bad=True)
