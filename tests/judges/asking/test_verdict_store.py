"""Verdicts on disk."""

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing

import pytest

from tests.helpers.scripted_judge import CRITERION, fair, items, judge
from turngate.errors import StoreError
from turngate.judges.asking import VerdictCache
from turngate.judges.asking.verdict_store import dump_answer, load_answer, verdict_key
from turngate.judges.texts import (
    Criterion,
    Critique,
    Fault,
    FaultKind,
    JudgeId,
    PairScores,
    Quote,
    Verdict,
    item_of_text,
    pointwise,
)

JUDGE = JudgeId(name="j", version="1")
YES = Verdict(passed=True, score=0.9)


def key(text="work", **changes):
    question = pointwise(item_of_text("i", "t", text), Criterion(name="c", text="x"))
    options = {"judge": JUDGE, "temperature": 0.0, "max_tokens": 10, "quotes": "decisive", "sample": 0, "seed": 0}
    return verdict_key(question, **options | changes)


def test_a_key_depends_on_all_that_decides_a_verdict():
    others = [
        key("other work"),
        key(judge=JudgeId(name="k", version="1")),
        key(judge=JudgeId(name="j", version="2")),
        key(temperature=0.5),
        key(max_tokens=11),
        key(quotes="always"),
        key(sample=1),
    ]
    assert len({key(), *others}) == 1 + len(others)
    assert key() == key(seed=5)
    assert key(temperature=0.5) != key(temperature=0.5, seed=5)


def test_what_is_written_is_read_and_stays(tmp_path):
    cache = VerdictCache(tmp_path / "folder" / "c.sqlite")
    assert cache.read(["a"]) == {}
    assert not cache.path.exists()  # reading makes nothing
    cache.write({"a": YES, "b": Fault(kind=FaultKind.INVALID)}, JUDGE)
    cache.write({"a": Verdict(passed=False, score=0.0)}, JUDGE)
    assert VerdictCache(cache.path).read(["a", "b", "c"]) == {"a": YES, "b": Fault(kind=FaultKind.INVALID)}


def test_many_keys_at_once(tmp_path):
    cache = VerdictCache(tmp_path / "c")
    answers = {f"k{n}": Verdict(passed=True, score=n / 2000) for n in range(1201)}
    cache.write(answers, JUDGE)
    assert cache.read(list(answers)) == answers


def test_a_batch_is_whole_or_absent(tmp_path):
    cache = VerdictCache(tmp_path / "c")
    cache.write({"a": YES}, JUDGE)
    with pytest.raises(StoreError, match="cannot be used as a cache"):
        _break(cache)
    assert cache.read(["a", "b", "c"]) == {"a": YES}


def _break(cache):
    """A transaction that fails in its second row."""
    with cache._open() as connection, connection:
        connection.execute("INSERT INTO verdicts VALUES ('b', 'j', '1', '{}')")
        connection.execute("INSERT INTO verdicts VALUES ('c', 'j', '1', NULL)")


def test_a_file_that_is_no_cache_is_named(tmp_path):
    path = tmp_path / "c"
    path.write_text("this is a text, long enough to be no empty database")
    with pytest.raises(StoreError, match="cannot be used as a cache of verdicts"):
        VerdictCache(path).read(["a"])
    with pytest.raises(StoreError, match="cannot be used as a cache of verdicts"):
        VerdictCache(tmp_path / "c" / "below a file").write({"a": YES}, JUDGE)


def test_a_damaged_row_is_named(tmp_path):
    cache = VerdictCache(tmp_path / "c")
    cache.write({"a": YES}, JUDGE)
    with sqlite3.connect(cache.path) as connection:
        connection.execute("UPDATE verdicts SET answer = 'x'")
    connection.close()
    with pytest.raises(StoreError, match="not a recorded verdict"):
        cache.read(["a"])


def _write(path, worker):
    for n in range(20):
        VerdictCache(path).write({f"{worker} {n}": YES}, JUDGE)


def test_several_processes_write_to_one_cache(tmp_path):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write, args=(tmp_path / "c", worker)) for worker in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert len(VerdictCache(tmp_path / "c").read([f"{worker} {n}" for worker in range(3) for n in range(20)])) == 60


# --- kills -----------------------------------------------------------------------------------------------------------


def killed(work, *args, when):
    """Run ``work`` in a process and kill it as soon as ``when`` says so."""
    process = multiprocessing.get_context("fork").Process(target=work, args=args)
    process.start()
    end_s = time.monotonic() + 30
    while not when():
        assert process.is_alive(), "it ended by itself"
        assert time.monotonic() < end_s, "it never came so far"
    os.kill(process.pid, signal.SIGKILL)
    process.join(30)
    assert process.exitcode == -signal.SIGKILL


def _write_for_ever(path):
    cache, batch = VerdictCache(path), 0
    while True:
        cache.write({f"{batch} {n}": YES for n in range(40)}, JUDGE)
        batch += 1


def test_a_kill_leaves_whole_batches(tmp_path):
    """Killed at some moment while it writes, three times over."""
    for attempt in range(3):
        cache = VerdictCache(tmp_path / f"c{attempt}")
        killed(_write_for_ever, cache.path, when=lambda at=attempt, cache=cache: cache.read([f"{3 * at + 1} 39"]))
        with closing(sqlite3.connect(cache.path)) as connection:
            rows = Counter(key.split()[0] for (key,) in connection.execute("SELECT key FROM verdicts"))
        assert set(rows.values()) == {40}
        assert set(rows) == {str(batch) for batch in range(len(rows))}
        cache.write({"after": YES}, JUDGE)
        assert cache.read(["after"]) == {"after": YES}


def _judge_and_hang(path, reached):
    """Judge three items; then three more, of which the last never gets an answer."""

    async def hang():
        reached.set()
        await asyncio.sleep(3600)

    def script(prompt, n):
        return hang() if "task 5" in prompt else fair(prompt, n)

    async def go():
        who = judge(script, cache=VerdictCache(path))
        await who.pointwise(items(3), CRITERION)
        await who.pointwise(items(6), CRITERION)

    asyncio.run(go())


def test_what_a_killed_judge_had_finished_is_not_asked_again(tmp_path):
    """A batch under way is lost, because its canaries had not all been heard."""
    path, reached = tmp_path / "c", multiprocessing.get_context("fork").Event()
    killed(_judge_and_hang, path, reached, when=lambda: reached.wait(0.01))
    judged = asyncio.run(judge(fair, cache=VerdictCache(path)).pointwise(items(6), CRITERION))
    assert [answer.passed for answer in judged.answers] == [True] * 6
    assert (judged.tally.n_cached, judged.tally.n_calls) == (3, 3 + 5)


# --- one answer ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        Verdict(passed=True, score=0.9, quotes=(Quote(turn=0, text="a “quote”"),)),
        PairScores(first=1, second=2.5, quotes=(Quote(turn=1, text="x", item=1),)),
        Critique(bad_T=(True, None, False), quotes=()),
        Fault(kind=FaultKind.INVALID, detail="because"),
    ],
)
def test_answers_survive_the_trip_to_disk(answer):
    assert load_answer(dump_answer(answer)) == answer


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"type": "Verdict"}', '{"type": "Other", "passed": true}', "null"])
def test_anything_else_on_disk_is_named(text):
    with pytest.raises(StoreError, match="not a recorded verdict"):
        load_answer(text)
