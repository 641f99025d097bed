"""The source of a Python package as material: fetched, unpacked safely, and sorted into modules and tests.

folder = fetch("toolz", downloads)                    # or any folder with an unpacked source
package = open_package(folder, target)                # target: a clean copy, without by-products
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path, PurePosixPath

from turngate.envs.code.generated.mutation.settings import PytestSettings, settings_of
from turngate.envs.code.grading.image import RUNNER_NEEDS
from turngate.envs.code.grading.protect import TEST_FOLDERS, is_test
from turngate.errors import DataError, TaskRefused
from turngate.jsonl import toml_of

MAX_TREE_BYTES = 64 << 20
"""A larger source is refused before anything of it is read."""
MAX_TREE_FILES = 5000
MAX_MODULE_BYTES = 1 << 20
"""A larger module is data in the form of code; it is left as it is."""
DOWNLOAD_S = 300.0

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:==[A-Za-z0-9.!+_-]+)?")
_BY_PRODUCTS = frozenset(
    "__pycache__ .git .hg .svn .tox .nox .venv venv .mypy_cache .ruff_cache .pytest_cache build dist".split()
)
_OTHER_FOLDERS = frozenset("docs doc examples example benchmarks benchmark bench tools scripts ci tasks fuzz".split())
_SCRIPTS = frozenset(
    "setup.py conftest.py noxfile.py tasks.py fabfile.py versioneer.py runtests.py _version.py".split()
)
_COMPILED = frozenset({".pyx", ".pxd", ".c", ".cc", ".cpp", ".rs", ".so", ".pyd"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package whose functions can be broken. Paths lie in ``folder``, with "/"."""

    name: str
    version: str
    licence: str
    """As its metadata says it; "" if they do not."""
    folder: Path
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    import_paths: tuple[str, ...]
    requires: tuple[str, ...]
    """Installed distributions that its modules and tests import."""
    settings: PytestSettings
    """How its tests are run."""

    @property
    def label(self) -> str:
        """``NAME-VERSION``."""
        return f"{self.name}-{self.version}"

    def read(self, path: str) -> str:
        """The text of one of its files, with the line ends that it has. Raises UnicodeDecodeError."""
        return (self.folder / path).read_bytes().decode()


# --- fetch and unpack -------------------------------------------------------------------------------------------------


