"""`wholestep audit markup`: names of users are text wherever they are shown, and no markup."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.hostile.evil import PIECES, evil_name
from wholestep_tools.audit.record import record

CLAIM = "Names of users are text wherever they are shown: no markup of theirs in pages, nothing that moves a cursor"
MEMBERS = 8
"""Names of one training: of parameters, the batch, the loss, a value that is captured, a module and its members."""


class Skeleton(HTMLParser):
    """The tags of a page with their attributes, without text and without the values that are numbers."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, ...]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *[name for name, _ in attrs]))

    def handle_comment(self, data: str) -> None:
        self.tags.append(("comment",))

    def handle_decl(self, decl: str) -> None:
        self.tags.append(("declaration", decl))

    def unknown_decl(self, data: str) -> None:
        self.tags.append(("unknown",))

    def handle_pi(self, data: str) -> None:
        self.tags.append(("instruction",))


def shown(names: list[str], folder: Path) -> Iterator[tuple[str, str, str]]:
    """All displays of a training with these names: the object, its HTML, and its text."""

    def loss(params: dict[str, Any], batch: dict[str, Any]) -> Any:
        h = next(iter(batch.values()))
        for w in params.values():
            h = np.tanh(h @ w)
        return np.mean(ws.capture(names[0], h) ** 2)

    loss.__name__ = loss.__qualname__ = names[1]
    rng = np.random.default_rng(0)
    params = {f"{i}{name}": rng.normal(size=(16, 16)) for i, name in enumerate(names[2:5])}
    batch = {names[5]: rng.normal(size=(8, 16))}
    step = ws.compile(loss, params, optimizer=ws.optim.adam(1e-3), batch=batch, captures=[names[0]])
    step(batch)
    profile = step.profile(batch, calls=2)
    views: list[Any] = [step, step.cost(), step.memory, profile, step.explain()]
    for what in views:
        yield type(what).__name__, what._repr_html_(), str(what) + repr(what)
    step.plan.plot(folder / "arena.html")
    yield "arena", (folder / "arena.html").read_text(encoding="utf-8", errors="surrogatepass"), ""
    kind = type(
        sayable(names[6]),
        (nn.Module,),
        {"__init__": built, "__call__": lambda self, x: next(iter(vars(self).values()))(x)},
    )
    made = nn.summary(kind(names[7]), np.zeros((2, 4), np.float32))
    yield "summary", made._repr_html_(), str(made) + repr(made)


def sayable(name: str) -> str:
    """The name without the characters that Python refuses in the name of a class."""
    return name.replace("\0", "").replace("\ud800", "")


def built(self: Any, name: str) -> None:
    """A module with one member of this name."""
    setattr(self, name, nn.Linear(4, 4, key=0))


def harmless(text: str) -> bool:
    """Test whether a terminal shows a text and obeys nothing of it."""
    return not any(c in text for c in "\x1b\0\r\u202e\u2066\u2028\ufeff")


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many hostile names, eight in a training; the record of it."""
    seen, rng, tried = Seen(), np.random.default_rng(seed), 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        plain = {what: Skeleton(page).tags for what, page, _ in shown([f"name{i}" for i in range(MEMBERS)], folder)}
        while tried < count:
            # Each piece comes once by itself.
            drawn = [
                evil_name(rng) if rng.random() < 0.7 else PIECES[(tried + i) % len(PIECES)] for i in range(MEMBERS)
            ]
            try:
                for what, page, text in shown(drawn, folder):
                    seen.count(f"pages and texts: {what}")
                    alike = sorted(set(Skeleton(page).tags)) == sorted(set(plain[what]))
                    seen.right(alike, f"{what} has other tags for {ascii(drawn)[:300]}")
                    seen.right(harmless(text + page), f"{what} moves a cursor for {ascii(drawn)[:300]}")
            except Exception as error:
                seen.failures.append(f"{type(error).__name__}: {ascii(str(error))[:200]} for {ascii(drawn)[:300]}")
            tried += MEMBERS
    return record("markup", CLAIM, {"names": tried, **seen.checks}, seen.failures, seed=seed)


AUDIT = Audit(
    "markup",
    audit,
    1000,
    "show trainings with hostile names as pages and as text",
    """\
A training has eight names of scripts, tags, attributes, entities, comments, escape sequences and marks of
direction: of its loss, parameters, batch, captured value, a module and its member. Steps, costs, memory, profiles,
explanations and summaries are shown as in a notebook, and the arena as a page; a parser must find the tags and
attributes that it finds for harmless names. Nothing in text or page may be an escape sequence, NUL, a carriage
return or a mark of direction.""",
)
