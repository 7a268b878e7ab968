"""A reader of jaxprs: their equations as plain data, with a handler for each."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.errors import UnsupportedError, is_internal
from wholestep.frontend.custom import custom_jvp, custom_vjp
from wholestep.frontend.dispatch import is_traced
from wholestep.frontend.tracing import holds_keys
from wholestep.interop.jax.keys import packed, unpacked
from wholestep.interop.jax.operators import PRIMITIVES

MANY = 12
"""The most primitives that an error lists."""
DRAWN = ("random_bits", "random_seed", "random_split", "random_fold_in")
"""Primitives on keys, which JAX itself states in terms of words."""
EXPANDED = "call_hi_primitive"
"""The name, since JAX 0.12, of all primitives that state themselves in terms of others."""
RULED = {"custom_jvp_call": "tangent", "custom_vjp_call": "pullback", "random_gamma": "tangent"}


class JaxEquation(NamedTuple):
    """One equation: its primitive, its handler, its arguments, parameters and results, and JAX's line."""

    name: str
    handler: Callable[..., Any]
    args: tuple[Any, ...]
    params: dict[str, Any]
    results: tuple[int, ...]
    several: bool
    line: str


class Known(NamedTuple):
    """An argument whose value is known."""

    value: Any


class JaxProgram(NamedTuple):
    """A jaxpr: the number of its values, its inputs' and constants' numbers, its equations, and its results."""

    size: int
    inputs: tuple[int, ...]
    constants: tuple[tuple[int, Any], ...]
    calls: tuple[JaxEquation, ...]
    results: tuple[Any, ...]


class JaxBody:
    """A jaxpr inside of another one, as a function."""

    def __init__(self, program: JaxProgram) -> None:
        self.program = program

    def __call__(self, *given: Any) -> list[Any]:
        return run(self.program, given)


def run(program: JaxProgram, given: Sequence[Any]) -> list[Any]:
    """The results of a jaxpr for its inputs."""
    values: list[Any] = [None] * program.size
    for number, x in [*program.constants, *zip(program.inputs, given, strict=True)]:
        values[number] = x

    def argument(x: Any) -> Any:
        return x.value if isinstance(x, Known) else values[x]

    for call in program.calls:
        try:
            made = call.handler(*[argument(x) for x in call.args], **call.params)
        except Exception as error:
            error.add_note(f"  in JAX's {call.name}{call.line and f' at {call.line}'}")
            raise
        for number, x in zip(call.results, made if call.several else [made], strict=True):
            values[number] = x
    return [argument(x) for x in program.results]


def read_jaxpr(closed: Any) -> JaxProgram:
    """A closed jaxpr as plain data; raises UnsupportedError that lists all primitives without a handler."""
    missing: dict[str, str] = {}
    program = JaxprReader(closed.jaxpr, closed.consts, missing).read()
    if missing:
        lines = [f"  {name}{line and f'   at {line}'}" for name, line in list(missing.items())[:MANY]]
        lines += [f"  and {len(missing) - MANY} more"] if len(missing) > MANY else []
        raise UnsupportedError(
            f"from_jax: {len(missing)} primitives of JAX are not covered\n" + "\n".join(lines),
            hint="write that part of the function in other operations; docs/import.md has the list",
        )
    return program


def plain_array(x: Any) -> Any:
    """An array of JAX, or a number, as one of NumPy; keys as integers."""
    if holds_keys(x):
        import jax

        return packed(np.asarray(jax.random.key_data(x)))
    return np.asarray(x)


