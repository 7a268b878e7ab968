"""NumPy's ufuncs on traced arrays: promotion as NumPy resolves it, then a primitive or a few."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim, answer_in_traces
from wholestep.errors import DtypeError, RangeError, ShapeError, UnsupportedError
from wholestep.frontend.array import KNOWN, Array
from wholestep.frontend.conversions import into_plain
from wholestep.frontend.dispatch import FUNCTIONS, HOOKS, late_types
from wholestep.frontend.memory import in_order_of, may_be_transposed
from wholestep.frontend.options import OPTIONS, check_options
from wholestep.frontend.promotion import (
    WEAK,
    broadcast_shapes,
    broadcast_to,
    cast_to,
    checked,
    full_of,
    is_foreign_array,
    lift,
    wrap,
)
from wholestep.frontend.ufunc_rules import COMPARISONS, LOGICAL, Rule, rule_for
from wholestep.ir.build import current, emit_typed, owned
from wholestep.ir.graph import Value
from wholestep.ir.types import Shape, Type
from wholestep.primitives import logic as lo
from wholestep.primitives.elementwise import Elementwise
from wholestep.primitives.family import Primitive, number_of

_resolved: dict[tuple[Any, ...], tuple[Rule, tuple[np.dtype[Any], ...], tuple[np.dtype[Any], ...]]] = {}


def loop_dtypes(ufunc: np.ufunc, kinds: tuple[Any, ...], dtype: np.dtype[Any] | None, casting: Any) -> Any:
    """The dtypes of operands and results, as NumPy resolves them; with a dtype that of the results."""
    signature = (*[None] * ufunc.nin, *[dtype] * ufunc.nout)
    if all([type(k) is type for k in kinds]):  # of Python's numbers alone a comparison is one of objects
        kinds = tuple(map(np.dtype, kinds))
    try:
        return ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout), signature=signature, casting=casting)
    except TypeError as error:
        names = ", ".join(k.__name__ if isinstance(k, type) else dtypes.short(k) for k in kinds)
        asked = "" if dtype is None else f" as {dtypes.short(dtype)} by the rule {casting!r}"
        raise DtypeError(f"{ufunc.__name__}: no meaning for {names}{asked}") from error


def resolve(
    ufunc: np.ufunc, kinds: tuple[Any, ...], dtype: np.dtype[Any] | None = None, casting: str = "same_kind"
) -> tuple[Rule, tuple[np.dtype[Any], ...], tuple[np.dtype[Any], ...]]:
    """(rule, operand dtypes, result dtypes) for dtypes and Python scalar types, as NumPy itself resolves them."""
    key = (ufunc, *kinds, dtype, casting)
    found = _resolved.get(key)
    if found is None:
        if set("".join(ufunc.types)) <= set("O->"):
            raise UnsupportedError(
                f"{ufunc.__name__}: a Python function made into a ufunc does not take traced arrays",
                hint="call the function on whole arrays, or use wholestep.numpy.vectorize or ws.vmap",
            )
        loop = loop_dtypes(ufunc, kinds, dtype, casting)
        operands = tuple([checked(d) for d in loop[: ufunc.nin]])
        if ufunc.__name__ in LOGICAL:
            operands = (np.dtype(bool),) * ufunc.nin
        found = _resolved[key] = (rule_for(ufunc, operands), operands, tuple([checked(d) for d in loop[ufunc.nin :]]))
    return found


def call(ufunc: np.ufunc, *operands: Any, method: str | None = None, **options: Any) -> Any:
    """One ufunc call or method of a ufunc; an operator where no method is named."""
    if method is not None and method != "__call__":
        return METHODS[method](ufunc, *operands, **options)
    if options:
        return with_options(ufunc, operands, **options)
    if ufunc in FUNCTIONS:
        return FUNCTIONS[ufunc](*operands)
    found = alike(ufunc, operands)
    if found is not None:
        return found
    if any([type(x) in late_types for x in operands]):
        return call(ufunc, *[x.__live__() if type(x) in late_types else x for x in operands], method=method)
    if method is None and not all([isinstance(x, KNOWN) or type(x) is Dim for x in operands]):
        if not all([isinstance(x, KNOWN) or type(x) is Dim or is_foreign_array(x) for x in operands]):
            return NotImplemented
    made = general(ufunc, operands, None)
    if method is None and type(made) is Array and all([is_weak(x) for x in operands]):
        made._weak = made.dtype.kind in "ifc"
    return laid(made, operands)


def alike(ufunc: np.ufunc, operands: tuple[Any, ...]) -> Any:
    """The call where all operands are arrays of one type that the ufunc computes in: nothing to promote or repeat.

    None elsewhere. Most calls of most programs are of this kind, so it comes first, and makes few calls of its own.
    """
    values: list[Value] = []
    turned = False
    for x in operands:
        if type(x) is not Array or x._weak:
            return None
        turned = turned or x._parent is not None or x._strides is not None
        values.append(x._value if x._parent is None else x.value)
    t = values[0].type
    for v in values:
        if v.type is not t:
            return None
    rule, made_type, results = alike_rule(ufunc, t, len(values))
    if rule is None:
        return None
    if made_type is None:
        made = wrapped(rule(*values), results)
    else:
        made = Array(emit_typed(rule, tuple(values), {}, made_type), made_type.ndim == 0)
    return laid(made, operands) if turned else made


@lru_cache(maxsize=4096)
def alike_rule(ufunc: np.ufunc, t: Type, count: int) -> tuple[Rule | None, Type | None, tuple[np.dtype[Any], ...]]:
    """The rule of a ufunc for so many operands of one type, and the dtypes of its results; no rule where it promotes.

    The type of the result is said where the rule is a primitive that gives NumPy's dtype: a node and no more.
    """
    rule, loop, results = resolve(ufunc, (t.dtype,) * count)
    if loop[0] is not t.dtype:
        return None, None, results
    if isinstance(rule, Primitive) and type(rule).__call__ is Primitive.__call__ and not rule.multiple:
        made: Type = rule.type(*[t] * count)
        if made.dtype is results[0]:
            return rule, made, results
    return rule, None, results


def wrapped(out: Any, results: tuple[np.dtype[Any], ...]) -> Any:
    """The result of a rule, as arrays of the dtypes that NumPy gives."""
    if type(out) is Value:
        return wrap(out if out.type.dtype is results[0] else cast_to(out, results[0]))
    return tuple([wrap(v) for v in out])


def laid(made: Any, operands: tuple[Any, ...]) -> Any:
    """The result in the memory order of its operands, where one of them may not lie row by row."""
    for x in operands:
        if may_be_transposed(x):
            if type(made) is Array:
                return in_order_of(made, operands)
            return tuple([in_order_of(m, operands) for m in made])
    return made


def is_weak(x: Any) -> bool:
    """Test whether an operand is a Python number, traced or not; operators on such give Python numbers again."""
    return x._weak if type(x) is Array else type(x) in WEAK


PYTHON = {"i": int, "f": float, "c": complex}


def classified(operands: tuple[Any, ...]) -> tuple[list[Any], list[Any], list[Shape]]:
    """Operands as values or plain numbers; what promotes each, a dtype or a type of Python; and shapes of values."""
    plain: list[Any] = []
    kinds: list[Any] = []
    shapes: list[Shape] = []
    for x in operands:
        if type(x) is Array:
            value = x.value
            plain.append(value)
            kinds.append(PYTHON[value.type.dtype.kind] if x._weak else value.type.dtype)
            shapes.append(value.type.shape)
        elif type(x) in WEAK:
            plain.append(x)
            kinds.append(type(x))
        elif type(x) is Dim:
            plain.append(x)
            kinds.append(int)
        elif isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.ndim == 0) or type(x) is bool:
            scalar = np.asarray(x)
            plain.append(scalar[()])
            kinds.append(checked(scalar.dtype))
        else:
            value = lift(x).value
            plain.append(value)
            kinds.append(value.type.dtype)
            shapes.append(value.type.shape)
    return plain, kinds, shapes


def general(
    ufunc: np.ufunc,
    operands: tuple[Any, ...],
    dtype: np.dtype[Any] | None,
    where: Value | None = None,
    casting: str = "same_kind",
) -> Any:
    """Promote, broadcast, apply; where a mask is false, to operands of the function's domain in place of the given."""
    plain, kinds, shapes = classified(operands)
    rule, loop, results = resolve(ufunc, tuple(kinds), dtype, casting)
    if where is not None:
        shapes.append(where.type.shape)
    shape = broadcast_shapes(ufunc.__name__, shapes) if shapes else ()
    try:
        values = [
            broadcast_to(x if x.type.dtype is d else cast_to(x, d), shape) if type(x) is Value else full_of(x, shape, d)
            for x, d in zip(plain, loop, strict=True)
        ]
    except OverflowError as error:
        return beyond_range(ufunc, plain, loop, shape, error)
    if where is not None:
        values = inside_domain(rule, values, broadcast_to(where, shape))
    return wrapped(rule(*values), results)


