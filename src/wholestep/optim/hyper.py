"""The hyper-parameters of an optimizer, found in its nested parts, named, checked and replaced."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar, dataclass_transform

import numpy as np

from wholestep import containers, dtypes
from wholestep.boundary.answers import call_error
from wholestep.boundary.public import boundary
from wholestep.errors import DtypeError, ParameterError
from wholestep.frontend.array import Array
from wholestep.frontend.tracing import type_of
from wholestep.words import type_in_words

P = ParamSpec("P")
T = TypeVar("T")

Rate: TypeAlias = Any
"""A number, or a function of the number of updates made so far; both numbers may be traced."""

Path: TypeAlias = tuple[str, ...]

SCHEDULED = "a schedule takes the number of updates made so far and returns one real number: lambda t: 0.1 / (1 + t)"

DESCEND: Any = object()
"""The result of a visitor that leaves a field as it is and visits the fields of its value."""


class Range(NamedTuple):
    """The numbers that a field takes: least or more (more than least where `strictly`), and less than `below`."""

    least: float = 0.0
    below: float = np.inf
    strictly: bool = False

    def __contains__(self, x: object) -> bool:
        return isinstance(x, float) and self.least <= x < self.below and not (self.strictly and x == self.least)

    def __str__(self) -> str:
        if self.below < np.inf:
            return f"in {'(' if self.strictly else '['}{self.least:g}, {self.below:g})"
        if self.least == -np.inf:
            return "finite"
        return f"more than {self.least:g}" if self.strictly else f"{self.least:g} or more"


class Number(NamedTuple):
    """One hyper-parameter: its path, its value and its range."""

    path: Path
    value: float
    range: Range | None


def number_in(
    least: float = 0.0, below: float = np.inf, strictly: bool = False, optional: bool = False, off: float | None = None
) -> dict[str, Any]:
    """The metadata of a field that holds a number in a range, or a tuple of them, or None where it is optional.

    A field with a number `off` is optional: users write that number, and the field then holds None.
    """
    return {"range": Range(least, below, strictly), "optional": optional or off is not None, "off": off}


def number_or_schedule(least: float = 0.0) -> dict[str, Any]:
    """The metadata of a field that holds a number of this least size, or a function of the number of updates."""
    return {**number_in(least), "scheduled": True}


class Spelled:
    """The base of objects that print as the call that makes them."""

    def resolved(self) -> Any:
        """The same object, with defaults that depend on other arguments filled in; raises for an invalid choice."""
        return self

    def agree(self) -> None:
        """Raise ParameterError where numbers that are each in their range do not fit together."""

    def __repr__(self) -> str:
        held = [(f, getattr(self, f.name)) for f in dataclasses.fields(self)]  # type: ignore[arg-type]
        # Numbers and choices that are None were not given.
        said = [(f.name, x) for f, x in held if x is not None or not (f.metadata.get("optional") or f.type == "Choice")]
        return f"{label(self)}({', '.join(f'{name}={x!r}' for name, x in said)})"


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Fields(Spelled):
    """The base of objects that are defined by their arguments; every subclass in this package is a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith(f"{__package__}."):
            dataclasses.dataclass(frozen=True, repr=False)(cls)
            for name in {"init", "update"} & vars(cls).keys():
                setattr(cls, name, boundary(vars(cls)[name]))


def public_function(kind: Callable[P, T]) -> Callable[P, T]:
    """The public function of a class: it makes objects whose numbers are checked.

    Its parameters, their defaults and its documentation are those of the class, whose constructor checks nothing and
    therefore has no defaults.
    """
    cls: Any = kind
    signature = inspect.signature(cls)

    def make(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise call_error(make, args, kwargs, error) from None
        given.apply_defaults()
        return check_numbers(as_fields(cls(*given.args, **given.kwargs)).resolved())

    made: Any = make
    made.__name__ = made.__qualname__ = function_name(cls)
    made.__module__, made.__doc__ = f"{__package__}.public", cls.__doc__
    made.__signature__ = signature.replace(return_annotation=cls.__name__)
    cls.__init__.__defaults__ = cls.__init__.__kwdefaults__ = None
    return make


def as_fields(x: Any) -> Any:
    """An object with its arguments converted for its fields: to booleans, tuples, and None for a number `off`."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(x):
        value, off = getattr(x, field.name), field.metadata.get("off")
        if field.type == "bool":
            changes[field.name] = bool(value)
        elif str(field.type).startswith("tuple"):
            if not isinstance(value, Iterable):
                raise DtypeError(
                    f"{function_name(type(x))}: {field.name} is {type_in_words(value)}, not a list",
                    hint=f"give several: {field.name}=[...]",
                )
            changes[field.name] = tuple(value)
        elif off is not None and isinstance(value, int | float | np.integer | np.floating) and value == off:
            changes[field.name] = None
    return dataclasses.replace(x, **changes)


def function_name(kind: type) -> str:
    """The function name of a class: `clip_by_value` for ClipByValue, `linear` for LinearSchedule.

    >>> function_name(type("LinearSchedule", (), {}))
    'linear'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__.removesuffix("Schedule")).lower()


