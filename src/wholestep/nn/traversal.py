"""Traversal of models: a walk that names each array by its path, and models rebuilt from other arrays."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np

from wholestep import containers, dtypes, tree
from wholestep.errors import DtypeError, EscapedError, TreeError
from wholestep.frontend.array import Array
from wholestep.frontend.closure_reads import content
from wholestep.frontend.frozen import Frozen, Held, thawed
from wholestep.frontend.promotion import is_foreign_array
from wholestep.nn.annotations import BUFFER, FROZEN, KEPT, TIED, UNDECAYED, Mark
from wholestep.nn.model_structure import Again, Fixed, Group, Kept, KeyOrder, Leaf, ModuleBody, without_arrays
from wholestep.nn.waiting import not_drawn, waits
from wholestep.words import type_in_words

PARAMETER = "parameter"
SEGMENT = re.compile(r"\.?([^\W\d]\w*)|\[([^\]]+)\]")
"""One step of a path: an attribute, or an item between brackets."""


class ArrayPlace(NamedTuple):
    """One array: its first path, its value, its kind, whether weight decay applies to it, and all its paths."""

    path: str
    value: Any
    kind: str
    decayed: bool
    aliases: list[str]


class ModelWalk:
    """A model taken apart: its parameters, each once, its frozen arrays and buffers, its modules, and its structure.

    Modules that wait for their key are an error, or with `waiting` plain values, which have no arrays yet.
    """

    def __init__(self, root: Any, path: str = "", *, waiting: bool = False) -> None:
        self.waiting = waiting
        self.parameters: list[ArrayPlace] = []
        self.kept: list[ArrayPlace] = []
        self.modules: list[tuple[str, Any]] = []
        self.met: dict[int, int] = {}
        self.known: dict[int, tuple[str, int]] = {}
        self.odd: dict[str, Any] = {}
        self.structure: Any = self.node(root, path)

    def node(self, x: Any, path: str, mark: str | None = None, decayed: bool = True) -> Any:
        """The structure of one value."""
        if path in self.odd:
            return self.parameter(x, self.odd[path], path, decayed)
        if isinstance(x, Frozen):
            return self.keep(x, path, FROZEN)
        if isinstance(x, np.ndarray | Array):
            return self.array(x, path, mark, decayed)
        if getattr(type(x), "_is_module", False):
            return self.module(x, path)
        if isinstance(x, Mark):
            raise TreeError(
                f"nn: {path or 'the model'} is nn.{x.kind}(...) outside of a module's field",
                hint="assign it to a field of a module: self.name = ...",
            )
        level = None if x is None or mark == TIED or isinstance(x, str) else containers.one_level(x)
        if level is None:
            refuse_hidden(x, path)
            return Fixed(x)
        pairs = zip(level.keys, level.children, strict=True)
        items = [self.node(child, tree.access(path, key), None, decayed) for key, child in pairs]
        order = KeyOrder(tuple(x) if isinstance(x, dict) else ())
        return Group(type(x), Fixed(level.metadata), tuple(level.keys), tuple(items), order)

    def array(self, x: Any, path: str, mark: str | None, decayed: bool) -> Any:
        """The structure of an array: frozen or a buffer by its mark, else a parameter."""
        if mark in KEPT:
            return self.keep(x, path, BUFFER if mark == BUFFER else FROZEN)
        refuse_inexact(x, path)
        return self.parameter(x, x, path, decayed and mark != UNDECAYED)

    def parameter(self, x: Any, token: Any, path: str, decayed: bool) -> Leaf:
        """A parameter, the same one at all places with its token."""
        index = self.found(token, PARAMETER, path)
        if index is None:
            index = len(self.parameters)
            self.known[id(token)] = (PARAMETER, index)
            self.parameters.append(ArrayPlace(path, x, PARAMETER, decayed, [path]))
        else:
            self.parameters[index].aliases.append(path)
        return Leaf(index)

    def keep(self, x: Any, path: str, kind: str) -> Kept:
        """A frozen array, shared by all places that hold it, or a buffer, separate for each place."""
        token = thawed(x)
        index = None if kind == BUFFER else self.found(token, FROZEN, path)
        if index is None:
            index = len(self.kept)
            self.kept.append(ArrayPlace(path, token, kind, False, [path]))
            if kind == FROZEN:
                self.known[id(token)] = (FROZEN, index)
        else:
            self.kept[index].aliases.append(path)
        return Kept(kind, index, Held(x), isinstance(x, Frozen))

    def found(self, token: Any, kind: str, path: str) -> int | None:
        """The number under which an array is known; raises TreeError if it is known as another kind."""
        known, index = self.known.get(id(token), (kind, None))
        if known != kind:
            first = (self.parameters if known == PARAMETER else self.kept)[index or 0].path
            raise TreeError(
                f"nn: the same array is a {PARAMETER} at one of {first} and {path}, and frozen at the other",
                hint="freeze both, or give one of them a copy",
            )
        return index

    def module(self, x: Any, path: str) -> Any:
        """A module by its fields."""
        if id(x) in self.met:
            return Again(self.met[id(x)])
        self.met[id(x)] = len(self.modules)
        self.modules.append((path, x))
        if x._pending is not None and waits(x):
            if not self.waiting:
                raise not_drawn(x, path)
            return Fixed(x)
        self.odd.update({tree.access(path, tree.Path(at)): token for at, token in x._odd.items()})
        marks, undecayed, names = x._marks, x.undecayed, tuple(vars(x))
        fields = [
            self.node(value, tree.access(path, name), marks.get(name), name not in undecayed)
            for name, value in vars(x).items()
        ]
        noted, ties = tuple(sorted(marks.items())), tuple(sorted(x._ties.items()))
        return ModuleBody(type(x), noted, ties, names, tuple(fields))

    def outline(self) -> Any:
        """The structure without the arrays that it keeps."""
        return without_arrays(self.structure)

    @property
    def places(self) -> Iterator[ArrayPlace]:
        """Every array once: parameters first."""
        yield from self.parameters
        yield from self.kept


def lies_in_part(path: str, part: str) -> bool:
    """Test whether a path is in a part of the model."""
    return not part or path.startswith((f"{part}.", f"{part}["))


def holder(path: str, parts: Iterable[str]) -> str:
    """The innermost part that an array lies in."""
    return max((part for part in parts if lies_in_part(path, part)), key=len, default="")


class Rebuilt:
    """A model rebuilt from its structure and other arrays; an array given twice still makes two parameters."""

    def __init__(self, structure: Any, leaves: Sequence[Any], kept: Sequence[Any] | None = None) -> None:
        self.leaves = distinct(leaves)
        self.kept = kept
        self.tokens = [None if natural(x) else object() for x in self.leaves]
        self.sealed = any(isinstance(x, Array) for x in (*self.leaves, *(kept or ())))
        self.modules: list[Any] = []
        self.root = self.node(structure, {}, "")

    def node(self, node: Any, odd: dict[str, Any], path: str) -> Any:
        """One rebuilt value; `odd` collects the leaves that a walk would not take for parameters by themselves."""
        if isinstance(node, Leaf):
            if self.tokens[node.number] is not None:
                odd[path] = self.tokens[node.number]
            return self.leaves[node.number]
        if isinstance(node, Kept):
            return self.held(node)
        if isinstance(node, Again):
            return self.modules[node.number]
        if isinstance(node, ModuleBody):
            return self.module(node)
        if isinstance(node, Group):
            pairs = zip(node.keys, node.items, strict=True)
            items = [self.node(item, odd, tree.access(path, key)) for key, item in pairs]
            return containers.rebuild(node.cls, node.metadata.value, items)
        return node.value

    def held(self, node: Kept) -> Any:
        """A given value, or the one that the structure keeps; raises EscapedError for one of a trace that is over."""
        if self.kept is not None:
            given = self.kept[node.number]
            return Frozen(given) if node.wrapped and isinstance(given, np.ndarray) else given
        held = node.array.array
        if isinstance(held, Array) and self.leaves and not self.sealed:
            raise EscapedError(
                "nn: a module leaves a traced function with a buffer that was assigned there",
                hint="return nn.buffers(model) with has_aux, and put them in place with nn.join(model, buffers=...)",
            )
        return held

    def module(self, body: ModuleBody) -> Any:
        """A module, made without its constructor."""
        new: Any = body.cls.__new__
        made = new(body.cls)
        self.modules.append(made)
        odd: dict[str, Any] = {}
        pairs = zip(body.names, body.fields, strict=True)
        vars(made).update({name: self.node(node, odd, tree.access("", name)) for name, node in pairs})
        note = object.__setattr__
        note(made, "_marks", dict(body.marks))
        note(made, "_ties", dict(body.ties))
        note(made, "_odd", odd)
        note(made, "_sealed", self.sealed)
        return made


class Reread:
    """The current values at the places of a structure, by number; `same` is True if the rest of it is unchanged."""

    def __init__(self, structure: Any, root: Any) -> None:
        self.parameters: dict[int, Any] = {}
        self.kept: dict[int, Any] = {}
        self.modules: list[Any] = []
        self.same = True
        self.node(structure, root)

    def node(self, node: Any, x: Any) -> None:
        """Read one value."""
        if isinstance(node, Leaf | Kept):
            found = self.parameters if isinstance(node, Leaf) else self.kept
            self.same &= found.setdefault(node.number, x) is x
        elif isinstance(node, Again):
            self.same &= x is self.modules[node.number]
        elif isinstance(node, ModuleBody):
            self.modules.append(x)
            self.same &= type(x) is node.cls and tuple(vars(x)) == node.names
            self.inside(node.fields, list(vars(x).values()) if self.same else [])
        elif isinstance(node, Group):
            level = containers.one_level(x) if type(x) is node.cls else None
            self.same &= level is not None and tuple(level.keys) == node.keys
            self.inside(node.items, level.children if level is not None and self.same else [])
        else:
            self.same &= node == Fixed(x)

    def inside(self, nodes: Sequence[Any], values: Sequence[Any]) -> None:
        """Read the fields or items of a value."""
        for node, value in zip(nodes, values, strict=False):
            self.node(node, value)


def natural(x: Any) -> bool:
    """Test whether a walk takes a value for a parameter by itself."""
    return isinstance(x, np.ndarray | Array) and not isinstance(x, Frozen) and dtypes.is_inexact(x.dtype)


def distinct(leaves: Sequence[Any]) -> list[Any]:
    """The same values as distinct objects, so that two parameters that get one array are not tied."""
    seen: set[int] = set()
    made = []
    for x in leaves:
        if isinstance(x, np.generic):
            x = np.asarray(x)
        elif id(x) in seen and isinstance(x, np.ndarray):
            x = x.view()
        elif id(x) in seen and isinstance(x, Array):
            x = Array(x.value, x._scalar, x._weak)
        seen.add(id(x))
        made.append(x)
    return made


def refuse_inexact(x: Any, path: str) -> None:
    """Raise DtypeError for an unmarked array that cannot be a parameter."""
    if not dtypes.is_inexact(x.dtype):
        raise DtypeError(
            f"nn: {path or 'the model'} is {x.dtype}{list(x.shape)}, which has no derivative and cannot be a parameter",
            hint="mark it with nn.frozen, or with nn.buffer where the forward assigns it, or convert it to float",
        )


def refuse_hidden(x: Any, path: str) -> None:
    """Raise for what no walk sees and no step trains: an array of another library, a module that a function holds."""
    if is_foreign_array(x):
        raise DtypeError(
            f"nn: {path} is {type_in_words(x)}, not an array of NumPy, and would not be trained",
            hint="np.asarray(x) is one (of a tensor, x.detach().numpy()), and nn.frozen of that a constant",
        )
    for held in closed_over(x):
        if getattr(type(held), "_is_module", False):
            raise TreeError(
                f"nn: {path} is a function that holds {type_in_words(held)}, whose parameters are not seen there",
                hint="make it a method, or a module with that one as a field",
            )


def closed_over(x: Any) -> Iterator[Any]:
    """The objects a function carries: that of a method, arguments of a partial, closure and defaults."""
    if isinstance(x, MethodType):
        yield x.__self__
    elif isinstance(x, functools.partial):
        yield from (x.func, *x.args, *x.keywords.values())
    elif isinstance(x, FunctionType):
        yield from x.__defaults__ or ()
        yield from (x.__kwdefaults__ or {}).values()
        yield from map(content, x.__closure__ or ())
