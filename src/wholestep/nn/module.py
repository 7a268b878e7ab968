"""Module: a class whose fields are parameters, and a tree like any other."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MemberDescriptorType
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from wholestep import containers, tree
from wholestep.boundary.answers import unknown
from wholestep.boundary.public import boundary
from wholestep.errors import DtypeError, EscapedError, TreeError, UnknownNameError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.assignments import note_assignment
from wholestep.frontend.frozen import Frozen, thawed
from wholestep.frontend.plain_trees import register_reader
from wholestep.frontend.structures import tell_by
from wholestep.ir.build import current
from wholestep.nn.annotations import BUFFER, FROZEN, FROZEN_UNDECAYED, KEPT, TIED, UNDECAYED, Mark, frozen
from wholestep.nn.call_sites import noted
from wholestep.nn.model_structure import ModuleBody
from wholestep.nn.readers import model_reader
from wholestep.nn.structure_differences import model_difference
from wholestep.nn.trained import note_of
from wholestep.nn.traversal import SEGMENT, ModelWalk, Rebuilt, lies_in_part, refuse_hidden, refuse_inexact
from wholestep.nn.waiting import (
    Building,
    Waiting,
    apart,
    draw_waiting,
    made_text,
    not_drawn,
    prepare,
    waiting_in,
    waits,
    without_field,
)
from wholestep.words import printable

M = TypeVar("M", bound="Module")
NOTHING: Mapping[str, Any] = {}


class Module:
    """A model or a part of one: assign fields in `__init__`, or be a dataclass, and define `__call__`.

    Fields that hold floating or complex arrays, alone or in lists, tuples and dictionaries, are parameters; modules in
    fields are parts. `nn.frozen(x)` is an array that is never trained, `nn.buffer(x)` one that the forward may assign.
    Everything else is a plain value. An array or a module at two paths is shared, and known by the first.

    A module is a tree of its parameters, so that `grad`, `vmap`, `jit` and optimizers take and return modules. All
    other fields belong to the structure: plain values compare by ==, arrays by identity. Reading a marked field gives
    the array. Layers in fields that were made without a key are drawn from their paths, by the `key` that the
    constructor was given or by `nn.initialized`. `undecayed` names fields that weight decay leaves alone; `torch_names`
    maps fields to PyTorch's names where these differ, and `torch_turned` lists the fields that are transposed there.

    Shapes: parameters are floating or complex arrays of any shape; frozen arrays and buffers of any dtype.
    Raises: DtypeError for a field with an array of integers or booleans without a mark, UnsupportedError for a class
    with `forward` or `__slots__`.

    >>> import numpy as np, wholestep as ws
    >>> class Linear(ws.nn.Module):
    ...     def __init__(self, n_in, n_out):
    ...         self.weight, self.bias = np.ones((n_in, n_out)), np.zeros(n_out)
    ...     def __call__(self, x):
    ...         return x @ self.weight + self.bias
    >>> model = Linear(3, 2)
    >>> gradient = ws.grad(lambda model, x: np.sum(model(x)))(model, np.ones(3))
    >>> gradient.bias.tolist(), type(gradient).__name__
    ([1.0, 1.0], 'Linear')
    """

    __slots__ = ("__dict__", "__weakref__", "_inside", "_marks", "_odd", "_pending", "_sealed", "_ties")

    undecayed: ClassVar[tuple[str, ...]] = ()
    torch_names: ClassVar[Mapping[str, str]] = {}
    torch_turned: ClassVar[tuple[str, ...]] = ()
    training: bool = True
    _is_module: ClassVar[bool] = True
    _draws: ClassVar[bool] = False
    _drawn_first: ClassVar[tuple[str, ...]] = ()
    _inside: bool
    _marks: Mapping[str, str]
    _odd: Mapping[str, Any]
    _pending: Waiting | Building | None
    _sealed: bool
    _ties: Mapping[str, str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if any(not name.startswith("_") for name in cls.__dict__.get("__slots__", ())):
            raise UnsupportedError(f"nn: {cls.__name__} has __slots__", hint="leave them out; fields live in __dict__")
        if "forward" in cls.__dict__ and not any("__call__" in vars(base) for base in cls.__mro__):
            setattr(cls, "__call__", boundary(no_call))  # noqa: B010 # type checkers take it for a method
        if "__call__" in cls.__dict__:
            setattr(cls, "__call__", noted(cls.__dict__["__call__"]))  # noqa: B010 # type checkers take it for a method
        tree.register(cls, taken_apart, put_together)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """An instance without fields; `_inside` is True in a trace, where traced arrays may be assigned to it."""
        if "_prepared" not in cls.__dict__:
            prepare(cls)
        made = super().__new__(cls)
        hidden = {"_marks": NOTHING, "_odd": NOTHING, "_pending": None, "_ties": NOTHING, "_sealed": False}
        for name, value in {**hidden, "_inside": current() is not None}.items():
            object.__setattr__(made, name, value)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), MemberDescriptorType):
            object.__setattr__(self, name, value)
            return
        path = f"{type(self).__name__}.{name}"
        kind = self._marks.get(name)
        check_open(self, path, kind)
        if isinstance(value, Mark):
            kind, value = value.kind, value.value
        elif isinstance(value, Frozen):
            kind, value = FROZEN, thawed(value)
        elif isinstance(value, np.generic) and (kind or isinstance(self.__dict__.get(name), np.ndarray | Array)):
            value = np.asarray(value)  # NumPy makes scalars of arrays without axes
        pending = self._pending
        if isinstance(pending, Building) and pending.key is not None:
            draw_waiting(value, pending.key.at(name))
        tie = path_of(self, value, path) if kind == TIED else None
        if tie is None:
            check_value(self, path, kind, value)
        if kind == BUFFER and name in self.__dict__:
            note_assignment(self, name, self.__dict__[name])
        self._forget(name)
        if tie is not None:
            object.__setattr__(self, "_ties", {**self._ties, name: tie})
            return
        if kind is not None and isinstance(value, np.ndarray | Array):
            object.__setattr__(self, "_marks", {**self._marks, name: kind})
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        check_open(self, f"{type(self).__name__}.{name}", None)
        if name not in self.__dict__ and name not in self._ties:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        self.__dict__.pop(name, None)
        self._forget(name)

    @boundary
    def __getattr__(self, name: str) -> Any:
        if name in self._ties:
            return at_path(self, self._ties[name])
        if isinstance(self._pending, Waiting) and not name.startswith("_"):
            raise without_field(self, name)
        raise unknown("model", name, type(self).__name__, "field")

    def _forget(self, name: str) -> None:
        """Drop the mark, the tie and the odd leaves of a field; its value in `__dict__` keeps its position."""
        field = tree.access("", name)
        below = [path for path in self._odd if path == field or lies_in_part(path, field)]
        for note, dropped in (("_marks", [name]), ("_ties", [name]), ("_odd", below)):
            known = getattr(self, note)
            if any(key in known for key in dropped):
                object.__setattr__(self, note, {key: value for key, value in known.items() if key not in dropped})

    def _frozen(self) -> Self:
        """A copy in which every parameter is frozen."""
        made: Self = apart(self, {}) if waiting_in(self) else copy_of(self)
        made._freeze()
        return made

    def _freeze(self) -> None:
        """Freeze every parameter, those that are not drawn yet among them."""
        for _, module in ModelWalk(self, waiting=True).modules:
            if waits(module):
                object.__setattr__(module, "_pending", module._pending._replace(frozen=True))
            for name, value in list(vars(module).items()):
                if isinstance(value, np.ndarray | Array) and (kind := module._marks.get(name)) not in KEPT:
                    mark = FROZEN_UNDECAYED if kind == UNDECAYED else FROZEN
                    object.__setattr__(module, "_marks", {**module._marks, name: mark})
                elif not isinstance(value, np.ndarray | Array | Module) and containers.one_level(value) is not None:
                    module.__dict__[name] = frozen_items(value)

    def train(self, training: bool = True) -> Self:
        """A copy with the same arrays and with `training`, the flag of dropout and batch norms, set in all modules.

        >>> import wholestep as ws
        >>> model = ws.nn.Module()
        >>> model.training, model.eval().training, model.eval().train().training
        (True, False, True)
        """
        copied = copy_of(self)
        for _, module in ModelWalk(copied).modules:
            module.__dict__.pop("training", None)
            if module.training != training:
                module.__dict__["training"] = training
        return copied

    def eval(self) -> Self:
        """A copy with the same arrays for evaluation: `training` is False in all its parts."""
        return self.train(False)

    def __repr__(self) -> str:
        return printable(value_text(self, {}) + note_of(self))

    def _torch_rows(self, path: str) -> tuple[int, int] | None:
        """The rows of PyTorch's tensor that correspond to the array at a path below; None for all of them."""
        return None

    @classmethod
    def _waits(cls, given: Mapping[str, Any]) -> bool:
        """Test whether a constructor call with these arguments and without a key is deferred until a key is known."""
        return cls._draws

    def _parts(self) -> list[Module]:
        """The module and the parts in it, in order."""
        return [module for _, module in ModelWalk(self, waiting=True).modules]

    def _title(self) -> str:
        """The kind of part this is."""
        return type(self).__name__

    def _listed(self) -> list[str]:
        """The names of its fields, in order."""
        return list(vars(self))


