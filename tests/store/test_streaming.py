"""What readers and writers of a store may do to each other, and to memory.

1. A reader in another process sees whole steps only, while a writer writes.
2. A file that is cut off anywhere is named; the other steps can be read, and a writer that was killed left nothing.
3. Reading holds a bounded number of episodes, however many a step has.
4. 10,000 random episodes come back as they were.
"""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.random_episodes import random_groups
from turngate.errors import StoreError
from turngate.store import Store
from turngate.store.trajectories import ROWS_AT_ONCE

WRITER = """
import sys
from tests.helpers.random_episodes import random_groups
from turngate.store import Store
for step in range(1, 31):
    Store(sys.argv[1]).write(step, random_groups(step, groups=8, siblings=4))
"""


def test_a_reader_sees_whole_steps_while_a_writer_writes(tmp_path: Path):
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], cwd=Path(__file__).parents[2])
    seen, looks = 0, 0
    while writer.poll() is None:
        store = Store(tmp_path)
        steps = store.steps()
        for step in steps[seen:]:
            assert [len(group.trajectories) for group in store.read(step)] == [4] * 8
        assert steps == list(range(1, len(steps) + 1))
        seen, looks = len(steps), looks + 1
    assert writer.returncode == 0
    assert looks > 3
    assert Store(tmp_path).steps() == list(range(1, 31))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.99, 1.0])
def test_a_file_that_is_cut_off_is_named_and_hides_no_other_step(tmp_path: Path, share: float):
    store = Store(tmp_path)
    for step in (1, 2):
        store.write(step, random_groups(step, groups=3, siblings=2))
    file = tmp_path / "trajectories/step=000002/train.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * (len(whole) - 1))])
    with pytest.raises(StoreError, match=r"step=000002/train.parquet cannot be read as Parquet"):
        list(store.read(2))
    assert len(list(store.read(1))) == 3


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_writer_that_was_killed_loses_the_step_in_flight_alone(tmp_path: Path, share: float):
    """Until the rename its bytes have another name, which no reader takes and the next one clears away."""
    store = Store(tmp_path)
    store.write(1, random_groups(1, groups=3, siblings=2))
    whole = (tmp_path / "trajectories/step=000001/train.parquet").read_bytes()
    half = tmp_path / "trajectories/step=000002/.train.parquet.1-1.tmp"
    half.parent.mkdir()
    half.write_bytes(whole[: int(share * len(whole))])
    again = Store(tmp_path)
    assert again.steps() == [1]
    assert len(list(again.read())) == 3
    again.write(2, random_groups(2, groups=3, siblings=2))
    assert again.steps() == [1, 2]
    assert not half.exists()


def test_reading_holds_a_bounded_number_of_episodes(tmp_path: Path):
    """20,000 turns in one file of 5,000 episodes, read group by group in a tenth of the memory of all of them."""
    store = Store(tmp_path)
    store.write(1, random_groups(0, groups=1250, siblings=4, turns=4))
    assert 10 * ROWS_AT_ONCE < 5_000
    tracemalloc.start()
    n_turns = sum(len(one.turns) for group in store.read(1) for one in group.trajectories)
    _, streamed = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    everything = list(store.read(1))
    _, held = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert n_turns == sum(len(one.turns) for group in everything for one in group.trajectories) == 20_000
    assert streamed < held / 5


def test_10_000_random_episodes_come_back_as_they_were(tmp_path: Path):
    store = Store(tmp_path)
    for step in range(5):
        store.write(step, random_groups(step, groups=500, siblings=4))
    for step in range(5):
        for before, after in zip(random_groups(step, groups=500, siblings=4), store.read(step), strict=True):
            assert after.trajectories == before.trajectories
            for one, other in zip(before.scores, after.scores, strict=True):
                assert one.ledger == other.ledger
                assert np.array_equal(one.reward_T, other.reward_T)
                assert (one.outcome, one.usable, one.success) == (other.outcome, other.usable, other.success)
