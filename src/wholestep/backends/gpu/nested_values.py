"""Nested values: a value with one use becomes part of the statement that uses it, which makes the text short.

let v1 = load(b0, i1); let v2 = v1 * v1; let v3 = v2 + v2; store(b1, i1, v3);
-->
let v1 = load(b0, i1); let v2 = v1 * v1; store(b1, i1, v2 + v2);
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

from wholestep.kernel.lang import Barrier, DType, Kernel, Var, walk
from wholestep.kernel.summation import live_variables

DEPTH = 16
"""The most nested brackets: compilers of browsers have a limit."""
NAME = re.compile(r"\b[a-z]\d+\b")
CALL = re.compile(r"[\w<>]+\(")


class NestedValue(NamedTuple):
    """A value that is not declared yet: its expression, and its declaration with another one."""

    text: str
    declared: Callable[[str], str]


class NestedValues:
    """The pending values, which are not declared yet. No statement stands between a value and the statement that it is
    nested in, so that memory and variables have not changed."""

    def __init__(self, kernel: Kernel) -> None:
        self.waiting: dict[str, NestedValue] = {}
        self.before: list[str] = []
        """Declarations that come before the current statement."""
        used = live_variables(kernel)
        readers = [s for s in walk(kernel.body) if not isinstance(s, Barrier) and (not isinstance(s, Var) or s in used)]
        self.uses = Counter([v for s in readers for v in s.reads()])
        self.once: set[str] = set()

    def add(self, v: Var, name: str, text: str, declaration: Callable[[str, DType, str], str]) -> None:
        """Add a pending value, with its pending operands nested in its expression."""
        text = self.replaced(text)
        if self.uses[v] == 1:
            self.once.add(name)
        self.waiting[name] = NestedValue(text, lambda found: declaration(name, v.dtype, found))

    def placed(self, line: str) -> str:
        """A statement with the pending values that it alone uses nested in it; all others are declared before it."""
        line = self.replaced(line)
        for name in [*self.waiting]:
            self.declare(name)
        return line

    def replaced(self, text: str) -> str:
        """A text with the pending values that it alone names, and once, replaced by their expressions; the others in it
        are declared."""
        for name, count in Counter(NAME.findall(text)).items():
            if name not in self.waiting:
                continue
            found = self.waiting[name].text
            if count == 1 and name in self.once and bracket_depth(found) < DEPTH:
                del self.waiting[name]
                before, after = re.split(rf"\b{name}\b", text)
                alone = before.endswith(("(", ", ", "= ")) and after.startswith((")", ",", ";"))
                text = f"{before}{found if alone or is_operand(found) else f'({found})'}{after}"
            else:
                self.declare(name)
        return text

    def declare(self, name: str) -> None:
        """Declare a value before the current statement."""
        value = self.waiting.pop(name)
        self.before.append(value.declared(value.text))

    def taken(self) -> list[str]:
        """The declarations that come now."""
        found, self.before = self.before, []
        return found


def is_operand(text: str) -> bool:
    """Test whether an expression is a name, a number or a call, which needs no brackets around it."""
    call = CALL.match(text)
    return bool(re.fullmatch(r"[\w.]+", text) or (call and closing(text, call.end()) == len(text)))


def closing(text: str, at: int) -> int:
    """The place behind the bracket that closes the one before `at`."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def bracket_depth(text: str) -> int:
    """The depth of nested brackets."""
    depth = most = 0
    for c in text:
        depth += {"(": 1, ")": -1}.get(c, 0)
        most = max(most, depth)
    return most


def renumbered_names(lines: Iterable[str], given: Set[str], reserved: Set[str]) -> list[str]:
    """Lines with their own names numbered in order of appearance; the numbers of a block are reused after its end, so
    that equal blocks have equal texts.

    >>> renumbered_names(["let v3 = 1;", "{", "let v5 = v3;", "}", "let v7 = v3;"], {"v3", "v5", "v7"}, frozenset())
    ['let v1 = 1;', '{', 'let v2 = v1;', '}', 'let v2 = v1;']
    """
    found: dict[str, str] = {}
    numbers, around = Counter[str](), list[Counter[str]]()
    out: list[str] = []

    def other(match: re.Match[str]) -> str:
        name = match[0]
        if name in given and name not in found:
            while True:
                numbers[name[0]] += 1
                found[name] = f"{name[0]}{numbers[name[0]]}"
                if found[name] not in reserved:
                    break
        return found.get(name, name)

    for line in lines:
        before = Counter(numbers)
        out.append(NAME.sub(other, line))
        opened = line.count("{") - line.count("}")
        if opened > 0:
            around.append(before)
        elif opened < 0:
            numbers = around.pop()
    return out
