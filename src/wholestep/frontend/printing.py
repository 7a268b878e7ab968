"""print inside programs: values leave a program as results of their own, and are shown by the host after the call."""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import tree
from wholestep.errors import ParameterError, Where, here
from wholestep.frontend.array import Array
from wholestep.frontend.promotion import constant_of
from wholestep.frontend.tracing import PLAIN
from wholestep.ir.build import current


class Layout(NamedTuple):
    """A call of `ws.print` without its arrays: the format, the tree of its values, and those that are no arrays."""

    form: str
    structure: Any
    fixed: tuple[tuple[int, Any], ...]

    def text(self, arrays: Sequence[Any]) -> str:
        """The format, filled."""
        fixed, rest = dict(self.fixed), iter(arrays)
        count = self.structure.num_leaves
        leaves = [fixed[i] if i in fixed else Elements(next(rest)) for i in range(count)]
        return self.form.format(*tree.unflatten(self.structure, leaves))


class Said:
    """One call of `ws.print`, and the arrays that go into it."""

    def __init__(self, layout: Layout, arrays: Sequence[Any], where: Where = None) -> None:
        self.layout, self.arrays, self.where = layout, tuple(arrays), where

    def lines(self, at: tuple[int, ...]) -> Iterator[str]:
        """The text, for arrays that have these positions of loops before their own axes."""
        yield self.layout.text([np.asarray(x)[at] for x in self.arrays])


class PrintLoop:
    """The prints of the steps of a loop, whose values are stacked along the first axis."""

    def __init__(self, items: Sequence[Any], reverse: bool, where: Where = None) -> None:
        self.items, self.reverse, self.where = tuple(items), reverse, where

    def lines(self, at: tuple[int, ...]) -> Iterator[str]:
        """The text of every step, in the order in which the steps were taken."""
        count = np.shape(tree.leaves(self.items)[0])[len(at)]
        for i in reversed(range(count)) if self.reverse else range(count):
            for item in self.items:
                yield from item.lines((*at, i))


tree.register(Said, lambda s: (s.arrays, s.layout), lambda layout, arrays: Said(layout, tuple(arrays)))
tree.register(PrintLoop, lambda s: (s.items, s.reverse), lambda reverse, items: PrintLoop(tuple(items), reverse))


class Elements:
    """An array as `str.format` shows it: a format such as `.3f` is that of its elements."""

    def __init__(self, x: Any) -> None:
        self.x = np.asarray(x)

    def __format__(self, spec: str) -> str:
        if not self.x.ndim:
            return format(self.x[()], spec)
        if not spec:
            return str(self.x)
        return np.array2string(self.x, formatter={"all": lambda element: format(element, spec)})

    def __repr__(self) -> str:
        return str(self.x)

    def __getitem__(self, index: Any) -> Any:
        return Elements(self.x[index])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.x, name)


