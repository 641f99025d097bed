"""The reaper: a tree that resists ends, what was there before stays, and a search that never ends says so."""

import os
import subprocess
import sys
import time

from turngate.sandbox.reaper import end_all, is_alive, now_ticks, processes, processes_below

LONG_S = 60.0
RESISTING = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
os.write(1, b"%d\\n" % os.getpid())  # whole, whoever else writes
time.sleep(600)
"""


def test_a_tree_that_resists_is_ended_with_all_its_sessions():
    with subprocess.Popen([sys.executable, "-c", RESISTING], stdout=subprocess.PIPE, text=True) as root:
        told = {int(root.stdout.readline()) for _ in range(8)}
        assert set(processes_below(root.pid)) | {root.pid} == told
        assert end_all(lambda: [*processes_below(root.pid), root.pid], time.monotonic() + LONG_S)
    assert not any(map(is_alive, told))


def test_a_process_is_told_from_those_that_were_there_before():
    before = now_ticks()
    time.sleep(0.05)
    with subprocess.Popen(["sleep", "600"]) as child:
        assert child.pid in processes()
        assert is_alive(child.pid, before)
        assert not is_alive(child.pid, now_ticks() + 100)
        child.kill()
    assert not is_alive(child.pid)


def test_what_does_not_end_in_time_is_said():
    assert not end_all(lambda: [os.getpid()], time.monotonic())  # its time is up before anything is killed
    assert end_all(list, time.monotonic() + LONG_S)
