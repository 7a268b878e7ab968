"""Functions with a derivative or a name of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from wholestep import tree
from wholestep.errors import DerivativeError, TreeError
from wholestep.frontend.array import Array
from wholestep.frontend.assignments import with_assigned, without_assigned
from wholestep.frontend.printing import with_said, without_said
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.stated_rules import (
    CustomRule,
    DeclaredPullback,
    PullbackRule,
    TangentRule,
    body_graph,
    by_position,
    name_of,
    tangents_like,
)
from wholestep.frontend.tracing import Arguments, as_array, check_function
from wholestep.ir.build import current
from wholestep.primitives.arithmetic import add
from wholestep.primitives.family import zeros
from wholestep.primitives.structure import (
    composite as composite_primitive,
    custom_jvp as custom_jvp_primitive,
    custom_vjp as custom_vjp_primitive,
)

P = ParamSpec("P")
R = TypeVar("R")


class Ruled(Generic[P, R]):
    """A function with a derivative that the user states: the root of `custom_vjp` and `custom_jvp`."""

    primitive: Any
    rule_class: type[CustomRule]
    stated: str
    """The call that states the rule."""

    def __init__(self, f: Callable[P, R]) -> None:
        check_function(f, type(self).__name__)
        functools.update_wrapper(self, f)
        self.f: Callable[..., Any] = f
        self.rules: tuple[Callable[..., Any], ...] = ()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if current() is None:
            return self.f(*args, **kwargs)
        name = name_of(self.f)
        if not self.rules:
            raise DerivativeError(f"{name}: {type(self).__name__} without a rule", hint=f"call {self.stated} first")
        call = Arguments((by_position(self.f, args, kwargs, name), {}))
        traced = body_graph(call, ordinary(self.f), name)
        rule = self.rule_class(call, traced, name, *self.rules)
        captured = traced.captured
        outs = self.primitive(*call.values, *captured, graph=traced.graph, rule=rule, closed=len(captured))
        return traced.arrays(outs)


class custom_vjp(Ruled[P, R]):
    """A function whose reverse-mode derivative the user states.

    `fwd(*args)` returns `(out, residuals)`, any tree of arrays and plain values; `bwd(residuals, cotangent)` returns a
    tuple with one cotangent for each argument, or None. Forward mode is the transpose of the stated rule. Works
    under every transform.

    Shapes: those of f; cotangents have the shapes and dtypes of their arguments.
    Raises: DerivativeError where it is differentiated before `defvjp`; TreeError, ShapeError or DtypeError for a rule
    whose cotangents do not fit.

    >>> import numpy as np, wholestep as ws
    >>> @ws.custom_vjp
    ... def clipped(x):
    ...     return np.clip(x, 0.0, 1.0)
    >>> clipped.defvjp(lambda x: (np.clip(x, 0.0, 1.0), None), lambda _, g: (g,))
    >>> ws.grad(clipped)(5.0)
    np.float64(1.0)
    """

    primitive, rule_class, stated = custom_vjp_primitive, PullbackRule, "defvjp(fwd, bwd)"

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """State the two halves of the rule."""
        self.rules = (fwd, bwd)


class custom_jvp(Ruled[P, R]):
    """A function whose forward-mode derivative the user states; reverse mode is its transpose.

    `rule(primals, tangents)` returns `(out, tangent)`, the tangent linear in the tangents. Works under every transform.

    Shapes: those of f; `tangents` like `primals`, the tangent like the result.
    Raises: DerivativeError where it is differentiated before `defjvp`, TreeError for a rule that gives no such pair.

    >>> import numpy as np, wholestep as ws
    >>> @ws.custom_jvp
    ... def f(x):
    ...     return np.abs(x)
    >>> f.defjvp(lambda primals, tangents: (np.abs(primals[0]), 2.0 * tangents[0]))
    >>> ws.grad(f)(-1.0)
    np.float64(2.0)
    """

    primitive, rule_class, stated = custom_jvp_primitive, TangentRule, "defjvp(rule)"

    def defjvp(self, rule: Callable[..., Any]) -> None:
        """State the rule."""
        self.rules = (rule,)

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """State one rule for each operand; the tangent of the result is the sum of theirs.

        `rule(tangent, out, *primals)` gives the part that the tangent of its operand has, None stands for no part.

        >>> import numpy as np, wholestep as ws
        >>> product = ws.custom_jvp(lambda x, y: x * y)
        >>> product.defjvps(lambda dx, out, x, y: dx * y, None)
        >>> ws.grad(product, argnums=(0, 1))(2.0, 3.0)
        (np.float64(3.0), np.float64(0.0))
        """
        self.rules = (functools.partial(self.summed, rules),)

    def summed(self, rules: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[R, Any]:
        """The result and its tangent by rules for operands; raises TreeError where one misfits, or is missing."""
        name = name_of(self.f)
        if len(rules) < len(primals):
            raise TreeError(
                f"{name}: defjvps was given {len(rules)} rules for {len(primals)} operands",
                hint="give None for an operand without a derivative",
            )
        out: R = self(*primals)  # type: ignore[call-arg]  # whose operands are not those of this call
        leaves, structure = tree.flatten(out)
        types = [as_array(leaf, name).type for leaf in leaves]
        total = [zeros(t) for t in types]
        for rule, tangent in zip(rules, tangents, strict=False):
            if rule is not None:
                parts = tangents_like(types, structure, ordinary(rule)(tangent, out, *primals), name)
                total = [add(a, b) for a, b in zip(total, parts, strict=True)]
        return out, tree.unflatten(structure, [Array(v) for v in total])


class composite(Generic[P, R]):
    """A function that stays one named operation of the program, so that a backend may implement it as a whole.

    The operation has the name `name`, or that of f; its meaning and derivative are those of its body; `defvjp(rule)`
    may declare a pullback `rule(args, out, cotangent) -> cotangents` of the same value and less work, and `ws.testing`
    compares the two. With a pullback, automatic precision leaves the function in float32, unless `narrow` states that
    the rule is as accurate in half precisions.

    Shapes: those of f; a pullback gives cotangents of the types of the arguments.
    Raises: TreeError, ShapeError or DtypeError for a pullback whose cotangents do not fit, and the exceptions of f.

    >>> import numpy as np, wholestep as ws
    >>> softplus = ws.composite(lambda x: np.log1p(np.exp(x)), name="softplus")
    >>> ws.grad(softplus)(0.0)
    np.float64(0.5)
    """

    def __init__(self, f: Callable[P, R], *, name: str | None = None, narrow: bool = False) -> None:
        check_function(f, type(self).__name__)
        functools.update_wrapper(self, f)
        self.f: Callable[..., Any] = f
        self.label = name or name_of(f)
        self.narrow = narrow
        self.rule: Callable[..., Any] | None = None

    def defvjp(self, rule: Callable[..., Any]) -> None:
        """Declare a pullback: `rule(args, out, cotangent)` returns one cotangent for each argument."""
        self.rule = rule

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if current() is None:
            return self.f(*args, **kwargs)
        if self.rule is not None:
            call = Arguments((by_position(self.f, args, kwargs, self.label), {}))
        else:
            call = Arguments((args, kwargs))
        inside = with_said(with_assigned(ordinary(self.f), call.around(call.arrays)))
        traced = body_graph(call, inside, self.label)
        rule, closed = None, 0
        if self.rule is not None:
            rule, closed = DeclaredPullback(call, traced, self.label, self.rule, self.narrow), len(traced.captured)
        outs = composite_primitive(
            *call.values, *traced.captured, graph=traced.graph, label=self.label, rule=rule, closed=closed
        )
        made: R = without_assigned(without_said(traced.arrays(outs)))
        return made
