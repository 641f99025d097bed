"""What the documentation site adds to the pages of ``docs/`` (``mkdocs.yml`` names this file).

README, CONTRIBUTING, AGENTS and CHANGELOG become pages, and every other file of the repository that a page links to
becomes one that shows its text. So each link that works in the repository works in the site. A line
``::: parts of PATH`` of a page becomes the reference of every shipped part of the family of parts at PATH.
"""

from __future__ import annotations

import importlib
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "extend.md",
    "AGENTS.md": "agents.md",
    "CHANGELOG.md": "changes.md",
}
"""Files beside ``docs/`` that are pages of the site, and under which name."""
SHOWN = (".py", ".toml", ".json", ".md")
"""The files of a linked folder whose text is shown."""
FENCE = re.compile(r"^ *```")
PARTS = re.compile(r"^::: parts of (\S+)$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()([^)\s#]+)((?:#[^)\s]*)?)(?=\))")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in ``docs/``."""
    for name, uri in ROOT_PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text(encoding="utf-8")))
    pages = [file for file in files.documentation_pages() if file.src_uri.endswith(".md")]
    for target in sorted({found for page in pages for found in _outside(page.content_string, origin(page.src_uri))}):
        files.append(File.generated(config, source_page(target), content=source_text(target)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links within the repository into links within the site."""
    here = page.file.src_uri
    if here.startswith("source/"):
        return markdown
    markdown = PARTS.sub(lambda match: "\n\n".join(f"::: {path}" for path in parts_of(match[1])), markdown)
    return "".join(
        line if fenced else LINK.sub(lambda match: _moved(match[1], here) + match[2], line)
        for line, fenced in lines(markdown)
    )


def parts_of(path: str) -> list[str]:
    """Where the shipped parts of a family of parts are defined, by the name under which a config knows them."""
    module, _, name = path.rpartition(".")
    family = getattr(importlib.import_module(module), name)
    found = [part.function or part for _, part in sorted(family.catalogue().items())]
    return [f"{one.__module__}.{one.__qualname__}" for one in found if one.__module__.startswith("turngate.")]


def lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """The lines of a page, and whether each is code between fences."""
    fenced = False
    for line in markdown.splitlines(keepends=True):
        edge = bool(FENCE.match(line))
        yield line, fenced or edge
        fenced ^= edge


def origin(uri: str) -> str:
    """The file of the repository that a page of the site is made of."""
    return next((name for name, page in ROOT_PAGES.items() if page == uri), f"docs/{uri}")


def source_page(target: str) -> str:
    """The page that shows a file or a folder of the repository."""
    return f"source/{target}.md"


def source_text(target: str) -> str:
    """A file between fences; of a folder all of its files that are text."""
    path = ROOT / target
    if path.is_file():
        return f"# `{target}`\n\n{_fenced(path)}"
    shown = [file for file in sorted(path.iterdir()) if file.suffix in SHOWN and file.name != "__init__.py"]
    return "\n".join([f"# `{target}`\n", *(f"## `{file.name}`\n\n{_fenced(file)}" for file in shown)])


def _fenced(path: Path) -> str:
    text = path.read_text(encoding="utf-8").rstrip("\n")
    return f"````{path.suffix.lstrip('.')}\n{text}\n````\n"


def _outside(markdown: str, file: str) -> Iterator[str]:
    """The files outside of ``docs/`` that a page links to and that are no pages."""
    for line, fenced in lines(markdown):
        for match in () if fenced else LINK.finditer(line):
            target = _resolved(match[1], file)
            if target and not target.startswith("docs/") and target not in ROOT_PAGES and (ROOT / target).exists():
                yield target


def _resolved(link: str, file: str) -> str:
    """What a link of a file names, from the root of the repository; "" for other servers."""
    return "" if "://" in link else posixpath.normpath(posixpath.join(posixpath.dirname(file), link))


def _moved(link: str, here: str) -> str:
    """A link of the page ``here``, as the site has it; what does not exist stays as it is, and is reported."""
    target = _resolved(link, origin(here))
    if not (target and (ROOT / target).exists()):
        return link
    inside = ROOT_PAGES.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else "")
    return posixpath.relpath(inside or source_page(target), posixpath.dirname(here) or ".")
