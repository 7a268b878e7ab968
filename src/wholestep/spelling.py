"""The path of a leaf in nested containers, spelled as a user would write the access: `layers[0].weight`."""

from __future__ import annotations

import functools
import re
from keyword import iskeyword
from typing import Any
from unicodedata import normalize


class Path(str):
    """The name of a child that lies several accesses deep, spelled as they are: `layers[0].weight`."""


def access(path: str, key: Any) -> str:
    """The path of a child, as a user would write it.

    >>> access(access("layers", 0), "weight")
    'layers[0].weight'
    """
    return below_root(path, access_to(key))


def matches(pattern: str, path: str) -> bool:
    """Return whether a pattern, in which `*` stands for any characters, means a path or a tree that the path is in.

    >>> [matches("layers[*].bias", p) for p in ("layers[0].bias", "layers[0].bias.x", "layers[0].bias2")]
    [True, True, False]
    """
    return re.fullmatch(f"(?:{re.escape(pattern).replace(re.escape('*'), '.*')})(?:[.\\[].*)?", path) is not None


def access_to(key: Any) -> str:
    """The access to a child by its key."""
    return _access_by_name(key) if isinstance(key, str) else f"[{key!r}]"


@functools.lru_cache(maxsize=4096, typed=True)
def _access_by_name(key: str) -> str:
    if isinstance(key, Path):
        return key if key.startswith("[") else f".{key}"
    as_attribute = key.isidentifier() and not iskeyword(key)
    # Python reads an identifier in its normal form, which would be another key.
    return f".{key}" if as_attribute and normalize("NFKC", key) == key else f"[{key!r}]"


def below_root(root: str, path: str) -> str:
    """A path below the name of a tree."""
    return root + path if root else path.removeprefix(".")
