"""Links between the pages of the documentation, with the anchors that headings have."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Mapping

LINK = re.compile(r"\]\((?![a-z]+:)([^)\s#]*)(#[^)\s]*)?\)")
PICTURE = re.compile(r"!\[[^]]*\]\([^)]*\)")
OUTSIDE = {"RELIABILITY.md": "reliability.md", "examples/README.md": "examples/overview.md"}
"""Pages that lie beside docs/, and their places in the site."""
FENCE = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
HEADING = re.compile(r"^#{1,6} (.*?)(?: *\{ *#([\w-]+) *\})?$", re.MULTILINE)


def led(found: re.Match[str], folder: str) -> str:
    """A link of a page in a folder of docs/, to the page of the site where it leaves docs/."""
    path = posixpath.normpath(posixpath.join("docs", folder, found[1])) if found[1] else ""
    inside = OUTSIDE.get(path) or (f"{posixpath.splitext(path)[0]}.md" if path.startswith("examples/") else "")
    if path.startswith("docs/docs/"):  # from a page beside docs/, which now is in it
        inside = path.removeprefix("docs/docs/")
    return f"]({posixpath.relpath(inside, folder or '.')}{found[2] or ''})" if inside else found[0]


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as MkDocs makes them."""
    found: set[str] = set()
    for title, stated in HEADING.findall(FENCE.sub("", text)):
        name = stated or slug(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title))
        number, free = 0, name
        while free in found:
            number += 1
            free = f"{name}_{number}"
        found.add(free)
    return found


def slug(title: str) -> str:
    """The anchor of a heading."""
    plain = unicodedata.normalize("NFKD", title.replace("`", "")).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def broken(pages: Mapping[str, str]) -> list[str]:
    """The links between these pages that lead nowhere, each with the page on which it stands."""
    known = {path: anchors(text) for path, text in pages.items()}
    wrong = []
    for path, text in pages.items():
        folder = posixpath.dirname(path)
        prose = PICTURE.sub("", CODE.sub("`x`", FENCE.sub("", text)))
        for found in LINK.finditer(prose):
            target, _, anchor = led(found, folder)[2:-1].partition("#")
            page = posixpath.normpath(posixpath.join(folder, target)) if target else path
            if page not in known or (anchor and anchor not in known[page]):
                wrong.append(f"{path}: {found[0]}")
    return wrong