def beyond_range(ufunc: np.ufunc, plain: Sequence[Any], loop: Sequence[Any], shape: Shape, error: OverflowError) -> Any:
    """The comparison with an integer that the other operand's dtype cannot hold; others raise RangeError."""
    if ufunc.__name__ not in COMPARISONS:
        hint = "convert the array to a wider dtype first: x.astype(np.int64)"
        raise RangeError(f"{ufunc.__name__}: {error}", hint=hint) from None
    number = [x if type(x) in WEAK else np.zeros((), d)[()] for x, d in zip(plain, loop, strict=True)]
    return wrap(full_of(bool(ufunc(*number)), shape, np.dtype(bool)))


def inside_domain(rule: Rule, values: Sequence[Value], mask: Value) -> list[Value]:
    """The operands with a point of the function's domain where the mask is false.

    The replaced element reaches neither the value nor a derivative of any order, and causes no floating-point
    warning. A plain number stays: it has no derivative, and the rules are shorter for one.
    """
    safe = [rule.inside(v.dtype) if isinstance(rule, Elementwise) else 1 for v in values]
    return [
        v if number_of(v) is not None else lo.select(mask, v, full_of(point, v.shape, v.dtype))
        for v, point in zip(values, safe, strict=True)
    ]


def with_options(
    ufunc: np.ufunc,
    operands: tuple[Any, ...],
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    casting: Any = "same_kind",
    **others: Any,
) -> Any:
    """out=, where=, dtype= and casting= of a ufunc call."""
    operands = tuple([x.__live__() if type(x) in late_types else x for x in operands])
    check_options(ufunc.__name__, OPTIONS, {"casting": casting, **others})
    core = {k: others.pop(k) for k in ("axis",) if k in others and ufunc in FUNCTIONS}
    for name, value in others.items():
        if value not in WITHOUT_MEANING.get(name, ()):
            raise UnsupportedError(f"{ufunc.__name__}: option {name}= is not covered for traced arrays")
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    wanted = None if dtype is None else checked(dtype)
    if ufunc in FUNCTIONS:
        made = FUNCTIONS[ufunc](*[x if wanted is None else astype(lift(x), wanted, casting) for x in operands], **core)
    elif wanted is not None or where is not True:
        mask = None if where is True else cast_to(lift(where).value, np.dtype(bool))
        made = general(ufunc, operands, wanted, mask, casting)
    else:
        made = call(ufunc, *operands, method="__call__")
    if target is None and where is True:
        return made
    results = made if isinstance(made, tuple) else (made,)
    targets = out if isinstance(out, tuple) else (out,)
    targets = (*targets, *[None] * (len(results) - len(targets)))
    if len(results) > 1 and target is not None:
        shape = broadcast_shapes(ufunc.__name__, [x.shape for x in (*results, *targets) if hasattr(x, "shape")])
        results = tuple([wrap(broadcast_to(m.value, shape)) for m in results])
    written = tuple(
        [
            assign_out(ufunc.__name__, t, blended(ufunc, m, t, where), casting)
            for t, m in zip(targets, results, strict=True)
        ]
    )
    return written if isinstance(made, tuple) else written[0]