def fetch(name: str, folder: Path) -> Path:
    """Fetch the source distribution ``NAME`` or ``NAME==VERSION`` with pip; the folder that it was unpacked into.

    To know its metadata pip runs the build of the package: name only what you would install. Raises DataError.
    """
    if not _NAME.fullmatch(name):
        raise DataError(name, "is neither a folder nor the name of a package, such as 'toolz' or 'toolz==1.0'")
    target = folder / "archive"
    target.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    own = name.partition("==")[0]  # what its build needs may be wheels
    command += ["--no-binary", own, "--no-deps", "--dest", str(target), "--", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired:
        raise DataError(name, f"could not be fetched within {DOWNLOAD_S:g} s; try again") from None
    archives = sorted(target.iterdir())
    if done.returncode != 0 or len(archives) != 1:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["pip said nothing"]
        why = next((line for line in reversed(lines) if line.startswith(("ERROR:", "×"))), lines[-1])
        raise DataError(name, f"has no source distribution that pip can fetch: {why}")
    return unpack(archives[0], folder / "source")


def unpack(archive: Path, target: Path) -> Path:
    """Unpack a source distribution; the only folder in it, or ``target``. Nothing is written outside of ``target``.

    Raises DataError for another kind of file, a path that leads out, or content larger than ``MAX_TREE_BYTES``.
    """
    target.mkdir(parents=True)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                _check_sizes(archive, ((item.filename, item.file_size) for item in opened.infolist()))
                opened.extractall(target)
        else:
            with tarfile.open(archive) as packed:
                _check_sizes(archive, ((item.name, item.size) for item in packed))
                packed.extractall(target, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, OSError) as error:
        raise DataError(archive, f"cannot be unpacked: {error}") from error
    inside = sorted(target.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else target


def _check_sizes(owner: Path, files: Iterator[tuple[str, int]]) -> None:
    """Raises DataError for too much, too many, or a path that leads out, before anything is read."""
    total, count = 0, 0
    for name, size in files:
        total, count = total + size, count + 1
        pure = PurePosixPath(name.replace("\\", "/"))
        if pure.is_absolute() or ".." in pure.parts:
            raise DataError(owner, f"holds the path '{name}', which leads out of it")
        if total > MAX_TREE_BYTES:
            raise DataError(owner, f"is larger than {MAX_TREE_BYTES} bytes with '{name}'; leave such files out")
        if count > MAX_TREE_FILES:
            raise DataError(owner, f"holds more than {MAX_TREE_FILES} files; leave out what is not source")


# --- what lies where --------------------------------------------------------------------------------------------------


def open_package(folder: Path, target: Path) -> Package:
    """Copy an unpacked source to ``target``, without by-products, and sort it.

    Raises DataError if it is no folder or too large, TaskRefused if nothing can be made of it.
    """
    if not folder.is_dir():
        raise DataError(folder, "is no folder with the source of a package")
    files = dict(_files(folder))
    _check_sizes(folder, ((path, size) for path, size in files.items()))
    for path in files:
        goal = target / path
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / path, goal)
    said = _metadata(target)
    if re.sub(r"[-_.]+", "-", said["name"]).lower() in RUNNER_NEEDS:
        raise TaskRefused("the test runner needs this package itself, so its repair could be read there")
    paths = tuple(sorted(files))
    settings = settings_of(target)
    tests = tuple(path for path in paths if _is_test_module(path, settings))
    if not tests:
        place = f" in {', '.join(settings.testpaths)}" if settings.testpaths else ""
        raise TaskRefused(f"its source holds no tests (files {' or '.join(settings.python_files)}{place})")
    root = "src/" if any(path.startswith("src/") and path.endswith(".py") for path in paths) else ""
    modules = tuple(path for path in paths if _is_module(path, root, files))
    if compiled := next((path for path in paths if _is_compiled(path, modules)), None):
        raise TaskRefused(f"it has compiled modules ('{compiled}'), which are not built here")
    if not modules:
        raise TaskRefused("its source holds no Python modules that are not tests")
    return Package(
        name=said["name"],
        version=said["version"],
        licence=said["licence"],
        folder=target,
        modules=modules,
        tests=tests,
        import_paths=("src", ".") if root else (".",),
        requires=_requirements(target, (*modules, *(path for path in paths if _helps_tests(path))), said["name"]),
        settings=settings,
    )


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    """Path and size of each regular file; links and by-products are left out."""
    for above, below, names in os.walk(folder):
        below[:] = sorted(
            name for name in below if name not in _BY_PRODUCTS and not os.path.islink(os.path.join(above, name))
        )
        for name in sorted(names):
            path = Path(above, name)
            if path.is_file() and not path.is_symlink() and path.suffix not in (".pyc", ".pyo"):
                yield path.relative_to(folder).as_posix(), path.stat().st_size


def _is_test_module(path: str, settings: PytestSettings) -> bool:
    named = path.endswith(".py") and settings.has_test(path) and is_test(path)
    return named and (bool(settings.testpaths) or not _is_auxiliary(path))


def _helps_tests(path: str) -> bool:
    """Whether tests, or what they import, may stand in it."""
    pure = PurePosixPath(path)
    return pure.suffix == ".py" and (is_test(path) or pure.name == "conftest.py") and not _is_auxiliary(path)


def _is_auxiliary(path: str) -> bool:
    return not _OTHER_FOLDERS.isdisjoint(PurePosixPath(path).parts[:-1])


def _is_module(path: str, root: str, files: Mapping[str, int]) -> bool:
    """Whether it is a module of the package: below ``root``, in a folder with ``__init__.py``, or alone there."""
    pure = PurePosixPath(path.removeprefix(root))
    if not path.startswith(root) or pure.suffix != ".py" or is_test(path) or files[path] > MAX_MODULE_BYTES:
        return False
    if len(pure.parts) == 1:
        return pure.name not in _SCRIPTS
    top = pure.parts[0]
    return f"{root}{top}/__init__.py" in files and top not in _OTHER_FOLDERS | TEST_FOLDERS


def _is_compiled(path: str, modules: tuple[str, ...]) -> bool:
    """Whether it is the source of a compiled module in a folder with modules."""
    folders = {os.path.dirname(module) for module in modules if "/" in module}
    return PurePosixPath(path).suffix in _COMPILED and os.path.dirname(path) in folders


def _metadata(folder: Path) -> dict[str, str]:
    """Name, version and licence, of ``PKG-INFO`` or else of ``pyproject.toml``."""
    info, project = folder / "PKG-INFO", folder / "pyproject.toml"
    if info.is_file():
        said = HeaderParser().parsestr(info.read_text(encoding="utf-8", errors="replace"))
        kinds = [line.rpartition(" :: ")[2] for line in said.get_all("Classifier", []) if line.startswith("License")]
        licence = said["License-Expression"] or ", ".join(kinds) or (said["License"] or "").strip().partition("\n")[0]
        found = (said["Name"], said["Version"], licence)
    else:
        found = _project(project) if project.is_file() else (None, None, "")
    name, version, licence = (str(part or "") for part in found)
    name = name or re.sub(r"[^A-Za-z0-9._]+", "-", folder.resolve().name).strip("-") or "package"
    return {"name": name, "version": version or "0", "licence": licence}


def _project(path: Path) -> tuple[object, object, object]:
    try:
        project = toml_of(path.read_text(encoding="utf-8")).get("project", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(path, f"cannot be read: {error}") from error
    licence = project.get("license", "")
    return project.get("name"), project.get("version"), licence if isinstance(licence, str) else licence.get("text", "")


# --- what its tests need ----------------------------------------------------------------------------------------------


def _requirements(folder: Path, paths: tuple[str, ...], own: str) -> tuple[str, ...]:
    """Installed distributions that are imported, with what they need; none that brings the package itself along."""
    imported = {name for path in paths for name in _imports(folder / path)} - sys.stdlib_module_names
    providers = metadata.packages_distributions()
    found: set[str] = set()
    for name in sorted(imported):
        for distribution in providers.get(name, [])[:1]:
            needed = _with_needs(distribution)
            if _plain(own) not in needed:
                found |= needed
    return tuple(sorted(found - {_plain(name) for name in RUNNER_NEEDS}))


def _imports(path: Path) -> Iterator[str]:
    """Top-level names that a module imports; none of one that cannot be read."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (item.name.partition(".")[0] for item in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def _with_needs(distribution: str) -> set[str]:
    """A distribution and all that it needs on this system, as far as they are installed."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    queue = [distribution]
    while queue:
        name = _plain(queue.pop())
        if name in found:
            continue
        try:
            needs = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:
            continue
        found.add(name)
        asked = map(Requirement, needs)
        queue.extend(one.name for one in asked if one.marker is None or one.marker.evaluate({"extra": ""}))
    return found


def _plain(name: str) -> str:
    """The one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()
