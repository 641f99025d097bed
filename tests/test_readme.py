"""The README's programs run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_programs_of_the_readme_run(tmp_path: Path) -> None:
    """Both together, as one script: the second trains in the environment that the first registers."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 2
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "runs" / "guess" / "report" / "success.png").exists()
    assert "heldout" in done.stdout


def test_the_readme_names_files_that_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
