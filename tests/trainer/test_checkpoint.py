"""A checkpoint exists whole or not at all."""

import pytest

from turngate.errors import StoreError, WriteError
from turngate.trainer.checkpoint import N_KEPT, Checkpoints


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
    assert N_KEPT == 2
    assert checkpoints.steps() == [1_000_000, 1_000_001]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_step_is_written_once(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, Counter("first"))
    with pytest.raises(StoreError, match="a step is saved once"):
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


def test_a_checkpoint_that_was_changed_on_disk_is_set_aside_and_the_one_before_stays(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(step, Counter(str(step)), {"critic": Counter("c")})
    assert checkpoints.set_damaged_aside() == {}
    (tmp_path / "step=000002" / "critic.pt").write_text("d")
    assert checkpoints.set_damaged_aside() == {2: "critic.pt is not what was written"}
    assert checkpoints.last() == 1
    checkpoints.save(2, Counter("again"))
    (tmp_path / "step=000002" / "sums.json").write_text("{")
    assert list(checkpoints.set_damaged_aside()) == [2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged-000002", "step=000001"]


def test_one_from_before_there_were_sums_is_whole_if_it_is_there(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, Counter("one"))
    (tmp_path / "step=000001" / "sums.json").unlink()
    assert checkpoints.set_damaged_aside() == {}


def test_what_cannot_be_loaded_is_named(tmp_path):
    class Picky(Counter):
        def load(self, path):
            raise EOFError("Ran out of input")

    Checkpoints(tmp_path).save(1, Counter("one"))
    with pytest.raises(StoreError, match=r"state\.pt' cannot be loaded: Ran out of input"):
        Checkpoints(tmp_path).load(1, Picky())


def test_a_disk_that_refuses_leaves_the_earlier_ones_and_nothing_else(tmp_path):
    class Full(Counter):
        def save(self, path):
            path.write_text("half")
            raise RuntimeError("[enforce fail at inline_container.cc:664]\nmore")

    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, Counter("one"))
    with pytest.raises(WriteError, match=r"step=000002' cannot be written: \[enforce fail"):
        checkpoints.save(2, Full())
    assert [path.name for path in tmp_path.iterdir()] == ["step=000001"]