class JaxprReader:
    """A jaxpr being read: the numbers of its variables, the primitives without a handler, and the line around it."""

    def __init__(self, jaxpr: Any, constants: Sequence[Any], missing: dict[str, str], line: str = "") -> None:
        self.jaxpr, self.constants, self.missing, self.line = jaxpr, constants, missing, line
        self.numbers: dict[Any, int] = {}

    def read(self) -> JaxProgram:
        """The jaxpr as plain data."""
        jaxpr = self.jaxpr
        constants = [(self.number(v), plain_array(x)) for v, x in zip(jaxpr.constvars, self.constants, strict=True)]
        inputs = tuple(self.number(v) for v in jaxpr.invars)
        calls = tuple(self.equation(eqn) for eqn in jaxpr.eqns)
        results = tuple(self.argument(v) for v in jaxpr.outvars)
        return JaxProgram(len(self.numbers), inputs, tuple(constants), calls, results)

    def number(self, variable: Any) -> int:
        """The number of a variable."""
        return self.numbers.setdefault(variable, len(self.numbers))

    def argument(self, v: Any) -> Any:
        """The number of a variable, or the value of a literal."""
        if hasattr(v, "val"):
            return Known(np.asarray(v.val, v.aval.dtype))
        return self.number(v)

    def equation(self, eqn: Any) -> JaxEquation:
        """An equation with its handler."""
        name, line = name_of(eqn), self.line_of(eqn)
        for v in filter(is_too_narrow, eqn.outvars):
            self.missing.setdefault(f"{name} with {v.aval.dtype}", line)
        params = {key: self.parameter(x, line) for key, x in eqn.params.items() if not is_function(x)}
        several = bool(eqn.primitive.multiple_results)
        handler = PRIMITIVES.get(name)
        if name in DRAWN:
            handler, params, several = self.drawn(eqn), {}, True
        elif name in RULED:
            handler, params, several = self.ruled(eqn), {}, True
        elif handler is None and eqn.primitive.name == EXPANDED and not any(map(inexact, eqn.outvars)):
            # Those with results that are not integers have derivatives of their own.
            handler, params = self.parameter(expansion(eqn), line), {}
        elif handler is None:
            self.missing.setdefault(name, line)
            handler = PRIMITIVES["copy"]
        args = tuple(self.argument(v) for v in eqn.invars)
        return JaxEquation(name, handler, args, params, tuple(self.number(v) for v in eqn.outvars), several, line)

    def line_of(self, eqn: Any) -> str:
        """The user's line of an equation, or the one around it: that of a call which JAX or this library traced."""
        return line_of(eqn) or self.line

    def parameter(self, x: Any, line: str) -> Any:
        """A parameter, jaxprs among them as functions."""
        if hasattr(x, "jaxpr") and hasattr(x, "consts"):
            return JaxBody(JaxprReader(x.jaxpr, x.consts, self.missing, line).read())
        if hasattr(x, "eqns") and hasattr(x, "invars"):
            return JaxBody(JaxprReader(x, (), self.missing, line).read())
        if isinstance(x, tuple | list) and any(map(holds_jaxpr, x)):
            items = [self.parameter(item, line) for item in x]
            return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
        return x

    def drawn(self, eqn: Any) -> Callable[..., Any]:
        """The handler of a primitive on keys: the operation of their implementation on the words of the keys."""
        import jax

        out = is_key(eqn.outvars[0])
        impl = next(v.aval.dtype for v in [*eqn.invars, *eqn.outvars] if is_key(v))._impl
        f = {
            "random_bits": lambda k: impl.random_bits(k, eqn.params["bit_width"], eqn.params["shape"]),
            "random_split": lambda k: impl.split(k, eqn.params["shape"]),
            "random_seed": impl.seed,
            "random_fold_in": impl.fold_in,
        }[eqn.primitive.name]
        on = [is_key(v) for v in eqn.invars]
        for axis in range(max(v.aval.ndim for v in eqn.invars)):
            f = jax.vmap(f, [0 if v.aval.ndim > axis else None for v in eqn.invars])
        shapes = [
            words_of(v) if k else jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype)
            for v, k in zip(eqn.invars, on, strict=True)
        ]
        body = self.parameter(jax.make_jaxpr(f)(*shapes), self.line_of(eqn))

        def handler(*given: Any) -> list[Any]:
            made = body(*[unpacked(x) if k else x for x, k in zip(given, on, strict=True)])
            return [packed(x) if out else x for x in made]

        return handler

    def ruled(self, eqn: Any) -> Callable[..., Any]:
        """A function with a derivative of its own, traced by JAX when it is first needed."""
        stated = eqn.params["call_jaxpr"] if "call_jaxpr" in eqn.params else draw_of(eqn)
        body = self.parameter(stated, self.line_of(eqn))

        def f(*xs: Any) -> tuple[Any, ...]:
            return tuple(body(*xs))

        if RULED[eqn.primitive.name] == "tangent":
            made = custom_jvp(f)
            made.defjvp(TangentOfJax(eqn))
            return made
        captured = eqn.params.get("num_consts", 0)
        whole, rest = custom_vjp(f), custom_vjp(f)
        whole.defvjp(*pullback_of(eqn, 0))
        rest.defvjp(*pullback_of(eqn, captured))
        # JAX has no slope for an array that the rule closes over; a constant needs none.
        return lambda *xs: (whole if is_traced(xs[:captured]) else rest)(*xs)


def name_of(eqn: Any) -> str:
    """The name of a primitive; of one that states itself in terms of others, that of its class."""
    name: str = eqn.primitive.name
    return type(eqn.params["_prim"]).__name__ if name == EXPANDED else name


def expansion(eqn: Any) -> Any:
    """The jaxpr that a primitive states for itself."""
    import jax

    return jax.make_jaxpr(functools.partial(eqn.primitive.to_lojax, **eqn.params))(*structs(eqn.invars))


def draw_of(eqn: Any) -> Any:
    """The jaxpr of a draw, in which all numbers are drawn at once."""
    import jax

    f = functools.partial(eqn.primitive.impl, **eqn.params, use_vmap=True)
    return jax.make_jaxpr(f)(*structs(eqn.invars))


def holds_jaxpr(x: Any) -> bool:
    """Test whether a parameter is a jaxpr."""
    return hasattr(x, "eqns") or hasattr(x, "jaxpr")


