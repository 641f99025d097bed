"""A checkpoint exists whole or not at all."""

import pytest

from turngate.errors import StoreError
from turngate.trainer.checkpoint import KEPT, Checkpoints


class Counter:
    """A learner whose state is one text."""

    def __init__(self, state=""):
        self.state = state

    def save(self, path):
        path.write_text(self.state)

    def load(self, path):
        self.state = path.read_text()


class DiesWhileSaving(Counter):
    def save(self, path):
        path.write_text("half")
        raise KeyboardInterrupt


def test_what_was_saved_is_loaded(tmp_path):
    checkpoints = Checkpoints(tmp_path / "new" / "folder")
    assert (checkpoints.steps(), checkpoints.last()) == ([], None)
    checkpoints.save(1, Counter("one"))
    checkpoints.save(12, Counter("twelve"))
    assert (checkpoints.steps(), checkpoints.last()) == ([1, 12], 12)
    for step, state in ((1, "one"), (12, "twelve")):
        learner = Counter()
        Checkpoints(tmp_path / "new" / "folder").load(step, learner)
        assert learner.state == state
    assert (tmp_path / "new" / "folder" / "step=000012" / "state.pt").exists()


def test_the_newest_few_are_kept_by_number_not_by_name(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (5, 999_999, 1_000_000, 1_000_001):
        checkpoints.save(step, Counter(str(step)))
    assert KEPT == 2
    assert checkpoints.steps() == [1_000_000, 1_000_001]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_step_is_written_once(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, Counter("first"))
    with pytest.raises(StoreError, match="a step is written once"):
        checkpoints.save(3, Counter("second"))
    learner = Counter()
    checkpoints.load(3, learner)
    assert learner.state == "first"


def test_a_save_that_was_killed_leaves_nothing_that_can_be_loaded(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, Counter("one"))
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(2, DiesWhileSaving())
    again = Checkpoints(tmp_path)
    assert again.last() == 1
    again.save(2, Counter("two"))
    assert again.last() == 2
    assert {path.name for path in tmp_path.iterdir()} == {"step=000001", "step=000002"}


def test_whoever_looks_disturbs_no_writer(tmp_path):
    checkpoints = Checkpoints(tmp_path / "folder")
    assert checkpoints.steps() == []
    assert not (tmp_path / "folder").exists()
    checkpoints.save(1, Counter("one"))

    class Watched(Counter):
        def save(self, path):
            super().save(path)
            assert Checkpoints(tmp_path / "folder").last() == 1
            assert path.read_text() == "two"

    checkpoints.save(2, Watched("two"))
    assert checkpoints.last() == 2


def test_a_step_that_is_not_there_is_named_with_those_that_are(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(4, Counter("four"))
    with pytest.raises(StoreError, match=r"no checkpoint of step 5 .* there are \[4\]"):
        checkpoints.load(5, Counter())
