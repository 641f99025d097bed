"""BM25 against its formula, written out for one passage after the other."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.envs.search.engine.bm25 import Bm25, words_of
from turngate.envs.search.engine.passages import Corpus, Document, Passage
from turngate.envs.search.engine.tantivy_index import TantivyIndex

WORDS = st.lists(st.sampled_from("ant bee cat dog eel fox".split()), max_size=8).map(" ".join)


def passages(texts):
    return [Passage(id=f"p{i}#0", document=f"p{i}", title="", text=text) for i, text in enumerate(texts)]


def by_the_formula(texts, query, k1, b):
    counts = [Counter(words_of(text)) for text in texts]
    mean = max(sum(count.total() for count in counts) / len(counts), 1.0)
    scores = []
    for count in counts:
        score = 0.0
        for word in words_of(query):
            df = sum(word in other for other in counts)
            idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
            tf = count[word]
            if tf:
                score += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * count.total() / mean))
        scores.append(score)
    return scores


@given(st.lists(WORDS, min_size=1, max_size=6), WORDS, st.floats(0.1, 3), st.floats(0, 1))
def test_scores_are_those_of_the_formula(texts, query, k1, b):
    expected = by_the_formula(texts, query, k1, b)
    found = Bm25(passages(texts), k1=k1, b=b).search(query, len(texts))
    order = sorted(range(len(texts)), key=lambda i: (-expected[i], i))
    assert [hit.score for hit in found] == pytest.approx([expected[i] for i in order if expected[i] > 0])
    assert all(hit.score == pytest.approx(expected[int(hit.passage.document[1:])]) for hit in found)


def test_a_worked_number():
    (hit,) = Bm25(passages(["ant ant bee", "cat"])).search("ant", 3)
    idf = math.log(1 + 1.5 / 1.5)
    assert hit.score == pytest.approx(idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2)))


def test_equal_scores_keep_the_order_of_the_corpus_and_strange_queries_find_nothing():
    index = Bm25(passages(["dog", "dog", "dog"]))
    assert [hit.passage.document for hit in index.search("dog", 2)] == ["p0", "p1"]
    for query in ("", "AND OR NOT", '"', "+-&|!(){}[]^~*?:\\", "\ud800"):
        assert index.search(query, 3) == []


@pytest.mark.parametrize(
    ("query", "found"), [("法国首都", "1"), ("東京は", "2"), ("กรุงเทพ", "3"), ("Oslo", "4"), ("京", "2")]
)
@pytest.mark.parametrize("index", [lambda corpus: Bm25(corpus.passages), TantivyIndex])
def test_texts_without_spaces_are_found_by_a_part_of_them(index, query, found):
    texts = ("巴黎是法国的首都。", "東京は日本の首都です。", "กรุงเทพเป็นเมืองหลวงของไทย", "Oslo lies in Norway.")
    corpus = Corpus(Document(id=str(number), title="", text=text) for number, text in enumerate(texts, 1))
    assert index(corpus).search(query, 1)[0].passage.document == found
