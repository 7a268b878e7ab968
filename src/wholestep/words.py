"""Text for people: control characters are spelled out, and a REPL shows the text as it is."""

from __future__ import annotations

import importlib
import re
import unicodedata
from collections.abc import Sequence


def printable(text: str) -> str:
    """Text with control characters, escape sequences, marks of direction and the like spelled out; lines stay lines.

    Names come from users, files and tables, and a terminal obeys control sequences in them.

    >>> print(printable("loss\\x1b[2J \\u202egnp.exe\\nnext line"))
    loss\\x1b[2J \\u202egnp.exe
    next line
    """
    if text.isprintable():
        return text
    return "".join([c if harmless(c) else c.encode("unicode_escape").decode() for c in text])


def harmless(c: str) -> bool:
    """Return whether a terminal only shows a character, or begins a line with it."""
    return c.isprintable() or c in "\n\t" or unicodedata.category(c) == "Zs"


def first_few(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first names of a list, and the number of the rest.

    >>> first_few(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    more = len(names) - most
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")


def matchable(paths: Sequence[str]) -> str:
    """The hint for a pattern that matches none of these paths of parameters.

    >>> matchable(["w", "b"])
    'there are w, b; * stands for any characters'
    >>> matchable([""])
    'the one parameter has no name, and * matches it'
    """
    if list(paths) == [""]:
        return "the one parameter has no name, and * matches it"
    return f"there are {first_few(paths, 20)}; * stands for any characters"


def alternatives(names: Sequence[str]) -> str:
    """Names of which one is to be chosen, as a list in a sentence.

    >>> alternatives(["text", "a path", "None"])
    'text, a path or None'
    """
    return " or ".join([", ".join(names[:-1])] * (len(names) > 1) + [*names[-1:]])


def with_article(noun: object) -> str:
    """A noun, or an object that reads as one, after "a" or "an".

    >>> with_article("int"), with_article("uint8"), with_article("f32[3]")
    ('an int', 'a uint8', 'an f32[3]')
    """
    return f"an {noun}" if re.match(r"[aeioAEIO]|f\d", str(noun)) else f"a {noun}"


def type_in_words(x: object) -> str:
    """The type of a value, after "a" or "an".

    >>> type_in_words(1), type_in_words("text")
    ('an int', 'a str')
    """
    return with_article(type(x).__name__)


class Words(str):
    """Text that a REPL and a notebook show as it reads; in all else it is a str.

    >>> Words("one\\ntwo")
    one
    two
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Words:
        return super().__new__(cls, printable(text))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return preformatted(self)


class Shown:
    """An object that a REPL and a notebook show as it is printed."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def preformatted(text: str) -> str:
    """Text as it is, in HTML.

    >>> preformatted("a < b")
    '<pre>a &lt; b</pre>'
    """
    escape = importlib.import_module("html").escape  # imported late, for its table of all entities
    return f"<pre>{escape(printable(text))}</pre>"
