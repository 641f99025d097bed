"""Settings for the whole suite, and the promise that CI skips nothing.

Outside CI a test may skip when something optional is not installed. In CI (the variable ``CI`` is set) a missing
component stops the session before the first test and names it, and a skipped test counts as failed.
"""

import importlib.util
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.helpers import vllm_venv

pytest_plugins = [
    "tests.helpers.docker_daemon",
    "tests.helpers.forked_commands",
    "tests.helpers.pictures",
    "tests.helpers.s3_server",
]
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # tests never reach for a model hub

IN_CI = bool(os.environ.get("CI"))

# No time limits per example: a busy machine is not a bug. In CI the examples are the same every time.
hypothesis.settings.register_profile("turngate", deadline=None, derandomize=IN_CI)
hypothesis.settings.load_profile("turngate")


def _importable(module: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(module) is not None


# Every real component that some test uses → whether it is here. Found, not imported: that is for the tests.
REQUIRED_COMPONENTS: dict[str, Callable[[], bool]] = {
    "sqlite3 with deserialize": lambda: hasattr(sqlite3.Connection, "deserialize"),
    "bubblewrap": lambda: shutil.which("bwrap") is not None,
    "a Docker daemon": lambda: (
        "DOCKER_HOST" in os.environ or os.path.exists("/var/run/docker.sock") or shutil.which("dockerd") is not None
    ),
    "chromium": lambda: any(
        map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))
    ),
    "an interpreter with vllm": lambda: vllm_venv.IS_HERE,
    **{
        package: _importable(package)
        for package in (
            "torch",
            "transformers",
            "tokenizers",
            "safetensors",
            "gguf",
            "peft",
            "httpx2",
            "matplotlib",
            "docker",
            "duckdb",
            "sqlglot",
            "pandas",
            "polars",
            "datasets",
            "atif",
            "pip",
            "hatchling",
            "importlinter",
            "tensorboard",
            "wandb",
            "trackio",
            "tantivy",
            "ruff",
            "ty",
            "mcp",
            "ray",
            "fsspec",
            "s3fs",
            "moto",
            "flask",
            "flask_cors",
            "bfcl_eval",
            "mpmath",
            "playwright",
            "mkdocs",
            "mkdocstrings",
            "starlette",
            "uvicorn",
        )
    },
}


# What `make quick` leaves out: a folder, a file or a test that took seconds (`pytest --durations=0` says how many).
SLOW = """
    agents/policies/test_captured.py
    agents/policies/test_lean.py
    agents/policies/test_local.py
    agents/policies/test_prefix_memory.py
    agents/policies/test_vllm.py
    agents/policies/test_vllm_adapters.py
    agents/test_rollout.py
    agents/test_tree_rollout.py
    benchmarks/credit_lab
    benchmarks/test_latency.py
    benchmarks/test_one_gpu.py
    benchmarks/test_plan_simulation.py
    benchmarks/test_learner_memory.py
    benchmarks/test_viewer_figures.py
    cli/test_disk.py
    cli/test_doctor.py
    cli/test_end_to_end.py
    cli/test_eval_vllm_serve.py
    cli/test_export.py
    cli/test_loss_and_probe.py
    cli/test_mistakes.py
    cli/test_plan.py
    cli/test_replay.py
    cli/test_stopping.py
    cli/test_storage.py
    contract
    envs/code
    envs/search/test_cheats.py
    envs/search/test_dense.py
    envs/search/test_env.py::test_a_run_of_two_steps
    envs/search/test_over_http.py
    envs/sql/test_compare.py
    envs/sql/test_database.py
    envs/sql/test_generate.py
    envs/test_pool.py
    envs/test_ray_pool.py
    envs/tooluse/bfcl/test_bfcl_env.py
    envs/tooluse/bfcl/test_bfcl_training.py
    envs/tooluse/domains/test_errands.py
    envs/tooluse/domains/test_retail.py
    envs/tooluse/domains/test_retail_training.py
    envs/tooluse/tau/test_tau_training.py
    envs/tooluse/test_mcp_world.py
    envs/tooluse/test_training.py
    examples
    fuzz
    judges/asking/test_judge_check.py
    judges/asking/test_real_judge.py
    judges/examiners/test_examiners_that_fail.py
    learning
    report/test_curves.py
    report/test_monitors.py
    report/viewer
    rewards/test_known_parts.py
    rewards/test_safety.py
    run/test_architectures.py
    run/test_branched_guides.py
    run/test_branching.py
    run/test_cluster.py
    run/test_credit.py
    run/test_keeping.py
    run/test_killed.py
    run/test_lora.py
    run/test_not_finite.py
    run/test_offline_objectives.py
    run/test_replayed_update.py
    run/test_replaying.py
    run/test_side_runs.py
    run/test_supervised.py
    run/test_validation.py
    run/test_vllm_run.py
    run/test_memory_guide.py
    run/test_needed_memory.py
    run/test_odd_environments.py
    run/test_played_ahead.py
    run/test_policy_tournament.py
    run/test_processes.py
    run/test_second_policy.py
    run/test_written_guides.py
    sandbox
    store/remote/test_run_mirror.py
    store/test_whole_steps.py::test_a_killed_writer_leaves_only_whole_steps
    test_conftest.py
    test_documents.py
    test_other_processors.py
    test_plugins.py
    test_readme.py
    test_rescoring.py
    test_trackio_sink.py
    test_site.py::test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere
    test_site.py::test_a_broken_link_fails_the_build
    trainer/credit/test_properties.py
    trainer/test_learner.py
    trainer/torch/test_fsdp.py
""".split()


def missing_components() -> list[str]:
    """The names of the required components that are not here."""
    return [name for name, is_here in REQUIRED_COMPONENTS.items() if not is_here()]


def pytest_sessionstart(session: pytest.Session) -> None:
    missing = missing_components()
    if IN_CI and missing:
        raise pytest.UsageError(f"required components are missing: {', '.join(missing)}; run `make test`")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: `make quick` leaves it out (see SLOW in tests/conftest.py)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        name = item.path.relative_to(here).as_posix() + "::" + item.name.partition("[")[0]
        if name in SLOW or any(name.startswith((f"{place}/", f"{place}::")) for place in SLOW):
            item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    report = yield
    expected_to_fail = hasattr(report, "wasxfail")
    return report if expected_to_fail else _forbid_skip(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    return _forbid_skip(report)


def _forbid_skip(report):
    if IN_CI and report.outcome == "skipped":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped in CI, but this was: {reason}"
    return report