WITHOUT_MEANING = {"order": (None, "K"), "subok": (True, False)}
"""Options of ufuncs, with the values that mean nothing to a traced array."""


def blended(ufunc: np.ufunc, made: Array, target: Any, where: Any) -> Array:
    """A result where the mask is true, and the old elements of `out=` elsewhere."""
    if where is True:
        return made
    if target is None:
        raise UnsupportedError(
            f"{ufunc.__name__}: where= without out= leaves elements undefined",
            hint="give out=, or use np.where(mask, f(x), other)",
        )
    made = FUNCTIONS[np.where](where, made, target)
    return made


def assign_out(name: str, target: Any, made: Array, casting: Any = "same_kind") -> Any:
    """Write a result into `out=`, as NumPy casts it, or in its "exact" type; a plain array cannot hold a traced one."""
    target = target[0] if isinstance(target, tuple) else target
    if target is None or target is np._NoValue:
        return made
    if type(target) in late_types:
        assign_out(name, target.__written__(), made, casting)
        return target
    if not isinstance(target, Array):
        raise UnsupportedError(
            f"{name}: out= is a plain array, which cannot hold a traced {made.type}",
            hint=into_plain(target),
        )
    if casting == "exact" and target.type is not made.type:
        raise ShapeError(f"{name}: out= is {target.type}, and the result is {made.type}")
    if not np.can_cast(made.dtype, target.dtype, "same_kind" if casting == "exact" else casting):
        raise DtypeError(
            f"{name}: cannot write {made.type} into {target.type} by the rule {casting!r}",
            hint="make the array on the left with a dtype that can hold the result",
        )
    if broadcast_shapes(name, [made.shape, target.shape]) != target.shape:
        raise ShapeError(f"{name}: a result of shape {made.shape} does not fit out= of shape {target.shape}")
    target.write(broadcast_to(cast_to(made.value, target.dtype), target.shape))
    return target


REDUCE = {
    **{"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min},
    **{"logical_and": np.all, "logical_or": np.any},
}
"""ufunc name -> the function that means its `reduce`."""

METHODS: dict[str, Callable[..., Any]] = {}
"""Methods of ufuncs, by name: (ufunc, *arguments) -> result; entered by `numpy.ufunc_methods`."""


def astype(x: Array, dtype: Any, casting: Any = "unsafe", copy: bool = True) -> Array:
    """`x.astype`: a copy in another dtype."""
    wanted = checked(dtype)
    if not np.can_cast(x.dtype, wanted, casting):
        raise DtypeError(f"astype: cannot cast {x.type} to {dtypes.short(wanted)} by the rule {casting!r}")
    if wanted == x.dtype and not copy:
        return x
    made = Array(owned(cast_to(x.value, wanted)), x._scalar)
    return in_order_of(made, [x]) if may_be_transposed(x) else made


answer_in_traces(lambda: current() is not None, call)
HOOKS.ufunc = call
HOOKS.astype = astype
HOOKS.assign_out = assign_out
