"""The text of a page: a program as data, our own scripts behind hashes, and nothing that a user named as code."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wholestep.export.native.state_code import filled_in

FOLDER = Path(__file__).parent


def page_text(title: str, program: Mapping[str, Any]) -> str:
    """A page that trains a program; its policy lets these scripts alone run, and no network be asked."""
    script, style = source_text("page.js"), source_text("page.css")
    texts = {
        "TITLE": html.escape(title),
        "SCRIPT": script,
        "SCRIPTHASH": source_hash(script),
        "STYLE": style,
        "STYLEHASH": source_hash(style),
        "RUNTIME": source_text("runtime.js") + source_text("worker.js"),
        "PROGRAM": json.dumps(program, separators=(",", ":")).replace("<", "\\u003c"),
    }
    return filled_in(FOLDER / "page.html", texts)


def source_text(name: str) -> str:
    """A file of ours."""
    return (FOLDER / name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """The hash by which a policy knows a script or a style."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def encoded_bytes(data: bytes) -> str:
    """Bytes as JSON can hold them."""
    return base64.b64encode(data).decode()
