"""Short texts: scripts and kernels as pages have them, without layout, and kernels with short names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
from string import ascii_letters, ascii_uppercase, digits

TOKENS = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`|/(?![/*\s])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\]|\\.)*\])+/(?=[.a-z,;)]))"""
    r"|(?P<space>[ ]+)|(?P<word>[\w$.]+)|(?P<sign>.)",
    re.S,
)
"""The parts of a script: strings and patterns, which stay unchanged, spaces, words and numbers, and signs."""
NAME = re.compile(r"(?<![\w.@])[A-Za-z_]\w*")
"""A name of WGSL, but for members of vectors and attributes."""
DECLARED = re.compile(r"\b(?:fn|let|var(?:<[\w,]+>)?) ?(\w+)|(\w+): ?[a-z]")
"""A declaration: of a function, a value or an array, or of a parameter."""
ENTRY = re.compile(r"k\d+|control|gather")
"""The name of a kernel or of a launch between them, by which a page asks for it."""
SPACED = re.compile(r" ?(!?[=*,+<>&|{};:%^/]|->|(?<!- )-(?! ?-)) ?|(?<=[\w)]) (?=\()|(?<=\)) ")
"""Insignificant spaces of WGSL: around operators, except between two signs, and before brackets."""
VECTOR = re.compile(r"\b(vec[234])<([fiu])32>")
"""The type of a vector, which has a shorter name."""
LINE_END = re.compile(r"(?<=[;{},])\n(?!fn |@|var<)")
"""The end of a line of WGSL, but before a function or an array: compilers say in which line an error is."""


def without_layout(text: str) -> str:
    """A script without comment lines, empty lines and indentation.

    >>> without_layout("f = {\\n  // why\\n  a: 1,\\n}\\n")
    'f = {\\na: 1,\\n}\\n'
    """
    lines = [line.strip() for line in text.splitlines()]
    return "".join([f"{line}\n" for line in lines if line and not line.startswith("//")])


def compact_script(text: str) -> str:
    """A script without layout, without the spaces that part no words and the ends of lines that end no statement, and
    without the semicolons that a bracket ends.

    >>> compact_script('const f = (a) => ({ b: a + " + " });\\n')
    'const f=(a)=>({b:a+" + "});'
    >>> compact_script('function f(a) {\\n  return a;\\n}\\n')
    'function f(a){return a}\\n'
    """
    out: list[str] = []
    parts = list(TOKENS.finditer(without_layout(text)))
    for i, part in enumerate(parts):
        before, after = parts[i - 1][0][-1:] if i else "", parts[i + 1][0][:1] if i + 1 < len(parts) else ""
        if part[0] == "\n" and ((before and before in ";{,([") or after == "}"):
            continue  # the end of a line that ends no statement
        if part[0] == "}" and out and out[-1] == ";":
            out.pop()
        if part["space"] is None:
            out.append(part[0])
            continue
        words = re.match(r"[\w$]", before) and re.match(r"[\w$]", after)
        if words or (before == after and before in "+-"):
            out.append(" ")
    return "".join(out)


def compact_style(text: str) -> str:
    """A style without spaces that part no words, and without the semicolons that a bracket ends.

    >>> compact_style("body { margin: 0; }\\nmain { padding: 1rem 2rem; }\\n")
    'body{margin:0}main{padding:1rem 2rem}'
    """
    return re.sub(r"\s*([{};,]|:(?= ))\s*", r"\1", text).replace(";}", "}")


def compact_wgsl(text: str) -> str:
    """A module of WGSL without layout, spaces around operators included, with short names for all but its kernels.

    >>> compact_wgsl("@group(0) @binding(0) var<uniform> group: u32;\\n")
    '@group(0)@binding(0)var<uniform>a:u32;'
    >>> compact_wgsl("fn k0(at: f32) -> f32 {\\n    let sum = at + -at;\\n    return sum.x;\\n}\\n")
    'fn k0(a:f32)->f32{let b=a+-a;return b.x;}'
    """
    short = VECTOR.sub(r"\1\2", LINE_END.sub("", SPACED.sub(r"\1", without_layout(text))))
    declared = {found[1] or found[2] for found in DECLARED.finditer(short)}
    names = Counter(NAME.findall(short))
    own = [name for name, _ in names.most_common() if name in declared and not ENTRY.fullmatch(name)]
    free = (name for name in short_names() if name not in names.keys() - set(own))
    given = dict(zip(own, free, strict=False))
    return NAME.sub(lambda found: given.get(found[0], found[0]), short)


def short_names() -> Iterator[str]:
    """Names that are no words of WGSL, the shortest first."""
    yield from ascii_letters
    yield from [letter + digit for letter in ascii_letters for digit in digits]
    yield from (f"{letter}{n}" for n in count(10) for letter in ascii_uppercase)
