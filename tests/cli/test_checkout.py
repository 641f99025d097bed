"""The command in a checkout that is on the path and not installed, so that no package says what turngate requires."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys
from importlib import metadata
def requires(name):
    raise metadata.PackageNotFoundError(name)
metadata.requires = requires
sys.argv = ["turngate", *sys.argv[1:]]
from turngate.cli.main import main
main()
"""


def test_a_command_that_is_done_exits_with_0():
    for arguments, code, said in ((["envs"], 0, ""), (["envs", "--ens"], 2, "No such option")):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT, *arguments],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
