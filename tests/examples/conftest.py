"""What the tests of the recipes share."""

import pytest

from tests.helpers.recipes import Starts


@pytest.fixture(scope="session")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Starts:
    """The models that recipes begin from."""
    return Starts(tmp_path_factory.mktemp("starts"))
