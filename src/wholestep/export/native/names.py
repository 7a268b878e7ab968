"""Names in C for what users have named: plain letters and digits, each once."""

from __future__ import annotations

import re

from wholestep.errors import ParameterError

KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "bool catch class delete explicit export false friend mutable namespace new operator private protected public "
    "template this throw true try typename using virtual main memcpy memset memcmp memmove".split()
)
"""Words of C and C++, and functions of its library that the code calls, none of which can be the name of a type."""

OWN = frozenset(
    "init step load save file failure arrays shapes formats bytes instance constructor state_bytes no_state damaged h "
    "from_f16 to_f16 from_bf16 to_bf16 bits_f32 from_f32".split()
)
"""The words behind the prefix in a program's own names, and the names of its module for pages.

A function that a user names has none of these, in capitals neither."""


def c_identifier(path: str) -> str:
    """A path as a part of a name; letters beyond ASCII are written by their numbers.

    >>> c_identifier("params.layers[0].weight"), c_identifier("größe")
    ('params_layers_0_weight', 'gru00f6u00dfe')
    """
    words = re.findall(r"[^\W_]+", path)
    return "_".join(["".join([c if c.isascii() else f"u{ord(c):04x}" for c in word]) for word in words])


def prefix_of(stem: str) -> str:
    """The prefix of all names in a program that is written to a file of this stem; raises ParameterError for none."""
    found = c_identifier(stem)
    taken = found in KEYWORDS or found.endswith("_t") or found.partition("_")[0].lower() == "ws"
    if not found or found[0].isdigit() or taken:
        raise ParameterError(f"export: {stem!r} begins no name in C", hint="name the file by letters, as in model.o")
    return found


def check_function_name(name: str) -> None:
    """Raise ParameterError for a name that no function beside the step can have."""
    if c_identifier(name) != name or name.lower() in OWN or name.startswith("run_"):
        raise ParameterError(
            f"export: no function beside the step can be called {name!r} in C", hint="attach it by another name"
        )


class CNames:
    """Names behind a prefix, each given once."""

    def __init__(self, prefix: str, taken: tuple[str, ...]) -> None:
        self.prefix = prefix
        self.taken = {f"{prefix}_{name}" for name in taken}

    def new(self, *parts: str) -> str:
        """A name of these parts that nothing else has."""
        base = "_".join([self.prefix, *[p for p in map(c_identifier, parts) if p]])
        name, count = base, 1
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return name
