"""An environment that calls ``os.chdir`` moves itself alone: relative paths of the run lead where they led."""

import asyncio
import os
import threading
from types import SimpleNamespace

import pytest

from turngate.envs import own_folder
from turngate.envs.own_folder import OwnFolder, part_from_process
from turngate.foreign import StayingCoroutine, guarded, staying


@pytest.mark.parametrize("libc", [None, SimpleNamespace(), SimpleNamespace(unshare=lambda flags: -1)])
def test_a_folder_is_kept_for_its_environment_and_put_back_for_all_others(tmp_path, monkeypatch, caplog, libc):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(own_folder, "_told", threading.Event())
    if libc is not None:  # a system without unshare, and a container that forbids it
        monkeypatch.setattr(own_folder.ctypes, "CDLL", lambda name: libc)
    seen = []

    def work():
        part_from_process()
        folder, other = OwnFolder(), OwnFolder()
        with folder.entered():
            os.chdir("elsewhere")
        seen.append(os.getcwd())
        with other.entered():
            seen.append(os.getcwd())
        with folder.entered():
            seen.append(os.getcwd())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [str(tmp_path), str(tmp_path), str(tmp_path / "elsewhere")]
    assert os.getcwd() == str(tmp_path)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (0 if libc is None else 1)
    assert all('env.isolation = "process"' in line and str(tmp_path / "elsewhere") in line for line in told)


@pytest.mark.parametrize("running", [staying, lambda: guarded(ValueError)])
def test_what_foreign_code_does_to_the_current_folder_is_undone(tmp_path, monkeypatch, running):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with running():
        os.chdir("elsewhere")
    assert os.getcwd() == str(tmp_path)


async def _goes(folder, seen):
    os.chdir(folder)
    seen.append(os.getcwd())
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        os.chdir(folder)
        raise
    finally:
        seen.append("left")


def test_while_foreign_code_waits_all_others_are_where_they_were(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    seen = []

    async def work():
        task = asyncio.ensure_future(waiting(StayingCoroutine(_goes("elsewhere", seen))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        seen.append(os.getcwd())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await StayingCoroutine(asyncio.sleep(0, "its result"))

    async def waiting(found):
        return await found

    assert asyncio.run(work()) == "its result"
    assert seen == [str(tmp_path / "elsewhere"), str(tmp_path), "left"]
    assert os.getcwd() == str(tmp_path)
