"""Labelled files: what is read, and how what cannot be read is named."""

import pytest

from tests.judges.asking.labelled_rows import ROWS, work, write
from turngate.errors import DataError
from turngate.judges.asking import read_labelled


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "line 2: is not JSON"),
        ('{"label": ' + "1" * 5000 + "}", "line 2: is not readable JSON"),
        ('{"a": ' * 5000, "line 2: is not readable JSON"),
        ("[1]", "line 2: must be a JSON object"),
        ({"task": "t", "response": "r"}, "line 2, field 'label': is missing"),
        ({"response": "r", "label": True}, "line 2, field 'task': is missing"),
        (work("t", 3, True), "line 2, field 'response': .*got 3"),
        (work("t", "r", "yes"), "line 2, field 'label': .*got 'yes'"),
        (work("t", "r", 1), "line 2, field 'label': .*got 1"),
        (work("t", "r", True) | {"lable": 1}, "line 2, field 'lable': is unknown; known: task, reference, response"),
        ({"task": "t", "first": "a", "label": "first"}, "line 2, field 'second': is missing"),
        ({"task": "t", "first": "a", "second": "b", "label": "third"}, "line 2, field 'label': .*got 'third'"),
    ],
)
def test_a_bad_row_is_named_by_file_line_and_field(tmp_path, row, message):
    path = write(tmp_path / "rows.jsonl", [ROWS[0], row])
    with pytest.raises(DataError, match=rf"rows\.jsonl, {message}"):
        read_labelled(path)


def test_marks_that_only_look_like_the_end_of_a_line_stay_inside_their_text(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"task": "t", "response": "one\u2028two\x85three", "label": true}\r\n', encoding="utf-8")
    assert [row.response for row in read_labelled(path)] == ["one\u2028two\x85three"]


def test_files_without_rows(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_labelled(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="holds no rows"):
        read_labelled(write(tmp_path / "rows.jsonl", ["", "  "]))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        read_labelled(tmp_path / "binary")


def test_empty_lines_are_skipped_and_counted(tmp_path):
    assert len(read_labelled(write(tmp_path / "rows.jsonl", [ROWS[0], "", ROWS[1]]))) == 2
