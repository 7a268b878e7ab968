"""Control flow of lax: calls, branches, loops, and functions with derivatives of their own."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.frontend.checkpoint import checkpoint
from wholestep.frontend.control import cond, scan, while_loop
from wholestep.frontend.custom import custom_vjp
from wholestep.frontend.derivatives import vjp
from wholestep.frontend.printing import print as print_values
from wholestep.interop.handlers import Handlers

CONTROL = Handlers()
entry = CONTROL.entry

CONTROL.update(
    {
        "unvmap_any": lambda x: wnp.any(x),
        "unvmap_all": lambda x: wnp.all(x),
        "unvmap_max": lambda x: wnp.max(x),
        "nonbatchable": lambda x, **params: x,
        "select_if_vmap": wnp.where,
    }
)
"""The primitives of Equinox's loops, which are those of lax around them."""


@entry("jit", "closed_call", "custom_lin", "composite", "custom_jvp_call_jaxpr", "custom_vmap_call")
def call(*xs: Any, **params: Any) -> Any:
    return next(params[name] for name in ("jaxpr", "call_jaxpr", "call") if name in params)(*xs)


@entry("checkpoint", "remat2")
def rematerialized(*xs: Any, jaxpr: Callable[..., Any], **params: Any) -> Any:
    return checkpoint(lambda *given: tuple(jaxpr(*given)))(*xs)


@entry("cond")
def branch(index: Any, *xs: Any, branches: Sequence[Callable[..., Any]], **params: Any) -> Any:
    return chosen(index, list(branches), xs)


def chosen(index: Any, branches: list[Callable[..., Any]], xs: Sequence[Any]) -> Any:
    """The branch of a number, the last one for all numbers that are too large."""
    if len(branches) == 1:
        return tuple(branches[0](*xs))
    first, rest = branches[0], branches[1:]
    return cond(index <= 0, lambda *given: tuple(first(*given)), lambda *given: chosen(index - 1, rest, given), *xs)


@entry("while")
def loop(
    *xs: Any,
    cond_jaxpr: Callable[..., Any],
    body_jaxpr: Callable[..., Any],
    cond_nconsts: int,
    body_nconsts: int,
    **params: Any,
) -> Any:
    test, body = xs[:cond_nconsts], xs[cond_nconsts : cond_nconsts + body_nconsts]
    begin = tuple(xs[cond_nconsts + body_nconsts :])

    def advanced(c: Any) -> Any:
        # Each element of a batch keeps its value once its own test is false, while others go on.
        goes, made = cond_jaxpr(*test, *c)[0], tuple(body_jaxpr(*body, *c))
        if not wnp.ndim(goes):
            return made
        return tuple(
            [
                wnp.where(goes.reshape(*goes.shape, *[1] * (new.ndim - goes.ndim)), new, old)
                for new, old in zip(made, c, strict=True)
            ]
        )

    return while_loop(lambda c: wnp.any(cond_jaxpr(*test, *c)[0]), advanced, begin)


@entry("scan")
def scanned(*xs: Any, jaxpr: Callable[..., Any], length: int, reverse: bool, **params: Any) -> list[Any]:
    if "ft_in" in params:  # since JAX 0.12
        num_consts, num_carry, _ = map(len, params["ft_in"].unpack())
    else:
        num_consts, num_carry = params["num_consts"], params["num_carry"]
    consts, begin = xs[:num_consts], tuple(xs[num_consts : num_consts + num_carry])
    rows = tuple(xs[num_consts + num_carry :])

    def step(carry: Any, row: Any) -> Any:
        made = jaxpr(*consts, *carry, *(row if rows else ()))
        return tuple(made[:num_carry]), tuple(made[num_carry:])

    end, ys = scan(step, begin, rows if rows else None, length, reverse=reverse)
    return [*end, *ys]


