"""The credit of a step comes back as it was written, in every shape."""

import numpy as np
import pyarrow.feather as feather
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import StoreError
from turngate.store.step_credit import EpisodeCredit, read_credit, write_credit

NUMBERS = st.floats(width=32)


@st.composite
def episodes(draw):
    """Episodes of one step: with the same columns, and tokens in all or none."""
    by_token, count = draw(st.booleans()), draw(st.integers(0, 4))
    found = {}
    for place in range(count):
        lengths = draw(st.lists(st.integers(0, 3), max_size=3))

        def numbers(size):
            return np.array(draw(st.lists(NUMBERS, min_size=size, max_size=size)), np.float32)

        tokens = tuple(numbers(length) for length in lengths)
        columns = {
            "bootstrap_B": np.float32(draw(NUMBERS)),
            "similar_N": np.arange(len(lengths), dtype=np.int64),
            "value_N": numbers(len(lengths)),
            "value_S": tokens,
        }
        found[f"lock/{place}"] = EpisodeCredit(
            advantage_T=numbers(len(lengths)), tokens_T=tokens if by_token else None, columns=columns
        )
    return found


@settings(max_examples=60, deadline=None)
@given(found=episodes())
def test_what_is_written_is_read(tmp_path_factory, found):
    folder = tmp_path_factory.mktemp("step") / "step=000003"
    write_credit(folder, found)
    back = read_credit(folder)
    assert list(back) == list(found)
    for name, one in found.items():
        np.testing.assert_array_equal(back[name].advantage_T, one.advantage_T)
        np.testing.assert_equal(back[name].tokens_T, one.tokens_T)
        for column, values in one.columns.items():
            np.testing.assert_equal(back[name].columns[column], values)
            if column.endswith("_N"):
                assert back[name].columns[column].dtype == values.dtype


def test_it_is_a_table_for_other_programs_and_a_damaged_file_is_named(tmp_path):
    values = np.array([0.5, -0.5], np.float32)
    write_credit(tmp_path, {"a": EpisodeCredit(advantage_T=values, columns={"value_N": values})})
    table = feather.read_table(tmp_path / "credit.feather")
    assert table.to_pydict() == {"trajectory_id": ["a"], "advantage_N": [[0.5, -0.5]], "value_N": [[0.5, -0.5]]}
    assert read_credit(tmp_path / "none") == {}
    write_credit(tmp_path, {})  # the step was redone, and learned from none
    assert read_credit(tmp_path) == {}
    (tmp_path / "credit.feather").write_bytes(b"half")
    with pytest.raises(StoreError, match=r"credit\.feather cannot be read as credit"):
        read_credit(tmp_path)
