import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "judging")]  # for ``episodes`` and ``scripted_judge``, ``tiny_judge``