@entry("debug_print")
def debug_print(
    *xs: Any, fmt: str, in_tree: Any, static_args: Sequence[tuple[int, Any]] = (), **params: Any
) -> list[Any]:
    """Print as `ws.print` does, in a compiled program too."""
    fixed, given = dict(static_args), iter(xs)
    leaves = [fixed[i] if i in fixed else next(given) for i in range(len(fixed) + len(xs))]
    args, kwargs = in_tree.unflatten(leaves)
    print_values(positional_format(fmt, len(args), list(kwargs)), *args, *kwargs.values())
    return []


def positional_format(form: str, count: int, names: Sequence[str]) -> str:
    """A format of `count` arguments and named ones as one of arguments alone, the named ones last."""
    places, parts = itertools.count(), []
    for text, field, spec, conversion in string.Formatter().parse(form):
        parts.append(text.replace("{", "{{").replace("}", "}}"))
        if field is not None:
            place = next(places) if not field else count + names.index(field) if field in names else field
            shown = f"!{conversion}" if conversion else ""
            parts.append(f"{{{place}{shown}:{spec}}}")
    return "".join(parts)


@entry("platform_index")
def platform_index(*, platforms: Sequence[Sequence[str] | None], **params: Any) -> Any:
    """The number of the branch for CPUs, or of the one for all that have none."""
    for i, names in enumerate(platforms):
        if names is None or "cpu" in names:
            return np.int32(i)
    raise UnsupportedError(f"from_jax: a function for {platforms} alone", hint="give it a branch for CPUs")


@entry("custom_linear_solve")
def linear_solve(*xs: Any, const_lengths: Sequence[int], jaxprs: Sequence[Any], **params: Any) -> list[Any]:
    ends = [sum(const_lengths[: i + 1]) for i in range(len(const_lengths))]
    groups = [xs[end - n : end] for end, n in zip(ends, const_lengths, strict=True)]
    return list(solved(list(jaxprs), groups, xs[ends[-1] :]))


TRANSPOSED = (1, 0, 3, 2)
"""The places of a system's product, transposed product, solution and transposed solution in its transpose."""


def solved(jaxprs: Sequence[Any], groups: Sequence[Sequence[Any]], b: Sequence[Any]) -> Any:
    """x of A x = b, with the derivative of that equation, and not of how x is found.

    `jaxprs` are A x, A^T x, the solution and that of the transpose; each takes the constants of its group first.
    """
    cuts = [sum(map(len, groups[:i])) for i in range(len(groups) + 1)]

    def parts(given: Sequence[Any]) -> list[Sequence[Any]]:
        return [given[a:z] for a, z in itertools.pairwise([*cuts, len(given)])]

    @custom_vjp
    def system(*given: Any) -> Any:
        held = parts(given)
        return tuple(jaxprs[2](*held[2], *held[4]))

    def forward(*given: Any) -> Any:
        x = system(*given)
        return x, (given, x)

    def backward(kept: Any, cotangents: Any) -> Any:
        given, x = kept
        if jaxprs[3] is None:
            raise UnsupportedError(
                "from_jax: custom_linear_solve without a transposed solution has no derivative in reverse mode",
                hint="give it transpose_solve=, or symmetric=True",
            )
        held = parts(given)
        y = solved([jaxprs[i] for i in TRANSPOSED], [held[i] for i in TRANSPOSED], cotangents)
        moving = [i for i, c in enumerate(held[0]) if dtypes.is_inexact(c.dtype)]

        def product(*floats: Any) -> Any:
            constants = list(held[0])
            for i, c in zip(moving, floats, strict=True):
                constants[i] = c
            return tuple(jaxprs[0](*constants, *x))

        slopes = dict(zip(moving, vjp(product, *[held[0][i] for i in moving])[1](tuple(-a for a in y)), strict=True))
        return (*[slopes.get(i) for i in range(cuts[-1])], *y)

    system.defvjp(forward, backward)
    return system(*[c for group in groups for c in group], *b)
