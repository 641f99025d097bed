"""Play the golden episodes anew, after a change of an environment that is meant: ``python -m tests.golden.renew``.

Run ``turngate replay tests/golden/episodes/in_process`` before, which shows what changed, and raise the version of an
environment's id where its tasks, its tools or the meaning of a payment are others now.
"""

import shutil
import tempfile
from pathlib import Path

from rich.console import Console

from turngate.cli.eval import evaluate_config
from turngate.config import load
from turngate.store import Store
from turngate.store.folder import RunFolder

GOLDEN = Path(__file__).parent / "episodes"
NAMES = ("in_process", "sandboxed")
PHASE = "eval-train-sampled"


def renew(name: str, folder: Path = GOLDEN) -> None:
    """Play the episodes of a config and put them into ``folder``: in one file, since a file alone takes 20 kB."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / name
        evaluate_config(Console(quiet=True), load(GOLDEN / name / "config.toml"), out=out, temperatures=[1.0])
        groups = list(Store(out).read(0))
    shutil.rmtree(RunFolder(folder / name).trajectories, ignore_errors=True)
    Store(folder / name).write(0, groups, phase=PHASE)
    (RunFolder(folder / name).trajectories / ".lock").unlink(missing_ok=True)


if __name__ == "__main__":
    for one in NAMES:
        renew(one)
