"""The page without its data: markup, style, program, and the policy that lets a browser run this program alone."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

Carrier: TypeAlias = Literal["file", "server"]
HERE = Path(__file__).parent
LIBRARIES = ("preact.umd.js", "hooks.umd.js", "htm.umd.js", "uPlot.iife.min.js")
PROGRAM = (
    "source.js",
    "diff.js",
    "parts.js",
    "run_page.js",
    "step_page.js",
    "episode_page.js",
    "compare_page.js",
    "find_page.js",
    "app.js",
)


class Assets(NamedTuple):
    """Parts of every page: ``head`` up to the data, the program, and the ``policy`` as a header says it."""

    head: str
    program: str
    policy: str


@cache
def assets(carrier: Carrier) -> Assets:
    """The page of a file, which may make no requests, or of a server, which may make requests to that server."""
    libraries = [(HERE / "vendor" / name).read_text(encoding="utf-8") for name in LIBRARIES]
    parts = [(HERE / "page" / name).read_text(encoding="utf-8") for name in PROGRAM]
    script = "\n".join([*libraries, '(() => {\n"use strict";', *parts, "})();\n"])
    style = (HERE / "vendor" / "uPlot.min.css").read_text(encoding="utf-8")
    style += (HERE / "page" / "page.css").read_text(encoding="utf-8")
    policy = "; ".join([
        "default-src 'none'",
        f"script-src '{_digest(script)}'",
        f"style-src '{_digest(style)}'",
        "img-src data:",
        "connect-src 'self'" if carrier == "server" else "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ])  # fmt: skip
    head = (
        f'<!doctype html>\n<html lang="en" data-carrier="{carrier}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" '
        'content="no-referrer">\n<link rel="icon" href="data:,">\n<title>turngate</title>\n'
        f'<style>{style}</style>\n</head>\n<body>\n<div id="app"></div>\n<noscript>This page needs JavaScript; '
        "<code>turngate report RUN</code> and <code>turngate show RUN</code> print the same.</noscript>\n"
    )
    return Assets(head, f"<script>{script}</script>\n", policy)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