def label(x: Any) -> str:
    """The name of an optimizer, transform or schedule: that of the function that makes it."""
    return function_name(type(x))


def labels(items: Iterable[Any]) -> list[str]:
    """The labels of objects, numbered where several are equal: `clip_by_value[1]`."""
    found = [label(x) for x in items]
    return [name if found.count(name) == 1 else f"{name}[{found[:i].count(name)}]" for i, name in enumerate(found)]


def check_numbers(x: T) -> T:
    """The same object with its numbers as floats; raises DtypeError or ParameterError as `checked_number` does."""
    made: Any = x
    name = label(x)
    for field in dataclasses.fields(made):
        facts, value = field.metadata, getattr(made, field.name)
        schedule = facts.get("scheduled") and callable(value) and containers.one_level(value) is None
        free = schedule or (value is None and facts.get("optional"))
        if "range" in facts and not free:
            items = value if isinstance(value, tuple) else (value,)
            found = tuple([checked_number(name, field.name, item, facts["range"]) for item in items])
            made = dataclasses.replace(made, **{field.name: found if isinstance(value, tuple) else found[0]})
    check_agreement(made)
    return made


def checked_number(name: str, field: str, value: Any, allowed: Range) -> Any:
    """A number as a float; raises DtypeError for another type, ParameterError for a number out of range.

    A traced number stays as it is: its value differs from call to call, and is not checked.
    """
    if not is_one_number(value):
        what = type_of(value) if isinstance(value, Array | np.ndarray) else type_in_words(value)
        tree = containers.one_level(value) is not None
        hint = "parameters are given to ws.compile, or to the optimizer's init and update" if tree else None
        raise DtypeError(f"{name}: {field} is {what}, not a number", hint=hint)
    if isinstance(value, Array):
        return value
    found = float(value)
    if found not in allowed:
        raise ParameterError(f"{name}: {field} is {found:g}; it must be {allowed}")
    return found


def is_one_number(x: Any, shape: tuple[int, ...] = ()) -> bool:
    """Test whether x is one real number: of Python, of NumPy, an array without axes, or a traced one.

    An array may also have a given shape, with a number at each place.
    """
    if isinstance(x, Array | np.ndarray):
        return x.shape in ((), shape) and (dtypes.is_float(x.dtype) or dtypes.is_integer(x.dtype))
    return isinstance(x, int | float | np.integer | np.floating) and not isinstance(x, bool)


def has_hyperparameters(x: Any) -> bool:
    """Test whether x is an object with fields that may hold hyper-parameters."""
    return dataclasses.is_dataclass(x) and not isinstance(x, type)


def map_fields(x: Any, visit: Callable[[Path, Any, Any], Any], path: Path = ()) -> Any:
    """The same object with new values of fields: `visit(path, field, value)` gives the new value or DESCEND."""
    if not has_hyperparameters(x):
        return x
    changes = {}
    for field in dataclasses.fields(x):
        old = getattr(x, field.name)
        new = map_field(old, field, visit, path)
        if new is not old:
            changes[field.name] = new
    return dataclasses.replace(x, **changes) if changes else x


def map_field(old: Any, field: Any, visit: Callable[[Path, Any, Any], Any], path: Path) -> Any:
    """The new value of one field."""
    new = visit((*path, field.name), field, old)
    if new is not DESCEND:
        return new
    if isinstance(old, tuple):
        return map_items(old, field, visit, path)
    # A wrapped optimizer is named by its kind in the path, every other part by its field.
    return map_fields(old, visit, (*path, label(old) if field.name == "optimizer" else field.name))


def map_items(old: tuple[Any, ...], field: Any, visit: Callable[[Path, Any, Any], Any], path: Path) -> Any:
    """The new value of a tuple of numbers, of parts, or of parts under names."""
    new = []
    for i, (item, name) in enumerate(zip(old, labels(old), strict=True)):
        if isinstance(item, tuple) and len(item) == 2:
            part = map_fields(item[1], visit, (*path, f"{field.name}[{item[0]!r}]"))
            new.append(item if part is item[1] else (item[0], part))
        elif has_hyperparameters(item):
            new.append(map_fields(item, visit, (*path, f"{field.name}[{i}]" if callable(item) else name)))
        else:
            given = visit((*path, f"{field.name}[{i}]"), field, item)
            new.append(item if given is DESCEND else given)
    return tuple(new) if any(a is not b for a, b in zip(old, new, strict=True)) else old


def fields_below(x: Any) -> list[tuple[Path, Any, Any]]:
    """The path, the field and the value of each field of an object and its parts, and of each item of a tuple."""
    found: list[tuple[Path, Any, Any]] = []

    def note(*held: Any) -> Any:
        found.append(held)
        return DESCEND

    map_fields(x, note, (label(x),))
    return found


def objects_below(x: Any) -> list[Any]:
    """An object and the objects with fields below it, such as the links of a chain."""
    held = [value if isinstance(value, tuple) else (value,) for _, _, value in fields_below(x)]
    items = [item[1] if isinstance(item, tuple) and len(item) == 2 else item for part in held for item in part]
    return [part for part in (x, *items) if has_hyperparameters(part)]


