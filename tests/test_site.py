"""The documentation site: every page once in its navigation, no broken link, a reference of all that is public."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

import turngate

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BESIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "extend.md",
    "AGENTS.md": "agents.md",
    "CHANGELOG.md": "changes.md",
}
"""Files beside docs/ that are pages of the site (``docs/site_hooks.py``)."""
PAGES = sorted(DOCS.rglob("*.md"))
DOCUMENTS = [*(ROOT / name for name in BESIDE), ROOT / "llms.txt", *PAGES]
LINK = re.compile(r"\]\(([^)\s]+)\)")
needs_mkdocs = pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs mkdocs: make docs")


def navigation() -> list[tuple[str, str]]:
    """The title and the page of each entry of the navigation; of a section's own page the title is empty."""
    _, _, nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    return re.findall(r"^ +- (?:([^:\n]+): )?([\w/]+\.md)$", nav, re.MULTILINE)


@cache
def prose(path: Path) -> str:
    """A document without what stands between fences."""
    return re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.+?) *$", prose(path), re.MULTILINE)
    slugs = [re.sub(r"[^\w\- ]", "", re.sub(r"\[(.+?)\]\(.+?\)", r"\1", title)).lower() for title in titles]
    return {slug.replace(" ", "-") for slug in slugs}


def test_every_page_is_in_the_navigation_once_under_a_short_title() -> None:
    pages = Counter(page for _, page in navigation())
    assert pages == Counter([*(str(page.relative_to(DOCS)) for page in PAGES), *BESIDE.values()])
    assert [title for title, _ in navigation() if len(title) > 24] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_of_a_document_leads_somewhere(document: Path) -> None:
    for link in LINK.findall(prose(document)):
        name, _, anchor = link.partition("#")
        if "://" in name:
            continue
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), f"{link}: there is no {target.relative_to(ROOT)}"
        if anchor:
            assert anchor in anchors(target), f"{link}: {target.relative_to(ROOT)} has no such heading"


def test_every_figure_and_every_table_of_numbers_is_linked() -> None:
    linked = {(document.parent / link).resolve() for document in DOCUMENTS for link in LINK.findall(prose(document))}
    kept = {file for folder, end in (("figures", ".png"), ("data", ".csv")) for file in (DOCS / folder).iterdir()}
    assert {file.suffix for file in (DOCS / "figures").iterdir()} == {".png"}
    assert {file.suffix for file in (DOCS / "data").iterdir()} == {".csv"}
    assert sorted(kept - linked) == []


def test_the_reference_has_every_public_name_once_and_nothing_that_is_not_there() -> None:
    named = Counter(
        name
        for page in (DOCS / "reference").glob("*.md")
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.M)
    )
    assert [name for name, count in named.items() if count > 1] == []
    for name in named:
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name
    errors = {name for name in turngate.__all__ if hasattr(turngate.errors, name)}
    assert {f"turngate.{name}" for name in turngate.__all__} - set(named) == {f"turngate.{name}" for name in errors}


def build(folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """The build of ``make docs``, into another folder, where nothing but this machine answers."""
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "https_proxy": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@needs_mkdocs
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    for _, page in navigation():
        text = (tmp_path / PurePosixPath(page).with_suffix(".html")).read_text()
        assert re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"?(?:https?:)?//", text) == []
    task = (tmp_path / "reference" / "environments.html").read_text()
    assert 'id="turngate.Task.private"' in task
    credit = (tmp_path / "reference" / "credit.html").read_text()
    assert 'id="turngate.trainer.credit.gigpo.gigpo"' in credit  # which no page names
    assert "::: parts of" not in credit
    assert "turngate.TurnEnv" in (tmp_path / "search" / "search_index.json").read_text()


@needs_mkdocs
@pytest.mark.parametrize(("link", "told"), [("other.md", "not found"), ("page.md#no", "anchor"), ("#no", "anchor")])
def test_a_broken_link_fails_the_build(tmp_path: Path, link: str, told: str) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("site_hooks.py", "griffe_comments.py"):
        shutil.copy(DOCS / name, tmp_path / "docs")
    for name in BESIDE:
        (tmp_path / name).write_text("# A page\n")
    settings, _, _ = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    (tmp_path / "mkdocs.yml").write_text(settings)
    page = tmp_path / "docs" / "page.md"
    page.write_text("# Page\n\n[here](page.md#page) and [there](../README.md#a-page)\n")
    assert build(tmp_path, tmp_path / "site").returncode == 0
    page.write_text(f"# Page\n\n[nowhere]({link})\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert link in done.stderr
    assert told in done.stderr
