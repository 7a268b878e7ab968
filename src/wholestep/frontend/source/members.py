"""Members of the user's classes that no call names, properties and operators: which there are, and their answers."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from wholestep.frontend.source.ownership import of_the_user

BINARY = {
    **{
        name: getattr(operator, name)
        for name in "add sub mul truediv floordiv mod pow matmul lshift rshift xor".split()
    },
    "and": operator.and_,
    "or": operator.or_,
}
"""The names of binary operators, which have reflected ones -> Python's function for each."""
COMPARED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
"""The name of a comparison -> the name of its reflection."""
UNARY = ("neg", "pos", "invert", "abs")
OPERATORS = frozenset(
    [f"__{mark}{name}__" for name in BINARY for mark in ("", "r", "i")]
    + [f"__{name}__" for name in (*COMPARED, *UNARY, "getitem", "setitem")]
)
OF_PYTHON = (abs, *BINARY.values(), *[getattr(operator, name) for name in (*COMPARED, *UNARY)])
"""Python's functions that are operators."""
MARKED = "operators"
"""The entry among the names of members that represents all operators."""


def function_of(member: Any) -> FunctionType | None:
    """The user's function behind a property; None for any other member."""
    kind = type(member)
    found = member.fget if kind is property else member.func if kind is functools.cached_property else None
    return found if type(found) is FunctionType and of_the_user(found.__code__.co_filename) else None


def is_operator(name: str, member: Any) -> bool:
    """Test whether a member of a class is an operator of the user's."""
    return name in OPERATORS and type(member) is FunctionType and of_the_user(member.__code__.co_filename)


def names_in(kind: type) -> Iterator[str]:
    """The names of the properties of a class, and the word for operators where it has some."""
    for name, member in list(vars(kind).items()):
        if function_of(member) is not None:
            yield name
        elif is_operator(name, member):
            yield MARKED


class UserMembers:
    """The members of the classes in the user's modules, looked for again where a module has got other names."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self.sizes: dict[str, int] = {}
        """The number of names in each of the user's modules, when its classes were looked at."""
        self.found: dict[str, frozenset[str]] = {}
        self.all = frozenset[str]()

    def names(self) -> frozenset[str]:
        if len(sys.modules) != len(self.loaded):
            before, self.loaded = self.loaded, set(sys.modules)
            new = self.loaded - before
            # Nearly all belong to installed packages, found by one look at each package; the module that runs as the
            # program may be the `__main__.py` of one.
            users = [n for n in new if n == "__main__" or (not is_installed(n.partition(".")[0]) and is_users(n))]
            self.found = dict.fromkeys(users, frozenset[str]()) | self.found
        sizes = {name: len(names_of_module(name)) for name in self.found}
        if sizes != self.sizes:
            for name in [name for name, size in sizes.items() if size != self.sizes.get(name)]:
                held = list(names_of_module(name).values())
                kinds = [x for x in held if isinstance(x, type) and x.__module__ == name]
                self.found[name] = frozenset([member for kind in kinds for member in names_in(kind)])
            self.sizes, self.all = sizes, frozenset().union(*self.found.values())
        return self.all


def names_of_module(name: str) -> dict[str, Any]:
    """The names of a loaded module and their values; empty if it is gone."""
    found: dict[str, Any] = getattr(sys.modules.get(name), "__dict__", {})
    return found


KNOWN = UserMembers()


def is_users(name: str) -> bool:
    """Test whether a loaded module is one of the user's files."""
    module = sys.modules.get(name)
    file = vars(module).get("__file__") if type(module) is ModuleType else None
    return isinstance(file, str) and of_the_user(file)


@functools.cache
def is_installed(root: str) -> bool:
    """Test whether a package of this name, whose file is not the user's, is loaded: so its modules are not either."""
    file = getattr(sys.modules.get(root), "__file__", None)
    return isinstance(file, str) and not of_the_user(file)


