"""``turngate serve-search``: documents behind Search-R1's retrieval interface."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from turngate.cli import consoles
from turngate.errors import ConfigError
from turngate.types import JSON

_BY_ENDING = {".jsonl": "jsonl", ".parquet": "parquet"}
app = typer.Typer(rich_markup_mode=None)


@app.command("serve-search")
def serve_search_command(
    corpus: Annotated[
        str,
        typer.Argument(metavar="CORPUS", help="A folder, a .jsonl or .parquet file, a name, or a table {type = …}."),
    ],
    retriever: Annotated[str, typer.Option(help="Name of a retriever, or a table {type = …}.")] = "bm25",
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes a free one.")] = 8000,
) -> None:
    """Serve documents for searches, as Search-R1's retrieval server does: POST /retrieve. Ctrl-C ends it."""
    from turngate.config.run_config import parse_table

    documents = parse_table("corpus", corpus) if corpus.startswith("{") else corpus_named(corpus)
    found = parse_table("retriever", retriever) if retriever.startswith("{") else {"type": retriever}
    serve_search(consoles.output(), documents, found, host=host, port=port)


def serve_search(
    console: Console, corpus: Mapping[str, JSON], retriever: Mapping[str, JSON], *, host: str, port: int
) -> None:
    """Serve until the process is ended. Raises UserError for documents that cannot be read."""
    from turngate.envs.search.engine.index_cache import library, retriever_part
    from turngate.envs.search.engine.over_http import RetrievalServer

    part = retriever_part(retriever)
    if not part.local:
        raise ConfigError(f"--retriever is '{part.type}', which searches no documents of its own; take a local one")
    opened = library(corpus, part)
    assert opened.corpus is not None
    with RetrievalServer(opened.retriever, host=host, port=port) as server:
        n_documents, n_passages = len(opened.corpus.documents), len(opened.corpus.passages)
        console.print(f"{n_documents} documents, {n_passages} passages at {server.url}", highlight=False)
        while True:
            time.sleep(3600)  # signals end it, by way of Stopped


def corpus_named(text: str) -> Mapping[str, JSON]:
    """The table of what a user names: a folder, a ``.jsonl`` or ``.parquet`` file, a table, or a type by its name."""
    path = Path(text)
    if path.is_dir():
        return {"type": "folder", "path": text}
    if kind := _BY_ENDING.get(path.suffix):
        return {"type": kind, "path": text}
    if path.suffix:
        raise ConfigError(f"'{text}' is neither a folder nor a .jsonl or .parquet file; write a table {{type = …}}")
    return {"type": text}
