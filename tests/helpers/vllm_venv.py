"""Where tests find the interpreter that has vllm."""

import os
from pathlib import Path

PYTHON = os.environ.get("TURNGATE_VLLM_PYTHON") or str(Path(__file__).parents[2] / ".venv-vllm/bin/python")
"""What the variable says, or in the environment of its own that `make test` makes."""
IS_HERE = os.access(PYTHON, os.X_OK)