def members_near(f: FunctionType) -> frozenset[str]:
    """The names of members that a function may read: of classes in modules, and of classes in its closure."""
    near = []
    for cell in f.__closure__ or ():
        try:
            near.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    kinds = [x if isinstance(x, type) else type(x) for x in near]
    bases = dict.fromkeys([base for kind in kinds for base in kind.__mro__ if base.__module__ != "builtins"])
    return KNOWN.names().union(*[names_in(base) for base in bases])


def member_of(kind: type, name: str) -> Any:
    """A member of a class as it stands there; None where there is none."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None


Form = Callable[[FunctionType], Any]
"""A function of the user's -> its rewritten form."""


def operator_of(kind: type, name: str, form: Form) -> Any:
    """The operator of a class by its name, rewritten where it is the user's."""
    found = member_of(kind, name)
    return form(found) if type(found) is FunctionType else getattr(kind, name, None)


def applied_operator(name: str, reflected: str, plain: Callable[..., Any], form: Form, a: Any, b: Any) -> Any:
    """`a op b` by Python's rules: of a class derived from that of a, b comes first; of the same class, a alone."""
    left, right = type(a), type(b)
    ours, theirs = operator_of(left, name, form), operator_of(right, reflected, form)
    turns = [(ours, a, b), (theirs, b, a)]
    if left is right and name not in COMPARISONS:
        turns = turns[:1]
    elif (
        left is not right and issubclass(right, left) and member_of(right, reflected) is not member_of(left, reflected)
    ):
        turns.reverse()
    for method, one, other in turns:
        made = NotImplemented if method is None else method(one, other)
        if made is not NotImplemented:
            return made
    return plain(a, b)


def updated_operand(name: str, form: Form, a: Any, b: Any) -> Any:
    """`a op= b` by Python's rules, where a has operators of the user's."""
    found = operator_of(type(a), f"__i{name}__", form)
    made = NotImplemented if found is None else found(a, b)
    return BINARY[name](Operand(a, form), b) if made is NotImplemented else made


COMPARISONS = frozenset([f"__{name}__" for name in COMPARED])


class Operand:
    """An object with operators of the user's, in its place beside an operator."""

    __slots__ = ("form", "held")
    __array_ufunc__ = None  # NumPy's arrays leave the operation to it

    def __init__(self, held: Any, form: Form) -> None:
        self.held, self.form = held, form

    def __getitem__(self, index: Any) -> Any:
        return operator_of(type(self.held), "__getitem__", self.form)(self.held, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        operator_of(type(self.held), "__setitem__", self.form)(self.held, index, value)

    __hash__ = None  # type: ignore[assignment]


def raw(x: Any) -> Any:
    """The object that an operand stands for."""
    return x.held if type(x) is Operand else x


def forwards(name: str, reflected: str, plain: Callable[..., Any], turned: bool) -> Callable[[Operand, Any], Any]:
    """A method of operands for one operator."""

    def method(self: Operand, other: Any) -> Any:
        a, b = (other, self.held) if turned else (self.held, raw(other))
        return applied_operator(name, reflected, plain, self.form, a, b)

    return method


def unary_operator(name: str, plain: Callable[[Any], Any]) -> Callable[[Operand], Any]:
    def method(self: Operand) -> Any:
        found = operator_of(type(self.held), name, self.form)
        return plain(self.held) if found is None else found(self.held)

    return method


for _name, _plain in BINARY.items():
    _pair = f"__{_name}__", f"__r{_name}__"
    setattr(Operand, _pair[0], forwards(*_pair, _plain, False))
    setattr(Operand, _pair[1], forwards(*_pair, _plain, True))
for _name, _other in COMPARED.items():
    _pair = f"__{_name}__", f"__{_other}__"
    setattr(Operand, _pair[0], forwards(*_pair, getattr(operator, _name), False))
for _name in UNARY:
    setattr(Operand, f"__{_name}__", unary_operator(f"__{_name}__", getattr(operator, _name)))


class Owner:
    """An object whose property is about to be read: for any name, the rewritten getter answers."""

    __slots__ = ("_answer",)

    def __init__(self, answer: Callable[[], Any]) -> None:
        object.__setattr__(self, "_answer", answer)

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, "_answer")()
