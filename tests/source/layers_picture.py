"""The picture of the layers in CONTRIBUTING.md, drawn from the contract that lint-imports enforces."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def picture() -> str:
    """One line per layer, the topmost first; ``|`` separates siblings."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    return "\n".join(layers) + "\n"


if __name__ == "__main__":
    print(picture(), end="")
