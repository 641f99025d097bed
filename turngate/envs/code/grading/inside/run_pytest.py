"""Run pytest on test files of the current folder; write a JUnit report with the ids of the tests.

    python3 -P run_pytest.py REPORT IMPORT_PATHS PLUGIN TRACES FILE…

Import paths are separated by ":"; PLUGIN may be ""; TRACES is pytest's style of tracebacks. pytest is loaded before
anything of the work folder can be, so that nothing there takes its place. Values of asked tests
(``turngate_asking.py``) are written beside the report, to REPORT.answers.
"""

import os
import sys


def main(report: str, import_paths: str, plugin: str, traces: str, *files: str) -> int:
    """The exit status of pytest."""
    import pytest

    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import turngate_asking  # type: ignore[import-not-found]

    del sys.path[0]

    class Ids:
        """Writes the id of each test into the report, which otherwise tells it only in parts."""

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_setup(self, item: pytest.Item) -> None:
            item.user_properties.append(("nodeid", item.nodeid))
            turngate_asking.begin(item.nodeid)

    sys.dont_write_bytecode = True
    sys.path[:0] = [os.path.abspath(path) for path in import_paths.split(":") if path]
    options = ["-q", f"--tb={traces}", "--color=no", "--continue-on-collection-errors", "--import-mode=prepend"]
    options += ["-p", "no:cacheprovider", "-o", "addopts=", "-o", "junit_family=xunit1", f"--junitxml={report}"]
    options += [f"--rootdir={os.getcwd()}"]
    if plugin:
        options += ["-p", plugin]
    status = int(pytest.main([*options, *files], plugins=[Ids()]))
    turngate_asking.save(f"{report}.answers")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
