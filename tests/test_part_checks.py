"""A part says itself whether it fits the rest of the config, a user's own from the current folder too."""

import pytest
import tomli_w

from tests.helpers.command_line import turngate_at

OWN = """
from turngate import FromEvidence
from turngate.errors import ConfigError
from turngate.trainer.filters.parts import FilterPart
from turngate.trainer.guidance.base import NoGuidePart


class Many(NoGuidePart):
    least: int = 4

    def check_config(self, config):
        if config.train.group_size < self.least:
            raise ConfigError(f"needs train.group_size of at least {self.least}, found {config.train.group_size}")


class Named(Many):
    def check_config(self, config):
        raise ConfigError(f"guide.least = {self.least} has no effect; leave it out")


class Broken(Many):
    def check_config(self, config):
        return 1 / 0


class Slow(FilterPart):
    def __call__(self, group):
        return True

    def check_config(self, config):
        if config.train.ahead:
            raise ConfigError("does not go with train.ahead; set it to 0")


class Coupled(FromEvidence):
    def check_config(self, config):
        raise ConfigError(f"is paid for guide 'mel' alone, and the guide is '{config.guide.type}'")
"""
OPENED = {"type": "from_evidence", "name": "opened", "evidence": "opened", "kind": "outcome", "levels": [0, 1]}


@pytest.mark.parametrize(
    ("sections", "line"),
    [
        (
            {"guide": "own_checks:Many", "train": {"group_size": 3}},
            "error: guide: needs train.group_size of at least 4, found 3",
        ),
        ({"guide": "own_checks:Named"}, "error: guide.least = 4 has no effect; leave it out"),
        (
            {"train": {"ahead": 1, "filters": ["varied", "own_checks:Slow"]}},
            "error: train.filters[1]: does not go with train.ahead; set it to 0",
        ),
        (
            {
                "env": {
                    "rubric": {
                        "rewards": [OPENED, {"type": "own_checks:Coupled", "name": "coupled", "evidence": "parsed"}]
                    }
                }
            },
            "error: env[0].rubric.rewards[1]: is paid for guide 'mel' alone, and the guide is 'none'",
        ),
    ],
    ids=["its key is told", "told already", "in a list", "deep inside"],
)
def test_a_users_part_refuses_a_config(sections, line, tmp_path, capsys):
    assert refusal(sections, tmp_path, capsys) == line


def test_a_check_that_breaks_is_the_parts_own_fault(tmp_path, capsys):
    line = refusal({"guide": "own_checks:Broken"}, tmp_path, capsys)
    assert line == (
        "error: guide 'own_checks:Broken' (own_checks.py, line 22): check_config() raised ZeroDivisionError: division "
        "by zero in line 23; it must return nothing"
    )


def refusal(sections, folder, capsys):
    """The one line with which ``turngate train`` refuses a config with these sections."""
    (folder / "own_checks.py").write_text(OWN)
    table = {"model": "no/model", **sections, "env": {"id": "turngate/Lock-v1", **sections.get("env", {})}}
    (folder / "run.toml").write_text(tomli_w.dumps(table))
    assert turngate_at(folder, "train", "run.toml") == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line
