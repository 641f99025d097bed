"""What docs/tau.md says: its config gives an environment, and its tables hold what is listed."""

import re
import tomllib
from pathlib import Path

from turngate.config.sections import EnvSection
from turngate.envs.tooluse.loaders.tau.known_wrong import KNOWN_WRONG
from turngate.envs.tooluse.loaders.tau.tau2_bench import NOT_PLAYED
from turngate.run.environments import builder

PAGE = (Path(__file__).parents[4] / "docs" / "tau.md").read_text()


def test_the_config_gives_an_environment(bench):
    (config,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    written = config.replace('"tau-bench"', f'"{bench}"').replace('"retail"', '"ferry"')
    section = EnvSection(**tomllib.loads(written)["env"])
    with builder(section)() as env:
        assert env.tasks.task("test", 0).id == "tau_bench/ferry/0"


def test_every_task_that_is_known_to_be_wrong_is_in_the_table():
    table = PAGE.partition("## Tasks that are known to be wrong")[2]
    listed = re.findall(r"\| (tau\w+) (\w+) \| ([\d, ]+) \|", table)
    assert {(bench, domain, one) for bench, domain, ids in listed for one in ids.split(", ")} == {
        task[:3] for task in KNOWN_WRONG
    }


def test_the_domains_that_are_refused_are_named():
    assert all(f"`{domain}`" in PAGE for domain in NOT_PLAYED if "-" not in domain)
