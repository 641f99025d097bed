"""One Chromium for the tests of a module: it would end with each environment, and takes seconds to start."""

from collections.abc import Iterator

import pytest

from turngate.envs.web.engine.browser import hold, release


@pytest.fixture(scope="module", autouse=True)
def held() -> Iterator[None]:
    hold()  # nothing starts before the first page
    yield
    release()
