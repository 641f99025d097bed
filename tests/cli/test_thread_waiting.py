"""The command line bounds how long torch's threads spin, before torch is loaded; what the user set stays."""

import os
import subprocess
import sys

import pytest

from turngate.cli.thread_waiting import SPINS, bound_spinning

VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
PROGRAM = """
import os, sys
sys.argv = ["turngate", "--version"]
from turngate.cli.main import main
assert "GOMP_SPINCOUNT" not in os.environ
try:
    main()
except SystemExit:
    pass
assert "torch" not in sys.modules
import torch
"""


@pytest.mark.parametrize(
    ("mine", "wanted"),
    [
        ({}, {"GOMP_SPINCOUNT": SPINS}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, {"OMP_WAIT_POLICY": "ACTIVE"}),
    ],
)
def test_what_the_user_set_stays(mine, wanted):
    environ = dict(mine)
    bound_spinning(environ)
    assert environ == wanted


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is in torch's Linux packages")
def test_it_reaches_openmp_from_the_command_line_and_not_from_an_import():
    environ = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environ, "OMP_DISPLAY_ENV": "VERBOSE"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert told.returncode == 0, told.stderr
    assert f"GOMP_SPINCOUNT = '{SPINS}'" in told.stderr
