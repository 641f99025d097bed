"""An environment that calls ``os.chdir`` moves itself alone: relative paths of the run lead where they led."""

import os
import threading

import pytest

from turngate.envs import own_folder
from turngate.envs.own_folder import OwnFolder, part_from_process
from turngate.foreign import guarded, staying


@pytest.mark.parametrize("parts", [True, False])
def test_a_folder_is_kept_for_its_environment_and_put_back_for_all_others(tmp_path, monkeypatch, parts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    if not parts:  # a container that forbids it
        monkeypatch.setattr(own_folder.ctypes, "CDLL", lambda name: object())
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


@pytest.mark.parametrize("running", [staying, lambda: guarded(ValueError)])
def test_what_foreign_code_does_to_the_current_folder_is_undone(tmp_path, monkeypatch, running):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with running():
        os.chdir("elsewhere")
    assert os.getcwd() == str(tmp_path)
