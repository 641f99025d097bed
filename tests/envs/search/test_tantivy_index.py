"""The index of tantivy: what it finds, and what is written when documents change."""

import sys

import pytest

from turngate.envs.search.engine.bm25 import Bm25
from turngate.envs.search.engine.passages import Corpus, Document
from turngate.envs.search.engine.tantivy_index import TantivyIndex, TantivyRetriever
from turngate.envs.search.generated.made_up import world
from turngate.errors import ConfigError, MissingExtra


def corpus(**texts):
    return Corpus([Document(id=name, title=name, text=text) for name, text in texts.items()])


def test_it_finds_what_the_formula_finds():
    made = Corpus(world("train", 0, 30).documents)
    index, formula = TantivyIndex(made), Bm25(made.passages)
    for title in {passage.title for passage in made.passages}:
        mine, theirs = index.search(title, 3), formula.search(title, 3)
        assert mine[0].passage.id == theirs[0].passage.id
        assert mine[0].score == pytest.approx(theirs[0].score, rel=0.1)


@pytest.mark.parametrize("query", ["", '"', "a AND", "(", "+-&|!(){}[]^~*?:\\/", "x" * 200, "\ud800", "title:a"])
def test_no_query_breaks_it(query):
    assert TantivyIndex(corpus(b="Other words.")).search(query, 3) == []


def test_an_index_on_disk_is_brought_up_to_date(tmp_path):
    part = TantivyRetriever(folder=tmp_path / "index")
    first = part.open(corpus(a="Ants.", b="Bees.", c="Cats."))
    assert (first.added, first.deleted) == (3, 0)
    again = part.open(corpus(a="Ants.", b="Bees.", c="Cats."))
    assert (again.added, again.deleted) == (0, 0)
    changed = part.open(corpus(a="Ants.", b="Birds.", d="Dogs."))
    assert (changed.added, changed.deleted) == (2, 2)
    assert [hit.passage.id for hit in changed.search("bees birds cats dogs", 5)] == ["b#0", "d#0"]
    (tmp_path / "index" / "passages.json").write_text("torn")
    assert [hit.passage.id for hit in part.open(corpus(a="Ants.")).search("ants bees", 5)] == ["a#0"]


def test_a_folder_that_is_no_index(tmp_path):
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"retriever\.folder: the index at"):
        TantivyRetriever(folder=tmp_path).open(corpus(a="Ants."))


def test_without_the_package_the_install_line_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "tantivy", None)
    with pytest.raises(MissingExtra, match=r"pip install \"turngate\[search\]\""):
        TantivyIndex(corpus(a="Ants."))
