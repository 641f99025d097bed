"""Files are read and written as UTF-8 whatever the locale says, and what a terminal has no letters for is replaced."""

from pathlib import Path

from tests.cli.small_run import turngate_anew, turngate_in, write_config

ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


def test_a_config_is_utf_8_in_every_locale_also_after_a_byte_order_mark(tmp_path: Path) -> None:
    config = write_config(tmp_path, steps=1, before="seed = 1  # Größe\n")
    config.write_bytes(b"\xef\xbb\xbf" + config.read_bytes())
    train = ("train", "lock.toml", "--policy.system=Öffne das Schloss — schnell.")
    turngate_anew(tmp_path, *train, **ASCII)
    stored = (tmp_path / "runs/lock/config.toml").read_bytes().decode("utf-8")
    assert 'system = "Öffne das Schloss — schnell."' in stored
    assert "nothing left to do" in turngate_in(tmp_path, *train).stdout


def test_letters_that_a_terminal_does_not_have_are_replaced(tmp_path: Path) -> None:
    shown = turngate_anew(tmp_path, "explain", "credit.grpo", PYTHONIOENCODING="ascii").stdout
    assert "?" in shown
    assert shown.isascii()


def test_a_file_that_is_no_utf_8_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes('name = "Größe"'.encode("latin-1"))
    done = turngate_in(tmp_path, "train", "latin.toml", code=2)
    assert done.stderr == "error: latin.toml: is not UTF-8 text (byte 10)\n"