def is_function(x: Any) -> bool:
    """Test whether a parameter is a function of Python's; a jaxpr may be called too, and so may a dtype."""
    return callable(x) and not hasattr(x, "jaxpr") and not isinstance(x, type)


def is_key(v: Any) -> bool:
    """Test whether a variable is an array of keys."""
    return holds_keys(v.aval)


def is_too_narrow(v: Any) -> bool:
    """Test whether a variable has numbers of a few bits, such as float8, which programs do not compute with."""
    return str(getattr(v.aval, "dtype", "")).startswith(("float8", "float4", "int4", "uint4", "int2", "uint2"))


def single(eqn: Any) -> Callable[..., Any]:
    """An equation as a function of JAX of its arguments, which returns a list."""

    def f(*given: Any) -> Any:
        found = eqn.primitive.get_bind_params(eqn.params)
        functions, params = found if isinstance(found, tuple) else ((), found)  # older versions of JAX have both
        return eqn.primitive.bind(*functions, *given, **params)

    return f


def words_of(v: Any) -> Any:
    """The shape and dtype of the words of keys."""
    import jax

    return jax.ShapeDtypeStruct((*v.aval.shape, *v.aval.dtype._impl.key_shape), np.uint32)


def structs(variables: Sequence[Any]) -> list[Any]:
    """The shapes and dtypes of variables, as JAX takes them."""
    import jax

    return [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in variables]


def inexact(v: Any) -> bool:
    """Test whether a variable has a derivative."""
    return not is_key(v) and np.dtype(v.aval.dtype).kind in "fcV"


class TangentOfJax:
    """The tangent rule of an equation, read from JAX when it is first asked for."""

    def __init__(self, eqn: Any) -> None:
        self.eqn = eqn
        self.body: JaxBody | None = None

    def __call__(self, primals: Any, tangents: Any) -> Any:
        import jax

        eqn = self.eqn
        moving = [i for i, v in enumerate(eqn.invars) if inexact(v)]
        if self.body is None:
            f = single(eqn)

            def slope(xs: Any, dxs: Any) -> Any:
                return jax.jvp(of_some(f, xs, moving), [xs[i] for i in moving], dxs)

            closed = jax.make_jaxpr(slope)(structs(eqn.invars), structs([eqn.invars[i] for i in moving]))
            self.body = JaxBody(read_jaxpr(closed))
        made = self.body(*primals, *[tangents[i] for i in moving])
        outs, slopes = made[: len(eqn.outvars)], made[len(eqn.outvars) :]
        # JAX's tangent of an integer is an array of float0, which holds nothing.
        real = [dy if inexact(v) else np.zeros(v.aval.shape) for v, dy in zip(eqn.outvars, slopes, strict=True)]
        return tuple(outs), tuple(real)


def of_some(f: Callable[..., Any], xs: Sequence[Any], places: Sequence[int]) -> Callable[..., Any]:
    """f as a function of its arguments at some places alone, with the others of `xs`."""

    def of(*own: Any) -> Any:
        new = list(xs)
        for i, x in zip(places, own, strict=True):
            new[i] = x
        return f(*new)

    return of


def pullback_of(eqn: Any, constants: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The two halves of the pullback of an equation in all but its first arguments, traced by JAX at the first use."""
    found: dict[str, Any] = {}
    moving = [i for i, v in enumerate(eqn.invars) if inexact(v) and i >= constants]

    def prepared() -> None:
        import jax

        f = single(eqn)

        def forward(*xs: Any) -> Any:
            outs, back = jax.vjp(of_some(f, xs, moving), *[xs[i] for i in moving])
            kept, found["structure"] = jax.tree_util.tree_flatten(back)
            return outs, kept

        closed = jax.make_jaxpr(forward)(*structs(eqn.invars))
        found["forward"] = JaxBody(read_jaxpr(closed))
        kept = closed.jaxpr.outvars[len(eqn.outvars) :]

        def backward(kept: Any, cotangents: Any) -> Any:
            return jax.tree_util.tree_unflatten(found["structure"], kept)(cotangents)

        closed = jax.make_jaxpr(backward)(structs(kept), structs(eqn.outvars))
        found["backward"] = JaxBody(read_jaxpr(closed))

    def forward(*xs: Any) -> Any:
        if not found:
            prepared()
        made = found["forward"](*xs)
        return tuple(made[: len(eqn.outvars)]), made[len(eqn.outvars) :]

    def backward(kept: Any, cotangents: Any) -> Any:
        made = iter(found["backward"](*kept, *cotangents))
        return tuple(next(made) if i in moving else None for i in range(len(eqn.invars)))

    return forward, backward


def line_of(eqn: Any) -> str:
    """The line that made an equation, `model.py:12`, or nothing where that is one of JAX or of this library."""
    try:
        from jax.extend import source_info_util

        text = str(source_info_util.summarize(eqn.source_info))
    except (ImportError, AttributeError):
        return ""
    place, _, _ = text.partition(" (")
    return os.path.basename(place) if ":" in place and not is_internal(place.partition(":")[0]) else ""
