"""Runs of a study begin stage by stage, and end when the study is killed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from examples.jobs import each
from turngate.sandbox.reaper import is_alive

STUDY = """
import os, time
from examples.jobs import each

def work(wanted):
    print(os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    list(each(work, [[1, 2]], 2))
"""
LONG_S = 60.0


def test_the_runs_of_a_killed_study_end(tmp_path):
    (tmp_path / "study.py").write_text(STUDY)
    command = [sys.executable, str(tmp_path / "study.py")]
    path = os.pathsep.join([os.getcwd(), *filter(None, sys.path)])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}) as study:
        runs = [int(study.stdout.readline()) for _ in range(2)]
        study.send_signal(signal.SIGKILL)
    end_s = time.monotonic() + LONG_S
    while any(map(is_alive, runs)) and time.monotonic() < end_s:
        time.sleep(0.05)
    assert not any(map(is_alive, runs))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_stage_is_asked_for_when_the_one_before_has_ended(jobs):
    done = []

    def stages():
        yield [-1, -2, -3]
        yield sorted(done)

    for found in each(abs, stages(), jobs):
        done.append(found)
    assert sorted(done) == [1, 1, 2, 2, 3, 3]