def no_call(self: Module, *args: Any, **kwargs: Any) -> Any:
    """The call of a module whose forward pass has another library's name."""
    raise UnsupportedError(
        f"nn: {type(self).__name__} defines `forward` and no `__call__`",
        hint="rename forward to __call__: model(x) calls it",
    )


def taken_apart(module: Module) -> tuple[Any, ...]:
    """A module as a node of a tree: its parameters, its structure, and their paths."""
    walk = ModelWalk(module)
    return [p.value for p in walk.parameters], walk.structure, [tree.Path(p.path) for p in walk.parameters]


def put_together(structure: Any, leaves: Iterable[Any]) -> Any:
    """A module of this structure around other parameters."""
    return Rebuilt(structure, list(leaves)).root


tree.register(Module, taken_apart, put_together)
tell_by(ModuleBody, model_difference)
register_reader(Module, model_reader)


def copy_of(module: M) -> M:
    """The same arrays in modules and containers of their own."""
    walk = ModelWalk(module)
    copied: M = Rebuilt(walk.structure, [p.value for p in walk.parameters]).root
    return copied


def check_open(module: Module, path: str, kind: str | None) -> None:
    """Raise UnsupportedError for a field that cannot be assigned in a module that a transform has filled."""
    if waits(module):
        raise not_drawn(module, path)
    if module._sealed and kind != BUFFER:
        raise UnsupportedError(
            f"nn: {path} is assigned inside a traced function, and what is not a buffer would be lost",
            hint="mark an array that the forward assigns with nn.buffer, or return the value",
        )


