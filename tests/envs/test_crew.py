"""Threads that share jobs: each job once, few threads for quick ones, as many as needed for slow ones, none left."""

import threading
import time
from functools import partial

import pytest

from turngate.envs.pool.threads import ThreadPool


class Told:
    """Counts jobs that are done, and those of which was told."""

    def __init__(self):
        self.done = self.told = 0
        self.changed = threading.Condition()

    def __call__(self):
        with self.changed:
            self.told = self.done
            self.changed.notify_all()

    def wait_for(self, n):
        with self.changed:
            assert self.changed.wait_for(lambda: self.told >= n, 20)


def ended(threads):
    for thread in threads.end():
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize("most", [1, 4])
def test_every_job_is_done_once_whoever_puts_it(most):
    told, done, n = Told(), [], 2000
    threads = ThreadPool(most, told)

    def job(number):
        done.append(number)
        with told.changed:
            told.done += 1

    def put(numbers):
        for number in numbers:
            threads.put(partial(job, number))
            if number % 97 == 0:
                time.sleep(0.001)  # so that threads rest in between

    putting = [threading.Thread(target=put, args=(range(k, n, 4),)) for k in range(4)]
    for thread in putting:
        thread.start()
    told.wait_for(n)
    assert sorted(done) == list(range(n))
    ended(threads)


def test_quick_jobs_take_one_thread_and_begin_in_order():
    told, places, order = Told(), set(), []
    threads = ThreadPool(64, told)

    def job(number):
        places.add(threading.get_ident())
        order.append(number)
        told.done += 1

    for number in range(200):
        threads.put(partial(job, number))
    told.wait_for(200)
    assert len(places) <= 2  # a machine that stands still for some milliseconds may call another one
    assert len(places) > 1 or order == list(range(200))
    ended(threads)


def test_jobs_that_wait_for_each_other_are_all_carried_out_at_once():
    told, barrier = Told(), threading.Barrier(32)
    threads = ThreadPool(32, told)

    def job():
        barrier.wait(20)
        with told.changed:
            told.done += 1

    for _ in range(32):
        threads.put(job)
    told.wait_for(32)
    ended(threads)


def test_what_is_done_is_told_though_the_next_job_takes_long():
    told, gate = Told(), threading.Event()
    threads = ThreadPool(4, told)

    def quick():
        told.done += 1

    threads.put(quick)
    threads.put(quick)
    threads.put(lambda: gate.wait(20))
    told.wait_for(2)
    threads.put(quick)
    told.wait_for(3)
    gate.set()
    ended(threads)


def test_a_thread_that_hangs_is_made_up_for():
    told, gate, others = Told(), threading.Event(), threading.Barrier(2)
    threads = ThreadPool(2, told)
    threads.put(lambda: gate.wait(20))
    threads.widen()

    def job():
        others.wait(20)
        with told.changed:
            told.done += 1

    threads.put(job)
    threads.put(job)
    told.wait_for(2)
    gate.set()
    ended(threads)