def print(form: Any, *values: Any) -> None:  # it is `ws.print`
    """Print values when the program runs: `ws.print("loss {:.3f} at {}", loss, step)`.

    `form` is a format string of `str.format`; values without a field in it follow it, as those of Python's `print`
    do. A format such as `.3f` applies to every element of an array. Outside of programs, and in functions that are
    differentiated as they run, values are known and printed at once. In `ws.jit`, and in the loss of a compiled step,
    they are results of the program, and printed in order after each call: for every step where a call takes several,
    for every step of a `ws.scan` or `ws.fori_loop`, and for a whole batch at once inside `ws.vmap`. Nothing is printed
    twice where something is differentiated.

    Shapes: values of any shapes and dtypes; nothing is returned.
    Raises: ParameterError for a format that the values do not fit, and UnsupportedError inside `ws.cond`,
    `ws.while_loop` and functions with a derivative of their own, whose results are not known outside.

    >>> import numpy as np, wholestep as ws
    >>> def f(x):
    ...     ws.print("x is {:.1f}", x)
    ...     return x * x
    >>> ws.jit(f)(2.0)
    x is 2.0
    np.float64(4.0)
    """
    text = form if isinstance(form, str) else "{}"
    given = values if isinstance(form, str) else (form, *values)
    if given and not has_fields(text):
        text = " ".join([text, *["{}"] * len(given)])
    elif not isinstance(form, str):
        text = " ".join(["{}"] * len(given))
    where, builder = here(), current()
    leaves, structure = tree.flatten(given)
    arrays: list[Any] = [leaf for leaf in leaves if isinstance(leaf, (Array, *PLAIN))]
    fixed = [(i, leaf) for i, leaf in enumerate(leaves) if not isinstance(leaf, (Array, *PLAIN))]
    layout = Layout(text, structure, tuple(fixed))
    check_format(layout, arrays, where)
    if builder is None or (builder.evaluate is not None and all(x.value.data is not None for x in traced(arrays))):
        print_value([Said(layout, [shown(x) for x in arrays])])
        return
    # A print of no array outputs a constant, since the number of its executions is known from outputs alone.
    # `Layout.text` ignores the surplus value.
    results = [Array(x.value) if isinstance(x, Array) else Array(constant_of(x)) for x in arrays or [np.int8(0)]]
    builder.said.append(Said(layout, results, where))


def has_fields(form: str) -> bool:
    """Test whether a format has a place for a value, or is none at all."""
    try:
        return any(name is not None for _, name, *_ in importlib.import_module("string").Formatter().parse(form))
    except ValueError:  # a brace alone, which `check_format` tells of
        return True


def traced(leaves: Sequence[Any]) -> list[Array]:
    """The traced ones among arrays."""
    return [leaf for leaf in leaves if isinstance(leaf, Array)]


def check_format(layout: Layout, arrays: Sequence[Any], where: Where) -> None:
    """Raise ParameterError where values do not fit their format, tried on ones of their kind."""
    try:
        layout.text([np.ones([1] * x.ndim, x.dtype) if isinstance(x, Array) else x for x in arrays])
    except (IndexError, KeyError, ValueError, AttributeError, TypeError) as error:
        raise ParameterError(
            f"print: the values do not fit {layout.form!r}: {error}",
            where=where,
            hint="it is a format of str.format: ws.print('loss {:.3f}', loss)",
        ) from None


def shown(leaf: Any) -> Any:
    """A value that is known, as it is."""
    return np.broadcast_to(leaf.value.data, leaf.shape) if isinstance(leaf, Array) else leaf


def take_prints() -> tuple[Any, ...]:
    """Take the prints of the current program, which become results of it."""
    builder = current()
    if builder is None or not builder.said:
        return ()
    said = tuple(builder.said)
    builder.said.clear()
    return said


def with_said(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns `Printed((result, prints))` where it prints something."""

    def printing(*args: Any, **kwargs: Any) -> Any:
        out = f(*args, **kwargs)
        said = take_prints()
        return Printed((out, said)) if said else out

    return printing


class Printed(tuple[Any, Any]):
    """A result, and the prints of the function that returned it."""


tree.register(Printed, lambda p: (tuple(p), None), lambda _, parts: Printed(parts))


def without_said(out: Any, *, loop: bool = False, reverse: bool = False) -> Any:
    """The result of a function `with_said`; its prints are printed, or become outputs of the program around it."""
    if not isinstance(out, Printed):
        return out
    made, said = out
    tell([PrintLoop(said, reverse)] if loop else said)
    return made


def tell(said: Sequence[Any]) -> None:
    """Print values that are known, or let the current program print them."""
    builder = current()
    leaves = tree.leaves(tuple(said))
    if builder is not None and any(x.value.data is None for x in traced(leaves)):
        builder.said += said
    else:
        print_value(tree.map(shown, tuple(said)))


def print_value(said: Sequence[Any]) -> None:
    """Print values that are known."""
    for item in said:
        for line in item.lines(()):
            builtins.print(line)