def hyperparameters_of(optimizer: Any) -> dict[str, Number]:
    """The hyper-parameters of an optimizer by name: the floats in its fields and in the fields of its parts.

    A name is the shortest ending of the path to the number that is no ending of another path: `lr`, or
    `groups['head'].lr` and `default.lr`.
    """
    held = [x for x in fields_below(optimizer) if isinstance(x[2], float | np.floating)]
    found = [Number(path, float(value), field.metadata.get("range")) for path, field, value in held]
    return dict(zip(shortest_names([n.path for n in found]), found, strict=True))


def shortest_names(paths: Sequence[Path]) -> list[str]:
    """The shortest ending of each path that no other path has; the whole path where there is none."""
    counts: dict[Path, int] = {}
    for path in paths:
        for i in range(len(path)):
            counts[path[i:]] = counts.get(path[i:], 0) + 1
    ends = [next((p[i:] for i in range(len(p) - 1, -1, -1) if counts[p[i:]] == 1), p) for p in paths]
    return [".".join(end) for end in ends]


def hyper_of(optimizer: Any) -> dict[str, float]:
    """The hyper-parameters of an optimizer, by name.

    >>> from wholestep import optim
    >>> hyper_of(optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(optim.cosine(0.1, 100))))
    {'max_norm': 1.0, 'peak': 0.1, 'steps': 100.0, 'end': 0.0}
    """
    return {name: found.value for name, found in hyperparameters_of(optimizer).items()}


def with_hyper(optimizer: Any, values: Mapping[str, Any]) -> Any:
    """The same optimizer with other numbers, which may be traced."""
    if not values:
        return optimizer
    names = {found.path: name for name, found in hyperparameters_of(optimizer).items()}

    def replace(path: Path, field: Any, value: Any) -> Any:
        return values.get(names[path], value) if path in names else DESCEND

    return map_fields(optimizer, replace, (label(optimizer),))


def full_name(names: Mapping[str, Number], given: str) -> str | None:
    """The full name of a hyper-parameter given by any unambiguous ending of its path; None if there is none."""
    if given in names:
        return given
    meant = [name for name, found in names.items() if f".{'.'.join(found.path)}".endswith(f".{given}")]
    return meant[0] if len(meant) == 1 else None


def override_fields(optimizer: Any, values: Mapping[str, Any], who: str) -> Any:
    """The same optimizer with other values of fields; raises ParameterError for an unknown or ambiguous name."""
    found: dict[str, list[str]] = {name: [] for name in values}

    def replace(path: Path, field: Any, value: Any) -> Any:
        spelled = "." + ".".join(path)
        for name in values:
            if spelled.endswith(f".{name}"):
                found[name].append(spelled[1:])
                return values[name]
        return DESCEND

    made = map_fields(optimizer, replace, (label(optimizer),))
    for name, places in found.items():
        if len(places) != 1:
            what = f"it has {', '.join(places)}" if places else "it has none"
            known = ", ".join(sorted(hyperparameters_of(optimizer)))
            raise ParameterError(f"{who}: which {name} of {optimizer!r} is meant? {what}", hint=f"there are {known}")
    return check_all_numbers(made)


def check_all_numbers(x: Any) -> Any:
    """`check_numbers` for an object and every part of it."""

    def check(path: Path, field: Any, value: Any) -> Any:
        return check_numbers(map_fields(value, check)) if has_hyperparameters(value) else DESCEND

    return check_numbers(map_fields(x, check))


def check_agreement(x: Any) -> None:
    """Raise ParameterError where numbers of an object, or of a part of it, do not fit together."""
    if isinstance(x, tuple):
        for item in x:
            check_agreement(item)
    elif has_hyperparameters(x):
        if isinstance(x, Spelled):
            x.agree()
        for field in dataclasses.fields(x):
            check_agreement(getattr(x, field.name))


def fields_named(optimizer: Any, name: str) -> list[Any]:
    """The values of the fields of an optimizer and its parts whose path ends with this name."""
    return [value for path, _, value in fields_below(optimizer) if f".{'.'.join(path)}".endswith(f".{name}")]


def functions_of(optimizer: Any) -> list[Any]:
    """The functions among the fields of an optimizer and of its parts, schedules that are parts themselves left out."""
    if not has_hyperparameters(optimizer):
        return [value for value in getattr(optimizer, "__dict__", {}).values() if callable(value)]
    return [value for _, _, value in fields_below(optimizer) if callable(value) and not has_hyperparameters(value)]


def rate_at(rate: Rate, count: Any) -> Any:
    """The learning rate for the update about to be made, the first one having number 0.

    Raises: DtypeError for a schedule whose result is not one real number for each count.
    """
    if not callable(rate):
        return rate
    found = rate(count)
    if not is_one_number(found, np.shape(count)):
        what = type_of(found) if isinstance(found, Array | np.ndarray) else type_in_words(found)
        name = getattr(rate, "__name__", label(rate))
        raise DtypeError(f"schedule {name}: it returned {what}, not a number", hint=SCHEDULED)
    return found
