"""The benchmark of the index: its corpus is the same each time, and its stages index what they say."""

import pytest

from benchmarks.search_index import growth, measured, texts, write


def test_the_corpus_is_made_the_same_way_again(tmp_path):
    assert list(texts(30)) == list(texts(30))
    assert len({text for text in texts(300)}) == 300
    for name, changed in (("a", False), ("b", False), ("c", True)):
        write(tmp_path / name, 250, changed=changed)
    first, again, other = ((tmp_path / name).read_text().splitlines() for name in "abc")
    assert first == again
    assert [number for number in range(250) if first[number] != other[number]] == [0, 100, 200]


def test_each_stage_indexes_what_it_says(tmp_path):
    write(tmp_path / "corpus.jsonl", 250)
    assert measured(250, tmp_path, "built")["disk_mib"] >= 0
    measured(250, tmp_path, "unchanged")
    with pytest.raises(RuntimeError, match="changed: 0 passages were indexed; 3 were expected"):
        measured(250, tmp_path, "changed")
    write(tmp_path / "corpus.jsonl", 250, changed=True)
    measured(250, tmp_path, "changed")


def test_growth_of_ten_times_as_much_is_one_where_it_is_linear():
    assert growth({"s": 2.0, "mib": 0.0}, {"s": 20.0, "mib": 5.0}) == {"s": 1.0}
