"""Checks of the built site: all references of its pages exist, and nothing is loaded over a network."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}
"""Attributes whose files a browser loads by itself."""


class References(HTMLParser):
    """The anchors of a page, and the targets of its references."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take in the attributes of one element."""
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value or "")
            elif name in ("href", "src") and value:
                self.targets.append((value, (tag, name) in LOADED))


def problems(folder: Path) -> list[str]:
    """The references of all pages that lead nowhere, and those that a browser would load over a network."""
    pages: dict[Path, References] = {}
    for path in [path for path in sorted(folder.rglob("*.html")) if path.name != "404.html"]:  # that of a server
        pages[path.resolve()] = found = References()
        found.feed(path.read_text(encoding="utf-8"))
    return [f"{path.name}: {problem}" for path, found in pages.items() for problem in wrong(path, found, pages)]


def wrong(path: Path, page: References, pages: dict[Path, References]) -> list[str]:
    """The wrong references of one page, each with the reason."""
    said = []
    for value, loaded in page.targets:
        parts = urlsplit(value)
        if parts.scheme or parts.netloc:
            said += [f"{value} comes over a network"] * (loaded and parts.scheme != "data")
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.exists():
            said.append(f"{value} is not there")
        elif (
            parts.fragment
            and target in pages
            and unquote(parts.fragment) not in {*pages[target].anchors, "__codelineno"}
        ):
            said.append(f"{value} has no such place")
    return said


if __name__ == "__main__":
    told = problems(Path(sys.argv[1]))
    print("\n".join([*told, f"{len(told)} broken references"]))
    sys.exit(bool(told))
