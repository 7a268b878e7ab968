"""Hooks of MkDocs: pages that are generated with the site, and links that leave docs/ led to them."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

from wholestep_tools.site import links, pages

ROOT = Path(__file__).parent.parent


def on_files(files: Files, config: Any) -> Files:
    """The files of docs/ with the generated pages among them."""
    for path, text in pages.generated(ROOT).items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """A page whose links to files outside of docs/ lead to the pages made of them."""
    here = posixpath.dirname(page.file.src_uri)
    return links.LINK.sub(lambda found: links.led(found, here), markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """A page whose search runs from the disk by a script of the site, and not by one from a network."""
    return output.replace("https://unpkg.com/iframe-worker/shim", get_relative_url("worker.js", page.url))
