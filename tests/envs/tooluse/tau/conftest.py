import pytest

from tests.envs.tooluse.tau.checkouts import tau2_checkout, tau_bench_checkout


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    """A checkout in the layout of tau-bench."""
    return tau_bench_checkout(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="session")
def bench2(tmp_path_factory):
    """A checkout in the layout of tau2."""
    return tau2_checkout(tmp_path_factory.mktemp("bench2"))
