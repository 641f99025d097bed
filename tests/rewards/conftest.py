import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # so that tests import ``facts``
sys.path.insert(0, str(Path(__file__).parents[1]))  # so that tests import the shared ``scores``