def check_value(module: Module, path: str, kind: str | None, value: Any) -> None:
    """Raise for a value that a field cannot hold."""
    if isinstance(value, Array) and not module._inside:
        raise EscapedError(
            f"nn: a traced array is assigned to {path}, and this module was made outside of the traced function",
            hint="give the module to the function as an argument",
        )
    if isinstance(value, np.ndarray | Array):
        if kind not in KEPT:
            refuse_inexact(value, path)
    elif kind in KEPT:
        raise DtypeError(f"nn: {path} is {kind}, and {value!r} is no array", hint="delete the field first: del")
    elif not isinstance(value, Module):
        if containers.one_level(value) is not None:
            ModelWalk(value, path, waiting=True)
        else:
            refuse_hidden(value, path)


def path_of(module: Module, target: Any, path: str) -> str:
    """The path at which a module holds an array or a module, or the one that was given; raises TreeError for none."""
    if isinstance(target, str):
        with suppress(UnknownNameError):  # of a part that waits, whose fields are not there yet
            at_path(module, target)
        return target
    walk = ModelWalk(module, waiting=True)
    held = [(p.path, p.value) for p in walk.places] + walk.modules[1:]
    found = [where for where, value in held if value is target]
    if not found:
        raise TreeError(
            f"nn: {path} is tied to something that {type(module).__name__} does not hold",
            hint="assign it to a field first, then tie: self.head = nn.tied(self.embedding.weight)",
        )
    return found[0]


def at_path(root: Any, path: str) -> Any:
    """The value at a path such as `layers[0].weight`; raises TreeError for a path that does not exist."""
    at = root
    for attribute, item in SEGMENT.findall(path):
        try:
            plain = attribute and not isinstance(at, Mapping)
            at = getattr(at, attribute) if plain else at[attribute or ast.literal_eval(item)]
        except (AttributeError, LookupError, TypeError, ValueError, SyntaxError):
            if isinstance(at, Module) and waits(at):
                raise
            raise TreeError(f"nn: {type(root).__name__} has nothing at {path}") from None
    return at


def frozen_items(value: Any) -> Any:
    """A container with every array in it frozen; modules in it are left to the walk that met them."""
    if isinstance(value, np.ndarray):
        return frozen(value)
    level = None if value is None or isinstance(value, Module) else containers.one_level(value)
    if level is None:
        return value
    return containers.rebuild(type(value), level.metadata, [frozen_items(child) for child in level.children])


def value_text(value: Any, met: dict[int, str], path: str = "") -> str:
    """A value in a few words; a module over several lines where it has parts."""
    if isinstance(value, Frozen):
        return f"frozen {value_text(thawed(value), met)}"
    if isinstance(value, np.ndarray | Array):
        return f"{value.dtype}{list(value.shape)}"
    if not isinstance(value, Module):
        level = containers.one_level(value) if isinstance(value, list | tuple | dict) else None
        if level is None:
            return str(getattr(value, "__name__", None) or repr(value))
        keys = [f"({key}): " for key in level.keys]
        pairs = zip(level.keys, level.children, strict=True)
        items = [value_text(child, met, tree.access(path, key)) for key, child in pairs]
        return blocked(type(value).__name__, [key + item for key, item in zip(keys, items, strict=True)])
    if id(value) in met:
        return f"{type(value).__name__}, the same as {met[id(value)] or 'the whole'}"
    met[id(value)] = path
    if waits(value):
        return f"{made_text(value)}, not drawn"
    parts = []
    for name in value._listed():
        kind = f"{mark} " if (mark := value._marks.get(name)) in KEPT else ""
        parts.append(f"{name}={kind}{value_text(vars(value)[name], met, tree.access(path, name))}")
    parts += [f"{name}={tie}, tied" for name, tie in value._ties.items()]
    return blocked(value._title(), parts)


def blocked(name: str, parts: list[str]) -> str:
    """`name(parts)` on one line where it is short, else a line for each."""
    short = f"{name}({', '.join(parts)})"
    if len(short) <= 80 and "\n" not in short and not any("(" in part for part in parts):
        return short
    return "\n".join([f"{name}(", *[f"  {line}" for part in parts for line in part.split("\n")], ")"])
