"""The memory that environments share: what is forgotten, and who waits for whom."""

import threading
import time

import pytest

from turngate.envs.cache import Cache


def test_the_least_recently_used_is_forgotten():
    cache = Cache(room=3)
    cache.put("a", 1)
    cache.put("b", 2, weight=2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), cache.weight) == (1, None, 3, 2)
    cache.put("d", 4, weight=4)  # more than the whole room
    assert cache.get("d") is None


def make_in_threads(cache, keys):
    """How often each value was made, and how many were being made at once, of one thread for each key."""
    made, at_once, most = [], 0, 0

    def work(key):
        nonlocal at_once, most
        with cache.reserve(key):
            if cache.get(key) is None:
                at_once += 1
                most = max(most, at_once)
                time.sleep(0.05)
                at_once -= 1
                made.append(key)
                cache.put(key, key)

    threads = [threading.Thread(target=work, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made, most


def test_a_value_is_made_once_however_many_ask():
    cache = Cache(room=8)
    assert make_in_threads(cache, ["a"] * 8) == (["a"], 1)
    made, most = make_in_threads(cache, ["b", "c", "d", "b", "c"])
    assert sorted(made) == ["b", "c", "d"]
    assert most > 1  # different values are not waited for
    assert not cache._making


def test_when_making_fails_the_next_one_tries():
    cache = Cache(room=8)
    with pytest.raises(ValueError, match="broken"), cache.reserve("a"):
        raise ValueError("broken")
    assert make_in_threads(cache, ["a", "a"]) == (["a"], 1)
